"""Least squares by efficient Propose-Test-Release (``models/linear/eptr.md``, 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.design import Design
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, agm
from dpmodels.privacy.noise import (
    integer_coin,
    paper_midpoint,
    paper_sigma,
    reply_probability,
    split_midpoint,
)
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import Ball, float_allowance, ls_bound
from dpmodels.proof.statistics import Gram
from dpmodels.records import Release
from dpmodels.sums.ask import ALL, Added, Ask, Moments, Query, Read, clipped_residuals
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale, unit_scale

#: Steps, by the name of their share; the lower bound where it begins a fit; coin and coefficients.
STEP_NAMES = {
    "scale": "scale matrix", "bound": "lower bound and test", "coef": "coefficients",
    "variance": "residual variance",
}  # fmt: skip
BOUND_STEP, PAIR_STEP = "lower bound", "coefficients and test"


@dataclass(frozen=True)
class OlsDetail:
    """Public numbers of ePTR that its charged steps do not have."""

    # "auto": a lower bound of the smallest eigenvalue is released. "fixed": a private coin tells
    # whether it exceeds c0. "paper": the same with the paper's looser constants.
    form: str
    raw: bool  # Rows are bounded by ``Rx`` in the user's units (no ranges are used)
    rx: float  # Largest norm of a row's predictors, in public units (if ``raw`` the design's own)
    ry: float  # Largest absolute response, in the same units
    rtheta: float  # Bound on the coefficient norm: the call's, or one that c0 implies, else inf
    project: bool
    whiten: bool = False
    ridge: bool = False
    # Share name -> mu (auto form), for the list of steps and the reported noise
    mu: dict[str, float] = field(default_factory=dict)
    # The forms "fixed" and "paper" alone: eps of the coin, c0
    eps_t: float = 0.0
    c0: float = 0.0  # Least eigenvalue per row
    sharp: bool = False  # The sharper integer coin


def working_radius(detail: OlsDetail, p: int) -> float:
    """Return the radius of the ball of predictors in the pass for the coefficients.

    That is the ball after whitening, if the plan whitens.
    """
    return math.sqrt(1.5 * p) if detail.whiten else detail.rx


@dataclass(frozen=True)
class OlsReleased:
    """Public numbers of the release, in addition to the released ones."""

    unit: UnitScale
    whitening: Array | None = None  # (p, p): W = sqrt(n) St^{-1/2}
    # Released lower bound of the smallest eigenvalue (auto form), otherwise NaN.
    lower: float = math.nan
    ridge: float = 0.0  # rho, a function of the lower bound
    rtheta: float = math.inf  # Radius of the coefficient ball in force
    sigma: float = math.nan  # Sd of the noise on each working coefficient


def _row_map(detail: OlsDetail, unit: UnitScale, p: int, matrix: Array | None = None) -> RowMap:
    """Return the row map of a pass: predictors scaled into a ball, the response into its range.

    A row has p predictors and then the response, in public units (``unit``). ``matrix`` (p, p) is
    the released whitening of the predictors. It is None in the pass before that release.
    """
    radius = working_radius(detail, p) if matrix is not None else detail.rx
    row_matrix = None
    if matrix is not None:
        row_matrix = np.eye(p + 1)  # the response is not whitened
        row_matrix[:p, :p] = matrix
    bounds = np.full(p + 1, radius)
    bounds[p] = detail.ry
    return RowMap(unit, bounds, ball=p, radius=radius, matrix=row_matrix, project=detail.project)


def solve_projected(S: Array, b: Array, rtheta: float) -> Array:
    """Return S^{-1} b, shrunk into the ball of radius ``rtheta``.

    It is the zero vector if the system is singular or its solution is not finite.
    """
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


def auto_noise(
    lower: float, ridge: bool, radius: float, ry: float, top: float, n: int, allowance: float
) -> tuple[float, float, float] | None:
    """Return (rho, R_theta, h) as functions of the released lower bound, or None for no reply.

    h(l) = B(R_theta) / (l - R^2 + rho): the estimator's sensitivity whenever l <= max(lam, lam').
    """
    room = lower - radius * radius * (1.0 + allowance)
    rho = max(0.0, 0.3 * n - room) if ridge else 0.0
    safe = max(room, 0.3 * n) if ridge else room
    if safe <= 0:
        return None
    # |theta|^2 (lam + rho) <= sum of y^2 <= n R_y^2 holds at both neighbours.
    free = ry * math.sqrt(n / safe)
    rtheta = min(top, free)
    return rho, rtheta, ls_bound(radius, ry, rtheta) / safe * (1.0 + allowance)


def release(plan: Plan[OlsDetail], ask: Ask, design: Design) -> Release:
    """Run ePTR least squares on the rows.

    Privacy
    -------
    Unit: one row; replace-one, n public. Charged: the steps of the plan, whether or not they ran.
    """
    detail, n, p, q = plan.detail, ask.n, design.p, design.q
    unit = UnitScale(np.ones(q), np.zeros(q), False) if detail.raw else unit_scale(design)
    allowance = float_allowance(p, n)
    raw = ask.raw(own_proof("ePTR, least squares"))
    values: dict[str, Array] = {}
    rowmap = _row_map(detail, unit, p)
    over = Moments(design, rowmap)
    if detail.form != "auto":
        G = raw.total(over).real(rowmap.units)
        S, b = G[:p, :p], G[:p, p]
        charged = raw.mechanism(PAIR_STEP)
        _, probability, sd = safety(detail, charged, smallest_eigenvalue(S), n, allowance)
        theta = solve_projected(S, b, detail.rtheta)
        noisy = raw.coin_gaussian(PAIR_STEP, probability, theta, sd)
        if noisy is None:
            return Release({}, plan.guarantee, design, reply=False, why="test")
        released = OlsReleased(unit, rtheta=detail.rtheta, sigma=sd)
        return Release({"theta": noisy}, plan.guarantee, design, detail=released)
    if "scale" in detail.mu:
        ball = Gram(Ball(p))  # the predictors' coordinates
        scale = Query(ball, over, lambda G: Added(G.integers()[:p, :p]), rowmap.radius**2)
        values["scale"] = ask(STEP_NAMES["scale"], scale).values
    W = None
    if detail.whiten:
        nu = math.sqrt(2.0) * detail.rx**2 / detail.mu["scale"] * math.sqrt(2.0 * p)
        # W = sqrt(n) St^{-1/2}, eigenvalues of the released St floored at nu
        floored, vectors = np.linalg.eigh(values["scale"])
        W = (vectors * np.sqrt(n / np.maximum(floored, nu))) @ vectors.T
        rowmap = _row_map(detail, unit, p, W)
        over = Moments(design, rowmap)
    G = raw.total(over).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    radius = rowmap.radius
    lower = _lower_bound(STEP_NAMES["bound"], S, over, ask)
    values["lower"] = np.array(lower)
    # The given bound on the working coefficients, before the free one: whitened they are W^{-1}
    # theta, so R_theta stretches by at most |W^{-1}|; and they are of size R_y at most where the
    # whitened eigenvalues are near n.
    top = detail.rtheta
    if W is not None:
        top = min(detail.ry, top / float(np.linalg.eigvalsh(W)[0]))
    proposal = auto_noise(lower, detail.ridge, radius, detail.ry, top, n, allowance)
    if proposal is None:
        return Release(
            values, plan.guarantee, design, reply=False, why="test",
            detail=OlsReleased(unit, W, lower),
        )  # fmt: skip
    rho, rtheta, h = proposal
    theta = solve_projected(S + rho * np.eye(p), b, rtheta)
    values["theta"] = raw.gaussian_real(STEP_NAMES["coef"], theta, h)
    if "variance" in detail.mu:
        values["residual"] = _release_residual(ask, detail, over, G, values["theta"])
    sigma = h / detail.mu["coef"]
    released = OlsReleased(unit, W, lower, rho, rtheta, sigma)
    return Release(values, plan.guarantee, design, detail=released)


def _lower_bound(step: str, S: Array, over: Moments, ask: Ask, read: Read = ALL) -> float:
    """Release a lower bound of lambda_min(S), wrong with the charged probability only."""
    radius, failure = over.rowmap.radius, ask.charged(step)[1]
    lemma = Of("least eigenvalue", (radius * radius, len(S), ask.n))
    least = Query(lemma, over, lambda _: Added(np.array([smallest_eigenvalue(S)])))
    return float(ask(step, least, read).at_least(failure)[0])


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
        query = clipped_residuals(over.design, rowmap, theta, detail.ry)
    return ask(STEP_NAMES["variance"], query).values[0]


def safety(
    detail: OlsDetail, charged: Approximate, lam: float, n: int, allowance: float
) -> tuple[float, float, float]:
    """Return (gamma, reply probability, noise sd) of the pair forms at smallest eigenvalue lam."""
    r2, eps_t, delta = detail.rx * detail.rx, detail.eps_t, charged.delta
    eps_r = charged.eps - eps_t
    if detail.form == "paper":
        if detail.ry > detail.rx * detail.rtheta:
            raise PrivacyBugError("the published constants are of |y| <= Rx Rtheta")
        gamma = max(0.0, lam - detail.c0 * n - 2.0 * r2) / (2.0 * r2)
        alpha = 4.0 * r2 * detail.rtheta / (detail.c0 * n)
        eps = eps_t + eps_r
        p = reply_probability(gamma, eps_t, paper_midpoint(eps, delta))
        return gamma, p, paper_sigma(alpha, eps, delta)
    # s (1 + allowance), not s: with the exact s the ceiling breaks the Lipschitz bound at
    # rounding errors.
    s = r2 * (1.0 + allowance)
    steps = math.ceil(max(0.0, lam - detail.c0 * n - s) / s)
    alpha = ls_bound(detail.rx, detail.ry, detail.rtheta) / (detail.c0 * n) * (1.0 + allowance)
    if detail.sharp:
        p = integer_coin(steps, eps_t, delta)
    else:
        p = reply_probability(steps, eps_t, split_midpoint(eps_t, delta))
    return float(steps), p, alpha * agm(eps_r, delta)


def begin_eptr(
    over: Moments, rows: int, ask: Ask, read: Read
) -> tuple[Array, float, float, float]:
    """Release lower bound and coefficients of whitened rows; return (coefficients, bound, rho, h).

    ``rows``: their number, expected under coins.

    Privacy
    -------
    Unit: one row; replace-one. These two steps of the start. Rows that coins leave out are zero
    rows, and the projected ridge estimate moves by ``B(R)/(l - R^2 + rho)`` whatever n is.
    """
    raw, rowmap = ask.raw(own_proof("ePTR, least squares")), over.rowmap
    radius, ry, r = rowmap.radius, float(rowmap.box[-1]), rowmap.ball
    G = raw.total(over, read).real(rowmap.units)
    S, b = G[:r, :r], G[:r, r]
    lower = _lower_bound(BOUND_STEP, S, over, ask, read)
    proposal = auto_noise(lower, True, radius, ry, ry, rows, float_allowance(r, ask.n))
    assert proposal is not None  # a ridge always gives one
    rho, rtheta, h = proposal
    theta = solve_projected(S + rho * np.eye(r), b, rtheta)
    return raw.gaussian_real(STEP_NAMES["coef"], theta, h), lower, rho, h
