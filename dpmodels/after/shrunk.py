"""Coefficients for predictions: a posterior mean about the public guess. Sees no row.

A released estimate may be noise; a prediction from it need not be worse than the middle of the
declared range. Post-processing of released and public numbers (``theory.md``, "Coefficients for
predictions").
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


def about_mean_row(
    S: Array | None, ends: Array, one: int, guess: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Return (b_0, D) of a design with a constant.

    At the mean row the level has the variance of the declared range, and k slopes share the
    variance of the predictors: ``tau^2/(k var_j)``.

    Parameters
    ----------
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
    p, slopes = len(ends), np.delete(np.arange(len(ends)), one)
    low, high = ends[slopes].T
    box = (high - low) ** 2 / 12.0
    mean, var = (low + high) / 2.0, box
    if S is not None:
        mean = np.clip(S[one, slopes] / S[one, one], low, high)
        var = np.diag(S)[slopes] / S[one, one] - mean**2
    var = np.clip(var, LEAST * box, MOST * box)
    D, back, b0 = np.full(p, level), np.eye(p), np.zeros(p)
    D[slopes] = tau2 / (len(slopes) * np.maximum(var, 1e-300))
    back[one, slopes], b0[one] = -mean, middle
    return b0, back @ np.diag(D) @ back.T


def about_nothing(
    square: Array | None, ends: Array, constant: Array | None, guess: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Return (b_0, D) of a design without an intercept.

    Columns that add up to a constant, ``x'a = 1``, begin at its level; others at none.

    Parameters
    ----------
    square : (p,) array or None
        Released mean squares of the columns; None: those of their box.
    constant : (p,) array or None
        a.
    """
    middle, level, tau2 = guess
    low, high = ends.T
    most = np.maximum(low**2, high**2)
    box = (low**2 + low * high + high**2) / 3.0
    m = np.clip(box if square is None else square, LEAST * most, most)
    p = len(ends)
    if constant is None:
        return np.zeros(p), np.diag((tau2 + middle**2) / (p * np.maximum(m, 1e-300)))
    D = np.diag(tau2 / (p * np.maximum(m, 1e-300))) + level * np.outer(constant, constant)
    return middle * constant, D


def shrunken(b: Array, V: Array, b0: Array, D: Array) -> Array:
    """Return ``b - V (V + D)^{-1} (b - b_0)``.

    Where V is small nothing moves, and it does so continuously.

    Parameters
    ----------
    b, V : (p,) and (p, p) arrays
        Estimate, and its printed covariance: sampling and privacy.
    b0, D : (p,) and (p, p) arrays
        Mean and covariance of the prior.
    """
    size = np.sqrt(np.diag(D))  # columns may be of any unit: everything over the sd of its prior
    v, d = V / np.outer(size, size), D / np.outer(size, size)
    return np.asarray(b - size * (v @ np.linalg.solve(v + d, (b - b0) / size)))
