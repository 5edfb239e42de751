"""Before the first pass: where numbers lie, and how large each column of the information is.

A declared range says where values may lie, not where they do. Histograms of each number over its
range give a centre and a spread, those of each column's own sum of squares a scale: declared
boxes do not set the noise (``expand_theory.md``, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import ALL, Added, Query, Read
from dpmodels.exact.passes import Sums
from dpmodels.exact.sets import Hull, Mark
from dpmodels.exact.statistics import Stack, Sum
from dpmodels.scoring.coordinates import Coordinates, narrowed
from dpmodels.scoring.expand_pass import (
    CELLS,
    OCTAVE_ZERO,
    OCTAVES,
    LengthsJob,
    PlacesJob,
    ScalesJob,
)
from dpmodels.scoring.expand_rules import SCALE_UP_TO, Lengths, kept, mean_square
from dpmodels.scoring.scales import numbers_of, shares_of_tree

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.scoring.expand import Local

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
    """A number that is asked about.

    Attributes
    ----------
    name : str
    place : int
        Row of the block.
    low, high : float
        Its range.
    kind : {"even", "log", "whole"}
        Cells even on the range, even in ``log(1 + y - low)``, or one a whole number.
    """

    name: str
    place: int
    low: float
    high: float
    kind: str = "even"

    def bounds(self) -> Array:
        """Return the ends of the cells, (CELLS + 1,)."""
        if self.kind == "whole":
            return np.asarray(self.low - 0.5 + np.arange(CELLS + 1.0), dtype=float)
        if self.kind == "log":
            top = math.log1p(self.high - self.low)
            return np.asarray(self.low + np.expm1(np.linspace(0.0, top, CELLS + 1)), dtype=float)
        return np.linspace(self.low, self.high, CELLS + 1, dtype=float)

    @property
    def cells(self) -> int:
        """Cells that can hold a value: all, or one a whole number."""
        return CELLS if self.kind != "whole" else min(round(self.high - self.low) + 1, CELLS)

    def shares(self, counts: Array, sd: float, n: float) -> Array:
        """Return the shares of all cells, of noisy counts (CELLS,) of n units.

        Cells that stand out of the noise, where these hold most units (a number of few values, or
        one whose range is far too wide), the others even over the range: what is not seen may be
        anywhere. Else by a tree.
        """
        clear = kept(counts, sd)
        clear[self.cells :] = 0.0
        if float(clear.sum()) > MOST * n:
            rest = max(1.0 - float(clear.sum()) / n, 0.0)
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
    """The released distribution of a number over its cells: shares that are positive.

    Attributes
    ----------
    number : Number
    shares : (CELLS,) array
    noise : float
        Sd of the noise of a share.
    """

    number: Number
    shares: Array
    noise: float = 0.0

    @property
    def mean(self) -> float:
        """Of the values of the cells."""
        return float(self.shares @ self.number.middles())

    @property
    def sd(self) -> float:
        """Of the distribution between its outer tenths, as of a normal one; never zero."""
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

    Parameters
    ----------
    response : {"even", "log", "whole", ""}
        Cells of the response; empty: it is not asked about.
    """
    out = []
    names, places = numbers_of(design, predictors=True)
    for name, place in zip(names[:-1], places[:-1], strict=True):
        interval = design.z[place].interval
        if interval is not None and interval[1] > interval[0]:
            out.append(Number(name, place, *interval))
    last = design.z[design.q - 1]
    if response and last.interval is not None and last.interval[1] > last.interval[0]:
        low, high = last.interval
        if response == "whole" and high - low > CELLS - 1:
            response = "log"
        out.append(Number(last.name, design.q - 1, low, high, response))
    return tuple(out)


def places_of(many: int, *, people: bool) -> Stack:
    """Return the histograms of so many numbers: a unit's shares of each, or its one cell."""
    one: Any = Mark(CELLS)
    each = Sum(Hull(one)) if people else Sum(one)
    return Stack((each,) * many, (1.0,) * many)


def ask_places(
    ask: Ask, asked: tuple[Number, ...], design: Design, n: float, *, people: bool,
    read: Read = ALL,
) -> tuple[Spread, ...]:  # fmt: skip
    """Release the distributions of numbers.

    Privacy
    -------
    GDP for one unit, its mu as planned: its shares of the cells of each number.
    """
    statistic = places_of(len(asked), people=people)
    edges = tuple(one.bounds()[1:-1] for one in asked)
    job = PlacesJob(tuple(one.place for one in asked), edges, people)
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
    read: Read = ALL,
) -> Array:  # fmt: skip
    """Release the mean of each column's own sum of squares, (r,).

    Privacy
    -------
    GDP for one unit, its mu as planned: one bin of each of r histograms.
    """
    statistic = Stack((Sum(Mark(OCTAVES)),) * r, (1.0,) * r)
    over = Sums(design, ScalesJob(local, people, r))
    query = Query(statistic, over, lambda found: Added([a.astype(object) for a in found.arrays[0]]))
    noisy = ask(step, query, read)
    return scales_of(noisy.values, float(noisy.sd[0, 0]), n)


def scales_of(counts: Array, sd: float, n: float) -> Array:
    """Return the mean over n units of numbers whose histograms are given, (r,): never zero.

    What of a column is ``SMALL`` octaves below the largest is not its own: coordinates are
    orthogonal but for what the box does not know, and a column that varies in few units only would
    be known by what others leave in it, blown up. A column that is not seen beside others is taken
    for one of all units: too quiet costs a pass; if it were too loud, the balls of the information
    would cut the few units that it varies in, and steps would go past the root.

    Parameters
    ----------
    counts : (r, OCTAVES) array
        Noisy.
    """
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
    # nothing but noise: what the box lets expect of u
    return np.where(out > 0.0, out, float(np.median(squares)) if squares else 1.0)


def ask_lengths(
    ask: Ask, local: Local, label: str, design: Design, *, people: bool, read: Read = ALL
) -> Lengths:
    """Release the histogram of the lengths of scores.

    Privacy
    -------
    GDP for one unit, its mu as planned: one bin.
    """
    over = Sums(design, LengthsJob(local, people))
    query = Query(Sum(Mark(OCTAVES)), over, lambda found: Added(found.arrays[0].astype(object)))
    found = ask(f"score lengths {label}", query, read)
    return Lengths(found.values, float(found.sd[0]))


def located(
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
    Q, R = np.linalg.qr(coordinates.W0[:, ::-1])
    turn = Q[:, ::-1].T
    sign = np.where(np.diag(R)[::-1] < 0.0, -1.0, 1.0)
    turn = turn * sign[:, None]
    a = coordinates.constant
    return replace(
        coordinates, W0=np.tril(R[::-1, ::-1], R.shape[1] - len(R)) * sign[:, None],
        centre=turn @ coordinates.centre, constant=None if a is None else turn @ a,
    )  # fmt: skip
