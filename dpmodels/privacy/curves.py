"""Gaussian curves on arrays: the same functions as ``privacy.gdp``, for grids of eps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

__all__ = ["gdp_curve", "interval_mass"]


def gdp_curve(eps: npt.ArrayLike, mu: float) -> Array:
    """Return dG(eps; mu) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) for every real eps."""
    from scipy.special import log_ndtr

    e = np.asarray(eps, dtype=float)
    if mu <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    a = log_ndtr(mu / 2 - e / mu)
    b = e + log_ndtr(-mu / 2 - e / mu)
    gap = np.minimum(b - a, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(a + np.log(-np.expm1(gap))))


def interval_mass(lo: Array, hi: Array) -> Array:
    """Return Phi(hi) - Phi(lo) without cancellation in the upper tail."""
    from scipy.special import ndtr

    upper = lo > 0
    a = np.where(upper, -hi, lo)
    b = np.where(upper, -lo, hi)
    return np.asarray(np.maximum(0.0, ndtr(b) - ndtr(a)))
