"""The Newton step of a pass, and intervals from the last one: variances and an allowance for bias.

``theory.md``, 4. Everything is in the coordinates v = W u of the last pass until the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import Allowance, Carried, Tail
from dpmodels.arrays import Array
from dpmodels.scoring.passes import AT_CLIP, BINS, Released
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.scores import (
    SCALE_UP,
    Information,
    Score,
    State,
    axes,
    floored,
    kept_apart,
    roots,
    shrunk,
)

# -- From released sums to the next centre: floors, averages and the Newton step. Sees no row.


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
    """What one pass says, in its own coordinates w = W u."""

    H: Array  # (r, r): information per row, averaged (and shrunk), not floored
    nu: float  # Noise sd of its entries (svec)
    floor: float
    d: Array  # (r,): the step in w
    state: State  # After the step. After the last one only theta is new: no pass looks from there.
    axes: tuple[Array, Array]  # (eigenvalues, eigenvectors): of H
    sd: float  # Noise sd of a score over n, far ones above noise included


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
    if plan.policy.shrinks:
        H, nu = kept_apart(H, nu)
        least = FLOOR_SHRUNK
    floor = max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), least)
    known = axes(H)
    safe = floored(H, floor, known)
    total, sd = scores_of(released, plan)
    d: Array = np.asarray(math.sqrt(state.phi) * np.linalg.solve(safe, total / m))
    d = d * _kept(d, safe, math.sqrt(state.phi) * sd / m, plan)
    if plan.last:
        after = replace(state, theta=state.theta + state.W @ d)
        return Step(H, nu, floor, d, after, known, sd / m)
    ratio = scale_ratio(released, plan, m * r)
    updated = score.updated(state, H, ratio)
    length, most = state.length(d), score.longest * score.unit(updated)
    d = np.asarray(d * min(1.0, most / length)) if length > 0 else d
    theta = state.theta + state.W @ d
    root = np.linalg.inv(state.W)
    own = Information(root @ raw[0] @ root, raw[1] * float(np.trace(root @ root)) / r)
    W = score.white(state, updated, root @ safe @ root)
    after = replace(updated, theta=theta, W=W, earlier=own)
    return Step(H, nu, floor, d, after, known, sd / m)


def scale_ratio(released: Released, plan: PassPlan, size: float) -> float | None:
    """Return the mean squared score over what it should be, as far as it is no noise of it.

    ``(ratio + s^2)/(1 + s^2)``, s the sd of its noise: without that a fit of noise alone learns in
    every pass that its scale is a tenth of the last one, and prints errors of nothing. ``size``:
    the sum that it should be.
    """
    if released.scale is None:
        return None
    noise = (plan.noise.scale / size) ** 2
    return float((released.scale / size + noise) / (1.0 + noise))


def scores_of(released: Released, plan: PassPlan) -> tuple[Array, float]:
    """Return the sum of scores, with what clipping took from it above noise, and its noise sd.

    Of the far scores E that part which is no noise: ``(1 - chi2_.99(r) sd^2/|E|^2)+``.
    """
    E = released.far
    if E is None:
        return released.score, plan.noise.score
    from scipy.special import chdtri

    least = float(chdtri(len(E), FAR_CHANCE)) * plan.noise.far**2
    part = max(0.0, 1.0 - least / max(float(E @ E), 1e-300))
    return released.score + part * E, math.hypot(plan.noise.score, part * plan.noise.far)


def _kept(d: Array, H: Array, sd: float, plan: PassPlan) -> float:
    """Return the part of a step that is kept: noise explains the rest (``theory.md``, 3).

    A last step loses at most half of what it explains, less where mu n is large. Where events are
    rare an early step loses all of it: two steps of noise lead far away. ``sd``: of the noise of
    ``H d``.
    """
    if not (plan.last and plan.policy.shrinks) and (plan.last or not plan.plain):
        return 1.0
    inverse = np.linalg.inv(H)
    by_noise = sd * sd * float(np.sum(inverse * inverse)) / max(float(d @ d), 1e-300)
    if not plan.last:
        return max(0.0, 1.0 - by_noise)
    strong = 1.0 if plan.policy.signed else min(1.0, STRONG / plan.strength)
    return 1.0 - DAMPED * strong * min(1.0, by_noise)


# -- How far scores lie beyond the clip, from their released histogram. Sees no row.
#
# ``sum (|s| - C)+`` over units (rows or people) bounds what clipping can have moved the sum of
# scores, in every direction at once. Half octaves beyond C hold few of them, so their counts are
# read off a curve through all the bins of the upper tail (``theory.md``, 4; ``units.md``,
# 4).


#: Slopes and bends, each as ``np.linspace`` takes them.
Grid = tuple[tuple[float, float, int], tuple[float, float, int]]

#: The first bin of the tail: C / 2.8.
_FIRST = AT_CLIP - 3
#: Log slopes and curvatures of counts over half octaves. Counts fall ever faster or in proportion
#: (a power law), at most as fast as given; they may rise a little at first.
_FALLING = (-1.6, 0.7, 47), (0.0, 0.6, 13)
#: Where most long scores are of one length, counts rise to it and fall quickly behind.
_UNIMODAL = (-1.6, 3.0, 47), (0.2, 2.0, 13)
#: Where C may lie in the bulk: counts of normal scores fall ever faster, bends up to 2.
_WIDE = (-1.6, 3.0, 47), (0.0, 2.0, 21)
#: Bins beyond C that stand so many errors above the curve count as they are; of the half octaves of
#: people, which are many and reach far (noise of 2.5 errors in the last would be most of the sum).
_APART, _APART_OF_PEOPLE = 2.5, 4.0
#: A bin holds lengths about its geometric middle, in units of C; the last is open.
_MIDDLES = 2.0 ** ((np.arange(BINS - _FIRST) + _FIRST - AT_CLIP + 0.5) / 2.0)
_BEYOND = np.where(_MIDDLES > 1.0, _MIDDLES - 1.0, 0.0)


@dataclass(frozen=True)
class Overflow:
    """What lies beyond, in units of C."""

    # total, error: ``sum (|s|/C - 1)+`` and its error.
    total: float
    error: float
    squares: float  # ``sum (|s|^2/C^2 - rho^2)+``, rho the radius that was asked for


def overflow(
    bins: Array, sd: float, radius: float = math.inf, *, unimodal: bool = False, apart: bool = False
) -> Overflow:
    """Return an estimate of what lies beyond C, by released counts of ``|s|/C`` in half octaves.

    Counts of the tail are ``exp(a + b k - c k^2)``, c >= 0; (b, c) on a grid with equal prior
    weight, a by least squares: mean and sd of the overflow over the posterior. Squares count beyond
    ``radius``, in units of C. ``unimodal``: most long scores are of one length; ``apart``: bins
    beyond C that stand far above the curve count in full.
    """
    counts = np.asarray(bins[_FIRST:], dtype=float)
    grid = _UNIMODAL if unimodal else _FALLING
    mean, error, seen = _tail(counts, sd, grid, _BEYOND, _APART if apart else math.inf)
    squares = np.zeros(len(counts))
    if math.isfinite(radius):
        squares = np.maximum(_MIDDLES**2 - radius**2, 0.0)
    return Overflow(mean, error, float(seen @ squares))


@functools.cache
def _shapes(grid: Grid, size: int) -> Array:
    """Return ``exp(b k - c k^2)`` over a grid, (b, c, k): public, and the same for every fit."""
    k = np.arange(size, dtype=float)
    slopes, bends = (np.linspace(*one) for one in grid)
    shape: Array = np.exp(slopes[:, None, None] * k - bends[None, :, None] * k * k)
    shape.setflags(write=False)
    return shape


def _tail(
    counts: Array, sd: float, grid: Grid, beyond: Array, apart: float
) -> tuple[float, float, Array]:
    """Return mean and sd of ``sum counts beyond``, and the counts that they are of.

    By the curve of the tail, and what stands ``apart`` errors above it.
    """
    shape = _shapes(grid, len(counts))
    weight = 1.0 / (sd * sd + np.maximum(counts, 0.0))
    level = (shape * (weight * counts)).sum(-1) / (shape * shape * weight).sum(-1)
    fit = np.maximum(level, 0.0)[..., None] * shape
    loss = 0.5 * ((counts - fit) ** 2 * weight).sum(-1)
    belief = np.exp(loss.min() - loss)  # (b, c): posterior weights of the curves fit, (b, c, k)
    belief /= belief.sum()
    over = fit @ beyond
    mean = float((belief * over).sum())
    error = float(np.sqrt((belief * (over - mean) ** 2).sum()))
    curve = (belief[..., None] * fit).sum(axis=(0, 1))
    # what bins beyond C, one or two together, hold more than the curve and its noise
    excess, noise = counts - curve, np.sqrt(sd * sd + curve)
    far = np.zeros_like(excess)
    for i in range(AT_CLIP - _FIRST, len(excess)):
        for j in (i + 1, i + 2):
            size = math.sqrt(float(np.sum(noise[i:j] ** 2)))
            if j <= len(excess) and float(np.sum(excess[i:j])) > apart * size:
                far[i:j] = np.maximum(far[i:j], excess[i:j])
    far = np.maximum(far, 0.0)
    if far.any():
        error = math.hypot(error, sd * math.sqrt(float(np.sum(beyond[far > 0.0] ** 2))))
    return mean + float(far @ beyond), error, curve + far


def tail_curve(counts: Array, sd: float, beyond: Array) -> tuple[float, float]:
    """Return mean and error of ``sum counts beyond`` by the curve of the tail.

    Of released counts of half octaves of the upper tail, C in the fourth; ``beyond``: what a unit
    of each adds.
    """
    mean, error, _ = _tail(np.asarray(counts, dtype=float), sd, _WIDE, beyond, _APART_OF_PEOPLE)
    return mean, error


# -- What lies beyond the clip, from the released histogram of a last pass. Sees no row


#: With weights: errors of a count by which rows may hide beyond C, at most this part of those
#: that are within two octaves below it.
UNSEEN_TAIL, OF_NEAR = 1.1, 0.12
#: Part of what lies beyond C on both sides alike that counts as of one sign, and the mu n up to
#: which: beyond, in proportion to 1 / (mu n). Fits that small have other biases (``theory.md``, 4).
EVEN, WEAK = 0.75, 400.0
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
    n, bins, sd = plan.rows, released.bins, plan.count
    radius = plan.meat / plan.clip if plan.meat else math.inf
    found = overflow(bins, sd, radius, unimodal=plan.unimodal, apart=True)
    near = tail_weight(bins, plan.clip, sd)
    unseen, one_sided = 0.0, 1.0
    if plan.of_weights and plan.mu_far:
        # Tails of weights are longer than the curve's: single rows lie many C out, too few for a
        # count to show. Where few rows come near C none is taken to be beyond.
        below = bins[AT_CLIP - 4 : AT_CLIP]
        there = max(float(np.sum(below)) - 2.0 * sd * math.sqrt(len(below)), 0.0)
        unseen = plan.clip * min(UNSEEN_TAIL * sd, OF_NEAR * there)
    if released.signed is not None:
        # How much of what is beyond .71 C has one sign; noise counts as one sign. What has none
        # moves nothing; it counts in part where mu n is small.
        counts, net = bins[AT_CLIP - 1 :], released.signed[AT_CLIP - 1 :]
        by_noise = sd * math.sqrt(len(counts))
        net_sum, total = abs(float(np.sum(net))), float(np.sum(counts))
        even = EVEN * min(1.0, WEAK / plan.strength)
        one_sided = even + min(1.0, (net_sum + by_noise) / max(total, by_noise))
    return Tail(
        near / n, plan.clip * found.total / n, plan.clip * found.error / n, one_sided,
        found.squares / n, unseen / n,
    )  # fmt: skip


# -- Intervals from the last pass: variances of sampling and noise, and an allowance. Sees no row.


#: How far the noise of the meat of units pulls it towards round.
SHRUNK = 0.3
#: Noise of the information over its size from which intervals are stretched, and at which they
#: are ``STRETCHED`` times as wide (people: ``STRETCHED_PEOPLE``) and nothing is tested.
#: Units: 2 400 random designs (Cox, least
#: squares, logit, Poisson; 1 to 7 coefficients, 250 to 6 000 people, eps .5 to 4) covered .96 to
#: .97 up to 1.2 without it and .93 beyond, within effects of people .67 to .9 from .8 on; with it
#: .96 and more. Quantiles and bounded losses of many columns are off from .5 on: their own limits.
#: Rows, whose information is shrunk or floored: 72 designs (three models, the median; 3 to 20
#: columns, n eps 100 to 10 000) covered .94 to 1.0 up to 5.5 without it, .00 to .8 beyond 30.
UNITS_BEAR, BOUNDED_BEAR, ROWS_BEAR = (0.6, 1.2), (0.35, 0.4), (4.0, 8.0)
#: Largest factor of an error, of rows and of people. A panel of 545 people whose noise is at the
#: second limit had errors of .03 to 24 by a factor of 100, and of .03 to .9 by one of 4, at the
#: same coverage. Coefficients beyond the limit are not tested.
STRETCHED, STRETCHED_PEOPLE = 100.0, 4.0
#: People: eigenvalues of the information are lowered by this many noise variances over their size,
#: which pays for what dividing by a noisy number does to coverage; at most by one noise sd.
SECOND_ORDER = 1.0
#: What an eigenvalue below the floor counts as, over the floor: where H was not shrunk, at least
#: where it was.
UNSEEN, UNSEEN_SHRUNK = 0.1, 0.2
#: Noise sds of the ordinary information that naming a coefficient leaves to it.
NAMED = 2.0
#: A coefficient with this much of its variance in unresolved directions is not determined.
UNRESOLVED = 0.5
#: The same where H was shrunk: one whose own direction holds less information than this, or than
#: this many noise sds of it.
HARD, HARD_NOISE = 0.3, 4.0


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
    missed: float  # What J holds in every direction for squares that its own clip cut off
    lost: bool  # The information is so noisy that nothing is tested

    def variance(self, constant: Array | None) -> float:
        """Return the residual variance in units of the scale, of scores up to R_J.

        With a constant a, ``a'v = 1`` in every row, ``a'J a``; else ``tr(H^{-1} J)/r``, where rows
        count by their leverage.
        """
        if self.plan.people:
            return 1.0 / SCALE_UP  # the scale of rows: the meat is of people
        J = self.meat - self.missed * np.eye(len(self.meat))
        if constant is not None:
            return float(constant @ J @ constant)
        return float(np.trace(np.linalg.solve(self.H, J))) / len(J)

    def undetermined(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Say which linear functions of d are not determined at this budget.

        Those that lie mostly in unresolved directions; with many columns those along which there
        is little information (``theory.md``, 4).
        """
        if self.plan.policy.shrinks:
            ahead = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
            along = np.sum((ahead @ self.H) * ahead, axis=1)
            return np.asarray(along < max(HARD, HARD_NOISE * self.noise))
        if not self.unresolved.shape[1]:
            return np.zeros(len(rows), dtype=bool)
        r = rows @ self.inverse
        part = np.sum((r @ self.unresolved) ** 2, axis=1)
        return np.asarray(part > UNRESOLVED * np.sum(r * r, axis=1))


def _conservative(values: Array, step: Step, plan: PassPlan) -> Array:
    """Return the eigenvalues of H that intervals divide by: lowered by their noise.

    Where H was shrunk by what dividing by a noisy number does on average, to second order (its
    noise is in the variances too); else by one noise sd. What is below the floor is unresolved.
    """
    low = values < step.floor
    if plan.policy.shrinks:
        v = np.maximum(values, step.floor)
        out = v - np.minimum(step.nu**2 / 2.0 * (np.sum(1.0 / v) + 1.0 / v), 0.5 * v)
        return np.where(low, np.minimum(out, np.maximum(values, step.floor * UNSEEN_SHRUNK)), out)
    least = step.floor * UNSEEN
    less = np.full_like(values, step.nu)
    if plan.people:
        less = np.minimum(step.nu, SECOND_ORDER * step.nu**2 / np.maximum(values, step.nu))
    return np.where(low, least, np.maximum(values - less, least))


def _left(clipped: Array, d: Array, noise: float) -> Array:
    """Return what the step leaves where people are clipped: (r,), in units of H d.

    The sum of clipped scores moves with theta as the information of those that are not clipped
    does (L), but the step divides by that of all (H): ``(H - L) d`` is missing, and as random as
    d. What noise of H - L alone would bring is taken off its length.
    """
    left = clipped @ d
    size, by_noise = float(left @ left), noise**2 / 2.0 * (len(d) + 1.0) * float(d @ d)
    return np.asarray(left * math.sqrt(max(0.0, 1.0 - by_noise / size) if size > 0.0 else 0.0))


def _meat(released: Released, plan: PassPlan, missed: float, safe: Array, least: float) -> Array:
    """Return J per row: shrunk, with what its own clip cut off, and no less than the model says.

    ``missed``: what squared lengths miss beyond R_J, per row and direction: any may hold it.
    ``least``: J over the floored information ``safe``.
    """
    r = len(safe)
    if released.meat is None:
        assert released.scale is not None
        return max(released.scale / (plan.rows * r), 0.05) * safe
    much = SHRUNK if plan.people else 1.0
    J = shrunk(
        released.meat / plan.tail_rows, plan.noise.meat / plan.tail_rows, r, part=much
    ) + missed * np.eye(r)
    if least > 0.0 and not plan.people:
        root, back = roots(safe)
        J = root @ floored(back @ J @ back, least) @ root
    return J


def infer(
    released: Released, plan: PassPlan, before: State, step: Step, score: Any, *, free: float,
    longest: float | None = None, tail: Tail | None = None, turn: Array | None = None,
    by_cluster: Callable[[Array], Array] | None = None,
) -> Inference:  # fmt: skip
    """Return the inference of the last pass of a model.

    Parameters
    ----------
    free : float
        ``n / (n - p)``: the small-sample factor of HC1.
    longest : float or None
        Of :class:`dpmodels.after.inference.Carried`.
    tail : Tail or None
        What lies beyond C, where it is known already; None: by the bins of this pass.
    turn : (r, r) array or None
        From the coordinates of scores (and of the meat) to those of the information, in which the
        step is; None: they are the same.
    by_cluster : function or None
        Of the meat of rows: that of clusters, which takes its place in the sampling covariance.
    """
    assert released.spread is not None
    r, n, part = len(step.d), plan.rows, plan.tail_rows
    values, vectors = step.axes
    inverse = (vectors / _conservative(values, step, plan)) @ vectors.T
    safe = (vectors * np.maximum(values, step.floor)) @ vectors.T
    phi, sd = before.phi, step.sd
    tail = tail_of(released, plan) if tail is None else tail
    missed = plan.clip**2 * tail.squares / r
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
        noise = math.hypot(step.nu, plan.noise.spread / part)
        left = _left(safe - released.spread / part, step.d, noise)
        noisy_H += np.outer(left, left)
    left_over = phi * score.remainder(before, step.d) / n * np.eye(r)
    privacy = inverse @ (phi * sd**2 * of_score + noisy_H + left_over) @ inverse
    # the noise of the information is the cause: what it adds is said to be of privacy
    found = max(float(np.trace(released.information)) / (r * n), 1e-300)
    noise = plan.noise.information / n * math.sqrt(2.0 * r) / found
    limits = (UNITS_BEAR if score.leverage else BOUNDED_BEAR) if plan.people else ROWS_BEAR
    most = STRETCHED_PEOPLE if plan.people else STRETCHED
    privacy += (stretch(noise, limits, most) ** 2 - 1.0) * (sampling + privacy)
    curved = score.curved(before, step.d, safe, phi * sd**2 * float(np.trace(inverse)))
    carried = None
    if not plan.people and not plan.whole:
        assert released.bins is not None
        carried = Carried(plan.clip, released.bins[AT_CLIP:], plan.count, n, longest)
    of_spread = plan.noise.spread / part
    kind = "signed" if plan.policy.signed else "plain" if plan.plain else "rows"
    if plan.people or plan.of_weights:
        kind = "people" if plan.people else "weights"
    allowance = Allowance(
        kind, not plan.whole, inverse, safe, released.spread / part,
        of_spread if plan.people or plan.policy.signed else 0.0, NAMED * of_spread,
        step.d, phi, sd, tail, score.leverage, curved.bend, curved.every, carried, turn,
    )  # fmt: skip
    return Inference(
        sampling / curved.stretch, privacy / curved.stretch**2, inverse, safe,
        vectors[:, values < step.floor], J, allowance, plan, step.nu, missed, noise >= limits[1],
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
    missed = lengths.squares(plan.clip, plan.meat) / plan.clip**2
    tail = Tail(0.0, total / plan.rows, error / plan.rows, squares=missed / plan.rows)
    r = len(chain.last.d)
    return infer(
        chain.released[-1], plan, chain.before, chain.last, chain.model,
        free=N / max(N - r, 1.0), tail=tail, turn=chain.turn,
        by_cluster=by_cluster,
    )  # fmt: skip
