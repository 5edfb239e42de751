"""Counts of cells that a schema cannot read, for the holder of the data alone. Not private.

Nothing here is part of a release: no verb imports it, and what it returns goes to the screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmodels.cells import object_array, objects_of
from dpmodels.errors import SchemaError
from dpmodels.formula.reading import coerce
from dpmodels.formula.schema import as_recorded
from dpmodels.formula.spelled import spellings
from dpmodels.formula.types import check_types
from dpmodels.quiet import guarded
from dpmodels.sources.parts import Source
from dpmodels.variables import NA_WORDS, Binary, Levels, Text, Variable

#: Different spellings that are counted of one column, at most.
_MOST_SPELLINGS = 100_000


@dataclass
class Seen:
    """Contents found in one column. Confidential."""

    problem: str = ""  # why no cell can be read, by public facts
    missing: int = 0
    unread: int = 0  # numbers, dates: cells that do not parse
    unmatched: int = 0  # levels: cells that match none
    outside: int = 0  # numbers: cells beyond the declared range
    spellings: Counter[str] = field(default_factory=Counter)


@dataclass
class Inspected:
    """Contents found in a table. Confidential."""

    rows: int
    usable: int  # rows without a cell that is missing or cannot be read
    columns: dict[str, Seen]


def inspected(source: Source, variables: Mapping[str, Variable]) -> Inspected:
    """Count the cells of the declared columns that are missing, or cannot be read.

    **Not private.** Exact counts of private rows, and spellings of cells.
    """
    kinds = source.kinds
    seen = {name: Seen() for name in variables}
    read: dict[str, Variable] = {}
    for name, variable in variables.items():
        if name not in kinds:
            seen[name].problem = "the data have no such column"
            continue
        if isinstance(variable, Levels) and not variable.levels:  # to be bought
            variable = Text()
        try:
            recorded = as_recorded(name, variable, kinds)
            check_types(kinds, {name: recorded})
            read[name] = recorded
        except SchemaError as error:
            seen[name].problem = str(error)
    rows, usable = guarded(lambda: _count_cells(source, read, seen), charged=False)
    return Inspected(rows, usable, seen)


def _count_cells(
    source: Source, variables: Mapping[str, Variable], seen: dict[str, Seen]
) -> tuple[int, int]:
    """Fill ``seen``; return the number of rows, and of those that every variable can use."""
    rows = usable = 0
    names = list(variables) or list(source.kinds)[:1]
    for chunk in source.chunks(names):
        m = len(chunk[names[0]])
        complete = np.ones(m, dtype=bool)
        for name, variable in variables.items():
            complete &= _column(chunk[name], variable, seen[name])
        rows, usable = rows + m, usable + int(complete.sum())
    return rows, usable


def _column(column: Any, variable: Variable, seen: Seen) -> Any:
    """Record the cells of a column and return the mask of usable ones."""
    cells = np.asarray(coerce(column, variable))
    levels = isinstance(variable, Levels)
    present: Any = cells >= 0 if levels or isinstance(variable, Text) else ~np.isnan(cells)
    if variable.interval is not None and not levels:
        low, high = variable.interval
        seen.outside += int(((cells < low) | (cells > high)).sum())
    # a cell that counts as other= is used, and matches no level all the same
    other = isinstance(variable, Levels) and variable.other is not None
    look = np.flatnonzero(~present | (cells == _code_of_other(variable)) if other else ~present)
    if not len(look):
        return present
    raw = objects_of(column)
    reads = _readable_spellings(variable)
    for i in look.tolist():
        cell = raw[i]
        missing = cell is None or (isinstance(cell, str) and cell.strip() in NA_WORDS)
        if reads(cell) is True and present[i]:
            continue  # other= itself
        if missing or reads(cell) is None:
            seen.missing += 1
            continue
        if levels or variable.kind == "binary":
            seen.unmatched += 1
        else:
            seen.unread += 1
        text = str(cell)
        if text in seen.spellings or len(seen.spellings) < _MOST_SPELLINGS:
            seen.spellings[text] += 1
    return present


def _code_of_other(variable: Variable) -> int:
    assert isinstance(variable, Levels)
    return -2 if variable.other is None else variable.levels.index(variable.other)


def _readable_spellings(variable: Variable) -> Callable[[Any], bool | None]:
    """Return a function from a cell to whether it can be read, or to None if it is missing.

    Missing is a cell that is declared as a missing code of the variable.
    """
    if isinstance(variable, (Levels, Binary)):
        spelled = spellings(variable)

        def level(cell: Any) -> bool | None:
            code = spelled(cell)
            return None if code == -1 else code is not None

        return level
    codes = {str(code).strip() for code in getattr(variable, "missing", None) or ()}
    plain = replace(variable, missing=None)

    def number(cell: Any) -> bool | None:
        if isinstance(cell, str) and cell.strip() in codes:
            return None
        column = object_array([cell])
        if np.isnan(np.asarray(coerce(column, plain), dtype=float)[0]):
            return False
        return None if np.isnan(np.asarray(coerce(column, variable), dtype=float)[0]) else True

    return number
