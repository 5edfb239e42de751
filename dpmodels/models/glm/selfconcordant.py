"""What generalised self-concordance says of neighbouring logistic fits (``theory.md``, section 3).

F = sum of losses + (lam/2)|theta|^2; rows |x| <= B, so score bound Lg = B, curvature bound
beta = B^2/4 and |l'''| <= R l'' with R = B. alpha is the smallest eigenvalue of the Hessian of F
at its minimum, ridge included. All statements are for one row added *or* removed.
"""

from __future__ import annotations

import math

__all__ = [
    "curvature_sensitivity",
    "displacement",
    "hessian_change",
    "hessian_gamma",
    "hessian_rdp",
    "psi",
]


def displacement(alpha: float, B: float, Lg: float | None = None) -> float:
    """Return D(alpha) = -(1/R) log(1 - R Lg/alpha): the minimum moves by at most this.

    Needs R Lg < alpha.
    """
    Lg = B if Lg is None else Lg
    return -math.log1p(-B * Lg / alpha) / B


def curvature_sensitivity(B: float) -> float:
    """Return R Lg + beta: the most that lambda_min of the Hessian at the minimum moves."""
    return B * B + B * B / 4.0


def hessian_change(alpha: float, B: float) -> float:
    """Return c: the Frobenius norm of H^{-1/2}(H' - H)H^{-1/2} is at most this. Dimension-free."""
    return B * B / (alpha - B * B) + B * B / (4.0 * alpha)


def psi(a: float, t: float) -> float:
    """Return -(1/2) log(1 + t) - log(1 - (a-1) t) / (2(a-1)); infinite if (a-1) t >= 1."""
    if (a - 1) * t >= 1:
        return math.inf
    return -0.5 * math.log1p(t) - math.log1p(-(a - 1) * t) / (2 * (a - 1))


def hessian_rdp(a: float, gamma: float, alpha: float, B: float) -> float:
    """Return the Renyi divergence bound of N(theta*, (gamma H)^{-1}) at order a >= 2."""
    c = hessian_change(alpha, B)
    if (a - 1) * c >= 1:
        return math.inf
    k = B * displacement(alpha, B)
    m2 = gamma * (k / -math.expm1(-k) * B) ** 2 / alpha
    return 0.5 * a * m2 * (1 + c) / (1 - (a - 1) * c) + psi(a, c)


def hessian_gamma(a: float, rho: float, alpha: float, B: float) -> float:
    """Return the largest gamma with hessian_rdp(a) <= a rho^2/2, or 0.

    Then the same holds at every order in [2, a]: both terms over a increase with a.
    """
    c = hessian_change(alpha, B)
    if (a - 1) * c >= 1:
        return 0.0
    room = 0.5 * a * rho * rho - psi(a, c)
    if room <= 0:
        return 0.0
    return room / hessian_rdp(a, 1.0, alpha, B) if c == 0 else room / (
        hessian_rdp(a, 1.0, alpha, B) - psi(a, c)
    )  # fmt: skip


def tested_rdp(alpha: float, *, rho: float, top: float) -> float:
    """Return the Renyi curve of a calibrated Hessian sample: order x rho^2/2 up to ``top``."""
    if alpha > top:
        return math.inf
    return 0.5 * max(alpha, 2.0) * rho * rho
