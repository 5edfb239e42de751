"""Kinds of variables: what may be declared about a column. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dpmodels.errors import SchemaError, did_you_mean, shown

#: Narrowest declared range: rows are divided by its half, and what follows is squared.
NARROWEST = 1e-100

Scalar = str | int | float | bool

#: Ends of a range are at most this: then squares and products of cells are finite floats.
LARGEST = 1e100


def _number(value: Any, what: str) -> float:
    """Return ``value`` as a finite float or refuse, naming the argument."""
    number = math.nan
    if not isinstance(value, (str, bytes, bool)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        # of a pair it is not known whether somebody typed it
        got = shown(value) if isinstance(value, float) else f"<{type(value).__name__}>"
        raise SchemaError(
            f"{what} must be a finite number, got {got}. For example "
            "Real(lower=0, upper=10); leave both bounds out to have the range bought from eps and "
            "delta"
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
    if max(-lo, hi) > LARGEST:
        raise SchemaError(
            f"{kind}({lo:g}, {hi:g}): a range must lie within {-LARGEST:g} and {LARGEST:g}, where "
            "squares and products of cells stay finite. Give the range in a larger unit, or leave "
            "both bounds out to have it bought from eps and delta"
        )
    if hi - lo < NARROWEST:
        raise SchemaError(
            f"{kind}({lo:g}, {hi:g}): the range is narrower than floating point can scale "
            f"({NARROWEST:g}). Change the unit of the variable"
        )
    return lo, hi


def _levels(levels: Any, kind: str) -> tuple[Scalar, ...]:
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Iterable):
        raise SchemaError(f"{kind}(levels) needs a list, for example {kind}(['north', 'south'])")
    out = tuple(x.item() if hasattr(x, "item") and not isinstance(x, str) else x for x in levels)
    for level in out:
        if not isinstance(level, (str, int, float, bool)) or level != level:
            raise SchemaError(f"{kind}: a level must be text or a number, got {shown(level)}")
    places: dict[Scalar, int] = {}
    for place, level in enumerate(out, 1):
        if places.setdefault(level, place) != place:  # a column given by mistake is not quoted
            raise SchemaError(
                f"{kind}: a level is listed twice (at places {places[level]} and {place}). List "
                "each level once, from what is known without the data"
            )
    if len(out) < 2:
        raise SchemaError(f"{kind}: needs at least two levels, got {len(out)}")
    return out


class _Base:
    """What every variable shares."""

    kind: ClassVar[str]
    numeric: ClassVar[bool] = False  # Whether the variable enters a formula as a number

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range of the numeric value, or ``None`` (not numeric, or not declared)."""
        return None

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
    numeric: ClassVar[bool] = True
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
        if isinstance(lower, (list, tuple)) and upper is None and len(lower) == 2:
            raise SchemaError("Real takes two numbers, not a pair: Real(0, 10)")
        lo, hi = _bounds(lower, upper, "Real")
        _freeze(self, lower=lo, upper=hi, na=_na(na, lo, hi, "Real"), label=label, unit=unit)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range, or ``None``."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


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
    numeric: ClassVar[bool] = True
    upper: float | None = None
    na: float | None = None
    label: str | None = None
    unit: str | None = None

    def __init__(
        self,
        upper: Any = None,
        *more: Any,
        na: Any = None,
        label: str | None = None,
        unit: str | None = None,
    ) -> None:
        if more:
            raise SchemaError(
                "Count starts at 0 and takes the largest count alone: Count(10); another start: "
                "Real(1, 10)"
            )
        hi = None if upper is None else _bounds(0, upper, "Count")[1]
        _freeze(self, upper=hi, na=_na(na, 0.0, hi, "Count"), label=label, unit=unit)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range, or ``None``."""
        return None if self.upper is None else (0.0, self.upper)


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
    numeric: ClassVar[bool] = True
    levels: tuple[Scalar, ...] | None = None
    na: float | None = None
    label: str | None = None

    def __init__(
        self, levels: Any = None, *more: Any, na: Any = None, label: str | None = None
    ) -> None:
        if more:
            raise SchemaError("Binary takes one pair: Binary(('no', 'yes'))")
        pair = None if levels is None else _levels(levels, "Binary")
        if pair is not None and len(pair) != 2:
            raise SchemaError(f"Binary: needs exactly two levels, got {len(pair)}. Use Levels")
        if na is not None and na not in (0, 1):
            raise SchemaError(f"Binary: na must be 0 or 1, got {shown(na)}")
        _freeze(self, levels=pair, na=None if na is None else float(na), label=label)

    @property
    def interval(self) -> tuple[float, float] | None:
        """[0, 1]."""
        return (0.0, 1.0)


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
        self, levels: Any, *more: Any, other: Any = None, na: Any = None, label: str | None = None
    ) -> None:
        name = type(self).__name__
        if more:
            raise SchemaError(f"{name} takes one list: {name}(['a', 'b'])")
        listed = list(levels) if not isinstance(levels, (str, bytes)) else levels
        if other is not None and isinstance(listed, list) and other not in listed:
            listed = [*listed, other]
        out = _levels(listed, name)
        if na is not None and na not in out:
            raise SchemaError(f"{name}: na={shown(na)} is not one of its levels {list(out)!r}")
        _freeze(self, levels=out, other=other, na=na, label=label)

    @property
    def codes(self) -> tuple[Scalar, ...]:
        """Levels in the order of their codes."""
        return self.levels


class Ordered(Levels):
    """A factor whose levels have an order. Coded like :class:`Levels` unless a contrast is asked.

    Notes
    -----
    **Privacy.** As for :class:`Levels`.
    """

    kind: ClassVar[str] = "ordered"


@dataclass(frozen=True, repr=False)
class Text(_Base):
    """Free text with no declared levels: usable only inside ``hashed(x, levels=)``.

    Notes
    -----
    **Privacy.** Nothing about the values is public.
    """

    kind: ClassVar[str] = "text"
    label: str | None = None


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


def as_variable(name: str, spec: Any) -> Variable:
    """Return a variable from an object, a dictionary or the short form ``(lower, upper)``."""
    if isinstance(spec, Variable):
        return spec
    if isinstance(spec, type) and issubclass(spec, (Real, Binary, Count)):
        return spec()
    if isinstance(spec, (list, tuple)) and any(isinstance(one, str) for one in spec):
        raise SchemaError(
            f"variable {name!r}: the levels of a category are dp.Levels(['a', 'b', 'c']); two that "
            "stand for 0 and 1 are dp.Binary(('no', 'yes'))"
        )
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
                    f"variable {name!r}: {cls.__name__} has no {shown(key)}."
                    + did_you_mean(key, known)
                )
        built: Variable = cls(**given)
        return built
    if isinstance(spec, (tuple, list)) and len(spec) == 2:
        return Real(*spec)
    raise SchemaError(
        f"variable {name!r}: expected Real, Levels, Ordered, Binary or Count, got "
        f"{type(spec).__name__}. For example {name}=dp.Real(0, 10)"
    )
