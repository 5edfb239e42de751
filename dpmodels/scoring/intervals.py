"""Intervals from the last pass: sampling, noise, and what clipping may have moved. Sees no row.

``theory.md``, 4. Everything is in the coordinates v = W u of the last pass until the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.newton import SHRUNK, Step
from dpmodels.scoring.overflow import overflow
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.score import Score
from dpmodels.scoring.state import SCALE_UP, State, shrunk
from dpmodels.scoring.sums import AT_CLIP, Released

__all__ = ["Inference", "infer", "tail_weight"]


#: Bias allowance in score-noise sds: ``min(BASE + c l_j, MOST)``, c of the model.
BASE, MOST = 0.35, 2.0
#: Tail of the score lengths: share of t, and of C a row beyond it.
TAIL, BEYOND = 0.8, 0.35
#: Of the overflow of people's scores, what may point in one direction, where no information of a
#: coefficient lies with people that are clipped; as much more as does, at most all.
ONE_WAY = 0.45
#: Errors of the overflow that are added, times that part of the information.
UNSURE = 1.0
#: People: eigenvalues of the information are lowered by this many noise variances over their size,
#: which pays for what dividing by a noisy number does to coverage; at most by one noise sd.
SECOND_ORDER = 1.0
#: Bounds of the ratio of neighbouring bins.
RATIO = (0.1, 0.7)
#: From this part of its information in rows of large leverage a coefficient is named.
FEW_ROWS = 0.15
#: Of the clip: a step that moves the scores of the rows it rests on by more has not arrived.
SETTLED = 0.6
#: Part of a group of rows whose scores may be expected in one half octave.
ALIKE = 0.4
#: Least part of the information that ordinary rows count as having.
LONGEST = 0.02
#: A coefficient with this much of its variance in unresolved directions is not determined.
UNRESOLVED = 0.5


@dataclass(frozen=True, eq=False)
class Inference:
    """Covariances and allowances of the step, in w.

    Attributes
    ----------
    sampling, privacy : (r, r) arrays
        Covariances of d.
    inverse : (r, r) array
        ``H_I^{-1}``.
    score : float
        Noise sd of a score over n.
    tail : float
        What rows beyond C may have moved, over n.
    ordinary : (r, r) array
        Released information of ordinary rows per row (L).
    H : (r, r) array
        Information per row, floored.
    unresolved : (r, k) array
        Eigenvectors of unresolved directions.
    meat : (r, r) array
        J per row, as used.
    d : (r,) array
        The step.
    factor, bend : float
        c of the allowance; curvature times the length of the step.
    clipped : float
        0 where no score can be clipped: then there is nothing to allow for.
    people : bool
        The meat is of people.
    spread_noise : float
        Of the ordinary information of people: as much leverage is put down to it.
    tail_error : float
        Of the tail of people.
    """

    sampling: Array
    privacy: Array
    inverse: Array
    score: float
    tail: float
    ordinary: Array
    H: Array
    unresolved: Array
    meat: Array
    d: Array
    factor: float = 4.0
    clipped: float = 1.0
    bend: float = 0.0
    people: bool = False
    spread_noise: float = 0.0
    tail_error: float = 0.0
    carried: Carried | None = None

    def leverage(self, rows: Array) -> Array:
        """Return l_j of linear functions of d (k, r): information from rows of large leverage."""
        r = rows @ self.inverse
        ordinary = np.sum((r @ self.ordinary) * r, axis=1)
        ordinary += self.spread_noise * np.sum(r * r, axis=1)
        whole = np.sum((r @ self.H) * r, axis=1)
        return np.clip(1.0 - ordinary / whole, 0.0, 1.0)

    def few(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Say which linear functions of d rest on few rows.

        Where the model does not count leverage (bounded psi, kernel information) none is said to.
        """
        if not self.factor:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(self.leverage(rows) > FEW_ROWS)

    def bias(self, rows: Array, phi: float) -> Array:
        """Return the bias allowance of linear functions of d."""
        length = np.linalg.norm(rows @ self.inverse, axis=1) * math.sqrt(phi)
        few = self.leverage(rows)
        part = np.minimum(BASE + self.factor * few, MOST)
        clipped = self.clipped * length * np.maximum(part * self.score, self._moved(few))
        clipped += self.bend * np.abs(rows @ self.d)
        return np.asarray(clipped + self._unsettled(rows, few, phi))

    def _unsettled(self, rows: Array, few: Array, phi: float) -> Array:
        """Return what may be missing of a step along which scores were clipped (``theory.md``, 4).

        Parameters
        ----------
        few : array
            Parts of the information of coefficients in rows of large leverage.
        """
        if self.carried is None or not self.factor:
            return np.zeros(len(rows))
        r = rows @ self.inverse
        length = np.linalg.norm(r, axis=1)
        square = 2.0 * len(self.d) / np.maximum(1.0 - few, LONGEST)  # |w|^2 of the rows it rests on
        share = np.sum((r @ self.H) * r, axis=1) / length**2 / square
        part = square * np.abs(r @ self.d) / (length * math.sqrt(phi) * self.carried.clip)
        beyond = self.carried.beyond(share, np.sqrt(square / phi))
        missing = np.abs(rows @ self.d) * np.maximum(beyond / np.maximum(part, SETTLED) - 1.0, 0.0)
        return np.where((few > FEW_ROWS) & (part > SETTLED), missing, 0.0)

    def _moved(self, few: Array) -> Array:
        """Return what clipped scores may have moved in one direction, over n.

        Parameters
        ----------
        few : array
            Parts of the information of coefficients that clipped and long people hold.
        """
        if not self.people:
            return np.full_like(few, TAIL * self.tail)
        return np.minimum(ONE_WAY + few, 1.0) * (self.tail + UNSURE * few * self.tail_error)

    def variance(self, constant: Array | None) -> float:
        """Return the residual variance in units of the scale.

        Parameters
        ----------
        constant : (r,) array or None
            a with ``a'v = 1`` in every row: the variance is then ``a'J a``. None:
            ``tr(H^{-1} J)/r``, where rows count by their leverage.
        """
        if self.people:
            return 1.0 / SCALE_UP  # the scale of rows: the meat is of people
        if constant is not None:
            return float(constant @ self.meat @ constant)
        return float(np.trace(np.linalg.solve(self.H, self.meat))) / len(self.meat)

    def undetermined(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Say which linear functions of d lie mostly in unresolved directions."""
        if not self.unresolved.shape[1]:
            return np.zeros(len(rows), dtype=bool)
        r = rows @ self.inverse
        part = np.sum((r @ self.unresolved) ** 2, axis=1)
        return np.asarray(part > UNRESOLVED * np.sum(r * r, axis=1))


@dataclass(frozen=True, eq=False)
class Carried:
    """How long scores beyond C can be, by the released histogram.

    Attributes
    ----------
    clip : float
        C.
    counts : (k,) array
        Released counts of half octaves of ``|s| / C`` from 1 on, the last one open.
    sd : float
        Of their noise.
    n : int
    longest : float or None
        Largest residual, in units of the response that phi is of; None: the model sees none, and
        the open half octave counts as if it were closed.
    """

    clip: float
    counts: Array
    sd: float
    n: int
    longest: float | None

    def beyond(self, share: Array, scale: Array) -> Array:
        """Return how many C long the scores of groups of rows can be.

        Parameters
        ----------
        share : (k,) array
            Part of the rows that a group is.
        scale : (k,) array
            Length of a score of the group per unit of its residual.
        """
        edges = 2.0 ** (np.arange(1, len(self.counts) + 1) / 2.0)
        possible = self.counts + 2.0 * self.sd >= ALIKE * self.n * share[:, None]
        top = np.where(possible, edges, 1.0).max(axis=1)
        if self.longest is not None:
            top = np.where(possible[:, -1], self.longest * scale / self.clip, top)
        return np.asarray(np.maximum(top, 1.0))


def tail_weight(bins: Array, clip: float, sd: float) -> float:
    """Return t: how far rows beyond C may have moved the sum of scores.

    h1, h2 are the two half octaves below C and h3 the one above, r the released ratio of
    neighbours: ``t = .35 C max(0, ((h2 r + h3)/2 - r sd)/(1 - r))``.
    """
    h1, h2, h3 = (max(float(bins[AT_CLIP + i]), 0.0) for i in (-2, -1, 0))
    r = min(max((h2 + h3) / max(h1 + h2, sd), RATIO[0]), RATIO[1])
    return BEYOND * clip * max(0.0, ((h2 * r + h3) / 2.0 - r * sd) / (1.0 - r))


def _lowered(values: Array, nu: float) -> Array:
    """Return by how much eigenvalues of a noisy information are lowered."""
    return np.minimum(nu, SECOND_ORDER * nu * nu / np.maximum(values, nu))


def _left(clipped: Array, d: Array, noise: float) -> Array:
    """Return what the step leaves where people are clipped: (r,), in units of H d.

    The sum of clipped scores moves with theta as the information of those that are not clipped
    does (L), but the step divides by that of all (H): ``(H - L) d`` is missing, and as random as
    d. What noise of H - L alone would bring is taken off its length.
    """
    left = clipped @ d
    size, by_noise = float(left @ left), noise**2 / 2.0 * (len(d) + 1.0) * float(d @ d)
    return np.asarray(left * math.sqrt(max(0.0, 1.0 - by_noise / size) if size > 0.0 else 0.0))


def infer(
    released: Released, plan: PassPlan, before: State, step: Step, score: Score, *, free: float,
    longest: float | None = None,
) -> Inference:  # fmt: skip
    """Return the inference of the last pass.

    Parameters
    ----------
    before : State
        Where the pass looked from.
    free : float
        ``n / (n - p)``: the small-sample factor of HC1.
    longest : float or None
        Of :class:`Carried`.
    """
    r, n, part = len(step.d), plan.rows, plan.tail_rows
    values, vectors = np.linalg.eigh((step.H + step.H.T) / 2.0)
    low = values < step.floor
    less = _lowered(values, step.nu) if plan.people else step.nu
    careful = np.where(low, step.floor / 10.0, np.maximum(values - less, step.floor / 10.0))
    inverse = (vectors / careful) @ vectors.T
    phi = before.phi
    safe = (vectors * np.maximum(values, step.floor)) @ vectors.T
    if released.meat is not None:
        much = SHRUNK if plan.people else 1.0
        J = shrunk(released.meat / part, plan.noise.meat / part, r, part=much)
    else:
        assert released.scale is not None
        J = max(released.scale / (n * r), 0.05) * safe
    sampling = phi * free / n * inverse @ J @ inverse
    size = float(step.d @ step.d)
    noisy_H = step.nu**2 / 2.0 * (size * np.eye(r) + np.outer(step.d, step.d))
    sd = plan.noise.score / n
    assert released.bins is not None and released.spread is not None
    if plan.people:
        noise = math.hypot(step.nu, plan.noise.spread / part)
        left = _left(safe - released.spread / part, step.d, noise)
        noisy_H += np.outer(left, left)
    privacy = inverse @ (phi * sd**2 * np.eye(r) + noisy_H) @ inverse
    tail = unsure = 0.0
    carried = None
    if plan.people:
        over, unsure = overflow(released.bins, plan.noise.count)
        tail, unsure = plan.clip * over / n, plan.clip * unsure / n
    elif not plan.whole:
        tail = tail_weight(released.bins, plan.clip, plan.noise.count) / n
        carried = Carried(plan.clip, released.bins[AT_CLIP:], plan.noise.count, n, longest)
    return Inference(
        sampling,
        privacy,
        inverse,
        sd,
        tail,
        released.spread / part,
        safe,
        vectors[:, low],
        J,
        step.d,
        score.leverage,
        0.0 if plan.whole else 1.0,
        score.curvature * before.length(step.d) / score.unit(before),
        plan.people,
        plan.noise.spread / part if plan.people else 0.0,
        unsure,
        carried,
    )
