"""Propose-test-release of a user's estimator or mechanism, and of the classic mean.

A user's estimator has three forms: a coin on a safety lower bound (Shen, Tong and Wang, Algorithm
2, general split), the classic test on a distance (Dwork and Lei 2009), a released lower bound.
Pairs, strengths and failures are those of the charged steps. Statements and proofs:
``privacy/propose.md`` 1, 2; ``privacy/one_sided.md`` 1; ``models/mean.md`` 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import agm
from dpmodels.privacy.noise import (
    integer_coin,
    laplace_test_probability,
    reply_probability,
    split_midpoint,
)
from dpmodels.privacy.run import ROUND_UP, own_proof, tail_margin
from dpmodels.records import Release
from dpmodels.sources.summed import sampled
from dpmodels.sums.ask import Ask, Raw

REPLY_STEP, TEST_STEP, ESTIMATE_STEP = "test and estimate", "lower bound and test", "estimate"
LOSS_STEP, OUTPUT_STEP, MEAN_STEP = "privacy loss", "mechanism", "distance test and mean"
#: Relative allowance for the public grid of a release.
GRID_ALLOWANCE = 1.0 + 2.0**-20


@dataclass(frozen=True)
class EptrDetail:
    """The coin of a test, and the part of the charged eps that it has."""

    coin: str
    eps_t: float


def _result_or_none(function: Callable[[], Any]) -> Any:
    """Return the result of a user-supplied function, or None if it raises.

    The text of an exception is never shown: it could quote rows.
    """
    try:
        return function()
    except KeyboardInterrupt:  # the guard raises a fresh one
        raise
    except BaseException:  # CancelledError and SystemExit too: they may depend on private rows
        return None


def _vector(f: Callable[..., Any], size: int, *args: Any) -> Array:
    """Return f's result of length ``size``, or zeros if it raises or has another length."""
    out = _result_or_none(lambda: np.asarray(f(*args), dtype=float).ravel())
    return np.zeros(size) if out is None or out.shape != (size,) else np.asarray(out)


def safe_vector(f: Callable[[Array], Any], x: Array, size: int) -> Array:
    """Return f(x), of length ``size``; zeros if it raises, is not finite or has another length."""
    out = _vector(f, size, x.copy())
    return out if np.isfinite(out).all() else np.zeros(size)


def _number(function: Callable[..., Any], *args: Any) -> float:
    """Return a finite number, or infinity: a loss that cannot be computed is not bounded."""
    value = _result_or_none(lambda: float(function(*args)))
    return value if value is not None and math.isfinite(value) else math.inf


def safe_number(f: Callable[[Array], Any], x: Array) -> float:
    """Return f(x) as a number; 0 if it raises or is not a finite positive number."""
    value = _number(f, x.copy())
    return value if 0.0 < value < math.inf else 0.0


def reply(detail: EptrDetail, delta: float, gamma: float) -> float:
    """Return the reply probability at gamma by the chosen test."""
    if detail.coin == "laplace":
        return laplace_test_probability(gamma, detail.eps_t, delta)
    # A hair below the whole number keeps a rounding error from becoming a step of one.
    integer_gamma = math.ceil(gamma / GRID_ALLOWANCE)
    if detail.coin == "sharp":
        return integer_coin(integer_gamma, detail.eps_t, delta)
    value = integer_gamma if detail.coin == "integer" else gamma
    return reply_probability(value, detail.eps_t, split_midpoint(detail.eps_t, delta))


def release_eptr(plan: Plan[EptrDetail | None], ask: Ask) -> Release:
    """Test, then release the user's estimate.

    **Privacy.** Unit: one row; replace-one, n public. True if the user's two conditions are.
    """
    raw = ask.raw(own_proof("ePTR for a user-supplied estimator"))
    detail = plan.detail
    x = np.ascontiguousarray(sampled(raw.rows, plan.design, range(plan.design.p)).T)
    x[np.isnan(x).any(axis=1)] = 0.0  # a row with a missing cell is a row of zeros
    value = safe_vector(plan.request["estimator"], x, plan.request["size"])
    gamma = safe_number(plan.request["safety"], x)
    if detail is None:
        return _release_bound(plan, value, gamma, raw)
    pair = raw.mechanism(REPLY_STEP)
    sd = float(plan.request["alpha"]) * GRID_ALLOWANCE * agm(pair.eps - detail.eps_t, pair.delta)
    noisy = raw.coin_gaussian(REPLY_STEP, reply(detail, pair.delta, gamma), value, sd)
    if noisy is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="test")
    return Release({"estimate": noisy}, plan.guarantee, plan.design, detail=sd)


def _release_bound(plan: Plan[Any], value: Array, lam: float, raw: Raw) -> Release:
    """Release a lower bound of the safety number, then the estimate if the bound is valid."""
    s = float(plan.request["sensitivity"]) * GRID_ALLOWANCE
    mu_t, mu_r = (raw.mechanism(name).mu for name in (TEST_STEP, ESTIMATE_STEP))
    margin = tail_margin(s / mu_t, raw.failure(TEST_STEP))
    lower = float(raw.gaussian_real(TEST_STEP, lam, s)) - margin
    values = {"lower": np.array(lower)}
    h = safe_number(lambda _: plan.request["alpha"](lower), np.zeros(1))
    if h <= 0.0:  # not a positive finite number: no valid bound
        return Release(values, plan.guarantee, plan.design, reply=False, why="test")
    values = {"estimate": raw.gaussian_real(ESTIMATE_STEP, value, h * GRID_ALLOWANCE), **values}
    return Release(values, plan.guarantee, plan.design, detail=h * GRID_ALLOWANCE / mu_r)


# -- ``dp_gptr``: a user's mechanism whose privacy loss depends on the data.


def last_bits(out: Array) -> Array:
    """Return grids of 32 significant bits: public numbers, whatever noise the user drew."""
    return np.asarray(np.ldexp(1.0, np.maximum(np.frexp(out)[1] - 32, -1074)))


def release_gptr(plan: Plan[None], ask: Ask) -> Release:
    """Release an upper bound of the privacy loss; then the mechanism, if the bound allows.

    **Privacy.** Unit: one row. The charged eps and failure of the bound, and the mechanism's pair:
    the one-sided composition (``privacy/one_sided.md``, section 1), **if the user's bounds are
    right**.
    """
    raw = ask.raw(own_proof("generalized propose-test-release for a user-supplied mechanism"))
    request, design, pair = plan.request, plan.design, raw.mechanism(OUTPUT_STEP)
    eps_t, failure = raw.mechanism(LOSS_STEP).eps, raw.failure(LOSS_STEP)
    # read by the caller: the user's functions take all rows at once, and are not sent to workers;
    # a row with a missing cell is a row of zeros
    parts = [np.where(np.isnan(b).any(0), 0.0, b).T for b in raw.rows.blocks(design)]
    Z = np.vstack([np.zeros((0, design.p)), *parts])
    sensitivity = float(request["sensitivity"])
    # an unbounded loss is released as a number far beyond any use
    loss = min(_number(request["privacy_loss"], Z), 1e9 * max(1.0, sensitivity))
    s = sensitivity * GRID_ALLOWANCE
    noisy = float(raw.laplace_real(LOSS_STEP, loss, s))
    scale = s / eps_t * ROUND_UP
    # P(Laplace < -t) = exp(-t/scale)/2; one grid step more for the lattice
    bound = noisy + scale * (math.log(1.0 / (2.0 * failure)) + 2.0**-20)
    values = {"loss bound": np.array(bound)}
    arguments = [Z]
    if request.method.name == "propose":
        if bound > pair.eps:
            return Release(values, plan.guarantee, design, reply=False, why="test")
    else:
        arguments.append(request["choose"](bound, pair.eps, pair.delta))
    out = _vector(request["mechanism"], request["size"], *arguments, raw.inner_source(OUTPUT_STEP))
    out = np.where(np.isfinite(out), out, 0.0)
    values["output"] = raw.on_grid(out, last_bits(out))
    return Release(values, plan.guarantee, design)


# -- ``dp_mean(method="ptr")``: the clipped mean about the fullest intervals of a known width.
#
# Box of known half-width c a coordinate; ``m_j`` is the largest number of points of coordinate j in
# an interval of width 2c; distance to the unsafe sets ``k = (min_j m_j - (n - T) + 1)_+``; the test
# is ``k + Lap(1/eps_t) >= log(1/delta)/eps_t``; then coordinates are clipped to their best interval
# and averaged, sensitivity ``sqrt(d) (4 T + 6) c / n`` (``mean.md`` section 6).


@dataclass(frozen=True)
class PtrMeanDetail:
    """Half-widths c_j, slack T, and the part of the charged eps for the test."""

    width: Array
    slack: int
    eps_t: float


def sensitivity(detail: PtrMeanDetail, n: int) -> float:
    """Return sqrt(d) (4 T + 6) c / n; the factor allows for float clipping and the public grid."""
    if n <= 2 * (detail.slack + 1):
        raise PrivacyBugError("two best intervals may have no row in common")
    d = len(detail.width)
    c = float(detail.width.max())
    return math.sqrt(d) * (4 * detail.slack + 6) * c / n * GRID_ALLOWANCE


def best_interval(values: Array, c: float) -> tuple[int, float]:
    """Return (m, start): the most points in an interval of width 2c, and its lower end.

    Ties: the smallest. Missing values lie outside every interval. Points are compared by their
    differences, which floats round relative to the difference: sums such as ``v + 2c``, and the
    middle of the interval, lose the width where values are large.
    """
    v = np.sort(values[np.isfinite(values)])
    n = len(v)
    if not n:
        return 0, 0.0
    first, beyond = np.arange(n), np.full(n, n)
    inside = first.copy()  # the last point within 2c, by bisection
    while (beyond - inside > 1).any():
        middle = (inside + beyond) // 2
        near = v[middle] - v <= 2.0 * c
        inside, beyond = np.where(near, middle, inside), np.where(near, beyond, middle)
    counts = beyond - first
    best = int(np.argmax(counts))
    return int(counts[best]), float(v[best])


def distance(values: Array, width: Array, slack: int, n: int) -> tuple[int, Array]:
    """Return (k, starts): the integer distance to the complement of the safe set."""
    intervals = [best_interval(v, float(c)) for v, c in zip(values, width, strict=True)]
    fewest = min(m for m, _ in intervals)
    return max(0, fewest - (n - slack) + 1), np.array([start for _, start in intervals])


def release_ptr(plan: Plan[PtrMeanDetail], ask: Ask) -> Release:
    """Test the distance, then release the clipped mean.

    **Privacy.** Unit: one row; replace-one, n public. The charged pair: ``mean.md``, section 6.
    """
    raw = ask.raw(own_proof("classic propose-test-release, mean"))
    detail = plan.detail
    n = ask.n
    values = sampled(raw.rows, plan.design, range(plan.design.p))
    k, start = distance(values, detail.width, detail.slack, n)
    pair = raw.mechanism(MEAN_STEP)
    probability = laplace_test_probability(k, detail.eps_t, pair.delta)
    width = detail.width[:, None]
    offset = np.clip(values - start[:, None], 0.0, 2.0 * width)
    mean = np.where(np.isnan(offset), width, offset).sum(axis=1) / n
    sd = agm(pair.eps - detail.eps_t, pair.delta) * sensitivity(detail, n)
    noisy = raw.coin_gaussian(MEAN_STEP, probability, mean, sd, base=start)
    if noisy is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="test")
    return Release({"mean": noisy}, plan.guarantee, plan.design)
