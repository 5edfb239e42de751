"""Products of a block of rows, cut to the shapes for which BLAS is fast.

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

__all__ = ["cross_product", "filled", "mapped", "sparsely", "squares"]


#: Multiplications up to which a product is small for OpenBLAS.
_SMALL = 1_000_000
#: A multiple of the width of BLAS's kernels.
_KERNEL = 64
#: Columns for which a product with itself is cut up: for fewer it does not pay, more are many
#: numbers; and up to so many the plain product of two halves beats the symmetric one, or does not.
_FEW, _HALVES = 4, 16
#: numpy holds its lock during a product that returns fewer numbers.
_MANY = 512
#: Rows of a whole block, and from how many a stack of short products pays.
_BLOCK, _STACKED = 8192, 4096
#: OpenBLAS's names of the processors for which it has kernels for small products.
_SMALL_KERNELS = frozenset({"skylakex", "cooperlake", "sapphirerapids"})
#: Rows of a symmetric product are worked off so many at a time.
_AT_ONCE = 4


@functools.cache
def _small_kernels() -> bool:
    """Say whether this process multiplies small matrices by kernels of their own."""
    from threadpoolctl import threadpool_info

    found = {str(lib.get("architecture", "")).lower() for lib in threadpool_info()}
    return bool(found & _SMALL_KERNELS)


def filled(k: int) -> int:
    """Return the least number of rows from k on whose products are fast: fill up with zeros."""
    return k if k <= _AT_ONCE else k + -k % _AT_ONCE


def _width(k: int, q: int, m: int) -> int:
    """Return how many of m rows to take at once in a (k, q) product."""
    width = 8192
    while width > 512 and k * q * width > _SMALL and _small_kernels():
        width //= 2
    return min(width, m)


def mapped(matrix: Array, block: Array, still: bool = False) -> Array:
    """Return ``matrix @ block``, (k, m).

    BLAS may round the image of a row (a column of ``block``) by its place among the others: seen
    for the last few of a block that is no multiple of its kernels' width, so such a block is
    filled up with zeros. With ``still`` it cannot depend on its place, whatever the BLAS: one
    multiplication and addition after the other, for neighbours whose rows do not stay in their
    places (add-remove).
    """
    k, q = matrix.shape
    m = block.shape[1]
    if not still and m % _KERNEL:
        filled = np.zeros((q, m + _KERNEL - m % _KERNEL))
        filled[:, :m] = block
        return mapped(matrix, filled)[:, :m]
    out = np.empty((k, m + ROW_PAD))[:, :m]
    if still:
        part = np.empty(m)
        for row, image in zip(matrix, out, strict=True):
            np.multiply(block[0], row[0], out=image)
            for factor, cells in zip(row[1:], block[1:], strict=True):
                np.multiply(cells, factor, out=part)
                image += part
        return out
    width = _width(k, q, m)
    for a in range(0, m, width or 1):
        np.matmul(matrix, block[:, a : a + width], out=out[:, a : a + width])
    return out


def sparsely(matrix: Array, block: Array) -> Array:
    """Return ``mapped(matrix, block, still=True)`` of a matrix with zeros: they cost nothing.

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
