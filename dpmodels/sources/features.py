"""One row a person: what a person's rows come to, first, before any model sees them.

A cell of a person is a function of its own rows in the order of the table, bit for bit, whoever
stands between them (``units.md``, 13). Calls on such a table protect people, or are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, SourceError, did_you_mean, shown
from dpmodels.formula.program import coerce
from dpmodels.sources.tables import Chunk, Source, one_type
from dpmodels.units import Ids
from dpmodels.variables import Real

Codes = npt.NDArray[np.int64]


def _extreme(at: Any, start: float) -> Callable[[Codes, Array, int], Array]:
    def of(codes: Codes, cells: Array, people: int) -> Array:
        out = np.full(people, start)
        at(out, codes, cells)
        return np.where(out == start, np.nan, out)

    return of


def _total(codes: Codes, cells: Array, people: int) -> Array:
    """Add up a person's cells in the order of its rows."""
    out: Array = np.bincount(codes, weights=cells, minlength=people).astype(float)
    return out


def _first(codes: Codes, cells: Any, people: int) -> Any:
    out = np.full(people, None if cells.dtype == object else np.nan, dtype=cells.dtype)
    out[codes[::-1]] = cells[::-1]  # of a place that is written twice, the last write stays
    return out


#: Name -> function of (person of each cell, cells, number of people): cells that are missing, or
#: not finite, or of rows without an id, are left out before.
FUNCTIONS: dict[str, Callable[[Codes, Any, int], Any]] = {
    "count": lambda codes, cells, people: _total(codes, np.ones(len(codes)), people),
    "sum": _total,
    "any": lambda codes, cells, people: np.minimum(_total(codes, cells != 0.0, people), 1.0),
    "min": _extreme(np.minimum.at, np.inf),
    "max": _extreme(np.maximum.at, -np.inf),
    "first": _first,
}


class Features:
    """A table with one row a person, made of a table with any number of rows a person.

    Parameters
    ----------
    source : Source
    unit : str
        Column of the person.
    features : mapping
        New column -> (function, column); "count" alone counts rows.
    """

    rescannable, schema_attr, n = True, None, None

    def __init__(self, source: Source, unit: str, features: Mapping[str, Any]) -> None:
        if not source.rescannable or hasattr(source, "ids"):
            raise SourceError(
                "features of people are made of a table that can be read again, in one place: a "
                "frame, files, a list of frames"
            )
        self._source, self.people_of = source, unit
        self._made = {name: _checked(source, name, given) for name, given in features.items()}
        self._named(unit, "unit=")
        numbers = {name: "numeric" for name in (unit, *self._made)}
        texts = {name: source.kinds[column] for name, (how, column) in self._made.items()
                 if how == "first" and self._text(column)}  # fmt: skip
        self.kinds: Mapping[str, str] = {**numbers, **texts}
        self._codes: tuple[Codes, int] | None = None
        self._cells: dict[str, Any] = {}

    def _named(self, column: str, what: str) -> None:
        if column not in self._source.kinds:
            close = did_you_mean(column, self._source.kinds)
            raise RequestError(f"{what}{shown(column)} is no column of the table.{close}")

    def _text(self, column: str) -> bool:
        return self._source.kinds[column] not in ("numeric", "bool", "datetime")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the people as one chunk, in the order of their ids."""
        if self._codes is None:
            ids = Ids(self._source.n, one_type(self._source, self.people_of))
            for chunk in self._source.chunks([self.people_of]):
                ids.add(chunk[self.people_of])
            self._codes = ids.codes()
            self._cells[self.people_of] = np.arange(self._codes[1])
        for name in names:
            if name not in self._cells:
                self._cells[name] = self._feature(*self._made[name])
        yield {name: self._cells[name] for name in names}

    def _feature(self, how: str, column: str) -> Any:
        assert self._codes is not None
        codes, people = self._codes
        there = codes >= 0
        if not column:
            return FUNCTIONS[how](codes[there], codes[there], people)
        text = how == "first" and self._text(column)
        parts = [
            _texts(chunk[column]) if text else coerce(chunk[column], Real())
            for chunk in self._source.chunks([column])
        ]
        cells: Any = np.concatenate(parts) if parts else np.empty(0)
        there &= np.array([c is not None for c in cells], bool) if text else np.isfinite(cells)
        return FUNCTIONS[how](codes[there], cells[there], people)


def _texts(column: Any) -> Any:
    """Return the cells of a column as objects, None where a cell is missing; each by itself."""
    name = next(n for n in ("to_pylist", "to_list", "tolist") if hasattr(column, n))
    cells = getattr(column, name)()
    out = np.empty(len(cells), dtype=object)
    out[:] = [None if _is_missing(c) else c for c in cells]
    return out


def _is_missing(cell: Any) -> bool:
    """Tell if a cell is missing, by its type: nothing of the cell itself is called."""
    unknown = type(cell).__name__ in ("NoneType", "NAType", "NaTType")
    return unknown or (isinstance(cell, float) and cell != cell)


def _checked(source: Source, name: str, given: Any) -> tuple[str, str]:
    """Return (function, column) of a feature as it was typed."""
    how, column = (given, "") if isinstance(given, str) else (*given, "", "")[:2]
    if how not in FUNCTIONS or not isinstance(column, str) or (not column and how != "count"):
        known = ", ".join(FUNCTIONS)
        raise RequestError(
            f"{name}= takes a function and a column, for example {name}=('max', 'income'), or "
            f"'count' (of rows). Functions: {known}.{did_you_mean(str(how), FUNCTIONS)}"
        )
    if column and column not in source.kinds:
        close = did_you_mean(column, source.kinds)
        raise RequestError(f"{name}=: {shown(column)} is no column of the table.{close}")
    return how, column


def check_unit(source: Any, unit: str | None) -> None:
    """Refuse a call that would protect one row of a table whose rows are people, or other people.

    Called before anything is charged, wherever units are counted.
    """
    people_of = getattr(source, "people_of", None)
    if people_of is not None and unit != people_of:
        raise RequestError(
            f"a row of this table is what all rows of one person (column {people_of}) come to: say "
            f"so, unit={people_of!r}. Then one person is protected, whatever the number of rows"
        )
