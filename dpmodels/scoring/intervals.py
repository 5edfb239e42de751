"""Compute the variances and the bias allowance of the last pass.

``method.md``, 4. Everything is in the coordinates w = W u of the last pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import BASE_BIAS, Allowance, one_way
from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.scoring import rules
from dpmodels.scoring.clip import missed_squares
from dpmodels.scoring.models import State, shrunk
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.step import Step


@dataclass(frozen=True, eq=False)
class Inference:
    """Covariances and allowances of the step, in w."""

    # sampling, privacy: (r, r) arrays; covariances of d.
    sampling: Array
    privacy: Array
    inverse: Array  # (r, r): ``H_I^{-1}``
    H: Array  # (r, r): information per row, floored
    meat: Array  # (r, r): J per row, as used
    allowance: Allowance  # For a bias
    d: Array  # (r,): the step
    plan: PassPlan
    noise: float  # sd of the entries of H
    # missed, clear: what J holds in every direction for squares that its own clip cut off, and the
    # part of it that is clear of noise.
    missed: float
    clear: float
    lost: bool  # The information is so noisy that nothing is tested

    def variance(self, constant: Array | None) -> float:
        """Return the residual variance in units of the scale, less its noise.

        With a constant a, ``a'v = 1`` in every row, ``a'J a``; else ``tr(H^{-1} J)/r``, where rows
        count by their leverage.
        """
        if self.plan.people:
            return 1.0 / rules.SCALE_UPDATE  # the scale of rows: the meat is of people
        J = self.meat + (self.clear - self.missed) * np.eye(len(self.meat))
        if constant is not None:
            return float(constant @ J @ constant)
        return float(np.trace(np.linalg.solve(self.H, J))) / len(J)

    def undetermined(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Return a mask of linear functions of d that have too little information (method 4)."""
        ahead = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        along = np.sum((ahead @ self.H) * ahead, axis=1)
        return np.asarray(along < rules.MIN_INFORMATION_SDS * self.noise)


def _conservative(values: Array, step: Step) -> Array:
    """Return the eigenvalues of H that intervals divide by.

    They are lowered by the average effect of dividing by a noisy value, to second order (the noise
    is in the variances, too). A value below the floor is unresolved.
    """
    v = np.maximum(values, step.floor)
    out = v - np.minimum(step.nu**2 / 2.0 * (np.sum(1.0 / v) + 1.0 / v), 0.5 * v)
    least = np.minimum(out, np.maximum(values, step.floor * rules.UNRESOLVED_VALUE))
    return np.where(values < step.floor, least, out)


def _meat(released: Released, plan: PassPlan, missed: float, safe: Array) -> Array:
    """Return J per row: shrunk, with the excess over its clip.

    ``missed``: part of squared lengths beyond R_J, per row, added in every direction. ``safe``: the
    floored information.
    """
    r = len(safe)
    if released.meat is None:
        assert released.scale is not None
        return max(released.scale / (plan.rows * r), 0.05) * safe
    J = shrunk(released.meat / plan.tail_rows, plan.noise.meat / plan.tail_rows, r)
    return np.asarray(J + missed * np.eye(r))


def infer(
    released: Released, plan: PassPlan, before: State, step: Step, score: Any, *, free: float,
    tail: float = 0.0, clipped: float = 0.0, squares: float | None = None,
    turn: Array | None = None, by_cluster: Callable[[Array], Array] | None = None,
) -> Inference:  # fmt: skip
    """Return the inference of the last pass of a model.

    Parameters
    ----------
    free : float
        ``n / (n - p)``: the small-sample factor of HC1.
    tail : float
        Least length of the change of the mean score that is allowed for, by clipped people.
    clipped : float
        Part of the information in clipped people, 0 for rows. The step divides clipped scores by
        the information of all, so that this part of it is missing, and as random as it.
    squares : float or None
        Mean excess of squared scores over the radius of the meat, in units of C^2, or None to
        compute it from the bins of this pass.
    turn : (r, r) array or None
        Map from the coordinates of scores (and of the meat) to those of the information and of the
        step, or None if they are the same.
    by_cluster : function or None
        Map from the meat of rows to the meat of clusters, which replaces it in the sampling
        covariance.
    """
    r, n = len(step.d), plan.rows
    (values, vectors), safe = step.axes, step.safe
    inverse = (vectors / _conservative(values, step)) @ vectors.T
    phi, sd = before.phi, step.sd
    squares = missed_squares(released, plan) if squares is None else squares
    missed = plan.clip**2 * squares / r
    clear = 0.0 if plan.people else missed_squares(released, plan, 2.0 * rules.CLEAR_OF_NOISE)
    clear = min(plan.clip**2 * clear / r, missed)
    J, of_score = _meat(released, plan, missed, safe), np.eye(r) if turn is None else turn
    J = J if turn is None else turn @ J @ turn.T
    varied = J if by_cluster is None else by_cluster(J)
    sampling = phi * free / n * inverse @ varied @ inverse
    size = float(step.d @ step.d)
    noisy_H = step.nu**2 / 2.0 * (size * np.eye(r) + np.outer(step.d, step.d))
    missing = clipped * safe @ step.d
    noisy_H += np.outer(missing, missing)
    added, allowed = (0.0, {}) if step.taken is None else step.taken.over(n)
    of_noise = phi * (sd**2 * of_score @ of_score.T + added)
    # rows between the last two fits, whose scores jump: 1/sqrt(tau (1 - tau)) is at most 2 jumps
    crossed = 2.0 * score.jump * math.sqrt(phi * size) / n
    privacy = inverse @ (of_noise + noisy_H + crossed * np.eye(r)) @ inverse
    # the noise of the information is the cause: its part is reported as privacy error
    mean_information = max(float(np.trace(released.information)) / (r * n), 1e-300)
    noise = plan.noise.information / n * math.sqrt(2.0 * r) / mean_information
    limits = (
        (rules.BOUNDED_BEAR if score.jump else rules.UNITS_BEAR)
        if plan.people
        else rules.ROWS_BEAR
    )
    most = rules.STRETCH_MAX_OF_PEOPLE if plan.people else rules.STRETCH_MAX
    privacy += (stretch(noise, limits, most) ** 2 - 1.0) * (sampling + privacy)
    every = 0.0
    public = plan.noise.information / n * math.sqrt(2.0 * r)  # over the declared box
    if not (plan.people or plan.policy == rules.LEAST_SQUARES):
        explained = phi * sd**2 * float(np.sum(inverse * inverse))
        unexplained = math.sqrt(max(size - rules.STEP_OVER_NOISE * explained, 0.0) / r)
        every = rules.UNEXPLAINED_STEP * min(1.0, public) * unexplained
    lost = noise >= limits[1]
    if not plan.people:
        lost |= public > rules.SIGNAL_IS_NOISE
    least = 0.0 if plan.whole else max(BASE_BIAS * sd, tail)
    allowance = Allowance(math.sqrt(phi) * inverse @ of_score, safe, least, every=every, **allowed)
    return Inference(
        sampling, privacy, inverse, safe, J, allowance, step.d, plan, step.nu, missed, clear, lost,
    )  # fmt: skip


def stretch(noise: float, limits: tuple[float, float], most: float) -> float:
    """Return the factor of errors at a noise of the information: continuous in it, at most most."""
    far = min(max((noise - limits[0]) / (limits[1] - limits[0]), 0.0), 1.0)
    return 1.0 / math.sqrt(max(1.0 - far**2, most**-2))


def infer_units(
    chain: Any, N: int, by_cluster: Callable[[Array], Array] | None = None
) -> Inference:
    """Return the inference of the last pass of a model over units, as :func:`infer`."""
    plan, lengths = chain.plans[-1], chain.lengths[-1]
    total = 0.0 if chain.model.stops else lengths.overflow(plan.clip)
    squares = lengths.squares(plan.clip, plan.meat) / plan.clip**2 / plan.rows
    clipped = 0.0 if chain.model.stops else lengths.part_beyond(plan.clip)
    r = len(chain.last.d)
    tail = one_way(r) * total / plan.rows
    return infer(
        chain.released[-1], plan, chain.before, chain.last, chain.model,
        free=N / max(N - r, 1.0), tail=tail, clipped=clipped, squares=squares, turn=chain.turn,
        by_cluster=by_cluster,
    )  # fmt: skip
