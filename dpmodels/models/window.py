"""Measure where numbers lie, and choose the windows to which their means clip them.

A declared range says where values may lie, not where they do. Two histograms of each number find a
window about its centre, and bound what lies beyond it (``mean.md``, 6.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpmodels import messages
from dpmodels.after.inference import critical_value
from dpmodels.arrays import Array
from dpmodels.core.means import half_ranges
from dpmodels.core.release import Release, answered
from dpmodels.core.rows import Rows, clip, where
from dpmodels.core.tables import Table, Tables
from dpmodels.formula.design import Design
from dpmodels.notes import Note
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.proof.prove import noise_of
from dpmodels.ranges import Part
from dpmodels.records import Request
from dpmodels.registry import Option
from dpmodels.scoring.rules import DISTANCE_OCTAVES, DISTANCES, PLACES
from dpmodels.scoring.scales import columns_of_numbers, median_of
from dpmodels.sums.ask import Ask

#: Shares of the budget of both histograms: cells of the range, and distances from the centre.
LOOKS = {PLACES: 0.03, DISTANCES: 0.08}
#: A count is seen from this many sds of Gaussian, of Laplace noise on: 2 of 100 tables show noise.
SEEN_SDS = 3.5, 5.0
#: Numbers of half octaves whose sum is compared with its noise.
RUNS = 1, 2, 4
#: A call looks if a count of this part of the rows is seen.
LEAST_PART = 0.04
#: No look at n rows if a count's noise is below this times sqrt n: wide ranges cost little there.
LEAST_NOISE = 0.0083
#: Cells of a range: noise of half of them is at most this part of the rows; their least, most.
CELL_NOISE, FEWEST, MOST = 0.18, 64, 2048
#: Numbers of which most values are one keep their range if others are fewer than this part.
RARE = 0.015
#: From one half octave to the next, a tail keeps at least and at most this part of its count.
DECAY = 0.1, 0.63
#: Noise sds that are added to a count of the tail before its decay is read.
UNSURE_SDS = 1.4
#: Factor of the excess by the tail; excess of an edge below the tail.
OF_EXCESS, NEVER = 1.5, 1e9
#: A window is chosen for a group that has this many times its part of what lies beyond.
UNEVEN = 2.0
#: Upper edges and middles of the half octaves of distances, over the range.
EDGES = 2.0 ** ((np.arange(DISTANCE_OCTAVES) + 1 - DISTANCE_OCTAVES) / 2.0)
MIDDLES = EDGES / 2.0**0.25
LOOK_OPTION = Option(
    "look", "find windows of wide ranges first; False: clip to the ranges", True, bool
)
#: A reason of plans.
LOOK_FIRST = "two histograms look where values lie first: a range that is too wide costs little"


def look_steps(
    request: Request, design: Design, part: Part, n: int, share: float = 1.0
) -> list[Step]:
    """Return the steps of both histograms, or none where they are not wanted or cannot pay.

    A rule on public facts: delta > 0, ranges are declared, nobody divides the budget, counts are
    seen, and wide ranges would cost. ``share``: of the call's budget, that of ``part``.
    """
    d = len(columns_of_numbers(design)[0])
    unwanted = request.split is not None or request.options.get("look") is False
    if request.delta == 0 or unwanted or design.unknown or not d:
        return []
    steps = [Step(name, part.mechanism(k), share=share * k) for name, k in LOOKS.items()]
    sd, seen = _noise_of_counts(steps[1], d)
    return steps if seen <= LEAST_PART * n and sd > LEAST_NOISE * math.sqrt(n) else []


def _noise_of_counts(step: Step, d: int) -> tuple[float, float]:
    """Return the noise sd of a cell of d histograms, and the count from which on one is seen."""
    pure = isinstance(step.mechanism, Pure)
    scale = float(noise_of(histograms(d, 1).statistic, step.mechanism, "replace")[0])
    sd = scale * math.sqrt(2.0) if pure else scale
    return sd, SEEN_SDS[pure] * sd


def histograms(d: int, size: int) -> Tables:
    """Return the set of a histogram of each of d numbers: one cell, the last if it is missing."""
    tables = [Table(size + 1, ((j, 1),)) for j in range(d)]
    return Tables([size + 1] * d, tables, (1.0 / d,) * d)


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows to which columns are clipped."""

    centre: Array  # (columns,)
    half: Array  # Half widths
    # Bounds on sums of distances beyond the ends, and of squares less those of the ends.
    excess: Array
    squares: Array
    hidden: float = 0.0  # Values that noise may hide on each side, or 0 without a look
    places: tuple[int, ...] = ()  # Columns that were measured

    def beyond(self, number: int, N: Array, square: Array) -> tuple[Array, Array]:
        """Return bounds on the part of values beyond the window in means, and in mean squares.

        In half widths, for groups of N rows with mean squares about the centre of the window. A
        group has a part of what lies beyond as large as its part of the rows, times the square of
        its mean square over that of all if this is above 1; at most all of it.
        """
        rows, h = float(N.sum()), float(self.half[number])
        uneven = np.maximum(square / max(float(N @ square) / rows, 1e-300), 1.0) ** 2
        per_row = np.minimum(uneven, rows / N) / rows
        return self.excess[number] / h * per_row, self.squares[number] / h**2 * per_row

    def times(self, factor: float) -> Windows:
        """Return windows beyond which values count this much each."""
        return replace(self, excess=self.excess * factor, squares=self.squares * factor)

    def note(self, design: Design, delta: float) -> tuple[Note, ...]:
        """Return a note on the windows, or on declared ranges where delta is 0."""
        if not self.places:
            return () if delta else (messages.AS_DECLARED(),)
        low, high = self.centre - self.half, self.centre + self.half
        ends = (f"{design.columns[j].name} {low[j]:.4g} to {high[j]:.4g}" for j in self.places)
        return (messages.WINDOWS(windows="; ".join(ends), hidden=self.hidden),)


def as_declared(design: Design) -> Windows:
    """Return the declared ranges as windows, beyond which nothing lies."""
    return Windows(*half_ranges(design), *np.zeros((2, len(design.intervals()))))


def released_windows(
    steps: Sequence[Step], design: Design, n: int, noise: float, ask: Ask, groups: int = 1
) -> Windows:
    """Release both histograms of each number, and return windows; declared ranges without steps.

    ``noise``: sd of a sum in half-ranges of one of ``groups`` groups.

    Privacy
    -------
    Unit: one row, or one person by the mean of its rows. Two releases of counts: one unit of mass
    in the cells of each number. Windows are made of these and of public numbers.
    """
    centre, half = half_ranges(design)
    excess, squares = np.zeros((2, len(half)))
    if not steps:
        return Windows(centre, half, excess, squares)
    places = list(columns_of_numbers(design)[1])
    (low, high), last, d = design.intervals()[places].T, DISTANCE_OCTAVES - 1.0, len(places)
    width, (sd_places, _), (sd, seen) = high - low, *(_noise_of_counts(s, d) for s in steps)
    fine = 2.0 * math.log2(CELL_NOISE * n * math.sqrt(2.0) / sd_places)
    size = int(min(max(2.0 ** math.floor(fine), FEWEST), MOST))

    def cell(z: Rows) -> Rows:
        part = (z[places] - low) * (size / width)
        return where(np.isfinite(part), clip(np.floor(part), 0.0, size - 1.0), -1.0)

    noisy = answered(Release(PLACES, histograms(d, size), cell, design), ask)
    counts = noisy.values.reshape(d, -1)
    used = np.clip(n - counts[:, -1], 1.0, n) / groups
    middle = np.array([median_of(histogram[:-1], sd_places) for histogram in counts])

    def distance(z: Rows) -> Rows:
        part = (clip(z[places], low, high) - low) / width - middle
        # the exponent of the square counts half octaves of the distance
        below = where(part == 0.0, last, clip(-np.frexp(part * part)[1], 0.0, last))
        code = last - below + where(part > 0.0, last + 1.0, 0.0)
        return where(np.isfinite(part), code, -1.0)

    noisy = answered(Release(DISTANCES, histograms(d, 2 * DISTANCE_OCTAVES), distance, design), ask)
    for k, (j, counts) in enumerate(zip(places, noisy.values.reshape(d, -1), strict=True)):
        sides = counts[:-1].reshape(2, -1)
        a, b, *beyond = window_of(sides, sd, seen, middle[k], used[k], size, noise, groups)
        centre[j], half[j] = low[k] + width[k] * (a + b) / 2.0, width[k] * (b - a) / 2.0
        excess[j], squares[j] = beyond[0] * width[k], beyond[1] * width[k] ** 2
    return Windows(centre, half, excess, squares, seen, tuple(places))


def window_of(
    counts: Array, sd: float, least: float, centre: float, n: float, cells: int, noise: float,
    groups: int = 1,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return the ends of the window of least expected half width, and bounds on what is beyond.

    All over the declared range. ``counts`` (2, octaves): noisy numbers of distances below and above
    the centre by half octaves, the shortest first, seen from ``least`` on; ``noise``: sd of a sum
    in half-ranges of one of ``groups`` groups of n rows.
    """
    seen = np.where(counts > least, counts, 0.0)
    total, most = float(seen.sum()), float(seen.max())
    if not total or (most > total / 2.0 and total - most < max(RARE * n * groups, 2 * least)):
        return 0.0, 1.0, 0.0, 0.0
    lows, highs = np.maximum(0.0, centre - EDGES), np.minimum(1.0, centre + EDGES)
    below, above = (excess_beyond(side, sd, least, cells) for side in counts)
    below, above = np.where(lows <= 0.0, 0.0, below), np.where(highs >= 1.0, 0.0, above)
    excess = np.maximum(below[0][:, None], above[0])
    sampling = float((seen @ MIDDLES**2).sum()) / total / n
    se = np.sqrt(sampling + (noise * (highs - lows[:, None]) / 2.0 / n) ** 2)
    part = 1.0 if groups == 1 else UNEVEN / groups
    width = se * critical_value(part * excess / n / se, 0.95)
    i, j = np.unravel_index(int(np.argmin(width)), width.shape)
    return float(lows[i]), float(highs[j]), float(excess[i, j]), float(below[1, i] + above[1, j])


def excess_beyond(counts: Array, sd: float, least: float, cells: int) -> Array:
    """Return bounds on ``sum (distance - edge)+`` of one side for each edge, and so of squares.

    From the last half octave from which on one, two or four are seen together, the tail falls
    geometrically: as it fell from octave to octave before, or as noise lets see, whichever is
    faster. Distances below one cell of the first histogram tell no decay, as the centre may be as
    far off. No edge below what is seen is used.
    """
    cell = len(counts) - 2 * int(math.log2(cells))
    sums, last = np.cumsum(np.concatenate([[0.0], counts, np.zeros(RUNS[-1])])), len(counts)
    runs = [sums[k : k + last] - sums[:last] > least * math.sqrt(k) for k in RUNS]
    at = max(np.flatnonzero(np.any(runs, axis=0)).tolist(), default=cell)
    octaves = np.concatenate([np.zeros(3), counts, np.zeros(2)])[at : at + 6].reshape(3, 2)
    before, here, after = np.maximum(octaves.sum(axis=1), 0.0).tolist()
    squares, unsure = [1.0], UNSURE_SDS * sd
    if at - 3 >= cell:
        squares.append((here + unsure) / max(before, sd))
    if at - 1 >= cell:
        squares.append((after + unsure) / max(here, sd))
    r = min(max(math.sqrt(min(squares)), DECAY[0]), DECAY[1])
    first = max(here / (1.0 + 1.0 / r), least * (at <= cell))
    k = np.arange(last) - at
    tail = np.where(k > 0, first * r ** np.maximum(k, 0), np.where(k == 0, counts, 0.0))
    beyond = np.stack([MIDDLES - EDGES[:, None], MIDDLES**2 - EDGES[:, None] ** 2])
    excess = OF_EXCESS * (np.maximum(beyond, 0.0) @ tail)
    excess[:, : max(at - 1, 0)] = NEVER
    return np.asarray(excess)
