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
from dpmodels.variables import Binary, Count, Levels, Real, Scalar, Variable


class ColumnKind(str):
    """Public kind of a column ("numeric", ...), with the type of its cells where it is known."""

    __slots__ = ("cells",)
    cells: str  # "int64", "float32", "bool", "decimal", "datetime64[ns]", "time", ... or ""

    def __new__(cls, kind: str, cells: str = "") -> ColumnKind:
        """Return the kind; it compares as its text."""
        made = super().__new__(cls, kind)
        made.cells = cells
        return made

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
        said = "a range in bounds=" if name in ranged else f"dp.{type(variable).__name__}"
        if kind == "nested":
            raise SchemaError(
                f"column {name!r} holds lists or records, and a column has one value per row. "
                "Give each part a column of its own. Nothing was charged"
            )
        if kind == "duration":
            raise SchemaError(_duration(name, getattr(kind, "cells", "")))
        if isinstance(variable, (Real, Count)):
            _check_number(name, kind, said, variable, name in undeclared)
        elif isinstance(variable, Binary) and variable.levels is None:
            _check_event(name, kind, said)
        elif isinstance(variable, (Binary, Levels)):
            _check_levels(name, kind, variable)


def _duration(name: str, cells: str) -> str:
    what, fix = "a duration", f"data[{name!r}].dt.total_seconds() / 86400"
    unit = "for example days"
    if cells == "time":
        what, unit = "a time of day", "for example hours"
        fix = f"[t.hour + t.minute / 60 for t in data[{name!r}]]"
    return (
        f"{name!r} is {what}, and a model takes numbers in a unit that you choose. Make {unit} "
        f"first: data[{name!r}] = {fix}. Nothing was charged"
    )


def _check_number(
    name: str, kind: str, said: str, variable: Real | Count, undeclared: bool
) -> None:
    if kind == "datetime" and undeclared:
        raise SchemaError(
            f"{name!r} is a date, and would enter as seconds since 1970. Make a number with a "
            f"unit and a range first, for example days since a public date: {name}_days"
        )
    ends = variable.interval
    if kind == "datetime" and (ends is None or max(map(abs, ends)) < _SECONDS):
        raise SchemaError(_date(name, said))
    if kind == "text":
        raise SchemaError(
            f"{name!r} is a column of text, and {said} takes numbers. A "
            f"category: schema={{{name!r}: dp.Levels([...])}}; numbers kept as text: "
            f"data[{name!r}] = pd.to_numeric(data[{name!r}], errors='coerce')"
        )


def _date(name: str, said: str) -> str:
    return (
        f"{name!r} is a date, and {said} takes numbers: seconds since 1970, which this range does "
        "not hold. Make a number with a unit first, for example days since a public date: "
        f"(data[{name!r}] - pd.Timestamp('2020-01-01')).dt.days"
    )


def _check_event(name: str, kind: str, said: str) -> None:
    if kind == "datetime":
        raise SchemaError(_date(name, said))
    if kind == "text":
        raise SchemaError(
            f"{name!r} is a column of text, and dp.Binary() takes 0/1. Say what stands for 0 "
            f"and for 1: schema={{{name!r}: dp.Binary(('no', 'yes'))}}"
        )


# -- Levels against the type of the cells


def _check_levels(name: str, kind: str, variable: Binary | Levels) -> None:
    """Refuse levels of which the type of the column can hold none."""
    other = getattr(variable, "other", None)
    levels = [level for level in variable.levels or () if other is None or level != other]
    if not levels or any(_holds(kind, level) for level in levels):
        return
    made = f"dp.{type(variable).__name__}"
    cells = getattr(kind, "cells", "")
    whole = f"{made}((0, 1))" if isinstance(variable, Binary) else f"{made}([1, 2])"
    what, fix = "numbers", f"{whole} with the numbers that stand for them"
    if kind == "bool" or cells == "bool":
        what = "truth values"
        fix = f"{made}((False, True))" if made == "dp.Binary" else f"{made}([False, True])"
    elif kind == "datetime":
        what = "dates"
        fix = f"a year, data[{name!r}] = data[{name!r}].dt.year, and {made}([2020, 2021]); or text"
        fix += f", data[{name!r}].dt.strftime('%Y-%m-%d')"
    elif cells.startswith(("int", "uint")):
        what = f"whole numbers ({cells})"
    elif cells.startswith("float"):
        what = f"numbers ({cells})"
        if cells != "float64" and all(not isinstance(x, str) for x in levels):
            fix = f"data[{name!r}] = data[{name!r}].astype(float).round(6), which can hold them"
    raise SchemaError(
        f"{name!r} is a column of {what}, and none of the levels of its {made} can occur in it. "
        f"Type {fix}. Nothing was charged"
    )


def _holds(kind: str, level: Scalar) -> bool:
    """Return whether a cell of the kind can equal the level, as cells and levels are compared."""
    cells = getattr(kind, "cells", "")
    if kind == "datetime":
        return not isinstance(level, str) or _date_holds(cells, level)
    if kind not in ("numeric", "bool") and not (kind == "category" and cells):
        return True
    if kind == "bool" or cells == "bool":
        return level in ("True", "False") if isinstance(level, str) else level in (0, 1)
    number = _number_of(level)
    return number is not None and _number_holds(cells, number)


def _number_of(level: Scalar) -> decimal.Decimal | None:
    """Return the number that a level is, or that a number prints as; None if there is none."""
    if not isinstance(level, str):
        return decimal.Decimal(level)
    try:
        found = decimal.Decimal(level)
    except decimal.InvalidOperation:
        return None
    if not found.is_finite():
        return found if level in ("inf", "-inf") else None
    printed = {str(found), repr(float(found))}
    if found == found.to_integral_value():
        printed |= {str(int(found)), f"{int(found)}.0"}
        head, _, tail = level.partition(".")
        printed |= {level} if head == str(int(found)) and not tail.strip("0") else set()
    return found if level in printed else None


def _number_holds(cells: str, number: decimal.Decimal) -> bool:
    if cells.startswith(("int", "uint")):
        whole = number.is_finite() and number == number.to_integral_value()
        ends = np.iinfo(cells)
        return bool(whole and ends.min <= int(number) <= ends.max)
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
