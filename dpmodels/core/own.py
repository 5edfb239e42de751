"""Rows of a unit: operations of a formula on the rows of one person, and of nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class OwnRows:
    """Rows of each unit, with the operations that a formula may use on rows of one unit.

    Every result is a function of the unit's own rows, in any order of the table. It is the same at
    each of them.
    """

    counts: Index  # (k,): number of rows of each unit, for sets. **Confidential**

    def _at_each(self, of_unit: Array) -> Rows:
        """Return numbers of units (d, k) at each of their rows."""
        return Rows(np.repeat(of_unit, self.counts, axis=-1))

    def sum(self, x: Rows) -> Rows:
        """Return the sums over a unit's rows."""
        return self._at_each(own_sum(x.numbers, self.counts))

    def mean(self, x: Rows, present: Rows) -> Rows:
        """Return the means over a unit's rows that are ``present`` (1 or 0), 0 if none is.

        x is 0 in the other rows.
        """
        counts = self.counts
        many = np.maximum(own_sum(present.numbers, counts), 1.0)
        return self._at_each(own_sum(x.numbers, counts) / many)

    def largest(self, x: Rows) -> Rows:
        """Return the largest number of a unit's rows."""
        return self._at_each(np.maximum.reduceat(x.numbers, self._starts, axis=-1))

    def __repr__(self) -> str:
        return "<rows of units, confidential>"

    def before(self, x: Rows, *order: Rows) -> Rows:
        """Return the sum of x (1 whole number a row, below 2^53) over a unit's earlier rows.

        ``order``: columns that order the rows, the first one first. Rows that agree in all are
        the same row twice.
        """
        counts, steps = self.counts, x.numbers[0]
        if len(counts) == len(steps):
            return Rows(np.zeros((1, len(steps))))
        place = self._in_order(order)
        ordered = steps[place].astype(np.int64)
        up_to = np.cumsum(ordered) - ordered
        out = np.empty((1, len(steps)))
        out[0, place] = up_to - np.repeat(up_to[self._starts], counts)
        return Rows(out)

    def separate(self, start: Rows, end: Rows, counted: Rows, *ties: Rows) -> Rows:
        """Return which of a unit's episodes count: of those that overlap the earliest.

        An episode is from ``start`` to ``end``. ``counted``: rows that are episodes; ``ties``:
        columns that order episodes of the same times.
        """
        keep = np.zeros(start.numbers.shape, dtype=bool)
        person = np.repeat(np.arange(len(self.counts)), self.counts)
        place = self._in_order((start, end, *ties))
        place = place[counted.numbers[0][place]]
        begun, ended = start.numbers[0][place], end.numbers[0][place]
        keep[0, place[separate_episodes(person[place], begun, ended)]] = True
        return Rows(keep)

    @property
    def _starts(self) -> Index:
        """Places of the first rows of units."""
        return np.asarray(np.cumsum(self.counts) - self.counts)

    def _in_order(self, order: tuple[Rows, ...]) -> Index:
        """Return the places of rows, unit after unit, each in its order."""
        person = np.repeat(np.arange(len(self.counts)), self.counts)
        keys = [column for part in order for column in part.numbers]
        return np.lexsort((*reversed(keys), person))


def own_sum(x: Array, counts: Index) -> Array:
    """Return the sums over units of floats, along the last axis, each from the unit's rows alone.

    ``np.add.reduceat`` adds a unit's numbers in an order that is a function of how many they are.
    """
    if x.shape[-1] == len(counts):
        return x
    return np.asarray(np.add.reduceat(x, np.cumsum(counts) - counts, axis=-1))


def separate_episodes(who: Any, start: Array, stop: Array) -> npt.NDArray[np.bool_]:
    """Return a mask of episodes, chosen per person so that none overlaps another.

    Episodes are sorted by person (``who``) and start. One is kept if it begins no earlier than the
    last one kept of the same person ends.
    """
    keep = np.ones(len(who), dtype=bool)
    crossing = (who[1:] == who[:-1]) & (start[1:] < stop[:-1])
    for person in np.unique(who[1:][crossing]):
        low, high = np.searchsorted(who, [person, person + 1])
        end = -np.inf
        for i in range(low, high):
            keep[i] = start[i] >= end
            end = stop[i] if keep[i] else end
    return keep
