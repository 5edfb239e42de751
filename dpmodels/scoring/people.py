"""One scoring pass over people: what a person's rows come to, in exact integers.

Rows become scores and information as in :mod:`dpmodels.scoring.sums`; a person's scores are added
up and pulled into the ball of C, a person's information into a ball of trace R_H^2
(``units/theory.md``, 3). The plan, the release and the noise are those of any pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.people import into_balls, lengths, product, sums
from dpmodels.exact.rowmap import STEPS
from dpmodels.scoring.sums import SHRINK, PassSums, ScorePass, counted_lengths, scaled, softened

if TYPE_CHECKING:
    from dpmodels.exact.people import Index
    from dpmodels.scoring.sums import Adding
    from dpmodels.sources.people import BlockOfPeople
    from dpmodels.sources.windows import Coins

__all__ = ["PersonPass", "sums_of_people"]

Mask = npt.NDArray[np.bool_]

#: A row's score longer than this many C is taken for one of that length, before people are summed:
#: 2^23 rows of 2^30 lattice steps add up exactly.
_ROW_MOST = 2.0**10


class PersonPass(ScorePass):
    """The public map of one pass: a block of whole people to integers."""

    def add_people(self, adding: Adding, block: BlockOfPeople, chosen: Any) -> None:
        """Add a block; ``chosen``: its people of the meat and of the ordinary information."""
        plan = self.plan
        z, psi, omega, square, whole = self._rows(block.rows)
        length = np.sqrt(square)
        score = self._row_scores(z, psi, length)
        if plan.mu_scale:
            norm = lengths(score) * (plan.clip / STEPS)
            part = np.trunc(np.minimum(norm * norm / plan.scale_cut, 1.0) * STEPS)
            adding.scale += int(np.minimum(sums(part, block.starts), STEPS).sum())
        own = sums(score, block.starts)  # (r, people), in steps of C
        size = lengths(own)
        self._add_scores(adding, own, size)
        if plan.meat:
            radius = plan.meat * (STEPS / plan.clip)
            adding.words["meat"].add(scaled(own[:, chosen], size[chosen], radius))
        if plan.mu_histogram:
            present: Any = slice(None)
            if not isinstance(whole, slice):
                present = sums(whole.astype(float), block.starts) > 0.0
            adding.bins += counted_lengths(size[present] / STEPS)
        v, long = z, length
        if omega is not None:
            root = np.sqrt(np.maximum(omega, 0.0))
            v, long = z * root, length * root
        radii = [plan.information * self._step]
        if plan.spread:
            radii.append(plan.spread * self._step)
        images = into_balls(v, long, block, *radii)
        product(images[0], adding.words["information"])
        if plan.spread:
            product(_rows_of(images[1], block, chosen, size <= STEPS), adding.words["spread"])

    def _row_scores(self, z: Array, psi: Array, length: Array) -> Array:
        """Return the scores of rows in steps of C / 2^20, integers of at most 2^30 in length."""
        factor = psi * (STEPS / (self._step * self.plan.clip))
        size = length * np.abs(factor)
        most = _ROW_MOST * STEPS
        keep = np.ones_like(size)
        np.divide(most, size, out=keep, where=size > most)
        return np.rint(z * (factor * keep))

    def _add_scores(self, adding: Adding, own: Array, size: Array) -> None:
        """Add people's scores, no longer than C in exact integers."""
        factor = softened(size, STEPS, self.plan.whole) * SHRINK
        np.divide(factor, size, out=factor, where=size > 0.0)
        adding.score += np.trunc(own * factor).sum(axis=1).astype(np.int64).astype(object)


def _rows_of(z: Array, block: BlockOfPeople, chosen: Index | slice, kept: Mask) -> Array:
    """Return the rows of the chosen people whose score is not clipped."""
    of = np.zeros(len(block.counts), dtype=bool)
    of[chosen] = kept[chosen]
    return z if of.all() else z[:, np.repeat(of, block.counts)]


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
