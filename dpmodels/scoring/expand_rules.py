"""Public rules of passes over units: shares, radii, and a clip chosen off a released histogram.

Functions of (mu, N, p) and of released numbers (``expand_theory.md``, 3 and 4). Shares are shares
of mu^2. Lengths of scores and radii are in the coordinates of a pass.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from dpmodels.after.wald import critical_value
from dpmodels.arrays import Array
from dpmodels.exact.prove import reach
from dpmodels.exact.sets import Ball, Mark, Trace
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.scoring.expand_pass import OCTAVE_ZERO, OCTAVES
from dpmodels.scoring.overflow import tail_curve
from dpmodels.scoring.rules import Manner, Noise, PassPlan
from dpmodels.scoring.sums import softened

#: Share of a bin's own octave: its mean over its lower end, uniform in the logarithm.
_MIDDLE = 1.0 / math.log(2.0)
#: Runs of three bins that are clear of the noise, and such beside them, in noise sds of a bin.
CLEAR, NEAR = 9.0, 4.0
#: Parts of a bin, where a function of lengths is averaged over it.
_PARTS = 8
#: Bins that hold most units, where noise hides which.
WINDOW = 7
#: Quantiles of the histograms up to which squares are averaged: of scales, of scores.
SCALE_UP_TO, SCORES_UP_TO = 0.98, 0.995
#: Least C over sqrt p, and factor and power of mu_s N in C_0.
LEAST_C, GROWS, POWER = 1.5, 0.30, 0.45
#: C is looked for at C_0 2^(k/4).
STEPS_OF_C = np.arange(-4, 13)
#: Parts of the noise of a score, and of the overflow, that count as bias where C is chosen.
NOISE_PART, OVERFLOW_PART = 0.35, 0.45
#: Radius^2 of the information over its trace: least, factor and power of mu_H N / p.
INFORMATION = (3.0, 0.22, 0.7)
#: Radius^2 of the meat over the mean square of scores: least, and factor of a root of mu_J N / p.
MEAT = (3.0, 0.8)
#: Radius^2 of the ordinary information over the trace.
ORDINARY = 2.0
#: Forecast of the released noise of the information up to which intervals are narrow; beyond the
#: second number coefficients are not determined.
FINE, LOUD = 0.35, 0.4
#: The information is shrunk towards the identity of the coordinates it is looked at in.
UNITS = Manner(shrinks=True)
#: Largest squared score of a row that counts in the scale, over p.
CUT = 6.0


@dataclass(frozen=True)
class UnitShares:
    """Shares within a pass: of the histogram of lengths, and of the sums."""

    lengths: float
    information: float
    meat: float
    score: float
    spread: float = 0.0
    scale: float = 0.0


#: Passes before the last, and the last.
EARLY = UnitShares(0.08, 0.30, 0.20, 0.42)
LAST = UnitShares(0.06, 0.10, 0.05, 0.76, 0.03)
#: What the scale takes from the scores of an early pass, where a model learns from it.
OF_SCALE = 0.04


@dataclass(frozen=True)
class UnitRules:
    """Shares of the steps of a fit.

    Attributes
    ----------
    places, scales : float
        Of the histograms before the first pass.
    passes : tuple of float
        Of the passes. All together 1.
    """

    places: float
    scales: float
    passes: tuple[float, ...]

    def names(self) -> tuple[str, ...]:
        """Return what ``split=`` calls the shares."""
        order = ("first", "second", "third", "fourth")[: len(self.passes) - 1]
        return ("places", "scales", *order, "last")

    def values(self) -> tuple[float, ...]:
        """Return the shares in that order."""
        return (self.places, self.scales, *self.passes)

    @classmethod
    def of(cls, values: tuple[float, ...]) -> UnitRules:
        """Return the rules with these shares."""
        return cls(values[0], values[1], values[2:])


LINEAR_UNITS = UnitRules(0.02, 0.04, (0.09, 0.12, 0.73))
NONLINEAR_UNITS = UnitRules(0.02, 0.04, (0.05, 0.07, 0.10, 0.72))


def forecast(mu: float, N: int, p: int, last: float) -> float:
    """Return the public forecast of the released noise of the information over its size.

    ``rho = 2 p^1.5 max(3, .22 (m/p)^.7)/m``, ``m = mu_H N`` of the last pass.

    Parameters
    ----------
    mu : float
        Of the whole fit.
    last : float
        Share of the last pass.
    """
    m = mu * math.sqrt(LAST.information * last) * N
    if not m > 0.0:
        return math.inf
    least, factor, power = INFORMATION
    return 2.0 * p**1.5 * max(least, factor * (m / p) ** power) / m


def needed(mu: float, N: int, p: int, last: float) -> tuple[int, float, int]:
    """Return (the N, the factor of mu, the largest p) at which the forecast is ``FINE``. Public."""
    low, high = 1.0, 2.0
    while forecast(mu * high, N, p, last) > FINE and high < 1e9:
        low, high = high, high * 2.0
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if forecast(mu * middle, N, p, last) > FINE else (low, middle)
    most = 0
    while most < p and forecast(mu, N, most + 1, last) <= FINE:
        most += 1
    return math.ceil(N * high), high, most


# -- What a released histogram of half octaves says


def kept(counts: Array, sd: float) -> Array:
    """Return a histogram without the bins that are noise.

    Kept are runs of three bins that are clear of the noise, and what adjoins them in runs that
    stand out a little: of a hundred bins some run reaches four of its own noise sds by chance, but
    seldom beside the others.
    """
    runs = np.convolve(counts, np.ones(3), mode="same")
    grown, some = runs > CLEAR * sd, runs > NEAR * sd
    for _ in range(len(counts)):
        wider = grown | (some & (np.convolve(grown, np.ones(3), mode="same") > 0.0))
        if (wider == grown).all():
            break
        grown = wider
    around = np.convolve(grown.astype(float), np.ones(3), mode="same") > 0.0
    return np.where(around, np.maximum(counts, 0.0), 0.0)


def mean_square(counts: Array, sd: float, up_to: float) -> tuple[float, float]:
    """Return (mean of the numbers below their ``up_to`` quantile, how many there are).

    From a histogram of octaves, bin i from ``2^(i - OCTAVE_ZERO)`` on. Where no run is clear of the
    noise the fullest window of ``WINDOW`` bins stands for it.
    """
    found = kept(counts, sd)
    if not float(found.sum()) > 0.0:
        at = int(np.argmax(np.convolve(counts, np.ones(WINDOW), mode="same")))
        found = np.zeros_like(counts)
        near = slice(max(at - WINDOW // 2, 0), at + WINDOW // 2 + 1)
        found[near] = np.maximum(counts[near], 0.0)
    total = max(float(found.sum()), 1e-300)
    below = np.clip(up_to * total - (np.cumsum(found) - found), 0.0, found)
    middle = _MIDDLE * 2.0 ** (np.arange(OCTAVES) - OCTAVE_ZERO)
    return float(below @ middle / below.sum()), total


@dataclass(frozen=True, eq=False)
class Lengths:
    """The released histogram of the lengths of scores of one pass.

    Attributes
    ----------
    counts : (OCTAVES,) array
    sd : float
        Of a count.
    """

    counts: Array
    sd: float

    @functools.cached_property
    def square(self) -> float:
        """Mean squared length of all units; of none that is seen the least there is."""
        square, there = mean_square(self.counts, self.sd, SCORES_UP_TO)
        total = max(float(np.sum(self.counts)), there, 1.0)
        return max(square * there / total, 2.0**-OCTAVE_ZERO)

    def overflow(self, clip: float) -> tuple[float, float]:
        """Return ``(sum (|s| - C)_+, its error)`` by a curve through the upper tail."""
        at = 2.0 * math.log2(clip) + OCTAVE_ZERO  # the bin that holds C, as a real number
        first = int(np.clip(math.floor(at) - 3, 0, OCTAVES - 4))
        last = min(first + 9, OCTAVES)
        middles = 2.0 ** ((np.arange(first, last) + 0.5 - at) / 2.0)
        counts = np.array(self.counts[first:last])
        beyond = kept(self.counts, self.sd)[last:]
        mean, error = tail_curve(counts, self.sd, np.maximum(middles - 1.0, 0.0))
        if beyond.any():  # longer still, and out of the noise
            far = 2.0 ** ((np.arange(last, OCTAVES) + 0.5 - at) / 2.0) - 1.0
            mean += float(beyond @ far)
            error = math.hypot(error, self.sd * float(np.linalg.norm(far[beyond > 0.0])))
        return mean * clip, error * clip


    def lengthened(self, clip: float) -> float:
        """Return what softening (``sums.softened``) adds to the lengths of scores below C."""
        inside = (np.arange(_PARTS) + 0.5) / _PARTS  # of a bin, even in the logarithm
        size = 2.0 ** ((np.arange(OCTAVES)[:, None] + inside - OCTAVE_ZERO) / 2.0)
        grown = softened(size, clip)
        more = np.where(size < clip, np.minimum(grown, clip) - size, 0.0)
        return float(self.counts @ more.mean(axis=1))

    def plain(self, clip: float) -> bool:
        """Whether scores just below C would stand for more than is beyond it: they stay."""
        return self.lengthened(clip) > self.overflow(clip)[0]


def first_clip(p: int, mu_score: float, N: float, square: float) -> float:
    """Return ``C_0 = max(1.5 sqrt p, .30 (mu_s N)^.45) sqrt(m2/p)``."""
    return max(LEAST_C * math.sqrt(p), GROWS * (mu_score * N) ** POWER) * math.sqrt(square / p)


def chosen_clip(lengths: Lengths, mu_score: float, N: float, p: int) -> float:
    """Return C: of a grid about C_0 the one of least expected half width.

    ``nu(C) = 2C/(mu_s N) sqrt(p/m2)`` is the noise of a score and ``o(C)`` the overflow over N,
    both over the root mean square of one coordinate (.45 of it where those just below C stand for
    it); half width ``se cv(max(.35 nu, o)/se)``, ``se^2 = 1/N + nu^2``. Post-processing of the
    histogram.
    """
    unit = math.sqrt(lengths.square / p)
    grid = first_clip(p, mu_score, N, lengths.square) * 2.0 ** (STEPS_OF_C / 4.0)
    noise = 2.0 * grid / (mu_score * N) / unit
    beyond = np.array([lengths.overflow(float(c))[0] for c in grid])
    grown = np.array([lengths.lengthened(float(c)) for c in grid])
    over, part = beyond / (N * unit), np.where(grown > beyond, 1.0, OVERFLOW_PART)
    se = np.sqrt(1.0 / N + noise**2)
    bias = np.maximum(NOISE_PART * noise, part * over)
    width = se * critical_value(bias / se, 0.95)
    return float(grid[int(np.argmin(width))])


def shares_of(*, last: bool, scale: bool) -> UnitShares:
    """Return the shares within a pass."""
    if last:
        return LAST
    return replace(EARLY, scale=OF_SCALE, score=EARLY.score - OF_SCALE) if scale else EARLY


def unit_pass(
    lengths: Lengths, mu: float, N: int, p: int, relation: str, trace: float, *, last: bool,
    scale: bool, tail: int, clip: float = 0.0, stops: bool = False, least: float = 0.0,
) -> PassPlan:  # fmt: skip
    """Return a pass: radii by what was released, and the noise of its sums.

    Parameters
    ----------
    lengths : Lengths
        Of this pass.
    mu : float
        Of the pass, its histogram of lengths included.
    N : int
        Units that the pass reads (public, a guess, or expected under coins).
    trace : float
        Trace of the information of a unit in the coordinates of the pass, as last released.
    tail : int
        Units that meat and ordinary information are of.
    clip : float
        C, where a model chooses it; 0: by :func:`chosen_clip`.
    stops : bool
        No score is longer than C: there is none for which those just below should stand. Nor
        should they where they would stand for more than there is (:meth:`Lengths.plain`).
    least : float
        C is no smaller, where the histogram chooses it.
    """
    share = shares_of(last=last, scale=scale)

    def part(one: float) -> float:
        return mu * math.sqrt(one)

    lowest, factor, power = INFORMATION
    H2 = trace * max(lowest, factor * (part(share.information) * N / p) ** power)
    J2 = lengths.square * max(MEAT[0], MEAT[1] * math.sqrt(part(share.meat) * tail / p))
    L2 = ORDINARY * trace if share.spread else 0.0
    C = clip or max(chosen_clip(lengths, part(share.score), N, p), least)
    own, twice = reach(Gram(Trace(p)), relation, "l2"), reach(Sum(Ball(p)), relation, "l2")
    noise = Noise(
        information=own * H2 / part(share.information),
        score=twice * C / part(share.score),
        meat=own * J2 / part(share.meat),
        spread=own * L2 / part(share.spread) if L2 else 0.0,
        scale=CUT * p * lengths.square / p / part(share.scale) if share.scale else 0.0,
        count=reach(Sum(Mark(2)), relation, "l2") / part(share.lengths),
    )
    joint = share.information + share.meat + share.spread + share.score
    return PassPlan(
        p, last, part(joint), part(share.scale), 0.0, math.sqrt(H2), C,
        math.sqrt(J2), math.sqrt(L2), noise, relation, N, tail, weighted=True, people=True,
        manner=UNITS, plain=stops or lengths.plain(C),
        strength=mu * N, cut=CUT * lengths.square / p,
    )  # fmt: skip
