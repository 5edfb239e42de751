"""Sets of rows, or of people, that add one unit of mass to each of several tables.

A formula returns the codes of a row along the axes, its numbers t in [-1, 1], and its mass u. A row
is in one cell of every table. In a table of a number its mass is divided:
``((1-t)/2)^2, (1-t^2)/2, ((1+t)/2)^2`` are in the cells "low", "middle" and "high". They are not
negative and add up to 1, and their sums are N, T = sum t and Q = sum t^2 in another basis:
``N = l + m + h, T = h - l, Q = l - m + h``. So whatever a table holds, one row is one unit of mass:
replacing it moves the table by at most 2 in L1 and sqrt 2 in L2 (``models/table/theory.md``, 1.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers, Part
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Cells
from dpmodels.sources.summed import Integers as Sums
from dpmodels.sums.ask import Added
from dpmodels.sums.products import end_of_numbers
from dpmodels.sums.rowmap import shares

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Table:
    """One table: public facts."""

    size: int  # Number of cells
    strides: tuple[tuple[int, int], ...]  # (index of a code, cells from one value to the next)
    number: int = -1  # Index of the number by which the mass of a row is divided, or -1
    stride: int = 0  # Cells from one part of the mass to the next


class Tables(Integers):
    """Tables of a unit of mass each, flat, in steps of 2^-20.

    A code outside its axis is the last one. A number that is missing is in the fourth cell. A
    person adds the mean of its rows; in a table of a number each row has the mean number of the
    person's rows in its group, so that the squares show how people differ.

    Parameters
    ----------
    sizes : sequence of int
        Number of codes of each axis.
    tables : sequence of Table
    shares : tuple of float
        Share of the budget of each table.
    unused : bool
        Whether the mass that a row does not have is in one more cell behind every table.
    geometric : bool
        Whether sums are numbers of rows, with noise on integers (rows of mass 1, no numbers).
    """

    pairs: ClassVar[bool] = False  # Whether products of cells are released
    of_people: ClassVar[bool] = True

    def __init__(
        self, sizes: Sequence[int], tables: Sequence[Table], shares: tuple[float, ...],
        *, unused: bool = False, geometric: bool = False,
    ) -> None:  # fmt: skip
        self.sizes, self.tables, self.unused, self.geometric = sizes, tables, unused, geometric
        self.released = self.lengths = tuple(table.size + unused for table in tables)
        self.last = 1  # Place of the last cell from the end of each table
        if self.pairs:
            self.released = tuple(table.size * (table.size + 1) // 2 + 1 for table in tables)
            self.last = 1 + (not unused)
        self.statistic = Cells(self.released, shares, counts=geometric)

    def adding(self, of: Any) -> Any:
        """Return running sums of zero: the tables, and the number of people."""
        return [np.zeros(size, dtype=np.int64) for size in self.released] + [0]

    def add(
        self, sums: Any, chosen: Any, codes: Rows, t: Rows | None = None, u: Rows | None = None,
        starts: Any = None,
    ) -> None:  # fmt: skip
        """Add the mass of each row to its cells, or the mean mass of the rows of each person.

        Within 2^13 rows every sum is below 2^53.
        """
        if starts is not None:
            self._add_people(sums, starts, self.people(starts, codes, t, u))
            return
        for total, entries in zip(sums, self._entries(codes, t, u), strict=False):
            for place, mass in entries:
                counts = np.bincount(place, weights=mass, minlength=total.size)
                total += counts.astype(np.int64)

    def _add_people(self, sums: Any, starts: Any, entries: Iterator[Any]) -> None:
        """Add the shares of each person."""
        sums[-1] += len(starts)
        for total, (_, where, share) in zip(sums, entries, strict=False):
            np.add.at(total, where, share)

    def exact(self, sums: Any) -> Sums:
        """Return the exact sums, flat, and the number of people."""
        return Sums((np.concatenate(sums[:-1]).astype(object), sums[-1]))

    def with_absent(self, sums: Sums, people: int) -> Sums:
        """Return sums that count declared people without a row in the last cell of each table."""
        flat = sums.arrays[0].copy()
        flat[np.cumsum(self.released) - self.last] += (people - sums.arrays[1]) * int(STEPS)
        return Sums((flat, people))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the tables as one release."""
        unit = int(STEPS) if self.geometric else 1
        take: Any = lambda sums: Added(sums.arrays[0] // unit)  # noqa: E731 - one line
        return (Part(name, self.statistic, take, geometric=self.geometric),)

    def people(
        self, starts: Any, codes: Rows, t: Rows | None, u: Rows | None
    ) -> Iterator[tuple[Codes, Codes, Any]]:
        """Yield (person, cell, share) of whole people, table by table."""
        counts = np.diff(starts, append=codes.numbers.shape[1])
        person = np.repeat(np.arange(len(starts)), counts)
        for size, entries in zip(self.lengths, self._entries(codes, t, u, person), strict=True):
            place = np.concatenate([place for place, _ in entries])
            weight = np.concatenate([mass for _, mass in entries]).astype(np.int64)
            whose = np.tile(person, len(entries))
            place = whose * size + place  # the shares of each person, and whose they are
            where, share = shares(whose, place, weight, counts, size * len(starts))
            yield where // size, where % size, share

    def _entries(
        self, codes: Rows, t: Rows | None, u: Rows | None, person: Any = None
    ) -> Iterator[list[tuple[Codes, Array]]]:
        """Yield for each table [(cell of each row, its mass)], one pair per part of the mass."""
        c, last = codes.numbers, np.array(self.sizes, dtype=float)[:, None] - 1.0
        if not ((c >= 0.0) & (c <= last)).all():
            c = np.where((c >= 0.0) & (c <= last), c, last)
        c = c.astype(np.intp)
        part = np.ones(c.shape[1]) if u is None else np.clip(u.numbers[0], 0.0, 1.0)
        unit_mass = end_of_numbers(part, low=0.0)
        numbers = None if t is None else np.clip(t.numbers, -1.0, 1.0)
        divided: dict[int, Array] = {}
        for table in self.tables:
            place: Codes = np.zeros(c.shape[1], dtype=np.intp)
            for j, stride in table.strides:
                place = place + c[j] * stride
            entries = [(place, unit_mass)]
            if table.number >= 0:
                assert numbers is not None
                mass = divided.get(table.number)
                if mass is None or person is not None:
                    t_row = numbers[table.number]
                    if person is not None:
                        key = person * (table.size + 1) + place
                        t_row = means_of_people(t_row, key, unit_mass)
                    mass = divided[table.number] = masses(t_row, part, unit_mass)
                entries = [(place + e * table.stride, m) for e, m in enumerate(mass)]
            if self.unused:  # the mass that rows do not have
                entries.append((np.full(c.shape[1], table.size), STEPS - unit_mass))
            yield entries


class Products(Tables):
    """Products of the shares of each person in a table, one unit together, in steps of 2^-20.

    A cell for each pair of cells, ``a_i^2`` and ``2 a_i a_j``. Products are rounded down; what is
    left of the unit is in the last cell of each table.
    """

    pairs = True

    def _add_people(self, sums: Any, starts: Any, entries: Iterator[Any]) -> None:
        """Add the products of each person."""
        steps = int(STEPS)
        sums[-1] += len(starts)
        each = zip(sums, self.tables, entries, strict=False)
        for total, table, (who, where, share) in each:
            k, at = table.size, 0
            mine = np.zeros((len(starts), k + 1), dtype=np.int64)
            mine[who, where] = share
            left = np.full(len(starts), steps)
            for i in range(k):
                product = mine[:, i : i + 1] * mine[:, i:k]
                product[:, 1:] *= 2
                product //= steps
                total[at : at + k - i] += product.sum(axis=0)
                left -= product.sum(axis=1)
                at += k - i
            total[-1] += int(left.sum())


def masses(t: Array, u: Array, unit_mass: Array) -> Array:
    """Return the lattice weights (4, m) of numeric values in [-1, 1], NaN missing: integers >= 0.

    Each column adds up to exactly ``unit_mass``, u in steps of 2^-20: low and high are rounded
    down, the middle is what is left.
    """
    low, high = (end_of_numbers(u * (0.5 * (1.0 + s * t)) ** 2, low=0.0) for s in (-1.0, 1.0))
    gone = np.isnan(t)
    out = np.stack([low, unit_mass - low - high, high, np.zeros_like(low)])
    out[:, gone] = 0.0
    out[3, gone] = unit_mass[gone]
    return out


def means_of_people(t: Array, key: npt.NDArray[np.int64], unit_mass: Array) -> Array:
    """Return for each row the mean of the numbers with its key; NaN where its own is missing.

    Means are weighted by the masses of rows (``unit_mass``). Sums are of whole numbers, so the
    order of rows changes nothing below 2^53.
    """
    present = ~np.isnan(t)
    keys, place = np.unique(key[present], return_inverse=True)
    steps, mass = end_of_numbers(t[present]), unit_mass[present]
    rows = np.bincount(place, minlength=len(keys))
    total, count = (
        np.bincount(place, weights=w, minlength=len(keys)) for w in (steps * mass, mass)
    )
    out = np.full(len(t), np.nan)
    means = np.where(rows == 1, np.nan, total / np.maximum(count, 1) / STEPS)
    out[present] = means[place]
    return np.where(present & np.isnan(out), t, out)  # one row is its mean, to the last digit
