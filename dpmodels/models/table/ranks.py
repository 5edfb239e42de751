"""Quantiles by the exponential mechanism on a public grid (``theory.md``, 2.1).

Candidates are grid points; the utility of x is minus the distance of the rank ``q m`` from the
*interval* of ranks ``[#{< x}, #{<= x}]`` of x, where m counts the values that are there. With the
rank of x alone heaps would be missed: no x of a heap has the rank that is asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.people import CountsOfPeople, shares
from dpmodels.exact.statistics import Ranks
from dpmodels.models.table.layout import Layout
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.sources.summed import counted, summed

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.sources.people import BlockOfPeople
    from dpmodels.sources.rows import Rows

#: Steps of a person's mass, where its ranks are asked for.
STEPS_OF_RANKS = 256
#: Points of the grid.
GRID = 1 << 16
#: Cells of all groups together.
_MOST = 1 << 22
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
    if not hi > lo:  # a bought range of one point: whatever is released, it is near that point
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
    whole = np.arange(first, last + 1, dtype=float)
    # over a power of ten, not times a tenth: 3.1 and not 3.1000000000000001
    return whole * digit / 10.0**-power if power < 0 else whole * (digit * 10.0**power)


def grid_for(design: Design, number: int, points: int) -> Array:
    """Return the public grid of a column with a known range; of a declared count, its integers."""
    column = design.columns[number]
    assert column.interval is not None
    variable = design.schema.variables.get(column.name)
    if variable is not None and variable.kind == "count":
        whole = np.arange(math.floor(column.interval[0]), math.ceil(column.interval[1]) + 1.0)
        if 1 < len(whole) <= points:
            return whole
    return grid_of(column.interval, points)


def histogram(
    blocks: Iterable[Array], number: int, grid: Array, group: Mapping[int, int]
) -> npt.NDArray[np.int64]:
    """Count the values nearest to each grid point, by group: (groups, points). Confidential.

    Parameters
    ----------
    group : mapping
        Row of the buffer -> number of codes, the missing one included: what makes the groups.
    """
    groups, points = int(np.prod([*group.values(), 1])), len(grid)
    out = np.zeros(groups * points, dtype=np.int64)
    for block in blocks:
        cells, keep = cells_of(block, number, grid, group)
        out += np.bincount(cells[keep], minlength=out.size)
    return out.reshape(groups, points)


def histograms(
    rows: Rows, design: Design, grids: Mapping[int, Array], group: Mapping[int, int]
) -> dict[int, npt.NDArray[np.int64]]:
    """Return the :func:`histogram` of every number with a grid, of one pass. Confidential."""
    job = functools.partial(_at_grids, grids=grids, group=group)
    return dict(zip(grids, counted(rows, design, job), strict=True))


def _at_grids(
    blocks: Iterable[Array], grids: Mapping[int, Array], group: Mapping[int, int]
) -> tuple[npt.NDArray[np.int64], ...]:
    out = [histogram((), number, grid, group) for number, grid in grids.items()]
    for block in blocks:
        for total, (number, grid) in zip(out, grids.items(), strict=True):
            total += histogram((block,), number, grid, group)
    return tuple(out)


def cells_of(
    block: Array, number: int, grid: Array, group: Mapping[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the cell (group, point) of every row, and which have a value."""
    points = len(grid)
    lo, hi = float(grid[0]), float(grid[-1])
    with np.errstate(all="ignore"):
        place = np.rint((block[number] - lo) * ((points - 1) / (hi - lo)))
    keep = ~np.isnan(place)
    at = np.zeros(block.shape[1], dtype=np.int64)
    for j, size in group.items():
        at = at * size + block[j].astype(np.int64)
    inside = np.clip(np.where(keep, place, 0.0), 0, points - 1).astype(np.int64)
    return at * points + inside, keep


@dataclass(frozen=True, eq=False)
class HistogramOfPeople:
    """The histogram where a person lays the mean of its rows, in steps of 1 / ``unit``."""

    number: int
    grid: Array
    group: Mapping[int, int]
    unit: int
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> CountsOfPeople:
        """Return the sums over people; missing values are left out. Confidential."""
        size = int(np.prod([*self.group.values(), 1])) * len(self.grid)
        out, people = np.zeros(size, dtype=np.int64), 0
        for block in blocks:
            people += len(block.counts)
            cells, keep = cells_of(block.rows, self.number, self.grid, self.group)
            person = np.repeat(np.arange(len(block.counts)), block.counts)
            mass = np.full(len(cells), self.unit, dtype=np.int64)
            where, share = shares(
                person, np.where(keep, cells, size), mass, block.counts, size + 1
            )
            there = where < size
            np.add.at(out, where[there], share[there])
        return CountsOfPeople(out, people)


def people_histogram(
    rows: Any, design: Design, number: int, grid: Array, group: Mapping[int, int], unit: int
) -> npt.NDArray[np.int64]:
    """Return :func:`histogram` of people's means, in steps of 1 / ``unit``. Confidential."""
    found = summed(rows, design, HistogramOfPeople(number, grid, group, unit))
    return np.asarray(found.values.reshape(-1, len(grid)))


def penalties(
    counts: npt.NDArray[np.int64], q: Fraction, offset: int = 0, unit: int = 0
) -> npt.NDArray[np.int64]:
    """Return minus the utilities of every grid point, in steps of 1/denominator of q.

    ``max(0, L - r, r - E)`` with the ranks L below and E up to the point and the target
    ``r = q m + offset`` cut to [0, m]. Valid and missing values alike move it by at most 1 in one
    group, by ``max(q, 1 - q)`` where a row only enters or only leaves (and offset is 0). Nothing is
    rounded: a step lost in each group would add up over the groups of a person.

    Parameters
    ----------
    counts : (groups, points) array
    offset : int
        Ranks.
    unit : int
        Counts are of people, in steps of 1 / unit; penalties then in steps of 1 / unit of one of
        q's. 0: of rows.
    """
    up_to = counts.cumsum(axis=1)
    whole = q.denominator * up_to[:, -1:]
    target = np.clip(
        q.numerator * up_to[:, -1:] + q.denominator * offset * (unit or 1), 0, whole
    )
    below = q.denominator * (up_to - counts) - target
    above = target - q.denominator * up_to
    return np.maximum(np.maximum(below, above), 0)


@dataclass(frozen=True)
class QuantilePart:
    """The quantiles of a table.

    Attributes
    ----------
    steps : tuple of Step
    jobs : tuple of (step name, column, group axes, quantile)
    points : int
        Of the grid.
    """

    steps: tuple[Step, ...]
    jobs: tuple[tuple[str, int, tuple[int, ...], float], ...]
    points: int

    def grids(self, design: Design) -> dict[int, Array]:
        """Return the grid of every number."""
        return {number: grid_for(design, number, self.points) for _, number, _, _ in self.jobs}


def quantile_part(layout: Layout, eps: float) -> QuantilePart:
    """Plan the quantiles of a table: an equal part of ``eps`` for each."""
    sections = [s for s in layout.sections if s.kind == "quantiles"]
    jobs = []
    for s in sections:
        by = " by " + " x ".join(layout.axes[j].name for j in s.axes) if s.axes else ""
        jobs += [
            (f"{q:g} quantile of {s.variable}{by}", s.number, s.axes, q) for q in layout.quantiles
        ]
    each = eps / len(jobs)
    cells = max(layout.cells(s.axes) for s in sections)
    points = GRID
    while points * cells > _MOST and points > 1024:
        points //= 2
    steps = tuple(
        Step(name, Pure(each), label="exponential mechanism") for name, _, _, _ in jobs
    )
    return QuantilePart(steps, tuple(jobs), points)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Counts at the points of a grid, by group, of people in steps of 1 / 256."""

    design: Design
    number: int
    grid: Array
    group: dict[int, int]
    people: bool

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.int64]:
        """Return (groups, points). Confidential."""
        if self.people:
            return people_histogram(
                rows, self.design, self.number, self.grid, self.group, STEPS_OF_RANKS
            )
        found = histograms(rows, self.design, {self.number: self.grid}, self.group)
        return found[self.number]


def release_quantiles(
    part: QuantilePart, layout: Layout, design: Design, ask: Ask, *, people: bool = False
) -> dict[str, Array]:
    """Release the place in the grid of every quantile of every group, by step name.

    Privacy
    -------
    Unit: one row, or one person (whose mean is in the hull of what a row can be); replace-one.
    Each step is pure eps-DP: :class:`~dpmodels.exact.statistics.Ranks`.
    """
    passes: dict[tuple[int, tuple[int, ...]], GroupCounts] = {}
    out = {}
    grids = part.grids(design)
    unit = STEPS_OF_RANKS if people else 0
    for name, number, axes, q in part.jobs:
        if (number, axes) not in passes:
            group = {layout.axes[j].column: layout.axes[j].size for j in axes}
            passes[number, axes] = GroupCounts(design, number, grids[number], group, people)
        ranks = Ranks(fraction(q), groups=bool(axes), unit=unit)
        by_rank = functools.partial(penalties, q=ranks.q, unit=unit)
        chosen = ask.choose(name, ranks, passes[number, axes], by_rank, ask.n)
        out[name] = chosen.astype(float)
    return out
