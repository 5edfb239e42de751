"""Affine maps of rows to unit half-ranges: public numbers. A row map applies them, then clips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.formula.design import Design


@dataclass(frozen=True)
class UnitScale:
    """The affine map ``w = scale * z + shift`` that takes declared intervals to [-1, 1].

    With an intercept, columns are centred: ``u = (2 v - lo - hi) / (hi - lo)``; without one, only
    scaled: ``u = v / max(|lo|, |hi|)``. Dummies and the intercept stay as they are.
    """

    # scale, shift: (q,) arrays; response last.
    scale: Array
    shift: Array
    intercept: bool
    # (p,): columns of a design without a constant that sum to it, in the design's units (to the
    # root of the weight, where rows are multiplied by it). Only the response is shifted then: its
    # shift is a part of the fit that the design has.
    one: Array | None = None

    def back(self) -> tuple[Array, Array]:
        """Return (A, a) with ``beta = A theta + a``: coefficients in the user's units.

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

    def absorb_shift(self, matrix: Array, shift: Array) -> Array | None:
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


def identity_scale(q: int) -> UnitScale:
    """Return the map that leaves q columns as they are."""
    return UnitScale(np.ones(q), np.zeros(q), False)


def rescaling(sums: Array, noise_sd: float, intercept: bool, most: Array) -> tuple[Array, Array]:
    """Return (scale, shift) that give the unit columns mean 0 and variance 1, from noisy sums.

    Variances below twice the noise of a mean square are not visible and are floored there; a
    column is never magnified more than ``most`` (d,): rare dummies would get long rows.
    """
    d = (len(sums) - 1) // 2
    m = max(float(sums[0]), 4.0 * noise_sd, 1.0)
    mean = np.clip(sums[1 : 1 + d] / m, -1.0, 1.0)
    if not intercept:
        mean = np.zeros(d)
    floor = np.maximum(2.0 * noise_sd / m, 1.0 / most**2)
    variance = np.clip(sums[1 + d :] / m - mean**2, np.minimum(floor, 1.0), 1.0)
    scale = 1.0 / np.sqrt(variance)
    return scale, -mean * scale
