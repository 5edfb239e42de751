"""Formulas of a row for an average treatment effect, at released coefficients.

A row has its influence function, the derivatives of that in the coefficients, and residuals
(``theory.md``, 2). A unit is one row, or a person with several, and the sets of
:mod:`dpmodels.core.units` add its mean over complete rows. Sees opaque rows alone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import Rows, clip, complete, linear, only_where, stack
from dpmodels.families import LINKS
from dpmodels.models.treatment.facts import Assignment, Fitted, Influence
from dpmodels.models.weights import row_mass

#: Weight of the constant in the rows of the balance: the counts of the arms need more than a mean.
COUNT_WEIGHT = 1.5


def mean_of(at: Influence, model: Fitted, z: Rows) -> tuple[Any, Any]:
    """Return predicted means of rows and their slopes in the linear predictor."""
    low, high = at.link.reach
    if at.link.name == "log":
        high = min(high, math.log(max(at.most, 1e-6)))
    eta = linear(model.coef[None], model.columns(z))
    inside = clip(eta, low, high)
    return at.link.inverse(inside), at.link.slope(inside) * (inside == eta)  # type: ignore[arg-type]


def assignment_of(at: Assignment, z: Rows) -> tuple[Rows, Any, Rows]:
    """Return treatments, propensities and weights of rows, 0 for one that is not complete."""
    t, u = z[at.treated], row_mass(z, at.weights, at.top)
    eta: Any = linear(at.propensity.coef[None], at.propensity.columns(z))
    raw: Any = LINKS["logit"].inverse(np.clip(eta, -30.0, 30.0))
    present = complete(z) & complete(raw) & ((t == 0.0) | (t == 1.0)) & (u > 0.0)
    return t, raw, only_where(u, present)


def influence_of(at: Influence, z: Rows) -> Looked:
    """Return the influence functions of rows; a row that is not complete counts 0."""
    (t, raw, u), y, (low, high) = assignment_of(at, z), z[-1], at.clip
    e = clip(raw, low, high)
    odds, slope = e / (1.0 - e), (raw > low) & (raw < high)
    (m1, s1), (m0, s0) = (mean_of(at, model, z) for model in at.outcomes)
    r1, r0 = y - m1, y - m0
    if at.estimand == "ATT":
        d, treated, control = t, t, (1.0 - t) * odds
        none: Any = np.zeros_like(y)
        phi = stack(t * y, t * m0 + control * r0)
        of_e = stack(none, control * r0 * slope)
        of_m = stack(none, (t - control) * s0)
    else:
        d = np.ones_like(y)  # type: ignore[assignment]
        treated, control = t / e, (1.0 - t) / (1.0 - e)
        phi = stack(m1 + treated * r1, m0 + control * r0)
        of_e = stack(-treated * r1 * (1.0 - e), control * r0 * e) * slope
        of_m = stack((1.0 - treated) * s1, (1.0 - control) * s0)
    present = complete(phi[0] + phi[1]) & (u > 0.0)
    residuals = t - raw, t * r1, (1.0 - t) * r0
    weight = stack(treated, control)
    return Looked(present, only_where(u, present), t, d, weight, phi, of_e, of_m, residuals)


@dataclass(frozen=True, eq=False)
class Looked:
    """Rows at released coefficients: one column, or two for the arms treated and not."""

    complete: Rows  # Rows without a missing cell
    u: Rows  # Weight of the row, in [0, 1]
    t: Rows
    d: Rows  # Part of the row in the denominator: 1, or t for the ATT
    weight: Rows  # Inverse probability weights
    phi: Rows  # Influence functions of the two means
    of_e: Rows  # Derivatives in the linear predictor of the propensity
    of_m: Rows  # Derivatives in that of the arm's own outcome model
    residuals: tuple[Rows, ...]  # Residuals of the propensity and of both outcome models

    def weighed(self, x: Rows) -> Rows:
        """Return numbers of rows times their weight, 0 where the row is not complete."""
        return only_where(x, self.complete) * self.u

    def pairs(self, turn: Array, phi: Rows) -> Rows:
        """Return (difference, mean) of the arms' values, times the weights of rows."""
        return self.weighed(linear(turn, phi))


# -- Overlap and balance


@dataclass(frozen=True, eq=False)
class OverlapRows:
    """Cell of the propensity of a row, in its arm, and the mass of the row."""

    at: Assignment
    edges: Array  # Inner edges of the cells

    @property
    def cells(self) -> int:
        """Number of cells of one arm."""
        return len(self.edges) + 1

    def __call__(self, z: Rows, person: OwnRows) -> tuple[Rows, Rows]:
        """Return the cell and the mass."""
        t, raw, u = assignment_of(self.at, z)
        cell: Any = np.searchsorted(self.edges, raw, "right")  # type: ignore[call-overload]
        return cell + self.cells * (t == 0.0), u


@dataclass(frozen=True, eq=False)
class BalanceRows:
    """Moments of both arms, before and after weighting."""

    at: Influence
    places: tuple[int, ...]  # Columns of the covariates and, last, of the response
    centre: Array
    half: Array
    most: tuple[float, float]  # Weights of both arms count up to these

    @property
    def size(self) -> int:
        """Number of moments."""
        return 5 * len(self.places) + 4

    @property
    def radius(self) -> float:
        """Length of the longest row of moments."""
        square = float(len(self.places))
        return math.sqrt(2.0 * (COUNT_WEIGHT**2 + square) + square)

    def __call__(self, z: Rows, person: OwnRows) -> tuple[Rows, Rows]:
        """Return the moments of rows, five blocks, and which rows are complete."""
        looked = influence_of(self.at, z)
        x = clip((z[list(self.places)] - self.centre) / self.half, -1.0, 1.0)
        constant: Any = np.full_like(x[0], COUNT_WEIGHT)
        with_one = stack(constant, x)
        after = np.minimum(looked.weight / np.array(self.most), 1.0)
        arms = looked.t, 1.0 - looked.t, after[0], after[1]
        return looked.weighed(stack(*(with_one * arm for arm in arms), x**2)), looked.complete


# -- The effect: lengths, sums, squares


@dataclass(frozen=True, eq=False)
class EffectRows:
    """Centred influence functions (difference, mean of the arms), and their derivatives."""

    at: Influence
    centres: tuple[float, float]  # Centres of both means
    unit: float  # Response units to one unit of lengths
    part: float  # Part of the treated in the mean of both arms

    @functools.cached_property
    def width(self) -> int:
        """Number of derivatives."""
        return sum(model.root.shape[1] for model, _, _ in self.at.blocks)

    @property
    def turn(self) -> Array:
        """Difference and mean of both arms."""
        return np.array([[1.0, -1.0], [self.part, 1.0 - self.part]])

    def centred(self, looked: Looked) -> Rows:
        """Return the influence functions of both arms about their centres."""
        return (looked.phi - np.array(self.centres) * looked.d) / self.unit

    def pairs(self, looked: Looked) -> Rows:
        """Return (difference, mean) of the arms of rows about their centres."""
        return looked.pairs(self.turn, self.centred(looked))

    def derivatives(self, looked: Looked, z: Rows) -> Rows:
        """Return the derivatives of rows along the roots of the privacy covariances."""
        parts = []
        for model, arm, of_e in self.at.blocks:
            slope = (looked.of_e if of_e else looked.of_m)[arm] / self.unit
            parts.append(linear(model.root.T, model.columns(z)) * slope)
        return looked.weighed(stack(*parts))

    def lengths(self, z: Rows, person: OwnRows) -> tuple[Rows, Rows]:
        """Return the pairs of rows, and which rows are complete."""
        looked = influence_of(self.at, z)
        return self.pairs(looked), looked.complete

    def __call__(self, z: Rows, person: OwnRows) -> tuple[Rows, Rows]:
        """Return pairs and derivatives of rows, and which rows are complete."""
        looked = influence_of(self.at, z)
        return stack(self.pairs(looked), self.derivatives(looked, z)), looked.complete


@dataclass(frozen=True, eq=False)
class SquareRows:
    """Influence functions corrected for the nuisance fits, over their scales."""

    rows: EffectRows  # About the estimated means
    # Each (2, k): how residuals of the propensity and of the two outcome models move both means.
    turns: tuple[Array, ...]
    scales: tuple[float, float]  # Scales of difference and mean

    def __call__(self, z: Rows, person: OwnRows) -> tuple[Rows, Rows]:
        """Return (difference, mean) of rows over their scales, and which rows are complete."""
        at = self.rows.at
        looked = influence_of(at, z)
        phi = self.rows.centred(looked)
        models = (at.propensity, *at.outcomes)
        for model, turn, residual in zip(models, self.turns, looked.residuals, strict=True):
            moved = linear(turn, model.columns(z, in_fit=True))
            phi = phi + moved * residual / self.rows.unit
        return looked.pairs(self.rows.turn, phi) / np.array(self.scales), looked.complete
