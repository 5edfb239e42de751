"""The exact cells of a survival table: of rows, and of people (``theory.md``, 2).

A row with no entry is one unit of mass: one cell. An episode is two, where it is entered and where
it ends; the table of a person's episodes is scaled into a ball if it is longer than that of the
episodes that are allowed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added
from dpmodels.exact.end import towards_zero
from dpmodels.exact.people import CountsOfPeople, shares
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.sets import Orthant
from dpmodels.exact.statistics import Sum, Tree
from dpmodels.models.survival.layout import Layout
from dpmodels.sources.summed import counted, summed

if TYPE_CHECKING:
    from dpmodels.formula.design import Design, Survival
    from dpmodels.sources.people import BlockOfPeople

Codes = npt.NDArray[np.int64]
_ONE = int(STEPS)
#: Pays for the rounding of a factor and its product, so that no square grows.
_BELOW = 1.0 - 2.0**-40


def statistic_of(layout: Layout, *, people: bool) -> Tree | Sum:
    """Return what is released: one cell a level of a unit, or counts of its episodes in a ball."""
    if not layout.entries:
        return Tree(layout.levels, layout.sizes, people=people)
    return Sum(Orthant(sum(layout.sizes), 2 * layout.episodes * layout.levels))


class Groups(Protocol):
    """Groups that no column holds: by released numbers. Travels to workers."""

    def added_to(self, block: Array) -> Array:
        """Return a block with a row more, the group of each of its rows; NaN: none."""
        ...


@dataclass(frozen=True, eq=False)
class SurvivalPass:
    """The table of a layout, all levels one after the other.

    Attributes
    ----------
    groups : Groups or None
        None: the groups of the formula.
    """

    design: Design
    layout: Layout
    people: bool = False
    groups: Groups | None = None

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return the table in steps of the statistic. Confidential."""
        where = self.design.survival
        assert where is not None
        if self.groups is not None:  # in the row that is added
            where = replace(where, group=self.design.q)
        if not self.people:
            job = functools.partial(_of_rows, where=where, layout=self.layout, groups=self.groups)
            return counted(rows, self.design, job)[0].astype(object)
        found = summed(rows, self.design, SurvivalOfPeople(where, self.layout, self.groups))
        out = found.values.astype(object)
        if not self.layout.entries:  # a declared person without a row is missing
            out[self.layout.sizes[0] - 1] += (rows.n - found.people) * _ONE
        return np.asarray(out, dtype=object)


def added(sums: npt.NDArray[np.object_]) -> Added:
    """Return the table as it is."""
    return Added(sums)


def episodes(block: Array, where: Survival, layout: Layout) -> tuple[Any, Codes, Codes, Codes]:
    """Return which rows of a buffer count, their groups, and the cells of entry and of end.

    An episode that begins after the last break, or whose end is not a time, counts as nothing.
    """
    time, event = block[where.time], block[where.event]
    there = np.isfinite(time)
    group = np.zeros(len(time), dtype=np.int64)
    for row, labels in ((where.strata, layout.stratas), (where.group, layout.groups)):
        code = np.zeros(len(time)) if row is None else block[row]
        there &= code < len(labels)
        group = group * len(labels) + np.where(there, code, 0.0).astype(np.int64)
    event = np.where(there, event, 0.0)
    end = layout.ended(np.where(there, time, layout.edges[0]), event)
    runs = layout.kinds * layout.K
    ends = np.where(end < 0, layout.G * runs + group, group * runs + end)
    entry = np.zeros(len(time), dtype=np.int64)
    if layout.entries:
        assert where.start is not None
        begun = layout.entered(np.where(there, block[where.start], layout.edges[0]))
        there &= begun >= 0
        entry = group * runs + np.maximum(begun, 0)
    return there, group, entry, ends


def _of_rows(
    blocks: Iterable[Array], where: Survival, layout: Layout, groups: Groups | None = None
) -> tuple[npt.NDArray[np.int64]]:
    """Return the table of rows, each a unit."""
    cells = np.zeros(layout.M, dtype=np.int64)
    for block in blocks:
        if groups is not None:
            block = groups.added_to(block)
        there, _, entry, ends = episodes(block, where, layout)
        cells += np.bincount(ends[there], minlength=layout.M)
        if layout.entries:
            cells += np.bincount(entry[there], minlength=layout.M)
        else:
            cells[-1] += len(there) - int(there.sum())
    unit = _ONE if layout.entries else 1
    return (np.concatenate([_level(cells, layout, v) for v in range(layout.levels)]) * unit,)


def _level(cells: npt.NDArray[np.int64], layout: Layout, level: int) -> npt.NDArray[np.int64]:
    """Return the nodes of a level from the cells of the table."""
    node = layout.node(np.arange(layout.M), level)
    out = np.zeros(layout.sizes[level], dtype=np.int64)
    np.add.at(out, node[node >= 0], cells[node >= 0])
    return out


# -- people ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SurvivalOfPeople:
    """The table where a person lays the mean of own rows, or own episodes scaled into a ball."""

    where: Survival
    layout: Layout
    groups: Groups | None = None
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> CountsOfPeople:
        """Return the sums over people, in steps of 2^-20. Confidential."""
        layout = self.layout
        totals = [np.zeros(size, dtype=np.int64) for size in layout.sizes]
        people = 0
        for part in blocks:
            if self.groups is not None:
                part = replace(part, rows=self.groups.added_to(part.rows))
            people += len(part.counts)
            person = np.repeat(np.arange(len(part.counts)), part.counts)
            lay = self._scaled if layout.entries else self._means
            for total, (where, share) in zip(totals, lay(part, person), strict=True):
                np.add.at(total, where, share)
        return CountsOfPeople(np.concatenate(totals), people)

    def _means(self, part: BlockOfPeople, person: Any) -> list[tuple[Any, Any]]:
        """Return (node, share) by level: each person one unit, by the share of own rows."""
        layout = self.layout
        there, _, _, ends = episodes(part.rows, self.where, layout)
        cells = np.where(there, ends, layout.M - 1)
        mass = np.full(len(cells), _ONE, dtype=np.int64)
        out = []
        for level, size in enumerate(layout.sizes):
            node = layout.node(cells, level)
            node = np.where(node < 0, size, node)  # those of no interval, to be left out again
            where, share = shares(person, node, mass, part.counts, size + 1)
            out.append((where[where < size], share[where < size]))
        return out

    def _scaled(self, part: BlockOfPeople, person: Any) -> list[tuple[Any, Any]]:
        """Return (node, count) by level: a person's own episodes, scaled into the ball."""
        layout = self.layout
        who, entry, ends = own_episodes(part.rows, person, self.where, layout)
        whose, cells = np.concatenate([who, who]), np.concatenate([entry, ends])
        counts, square = [], np.zeros(len(part.counts), dtype=np.int64)
        for level, size in enumerate(layout.sizes):
            node = layout.node(cells, level)
            key, count = np.unique(whose[node >= 0] * size + node[node >= 0], return_counts=True)
            counts.append((key // size, key % size, count))
            np.add.at(square, key // size, count**2)
        most = 2 * layout.episodes * layout.levels
        factor = np.ones(len(square))
        long = square > most
        factor[long] = np.sqrt(most / square[long]) * _BELOW
        return [
            (node, towards_zero(count * (factor[own] * _ONE)).astype(np.int64))
            for own, node, count in counts
        ]


def own_episodes(
    rows: Array, person: Any, where: Survival, layout: Layout
) -> tuple[Codes, Codes, Codes]:
    """Return (person, cell of entry, cell of end) of the episodes that count.

    Of overlapping episodes of one person that with the earliest start counts (of those that start
    together the one that ends first, then by event and group: never by place). An episode that
    goes on where the last one of the same group stopped without an event is one with it.
    """
    there, group, entry, ends = episodes(rows, where, layout)
    assert where.start is not None
    start, stop, event = rows[where.start], rows[where.time], rows[where.event]
    order = np.lexsort((group, event, stop, start, person))
    order = order[there[order]]
    who, start, stop, event, group, entry, ends = (
        x[order] for x in (person, start, stop, event, group, entry, ends)
    )
    keep = apart(who, start, stop)
    who, start, stop, event, group, entry, ends = (
        x[keep] for x in (who, start, stop, event, group, entry, ends)
    )
    same = (who[1:] == who[:-1]) & (group[1:] == group[:-1]) & (start[1:] == stop[:-1])
    goes_on = same & (event[:-1] == 0.0)
    first = np.flatnonzero(np.r_[True, ~goes_on])[: len(who)]
    last = np.flatnonzero(np.r_[~goes_on, True])[: len(who)]
    return who[first], entry[first], ends[last]


def apart(who: Any, start: Array, stop: Array) -> npt.NDArray[np.bool_]:
    """Return which of a person's episodes, in order of their start, begin after those kept."""
    keep = np.ones(len(who), dtype=bool)
    crossing = (who[1:] == who[:-1]) & (start[1:] < stop[:-1])
    for person in np.unique(who[1:][crossing]):
        low, high = np.searchsorted(who, [person, person + 1])
        end = -np.inf
        for i in range(low, high):
            keep[i] = start[i] >= end
            end = stop[i] if keep[i] else end
    return keep
