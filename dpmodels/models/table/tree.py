"""A 4-way tree of noisy counts, made consistent (``theory.md``, 2.2).

Level l = 1, ..., L counts the values in 4^l equal runs of leaves; the first level also has the
cell of missing values, so it adds up to n, which is exact. Least squares goes up the tree and down
again (Hay et al. 2010): the estimates of a level share one variance, so both ways are vectorised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

WAYS = 4


def levels_for(points: int) -> int:
    """Return the least L with 4^L >= points, at least 1."""
    return max(1, math.ceil(math.log(points) / math.log(WAYS) - 1e-9))


def tree_counts(leaves: npt.NDArray[np.int64], missing: int) -> npt.NDArray[np.int64]:
    """Return the counts of a tree: level 1, the missing cell, level 2, ..., the leaves.

    One row in one leaf, or missing, for another moves two cells of a level by one (one cell, where
    it is missing, below the first level): the L2 norm moves by at most ``sqrt(2 L)``.
    """
    levels = levels_for(len(leaves))
    padded = np.zeros(WAYS**levels, dtype=np.int64)
    padded[: len(leaves)] = leaves
    parts = [padded.reshape(WAYS**k, -1).sum(axis=1) for k in range(1, levels + 1)]
    return np.concatenate([parts[0], [missing], *parts[1:]])


def tree_sizes(levels: int) -> tuple[int, ...]:
    """Return the number of nodes of each level, the missing cell in the first."""
    return tuple(WAYS**k + (k == 1) for k in range(1, levels + 1))


@dataclass(frozen=True)
class Tree:
    """Least squares on noisy counts of :func:`tree_counts`.

    Attributes
    ----------
    levels : int
    variance : float
        Of the noise of every count.
    """

    levels: int
    variance: float

    def split(self, noisy: Array) -> tuple[list[Array], Array]:
        """Return the counts by level (..., 4^l), and the missing cell (...)."""
        sizes = [WAYS**k for k in range(1, self.levels + 1)]
        first, missing, rest = np.split(noisy, [WAYS, WAYS + 1], axis=-1)
        ends = np.cumsum(sizes[1:])[:-1]
        deeper = np.split(rest, ends, axis=-1) if self.levels > 1 else []
        return [first, *deeper], missing[..., 0]

    def fit(self, noisy: Array, total: float) -> tuple[Array, Array]:
        """Return the least squares leaves (..., 4^L) and missing cell, given the exact total."""
        by_level, missing = self.split(noisy)
        up = [by_level[-1]]
        spread = [self.variance]  # of the estimates of a level from below
        for y in reversed(by_level[:-1]):
            below = WAYS * spread[-1]
            weight = below / (below + self.variance)  # of the count itself
            children = up[-1].reshape(*y.shape, WAYS).sum(axis=-1)
            up.append(weight * y + (1.0 - weight) * children)
            spread.append(self.variance * weight)
        up, spread = up[::-1], spread[::-1]
        short = total - up[0].sum(axis=-1) - missing
        whole = WAYS * spread[0] + self.variance
        x = up[0] + (short * spread[0] / whole)[..., None]
        for z in up[1:]:
            children = z.reshape(*x.shape, WAYS)
            gap = (x - children.sum(axis=-1)) / WAYS
            x = (children + gap[..., None]).reshape(z.shape)
        return x, missing + short * self.variance / whole

    def functional_variance(self, weights: Array) -> Array:
        """Return the noise variance of ``weights @ leaves``, (...,) for weights (..., 4^L).

        With W = I / variance and counts ``y = variance * weights`` at the leaves alone,
        ``A'W y = weights``: the fit is ``(A'WA)^{-1} weights``, on the exact total 0.
        """
        padding = sum(WAYS**k for k in range(1, self.levels)) + 1
        zeros = np.zeros((*weights.shape[:-1], padding))
        y = np.concatenate([zeros, self.variance * weights], axis=-1)
        x, _ = self.fit(y, 0.0)
        return np.asarray((weights * x).sum(axis=-1))


def isotonic(values: Array) -> Array:
    """Return the nearest increasing sequence in least squares (pool adjacent violators)."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] >= mean:
            other = sizes.pop()
            mean = (means.pop() * other + mean * size) / (other + size)
            size += other
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)
