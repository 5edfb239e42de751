"""Row maps: public, row-by-row maps from a design row to bounded integers.

A map is affine, then (optionally) scales the row into a ball, then clips single coordinates, then
rounds towards zero to a lattice of 2^20 steps per bound. Everything in a map is public or was
released before; so one person's row changes one row of integers, and the bound on that row holds
exactly, in integers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import SHRINK, STEPS, TOP, Mask, end_of_rows, inside
from dpmodels.exact.products import looked_up, mapped

if TYPE_CHECKING:
    from dpmodels.formula.design import Design, TermInfo
    from dpmodels.formula.grid import Grid

__all__ = [
    "STEPS",
    "OfCells",
    "OneFirst",
    "RowMap",
    "UnitScale",
    "WithOne",
    "identity_scale",
    "images_of",
    "unit_rows",
    "unit_scale",
]


@dataclass(frozen=True)
class UnitScale:
    """The affine map ``w = scale * z + shift`` that takes declared intervals to [-1, 1].

    With an intercept, columns are centred: ``u = (2 v - lo - hi) / (hi - lo)``; without one, only
    scaled: ``u = v / max(|lo|, |hi|)``. Dummies and the intercept stay as they are.

    Attributes
    ----------
    scale, shift : (q,) arrays
        Response last.
    intercept : bool
    one : (p,) array or None
        Columns of a design without a constant of its own that add up to it, in the design's units
        (to the root of the weight, where rows are multiplied by it). Only the response is shifted
        then: what it is shifted by is a part of the fit that the design has.
    """

    scale: Array
    shift: Array
    intercept: bool
    one: Array | None = None

    def back(self) -> tuple[Array, Array]:
        """Return (A, a) with ``beta = A theta + a``: coefficients in the design's own units.

        From ``s_y y + h_y = sum_j theta_j (s_j x_j + h_j)``; the shifts go to the intercept.
        """
        sy, hy = self.scale[-1], self.shift[-1]
        s, h = self.scale[:-1], self.shift[:-1]
        A = np.diag(s / sy)
        a = np.zeros(len(s))
        if self.intercept:
            A[0] = np.where(np.arange(len(s)) == 0, 1.0, h) / sy
            a[0] = -hy / sy
        elif self.one is not None:
            a = -hy / sy * self.one
        return A, a

    def taken(self, matrix: Array, shift: Array) -> Array | None:
        """Return a shift (k,) that is left of one after the map's columns have taken it in.

        None: nothing is left, as a row's columns say how much of the constant it has.
        """
        if self.intercept:  # the intercept cell of a row is exactly 1
            matrix[:, 0] += shift
            return None
        if self.one is not None:
            matrix[:, : len(self.one)] += np.outer(shift, self.one)
            return None
        return shift if shift.any() else None


def unit_scale(design: Design) -> UnitScale:
    """Return the map of a design with known intervals to unit half-ranges."""
    intervals = design.intervals()
    lo, hi = intervals[:, 0], intervals[:, 1]
    kinds = [c.kind for c in design.columns] + ["response"]
    # A weighted row is sqrt(w) (1, x, y): its intercept cell is not constant, so that centring by
    # a constant would not be affine in x. Such rows are only scaled.
    centred = design.has_intercept and not design.scaled
    scale, shift = np.ones(len(kinds)), np.zeros(len(kinds))
    for j, kind in enumerate(kinds):
        if kind in ("intercept", "dummy") and not design.scaled:
            continue
        if centred and hi[j] > lo[j]:
            scale[j] = 2.0 / (hi[j] - lo[j])
            shift[j] = -(lo[j] + hi[j]) / (hi[j] - lo[j])
        else:
            top = max(abs(lo[j]), abs(hi[j]))
            scale[j] = 1.0 / top if top > 0 else 1.0
    return UnitScale(scale, shift, centred)


@dataclass(frozen=True)
class RowMap:
    """``w = matrix @ (scale * z + shift)``; then the ball; then the box; then the lattice.

    Attributes
    ----------
    unit : UnitScale
        First affine map, diagonal.
    matrix : (k, q) array or None
        Second, dense map (whitening); None: identity.
    ball : int
        The first ``ball`` coordinates are scaled into the ball of ``radius``; the factor
        multiplies the *whole* row (weighted least squares), or, with ``project=True``, those
        coordinates only. 0: no ball.
    radius : float
    box : (k,) array
        Bounds of the single coordinates (of those in the ball: the radius).
    project : bool
    """

    unit: UnitScale
    box: Array
    ball: int = 0
    radius: float = 0.0
    matrix: Array | None = None
    project: bool = False

    @property
    def units(self) -> Array:
        """Size of one lattice step of each coordinate, shape (k,)."""
        return self.box / STEPS

    def _affine(self, block: Array, steps: float) -> Array:
        """Return ``steps * w / box`` before any bound; overwrites ``block`` without a matrix."""
        M, shift = self._map
        if self.matrix is None:
            block *= M * steps
            w = block
        else:
            w = mapped(M * steps, block)
        if shift is not None:
            w += shift * steps
        return w

    @functools.cached_property
    def _map(self) -> tuple[Array, Array | None]:
        """The affine map to ``w / box``: (k, q) matrix, or (q, 1) diagonal; and (k, 1) shift."""
        if self.matrix is None:
            M = (self.unit.scale / self.box)[:, None]
            shift = self.unit.shift / self.box
        else:
            M = self.matrix * self.unit.scale / self.box[:, None]
            left = self.unit.taken(M, self.matrix @ self.unit.shift / self.box)
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
        """Return w (k, m) in its own units; zero rows for missing ones."""
        with np.errstate(all="ignore"):
            return self.normalised(block) * self.box[:, None]

    def ended(self, block: Array) -> tuple[Array, Mask | None]:
        """Return the lattice coordinates of a block, and which rows are there (None: all).

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
        return self.ended(block)[0]


@dataclass(frozen=True, eq=False)
class OfCells:
    """A row map into a ball that sees rows as a cell of a grid and a few numbers."""

    rowmap: RowMap
    grid: Grid

    @property
    def box(self) -> Array:
        """Bounds of the coordinates."""
        return self.rowmap.box

    @functools.cached_property
    def _images(self) -> tuple[Array, Array]:
        """Images of the cells, and what each number adds, in lattice steps."""
        matrix, shift = self.rowmap._map
        return images_of(matrix * TOP, None if shift is None else shift * TOP, self.grid)

    def integers(self, block: tuple[Array, npt.NDArray[np.intp]]) -> Array:
        """Return lattice coordinates of rows."""
        rows = looked_up(*self._images, *block)
        return end_of_rows(rows, self.rowmap.ball, self.rowmap.project)[0]


def images_of(matrix: Array, shift: Array | None, grid: Grid) -> tuple[Array, Array]:
    """Return the images of cells under a map, NaN in void ones, and the slopes of numbers."""
    images = mapped(matrix, grid.table)
    if shift is not None:
        images += shift
    images[:, grid.void] = np.nan
    return images, matrix[:, list(grid.numbers)]


@dataclass(frozen=True)
class OneFirst:
    """A row map that sees the constant 1 in front of every row: ``(1, z)``.

    For designs without an intercept column whose moments of (1, z) are wanted. A missing cell
    voids the constant as well.
    """

    rowmap: RowMap

    @property
    def box(self) -> Array:
        """Bounds of the coordinates."""
        return self.rowmap.box

    @property
    def radius(self) -> float:
        """Radius of the ball."""
        return self.rowmap.radius

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates of ``(1, row)``."""
        return self.rowmap.integers(np.vstack([np.ones((1, block.shape[1])), block]))

    def image(self, block: Array) -> Array:
        """Return ``2^20 w / box`` of ``(1, row)`` before any bound."""
        return self.rowmap.image(np.vstack([np.ones((1, block.shape[1])), block]))


@dataclass(frozen=True)
class WithOne:
    """A row map with a constant appended: (w, 1), a zero row where w is void."""

    rowmap: RowMap

    @property
    def box(self) -> Array:
        """Bounds of the coordinates."""
        return np.append(self.rowmap.box, 1.0)

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates (k + 1, m)."""
        w, there = self.rowmap.ended(block)
        one = np.full(w.shape[1], STEPS) if there is None else np.where(there, STEPS, 0.0)
        return np.vstack([w, one[None]])


# -- From declared ranges to unit rows: the public affine map, and the norm of its slopes


#: Pays for the rounding of norms that the coding of a term guarantees in real arithmetic.
_SLACK = 1.0 + 1e-9


def identity_scale(q: int) -> UnitScale:
    """Return the map that leaves q columns as they are."""
    return UnitScale(np.ones(q), np.zeros(q), False)


def unit_rows(design: Design, centred: bool | None = None) -> tuple[UnitScale, float]:
    """Return (map to unit rows, bound on the squared norm of a row's slopes).

    With an intercept (and no weights) numeric columns are centred at the middle of their range and
    scaled to half of it; the L dummies of a factor are centred at 1/(L + 1), which brings
    their squared norm from 1 to ``1 - 1/k - 1/k^2``, k = L + 1. Columns of one term whose joint
    norm is known from its coding (a factor in an interaction, a spline basis) are only scaled.
    Without an intercept, or with weights, nothing is centred (``centred=True``: rows that get a
    constant of their own). The intercept's own cell is not
    counted.

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
    """Squared norm of a term's cells over their largest bound, from its coding; inf if unknown."""
    largest = float(top[columns].max())
    if term.norm is None or not largest > 0:
        return float("inf")
    return (term.norm / largest) ** 2
