"""What a step leaves at public rows: how far it moves them, and what is missing. Sees no row.

The rows are those of :class:`dpmodels.scoring.notes.PublicRows`: each level of each factor, ends
and middles of numbers, other columns at their released means (``theory.md``, 5.9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.intervals import Inference, Step, score_noise
from dpmodels.scoring.passes import Released
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.scores import Score, State, floored

#: A step that moves the linear predictor of a public row by more than this (of a model of a mean),
#: and by more than so many of its noise sds, has not arrived.
ARRIVED, NOISE_SDS = 0.3, 3.0
#: The same of a model of a residual, over the residual at which scores of the row are clipped.
SETTLES = 0.6
#: A step so many times as long (squared) as its noise and that of the pass before explain is none
#: of noise; if it is no shorter than the step before, the fit is on its way.
LONG = 3.0


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


def settles(rows: Array, plan: PassPlan, state: State, score: Score) -> float | Array:
    """Return how far a step may move public rows (in w) that has arrived.

    Of a model of a mean in link units; of a residual a part of the size at which scores of rows
    there are clipped, or change sign.
    """
    if not score.of_residual:
        return ARRIVED
    length = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    return np.asarray(SETTLES * math.sqrt(state.phi) * np.minimum(plan.clip / length, score.corner))


def too_long(step: Step, state: State, plan: PassPlan, before: PassPlan) -> bool:
    """Say whether a step is longer than the noise of its pass and of the one before explains.

    ``|d|^2 > LONG phi (sd^2 + sd_before^2) |H^-1|_F^2``: of fits that have arrived it is about 1.
    """
    inverse = np.linalg.inv(floored(step.H, step.floor, step.axes))
    noise = sum((one.noise.score / one.rows) ** 2 for one in (plan, before))
    explained = state.phi * noise * float(np.sum(inverse * inverse))
    return float(step.d @ step.d) > LONG * explained


def moves_on(
    seen: Array, score: Score, released: Released, plans: Sequence[PassPlan], state: State,
    step: Step,
) -> bool:  # fmt: skip
    """Say whether the step of a pass before the last has not arrived.

    At some public row, or as a whole: it is longer than noise explains.

    Parameters
    ----------
    seen : (k, r) array
        Public rows in u.
    plans : sequence of PassPlan
        Of the passes so far.
    state : State
        Where the pass looked from.

    Notes
    -----
    **Privacy.** A function of released numbers and public rows: which pass comes next may depend
    on it.
    """
    plan = plans[-1]
    if len(plans) > 1 and too_long(step, state, plan, plans[-2]):
        return True
    rows = seen @ state.W
    inverse = np.linalg.inv(floored(step.H, step.floor, step.axes))
    sd = score_noise(released, plan) / plan.rows
    back = inverse @ step.d
    size = state.phi * sd**2 + step.nu**2 / 2.0 * float(step.d @ step.d)
    noise = size * inverse @ inverse + step.nu**2 / 2.0 * np.outer(back, back)
    return bool(still_moving(rows, step.d, noise, settles(rows, plan, state, score)).any())


def floored_short(inference: Inference) -> Array:
    """Return what a last step misses where its information was floored, (r, k), a column each.

    Along a direction whose information lies below its floor a step is too short, by as much as an
    interval takes the information to be lower (:func:`dpmodels.scoring.intervals.infer`); of the
    step less its noise.
    """
    axes = inference.unresolved
    lower = np.sum(axes * (inference.inverse @ axes), axis=0)  # 1 over the lower information
    over = np.sum(axes * (inference.H @ axes), axis=0) * lower
    # intervals have the noise of the lower information
    noise = noise_at(axes.T, inference.privacy) / np.maximum(over, 1.0)
    return np.asarray(axes * (np.maximum(over - 1.0, 0.0) * above_noise(inference.d @ axes, noise)))


def above_noise(step: Array, noise: Array) -> Array:
    """Return a step less its noise, by squares."""
    return np.copysign(np.sqrt(np.maximum(step * step - noise * noise, 0.0)), step)


def arrived(
    inference: Inference, seen: Array, state: State, score: Score
) -> tuple[Inference, npt.NDArray[np.bool_]]:
    """Return the inference that allows for what the last step leaves, and where it is not there.

    Half of what a linear step leaves of the curve of the model, of the step less its noise; what
    floors of the information leave; where it has not arrived as much again as the step.

    Parameters
    ----------
    seen : (k, r) array
        Public rows in u.
    state : State
        Where the last pass looked from.
    """
    rows = seen @ state.W
    step, noise = rows @ inference.d, noise_at(rows, inference.privacy)
    least = np.maximum(settles(rows, inference.plan, state, score), NOISE_SDS * noise)
    short = floored_short(inference)
    moved = np.abs(step) > least
    far: npt.NDArray[np.bool_] = moved | (np.abs(rows @ short).sum(axis=1) > least)
    left = np.maximum(score.left_at(seen @ state.theta, above_noise(step, noise)), np.abs(step) * moved)
    bound = replace(inference.allowance, points=rows, left=left, short=short)
    return replace(inference, allowance=bound), far
