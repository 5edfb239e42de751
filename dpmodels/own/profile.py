"""Privacy profiles of posterior sampling and score perturbation, and noise calibrated to them.

theta ~ N(theta*, (gamma A)^{-1}), A = X'X + lam I. Adding or removing a row (x, y0) changes the
density by a function of u = sqrt(gamma) (y0 - x'theta) alone, a univariate normal: the profile is
closed in two scalars, the leverage and the scaled residual (``posterior.md``, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.composition import gdp_curve, interval_mass
from dpmodels.privacy.mechanisms import eps_gdp, upper_quantile


def _log_outside(root: Array, m: float, v: float) -> Array:
    """Return log P(|u| > root), u ~ N(m, v)."""
    from scipy.special import log_ndtr

    sd = math.sqrt(v)
    return np.asarray(np.logaddexp(log_ndtr((m - root) / sd), log_ndtr((-m - root) / sd)))


def _inside(root: Array, m: float, v: float) -> Array:
    """Return P(|u| < root), u ~ N(m, v)."""
    sd = math.sqrt(v)
    return interval_mass((-root - m) / sd, (root - m) / sd)


def d_add(eps: npt.ArrayLike, h: float, s: float) -> Array:
    """Return delta(eps) of (Z, Z plus a row): out-of-sample leverage h, scaled residual s.

    ``h = x'A^{-1}x`` and ``s = sqrt(gamma) (y0 - x'theta*)``, both at Z; eps any real numbers.
    """
    e = np.asarray(eps, dtype=float)
    if h <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    t = 2 * e + math.log1p(h) + s * s / (1 + h)
    root = np.sqrt(np.maximum(t, 0.0))
    p = _log_outside(root, s, h)
    q = e + _log_outside(root, s / (1 + h), h / (1 + h))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(t <= 0, -np.expm1(np.minimum(e, 700.0)), np.exp(p) - np.exp(q)))


def d_rem(eps: npt.ArrayLike, g: float, s: float) -> Array:
    """Return delta(eps) of (Z, Z minus a row): in-sample leverage g < 1, scaled residual s."""
    e = np.asarray(eps, dtype=float)
    if g <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    t = -2 * e - math.log1p(-g) + s * s / (1 - g)
    root = np.sqrt(np.maximum(t, 0.0))
    p = _inside(root, s, g)
    q = np.exp(np.minimum(e, 700.0)) * _inside(root, s / (1 - g), g / (1 - g))
    return np.asarray(np.where(t <= 0, 0.0, p - q))


@lru_cache(maxsize=256)
def eps_grid(rho: float, delta_t: float, points: int = 4000) -> Array:
    """Return the eps on which a calibration is checked (``posterior.md``, 2.3)."""
    top = 1.0 + eps_gdp(rho, delta_t / 1000.0)
    grid = np.linspace(0.0, top, points)
    return np.concatenate([grid, np.geomspace(1e-6, 1e-2, 40), [2 * top, 4 * top]])


def _within(
    curves: Callable[[Array, float], Iterator[Array]], hbar: float, rho: float, delta_t: float,
    points: int, top: float,
) -> float:  # fmt: skip
    """Return the largest bound whose curves stay below dG(eps; rho) + delta_t, all real eps.

    (C1) and (C2), of a row more and a row less, at eps >= 0; and (C3), which is (C2) at negative
    eps by symmetry. 0.99 delta_t on the grid allows for values between its points, of which fewer
    are for choosing a ridge only, never for a release. 0 if hbar, a bound of in- and out-of-sample
    leverages below 1/2, is too large.
    """
    if not 0 < hbar < 0.5:
        return 0.0
    eps = eps_grid(rho, delta_t, points)
    base = gdp_curve(eps, rho)
    room = base + 0.99 * delta_t
    low = base + 0.99 * delta_t * np.exp(np.minimum(eps, 700.0))

    def fits(bound: float) -> bool:
        for part in (slice(None, None, 16), slice(None)):  # most that fail do so on a few points
            pairs = zip(curves(eps[part], bound), (room, room, low), strict=True)
            if not all(bool(np.all(curve <= most[part])) for curve, most in pairs):
                return False
        return True

    return largest(fits, top, 30 if points >= 4000 else 16)


@lru_cache(maxsize=2048)
def largest_s(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest scaled residual bound: see :func:`_within`."""

    def curves(eps: Array, s: float) -> Iterator[Array]:
        yield d_rem(eps, hbar, s)
        yield d_add(eps, hbar, s)
        yield d_add(eps, hbar / (1 - hbar), s / (1 - hbar))

    return _within(curves, hbar, rho, delta_t, points, 1.2 * rho / math.sqrt(max(hbar, 1e-300)))


def largest(fits: Callable[[float], bool], top: float, steps: int = 45) -> float:
    """Return the largest value in [0, top] that fits, by bisection; all smaller ones must fit."""
    if not fits(0.0):
        return 0.0
    lo, hi = 0.0, top
    for _ in range(steps):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if fits(mid) else (lo, mid)
    return lo


def add_remove_curve(eps: float, *, h: float, s: float) -> float:
    """Return delta(eps), eps >= 0, at public bounds h < 1/2 of the leverage and s."""
    return float(max(d_add(eps, h, s), d_rem(eps, h, s)))


def replace_curve(eps: float, *, h: float, s: float) -> float:
    """Return the replace-one form: (1 + e^(eps/2)) times the above at eps/2."""
    return min(1.0, (1.0 + math.exp(min(600.0, eps / 2))) * add_remove_curve(eps / 2, h=h, s=s))


# -- Score perturbation for ridge regression: theta = A^{-1}(X'y + sigma b), b ~ N(0, I)


def loss_bound(eps: Array, c: float, m: float, h: float, delta_t: float) -> Array:
    """Return the bound of delta(eps): m = B rbar / sigma, leverage h, determinant term c.

    On |x'A^{-1}b| <= (B/lam*) z, of probability 1 - delta_t/2, the loss is convex in the noisy
    residual, so at most the larger of two Gaussian losses (mu = m + eta and eta), plus c.
    """
    from scipy.special import ndtr

    eta = h * upper_quantile(delta_t / 4.0)
    x, mu = eps - c, m + eta
    # E(1 - e^(x - max(0, l)))_+ for a Gaussian loss l: dG for x >= 0
    low = 1.0 - 2.0 * np.exp(np.minimum(x, 0.0)) * float(ndtr(-mu / 2))
    first = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), mu), low)
    second = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), eta), 1.0 - 2.0 * float(ndtr(-eta / 2)))
    return np.asarray(first + second + delta_t / 2.0)


@lru_cache(maxsize=2048)
def largest_m(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest m = B rbar / sigma: see :func:`_within`."""

    def curves(eps: Array, m: float) -> Iterator[Array]:
        h2 = hbar / (1 - hbar)
        yield loss_bound(eps, -math.log1p(-hbar), m, hbar, delta_t)
        yield loss_bound(eps, 0.0, m, hbar, delta_t)
        yield loss_bound(eps, math.log1p(h2), m / (1 - hbar), h2, delta_t)

    return _within(curves, hbar, rho, delta_t, points, rho)
