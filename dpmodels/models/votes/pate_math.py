"""Data-dependent privacy of noisy-argmax voting, and its smooth sensitivity.

Source: Papernot et al. (2018), "Scalable private learning with PATE", Theorem 6 and section on
smooth sensitivity; Redberg, Zhu and Wang (2023), section 5.2. Neighbours: one teacher's votes.
Constants and the corrected index are proved in ``theory.md``, section 5.

Everything is a function of x_i = erfc^{-1}(2 q_i / (C-1)), one number a query: a changed vote
moves every x_i by at most 1/sigma. x is cut to cells of a public grid, downwards, and the Renyi
curve is made monotone on the grid; so values and sensitivities are exact for what is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

#: Cells for the largest move of one vote.
_CELLS = 40


def renyi_of_q(log_q: float, a: float, sigma: float) -> float:
    """Return the Renyi bound of order a of one answer whose minority probability is at most q.

    With mu2 = sigma sqrt(log(1/q)), mu1 = mu2 + 1, e_i = mu_i/sigma^2 (both with the sigma of the
    votes); the data-independent a/sigma^2 where the conditions fail.
    """
    free = a / sigma**2
    if log_q >= 0:
        return free
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1.0
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    if not (mu2 > 1 and a <= mu1):
        return free
    limit = (mu2 - 1) * e2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1)))
    if log_q > limit:
        return free
    q = math.exp(log_q)
    inner = (log_q + e2) * (mu2 - 1) / mu2
    if inner >= 0:
        return free
    log_a = math.log1p(-q) - math.log(-math.expm1(inner))
    log_b = e1 - log_q / (mu1 - 1)
    first = math.log1p(-q) + (a - 1) * log_a
    second = log_q + (a - 1) * log_b
    return min(free, max(0.0, float(np.logaddexp(first, second)) / (a - 1)))


@dataclass(frozen=True)
class CurveTable:
    """Renyi bound of one answer by cell of x, non-increasing in x.

    Attributes
    ----------
    value : (N,) array
        Of every x in cell i (its left end), the largest of all cells to the right.
    change : (N,) array
        Bound of the change of ``value`` between neighbours, the first of which is in cell i.
    step : float
        Width of a cell.
    """

    value: Array
    change: Array
    step: float


@lru_cache(maxsize=16)
def curve_table(a: float, sigma: float, classes: int, teachers: int) -> CurveTable:
    """Return the table for ``teachers`` votes over ``classes`` classes."""
    from scipy.special import log_ndtr

    step = 1.0 / (sigma * _CELLS)
    n = math.ceil(teachers / (2.0 * sigma) / step) + 4 * _CELLS
    x = step * np.arange(n)
    # log((C-1)/2 erfc(x)) = log(C-1) + log Phi(-sqrt(2) x)
    log_q = math.log(classes - 1) + log_ndtr(-math.sqrt(2.0) * x)
    f = np.array([renyi_of_q(float(v), a, sigma) for v in np.minimum(log_q, 0.0)])
    value = np.maximum.accumulate(f[::-1])[::-1]
    m = _CELLS + 1  # one cell more: x of either neighbour lies anywhere in its cell
    up = np.concatenate([np.full(m, value[0]), value[:-m]])
    down = np.concatenate([value[m:], np.full(m, value[-1])])
    change = np.maximum(up - value, value - down)
    return CurveTable(value, change, step)


def cells_of(
    counts: Array, sigma: float, classes: int, size: int, step: float
) -> npt.NDArray[np.intp]:
    """Return the cell of every query, (Q,), from vote counts (Q, C)."""
    from scipy.special import log_ndtr, ndtri_exp

    top = counts.max(1, keepdims=True)
    gaps = np.sort(top - counts, axis=1)[:, 1:]  # the winner's own 0 left out
    # q = sum_j Phi(-gap_j / (sqrt(2) sigma))
    log_p = log_ndtr(-gaps / (math.sqrt(2.0) * sigma))
    high = log_p.max(1)
    log_q = high + np.log(np.exp(log_p - high[:, None]).sum(1))
    x = -ndtri_exp(np.minimum(log_q - math.log(classes - 1), math.log(0.5))) / math.sqrt(2.0)
    cell = np.floor(np.maximum(x, 0.0) / step)
    return np.asarray(np.clip(cell, 0, size - 1), dtype=np.intp)


def smooth(table: CurveTable, cells: npt.NDArray[np.intp], b: float, teachers: int) -> float:
    """Return a b-smooth upper bound of the sensitivity of the summed Renyi bound.

    max over d of e^{-b d} sum_i max of ``change`` over the cells within d votes of query i.
    """
    from scipy.ndimage import maximum_filter1d

    change, width = table.change.copy(), 2 * (_CELLS + 1) + 1
    top = float(table.change.max()) * len(cells)
    best = 0.0
    for d in range(teachers + 1):
        if math.exp(-b * d) * top <= best:
            break
        best = max(best, math.exp(-b * d) * float(change[cells].sum()))
        change = maximum_filter1d(change, width, mode="nearest")
    # beyond the last d the sum cannot exceed its top
    return best if d < teachers else max(best, math.exp(-b * (teachers + 1)) * top)


def gaussian_order(eps_hat: float, delta: float) -> tuple[float, float, float]:
    """Return (order a, smoothness b, noise sigma_s) of the release of the privacy loss.

    a = 2 log(2/delta)/eps^ + 1, b = 0.2/a, sigma_s = sqrt((3a+2)/eps^); costs eps^/2 at order a.
    """
    a = 2.0 * math.log(2.0 / delta) / eps_hat + 1.0
    return a, 0.2 / a, math.sqrt((3.0 * a + 2.0) / eps_hat)
