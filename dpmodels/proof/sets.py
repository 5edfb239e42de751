"""Clip sets: the contributions that one unit (a row or a person) may add to a sum, in integers.

A set contains no data. Lattice steps: 2^20 a radius (``STEPS``). The prover
(:mod:`dpmodels.proof.prove`) reads the fields of a set, and nothing else of it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError

#: Lattice steps per bound: |k| <= 2^20, so products are at most 2^40 and 2^13 of them are exact.
STEPS = 2.0**20
Integers = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Ball:
    """Vectors of ``dim`` integers, ``|k| <= 2^20 radius``."""

    dim: int
    radius: float = 1.0


@dataclass(frozen=True)
class Box:
    """Vectors with ``low <= k_j / 2^20 <= 1``.

    ``one``: a constant 2^20 follows; the row that is missing is 0 throughout, the constant too.
    ``radius``: ends of a box without it, in place of 1.
    """

    dim: int
    one: bool = False
    low: int = -1
    radius: float = 1.0

    def __post_init__(self) -> None:
        if self.low not in (-1, 0) or self.dim < 1 or not 0.0 < self.radius < math.inf:
            raise PrivacyBugError("a box is [-1, 1]^d or [0, 1]^d, times a radius")


@dataclass(frozen=True)
class Interval:
    """One integer between two public ends, 0 among them: a missing unit is in every set."""

    low: int
    high: int
    dim: int = 1

    def __post_init__(self) -> None:
        if not self.low <= 0 <= self.high:
            raise PrivacyBugError("the interval of a unit's number does not hold 0")


@dataclass(frozen=True)
class Simplex:
    """Integers >= 0 in ``cells`` cells that add up to 2^20; not ``complete``: to that at most."""

    cells: int
    complete: bool = True

    dim = property(attrgetter("cells"))  # Number of cells


@dataclass(frozen=True)
class Blocks:
    """Numbers in [0, 1]; those of a block are not negative and add up to 1 at most.

    Squares of columns in half-ranges: at most one dummy of a factor is 1.
    """

    dim: int
    blocks: tuple[tuple[int, ...], ...] = ()

    @property
    def single(self) -> int:
        """Coordinates in no block."""
        return self.dim - sum(map(len, self.blocks))


@dataclass(frozen=True)
class OneHot:
    """One of ``cells`` cells, or none: a vector of 0 but for one 1."""

    cells: int

    dim = property(attrgetter("cells"))  # Number of cells


@dataclass(frozen=True)
class Orthant:
    """Integers >= 0 whose squares add up to ``2^40 square`` at most: counts of one unit."""

    dim: int
    square: int = 1

    def __post_init__(self) -> None:
        if self.dim < 1 or type(self.square) is not int or self.square < 1:
            raise PrivacyBugError("an orthant has a dimension and a whole squared radius")


@dataclass(frozen=True)
class PairMeans:
    """Means of one person's residuals in [-1, 1]: (product of pairs, 1 if any, square).

    ``present`` is 2^20 where the person has two rows or more, else all three are 0. A mean of
    products of pairs is no farther from 0 than the mean square: ``|x| <= q <= 2^20``.
    """

    @property
    def dim(self) -> int:
        """Three."""
        return 3


@dataclass(frozen=True)
class NuclearBall:
    """Integer rows of one person, any number of them: all squares together at most 2^40."""

    dim: int
    radius: float = 1.0


@dataclass(frozen=True)
class ConvexHull:
    """The mean of a person's rows, rounded inside the convex hull of ``of``."""

    of: Ball | Box | OneHot | Simplex

    dim = property(attrgetter("of.dim"))  # Dimension of the set that it is the hull of


# -- Symmetric matrices in svec coordinates.
#
# ``svec(M) = (diagonal, sqrt(2) * strict upper triangle)`` is an isometry: its L2 norm is the
# Frobenius norm. Independent noise of one sd in svec coordinates is noise of sd ``s`` on the
# diagonal and of *variance* ``s^2 / 2`` off it, drawn once per pair i < j.


Places: TypeAlias = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


@functools.lru_cache(maxsize=32)
def diagonal_first(k: int) -> Places:
    """Return rows and columns of the diagonal of a (k, k) matrix, then of the entries i < j.

    Remembered, so not to be written to.
    """
    i, j = (np.concatenate([np.arange(k), part]) for part in np.triu_indices(k, 1))
    i.flags.writeable = j.flags.writeable = False
    return i, j


def symmetric(k: int, entries: npt.NDArray[Any], places: Places) -> npt.NDArray[Any]:
    """Return the symmetric (k, k) matrix with these entries at these indices."""
    out = np.empty((k, k), dtype=entries.dtype)
    out[places] = entries
    out.T[places] = entries
    return out


def svec(M: Array) -> Array:
    """Return (diagonal, sqrt(2) strict upper triangle): an isometry of the Frobenius norm."""
    out: Array = M[diagonal_first(len(M))]
    out[len(M) :] *= math.sqrt(2.0)
    return out


def unsvec(v: Array, p: int) -> Array:
    """Return the symmetric matrix of :func:`svec`."""
    return symmetric(p, np.append(v[:p], v[p:] / math.sqrt(2.0)), diagonal_first(p))


# -- Bounds of least squares near a well-conditioned design (``models/linear/eptr.md``)


def ls_bound(rx: float, ry: float, rho: float) -> float:
    """Return B(rho) = max_t [2 R_x R_y cos t + R_x^2 rho sin 2t].

    If one row is replaced, rows bounded by ``|x| <= R_x``, ``|y| <= R_y``, then
    ``|theta' - theta| <= B(|theta|) / lambda_min'``.

    ``rho`` bounds the norm of the coefficient vector; 0 gives ``2 R_x R_y``.
    """
    if rho == 0:
        return 2.0 * rx * ry
    k = ry / (rx * rho)
    # (-k + sqrt(k^2 + 8)) / 4, in the form that does not cancel for large k.
    s = 2.0 / (k + math.sqrt(k * k + 8.0))
    c = math.sqrt(1.0 - s * s)
    return rx * rx * rho * (2.0 * k * c + 2.0 * s * c)


def float_allowance(p: int, n: int) -> float:
    """Return the relative allowance for float eigenvalues and solves, and for rounding to a grid.

    2^-20 allows for the public grid of the release; 32 p^2 n 2^-53 covers backward errors of the
    eigenvalue routine and of the solve (the constant 32 is a conjecture, about ten times what a
    search over random and graded matrices showed).
    """
    return 2.0**-20 + 32.0 * p * p * n * 2.0**-53
