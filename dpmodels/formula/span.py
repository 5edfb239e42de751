"""Whether the columns of one design are linear functions of another's, and which.

Decided at public points: rows drawn over the declared ranges and levels, no data. Two functions
that agree there to twelve digits are the same function of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.variables import Levels

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.formula.schema import Schema
    from dpmodels.variables import Variable

#: Points: at least so many, and so many a column.
_POINTS = (512, 32)
#: Largest distance from the span, over the largest cell of a column.
_NEAR = 1e-8
#: Numbers without a range (rows whitened by public data).
_ANYWHERE = (1.0, 2.0)


def _cells(variable: Variable, ends: tuple[float, float] | None, m: int, rng: Any) -> Any:
    """Return m public cells of a variable."""
    if isinstance(variable, Levels) or variable.codes:
        codes = list(variable.codes)
        return [codes[k] for k in rng.integers(0, len(codes), m)]
    ends = variable.interval or ends
    if ends is None:
        return None
    low, high = map(float, ends)
    if variable.kind == "binary":
        return rng.integers(0, 2, m).astype(float)
    if variable.kind == "count":
        return rng.integers(int(low), int(high) + 1, m).astype(float)
    return rng.uniform(low, high, m)


def public_points(
    design: Design, m: int, anywhere: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return m rows over the public (or bought) ranges and the levels of a design's variables.

    ``anywhere``: where numbers without a range lie; None: they are refused.
    """
    rng = np.random.default_rng(0)  # no secret: which points are used does not matter
    table = {}
    for name in design.variables:
        ends = next((c.interval for c in design.z if c.name == name), None)
        cells = _cells(design.schema[name], ends or anywhere, m, rng)
        if cells is None:
            raise RequestError(
                f"the range of {name!r} is not public: declare it when the fit or the release is "
                f"made, bounds={{{name!r}: (lower, upper)}}"
            )
        table[name] = cells
    return table


def public_corners(design: Design, m: int) -> dict[str, Any]:
    """Return m rows whose numbers lie at an end of their ranges; levels as in public_points."""
    table = public_points(design, m)
    rng = np.random.default_rng(1)  # no secret, as there
    for name, cells in table.items():
        variable = design.schema[name]
        if variable.codes or variable.kind == "binary":
            continue
        ends = next((c.interval for c in design.z if c.name == name), None)
        low, high = map(float, variable.interval or ends or (min(cells), max(cells)))
        table[name] = np.where(rng.integers(0, 2, m) == 1, high, low)
    return table


def response_column(design: Design, table: dict[str, Any], schema: Schema) -> Array:
    """Return the cells of a design's response at rows of a table, (m,)."""
    from dpmodels.formula.build import build_design

    assert design.response is not None
    name = design.response.name
    text = name if name in schema else f"I({name})"
    quoted = f"`{name}`" if name in schema and not name.isidentifier() else text
    one = build_design(f"~ 0 + {quoted}", schema, na=design.na, one_sided_ok=True)
    return np.asarray(one.matrix(table), dtype=float)[:, 0]


def independent(columns: dict[str, Array]) -> list[str]:
    """Return the columns that do not follow from the constant and those before them."""
    kept: list[str] = []
    basis = np.ones((0, 1))
    for name, cells in columns.items():
        basis = basis if len(basis) else np.ones((len(cells), 1))
        column = cells - cells.mean()
        column = column / (np.abs(column).max() or 1.0)  # years lie within 1 % of each other
        if outside_span(column[:, None], basis)[1][0] > _NEAR:
            kept.append(name)
            basis = np.column_stack([basis, column])
    return kept


def outside_span(columns: Array, basis: Array) -> tuple[Array, Array]:
    """Return (coefficients (p, k) of least norm, (p,) relative distances) of columns (m, p)."""
    C = np.linalg.lstsq(basis, columns, rcond=1e-11)[0]
    size = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    return C.T, np.abs(columns - basis @ C).max(axis=0) / size


def span(
    target: Design, source: Design, back: Array, *, constant: bool
) -> tuple[Array, tuple[int, ...]]:
    """Return the columns of ``target`` (response last) as functionals of released rows.

    Parameters
    ----------
    target, source : Design
        ``source`` is the design of the release.
    back : (q, k) array
        Columns of the source (response last, then the constant if ``constant``) are ``back w``.
    constant : bool
        The last row of ``back`` is the constant 1, which is no column of the source.

    Returns
    -------
    (p + 1, k) array
        Of least norm, so of least noise, where there is a choice.
    tuple of int
        Places of columns that are no linear function of the source's.
    """
    q = len(back)
    m = max(_POINTS[0], _POINTS[1] * q)
    # a number without a range is clipped nowhere, so any generic points will do
    table = public_points(source, m, _ANYWHERE)
    parts = [np.asarray(source.matrix(table), dtype=float)]
    if source.response is not None:
        parts.append(response_column(source, table, source.schema)[:, None])
    if constant:
        parts.append(np.ones((m, 1)))
    rows = np.hstack(parts)
    wanted = [np.asarray(target.matrix(table), dtype=float)]
    if target.response is not None:
        wanted.append(response_column(target, table, source.schema)[:, None])
    columns = np.hstack(wanted)
    whole = np.isfinite(rows).all(axis=1) & np.isfinite(columns).all(axis=1)
    w = np.linalg.solve(back, rows[whole].T).T
    found, far = outside_span(columns[whole], w)
    return found, tuple(int(j) for j in np.flatnonzero(~(far <= _NEAR)))


def terms_at(design: Design, places: Sequence[int]) -> list[str]:
    """Return the terms (or the response) of columns at these places, once each."""
    names = [design.columns[j].term if j < design.p else _response(design) for j in places]
    return list(dict.fromkeys(names))


def _response(design: Design) -> str:
    return "" if design.response is None else design.response.name
