"""From released sums to the next centre: floors, averages and the Newton step. Sees no row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmodels.arrays import Array
from dpmodels.scoring.release import Released
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.score import Score
from dpmodels.scoring.state import Information, State, axes, floored, kept_apart

#: Eigenvalues of an information are floored at this multiple of its spectral noise, and at this.
FLOOR_NOISE, FLOOR = 0.7, 0.1
#: The same where it was shrunk first.
FLOOR_SHRUNK = 0.05
#: Part of what noise explains that the last step loses, and the mu n up to which all of it.
DAMPED, STRONG = 0.5, 4000.0
#: Chance of noise to be taken for far scores.
FAR_CHANCE = 0.01


@dataclass(frozen=True, eq=False)
class Step:
    """What one pass says, in its own coordinates w = W u.

    Attributes
    ----------
    H : (r, r) array
        Information per row, averaged (and shrunk), not floored.
    nu : float
        Noise sd of its entries (svec).
    floor : float
    d : (r,) array
        The step in w.
    state : State
        After the step. After the last one only theta is new: no pass looks from there.
    axes : (eigenvalues, eigenvectors)
        Of H.
    """

    H: Array
    nu: float
    floor: float
    d: Array
    state: State
    axes: tuple[Array, Array]


def newton_step(released: Released, plan: PassPlan, state: State, score: Score) -> Step:
    """Take one step from the released sums of a pass.

    ``theta + sqrt(phi) W H^{-1} s / n``; where the information does not depend on theta, H is
    averaged with that of an earlier pass by precision; its eigenvalues are floored.
    """
    r = len(state.theta)
    m = plan.rows
    nu = plan.noise.information / m
    H = released.information / m
    raw = H, nu
    if score.averages and state.earlier is not None:
        before = state.W @ state.earlier.matrix @ state.W
        # the noise of the earlier one in today's coordinates, on average over the entries
        stretch = float(np.trace(state.W @ state.W)) / r
        old = (state.earlier.noise * stretch) ** 2
        weight = old / (old + nu * nu)
        H = weight * H + (1.0 - weight) * before
        nu = math.sqrt(weight**2 * nu * nu + (1.0 - weight) ** 2 * old)
    least = FLOOR
    if plan.manner.shrinks:
        H, nu = kept_apart(H, nu)
        least = FLOOR_SHRUNK
    floor = max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), least)
    known = axes(H)
    safe = floored(H, floor, known)
    mean = (released.score + far_heard(released, plan)) / m
    d: Array = np.asarray(math.sqrt(state.phi) * np.linalg.solve(safe, mean))
    d = d * _kept(d, safe, math.sqrt(state.phi) * score_noise(released, plan) / m, plan)
    if plan.last:
        after = replace(state, theta=state.theta + state.W @ d)
        return Step(H, nu, floor, d, after, known)
    ratio = None if released.scale is None else released.scale / (m * r)
    learnt = score.learnt(state, H, ratio)
    length, most = state.length(d), score.longest * score.unit(learnt)
    d = np.asarray(d * min(1.0, most / length)) if length > 0 else d
    theta = state.theta + state.W @ d
    root = np.linalg.inv(state.W)
    own = Information(root @ raw[0] @ root, raw[1] * float(np.trace(root @ root)) / r)
    W = score.white(state, learnt, root @ safe @ root)
    return Step(H, nu, floor, d, replace(learnt, theta=theta, W=W, earlier=own), known)


def _far_part(released: Released, plan: PassPlan) -> float:
    """Return the part of the far scores E that is no noise: ``(1 - chi2_.99(r) sd^2/|E|^2)+``."""
    if released.far is None:
        return 0.0
    from scipy.special import chdtri

    E = released.far
    least = float(chdtri(len(E), FAR_CHANCE)) * plan.noise.far**2
    return max(0.0, 1.0 - least / max(float(E @ E), 1e-300))


def far_heard(released: Released, plan: PassPlan) -> Array:
    """Return what clipping took from the sum of scores, as far as it stands out of its noise."""
    if released.far is None:
        return np.zeros_like(released.score)
    return np.asarray(_far_part(released, plan) * released.far)


def score_noise(released: Released, plan: PassPlan) -> float:
    """Return the noise sd of the sum of scores that a step took: with that of far ones heard."""
    return math.hypot(plan.noise.score, _far_part(released, plan) * plan.noise.far)


def _kept(d: Array, H: Array, sd: float, plan: PassPlan) -> float:
    """Return the part of a step that is kept: noise explains the rest (``theory.md``, 3).

    A last step loses at most half of what it explains, less where mu n is large. Where events are
    rare an early step loses all of it: two steps of noise lead far away.

    Parameters
    ----------
    sd : float
        Of the noise of ``H d``.
    """
    if not (plan.last and plan.manner.shrinks) and (plan.last or not plan.plain):
        return 1.0
    inverse = np.linalg.inv(H)
    by_noise = sd * sd * float(np.sum(inverse * inverse)) / max(float(d @ d), 1e-300)
    if not plan.last:
        return max(0.0, 1.0 - by_noise)
    return 1.0 - DAMPED * min(1.0, STRONG / plan.strength) * min(1.0, by_noise)
