"""Gaussian Bayes classifier: class statistics on the lattice, and the classifier itself.

Features are the design columns without the intercept, in half-ranges (``u in [-1, 1]``, dummies
0/1), or, with ``R=``, in their own units scaled into the ball of radius R.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.estimate import Array
from dpmodels.moments.rowmap import RowMap, UnitScale, void_missing

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["ClassSums", "FeatureScale", "class_sums", "feature_scale"]


@dataclass(frozen=True)
class FeatureScale:
    """Public map of the features, and the row bounds that follow from it.

    Attributes
    ----------
    columns : tuple of int
        Rows of the block buffer that are features.
    rowmap : RowMap
    centre, half : (d,) arrays
        ``x = centre + half * u``.
    norm : float
        Bound on ``|u|``.
    square_shared, square_class : float
        L2 sensitivity of the sums of squares: pooled, and by class.
    """

    columns: tuple[int, ...]
    rowmap: RowMap
    centre: Array
    half: Array
    norm: float
    square_shared: float
    square_class: float


def feature_scale(design: Design, radius: float | None) -> FeatureScale:
    """Return the map of a design (with known intervals, unless ``radius`` is given)."""
    columns = tuple(j for j, c in enumerate(design.columns) if c.kind != "intercept")
    d = len(columns)
    if radius is not None:
        # x -> x / R in the unit ball: |u|^2 has L1 norm at most 1, two such differ by sqrt(2)
        unit = UnitScale(np.full(d, 1.0 / radius), np.zeros(d), False)
        rowmap = RowMap(unit, np.ones(d), ball=d, radius=1.0, project=True)
        root = math.sqrt(2.0)
        return FeatureScale(columns, rowmap, np.zeros(d), np.full(d, radius), 1.0, root, root)
    kinds = [design.columns[j].kind for j in columns]
    intervals = design.intervals()[list(columns)]
    dummy = np.array([k == "dummy" for k in kinds], dtype=bool)
    centre = np.where(dummy, 0.0, intervals.mean(axis=1))
    half = np.where(dummy, 1.0, np.maximum((intervals[:, 1] - intervals[:, 0]) / 2.0, 1e-300))
    numeric = int((~dummy).sum())
    # the dummies of one factor: at most one of them is 1
    factors = len({design.columns[j].term for j in columns if design.columns[j].kind == "dummy"})
    unit = UnitScale(1.0 / half, -centre / half, False)
    return FeatureScale(
        columns,
        RowMap(unit, np.ones(d)),
        centre,
        half,
        math.sqrt(numeric + factors),
        math.sqrt(numeric + 2 * factors),
        math.sqrt(2.0 * (numeric + factors)),
    )


@dataclass(frozen=True)
class ClassSums:
    """Exact integers: counts (K,), sums (K, d) in 2^-20, squares (K, d) in 2^-40. Confidential."""

    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    squares: npt.NDArray[np.object_]

    def __repr__(self) -> str:
        return "<ClassSums, confidential>"


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
            z = scale.rowmap.integers(block[index])
            void = np.isnan(code) | np.isnan(z).any(axis=0)
            void_missing(z)
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
