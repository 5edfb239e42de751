"""Performance from released sums of held-out rows: AUC of binned scores, means with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array

#: Areas that an interval is searched on; its ends lie a step outside.
_AREAS = 4001


@dataclass(frozen=True)
class Auc:
    """Area under the curve with its two errors."""

    value: float
    se_privacy: float
    se_sampling: float

    @property
    def se(self) -> float:
        """Total standard error."""
        return math.hypot(self.se_privacy, self.se_sampling)


def auc(n1: Array, n0: Array, tau: float) -> Auc:
    """Return the AUC of counts of events and others by bin of the score, lowest bin first.

    ``V10 = K n0/N0``, ``V01 = K'n1/N1``, K = 1 above, 1/2 in the same bin; noise by the delta
    method, sampling by DeLong on the bins. NaN where a class is not seen above its noise.
    """
    N1, N0 = float(n1.sum()), float(n0.sum())
    if min(N1, N0) <= 3.0 * tau * math.sqrt(len(n1)):
        return Auc(math.nan, math.nan, math.nan)
    k = len(n1)
    K = np.tril(np.ones((k, k)), -1) + 0.5 * np.eye(k)
    V10, V01 = K @ n0 / N0, K.T @ n1 / N1
    value = float(n1 @ V10) / N1
    noise = tau**2 * (np.sum((V10 - value) ** 2) / N1**2 + np.sum((V01 - value) ** 2) / N0**2)
    seen1, seen0 = np.maximum(n1, 0.0), np.maximum(n0, 0.0)
    S10 = float(seen1 @ (V10 - value) ** 2) / N1
    S01 = float(seen0 @ (V01 - value) ** 2) / N0
    return Auc(value, math.sqrt(noise), math.sqrt(S10 / N1 + S01 / N0))


def auc_set(n1: Array, n0: Array, tau: float, z: float) -> tuple[float, float]:
    """Return the ends of the set of areas A that released counts do not reject, in [0, 1].

    ``D(A) = n1'(K - A) n0`` has mean 0 at the true A, and no division by a noisy class; its
    variance is ``sum_i (n1_i + tau^2) a_i^2 + sum_j (n0_j + tau^2) b_j^2``, a = (K - A) n0, b =
    (K - A)' n1: DeLong's sampling part and the noise. The set is right however few events there
    are; with very few it is all of [0, 1].
    """
    k = len(n1)
    K = np.tril(np.ones((k, k)), -1) + 0.5 * np.eye(k)
    A = np.linspace(0.0, 1.0, _AREAS)
    above, below = K @ n0, K.T @ n1
    gap = n1 @ above - A * n1.sum() * n0.sum()
    a, b = above[:, None] - A * n0.sum(), below[:, None] - A * n1.sum()
    spread1, spread0 = np.maximum(n1, 0.0) + tau**2, np.maximum(n0, 0.0) + tau**2
    variance = spread1 @ a**2 + spread0 @ b**2
    kept = A[gap**2 <= z * z * variance]
    if not len(kept):  # narrower than the grid
        kept = A[[int(np.argmin(np.abs(gap)))]]
    step = 1.0 / (_AREAS - 1)
    return max(float(kept[0]) - step, 0.0), min(float(kept[-1]) + step, 1.0)


def roc(n1: Array, n0: Array) -> tuple[Array, Array]:
    """Return (false, true) positive rates from the strictest threshold to none, made monotone."""
    rates = []
    for counts in (n0, n1):
        above = np.append(0.0, np.cumsum(counts[::-1]))
        total = max(float(above[-1]), 1.0)
        rates.append(np.clip(np.maximum.accumulate(above) / total, 0.0, 1.0))
    return rates[0], rates[1]


@dataclass(frozen=True)
class NoisyMean:
    """A mean from a noisy sum over a noisy count."""

    value: float
    se_privacy: float
    se_sampling: float
    count: float

    @property
    def se(self) -> float:
        """Total standard error."""
        return math.hypot(self.se_privacy, self.se_sampling)


def noisy_mean(count: float, total: float, square: float, tau: float) -> NoisyMean:
    """Return ``total / count`` with errors: noise of both, and the spread of the cells.

    ``square`` is the sum of squares of the cells. NaN where the count is within 3 of its noise
    sds.
    """
    if count <= 3.0 * tau:
        return NoisyMean(math.nan, math.nan, math.nan, count)
    value = total / count
    noise = tau * math.sqrt(1.0 + value**2) / count
    variance = max(square / count - value**2, 0.0)
    return NoisyMean(value, noise, math.sqrt(variance / count), count)
