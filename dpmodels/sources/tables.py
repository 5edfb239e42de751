"""Tables in memory, and the base of all adapters: columns of public kinds, read in chunks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array, dimensions
from dpmodels.cells import object_array, objects_of, read_each
from dpmodels.errors import DPModelsError, RequestError, SourceError
from dpmodels.formula.reading import TWO_DIMENSIONS, coerce, coerce_all
from dpmodels.formula.schema import Schema, as_recorded
from dpmodels.formula.types import ColumnKind
from dpmodels.places import WINDOW
from dpmodels.sources.parts import Adapter, Chunk, Kinds, Partition, Source
from dpmodels.sources.refusals import (
    check_names,
    check_polars,
    feature_of,
    no_column,
    require_package,
)
from dpmodels.units import Ids, OneType
from dpmodels.variables import Real, Variable

#: Rows asked from a reader at once; block height is another number (see ``rows.py``).
READ_ROWS = 65_536


def numpy_kind(dtype: Any) -> str:
    """Return the public kind of a pandas or numpy dtype."""
    letter = getattr(dtype, "kind", "O")
    if letter == "O" and str(dtype) == "category":
        of = getattr(getattr(dtype, "categories", None), "dtype", None)
        return ColumnKind("category", _cells_type(of) if of is not None else "")
    if type(dtype).__name__ == "ArrowDtype":
        return arrow_kind(dtype.pyarrow_dtype)
    if isinstance(dtype, np.dtype) and letter == "O":  # whatever its cells are
        return "object"
    kind = {"i": "numeric", "u": "numeric", "f": "numeric", "b": "bool", "m": "duration",
            "M": "datetime"}.get(letter, "text")  # fmt: skip
    return ColumnKind(kind, _cells_type(dtype))


def _cells_type(dtype: Any) -> str:
    """Return "int64", "float32", "bool" or "datetime64[ns]" for the dtypes that are those."""
    letter = getattr(dtype, "kind", "O")
    if letter in "iuf":
        bits = 8 * int(getattr(dtype, "itemsize", 8))
        return {"i": "int", "u": "uint", "f": "float"}[letter] + str(bits)
    if letter == "M":
        return f"datetime64[{getattr(dtype, 'unit', None) or str(dtype)[11:-1]}]"
    return "bool" if letter == "b" else ""


def arrow_kind(dtype: Any) -> str:
    """Return the public kind of an Arrow type, by its printed name (no pyarrow import needed)."""
    text = str(dtype)
    if text.startswith("dictionary"):
        of = getattr(dtype, "value_type", None)
        number = of is not None and arrow_kind(of) in ("numeric", "bool")
        return ColumnKind("category", getattr(arrow_kind(of), "cells", "") if number else "")
    if text.startswith(_NESTED):
        return "nested"
    if "interval" in text:  # months, days and nanoseconds, of DuckDB
        return ColumnKind("duration", "duration")
    if text.startswith(("int", "uint", "float", "double", "half", "decimal")):
        return ColumnKind("numeric", _ARROW_CELLS.get(text, text.partition("128")[0]))
    if text == "bool":
        return ColumnKind("bool", "bool")
    if text.startswith(("timestamp", "date")):
        unit = {"date32": "D", "date64": "ms"}.get(text.partition("[")[0])
        return ColumnKind("datetime", f"datetime64[{unit or text[10:].split(',')[0].strip(']')}]")
    if text.startswith(("time", "duration")):
        return ColumnKind("duration", "time" if text.startswith("time") else "duration")
    return "text"


#: Beginnings of the names of Arrow types whose cells hold several values.
_NESTED = ("list", "large_list", "fixed_size_list", "struct", "map", "sparse_union", "dense_union",
           "extension<arrow.fixed_shape_tensor")  # fmt: skip
_ARROW_CELLS = {"halffloat": "float16", "float": "float32", "double": "float64"}


#: Said where the message of a library is withheld.
_UNREADABLE = (
    "the table cannot be read: its library failed, with a message that is withheld because it "
    "could quote rows. Nothing was charged. Try to read it without this package"
)


def withheld(read: Callable[[], Any], message: str = _UNREADABLE) -> Any:
    """Return the result of ``read``; the message of a failing library could quote rows."""
    problem: DPModelsError | None = None
    try:
        return read()
    except DPModelsError as error:
        problem = error
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of a library written in Rust is no Exception
        problem = SourceError(message)
    # Raised outside the except block: the library's exception must not stay in __context__.
    raise problem


# -- Tables in memory: frames and dictionaries, and whatever gives an Arrow stream.


def aligned(n: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of n rows in memory, about ``rows`` each: they begin with a block."""
    step = max(rows // WINDOW, 1) * WINDOW
    for first in range(0, n, step):
        yield first, min(first + step, n)


#: Cells of a frame of numbers whose columns are looked up at once.
_SMALL = 1 << 16


class FrameSource(Adapter):
    """A pandas DataFrame; slices of its columns, no copy."""

    in_memory = True

    def __init__(self, frame: Any) -> None:
        names = frame.columns.tolist()  # once: an Arrow index makes each name anew
        check_names(names)
        self._frame = frame
        types = frame.dtypes.tolist()
        self.kinds = dict(zip(names, map(numpy_kind, types), strict=True))
        self.n = len(frame)
        self.schema_attr = Schema.from_frame_attrs(frame)
        self._columns: dict[str, Any] = {}
        # not set(types): the hash of a type of categories is made of its cells
        plain = all(isinstance(t, np.dtype) and t == np.float64 for t in types)
        self._small = len(frame) * len(names) <= _SMALL and plain

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices of columns: views, looked up once for all passes."""
        if self._small and not self._columns:
            # one look-up for all: a view of one block, or a small copy
            self._columns = dict(zip(self.kinds, self._frame.to_numpy().T, strict=True))
        for name in names:
            if name not in self._columns:
                s = self._frame[name]
                # A plain float column gives its own memory; slicing arrays is cheaper than Series.
                plain = isinstance(s.dtype, np.dtype) and s.dtype.kind in "iufb"
                self._columns[name] = s.to_numpy() if plain else s
        arrays = {c: self._columns[c] for c in names}
        total = len(self._frame)
        if 0 < total <= READ_ROWS:
            yield arrays
            return
        for start in range(0, total, READ_ROWS):
            yield {c: _slice(a, start, start + READ_ROWS) for c, a in arrays.items()}

    def partitions(self, names: Sequence[str], rows: int) -> list[Partition]:
        """Return parts of the frame: slices of rows, so no column is copied."""
        frame = self._frame
        parts = aligned(len(frame), rows)
        return [Partition(FrameSource, frame.iloc[a:b], a, b - a) for a, b in parts]


def _slice(column: Any, start: int, stop: int) -> Any:
    """Return cells of a column without a copy; codes and categories without their Series."""
    if not hasattr(column, "iloc"):
        return column[start:stop]
    if type(column.dtype).__name__ == "CategoricalDtype":
        return column.array[start:stop]
    return column.iloc[start:stop]


class DictSource(Adapter):
    """A dictionary of equally long arrays, Series or lists.

    An array or a Series has a type, which is public. A list has none, so as in a CSV file the kind
    is "unknown" and each cell is read separately: numpy would make text of ``[True, "x"]``.
    """

    in_memory = True

    def __init__(self, data: Mapping[str, Any], *, paired: bool = False) -> None:
        check_names(data)
        for name, cells in data.items():
            _check_column(name, cells)
        if not paired:
            _check_indexes(data)
        self._data = {k: own_column(v) for k, v in data.items()}
        # properties that only its array shows, as of a sparse matrix
        for name, column in self._data.items():
            _check_column(name, column)
        lengths = {len(v) for v in self._data.values()}
        if len(lengths) > 1:
            raise SourceError(f"the arrays have different lengths: {sorted(lengths)}")
        self.n = self._rows = lengths.pop() if lengths else 0
        self.kinds = {k: kind_of_column(v, self._data[k]) for k, v in data.items()}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices."""
        columns = {c: self._data[c] for c in names}
        for start in range(0, self._rows, READ_ROWS):
            yield {c: _slice(a, start, start + READ_ROWS) for c, a in columns.items()}

    def partitions(self, names: Sequence[str], rows: int) -> list[Partition]:
        """Return parts of the columns: views."""
        columns = {c: self._data[c] for c in names}
        paired = functools.partial(DictSource, paired=True)  # slices of one index are several
        return [
            Partition(paired, {c: _slice(v, a, b) for c, v in columns.items()}, a, b - a)
            for a, b in aligned(self._rows, rows)
        ]


def _check_column(name: str, cells: Any) -> None:
    """Refuse a value of a mapping that is not a column: one value per row, in an order.

    **Privacy.** Looks at types and shapes, never at a cell.
    """
    axes = dimensions(cells)
    if axes > 1:
        raise SourceError(f"{TWO_DIMENSIONS.format(name, axes)}. Nothing was charged")
    problem = ""
    if isinstance(cells, Mapping):
        problem = "a mapping, whose keys would be read as cells. Give pd.DataFrame(data) instead"
    elif isinstance(cells, Set):
        problem = "a set, which has no order. Give a list or an array, with one value per row"
    elif isinstance(cells, (str, bytes, bytearray, memoryview)):
        problem = f"a {type(cells).__name__}. Give a list or an array, with one value per row"
    elif axes < 1 or not (hasattr(cells, "__len__") or hasattr(cells, "__iter__")):
        problem = "a single value. Give a list or an array, with one value per row"
    if problem:
        raise SourceError(f"column {name!r} is {problem}. Nothing was charged")


def _check_indexes(data: Mapping[str, Any]) -> None:
    """Refuse pandas Series whose rows belong together by labels, which would have to be compared.

    **Privacy.** Labels are cells. Series have one index if it is the same object, or the same range
    of whole numbers: facts of types and shapes. Whether labels are equal, or occur twice, is not
    looked at: how many rows there are, and which cells are in one, would depend on them.
    """
    of_pandas = [v for v in data.values() if type(v).__module__.split(".")[0] == "pandas"]
    indexes = [v.index for v in of_pandas if hasattr(v, "index")]
    for index in indexes[1:]:
        ranges = all(type(i).__name__ == "RangeIndex" for i in (index, indexes[0]))
        if not (index.is_(indexes[0]) or (ranges and index.equals(indexes[0]))):
            raise SourceError(
                "the Series of the mapping have indexes of their own, and labels are not compared "
                "here. Nothing was charged. To match rows by label give pd.DataFrame(data); to "
                "pair them by position {'y': y.to_numpy(), 'x': x.to_numpy()}"
            )


def own_column(cells: Any) -> Any:
    """Return a column that can be sliced, of the type it came with."""
    module = type(cells).__module__.split(".")[0]
    if module == "pandas" and hasattr(cells, "dtype"):
        import pandas as pd

        if type(cells).__name__ == "NumpyExtensionArray":  # a Series would look into its cells
            return np.asarray(cells)
        return cells if isinstance(cells, pd.Series) else pd.Series(cells, dtype=cells.dtype)
    if module == "polars" and hasattr(cells, "to_arrow"):
        return cells.to_arrow()
    if module == "pyarrow":
        return cells
    if hasattr(cells, "dtype") or hasattr(cells, "__array__"):
        return np.asanyarray(cells)
    return object_array(cells)  # cell by cell: a list of lists would become a matrix


def kind_of_column(argument: Any, column: Any) -> str:
    """Return the public kind of :func:`own_column` of the argument; for a list "unknown"."""
    if hasattr(column, "dtype"):
        typed = hasattr(argument, "dtype") or hasattr(argument, "__array__")
        return numpy_kind(column.dtype) if typed else "unknown"
    return arrow_kind(column.type)


class ArrowSource(Adapter):
    """Anything with an Arrow C stream: polars, pyarrow, DuckDB relations, ..., or a LazyFrame."""

    def __init__(self, data: Any) -> None:
        require_package("pyarrow", "to read this kind of table")
        import pyarrow as pa

        # A one-shot reader gives its rows once; tables and relations open a new stream each time.
        self.rescannable = not isinstance(data, pa.RecordBatchReader)
        self._data, self._of_polars = data, type(data).__module__.split(".")[0] == "polars"
        if self._of_polars:
            import polars as pl

            types = data.collect_schema()
            check_polars(types)
            like = pl.DataFrame(schema=types)
        else:  # a query is run to find its columns, without rows
            like = data.limit(0) if _is_lazy(data) else data
        schema = getattr(like, "schema", None)
        if not isinstance(schema, pa.Schema):
            schema = withheld(lambda: pa.RecordBatchReader.from_stream(like).schema)
        check_names(schema.names)
        self.kinds = {f.name: arrow_kind(f.type) for f in schema}
        rows = "height" if self._of_polars else "num_rows"
        self.n = int(getattr(data, rows)) if hasattr(data, rows) else None

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield record batches as dictionaries."""
        for batch in self._batches(list(names)):
            yield from batch_chunks(batch, names)

    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield the batches of a new stream. A query computes no other columns, so none fails."""
        import pyarrow as pa

        query = self._data
        if isinstance(query, pa.RecordBatchReader):
            yield from query
        elif self._of_polars and self.n is None:  # a LazyFrame, collected by the streaming engine
            query = query.select(names)
            streams = hasattr(query, "collect_batches")
            options = {"chunk_size": READ_ROWS, "maintain_order": True}
            for frame in query.collect_batches(**options) if streams else [query.collect()]:
                yield from frame.to_arrow().to_batches()
        else:
            if _is_lazy(query):
                query = query.project(", ".join('"' + c.replace('"', '""') + '"' for c in names))
            yield from pa.RecordBatchReader.from_stream(query)

    def partitions(self, names: Sequence[str], rows: int) -> list[Partition]:
        """Return parts of an Arrow table or polars frame: views. Others are streams."""
        if not (hasattr(self._data, "slice") and hasattr(self._data, "select") and self.n):
            return []
        table = self._data.select(list(names))
        return [
            Partition(ArrowSource, table.slice(a, b - a), a, b - a)
            for a, b in aligned(self.n, rows)
        ]


def _is_lazy(data: Any) -> bool:
    """Return whether a table is a relation of DuckDB: a query that runs when it is read."""
    return type(data).__module__.split(".")[0].lstrip("_") == "duckdb" and hasattr(data, "project")


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


# -- Rows as scikit-learn has them: a matrix of features and a target, in any container


_SHAPE = (
    "Expected 2D array: X must have one row per record and one column per feature; got {}. "
    "Reshape your data: X.reshape(-1, 1) if it has a single feature"
)

#: Types of whole numbers: "Int64" and "int64[pyarrow]" of pandas, "int64" of the others.
_WHOLE_NUMBERS = re.compile(r"u?int\d+(\[pyarrow\])?", re.IGNORECASE)


def feature_columns(X: Any) -> tuple[list[Any], int]:
    """Return the columns of a matrix, each of its own type, and the number of rows.

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
        columns, rows = _listed(X, _SHAPE)
    for column in columns:
        _refuse_complex(column, "X")
    return columns, rows


def _listed(X: Any, refusal: str) -> tuple[list[Any], int]:
    """Return the columns of a list of rows, and the number of rows."""
    if not hasattr(X, "__len__") or isinstance(X, (str, bytes, dict)):
        raise RequestError(refusal.format(type(X).__name__))
    widths: set[int] = set()
    rows: list[Sequence[Any]] = []
    for row in X:
        flat = not hasattr(row, "__len__") or isinstance(row, (str, bytes, dict))
        rows.append(() if flat else list(row))
        widths.add(-1 if flat else len(rows[-1]))
    if len(widths) != 1 or -1 in widths:
        raise RequestError(refusal.format("a list that is not of rows of one length"))
    # cell by cell: numpy would open a cell that is a list
    return list(map(object_array, zip(*rows, strict=True))), len(rows)


def target_column(y: Any) -> Any:
    """Return the target as one column of its type; for a list, cells as objects.

    **Privacy.** As :func:`feature_columns`.
    """
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        if y.shape[1] != 1:
            raise RequestError(f"y must have one column; got a frame of {y.shape[1]} columns")
        y = y.iloc[:, 0]
    if not hasattr(y, "__len__") and not hasattr(y, "__array__"):
        raise RequestError(f"y must have one value per row; got {type(y).__name__}")
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

    A column of another type is refused, by the schema: what numpy makes of a table of whole numbers
    depends on whether a cell is missing. Numbers are exact to 2^53 and cut at 2^62.
    **Privacy.** As :func:`feature_columns`.
    """
    columns, rows = feature_columns(table)
    for column in columns:
        kind = column.dtype if hasattr(column, "dtype") else column.type
        if not _WHOLE_NUMBERS.fullmatch(str(kind)):
            raise RequestError(
                f"votes must be whole numbers; the table has a column of type {kind}"
            )
    names = [str(j) for j in range(len(columns))]
    numbers = coerce_all(dict(zip(names, columns, strict=True)), dict.fromkeys(names, Real()))
    out = np.full((rows, len(columns)), -1, dtype=np.int64)
    for j, name in enumerate(names):
        present = ~np.isnan(numbers[name])
        out[present, j] = np.clip(numbers[name][present], -(2.0**62), 2.0**62).astype(np.int64)
    return out


def listed_numbers(table: Any) -> npt.NDArray[np.int64]:
    """Return nested lists as integers, cell by cell; a cell that is not one becomes -1.

    A list has no type: numpy would find one from its cells, and one odd cell would be an error.
    """

    def number(cell: Any) -> int:
        is_integer = isinstance(cell, (int, np.integer)) and not isinstance(cell, bool)
        return int(cell) if is_integer and abs(int(cell)) < 1 << 62 else -1

    refusal = "votes must be a two-dimensional array, or rows of equal length"
    columns, rows = _listed(table, refusal)
    out = np.empty((rows, len(columns)), dtype=np.int64)
    for j, column in enumerate(columns):
        out[:, j] = read_each(column.tolist(), number, -1, np.int64)
    return out


def _refuse_complex(column: Any, name: str) -> None:
    """Refuse a type, not a cell; scikit-learn's own refusal prints the array."""
    if getattr(getattr(column, "dtype", None), "kind", "") == "c":
        raise RequestError(f"Complex data not supported: {name} has the dtype {column.dtype}")


def cells_of(columns: Sequence[Any], variable: Variable) -> Array:
    """Return columns as numbers, (rows, columns); a cell that is none is missing."""
    return np.column_stack([np.asarray(coerce(c, variable), dtype=float) for c in columns])


# -- A part of a table, read by the types of the whole table.
#
# A library types a part by its own cells: text where one of them is not a number. If the others of
# the part were then read as text, one row would decide how they are read ("07" and 7 are two
# values). So the types are those of the whole (the first part, Dask's meta, the declaration), and a
# part of another type is read cell by cell or refused.


#: Owner of the types, if they were declared or are those of a lazy frame.
WHOLE = "the whole table"
#: Kinds of cells that are accepted if the table's type is numbers (or truth values).
_READABLE = ("numeric", "bool", "text", "category", "category of numbers", "object", "unknown")
#: Cells that are read one by one as they are written, for any type of their part.
_WRITTEN = {"text", "category", "object", "unknown"}


class TypedPart(Adapter):
    """A part of a table whose types are known: those of ``table``.

    Numbers are read cell by cell, so that the value of a cell is the same whatever its part was
    taken for. What cannot be read so (a part that has numbers where the table has text: "01" is
    lost) is refused. Columns that are not in ``types`` are read as they come.

    **Privacy.** Types are public, as those of a frame are, and so is whether a part has others.
    """

    def __init__(self, source: Source, types: Mapping[str, str], table: str = WHOLE) -> None:
        self._source, self._types, self._whole = source, types, table
        self.kinds = source.kinds
        self.n = source.n
        self.rescannable = source.rescannable

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of the part, as the table has them."""
        cast = []
        for name in names:
            if name not in self.kinds:
                raise SourceError(f"a later part has no column {name!r}, which {self._whole} has")
            if name in self._types:
                own_type = type_of(self._source, name)
                check_type(name, self._types[name], own_type, self._whole)
                if own_type != self._types[name] and self._types[name] in ("numeric", "bool"):
                    cast.append(name)
        for chunk in self._source.chunks(names):
            yield {**chunk, **{c: _cells(chunk[c], self._types[c]) for c in cast}}


def types_of(source: Source) -> dict[str, str]:
    """Return the kind of every column; for categories also the kind of their values."""
    return {name: type_of(source, name) for name in source.kinds}


def type_of(source: Source, name: str) -> str:
    """Return the type of one column."""
    kind = source.kinds[name]
    values = getattr(kind, "cells", "")  # of categories: what is known of their values
    numbers = kind == "category" and values and not values.startswith("datetime")
    return "category of numbers" if numbers else kind


def one_type(source: Source, column: str) -> OneType:
    """Return the check that refuses ids of another type than the table or the first part has."""
    type_of_ids = getattr(source, "ids", None)
    return OneType("" if type_of_ids is None else type_of_ids(column))


def check_type(name: str, table_type: str, part_type: str, table: str) -> None:
    """Refuse a part whose column cannot be read as the table has it."""
    if table_type == part_type or {table_type, part_type} <= _WRITTEN - {"unknown"}:
        return
    if part_type == "unknown" and table_type in _WRITTEN:  # a CSV file: cells as they are written
        return
    if table_type in ("numeric", "bool") and part_type in _READABLE:
        return
    problem = (
        f"column {name!r} has the type {table_type!r} in {table} and {part_type!r} in a later "
        "part: give all of them the same types, for example by dtype={...} where they are read"
    )
    if part_type == "category of numbers":
        problem += (
            f". Categories that are numbers must be known to all (Dask: .cat.as_known()), or be "
            f"text: .astype({{{name!r}: str}})"
        )
    raise SourceError(problem)


def _cells(column: Any, kind: str) -> Any:
    """Return the cells of a part as the table has them, whatever its own type is."""
    if kind == "bool" and getattr(column, "dtype", None) == np.dtype(bool):
        return column
    numbers = coerce(column, Real())
    if kind == "numeric":
        return numbers
    out = np.full(len(numbers), None, dtype=object)
    out[numbers == 0.0] = False
    out[numbers == 1.0] = True
    return out


# -- One row per person: what a person's rows come to, first, before any model sees them.
#
# A cell of a person is a function of its own rows in the order of the table, bit for bit, whatever
# rows are between them (``units.md``, 13). Calls on such a table protect people, or are refused.


Codes = npt.NDArray[np.int64]


def _extreme(at: Any, start: float) -> Callable[[Codes, Array, int], Array]:
    """Return the function that finds the least (or largest) cell of each person."""
    def of(codes: Codes, cells: Array, people: int) -> Array:
        out = np.full(people, start)
        at(out, codes, cells)
        return np.where(out == start, np.nan, out)

    return of


def _total(codes: Codes, cells: Array, people: int) -> Array:
    """Add up a person's cells in the order of its rows."""
    out: Array = np.bincount(codes, weights=cells, minlength=people).astype(float)
    return out


def _first(codes: Codes, cells: Any, people: int) -> Any:
    out = np.full(people, None if cells.dtype == object else np.nan, dtype=cells.dtype)
    out[codes[::-1]] = cells[::-1]  # of a place that is written twice, the last write stays
    return out


#: Name -> function of (person of each cell, cells, number of people): cells that are missing, or
#: not finite, or of rows without an id, are left out before.
FUNCTIONS: dict[str, Callable[[Codes, Any, int], Any]] = {
    "count": lambda codes, cells, people: _total(codes, np.ones(len(codes)), people),
    "sum": _total,
    "any": lambda codes, cells, people: np.minimum(_total(codes, cells != 0.0, people), 1.0),
    "min": _extreme(np.minimum.at, np.inf),
    "max": _extreme(np.maximum.at, -np.inf),
    "first": _first,
}


class Features(Adapter):
    """Table with one row per person, made of a table with any number of rows per person.

    ``unit`` is the column of the person; ``features``: new column -> (function, column), "count"
    alone counts rows.
    """

    def __init__(self, source: Source, unit: str, features: Mapping[str, Any]) -> None:
        if not source.rescannable or hasattr(source, "ids"):
            raise SourceError(
                "features of people need a table in one place that can be read again: a "
                "frame, files, a list of frames"
            )
        self._source, self.people_of = source, unit
        self._made = {
            name: feature_of(source.kinds, name, feature, FUNCTIONS)
            for name, feature in features.items()
        }
        if unit not in source.kinds:
            raise no_column(source.kinds, unit, "unit=")
        numbers = {name: "numeric" for name in (unit, *self._made)}
        texts = {name: source.kinds[column] for name, (how, column) in self._made.items()
                 if how == "first" and self._text(column)}  # fmt: skip
        kinds = Kinds({**numbers, **texts})
        kinds.signs = getattr(source.kinds, "signs", None)
        self.kinds = kinds
        self._codes: tuple[Codes, int] | None = None
        self._cells: dict[str, Any] = {}

    def _text(self, column: str) -> bool:
        return self._source.kinds[column] not in ("numeric", "bool", "datetime")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the people as one chunk, in the order of their ids."""
        if self._codes is None:
            ids = Ids(self._source.n, one_type(self._source, self.people_of))
            for chunk in self._source.chunks([self.people_of]):
                ids.add(chunk[self.people_of])
            self._codes = ids.codes()
            self._cells[self.people_of] = np.arange(self._codes[1])
        for name in names:
            if name not in self._cells:
                self._cells[name] = self._feature(*self._made[name])
        yield {name: self._cells[name] for name in names}

    def _feature(self, how: str, column: str) -> Any:
        """Return one new column: a function of each person's cells in a column."""
        assert self._codes is not None
        codes, people = self._codes
        present = codes >= 0
        if not column:
            return FUNCTIONS[how](codes[present], codes[present], people)
        text = how == "first" and self._text(column)
        number = as_recorded(column, Real(), self._source.kinds)
        parts = [
            objects_of(chunk[column]) if text else coerce(chunk[column], number)
            for chunk in self._source.chunks([column])
        ]
        cells: Any = np.concatenate(parts) if parts else np.empty(0)
        present &= np.array([c is not None for c in cells], bool) if text else np.isfinite(cells)
        return FUNCTIONS[how](codes[present], cells[present], people)
