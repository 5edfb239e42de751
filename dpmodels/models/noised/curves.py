"""Calibration of SL and ZIL noise to a curve (:mod:`dpmodels.own.radial`), and trade-offs."""

from __future__ import annotations

import functools
import math

from dpmodels.arrays import brent
from dpmodels.errors import RequestError, shown
from dpmodels.own.radial import delta_exact, tails

_SAFETY = 1.0 - 1e-6


def beta_inf(alpha: float, c: float) -> float:
    """Return the least type II error of a test of level ``alpha``, d = inf.

    a(D) = 2 exp(-c D / 2) / (D^2 + 2), beta(D) = D^2 exp(-c / D) / (D^2 + 2).
    """
    if alpha <= 0.0:
        return 1.0
    if alpha >= 1.0:
        return 0.0
    if c <= 0:
        return 1.0 - alpha
    target = math.log(alpha)

    def gap(log_d: float) -> float:
        d = math.exp(log_d)
        return math.log(2.0) - 0.5 * c * d - math.log(d * d + 2.0) - target

    d = math.exp(brent(gap, -80.0, 40.0, xtol=1e-15, rtol=1e-14))
    return d * d * math.exp(-c / d) / (d * d + 2.0)


def beta_one(alpha: float, c: float) -> float:
    """Return T_{1,c}(alpha) = F(F^{-1}(1 - alpha) - sqrt2 c), F the standard Laplace cdf."""
    if alpha <= 0.0:
        return 1.0
    if alpha >= 1.0:
        return 0.0
    # the quantile from the upper tail: 1 - alpha is never formed for small alpha
    x = -math.log(2.0 * alpha) if alpha < 0.5 else math.log(2.0 * (1.0 - alpha))
    x -= math.sqrt(2.0) * c
    return 0.5 * math.exp(x) if x < 0 else 1.0 - 0.5 * math.exp(-x)


def _log_room(delta: float, clear_prob: float, *, closed: bool) -> float:
    """Return Lg = log(1 - p) - log(1 - delta), p the probability of no noise. Refuse p > delta.

    p = delta is allowed if ``closed``, or if both are 0.
    """
    if clear_prob > delta or (clear_prob == delta and clear_prob > 0 and not closed):
        raise RequestError(
            f"clear_prob={clear_prob:g} must be below delta={delta:g}: a record is published "
            "unperturbed with that probability, so no noise can give a smaller delta. "
            "Use clear_prob=0 (the default)"
        )
    return math.log1p(-clear_prob) - math.log1p(-delta)


def c_inf(eps: float, delta: float, clear_prob: float = 0.0) -> float:
    """Return the largest c that gives (eps, delta) in the limit d = inf; valid for every d."""
    if delta <= 0.0:
        raise RequestError(
            "delta = 0: SL noise on several columns needs delta > 0. Use noise='laplace'"
        )
    lg = _log_room(delta, clear_prob, closed=False)
    return math.sqrt(2.0 * lg * (lg + eps))


def c_one(eps: float, delta: float, clear_prob: float = 0.0) -> float:
    """Return the largest c that gives (eps, delta) for one column (delta = 0 is allowed)."""
    lg = _log_room(delta, clear_prob, closed=True)
    return (eps + 2.0 * lg) / math.sqrt(2.0)


@functools.lru_cache(maxsize=1024)
def calibrate(eps: float, delta: float, d: int, p: float = 0.0, tight: bool = True) -> float:
    """Return the largest c for which one block of d noised columns is (eps, delta).

    Not ``tight``: by the closed form of d = inf, valid for every d. Exact calibration is reduced by
    one part in 1e6: quadrature and root error must not cost privacy.
    """
    if d < 1:
        raise RequestError("a release needs at least one column that is noised")
    if d == 1:
        return c_one(eps, delta, p) * (1.0 - 1e-12)
    low = c_inf(eps, delta, p)
    if not tight or d > 40:
        return low * (1.0 - 1e-12)
    target = math.log(-math.expm1(math.log1p(-delta) - math.log1p(-p)))
    high = min(c_one(eps, delta, p), 200.0)

    def gap(log_c: float) -> float:
        value = delta_exact(eps, math.exp(log_c), d)
        return (math.log(value) if value > 0 else -1e4) - target

    a, b = math.log(low), math.log(high)
    if gap(a) >= 0:
        return low * (1.0 - 1e-12)
    if gap(b) <= 0:
        return math.exp(b) * _SAFETY
    root = brent(gap, a, b, xtol=1e-12, rtol=1e-13, maxiter=200)
    return max(low * (1.0 - 1e-12), math.exp(root) * _SAFETY)


def tradeoff(alpha: float, c: float, d: int, p: float = 0.0) -> float:
    """Return T_{d,c,p}(alpha): the least type II error of a test of level alpha.

    d = 1 and d = inf (0): closed forms. Otherwise eps is swept: alpha = P(L > eps), beta =
    1 - Q(L > eps), found by bisection in eps.
    """
    if not 0.0 <= alpha <= 1.0:
        raise RequestError(f"alpha must lie in [0, 1], got {shown(alpha)}")
    if alpha >= 1.0 - p:
        return 0.0
    a = alpha / (1.0 - p)
    if c <= 0:
        return (1.0 - p) * (1.0 - a)
    if d == 1:
        return (1.0 - p) * beta_one(a, c)
    if d == 0 or d > 40 or a <= 0.0:
        return (1.0 - p) * beta_inf(a, c)
    # symmetric in P and Q: on eps < 0 exchange the roles of the two errors
    flip = a > tails(d, c, 0.0)[1]

    def errors(e: float) -> tuple[float, float]:
        q, pp = tails(d, c, e)
        return (1.0 - q, pp) if flip else (pp, 1.0 - q)

    def before(e: float) -> bool:
        """Whether ``e`` is too small: alpha falls with e, or rises if the roles are exchanged."""
        alpha_e = errors(e)[0]
        return alpha_e < a if flip else alpha_e > a

    lo, hi = 0.0, math.sqrt(2.0) * c
    while before(hi) and hi < 600.0:
        lo, hi = hi, 2.0 * hi
    def gap(e: float) -> float:
        return math.log(max(errors(e)[0], 1e-300)) - math.log(a)

    root = brent(gap, lo, hi, xtol=1e-9, rtol=1e-10)
    return (1.0 - p) * errors(root)[1]
