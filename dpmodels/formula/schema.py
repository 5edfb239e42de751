"""Schema: the public kind, range and levels of each variable. Declared, never learnt from rows.

A variable's range is a claim made *without looking at the data*: it comes from the instrument,
the questionnaire or the textbook. Values outside are clipped, silently; levels that are not
declared count as missing (or as ``other=``). Everything the formula front end knows about a
column before the first row is read comes from here.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dpmodels.errors import SchemaError, SchemaNeededError, did_you_mean, path_of, shown
from dpmodels.formula.parser import category_names, inline_variables, needed_variables
from dpmodels.formula.types import check_types
from dpmodels.variables import (
    NA_WORDS,
    Binary,
    Count,
    Date,
    Levels,
    Real,
    Text,
    Variable,
    as_variable,
)

_ATTRS_KEY = "dpmodels_schema"


def toml() -> Any:
    """Import the reader of TOML: Python's own from 3.11 on."""
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class Schema(Mapping[str, Variable]):
    """Public facts about variables. Frozen, hashable; a mapping from name to variable.

    Parameters
    ----------
    **variables
        ``name=Real(0, 10)`` and so on. For other names: ``Schema(**{"pH value": Real(0, 14)})``.
        ``unit="person_id"`` names the column of the person whom the calls protect.

    Notes
    -----
    **Privacy.** Everything in a schema is public and must be known without looking at the rows.

    Examples
    --------
    >>> from dpmodels import Levels, Real, Schema
    >>> s = Schema(quality=Real(0, 10), region=Levels(["north", "south"], other="elsewhere"))
    >>> s["quality"].interval
    (0.0, 10.0)
    >>> Schema.from_toml(s.to_toml()) == s
    True
    """

    __slots__ = ("_hash", "_items", "unit")
    _items: dict[str, Variable]
    unit: str | None  # Column that identifies people, or None if each row is its own unit
    _hash: int

    def __init__(self, /, *unnamed: Any, **variables: Any) -> None:
        if unnamed:
            raise SchemaError(
                "Schema needs variables by name: Schema(age=Real(0, 100)). For names that Python "
                "cannot write, a mapping with two stars: Schema(**{'hours per week': Real(1, 99)})"
            )
        items: dict[str, Variable] = {}
        # the column of unit="person_id"; a variable may be called unit all the same
        unit = variables.get("unit")
        if isinstance(unit, Mapping):
            unit = str(unit.get("column")) if unit.get("type") == "unit" else None
        object.__setattr__(self, "unit", unit if isinstance(unit, str) and unit else None)
        for name, spec in variables.items():
            if name == "unit" and self.unit is not None:
                continue
            failed: SchemaError | None = None
            try:
                items[name] = spec if isinstance(spec, Variable) else as_variable(name, spec)
            except SchemaError as error:
                failed = error
            if failed is not None:
                text = str(failed)
                raise SchemaError(text if repr(name) in text else f"variable {name!r}: {text}")
        object.__setattr__(self, "_items", items)
        object.__setattr__(self, "_hash", hash((frozenset(items.items()), self.unit)))

    # -- mapping ---------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Variable:
        if name not in self._items:
            close = did_you_mean(name, self._items)
            raise SchemaError(f"no variable {name!r} in the schema.{close}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Schema) and self.unit == other.unit
        return same and dict(self) == dict(other)  # type: ignore[call-overload, no-any-return]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Schema is frozen; use schema.update(name=...)")

    def __reduce__(self) -> Any:
        return (Schema.from_dict, (self.to_dict(),))

    def __repr__(self) -> str:
        inside = "" if self.unit is None else f"    unit = {self.unit!r},\n"
        for name, variable in self._items.items():
            inside += f"    {name if name.isidentifier() else repr(name)} = {variable!r},\n"
        return f"Schema(\n{inside})" if inside else "Schema()"

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Name -> variable, in the order given."""
        return dict(self._items)

    # -- building --------------------------------------------------------------------------
    def update(self, other: Mapping[str, Any] | None = None, /, **variables: Any) -> Schema:
        """Return a schema with variables added or replaced; one without a label keeps its own."""
        unit = {} if self.unit is None else {"unit": self.unit}
        new = Schema(**{**unit, **self.variables, **dict(other or {}), **variables})
        labelled = {
            name: {**v.to_dict(), "label": self[name].label}
            for name, v in new.items()
            if name in self and v.label is None and self[name].label is not None
        }
        return Schema(**{**unit, **new.variables, **labelled}) if labelled else new

    def restrict(self, names: Iterable[str]) -> Schema:
        """Return the schema of the named variables, in that order."""
        return Schema(**{name: self[name] for name in names})

    def attach(self, df: Any) -> Any:
        """Store the schema in ``df.attrs``; returns ``df``. ``schema=`` always wins over it."""
        df.attrs[_ATTRS_KEY] = self.to_json()
        return df

    @classmethod
    def from_frame_attrs(cls, df: Any) -> Schema | None:
        """Return the schema attached to a frame, or ``None``. Reads no cell."""
        attrs = getattr(df, "attrs", None)
        text = attrs.get(_ATTRS_KEY) if isinstance(attrs, Mapping) else None
        return cls.from_json(text) if isinstance(text, str) else None

    @staticmethod
    def template(formula: str) -> str:
        """Return a schema to complete and paste for the variables of ``formula``."""
        return _template(needed_variables(formula, None), category_names(formula))

    # -- files -----------------------------------------------------------------------------
    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return nested dictionaries."""
        unit = {} if self.unit is None else {"unit": {"type": "unit", "column": self.unit}}
        return {**unit, **{name: v.to_dict() for name, v in self.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Build from :meth:`to_dict`."""
        return cls(**{str(k): v for k, v in data.items()})

    def to_json(self) -> str:
        """Return JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Build from JSON text."""
        return cls.from_dict(_parsed(json.loads, text, "JSON"))

    def to_toml(self) -> str:
        """Return TOML text with one table per variable."""
        blocks = []
        for name, facts in self.to_dict().items():
            key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
            lines = "".join(f"{k} = {_toml(v)}\n" for k, v in facts.items())
            blocks.append(f"[{key}]\n{lines}")
        return "\n".join(blocks)

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Build from TOML text."""
        return cls.from_dict(_parsed(toml().loads, text, "TOML"))

    def save(self, path: Any) -> None:
        """Write a ``.toml`` or ``.json`` file."""
        text = self.to_json() if str(path).endswith(".json") else self.to_toml()
        file_path = path_of(path, "the path of a schema", SchemaError)
        with file_path.open("w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def load(cls, path: Any) -> Schema:
        """Read a ``.toml`` or ``.json`` file."""
        with path_of(path, "the path of a schema", SchemaError).open(encoding="utf-8") as file:
            text = file.read()
        return cls.from_json(text) if str(path).endswith(".json") else cls.from_toml(text)

    @classmethod
    def from_codebook(cls, path: Any) -> Schema:
        """Build from a codebook: CSV, a REDCap data dictionary, or a Frictionless Table Schema.

        Parameters
        ----------
        path : path
            A CSV codebook has a line a variable, with columns name, type, lower, upper, levels,
            missing, label (``levels`` as ``1=male | 2=female``). A REDCap data dictionary is known
            by its header: choices become levels, validation limits a range. A Table Schema is JSON.

        Notes
        -----
        A number without limits has no range: it is to be declared, or is estimated.

        **Privacy.** A codebook was written without the rows, and is public. No row is read.
        """
        from dpmodels.formula.codebooks import as_schema_items, read

        return cls(**as_schema_items(read(path), path))

    def to_codebook(self, path: Any) -> None:
        """Write a codebook that :meth:`from_codebook` reads: ``.csv``, or ``.json``."""
        from dpmodels.formula.codebooks import write

        write(path, self.variables)

    @classmethod
    def from_file(cls, path: Any, *, public: bool = False) -> Schema:
        """Build from the labels in a file of Stata, SPSS or SAS; reads no row.

        Parameters
        ----------
        path : path
            ``.dta``, ``.sav``, ``.zsav``, ``.por``, ``.sas7bdat``, ``.xpt`` (needs pyreadstat,
            ``pip install 'dpmodels[files]'``). Value labels become levels in the order of their
            codes, user-missing codes and ranges of codes ``missing=``, variable labels ``label=``.
            A number stays one if its measure is "scale", or if it has labels at two or three whole
            numbers that are not next to each other and its measure is not "nominal". Ranges are not
            taken from the data.
        public : bool
            Whether the labels are those of the codebook. Labels inside a private file may list only
            codes that occur in it, so a file that has rows needs ``public=True``.

        Notes
        -----
        **Privacy.** Reads the description of the columns alone. Whether that is public is for you
        to say.
        """
        from dpmodels.formula.codebooks import READERS, as_schema_items, from_metadata, metadata

        file = path_of(path, "the path of a file", SchemaError)
        if file.suffix.lower() not in READERS:
            raise SchemaError(
                f"{file.name}: a schema is made of the labels in {', '.join(READERS)}. Of a "
                "codebook: dp.Schema.from_codebook(path)"
            )
        if not file.is_file():
            raise SchemaError(f"there is no file {str(path)!r}")
        header = metadata(file)
        if not public and getattr(header, "number_rows", None) != 0:
            raise SchemaError(
                f"{file.name} has rows, and labels inside a private file may list only codes that "
                "occur in it. If they are those of the codebook, type "
                f"dp.Schema.from_file({file.name!r}, public=True); or give a file without rows"
            )
        return cls(**as_schema_items(from_metadata(header), file))

    # -- what it says ----------------------------------------------------------------------
    def __str__(self) -> str:
        """Return one line per variable, with its label."""
        if not self._items:
            return "Schema()"
        width = max(map(len, self._items))
        texts = {name: _in_words(variable) for name, variable in self._items.items()}
        wide = min(max(map(len, texts.values())), 60)
        lines = [] if self.unit is None else [f"one person: {self.unit}"]
        for name, words in texts.items():
            label = getattr(self._items[name], "label", None) or ""
            lines.append(f"{name:<{width}}  {words:<{wide}}  {label}".rstrip())
        return "\n".join(lines)

    def problems(self, data: Any) -> list[str]:
        """Return the differences between the schema and a table, before any call.

        Parameters
        ----------
        data : table
            Any table that ``data=`` of a verb takes.

        Returns
        -------
        list of str
            Declared variables that are no column, columns of a type that cannot match, codes
            between those of levels (a scale of which a few numbers have labels), and columns that
            are not declared.

        Notes
        -----
        **Privacy.** Reads names and types of columns only.
        """
        # names and types of a table alone: no release and no estimate calls this
        top = importlib.import_module("dpmodels.api.inspected")
        return top.problems(self, data)


def _in_words(variable: Variable) -> str:
    """Return the declarations of a variable on one line."""
    levels = [str(x) for x in getattr(variable, "levels", None) or ()]
    if levels:
        text = ", ".join(levels)
        facts = text if len(text) <= 40 else f"{len(levels)} levels: {text[:28]}..."
    elif variable.codes == () and isinstance(variable, Levels):
        facts = "levels to be estimated"
    elif variable.kind == "text":
        facts = "levels to be declared"
    elif isinstance(variable, Date) and variable.upper is not None:
        facts = f"{variable.lower} to {variable.upper}, in {variable.unit}"
    elif variable.interval is None:
        facts = "range to be declared or estimated"
    else:
        facts = "0 or 1" if variable.kind == "binary" else "{:g} to {:g}".format(*variable.interval)
    missing = getattr(variable, "missing", None)
    coded = f"; missing: {', '.join(map(str, missing))}" if missing else ""
    return f"{variable.kind}: {facts}{coded}"


def _parsed(load: Any, text: str, what: str) -> Mapping[str, Any]:
    """Return the mapping in a schema text (TOML or JSON), or refuse it."""
    problem = ""
    data: Any = None
    try:
        data = load(text)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    if problem:
        raise SchemaError(f"the schema is not valid {what}: {problem}")
    if not isinstance(data, Mapping) or not all(isinstance(v, Mapping) for v in data.values()):
        raise SchemaError(f'a schema in {what} has one table per variable, with type = "real" etc.')
    return data


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _template(needed: Iterable[str], text: Iterable[str] = ()) -> str:
    """Return the schema to type for variables that are not declared."""
    text = list(text)
    others = [n for n in needed if n not in text]
    width = max((len(n) for n in (*text, *others)), default=0)
    lines = [f"    {n:<{width}} = dp.Levels([...]),\n" for n in text]
    optional = "# optional: an undeclared numeric range is estimated from eps, delta"
    for i, n in enumerate(others):
        note = optional if i == 0 else "# optional"
        lines.append(f"    {n:<{width}} = dp.Real(lower=..., upper=...),     {note}\n")
    if all(n.isidentifier() for n in (*text, *others)):
        return "schema = dp.Schema(\n" + "".join(lines) + ")"
    quoted = [re.sub(r"^    (.*?)\s+= ", lambda m: f"    {m.group(1)!r}: ", x) for x in lines]
    return "schema = dp.Schema(**{\n" + "".join(quoted) + "})"


def declared_schema(schema: Any, attached: Schema | None) -> Schema | None:
    """Return the declared schema: ``schema=`` (a mapping will do), else the one of the table."""
    if schema is None or isinstance(schema, Schema):
        return attached if schema is None else schema
    if isinstance(schema, Mapping) and all(isinstance(name, str) for name in schema):
        return Schema(**schema)
    raise SchemaError(
        "schema= must be a Schema, or a mapping from names to variables, for example "
        f"dp.Schema(x=dp.Real(0, 10)); got {type(schema).__name__}"
    )


def schema_for(
    data_columns: Mapping[str, str],
    schema: Schema | None,
    bounds: Mapping[str, Any] | str | None,
    needed: Iterable[str],
    *,
    formula: str | None = None,
    verb: str = "this model",
) -> Schema:
    """Combine the declared schema, the short form ``bounds=`` and the public column types.

    ``data_columns``: column -> "numeric", "text", "bool", "datetime", "category" ... (public).
    ``bounds`` wins over the schema's ranges; "private" drops no declaration here (the caller
    estimates ranges for all numeric variables). Levels that are written in ``formula``, as in
    ``C(region, levels=[...])``, need no entry. The schema has the variables ``needed``, in order.

    **Privacy.** Uses names and column types only; which error is raised never depends on cells.
    """
    needed = list(dict.fromkeys(needed))
    declared: dict[str, Variable] = dict(schema.variables) if schema is not None else {}
    short = {}
    if bounds is not None and not (isinstance(bounds, str) and bounds == "private"):
        short = _short_form(bounds, {**dict.fromkeys(data_columns), **dict.fromkeys(declared)})
    inline = {} if formula is None else inline_variables(formula)
    out: dict[str, Variable] = {}
    silent: list[str] = []  # names of which nothing is declared
    missing_text: list[str] = []
    for name in needed:
        if name not in data_columns:
            raise SchemaError(
                f"the data has no column {shown(name)}.{did_you_mean(name, data_columns)} "
                f"Columns: {_first_names(data_columns)}"
            )
        kind = str(data_columns[name])
        if name in short:
            out[name] = _with_short(name, declared.get(name), short[name])
        elif name in declared:
            out[name] = declared[name]
        elif name in inline:
            out[name] = inline[name]
        elif kind == "bool":
            out[name] = Binary()
        elif kind in ("text", "category", "string", "object"):  # nested ones are refused below
            missing_text.append(name)
        else:
            out[name] = Real()
            silent.append(name)
    for name, variable in out.items():
        if isinstance(variable, Levels) and not variable.levels:
            raise SchemaError(
                f"the levels of {name!r} are to be estimated, which needs the data: "
                f"dp.dp_levels([{name!r}], data, eps=, delta=) gives levels for the schema"
            )
    out = {name: as_recorded(name, variable, data_columns) for name, variable in out.items()}
    check_types(data_columns, out, silent, short)
    if missing_text:
        count = len(missing_text)
        where = f' of "{formula}"' if formula else ""
        template = "\n".join("      " + x for x in _template(needed, missing_text).splitlines())
        raise SchemaNeededError(
            f"{verb} needs declared levels for {count} variable{'s' if count > 1 else ''}{where}\n"
            "  Levels are not read from the rows. dp.dp_levels([...], data, eps=, delta=) finds "
            "the values that many rows have.\n"
            "  Paste and complete (do not take the levels or numbers from the data):\n" + template
        )
    return Schema(**out)


def as_recorded(name: str, variable: Variable, columns: Mapping[str, str]) -> Variable:
    """Return a variable as its file is written: with the decimal sign and missing words of a file.

    ``columns``: those of a source; of a file of text they say how it is written. **Privacy.** These
    are arguments of the call that reads the file, and public.
    """
    signs = getattr(columns, "signs", None)
    if signs is None or isinstance(variable, Text):
        return variable
    changes: dict[str, Any] = {}
    if isinstance(variable, (Real, Count)) and getattr(variable, "duration", None) is None:
        if variable.decimal is None and signs.ask:
            raise SchemaError(
                f"{name!r} is a number, and a file with semicolons often has decimal commas. Say "
                "the decimal sign: dp.read_csv(path, sep=';', decimal=',') or decimal='.'; "
                "--decimal ',' on the command line; decimal = \",\" in [data] of a study. Nothing "
                "was charged"
            )
        if variable.decimal is None and variable.thousands is None:
            changes["decimal"] = signs.decimal if signs.decimal == "," else None
            changes["thousands"] = signs.thousands
    if signs.missing:
        changes["missing"] = [*dict.fromkeys([*(variable.missing or ()), *signs.missing])]
    elif signs.missing is None and isinstance(variable, (Levels, Binary)):
        words = {str(x) for x in variable.levels or ()} | {key for key, _ in variable.recode or ()}
        if taken := sorted(words.intersection(NA_WORDS)):
            raise SchemaError(
                f"{taken[0]!r} is a level of {name!r}, and in a CSV file it stands for a missing "
                "cell. List the missing codes: dp.read_csv(path, na=['']). Nothing was charged"
            )
    changes = {key: value for key, value in changes.items() if value is not None}
    facts = {key: value for key, value in variable.to_dict().items() if key != "type"}
    return type(variable)(**{**facts, **changes}) if changes else variable


def _short_form(bounds: Any, variables: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the ranges of ``bounds=``, by variable."""
    if not isinstance(bounds, Mapping):
        raise SchemaError(
            f'bounds must be a mapping {{"alcohol": (8, 15)}} or "private", got {shown(bounds)}'
        )
    out = {}
    for name, pair in bounds.items():
        if variables and name not in variables:
            raise SchemaError(
                f"bounds: no variable {shown(name)}.{did_you_mean(str(name), variables)} "
                f"Variables: {_first_names(variables)}"
            )
        if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable):
            raise SchemaError(f"bounds[{name!r}] must be a pair (lower, upper), got {shown(pair)}")
        both = tuple(pair)
        if any(isinstance(x, (str, bytes, bool)) for x in both):
            raise SchemaError(
                f"bounds[{shown(name)}]: bounds are the ranges of numbers. The levels of a "
                "category are declared in the schema, from what is known without the data: "
                f"schema={{{shown(name)}: dp.Levels([...])}}"
            )
        if len(both) != 2:
            raise SchemaError(f"bounds[{name!r}] must be a pair (lower, upper), got {shown(pair)}")
        out[str(name)] = (both[0], both[1])
    return out


def _with_short(name: str, declared: Variable | None, pair: tuple[Any, Any]) -> Variable:
    """Return the declaration of a variable with the range that ``bounds=`` gives it."""
    if declared is not None and not isinstance(declared, (Real, Count)):
        raise SchemaError(
            f"bounds[{name!r}]: the schema declares {name!r} as {type(declared).__name__}, "
            "which has no range to set. Remove it from bounds"
        )
    facts = {} if declared is None else declared.to_dict()
    extra = {k: v for k, v in facts.items() if k not in ("type", "lower", "upper")}
    failed = ""
    try:
        return Real(*pair, **extra)
    except SchemaError as error:
        failed = str(error)
    raise SchemaError(f"bounds[{name!r}]: {failed}")


def _first_names(names: Iterable[str], most: int = 12) -> str:
    shown = [str(n) for n in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def label_of(schema: Schema, name: str) -> str:
    """Return the label of a variable, a number with its unit; the name if it has none."""
    inner = name[2:-1] if name.startswith("C(") and name.endswith(")") else name
    declared = schema.variables.get(inner.strip("`"))
    if declared is None:
        return name
    label = str(getattr(declared, "label", None) or name)
    unit = getattr(declared, "unit", None)
    return f"{label}, {unit}" if unit and declared.kind in ("real", "count", "date") else label
