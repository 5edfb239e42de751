"""Backend of ``dp_mean(weights=)``: weighted means (Hajek), as ``svymean``.

A row lays ``(u t, u)``, t its cells in half ranges, u = min(w, T)/T, or nothing if a cell or the
weight is missing: a point of the hull of ``(t, 1)`` and 0. Released: the sums, the count of weight
being free (``theory.md``), and ``sum (u t, u)(u t, u)'``, of which errors by linearisation are
made: ``z = u (t - m)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import STEPS, end_along, end_of_numbers
from dpmodels.exact.products import cross_product, mapped, squares
from dpmodels.exact.prove import noise_of
from dpmodels.exact.sets import Box, Hull
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.exact.words import Words
from dpmodels.models.weighted import SHARE, STEP, Trim, shares_of_weight, trim_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release
from dpmodels.scoring.cluster_rules import ClusterPlan
from dpmodels.scoring.clusters import ClusterRelease, release_clusters
from dpmodels.scoring.state import floored, roots
from dpmodels.scoring.words import CONSERVATIVE
from dpmodels.sources.summed import counted

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: Share of what is left for the products, of which errors are made.
VARIANCE_SHARE = 0.2
#: Of the trimmed part of the weight, how far beyond its own difference means may be moved.
MOVED, ALLOWED = 1.5, 0.75


def why_not(request: Request) -> str:
    """Return why a call does not end here, in words; empty if it does."""
    return "" if request.weights is not None or request.sample is not None else "no weights"


@dataclass(frozen=True)
class WeightedDetail:
    """Mu of the sums and of the products (0: none); public size of the population, or None."""

    mu_mean: float
    mu_square: float
    population: float | None
    clusters: ClusterPlan | None = None


@dataclass(frozen=True)
class WeightedReleased:
    """Centres, half-ranges, where weights were cut, and what a pass by cluster released."""

    centre: Array
    half: Array
    trim: Trim
    clusters: ClusterRelease | None = None
    root: Array | None = None


def sums(d: int) -> Sum:
    """Return the statistic of the sums of ``(u t, u)``: the count of weight is free."""
    return Sum(Hull(Box(d)), count=math.sqrt(3.0 * d))


def products(d: int) -> Gram:
    """Return the statistic of ``sum (u t, u)(u t, u)'``."""
    return Gram(Hull(Box(d, one=True)))


@dataclass(frozen=True, eq=False)
class WeightedPass:
    """``(u t, u)`` of rows: their sums, and the sums of their products."""

    design: Design
    centre: Array
    half: Array
    top: float

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[npt.NDArray[Any], ...]:
        """Return (sums, high and low words of the products). Confidential."""
        place = self.design.place_aside("weights")
        own = _Laid(self.centre, self.half, self.top, place)
        job = functools.partial(_of_means, own=own)
        return counted(rows, self.design, job)


def _of_means(blocks: Iterable[Array], own: _Laid) -> tuple[npt.NDArray[Any], ...]:
    """Return sums and products over blocks, for whoever adds up."""
    d = len(own.centre)
    total, words = np.zeros(d + 1, dtype=np.int64), Words(d + 1)
    with np.errstate(all="ignore"):
        for block in blocks:
            z = own.rows(block)
            total += z.sum(axis=1).astype(np.int64)
            words.add(cross_product(z))
    return (total.astype(object), words.integers())


@dataclass(frozen=True, eq=False)
class _Laid:
    """What a row lays: public and released numbers."""

    centre: Array
    half: Array
    top: float
    place: int | None

    def rows(self, block: Array) -> Array:
        """Return the integers (d + 1, m) that rows lay."""
        d = len(self.centre)
        t = np.clip((block[:d] - self.centre[:, None]) / self.half[:, None], -1.0, 1.0)
        u = np.ones(block.shape[1])
        if self.place is not None:
            u = shares_of_weight(block[self.place], self.top)
        gone = np.isnan(t).any(axis=0)
        u = np.where(gone, 0.0, u)
        return end_of_numbers(np.vstack([np.where(gone, 0.0, t) * u, u]))


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan weighted means. Reads no row."""
    if request.unit is not None:
        raise RequestError(
            "weights= are of rows: with unit= every person counts once, by the mean of own rows"
        )
    part = gaussian_part(request, design.unknown)
    steps, mu, bought = list(part.steps), part.mu, part.share
    clusters, by_cluster = None, 0.0
    sample = request.sample
    if sample is not None and sample.needed and request.inference:
        left = mu * math.sqrt(1.0 - bought)
        clusters = ClusterPlan.of(sample, left, n, request.relation, [""], design.p)
        by_cluster = clusters.share * (1.0 - bought)
    bought += by_cluster
    weigh = SHARE if design.place_aside("weights") is not None else 0.0
    square = VARIANCE_SHARE if request.inference else 0.0
    rest = (1.0 - bought) * (1.0 - weigh)
    shares = {"mean": rest * (1.0 - square)}
    if weigh:
        shares["weights"] = (1.0 - bought) * weigh
        weighed = Gaussian(mu * math.sqrt(shares["weights"]))
        steps.append(Step(STEP, weighed, share=shares["weights"]))
    if square:
        shares["variance"] = rest * square
    survey = None if sample is None else sample.frame.survey
    detail = WeightedDetail(
        mu * math.sqrt(shares["mean"]), mu * math.sqrt(shares.get("variance", 0.0)),
        None if survey is None else survey.population, clusters,
    )  # fmt: skip
    steps.append(Step("means and weight", Gaussian(detail.mu_mean), share=shares["mean"]))
    if square:
        steps.append(Step("products", Gaussian(detail.mu_square), share=shares["variance"]))
    if clusters is not None:
        steps += [s.within(1.0 - part.share) for s in clusters.steps]
        shares["clusters"] = by_cluster
    return Plan.of(
        request, design, n, steps, shares={**part.printed, **shares}, purchase=part.purchase,
        detail=detail, passes=1 + bool(weigh) + bool(part.purchase) + (clusters is not None),
        scales={} if clusters is None else clusters.printed(design.p),
        advice=() if clusters is None else clusters.advice(design.p),
    )  # fmt: skip


def release(plan: Plan[WeightedDetail], ask: Ask) -> Release:
    """Release where weights are cut, the sums, and the products.

    Privacy
    -------
    Unit: one row; replace-one, n public. Every query is one of the prover; T is a released number.
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail, n = plan.detail, plan.n
    assert n is not None
    d = design.p
    intervals = design.intervals()[:d]
    centre = intervals.mean(axis=1)
    half = np.maximum((intervals[:, 1] - intervals[:, 0]) / 2.0, 1e-300)
    trim = Trim(1.0, 1.0, 0.0)
    if design.place_aside("weights") is not None:
        trim = trim_of(ask, design, detail.mu_mean * n / d, detail.population, n)
    over = WeightedPass(design, centre, half, trim.top)
    found = ask("means and weight", Query(sums(d), over, lambda found: Added(found[0])))
    values = {"sums": found.values[:d], "weight": found.values[d:]}
    if detail.mu_square:
        query = Query(products(d), over, lambda found: Added(found[1]))
        values["products"] = ask("products", query).values
    clusters, root = None, None
    if detail.clusters is not None:
        m = np.clip(values["sums"] / max(float(values["weight"][0]), n / 100.0), -1.0, 1.0)
        root, back = roots(linearised(values["products"], m, _sd(d, detail), n) / n)
        place = design.place_aside("weights")
        scorer = Linearised(_Laid(centre, half, trim.top, place), m, back)
        clusters = release_clusters(detail.clusters, (scorer,), design, ask)
        values["cluster scores"] = clusters.products[0]
    return Release(
        values, plan.guarantee, design,
        detail=WeightedReleased(centre, half, trim, clusters, root),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Linearised:
    """``R u (t - m)`` of rows, R and m released: a score for the pass by cluster."""

    own: _Laid
    m: Array
    root: Array
    back: None = None

    @property
    def size(self) -> int:
        """Number of means."""
        return len(self.m)

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (d, m)."""
        z = self.own.rows(rows) / STEPS
        s = mapped(self.root, z[:-1] - self.m[:, None] * z[-1])
        length = np.sqrt(squares(s))
        return end_along(s, length, clip, np.minimum(length * np.abs(factor), clip), factor)


def _sd(d: int, detail: WeightedDetail) -> float:
    """Return the noise sd of an entry of the products."""
    return float(noise_of(products(d), Gaussian(detail.mu_square), "replace")[0])


def linearised(Q: Array, m: Array, noise: float, n: int) -> Array:
    """Return ``sum z z'``, z = u (t - m), from released products: floored at its noise."""
    d = len(m)
    L = np.hstack([np.eye(d), -m[:, None]])
    return floored(np.asarray(L @ Q @ L.T), min(noise, float(n)) / 4.0)


def estimate(plan: Plan[WeightedDetail], release: Release) -> Estimate:
    """Weighted means ``c + h S/U``; errors by linearisation, with what trimming may have moved."""
    design, d = release.design, release.design.p
    names = design.names
    if not release.reply:
        return Estimate.silent(names)
    detail, part, n = plan.detail, release.detail, plan.n
    assert n is not None
    trim: Trim = part.trim
    noise = noise_of(sums(d), Gaussian(detail.mu_mean), "replace")
    sd, sd_weight = float(noise[0]), float(noise[-1])
    weight = float(release.values["weight"][0])
    if weight < 3.0 * sd_weight:
        return Estimate.silent(
            names, "The sum of the weights is not determined at this budget (all near 0?)."
        )
    weight = min(weight, float(n))
    m = np.clip(release.values["sums"] / weight, -1.0, 1.0)
    half = part.half
    H = np.outer(half, half)
    privacy = H * (sd**2 * np.eye(d) + sd_weight**2 * np.outer(m, m)) / weight**2
    sampling, bias, stats = None, None, {"sum_of_weights": weight * trim.top / (1.0 - trim.lost)}
    if detail.mu_square:
        Q = release.values["products"]
        one = _sd(d, detail)
        V = linearised(Q, m, one, n)
        sampling = H * V / weight**2
        heavy = float(Q[d, d])
        if heavy > 4.0 * one:
            stats["kish"] = max(heavy * n / weight**2, 1.0)
            d2 = Q[:d, d] / heavy - m
            moved = trim.lost * d2
            m = np.clip(m + MOVED * moved, -1.0, 1.0)
            error = np.sqrt(one**2 / 2.0 + (one * (m + d2)) ** 2) / heavy
            bias = ALLOWED * trim.lost * (np.abs(d2) + error) * half
    estimates = part.centre + half * m
    df: float | None = None
    more: list[str] = []
    if part.clusters is not None and sampling is not None:
        sampling, df, more = _by_design(plan, part, sampling, weight, names, stats)
    said = [
        "Weighted means; errors by linearisation. Weights are taken as delivered; how they were "
        "computed is outside this guarantee.",
        f"Weights are cut at {trim.top:.3g} (about {trim.lost:.1%} of all weight is beyond, by the "
        "released histogram).",
    ]
    return Estimate(
        names, estimates, vcov_sampling=sampling, vcov_privacy=privacy, stats=stats,
        bias=bias, notes=(*said, *more), use_t=df,
    )  # fmt: skip


def _by_design(
    plan: Plan[WeightedDetail], part: WeightedReleased, rows: Array, weight: float,
    names: tuple[str, ...], stats: dict[str, float],
) -> tuple[Array, float | None, list[str]]:
    """Return (covariance by design, degrees of freedom, what to say); ``stats`` gets deff."""
    found, root, n = part.clusters, part.root, plan.n
    assert found is not None and root is not None and n is not None
    survey = plan.request.sample.frame.survey
    if not found.determined(0):
        return np.full_like(rows, math.nan), None, [
            "The design variance is not determined at this budget: more rows, a larger eps, or "
            "weights= alone, which ignores the clusters."
        ]
    J = root @ found.meat(0, np.eye(len(root))) @ root * n
    V = np.outer(part.half, part.half) * J / weight**2
    for name, ratio in zip(names, np.diag(V) / np.diag(rows), strict=True):
        stats[f"deff_clusters({name})" if len(names) > 1 else "deff_clusters"] = float(ratio)
    clusters = plan.detail.clusters
    which = "bought, with noise" if clusters is not None and clusters.count else "declared"
    said = f"{found.clusters:.0f} PSUs ({which})" if survey.psu else "rows as PSUs"
    df = None if math.isinf(found.df) else found.df
    return V, df, [
        f"Design: {said}" + (f", t with {df:.0f} degrees of freedom" if df else "")
        + (f"; {clusters.centring}" if clusters is not None and clusters.frame.strata > 1 else "")
        + ". The guarantee protects one row, not one PSU.",
        *([CONSERVATIVE] if survey.psu else []),
    ]
