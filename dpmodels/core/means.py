"""Sets of rows of d numbers t in [-1, 1], complete or none, times their mass u in [0, 1].

A formula returns t, and u if it is not 1. A row adds integers made of ``(u t, u)``, or 0 if one of
its numbers is missing. A person adds the mean of its rows that have a mass (``units.md``, 8 and
14), which is a point of the same kind: ``|u t| <= u <= 1``, also after rounding towards zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers, Part
from dpmodels.proof.sets import STEPS, Box, ConvexHull
from dpmodels.proof.statistics import Gram, Pair, Powers, Sum
from dpmodels.sums.ask import Added
from dpmodels.sums.products import cross_product, towards_zero

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


def half_ranges(design: Design) -> tuple[Array, Array]:
    """Return middles and half-ranges of the columns of a design, with known ranges."""
    ends = design.intervals()
    return ends.mean(axis=1), np.maximum(0.5 * (ends[:, 1] - ends[:, 0]), 1e-300)


def unit_rows(t: Array, u: Array | None = None) -> Array:
    """Return the integers (d + 1, m) of ``(u t, u)``, in steps of 2^-20."""
    z = np.empty((len(t) + 1, t.shape[1]))
    np.clip(t, -1.0, 1.0, out=z[:-1])
    z[-1] = 1.0 if u is None else np.clip(u, 0.0, 1.0)
    if u is not None:
        z[:-1] *= z[-1]
    z *= STEPS
    return towards_zero(z)


class UnitRows(Integers):
    """Base of sets of unit rows: which integers are made of them, and how they are released."""

    of_people: ClassVar[bool] = True

    def add(
        self, sums: Any, chosen: Any, t: Rows, u: Rows | None = None, starts: Any = None
    ) -> None:
        """Add the rows of a block, or the means of its people."""
        z = unit_rows(t.numbers, None if u is None else u.numbers[0])
        if starts is not None:
            used = np.add.reduceat((z[-1] > 0.0).astype(np.float64), starts)
            z = towards_zero(np.add.reduceat(z, starts, axis=1) / np.maximum(used, 1.0))
        sums.add(self.made_of(z))

    def made_of(self, z: Array) -> Array:
        """Return the sum over unit rows (d + 1, m): their products."""
        return cross_product(z)


def sums_and_count(d: int, *, people: bool = False) -> tuple[Sum, Gram]:
    """Return the statistics of d sums and a count, and of second moments.

    Two complete rows differ by at most ``2 sqrt(d)``, a complete and a zero row by
    ``sqrt(d + k^2) = 2 sqrt(d)``: the count of weight ``k = sqrt(3 d)`` is free (``mean.md``).
    """
    hull: Any = ConvexHull(Box(d)) if people else Box(d)
    return Sum(hull, count=math.sqrt(3.0 * d), products=True), Gram(hull)


class Means(UnitRows):
    """Sums of rows of mass 1 and their number, and with ``squares`` their products."""

    several: ClassVar[bool] = True

    def __init__(self, d: int, *, people: bool = False, squares: bool = True) -> None:
        self.d, self.shape, self.squares = d, (d + 1, d + 1), squares
        self.statistic, self.gram = sums_and_count(d, people=people)

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return sums and count, and second moments."""
        sums = Part(name, self.statistic, lambda G: Added(G[-1]))
        squares = Part("second moments", self.gram, lambda G: Added(G[: self.d, : self.d]))
        return (sums, squares)[: 1 + self.squares]


def weighted_sums(d: int) -> tuple[Sum, Gram]:
    """Return the statistics of the sums of ``(u t, u)``, the weight being free, and of products."""
    return Sum(ConvexHull(Box(d)), count=math.sqrt(3.0 * d)), Gram(ConvexHull(Box(d, one=True)))


class WeightedMeans(UnitRows):
    """Sums of ``(u t, u)``, and with ``squares`` their products."""

    several: ClassVar[bool] = True

    def __init__(self, d: int, *, squares: bool = True) -> None:
        self.d, self.shape, self.squares = d, (d + 2, d + 2), squares
        self.statistic, self.gram = weighted_sums(d)

    def made_of(self, z: Array) -> Array:
        """Return the products of ``(u t, u, 1)``."""
        return cross_product(np.vstack([z, np.full((1, z.shape[1]), STEPS)]))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the sums, and the products."""
        sums = Part(name, self.statistic, lambda G: Added(G[-1, :-1] // int(STEPS)))
        squares = Part("products", self.gram, lambda G: Added(G[:-1, :-1]))
        return (sums, squares)[: 1 + self.squares]


def count_and_powers(d: int, *, squares: bool) -> Powers | Sum:
    """Return the statistic of a count, sums, and sums of squares, for L1.

    Two complete rows are at most 2 d apart, squares of weight 1/2 included; a complete and a
    missing row ``k + 3 d / 2``, so a count of weight ``k = d / 2`` is free, and squares are too.
    Without squares the count has weight d (``mean.md``).
    """
    if squares:
        return Powers(d, count=d / 2.0, square=0.5)
    return Sum(Box(d), count=float(d), count_first=True)


class CountAndPowers(UnitRows):
    """The number of rows of mass 1, their sums, and with ``squares`` sums of squares."""

    def __init__(self, d: int, *, squares: bool) -> None:
        self.d, self.squares, self.shape = d, squares, (1 + d * (1 + squares),)
        self.statistic = count_and_powers(d, squares=squares)

    def made_of(self, z: Array) -> Array:
        """Return count, sums, and sums of squares (towards zero)."""
        parts = [z[-1:], z[:-1], *([towards_zero(z[:-1] ** 2 / STEPS)] if self.squares else [])]
        return np.asarray(np.concatenate(parts).sum(axis=1))


class PowersOfRows(CountAndPowers):
    """The number of rows, their sums and sums of squares, all of weight 1."""

    def __init__(self, d: int) -> None:
        super().__init__(d, squares=True)
        self.statistic = Powers(d)


class PairMoments(UnitRows):
    """The moments ``(count, sum x, sum y, sum x^2, sum xy, sum y^2)`` of complete pairs."""

    shape, statistic = (3, 3), Pair()

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the six moments."""
        rows, columns = [2, 0, 1, 0, 0, 1], [2, 2, 2, 0, 1, 1]
        return (Part(name, self.statistic, lambda G: Added(G[rows, columns])),)
