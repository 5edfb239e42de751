"""Exact statistics of a table on the lattice, and what one row moves (``theory.md``, 1.1, 1.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.rowmap import STEPS
from dpmodels.models.table.layout import Block, Layout

__all__ = ["Inner", "inner_weights", "statistics"]

#: Pays for the truncation of squares: below one lattice step a row.
TRUNCATION = 1.0 + 2.0**-18


@dataclass(frozen=True)
class Inner:
    """Weights of counts, sums and squares inside a block, and the block's sensitivity.

    Attributes
    ----------
    count, total, square : float
        0 where the block has no such numbers.
    sensitivity : float
        Of the weighted block: L2, or L1.
    """

    count: float
    total: float = 0.0
    square: float = 0.0
    sensitivity: float = math.sqrt(2.0)


def inner_weights(block: Block, *, squares: bool, l1: bool) -> Inner:
    """Return the weights of a block under one row replaced.

    Counts alone: one row leaves a cell and enters another: sqrt 2, or 2 in L1. With a number t in
    [-1, 1]: two rows of one group differ by at most ``2 total`` in t and t^2 together, as long as
    ``square <= total`` (L1: half of it); counts and squares get what that leaves free for two rows
    of two groups.
    """
    if block.number < 0:
        return Inner(1.0, sensitivity=2.0 if l1 else math.sqrt(2.0))
    grouped = bool(block.group)
    if l1:
        count, total, square = (0.5, 1.0, 0.25) if grouped else (0.3, 1.0, 0.4)
        if not squares:
            count, square = 0.5, 0.0
    else:
        half = math.sqrt(0.5)
        count, total, square = (half, 1.0, half) if grouped else (1.0, 1.0, 1.0)
        if not squares:
            count, square = 1.0, 0.0
    return Inner(count, total, square, _moved(count, total, square, grouped, l1))


def _moved(count: float, total: float, square: float, grouped: bool, l1: bool) -> float:
    """Return the sensitivity of the weighted (counts, sums, squares) of one number by group."""
    rows = 2.0 if grouped else 1.0  # rows that add to the sums: both, or the one that is there
    if l1:
        assert square <= total / 2.0
        return TRUNCATION * max(2.0 * total, 2.0 * count + rows * (total + square))
    assert square <= total
    apart = 2.0 * count**2 + rows * (total**2 + square**2)
    return TRUNCATION * math.sqrt(max(4.0 * total**2, apart))


def _codes(
    layout: Layout, block: Array, unit: Mapping[int, Array]
) -> list[npt.NDArray[np.intp]]:
    """Return the code of each row along each axis. ``unit``: numbers in [-1, 1], NaN missing."""
    out = []
    for axis in layout.axes:
        cells = block[axis.column]
        if axis.kind == "level":
            codes = cells
        elif axis.kind == "valid":
            codes = np.isnan(cells)
        else:
            width = axis.size - 1
            t = (unit[axis.column] + 1.0) * (0.5 * width)
            codes = np.where(np.isnan(t), width, np.minimum(np.floor(t), width - 1))
        out.append(np.asarray(codes).astype(np.intp))
    return out


def statistics(
    blocks: Iterable[Array], layout: Layout, centre: Array, half: Array
) -> npt.NDArray[np.object_]:
    """Return the lattice statistics of all blocks of a layout, in steps of 2^-20, concatenated.

    A block is (counts) or (counts, sums of k, sums of trunc(k^2 / 2^20)) with
    ``k = trunc(2^20 (x - centre) / half)``; counts are multiplied by 2^20. Confidential.

    Parameters
    ----------
    centre, half : (q,) arrays
        Of the numbers.
    """
    totals = [_blank(layout, b) for b in layout.blocks]
    numbers = sorted({b.number for b in layout.blocks if b.number >= 0})
    binned = sorted({a.column for a in layout.axes if a.kind == "bin"})
    for cells in blocks:
        with np.errstate(all="ignore"):
            unit = {
                j: np.clip((cells[j] - centre[j]) / half[j], -1.0, 1.0)
                for j in {*numbers, *binned}
            }
            lattice = {j: np.trunc(np.nan_to_num(unit[j]) * STEPS) for j in numbers}
        codes = _codes(layout, cells, unit)
        for block, total in zip(layout.blocks, totals, strict=True):
            _add(layout, block, codes, lattice.get(block.number), total)
    return np.concatenate([part.astype(object) for total in totals for part in total])


def _blank(layout: Layout, block: Block) -> list[npt.NDArray[np.int64]]:
    parts = [np.zeros(layout.cells(block.axes), dtype=np.int64)]
    if block.number >= 0:
        parts += [np.zeros(layout.cells(block.group), dtype=np.int64)]
        if layout.squares:
            parts.append(np.zeros(layout.cells(block.group), dtype=np.int64))
    return parts


def _flat(
    layout: Layout, axes: tuple[int, ...], codes: list[npt.NDArray[np.intp]]
) -> npt.NDArray[np.intp]:
    place = np.zeros(len(codes[0]), dtype=np.intp)
    for j in axes:
        place = place * layout.axes[j].size + codes[j]
    return place


def _add(
    layout: Layout,
    block: Block,
    codes: list[npt.NDArray[np.intp]],
    k: Array | None,
    total: list[npt.NDArray[np.int64]],
) -> None:
    """Add the rows of a buffer: within 2^13 rows every sum is an integer below 2^53."""
    cells = total[0].size
    counts = np.bincount(_flat(layout, block.axes, codes), minlength=cells)
    total[0] += counts * int(STEPS)
    if k is None:
        return
    place = _flat(layout, block.group, codes)
    for part, values in zip(total[1:], (k, np.trunc(k * k / STEPS)), strict=False):
        part += np.bincount(place, weights=values, minlength=part.size).astype(np.int64)
