"""Gaussian Bayes classifier: class statistics on the lattice, and the classifier itself.

Features are the design columns without the intercept, in half-ranges (``u in [-1, 1]``, dummies
0/1), or, with ``R=``, in their own units scaled into the ball of radius R.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.features import FeatureScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


def features_of(design: Design) -> tuple[str, ...]:
    """Return the names of the features; refuse a design without any."""
    features = tuple(c.name for c in design.columns if c.kind != "intercept")
    if not features:
        raise RequestError("a classifier needs at least one feature on the right-hand side")
    return features


def parameter_names(design: Design) -> tuple[str, ...]:
    """Return "level: prior" and "level: feature" of every class, in the order of ``params``."""
    whats = ("prior", *features_of(design))
    return tuple(f"{level}: {what}" for level in design.levels for what in whats)


@dataclass(frozen=True)
class ClassSums:
    """Exact integers: counts (K,), sums (K, d) in 2^-20, squares (K, d) in 2^-40. Confidential."""

    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    squares: npt.NDArray[np.object_]

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(
            self.counts + other.counts, self.sums + other.sums, self.squares + other.squares
        )

    def __repr__(self) -> str:
        return "<ClassSums, confidential>"


@dataclass(frozen=True, eq=False)
class ByClass:
    """The pass of :func:`class_sums`, for whoever adds up."""

    scale: FeatureScale
    classes: int

    def over(self, blocks: Iterable[Array], _: Any = None) -> ClassSums:
        """Return the sums over blocks. Confidential."""
        return class_sums(blocks, self.scale, self.classes)


def class_sums(blocks: Iterable[Array], scale: FeatureScale, classes: int) -> ClassSums:
    """Accumulate counts, sums and sums of squares by class in one pass.

    A row with a missing cell or an undeclared class adds nothing to anything.
    """
    d = len(scale.columns)
    counts = np.zeros(classes, dtype=np.int64)
    sums = np.zeros((classes, d), dtype=np.int64)
    squares = np.zeros((classes, d), dtype=object)
    index = list(scale.columns)
    with np.errstate(all="ignore"):
        for block in blocks:
            code = block[-1]
            z, there = scale.rowmap.ended(block[index])
            void = np.isnan(code) if there is None else np.isnan(code) | ~there
            y = np.where(void, classes, code).astype(np.intp)
            size = classes + 1
            counts += np.bincount(y, minlength=size)[:classes]
            for j in range(d):
                # integers below 2^20 over 2^13 rows, squares below 2^53: float sums are exact
                part = np.bincount(y, weights=z[j], minlength=size)[:classes]
                sums[:, j] += part.astype(np.int64)
                part = np.bincount(y, weights=z[j] * z[j], minlength=size)[:classes]
                squares[:, j] += part.astype(np.int64)
    return ClassSums(counts, sums, squares)
