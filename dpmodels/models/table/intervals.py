"""Intervals with the noise in them (``theory.md``, 1.4 to 1.6)."""

from __future__ import annotations

import math

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.table.effects import Spread
from dpmodels.roots import brent

__all__ = ["critical", "fieller", "share_interval"]


def critical(spread: Spread, level: float, extra: float = 0.0) -> float:
    """Return c with ``P(|noise + N(0, extra)| <= c) = level``.

    With a Laplace part of scale b and a normal part of sd s the tail beyond c is
    ``ndtr(-c/s) + [e^{s^2/2b^2 - c/b} ndtr(c/s - s/b) - e^{s^2/2b^2 + c/b} ndtr(-c/s - s/b)] / 2``.
    """
    from scipy.special import ndtri

    b = spread.scale
    rest = max(spread.variance - 2.0 * b * b, 0.0) + extra
    sd = math.sqrt(spread.variance + extra)
    tail = (1.0 - level) / 2.0
    if sd == 0.0:
        return 0.0
    if b * b < 1e-4 * sd * sd:
        return -float(ndtri(tail)) * sd
    s = math.sqrt(rest)
    if s < 1e-6 * b:
        return b * math.log(1.0 / (2.0 * tail))
    return brent(lambda c: _tail(c, b, s) - tail, 0.0, 60.0 * sd, xtol=1e-12 * sd)


def _tail(c: float, b: float, s: float) -> float:
    """P(Laplace(b) + N(0, s^2) > c), c >= 0."""
    from scipy.special import log_ndtr, ndtr

    k = 0.5 * (s / b) ** 2
    up = math.exp(k - c / b + float(log_ndtr(c / s - s / b)))
    down = math.exp(k + c / b + float(log_ndtr(-c / s - s / b)))
    return float(ndtr(-c / s)) + 0.5 * (up - down)


def share_interval(
    share: Array, n: float | Array, tau: float | Array, z: float | Array
) -> tuple[Array, Array]:
    """Return Wilson's interval of a share with noise of sd ``tau`` on it.

    ``[p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2 + tau^2 (1 + z^2/n))] / (1 + z^2/n)``: the p with
    ``(share - p)^2 <= z^2 (p(1-p)/n + tau^2)``. Ends outside [0, 1] are left to the print.
    """
    p = np.asarray(share, dtype=float)
    n, z = np.asarray(n, dtype=float), np.asarray(z, dtype=float)
    lift = z * z / n
    # a noisy share may lie outside [0, 1]: the discriminant is that of the quadratic all the same
    inside = p * (1.0 - p) / n + lift / (4.0 * n) + np.square(tau) * (1.0 + lift)
    half = z * np.sqrt(np.maximum(inside, 0.0))
    # noise may put the whole set outside [0, 1]: then the nearest share is all that is left
    middle = np.where(inside < 0, np.clip(p, 0.0, 1.0) * (1.0 + lift), p + lift / 2.0)
    return (middle - half) / (1.0 + lift), (middle + half) / (1.0 + lift)


def fieller(total: Array, count: Array, variance: Array, z: float) -> tuple[Array, Array]:
    """Return the set of m with ``(T - m N)^2 <= z^2 (a + m^2 b)``, NaN where it is no interval.

    Parameters
    ----------
    total, count : arrays
        Noisy sum and count.
    variance : (2, ...) array
        a (of T - m N at m = 0: sampling and noise) and b (noise of the count).
    """
    a, b = variance
    lead = count**2 - z * z * b
    inner = (total * count) ** 2 - lead * (total**2 - z * z * a)
    with np.errstate(all="ignore"):
        root = np.sqrt(inner)
        low, high = (total * count - root) / lead, (total * count + root) / lead
    open_ = ~(lead > 0)
    return np.where(open_, np.nan, low), np.where(open_, np.nan, high)
