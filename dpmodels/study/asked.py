"""What a study asks for: the file read into frozen records, every fault with its place."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpmodels.errors import DPModelsError, SchemaError, StudyError, did_you_mean
from dpmodels.schema import Schema
from dpmodels.study import calls
from dpmodels.study.places import Keys, Places, parsed, plain_values, read_text

#: Formats of a report; html is the page, the others are files of its tables.
FORMATS = ("html", "csv", "tex", "docx")
_NUMBER, _TEXT, _WHOLE = (int, float), (str,), (int,)
#: Table -> key -> (types, what to type). "?" first: it may be left out.
_FIELDS: dict[str, dict[str, tuple[tuple[type, ...], str]]] = {
    "study": {
        "title": (_TEXT, 'title = "Wages and schooling"'),
        "who": (_TEXT, '?who = "Institute, names"'),
        "why": (_TEXT, '?why = "what the results are for"'),
    },
    "data": {
        "n": (_WHOLE, "?n = 41_000"),
        "unit": (_TEXT, '?unit = "person_id"'),
        "units": (_WHOLE, "?units = 5_000"),
        "rows_per_unit": (_NUMBER, "?rows_per_unit = 5"),
        "schema": (_TEXT, '?schema = "schema.toml"'),
        "columns": ((dict,), '?columns = {wage = "WAGE_2021"}'),
    },
    "budget": {
        "eps": (_NUMBER, "eps = 3"),
        "delta": (_NUMBER, "delta = 1e-6"),
        "relation": (_TEXT, '?relation = "replace"'),
    },
    "release": {
        "name": (_TEXT, 'name = "wage"'),
        "verb": (_TEXT, 'verb = "ols"'),
        "formula": (_TEXT, 'formula = "wage ~ educ"'),
        "title": (_TEXT, '?title = "Returns to schooling"'),
        "eps": (_NUMBER, "?eps = 1"),
        "delta": (_NUMBER, "?delta = 1e-7"),
        "share": (_NUMBER, "?share = 0.3"),
        "from": (_TEXT, '?from = "moments"'),
        "options": ((dict,), '?options = {vcov = "hetero"}'),
        "after": ((list,), "?[[release.after]]"),
    },
    "table": {
        "fits": ((list,), 'fits = ["wage", "wage2"]'),
        "name": (_TEXT, '?name = "main"'),
        "title": (_TEXT, '?title = "Main results"'),
        "options": ((dict,), "?options = {digits = 3}"),
    },
    "report": {"formats": ((list,), '?formats = ["html", "csv"]')},
}
_SECTIONS = (*_FIELDS, "schema")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


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
    """What a file asks for, and its faults.

    Attributes
    ----------
    said : mapping
        The study itself, schema included: what is hashed and recorded.
    problems : list of (place, text)
        ``("study.toml:12:3", "what is wrong, and what to type")``.
    """

    said: Mapping[str, Any]
    places: Places
    schema_places: Places
    schema: Schema
    releases: tuple[Asked, ...]
    sides: tuple[Side, ...]
    formats: tuple[str, ...]
    problems: list[tuple[str, str]] = field(default_factory=list)

    def get(self, table: str, key: str, default: Any = None) -> Any:
        """Return an entry of ``[study]``, ``[data]`` or ``[budget]``."""
        found = self.said.get(table)
        return found.get(key, default) if isinstance(found, Mapping) else default

    @property
    def eps(self) -> float:
        """Eps of the whole study."""
        return float(self.get("budget", "eps"))

    @property
    def delta(self) -> float:
        """Delta of the whole study."""
        return float(self.get("budget", "delta"))

    @property
    def relation(self) -> str:
        """Neighbours."""
        return str(self.get("budget", "relation", "replace"))

    @property
    def unit(self) -> str | None:
        """Column of the people who are protected; None: a row is."""
        found: str | None = self.get("data", "unit")
        return found

    @property
    def size(self) -> int:
        """Public number of units: of people, where ``unit`` is given, else of rows."""
        return int(self.get("data", "units" if self.unit else "n"))

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical text: keys in order, no comments, the schema in it."""
        return canonical_hash(self.said)

    def arguments(self) -> dict[str, Any]:
        """Return what every call of the study is given."""
        out: dict[str, Any] = {"schema": self.schema}
        if self.unit:
            out["unit"] = self.unit
            if self.get("data", "rows_per_unit"):
                out["rows_per_unit"] = self.get("data", "rows_per_unit")
        if self.relation != "replace":
            out["relation"] = self.relation
        return out


def canonical_hash(said: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text of a study."""
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class _Reader:
    """Reads the tables of a file and collects what is wrong with them."""

    def __init__(self, said: dict[str, Any], places: Places) -> None:
        self.said, self.places = said, places
        self.problems: list[tuple[str, str]] = []

    def fault(self, path: Keys, text: str) -> None:
        self.problems.append((self.places.line(path), text))

    def checked(self, kind: str, path: Keys, given: Any, *, more: bool = False) -> dict[str, Any]:
        """Return the entries of a table that are usable; note the others."""
        fields = _FIELDS[kind]
        if not isinstance(given, dict):
            self.fault(path, f"this is a table, with entries such as {_example(fields)}")
            return {}
        out = {}
        for key, value in given.items():
            if key in fields:
                types, example = fields[key]
                wrong = not isinstance(value, types) or isinstance(value, bool)
                if wrong:
                    self.fault((*path, key), f"{key} is no {_kind(types)}: {_typed(example)}")
                else:
                    out[key] = value
            elif not more:
                self.fault(
                    (*path, key),
                    f"[{kind}] has no {key!r}.{did_you_mean(key, fields)} It has: "
                    f"{', '.join(fields)}",
                )
        for key, (_, example) in fields.items():
            if not example.startswith("?") and key not in given:
                self.fault(path, f"[{kind}] needs {key}: {_typed(example)}")
        return out

    def listed(self, kind: str) -> Iterator[tuple[Keys, dict[str, Any]]]:
        """Yield the place and the entries of each ``[[kind]]``."""
        given = self.said.get(kind, [])
        if not isinstance(given, list):
            self.fault((kind,), f"a list of tables is written [[{kind}]], with two brackets")
            return
        for k, one in enumerate(given):
            yield (kind, k), self.checked(kind, (kind, k), one)

    # -- the parts of a study ---------------------------------------------------------------

    def sections(self) -> None:
        for key in self.said:
            if key not in _SECTIONS:
                self.fault(
                    (key,), f"a study has no [{key}].{did_you_mean(key, _SECTIONS)} It has: "
                    f"{', '.join(_SECTIONS)}",
                )  # fmt: skip
        for kind in ("study", "data", "budget", "report"):
            if kind in self.said or kind != "report":
                self.checked(kind, (kind,), self.said.get(kind, {}))
        if not self.said.get("release"):
            self.fault((), 'a study needs a release: [[release]] with name, verb, formula, eps')
        data = self.said.get("data", {})
        if isinstance(data, dict):
            key = "units" if data.get("unit") else "n"
            counted = "people" if key == "units" else "rows"
            if key not in data:
                said = "the number of people that are protected" if key == "units" else "the size"
                self.fault(("data",), f"[data] needs {said}, a public number: {key} = 5_000")
            for name in ("n", "units", "rows_per_unit"):
                if isinstance(data.get(name), (int, float)) and not data[name] >= 1:
                    self.fault(("data", name), f"{name} counts {counted}: {name} = 5_000")

    def number(self, path: Keys, value: Any, low: float, high: float, example: str) -> bool:
        """Tell if a number lies between two others; note it if not."""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return False
        if low < value <= high or (low == value == 0.0 and "delta" in example):
            return True
        self.fault(path, f"{path[-1]} = {value:g} is out of range: for example {example}")
        return False

    def budget(self) -> tuple[float, float]:
        given = self.said.get("budget")
        given = given if isinstance(given, dict) else {}
        eps, delta = given.get("eps"), given.get("delta")
        fine = self.number(("budget", "eps"), eps, 0.0, 1e3, "eps = 3")
        small = self.number(("budget", "delta"), delta, 0.0, 0.5, "delta = 1e-6")
        relation = given.get("relation", "replace")
        if relation not in ("replace", "add-remove"):
            self.fault(
                ("budget", "relation"),
                'relation is "replace" (the number of rows is public) or "add-remove"',
            )
        return (float(eps) if fine else 0.0), (float(delta) if small else 0.0)

    def releases(self) -> Iterator[Asked]:
        eps_all, delta_all = self.budget()
        seen: dict[str, str] = {}
        for path, given in self.listed("release"):
            name = given.get("name", "")
            if name and not _NAME.fullmatch(name):
                self.fault(
                    (*path, "name"), "a name becomes a file: letters, digits, _ and -, starting "
                    'with a letter, at most 40: name = "wage"',
                )  # fmt: skip
            if name.lower() in seen:
                self.fault(
                    (*path, "name"), f"the name {name!r} stands twice (capitals are no matter): "
                    f"each release has its own, for example {name}2",
                )  # fmt: skip
            verb = given.get("verb", "")
            try:
                verb = calls.verb_named(verb).removeprefix("dp_") if verb else ""
            except DPModelsError as error:
                self.fault((*path, "verb"), str(error))
                verb = ""
            source = given.get("from", "")
            if source and source not in seen.values():
                self.fault(
                    (*path, "from"), f"from = {source!r} names no release above."
                    f"{did_you_mean(source, seen.values())} Put it before this one",
                )  # fmt: skip
            seen[name.lower()] = name
            options = given.get("options", {})
            for key in options:
                if refused := calls.refused_option(key):
                    self.fault((*path, "options", key), f"{key} is no option here: {refused}")
            eps, delta = self.pair(path, given, eps_all, delta_all)
            after = tuple(self.after(path, given.get("after", [])))
            yield Asked(
                name, verb, given.get("formula", ""), given.get("title", ""), eps, delta, options,
                source, after, path,
            )  # fmt: skip

    def pair(
        self, path: Keys, given: dict[str, Any], eps_all: float, delta_all: float
    ) -> tuple[float, float]:
        """Return what a release is charged; delta in proportion to eps where it is not given."""
        keys = [key for key in ("eps", "share") if key in given]
        if given.get("from"):
            if keys or "delta" in given:
                self.fault((*path, "from"), "a fit on an earlier release is free: leave eps, share "
                           "and delta out")  # fmt: skip
            return 0.0, 0.0
        if len(keys) != 1:
            said = "has eps and share: leave one out" if keys else "has no eps: write eps = 1, or "
            self.fault(path, f"this release {said}{'' if keys else 'share = 0.3'}")
            return 0.0, 0.0
        if "share" in given:
            fine = self.number((*path, "share"), given["share"], 0.0, 1.0, "share = 0.3")
            eps = given["share"] * eps_all if fine else 0.0
        else:
            fine = self.number((*path, "eps"), given["eps"], 0.0, eps_all or 1e3, "eps = 1, and "
                               "no more than the budget's")  # fmt: skip
            eps = float(given["eps"]) if fine else 0.0
        delta = delta_all * eps / eps_all if eps_all else 0.0
        if "delta" in given:
            fine = self.number((*path, "delta"), given["delta"], 0.0, delta_all or 1.0,
                               "delta = 1e-7, and no more than the budget's")  # fmt: skip
            delta = float(given["delta"]) if fine else 0.0
        return eps, delta

    def after(self, path: Keys, given: list[Any]) -> Iterator[After]:
        for k, one in enumerate(given):
            at = (*path, "after", k)
            found = [key for key in one if key in calls.AFTER] if isinstance(one, dict) else []
            if len(found) != 1:
                wrong = [key for key in one if key not in found] if isinstance(one, dict) else []
                hint = did_you_mean(wrong[0], calls.AFTER) if wrong and not found else ""
                self.fault(
                    at, "[[release.after]] has one of: " + ", ".join(calls.AFTER)
                    + f'; for example wald = "educ, exper".{hint}',
                )  # fmt: skip
                continue
            rest = {key: value for key, value in one.items() if key != found[0]}
            for key in ("eps", "delta", "seed", "budget"):
                if key in rest:
                    self.fault((*at, key), f"what comes after a release is free: leave {key} out. "
                               "A release of its own is a [[release]]")  # fmt: skip
            yield After(found[0], one[found[0]], rest, (*at, found[0]))

    def sides(self, names: list[str]) -> Iterator[Side]:
        for k, (path, given) in enumerate(self.listed("table"), 1):
            fits = tuple(given.get("fits", ()))
            for j, name in enumerate(fits):
                if name not in names:
                    self.fault(
                        (*path, "fits", j), f"fits: no release is called {name!r}."
                        f"{did_you_mean(str(name), names)} Releases: {', '.join(names)}",
                    )  # fmt: skip
            name = given.get("name", f"table{k}")
            if not _NAME.fullmatch(name) or name in names:
                self.fault((*path, "name"), "the name of a table becomes a file: letters, digits, "
                           f'_ and -, and no name of a release: name = "table{k}"')  # fmt: skip
            yield Side(name, given.get("title", ""), fits, given.get("options", {}), path)

    def formats(self) -> tuple[str, ...]:
        report = self.said.get("report")
        given = report.get("formats", ["html", "csv"]) if isinstance(report, dict) else ["html"]
        for k, one in enumerate(given if isinstance(given, list) else []):
            if one not in FORMATS:
                self.fault(
                    ("report", "formats", k), f"no format {one!r}."
                    f"{did_you_mean(str(one), FORMATS)} Formats: {', '.join(FORMATS)}",
                )  # fmt: skip
        return tuple(one for one in FORMATS if isinstance(given, list) and one in given)

    def schema(self, folder: Path) -> tuple[Schema, Places, dict[str, Any]]:
        """Return the schema, where it stands, and what it says; all of its faults are noted."""
        data, inline = self.said.get("data"), self.said.get("schema")
        file = data.get("schema") if isinstance(data, dict) else None
        places, said, prefix = self.places, {}, ("schema",)
        if isinstance(inline, dict) == isinstance(file, str):
            self.fault(("data", "schema"), "a study has one schema: tables "
                       '[schema.wage] with type = "real", or [data] schema = "schema.toml"')  # fmt: skip
        elif isinstance(inline, dict):
            said = inline
        elif not (folder / str(file)).is_file():
            self.fault(("data", "schema"), "there is no such file beside the study. Write one: "
                       "dpmodels schema new wage educ > schema.toml")  # fmt: skip
        else:
            said, places = parsed(read_text(folder / str(file)), Path(str(file)).name)
            prefix = ()
        out = {}
        for name, facts in said.items():
            try:
                if not isinstance(facts, dict):
                    raise SchemaError(f'{name} is a table: [schema.{name}] with type = "real"')
                out[name] = Schema(**{name: facts})[name]
            except DPModelsError as error:
                self.problems.append((places.line((*prefix, name)), str(error)))
            except TypeError:  # a variable without what it cannot do without
                self.problems.append((places.line((*prefix, name)), f"{name} needs its levels: "
                                      'levels = ["north", "south"]'))  # fmt: skip
        return Schema(**out), places, plain_values(said)


def read(path: str | Path) -> Paper:
    """Return what the file of a study asks for; faults are in ``problems``.

    Raises
    ------
    StudyError
        The file, or its schema, is no TOML.
    """
    file = Path(path)
    if not file.is_file():
        raise StudyError([f"{file.name}:1:1: there is no such file. A new one: dpmodels study new "
                          '"wage ~ educ" > study.toml'])  # fmt: skip
    said, places = parsed(read_text(file), file.name)
    reader = _Reader(said, places)
    reader.sections()
    schema, schema_places, variables = reader.schema(file.parent)
    releases = tuple(reader.releases())
    sides = tuple(reader.sides([r.name for r in releases]))
    formats = reader.formats()
    whole = {**plain_values(said), "schema": variables}
    if isinstance(whole.get("data"), dict):
        whole["data"] = {k: v for k, v in whole["data"].items() if k != "schema"}
    return Paper(
        whole, places, schema_places, schema, releases, sides, formats, reader.problems
    )


def _example(fields: Mapping[str, tuple[Any, str]]) -> str:
    return next(example.lstrip("?") for _, example in fields.values())


def _typed(example: str) -> str:
    return f"type {example.lstrip('?')}"


def _kind(types: tuple[type, ...]) -> str:
    return {str: "text", dict: "table", list: "list", int: "number"}[types[0]]
