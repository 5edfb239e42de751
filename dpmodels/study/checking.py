"""A study held against what its verbs and its budget take; reads no data, charges nothing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.errors import DPModelsError, FormulaError, SchemaError, UnknownOptionError
from dpmodels.privacy.guarantee import Guarantee, joint
from dpmodels.study import calls
from dpmodels.study.asked import Asked, Paper
from dpmodels.study.places import Keys
from dpmodels.tables import Shown, Table, plain

#: Rows on which what comes after a release is tried, and their budget: it is about names.
_TRIED, _EPS, _DELTA = 4000, 200.0, 1e-3
#: Rows that a rehearsal makes at most.
MOST = 100_000
#: Expected errors up to this part of a declared range are fine, up to the second rough.
_FINE, _ROUGH = 0.02, 0.2
_FORECAST = {"below": "fine", "between": "rough", "above": "not determined"}


# -- Rows that are made from the schema alone


def made(paper: Paper, most: int = MOST) -> dict[str, Any]:
    """Return columns: uniform within ranges, levels equally likely, ids as rows_per_unit says."""
    rng = np.random.default_rng(20)  # the same rows each time: nothing here is private
    out: dict[str, Any] = {}
    n = min(paper.size, most)
    if paper.unit:
        rows = max(1, round(float(paper.get("data", "rows_per_unit", 1))))
        people = max(1, min(paper.size, most // rows))
        out[paper.unit] = np.repeat(np.arange(1, people + 1), rows)
        n = people * rows
    for name, variable in paper.schema.items():
        if name not in out:
            out[name] = _cells(variable, n, rng)
    return out


def blank(paper: Paper) -> dict[str, Any]:
    """Return columns of the right types and length without a cell of their own."""
    few = made(paper, 1)
    n = paper.size if not paper.unit else int(paper.get("data", "n", paper.size))
    return {name: np.broadcast_to(column[:1], (n,)) for name, column in few.items()}


def _cells(variable: Any, n: int, rng: np.random.Generator) -> Any:
    if variable.kind == "text":
        return np.array(["made"] * n)
    if variable.codes or getattr(variable, "levels", None):
        levels = list(variable.codes or variable.levels)
        column = np.empty(len(levels), dtype=object)
        column[:] = levels
        if len({type(level) for level in levels}) == 1:
            column = np.array(levels)
        return column[rng.integers(0, len(levels), n)]
    low, high = variable.interval or (0.0, 1.0)
    if variable.kind in ("count", "binary"):
        return rng.integers(0, int(high) + 1, n)
    return rng.uniform(low, high, n)


# -- One release


@dataclass(frozen=True)
class Outlook:
    """What a plan says of one release."""

    asked: Asked
    label: str
    guarantee: Guarantee | None
    forecast: str
    notes: tuple[str, ...]


@contextmanager
def noted(notes: list[str] | None = None) -> Iterator[None]:
    """Keep the warnings of a call instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if notes is not None:
        notes += dict.fromkeys(str(one.message) for one in caught)


def place_of(paper: Paper, asked: Asked, error: Exception) -> str:
    """Return the place in the file that an error of a verb is about."""
    text = str(error)
    named = [k for k in asked.options if re.search(rf"(\b{re.escape(k)}=|'{re.escape(k)}')", text)]
    key: Keys = (*asked.at, "formula")
    if isinstance(error, SchemaError):
        declared = [name for name in paper.schema if f"'{name}'" in text]
        if declared and not isinstance(error, FormulaError):
            inline = paper.schema_places is paper.places
            return paper.schema_places.line((*(("schema",) if inline else ()), declared[0]))
    elif named and not isinstance(error, FormulaError):
        key = (*asked.at, "options", named[0])
    elif isinstance(error, UnknownOptionError) and asked.options:
        key = (*asked.at, "options")
    return paper.places.line(key)


def said_of(error: Exception) -> str:
    """Return the text of an error of a verb, in words of a study."""
    text = str(error)
    if re.search("has no column|is not a column", text):
        text += '. Declare what the study uses: [schema.NAME] with type = "real", lower and upper'
    return text


def _outlook(paper: Paper, asked: Asked) -> Outlook:
    notes: list[str] = []
    pair = {"eps": asked.eps, "delta": asked.delta}
    counted = {"units": paper.size} if paper.unit and paper.relation == "replace" else {}
    given = {**paper.arguments(), **counted, **pair}
    with noted(notes):
        probe = calls.probed(asked.verb, asked.formula, blank(paper), asked.options, **given)
    forecast = "no forecast"
    for formula, verb in ((asked.formula, f"dp_{asked.verb}"), _labelled(probe.label)):
        with suppress(DPModelsError), noted():
            forecast = _forecast(paper, verb, formula, asked)
            break
    return Outlook(asked, probe.label, probe.guarantee, forecast, tuple(notes))


def _labelled(label: str) -> tuple[str, str]:
    """Return formula and verb of a line of the ledger."""
    found = re.match(r'(\w+)\("(.*)", method=', label, re.DOTALL)
    return (found[2], found[1]) if found else ("", "")


def _forecast(paper: Paper, verb: str, formula: str, asked: Asked) -> str:
    """Return "fine", "rough" or "not determined", by what the plan says of the noise."""
    from dpmodels.api import plan

    options = {k: v for k, v in asked.options.items() if k != "bounds"}
    if isinstance(options.get("design"), Mapping):
        options["design"] = calls.survey_of(options["design"])
    given = {**paper.arguments(), **options}
    planned = plan(
        formula, n=paper.size, eps=asked.eps, delta=asked.delta, verb=verb,
        bounds=asked.options.get("bounds"), **given,
    )  # fmt: skip
    found = re.search(r"\((below|between|above) ", planned.forecast)
    if found:
        return _FORECAST[found[1]]
    ranges = {c.name: c.interval for c in planned.design.z}
    parts = [
        se / (ranges[name][1] - ranges[name][0])  # type: ignore[index]
        for name, se in planned.expected_se.items()
        if ranges.get(name)
    ]
    if not parts:
        return "no forecast"
    worst = max(parts)
    return "fine" if worst <= _FINE else "rough" if worst <= _ROUGH else "not determined"


# -- The whole


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """What a check found: every fault with its place, and the plan of the releases.

    Attributes
    ----------
    problems : tuple of str
        ``"study.toml:12:3: what is wrong, and what to type"``, by place.
    outlooks : tuple of Outlook
    total : Guarantee or None
        Of all releases together; None where there are faults.
    left : str
        What the budget has left after them.
    rule : str
        Stopping rule under which they all fit.
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
        if self.problems:
            return replace(
                plain(("what to mend",), [(text,) for text in self.problems]),
                title=f"{self.title}: {len(self.problems)} to mend (no data read)",
            )
        rows = [
            (o.asked.name, f"{o.asked.verb}: {o.asked.formula}", f"{o.asked.eps:g}",
             f"{o.asked.delta:.3g}", o.forecast)
            for o in self.outlooks
        ]  # fmt: skip
        facts = [("Together", self.total.statement())] if self.total else []
        notes = (f"{o.asked.name}: {note}" for o in self.outlooks for note in o.notes)
        return replace(
            plain(("release", "what", "eps", "delta", "forecast"), rows),
            title=f"{self.title}: can run (no data read, nothing charged)",
            facts=(*facts, ("Left of the budget", self.left)),
            notes=tuple(notes),
        )


def check(paper: Paper, ledger: Any = None) -> Checked:
    """Find every fault of a study, and plan its releases. Reads no data."""
    faults = list(paper.problems)
    title = str(paper.get("study", "title", "Study"))
    whole = all(
        isinstance(paper.get(table, key), (int, float)) and paper.get(table, key) > 0
        for table, key in (("budget", "eps"), ("data", "units" if paper.unit else "n"))
    )
    outlooks: list[Outlook] = []
    if whole and len(paper.schema):
        broken = {where for where, _ in faults}
        for asked in paper.releases:
            usable = asked.name and asked.verb and asked.formula and (asked.eps or asked.source)
            if not usable or any(calls.refused_option(key) for key in asked.options):
                continue
            if asked.source:
                outlooks.append(Outlook(asked, "", None, "free", ()))
                continue
            try:
                outlooks.append(_outlook(paper, asked))
            except DPModelsError as error:
                faults.append((place_of(paper, asked, error), said_of(error)))
            except Exception as error:
                where = paper.places.line((*asked.at, "options"))
                faults.append((where, f"these options are not taken ({type(error).__name__}): "
                               f"help(dp.dp_{asked.verb}) shows their form"))  # fmt: skip
        faults += _tried(paper, outlooks, broken)
    if faults:
        return Checked(title, tuple(_sorted(faults)))
    return _charged(paper, title, outlooks, ledger)


def _sorted(faults: list[tuple[str, str]]) -> list[str]:
    def place(fault: tuple[str, str]) -> tuple[Any, ...]:
        name, line, column = fault[0].rsplit(":", 2)
        return name, int(line), int(column)

    return [f"{where}: {text}" for where, text in dict.fromkeys(sorted(faults, key=place))]


def _charged(paper: Paper, title: str, outlooks: list[Outlook], ledger: Any) -> Checked:
    """Charge an account of paper with the plan: what fits, and what is left."""
    from dpmodels.privacy.ledger import Budget
    from dpmodels.privacy.store import new_account

    guarantees = [(o.asked, o.guarantee) for o in outlooks if o.guarantee is not None]
    faults: list[tuple[str, str]] = []
    rule, account = "auto", None
    for rule in ("auto", "basic"):
        if ledger is None:
            account = new_account(
                paper.eps, paper.delta, paper.relation, paper.unit or "record", rule, None, None
            )
        else:
            account = Budget.open_readonly(ledger).account
        short = []
        for asked, guarantee in guarantees:
            try:
                account, _ = account.admit(guarantee)
            except DPModelsError as error:
                key = "share" if asked.eps and "share" in _given(paper, asked) else "eps"
                short.append((paper.places.line((*asked.at, key)), str(error)))
        faults = faults or short
        if not short:
            faults = []
            break
        if ledger is not None:
            break
    if faults:
        return Checked(title, tuple(_sorted(faults)))
    assert account is not None
    left = account.remaining()
    return Checked(
        title, (), tuple(outlooks), joint([g for _, g in guarantees]),
        f"(eps = {left.eps:.4g}, delta = {left.delta:.3g})", rule,
    )  # fmt: skip


def _given(paper: Paper, asked: Asked) -> Mapping[str, Any]:
    found: Mapping[str, Any] = paper.said["release"][asked.at[1]]
    return found


def _tried(paper: Paper, outlooks: list[Outlook], broken: set[str]) -> Iterator[tuple[str, str]]:
    """Make what needs a fit on made rows: fits on released moments, what comes after, tables."""
    shown = {name for side in paper.sides for name in side.fits}
    sources = {o.asked.source for o in outlooks}
    fits: dict[str, Any] = {}
    rows = made(replace(paper, said=_smaller(paper)), _TRIED)
    for outlook in outlooks:
        asked = outlook.asked
        if not (asked.after or asked.source or asked.name in shown | sources):
            continue
        with noted():
            try:
                fits[asked.name] = fit = calls.call(
                    asked.verb, asked.formula, fits[asked.source] if asked.source else rows,
                    asked.options, **({} if asked.source else trial(paper)),
                )  # fmt: skip
            except (DPModelsError, KeyError) as error:
                if asked.source in fits:
                    yield place_of(paper, asked, error), said_of(error)
                continue
            for one in asked.after if fit.released else ():
                where = paper.places.line(one.at)
                if where in broken or {"eps", "delta", "seed", "budget"} & {*one.options}:
                    continue
                try:
                    calls.after(fit, one.what, one.given, one.options)
                except (DPModelsError, AttributeError) as error:
                    if "not determined" not in str(error):  # of made rows, no fault of the study
                        yield where, f"{one.what}: {error}"
                except Exception as error:
                    yield where, (f"{one.what} does not take this ({type(error).__name__}): it is "
                                  f"{calls.AFTER[one.what]}() of the fit, in Python")  # fmt: skip
    for side in paper.sides:
        if side.fits and all(name in fits for name in side.fits):
            with noted():
                try:
                    side_by_side(side, fits)
                except DPModelsError as error:
                    yield paper.places.line((*side.at, "options")), str(error)
                except TypeError:
                    yield (paper.places.line((*side.at, "options")),
                           "options of a table are those of dp.etable: digits = 3, stars = true")


def side_by_side(side: Any, fits: Mapping[str, Any]) -> Any:
    """Return the table of several fits."""
    from dpmodels.results import etable

    options = {k: v for k, v in side.options.items() if k not in ("file", "type")}
    return etable([fits[name] for name in side.fits], title=side.title or side.name, **options)


def trial(paper: Paper) -> dict[str, Any]:
    """Return the arguments of a call on made rows: a seed, as nothing there is private."""
    return {**paper.arguments(), "eps": _EPS, "delta": _DELTA, "seed": 1}


def _smaller(paper: Paper) -> dict[str, Any]:
    key = "units" if paper.unit else "n"
    data = {**paper.said["data"], key: min(paper.size, _TRIED)}
    return {**paper.said, "data": data}
