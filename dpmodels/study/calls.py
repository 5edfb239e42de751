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
    "wald": "wald_test", "contrasts": "contrast", "slopes": "avg_slopes",
    "comparisons": "avg_comparisons", "averages": "avg_predictions", "predictions": "predict",
    "anova": "anova_table",
    **{name: name for name in (
        "emmeans", "survdiff", "at", "difference", "quantile", "rmst", "corr", "partial_corr",
        "best_subset", "vif", "hausman", "ratio", "decompose",
    )},
}  # fmt: skip
#: Options that a file cannot give, and why.
NOT_OPTIONS = {
    "seed": "a study has no seeds: seeded noise is not private",
    "schema": 'a study has one schema: [schema] or [data] schema = "schema.toml"',
    "relation": 'a study has one relation: [budget] relation = "add-remove"',
    "public": "public tables are no part of a study: take a method that needs none",
    "progress": "leave it out: a run shows no bar",
    **dict.fromkeys(("data", "budget"), "data and ledger are given when the study is run"),
    **dict.fromkeys(("n", "unit", "units", "rows_per_unit"), "it stands in [data], for all"),
    **dict.fromkeys(("eps", "delta", "verb", "formula"), "it stands beside name, in [[release]]"),
}


def verbs() -> dict[str, str]:
    """Return what a study calls the verbs -> their public names: those of a formula and a table."""
    import dpmodels as dp
    from dpmodels.verbs import _VERBS

    first = {name: [*inspect.signature(getattr(dp, name)).parameters][:2] for name in _VERBS}
    ours = (["formula", "data"], ["columns", "data"])
    return {name.removeprefix("dp_"): name for name in first if first[name] in ours}


def verb_named(given: str) -> str:
    """Return the public name of a verb, ``"dp_glm"`` for "glm" and "dp_glm", or refuse it."""
    known, short = verbs(), given.removeprefix("dp_")
    if short not in known:
        raise RequestError(
            f"verb={shown(given)} is no verb of a formula and a table."
            f"{did_you_mean(short, known)} Verbs: {', '.join(known)}"
        )
    return known[short]


def call(verb: str, formula: str, data: Any, options: Mapping[str, Any], **given: Any) -> Any:
    """Call a verb with options as a file or a command line has them."""
    import dpmodels as dp

    typed = dict(options)
    if isinstance(typed.get("design"), Mapping):
        typed["design"] = survey_of(typed["design"])
    if not _guesses(verb, typed.get("method")):
        given.pop("n_guess", None)
    function = getattr(dp, verb_named(verb))
    accepted = inspect.signature(function).parameters
    unknown = [name for name in typed if name not in accepted]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        raise UnknownOptionError(f"{unknown[0]!r} is no option of {verb}")
    return function(formula, data, **typed, **given)


def _guesses(verb: str, method: Any) -> bool:
    """Tell if a public guess of a private number of rows is asked for."""
    from dpmodels.registry import method_names, resolve

    name = "dp_moments" if verb == "iv" else verb_named(verb)
    names = [method] if method in method_names(name) else method_names(name)
    return any(o.name == "n_guess" for one in names for o in resolve(name, one).options)


def survey_of(design: Mapping[str, Any]) -> Any:
    """Return the survey design that a table of options describes."""
    import dpmodels as dp

    known = [*inspect.signature(dp.Survey).parameters]
    for name in (name for name in design if name not in known):
        close = did_you_mean(name, known)
        raise UnknownOptionError(f"design= has no {shown(name)}.{close} It has: {', '.join(known)}")
    return dp.Survey(**design)


def after(fit: Any, what: str, given: Any, options: Mapping[str, Any]) -> Any:
    """Compute from a fit what a study asks for; nothing is read or charged."""
    import pandas as pd

    typed: dict[str, Any] = dict(options)
    pairs = typed.pop("pairs", False)
    if isinstance(typed.get("newdata"), list):
        typed["newdata"] = pd.DataFrame(typed["newdata"])
    if what == "predictions":
        given, typed = pd.DataFrame(given), {"interval": "confidence", **typed}
    if what == "slopes" and given is not True:
        typed["variables"], given = given, True
    function = getattr(fit, AFTER[what])
    found = function(**typed) if given is True else function(given, **typed)
    return found.pairs() if pairs else found


class Stopped(Exception):
    """A verb came as far as its charge."""


@dataclass
class Probe:
    """A budget that stops a verb at its charge: whatever could be refused was not.

    The same code checks a study and runs it, so both accept the same. Nothing is charged, and no
    noise is drawn.
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


def source_of(
    data: Any, columns: Mapping[str, str], unit: str = "", features: Mapping[str, Any] | None = None
) -> Any:
    """Return the rows of a run: a path, several, ``duckdb:///file?table=name``, or a table.

    ``columns``: name in the study -> name in the data; ``features``: as ``dp.per_person`` takes.
    """
    from dpmodels.sources.features import Features
    from dpmodels.sources.renamed import Renamed
    from dpmodels.sources.tasks import as_source

    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], (str, Path)):
        data = data[0]
    if isinstance(data, str) and data.startswith("duckdb:"):
        data = _duckdb(data)
    data = Renamed(as_source(data), columns) if columns else data
    return Features(as_source(data), unit, features) if features else data


def _duckdb(url: str) -> Any:
    """Return a table of a DuckDB file, opened for reading."""
    from dpmodels.sources.tables import need, withheld

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
