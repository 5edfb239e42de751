"""Exact Gram matrices of dense rows in blocks, and of designs of factors by cell.

A *cell* is one combination of the levels of all factors. A row is its cell c and the values of its
numeric variables. zeta_c is a public integer vector of the cell, and rho the integers of the
numeric part. For two kinds of row maps sums by cell are enough (``proof/theory.md``, 1.7):

* every coordinate is one column and is clipped separately. The integers of a row are
  ``(zeta_c, rho)``, those of :func:`dpmodels.sums.cells.gram`, bit for bit;
* the whole row is scaled into a ball, and only one coordinate depends on numeric variables. The
  integers of a row are ``(k zeta_c, 2^20 rho)``, where the integers k and rho depend on the row.
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
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.program import Grid
from dpmodels.proof.sets import STEPS, diagonal_first, symmetric
from dpmodels.sources.rows import short
from dpmodels.sources.summed import summed
from dpmodels.sums.products import (
    LEAST,
    MOST,
    ExactSum,
    Gram,
    LatticeMap,
    cross_product,
    end_along,
    end_of_numbers,
    integers_of,
    looked_up,
    squares,
    weighted,
)
from dpmodels.sums.rowmap import OfCells, OneFirst, RowMap, WithOne
from dpmodels.sums.scaling import UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


# -- Exact sums by cell, and the matrix products that turn them into the Gram matrix.
#
# Rows that are integer multiples ``k_i`` of one lattice vector per cell, ``zeta_c``, have
#
#     sum_i (k_i zeta_c)(k_i zeta_c)' = sum_c (sum_{i in c} k_i^2) zeta_c zeta_c'
#
# so n rows are summed to one integer for each of K cells, without rounding, for every executor
# (``proof/theory.md``, 1.7).


Integers = npt.NDArray[np.object_]

#: Multiples k of a cell's vector are integers in units of 2^-20 of full length. Entries of a row,
#: k times those of the vector, are then in units of 2^-40.
LOW_NOISE = 20
#: Factor on the multiples: allows for the float rounding of lengths and factors, and for the one
#: rounding of each sum to the steps of its release.
SHORTENED = 1.0 - 2.0**-24
#: A row of full length is this multiple of its cell's vector.
MULTIPLE = STEPS * SHORTENED
#: Bits of the integers that a float64 holds exactly, and of a lattice vector.
_EXACT, _BITS = 53, 20
#: Number of integers of at most 2^40 that float64 adds exactly, and number of such sums that fit
#: into 64 bits.
_ROWS, _MANY = 1 << 13, 512
#: Rows of a product that is computed up to its diagonal.
_STRIPE = 64


class ByCell(ExactSum):
    """Sums of one integer per row, by cell."""

    def add_rows(self, cells: npt.NDArray[np.intp], values: Array | None = None) -> None:
        """Add the rows of a block: 1 each, or ``values`` (m,), floats that hold integers.

        Values are at most ``2^40``. At most ``2^13`` rows are added at a time, so that every sum is
        exact in float64.
        """
        if values is None:
            self.add(np.bincount(cells, minlength=len(self._part)))
            return
        for a in range(0, len(cells), _ROWS):
            part = slice(a, a + _ROWS)
            self.add(np.bincount(cells[part], values[part], minlength=len(self._part)))


def products_of(rho: Array) -> Integers:
    """Return ``rho rho'`` (d, d) of rows (d, m) of integers of at most 2^20, as Python integers."""
    out: Integers = np.zeros((len(rho), len(rho)), dtype=object)
    for a in range(0, rho.shape[1], _ROWS):
        part = rho[:, a : a + _ROWS]
        out = out + integers_of(cross_product(part)).astype(object)
    return out


def directions(u: Array) -> tuple[Array, Array]:
    """Return (zeta, length) of vectors (r, K): lattice vectors of length at most 2^20, towards u.

    ``zeta = trunc(2^20 (1 - 2^-36) u/|u|)``; zero where u has no usable length.
    """
    with np.errstate(all="ignore"):
        square = squares(u)
        good = (square >= LEAST) & (square <= MOST)
        length = np.where(good, np.sqrt(square), 0.0)
        zeta = end_along(u, length, 1.0, good.astype(float))
    checked(zeta)
    return zeta, length


def checked(zeta: Array) -> None:
    """Refuse lattice vectors longer than 2^20, checked in integers: every bound assumes this."""
    integers = zeta.astype(np.int64)
    if (np.abs(integers) > 1 << 20).any() or (np.sum(integers * integers, axis=0) > 1 << 40).any():
        raise PrivacyBugError("a cell's lattice vector is longer than 2^20")


def gram_of(zeta: Array, weights: Integers, drop: int = 0) -> Integers:
    """Return ``sum_c weights_c zeta_c zeta_c'`` over ``2^drop``, rounded down once, (r, r).

    zeta (r, K) are floats that hold integers of at most 2^20, weights (K,) Python integers of any
    size. ``weights_c zeta_c`` is cut into digits, so that the product of a digit and zeta over all
    cells is a sum of integers of at most 2^53: BLAS computes it exactly. Only the upper triangle is
    computed, without the first cells if the vectors of these are zero in all later rows.
    """
    zeta, weights = _occupied(zeta, weights)
    r, K = zeta.shape
    upper, terms, present = diagonal_first(r), [], np.c_[zeta != 0.0, np.ones(r, dtype=bool)]
    places = upper[0] * r + upper[1]
    first = np.minimum.accumulate(present.argmax(axis=1)[::-1])[::-1]
    bits, parts = digits(weights, K, _BITS)
    carry, base, top = np.zeros((r, K)), 2.0**bits, 1.5 * 2.0 ** (_EXACT - 1 + bits)
    for k, digit in enumerate(parts, 1):
        carry += zeta * digit  # below 2^53: exact
        left, out = carry, np.zeros((r, r))
        if k < len(parts):
            above = (carry + top) - top  # the nearest multiples of the base
            left, carry = carry - above, above / base
        for a in range(0, r, _STRIPE):
            cells = slice(first[a], K)
            out[a : a + _STRIPE, a:] = weighted(left[a : a + _STRIPE, cells], zeta[a:, cells].T)
        terms.append(out.take(places).astype(np.int64))
    return symmetric(r, total(terms, bits, drop), upper)


def sum_of(zeta: Array, weights: Integers) -> Integers:
    """Return ``sum_c weights_c zeta_c``, (r,), exactly. Arguments as for :func:`gram_of`."""
    zeta, weights = _occupied(zeta, weights)
    bits, parts = digits(weights, zeta.shape[1])
    sums = [weighted(zeta, digit).astype(np.int64) for digit in parts]
    return total(sums, bits)


def _occupied(zeta: Array, weights: Integers) -> tuple[Array, Integers]:
    """Drop cells without weight: rows may occupy few of many cells."""
    occupied = np.flatnonzero(weights)
    few = len(occupied) < len(weights)
    return (zeta[:, occupied], weights[occupied]) if few else (zeta, weights)


def digits(weights: Integers, cells: int, longer: int = 0) -> tuple[int, list[Array]]:
    """Return (bits, digits as floats) of integers to the base ``2^bits``, lowest first.

    The last digit has the sign. A digit has ``33 - log2(cells)`` bits, so that products of it with
    integers of 20 bits, added over all cells, are exact in float64. ``longer``: bits of digits that
    are added to those of the integers.
    """
    bits = _EXACT - _BITS - max(cells - 1, 1).bit_length()
    remainder: npt.NDArray[Any] = weights
    try:
        remainder = weights.astype(np.int64)
        size = max(int(remainder.max(initial=0)), -int(remainder.min(initial=0))).bit_length()
    except OverflowError:  # beyond 64 bits
        size = max(abs(int(w)).bit_length() for w in weights.flat)
    count = max(1, math.ceil((size + longer) / bits))
    out = []
    for k in range(count):
        digit = remainder if k == count - 1 else remainder & ((1 << bits) - 1)
        out.append(digit.astype(np.float64))
        remainder = remainder >> bits
    return bits, out


def total(terms: Sequence[npt.NDArray[np.int64]], bits: int, drop: int = 0) -> Integers:
    """Return ``sum_k term_k 2^(k bits)`` over ``2^drop``, rounded down. Terms are at most 2^53.

    Python integers, or int64 where none is beyond 2^62.
    """
    low, *high = terms
    while high and drop >= bits:
        low, drop = (low >> bits) + high.pop(0), drop - bits
    shifts = [k * bits - drop for k in range(1, len(high) + 1)]
    most = sum(math.ldexp(np.abs(t).max(initial=0), s) for t, s in zip(high, shifts, strict=True))
    kind: Any = np.int64 if most < 2.0**62 else object
    out = (low >> drop).astype(kind)
    for term, shift in zip(high, shifts, strict=True):
        out = out + (term.astype(kind) << shift)
    return out


def narrow(integers: Integers) -> npt.NDArray[Any]:
    """Return a few Python integers as int64 where none is beyond 2^62, else as they are."""
    small = all(-1 << 62 < v < 1 << 62 for v in integers.flat)
    return integers.astype(np.int64) if small else integers


# -- The exact Gram matrix of designs of factors: by cell, without dense rows.


Blocks = Iterable[tuple[Array, npt.NDArray[np.intp]]]

#: A slope below this part of the largest slope of its variable is the rounding error of an inverse.
_NOTHING = 1e-10


def cell_gram(design: Design, rowmap: LatticeMap) -> Any:
    """Return the object that sums rows by cell, or None if this design and map need dense rows.

    Public: a function of design and row map.
    """
    grid = design.grid
    inner: Any = rowmap.rowmap if isinstance(rowmap, (OneFirst, WithOne)) else rowmap
    if grid is None or type(inner) is not RowMap:
        return None
    if inner.ball:
        if inner.ball != len(inner.box) or isinstance(rowmap, WithOne):
            return None
        ball = BallCells(grid, inner, isinstance(rowmap, OneFirst))
        return ball if ball.fits else None
    if inner.matrix is not None or isinstance(rowmap, OneFirst) or len(inner.box) != design.q:
        return None
    return BoxCells(grid, inner, isinstance(rowmap, WithOne))


@dataclass(frozen=True)
class CellSums:
    """Sums by cell of one reading of the rows. **Confidential**."""

    squares: Integers  # (K,) object array: ``sum k^2``
    firsts: Integers  # (d, K) object array: ``sum k rho``
    seconds: Integers  # (d, d) object array: ``sum rho rho'``

    def __add__(self, other: CellSums) -> CellSums:
        a, b = self, other
        return CellSums(a.squares + b.squares, a.firsts + b.firsts, a.seconds + b.seconds)

    def __repr__(self) -> str:
        return "<sums by cell, confidential>"

    def gram(self, zeta: Array, places: Any, low: int = LOW_NOISE) -> Integers:
        """Return second moments (r, r) of rows ``(k zeta_c, 2^low rho)`` over ``2^(2 low)``.

        Rounded down once; of the type of :func:`total`. zeta is 0 in the d ``places``.
        """
        G = gram_of(zeta, self.squares, 2 * low)
        firsts = [sum_of(zeta, sums_of_number) >> low for sums_of_number in self.firsts]
        seconds = narrow(self.seconds)
        G = G.astype(np.result_type(G, seconds, *firsts), copy=False)
        for j, row in zip(places, firsts, strict=True):
            G[j] = G[:, j] = row
        G[np.ix_(places, places)] = seconds
        return G


class Adding:
    """Running sums of one reading of the rows; d numbers of a row lie apart from its cell."""

    def __init__(self, cells: int, d: int) -> None:
        self.squares = ByCell(cells)
        self.firsts = [ByCell(cells) for _ in range(d)]
        self.seconds: Integers = np.zeros((d, d), dtype=object)

    def add(self, cells: npt.NDArray[np.intp], k: Array, rho: Array) -> None:
        """Add rows ``(k zeta_c, 2^20 rho)``: k (m,) and rho (d, m) of at most 2^20."""
        for exact, row in zip(self.firsts, rho, strict=True):
            exact.add_rows(cells, k * row)
        self.seconds = self.seconds + products_of(rho)
        self.squares.add_rows(cells, k * k)

    def integers(self) -> CellSums:
        """Return the exact sums of the cells."""
        firsts = np.zeros((len(self.firsts), len(self.squares.integers())), dtype=object)
        for row, exact in zip(firsts, self.firsts, strict=True):
            row[:] = exact.integers()
        return CellSums(self.squares.integers(), firsts, self.seconds)


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Sums of rows whose coordinates are clipped separately: a row is ``(zeta_c, rho)``."""

    grid: Grid
    rowmap: RowMap
    one: bool = False  # The constant 1 is appended

    @functools.cached_property
    def zeta(self) -> Array:
        """Lattice vectors of the cells, 0 for numeric variables and where a factor is missing."""
        z = self.rowmap.integers(self.grid.table.copy())
        z[list(self.grid.numbers)] = 0.0
        if self.one:
            z = np.vstack([z, np.full((1, z.shape[1]), STEPS)])
        z[:, self.grid.missing] = 0.0
        return z

    @functools.cached_property
    def part(self) -> RowMap:
        """Row map of the numeric variables alone."""
        rows, inner = list(self.grid.numbers), self.rowmap
        unit = UnitScale(inner.unit.scale[rows], inner.unit.shift[rows], inner.unit.intercept)
        return RowMap(unit, inner.box[rows])

    def over(self, blocks: Blocks, _: Any = None) -> CellSums:
        """Return the sums by cell. Confidential."""
        grid, part, to = self.grid, self.part, Adding(self.grid.cells, len(self.grid.numbers))
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                rho, complete = part.clip_and_round(block)
                gone = grid.missing[cells] if complete is None else grid.missing[cells] | ~complete
                if gone.any():
                    rho, cells = rho[:, ~gone], cells[~gone]
                to.add(cells, np.ones(len(cells)), rho)
        return to.integers()

    def gram(self, sums: CellSums) -> Gram:
        """Return the Gram matrix of sums of all rows. Confidential."""
        return Gram(sums.gram(self.zeta, list(self.grid.numbers), 0).astype(object))


@dataclass(frozen=True, eq=False)
class BallCells:
    """Sums of rows in a ball, one coordinate numeric: a row is ``(k zeta_c, 2^20 rho)``.

    "One coordinate numeric" means that only one coordinate depends on numeric variables. Integers
    are in units of ``radius 2^-40``. The Gram matrix is rounded down once, to units of
    ``(radius 2^-20)^2``.
    """

    grid: Grid
    rowmap: RowMap
    first: bool = False  # The constant 1 is the first entry of every row

    @functools.cached_property
    def _affine(self) -> tuple[Array, Array]:
        """Return (images of cells (k, K), slopes of numeric variables (k, d)), over the radius."""
        table, M = self.grid.table.copy(), self.rowmap.affine[0]
        if self.first:
            table = np.vstack([np.ones((1, table.shape[1])), table])
        slopes = M if self.rowmap.matrix is not None else np.diag(M[:, 0])
        numbers = [j + self.first for j in self.grid.numbers]
        return self.rowmap.image(table) / STEPS, slopes[:, numbers]

    @functools.cached_property
    def places(self) -> list[int]:
        """Indices of the coordinates that depend on numeric variables."""
        slopes = np.abs(self._affine[1])  # each variable is compared separately: it has its unit
        return np.flatnonzero((slopes > _NOTHING * slopes.max(axis=0)).any(axis=1)).tolist()

    @property
    def fits(self) -> bool:
        """Whether rows can be summed by cell."""
        return 0 < len(self.places) <= (len(self.grid.numbers) if self.grid.wide else 1)

    @functools.cached_property
    def tables(self) -> tuple[Array, Array, Array, Array]:
        """Return (zeta (k, K), length (K,), at (d, K), slopes (d, numbers)), NaN if missing."""
        image, slopes = self._affine
        column = image.copy()
        column[self.places] = 0.0
        column[:, self.grid.missing] = 0.0
        zeta, length = directions(column)
        at = np.where(self.grid.missing, np.nan, image[self.places])
        return zeta, length, at, slopes[self.places]

    def adding(self) -> Adding:
        """Return running sums of zero."""
        return Adding(self.grid.cells, len(self.places))

    def add(self, to: Adding, numbers: Array, cells: npt.NDArray[np.intp]) -> None:
        """Add the rows of a block."""
        _, lengths, at, slopes = self.tables
        r = looked_up(at, slopes, numbers, cells)
        if not math.isfinite(float(r.sum())):
            present = np.flatnonzero(np.isfinite(r).all(axis=0))
            r, cells = r[:, present], cells[present]
        k: Array = lengths.take(cells)
        _into_ball(k, r)
        k = end_of_numbers(k, steps=MULTIPLE, low=0.0)
        to.add(cells, k, end_of_numbers(r, steps=MULTIPLE))

    def over(self, blocks: Blocks, _: Any = None) -> CellSums:
        """Return the sums by cell. Confidential."""
        to = self.adding()
        with np.errstate(all="ignore"):
            for block in blocks:
                self.add(to, *block)
        return to.integers()

    def gram(self, sums: CellSums) -> Gram:
        """Return the Gram matrix of sums of all rows. Confidential."""
        return Gram(sums.gram(self.tables[0], self.places).astype(object))


def _into_ball(length: Array, r: Array) -> None:
    """Scale rows (length of the factor part, numeric parts r) into the unit ball, in place.

    Most rows are in it already.
    """
    square = length * length
    square += squares(r)
    beyond = np.flatnonzero(square > 1.0)
    factor = 1.0 / np.sqrt(square[beyond])
    length[beyond] *= factor
    r[:, beyond] *= factor


# -- The exact Gram matrix: integer second moments of mapped rows.
#
# With ``|k| <= 2^20`` every product is an integer of at most 2^40, and a sum over at most 2^13 rows
# an integer of at most 2^53: float64 is exact in any order, so BLAS computes exact integers. Blocks
# are added in two int64 words. The result does not depend on row order, chunking or sharding, and
# its sensitivity holds exactly (see ``proof/theory.md``).


def gram(blocks: Iterable[Array], rowmap: LatticeMap) -> Gram:
    """Return the Gram matrix of the mapped rows of ``blocks``, which are overwritten.

    **Confidential**. One row contributes one integer rank-one matrix whose size is bounded by the
    row map.
    """
    k = len(rowmap.box)
    total = ExactSum(k, k)
    with np.errstate(all="ignore"):
        for block in short(blocks):
            total.add(cross_product(rowmap.integers(block)))
    return Gram(total.integers())


@dataclass(frozen=True, eq=False)
class GramOf:
    """Pass of :func:`gram`, for the executor (:mod:`dpmodels.sources.summed`)."""

    rowmap: LatticeMap

    @property
    def grid(self) -> Any:
        """Grid by whose cells blocks are summed, or None if blocks are filled."""
        return getattr(self.rowmap, "grid", None)

    def over(self, blocks: Iterable[Array], _: Any = None) -> Gram:
        """Return the Gram matrix of blocks. Confidential."""
        return gram(blocks, self.rowmap)


def gram_over(rows: Any, design: Design, rowmap: LatticeMap, **chosen: Any) -> Gram:
    """Return the Gram matrix of one pass over rows, in this thread or by tasks.

    ``chosen``: windows and coins. **Confidential**. The integers are the same for any number of
    threads or tasks. Sums by cell round rows in a ball to another lattice.
    """
    by_cell: Any = cell_gram(design, rowmap) if rows.by_cell else None
    if by_cell is not None:
        of_cells: Gram = by_cell.gram(summed(rows, design, by_cell, **chosen))
        return of_cells
    job = GramOf(rowmap)
    if rows.by_cell and type(rowmap) is RowMap and rowmap.whitens:
        grid = design.grid_of_images
        job = GramOf(rowmap if grid is None else OfCells(rowmap, grid))
    matrix: Gram = summed(rows, design, job, **chosen)
    return matrix
