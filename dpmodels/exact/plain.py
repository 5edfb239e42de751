"""Products of a block of rows by numpy, cut to the shapes for which BLAS is fast.

OpenBLAS has, for processors with 512-bit registers, kernels of their own for products of few
multiplications; and numpy sends a product of an array with its own transpose to the symmetric
routine, which has none: there, for few columns, it takes three times as long as the plain one
(``benchmarks/results/moments_speed.md``). Elsewhere the symmetric routine is the faster one, most
of all where the number of columns is a multiple of four (``benchmarks/results/costs.md``).
"""

from __future__ import annotations

import functools

import numpy as np

from dpmodels.arrays import Array
from dpmodels.sources.windows import ROW_PAD

__all__ = ["ONE_BY_ONE", "bits_of", "columns_seen", "cut", "gram_by_numpy", "image_by_numpy"]


#: Columns for which a product with itself is cut up: for fewer it does not pay, more are many
#: numbers; and up to so many the plain product of two halves beats the symmetric one, or does not.
_FEW, _HALVES = 4, 16
#: numpy holds its lock during a product that returns fewer numbers.
_MANY = 512
#: Rows of a whole block, and from how many a stack of short products pays.
_BLOCK, _STACKED = 8192, 4096
#: OpenBLAS's names of the processors for which it has kernels for small products.
_SMALL_KERNELS = frozenset({"skylakex", "cooperlake", "sapphirerapids"})
#: Entries of a matrix up to which a map is computed one by one, and rows of the others at once.
ONE_BY_ONE, _WIDTH = 144, 1024
#: Bits of an integer that a float64 holds.
_EXACT = 53
#: Of a float64 as an integer: where its exponent is, one more of it, and that of 2^1022, from
#: which it is subtracted for a power of two that takes a number into [1/2, 1).
_EXPONENT, _ONE_MORE, _REFLECTED = (np.int64(x << 52) for x in (2047, 1, 2045))


@functools.cache
def _small_kernels() -> bool:
    """Say whether this process multiplies small matrices by kernels of their own."""
    from threadpoolctl import threadpool_info

    found = {str(lib.get("architecture", "")).lower() for lib in threadpool_info()}
    return bool(found & _SMALL_KERNELS)


def image_by_numpy(matrix: Array, block: Array, upper: tuple[int, int] = (0, 0)) -> Array:
    """Return the images of :func:`mapped`: what the compiled kernel is compared with."""
    k, q = matrix.shape
    m = block.shape[1]
    out = np.empty((k, m + ROW_PAD))[:, :m]
    if k * q <= ONE_BY_ONE:
        part = np.empty(m)
        for i, (row, image) in enumerate(zip(matrix, out, strict=True)):
            a, b = columns_seen(i, k, q, upper)
            if a == b:
                image[:] = 0.0
                continue
            np.multiply(block[a], row[a], out=image)
            for factor, cells in zip(row[a + 1 : b], block[a + 1 : b], strict=True):
                np.multiply(cells, factor, out=part)
                image += part
        return out
    high, low, size, numbers = cut(matrix, bits_of(q))
    both, column = np.hstack([high, low]), size[:, None]
    for a in range(0, m, _WIDTH):
        some = slice(a, a + _WIDTH)
        _exactly(high, both, column, numbers, block[:, some], out[:, some])
    return out


def columns_seen(i: int, k: int, q: int, upper: tuple[int, int]) -> tuple[int, int]:
    """Return from which column to which row i of a matrix (k, q) sees; none: twice the same."""
    r, p = upper
    if i < r:
        return i, p
    return (0, 0) if r and i < k - 1 else (0, q)


def bits_of(q: int) -> int:
    """Return the bits of a part, of which q products are added up exactly."""
    return (_EXACT - (q - 1).bit_length()) // 2


def cut(matrix: Array, bits: int) -> tuple[Array, Array, Array, tuple[float, float]]:
    """Return (upper parts, lower parts, powers of two of the columns (q,), what cuts a cell).

    What cuts a cell are two numbers so large that, added to it, what lies below a part is rounded
    off. Parts are those of entries over powers of two, so that of each row and column the largest
    is about 1; rows get theirs back, which rounds nothing.
    """
    row = np.frexp(np.abs(matrix).max(axis=1, keepdims=True))[1]
    unit = np.ldexp(matrix, -row)
    exponent = np.frexp(np.abs(unit).max(axis=0))[1]
    unit = np.ldexp(unit, -exponent)
    first, second = (1.5 * 2.0 ** (_EXACT - 1 - parts * bits) for parts in (1, 2))
    upper = (unit + first) - first
    lower = ((unit - upper) + second) - second
    return np.ldexp(upper, row), np.ldexp(lower, row), np.ldexp(1.0, exponent), (first, second)


def _exactly(
    upper: Array, both: Array, size: Array, numbers: tuple[float, float], block: Array, out: Array
) -> None:
    """Write the images of a few rows: two products of BLAS, exact in any order."""
    q, m = block.shape
    cut = np.empty((2 * q, m))
    low, high = cut[:q], cut[q:]
    np.multiply(block, size, out=low)
    longest = np.maximum(low.max(axis=0), -low.min(axis=0))
    exponent = longest.view(np.int64) & _EXPONENT
    low *= (_REFLECTED - exponent).view(np.float64)  # a power of two: the largest entry is below 1
    first, second = numbers
    np.add(low, first, out=high)
    high -= first
    low -= high
    low += second
    low -= second
    np.matmul(both, cut, out=out)  # upper x low + lower x high
    out += upper @ high
    out *= (exponent + _ONE_MORE).view(np.float64)


def gram_by_numpy(z: Array) -> Array:
    """Return the sums of :func:`cross_product`: what the compiled kernel is compared with."""
    k, m = z.shape
    if not _FEW <= k <= _HALVES or m < _STACKED:
        return np.asarray(z @ z.T)
    width = _short(k)
    whole = m - m % width
    stack = z[:, :whole].reshape(k, -1, width).transpose(1, 0, 2)
    other = stack.transpose(0, 2, 1)
    if _small_kernels():
        half = k // 2
        parts = [np.matmul(part, other) for part in (stack[:, :half], stack[:, half:])]
        out = np.concatenate([part.sum(axis=0) for part in parts])
    else:
        out = np.matmul(stack, other).sum(axis=0)
    if whole < m:
        out += z[:, whole:] @ z[:, whole:].T
    return np.asarray(out)


def _short(k: int) -> int:
    """Return the largest width at which half a stack of products of a block is many numbers."""
    width = 1024
    while (k // 2) * k * (_BLOCK // width) < _MANY:
        width //= 2
    return width
