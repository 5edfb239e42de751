"""The private stage of ePTR least squares: rows in, released numbers out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import end_of_numbers
from dpmodels.exact.lemmas import Of
from dpmodels.exact.passes import Moments, Sums
from dpmodels.exact.products import mapped
from dpmodels.exact.rowmap import RowMap, UnitScale, unit_scale
from dpmodels.exact.sets import Ball, Interval
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.exact.symmetric import float_allowance, ls_bound
from dpmodels.models.linear.eptr_plan import OlsDetail, working_radius
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.propose import (
    integer_coin,
    paper_midpoint,
    paper_sigma,
    reply_probability,
    split_midpoint,
)
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan


@dataclass(frozen=True)
class OlsReleased:
    """Public numbers of the release, beside the released ones.

    Attributes
    ----------
    unit : UnitScale
    whitening : (p, p) array or None
        W = sqrt(n) St^{-1/2}.
    lower : float
        Released lower bound of the smallest eigenvalue (auto form), otherwise NaN.
    ridge : float
        rho, a function of the lower bound.
    rtheta : float
        Radius of the coefficient ball in force.
    sigma : float
        Sd of the noise on each working coefficient.
    """

    unit: UnitScale
    whitening: Array | None = None
    lower: float = math.nan
    ridge: float = 0.0
    rtheta: float = math.inf
    sigma: float = math.nan
    values: dict[str, Array] = field(default_factory=dict)


def _identity(q: int) -> UnitScale:
    return UnitScale(np.ones(q), np.zeros(q), False)


def _row_map(detail: OlsDetail, unit: UnitScale, p: int, matrix: Array | None) -> RowMap:
    radius = working_radius(detail, p) if matrix is not None else detail.rx
    full = None
    if matrix is not None:
        full = np.eye(p + 1)
        full[:p, :p] = matrix
    box = np.full(p + 1, radius)
    box[p] = detail.ry
    return RowMap(unit, box, ball=p, radius=radius, matrix=full, project=detail.project)


def solve_projected(S: Array, b: Array, rtheta: float) -> Array:
    """Return Proj_R(S^{-1} b); the zero vector where the solve is singular or not finite."""
    p = len(b)
    try:
        theta = np.linalg.solve(S, b)
    except np.linalg.LinAlgError:
        return np.zeros(p)
    norm = float(np.linalg.norm(theta))
    if not math.isfinite(norm):
        return np.zeros(p)
    return np.asarray(theta * min(1.0, rtheta / norm) if norm > 0 else theta, dtype=float)


def smallest_eigenvalue(S: Array) -> float:
    """Return lambda_min of a positive semidefinite matrix, never below 0."""
    return max(0.0, float(np.linalg.eigvalsh(S)[0]))


def whitening_matrix(scale: Array, n: int, nu: float) -> Array:
    """Return W = sqrt(n) St^{-1/2}, eigenvalues of the released St floored at nu."""
    values, vectors = np.linalg.eigh(scale)
    W: Array = (vectors * np.sqrt(n / np.maximum(values, nu))) @ vectors.T
    return W


def coefficient_radius(detail: OlsDetail, whitening: Array | None) -> float:
    """Return the given bound on the working coefficients, before the free one.

    Whitened coefficients are ``W^{-1} theta``, so ``R_theta`` stretches by at most ``|W^{-1}|``;
    and they are of size R_y at most where the whitened eigenvalues are near n.
    """
    if whitening is None:
        return detail.rtheta
    return min(detail.ry, detail.rtheta / float(np.linalg.eigvalsh(whitening)[0]))


def auto_noise(
    lower: float, detail: OlsDetail, radius: float, top: float, n: int, allowance: float
) -> tuple[float, float, float] | None:
    """Return (rho, R_theta, h) as functions of the released lower bound; None: no reply.

    h(l) = B(R_theta) / (l - R^2 + rho): the estimator's sensitivity whenever l <= max(lam, lam').
    """
    room = lower - radius * radius * (1.0 + allowance)
    rho = max(0.0, 0.3 * n - room) if detail.ridge else 0.0
    safe = max(room, 0.3 * n) if detail.ridge else room
    if safe <= 0:
        return None
    # |theta|^2 (lam + rho) <= sum of y^2 <= n R_y^2 holds at both neighbours.
    free = detail.ry * math.sqrt(n / safe)
    rtheta = min(top, free)
    return rho, rtheta, ls_bound(radius, detail.ry, rtheta) / safe * (1.0 + allowance)


def residual_statistic(
    blocks: Iterable[Array], rowmap: RowMap, theta: Array, c: float
) -> tuple[int, float]:
    """Return (sum of trunc(clip(r / c)^2 2^30), unit) with r = y - z'theta; sensitivity 2^30.

    theta is the *released* vector: with the exact one the sensitivity would be wrong.
    """
    p = len(theta)
    ratio = theta * rowmap.box[:p] / c
    total = 0
    with np.errstate(all="ignore"):
        for block in blocks:
            w = rowmap.normalised(block)
            r = w[p] * (rowmap.box[p] / c) - mapped(ratio[None], w[:p])[0]
            total += int(end_of_numbers(r * r, steps=2.0**30, low=0.0).sum())
    return total, c * c * 2.0**-30


def release(plan: Plan[OlsDetail], ask: Ask) -> Release:
    """Run ePTR least squares on the rows.

    Privacy
    -------
    Unit: one row; replace-one, n public. Charged: the steps of the plan, whether or not they ran.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    unit = _identity(design.q) if detail.raw else unit_scale(design)
    if detail.form == "auto":
        return _release_auto(plan, design, unit, ask)
    return _release_pair(plan, design, unit, ask)


def _release_auto(plan: Plan[OlsDetail], design: Design, unit: UnitScale, ask: Ask) -> Release:
    detail = plan.detail
    n, p = ask.n, design.p
    allowance = float_allowance(p, n)
    raw = ask.raw(own_proof("ePTR, least squares"))
    values: dict[str, Array] = {}
    rowmap = _row_map(detail, unit, p, None)
    over = Moments(design, rowmap)
    if "scale" in detail.mu:
        ball = Gram(Ball(p))  # the predictors' coordinates
        scale = Query(ball, over, lambda G: Added(G.integers()[:p, :p]), rowmap.radius**2)
        values["scale"] = ask("scale matrix", scale).values
    W = None
    if detail.whiten:
        nu = math.sqrt(2.0) * detail.rx**2 / detail.mu["scale"] * math.sqrt(2.0 * p)
        W = whitening_matrix(values["scale"], n, nu)
        rowmap = _row_map(detail, unit, p, W)
        over = Moments(design, rowmap)
    G = raw.total(over).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    radius = rowmap.radius
    # Auto form: a lower bound that exceeds lam with probability delta_f only.
    lemma = Of("least eigenvalue", (radius * radius, p, n))
    least = Query(lemma, over, lambda _: Added(np.array([smallest_eigenvalue(S)])))
    lower = float(ask("lower bound and test", least).at_least(detail.delta_f)[0])
    values["lower"] = np.array(lower)
    proposal = auto_noise(lower, detail, radius, coefficient_radius(detail, W), n, allowance)
    if proposal is None:
        return Release(
            values, plan.guarantee, design, reply=False, why="test",
            detail=OlsReleased(unit, W, lower),
        )  # fmt: skip
    rho, rtheta, h = proposal
    theta = solve_projected(S + rho * np.eye(p), b, rtheta)
    values["theta"] = raw.gaussian_real("coefficients", theta, h)
    if "variance" in detail.mu:
        values["residual"] = _release_residual(ask, detail, over, G, values["theta"])
    sigma = h / detail.mu["coef"]
    return Release(
        values,
        plan.guarantee,
        design,
        detail=OlsReleased(unit, W, lower, rho, rtheta, sigma),
    )


def residual_bound(detail: OlsDetail, radius: float, theta: Array) -> float:
    """Return the largest squared residual a row can have: (R_y + R |theta|)^2."""
    return (detail.ry + radius * float(np.linalg.norm(theta))) ** 2


def _release_residual(ask: Ask, detail: OlsDetail, over: Moments, G: Array, theta: Array) -> Array:
    """Release the residual sum of squares at the *released* vector.

    From the moments at hand if n is so large that the noise for unclipped residuals does not
    matter (a rule on public numbers; it saves a pass), otherwise from clipped residuals.
    """
    rowmap = over.rowmap
    bound = residual_bound(detail, rowmap.radius, theta)
    if not detail.project and bound / detail.mu["variance"] <= 2e-4 * ask.n * detail.ry**2:
        t = np.append(-theta, 1.0)
        lemma = Of("squared residuals", (bound, len(theta), ask.n))
        query = Query(lemma, over, lambda _: Added(np.array([t @ G @ t])))
    else:
        again = Sums(over.design, _Residuals(rowmap, theta, detail.ry))
        one = Sum(Interval(0, 1 << 30))
        query = Query(
            one,
            again,
            lambda k: Added(np.array([k], dtype=object)),
            detail.ry * detail.ry * 2.0**-30,
        )
    return ask("residual variance", query).values[0]


@dataclass(frozen=True, eq=False)
class _Residuals:
    """The pass of :func:`residual_statistic`, for whoever adds up."""

    rowmap: RowMap
    theta: Array
    bound: float

    def over(self, blocks: Iterable[Array], _: Any = None) -> int:
        """Return the integer over blocks. Confidential."""
        return residual_statistic(blocks, self.rowmap, self.theta, self.bound)[0]


def safety(detail: OlsDetail, lam: float, n: int, allowance: float) -> tuple[float, float, float]:
    """Return (gamma, reply probability, noise sd) of the pair forms at smallest eigenvalue lam."""
    r2 = detail.rx * detail.rx
    if detail.form == "paper":
        gamma = max(0.0, lam - detail.c0 * n - 2.0 * r2) / (2.0 * r2)
        alpha = 4.0 * r2 * detail.rtheta / (detail.c0 * n)
        eps = detail.eps_t + detail.eps_r
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        return gamma, p, paper_sigma(alpha, eps, detail.delta)
    from dpmodels.privacy.gdp import agm

    # s (1 + allowance), not s: with the exact s the ceiling breaks the Lipschitz bound at
    # rounding errors.
    s = r2 * (1.0 + allowance)
    whole = math.ceil(max(0.0, lam - detail.c0 * n - s) / s)
    alpha = ls_bound(detail.rx, detail.ry, detail.rtheta) / (detail.c0 * n) * (1.0 + allowance)
    if detail.sharp:
        p = integer_coin(whole, detail.eps_t, detail.delta)
    else:
        p = reply_probability(whole, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
    return float(whole), p, alpha * agm(detail.eps_r, detail.delta)


def _release_pair(plan: Plan[OlsDetail], design: Design, unit: UnitScale, ask: Ask) -> Release:
    detail = plan.detail
    n, p = ask.n, design.p
    raw = ask.raw(own_proof("ePTR, least squares"))
    rowmap = _row_map(detail, unit, p, None)
    G = raw.total(Moments(design, rowmap)).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    _, probability, sd = safety(detail, smallest_eigenvalue(S), n, float_allowance(p, n))
    theta = solve_projected(S, b, detail.rtheta)
    noisy = raw.coin_gaussian("coefficients and test", probability, theta, sd)
    if noisy is None:
        return Release({}, plan.guarantee, design, reply=False, why="test")
    return Release(
        {"theta": noisy},
        plan.guarantee,
        design,
        detail=OlsReleased(unit, rtheta=detail.rtheta, sigma=sd),
    )
