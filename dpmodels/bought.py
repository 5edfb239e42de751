"""Ranges found in the rows: histograms of pairs by a secret permutation (``ranges.md``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.sources.summed import sampled

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sums.ask import Ask


#: Above this many rows a uniformly random subset feeds the histograms (a public rule).
SAMPLE_ROWS = 1 << 20
#: If there are this many times more rows, the subset is drawn without a permutation of all rows.
_MANY_SAMPLES = 4
_BIN_LIMIT = 2.0**52
_EXPONENT_LIMIT = 256


@dataclass(frozen=True, eq=False)
class Sample:
    """Cells of chosen rows, and a fresh uniform permutation: neighbours in it are random pairs."""

    design: Design
    index: list[int]
    keep: npt.NDArray[np.intp] | None
    ask: Ask

    def total(self, rows: Any, reading: Any) -> tuple[Array, npt.NDArray[np.intp]]:
        """Return (cells (k, m), order (m,)). Confidential."""
        cells = sampled(rows, self.design, self.index, self.keep, self.ask.coins)
        return cells, self.ask.permutation(cells.shape[1])

    def scale_bins(self, j: int, name: str, base: int, tau: float) -> tuple[list[int], list[float]]:
        """Return the kept bins of the differences of random pairs of column j.

        Privacy
        -------
        The step; a row is in one pair, so a row replaced moves two counts by one.
        """
        return self.ask.bins(f"scale of {name}", self, lambda s: _exponents(s, j, base), tau)

    def range_bins(self, j: int, name: str, h: float, tau: float) -> tuple[list[int], list[float]]:
        """Return the kept bins of width h of the values of column j. Privacy: as above."""
        return self.ask.bins(f"range of {name}", self, lambda s: _locations(s, j, h), tau)


def random_sample(design: Design, index: list[int], ask: Ask) -> Sample:
    """Return the rows that feed the histograms: all, or a uniformly random subset of many."""
    n, keep = ask.n, None
    if n > SAMPLE_ROWS:
        if n < _MANY_SAMPLES * SAMPLE_ROWS:
            keep = np.sort(ask.permutation(n)[:SAMPLE_ROWS])
        else:
            keep = random_subset(n, SAMPLE_ROWS, ask.coins)
    return Sample(design, index, keep, ask)


def _exponents(
    sample: tuple[Array, npt.NDArray[np.intp]], j: int, base: int
) -> npt.NDArray[np.int64]:
    """Return the bins of the differences of random pairs of column j. Confidential."""
    values, order = sample
    half = len(order) // 2
    v = values[j][order]
    with np.errstate(all="ignore"):
        d = np.abs(v[0 : 2 * half : 2] - v[1 : 2 * half : 2])
    d = d[np.isfinite(d) & (d > 0)]
    exponent = np.frexp(d)[1].astype(np.int64) - 1  # floor(log2 d), exactly
    # Outside this range 2^exponent or a bin width would overflow or vanish, or a range be longer
    # than any that can be declared (``LARGEST``).
    exponent = np.clip(exponent, -_EXPONENT_LIMIT, _EXPONENT_LIMIT)
    return exponent if base == 2 else exponent // 2


def _locations(
    sample: tuple[Array, npt.NDArray[np.intp]], j: int, h: float
) -> npt.NDArray[np.int64]:
    """Return the bins of width h of the values of column j. Confidential."""
    values, order = sample
    v = values[j][order]
    with np.errstate(all="ignore"):
        location = np.floor(v[np.isfinite(v)] / h)
        return np.clip(location, -_BIN_LIMIT, _BIN_LIMIT).astype(np.int64)


def random_subset(
    n: int, size: int, coins: Callable[[int], npt.NDArray[np.uint8]]
) -> npt.NDArray[np.intp]:
    """Return a uniformly random subset of 0..n-1, sorted, in memory that does not grow with n.

    The first ``size`` different values of a sequence of uniform ones: any permutation of 0..n-1
    turns the sequence into one as likely, so every subset is as likely as any other. ``coins(m)``:
    secret uniform bytes. n is a few times size, or many draws are needed.
    """
    last = np.uint64((1 << 64) - (1 << 64) % n - 1)  # beyond it a remainder would be too likely
    drawn = np.empty(0, dtype=np.uint64)
    while True:
        numbers = coins(8 * size).copy().view(np.uint64)
        drawn = np.concatenate([drawn, numbers[numbers <= last] % np.uint64(n)])
        _, first = np.unique(drawn, return_index=True)
        if len(first) >= size:
            return np.sort(drawn[np.sort(first)[:size]]).astype(np.intp)
