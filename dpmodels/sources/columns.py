"""Columns of a table as they lie, and the ranges they are cut to: rows that nobody has filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array

__all__ = ["Bare", "Columns", "columns_of"]

#: Of each row of a buffer: the variable that stands there (None: a constant), and its range.
Bare = Sequence[tuple[str | None, float, float]]


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


def columns_of(bare: Bare, chunk: Mapping[str, Any], m: int) -> Columns | None:
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
