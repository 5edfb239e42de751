"""The prover: how far one unit can move a statistic. The only module that decides a sensitivity.

Every line is a paragraph of ``theory.md`` (1.8); corners of the clip sets attain it in
``tests/privacy/test_queries.py``. Lattice factors are left out: the radius of a set is 1, or what
the set says. ``sensitivity`` is of the *weighted* statistic, so that an entry of weight w gets
noise of sd ``sensitivity / (mu w)`` (Gaussian), of scale ``sensitivity / (eps w)`` (Laplace).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.proof.sets import (
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
    float_allowance,
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
    Ranks,
    Split,
    Stack,
    Statistic,
    Sum,
    Tree,
)

# -- Numbers that are functions of exact sums, and how far one unit moves them.
#
# A lemma takes public numbers and says the sensitivity; the theory note that it names proves it.
# The allowance for floats (2^-20 for the public grid, and what eigenvalues and solves round) is
# part of it: the lemma, so that it is paid once.


#: Pays for the rounding to a public grid, where nothing else is a float.
GRID = 1.0 + 2.0**-20


@dataclass(frozen=True)
class Lemma:
    """Line of the table: a bound on the change of a function of exact sums by one unit.

    ``sensitivity(relation, norm, *public)``; ``theory``: file under ``dpmodels`` and section.
    """

    name: str
    statement: str
    theory: tuple[str, str]
    sensitivity: Callable[..., float]
    relations: tuple[str, ...] = ("replace",)


@dataclass(frozen=True)
class Of:
    """A function of exact sums, with ``size`` numbers, whose sensitivity a lemma gives.

    ``public`` are the lemma's own public numbers, in its order.
    """

    lemma: str
    public: tuple[float, ...]
    size: int = 1

    step = 1.0

    def weights(self, norm: str) -> Array:
        """Return 1 for every number."""
        return np.ones(self.size)

    def flat(self, values: object, norm: str) -> Array:
        """Return the numbers in order."""
        return np.asarray(values).ravel()

    def shaped(self, flat: Array, norm: str) -> Array:
        """Return them as they are."""
        return flat

    def sensitivity(self, relation: str, norm: str) -> float:
        """Return the bound of the lemma."""
        if self.lemma not in LEMMAS:
            raise PrivacyBugError(f"no lemma {self.lemma!r}")
        if relation not in LEMMAS[self.lemma].relations:
            raise PrivacyBugError(f"the lemma {self.lemma!r} is not proved under {relation!r}")
        if norm != "l2" and self.size > 1:
            raise PrivacyBugError(f"the lemma {self.lemma!r} is one of Euclidean norms")
        return float(LEMMAS[self.lemma].sensitivity(relation, norm, *self.public))


def _eigenvalue(relation: str, norm: str, square: float, p: float, rows: float) -> float:
    # Removing a row lowers it by at most R^2, adding raises it by at most R^2: both relations.
    return square * (1.0 + float_allowance(int(p), int(rows)))


def _one_sided(relation: str) -> float:
    # under replace-one a removal and an addition are charged each (privacy/one_sided.md, 1)
    return 2.0 if relation == "replace" else 1.0


def _eigenvalue_on_grid(relation: str, norm: str, square: float) -> float:
    """Return the sensitivity of a released least eigenvalue."""
    # The same at a small dimension, where 2^-20 allows for floats too; ``factor`` is that of the
    # relation. Under replace-one a removal and an addition are charged each
    # (``privacy/one_sided.md``, 1).
    return square * GRID * _one_sided(relation)


def _log_residual(relation: str, norm: str, square: float, ridge: float) -> float:
    """Return the sensitivity of the log bound of residuals."""
    # ``-log(1 - B^2/lam*)``: the most that log(Y + B |theta*|) moves, adding or removing.
    if not ridge > square:
        raise PrivacyBugError("the ridge of the log residual's lemma is below a row's square")
    return -math.log1p(-square / ridge) * GRID * _one_sided(relation)


def _residual(relation: str, norm: str, bound: float, p: float, rows: float) -> float:
    # A squared residual is in [0, bound]: t'Gt moves by at most that under both relations.
    return bound * (1.0 + float_allowance(int(p), int(rows)))


def _eigengap(relation: str, norm: str) -> float:
    # The gap of a matrix of unit rows moves by at most 1 when a row comes or goes (Weyl).
    return GRID * _one_sided(relation)


def _kernel_masses(relation: str, norm: str, n: float, lattice: float) -> float:
    # K_x of a row has norm at most 1 in the kernel's space, and none is negative: sqrt 2 apart.
    return math.sqrt(2.0) * (GRID + 1e5 * n * 2.0**-53) + lattice


def _kernel_curves(relation: str, norm: str, n: float, lattice: float) -> float:
    # (y k, k) of a row have norm at most sqrt 2 each in the kernel's space: 2 apart at most.
    return 2.0 * (GRID + 1e5 * n * 2.0**-53) + lattice


def _kernel_quotient(relation: str, norm: str, factor: float, lower: float, n: float) -> float:
    # A quotient N/D moves by at most ``factor / D'``, D' at least the released lower bound; times
    # such bounds of its points (lower = 1) by the factor.
    return factor / lower * (GRID + 64.0 * n * 2.0**-53)


def _class_means(relation: str, norm: str, length: float) -> float:
    # Means times lower counts: one class 2 R, two classes sqrt 8 R.
    return math.sqrt(8.0) * length * GRID


def _margin(relation: str, norm: str) -> float:
    # One vote moves two counts by one: the margin of the two largest by at most 2.
    return 2.0


def _rejections(relation: str, norm: str) -> float:
    # A row is in one part, whatever it holds: the number of parts that reject moves by 1.
    return 1.0


def _unit_matrices(relation: str, norm: str, parts: float) -> float:
    # Positive semidefinite matrices of norm at most 1 a unit, as svec: sqrt 2 apart each.
    return math.sqrt((2.0 if relation == "replace" else 1.0) * parts) * GRID


BOTH = ("replace", "add-remove")
LEMMAS: dict[str, Lemma] = {
    lemma.name: lemma
    for lemma in (
        Lemma("least eigenvalue", "lambda_min(X'X) of rows in a ball moves by at most R^2",
              ("proof/theory.md", "1.4"), _eigenvalue, BOTH),
        Lemma("least eigenvalue, by relation", "lambda_min(X'X) moves by at most B^2, one-sided",
              ("models/linear/posterior.md", "2.5"), _eigenvalue_on_grid, BOTH),
        Lemma("log residual", "log(Y + B |theta|) of a ridge solution, adding or removing a row",
              ("models/linear/posterior.md", "2.5"), _log_residual, BOTH),
        Lemma("squared residuals", "a quadratic form of moments that is a sum of bounded squares",
              ("models/linear/eptr.md", "3"), _residual, BOTH),
        Lemma("eigengap", "lambda_k - lambda_(k+1) of unit rows moves by at most 1",
              ("models/components.md", "5.3"), _eigengap, BOTH),
        Lemma("kernel masses", "sums of kernels in the norm of the kernel's space",
              ("models/kernel.md", "8"), _kernel_masses),
        Lemma("kernel curves", "numerator and mass in the norm of the kernel's space",
              ("models/kernel.md", "8"), _kernel_curves),
        Lemma("kernel quotient", "a weighted mean over at least the released mass",
              ("models/kernel.md", "8"), _kernel_quotient),
        Lemma("class means", "class means times released lower bounds of their counts",
              ("models/bayes.md", "7"), _class_means),
        Lemma("margin", "difference of the two largest counts of votes",
              ("models/votes.md", "5.1"), _margin),
        Lemma("rejections", "number of disjoint parts on which a test rejects",
              ("models/table/theory.md", "3.4"), _rejections),
        Lemma("unit matrices", "sums of positive semidefinite matrices of norm at most 1",
              ("proof/theory.md", "1.1"), _unit_matrices, BOTH),
    )
}  # fmt: skip


# -- The prover: how far one unit can move a statistic. The only module that decides a sensitivity.


# -- Sensitivities of second-moment queries (statements and proofs: ``theory.md``, section 1)


_SEARCH_POINTS = 20_001


def gram_sensitivity(dimension: int, relation: str = "replace") -> float:
    """Return the Frobenius sensitivity of ``sum z z'`` for ``|z| <= 1``.

    ``|zz' - z'z''|_F^2 = |z|^4 + |z'|^4 - 2 (z.z')^2 <= 2`` (replace), ``|z|^4 <= 1`` (add or
    remove, and replace in dimension 1).
    """
    return math.sqrt(2.0) if relation == "replace" and dimension > 1 else 1.0


def gram_l1(dimension: int, relation: str = "replace") -> float:
    """Return the L1 sensitivity of the upper triangle of ``sum z z'`` for ``|z| <= 1``.

    Replace: ``sqrt(k (k + 3) / 2)``, since the L1 norm is ``max <T, D>`` over sign matrices T (1 on
    the diagonal, 1/2 off it) and ``|T|_F^2 = k (k + 3) / 4``, ``|D|_F^2 <= 2``. One row alone (add
    or remove): ``(|z|_1^2 + |z|_2^2) / 2 <= (k + 1) / 2``.
    """
    k = float(dimension)
    if relation != "replace":
        return (k + 1.0) / 2.0
    return math.sqrt(k * (k + 3.0) / 2.0) if dimension > 1 else 1.0


def separate_sensitivity(a: float, b: float, c: float) -> float:
    """Return S of ``(a X'X [svec], b X'y, c y'y)`` at unit radii, replace-one.

    Tight for p >= 2, valid for p = 1.
    """
    a2, b2, c2 = a * a, b * b, c * c
    if b2 <= 2.0 * a2:
        return math.sqrt(max(2.0 * a2 + b2 + c2, 2.0 * (a + b2 / (2.0 * a)) ** 2))
    if c2 <= 2.0 * b2:
        return math.sqrt(max(2.0 * a2 + b2 + c2, 4.0 * b2))
    return intercept_sensitivity(a, b, c, 0.0, 0.0)


@lru_cache(maxsize=256)
def intercept_sensitivity(a: float, b: float, c: float, e: float, f: float) -> float:
    """Return S of ``(a X'X, e sum x, b X'y, c y'y, f sum y)`` at unit radii, n known.

    ``S^2 = max_{|w| <= 1} 2 a^2 + 2 e^2 + b^2 (1 + w^2) + phi(e^2 + b^2 w) + c^2 (1 - w^2)^2
    + f^2 (1 - w)^2`` with ``phi(h) = h^2 / (2 a^2)`` for ``|h| <= 2 a^2``, else
    ``2 |h| - 2 a^2``; a grid of 20001 points misses at most 5e-9 of it. Replace-one only.
    """
    return math.sqrt(_intercept_square(a, b, c, e, f) * (1.0 + 1e-8))


def _intercept_square(a: float, b: float, c: float, e: float, f: float) -> float:
    """Return the maximum over a grid in 1.3 of ``proof/theory.md``."""
    w = np.linspace(-1.0, 1.0, _SEARCH_POINTS)
    h = np.abs(e * e + b * b * w)
    a2 = 2.0 * a * a
    phi = np.where(h <= a2, h * h / a2, 2.0 * h - a2)
    value = a2 + 2.0 * e * e + b * b * (1.0 + w * w) + phi
    value += c * c * (1.0 - w * w) ** 2 + f * f * (1.0 - w) ** 2
    return float(value.max())


def add_remove_sensitivity(*weights: float) -> float:
    """Return S of the same queries, count included, when one row is added or removed."""
    return math.sqrt(math.fsum(w * w for w in weights))


#: Enlarges the joint sensitivity: rows on a lattice are parallel up to 2^-20 sqrt p only.
LATTICE = 1.0 + 2.0**-12
#: Largest number of columns for which ``LATTICE`` was proved to be enough.
MOST_COLUMNS = 4096
#: Squares of u are rounded towards zero after u was: what the two roundings can add.
_TRUNCATED = 1.0 + 2.0**-18
#: More than a norm of weights, each rounded, loses.
_ROUNDED = 1.0 + 2.0**-48


def sensitivity(statistic: Statistic | Of, relation: str, norm: Norm) -> float:
    """Return the largest change of a statistic, weighted, for one unit.

    Raise ``PrivacyBugError`` where there is no proof for the relation or the norm, or the number is
    not positive and finite.
    """
    if relation not in ("replace", "add-remove") or norm not in ("l2", "l1"):
        raise PrivacyBugError(f"no sensitivity for relation {relation!r} and norm {norm!r}")
    if isinstance(statistic, Of):
        bound = statistic.sensitivity(relation, norm)
    else:
        bound = _REACHES[type(statistic)](statistic, relation, norm)
    if not (bound > 0.0 and math.isfinite(bound)):
        raise PrivacyBugError(f"{statistic!r} has no sensitivity under {relation!r} in {norm}")
    return float(bound)


def rank_sensitivity(s: Ranks) -> int:
    """Return the change of the penalties of all groups by one unit, in steps of ``s.step``.

    One group: 1. Several: also ``max(q, 1 - q)`` in each of the two groups of a row that changes
    its group, or 1 in each where the target has an offset: at a cut one of them is 1. One person
    the same, spread over however many groups (``units.md``, 11). Replace-one only.
    """
    q = s.q
    most = q.denominator if s.offset else max(q.numerator, q.denominator - q.numerator)
    return max(q.denominator, 2 * most * s.groups) * (s.unit or 1)


def noise_of(statistic: Statistic | Of, mechanism: Any, relation: str) -> Array:
    """Return the noise sd (Gaussian) or scale (Laplace) of every number, the radius being 1."""
    if isinstance(mechanism, Pure):
        return sensitivity(statistic, relation, "l1") / (mechanism.eps * statistic.weights("l1"))
    if isinstance(mechanism, Gaussian):
        return sensitivity(statistic, relation, "l2") / (mechanism.mu * statistic.weights("l2"))
    raise PrivacyBugError(f"no noise of {mechanism!r} for a query")


def _no_proof(statistic: Any, relation: str, norm: str) -> float:
    """Raise the error for a statistic without a proven sensitivity."""
    raise PrivacyBugError(f"{type(statistic).__name__} has no proof under {relation!r} in {norm}")


def _joint_norm(norm: Norm, *parts: float) -> float:
    """Return the norm of parts that can all be attained at once."""
    return math.fsum(parts) if norm == "l1" else math.sqrt(math.fsum(p * p for p in parts))


def _sum(s: Sum, relation: str, norm: Norm) -> float:
    """Return the sensitivity of a sum over the elements of a set."""
    of, k, w = s.set, s.count, s.weight
    if isinstance(of, ConvexHull):  # norms are convex: a person is no worse than a row
        return _sum(Sum(of.of, k, w, s.count_first), relation, norm)  # type: ignore[arg-type]
    if isinstance(of, Interval):
        alone = _joint_norm(norm, w * max(of.high, -of.low), k)
        return max(w * (of.high - of.low), alone if k else 0.0) if relation == "replace" else alone
    if isinstance(of, OneHot):
        added, two = w, w * (2.0 if norm == "l1" else math.sqrt(2.0))
        if relation != "replace":
            return _joint_norm(norm, added, k)
        return max(two if of.cells > 1 else added, _joint_norm(norm, added, k))
    if isinstance(of, PairMeans):
        if norm == "l1" or k:
            return _no_proof(s, relation, norm)
        # |x| <= q <= 1: opposite pairs are 2 apart; a present pair and no pair sqrt 3
        return w * (2.0 if relation == "replace" else math.sqrt(3.0)) * _ROUNDED
    d = float(of.dim)
    if isinstance(of, (Blocks, Simplex, Orthant)):
        if isinstance(of, Orthant):  # not negative: |a - b|^2 <= |a|^2 + |b|^2
            added = w * math.sqrt(of.square * (d if norm == "l1" else 1.0)) * _ROUNDED
            apart = math.sqrt(2.0) * added * _ROUNDED
        elif isinstance(of, Simplex):  # not negative, adding up to 1 at most
            added, apart = w, w * (2.0 if norm == "l1" else math.sqrt(2.0))
        else:
            once, twice = of.single + len(of.blocks), of.single + 2 * len(of.blocks)
            added = w * (once if norm == "l1" else math.sqrt(once))
            apart = w * (twice if norm == "l1" else math.sqrt(twice))
    elif isinstance(of, Ball):
        added = w * of.radius * (math.sqrt(d) if norm == "l1" else 1.0)
        apart = 2.0 * added
    else:
        added = w * of.radius * (d if norm == "l1" else math.sqrt(d))
        apart = (1.0 - of.low) * added
    # two present units at opposite ends, or a present and a missing one
    alone = _joint_norm(norm, added, k)
    return max(apart, alone) if relation == "replace" else alone


def _gram(s: Gram, relation: str, norm: Norm) -> float:
    """Return the sensitivity of a Gram matrix."""
    of = s.set.of if isinstance(s.set, ConvexHull) else s.set
    if isinstance(of, Box):
        k, square = of.dim + of.one, of.radius**2 * (of.dim + of.one)
    elif isinstance(of, (Ball, NuclearBall)):
        k, square = of.dim, of.radius**2
    else:
        return _no_proof(s, relation, norm)
    if norm == "l1":
        return gram_l1(k, relation) * square
    if isinstance(of, Box) and of.one and of.radius == 1.0 and relation == "replace":
        # convex in each coordinate: corners decide, where 1 + a'b is odd if d is even
        return math.sqrt(2.0 * square * square - 2.0 * (of.dim % 2 == 0))
    return gram_sensitivity(k, relation) * square


def _split(s: Split, relation: str, norm: Norm) -> float:
    """Return the sensitivity of second moments with separate bounds."""
    if norm == "l1":
        return _no_proof(s, relation, norm)
    a, b, c, e, f, k = s.parts
    if relation != "replace":
        return add_remove_sensitivity(a, b, c, e, f, k)
    if not s.known:
        return separate_sensitivity(a, b, c)
    S = intercept_sensitivity(a, b, c, e, f)
    # a complete and a missing row; two complete ones do not move the count
    return max(S, add_remove_sensitivity(a, b, c, e, f, k))


def _objective(s: Objective, relation: str, norm: Norm) -> float:
    """Return the sensitivity of the functional mechanism's sums."""
    if norm != "l1":
        return _no_proof(s, relation, norm)
    added = 2.0 * math.sqrt(s.p) * s.rx * s.ry + s.p * s.rx * s.rx
    return 2.0 * added if relation == "replace" else added


def _powers(s: Powers, relation: str, norm: Norm) -> float:
    """Return the sensitivity of counts, sums and squares."""
    d = float(s.d)
    if norm == "l1":
        c = s.square
        added = s.count + d * (1.0 + c)
        # |u - v| (1 + c |u + v|): t (1 + c (2 - t)) on [-1, 1], the larger the farther if c <= 1/2
        far = 2.0 if c <= 0.5 else (1.0 + 2.0 * c) ** 2 / (4.0 * c)
        apart = d * (1.0 + c if s.low == 0 else far)
    elif s.count != 1.0 or s.square != 1.0:
        return _no_proof(s, relation, norm)
    else:
        added = math.sqrt(1.0 + 2.0 * d)
        # (u - u')^2 (1 + (u + u')^2): at most 4 on [-1, 1], 2 on [0, 1]
        apart = math.sqrt((2.0 if s.low == 0 else 4.0) * d)
    bound = max(added, apart) if relation == "replace" else added
    # with u of either sign two units can be at the corners where truncation pushes them apart
    return bound * (1.0 if s.low == 0 else _TRUNCATED)


def _pair(s: Pair, relation: str, norm: Norm) -> float:
    """Return the sensitivity of the six sums of a correlation."""
    if norm == "l1":
        return _no_proof(s, relation, norm)
    # two complete pairs: |z|^4 + |z'|^4 - 2 (z.z')^2 with |z|^2 <= 3 and z.z' >= 1 somewhere:
    # at most 16; a complete and a missing one: 9 of svec, and 7 more of the count's weight
    return 4.0


def _cells(s: Cells, relation: str, norm: Norm) -> float:
    """Return the sensitivity of tables of counts with shares of the budget."""
    total = math.fsum(s.shares)
    if total > 1.0 + 1e-12:
        raise PrivacyBugError("shares of tables add up to more than 1")
    added = (total if norm == "l1" else math.sqrt(total)) * _ROUNDED
    if relation != "replace":
        return added
    return (2.0 if norm == "l1" else math.sqrt(2.0)) * added


def _tree(s: Tree, relation: str, norm: Norm) -> float:
    if norm == "l1":
        return (2.0 if relation == "replace" else 1.0) * s.levels
    return math.sqrt((2.0 if relation == "replace" else 1.0) * s.levels)


def _by_class(s: ByClass, relation: str, norm: Norm) -> float:
    """Return the sensitivity of sums by class, of which a unit is in one."""
    alone = sensitivity(s.each, "add-remove", norm)
    if relation != "replace":
        return alone
    return max(sensitivity(s.each, "replace", norm), _joint_norm(norm, alone, alone))


def _stack(s: Stack, relation: str, norm: Norm) -> float:
    pairs = zip(s.parts, s.shares, strict=True)
    parts = (share * sensitivity(part, relation, norm) for part, share in pairs)
    return _joint_norm(norm, *parts) * _ROUNDED


@lru_cache(maxsize=256)
def _rank_one(s: RankOne, relation: str, norm: Norm) -> float:
    """Return the sensitivity of matrices and scores that are released together."""
    if norm == "l1":
        return _no_proof(s, relation, norm)
    if len(s.radii) != len(s.noise):
        raise PrivacyBugError("radii and noises are not of the same parts")
    if not all(R > 0.0 and 0.0 < sd < math.inf for R, sd in zip(s.radii, s.noise, strict=True)):
        raise PrivacyBugError("a part with a radius and no noise")
    if not (s.clip > 0.0 and 0.0 < s.score_noise < math.inf):
        raise PrivacyBugError("scores without a clip or without noise")
    m = math.fsum((R * R / sd) ** 2 for R, sd in zip(s.radii, s.noise, strict=True))
    apart = s.people or s.blocks * s.r > MOST_COLUMNS  # (``scoring/theory.md``, 2.8)
    return joint_sensitivity(m, (s.clip / s.score_noise) ** 2, relation, s.r, people=apart)


def joint_sensitivity(
    matrices: float, scores: float, relation: str, r: int, *, people: bool = False
) -> float:
    """Return the sensitivity of matrices and scores of a scoring pass, jointly.

    Every matrix part of a row is a non-negative multiple of ``e e'``, and its score a multiple of
    the same unit vector e.

    ``matrices``: ``sum_i (R_i^2 / noise_i)^2``, the squared length of the matrix parts of one row
    at most. ``scores``: ``(C / noise)^2``. ``people``: the parts of one person are not parallel,
    and the norm of the parts' own bounds counts (``units.md``, 3).

    With kappa = matrices / scores the squared reach under replace-one is
    ``scores max(4 + kappa, 2 kappa + 2 + 1/(2 kappa))`` (the second for kappa >= 1/2), never more
    than the sum of the parts' own squares, ``4 scores + 2 matrices``; ``scores + matrices`` under
    add-remove (``scoring/theory.md``, 2.3).
    """
    if relation != "replace":
        return math.sqrt(matrices + scores)
    matrix_bound = sensitivity(Gram(Ball(r)), relation, "l2")
    square = 4.0 * scores + matrix_bound**2 * matrices
    if 1 < r <= MOST_COLUMNS and not people:
        kappa = matrices / scores
        best = 4.0 + kappa
        if kappa >= 0.5:
            best = max(best, 2.0 * kappa + 2.0 + 0.5 / kappa)
        square = min(square, scores * best * LATTICE**2)
    return math.sqrt(square)


def cluster_move(B: float, C: float, r: int) -> float:
    """Return ``g(B, C) = max |aa' - bb'|_F`` over ``|a|, |b| <= B, |a - b| <= C``.

    With |a| = B and x = |b|^2 the square is ``B^4 + x^2 - (B^2 + x - C^2)^2/2``, convex in x:
    largest at an end of what x may be (``theory.md``, 1.9). In one dimension
    ``B^2 - max(B - C, 0)^2``.
    """
    if r == 1:
        return B * B - max(B - C, 0.0) ** 2
    if 3.0 * C <= 2.0 * B:
        return C * (2.0 * B - C)
    if C * C <= 2.0 * B * B:
        return C * math.sqrt((4.0 * B * B - C * C) / 2.0)
    return math.sqrt(2.0) * B * B


def _of_clusters(s: ClusterGram, relation: str, norm: Norm) -> float:
    """Return the sensitivity of products of sums: a row leaves one cluster and enters another."""
    if norm == "l1":
        return _no_proof(s, relation, norm)
    if s.several:  # g(B, c) <= 2 B c, summed over the clusters that a person leaves and enters
        return (4.0 if relation == "replace" else 2.0) * s.clip
    moves = 2.0 if relation == "replace" else 1.0
    return moves * cluster_move(1.0, s.clip + s.slack, s.dim)


def _totals(s: ClusterTotals, relation: str, norm: Norm) -> float:
    """Return the sensitivity of totals: two pulled sums by C each, in one stratum or in two.

    For a person in several clusters the changes sum to twice C (with the slack of each part).
    """
    if norm == "l1":
        return _no_proof(s, relation, norm)
    sums = 2.0 if relation == "replace" else 1.0
    return sums * (s.clip if s.several else s.clip + s.slack)


def _clusters(s: Clusters, relation: str, norm: Norm) -> float:
    """Return 1: one cluster may lose its only row, and one may get its first."""
    return 1.0


_REACHES: dict[type, Any] = {
    RankOne: _rank_one, ByClass: _by_class, Cells: _cells, ClusterGram: _of_clusters,
    Clusters: _clusters, ClusterTotals: _totals, Gram: _gram, Objective: _objective,
    Pair: _pair, Powers: _powers, Split: _split, Stack: _stack, Sum: _sum, Tree: _tree,
}  # fmt: skip
