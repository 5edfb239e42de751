"""The private stage of posterior sampling and score perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.lemmas import Of
from dpmodels.exact.passes import Moments
from dpmodels.exact.rowmap import RowMap, UnitScale, unit_scale
from dpmodels.models.linear.gptr_plan import (
    EIGEN_STEP,
    RESIDUAL_STEP,
    LinearDetail,
    choose_ridge,
    draw_name,
    largest_m,
    ridge_floor,
)
from dpmodels.models.linear.posterior import largest_s
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import ROUND_UP
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.planning import Plan

#: Float allowance of sensitivities of eigenvalues and norms of exactly accumulated moments.
_ALLOW = 1.0 + 2.0**-20


@dataclass(frozen=True)
class LinearReleased:
    """Released and public numbers beside the draws.

    Attributes
    ----------
    unit : UnitScale
    lam, lam_min, lam_star, rbar : float
        Ridge, released lower bound of the smallest eigenvalue, their sum, residual bound.
    gamma, sigma : float
        Of a draw: posterior precision factor, or sd of the score noise (the other is NaN).
    raised : bool
        The user's ridge was too small for the released bound and was raised.
    """

    unit: UnitScale
    lam: float
    lam_min: float
    lam_star: float
    rbar: float
    gamma: float
    sigma: float
    raised: bool


def ridge_solution(S: Array, b: Array, lam: float) -> tuple[Array, Array]:
    """Return (L, theta*) with L L' = S + lam I."""
    L = np.linalg.cholesky(S + lam * np.eye(len(b)))
    half = np.linalg.solve(L, b)
    return np.asarray(L), np.asarray(np.linalg.solve(L.T, half))


def sample(S: Array, b: Array, lam: float, normals: Array, *, gamma: float, sigma: float) -> Array:
    """Return theta* + L^{-T} normals / sqrt(gamma), or A^{-1}(b + sigma normals)."""
    L, theta = ridge_solution(S, b, lam)
    if sigma == sigma:
        noise = sigma * np.linalg.solve(L, normals)
    else:
        noise = normals / math.sqrt(gamma)
    return np.asarray(theta + np.linalg.solve(L.T, noise))


def adaops_ridge(d: int, eps: float, delta: float, lam_min: float) -> float:
    """Return the ridge rule of AdaOPS (Wang 2018), in units of B^2; a heuristic, no privacy."""
    l6 = math.log(6.0 / delta)
    ebar = (math.sqrt(1.0 + l6 * eps / 2.0) - 1.0) / l6
    c1 = (d / 2 + math.sqrt(d * math.log(20)) + math.log(20)) * l6 / ebar**2
    c2 = l6 / (eps / 4)
    start = max(0.0, (1 + l6) / (eps / 2) - lam_min)
    t = start + np.concatenate([[0.0], np.geomspace(1e-2, 1e8, 400)])
    with np.errstate(all="ignore"):
        cost = np.log(c1) + 2 * c2 * np.log1p(1 / (t + lam_min)) - np.log(t + lam_min)
        cost = np.logaddexp(cost, np.log(np.maximum(t, 1e-300)))
    return float(t[int(np.nanargmin(cost))])


def _ridge(
    plan: Plan[Any], detail: LinearDetail, lam_min: float, d: int
) -> tuple[float, float, bool]:
    """Return (lam_star0, lam_0, raised), from released numbers."""
    B2 = detail.B**2
    least = ridge_floor(detail.kind, B2, detail.mu2, detail.rho, detail.delta_t, detail.floor)
    asked = detail.lam
    if detail.rule == "adaops":
        request = plan.request
        asked = B2 * adaops_ridge(d, request.eps, request.delta, lam_min / B2)
    star = max(lam_min + asked, least)
    lam0 = star - lam_min
    return star, lam0, detail.rule == "fixed" and lam0 > asked * (1 + 1e-12)


def _bounded(rbar: float, detail: LinearDetail, lam0: float) -> float:
    """Return rbar with its public ends: at least Y; under replace-one at most the free bound."""
    rbar = max(rbar, detail.Y)
    if detail.n is not None and lam0 > 0:
        top = detail.Y + detail.B * detail.Y * math.sqrt(detail.n) / (2.0 * math.sqrt(lam0))
        rbar = min(rbar, top)
    return rbar


def release(plan: Plan[LinearDetail], ask: Ask) -> Release:
    """Release two bounds, choose ridge and noise from them, and sample.

    Privacy
    -------
    Unit: one row. One-sided composition (``posterior.md``, section 1): the bounds need to hold at
    the data set at hand only. Always answers, unless ranges could not be bought.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    p, unit = design.p, unit_scale(design)
    box = np.append(np.full(p, detail.B), detail.Y)
    rowmap = RowMap(unit, box, ball=p, radius=detail.B)
    raw = ask.raw(own_proof("posterior draws"))
    over = Moments(design, rowmap)
    G = raw.total(over).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    if detail.rule == "ops":
        normals = raw.inner_normals("coefficients", p)
        draw = sample(S, b, detail.lam, normals, gamma=detail.gamma, sigma=math.nan)
        done = LinearReleased(
            unit, detail.lam, math.nan, detail.lam, math.nan, detail.gamma, math.nan, False
        )
        return Release({"draws": _rounded(draw[None], done)}, plan.guarantee, design, detail=done)
    B2 = detail.B**2 * _ALLOW
    lemma = Of("least eigenvalue, by relation", (detail.B**2,))
    low = ask(EIGEN_STEP, Query(lemma, over, lambda _: Added(np.linalg.eigvalsh(S)[:1])))
    lam_min = max(0.0, float(low.at_least(detail.d1)[0]))
    star0, lam0, raised = _ridge(plan, detail, lam_min, p)
    _, theta = ridge_solution(S, b, lam0)
    size = math.log(detail.Y + detail.B * float(np.linalg.norm(theta)))
    lemma = Of("log residual", (B2, star0))
    found = ask(RESIDUAL_STEP, Query(lemma, over, lambda _: Added(np.array([size]))))
    rbar = _bounded(math.exp(min(700.0, float(found.at_most(detail.d2)[0]))), detail, lam0)
    done = _calibrate(detail, unit, lam_min, star0, rbar, raised, p)
    draws = [
        sample(
            S, b, done.lam, raw.inner_normals(draw_name(j, detail.draws), p),
            gamma=done.gamma, sigma=done.sigma,
        )
        for j in range(detail.draws)
    ]  # fmt: skip
    values = {
        "draws": _rounded(np.array(draws), done),
        "lam_min": np.array(lam_min),
        "rbar": np.array(rbar),
    }
    return Release(values, plan.guarantee, design, detail=done)


def _calibrate(
    detail: LinearDetail,
    unit: UnitScale,
    lam_min: float,
    star: float,
    rbar: float,
    raised: bool,
    d: int,
) -> LinearReleased:
    """Choose the ridge and the noise from released numbers: post-processing, free."""
    B2 = detail.B**2
    if detail.rule == "auto":
        star = choose_ridge(
            detail.kind, lam_star0=star, lam_min=lam_min, rbar=rbar, Y=detail.Y, B=detail.B,
            d=d, rho=detail.rho, delta_t=detail.delta_t,
        )  # fmt: skip
    hbar = B2 / star * _ALLOW
    gamma = sigma = math.nan
    if detail.kind == "posterior":
        gamma = (largest_s(hbar, detail.rho, detail.delta_t) / rbar) ** 2 / ROUND_UP**2
    else:
        sigma = detail.B * rbar / largest_m(hbar, detail.rho, detail.delta_t) * ROUND_UP
    return LinearReleased(unit, star - lam_min, lam_min, star, rbar, gamma, sigma, raised)


def noise_bound(released: LinearReleased) -> float:
    """Return the bound of the noise sd of a working coefficient: released numbers only."""
    if released.sigma == released.sigma:
        return released.sigma / released.lam_star
    return 1.0 / math.sqrt(released.gamma * released.lam_star)


def _rounded(draws: Array, released: LinearReleased) -> Array:
    """Round to a public grid of 2^-34 of the largest noise sd."""
    grid = noise_bound(released) * 2.0**-34
    return np.asarray(np.round(draws / grid) * grid)
