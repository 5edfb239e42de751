"""Quantiles and tests with weights: a noisy tree of weights, and Rao and Scott's correction.

A row adds u = min(w, T)/T at its leaf and 1 - u in the cell of the missing: one unit of mass on the
first level, at most one on every other, so the tree costs what a tree of counts costs
(``theory.md``, 4.6). For a design with PSUs the values ``u (1{y <= x} - q)`` at the released x
are summed by cluster in one more pass (Woodruff).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.clusters import Scorer
from dpmodels.core.grids import levels_for
from dpmodels.core.release import answered, run
from dpmodels.core.rows import Rows, linear, stack, where
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.models.table.layout import Block, Layout, layout_of, table_method, table_release
from dpmodels.models.table.noise import Spread, TableNoise, critical
from dpmodels.models.table.nulls import EFFECT_OPTION, TEST
from dpmodels.models.table.quantiles import (
    POINTS_OPTION,
    QUANTILES,
    TREE,
    QuantileDetail,
    ask_trees,
    cells_for,
    checked,
    counts_on,
    estimate_of,
    grid_for,
    is_bought,
    leaves_for,
    names_of,
    numbers_of,
    place_on,
    rank_sd,
    read_off,
    read_tree,
    steps_text,
    tree_step,
)
from dpmodels.models.table.testing import TESTS_BACKEND as TESTS
from dpmodels.models.table.testing import kind_of, null_of
from dpmodels.models.weights import (
    HISTOGRAM_SHARE,
    DesignErrors,
    Trim,
    design_note,
    refuse_kept_rows,
    row_mass,
    scale_for,
    trim_of,
    unweighted,
)
from dpmodels.models.window import LOOK_OPTION
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.sets import STEPS
from dpmodels.ranges import gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import BOUNDS_SHARE, Backend, Ending, Option, register_method
from dpmodels.scoring.cluster_plan import ClusterPlan, Paid, clip_of
from dpmodels.scoring.clusters import ClusterRelease, release_clusters
from dpmodels.scoring.rules import WEIGHT_STEP
from dpmodels.sums.ask import Ask

#: Part of the weight beyond T by which a rank may be off.
ALLOWED = 0.75


@dataclass(frozen=True)
class WeightedTree(QuantileDetail):
    """Weighted tree with the public size of the population, and the plan of its pass by cluster."""

    population: float | None = None
    clusters: ClusterPlan | None = None


def plan_weighted(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one tree of weights per numeric variable. Reads no row."""
    refuse_kept_rows(request)
    jobs, numbers = checked(request, design), numbers_of(design)
    part, steps = gaussian_part(request, design.unknown), []
    errors = None if request.inference else False
    paid = Paid.of(request, part, n, len(jobs), averaged=True, by_cluster=errors)
    remainder = paid.rest
    weigh = HISTOGRAM_SHARE if design.auxiliary_place("weights") is not None else 0.0
    share = remainder * (1.0 - weigh) / len(numbers)
    mu = paid.mu(share)
    if weigh:
        steps.append(
            Step(WEIGHT_STEP, Gaussian(paid.mu(remainder * weigh)), share=remainder * weigh)
        )
    steps += [Step(tree_step(design, j), Gaussian(mu), share=share) for j in numbers]
    points = int(request["points"] or leaves_for(n, mu))
    survey = None if request.sample is None else request.sample.frame.survey
    population = None if survey is None else survey.population
    return paid.plan(
        design, n, steps, passes=1 + bool(weigh),
        scales={"noise sd of a rank, about": rank_sd(levels_for(points)) / mu},
        detail=WeightedTree(jobs, points, 0.0, mu, population, paid.clusters),
    )  # fmt: skip


def ranks_of(
    z: Rows, grids: Mapping[int, Array], jobs: Sequence[tuple[int, float]], at: Any,
    scale: Array, u: Callable[[Rows], Rows],
) -> Rows:  # fmt: skip
    """Return the score of each quantile, ``a u (1{y <= x} - q)``; 0 where y is missing.

    ``grids``: of each number; ``jobs``: its index, and q; ``at``: index of the released x among the
    points of the grid; ``scale`` (k,): a; ``u``: weight of a row over T.
    """
    places = {j: place_on(z[j], grid) for j, grid in grids.items()}
    ahead = [
        where(np.isnan(places[j]), 0.0, (places[j] <= k) - q)
        for (j, q), k in zip(jobs, at, strict=True)
    ]
    return stack(*ahead) * u(z) * scale


@with_ranges
def release_weighted(plan: Plan[WeightedTree], ask: Ask, design: Design) -> Release:
    """Release the clip of weights, and a tree of weights for each numeric variable.

    **Privacy.** Unit: one row, or one person; one unit is replaced, the number of units is public.
    To each level of the tree a row adds at most one unit of weight, a person the mean of their
    rows.
    """
    detail, n = plan.detail, plan.public_n
    strength = n * detail.mu / rank_sd(levels_for(detail.points))
    people = plan.request.by_person
    trim = trim_of(ask, design, strength, detail.population, n, people=people)
    grids = {j: grid_for(design, j, detail.points) for j in numbers_of(design)}
    place = design.auxiliary_place("weights")
    u = functools.partial(row_mass, place=place, top=trim.top)
    values = ask_trees(plan, ask, *counts_on(design, grids, int(STEPS) * people, mass=u))
    errors = None
    if detail.clusters is not None:
        errors = _ask_by_psu(plan, ask, design, grids, trim, values)
        values["cluster scores"] = errors.found.products[0]
    return Release(values, plan.guarantee, design, detail=(trim, errors))


def _ask_by_psu(
    plan: Plan[WeightedTree], ask: Ask, design: Design, grids: Mapping[int, Array], trim: Trim,
    values: Mapping[str, Array],
) -> DesignErrors:  # fmt: skip
    """Release the products of ranks by PSU, at the released quantiles."""
    detail, n = plan.detail, plan.public_n
    assert detail.clusters is not None
    at = np.empty(len(detail.jobs), dtype=np.intp)
    for j, grid in grids.items():
        _, cdf, used = read_tree(plan, grid, values, j, n)
        for i, (k, share) in enumerate(detail.jobs):
            if k == j:
                at[i] = min(int(np.searchsorted(cdf, share * used, side="left")), len(grid) - 1)
    q = np.array([share for _, share in detail.jobs])
    clusters = detail.clusters
    clip = clip_of(len(q), clusters.n, clusters.each) / math.sqrt(len(q))
    scale = scale_for(q * (1.0 - q), np.maximum(q, 1.0 - q), trim.square, np.full(len(q), clip))
    u = functools.partial(row_mass, place=design.auxiliary_place("weights"), top=trim.top)
    score = functools.partial(ranks_of, grids=grids, jobs=detail.jobs, at=at, scale=scale, u=u)
    program = release_clusters(clusters, (Scorer(score, len(q)),), design)
    clusters_released = run(program, ask)
    typical = scale**2 * q * (1.0 - q) * trim.square
    return DesignErrors(clusters_released, scale, typical, n, plan.request.level)


def estimate_weighted(plan: Plan[WeightedTree], release: Release) -> Estimate:
    """Estimate Woodruff intervals: ``|F(x) - q U| <= z sqrt(q (1 - q) sum u^2 + tau^2)``."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    trim, errors = release.detail
    n = plan.public_n
    z = critical(Spread(1.0), plan.request.level)
    estimates, deff = np.full((len(detail.jobs), 4), np.nan), np.ones(len(detail.jobs))
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        grid = grid_for(release.design, j, detail.points)
        tree, cdf, used = read_tree(plan, grid, release.values, j, n)
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        q = np.array([detail.jobs[i][1] for i in mine])
        cells = cells_for(release.design, j, grid, bought=is_bought(plan, j))
        # sum u^2 over sum u, at least that of equal weights; and ranks that trimming may move
        spread = np.full(len(q), max(min(trim.square * n / used, 1.0), used / n))
        if errors is not None:
            rows = spread * used * q * (1.0 - q)
            effect, free = errors.effects(np.eye(len(detail.jobs))[mine], rows)
            deff[mine], spread = effect, spread * effect * free**2
        spread = spread + (ALLOWED * trim.lost) ** 2 * used
        estimates[mine] = read_off(tree, cdf, grid, cells, used, q, z, spread)
    point, low, high, rank = estimates.T.copy()
    lost = errors is not None and not errors.determined
    if lost or not plan.request.inference:
        low = high = np.full(len(names), np.nan)
    weighted = release.design.auxiliary_place("weights") is not None
    notes = [
        messages.WOODRUFF(
            kind="Weighted quantiles" if weighted else "Quantiles",
            steps=steps_text(plan, release.design, detail.points),
        )
    ]
    if weighted:
        hint = "Weights are used as delivered; their computation is outside this guarantee."
        notes.append(messages.TRIMMED_WEIGHTS(top=trim.top, lost=100.0 * trim.lost, more=hint))
    if plan.request.by_person:
        notes.append(messages.WEIGHTED_PEOPLE())
    if errors is not None and detail.clusters is not None:
        notes.append(design_note(detail.clusters, errors.found))
        effects = ", ".join(f"{n} {d:.2f}" for n, d in zip(names, deff, strict=True))
        notes.append(
            messages.NO_DESIGN_VARIANCE(
                what="intervals", remedy="Use fewer quantiles, more rows or a larger eps"
            )
            if lost
            else messages.CLUSTER_EFFECTS(effects=effects, more="")
        )
    return estimate_of(detail, names, point, low, high, tuple(notes), rank_noise=rank)


WEIGHTED = Backend(
    plan_weighted,
    release_weighted,
    estimate_weighted,
    title="Noisy 4-way tree of weights",
    people=True,
)


# -- Backend of ``dp_test("~ a * b", design=)``: independence in a survey (Rao and Scott, 1984).
#
# Weighted cells in one release; then a pass by cluster over the contrasts
# ``z = u (1_{a=i} - r_i)(1_{b=j} - c_j)`` at the released margins, whose sums X are 0 where a and b
# are independent. At released margins the errors of these are of second order. The reference is F
# by the second-order correction: eigenvalues of the design covariance, noise of X included, in the
# coordinates where rows drawn one by one have the identity.


_SUMS_STEP = "sums of the test"
#: Least share of a level that is believed, in steps of its noise and absolutely.
_LEAST_LEVEL = 1e-3


@dataclass(frozen=True)
class RaoScott:
    """Public facts of the test: its table, its noise, and the pass by cluster."""

    layout: Layout
    noise: TableNoise
    clusters: ClusterPlan
    population: float | None
    weighted: bool


@dataclass(frozen=True)
class RaoScottReleased:
    """Released cells with their margins, and the release of the pass by cluster."""

    cells: Array
    rows: Array
    columns: Array
    clusters: ClusterRelease
    root: Array
    square: float


def plan_rao_scott(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the test. Reads no row."""
    kind = kind_of(request, design)
    if kind != "independence":
        raise RequestError(
            f'dp_test("{design.formula}", design=) has the test of independence, "~ a * b". Equal '
            'means are a Wald test: dp_ols("y ~ g", data, design=...).wald_test("g")'
        )
    null_of(request, design, kind)
    if request.unit is not None:
        raise RequestError("weights= and design= are of rows: leave unit= out")
    if request.sample is None:
        raise RequestError(
            'weights= of a test: say the design, design=dp.Survey(weights="w") (with psu= and '
            "strata=, if there are any), by which its reference is made"
        )
    layout = replace(layout_of(design), blocks=(Block((0, 1)),))
    frame = request.sample.frame
    # contrasts are products: if a and b are correlated with the unit, so is their product
    survey = replace(frame.survey, icc=frame.survey.icc**1.5)
    sample = replace(request.sample, frame=replace(frame, survey=survey))
    dim = (layout.axes[0].size - 2) * (layout.axes[1].size - 2)
    paid = Paid.of(request, gaussian_part(request, ()), n, dim, sample=sample, by_cluster=True)
    assert paid.clusters is not None
    weighted = design.auxiliary_place("weights") is not None
    shares = {WEIGHT_STEP: HISTOGRAM_SHARE * paid.rest} if weighted else {}
    shares[_SUMS_STEP] = paid.rest - math.fsum(shares.values())
    steps = [Step(name, Gaussian(paid.mu(s)), share=s) for name, s in shares.items()]
    detail = RaoScott(
        layout, TableNoise("gaussian", paid.mu(shares[_SUMS_STEP]), (1.0,)), paid.clusters,
        request.sample.frame.survey.population, weighted,
    )  # fmt: skip
    return paid.plan(design, n, steps, detail=detail, passes=1 + weighted)


def contrasts_of(z: Rows, rows: Array, columns: Array, root: Array, u: Any) -> Rows:
    """Return ``R u (1_{a=i} - r_i)(1_{b=j} - c_j)``, all but the last i and j; 0 where missing."""
    a, b = z[0], z[1]
    mass = where((a < len(rows)) & (b < len(columns)), u(z), 0.0)
    left: Any = (a == np.arange(len(rows) - 1)) - rows[:-1]
    right = (b == np.arange(len(columns) - 1)) - columns[:-1]
    return linear(root, stack(*(left[i] * right for i in range(len(rows) - 1))) * mass)


def release_rao_scott(plan: Plan[RaoScott], ask: Ask) -> Release:
    """Release the clip of weights, the cells, and the products of contrasts by cluster.

    **Privacy.** Unit: one row; replace-one, n public. Every query is one of the prover.
    """
    detail, design, n = plan.detail, plan.design, plan.public_n
    layout, (block,) = detail.layout, detail.layout.blocks
    strength = detail.noise.budget * n / layout.cells(block.axes)
    trim = trim_of(ask, design, strength, detail.population, n)
    u = functools.partial(row_mass, place=design.mass_place, top=trim.top)
    tables = table_release(_SUMS_STEP, layout, detail.noise.shares, design, u)
    noisy = answered(tables, ask).values
    shape = tuple(layout.axes[j].size for j in block.axes)
    cells = noisy[: math.prod(shape)].reshape(shape)[:-1, :-1]
    total = max(float(cells.sum()), 1.0)
    r, c = (_margin(cells.sum(axis=axis) / total) for axis in (1, 0))
    square = trim.square if detail.weighted else min(total / n, 1.0)
    product = np.kron(_spread(r), _spread(c)) * max(square, 1e-9)
    values, vectors = np.linalg.eigh(product)
    root = (vectors / np.sqrt(values)) @ vectors.T
    u = functools.partial(row_mass, place=design.auxiliary_place("weights"), top=trim.top)
    score = functools.partial(contrasts_of, rows=r, columns=c, root=root, u=u)
    scorers = (Scorer(score, len(root)),)
    by_cluster = run(release_clusters(detail.clusters, scorers, design), ask)
    out = RaoScottReleased(cells, r, c, by_cluster, root, square)
    return Release(
        {"sums": noisy, "cluster scores": by_cluster.products[0]},
        plan.guarantee,
        design,
        detail=out,
    )


def _margin(share: Array) -> Array:
    """Return released shares as shares: not below a thousandth, adding up to 1."""
    out = np.maximum(share, _LEAST_LEVEL)
    return np.asarray(out / out.sum())


def _spread(share: Array) -> Array:
    """Return the covariance of a row's dummies but the last."""
    p = share[:-1]
    return np.diag(p) - np.outer(p, p)


def estimate_rao_scott(plan: Plan[RaoScott], release: Release) -> Estimate:
    """Return the F test, and the weighted cells."""
    detail, part, n = plan.detail, release.detail, plan.public_n
    r, c, cells = part.rows, part.columns, part.cells
    total = max(float(cells.sum()), 1.0)
    X = (cells - np.outer(r, c) * total)[:-1, :-1].ravel()
    x = part.root @ X
    turns = (np.eye(len(p) - 1, len(p)) - np.outer(p[:-1], np.ones(len(p))) for p in (r, c))
    turn = part.root @ np.kron(*turns)
    noise = detail.noise.variance(0) * turn @ turn.T
    by_cluster: ClusterRelease = part.clusters
    V = by_cluster.meat(0, np.eye(len(x))) + noise / n
    values = np.linalg.eigvalsh((V + V.T) / 2.0)
    weight = float(values.sum())
    df = weight**2 / float((values**2).sum())
    free = df * min(by_cluster.df, float(n))
    F = float(x @ x) / n / weight
    determined = by_cluster.determined(0)
    a, b = detail.layout.axes[:2]
    names = tuple(
        f"share[{a.name}={x}, {b.name}={y}]" for x in a.labels[:-1] for y in b.labels[:-1]
    )
    survey = plan.request.sample.frame.survey
    units = "rows" if survey.psu is None else f"{by_cluster.clusters:.0f} PSUs"
    sd = math.sqrt(detail.noise.variance(0)) / total
    return Estimate(
        names,
        (cells / total).ravel(),
        vcov_sampling=np.full((len(names),) * 2, np.nan),
        vcov_privacy=np.diag(np.full(len(names), sd**2)),
        stats={
            "statistic": F, "df": df, "df_denominator": free,
            "p_value": float(special.fdtrc(df, free, F)) if determined else math.nan,
        },
        notes=(
            messages.RAO_SCOTT(df=df, free=free, units=units),
            *(
                ()
                if determined
                else (
                    messages.NO_DESIGN_VARIANCE(
                        what="P value", remedy="Use fewer cells, more rows or a larger eps"
                    ),
                )
            ),
            *((messages.CONSERVATIVE_TEST(),) if determined and survey.psu is not None else ()),
            messages.ROW_NOT_CLUSTER(
                who="row", psu=survey.psu or "PSU",
                detail="Weights are used as delivered; their computation is outside this guarantee",
            ),
        ),
    )  # fmt: skip


RAO_SCOTT = Backend(
    plan_rao_scott, release_rao_scott, estimate_rao_scott, title="Rao-Scott test of weighted sums"
)
register_method(
    table_method(
        name="tree",
        verb="dp_quantile",
        title="Noisy 4-way tree of counts",
        backend=TREE,
        endings=(Ending(WEIGHTED, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        needs=("delta > 0", "one pass"),
        privacy_se="unavailable",
        reference="Hay, Rastogi, Miklau and Suciu (2010)",
        options=(QUANTILES, POINTS_OPTION, BOUNDS_SHARE),
    )
)
register_method(
    table_method(
        name="score",
        verb="dp_test",
        title="Test of noisy sums",
        backend=TESTS,
        endings=(Ending(RAO_SCOTT, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        needs=("delta > 0", "one pass"),
        privacy_se="public",
        reference="Kifer and Rogers (2017), A new class of private chi-square tests",
        options=(
            TEST,
            Option("mu0", "hypothesis of one mean", None, float),
            Option("p", "hypothesis of one category: shares, or that of the second level", None),
            EFFECT_OPTION,
            Option("sd", "for plans: standard deviation; None: a quarter of the range", None, float,
                   lower=0.0),
            Option("shares", "for plans: shares of the groups; None: equal", None, object),
            BOUNDS_SHARE, LOOK_OPTION,
        ),
    )
)  # fmt: skip
