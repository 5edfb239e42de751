"""Scores summed by cluster: rows in the ball of C, sums of clusters in the ball of B.

``J = sum_k a_k a_k'``, a_k the sum of the scores of cluster k. A replaced row leaves one cluster
and enters another (``scoring/theory.md``, 6): the prover knows by how much J moves. A model hands
over the formula of a score; it is cut, multiplied by the factor of its stratum, and summed here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.parallel import Parallel
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Formula
from dpmodels.core.units import GRAIN, MOST_GRAINS
from dpmodels.proof.sets import STEPS, Ball
from dpmodels.proof.statistics import ClusterGram, Clusters, ClusterTotals
from dpmodels.sources.rows import BlockOfPeople
from dpmodels.sources.summed import summed
from dpmodels.sums.ask import Added, Query
from dpmodels.sums.products import (
    SHRINK,
    ExactSum,
    cross_product,
    end_along,
    nearest,
    squares,
    towards_zero,
)

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.rows import Coins
    from dpmodels.survey import Frame


Index = npt.NDArray[np.intp]
Integers = npt.NDArray[np.object_]
Places = tuple[int | None, int | None]

#: Number of labels that are collected before they are merged.
_WAITING = 1 << 18
#: Number of integer columns, each of at most 2^20, whose products sum to at most 2^53.
_EXACT_COLUMNS = 1 << 13
#: Factor that covers the rounding of summed lengths, of a quotient and of a product.
_ROUNDED_DOWN = 1.0 - 2.0**-30


@dataclass(frozen=True)
class Radii:
    """Radii of a pass by cluster, and the noise they bring."""

    # clip, bound: C of a row's score; B of a cluster's sum.
    clip: float
    bound: float
    noise: float  # sd of the entries of J in svec coordinates, per row
    guess: float  # Guessed eigenvalue of J per row (1: rows do not go together)

    @property
    def ratio(self) -> float:
        """Noise of J over its guessed size: a public forecast."""
        return self.noise / self.guess


def statistic(p: int, radii: Radii, *, people: bool = False) -> ClusterGram:
    """Return the statistic of the pass, for pulled sums of radius 1."""
    return ClusterGram(Ball(p), clip=radii.clip / radii.bound, several=people)


def totals_statistic(p: int, strata: int, radii: Radii, *, people: bool = False) -> ClusterTotals:
    """Return the totals of pulled sums by stratum, the radius of a pulled sum being 1."""
    return ClusterTotals(p, strata, radii.clip / radii.bound, several=people)


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores of rows, or of the rows of people: their mean square is their number."""

    # Score of one row: d numbers, or what ``into`` takes. Of the rows of a person: d numbers each.
    formula: Formula
    size: int  # d
    back: Array | None = None  # (d, d): rotation Q for which ``Q J Q'`` is J
    into: Parallel | None = None  # Scores of a scoring pass: ``psi w``

    def contribution(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (d, m)."""
        result = self.formula(Rows(rows))
        if self.into is None:
            z = result.numbers
            length = np.sqrt(squares(z))
            size = np.minimum(length * np.abs(factor), clip)
            return end_along(z, length, clip, size, factor)
        z, psi, _, length, _ = self.into.vectors(*result)
        psi = psi * factor
        size = np.minimum(np.abs(psi) * (length / self.into.step), clip)
        return end_along(z[: self.size], length, clip, size, psi)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of clipped scores by cluster. **Private**: nothing of it leaves without noise."""

    labels: Array  # (k,): labels of the clusters that have a row, ascending
    sums: npt.NDArray[np.int64]  # (chains, r, k) int64 array: in steps of ``C / 2^20``
    # tuple of (r, r) object arrays: ``sum s s'`` over the rows that are in no cluster, in squared
    # steps, one a chain.
    alone: tuple[Integers, ...]
    singles: int = 0  # How many rows these are

    def __add__(self, other: ClusterSums) -> ClusterSums:
        labels, sums = together([self.labels, other.labels], [self.sums, other.sums])
        alone = tuple(a + b for a, b in zip(self.alone, other.alone, strict=True))
        return ClusterSums(labels, sums, alone, self.singles + other.singles)

    def __repr__(self) -> str:
        return "<sums by cluster, confidential>"

    def count(self) -> Added:
        """Return the number of clusters."""
        return Added(np.array([len(self.labels)], dtype=object))

    def products(self, chain: int, radii: Radii) -> Added:
        """Return ``sum a a'`` over pulled sums, and its step, the radius B being 1.

        A sum is brought to length B at most, then towards zero to steps of ``2^s C/2^20``, the
        least power of two with ``2^s >= B/C``: entries are at most 2^20, so that products are
        exact (``proof/theory.md``, 1.5).
        """
        coarse = coarse_of(radii)
        a = pulled(self.sums[chain], radii, coarse)
        total = ExactSum(len(a), len(a))
        add_products(total, a)
        integers = total.integers() * (1 << 2 * coarse) + self.alone[chain]
        return Added(integers, (radii.clip / radii.bound / STEPS) ** 2)

    def totals(self, chain: int, radii: Radii, frame: Frame) -> Added:
        """Return the totals of pulled sums by stratum, flat, the radius B being 1.

        Integers of at most 2^20, as in :meth:`products`: sums of 2^33 of them are exact.
        """
        coarse = coarse_of(radii)
        a = pulled(self.sums[chain], radii, coarse)
        where = frame.strata_of(self.labels)
        out = np.array([np.bincount(where, weights=v, minlength=frame.strata) for v in a])
        integers = out.T.astype(np.int64).astype(object) * (1 << coarse)
        return Added(integers.ravel(), radii.clip / radii.bound / STEPS)


def add_products(total: ExactSum, z: Array) -> None:
    """Add ``z z'`` of integers of at most 2^20, in blocks of columns whose sums are exact."""
    for first in range(0, z.shape[1], _EXACT_COLUMNS):
        total.add(cross_product(z[:, first : first + _EXACT_COLUMNS]))


def coarse_of(radii: Radii) -> int:
    """Return s, the least power of two with ``2^s >= B/C``: pulled sums are in steps of it."""
    return max(math.ceil(math.log2(radii.bound / radii.clip)), 0)


def pulled(sums: npt.NDArray[np.int64], radii: Radii, coarse: int) -> Array:
    """Return sums (r, k) no longer than B, towards zero, in steps of ``2^coarse C/2^20``."""
    S = sums.astype(np.float64)
    length = np.sqrt(squares(S))
    most = radii.bound / radii.clip * STEPS * SHRINK
    factor = np.ones_like(length)
    np.divide(most, length, out=factor, where=length > most)
    S *= factor * 0.5**coarse
    return towards_zero(S)


def coded(labels: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return (labels that occur, which of them each is): a hash table, half the time of a sort."""
    import pandas as pd

    codes, distinct = pd.factorize(labels)
    return np.asarray(distinct, dtype=np.float64), codes


def together(
    labels: Sequence[Array], sums: Sequence[npt.NDArray[np.int64]]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return sums of equal labels added up, the labels ascending."""
    every = np.concatenate(labels)
    distinct, where = np.unique(every, return_inverse=True)
    chains, r = sums[0].shape[:2]
    out = np.zeros((chains, r, len(distinct)), dtype=np.int64)
    at = 0
    for part in sums:
        out[:, :, where[at : at + part.shape[2]]] += part  # labels of one part are all different
        at += part.shape[2]
    return distinct, out


@dataclass(frozen=True, eq=False)
class ClusterPasses:
    """Pass of all models over rows with labels: the pass of a query, and the job of its tasks."""

    passes: tuple[Scorer, ...]  # One a chain
    design: Design  # With labels
    frame: Frame
    clip: float  # C
    slack: float = 0.0  # Part of C that each part of a person needs for rounding
    of_people: ClassVar[bool] = False

    def total(self, rows: Any, reading: dict[str, Any]) -> ClusterSums:
        """Return the sums by cluster. Confidential."""
        sums: ClusterSums = summed(rows, self.design, self, **reading)
        return sums

    def count(self) -> Query:
        """Return the query of the number of clusters."""
        return Query(Clusters(), self, ClusterSums.count)

    def products(self, chain: int, radii: Radii) -> Query:
        """Return the query of J of a chain, sums being pulled to the radius B."""
        of_sums = statistic(self.passes[chain].size, radii, people=self.of_people)
        take = functools.partial(ClusterSums.products, chain=chain, radii=radii)
        return Query(of_sums, self, take, unit=radii.bound**2)

    def totals(self, chain: int, radii: Radii) -> Query:
        """Return the query of the totals of pulled sums by stratum."""
        frame = self.frame
        size = self.passes[chain].size
        of_totals = totals_statistic(size, frame.strata, radii, people=self.of_people)
        take = functools.partial(ClusterSums.totals, chain=chain, radii=radii, frame=frame)
        return Query(of_totals, self, take, radii.bound)

    def split(self) -> tuple[list[int], Places]:
        """Return (rows of a block that the scores read, those of cluster and stratum)."""
        cluster, stratum = (self.design.auxiliary_place(kind) for kind in ("cluster", "stratum"))
        score_rows = [j for j in range(self.design.q) if j not in (cluster, stratum)]
        return score_rows, (cluster, stratum)

    def placed(self, block: Array, places: Places) -> tuple[Array, Array]:
        """Return (cluster of each row, factor of its score)."""
        of, stratum = (None if p is None else block[p] for p in places)
        return self.frame.placed(np.zeros(block.shape[1]) if of is None else of, stratum)

    def parts(self, block: Any, score_rows: list[int], places: Places) -> tuple[Array, list[Array]]:
        """Return (cluster of each part, parts in each chain as integers (r, m)); a row is one part.

        ``score_rows`` and ``places`` are what :meth:`split` returns.
        """
        label, factor = self.placed(block, places)
        rows = block[score_rows]
        return label, [scorer.contribution(rows, factor, self.clip) for scorer in self.passes]

    def over(self, blocks: Iterable[Any], _: Coins | None = None) -> ClusterSums:
        """Return the sums over blocks. Confidential."""
        score_rows, places = self.split()
        r, k = self.passes[0].size, len(self.passes)
        totals, singles = [ExactSum(r, r) for _ in self.passes], 0
        labels, sums = [np.empty(0)], [np.zeros((k, r, 0), dtype=np.int64)]
        with np.errstate(all="ignore"):
            for block in blocks:
                label, parts = self.parts(block, score_rows, places)
                alone = label == 0.0
                if alone.any():
                    singles += int(alone.sum())
                    for to, z in zip(totals, parts, strict=True):
                        add_products(to, z[:, alone])
                distinct, at = coded(label)
                total = np.empty((k, r, len(distinct)), dtype=np.int64)
                for i, z in enumerate(parts):
                    for j in range(r):  # integers of at most 2^20: exact
                        total[i, j] = np.bincount(at, weights=z[j], minlength=len(distinct))
                labelled = distinct > 0.0
                labels.append(distinct[labelled])
                sums.append(total[:, :, labelled])
                if sum(map(len, labels[1:])) > _WAITING + len(labels[0]):
                    one_of, all_of = together(labels, sums)
                    labels, sums = [one_of], [all_of]
        one_of, all_of = together(labels, sums)
        return ClusterSums(one_of, all_of, tuple(w.integers() for w in totals), singles)

    def accepts(self, returned: Any) -> bool:
        """Return whether a task returned sums by cluster of these shapes."""
        k, r = len(self.passes), self.passes[0].size
        return (
            type(returned) is ClusterSums and type(returned.singles) is int
            and type(returned.labels) is np.ndarray and returned.labels.dtype == np.float64
            and type(returned.sums) is np.ndarray and returned.sums.dtype == np.int64
            and returned.sums.shape == (k, r, len(returned.labels)) and len(returned.alone) == k
            and all(type(a) is np.ndarray and a.shape == (r, r) for a in returned.alone)
        )  # fmt: skip


# -- Errors by cluster where people are the units, each with rows in any number of clusters.
#
# A person adds one part into every cluster it has rows in: the sum of its scores there. The lengths
# of its parts, each with an allowance for rounding, are scaled down to C *together*: then it moves
# ``J = sum_k a_k a_k'`` by 2BC at most, 4BC where it is replaced (``proof/theory.md``, 1.9). The
# bound of a row, 2 g(B, C), would not do. A person inside one cluster is treated as a row is,
# except for the bound.


def parts_of(z: Array, label: Array, counts: Index) -> tuple[Array, Array, Index]:
    """Return (sums by person and cluster (r, k), cluster of each, how many each person has).

    z (r, m) are integers: sums below 2^53 are exact in any order of a person's rows, of which there
    are ``counts``, one after the other. Label 0: in no cluster; such rows are one part.
    """
    person = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((label, person))
    whose, where = person[order], label[order]
    first = np.flatnonzero(np.r_[True, (whose[1:] != whose[:-1]) | (where[1:] != where[:-1])])
    many = np.bincount(whose[first], minlength=len(counts)).astype(np.intp)
    return np.add.reduceat(z[:, order], first, axis=1), where[first], many


def within(parts: Array, many: Index, clip: float, slack: float) -> Array:
    """Return parts as lattice integers, in steps of C/2^20, with lengths that sum to C at most.

    A *part* is the sum of a person's scores in one cluster. ``parts`` (r, k) are in steps of
    ``GRAIN``, ``many`` of each person one after the other. Each person has one factor, at most 1,
    and products are rounded towards zero: a function of the person's own parts. ``slack`` is the
    largest amount that rounding of a cluster's scaled sum adds to the distance of two sums. It is
    subtracted from C for each part. A person with too many parts adds nothing.
    """
    size = np.sqrt(squares(parts)) * GRAIN
    starts = np.cumsum(many) - many
    length = np.add.reduceat(size, starts)
    room = np.maximum(clip - many * slack, 0.0) * _ROUNDED_DOWN
    factor = np.minimum(np.divide(room, length, out=np.ones_like(length), where=length > 0.0), 1.0)
    factor = np.where(np.isfinite(length) & (length < MOST_GRAINS * GRAIN), factor, 0.0)
    share = np.repeat(factor * (GRAIN * STEPS / clip * SHRINK), many)
    coordinates = np.where(np.isfinite(parts), parts, 0.0) * share
    return np.asarray(towards_zero(coordinates))


@dataclass(frozen=True, eq=False)
class PeopleByCluster(ClusterPasses):
    """Pass of all models over people; ``slack``, of each part, is ``2^-17 sqrt r B``."""

    of_people: ClassVar[bool] = True

    def parts(
        self, block: BlockOfPeople, score_rows: list[int], places: Places
    ) -> tuple[Array, list[Array]]:
        """Return (cluster of each part, parts in each chain); a person has one part per cluster."""
        label, factor = self.placed(block.rows, places)
        rows, person, out = Rows(block.rows[score_rows]), OwnRows(block.counts), []
        for scorer in self.passes:
            score = nearest(scorer.formula(rows, person).numbers * (factor / GRAIN))
            parts, where, many = parts_of(score, label, block.counts)
            out.append(within(parts, many, self.clip, self.slack))
        return where, out
