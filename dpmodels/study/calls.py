"""What a study may call: verbs and their options, what is computed after them, sources of rows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dpmodels.errors import RequestError, SourceError, UnknownOptionError, did_you_mean, shown

#: Keys of ``[[release.after]]`` -> method of a fit: functions of what was released, free.
AFTER = {
    "wald": "wald_test", "contrasts": "contrast", "emmeans": "emmeans", "slopes": "avg_slopes",
    "comparisons": "avg_comparisons", "averages": "avg_predictions", "predictions": "predict",
    "anova": "anova_table", "survdiff": "survdiff", "at": "at", "difference": "difference",
    "quantile": "quantile", "rmst": "rmst", "corr": "corr", "partial_corr": "partial_corr",
    "best_subset": "best_subset", "vif": "vif", "hausman": "hausman", "ratio": "ratio",
}  # fmt: skip
#: Options that a file cannot give, and why.
_NOT_OPTIONS = {
    "seed": "a study has no seeds: seeded noise is not private",
    "budget": "the ledger is given when the study is run: --ledger FILE",
    "data": "the data are given when the study is run: --data FILE",
    "schema": "a study has one schema: [schema] or [data] schema = \"schema.toml\"",
    "unit": "a study has one unit: [data] unit = \"person_id\"",
    "units": "a study says the number of people once: [data] units = 5000",
    "rows_per_unit": "a study says it once: [data] rows_per_unit = 5",
    "relation": "a study has one relation: [budget] relation = \"add-remove\"",
    "public": "public tables are no part of a study: take the method that needs none",
    "progress": "leave it out: a run shows no bar",
    "eps": "write eps = 1 beside name and formula", "delta": "write delta = 1e-6 beside eps",
    "n": "the number of rows stands in [data] n", "verb": "write it beside name and formula",
    "formula": "write it beside name and verb",
}  # fmt: skip


def verbs() -> dict[str, str]:
    """Return what a study calls the verbs -> their public names: those of a formula and a table."""
    import dpmodels as dp
    from dpmodels.verbs import _VERBS

    out = {}
    for name in _VERBS:
        first = [*inspect.signature(getattr(dp, name)).parameters][:2]
        if first in (["formula", "data"], ["columns", "data"]):
            out[name.removeprefix("dp_")] = name
    return out


def verb_named(given: str) -> str:
    """Return the public name of a verb, ``"dp_glm"`` for "glm" and "dp_glm", or refuse it."""
    known = verbs()
    short = given.removeprefix("dp_")
    if short not in known:
        raise RequestError(
            f"verb={shown(given)} is no verb of a formula and a table."
            f"{did_you_mean(short, known)} Verbs: {', '.join(known)}"
        )
    return known[short]


def refused_option(name: str) -> str:
    """Return why a file cannot give this option; empty: it can."""
    return _NOT_OPTIONS.get(name, "")


def call(verb: str, formula: str, data: Any, options: Mapping[str, Any], **given: Any) -> Any:
    """Call a verb with options as a file or a command line has them."""
    import dpmodels as dp

    function = getattr(dp, verb_named(verb))
    typed = dict(options)
    if isinstance(typed.get("design"), Mapping):
        typed["design"] = survey_of(typed["design"])
    accepted = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        for name in typed:
            if name not in accepted:
                raise UnknownOptionError(f"{verb} has no {name!r}.{did_you_mean(name, accepted)}")
    return function(formula, data, **typed, **given)


def survey_of(design: Mapping[str, Any]) -> Any:
    """Return the survey design that a table of options describes."""
    import dpmodels as dp

    known = [*inspect.signature(dp.Survey).parameters]
    for name in design:
        if name not in known:
            raise UnknownOptionError(
                f"design has no {shown(name)}.{did_you_mean(name, known)} It has: "
                f"{', '.join(known)}"
            )
    return dp.Survey(**design)


def after(fit: Any, what: str, given: Any, options: Mapping[str, Any]) -> Any:
    """Compute from a fit what a study asks for; nothing is read or charged."""
    import pandas as pd

    name = AFTER[what]
    function = getattr(fit, name)
    typed: dict[str, Any] = dict(options)
    pairs = typed.pop("pairs", False)
    if name == "predict":
        given = pd.DataFrame(given)
        typed.setdefault("interval", "confidence")
    if isinstance(typed.get("newdata"), list):
        typed["newdata"] = pd.DataFrame(typed["newdata"])
    if name == "avg_slopes" and given is not True:
        typed["variables"], given = given, True
    found = function(**typed) if given is True else function(given, **typed)
    return found.pairs() if pairs else found


class Stopped(Exception):  # noqa: N818 (no error: the end of a rehearsed charge)
    """A verb came as far as its charge."""


@dataclass
class Probe:
    """A budget that stops a verb at its charge: whatever could be refused was not.

    The same code checks a study and runs it, so what is accepted is the same. Nothing is charged
    and no noise is drawn.
    """

    label: str = ""
    guarantee: Any = None

    def charge(self, label: str, guarantee: Any) -> Any:
        """Keep what would be charged, and go no further."""
        self.label, self.guarantee = label, guarantee
        raise Stopped


def probed(verb: str, formula: str, data: Any, options: Mapping[str, Any], **given: Any) -> Probe:
    """Return what a call would charge, from public facts: columns, types, numbers of rows."""
    probe = Probe()
    try:
        call(verb, formula, data, options, budget=probe, **given)
    except Stopped:
        return probe
    raise RequestError(f"{verb} charges nothing here: it is no release")


def source_of(data: Any, columns: Mapping[str, str]) -> Any:
    """Return the rows of a run: a path, several, ``duckdb:///file?table=name``, or a table.

    Parameters
    ----------
    data : str, path, list of them, or whatever ``data=`` of a verb takes
    columns : mapping
        Name in the study -> name in the data.
    """
    if isinstance(data, (list, tuple)) and len(data) == 1 and isinstance(data[0], (str, Path)):
        data = data[0]
    if isinstance(data, str) and data.startswith("duckdb:"):
        data = _duckdb(data)
    elif isinstance(data, (str, Path)) and not Path(data).exists():
        raise SourceError("there is no file under --data: give the path of a Parquet or CSV file")
    if not columns:
        return data
    from dpmodels.sources.renamed import Renamed

    return Renamed.of(data, columns)


def _duckdb(url: str) -> Any:
    """Return a table of a DuckDB file, opened for reading."""
    from dpmodels.sources.source import need, withheld

    need("duckdb", "to read DuckDB files")
    import duckdb

    parts = urlsplit(url)
    table = parse_qs(parts.query).get("table", [""])[0]
    file = Path(parts.path.removeprefix("/") if parts.path.startswith("//") else parts.path)
    if not table or not file.is_file():
        raise SourceError(
            "a table of a DuckDB file is written duckdb:///folder/file.db?table=visits; there is "
            + ("no such file" if table else "no table= in it")
        )
    return withheld(lambda: duckdb.connect(str(file), read_only=True).table(table))
