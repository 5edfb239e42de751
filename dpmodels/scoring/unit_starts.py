"""Public rules of passes over units: shares, radii, and a clip chosen off a released histogram.

Functions of (mu, N, p) and of released numbers (``expand_theory.md``, 3 and 4). Shares are shares
of mu^2. Lengths of scores and radii are in the coordinates of a pass.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.inference import critical_value, one_way
from dpmodels.arrays import Array
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import Ball, ConvexHull, NuclearBall, OneHot
from dpmodels.proof.statistics import Gram, Stack, Sum
from dpmodels.scoring.intervals import tail_curve
from dpmodels.scoring.passes import softened
from dpmodels.scoring.rules import (
    CUT,
    GROWS,
    MEAT_OF_UNITS,
    NOISE_PART,
    POWER,
    SEEN_COUNT,
    STEPS_OF_C,
    UNITS,
    Noise,
    PassPlan,
    information_of_units,
    shares_of_units,
)
from dpmodels.scoring.starts import (
    Coordinates,
    constant_columns,
    narrowed,
    numbers_of,
    shares_of_tree,
    unweighted,
)
from dpmodels.scoring.unit_passes import (
    CELLS,
    OCTAVE_ZERO,
    OCTAVES,
    LengthsJob,
    Local,
    PlacesJob,
    ScalesJob,
)
from dpmodels.sums.ask import ALL, Added, Ask, Query, Read, Sums

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


#: Share of a bin's own octave: its mean over its lower end, uniform in the logarithm.
_MIDDLE = 1.0 / math.log(2.0)
#: Runs of three bins that are clear of the noise, and such beside them, in noise sds of a bin.
CLEAR, NEAR = 9.0, 4.0
#: Parts of a bin, where a function of lengths is averaged over it.
_PARTS = 8
#: Bins that hold most units, where noise hides which.
WINDOW = 7
#: Quantiles of the histograms up to which squares are averaged: of scales, of scores.
SCALE_UP_TO, SCORES_UP_TO = 0.98, 0.995
# -- What a released histogram of half octaves says


def kept(counts: Array, sd: float) -> Array:
    """Return a histogram without the bins that are noise.

    Kept are runs of three bins that are clear of the noise, and what adjoins them in runs that
    stand out a little: of a hundred bins some run reaches four of its own noise sds by chance, but
    seldom beside the others.
    """
    runs = np.convolve(counts, np.ones(3), mode="same")
    grown, some = runs > CLEAR * sd, runs > NEAR * sd
    for _ in range(len(counts)):
        wider = grown | (some & (np.convolve(grown, np.ones(3), mode="same") > 0.0))
        if (wider == grown).all():
            break
        grown = wider
    around = np.convolve(grown.astype(float), np.ones(3), mode="same") > 0.0
    return np.where(around, np.maximum(counts, 0.0), 0.0)


def _without_rounding(counts: Array) -> Array:
    """Return histograms of squares without the open lowest bin: what rounding leaves of a zero."""
    out = np.array(counts, dtype=float)
    out[..., 0] = 0.0
    return out


def mean_square(counts: Array, sd: float, up_to: float) -> tuple[float, float]:
    """Return (mean of the numbers below their ``up_to`` quantile, how many there are).

    From a histogram of octaves, bin i from ``2^(i - OCTAVE_ZERO)`` on. Where no run is clear of the
    noise the fullest window of ``WINDOW`` bins stands for it.
    """
    found = kept(counts, sd)
    if not float(found.sum()) > 0.0:
        at = int(np.argmax(np.convolve(counts, np.ones(WINDOW), mode="same")))
        found = np.zeros_like(counts)
        near = slice(max(at - WINDOW // 2, 0), at + WINDOW // 2 + 1)
        found[near] = np.maximum(counts[near], 0.0)
    total = max(float(found.sum()), 1e-300)
    below = np.clip(up_to * total - (np.cumsum(found) - found), 0.0, found)
    middle = _MIDDLE * 2.0 ** (np.arange(OCTAVES) - OCTAVE_ZERO)
    return float(below @ middle / below.sum()), total


@dataclass(frozen=True, eq=False)
class Lengths:
    """The released histogram of the lengths of scores of one pass."""

    counts: Array  # (OCTAVES,)
    sd: float  # Of a count

    @functools.cached_property
    def square(self) -> float:
        """Mean squared length of all units; of none that is seen the least there is."""
        square, there = mean_square(_without_rounding(self.counts), self.sd, SCORES_UP_TO)
        total = max(float(np.sum(self.counts)), there, 1.0)
        return max(square * there / total, 2.0**-OCTAVE_ZERO)

    def overflow(self, clip: float) -> tuple[float, float]:
        """Return ``(sum (|s| - C)_+, its error)`` by a curve through the upper tail."""
        at = 2.0 * math.log2(clip) + OCTAVE_ZERO  # the bin that holds C, as a real number
        first = int(np.clip(math.floor(at) - 3, 0, OCTAVES - 4))
        last = min(first + 9, OCTAVES)
        middles = 2.0 ** ((np.arange(first, last) + 0.5 - at) / 2.0)
        counts = np.array(self.counts[first:last])
        beyond = kept(self.counts, self.sd)[last:]
        mean, error = tail_curve(counts, self.sd, np.maximum(middles - 1.0, 0.0))
        if beyond.any():  # longer still, and out of the noise
            far = 2.0 ** ((np.arange(last, OCTAVES) + 0.5 - at) / 2.0) - 1.0
            mean += float(beyond @ far)
            error = math.hypot(error, self.sd * float(np.linalg.norm(far[beyond > 0.0])))
        return mean * clip, error * clip

    def squares(self, clip: float, radius: float) -> float:
        """Return ``sum (min(|s|, C)^2 - R^2)_+``: what squares up to R miss of clipped scores."""
        square = _MIDDLE * 2.0 ** (np.arange(OCTAVES) - OCTAVE_ZERO)
        more = np.maximum(np.minimum(square, clip * clip) - radius * radius, 0.0)
        return max(float(self.counts @ more), 0.0)

    def lengthened(self, clip: float) -> float:
        """Return what softening (``sums.softened``) adds to the lengths of scores below C."""
        inside = (np.arange(_PARTS) + 0.5) / _PARTS  # of a bin, even in the logarithm
        size = 2.0 ** ((np.arange(OCTAVES)[:, None] + inside - OCTAVE_ZERO) / 2.0)
        grown = softened(size, clip)
        more = np.where(size < clip, np.minimum(grown, clip) - size, 0.0)
        return float(self.counts @ more.mean(axis=1))

    def plain(self, clip: float) -> bool:
        """Whether scores just below C would stand for more than is beyond it: they stay."""
        return self.lengthened(clip) > self.overflow(clip)[0]


def first_clip(p: int, mu_score: float, N: float, square: float) -> float:
    """Return ``C_0 = max(1.5 sqrt p, .30 (mu_s N)^.45) sqrt(m2/p)``."""
    return max(UNITS.clip * math.sqrt(p), GROWS * (mu_score * N) ** POWER) * math.sqrt(square / p)


def chosen_clip(lengths: Lengths, mu_score: float, N: float, p: int) -> float:
    """Return C: of a grid about C_0 the one of least expected half width.

    ``nu(C) = 2C/(mu_s N) sqrt(p/m2)`` is the noise of a score and ``o(C)`` the overflow over N,
    both over the root mean square of one coordinate (.45 of it where those just below C stand for
    it); half width ``se cv(max(.35 nu, o)/se)``, ``se^2 = 1/N + nu^2``. Post-processing of the
    histogram.
    """
    unit = math.sqrt(lengths.square / p)
    grid = first_clip(p, mu_score, N, lengths.square) * 2.0 ** (np.array(STEPS_OF_C) / 4.0)
    noise = 2.0 * grid / (mu_score * N) / unit
    beyond = np.array([lengths.overflow(float(c))[0] for c in grid])
    grown = np.array([lengths.lengthened(float(c)) for c in grid])
    over, part = beyond / (N * unit), np.where(grown > beyond, 1.0, one_way(p))
    se = np.sqrt(1.0 / N + noise**2)
    bias = np.maximum(NOISE_PART * noise, part * over)
    width = se * critical_value(bias / se, 0.95)
    return float(grid[int(np.argmin(width))])


def unit_pass(
    lengths: Lengths, mu: float, N: int, p: int, relation: str, trace: float, *, last: bool,
    scale: bool, tail: int, clip: float = 0.0, stops: bool = False, least: float = 0.0,
    many: bool = False,
) -> PassPlan:  # fmt: skip
    """Return a pass: radii by what was released, and the noise of its sums.

    ``mu`` is of the pass, its histogram of lengths included; N the units that it reads (public, a
    guess, or expected under coins), ``tail`` those of meat and ordinary information; ``trace`` of
    the information of a unit in the coordinates of the pass, as last released. C is ``clip`` where
    a model chooses it, else by :func:`chosen_clip`, no smaller than ``least``. ``stops``: no score
    is longer than C, so there is none for which those just below should stand; nor should they
    where they would stand for more than there is (:meth:`Lengths.plain`).
    """
    share = shares_of_units(last=last, scale=scale, many=many)

    def part(one: float) -> float:
        return mu * math.sqrt(one)

    H2 = trace * information_of_units(part(share.information) * N / p, p)
    least_meat, grows = MEAT_OF_UNITS
    J2 = lengths.square * max(least_meat, grows * math.sqrt(part(share.meat) * tail / p))
    L2 = UNITS.ordinary * trace if share.spread else 0.0
    C = clip or max(chosen_clip(lengths, part(share.score), N, p), least)
    own = sensitivity(Gram(NuclearBall(p)), relation, "l2")
    twice = sensitivity(Sum(Ball(p)), relation, "l2")
    noise = Noise(
        information=own * H2 / part(share.information),
        score=twice * C / part(share.score),
        meat=own * J2 / part(share.meat),
        spread=own * L2 / part(share.spread) if L2 else 0.0,
        scale=CUT * p * lengths.square / p / part(share.scale) if share.scale else 0.0,
        count=sensitivity(Sum(OneHot(2)), relation, "l2") / part(share.lengths),
    )
    cut = CUT * lengths.square / p  # over p, as of rows
    joint = share.information + share.meat + share.spread + share.score
    return PassPlan(
        p, last, part(joint), part(share.scale), 0.0, math.sqrt(H2), C,
        math.sqrt(J2), math.sqrt(L2), noise, relation, N, tail, weighted=True, people=True,
        policy=UNITS, plain=stops or lengths.plain(C),
        strength=mu * N, scale_cut=cut * p,
    )  # fmt: skip


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
    counts = _without_rounding(counts)
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


def ask_lengths(
    ask: Ask, local: Local, label: str, design: Design, *, people: bool, read: Read = ALL
) -> Lengths:
    """Release the histogram of the lengths of scores.

    Privacy
    -------
    GDP for one unit, its mu as planned: one bin.
    """
    over = Sums(design, LengthsJob(local, people))
    query = Query(Sum(OneHot(OCTAVES)), over, lambda found: Added(found.arrays[0].astype(object)))
    found = ask(f"score lengths {label}", query, read)
    return Lengths(found.values, float(found.sd[0]))


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


def in_order(coordinates: Coordinates) -> Coordinates:
    """Return coordinates turned so that u_i depends on the first i columns (Gram-Schmidt).

    The intercept stays by itself: where a box is far too wide or narrow, a column of its own scale
    is out, which the released scales repair; a symmetric root would mix it into all of them.
    """
    r, p = coordinates.W0.shape
    used = np.flatnonzero(coordinates.W0.any(axis=0))  # combinations of columns before are left out
    used = used if len(used) == r else np.arange(p)
    Q, R = np.linalg.qr(coordinates.W0[:, used[::-1]])
    turn = Q[:, ::-1].T
    sign = np.where(np.diag(R)[::-1] < 0.0, -1.0, 1.0)
    turn = turn * sign[:, None]
    a = coordinates.constant
    W0 = np.zeros((r, p))
    W0[:, used] = np.tril(R[::-1, ::-1], R.shape[1] - len(R)) * sign[:, None]
    return replace(
        coordinates, W0=W0,
        centre=turn @ coordinates.centre, constant=None if a is None else turn @ a,
    )  # fmt: skip
