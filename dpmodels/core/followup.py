"""Set of follow-up: rows or people, summed in a table of events, censorings and entries.

A row with no entry is one unit of mass: one cell, or one node of each level of a tree. An episode
is two, where it is entered and where it ends. The table of a person's episodes is scaled into a
ball if it is longer than that of the episodes that are allowed (``models/survival/theory.md``, 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.core.own import separate_episodes
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers, Part
from dpmodels.proof.sets import STEPS, Orthant
from dpmodels.proof.statistics import Sum, Tree
from dpmodels.sources.summed import Integers as Sums
from dpmodels.sums.ask import Added
from dpmodels.sums.products import towards_zero
from dpmodels.sums.rowmap import shares

Whole = npt.NDArray[np.int64]
_ONE = int(STEPS)
#: Pays for the rounding of a factor and its product, so that no square grows.
_BELOW = 1.0 - 2.0**-40


class Cells(Protocol):
    """Public facts of a table of follow-up."""

    @property
    def entries(self) -> bool:
        """Whether entries are tabulated."""

    @property
    def episodes(self) -> int:
        """Whole episodes that a unit may have there."""

    @property
    def M(self) -> int:
        """Number of cells; without entries the last one is of rows that do not count."""

    @property
    def levels(self) -> int:
        """Levels that are released."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each level: the cells of no interval are in the first."""

    def node(self, cells: Whole, level: int) -> Whole:
        """Return the node of each cell at a level; -1 for none there."""


class FollowUp(Integers):
    """All levels of a table of follow-up.

    A formula returns which rows count, the cells in which an episode is entered and in which it
    ends, and (start, stop, event, group), by which a person's episodes are put in order.
    """

    of_people: ClassVar[bool] = True

    def __init__(self, table: Cells, *, people: bool) -> None:
        self.table = table
        if table.entries:
            most = 2 * table.episodes * table.levels
            self.statistic: Any = Sum(Orthant(sum(table.sizes), most))
        else:
            self.statistic = Tree(table.levels, table.sizes, people=people)

    def adding(self, of: Any) -> Any:
        """Return running sums of zero: cells of rows, nodes of people, and the number of these."""
        sizes = (self.table.M, *self.table.sizes)
        return [np.zeros(size, dtype=np.int64) for size in sizes] + [0]

    def add(
        self, sums: Any, chosen: Any, counts: Rows, entry: Rows, end: Rows, order: Rows,
        starts: Any = None,
    ) -> None:  # fmt: skip
        """Add one unit for each row, or two for an episode; or the rows of each person.

        That is their mean, or the episodes in the ball.
        """
        table, counted = self.table, counts.numbers[0]
        entries, ends = (  # places in the table, whatever they are
            np.clip(np.nan_to_num(x.numbers[0]), 0, table.M - 1).astype(np.int64)
            for x in (entry, end)
        )
        if starts is None:
            sums[0] += np.bincount(ends[counted], minlength=table.M)
            if table.entries:
                sums[0] += np.bincount(entries[counted], minlength=table.M)
            else:
                sums[0][-1] += len(counted) - int(counted.sum())
            return
        rows = np.diff(starts, append=len(counted))
        person = np.repeat(np.arange(len(rows)), rows)
        if table.entries:
            spells = episodes_of(person, counted, entries, ends, order.numbers)
            nodes = self._scaled(*spells, len(rows))
        else:
            nodes = self._means(person, np.where(counted, ends, table.M - 1), rows)
        for total, (where, share) in zip(sums[1:-1], nodes, strict=True):
            np.add.at(total, where, share)
        sums[-1] += len(rows)

    def exact(self, sums: Any) -> Sums:
        """Return the exact sums of all levels, flat, and the number of people."""
        cells, *levels, people = sums
        unit = _ONE if self.table.entries else 1
        every = np.arange(len(cells))
        for level, total in enumerate(levels):
            node = self.table.node(every, level)
            np.add.at(total, node[node >= 0], cells[node >= 0] * unit)
        return Sums((np.concatenate(levels).astype(object), people))

    def with_absent(self, sums: Sums, people: int) -> Sums:
        """Return sums in which a declared person without a row is missing."""
        out = sums.arrays[0].copy()
        if not self.table.entries:
            out[self.table.sizes[0] - 1] += (people - sums.arrays[1]) * _ONE
        return Sums((out, people))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the one noisy table."""
        return (Part(name, self.statistic, lambda sums: Added(sums.arrays[0])),)

    def _means(self, person: Any, cells: Whole, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Yield (nodes, shares) of each level: a person's unit, divided evenly over its rows.

        A person with 2 of 5 rows in a node adds 0.4 to it, in steps of 2^-20.
        """
        mass = np.full(len(cells), _ONE, dtype=np.int64)
        for level, size in enumerate(self.table.sizes):
            node = self.table.node(cells, level)
            node = np.where(node < 0, size, node)  # those of no interval, to be left out again
            where, share = shares(person, node, mass, rows, size + 1)
            yield where[where < size], share[where < size]

    def _scaled(
        self, who: Any, entry: Whole, ends: Whole, people: int
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (nodes, counts) of each level: a person's episodes, scaled into the ball."""
        table = self.table
        whose, cells = np.concatenate([who, who]), np.concatenate([entry, ends])
        counts, square = [], np.zeros(people, dtype=np.int64)
        for level, size in enumerate(table.sizes):
            node = table.node(cells, level)
            key, count = np.unique(whose[node >= 0] * size + node[node >= 0], return_counts=True)
            counts.append((key // size, key % size, count))
            np.add.at(square, key // size, count**2)
        most = 2 * table.episodes * table.levels
        factor = np.ones(people)
        long = square > most
        factor[long] = np.sqrt(most / square[long]) * _BELOW
        for person, node, count in counts:
            yield node, towards_zero(count * (factor[person] * _ONE)).astype(np.int64)


def episodes_of(
    person: Any, counted: Any, entry: Whole, ends: Whole, order: Any
) -> tuple[Any, Whole, Whole]:
    """Return (person, entry, end) of the episodes that count after clean-up, one each per episode.

    ``person`` (m,) is the person of each row, ``order`` its (start, stop, event, group); entry and
    end are cells of the table. If episodes of a person overlap, the one with the earliest start
    counts. Ties are decided by end, event and group, never by the order of rows. An episode that
    starts when the previous one of the same group stopped without an event continues it, and the
    two are merged.
    """
    start, stop, event, group = order
    place = np.lexsort((group, event, stop, start, person))
    place = place[counted[place]]
    keep = place[separate_episodes(person[place], start[place], stop[place])]
    who, start, stop, event, group, entry, ends = (
        x[keep] for x in (person, start, stop, event, group, entry, ends)
    )
    same = (who[1:] == who[:-1]) & (group[1:] == group[:-1]) & (start[1:] == stop[:-1])
    continued = same & (event[:-1] == 0.0)
    first = np.flatnonzero(np.r_[True, ~continued])[: len(who)]
    last = np.flatnonzero(np.r_[~continued, True])[: len(who)]
    return who[first], entry[first], ends[last]
