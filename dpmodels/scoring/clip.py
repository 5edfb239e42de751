"""Estimates of score lengths, the clip, and the excess over the clip.

By released histograms of the lengths of scores in half octaves (``method.md``, 4 and
8.4). It reads no row.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.inference import BASE_BIAS, critical_value, one_way
from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.scoring import rules
from dpmodels.scoring.pass_plan import PassPlan

# -- How far scores of rows lie beyond the clip, from their released histogram. It reads no row.

#: A bin holds lengths about its geometric middle, in units of C; the last is open.
_MIDDLES = 2.0 ** ((np.arange(rules.BINS) - rules.AT_CLIP + 0.5) / 2.0)
UP_TO_SECOND = np.clip(_MIDDLES - 1.0, 0.0, 1.0)  # The excess over C, up to 2 C


def seen_bins(bins: Array, sd: float, least: float = rules.VISIBLE_SDS) -> Array:
    """Return a histogram of rows without the bins that noise hides.

    A bin counts if it, or it and a neighbour, exceed ``least`` sds of their noise.
    """
    limit = least * sd
    pairs = bins[:-1] + bins[1:] > math.sqrt(2.0) * limit
    seen = (bins > limit) | np.append(pairs, False) | np.append(False, pairs)
    return np.where(seen, np.maximum(bins, 0.0), 0.0)


def missed_squares(released: Released, plan: PassPlan, least: float = rules.VISIBLE_SDS) -> float:
    """Return the mean excess of squared scores over the radius of the meat, in units of C^2.

    ``least``: as in :func:`seen_bins`.
    """
    assert released.bins is not None
    if plan.whole or not plan.meat:
        return 0.0
    beyond = np.maximum(_MIDDLES**2 - (plan.meat / plan.clip) ** 2, 0.0)
    return float(seen_bins(released.bins, plan.noise.count, least) @ beyond) / plan.rows


def beyond_second(bins: Array, sd: float) -> float:
    """Return by how much scores beyond 2 C exceed those of a light tail, in units of C.

    ``sum (|s|/C - 2)+`` less ``OF_LIGHT_TAIL sum min(|s|/C - 1, 1)+``, by released counts, less its
    noise sd.
    """
    seen = seen_bins(bins, sd)
    excess = np.maximum(_MIDDLES - 2.0, 0.0) - rules.OF_LIGHT_TAIL * UP_TO_SECOND
    return max(float(seen @ excess) - sd * float(np.linalg.norm(excess[seen > 0.0])), 0.0)


# -- The excess of people over the clip
#
# ``sum (|s| - C)+`` over people bounds what clipping can have moved the sum of scores, in every
# direction at once. Half octaves beyond C hold few of them, so their counts are read off a curve
# through all the bins of the upper tail (``units.md``, 4).


@functools.cache
def _shapes(size: int) -> Array:
    """Return ``exp(b k - c k^2)`` over a grid, (b, c, k): public, and the same for every fit."""
    k = np.arange(size, dtype=float)
    slopes, bends = (np.linspace(*limits) for limits in rules.BULK_TAILS)
    shape: Array = np.exp(slopes[:, None, None] * k - bends[None, :, None] * k * k)
    shape.setflags(write=False)
    return shape


def tail_curve(counts: Array, sd: float, beyond: Array) -> float:
    """Return the mean of ``sum counts beyond`` by a curve through released counts.

    The counts of half octaves of the upper tail, with C in the fourth, are ``exp(a + b k - c
    k^2)``, c >= 0; (b, c) on a grid with equal prior weight, a by least squares: mean over the
    posterior. Bins beyond C that stand far above the curve count in full. ``beyond``: the
    excess that a unit of each bin adds.
    """
    counts = np.asarray(counts, dtype=float)
    shape = _shapes(len(counts))
    weight = 1.0 / (sd * sd + np.maximum(counts, 0.0))
    level = (shape * (weight * counts)).sum(-1) / (shape * shape * weight).sum(-1)
    fit = np.maximum(level, 0.0)[..., None] * shape
    loss = 0.5 * ((counts - fit) ** 2 * weight).sum(-1)
    belief = np.exp(loss.min() - loss)  # (b, c): posterior weights of the curves fit, (b, c, k)
    belief /= belief.sum()
    curve = (belief[..., None] * fit).sum(axis=(0, 1))
    # what bins beyond C, one or two together, hold more than the curve and its noise
    excess, noise = counts - curve, np.sqrt(sd * sd + curve)
    far = np.zeros_like(excess)
    for i in range(3, len(excess)):
        for j in (i + 1, i + 2):
            size = math.sqrt(float(np.sum(noise[i:j] ** 2)))
            if j <= len(excess) and float(np.sum(excess[i:j])) > rules.NEAR_CLEAR_SDS * size:
                far[i:j] = np.maximum(far[i:j], excess[i:j])
    return float((curve + np.maximum(far, 0.0)) @ beyond)


# -- Lengths of the scores of people, and the clip that is chosen by them


#: Share of a bin's own octave: its mean over its lower end, uniform in the logarithm.
_MIDDLE = 1.0 / math.log(2.0)


def clear_bins(counts: Array, sd: float) -> Array:
    """Return a histogram without the bins that are noise.

    The result has the counts in runs of three bins that exceed the noise clearly, and in adjoining
    runs that exceed it a little. Of a hundred bins some run reaches four of its noise sds by
    chance, but seldom one next to a clear run.
    """
    runs = np.convolve(counts, np.ones(3), mode="same")
    grown, near_clear = runs > rules.CLEAR_SDS * sd, runs > rules.NEAR_CLEAR_SDS * sd
    for _ in range(len(counts)):
        wider = grown | (near_clear & (np.convolve(grown, np.ones(3), mode="same") > 0.0))
        if (wider == grown).all():
            break
        grown = wider
    around = np.convolve(grown.astype(float), np.ones(3), mode="same") > 0.0
    return np.where(around, np.maximum(counts, 0.0), 0.0)


def without_rounding(counts: Array) -> Array:
    """Return histograms of squares without the open lowest bin, which holds rounded zeros."""
    out = np.array(counts, dtype=float)
    out[..., 0] = 0.0
    return out


def mean_square(counts: Array, sd: float, up_to: float) -> tuple[float, float]:
    """Return (mean of the squares below their ``up_to`` quantile, number of all squares).

    They are from a histogram by octaves, bin i from ``2^(i - OCTAVE_ZERO)`` on. If no run exceeds
    the noise, the fullest window of ``HIDDEN_BINS`` bins is used.
    """
    clear = clear_bins(counts, sd)
    if not float(clear.sum()) > 0.0:
        at = int(np.argmax(np.convolve(counts, np.ones(rules.HIDDEN_BINS), mode="same")))
        clear = np.zeros_like(counts)
        near = slice(max(at - rules.HIDDEN_BINS // 2, 0), at + rules.HIDDEN_BINS // 2 + 1)
        clear[near] = np.maximum(counts[near], 0.0)
    total = max(float(clear.sum()), 1e-300)
    below = np.clip(up_to * total - (np.cumsum(clear) - clear), 0.0, clear)
    middle = _MIDDLE * 2.0 ** (np.arange(rules.OCTAVES) - rules.OCTAVE_ZERO)
    return float(below @ middle / below.sum()), total


@dataclass(frozen=True, eq=False)
class Lengths:
    """Released histogram of the lengths of scores of one pass."""

    counts: Array  # (OCTAVES,)
    sd: float  # Noise sd of a count

    @functools.cached_property
    def square(self) -> float:
        """Mean squared length of all units, or the least possible value if noise hides all."""
        square, count = mean_square(without_rounding(self.counts), self.sd, rules.SCORE_QUANTILE)
        total = max(float(np.sum(self.counts)), count, 1.0)
        return max(square * count / total, 2.0**-rules.OCTAVE_ZERO)

    def overflow(self, clip: float) -> float:
        """Return ``sum (|s| - C)_+`` by a curve through the upper tail."""
        at = 2.0 * math.log2(clip) + rules.OCTAVE_ZERO  # the bin that holds C, as a real number
        first = int(np.clip(math.floor(at) - 3, 0, rules.OCTAVES - 4))
        last = min(first + 9, rules.OCTAVES)
        middles = 2.0 ** ((np.arange(first, last) + 0.5 - at) / 2.0)
        counts = np.array(self.counts[first:last])
        beyond = clear_bins(self.counts, self.sd)[last:]
        # longer still, and out of the noise
        far = 2.0 ** ((np.arange(last, rules.OCTAVES) + 0.5 - at) / 2.0) - 1.0
        near = tail_curve(counts, self.sd, np.maximum(middles - 1.0, 0.0))
        return clip * (near + float(beyond @ far))

    def part_beyond(self, clip: float) -> float:
        """Return the part of the sum of squared lengths that units longer than C have."""
        size = 2.0 ** (np.arange(rules.OCTAVES) - rules.OCTAVE_ZERO)
        squares = clear_bins(self.counts, self.sd) * size
        return float(squares[size > clip * clip / 2.0].sum() / max(float(squares.sum()), 1e-300))

    def squares(self, clip: float, radius: float) -> float:
        """Return ``sum (min(|s|, C)^2 - R^2)_+``: the excess of clipped squared scores over R^2."""
        square = _MIDDLE * 2.0 ** (np.arange(rules.OCTAVES) - rules.OCTAVE_ZERO)
        excess = np.maximum(np.minimum(square, clip * clip) - radius * radius, 0.0)
        return max(float(self.counts @ excess), 0.0)


def first_clip(p: int, mu_score: float, N: float, square: float) -> float:
    """Return ``C_0 = max(1.5 sqrt p, .30 (mu_s N)^.45) sqrt(m2/p)``."""
    least = rules.UNITS_POLICY.clip * math.sqrt(p)
    return max(least, rules.CLIP_FACTOR_OF_UNITS * (mu_score * N) ** rules.CLIP_POWER) * math.sqrt(
        square / p
    )


def chosen_clip(lengths: Lengths, mu_score: float, N: float, p: int) -> float:
    """Return the C of least expected half width, from a grid about C_0.

    ``nu(C) = 2C/(mu_s N) sqrt(p/m2)`` is the noise of a score and ``o(C)`` the overflow over N,
    both over the root mean square of one coordinate, and part of it in one direction; half width
    ``se cv(max(.6 nu, o)/se)``, ``se^2 = 1/N + nu^2``. Post-processing of the histogram.
    """
    unit = math.sqrt(lengths.square / p)
    grid = first_clip(p, mu_score, N, lengths.square) * 2.0 ** (
        np.array(rules.CLIP_STEPS_OF_UNITS) / 4.0
    )
    noise = 2.0 * grid / (mu_score * N) / unit
    beyond = np.array([lengths.overflow(float(c)) for c in grid])
    over = beyond / (N * unit)
    se = np.sqrt(1.0 / N + noise**2)
    bias = np.maximum(BASE_BIAS * noise, one_way(p) * over)
    width = se * critical_value(bias / se, 0.95)
    return float(grid[int(np.argmin(width))])
