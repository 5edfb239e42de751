"""Gaussian differential privacy: the curve delta(eps; mu) and its two inverses.

Source: Balle and Wang (2018), "Improving the Gaussian mechanism", Theorem 8; Dong, Roth and Su
(2022), "Gaussian differential privacy". Gaussian noise of sd ``Delta / mu`` on a query of L2
sensitivity ``Delta`` has exactly this curve.
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = [
    "agm",
    "delta_gdp",
    "eps_gdp",
    "eps_of_rho",
    "eps_of_rho_classic",
    "log_delta_gdp",
    "mu_gdp",
    "mu_of_pure",
    "rho_classic",
    "tradeoff_gdp",
    "upper_quantile",
]


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
    # Relative accuracy in mu is absolute accuracy in log mu.
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


def mu_of_pure(eps: float) -> float:
    """Return the mu with: every eps-DP mechanism is mu-GDP.

    mu = 2 Phi^{-1}(e^eps / (1 + e^eps)): the Gaussian trade-off curve through the corner of the
    pure one lies below its two chords (Dong, Roth and Su 2022, Section 2; theory.md 2.4).
    """
    if eps <= 0:
        return 0.0
    return 2.0 * upper_quantile(math.exp(-eps) / (1.0 + math.exp(-eps)))


def tradeoff_gdp(alpha: float, mu: float) -> float:
    """Return the least type II error of a level-``alpha`` test: Phi(Phi^{-1}(1 - alpha) - mu)."""
    from scipy.special import ndtr

    return float(ndtr(upper_quantile(alpha) - mu)) if 0 < alpha < 1 else float(alpha <= 0)


def rho_classic(eps: float, delta: float) -> float:
    """Return the rho whose classic conversion gives (eps, delta). For comparison only."""
    log = -math.log(delta)
    return (math.sqrt(log + eps) - math.sqrt(log)) ** 2


def eps_of_rho_classic(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016). For comparison only."""
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))


def eps_of_rho(rho: float, delta: float) -> float:
    """Return the best conversion of a rho-zCDP guarantee of which nothing else is known.

    inf over a > 1 of rho a + log(1/(a delta)) / (a - 1) + log(1 - 1/a)
    (Canonne, Kamath and Steinke 2020, Corollary 13). For the Gaussian mechanism itself
    ``eps_gdp(sqrt(2 rho), delta)`` is exact and smaller.
    """
    from scipy.optimize import minimize_scalar

    if rho <= 0:
        return 0.0

    def eps(t: float) -> float:
        a = 1.0 + math.exp(t)
        return rho * a - (math.log(a) + math.log(delta)) / (a - 1.0) + math.log1p(-1.0 / a)

    start = 0.5 * math.log(-math.log(delta) / rho)
    found = minimize_scalar(eps, bracket=(start - 0.5, start + 0.5), tol=1e-12)
    return max(0.0, float(found.fun))
