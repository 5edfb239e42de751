"""How far scores lie beyond the clip, from their released histogram. Sees no row.

``sum (|s| - C)+`` over units (rows or people) bounds what clipping can have moved the sum of
scores, in every direction at once. Half octaves beyond C hold few of them, so their counts are
read off a curve through all the bins of the upper tail (``theory.md``, 4; ``units/theory.md``, 4).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.allowance import Tail
from dpmodels.arrays import Array
from dpmodels.scoring.release import Released
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.sums import AT_CLIP, BINS

#: Slopes and bends, each as ``np.linspace`` takes them.
Grid = tuple[tuple[float, float, int], tuple[float, float, int]]

#: The first bin of the tail: C / 2.8.
_FIRST = AT_CLIP - 3
#: Log slopes and curvatures of counts over half octaves. Counts fall ever faster or in proportion
#: (a power law), at most as fast as given; they may rise a little at first.
_FALLING = (-1.6, 0.7, 47), (0.0, 0.6, 13)
#: Where most long scores are of one length, counts rise to it and fall quickly behind.
_HUMPED = (-1.6, 3.0, 47), (0.2, 2.0, 13)
#: Where C may lie in the bulk: counts of normal scores fall ever faster, bends up to 2.
_WIDE = (-1.6, 3.0, 47), (0.0, 2.0, 21)
#: Bins beyond C that stand so many errors above the curve count as they are.
_APART = 2.5
#: A bin holds lengths about its geometric middle, in units of C; the last is open.
_MIDDLES = 2.0 ** ((np.arange(BINS - _FIRST) + _FIRST - AT_CLIP + 0.5) / 2.0)
_BEYOND = np.where(_MIDDLES > 1.0, _MIDDLES - 1.0, 0.0)


@dataclass(frozen=True)
class Overflow:
    """What lies beyond, in units of C.

    Attributes
    ----------
    total, error : float
        ``sum (|s|/C - 1)+`` and its error.
    squares : float
        ``sum (|s|^2/C^2 - rho^2)+``, rho the radius that was asked for.
    """

    total: float
    error: float
    squares: float


def overflow(
    bins: Array, sd: float, radius: float = math.inf, *, humped: bool = False, apart: bool = False
) -> Overflow:
    """Return an estimate of what lies beyond C.

    Parameters
    ----------
    bins : (BINS,) array
        Released counts of ``|s|/C`` by half octaves.
    sd : float
        Of their noise.
    radius : float
        In units of C, beyond which squares count; inf: none.
    humped : bool
        Most long scores are of one length.
    apart : bool
        Bins beyond C that stand far above the curve count in full.

    Notes
    -----
    Counts of the tail are ``exp(a + b k - c k^2)``, c >= 0; (b, c) on a grid with equal prior
    weight, a by least squares: mean and sd of the overflow over the posterior.
    """
    k = np.arange(BINS - _FIRST, dtype=float)
    counts = np.asarray(bins[_FIRST:], dtype=float)
    belief, fit = _curves(counts, sd, _HUMPED if humped else _FALLING)
    mean, error = _moments(belief, fit, _BEYOND)
    curve = (belief[..., None] * fit).sum(axis=(0, 1))
    far = _far(counts - curve, np.sqrt(sd * sd + curve)) if apart else np.zeros_like(curve)
    if far.any():
        error = math.hypot(error, sd * math.sqrt(float(np.sum(_BEYOND[far > 0.0] ** 2))))
    squares = np.zeros_like(k)
    if math.isfinite(radius):
        squares = np.maximum(_MIDDLES**2 - radius**2, 0.0)
    return Overflow(mean + float(far @ _BEYOND), error, float((curve + far) @ squares))


@functools.cache
def _shapes(grid: Grid, size: int) -> Array:
    """Return ``exp(b k - c k^2)`` over a grid, (b, c, k): public, and the same for every fit."""
    k = np.arange(size, dtype=float)
    slopes, bends = (np.linspace(*one) for one in grid)
    shape: Array = np.exp(slopes[:, None, None] * k - bends[None, :, None] * k * k)
    shape.setflags(write=False)
    return shape


def _curves(counts: Array, sd: float, grid: Grid) -> tuple[Array, Array]:
    """Return (posterior weights (b, c), curves (b, c, k)) of counts of the tail."""
    shape = _shapes(grid, len(counts))
    weight = 1.0 / (sd * sd + np.maximum(counts, 0.0))
    level = (shape * (weight * counts)).sum(-1) / (shape * shape * weight).sum(-1)
    fit = np.maximum(level, 0.0)[..., None] * shape
    loss = 0.5 * ((counts - fit) ** 2 * weight).sum(-1)
    belief = np.exp(loss.min() - loss)
    belief /= belief.sum()
    return belief, fit


def _moments(belief: Array, fit: Array, beyond: Array) -> tuple[float, float]:
    """Return mean and sd of what lies beyond."""
    over = fit @ beyond
    mean = float((belief * over).sum())
    return mean, float(np.sqrt((belief * (over - mean) ** 2).sum()))


def tail_curve(counts: Array, sd: float, beyond: Array) -> tuple[float, float]:
    """Return mean and error of ``sum counts beyond`` by the curve of the tail.

    Parameters
    ----------
    counts : (k,) array
        Released counts of half octaves of the upper tail.
    sd : float
        Of their noise.
    beyond : (k,) array
        What a unit of each adds.
    """
    return _moments(*_curves(np.asarray(counts, dtype=float), sd, _WIDE), beyond)


def _far(excess: Array, sd: Array) -> Array:
    """Return what bins beyond C, one or two together, hold more than the curve and its noise."""
    out = np.zeros_like(excess)
    for i in range(AT_CLIP - _FIRST, len(excess)):
        for j in (i + 1, i + 2):
            error = math.sqrt(float(np.sum(sd[i:j] ** 2)))
            if j <= len(excess) and float(np.sum(excess[i:j])) > _APART * error:
                out[i:j] = np.maximum(out[i:j], excess[i:j])
    return np.maximum(out, 0.0)


# -- What lies beyond the clip, from the released histogram of a last pass. Sees no row


#: With weights: errors of a count by which rows may hide beyond C, at most this part of those
#: that are within two octaves below it.
UNSEEN, OF_NEAR = 1.1, 0.12
#: Part of C that a row beyond it may have moved the sum by.
BEYOND = 0.35
#: Bounds of the ratio of neighbouring bins.
RATIO = (0.1, 0.7)


def tail_weight(bins: Array, clip: float, sd: float) -> float:
    """Return t: how far rows beyond C may have moved the sum of scores.

    h1, h2 are the two half octaves below C and h3 the one above, r the released ratio of
    neighbours: ``t = .35 C max(0, ((h2 r + h3)/2 - r sd)/(1 - r))``.
    """
    h1, h2, h3 = (max(float(bins[AT_CLIP + i]), 0.0) for i in (-2, -1, 0))
    r = min(max((h2 + h3) / max(h1 + h2, sd), RATIO[0]), RATIO[1])
    return BEYOND * clip * max(0.0, ((h2 * r + h3) / 2.0 - r * sd) / (1.0 - r))


def tail_of(released: Released, plan: PassPlan) -> Tail:
    """Return what lies beyond C, by the released histogram of the last pass."""
    assert released.bins is not None
    if plan.whole:
        return Tail()
    n, bins = plan.rows, released.bins
    radius = plan.meat / plan.clip if plan.meat else math.inf
    found = overflow(bins, plan.count, radius, humped=plan.humped, apart=True)
    near = tail_weight(bins, plan.clip, plan.count)
    return Tail(
        near / n,
        plan.clip * found.total / n,
        plan.clip * found.error / n,
        _one_sided(released, plan),
        found.squares / n,
        _unseen(bins, plan) / n,
    )


def _unseen(bins: Array, plan: PassPlan) -> float:
    """Return what rows with weights may be beyond C unseen, where long scores were asked for.

    Tails of weights are longer than the curve's: single rows lie many C out, too few for a count
    to show. Where few rows come near C none is taken to be beyond.
    """
    if not (plan.of_weights and plan.mu_far):
        return 0.0
    below = bins[AT_CLIP - 4 : AT_CLIP]
    near = max(float(np.sum(below)) - 2.0 * plan.count * math.sqrt(len(below)), 0.0)
    return plan.clip * min(UNSEEN * plan.count, OF_NEAR * near)


def _one_sided(released: Released, plan: PassPlan) -> float:
    """Return how much of what is beyond .71 C has one sign; noise counts as one sign."""
    if released.signed is None:
        return 1.0
    assert released.bins is not None
    counts, net = released.bins[AT_CLIP - 1 :], released.signed[AT_CLIP - 1 :]
    by_noise = plan.count * math.sqrt(len(counts))
    net_sum, total = abs(float(np.sum(net))), float(np.sum(counts))
    return min(1.0, (net_sum + by_noise) / max(total, by_noise))
