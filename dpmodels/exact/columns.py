"""Sums of columns on the lattice, their sensitivity, and a scale learnt from them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, end_of_numbers, towards_zero

__all__ = ["column_sums", "rescaling"]


def column_sums(blocks: Iterable[Array], scale: Array, shift: Array) -> npt.NDArray[np.object_]:
    """Return integers (count, sums of k, sums of trunc(k^2 / 2^20)), k = trunc(2^20 u), |u| <= 1.

    Shape (1 + 2 d,). A void row adds nothing. Exact in any order.
    """
    d = len(scale)
    total = np.zeros(1 + 2 * d, dtype=object)
    with np.errstate(all="ignore"):
        for block in blocks:
            u = block[:-1] * scale[:, None] + shift[:, None]
            void = ~np.isfinite(block[-1] + u.sum(0))
            k = end_of_numbers(u)
            k[:, void] = 0.0
            squares = towards_zero(k * k / STEPS)
            total[0] += int(STEPS) * int(k.shape[1] - void.sum())
            total[1 : 1 + d] += [int(v) for v in k.sum(1)]
            total[1 + d :] += [int(v) for v in squares.sum(1)]
    return total


def rescaling(sums: Array, noise_sd: float, intercept: bool, most: Array) -> tuple[Array, Array]:
    """Return (scale, shift) that give the unit columns mean 0 and variance 1, from noisy sums.

    Variances below twice the noise of a mean square are not visible and are floored there; a
    column is never magnified more than ``most`` (d,): rare dummies would get long rows.
    """
    d = (len(sums) - 1) // 2
    m = max(float(sums[0]), 4.0 * noise_sd, 1.0)
    mean = np.clip(sums[1 : 1 + d] / m, -1.0, 1.0)
    if not intercept:
        mean = np.zeros(d)
    floor = np.maximum(2.0 * noise_sd / m, 1.0 / most**2)
    variance = np.clip(sums[1 + d :] / m - mean**2, np.minimum(floor, 1.0), 1.0)
    scale = 1.0 / np.sqrt(variance)
    return scale, -mean * scale
