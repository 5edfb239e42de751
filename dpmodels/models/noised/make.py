"""The private stage of a release: rows in, a noised table out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import SourceError
from dpmodels.exact.ask import Ask
from dpmodels.privacy.own_proofs import own_proof

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.noised.calibration import NoisePlan
    from dpmodels.models.noised.layout import Layout
    from dpmodels.sources.rows import Rows

#: Released cells lie on lo + k (hi - lo) 2^-20.
GRID = 2.0**-20


@dataclass(frozen=True)
class Noised:
    """What left the private stage: the noised cells, and public columns as they were.

    Attributes
    ----------
    values : (d, n) array
    public : mapping of str to (n,) array
    lower, scale : (d,) arrays
        lo_j and s_j = hi_j - lo_j.
    """

    values: Array
    public: Mapping[str, npt.NDArray[Any]]
    lower: Array
    scale: Array


def column_scales(design: Design, layout: Layout) -> tuple[Array, Array]:
    """Return (lo_j, s_j) of the noised columns; a column without width gets the scale 1."""
    ends = design.intervals()[list(layout.rows)]
    width = ends[:, 1] - ends[:, 0]
    return ends[:, 0].copy(), np.where(width > 0, width, 1.0)


def noised_rows(
    design: Design,
    layout: Layout,
    plan: NoisePlan,
    public: Sequence[str],
    ask: Ask,
    *,
    keep_order: bool,
) -> Noised:
    """Read the rows once, clip, permute, add noise, round.

    Privacy
    -------
    Unit: one row (or one attribute of it); replace-one, n public. Each released row is a function
    of one row of the data; rows are matched by position, so unless ``keep_order`` they are put in
    a uniformly random order first.

    Notes
    -----
    Read by the caller and by no task: each row meets noise of its own, which workers must not draw.
    """
    lower, scale = column_scales(design, layout)
    upper = lower + scale
    raw = ask.raw(own_proof("noised rows"))
    rows, n = raw.rows, ask.n
    order = None if keep_order else ask.permutation(n)
    values = np.empty((layout.d, n))
    index = list(layout.rows)
    at = 0
    # A level outside an inline list marks its row in the cell of another attribute: not here.
    for block in rows.blocks(design.unmarked()):
        part = block[index]
        m = part.shape[1]
        missing = np.isnan(part)
        if missing.any():
            part = np.where(missing, (0.5 * (lower + upper))[:, None], part)
        np.clip(part, lower[:, None], upper[:, None], out=part)
        where: Any = slice(at, at + m) if order is None else order[at : at + m]
        for column, cells in zip(values, part, strict=True):  # twice as fast as all at once
            column[where] = cells
        at += m
    kept = _public_columns(rows, public, order)
    shapes = np.asarray(plan.shapes) * scale
    for name, columns, reach in plan.stages:
        one = list(columns)
        whole = len(one) == layout.d
        part = values if whole else values[one]
        raw.noisy_table(
            name,
            part,
            shape=shapes[one],
            sensitivity=reach,
            lower=lower[one],
            grid=GRID * scale[one],
        )
        if not whole:
            values[one] = part
    return Noised(values, kept, lower, scale)


def _public_columns(
    rows: Rows, names: Sequence[str], order: npt.NDArray[np.intp] | None
) -> dict[str, npt.NDArray[Any]]:
    """Return public columns as they are, in the released order."""
    if not names:
        return {}
    parts: dict[str, list[npt.NDArray[Any]]] = {c: [] for c in names}
    for chunk in rows.raw(list(names)):
        for c in names:
            parts[c].append(np.asarray(chunk[c]))
    out: dict[str, npt.NDArray[Any]] = {}
    for c in names:
        column = np.concatenate(parts[c])
        if len(column) != rows.n:
            raise SourceError("the source did not give the same rows in every pass")
        if order is not None:
            moved = np.empty_like(column)
            moved[order] = column
            column = moved
        out[c] = column
    return out
