"""Posterior sampling for ridge regression: the exact privacy profile and its calibration.

theta ~ N(theta*, (gamma A)^{-1}), A = X'X + lam I. Adding or removing a row (x, y0) changes the
density by a function of u = sqrt(gamma) (y0 - x'theta) alone, a univariate normal: the profile is
closed in two scalars, the leverage and the scaled residual (``posterior.md``, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.composition import gdp_curve


def _log_outside(root: Array, m: float, v: float) -> Array:
    """Return log P(|u| > root), u ~ N(m, v)."""
    from scipy.special import log_ndtr

    sd = math.sqrt(v)
    return np.asarray(np.logaddexp(log_ndtr((m - root) / sd), log_ndtr((-m - root) / sd)))


def _inside(root: Array, m: float, v: float) -> Array:
    """Return P(|u| < root), u ~ N(m, v)."""
    from dpmodels.privacy.composition import interval_mass

    sd = math.sqrt(v)
    return interval_mass((-root - m) / sd, (root - m) / sd)


def d_add(eps: npt.ArrayLike, h: float, s: float) -> Array:
    """Return delta(eps) of (Z, Z plus a row): out-of-sample leverage h, scaled residual s.

    Parameters
    ----------
    eps : array
        Any real numbers.
    h, s : float
        x'A^{-1}x and sqrt(gamma) (y0 - x'theta*), both at Z.
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


def rdp_add(a: float, h: float, s2: float) -> float:
    """Return the Renyi divergence of order a of (Z, Z plus a row); infinite if (a-1) h >= 1."""
    k = (a - 1) * h
    if k >= 1:
        return math.inf
    return (
        a * s2 * h / (2 * (1 + h) * (1 - k)) - 0.5 * math.log1p(h) - math.log1p(-k) / (2 * (a - 1))
    )


def rdp_rem(a: float, g: float, s2: float) -> float:
    """Return the Renyi divergence of order a of (Z, Z minus a row)."""
    h = g / (1 - g)
    shift = a * s2 * g / (2 * (1 - g) * (1 + (a - 1) * g))
    return shift + (a * math.log1p(h) - math.log1p(a * h)) / (2 * (a - 1))


@lru_cache(maxsize=256)
def eps_grid(rho: float, delta_t: float, points: int = 4000) -> Array:
    """Return the eps on which a calibration is checked (``posterior.md``, 2.3)."""
    from dpmodels.privacy.gdp import eps_gdp

    top = 1.0 + eps_gdp(rho, delta_t / 1000.0)
    return np.concatenate(
        [
            np.linspace(0.0, top, points),
            np.geomspace(1e-6, 1e-2, 40),
            [2 * top, 4 * top],
        ]
    )


@lru_cache(maxsize=2048)
def largest_s(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest scaled residual bound with curve <= dG(eps; rho) + delta_t, all real eps.

    Parameters
    ----------
    hbar : float
        Bound of in- and out-of-sample leverages, below 1/2.
    rho, delta_t : float
    points : int
        Of the grid. Fewer are for choosing a ridge only, never for a release.

    Returns
    -------
    float
        0 if no residual bound works: hbar is too large.

    Notes
    -----
    (C1) d_add(eps; hbar, s), (C2) d_rem(eps; hbar, s) at most dG + delta_t for eps >= 0, and
    (C3), which is (C2) at negative eps by symmetry. 0.99 delta_t on the grid pays for what lies
    between its points.
    """
    if not 0 < hbar < 0.5:
        return 0.0
    eps = eps_grid(rho, delta_t, points)
    room = gdp_curve(eps, rho) + 0.99 * delta_t
    low = gdp_curve(eps, rho) + 0.99 * delta_t * np.exp(np.minimum(eps, 700.0))
    h2 = hbar / (1 - hbar)

    def fits(s: float) -> bool:
        return bool(
            np.all(d_rem(eps, hbar, s) <= room)
            and np.all(d_add(eps, hbar, s) <= room)
            and np.all(d_add(eps, h2, s / (1 - hbar)) <= low)
        )

    return _largest(fits, 1.2 * rho / math.sqrt(hbar), 45 if points >= 4000 else 16)


@lru_cache(maxsize=512)
def largest_s_pair(hbar: float, eps: float, delta: float) -> float:
    """Return the largest s with max(d_add, d_rem)(eps; hbar, s) <= delta: public bounds."""
    if not 0 < hbar < 0.5:
        return 0.0

    def fits(s: float) -> bool:
        return float(d_add(eps, hbar, s)) <= delta and float(d_rem(eps, hbar, s)) <= delta

    top = 1.0 / math.sqrt(hbar)
    while fits(top):
        top *= 2.0
    return _largest(fits, top)


def _largest(fits: Callable[[float], bool], top: float, steps: int = 45) -> float:
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
