"""Row maps: public, row-by-row maps from a design row to bounded integers.

A map is affine, then (optionally) scales the row into a ball, then clips single coordinates, then
rounds towards zero to a lattice of 2^20 steps per bound. Everything in a map is public or was
released before; so one person's row changes one row of integers, and the bound on that row holds
exactly, in integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["STEPS", "RowMap", "UnitScale", "unit_scale"]

#: Lattice steps per bound: |k| <= 2^20, so products are at most 2^40 and 2^13 of them are exact.
STEPS = 2.0**20

Array = npt.NDArray[np.float64]


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
    """

    scale: Array
    shift: Array
    intercept: bool

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
        return A, a


def unit_scale(design: Design) -> UnitScale:
    """Return the map of a design with known intervals to unit half-ranges."""
    intervals = design.intervals()
    lo, hi = intervals[:, 0], intervals[:, 1]
    kinds = [c.kind for c in design.columns] + ["response"]
    centred = design.has_intercept
    scale, shift = np.ones(len(kinds)), np.zeros(len(kinds))
    for j, kind in enumerate(kinds):
        if kind in ("intercept", "dummy"):
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
        Bounds of the single coordinates (inside the ball: the radius).
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

    def real(self, block: Array) -> Array:
        """Return w (k, m): mapped, scaled into the ball, clipped; zero rows for missing ones."""
        with np.errstate(all="ignore"):
            w = block
            w *= self.unit.scale[:, None]
            w += self.unit.shift[:, None]
            if self.matrix is not None:
                w = self.matrix @ w
            if self.ball:
                part = w[: self.ball]
                norm = np.sqrt(np.einsum("ij,ij->j", part, part))
                factor = self.radius / norm
                np.minimum(factor, 1.0, out=factor)
                if self.project:
                    part *= factor
                else:
                    w *= factor
            np.clip(w, -self.box[:, None], self.box[:, None], out=w)
            self._void(w)
        return w

    def integers(self, block: Array) -> Array:
        """Return the lattice coordinates of a block, float64 holding exact integers, (k, m).

        Rounding is towards zero, so no bound can be exceeded by it; a ball row whose integer sum
        of squares still exceeds 2^40 (float rounding of the factor) becomes a zero row.
        """
        w = self.real(block)
        w *= (STEPS / self.box)[:, None]
        np.trunc(w, out=w)
        np.clip(w, -STEPS, STEPS, out=w)
        if self.ball:
            part = w[: self.ball]
            over = np.einsum("ij,ij->j", part, part) > STEPS * STEPS
            if over.any():
                w[:, over] = 0.0
        return w

    @staticmethod
    def _void(w: Array) -> None:
        """Turn every row (a column of ``w``) that is not finite throughout into the zero row."""
        total = float(w.sum())
        # NaN anywhere reaches the sum; clip has removed the infinities.
        if total != total:
            w[:, np.isnan(w).any(axis=0)] = 0.0
