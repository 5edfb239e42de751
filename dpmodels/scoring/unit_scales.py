"""Release centres of numeric variables and scales of columns, before the first pass over units.

A declared range says where values may lie, not where they do. Histograms of each numeric variable
over its range, and of its distances from there, give a centre and a scale; those of each column's
sum of squares a scale of the information (``method.md``, 8.3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, linear, stack, where
from dpmodels.core.sets import Bins
from dpmodels.core.units import Squares, UnitFormula
from dpmodels.formula.design import Design
from dpmodels.scoring import rules
from dpmodels.scoring.clip import clear_bins, mean_square, without_rounding
from dpmodels.scoring.coordinates import Coordinates, constant_columns, narrowed, unweighted
from dpmodels.scoring.pass_plan import count_of
from dpmodels.scoring.scales import columns_of_numbers, scale_of, sd_of_box, shares_of_tree
from dpmodels.sums.ask import ALL, Read

#: Name of the step that releases them.
SCALES = "scales of the information"


@dataclass(frozen=True)
class Number:
    """A numeric variable whose distribution is released."""

    name: str
    place: int  # Row of the block
    # low, high: its range.
    low: float
    high: float
    # {"even", "log", "whole", "octaves"}: cells even on the range, even in ``log(1 + y - low)``, or
    # one per whole number, or half octaves below ``high``.
    kind: str = "even"

    def bounds(self) -> Array:
        """Return the ends of the cells, (CELLS + 1,)."""
        if self.kind == "whole":
            return np.asarray(self.low - 0.5 + np.arange(rules.CELLS + 1.0), dtype=float)
        if self.kind == "log":
            top = math.log1p(self.high - self.low)
            return np.asarray(
                self.low + np.expm1(np.linspace(0.0, top, rules.CELLS + 1)), dtype=float
            )
        if self.kind == "octaves":
            return np.append(0.0, self.high * 2.0 ** (np.arange(1.0 - rules.CELLS, 1.0) / 2.0))
        return np.linspace(self.low, self.high, rules.CELLS + 1, dtype=float)

    @property
    def cells(self) -> int:
        """Cells that can hold a value: all, or one per whole number."""
        return (
            rules.CELLS
            if self.kind != "whole"
            else min(round(self.high - self.low) + 1, rules.CELLS)
        )

    @property
    def counts(self) -> bool:
        """Whether the number is a count: not negative, and rarer the larger it is."""
        return self.kind in ("whole", "log")

    def shares(self, counts: Array, sd: float, n: float) -> Array:
        """Return the shares of all cells, of noisy counts (CELLS,) of n units.

        If the cells that exceed the noise contain most units (a variable with few values, or a
        range that is far too wide), they get their counts. The remaining units are spread evenly
        over the range, as they may be anywhere. Their share is at least the noise of the cells that
        exceed it, so that a rare value is not scaled to be huge. For counts these units are at most
        at twice the largest visible value, as a few of them in a wide range would determine the
        mean. Otherwise shares are by a tree (:func:`dpmodels.scoring.scales.shares_of_tree`).
        """
        clear = clear_bins(counts, sd)
        clear[self.cells :] = 0.0
        if float(clear.sum()) > rules.CLEAR_PART * n:
            hidden = sd * math.sqrt(np.count_nonzero(clear)) / n
            remaining = max(1.0 - float(clear.sum()) / n, hidden)
            inside = np.arange(rules.CELLS) < self.cells
            if self.counts:
                end = float(self.bounds()[int(np.flatnonzero(clear)[-1]) + 1])
                inside &= self.middles() <= 2.0 * end - self.low
            even = np.where(inside, remaining / np.count_nonzero(inside), 0.0)
            out = clear / max(float(clear.sum()), n) + even
            return np.asarray(out / out.sum())
        many = 1 << (self.cells - 1).bit_length()
        part = np.zeros(many)
        part[: self.cells] = counts[: self.cells]
        out = np.zeros(rules.CELLS)
        out[:many] = shares_of_tree(part, sd)
        out[self.cells :] = 0.0
        return np.asarray(out / out.sum())

    def middles(self) -> Array:
        """Return the middles of the cells, (CELLS,)."""
        ends = self.bounds()
        return (ends[1:] + ends[:-1]) / 2.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Released distribution of a variable over its cells: shares that are positive."""

    number: Number
    shares: Array  # (CELLS,)
    noise: float = 0.0  # Sd of the noise of a share
    scale: float | None = None  # Scale of a predictor, over its range, or None if none was released

    @property
    def mean(self) -> float:
        """Return the mean of the values of the cells."""
        return float(self.shares @ self.number.middles())

    @property
    def sd(self) -> float:
        """Return the sd of a normal with the same distance of its outer tenths; never zero."""
        low, high = (self.quantile(q) for q in rules.OUTER_QUANTILES)
        ends = self.number.bounds()
        return max(
            (high - low) / rules.OUTER_SDS, rules.MIN_SPREAD_CELLS * float(np.min(np.diff(ends)))
        )

    @property
    def root_mean_square(self) -> float:
        """Root mean squared distance from the mean; never zero.

        The narrowed range of a predictor is computed from it. The distance of quantiles would be 0
        for a variable that mostly has one value.
        """
        middles = self.number.middles()
        size = math.sqrt(float(self.shares @ (middles - self.mean) ** 2))
        if float(np.max(self.shares)) < rules.ONE_LENGTH_PART:  # noise of far cells is not a spread
            size = min(size, rules.MAX_ROOT_MEAN_SQUARE * self.sd)
        return max(size, rules.MIN_SPREAD_CELLS * float(np.min(np.diff(self.number.bounds()))))

    def quantile(self, q: float) -> float:
        """Return a quantile, cells counted as uniform."""
        ends = self.number.bounds()
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        return float(np.interp(q, below, ends))


def numbers(design: Design, *, response: str) -> tuple[Number, ...]:
    """Return the variables with released distributions: numeric columns, the response last.

    ``response``: its cells (:attr:`Number.kind`); empty: it is not released.
    """
    out = []
    names, places = columns_of_numbers(design)
    plain, n_predictors = design, len(names)
    if design.scaled and not design.bought:
        plain = unweighted(design)  # predictors before they are multiplied by weights
        n_predictors = 0 if constant_columns(design) is None else n_predictors
    for name, place in zip(names[:n_predictors], places[:n_predictors], strict=True):
        interval = plain.z[place].interval
        if interval is not None and interval[1] > interval[0]:
            out.append(Number(name, place, *interval))
    last = design.z[design.q - 1]
    if response and last.interval is not None and last.interval[1] > last.interval[0]:
        low, high = last.interval
        if response == "whole" and high - low > rules.CELLS - 1:
            response = "log"
        out.append(Number(last.name, design.q - 1, low, high, response))
    return tuple(out)


def weight_number(design: Design) -> tuple[Number, ...]:
    """Return the weights of rows as a variable with a released distribution, if there are any."""
    place = design.auxiliary_place("weights")
    interval = None if place is None else design.z[place].interval
    if place is None or interval is None or not interval[1] > 0.0:
        return ()
    return (Number(design.z[place].name, place, 0.0, interval[1], "octaves"),)


def place_codes(
    z: Rows, places: Sequence[int], edges: Sequence[Array], root: Array | None,
    centre: Array | None = None,
) -> Rows:  # fmt: skip
    """Return the cell of each number of a row, NaN where it is missing.

    ``root`` (p,): columns that add up to the root of a row's weight, by which predictors are
    multiplied, or None; ``centre``: cells are of the distances from it.
    """
    codes = []
    for i, j in enumerate(places):
        x: Any = z[j]
        if root is not None and j < len(root):
            x = x / linear(root[None], z[: len(root)])
        if centre is not None:
            x = np.abs(x - centre[i])
        codes.append(where(np.isfinite(x), np.searchsorted(edges[i], x, "right"), np.nan))
    return stack(*codes)


def released_places(
    numbers: tuple[Number, ...], design: Design, n: float, *, people: bool,
    read: Read = ALL, root: Array | None = None,
) -> Generator[Any, Any, tuple[Spread, ...]]:  # fmt: skip
    """Release the distributions of the variables.

    ``root``: the columns that add up to what predictors are multiplied by, or None.

    Privacy
    -------
    Gaussian DP for one unit, with the planned mu: its shares of the cells of each variable.
    """
    formula = functools.partial(
        place_codes, places=[number.place for number in numbers],
        edges=[number.bounds()[1:-1] for number in numbers], root=root,
    )  # fmt: skip
    into = Bins(len(numbers), rules.CELLS, people=people)
    noisy = yield Release(rules.PLACES, into, formula, design, read)
    sd = float(noisy.sd[0, 0])
    return tuple(
        Spread(number, number.shares(histogram, sd, n), sd / n)
        for number, histogram in zip(numbers, noisy.values, strict=True)
    )


def released_distances(
    spreads: tuple[Spread, ...], design: Design, n: float, *, people: bool,
    read: Read = ALL, root: Array | None = None, relation: str = "replace",
) -> Generator[Any, Any, tuple[Spread, ...]]:  # fmt: skip
    """Release distances of predictors from their centres, and return these with scales.

    Privacy
    -------
    Gaussian DP for one unit, with the planned mu: its shares of the half octaves of each variable.
    """
    predictors = [spread for spread in spreads if spread.number.place < design.p]
    if not predictors:
        return spreads
    octaves = 2.0 ** (-np.arange(rules.DISTANCE_OCTAVES - 1, 0, -1) / 2.0)
    formula = functools.partial(
        place_codes, places=[spread.number.place for spread in predictors],
        edges=[(s.number.high - s.number.low) * octaves for s in predictors], root=root,
        centre=np.array([spread.quantile(0.5) for spread in predictors]),
    )  # fmt: skip
    into = Bins(len(predictors), rules.DISTANCE_OCTAVES, people=people)
    noisy = yield Release(rules.DISTANCES, into, formula, design, read)
    sd, out = float(noisy.sd[0, 0]), {}
    for spread, histogram in zip(predictors, noisy.values[:, ::-1], strict=True):
        many = count_of(histogram, sd, n, relation)
        out[spread.number.place] = replace(spread, scale=scale_of(histogram, sd, many))
    return tuple(out.get(spread.number.place, spread) for spread in spreads)


def released_squares(
    step: str, scores: UnitFormula, r: int, design: Design, n: float, read: Read = ALL,
    relation: str = "replace",
) -> Generator[Any, Any, tuple[Array, float]]:  # fmt: skip
    """Release the mean sum of squares of each column, (r,), and the count that it is a mean over.

    ``n``: the number of units, or its guess where it is private. The released count stands for it
    (:func:`dpmodels.scoring.pass_plan.count_of`).

    Privacy
    -------
    Gaussian DP for one unit, with the planned mu: one bin of each of r histograms.
    """
    noisy = yield Release(step, Squares(r), scores, design, read)
    sd = float(noisy.sd[0, 0])
    fullest = noisy.values[np.argmax(np.sum(noisy.values, axis=1))]
    n = count_of(fullest, sd, n, relation)
    return scales_of(noisy.values, sd, n), n


def scales_of(counts: Array, sd: float, n: float) -> Array:
    """Return the mean over n units of the squares with these histograms, (r,): never zero.

    Squares that are ``COLUMN_OCTAVES`` octaves below the largest column are left out. Coordinates
    are orthogonal only up to the error of the box, and a column that varies in few units would get
    its scale from the other columns' remainder. A column whose squares do not exceed the noise is
    taken to vary in all units. If its scale is then too large, one more pass is needed. If it were
    too small, the balls of the information would clip the few units in which it varies, and steps
    would be too long.
    """
    counts = without_rounding(counts)
    clear = [mean_square(c, sd, rules.SCORE_QUANTILE)[0] for c in counts if clear_bins(c, sd).any()]
    out, squares = np.zeros(len(counts)), []
    if clear:
        low = (
            np.arange(rules.OCTAVES)
            < round(math.log2(max(clear))) + rules.OCTAVE_ZERO - rules.COLUMN_OCTAVES
        )
        for j, histogram in enumerate(counts):
            high = np.where(low, 0.0, histogram)
            if clear_bins(high, sd).any():
                square, count = mean_square(high, sd, rules.SCORE_QUANTILE)
                out[j] = square * min(count / n, 1.0)
                squares.append(square)
    # only noise: the expected square of u by the box, in as many units as noise hides
    hidden = min(rules.CLEAR_SDS * sd / n, 1.0)
    return np.where(out > 0.0, out, max(float(np.median(squares)), hidden) if squares else 1.0)


def recentred(coordinates: Coordinates, design: Design, spreads: tuple[Spread, ...]) -> Coordinates:
    """Return the coordinates computed for narrower ranges of the predictors.

    Each predictor's range becomes an interval about its released mean, as wide as its released
    root mean square implies. If its scale was released the interval is about the median, with a
    width from the scale.
    """
    box = {}
    for spread in spreads:
        if spread.number.place < design.p:
            if spread.scale is None:
                centre, sd = spread.mean, spread.root_mean_square
            else:
                centre = spread.quantile(0.5)
                sd = sd_of_box(spread.scale, spread.number.high - spread.number.low)
            box[spread.number.name] = centre - math.sqrt(3.0) * sd, centre + math.sqrt(3.0) * sd
    if not box:
        return coordinates
    middles = {name: (low + high) / 2.0 for name, (low, high) in box.items()}
    return replace(narrowed(coordinates, design, box), centres=middles)
