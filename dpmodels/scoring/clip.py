"""Estimates of score lengths, the clip, and the excess over the clip.

By released histograms of the lengths of scores in half octaves (``method.md``, 4 and
8.4). It reads no row.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import BASE_BIAS, Tail, critical_value, one_way
from dpmodels.arrays import Array
from dpmodels.scoring import rules
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.passes import Released

# -- How far scores lie beyond the clip, from their released histogram. It reads no row.
#
# ``sum (|s| - C)+`` over units (rows or people) bounds what clipping can have moved the sum of
# scores, in every direction at once. Half octaves beyond C hold few of them, so their counts are
# read off a curve through all the bins of the upper tail (``method.md``, 4; ``units.md``,
# 4).


#: Slopes and bends, each as ``np.linspace`` takes them.
Grid = tuple[tuple[float, float, int], tuple[float, float, int]]

#: The first bin of the tail: C / 2.8.
_TAIL_FIRST = rules.AT_CLIP - 3
#: A bin holds lengths about its geometric middle, in units of C; the last is open.
_MIDDLES = 2.0 ** ((np.arange(rules.BINS - _TAIL_FIRST) + _TAIL_FIRST - rules.AT_CLIP + 0.5) / 2.0)
_BEYOND = np.where(_MIDDLES > 1.0, _MIDDLES - 1.0, 0.0)


@dataclass(frozen=True)
class Overflow:
    """Excess of scores over the clip, in units of C."""

    # total, error: ``sum (|s|/C - 1)+`` and its error.
    total: float
    error: float
    squares: float  # ``sum (|s|^2/C^2 - rho^2)+``, rho the radius that was asked for


def overflow(
    bins: Array, sd: float, radius: float = math.inf, *, unimodal: bool = False, apart: bool = False
) -> Overflow:
    """Return an estimate of the excess over C from released counts of ``|s|/C`` in half octaves.

    Counts of the tail are ``exp(a + b k - c k^2)``, c >= 0; (b, c) on a grid with equal prior
    weight, a by least squares: mean and sd of the overflow over the posterior. Squares count beyond
    ``radius``, in units of C. ``unimodal``: most long scores are of one length; ``apart``: bins
    beyond C that stand far above the curve count in full.
    """
    counts = np.asarray(bins[_TAIL_FIRST:], dtype=float)
    grid = rules.ONE_LENGTH_TAILS if unimodal else rules.FALLING_TAILS
    mean, error, seen = _tail(counts, sd, grid, _BEYOND, rules.TAIL_BIN_SDS if apart else math.inf)
    squares = np.zeros(len(counts))
    if math.isfinite(radius):
        squares = np.maximum(_MIDDLES**2 - radius**2, 0.0)
    return Overflow(mean, error, float(seen @ squares))


@functools.cache
def _shapes(grid: Grid, size: int) -> Array:
    """Return ``exp(b k - c k^2)`` over a grid, (b, c, k): public, and the same for every fit."""
    k = np.arange(size, dtype=float)
    slopes, bends = (np.linspace(*limits) for limits in grid)
    shape: Array = np.exp(slopes[:, None, None] * k - bends[None, :, None] * k * k)
    shape.setflags(write=False)
    return shape


def _tail(
    counts: Array, sd: float, grid: Grid, beyond: Array, apart: float
) -> tuple[float, float, Array]:
    """Return mean and sd of ``sum counts beyond``, and the counts that they are of.

    By the curve of the tail, and what stands ``apart`` errors above it.
    """
    shape = _shapes(grid, len(counts))
    weight = 1.0 / (sd * sd + np.maximum(counts, 0.0))
    level = (shape * (weight * counts)).sum(-1) / (shape * shape * weight).sum(-1)
    fit = np.maximum(level, 0.0)[..., None] * shape
    loss = 0.5 * ((counts - fit) ** 2 * weight).sum(-1)
    belief = np.exp(loss.min() - loss)  # (b, c): posterior weights of the curves fit, (b, c, k)
    belief /= belief.sum()
    over = fit @ beyond
    mean = float((belief * over).sum())
    error = float(np.sqrt((belief * (over - mean) ** 2).sum()))
    curve = (belief[..., None] * fit).sum(axis=(0, 1))
    # what bins beyond C, one or two together, hold more than the curve and its noise
    excess, noise = counts - curve, np.sqrt(sd * sd + curve)
    far = np.zeros_like(excess)
    for i in range(rules.AT_CLIP - _TAIL_FIRST, len(excess)):
        for j in (i + 1, i + 2):
            size = math.sqrt(float(np.sum(noise[i:j] ** 2)))
            if j <= len(excess) and float(np.sum(excess[i:j])) > apart * size:
                far[i:j] = np.maximum(far[i:j], excess[i:j])
    far = np.maximum(far, 0.0)
    if far.any():
        error = math.hypot(error, sd * math.sqrt(float(np.sum(beyond[far > 0.0] ** 2))))
    return mean + float(far @ beyond), error, curve + far


def tail_curve(counts: Array, sd: float, beyond: Array) -> tuple[float, float]:
    """Return mean and error of ``sum counts beyond`` by the curve of the tail.

    ``counts`` are released counts of half octaves of the upper tail, with C in the fourth;
    ``beyond``: excess that a unit of each adds.
    """
    counts, apart = np.asarray(counts, dtype=float), rules.TAIL_BIN_SDS_OF_PEOPLE
    mean, error, _ = _tail(counts, sd, rules.BULK_TAILS, beyond, apart)
    return mean, error


# -- Excess over the clip, from the released histogram of a last pass. It reads no row


def tail_weight(bins: Array, clip: float, sd: float) -> float:
    """Return t: how far rows beyond C may have moved the sum of scores.

    h1, h2 are the two half octaves below C and h3 the one above, r the released ratio of
    neighbours: ``t = .35 C max(0, ((h2 r + h3)/2 - r sd)/(1 - r))``.
    """
    h1, h2, h3 = (max(float(bins[rules.AT_CLIP + i]), 0.0) for i in (-2, -1, 0))
    r = min(max((h2 + h3) / max(h1 + h2, sd), rules.NEIGHBOUR_RATIOS[0]), rules.NEIGHBOUR_RATIOS[1])
    return rules.MOVED_PART * clip * max(0.0, ((h2 * r + h3) / 2.0 - r * sd) / (1.0 - r))


def tail_of(released: Released, plan: PassPlan) -> Tail:
    """Return the excess over C from the released histogram of the last pass."""
    assert released.bins is not None
    if plan.whole:
        return Tail()
    n, bins, sd = plan.rows, released.bins, plan.count
    radius = plan.meat / plan.clip if plan.meat else math.inf
    excess = overflow(bins, sd, radius, unimodal=plan.unimodal, apart=True)
    near = tail_weight(bins, plan.clip, sd)
    unseen, one_sided = 0.0, 1.0
    if plan.of_weights and plan.mu_far:
        # Tails of weights are longer than the curve's: single rows lie many C out, too few for a
        # count to show. Where few rows come near C none is taken to be beyond.
        below = bins[rules.AT_CLIP - 4 : rules.AT_CLIP]
        count_below = max(float(np.sum(below)) - 2.0 * sd * math.sqrt(len(below)), 0.0)
        unseen = plan.clip * min(rules.UNSEEN_TAIL_SDS * sd, rules.UNSEEN_TAIL_PART * count_below)
    if released.signed is not None:
        # The part beyond .71 C that has one sign; noise counts as one sign. The even part moves
        # nothing, but counts in part if mu n is small.
        counts, net = bins[rules.AT_CLIP - 1 :], released.signed[rules.AT_CLIP - 1 :]
        by_noise = sd * math.sqrt(len(counts))
        net_sum, total = abs(float(np.sum(net))), float(np.sum(counts))
        even = rules.EVEN_PART * min(1.0, rules.EVEN_STRONG / plan.strength)
        one_sided = even + min(1.0, (net_sum + by_noise) / max(total, by_noise))
    return Tail(
        near / n, plan.clip * excess.total / n, plan.clip * excess.error / n, one_sided,
        excess.squares / n, unseen / n,
    )  # fmt: skip


# -- Which way scores beyond the clip point, from the released sum of their directions


@dataclass(frozen=True, eq=False)
class LongScores:
    """The sum E of the directions ``sign(psi) w/|w|`` of scores beyond C, with its noise."""

    towards: Array  # (r,): E, a row counts 1
    sd: float
    clip: float  # C
    beyond: float  # By how many C a score beyond it is longer on average

    @property
    def part(self) -> float:
        """Return the part of E above its noise: ``(1 - chi2_.99(r) sd^2/|E|^2)+``."""
        from scipy.special import chdtri

        least = float(chdtri(len(self.towards), rules.FAR_CHANCE)) * self.sd**2
        return max(0.0, 1.0 - least / max(float(self.towards @ self.towards), 1e-300))

    @property
    def missing(self) -> tuple[Array, float]:
        """Return the score sum lost by clipping, above its noise, and its noise sd."""
        size = self.clip * self.beyond * self.part
        return size * self.towards, size * self.sd

    def of_groups(self, rows: Array) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Return the scores beyond C along groups that do not count as missing yet.

        Parameters
        ----------
        rows : (k, r) array
            A public row of each group, in w: a level of a factor, an end of a numeric variable.

        Returns
        -------
        moved : (k, r) array
            Part of the score sum that was clipped if each of these scores is twice as long as C.
        allowed : (k, r) array
            The part of ``moved`` that intervals allow for.
        seen : (k,) array
            Groups with more such scores than noise explains (jointly for all k groups).
        """
        from scipy.special import ndtri

        directions = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        counts = directions @ ((1.0 - self.part) * self.towards)
        above = np.maximum(np.abs(counts) - rules.GROUP_NOISE_SDS * self.sd, 0.0)
        allowed = rules.GROUP_EXCESS * np.copysign(above, counts)
        threshold = -float(ndtri(rules.GROUP_CHANCE / (2.0 * max(len(rows), 1)))) * self.sd
        moved = self.clip * directions * counts[:, None]
        return moved, self.clip * directions * allowed[:, None], np.abs(counts) > threshold


def long_scores(released: Released, plan: PassPlan) -> LongScores:
    """Return which way scores beyond C point; their mean length is read off the histogram."""
    assert released.far is not None and released.bins is not None
    total = overflow(released.bins, plan.count, apart=True).total
    many = float(np.sum(np.maximum(released.bins[rules.AT_CLIP:], 0.0)))
    low, high = rules.MEAN_EXCESS
    beyond = min(max(total / max(many, rules.GROUP_NOISE_SDS * plan.count), low), high)
    return LongScores(released.far, plan.noise.far, plan.clip, beyond)


# -- Lengths of the scores of people, and the clip that is chosen by them


#: Share of a bin's own octave: its mean over its lower end, uniform in the logarithm.
_MIDDLE = 1.0 / math.log(2.0)
# -- Statistics of a released histogram of half octaves


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

    def overflow(self, clip: float) -> tuple[float, float]:
        """Return ``(sum (|s| - C)_+, its error)`` by a curve through the upper tail."""
        at = 2.0 * math.log2(clip) + rules.OCTAVE_ZERO  # the bin that holds C, as a real number
        first = int(np.clip(math.floor(at) - 3, 0, rules.OCTAVES - 4))
        last = min(first + 9, rules.OCTAVES)
        middles = 2.0 ** ((np.arange(first, last) + 0.5 - at) / 2.0)
        counts = np.array(self.counts[first:last])
        beyond = clear_bins(self.counts, self.sd)[last:]
        mean, error = tail_curve(counts, self.sd, np.maximum(middles - 1.0, 0.0))
        if beyond.any():  # longer still, and out of the noise
            far = 2.0 ** ((np.arange(last, rules.OCTAVES) + 0.5 - at) / 2.0) - 1.0
            mean += float(beyond @ far)
            error = math.hypot(error, self.sd * float(np.linalg.norm(far[beyond > 0.0])))
        return mean * clip, error * clip

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
    ``se cv(max(.35 nu, o)/se)``, ``se^2 = 1/N + nu^2``. Post-processing of the histogram.
    """
    unit = math.sqrt(lengths.square / p)
    grid = first_clip(p, mu_score, N, lengths.square) * 2.0 ** (
        np.array(rules.CLIP_STEPS_OF_UNITS) / 4.0
    )
    noise = 2.0 * grid / (mu_score * N) / unit
    beyond = np.array([lengths.overflow(float(c))[0] for c in grid])
    over = beyond / (N * unit)
    se = np.sqrt(1.0 / N + noise**2)
    bias = np.maximum(BASE_BIAS * noise, one_way(p) * over)
    width = se * critical_value(bias / se, 0.95)
    return float(grid[int(np.argmin(width))])
