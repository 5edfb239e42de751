"""Backend of ``dp_mean(method="clipped")``: means of clipped columns, one Gaussian release.

Row (in unit half-ranges) ``u in [-1, 1]^d``, or the zero row if a cell is missing. Released
together: the sums of u and ``k`` times the count of complete rows, ``k^2 = 3 d``. Two complete
rows differ by at most ``2 sqrt(d)``, a complete and a zero row by ``sqrt(d + k^2) = 2 sqrt(d)``:
the count is free. Standard errors take the second-moment matrix ``sum u u'`` (Frobenius
sensitivity ``sqrt(2) d``; ``1`` for d = 1) at a share of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.passes import Moments
from dpmodels.exact.prove import noise_of
from dpmodels.exact.rowmap import RowMap, UnitScale, WithOne
from dpmodels.exact.sets import Box, Hull
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

VARIANCE_SHARE = 0.2


@dataclass(frozen=True)
class MeanDetail:
    """Parts of mu: the means (with the count) and the second moments (0: not released)."""

    mu_mean: float
    mu_square: float


@dataclass(frozen=True)
class MeanReleased:
    """Centres and half-ranges of the columns (public or bought)."""

    centre: Array
    half: Array


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the release of d clipped means."""
    part = gaussian_part(request, design.unknown)
    steps, mu, bought = list(part.steps), part.mu, part.share
    square = VARIANCE_SHARE if request.inference else 0.0
    if request.split is not None:
        square = _square_share(request)
    shares = {"mean": (1 - bought) * (1 - square)}
    if square:
        shares["variance"] = (1 - bought) * square
    detail = MeanDetail(mu * math.sqrt(shares["mean"]), mu * math.sqrt(shares.get("variance", 0.0)))
    steps.append(Step("means and count", Gaussian(detail.mu_mean), share=shares["mean"]))
    if square:
        steps.append(Step("second moments", Gaussian(detail.mu_square), share=shares["variance"]))
    d = design.p
    sd = float(noise_of(sums_and_count(d), Gaussian(detail.mu_mean), "replace")[0])
    halves = (design.intervals()[:, 1] - design.intervals()[:, 0]) / 2.0
    expected = {
        c.name: float(sd * h / n)
        for c, h in zip(design.columns, halves.tolist(), strict=True)
        if h == h
    }
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={**part.printed, **shares},
        scales={"noise sd of a sum in half-ranges": sd},
        expected_se=expected,
        purchase=part.purchase,
        detail=detail,
    )


def _square_share(request: Request) -> float:
    from dpmodels.errors import RequestError

    split = dict(request.split or {})
    if set(split) != ({"mean", "variance"} if request.inference else {"mean"}):
        raise RequestError("split= of dp_mean names 'mean' and 'variance' (with inference)")
    return float(split.get("variance", 0.0))


def mean_scale(design: Design) -> tuple[RowMap, Array, Array]:
    """Return the map to ``(u_1, ..., u_d, 1)`` in the unit box, centres and half-ranges."""
    intervals = design.intervals()
    centre = intervals.mean(axis=1)
    half = np.maximum((intervals[:, 1] - intervals[:, 0]) / 2.0, 1e-300)
    d = len(centre)
    unit = UnitScale(1.0 / half, -centre / half, False)
    return RowMap(unit, np.ones(d)), centre, half


def _box(d: int, people: bool) -> Box | Hull:
    return Hull(Box(d)) if people else Box(d)


def sums_and_count(d: int, people: bool = False) -> Sum:
    """Return the statistic of d sums and the count, which is free at this weight."""
    return Sum(_box(d, people), count=math.sqrt(3.0 * d), products=True)


def release(plan: Plan[MeanDetail], ask: Ask) -> Release:
    """Release sums, the count of complete rows and (with inference) second moments.

    Privacy
    -------
    Unit: one row; replace-one, n public. Sensitivities: module docstring. For people the row of a
    person is the mean of its complete rows (``units/theory.md``, 8): the same bounds.
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    rowmap, centre, half = mean_scale(design)
    d, people = design.p, plan.request.unit is not None
    over = Moments(design, rowmap if people else WithOne(rowmap), people=people, average=people)
    # Last row of the Gram matrix of (u, 1): sums of u, then the count; lattice unit 2^-40.
    # Of people it is (u, whether there is a complete row, 1).
    query = Query(sums_and_count(d, people), over, lambda G: Added(G.integers()[-1, : d + 1]))
    sums = ask("means and count", query).values
    values = {"sums": sums[:d], "count": sums[d:]}
    detail = plan.detail
    if detail.mu_square:
        squares = Query(Gram(_box(d, people)), over, lambda G: Added(G.integers()[:d, :d]))
        values["squares"] = ask("second moments", squares).values
    return Release(values, plan.guarantee, design, detail=MeanReleased(centre, half))


def estimate(plan: Plan[MeanDetail], release: Release) -> Estimate:
    """Means ``c + h S/N`` with N the released count; errors by the delta method."""
    design = release.design
    names = design.names
    d = len(names)
    if not release.reply:
        return Estimate.silent(names)
    detail = plan.detail
    part: MeanReleased = release.detail
    assert plan.n is not None
    sums = release.values["sums"]
    count = min(float(plan.n), max(float(release.values["count"][0]), plan.n / 10.0, 1.0))
    m = np.clip(sums / count, -1.0, 1.0)
    noise = noise_of(sums_and_count(d), Gaussian(detail.mu_mean), "replace")
    sd, sd_count = float(noise[0]), float(noise[-1])
    H = np.outer(part.half, part.half)
    privacy = H * (sd**2 * np.eye(d) + sd_count**2 * np.outer(m, m)) / count**2
    sampling = None
    person = plan.request.unit
    stats = {"complete_rows" if person is None else "complete_people": count}
    if detail.mu_square:
        V = release.values["squares"] / count - np.outer(m, m)
        floor = float(noise_of(Gram(Box(d)), Gaussian(detail.mu_square), "replace")[0]) / count
        w, Q = np.linalg.eigh(V)
        V = (Q * np.maximum(w, min(floor, 1.0))) @ Q.T
        sampling = H * V / count
        if d == 1:
            stats["sd"] = float(part.half[0] * math.sqrt(V[0, 0]))
    return Estimate(
        names,
        part.centre + part.half * m,
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats=stats,
        notes=(
            "A row with a missing cell counts for none of the means; the number of complete rows "
            "is a private release."
            if person is None
            else f"Every person ({person.column}) counts once, by the mean of its complete rows; "
            "one without any does not count, and how many do is a private release. Errors are "
            "those of people's means.",
        ),
    )
