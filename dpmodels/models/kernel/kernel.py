"""Gaussian-kernel sums of a table: direct, or through linear binning on a grid.

``D(q) = sum_i K(q, x_i)``, ``N(q) = sum_i y_i K(q, x_i)``, ``K(q, x) = exp(-|q - x|^2 / (2 h^2))``,
so ``0 <= K <= K(x, x) = 1``. Features lie in [-1, 1]^d, responses in [-1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from dpmodels.arrays import Array

__all__ = [
    "CELLS",
    "binned_sums",
    "curve",
    "default_bandwidth",
    "direct_sums",
    "gaussian",
    "joint_norm",
]

#: Cells of the binning grid by dimension.
CELLS = {1: 4096, 2: 256}
_WEIGHT = 2.0**12
_LABEL = 2.0**15

#: maps a block buffer to (features (d, m), response (m,)), NaN in void rows
Reader = Callable[[Array], tuple[Array, Array]]


def default_bandwidth(n: int, d: int) -> float:
    """Return the public rule h = 1.06 * 0.58 * n^(-1/(d+4)) on the [-1, 1] scale.

    0.58 is the sd of a uniform variable on [-1, 1]: nothing of the data enters.
    """
    return 1.06 * 0.58 * n ** (-1.0 / (d + 4))


def gaussian(a: Array, b: Array, h: float) -> Array:
    """Return the (len(a), len(b)) kernel matrix of points given as (k, d) arrays."""
    a, b = a / h, b / h
    square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.T)
    return np.asarray(np.exp(-0.5 * np.maximum(square, 0.0)))


def joint_norm(points: Array, h: float) -> float:
    """Return k2 with k2^2 >= sup_x sum_j K(x, q_j)^2.

    ``k2^2 <= max_i sum_j exp(-|q_i - q_j|^2 / (4 h^2))``: nearest query and triangle inequality.
    """
    return math.sqrt(float(gaussian(points, points, h * math.sqrt(2.0)).sum(axis=1).max()))


def direct_sums(
    blocks: Iterable[Array], reader: Reader, points: Array, h: float
) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` (m, d) by blocked direct sums. Confidential."""
    N, D = np.zeros(len(points)), np.zeros(len(points))
    for block in blocks:
        x, y = reader(block)
        void = np.isnan(y) | np.isnan(x).any(axis=0)
        y = np.where(void, 0.0, y)
        x = np.where(void, 0.0, x)
        K = gaussian(points, x.T, h)
        D += K @ np.where(void, 0.0, 1.0)
        N += K @ y
    return N, D


def _bins(x: Array, cells: int) -> tuple[Array, Array]:
    """Return (cell, weight of the next cell in 2^-12) of points in [-1, 1]."""
    at = (np.clip(x, -1.0, 1.0) + 1.0) * (0.5 * (cells - 1))
    cell = np.minimum(at.astype(np.intp), cells - 2)
    return cell, np.rint((at - cell) * _WEIGHT)


def binned_sums(
    blocks: Iterable[Array], reader: Reader, points: Array, h: float
) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` by linear binning (d <= 2): exact integers on the grid.

    A row is spread over its 2^d neighbouring cells with weights that sum to 1, so its element of
    the kernel's RKHS is a convex combination of elements of norm 1: the sensitivity is unchanged.
    """
    d = points.shape[1]
    cells = CELLS[d]
    size = cells**d
    count = np.zeros(size, dtype=np.int64)
    label = np.zeros(size, dtype=np.int64)
    for block in blocks:
        x, y = reader(block)
        keep = ~(np.isnan(y) | np.isnan(x).any(axis=0))
        k = np.trunc(y[keep] * _LABEL)
        index = np.zeros((1, int(keep.sum())), dtype=np.intp)
        weight = np.full((1, index.shape[1]), 1.0)
        for axis in x:
            cell, w = _bins(axis[keep], cells)
            index = np.vstack([index * cells + cell, index * cells + cell + 1])
            weight = np.vstack([weight * (_WEIGHT - w), weight * w])
        for i, w in zip(index, weight, strict=True):
            count += np.bincount(i, weights=w, minlength=size).astype(np.int64)
            label += np.bincount(i, weights=w * k, minlength=size).astype(np.int64)
    scale = _WEIGHT**d
    centres = np.linspace(-1.0, 1.0, cells)[:, None]
    c, s = count / scale, label / (scale * _LABEL)
    if d == 1:
        K = gaussian(points, centres, h)
        return K @ s, K @ c
    # separable kernel: one product an axis
    K1, K2 = gaussian(points[:, :1], centres, h), gaussian(points[:, 1:], centres, h)
    s2, c2 = s.reshape(cells, cells), c.reshape(cells, cells)
    return ((K1 @ s2) * K2).sum(axis=1), ((K1 @ c2) * K2).sum(axis=1)


def curve(N: Array, D: Array, sigma: float) -> tuple[Array, Array]:
    """Return (f, privacy se) of noisy sums: f = clip(N/D, -1, 1) where D > 4/mu, else NaN.

    First order: ``N/D`` has error ``sigma sqrt(1 + f^2) / D`` with sigma = 2/mu.
    """
    ok = 2.0 * sigma < D
    f = np.where(ok, np.clip(N / np.where(ok, D, 1.0), -1.0, 1.0), np.nan)
    se = np.where(ok, sigma * np.sqrt(1.0 + f * f) / np.where(ok, D, 1.0), np.nan)
    return f, se
