"""``dp_mean``: means of clipped columns in one Gaussian release, and Propose-Test-Release.

Row (in unit half-ranges) ``u in [-1, 1]^d``, or the zero row if a cell is missing. Released
together: the sums of u and ``k`` times the count of complete rows, ``k^2 = 3 d``. Two complete
rows differ by at most ``2 sqrt(d)``, a complete and a zero row by ``sqrt(d + k^2) = 2 sqrt(d)``:
the count is free. Standard errors take the second-moment matrix ``sum u u'`` (Frobenius
sensitivity ``sqrt(2) d``; ``1`` for d = 1) at a share of the budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models import weights
from dpmodels.models.weights import powers
from dpmodels.planning import Plan, expected_errors
from dpmodels.privacy.mechanisms import Approximate, Pure, Step, agm
from dpmodels.privacy.noise import laplace_test_probability
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import noise_of
from dpmodels.proof.sets import Box, ConvexHull
from dpmodels.proof.statistics import Gram, Powers, Sum
from dpmodels.ranges import Split, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Ending,
    Method,
    positive,
    register_method,
    share,
)
from dpmodels.sources.summed import sampled
from dpmodels.sums.ask import Added, Ask, Counts, Moments, Query, first_array
from dpmodels.sums.rowmap import RowMap, UnitScale, WithOne

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note


VARIANCE_SHARE = 0.2


def plan_clipped(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the release of d clipped means."""
    square = VARIANCE_SHARE if request.inference else 0.0
    split = Split(
        request, design,
        {"mean": ("means and count", 1.0 - square), "variance": ("second moments", square)},
    )  # fmt: skip
    sd = float(noise_of(sums_and_count(design.p), split["mean"], "replace")[0])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    return split.plan(n, scales={"noise sd of a sum in half-ranges": sd}, expected_se=expected)


def mean_scale(design: Design) -> tuple[RowMap, Array, Array]:
    """Return the map to ``(u_1, ..., u_d, 1)`` in the unit box, centres and half-ranges."""
    intervals = design.intervals()
    centre = intervals.mean(axis=1)
    half = np.maximum((intervals[:, 1] - intervals[:, 0]) / 2.0, 1e-300)
    d = len(centre)
    unit = UnitScale(1.0 / half, -centre / half, False)
    return RowMap(unit, np.ones(d)), centre, half


def _box(d: int, people: bool) -> Box | ConvexHull:
    return ConvexHull(Box(d)) if people else Box(d)


def sums_and_count(d: int, people: bool = False) -> Sum:
    """Return the statistic of d sums and the count, which is free at this weight."""
    return Sum(_box(d, people), count=math.sqrt(3.0 * d), products=True)


@with_ranges
def release_clipped(plan: Plan[Any], ask: Ask, design: Design) -> Release:
    """Release sums, the count of complete rows and (with inference) second moments.

    **Privacy.** Unit: one row; replace-one, n public. Sensitivities: module docstring. For people
    the row of a person is the mean of its complete rows (``units.md``, 8): the same bounds.
    """
    rowmap, centre, half = mean_scale(design)
    d, people = design.p, plan.request.unit is not None
    over = Moments(design, rowmap if people else WithOne(rowmap), people=people, average=people)
    # For people the query is (u, whether there is a complete row, 1).
    query = Query(sums_and_count(d, people), over, lambda G: Added(G.integers()[-1, : d + 1]))
    sums = ask("means and count", query).values
    values = {"sums": sums[:d], "count": sums[d:]}
    if "variance" in plan.detail:
        squares = Query(Gram(_box(d, people)), over, lambda G: Added(G.integers()[:d, :d]))
        values["squares"] = ask("second moments", squares).values
    return Release(values, plan.guarantee, design, detail=(centre, half))


def estimate_clipped(plan: Plan[Any], release: Release) -> Estimate:
    """Return means ``c + h S/N``, N the released count, with errors by the delta method."""
    names = release.design.names
    d = len(names)
    if not release.reply:
        return Estimate.silent(names)
    (centre, half), n = release.detail, plan.public_n
    count = min(float(n), max(float(release.values["count"][0]), n / 10.0, 1.0))
    m = np.clip(release.values["sums"] / count, -1.0, 1.0)
    noise = noise_of(sums_and_count(d), plan.detail["mean"], "replace")
    sd, sd_count = float(noise[0]), float(noise[-1])
    H = np.outer(half, half)
    privacy = H * (sd**2 * np.eye(d) + sd_count**2 * np.outer(m, m)) / count**2
    sampling = None
    person = plan.request.unit
    stats = {"complete_rows" if person is None else "complete_people": count}
    if "variance" in plan.detail:
        V = release.values["squares"] / count - np.outer(m, m)
        floor = float(noise_of(Gram(Box(d)), plan.detail["variance"], "replace")[0]) / count
        w, Q = np.linalg.eigh(V)
        V = (Q * np.maximum(w, min(floor, 1.0))) @ Q.T
        sampling = H * V / count
        if d == 1:
            stats["sd"] = float(half[0] * math.sqrt(V[0, 0]))
    return Estimate(
        names, centre + half * m, vcov_sampling=sampling, vcov_privacy=privacy,
        stats=stats, notes=(_counted_note(plan),),
    )  # fmt: skip


def _counted_note(plan: Plan[Any]) -> Note:
    """Return a note on which rows, or people, count."""
    person = plan.request.unit
    return (
        messages.CLIPPED_MEAN()
        if person is None
        else messages.PEOPLE_MEAN(column=person.column)
    )


CLIPPED = Backend(plan_clipped, release_clipped, estimate_clipped, people=True)


# -- Backend of ``dp_mean(delta=0)``: one Laplace release of sums, count and squares (``mean.md``).
#
# In L1 two complete rows are at most 2 d apart, squares of weight 1/2 included; a complete and a
# missing row ``k + 3 d / 2``, so a count of weight ``k = d / 2`` is free, and squares are too.


_PURE_STEP = "means, count and squares"


def pure_sums(d: int, *, squares: bool) -> Powers | Sum:
    """Return the statistic of a pure release; without squares the count has weight d."""
    if squares:
        return Powers(d, count=d / 2.0, square=0.5)
    return Sum(Box(d), count=float(d), count_first=True)


def plan_pure(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one Laplace release of d sums. Reads no row."""
    if design.unknown:
        name = design.unknown[0]
        raise RequestError(
            "delta=0 cannot estimate ranges: declare them, for example "
            f"bounds={{{name!r}: (lower, upper)}}"
        )
    if request.split is not None:
        raise RequestError("split= is of several releases, and delta=0 makes one: leave split= out")
    part = Pure(request.eps)
    noise = noise_of(pure_sums(design.p, squares=request.inference), part, request.relation)
    sd = math.sqrt(2.0) * float(noise[1])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    step = Step(_PURE_STEP, part, share=1.0, label="Laplace, joint")
    return Plan.of(
        request, design, n, (step,), scales={"noise sd of a sum in half-ranges": sd},
        expected_se=expected, detail=part,
    )  # fmt: skip


def release_pure(plan: Plan[Any], ask: Ask) -> Release:
    """Release sums, the count of complete rows and (with inference) sums of squares.

    **Privacy.** Unit: one row, or one person by the mean of its complete rows; one unit is
    replaced, the number of units is public. One Laplace release: pure eps.
    """
    design, d = plan.design, plan.design.p
    _, centre, half = mean_scale(design)
    squares = plan.request.inference
    coordinates = weights.Coordinates(centre, half, 1.0, None)
    job = functools.partial(powers, coordinates=coordinates, squares=squares)
    over = Counts(design, job, of_people=True)
    noisy = ask(_PURE_STEP, Query(pure_sums(d, squares=squares), over, first_array)).values
    values = {"count": noisy[:1], "sums": noisy[1 : d + 1]}
    if squares:
        values["squares"] = noisy[d + 1 :]
    return Release(values, plan.guarantee, design, detail=(centre, half))


def estimate_pure(plan: Plan[Any], release: Release) -> Estimate:
    """Estimate means ``c + h S/N``, with errors by the delta method, one mean at a time.

    Covariances of means are not released: they are NaN.
    """
    names, n = release.design.names, plan.public_n
    d, (centre, half) = len(names), release.detail
    count = min(float(n), max(float(release.values["count"][0]), n / 10.0, 1.0))
    m = np.clip(release.values["sums"] / count, -1.0, 1.0)
    statistic = pure_sums(d, squares=plan.request.inference)
    noise = math.sqrt(2.0) * noise_of(statistic, plan.detail, plan.request.relation)
    sd_count, sd = float(noise[0]), float(noise[1])
    slope = half * m
    privacy = (np.diag((half * sd) ** 2) + sd_count**2 * np.outer(slope, slope)) / count**2
    person = plan.request.unit
    stats = {"complete_rows" if person is None else "complete_people": count}
    sampling = None
    if "squares" in release.values:
        floor = min(float(noise[-1]) / count, 1.0)
        v = np.clip(release.values["squares"] / count - m * m, floor, 1.0)
        sampling = np.full((d, d), np.nan)
        np.fill_diagonal(sampling, half**2 * v / count)
        if d == 1:
            stats["sd"] = float(half[0] * math.sqrt(v[0]))
    return Estimate(
        names, centre + half * m, vcov_sampling=sampling, vcov_privacy=privacy, stats=stats,
        notes=(_counted_note(plan), messages.PURE_MEAN()),
    )  # fmt: skip


PURE = Backend(
    plan_pure, release_pure, estimate_pure, title="Mean of clipped values, pure DP", people=True
)

def impure(request: Request, *_: object) -> str:
    """Return the reason why a call is not served by pure noise, or "" if it is."""
    return "" if request.delta == 0 else "delta > 0"


# -- Backend of ``dp_mean(method="ptr")``: the classic Propose-Test-Release mean, for teaching.
#
# Box of known half-width c a coordinate; ``m_j`` is the largest number of points of coordinate j in
# an interval of width 2c; distance to the unsafe sets ``k = (min_j m_j - (n - T) + 1)_+``; the test
# is ``k + Lap(1/eps_t) >= log(1/delta)/eps_t``; then coordinates are clipped to their best interval
# and averaged, sensitivity ``sqrt(d) (4 T + 6) c / n`` (``mean.md`` section 6).


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


# -- Methods of means, as data.


register_method(
    Method(
        name="clipped",
        verb="dp_mean",
        proof="models/mean.md",
        foretells=True,
        title="Mean of clipped values",
        backend=CLIPPED,
        endings=(Ending(weights.WEIGHTED_MEAN_BACKEND, weights.unweighted), Ending(PURE, impure)),
        aside=True,
        accepts=("weights", "design"),
        needs=("one pass",),
        reference="Gaussian mechanism (delta = 0: Laplace) on sums and the count; ranges by "
        "stability histograms",
        options=(BOUNDS_SHARE,),
    )
)

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
