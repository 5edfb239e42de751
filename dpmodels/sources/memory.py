"""Tables in memory: frames and dictionaries, and whatever gives an Arrow stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, SourceError
from dpmodels.schema import Schema
from dpmodels.sources.piece import Piece, aligned
from dpmodels.sources.source import (
    READ_ROWS,
    Chunk,
    arrow_kind,
    check_names,
    need,
    numpy_kind,
    withheld,
)

if TYPE_CHECKING:
    from dpmodels.variables import Variable

#: Cells of a frame of numbers whose columns are looked up at once.
_SMALL = 1 << 16


class FrameSource:
    """A pandas DataFrame; slices of its columns, no copy."""

    rescannable = True
    in_memory = True

    def __init__(self, frame: Any) -> None:
        names = frame.columns.tolist()  # once: an Arrow index makes each name anew
        check_names(names)
        self._frame = frame
        types = frame.dtypes.tolist()
        self.kinds = dict(zip(names, map(numpy_kind, types), strict=True))
        self.n: int | None = len(frame)
        self.schema_attr = Schema.from_frame_attrs(frame)
        self._columns: dict[str, Any] = {}
        self._small = len(frame) * len(names) <= _SMALL and set(types) == {np.dtype(np.float64)}

    def _column(self, name: str) -> Any:
        """Return a column: a view, looked up once for all passes."""
        if self._small and not self._columns:
            # one look-up for all: a view of one block, or a copy of what is small
            self._columns = dict(zip(self.kinds, self._frame.to_numpy().T, strict=True))
        if name not in self._columns:
            s = self._frame[name]
            # A plain float column gives its own memory; slicing arrays is cheaper than Series.
            plain = isinstance(s.dtype, np.dtype) and s.dtype.kind in "iufb"
            self._columns[name] = s.to_numpy() if plain else s
        return self._columns[name]

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices."""
        arrays = {c: self._column(c) for c in names}
        total = len(self._frame)
        if 0 < total <= READ_ROWS:
            yield arrays
            return
        for start in range(0, total, READ_ROWS):
            stop = min(total, start + READ_ROWS)
            yield {c: _slice(a, start, stop) for c, a in arrays.items()}

    def pieces(self, names: Sequence[str], rows: int) -> list[Piece]:
        """Return parts of the frame: slices of rows, so no column is copied."""
        frame = self._frame
        parts = aligned(len(frame), rows)
        return [Piece(FrameSource, frame.iloc[a:b], a, b - a) for a, b in parts]


def _slice(column: Any, start: int, stop: int) -> Any:
    """Return cells of a column, no copy: of codes and categories without the Series about them."""
    if isinstance(column, np.ndarray):
        return column[start:stop]
    if type(column.dtype).__name__ == "CategoricalDtype":
        return column.array[start:stop]
    return column.iloc[start:stop]


class DictSource:
    """A dictionary of equally long arrays, Series or lists.

    An array or a Series has a type, which is public. A list has none, so as in a CSV file the kind
    is "unknown" and each cell is read by itself: numpy would make text of ``[True, "x"]``.
    """

    rescannable = True
    in_memory = True
    schema_attr = None

    def __init__(self, data: Mapping[str, Any]) -> None:
        check_names(data)
        self._data = {k: own_column(v) for k, v in data.items()}
        lengths = {len(v) for v in self._data.values()}
        if len(lengths) > 1:
            raise SourceError(f"the arrays have different lengths: {sorted(lengths)}")
        self._rows = lengths.pop() if lengths else 0
        self.n: int | None = self._rows
        self.kinds = {k: kind_of_column(v, self._data[k]) for k, v in data.items()}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices."""
        columns = {c: self._data[c] for c in names}
        for start in range(0, self._rows, READ_ROWS):
            part = slice(start, start + READ_ROWS)
            yield {c: a.iloc[part] if hasattr(a, "iloc") else a[part] for c, a in columns.items()}

    def pieces(self, names: Sequence[str], rows: int) -> list[Piece]:
        """Return parts of the columns: views."""
        columns = {c: self._data[c] for c in names}
        return [
            Piece(
                DictSource,
                {c: v.iloc[a:b] if hasattr(v, "iloc") else v[a:b] for c, v in columns.items()},
                a,
                b - a,
            )
            for a, b in aligned(self._rows, rows)
        ]


def own_column(cells: Any) -> Any:
    """Return a column that can be sliced, of the type it came with."""
    module = type(cells).__module__.split(".")[0]
    if module == "pandas" and hasattr(cells, "dtype"):
        import pandas as pd

        return cells if isinstance(cells, pd.Series) else pd.Series(cells)
    if module == "polars" and hasattr(cells, "to_arrow"):
        return cells.to_arrow()
    if module == "pyarrow":
        return cells
    if hasattr(cells, "dtype") or hasattr(cells, "__array__"):
        return np.asanyarray(cells)
    listed = list(cells)
    out = np.empty(len(listed), dtype=object)
    for i, cell in enumerate(listed):  # cell by cell: a list of lists would become a matrix
        out[i] = cell
    return out


def kind_of_column(given: Any, column: Any) -> str:
    """Return the public kind of :func:`own_column` of what was given; of a list "unknown"."""
    if hasattr(column, "dtype"):
        typed = hasattr(given, "dtype") or hasattr(given, "__array__")
        return numpy_kind(column.dtype) if typed else "unknown"
    return arrow_kind(column.type)


class ArrowSource:
    """Anything with an Arrow C stream: polars, pyarrow, DuckDB relations, ..."""

    schema_attr = None

    def __init__(self, data: Any) -> None:
        need("pyarrow", "to read this kind of table")
        import pyarrow as pa

        # A one-shot reader gives its rows once; tables and relations open a new stream each time.
        self.rescannable = not isinstance(data, pa.RecordBatchReader)
        self._data = data
        schema = data.schema if isinstance(getattr(data, "schema", None), pa.Schema) else None
        if schema is None:
            # A lazy query is run to find its columns: of no rows, where it can say so.
            lazy = type(data).__module__.split(".")[0].lstrip("_") == "duckdb"
            query = data.limit(0) if lazy and hasattr(data, "limit") else data
            if type(data).__module__.split(".")[0] == "polars":
                _check_polars(dict(data.schema))
            schema = withheld(lambda: pa.RecordBatchReader.from_stream(query).schema)
        check_names(schema.names)
        self._schema = schema
        self.kinds = {f.name: arrow_kind(f.type) for f in schema}
        self.n: int | None = None
        if hasattr(data, "num_rows"):
            self.n = int(data.num_rows)
        elif type(data).__module__.startswith("polars"):
            self.n = int(data.height)

    def has_numbers(self, name: str) -> bool:
        """Say whether the categories of a column are numbers."""
        return arrow_kind(self._schema.field(name).type.value_type) in ("numeric", "bool")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield record batches as dictionaries."""
        import pyarrow as pa

        if isinstance(self._data, pa.RecordBatchReader):
            reader = self._data
        else:
            reader = pa.RecordBatchReader.from_stream(self._data)
        for batch in reader:
            yield from batch_chunks(batch, names)

    def pieces(self, names: Sequence[str], rows: int) -> list[Piece]:
        """Return parts of an Arrow table or polars frame: views. Others are streams."""
        if not (hasattr(self._data, "slice") and hasattr(self._data, "select") and self.n):
            return []
        table = self._data.select(list(names))
        return [
            Piece(ArrowSource, table.slice(a, b - a), a, b - a) for a, b in aligned(self.n, rows)
        ]


def _check_polars(schema: Mapping[str, Any]) -> None:
    """Refuse a column of a type that Arrow cannot carry: by its type alone."""
    for name, dtype in schema.items():
        if str(dtype) in ("Int128", "UInt128", "Object") or str(dtype).startswith("Object("):
            raise SourceError(
                f"column {name!r} has the polars type {dtype}, which cannot be read from here. "
                f"Cast it, for example df.with_columns(pl.col({name!r}).cast(pl.Float64)), or drop "
                "it"
            )


def columns_of(batch: Any, names: Sequence[str]) -> Chunk:
    """Return the named columns of a record batch."""
    schema = batch.schema
    return {c: batch.column(schema.get_field_index(c)) for c in names}


def batch_chunks(batch: Any, names: Sequence[str]) -> Iterator[Chunk]:
    """Yield the named columns of a record batch, ``READ_ROWS`` rows at most at once."""
    columns = columns_of(batch, names)
    if batch.num_rows <= READ_ROWS:
        yield columns
        return
    for start in range(0, batch.num_rows, READ_ROWS):
        length = min(READ_ROWS, batch.num_rows - start)
        yield {c: a.slice(start, length) for c, a in columns.items()}


class LazyPolarsSource:
    """A polars LazyFrame, collected in batches by the streaming engine."""

    rescannable = True
    schema_attr = None
    n: int | None = None

    def __init__(self, data: Any) -> None:
        need("pyarrow", "to read a polars LazyFrame")
        import polars as pl

        self._data = data
        schema = data.collect_schema()
        check_names(schema.names())
        _check_polars(dict(schema))
        empty = pl.DataFrame(schema=schema).to_arrow()
        self.kinds = {f.name: arrow_kind(f.type) for f in empty.schema}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield Arrow chunks."""
        wanted = self._data.select(list(names))
        frames: Iterable[Any]
        if hasattr(wanted, "collect_batches"):
            frames = wanted.collect_batches(chunk_size=READ_ROWS, maintain_order=True)
        else:
            frames = [wanted.collect()]
        for frame in frames:
            for batch in frame.to_arrow().to_batches():
                yield from batch_chunks(batch, names)


# -- Rows as scikit-learn has them: a matrix of features and a target, in any container


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
