"""Public maps of features to half-ranges, and the row bounds that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.rowmap import RowMap, UnitScale
from dpmodels.exact.sets import Blocks, Mass

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["FeatureScale", "feature_scale"]


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
    squares : Mass or Blocks
        Clip set of a row's squares.
    """

    columns: tuple[int, ...]
    rowmap: RowMap
    centre: Array
    half: Array
    norm: float
    squares: Mass | Blocks


def feature_scale(design: Design, radius: float | None) -> FeatureScale:
    """Return the map of a design (with known intervals, unless ``radius`` is given)."""
    columns = tuple(j for j, c in enumerate(design.columns) if c.kind != "intercept")
    d = len(columns)
    if radius is not None:
        # x -> x / R in the unit ball: the squares add up to 1 at most
        unit = UnitScale(np.full(d, 1.0 / radius), np.zeros(d), False)
        rowmap = RowMap(unit, np.ones(d), ball=d, radius=1.0, project=True)
        squares = Mass(d, complete=False)
        return FeatureScale(columns, rowmap, np.zeros(d), np.full(d, radius), 1.0, squares)
    kinds = [design.columns[j].kind for j in columns]
    intervals = design.intervals()[list(columns)]
    dummy = np.array([k == "dummy" for k in kinds], dtype=bool)
    centre = np.where(dummy, 0.0, intervals.mean(axis=1))
    half = np.where(dummy, 1.0, np.maximum((intervals[:, 1] - intervals[:, 0]) / 2.0, 1e-300))
    numeric = int((~dummy).sum())
    # the dummies of one factor: at most one of them is 1
    terms: dict[str, list[int]] = {}
    for place, j in enumerate(columns):
        if design.columns[j].kind == "dummy":
            terms.setdefault(design.columns[j].term, []).append(place)
    factors = len(terms)
    unit = UnitScale(1.0 / half, -centre / half, False)
    return FeatureScale(
        columns,
        RowMap(unit, np.ones(d)),
        centre,
        half,
        math.sqrt(numeric + factors),
        Blocks(d, tuple(map(tuple, terms.values()))),
    )
