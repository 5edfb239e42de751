"""Products of a block of rows: by the compiled kernel where it is, else by numpy; one result.

What a row's image is stands in ``theory.md``, 1.5; :mod:`dpmodels.exact.plain` is numpy's way to
it, :mod:`dpmodels.exact.kernel` the other.
"""

from __future__ import annotations

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.kernel import gram_by_kernel, image_by_kernel
from dpmodels.exact.plain import gram_by_numpy, image_by_numpy
from dpmodels.sources.windows import ROW_PAD

__all__ = ["cross_product", "filled", "mapped", "sparsely", "squares", "weighted"]


#: Rows of a symmetric product are worked off so many at a time.
_AT_ONCE = 4
#: Rows of a block: as many as the kernel takes.
_BLOCK = 8192


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
    k, m = len(matrix), block.shape[1]
    if m > _BLOCK:  # units of many rows: the kernel takes a block at a time, caches hold it
        out = np.empty((k, m + ROW_PAD))[:, :m]
        for at in range(0, m, _BLOCK):
            out[:, at : at + _BLOCK] = mapped(matrix, block[:, at : at + _BLOCK], upper=upper)
        return out
    found = image_by_kernel(matrix, block, upper)
    return image_by_numpy(matrix, block, upper) if found is None else found


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
    found = gram_by_kernel(z)
    return gram_by_numpy(z) if found is None else found
