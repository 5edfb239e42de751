"""Images, products and exact sums of rows, of each row alone (``proof/theory.md``, 1.5).

OpenBLAS has, for processors with 512-bit registers, kernels of their own for products of few
multiplications; and numpy sends a product of an array with its own transpose to the symmetric
routine, which has none: there, for few columns, it takes three times as long as the plain one
(``benchmarks/results/moments_speed.md``). Elsewhere the symmetric routine is the faster one, most
of all where the number of columns is a multiple of four (``benchmarks/results/costs.md``).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import ROW_PAD, Array
from dpmodels.formula.program import clip_cells
from dpmodels.proof.sets import STEPS

#: Rows of a symmetric product per block.
_AT_ONCE = 4
#: Columns from which on a product with itself is cut up: for fewer it does not pay, more are many
#: numbers. Up to the second number the plain product of two halves beats the symmetric one, or does
#: not.
_FEW, _HALVES = 4, 16
#: numpy holds its lock during a product that returns fewer numbers.
_MANY = 512
#: Rows of a whole block, and from how many a stack of short products pays.
_BLOCK, _STACKED = 8192, 4096
#: OpenBLAS's names of the processors for which it has kernels for small products.
_SMALL_KERNELS = frozenset({"skylakex", "cooperlake", "sapphirerapids"})
#: Entries of a matrix up to which a map is computed one by one, and rows of the others at once.
_ONE_BY_ONE, _WIDTH = 144, 1024
#: Rows of a matrix whose images are computed together.
_TOGETHER = 3
#: Bits of an integer that a float64 holds.
_EXACT = 53
#: Fields of a float64 as an integer: its exponent, one step of it, and that of 2^1022, from which
#: it is subtracted for a power of two that takes a number into [1/2, 1).
_EXPONENT, _ONE_MORE, _REFLECTED = (np.int64(x << 52) for x in (2047, 1, 2045))


def filled(k: int) -> int:
    """Return the least number of rows from k on whose products are fast: fill up with zeros."""
    return k if k <= _AT_ONCE else k + -k % _AT_ONCE


def mapped(matrix: Array, block: Array, *, upper: tuple[int, int] = (0, 0)) -> Array:
    """Return ``matrix @ block``, (k, m), computed separately for each row (column of ``block``).

    The image of a row is a function of the row and the matrix alone. It does not depend on the
    row's position, on other rows, on the memory layout or on the processor (``proof/theory.md``,
    1.5). A row that is not finite has an image that is not finite.

    For few coordinates multiplications and additions follow one another. For more, row and matrix
    are cut into parts of b bits whose products BLAS adds without rounding. The omitted part is
    below ``q 2^-2b`` of the largest entry of its row of the matrix, once each column is divided
    by its largest entry, times the largest cell in these units.

    ``upper`` = (r, p): the first r rows are upper triangular in p columns; the rows after them, but
    for the last, are zero. A cell that is not finite always enters the first row, so its row's
    image is not finite.
    """
    k, q = matrix.shape
    m = block.shape[1]
    out = np.empty((k, m + ROW_PAD))[:, :m]
    if k * q <= _ONE_BY_ONE:
        for a in range(0, m, _BLOCK):  # units of many rows: caches hold a block
            _one_by_one(matrix, block[:, a : a + _BLOCK], upper, out[:, a : a + _BLOCK])
        return out
    parts = _cut_matrix(matrix, (_EXACT - (q - 1).bit_length()) // 2)
    for a in range(0, m, _WIDTH):
        _exactly(parts, block[:, a : a + _WIDTH], out[:, a : a + _WIDTH])
    return out


def _one_by_one(matrix: Array, block: Array, upper: tuple[int, int], out: Array) -> None:
    """Write the images of rows, one multiplication and addition after the other."""
    (r, p), (k, q) = upper, matrix.shape
    parts = np.empty((_TOGETHER, block.shape[1] + ROW_PAD))[:, : block.shape[1]]
    firsts = [*range(0, r, _TOGETHER), k - 1] if r else range(0, k, _TOGETHER)
    out[r or k : k - 1] = 0.0
    for i in firsts:  # a few rows of the matrix at once: numpy's calls are long enough
        a, b, end = (i, p, r) if i < r else (0, q, k)
        end = min(i + _TOGETHER, end)
        image, factors, part = out[i:end], matrix[i:end], parts[: end - i]
        np.multiply(block[a], factors[:, a : a + 1], out=image)
        for j in range(a + 1, b):
            np.multiply(block[j], factors[:, j : j + 1], out=part)
            image += part


def _cut_matrix(matrix: Array, bits: int) -> tuple[Array, Array, Array, tuple[float, float]]:
    """Return (upper parts, lower parts, powers of two of the columns (q,), clip of a cell).

    A part has at most ``bits`` bits, so that q products of parts are added exactly. A cell is cut
    by adding a large value, which rounds off the bits below a part. Entries are first divided by
    powers of two, so that the largest of each row and column is about 1. Rows are multiplied by
    theirs again, without rounding.
    """
    exponent = np.frexp(np.abs(matrix).max(axis=0))[1]  # columns first: their units do not matter
    unit = np.ldexp(matrix, -exponent)
    row = np.frexp(np.abs(unit).max(axis=1, keepdims=True))[1]
    unit = np.ldexp(unit, -row)
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
    with_low = np.flatnonzero(low.any(axis=1))  # dummies have no lower part, and add nothing by it
    np.matmul(lower, high, out=out)
    if len(with_low):
        out += upper[:, with_low] @ low[with_low]
    out += upper @ high
    out *= (exponent + _ONE_MORE).view(np.float64)


def looked_up(images: Array, slopes: Array, numbers: Array, cells: npt.NDArray[np.intp]) -> Array:
    """Return the images (k, m) of rows given by a cell and numeric values, computed row by row.

    ``images`` (k, K) are those of the cells, NaN where a row is missing; ``slopes`` (k, d) those in
    the numeric variables, whose values are ``numbers`` (d, m); ``cells`` (m,) says each row's cell.
    """
    out, part = np.empty((len(images), len(cells) + ROW_PAD))[:, : len(cells)], np.empty(len(cells))
    for row, slope_of_row, image in zip(images, slopes.tolist(), out, strict=True):
        np.take(row, cells, out=image, mode="clip")
        for slope, x in zip(slope_of_row, numbers, strict=True):
            image += np.multiply(x, slope, out=part)
    return out


def weighted(z: Array, factors: Array) -> Array:
    """Return ``z @ factors``, (k,) or (k, l): exact in any order, as :func:`cross_product`."""
    return np.asarray(z @ factors)


def squares(z: Array) -> Array:
    """Return the squared lengths (m,) of rows (columns of z), computed row by row."""
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
    width = 1024  # the largest at which half a stack of products of a block is many numbers
    while (k // 2) * k * (_BLOCK // width) < _MANY:
        width //= 2
    blocks_end = m - m % width
    stack = z[:, :blocks_end].reshape(k, -1, width).transpose(1, 0, 2)
    other = stack.transpose(0, 2, 1)
    if _small_kernels():
        half = k // 2
        parts = [np.matmul(part, other) for part in (stack[:, :half], stack[:, half:])]
        out = np.concatenate([part.sum(axis=0) for part in parts])
    else:
        out = np.matmul(stack, other).sum(axis=0)
    if blocks_end < m:
        out += z[:, blocks_end:] @ z[:, blocks_end:].T
    return np.asarray(out)


@functools.cache
def _small_kernels() -> bool:
    """Return whether this process multiplies small matrices with special kernels."""
    from threadpoolctl import threadpool_info

    kernels = {str(lib.get("architecture", "")).lower() for lib in threadpool_info()}
    return bool(kernels & _SMALL_KERNELS)


# -- The one end of every map: from floats to integers of rows, called last.
#
# Every map into a set of bounded rows is total: whatever the cells are, the image is in the set, in
# exact integers. What multiplies a row is applied before; a length, a score or a weight that is not
# finite, or so large or small that products of them might not be, has no image under a formula of
# floats (``0 inf``, ``1/0``): such a row is the zero row (``proof/theory.md``, 1.5).
#
# Integers are held by float64, so that BLAS may add up their products.


Mask = npt.NDArray[np.bool_]

#: Factor on rows in balls: allows for the float rounding of length, factor and product.
SHRINK = 1.0 - 2.0**-36
TOP = STEPS * SHRINK
#: Squared lengths of rows that can be scaled: below, squares of entries may have vanished, so that
#: the length is not what was computed; above, they may not be finite.
LEAST, MOST = 1e-280, 1.7e308
#: A length below it is 0: a quotient by it could overflow.
SHORTEST = 1e-140
#: Largest squared length, and largest score and weight, of a row that is multiplied by these.
LONG, VAST = 1e280, 1e140


def usable(square: Array, *factors: Array | None) -> tuple[Mask | None, Mask | None]:
    """Return masks (m,) of complete rows and of rows with a length, or None for all rows.

    ``square`` (m,) are squared lengths, ``factors`` what rows are multiplied by. A row is there if
    nothing of it is missing, infinite or beyond ``VAST`` (1e280 for a squared length); else it is
    missing in *every* part. Its length is 0 if the square is below ``LEAST``. NaN is neither above
    nor below.
    """
    present = [f for f in factors if f is not None]
    complete = None
    if not (
        square.max(initial=0.0) <= LONG
        and all(-f.min(initial=0.0) <= VAST and f.max(initial=0.0) <= VAST for f in present)
    ):
        complete = square <= LONG
        for factor in present:
            complete &= np.abs(factor) <= VAST
    return complete, None if square.min(initial=1.0) >= LEAST else square >= LEAST


def end_in_ball(w: Array, length: Array) -> tuple[Array, Array]:
    """Return rows in the ball of 2^20 lattice steps, towards zero, and the lengths they keep.

    Rows are the columns of w (k, m) in lattice steps, and ``length`` (m,) their lengths, to a few
    units in the last place; both are overwritten. Squares of the integers add up to at most 2^40 in
    each row, whatever w is. Lengths are those before rounding, 0 of a row that has none. A row is
    multiplied by ``min(1, TOP / length)``; one whose length is not finite is the zero row.
    """
    if not length.max(initial=0.0) <= TOP:
        beyond = np.flatnonzero(~(length <= TOP))
        long = length[beyond]
        w[:, beyond] *= TOP / long
        length[beyond] = TOP
        gone = beyond[~(long <= MOST)]
        w[:, gone] = 0.0
        length[gone] = 0.0
    return np.trunc(w, out=w), length


def end_along(
    w: Array, length: Array, radius: float, size: Array | None = None, sign: Array | None = None
) -> Array:
    """Return rows in the ball of ``radius`` as integers, in steps of radius / 2^20.

    Rows w (k, m) have this ``length`` (m,), in units of ``radius``: the zero row where it is 0 or
    not finite. They get the length ``size`` with the sign of ``sign``, or keep their own, at most
    ``radius``. Rounded towards zero: of squared length at most 2^40, and within ``sqrt(k)`` steps
    of a multiple of w, which is not overwritten.
    """
    least = length.min(initial=1.0)
    smallest = 1.0
    if size is None:
        factor = TOP / length
        np.minimum(factor, TOP / radius, out=factor)
    else:
        factor = np.minimum(size, radius)
        if sign is not None:
            np.copysign(factor, sign, out=factor)
        factor /= length
        factor *= STEPS / radius * SHRINK
        smallest = size.min(initial=1.0)  # NaN, where one is
    gone = None
    if not (least >= SHORTEST and smallest > 0.0 and length.max(initial=0.0) <= MOST):
        gone = ~((length >= SHORTEST) & (length <= MOST))
        if size is not None:
            gone |= ~(size > 0.0)
        factor[gone] = 0.0
    out = w * factor
    if gone is not None:
        out[:, gone] = 0.0
    return np.asarray(np.trunc(out, out=out))


def ball_integers(g: Array, radius: float) -> Array:
    """Return vectors g (k, m) in the ball of ``radius``, in lattice steps of radius / 2^20.

    Rounded towards zero, so the integer norm is at most 2^20; zero where a length is not usable.
    """
    square = squares(g)
    square[~((square >= LEAST) & (square <= MOST))] = 0.0
    length = np.sqrt(square, out=square)
    return end_along(g, length, radius)


def inside(w: Array, steps: float = STEPS, ball: int = 0, project: bool = False) -> Mask | None:
    """Clip rows (columns of ``w``) into their set, in place; return the mask of complete rows.

    The first ``ball`` coordinates go into the ball of ``steps SHRINK``, by a factor on the *whole*
    row or, with ``project``, on those alone; then each of the others is clipped to ``[-steps,
    steps]``. A row with a NaN, or whose squared length overflows, is the zero row.
    """
    complete = _into_ball(w, steps * SHRINK, ball, project) if ball else None
    box = w[ball:]
    if len(box):
        clip_cells(box, -steps, steps, out=box)
        # clipping leaves no infinities: a sum that is not finite means a missing cell
        if not math.isfinite(float(box.sum())):
            in_box: Mask = ~np.asarray(np.isnan(box).any(axis=0))
            complete = in_box if complete is None else np.asarray(complete & in_box)
    if complete is not None:
        w[:, ~complete] = 0.0
    return complete


def _into_ball(w: Array, top: float, ball: int, project: bool) -> Mask | None:
    """Scale the rows whose squared length in the ball exceeds ``top^2``; return which have one."""
    part = w[:ball]
    square = squares(part)
    if square.max(initial=0.0) <= top * top:  # nothing to scale, nothing missing
        return None
    # Mostly few rows: only those are read and written.
    index: Any = np.flatnonzero(~(square <= top * top))
    if 4 * len(index) > len(square):
        index = slice(None)
    factor = np.sqrt(square[index])
    np.divide(top, factor, out=factor)
    np.minimum(factor, 1.0, out=factor)
    (part if project else w)[:, index] *= factor
    if square.max() <= MOST:
        return None
    complete: Mask = square <= MOST
    return complete


def end_of_rows(w: Array, ball: int = 0, project: bool = False) -> tuple[Array, Mask | None]:
    """Return clipped rows as integers, and the mask of complete rows (None if all are).

    w (k, m) is in lattice steps, and overwritten.
    """
    complete = inside(w, STEPS, ball, project)
    return np.trunc(w, out=w), complete


def end_of_numbers(
    t: Array, most: float = 1.0, steps: float = STEPS, *, low: float = -1.0
) -> Array:
    """Return numbers, each of a row, clipped to ``[low most, most]``, in steps of most / ``steps``.

    Integers, rounded towards zero; 0 for a NaN.
    """
    out = np.clip(t, low * most, most)
    out *= steps / most
    np.trunc(out, out=out)
    if not math.isfinite(float(out.sum())):
        out[~np.isfinite(out)] = 0.0
    return out


def towards_zero(w: Array) -> Array:
    """Return rows (last axis) that a factor keeps in their set, rounded towards zero; in place.

    For sets whose bound is no length: traces, means, kernels. A row that is not finite is the
    zero row.
    """
    np.trunc(w, out=w)
    if not math.isfinite(float(w.sum())):
        w[..., ~np.isfinite(w).reshape(-1, w.shape[-1]).all(axis=0)] = 0.0
    return w


def nearest(w: Array) -> Array:
    """Return the nearest integers, of numbers that a unit sums and then brings to their end."""
    return np.rint(w)


def integers_of(sums: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return floats that hold integers as integers; non-finite values count as 0.

    No row map gives such a sum. If one did, every processor would make another integer of it.
    """
    finite = np.isfinite(sums)
    if finite.all():
        return np.asarray(sums).astype(np.int64)
    return np.where(finite, sums, 0.0).astype(np.int64)


# -- Sums of exact integers: what maps rows to a lattice, and what adds up products of blocks.


class LatticeMap(Protocol):
    """Interface of a row map for sums: :class:`~dpmodels.sums.rowmap.RowMap`."""

    @property
    def box(self) -> Array:
        """Bounds of the k coordinates."""
        ...

    def integers(self, block: Any) -> Array:
        """Return lattice coordinates (k, m), |k| <= 2^20; zero rows for missing ones."""
        ...


@dataclass(frozen=True)
class Gram:
    """Exact integer Gram matrix of lattice rows. Confidential: it is not a release."""

    entries: npt.NDArray[np.object_]  # (k, k), Python's own integers

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.entries + other.entries)

    def __repr__(self) -> str:
        return f"<Gram {len(self.entries)} x {len(self.entries)}, confidential>"

    def integers(self) -> npt.NDArray[np.object_]:
        """Return the matrix as Python integers, shape (k, k)."""
        return self.entries

    def real(self, units: Array) -> Array:
        """Return the matrix in real units: entry (i, j) times ``units_i * units_j``."""
        return np.asarray(self.entries, dtype=float) * np.outer(units, units)


class ExactSum:
    """A running sum of arrays of integers of at most 2^53: added in 64 bits while these hold it."""

    def __init__(self, *shape: int) -> None:
        self._whole: npt.NDArray[np.object_] | None = None
        self._part = np.zeros(shape, dtype=np.int64)
        self._waiting = 0

    def add(self, sums: npt.NDArray[Any]) -> None:
        """Add the sums of a block; non-finite values add 0."""
        self._part += integers_of(sums)
        self._waiting += 1
        if self._waiting == _MANY:  # at most 2^62
            self.integers()

    def integers(self) -> npt.NDArray[np.object_]:
        """Return the sum as Python integers."""
        if self._whole is None or self._waiting:
            part = self._part.astype(object)
            self._whole = part if self._whole is None else self._whole + part
            self._part[...] = 0
            self._waiting = 0
        return self._whole
