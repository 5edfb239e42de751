"""Scores of units: models of a person's rows, as formulas of the rows of one unit.

For a regression each unit (a row, or a person with any number of rows) has a score and an
information. An *expansion* is a public function of the unit's rows and of released numbers that
returns both (:class:`dpmodels.core.units.Scores`). The sets of :mod:`dpmodels.core.units` clip them
by unit and sum them in integers. A plain row is a person with one row.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import Rows, length, linear, only_where
from dpmodels.core.sets import Formula
from dpmodels.core.units import Scores, UnitFormula
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.models import Model, State
from dpmodels.scoring.passes import Centre, row_of
from dpmodels.sums.products import VAST


class Expansion:
    """A model of a unit's rows, initialised: public and released numbers only.

    What is here is what likelihoods share: nothing is learnt beside theta, steps are measured in
    linear predictors, C is by the histogram.
    """

    # The score is linear in theta: earlier information helps, steps are not damped.
    averages: ClassVar[bool] = False
    jump: ClassVar[float] = 0.0  # That of the model of rows
    # Follow-up is used up before a score is longer than C, so that none is clipped.
    stops: ClassVar[bool] = False

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
        """Return the expansion of pass k; ``clip`` is C, for a model that depends on it."""
        raise NotImplementedError

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with updates from a pass other than theta.

        H is the information over that of rows of weight 1, the identity where they are equal;
        ``ratio`` the mean squared score of rows over their information, if it was released.
        """
        return state

    def events(self, H: Array) -> float:
        """Return r, by which a step is measured: events a unit where scores are exponential, or 1.

        H is the released information of a unit, in u.
        """
        raise NotImplementedError

    def weighed(self, factor: float) -> Expansion:
        """Return the model with at most ``factor`` mean informations a unit, if it can."""
        return self

    def constrained(self, theta: Array) -> Array:
        """Return theta where the model allows it: released numbers only."""
        return theta

    def longest(self, state: State) -> float:
        """Return the longest early step: root mean square change of the linear predictor.

        It is 1 for likelihoods, a factor of 2.7 in odds, rates or hazards.
        """
        return rules.MAX_EARLY_STEP

    def clip(self, p: int, mu_score: float, N: float, square: float) -> float:
        """Return C if the model chooses it, or 0 to choose it by the released histogram."""
        return 0.0

    def typical_long(self, state: State) -> float:
        """Return the score length of rare units, from released numbers, or 0 if there are none.

        C is no smaller: few long scores are lost in the noise of a histogram.
        """
        return 0.0


def in_u(coordinates: Coordinates, rows: Rows) -> Rows:
    """Return u of each row (r numbers)."""
    matrix, shift = coordinates.affine
    return linear(matrix, rows, shift)


def predictor(theta: Array, u: Any) -> Any:
    """Return ``theta'u`` of each row, coordinate by coordinate; u (r, m) are rows, or public."""
    eta = np.zeros_like(u[0])
    for j, b in enumerate(theta):
        eta = eta + b * u[j]
    return eta


@dataclass(frozen=True, eq=False)
class RegressionRows:
    """Formula of a regression: scores ``w psi`` and information ``sqrt(omega) w``, ``w = W u``.

    Both have a weight, which a unit's predictors decide: ``min(1, most/t)``, t the trace of its
    information. So what a long record adds is known before its response is seen.
    """

    centre: Centre  # State at which the pass is evaluated
    # w and the residual less their means over the unit's rows (fixed effects).
    demean: bool = False
    equal: bool = False  # Units count equally: each of its T complete rows as 1/T
    most: float = math.inf  # Largest trace of the information of a unit

    @functools.cached_property
    def _formula(self) -> Formula:
        """Formula of a row: (w, psi, omega)."""
        return row_of(self.centre, 1.0, rotated=False)[0]

    def __call__(self, rows: Rows, person: OwnRows) -> Scores:
        """Return the scores and the information of whole units."""
        w, psi, omega = self._formula(rows)
        size = length(w)
        complete_row = (size <= VAST) & (np.abs(psi) <= VAST)
        if omega is not None:
            complete_row = complete_row & (np.abs(omega) <= VAST)
        w, psi, size = (only_where(x, complete_row) for x in (w, psi, size))
        present = complete_row * 1.0 if self.demean or self.equal else complete_row
        if self.demean:
            w, psi = ((x - person.mean(x, present)) * present for x in (w, psi))
            size = length(w)
        weight = None if omega is None else only_where(omega, complete_row)
        score: Any = w * psi
        part: Any = None
        if self.equal:
            part = 1.0 / np.maximum(person.sum(present), 1.0)
            weight = part if weight is None else part * weight
        if self.most < math.inf:
            square = size**2
            factor = part if self.centre.of_residual else weight  # omega may be of the response
            trace = person.sum(square if factor is None else square * factor)
            light: Any = self.most / np.maximum(trace, self.most)
            weight = light if weight is None else light * weight
            part = light if part is None else light * part
        if part is not None:
            score = score * part

        def information() -> tuple[Rows, ...]:
            return (w if weight is None else w * np.sqrt(np.maximum(weight, 0.0)),)

        return Scores(score, information, shares=part)


@dataclass(frozen=True, eq=False)
class Regression(Expansion):
    """A model of rows (:class:`~dpmodels.scoring.models.Model`) as an expansion."""

    score: Model
    coordinates: Coordinates
    # offset, weights: rows of the block that hold them.
    offset: int | None = None
    weights: int | None = None
    values: Any = None  # Released distribution of the response (`unit_starts.Spread`)
    demean: bool = False  # With an effect of each unit: its own means are taken off
    equal: bool = False  # Units count alike, not rows
    factor: float = math.inf  # Largest information of a unit, over the mean

    averages = property(attrgetter("score.averages"))  # Whether the score is linear in theta
    jump = property(attrgetter("score.jump"))  # Jump of the score of a row

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
        """Return the rows of pass k."""
        c = self.coordinates
        centre = Centre(
            c.unit, c.W0, state.theta, state.W, state.phi, self.score.evaluate(state),
            self.score.of_residual, self.offset, self.weights, c.mean_weight,
        )  # fmt: skip
        most = self.factor * float(np.trace(state.W @ state.M @ state.W.T))
        return RegressionRows(centre, self.demean, self.equal, most)

    def weighed(self, factor: float) -> Regression:
        """Return the model in which no unit has more than ``factor`` mean informations."""
        return replace(self, factor=factor)

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with the scale that a pass estimated."""
        return self.score.updated(state, H, ratio)

    def events(self, H: Array) -> float:
        """Return the sum of a unit's weights: its events for counts, otherwise at least 1."""
        a = self.coordinates.constant  # whose information is the sum of a unit's weights omega
        omega = max(float(a @ H @ a), 1e-3) if a is not None else 1.0
        return omega if not self.score.of_residual and not self.score.bounded else max(omega, 1.0)

    def longest(self, state: State) -> float:
        """Return one sd of the response, or 1 for models of a mean: the longest early step."""
        if not self.score.of_residual:
            return rules.MAX_EARLY_STEP
        sd = 0.5 if self.values is None else self.values.sd * float(self.coordinates.unit.scale[-1])
        return rules.MAX_EARLY_STEP * sd

    def typical_long(self, state: State) -> float:
        """Return the length of the score of a unit with the rarer of two outcomes.

        For an event it is ``T (1 - m) |W u|`` at the centre of the predictors, m the fitted share
        and T the number of rows of a unit, from the information of the constant before the first
        pass. It is at most ``RARE_LENGTH_OF_UNITS sqrt(1/m_0 + r)``, m_0 the released share, as
        noise may have moved the fit far away. For rare counts it is the length of a count of 1,
        ``sqrt(r/mean)`` with the mean count of a unit. For a quantile it is the length of one row
        beyond it, ``max(tau, 1 - tau) sqrt(r/T)`` over the root of ``tau (1 - tau)``.
        """
        a, values = self.coordinates.constant, self.values
        if a is None or values is None:
            return 0.0
        if self.score.counts_events and not self.score.is_event:
            mean = float(a @ state.M @ a)
            return math.sqrt(len(a) / max(mean, 1e-3)) if mean < rules.RARE_MEAN else 0.0
        if not self.score.is_event:
            return self.score.jump * math.sqrt(len(a) / max(float(a @ state.M @ a), 1.0))
        first = min(max(values.mean, 1.0 - values.mean), 1.0 - 1e-3)
        rows = max(float(a @ state.M @ a) / (first * (1.0 - first)), 1.0)
        u = a / float(a @ a)
        long = rows * float(self.score.farthest(state, np.array([state.theta @ u]))[0])
        most = rules.RARE_LENGTH_OF_UNITS * math.sqrt(1.0 / (1.0 - first) + len(u))
        return min(long * float(np.linalg.norm(state.W @ u)), most)
