"""Numbers that are functions of exact sums, and how far one unit moves them.

A lemma takes public numbers and says the reach; the theory note that it names proves it. The
allowance for floats (2^-20 for the public grid, and what eigenvalues and solves round) is part of
the lemma, so that it is paid once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.exact.symmetric import float_allowance

#: Pays for the rounding to a public grid, where nothing else is a float.
GRID = 1.0 + 2.0**-20


@dataclass(frozen=True)
class Lemma:
    """One line of the table: a bound on what one unit moves a function of exact sums by.

    ``reach(relation, norm, *public)``; ``theory``: file under ``dpmodels`` and section.
    """

    name: str
    statement: str
    theory: tuple[str, str]
    reach: Callable[..., float]
    relations: tuple[str, ...] = ("replace",)


@dataclass(frozen=True)
class Of:
    """A function of exact sums, with ``size`` numbers, whose reach a lemma gives.

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

    def reach(self, relation: str, norm: str) -> float:
        """Return what the lemma says."""
        if self.lemma not in LEMMAS:
            raise PrivacyBugError(f"no lemma {self.lemma!r}")
        if relation not in LEMMAS[self.lemma].relations:
            raise PrivacyBugError(f"the lemma {self.lemma!r} is not proved under {relation!r}")
        if norm != "l2" and self.size > 1:
            raise PrivacyBugError(f"the lemma {self.lemma!r} is one of Euclidean norms")
        return float(LEMMAS[self.lemma].reach(relation, norm, *self.public))


def _eigenvalue(relation: str, norm: str, square: float, p: float, rows: float) -> float:
    # Removing a row lowers it by at most R^2, adding raises it by at most R^2: both relations.
    return square * (1.0 + float_allowance(int(p), int(rows)))


def _one_sided(relation: str) -> float:
    # under replace-one a removal and an addition are charged each (privacy/one_sided.md, 1)
    return 2.0 if relation == "replace" else 1.0


def _eigenvalue_on_grid(relation: str, norm: str, square: float) -> float:
    # The same at a small dimension, where 2^-20 pays for floats too; ``factor``: of the relation.
    # Under replace-one a removal and an addition are charged each (``privacy/one_sided.md``, 1).
    return square * GRID * _one_sided(relation)


def _log_residual(relation: str, norm: str, square: float, ridge: float) -> float:
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


def _kernel_mass(relation: str, norm: str, n: float) -> float:
    # A kernel is in [0, 1]: the least of the masses moves by at most 1.
    return GRID + 64.0 * n * 2.0**-53


def _kernel_curves(relation: str, norm: str, n: float, lattice: float) -> float:
    # (y k, k) of a row have norm at most sqrt 2 each in the kernel's space: 2 apart at most.
    return 2.0 * (GRID + 1e5 * n * 2.0**-53) + lattice


def _kernel_quotient(relation: str, norm: str, factor: float, lower: float, n: float) -> float:
    # A quotient N/D moves by at most ``factor / D'``, D' at least the released lower bound.
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
              ("exact/theory.md", "1.4"), _eigenvalue, BOTH),
        Lemma("least eigenvalue, by relation", "lambda_min(X'X) moves by at most B^2, one-sided",
              ("models/linear/posterior.md", "2.5"), _eigenvalue_on_grid, BOTH),
        Lemma("log residual", "log(Y + B |theta|) of a ridge solution, adding or removing a row",
              ("models/linear/posterior.md", "2.5"), _log_residual, BOTH),
        Lemma("squared residuals", "a quadratic form of moments that is a sum of bounded squares",
              ("models/linear/eptr.md", "3"), _residual, BOTH),
        Lemma("eigengap", "lambda_k - lambda_(k+1) of unit rows moves by at most 1",
              ("models/components/theory.md", "5.3"), _eigengap, BOTH),
        Lemma("least kernel mass", "the least of sums of kernels in [0, 1] moves by at most 1",
              ("models/kernel/theory.md", "8"), _kernel_mass),
        Lemma("kernel curves", "numerator and mass in the norm of the kernel's space",
              ("models/kernel/theory.md", "8"), _kernel_curves),
        Lemma("kernel quotient", "a weighted mean over at least the released mass",
              ("models/kernel/theory.md", "8"), _kernel_quotient),
        Lemma("class means", "class means times released lower bounds of their counts",
              ("models/bayes/theory.md", "7"), _class_means),
        Lemma("margin", "difference of the two largest counts of votes",
              ("models/votes/theory.md", "5.1"), _margin),
        Lemma("rejections", "number of disjoint parts on which a test rejects",
              ("models/table/theory.md", "3.4"), _rejections),
        Lemma("unit matrices", "sums of positive semidefinite matrices of norm at most 1",
              ("exact/theory.md", "1.1"), _unit_matrices, BOTH),
    )
}  # fmt: skip
