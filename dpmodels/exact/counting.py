"""The exact Gram matrix when factors have many levels: sums by code instead of dense products.

A dummy column is the integer K = 2^20 in the rows of its level and 0 elsewhere, so with codes
c_i and integer rows z_i the blocks of G are

    dense x factor:   K sum_i z_i [c_i = l],    factor x factor:   K^2 #{i: c_i = l, d_i = m}.

Within a block of 2^13 rows every sum is an integer of at most 2^53: exact in float64. The result
is the same integers as :func:`dpmodels.exact.gram.gram`, bit for bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.gram import Gram, Words, gram
from dpmodels.exact.products import cross_product
from dpmodels.exact.rowmap import STEPS, RowMap, UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.rows import Rows

__all__ = ["COUNT_FROM", "countable", "gram_of"]

#: With more dummies than this, counting beats writing them out (measured).
COUNT_FROM = 16
#: Pairs of factors with more cells than this are counted through the pairs that occur.
_CELLS = 1 << 16

Codes = npt.NDArray[np.intp]


def countable(design: Design, rowmap: RowMap) -> bool:
    """Say whether the dummies of a design stay 0 or K under a row map, and are many. Public."""
    if rowmap.matrix is not None or rowmap.ball or len(rowmap.box) != design.q:
        return False
    rows = [j for f in design.factors for j in range(f.columns.start, f.columns.stop)]
    unit = rowmap.unit
    plain = (unit.scale[rows] == 1.0) & (unit.shift[rows] == 0.0) & (rowmap.box[rows] == 1.0)
    return len(rows) > COUNT_FROM and bool(plain.all())


def gram_of(rows: Rows, design: Design, rowmap: RowMap, fingerprint: str = "") -> Gram:
    """Return the exact Gram matrix of the mapped rows, by counting where that is faster.

    Parameters
    ----------
    rows : Rows
    design : Design
    rowmap : RowMap

    Privacy
    -------
    As :func:`dpmodels.exact.gram.gram`, whose integers it returns: confidential. Which path is
    taken is a function of the design and the row map.
    """
    if not countable(design, rowmap):
        return gram(rows.blocks(design), rowmap, fingerprint)
    dense = np.array(design.dense, dtype=np.intp)
    part = RowMap(
        UnitScale(rowmap.unit.scale[dense], rowmap.unit.shift[dense], rowmap.unit.intercept),
        rowmap.box[dense],
    )
    slices = [f.columns for f in design.factors]
    q = design.q
    total = Words(q)
    seen = 0
    with np.errstate(all="ignore"):
        for block, codes in rows.coded_blocks(design):
            seen += block.shape[1]
            z = part.integers(block)
            product = cross_product(z)
            if not math.isfinite(float(product.trace())):
                void = np.isnan(z).any(axis=0)
                z[:, void] = 0.0
                codes[:, void] = -1
                product = cross_product(z)
            total.add(_assemble(product, z, codes, dense, slices, q))
    return Gram(*total.words(), seen, fingerprint)


def _assemble(
    product: Array, z: Array, codes: Codes, dense: Codes, slices: list[slice], q: int
) -> Array:
    """Return the (q, q) Gram matrix of one block, every entry an exact integer."""
    S = np.zeros((q, q))
    S[np.ix_(dense, dense)] = product
    shifted = codes + 1  # 0: none of the factor's columns
    for f, at in enumerate(slices):
        width = at.stop - at.start
        sums = np.empty((z.shape[0], width))
        for i, row in enumerate(z):
            sums[i] = np.bincount(shifted[f], weights=row, minlength=width + 1)[1:]
        sums *= STEPS
        S[dense, at] = sums
        S[at, dense] = sums.T
        count = np.bincount(shifted[f], minlength=width + 1)[1:]
        S[np.arange(at.start, at.stop), np.arange(at.start, at.stop)] = count * (STEPS * STEPS)
        for g in range(f):
            pair = _pairs(codes[f], codes[g], width, slices[g].stop - slices[g].start)
            pair *= STEPS * STEPS
            S[at, slices[g]] = pair
            S[slices[g], at] = pair.T
    return S


def _pairs(a: Codes, b: Codes, wide: int, high: int) -> Array:
    """Count the rows of each pair of levels: (wide, high)."""
    both = (a >= 0) & (b >= 0)
    cells = a[both] * high + b[both]
    if wide * high <= _CELLS:
        counts = np.bincount(cells, minlength=wide * high).astype(float)
    else:
        counts = np.zeros(wide * high)
        where, times = np.unique(cells, return_counts=True)
        counts[where] = times
    return counts.reshape(wide, high)
