"""``dp_mean(method="ptr")``: the classic Propose-Test-Release mean, for teaching.

Box of known half-width c a coordinate; ``m_j`` is the largest number of points of coordinate j in
an interval of width 2c; distance to the unsafe sets ``k = (min_j m_j - (n - T) + 1)_+``; the test
is ``k + Lap(1/eps_t) >= log(1/delta)/eps_t``; then coordinates are clipped to their best interval
and averaged, sensitivity ``sqrt(d) (4 T + 6) c / n`` (``mean.md`` section 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Step, agm
from dpmodels.privacy.noise import laplace_test_probability
from dpmodels.privacy.run import own_proof
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Method, positive, register_method, share
from dpmodels.sources.summed import sampled

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sums.ask import Ask


@dataclass(frozen=True)
class PtrMeanDetail:
    """Half-widths c_j, slack T, the two parts of eps, and delta."""

    width: Array
    slack: int
    eps_t: float
    eps_r: float
    delta: float


def plan_ptr(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan T = ceil((log(1/delta) + log(1/beta)) / eps_t); needs n > 2 (T + 1)."""
    if request["width"] is None:
        raise RequestError(
            "method='ptr' needs width=: the known half-width of the data around their centre, for "
            "example width=4*sd for an sd known from elsewhere. Without one use method='clipped'"
        )
    eps_t = request.eps * float(request["test_share"])
    delta = request.delta
    slack = math.ceil((math.log(1 / delta) + math.log(1 / float(request["beta"]))) / eps_t)
    if n <= 2 * (slack + 1):
        raise RequestError(
            f"n = {n} is too small for this test: it needs n > {2 * (slack + 1)} at this eps and "
            "delta (eptr mean). Use method='clipped'"
        )
    width = np.full(design.p, float(request["width"]))
    step = Step(
        "distance test and mean", Approximate(request.eps, delta), share=1.0, reply_test=True,
        label="Laplace test and Gaussian", no_reply_eps=eps_t,
    )  # fmt: skip
    detail = PtrMeanDetail(width, slack, eps_t, request.eps - eps_t, delta)
    sd = agm(detail.eps_r, delta) * sensitivity(detail, n)
    return Plan.of(
        request, design, n, (step,), scales={"slack T": float(slack), "noise sd": sd},
        expected_se=dict.fromkeys(design.names, sd), detail=detail,
    )  # fmt: skip


def sensitivity(detail: PtrMeanDetail, n: int) -> float:
    """Return sqrt(d) (4 T + 6) c / n; the factor allows for float clipping and the public grid."""
    d = len(detail.width)
    c = float(detail.width.max())
    return math.sqrt(d) * (4 * detail.slack + 6) * c / n * (1.0 + 2.0**-20)


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

    **Privacy.** Unit: one row; replace-one, n public. (eps_t + eps_r, delta): ``mean.md`` section
    6.
    """
    raw = ask.raw(own_proof("classic propose-test-release, mean"))
    detail = plan.detail
    n = ask.n
    values = sampled(raw.rows, plan.design, range(plan.design.p))
    k, start = distance(values, detail.width, detail.slack, n)
    probability = laplace_test_probability(k, detail.eps_t, detail.delta)
    width = detail.width[:, None]
    offset = np.clip(values - start[:, None], 0.0, 2.0 * width)
    mean = np.where(np.isnan(offset), width, offset).sum(axis=1) / n
    sd = agm(detail.eps_r, detail.delta) * sensitivity(detail, n)
    noisy = raw.coin_gaussian("distance test and mean", probability, mean, sd, base=start)
    if noisy is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="test")
    return Release({"mean": noisy}, plan.guarantee, plan.design)


def estimate_ptr(plan: Plan[Any], release: Release) -> Estimate:
    """Return means with the known privacy error; nothing is spent on the sampling error."""
    names = plan.design.names
    if not release.reply:
        return Estimate.silent(names)
    sd = plan.scales["noise sd"]
    return Estimate(names, release.values["mean"], vcov_privacy=sd * sd * np.eye(len(names)))


PTR = Backend(plan_ptr, release_ptr, estimate_ptr)


register_method(
    Method(
        name="ptr",
        verb="dp_mean",
        proof="models/mean.md",
        foretells=True,
        title="Propose-Test-Release mean",
        backend=PTR,
        by_rows=True,
        needs=("delta > 0", "width"),
        inference="no (privacy part only)",
        privacy_se="public",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(
            positive("width", "known half-width of the data around their centre"),
            share("beta", "probability of no reply on good data", 0.05),
            share("test_share", "share of eps for the test", 0.5),
        ),
        comparison_only=True,
    )
)
