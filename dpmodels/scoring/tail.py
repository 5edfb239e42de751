"""What lies beyond the clip, from the released histogram of a last pass. Sees no row.

``theory.md``, 4; what an interval makes of it: :mod:`dpmodels.after.allowance`.
"""

from __future__ import annotations

import math

import numpy as np

from dpmodels.after.allowance import Tail
from dpmodels.arrays import Array
from dpmodels.scoring.overflow import overflow
from dpmodels.scoring.release import Released
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.sums import AT_CLIP

__all__ = ["tail_of", "tail_weight"]

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
    if plan.people:
        found = overflow(bins, plan.count)
        return Tail(0.0, plan.clip * found.total / n, plan.clip * found.error / n)
    radius = plan.meat / plan.clip if plan.meat else math.inf
    found = overflow(bins, plan.count, radius, humped=plan.humped, apart=True)
    near = tail_weight(bins, plan.clip, plan.count)
    return Tail(
        near / n,
        plan.clip * found.total / n,
        plan.clip * found.error / n,
        _one_sided(released, plan),
        found.squares / n,
    )


def _one_sided(released: Released, plan: PassPlan) -> float:
    """Return how much of what is beyond .71 C has one sign; noise counts as one sign."""
    if released.signed is None:
        return 1.0
    assert released.bins is not None
    counts, net = released.bins[AT_CLIP - 1 :], released.signed[AT_CLIP - 1 :]
    by_noise = plan.count * math.sqrt(len(counts))
    net_sum, total = abs(float(np.sum(net))), float(np.sum(counts))
    return min(1.0, (net_sum + by_noise) / max(total, by_noise))
