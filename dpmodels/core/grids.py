"""Counts of rows, or of people, at the points of public grids: for ranks and for trees.

A formula returns the place of a row on each grid (NaN: on none), and its mass. A row counts at one
point of a grid, in its group. A person counts by the mean of its rows. What is released of the
counts is a choice by ranks, or all levels of a tree (``models/table/theory.md``, 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.core.rows import Rows
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Ranks, Tree
from dpmodels.sources.rows import BlockOfPeople
from dpmodels.sources.summed import Integers, summed
from dpmodels.sums.ask import Added, Query
from dpmodels.sums.products import end_of_numbers
from dpmodels.sums.rowmap import shares

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.rows import Coins

Counts = npt.NDArray[np.int64]

#: Steps of a person's mass, where its ranks are asked for.
STEPS_OF_RANKS = 256
#: Runs into which a run of a tree is divided.
WAYS = 4


@dataclass(frozen=True, eq=False)
class GridCounts:
    """Counts at the points of grids, by group: the pass of a query, and the job of its tasks."""

    design: Design
    formula: Callable[[Rows], Rows]  # Places on the grids
    points: Mapping[int, int]  # Number -> points of its grid
    group: Mapping[int, int] = field(default_factory=dict)  # Row of the block -> number of codes
    # Steps of the unit of a person. 0: units are rows.
    unit: int = 0
    mass: Callable[[Rows], Rows] | None = None  # Mass of a row in [0, 1]; None: 1
    of_people = True

    @property
    def unit_steps(self) -> int:
        """Steps that a unit adds in all: 1, or those of a person or of a mass."""
        return self.unit or (1 if self.mass is None else int(STEPS))

    def total(self, rows: Any, reading: dict[str, Any]) -> dict[int, Counts]:
        """Return the counts by number, (groups, points). **Confidential**."""
        return dict(zip(self.points, summed(rows, self.design, self).arrays, strict=True))

    def over(self, blocks: Iterable[Any], _: Coins | None = None) -> Integers:
        """Return the sums over blocks. **Confidential**."""
        groups = math.prod(self.group.values())
        out = [np.zeros((groups, size), dtype=np.int64) for size in self.points.values()]
        with np.errstate(all="ignore"):
            for block in blocks:
                add = self._add_rows if self.unit == 0 else self._add_people
                add(out, block)
        return Integers(tuple(out))

    def _cells(self, rows: Any, place: Any, points: int) -> tuple[Any, Any]:
        """Return the cell (group, point) of every row, and which have a place."""
        keep = ~np.isnan(place)
        at = np.zeros(len(place), dtype=np.int64)
        for j, size in self.group.items():
            at = at * size + np.clip(rows[j], 0.0, size - 1.0).astype(np.int64)
        inside = np.clip(np.where(keep, place, 0.0), 0, points - 1).astype(np.int64)
        return at * points + inside, keep

    def _mass(self, rows: Any) -> Any:
        """Return the mass of rows in steps of 2^-20, or None if all have 1."""
        if self.mass is None:
            return None
        return end_of_numbers(self.mass(Rows(rows)).numbers[0], low=0.0)

    def _add_rows(self, out: list[Counts], rows: Any) -> None:
        """Add the rows of a block."""
        mass, places = self._mass(rows), self.formula(Rows(rows)).numbers
        for total, place in zip(out, places, strict=True):
            cells, keep = self._cells(rows, place, total.shape[1])
            weights = None if mass is None else mass[keep]
            counts = np.bincount(cells[keep], weights=weights, minlength=total.size)
            # integers, of at most 2^20 a row: exact
            total += counts.astype(np.int64).reshape(total.shape)

    def _add_people(self, out: list[Counts], block: BlockOfPeople) -> None:
        """Add the mean of the rows of each person, in steps of 1 / ``unit``."""
        rows, mass = block.rows, self._mass(block.rows)
        who = np.repeat(np.arange(len(block.counts)), block.counts)
        for total, places in zip(out, self.formula(Rows(rows)).numbers, strict=True):
            cells, keep = self._cells(rows, places, total.shape[1])
            person, place = who, np.where(keep, cells, total.size)
            steps = np.full(len(cells), self.unit, dtype=np.int64)
            if mass is not None:  # what is left of the unit is not counted
                part = mass.astype(np.int64)
                person, place = np.tile(who, 2), np.r_[place, np.full(len(cells), total.size)]
                steps = np.r_[part, self.unit - part]
            where, share = shares(person, place, steps, block.counts, total.size + 1)
            inside = where < total.size
            np.add.at(total.reshape(-1), where[inside], share[inside])

    def tree(self, number: int, n: int) -> Query:
        """Return the query of the tree of a number; n units, public.

        What a unit does not add to a point is in the missing cell.
        """
        levels = levels_for(self.points[number])
        sizes = tuple(WAYS**k + (k == 1) for k in range(1, levels + 1))  # the missing in the first
        take = functools.partial(_tree, number=number, total=n * self.unit_steps)
        return Query(Tree(levels, sizes, people=self.unit_steps > 1), self, take)

    def ranks(
        self, number: int, q: Fraction, offset: int | None = None
    ) -> tuple[Ranks, Callable[[Any], Any]]:
        """Return the ranks that the prover reads for a choice by a quantile, and the penalties.

        ``offset``: the target is so many ranks away and may lie beyond the grid (:func:`outward`).
        """
        if offset is None:
            find: Any = lambda counts: penalties(counts[number], q, unit=self.unit)  # noqa: E731
        else:
            find = lambda counts: outward(counts[number][0], q, offset, self.unit)  # noqa: E731
        return Ranks(q, bool(self.group), self.unit, offset or 0), find


def _tree(leaves: Mapping[int, Counts], number: int, total: int) -> Added:
    at_leaves = leaves[number].ravel()
    return Added(tree_counts(at_leaves, total - int(at_leaves.sum())))


def levels_for(points: int) -> int:
    """Return the least L with 4^L >= points, at least 1."""
    return max(1, math.ceil(math.log(points) / math.log(WAYS) - 1e-9))


def tree_counts(leaves: Counts, missing: int) -> Counts:
    """Return the counts of a tree: level 1, the missing cell, level 2, ..., the leaves.

    One row in one leaf, or missing, for another moves two cells of a level by one (one cell, where
    it is missing, below the first level): the L2 norm moves by at most ``sqrt(2 L)``.
    """
    levels = levels_for(len(leaves))
    padded = np.zeros(WAYS**levels, dtype=np.int64)
    padded[: len(leaves)] = leaves
    parts = [padded.reshape(WAYS**k, -1).sum(axis=1) for k in range(1, levels + 1)]
    return np.concatenate([parts[0], [missing], *parts[1:]])


def penalties(counts: Counts, q: Fraction, offset: int = 0, unit: int = 0) -> Counts:
    """Return minus the utilities of every grid point, in steps of 1/denominator of q.

    ``max(0, L - r, r - E)`` with the ranks L below and E up to the point and the target
    ``r = q m + offset`` cut to [0, m]. Valid and missing values alike move it by at most 1 in one
    group, by ``max(q, 1 - q)`` where a row only enters or only leaves (and offset is 0). Nothing is
    rounded: a step lost in each group would add up over the groups of a person. ``counts``
    (groups, points), of people in steps of 1 / ``unit``: penalties are then too. 0: of rows.
    """
    up_to = counts.cumsum(axis=1)
    total = q.denominator * up_to[:, -1:]
    target = np.clip(q.numerator * up_to[:, -1:] + q.denominator * offset * (unit or 1), 0, total)
    below = q.denominator * (up_to - counts) - target
    above = target - q.denominator * up_to
    return np.maximum(np.maximum(below, above), 0)


def outward(counts: Counts, q: Fraction, offset: int, unit: int = 0) -> Counts:
    """Return the penalties of both candidates of an end: a bound beyond the grid, and every point.

    ``max(0, L - r, r - E)`` with the target ``r = q m + offset`` not cut. What is beyond the grid
    has 0 values up to it (offset < 0; it comes first) or all m below it (offset > 0; last), so
    some candidate has penalty 0 wherever r lies, and the error of a draw is one of |r - rank| at
    the ends too. One row moves a penalty by at most 1 (``theory.md``, 2.3).
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
