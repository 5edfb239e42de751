"""Wald tests and intervals of linear combinations, with an allowance for bounded bias."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmodels.after.regression import chi2_upper_tail
from dpmodels.arrays import Array

__all__ = ["Wald", "critical_value", "noncentrality", "wald"]

#: Corners of the bias box are counted up to so many coefficients; beyond, a bound stands for them.
_CORNERS = 12


@dataclass(frozen=True)
class Wald:
    """A joint test: ``W = (Lb - q)'(L V L')^{-1}(Lb - q)``.

    Attributes
    ----------
    statistic : float
    df : int
        Rank of ``L V L'``.
    pvalue : float
    noncentrality : float
        What bounded bias may add; 0 without a bound.
    """

    statistic: float
    df: int
    pvalue: float
    noncentrality: float = 0.0


def noncentrality(L: Array, inverse: Array, bias: Array) -> float:
    """Return the largest ``d' inverse d`` over d = L c, ``|c_j| <= bias_j``.

    A convex function is largest at a corner of the box. Beyond 12 coefficients the triangle
    inequality bounds it: ``(sum_j bias_j |L_j|)^2`` in the norm of ``inverse``.
    """
    moved = np.flatnonzero((bias > 0) & (np.abs(L).max(axis=0) > 0))
    if not len(moved):
        return 0.0
    D = L[:, moved] * bias[moved]
    if len(moved) > _CORNERS:
        lengths = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", D, inverse, D), 0.0))
        return float(lengths.sum() ** 2)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(moved) - 1)))
    corners = D @ np.column_stack([np.ones(len(signs)), signs]).T
    return float(np.einsum("ic,ij,jc->c", corners, inverse, corners).max())


def wald(
    L: Array,
    b: Array,
    V: Array,
    q: Array | None = None,
    *,
    bias: Array | None = None,
    bias_of: Callable[[Array], Array | None] | None = None,
    free: float | None = None,
) -> Wald:
    """Return the Wald test of ``L b = q``.

    Parameters
    ----------
    L, b, V : (k, p), (p,), (p, p) arrays
    q : (k,) array, optional
        Zero if left out.
    bias : (p,) array, optional
        Bounds on the bias of b: the reference is then noncentral chi2.
    bias_of : function, optional
        Bounds of combinations (k, p) of b, where these are known to be smaller.
    free : float, optional
        Denominator degrees of freedom of a t or F reference.
    """
    from scipy.stats import f, ncx2

    d = L @ b - (0.0 if q is None else q)
    spread = L @ V @ L.T
    inverse = np.linalg.pinv((spread + spread.T) / 2.0, hermitian=True)
    df = int(np.linalg.matrix_rank(spread, hermitian=True))
    statistic = float(d @ inverse @ d)
    moved = 0.0 if bias is None else noncentrality(L, inverse, bias)
    if moved > 0.0 and bias_of is not None:
        moved = min(moved, _along(L, spread, bias_of))
    if moved > 0:
        return Wald(statistic, df, float(ncx2.sf(statistic, df, moved)), moved)
    if free is not None:
        return Wald(statistic, df, float(f.sf(statistic / df, df, free)))
    return Wald(statistic, df, chi2_upper_tail(statistic, df))


def _along(L: Array, spread: Array, bias_of: Callable[[Array], Array | None]) -> float:
    """Return a bound on ``d' spread^+ d``, d the bias of L b, by combinations of L b.

    ``sum_i (v_i'd)^2/lambda_i`` over the eigenvectors of the covariance, each at its own bound.
    """
    values, vectors = np.linalg.eigh((spread + spread.T) / 2.0)
    some = values > values.max(initial=0.0) * 1e-12
    along = bias_of(vectors[:, some].T @ L)
    return math.inf if along is None else float(np.sum(along**2 / values[some]))


def critical_value(a: Array, level: float) -> Array:
    """Return the ``level`` quantile of |N(a, 1)|, a >= 0, by bisection."""
    from scipy.special import ndtr, ndtri

    low = a + ndtri(level)
    high = a + ndtri((1.0 + level) / 2.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        under = ndtr(middle - a) - ndtr(-middle - a) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray((low + high) / 2.0)
