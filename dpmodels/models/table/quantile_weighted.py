"""Backend of ``dp_quantile(weights=)``: quantiles of a population from a noisy tree of weights.

A row lays u = min(w, T)/T at its leaf and 1 - u in the cell of the missing: one unit of mass on the
first level, at most one on every other, so the tree costs what a tree of counts costs
(``theory.md``, 4.6).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.statistics import Tree as Levels
from dpmodels.models.table.effects import Spread, critical
from dpmodels.models.table.quantile import (
    cells_for,
    checked,
    estimate_of,
    is_bought,
    names_of,
    numbers_of,
    steps_text,
)
from dpmodels.models.table.quantile_tree import (
    TreeDetail,
    leaves_for,
    rank_sd,
    read_off,
    tree_step,
)
from dpmodels.models.table.ranks import cells_of, grid_for
from dpmodels.models.table.tree import Tree, isotonic, levels_for, tree_counts, tree_sizes
from dpmodels.models.weighted import SHARE, STEP, Trim, shares_of_weight, trim_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release
from dpmodels.sources.summed import counted

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = ["WeightedLeaves", "estimate", "plan", "release", "why_not"]

#: Part of the weight beyond T by which a rank may be off.
ALLOWED = 0.75


def why_not(request: Request) -> str:
    """Return why a call does not end here, in words; empty if it does."""
    return "" if request.weights is not None else "no weights"


@dataclass(frozen=True)
class WeightedTree(TreeDetail):
    """The same, with the public size of the population."""

    population: float | None = None


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one tree of weights a number. Reads no row."""
    if request.unit is not None:
        raise RequestError("weights= are of rows: with unit= every person counts once")
    if request.sample is not None and request.sample.needed:
        raise RequestError(
            "quantiles take dp.Survey(weights=, population=): with PSUs use dp_quantreg("
            '"y ~ 1", design=), whose errors are by design'
        )
    jobs, numbers = checked(request, design), numbers_of(design)
    part = gaussian_part(request, design.unknown)
    rest = 1.0 - part.share
    share = rest * (1.0 - SHARE) / len(numbers)
    mu = part.mu * math.sqrt(share)
    weighed = Gaussian(part.mu * math.sqrt(rest * SHARE))
    steps = [*part.steps, Step(STEP, weighed, share=rest * SHARE)]
    steps += [Step(tree_step(design, j), Gaussian(mu), share=share) for j in numbers]
    points = int(request["points"] or leaves_for(n, mu))
    survey = None if request.sample is None else request.sample.frame.survey
    return Plan.of(
        request, design, n, steps,
        shares={**part.printed, "weights": rest * SHARE, "trees": rest * (1.0 - SHARE)},
        scales={"noise sd of a rank, about": rank_sd(levels_for(points)) / mu},
        purchase=part.purchase,
        detail=WeightedTree(jobs, 0.0, points, mu, None if survey is None else survey.population),
        passes=2 + bool(part.purchase),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class WeightedLeaves:
    """The masses at the points of every grid, in steps of 2^-20."""

    design: Design
    grids: Mapping[int, Array]
    top: float

    def total(self, rows: Any, reading: dict[str, Any]) -> dict[int, npt.NDArray[np.int64]]:
        """Return the masses by number. Confidential."""
        place = self.design.place_aside("weights")
        assert place is not None
        job = functools.partial(_of_leaves, grids=self.grids, place=place, top=self.top)
        return dict(zip(self.grids, counted(rows, self.design, job), strict=True))


def _of_leaves(
    blocks: Iterable[Array], grids: Mapping[int, Array], place: int, top: float
) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the masses over blocks, for whoever adds up."""
    out = [np.zeros(len(grid), dtype=np.int64) for grid in grids.values()]
    for block in blocks:
        mass = end_of_numbers(shares_of_weight(block[place], top), low=0.0)
        for total, (number, grid) in zip(out, grids.items(), strict=True):
            at, keep = cells_of(block, number, grid, {})
            laid = np.bincount(at[keep], weights=mass[keep], minlength=len(grid))
            total += laid.astype(np.int64)
    return tuple(out)


def release(plan: Plan[WeightedTree], ask: Ask) -> Release:
    """Release where weights are cut, and the tree of weights of each number.

    Privacy
    -------
    Unit: one row; replace-one, n public. Of each level a row lays one unit of mass at most.
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail, n = plan.detail, plan.n
    assert n is not None
    strength = n * detail.mu / rank_sd(levels_for(detail.points))
    trim = trim_of(ask, design, strength, detail.population, n)
    numbers = tuple(dict.fromkeys(j for j, _ in detail.jobs))
    grids = {j: grid_for(design, j, detail.points) for j in numbers}
    over = WeightedLeaves(design, grids, trim.top)
    values = {}
    for j in numbers:
        levels = levels_for(len(grids[j]))
        statistic = Levels(levels, tree_sizes(levels), people=True)
        query = Query(statistic, over, functools.partial(_tree, j=j, total=n * int(STEPS)))
        step = tree_step(plan.design, j)
        values[step] = ask(step, query).values
    return Release(values, plan.guarantee, design, detail=trim)


def _tree(leaves: Mapping[int, npt.NDArray[np.int64]], j: int, total: int) -> Added:
    """Return the masses of the tree of a number: what is not laid is in the missing cell."""
    return Added(tree_counts(leaves[j], total - int(leaves[j].sum())))


def estimate(plan: Plan[WeightedTree], release: Release) -> Estimate:
    """Quantiles and intervals (Woodruff): ``|F(x) - q U| <= z sqrt(q (1 - q) sum u^2 + tau^2)``."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    trim: Trim = release.detail
    n = plan.n
    assert n is not None
    z = critical(Spread(1.0), plan.request.level)
    found = np.full((len(detail.jobs), 4), np.nan)
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        grid = grid_for(release.design, j, detail.points)
        levels = levels_for(len(grid))
        tree = Tree(levels, 2.0 * levels / detail.mu**2)
        leaves, missing = tree.fit(release.values[tree_step(plan.design, j)], float(n))
        cdf = isotonic(np.cumsum(leaves))[: len(grid)]
        used = max(n - float(missing), 1.0)
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        q = np.array([detail.jobs[i][1] for i in mine])
        cells = cells_for(release.design, j, grid, bought=is_bought(plan, j))
        # sum u^2 over sum u, at least that of equal weights; and ranks that trimming may move
        spread = max(min(trim.square * n / used, 1.0), used / n) + (ALLOWED * trim.lost) ** 2 * used
        found[mine] = read_off(tree, cdf, grid, cells, used, q, z, spread)
    point, low, high, rank = found.T.copy()
    if not plan.request.inference:
        low = high = np.full(len(names), np.nan)
    said = (
        "Weighted quantiles; intervals by Woodruff: they invert the noisy distribution function, "
        "with its noise, the sampling error of a weighted share, and what trimming may have moved."
        + steps_text(plan, release.design, detail.points),
        f"Weights are cut at {trim.top:.3g} (about {trim.lost:.1%} of all weight is beyond). They "
        "are taken as delivered; how they were computed is outside this guarantee.",
    )
    return estimate_of(detail, names, point, low, high, said, rank_noise=rank)
