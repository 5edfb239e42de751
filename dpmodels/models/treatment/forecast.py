"""Numbers made of the released balance and overlap: centres, clips, what noise lets expect.

Sees no row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.after.inference import critical_value, one_way
from dpmodels.arrays import Array
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.rows import COUNT_WEIGHT, BalanceRows, EffectRows
from dpmodels.scoring.clip import Lengths, first_clip
from dpmodels.scoring.models import roots
from dpmodels.scoring.rules import CLIP_STEPS_OF_UNITS

if TYPE_CHECKING:
    from dpmodels.sums.ask import Noisy


#: Mean square of 1 - e and of e, about: the part of a row in the product of the errors of the fits.
CROSSED = 0.3
#: Largest eigenvalue of a covariance in whitened coordinates, over the median one.
MOST_UNEVEN = 3.0
#: Noise sds of a cell of the overlap from which its weight counts as there.
CLEAR_CELL = 3.0
#: Least variance of a covariate, in half ranges squared, in the forecast of derivatives.
LEAST_SQUARE = 0.01
#: A denominator is at least this many of its noise sds.
CLEAR_COUNT = 2.0


def tamed(model: Fitted, columns: Columns) -> Fitted:
    """Return a fit whose covariances are limited where its released information is mostly noise.

    The noise of scores is even in whitened coordinates, so there a covariance much larger in one
    direction than in the others tells of the noise of the information.
    """
    root, back = roots(columns.products(model, model))

    def limited(V: Array) -> Array:
        values, vectors = np.linalg.eigh(root @ V @ root)
        values = np.clip(values, 0.0, MOST_UNEVEN * max(float(np.median(values)), 0.0))
        half = back @ vectors * np.sqrt(values)
        return np.asarray(half @ half.T)

    V = limited(model.root @ model.root)
    return replace(model, root=root_of(V), bread=limited(model.bread))


def root_of(V: Array) -> Array:
    """Return the symmetric root of a covariance."""
    values, vectors = np.linalg.eigh((V + V.T) / 2.0)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Released masses of the cells of the propensity in both arms, and the weights there."""

    edges: Array  # Inner edges of the cells
    masses: Array  # (2, cells): noisy, not below 0
    weights: Array  # (2, cells): inverse probability weights in the middle of a cell
    sd: float  # Noise of a mass

    @classmethod
    def of(cls, at: Influence, edges: Array, answer: Noisy) -> Overlap:
        """Read the masses of a release."""
        ends = edges[[0, -1]]
        middles = np.concatenate([ends[:1], (edges[1:] + edges[:-1]) / 2.0, ends[1:]])
        weights = np.stack([1.0 / middles, 1.0 / (1.0 - middles)])
        if at.estimand == "ATT":
            weights = np.stack([np.ones_like(middles), middles / (1.0 - middles)])
        masses = np.maximum(answer.values, 0.0).reshape(2, -1)
        return cls(edges, masses, weights, float(answer.sd[0]))

    @property
    def total(self) -> float:
        """Sum of all masses, at least 1."""
        return max(float(self.masses.sum()), 1.0)

    @property
    def mean_squares(self) -> tuple[float, float]:
        """Mean squared weights of both arms, over all units."""
        treated, control = ((self.masses * self.weights**2).sum(axis=1) / self.total).tolist()
        return treated, control

    @property
    def largest(self) -> tuple[float, float]:
        """Largest weight of each arm in a cell that is clear of noise, or the least there is."""
        seen = self.masses > CLEAR_CELL * self.sd
        least = self.weights.min(axis=1)
        treated, control = np.where(seen, self.weights, 0.0).max(axis=1)
        return max(float(treated), float(least[0])), max(float(control), float(least[1]))

    @property
    def effective(self) -> tuple[float, float]:
        """Effective sample size of each arm, ``(sum w)^2/sum w^2``."""
        total, square = ((self.masses * self.weights**k).sum(axis=1) for k in (1, 2))
        treated, control = np.round(total**2 / np.maximum(square, 1e-300)).tolist()
        return treated, control


@dataclass(frozen=True, eq=False)
class Tail:
    """Lengths of units: a released histogram, and what the weights of the overlap let expect.

    Few units of large weight are hidden by the noise of the histogram; the cells of the propensity
    tell how many there are. Their residuals are taken to be normal.
    """

    lengths: Lengths
    masses: Array  # Released masses of the cells of both arms
    sds: Array  # Standard deviation of a unit of each cell, in the units of lengths

    @classmethod
    def of(cls, lengths: Lengths, overlap: Overlap, n: int) -> Tail:
        """Return the tail of units whose mean square the histogram tells."""
        masses, weights = overlap.masses.ravel(), overlap.weights.ravel()
        spread = max(float(masses @ weights**2), 1e-300)
        return cls(lengths, masses, weights * math.sqrt(lengths.square * n / spread))

    def expected(self, clip: float) -> tuple[float, float]:
        """Return the sums of ``(|s| - C)+`` and of ``(s^2 - C^2)+`` by the weights."""
        from scipy.special import ndtr

        z = clip / np.maximum(self.sds, 1e-300)
        beyond, density = ndtr(-z), np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        first = 2.0 * self.sds * (density - z * beyond)
        second = 2.0 * self.sds**2 * (beyond + z * density - z * z * beyond)
        return float(self.masses @ first), float(self.masses @ second)

    def moved(self, clip: float) -> float:
        """Return a bound on the change of the sum by clipping at C."""
        return max(one_way(1) * self.lengths.overflow(clip)[0], self.expected(clip)[0])

    def missing(self, radius: float) -> float:
        """Return the sum of squares beyond a radius."""
        return self.expected(radius)[1]

    def clip(self, mu: float, n: int) -> float:
        """Return the clip of least expected half width (as ``scoring.clip.chosen_clip``)."""
        unit = math.sqrt(self.lengths.square)
        grid = first_clip(1, mu, n, unit**2) * 2.0 ** (np.array(CLIP_STEPS_OF_UNITS) / 4.0)
        noise = 2.0 * grid / (mu * n) / unit
        moved = np.array([self.moved(float(c)) for c in grid]) / (n * unit)
        se = np.sqrt(1.0 / n + noise**2)
        return float(grid[int(np.argmin(se * critical_value(moved / se, 0.95)))])


@dataclass(frozen=True, eq=False)
class Columns:
    """Means and variances of the columns of the joint design, from the released moments."""

    mean: Array  # (p,): 1 for the constant, 0 for the treatment
    variance: Array  # (p,)

    @classmethod
    def of(cls, balance: BalanceRows, blocks: Array) -> Columns:
        """Read them off the moments of both arms."""
        units = max(float(blocks[:2, 0].sum()), 1.0)
        size = max(*balance.places, balance.at.treated) + 1
        mean, variance, places = np.zeros(size), np.zeros(size), list(balance.places)
        u = np.clip(blocks[:2, 1:].sum(axis=0) / units, -1.0, 1.0)
        mean[places], mean[0] = balance.centre + balance.half * u, 1.0
        square = np.clip(blocks[4, 1:] / units - u * u, LEAST_SQUARE, 1.0)
        variance[places] = balance.half**2 * square
        return cls(mean, variance)

    def products(self, first: Fitted, second: Fitted) -> Array:
        """Return the mean of ``x z'`` of the columns of two models, columns uncorrelated."""
        a, b = np.array(first.places), np.array(second.places)
        out = np.outer(self.mean[a], self.mean[b])
        return np.asarray(out + (a[:, None] == b) * self.variance[a][:, None])


def _slope(at: Influence, model: Fitted, columns: Columns) -> float:
    """Return the slope of the mean of an outcome model at the mean row."""
    eta = np.clip(model.coef @ columns.mean[list(model.places)], *at.link.reach)
    return float(at.link.slope(np.array([eta]))[0])


def length_of_slopes(
    rows: EffectRows, columns: Columns, weights: tuple[float, float], square: float
) -> float:
    """Return the root mean square of a row of derivatives, by released numbers.

    For the propensity it is residual times privacy error of its linear predictor, for an outcome
    model inverse probability weight times that error. ``weights`` are mean squares by arm,
    ``square`` is that of a difference of the arms.
    """
    at, total = rows.at, 0.0
    for model, arm, of_e in at.blocks:
        error = float(np.trace(model.root @ columns.products(model, model) @ model.root))
        slope = weights[arm] * (_slope(at, model, columns) / rows.unit) ** 2
        total += error * (square / 2.0 if of_e else slope)
    return math.sqrt(max(total, 1e-24))


def crossed_noise(at: Influence, columns: Columns) -> float:
    """Return the variance by noise of the effect where both models hold.

    The derivatives are then 0 at the true coefficients, and the product of the errors of both fits
    is left: ``f^2 tr(V_e M V_m M')`` of each arm (``theory.md``, 4).
    """
    total = 0.0
    e = at.propensity
    for model in filter(None, at.outcomes):
        M = columns.products(e, model)
        part = e.root @ M @ model.root * _slope(at, model, columns)
        total += float(np.sum(part * part))
    return total * (CROSSED if at.estimand == "ATE" else 1.0)


def denominator(at: Influence, blocks: Array, noise: Noisy, n: int) -> tuple[float, float]:
    """Return the released denominator and its noise: the treated for the ATT, else everybody."""
    both = at.estimand == "ATE"
    count = float(blocks[0, 0] + (blocks[1, 0] if both else 0.0))
    sd = float(noise.sd[0]) / COUNT_WEIGHT * math.sqrt(1.0 + both)
    return min(max(count, CLEAR_COUNT * sd, 1.0), float(n)), sd


def centres_of(
    at: Influence, models: tuple[Fitted, Fitted], balance: BalanceRows, blocks: Array,
    ends: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the centres of both influence functions: predictions at the mean row.

    ``models`` are those of both arms, also for the ATT, which needs one of them.
    """
    over = blocks[:2].sum(axis=0) if at.estimand == "ATE" else blocks[0]
    means = np.clip(over[1:] / max(over[0], 1.0), -1.0, 1.0)
    row = np.zeros(max(*balance.places, at.treated) + 1)
    row[list(balance.places)] = balance.centre + balance.half * means
    row[0] = 1.0  # the constant
    out = []
    for model in models:
        eta = np.clip(model.coef @ row[list(model.places)], *at.link.reach)
        out.append(min(max(float(at.link.inverse(eta)), ends[0]), ends[1]))
    return out[0], out[1]
