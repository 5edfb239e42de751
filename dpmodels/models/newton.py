"""Public numbers of minima of a sum of losses (:mod:`dpmodels.own.minimum`), and their plans."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpmodels.arrays import Array, brent
from dpmodels.own.tilted import removal_delta
from dpmodels.privacy.mechanisms import mu_gdp

#: Bytes of mapped rows that are kept for the length of a fit.
KEEP = 2**28
#: Passes over rows that are not kept. More are read only where the minimum takes more.
PASSES = 12


def planned_passes(n: int | None, p: int) -> int:
    """Return how often :func:`minimise` reads the source: a function of public numbers alone.

    ``n`` is None where the number of rows is private.
    """
    return 1 if n is not None and 8 * (p + 2) * n <= KEEP else PASSES


def back_map(scale: Array, shift: Array, intercept: bool) -> Array:
    """Return A with beta = A theta: eta = sum theta_j (s_j x_j + h_j)."""
    A = np.diag(scale)
    if intercept:
        A[0] = np.where(np.arange(len(scale)) == 0, 1.0, shift)
    return A


@lru_cache(maxsize=512)
def largest_rho(eps: float, delta: float, kappa: float) -> float:
    """Return the largest rho with add/remove delta(eps) <= delta: noise sigma = B / rho.

    ``kappa = B R / lam``; any positive ridge will do.
    """

    def gap(rho: float) -> float:
        return math.log(max(removal_delta(eps, rho, kappa), 1e-300)) - math.log(delta)

    high = top = mu_gdp(eps, delta)
    if gap(top) <= 0:
        return top
    low = 0.5 * top
    while gap(low) > 0:
        high, low = low, 0.5 * low
        if low < top * 2.0**-24:
            return 0.0
    rho = brent(gap, low, high, xtol=1e-8 * top, rtol=1e-8)
    while gap(rho) > 0:
        rho *= 1.0 - 1e-8
    return rho
