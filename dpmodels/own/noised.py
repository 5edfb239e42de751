"""Noised rows: a released row is one row of the table plus noise (``models/noised/theory.md``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import (
    SourceError,
)
from dpmodels.privacy.run import own_proof
from dpmodels.sums.ask import Ask

if TYPE_CHECKING:

    from dpmodels.formula.design import Design
    from dpmodels.models.noised.calibration import Layout, NoisePlan
    from dpmodels.sources.rows import Rows


#: Released cells lie on lo + k (hi - lo) 2^-20.
CELL_GRID = 2.0**-20


@dataclass(frozen=True)
class Noised:
    """Output of the private stage: the noised cells, and public columns unchanged."""

    values: Array  # (d, n)
    public: Mapping[str, npt.NDArray[Any]]  # mapping of str to (n,) array
    # lower, scale: (d,) arrays; lo_j and s_j = hi_j - lo_j.
    lower: Array
    scale: Array


def column_scales(design: Design, layout: Layout) -> tuple[Array, Array]:
    """Return (lo_j, s_j) of the noised columns; a column without width gets the scale 1."""
    ends = design.intervals()[list(layout.rows)]
    width = ends[:, 1] - ends[:, 0]
    return ends[:, 0].copy(), np.where(width > 0, width, 1.0)


def noised_rows(
    design: Design, layout: Layout, plan: NoisePlan, public: Sequence[str], ask: Ask, *,
    keep_order: bool,
) -> Noised:  # fmt: skip
    """Read the rows once, clip, permute, add noise, round.

    **Privacy.** Unit: one row (or one attribute of it); replace-one, n public. Each released row is
    a function of one row of the data; rows are matched by position, so unless ``keep_order`` they
    are put in a uniformly random order first. Read by the caller and by no task: each row meets
    noise of its own, which workers must not draw.
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
    for block in rows.blocks(design.without_missing_marks()):
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
    public_cells = _public_columns(rows, public, order)
    shapes = np.asarray(plan.shapes) * scale
    for name, columns, reach in plan.stages:
        places = list(columns)
        is_all = len(places) == layout.d
        part = values if is_all else values[places]
        raw.noisy_table(
            name, part, shape=shapes[places], sensitivity=reach, lower=lower[places],
            grid=CELL_GRID * scale[places],
        )  # fmt: skip
        if not is_all:
            values[places] = part
    return Noised(values, public_cells, lower, scale)


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
    out = {c: np.concatenate(chunks) for c, chunks in parts.items()}
    if any(len(column) != rows.n for column in out.values()):
        raise SourceError("the source did not give the same rows in every pass")
    if order is None:
        return out
    place = np.argsort(order)
    return {c: column[place] for c, column in out.items()}
