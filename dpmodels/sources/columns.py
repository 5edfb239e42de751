"""Columns of a table as they lie, and the ranges they are cut to: rows that nobody has filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.formula.coerce import clip_cells
from dpmodels.formula.program import BareColumn
from dpmodels.sources.abreast import in_order, side_by_side, turn
from dpmodels.sources.windows import ROW_PAD, WINDOW

__all__ = ["MOST_ROWS", "Columns", "columns_of", "filled_rows"]

#: Columns of one array from which its rows are read, not one column after the other.
_ABREAST = 4
#: Rows of columns that are read in one go: sums of products of at most 2^40 fit 64 bits.
MOST_ROWS = 128 * WINDOW


@dataclass(frozen=True, eq=False)
class Columns:
    """What a block ``(q, m)`` would be filled with. **Confidential**: rows.

    Attributes
    ----------
    cells : tuple of (m,) float64 arrays
        Each begins anywhere, and its cells are any number of doubles apart.
    ranges : (2, q) array
        Lower and upper ends: what lies beyond is cut to them, what is missing stays so.
    """

    cells: tuple[Array, ...]
    ranges: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(q, m), as of a block."""
        return len(self.cells), len(self.cells[0])

    def __repr__(self) -> str:
        return "<columns, confidential>"

    def blocks(self) -> Iterator[Array]:
        """Yield them filled, (q, m), m <= 8192; the buffer is reused.

        A missing cell is NaN where it stands, and no other cell of its row is.
        """
        q, m = self.shape
        buffer = np.empty((q, WINDOW + ROW_PAD))
        low, high = self.ranges[:, :, None]
        numbers = [j for j, cells in enumerate(self.cells) if cells.strides != (0,)]
        found = side_by_side([self.cells[j] for j in numbers], _ABREAST)
        table, places = found or (None, [])
        if not (in_order(places) and in_order(numbers)):
            table = None
        alone = range(q) if table is None else sorted(set(range(q)).difference(numbers))
        with np.errstate(all="ignore"):
            for a in range(0, m, WINDOW):
                b = min(a + WINDOW, m)
                block = buffer[:, : b - a]  # whoever reads it may overwrite it, constants too
                for j in alone:
                    clip_cells(self.cells[j][a:b], *self.ranges[:, j], out=block[j])
                if table is not None:
                    own = slice(numbers[0], numbers[-1] + 1)
                    part = table[a:b, places[0] : places[-1] + 1]
                    turn(part, (low[own], high[own]), block[own])
                yield block


def columns_of(bare: Sequence[BareColumn], chunk: Mapping[str, Any], m: int) -> Columns | None:
    """Return the columns of a chunk; None: one of them does not lie as doubles do.

    By types and layout alone.
    """
    cells = []
    for name, low, _ in bare:
        if name is None:
            cells.append(np.broadcast_to(np.array(low), (m,)))
            continue
        own = chunk[name]
        if (
            type(own) is not np.ndarray or own.dtype != np.float64 or own.shape != (m,)
            or own.strides[0] < 0 or own.strides[0] % own.itemsize or not own.flags.aligned
        ):  # fmt: skip
            return None
        cells.append(own)
    return Columns(tuple(cells), np.array([(low, high) for _, low, high in bare], dtype=float).T)


def filled_rows(blocks: Iterable[Array | Columns]) -> Iterator[Array]:
    """Yield blocks, those that were columns filled."""
    for block in blocks:
        if isinstance(block, Columns):
            yield from block.blocks()
        else:
            yield block
