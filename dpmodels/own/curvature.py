"""``dp_glm(method="gptr")``: output noise by a tested curvature (``models/glm.md``, 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.own.minimum import (
    LogisticLoss,
    WorkingRows,
    evaluate,
    minimise,
    passes_over,
    rounding_error,
)
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import RDP, check_failure
from dpmodels.privacy.run import own_proof, tail_margin
from dpmodels.records import Release
from dpmodels.sums.ask import Ask

CURVATURE_STEP, COEF_STEP = "smallest curvature", "coefficients"
_TOL = 1e-9
#: The curvature is released up to this multiple of B^2: beyond it there is nothing to gain.
_CAP = 1e5


@dataclass(frozen=True)
class TestedDetail:
    """Public numbers of the fit that its charged steps do not have."""

    working: WorkingRows  # Rows in the ball of B
    lam: float
    failure: float  # Probability that the released bound of the curvature misses


def displacement(alpha: float, B: float) -> float:
    """Return D(alpha) = -(1/R) log(1 - R Lg/alpha), R = Lg = B: the minimum moves by at most this.

    Needs B^2 < alpha.
    """
    return -math.log1p(-B * B / alpha) / B


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
    return room / (hessian_rdp(a, 1.0, alpha, B) - psi(a, c))


def tested_rdp(alpha: float, *, rho: float, top: float) -> float:
    """Return a bound of the Renyi divergence, at order alpha, of a draw N(theta*, (gamma H)^-1).

    gamma is from :func:`hessian_gamma`. The bound is ``alpha rho^2/2`` for ``2 <= alpha <= top``,
    that of order 2 below, and infinite above.
    """
    if alpha > top:
        return math.inf
    return 0.5 * max(alpha, 2.0) * rho * rho


def release_tested(plan: Plan[TestedDetail], ask: Ask) -> Release:
    """Release a lower bound of the curvature at the optimum, then the coefficients.

    **Privacy.** Unit: one row. One-sided composition (``privacy/one_sided.md``, section 1), at the
    strengths of the charged steps. The distance to the exact optimum is certified by the gradient
    norm and added to the sensitivity.
    Rows that fit in memory are read and kept by the caller, who also adds up the curvature, in
    floats; other passes are sums of integers, by tasks where there are any.
    """
    raw = ask.raw(own_proof("logistic posterior"))
    design, working, lam = plan.design, plan.detail.working, plan.detail.lam
    B, miss = working.radius, plan.detail.failure
    test, draw = raw.mechanism(CURVATURE_STEP), raw.mechanism(COEF_STEP)
    shaped = dict(draw.parameters) if isinstance(draw, RDP) else {}
    # steps under replace-one are stated at twice the strength of their add/remove run
    twice = plan.guarantee.relation == "replace" and plan.guarantee.proved is None
    factor = 2.0 if twice else 1.0
    strength = math.hypot(test.mu, shaped["rho"] if shaped else draw.mu) / factor
    check_failure(strength, miss, raw.failure(CURVATURE_STEP), replaced=twice)
    loss = LogisticLoss()
    tol = max(_TOL * B, 2.0 * rounding_error(plan.n, B, loss))
    theta = minimise(
        rows=working, loss=loss, lam=lam, tilt=np.zeros(design.p), tol=tol, n=raw.rows.n,
        passes=plan.passes - 1, **passes_over(raw.rows, design, working, loss),
    ).theta  # fmt: skip
    _, _, H = evaluate(raw.rows.blocks(design), working, loss, theta)
    # |theta - theta*| <= tol/lam moves an eigenvalue by a factor exp(B tol/lam) at most, at both
    # neighbours; the cap makes that an absolute bound (it also allows for rounding)
    size = curvature_sensitivity(B) + 4.0 * _CAP * B * B * B * tol / lam
    low = min(max(0.0, float(np.linalg.eigvalsh(H)[0])), _CAP * B * B)
    noisy = float(raw.gaussian_real(CURVATURE_STEP, low, size * factor))
    alpha = lam + max(0.0, noisy - tail_margin(size * factor / test.mu, miss))
    gamma = sd = math.nan
    if shaped:
        gamma = hessian_gamma(shaped["top"], shaped["rho"], alpha, B) * (1.0 - 1e-4)
        L = np.linalg.cholesky(H + lam * np.eye(design.p))
        normals = raw.inner_normals(COEF_STEP, design.p)
        values = theta + np.linalg.solve(L.T, normals) / math.sqrt(gamma)
        values = raw.on_grid(values, 2.0**-34 / math.sqrt(gamma * alpha))
    else:
        D = (displacement(alpha, B) + 2.0 * tol / lam) * (1.0 + 1e-6)
        values = raw.gaussian_real(COEF_STEP, theta, D * factor)
        sd = D * factor / draw.mu
    done = (sd, gamma)  # the noise that was made from the bound
    return Release({"theta": values, "alpha": np.array(alpha)}, plan.guarantee, design, detail=done)
