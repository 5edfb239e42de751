"""The exact Gram matrix: integer second moments of mapped rows.

With ``|k| <= 2^20`` every product is an integer of at most 2^40, and a sum over at most 2^13 rows
an integer of at most 2^53: float64 is exact in any order, so BLAS computes exact integers. Blocks
are added in two int64 words. The result does not depend on row order, chunking or sharding, and
its sensitivity holds exactly (see ``theory.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.products import cross_product
from dpmodels.exact.rowmap import void_missing
from dpmodels.sources.summed import summed

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["Gram", "GramOf", "LatticeMap", "Words", "gram", "gram_over"]


class LatticeMap(Protocol):
    """What the accumulation needs of a row map: :class:`~dpmodels.exact.rowmap.RowMap`."""

    @property
    def box(self) -> Array:
        """Bounds of the k coordinates."""
        ...

    def integers(self, block: Array) -> Array:
        """Return lattice coordinates (k, m), |k| <= 2^20; NaN in rows to be voided."""
        ...


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
        result: npt.NDArray[np.object_] = self.high.astype(object) * (1 << 32) + self.low.astype(
            object
        )
        return result

    def real(self, units: Array) -> Array:
        """Return the matrix in real units: entry (i, j) times ``units_i * units_j``."""
        return np.asarray(self.integers(), dtype=float) * np.outer(units, units)


class Words:
    """A (k, k) sum of exact products of blocks, in two int64 words."""

    def __init__(self, k: int) -> None:
        self._high = np.zeros((k, k), dtype=np.int64)
        self._low = np.zeros((k, k), dtype=np.int64)
        self._part = np.zeros((k, k), dtype=np.int64)
        self._waiting = 0

    def add(self, product: Array) -> None:
        """Add the product of a block: integers of at most 2^53."""
        self._part += product.astype(np.int64)
        self._waiting += 1
        if self._waiting == 512:  # at most 2^62
            self._carry()

    def add_large(self, product: npt.NDArray[np.int64]) -> None:
        """Add integers of any size that 64 bits hold."""
        self._high += product >> 32
        self._low += product & 0xFFFFFFFF

    def _carry(self) -> None:
        self._high += self._part >> 32
        self._low += self._part & 0xFFFFFFFF
        self._part[...] = 0
        self._waiting = 0

    def words(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (high, low): the sum is ``high * 2^32 + low``."""
        self._carry()
        return self._high, self._low


def gram(blocks: Iterable[Array], rowmap: LatticeMap, fingerprint: str = "") -> Gram:
    """Accumulate the Gram matrix of the mapped rows of ``blocks``.

    Parameters
    ----------
    blocks : iterable of (q, m) arrays, m <= 8192
        From ``Rows.blocks``; overwritten.
    rowmap : LatticeMap

    Privacy
    -------
    The return value is confidential. One row contributes one integer rank-one matrix whose size is
    bounded by the row map.
    """
    k = len(rowmap.box)
    total = Words(k)
    rows = 0
    with np.errstate(all="ignore"):
        own = getattr(rowmap, "product", None)  # of maps that know a shorter way
        for block in blocks:
            rows += block.shape[1]
            if own is not None:
                total.add(own(block))
                continue
            z = rowmap.integers(block)
            product = cross_product(z)
            # Clipping leaves no infinities, so a trace that is not finite means a missing row.
            if not math.isfinite(float(product.trace())):
                void_missing(z)
                product = cross_product(z)
            total.add(product)
    return Gram(*total.words(), rows, fingerprint)


@dataclass(frozen=True, eq=False)
class GramOf:
    """The pass of :func:`gram`, for whoever adds up (:mod:`dpmodels.sources.summed`)."""

    rowmap: LatticeMap
    fingerprint: str = ""

    def over(self, blocks: Iterable[Array], _: Any = None) -> Gram:
        """Return the Gram matrix of blocks. Confidential."""
        return gram(blocks, self.rowmap, self.fingerprint)


def gram_over(rows: Any, design: Design, rowmap: LatticeMap, **chosen: Any) -> Gram:
    """Return the Gram matrix of one pass over rows, in this thread or by tasks.

    Parameters
    ----------
    rows : Rows, or anything that yields blocks
    design : Design
    rowmap : LatticeMap
    **chosen
        ``windows`` and ``coins``.

    Privacy
    -------
    Confidential; the same integers whoever adds up, and whether dummies are written out or
    counted (:mod:`dpmodels.exact.counting`).
    """
    from dpmodels.exact.counting import counted_gram

    counts = hasattr(rows, "coded_blocks") and not hasattr(rows, "summed")
    job: Any = (counted_gram(design, rowmap) if counts else None) or GramOf(rowmap)
    found: Gram = summed(rows, design, job, **chosen)
    return found
