"""Published private naive Bayes classifiers, for comparison with the methods of ``bayes.py``.

``dpnb`` (Vaidya, Shafiq, Basu and Hong 2013): Laplace noise on counts and on the class statistics.
The published algorithm divides the sensitivity of a mean by the *exact* class count, which is
private; here sums are perturbed (sensitivity from the ranges alone) and divided by noisy counts.
``dpnbss`` (Zafarani and Clifton 2020): class means with noise at their smooth sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Ask, Query
from dpmodels.exact.features import FeatureScale, feature_scale
from dpmodels.exact.passes import Sums
from dpmodels.exact.sets import Box, Mark
from dpmodels.exact.statistics import ByClass as InClasses
from dpmodels.exact.statistics import Sum
from dpmodels.models.bayes.core import ByClass, features_of, parameter_names
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Pure, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import SMOOTH_NOTE
from dpmodels.ranges import no_ranges, pair_part, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: Released means of ``dpnbss`` are whole multiples of this.
_GRID = 2.0**-30


@dataclass(frozen=True)
class CompareDetail:
    """eps of counts, means and squares; delta of the means (smooth sensitivity only)."""

    classes: int
    eps: tuple[float, float, float]
    delta: float


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan: a third of eps each for counts, means and sums of squares."""
    features_of(design)  # there must be one
    part = pair_part(request, design.unknown)
    steps, delta, third = list(part.steps), part.delta, part.eps / 3.0
    smooth = request.method.name == "dpnbss"
    means = Approximate(third, delta) if smooth else Pure(third)
    label = "Laplace at smooth sensitivity" if smooth else "Laplace"
    steps += [
        Step("class counts", Pure(third), share=1 / 3, label="Laplace"),
        Step("class means", means, share=1 / 3, label=label),
        Step("sums of squares", Pure(third), share=1 / 3, label="Laplace"),
    ]
    detail = CompareDetail(len(design.levels), (third, third, third), delta if smooth else 0.0)
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=(SMOOTH_NOTE,) if smooth else (),
        shares={"counts": 1 / 3, "means": 1 / 3, "squares": 1 / 3},
        purchase=part.purchase,
        detail=detail,
    )


def smoothness(eps: float, delta: float) -> float:
    """Return beta = eps / (2 log(2 e^(eps/2) / delta)), for which ``2 SS / eps`` noise is private.

    The usual ``eps / (2 log(2 / delta))`` is proved for e^(eps/2) <= 2 only, and gives up to five
    times delta at eps = 20; theory.md, section 9 has the proof for every eps.
    """
    return eps / (eps + 2.0 * math.log(2.0 / delta))


def smooth_sensitivity(count: int, beta: float) -> float:
    """Return the beta-smooth sensitivity of a class mean of values in [-1, 1].

    Local sensitivity at distance t: ``min(2, 2 / max(N - t, 1))`` (a row leaves, enters or moves
    within the class); smooth: ``max_t exp(-beta t) LS_t`` (Nissim, Raskhodnikova and Smith 2007).
    The maximum is at t = 0 or where ``N - t = 1/beta``, or at ``t = N - 1``.
    """
    best = 0.0
    inner = max(0, math.floor(count - 1.0 / beta))
    for t in {0, inner, inner + 1, max(0, count - 1)}:
        if 0 <= t <= max(0, count - 1):
            best = max(best, math.exp(-beta * t) * min(2.0, 2.0 / max(count - t, 1)))
    return best


def release(plan: Plan[CompareDetail], ask: Ask) -> Release:
    """Release counts, means and pooled sums of squares with Laplace noise.

    Privacy
    -------
    Unit: one row; replace-one, n public. Counts: L1 sensitivity 2. Sums in half-ranges: 2 d.
    Pooled squares: d. Smooth sensitivity: each of the at most 2 d class means that a row can move
    gets a (2 d)-th of the budget.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    scale = feature_scale(design, None)
    over = Sums(design, ByClass(scale, detail.classes))
    d, K = len(scale.columns), detail.classes
    counts = ask("class counts", Query(Sum(Mark(K)), over, lambda s: Added(s.counts))).values
    if detail.delta:
        means = _smooth_means(detail, over, d, ask)
    else:
        each = InClasses(Sum(Box(d)), K)
        sums = ask("class means", Query(each, over, lambda s: Added(s.sums))).values
        means = np.clip(sums.reshape(K, d) / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    pooled = Sum(Box(d, low=0), products=True)
    query = Query(pooled, over, lambda s: Added(s.squares.sum(axis=0)))
    squares = ask("sums of squares", query).values
    values = {"counts": counts, "means": means, "squares": squares}
    return Release(values, plan.guarantee, design, detail=scale)


def _smooth_means(detail: CompareDetail, over: Sums, d: int, ask: Ask) -> Array:
    """Add ``2 SS / eps'`` Laplace noise to each class mean; see :func:`smoothness`."""
    raw = ask.raw(own_proof("smooth sensitivity, class means"))
    stats = raw.total(over)
    eps, delta = detail.eps[1] / (2.0 * d), detail.delta / (2.0 * d)
    beta = smoothness(eps, delta)
    exact = stats.sums * 2.0**-20 / np.maximum(stats.counts, 1)[:, None]
    spread = np.array([smooth_sensitivity(int(c), beta) for c in stats.counts.tolist()])
    scale = np.broadcast_to((2.0 / eps) * spread[:, None], exact.shape)
    return np.clip(raw.scaled_laplace("class means", exact, scale, grid=_GRID), -1.0, 1.0)


def estimate(plan: Plan[CompareDetail], release: Release) -> Estimate:
    """Priors, class means and pooled variances in the user's units."""
    detail = plan.detail
    design = release.design
    names = parameter_names(design)
    if not release.reply:
        return Estimate.silent(names)
    scale: FeatureScale = release.detail
    assert plan.n is not None
    counts, u = release.values["counts"], release.values["means"]
    prior = np.maximum(counts / plan.n, 1.0 / plan.n)
    prior /= prior.sum()
    weights = np.maximum(counts, 1.0)
    v = release.values["squares"] / weights.sum()
    v = v - (weights[:, None] * u**2).sum(axis=0) / weights.sum()
    floor = len(features_of(design)) / (detail.eps[2] * plan.n)
    variance = np.tile(np.clip(v, min(floor, 0.5) + 1e-9, 1.0), (detail.classes, 1))
    means = scale.centre + scale.half * u
    return Estimate(
        names,
        np.column_stack([prior, means]).ravel(),
        notes=("For comparison: dp_bayes(method='sums') is more accurate at the same guarantee.",),
        arrays={"prior": prior, "means": means, "variances": variance * scale.half**2},
    )
