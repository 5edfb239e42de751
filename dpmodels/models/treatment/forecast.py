"""Numbers made of the released balance and overlap: centres, clips, what noise lets expect.

Sees no row.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import critical_value, one_way
from dpmodels.arrays import Array
from dpmodels.lazy import special
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.rows import COUNT_WEIGHT, BalanceRows, EffectRows
from dpmodels.records import Estimate
from dpmodels.scoring.clip import Lengths, first_clip, mean_square, without_rounding
from dpmodels.scoring.models import roots
from dpmodels.scoring.rules import SCORE_QUANTILE
from dpmodels.sums.ask import Noisy

#: Clips of differences and sums, in quarter octaves over the first clip of scores.
CLIP_STEPS = range(-8, 13)
#: Clips of derivatives, in quarter octaves over their root mean square.
CLIP_STEPS_OF_SLOPES = range(2, 21)
#: Largest eigenvalue of a covariance in whitened coordinates, over the median one.
MOST_UNEVEN = 3.0
#: Noise sds of a cell of the overlap from which its weight counts as there.
CLEAR_CELL = 3.0
#: Least variance of a covariate, in half ranges squared, in the forecast of derivatives.
LEAST_SQUARE = 0.01
#: Without bounds of the propensity, the least is at most this.
OUTER = 0.1
#: Root mean square by which an arm may differ from its model where propensities are cut, in
#: residual sds.
BEYOND = 1.5
#: The same of a model that both arms share, by chance alike in all directions.
UNLIKE = 0.3
#: Least part of an arm in the mean of both.
LEAST_OF_ARM = 0.01
#: Part of the lengths, from the shortest on, by which a rare arm is hidden from a histogram.
BULK = 0.75
#: Units of an arm that a histogram of lengths shows, in noise sds of a bin.
SEEN_UNITS = 24.0
#: Ends of a range nearer or farther than these, in residual sds, count as there.
LEAST_ROOM, MOST_ROOM = 0.3, 12.0
#: Residuals are normal if both ends are farther than this.
NEAR = 3.0
#: A denominator is at least this many of its noise sds.
CLEAR_COUNT = 2.0


def tamed(model: Fitted, columns: Columns) -> Fitted:
    """Return a fit whose covariances are limited where its released information is mostly noise.

    The noise of scores is even in whitened coordinates, so there a covariance much larger in one
    direction than in the others tells of the noise of the information.
    """
    root, back = roots(columns.products(model, model))

    def limits(V: Array, power: float) -> Array:
        values, vectors = np.linalg.eigh(root @ V @ root)
        most = MOST_UNEVEN * max(float(np.median(values)), 0.0)
        parts = np.clip(most / np.maximum(values, 1e-300), 0.0, 1.0) ** power
        return np.asarray(back @ (vectors * parts) @ vectors.T @ root)

    of_root = limits(model.root @ model.root.T, 0.5)
    of_bread = limits(model.back @ model.bread, 1.0)
    return replace(model, root=of_root @ model.root, bread=model.bread @ of_bread.T)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Released masses of the cells of the propensity in both arms, and the weights there."""

    edges: Array  # Inner edges of the cells
    middles: Array  # (cells,): propensity in the middle of a cell, or the bound beyond it
    released: Array  # (2, cells): masses with their noise
    weights: Array  # (2, cells): inverse probability weights in the middle of a cell
    sd: float  # Noise of a mass
    clip: tuple[float, float]  # Bounds of the propensity, two of the edges

    @classmethod
    def of(
        cls, estimand: str, edges: Array, answer: Noisy, clip: tuple[float, float] | None,
        mu: float, n: int,
    ) -> Overlap:  # fmt: skip
        """Read the masses of a release; without ``clip``, choose bounds of least half width."""
        middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2.0, edges[-1:]])
        masses, sd = answer.values.reshape(2, -1), float(answer.sd[0])

        def at(low: float, high: float) -> Overlap:
            bounded = np.clip(middles, low, high)
            weights = np.stack([1.0 / bounded, 1.0 / (1.0 - bounded)])
            if estimand == "ATT":
                weights = np.stack([np.ones_like(bounded), bounded / (1.0 - bounded)])
            return cls(edges, middles, masses, weights, sd, (low, high))

        if clip is not None:
            return at(*clip)
        least = edges[edges < OUTER * (1.0 + 1e-9)][::-1].tolist()
        # the first of equals: cells that may be noise count as beyond the bounds
        pairs = itertools.product(least, [1.0 - e for e in least])
        return min((at(*pair) for pair in pairs), key=lambda o: o.width(estimand, mu, n))

    def width(self, estimand: str, mu: float, n: int) -> float:
        """Return the expected half width of the effect, in residual sds."""
        units = self.clear.sum(axis=0)
        units = units @ self.middles if estimand == "ATT" else units.sum()
        squares = max(float(np.sum(self.clear * self.weights**2)), 1.0)
        noise = 2.0 * first_clip(1, mu, n, squares / n) / mu
        se = math.sqrt(squares + noise**2) / max(float(units), 1.0)
        bias = BEYOND * float(self.missed(estimand).sum())
        return float(se * critical_value(np.array(bias / se), 0.95))

    @property
    def clipped(self) -> npt.NDArray[np.bool_]:
        """Mask of the cells beyond the bounds of the propensity."""
        low, high = (self.edges.searchsorted(end) for end in self.clip)
        cell = np.arange(len(self.middles))
        return np.asarray((cell <= low) | (cell > high))

    @property
    def total(self) -> float:
        """Sum of all masses, at least 1."""
        return max(float(self.clear.sum()), 1.0)

    @functools.cached_property
    def clear(self) -> Array:
        """Likely masses by arm, 0 in a cell that may be noise."""
        return self.likely * (self.released.sum(axis=0) > CLEAR_CELL * self.sd)

    @property
    def share_clipped(self) -> float:
        """Part of the units beyond the bounds of the propensity."""
        return float(self.clear[:, self.clipped].sum()) / self.total

    def missed(self, estimand: str) -> Array:
        """Return the norm of the part of the weights of each arm beyond the bounds, (2,).

        The norm of the mean of ``1 - weight``, and of that times the standardised logit.
        """
        e = self.middles.copy()
        e[0], e[-1] = e[0] / 2.0, (1.0 + e[-1]) / 2.0
        both, logits = self.clear.sum(axis=0), np.log(e / (1.0 - e))
        units = both * (e if estimand == "ATT" else 1.0)
        lost = units - both * np.stack([e, 1.0 - e]) * self.weights
        total = max(float(units.sum()), 1.0)
        away = logits - float(units @ logits) / total
        sd = math.sqrt(max(float(units @ away**2) / total, 1e-12))
        return np.asarray(np.hypot(lost.sum(axis=1), lost @ away / sd) / total)

    @functools.cached_property
    def likely(self) -> Array:
        """Masses by arm: those of both arms divided by the propensity, unless clearly otherwise.

        Noise of a cell of few units and large weight is then times that propensity.
        """
        e = np.stack([self.middles, 1.0 - self.middles])
        divided = np.maximum(self.released.sum(axis=0), 0.0) * e
        off = np.abs(self.released - divided) > CLEAR_CELL * self.sd
        return np.asarray(np.where(off, self.masses, divided))

    @property
    def masses(self) -> Array:
        """(2, cells): released masses, not below 0."""
        return np.maximum(self.released, 0.0)

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
        total, square = ((self.clear * self.weights**k).sum(axis=1) for k in (1, 2))
        treated, control = np.round(total**2 / np.maximum(square, 1e-300)).tolist()
        return treated, control

    @property
    def part(self) -> float:
        """Part of the treated in the effective sample size of both arms, which has least noise."""
        treated, control = self.effective
        return min(max(treated / max(treated + control, 1.0), LEAST_OF_ARM), 1.0 - LEAST_OF_ARM)


#: Residuals of variance one, as whole multiples of a step, and their probabilities.
_NORMAL = np.linspace(-7.0, 7.0, 281)
_NORMAL_PARTS = np.exp(-0.5 * _NORMAL**2) / np.exp(-0.5 * _NORMAL**2).sum()


def residuals_of_event(mean: float) -> tuple[Array, Array]:
    """Return the two residuals of an event of this mean, and their probabilities."""
    p = min(max(mean, 1e-6), 1.0 - 1e-6)
    return np.array([-p, 1.0 - p]), np.array([1.0 - p, p])


def residuals_within(low: float, high: float, step: float) -> tuple[Array, Array]:
    """Return residuals of variance one of a number with ends ``low`` sds below, ``high`` above.

    Of a gamma variable that begins at the nearer end, or normal if that is far. Counts have steps
    of so many sds: a gamma variable with the skewness of a negative binomial one.
    """
    near, far = max(min(low, high), LEAST_ROOM), max(low, high)
    if near > NEAR:
        return _NORMAL, _NORMAL_PARTS
    begins = near / max(1.0 - near * step / 2.0, 0.5)
    cut = np.linspace(-begins, max(min(far, MOST_ROOM), begins), 401)
    parts = np.diff(special.gammainc(begins**2, begins**2 + begins * cut))
    middles = (cut[1:] + cut[:-1]) / 2.0
    return np.asarray(middles if low <= high else -middles), np.asarray(parts / parts.sum())


@dataclass(frozen=True, eq=False)
class Expected:
    """Lengths of units that a model of the residuals lets expect, with their numbers."""

    lengths: Array  # In ascending order
    numbers: Array
    signs: Array  # (arms, lengths): sign of the residual in its arm, 0 in the other

    @classmethod
    def of(cls, parts: list[tuple[Array, Array, tuple[Array, Array]]]) -> Expected:
        """Return the lengths of cells: (numbers, factors, (residuals, their probabilities))."""
        from scipy.linalg import block_diag

        signed = [np.outer(w, r).ravel() for _, w, (r, _) in parts]
        numbers = np.concatenate([np.outer(m, p).ravel() for m, _, (_, p) in parts])
        lengths = np.abs(np.concatenate(signed))
        order, signs = np.argsort(lengths, kind="stable"), block_diag(*map(np.sign, signed))
        return cls(lengths[order], numbers[order], signs[:, order])

    def scale(self, histogram: Lengths, *parts: float) -> float:
        """Return the factor by which the mean square, of these parts of all, is a histogram's."""
        total, largest = np.cumsum(self.numbers), 0.0
        for part in parts:
            below = np.clip(part * total[-1] - total + self.numbers, 0.0, self.numbers)
            likely = float(below @ self.lengths**2) / max(float(below.sum()), 1e-300)
            seen, _ = mean_square(without_rounding(histogram.counts), histogram.sd, part)
            largest = max(largest, seen / max(likely, 1e-300))
        return math.sqrt(largest)

    def times(self, factor: float) -> Expected:
        """Return the lengths times a factor."""
        return replace(self, lengths=self.lengths * factor)

    @property
    def mean_square(self) -> float:
        """Mean squared length."""
        return float(self.numbers @ self.lengths**2) / max(float(self.numbers.sum()), 1.0)

    def beyond(self, clip: float) -> float:
        """Return the sum of ``(|s| - C)+``."""
        return float(self.numbers @ np.maximum(self.lengths - clip, 0.0))

    def net(self, clip: float) -> float:
        """Return the change of the sum by clipping at C, that of each arm in its own direction."""
        excess = self.numbers * np.maximum(self.lengths - clip, 0.0)
        return float(np.abs(self.signs @ excess).sum())

    def squares_beyond(self, radius: float) -> float:
        """Return the sum of ``(s^2 - R^2)+``."""
        return float(self.numbers @ np.maximum(self.lengths**2 - radius**2, 0.0))


@dataclass(frozen=True, eq=False)
class Tail:
    """Lengths of units: a released histogram, and what the weights of the overlap let expect.

    Few units of large weight are hidden by the noise of the histogram; the cells of the propensity
    tell how many there are. Their residuals are taken to be normal, and those of an event, or of a
    number that ends where its range does, and the larger number counts.
    """

    lengths: Lengths
    models: tuple[Expected, ...]  # Lengths by the distributions of residuals
    event: bool  # Whether the outcome is one

    @classmethod
    def of(
        cls, lengths: Lengths, overlap: Overlap, rows: EffectRows, which: int,
        ends: tuple[float, float], away: tuple[float, float],
    ) -> Tail:  # fmt: skip
        """Return the tail of units of the difference (0) or of the mean (1) of both arms.

        ``ends``: of the response. ``away``: by how much the outcome model of each arm may be off.
        """
        link = rows.at.link.name
        weights = overlap.weights * np.abs(rows.turn[which])[:, None]
        # noise hides the units of a rare arm, which are long in the difference
        hidden = float(overlap.clear.sum(axis=1).min()) < SEEN_UNITS * lengths.sd
        bulk = (SCORE_QUANTILE, BULK) if which == 0 and hidden else (SCORE_QUANTILE,)

        def model(residuals: list[tuple[Array, Array]], *parts: float) -> tuple[Expected, float]:
            found = Expected.of(list(zip(overlap.likely, weights, residuals, strict=True)))
            scale = found.scale(lengths, *parts)
            return found.times(scale), scale

        normal = (_NORMAL, _NORMAL_PARTS)
        if link == "logit":
            first, _ = model([normal] * 2, SCORE_QUANTILE)
            second, _ = model([residuals_of_event(mean) for mean in rows.centres], *bulk)
            return cls(lengths, (first, second), event=True)
        first, scale = model([normal] * 2, *bulk)
        sd = second_sd = max(scale * rows.unit, 1e-300)
        for _ in range(2):  # the second time at the sd that the first one gives
            rooms = [((m - ends[0]) / second_sd, (ends[1] - m) / second_sd) for m in rows.centres]
            step = 1.0 / second_sd if link == "log" else 0.0
            second, scale = model([residuals_within(*room, step) for room in rooms], *bulk)
            second_sd = max(scale * rows.unit, 1e-300)
        shifted = [(sd * _NORMAL + error, _NORMAL_PARTS) for error in away]
        cells = list(zip(overlap.likely, weights / rows.unit, shifted, strict=True))
        return cls(lengths, (first, second, Expected.of(cells)), event=False)

    @property
    def mean_square(self) -> float:
        """Mean squared length, by the histogram or by the overlap."""
        return max(self.lengths.square, *(model.mean_square for model in self.models))

    def moved(self, clip: float) -> float:
        """Return a bound on the change of the sum by clipping at C.

        Long residuals of an event have one sign, as those beside the end of a range.
        """
        part = 1.0 if self.event else one_way(1)
        expected = part * max(model.beyond(clip) for model in self.models)
        net = max(model.net(clip) for model in self.models)
        return max(one_way(1) * self.lengths.overflow(clip), expected, net)

    def missing(self, radius: float) -> float:
        """Return the sum of squares beyond a radius."""
        return max(model.squares_beyond(radius) for model in self.models)

    def clip(self, mu: float, n: int) -> float:
        """Return the clip of least expected half width (as ``scoring.clip.chosen_clip``)."""
        unit = math.sqrt(self.mean_square)
        grid = first_clip(1, mu, n, unit**2) * 2.0 ** (np.array(CLIP_STEPS) / 4.0)
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
        out = out + (a[:, None] == b) * self.variance[a][:, None]
        if first.fold is not None:  # a row is in one half: the product of halves is the half
            either = np.array(first.crossed)[:, None] | np.array(second.crossed)
            out = out * np.where(either, 0.5, 1.0)
        return np.asarray(out)


def _predictor(at: Influence, model: Fitted, row: Array) -> Array:
    """Return the linear predictor of an outcome model at a mean row, (1,)."""
    return np.clip(np.array([model.coef @ model.at_mean(row)]), *at.link.reach)


def _slope(at: Influence, model: Fitted, columns: Columns) -> float:
    """Return the slope of the mean of an outcome model at the mean row."""
    return float(at.link.slope(_predictor(at, model, columns.mean))[0])


def lengths_of_slopes(
    rows: EffectRows, columns: Columns, overlap: Overlap, residual: float
) -> Expected:
    """Return the lengths of rows of derivatives in each cell of the overlap.

    A unit of weight v adds ``(1 - v)`` times the privacy error of the linear predictor of its own
    outcome model and 1 times that of the other one; for the propensity ``v - 1`` times residual
    times error. For the ATT these are v, 1 for the treated, and v.
    """
    at, squares = rows.at, np.zeros_like(overlap.weights)
    both = at.estimand == "ATE"
    factors = np.abs(overlap.weights - both)
    for model, arm, of_e in at.blocks:
        error = float(np.trace(model.root.T @ columns.products(model, model) @ model.root))
        if of_e:
            squares[arm] += error * (factors[arm] * residual) ** 2
        else:
            square = error * (_slope(at, model, columns) / rows.unit) ** 2
            squares[arm] += square * factors[arm] ** 2
            squares[1 - arm] += square
    normal = _NORMAL, _NORMAL_PARTS
    cells = zip(overlap.likely, np.sqrt(squares), strict=True)
    return Expected.of([(numbers, sds, normal) for numbers, sds in cells])


def clip_of_slopes(expected: Expected, mu: float, n: int, k: int) -> float:
    """Return the clip of derivatives: noise of a sum of k squares, against what is clipped.

    The noise that counts is one sd of ``k sd^2``, as its mean is taken off.
    """
    typical = math.sqrt(max(expected.mean_square, 1e-24))
    grid = typical * 2.0 ** (np.array(CLIP_STEPS_OF_SLOPES) / 4.0)
    noise = math.sqrt(2.0 * k) * (2.0 * grid / (mu * n)) ** 2
    moved = np.array([expected.beyond(float(c)) for c in grid]) / n
    return float(grid[int(np.argmin(noise + moved**2))])


def crossed_noise(at: Influence, columns: Columns, overlap: Overlap, sd: float) -> float:
    """Return the variance by noise of the effect where both models hold.

    ``sd``: of a residual where both arms share an outcome model, else 0.

    The derivatives are then 0 at the true coefficients, and the product of the errors of both fits
    is left: ``tr(V_e M V_m M')`` of each arm (``theory.md``, 4). M has the mean of ``1 - e``, or
    of ``e``, over units within the bounds.
    """
    e, errors = at.propensity, np.zeros(())
    inside, middles = overlap.clear.sum(axis=0) * ~overlap.clipped, overlap.middles
    units = overlap.total if at.estimand == "ATE" else max(float(overlap.clear[0].sum()), 1.0)
    parts = float(inside @ (1.0 - middles)) / units, float(inside @ middles) / units
    for arm, (model, part) in enumerate(zip(at.outcomes, parts, strict=True)):
        if arm or at.estimand == "ATE":
            M = columns.products(e, model) * part
            error = e.root.T @ M @ model.root @ model.into * _slope(at, model, columns)
            errors = errors + error
    logits = float(np.trace(e.root.T @ columns.products(e, e) @ e.root)) / len(e.coef)
    return float(np.sum(errors * errors)) + (UNLIKE * sd) ** 2 * logits


def errors_of_means(
    at: Influence, columns: Columns, fit: Estimate, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return by how much the predictions of both arms at the mean row may be off."""
    out = []
    for model in at.outcomes:
        L = (model.at_mean(columns.mean) @ model.back)[None, :]
        bound = fit.bias_of(L)
        assert fit.vcov_privacy is not None
        error = math.sqrt(max(float((L @ fit.vcov_privacy @ L.T)[0, 0]), 0.0))
        error = math.hypot(error, 0.0 if bound is None else float(bound[0]))
        error *= _slope(at, model, columns)
        out.append(min(error, ends[1] - ends[0]) if math.isfinite(error) else ends[1] - ends[0])
    return out[0], out[1]


def denominator(at: Influence, blocks: Array, noise: Noisy, n: int) -> tuple[float, float]:
    """Return the released denominator and its noise: the treated for the ATT, else everybody."""
    both = at.estimand == "ATE"
    count = float(blocks[0, 0] + (blocks[1, 0] if both else 0.0))
    sd = float(noise.sd[0]) / COUNT_WEIGHT * math.sqrt(1.0 + both)
    return min(max(count, CLEAR_COUNT * sd, 1.0), float(n)), sd


def centres_of(
    at: Influence, balance: BalanceRows, blocks: Array, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return the centres of both influence functions: predictions at the mean row."""
    over = blocks[:2].sum(axis=0) if at.estimand == "ATE" else blocks[0]
    means = np.clip(over[1:] / max(over[0], 1.0), -1.0, 1.0)
    row = np.zeros(max(*balance.places, at.treated) + 1)
    row[list(balance.places)] = balance.centre + balance.half * means
    row[0] = 1.0  # the constant
    out = []
    for model in at.outcomes:
        mean = float(at.link.inverse(_predictor(at, model, row))[0])
        out.append(min(max(mean, ends[0]), ends[1]))
    return out[0], out[1]
