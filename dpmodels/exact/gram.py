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
from dpmodels.exact.products import cross_product
from dpmodels.exact.rowmap import OfCells, RowMap
from dpmodels.exact.words import Gram, LatticeMap, Words
from dpmodels.formula.grid import grid_of_images
from dpmodels.sources.summed import summed
from dpmodels.sources.windows import short

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


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
        for block in short(blocks):
            product = cross_product(rowmap.integers(block)) if own is None else own(block)
            rows += (block[0] if isinstance(block, tuple) else block).shape[1]
            total.add(product)
    return Gram(*total.words(), rows, fingerprint)


@dataclass(frozen=True, eq=False)
class GramOf:
    """The pass of :func:`gram`, for whoever adds up (:mod:`dpmodels.sources.summed`)."""

    rowmap: LatticeMap
    fingerprint: str = ""

    @property
    def grid(self) -> Any:
        """The grid of whose cells blocks are; None: they are filled."""
        return getattr(self.rowmap, "grid", None)

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
    Confidential; the same integers whoever adds up. By cell (:mod:`dpmodels.exact.cells`) rows in
    a ball have a lattice of their own.
    """
    by_cell: Any = cell_gram(design, rowmap) if rows.by_cell else None
    if by_cell is not None:
        of_cells: Gram = by_cell.gram(summed(rows, design, by_cell, **chosen))
        return of_cells
    job = GramOf(rowmap)
    if rows.by_cell and type(rowmap) is RowMap and rowmap.whitens:
        grid = grid_of_images(design)
        job = GramOf(rowmap if grid is None else OfCells(rowmap, grid))
    found: Gram = summed(rows, design, job, **chosen)
    return found
