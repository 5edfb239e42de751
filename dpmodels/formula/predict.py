"""The design matrix of new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import FormulaError, choice, did_you_mean
from dpmodels.formula.coerce import coerce
from dpmodels.variables import Levels

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["matrix", "odd_cells"]

_OUTSIDE = ("clip", "nan", "extrapolate")


def matrix(design: Design, new: Any, outside: str) -> Any:
    """Return the (k, p) matrix; see :meth:`Design.matrix`."""
    choice("outside", outside, _OUTSIDE, FormulaError)
    program = design.program
    assert program is not None
    used: set[str] = set()
    for product in program.products:
        for atom in product.atoms:
            used |= atom.source.variables
    if not hasattr(new, "keys") and not hasattr(new, "columns"):
        raise FormulaError(
            f"new data must be a table with the names of the variables, got {type(new).__name__}. "
            f"For example {{{', '.join(f'{name!r}: [...]' for name in design.variables[1:3])}}}"
        )
    columns = list(new.keys() if hasattr(new, "keys") else new.columns)
    chunk: dict[str, Any] = {}
    rows: int | None = None
    for name in design.variables:
        if name not in used:
            continue
        if name not in columns:
            needed = ", ".join(n for n in design.variables if n in used)
            raise FormulaError(
                f"the new data has no column {name!r}.{did_you_mean(name, columns)} It needs "
                f"{needed}"
            )
        variable = design.schema[name]
        cells = coerce(_listed(new[name]), variable)
        if outside == "nan" and variable.interval is not None:
            lo, hi = variable.interval
            with np.errstate(invalid="ignore"):
                cells = np.where((cells < lo) | (cells > hi), np.nan, cells)
        chunk[name] = cells
        rows = len(cells) if rows is None else rows
        if len(cells) != rows:
            raise FormulaError("the columns of the new data differ in length")
    if rows is None:
        rows = len(_listed(new[columns[0]])) if columns else 1
    x = program.matrix(chunk, rows, clip=outside != "extrapolate")
    for name, lo, hi in design.bought:
        if name not in design.names or outside == "extrapolate":
            continue
        j = design.names.index(name)
        if outside == "clip":
            x[:, j] = np.clip(x[:, j], lo, hi)
        else:
            with np.errstate(invalid="ignore"):
                x[(x[:, j] < lo) | (x[:, j] > hi)] = np.nan
    return x


def odd_cells(design: Design, new: Any, outside: str) -> list[str]:
    """Say which cells of new rows were moved to a bound, answered by NaN, or not understood.

    Notes
    -----
    **Privacy.** Reads ``new``, which is the caller's, and public or released ranges. Not for rows
    of a release.
    """
    import pandas as pd

    program = design.program
    assert program is not None
    atoms = [atom for product in program.products for atom in product.atoms]
    used = {name for atom in atoms for name in atom.source.variables}
    if not used.issubset(new.keys() if hasattr(new, "keys") else new.columns):
        return []  # the prediction itself says what is missing
    what = {"clip": "moved to the nearer bound", "nan": "answered by NaN"}.get(outside, "")
    said: list[str] = []
    for name in design.variables:
        if name not in used:
            continue
        variable, raw = design.schema[name], _listed(new[name])
        cells = coerce(raw, variable)
        given = ~np.asarray(pd.isna(np.asarray(raw, dtype=object)), dtype=bool)
        lost = (np.asarray(cells) < 0) if isinstance(variable, Levels) else np.isnan(cells)
        unknown = int((lost & given).sum())
        if unknown:
            kind = "not a declared level" if isinstance(variable, Levels) else "not readable"
            said.append(f"{unknown} of {len(given)} cells of {name!r} are {kind}: answered by NaN")
        if what and variable.interval is not None and not isinstance(variable, Levels):
            said += _beyond(name, np.asarray(cells, dtype=float), *variable.interval, what)
    if what and design.bought:
        x = matrix(design, new, "extrapolate")
        for name, lo, hi in design.bought:
            if name in design.names:
                said += _beyond(name, x[:, design.names.index(name)], lo, hi, what)
    return said


def _beyond(name: str, cells: Any, lo: float, hi: float, what: str) -> list[str]:
    with np.errstate(invalid="ignore"):
        out = int(((cells < lo) | (cells > hi)).sum())
    if not out:
        return []
    return [f"{out} of {len(cells)} cells of {name!r} are outside [{lo:g}, {hi:g}]: {what}"]


def _listed(column: Any) -> Any:
    """Return a column; a scalar is one row."""
    if isinstance(column, (str, bytes)) or (
        np.ndim(column) == 0 and not hasattr(column, "__len__")
    ):
        return np.array([column], dtype=object)
    return (
        column
        if hasattr(column, "dtype") or hasattr(column, "type")
        else np.asarray(list(column), dtype=object)
    )
