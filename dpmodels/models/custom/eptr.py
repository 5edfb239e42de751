"""Backend of ``dp_eptr``: a user's own estimator made private by a test that the user proves.

Three forms: a coin on a safety lower bound (Shen, Tong and Wang, Algorithm 2, general split), the
classic test on a distance (Dwork and Lei 2009), a released lower bound.
Statements and proofs: ``privacy/propose.md`` 1, 2; ``models/mean/theory.md`` 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.exact.ask import Raw
from dpmodels.planning import Plan
from dpmodels.privacy.gdp import agm, mu_gdp
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.propose import (
    integer_coin,
    laplace_test_probability,
    reply_probability,
    split_midpoint,
)
from dpmodels.privacy.run import tail_margin
from dpmodels.ranges import FAILURE_SHARE
from dpmodels.release import Estimate, Release
from dpmodels.sources.summed import sampled

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request
    from dpmodels.sources.rows import Rows

BOUND_SHARE = 0.15
#: Relative allowance for the public grid of a release.
GRID = 1.0 + 2.0**-20


@dataclass(frozen=True)
class EptrDetail:
    """The user's functions and the split of the budget."""

    estimator: Callable[[Array], Any]
    safety: Callable[[Array], Any]
    alpha: Any
    size: int
    coin: str = "integer"
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0
    sensitivity: float = 1.0
    mu: tuple[float, float] = (0.0, 0.0)
    delta_f: float = 0.0


def _functions(request: Request) -> tuple[Any, Any, Any, int]:
    estimator, safety, alpha = request["estimator"], request["safety"], request["alpha"]
    for name, f in (("estimator", estimator), ("safety", safety)):
        if not callable(f):
            raise RequestError(f"{name}= must be a function of an (n, k) array, got {shown(f)}")
    size = request["size"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RequestError(
            f"size= is the length of the estimate, for example size=1; got {shown(size)}"
        )
    return estimator, safety, alpha, size


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a private release of a user's estimator."""
    estimator, safety, alpha, size = _functions(request)
    if request.method.name == "bound":
        steps, detail = _plan_bound(request, estimator, safety, alpha, size)
    else:
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not alpha > 0:
            raise RequestError(
                "alpha= must be a positive number: a bound on the change of the estimate "
                f"wherever the safety bound is positive; got {shown(alpha)}"
            )
        eps_t = request.eps * float(request["test_share"])
        label = "Laplace test and Gaussian" if request.method.name == "ptr" else "coin and Gaussian"
        step = Step(
            "test and estimate",
            Approximate(request.eps, request.delta),
            share=1.0,
            reply_test=True,
            label=label,
        )
        steps = (step,)
        detail = EptrDetail(
            estimator,
            safety,
            float(alpha),
            size,
            coin="laplace" if request.method.name == "ptr" else request["coin"],
            eps_t=eps_t,
            eps_r=request.eps - eps_t,
            delta=request.delta,
        )
    return Plan.of(
        request,
        design,
        n,
        steps,
        detail=detail,
    )


def _plan_bound(
    request: Request, estimator: Any, safety: Any, alpha: Any, size: int
) -> tuple[tuple[Step, ...], EptrDetail]:
    if not callable(alpha):
        raise RequestError(
            "method='bound' needs alpha= as a decreasing function h(l): a bound on the change of "
            "the estimate whenever l is at most the larger of the two statistics, infinite where "
            "there is none. For example alpha=lambda l: 2 / l if l > 0 else float('inf')"
        )
    delta_f = FAILURE_SHARE * request.delta
    mu = mu_gdp(request.eps, request.delta - delta_f)
    mus = (math.sqrt(BOUND_SHARE) * mu, math.sqrt(1.0 - BOUND_SHARE) * mu)
    steps = (
        Step("lower bound and test", Gaussian(mus[0]), share=BOUND_SHARE, failure=delta_f,
             reply_test=True),
        Step("estimate", Gaussian(mus[1]), share=1.0 - BOUND_SHARE),
    )  # fmt: skip
    detail = EptrDetail(
        estimator,
        safety,
        alpha,
        size,
        sensitivity=float(request["sensitivity"]),
        mu=mus,
        delta_f=delta_f,
    )
    return steps, detail


def safe_vector(f: Callable[[Array], Any], x: Array, size: int) -> Array:
    """Return f(x) as a vector of ``size``; zeros if it raises, is not finite or has another size.

    The text of an exception is never shown: it could quote rows.
    """
    try:
        out = np.asarray(f(x.copy()), dtype=float).ravel()
    except KeyboardInterrupt:  # the guard raises a fresh one
        raise
    except BaseException:  # CancelledError and SystemExit too: they may depend on private rows
        return np.zeros(size)
    if out.shape != (size,) or not np.isfinite(out).all():
        return np.zeros(size)
    return out


def safe_number(f: Callable[[Array], Any], x: Array) -> float:
    """Return f(x) as a number; 0 if it raises or is not a finite positive number."""
    try:
        value = float(f(x.copy()))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def reply(detail: EptrDetail, gamma: float) -> float:
    """Return the reply probability at gamma by the chosen test."""
    if detail.coin == "laplace":
        return laplace_test_probability(gamma, detail.eps_t, detail.delta)
    # A hair below the whole number keeps a rounding error from becoming a step of one.
    whole = math.ceil(gamma / GRID)
    if detail.coin == "sharp":
        return integer_coin(whole, detail.eps_t, detail.delta)
    value = whole if detail.coin == "integer" else gamma
    return reply_probability(value, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))


def _rows(plan: Plan[Any], rows: Rows) -> Array:
    """Return the table (n, k); a row with a missing cell is a row of zeros."""
    design = plan.design
    x = sampled(rows, design, range(design.p)).T
    x[np.isnan(x).any(axis=1)] = 0.0
    return np.ascontiguousarray(x)


def release(plan: Plan[EptrDetail], ask: Ask) -> Release:
    """Test, then release the user's estimate.

    Privacy
    -------
    Unit: one row; replace-one, n public. True if the user's two conditions are.
    """
    raw = ask.raw(own_proof("ePTR of the user's own estimator"))
    detail = plan.detail
    x = _rows(plan, raw.rows)
    value = safe_vector(detail.estimator, x, detail.size)
    gamma = safe_number(detail.safety, x)
    if plan.request.method.name == "bound":
        return _release_bound(plan, detail, value, gamma, raw)
    sd = detail.alpha * GRID * agm(detail.eps_r, detail.delta)
    noisy = raw.coin_gaussian("test and estimate", reply(detail, gamma), value, sd)
    if noisy is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="test")
    return Release({"estimate": noisy}, plan.guarantee, plan.design, detail=sd)


def _release_bound(
    plan: Plan[Any], detail: EptrDetail, value: Array, lam: float, raw: Raw
) -> Release:
    s = detail.sensitivity * GRID
    mu_t, mu_r = detail.mu
    noisy = float(raw.gaussian_real("lower bound and test", lam, s))
    lower = noisy - tail_margin(s / mu_t, detail.delta_f)
    h = safe_number(lambda _: detail.alpha(lower), np.zeros(1))
    if h <= 0.0:  # not a positive finite number: no valid bound
        return Release(
            {"lower": np.array(lower)}, plan.guarantee, plan.design, reply=False, why="test"
        )
    out = raw.gaussian_real("estimate", value, h * GRID)
    return Release(
        {"estimate": out, "lower": np.array(lower)},
        plan.guarantee,
        plan.design,
        detail=h * GRID / mu_r,
    )


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Return the released vector with the sd of its noise."""
    size = plan.detail.size
    given = plan.request["names"]
    names = tuple(given) if given else tuple(f"T[{j}]" for j in range(size))
    if not release.reply:
        return Estimate.silent(names)
    sd = float(release.detail)
    return Estimate(
        names,
        release.values["estimate"],
        vcov_privacy=sd * sd * np.eye(size),
        stats={"noise_sd": sd},
        notes=(
            "The guarantee holds if the safety bound and the sensitivity given by the user are "
            "correct: check them with dpmodels.check_safety, and prove them.",
        ),
    )
