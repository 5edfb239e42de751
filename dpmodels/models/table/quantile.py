"""Backends of ``dp_quantile``: what "em" and "tree" share, and "em" itself.

``ranks.py`` has the exponential mechanism, ``tree.py`` the tree; ``theory.md``, 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.statistics import Ranks
from dpmodels.models.table.effects import Spread, critical
from dpmodels.models.table.layout import program_of
from dpmodels.models.table.ranks import (
    GRID,
    STEPS_OF_RANKS,
    fraction,
    grid_for,
    histograms,
    penalties,
    people_histogram,
)
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.ranges import no_ranges, pair_part, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

# -- Ends of intervals of quantiles on a public grid (``theory.md``, 2.3)


class Cells:
    """The cells of the points of a grid.

    Attributes
    ----------
    step : float
        Between points; 0 where values are integers and so are the points.
    low, high : arrays, (points + 2,)
        Ends of the cells, with one place more on either side: the declared bound, infinite where
        the range was bought (values beyond it count in the first and last cell).
    """

    def __init__(self, grid: Array, bounds: tuple[float, float], *, whole: bool) -> None:
        self.step = 0.0 if whole else float(grid[-1] - grid[0]) / (len(grid) - 1)
        lo, hi = bounds
        inside = np.clip(grid[1:] - self.step / 2.0, lo, hi)
        self.low = np.concatenate([[lo, lo], inside, [hi]])
        inside = np.clip(grid[:-1] + self.step / 2.0, lo, hi)
        self.high = np.concatenate([[lo], inside, [hi, hi]])

    def ends(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the outer ends of cells: places in the grid, -1 and len(grid) beyond it."""
        return self.low[np.asarray(low) + 1], self.high[np.asarray(high) + 1]


def cells_for(design: Design, number: int, grid: Array, *, bought: bool) -> Cells:
    """Return the cells of a column's grid (:func:`dpmodels.models.table.ranks.grid_for`)."""
    column = design.columns[number]
    assert column.interval is not None
    variable = design.schema.variables.get(column.name)
    counts = variable is not None and variable.kind == "count"
    whole = counts and bool((grid == np.rint(grid)).all()) and float(grid[1] - grid[0]) == 1.0
    bounds = (-np.inf, np.inf) if bought else column.interval
    return Cells(grid, bounds, whole=whole)


def outward(
    counts: npt.NDArray[np.int64], q: Fraction, offset: int, unit: int = 0
) -> npt.NDArray[np.int64]:
    """Return the penalties of an end: of a bound beyond the grid, and of every grid point.

    ``max(0, L - r, r - E)`` with the target ``r = q m + offset`` not cut. What is beyond the grid
    has 0 values up to it (offset < 0; it comes first) or all m below it (offset > 0; last), so
    some candidate has penalty 0 wherever r lies, and the error of a draw is one of |r - rank| at
    the ends too. One row moves a penalty by at most 1 (``theory.md``, 2.3).

    Parameters
    ----------
    counts : (points,) array
    offset : int
        Ranks; not 0.
    unit : int
        As in :func:`dpmodels.models.table.ranks.penalties`.
    """
    up_to = counts.cumsum()
    m, rank = int(up_to[-1]), q.denominator
    target = q.numerator * m + rank * (unit or 1) * offset
    below = rank * (up_to - counts) - target
    above = target - rank * up_to
    inside = np.maximum(np.maximum(below, above), 0)
    if offset < 0:
        return np.concatenate([[max(0, target)], inside])
    return np.concatenate([inside, [max(0, rank * m - target)]])


#: The best candidate is within ``(2 / eps) log(points / FAILS)`` ranks but with this probability.
FAILS = 0.005


@dataclass(frozen=True)
class QuantileDetail:
    """What is asked for.

    Attributes
    ----------
    jobs : tuple of (column, quantile)
    each : float
        eps of one draw ("em").
    points : int
        Most points of a grid.
    """

    jobs: tuple[tuple[int, float], ...]
    each: float
    points: int


def probabilities(given: Any) -> tuple[float, ...]:
    """Return checked quantiles, in order."""
    listed = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
    for q in listed:
        if isinstance(q, bool) or not isinstance(q, (int, float, np.number)) or not 0 < q < 1:
            raise RequestError("q= takes numbers between 0 and 1, for example q=[0.25, 0.5, 0.75]")
    if not listed:
        raise RequestError("q= is empty. For example q=0.5")
    return tuple(sorted({float(q) for q in listed}))


def numbers_of(design: Design) -> tuple[int, ...]:
    """Return the columns whose quantiles are asked for; refuse categories and groups."""
    program = program_of(design)
    if program.left and program.right:
        raise RequestError(
            f'"{design.formula}": quantiles by group are dp_table("{design.formula}", '
            "quantiles=[...])"
        )
    found = []
    for term in program.left or program.right:
        names = ":".join(program.sources[j].name for j in term)
        if len(term) > 1 or program.sources[term[0]].levels is not None:
            raise RequestError(f"{names!r} is not a number: it has no quantiles")
        found.append(term[0])
    return tuple(found)


def checked(request: Request, design: Design) -> tuple[tuple[int, float], ...]:
    """Return the jobs of a call: every quantile of every number."""
    q = probabilities(request["q"])
    return tuple((j, p) for j in numbers_of(design) for p in q)


def names_of(design: Design, jobs: tuple[tuple[int, float], ...]) -> tuple[str, ...]:
    """Return ``q0.5(wage)``."""
    return tuple(f"q{q:g}({design.columns[j].name})" for j, q in jobs)


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one draw a quantile, three with intervals. Reads no row."""
    jobs = checked(request, design)
    steps, shares, purchase, eps = _purchase(request, design)
    ends = ("", " low", " high") if request.inference else ("",)
    each = eps / (len(jobs) * len(ends))
    names = names_of(design, jobs)
    steps += [
        Step(name + end, Pure(each), share=each / request.eps, label="exponential mechanism")
        for name in names
        for end in ends
    ]
    points = int(request["points"] or GRID)
    return Plan.of(
        request, design, n, steps, shares=shares,
        scales={"rank error with probability 0.995": 2.0 / each * math.log(points / FAILS)},
        purchase=purchase,
        detail=QuantileDetail(jobs, each, points),
        passes=1 + bool(purchase),
    )  # fmt: skip


def _purchase(request: Request, design: Design) -> tuple[list[Step], dict[str, float], Any, float]:
    """Return (steps, shares, purchase, eps left): ranges take their part of the pair."""
    if not design.unknown:
        return [], {"quantiles": 1.0}, None, request.eps
    if request.delta == 0:
        name = design.unknown[0]
        raise RequestError(
            f"delta = 0 buys no ranges: declare them, for example bounds={{{name!r}: "
            "(lower, upper)}"
        )
    part = pair_part(request, design.unknown)
    shares = {**part.printed, "quantiles": 1.0 - part.share}
    return list(part.steps), shares, part.purchase, part.eps


def release(plan: Plan[QuantileDetail], ask: Ask) -> Release:
    """Release grid points by the exponential mechanism.

    Privacy
    -------
    Unit: one row; replace-one, n public. Each draw is pure eps-DP: one row moves a penalty by at
    most 1 (``ranks.penalties``). A missing value counts for no rank. Of people the same: ranks are
    sums of people's means, in steps of 1/256 (``units/theory.md``, 11).
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail = plan.detail
    request = plan.request
    numbers = dict.fromkeys(j for j, _ in detail.jobs)
    grids = {j: grid_for(design, j, detail.points) for j in numbers}
    unit = STEPS_OF_RANKS if request.by_person else 0
    over = LeavesPass(plan, design, grids, unit)
    z = critical(Spread(1.0), request.level)
    values: dict[str, Array] = {}
    for (j, q), name in zip(detail.jobs, names_of(plan.design, detail.jobs), strict=True):
        exact = fraction(q)
        slack = z * math.sqrt(request.alike * ask.n * q * (1.0 - q))
        slack += 2.0 / detail.each * math.log(len(grids[j]) / FAILS)
        far = math.ceil(slack)
        ranks = Ranks(exact, unit=unit)
        most = ask.n + far

        def at(leaves: Any, j: int = j, ranks: Ranks = ranks) -> Any:
            return penalties(leaves[j][None], ranks.q, unit=unit)

        values[name] = grids[j][ask.choose(name, ranks, over, at, most)]
        if request.inference:
            cells = cells_for(design, j, grids[j], bought=is_bought(plan, j))
            ends = {}
            for side, offset in (("low", -far), ("high", far)):

                def beyond(leaves: Any, j: int = j, q: Fraction = exact, by: int = offset) -> Any:
                    return outward(leaves[j], q, by, unit)

                end = Ranks(exact, unit=unit, offset=offset)
                ends[side] = ask.choose(f"{name} {side}", end, over, beyond, most)
            low, high = ends["low"] - 1, ends["high"]
            values[f"{name} low"], values[f"{name} high"] = cells.ends(low, high)
    return Release(values, plan.guarantee, design)


def is_bought(plan: Plan[Any], number: int) -> bool:
    """Whether the range of a column was bought: values may lie beyond it."""
    return plan.design.columns[number].name in plan.design.unknown


def steps_text(plan: Plan[Any], design: Design, points: int) -> str:
    """Return the note that says the step of every grid."""
    said = []
    for j in dict.fromkeys(j for j, _ in plan.detail.jobs):
        step = cells_for(design, j, grid_for(design, j, points), bought=False).step
        if step:
            said.append(f"{step:g} of {design.columns[j].name}")
    if not said:
        return ""
    text = (
        f" Values count at the nearest point of a grid, in steps of {', '.join(said)}: the ends "
        "lie half a step further out."
    )
    if any(is_bought(plan, j) for j, _ in plan.detail.jobs):
        text += (
            " Where a range was bought, nothing is said of values beyond it: such an end is inf."
        )
    return text


@dataclass(frozen=True, eq=False)
class LeavesPass:
    """Counts at the points of every grid, of people in steps of 1 / unit.

    Of rows in one pass; of people one a number.
    """

    plan: Plan[Any]
    design: Design
    grids: Mapping[int, Array]
    unit: int

    def total(self, rows: Any, reading: dict[str, Any]) -> dict[int, Any]:
        """Return the counts by number. Confidential."""
        grids, design, unit = self.grids, self.design, self.unit
        if self.plan.request.by_person:
            return {
                j: people_histogram(rows, design, j, grid, {}, unit)[0] for j, grid in grids.items()
            }
        return {j: counts[0] for j, counts in histograms(rows, design, grids, {}).items()}


def estimate(plan: Plan[QuantileDetail], release: Release) -> Estimate:
    """Quantiles, and the ends of their intervals."""
    detail = plan.detail
    names = names_of(plan.design, detail.jobs)
    if not release.reply:
        return Estimate.silent(names)
    point = np.array([release.values[name][0] for name in names])
    low = high = np.full(len(names), np.nan)
    notes: tuple[str, ...] = ()
    if plan.request.inference:
        low = np.array([release.values[f"{name} low"][0] for name in names])
        high = np.array([release.values[f"{name} high"][0] for name in names])
        notes = (
            "Intervals by two draws of the exponential mechanism at ranks moved outwards by its "
            "own error: they cover at least as often as they say."
            + steps_text(plan, release.design, detail.points),
        )
    return estimate_of(detail, names, point, np.minimum(low, point), np.maximum(high, point), notes)


def estimate_of(
    detail: QuantileDetail, names: tuple[str, ...], point: Array, low: Array, high: Array,
    notes: tuple[str, ...], **arrays: Array,
) -> Estimate:  # fmt: skip
    """Return an estimate of quantiles that do not cross (nor do the ends of intervals)."""
    point, low, high = point.copy(), low.copy(), high.copy()
    for j in dict.fromkeys(j for j, _ in detail.jobs):
        mine = [i for i, (k, _) in enumerate(detail.jobs) if k == j]
        for values in (point, low, high):
            values[mine] = np.sort(values[mine])
    return Estimate(
        names, point,
        notes=(*notes, "A missing value counts for no quantile; how many there are is private."),
        arrays={"q": np.array([q for _, q in detail.jobs]), "low": low, "high": high, **arrays},
    )  # fmt: skip
