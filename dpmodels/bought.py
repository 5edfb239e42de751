"""Ranges found in the rows: histograms of pairs by a secret permutation (``ranges.md``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.run import tail_margin
from dpmodels.sources.summed import sampled

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Purchase
    from dpmodels.sums.ask import Ask


#: Above this many rows a uniformly random subset feeds the histograms (a public rule).
SAMPLE_ROWS = 1 << 20
#: If there are this many times more rows, the subset is drawn without a permutation of all rows.
_MANY_SAMPLES = 4
#: Reach of an estimated range, in standard deviations of the released histogram.
TAIL = 3.0
_BIN_LIMIT = 2.0**52
_EXPONENT_LIMIT = 256


def threshold(purchase: Purchase) -> tuple[float, float]:
    """Return (sd, tau): noise of a count, and the count below which a bin is not kept.

    tau is raised by one grid step of the discrete noise.
    """
    bins = 2 * len(purchase.columns)
    sd = math.sqrt(2.0 * bins) / purchase.mu
    return sd, 1.0 + tail_margin(sd, purchase.delta / bins)


def extend_range(
    bins: list[int], counts: list[float], h: float, *, response: bool
) -> tuple[float, float]:
    """Return the range of the kept bins, widened where the released counts show a tail.

    Bins below the threshold are invisible: up to tau rows a side would be clipped, and clipping
    the response biases every interval. Where an end bin holds less than half of the fullest one
    the range reaches to ``TAIL`` standard deviations of the released histogram (post-processing,
    free); for the response also where fewer than four bins say nothing of the shape. A hard edge
    (a uniform or a two-point variable) is left alone.
    """
    w = np.asarray(counts)
    middle = (np.asarray(bins, dtype=float) + 0.5) * h
    mean = float(w @ middle / w.sum())
    sd = math.sqrt(float(w @ (middle - mean) ** 2 / w.sum()))
    lo, hi = bins[0] * h, (bins[-1] + 1) * h
    unknown_shape = response and len(bins) < 4
    if unknown_shape or 2.0 * counts[0] < max(counts):
        lo = min(lo, mean - TAIL * sd)
    if unknown_shape or 2.0 * counts[-1] < max(counts):
        hi = max(hi, mean + TAIL * sd)
    return lo, hi


@dataclass(frozen=True, eq=False)
class _Sample:
    """Cells of chosen rows, and a fresh uniform permutation: neighbours in it are random pairs."""

    design: Design
    index: list[int]
    keep: npt.NDArray[np.intp] | None
    ask: Ask

    def total(self, rows: Any, reading: Any) -> tuple[Array, npt.NDArray[np.intp]]:
        """Return (cells (k, m), order (m,)). Confidential."""
        cells = sampled(rows, self.design, self.index, self.keep, self.ask.coins)
        return cells, self.ask.permutation(cells.shape[1])


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


def column_range(
    over: _Sample, j: int, name: str, n: int, tau: float, *, response: bool
) -> tuple[float, float] | None:
    """Return [lo, hi] of one column, or None if a histogram keeps nothing."""
    ask = over.ask
    base = 2 if n >= 12 * tau else 4
    bins, _ = ask.bins(f"scale of {name}", over, lambda s: _exponents(s, j, base), tau)
    if not bins:
        return None
    scale = math.ldexp(1.0, (bins[-1] + 1) * (1 if base == 2 else 2))
    if base == 2:
        h = scale / 4 if n > 40 * tau else scale / 2
    else:
        h = scale / 8 if n > 40 * tau else scale / 4
    bins, counts = ask.bins(f"range of {name}", over, lambda s: _locations(s, j, h), tau)
    return extend_range(bins, counts, h, response=response) if bins else None


def buy_ranges(
    purchase: Purchase, design: Design, ask: Ask, *, wide: bool = False
) -> Design | None:
    """Buy the ranges of ``purchase.columns``; return the completed design, or None: no reply.

    There is none where some histogram kept no bin; the charge stands. ``wide``: the ranges of
    predictors are widened as those of the response (post-processing), for methods to which width
    costs little, since clipped predictors bias slopes.

    Privacy
    -------
    Unit: one row; replace-one, n public. One row changes one pair and one value of a column, so
    each histogram moves by sqrt(2); cost ``mu``-GDP plus ``delta``. Pairs come from a uniform
    permutation drawn without looking at the values, and are not kept. Where the unit is a person,
    the rows are people: one row of each, that of the smallest keyed hash (``units.md``, 5).
    """
    mean = design.response is None  # the columns themselves are what is averaged
    names = [*design.names, design.response.name if design.response else ""]
    _, tau = threshold(purchase)
    n, keep = ask.n, None
    if n > SAMPLE_ROWS:
        if n < _MANY_SAMPLES * SAMPLE_ROWS:
            keep = np.sort(ask.permutation(n)[:SAMPLE_ROWS])
        else:
            keep = random_subset(n, SAMPLE_ROWS, ask.coins)
    places = [
        len(names) - 1 if c == names[-1] and c else names.index(c) for c in purchase.columns
    ]
    over = _Sample(design, places, keep, ask)
    read = n if keep is None else len(keep)
    intervals: dict[str, tuple[float, float]] = {}
    for j, name in enumerate(purchase.columns):
        interval = column_range(
            over, j, name, read, tau, response=mean or wide or name == names[-1]
        )
        if interval is None:
            return None
        intervals[name] = interval
    ask.forget(over)  # the cells of a million rows are not kept through the passes to come
    return design.with_bounds(intervals)


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
