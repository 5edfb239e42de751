"""Sums of exact integers: what maps rows to a lattice, and what adds up products of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import integers_of

#: Blocks whose products, at most 2^53 each, together fit 64 bits.
_MANY = 512
#: Rows up to which a sum of products of at most 2^40 fits 64 bits.
SMALL = 1 << 22


class LatticeMap(Protocol):
    """What the accumulation needs of a row map: :class:`~dpmodels.exact.rowmap.RowMap`."""

    @property
    def box(self) -> Array:
        """Bounds of the k coordinates."""
        ...

    def integers(self, block: Any) -> Array:
        """Return lattice coordinates (k, m), |k| <= 2^20; zero rows for missing ones."""
        ...


def joined(
    high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], *, small: bool = False
) -> npt.NDArray[np.object_]:
    """Return ``high * 2^32 + low`` as Python integers; ``small``: they are known to fit 64 bits."""
    if small:
        return ((high << 32) + low).astype(object)
    whole: npt.NDArray[np.object_] = high.astype(object) * (1 << 32) + low.astype(object)
    return whole


@dataclass(frozen=True)
class Gram:
    """Exact integer Gram matrix of lattice rows. Confidential: it is not a release.

    Attributes
    ----------
    high, low : (k, k) int64 arrays
        The matrix is ``high * 2^32 + low``.
    rows : int
    fingerprint : str
        Sums are defined only between equal fingerprints.
    """

    high: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    rows: int
    fingerprint: str

    def __add__(self, other: Gram) -> Gram:
        if self.fingerprint != other.fingerprint:
            raise ValueError("moments of different plans cannot be added")
        return Gram(
            self.high + other.high, self.low + other.low, self.rows + other.rows, self.fingerprint
        )

    def __repr__(self) -> str:
        return f"<Gram {self.high.shape[0]} x {self.high.shape[0]}, confidential>"

    def integers(self) -> npt.NDArray[np.object_]:
        """Return the matrix as Python integers, shape (k, k)."""
        return joined(self.high, self.low, small=0 < self.rows <= SMALL)

    def real(self, units: Array) -> Array:
        """Return the matrix in real units: entry (i, j) times ``units_i * units_j``."""
        return np.asarray(self.integers(), dtype=float) * np.outer(units, units)


def worded(matrix: npt.NDArray[np.object_], rows: int, fingerprint: str = "") -> Gram:
    """Return the Gram matrix of Python integers, as sums of blocks come."""
    high = (matrix >> 32).astype(np.int64)
    low = (matrix & 0xFFFFFFFF).astype(np.int64)
    return Gram(high, low, rows, fingerprint)


class Words:
    """A (k, k) sum of exact products of blocks, in two int64 words."""

    def __init__(self, k: int) -> None:
        self._high = np.zeros((k, k), dtype=np.int64)
        self._low = np.zeros((k, k), dtype=np.int64)
        self._part = np.zeros((k, k), dtype=np.int64)
        self._waiting = 0
        self._added = 0

    def add(self, product: Array) -> None:
        """Add the product of a block: integers of at most 2^53; what is not finite adds 0."""
        self._part += integers_of(product)
        self._waiting += 1
        self._added += 1
        if self._waiting == _MANY:  # at most 2^62
            self._carry()

    def _carry(self) -> None:
        self._high += self._part >> 32
        self._low += self._part & 0xFFFFFFFF
        self._part[...] = 0
        self._waiting = 0

    def words(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (high, low): the sum is ``high * 2^32 + low``."""
        self._carry()
        return self._high, self._low

    def integers(self) -> npt.NDArray[np.object_]:
        """Return the sum as Python integers."""
        return joined(*self.words(), small=self._added < _MANY)
