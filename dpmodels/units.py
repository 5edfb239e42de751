"""A person with several rows as the unit of privacy, and comparison of ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.cells import objects_of, opened, parts_of, read_each
from dpmodels.errors import SourceError

#: Units that are not columns: a row, or one variable of a row.
LEVELS = ("record", "attribute")
#: Kinds of columns whose cells name nobody.
NO_IDS = ("bool", "datetime", "duration", "nested")
#: Rows of a person where nothing says how many: a guess too large costs a little noise in the
#: start, one too small shortens people there.
ROWS = 4.0
_TEXT = "one person (column {})"


@dataclass(frozen=True)
class Person:
    """The column that names the unit of privacy. Holds no id."""

    column: str
    # Declared number of people (``units=``); None: counted, a public number.
    count: int | None = None
    rows: float = ROWS  # Public guess of the rows of a person (``rows_per_unit=``)
    # Rows of a person that are kept (``max_rows=``), where a method has a proof for rows only; 0:
    # all.
    most: int = 0
    sort: str = ""  # "duckdb": rows are put in the order of people on disk; empty: in memory

    @property
    def text(self) -> str:
        """The unit as the guarantee states it."""
        return unit_of(self.column)


def unit_of(column: str) -> str:
    """Return the unit of a guarantee for people: ``one person (column person_id)``."""
    return _TEXT.format(column)


def column_of(unit: str) -> str | None:
    """Return the column of a unit of people, or None for a row or an attribute."""
    head, tail = _TEXT.split("{}")
    if unit.startswith(head) and unit.endswith(tail):
        return unit[len(head) : -len(tail)]
    return None


def named(unit: str) -> str:
    """Return the printed unit: "one row", "one attribute", "one person (column person_id)".

    "record" is the word of options and files for a row.
    """
    if column_of(unit) is not None:
        return unit
    return "one row" if unit == "record" else f"one {unit}"


# -- Ids to codes: equality only, one cell at a time, never printed.
#
# An id is an integer, a text, or a float that holds an integer below 2^53; every other cell is
# missing. An integer and the text of its digits are different ids (``theory.md``, 1).


Codes = npt.NDArray[np.int64]
#: Floats at or above this do not tell neighbouring integers apart.
_EXACT = 2.0**53
#: Head of the keys of integers of 64 bits.
_WHOLE = b"\1"
#: Ids below this multiple of the number of rows are ranked by a table.
_TABLE = 4


def id_type(column: Any) -> str:
    """Return the type of ids in a column of this type: a public fact.

    A library that meets a missing or an odd cell types a part by it: integers become floats, which
    hold no id from 2^53 on, or text, whose "12" is another id than 12.
    """
    kind = getattr(column, "type", None)
    if kind is not None and type(column).__module__.startswith("pyarrow"):
        text = str(kind)
        letter = "i" if text.startswith(("int", "uint")) else "f" if "float" in text else "O"
        letter = "f" if text in ("double", "halffloat") else letter
    else:
        dtype = getattr(column, "dtype", None)
        polars = type(column).__module__.split(".")[0] == "polars"
        if polars and dtype is not None:
            letter = "i" if dtype.is_integer() else "f" if dtype.is_float() else "O"
        else:
            letter = getattr(dtype, "kind", "O")
    return {"i": "integers", "u": "integers", "f": "floats"}.get(letter, "text")


class OneType:
    """Refuses a part whose ids have another type than those of the first: see :func:`id_type`."""

    def __init__(self, first: str = "") -> None:
        self._type = first

    def check(self, column: Any) -> None:
        """Compare the type of a part; cells are not looked at, a part without any says nothing."""
        if not len(column):
            return
        kind = id_type(column)
        self._type = self._type or kind
        if kind != self._type:
            raise SourceError(
                f"the column of ids holds {self._type} in one part of the table and {kind} in "
                "another, and one person would be two: give all parts the same type, for example "
                'by dtype={...} where they are read ("Int64" for integers of which some are '
                "missing)"
            )


class Ids:
    """A column of ids, collected part by part: private.

    ``n``: rows to come, where that is known: integers then go straight to their place.
    ``id_type``: the type of the ids; None: that of the first part.
    """

    def __init__(self, n: int | None = None, id_type: OneType | None = None) -> None:
        self._parts: list[tuple[Any, npt.NDArray[np.bool_] | None]] = []
        self._place, self._rows = np.empty(n or 0, dtype=np.int64), 0
        self._one = id_type or OneType()

    def add(self, column: Any) -> None:
        """Add the cells of a part, of the type of the first."""
        self._one.check(column)
        cells, present = _canonical(column)
        a, self._rows = self._rows, self._rows + len(cells)
        if cells.dtype == np.int64 and present is None and self._rows <= len(self._place):
            self._place[a : self._rows] = cells
            cells = self._place[a : self._rows]
        self._parts.append((cells, present))

    def _all(self) -> tuple[Codes, npt.NDArray[np.bool_] | None]:
        """Return (integers of all parts, mask of present ones or None if all are)."""
        if all(cells.base is self._place for cells, _ in self._parts):
            return self._place[: self._rows], None
        cells = np.concatenate([cells for cells, _ in self._parts])
        if all(ok is None for _, ok in self._parts):
            return cells, None
        masks = [np.ones(len(c), dtype=bool) if ok is None else ok for c, ok in self._parts]
        return cells, np.concatenate(masks)

    def count(self) -> int:
        """Return the number of different ids."""
        if not self._parts or any(cells.dtype != np.int64 for cells, _ in self._parts):
            return self.codes()[1]
        cells, present = self._all()
        return _different(cells if present is None else cells[present])

    def codes(self) -> tuple[Codes, int]:
        """Return (code of each row, -1 where the id is missing; number of different ids).

        Codes follow the order of the ids, numbers before text: they do not depend on the order of
        the rows.
        """
        if not self._parts:
            return np.empty(0, dtype=np.int64), 0
        if all(cells.dtype == np.int64 for cells, _ in self._parts):
            cells, present = self._all()
            if present is None or bool(present.all()):
                return _ranks(cells)
            out = np.full(len(cells), -1, dtype=np.int64)
            out[present], different = _ranks(cells[present])
            return out, different
        places: dict[Any, int] = {}
        parts = []
        for cells, ok in self._parts:
            keys = cells.tolist()
            present = np.ones(len(keys), dtype=bool) if ok is None else ok
            parts.append(
                np.fromiter(
                    (
                        places.setdefault(key, len(places))
                        if is_present and key is not None
                        else -1
                        for key, is_present in zip(keys, present.tolist(), strict=True)
                    ),
                    dtype=np.int64,
                    count=len(keys),
                )
            )
        ranked = sorted(places, key=lambda key: (isinstance(key, str), key))
        rank = np.empty(len(places) + 1, dtype=np.int64)
        rank[[places[key] for key in ranked]] = np.arange(len(places))
        rank[-1] = -1
        return rank[np.concatenate(parts)], len(places)


def _different(cells: Codes) -> int:
    """Return how many different integers there are: as :func:`_ranks` finds them."""
    if not len(cells):
        return 0
    if bool((cells[1:] >= cells[:-1]).all()):
        return int(np.count_nonzero(cells[1:] != cells[:-1])) + 1
    low, high = int(cells.min()), int(cells.max())
    if high - low <= _TABLE * len(cells):
        occurs = np.zeros(high - low + 1, dtype=bool)
        occurs[cells - low] = True
        return int(np.count_nonzero(occurs))
    import pandas as pd

    return len(pd.unique(cells))


def _ranks(cells: Codes) -> tuple[Codes, int]:
    """Return the rank of each integer among the different ones, and how many those are."""
    if not len(cells):
        return cells, 0
    if bool((cells[1:] >= cells[:-1]).all()):  # in order already
        out = np.zeros(len(cells), dtype=np.int64)
        np.cumsum(cells[1:] != cells[:-1], out=out[1:])
        return out, int(out[-1]) + 1
    low, high = int(cells.min()), int(cells.max())
    if high - low <= _TABLE * len(cells):  # a table of who is there is faster than a sort
        occurs = np.zeros(high - low + 1, dtype=bool)
        place = cells - low
        occurs[place] = True
        rank = np.cumsum(occurs) - 1
        return rank[place], int(rank[-1]) + 1
    import pandas as pd

    out, values = pd.factorize(cells, sort=True)
    return out.astype(np.int64), len(values)


def sort_keys(column: Any) -> tuple[Any, Codes, npt.NDArray[np.intp] | None]:
    """Return (head, number, rows): the keys by which ids are sorted and compared everywhere.

    The head is bytes, of each of the rows that have an id (None: of all); one for all where they
    are integers of 64 bits. Sorted by (head, number), people stand in the order of
    :meth:`Ids.codes`: numbers before text, text by its code points. Two ids are equal where head
    and number are.
    """
    cells, ok = _canonical(column)
    if cells.dtype == np.int64:
        if ok is None or bool(ok.all()):
            return _WHOLE, cells, None
        rows = np.flatnonzero(ok)
        return _WHOLE, cells[rows], rows
    rows = np.flatnonzero([key is not None for key in cells.tolist()])
    pairs = [_pair(key) for key in cells[rows].tolist()]
    number = np.array([n for _, n in pairs], dtype=np.int64)
    return [head for head, _ in pairs], number, rows


def _pair(key: int | str) -> tuple[bytes, int]:
    """Return the sort key of an id, in two parts: integers by value, then text."""
    if isinstance(key, str):
        return b"\3" + key.encode("utf-8", "surrogatepass"), 0
    if -(2**63) <= key < 2**63:
        return _WHOLE, key
    size = (abs(key).bit_length() + 7) // 8
    if key > 0:
        return b"\2" + size.to_bytes(8, "big") + key.to_bytes(size, "big"), 0
    # the longer a negative number, the earlier: lengths and digits are taken from their largest
    shorter = (2**64 - 1 - size).to_bytes(8, "big")
    return b"\0" + shorter + (256**size + key).to_bytes(size, "big"), 0


def _canonical(column: Any) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """Return (int64 cells, present) of numbers; (object cells of int, str or None, None) else."""
    if str(getattr(column, "dtype", "")) == "boolean":
        return np.full(len(column), None, dtype=object), None
    parts = parts_of(column)
    if len(parts) > 1:
        return _of_array(objects_of(column))
    kind, cells = opened(parts[0])
    if kind == "numpy" and cells.dtype.kind != "O":
        return _of_array(cells)
    if kind == "masked" and cells[0].dtype.kind == "i":
        return cells[0].astype(np.int64), ~cells[1]
    return _of_array(objects_of(column))


def _of_array(cells: Any) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """Return the ids of an array and the mask of those present."""
    kind = cells.dtype.kind
    if kind == "i" or (kind == "u" and cells.dtype.itemsize < 8):
        return np.array(cells, dtype=np.int64), None
    if kind == "f":
        cells = cells.astype(float)
        with np.errstate(all="ignore"):
            present = (np.abs(cells) < _EXACT) & (np.floor(cells) == cells)
        return np.where(present, cells, 0.0).astype(np.int64), present
    if kind not in "OUu":  # truth values, dates, bytes: no ids
        return np.full(len(cells), None, dtype=object), None
    return read_each(cells.tolist(), _key, None, object), None


def _key(cell: Any) -> int | str | None:
    """Return the key by which a cell is compared, or None if it is not an id."""
    kind = type(cell)
    if kind is str:
        return str(cell)
    if kind is int:
        return int(cell)
    if isinstance(cell, (np.integer, np.floating, np.str_)):
        plain = cell.item()
        return None if isinstance(plain, np.generic) else _key(plain)  # not a long double
    if kind is float and abs(cell) < _EXACT and cell == int(cell):
        return int(cell)
    return None
