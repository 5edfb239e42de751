"""Score sums by person: each person's rows are summed, clipped, and added in exact integers.

For a regression each unit (a row, or a person with any number of rows) has a score and an
information. An *expansion*, a public function of the unit's rows and of released numbers, computes
both: ``expand(rows) -> (rows of scores, with sum S_p; rows v, with information V_p'V_p)``. The pass
clips them by unit and sums them in integers. A plain row is a person with one row.

Rule (U) of ``units.md`` for an expansion: its result for a unit is a function of this unit's rows,
bit for bit. So there is no product of matrices over a block and no mean over the table. eta is
computed coordinate by coordinate (:func:`dpmodels.sums.products.mapped` depends on the row alone).
A softmax subtracts the largest value of the person or the row, never of the block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.parallel import PassSums, clipped, complete_rows, scaled
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Formula
from dpmodels.proof.sets import STEPS
from dpmodels.scoring import rules
from dpmodels.scoring.models import Model, State
from dpmodels.scoring.passes import Centre, row_of
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sources.summed import Integers
from dpmodels.sums.products import (
    ExactSum,
    end_along,
    end_of_numbers,
    filled,
    integers_of,
    mapped,
    towards_zero,
)
from dpmodels.sums.rowmap import factors, lengths, missing, product

if TYPE_CHECKING:
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.scoring.pass_plan import PassPlan
    from dpmodels.sources.rows import Coins


Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Expanded:
    """Whole units, expanded: the rows of one after the other, in the whitened coordinates w.

    Notes
    -----
    **Private.** A unit of which a row is not finite counts as nothing.
    """

    score: Array  # (r, m): rows whose sum over a unit is its score S_p
    scores: Index  # (k,): how many of them each unit has, at least one
    # Makes the rows v, (r, l): ``sum v v'`` over a unit is its information. When asked for: the
    # histogram of lengths does without.
    information: Callable[[], Array]
    # (k,): how many of them each unit has, at least one (a zero row where there is nothing).
    counts: Index
    # (m,): what part of its unit each row of scores is, where units count alike; None: rows do.
    shares: Array | None = None

    def __repr__(self) -> str:
        return f"<{len(self.counts)} expanded units, confidential>"


class Local(Protocol):
    """An expansion at released numbers. Travels to workers."""

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the scores and the information of whole units."""
        ...


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

    def at(self, state: State, clip: float = math.inf) -> Local:
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


def in_u(coordinates: Coordinates, rows: Array) -> Array:
    """Return u of each row of a block, (r, m), computed row by row."""
    matrix, shift = coordinates.affine
    u = mapped(matrix, rows)
    u += shift
    return u


def predictor(theta: Array, u: Array) -> Array:
    """Return ``theta'u`` of each row (r, m), computed row by row: coordinate by coordinate."""
    eta = np.zeros(u.shape[1])
    for b, cells in zip(theta, u, strict=True):
        eta += b * cells
    return eta


def own_sum(cells: Array, counts: Index) -> Array:
    """Return the sums over units of floats, along the last axis, each from the unit's cells alone.

    ``np.add.reduceat`` adds a unit's cells in an order that is a function of their number.
    """
    if cells.shape[-1] == len(counts):
        return cells
    return np.asarray(np.add.reduceat(cells, np.cumsum(counts) - counts, axis=-1))


def rows_present(present: Array, counts: Index) -> Array:
    """Return how many rows of each unit are ``present`` (1 or 0), at least 1."""
    return np.maximum(own_sum(present, counts), 1.0)


def own_mean(cells: Array, present: Array, counts: Index) -> Array:
    """Return each unit's mean over its rows that are ``present`` (1 or 0), at each of its rows.

    0: none is; cells are 0 where a row is not there.
    """
    return np.repeat(own_sum(cells, counts) / rows_present(present, counts), counts, axis=-1)


@dataclass(frozen=True, eq=False)
class RegressionRows:
    """Scores ``w psi`` and information ``sqrt(omega) w`` of rows, ``w = W u``."""

    centre: Centre  # State at which the pass is evaluated
    # w and the residual less their means over the unit's rows (fixed effects).
    demean: bool = False
    equal: bool = False  # Units count equally: each of its T complete rows as 1/T

    @functools.cached_property
    def _formula(self) -> Formula:
        """Formula of a row: (w, psi, omega)."""
        return row_of(self.centre, 1.0, rotated=False)[0]

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the scores and the information of whole units."""
        r = len(self.centre.theta)
        z, psi, omega, _, complete = complete_rows(r, *self._formula(Rows(block.rows)))
        z = z[:r]
        present = np.ones(z.shape[1])
        if not isinstance(complete, slice):
            present = complete.astype(float)
        if self.demean:
            z = (z - own_mean(z, present, block.counts)) * present
            psi = (psi - own_mean(psi, present, block.counts)) * present

        part = None
        if self.equal:
            part = np.repeat(1.0 / rows_present(present, block.counts), block.counts)

        def information() -> Array:
            weight = omega
            if part is not None:
                weight = part if omega is None else part * omega
            return z if weight is None else z * np.sqrt(np.maximum(weight, 0.0))

        score = z * psi if part is None else z * psi * part
        return Expanded(score, block.counts, information, block.counts, shares=part)


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

    @property
    def averages(self) -> bool:  # type: ignore[override]
        """Whether the score is linear in theta."""
        return self.score.averages

    @property
    def jump(self) -> float:  # type: ignore[override]
        """Return the jump of the score of a row."""
        return self.score.jump

    def at(self, state: State, clip: float = math.inf) -> Local:
        """Return the rows of pass k."""
        c = self.coordinates
        centre = Centre(
            c.unit, c.W0, state.theta, state.W, state.phi, self.score.evaluate(state),
            self.score.of_residual, self.offset, self.weights, c.mean_weight,
        )  # fmt: skip
        return RegressionRows(centre, self.demean, self.equal)

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with the scale that a pass estimated."""
        return self.score.updated(state, H, ratio)

    def _constant(self, H: Array) -> float:
        """Return the sum of a unit's weights omega, by the information of the constant."""
        a = self.coordinates.constant
        return max(float(a @ H @ a), 1e-3) if a is not None else 1.0

    def events(self, H: Array) -> float:
        """Return the sum of a unit's weights: its events for counts, otherwise at least 1."""
        omega = self._constant(H)
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


# -- Passes over expanded units: the contribution of one unit, in exact integers.
#
# There are four jobs: histograms of values (cells of the ranges), of squares of each column of the
# information and of lengths of scores, and the sums of a scoring pass. The sets that contain a
# unit's contribution are those of the queries in :mod:`dpmodels.scoring.scales`,
# :mod:`dpmodels.scoring.clip` and :mod:`dpmodels.scoring.passes`
# (``theory.md``, 8.2).


def octaves(squares: Array) -> npt.NDArray[np.int64]:
    """Count positive finite numbers by octaves, the end bins open; others are in none."""
    positive = squares[(squares > 0.0) & np.isfinite(squares)]
    octave = (positive.view(np.int64) >> rules.MANTISSA_BITS) - (
        rules.EXPONENT_BIAS - rules.OCTAVE_ZERO
    )
    return np.bincount(np.clip(octave, 0, rules.OCTAVES - 1), minlength=rules.OCTAVES)


def units_of(blocks: Iterable[Any]) -> Iterator[BlockOfPeople]:
    """Yield blocks of complete units; each row of a block of rows is one unit."""
    for block in blocks:
        if isinstance(block, BlockOfPeople):
            yield block
        else:
            m = block.shape[1]
            yield BlockOfPeople(block, np.arange(m), np.ones(m, dtype=np.intp))


def own_scores(expanded: Expanded) -> tuple[Array, Array, Array]:
    """Return (scores of units in steps of ``GRAIN``, their lengths, lengths of their rows').

    Integers; 0 where one is not finite. Sums below 2^53 steps are exact in any order, longer ones
    round in the unit's own order.
    """
    rows = np.rint(expanded.score * (1.0 / rules.GRAIN))
    scores = own_sum(rows, expanded.scores)
    size = lengths(scores)
    gone = ~(size < 1e140)
    if gone.any():
        scores = np.where(gone, 0.0, scores)
        size = np.where(gone, 0.0, size)
    return scores, size, lengths(rows)


@dataclass(frozen=True, eq=False)
class LengthsJob:
    """The histogram of ``|S_p|`` by half octaves: a unit in one bin, or in none."""

    local: Local
    of_people: bool

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the counts, (OCTAVES,). Confidential."""
        out = np.zeros(rules.OCTAVES, dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                size = own_scores(self.local.expand(block))[1] * rules.GRAIN
                out += octaves(size * size)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class ScalesJob:
    """Histograms of ``sum_t v_tj^2`` of each column j: a unit in one bin of each, or in none."""

    local: Local
    of_people: bool
    r: int

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the counts, (r, OCTAVES). Confidential."""
        out = np.zeros((self.r, rules.OCTAVES), dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                expanded = self.local.expand(block)
                squares = own_sum(expanded.information()[: self.r] ** 2, expanded.counts)
                for j, row in enumerate(squares):
                    out[j] += octaves(row)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class PlacesJob:
    """Shares of each unit's rows in cells of variables: ``floor(2^20/rows)`` a row and number."""

    places: tuple[int, ...]  # Rows of the block
    # tuple of (cells - 1,) arrays: inner edges of the cells of each variable, all of one count.
    edges: tuple[Array, ...]
    of_people: bool
    # (p,): columns that add up to the root of a row's weight, by which predictors are multiplied.
    # None if they are not.
    root: Array | None = None
    # (numbers,): centres of distances that are in cells, or None for cells of the variables
    # themselves.
    centre: Array | None = None

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the sums of shares, (variables, cells), in steps of 2^-20. Confidential."""
        size = len(self.edges[0]) + 1
        out = np.zeros((len(self.places), size), dtype=np.int64)
        for block in units_of(blocks):
            for i, j in enumerate(self.places):
                cells = block.rows[j]
                if self.root is not None and j < len(self.root):
                    with np.errstate(all="ignore"):  # rows of weight 0 are missing here
                        cells = cells / mapped(self.root[None], block.rows[: len(self.root)])[0]
                if self.centre is not None:
                    cells = np.abs(cells - self.centre[i])
                finite = np.isfinite(cells)
                many = own_sum(finite.astype(float), block.counts)
                mass = np.repeat(np.floor(STEPS / np.maximum(many, 1.0)), block.counts) * finite
                at = np.searchsorted(self.edges[i], np.where(finite, cells, 0.0), side="right")
                out[i] += np.bincount(at, weights=mass, minlength=size).astype(np.int64)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class UnitsJob:
    """One scoring pass: each unit's score in the ball of C, its information in balls of trace."""

    local: Local
    plan: PassPlan
    r: int
    of_people: bool
    # (r, r): rows v are looked at in coordinates of their own, ``turn v``: those in which the
    # information is round. For people each part is clipped separately, so any coordinates may be
    # used.
    turn: Array | None = None

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> PassSums:
        """Return the exact sums; coins, one per unit, choose the meat.

        Confidential.
        """
        plan, r, k = self.plan, self.r, filled(self.r)
        totals = {name: ExactSum(k, k) for name in ("information", "meat")}
        score, scale = np.zeros(k, dtype=object), 0
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                many = len(block.counts)
                chosen: Any = slice(None) if coins is None else coins.choose(many)
                expanded = self.local.expand(block)
                scores, size, of_rows = own_scores(expanded)
                scores = _filled(scores, r)
                score += self._scores(scores, size).astype(object)
                if plan.mu_scale:
                    square = (of_rows * rules.GRAIN) ** 2 / plan.scale_cut
                    if expanded.shares is not None:  # a row's squared score, by its share
                        square = square / expanded.shares
                    part = own_sum(end_of_numbers(square, low=0.0), expanded.scores)
                    scale += int(np.minimum(part, STEPS).sum())
                if plan.meat:
                    totals["meat"].add(
                        scaled(scores[:, chosen], size[chosen], plan.meat / rules.GRAIN)
                    )
                self._add_information(totals["information"], expanded)

        def matrix(name: str) -> Any:
            return totals[name].integers()[:r, :r]

        return PassSums(
            matrix("information"), score[:r], matrix("meat") if plan.meat else None,
            scale, (),
        )  # fmt: skip

    def _scores(self, scores: Array, size: Array) -> npt.NDArray[np.int64]:
        """Return the sum of scores, none longer than C in exact integers."""
        clip = self.plan.clip / rules.GRAIN
        target = clipped(size, clip)
        return integers_of(end_along(scores, size, clip, target).sum(axis=1))

    def _add_information(self, total: ExactSum, expanded: Expanded) -> None:
        """Add the information of units."""
        rows = expanded.information()
        v = _filled(np.array(rows) if self.turn is None else mapped(self.turn, rows), self.r)
        length = missing(v)
        starts = np.cumsum(expanded.counts) - expanded.counts
        block = BlockOfPeople(v, starts, expanded.counts)
        v *= factors(length, block, self.plan.information)[0]
        product(towards_zero(v), total)


def _filled(rows: Array, r: int) -> Array:
    """Return rows with rows of zeros below, up to a height whose products are fast."""
    k = filled(r)
    if len(rows) == k:
        return rows
    out = np.zeros((k, rows.shape[1]))
    out[:r] = rows[:r]
    return out
