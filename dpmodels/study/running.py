"""A study run: each release charged once, read back where it was made before."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dpmodels.api.call import plan
from dpmodels.errors import (
    BudgetError,
    BudgetExceededError,
    DPModelsError,
    FormulaError,
    RequestError,
    SchemaError,
    StudyError,
    UnknownOptionError,
    UtilityWarning,
)
from dpmodels.lazy import pd
from dpmodels.privacy.account import joint
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.composition import Guarantee
from dpmodels.quiet import tell
from dpmodels.results import etable, load
from dpmodels.study.asked import (
    NOT_OPTIONS,
    Asked,
    Keys,
    Paper,
    after,
    call,
    charge_of_call,
    source_of,
)
from dpmodels.study.record import Folder, charges_of, hold_ledger, mark_of, record_text
from dpmodels.survey import Survey
from dpmodels.tables.table import Shown, Table, plain
from dpmodels.variables import TIME_UNITS
from dpmodels.verbs import verb_of


@dataclass
class Outcome:
    """Outcome of one release.

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
    def has_result(self) -> bool:
        """Whether there is a result."""
        return self.status in ("released", "computed")


class Ran(dict[str, Any], Shown):  # type: ignore[misc]
    """Study that ran: ``ran["wage"]`` is the fit of a release; ``missing`` lists absent results.

    Attributes
    ----------
    outcomes : list of Outcome
    folder : Path
    """

    def __init__(self, paper: Paper, outcomes: list[Outcome], folder: Path, mode: str) -> None:
        super().__init__((o.asked.name, o.fit) for o in outcomes if o.fit is not None)
        self.paper, self.outcomes, self.folder = paper, outcomes, folder
        self.rehearsal = mode == "rehearsal"
        lost = [f"{o.asked.name}: {o.status}. {o.reason}" for o in outcomes if not o.has_result]
        self.missing = lost + [
            f"{o.asked.name}, {follow_up.what}: {result}"
            for o in outcomes for follow_up, result in o.after if isinstance(result, str)
        ]  # fmt: skip

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was given."""
        return not self.missing

    def table(self) -> Table:
        """Return the outcome of each release."""
        rows = []
        for o in self.outcomes:
            pairs = [(c.guarantee.eps, c.guarantee.delta) for c in o.charges]
            paid = "; ".join(f"(eps = {eps:g}, delta = {delta:.3g})" for eps, delta in pairs)
            rows.append((o.asked.name, o.status + ", read back" * o.back, paid or "nothing"))
        title = "REHEARSAL: " * self.rehearsal + str(self.paper.get("study", "title"))
        heads = ("release", "outcome", "charged")
        return plain(heads, rows, title=title, notes=tuple(self.missing))

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

    def _give_back(self, charge: Any, run: Any) -> Any:
        return self.budget._give_back(charge, run)


def rows_of_run(paper: Paper, data: Any) -> Any:
    """Return the rows of a study, under its names and as its file says they are written."""
    columns, features = (paper.get("data", key, {}) for key in ("columns", "features"))
    return source_of(data, columns, paper.unit or "", features, paper.csv)


def run(paper: Paper, data: Any, ledger: Path, out: Path, *, again: bool) -> Ran:
    """Make the releases of a study on data."""
    rule = _checked(paper)
    rows = rows_of_run(paper, data)
    with hold_ledger(ledger):
        account: dict[str, Any] = paper.budget(rule)
        with suppress(BudgetError):  # not there, or a run was killed while it made it
            Budget.open_readonly(ledger)
            account = {}
        budget = Budget.open(ledger, **account)
        folder = Folder(out, {"study": paper.hash, "ledger": budget.token, "mode": "run"})
        faults = []
        for request in paper.releases:  # before the first charge
            if request.source or _file(folder, request).exists():
                continue
            try:
                with keep_warnings():
                    charge_of_call(request.verb, request.formula, rows, request.options,
                                 **paper.arguments(request))  # fmt: skip
            except DPModelsError as error:
                faults.append(fault_of(paper, request, error))
        if faults:
            raise StudyError([*in_order(faults), "Nothing was charged by this run."])
        return _all(paper, rows, budget, folder, again=again)


def rehearse(paper: Paper, out: Path) -> Ran:
    """Make the releases on rows made from the schema alone, in memory, with seeds."""
    budget = Budget(**paper.budget(_checked(paper)))
    folder = Folder(out, {"study": paper.hash, "ledger": "", "mode": "rehearsal"})
    with keep_warnings():
        return _all(paper, make_columns(paper), budget, folder, again=True)


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


def _file(folder: Folder, request: Asked) -> Path:
    return folder.path / "fits" / f"{request.name}.json"


def _all(paper: Paper, rows: Any, budget: Budget, folder: Folder, *, again: bool) -> Ran:
    """Make all releases, write the report, and the record last."""
    outcomes: dict[str, Outcome] = {}
    for request in paper.releases:
        outcome = outcomes[request.name] = (
            _computed(request, outcomes[request.source]) if request.source
            else _released(paper, request, rows, budget, folder, again=again)
        )  # fmt: skip
        for follow_up in request.after if outcome.has_result else ():
            result, problem = try_to_compute(
                lambda fit=outcome.fit, follow_up=follow_up: after(
                    fit, follow_up.what, follow_up.given, follow_up.options
                )
            )
            outcome.after.append((follow_up, f"not given: {problem}" if problem else result))
    mode = "run" if budget.token else "rehearsal"
    ran = Ran(paper, [*outcomes.values()], folder.path, mode)
    with keep_warnings():
        outputs = write(ran, folder)
    folder.finish(record_text(ran, outputs, budget), [name for name, _, _ in outputs])
    return ran


def _computed(request: Asked, source: Outcome) -> Outcome:
    """Compute a result of a study from an earlier release."""
    if not source.has_result:
        return Outcome(request, "not made", f"{request.source} gave no result")
    fit, problem = try_to_compute(
        lambda: call(request.verb, request.formula, source.fit, request.options)
    )
    if problem:
        return Outcome(request, "not made", problem)
    return Outcome(request, "computed" if fit.released else "no reply", fit=fit)


def _released(
    paper: Paper, request: Asked, rows: Any, budget: Budget, folder: Folder, *, again: bool
) -> Outcome:
    """Read a release back, or make it; a missing result is an outcome, not an error."""
    file, private = _file(folder, request), bool(budget.token)
    charges = charges_of(budget, paper.hash, request.name) if private else []
    if private and file.exists():
        fit = load(file)
        if not charges or fit.privacy.to_dict() != charges[-1].guarantee.to_dict():
            raise RequestError(
                f"fits/{file.name} is not what this ledger was charged for. Nothing was charged. "
                "Take it out of the folder, or use the ledger it was made with"
            )
        return _outcome(request, fit, charges, back=True)
    if charges and not again:
        return Outcome(
            request, "lost", "It was charged and its result is not in this folder. Run with the "
            "folder of that run, or charge it again: --again", charges=charges,
        )  # fmt: skip
    mark = mark_of(paper.hash, request.name, budget.token)
    arguments = paper.arguments(request) | ({} if private else {"seed": 1})
    problem = ""
    try:
        options = {**request.options}
        if options.get("on_no_reply") == "raise":  # an outcome of a study, which keeps its fit
            del options["on_no_reply"]
        fit = call(request.verb, request.formula, rows, options,
                   budget=_Marked(budget, mark), **arguments)  # fmt: skip
    except BudgetExceededError as error:
        return Outcome(request, "not made", str(error), charges=charges)
    except DPModelsError as error:  # its text may name a file: reported here, not in the folder
        problem = f"{type(error).__name__}: the message was shown where the study ran"
        tell(UtilityWarning(f"{request.name}: {error}"))
    except Exception as error:  # its text could quote a cell
        problem = f"unexpected {type(error).__name__}"
    charges = charges_of(budget, paper.hash, request.name)
    if problem:
        return Outcome(request, "lost" if charges else "not made", problem, charges=charges)
    folder.write(f"fits/{file.name}", fit.to_json())
    return _outcome(request, fit, charges)


def _outcome(request: Asked, fit: Any, charges: list[Any], *, back: bool = False) -> Outcome:
    """Return the outcome of a release with its charges."""
    reason = "" if fit.released else "A private test ended without an estimate; it is charged."
    if len(charges) > 1:
        reason = f"{reason} It was charged {len(charges)} times.".strip()
    return Outcome(request, "released" if fit.released else "no reply", reason, fit, charges, back)


# -- The report of a run: tables in files, and one page that needs no network.


_READ = (
    "Every number holds noise, drawn once: none is exact, and the data behind it cannot be worked "
    "out from it. Running the study again reads these numbers back.",
    "Errors and intervals allow for the sample and for the noise: an interval of 95 % covers what "
    "the same model would give on the population in 95 of 100 studies.",
    "n/d, or an empty cell: not determined, as the noise at this budget is too large for a test.",
    "The guarantee is of all releases together. Tests, tables, means and predictions computed from "
    "them cost nothing more, today or later: dp.load reads the files of the folder fits.",
)
Output = tuple[str, str, str]


def write(ran: Any, folder: Any) -> list[Output]:
    """Write all outputs except the record; return (name, kind, release) of each."""
    outputs, page = [], [_head(ran)]
    for outcome in ran.outcomes:
        name, fit = outcome.asked.name, outcome.fit
        page.append(_request_text(outcome))
        if fit is None:
            continue
        if not outcome.asked.source:
            outputs.append((f"fits/{name}.json", "fit", name))
        page += [_shown(fit), _picture(fit, name) if fit.released else ""]
        outputs += _files(ran, folder, fit, (name, "estimates", name))
        for k, (follow_up, result) in enumerate(outcome.after, 1):
            of = f": {escape(follow_up.given)}" if isinstance(follow_up.given, str) else ""
            page.append(f"<h3>{follow_up.what.capitalize()}{of}</h3>")
            if isinstance(result, str):
                page.append(_missing(result))
                continue
            page.append(_shown(result))
            outputs += _files(
                ran, folder, result, (f"{name}-{k}-{follow_up.what}", follow_up.what, name)
            )
    for side in ran.paper.sides:
        table, problem = None, "a fit of it was not given"
        if {*side.fits} <= {*ran}:
            table, problem = try_to_compute(lambda side=side: side_by_side(side, ran))
        page.append(f"<h2>{escape(side.title or side.name)}</h2>")
        if problem:
            ran.missing.append(f"table {side.name}: {problem}")
            page.append(_missing(problem))
            continue
        page.append(_shown(table))
        outputs += _files(ran, folder, table, (side.name, "table", ", ".join(side.fits)))
    if "html" in ran.paper.formats:
        folder.write("report.html", _page(ran, page))
        outputs.append(("report.html", "report", "all"))
    return outputs


def _files(ran: Any, folder: Any, result: Any, of: Output) -> list[Output]:
    """Write one table in the formats that were asked for; a rehearsal is marked in each."""
    table, out = _table(result), []
    if ran.rehearsal:
        notes = ("REHEARSAL: made-up rows", *table.notes)
        table = replace(table, title=f"REHEARSAL {table.title}".strip(), notes=notes)
    for fmt in (fmt for fmt in ran.paper.formats if fmt != "html"):
        name = f"tables/{of[0]}.{fmt}"
        if fmt == "docx":
            folder.write_word(name, table)
        elif fmt == "tex":
            folder.write(name, table.render("tex") + "\n")
        else:
            frame = _frame(result).assign(run="REHEARSAL" if ran.rehearsal else "release")
            folder.write(name, _no_formulas(frame).to_csv(index=False, lineterminator="\n"))
        out.append((name, *of[1:]))
    return out


def _no_formulas(frame: Any) -> Any:
    """Return the frame with an apostrophe before each text that a spreadsheet would compute."""

    def harmless(cell: Any) -> Any:
        if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")):
            return f"'{cell}"
        return cell

    return frame.rename(columns=harmless).apply(lambda column: column.map(harmless))


def _frame(result: Any) -> Any:
    """Return the numbers of a result as a frame."""
    if hasattr(result, "tidy"):
        return result.tidy()
    if isinstance(result, (pd.Series, pd.DataFrame)):
        frame = result.to_frame("value") if isinstance(result, pd.Series) else result
        named = any(isinstance(label, str) for label in frame.index)
        return frame.rename_axis("row").reset_index() if named else frame
    return pd.DataFrame({"value": [result]})


def _table(result: Any) -> Any:
    """Return a result as a table of ours."""
    if hasattr(result, "summary"):
        return result.summary().table()
    if hasattr(result, "table"):
        return result.table()
    frame = _frame(result)
    lines = (tuple(f"{x:.4g}" if isinstance(x, float) else str(x) for x in line)
             for line in frame.itertuples(index=False))  # fmt: skip
    return plain([str(c) for c in frame.columns], lines)


# -- the page -------------------------------------------------------------------------------------


def _missing(reason: str) -> str:
    return f'<p class="missing">Not given: {escape(reason)}</p>'


def _shown(result: Any) -> str:
    return f'<div class="wide">{_table(result).render("html")}</div>'


def _picture(fit: Any, name: str) -> str:
    """Return the picture of a fit inside the page; empty where there is none."""
    if find_spec("matplotlib") is None:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure, file = Figure(layout="constrained"), io.BytesIO()

    def draw() -> None:
        with mpl.rc_context({"svg.hashsalt": name}):
            fit.plot(figure.subplots())
            lines = max(len(ax.get_yticks()) for ax in figure.axes)
            figure.set_size_inches(6.4, min(1.4 + 0.38 * max(lines, 2), 14.0))
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})

    code = "" if try_to_compute(draw)[1] else base64.b64encode(file.getvalue()).decode()
    alt = f"Estimates of {escape(name)} with their intervals"
    return code and f'<img alt="{alt}" src="data:image/svg+xml;base64,{code}">'


def _request_text(outcome: Any) -> str:
    """Return the request of one release as text."""
    request = outcome.asked
    words = ", ".join(f"{k} = {v}" for k, v in request.options.items())
    paid = f"charged (eps = {request.eps:g}, delta = {request.delta:.3g})"
    paid = f"free, computed from {request.source}" if request.source else paid
    title = f"{verb_of('dp_' + request.verb).title}, <code>{escape(request.formula)}</code>"
    with_ = f", with {escape(words)}" if words else ""
    line = f"<h2>{escape(request.title or request.name)}</h2><p>Asked: {title}{with_}; {paid}.</p>"
    plainly = outcome.has_result and not outcome.reason
    return line + ("" if plainly else _missing(f"{outcome.status}. {outcome.reason}"))


def _head(ran: Any) -> str:
    """Return the head of a report: purpose, size, guarantee."""
    paper = ran.paper
    charges = [charge.guarantee for o in ran.outcomes for charge in o.charges]
    statement = joint(charges).statement() if charges else "nothing was charged"
    if ran.rehearsal:
        statement = "none is needed: the rows were made from the schema"
    met = {fit.nobs for fit in ran.values() if fit.nobs} - {paper.size}
    size = f"{paper.size:,} {'people' if paper.unit else 'rows'}"
    lines = [f"{key.title()}: {paper.get('study', key)}" for key in ("who", "why")
             if paper.get("study", key)]  # fmt: skip
    lines += [f"Planned for {size}" + "".join(f"; the data have {n:,}" for n in sorted(met)) + ".",
              f"Guarantee: {statement}."]  # fmt: skip
    if charges and not ran.rehearsal:
        lines += joint(charges).explain().sentences()
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _page(ran: Any, parts: list[str]) -> str:
    """Return the report as a page of HTML."""
    title = escape(str(ran.paper.get("study", "title")))
    mark = '<p class="mark">REHEARSAL: made-up rows, no result</p>' if ran.rehearsal else ""
    read = "".join(f"<li>{escape(text)}</li>" for text in _READ)
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join([parts[0], *map(_missing, ran.missing), *parts[1:]])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{'REHEARSAL: ' * ran.rehearsal}{title}</title><style>\n{style}</style></head>\n"
        f"<body>{mark}<h1>{title}</h1>\n{body}\n<h2>How to read it</h2><ul>{read}</ul>\n"
        f"<p>Study {ran.paper.hash[:12]}. What a checker asks is in record.json.</p>"
        "</body></html>\n"
    )


# -- What is wrong with a study, and what it will charge: no data is read


#: Rows on which what comes after a release is tried, with a budget that leaves little noise.
_TRIED, _PLENTY = 4000, {"eps": 200.0, "delta": 1e-3, "seed": 1}
#: Rows that a rehearsal makes at most.
MOST = 100_000
#: Expected errors up to this part of a declared range are fine, up to the second rough.
_FINE, _ROUGH = 0.02, 0.2


def make_columns(paper: Paper, most: int = MOST) -> dict[str, Any]:
    """Return columns made from the schema: uniform, levels equally likely, rows_per_unit ids."""
    rng = np.random.default_rng(20)  # the same rows each time: nothing here is private
    rows = max(1, round(float(paper.get("data", "rows_per_unit", 1)))) if paper.unit else 1
    units = max(1, min(paper.size, most // rows))
    out = {name: _cells(variable, units * rows, rng) for name, variable in paper.schema.items()}
    if paper.unit:
        out[paper.unit] = np.repeat(np.arange(1, units + 1), rows)
    return out


def _cells(variable: Any, n: int, rng: np.random.Generator) -> Any:
    """Return made-up cells of a declared variable, for a rehearsal."""
    levels = list(variable.codes or getattr(variable, "levels", None) or ())
    if levels or variable.kind == "text":
        return np.array(levels or ["made"])[rng.integers(0, len(levels) or 1, n)]
    low, high = variable.interval or (0.0, 1.0)
    if variable.kind == "date" or getattr(variable, "duration", None) is not None:
        return _times(variable, rng.uniform(low, high, n))
    is_integer = variable.kind in ("count", "binary")
    return rng.integers(0, int(high) + 1, n) if is_integer else rng.uniform(low, high, n)


def _times(variable: Any, numbers: Any) -> Any:
    """Return dates or durations of a variable, from numbers of its unit."""
    date = variable.kind == "date"
    unit = TIME_UNITS[variable.unit if date else variable.duration]
    ticks = np.round(numbers * unit).astype(np.int64) + (variable.start if date else 0)
    return ticks.astype("M8[us]" if date else "m8[us]")


@contextmanager
def keep_warnings(notes: list[str] | None = None) -> Iterator[None]:
    """Keep the warnings of a call instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if notes is not None:
        notes += dict.fromkeys(str(warning.message) for warning in caught)


def fault_of(paper: Paper, request: Asked, error: Exception) -> tuple[str, str]:
    """Return the place in the file that an error of a verb is about, and its text."""
    text = str(error)
    named = [
        k for k in request.options if re.search(rf"(\b{re.escape(k)}=|'{re.escape(k)}')", text)
    ]
    key: Keys = (*request.at, "formula")
    if isinstance(error, SchemaError):
        places, prefix = paper.schema_places
        for name in (name for name in paper.schema if f"'{name}'" in text):
            return places.line((*prefix, name)), text
    elif named and not isinstance(error, FormulaError):
        key = (*request.at, "options", named[0])
    elif isinstance(error, UnknownOptionError) and request.options:
        key = (*request.at, "options")
    if re.search("has no column|is not a column", text):
        text += '. Declare what the study uses: [schema.NAME] with type = "real", lower and upper'
    return paper.places.line(key), text


@dataclass(frozen=True)
class Outlook:
    """Forecast of the plan of one release."""

    asked: Asked
    guarantee: Guarantee | None
    forecast: str
    notes: tuple[str, ...] = ()


def _outlook(paper: Paper, request: Asked) -> Outlook:
    """Return the charge and the forecast of a planned release."""
    if request.source:
        return Outlook(request, None, "free")
    notes: list[str] = []
    arguments = paper.arguments(request)
    counted = {"units": paper.size} if paper.unit and paper.relation == "replace" else {}
    n = int(paper.get("data", "n", paper.size))
    blank = {name: np.broadcast_to(c[:1], (n,)) for name, c in make_columns(paper, 1).items()}
    with keep_warnings(notes):  # columns of the right types and length, of one cell each
        probe = charge_of_call(
            request.verb, request.formula, blank, request.options, **arguments, **counted
        )
    line = re.match(r'(\w+)\("(.*)", method=', probe.label, re.DOTALL)  # of the ledger
    forecast = ""
    for verb, formula in (
        (f"dp_{request.verb}", request.formula),
        line.groups() if line else ("", ""),
    ):
        with suppress(DPModelsError), keep_warnings():
            forecast = forecast or _forecast(paper, verb, formula, {**request.options, **arguments})
    return Outlook(request, probe.guarantee, forecast or "no forecast", tuple(notes))


def _forecast(paper: Paper, verb: str, formula: str, arguments: dict[str, Any]) -> str:
    """Return "fine", "rough" or "not determined", from the forecast of the plan."""
    if isinstance(arguments.get("design"), Mapping):
        arguments["design"] = Survey(**arguments["design"])
    planned = plan(formula, n=paper.size, verb=verb, **arguments)
    if planned.verdict:
        return planned.verdict
    widths = {c.name: c.interval[1] - c.interval[0] for c in planned.design.z if c.interval}
    worst = [se / widths[name] for name, se in planned.expected_se.items() if name in widths]
    if not worst:
        return "no forecast"
    return "fine" if max(worst) <= _FINE else "rough" if max(worst) <= _ROUGH else "not determined"


#: Note where a budget of plain sums is chosen because Gaussian accounting does not hold the plan.
_PLAIN_SUMS = (
    "The releases fit only as plain sums of eps and delta, so the ledger begins with them: it will "
    "hold fewer later releases by Gaussian noise than Gaussian accounting. A slightly larger eps "
    'of the budget avoids this ([budget] accounting = "gaussian" or "sums" decides).'
)


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """Result of a check: ``problems``, each with its place, or the plan of the releases.

    ``total`` is the guarantee of all together, ``left`` what the budget has left, ``rule`` the
    stopping rule under which they fit.
    """

    title: str
    problems: tuple[str, ...]
    outlooks: tuple[Outlook, ...] = ()
    total: Guarantee | None = None
    left: str = ""
    rule: str = "auto"

    @property
    def ok(self) -> bool:
        """Whether the study can run."""
        return not self.problems

    def table(self) -> Table:
        """Return the faults, or the plan."""
        if self.problems or self.total is None:
            rows = [(text,) for text in self.problems]
            return plain(("what to mend",), rows, title=f"{self.title}: cannot run")
        lines = [
            (o.asked.name, f"{o.asked.verb}: {o.asked.formula}", f"{o.asked.eps:g}",
             f"{o.asked.delta:.3g}", o.forecast)
            for o in self.outlooks
        ]  # fmt: skip
        return plain(
            ("release", "what", "eps", "delta", "forecast"), lines,
            title=f"{self.title}: can run (no data read, nothing charged)",
            facts=(("Together", self.total.statement()), ("Left of the budget", self.left)),
            notes=(
                *(f"{o.asked.name}: {note}" for o in self.outlooks for note in o.notes),
                *((_PLAIN_SUMS,) if self.rule == "basic" else ()),
            ),
        )  # fmt: skip


def check(paper: Paper, ledger: Any = None) -> Checked:
    """Find every fault of a study, and plan its releases. Reads no data."""
    faults, outlooks = list(paper.faults), []
    needed = (paper.get("budget", "eps"), paper.get("data", "units" if paper.unit else "n"))
    if all(isinstance(x, (int, float)) and x > 0 for x in needed) and paper.schema:
        for request in paper.releases:
            usable = (
                request.name
                and request.verb
                and request.formula
                and (request.eps or request.source)
            )
            if not usable or NOT_OPTIONS.keys() & request.options.keys():
                continue  # a fault was noted
            try:
                outlooks.append(_outlook(paper, request))
            except DPModelsError as error:
                faults.append(fault_of(paper, request, error))
            except Exception as error:
                text = f"refused ({type(error).__name__}): see help(dp.dp_{request.verb})"
                faults.append((paper.places.line((*request.at, "options")), text))
        faults += _rehearse(paper, outlooks)
    title = str(paper.get("study", "title", "Study"))
    if not faults:
        faults, rule, account = _charged(paper, outlooks, ledger)
    if faults:
        return Checked(title, in_order(faults))
    left = account.remaining()
    total = joint([o.guarantee for o in outlooks if o.guarantee is not None])
    text = f"(eps = {left.eps:.4g}, delta = {left.delta:.3g})"
    return Checked(title, (), tuple(outlooks), total, text, rule)


def in_order(faults: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return faults by line, each once."""
    def place(fault: tuple[str, str]) -> tuple[str, int]:
        name, line, _ = fault[0].rsplit(":", 2)
        return name, int(line)

    return tuple(f"{where}: {text}" for where, text in dict.fromkeys(sorted(faults, key=place)))


def _charged(paper: Paper, outlooks: list[Outlook], ledger: Any) -> tuple[Any, str, Any]:
    """Charge an account with the plan; use plain sums if other rules refuse and sums fit."""
    attempts = []
    rules = ("auto", "basic") if paper.get("budget", "accounting") is None else ("auto",)
    for rule in rules if ledger is None else ("",):
        opened = Budget(**paper.budget(rule)) if ledger is None else Budget.open_readonly(ledger)
        account, short = opened.account, []
        for request, guarantee in ((o.asked, o.guarantee) for o in outlooks if o.guarantee):
            try:
                account, _ = account.admit(guarantee)
            except DPModelsError as error:
                release = paper.said["release"][request.at[1]]
                key = "share" if "share" in release else "eps"
                short.append((paper.places.line((*request.at, key)), str(error)))
        attempts.append((short, rule, account))
    return next((attempt for attempt in attempts if not attempt[0]), attempts[0])


def _rehearse(paper: Paper, outlooks: list[Outlook]) -> Iterator[tuple[str, str]]:
    """Run all parts that need a fit on made-up rows: fits on released moments, results, tables."""
    needed = {name for side in paper.sides for name in side.fits}
    needed |= {o.asked.source for o in outlooks}
    fits: dict[str, Any] = {}
    rows = make_columns(paper, _TRIED)
    for request in (o.asked for o in outlooks):
        if not (request.after or request.source or request.name in needed):
            continue
        arguments = {} if request.source else {**paper.arguments(), **_PLENTY}
        try:
            with keep_warnings():
                fit = call(request.verb, request.formula,
                                 fits[request.source] if request.source else rows,
                                 request.options, **arguments)  # fmt: skip
        except (DPModelsError, KeyError) as error:
            if request.source in fits:
                yield fault_of(paper, request, error)
            continue
        fits[request.name] = fit
        for follow_up in request.after if fit.released else ():
            _, problem = try_to_compute(
                lambda fit=fit, follow_up=follow_up: after(
                    fit, follow_up.what, follow_up.given, follow_up.options
                )
            )
            if (
                problem and "not determined" not in problem
            ):  # that is of made rows, no fault of the study
                yield paper.places.line(follow_up.at), f"{follow_up.what}: {problem}"
    for side in (side for side in paper.sides if side.fits and {*side.fits} <= {*fits}):
        _, problem = try_to_compute(lambda side=side: side_by_side(side, fits))
        if problem:
            where = paper.places.line((*side.at, "options"))
            yield where, f"{problem}. options are those of dp.etable: {{digits = 3, stars = true}}"


def try_to_compute(compute: Any) -> tuple[Any, str]:
    """Return a result computed from released numbers, and why it failed (empty if it did not)."""
    try:
        with keep_warnings():
            return compute(), ""
    except (DPModelsError, AttributeError) as error:
        return None, str(error)
    except Exception as error:
        return None, f"the call was refused ({type(error).__name__})"


def side_by_side(side: Any, fits: Mapping[str, Any]) -> Any:
    """Return the table of several fits."""
    options = {k: v for k, v in side.options.items() if k not in ("file", "type")}
    return etable([fits[name] for name in side.fits], title=side.title or side.name, **options)
