"""Backend of ``dp_quantile(method="tree")``: a noisy tree of counts, all quantiles, intervals."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.statistics import Tree as Levels
from dpmodels.models.table.effects import Spread, critical
from dpmodels.models.table.quantile import (
    Cells,
    LeavesPass,
    QuantileDetail,
    cells_for,
    checked,
    estimate_of,
    is_bought,
    names_of,
    numbers_of,
    steps_text,
)
from dpmodels.models.table.ranks import grid_for
from dpmodels.models.table.tree import WAYS, Tree, isotonic, levels_for, tree_counts, tree_sizes
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: Fewest and most leaves where the call does not say: noise is drawn for every one of them.
LEAVES, MOST_LEAVES = 4096, 65_536
#: What a leaf of ten times the mean mass may hold, over the error of a rank.
_IN_A_LEAF = 0.5


def leaves_for(n: int, mu: float) -> int:
    """Return the leaves of a tree of n values: a power of 4, so that none is padding.

    Finer than the error of a rank, sampling and noise together, buys nothing but noise.
    """
    leaves = LEAVES
    error = math.hypot(0.5 * math.sqrt(n), rank_sd(levels_for(LEAVES)) / mu)
    while leaves < MOST_LEAVES and 10.0 * n / leaves > _IN_A_LEAF * error:
        leaves *= WAYS
    return leaves


def rank_sd(levels: int) -> float:
    """Return the largest noise sd of a rank over 1 / mu, about: for plans (``theory.md``, 2.2)."""
    return 1.0 + 0.92 * levels


@dataclass(frozen=True)
class TreeDetail(QuantileDetail):
    """The same, with the part of mu that each number's tree gets."""

    mu: float = 0.0


def tree_step(design: Design, number: int) -> str:
    """Return the name of the release of a number's tree."""
    return f"tree of {design.columns[number].name}"


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one tree a number. Reads no row."""
    jobs = checked(request, design)
    numbers = numbers_of(design)
    part = gaussian_part(request, design.unknown)
    share = (1.0 - part.share) / len(numbers)
    mu = part.mu * math.sqrt(share)
    steps = [*part.steps, *(Step(tree_step(design, j), Gaussian(mu), share=share) for j in numbers)]
    points = int(request["points"] or leaves_for(n, mu))
    return Plan.of(
        request, design, n, steps,
        shares={**part.printed, "trees": 1.0 - part.share},
        scales={"noise sd of a rank, about": rank_sd(levels_for(points)) / mu},
        purchase=part.purchase,
        detail=TreeDetail(jobs, 0.0, points, mu),
        passes=1 + bool(part.purchase),
    )  # fmt: skip


def release(plan: Plan[TreeDetail], ask: Ask) -> Release:
    """Release the noisy counts of a tree over each number.

    Privacy
    -------
    Unit: one row; replace-one, n public. L2 sensitivity ``sqrt(2 levels)``
    (``tree.tree_counts``). A missing value is a cell of the first level. Of people the same, in
    steps of 2^-20: the mean of a person's rows is in the hull of what a row can be.
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail = plan.detail
    numbers = tuple(dict.fromkeys(j for j, _ in detail.jobs))
    grids = {j: grid_for(design, j, detail.points) for j in numbers}
    unit = int(STEPS) if plan.request.by_person else 1
    over = LeavesPass(plan, design, grids, unit)
    values = {}
    for j in numbers:
        levels = levels_for(len(grids[j]))
        statistic = Levels(levels, tree_sizes(levels), people=unit > 1)
        counts = functools.partial(_tree, j=j, total=ask.n * unit)
        step = tree_step(plan.design, j)
        values[step] = ask(step, Query(statistic, over, counts)).values
    return Release(values, plan.guarantee, design)


def _tree(leaves: Mapping[int, npt.NDArray[np.int64]], j: int, total: int) -> Added:
    """Return the counts of the tree of a number."""
    return Added(tree_counts(leaves[j], total - int(leaves[j].sum())))


def estimate(plan: Plan[TreeDetail], release: Release) -> Estimate:
    """Quantiles and intervals: {x: |F(x) - n q| <= z sqrt(n q (1 - q) + tau_x^2)}."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    assert plan.n is not None
    z = critical(Spread(1.0), plan.request.level)
    found = np.full((len(detail.jobs), 4), np.nan)
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        grid = grid_for(release.design, j, detail.points)
        levels = levels_for(len(grid))
        tree = Tree(levels, 2.0 * levels / detail.mu**2)
        leaves, missing = tree.fit(release.values[tree_step(plan.design, j)], float(plan.n))
        cdf = isotonic(np.cumsum(leaves))[: len(grid)]
        m = max(plan.n - float(missing), 1.0)
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        q = np.array([detail.jobs[i][1] for i in mine])
        cells = cells_for(release.design, j, grid, bought=is_bought(plan, j))
        found[mine] = read_off(tree, cdf, grid, cells, m, q, z, plan.request.alike)
    point, low, high, rank = found.T.copy()
    if not plan.request.inference:
        low = high = np.full(len(names), np.nan)
    return estimate_of(
        detail, names, point, low, high,
        ("Intervals invert the noisy distribution function, with its noise and the sampling "
         "error of a share; heaps make them wider, never too narrow."
         + steps_text(plan, release.design, detail.points),)
        if plan.request.inference else (),
        rank_noise=rank,
    )  # fmt: skip


def read_off(
    tree: Tree, cdf: Array, grid: Array, cells: Cells, m: float, q: Array, z: float,
    alike: float | Array,
) -> Array:  # fmt: skip
    """Return (point, low, high, noise sd of the rank) of every quantile of one number.

    ``alike``: sampling variance of a rank over that of m unrelated rows.
    """
    last = len(grid) - 1

    def first(rank: Array) -> Array:
        return np.minimum(np.searchsorted(cdf, rank, side="left"), last)

    def noise(at: Array) -> Array:
        """Noise sd of F(x) - q m at grid places."""
        weights = np.arange(WAYS**tree.levels) <= at[:, None]
        return np.sqrt(tree.functional_variance(weights - q[:, None]))

    target = q * m
    sampling = alike * m * q * (1.0 - q)
    at = first(target)
    tau = noise(at)
    half = z * np.sqrt(sampling + tau**2)
    # once more with the noise where the ends came to lie
    low = first(target - z * np.sqrt(sampling + noise(first(target - half)) ** 2))
    up = z * np.sqrt(sampling + noise(first(target + half)) ** 2)
    high = np.minimum(np.searchsorted(cdf, target + up, side="right"), last)
    return np.column_stack([grid[at], *cells.ends(low, high), tau])
