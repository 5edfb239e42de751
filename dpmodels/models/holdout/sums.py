"""What one row gives to the sums of a score or a diagnosis: integers, bounded row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.products import mapped
from dpmodels.exact.sets import Box, Mark
from dpmodels.exact.statistics import ByClass, Powers, Sum

__all__ = [
    "AtBounds", "BinnedResiduals", "ClassCounts", "LossSums", "Predictor", "added_up",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Predictor:
    """The released fit as a map of a block ``(q, m)`` to predictions: public.

    Attributes
    ----------
    params : (p,) array
    mean : function
        Inverse link.
    """

    params: Array
    mean: Callable[[Array], Array]

    def both(self, block: Array) -> tuple[Array, Array]:
        """Return (prediction, response), (m,) each; NaN in rows with a missing cell."""
        with np.errstate(all="ignore"):
            eta = mapped(self.params[None], block[:-1])[0]
            return np.asarray(self.mean(eta), dtype=float), np.array(block[-1])


def _whole(*parts: Array) -> Array:
    return np.logical_and.reduce([np.isfinite(p) for p in parts])


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts of (class, bin of the prediction): one cell of 2K a complete row.

    Attributes
    ----------
    predictor : Predictor
    edges : (K - 1,) array
        Between the bins.
    """

    predictor: Predictor
    edges: Array

    unit = 1.0

    @property
    def size(self) -> int:
        """Cells."""
        return 2 * (len(self.edges) + 1)

    @property
    def statistic(self) -> Sum:
        """One cell a row, or none."""
        return Sum(Mark(self.size))

    def of_block(self, block: Array) -> Array:
        """Return the counts of a block, others first, then events."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        place = np.searchsorted(self.edges, seen[whole], side="right")
        cell = place + (len(self.edges) + 1) * (y[whole] > 0.5)
        return np.asarray(np.bincount(cell.astype(np.intp), minlength=self.size), dtype=float)


@dataclass(frozen=True, eq=False)
class LossSums:
    """``sum (1, t, t^2)`` over complete rows, t in [0, 1]: a loss over its clip.

    Attributes
    ----------
    predictor : Predictor
    loss : {"squared", "log"}
    clip : float
        Losses beyond it count as it.
    """

    predictor: Predictor
    loss: str
    clip: float

    unit, size = 1.0 / STEPS, 3
    statistic = Powers(1, low=0)

    def of_block(self, block: Array) -> Array:
        """Return the sums of a block in lattice steps."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        seen, y = seen[whole], y[whole]
        if self.loss == "log":
            p = np.clip(np.where(y > 0.5, seen, 1.0 - seen), math.exp(-self.clip), 1.0)
            loss = -np.log(p)
        else:
            loss = (y - seen) ** 2
        t = loss / self.clip
        np.clip(t, 0.0, 1.0, out=t)
        parts = [np.full(len(t), STEPS), end_of_numbers(t), end_of_numbers(t * t)]
        return np.array([part.sum() for part in parts])


@dataclass(frozen=True, eq=False)
class AtBounds:
    """For each column: complete rows whose cell is at an end of its range; then complete rows.

    Attributes
    ----------
    low, high : (d,) arrays
    rows : (d,) int array
        Places in the block.
    """

    low: Array
    high: Array
    rows: Array

    unit = 1.0

    @property
    def size(self) -> int:
        """Cells."""
        return len(self.low) + 1

    @property
    def statistic(self) -> Sum:
        """Indicators, and the count."""
        return Sum(Box(len(self.low), low=0), count=1.0)

    def of_block(self, block: Array) -> Array:
        """Return the counts of a block."""
        cells = block[self.rows]
        whole = np.isfinite(block).all(axis=0)
        at = (cells <= self.low[:, None]) | (cells >= self.high[:, None])
        return np.append((at & whole).sum(axis=1), whole.sum())


@dataclass(frozen=True, eq=False)
class BinnedResiduals:
    """``(1_k, t 1_k)`` by bin k of the prediction, t in [-1, 1]: residuals over their clip.

    Attributes
    ----------
    predictor : Predictor
    edges : (K - 1,) array
    clip : float
    """

    predictor: Predictor
    edges: Array
    clip: float

    unit = 1.0 / STEPS

    @property
    def size(self) -> int:
        """Cells: counts, then sums."""
        return 2 * (len(self.edges) + 1)

    @property
    def statistic(self) -> ByClass:
        """(1, t) of the bin of a row."""
        return ByClass(Sum(Box(1), count=1.0, count_first=True), len(self.edges) + 1)

    def of_block(self, block: Array) -> Array:
        """Return the sums of a block in lattice steps."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        k = len(self.edges) + 1
        place = np.searchsorted(self.edges, seen[whole], side="right")
        t = end_of_numbers((y - seen)[whole], self.clip)
        counts = np.bincount(place, minlength=k) * STEPS
        sums = np.bincount(place, weights=t, minlength=k)
        return np.append(counts, sums)


Sums = ClassCounts | LossSums | AtBounds | BinnedResiduals


def added_up(blocks: Iterable[Array], sums: tuple[Sums, ...]) -> tuple[Array, ...]:
    """Return the exact integer sums over blocks; **confidential**."""
    total = [np.zeros(one.size, dtype=object) for one in sums]
    for block in blocks:
        for kept, one in zip(total, sums, strict=True):
            kept += np.array([int(v) for v in one.of_block(block)], dtype=object)
    return tuple(total)
