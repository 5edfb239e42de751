"""Elements of clip sets, and the contribution of one to a statistic: for audits and tests.

The prover (:mod:`dpmodels.proof.prove`) reads the fields of sets and statistics only. Here
:func:`is_element` decides in exact integers, and :func:`corners_of` draws elements at which the
largest distances are reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

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
    Simplex,
)
from dpmodels.proof.statistics import (
    ByClass,
    Cells,
    Clusters,
    ClusterTotals,
    Gram,
    Objective,
    Pair,
    Powers,
    RankOne,
    Split,
    Stack,
    Sum,
    Tree,
)

Integers = npt.NDArray[np.object_]
Rng = np.random.Generator
_ONE = int(STEPS)


def _ints(values: Any) -> Integers:
    out = np.empty(np.shape(values), dtype=object)
    out[...] = np.vectorize(int, otypes=[object])(values) if out.size else values
    return out


@dataclass(frozen=True)
class Product:
    """Pairs (x, y) with separate bounds; with ``x.one`` a missing pair is 0 in both."""

    x: Ball | Box
    y: Box

    @property
    def dim(self) -> int:
        """Length of x without its constant, and of y."""
        return self.x.dim + self.y.dim


def set_of(s: Any) -> Any:
    """Return the clip set whose elements a statistic is a sum over."""
    if isinstance(s, Split):  # slopes in a ball, the response in an interval
        return Product(Ball(s.p - s.known), Box(1))
    if isinstance(s, Objective):
        return Product(Ball(s.p), Box(1))
    if isinstance(s, Powers):  # the columns, and whether the unit is complete
        return Box(s.d, one=True, low=s.low)
    if isinstance(s, Pair):
        return Box(2, one=True)
    if isinstance(s, Cells):  # the mass of a unit in one table
        return Simplex(max(s.sizes), complete=True)
    if isinstance(s, (Tree, Clusters)):  # one node a level; one cluster, or none
        return OneHot(1 + isinstance(s, Tree))
    if isinstance(s, (RankOne, ClusterTotals)):  # the row's own vector; a pulled sum
        return Ball(s.r if isinstance(s, RankOne) else s.dim)
    if isinstance(s, (ByClass, Stack)):
        return set_of(s.each if isinstance(s, ByClass) else s.parts[0])
    return s.set


@singledispatch
def is_element(s: Any, k: Integers) -> bool:
    """Return whether integers are an element of a set, in steps of a radius over 2^20."""
    raise TypeError(f"{type(s).__name__} is no set")


@singledispatch
def corners_of(s: Any, rng: Rng, many: int = 8) -> list[Integers]:
    """Return elements of a set, extreme ones and ``many`` at random."""
    raise TypeError(f"{type(s).__name__} is no set")


@singledispatch
def contribution(s: Any, k: Integers) -> Any:
    """Return the contribution of one element of its set, in integer steps of ``step``."""
    return k


@is_element.register
def _(s: Ball, k: Integers) -> bool:
    """Whether an integer vector is an element."""
    return sum(int(v) ** 2 for v in k) <= (s.radius * STEPS) ** 2


@is_element.register
def _(s: Box, k: Integers) -> bool:
    """Whether an integer vector is an element."""
    if s.one:
        if int(k[-1]) == 0:
            return not any(int(v) for v in k)
        if int(k[-1]) != _ONE:
            return False
        k = k[:-1]
    top = int(s.radius * _ONE)
    return all(s.low * top <= int(v) <= top for v in k)


@is_element.register
def _(s: Product, k: Integers) -> bool:
    """Whether (x, y) is an element."""
    at = len(k) - s.y.dim
    return is_element(s.x, k[:at]) and is_element(s.y, k[at:])


@is_element.register
def _(s: Interval, k: Integers) -> bool:
    """Whether a number is an element."""
    return len(k) == 1 and s.low <= int(k[0]) <= s.high


@is_element.register
def _(s: Simplex, k: Integers) -> bool:
    """Whether a vector of masses is an element."""
    total = sum(int(v) for v in k)
    sums_to_one = total == _ONE if s.complete else total <= _ONE
    return sums_to_one and all(int(v) >= 0 for v in k)


@is_element.register
def _(s: Blocks, k: Integers) -> bool:
    """Whether an integer vector is an element."""
    inside = all(0 <= int(v) <= _ONE for v in k)
    return inside and all(sum(int(k[j]) for j in block) <= _ONE for block in s.blocks)


@is_element.register
def _(s: OneHot, k: Integers) -> bool:
    """Whether a vector of counts is an element."""
    return all(int(v) in (0, 1) for v in k) and sum(int(v) for v in k) <= 1


@is_element.register
def _(s: Orthant, k: Integers) -> bool:
    """Whether a vector of counts is an element."""
    return all(int(v) >= 0 for v in k) and sum(int(v) ** 2 for v in k) <= (
        s.square * _ONE * _ONE
    )


@is_element.register
def _(s: PairMeans, k: Integers) -> bool:
    """Whether three integers are an element."""
    x, present, q = (int(v) for v in k)
    if present == 0:
        return x == 0 and q == 0
    return present == _ONE and abs(x) <= q <= _ONE


@is_element.register
def _(s: NuclearBall, k: Integers) -> bool:
    """Whether rows (dim, m) are an element."""
    return sum(int(v) ** 2 for v in np.asarray(k).ravel()) <= (s.radius * STEPS) ** 2


@is_element.register
def _(s: ConvexHull, k: Integers) -> bool:
    """Return whether an integer vector is in the hull, by the bounds of its sets."""
    if isinstance(s.of, OneHot):  # shares of the cells, in steps of 2^-20
        return all(int(v) >= 0 for v in k) and sum(int(v) for v in k) <= _ONE
    if isinstance(s.of, Box) and s.of.one:
        c = int(k[-1])
        return 0 <= c <= _ONE and all(abs(int(v)) <= c for v in k[:-1])
    return is_element(s.of, k)


@corners_of.register
def _(s: Ball, rng: Rng, many: int = 8) -> list[Integers]:
    """Return elements: opposite, orthogonal, at 60 degrees, even, and none at all."""
    d, steps = s.dim, int(s.radius * STEPS)
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


@corners_of.register
def _(s: Box, rng: Rng, many: int = 8) -> list[Integers]:
    """Return elements: 0, corners of the box, those that share half of their signs."""
    d = s.dim
    signs = [np.ones(d), np.full(d, float(s.low)), np.zeros(d)]
    half = np.where(np.arange(d) < (d + 1) // 2, 1.0, float(s.low))
    signs += [half, np.where(half == 1.0, float(s.low), 1.0)]
    signs += [np.where(np.arange(d) < d // 2, 1.0, float(s.low))]
    signs += [np.where(rng.integers(2, size=d) == 0, 1.0, float(s.low)) for _ in range(many)]
    signs += [np.eye(d)[0], np.eye(d)[0] * s.low]
    rows = [np.append(row, 1.0) if s.one else row for row in signs]
    if s.one:
        rows.append(np.zeros(d + 1))
    return [_ints(np.trunc(r * s.radius * _ONE)) for r in rows]


@corners_of.register
def _(s: Product, rng: Rng, many: int = 4) -> list[Integers]:
    """Return the pairs of both sides' corners, and the missing one."""
    xs, ys = corners_of(s.x, rng, many), corners_of(s.y, rng, 0)
    pairs = [np.concatenate([x, y]) for x in xs for y in ys[:3]]
    return [*pairs, _ints(np.zeros(len(pairs[0])))]


@corners_of.register
def _(s: Interval, rng: Rng, many: int = 0) -> list[Integers]:
    """Return both ends, and 0 where it lies between."""
    ends = [s.low, s.high, *([0] if s.low <= 0 <= s.high else [])]
    return [_ints(np.array([v], dtype=object)) for v in ends]


@corners_of.register
def _(s: Simplex, rng: Rng, many: int = 4) -> list[Integers]:
    """Return whole masses in single cells, one that is divided, and none if there may be."""
    eye = [np.eye(s.cells)[j] * _ONE for j in {0, s.cells - 1, s.cells // 2}]
    divided = np.zeros(s.cells)
    divided[: min(2, s.cells)] = _ONE / min(2, s.cells)
    out = [*eye, divided]
    return [_ints(v) for v in out + ([] if s.complete else [np.zeros(s.cells)])]


@corners_of.register
def _(s: Blocks, rng: Rng, many: int = 0) -> list[Integers]:
    """Return all ones with the first of every block, or the last; zero; zero with the last."""
    out = []
    for at, numbers in ((0, 1.0), (-1, 1.0), (-1, 0.0)):
        row = np.full(s.dim, numbers)
        for block in s.blocks:
            row[list(block)] = 0.0
            row[block[at]] = 1.0
        out.append(row)
    return [_ints(row * _ONE) for row in [*out, np.zeros(s.dim)]]


@corners_of.register
def _(s: OneHot, rng: Rng, many: int = 0) -> list[Integers]:
    """Return the first cell, the last, and none."""
    rows = [np.eye(s.cells)[0], np.eye(s.cells)[-1], np.zeros(s.cells)]
    return [_ints(r) for r in rows]


@corners_of.register
def _(s: Orthant, rng: Rng, many: int = 4) -> list[Integers]:
    """Return all of it in one cell, or spread over either half of the cells; and none."""
    d, top = s.dim, math.isqrt(s.square * _ONE * _ONE)
    rows = [np.eye(d)[j] for j in (0, d - 1, d // 2)]
    half = np.where(np.arange(d) < (d + 1) // 2, 1.0, 0.0)
    rows += [half, 1.0 - half] if d > 1 else []
    out = [_ints(np.trunc(r / math.sqrt(r.sum()) * top * (1 - 1e-9))) for r in rows]
    return [*out, _ints(np.zeros(d))]


@corners_of.register
def _(s: PairMeans, rng: Rng, many: int = 0) -> list[Integers]:
    """Return two equal rows, two opposite ones, two with one at 0, and fewer than two."""
    rows = [(_ONE, _ONE, _ONE), (-_ONE, _ONE, _ONE), (0, _ONE, _ONE // 2), (0, 0, 0)]
    return [_ints(np.array(row, dtype=object)) for row in rows]


@corners_of.register
def _(s: NuclearBall, rng: Rng, many: int = 8) -> list[Integers]:
    """Return people of one row and of ``dim`` orthogonal ones; and nobody."""
    rows = [k[:, None] for k in corners_of(Ball(s.dim, s.radius), rng, many)]
    full = np.eye(s.dim) * int(s.radius * STEPS / np.sqrt(s.dim) * (1 - 1e-9))
    return [*rows, _ints(full)]


@corners_of.register
def _(s: ConvexHull, rng: Rng, many: int = 8) -> list[Integers]:
    """Return the corners of the set, in its steps."""
    corners = corners_of(s.of, rng, many)
    return [k * _ONE for k in corners] if isinstance(s.of, OneHot) else corners


@contribution.register
def _(s: Sum, k: Integers) -> Integers:
    """Return x, and whether the unit is there: a unit of the lattice."""
    k = k * int(STEPS) if s.products else k
    if not s.count > 0.0:
        return k
    present = np.array([round(1.0 / s.step) if any(int(v) for v in k) else 0], dtype=object)
    return np.concatenate([present, k] if s.count_first else [k, present])


@contribution.register
def _(s: Gram, k: Integers) -> Integers:
    """Return z z', or the sum over the rows of a person."""
    z = k if k.ndim == 2 else k[:, None]
    return np.asarray(z @ z.T, dtype=object)


@contribution.register
def _(s: Split, k: Integers) -> Integers:
    """Return the moments of a row at the bounds: slopes times rx, the response times ry."""
    if not any(int(v) for v in k):
        return np.zeros((s.p + 1, s.p + 1), dtype=object)
    x, y = np.asarray(k[:-1], dtype=float), np.asarray(k[-1:], dtype=float)
    parts = [x * s.rx, y * s.ry]
    z = np.concatenate([[STEPS], *parts] if s.known else parts)
    return np.asarray(np.outer(z, z), dtype=object)


@contribution.register
def _(s: Objective, k: Integers) -> Integers:
    """Return the coefficients of a row at the bounds."""
    x, y = np.asarray(k[:-1], dtype=float) * s.rx, float(k[-1]) * s.ry
    upper = np.triu_indices(s.p)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    return np.concatenate([2.0 * x * y, np.outer(x, x)[upper] * twice]).astype(object)


@contribution.register
def _(s: Powers, k: Integers) -> Integers:
    """Return count, sums and squares, these rounded towards zero."""
    squares = [int(v) ** 2 >> 20 for v in k[:-1]]
    return np.array([k[-1], *k[:-1], *squares], dtype=object)


@contribution.register
def _(s: Pair, k: Integers) -> Integers:
    """Return the six products of (x, y, 1)."""
    x, y, constant = k
    return np.array(
        [constant * constant, x * constant, y * constant, x * x, x * y, y * y], dtype=object
    )


@contribution.register
def _(s: Cells, k: Integers) -> Integers:
    """Return a mass put into the largest table, and so far as there is room into others."""
    unit = 1 if s.counts else int(STEPS)
    out = []
    for size in s.sizes:
        part = np.zeros(size, dtype=object)
        part[:] = 0
        part[: len(k)] += np.asarray(k[:size], dtype=object) * unit // int(STEPS)
        part[-1] += unit - sum(int(v) for v in part)
        out.append(part)
    return np.concatenate(out)


@contribution.register
def _(s: Tree, k: Integers) -> Integers:
    """Return one node of every level: the first, the last, or none."""
    out = []
    for size in s.sizes:
        part = np.zeros(size, dtype=object)
        part[:] = 0
        part[0], part[-1] = int(k[0]), int(k[-1])
        out.append(part)
    return np.concatenate(out) * round(1.0 / s.step)


@contribution.register
def _(s: ByClass, k: Integers) -> Any:
    """Return a unit in the first class, or in the last where its first number is negative."""
    mine = contribution(s.each, k)
    count = s.each.count > 0.0
    x = (mine[1:] if s.each.count_first else mine[:-1]) if count else mine
    out = np.zeros((s.classes, len(x)), dtype=object)
    counts = np.zeros(s.classes, dtype=object)
    at = -1 if int(k[0]) < 0 else 0
    out[at] = x
    counts[at] = (mine[0] if s.each.count_first else mine[-1]) if count else 0
    return (out, counts) if count else out


@contribution.register
def _(s: Stack, k: Integers) -> Any:
    """Return the contribution of one element to each part."""
    return [contribution(part, k) for part in s.parts]


@contribution.register
def _(s: RankOne, k: Integers) -> Any:
    """Return the parts of a row along k, as large as they can be, in real units."""
    e = np.asarray(k, dtype=float) / STEPS
    score = np.zeros(s.blocks * s.r)
    score[: s.r] = s.clip * e
    return [*(R**2 * np.outer(e, e) for R in s.radii), score]
