"""Sets of units, each a row or a person with several rows, and the view of a unit in a formula.

A formula of a unit is written as for the rows of one person. It gets these rows, and
:class:`~dpmodels.core.own.OwnRows`, which sums, compares and orders them within the person. It
returns :class:`Scores`. A set scales the sum of a person's scores and the trace of its information
into balls, and adds them in exact integers (``scoring/theory.md``, 8). A plain row is a person with
one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows, own_sum
from dpmodels.core.parallel import (
    EXPONENT_BIAS,
    MANTISSA_BITS,
    Parallel,
    scaled,
)
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers, Part
from dpmodels.opaque import place_in
from dpmodels.proof.sets import STEPS, Ball, OneHot, PairMeans, Simplex
from dpmodels.proof.statistics import Gram, Stack, Sum
from dpmodels.sources.rows import BlockOfPeople
from dpmodels.sources.summed import Integers as Sums
from dpmodels.sums.ask import Added
from dpmodels.sums.products import (
    ExactSum,
    cross_product,
    end_along,
    end_of_numbers,
    filled,
    integers_of,
    mapped,
    nearest,
    squares,
    towards_zero,
)
from dpmodels.sums.rowmap import factors, missing, product

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

#: Scores of the rows of a person are rounded to multiples of this before they are summed as
#: integers.
GRAIN = 2.0**-34
#: Squared lengths from which on a person's score is left out, in grains.
MOST_GRAINS = 1e140
#: Number of bins of squares, one per octave (half an octave of the length).
OCTAVES = 96
#: Bin i of octaves holds [2^(i - OCTAVE_ZERO), twice that).
OCTAVE_ZERO = 64


@dataclass(frozen=True, eq=False)
class Scores:
    """Result of a formula for the rows of whole units."""

    score: Rows  # (r, m): rows whose sum over a unit is its score
    # Makes the rows v (r, m), one or more for each row: ``sum v v'`` over a unit is its
    # information. When asked for: the histogram of lengths does without.
    information: Callable[[], tuple[Rows, ...]]
    # (1, m): part of its unit that each row is, where units count alike; None: rows do.
    shares: Rows | None = None

    def __repr__(self) -> str:
        return "<scores of units, confidential>"


#: From the rows of units to their scores.
UnitFormula = Callable[[Rows, OwnRows], Scores]


def summed_scores(score: Array, counts: Index) -> tuple[Array, Array, Array]:
    """Return (scores of units in steps of ``GRAIN``, their lengths, lengths of their rows').

    Integers; 0 where one is not finite. Sums below 2^53 steps are exact in any order, longer ones
    round in the unit's own order.
    """
    rows = nearest(score * (1.0 / GRAIN))
    scores = own_sum(rows, counts)
    size = np.sqrt(squares(scores))
    gone = ~(size < MOST_GRAINS)
    if gone.any():
        scores = np.where(gone, 0.0, scores)
        size = np.where(gone, 0.0, size)
    return scores, size, np.sqrt(squares(rows))


def scores_in_ball(scores: Array, size: Array, radius: float) -> npt.NDArray[np.int64]:
    """Return the sum of scores (in grains), none longer than a radius in exact integers."""
    clip = radius / GRAIN
    return integers_of(end_along(scores, size, clip, size).sum(axis=1))


def octaves(square: Array) -> npt.NDArray[np.int64]:
    """Count positive finite numbers by octaves, the end bins open; others are in none."""
    positive = square[(square > 0.0) & np.isfinite(square)]
    octave = (positive.view(np.int64) >> MANTISSA_BITS) - (EXPONENT_BIAS - OCTAVE_ZERO)
    return np.bincount(np.clip(octave, 0, OCTAVES - 1), minlength=OCTAVES)


class OfUnits(Integers):
    """Base of sets of units whose sums are one array of integers."""

    of_units: ClassVar[bool] = True


class Lengths(OfUnits):
    """Length of the score of a unit, in one of the bins of octaves or in none."""

    shape, statistic = (OCTAVES,), Sum(OneHot(OCTAVES))

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: Scores) -> None:
        """Count the lengths."""
        size = summed_scores(result.score.numbers, person.counts)[1] * GRAIN
        sums.add(octaves(size * size))


class Squares(OfUnits):
    """Sum of squares of each of r numbers over the rows v of a unit: r bins, one or none each."""

    def __init__(self, r: int) -> None:
        self.shape = r, OCTAVES
        self.statistic = Stack((Sum(OneHot(OCTAVES)),) * r, (1.0,) * r)

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: Scores) -> None:
        """Count the sums of squares."""
        v, counts = rows_of(result, person)
        sums.add(np.array([octaves(x) for x in own_sum(v[: self.shape[0]] ** 2, counts)]))


class ScoresInBall(OfUnits):
    """Score of a unit (d numbers), in the ball of a radius."""

    def __init__(self, d: int, radius: float) -> None:
        self.shape, self.unit, self.statistic = (d,), radius, Sum(Ball(d))

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: Scores) -> None:
        """Add the scores of units, none longer than the radius in exact integers."""
        scores, size, _ = summed_scores(result.score.numbers, person.counts)
        sums.add(scores_in_ball(scores, size, self.unit))


class PairAverages(OfUnits):
    """Averages of a unit's residuals e: products of pairs, 1 and squares, three numbers.

    They are 0 where fewer than two rows are there. The mean product of the pairs of T numbers is
    ``((sum e)^2 - sum e^2) / (T (T - 1))``. A formula returns e in [-1, 1], and which rows are
    there (1 or 0).
    """

    shape, statistic = (3,), Sum(PairMeans())

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: tuple[Rows, Rows]) -> None:
        """Add the averages of units."""
        sums.add(self.averages(person, result).sum(axis=1).astype(np.int64))

    def averages(self, person: OwnRows, result: tuple[Rows, Rows]) -> Array:
        """Return the averages of units, (3, k): integers of 2^-20."""
        residual, present = (x.numbers[0] for x in result)
        e, counts = end_of_numbers(residual) / STEPS, person.counts
        T, total, square = (own_sum(x, counts) for x in (present, e, e * e))
        several = T > 1.5
        many = np.where(several, T, 2.0)
        pairs = (total * total - square) / (many * (many - 1.0))
        return pair_means(pairs, several, square / many)


def pair_means(x: Array, several: Mask, q: Array) -> Array:
    """Return elements of ``PairMeans``, (3, people), whatever x and q are.

    A mean product of pairs passes the mean square in the last bits of floats at most; it is cut to
    it, so that the claim does not depend on these.
    """
    q = end_of_numbers(q, low=0.0) * several
    x = end_of_numbers(x) * several
    return np.array([np.clip(x, -q, q), STEPS * several, q])


class Masses(OfUnits):
    """Mass of a unit over ``size`` bins: the mean mass u in [0, 1] of its rows that have one.

    A formula returns the bin of a row and u. Masses of rows are rounded down: a unit has at most 1.
    """

    def __init__(self, size: int) -> None:
        self.shape, self.statistic = (size,), Sum(Simplex(size, complete=False))

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: tuple[Rows, Rows]) -> None:
        """Add the masses of units."""
        (size,), u = self.shape, np.clip(result[1].numbers[0], 0.0, 1.0)
        many = np.maximum(own_sum((u > 0.0).astype(float), person.counts), 1.0)
        mass = end_of_numbers(u / np.repeat(many, person.counts), low=0.0)
        place = place_in(np.empty(size), result[0])[0]
        sums.add(np.bincount(place, weights=mass, minlength=size))


def means_of_units(person: OwnRows, result: tuple[Rows, Rows]) -> Array:
    """Return the mean (d, k) over each unit's present rows; numbers are 0 in the others."""
    x, present = (np.asarray(part.numbers, dtype=float) for part in result)
    return np.asarray(own_sum(x, person.counts) / np.maximum(own_sum(present, person.counts), 1.0))


class MeansInBalls(OfUnits):
    """Mean of a unit over its present rows, cut into parts: each in the ball of its radius.

    A formula returns the numbers of a row, and whether it is present. ``balls``: name of the step,
    size, radius, and the unit of numbers in a release. ``products``: a part is ``z z'``, not z.
    """

    several: ClassVar[bool] = True

    def __init__(self, *balls: tuple[str, int, float, float], products: bool = False) -> None:
        self.balls, self.products = balls, products

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        return [ExactSum(*(size,) * (1 + self.products)) for _, size, _, _ in self.balls]

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: tuple[Rows, Rows]) -> None:
        """Add the parts of units."""
        z, at = means_of_units(person, result), 0
        for total, (_, size, radius, _) in zip(sums, self.balls, strict=True):
            part = z[at : at + size]
            steps = end_along(part, np.sqrt(squares(part)), radius)
            total.add(cross_product(steps) if self.products else steps.sum(axis=1))
            at += size

    def exact(self, sums: Any) -> Sums:
        """Return the exact sums of the parts."""
        return Sums(tuple(total.integers() for total in sums))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the noisy parts."""
        kind, power = (Gram if self.products else Sum), 1 + self.products
        out = []
        for k, (step, size, radius, unit) in enumerate(self.balls):
            take: Any = lambda sums, k=k: Added(sums.arrays[k])  # noqa: E731 - one line of many
            out.append(Part(step, kind(Ball(size)), take, (radius * unit) ** power))
        return tuple(out)


class LengthsOfMeans(OfUnits):
    """Size of each number of a unit's mean over its present rows: one bin each, or none."""

    several: ClassVar[bool] = True

    def __init__(self, *names: str) -> None:
        self.names, self.shape = names, (len(names), OCTAVES)

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: tuple[Rows, Rows]) -> None:
        """Count the squares of the numbers."""
        sums.add(np.array([octaves(x * x) for x in means_of_units(person, result)]))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return a histogram for each number."""
        takes: Any = [lambda sums, k=k: Added(sums[k]) for k in range(len(self.names))]
        of = Sum(OneHot(OCTAVES))
        return tuple(Part(step, of, take) for step, take in zip(self.names, takes, strict=True))


def rows_of(result: Scores, person: OwnRows) -> tuple[Array, Index]:
    """Return the rows v (r, l) of the information, and how many of them each unit has."""
    parts = [part.numbers for part in result.information()]
    if len(parts) == 1:
        return parts[0], person.counts
    return np.stack(parts, axis=2).reshape(len(parts[0]), -1), person.counts * len(parts)


@dataclass(frozen=True, eq=False)
class UnitPass(Parallel):
    """The sums of a scoring pass over units: scores in the ball of C, information of bounded trace.

    Parts, statistic and noise are those of :class:`~dpmodels.core.parallel.Parallel`.
    """

    plan: Any  # :class:`dpmodels.scoring.pass_plan.PassPlan`
    r: int
    # (r, r): rows v are looked at in coordinates of their own, ``turn v``: those in which the
    # information is round. Each part is clipped separately, so any coordinates may be used.
    turn: Array | None = None
    cells: ClassVar[str] = ""
    of_units: ClassVar[bool] = True

    def add(self, sums: Any, chosen: Any, person: OwnRows, result: Scores) -> None:  # type: ignore[override]
        """Add units; ``chosen`` are those of the meat."""
        plan = self.plan
        scores, size, of_rows = summed_scores(result.score.numbers, person.counts)
        scores = _filled(scores, self.r)
        sums.score[0] += scores_in_ball(scores, size, plan.clip).astype(object)
        if plan.mu_scale:
            square = (of_rows * GRAIN) ** 2 / plan.scale_cut
            if result.shares is not None:  # a row's squared score, by its share
                square = square / result.shares.numbers[0]
            part = own_sum(end_of_numbers(square, low=0.0), person.counts)
            sums.scale += int(np.minimum(part, STEPS).sum())
        if plan.meat:
            sums.matrices["meat"].add(scaled(scores[:, chosen], size[chosen], plan.meat / GRAIN))
        v, counts = rows_of(result, person)
        v = _filled(np.array(v) if self.turn is None else mapped(self.turn, v), self.r)
        length = missing(v)
        block = BlockOfPeople(v, np.cumsum(counts) - counts, counts)
        v *= factors(length, block, plan.information)[0]
        product(towards_zero(v), sums.matrices["information"])


def _filled(rows: Array, r: int) -> Array:
    """Return rows with rows of zeros below, up to a height whose products are fast."""
    k = filled(r)
    if len(rows) == k:
        return rows
    out = np.zeros((k, rows.shape[1]))
    out[:r] = rows[:r]
    return out
