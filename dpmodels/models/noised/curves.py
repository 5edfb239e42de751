"""Privacy curves of SL and ZIL noise: dimension one and the limit of infinite dimension.

``c`` is the distance between neighbours in units in which the noise is isotropic with sd one.
Closed forms of Long, Chen and Qiu's limiting curve, simplified; proofs in ``theory.md``.
"""

from __future__ import annotations

import math

from dpmodels.errors import RequestError
from dpmodels.roots import brent


def delta_inf(eps: float, c: float) -> float:
    """Return delta_c(eps) of the limit d = inf: 1 - exp(-c^2 / (eps + sqrt(eps^2 + 2 c^2)))."""
    if c <= 0:
        return 0.0
    return -math.expm1(-c * c / (eps + math.sqrt(eps * eps + 2.0 * c * c)))


def delta_one(eps: float, c: float) -> float:
    """Return delta(eps) of Laplace noise of sd one and a shift c: pure at eps = sqrt2 c."""
    gap = eps - math.sqrt(2.0) * c
    return -math.expm1(0.5 * gap) if gap < 0 else 0.0


def with_clear(delta: float, clear_prob: float) -> float:
    """Return p + (1 - p) delta: the curve when a record is published unperturbed with prob. p."""
    return clear_prob + (1.0 - clear_prob) * delta


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
    """Return Lg = log(1 - p) - log(1 - delta); positive iff p < delta."""
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


def eps_inf(c: float, delta: float, clear_prob: float = 0.0) -> float:
    """Return eps >= 0 at delta in the limit d = inf; infinity where there is none."""
    if c <= 0 and clear_prob <= delta:
        return 0.0
    if not clear_prob < delta < 1:
        return math.inf
    lg = math.log1p(-clear_prob) - math.log1p(-delta)
    return max(0.0, c * c / (2.0 * lg) - lg)
