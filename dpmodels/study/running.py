"""A study run: each release charged once, read back where it was made before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpmodels.errors import (
    BudgetExceededError,
    DPModelsError,
    NotPrivateWarning,
    RequestError,
    StudyError,
    UtilityWarning,
)
from dpmodels.privacy.ledger import Budget
from dpmodels.quiet import tell
from dpmodels.study import calls
from dpmodels.study.asked import Asked, Paper
from dpmodels.study.checking import check, made, noted, place_of, trial
from dpmodels.study.folder import Folder, held
from dpmodels.tables import Shown, Table, plain


@dataclass
class Outcome:
    """What became of one release.

    Attributes
    ----------
    status : str
        "released", "computed" (free, on an earlier one), "no reply", "not made" (nothing was
        charged), "lost" (charged, and not written).
    reason : str
        Why there is no result, or what else a checker should know.
    charges : list of Charge
        Of this release in the ledger: one, unless it was charged again.
    after : list of (After, result or text)
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


class Ran(Mapping[str, Any], Shown):  # type: ignore[misc]
    """A study that ran: ``ran["wage"]`` is the fit of a release.

    Attributes
    ----------
    outcomes : list of Outcome
    folder : Path
    missing : list of str
        What was asked for and not given, in words.
    """

    def __init__(self, paper: Paper, outcomes: list[Outcome], folder: Path) -> None:
        self.paper, self.outcomes, self.folder = paper, outcomes, folder
        self.missing = [
            f"{o.asked.name}: {o.status}. {o.reason}".strip() for o in outcomes if not o.given
        ]
        self.missing += [
            f"{o.asked.name}, {one.what}: {found}"
            for o in outcomes for one, found in o.after if isinstance(found, str)
        ]  # fmt: skip

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was given."""
        return not self.missing

    def __getitem__(self, name: str) -> Any:
        for outcome in self.outcomes:
            if outcome.asked.name == name and outcome.fit is not None:
                return outcome.fit
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (o.asked.name for o in self.outcomes if o.fit is not None)

    def __len__(self) -> int:
        return sum(o.fit is not None for o in self.outcomes)

    def table(self) -> Table:
        """Return what became of each release."""
        rows = [
            (o.asked.name, o.status + (", read back" if o.back else ""),
             "; ".join(f"(eps = {c.guarantee.eps:g}, delta = {c.guarantee.delta:.3g})"
                       for c in o.charges) or "nothing")
            for o in self.outcomes
        ]  # fmt: skip
        return replace(
            plain(("release", "outcome", "charged"), rows),
            title=str(self.paper.get("study", "title")), notes=tuple(self.missing),
        )  # fmt: skip

    def __repr__(self) -> str:
        return self.as_text()


class _Marked:
    """The ledger of one release: its line bears the identity by which a later run knows it."""

    def __init__(self, budget: Budget, name: str, identity: str) -> None:
        self._budget, self._mark = budget, f"{name} of study {identity}"

    def charge(self, label: str, guarantee: Any) -> Any:
        return self._budget.charge(f"{label} | {self._mark}", guarantee)

    def note(self, charge: Any, step: str, text: str) -> None:
        self._budget.note(charge, step, text)


def identity(study: str, name: str, token: str) -> str:
    """Return the identity of a release: of this study, on this ledger."""
    return hashlib.sha256(f"{study}\n{name}\n{token}".encode()).hexdigest()[:32]


def charges_of(budget: Budget, study: str, name: str) -> list[Any]:
    """Return the charges of a release in a ledger."""
    mark = f"| {name} of study {identity(study, name, budget.token)}"
    return [charge for charge in budget.charges if charge.call.endswith(mark)]


def run(paper: Paper, data: Any, ledger: Path, out: Path, *, again: bool) -> Ran:
    """Make the releases of a study on data."""
    checked = check(paper)
    if not checked.ok:
        raise StudyError(checked.problems)
    rows = calls.source_of(data, paper.get("data", "columns", {}))
    with held(ledger):
        budget = _opened(paper, ledger, checked.rule)
        whose = {"study": paper.hash, "ledger": budget.token, "mode": "run"}
        folder = Folder(out, whose)
        todo = [a for a in paper.releases if not a.source and not _file(folder, a).exists()]
        _accepted(paper, todo, rows)
        outcomes: list[Outcome] = []
        for asked in paper.releases:
            outcomes.append(_made(paper, asked, rows, budget, folder, outcomes, again=again))
        return _written(paper, outcomes, folder, whose, budget)


def rehearse(paper: Paper, out: Path) -> Ran:
    """Make the releases on rows made from the schema alone, in memory, with seeds."""
    checked = check(paper)
    if not checked.ok:
        raise StudyError(checked.problems)
    rows = made(paper)
    budget = Budget(paper.eps, paper.delta, relation=paper.relation, unit=paper.unit or "record",
                    rule=checked.rule)  # fmt: skip
    whose = {"study": paper.hash, "ledger": "", "mode": "rehearsal"}
    folder = Folder(out, whose)
    outcomes: list[Outcome] = []
    for asked in paper.releases:
        outcomes.append(_made(paper, asked, rows, budget, folder, outcomes, again=True))
    return _written(paper, outcomes, folder, whose, budget)


def _opened(paper: Paper, ledger: Path, rule: str) -> Budget:
    """Open the ledger of a project; a new one has the budget of the study."""
    if ledger.exists() and ledger.stat().st_size:
        return Budget.open(ledger)
    return Budget.open(
        ledger, eps=paper.eps, delta=paper.delta, relation=paper.relation,
        unit=paper.unit or "record", rule=rule,
    )  # fmt: skip


def _accepted(paper: Paper, todo: list[Asked], rows: Any) -> None:
    """Refuse the study before anything is charged, where a release cannot be made on these data."""
    faults = []
    for asked in todo:
        pair = {"eps": asked.eps, "delta": asked.delta}
        try:
            with noted():
                calls.probed(asked.verb, asked.formula, rows, asked.options,
                             **paper.arguments(), **pair)  # fmt: skip
        except DPModelsError as error:
            faults.append(f"{place_of(paper, asked, error)}: {error}")
    if faults:
        raise StudyError([*faults, "Nothing was charged."])


def _file(folder: Folder, asked: Asked) -> Path:
    return folder.path / "fits" / f"{asked.name}.json"


def _made(
    paper: Paper, asked: Asked, rows: Any, budget: Budget, folder: Folder,
    earlier: list[Outcome], *, again: bool,
) -> Outcome:  # fmt: skip
    """Make one release, or read it back; what it did not give is an outcome, no error."""
    if asked.source:
        outcome = _computed(asked, earlier)
    else:
        outcome = _released(paper, asked, rows, budget, folder, again=again)
    if outcome.given:
        for one in asked.after:
            outcome.after.append((one, _after(outcome.fit, one)))
    return outcome


def _after(fit: Any, one: Any) -> Any:
    """Return what comes after a release, or why it does not."""
    try:
        with noted():
            return calls.after(fit, one.what, one.given, one.options)
    except (DPModelsError, AttributeError) as error:
        return f"not given: {error}"
    except Exception as error:  # of released numbers alone: its kind may be said
        return f"not given ({type(error).__name__})"


def _computed(asked: Asked, earlier: list[Outcome]) -> Outcome:
    source = next(o for o in earlier if o.asked.name == asked.source)
    if not source.given:
        return Outcome(asked, "not made", f"{asked.source} gave no result")
    try:
        with noted():
            fit = calls.call(asked.verb, asked.formula, source.fit, asked.options)
    except DPModelsError as error:
        return Outcome(asked, "not made", str(error))
    return Outcome(asked, "computed" if fit.released else "no reply", fit=fit)


def _released(
    paper: Paper, asked: Asked, rows: Any, budget: Budget, folder: Folder, *, again: bool
) -> Outcome:
    from dpmodels.results import load

    private = bool(budget.token)
    charges = charges_of(budget, paper.hash, asked.name) if private else []
    file = _file(folder, asked)
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
    given = {**paper.arguments(), "eps": asked.eps, "delta": asked.delta}
    if private:
        given["budget"] = _Marked(
            budget, asked.name, identity(paper.hash, asked.name, budget.token)
        )
    else:
        given |= {"budget": budget, "seed": trial(paper)["seed"]}
    problem = ""
    try:
        with nullcontext() if private else _quietly():
            fit = calls.call(asked.verb, asked.formula, rows, asked.options, **given)
    except BudgetExceededError as error:
        return Outcome(asked, "not made", str(error), charges=charges)
    except DPModelsError as error:  # its text may name a file: said here, and not in the folder
        problem = f"{type(error).__name__}: the message was shown where the study ran"
        tell(UtilityWarning(f"{asked.name}: {error}"))
    except Exception as error:  # its text could quote a cell
        problem = f"unexpected {type(error).__name__}"
    charges = charges_of(budget, paper.hash, asked.name) if private else [*budget.charges][-1:]
    if problem:
        return Outcome(asked, "lost" if charges else "not made", problem, charges=charges)
    folder.write(f"fits/{file.name}", fit.to_json())
    return _outcome(asked, fit, charges)


def _outcome(asked: Asked, fit: Any, charges: list[Any], *, back: bool = False) -> Outcome:
    again = f"It was charged {len(charges)} times." if len(charges) > 1 else ""
    status = "released" if fit.released else "no reply"
    reason = again or ("" if fit.released else "A private test did not pass; it is paid for.")
    return Outcome(asked, status, reason, fit, charges, back)


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out that seeded noise is not private: every page of a rehearsal says so."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        yield


def _written(
    paper: Paper, outcomes: list[Outcome], folder: Folder, whose: Mapping[str, Any], budget: Budget
) -> Ran:
    """Write the report, and the record last."""
    from dpmodels.study.record import record_text
    from dpmodels.study.report import write

    ran = Ran(paper, outcomes, folder.path)
    with noted():
        outputs = write(ran, folder, rehearsal=whose["mode"] == "rehearsal")
    folder.finish(record_text(ran, whose, outputs, budget), [name for name, _, _ in outputs])
    return ran
