"""Columns put in the order of people, and runs of whole people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "Index", "by_person", "runs"]

Index = npt.NDArray[np.intp]


class Columns:
    """Columns that are copied once, into their place, where the number of rows is known."""

    def __init__(self, n: int | None) -> None:
        self._whole: dict[str, Any] = {}
        self._parts: list[Mapping[str, Any]] = []
        self._n = n or 0
        self.rows = 0

    def add(self, cells: Mapping[str, Any]) -> None:
        """Copy a part of every column."""
        a = self.rows
        self.rows += len(next(iter(cells.values()))) if cells else 0
        if not self._whole and self._n and not a:
            self._whole = {c: np.empty(self._n, dtype=v.dtype) for c, v in cells.items()}
        fits = bool(self._whole) and self.rows <= self._n and not self._parts
        if fits and all(self._whole[c].dtype == v.dtype for c, v in cells.items()):
            for c, v in cells.items():
                self._whole[c][a : self.rows] = v
            return
        if self._whole and not self._parts:  # more rows than were said, or another kind of cells
            self._parts.append({c: v[:a] for c, v in self._whole.items()})
        self._parts.append({c: np.array(v) for c, v in cells.items()})

    def ordered(self, order: Any) -> dict[str, Any]:
        """Return the columns, in the order given; columns take each other's place in memory."""
        columns = {c: v[: self.rows] for c, v in self._whole.items()}
        if self._parts:
            columns = {c: np.concatenate([p[c] for p in self._parts]) for c in self._parts[0]}
        if isinstance(order, slice):
            return columns
        spare: dict[Any, Any] = {}
        for c, v in columns.items():
            to = spare.pop(v.dtype, None)
            to = np.empty_like(v) if to is None else to
            columns[c] = np.take(v, order, out=to[: len(order)], mode="clip")
            spare[v.dtype] = v
        return columns


def by_person(codes: npt.NDArray[np.int64], found: int) -> tuple[Any, Index]:
    """Return (rows in the order of people, each in that of the file; ends of people).

    A counting sort: rows without an id are left out.
    """
    from scipy.sparse import csr_matrix

    missing = len(codes) > 0 and int(codes.min()) < 0
    if not missing and bool((codes[1:] >= codes[:-1]).all()):
        ends = np.full(found + 1, len(codes), dtype=np.intp)
        ends[0] = 0
        ends[1:-1] = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return slice(None), ends
    rows = np.flatnonzero(codes >= 0) if missing else None
    present = codes if rows is None else codes[rows]
    m = len(present)
    small = np.int32 if max(m, found) < 2**31 else np.int64  # what the sort moves
    cells = np.zeros(m, dtype=np.int8), present.astype(small), np.arange(m + 1, dtype=small)
    table = csr_matrix(cells, shape=(m, found)).tocsc()
    order = table.indices.astype(np.intp)
    return order if rows is None else rows[order], table.indptr.astype(np.intp)


def runs(
    spans: Iterator[tuple[Index, Index]], height: int
) -> Iterator[tuple[Index, Index]]:
    """Yield runs of people with at most ``height`` rows together, or one person with more.

    The runs are the same however the spans come in parts.
    """
    left: tuple[Index, Index] | None = None
    for first, counts in spans:
        if left is not None:
            first, counts = np.concatenate([left[0], first]), np.concatenate([left[1], counts])
        left = None
        for a, b in _groups(counts, height):
            if b == len(counts):  # more may come
                left = first[a:], counts[a:]
            else:
                yield first[a:b], counts[a:b]
    if left is not None:
        yield left


def _groups(counts: Index, height: int) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(counts)
    a = done = 0
    while a < len(counts):
        b = max(int(np.searchsorted(ends, done + height, side="right")), a + 1)
        yield a, b
        a, done = b, int(ends[b - 1])
