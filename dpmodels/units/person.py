"""The unit of a call, as data: which column names a person, and what is public of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpmodels.errors import RequestError, choice, did_you_mean, shown

#: Units that are no column: a row, or one variable of a row.
LEVELS = ("record", "attribute")
#: Who can put rows in the order of people on disk (``sort=``).
SORTERS = ("duckdb",)
#: Rows of a person where nothing says how many: a guess too large costs a little noise in the
#: start, one too small shortens people there.
ROWS = 4.0
#: Said where a table of rows is noised as a whole.
NO_PEOPLE = (
    "a noised table protects one row of it ('record') or one variable of a row ('attribute'), not "
    "the person of unit={!r} with all rows. Make a table of one row a person first (a mean, a last "
    "visit); or fit the data itself, as in dp_ols(..., unit=...)"
)
#: Names that say: this is an identifier.
_IDENTIFIER = re.compile(
    r"(?:^|[_ .])(?:id|ids|pid|uid|uuid|guid|ssn)$|[a-z](?:Id|ID)$"
    r"|^(?:person|patient|subject|customer|user|household|respondent|participant|member)"
    r"(?:_?(?:no|nr|num|number|key|code))?$",
)
_TEXT = "one person (column {})"


@dataclass(frozen=True)
class Person:
    """The column that names the unit of privacy. Holds no id.

    Attributes
    ----------
    column : str
    count : int or None
        Declared number of people (``units=``); None: counted, a public number.
    rows : float
        Public guess of the rows of a person (``rows_per_unit=``).
    most : int
        Rows of a person that are kept (``max_rows=``), where a method has a proof for rows only;
        0: all.
    sort : str
        "duckdb": rows are put in the order of people on disk; empty: in memory.
    """

    column: str
    count: int | None = None
    rows: float = ROWS
    most: int = 0
    sort: str = ""

    @property
    def text(self) -> str:
        """The unit as the guarantee states it."""
        return unit_of(self.column)


def unit_of(column: str) -> str:
    """Return the unit of a guarantee for people: ``one person (column person_id)``."""
    return _TEXT.format(column)


def identifier_among(names: Iterable[str]) -> str:
    """Return the first name that says it is an identifier; empty: none does."""
    return next((name for name in names if _IDENTIFIER.search(name)), "")


def column_of(unit: str) -> str | None:
    """Return the column of a unit of people, or None for a row or an attribute."""
    head, tail = _TEXT.split("{}")
    if unit.startswith(head) and unit.endswith(tail):
        return unit[len(head) : -len(tail)]
    return None


def named(unit: str) -> str:
    """Return a unit as it is said: "one row", "one attribute", "one person (column person_id)".

    "record" is the word of options and files for a row.
    """
    if column_of(unit) is not None:
        return unit
    return "one row" if unit == "record" else f"one {unit}"


def people_or_rows(unit: str) -> str:
    """Return what a unit is counted in: "people", or "rows"."""
    return "rows" if column_of(unit) is None else "people"


def person_of(
    unit: Any,
    units: Any = None,
    rows_per_unit: Any = None,
    max_rows: Any = None,
    sort: Any = None,
    *,
    columns: Mapping[str, str] | None = None,
    levelled: Iterable[str] = (),
) -> Person | None:
    """Return the unit that a call names, or None for rows.

    Parameters
    ----------
    unit, units, rows_per_unit, max_rows, sort
        As typed.
    columns : mapping or None
        Columns of the table with their public kinds; None: not known (a plan without data).
    levelled : iterable of str
        Variables that the schema declares with levels.
    """
    if unit is None:
        given = (
            ("units", units), ("rows_per_unit", rows_per_unit), ("max_rows", max_rows),
            ("sort", sort),
        )  # fmt: skip
        for name, value in given:
            if value is not None:
                raise RequestError(
                    f"{name}= belongs to unit=, the column that names the person: for example "
                    f'unit="person_id", {name}={shown(value)}'
                )
        return None
    if not isinstance(unit, str) or not unit:
        raise RequestError(
            "unit= takes the name of the column that says whose row it is, for example "
            f'unit="person_id"; got {shown(unit)}'
        )
    if columns is not None:
        _check_column(unit, columns)
    if unit in levelled:
        raise RequestError(
            f"unit={unit!r}: the schema declares levels for it, but who is in the table is "
            f"private. Leave {unit!r} out of the schema: ids are compared with each other and "
            "never shown"
        )
    if units is not None and (isinstance(units, bool) or not isinstance(units, int) or units < 1):
        raise RequestError(f"units= takes the number of people, got {shown(units)}")
    most = 0 if max_rows is None else max_rows
    if isinstance(most, bool) or not isinstance(most, int) or (max_rows is not None and most < 1):
        raise RequestError(
            "max_rows= takes the number of rows of a person that are kept, for example "
            f"max_rows=5; got {shown(max_rows)}"
        )
    if sort is not None:
        choice("sort", sort, SORTERS)
    return Person(unit, units, _guess(rows_per_unit), most, sort or "")


def _guess(value: Any) -> float:
    if value is None:
        return ROWS
    bad = isinstance(value, bool) or not isinstance(value, (int, float))
    if bad or not (value > 0 and math.isfinite(value)):
        raise RequestError(
            "rows_per_unit= takes a public guess of the rows of a person, for example "
            f"rows_per_unit=5; got {shown(value)}"
        )
    return float(value)


def _check_column(unit: str, columns: Mapping[str, str]) -> None:
    if unit not in columns:
        raise RequestError(
            f"unit={shown(unit)}: the data has no column of this name."
            + did_you_mean(unit, columns)
            + " Columns: "
            + ", ".join(list(map(str, columns))[:12])
        )
    if columns[unit] in ("bool", "datetime"):
        raise RequestError(
            f"unit={unit!r}: a column of type {columns[unit]} names no person. Ids are whole "
            "numbers or text"
        )
