"""Products of a block of rows: what a row's image is stands in ``theory.md``, 1.5.

OpenBLAS has, for processors with 512-bit registers, kernels of their own for products of few
multiplications; and numpy sends a product of an array with its own transpose to the symmetric
routine, which has none: there, for few columns, it takes three times as long as the plain one
(``benchmarks/results/moments_speed.md``). Elsewhere the symmetric routine is the faster one, most
of all where the number of columns is a multiple of four (``benchmarks/results/costs.md``).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.sources.windows import ROW_PAD

#: Rows of a symmetric product are worked off so many at a time.
_AT_ONCE = 4
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
_ONE_BY_ONE, _WIDTH = 144, 1024
#: Bits of an integer that a float64 holds.
_EXACT = 53
#: Of a float64 as an integer: where its exponent is, one more of it, and that of 2^1022, from
#: which it is subtracted for a power of two that takes a number into [1/2, 1).
_EXPONENT, _ONE_MORE, _REFLECTED = (np.int64(x << 52) for x in (2047, 1, 2045))


def filled(k: int) -> int:
    """Return the least number of rows from k on whose products are fast: fill up with zeros."""
    return k if k <= _AT_ONCE else k + -k % _AT_ONCE


def mapped(matrix: Array, block: Array, *, upper: tuple[int, int] = (0, 0)) -> Array:
    """Return ``matrix @ block``, (k, m), the image of a row (a column of ``block``) by itself.

    It is a function of the row and the matrix alone: not of the row's place, of the rows beside
    it, of how the block lies in memory or of the processor (``theory.md``, 1.5). A row that is not
    finite has an image that is not.

    Few coordinates are one multiplication and addition after the other. Of more, row and matrix
    are cut into parts of b bits whose products BLAS adds up without a rounding: what is left out
    is below ``q 2^-2b`` of the largest entry of its row.

    Parameters
    ----------
    upper : (int, int)
        (r, p): the first r rows are upper triangular and see p columns, those behind them but for
        the last see none. A cell that is not finite reaches the first row, so its row's image is
        not finite whichever it is.
    """
    k, q = matrix.shape
    m = block.shape[1]
    out = np.empty((k, m + ROW_PAD))[:, :m]
    if k * q <= _ONE_BY_ONE:
        for a in range(0, m, _BLOCK):  # units of many rows: caches hold a block
            _one_by_one(matrix, block[:, a : a + _BLOCK], upper, out[:, a : a + _BLOCK])
        return out
    parts = _cut(matrix, (_EXACT - (q - 1).bit_length()) // 2)
    for a in range(0, m, _WIDTH):
        _exactly(parts, block[:, a : a + _WIDTH], out[:, a : a + _WIDTH])
    return out


def _one_by_one(matrix: Array, block: Array, upper: tuple[int, int], out: Array) -> None:
    """Write the images of rows, one multiplication and addition after the other."""
    (r, p), (k, q) = upper, matrix.shape
    part = np.empty(block.shape[1])
    for i, (row, image) in enumerate(zip(matrix, out, strict=True)):
        a, b = (i, p) if i < r else (0, 0) if r and i < k - 1 else (0, q)
        if a == b:
            image[:] = 0.0
            continue
        np.multiply(block[a], row[a], out=image)
        for factor, cells in zip(row[a + 1 : b], block[a + 1 : b], strict=True):
            np.multiply(cells, factor, out=part)
            image += part


def _cut(matrix: Array, bits: int) -> tuple[Array, Array, Array, tuple[float, float]]:
    """Return (upper parts, lower parts, powers of two of the columns (q,), what cuts a cell).

    Parts of so many bits that q products of them are added up exactly.

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
    parts: tuple[Array, Array, Array, tuple[float, float]], block: Array, out: Array
) -> None:
    """Write the images of a few rows: products of BLAS, exact in any order."""
    upper, lower, size, (first, second) = parts
    low = block * size[:, None]
    longest = np.maximum(low.max(axis=0), -low.min(axis=0))
    exponent = longest.view(np.int64) & _EXPONENT
    low *= (_REFLECTED - exponent).view(np.float64)  # a power of two: the largest entry is below 1
    high = low + first
    high -= first
    low -= high
    low += second
    low -= second
    some = np.flatnonzero(low.any(axis=1))  # dummies have no lower part, and add nothing by it
    np.matmul(lower, high, out=out)
    if len(some):
        out += upper[:, some] @ low[some]
    out += upper @ high
    out *= (exponent + _ONE_MORE).view(np.float64)


def looked_up(
    images: Array, slopes: Array, numbers: Array, cells: npt.NDArray[np.intp]
) -> Array:
    """Return the images (k, m) of rows that are a cell and a few numbers, each by itself.

    Parameters
    ----------
    images : (k, K) array
        Of the cells, NaN where a row is void.
    slopes : (k, d) array
        What a unit of each number adds.
    numbers : (d, m) array
    cells : (m,) array
    """
    out, part = np.empty((len(images), len(cells) + ROW_PAD))[:, : len(cells)], np.empty(len(cells))
    for row, own, image in zip(images, slopes.tolist(), out, strict=True):
        np.take(row, cells, out=image, mode="clip")
        for slope, x in zip(own, numbers, strict=True):
            image += np.multiply(x, slope, out=part)
    return out


def sparsely(matrix: Array, block: Array) -> Array:
    """Return the image of rows, each by itself, under a matrix with zeros: they cost nothing.

    A missing cell does not reach an image through a zero: some row of ``matrix`` must see the cell
    that marks an incomplete row.
    """
    m = block.shape[1]
    out = np.empty((len(matrix), m + ROW_PAD))[:, :m]
    part = np.empty(m)
    for row, image in zip(matrix, out, strict=True):
        first, *others = np.flatnonzero(row).tolist() or [0]
        np.multiply(block[first], row[first], out=image)
        for j in others:
            np.multiply(block[j], row[j], out=part)
            image += part
    return out


def weighted(z: Array, factors: Array) -> Array:
    """Return ``z @ factors``, (k,): exact in any order, as :func:`cross_product`."""
    return np.asarray(z @ factors)


def squares(z: Array) -> Array:
    """Return the squared lengths of rows (columns of z), each by itself, (m,)."""
    total = z[0] * z[0]
    for cells in z[1:]:
        total += cells * cells
    return np.asarray(total)


def cross_product(z: Array) -> Array:
    """Return ``z @ z.T``, (k, k).

    Exact in any order if the entries are integers of at most 2^20 and there are at most 2^13 rows
    (columns of z): every partial sum is then an integer of at most 2^53.

    Blocks of few columns are multiplied as a stack of short products: numpy lets other threads
    work during a product only where it returns many numbers.
    """
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


@functools.cache
def _small_kernels() -> bool:
    """Say whether this process multiplies small matrices by kernels of their own."""
    from threadpoolctl import threadpool_info

    found = {str(lib.get("architecture", "")).lower() for lib in threadpool_info()}
    return bool(found & _SMALL_KERNELS)
