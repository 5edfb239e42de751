"""Contributions of rows and people to an average treatment effect, at released coefficients.

A row adds its influence function, the derivatives of that in the coefficients, and its squares
(``theory.md``, 2). A person adds the mean over its complete rows. Every contribution is a function
of one unit's rows and of released numbers, rounded into a public clip set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.own import own_sum, units_of
from dpmodels.core.units import OCTAVES, octaves
from dpmodels.families import LINKS
from dpmodels.models.treatment.facts import Assignment, Fitted, Influence
from dpmodels.models.weights import row_mass
from dpmodels.sources.rows import BlockOfPeople
from dpmodels.sums.products import (
    ExactSum,
    cross_product,
    end_along,
    end_of_numbers,
    mapped,
    squares,
)

#: Weight of the constant in the rows of the balance: the counts of the arms need more than a mean.
COUNT_WEIGHT = 1.5


def predictors(model: Fitted, block: Array) -> Array:
    """Return the linear predictors of rows."""
    return np.asarray(mapped(model.coef[None, :], model.columns(block))[0])


def seen_through(model: Fitted, matrix: Array, block: Array, *, in_fit: bool = False) -> Array:
    """Return ``matrix x`` of rows, x the columns of a model (:meth:`Fitted.columns`)."""
    return np.asarray(mapped(matrix, model.columns(block, in_fit=in_fit)))


def mean_of(at: Influence, model: Fitted, block: Array) -> tuple[Array, Array]:
    """Return predicted means of rows and their slopes in the linear predictor."""
    low, high = at.link.reach
    if at.link.name == "log":
        high = min(high, math.log(max(at.most, 1e-6)))
    eta = predictors(model, block)
    inside = np.clip(eta, low, high)
    return at.link.inverse(inside), at.link.slope(inside) * (inside == eta)


def assignment_of(at: Assignment, block: Array) -> tuple[Array, Array, Array]:
    """Return treatments, propensities and weights of rows, 0 for one that is not complete."""
    t, u = block[at.treated], row_mass(block, at.weights, at.top)
    raw = LINKS["logit"].inverse(np.clip(predictors(at.propensity, block), -30.0, 30.0))
    finite = np.isfinite(block).all(axis=0) & np.isfinite(raw)
    complete = finite & ((t == 0.0) | (t == 1.0)) & (u > 0.0)
    return t, raw, np.where(complete, u, 0.0)


def influence_of(at: Influence, block: Array) -> Looked:
    """Return the influence functions of rows; a row that is not complete counts 0."""
    (t, raw, u), y, (low, high) = assignment_of(at, block), block[-1], at.clip
    e = np.clip(raw, low, high)
    odds, slope = e / (1.0 - e), (raw > low) & (raw < high)
    (m1, s1), (m0, s0) = (mean_of(at, model, block) for model in at.outcomes)
    r1, r0 = y - m1, y - m0
    if at.estimand == "ATT":
        weight, d, none = np.stack([t, (1.0 - t) * odds]), t, np.zeros_like(y)
        phi = np.stack([t * y, t * m0 + weight[1] * r0])
        of_e = np.stack([none, weight[1] * r0 * slope])
        of_m = np.stack([none, (t - weight[1]) * s0])
    else:
        weight, d = np.stack([t / e, (1.0 - t) / (1.0 - e)]), np.ones_like(y)
        phi = np.stack([m1 + weight[0] * r1, m0 + weight[1] * r0])
        of_e = np.stack([-weight[0] * r1 * (1.0 - e), weight[1] * r0 * e]) * slope
        of_m = np.stack([(1.0 - weight[0]) * s1, (1.0 - weight[1]) * s0])
    complete = np.isfinite(phi.sum(axis=0)) & (u > 0.0)
    residuals = np.stack([t - raw, t * r1, (1.0 - t) * r0])
    return Looked(
        complete, np.where(complete, u, 0.0), t, d, raw, weight, phi, of_e, of_m, residuals
    )


@dataclass(frozen=True, eq=False)
class Looked:
    """Rows at released coefficients: arrays of (m,) or (2, m), arms treated and not."""

    complete: npt.NDArray[np.bool_]  # Rows without a missing cell
    u: Array  # Weight of the row, in [0, 1]
    t: Array
    d: Array  # Part of the row in the denominator: 1, or t for the ATT
    raw: Array  # Propensity before it is clipped
    weight: Array  # Inverse probability weights
    phi: Array  # Influence functions of the two means
    of_e: Array  # Derivatives in the linear predictor of the propensity
    of_m: Array  # Derivatives in that of the arm's own outcome model
    residuals: Array  # (3, m) residuals: propensity, both outcome models

    def weighed(self, cells: Array) -> Array:
        """Return cells of rows times their weight, 0 where the row is not complete."""
        return np.where(self.complete, cells, 0.0) * self.u

    def pairs(self, turn: Array, phi: Array) -> Array:
        """Return (difference, mean) of the arms' values, times the weights of rows."""
        return self.weighed(np.asarray(mapped(turn, phi)))


def of_units(cells: Array, complete: npt.NDArray[np.bool_], block: BlockOfPeople) -> Array:
    """Return the mean over each unit's complete rows; ``cells`` (k, m) are 0 elsewhere."""
    many = np.maximum(own_sum(complete.astype(float), block.counts), 1.0)
    return np.asarray(own_sum(cells, block.counts) / many)


def lengths_of(z: Array) -> Array:
    """Return the lengths of the columns of z."""
    return np.asarray(np.sqrt(squares(z)))


def sums_over(
    blocks: Iterable[Any], of: Callable[[BlockOfPeople], Sequence[npt.NDArray[Any]]],
    sizes: Sequence[int],
) -> tuple[npt.NDArray[np.object_], ...]:  # fmt: skip
    """Return the sums over blocks of units of the integers ``of`` each, of these sizes."""
    totals = [np.zeros(size, dtype=np.int64) for size in sizes]
    with np.errstate(all="ignore"):
        for block in map(units_of, blocks):
            for total, part in zip(totals, of(block), strict=True):
                total += part.astype(np.int64)
    return tuple(total.astype(object) for total in totals)


# -- The passes of overlap and balance


@dataclass(frozen=True, eq=False)
class OverlapRows:
    """The cell of the propensity of a row, in its arm."""

    at: Assignment
    edges: Array  # Inner edges of the cells

    @property
    def cells(self) -> int:
        """Number of cells of one arm."""
        return len(self.edges) + 1

    def of(self, block: BlockOfPeople) -> npt.NDArray[np.int64]:
        """Return the sums of the masses of units in the cells of both arms."""
        t, raw, u = assignment_of(self.at, block.rows)
        many = np.maximum(own_sum((u > 0.0).astype(float), block.counts), 1.0)
        mass = end_of_numbers(u / np.repeat(many, block.counts), low=0.0)
        cell = np.searchsorted(self.edges, np.where(u > 0.0, raw, 0.5), side="right")
        cell = cell + self.cells * (t == 0.0)
        out = np.bincount(cell, weights=mass, minlength=2 * self.cells)
        return out.astype(np.int64)


def overlap_sums(blocks: Iterable[Any], job: OverlapRows) -> tuple[npt.NDArray[np.object_], ...]:
    """Return the sums of masses over units. Confidential."""
    return sums_over(blocks, lambda block: (job.of(block),), (2 * job.cells,))


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
        looked = influence_of(self.at, block.rows)
        x = (block.rows[list(self.places)] - self.centre[:, None]) / self.half[:, None]
        x = np.vstack([np.full(x.shape[1], COUNT_WEIGHT), np.clip(x, -1.0, 1.0)])
        after = np.minimum(looked.weight / np.array(self.most)[:, None], 1.0)
        arms = np.stack([looked.t, 1.0 - looked.t])
        rows = [x * arms[0], x * arms[1], x * after[0], x * after[1], x[1:] ** 2]
        z = of_units(looked.weighed(np.concatenate(rows)), looked.complete, block)
        return end_along(z, lengths_of(z), self.radius)


def balance_sums(blocks: Iterable[Any], job: BalanceRows) -> tuple[npt.NDArray[np.object_], ...]:
    """Return the sums of moments over units. Confidential."""
    return sums_over(blocks, lambda block: (job.of(block).sum(axis=1),), (job.size,))


# -- The passes of the effect: lengths, sums, squares


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

    def centred(self, looked: Looked) -> Array:
        """Return the influence functions of both arms about their centres, (2, m)."""
        return np.asarray((looked.phi - np.array(self.centres)[:, None] * looked.d) / self.unit)

    def pairs(self, looked: Looked) -> Array:
        """Return (difference, mean) of the arms of rows about their centres, (2, m)."""
        return looked.pairs(self.turn, self.centred(looked))

    def derivatives(self, looked: Looked, block: Array) -> Array:
        """Return the derivatives of rows along the roots of the privacy covariances."""
        parts = []
        for model, arm, of_e in self.at.blocks:
            slope = (looked.of_e if of_e else looked.of_m)[arm] / self.unit
            parts.append(seen_through(model, model.root.T, block) * slope)
        return looked.weighed(np.concatenate(parts))

    def expand(self, block: BlockOfPeople) -> tuple[Array, Array]:
        """Return (pairs, derivatives) of units."""
        looked = influence_of(self.at, block.rows)
        cells = np.concatenate([self.pairs(looked), self.derivatives(looked, block.rows)])
        units = of_units(cells, looked.complete, block)
        return units[:2], units[2:]


def lengths(blocks: Iterable[Any], job: EffectRows) -> tuple[npt.NDArray[np.object_], ...]:
    """Return histograms of the lengths of difference and mean. Confidential."""

    def counts(block: BlockOfPeople) -> list[npt.NDArray[np.int64]]:
        looked = influence_of(job.at, block.rows)
        pairs = of_units(job.pairs(looked), looked.complete, block)
        return [octaves(cells**2) for cells in pairs]

    return sums_over(blocks, counts, (OCTAVES, OCTAVES))


@dataclass(frozen=True, eq=False)
class EffectSums:
    """The last pass of sums: difference, mean of the arms and derivatives, each in its ball."""

    rows: EffectRows
    clips: tuple[float, float, float]  # Radii of the three balls

    def of(self, block: BlockOfPeople) -> tuple[Array, Array, Array]:
        """Return the integers that units add to the three sums."""
        pairs, slopes = self.rows.expand(block)
        parts = (pairs[:1], pairs[1:], slopes)
        difference, total, derivatives = (
            end_along(z, lengths_of(z), clip) for z, clip in zip(parts, self.clips, strict=True)
        )
        return difference, total, derivatives


def sums(blocks: Iterable[Any], job: EffectSums) -> tuple[npt.NDArray[np.object_], ...]:
    """Return the three sums over units. Confidential."""
    sizes = (1, 1, job.rows.width)
    return sums_over(blocks, lambda block: [part.sum(axis=1) for part in job.of(block)], sizes)


@dataclass(frozen=True, eq=False)
class SquareRows:
    """Influence functions corrected for the nuisance fits, over their scales."""

    rows: EffectRows  # About the estimated means
    # Each (2, k): how residuals of the propensity and of the two outcome models move both means.
    turns: tuple[Array, ...]
    scales: tuple[float, float]  # Scales of difference and mean
    radius: float

    def of(self, block: BlockOfPeople) -> Array:
        """Return the integers of units, (2, k), in the ball of ``radius``."""
        at = self.rows.at
        looked = influence_of(at, block.rows)
        phi = self.rows.centred(looked)
        models = (at.propensity, *at.outcomes)
        for model, turn, residual in zip(models, self.turns, looked.residuals, strict=True):
            phi += seen_through(model, turn, block.rows, in_fit=True) * residual / self.rows.unit
        pairs = looked.pairs(self.rows.turn, phi)
        z = of_units(pairs / np.array(self.scales)[:, None], looked.complete, block)
        return end_along(z, lengths_of(z), self.radius)


def products(blocks: Iterable[Any], job: SquareRows) -> tuple[npt.NDArray[np.object_]]:
    """Return the sum of products of difference and mean over units. Confidential."""
    out = ExactSum(2, 2)
    with np.errstate(all="ignore"):
        for block in map(units_of, blocks):
            out.add(cross_product(job.of(block)))
    return (out.integers(),)
