"""One scoring pass over people: what a person's rows come to, in exact integers.

Rows become scores and information as in :mod:`dpmodels.scoring.sums`; a person's scores are added
up and pulled into the ball of C, a person's information into a ball of trace R_H^2
(``units/theory.md``, 3). The plan, the release and the noise are those of any pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, end_along, end_of_numbers, integers_of, towards_zero
from dpmodels.exact.people import factors, lengths, product, sums
from dpmodels.exact.products import sparsely
from dpmodels.scoring.sums import (
    ManySums,
    PassSums,
    ScorePass,
    counted_lengths,
    scaled,
    softened,
)

if TYPE_CHECKING:
    from dpmodels.scoring.sums import Adding
    from dpmodels.sources.people import BlockOfPeople
    from dpmodels.sources.windows import Coins

__all__ = ["PeoplePasses", "PersonPass", "sums_of_people"]

Mask = npt.NDArray[np.bool_]

#: A row's score longer than this many C is taken for one of that length, before people are summed:
#: 2^23 rows of 2^30 lattice steps add up exactly.
_ROW_MOST = 2.0**10


@dataclass(frozen=True, eq=False)
class PersonPass(ScorePass):
    """The public map of one pass: a block of whole people to integers."""

    turned: bool = True

    def add_people(self, adding: Adding, block: BlockOfPeople, chosen: Any) -> None:
        """Add a block; ``chosen``: its people of the meat and of the ordinary information."""
        plan = self.plan
        z, psi, omega, square, there = self._rows(block.rows)
        length = np.sqrt(square)
        score = self._row_scores(z, psi, length)
        if plan.mu_scale:
            norm = lengths(score) * (plan.clip / STEPS)
            part = end_of_numbers(norm * norm / plan.scale_cut, low=0.0)
            adding.scale += int(np.minimum(sums(part, block.starts), STEPS).sum())
        own = sums(score, block.starts)  # (r, people), in steps of C
        size = lengths(own)
        self._add_scores(adding, own, size)
        if plan.meat:
            radius = plan.meat * (STEPS / plan.clip)
            adding.words["meat"].add(scaled(own[:, chosen], size[chosen], radius))
        if plan.mu_histogram:
            present: Any = slice(None)
            if not isinstance(there, slice):
                present = sums(there.astype(float), block.starts) > 0.0
            adding.bins += counted_lengths(size[present] / STEPS)
        if omega is not None:
            root = np.sqrt(np.maximum(omega, 0.0))
            z *= root
            length *= root
        self._add_information(adding, z, length, block, chosen, size <= STEPS)

    def _add_information(
        self, adding: Adding, v: Array, length: Array, block: BlockOfPeople, chosen: Any, kept: Mask
    ) -> None:
        """Add the information of people, and of the chosen ones whose score was not clipped.

        Overwrites ``v``.
        """
        plan, words = self.plan, adding.words
        radii = [plan.information * self.step]
        if plan.spread:
            radii.append(plan.spread * self.step)
        share, *ordinary = factors(length, block, *radii)
        if plan.spread:
            of = np.zeros(len(kept), dtype=bool)
            of[chosen] = kept[chosen]
            rows: Any = np.repeat(of, block.counts)
            if isinstance(chosen, slice):  # nearly all: zero rows cost less than a copy
                part = v * (ordinary[0] * rows)
            else:
                rows = np.flatnonzero(rows)
                part = v[:, rows] * ordinary[0][rows]
            product(towards_zero(part), words["spread"])
        v *= share
        product(towards_zero(v), words["information"])

    def _row_scores(self, z: Array, psi: Array, length: Array) -> Array:
        """Return the scores of rows in steps of C / 2^20, integers of at most 2^30 in length."""
        factor = psi * (STEPS / (self.step * self.plan.clip))
        size = length * np.abs(factor)
        most = _ROW_MOST * STEPS
        beyond = np.flatnonzero(size > most)
        factor[beyond] *= most / size[beyond]
        score = z * factor
        return np.asarray(np.rint(score, out=score))

    def _add_scores(self, adding: Adding, own: Array, size: Array) -> None:
        """Add people's scores, no longer than C in exact integers."""
        kept = softened(size, STEPS, self.plan.unsoftened)
        adding.score += integers_of(end_along(own, size, STEPS, kept).sum(axis=1)).astype(object)

    def _image(self, block: Array) -> Array:
        """Return (Q'w in lattice steps, what the model sees) of rows, each by itself."""
        matrix, shift = self.affine
        image = sparsely(matrix, block)
        if shift is not None:
            image += shift
        return image


@dataclass(frozen=True, eq=False)
class PeoplePasses:
    """Passes that read the same people at once, for whoever adds up."""

    passes: tuple[PersonPass, ...]
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], coins: Coins | None = None) -> ManySums:
        """Return the sums of each pass. Confidential."""
        return ManySums(sums_of_people(self.passes, blocks, coins))


def sums_of_people(
    passes: Sequence[PersonPass], blocks: Iterable[BlockOfPeople], coins: Coins | None = None
) -> tuple[PassSums, ...]:
    """Return the exact sums of several passes that read the same people at once.

    Parameters
    ----------
    coins : Coins or None
        Secret coins, one a person, that choose who is in meat and ordinary information.

    Privacy
    -------
    The return values are confidential. What a person adds is a function of its rows (and its coin)
    alone.
    """
    adding = [one.empty() for one in passes]
    with np.errstate(all="ignore"):
        for block in blocks:
            chosen: Any = slice(None) if coins is None else coins.choose(len(block.counts))
            for one, to in zip(passes, adding, strict=True):
                one.add_people(to, block, chosen)
    return tuple(one.done(to) for one, to in zip(passes, adding, strict=True))
