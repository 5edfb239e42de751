"""Column types compared with their declarations: refusals by public facts, before any charge.

A type and a declaration are both public. Where they exclude each other (text levels for a column
of whole numbers), no row could be used, so the call is refused before a row is read.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Collection, Mapping

import numpy as np

from dpmodels.errors import SchemaError
from dpmodels.formula.spelled import spellings
from dpmodels.variables import NUMERAL, Binary, Count, Date, Levels, Real, Scalar, Variable


class ColumnKind(str):
    """Public kind of a column ("numeric", ...), with the type of its cells where it is known."""

    __slots__ = ("cells",)
    cells: str  # "int64", "float32", "bool", "decimal", "datetime64[ns]", "time", ... or ""

    def __new__(cls, kind: str, cells: str = "") -> ColumnKind:
        """Return the kind; it compares as its text."""
        instance = super().__new__(cls, kind)
        instance.cells = cells
        return instance

    def __reduce__(self) -> tuple[type[ColumnKind], tuple[str, str]]:
        return ColumnKind, (str(self), self.cells)


#: Dates are seconds since 1970: a range below four months of them was not meant so.
_SECONDS = 1e7


def check_types(
    kinds: Mapping[str, str],
    variables: Mapping[str, Variable],
    undeclared: Collection[str] = (),
    ranged: Collection[str] = (),
) -> None:
    """Refuse variables that the types of their columns exclude.

    ``undeclared``: names of which nothing was declared; ``ranged``: those of ``bounds=``.

    **Privacy.** Uses names, types and declarations only.
    """
    for name, variable in variables.items():
        kind = kinds.get(name, "unknown")
        spec = "a range in bounds=" if name in ranged else f"dp.{type(variable).__name__}"
        if kind == "nested":
            raise SchemaError(
                f"column {name!r} holds lists or records, and a column has one value per row. "
                "Give each part a column of its own. Nothing was charged"
            )
        if kind == "duration":
            _check_duration(name, getattr(kind, "cells", ""), variable)
        elif isinstance(variable, Date):
            _check_date(name, kind, variable)
        elif isinstance(variable, (Real, Count)):
            _check_number(name, kind, spec, variable, name in undeclared)
        elif isinstance(variable, Binary) and variable.levels is None:
            if kind == "datetime":
                raise SchemaError(_date(name, spec))
            if kind == "text":
                raise SchemaError(
                    f"{name!r} is a column of text, and dp.Binary() needs 0/1. Say which text "
                    f"means 0 and for 1: schema={{{name!r}: dp.Binary(('no', 'yes'))}}"
                )
        elif isinstance(variable, (Binary, Levels)):
            _check_levels(name, kind, variable)


def _check_duration(name: str, cells: str, variable: Variable) -> None:
    """Refuse a duration, or a time of day, that is declared as another kind."""
    if isinstance(variable, Real) and variable.duration is not None and cells != "time":
        return
    what, fix = "a duration", f"schema={{{name!r}: dp.Real(0, 30, duration='days')}}"
    if cells == "time":
        what = "a time of day"
        fix = (
            f"it in hours, for example (pl.col({name!r}).dt.hour() + "
            f"pl.col({name!r}).dt.minute() / 60) in polars, pc.add(pc.hour(t), "
            "pc.divide(pc.cast(pc.minute(t), 'float64'), 60)) in Arrow, or "
            f"data[{name!r}].dt.hour + data[{name!r}].dt.minute / 60 in pandas"
        )
    raise SchemaError(
        f"{name!r} is {what}, and a model needs numbers in a unit that you choose. Write "
        f"{fix}. Nothing was charged"
    )


def _check_date(name: str, kind: str, variable: Date) -> None:
    """Refuse a column of numbers that is declared as a date without the format of its digits."""
    is_number = kind == "numeric" or (kind == "category" and bool(getattr(kind, "cells", "")))
    if kind == "bool" or (is_number and not variable.of_digits):
        raise SchemaError(
            f"{name!r} is a column of numbers, and dp.Date needs dates or text, or the format of "
            f"the digits: dp.Date(..., format='%Y%m%d') for 20201231. If they count days from a "
            f"public date: schema={{{name!r}: dp.Real(0, 4000)}}. Nothing was charged"
        )


def _check_number(
    name: str, kind: str, spec: str, variable: Real | Count, undeclared: bool
) -> None:
    """Refuse a column that a declared number cannot be read from."""
    if kind == "datetime" and undeclared:
        raise SchemaError(
            f"{name!r} is a date, and would enter as seconds since 1970. Say from when and in "
            f"which unit it counts: {_as_date(name)}"
        )
    if getattr(variable, "duration", None) is not None and kind in ("numeric", "bool", "datetime"):
        what = "dates" if kind == "datetime" else "numbers"
        raise SchemaError(
            f"{name!r} is a column of {what}, and duration= is for durations. Leave it out, and "
            "name the unit by unit=. Nothing was charged"
        )
    ends = variable.interval
    if kind == "datetime" and (ends is None or max(map(abs, ends)) < _SECONDS):
        raise SchemaError(_date(name, spec))
    if kind == "text" and not _reads_text(variable):
        raise SchemaError(
            f"{name!r} is a column of text, and {spec} needs numbers. A "
            f"category: schema={{{name!r}: dp.Levels([...])}}; numbers kept as text, with their "
            f"decimal sign: {{{name!r}: dp.Real(0, 10, decimal='.')}}"
        )


def _reads_text(variable: Real | Count) -> bool:
    """Return whether the schema says how text is a number."""
    return (
        variable.decimal is not None
        or variable.thousands is not None
        or getattr(variable, "duration", None) is not None
    )


def _as_date(name: str) -> str:
    return f"schema={{{name!r}: dp.Date('2020-01-01', '2025-12-31', unit='days')}}"


def _date(name: str, spec: str) -> str:
    """Return the message on a date that is declared as a number."""
    return (
        f"{name!r} is a date, and {spec} needs numbers: seconds since 1970, which this range does "
        f"not hold. Say from when and in which unit it counts: {_as_date(name)}"
    )


# -- Levels against the type of the cells


def _check_levels(name: str, kind: str, variable: Binary | Levels) -> None:
    """Refuse levels of which the type of the column can hold none."""
    if variable.levels == ():  # to be bought
        return
    other = getattr(variable, "other", None)
    recode = variable.recode or ()
    written = [*(variable.levels or (0, 1)), *(key for key, level in recode if level != other)]
    written = [level for level in written if other is None or level != other]
    if not written or any(_holds(kind, level, variable) for level in written):
        return
    spec = f"dp.{type(variable).__name__}"
    cells = getattr(kind, "cells", "")
    numbers_typed = f"{spec}((0, 1))" if isinstance(variable, Binary) else f"{spec}([1, 2])"
    what, fix = "numbers", f"{numbers_typed} with the numbers that stand for them"
    if kind == "bool" or cells == "bool":
        what = "truth values"
        fix = f"{spec}((False, True))" if spec == "dp.Binary" else f"{spec}([False, True])"
    elif kind == "datetime":
        what = "dates"
        fix = f"a year, data[{name!r}] = data[{name!r}].dt.year, and {spec}([2020, 2021]); or text"
        fix += f", data[{name!r}].dt.strftime('%Y-%m-%d')"
    elif cells.startswith(("int", "uint")):
        what = f"whole numbers ({cells})"
    elif cells.startswith("float"):
        what = f"numbers ({cells})"
        if cells != "float64" and all(not isinstance(x, str) for x in written):
            fix = f"data[{name!r}] = data[{name!r}].astype(float).round(6), which can hold them"
    raise SchemaError(
        f"{name!r} is a column of {what}, and none of the levels of its {spec} can occur in it. "
        f"Type {fix}. Nothing was charged"
    )


def _holds(kind: str, level: Scalar, variable: Binary | Levels) -> bool:
    """Return whether a cell of the kind can be read as the level, or as a value recoded to it."""
    cells = getattr(kind, "cells", "")
    if kind == "datetime":
        return not isinstance(level, str) or _date_holds(cells, level)
    if kind not in ("numeric", "bool") and not (kind == "category" and cells):
        return True
    spelled = spellings(variable)
    if kind == "bool" or cells == "bool":
        codes = [spelled(cell) for cell in (False, True)]
        return any(code is not None and code >= 0 for code in codes)
    number = _number_of(level)
    if number is None or not _number_holds(cells, number):
        return False
    is_integer = number.is_finite() and number == number.to_integral_value()
    code = spelled(int(number) if is_integer else float(number))
    return code is not None and code >= 0


def _number_of(level: Scalar) -> decimal.Decimal | None:
    """Return the number that a level is by its value; None if it is none."""
    if not isinstance(level, str):
        return decimal.Decimal(level)
    text = level.strip()
    return decimal.Decimal(text) if NUMERAL.fullmatch(text) or text in ("inf", "-inf") else None


def _number_holds(cells: str, number: decimal.Decimal) -> bool:
    """Return whether a type of cells can hold a number exactly."""
    if cells.startswith(("int", "uint")):
        is_integer = number.is_finite() and number == number.to_integral_value()
        ends = np.iinfo(cells)
        return bool(is_integer and ends.min <= int(number) <= ends.max)
    if cells in ("float16", "float32"):
        with np.errstate(all="ignore"):
            return float(np.dtype(cells).type(float(number))) == float(number)
    return True


def _date_holds(cells: str, level: str) -> bool:
    """Return whether a date can print as the level; those in nanoseconds are read as numbers."""
    if "[ns" in cells:
        return False
    try:
        if cells.endswith("[D]"):
            return str(datetime.date.fromisoformat(level)) == level
        return str(datetime.datetime.fromisoformat(level)) == level or not cells
    except ValueError:
        return False
