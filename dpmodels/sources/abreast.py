"""Columns that lie side by side in one array of rows: read a row, not a column, at a time.

A frame that was made of one array has columns that are views of it. A line of the cache then holds
several columns of one row, and going through one column after the other reads it once for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.formula.coerce import clip_cells
from dpmodels.formula.program import written_by

__all__ = ["in_order", "side_by_side", "turn", "written_abreast"]

#: Columns from which it pays, and rows that are copied at once: both sides stay in the cache.
_LEAST, _ROWS = 16, 512


def side_by_side(
    columns: Sequence[Any], least: int = _LEAST
) -> tuple[Array, list[int]] | None:
    """Return the rows of which these are columns, and their places; None: they are not.

    Parameters
    ----------
    columns : sequence
        Cells of one chunk, of equal length.
    least : int
        Columns from which it pays.

    Notes
    -----
    **Privacy.** Goes by types and layout alone.
    """
    if len(columns) < least:
        return None
    base = getattr(columns[0], "base", None)
    if type(base) is not np.ndarray or base.ndim != 2 or base.dtype != np.float64:
        return None
    apart, step = base.strides
    if step != base.itemsize or apart < base.shape[1] * step or base.shape[1] > 2 * len(columns):
        return None
    start, m = _at(base), len(columns[0])
    places, tops = [], set()
    for v in columns:
        if type(v) is not np.ndarray or v.base is not base or v.dtype != base.dtype:
            return None
        if v.strides != (apart,) or len(v) != m:
            return None
        top, within = divmod(_at(v) - start, apart)
        places.append(within // step)
        tops.add(top)
    if len(tops) != 1:
        return None
    (top,) = tops
    return base[top : top + m], places


def _at(array: Array) -> int:
    """Return where an array begins: compared, and never read from."""
    return int(array.__array_interface__["data"][0])


def written_abreast(
    columns: Sequence[Any], ranges: Sequence[tuple[float, float]], rows: Sequence[int], out: Array
) -> bool:
    """Write columns, cut to their ranges, into rows of ``out``; False: nothing was done.

    Both must be in one order: it is the transposition of a part of the table.
    """
    found = side_by_side(columns)
    if found is None:
        return False
    table, places = found
    if not (in_order(places) and in_order(rows)):
        return False
    low, high = np.array(ranges).T[:, :, None]
    turn(table[:, places[0] : places[0] + len(places)], (low, high), out[rows[0] :][: len(rows)])
    return True


def turn(table: Array, ranges: tuple[Array, Array], out: Array) -> None:
    """Write rows (m, q), cut to ranges (q, 1), as columns of ``out`` (q, m)."""
    low, high = ranges
    if table.shape[1] < _LEAST:
        clip_cells(table.T, low, high, out=out)
        return
    for a in range(0, len(table), _ROWS):
        out[:, a : a + _ROWS] = table[a : a + _ROWS].T
    clip_cells(out, low, high, out=out)


def in_order(places: Sequence[int]) -> bool:
    """Whether places are one after the other."""
    return all(b == a + 1 for a, b in itertools.pairwise(places))


written_by(written_abreast)
