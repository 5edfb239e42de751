"""The exact Gram matrix: integer second moments of mapped rows.

With ``|k| <= 2^20`` every product is an integer of at most 2^40, and a sum over at most 2^13 rows
an integer of at most 2^53: float64 is exact in any order, so BLAS computes exact integers. Blocks
are added in two int64 words. The result does not depend on row order, chunking or sharding, and
its sensitivity holds exactly (see ``theory.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.cells import cell_gram
from dpmodels.exact.counting import counted_gram
from dpmodels.exact.mixed import ball_of_cells
from dpmodels.exact.products import cross_product
from dpmodels.exact.rowmap import RowMap
from dpmodels.exact.words import Gram, LatticeMap, Words
from dpmodels.sources.columns import Columns, filled_rows
from dpmodels.sources.summed import summed

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["GramOf", "gram", "gram_over"]


def gram(blocks: Iterable[Array], rowmap: LatticeMap, fingerprint: str = "") -> Gram:
    """Accumulate the Gram matrix of the mapped rows of ``blocks``.

    Parameters
    ----------
    blocks : iterable of (q, m) arrays, m <= 8192, or Columns
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
        in_tiles = type(rowmap) is RowMap and rowmap.in_tiles
        for block in blocks if in_tiles else filled_rows(blocks):
            rows += block.shape[1]
            if isinstance(block, Columns):
                total.add_large(rowmap.moments(block), block.shape[1])  # type: ignore[attr-defined]
                continue
            if own is not None:
                total.add(own(block))
                continue
            total.add(cross_product(rowmap.integers(block)))
    return Gram(*total.words(), rows, fingerprint)


@dataclass(frozen=True, eq=False)
class GramOf:
    """The pass of :func:`gram`, for whoever adds up (:mod:`dpmodels.sources.summed`)."""

    rowmap: LatticeMap
    fingerprint: str = ""

    @property
    def reads_columns(self) -> bool:
        """Whether columns as they lie do in place of marked blocks: whatever is missing is seen."""
        return type(self.rowmap) is RowMap

    def over(self, blocks: Iterable[Array], _: Any = None) -> Gram:
        """Return the Gram matrix of blocks. Confidential."""
        return gram(blocks, self.rowmap, self.fingerprint)


def gram_over(
    rows: Any, design: Design, rowmap: LatticeMap, known: int = 0, **chosen: Any
) -> Gram:
    """Return the Gram matrix of one pass over rows, in this thread or by tasks.

    Parameters
    ----------
    rows : Rows, or anything that yields blocks
    design : Design
    rowmap : LatticeMap
    known : int
        Public number of rows, 0 where there is none.
    **chosen
        ``windows`` and ``coins``.

    Privacy
    -------
    Confidential; the same integers whoever adds up, and whether dummies are written out or
    counted (:mod:`dpmodels.exact.counting`). By cell (:mod:`dpmodels.exact.cells`,
    :mod:`dpmodels.exact.mixed`) rows in a ball have a lattice of their own.
    """
    by_cell: Any = cell_gram(design, rowmap) if rows.by_cell else None
    if by_cell is None and rows.by_cell:
        by_cell = ball_of_cells(design, rowmap, known)
    if by_cell is not None:
        of_cells: Gram = by_cell.gram(summed(rows, design, by_cell, **chosen))
        return of_cells
    job: Any = (counted_gram(design, rowmap) if rows.coded else None) or GramOf(rowmap)
    found: Gram = summed(rows, design, job, **chosen)
    return found
