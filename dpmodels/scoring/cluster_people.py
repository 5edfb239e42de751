"""Errors by cluster where people are the units, each with rows in any number of clusters.

A person lays one part into every cluster it has rows in: the sum of its scores there. The lengths
of its parts, with what rounding may add to each, are brought down to C *together*: then it moves
``J = sum_k a_k a_k'`` by 2BC at most, 4BC where it is replaced (``exact/theory.md``, 1.9). The
bound of a row, 2 g(B, C), would not do. A person inside one cluster is treated as a row is, but for
the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import SHRINK, STEPS, towards_zero
from dpmodels.exact.people import lengths
from dpmodels.exact.products import mapped
from dpmodels.scoring.clusters import ClusterPasses, Places
from dpmodels.scoring.expand_pass import GRAIN
from dpmodels.sources.people import BlockOfPeople

if TYPE_CHECKING:
    from dpmodels.scoring.expand import Local

Index = npt.NDArray[np.intp]
#: A score longer than this, in these steps, voids its person.
_LONGEST = 1e140
#: Pays for what a sum of rounded lengths, a quotient and a product lose.
_SAFE = 1.0 - 2.0**-30


@dataclass(frozen=True, eq=False)
class PersonScores:
    """Scores of the rows of people, turned so that those of people have length sqrt r on average.

    Attributes
    ----------
    local : Local
        The expansion at the final fit: one score a row.
    root : (r, r) array
        Released.
    """

    local: Local
    root: Array
    back: None = None

    @property
    def size(self) -> int:
        """Rank of the design."""
        return len(self.root)

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Refuse: a proof for rows says nothing of people."""
        raise NotImplementedError

    def of_rows(self, block: BlockOfPeople, factor: Array) -> Array:
        """Return the scores of rows (r, m) times their factors, in steps of ``GRAIN``."""
        score = mapped(self.root, self.local.expand(block).score)
        return np.rint(score * (factor / GRAIN))


def parts_of(
    z: Array, label: Array, counts: Index
) -> tuple[Array, Array, Index]:
    """Return (sums by person and cluster (r, k), cluster of each, how many each person has).

    Parameters
    ----------
    z : (r, m) array
        Integers: sums below 2^53 are exact in any order of a person's rows.
    label : (m,) array
        0: in no cluster; such rows of a person are one part.
    counts : (people,) array
        Rows of each, one after the other.
    """
    person = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((label, person))
    whose, where = person[order], label[order]
    first = np.flatnonzero(np.r_[True, (whose[1:] != whose[:-1]) | (where[1:] != where[:-1])])
    many = np.bincount(whose[first], minlength=len(counts)).astype(np.intp)
    return np.add.reduceat(z[:, order], first, axis=1), where[first], many


def within(parts: Array, many: Index, clip: float, slack: float) -> Array:
    """Return parts as lattice integers, in steps of C/2^20, whose lengths add up to C at most.

    Parameters
    ----------
    parts : (r, k) array
        In steps of ``GRAIN``.
    many : (people,) array
        Parts of each, one after the other.
    clip : float
        C.
    slack : float
        What rounding of a cluster's pulled sum may add to the distance of two of them: each part
        takes as much of C. A person with too many parts lays nothing.

    Notes
    -----
    One factor a person, at most 1, then towards zero: a function of the person's own parts.
    """
    size = lengths(parts) * GRAIN
    starts = np.cumsum(many) - many
    whole = np.add.reduceat(size, starts)
    room = np.maximum(clip - many * slack, 0.0) * _SAFE
    factor = np.minimum(np.divide(room, whole, out=np.ones_like(whole), where=whole > 0.0), 1.0)
    factor = np.where(np.isfinite(whole) & (whole < _LONGEST * GRAIN), factor, 0.0)
    share = np.repeat(factor * (GRAIN * STEPS / clip * SHRINK), many)
    laid = np.where(np.isfinite(parts), parts, 0.0) * share
    return np.asarray(towards_zero(laid))


@dataclass(frozen=True, eq=False)
class PeopleByCluster(ClusterPasses):
    """The pass of all chains over people; ``slack``, of each part, is ``2^-17 sqrt r B``."""

    of_people: ClassVar[bool] = True

    def parts(
        self, block: BlockOfPeople, kept: list[int], places: Places
    ) -> tuple[Array, list[Array]]:
        """Return (cluster of each part, the parts in each chain): of a person one a cluster."""
        label, factor = self.placed(block.rows, places)
        own = BlockOfPeople(block.rows[kept], block.starts, block.counts)
        out = []
        for one in self.passes:
            assert isinstance(one, PersonScores)
            parts, where, many = parts_of(one.of_rows(own, factor), label, block.counts)
            out.append(within(parts, many, self.clip, self.slack))
        return where, out
