"""Score perturbation for ridge regression: theta = A^{-1}(X'y + sigma b), b ~ N(0, I).

Same tests as posterior sampling, noise on the scale of X'y: its error sigma^2 tr(A^{-1}) is the
smaller one for badly conditioned designs. Proof of the bound: ``posterior.md``, section 2.4.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.linear.posterior import _largest, eps_grid
from dpmodels.privacy.curves import gdp_curve
from dpmodels.privacy.gdp import upper_quantile

__all__ = ["largest_m", "loss_bound"]


def _positive_part(x: Array, mu: float) -> Array:
    """Return E(1 - e^(x - max(0, l)))_+ for a Gaussian loss l: dG for x >= 0."""
    from scipy.special import ndtr

    low = 1.0 - 2.0 * np.exp(np.minimum(x, 0.0)) * float(ndtr(-mu / 2))
    return np.asarray(np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), mu), low))


def loss_bound(eps: Array, c: float, m: float, h: float, delta_t: float) -> Array:
    """Return the bound of delta(eps): m = B rbar / sigma, leverage h, determinant term c.

    On |x'A^{-1}b| <= (B/lam*) z, of probability 1 - delta_t/2, the loss is convex in the noisy
    residual, so at most the larger of two Gaussian losses (mu = m + eta and eta), plus c.
    """
    from scipy.special import ndtr

    eta = h * upper_quantile(delta_t / 4.0)
    x = eps - c
    second = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), eta), 1.0 - 2.0 * float(ndtr(-eta / 2)))
    return np.asarray(_positive_part(x, m + eta) + second + delta_t / 2.0)


@lru_cache(maxsize=2048)
def largest_m(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest m = B rbar / sigma with curve <= dG(eps; rho) + delta_t, all real eps."""
    if not 0 < hbar < 0.5:
        return 0.0
    eps = eps_grid(rho, delta_t, points)
    base = gdp_curve(eps, rho)
    room = base + 0.99 * delta_t
    low = base + 0.99 * delta_t * np.exp(np.minimum(eps, 700.0))
    h2 = hbar / (1 - hbar)

    def fits(m: float) -> bool:
        return bool(
            np.all(loss_bound(eps, -math.log1p(-hbar), m, hbar, delta_t) <= room)
            and np.all(loss_bound(eps, 0.0, m, hbar, delta_t) <= room)
            and np.all(loss_bound(eps, math.log1p(h2), m / (1 - hbar), h2, delta_t) <= low)
        )

    return _largest(fits, rho, 45 if points >= 4000 else 16)
