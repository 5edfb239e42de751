"""From declared ranges to unit rows: the public affine map, and the norm of its slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.exact.rowmap import UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design, TermInfo

__all__ = ["identity_scale", "unit_rows"]

#: Pays for the rounding of norms that the coding of a term guarantees in real arithmetic.
_SLACK = 1.0 + 1e-9


def identity_scale(q: int) -> UnitScale:
    """Return the map that leaves q columns as they are."""
    return UnitScale(np.ones(q), np.zeros(q), False)


def unit_rows(design: Design, centred: bool | None = None) -> tuple[UnitScale, float]:
    """Return (map to unit rows, bound on the squared norm of a row's slopes).

    With an intercept (and no weights) numeric columns are centred at the middle of their range and
    scaled to half of it; the L dummies of a factor are centred at 1/(L + 1), which brings
    their squared norm from 1 to ``1 - 1/k - 1/k^2``, k = L + 1. Columns of one term whose joint
    norm is known from its coding (a factor in an interaction, a spline basis) are only scaled.
    Without an intercept, or with weights, nothing is centred (``centred=True``: rows that get a
    constant of their own). The intercept's own cell is not
    counted.

    Notes
    -----
    **Privacy.** A function of formula and schema. The norm holds for every possible row: it
    follows from the clipping of each cell and from the coding of the terms.
    """
    intervals = design.intervals()
    lo, hi = intervals[:, 0], intervals[:, 1]
    top = np.maximum(np.abs(lo), np.abs(hi))
    q, p = design.q, design.p
    if centred is None:
        centred = design.has_intercept and not design.scaled
    scale = np.where(top > 0, 1.0 / np.where(top > 0, top, 1.0), 1.0)
    shift = np.zeros(q)

    def centre(j: int) -> None:
        if centred and hi[j] > lo[j]:
            scale[j] = 2.0 / (hi[j] - lo[j])
            shift[j] = -(lo[j] + hi[j]) / (hi[j] - lo[j])

    square = 0.0
    for term in design.terms:
        columns = list(range(p))[term.columns]
        kinds = {design.columns[j].kind for j in columns}
        if kinds == {"intercept"}:
            continue
        if centred and kinds == {"dummy"} and term.norm == 1.0:
            levels = len(columns) + 1.0
            shift[columns] = -1.0 / levels
            square += 1.0 - 1.0 / levels - 1.0 / levels**2
            continue
        joint = _joint_square(term, top, columns)
        if len(columns) > 1 and joint < 0.5 * len(columns):
            scale[columns] = 1.0 / float(top[columns].max())
            square += joint
            continue
        for j in columns:
            centre(j)
        square += float(len(columns))
    if design.response is not None:
        centre(q - 1)
    return UnitScale(scale, shift, centred), max(square, 1e-3) * _SLACK


def _joint_square(term: TermInfo, top: npt.NDArray[np.float64], columns: list[int]) -> float:
    """Squared norm of a term's cells over their largest bound, from its coding; inf if unknown."""
    largest = float(top[columns].max())
    if term.norm is None or not largest > 0:
        return float("inf")
    return (term.norm / largest) ** 2
