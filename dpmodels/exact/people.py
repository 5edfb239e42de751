"""Sums by person: rows of whole people into a ball of their own, exact integers throughout.

``G_p = sum_t z_t z_t'`` of a person's rows, scaled so that its trace is at most R^2. Every step is
one multiplication, addition, division or root after the other, each rounded by itself: what comes
of a person does not depend on who stands beside (``units/theory.md``, 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, TOP, towards_zero
from dpmodels.exact.products import cross_product, squares
from dpmodels.exact.rowmap import OneFirst, RowMap
from dpmodels.exact.words import Gram, Words
from dpmodels.sources.windows import WINDOW

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.people import BlockOfPeople
    from dpmodels.sources.windows import Coins

__all__ = [
    "ROW_MOST",
    "TOP",
    "CountsOfPeople",
    "People",
    "PeopleGramOf",
    "averages",
    "averages_gram",
    "factors",
    "into_balls",
    "lengths",
    "people_gram",
    "product",
    "shares",
    "sums",
    "void",
]


Index = npt.NDArray[np.intp]
#: A row longer than this many radii is taken for one of that length, before people are summed.
ROW_MOST = 16.0
#: Squared lengths are counted in steps of this, rounded up: integers of at most 2^40 a row.
_COARSE = 2.0**8
#: From here on sums of integers round; they are enlarged by more than 2^33 rows could lose.
_EXACT, _SAFE = 2.0**53, 1.0 + 2.0**-20


class People(Protocol):
    """Whatever yields passes of whole people."""

    def people(self, design: Design, coins: Coins | None = None) -> Iterable[BlockOfPeople]:
        """Yield one pass of blocks of whole people."""
        ...


def lengths(z: Array) -> Array:
    """Return the lengths of rows (columns of z), each by itself."""
    return np.asarray(np.sqrt(squares(z)))


def sums(cells: Array, starts: Index) -> Array:
    """Return the sums over people of integers, along the last axis."""
    return np.asarray(np.add.reduceat(cells, starts, axis=-1))


def into_balls(z: Array, length: Array, block: BlockOfPeople, *radii: float) -> list[Array]:
    """Scale people into balls of trace, and round their rows towards zero.

    Parameters
    ----------
    z : (k, m) array
        Rows, 0 where they are void; not overwritten.
    length : (m,) array
        Of the rows.
    block : BlockOfPeople
        Whose rows these are.
    *radii : float
        In units of z. The first is the one that cuts single rows.

    Returns
    -------
    list of (k, m) arrays
        For each radius: integers in steps of radius / 2^20, whose squares add up to at most 2^40
        over the rows of one person.
    """
    out = []
    for share in factors(length, block, *radii):
        out.append(towards_zero(z * share))
    return out


def factors(length: Array, block: BlockOfPeople, *radii: float) -> list[Array]:
    """Return for each radius the factors of rows (m,) that bring people into balls of trace.

    Parameters
    ----------
    length, block, *radii
        As in :func:`into_balls`, which rounds ``z * factor`` towards zero.
    """
    most = ROW_MOST * radii[0]
    beyond = np.flatnonzero(length > most)
    cut = np.minimum(length, most) if len(beyond) else length
    part = cut * (STEPS / radii[0])
    part *= part
    part /= _COARSE
    trace = sums(np.ceil(part, out=part), block.starts)
    trace[trace >= _EXACT] *= _SAFE
    root = np.sqrt(trace * _COARSE) * (radii[0] / STEPS)  # of a person, in units of z
    out = []
    for radius in radii:
        factor = np.full_like(root, TOP / radius)
        np.divide(TOP, root, out=factor, where=root > radius)
        share = np.repeat(factor, block.counts)
        share[beyond] *= most / length[beyond]
        out.append(share)
    return out


def product(z: Array, words: Words) -> None:
    """Add ``z z'`` to exact sums, at most 8192 columns at once."""
    for a in range(0, z.shape[1], WINDOW):
        words.add(cross_product(z[:, a : a + WINDOW]))


def people_gram(blocks: Iterable[BlockOfPeople], rowmap: RowMap | OneFirst) -> Gram:
    """Accumulate ``sum_p c_p G_p`` of the images of rows under a map into a ball.

    Parameters
    ----------
    blocks : iterable of BlockOfPeople
    rowmap : RowMap or OneFirst
        Its affine part is used, row by row; its ball is that of a person's trace.

    Privacy
    -------
    The return value is confidential. One person contributes one positive semidefinite integer
    matrix of trace at most 2^40.
    """
    k = len(rowmap.box)
    total = Words(k)
    with np.errstate(all="ignore"):
        for block in blocks:
            z = np.ascontiguousarray(rowmap.image(block.rows))
            length = void(z)
            (lattice,) = into_balls(z, length, block, STEPS)
            product(lattice, total)
    return Gram(*total.words(), 0, "")


@dataclass(frozen=True, eq=False)
class PeopleGramOf:
    """The pass of :func:`people_gram`, or of :func:`averages_gram`, for whoever adds up.

    Attributes
    ----------
    rowmap : RowMap, or OneFirst
    average : bool
        People's means, not their sums.
    """

    rowmap: Any
    average: bool = False
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> Gram:
        """Return the Gram matrix of blocks of whole people. Confidential."""
        return (averages_gram if self.average else people_gram)(blocks, self.rowmap)


def averages(block: BlockOfPeople, rowmap: RowMap) -> Array:
    """Return one lattice row a person: the mean of its complete rows, and whether it has any.

    Returns
    -------
    (k + 1, people) array
        Integers, rounded towards zero: no entry is larger than the last, one whole unit or 0.
    """
    z, there = rowmap.ended(block.rows)
    one = np.ones(z.shape[1]) if there is None else there.astype(float)
    total = sums(np.vstack([z, one]), block.starts)
    complete = total[-1]
    out = total / np.maximum(complete, 1.0)
    out[-1] = np.where(complete > 0, STEPS, 0.0)
    return towards_zero(out)


def averages_gram(blocks: Iterable[BlockOfPeople], rowmap: RowMap) -> Gram:
    """Accumulate the Gram matrix of ``(mean of a person's complete rows, has any, 1)``.

    Privacy
    -------
    The return value is confidential. One person contributes one row, in the convex hull of what
    a complete row can be, or the zero row (``units/theory.md``, 8).
    """
    k = len(rowmap.box) + 2
    total = Words(k)
    with np.errstate(all="ignore"):
        for block in blocks:
            own = averages(block, rowmap)
            product(np.vstack([own, np.full((1, own.shape[1]), STEPS)]), total)
    return Gram(*total.words(), 0, "")


def void(z: Array) -> Array:
    """Turn rows that are not finite into zero rows; return the lengths of all."""
    length = lengths(z)
    gone = ~np.isfinite(length)
    if gone.any():
        z[:, gone] = 0.0
        length[gone] = 0.0
    return length


# -- Averages of people over cells: what a person has in each, by own number of rows, in intege


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
