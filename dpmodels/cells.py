"""Cells of any column, opened by the type of the column and read one by one.

The type of a column is public and decides how it is opened. A reader is a function of one cell, and
:func:`read_each` is the one place that applies it. No library compares cells with each other here.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def parts_of(column: Any) -> list[Any]:
    """Return the chunks of a chunked Arrow column, which can be opened; another column alone.

    Put together, chunks could be too large for their type, and their dictionaries be compared.
    """
    if type(column).__name__ != "ChunkedArray":
        return [column]
    import pyarrow as pa

    return column.chunks or [pa.array([], column.type)]


def opened(column: Any) -> tuple[str, Any]:
    """Return the kind of a column, and its cells as an array or a pair of arrays.

    ("numpy", array), ("text", Arrow array), ("masked", (array, missing)), or ("dictionary",
    (codes, values)) with codes below 0 for missing cells: of a type of categories.
    """
    module = type(column).__module__.split(".")[0]
    if module == "pandas":
        return _open_pandas(column)
    if module == "polars":
        column, module = column.to_arrow(), "pyarrow"
    if module == "pyarrow":
        return _open_arrow(column)
    array = column if isinstance(column, np.ndarray) else object_array(column)
    if isinstance(array, np.ma.MaskedArray):
        cells: Any = array.astype(object)
        return "numpy", cells.filled(None)
    return "numpy", array


def object_array(cells: Any) -> Any:
    """Return cells as an array of objects, one entry per cell of any type."""
    items = list(cells)
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


def _open_pandas(column: Any) -> tuple[str, Any]:
    """Return (form, cells) of a pandas column."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        cat = getattr(column, "array", column)
        return "dictionary", (np.asarray(cat.codes), objects_of(cat.categories))
    if isinstance(dtype, np.dtype):
        return "numpy", column.to_numpy()
    if isinstance(dtype, getattr(pd, "SparseDtype", ())):
        return "numpy", np.asarray(column)
    if type(dtype).__name__ == "ArrowDtype":
        return _open_arrow(getattr(column, "array", column).__arrow_array__())
    if pd.api.types.is_integer_dtype(dtype):  # exact beyond 2^53, whether or not a cell is missing
        missing = column.isna().to_numpy(dtype=bool)
        return "masked", (column.to_numpy(dtype=dtype.numpy_dtype, na_value=0), missing)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return "numpy", column.to_numpy(dtype=float, na_value=np.nan)
    if isinstance(dtype, pd.DatetimeTZDtype):  # instants: in UTC, as Arrow and all files have them
        return "numpy", pd.Index(column).tz_convert(None).to_numpy()  # in their own unit
    if hasattr(column.array, "__arrow_array__") and getattr(dtype, "storage", "") == "pyarrow":
        return _open_arrow(column.array.__arrow_array__())
    # not to_numpy: it looks for missing cells, and fails at a signalling NaN
    return "numpy", np.asarray(getattr(column, "array", column), dtype=object)


def _open_arrow(column: Any) -> tuple[str, Any]:
    """Return (form, cells) of an Arrow column."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        return "numpy", column.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if not column.null_count:
            return "numpy", column.to_numpy(zero_copy_only=False)
        # Not to_numpy(): one missing cell would make all others floats, and 1.0 is other text
        # than 1.
        missing = column.is_null().to_numpy(zero_copy_only=False)
        blank = column.fill_null(False if pa.types.is_boolean(kind) else 0)
        return "masked", (blank.to_numpy(zero_copy_only=False), missing)
    if pa.types.is_dictionary(kind):
        codes = column.indices.to_numpy(zero_copy_only=False)
        if column.indices.null_count:
            codes = np.where(np.isnan(codes), -1, codes)
        return "dictionary", (codes.astype(np.int64), python_cells(column.dictionary))
    if pa.types.is_null(kind):
        return "numpy", np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text", column
    if pa.types.is_time(kind):  # in no unit that somebody named
        return "numpy", np.full(len(column), np.nan)
    if pa.types.is_temporal(kind):
        return "numpy", column.to_numpy(zero_copy_only=False)
    return "numpy", python_cells(column)


def python_cells(column: Any) -> Any:
    """Return the cells of an Arrow array as objects; one that Python cannot hold is missing.

    Such are text that is no UTF-8, and a date after the year 9999.
    """
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        cells = read_or_none(lambda: column.to_numpy(zero_copy_only=False))
        if cells is not None:
            return cells
    cells = read_or_none(column.to_pylist)
    return object_array([read_or_none(c.as_py) for c in column] if cells is None else cells)


def read_or_none(read: Callable[[], Any]) -> Any:
    """Return the result of ``read``, or None if a single cell made a whole column fail."""
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a cell may be any object, and raise anything
        return None


def objects_of(column: Any) -> Any:
    """Return the cells of a column as an array of Python objects, None where one is missing.

    **Privacy.** Row by row; never raises because of a cell.
    """
    out: list[Any] = []
    for part in parts_of(column):
        kind, payload = opened(part)
        if kind == "text":
            payload = python_cells(payload)
        elif kind == "masked":
            payload = np.where(payload[1], None, payload[0].astype(object))
        elif kind == "dictionary":
            payload = looked_up(object_array([*payload[1], None]), payload[0])
        out += list(payload) if payload.dtype.kind in "mM" else payload.tolist()
    return object_array(None if _absent(cell) else cell for cell in out)


def looked_up(table: Any, codes: Any) -> Any:
    """Return the table entry of each code; -1 is the last entry, the one for missing."""
    return np.take(table, codes, mode="wrap")


class _Known(dict[Any, Any]):
    """Values of cells, each read separately.

    **Privacy.** A speed-up. Keys are text of Python's own type (``type(cell) is str``), whose
    equality is exact; no other cell may be one: Python holds ``1 == True == 1.0``.
    """

    def __init__(self, read: Callable[[Any], Any], missing: Any) -> None:
        self._read, self._missing = read, missing

    def __missing__(self, cell: str) -> Any:
        value = self[cell] = _safely(self._read, cell, self._missing)
        return value


def read_each(cells: Iterable[Any], read: Callable[[Any], Any], missing: Any, dtype: Any) -> Any:
    """Return each cell as ``read`` reads it by itself: ``missing`` if it is absent or fails."""
    values = _Known(read, missing)
    cells = list(cells)
    if set(map(type, cells)) <= {str, type(None)}:  # the same, without a line of Python per cell
        return np.fromiter(map(values.__getitem__, cells), dtype, len(cells))
    return np.fromiter(
        (values[cell] if type(cell) is str else _safely(read, cell, missing) for cell in cells),
        dtype,
        len(cells),
    )


def _safely(read: Callable[[Any], Any], cell: Any, missing: Any) -> Any:
    """Return a cell as ``read`` reads it, or ``missing`` if it is absent or cannot be read."""
    try:
        return missing if _absent(cell) else read(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a cell may be any object, and raise anything; nothing of it is kept
        return missing


_SURROGATE = re.compile("[\ud800-\udfff]")


def _absent(cell: Any) -> bool:
    """Return whether a cell is a missing value of Python, numpy, pandas or decimal.

    So is text with a lone surrogate: it stands for no character, and no file can hold it.
    """
    if type(cell) is str:
        return not cell.isascii() and _SURROGATE.search(cell) is not None
    if type(cell) in (int, bool):
        return False
    if type(cell) is float:
        return cell != cell
    if cell is None or cell is np.ma.masked:
        return True
    if type(cell).__module__.startswith("pandas") and type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(cell))
    if isinstance(cell, decimal.Decimal):
        return cell.is_nan()  # a signalling NaN compares with nothing
    if isinstance(cell, (float, complex, np.inexact)):
        return bool(cell != cell)
    return False
