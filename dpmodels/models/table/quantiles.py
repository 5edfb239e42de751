"""Backends of ``dp_quantile``: the exponential mechanism and a noisy tree of counts.

Proofs: ``theory.md``, 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.grids import STEPS_OF_RANKS, WAYS, Points, levels_for
from dpmodels.core.rows import Rows, stack
from dpmodels.core.sets import Reading
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.table.layout import Layout, program_of, table_method
from dpmodels.models.table.noise import Spread, critical
from dpmodels.notes import Note
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.proof.prove import rank_sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Ranks
from dpmodels.ranges import Split, pair_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import BOUNDS_SHARE, Backend, Option, register_method
from dpmodels.sums.ask import Ask

# -- Quantiles by the exponential mechanism on a public grid (``theory.md``, 2.1).
#
# Candidates are grid points; the utility of x is minus the distance of the rank ``q m`` from the
# *interval* of ranks ``[#{< x}, #{<= x}]`` of x, where m counts the valid values. With the rank of
# x alone heaps would be missed: no x of a heap has the requested rank.


#: Points of the grid.
MOST_POINTS = 1 << 16
#: Cells of all groups together.
_MOST_GROUP_CELLS = 1 << 22
#: Largest denominator of a quantile: penalties are integers over it.
_DENOMINATOR = 10_000


def fraction(q: float) -> Fraction:
    """Return q as a fraction with a denominator of at most 10 000, inside (0, 1)."""
    near = Fraction(q).limit_denominator(_DENOMINATOR)
    return min(max(near, Fraction(1, _DENOMINATOR)), Fraction(_DENOMINATOR - 1, _DENOMINATOR))


def grid_of(interval: tuple[float, float], points: int) -> Array:
    """Return at most ``points`` multiples of 1, 2 or 5 times a power of ten inside a range.

    Values that people round to lie on such a grid, and heaps stay heaps.
    """
    lo, hi = interval
    if not hi > lo:  # an estimated range of one point: whatever is released, it is near that point
        hi = lo + 1e-6 * max(abs(lo), 1.0)
    least = (hi - lo) / (points - 1)
    power = math.floor(math.log10(least))
    digit, power = next(
        (d, p) for p in (power, power + 1) for d in (1, 2, 5)
        if Fraction(d) * Fraction(10) ** p >= Fraction(least) * (1 - Fraction(1, 10**9))
    )  # fmt: skip
    step = Fraction(digit) * Fraction(10) ** power
    first, last = math.ceil(Fraction(lo) / step), math.floor(Fraction(hi) / step)
    if last <= first:
        return np.linspace(lo, hi, points)
    multiples = np.arange(first, last + 1, dtype=float)
    # over a power of ten, not times a tenth: 3.1 and not 3.1000000000000001
    return multiples * digit / 10.0**-power if power < 0 else multiples * (digit * 10.0**power)


def grid_for(design: Design, number: int, points: int) -> Array:
    """Return the public grid of a column with a known range: the integers of a declared count."""
    column = design.columns[number]
    assert column.interval is not None
    variable = design.schema.variables.get(column.name)
    if variable is not None and variable.kind == "count":
        integers = np.arange(math.floor(column.interval[0]), math.ceil(column.interval[1]) + 1.0)
        if 1 < len(integers) <= points:
            return integers
    return grid_of(column.interval, points)


def place_on(x: Rows, grid: Array) -> Rows:
    """Return the place of the nearest point of a grid, NaN where x is missing."""
    lo, hi = float(grid[0]), float(grid[-1])
    return np.rint((x - lo) * ((len(grid) - 1) / (hi - lo)))  # type: ignore[no-any-return]


def counts_on(
    design: Design, grids: Mapping[int, Array], unit: int, group: Mapping[int, int] | None = None,
    mass: Callable[[Rows], Rows] | None = None,
) -> tuple[Points, Reading]:  # fmt: skip
    """Return the set that counts at the points of the grid of each number, and its reading.

    ``unit``: steps of a person, 0 where units are rows; ``group``: column -> number of codes;
    ``mass``: of a row.
    """

    def places(z: Rows) -> tuple[Rows, ...]:
        on_grids = stack(*(place_on(z[j], grid) for j, grid in grids.items()))
        codes = (stack(*(z[j] for j in group)),) if group else ()
        return (on_grids, *codes, *(() if mass is None else (mass(z),)))

    points = {j: len(grid) for j, grid in grids.items()}
    into = Points(points, tuple((group or {}).values()), unit, mass=mass is not None)
    return into, Reading(design, (places,), (into,))


@dataclass(frozen=True)
class QuantilePart:
    """The quantiles of a table."""

    steps: tuple[Step, ...]
    # tuple of (step name, column, group axes, quantile)
    jobs: tuple[tuple[str, int, tuple[int, ...], float], ...]
    points: int  # Points of the grid

    def rank_scale(self, section: Any, q: float) -> float:
        """Return the scale of the error of the rank of a quantile, in ranks."""
        place = [j for j, (_, number, axes, job_q) in enumerate(self.jobs)
                 if (number, axes, job_q) == (section.number, section.axes, q)]  # fmt: skip
        mechanism: Any = self.steps[place[0]].mechanism
        ranks = Ranks(fraction(q), groups=bool(section.axes))
        return 2.0 * rank_sensitivity(ranks) / ranks.step / float(mechanism.eps)

    def grids(self, design: Design) -> dict[int, Array]:
        """Return the grid of every numeric variable."""
        return {number: grid_for(design, number, self.points) for _, number, _, _ in self.jobs}


def quantile_part(layout: Layout, eps: float, share: float) -> QuantilePart:
    """Plan the quantiles of a table: an equal part of a share of the ``eps`` of the call each."""
    sections = [s for s in layout.sections if s.kind == "quantiles"]
    jobs = []
    for s in sections:
        by = " by " + " x ".join(layout.axes[j].name for j in s.axes) if s.axes else ""
        jobs += [
            (f"{q:g} quantile of {s.variable}{by}", s.number, s.axes, q) for q in layout.quantiles
        ]
    each = share * eps / len(jobs)
    cells = max(layout.cells(s.axes) for s in sections)
    points = MOST_POINTS
    while points * cells > _MOST_GROUP_CELLS and points > 1024:
        points //= 2
    steps = tuple(
        Step(name, Pure(each), share=share / len(jobs), label="exponential mechanism")
        for name, _, _, _ in jobs
    )
    return QuantilePart(steps, tuple(jobs), points)


def release_quantiles(
    part: QuantilePart, layout: Layout, design: Design, ask: Ask, *, people: bool = False
) -> dict[str, Array]:
    """Release the grid index of every quantile of every group, by step name.

    **Privacy.** Unit: one row, or one person (whose mean is in the hull of what a row can be);
    replace-one. Each step is pure eps-DP: :class:`~dpmodels.proof.statistics.Ranks`.
    """
    passes: dict[tuple[int, tuple[int, ...]], tuple[Points, Reading]] = {}
    out = {}
    grids = part.grids(design)
    unit = STEPS_OF_RANKS if people else 0
    for name, number, axes, q in part.jobs:
        if (number, axes) not in passes:
            group = {layout.axes[j].column: layout.axes[j].size for j in axes}
            passes[number, axes] = counts_on(design, {number: grids[number]}, unit, group)
        into, over = passes[number, axes]
        ranks, penalties = into.ranks(number, fraction(q))
        chosen = ask.choose(name, ranks, over, penalties, ask.n)
        out[name] = chosen.astype(float)
    return out


# -- Ends of intervals of quantiles on a public grid (``theory.md``, 2.3)


class Cells:
    """The cells of the points of a grid.

    ``step`` lies between points; 0 where values are integers and so are the points. ``low`` and
    ``high`` (points + 2,) are the ends, with one more entry on either side: the declared bound,
    infinite if the range was estimated (values beyond it count in the first and last cell).
    """

    def __init__(self, grid: Array, bounds: tuple[float, float], *, whole: bool) -> None:
        self.step = 0.0 if whole else float(grid[-1] - grid[0]) / (len(grid) - 1)
        lo, hi = bounds
        inside = np.clip(grid[1:] - self.step / 2.0, lo, hi)
        self.low = np.concatenate([[lo, lo], inside, [hi]])
        inside = np.clip(grid[:-1] + self.step / 2.0, lo, hi)
        self.high = np.concatenate([[lo], inside, [hi, hi]])

    def ends(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the outer ends of cells: indices in the grid, -1 and len(grid) beyond it."""
        return self.low[np.asarray(low) + 1], self.high[np.asarray(high) + 1]


def cells_for(design: Design, number: int, grid: Array, *, bought: bool) -> Cells:
    """Return the cells of a column's grid (:func:`dpmodels.models.table.quantiles.grid_for`)."""
    column = design.columns[number]
    assert column.interval is not None
    variable = design.schema.variables.get(column.name)
    counts = variable is not None and variable.kind == "count"
    are_integers = (
        counts and bool((grid == np.rint(grid)).all()) and float(grid[1] - grid[0]) == 1.0
    )
    bounds = (-np.inf, np.inf) if bought else column.interval
    return Cells(grid, bounds, whole=are_integers)


#: The best candidate is within ``(2 / eps) log(points / FAILS)`` ranks but with this probability.
FAILS = 0.005


@dataclass(frozen=True)
class QuantileDetail:
    """Public facts of a quantile call."""

    jobs: tuple[tuple[int, float], ...]  # tuple of (column, quantile)
    points: int  # Most points of a grid
    each: float = 0.0  # eps of one draw ("em")
    mu: float = 0.0  # mu of each numeric variable's tree ("tree")


def probabilities(typed: Any, name: str) -> tuple[float, ...]:
    """Return the checked quantiles of an option, in order."""
    listed = list(typed) if isinstance(typed, (list, tuple, np.ndarray)) else [typed]
    for q in listed:
        if isinstance(q, bool) or not isinstance(q, (int, float, np.number)) or not 0 < q < 1:
            raise RequestError(
                f"{name}= must be numbers between 0 and 1, for example {name}=[0.25, 0.5, 0.75]"
            )
    return tuple(sorted({float(q) for q in listed}))


def numbers_of(design: Design) -> tuple[int, ...]:
    """Return the columns whose quantiles are asked for; refuse categories and groups."""
    program = program_of(design)
    if program.left and program.right:
        raise RequestError(
            f'"{design.formula}": quantiles by group are dp_table("{design.formula}", '
            "quantiles=[...])"
        )
    chosen = []
    for term in program.left or program.right:
        names = ":".join(program.sources[j].name for j in term)
        if len(term) > 1 or program.sources[term[0]].levels is not None:
            raise RequestError(f"{names!r} is not a number: it has no quantiles")
        chosen.append(term[0])
    return tuple(chosen)


def checked(request: Request, design: Design) -> tuple[tuple[int, float], ...]:
    """Return the jobs of a call: every quantile of every numeric variable."""
    q = probabilities(request["q"], "q")
    if not q:
        raise RequestError("q= is empty. For example q=0.5")
    return tuple((j, p) for j in numbers_of(design) for p in q)


def names_of(design: Design, jobs: tuple[tuple[int, float], ...]) -> tuple[str, ...]:
    """Return ``q0.5(wage)``."""
    return tuple(f"q{q:g}({design.columns[j].name})" for j, q in jobs)


def plan_em(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one draw per quantile, or three with intervals. Reads no row."""
    jobs = checked(request, design)
    part = pair_part(request, design.unknown)
    ends = ("", " low", " high") if request.inference else ("",)
    each = part.eps / (len(jobs) * len(ends))
    names = names_of(design, jobs)
    draws = [
        Step(name + end, Pure(each), share=each / request.eps, label="exponential mechanism")
        for name in names
        for end in ends
    ]
    points = int(request["points"] or MOST_POINTS)
    return Plan.of(
        request, design, n, [*part.steps, *draws],
        purchase=part.purchase,
        scales={"rank error with probability 0.995": 2.0 / each * math.log(points / FAILS)},
        detail=QuantileDetail(jobs, points, each),
    )  # fmt: skip


@with_ranges
def release_em(plan: Plan[QuantileDetail], ask: Ask, design: Design) -> Release:
    """Release grid points by the exponential mechanism.

    **Privacy.** Unit: one row; replace-one, n public. Each draw is pure eps-DP: one row moves a
    penalty by at most 1 (``ranks.penalties``). A missing value counts for no rank. The same holds
    for people: ranks are sums of people's means, in steps of 1/256 (``units.md``, 11).
    """
    detail = plan.detail
    request = plan.request
    numbers = dict.fromkeys(j for j, _ in detail.jobs)
    grids = {j: grid_for(design, j, detail.points) for j in numbers}
    unit = STEPS_OF_RANKS if request.by_person else 0
    into, over = counts_on(design, grids, unit)
    z = critical(Spread(1.0), request.level)
    values: dict[str, Array] = {}
    for (j, q), name in zip(detail.jobs, names_of(plan.design, detail.jobs), strict=True):
        exact = fraction(q)
        slack = z * math.sqrt(request.copies * ask.n * q * (1.0 - q))
        slack += 2.0 / detail.each * math.log(len(grids[j]) / FAILS)
        far = math.ceil(slack)
        ranks, penalties = into.ranks(j, exact)
        most = ask.n + far
        values[name] = grids[j][ask.choose(name, ranks, over, penalties, most)]
        if request.inference:
            cells = cells_for(design, j, grids[j], bought=is_bought(plan, j))
            ends = {}
            for side, offset in (("low", -far), ("high", far)):
                ranks, penalties = into.ranks(j, exact, offset)
                ends[side] = ask.choose(f"{name} {side}", ranks, over, penalties, most)
            low, high = ends["low"] - 1, ends["high"]
            values[f"{name} low"], values[f"{name} high"] = cells.ends(low, high)
    return Release(values, plan.guarantee, design)


def is_bought(plan: Plan[Any], number: int) -> bool:
    """Whether the range of a column was estimated: values may lie beyond it."""
    return plan.design.columns[number].name in plan.design.unknown


def steps_text(plan: Plan[Any], design: Design, points: int) -> str:
    """Return the note that says the step of every grid."""
    steps = []
    for j in dict.fromkeys(j for j, _ in plan.detail.jobs):
        step = cells_for(design, j, grid_for(design, j, points), bought=False).step
        if step:
            steps.append(f"{step:g} of {design.columns[j].name}")
    if not steps:
        return ""
    bought = any(is_bought(plan, j) for j, _ in plan.detail.jobs)
    advice = " Where a range was estimated, values beyond it are unknown: such an end is inf."
    return (
        f" Values count at the nearest point of a grid, in steps of {', '.join(steps)}: the ends "
        f"lie half a step further out.{advice if bought else ''}"
    )


def estimate_em(plan: Plan[QuantileDetail], release: Release) -> Estimate:
    """Return quantiles, and the ends of their intervals."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    point = np.array([release.values[name][0] for name in names])
    low = high = np.full(len(names), np.nan)
    notes: tuple[Note, ...] = ()
    if plan.request.inference:
        low = np.array([release.values[f"{name} low"][0] for name in names])
        high = np.array([release.values[f"{name} high"][0] for name in names])
        steps = steps_text(plan, release.design, detail.points)
        notes = (messages.EM_INTERVALS(steps=steps),)
    return estimate_of(detail, names, point, np.minimum(low, point), np.maximum(high, point), notes)


def estimate_of(
    detail: QuantileDetail, names: tuple[str, ...], point: Array, low: Array, high: Array,
    notes: tuple[Note, ...], **arrays: Array,
) -> Estimate:  # fmt: skip
    """Return an estimate of quantiles that do not cross (nor do the ends of intervals)."""
    point, low, high = point.copy(), low.copy(), high.copy()
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        for values in (point, low, high):
            values[mine] = np.sort(values[mine])
    return Estimate(
        names, point,
        notes=(*notes, messages.MISSING_QUANTILES()),
        arrays={"q": np.array([q for _, q in detail.jobs]), "low": low, "high": high, **arrays},
    )  # fmt: skip


EM = Backend(plan_em, release_em, estimate_em, people=True)


# -- A 4-way tree of noisy counts, made consistent (``theory.md``, 2.2).
#
# Level l = 1, ..., L counts the values in 4^l equal runs of leaves; the first level also has the
# cell of missing values, so it adds up to n, which is exact. Least squares goes up the tree and
# down
# again (Hay et al. 2010): the estimates of a level share one variance, so both ways are vectorised.


@dataclass(frozen=True)
class Tree:
    """Least squares on noisy counts of :func:`tree_counts`."""

    levels: int
    variance: float  # Noise variance of every count

    def split(self, noisy: Array) -> tuple[list[Array], Array]:
        """Return the counts by level (..., 4^l), and the missing cell (...)."""
        sizes = [WAYS**k for k in range(1, self.levels + 1)]
        first, missing, below = np.split(noisy, [WAYS, WAYS + 1], axis=-1)
        ends = np.cumsum(sizes[1:])[:-1]
        deeper = np.split(below, ends, axis=-1) if self.levels > 1 else []
        return [first, *deeper], missing[..., 0]

    def fit(self, noisy: Array, total: float) -> tuple[Array, Array]:
        """Return the least squares leaves (..., 4^L) and missing cell, given the exact total."""
        by_level, missing = self.split(noisy)
        up = [by_level[-1]]
        spread = [self.variance]  # of the estimates of a level from below
        for y in reversed(by_level[:-1]):
            below = WAYS * spread[-1]
            weight = below / (below + self.variance)  # of the count itself
            children = up[-1].reshape(*y.shape, WAYS).sum(axis=-1)
            up.append(weight * y + (1.0 - weight) * children)
            spread.append(self.variance * weight)
        up, spread = up[::-1], spread[::-1]
        short = total - up[0].sum(axis=-1) - missing
        total_variance = WAYS * spread[0] + self.variance
        x = up[0] + (short * spread[0] / total_variance)[..., None]
        for z in up[1:]:
            children = z.reshape(*x.shape, WAYS)
            gap = (x - children.sum(axis=-1)) / WAYS
            x = (children + gap[..., None]).reshape(z.shape)
        return x, missing + short * self.variance / total_variance

    def functional_variance(self, weights: Array) -> Array:
        """Return the noise variance of ``weights @ leaves``, (...,) for weights (..., 4^L).

        With W = I / variance and counts ``y = variance * weights`` at the leaves alone,
        ``A'W y = weights``: the fit is ``(A'WA)^{-1} weights``, on the exact total 0.
        """
        padding = sum(WAYS**k for k in range(1, self.levels)) + 1
        zeros = np.zeros((*weights.shape[:-1], padding))
        y = np.concatenate([zeros, self.variance * weights], axis=-1)
        x, _ = self.fit(y, 0.0)
        return np.asarray((weights * x).sum(axis=-1))


def isotonic(values: Array) -> Array:
    """Return the nearest increasing sequence in least squares (pool adjacent violators)."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] >= mean:
            other = sizes.pop()
            mean = (means.pop() * other + mean * size) / (other + size)
            size += other
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)


# -- Backend of ``dp_quantile(method="tree")``: a noisy tree of counts, all quantiles, intervals.


#: Fewest and most leaves where the call does not say: noise is drawn for every one of them.
LEAVES, MOST_LEAVES = 4096, 65_536
#: Largest count of a leaf of ten times the mean mass, over the error of a rank.
_IN_A_LEAF = 0.5


def leaves_for(n: int, mu: float) -> int:
    """Return the leaves of a tree of n values: a power of 4, so that none is padding.

    Finer than the error of a rank, sampling and noise together, adds only noise.
    """
    leaves = LEAVES
    error = math.hypot(0.5 * math.sqrt(n), rank_sd(levels_for(LEAVES)) / mu)
    while leaves < MOST_LEAVES and 10.0 * n / leaves > _IN_A_LEAF * error:
        leaves *= WAYS
    return leaves


def rank_sd(levels: int) -> float:
    """Return the largest noise sd of a rank over 1 / mu, about: for plans (``theory.md``, 2.2)."""
    return 1.0 + 0.92 * levels


def tree_step(design: Design, number: int) -> str:
    """Return the name of the release of a numeric variable's tree."""
    return f"tree of {design.columns[number].name}"


def plan_tree(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one tree per numeric variable. Reads no row."""
    jobs = checked(request, design)
    numbers = numbers_of(design)
    trees = {tree_step(design, j): (tree_step(design, j), 1.0 / len(numbers)) for j in numbers}
    split = Split(request, design, trees)
    mu = split.mu[tree_step(design, numbers[0])]
    points = int(request["points"] or leaves_for(n, mu))
    return split.plan(
        n,
        scales={"noise sd of a rank, about": rank_sd(levels_for(points)) / mu},
        detail=QuantileDetail(jobs, points, mu=mu),
    )  # fmt: skip


@with_ranges
def release_tree(plan: Plan[QuantileDetail], ask: Ask, design: Design) -> Release:
    """Release the noisy counts of a tree over each numeric variable.

    **Privacy.** Unit: one row; replace-one, n public. L2 sensitivity ``sqrt(2 levels)``
    (``tree.tree_counts``). A missing value is a cell of the first level. For people it is
    the same, in steps of 2^-20: the mean of a person's rows is in the hull of the values of a row.
    """
    detail = plan.detail
    grids = {j: grid_for(design, j, detail.points) for j in numbers_of(design)}
    counts = counts_on(design, grids, int(STEPS) * plan.request.by_person)
    return Release(ask_trees(plan, ask, *counts), plan.guarantee, design)


def ask_trees(plan: Plan[Any], ask: Ask, into: Points, over: Reading) -> dict[str, Array]:
    """Release the tree of every numeric variable by the name of its step."""
    steps = {tree_step(plan.design, j): j for j in into.points}
    return {step: ask(step, into.tree(over, j, ask.n)).values for step, j in steps.items()}


def read_tree(
    plan: Plan[Any], grid: Array, values: Mapping[str, Array], j: int, n: int
) -> tuple[Tree, Array, float]:
    """Return (tree, distribution function on its grid, valid count) of a numeric variable."""
    levels = levels_for(len(grid))
    tree = Tree(levels, 2.0 * levels / plan.detail.mu**2)
    leaves, missing = tree.fit(values[tree_step(plan.design, j)], float(n))
    cdf = isotonic(np.cumsum(leaves))[: len(grid)]
    return tree, cdf, max(n - float(missing), 1.0)


def estimate_tree(plan: Plan[QuantileDetail], release: Release) -> Estimate:
    """Return quantiles and intervals: {x: |F(x) - n q| <= z sqrt(n q (1 - q) + tau_x^2)}."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    z = critical(Spread(1.0), plan.request.level)
    estimates = np.full((len(detail.jobs), 4), np.nan)
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        grid = grid_for(release.design, j, detail.points)
        tree, cdf, m = read_tree(plan, grid, release.values, j, plan.public_n)
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        q = np.array([detail.jobs[i][1] for i in mine])
        cells = cells_for(release.design, j, grid, bought=is_bought(plan, j))
        estimates[mine] = read_off(tree, cdf, grid, cells, m, q, z, plan.request.copies)
    point, low, high, rank = estimates.T.copy()
    if not plan.request.inference:
        low = high = np.full(len(names), np.nan)
    return estimate_of(
        detail, names, point, low, high,
        (messages.TREE_INTERVALS(steps=steps_text(plan, release.design, detail.points)),)
        if plan.request.inference else (),
        rank_noise=rank,
    )  # fmt: skip


def read_off(
    tree: Tree, cdf: Array, grid: Array, cells: Cells, m: float, q: Array, z: float,
    copies: float | Array,
) -> Array:  # fmt: skip
    """Return (point, low, high, noise sd of the rank) of every quantile of one numeric variable.

    ``copies``: sampling variance of a rank over that of m unrelated rows.
    """
    last = len(grid) - 1

    def first(rank: Array) -> Array:
        return np.minimum(np.searchsorted(cdf, rank, side="left"), last)

    def noise(at: Array) -> Array:
        """Return the noise sd of F(x) - q m at grid indices."""
        weights = np.arange(WAYS**tree.levels) <= at[:, None]
        return np.sqrt(tree.functional_variance(weights - q[:, None]))

    target = q * m
    sampling = copies * m * q * (1.0 - q)
    at = first(target)
    tau = noise(at)
    half = z * np.sqrt(sampling + tau**2)
    # once more with the noise where the ends came to lie
    low = first(target - z * np.sqrt(sampling + noise(first(target - half)) ** 2))
    up = z * np.sqrt(sampling + noise(first(target + half)) ** 2)
    high = np.minimum(np.searchsorted(cdf, target + up, side="right"), last)
    return np.column_stack([grid[at], *cells.ends(low, high), tau])


TREE = Backend(plan_tree, release_tree, estimate_tree, people=True)
QUANTILES = Option("q", "quantiles: a number between 0 and 1, or a list", 0.5, object)
POINTS_OPTION = Option(
    "points", "most points of the public grid; None: 65536 (em), 4096 to 65536 by n (tree)", None,
    int, lower=1, upper=(1 << 18) + 1,
)  # fmt: skip
register_method(
    table_method(
        name="em",
        verb="dp_quantile",
        title="Exponential mechanism on a grid",
        backend=EM,
        kept=True,
        inference="intervals by two more draws",
        privacy_se="unavailable",
        reference="McSherry and Talwar (2007); Smith (2011)",
        options=(QUANTILES, POINTS_OPTION, BOUNDS_SHARE),
    )
)
