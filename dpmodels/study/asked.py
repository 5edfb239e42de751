"""Contents of a study: the file read into frozen records, every fault with its place."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dpmodels.errors import (
    DPModelsError,
    RequestError,
    SourceError,
    StudyError,
    UnknownOptionError,
    did_you_mean,
    path_of,
    shown,
)
from dpmodels.formula.parser import category_names, needed_variables
from dpmodels.formula.schema import Schema, toml
from dpmodels.lazy import pd

# -- TOML texts, and where their keys stand: what an error of a study points at.


#: Keys and indices from the top of a file to a value.
Keys = tuple[Any, ...]
_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_HEAD = re.compile(rf"\s*(\[\[?)\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*\]")
_PAIR = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=\s*")
_INNER = re.compile(rf"[{{,]\s*({_NAME})\s*=")
_ITEM = re.compile(r"""[\[,]\s*("[^"\n]*"|'[^'\n]*')""")


class Places:
    """Line numbers of the keys of a TOML file (the first line of a multi-line value)."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._found: dict[Keys, tuple[int, int]] = {}
        table: Keys = ()
        arrays: dict[Keys, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if head := _HEAD.match(line):
                place = number, head.start(1) + 1
                table = ()
                parts = _parts(head[2])
                for k, part in enumerate(parts, 1):
                    table += (part,)
                    self._found.setdefault(table, place)
                    if k == len(parts) and head[1] == "[[":
                        arrays[table] = arrays.get(table, -1) + 1
                    if table in arrays:
                        table += (arrays[table],)
                self._found[table] = place
            elif pair := _PAIR.match(line):
                path = (*table, *_parts(pair[1]))
                self._found.setdefault(path, (number, pair.start(1) + 1))
                for inner in _INNER.finditer(line, pair.end()):
                    self._found.setdefault((*path, *_parts(inner[1])), (number, inner.start(1) + 1))
                for k, item in enumerate(_ITEM.finditer(line, pair.end())):
                    self._found.setdefault((*path, k), (number, item.start(1) + 1))

    def line(self, path: Keys) -> str:
        """Return ``study.toml:12:3`` for the nearest key in the file."""
        while path and path not in self._found:
            path = path[:-1]
        line, column = self._found.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"


def _parts(key: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_NAME, key)]


def parsed(file: Path) -> tuple[dict[str, Any], Places]:
    """Return the contents of a TOML file and the places of its keys; refuse other files."""
    problem, text = "", ""
    try:
        text = file.read_text(encoding="utf-8")
        return toml().loads(text), Places(text, file.name)
    except (ValueError, RecursionError) as error:
        problem = str(error) if text else "it is not in UTF-8"
    where = re.search(r"\(at line (\d+), column (\d+)\)", problem)
    line, column = where.groups() if where else (text.count("\n") + 1, 1)
    reason = re.sub(r" \(at .*\)$", "", problem)
    raise StudyError(
        f"{file.name}:{line}:{column}: this is not TOML: {reason}. Strings need quotes, "
        'title = "Wages"; lists need brackets, ["a", "b"]; a key may occur once in its table'
    )


# -- What a study may call: verbs and their options, what is computed after them, sources of rows.


#: Keys of ``[[release.after]]`` -> method of a fit: functions of released numbers, free.
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
    "public": "a study cannot read a public table: choose a method that needs none",
    "progress": "leave it out: a run shows no bar",
    **dict.fromkeys(("data", "budget"), "data and ledger are given when the study is run"),
    **dict.fromkeys(("n", "unit", "units", "rows_per_unit"), "this key belongs in [data], for all"),
    **dict.fromkeys(("eps", "delta", "verb", "formula"), "this key belongs in [[release]]"),
}


def verbs() -> dict[str, str]:
    """Return the names of the functions in a study -> their public names."""
    import dpmodels as dp
    from dpmodels.verbs import _VERBS

    first = {name: [*inspect.signature(getattr(dp, name)).parameters][:2] for name in _VERBS}
    ours = (["formula", "data"], ["columns", "data"])
    return {name.removeprefix("dp_"): name for name in first if first[name] in ours}


def verb_named(name: str) -> str:
    """Return the public name of a verb, ``"dp_glm"`` for "glm" and "dp_glm", or refuse it."""
    names, short = verbs(), name.removeprefix("dp_")
    if short not in names:
        raise RequestError(
            f"verb={shown(name)} does not accept a formula and a table."
            f"{did_you_mean(short, names)} Verbs: {', '.join(names)}"
        )
    return names[short]


def call(verb: str, formula: str, data: Any, options: Mapping[str, Any], **named: Any) -> Any:
    """Call a verb with options as a file or a command line has them."""
    import dpmodels as dp
    from dpmodels.registry import method_names, resolve

    typed = dict(options)
    if isinstance(typed.get("design"), Mapping):
        typed["design"] = dp.Survey(**typed["design"])
    name = "dp_moments" if verb == "iv" else verb_named(verb)
    methods = method_names(name)
    methods = [typed["method"]] if typed.get("method") in methods else methods
    if not any(o.name == "n_guess" for method in methods for o in resolve(name, method).options):
        named.pop("n_guess", None)  # no public guess of a private number of rows is asked for
    function = getattr(dp, verb_named(verb))
    accepted = inspect.signature(function).parameters
    unknown = [name for name in typed if name not in accepted]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        raise UnknownOptionError(f"{unknown[0]!r} is not an option of {verb}")
    return function(formula, data, **typed, **named)


def after(fit: Any, what: str, value: Any, options: Mapping[str, Any]) -> Any:
    """Compute the requested results from a fit; nothing is read or charged."""
    typed: dict[str, Any] = dict(options)
    pairs = typed.pop("pairs", False)
    if isinstance(typed.get("newdata"), list):
        typed["newdata"] = pd.DataFrame(typed["newdata"])
    if what == "predictions":
        value, typed = pd.DataFrame(value), {"interval": "confidence", **typed}
    if what == "slopes" and value is not True:
        typed["variables"], value = value, True
    function = getattr(fit, AFTER[what])
    result = function(**typed) if value is True else function(value, **typed)
    if what == "predictions" and len(result) == len(value):  # which rows these are
        named = result.to_frame("fit") if isinstance(result, pd.Series) else pd.DataFrame(result)
        return value.join(named.set_axis([str(c) for c in named], axis=1), rsuffix=" (predicted)")
    return result.pairs() if pairs else result


class Stopped(Exception):
    """Signal that a call reached its charge."""


@dataclass
class Probe:
    """A budget that stops a verb at its charge: whatever could be refused was not.

    The same code checks a study and runs it, so both accept the same. Nothing is charged, and no
    noise is drawn.
    """

    label: str = ""
    guarantee: Any = None

    def charge(self, label: str, guarantee: Any) -> Any:
        """Record the charge that would be made, and stop."""
        self.label, self.guarantee = label, guarantee
        raise Stopped


def charge_of_call(
    verb: str, formula: str, data: Any, options: Mapping[str, Any], **named: Any
) -> Probe:
    """Return the charge of a call from public facts: columns, types, numbers of rows."""
    probe = Probe()
    try:
        call(verb, formula, data, options, budget=probe, **named)
    except Stopped:
        return probe
    raise RequestError(f"{verb} charges nothing here: it is not a release")


#: Keys of ``[data]``, and flags of the command line, that say how a CSV file is written.
CSV_KEYS = ("sep", "encoding", "decimal", "thousands", "quotechar", "na")


def source_of(
    data: Any, columns: Mapping[str, str], unit: str = "",
    features: Mapping[str, Any] | None = None, csv: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Return the rows of a run: a path, several, ``duckdb:///file?table=name``, or a table.

    ``columns``: name in the study -> name in the data; ``features``: as ``dp.per_person`` takes;
    ``csv``: how a CSV file is written, as ``dp.read_csv`` takes it.
    """
    from dpmodels.sources.files import read_csv
    from dpmodels.sources.parts import Renamed
    from dpmodels.sources.tables import Features
    from dpmodels.sources.tasks import as_source

    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], (str, Path)):
        data = data[0]
    if csv:
        entries = data if isinstance(data, list) else [data]
        ends = (".parquet", ".pq")
        if not all(isinstance(entry, (str, Path)) for entry in entries) or any(
            str(entry).startswith("duckdb:") or str(entry).lower().endswith(ends)
            for entry in entries
        ):
            raise SourceError(
                f"{', '.join(csv)}: these say how a CSV file is written, and the data are none. "
                "Leave them out, or give the path of the CSV file. Nothing was charged"
            )
        data = read_csv(data, **csv)
    if isinstance(data, str) and data.startswith("duckdb:"):
        data = Renamed(_duckdb(data), columns)
    elif columns:
        data = Renamed(as_source(data), columns)
    return Features(as_source(data), unit, features) if features else data


def _duckdb(url: str) -> Any:
    """Return a table of a DuckDB file, opened for reading."""
    from dpmodels.sources.refusals import require_package
    from dpmodels.sources.tables import withheld
    from dpmodels.sources.tasks import as_source

    require_package("duckdb", "to read DuckDB files")
    import duckdb

    parts = urlsplit(url)
    table = parse_qs(parts.query).get("table", [""])[0]
    file = Path(parts.path.removeprefix("/") if parts.path.startswith("//") else parts.path)
    if not table or not file.is_file():
        raise SourceError(
            "a table of a DuckDB file is written duckdb:///folder/file.db?table=visits; there is "
            + ("no such file" if table else "no table= in it")
        )
    connection = withheld(lambda: duckdb.connect(str(file), read_only=True))
    source: Any = as_source(withheld(lambda: connection.table(table)))
    source.connection = connection  # in older versions a relation ends with it
    return source


# -- What a study asks for: the file read into frozen records, every fault with its place.


#: Formats of a report: the page, and files of its tables.
FORMATS = ("html", "csv", "tex", "docx")
_NUMBER = (int, float)
#: Keys that may not be left out; their types, and those of the others, are those of the example.
_NEEDED = {"study": ("title",), "budget": ("eps", "delta"), "table": ("fits",),
           "release": ("name", "verb", "formula")}  # fmt: skip
_FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_PAID = ("eps", "delta", "seed", "budget")


@dataclass(frozen=True)
class After:
    """Something computed from a release, free."""

    what: str
    given: Any
    options: Mapping[str, Any]
    at: Keys


@dataclass(frozen=True)
class Asked:
    """One release of a study, or (``source``) a fit on one that was made before, free."""

    name: str
    verb: str
    formula: str
    title: str
    eps: float
    delta: float
    options: Mapping[str, Any]
    source: str
    after: tuple[After, ...]
    at: Keys


@dataclass(frozen=True)
class Side:
    """A table of several fits side by side."""

    name: str
    title: str
    fits: tuple[str, ...]
    options: Mapping[str, Any]
    at: Keys


@dataclass(frozen=True)
class Paper:
    """Requests of a file and its faults: (place, fault and the text to type)."""

    said: Mapping[str, Any]
    places: Places
    schema: Schema
    schema_places: tuple[Places, Keys]
    releases: tuple[Asked, ...]
    sides: tuple[Side, ...]
    formats: tuple[str, ...]
    faults: list[tuple[str, str]]

    def get(self, table: str, key: str, default: Any = None) -> Any:
        """Return an entry of ``[study]``, ``[data]`` or ``[budget]``."""
        entries = self.said.get(table)
        return entries.get(key, default) if isinstance(entries, Mapping) else default

    @property
    def csv(self) -> dict[str, Any]:
        """Format of the CSV file of the data, as ``dp.read_csv`` takes it."""
        facts = {key: self.get("data", key) for key in CSV_KEYS}
        return {key: value for key, value in facts.items() if value is not None}

    @property
    def relation(self) -> str:
        """Neighbours."""
        return str(self.get("budget", "relation", "replace"))

    @property
    def unit(self) -> str | None:
        """Column of the people who are protected, or None if a row is."""
        return self.get("data", "unit")

    @property
    def size(self) -> int:
        """Public number of units: people if ``unit`` is given, else rows."""
        return int(self.get("data", "units" if self.unit else "n"))

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical text: keys in order, no comments, the schema in it."""
        return canonical_hash(self.said)

    def arguments(self, request: Asked | None = None) -> dict[str, Any]:
        """Return the arguments of every call of the study, with the pair of a release."""
        out: dict[str, Any] = {"schema": self.schema}
        if self.unit:
            out["unit"] = self.unit
            if self.get("data", "rows_per_unit"):
                out["rows_per_unit"] = self.get("data", "rows_per_unit")
        if self.relation != "replace":
            out |= {"relation": self.relation, "n_guess": self.size}  # n is a guess
        return out if request is None else {**out, "eps": request.eps, "delta": request.delta}

    def budget(self, rule: str) -> dict[str, Any]:
        """Return the budget of the study, as ``Budget`` takes it."""
        pair = {key: float(self.get("budget", key)) for key in ("eps", "delta")}
        accounting = self.get("budget", "accounting")
        said = {"rule": rule} if accounting is None else {"accounting": accounting}
        return {**pair, "relation": self.relation, "unit": self.unit or "record", **said}


def canonical_hash(contents: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text of a study."""
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _fields() -> dict[str, dict[str, Any]]:
    """Return the example of all keys: table -> key -> a value of its type."""
    example = resources.files(__package__).joinpath("example.toml")
    return parsed(Path(str(example)))[0]


def _key_as_typed(key: str, value: Any) -> str:
    """Return a key as it is typed."""
    if isinstance(value, dict):
        return f"{key} = {{{', '.join(_key_as_typed(*pair) for pair in value.items())}}}"
    if isinstance(value, (int, float)):
        return f"{key} = {value:_}" if isinstance(value, int) else f"{key} = {value:g}"
    return f"{key} = {json.dumps(value)}"


class _Reader:
    """Reader of the tables of a file, which collects their faults."""

    def __init__(self, contents: dict[str, Any], places: Places) -> None:
        self.said, self.places = contents, places
        self.faults: list[tuple[str, str]] = []

    def fault(self, path: Keys, text: str) -> None:
        self.faults.append((self.places.line(path), text))

    def checked(self, kind: str, path: Keys, entries: Any) -> dict[str, Any]:
        """Return the entries of a table that are usable; note the others."""
        fields, out = _fields()[kind], {}
        if not isinstance(entries, dict):
            self.fault(path, f"[{kind}] is a table: a line [{kind}], and entries below it")
            return {}
        for key, value in entries.items():
            if key not in fields:
                close, has = did_you_mean(key, fields), ", ".join(fields)
                self.fault((*path, key), f"[{kind}] has no {key!r}.{close} It has: {has}")
            elif isinstance(value, bool) or not isinstance(
                value, _NUMBER if isinstance(fields[key], float) else type(fields[key])
            ):
                self.fault((*path, key), f"type {_key_as_typed(key, fields[key])}")
            else:
                out[key] = value
        for key in (key for key in _NEEDED.get(kind, ()) if key not in entries):
            self.fault(path, f"[{kind}] needs {key}: type {_key_as_typed(key, fields[key])}")
        return out

    def listed(self, kind: str) -> Iterator[tuple[Keys, dict[str, Any]]]:
        """Yield the place and the entries of each ``[[kind]]``."""
        tables = self.said.get(kind, [])
        if not isinstance(tables, list):
            self.fault((kind,), f"a list of tables is written [[{kind}]], with two brackets")
            return
        for k, table in enumerate(tables):
            yield (kind, k), self.checked(kind, (kind, k), table)

    def sections(self) -> None:
        """Report sections and keys that a study does not have."""
        sections = (*_fields(), "schema")
        for key in self.said:
            if key not in sections:
                self.fault((key,), f"a study has no [{key}].{did_you_mean(key, sections)} It has: "
                           f"{', '.join(sections)}")  # fmt: skip
        for kind in ("study", "data", "budget", "report"):
            self.checked(kind, (kind,), self.said.get(kind, {}))
        if not self.said.get("release"):
            self.fault((), "a study needs a release: [[release]] with name, verb, formula, eps")
        data = self.said.get("data", {})
        if isinstance(data, dict):
            from dpmodels.sources.files import csv_options

            key, what = ("units", "people") if data.get("unit") else ("n", "rows")
            if key not in data:
                self.fault(("data",), f"[data] needs the number of {what}, which is public: "
                           f"{key} = 5_000")  # fmt: skip
            if data.get("features") and not data.get("unit"):
                self.fault(("data", "features"), "features are of people: say whose row it is, "
                           'unit = "person_id"')  # fmt: skip
            problem = ""
            try:
                csv_options(**{key: data[key] for key in CSV_KEYS if key in data})
            except DPModelsError as error:
                problem = str(error)
            if problem:
                key = next((key for key in CSV_KEYS if key in data and key in problem), "sep")
                self.fault(("data", key), problem)
            for name in ("n", "units", "rows_per_unit"):
                if isinstance(data.get(name), _NUMBER) and not data[name] >= 1:
                    self.fault(("data", name), f"{name} is a number of 1 or more: {name} = 5_000")

    def number(self, path: Keys, number: Any, most: float, example: str) -> float:
        """Return a number above 0 (a delta: or 0) and up to ``most``; note it if it is not."""
        if not isinstance(number, _NUMBER) or isinstance(number, bool):
            return 0.0
        if 0.0 < number <= most or (number == 0 and path[-1] == "delta"):
            return float(number)
        self.fault(path, f"{path[-1]} = {number:g} is out of range: for example {example}")
        return 0.0

    def releases(self) -> Iterator[Asked]:
        """Yield the releases of a study, each checked."""
        entries = self.said.get("budget")
        budget = entries if isinstance(entries, dict) else {}
        eps = self.number(("budget", "eps"), budget.get("eps"), 1e3, "eps = 3")
        delta = self.number(("budget", "delta"), budget.get("delta"), 0.5, "delta = 1e-6")
        if budget.get("relation", "replace") not in ("replace", "add-remove"):
            self.fault(("budget", "relation"), 'relation is "replace" (the number of rows is '
                       'public) or "add-remove"')  # fmt: skip
        if budget.get("accounting", "gaussian") not in ("gaussian", "sums"):
            self.fault(("budget", "accounting"), 'accounting is "gaussian" (the default: mu^2 of '
                       'Gaussian noise is summed) or "sums" (of eps and of delta)')  # fmt: skip
        seen: dict[str, str] = {}
        for path, release in self.listed("release"):
            name, source, verb = (release.get(key, "") for key in ("name", "from", "verb"))
            if name and not _FILE_NAME.fullmatch(name):
                self.fault((*path, "name"), "a name becomes a file: letters, digits and _, first "
                           'a letter, at most 40: name = "wage"')  # fmt: skip
            if name.lower() in seen:
                self.fault((*path, "name"), f"the name {name!r} is used twice (capitals do not "
                           f'count). Each release has its own: name = "{name}2"')  # fmt: skip
            try:
                verb = verb and verb_named(verb).removeprefix("dp_")
            except DPModelsError as error:
                self.fault((*path, "verb"), str(error))
                verb = ""
            if source and source not in seen.values():
                close = did_you_mean(source, seen.values())
                self.fault((*path, "from"), f"from = {source!r} names no release above.{close} Put "
                           "it before this one")  # fmt: skip
            seen[name.lower()] = name
            options = release.get("options", {})
            for key in options:
                if refused := NOT_OPTIONS.get(key):
                    self.fault((*path, "options", key), f"{key} is not an option here: {refused}")
            yield Asked(
                name, verb, release.get("formula", ""), release.get("title", ""),
                *self.pair(path, release, eps, delta), options, source,
                tuple(self.after((*path, "after"), release.get("after", []))), path,
            )  # fmt: skip

    def pair(
        self, path: Keys, release: dict[str, Any], most: float, all_: float
    ) -> tuple[float, float]:
        """Return (eps, delta) of a release; delta is in proportion to eps if it is not given.

        most, all_: eps and delta of the budget.
        """
        keys = [key for key in ("eps", "share", "delta") if key in release]
        if release.get("from"):
            if keys:
                self.fault((*path, "from"), f"a fit on an earlier release is free: leave {keys[0]} "
                           "out")  # fmt: skip
            return 0.0, 0.0
        if ("eps" in keys) == ("share" in keys):
            problem = "has eps and share: leave one out" if "eps" in keys else (
                "has no eps: write eps = 1, or share = 0.3 of the budget"
            )  # fmt: skip
            self.fault(path, f"this release {problem}")
            return 0.0, 0.0
        limit = "and no more than the budget's"
        if "share" in release:
            eps = most * self.number((*path, "share"), release["share"], 1.0, "share = 0.3")
        else:
            eps = self.number((*path, "eps"), release["eps"], most or 1e3, f"eps = 1, {limit}")
        delta = all_ * eps / most if most else 0.0
        if "delta" in release:
            delta = self.number((*path, "delta"), release["delta"], all_, f"delta = 1e-7, {limit}")
        return eps, delta

    def after(self, path: Keys, entries: list[Any]) -> Iterator[After]:
        """Yield the results that a study computes after a release."""
        for k, entry in enumerate(entries):
            entry = entry if isinstance(entry, dict) else {}
            kinds = [key for key in entry if key in AFTER]
            if len(kinds) != 1:
                close = did_you_mean(next(iter(entry), ""), AFTER)
                self.fault((*path, k), "[[release.after]] has one of: " + ", ".join(AFTER)
                           + f'; for example wald = "educ, exper".{close}')  # fmt: skip
                continue
            for key in (key for key in _PAID if key in entry):
                self.fault((*path, k, key), f"what comes after a release is free: leave {key} out. "
                           "A separate release is a [[release]]")  # fmt: skip
            options = {key: value for key, value in entry.items() if key not in (kinds[0], *_PAID)}
            yield After(kinds[0], entry[kinds[0]], options, (*path, k, kinds[0]))

    def sides(self, names: list[str]) -> Iterator[Side]:
        """Yield the tables of several fits that a study makes."""
        taken = [name.lower() for name in names]
        for k, (path, table) in enumerate(self.listed("table"), 1):
            for j, fit in enumerate(table.get("fits", ())):
                if fit not in names:
                    close = did_you_mean(str(fit), names)
                    self.fault((*path, "fits", j), f"fits: no release is called {fit!r}.{close} "
                               f"Releases: {', '.join(names)}")  # fmt: skip
            name = table.get("name", f"table{k}")
            if not _FILE_NAME.fullmatch(name) or name.lower() in taken:
                self.fault((*path, "name"), "the name of a table becomes a file: letters, digits "
                           f'and _, of no other table or release: name = "table{k}"')  # fmt: skip
            taken.append(name.lower())
            yield Side(name, table.get("title", ""), tuple(table.get("fits", ())),
                       table.get("options", {}), path)  # fmt: skip

    def formats(self) -> tuple[str, ...]:
        """Return the file formats of the report."""
        report = self.said.get("report", {})
        formats = report.get("formats", ["html", "csv"]) if isinstance(report, dict) else []
        formats = formats if isinstance(formats, list) else []
        for k, name in enumerate(formats):
            if name not in FORMATS:
                close = did_you_mean(str(name), FORMATS)
                self.fault(("report", "formats", k), f"no format {name!r}.{close} Formats: "
                           f"{', '.join(FORMATS)}")  # fmt: skip
        return tuple(name for name in FORMATS if name in formats)

    def schema(self, folder: Path) -> tuple[Schema, tuple[Places, Keys], dict[str, Any]]:
        """Return the schema, its place and its contents; record all of its faults."""
        data, declared = self.said.get("data"), self.said.get("schema")
        file = data.get("schema") if isinstance(data, dict) else None
        places, prefix = self.places, ("schema",) if declared is not None else ()
        if isinstance(declared, dict) == isinstance(file, str):
            self.fault(("data", "schema"), "a study has one schema: tables [schema.wage] with "
                       'type = "real", or [data] schema = "schema.toml"')  # fmt: skip
        elif declared is None and not (folder / str(file)).is_file():
            self.fault(("data", "schema"), "there is no such file next to the study. Write one: "
                       "dpmodels schema new wage educ > schema.toml")  # fmt: skip
        elif declared is None:
            declared, places = parsed(folder / str(file))
        out = {}
        for name, facts in (declared if isinstance(declared, dict) else {}).items():
            try:
                out[name] = Schema(**{name: facts})[name]
            except DPModelsError as error:
                self.faults.append((places.line((*prefix, name)), str(error)))
                continue
            if getattr(out[name], "levels", None) == ():  # a study buys none
                self.faults.append((places.line((*prefix, name)), f"{name} needs its levels: "
                                    'levels = ["north", "south"]'))  # fmt: skip
                del out[name]
        return Schema(**out), (places, prefix), declared if isinstance(declared, dict) else {}


def read(path: str | Path) -> Paper:
    """Return the requests of a study file; refuse a file that is not TOML."""
    file = path_of(path, "the path of the file of a study")
    if not file.is_file():
        raise StudyError(f"{file.name}:1:1: there is no such file. A new one: dpmodels study new "
                         '"wage ~ educ" > study.toml')  # fmt: skip
    contents, places = parsed(file)
    reader = _Reader(contents, places)
    reader.sections()
    schema, schema_places, variables = reader.schema(file.parent)
    releases = tuple(reader.releases())
    sides = tuple(reader.sides([r.name for r in releases]))
    formats = reader.formats()
    resolved = {**contents, "schema": variables}
    if isinstance(contents.get("data"), dict):
        resolved["data"] = {k: v for k, v in contents["data"].items() if k != "schema"}
    resolved = json.loads(json.dumps(resolved, default=str))  # dates as text
    return Paper(resolved, places, schema, schema_places, releases, sides, formats, reader.faults)


# -- A study to complete, every choice explained.


_PEOPLE = """\
unit = {}                           # whose row it is: all rows of a person are protected together
# units =                           # people: a public number, 5_000
rows_per_unit = 5                   # a public guess of the rows of one"""


def text(formula: str, verb: str = "ols", unit: str | None = None) -> str:
    """Return the text of a study for one formula."""
    verb = verb_named(verb).removeprefix("dp_")
    plain = formula.partition("|")[0] if verb in ("feols", "fepois", "iv") else formula
    names = [name for name in needed_variables(plain, None) if name != unit]
    levels = category_names(plain)
    variables = []
    for name in names:
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
        kind = ("levels", "levels") if name in levels else ("real", "lower =\n# upper")
        variables.append('[schema.{}]\ntype = "{}"\n# {} =\n'.format(key, *kind))
    size = "# n =                               # rows: a public number, 5_000"
    template = Template(resources.files(__package__).joinpath("template.toml").read_text("utf-8"))
    return template.substitute(
        title=json.dumps(f"A study of {names[0]}"), schema="\n".join(variables), verb=verb,
        size=_PEOPLE.format(json.dumps(unit)) if unit else size, formula=json.dumps(formula),
        counted="people" if unit else "rows", after=", ".join(AFTER),
        name=json.dumps(re.sub(r"[^A-Za-z0-9]+", "_", names[0]).strip("_") + f"_{verb}"),
        wald=json.dumps(", ".join(names[1:2]) or names[0]),
    )  # fmt: skip
