"""Averages of people over cells: what a person has in each, by own number of rows, in integers.

A row lays one unit of mass into the cells of a table. A person lays the mean of its rows: one unit
of mass as well, however many rows it has (``units/theory.md``, 8 and 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CountsOfPeople", "shares"]

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountsOfPeople:
    """Sums of shares, in steps of the unit, and how many people had them. **Private**."""

    values: Whole
    people: int

    def __add__(self, other: CountsOfPeople) -> CountsOfPeople:
        return CountsOfPeople(self.values + other.values, self.people + other.people)

    def __repr__(self) -> str:
        return f"<counts of people in {len(self.values)} cells, confidential>"


def shares(person: Any, place: Any, mass: Any, counts: Any, cells: int) -> tuple[Any, Whole]:
    """Return (cell, share) of every person in each of its cells: not negative, one unit together.

    Parameters
    ----------
    person, place : (m,) integer arrays
        Whose entry it is, and in which of ``cells`` cells.
    mass : (m,) int64 array
        Not negative; those of one person add up to one unit times its number of rows.
    counts : (k,) array
        Rows of each person, at least one.

    Notes
    -----
    What a person has up to a cell is rounded to the nearest, so each share is off by less than a
    step, and those of a person add up to the unit. A function of the person's own entries, in
    whatever order.
    """
    key = np.asarray(person, dtype=np.int64) * cells + place
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    up_to = np.cumsum(mass[order])[np.r_[first[1:], len(key)] - 1]
    who, where = key[first] // cells, key[first] % cells
    ends = np.flatnonzero(np.r_[who[1:] != who[:-1], True])  # every person has an entry
    before = np.r_[0, up_to[ends[:-1]]]
    up_to -= np.repeat(before, np.diff(np.r_[-1, ends]))
    rows = np.asarray(counts, dtype=np.int64)[who]
    rounded = (2 * up_to + rows) // (2 * rows)
    share = np.diff(rounded, prepend=0)
    share[ends[:-1] + 1] = rounded[ends[:-1] + 1]
    return where, share
