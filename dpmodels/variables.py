"""Kinds of variables: the declarations that a column may have. Standard library only."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dpmodels.errors import SchemaError, check_among, did_you_mean, shown

#: Narrowest declared range: rows are divided by its half, and what follows is squared.
NARROWEST = 1e-100

Scalar = str | int | float | bool

#: Ends of a range are at most this: then squares and products of cells are finite floats.
LARGEST = 1e100

#: Text that stands for a missing cell in every source, unless it is a declared level: as in pandas.
NA_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip

#: Text that is a number by its value: "1", "01", "1.0", "-2.5e3".
NUMERAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

#: Microseconds of a unit of time. A year is 365.2425 days, a month a twelfth of it.
TIME_UNITS = {
    "seconds": 1e6, "minutes": 60e6, "hours": 3600e6, "days": 86400e6, "weeks": 7 * 86400e6,
    "months": 365.2425 * 7200e6, "years": 365.2425 * 86400e6,
}  # fmt: skip
_EPOCH = datetime.datetime(1970, 1, 1)


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
            "Real(lower=0, upper=10); leave both bounds out to have the range estimated from eps "
            "and delta"
        )
    return number


def _bounds(lower: Any, upper: Any, kind: str) -> tuple[float | None, float | None]:
    """Return the declared bounds of a variable, both or none."""
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        typed = "upper" if lower is None else "lower"
        raise SchemaError(
            f"{kind}({typed}=...) gives one bound only. Give both, as in {kind}(0, 10), or none "
            "(then the range is estimated from eps and delta)"
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
            "both bounds out to have it estimated from eps and delta"
        )
    if hi - lo < NARROWEST:
        raise SchemaError(
            f"{kind}({lo:g}, {hi:g}): the range is narrower than floating point can scale "
            f"({NARROWEST:g}). Change the unit of the variable"
        )
    return lo, hi


def _levels(levels: Any, kind: str) -> tuple[Scalar, ...]:
    """Return the declared levels, or refuse them."""
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


# -- How a cell is read: missing codes, other spellings, signs of numbers, units of time


def _listed_codes(codes: Any, kind: str) -> tuple[Scalar, ...] | None:
    """Return the missing codes, or None if there are none."""
    if codes is None:
        return None
    if isinstance(codes, (str, int, float)):
        codes = [codes]
    if not isinstance(codes, Iterable) or isinstance(codes, (bytes, Mapping)):
        raise SchemaError(f"{kind}: missing= must be a list of codes, for example missing=[-9, 99]")
    out = tuple(x.item() if hasattr(x, "item") and not isinstance(x, str) else x for x in codes)
    for code in out:
        if not isinstance(code, (str, int, float)) or code != code:
            raise SchemaError(f"{kind}: a missing code must be text or a number, got {shown(code)}")
    return out or None


_SPAN = re.compile(
    rf"(lo|lowest|{NUMERAL.pattern}) +thru +(hi|highest|{NUMERAL.pattern})", re.IGNORECASE
)


def missing_spans(codes: Iterable[Scalar] | None) -> tuple[tuple[float, float], ...]:
    """Return the ends of the ranges among missing codes, as in ``"90 thru 99"``."""
    matches = [_SPAN.fullmatch(code.strip()) for code in codes or () if isinstance(code, str)]
    pairs = [match.groups() for match in matches if match is not None]
    return tuple(
        (
            -math.inf if low[:2].lower() == "lo" else float(low),
            math.inf if high[:2].lower() == "hi" else float(high),
        )
        for low, high in pairs
    )


def _recoded(
    recode: Any, kind: str, levels: tuple[Scalar, ...]
) -> tuple[tuple[str, Scalar], ...] | None:
    """Return pairs (spelling, level), or None if there are none."""
    if recode is None or recode == {}:
        return None
    if not isinstance(recode, Mapping):
        raise SchemaError(
            f"{kind}: recode= must be a mapping from a cell of the file to a level, for example "
            'recode={"y": "yes", "1": "yes"}'
        )
    out = []
    for key, level in recode.items():
        if isinstance(level, str) and level not in levels:
            numbers = [x for x in levels if not isinstance(x, str) and as_key(x) == as_key(level)]
            level = numbers[0] if numbers else level
        if level not in levels:
            raise SchemaError(
                f"{kind}: recode= maps {shown(key)} to {shown(level)}, which is not a level."
                f"{did_you_mean(str(level), map(str, levels))} Levels: {list(levels)!r}"
            )
        if key in levels and key != level:
            raise SchemaError(f"{kind}: recode= maps {shown(key)}, which is a level itself")
        out.append((str(key), level))
    return tuple(out)


def as_key(value: Scalar) -> str | float:
    """Return the key that spellings of a value share: its number, or its case-folded text."""
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    return float(text) if NUMERAL.fullmatch(text) else text.casefold()


def _check_codes(
    missing: tuple[Scalar, ...] | None, spellings: Iterable[Scalar], kind: str
) -> None:
    """Refuse a missing code that a level or a spelling could be read as."""
    taken = {as_key(x): x for x in spellings}
    for low, high in missing_spans(missing):
        for key, level in taken.items():
            if isinstance(key, float) and low <= key <= high:
                raise SchemaError(
                    f"{kind}: the level {level!r} lies within the missing codes {low:g} to "
                    f"{high:g}. Leave one of them out"
                )
    for code in missing or ():
        if as_key(code) in taken:
            raise SchemaError(
                f"{kind}: missing={shown(code)} and the level {taken[as_key(code)]!r} are read as "
                "one value. Leave one of them out"
            )


def _sign(sign: Any, kind: str, name: str, allowed: str) -> str | None:
    """Return a declared sign of numbers (decimal or thousands), or refuse it."""
    if sign is None:
        return None
    if not isinstance(sign, str) or len(sign) != 1 or sign not in allowed:
        raise SchemaError(
            f"{kind}: {name}= is one of {', '.join(map(repr, allowed))}, got {shown(sign)}"
        )
    return sign


def _signs(decimal: Any, thousands: Any, kind: str) -> dict[str, str | None]:
    """Return the signs by which text is a number."""
    point = _sign(decimal, kind, "decimal", ".,")
    group = _sign(thousands, kind, "thousands", ".,' _")
    if group is not None and group == (point or "."):
        raise SchemaError(
            f"{kind}: decimal and thousands are both {group!r}. For 1.234,5 write decimal=',' and "
            "thousands='.'"
        )
    return {"decimal": point, "thousands": group}


def _time_unit(unit: Any, kind: str, name: str) -> str:
    """Return a declared unit of time, or refuse it."""
    problem = f"{kind}: {name}={shown(unit)} is not a unit of time"
    check_among(unit, TIME_UNITS, problem, "Units:", SchemaError)
    return str(unit)


def _flag(value: Any, kind: str, name: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"{kind}: {name}= must be True or False, got {shown(value)}")
    return value


class _Base:
    """Base of all variables."""

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
        return {"type": self.kind, **self._declared()}

    def _declared(self) -> dict[str, Any]:
        """Return the declarations that differ from the defaults."""
        out = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if value is None or (isinstance(value, bool) and value == f.default):
                continue
            if f.name == "recode":
                value = dict(value)
            if f.name == "levels" and not value:  # to be bought
                continue
            out[f.name] = list(value) if isinstance(value, tuple) else value
        return out

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._declared().items())
        return f"{type(self).__name__}({arguments})"

    def read_plainly(self) -> Any:
        """Return the variable as cells that were made have it: numbers, without missing codes."""
        recorded = ("missing", "format") if self.kind == "date" else ("missing",)
        if all(getattr(self, name, None) is None for name in recorded):
            return self
        return type(self)(**{**self._declared(), **dict.fromkeys(recorded)})


@dataclass(frozen=True, repr=False)
class Real(_Base):
    """A number with a public range, or a number whose range will be estimated.

    Parameters
    ----------
    lower, upper : float, optional
        Declared range. Values outside are clipped. Both ``None``: not declared.
    na : float, optional
        Public constant for missing cells (used under ``na="declared"`` and ``"impute-midpoint"``).
    label, unit : str, optional
        For tables.
    missing : list, optional
        Codes of missing cells, as in ``missing=[-9, 99]``, and ranges of codes, as SPSS writes
        them: ``missing=["lo thru -1", "90 thru 99"]``. They are compared by value, before clipping
        and before ``subset=``.
    decimal, thousands : str, optional
        Signs of numbers that are kept as text: ``decimal=","``, ``thousands="."``. With one of them
        a column of text may hold numbers. A cell that is no number is missing.
    duration : str, optional
        Unit of a column of durations: ``"days"``, ``"hours"``, ``"years"``, ...

    Notes
    -----
    **Privacy.** The range is a claim made without looking at the rows; it is public. How a cell is
    read is public too, and reads Each cell separately.
    """

    kind: ClassVar[str] = "real"
    numeric: ClassVar[bool] = True
    lower: float | None = None
    upper: float | None = None
    na: float | None = None
    label: str | None = None
    unit: str | None = None
    missing: tuple[Scalar, ...] | None = None
    decimal: str | None = None
    thousands: str | None = None
    duration: str | None = None

    def __init__(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        na: Any = None,
        label: str | None = None,
        unit: str | None = None,
        missing: Any = None,
        decimal: str | None = None,
        thousands: str | None = None,
        duration: str | None = None,
    ) -> None:
        if isinstance(lower, (list, tuple)) and upper is None and len(lower) == 2:
            raise SchemaError("Real needs two numbers, not a pair: Real(0, 10)")
        lo, hi = _bounds(lower, upper, "Real")
        _freeze(
            self, lower=lo, upper=hi, na=_na(na, lo, hi, "Real"), label=label, unit=unit,
            missing=_listed_codes(missing, "Real"), **_signs(decimal, thousands, "Real"),
            duration=None if duration is None else _time_unit(duration, "Real", "duration"),
        )  # fmt: skip

    @property
    def interval(self) -> tuple[float, float] | None:
        """Declared range, or ``None``."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


@dataclass(frozen=True, repr=False)
class Count(_Base):
    """A non-negative count with a public upper bound, or one whose range will be estimated.

    Parameters
    ----------
    upper : float, optional
        Largest count that matters; larger ones are clipped. ``None``: not declared.
    na, label, unit, missing, decimal, thousands
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
    missing: tuple[Scalar, ...] | None = None
    decimal: str | None = None
    thousands: str | None = None

    def __init__(
        self,
        upper: Any = None,
        *positional: Any,
        na: Any = None,
        label: str | None = None,
        unit: str | None = None,
        missing: Any = None,
        decimal: str | None = None,
        thousands: str | None = None,
    ) -> None:
        if positional:
            raise SchemaError(
                "Count starts at 0 and needs only the largest count: Count(10). For another start: "
                "Real(1, 10)"
            )
        hi = None if upper is None else _bounds(0, upper, "Count")[1]
        _freeze(
            self, upper=hi, na=_na(na, 0.0, hi, "Count"), label=label, unit=unit,
            missing=_listed_codes(missing, "Count"), **_signs(decimal, thousands, "Count"),
        )  # fmt: skip

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
    missing, strip, ignore_case, recode
        As for :class:`Levels`. Without ``levels``, ``recode=`` maps to 0 and 1.

    Notes
    -----
    **Privacy.** The two levels are public. Any other cell is missing.
    """

    kind: ClassVar[str] = "binary"
    numeric: ClassVar[bool] = True
    levels: tuple[Scalar, ...] | None = None
    na: float | None = None
    label: str | None = None
    missing: tuple[Scalar, ...] | None = None
    strip: bool = True
    ignore_case: bool = True
    recode: tuple[tuple[str, Scalar], ...] | None = None

    def __init__(
        self,
        levels: Any = None,
        *positional: Any,
        na: Any = None,
        label: str | None = None,
        missing: Any = None,
        strip: bool = True,
        ignore_case: bool = True,
        recode: Any = None,
    ) -> None:
        if positional:
            raise SchemaError("Binary needs one pair: Binary(('no', 'yes'))")
        pair = None if levels is None else _levels(levels, "Binary")
        if pair is not None and len(pair) != 2:
            raise SchemaError(f"Binary: needs exactly two levels, got {len(pair)}. Use Levels")
        if na is not None and na not in (0, 1):
            raise SchemaError(f"Binary: na must be 0 or 1, got {shown(na)}")
        codes, pairs = _listed_codes(missing, "Binary"), _recoded(recode, "Binary", pair or (0, 1))
        _check_codes(codes, (*(pair or (0, 1)), *(key for key, _ in pairs or ())), "Binary")
        _freeze(
            self, levels=pair, na=None if na is None else float(na), label=label, missing=codes,
            strip=_flag(strip, "Binary", "strip"), recode=pairs,
            ignore_case=_flag(ignore_case, "Binary", "ignore_case"),
        )  # fmt: skip

    @property
    def interval(self) -> tuple[float, float] | None:
        """[0, 1]."""
        return (0.0, 1.0)


@dataclass(frozen=True, repr=False)
class Levels(_Base):
    """A factor with a public list of levels; the first is the reference.

    Parameters
    ----------
    levels : sequence, optional
        Every level a row may have, in the order of the coding. Left out: values that many rows have
        are estimated from the budget of the call (:func:`dpmodels.dp_levels`).
    other : level, optional
        Level that every undeclared value counts as (appended if it is not listed).
        Without it an undeclared value is missing.
    na : level, optional
        Level for missing cells (used under ``na="declared"`` and ``"impute-midpoint"``).
    label : str, optional
        For tables.
    missing : list, optional
        Codes of missing cells, as in ``missing=[9, "refused", "90 thru 99"]``; they do not count as
        ``other``.
    strip, ignore_case : bool
        Blanks at the ends and case do not matter, unless two declared levels differ by them alone.
    recode : mapping, optional
        Other spellings of a level: ``recode={"y": "yes", "1": "yes"}``.

    Notes
    -----
    A cell is compared with the levels as it is written, then without blanks and case, then as a
    number (``1``, ``1.0``, ``"01"``), if only one level fits.

    **Privacy.** The list is public: which of its levels occur in the rows is never shown. Each cell
    is read separately.
    """

    kind: ClassVar[str] = "levels"
    levels: tuple[Scalar, ...]
    other: Scalar | None = None
    na: Scalar | None = None
    label: str | None = None
    missing: tuple[Scalar, ...] | None = None
    strip: bool = True
    ignore_case: bool = True
    recode: tuple[tuple[str, Scalar], ...] | None = None

    def __init__(
        self,
        levels: Any = None,
        *positional: Any,
        other: Any = None,
        na: Any = None,
        label: str | None = None,
        missing: Any = None,
        strip: bool = True,
        ignore_case: bool = True,
        recode: Any = None,
    ) -> None:
        name = type(self).__name__
        if positional:
            raise SchemaError(f"{name} needs one list: {name}(['a', 'b'])")
        if levels is None:  # to be bought
            if na is not None or recode is not None:
                raise SchemaError(f"{name}: na= and recode= need declared levels")
            _freeze(
                self, levels=(), other=other, na=None, label=label, recode=None,
                missing=_listed_codes(missing, name), strip=_flag(strip, name, "strip"),
                ignore_case=_flag(ignore_case, name, "ignore_case"),
            )  # fmt: skip
            return
        listed = list(levels) if not isinstance(levels, (str, bytes)) else levels
        if other is not None and isinstance(listed, list) and other not in listed:
            listed = [*listed, other]
        out = _levels(listed, name)
        if na is not None and na not in out:
            raise SchemaError(f"{name}: na={shown(na)} is not one of its levels {list(out)!r}")
        codes, pairs = _listed_codes(missing, name), _recoded(recode, name, out)
        _check_codes(codes, (*out, *(key for key, _ in pairs or ())), name)
        _freeze(
            self, levels=out, other=other, na=na, label=label, missing=codes, recode=pairs,
            strip=_flag(strip, name, "strip"), ignore_case=_flag(ignore_case, name, "ignore_case"),
        )  # fmt: skip

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
class Date(_Base):
    """A date, read as the number of units since a public first date.

    Parameters
    ----------
    lower, upper : date or str, optional
        First and last date, as in ``Date("2010-01-01", "2020-12-31")``. Cells outside are clipped.
        Both ``None``: units since 1970-01-01, and the range is estimated.
    format : str or list of str, optional
        How text is written: ``"%d.%m.%Y"``, as in Python's strptime. Default: ISO 8601. Whole
        numbers are read by it as their digits: ``"%Y%m%d"`` for 20201231. Of a list the first that
        fits a cell is used.
    unit : str
        ``"days"``, ``"weeks"``, ``"months"``, ``"years"``, ``"hours"``, ... A year is 365.2425
        days.
    missing : list, optional
        Dates that stand for a missing cell, as they are written in the file or in ISO 8601.
    label : str, optional
        For tables.

    Notes
    -----
    In ``I(end - start)`` both columns need the same first date and the same unit.

    A point in time with a zone is an instant, read in UTC from every table, as are two dates here
    that have one. Without a zone it is read as it is written.

    **Privacy.** Both dates are claims made without looking at the rows; they are public. A cell
    that is no date in this format is missing.

    Examples
    --------
    >>> from dpmodels import Date
    >>> Date("2010-01-01", "2020-12-31", format="%d.%m.%Y", unit="years").interval
    (0.0, 10.998...)
    """

    kind: ClassVar[str] = "date"
    numeric: ClassVar[bool] = True
    lower: str | None = None
    upper: str | None = None
    format: str | tuple[str, ...] | None = None
    unit: str = "days"
    missing: tuple[Scalar, ...] | None = None
    label: str | None = None

    def __init__(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        format: Any = None,
        unit: str = "days",
        missing: Any = None,
        label: str | None = None,
    ) -> None:
        first = last = None
        if lower is not None or upper is not None:
            first, last = _date_of(lower, "lower"), _date_of(upper, "upper")
            if not first < last:
                raise SchemaError(
                    f"Date: the first date ({first.date()}) must come before the last "
                    f"({last.date()})"
                )
        shapes: Any = list(format) or [""] if isinstance(format, (list, tuple)) else [format]
        if not all(s is None or (isinstance(s, str) and "%" in s) for s in shapes):
            raise SchemaError(
                f"Date: format={shown(format)} is not a date format: write it as in "
                'format="%d.%m.%Y" for 31.12.2020, or format=["%d.%m.%Y", "%Y-%m-%d"]'
            )
        format = tuple(shapes) if len(shapes) > 1 else shapes[0]
        _freeze(
            self, lower=first and _iso(first), upper=last and _iso(last), format=format,
            label=label, unit=_time_unit(unit, "Date", "unit"),
            missing=_listed_codes(missing, "Date"),
        )  # fmt: skip

    @property
    def shapes(self) -> tuple[str, ...]:
        """Formats of text, in the order in which they are tried; empty for ISO 8601."""
        return (self.format,) if isinstance(self.format, str) else self.format or ()

    @property
    def of_digits(self) -> bool:
        """Whether a date is written as digits alone, which a column of numbers can hold."""
        return any(datetime.datetime(2020, 12, 31).strftime(s).isdecimal() for s in self.shapes)

    @property
    def start(self) -> int:
        """Microseconds from 1970 to the first date."""
        return 0 if self.lower is None else microseconds(_date_of(self.lower, "lower"))

    @property
    def interval(self) -> tuple[float, float] | None:
        """From 0 to the number of units between the first and the last date."""
        if self.upper is None:
            return None
        last = microseconds(datetime.datetime.fromisoformat(self.upper))
        return (0.0, (last - self.start) / TIME_UNITS[self.unit])


def in_utc(date: datetime.datetime) -> datetime.datetime:
    """Return a date without its zone: an instant as it is in UTC, another as it is written."""
    if date.tzinfo is None:
        return date
    return date.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def microseconds(date: datetime.datetime) -> int:
    """Return the microseconds since 1970, in UTC if the date has a zone."""
    return (in_utc(date) - _EPOCH) // datetime.timedelta(microseconds=1)


def _iso(date: datetime.datetime) -> str:
    return str(date.date()) if date.time() == datetime.time() else date.isoformat()


def _date_of(typed: Any, name: str) -> datetime.datetime:
    """Return a date that was typed, or refuse."""
    if isinstance(typed, datetime.date) and not isinstance(typed, datetime.datetime):
        typed = datetime.datetime(typed.year, typed.month, typed.day)
    date = typed if isinstance(typed, datetime.datetime) else None
    if isinstance(typed, str):
        try:
            date = datetime.datetime.fromisoformat(typed.strip())
        except ValueError:
            date = None
    if date is None:
        raise SchemaError(
            f"Date: {name}={shown(typed)} is not a date. Write year, month and day: "
            'Date("2010-01-01", "2020-12-31")'
        )
    return datetime.datetime(*in_utc(date).timetuple()[:6])


@dataclass(frozen=True, repr=False)
class Text(_Base):
    """Free text with no declared levels: usable only inside ``hashed(x, levels=)``.

    Parameters
    ----------
    label : str, optional
        For tables.
    missing : list, optional
        Text that stands for a missing cell.

    Notes
    -----
    **Privacy.** Nothing about the values is public.
    """

    kind: ClassVar[str] = "text"
    label: str | None = None
    missing: tuple[Scalar, ...] | None = None

    def __init__(self, label: str | None = None, missing: Any = None) -> None:
        _freeze(self, label=label, missing=_listed_codes(missing, "Text"))


Variable = Real | Count | Binary | Levels | Ordered | Date | Text
_KINDS: dict[str, type[Any]] = {
    c.kind: c for c in (Real, Count, Binary, Levels, Ordered, Date, Text)
}


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
    if isinstance(spec, (list, tuple)) and any(isinstance(level, str) for level in spec):
        raise SchemaError(
            f"variable {name!r}: the levels of a category are dp.Levels(['a', 'b', 'c']); two that "
            "stand for 0 and 1 are dp.Binary(('no', 'yes'))"
        )
    if isinstance(spec, Mapping):
        facts = dict(spec)
        kind = str(facts.pop("type", "real"))
        problem = f"variable {name!r}: unknown type {kind!r}"
        check_among(kind, _KINDS, problem, "Types:", SchemaError)
        cls = _KINDS[kind]
        names = [f.name for f in fields(cls)]
        for key in facts:
            problem = f"variable {name!r}: {cls.__name__} has no {shown(key)}"
            check_among(key, names, problem, error=SchemaError)
        return cls(**facts)
    if isinstance(spec, (tuple, list)) and len(spec) == 2:
        return Real(*spec)
    raise SchemaError(
        f"variable {name!r}: expected Real, Count, Levels, Ordered, Binary or Date, "
        f"got "
        f"{type(spec).__name__}. For example {name}=dp.Real(0, 10)"
    )
