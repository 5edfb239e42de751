"""Counts of rows, or of people, at the points of public grids: for ranks and for trees.

A formula returns the place of a row on each grid (NaN: on none), and its mass. A row counts at one
point of a grid, in its group. A person counts by the mean of its rows. What is released of the
counts is a choice by ranks, or all levels of a tree (``models/table/theory.md``, 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers
from dpmodels.errors import PrivacyBugError
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Ranks, Tree
from dpmodels.sources.summed import Integers as Sums
from dpmodels.sums.ask import Added, Query
from dpmodels.sums.products import end_of_numbers
from dpmodels.sums.rowmap import shares

Counts = npt.NDArray[np.int64]

#: Steps of a person's mass, where its ranks are asked for.
STEPS_OF_RANKS = 256
#: Runs into which a run of a tree is divided.
WAYS = 4


class Points(Integers):
    """Counts at the points of grids, by group.

    A formula returns the places of a row on the grids, then the codes of its group if there are
    groups, then its mass if it has one.

    Parameters
    ----------
    points : mapping of int to int
        Number -> points of its grid, in the order of the places.
    groups : sequence of int
        Number of codes of each grouping variable.
    unit : int
        Steps of the unit of a person; 0: units are rows.
    mass : bool
        Whether rows have a mass in [0, 1], else 1.
    """

    of_people: ClassVar[bool] = True

    def __init__(
        self, points: Mapping[int, int], groups: Sequence[int] = (), unit: int = 0, *,
        mass: bool = False,
    ) -> None:  # fmt: skip
        self.points, self.groups, self.steps, self.mass = points, groups, unit, mass
        #: Steps that a unit adds in all: 1, or those of a person or of a mass.
        self.unit_steps = unit or (int(STEPS) if mass else 1)

    def adding(self, of: Any) -> Any:
        """Return running sums of zero, (groups, points) of each number."""
        groups = math.prod(self.groups)
        return [np.zeros((groups, size), dtype=np.int64) for size in self.points.values()]

    def exact(self, sums: Any) -> Sums:
        """Return the exact counts."""
        return Sums(tuple(sums))

    def add(
        self, sums: Any, chosen: Any, places: Rows, *more: Rows, starts: Any = None
    ) -> None:
        """Add each row to one point of each grid, or the mean of the rows of each person."""
        if bool(self.steps) != (starts is not None):
            raise PrivacyBugError("points of people are for people, and those of rows for rows")
        m = places.numbers.shape[1]
        group = np.zeros(m, dtype=np.int64)
        for size, codes in zip(self.groups, more[0].numbers if self.groups else (), strict=True):
            group = group * size + np.clip(codes, 0.0, size - 1.0).astype(np.int64)
        mass = end_of_numbers(more[-1].numbers[0], low=0.0) if self.mass else None
        for total, place in zip(sums, places.numbers, strict=True):
            keep, last = ~np.isnan(place), total.shape[1] - 1
            at = np.clip(np.where(keep, place, 0.0), 0, last).astype(np.int64)
            cells = group * total.shape[1] + at
            if starts is not None:
                self._add_people(total.reshape(-1), cells, keep, mass, starts)
                continue
            weights = None if mass is None else mass[keep]
            counts = np.bincount(cells[keep], weights=weights, minlength=total.size)
            # integers, of at most 2^20 a row: exact
            total += counts.astype(np.int64).reshape(total.shape)

    def _add_people(self, total: Counts, cells: Any, keep: Any, mass: Any, starts: Any) -> None:
        """Add the mean of the rows of each person, in steps of 1 / ``unit``."""
        rows = np.diff(starts, append=len(cells))
        person, place = np.repeat(np.arange(len(rows)), rows), np.where(keep, cells, total.size)
        steps = np.full(len(cells), self.steps, dtype=np.int64)
        if mass is not None:  # what is left of the unit is not counted
            part = mass.astype(np.int64)
            person, place = np.tile(person, 2), np.r_[place, np.full(len(cells), total.size)]
            steps = np.r_[part, self.steps - part]
        where, share = shares(person, place, steps, rows, total.size + 1)
        inside = where < total.size
        np.add.at(total, where[inside], share[inside])

    def counts_of_number(self, sums: Sums, number: int) -> Counts:
        """Return the exact counts of a number from the sums of a reading for this set alone."""
        counts: Counts = sums.arrays[0].arrays[list(self.points).index(number)]
        return counts

    def tree(self, over: Any, number: int, n: int) -> Query:
        """Return the query of the tree of a number in a reading; n units, public.

        What a unit does not add to a point is in the missing cell.
        """
        levels = levels_for(self.points[number])
        sizes = tuple(WAYS**k + (k == 1) for k in range(1, levels + 1))  # the missing in the first
        # audits put the steps of one unit in place of the total
        take = functools.partial(self._nodes, number=number, total=n * self.unit_steps)
        return Query(Tree(levels, sizes, people=self.unit_steps > 1), over, take)

    def _nodes(self, sums: Sums, number: int, total: int) -> Added:
        """Return the nodes of the tree of a number; ``total``: steps of all units."""
        leaves = self.counts_of_number(sums, number).ravel()
        return Added(tree_counts(leaves, total - int(leaves.sum())))

    def ranks(
        self, number: int, q: Fraction, offset: int | None = None
    ) -> tuple[Ranks, Callable[[Any], Any]]:
        """Return the ranks that the prover reads for a choice by a quantile, and the penalties.

        ``offset``: the target is so many ranks away and may lie beyond the grid (:func:`outward`).
        """

        def find(sums: Sums) -> Counts:
            counts = self.counts_of_number(sums, number)
            if offset is None:
                return penalties(counts, q, unit=self.steps)
            return outward(counts[0], q, offset, self.steps)

        return Ranks(q, bool(self.groups), self.steps, offset or 0), find


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
