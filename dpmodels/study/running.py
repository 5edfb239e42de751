"""A study run: each release charged once, read back where it was made before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpmodels.errors import (
    BudgetError,
    BudgetExceededError,
    DPModelsError,
    RequestError,
    StudyError,
    UtilityWarning,
)
from dpmodels.privacy.budget import Budget
from dpmodels.quiet import tell
from dpmodels.study.asked import Asked, Paper, after, call, probed, source_of
from dpmodels.study.checking import check, failure, fault_of, in_order, made, noted
from dpmodels.study.record import Folder, charges_of, held, mark_of, record_text
from dpmodels.tables.table import Shown, Table, plain


@dataclass
class Outcome:
    """What became of one release.

    ``status``: "released", "computed" (free, on an earlier one), "no reply", "not made" (nothing
    was charged), "lost" (charged, and not written). ``after``: results, or why there is none.
    """

    asked: Asked
    status: str
    reason: str = ""
    fit: Any = None
    charges: list[Any] = field(default_factory=list)
    back: bool = False
    after: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def given(self) -> bool:
        """Whether there is a result."""
        return self.status in ("released", "computed")


class Ran(dict[str, Any], Shown):  # type: ignore[misc]
    """A study that ran: ``ran["wage"]`` is the fit of a release; ``missing``: what is not.

    Attributes
    ----------
    outcomes : list of Outcome
    folder : Path
    """

    def __init__(self, paper: Paper, outcomes: list[Outcome], folder: Path, mode: str) -> None:
        super().__init__((o.asked.name, o.fit) for o in outcomes if o.fit is not None)
        self.paper, self.outcomes, self.folder = paper, outcomes, folder
        self.rehearsal = mode == "rehearsal"
        lost = [f"{o.asked.name}: {o.status}. {o.reason}" for o in outcomes if not o.given]
        self.missing = lost + [
            f"{o.asked.name}, {one.what}: {found}"
            for o in outcomes for one, found in o.after if isinstance(found, str)
        ]  # fmt: skip

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was given."""
        return not self.missing

    def table(self) -> Table:
        """Return what became of each release."""
        rows = []
        for o in self.outcomes:
            pairs = [(c.guarantee.eps, c.guarantee.delta) for c in o.charges]
            paid = "; ".join(f"(eps = {eps:g}, delta = {delta:.3g})" for eps, delta in pairs)
            rows.append((o.asked.name, o.status + ", read back" * o.back, paid or "nothing"))
        title = "REHEARSAL: " * self.rehearsal + str(self.paper.get("study", "title"))
        table = plain(("release", "outcome", "charged"), rows)
        return replace(table, title=title, notes=tuple(self.missing))

    __str__, __repr__ = Shown.__str__, Shown.__str__


@dataclass(frozen=True)
class _Marked:
    """The ledger of one release: its line bears the identity by which a later run knows it."""

    budget: Budget
    mark: str

    def charge(self, label: str, guarantee: Any) -> Any:
        return self.budget.charge(label + self.mark, guarantee)

    def note(self, charge: Any, step: str, text: str) -> None:
        self.budget.note(charge, step, text)


def run(paper: Paper, data: Any, ledger: Path, out: Path, *, again: bool) -> Ran:
    """Make the releases of a study on data."""
    rule = _checked(paper)
    columns, features = (paper.get("data", key, {}) for key in ("columns", "features"))
    rows = source_of(data, columns, paper.unit or "", features)
    with held(ledger):
        there: dict[str, Any] = paper.budget(rule)
        with suppress(BudgetError):  # not there, or a run was killed while it made it
            Budget.open_readonly(ledger)
            there = {}
        budget = Budget.open(ledger, **there)
        folder = Folder(out, {"study": paper.hash, "ledger": budget.token, "mode": "run"})
        faults = []
        for asked in paper.releases:  # before the first charge
            if asked.source or _file(folder, asked).exists():
                continue
            try:
                with noted():
                    probed(asked.verb, asked.formula, rows, asked.options,
                                 **paper.arguments(asked))  # fmt: skip
            except DPModelsError as error:
                faults.append(fault_of(paper, asked, error))
        if faults:
            raise StudyError([*in_order(faults), "Nothing was charged by this run."])
        return _all(paper, rows, budget, folder, again=again)


def rehearse(paper: Paper, out: Path) -> Ran:
    """Make the releases on rows made from the schema alone, in memory, with seeds."""
    budget = Budget(**paper.budget(_checked(paper)))
    folder = Folder(out, {"study": paper.hash, "ledger": "", "mode": "rehearsal"})
    with noted():
        return _all(paper, made(paper), budget, folder, again=True)


def _checked(paper: Paper) -> str:
    """Refuse a study with faults; return the rule under which its releases fit its budget."""
    checked = check(paper)
    if not checked.ok:
        raise StudyError(checked.problems)
    if "docx" in paper.formats and find_spec("docx") is None:  # of this machine, not of the study
        raise StudyError([f"{paper.places.line(('report', 'formats'))}: a Word file needs "
                          "python-docx, which is not installed here: pip install python-docx",
                          "Nothing was charged by this run."])  # fmt: skip
    return checked.rule


def _file(folder: Folder, asked: Asked) -> Path:
    return folder.path / "fits" / f"{asked.name}.json"


def _all(paper: Paper, rows: Any, budget: Budget, folder: Folder, *, again: bool) -> Ran:
    """Make all releases, write the report, and the record last."""
    from dpmodels.study.report import write

    outcomes: dict[str, Outcome] = {}
    for asked in paper.releases:
        outcome = outcomes[asked.name] = (
            _computed(asked, outcomes[asked.source]) if asked.source
            else _released(paper, asked, rows, budget, folder, again=again)
        )  # fmt: skip
        for one in asked.after if outcome.given else ():
            found: list[Any] = []
            said = failure(lambda outcome=outcome, one=one, found=found: found.append(
                after(outcome.fit, one.what, one.given, one.options)))  # fmt: skip
            outcome.after.append((one, f"not given: {said}" if said else found[0]))
    mode = "run" if budget.token else "rehearsal"
    ran = Ran(paper, [*outcomes.values()], folder.path, mode)
    with noted():
        outputs = write(ran, folder)
    folder.finish(record_text(ran, outputs, budget), [name for name, _, _ in outputs])
    return ran


def _computed(asked: Asked, source: Outcome) -> Outcome:
    if not source.given:
        return Outcome(asked, "not made", f"{asked.source} gave no result")
    found: list[Any] = []
    said = failure(lambda: found.append(
        call(asked.verb, asked.formula, source.fit, asked.options)))  # fmt: skip
    if said:
        return Outcome(asked, "not made", said)
    return Outcome(asked, "computed" if found[0].released else "no reply", fit=found[0])


def _released(
    paper: Paper, asked: Asked, rows: Any, budget: Budget, folder: Folder, *, again: bool
) -> Outcome:
    """Read a release back, or make it; what it did not give is an outcome, no error."""
    from dpmodels.results import load

    file, private = _file(folder, asked), bool(budget.token)
    charges = charges_of(budget, paper.hash, asked.name) if private else []
    if private and file.exists():
        fit = load(file)
        if not charges or fit.privacy.to_dict() != charges[-1].guarantee.to_dict():
            raise RequestError(
                f"fits/{file.name} is not what this ledger was charged for. Nothing was charged. "
                "Take it out of the folder, or use the ledger it was made with"
            )
        return _outcome(asked, fit, charges, back=True)
    if charges and not again:
        return Outcome(
            asked, "lost", "It was charged and its result is not in this folder. Run with the "
            "folder of that run, or charge it again: --again", charges=charges,
        )  # fmt: skip
    mark = mark_of(paper.hash, asked.name, budget.token)
    given = paper.arguments(asked) | ({} if private else {"seed": 1})
    problem = ""
    try:
        fit = call(asked.verb, asked.formula, rows, asked.options,
                         budget=_Marked(budget, mark), **given)  # fmt: skip
    except BudgetExceededError as error:
        return Outcome(asked, "not made", str(error), charges=charges)
    except DPModelsError as error:  # its text may name a file: said here, and not in the folder
        problem = f"{type(error).__name__}: the message was shown where the study ran"
        tell(UtilityWarning(f"{asked.name}: {error}"))
    except Exception as error:  # its text could quote a cell
        problem = f"unexpected {type(error).__name__}"
    charges = charges_of(budget, paper.hash, asked.name)
    if problem:
        return Outcome(asked, "lost" if charges else "not made", problem, charges=charges)
    folder.write(f"fits/{file.name}", fit.to_json())
    return _outcome(asked, fit, charges)


def _outcome(asked: Asked, fit: Any, charges: list[Any], *, back: bool = False) -> Outcome:
    reason = "" if fit.released else "A private test did not pass; it is paid for."
    if len(charges) > 1:
        reason = f"{reason} It was charged {len(charges)} times.".strip()
    return Outcome(asked, "released" if fit.released else "no reply", reason, fit, charges, back)
