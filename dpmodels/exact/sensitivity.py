"""Sensitivities of second-moment queries (statements and proofs: ``theory.md``, section 1).

All functions are of public numbers. "Unit radii" means that x was divided by R_x and y by R_y.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

__all__ = [
    "INTERCEPT_WEIGHTS",
    "add_remove_sensitivity",
    "count_weight",
    "gram_l1",
    "gram_sensitivity",
    "intercept_sensitivity",
    "separate_sensitivity",
    "separate_weights",
]

#: Weights (a, b, c, e, f) of X'X, X'y, y'y, sum x, sum y: the moment matrix of (1, x, y), with
#: y'y improved for free. S^2 = 18.
INTERCEPT_WEIGHTS = (1.0, math.sqrt(2.0), math.sqrt(6.0), math.sqrt(2.0), math.sqrt(2.0))
_GRID = 20_001


def gram_sensitivity(dimension: int, relation: str = "replace") -> float:
    """Return the Frobenius sensitivity of ``sum z z'`` for ``|z| <= 1``.

    ``|zz' - z'z''|_F^2 = |z|^4 + |z'|^4 - 2 (z.z')^2 <= 2`` (replace), ``|z|^4 <= 1`` (add or
    remove, and replace in dimension 1).
    """
    return math.sqrt(2.0) if relation == "replace" and dimension > 1 else 1.0


def gram_l1(dimension: int, relation: str = "replace") -> float:
    """Return the L1 sensitivity of the upper triangle of ``sum z z'`` for ``|z| <= 1``.

    Replace: ``sqrt(k (k + 3) / 2)``, since the L1 norm is ``max <T, D>`` over sign matrices T (1 on
    the diagonal, 1/2 off it) and ``|T|_F^2 = k (k + 3) / 4``, ``|D|_F^2 <= 2``. One row alone (add
    or remove): ``(|z|_1^2 + |z|_2^2) / 2 <= (k + 1) / 2``.
    """
    k = float(dimension)
    if relation != "replace":
        return (k + 1.0) / 2.0
    return math.sqrt(k * (k + 3.0) / 2.0) if dimension > 1 else 1.0


def separate_sensitivity(a: float, b: float, c: float) -> float:
    """Return S of ``(a X'X [svec], b X'y, c y'y)`` at unit radii, replace-one.

    Tight for p >= 2, valid for p = 1.
    """
    a2, b2, c2 = a * a, b * b, c * c
    if b2 <= 2.0 * a2:
        return math.sqrt(max(2.0 * a2 + b2 + c2, 2.0 * (a + b2 / (2.0 * a)) ** 2))
    if c2 <= 2.0 * b2:
        return math.sqrt(max(2.0 * a2 + b2 + c2, 4.0 * b2))
    return intercept_sensitivity(a, b, c, 0.0, 0.0)


def separate_weights(ratio: float) -> tuple[float, float, float, float]:
    """Return (a, b, c, S) that minimise the noise variance of ``e - E b`` for the query above.

    Parameters
    ----------
    ratio : float
        ``A / B`` with ``A = (p+1)/2 r^2 R_x^4`` and ``B = p R_x^2 R_y^2``: how much the noise of
        X'X matters beside that of X'y (r^2 a public guess of the R-squared).
    """
    if ratio < 1e-9:
        tau = 2.0
    else:
        tau = (math.sqrt(0.25 + 4.0 * ratio) - 0.5) / (2.0 * ratio)
    S = math.sqrt(2.0) * (1.0 + tau / 2.0)
    c = math.sqrt(max(S * S - 2.0 - tau, 0.0))
    return 1.0, math.sqrt(tau), c, S


@lru_cache(maxsize=256)
def intercept_sensitivity(a: float, b: float, c: float, e: float, f: float) -> float:
    """Return S of ``(a X'X, e sum x, b X'y, c y'y, f sum y)`` at unit radii, n known.

    ``S^2 = max_{|w| <= 1} 2 a^2 + 2 e^2 + b^2 (1 + w^2) + phi(e^2 + b^2 w) + c^2 (1 - w^2)^2
    + f^2 (1 - w)^2`` with ``phi(h) = h^2 / (2 a^2)`` for ``|h| <= 2 a^2``, else
    ``2 |h| - 2 a^2``; a grid of 20001 points misses at most 5e-9 of it. Replace-one only.
    """
    return math.sqrt(_intercept_square(a, b, c, e, f) * (1.0 + 1e-8))


def _intercept_square(a: float, b: float, c: float, e: float, f: float) -> float:
    w = np.linspace(-1.0, 1.0, _GRID)
    h = np.abs(e * e + b * b * w)
    a2 = 2.0 * a * a
    phi = np.where(h <= a2, h * h / a2, 2.0 * h - a2)
    value = a2 + 2.0 * e * e + b * b * (1.0 + w * w) + phi
    value += c * c * (1.0 - w * w) ** 2 + f * f * (1.0 - w) ** 2
    return float(value.max())


def count_weight(S: float, a: float, b: float, c: float, e: float, f: float) -> float:
    """Return the largest weight at which the count of complete rows joins the query for free.

    Two complete rows do not move the count; a complete and a zero row are at most
    ``a^2 + b^2 + c^2 + e^2 + f^2 + k^2`` apart, which may not exceed ``S^2``.
    """
    room = S * S / (1.0 + 1e-8) - (a * a + b * b + c * c + e * e + f * f)
    return math.sqrt(max(room, 0.0))


def add_remove_sensitivity(*weights: float) -> float:
    """Return S of the same queries, count included, when one row is added or removed."""
    return math.sqrt(math.fsum(w * w for w in weights))
