"""The exact Gram matrix of designs of factors: by cell of their grid, never a dense row.

A row is a cell c and its numbers. Two kinds of maps are such that the integers of a row are
``(k zeta_c, rho)``, zeta_c a public table (``theory.md``, 1.7):

* every coordinate is one column, clipped by itself: k = 1, the integers of
  :func:`dpmodels.exact.gram.gram`, bit for bit;
* all coordinates are in a ball, and only one of them sees numbers: k and rho are the row's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.bycell import (
    FINE,
    MULTIPLE,
    ByCell,
    Integers,
    directions,
    gram_of,
    products_of,
    seen_by_row,
    sum_of,
)
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.rowmap import OneFirst, RowMap, UnitScale, WithOne
from dpmodels.exact.words import Gram, LatticeMap, worded
from dpmodels.formula.grid import Grid, grid_of

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

Blocks = Iterable[tuple[Array, npt.NDArray[np.intp]]]

#: Beside the largest, a slope that is no more than the rounding of an inverse.
_NOTHING = 1e-10


def cell_gram(design: Design, rowmap: LatticeMap, fingerprint: str = "") -> Any:
    """Return the pass by cells of a design under a map; None where they do not go together.

    Public: a function of design and row map.
    """
    grid = grid_of(design)
    inner: Any = rowmap.rowmap if isinstance(rowmap, (OneFirst, WithOne)) else rowmap
    if grid is None or type(inner) is not RowMap:
        return None
    if inner.ball:
        if inner.ball != len(inner.box) or isinstance(rowmap, WithOne):
            return None
        ball = BallCells(grid, inner, isinstance(rowmap, OneFirst), fingerprint)
        return ball if ball.fits else None
    if inner.matrix is not None or isinstance(rowmap, OneFirst) or len(inner.box) != design.q:
        return None
    return BoxCells(grid, inner, isinstance(rowmap, WithOne), fingerprint)


@dataclass(frozen=True)
class CellSums:
    """Sums by cell of one pass. **Confidential**.

    Attributes
    ----------
    squares : (K,) object array
        ``sum k^2``.
    firsts : (d, K) object array
        ``sum k rho``.
    seconds : (d, d) object array
        ``sum rho rho'``.
    rows : int
    """

    squares: Integers
    firsts: Integers
    seconds: Integers
    rows: int

    def __add__(self, other: CellSums) -> CellSums:
        return CellSums(
            self.squares + other.squares,
            self.firsts + other.firsts,
            self.seconds + other.seconds,
            self.rows + other.rows,
        )

    def __repr__(self) -> str:
        return "<sums by cell, confidential>"


class _Adding:
    """The running sums of one pass."""

    def __init__(self, cells: int, d: int) -> None:
        self.squares = ByCell(cells)
        self.firsts = [ByCell(cells) for _ in range(d)]
        self.seconds: Integers = np.zeros((d, d), dtype=object)
        self.rows = 0

    def done(self) -> CellSums:
        firsts = np.zeros((len(self.firsts), len(self.squares.integers())), dtype=object)
        for row, one in zip(firsts, self.firsts, strict=True):
            row[:] = one.integers()
        return CellSums(self.squares.integers(), firsts, self.seconds, self.rows)


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Coordinates clipped by themselves: a row is ``(zeta_c, rho)``.

    Attributes
    ----------
    grid : Grid
    rowmap : RowMap
    one : bool
        The constant 1 is appended.
    fingerprint : str
    """

    grid: Grid
    rowmap: RowMap
    one: bool = False
    fingerprint: str = ""

    @functools.cached_property
    def zeta(self) -> Array:
        """Lattice vectors of the cells, 0 where a row's own numbers stand and in void cells."""
        z = self.rowmap.integers(self.grid.table.copy())
        z[list(self.grid.numbers)] = 0.0
        if self.one:
            z = np.vstack([z, np.full((1, z.shape[1]), STEPS)])
        z[:, self.grid.void] = 0.0
        return z

    @functools.cached_property
    def part(self) -> RowMap:
        """The map of the numbers alone."""
        rows, inner = list(self.grid.numbers), self.rowmap
        unit = UnitScale(inner.unit.scale[rows], inner.unit.shift[rows], inner.unit.intercept)
        return RowMap(unit, inner.box[rows])

    def over(self, blocks: Blocks, _: Any = None) -> CellSums:
        """Return the sums by cell. Confidential."""
        grid, part, to = self.grid, self.part, _Adding(self.grid.cells, len(self.grid.numbers))
        void = np.flatnonzero(grid.void)
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                to.rows += len(cells)
                rho, there = part.ended(block)
                counts = np.bincount(cells, minlength=grid.cells)
                if counts[void].any() or there is not None:
                    gone = grid.void[cells] if there is None else grid.void[cells] | ~there
                    kept = np.flatnonzero(~gone)
                    rho, cells = rho[:, kept], cells[kept]
                    counts = np.bincount(cells, minlength=grid.cells)
                to.squares.put(counts)
                for one, row in zip(to.firsts, rho, strict=True):
                    one.add(cells, row)
                to.seconds = to.seconds + products_of(rho)
        return to.done()

    def gram(self, sums: CellSums) -> Gram:
        """Return the Gram matrix of sums of all rows. Confidential."""
        G = gram_of(self.zeta, sums.squares)
        numbers = list(self.grid.numbers)
        for j, own in zip(numbers, sums.firsts, strict=True):
            G[j] = G[:, j] = sum_of(self.zeta, own)
        G[np.ix_(numbers, numbers)] = sums.seconds
        return worded(G, sums.rows, self.fingerprint)


@dataclass(frozen=True, eq=False)
class BallCells:
    """All coordinates in a ball, one of which sees numbers: a row is ``(k zeta_c, 2^20 rho)``.

    In steps of ``radius 2^-40``; the Gram matrix is rounded down, once, to those of
    ``(radius 2^-20)^2``.

    Attributes
    ----------
    grid : Grid
    rowmap : RowMap
    first : bool
        The constant 1 stands in front of every row.
    fingerprint : str
    """

    grid: Grid
    rowmap: RowMap
    first: bool = False
    fingerprint: str = ""

    @functools.cached_property
    def _affine(self) -> tuple[Array, Array]:
        """Return (images of the cells (k, K), slopes of the numbers (k, d)), over the radius."""
        grid = self.grid
        table = grid.table.copy()
        steps = np.zeros((len(table), len(grid.numbers) + 1))  # the last: nothing at all
        steps[list(grid.numbers), range(len(grid.numbers))] = 1.0
        both = np.hstack([table, steps])
        if self.first:
            both = np.vstack([np.ones((1, both.shape[1])), both])
        image = self.rowmap.image(both) / STEPS
        K = grid.cells
        return image[:, :K], image[:, K:-1] - image[:, -1:]

    @functools.cached_property
    def place(self) -> int:
        """The coordinate that sees numbers; -1: none, or several."""
        slopes = np.abs(self._affine[1]).max(axis=1, initial=0.0)
        seeing = np.flatnonzero(slopes > _NOTHING * slopes.max()).tolist()
        return seeing[0] if len(seeing) == 1 else -1

    @property
    def fits(self) -> bool:
        """Whether the pass can be done by cells."""
        return self.place >= 0

    @functools.cached_property
    def tables(self) -> tuple[Array, Array, Array, Array]:
        """Return (zeta (k, K), length (K,), at (K,), slope (d,)), NaN in ``at`` of void cells."""
        image, slopes = self._affine
        own = image.copy()
        own[self.place] = 0.0
        own[:, self.grid.void] = 0.0
        zeta, length = directions(own)
        at = np.where(self.grid.void, np.nan, image[self.place])
        return zeta, length, at, slopes[self.place]

    def over(self, blocks: Blocks, _: Any = None) -> CellSums:
        """Return the sums by cell. Confidential."""
        to = _Adding(self.grid.cells, 1)
        _, lengths, at, slope = self.tables
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                to.rows += len(cells)
                r = seen_by_row(at, slope, block, cells)
                if not math.isfinite(float(r.sum())):
                    kept = np.flatnonzero(np.isfinite(r))
                    r, cells = r[kept], cells[kept]
                k: Array = lengths.take(cells)
                _into_ball(k, r)
                k = end_of_numbers(k, steps=MULTIPLE, low=0.0)
                r = end_of_numbers(r, steps=MULTIPLE)
                to.firsts[0].add(cells, k * r)
                to.seconds = to.seconds + products_of(r[None])
                k *= k
                to.squares.add(cells, k)
        return to.done()

    def gram(self, sums: CellSums) -> Gram:
        """Return the Gram matrix of sums of all rows. Confidential."""
        zeta, j = self.tables[0], self.place
        G = gram_of(zeta, sums.squares, 2 * FINE)
        G[j] = G[:, j] = sum_of(zeta, sums.firsts[0]) >> FINE
        G[j, j] = sums.seconds[0, 0]
        return worded(G, sums.rows, self.fingerprint)


def _into_ball(length: Array, r: Array) -> None:
    """Scale rows of which these are parts into the unit ball, in place. Most are in it already."""
    square = length * length
    square += r * r
    beyond = np.flatnonzero(square > 1.0)
    factor = 1.0 / np.sqrt(square[beyond])
    length[beyond] *= factor
    r[beyond] *= factor
