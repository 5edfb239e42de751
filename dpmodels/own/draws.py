"""Posterior draws and score perturbation with tested bounds (``models/linear/posterior.md``, 2).

theta ~ N(theta*, (gamma A)^{-1}), A = X'X + lam I, ridge and gamma by released bounds. Strengths
are those of the charged steps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.design import Design
from dpmodels.own.profile import largest_m, largest_s
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Profile, check_failure
from dpmodels.privacy.run import ROUND_UP, own_proof
from dpmodels.proof.prove import Of
from dpmodels.records import Release
from dpmodels.sums.ask import ALL, Added, Ask, Moments, Query, Raw, Read
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import unit_scale

EIGEN_STEP, RESIDUAL_STEP = "smallest eigenvalue", "residual bound"
#: Float allowance of sensitivities of eigenvalues and norms of exactly accumulated moments.
_ALLOW = 1.0 + 2.0**-20
#: Public grid of draws over the largest noise sd.
LAST = 2.0**-34


@dataclass(frozen=True)
class Bounds:
    """Public and released numbers from which a ridge is chosen."""

    kind: str
    # B, Y: bounds of |x| and |y|.
    B: float
    Y: float
    # mu2, rho: add/remove strengths of the residual bound and of a draw; delta_t: its failure.
    mu2: float
    rho: float
    delta_t: float
    d: int
    # lam_min, star, rbar: released lower bound of the least eigenvalue, that of A, released bound
    # of the residuals.
    lam_min: float
    star: float = 0.0
    rbar: float = math.nan


@dataclass(frozen=True)
class DrawDetail:
    """Public numbers of the draws that no charged step has."""

    kind: str  # {"posterior", "score"}
    B: float
    failure: float = 0.0  # Failure of each of the two bounds, and of all draws together
    draws: int = 1

    @abstractmethod
    def ridge(self, at: Bounds) -> float:
        """Return the least eigenvalue that A is to have: before (NaN) and after ``rbar``."""


@dataclass(frozen=True)
class LinearReleased:
    """Released and public numbers in addition to the draws."""

    # lam, lam_min, lam_star, rbar: ridge, released lower bound of the smallest eigenvalue, their
    # sum, residual bound.
    lam: float
    lam_min: float
    lam_star: float
    rbar: float
    # gamma, sigma: posterior precision factor, or sd of the score noise, of a draw (the other is
    # NaN).
    gamma: float
    sigma: float


def draw_name(j: int, draws: int) -> str:
    """Return the step name of draw j."""
    return "coefficients" if draws == 1 else f"coefficients, draw {j + 1}"


def ridge_solution(S: Array, b: Array, lam: float) -> tuple[Array, Array]:
    """Return (L, theta*) with L L' = S + lam I."""
    L = np.linalg.cholesky(S + lam * np.eye(len(b)))
    half = np.linalg.solve(L, b)
    return np.asarray(L), np.asarray(np.linalg.solve(L.T, half))


def sample(S: Array, b: Array, done: LinearReleased, normals: Array) -> Array:
    """Return theta* + L^{-T} normals / sqrt(gamma), or A^{-1}(b + sigma normals)."""
    L, theta = ridge_solution(S, b, done.lam)
    if done.sigma == done.sigma:
        noise = done.sigma * np.linalg.solve(L, normals)
    else:
        noise = normals / math.sqrt(done.gamma)
    return np.asarray(theta + np.linalg.solve(L.T, noise))


def release(plan: Plan[Any], ask: Ask, design: Design) -> Release:
    """Release two bounds, choose ridge and noise from them, and sample.

    Privacy
    -------
    Unit: one row. One-sided composition (``privacy/one_sided.md``, section 1): the bounds need to
    hold at the data set at hand only. Always answers, unless ranges could not be estimated.
    """
    detail, p = plan.detail, design.p
    box = np.append(np.full(p, detail.B), 1.0)
    over = Moments(design, RowMap(unit_scale(design), box, ball=p, radius=detail.B))
    raw = ask.raw(own_proof("posterior draws"))
    S, b = _ridge_moments(raw, over)
    names = [draw_name(j, detail.draws) for j in range(detail.draws)]
    if isinstance(raw.mechanism(names[0]), Profile):
        done = _by_public_bounds(plan, raw)
    else:
        done = _tested(ask, raw, over, (S, b), detail, plan.n)
    draws = np.array([sample(S, b, done, raw.inner_normals(name, p)) for name in names])
    values = {"draws": raw.on_grid(draws, noise_bound(done) * LAST)}
    if done.rbar == done.rbar:
        values |= {"lam_min": np.array(done.lam_min), "rbar": np.array(done.rbar)}
    return Release(values, plan.guarantee, design, detail=done)


def begin_draw(
    detail: DrawDetail, over: Moments, ask: Ask, read: Read
) -> tuple[Array, LinearReleased]:
    """Release two bounds and a draw, with the bounds.

    Privacy
    -------
    Unit: one row; replace-one. One-sided composition of bounds and draw, whose Gaussian form
    composes with the Gaussian steps before and after (``privacy/one_sided.md``, 1.1).
    """
    raw = ask.raw(own_proof("posterior draws"))
    S, b = _ridge_moments(raw, over, read)
    done = _tested(ask, raw, over, (S, b), detail, ask.n, read)

    def draw_of(normals: Array) -> Array:
        return raw.on_grid(sample(S, b, done, normals), noise_bound(done) * LAST)

    return raw.inner_draw(draw_name(0, 1), len(b), draw_of), done


def _ridge_moments(raw: Raw, over: Moments, read: Read = ALL) -> tuple[Array, Array]:
    """Return X'X and X'y. Confidential."""
    p = over.rowmap.ball
    G = raw.total(over, read).real(over.rowmap.units)
    return G[:p, :p], G[:p, p]


def _tested(
    ask: Ask, raw: Raw, over: Moments, moments: tuple[Array, Array], detail: DrawDetail,
    n: int | None, read: Read = ALL,
) -> LinearReleased:  # fmt: skip
    """Release the two bounds, and choose ridge and noise of the draws from them.

    ``moments``: X'X and X'y. ``n`` is None under add-remove. Under replace-one the steps are stated
    at twice the strength of their add/remove run.

    Privacy
    -------
    The two steps of the bounds; each needs to hold at the data set at hand only.
    """
    S, b = moments
    names = [draw_name(j, detail.draws) for j in range(detail.draws)]
    steps = (EIGEN_STEP, RESIDUAL_STEP, *names)
    mus = [raw.mechanism(name).mu / (1.0 if n is None else 2.0) for name in steps]
    charged = math.fsum(map(raw.failure, steps))
    x = detail.failure
    check_failure(math.hypot(*mus), 3.0 * x, charged, replaced=n is not None)
    B, Y = over.rowmap.radius, float(over.rowmap.box[-1])
    lemma = Of("least eigenvalue, by relation", (B**2,))
    low = ask(EIGEN_STEP, Query(lemma, over, lambda _: Added(np.linalg.eigvalsh(S)[:1])), read)
    lam_min = max(0.0, float(low.at_least(x)[0]))
    at = Bounds(detail.kind, B, Y, mus[1], min(mus[2:]), x / detail.draws, len(b), lam_min)
    star = max(detail.ridge(at), lam_min)
    _, theta = ridge_solution(S, b, star - lam_min)
    size = math.log(Y + B * float(np.linalg.norm(theta)))
    lemma = Of("log residual", (B**2 * _ALLOW, star))
    answer = ask(RESIDUAL_STEP, Query(lemma, over, lambda _: Added(np.array([size]))), read)
    rbar = bounded(math.exp(min(700.0, float(answer.at_most(x)[0]))), B, Y, star - lam_min, n)
    # the bounds hold for every larger ridge at once
    at = replace(at, star=star, rbar=rbar)
    return calibrated(at, max(star, detail.ridge(at)))


def bounded(rbar: float, B: float, Y: float, lam0: float, n: int | None) -> float:
    """Return rbar with its public ends: at least Y; under replace-one at most the free bound."""
    rbar = max(rbar, Y)
    if n is not None and lam0 > 0:
        rbar = min(rbar, Y + B * Y * math.sqrt(n) / (2.0 * math.sqrt(lam0)))
    return rbar


def calibrated(at: Bounds, star: float) -> LinearReleased:
    """Return the noise of a draw, from released numbers: post-processing, free."""
    hbar = at.B**2 / star * _ALLOW
    gamma = sigma = math.nan
    if at.kind == "posterior":
        gamma = (largest_s(hbar, at.rho, at.delta_t) / at.rbar) ** 2 / ROUND_UP**2
    else:
        sigma = at.B * at.rbar / largest_m(hbar, at.rho, at.delta_t) * ROUND_UP
    return LinearReleased(star - at.lam_min, at.lam_min, star, at.rbar, gamma, sigma)


def _by_public_bounds(plan: Plan[Any], raw: Raw) -> LinearReleased:
    """Return ridge and noise by n and the charged profile alone: bounds that hold for all rows."""
    charged, B, n = dict(raw.mechanism(draw_name(0, 1)).parameters), plan.detail.B, plan.public_n
    lam = plan.detail.lam
    if not B * B / lam <= charged["h"]:
        raise PrivacyBugError("rows may have more leverage than was charged for")
    tbar = min(math.sqrt(n / (4.0 * lam)), n * B / lam)
    gamma = (charged["s"] / (1.0 + B * tbar)) ** 2
    return LinearReleased(lam, math.nan, lam, math.nan, gamma, math.nan)


def noise_bound(released: LinearReleased) -> float:
    """Return the bound of the noise sd of a working coefficient: released numbers only."""
    if released.sigma == released.sigma:
        return released.sigma / released.lam_star
    return 1.0 / math.sqrt(released.gamma * released.lam_star)
