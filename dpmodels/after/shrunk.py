"""Coefficients for predictions: a posterior mean about the public guess. Sees no row.

``theory.md``, 11. A released estimate may be noise; a prediction from it need not be worse than the
middle of the declared range. Post-processing of released and public numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpmodels.families import Link

#: Variance that the prior gives the predictors together, on the scale of the link: that of the
#: latent response, as if they explained half of it; of logs of counts and amounts a factor of e.
LATENT = {"logit": math.pi**2 / 3.0, "probit": 1.0, "cloglog": math.pi**2 / 6.0, "log": 1.0}
#: Links of which there is a public guess.
HANDLED = frozenset({"identity", *LATENT})
#: Means of an event are believed between these ends; of an amount from this part of the range on.
EVENTS, AMOUNTS = (0.01, 0.99), 1e-3
#: So many variances has a level of which nothing is guessed: that beside an offset.
UNKNOWN = 1e6
#: A column varies at least by this part of its declared box, at most by this many of it.
LEAST, MOST = 0.002, 3.0


def prior(
    link: Link, response: tuple[float, float], stats: Mapping[str, float]
) -> tuple[float, float, float]:
    """Return (middle and variance of the level, variance of the predictors), in link units.

    Parameters
    ----------
    response : (low, high)
        Declared or bought range.
    stats : mapping
        Of a linear model: half of the variance of the response by ``sigma`` and ``r_squared``, or
        as large as the residual's, or as the range has it, as far as they are released.
    """
    low, high = response
    if link.name == "identity":
        box = (high - low) ** 2 / 12.0
        unexplained = max(1.0 - stats.get("r_squared", 0.5), 1e-6)
        tau2 = 0.5 * stats.get("sigma", math.inf) ** 2 / unexplained
        return (low + high) / 2.0, box, min(tau2, box)
    ends = (max(low, AMOUNTS * high), high) if link.name == "log" else EVENTS
    low, high = (link.forward(v) for v in ends)
    box = (high - low) ** 2 / 12.0
    return (low + high) / 2.0, box, min(LATENT[link.name], box)


def shrunken(
    b: Array, V: Array, S: Array | None, ends: Array, one: int,
    guess: tuple[float, float, float],
) -> Array:  # fmt: skip
    """Return ``b - V (V + D)^{-1} (b - b_0)`` about the mean row.

    There the level has the variance of the declared range, and k slopes share the variance of the
    predictors: ``tau^2/(k var_j)``. Where V is small nothing moves, and it does so continuously.

    Parameters
    ----------
    b, V : (p,) and (p, p) arrays
        Estimate, and its printed covariance: sampling and privacy.
    S : (p, p) array or None
        Released information of the columns, in any unit; None: by their box.
    ends : (p, 2) array
        Ranges of the columns.
    one : int
        Which is the constant.
    guess : (middle, variance of the level, variance of the predictors)
        As :func:`prior` gives them.
    """
    middle, level, tau2 = guess
    slopes = np.delete(np.arange(len(b)), one)
    low, high = ends[slopes].T
    box = (high - low) ** 2 / 12.0
    mean, var = (low + high) / 2.0, box
    if S is not None:
        mean = np.clip(S[one, slopes] / S[one, one], low, high)
        var = np.diag(S)[slopes] / S[one, one] - mean**2
    var = np.clip(var, LEAST * box, MOST * box)
    turn, D, at = np.eye(len(b)), np.full(len(b), level), np.zeros(len(b))
    turn[one, slopes], at[one] = mean, middle
    D[slopes] = tau2 / (len(slopes) * np.maximum(var, 1e-300))
    x, Vx = turn @ b, turn @ V @ turn.T
    size = np.sqrt(D)  # columns may be of any unit: everything over the sd of its prior
    scaled = Vx / np.outer(size, size)
    step = scaled @ np.linalg.solve(scaled + np.eye(len(b)), (x - at) / size)
    return np.asarray(np.linalg.solve(turn, x - size * step))
