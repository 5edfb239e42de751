"""``dp_mean``: means of clipped columns in one Gaussian or Laplace release.

Released together: the sums of rows in half-ranges and the count of complete rows, which is free
(``core/means.py``). Standard errors take their second moments at a share of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.clusters import Scorer
from dpmodels.core.means import (
    CountAndPowers,
    Means,
    WeightedMeans,
    count_and_powers,
    half_ranges,
    sums_and_count,
    weighted_sums,
)
from dpmodels.core.rows import Rows, clip, linear
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.weights import (
    HISTOGRAM_SHARE,
    Trim,
    refuse_kept_rows,
    row_mass,
    trim_of,
    unweighted,
)
from dpmodels.models.window import (
    LOOK_FIRST,
    LOOK_OPTION,
    Windows,
    as_declared,
    look_steps,
    released_windows,
)
from dpmodels.notes import Note
from dpmodels.planning import Plan, expected_errors
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.proof.prove import noise_of
from dpmodels.ranges import Part, Split, gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Ending,
    Method,
    register_method,
)
from dpmodels.scoring.cluster_plan import ClusterPlan, Paid
from dpmodels.scoring.clusters import ClusterRelease, release_clusters
from dpmodels.scoring.models import floored, roots
from dpmodels.scoring.rules import WEIGHT_STEP
from dpmodels.sums.ask import Ask

VARIANCE_SHARE = 0.2
#: Noise sds from which on a released count has means: of no rows one in 30 000 has.
SEEN_COUNT = 4.0
_SD_OF_SUM = "noise sd of a sum in half-ranges"


def plan_clipped(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the release of d clipped means, after a look at wide ranges if it can pay."""
    look = look_steps(request, design, gaussian_part(request, design.unknown), n)
    left = 1.0 - math.fsum(step.share or 0.0 for step in look)
    square = left * VARIANCE_SHARE if request.inference else 0.0
    steps = {"mean": ("means and count", left - square), "variance": ("second moments", square)}
    split = Split(request, design, steps, first=look)
    sd = float(noise_of(sums_and_count(design.p)[0], split["mean"], "replace")[0])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    return split.plan(
        n, scales={_SD_OF_SUM: sd}, expected_se=expected, detail=split.parts | {"look": look},
        passes=1 + len(look) + bool(design.unknown),
        reasons=(*request.reasons, *(LOOK_FIRST,) * bool(look)),
    )  # fmt: skip


@with_ranges
def release_clipped(plan: Plan[Any], ask: Ask, design: Design) -> Release:
    """Release windows, then sums, the count of complete rows and (with inference) second moments.

    **Privacy.** Unit: one row; replace-one, n public. Sensitivities: :class:`Means`, the same in
    any windows. For people the row of a person is the mean of its complete rows (``units.md``, 8).
    """
    d = design.p
    look, sd = plan.detail["look"], plan.scales[_SD_OF_SUM]
    windows = released_windows(look, design, plan.public_n, sd, ask)
    to_unit, shift = 1.0 / windows.half, -windows.centre / windows.half
    into = Means(d, people=plan.request.unit is not None, squares="variance" in plan.detail)
    sums_release = core.Release("means and count", into, lambda z: z[:d] * to_unit + shift, design)
    noisy = core.answered(sums_release, ask)
    values = {"sums": noisy[0].values[:d], "count": noisy[0].values[d:]}
    if into.squares:
        values["squares"] = noisy[1].values
    return Release(values, plan.guarantee, design, detail=windows)


def estimate_clipped(plan: Plan[Any], release: Release) -> Estimate:
    """Return means ``c + h S/N``, N the released count, with errors by the delta method."""
    if not release.reply:
        return Estimate.silent(release.design.names)
    statistic, products = sums_and_count(release.design.p)
    noise, square = noise_of(statistic, plan.detail["mean"], "replace"), math.nan
    if "variance" in plan.detail:
        square = float(noise_of(products, plan.detail["variance"], "replace")[0])
    return _estimated(plan, release, float(noise[0]), float(noise[-1]), square)


def _estimated(
    plan: Plan[Any], release: Release, sd: float, sd_count: float, sd_square: float, *notes: Note
) -> Estimate:
    """Return the estimate, by the noise sds of sums, of the count, and of (sums of) squares."""
    names, windows, person = release.design.names, release.detail, plan.request.unit
    centre, half, d = windows.centre, windows.half, len(names)
    count = min(float(plan.public_n), float(release.values["count"][0]))
    if count < SEEN_COUNT * sd_count:
        units = "rows" if person is None else "people"
        few = messages.NO_USABLE(units=units, count=max(count, 0.0), sd=sd_count)
        return Estimate.silent(names, few)
    m = np.clip(release.values["sums"] / count, -1.0, 1.0)
    H = np.outer(half, half)
    privacy = H * (sd**2 * np.eye(d) + sd_count**2 * np.outer(m, m)) / count**2
    sampling = None
    stats = {"complete_rows" if person is None else "complete_people": count}
    who = messages.CLIPPED_MEAN() if person is None else messages.PEOPLE_MEAN(column=person.column)
    if "squares" in release.values:
        squares, floor = release.values["squares"] / count, min(sd_square / count, 1.0)
        if squares.ndim == 1:  # of each number, without products
            V = np.full((d, d), np.nan)
            np.fill_diagonal(V, np.clip(squares - m * m, floor, 1.0))
        else:
            w, Q = np.linalg.eigh(squares - np.outer(m, m))
            V = (Q * np.maximum(w, floor)) @ Q.T
        sampling = H * V / count
        if d == 1:
            stats["sd"] = float(half[0] * math.sqrt(V[0, 0]))
    return Estimate(
        names, centre + half * m, vcov_sampling=sampling, vcov_privacy=privacy,
        bias=windows.excess / count if windows.hidden else None, stats=stats,
        notes=(who, *notes, *windows.note(release.design, plan.request.delta)),
    )  # fmt: skip


CLIPPED = Backend(plan_clipped, release_clipped, estimate_clipped, people=True)


# -- Backend of ``dp_mean(delta=0)``: one Laplace release of sums, count and squares (``mean.md``).


_PURE_STEP = "means, count and squares"


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
    statistic = count_and_powers(design.p, squares=request.inference)
    noise = noise_of(statistic, part, request.relation)
    sd = math.sqrt(2.0) * float(noise[1])
    half = np.diff(design.intervals(), axis=1) / 2.0
    expected = {c: e for c, e in expected_errors(design.names, half, sd / n).items() if e == e}
    step = Step(_PURE_STEP, part, share=1.0, label="Laplace, joint")
    return Plan.of(
        request, design, n, (step,), scales={_SD_OF_SUM: sd},
        expected_se=expected, detail=part,
    )  # fmt: skip


def release_pure(plan: Plan[Any], ask: Ask) -> Release:
    """Release sums, the count of complete rows and (with inference) sums of squares.

    **Privacy.** Unit: one row, or one person by the mean of its complete rows; one unit is
    replaced, the number of units is public. One Laplace release: pure eps.
    """
    design, d = plan.design, plan.design.p
    centre, half = half_ranges(design)
    into = CountAndPowers(d, squares=plan.request.inference)
    sums_release = core.Release(_PURE_STEP, into, lambda z: (z[:d] - centre) / half, design)
    noisy = core.answered(sums_release, ask).values
    values = {"count": noisy[:1], "sums": noisy[1 : d + 1]}
    if into.squares:
        values["squares"] = noisy[d + 1 :]
    return Release(values, plan.guarantee, design, detail=as_declared(design))


def estimate_pure(plan: Plan[Any], release: Release) -> Estimate:
    """Estimate means ``c + h S/N``, with errors by the delta method, one mean at a time.

    Covariances of means are not released: they are NaN.
    """
    statistic = count_and_powers(release.design.p, squares=plan.request.inference)
    noise = math.sqrt(2.0) * noise_of(statistic, plan.detail, plan.request.relation)
    sds = float(noise[1]), float(noise[0]), float(noise[-1])
    return _estimated(plan, release, *sds, messages.PURE_MEAN())


PURE = Backend(
    plan_pure, release_pure, estimate_pure, title="Mean of clipped values, pure DP", people=True
)

# -- Backend of ``dp_mean(weights=)``: weighted means (Hajek), as ``svymean``.
#
# A row adds ``(u t, u)``, t its cells in half ranges, u = min(w, T)/T, or nothing if a cell or the
# weight is missing: a point of the hull of ``(t, 1)`` and 0. Released: the sums, the count of
# weight being free (``mean.md``), and ``sum (u t, u)(u t, u)'``, of which errors by linearisation
# are made: ``z = u (t - m)``.


#: Share of the remaining budget for the products, of which errors are made.
PRODUCTS_SHARE = 0.2
#: Distance beyond its own difference by which means may be moved, over the trimmed part.
MOVED, ALLOWED = 1.5, 0.75


@dataclass(frozen=True)
class WeightedDetail:
    """Mu of the sums and of the products (0: none); public size of the population, or None."""

    mu_mean: float
    mu_square: float
    population: float | None
    clusters: ClusterPlan | None = None
    look: Sequence[Step] = ()


@dataclass(frozen=True)
class WeightedReleased:
    """Windows, the clip of weights, and the release of the pass by cluster."""

    windows: Windows
    trim: Trim
    clusters: ClusterRelease | None = None
    root: Array | None = None


def plan_weighted(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan weighted means. Reads no row."""
    refuse_kept_rows(request)
    if request.delta == 0:
        raise RequestError(
            "delta=0 has no weighted means: their noise is Gaussian. Give delta=1e-6, or leave "
            "weights= and design= out"
        )
    part = gaussian_part(request, design.unknown)
    paid = Paid.of(request, part, n, design.p, by_cluster=None if request.inference else False)
    weigh = HISTOGRAM_SHARE if design.auxiliary_place("weights") is not None else 0.0
    square = PRODUCTS_SHARE if request.inference else 0.0
    remaining = paid.rest * (1.0 - weigh)
    look = look_steps(request, design, Part(mu=paid.mu(remaining)), n, remaining)
    remaining -= math.fsum(step.share or 0.0 for step in look)
    shares = {
        WEIGHT_STEP: paid.rest * weigh, "means and weight": remaining * (1.0 - square),
        "products": remaining * square,
    }  # fmt: skip
    steps = [Step(name, Gaussian(paid.mu(s)), share=s) for name, s in shares.items() if s]
    survey = None if request.sample is None else request.sample.frame.survey
    detail = WeightedDetail(
        paid.mu(shares["means and weight"]), paid.mu(shares["products"]),
        None if survey is None else survey.population, paid.clusters, look,
    )  # fmt: skip
    return paid.plan(
        design, n, [*steps, *look], detail=detail, passes=1 + bool(weigh) + len(look),
        reasons=(*request.reasons, *(LOOK_FIRST,) * bool(look)),
    )  # fmt: skip


#: Noise sds from which on a sum of weights has means.
LEAST_SDS = 3.0


@with_ranges
def release_weighted(plan: Plan[WeightedDetail], ask: Ask, design: Design) -> Release:
    """Release the clip of weights, the sums, and the products.

    **Privacy.** Unit: one row, or one person; one unit is replaced, the number of units is public.
    Every query is one of the prover; T is a released number.
    """
    detail, n = plan.detail, plan.public_n
    people = plan.request.by_person
    d = design.p
    trim = trim_of(ask, design, detail.mu_mean * n / d, detail.population, n, people=people)
    noise = float(_noise(d, detail)[0]) / trim.part
    windows = released_windows(detail.look, design, n, noise, ask).times(trim.of_tails)
    centre, half = windows.centre[:d], windows.half[:d]
    place = design.auxiliary_place("weights")

    def row(z: Rows) -> tuple[Rows, Rows]:
        return (z[:d] - centre) / half, row_mass(z, place, trim.top)

    into = WeightedMeans(d, squares=detail.mu_square > 0.0)
    noisy = core.answered(core.Release("means and weight", into, row, design), ask)
    values = {"sums": noisy[0].values[:d], "weight": noisy[0].values[d:]}
    if into.squares:
        values["products"] = noisy[1].values
    clusters, root = None, None
    if detail.clusters is not None:
        least = LEAST_SDS * float(_noise(d, detail)[-1])
        m = np.clip(values["sums"] / max(float(values["weight"][0]), least), -1.0, 1.0)
        root, back = roots(linearised(values["products"], m, _sd(d, detail), n) / n)

        def score(z: Rows) -> Rows:
            t, u = row(z)
            return linear(back, (clip(t, -1.0, 1.0) - m) * u)

        program = release_clusters(detail.clusters, (Scorer(score, d),), design)
        clusters = core.run(program, ask)
        values["cluster scores"] = clusters.products[0]
    return Release(
        values, plan.guarantee, design,
        detail=WeightedReleased(windows, trim, clusters, root),
    )  # fmt: skip


def _noise(d: int, detail: WeightedDetail) -> Array:
    """Return the noise sds of the sums, and of the sum of weights."""
    return noise_of(weighted_sums(d)[0], Gaussian(detail.mu_mean), "replace")


def _sd(d: int, detail: WeightedDetail) -> float:
    """Return the noise sd of an entry of the products."""
    return float(noise_of(weighted_sums(d)[1], Gaussian(detail.mu_square), "replace")[0])


def linearised(Q: Array, m: Array, noise: float, n: int) -> Array:
    """Return ``sum z z'``, z = u (t - m), from released products: floored at its noise."""
    d = len(m)
    L = np.hstack([np.eye(d), -m[:, None]])
    return floored(np.asarray(L @ Q @ L.T), min(noise, float(n)) / 4.0)


def estimate_weighted(plan: Plan[WeightedDetail], release: Release) -> Estimate:
    """Return weighted means ``c + h S/U``, with linearised errors and the effect of clipping."""
    design, d = release.design, release.design.p
    names = design.names
    if not release.reply:
        return Estimate.silent(names)
    detail, part, n = plan.detail, release.detail, plan.public_n
    trim: Trim = part.trim
    noise = _noise(d, detail)
    sd, sd_weight = float(noise[0]), float(noise[-1])
    weight = float(release.values["weight"][0])
    if weight < LEAST_SDS * sd_weight:
        return Estimate.silent(
            names, messages.NO_WEIGHT()
        )
    weight = min(weight, float(n))
    m = np.clip(release.values["sums"] / weight, -1.0, 1.0)
    windows: Windows = part.windows
    half, bias = windows.half[:d], windows.excess[:d] / weight
    H = np.outer(half, half)
    privacy = H * (sd**2 * np.eye(d) + sd_weight**2 * np.outer(m, m)) / weight**2
    sampling, stats = None, {"sum_of_weights": weight * trim.top / (1.0 - trim.lost)}
    if detail.mu_square:
        Q = release.values["products"]
        noise_sd = _sd(d, detail)
        V = linearised(Q, m, noise_sd, n)
        sampling = H * V / weight**2
        heavy = float(Q[d, d])
        if heavy > 4.0 * noise_sd:
            stats["kish"] = max(heavy * n / weight**2, 1.0)
            d2 = Q[:d, d] / heavy - m
            moved = trim.lost * d2
            m = np.clip(m + MOVED * moved, -1.0, 1.0)
            error = np.sqrt(noise_sd**2 / 2.0 + (noise_sd * (m + d2)) ** 2) / heavy
            bias = bias + ALLOWED * trim.lost * (np.abs(d2) + error) * half
    estimates = windows.centre[:d] + half * m
    df: float | None = None
    design_notes: list[Note] = []
    if part.clusters is not None and sampling is not None:
        sampling, df, design_notes = _by_design(plan, part, sampling, weight, names, stats)
    notes = [
        messages.WEIGHTED_MEANS(),
        messages.TRIMMED_WEIGHTS(
            top=trim.top, lost=100.0 * trim.lost, more="The share is from the released histogram."
        ),
        *([messages.WEIGHTED_PEOPLE()] if plan.request.by_person else []),
    ]
    return Estimate(
        names, estimates, vcov_sampling=sampling, vcov_privacy=privacy, stats=stats,
        bias=bias if bias.any() else None, use_t=df,
        notes=(*notes, *windows.note(design, plan.request.delta), *design_notes),
    )  # fmt: skip


def _by_design(
    plan: Plan[WeightedDetail], part: WeightedReleased, rows: Array, weight: float,
    names: tuple[str, ...], stats: dict[str, float],
) -> tuple[Array, float | None, list[Note]]:
    """Return (design-based covariance, degrees of freedom, notes); add deff to ``stats``."""
    psus, root, n = part.clusters, part.root, plan.public_n
    assert psus is not None and root is not None
    survey = plan.request.sample.frame.survey
    if not psus.determined(0):
        return np.full_like(rows, math.nan), None, [
            messages.NO_DESIGN_VARIANCE(
                what="standard errors",
                remedy="Use more rows or a larger eps; weights= alone ignores the clusters",
            )
        ]
    J = root @ psus.meat(0, np.eye(len(root))) @ root * n
    half = part.windows.half[: len(J)]
    V = np.outer(half, half) * J / weight**2
    for name, ratio in zip(names, np.diag(V) / np.diag(rows), strict=True):
        stats[f"deff_clusters({name})" if len(names) > 1 else "deff_clusters"] = float(ratio)
    clusters = plan.detail.clusters
    which = "estimated, with noise" if clusters is not None and clusters.count else "declared"
    units = f"{psus.clusters:.0f} PSUs ({which})" if survey.psu else "rows as PSUs"
    df = None if math.isinf(psus.df) else psus.df
    return V, df, [
        messages.ROW_NOT_CLUSTER(
            who="row", psu=survey.psu or "PSU",
            detail=f"Design: {units}"
            + (f"; t distribution with {df:.0f} degrees of freedom" if df else "")
            + (f"; {clusters.centring}" if clusters is not None and clusters.frame.strata > 1
               else ""),
        ),
        *([messages.CLUSTER_ERRORS()] if survey.psu else []),
    ]


WEIGHTED_MEAN_BACKEND = Backend(
    plan_weighted, release_weighted, estimate_weighted,
    title="Weighted mean of clipped values", people=True,
)  # fmt: skip


# -- Methods of means, as data.


register_method(
    Method(
        name="clipped",
        verb="dp_mean",
        proof="models/mean.md",
        foretells=True,
        title="Mean of clipped values",
        backend=CLIPPED,
        endings=(
            Ending(WEIGHTED_MEAN_BACKEND, unweighted),
            Ending(PURE, lambda request, *_: "" if request.delta == 0 else "delta > 0"),
        ),
        aside=True,
        accepts=("weights", "design"),
        needs=("one pass",),
        reference="Gaussian mechanism (delta = 0: Laplace) on sums and the count; ranges by "
        "stability histograms",
        options=(BOUNDS_SHARE, LOOK_OPTION),
    )
)
