"""Ends of intervals of quantiles on a public grid (``theory.md``, 2.3).

A value counts at the nearest point of the grid, so a point stands for its cell: an end is the far
side of a cell, and beyond the first and the last cell stands the declared bound.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["Cells", "cells_for", "outward"]


class Cells:
    """The cells of the points of a grid.

    Attributes
    ----------
    step : float
        Between points; 0 where values are integers and so are the points.
    low, high : arrays, (points + 2,)
        Ends of the cells, with one place more on either side: the declared bound, infinite where
        the range was bought (values beyond it count in the first and last cell).
    """

    def __init__(self, grid: Array, bounds: tuple[float, float], *, whole: bool) -> None:
        self.step = 0.0 if whole else float(grid[-1] - grid[0]) / (len(grid) - 1)
        lo, hi = bounds
        inside = np.clip(grid[1:] - self.step / 2.0, lo, hi)
        self.low = np.concatenate([[lo, lo], inside, [hi]])
        inside = np.clip(grid[:-1] + self.step / 2.0, lo, hi)
        self.high = np.concatenate([[lo], inside, [hi, hi]])

    def ends(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the outer ends of cells: places in the grid, -1 and len(grid) beyond it."""
        return self.low[np.asarray(low) + 1], self.high[np.asarray(high) + 1]


def cells_for(design: Design, number: int, grid: Array, *, bought: bool) -> Cells:
    """Return the cells of a column's grid (:func:`dpmodels.models.table.ranks.grid_for`)."""
    column = design.columns[number]
    assert column.interval is not None
    variable = design.schema.variables.get(column.name)
    counts = variable is not None and variable.kind == "count"
    whole = counts and bool((grid == np.rint(grid)).all()) and float(grid[1] - grid[0]) == 1.0
    bounds = (-np.inf, np.inf) if bought else column.interval
    return Cells(grid, bounds, whole=whole)


def outward(
    counts: npt.NDArray[np.int64], q: Fraction, offset: int, unit: int = 0
) -> npt.NDArray[np.int64]:
    """Return the penalties of an end: of a bound beyond the grid, and of every grid point.

    ``max(0, L - r, r - E)`` with the target ``r = q m + offset`` not cut. What is beyond the grid
    has 0 values up to it (offset < 0; it comes first) or all m below it (offset > 0; last), so
    some candidate has penalty 0 wherever r lies, and the error of a draw is one of |r - rank| at
    the ends too. One row moves a penalty by at most 1 (``theory.md``, 2.3).

    Parameters
    ----------
    counts : (points,) array
    offset : int
        Ranks; not 0.
    unit : int
        As in :func:`dpmodels.models.table.ranks.penalties`.
    """
    up_to = counts.cumsum()
    m, rank = int(up_to[-1]), q.denominator
    target = q.numerator * m + rank * (unit or 1) * offset
    below = rank * (up_to - counts) - target
    above = target - rank * up_to
    inside = np.maximum(np.maximum(below, above), 0)
    if offset < 0:
        return np.concatenate([[max(0, target)], inside])
    return np.concatenate([inside, [max(0, rank * m - target)]])
