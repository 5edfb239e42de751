"""Exact sums of rows that are a cell of a public grid and a few numbers: no dense row of them.

A row is ``z = T_c + B x``: T_c the public lattice vector of its cell, x its numbers as integers, B
their public columns. Of all rows only sums by cell of x, and one matrix of products of numbers,
are kept (``theory.md``, 1.9). What does not lie inside the ball for certain goes the dense way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.bycell import (
    SHORTENED,
    ByCell,
    Integers,
    crossed,
    digits,
    in_parts,
    summed,
    symmetric,
    total,
)
from dpmodels.exact.bykernel import BallByKernel, fits
from dpmodels.exact.end import STEPS, end_within, integers_of
from dpmodels.exact.products import cross_product, squares, weighted
from dpmodels.exact.rowmap import RowMap
from dpmodels.exact.words import Gram, Words, joined, worded
from dpmodels.formula.grid import Grid, grid_of

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = [
    "FINER", "Lattice", "MixedBall", "MixedSums", "Read", "ball_of_cells", "filled_rows",
    "mixed_grid", "ranges_of",
]  # fmt: skip

Blocks = Iterable[tuple[Array, npt.NDArray[np.intp]]]

#: A number is an integer of at most 2^20, its column and a cell are in steps of radius 2^-40.
FINER = 2.0**20
TOP = 2.0**40 * SHORTENED
#: Largest entry of a cell's vector or a number's column, and largest margin, over the ball's.
_LARGEST, _MARGIN = 2.0**52, 2.0**-6
#: Bits of a part of a cell's vector, and of a column.
_BITS, _PART = 14, 20
#: Bits of a number of a row, and of a weight.
_NUMBER = 20
#: Rows whose numbers add up to less than half of what a row counts where both are one sum, which
#: is below 2^53.
_TOGETHER, _APART = 1 << 15, 2.0**37
#: Rows whose sum of integers of at most 2^40 float64 holds exactly.
_ROWS = 1 << 13
#: Numbers up to which rows are added up by cell, predictors that must be there beside them, and
#: rows (a public number) a cell: each cell costs a column of the tables.
MOST_NUMBERS, LEAST_PLACES, ROWS_A_CELL = 8, 12, 16
#: Longest column of a number over the root mean square of a row's coordinates: its steps of 2^-20
#: of the declared range are then at most 2^-8 of what it spreads.
STEEPEST = 2.0**12


def mixed_grid(design: Design, rows: int) -> Grid | None:
    """Return the grid of a design of factors and a few numbers; None: rows are filled.

    Parameters
    ----------
    rows : int
        Public number of rows of a pass.

    Notes
    -----
    **Privacy.** A function of formula, schema and a public number.
    """
    grid = grid_of(design)
    if grid is None or design.aside or design.bought or design.response is None:
        return None
    d = sum(j < design.p for j in grid.numbers)
    if not 0 < d <= MOST_NUMBERS or design.p - d < max(LEAST_PLACES, 2 * d):
        return None
    return grid if rows >= ROWS_A_CELL * grid.cells and ranges_of(grid) is not None else None


def ranges_of(grid: Grid) -> tuple[Array, Array] | None:
    """Return (middle, half width) (d, 1) of the declared ranges of the numbers; None: one has none.

    The response is the last.
    """
    if any(c is None for c in grid.clips) or grid.finals:
        return None
    low, high = np.array(grid.clips, dtype=float).T[:, :, None]
    half = (high - low) / 2.0
    return ((low + high) / 2.0, half) if (half > 0.0).all() else None


def filled_rows(grid: Grid, block: Array, cells: npt.NDArray[np.intp]) -> Array:
    """Return rows as a design fills them, (q, m), from their numbers (d, m) and cells (m,)."""
    out: Array = grid.table.take(cells, axis=1)
    out[list(grid.numbers)] = block
    return out


@dataclass(frozen=True, eq=False)
class Read:
    """Numbers of a block of rows on their lattice.

    Attributes
    ----------
    x : (d, m) array
        Integers of at most 2^20.
    square : (m,) array
        Squared length of ``T_c + B x``, and its margin: never below the length itself.
    inside : (m,) bool array
        Rows in the ball, their numbers within their ranges.
    """

    x: Array
    square: Array
    inside: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lattice:
    """Public tables of ``z = T_c + B x``, in steps of radius 2^-40.

    Attributes
    ----------
    T : (r, K) array
        Floats that hold integers; 0 in void cells.
    B : (r, d) array
        The same of the numbers.
    middle, half : (d, 1) arrays
        Of the numbers' ranges.
    void : (K,) bool array
    """

    T: Array
    B: Array
    middle: Array
    half: Array
    void: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, image: Array, columns: Array, ranges: tuple[Array, Array], void: npt.NDArray[np.bool_]
    ) -> Lattice | None:
        """Return the tables of a map; None where numbers or cells lie too far out for them.

        Parameters
        ----------
        image : (r, K) array
            Cells with their numbers in the middle of their ranges, over the radius.
        columns : (r, d) array
            What half a range of each number adds.
        """
        T = np.where(void, 0.0, public_integers(image, 2.0 * _PART))
        found = cls(T, public_integers(columns, _PART), *ranges, void)
        small = float(max(np.abs(T).max(initial=0.0), FINER * np.abs(found.B).max(initial=0.0)))
        return found if small <= _LARGEST and found.margin <= _MARGIN * TOP**2 else None

    @functools.cached_property
    def tables(self) -> tuple[Array, Array, Array]:
        """Return (A (K,), g (d, K), Q (d, d) lower triangular): ``|z|^2 = A + g'x + x'Qx``.

        In floats, added one after the other: the same on every processor.
        """
        T, B = self.T, self.B
        d = B.shape[1]
        A = np.where(self.void, np.inf, squares(T))
        g, Q = np.zeros((d, T.shape[1])), np.zeros((d, d))
        for row, slopes in zip(T, B, strict=True):
            g += row * slopes[:, None]
        for j in range(d):
            for k in range(j + 1):
                Q[j, k] = math.fsum(B[:, j] * B[:, k]) * (1.0 if j == k else 2.0)
        return A, 2.0 * g, Q

    @functools.cached_property
    def margin(self) -> float:
        """By how much the square that is computed may be too small (``theory.md``, 1.9)."""
        r, d = self.B.shape
        longest = math.sqrt(float(squares(self.T).max(initial=0.0)))
        reach = longest + FINER * float(np.sqrt(squares(self.B)).sum())
        return (r + 2 * d + 8) * 2.0**-52 * reach**2

    @functools.cached_property
    def packed(self) -> tuple[Array, Array]:
        """Return (map, tables by cell) of :meth:`read` as the compiled loops take them."""
        A, g, Q = self.tables
        head = [TOP**2, self.margin, *self.middle[:, 0], *(STEPS / self.half)[:, 0], *Q.ravel()]
        return np.array(head), np.vstack([A, g]).T.copy()

    def read(self, numbers: Array, cells: npt.NDArray[np.intp]) -> Read:
        """Return the numbers (d, m) of rows on their lattice: each row by itself."""
        t = numbers - self.middle
        t *= STEPS / self.half
        A, g, Q = self.tables
        x, within = end_within(t)
        square = A.take(cells)
        part = np.empty(len(square))
        for j, row in enumerate(x):
            own = g[j].take(cells)
            for other, q in zip(x[: j + 1], Q[j].tolist(), strict=False):
                np.multiply(other, q, out=part)
                own += part
            own *= row
            square += own
        square += self.margin
        inside = square <= TOP**2
        if within is not None:
            inside &= within
        return Read(x, square, inside)

    @functools.cached_property
    def _parts(self) -> tuple[list[Array], list[Array]]:
        """Return T and B, cut into parts whose products float64 holds exactly."""
        return in_parts(self.T, _BITS), in_parts(self.B, _PART)

    def gram(self, sums: MixedSums, drop: int) -> Integers:
        """Return ``sum q z z'`` over ``2^drop``, rounded down once, (r, r).

        Twice of it is added up: ``U B' + B U'`` with ``U = 2 F + B XX`` is what numbers add.
        """
        parts, columns = self._parts
        B = self.B.astype(np.int64).astype(object)
        U = 2 * summed(parts, sums.firsts, _BITS).T + B @ sums.seconds
        r, d = B.shape
        upper = np.triu_indices(r)
        terms = crossed(parts, sums.counts, _BITS, 1)
        for digit, at in digits(U, d, _PART):
            for b, part in enumerate(columns):
                found = digit @ part.T
                found += found.T
                terms.append((found[upper].astype(np.int64), at + _PART * b))
        return symmetric(total(terms, drop + 1), r)

    def along(self, weights: Integers) -> Integers:
        """Return ``sum_c weights_c T_c``, (r,)."""
        return summed(self._parts[0], weights[None], _BITS)[0]

    def sum(self, weights: Integers, numbers: Integers, drop: int) -> Integers:
        """Return ``sum k z`` over ``2^drop``, rounded down; of sums of k by cell, and of k x."""
        B = self.B.astype(np.int64).astype(object)
        return (self.along(weights) + B @ numbers) >> drop


def public_integers(values: Array, bits: float) -> Array:
    """Return public numbers as integers, in steps of 2^-bits: half of one up or down."""
    steps = values * 2.0**bits
    return np.asarray(np.where(np.abs(steps) < 2.0**53, np.rint(steps), 2.0**60))


@dataclass(frozen=True)
class MixedSums:
    """Sums by cell of rows ``T_c + B x``, each with an integer weight q. **Confidential**.

    Attributes
    ----------
    counts : (K,) object array
        ``sum q``.
    firsts : (d, K) object array
        ``sum q x``.
    seconds : (d, d) object array
        ``sum q x x'``.
    """

    counts: Integers
    firsts: Integers
    seconds: Integers

    def __add__(self, other: MixedSums) -> MixedSums:
        return MixedSums(
            self.counts + other.counts, self.firsts + other.firsts, self.seconds + other.seconds
        )

    def __repr__(self) -> str:
        return "<sums by cell and number, confidential>"


class MixedAdding:
    """The running sums of :class:`MixedSums`."""

    def __init__(self, cells: int, d: int) -> None:
        self._counts = ByCell(cells)
        self._firsts = [ByCell(cells) for _ in range(d)]
        self._seconds: Integers = np.zeros((d, d), dtype=object)

    def add(
        self, cells: npt.NDArray[np.intp], x: Array, weights: Array | None = None,
        without: npt.NDArray[np.intp] | None = None,
    ) -> None:  # fmt: skip
        """Add rows; ``weights`` (m,): integers of at most 2^20, else each counts once.

        ``without``: places of rows that are left out; their integers are overwritten by 0.
        """
        if weights is None:
            self._add_whole(cells, x, without)
            return
        self._counts.add(cells, weights, _NUMBER)
        u = x * weights
        for one, row in zip(self._firsts, u, strict=True):
            one.add(cells, row)
        # a product is up to 2^60: in two parts, of which each is up to 2^40
        high = np.floor(u * 2.0**-_NUMBER)
        u -= high * 2.0**_NUMBER
        self._seconds = self._seconds + (_products(x, high) << _NUMBER) + _products(x, u)

    def _add_whole(
        self, cells: npt.NDArray[np.intp], x: Array, without: npt.NDArray[np.intp] | None
    ) -> None:
        """Add rows that count once; one sum by cell tells how many and the first numbers too."""
        both = x[0] + _APART
        if without is not None and len(without):
            x[:, without] = 0.0
            both[without] = 0.0
        for a in range(0, len(cells), _TOGETHER):
            part = slice(a, a + _TOGETHER)
            found = np.bincount(cells[part], both[part], self._counts.cells)
            counts = np.rint(found / _APART)
            self._counts.put(counts)
            self._firsts[0].put(found - counts * _APART)
        for one, row in zip(self._firsts[1:], x[1:], strict=True):
            one.add(cells, row, _NUMBER)
        self._seconds = self._seconds + _products(x, x)

    def done(self) -> MixedSums:
        """Return the sums."""
        firsts = np.empty((len(self._firsts), len(self._counts.integers())), dtype=object)
        for row, one in zip(firsts, self._firsts, strict=True):
            row[:] = one.integers()
        low = np.tril_indices(len(firsts))
        seconds = self._seconds.copy()
        seconds.T[low] = seconds[low]
        return MixedSums(self._counts.integers(), firsts, seconds)


def _products(x: Array, others: Array) -> Integers:
    """Return ``sum other x'`` of rows (d, m) of integers of at most 2^20, exactly, (d, d).

    Its lower triangle: above it are zeros. Of few numbers one product after the other takes half
    the time of one of all.
    """
    d, m = x.shape
    found = np.zeros((-(-m // _ROWS), d, d))
    for a, out in zip(range(0, m, _ROWS), found, strict=True):
        part = x[:, a : a + _ROWS]
        for j, other in enumerate(others):
            out[j, : j + 1] = weighted(part[: j + 1], other[a : a + _ROWS])
    return integers_of(found).sum(axis=0).astype(object)


# -- A ball of whole rows, response and all: the start of a scoring fit


@dataclass(frozen=True)
class BallSums:
    """The sums of a pass of :class:`MixedBall`. **Confidential**.

    Attributes
    ----------
    by_cell : MixedSums
    high, low : (k, k) int64 arrays
        Of the rows that went the dense way.
    rows : int
    """

    by_cell: MixedSums
    high: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    rows: int

    def __add__(self, other: BallSums) -> BallSums:
        return BallSums(
            self.by_cell + other.by_cell, self.high + other.high, self.low + other.low,
            self.rows + other.rows,
        )  # fmt: skip

    def __repr__(self) -> str:
        return "<sums by cell and number, confidential>"


class _Ball:
    """The running sums of rows inside: by numpy what :class:`BallByKernel` is."""

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._adding = MixedAdding(len(lattice.void), lattice.B.shape[1])

    def add(self, block: Array, cells: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Add the rows that are inside; return the places of those that are not."""
        found = self._lattice.read(block, cells)
        others = np.flatnonzero(~found.inside)
        self._adding.add(cells, found.x, without=others)
        return others[~self._lattice.void[cells[others]]]

    def sums(self) -> tuple[Integers, Integers, Integers]:
        """Return (counts, sums of integers, of their products)."""
        done = self._adding.done()
        return done.counts, done.firsts, done.seconds


@dataclass(frozen=True, eq=False)
class MixedBall:
    """All coordinates in a ball, several of which see numbers: a row is ``T_c + B x``.

    In steps of ``radius 2^-40``; the Gram matrix is rounded down, once, to those of
    ``(radius 2^-20)^2``.

    Attributes
    ----------
    grid : Grid
    rowmap : RowMap
    lattice : Lattice
    fingerprint : str
    """

    grid: Grid
    rowmap: RowMap
    lattice: Lattice
    fingerprint: str = ""

    def over(self, blocks: Blocks, _: Any = None) -> BallSums:
        """Return the sums. Confidential."""
        k = len(self.rowmap.box)
        d = len(self.grid.numbers)
        compiled = fits(d, self.grid.cells)
        adding: Any = BallByKernel(*self.lattice.packed) if compiled else _Ball(self.lattice)
        dense, rows = Words(k), 0
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                rows += len(cells)
                others = adding.add(block, cells)
                for a in range(0, len(others), _ROWS):
                    some = others[a : a + _ROWS]
                    part = filled_rows(self.grid, block[:, some], cells[some])
                    dense.add(cross_product(self.rowmap.integers(part)))
        return BallSums(MixedSums(*adding.sums()), *dense.words(), rows)

    def gram(self, sums: BallSums) -> Gram:
        """Return the Gram matrix of sums of all rows. Confidential."""
        G = self.lattice.gram(sums.by_cell, 2 * _PART) + joined(sums.high, sums.low)
        return worded(G, sums.rows, self.fingerprint)


def ball_of_cells(design: Design, rowmap: Any, rows: int) -> MixedBall | None:
    """Return the pass by cells and numbers of a design under a ball; None: rows are filled.

    Public: a function of design, row map and a public number of rows.
    """
    if type(rowmap) is not RowMap or rowmap.ball != len(rowmap.box) or rowmap.project:
        return None
    grid = mixed_grid(design, rows)
    if grid is None:
        return None
    middle, half = ranges_of(grid) or (np.zeros(0), np.zeros(0))
    image, columns = at_the_middle(grid, rowmap.image, middle, half, range(len(grid.numbers)))
    # the map is linear and its coordinates of about unit variance over the box
    if float(np.sqrt(squares(columns)).max()) * rowmap.radius > STEEPEST:
        return None
    lattice = Lattice.of(image, columns, (middle, half), grid.void)
    return None if lattice is None else MixedBall(grid, rowmap, lattice)


def at_the_middle(
    grid: Grid, image: Any, middle: Array, half: Array, which: Sequence[int]
) -> tuple[Array, Array]:
    """Return an affine map of the cells, numbers in the middle, and of half a range of each.

    Parameters
    ----------
    image : function
        Of rows (q, m) in lattice steps; may overwrite them.
    which : sequence of int
        The numbers whose columns are wanted.

    Returns
    -------
    (r, K) and (r, d) arrays
        Over the radius.
    """
    table = grid.table.copy()
    places = list(grid.numbers)
    table[places] = middle
    ends = np.zeros((len(table), 2 * len(which)))  # both ends of each number, in a row of nothing
    for i, j in enumerate(which):
        ends[places[j], 2 * i], ends[places[j], 2 * i + 1] = half[j, 0], -half[j, 0]
    found = image(np.hstack([table, ends])) / STEPS
    K = grid.cells
    return found[:, :K], (found[:, K::2] - found[:, K + 1 :: 2]) / 2.0
