"""Passes over the rows of a query: who adds up, and how its exact sums are laid out.

A pass knows its design and its job, and is read once however many queries are asked of it. Which
route adds up (dense, counted, by cell, by person) is a public function of design and job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.gram import gram_over
from dpmodels.exact.people import PeopleGramOf
from dpmodels.exact.prove import (
    INTERCEPT_WEIGHTS,
    count_weight,
    intercept_sensitivity,
    noise_of,
    separate_weights,
)
from dpmodels.exact.rowmap import OneFirst, RowMap, UnitScale, WithOne
from dpmodels.exact.sets import Ball, Box, Hull, Trace
from dpmodels.exact.statistics import Gram, Split
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.sources.summed import counted, summed

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


@dataclass(frozen=True, eq=False)
class Moments:
    """``sum z z'`` of mapped rows: a :class:`~dpmodels.exact.words.Gram`.

    Attributes
    ----------
    design : Design
    rowmap : LatticeMap
    people : bool
        Of people: rows into a ball of trace, or with ``average`` their means.
    average : bool
    through : function or None
        Of the rows: rows seen through a public map of their own.
    """

    design: Design
    rowmap: Any
    people: bool = False
    average: bool = False
    through: Callable[[Any], Any] | None = None

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return the Gram matrix. Confidential."""
        rows = rows if self.through is None else self.through(rows)
        if self.people:
            job = PeopleGramOf(self.rowmap, average=self.average)
            return summed(rows, self.design, job, **reading)
        return gram_over(rows, self.design, self.rowmap, **reading)

    @property
    def set(self) -> Ball | Box | Trace | Hull:
        """What one unit lays down: read off the map."""
        return set_of(self.rowmap, people=self.people, average=self.average)


def set_of(rowmap: Any, *, people: bool = False, average: bool = False) -> Any:
    """Return the clip set of a row map: that into which its :mod:`~dpmodels.exact.end` cuts."""
    own = getattr(rowmap, "clip_set", None)  # of maps that are no row map, and cut by `end` too
    if own is not None and not people:
        return own
    inner = rowmap.rowmap if isinstance(rowmap, (OneFirst, WithOne)) else rowmap
    if not isinstance(inner, RowMap):
        raise PrivacyBugError(f"no clip set is known of {type(rowmap).__name__}")
    k = len(inner.box)
    if inner.ball == k and not isinstance(rowmap, WithOne):
        if average:
            raise PrivacyBugError("means of people are of boxes")
        return Trace(k) if people else Ball(k)
    if inner.ball or (people and not average):
        raise PrivacyBugError("a map into a ball and a box has no set of its own: say the parts")
    one = isinstance(rowmap, WithOne) or average
    return Hull(Box(k, one=one)) if people else Box(k, one=one)


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of one job over a design: whatever it adds up."""

    design: Design
    job: Any

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return them. Confidential."""
        return summed(rows, self.design, self.job, **reading)


@dataclass(frozen=True, eq=False)
class Counts:
    """Arrays of integers that a function of blocks returns: ``sources.summed.counted``."""

    design: Design
    count: Callable[[Iterable[Array]], tuple[npt.NDArray[Any], ...]]

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[npt.NDArray[Any], ...]:
        """Return them. Confidential."""
        return counted(rows, self.design, self.count)


@dataclass(frozen=True)
class Kept:
    """Sums that were made before, handed over in place of rows: of audits and tests."""

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return what stands in place of the rows."""
        return rows


def first_array(found: tuple[Any, ...]) -> Added:
    """Return the first array of a count."""
    return Added(found[0])


def whole_matrix(found: Any) -> Added:
    """Return the integers of a Gram matrix."""
    return Added(found.integers())


def moments_query(over: Moments, *, radius: float = 1.0) -> Query:
    """Return the query of all moments of a map into one set; ``radius``: what a radius is worth."""
    return Query(Gram(over.set), over, whole_matrix, unit=radius * radius)


# -- Second moments as queries: rows scaled into a ball, or with separate bounds on x and y


Mechanism = Gaussian | Pure


def ball_map(unit: UnitScale, radius: float, matrix: Array | None) -> RowMap:
    """Return the row map ``z = min(1, R/|w|) w``, ``w = matrix (scale z + shift)``."""
    q = len(unit.scale)
    return RowMap(unit, np.full(q, radius), ball=q, radius=radius, matrix=matrix)


def ball_sd(mechanism: Mechanism, radius: float, q: int, relation: str) -> float:
    """Return s: the noise scale of ``sum z z'`` in svec coordinates.

    Laplace (pure eps): ``s = 2 b_L``, the scale with the same variance off the diagonal.
    """
    sd = float(noise_of(Gram(Ball(q)), mechanism, relation)[0]) * radius**2
    return 2.0 * sd if isinstance(mechanism, Pure) else sd


def split_query(p: int, square: float, *, known: bool, relation: str, r2: float) -> Split:
    """Choose the weights of the moments of rows with separate bounds on x and y.

    Parameters
    ----------
    p : int
        Coefficients, intercept included.
    square : float
        Bound on the squared norm of the slopes in unit rows.
    known : bool
        The first column is an intercept that every complete row has: sums and count are cells.
    relation : {"replace", "add-remove"}
    r2 : float
        Public guess of the R-squared.
    """
    rx, ry = math.sqrt(square), 1.0
    if known:
        a, b, c, e, f = INTERCEPT_WEIGHTS
        if relation == "replace":
            # the largest at which the count of complete rows joins for free
            k = count_weight(intercept_sensitivity(a, b, c, e, f), a, b, c, e, f)
        else:
            k = math.sqrt(5.0)
        return Split(p, True, (a, b, c, e, f, k), rx, ry)
    ratio = (p + 1.0) / (2.0 * p) * r2 * rx**2 / ry**2
    a, b, c, _ = separate_weights(ratio)
    return Split(p, False, (a, b, c, 0.0, 0.0, 0.0), rx, ry)
