"""How far the scores of people lie beyond the clip, from their released histogram. Sees no row.

``sum (|s_p| - C)+`` bounds what clipping can have moved the sum of scores, in every direction at
once. Half octaves beyond C hold few people, so their counts are read off a curve through all the
bins of the upper tail (``units/theory.md``, 4).
"""

from __future__ import annotations

import numpy as np

from dpmodels.arrays import Array
from dpmodels.scoring.sums import AT_CLIP, BINS

__all__ = ["overflow"]

#: The first bin of the tail: C / 2.8.
_FIRST = AT_CLIP - 3
#: Log slopes and curvatures of counts over half octaves. Counts fall ever faster or in proportion
#: (a power law), at most as fast as given; they may rise a little at first.
_SLOPES = np.linspace(-1.6, 0.7, 47)[:, None]
_BENDS = np.linspace(0.0, 0.6, 13)


def overflow(bins: Array, sd: float) -> tuple[float, float]:
    """Return an estimate of ``sum (|s_p|/C - 1)+`` over people, and its error.

    Parameters
    ----------
    bins : (BINS,) array
        Released counts of ``|s_p|/C`` by half octaves.
    sd : float
        Of their noise.

    Notes
    -----
    Counts of the tail are ``exp(a + b k - c k^2)``, c >= 0; (b, c) on a grid with equal prior
    weight, a by least squares: mean and sd of the overflow over the posterior.
    """
    k = np.arange(BINS - _FIRST, dtype=float)
    counts = np.asarray(bins[_FIRST:], dtype=float)
    shape = np.exp(_SLOPES[:, :, None] * k - _BENDS[None, :, None] * k * k)
    weight = 1.0 / (sd * sd + np.maximum(counts, 0.0))
    level = (shape * (weight * counts)).sum(-1) / (shape * shape * weight).sum(-1)
    fit = np.maximum(level, 0.0)[..., None] * shape
    loss = 0.5 * ((counts - fit) ** 2 * weight).sum(-1)
    belief = np.exp(loss.min() - loss)
    # a bin holds lengths about its geometric middle; the last is open
    beyond = np.maximum(2.0 ** ((k + _FIRST - AT_CLIP + 0.5) / 2.0) - 1.0, 0.0)
    beyond[: AT_CLIP - _FIRST] = 0.0
    belief /= belief.sum()
    over = fit @ beyond
    mean = float((belief * over).sum())
    return mean, float(np.sqrt((belief * (over - mean) ** 2).sum()))
