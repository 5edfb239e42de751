"""What an interval allows for beside variances: clipping, leverage, curvature.

A function of any linear combination of coefficients, not of single ones: bounds of a contrast, an
adjusted mean or a prediction are far below the sum of those of its coefficients
(``scoring/theory.md``, 4). Released numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

#: Bias allowance in score-noise sds: ``min(BASE + c l_j, MOST)``, c of the model.
BASE, MOST = 0.35, 2.0
#: Share of t, what rows just beyond C may have moved, in the allowance.
TAIL = 0.8
#: Of the overflow, what may point in one direction where no information of a coefficient lies
#: with what is clipped (people; rows: at most, and over the root of the columns); as much more as
#: does, at most all.
ONE_WAY, ONE_WAY_ROWS = 0.45, 0.9
#: The same of rows with weights.
ONE_WAY_WEIGHTS = 1.0
#: Errors of the overflow that are added, times that part of the information.
UNSURE = 1.0
#: The same of people, and of the part that goes with what is clipped: where a group of people holds
#: most of a coefficient's information and is clipped, all that is clipped lies its way.
UNSURE_OF_PEOPLE, OF_CLIPPED = 3.0, 2.0
#: Least squares with many columns: at most; parts for what is even, for one sign, for a column;
#: for leverage; and what is left of t.
MOST_ONE_WAY, EVEN, ONE_SIGN, A_COLUMN, OF_LEVERAGE, OLD = 0.8, 0.3, 0.6, 1.2, 0.5, 2.5
#: From this part of its information in rows of large leverage a coefficient is named.
FEW_ROWS = 0.15
#: Of the clip: a step that moves the scores of the rows it rests on by more has not arrived.
SETTLED = 0.6
#: Part of a group of rows whose scores may be expected in one half octave.
ALIKE = 0.4
#: Least part of the information that ordinary rows count as having.
LONGEST = 0.02


def _read_only(array: Array) -> Array:
    copy = np.array(array, dtype=float)
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True)
class Tail:
    """What rows (or people) beyond C may have moved the sum of scores, over n.

    Attributes
    ----------
    near : float
        t: by the half octaves about C.
    total, error : float
        What lies beyond, by the released histogram, and its error.
    one_sided : float
        Of what is beyond, how much has one sign, in [0, 1].
    squares : float
        What the meat misses beyond its radius, in units of C^2.
    unseen : float
        What beyond C may hide in the noise of one count.
    """

    near: float = 0.0
    total: float = 0.0
    error: float = 0.0
    one_sided: float = 1.0
    squares: float = 0.0
    unseen: float = 0.0


@dataclass(frozen=True, eq=False)
class Allowance:
    """The bias that an interval allows for, of linear functions of the step d.

    Attributes
    ----------
    kind : {"rows", "plain", "signed", "people", "weights"}
        Which rule for what clipping moved: rows; rows whose clip lies beyond a hump; rows with a
        signed histogram; people; rows with weights of their own.
    clipped : bool
        Whether any score can be.
    inverse, H : (r, r) arrays
        ``H_I^{-1}``, as lowered for intervals; information per row, floored.
    ordinary : (r, r) array
        Released information of ordinary rows per row (L).
    spread_noise, naming_noise : float
        Of L: as much leverage is put down to it, in the allowance and where it is named.
    d : (r,) array
        The step.
    phi : float
    score : float
        Noise sd of a score over n.
    tail : Tail
    leverage_factor : float
        c of the model.
    bend, every : float
        What the curvature of the loss adds: over the step along a combination, and in every
        direction.
    carried : Carried or None
        None: no score can be clipped, or people.
    turn : (r, r) array or None
        From coordinates in which noise and clip of the scores are round to those of d; None: they
        are round in those.
    """

    kind: str
    clipped: bool
    inverse: Array
    H: Array
    ordinary: Array
    spread_noise: float
    naming_noise: float
    d: Array
    phi: float
    score: float
    tail: Tail
    leverage_factor: float
    bend: float = 0.0
    every: float = 0.0
    carried: Carried | None = None
    turn: Array | None = None

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
        return np.asarray(self.leverage(rows, self.naming_noise) > FEW_ROWS)

    def bias(self, rows: Array) -> Array:
        """Return the bias allowance of linear functions of d (k, r)."""
        few = self.leverage(rows)
        out = self.bend * np.abs(rows @ self.d)
        out += self.every * np.linalg.norm(rows, axis=1)
        if self.clipped:
            along = rows @ self.inverse
            along = along if self.turn is None else along @ self.turn
            length = np.linalg.norm(along, axis=1) * math.sqrt(self.phi)
            part = np.minimum(BASE + self.leverage_factor * few, MOST)
            out += length * np.maximum(part * self.score, self._moved(few))
        return np.asarray(out + self._unsettled(rows, few))

    def frozen(self) -> Allowance:
        """Return a copy whose arrays cannot be written to."""
        arrays = ("inverse", "H", "ordinary", "d")
        kept: dict[str, Any] = {name: _read_only(getattr(self, name)) for name in arrays}
        kept["turn"] = None if self.turn is None else _read_only(self.turn)
        if self.carried is not None:
            counts = _read_only(self.carried.counts)
            return replace(self, **kept, carried=replace(self.carried, counts=counts))
        return replace(self, **kept)

    def _moved(self, few: Array) -> Array:
        """Return what clipped scores may have moved in one direction, over n.

        Parameters
        ----------
        few : array
            Parts of the information of coefficients that clipped and long units hold.
        """
        tail, r = self.tail, len(self.d)
        if self.kind == "people":
            unsure = tail.total + np.minimum(UNSURE_OF_PEOPLE * few, 1.0) * tail.error
            return np.asarray(np.minimum(ONE_WAY + OF_CLIPPED * few, 1.0) * unsure)
        unsure = tail.total + UNSURE * few * tail.error
        if self.kind == "signed":
            even = (EVEN + ONE_SIGN * tail.one_sided + A_COLUMN / r) / math.sqrt(r)
            part = np.minimum(MOST_ONE_WAY, even + OF_LEVERAGE * few)
            near = TAIL * min(1.0, OLD / r) * tail.near
            return np.asarray(np.maximum(part * (tail.total + tail.error), near))
        part = np.minimum(min(ONE_WAY, ONE_WAY_ROWS / math.sqrt(r)) + few, 1.0)
        if self.kind == "weights":  # heavy rows are long whatever their residual's sign
            part = np.minimum(ONE_WAY_WEIGHTS / r + few, 1.0)
            unsure = np.maximum(tail.total, tail.unseen)
        near = 0.0 if self.kind == "plain" else TAIL * tail.near
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


@dataclass(frozen=True, eq=False)
class BiasBound:
    """The bias that a fit allows for, of any combination of its coefficients.

    Attributes
    ----------
    parts : tuple of (T, Allowance)
        Of every chain of the fit, in the order of coefficients: T (p, r) maps its step to them.
    """

    parts: tuple[tuple[Array, Allowance], ...]

    def frozen(self) -> BiasBound:
        """Return a copy whose arrays cannot be written to."""
        return BiasBound(tuple((_read_only(T), one.frozen()) for T, one in self.parts))

    def of(self, L: Array) -> Array:
        """Return (k,) bounds on the bias of combinations ``L b``, L (k, coefficients)."""
        out, first = np.zeros(len(L)), 0
        for T, allowance in self.parts:
            rows = L[:, first : first + len(T)] @ T
            moved = (rows != 0.0).any(axis=1)
            if moved.any():
                out[moved] += allowance.bias(rows[moved])
            first += len(T)
        return out
