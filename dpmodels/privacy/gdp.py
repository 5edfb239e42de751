"""Gaussian differential privacy: the curve delta(eps; mu) and its two inverses.

Source: Balle and Wang (2018), "Improving the Gaussian mechanism", Theorem 8; Dong, Roth and Su
(2022), "Gaussian differential privacy". Gaussian noise of sd ``Delta / mu`` on a query of L2
sensitivity ``Delta`` has exactly this curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from dpmodels.roots import brent

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Cells of the cover of a curve.
_CELLS = 600
#: Below this difference of logarithms the curve is integrated instead.
CLOSE = 0.02
_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _log_ndtr(x: float) -> float:
    """Return log Phi(x), to the last two digits, with ``math`` alone.

    Below -20 by the asymptotic series ``phi(x)/(-x) (1 - 1/x^2 + 3/x^4 - ...)``, whose error is
    less than the first term left out (1e-18 from nine terms on); else by ``erfc``, of which no
    difference is formed.
    """
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT_HALF))
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x * _ROOT_HALF))
    if x == -math.inf:
        return -math.inf
    square = x * x
    term = total = 1.0
    for k in range(1, 10):
        term *= -(2 * k - 1) / square
        total += term
    return -0.5 * square - math.log(-x) - _HALF_LOG_2PI + math.log(total)


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
    if eps < 0:  # the same pair in the other order; nothing is subtracted
        return math.log(-math.expm1(eps) + math.exp(eps + log_delta_gdp(-eps, mu)))
    a = _log_ndtr(-eps / mu + mu / 2)
    b = eps + _log_ndtr(-eps / mu - mu / 2)
    if not b - a < -CLOSE:  # also where both are minus infinity
        return _log_integral(eps, mu)
    return a + math.log(-math.expm1(b - a))


def _log_integral(eps: float, mu: float) -> float:
    """Logarithm of dG where its two terms nearly agree: nothing is subtracted.

    ``d dG / d mu = phi(eps/mu - mu/2)``, so ``dG = integral over t in (0, mu) of
    phi(eps/t - t/2)``. With ``t = mu s`` the integrand falls from s = 1 on over a width of about
    ``1 / (1 + k^2)``, ``k = eps / mu``: panels that double in width, from there.
    """
    import numpy as np

    k = eps / mu
    top = k - mu / 2.0
    log_phi = -0.5 * top * top - 0.5 * math.log(2.0 * math.pi)
    if not log_phi > -1e6:
        return -math.inf
    nodes, weights = legendre()
    width = 0.25 / (1.0 + k * k)
    edges = [0.0]
    while edges[-1] < 0.5:
        edges.append(min(0.5, edges[-1] + width))
        width *= 2.0
    lo, hi = np.array(edges[:-1])[:, None], np.array(edges[1:])[:, None]
    u = lo + (hi - lo) * nodes  # 1 - s
    # from s = 1/2 down panels halve, to where phi(k / s) is 0 in floats; s itself is formed
    halves = max(1, min(60, math.ceil(math.log2(40.0 / k)) if k > 0 else 1))
    small = 0.5 ** np.arange(1, halves + 1)[:, None]
    rest = small * (nodes if k == 0 else 0.5 + 0.5 * nodes)
    s = np.concatenate([1.0 - u, rest])
    u = np.concatenate([u, 1.0 - rest])
    size = np.concatenate([hi - lo, small * (1.0 if k == 0 else 0.5)])
    # (y - top)(y + top) / 2 with y - top = k u / s + mu u / 2: no difference of near numbers
    away = u * (k / s + mu / 2.0)
    total = float((size * weights * np.exp(-0.5 * away * (away + 2.0 * top))).sum())
    return log_phi + math.log(mu) + math.log(total)


@lru_cache(maxsize=1)
def legendre() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Gauss-Legendre nodes and weights on (0, 1)."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(24)
    return 0.5 * (nodes + 1.0), 0.5 * weights


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
    return math.exp(brent(gap, lo, hi, xtol=1e-15, rtol=1e-14, maxiter=300))


@lru_cache(maxsize=4096)
def eps_gdp(mu: float, delta: float) -> float:
    """Smallest eps >= 0 with delta(eps; mu) <= delta."""
    if mu < 0:
        raise ValueError(f"mu must not be negative, got {mu!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    if delta_gdp(0.0, mu) <= delta:
        return 0.0
    target = math.log(delta)
    hi = max(1.0, mu * mu)
    while log_delta_gdp(hi, mu) > target:
        hi *= 2

    def gap(eps: float) -> float:
        value = log_delta_gdp(eps, mu)
        return (value if value > -1e6 else -1e6) - target

    return brent(gap, 0.0, hi, xtol=1e-15, rtol=1e-14, maxiter=300)


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
    if eps < 1:
        # Phi(z) = e^eps/(1 + e^eps) is erf(z / sqrt 2) = tanh(eps / 2), with all its digits
        from scipy.special import erfinv

        return 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(eps / 2.0)))
    return 2.0 * upper_quantile(math.exp(-eps) / (1.0 + math.exp(-eps)))


def gaussian_cover(curve: Callable[[float], float], failure: float) -> float | None:
    """Return a mu with ``curve(eps) <= dG(eps; mu) + failure`` for every eps >= 0, or None.

    Parameters
    ----------
    curve : callable
        Proved upper bound of a mechanism's delta(eps), eps >= 0.
    failure : float

    Notes
    -----
    Certain, not approximate: the true delta(eps) falls in eps, so on a cell (e_k, e_{k+1}) it is
    at most curve(e_k), which is compared with dG at e_{k+1}; dG is rounded down.
    """
    import numpy as np
    from scipy.special import log_ndtr

    top = 1e-3
    while curve(top) > failure:
        top *= 2.0
        if top > 512.0:
            return None
    lo = 0.0
    for _ in range(30):
        mid = 0.5 * (lo + top)
        lo, top = (mid, top) if curve(mid) > failure else (lo, mid)
    grid = np.linspace(0.0, top, _CELLS + 1)
    need = np.array([curve(e) for e in grid[:-1].tolist()]) - failure
    end = grid[1:][need > 0]
    need = need[need > 0]
    if not need.size:
        return 0.0
    if not (need < 1.0).all():
        return None

    def fits(mu: float) -> bool:
        a = log_ndtr(-end / mu + mu / 2.0)
        b = end + log_ndtr(-end / mu - mu / 2.0)
        apart = b - a < -1e-5  # nearer terms have lost digits: read as 0
        with np.errstate(all="ignore"):
            got = np.where(apart, np.exp(a) * -np.expm1(b - a), 0.0)
        return bool((got * (1.0 - 1e-9) >= need).all())

    hi = 1e-3
    while not fits(hi):
        hi *= 2.0
        if hi > 64.0:
            return None
    lo = 0.5 * hi if hi > 1e-3 else 0.0
    for _ in range(40):
        mid = 0.5 * (lo + hi)
        lo, hi = (lo, mid) if fits(mid) else (mid, hi)
    return hi


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
