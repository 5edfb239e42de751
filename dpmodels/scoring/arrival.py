"""What a step leaves at public rows: how far it moves them, and what is missing. Sees no row.

The rows are those of :class:`dpmodels.scoring.notes.PublicRows`: each level of each factor, ends
and middles of numbers, other columns at their released means (``theory.md``, 5.9).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.intervals import Inference
from dpmodels.scoring.scores import Score, State

#: A step that moves the linear predictor of a public row by more than this (of a model of a mean),
#: and by more than so many of its noise sds, has not arrived.
ARRIVED, NOISE_SDS = 0.3, 3.0


def noise_at(rows: Array, privacy: Array) -> Array:
    """Return the noise sd of a step at rows in w, of its covariance ``privacy``."""
    return np.sqrt(np.maximum(np.sum((rows @ privacy) * rows, axis=1), 0.0))


def still_moving(
    rows: Array, d: Array, privacy: Array, least: float | Array = ARRIVED
) -> npt.NDArray[np.bool_]:
    """Say at which rows a step has not arrived.

    Parameters
    ----------
    rows : (k, r) array
        Public rows in w.
    d, privacy : (r,), (r, r) arrays
        The step, and the covariance of its noise.
    least : float or (k,) array
        No shorter move counts.
    """
    return np.asarray(np.abs(rows @ d) > np.maximum(least, NOISE_SDS * noise_at(rows, privacy)))


def with_left(
    inference: Inference, seen: Array, state: State, score: Score, far: npt.NDArray[np.bool_]
) -> Inference:
    """Return the inference that allows for what the last step leaves at public rows.

    Half of what a linear step leaves of the curve of the model, of the step less its noise; where
    it has not arrived as much again as the step.

    Parameters
    ----------
    seen : (k, r) array
        Public rows in u.
    state : State
        Where the last pass looked from.
    far : (k,) bool array
        Where it has not arrived.
    """
    rows = seen @ state.W
    step, sd = rows @ inference.d, noise_at(rows, inference.privacy)
    heard = np.copysign(np.sqrt(np.maximum(step * step - sd * sd, 0.0)), step)
    left = np.maximum(score.left_at(seen @ state.theta, heard), np.abs(step) * far)
    return replace(inference, allowance=replace(inference.allowance, points=rows, left=left))
