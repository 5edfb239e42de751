"""Mean weight of the rows, released before the first pass.

Scoring counts every weight over the released mean, so a fit does not depend on the unit of the
weights (``theory.md``, 3.3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.sets import OneHot
from dpmodels.proof.statistics import Sum
from dpmodels.sums.ask import Ask, Counts, Query, first_array

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.scoring.starts import Coordinates

#: Name of the step, and its share of mu^2 in a scoring fit.
STEP, WEIGHT_SHARE = "weights", 0.02
#: Half octaves of w/W, W the declared largest weight. The first begins at W. The last holds
#: everything below, and rows without a positive weight.
WEIGHT_BINS = 32
#: Counts below this many noise sds count as noise.
CLEAR_SDS = 2.0


def weight_histogram(
    blocks: Iterable[Array], place: int, top: float
) -> tuple[npt.NDArray[np.object_]]:
    """Return the counts of weights by half octaves of the declared range: one bin per row."""
    out = np.zeros(WEIGHT_BINS, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            bins = np.floor(-2.0 * np.log2(block[place] / top))
            bins = np.where(np.isfinite(bins), np.clip(bins, 0, WEIGHT_BINS - 1), WEIGHT_BINS - 1)
            out += np.bincount(bins.astype(np.intp), minlength=WEIGHT_BINS)
    return (out.astype(object),)


def weight_query(design: Design, place: int, top: float) -> Query:
    """Return the query of the histogram of weights."""
    job = functools.partial(weight_histogram, place=place, top=top)
    return Query(Sum(OneHot(WEIGHT_BINS)), Counts(design, job), first_array)


def weight_middles(top: float) -> Array:
    """Return the weights that the bins stand for: their geometric middles."""
    return np.asarray(top * 2.0 ** (-(np.arange(WEIGHT_BINS) + 0.5) / 2.0))


def mean_weight(counts: Array, sd: float, top: float) -> float:
    """Return the mean weight by a noisy histogram, or ``top`` if no bin is clear of its noise."""
    clear = np.where(counts > CLEAR_SDS * sd, counts, 0.0)
    total = float(np.sum((clear * weight_middles(top))[:-1]))
    return total / float(clear.sum()) if total > 0.0 else top


@dataclass(frozen=True)
class WeightPlan:
    """Release of the mean weight before the start of a fit of rows."""

    place: int  # Row of the block that holds the weights
    top: float  # Largest declared weight
    mu: float  # mu of the whole scoring, this step included
    label: ClassVar[str] = STEP
    share: ClassVar[float] = WEIGHT_SHARE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the ledger. Shares are of the whole scoring."""
        return (Step(STEP, Gaussian(self.mu * math.sqrt(WEIGHT_SHARE)), share=WEIGHT_SHARE),)

    def locate(self, coordinates: Coordinates, design: Design, ask: Ask) -> Coordinates:
        """Release the histogram of weights, and return coordinates with its mean.

        Privacy
        -------
        Unit: one row. One Gaussian release of counts, a row in one bin.
        """
        noisy = ask(STEP, weight_query(design, self.place, self.top))
        mean = mean_weight(noisy.values, float(noisy.sd[0]), self.top)
        return replace(coordinates, mean_weight=mean)
