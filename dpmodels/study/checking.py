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
from dpmodels.privacy.composition import Guarantee, joint
from dpmodels.study.asked import NOT_OPTIONS, Asked, Keys, Paper, after, call, probed, survey_of
from dpmodels.tables.table import Shown, Table, plain

#: Rows on which what comes after a release is tried, with a budget that leaves little noise.
_TRIED, _PLENTY = 4000, {"eps": 200.0, "delta": 1e-3, "seed": 1}
#: Rows that a rehearsal makes at most.
MOST = 100_000
#: Expected errors up to this part of a declared range are fine, up to the second rough.
_FINE, _ROUGH = 0.02, 0.2
_FORECAST = {"below": "fine", "between": "rough", "above": "not determined"}


def made(paper: Paper, most: int = MOST) -> dict[str, Any]:
    """Return columns made from the schema: uniform, levels equally likely, rows_per_unit ids."""
    rng = np.random.default_rng(20)  # the same rows each time: nothing here is private
    rows = max(1, round(float(paper.get("data", "rows_per_unit", 1)))) if paper.unit else 1
    units = max(1, min(paper.size, most // rows))
    out = {name: _cells(variable, units * rows, rng) for name, variable in paper.schema.items()}
    if paper.unit:
        out[paper.unit] = np.repeat(np.arange(1, units + 1), rows)
    return out


def _cells(variable: Any, n: int, rng: np.random.Generator) -> Any:
    levels = list(variable.codes or getattr(variable, "levels", None) or ())
    if levels or variable.kind == "text":
        return np.array(levels or ["made"])[rng.integers(0, len(levels) or 1, n)]
    low, high = variable.interval or (0.0, 1.0)
    whole = variable.kind in ("count", "binary")
    return rng.integers(0, int(high) + 1, n) if whole else rng.uniform(low, high, n)


def _blank(paper: Paper) -> dict[str, Any]:
    """Return columns of the right types and length, of one cell each."""
    n = int(paper.get("data", "n", paper.size))
    return {name: np.broadcast_to(c[:1], (n,)) for name, c in made(paper, 1).items()}


@contextmanager
def noted(notes: list[str] | None = None) -> Iterator[None]:
    """Keep the warnings of a call instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if notes is not None:
        notes += dict.fromkeys(str(one.message) for one in caught)


def fault_of(paper: Paper, asked: Asked, error: Exception) -> tuple[str, str]:
    """Return the place in the file that an error of a verb is about, and its text."""
    text = str(error)
    named = [k for k in asked.options if re.search(rf"(\b{re.escape(k)}=|'{re.escape(k)}')", text)]
    key: Keys = (*asked.at, "formula")
    if isinstance(error, SchemaError):
        places, prefix = paper.schema_places
        for name in (name for name in paper.schema if f"'{name}'" in text):
            return places.line((*prefix, name)), text
    elif named and not isinstance(error, FormulaError):
        key = (*asked.at, "options", named[0])
    elif isinstance(error, UnknownOptionError) and asked.options:
        key = (*asked.at, "options")
    if re.search("has no column|is not a column", text):
        text += '. Declare what the study uses: [schema.NAME] with type = "real", lower and upper'
    return paper.places.line(key), text


@dataclass(frozen=True)
class Outlook:
    """What a plan says of one release."""

    asked: Asked
    guarantee: Guarantee | None
    forecast: str
    notes: tuple[str, ...] = ()


def _outlook(paper: Paper, asked: Asked) -> Outlook:
    if asked.source:
        return Outlook(asked, None, "free")
    notes: list[str] = []
    given = paper.arguments(asked)
    counted = {"units": paper.size} if paper.unit and paper.relation == "replace" else {}
    with noted(notes):
        probe = probed(asked.verb, asked.formula, _blank(paper), asked.options,
                             **given, **counted)  # fmt: skip
    line = re.match(r'(\w+)\("(.*)", method=', probe.label, re.DOTALL)  # of the ledger
    forecast = ""
    for verb, formula in ((f"dp_{asked.verb}", asked.formula), line.groups() if line else ("", "")):
        with suppress(DPModelsError), noted():
            forecast = forecast or _forecast(paper, verb, formula, {**asked.options, **given})
    return Outlook(asked, probe.guarantee, forecast or "no forecast", tuple(notes))


def _forecast(paper: Paper, verb: str, formula: str, given: dict[str, Any]) -> str:
    """Return "fine", "rough" or "not determined", by what the plan says of the noise."""
    from dpmodels.api.planning import plan

    if isinstance(given.get("design"), Mapping):
        given["design"] = survey_of(given["design"])
    planned = plan(formula, n=paper.size, verb=verb, **given)
    if found := re.search(r"\((below|between|above) ", planned.forecast):
        return _FORECAST[found[1]]
    widths = {c.name: c.interval[1] - c.interval[0] for c in planned.design.z if c.interval}
    worst = [se / widths[name] for name, se in planned.expected_se.items() if name in widths]
    if not worst:
        return "no forecast"
    return "fine" if max(worst) <= _FINE else "rough" if max(worst) <= _ROUGH else "not determined"


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """What a check found: ``problems``, each with its place, or the plan of the releases.

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
            return replace(plain(("what to mend",), rows), title=f"{self.title}: cannot run")
        lines = [
            (o.asked.name, f"{o.asked.verb}: {o.asked.formula}", f"{o.asked.eps:g}",
             f"{o.asked.delta:.3g}", o.forecast)
            for o in self.outlooks
        ]  # fmt: skip
        return replace(
            plain(("release", "what", "eps", "delta", "forecast"), lines),
            title=f"{self.title}: can run (no data read, nothing charged)",
            facts=(("Together", self.total.statement()), ("Left of the budget", self.left)),
            notes=tuple(f"{o.asked.name}: {note}" for o in self.outlooks for note in o.notes),
        )


def check(paper: Paper, ledger: Any = None) -> Checked:
    """Find every fault of a study, and plan its releases. Reads no data."""
    faults, outlooks = list(paper.faults), []
    needed = (paper.get("budget", "eps"), paper.get("data", "units" if paper.unit else "n"))
    if all(isinstance(x, (int, float)) and x > 0 for x in needed) and paper.schema:
        for asked in paper.releases:
            usable = asked.name and asked.verb and asked.formula and (asked.eps or asked.source)
            if not usable or NOT_OPTIONS.keys() & asked.options.keys():
                continue  # a fault was noted
            try:
                outlooks.append(_outlook(paper, asked))
            except DPModelsError as error:
                faults.append(fault_of(paper, asked, error))
            except Exception as error:
                said = f"not taken ({type(error).__name__}): see help(dp.dp_{asked.verb})"
                faults.append((paper.places.line((*asked.at, "options")), said))
        faults += _tried(paper, outlooks)
    title = str(paper.get("study", "title", "Study"))
    if not faults:
        faults, rule, account = _charged(paper, outlooks, ledger)
    if faults:
        return Checked(title, in_order(faults))
    left = account.remaining()
    total = joint([o.guarantee for o in outlooks if o.guarantee is not None])
    said = f"(eps = {left.eps:.4g}, delta = {left.delta:.3g})"
    return Checked(title, (), tuple(outlooks), total, said, rule)


def in_order(faults: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return faults by line, each once."""
    def place(fault: tuple[str, str]) -> tuple[str, int]:
        name, line, _ = fault[0].rsplit(":", 2)
        return name, int(line)

    return tuple(f"{where}: {text}" for where, text in dict.fromkeys(sorted(faults, key=place)))


def _charged(paper: Paper, outlooks: list[Outlook], ledger: Any) -> tuple[Any, str, Any]:
    """Charge an account with the plan; by plain sums where other rules refuse and sums fit."""
    from dpmodels.privacy.budget import Budget

    found = []
    for rule in ("auto", "basic") if ledger is None else ("",):
        held = Budget(**paper.budget(rule)) if ledger is None else Budget.open_readonly(ledger)
        account, short = held.account, []
        for asked, guarantee in ((o.asked, o.guarantee) for o in outlooks if o.guarantee):
            try:
                account, _ = account.admit(guarantee)
            except DPModelsError as error:
                given = paper.said["release"][asked.at[1]]
                key = "share" if "share" in given else "eps"
                short.append((paper.places.line((*asked.at, key)), str(error)))
        found.append((short, rule, account))
    return next((one for one in found if not one[0]), found[0])


def _tried(paper: Paper, outlooks: list[Outlook]) -> Iterator[tuple[str, str]]:
    """Make what needs a fit on made rows: fits on released moments, what comes after, tables."""
    needed = {name for side in paper.sides for name in side.fits}
    needed |= {o.asked.source for o in outlooks}
    fits: dict[str, Any] = {}
    rows = made(paper, _TRIED)
    for asked in (o.asked for o in outlooks):
        if not (asked.after or asked.source or asked.name in needed):
            continue
        given = {} if asked.source else {**paper.arguments(), **_PLENTY}
        try:
            with noted():
                fit = call(asked.verb, asked.formula,
                                 fits[asked.source] if asked.source else rows,
                                 asked.options, **given)  # fmt: skip
        except (DPModelsError, KeyError) as error:
            if asked.source in fits:
                yield fault_of(paper, asked, error)
            continue
        fits[asked.name] = fit
        for one in asked.after if fit.released else ():
            said = failure(lambda fit=fit, one=one: after(fit, one.what, one.given,
                                                               one.options))  # fmt: skip
            if said and "not determined" not in said:  # that is of made rows, no fault of the study
                yield paper.places.line(one.at), f"{one.what}: {said}"
    for side in (side for side in paper.sides if side.fits and {*side.fits} <= {*fits}):
        if said := failure(lambda side=side: side_by_side(side, fits)):
            where = paper.places.line((*side.at, "options"))
            yield where, f"{said}. options are those of dp.etable: {{digits = 3, stars = true}}"


def failure(compute: Any) -> str:
    """Return why something computed from released numbers fails; empty: it does not."""
    try:
        with noted():
            compute()
    except (DPModelsError, AttributeError) as error:
        return str(error)
    except Exception as error:
        return f"it does not take this ({type(error).__name__})"
    return ""


def side_by_side(side: Any, fits: Mapping[str, Any]) -> Any:
    """Return the table of several fits."""
    from dpmodels.results import etable

    options = {k: v for k, v in side.options.items() if k not in ("file", "type")}
    return etable([fits[name] for name in side.fits], title=side.title or side.name, **options)
