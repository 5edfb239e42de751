"""Clip sets: the contributions that one unit (a row or a person) may add to a sum, in integers.

A set contains no data. Lattice steps: 2^20 a radius (``STEPS``). ``holds`` decides in exact
integers and ``corners`` draws elements at which the largest distances are reached: both are for
audits and tests, the prover (:mod:`dpmodels.proof.prove`) reads the fields only.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError

#: Lattice steps per bound: |k| <= 2^20, so products are at most 2^40 and 2^13 of them are exact.
STEPS = 2.0**20
Integers = npt.NDArray[np.object_]
Rng = np.random.Generator
_ONE = int(STEPS)


def _ints(values: Any) -> Integers:
    out = np.empty(np.shape(values), dtype=object)
    out[...] = np.vectorize(int, otypes=[object])(values) if out.size else values
    return out


@dataclass(frozen=True)
class Ball:
    """Vectors of ``dim`` integers, ``|k| <= 2^20 radius``."""

    dim: int
    radius: float = 1.0

    def holds(self, k: Integers) -> bool:
        """Whether an integer vector is an element."""
        return sum(int(v) ** 2 for v in k) <= (self.radius * STEPS) ** 2

    def corners(self, rng: Rng, many: int = 8) -> list[Integers]:
        """Return elements: opposite, orthogonal, at 60 degrees, even, and none at all."""
        d, steps = self.dim, int(self.radius * STEPS)
        out = [np.zeros(d), np.eye(d)[0] * steps, -np.eye(d)[0] * steps, np.eye(d)[-1] * steps]
        even = np.full(d, 1.0) / np.sqrt(d)
        out += [np.trunc(even * steps * (1 - 1e-9)), -np.trunc(even * steps * (1 - 1e-9))]
        for _ in range(many if d > 1 else 0):
            z = rng.standard_normal(d)
            other = rng.standard_normal(d)
            z, other = z / np.linalg.norm(z), other / np.linalg.norm(other)
            middle = z + other
            for v in (z, other, middle / np.linalg.norm(middle)):
                out.append(np.trunc(v * steps * (1 - 1e-9)))
        return [_ints(v) for v in out]


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

    def holds(self, k: Integers) -> bool:
        """Whether an integer vector is an element."""
        if self.one:
            if int(k[-1]) == 0:
                return not any(int(v) for v in k)
            if int(k[-1]) != _ONE:
                return False
            k = k[:-1]
        top = int(self.radius * _ONE)
        return all(self.low * top <= int(v) <= top for v in k)

    def corners(self, rng: Rng, many: int = 8) -> list[Integers]:
        """Return elements: 0, corners of the box, those that share half of their signs."""
        d = self.dim
        signs = [np.ones(d), np.full(d, float(self.low)), np.zeros(d)]
        half = np.where(np.arange(d) < (d + 1) // 2, 1.0, float(self.low))
        signs += [half, np.where(half == 1.0, float(self.low), 1.0)]
        signs += [np.where(np.arange(d) < d // 2, 1.0, float(self.low))]
        signs += [np.where(rng.integers(2, size=d) == 0, 1.0, float(self.low)) for _ in range(many)]
        signs += [np.eye(d)[0], np.eye(d)[0] * self.low]
        rows = [np.append(s, 1.0) if self.one else s for s in signs]
        if self.one:
            rows.append(np.zeros(d + 1))
        return [_ints(np.trunc(r * self.radius * _ONE)) for r in rows]


@dataclass(frozen=True)
class Product:
    """Pairs (x, y) with separate bounds; with ``x.one`` a missing pair is 0 in both."""

    x: Ball | Box
    y: Box

    @property
    def dim(self) -> int:
        """Length of x without its constant, and of y."""
        return self.x.dim + self.y.dim

    def holds(self, k: Integers) -> bool:
        """Whether (x, y) is an element."""
        at = len(k) - self.y.dim
        return self.x.holds(k[:at]) and self.y.holds(k[at:])

    def corners(self, rng: Rng, many: int = 4) -> list[Integers]:
        """Return the pairs of both sides' corners, and the missing one."""
        xs, ys = self.x.corners(rng, many), self.y.corners(rng, 0)
        pairs = [np.concatenate([x, y]) for x in xs for y in ys[:3]]
        return [*pairs, _ints(np.zeros(len(pairs[0])))]


@dataclass(frozen=True)
class Interval:
    """One integer between two public ends, 0 among them: a missing unit is in every set."""

    low: int
    high: int
    dim: int = 1

    def __post_init__(self) -> None:
        if not self.low <= 0 <= self.high:
            raise PrivacyBugError("the interval of a unit's number does not hold 0")

    def holds(self, k: Integers) -> bool:
        """Whether a number is an element."""
        return len(k) == 1 and self.low <= int(k[0]) <= self.high

    def corners(self, rng: Rng, many: int = 0) -> list[Integers]:
        """Return both ends, and 0 where it lies between."""
        ends = [self.low, self.high, *([0] if self.low <= 0 <= self.high else [])]
        return [_ints(np.array([v], dtype=object)) for v in ends]


@dataclass(frozen=True)
class Simplex:
    """Integers >= 0 in ``cells`` cells that add up to 2^20; not ``complete``: to that at most."""

    cells: int
    complete: bool = True

    @property
    def dim(self) -> int:
        """Number of cells."""
        return self.cells

    def holds(self, k: Integers) -> bool:
        """Whether a vector of masses is an element."""
        total = sum(int(v) for v in k)
        sums_to_one = total == _ONE if self.complete else total <= _ONE
        return sums_to_one and all(int(v) >= 0 for v in k)

    def corners(self, rng: Rng, many: int = 4) -> list[Integers]:
        """Return whole masses in single cells, one that is divided, and none if there may be."""
        eye = [np.eye(self.cells)[j] * _ONE for j in {0, self.cells - 1, self.cells // 2}]
        divided = np.zeros(self.cells)
        divided[: min(2, self.cells)] = _ONE / min(2, self.cells)
        out = [*eye, divided]
        return [_ints(v) for v in out + ([] if self.complete else [np.zeros(self.cells)])]


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

    def holds(self, k: Integers) -> bool:
        """Whether an integer vector is an element."""
        inside = all(0 <= int(v) <= _ONE for v in k)
        return inside and all(sum(int(k[j]) for j in block) <= _ONE for block in self.blocks)

    def corners(self, rng: Rng, many: int = 0) -> list[Integers]:
        """Return all ones with the first of every block, or the last; zero; zero with the last."""
        out = []
        for at, numbers in ((0, 1.0), (-1, 1.0), (-1, 0.0)):
            row = np.full(self.dim, numbers)
            for block in self.blocks:
                row[list(block)] = 0.0
                row[block[at]] = 1.0
            out.append(row)
        return [_ints(row * _ONE) for row in [*out, np.zeros(self.dim)]]


@dataclass(frozen=True)
class OneHot:
    """One of ``cells`` cells, or none: a vector of 0 but for one 1."""

    cells: int

    @property
    def dim(self) -> int:
        """Number of cells."""
        return self.cells

    def holds(self, k: Integers) -> bool:
        """Whether a vector of counts is an element."""
        return all(int(v) in (0, 1) for v in k) and sum(int(v) for v in k) <= 1

    def corners(self, rng: Rng, many: int = 0) -> list[Integers]:
        """Return the first cell, the last, and none."""
        rows = [np.eye(self.cells)[0], np.eye(self.cells)[-1], np.zeros(self.cells)]
        return [_ints(r) for r in rows]


@dataclass(frozen=True)
class Orthant:
    """Integers >= 0 whose squares add up to ``2^40 square`` at most: counts of one unit."""

    dim: int
    square: int = 1

    def __post_init__(self) -> None:
        if self.dim < 1 or type(self.square) is not int or self.square < 1:
            raise PrivacyBugError("an orthant has a dimension and a whole squared radius")

    def holds(self, k: Integers) -> bool:
        """Whether a vector of counts is an element."""
        return all(int(v) >= 0 for v in k) and sum(int(v) ** 2 for v in k) <= (
            self.square * _ONE * _ONE
        )

    def corners(self, rng: Rng, many: int = 4) -> list[Integers]:
        """Return all of it in one cell, or spread over either half of the cells; and none."""
        d, top = self.dim, math.isqrt(self.square * _ONE * _ONE)
        rows = [np.eye(d)[j] for j in (0, d - 1, d // 2)]
        half = np.where(np.arange(d) < (d + 1) // 2, 1.0, 0.0)
        rows += [half, 1.0 - half] if d > 1 else []
        out = [_ints(np.trunc(r / math.sqrt(r.sum()) * top * (1 - 1e-9))) for r in rows]
        return [*out, _ints(np.zeros(d))]


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

    def holds(self, k: Integers) -> bool:
        """Whether three integers are an element."""
        x, present, q = (int(v) for v in k)
        if present == 0:
            return x == 0 and q == 0
        return present == _ONE and abs(x) <= q <= _ONE

    def corners(self, rng: Rng, many: int = 0) -> list[Integers]:
        """Return two equal rows, two opposite ones, two with one at 0, and fewer than two."""
        rows = [(_ONE, _ONE, _ONE), (-_ONE, _ONE, _ONE), (0, _ONE, _ONE // 2), (0, 0, 0)]
        return [_ints(np.array(row, dtype=object)) for row in rows]


@dataclass(frozen=True)
class NuclearBall:
    """Integer rows of one person, any number of them: all squares together at most 2^40."""

    dim: int
    radius: float = 1.0

    def holds(self, k: Integers) -> bool:
        """Whether rows (dim, m) are an element."""
        return sum(int(v) ** 2 for v in np.asarray(k).ravel()) <= (self.radius * STEPS) ** 2

    def corners(self, rng: Rng, many: int = 8) -> list[Integers]:
        """Return people of one row and of ``dim`` orthogonal ones; and nobody."""
        rows = [k[:, None] for k in Ball(self.dim, self.radius).corners(rng, many)]
        full = np.eye(self.dim) * int(self.radius * STEPS / np.sqrt(self.dim) * (1 - 1e-9))
        return [*rows, _ints(full)]


@dataclass(frozen=True)
class ConvexHull:
    """The mean of a person's rows, rounded inside the convex hull of ``of``."""

    of: Ball | Box | OneHot | Simplex | Product

    @property
    def dim(self) -> int:
        """Dimension of the set that it is the hull of."""
        return self.of.dim

    def holds(self, k: Integers) -> bool:
        """Return whether an integer vector is in the hull, by the bounds of its sets."""
        if isinstance(self.of, OneHot):  # shares of the cells, in steps of 2^-20
            return all(int(v) >= 0 for v in k) and sum(int(v) for v in k) <= _ONE
        if isinstance(self.of, Box) and self.of.one:
            c = int(k[-1])
            return 0 <= c <= _ONE and all(abs(int(v)) <= c for v in k[:-1])
        return self.of.holds(k)

    def corners(self, rng: Rng, many: int = 8) -> list[Integers]:
        """Return the corners of the set, in its steps."""
        corners = self.of.corners(rng, many)
        return [k * _ONE for k in corners] if isinstance(self.of, OneHot) else corners


Set: TypeAlias = (
    Ball | Blocks | Box | Product | Interval | Simplex | OneHot | Orthant | PairMeans | NuclearBall
    | ConvexHull
)


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

    Parameters
    ----------
    rx, ry : float
        Row bounds.
    rho : float
        Bound on the norm of the coefficient vector; 0 gives ``2 R_x R_y``.
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
