"""Sets of Gaussian-kernel sums ``N(q) = sum_i y_i K(q, x_i)`` and ``D(q) = sum_i K(q, x_i)``.

``K(q, x) = exp(-|q - x|^2 / (2 h^2))``, so ``0 <= K <= K(x, x) = 1``. A formula returns the
features x of a row, and its response y, which is clipped to [-1, 1] here. A row with a missing
number adds nothing. Sums are direct, or by linear binning on a grid (``models/kernel.md``, 8.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows
from dpmodels.sources.summed import Integers
from dpmodels.sums.products import end_of_numbers, nearest, towards_zero

#: Cells of the binning grid by dimension.
CELLS_BY_DIMENSION = {1: 4096, 2: 256}
WEIGHT_STEPS = 2.0**12
#: Steps of a label.
LABEL = 2.0**15
#: Steps of a direct sum: the most that one row has at a point.
KERNEL = 2.0**44
#: Bits of the lower word of a sum.
WORD_BITS = 22
#: Rows whose sum of steps a float holds exactly.
_TOGETHER = 1 << 9
#: Kernel values in memory at once.
_AT_ONCE = 1 << 17


def pointwise(points: Array, x: Array, h: float) -> Array:
    """Return K (m, rows) of rows x (d, rows), computed row by row."""
    square = np.zeros((len(points), x.shape[1]))
    part = np.empty_like(square)
    for at, cells in zip(points.T, x, strict=True):
        np.subtract(at[:, None], cells[None, :], out=part)
        part *= part
        square += part
    square *= -0.5 / (h * h)  # differences first: near points keep their digits
    return np.asarray(np.exp(square, out=square))


class AtPoints:
    """N and D at public points, in steps of 2^-44: ``sum trunc(2^44 y K)``, ``sum trunc(2^44 K)``.

    Each as two words, (m,) each: the sum is ``high * 2^22 + low``. Integers, so the order is no
    matter; a row adds ``0 <= k <= 2^44`` to D and ``|t| <= k`` to N at each point, since truncation
    is monotone.
    """

    cells, of_units, of_people = "", False, False

    def __init__(self, points: Array, h: float) -> None:
        self.points, self.h, self.words, self.size = points, h, 4, len(points)

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        return tuple(np.zeros(self.size, dtype=np.int64) for _ in range(self.words))

    def exact(self, sums: Any) -> Integers:
        """Return the exact sums."""
        return Integers(sums)

    def add(self, sums: Any, chosen: Any, x: Rows, y: Rows) -> None:
        """Add the kernels of the rows."""
        cells, labels = complete_rows(x, y)
        height = max(1, _AT_ONCE // self.size)
        for a in range(0, len(labels), height):
            K = pointwise(self.points, cells[:, a : a + height], self.h)
            K *= KERNEL
            for i, part in enumerate((K * labels[a : a + height], K)):
                towards_zero(part)
                # sums of integers of at most 2^44 over at most 2^9 rows: exact in any order
                parts = np.add.reduceat(part, range(0, part.shape[1], _TOGETHER), axis=1)
                _add_words(sums[2 * i], sums[2 * i + 1], parts.astype(np.int64).sum(axis=1))


class OnGrid(AtPoints):
    """Labels in two words, and weights, of the cells of a grid on [-1, 1]^d: (cells^d,) each.

    Labels in steps of ``2^-12d 2^-15``: the sum is ``high * 2^22 + low``. A row is spread over its
    2^d neighbouring cells with weights that sum to 1, so its element of the kernel's RKHS is a
    convex combination of elements of norm 1: the sensitivity is unchanged.
    """

    def __init__(self, points: Array, h: float) -> None:
        super().__init__(points, h)
        self.side = CELLS_BY_DIMENSION[points.shape[1]]
        self.words, self.size = 3, self.side ** points.shape[1]

    def add(self, sums: Any, chosen: Any, x: Rows, y: Rows) -> None:
        """Spread the rows over their cells."""
        cells, labels = complete_rows(x, y)
        k, (high, low, count) = end_of_numbers(labels, steps=LABEL), sums
        index = np.zeros((1, len(k)), dtype=np.intp)
        weight = np.full((1, len(k)), 1.0)
        for axis in cells:
            cell, w = _bins(axis, self.side)
            index = np.vstack([index * self.side + cell, index * self.side + cell + 1])
            weight = np.vstack([weight * (WEIGHT_STEPS - w), weight * w])
        for i, w in zip(index, weight, strict=True):
            count += np.bincount(i, weights=w, minlength=self.size).astype(np.int64)
            label = np.bincount(i, weights=w * k, minlength=self.size)  # <= 2^52
            _add_words(high, low, label.astype(np.int64))


def complete_rows(x: Rows, y: Rows) -> tuple[Array, Array]:
    """Return x (d, k) and y (k,) in [-1, 1] of the rows without a missing number."""
    cells, labels = x.numbers, np.clip(y.numbers[0], -1.0, 1.0)
    keep = ~(np.isnan(labels) | np.isnan(cells).any(axis=0))
    return (cells, labels) if keep.all() else (cells[:, keep], labels[keep])


def _add_words(high: Any, low: Any, total: npt.NDArray[np.int64]) -> None:
    """Add integers to two words."""
    high += total >> WORD_BITS
    low += total & ((1 << WORD_BITS) - 1)


def _bins(x: Array, cells: int) -> tuple[Array, Array]:
    """Return (cell, weight of the next cell in 2^-12) of points in [-1, 1]."""
    at = (np.clip(x, -1.0, 1.0) + 1.0) * (0.5 * (cells - 1))
    cell = np.minimum(at.astype(np.intp), cells - 2)
    return cell, nearest((at - cell) * WEIGHT_STEPS)
