"""The unit of a call, from its arguments as typed: names, kinds and numbers, and no cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dpmodels.arrays import plain
from dpmodels.errors import RequestError, choice, did_you_mean, shown
from dpmodels.units import NO_IDS, ROWS, Person

#: Who can put rows in the order of people on disk (``sort=``).
SORTERS = ("duckdb",)
#: Said where a table of rows is noised as a whole.
NO_PEOPLE = (
    "a noised table protects one row of it ('record') or one variable of a row ('attribute'), not "
    "the person of unit={!r} with all rows. Make a table of one row per person first (a mean, a "
    "last visit); or fit the data itself, as in dp_ols(..., unit=...)"
)
#: Names that say: this is an identifier.
_IDENTIFIER_NAME = re.compile(
    r"(?:^|[_ .])(?:id|ids|pid|uid|uuid|guid|ssn)$|[a-z](?:Id|ID)$"
    r"|^(?:person|patient|subject|customer|user|household|respondent|participant|member)"
    r"(?:_?(?:no|nr|num|number|key|code))?$",
)


def identifier_among(names: Iterable[str]) -> str:
    """Return the first name that looks like an identifier, or an empty string."""
    return next((name for name in names if _IDENTIFIER_NAME.search(name)), "")


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
    """Return the unit that a call names, with its arguments as typed, or None for rows.

    ``columns``: those of the table with their public kinds; None: not known (a plan without data).
    ``levelled``: variables that the schema declares with levels.
    """
    if unit is None:
        typed = (
            ("units", units), ("rows_per_unit", rows_per_unit), ("max_rows", max_rows),
            ("sort", sort),
        )  # fmt: skip
        for name, value in typed:
            if value is not None:
                raise RequestError(
                    f"{name}= needs unit=, the column that names the person: for example "
                    f'unit="person_id", {name}={shown(value)}'
                )
        return None
    if not isinstance(unit, str) or not unit:
        column = getattr(unit, "name", None)
        named_ = column if isinstance(column, str) and column else "person_id"
        raise RequestError(
            "unit= must be the name of the column that identifies people, not its values, for "
            f"example unit={named_!r}; got {shown(unit)}"
        )
    if columns is not None and unit not in columns:
        raise RequestError(
            f"unit={shown(unit)}: the data has no column of this name."
            f"{did_you_mean(unit, columns)} Columns: {', '.join(list(map(str, columns))[:12])}"
        )
    if columns is not None and columns[unit] in NO_IDS:
        raise RequestError(
            f"unit={unit!r}: a column of type {columns[unit]} names no person. Ids are whole "
            "numbers or text"
        )
    if unit in levelled:
        raise RequestError(
            f"unit={unit!r}: the schema declares levels for it, but who is in the table is "
            f"private. Leave {unit!r} out of the schema: ids are compared with each other and "
            "never shown"
        )
    typed_counts = shown(units), shown(max_rows)  # numbers of numpy may be cells: not repeated
    units, max_rows = plain(units), plain(max_rows)
    if units is not None and (isinstance(units, bool) or not isinstance(units, int) or units < 1):
        raise RequestError(f"units= must be the number of people, got {typed_counts[0]}")
    most = 0 if max_rows is None else max_rows
    if isinstance(most, bool) or not isinstance(most, int) or (max_rows is not None and most < 1):
        raise RequestError(
            "max_rows= must be the number of rows of a person that are kept, for example "
            f"max_rows=5; got {typed_counts[1]}"
        )
    if sort is not None:
        choice("sort", sort, SORTERS)
    return Person(unit, units, _guess(rows_per_unit), most, sort or "")


def _guess(value: Any) -> float:
    """Return the public guess of rows per person, or refuse it."""
    typed, value = shown(value), plain(value)
    if value is None:
        return ROWS
    bad = isinstance(value, bool) or not isinstance(value, (int, float))
    if bad or not (value > 0 and math.isfinite(value)):
        raise RequestError(
            "rows_per_unit= must be a public guess of the rows of a person, for example "
            f"rows_per_unit=5; got {typed}"
        )
    return float(value)
