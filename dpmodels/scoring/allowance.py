"""What an interval allows for beside variances: clipping, leverage, curvature. Sees no row.

``theory.md``, 4. In the coordinates v = W u of the last pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.overflow import overflow
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.score import Curved
from dpmodels.scoring.sums import AT_CLIP, Released

__all__ = ["Allowance", "Carried", "Tail", "tail_of", "tail_weight"]

#: Bias allowance in score-noise sds: ``min(BASE + c l_j, MOST)``, c of the model.
BASE, MOST = 0.35, 2.0
#: Share of t (:func:`tail_weight`) in the allowance, and of C a row beyond it.
TAIL, BEYOND = 0.8, 0.35
#: Of the overflow, what may point in one direction where no information of a coefficient lies
#: with what is clipped (people; rows: at most, and over the root of the columns); as much more as
#: does, at most all.
ONE_WAY, ONE_WAY_ROWS = 0.45, 0.9
#: Errors of the overflow that are added, times that part of the information.
UNSURE = 1.0
#: Least squares with many columns: at most; parts for what is even, for one sign, for a column;
#: for leverage; and what is left of t.
MOST_ONE_WAY, EVEN, ONE_SIGN, A_COLUMN, OF_LEVERAGE, OLD = 0.8, 0.3, 0.6, 1.2, 0.5, 2.5
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


@dataclass(frozen=True)
class Tail:
    """What rows (or people) beyond C may have moved the sum of scores, over n.

    Attributes
    ----------
    near : float
        t: by the half octaves about C (:func:`tail_weight`).
    total, error : float
        Of :func:`dpmodels.scoring.overflow.overflow`.
    one_sided : float
        Of what is beyond, how much has one sign, in [0, 1].
    squares : float
        What the meat misses beyond its radius, in units of C^2.
    """

    near: float = 0.0
    total: float = 0.0
    error: float = 0.0
    one_sided: float = 1.0
    squares: float = 0.0


@dataclass(frozen=True, eq=False)
class Allowance:
    """The bias that an interval allows for, of linear functions of the step d.

    Attributes
    ----------
    plan : PassPlan
    inverse, H : (r, r) arrays
        ``H_I^{-1}``, as lowered for intervals; information per row, floored.
    ordinary : (r, r) array
        Released information of ordinary rows per row (L).
    spread_noise : float
        Of L: as much leverage is put down to it.
    d : (r,) array
        The step.
    phi : float
    score : float
        Noise sd of a score over n.
    tail : Tail
    leverage_factor : float
        c of the model.
    curved : Curved
    carried : Carried or None
        None: no score can be clipped, or people.
    """

    plan: PassPlan
    inverse: Array
    H: Array
    ordinary: Array
    spread_noise: float
    d: Array
    phi: float
    score: float
    tail: Tail
    leverage_factor: float
    curved: Curved
    carried: Carried | None = None

    def leverage(self, rows: Array, noise: float | None = None) -> Array:
        """Return l_j of linear functions of d (k, r): information from rows of large leverage.

        ``noise``: of L, as much is put down to it; None: ``spread_noise``.
        """
        noise = self.spread_noise if noise is None else noise
        r = rows @ self.inverse
        ordinary = np.sum((r @ self.ordinary) * r, axis=1) + noise * np.sum(r * r, axis=1)
        whole = np.sum((r @ self.H) * r, axis=1)
        return np.clip(1.0 - ordinary / whole, 0.0, 1.0)

    def few(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Say which linear functions of d rest on rows of high leverage.

        Where the model does not count leverage (bounded psi, kernel information) none is said to.
        """
        if not self.leverage_factor:
            return np.zeros(len(rows), dtype=bool)
        noise = self.plan.noise.spread / self.plan.tail_rows
        return np.asarray(self.leverage(rows, noise) > FEW_ROWS)

    def bias(self, rows: Array) -> Array:
        """Return the bias allowance of linear functions of d (k, r)."""
        few = self.leverage(rows)
        out = self.curved.bend * np.abs(rows @ self.d)
        out += self.curved.every * np.linalg.norm(rows, axis=1)
        if not self.plan.whole:
            length = np.linalg.norm(rows @ self.inverse, axis=1) * math.sqrt(self.phi)
            part = np.minimum(BASE + self.leverage_factor * few, MOST)
            out += length * np.maximum(part * self.score, self._moved(few))
        return np.asarray(out + self._unsettled(rows, few))

    def _moved(self, few: Array) -> Array:
        """Return what clipped scores may have moved in one direction, over n.

        Parameters
        ----------
        few : array
            Parts of the information of coefficients that clipped and long units hold.
        """
        tail, r = self.tail, len(self.d)
        unsure = tail.total + UNSURE * few * tail.error
        if self.plan.people:
            return np.asarray(np.minimum(ONE_WAY + few, 1.0) * unsure)
        if self.plan.manner.signed:
            even = (EVEN + ONE_SIGN * tail.one_sided + A_COLUMN / r) / math.sqrt(r)
            part = np.minimum(MOST_ONE_WAY, even + OF_LEVERAGE * few)
            near = TAIL * min(1.0, OLD / r) * tail.near
            return np.asarray(np.maximum(part * (tail.total + tail.error), near))
        part = np.minimum(min(ONE_WAY, ONE_WAY_ROWS / math.sqrt(r)) + few, 1.0)
        near = 0.0 if self.plan.plain else TAIL * tail.near
        return np.asarray(np.maximum(part * unsure, near))

    def _unsettled(self, rows: Array, few: Array) -> Array:
        """Return what may be missing of a step along which scores were clipped (``theory.md``, 4).

        Parameters
        ----------
        few : array
            Parts of the information of coefficients in rows of large leverage.
        """
        if self.carried is None or not self.leverage_factor:
            return np.zeros(len(rows))
        r = rows @ self.inverse
        length = np.linalg.norm(r, axis=1)
        square = 2.0 * len(self.d) / np.maximum(1.0 - few, LONGEST)  # |w|^2 of the rows it rests on
        share = np.sum((r @ self.H) * r, axis=1) / length**2 / square
        part = square * np.abs(r @ self.d) / (length * math.sqrt(self.phi) * self.carried.clip)
        beyond = self.carried.beyond(share, np.sqrt(square / self.phi))
        missing = np.abs(rows @ self.d) * np.maximum(beyond / np.maximum(part, SETTLED) - 1.0, 0.0)
        return np.where((few > FEW_ROWS) & (part > SETTLED), missing, 0.0)


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


def tail_of(released: Released, plan: PassPlan) -> Tail:
    """Return what lies beyond C, by the released histogram of the last pass."""
    assert released.bins is not None
    if plan.whole:
        return Tail()
    n, bins = plan.rows, released.bins
    if plan.people:
        found = overflow(bins, plan.count)
        return Tail(0.0, plan.clip * found.total / n, plan.clip * found.error / n)
    radius = plan.meat / plan.clip if plan.meat else math.inf
    found = overflow(bins, plan.count, radius, humped=plan.humped, apart=True)
    near = tail_weight(bins, plan.clip, plan.count)
    return Tail(
        near / n,
        plan.clip * found.total / n,
        plan.clip * found.error / n,
        _one_sided(released, plan),
        found.squares / n,
    )


def _one_sided(released: Released, plan: PassPlan) -> float:
    """Return how much of what is beyond .71 C has one sign; noise counts as one sign."""
    if released.signed is None:
        return 1.0
    assert released.bins is not None
    counts, net = released.bins[AT_CLIP - 1 :], released.signed[AT_CLIP - 1 :]
    by_noise = plan.count * math.sqrt(len(counts))
    net_sum, total = abs(float(np.sum(net))), float(np.sum(counts))
    return min(1.0, (net_sum + by_noise) / max(total, by_noise))
