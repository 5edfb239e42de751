"""Passes over expanded units: what one unit comes to, in exact integers.

Four jobs: where numbers lie (cells of their ranges), how large each column of the information is,
how long the scores are, and the sums of a scoring pass. The sets that a unit's part lies in are
those of the queries in :mod:`dpmodels.scoring.expand_start` and :mod:`dpmodels.scoring.release`
(``expand_theory.md``, 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, end_along, end_of_numbers, integers_of, towards_zero
from dpmodels.exact.people import factors, lengths, product, void
from dpmodels.exact.products import filled, mapped
from dpmodels.exact.words import Words
from dpmodels.scoring.expand import Expanded, Local, own_sum
from dpmodels.scoring.sums import PassSums, scaled, softened
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sources.summed import Integers

if TYPE_CHECKING:
    from dpmodels.scoring.rules import PassPlan
    from dpmodels.sources.windows import Coins

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

#: Scores of rows are rounded to this before a unit's are added up: integers.
GRAIN = 2.0**-34
#: Cells of a range.
CELLS = 64
#: Octaves of a square (half octaves of a length): bin i holds [2^(i - OCTAVE_ZERO), twice that).
OCTAVES, OCTAVE_ZERO = 96, 64
#: A float64: bits of its mantissa, bias of its exponent.
_MANTISSA, _BIAS = 52, 1023


def octaves(squares: Array) -> npt.NDArray[np.int64]:
    """Count positive finite numbers by octaves, the end bins open; others are in none."""
    there = squares[(squares > 0.0) & np.isfinite(squares)]
    octave = (there.view(np.int64) >> _MANTISSA) - (_BIAS - OCTAVE_ZERO)
    return np.bincount(np.clip(octave, 0, OCTAVES - 1), minlength=OCTAVES)


def units_of(blocks: Iterable[Any]) -> Iterator[BlockOfPeople]:
    """Yield blocks of whole units: of rows each is one."""
    for block in blocks:
        if isinstance(block, BlockOfPeople):
            yield block
        else:
            m = block.shape[1]
            yield BlockOfPeople(block, np.arange(m), np.ones(m, dtype=np.intp))


def own_scores(found: Expanded) -> tuple[Array, Array, Array]:
    """Return (scores of units in steps of ``GRAIN``, their lengths, lengths of their rows').

    Integers; 0 where one is not finite. Sums below 2^53 steps are exact in any order, longer ones
    round in the unit's own order.
    """
    rows = np.rint(found.score * (1.0 / GRAIN))
    own = own_sum(rows, found.scores)
    size = lengths(own)
    gone = ~(size < 1e140)
    if gone.any():
        own = np.where(gone, 0.0, own)
        size = np.where(gone, 0.0, size)
    return own, size, lengths(rows)


@dataclass(frozen=True, eq=False)
class LengthsJob:
    """The histogram of ``|S_p|`` by half octaves: a unit in one bin, or in none."""

    local: Local
    of_people: bool

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the counts, (OCTAVES,). Confidential."""
        out = np.zeros(OCTAVES, dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                size = own_scores(self.local.expand(block))[1] * GRAIN
                out += octaves(size * size)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class ScalesJob:
    """Histograms of ``sum_t v_tj^2`` of each column j: a unit in one bin of each, or in none."""

    local: Local
    of_people: bool
    r: int

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the counts, (r, OCTAVES). Confidential."""
        out = np.zeros((self.r, OCTAVES), dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                found = self.local.expand(block)
                squares = own_sum(found.information()[: self.r] ** 2, found.counts)
                for j, own in enumerate(squares):
                    out[j] += octaves(own)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class PlacesJob:
    """Shares of each unit's rows in cells of numbers: ``floor(2^20/rows)`` a row, of each number.

    Attributes
    ----------
    places : tuple of int
        Rows of the block.
    edges : tuple of (CELLS - 1,) arrays
        Inner edges of the cells, of each.
    """

    places: tuple[int, ...]
    edges: tuple[Array, ...]
    of_people: bool

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the masses, (numbers, CELLS), in steps of 2^-20. Confidential."""
        out = np.zeros((len(self.places), CELLS), dtype=np.int64)
        for block in units_of(blocks):
            for i, j in enumerate(self.places):
                cells = block.rows[j]
                there = np.isfinite(cells)
                many = own_sum(there.astype(float), block.counts)
                mass = np.repeat(np.floor(STEPS / np.maximum(many, 1.0)), block.counts) * there
                at = np.searchsorted(self.edges[i], np.where(there, cells, 0.0), side="right")
                out[i] += np.bincount(at, weights=mass, minlength=CELLS).astype(np.int64)
        return Integers((out,))


@dataclass(frozen=True)
class UnitSums:
    """The sums of one pass. **Private**."""

    sums: PassSums

    def __add__(self, other: UnitSums) -> UnitSums:
        return UnitSums(self.sums + other.sums)

    def __repr__(self) -> str:
        return "<sums of a pass over units, confidential>"


@dataclass(frozen=True, eq=False)
class UnitsJob:
    """One scoring pass: each unit's score into the ball of C, its information into balls of trace.

    Attributes
    ----------
    local : Local
    plan : PassPlan
    r : int
    turn : (r, r) array or None
        Rows v are looked at in coordinates of their own, ``turn v``: those in which the
        information is round. Of people each part is by itself, so coordinates are free.
    """

    local: Local
    plan: PassPlan
    r: int
    of_people: bool
    turn: Array | None = None

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> UnitSums:
        """Return the exact sums. Confidential.

        Parameters
        ----------
        coins : Coins or None
            One a unit: who is in meat and ordinary information.
        """
        plan, r = self.plan, self.r
        words = {name: Words(filled(r)) for name in ("information", "meat", "spread")}
        score, scale = np.zeros(filled(r), dtype=object), 0
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                many = len(block.counts)
                chosen: Any = slice(None) if coins is None else coins.choose(many)
                found = self.local.expand(block)
                own, size, of_rows = own_scores(found)
                own = _filled(own, r)
                score += self._scores(own, size).astype(object)
                if plan.mu_scale:
                    square = (of_rows * GRAIN) ** 2 / plan.scale_cut
                    if found.shares is not None:  # a row's own square, by what part it is
                        square = square / found.shares
                    part = own_sum(end_of_numbers(square, low=0.0), found.scores)
                    scale += int(np.minimum(part, STEPS).sum())
                if plan.meat:
                    words["meat"].add(scaled(own[:, chosen], size[chosen], plan.meat / GRAIN))
                kept = size <= plan.clip / GRAIN
                if found.whole is not None:
                    kept &= found.whole
                self._add_information(words, found, chosen, kept)

        def matrix(name: str) -> Any:
            return words[name].integers()[:r, :r]

        return UnitSums(
            PassSums(
                matrix("information"), score[:r], matrix("meat") if plan.meat else None,
                matrix("spread") if plan.spread else None, scale, (),
            )
        )  # fmt: skip

    def _scores(self, own: Array, size: Array) -> npt.NDArray[np.int64]:
        """Return the sum of scores, none longer than C in exact integers."""
        clip = self.plan.clip / GRAIN
        kept = softened(size, clip, self.plan.unsoftened)
        return integers_of(end_along(own, size, clip, kept).sum(axis=1))

    def _add_information(
        self, words: dict[str, Words], found: Expanded, chosen: Any, kept: Mask
    ) -> None:
        """Add the information of units, and of the chosen ones whose score is whole."""
        plan = self.plan
        rows = found.information()
        v = _filled(np.array(rows) if self.turn is None else mapped(self.turn, rows), self.r)
        length = void(v)
        starts = np.cumsum(found.counts) - found.counts
        block = BlockOfPeople(v, starts, found.counts)
        radii = [plan.information, *([plan.spread] if plan.spread else [])]
        share, *ordinary = factors(length, block, *radii)
        if plan.spread:
            of = np.zeros(len(kept), dtype=bool)
            of[chosen] = kept[chosen]
            some = np.flatnonzero(np.repeat(of, found.counts))
            product(towards_zero(v[:, some] * ordinary[0][some]), words["spread"])
        v *= share
        product(towards_zero(v), words["information"])


def _filled(rows: Array, r: int) -> Array:
    """Return rows with rows of zeros below, up to a height whose products are fast."""
    k = filled(r)
    if len(rows) == k:
        return rows
    out = np.zeros((k, rows.shape[1]))
    out[:r] = rows[:r]
    return out
