"""Release centre and scale of every number before the start, and look from there.

A range says where values may lie, not where they do. Of rows two histograms of each number are
released, or one of their weights; of people one of each number, and one of each column of the
information (``theory.md``, 3.1 and 3.3; ``expand_theory.md``, 3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.prove import noise_of
from dpmodels.proof.sets import ConvexHull, OneHot
from dpmodels.proof.statistics import Stack, Sum
from dpmodels.scoring.clip import CLEAR, SCALE_UP_TO, kept, mean_square, without_rounding
from dpmodels.scoring.coordinates import (
    Coordinates,
    constant_columns,
    most_root,
    narrowed,
    unweighted,
)
from dpmodels.scoring.rules import (
    SEEN_COUNT,
)
from dpmodels.scoring.unit_passes import (
    CELLS,
    OCTAVE_ZERO,
    OCTAVES,
    Local,
    PlacesJob,
    ScalesJob,
)
from dpmodels.sources.summed import Integers
from dpmodels.sums.ask import ALL, Added, Ask, Counts, Query, Read, Sums, first_array
from dpmodels.sums.products import mapped

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.scoring.coordinates import Coordinates


# -- Centre and scale of what is declared too widely, released before the start (``theory.md``,
# 3.1).
#
# A range says where values may lie, not where they do. Two histograms of a number, of cells of its
# range and then of its distances from their median, tell a centre and a scale: the start looks from
# these. Cells are clipped at the declared range as ever, and no bound rests on what is released.


#: Shares of mu^2 of the two histograms, together ``SHARE``.
SHARES = (0.02, 0.03)
SHARE = sum(SHARES)
#: mu n above which ranges are not asked about: there the noise of a start is small.
STRONG = 20_000.0
#: Half octaves of distances from a centre.
DISTANCE_OCTAVES = 24
#: A node is split by its children where they differ by so many noise sds.
SPLIT = 2.5
#: Noise sds of a bin that tells the far end of distances.
FAR_END = 4.0
#: Quantile of distances that tells the scale, and the same of normal errors.
AT, NORMAL = 0.9, 1.645
#: Half the range of a response: so many scales, or so many times the far end of its distances.
NORMAL_RANGE, BEYOND = 4.0, 2.0
#: Part of the range's own variance in the squared scale of a predictor.
OWN = 0.02
#: A float64: bits of its mantissa, bias of its exponent.
_MANTISSA, _BIAS = 52, 1023


@dataclass(frozen=True)
class ScalePlan:
    """Which numbers are asked about, and what for."""

    names: tuple[str, ...]  # Columns of the block, the response last
    places: tuple[int, ...]  # Their rows in the block
    mu: float  # Of the whole scoring, scales included
    relation: str
    label: ClassVar[str] = "scales"
    share: ClassVar[float] = SHARE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the ledger. Shares are of the whole scoring."""
        return tuple(
            Step(name, Gaussian(self.mu * math.sqrt(share)), share=share)
            for name, share in zip(_STEPS, SHARES, strict=True)
        )

    def locate(self, coordinates: Coordinates, design: Design, ask: Ask) -> Coordinates:
        """Return coordinates that look from the released centres and scales."""
        return looking_from_scales(self, coordinates, design, ask)

    def histograms(self, k: int) -> Stack:
        """Return histogram k (0: places, 1: distances) of every number: one bin each."""
        d = len(self.names)
        return Stack((Sum(OneHot((CELLS, DISTANCE_OCTAVES)[k])),) * d, (1.0,) * d)

    def noise(self, k: int) -> float:
        """Return the noise sd of the bins of histogram k."""
        mechanism = Gaussian(self.mu * math.sqrt(SHARES[k]))
        return float(noise_of(self.histograms(k), mechanism, self.relation)[0])


_STEPS = ("places of values", "scales of values")


def numbers_of(design: Design, *, predictors: bool) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return (names, places) of the numbers whose scale can be asked about, the response last.

    ``predictors``: numeric variables that are columns of their own, too.
    """
    assert design.response is not None
    names, places = [], []
    if predictors:
        for j, column in enumerate(design.columns):
            variable = design.kinds.get(column.name)
            if column.interval is None or variable is None or variable.interval is None:
                continue
            if variable.kind not in ("binary", "levels"):
                names.append(column.name)
                places.append(j)
    return (*names, design.response.name), (*places, design.q - 1)


@dataclass(frozen=True, eq=False)
class _Histogram:
    """Numbers over equal cells of their ranges, or by half octaves of their distances.

    Of the range, from an origin: its lower end, or a centre. Row by row; missing: in none.
    """

    places: tuple[int, ...]
    origin: Array
    width: Array
    octaves: bool = False
    root: Array | None = None  # Columns that add up to what a row is multiplied by

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        """Return the counts over blocks, (numbers, bins), octaves the longest first. Confidential.

        The exponent of a square says the half octave of the distance, from the range down.
        """
        size = DISTANCE_OCTAVES if self.octaves else CELLS
        out = np.zeros((len(self.places), size), dtype=np.int64)
        for block in blocks:
            for i, number in enumerate(self._numbers(block)):
                part = number - self.origin[i]
                if self.octaves:
                    part = part / self.width[i]
                    square = part[np.isfinite(part)]
                    square *= square
                    at = _BIAS - 1 - (square.view(np.int64) >> _MANTISSA)
                else:
                    part = part * (CELLS / self.width[i])
                    at = np.floor(part[np.isfinite(part)])
                at = np.clip(at, 0, size - 1).astype(np.int64)
                out[i] += np.bincount(at, minlength=size)
        return Integers((out,))

    def _numbers(self, block: Array) -> Iterator[Array]:
        with np.errstate(all="ignore"):  # rows of weight 0 are missing here
            root = self.root
            one = None if root is None else mapped(root[None], block[: len(root)])[0]
            for j in self.places:
                yield block[j] if one is None else block[j] / one


def shares_of_tree(counts: Array, sd: float) -> Array:
    """Return shares of the cells of [0, 1], of a noisy histogram: not negative, adding up to 1.

    A node of the dyadic tree over the cells is split in proportion to its children where they
    differ by ``SPLIT`` noise sds, else in halves: noise of empty cells does not add up.
    """
    counts, share = np.asarray(counts, dtype=float), np.ones(1)
    while len(share) < len(counts):
        children = counts.reshape(2 * len(share), -1)
        each = sd * math.sqrt(children.shape[1])
        raw = children.sum(axis=1).reshape(-1, 2)
        pair = np.maximum(raw, 0.0)
        differ = np.abs(raw[:, 0] - raw[:, 1]) > SPLIT * math.sqrt(2.0) * each
        left = np.where(differ, pair[:, 0] / np.maximum(pair.sum(axis=1), 1e-300), 0.5)
        share = np.stack([share * left, share * (1.0 - left)], axis=1).ravel()
    return share


def median_of(counts: Array, sd: float) -> float:
    """Return the median of a noisy histogram of cells of [0, 1] (:func:`shares_of_tree`)."""
    share = shares_of_tree(counts, sd)
    below = np.concatenate([[0.0], np.cumsum(share)])
    k = int(np.clip(np.searchsorted(below, 0.5, side="right") - 1, 0, len(share) - 1))
    within = (0.5 - below[k]) / max(float(share[k]), 1e-300)
    return float((k + min(max(within, 0.0), 1.0)) / len(share))


def scale_of(counts: Array, sd: float) -> tuple[float, float]:
    """Return (the .9 quantile over 1.645, the far end) of distances, over the range.

    From noisy half octaves, those that do not stand out of their noise left out; the far end is
    that of the longest that does.
    """
    found = np.where(counts > SPLIT * sd, counts, 0.0)
    total = float(found.sum())
    if not total > 0.0:
        return 1.0 / math.sqrt(12.0), 1.0
    beyond = np.cumsum(found) / total
    k = int(np.searchsorted(beyond, 1.0 - AT, side="left"))
    before = float(beyond[k - 1]) if k else 0.0
    within = (1.0 - AT - before) / max(float(beyond[k]) - before, 1e-300)
    scale = 2.0 ** (-(k + min(max(within, 0.0), 1.0)) / 2.0) / NORMAL
    sure = np.flatnonzero(counts > FAR_END * sd)
    return float(scale), float(2.0 ** (-0.5 * int(sure[0]))) if len(sure) else 1.0


def looking_from_scales(
    plan: ScalePlan, coordinates: Coordinates, design: Design, ask: Ask
) -> Coordinates:
    """Release centres and scales, and return the coordinates that look from there.

    Privacy
    -------
    Unit: one row. Two Gaussian releases of counts, a row in one bin of each number.
    """
    root = coordinates.unit.one if design.scaled else None
    ends = (design if root is None else unweighted(design)).intervals()[list(plan.places)]
    low, width = ends[:, 0], np.maximum(ends[:, 1] - ends[:, 0], 1e-300)
    counts = _noisy(plan, 0, design, ask, _Histogram(plan.places, low, width, root=root))
    middle = np.array([median_of(one, plan.noise(0)) for one in counts])
    centre = low + width * middle
    distances = _Histogram(plan.places, centre, width, octaves=True, root=root)
    counts = _noisy(plan, 1, design, ask, distances)
    scale, end = np.array([scale_of(one, plan.noise(1)) for one in counts]).T
    half = width[-1] * min(max(NORMAL_RANGE * scale[-1], BEYOND * end[-1]), 0.5)
    sd = width * np.sqrt((1.0 - OWN) * scale**2 + OWN / 12.0)
    return _looking_from(coordinates, design, plan.names[:-1], centre, sd, half)


def _noisy(plan: ScalePlan, k: int, design: Design, ask: Ask, job: _Histogram) -> Array:
    over = Sums(design, job)
    query = Query(plan.histograms(k), over, lambda found: Added(found.arrays[0].astype(object)))
    return ask(_STEPS[k], query).values


def _looking_from(
    coordinates: Coordinates, design: Design, names: Sequence[str], centre: Array, sd: Array,
    half: float,
) -> Coordinates:  # fmt: skip
    """Return coordinates about a narrower range of the response, and a narrower box.

    Predictors are as if uniform, with this centre and sd; ``half`` the range of the response before
    any weight, about its centre (0 without a constant).
    """
    unit = coordinates.unit
    scale, shift = np.array(unit.scale), np.array(unit.shift)
    if unit.intercept or unit.one is not None:
        half *= most_root(design)
        scale[-1], shift[-1] = 1.0 / half, -centre[-1] / half
    else:  # nothing gives a centre back: about 0
        scale[-1] = max(scale[-1], 1.0 / (abs(centre[-1]) + half))
    box: Mapping[str, tuple[float, float]] = {
        name: (c - math.sqrt(3.0) * s, c + math.sqrt(3.0) * s)
        for name, c, s in zip(names, centre.tolist(), sd.tolist(), strict=False)
    }
    if box:
        coordinates = narrowed(coordinates, design, box)
    return replace(coordinates, unit=replace(unit, scale=scale, shift=shift))


# -- Before the first pass: where numbers lie, and how large each column of the information is.
#
# A declared range says where values may lie, not where they do. Histograms of each number over its
# range give a centre and a spread, those of each column's own sum of squares a scale: declared
# boxes do not set the noise (``expand_theory.md``, 3).


#: Names of the steps.
PLACES, SCALES = "places of values", "scales of the information"
#: Quantiles of a number that say its spread, and their distance in normal sds.
_OUTER, _APART = (0.1, 0.9), 2.563
#: Part of the units in cells that are clear of the noise that is enough.
MOST = 0.7
#: Least spread of a number, in cells of its range.
_LEAST_CELL = 0.3
#: Octaves below the largest column of the information from which on nothing is a column's own.
SMALL = 10


@dataclass(frozen=True)
class Number:
    """A number that is asked about."""

    name: str
    place: int  # Row of the block
    # low, high: its range.
    low: float
    high: float
    # {"even", "log", "whole", "octaves"}: cells even on the range, even in ``log(1 + y - low)``, or
    # one a whole number, or half octaves below ``high``.
    kind: str = "even"

    def bounds(self) -> Array:
        """Return the ends of the cells, (CELLS + 1,)."""
        if self.kind == "whole":
            return np.asarray(self.low - 0.5 + np.arange(CELLS + 1.0), dtype=float)
        if self.kind == "log":
            top = math.log1p(self.high - self.low)
            return np.asarray(self.low + np.expm1(np.linspace(0.0, top, CELLS + 1)), dtype=float)
        if self.kind == "octaves":
            return np.append(0.0, self.high * 2.0 ** (np.arange(1.0 - CELLS, 1.0) / 2.0))
        return np.linspace(self.low, self.high, CELLS + 1, dtype=float)

    @property
    def cells(self) -> int:
        """Cells that can hold a value: all, or one a whole number."""
        return CELLS if self.kind != "whole" else min(round(self.high - self.low) + 1, CELLS)

    def shares(self, counts: Array, sd: float, n: float) -> Array:
        """Return the shares of all cells, of noisy counts (CELLS,) of n units.

        Cells that stand out of the noise, where these hold most units (a number of few values, or
        one whose range is far too wide), the others even over the range: what is not seen may be
        anywhere, and that is no less than the noise of those that are (a rare value, taken for
        none, would be blown up). Else by a tree.
        """
        clear = kept(counts, sd)
        clear[self.cells :] = 0.0
        if float(clear.sum()) > MOST * n:
            hidden = sd * math.sqrt(np.count_nonzero(clear)) / n
            rest = max(1.0 - float(clear.sum()) / n, hidden)
            even = np.where(np.arange(CELLS) < self.cells, rest / self.cells, 0.0)
            out = clear / max(float(clear.sum()), n) + even
            return np.asarray(out / out.sum())
        many = 1 << (self.cells - 1).bit_length()
        part = np.zeros(many)
        part[: self.cells] = counts[: self.cells]
        out = np.zeros(CELLS)
        out[:many] = shares_of_tree(part, sd)
        out[self.cells :] = 0.0
        return np.asarray(out / out.sum())

    def middles(self) -> Array:
        """Return the values that cells stand for, (CELLS,)."""
        ends = self.bounds()
        return (ends[1:] + ends[:-1]) / 2.0


@dataclass(frozen=True, eq=False)
class Spread:
    """The released distribution of a number over its cells: shares that are positive."""

    number: Number
    shares: Array  # (CELLS,)
    noise: float = 0.0  # Sd of the noise of a share

    @property
    def mean(self) -> float:
        """Return the mean of the values of the cells."""
        return float(self.shares @ self.number.middles())

    @property
    def sd(self) -> float:
        """Return the sd of a normal with the same distance of its outer tenths; never zero."""
        low, high = (self.quantile(q) for q in _OUTER)
        ends = self.number.bounds()
        return max((high - low) / _APART, _LEAST_CELL * float(np.min(np.diff(ends))))

    @property
    def root_mean_square(self) -> float:
        """Root mean squared distance from the mean; never zero.

        What the box of a predictor is made of: between its outer tenths a number that is mostly
        one value has no spread.
        """
        middles = self.number.middles()
        square = float(self.shares @ (middles - self.mean) ** 2)
        ends = self.number.bounds()
        return max(math.sqrt(square), _LEAST_CELL * float(np.min(np.diff(ends))))

    def quantile(self, q: float) -> float:
        """Return a quantile, cells counted as uniform."""
        ends = self.number.bounds()
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        return float(np.interp(q, below, ends))


def numbers(design: Design, *, response: str) -> tuple[Number, ...]:
    """Return the numbers to ask about: numeric columns of their own, the response last.

    ``response``: its cells (:attr:`Number.kind`); empty: it is not asked about.
    """
    out = []
    names, places = numbers_of(design, predictors=True)
    plain, asked = design, len(names) - 1
    if design.scaled and not design.bought:
        plain = unweighted(design)  # predictors are asked about before they are multiplied
        asked = 0 if constant_columns(design) is None else asked
    for name, place in zip(names[:asked], places[:asked], strict=True):
        interval = plain.z[place].interval
        if interval is not None and interval[1] > interval[0]:
            out.append(Number(name, place, *interval))
    last = design.z[design.q - 1]
    if response and last.interval is not None and last.interval[1] > last.interval[0]:
        low, high = last.interval
        if response == "whole" and high - low > CELLS - 1:
            response = "log"
        out.append(Number(last.name, design.q - 1, low, high, response))
    return tuple(out)


def weight_number(design: Design) -> tuple[Number, ...]:
    """Return the weights of rows as a number to ask about, or nothing without weights."""
    place = design.auxiliary_place("weights")
    interval = None if place is None else design.z[place].interval
    if place is None or interval is None or not interval[1] > 0.0:
        return ()
    return (Number(design.z[place].name, place, 0.0, interval[1], "octaves"),)


def places_of(many: int, *, people: bool) -> Stack:
    """Return the histograms of so many numbers: a unit's shares of each, or its one cell."""
    one: Any = OneHot(CELLS)
    each = Sum(ConvexHull(one)) if people else Sum(one)
    return Stack((each,) * many, (1.0,) * many)


def ask_places(
    ask: Ask, asked: tuple[Number, ...], design: Design, n: float, *, people: bool,
    read: Read = ALL, root: Array | None = None,
) -> tuple[Spread, ...]:  # fmt: skip
    """Release the distributions of numbers.

    ``root``: the columns that add up to what predictors are multiplied by, or None.

    Privacy
    -------
    GDP for one unit, its mu as planned: its shares of the cells of each number.
    """
    statistic = places_of(len(asked), people=people)
    edges = tuple(one.bounds()[1:-1] for one in asked)
    job = PlacesJob(tuple(one.place for one in asked), edges, people, root)
    step = 1 if people else 2**20  # a row has the whole unit, as a mark
    over = Sums(design, job)
    query = Query(
        statistic, over, lambda found: Added([(a // step).astype(object) for a in found.arrays[0]])
    )
    found = ask(PLACES, query, read)
    return tuple(
        Spread(one, one.shares(own, float(sd[0]), n), float(sd[0]) / n)
        for one, own, sd in zip(asked, found.values, found.sd, strict=True)
    )


def ask_scales(
    ask: Ask, step: str, local: Local, r: int, design: Design, n: float, *, people: bool,
    read: Read = ALL, private: bool = False,
) -> tuple[Array, float]:  # fmt: skip
    """Release the mean of each column's own sum of squares, (r,), and what it is a mean over.

    ``n``: the number of units, or its guess where it is private. There the released count stands
    for it, if it is clear of its noise.

    Privacy
    -------
    GDP for one unit, its mu as planned: one bin of each of r histograms.
    """
    statistic = Stack((Sum(OneHot(OCTAVES)),) * r, (1.0,) * r)
    over = Sums(design, ScalesJob(local, people, r))
    query = Query(statistic, over, lambda found: Added([a.astype(object) for a in found.arrays[0]]))
    noisy = ask(step, query, read)
    sd = float(noisy.sd[0, 0])
    count = float(np.max(np.sum(noisy.values, axis=1)))
    if private and count > SEEN_COUNT * sd * math.sqrt(OCTAVES):
        n = count
    return scales_of(noisy.values, sd, n), n


def scales_of(counts: Array, sd: float, n: float) -> Array:
    """Return the mean over n units of numbers whose histograms are given, (r,): never zero.

    What of a column is ``SMALL`` octaves below the largest is not its own: coordinates are
    orthogonal but for what the box does not know, and a column that varies in few units only would
    be known by what others leave in it, blown up. A column that is not seen beside others is taken
    for one of all units: too quiet costs a pass; if it were too high, the balls of the information
    would cut the few units that it varies in, and steps would go past the root.
    """
    counts = without_rounding(counts)
    clear = [mean_square(own, sd, SCALE_UP_TO)[0] for own in counts if kept(own, sd).any()]
    out, squares = np.zeros(len(counts)), []
    if clear:
        low = np.arange(OCTAVES) < round(math.log2(max(clear))) + OCTAVE_ZERO - SMALL
        for j, own in enumerate(counts):
            high = np.where(low, 0.0, own)
            if kept(high, sd).any():
                square, there = mean_square(high, sd, SCALE_UP_TO)
                out[j] = square * min(there / n, 1.0)
                squares.append(square)
    # nothing but noise: what the box lets expect of u, of as many units as noise hides
    hidden = min(CLEAR * sd / n, 1.0)
    return np.where(out > 0.0, out, max(float(np.median(squares)), hidden) if squares else 1.0)


def recentred(
    coordinates: Coordinates, design: Design, spreads: tuple[Spread, ...]
) -> Coordinates:
    """Return coordinates of a box about the released centres, as wide as the released spreads."""
    box = {}
    for one in spreads:
        if one.number.place < design.p:
            centre, half = one.mean, math.sqrt(3.0) * one.root_mean_square
            box[one.number.name] = (centre - half, centre + half)
    if not box:
        return coordinates
    found = narrowed(coordinates, design, box)
    # a box so narrow that columns are taken for one another: what was planned stays
    return found if found.rank == coordinates.rank else coordinates


# -- Mean weight of the rows. Scoring counts every weight over it (``theory.md``, 3.3).



#: Name of the step, and its share of mu^2 in a scoring fit.
WEIGHT_STEP, WEIGHT_SHARE = "weights", 0.02
#: Half octaves of w/W, W the declared largest weight. The first begins at W. The last holds
#: everything below, and rows without a positive weight.
WEIGHT_BINS = 32
#: Counts below this many noise sds count as noise.
CLEAR_SDS = 2.0


def weight_histogram(
    blocks: Iterable[Array], place: int, top: float
) -> tuple[npt.NDArray[np.object_]]:
    """Return the counts of weights by half octaves of the declared range: one bin per row."""
    out = np.zeros(WEIGHT_BINS, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            bins = np.floor(-2.0 * np.log2(block[place] / top))
            bins = np.where(np.isfinite(bins), np.clip(bins, 0, WEIGHT_BINS - 1), WEIGHT_BINS - 1)
            out += np.bincount(bins.astype(np.intp), minlength=WEIGHT_BINS)
    return (out.astype(object),)


def weight_query(design: Design, place: int, top: float) -> Query:
    """Return the query of the histogram of weights."""
    job = functools.partial(weight_histogram, place=place, top=top)
    return Query(Sum(OneHot(WEIGHT_BINS)), Counts(design, job), first_array)


def weight_middles(top: float) -> Array:
    """Return the weights that the bins stand for: their geometric middles."""
    return np.asarray(top * 2.0 ** (-(np.arange(WEIGHT_BINS) + 0.5) / 2.0))


def mean_weight(counts: Array, sd: float, top: float) -> float:
    """Return the mean weight by a noisy histogram, or ``top`` if no bin is clear of its noise."""
    clear = np.where(counts > CLEAR_SDS * sd, counts, 0.0)
    total = float(np.sum((clear * weight_middles(top))[:-1]))
    return total / float(clear.sum()) if total > 0.0 else top


@dataclass(frozen=True)
class WeightPlan:
    """Release of the mean weight before the start of a fit of rows."""

    place: int  # Row of the block that holds the weights
    top: float  # Largest declared weight
    mu: float  # mu of the whole scoring, this step included
    label: ClassVar[str] = WEIGHT_STEP
    share: ClassVar[float] = WEIGHT_SHARE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the ledger. Shares are of the whole scoring."""
        return (Step(WEIGHT_STEP, Gaussian(self.mu * math.sqrt(WEIGHT_SHARE)), share=WEIGHT_SHARE),)

    def locate(self, coordinates: Coordinates, design: Design, ask: Ask) -> Coordinates:
        """Release the histogram of weights, and return coordinates with its mean.

        Privacy
        -------
        Unit: one row. One Gaussian release of counts, a row in one bin.
        """
        noisy = ask(WEIGHT_STEP, weight_query(design, self.place, self.top))
        mean = mean_weight(noisy.values, float(noisy.sd[0]), self.top)
        return replace(coordinates, mean_weight=mean)
