"""Statistics: functions of the elements of a clip set that are summed. Public shapes only, no data.

A statistic says how many numbers it has, how their noise is divided (``weights``: entry j gets
noise of sd ``sensitivity / (mu w_j)``), how the exact sum is laid out for the draw (``flat``) and
put back (``shaped``), and, for tests, what one element contributes (``of``). How far one unit can
move it is decided in one place, :mod:`dpmodels.proof.prove`, and nowhere here.

Norms: "l2" (Gaussian noise), "l1" (Laplace noise). Units: a radius of the set is 1; ``step`` is
the size of an integer of the sum in these units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.proof.sets import (
    STEPS,
    Ball,
    Blocks,
    Box,
    ConvexHull,
    Interval,
    NuclearBall,
    OneHot,
    Orthant,
    PairMeans,
    Places,
    Product,
    Simplex,
    diagonal_first,
    symmetric,
)

Norm: TypeAlias = Literal["l2", "l1"]
Integers = npt.NDArray[np.object_]
_ROOT2 = math.sqrt(2.0)


#: Value of one integer step of a sum if the radius of the set is 1, for numbers and for their
#: products.
_NUMBERS, _PRODUCTS = 1.0 / STEPS, STEPS**-2


@dataclass(frozen=True)
class Vectors:
    """Base of statistics of vectors: consecutive entries, all of weight 1."""

    @property
    def size(self) -> int:
        """Numbers that are released."""
        raise NotImplementedError

    def weights(self, norm: Norm) -> Array:
        """Return the weight of every entry, (size,)."""
        return np.ones(self.size)

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the entries in the order of the draw, (size,)."""
        return np.asarray(values).ravel()

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return the noisy entries in the shape of the statistic."""
        return flat

    def of(self, k: Integers) -> Integers:
        """Return the contribution of one element of the set: integers in steps of ``step``."""
        return k


@dataclass(frozen=True)
class Sum(Vectors):
    """``sum x``, with ``count`` > 0 next to it the number of units that are not missing.

    ``count`` is the weight of that cell, ``weight`` that of the others. ``products``: x is a
    product of two lattice numbers, in steps of 2^-40.
    """

    set: Ball | Blocks | Box | Interval | OneHot | Simplex | Orthant | PairMeans | ConvexHull
    count: float = 0.0
    weight: float = 1.0
    count_first: bool = False
    products: bool = False

    def __post_init__(self) -> None:
        if not (self.count >= 0.0 and self.weight > 0.0):
            raise PrivacyBugError("the weights of a sum and its count are positive")
        if isinstance(self.set, Box) and self.set.one:
            raise PrivacyBugError("the constant of a box is not a part of a sum: ask for the count")

    @property
    def size(self) -> int:
        """Entries of x, and the count."""
        return self.set.dim + (self.count > 0.0)

    @property
    def step(self) -> float:
        """1 of integers and marks; a 2^20th of a radius else."""
        if self.products:
            return _PRODUCTS
        return 1.0 if isinstance(self.set, (Interval, OneHot)) else _NUMBERS

    def weights(self, norm: Norm) -> Array:
        """Return (weight, ..., count), or the count first."""
        out = np.full(self.size, self.weight)
        if self.count > 0.0:
            out[0 if self.count_first else -1] = self.count
        return out

    def of(self, k: Integers) -> Integers:
        """Return x, and whether the unit is there: a unit of the lattice."""
        k = k * int(STEPS) if self.products else k
        if not self.count > 0.0:
            return k
        present = np.array([round(1.0 / self.step) if any(int(v) for v in k) else 0], dtype=object)
        return np.concatenate([present, k] if self.count_first else [k, present])


@dataclass(frozen=True)
class Gram:
    """``sum z z'``: independent entries of svec (l2), or of the upper triangle (l1).

    ``entries``: weight 1 for every entry of the upper triangle in l2 too (published sizes).
    """

    set: Ball | Box | NuclearBall | ConvexHull
    entries: bool = False

    step = _PRODUCTS

    @property
    def dim(self) -> int:
        """Rows of the matrix."""
        clip_set = self.set.of if isinstance(self.set, ConvexHull) else self.set
        return clip_set.dim + (isinstance(clip_set, Box) and clip_set.one)

    @property
    def size(self) -> int:
        """Numbers that are released."""
        return self.dim * (self.dim + 1) // 2

    def _layout(self, norm: Norm) -> tuple[Places, float]:
        """Return the positions of the entries, and the weight of those off the diagonal.

        They are those of svec (half the noise variance off the diagonal), or of the upper triangle
        row by row.
        """
        if norm == "l2" and not self.entries:
            return diagonal_first(self.dim), _ROOT2
        return np.triu_indices(self.dim), 1.0

    def weights(self, norm: Norm) -> Array:
        """Return 1 on the diagonal, sqrt 2 off it (svec), or 1 throughout."""
        (i, j), off = self._layout(norm)
        return np.where(i == j, 1.0, off)

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the diagonal, then the entries above it; or the upper triangle row by row."""
        return np.asarray(values)[self._layout(norm)[0]]

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return the symmetric matrix."""
        return symmetric(self.dim, flat, self._layout(norm)[0])

    def of(self, k: Integers) -> Integers:
        """Return z z', or the sum over the rows of a person."""
        z = k if k.ndim == 2 else k[:, None]
        return np.asarray((z[:, None] * z[None]).sum(axis=2), dtype=object)


@dataclass(frozen=True)
class Split:
    """``(a X'X, b X'y, c y'y, e sum x, f sum y, k count)`` with separate bounds on x and y.

    ``known``: the first coordinate of x is an intercept, 1 in every complete row, so that sums
    and count are cells of the moment matrix; else e, f and k are 0. Radii 1; ``rx`` and ``ry``
    are those of unit rows, which the matrix is in.
    """

    p: int
    known: bool
    parts: tuple[float, float, float, float, float, float]
    rx: float = 1.0
    ry: float = 1.0

    step = _PRODUCTS  # of unit rows

    @property
    def size(self) -> int:
        """Entries of the upper triangle of the moments of (x, y)."""
        return (self.p + 1) * (self.p + 2) // 2

    def matrix(self) -> Array:
        """Return the weight of each entry of the upper triangle of the moments, response last."""
        a, b, c, e, f, k = self.parts
        p = self.p
        W = np.full((p + 1, p + 1), _ROOT2 * a / self.rx**2)
        W[np.diag_indices(p + 1)] = a / self.rx**2
        W[:p, p] = b / (self.rx * self.ry)
        W[p, p] = c / self.ry**2
        if self.known:
            W[0, :p] = e / self.rx
            W[0, 0] = k
            W[0, p] = f / self.ry
        return W

    def weights(self, norm: Norm) -> Array:
        """Return the weights of the upper triangle, row by row."""
        return np.asarray(self.matrix()[np.triu_indices(self.p + 1)])

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the upper triangle row by row."""
        return np.asarray(values)[np.triu_indices(self.p + 1)]

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return the symmetric matrix."""
        return symmetric(self.p + 1, flat, np.triu_indices(self.p + 1))

    @property
    def set(self) -> Product:
        """Slopes in a ball, the response in an interval; with ``known`` a constant before them."""
        return Product(Ball(self.p - self.known, 1.0), Box(1))

    def of(self, k: Integers) -> Integers:
        """Return the moments of a row at the bounds: slopes times rx, the response times ry."""
        if not any(int(v) for v in k):
            return np.zeros((self.p + 1, self.p + 1), dtype=object)
        x, y = np.asarray(k[:-1], dtype=float), np.asarray(k[-1:], dtype=float)
        parts = [x * self.rx, y * self.ry]
        z = np.concatenate([[STEPS], *parts] if self.known else parts)
        return np.asarray(np.outer(z, z), dtype=object)


@dataclass(frozen=True)
class Objective(Vectors):
    """Coefficients of ``(y - x'b)^2`` without its constant: ``2 X'y``, ``x_j^2``, ``2 x_j x_k``."""

    p: int
    rx: float = 1.0
    ry: float = 1.0

    step = _PRODUCTS

    @property
    def size(self) -> int:
        """P and p (p + 1)/2 entries."""
        return self.p + self.p * (self.p + 1) // 2

    @property
    def set(self) -> Product:
        """Rows in a ball, the response in an interval."""
        return Product(Ball(self.p), Box(1))

    def of(self, k: Integers) -> Integers:
        """Return the coefficients of a row at the bounds."""
        x, y = np.asarray(k[:-1], dtype=float) * self.rx, float(k[-1]) * self.ry
        upper = np.triu_indices(self.p)
        twice = np.where(upper[0] == upper[1], 1.0, 2.0)
        return np.concatenate([2.0 * x * y, np.outer(x, x)[upper] * twice]).astype(object)


@dataclass(frozen=True)
class Powers(Vectors):
    """``(count, u_1 ... u_d, u_1^2 ... u_d^2)`` of complete units, ``low <= u_j <= 1``.

    ``count`` and ``square`` are the weights of those cells (other than 1 in l1 alone).
    """

    d: int
    low: int = -1
    count: float = 1.0
    square: float = 1.0

    step = _NUMBERS

    def __post_init__(self) -> None:
        if self.low not in (-1, 0):
            raise PrivacyBugError("columns lie in [-1, 1] or in [0, 1]")
        if not (self.count > 0.0 and self.square > 0.0):
            raise PrivacyBugError("the weights of counts and squares are positive")

    def weights(self, norm: Norm) -> Array:
        """Return the weights of the count, of sums (1) and of squares."""
        return np.array([self.count, *[1.0] * self.d, *[self.square] * self.d])

    @property
    def size(self) -> int:
        """1 + 2 d."""
        return 1 + 2 * self.d

    @property
    def set(self) -> Box:
        """The columns, and whether the unit is complete."""
        return Box(self.d, one=True, low=self.low)

    def of(self, k: Integers) -> Integers:
        """Return count, sums and squares, these rounded towards zero."""
        squares = [int(v) ** 2 >> 20 for v in k[:-1]]
        return np.array([k[-1], *k[:-1], *squares], dtype=object)


@dataclass(frozen=True)
class Pair(Vectors):
    """``(count, sum x, sum y, sum x^2, sum xy, sum y^2)`` of complete pairs of numbers in [-1, 1].

    The moments of (x, y, 1) as svec, but for the count, of weight sqrt 8.
    """

    size = 6
    step = _PRODUCTS
    set = Box(2, one=True)  # The pair, and whether it is complete

    def weights(self, norm: Norm) -> Array:
        """Return (sqrt 8, sqrt 2, sqrt 2, 1, sqrt 2, 1)."""
        return np.sqrt([8.0, 2.0, 2.0, 1.0, 2.0, 1.0])

    def of(self, k: Integers) -> Integers:
        """Return the six products of (x, y, 1)."""
        x, y, constant = k
        return np.array(
            [constant * constant, x * constant, y * constant, x * x, x * y, y * y], dtype=object
        )


@dataclass(frozen=True)
class Cells(Vectors):
    """Tables of one unit of mass each, with shares of mu^2 (l2) or of eps (l1).

    ``sizes``: cells of each table. ``counts``: integers that are not in steps of 2^-20.
    """

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    counts: bool = False

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.shares) or not all(share > 0.0 for share in self.shares):
            raise PrivacyBugError("every table has a share, and it is positive")

    @property
    def size(self) -> int:
        """Cells of all tables."""
        return sum(self.sizes)

    @property
    def step(self) -> float:
        """1 of counts."""
        return 1.0 if self.counts else _NUMBERS

    def weights(self, norm: Norm) -> Array:
        """Return the root of the share, or the share, of every cell's table."""
        roots = [s if norm == "l1" else math.sqrt(s) for s in self.shares]
        return np.repeat(roots, self.sizes)

    @property
    def set(self) -> Simplex:
        """The mass of a unit in one table."""
        return Simplex(max(self.sizes), complete=True)

    def of(self, k: Integers) -> Integers:
        """Return a mass put into the largest table, and so far as there is room into others."""
        unit = 1 if self.counts else int(STEPS)
        out = []
        for size in self.sizes:
            part = np.zeros(size, dtype=object)
            part[:] = 0
            part[: len(k)] += np.asarray(k[:size], dtype=object) * unit // int(STEPS)
            part[-1] += unit - sum(int(v) for v in part)
            out.append(part)
        return np.concatenate(out)


@dataclass(frozen=True)
class Tree(Vectors):
    """All levels of a tree over the cells of a number; the missing cell is in the first."""

    levels: int
    sizes: tuple[int, ...]
    people: bool = False

    set = OneHot(2)  # A path: one node a level

    @property
    def size(self) -> int:
        """Nodes of all levels."""
        return sum(self.sizes)

    @property
    def step(self) -> float:
        """Lattice step: 1 for rows, a small fraction for people, who add shares."""
        return _NUMBERS if self.people else 1.0

    def of(self, k: Integers) -> Integers:
        """Return one node of every level: the first, the last, or none."""
        out = []
        for size in self.sizes:
            part = np.zeros(size, dtype=object)
            part[:] = 0
            part[0], part[-1] = int(k[0]), int(k[-1])
            out.append(part)
        return np.concatenate(out) * round(1.0 / self.step)


@dataclass(frozen=True)
class Ranks:
    """Penalties of candidates by ranks about ``q m + offset``, of one group or of several.

    Integers in steps of 1 / ``step``: with d the denominator of q, d of rows, ``unit d`` of people
    (whose counts are in steps of 1 / unit). ``d q m`` is whole in every group: nothing is rounded.
    """

    q: Fraction
    groups: bool = False
    unit: int = 0
    offset: int = 0

    @property
    def step(self) -> int:
        """Steps of a rank."""
        return self.q.denominator * (self.unit or 1)


@dataclass(frozen=True)
class ByClass:
    """A sum (and its count) for each of K classes; a unit is in one class, or in none.

    Laid out as the sums of all classes, class by class, then their counts (or these first).
    """

    each: Sum
    classes: int

    def __post_init__(self) -> None:
        if isinstance(self.each.set, ConvexHull):
            raise PrivacyBugError("a person may be in several classes: no proof of sums by class")

    @property
    def size(self) -> int:
        """Entries of all classes."""
        return self.classes * self.each.size

    @property
    def step(self) -> float:
        """Lattice step of the sum."""
        return self.each.step

    @property
    def set(self) -> Any:
        """Clip set of the sum."""
        return self.each.set

    def _contribution(self, x: Any, count: Any) -> Any:
        """Return sums and counts in their order."""
        if not self.each.count > 0.0:
            return np.ravel(x)
        parts = [np.ravel(count), np.ravel(x)]
        return np.concatenate(parts if self.each.count_first else parts[::-1])

    def weights(self, norm: Norm) -> Array:
        """Return the weight of sums and of counts."""
        x = np.full(self.classes * self.each.set.dim, self.each.weight)
        return np.asarray(self._contribution(x, np.full(self.classes, self.each.count)))

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the entries in order; ``values``: (sums (K, d), counts (K,)), or sums alone."""
        if self.each.count > 0.0 and isinstance(values, tuple):
            return self._contribution(*values)
        return np.ravel(values)  # laid out already

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return them flat: :meth:`parts` takes them apart."""
        return flat

    def parts(self, flat: Array) -> tuple[Array, Array]:
        """Return (sums (K, d), counts (K,)) of the noisy entries."""
        K, d = self.classes, self.each.set.dim
        if not self.each.count > 0.0:
            return flat.reshape(K, d), np.zeros(0)
        if self.each.count_first:
            return flat[K:].reshape(K, d), flat[:K]
        return flat[: K * d].reshape(K, d), flat[K * d :]

    def of(self, k: Integers) -> Any:
        """Return a unit in the first class, or in the last where its first number is negative."""
        mine = self.each.of(k)
        count = self.each.count > 0.0
        x = (mine[1:] if self.each.count_first else mine[:-1]) if count else mine
        out = np.zeros((self.classes, len(x)), dtype=object)
        counts = np.zeros(self.classes, dtype=object)
        at = -1 if int(k[0]) < 0 else 0
        out[at] = x
        counts[at] = (mine[0] if self.each.count_first else mine[-1]) if count else 0
        return (out, counts) if count else out


@dataclass(frozen=True)
class Stack:
    """Parts of one unit in one joint release, each with a weight."""

    parts: tuple[Any, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.shares) or len({part.step for part in self.parts}) != 1:
            raise PrivacyBugError("a stack is of parts in steps of one size, each with a share")

    @property
    def size(self) -> int:
        """Entries of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def step(self) -> float:
        """Lattice step of the first part: all parts have the same."""
        return float(self.parts[0].step)

    @property
    def set(self) -> Any:
        """Clip set of the first part."""
        return self.parts[0].set

    def weights(self, norm: Norm) -> Array:
        """Return the weights of the parts times their shares."""
        pairs = zip(self.parts, self.shares, strict=True)
        return np.concatenate([share * part.weights(norm) for part, share in pairs])

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the parts one after the other; ``values``: one a part."""
        pairs = zip(self.parts, values, strict=True)
        return np.concatenate([part.flat(value, norm) for part, value in pairs])

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return the parts one under the other, all of one shape."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pieces = np.split(flat, ends)
        return np.array([p.shaped(v, norm) for p, v in zip(self.parts, pieces, strict=True)])

    def of(self, k: Integers) -> Any:
        """Return the contribution of one element to each part."""
        return [part.of(k) for part in self.parts]


@dataclass(frozen=True)
class RankOne:
    """Matrices and scores of a scoring pass, jointly.

    Every matrix part of a row is a multiple of ``e e'``, at most its radius squared, and the score
    a multiple of the same unit vector e, at most ``clip`` long. A score of several blocks is
    ``(c_1 e, .., c_k e)``, and c is at most ``clip`` long. For people each part is separate.
    """

    r: int  # Dimension
    # radii R_i of the matrix parts, and their noise sds in svec coordinates.
    radii: tuple[float, ...]
    noise: tuple[float, ...]
    clip: float
    score_noise: float
    people: bool = False
    blocks: int = 1  # k: blocks of the score

    step = 1.0  # Sums come in real units

    @property
    def size(self) -> int:
        """Numbers that are released."""
        return len(self.radii) * self.r * (self.r + 1) // 2 + self.blocks * self.r

    @property
    def set(self) -> Ball:
        """The row's own vector e, scaled to 1."""
        return Ball(self.r)

    def weights(self, norm: Norm) -> Array:
        """Return 1 over the noise of every entry."""
        i, j = diagonal_first(self.r)
        unit_weight = np.where(i == j, 1.0, _ROOT2)
        return np.concatenate(
            [
                *(unit_weight / sd for sd in self.noise),
                np.full(self.blocks * self.r, 1.0 / self.score_noise),
            ]
        )

    def flat(self, values: Any, norm: Norm) -> Any:
        """Return the matrices as svec, in order, then the scores. ``values``: one a part."""
        *matrices, score = values
        return np.concatenate([*(M[diagonal_first(self.r)] for M in matrices), score])

    def shaped(self, flat: Array, norm: Norm) -> Array:
        """Return the noisy entries, flat: :meth:`parts` splits them."""
        return flat

    def parts(self, flat: Array) -> list[Array]:
        """Return the matrices and the score of the noisy entries."""
        entries = self.r * (self.r + 1) // 2
        *matrices, score = np.split(flat, entries * np.arange(1, len(self.radii) + 1))
        return [*(symmetric(self.r, M, diagonal_first(self.r)) for M in matrices), score]

    def of(self, k: Integers) -> Any:
        """Return the parts of a row along k, as large as they can be, in real units."""
        e = np.asarray(k, dtype=float) / STEPS
        score = np.zeros(self.blocks * self.r)
        score[: self.r] = self.clip * e
        return [*(R**2 * np.outer(e, e) for R in self.radii), score]


@dataclass(frozen=True)
class ClusterGram(Gram):
    """``sum_k a_k a_k'``, a_k the sum of the rows of cluster k, pulled into the unit ball.

    No sum over units: a row is in one cluster, and changes the product of its cluster's sum. Which
    one it is in is a cell of the row. a_k is rounded towards zero to steps of at most 2^-19.
    Rows that are in no cluster count as one each.
    """

    # C: bound of a row, over that of a pulled sum. At most 1: a row alone is pulled nowhere.
    clip: float = 1.0
    # The unit is a person with parts in several clusters, whose lengths (with ``slack`` for each)
    # add up to C at most.
    several: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.set, Ball) and self.set.radius == 1.0 and 0.0 < self.clip <= 1.0):
            raise PrivacyBugError("sums of clusters are pulled into a ball no smaller than a row's")

    @property
    def slack(self) -> float:
        """Bound on the distance that rounding of two sums adds: ``2^-17 sqrt r``."""
        return 2.0**-17 * math.sqrt(self.dim)


@dataclass(frozen=True)
class ClusterTotals(Vectors):
    """``T_h``, the sum over the clusters of stratum h of their pulled sums: the strata in a row.

    A row moves the pulled sum of one cluster, in one stratum. Which, is a cell of the row.
    """

    dim: int
    strata: int
    clip: float  # C, over the radius of a pulled sum
    several: bool = False  # As in :class:`ClusterGram`

    step = _NUMBERS

    def __post_init__(self) -> None:
        if not (self.dim > 0 and self.strata > 0 and 0.0 < self.clip <= 1.0):
            raise PrivacyBugError("totals are of sums pulled into a ball no smaller than a row's")

    @property
    def size(self) -> int:
        """Numbers of all strata."""
        return self.dim * self.strata

    @property
    def set(self) -> Ball:
        """A pulled sum, of which a row moves C at most."""
        return Ball(self.dim)

    @property
    def slack(self) -> float:
        """Bound on the distance that rounding of two sums adds."""
        return 2.0**-17 * math.sqrt(self.dim)


@dataclass(frozen=True)
class Clusters(Vectors):
    """The number of clusters that have a row."""

    size = 1
    step = 1.0
    set = OneHot(1)  # A row is in one cluster, or in none


Statistic: TypeAlias = (
    Sum | Gram | Split | Objective | Pair | Powers | Cells | Tree | ByClass | Stack | RankOne
    | Clusters | ClusterTotals
)
