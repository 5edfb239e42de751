"""What is public about each variable: kind, range, levels. Declared, never learnt from rows.

A variable's range is a claim made *without looking at the data*: it comes from the instrument,
the questionnaire or the textbook. Values outside are clipped, silently; levels that are not
declared count as missing (or as ``other=``). Everything the formula front end knows about a
column before the first row is read comes from here.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dpmodels.errors import SchemaError, SchemaNeededError, did_you_mean

__all__ = [
    "Binary",
    "Count",
    "Levels",
    "Ordered",
    "Real",
    "Schema",
    "Text",
    "Variable",
    "schema_for",
]

Scalar = str | int | float | bool
_ATTRS_KEY = "dpmodels_schema"


def _number(value: Any, what: str) -> float:
    """Return ``value`` as a finite float or refuse, naming the argument."""
    number = math.nan
    if not isinstance(value, (str, bytes, bool)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise SchemaError(
            f"{what} must be a finite number, got {value!r}. For example Real(lower=0, upper=10); "
            "leave both bounds out to have the range bought from eps and delta"
        )
    return number


def _bounds(lower: Any, upper: Any, kind: str) -> tuple[float | None, float | None]:
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        given = "upper" if lower is None else "lower"
        raise SchemaError(
            f"{kind}({given}=...) gives one bound only. Give both, as in {kind}(0, 10), or none "
            "(then the range is bought from eps and delta)"
        )
    lo, hi = _number(lower, f"{kind}: lower"), _number(upper, f"{kind}: upper")
    if not lo < hi:
        raise SchemaError(
            f"{kind}({lo:g}, {hi:g}): lower must be smaller than upper. "
            + (f"Did you mean {kind}({hi:g}, {lo:g})?" if hi < lo else "A constant needs no range.")
        )
    return lo, hi


def _levels(levels: Any, kind: str) -> tuple[Scalar, ...]:
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Iterable):
        raise SchemaError(f"{kind}(levels) needs a list, for example {kind}(['north', 'south'])")
    out = tuple(x.item() if hasattr(x, "item") and not isinstance(x, str) else x for x in levels)
    for level in out:
        if not isinstance(level, (str, int, float, bool)) or level != level:
            raise SchemaError(f"{kind}: a level must be text or a number, got {level!r}")
    twice = sorted({repr(x) for i, x in enumerate(out) if x in out[:i]})
    if twice:
        raise SchemaError(f"{kind}: level {', '.join(twice)} is listed twice. List each level once")
    if len(out) < 2:
        raise SchemaError(f"{kind}: needs at least two levels, got {list(out)!r}")
    return out


class _Base:
    """What every variable shares."""

    kind: ClassVar[str]

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range of the numeric value, or ``None`` (not numeric, or not declared)."""
        return None

    @property
    def numeric(self) -> bool:
        """Whether the variable enters a formula as a number."""
        return False

    @property
    def codes(self) -> tuple[Scalar, ...]:
        """Levels in the order of their codes (empty for numbers)."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON and TOML can hold."""
        out: dict[str, Any] = {"type": self.kind}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if value is not None:
                out[f.name] = list(value) if isinstance(value, tuple) else value
        return out

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={list(v) if isinstance(v, tuple) else v!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if (v := getattr(self, f.name)) is not None
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Real(_Base):
    """A number with a public range, or a number whose range will be bought.

    Parameters
    ----------
    lower, upper : float, optional
        Declared range. Values outside are clipped. Both ``None``: not declared.
    na : float, optional
        Public constant for missing cells (used under ``na="declared"`` and ``"impute-midpoint"``).
    label, unit : str, optional
        For tables.

    Notes
    -----
    **Privacy.** The range is a claim made without looking at the rows; it is public.
    """

    kind: ClassVar[str] = "real"
    lower: float | None = None
    upper: float | None = None
    na: float | None = None
    label: str | None = None
    unit: str | None = None

    def __init__(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        na: Any = None,
        label: str | None = None,
        unit: str | None = None,
    ) -> None:
        lo, hi = _bounds(lower, upper, "Real")
        _freeze(self, lower=lo, upper=hi, na=_na(na, lo, hi, "Real"), label=label, unit=unit)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range, or ``None``."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def numeric(self) -> bool:
        """A number."""
        return True


@dataclass(frozen=True, repr=False)
class Count(_Base):
    """A non-negative count with a public upper bound, or one whose range will be bought.

    Parameters
    ----------
    upper : float, optional
        Largest count that matters; larger ones are clipped. ``None``: not declared.
    na, label, unit
        As for :class:`Real`.

    Notes
    -----
    **Privacy.** ``upper`` is a claim made without looking at the rows; it is public.
    """

    kind: ClassVar[str] = "count"
    upper: float | None = None
    na: float | None = None
    label: str | None = None
    unit: str | None = None

    def __init__(
        self,
        upper: Any = None,
        *,
        na: Any = None,
        label: str | None = None,
        unit: str | None = None,
    ) -> None:
        hi = None if upper is None else _bounds(0, upper, "Count")[1]
        _freeze(self, upper=hi, na=_na(na, 0.0, hi, "Count"), label=label, unit=unit)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range, or ``None``."""
        return None if self.upper is None else (0.0, self.upper)

    @property
    def numeric(self) -> bool:
        """A number."""
        return True


@dataclass(frozen=True, repr=False)
class Binary(_Base):
    """0/1, False/True, or two declared levels of which the second counts as 1.

    Parameters
    ----------
    levels : pair, optional
        What stands for 0 and for 1, e.g. ``("no", "yes")``. Default: 0/1, False/True.
    na : {0, 1}, optional
        Public value for missing cells.
    label : str, optional
        For tables.

    Notes
    -----
    **Privacy.** The two levels are public. Any other cell is missing.
    """

    kind: ClassVar[str] = "binary"
    levels: tuple[Scalar, ...] | None = None
    na: float | None = None
    label: str | None = None

    def __init__(self, levels: Any = None, *, na: Any = None, label: str | None = None) -> None:
        pair = None if levels is None else _levels(levels, "Binary")
        if pair is not None and len(pair) != 2:
            raise SchemaError(f"Binary: needs exactly two levels, got {list(pair)!r}. Use Levels")
        if na is not None and na not in (0, 1):
            raise SchemaError(f"Binary: na must be 0 or 1, got {na!r}")
        _freeze(self, levels=pair, na=None if na is None else float(na), label=label)

    @property
    def interval(self) -> tuple[float, float] | None:
        """[0, 1]."""
        return (0.0, 1.0)

    @property
    def numeric(self) -> bool:
        """A number, 0 or 1."""
        return True


@dataclass(frozen=True, repr=False)
class Levels(_Base):
    """A factor with a public list of levels; the first is the reference.

    Parameters
    ----------
    levels : sequence
        Every level a row may have, in the order of the coding.
    other : level, optional
        Level that every undeclared value counts as (appended if it is not listed).
        Without it an undeclared value is missing.
    na : level, optional
        Level for missing cells (used under ``na="declared"`` and ``"impute-midpoint"``).
    label : str, optional
        For tables.

    Notes
    -----
    **Privacy.** The list is public: which of its levels occur in the rows is never shown.
    """

    kind: ClassVar[str] = "levels"
    levels: tuple[Scalar, ...]
    other: Scalar | None = None
    na: Scalar | None = None
    label: str | None = None

    def __init__(
        self, levels: Any, *, other: Any = None, na: Any = None, label: str | None = None
    ) -> None:
        name = type(self).__name__
        listed = list(levels) if not isinstance(levels, (str, bytes)) else levels
        if other is not None and isinstance(listed, list) and other not in listed:
            listed = [*listed, other]
        out = _levels(listed, name)
        if na is not None and na not in out:
            raise SchemaError(f"{name}: na={na!r} is not one of its levels {list(out)!r}")
        _freeze(self, levels=out, other=other, na=na, label=label)

    @property
    def codes(self) -> tuple[Scalar, ...]:
        """Levels in the order of their codes."""
        return self.levels


@dataclass(frozen=True, repr=False)
class Ordered(Levels):
    """A factor whose levels have an order. Coded like :class:`Levels` unless a contrast is asked.

    Notes
    -----
    **Privacy.** As for :class:`Levels`.
    """

    kind: ClassVar[str] = "ordered"

    def __init__(
        self, levels: Any, *, other: Any = None, na: Any = None, label: str | None = None
    ) -> None:
        super().__init__(levels, other=other, na=na, label=label)


@dataclass(frozen=True, repr=False)
class Text(_Base):
    """Free text with no declared levels: usable only inside ``hashed(x, levels=)``.

    Notes
    -----
    **Privacy.** Nothing about the values is public.
    """

    kind: ClassVar[str] = "text"
    label: str | None = None

    def __init__(self, label: str | None = None) -> None:
        _freeze(self, label=label)


Variable = Real | Count | Binary | Levels | Ordered | Text
_KINDS: dict[str, type[Any]] = {c.kind: c for c in (Real, Count, Binary, Levels, Ordered, Text)}


def _freeze(obj: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(obj, name, value)


def _na(na: Any, lo: float | None, hi: float | None, kind: str) -> float | None:
    if na is None:
        return None
    value = _number(na, f"{kind}: na")
    if (lo is not None and value < lo) or (hi is not None and value > hi):
        raise SchemaError(f"{kind}: na={value:g} lies outside the declared range [{lo}, {hi}]")
    return value


def _variable(name: str, spec: Any) -> Variable:
    """Return a variable from an object, a dictionary or the short form ``(lower, upper)``."""
    if isinstance(spec, _Base):
        return spec  # type: ignore[return-value]
    if isinstance(spec, type) and issubclass(spec, (Real, Binary, Count)):
        return spec()
    if isinstance(spec, Mapping):
        given = dict(spec)
        kind = str(given.pop("type", "real"))
        if kind not in _KINDS:
            raise SchemaError(
                f"variable {name!r}: unknown type {kind!r}.{did_you_mean(kind, _KINDS)} "
                f"Types: {', '.join(_KINDS)}"
            )
        cls = _KINDS[kind]
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                raise SchemaError(
                    f"variable {name!r}: {cls.__name__} has no {key!r}.{did_you_mean(key, known)}"
                )
        built: Variable = cls(**given)
        return built
    if isinstance(spec, (tuple, list)) and len(spec) == 2:
        return Real(*spec)
    raise SchemaError(
        f"variable {name!r}: expected Real, Levels, Ordered, Binary or Count, got "
        f"{type(spec).__name__}. For example {name}=dp.Real(0, 10)"
    )


class Schema(Mapping[str, Variable]):
    """Public facts about variables. Frozen, hashable; a mapping from name to variable.

    Parameters
    ----------
    **variables
        ``name=Real(0, 10)`` and so on. For other names: ``Schema(**{"pH value": Real(0, 14)})``.

    Notes
    -----
    **Privacy.** Everything in a schema is public and must be known without looking at the rows.

    Examples
    --------
    >>> s = Schema(quality=Real(0, 10), region=Levels(["north", "south"], other="elsewhere"))
    >>> s["quality"].interval
    (0.0, 10.0)
    >>> Schema.from_toml(s.to_toml()) == s
    True
    """

    __slots__ = ("_hash", "_items")
    _items: dict[str, Variable]
    _hash: int

    def __init__(self, /, **variables: Any) -> None:
        items: dict[str, Variable] = {}
        for name, spec in variables.items():
            failed: SchemaError | None = None
            try:
                items[name] = _variable(name, spec)
            except SchemaError as error:
                failed = error
            if failed is not None:
                text = str(failed)
                raise SchemaError(text if repr(name) in text else f"variable {name!r}: {text}")
        object.__setattr__(self, "_items", items)
        object.__setattr__(self, "_hash", hash(frozenset(items.items())))

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
        return isinstance(other, Schema) and dict(self) == dict(other)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Schema is frozen; use schema.update(name=...)")

    def __reduce__(self) -> Any:
        return (Schema.from_dict, (self.to_dict(),))

    def __repr__(self) -> str:
        inside = "".join(f"    {_key(k)} = {v!r},\n" for k, v in self.items())
        return f"Schema(\n{inside})" if inside else "Schema()"

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Name -> variable, in the order given."""
        return dict(self._items)

    # -- building --------------------------------------------------------------------------
    def update(self, other: Mapping[str, Any] | None = None, /, **variables: Any) -> Schema:
        """Return a schema with variables added or replaced."""
        return Schema(**{**self.variables, **dict(other or {}), **variables})

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
        from dpmodels.formula.walk import category_names, needed_variables

        return _template(needed_variables(formula, None), category_names(formula))

    # -- files -----------------------------------------------------------------------------
    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return nested dictionaries."""
        return {name: v.to_dict() for name, v in self.items()}

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
        """Return TOML text: one table a variable."""
        blocks = [
            f"[{_toml_key(name)}]\n"
            + "".join(f"{k} = {_toml(v)}\n" for k, v in variable.to_dict().items())
            for name, variable in self.items()
        ]
        return "\n".join(blocks)

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Build from TOML text."""
        name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
        toml = importlib.import_module(name)
        return cls.from_dict(_parsed(toml.loads, text, "TOML"))

    def save(self, path: Any) -> None:
        """Write a ``.toml`` or ``.json`` file."""
        text = self.to_json() if str(path).endswith(".json") else self.to_toml()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def load(cls, path: Any) -> Schema:
        """Read a ``.toml`` or ``.json`` file."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return cls.from_json(text) if str(path).endswith(".json") else cls.from_toml(text)


def _parsed(load: Any, text: str, what: str) -> Mapping[str, Any]:
    problem = ""
    data: Any = None
    try:
        data = load(text)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise SchemaError(f"the schema is not valid {what}: {problem}")
    if not isinstance(data, Mapping) or not all(isinstance(v, Mapping) for v in data.values()):
        raise SchemaError(f'a schema in {what} has one table a variable, with type = "real" etc.')
    return data


def _key(name: str) -> str:
    return name if name.isidentifier() else repr(name)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _template(needed: Iterable[str], text: Iterable[str] = ()) -> str:
    text = list(text)
    rest = [n for n in needed if n not in text]
    width = max((len(n) for n in (*text, *rest)), default=0)
    lines = [f"    {n:<{width}} = dp.Levels([...]),\n" for n in text]
    optional = "# optional: an undeclared numeric range is bought from eps, delta"
    for i, n in enumerate(rest):
        note = optional if i == 0 else "# optional"
        lines.append(f"    {n:<{width}} = dp.Real(lower=..., upper=...),     {note}\n")
    if all(n.isidentifier() for n in (*text, *rest)):
        return "schema = dp.Schema(\n" + "".join(lines) + ")"
    quoted = [re.sub(r"^    (.*?)\s+= ", lambda m: f"    {m.group(1)!r}: ", x) for x in lines]
    return "schema = dp.Schema(**{\n" + "".join(quoted) + "})"


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

    Parameters
    ----------
    data_columns : mapping of str to str
        Column name -> "numeric", "text", "bool", "datetime", "category" ... (public).
    schema : Schema or None
    bounds : mapping, "private" or None
        ``{"alcohol": (8, 15)}`` wins over the schema's range; "private" drops no declaration
        here (the caller buys ranges for all numeric variables).
    needed : iterable of str
        Variables the formula uses.
    formula : str, optional
        The formula: levels written in it (``C(region, levels=[...])``) need no schema entry.
    verb : str
        For the message.

    Returns
    -------
    Schema
        Restricted to ``needed``, in that order.

    Notes
    -----
    **Privacy.** Uses names and column types only; which error is raised never depends on cells.
    """
    needed = list(dict.fromkeys(needed))
    declared: dict[str, Variable] = dict(schema.variables) if schema is not None else {}
    short = _short_form(bounds, {**dict.fromkeys(data_columns), **dict.fromkeys(declared)})
    inline: Mapping[str, Variable] = {}
    if formula is not None:
        from dpmodels.formula.walk import inline_variables

        inline = inline_variables(formula)
    out: dict[str, Variable] = {}
    missing_text: list[str] = []
    for name in needed:
        if name not in data_columns:
            raise SchemaError(
                f"the data has no column {name!r}.{did_you_mean(name, data_columns)} "
                f"Columns: {_few(data_columns)}"
            )
        kind = str(data_columns[name])
        if name in declared or name in short:
            out[name] = _with_short(name, declared.get(name), short.get(name))
        elif name in inline:
            out[name] = inline[name]
        elif kind == "bool":
            out[name] = Binary()
        elif kind in ("text", "category", "string", "object"):
            missing_text.append(name)
        else:
            out[name] = Real()
    if missing_text:
        count = len(missing_text)
        where = f' of "{formula}"' if formula else ""
        template = "\n".join("      " + x for x in _template(needed, missing_text).splitlines())
        raise SchemaNeededError(
            f"{verb} needs declared levels for {count} variable{'s' if count > 1 else ''}{where}\n"
            "  Levels cannot be bought: reading them would reveal which values occur.\n"
            "  Paste and complete (do not take the levels or numbers from the data):\n" + template
        )
    return Schema(**out)


def _short_form(bounds: Any, known: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    if bounds is None or (isinstance(bounds, str) and bounds == "private"):
        return {}
    if not isinstance(bounds, Mapping):
        raise SchemaError(
            f'bounds must be a mapping {{"alcohol": (8, 15)}} or "private", got {bounds!r}'
        )
    out = {}
    for name, pair in bounds.items():
        if known and name not in known:
            raise SchemaError(
                f"bounds: no variable {name!r}.{did_you_mean(str(name), known)} "
                f"Variables: {_few(known)}"
            )
        if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable):
            raise SchemaError(f"bounds[{name!r}] must be a pair (lower, upper), got {pair!r}")
        both = tuple(pair)
        if len(both) != 2:
            raise SchemaError(f"bounds[{name!r}] must be a pair (lower, upper), got {pair!r}")
        out[str(name)] = (both[0], both[1])
    return out


def _with_short(name: str, declared: Variable | None, pair: tuple[Any, Any] | None) -> Variable:
    if pair is None:
        assert declared is not None
        return declared
    if declared is not None and not isinstance(declared, (Real, Count)):
        raise SchemaError(
            f"bounds[{name!r}]: the schema declares {name!r} as {type(declared).__name__}, "
            "which has no range to set. Remove it from bounds"
        )
    extra = {} if declared is None else {k: getattr(declared, k) for k in ("na", "label", "unit")}
    failed = ""
    try:
        return Real(*pair, **extra)
    except SchemaError as error:
        failed = str(error)
    raise SchemaError(f"bounds[{name!r}]: {failed}")


def _few(names: Iterable[str], most: int = 12) -> str:
    shown = [str(n) for n in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
