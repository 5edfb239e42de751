"""Private bounds for ridge regression, and the ridge chosen from them.

Everything here is a function of public numbers and of released ones: the arithmetic of the
pipeline, apart from the rows. Proofs: ``posterior.md``, section 2.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.linear.posterior import _largest, eps_grid, largest_s
from dpmodels.privacy.composition import gdp_curve
from dpmodels.privacy.gdp import upper_quantile

__all__ = [
    "choose_ridge",
    "efficiency",
    "eigenvalue_bound",
    "half_leverage",
    "largest_m",
    "log_residual_sensitivity",
    "loss_bound",
    "residual_bound",
    "ridge_floor",
]


# -- Score perturbation for ridge regression: theta = A^{-1}(X'y + sigma b), b ~ N(0, I)


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


def eigenvalue_bound(noisy: float, B2: float, mu1: float, d1: float) -> float:
    """Return lam~ = max(0, noisy - z_{d1} B^2/mu1): above lambda_min with probability <= d1."""
    from dpmodels.privacy.run import tail_margin

    return max(0.0, noisy - tail_margin(B2 / mu1, d1))


def log_residual_sensitivity(B2: float, lam_star: float) -> float:
    """Return tau = -log(1 - B^2/lam*): the most log(Y + B|theta*|) moves, adding or removing.

    Adding alone moves it by log(1 + B^2/lam*); removing can move it by all of tau.
    """
    return -math.log1p(-B2 / lam_star)


def residual_bound(noisy: float, tau: float, mu2: float, d2: float) -> float:
    """Return rbar = exp(noisy + z_{d2} tau/mu2): below Y + B|theta*| with probability <= d2."""
    from dpmodels.privacy.run import tail_margin

    return math.exp(min(700.0, noisy + tail_margin(tau / mu2, d2)))


def efficiency(kind: str, hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return S sqrt(hbar)/rho (posterior) or m/rho (score): 1 means no loss against a Gaussian."""
    if kind == "posterior":
        return largest_s(hbar, rho, delta_t, points) * math.sqrt(hbar) / rho
    return largest_m(hbar, rho, delta_t, points) / rho


@lru_cache(maxsize=256)
def half_leverage(kind: str, rho: float, delta_t: float) -> float:
    """Return the largest leverage bound (at most .49) with efficiency at least one half."""
    lo, hi = -16.0, math.log(0.49)
    if efficiency(kind, math.exp(hi), rho, delta_t, 400) >= 0.5:
        return math.exp(hi)
    for _ in range(18):
        mid = 0.5 * (lo + hi)
        ok = efficiency(kind, math.exp(mid), rho, delta_t, 400) >= 0.5
        lo, hi = (mid, hi) if ok else (lo, mid)
    return math.exp(lo)


def ridge_floor(
    kind: str, B2: float, mu2: float, rho: float, delta_t: float, floor: float
) -> float:
    """Return the least lam* at which the second release and the sampling are of any use."""
    return max(floor * B2 / mu2, B2 / half_leverage(kind, rho, delta_t))


@lru_cache(maxsize=256)
def _efficiency_curve(
    kind: str, rho: float, delta_t: float, lo: float, hi: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    grid = np.linspace(lo, hi, 7)
    values = [efficiency(kind, math.exp(x), rho, delta_t, 200) for x in grid.tolist()]
    return tuple(grid.tolist()), tuple(values)


def choose_ridge(
    kind: str,
    *,
    lam_star0: float,
    lam_min: float,
    rbar: float,
    Y: float,
    B: float,
    d: int,
    rho: float,
    delta_t: float,
) -> float:
    """Return lam* >= lam_star0 that minimises shrinkage plus noise, from released numbers: free.

    (lam* - lam~) tbar^2/4 + noise, tbar = (rbar - Y)/B; noise d/gamma (posterior) or
    d sigma^2/lam* (score). The bounds hold for every larger ridge at once.
    """
    stars = lam_star0 * np.geomspace(1.0, 50.0, 40)
    h = B * B / stars
    ends = _rounded(math.log(h[-1]), -1), _rounded(math.log(h[0]), 1)
    x, y = _efficiency_curve(kind, rho, delta_t, *ends)
    eff = np.maximum(np.interp(np.log(h), x, y), 1e-9)
    tbar = max(rbar - Y, 0.0) / B
    if kind == "posterior":
        gamma = (eff * rho / np.sqrt(h) / rbar) ** 2
        noise = d / gamma
    else:
        noise = d * (B * rbar / (eff * rho)) ** 2 / stars
    cost = (stars - lam_min) * tbar**2 / 4.0 + noise
    return float(stars[int(np.argmin(cost))])


def _rounded(x: float, direction: int) -> float:
    """Round to a quarter, outwards: few distinct efficiency curves, and they are cached."""
    step: Callable[[float], int] = math.ceil if direction > 0 else math.floor
    return min(math.log(0.4999), step(4 * x) / 4)
