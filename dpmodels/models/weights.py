"""Common parts of weighted statistics: clipped weights, design effects; and the weighted mean.

Each coordinate of the pass is one ``z`` (the part of a row in the error of a share, a mean, a rank)
times a public or released factor, so that rows need hardly be clipped. What comes back is a *design
effect*: the released product over what rows drawn one by one would have, shrunk to the average of
all coordinates as far as its noise is larger than effects differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.means import WeightedMeans, unit_rows, weighted_sums
from dpmodels.core.release import answered
from dpmodels.core.rows import Rows
from dpmodels.core.tables import Table, Tables
from dpmodels.errors import RequestError
from dpmodels.models.window import LOOK_FIRST, Windows, look_steps, released_windows
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.prove import noise_of
from dpmodels.proof.sets import STEPS
from dpmodels.ranges import Part, gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.scoring.cluster_plan import ClusterPlan, Paid
from dpmodels.scoring.clusters import ClusterRelease, release_clusters
from dpmodels.scoring.models import floored, roots
from dpmodels.scoring.rules import MIN_DESIGN_EFFECT, VISIBLE_SDS, WEIGHT_BINS, WEIGHT_STEP
from dpmodels.scoring.scales import weight_middles, weight_release
from dpmodels.sums.products import end_along, mapped, squares

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.sums.ask import Ask


#: sd of design effects about their average, over it: a guess, by which single ones are shrunk.
DIFFER = 0.5
#: The same for shares (1) and means of numbers (10).
KINDS = 2.0
#: Noise of the average design effect over it, above which none is given.
TOO_NOISY = 0.7
#: A weight in units of the root mean square one that still fits where rows are not clipped.
_HEAVY_WEIGHT = 1.5


def clipped(z: Array, factor: Array, clip: float) -> Array:
    """Return linearised rows (d, m) times their factors in the ball of C: lattice integers."""
    length = np.sqrt(squares(z))
    return end_along(z, length, clip, np.minimum(length * np.abs(factor), clip), factor)


def scale_for(variance: Array, reach: Array, square: float, clip: Array) -> Array:
    """Return factors that give coordinates variance 1 a row, less where rows would be clipped.

    All (d,): ``variance`` of z among rows, for weights of mean square 1; ``reach``, how long the z
    of a row of weight 1 may be; ``clip``, the length that coordinates may have. ``square`` is the
    mean of u^2.
    """
    heavy = min(1.0 / math.sqrt(max(square, 1e-12)), _HEAVY_WEIGHT)
    sd = np.maximum(np.sqrt(np.maximum(variance, 0.0)), reach * heavy / clip)
    return np.asarray(1.0 / (sd * math.sqrt(max(square, 1e-12))))


@dataclass(frozen=True, eq=False)
class DesignErrors:
    """Variances by cluster of linear functions of coordinates. Released numbers only."""

    found: ClusterRelease
    scale: Array  # (d,): z times this is a coordinate
    # (d,): variance per row of each coordinate if rows are drawn one by one, 0 if it does not count
    # in the average.
    typical: Array
    n: int
    level: float
    kinds: Array | None = None  # (d,) what each coordinate is of: shares, or a number; None: one
    least: float = MIN_DESIGN_EFFECT  # Design effects below it are not believed

    @property
    def average(self) -> tuple[float, float]:
        """Design effect of all coordinates together, and the sd of its noise."""
        return self._average(self.typical > 0.0)

    def _average(self, places: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """Return the design effect of some coordinates together, and the sd of its noise."""
        total = max(float(self.typical[places].sum()), 1e-12)
        J = self.found.correction * np.diag(self.found.products[0])[places]
        sd = self.found.noise_sd * math.sqrt(len(J)) / total
        return max(float(J.sum()) / total, self.least), sd

    def _of_kinds(self, L: Array) -> tuple[Array, Array]:
        """Return the average that each function is shrunk to, and the sd of its noise.

        It is that of the coordinates of its kind, themselves shrunk to the average of all.
        """
        mean, sd = self.average
        means, sds = np.full(len(L), mean), np.full(len(L), sd)
        if self.kinds is None or not len(L):
            return means, sds
        of = self.kinds[np.argmax(np.abs(L), axis=1)]
        for kind in np.unique(of):
            average, own_sd = self._average((self.kinds == kind) & (self.typical > 0.0))
            weight = _sure(mean, own_sd, KINDS)
            means[of == kind] = weight * average + (1.0 - weight) * mean
            sds[of == kind] = math.hypot(weight * own_sd, (1.0 - weight) * sd)
        return means, sds

    @property
    def determined(self) -> bool:
        """Whether there are errors by design."""
        mean, sd = self.average
        return not self.found.few and sd <= TOO_NOISY * mean

    def effects(self, L: Array, rows: Array) -> tuple[Array, Array]:
        """Return (design effects, factors of a normal quantile that allow for degrees of freedom).

        L (k, d) are functions of z; ``rows`` (k,) the sums over rows of their squares, as if rows
        were drawn one by one. A design effect below ``least`` is not believed. Degrees of freedom
        are those of the design less what the noise takes (Satterthwaite).
        """
        from scipy.special import ndtri, stdtrit

        if not self.determined:
            return np.full(len(L), math.nan), np.ones(len(L))
        mean, sd_mean = self._of_kinds(L)
        J = self.found.correction * self.found.products[0]
        v = L / self.scale
        each = np.maximum(rows / self.n, 1e-100)  # of an empty cell; its square is a float
        unshrunk = np.einsum("ki,ij,kj->k", v, J, v) / each
        sd = self.found.noise_sd * np.einsum("ki,ki->k", v, v) / each
        weight = _sure(mean, sd)
        effect = np.maximum(weight * unshrunk + (1.0 - weight) * mean, self.least)
        error = np.hypot(weight * sd, (1.0 - weight) * sd_mean) / effect
        free = 1.0 / (1.0 / self.found.df + error**2 / 2.0)
        tail = (1.0 + self.level) / 2.0  # the quantile of t over that of a normal
        return effect, np.asarray(stdtrit(np.clip(free, 1.0, 1e9), tail) / ndtri(tail))


def _sure(mean: Any, sd: Any, differ: float = DIFFER) -> Any:
    """Return the weight of a noisy design effect in a mean with the average design effect."""
    return (differ * mean) ** 2 / ((differ * mean) ** 2 + sd**2)


def design_note(plan: ClusterPlan, psus: ClusterRelease) -> Note:
    """Return a note on design-based errors, and on whom the guarantee protects."""
    survey = plan.frame.survey
    if survey.psu is None:
        units = "rows as PSUs"
    else:
        which = "estimated, with noise" if plan.count else "declared"
        units = f"{psus.clusters:.0f} PSUs ({which})"
    free = "" if math.isinf(psus.df) else f", {psus.df:.0f} degrees of freedom"
    detail = f"Design: {units}{free}; {plan.centring}"
    return messages.ROW_NOT_CLUSTER(who="row", psu=survey.psu or "PSU", detail=detail)


# -- Sampling weights of tables and means: where they are trimmed, and what trimming moves.
#
# A weight w counts as ``u = min(w, T)/T``, in [0, 1]: a row adds u of its mass where it would add
# all of it, and the rest nowhere that is shown. T is a public multiple of the mean weight, which a
# histogram of ``w/W`` tells (W the declared largest weight), or ``population=`` does.


#: Share of mu^2 of the histogram of weights.
HISTOGRAM_SHARE = 0.05
#: T over the mean weight: least, and factor of (mu n/K)^.45.
_LEAST_CLIP, _CLIP_GROWS = 4.0, 0.36


@dataclass(frozen=True)
class Trim:
    """Clip of the weights."""

    top: float  # T: u = min(w, T)/T
    mean: float  # Mean weight, released or public
    lost: float  # Released part of all weight that is beyond T
    square: float = 1.0  # Mean of u^2, by the released histogram
    used: float = 1.0  # Units that count: all, or the released number of those in ``subset=``

    @property
    def part(self) -> float:
        """Mean part of a row that counts."""
        return min(self.mean / self.top, 1.0)

    @property
    def of_tails(self) -> float:
        """Part of a value beyond a window that counts: the mean u of rows drawn by u."""
        return min(max(self.square / self.part, self.part), 1.0)


def trim_of(
    ask: Ask, design: Design, strength: float, population: float | None, n: int,
    *, people: bool = False,
) -> Trim:  # fmt: skip
    """Release the histogram of weights; return where they are cut. Without weights all count 1.

    ``strength``: ``mu n/K``, K the cells of the largest table; ``population``: public sum of all
    weights, or None.
    """
    place = design.auxiliary_place("weights")
    if place is None:
        return Trim(1.0, 1.0, 0.0, used=float(n))
    interval = design.z[place].interval
    assert interval is not None
    top = float(interval[1])
    release = weight_release(place, top, design)
    if people:  # a person adds the mean of its rows
        table = Table(WEIGHT_BINS, ((0, 1),))
        release = replace(release, into=Tables([WEIGHT_BINS], [table], (1.0,)))
    noisy = answered(release, ask)
    # of a table, where rows outside ``subset=`` have no weight: the rest of the population
    part = design.cells and design.subset is not None
    return trimmed(
        noisy.values.ravel(), float(noisy.sd.flat[0]), top, strength, None if part else population,
        n, part=part,
    )  # fmt: skip


def trimmed(
    counts: Array, sd: float, most: float, strength: float, population: float | None, n: int,
    *, part: bool = False,
) -> Trim:  # fmt: skip
    """Return the clip of weights, by the released histogram of ``w/most``. Sees no row.

    ``part``: units without a weight are not of the population, and the mean is of the others.
    """
    middle = weight_middles(most)
    seen = np.where(counts > VISIBLE_SDS * sd, counts, 0.0)
    total = float(np.sum((seen * middle)[:-1]))
    used = max(float(seen[:-1].sum()), 1.0) if part else float(n)
    mean = total / used if population is None else population / n
    mean = min(max(mean, middle[-2]), most)
    top = min(most, mean * max(_LEAST_CLIP, _CLIP_GROWS * strength**0.45))
    largest = np.flatnonzero(seen[:-1])
    if len(largest):  # no larger than half an octave beyond the last weights that are seen
        top = min(top, max(most * 2.0 ** (-(float(largest[0]) - 1.0) / 2.0), _LEAST_CLIP * mean))
    beyond = float(np.sum((seen * np.maximum(middle - top, 0.0))[:-1]))
    square = float(np.sum((seen * np.minimum(middle / top, 1.0) ** 2)[:-1])) / n
    lost = min(beyond / max(total, 1e-300), 0.5)
    return Trim(top, mean, lost, min(max(square, 1e-6), 1.0), used)


def row_mass(block: Any, place: int | None, top: float, *, squared: bool = False) -> Any:
    """Return u (or ``u^2``) of rows from the weights in a row of the block, or 1 if there are none.

    0 where the weight is missing, negative or not finite. Rows are an array or opaque.
    """
    if place is None:
        return np.ones_like(block[0])
    weight = block[place]
    with np.errstate(all="ignore"):
        u = np.clip(weight / top, 0.0, 1.0)
        u = u * u if squared else u
    return np.where(np.isfinite(weight) & (weight > 0.0), u, 0.0)


# -- Weights of people: a person adds the mean of what its rows would add (``units.md``, 14).


def refuse_kept_rows(request: Request) -> None:
    """Refuse weights together with ``max_rows=``, whose rows have no errors by weights."""
    if request.copies > 1 or (request.unit is not None and not request.by_person):
        raise RequestError(
            "weights= cannot be combined with max_rows=. Leave max_rows= out: each person then "
            "counts once, by the mean weight of their rows"
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


def unweighted(request: Request, *_: object) -> str:
    """Return the reason why a call has no weighted answer, or an empty string if it has one."""
    weighted = request.weights is not None or request.sample is not None
    return "" if weighted else "no weights and no design"


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


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
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
def release(plan: Plan[WeightedDetail], ask: Ask, design: Design) -> Release:
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
    noisy = answered(core.Release("means and weight", into, row, design), ask)
    values = {"sums": noisy[0].values[:d], "weight": noisy[0].values[d:]}
    if into.squares:
        values["products"] = noisy[1].values
    clusters, root = None, None
    if detail.clusters is not None:
        least = LEAST_SDS * float(_noise(d, detail)[-1])
        m = np.clip(values["sums"] / max(float(values["weight"][0]), least), -1.0, 1.0)
        root, back = roots(linearised(values["products"], m, _sd(d, detail), n) / n)
        scorer = Linearised(centre, half, trim.top, place, m, back)
        clusters = release_clusters(detail.clusters, (scorer,), design, ask)
        values["cluster scores"] = clusters.products[0]
    return Release(
        values, plan.guarantee, design,
        detail=WeightedReleased(windows, trim, clusters, root),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Linearised:
    """``R u (t - m)`` of rows, R and m released: a score for the pass by cluster."""

    # centre, half: (d,) arrays of the numbers; T, at which weights are cut; their row of the block
    centre: Array
    half: Array
    top: float
    place: int | None
    m: Array
    root: Array
    back: None = None

    @property
    def size(self) -> int:
        """Number of means."""
        return len(self.m)

    def contribution(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (d, m)."""
        t = (rows[: self.size] - self.centre[:, None]) / self.half[:, None]
        z = unit_rows(t, row_mass(rows, self.place, self.top)) / STEPS
        return clipped(mapped(self.root, z[:-1] - self.m[:, None] * z[-1]), factor, clip)


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


def estimate(plan: Plan[WeightedDetail], release: Release) -> Estimate:
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
    plan, release, estimate, title="Weighted mean of clipped values", people=True
)
