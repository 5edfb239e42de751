"""Public maps of features to half-ranges, and the row bounds that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import STEPS, end_of_numbers, towards_zero
from dpmodels.exact.rowmap import RowMap, UnitScale
from dpmodels.exact.sets import Blocks, Mass

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


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


# -- Sums of columns on the lattice, their sensitivity, and a scale learnt from them


def column_sums(blocks: Iterable[Array], scale: Array, shift: Array) -> npt.NDArray[np.object_]:
    """Return integers (count, sums of k, sums of trunc(k^2 / 2^20)), k = trunc(2^20 u), |u| <= 1.

    Shape (1 + 2 d,). A void row adds nothing. Exact in any order.
    """
    d = len(scale)
    total = np.zeros(1 + 2 * d, dtype=object)
    with np.errstate(all="ignore"):
        for block in blocks:
            u = block[:-1] * scale[:, None] + shift[:, None]
            void = ~np.isfinite(block[-1] + u.sum(0))
            k = end_of_numbers(u)
            k[:, void] = 0.0
            squares = towards_zero(k * k / STEPS)
            total[0] += int(STEPS) * int(k.shape[1] - void.sum())
            total[1 : 1 + d] += [int(v) for v in k.sum(1)]
            total[1 + d :] += [int(v) for v in squares.sum(1)]
    return total


def rescaling(sums: Array, noise_sd: float, intercept: bool, most: Array) -> tuple[Array, Array]:
    """Return (scale, shift) that give the unit columns mean 0 and variance 1, from noisy sums.

    Variances below twice the noise of a mean square are not visible and are floored there; a
    column is never magnified more than ``most`` (d,): rare dummies would get long rows.
    """
    d = (len(sums) - 1) // 2
    m = max(float(sums[0]), 4.0 * noise_sd, 1.0)
    mean = np.clip(sums[1 : 1 + d] / m, -1.0, 1.0)
    if not intercept:
        mean = np.zeros(d)
    floor = np.maximum(2.0 * noise_sd / m, 1.0 / most**2)
    variance = np.clip(sums[1 + d :] / m - mean**2, np.minimum(floor, 1.0), 1.0)
    scale = 1.0 / np.sqrt(variance)
    return scale, -mean * scale
