"""Audits of queries: the queries of a stage, and four laws of each on hostile units.

:class:`Recorder` takes the place of a stage's interface and records its queries. For each query
the laws of ``proof/theory.md`` 1.8 are then tested automatically: **set** (what one unit adds,
through the production pass, is an element, in exact integers), **reach** (elements at which
distances are largest, against the prover), **place** (a table is the sum of its units) and
**noise** (the drawn sd). Synthetic data only.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.audit.elements import contribution, corners_of, is_element, set_of
from dpmodels.errors import PrivacyBugError
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.privacy.run import ROUND_UP, Run
from dpmodels.privacy.seeded import SeededNoise
from dpmodels.proof.prove import Of, sensitivity
from dpmodels.proof.sets import (
    STEPS,
    Ball,
    Box,
    ConvexHull,
    Interval,
    NuclearBall,
    OneHot,
    Orthant,
    Simplex,
)
from dpmodels.proof.statistics import (
    ByClass,
    Cells,
    ClusterGram,
    Clusters,
    ClusterTotals,
    Gram,
    Norm,
    Objective,
    Pair,
    Powers,
    RankOne,
    Split,
    Stack,
    Sum,
    Tree,
)
from dpmodels.quiet import quiet
from dpmodels.sources.rows import Rows
from dpmodels.sources.tables import DictSource
from dpmodels.sums.ask import ALL, Added, Ask, Noisy, Query, Read

Integers = npt.NDArray[np.object_]
_ONE = int(STEPS)


@dataclass(frozen=True, eq=False)
class Asked:
    """One query as a stage asked it."""

    step: str
    query: Query
    mechanism: Any
    relation: str
    added: Added
    noisy: Noisy
    units: int = 1
    people: bool = False

    @property
    def norm(self) -> Norm:
        """Return the norm of sensitivities: l1 where noise is Laplace's, else l2."""
        return "l1" if isinstance(self.mechanism, Pure) else "l2"

    def contribution(self, sums: Any, units: int = 1) -> Any:
        """Return the entries of exact sums of some units, in steps of the statistic.

        Exact: fractions where a route has a finer lattice; of a scoring pass in real units.
        """
        statistic: Any = self.query.statistic
        part = self.query.part
        if isinstance(part, functools.partial) and "total" in part.keywords:
            # a cell that completes the public number of units, for these units alone
            total = part.keywords["total"] // self.units * units
            part = functools.partial(part.func, *part.args, **{**part.keywords, "total": total})
        added = part(sums)
        return in_steps(statistic, statistic.flat(added.values, self.norm), added.step)

    def ratio(self, contribution: Any, other: Any) -> float:
        """Return the distance of two contributions over the proved change by one unit."""
        statistic: Any = self.query.statistic
        moved = np.asarray(contribution - other, dtype=float) * statistic.step
        length = _length(moved * statistic.weights(self.norm), self.norm)
        return length / sensitivity(statistic, self.relation, self.norm)


def in_steps(statistic: Any, flat: Any, step: Any) -> Any:
    """Return entries in steps of the statistic, exactly: a route may have its own."""
    flat = np.asarray(flat)
    if step is None:
        return flat.astype(object)
    sizes_of_steps = np.broadcast_to(np.asarray(step, dtype=float), flat.shape).ravel()
    sizes = [Fraction(float(s)) / Fraction(statistic.step) for s in sizes_of_steps]
    out = np.empty(flat.shape, dtype=object)
    out[:] = [int(v) * size for v, size in zip(flat, sizes, strict=True)]
    return out


class Recorder(Ask):
    """Door of a stage that records its queries."""

    def __init__(self, rows: Any, run: Run, relation: str = "replace") -> None:
        super().__init__(rows, run, relation)
        self.asked: list[Asked] = []
        #: (ranks, pass, penalties) of choices.
        self.chosen: list[tuple[Any, Any, Callable[[Any], Any]]] = []
        #: (pass, bins of units) of histograms whose bins are private.
        self.binned: list[tuple[Any, Callable[[Any], Any]]] = []

    def __call__(self, step: str, query: Query, read: Read = ALL) -> Noisy:
        """Ask, and keep."""
        mechanism = self._run.mechanism(step)
        noisy = super().__call__(step, query, read)
        added = query.part(self._total(query.over, read))
        units = int(getattr(self._rows, "n", 1))
        self.asked.append(
            Asked(step, query, mechanism, self._relation, added, noisy, units, self.by_person)
        )
        return noisy

    def choose(self, step: str, ranks: Any, over: Any, penalties: Any, largest: int) -> Any:
        """Choose, and keep."""
        self.chosen.append((ranks, over, penalties))
        return super().choose(step, ranks, over, penalties, largest)

    def bins(
        self, step: str, over: Any, find: Any, tau: float, *, per_unit: int = 1, most: int = 0
    ) -> Any:
        """Release the bins above a threshold, and record the function that finds them."""
        self.binned.append((over, find))
        return super().bins(step, over, find, tau, per_unit=per_unit, most=most)


# --- set -----------------------------------------------------------------------------------------
def holds(statistic: Any, k: Any, norm: Norm = "l2", *, people: bool = False) -> bool:
    """Return whether entries ``k`` (in steps of the statistic) can be one unit's contribution.

    They are exact integers; of :class:`~dpmodels.proof.statistics.RankOne` fractions. ``people``:
    the unit has rows of which the entries are means or sums.
    """
    if not isinstance(statistic, (RankOne, ClusterGram, ClusterTotals)):
        finer = [Fraction(v).denominator for v in k]
        if max(finer) > 1 and not (isinstance(statistic, Sum) and max(finer) <= _ONE):
            return False  # vectors alone may be on a finer lattice
        k = _exact([int(v) if d == 1 else v for v, d in zip(k, finer, strict=True)])
    if isinstance(statistic, Gram) and not isinstance(statistic, ClusterGram):
        return _gram(statistic, k, people, norm == "l2" and not statistic.entries)
    return bool(_HOLDS[type(statistic)](statistic, k, people))


def _exact(values: Any) -> Integers:
    out = np.empty(np.shape(values), dtype=object)
    out[...] = values
    return out


def _in(of: Any, k: Any, steps: int, people: bool) -> bool:
    """Whether integers in steps of a radius over ``steps`` are in a set, of any step."""
    if isinstance(of, ConvexHull):
        return _in(of.of, k, steps, True)
    if isinstance(of, Ball):
        return sum(v * v for v in k) <= Fraction(of.radius) ** 2 * steps * steps
    if isinstance(of, Box):
        top = Fraction(of.radius) * steps
        return all(of.low * top <= v <= top for v in k)
    if isinstance(of, Orthant):
        return all(v >= 0 for v in k) and sum(v * v for v in k) <= of.square * steps * steps
    if isinstance(of, (OneHot, Simplex)) and people:
        return all(v >= 0 for v in k) and sum(k) <= steps
    if isinstance(of, (Interval, OneHot)):  # integers, or marks: steps are 1
        return is_element(of, k)
    # what a Mass or blocks of numbers >= 0 may hold, in the next coarser steps
    return is_element(of, _exact([-(-v * _ONE // steps) for v in k]))


def _sum(s: Sum, k: Any, people: bool) -> bool:
    """Return whether an integer vector k is an element of the set of a sum, its count included.

    The count is a whole unit or 0; for people it may be a part of a unit.
    """
    unit = round(1.0 / s.step)
    people = people or isinstance(s.set, ConvexHull)  # a weight too is a part of a row
    if not s.count > 0.0:
        return _in(s.set, k, unit, people)
    count = k[0] if s.count_first else k[-1]
    x = k[1:] if s.count_first else k[:-1]
    if people and 0 <= count <= unit:
        # a person's mean over all rows, missing as 0: in the set times the share of complete rows
        inner = s.set.of if isinstance(s.set, ConvexHull) else s.set
        return (not count and not any(x)) or _in(inner, x, count, True)
    return count in (0, unit) and (_in(s.set, x, unit, people) if count else not any(x))


def _symmetric(k: Any, dim: int, svec: bool) -> Any:
    """Return the symmetric matrix of the entries of its upper triangle."""
    M = np.empty((dim, dim), dtype=object)
    upper = np.triu_indices(dim)
    if svec:
        upper = (
            np.concatenate([np.arange(dim), np.triu_indices(dim, 1)[0]]),
            np.concatenate([np.arange(dim), np.triu_indices(dim, 1)[1]]),
        )
    M[upper] = k
    M.T[upper] = k
    return M


def _root(M: Any) -> Any:
    """Return z with zz' = M in integers, up to its sign; None where there is none."""
    diagonal = [int(v) for v in np.diag(M)]
    if any(v < 0 or math.isqrt(v) ** 2 != v for v in diagonal):
        return None
    z = _exact([math.isqrt(v) for v in diagonal])
    first = next((j for j, v in enumerate(z) if v), None)
    if first is not None:
        z = _exact([v if M[first, j] >= 0 else -v for j, v in enumerate(z)])
    return z if (np.outer(z, z) == M).all() else None


def _semidefinite(M: Any) -> bool:
    """Whether an integer matrix is positive semidefinite: elimination in fractions."""
    A = _exact([[Fraction(int(v)) for v in row] for row in M])
    for j in range(len(A)):
        if A[j, j] < 0 or (A[j, j] == 0 and any(A[j, j:])):
            return False
        if A[j, j] > 0:
            A[j:, j:] = A[j:, j:] - np.outer(A[j:, j], A[j, j:]) / A[j, j]
    return True


def _gram(s: Gram, k: Any, people: bool, svec: bool = True) -> bool:
    """Return whether an integer vector k is the Gram matrix of a row (or person) in the set."""
    M = _symmetric(k, s.dim, svec)
    if isinstance(s.set, NuclearBall):
        limit = Fraction(s.set.radius) ** 2 * _ONE**2
        return sum(np.diag(M)) <= limit and _semidefinite(M)
    z = _root(M)
    if z is None:
        if not isinstance(s.set, Ball):
            return False
        # zz' rounded down entry by entry, of rows by cell (``proof/theory.md`` 1.7)
        values = np.abs(np.linalg.eigvalsh(M.astype(float))[:-1])
        inside = sum(np.diag(M)) <= Fraction(s.set.radius) ** 2 * _ONE**2
        return bool(inside) and float(values.max(initial=0.0)) <= len(M)
    return any(is_element(s.set, _exact(sign * z)) for sign in (1, -1))


def _rows_of(M: Any, p: int, with_constant: bool, rx: float, ry: float) -> bool:
    """Whether M is zz' of z = (1, x, y) or (x, y) with |x| <= rx, |y| <= ry."""
    z = _root(M)
    if z is None:
        return False
    if with_constant and z[0] not in (0, _ONE):
        return False
    if with_constant and not z[0]:
        return not any(z)
    x, y = z[with_constant:p], z[p]
    return (
        sum(v * v for v in x) <= Fraction(rx * (1 + 1e-12)) ** 2 * _ONE**2
        and abs(y) <= Fraction(ry) * _ONE
    )


def _split(s: Split, k: Any, people: bool) -> bool:
    return _rows_of(_symmetric(k, s.p + 1, False), s.p, s.known, s.rx, s.ry)


def _objective(s: Objective, k: Any, people: bool) -> bool:
    """Return whether an integer vector k is a row's part in the functional mechanism."""
    p, upper = s.p, np.triu_indices(s.p)
    if any(v % 2 for v in k[:p]):
        return False
    M = np.empty((p + 1, p + 1), dtype=object)
    halves = [v if i == j else Fraction(v, 2) for v, i, j in zip(k[p:], *upper, strict=True)]
    M[upper] = halves
    M.T[upper] = halves
    M[:p, p] = M[p, :p] = [v // 2 for v in k[:p]]
    # the response alone is in no entry: it follows from X'y
    j = next((j for j in range(p) if M[j, j]), None)
    square = Fraction(M[j, p] ** 2) / M[j, j] if j is not None else Fraction(0)
    M[p, p] = int(square) if square.denominator == 1 else -1
    return _rows_of(M, p, False, s.rx, s.ry)


def _powers(s: Powers, k: Any, people: bool) -> bool:
    """Return whether an integer vector k is (count, values, squares) of one row or person."""
    d, count = s.d, k[0]
    u, squares = k[1 : d + 1], k[d + 1 :]
    if not (0 <= count <= _ONE if people else count in (0, _ONE)):
        return False
    inside = all(s.low * count <= v <= count for v in u) and all(0 <= q <= count for q in squares)
    if people:  # a mean of squares is not below the square of the mean, roundings aside
        return inside and all(v * v <= (q + 2) * count for v, q in zip(u, squares, strict=True))
    return inside and all(
        abs(Fraction(v * v, _ONE) - q) < 2 for v, q in zip(u, squares, strict=True)
    )


def _pair(s: Pair, k: Any, people: bool) -> bool:
    count, x, y, xx, xy, yy = k
    z = _root(_symmetric([count, x, y, xx, xy, yy], 3, False))
    signs = () if z is None else (1, -1)
    return any(is_element(set_of(s), _exact(sign * z[[1, 2, 0]])) for sign in signs)


def _cells(s: Cells, k: Any, people: bool) -> bool:
    unit = round(1.0 / s.step)
    parts = np.split(k, np.cumsum(s.sizes)[:-1])
    return all(sum(part) == unit and all(v >= 0 for v in part) for part in parts)


def _tree(s: Tree, k: Any, people: bool) -> bool:
    """Return whether an integer vector k is the part of a row or person in a tree of counts."""
    unit = round(1.0 / s.step)
    parts = np.split(k, np.cumsum(s.sizes)[:-1])
    if not (people or s.people) and any(v not in (0, unit) for v in k):
        return False
    return all(sum(part) <= unit and all(v >= 0 for v in part) for part in parts)


def _by_class(s: ByClass, k: Any, people: bool) -> bool:
    """Return whether an integer vector k has entries of one class at most, each in its set."""
    x, counts = s.parts(k)
    mine = [j for j in range(s.classes) if any(x[j]) or (len(counts) and counts[j])]
    if len(mine) > 1:
        return False
    if not mine:
        return True
    at = mine[0]
    if not len(counts):
        return _sum(s.each, x[at], people)
    entry = [counts[at], *x[at]] if s.each.count_first else [*x[at], counts[at]]
    return _sum(s.each, _exact(entry), people)


def _stack(s: Stack, k: Any, people: bool) -> bool:
    ends = np.cumsum([part.size for part in s.parts])[:-1]
    pieces = zip(s.parts, np.split(k, ends), strict=True)
    return all(bool(_HOLDS[type(part)](part, piece, people)) for part, piece in pieces)


#: Radii of a pass are floats: products of them are off by some units in the last place.
_FLOATS = 1.0 + 2.0**-40


def _rank_one(s: RankOne, k: Any, people: bool) -> bool:
    """Return whether the matrices and the score of a vector k are within their radii."""
    *matrices, score = s.parts(np.asarray(k, dtype=float))
    if not float(score @ score) <= s.clip**2 * _FLOATS:
        return False
    for M, radius in zip(matrices, s.radii, strict=True):
        # integers of at most 2^40, so that these floats are exact but for the radius
        E = M / radius**2
        values = np.linalg.eigvalsh(E)
        step = s.r * 2.0**-39  # by cell every entry is rounded once
        if not np.trace(E) <= _FLOATS or values[0] < -step:
            return False
        if s.people:
            continue
        if values[:-1].max(initial=0.0) > step:  # one row: a multiple of e e'
            return False
        length = np.sqrt(score @ score)
        if length > 2.0**-8 * s.clip and values[-1] > 2.0**-16:
            # and every block of its score along the same e, up to the lattice
            for part in score.reshape(s.blocks, s.r) / length:
                if part @ E @ part < values[-1] * (part @ part - 2.0**-16):
                    return False
    return True


def _of_clusters(s: ClusterGram, k: Any, people: bool) -> bool:
    """Whether a table of one row holds no more than its product: rank one, |s| <= C."""
    E = s.shaped(np.asarray(k, dtype=float) * s.step, "l2")
    values = np.linalg.eigvalsh(E)
    inside = float(np.trace(E)) <= s.clip**2 * _FLOATS
    return inside and float(np.abs(values[:-1]).max(initial=0.0)) <= 2.0**-40


def _totals_of(s: ClusterTotals, k: Any, people: bool) -> bool:
    """Return whether a table of one unit can hold its pulled sums (a row is in one stratum)."""
    parts = np.asarray(k, dtype=float).reshape(s.strata, s.dim) * s.step
    lengths = np.sqrt((parts * parts).sum(axis=1))
    in_one_cell = people or int(np.count_nonzero(lengths)) <= 1
    return in_one_cell and float(lengths.sum()) <= s.clip * _FLOATS


def _clusters(s: Clusters, k: Any, people: bool) -> bool:
    return len(k) == 1 and k[0] in (0, 1)


_HOLDS: dict[type, Callable[[Any, Any, bool], bool]] = {
    RankOne: _rank_one, ByClass: _by_class, Cells: _cells, ClusterGram: _of_clusters,
    Clusters: _clusters, ClusterTotals: _totals_of, Gram: _gram, Objective: _objective,
    Pair: _pair, Powers: _powers, Split: _split, Stack: _stack, Sum: _sum, Tree: _tree,
}  # fmt: skip


# --- sensitivity ---------------------------------------------------------------------------------
def corners(statistic: Any, norm: Norm, rng: np.random.Generator) -> Array:
    """Return contributions (m, size) of elements far from each other, weighted, in real units."""
    weights = statistic.weights(norm)
    flats = (statistic.flat(k, norm) for k in _elements(statistic, rng))
    return np.array([np.asarray(k, dtype=float) * statistic.step * weights for k in flats])


def _elements(statistic: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Yield vectors that one unit may add to a statistic, the extreme ones included."""
    if isinstance(statistic, RankOne):
        yield from _of_a_pass(statistic)
    elif isinstance(statistic, (ClusterGram, Clusters, ClusterTotals)):
        yield from _of_neighbours(statistic)
    elif isinstance(statistic, Cells):
        yield from _tables(statistic)
    elif isinstance(statistic, ByClass):
        for k in corners_of(set_of(statistic), rng):
            yield from _classes(statistic, k)
    elif isinstance(statistic, Stack):
        many = [list(_elements(part, np.random.default_rng(1))) for part in statistic.parts]
        yield from map(list, zip(*many, strict=False))
    else:
        for k in corners_of(set_of(statistic), rng):
            yield contribution(statistic, k)
        if isinstance(statistic, Powers) and statistic.low < 0:  # in L1 farthest from all ones
            yield contribution(statistic, _exact([*[-_ONE // 2] * statistic.d, _ONE]))


def _of_neighbours(s: Any) -> Iterator[Any]:
    """Yield the sums of tables that differ in one row, less the sums without it.

    Two clusters of other rows, whose sums are b and a: a row in the first takes its sum from b to
    a, a row in the second its sum from a to b. So replacing one by the other moves both clusters
    the same way. For a person there are as many pairs of clusters as the person has parts.
    """
    if isinstance(s, Clusters):  # a row in a separate cluster, or in one that has others
        yield from (np.array([1]), np.array([0]))
        return
    if isinstance(s, ClusterTotals):  # out of a cluster at -C, into another one of the stratum
        moved = np.zeros((s.strata, s.dim))
        moved[0, 0] = s.clip / s.step
        yield from (moved.ravel(), -moved.ravel(), np.zeros(s.size))
        return
    r, c = s.dim, s.clip
    a, b = np.eye(r)[0], (1.0 - c) * np.eye(r)[0]
    if r > 1 and 3.0 * c > 2.0:
        cosine = 1.0 - c * c / 2.0
        b = cosine * a + math.sqrt(1.0 - cosine**2) * np.eye(r)[1]
    if s.several:  # 64 parts of C/64: |aa' - bb'| is 2 B C/64 but for (C/64)^2
        b = (1.0 - c / 64.0) * a
    moved = (np.outer(a, a) - np.outer(b, b)) * (64.0 if s.several else 1.0) / s.step
    yield from (moved, -moved, np.zeros((r, r)))


def _classes(s: ByClass, k: Any) -> Iterator[Any]:
    """Yield a unit in the first class and in the last."""
    for sign in (1, -1):
        signed = [sign * abs(int(v)) if j == 0 else v for j, v in enumerate(k)]
        yield contribution(s, _exact(signed))
    yield contribution(s, k)


def _tables(s: Cells) -> Iterator[Any]:
    """Yield the whole mass in the first cell of every table, and in the last."""
    unit = round(1.0 / s.step)
    for at in (0, -1):
        parts = [np.zeros(size, dtype=object) for size in s.sizes]
        for part in parts:
            part[at] = unit
        yield np.concatenate(parts)


def _of_a_pass(s: RankOne) -> Iterator[Any]:
    """Yield rows with and without a matrix, with a score of either sign; people's parts apart.

    For rows the worst pairs are either opposite scores along one vector, one of them without
    matrices, or two vectors whose angle has the cosine ``1 / (2 kappa)``.
    """
    m = math.fsum((R * R / sd) ** 2 for R, sd in zip(s.radii, s.noise, strict=True))
    cosine = min(1.0, 0.5 * (s.clip / s.score_noise) ** 2 / m)
    first, second = np.eye(s.r)[0], np.eye(s.r)[-1]
    vectors = [first, second]
    if s.r > 1:
        vectors.append(cosine * first + math.sqrt(1.0 - cosine**2) * second)
    for e in vectors:
        for with_matrix in (0.0, 1.0):
            for f in vectors if s.people else (e,):
                for at, size in itertools.product(range(s.blocks), (-1.0, 0.0, 1.0)):
                    score = np.zeros((s.blocks, s.r))
                    score[at] = size * s.clip * f
                    yield [
                        *(with_matrix * R**2 * np.outer(e, e) for R in s.radii), score.reshape(-1)
                    ]  # fmt: skip


def _length(v: Array, norm: Norm) -> float:
    return float(np.abs(v).sum()) if norm == "l1" else float(np.sqrt((v * v).sum()))


def largest_distance(statistic: Any, relation: str, norm: Norm) -> float:
    """Return the largest distance of two elements (of one and none), weighted."""
    elements = corners(statistic, norm, np.random.default_rng(1))
    if relation != "replace":
        return max(_length(element, norm) for element in elements)
    best = 0.0
    for i, element in enumerate(elements):
        gaps = np.abs(elements[i + 1 :] - element)
        if len(gaps):
            sizes = gaps.sum(axis=1) if norm == "l1" else np.sqrt((gaps * gaps).sum(axis=1))
            best = max(best, float(sizes.max()))
    return best


def sensitivity_ratio(statistic: Any, relation: str, norm: Norm) -> float | None:
    """Return the largest distance of two elements over the sensitivity; None without a proof."""
    try:
        moved = sensitivity(statistic, relation, norm)
    except PrivacyBugError:
        return None
    return largest_distance(statistic, relation, norm) / moved


# --- noise ---------------------------------------------------------------------------------------
class _Scales:
    """Source whose draws are the exact scales, so that a draw can be identified."""

    private = True

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[Any]:
        return [Fraction(math.isqrt(sigma2.numerator), math.isqrt(sigma2.denominator))] * size

    def discrete_laplace(self, scale: Fraction, size: int) -> list[Any]:
        return [scale] * size


@dataclass(frozen=True, eq=False)
class _Nothing:
    """Pass over no rows with a given sum."""

    sums: Any = None

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        return self.sums


@dataclass(frozen=True)
class Kept:
    """Sums made before, used in place of rows by audits and tests."""

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return the sums used in place of the rows."""
        return rows


def _nought(values: Any) -> Any:
    """Return zeros in the shape of the given values."""
    if isinstance(values, tuple):
        return tuple(_nought(v) for v in values)
    values = np.asarray(values)
    out = np.zeros(values.shape, dtype=values.dtype)
    if values.dtype == object:
        out[...] = 0
    return out


def drawn_sd(request: Asked, door: type[Ask] = Ask) -> tuple[Array, Array]:
    """Return (drawn sd or scale, declared sd or scale) of every entry.

    The production door asks the query of a table of nothing, with a source that returns the scale
    of every draw in place of a draw.
    """
    query = request.query
    nought = Query(
        query.statistic, _Nothing(),
        lambda _: Added(_nought(request.added.values), request.added.step),
        query.unit, query.factor, query.whole,
    )  # fmt: skip
    source: Any = _Scales()
    noisy = door(
        None, Run((Step(request.step, request.mechanism),), source), request.relation
    )(request.step, nought)
    return noisy.values, noisy.sd


def noise_ratio(request: Asked, door: type[Ask] = Ask) -> tuple[float, float]:
    """Return the least and the largest of ``sd mu w / (sensitivity ROUND_UP)`` over all entries."""
    statistic: Any = request.query.statistic
    drawn, declared = drawn_sd(request, door)
    budget = request.mechanism.eps if request.norm == "l1" else request.mechanism.mu
    shaped: Any = statistic.parts(drawn) if isinstance(statistic, RankOne) else drawn
    entries = np.asarray(statistic.flat(shaped, request.norm), dtype=float)
    moved = sensitivity(statistic, request.relation, request.norm) * request.query.factor * ROUND_UP
    ratio = entries * budget * statistic.weights(request.norm) / (moved * request.query.unit)
    same = np.asarray(drawn / (declared * ROUND_UP))
    return float(min(ratio.min(), same.min())), float(max(ratio.max(), same.max()))


def statistics(requests: list[Asked]) -> list[tuple[Any, str]]:
    """Return the different statistics that were asked for, with their relations."""
    pairs: dict[tuple[Any, str], None] = {}
    for request in requests:
        if not isinstance(request.query.statistic, Of):
            pairs[(request.query.statistic, request.relation)] = None
    return list(pairs)


def recorded(plan: Plan[Any], data: Mapping[str, Any], seed: int = 0) -> Recorder:
    """Run the private stage of a plan on columns; return the door with its recorded queries."""
    run = Run(plan.steps, SeededNoise(seed))
    door = Recorder(rows_for(plan, data, seed=seed), run, plan.guarantee.relation)
    with quiet(), np.errstate(all="ignore"):
        plan.backend.release(plan, door)
    return door


def rows_for(plan: Plan[Any], data: Any, units: int | None = None, seed: int = 0) -> Any:
    """Return columns as the rows (or people) that the private stage of a plan reads.

    ``data``: columns; of people also ``dp.per_person`` of a table. ``units``: how many there are,
    in place of what the plan says. Under add-remove the columns may have any length.
    """
    from dpmodels.sources.people import CappedRows, PeopleRows

    source: Any = DictSource(data) if isinstance(data, Mapping) else data
    n = source.n or 0
    person, public_n = plan.request.unit, plan.n is not None
    if person is None:
        return Rows(source, n, public_n=public_n)
    if person.most:
        people = PeopleRows(source, units or plan.people or 0, person)
        return CappedRows(people, plan.design.kinds, SeededNoise(seed))
    return PeopleRows(source, units or plan.n or n, person, public_n=public_n)
