"""Laplace filters of second derivatives: F^k g(x) = E g(x + b (L_1 + ... + L_k)), k = 1, 2, 3.

L standard Laplace, F = (1 - b^2 d^2)^{-1}. Three ways: exact kernels for piecewise losses, a series
or a table for the logistic density, Gauss-Laguerre nodes for any smooth function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

__all__ = ["Filtered", "Kernel", "box", "by_nodes", "logistic_filter", "point", "polynomials"]


@dataclass(frozen=True)
class Filtered:
    """F g, (F g)', F^2 g, (F^2 g)', F^3 g, each of shape (n,)."""

    one: Array
    one_slope: Array
    two: Array
    two_slope: Array
    three: Array


# -- exact kernels ---------------------------------------------------------------------------------

#: A second derivative (a measure) seen through k Laplace filters of width b:
#: kernel(u, b) -> (k = 1, its slope, k = 2, its slope, k = 3).
Kernel = Callable[[Array, float], Filtered]


def point(u: Array, b: float) -> Filtered:
    """Return densities of one, two and three Laplace variables (a filtered unit mass at 0)."""
    z = np.abs(u) / b
    e = np.exp(-z)
    return Filtered(
        e / (2.0 * b),
        -np.sign(u) * e / (2.0 * b * b),
        (1.0 + z) * e / (4.0 * b),
        -np.sign(u) * z * e / (4.0 * b * b),
        (z * z + 3.0 * z + 3.0) * e / (16.0 * b),
    )


def _upper(x: Array, b: float) -> tuple[Array, Array, Array]:
    """Return distribution functions of one, two and three Laplace variables at x."""
    z = np.abs(x) / b
    e = np.exp(-z)
    tails = 0.5 * e, 0.25 * (2.0 + z) * e, (z * z + 5.0 * z + 8.0) * e / 16.0
    up = x > 0
    one, two, three = (np.where(up, 1.0 - t, t) for t in tails)
    return one, two, three


def box(k: float) -> Kernel:
    """Return the kernel of 1{|u| <= k} (Huber's loss)."""

    def kernel(u: Array, b: float) -> Filtered:
        right, left = _upper(u + k, b), _upper(u - k, b)
        r, l = point(u + k, b), point(u - k, b)
        return Filtered(
            right[0] - left[0], r.one - l.one, right[1] - left[1], r.two - l.two,
            right[2] - left[2],
        )  # fmt: skip

    return kernel


def smoothed(kernel: Kernel, u: Array, b: float, h: float) -> Filtered:
    """Return the filters of width b of a measure smoothed by a Laplace kernel of width h.

    Partial fractions: with A = h^2 / (h^2 - b^2), F_b F_h = A F_h + (1 - A) F_b.
    """
    if h <= 0.0:
        return kernel(u, b)
    wide = kernel(u, h)
    if b <= 0.0:
        return Filtered(wide.one, wide.one_slope, wide.one, wide.one_slope, wide.one)
    if abs(h - b) < 1e-4 * h:
        h *= 1.0 + 1e-3
        wide = kernel(u, h)
    narrow = kernel(u, b)
    A = h * h / (h * h - b * b)
    B = 1.0 - A
    one = A * wide.one + B * narrow.one
    one_slope = A * wide.one_slope + B * narrow.one_slope
    two = A * one + B * narrow.two
    two_slope = A * one_slope + B * narrow.two_slope
    return Filtered(one, one_slope, two, two_slope, A * two + B * narrow.three)


# -- the logistic density --------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def polynomial(m: int) -> tuple[float, ...]:
    """Return the coefficients of P_m in s = sigma(eta): d^m/deta^m log(1 + e^eta) = P_m(s)."""
    from numpy.polynomial import polynomial as P

    c = np.array([0.0, 1.0])
    for _ in range(m - 1):
        c = P.polymul(P.polyder(c), [0.0, 1.0, -1.0])
    return tuple(c.tolist())


def polynomials(combination: list[tuple[float, int]], size: int) -> Array:
    """Return the coefficients of sum c_i P_{m_i}, padded to ``size``."""
    out = np.zeros(size)
    for factor, m in combination:
        c = polynomial(m)
        out[: len(c)] += factor * np.asarray(c)
    return out


_TERMS = 7


def _series(eta: Array, b: float) -> Filtered:
    """F^k g = sum_m binom(m + k - 1, k - 1) b^{2m} g^{(2m)}, for b < 0.1."""
    from scipy.special import expit

    size = 2 * _TERMS + 4
    sums = {(k, s): np.zeros(size) for k in (1, 2, 3) for s in (0, 1)}
    for m in range(_TERMS):
        for k, weight in ((1, 1.0), (2, m + 1.0), (3, 0.5 * (m + 1) * (m + 2))):
            for s in (0, 1):
                sums[k, s] += polynomials([(weight * b ** (2 * m), 2 + 2 * m + s)], size)
    at = expit(eta)
    rows = [sums[1, 0], sums[1, 1], sums[2, 0], sums[2, 1], sums[3, 0]]
    return Filtered(*(_horner(c, at) for c in rows))


def _horner(c: Array, s: Array) -> Array:
    out = np.full_like(s, c[-1])
    for v in c[-2::-1]:
        out *= s
        out += v
    return out


_STEP = 0.05


@functools.lru_cache(maxsize=4)
def _grid(reach: float) -> tuple[Array, Array, Array, Array]:
    """Return (grid, inner nodes (cells, 6), Gauss weights on [0, step], offsets)."""
    x: Array
    w: Array
    x, w = (np.asarray(v, dtype=float) for v in np.polynomial.legendre.leggauss(6))
    count = round(2 * reach / _STEP)
    grid: Array = np.asarray(-reach + _STEP * np.arange(count + 1), dtype=float)
    offsets = 0.5 * _STEP * (x + 1.0)
    return grid, grid[:-1, None] + offsets, 0.5 * _STEP * w, offsets


def _two_sided(values: Array, b: float, weights: Array, offsets: Array) -> tuple[Array, Array]:
    """Filter a function given at the inner nodes; return its values and slopes on the grid."""
    from scipy.signal import lfilter

    decay = math.exp(-_STEP / b)
    forward = values @ (weights * np.exp(-offsets / b)) / b
    backward = values @ (weights * np.exp(-(_STEP - offsets) / b)) / b
    up = np.append(lfilter([1.0], [1.0, -decay], forward[::-1])[::-1], 0.0)
    down = np.append(0.0, lfilter([1.0], [1.0, -decay], backward))
    return 0.5 * (up + down), (up - down) / (2.0 * b)


def _hermite(value: Array, slope: Array, t: Array, i: npt.NDArray[np.intp]) -> Array:
    """Cubic Hermite interpolation at fraction t of cell i."""
    y0, y1 = value[i], value[i + 1]
    m0, m1 = slope[i] * _STEP, slope[i + 1] * _STEP
    c2 = 3.0 * (y1 - y0) - 2.0 * m0 - m1
    c3 = 2.0 * (y0 - y1) + m0 + m1
    return np.asarray(y0 + t * (m0 + t * (c2 + t * c3)))


@functools.lru_cache(maxsize=8)
def _table(b: float) -> tuple[float, tuple[tuple[Array, Array], ...]]:
    from scipy.special import expit

    reach = math.ceil(45.0 + 30.0 * b)
    grid, nodes, weights, offsets = _grid(float(reach))
    s = expit(nodes)
    values = s * (1.0 - s)
    out = []
    cell = np.repeat(np.arange(len(grid) - 1)[:, None], len(offsets), axis=1)
    t = np.broadcast_to(offsets / _STEP, cell.shape)
    for k in range(3):
        pair = _two_sided(values, b, weights, offsets)
        out.append(pair)
        if k < 2:
            values = _hermite(*pair, t, cell)
    return float(reach), tuple(out)


def logistic_filter(eta: Array, b: float) -> Filtered:
    """Return the filters of sigma (1 - sigma): a series for small b, else a table on a grid."""
    if b < 0.1:
        return _series(eta, b)
    reach, (one, two, three) = _table(b)
    x = (np.clip(eta, -reach, reach * (1 - 1e-12)) + reach) / _STEP
    i = np.minimum(x.astype(np.intp), len(one[0]) - 2)
    t = x - i
    return Filtered(
        _hermite(*one, t, i), _hermite(one[1], _second(one, 0, b), t, i),
        _hermite(*two, t, i), _hermite(two[1], _second(two, one, b), t, i),
        _hermite(*three, t, i),
    )  # fmt: skip


def _second(pair: tuple[Array, Array], before: tuple[Array, Array] | int, b: float) -> Array:
    """Second derivative on the grid: (F g - g) / b^2."""
    from scipy.special import expit

    if isinstance(before, int):
        reach = 0.5 * (len(pair[0]) - 1) * _STEP
        s = expit(-reach + _STEP * np.arange(len(pair[0])))
        g = s * (1.0 - s)
    else:
        g = before[0]
    return np.asarray((pair[0] - g) / (b * b))


# -- any smooth function ---------------------------------------------------------------------------


def by_nodes(g: Callable[[Array], Array], slope: Callable[[Array], Array], eta: Array, b: float,
             nodes: int = 14) -> Filtered:  # fmt: skip
    """Filter by Gauss-Laguerre nodes on both sides (densities of one, two, three Laplace)."""
    if b == 0.0:
        v, s = g(eta), slope(eta)
        return Filtered(v, s, v, s, v)
    x, w = np.polynomial.laguerre.laggauss(nodes)
    sums = [np.zeros_like(eta) for _ in range(5)]
    for z, weight in zip(x.tolist(), w.tolist(), strict=True):
        one, two, three = 0.5, 0.25 * (1 + z), (z * z + 3 * z + 3) / 16.0
        for side in (b * z, -b * z):
            v, s = g(eta + side), slope(eta + side)
            sums[0] += weight * one * v
            sums[1] += weight * one * s
            sums[2] += weight * two * v
            sums[3] += weight * two * s
            sums[4] += weight * three * v
    return Filtered(*sums)
