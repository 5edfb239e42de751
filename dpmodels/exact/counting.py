"""The exact Gram matrix when factors have many levels: sums by code instead of dense products.

A dummy column is an integer ``a`` in the rows of its level and ``b`` elsewhere (b = 0 where it is
not centred). With codes c_i and integer rows z_i, the column is ``b + (a - b) 1{c_i = l}``, so the
blocks of G follow from

    n,    sum_i z_i,    sum_i z_i 1{c_i = l},    #{c_i = l},    #{c_i = l, d_i = m}.

Within a block of 2^13 rows these are integers of at most 2^33, exact in float64; over 64 blocks
they are added up in 64-bit integers, and an entry of G, at most 2^40 a row, fits as well. The
result is the same integers as :func:`dpmodels.exact.gram.gram`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, integers_of
from dpmodels.exact.products import cross_product
from dpmodels.exact.rowmap import RowMap, UnitScale, WithOne
from dpmodels.exact.words import Gram, LatticeMap, Words

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["COUNT_FROM", "CountedGram", "counted_gram"]

#: With more dummies than this, counting beats writing them out (measured).
COUNT_FROM = 16
#: Blocks that are tallied before the matrix is put together: 2^19 rows, entries below 2^59.
_BLOCKS = 64
#: Pairs of factors with more cells than this are counted through the pairs that occur.
_CELLS = 1 << 16

Codes = npt.NDArray[np.intp]
Integers = npt.NDArray[np.int64]


def counted_gram(design: Design, rowmap: LatticeMap, fingerprint: str = "") -> CountedGram | None:
    """Return the counting pass of a design; None where its dummies are few, or do not stay two.

    Public: a function of design and row map. Two values a dummy has where every coordinate is one
    column, clipped by itself.
    """
    inner = rowmap.rowmap if isinstance(rowmap, WithOne) else rowmap
    if not isinstance(inner, RowMap) or inner.matrix is not None or inner.ball:
        return None
    if len(inner.box) != design.q or not design.dense:
        return None
    if design.q - len(design.dense) <= COUNT_FROM:
        return None
    ends = np.zeros((design.q, 2))
    ends[:, 1] = 1.0
    off, on = inner.integers(ends).astype(np.int64).T
    return CountedGram(
        part=_rows_of(inner, np.array(design.dense, dtype=np.intp)),
        dense=np.array(design.dense, dtype=np.intp),
        slices=tuple(f.columns for f in design.factors),
        off=off,
        step=on - off,
        one=isinstance(rowmap, WithOne),
        fingerprint=fingerprint,
    )


def _rows_of(rowmap: RowMap, rows: Codes) -> RowMap:
    """Return the map of some columns alone."""
    unit = UnitScale(rowmap.unit.scale[rows], rowmap.unit.shift[rows], rowmap.unit.intercept)
    return RowMap(unit, rowmap.box[rows])


@dataclass(frozen=True, eq=False)
class CountedGram:
    """The pass of :func:`dpmodels.exact.gram.gram` over coded blocks: same integers.

    Attributes
    ----------
    part : RowMap
        Of the columns that are not counted ...
    dense : (d,) array
        ... and their places.
    slices : tuple of slice
        Places of the dummies of each counted factor.
    off, step : (q,) int64 arrays
        A dummy is ``off``, plus ``step`` in the rows of its level, in lattice steps.
    one : bool
        The constant 1 is appended.
    fingerprint : str
    """

    part: RowMap
    dense: Codes
    slices: tuple[slice, ...]
    off: Integers
    step: Integers
    one: bool = False
    fingerprint: str = ""
    #: Blocks come as (columns that are not counted, codes).
    coded = True

    def over(self, blocks: Iterable[tuple[Array, Codes]], _: Any = None) -> Gram:
        """Return the Gram matrix of coded blocks. Confidential."""
        total = Words(len(self.off) + self.one)
        tallies, waiting, seen = self._empty(), 0, 0
        with np.errstate(all="ignore"):
            for block, codes in blocks:
                seen += block.shape[1]
                self._add(tallies, block, codes)
                waiting += 1
                if waiting == _BLOCKS:
                    total.add_large(self._assembled(tallies))
                    tallies, waiting = self._empty(), 0
        total.add_large(self._assembled(tallies))
        return Gram(*total.words(), seen, self.fingerprint)

    @property
    def _widths(self) -> list[int]:
        return [at.stop - at.start for at in self.slices]

    def _empty(self) -> _Tallies:
        d, widths = len(self.dense) + self.one, self._widths
        return _Tallies(
            np.zeros((d, d), dtype=np.int64),
            np.zeros(d, dtype=np.int64),
            [np.zeros((d, w + 1), dtype=np.int64) for w in widths],
            [np.zeros(w + 1, dtype=np.int64) for w in widths],
            {
                (f, g): np.zeros((widths[f] + 1, widths[g] + 1), dtype=np.int64)
                for f in range(len(widths))
                for g in range(f)
            },
        )

    def _add(self, to: _Tallies, block: Array, codes: Codes) -> None:
        """Add a block. A row with a missing cell is in no tally."""
        z, there = self.part.ended(block)
        if there is not None:
            z, codes = z[:, there], codes[:, there]
        if self.one:
            z = np.vstack([z, np.full((1, z.shape[1]), STEPS)])
        to.products += integers_of(cross_product(z))
        to.sums += integers_of(z.sum(axis=1))
        shifted = codes + 1  # 0: none of the factor's columns
        widths = self._widths
        for f, width in enumerate(widths):
            for own, row in zip(to.by_level[f], z, strict=True):
                own += np.bincount(shifted[f], weights=row, minlength=width + 1).astype(np.int64)
            to.counts[f] += np.bincount(shifted[f], minlength=width + 1)
            for g in range(f):
                _count_pairs(to.pairs[f, g], shifted[f], shifted[g])

    def _assembled(self, found: _Tallies) -> Integers:
        """Return the (k, k) Gram matrix of tallies. Sums wrap around; what they end at does not."""
        q = len(self.off)
        S = np.zeros((q + self.one, q + self.one), dtype=np.int64)
        dense = np.append(self.dense, q) if self.one else self.dense
        S[np.ix_(dense, dense)] = found.products
        for f, at in enumerate(self.slices):
            count = found.counts[f][1:]
            S[dense, at] = np.outer(found.sums, self.off[at])
            S[dense, at] += found.by_level[f][:, 1:] * self.step[at]
            S[at, dense] = S[dense, at].T
            present = int(found.counts[f].sum())
            S[at, at] = self._pair(at, at, count, count, np.diag(count), present)
            for g in range(f):
                other, both = self.slices[g], found.pairs[f, g][1:, 1:]
                S[at, other] = self._pair(at, other, count, found.counts[g][1:], both, present)
                S[other, at] = S[at, other].T
        return S

    def _pair(
        self, a: slice, b: slice, in_a: Integers, in_b: Integers, both: Integers, present: int
    ) -> Integers:
        """Return ``sum_i (off_a + step_a 1_a)(off_b + step_b 1_b)'`` of two factors."""
        off, step = self.off, self.step
        out: Integers = np.outer(off[a] * present + step[a] * in_a, off[b])
        out += np.outer(off[a], step[b] * in_b)
        out += both * np.outer(step[a], step[b])
        return out


@dataclass(eq=False)
class _Tallies:
    """What is counted: level 0 of a factor stands for none of its columns.

    Attributes
    ----------
    products, sums : (d, d) and (d,) arrays
        Of the columns that are not counted.
    by_level : list of (d, levels) arrays
    counts : list of (levels,) arrays
    pairs : dict of (levels, levels) arrays
    """

    products: Integers
    sums: Integers
    by_level: list[Integers]
    counts: list[Integers]
    pairs: dict[tuple[int, int], Integers]


def _count_pairs(to: Integers, a: Codes, b: Codes) -> None:
    """Add the rows of each pair of levels to a table."""
    cells = a * to.shape[1] + b
    if to.size <= _CELLS:
        to += np.bincount(cells, minlength=to.size).reshape(to.shape)
    else:
        where, times = np.unique(cells, return_counts=True)
        to.reshape(-1)[where] += times
