"""Rows as scikit-learn has them: a matrix of features and a target, in any container.

A container with a type of its own is read by that type, which is public. Lists have none, so each
cell is read by itself: numpy would find one type for the whole list from its cells, and then one
row decides how all the others are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.sources.memory import kind_of_column, own_column

if TYPE_CHECKING:
    from dpmodels.variables import Variable

__all__ = [
    "cells_of", "feature_columns", "kind_of_column", "listed_numbers", "target_column",
    "whole_numbers",
]  # fmt: skip


_SHAPE = (
    "Expected 2D array: X takes one row a record and one column a feature; got {}. Reshape your "
    "data: X.reshape(-1, 1) if it has a single feature"
)

#: Types of whole numbers: "Int64" and "int64[pyarrow]" of pandas, "int64" of the others.
_WHOLE = re.compile(r"u?int\d+(\[pyarrow\])?", re.IGNORECASE)


def feature_columns(X: Any) -> tuple[list[Any], int]:
    """Return the columns of a matrix, each of its own type, and the number of rows.

    Notes
    -----
    **Privacy.** Shapes and types decide what is refused, never a cell; a row of a list that has
    another length than the others is a shape. No message quotes a cell.
    """
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        rows = int(X.shape[0])
    elif hasattr(X, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(X)
        columns, rows = list(table.columns), int(table.num_rows)
    elif hasattr(X, "dtype") or hasattr(X, "__array__"):
        masked = isinstance(X, np.ma.MaskedArray)  # a masked cell is missing
        array = np.asanyarray(X) if masked else np.asarray(X)
        if array.ndim != 2:
            raise RequestError(_SHAPE.format(f"{array.ndim} dimension(s)"))
        columns, rows = list(array.T), array.shape[0]
    else:
        columns, rows = _listed(X)
    for column in columns:
        _refuse_complex(column, "X")
    return columns, rows


def _listed(X: Any) -> tuple[list[Any], int]:
    if not hasattr(X, "__len__") or isinstance(X, (str, bytes, dict)):
        raise RequestError(_SHAPE.format(type(X).__name__))
    widths: set[int] = set()
    rows: list[Sequence[Any]] = []
    for row in X:
        flat = not hasattr(row, "__len__") or isinstance(row, (str, bytes, dict))
        rows.append(() if flat else list(row))
        widths.add(-1 if flat else len(rows[-1]))
    if len(widths) != 1 or -1 in widths:
        raise RequestError(_SHAPE.format("a list that is not of rows of one length"))
    out = np.empty((len(rows), widths.pop()), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):  # cell by cell: numpy would open a cell that is a list
            out[i, j] = cell
    return list(out.T), len(rows)


def target_column(y: Any) -> Any:
    """Return the target as one column of the type it came with; of a list, cells as objects.

    Notes
    -----
    **Privacy.** As :func:`feature_columns`.
    """
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        if y.shape[1] != 1:
            raise RequestError(f"y takes one column; got a frame of {y.shape[1]} columns")
        y = y.iloc[:, 0]
    if not hasattr(y, "__len__") and not hasattr(y, "__array__"):
        raise RequestError(f"y takes one value a row; got {type(y).__name__}")
    column = own_column(y)
    if isinstance(column, np.ndarray) and column.ndim != 1:
        import warnings

        from sklearn.exceptions import DataConversionWarning

        if column.ndim != 2 or column.shape[1] != 1:
            raise RequestError(f"y should be a 1d array, got an array of shape {column.shape}")
        warnings.warn(
            DataConversionWarning(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel()"
            ),
            stacklevel=4,
        )
        column = column[:, 0]
    _refuse_complex(column, "y")
    return column


def whole_numbers(table: Any) -> npt.NDArray[np.int64]:
    """Return a table of whole numbers, -1 where a cell is missing.

    Raises
    ------
    RequestError
        A column has another type, decided on the schema: what numpy makes of a table of whole
        numbers depends on whether a cell is missing.

    Notes
    -----
    **Privacy.** As :func:`feature_columns`. Numbers are exact to 2^53 and cut at 2^62.
    """
    from dpmodels.formula.coerce import coerce_all
    from dpmodels.variables import Real

    columns, rows = feature_columns(table)
    for column in columns:
        kind = column.dtype if hasattr(column, "dtype") else column.type
        if not _WHOLE.fullmatch(str(kind)):
            raise RequestError(
                f"votes must be whole numbers; the table has a column of type {kind}"
            )
    names = [str(j) for j in range(len(columns))]
    numbers = coerce_all(dict(zip(names, columns, strict=True)), dict.fromkeys(names, Real()))
    out = np.full((rows, len(columns)), -1, dtype=np.int64)
    for j, name in enumerate(names):
        known = ~np.isnan(numbers[name])
        out[known, j] = np.clip(numbers[name][known], -(2.0**62), 2.0**62).astype(np.int64)
    return out


def listed_numbers(table: Any) -> npt.NDArray[np.int64]:
    """Return nested lists as whole numbers, cell by cell; what is none is -1.

    A list has no type: numpy would find one from its cells, and one odd cell would be an error.
    """
    rows = [list(row) if hasattr(row, "__len__") and not isinstance(row, str) else None
            for row in table] if hasattr(table, "__len__") else []  # fmt: skip
    widths = {-1 if row is None else len(row) for row in rows}
    if len(widths) != 1 or -1 in widths:
        raise RequestError("votes takes a two-dimensional array, or rows of equal length")
    out = np.full((len(rows), widths.pop()), -1, dtype=np.int64)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row or ()):
            whole = isinstance(cell, (int, np.integer)) and not isinstance(cell, bool)
            if whole and abs(int(cell)) < 1 << 62:
                out[i, j] = cell
    return out


def _refuse_complex(column: Any, name: str) -> None:
    """Refuse a type, not a cell; scikit-learn's own refusal prints the array."""
    if getattr(getattr(column, "dtype", None), "kind", "") == "c":
        raise RequestError(f"Complex data not supported: {name} has the dtype {column.dtype}")


def cells_of(columns: Sequence[Any], variable: Variable) -> Array:
    """Return columns as numbers, (rows, columns); a cell that is none is missing."""
    from dpmodels.formula.coerce import coerce

    return np.column_stack([np.asarray(coerce(c, variable), dtype=float) for c in columns])
