"""Gaussian curves on arrays: the same functions as ``privacy.gdp``, for grids of eps."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.gdp import CLOSE, delta_gdp, legendre

__all__ = ["deltas_gdp", "gdp_bounds", "gdp_curve", "interval_mass"]

#: Points whose integrals are worked out at once.
_AT_ONCE = 128
#: Up to this mu the difference of two Mills ratios is an integral over a short stretch.
_SHORT = 0.5
#: Of the continued fraction from 4 on: 1e-16.
_TERMS = 40


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


def deltas_gdp(eps: npt.ArrayLike, mu: float) -> Array:
    """Return :func:`dpmodels.privacy.gdp.delta_gdp` at each eps: the same sums, many at a time."""
    e = np.asarray(eps, dtype=float)
    if mu == 0.0 or math.isinf(mu):
        return np.array([delta_gdp(x, mu) for x in e.ravel().tolist()]).reshape(e.shape)
    logs = _log_deltas(np.abs(e).ravel(), mu).reshape(e.shape)
    with np.errstate(over="ignore"):
        # the same pair in the other order; nothing is subtracted
        below = -np.expm1(np.minimum(e, 0.0)) + np.exp(np.minimum(e, 0.0) + logs)
    return np.where(e < 0.0, below, np.exp(logs))


def gdp_bounds(eps: npt.ArrayLike, mu: float) -> Array:
    """Return an upper bound of the curve at each eps, for a look at which of them matter.

    With ``x = eps/mu - mu/2 > 0`` the curve is ``phi(x) (R(x) - R(x + mu))``, R the Mills ratio,
    which is convex: at most ``-mu R'(x) phi(x)``, and ``-R'(x) = 1 - x R(x) <= 1/(1 + x^2)``
    (Gordon 1941). Elsewhere 1. A part in 1e9 is added for the rounding.
    """
    if not 0.0 < mu < math.inf:
        return np.ones(np.shape(eps))
    x = np.maximum(np.asarray(eps, dtype=float) / mu - mu / 2.0, 0.0)
    with np.errstate(under="ignore", over="ignore"):
        tail = np.exp(-0.5 * x * x) * (mu * (1.0 + 1e-9) / math.sqrt(2.0 * math.pi)) / (1.0 + x * x)
    return np.where(x > 0.0, np.minimum(tail, 1.0), 1.0)


def _log_deltas(eps: Array, mu: float) -> Array:
    """Return the logarithms of the curve at eps >= 0, (m,)."""
    from scipy.special import log_ndtr

    a = log_ndtr(-eps / mu + mu / 2)
    b = eps + log_ndtr(-eps / mu - mu / 2)
    with np.errstate(all="ignore"):
        gap = b - a
        out = np.asarray(a + np.log(-np.expm1(gap)), dtype=np.float64)
    close = np.flatnonzero(~(gap < -CLOSE))
    if mu <= _SHORT:
        out[close] = _log_mills(eps[close], mu)
        return out
    for start in range(0, len(close), _AT_ONCE):
        part = close[start : start + _AT_ONCE]
        out[part] = _log_integrals(eps[part], mu)
    return out


def _log_mills(eps: Array, mu: float) -> Array:
    """Return the logarithms of the curve for a small mu: nothing is subtracted.

    It is ``phi(x) (R(x) - R(x + mu))``, ``x = eps/mu - mu/2`` and R the Mills ratio; ``R'(t) =
    t R(t) - 1``, so the difference is the integral of ``1 - t R(t)`` over (x, x + mu), analytic and
    hardly curved there.
    """
    nodes, weights = _few_nodes()
    x = eps / mu - mu / 2.0
    inside = _mills_loss(x[:, None] + mu * nodes) @ weights
    with np.errstate(all="ignore"):
        out = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + math.log(mu) + np.log(inside)
    return np.where(0.5 * x * x < 1e6, out, -np.inf)


def _mills_loss(t: Array) -> Array:
    """Return ``1 - t R(t)``, t > -1: by erfcx up to 4, beyond by the continued fraction of R.

    ``R = 1/(t + s)``, ``s = 1/(t + 2/(t + 3/(t + ...)))``, so ``1 - t R = s/(t + s)``.
    """
    from scipy.special import erfcx

    out = np.empty_like(t)
    far = t > 4.0
    near, beyond = t[~far], t[far]
    out[~far] = 1.0 - near * math.sqrt(math.pi / 2.0) * erfcx(near * math.sqrt(0.5))
    s = np.zeros_like(beyond)
    for j in range(_TERMS, 0, -1):
        np.add(s, beyond, out=s)
        np.divide(float(j), s, out=s)
    out[far] = s / (beyond + s)
    return out


@functools.lru_cache(maxsize=1)
def _few_nodes() -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on (0, 1), for what is hardly curved."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def _log_integrals(eps: Array, mu: float) -> Array:
    """Return the logarithms of the curve where its two terms nearly agree (``gdp``, same panels).

    Every eps has the panels of its own: one that has fewer than others has panels of width 0.
    """
    nodes, weights = legendre()
    k = eps / mu
    top = k - mu / 2.0
    log_phi = -0.5 * top * top - 0.5 * math.log(2.0 * math.pi)
    width = 0.25 / (1.0 + k * k)
    panels = int(np.ceil(np.log2(1.0 + 0.5 / width.min()))) + 1
    edges = np.minimum(0.5, width[:, None] * (2.0 ** np.arange(panels + 1) - 1.0))
    lo, size = edges[:, :-1, None], np.diff(edges)[:, :, None]
    u = lo + size * nodes  # 1 - s, (m, panels, nodes)
    zero = k == 0.0
    with np.errstate(divide="ignore"):
        halves = np.clip(np.ceil(np.log2(40.0 / k)), 1, 60)
    halves[zero] = 1
    j = np.arange(1, int(halves.max()) + 1)
    small = np.where(j <= halves[:, None], 0.5**j, 0.0)[:, :, None]
    half = np.where(zero, 0.0, 0.5)[:, None, None]
    rest = np.where(small > 0.0, small, 1.0) * (half + (1.0 - half) * nodes)
    s = np.concatenate([1.0 - u, rest], axis=1)
    u = np.concatenate([u, 1.0 - rest], axis=1)
    size = np.concatenate([size, small * (1.0 - half)], axis=1)
    # (y - top)(y + top) / 2 with y - top = k u / s + mu u / 2: no difference of near numbers
    away = u * (k[:, None, None] / s + mu / 2.0)
    inside = np.exp(-0.5 * away * (away + 2.0 * top[:, None, None]))
    total = (size * weights * inside).sum(axis=(1, 2))
    with np.errstate(all="ignore"):
        out = log_phi + math.log(mu) + np.log(total)
    return np.where(log_phi > -1e6, out, -np.inf)
