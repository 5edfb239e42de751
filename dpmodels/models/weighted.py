"""Sampling weights of tables and means: where they are trimmed, and what trimming moves.

A weight w counts as ``u = min(w, T)/T``, in [0, 1]: a row lays u of its mass where it would lay
all of it, and the rest nowhere that is shown. T is a public multiple of the mean weight, which a
histogram of ``w/W`` tells (W the declared largest weight), or ``population=`` does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.sets import Mark
from dpmodels.exact.statistics import Sum
from dpmodels.sources.summed import counted

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design

#: Share of mu^2 of the histogram of weights, and its step.
SHARE, STEP = 0.05, "weights"
#: Half octaves of w/W: the first begins at W, the last holds everything below and nothing.
_BINS = 32
#: T over the mean weight: least, and factor of (mu n/K)^.45.
_LEAST, _GROWS = 4.0, 0.36
#: Counts below so many sds are noise.
_SEEN = 2.0


@dataclass(frozen=True, eq=False)
class WeightPass:
    """How many weights lie in each half octave of the declared range: a row is in one."""

    design: Design

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return the counts. Confidential."""
        place = self.design.place_aside("weights")
        interval = None if place is None else self.design.z[place].interval
        assert place is not None and interval is not None
        job = functools.partial(_of_weights, place=place, top=float(interval[1]))
        return counted(rows, self.design, job)[0]


def _of_weights(
    blocks: Iterable[Array], place: int, top: float
) -> tuple[npt.NDArray[np.object_]]:
    """Return the counts over blocks, for whoever adds up."""
    out = np.zeros(_BINS, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            bins = np.floor(-2.0 * np.log2(block[place] / top))
            bins = np.where(np.isfinite(bins), np.clip(bins, 0, _BINS - 1), _BINS - 1)
            out += np.bincount(bins.astype(np.intp), minlength=_BINS)
    return (out.astype(object),)


def weights_query(design: Design) -> Query:
    """Return the query of the histogram."""
    return Query(Sum(Mark(_BINS)), WeightPass(design), Added)


@dataclass(frozen=True)
class Trim:
    """Where weights are cut.

    Attributes
    ----------
    top : float
        T: u = min(w, T)/T.
    mean : float
        Mean weight, released or public.
    lost : float
        Released part of all weight that is beyond T.
    square : float
        Mean of u^2, by the released histogram.
    """

    top: float
    mean: float
    lost: float
    square: float = 1.0


def trim_of(
    ask: Ask, design: Design, strength: float, population: float | None, n: int
) -> Trim:
    """Release the histogram of weights; return where they are cut.

    Parameters
    ----------
    strength : float
        ``mu n/K``, K the cells of the largest table.
    population : float or None
        Public sum of all weights.
    """
    noisy = ask(STEP, weights_query(design))
    place = design.place_aside("weights")
    interval = None if place is None else design.z[place].interval
    assert interval is not None
    return trimmed(noisy.values, float(noisy.sd[0]), interval[1], strength, population, n)


def trimmed(
    counts: Array, sd: float, most: float, strength: float, population: float | None, n: int
) -> Trim:
    """Return where weights are cut, by the released histogram of ``w/most``. Sees no row."""
    middle = most * 2.0 ** (-(np.arange(_BINS) + 0.5) / 2.0)
    seen = np.where(counts > _SEEN * sd, counts, 0.0)
    total = float(np.sum((seen * middle)[:-1]))
    mean = total / n if population is None else population / n
    mean = min(max(mean, middle[-2]), most)
    top = min(most, mean * max(_LEAST, _GROWS * strength**0.45))
    largest = np.flatnonzero(seen[:-1])
    if len(largest):  # no larger than half an octave beyond the last weights that are seen
        top = min(top, max(most * 2.0 ** (-(float(largest[0]) - 1.0) / 2.0), _LEAST * mean))
    beyond = float(np.sum((seen * np.maximum(middle - top, 0.0))[:-1]))
    square = float(np.sum((seen * np.minimum(middle / top, 1.0) ** 2)[:-1])) / n
    return Trim(top, mean, min(beyond / max(total, 1e-300), 0.5), min(max(square, 1e-6), 1.0))


def shares_of_weight(weight: Array, top: float) -> Array:
    """Return u of rows: 0 where the weight is missing, negative or not finite."""
    with np.errstate(all="ignore"):
        u = np.clip(weight / top, 0.0, 1.0)
    return np.where(np.isfinite(weight) & (weight > 0.0), u, 0.0)
