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

from dpmodels.after.inference import Allowance, Tail
from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.scoring import rules
from dpmodels.scoring.clip import missed_squares
from dpmodels.scoring.models import State, floored, roots, shrunk
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
    unresolved: Array  # (r, k): eigenvectors of unresolved directions
    meat: Array  # (r, r): J per row, as used
    allowance: Allowance  # For a bias
    plan: PassPlan
    noise: float  # sd of the entries of H
    # missed, clear: what J holds in every direction for squares that its own clip cut off, and the
    # part of it that is clear of noise.
    missed: float
    clear: float
    lost: bool  # The information is so noisy that nothing is tested

    def variance(self, constant: Array | None) -> float:
        """Return the residual variance in units of the scale, without what noise may have added.

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
        """Return a mask of the linear functions of d that are not determined at this budget.

        These are mostly in unresolved directions, or, with many columns, along directions with
        little information (``method.md``, 4).
        """
        if self.plan.policy.shrinks:
            ahead = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
            along = np.sum((ahead @ self.H) * ahead, axis=1)
            return np.asarray(
                along < max(rules.MIN_INFORMATION, rules.MIN_INFORMATION_SDS * self.noise)
            )
        if not self.unresolved.shape[1]:
            return np.zeros(len(rows), dtype=bool)
        r = rows @ self.inverse
        part = np.sum((r @ self.unresolved) ** 2, axis=1)
        return np.asarray(part > rules.UNRESOLVED_PART * np.sum(r * r, axis=1))


def _conservative(values: Array, step: Step, plan: PassPlan) -> Array:
    """Return the eigenvalues of H that intervals divide by: lowered by their noise.

    If H was shrunk they are lowered by the average effect of dividing by a noisy value, to second
    order (the noise is in the variances, too). Otherwise they are lowered by one noise sd. A value
    below the floor is unresolved.
    """
    low = values < step.floor
    if plan.policy.shrinks:
        v = np.maximum(values, step.floor)
        out = v - np.minimum(step.nu**2 / 2.0 * (np.sum(1.0 / v) + 1.0 / v), 0.5 * v)
        least = np.minimum(out, np.maximum(values, step.floor * rules.UNRESOLVED_VALUE_SHRUNK))
        return np.where(low, least, out)
    least = step.floor * rules.UNRESOLVED_VALUE
    less = np.full_like(values, step.nu)
    if plan.people:
        less = step.nu**2 / np.maximum(values, step.nu)
    return np.where(low, least, np.maximum(values - less, least))


def _missing_step(clipped: Array, d: Array, noise: float) -> Array:
    """Return the missing part of the step if people are clipped, (r,), in units of H d.

    The derivative of the sum of clipped scores in theta is the information L of unclipped people,
    but the step divides by the information H of all. So ``(H - L) d`` is missing, and it is as
    random as d. The length that noise of H - L alone would have is subtracted.
    """
    left = clipped @ d
    size, by_noise = float(left @ left), noise**2 / 2.0 * (len(d) + 1.0) * float(d @ d)
    return np.asarray(left * math.sqrt(max(0.0, 1.0 - by_noise / size) if size > 0.0 else 0.0))


def _meat(released: Released, plan: PassPlan, missed: float, safe: Array, least: float) -> Array:
    """Return J per row: shrunk, with the excess over its clip, and at least the model's minimum.

    ``missed``: part of squared lengths beyond R_J, per row, added in every direction.
    ``least``: smallest J over the floored information ``safe``.
    """
    r = len(safe)
    if released.meat is None:
        assert released.scale is not None
        return max(released.scale / (plan.rows * r), 0.05) * safe
    J = shrunk(released.meat / plan.tail_rows, plan.noise.meat / plan.tail_rows, r)
    J = J + missed * np.eye(r)
    if least > 0.0 and not plan.people:
        root, back = roots(safe)
        J = root @ floored(back @ J @ back, least) @ root
    return J


def infer(
    released: Released, plan: PassPlan, before: State, step: Step, score: Any, *, free: float,
    tail: Tail | None = None, squares: float | None = None, turn: Array | None = None,
    by_cluster: Callable[[Array], Array] | None = None,
) -> Inference:  # fmt: skip
    """Return the inference of the last pass of a model.

    Parameters
    ----------
    free : float
        ``n / (n - p)``: the small-sample factor of HC1.
    tail : Tail or None
        The excess of people over C, or None if the unit is a row.
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
    assert released.ordinary is not None
    r, n, part = len(step.d), plan.rows, plan.tail_rows
    values, vectors = step.axes
    inverse = (vectors / _conservative(values, step, plan)) @ vectors.T
    safe = (vectors * np.maximum(values, step.floor)) @ vectors.T
    phi, sd = before.phi, step.sd
    squares = missed_squares(released, plan) if squares is None else squares
    missed = plan.clip**2 * squares / r
    clear = 0.0 if plan.people else missed_squares(released, plan, 2.0 * rules.EMPTY_SDS)
    clear = min(plan.clip**2 * clear / r, missed)
    least = 0.0 if plan.people else score.least_meat(before)
    J = _meat(released, plan, missed, safe, least)
    of_score = np.eye(r)
    if turn is not None:
        J, of_score = turn @ J @ turn.T, turn @ turn.T
    varied = J if by_cluster is None else by_cluster(J)
    sampling = phi * free / n * inverse @ varied @ inverse
    size = float(step.d @ step.d)
    noisy_H = step.nu**2 / 2.0 * (size * np.eye(r) + np.outer(step.d, step.d))
    if plan.people:
        noise = math.hypot(step.nu, plan.noise.ordinary / part)
        left = _missing_step(safe - released.ordinary / part, step.d, noise)
        noisy_H += np.outer(left, left)
    left_over = phi * score.remainder(before, step.d) / n * np.eye(r)
    added, allowed = (0.0, {}) if step.taken is None else step.taken.over(n)
    of_noise = phi * (sd**2 * of_score + added)
    privacy = inverse @ (of_noise + noisy_H + left_over) @ inverse
    # the noise of the information is the cause: its part is reported as privacy error
    mean_information = max(float(np.trace(released.information)) / (r * n), 1e-300)
    noise = plan.noise.information / n * math.sqrt(2.0 * r) / mean_information
    limits = (
        (rules.UNITS_BEAR if score.leverage else rules.BOUNDED_BEAR)
        if plan.people
        else rules.ROWS_BEAR
    )
    most = rules.STRETCH_MAX_OF_PEOPLE if plan.people else rules.STRETCH_MAX
    privacy += (stretch(noise, limits, most) ** 2 - 1.0) * (sampling + privacy)
    curved = score.curved(before, step.d, safe, phi * sd**2 * float(np.trace(inverse)))
    every = curved.every
    public = plan.noise.information / n * math.sqrt(2.0 * r)  # over the declared box
    if plan.policy.shrinks and not plan.people:
        explained = phi * sd**2 * float(np.sum(inverse * inverse))
        unexplained = math.sqrt(max(size - rules.STEP_OVER_NOISE * explained, 0.0) / r)
        every += rules.UNEXPLAINED_STEP * min(1.0, public) * unexplained
    lost = noise >= limits[1]
    if plan.policy.shrinks and not plan.people:
        lost |= public > rules.SIGNAL_IS_NOISE
    of_ordinary = plan.noise.ordinary / part
    leverage = float(score.jump > 0.0) if plan.uncut else score.leverage
    allowance = Allowance(
        not plan.whole, inverse, safe, released.ordinary / part,
        of_ordinary if plan.people or plan.policy.narrow else 0.0,
        step.d, phi, sd, tail, leverage, curved.bend, every, turn, **allowed,
    )  # fmt: skip
    return Inference(
        sampling / curved.stretch, privacy / curved.stretch**2, inverse, safe,
        vectors[:, values < step.floor], J, allowance, plan, step.nu, missed, clear, lost,
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
    total, error = (0.0, 0.0) if chain.model.stops else lengths.overflow(plan.clip)
    squares = lengths.squares(plan.clip, plan.meat) / plan.clip**2 / plan.rows
    tail = Tail(total / plan.rows, error / plan.rows)
    r = len(chain.last.d)
    return infer(
        chain.released[-1], plan, chain.before, chain.last, chain.model,
        free=N / max(N - r, 1.0), tail=tail, squares=squares, turn=chain.turn,
        by_cluster=by_cluster,
    )  # fmt: skip
