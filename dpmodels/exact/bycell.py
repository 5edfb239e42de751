"""Exact sums by cell, and the products over cells that end them.

Rows that are integer multiples ``k_i`` of one lattice vector a cell, ``zeta_c``, have

    sum_i (k_i zeta_c)(k_i zeta_c)' = sum_c (sum_{i in c} k_i^2) zeta_c zeta_c'

so that of n rows only K numbers are kept: integers without a rounding, whoever adds them up
(``theory.md``, 1.7).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.exact.end import LEAST, MOST, STEPS, end_along, integers_of
from dpmodels.exact.products import cross_product, squares

Integers = npt.NDArray[np.object_]
#: Integers of at most 2^62 each, and the place in bits at which they are added.
Terms = list[tuple[npt.NDArray[np.int64], int]]

#: A multiple of a cell's vector is in steps of 2^-20 of full length: rows, of 2^-40.
FINE = 20
#: Factor on the multiples: pays for the float rounding of lengths and factors, and for the one
#: rounding of each sum to the steps of its release.
SHORTENED = 1.0 - 2.0**-24
#: A row of full length is this multiple of its cell's vector.
MULTIPLE = STEPS * SHORTENED
#: Of a float64 that holds integers exactly, and of a part of a lattice vector.
_EXACT, _PART = 53, 10
#: Rows whose sum of integers of at most 2^40 float64 holds exactly, and how many such sums
#: together fit 64 bits.
_ROWS, _MANY = 1 << 13, 512
_LIMB = 32
_MASK = (1 << _LIMB) - 1


class ByCell:
    """Sums of one integer a row, by cell."""

    def __init__(self, cells: int) -> None:
        self._whole: Integers = np.zeros(cells, dtype=object)
        self._part = np.zeros(cells, dtype=np.int64)
        self._waiting = 0

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self._part)

    def add(
        self, cells: npt.NDArray[np.intp], values: Array | None = None, bits: int = 2 * FINE
    ) -> None:
        """Add the rows of a block: 1 each, or ``values`` (m,), floats that hold integers.

        Of at most ``2^bits``: so many rows are summed at once that every sum is at most 2^53.
        """
        if values is None:
            self.put(np.bincount(cells, minlength=len(self._part)))
            return
        rows = 1 << (_EXACT - bits)
        for a in range(0, len(cells), rows):
            part = slice(a, a + rows)
            self.put(np.bincount(cells[part], values[part], minlength=len(self._part)))

    def put(self, found: Array | npt.NDArray[np.intp]) -> None:
        """Add the sums of rows, at most 2^53 each."""
        self._part += integers_of(found)
        self._waiting += 1
        if self._waiting == _MANY:
            self._carry()

    def _carry(self) -> None:
        self._whole = self._whole + self._part.astype(object)
        self._part[...] = 0
        self._waiting = 0

    def integers(self) -> Integers:
        """Return the sums as Python integers."""
        self._carry()
        return self._whole


def seen_by_row(of_cells: Array, slopes: Array, block: Array, cells: npt.NDArray[np.intp]) -> Array:
    """Return ``of_cells[c_i] + slopes @ numbers_i`` of rows (m,): each by itself, wherever it is.

    Parameters
    ----------
    of_cells : (K,) array
    slopes : (d,) array
    block : (d, m) array
        Numbers of the rows.
    cells : (m,) array
    """
    seen: Array = of_cells.take(cells)
    for slope, row in zip(slopes.tolist(), block, strict=True):
        seen += row * slope
    return seen


def products_of(rho: Array) -> Integers:
    """Return ``rho rho'`` (d, d) of rows (d, m) of integers of at most 2^20, as Python integers."""
    out: Integers = np.zeros((len(rho), len(rho)), dtype=object)
    for a in range(0, rho.shape[1], _ROWS):
        part = rho[:, a : a + _ROWS]
        out = out + integers_of(cross_product(part)).astype(object)
    return out


def directions(u: Array) -> tuple[Array, Array]:
    """Return (zeta, length) of vectors (r, K): lattice vectors of length at most 2^20, towards u.

    ``zeta = trunc(2^20 (1 - 2^-36) u/|u|)``; zero where u has no usable length.
    """
    with np.errstate(all="ignore"):
        square = squares(u)
        good = (square >= LEAST) & (square <= MOST)
        length = np.where(good, np.sqrt(square), 0.0)
        zeta = end_along(u, length, 1.0, good.astype(float))
    checked(zeta)
    return zeta, length


def checked(zeta: Array) -> None:
    """Refuse lattice vectors longer than 2^20, in integers: every bound rests on that."""
    whole = zeta.astype(np.int64)
    if (np.abs(whole) > 1 << 20).any() or (np.sum(whole * whole, axis=0) > 1 << 40).any():
        raise PrivacyBugError("a cell's lattice vector is longer than 2^20")


def gram_of(zeta: Array, weights: Integers, drop: int = 0) -> Integers:
    """Return ``sum_c weights_c zeta_c zeta_c'`` over ``2^drop``, rounded down once, (r, r).

    Parameters
    ----------
    zeta : (r, K) array
        Floats that hold integers of at most 2^20.
    weights : (K,) object array
        Python integers of any size.

    Notes
    -----
    Vectors are cut into parts of 10 bits, weights into digits, so that a product of them over all
    cells is a sum of integers of at most 2^53: BLAS computes it exactly.
    """
    zeta, weights = _occupied(zeta, weights)
    high = np.floor(zeta * 2.0**-_PART)
    low = zeta - high * 2.0**_PART
    upper = np.triu_indices(len(zeta))
    terms = []
    for digit, at in digits(weights, zeta.shape[1], 2 * _PART):
        high_digit = high * digit
        cross = high_digit @ low.T
        cross += cross.T
        top = (high_digit @ high.T)[upper].astype(np.int64) << _PART  # below 2^62
        terms.append((top + cross[upper].astype(np.int64), at + _PART))
        terms.append((((low * digit) @ low.T)[upper].astype(np.int64), at))
    return symmetric(total(terms, drop), len(zeta))


def sum_of(zeta: Array, weights: Integers) -> Integers:
    """Return ``sum_c weights_c zeta_c``, (r,), exactly. Arguments as for :func:`gram_of`."""
    zeta, weights = _occupied(zeta, weights)
    found = digits(weights, zeta.shape[1], 2 * _PART)
    return total([((zeta @ digit).astype(np.int64), at) for digit, at in found], 0)


def symmetric(entries: Integers, r: int) -> Integers:
    """Return the (r, r) matrix with this upper triangle."""
    upper = np.triu_indices(r)
    out: Integers = np.empty((r, r), dtype=object)
    out[upper] = entries
    out.T[upper] = entries
    return out


def _occupied(zeta: Array, weights: Integers) -> tuple[Array, Integers]:
    """Leave out what has no weight: of many cells few rows may be in any."""
    some = np.flatnonzero(weights)
    return (zeta, weights) if len(some) == len(weights) else (zeta[:, some], weights[some])


def digits(weights: Integers, cells: int, used: int) -> list[tuple[Array, int]]:
    """Return (digit as floats, its place in bits) of integers; the last one has the sign.

    ``used`` bits of a float64, and those that count the cells, are left for what it is multiplied
    by.
    """
    bits = _EXACT - used - max(cells - 1, 1).bit_length() - 1
    rest: npt.NDArray[Any] = weights
    try:
        rest = weights.astype(np.int64)
        size = max(int(rest.max(initial=0)), -int(rest.min(initial=0))).bit_length()
    except OverflowError:  # beyond 64 bits
        size = max(abs(int(w)).bit_length() for w in weights.flat)
    count = max(1, math.ceil(size / bits))
    out = []
    for k in range(count):
        digit = rest if k == count - 1 else rest & ((1 << bits) - 1)
        out.append((digit.astype(np.float64), k * bits))
        rest = rest >> bits
    return out


def total(terms: Terms, drop: int) -> Integers:
    """Return the sum of ``term * 2^place`` over ``2^drop``, rounded down, as Python integers."""
    top = max((at for _, at in terms), default=0) + 80
    limbs = np.zeros((max(top, drop + 80) // _LIMB + 1, len(terms[0][0])), dtype=np.int64)
    for term, at in terms:
        place, shift = divmod(at, _LIMB)
        # a part is below 2^32, shifted below 2^63
        for piece, i in ((term & _MASK, place), (term >> _LIMB, place + 1)):
            moved = piece << shift
            limbs[i] += moved & _MASK
            limbs[i + 1] += moved >> _LIMB
    for i in range(len(limbs) - 1):
        limbs[i + 1] += limbs[i] >> _LIMB
        limbs[i] &= _MASK
    return _joined(limbs, *divmod(drop, _LIMB))


def _joined(limbs: npt.NDArray[np.int64], first: int, shift: int) -> Integers:
    """Return limbs from ``first`` on, over ``2^shift``; the last one has the sign."""
    below = (limbs[-1] < 0).astype(np.int64)
    second = limbs[first + 1] - (below << _LIMB)
    # above the second there is nothing but the sign: the number fits 64 bits
    alone = (limbs[first + 2 : -1] == below * _MASK).all() and (limbs[-1] == -below).all()
    if alone and first + 2 < len(limbs) and (np.abs(second) < 1 << 30).all():
        return ((limbs[first] >> shift) + (second << (_LIMB - shift))).astype(object)
    out = (limbs[first] >> shift).astype(object)
    for k, limb in enumerate(limbs[first + 1 :], 1):
        out = out + limb.astype(object) * (1 << (k * _LIMB - shift))
    return out
