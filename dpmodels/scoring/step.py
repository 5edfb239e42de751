"""Take the Newton step of a pass from its released sums. It reads no row.

``method.md``, 3 and 8.3. Everything is in the coordinates w = W u of the pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.scoring import rules
from dpmodels.scoring.models import (
    Model,
    Slope,
    State,
    axes,
    floored,
    kept_apart,
    shrunk,
    whitening,
)
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.taken import Taken, taken

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.scoring.unit_passes import Expansion


@dataclass(frozen=True, eq=False)
class Step:
    """Newton step of one pass, in its coordinates w = W u."""

    H: Array  # (r, r): information per row, (shrunk,) not floored
    nu: float  # Noise sd of its entries (svec)
    floor: float
    safe: Array  # (r, r): H with its eigenvalues floored
    inverse: Array  # (r, r): inverse of ``safe``
    d: Array  # (r,): the step in w
    state: State  # After the step; after the last one only theta is new
    axes: tuple[Array, Array]  # (eigenvalues, eigenvectors): of H
    sd: float  # Noise sd of a score over n
    # (r, r): whitening for the next information matrix (units only).
    look: Array = None  # type: ignore[assignment]
    taken: Taken | None = None  # The parts of scores that two clips cut off


def newton_step(
    released: Released, plan: PassPlan, state: State, model: Any, turn: Array | None = None
) -> Step:
    """Take one Newton step from the released sums of a pass over rows or units.

    ``theta + sqrt(phi) W' H^{-1} s/n``. H is shrunk towards a multiple of the identity, by the part
    of its variation that noise explains, and its eigenvalues are floored.

    Parameters
    ----------
    turn : (r, r) array, optional
        For units: map from the coordinates of the scores to those of the information.
    """
    r, m, of_units = len(state.theta), plan.rows, turn is not None
    H, nu = released.information / m, plan.noise.information / m
    size = max(float(np.trace(H)) / r, 1e-3) if of_units else 1.0
    least = rules.FLOOR * size
    # of units it is round only from the second pass on
    if state.passed or not of_units:
        H, nu = kept_apart(H, nu, plan.energy)
    floor = max(rules.FLOOR_NOISE * nu * math.sqrt(2.0 * r), least)
    eigen, root = axes(H), np.asarray(np.linalg.inv(state.W))
    safe = floored(H, floor, eigen)
    two = None if released.taken is None else taken(released, plan, state, safe, root)
    total, sd = released.score if two is None else two.score, plan.noise.score
    mean = total / m if turn is None else turn @ (total / m)
    if not model.averages:
        error = math.sqrt(plan.variance_of_score) * (np.eye(r) if turn is None else turn)
        slope = Slope.of(state, mean, error)
        before, H = H, overshot(H, floor, state, slope)
        if H is not before:
            eigen = axes(H)
            safe = floored(H, floor, eigen)
        state = replace(state, slope=slope)
    d: Array = np.asarray(math.sqrt(state.phi) * np.linalg.solve(safe, mean))
    inverse: Array = np.asarray(np.linalg.inv(safe))
    step = Step(H, nu, floor, safe, inverse, d, state, eigen, sd / m, look=state.W, taken=two)
    if plan.last:
        sd = sd if two is None else math.hypot(sd, two.sd)
        d = d if of_units else d * _step_factor(d, inverse, math.sqrt(state.phi) * sd / m, plan)
        return replace(step, d=d, state=replace(state, theta=state.theta + state.W.T @ d))
    state = replace(state, passed=True, level=False)
    if turn is None:
        d = d * _step_factor(d, inverse, math.sqrt(state.phi) * sd / m, plan)
        return _early_of_rows(replace(step, d=d), released, plan, state, model, root @ safe @ root)
    return _early_of_units(step, released, plan, state, model, safe, turn)


def overshot(H: Array, floor: float, state: State, slope: Slope) -> Array:
    """Return the information, raised to the change of the scores between two passes.

    If the scores of the last two passes have opposite signs along the step between them, it was too
    long: the information at its start was smaller than on the way. The change of the score over
    the step, less its noise, is the information that the way had, and H gets the difference along
    this direction (``method.md``, 3).
    """
    if state.slope is None:
        return H
    step = slope.at - state.slope.at
    (before, var_before), (now, var) = state.slope.along(step), slope.along(step)
    d = np.linalg.solve(state.W.T, step)
    image = floored(H, floor) @ d
    explained = float(d @ image)
    if not before > 0.0 > now or not explained > 0.0:
        return H
    excess = before - now - explained
    above = excess * excess - (var_before + var)
    if excess <= 0.0 or above <= 0.0:
        return H
    return np.asarray(H + above / excess / explained**2 * np.outer(image, image))


def _early_of_rows(
    step: Step, released: Released, plan: PassPlan, state: State, model: Model, in_u: Array
) -> Step:
    """Return an early step over rows, no longer than the model allows, with the updated state."""
    ratio = scale_ratio(released, plan, plan.rows * len(state.theta))
    updated = model.updated(state, step.H, model.whole_ratio(state, step.d, ratio))
    length, most = state.length(step.d), rules.MAX_EARLY_STEP * model.unit(updated)
    d = np.asarray(step.d * min(1.0, most / length)) if length > 0 else step.d
    W = model.white(state, updated, in_u)
    return replace(step, d=d, state=replace(updated, theta=state.theta + state.W @ d, W=W))


def _early_of_units(
    step: Step, released: Released, plan: PassPlan, state: State, model: Expansion, safe: Array,
    turn: Array,
) -> Step:  # fmt: skip
    """Return an early step over units: damped, no longer than the model allows.

    A step of a model that does not average is divided by ``1 + q/2``, ``q^2 = d'H d / (phi r)``, as
    exponential models overshoot from below. The next pass releases the information in coordinates W
    in which that of this pass is the identity.
    """
    d, root = step.d, np.linalg.inv(state.W)
    in_u = root @ safe @ root.T
    look = whitening(in_u)
    moved = math.sqrt(max(float(d @ safe @ d), 0.0) / model.events(in_u))
    if not model.averages:
        d = d / (1.0 + rules.DAMPING * moved / math.sqrt(state.phi))
    d = d * min(1.0, model.longest(state) / max(moved, 1e-300))
    back = np.linalg.inv(turn)  # of scores, whose coordinates are their own
    ratio = scale_ratio(released, plan, plan.rows * float(np.trace(back @ safe @ back.T)))
    weight_one = np.sqrt(np.maximum(np.diag(state.M), 1e-300))
    updated = model.updated(state, in_u / np.outer(weight_one, weight_one), ratio)
    W = _whitening(released, plan, look, root @ turn, state.phi / updated.phi)
    theta = model.constrained(state.theta + state.W.T @ d)
    return replace(step, d=d, state=replace(updated, theta=theta, W=W), look=look)


def scale_ratio(released: Released, plan: PassPlan, size: float) -> float | None:
    """Return the mean squared score over its expected value, after an allowance for its noise.

    ``(ratio + s^2)/(1 + s^2)``, s the noise sd of the ratio. Without this, if noise dominates, the
    scale would fall to a tenth in every pass, and errors would be printed near 0. ``size``: the
    expected value of the sum.
    """
    if released.scale is None:
        return None
    noise = (plan.noise.scale / size) ** 2
    return float((released.scale / size + noise) / (1.0 + noise))


def _step_factor(d: Array, inverse: Array, sd: float, plan: PassPlan) -> float:
    """Return the factor of a step that removes a part that noise explains (``method.md``, 3).

    A last step loses at most half of that part, and nothing in least squares with few columns. If
    events are rare an early step loses all of it, as two steps by noise lead far away. ``sd``:
    noise sd of ``H d``, H the information that the ``inverse`` is of.
    """
    if not (plan.last or plan.uncut or plan.rare or plan.policy.cautious):
        return 1.0
    if plan.last and plan.policy == rules.LEAST_SQUARES:
        return 1.0
    by_noise = sd * sd * float(np.sum(inverse * inverse)) / max(float(d @ d), 1e-300)
    if not plan.last:
        return max(0.0, 1.0 - by_noise)
    return 1.0 - rules.DAMPING * min(1.0, by_noise)


def _whitening(
    released: Released, plan: PassPlan, look: Array, back: Array, rescaled: float
) -> Array:
    """Return the W in which the covariance of scores is the identity, from the released meat.

    The meat is evaluated in coordinates in which the information is the identity. There it is a
    multiple of the identity if the model is right and rows are independent. So it is shrunk towards
    that, by the part of the difference that noise explains. Columns that vary within people and
    columns that vary between people then get different scales.

    ``look``: W in which the released information is the identity; ``back``: map from the
    coordinates of the scores to u; ``rescaled``: square of the factor of scores in the next pass.
    """
    assert released.meat is not None
    m, r = plan.rows, len(look)
    mean = released.score / m
    turn = look @ back
    # covariance of scores about their mean, for an early fit
    J = released.meat / m - np.outer(mean, mean)
    noise = plan.noise.meat / m * float(np.trace(turn @ turn.T)) / r
    J = shrunk(turn @ J @ turn.T, noise, r, least=rules.FLOOR)
    inverse = np.linalg.inv(look)
    return whitening(inverse @ J @ inverse.T * rescaled)
