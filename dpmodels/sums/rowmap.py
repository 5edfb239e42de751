"""Row maps: public maps from a row, or from a person's rows, to bounded integers.

A map is affine, then (optionally) scales the row into a ball, then clips single coordinates, then
rounds towards zero to a lattice of 2^20 steps per bound. Everything in a map is public or was
released before; so one person's row changes one row of integers, and the bound on that row holds
exactly, in integers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.places import WINDOW
from dpmodels.proof.sets import STEPS, Ball
from dpmodels.sums.products import (
    SHRINK,
    TOP,
    ExactSum,
    Gram,
    Mask,
    ball_integers,
    cross_product,
    end_of_rows,
    inside,
    looked_up,
    mapped,
    squares,
    towards_zero,
)
from dpmodels.sums.scaling import UnitScale as UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design, TermInfo
    from dpmodels.formula.program import Grid
    from dpmodels.sources.rows import BlockOfPeople


@dataclass(frozen=True)
class RowMap:
    """``w = matrix @ (scale * z + shift)``; then the ball; then the box; then the lattice."""

    unit: UnitScale  # First affine map, diagonal
    box: Array  # (k,): bounds of the single coordinates (of those in the ball: the radius)
    # The first ``ball`` coordinates are scaled into the ball of ``radius``; the factor multiplies
    # the *whole* row (weighted least squares), or, with ``project=True``, those coordinates only.
    # 0: no ball.
    ball: int = 0
    radius: float = 0.0
    matrix: Array | None = None  # (k, q): second, dense map (whitening); None: identity
    project: bool = False

    @property
    def units(self) -> Array:
        """Size of one lattice step of each coordinate, shape (k,)."""
        return self.box / STEPS

    def _affine(self, block: Array, steps: float) -> Array:
        """Return ``steps * w / box`` before any bound; overwrites ``block`` without a matrix."""
        M, shift = self.affine
        if self.matrix is None:
            block *= M * steps
            w = block
        else:
            w = mapped(M * steps, block)
        if shift is not None:
            w += shift * steps
        return w

    @functools.cached_property
    def affine(self) -> tuple[Array, Array | None]:
        """The affine map to ``w / box``: (k, q) matrix, or (q, 1) diagonal; and (k, 1) shift."""
        if self.matrix is None:
            M = (self.unit.scale / self.box)[:, None]
            shift = self.unit.shift / self.box
        else:
            M = self.matrix * self.unit.scale / self.box[:, None]
            left = self.unit.absorb_shift(M, self.matrix @ self.unit.shift / self.box)
            return M, None if left is None else left[:, None]
        return M, shift[:, None] if shift.any() else None

    def image(self, block: Array) -> Array:
        """Return ``2^20 w / box`` (k, m) before any bound; NaN in a row with a missing cell."""
        return self._affine(block, STEPS)

    def normalised(self, block: Array) -> Array:
        """Return ``w / box`` (k, m), bounded; a row that is not finite is the zero row.

        Every ball row has norm at most 1 and every other coordinate is at most 1 in absolute
        value, float rounding included.
        """
        w = self._affine(block, SHRINK if self.ball else 1.0)
        inside(w, 1.0, self.ball, self.project)
        return w

    def real(self, block: Array) -> Array:
        """Return w (k, m) in its units; zero rows for missing ones."""
        with np.errstate(all="ignore"):
            return self.normalised(block) * self.box[:, None]

    def clip_and_round(self, block: Array) -> tuple[Array, Mask | None]:
        """Return the lattice coordinates of a block, and the mask of complete rows or None.

        Coordinates (k, m) are float64 holding exact integers, rounded towards zero, so no bound
        can be exceeded by it; a row that is not there is the zero row.
        """
        w = self._affine(block, TOP if self.ball else STEPS)
        return end_of_rows(w, self.ball, self.project)

    @property
    def whitens(self) -> bool:
        """Whether it is a dense map of all coordinates into the ball."""
        return self.matrix is not None and self.ball == len(self.box)

    def integers(self, block: Array) -> Array:
        """Return the lattice coordinates of a block, (k, m), alone."""
        return self.clip_and_round(block)[0]


@dataclass(frozen=True, eq=False)
class OfCells:
    """A row map into a ball that reads rows as a cell of a grid and a few numbers."""

    rowmap: RowMap
    grid: Grid

    box = property(attrgetter("rowmap.box"))  # Bounds of the coordinates

    @functools.cached_property
    def _images(self) -> tuple[Array, Array]:
        """Images of the cells, and the increment of each number, in lattice steps."""
        matrix, shift = self.rowmap.affine
        return images_of(matrix * TOP, None if shift is None else shift * TOP, self.grid)

    def integers(self, block: tuple[Array, npt.NDArray[np.intp]]) -> Array:
        """Return lattice coordinates of rows."""
        rows = looked_up(*self._images, *block)
        return end_of_rows(rows, self.rowmap.ball, self.rowmap.project)[0]


def images_of(matrix: Array, shift: Array | None, grid: Grid) -> tuple[Array, Array]:
    """Return the images of cells under a map, NaN in missing ones, and the slopes of numbers."""
    images = mapped(matrix, grid.table)
    if shift is not None:
        images += shift
    images[:, grid.missing] = np.nan
    return images, matrix[:, list(grid.numbers)]


@dataclass(frozen=True)
class OneFirst:
    """A row map that sees the constant 1 in front of every row: ``(1, z)``.

    For designs without an intercept column whose moments of (1, z) are wanted. A missing cell
    makes the constant missing as well.
    """

    rowmap: RowMap

    box = property(attrgetter("rowmap.box"))  # Bounds of the coordinates

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates of ``(1, row)``."""
        return self.rowmap.integers(np.vstack([np.ones((1, block.shape[1])), block]))

    def image(self, block: Array) -> Array:
        """Return ``2^20 w / box`` of ``(1, row)`` before any bound."""
        return self.rowmap.image(np.vstack([np.ones((1, block.shape[1])), block]))


@dataclass(frozen=True)
class WithOne:
    """A row map with a constant appended: (w, 1), a zero row where w is missing."""

    rowmap: RowMap

    @property
    def box(self) -> Array:
        """Bounds of the coordinates."""
        return np.append(self.rowmap.box, 1.0)

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates (k + 1, m)."""
        w, complete = self.rowmap.clip_and_round(block)
        constant = (
            np.full(w.shape[1], STEPS) if complete is None else np.where(complete, STEPS, 0.0)
        )
        return np.vstack([w, constant[None]])


# -- Scores of weighted least squares at released coefficients.


#: A row this near to the ball, in squared norm, was scaled onto it.
_ON_BALL = 1.0 - 2.0**-30


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """Map from a row to its score: ``matrix x (r - x'd)`` in a ball, as integers.

    x and r are predictors and response of the row after the row map of the last stage.
    """

    rows: RowMap  # Row map of the last stage, with its weight of long rows
    d: Array  # (p,): released coefficients of that stage
    matrix: Array  # (p, p): released whitening of the scores
    radius: float  # Radius of the ball of scores
    # Whether rows that the stage scaled onto its ball are summed apart from the others: their score
    # is in the coordinates p to 2p, and the others' in 0 to p, with zeros in the other half.
    apart: bool = False

    @property
    def box(self) -> Array:
        """Bounds of the p coordinates (2 p if ``apart``)."""
        return np.full((1 + self.apart) * len(self.d), self.radius)

    @property
    def clip_set(self) -> Ball:
        """The ball of a row's coordinates."""
        return Ball(len(self.box))

    def integers(self, block: Array) -> Array:
        """Return the scores of m rows as integers of norm at most 2^20, (p, m) or (2 p, m).

        A row with a missing cell is zero.
        """
        mapped_rows = self.rows.real(block)  # (p + 1, m): predictors, then the response
        x = mapped_rows[:-1]
        real_scores = mapped(self.matrix, x)
        real_scores *= mapped_rows[-1] - mapped(self.d[None], x)[0]
        scores = ball_integers(real_scores, self.radius)
        if not self.apart:
            return scores
        on_ball = squares(mapped_rows) > self.rows.radius**2 * _ON_BALL
        return np.vstack([np.where(on_ball, 0.0, scores), np.where(on_ball, scores, 0.0)])


# -- From declared ranges to unit rows: the public affine map, and the norm of its slopes


#: Pays for the rounding of norms that the coding of a term guarantees in real arithmetic.
_SLACK = 1.0 + 1e-9


def unit_rows(design: Design, centred: bool | None = None) -> tuple[UnitScale, float]:
    """Return (map to unit rows, bound on the squared norm of a row's slopes).

    With an intercept (and no weights) numeric columns are centred at the middle of their range and
    scaled to half of it; the L dummies of a factor are centred at 1/(L + 1), which brings
    their squared norm from 1 to ``1 - 1/k - 1/k^2``, k = L + 1. Columns of one term whose joint
    norm is known from its coding (a factor in an interaction, a spline basis) are only scaled.
    Without an intercept, or with weights, nothing is centred (``centred=True``: rows that get a
    separate constant). The intercept's own cell is not counted.

    Notes
    -----
    **Privacy.** A function of formula and schema. The norm holds for every possible row: it
    follows from the clipping of each cell and from the coding of the terms.
    """
    intervals = design.intervals()
    lo, hi = intervals[:, 0], intervals[:, 1]
    top = np.maximum(np.abs(lo), np.abs(hi))
    q, p = design.q, design.p
    if centred is None:
        centred = design.has_intercept and not design.scaled
    scale = np.where(top > 0, 1.0 / np.where(top > 0, top, 1.0), 1.0)
    shift = np.zeros(q)

    def centre(j: int) -> None:
        if centred and hi[j] > lo[j]:
            scale[j] = 2.0 / (hi[j] - lo[j])
            shift[j] = -(lo[j] + hi[j]) / (hi[j] - lo[j])

    square = 0.0
    for term in design.terms:
        columns = list(range(p))[term.columns]
        kinds = {design.columns[j].kind for j in columns}
        if kinds == {"intercept"}:
            continue
        if centred and kinds == {"dummy"} and term.norm == 1.0:
            levels = len(columns) + 1.0
            shift[columns] = -1.0 / levels
            square += 1.0 - 1.0 / levels - 1.0 / levels**2
            continue
        joint = _joint_square(term, top, columns)
        if len(columns) > 1 and joint < 0.5 * len(columns):
            scale[columns] = 1.0 / float(top[columns].max())
            square += joint
            continue
        for j in columns:
            centre(j)
        square += float(len(columns))
    if design.response is not None:
        centre(q - 1)
    return UnitScale(scale, shift, centred), max(square, 1e-3) * _SLACK


def _joint_square(term: TermInfo, top: npt.NDArray[np.float64], columns: list[int]) -> float:
    """Return the squared norm of a term's cells over their largest bound, or inf if unknown."""
    largest = float(top[columns].max())
    if term.norm is None or not largest > 0:
        return float("inf")
    return (term.norm / largest) ** 2


# -- Sums by person: rows of whole people into a ball, exact integers throughout.
#
# ``G_p = sum_t z_t z_t'`` of a person's rows, scaled so that its trace is at most R^2. Every step
# is one multiplication, addition, division or root after the other, each rounded separately: the
# sums of a person do not depend on other people in the block (``units.md``, 2).


Index = npt.NDArray[np.intp]
#: A row longer than this many radii is scaled to that length, before people are summed.
ROW_MOST = 16.0
#: Squared lengths are counted in steps of this, rounded up: integers of at most 2^40 a row.
_COARSE = 2.0**8
#: From here on sums of integers round; they are enlarged by more than 2^33 rows could lose.
_LAST_EXACT, _SAFE = 2.0**53, 1.0 + 2.0**-20


def into_balls(z: Array, length: Array, block: BlockOfPeople, *radii: float) -> list[Array]:
    """Return for each radius the rows of people in balls of trace, rounded towards zero.

    z (k, m) are rows, 0 where they are missing, of this ``length`` (m,), of the people of a block;
    ``radii`` are in their units, and the first is the one that cuts single rows. Integers are in
    steps of radius / 2^20, and their squares add up to at most 2^40 over the rows of one person.
    """
    return [towards_zero(z * share) for share in factors(length, block, *radii)]


def factors(length: Array, block: BlockOfPeople, *radii: float) -> list[Array]:
    """Return for each radius the factors of rows (m,) that bring people into balls of trace."""
    most = ROW_MOST * radii[0]
    beyond = np.flatnonzero(length > most)
    cut = np.minimum(length, most) if len(beyond) else length
    part = cut * (STEPS / radii[0])
    part *= part
    part /= _COARSE
    trace = np.add.reduceat(np.ceil(part, out=part), block.starts)
    trace[trace >= _LAST_EXACT] *= _SAFE
    root = np.sqrt(trace * _COARSE) * (radii[0] / STEPS)  # of a person, in units of z
    out = []
    for radius in radii:
        factor = np.full_like(root, TOP / radius)
        np.divide(TOP, root, out=factor, where=root > radius)
        share = np.repeat(factor, block.counts)
        share[beyond] *= most / length[beyond]
        out.append(share)
    return out


def product(z: Array, total: ExactSum) -> None:
    """Add ``z z'`` to exact sums, at most 8192 columns at once."""
    for a in range(0, z.shape[1], WINDOW):
        total.add(cross_product(z[:, a : a + WINDOW]))


@dataclass(frozen=True, eq=False)
class PeopleGramOf:
    """The Gram matrix of people: ``sum_p c_p G_p`` of their rows.

    **Confidential**. One person contributes one positive semidefinite integer matrix of trace at
    most 2^40: rows are mapped by the affine part of ``rowmap``, whose ball is that of a person's
    trace.
    """

    rowmap: Any
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> Gram:
        """Return the Gram matrix of blocks of whole people. Confidential."""
        k = len(self.rowmap.box)
        total = ExactSum(k, k)
        with np.errstate(all="ignore"):
            for block in blocks:
                z = np.ascontiguousarray(self.rowmap.image(block.rows))
                (lattice,) = into_balls(z, missing(z), block, STEPS)
                product(lattice, total)
        return Gram(total.integers())


def missing(z: Array) -> Array:
    """Turn rows that are not finite into zero rows; return the lengths of all."""
    length = np.sqrt(squares(z))
    gone = ~np.isfinite(length)
    if gone.any():
        z[:, gone] = 0.0
        length[gone] = 0.0
    return length


# -- Averages of people over cells: what a person has in each, by number of rows, in integers


Whole = npt.NDArray[np.int64]


def shares(person: Any, place: Any, mass: Any, counts: Any, cells: int) -> tuple[Any, Whole]:
    """Return (cell, share) of every person in each of its cells: not negative, one unit together.

    Entry i is of ``person[i]``, in ``place[i]`` of so many ``cells``; its ``mass`` is not negative,
    and those of one person add up to one unit times its number of rows, ``counts``, at least one.

    What a person has up to a cell is rounded to the nearest, so each share is off by less than a
    step, and those of a person add up to the unit. A function of the person's own entries, in
    any order.
    """
    key = np.asarray(person, dtype=np.int64) * cells + place
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    up_to = np.cumsum(mass[order])[np.r_[first[1:], len(key)] - 1]
    who, where = key[first] // cells, key[first] % cells
    ends = np.flatnonzero(np.r_[who[1:] != who[:-1], True])  # every person has an entry
    before = np.r_[0, up_to[ends[:-1]]]
    up_to -= np.repeat(before, np.diff(np.r_[-1, ends]))
    rows = np.asarray(counts, dtype=np.int64)[who]
    rounded = (2 * up_to + rows) // (2 * rows)
    share = np.diff(rounded, prepend=0)
    share[ends[:-1] + 1] = rounded[ends[:-1] + 1]
    return where, share
