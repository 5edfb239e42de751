"""Gaussian differential privacy: the curve delta(eps; mu) and its two inverses.

Source: Balle and Wang (2018), "Improving the Gaussian mechanism", Theorem 8; Dong, Roth and Su
(2022), "Gaussian differential privacy". Gaussian noise of sd ``Delta / mu`` on a query of L2
sensitivity ``Delta`` has exactly this curve.
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["agm", "delta_gdp", "eps_gdp", "log_delta_gdp", "mu_gdp", "upper_quantile"]


def _log_ndtr(x: float) -> float:
    from scipy.special import log_ndtr

    return float(log_ndtr(x))


def upper_quantile(p: float) -> float:
    """Return z with P(N(0,1) > z) = p, without ever forming 1 - p.

    ``1 - p`` would be exactly 1 for p below 1e-16, and the quantile infinite.
    """
    from scipy.special import ndtri, ndtri_exp

    if p < 1e-300:
        return -float(ndtri_exp(math.log(p))) if p > 0 else math.inf
    return -float(ndtri(p))


def log_delta_gdp(eps: float, mu: float) -> float:
    """Logarithm of :func:`delta_gdp`; minus infinity where the curve is 0 in floating point."""
    if mu == 0:
        return math.log(-math.expm1(eps)) if eps < 0 else -math.inf
    if math.isinf(mu):
        return 0.0
    a = _log_ndtr(-eps / mu + mu / 2)
    b = eps + _log_ndtr(-eps / mu - mu / 2)
    # a - b can lose every digit; b >= a then means "zero at this precision".
    if b >= a:
        return -math.inf
    return a + math.log(-math.expm1(b - a))


def delta_gdp(eps: float, mu: float) -> float:
    """Privacy curve of mu-Gaussian DP: Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2).

    Valid for every real ``eps`` (negative ones are needed when curves are composed).
    """
    return math.exp(log_delta_gdp(eps, mu))


@lru_cache(maxsize=4096)
def mu_gdp(eps: float, delta: float) -> float:
    """Largest mu whose Gaussian-DP curve passes through (eps, delta).

    Parameters
    ----------
    eps : float
        At least 0.
    delta : float
        In (0, 1).
    """
    if not (eps >= 0 and math.isfinite(eps)):
        raise ValueError(f"eps must be finite and not negative, got {eps!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    from scipy.optimize import brentq

    target = math.log(delta)

    def gap(log_mu: float) -> float:
        value = log_delta_gdp(eps, math.exp(log_mu))
        return (value if value > -1e6 else -1e6) - target

    lo, hi = math.log(1e-6), 0.0
    while gap(lo) > 0:
        lo -= 5.0
    while gap(hi) < 0:
        hi += 1.0
    return math.exp(float(brentq(gap, lo, hi, xtol=1e-15, rtol=1e-14, maxiter=300)))


@lru_cache(maxsize=4096)
def eps_gdp(mu: float, delta: float) -> float:
    """Smallest eps >= 0 with delta(eps; mu) <= delta."""
    if mu < 0:
        raise ValueError(f"mu must not be negative, got {mu!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    if delta_gdp(0.0, mu) <= delta:
        return 0.0
    from scipy.optimize import brentq

    target = math.log(delta)
    hi = max(1.0, mu * mu)
    while log_delta_gdp(hi, mu) > target:
        hi *= 2

    def gap(eps: float) -> float:
        value = log_delta_gdp(eps, mu)
        return (value if value > -1e6 else -1e6) - target

    return float(brentq(gap, 0.0, hi, xtol=1e-15, rtol=1e-14, maxiter=300))


def agm(eps: float, delta: float) -> float:
    """Noise sd per unit L2 sensitivity of the analytic Gaussian mechanism, 1 / mu(eps, delta)."""
    return 1.0 / mu_gdp(eps, delta)
