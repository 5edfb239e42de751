"""Contributions of rows and people to an average treatment effect, at released coefficients.

A row adds its influence function, the derivatives of that in the coefficients, and its squares
(``theory.md``, 2). A person adds the mean over its complete rows. Every contribution is a function
of one unit's rows and of released numbers, rounded into a public clip set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.families import LINKS, Link
from dpmodels.models.weights import mass_of
from dpmodels.proof.sets import STEPS
from dpmodels.scoring.rules import OCTAVES
from dpmodels.scoring.unit_passes import octaves, own_sum, units_of
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sums.products import ExactSum, cross_product, end_along, mapped, squares

#: Arms of a trial, in the order of every pair of numbers: treated, not treated.
ARMS = 2
#: Weight of the constant in the rows of the balance: the counts of the arms need more than a mean.
CONSTANT = 1.5


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released coefficients of one nuisance model, at the rows of the joint design."""

    places: tuple[int, ...]  # Rows of the block that hold its columns
    coef: Array  # (p,)
    root: Array  # (p, k): root of the privacy covariance of the coefficients
    bread: Array  # (p, p): inverse information per unit
    back: Array  # (p, k): its coefficients are those of the fit times this
    mean_weight: float = 1.0  # Weights count over it in the scores of the fit

    def eta(self, block: Array) -> Array:
        """Return the linear predictors of rows."""
        return np.asarray(mapped(self.coef[None, :], block[list(self.places)])[0])

    def along(self, matrix: Array, block: Array) -> Array:
        """Return ``matrix x`` of rows."""
        return np.asarray(mapped(matrix, block[list(self.places)]))


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence functions of two arms at released coefficients: public and released numbers."""

    estimand: str  # "ATE" or "ATT"
    treated: int  # Row of the block with the treatment, 0 or 1
    weights: int | None  # Row with the weights, or None
    top: float  # Largest declared weight: a row counts as w / top
    clip: tuple[float, float]  # Bounds of the propensity
    propensity: Fitted
    outcomes: tuple[Fitted | None, Fitted]  # Of the treated (None for the ATT), of the others
    link: Link  # Of the outcome models
    most: float  # Largest declared response

    def mean(self, model: Fitted, block: Array) -> tuple[Array, Array]:
        """Return predicted means of rows and their slopes in the linear predictor."""
        low, high = self.link.reach
        if self.link.name == "log":
            high = min(high, math.log(max(self.most, 1e-6)))
        eta = model.eta(block)
        inside = np.clip(eta, low, high)
        return self.link.inverse(inside), self.link.slope(inside) * (inside == eta)

    def of(self, block: Array) -> Looked:
        """Return the influence functions of rows; a row that is not complete counts 0."""
        t, y, (low, high) = block[self.treated], block[-1], self.clip
        raw = LINKS["logit"].inverse(np.clip(self.propensity.eta(block), -30.0, 30.0))
        e = np.clip(raw, low, high)
        odds, slope = e / (1.0 - e), (raw > low) & (raw < high)
        m0, s0 = self.mean(self.outcomes[1], block)  # type: ignore[arg-type]
        r0 = y - m0
        if self.outcomes[0] is None:
            weight = np.stack([t, (1.0 - t) * odds])
            d, m1, s1, r1 = t, y, np.zeros_like(y), np.zeros_like(y)
            phi = np.stack([t * y, t * m0 + weight[1] * r0])
            of_e = np.stack([np.zeros_like(y), weight[1] * r0 * slope])
            of_m = np.stack([s1, (t - weight[1]) * s0])
        else:
            m1, s1 = self.mean(self.outcomes[0], block)
            r1, d = y - m1, np.ones_like(y)
            weight = np.stack([t / e, (1.0 - t) / (1.0 - e)])
            phi = np.stack([m1 + weight[0] * r1, m0 + weight[1] * r0])
            of_e = np.stack([-weight[0] * r1 * (1.0 - e), weight[1] * r0 * e]) * slope
            of_m = np.stack([(1.0 - weight[0]) * s1, (1.0 - weight[1]) * s0])
        u = mass_of(block, self.weights, self.top)
        there = np.isfinite(phi.sum(axis=0) + raw) & ((t == 0.0) | (t == 1.0)) & (u > 0.0)
        u = np.where(there, u, 0.0)
        residuals = np.stack([t - raw, t * r1, (1.0 - t) * r0])
        return Looked(there, u, t, d, raw, weight, phi, of_e, of_m, residuals)

    @property
    def blocks(self) -> tuple[tuple[Fitted, int, bool], ...]:
        """(model, arm, whether it is the propensity) of each block of derivatives."""
        one, other = self.outcomes
        treated = () if one is None else ((self.propensity, 0, True), (one, 0, False))
        return (*treated, (self.propensity, 1, True), (other, 1, False))


@dataclass(frozen=True, eq=False)
class Looked:
    """Rows at released coefficients: arrays of (m,) or (2, m), arms treated and not."""

    there: npt.NDArray[np.bool_]  # Complete rows
    u: Array  # Weight of the row, in [0, 1]
    t: Array
    d: Array  # Part of the row in the denominator: 1, or t for the ATT
    raw: Array  # Propensity before it is clipped
    weight: Array  # Inverse probability weights
    phi: Array  # Influence functions of the two means
    of_e: Array  # Derivatives in the linear predictor of the propensity
    of_m: Array  # Derivatives in that of the arm's own outcome model
    residuals: Array  # (3, m): of the propensity and of both outcome models

    def given(self, cells: Array) -> Array:
        """Return cells of rows times their weight, 0 where the row is not complete."""
        return np.where(self.there, cells, 0.0) * self.u


def of_units(cells: Array, there: npt.NDArray[np.bool_], block: BlockOfPeople) -> Array:
    """Return the mean over each unit's complete rows; ``cells`` (k, m) are 0 elsewhere."""
    many = np.maximum(own_sum(there.astype(float), block.counts), 1.0)
    return np.asarray(own_sum(cells, block.counts) / many)


def lengths_of(z: Array) -> Array:
    """Return the lengths of the columns of z."""
    return np.asarray(np.sqrt(squares(z)))


# -- The passes of overlap and balance


@dataclass(frozen=True, eq=False)
class OverlapRows:
    """The cell of the propensity of a row, in its arm."""

    at: Influence
    edges: Array  # Inner edges of the cells

    @property
    def cells(self) -> int:
        """Number of cells of one arm."""
        return len(self.edges) + 1

    def of(self, block: BlockOfPeople) -> npt.NDArray[np.int64]:
        """Return the sums of the masses of units in the cells of both arms."""
        found = self.at.of(block.rows)
        many = np.maximum(own_sum(found.there.astype(float), block.counts), 1.0)
        mass = np.floor(found.u / np.repeat(many, block.counts) * STEPS)
        cell = np.searchsorted(self.edges, np.where(found.there, found.raw, 0.5), side="right")
        cell = cell + self.cells * (found.t == 0.0)
        out = np.bincount(cell, weights=mass, minlength=ARMS * self.cells)
        return out.astype(np.int64)


def overlap_sums(
    blocks: Iterable[Any], own: OverlapRows
) -> tuple[npt.NDArray[np.object_]]:
    """Return the sums of masses over units. Confidential."""
    masses = np.zeros(ARMS * own.cells, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in units_of(blocks):
            masses += own.of(block)
    return (masses.astype(object),)


@dataclass(frozen=True, eq=False)
class BalanceRows:
    """Moments of both arms, before and after weighting."""

    at: Influence
    places: tuple[int, ...]  # Rows of the block with the covariates and, last, the response
    centre: Array
    half: Array
    most: tuple[float, float]  # Weights of both arms count up to these
    radius: float  # Longest row of moments

    @property
    def size(self) -> int:
        """Number of moments."""
        return 5 * len(self.places) + 4

    def of(self, block: BlockOfPeople) -> Array:
        """Return the integers that units add: five blocks, in the ball of ``radius``."""
        found = self.at.of(block.rows)
        x = (block.rows[list(self.places)] - self.centre[:, None]) / self.half[:, None]
        x = np.vstack([np.full(x.shape[1], CONSTANT), np.clip(x, -1.0, 1.0)])
        after = np.minimum(found.weight / np.array(self.most)[:, None], 1.0)
        arms = np.stack([found.t, 1.0 - found.t])
        rows = [x * arms[0], x * arms[1], x * after[0], x * after[1], x[1:] ** 2]
        z = of_units(found.given(np.concatenate(rows)), found.there, block)
        return end_along(z, lengths_of(z), self.radius)


def balance_sums(blocks: Iterable[Any], own: BalanceRows) -> tuple[npt.NDArray[np.object_]]:
    """Return the sums of moments over units. Confidential."""
    moments = np.zeros(own.size, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in units_of(blocks):
            moments += own.of(block).sum(axis=1).astype(np.int64)
    return (moments.astype(object),)


# -- The passes of the effect: lengths, sums, squares


@dataclass(frozen=True, eq=False)
class EffectRows:
    """Centred influence functions (difference, sum of the arms), and their derivatives."""

    at: Influence
    centres: tuple[float, float]  # Of the two means
    unit: float  # Response units to one unit of lengths

    @functools.cached_property
    def width(self) -> int:
        """Number of derivatives."""
        return sum(model.root.shape[1] for model, _, _ in self.at.blocks)

    def pairs(self, found: Looked) -> Array:
        """Return (difference, sum) of the arms of rows about their centres, (2, m)."""
        phi = (found.phi - np.array(self.centres)[:, None] * found.d) / self.unit
        return found.given(np.stack([phi[0] - phi[1], phi[0] + phi[1]]))

    def derivatives(self, found: Looked, block: Array) -> Array:
        """Return the derivatives of rows along the roots of the privacy covariances."""
        parts = []
        for model, arm, of_e in self.at.blocks:
            slope = (found.of_e if of_e else found.of_m)[arm] / self.unit
            parts.append(model.along(model.root.T, block) * slope)
        return found.given(np.concatenate(parts))

    def expand(self, block: BlockOfPeople) -> tuple[Array, Array]:
        """Return (pairs, derivatives) of units."""
        found = self.at.of(block.rows)
        cells = np.concatenate([self.pairs(found), self.derivatives(found, block.rows)])
        units = of_units(cells, found.there, block)
        return units[:2], units[2:]


def lengths(blocks: Iterable[Any], own: EffectRows) -> tuple[npt.NDArray[np.object_], ...]:
    """Return histograms of the lengths of difference and sum. Confidential."""
    out = np.zeros((2, OCTAVES), dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in units_of(blocks):
            found = own.at.of(block.rows)
            pairs = of_units(own.pairs(found), found.there, block)
            for counts, cells in zip(out, pairs, strict=True):
                counts += octaves(cells**2)
    return tuple(counts.astype(object) for counts in out)


@dataclass(frozen=True, eq=False)
class EffectSums:
    """The last pass of sums: difference, sum of the arms and derivatives, each in its ball."""

    rows: EffectRows
    clips: tuple[float, float, float]

    def of(self, block: BlockOfPeople) -> tuple[Array, Array, Array]:
        """Return the integers that units add to the three sums."""
        pairs, slopes = self.rows.expand(block)
        parts = (pairs[:1], pairs[1:], slopes)
        one, two, three = (
            end_along(z, lengths_of(z), clip) for z, clip in zip(parts, self.clips, strict=True)
        )
        return one, two, three


def sums(blocks: Iterable[Any], own: EffectSums) -> tuple[npt.NDArray[np.object_], ...]:
    """Return the three sums over units. Confidential."""
    out = [np.zeros(size, dtype=np.int64) for size in (1, 1, own.rows.width)]
    with np.errstate(all="ignore"):
        for block in units_of(blocks):
            for total, part in zip(out, own.of(block), strict=True):
                total += part.sum(axis=1).astype(np.int64)
    return tuple(total.astype(object) for total in out)


@dataclass(frozen=True, eq=False)
class SquareRows:
    """Influence functions corrected for the nuisance fits, over their scales."""

    rows: EffectRows  # About the estimated means
    # Per block of derivatives: bread times mean derivative, times the part of a unit in the mean.
    turns: tuple[Array, ...]
    scales: tuple[float, float]  # Of difference and sum
    radius: float

    def of(self, block: BlockOfPeople) -> Array:
        """Return the integers of units, (2, k), in the ball of ``radius``."""
        at, found = self.rows.at, self.rows.at.of(block.rows)
        phi = (found.phi - np.array(self.rows.centres)[:, None] * found.d) / self.rows.unit
        for turn, (model, arm, of_e) in zip(self.turns, at.blocks, strict=True):
            score = found.residuals[0 if of_e else 1 + arm]
            phi[arm] += model.along(turn[None, :], block.rows)[0] * score / self.rows.unit
        pair = found.given(np.stack([phi[0] - phi[1], phi[0] + phi[1]]))
        z = of_units(pair / np.array(self.scales)[:, None], found.there, block)
        return end_along(z, lengths_of(z), self.radius)


def products(blocks: Iterable[Any], own: SquareRows) -> tuple[npt.NDArray[np.object_]]:
    """Return the sum of products of difference and sum over units. Confidential."""
    out = ExactSum(2, 2)
    with np.errstate(all="ignore"):
        for block in units_of(blocks):
            out.add(cross_product(own.of(block)))
    return (out.integers(),)
