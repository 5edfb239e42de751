"""Adapters: one class a kind of table, one function that chooses.

An adapter knows its columns, their public kinds and (where the container says so) its row count,
all without reading a cell. It never drops, sorts or samples rows, and it is asked for raw columns
only; coercion to numbers is done by :mod:`dpmodels.formula.coerce`, row by row.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmodels.errors import DPModelsError, SourceError, shown
from dpmodels.schema import Schema

if TYPE_CHECKING:
    from dpmodels.sources.windows import Windows

__all__ = ["READ_ROWS", "Source", "as_source", "chosen_chunks"]

#: Rows asked from a reader at once; block height is another number (see ``rows.py``).
READ_ROWS = 65_536

Chunk = Mapping[str, Any]


class Source(Protocol):
    """A table that can be read in chunks.

    Attributes
    ----------
    kinds : mapping of str to str
        Column -> "numeric", "bool", "category", "text", "datetime" or "unknown" (CSV): public.
    n : int or None
        Row count if the container knows it without a pass.
    rescannable : bool
        Whether ``chunks`` can be called again and gives the same rows in the same order.
    schema_attr : object or None
        A schema attached to the table (``Schema.attach``).
    """

    @property
    def kinds(self) -> Mapping[str, str]:
        """Column -> public kind."""
        ...

    @property
    def n(self) -> int | None:
        """Public row count, if known."""
        ...

    @property
    def rescannable(self) -> bool:
        """Whether the rows can be read again."""
        ...

    @property
    def schema_attr(self) -> Any:
        """Schema attached to the table, or None."""
        ...

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield dictionaries of equally long raw columns."""
        ...


def _numpy_kind(dtype: Any) -> str:
    """Public kind of a pandas or numpy dtype."""
    if str(dtype) == "category":
        return "category"
    letter = getattr(dtype, "kind", "O")
    return {"i": "numeric", "u": "numeric", "f": "numeric", "b": "bool", "m": "datetime",
            "M": "datetime"}.get(letter, "text")  # fmt: skip


def _arrow_kind(dtype: Any) -> str:
    """Public kind of an Arrow type, by its printed name (no pyarrow import needed)."""
    text = str(dtype)
    if text.startswith("dictionary"):
        return "category"
    if text.startswith(("int", "uint", "float", "double", "half", "decimal")):
        return "numeric"
    if text == "bool":
        return "bool"
    if text.startswith(("timestamp", "date", "time", "duration")):
        return "datetime"
    return "text"


def _check_names(names: Iterable[Any]) -> None:
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise SourceError(
                f"column names must be text, got {shown(name)}. For example: data.columns = "
                "data.columns.astype(str)"
            )
        if name in seen:
            raise SourceError(f"two columns are called {name!r}: rename one of them")
        seen.add(name)


def chosen_chunks(
    source: Source, names: Sequence[str], windows: Windows
) -> Iterator[tuple[int, Chunk]]:
    """Yield (rows left out before it, chunk): a source that can skip rows gives ``chosen``.

    What is left out is never in ``windows``; rows of a chunk may or may not be. The last chunk may
    be empty, with the rows left out at the end.
    """
    skipping = None if windows.every == 1 else getattr(source, "chosen", None)
    if skipping is not None:
        yield from skipping(names, windows)
        return
    for chunk in source.chunks(names):
        yield 0, chunk
        del chunk  # nothing is held while the next is read


class FrameSource:
    """A pandas DataFrame; slices of its columns, no copy."""

    rescannable = True

    def __init__(self, frame: Any) -> None:
        _check_names(frame.columns)
        self._frame = frame
        self.kinds = {c: _numpy_kind(t) for c, t in frame.dtypes.items()}
        self.n: int | None = len(frame)
        self.schema_attr = Schema.from_frame_attrs(frame)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices."""
        columns = {c: self._frame[c] for c in names}
        # A plain float column gives its own memory; slicing arrays is cheaper than Series.
        arrays = {
            c: s.to_numpy() if isinstance(s.dtype, np.dtype) and s.dtype.kind in "iufb" else s
            for c, s in columns.items()
        }
        total = len(self._frame)
        for start in range(0, total, READ_ROWS):
            stop = min(total, start + READ_ROWS)
            yield {
                c: a[start:stop] if isinstance(a, np.ndarray) else a.iloc[start:stop]
                for c, a in arrays.items()
            }


class DictSource:
    """A dictionary of equally long arrays, Series or lists.

    An array or a Series has a type, which is public. A list has none, so as in a CSV file the kind
    is "unknown" and each cell is read by itself: numpy would make text of ``[True, "x"]``.
    """

    rescannable = True
    schema_attr = None

    def __init__(self, data: Mapping[str, Any]) -> None:
        _check_names(data)
        self._data = {k: _own_column(v) for k, v in data.items()}
        lengths = {len(v) for v in self._data.values()}
        if len(lengths) > 1:
            raise SourceError(f"the arrays have different lengths: {sorted(lengths)}")
        self._rows = lengths.pop() if lengths else 0
        self.n: int | None = self._rows
        self.kinds = {k: _column_kind(v, self._data[k]) for k, v in data.items()}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield slices."""
        columns = {c: self._data[c] for c in names}
        for start in range(0, self._rows, READ_ROWS):
            part = slice(start, start + READ_ROWS)
            yield {c: a.iloc[part] if hasattr(a, "iloc") else a[part] for c, a in columns.items()}


def _own_column(cells: Any) -> Any:
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


def _column_kind(given: Any, column: Any) -> str:
    if hasattr(column, "dtype"):
        typed = hasattr(given, "dtype") or hasattr(given, "__array__")
        return _numpy_kind(column.dtype) if typed else "unknown"
    return _arrow_kind(column.type)


class ArrowSource:
    """Anything with an Arrow C stream: polars, pyarrow, DuckDB relations, ..."""

    schema_attr = None

    def __init__(self, data: Any) -> None:
        _need("pyarrow", "to read this kind of table")
        import pyarrow as pa

        # A one-shot reader gives its rows once; tables and relations open a new stream each time.
        self.rescannable = not isinstance(data, pa.RecordBatchReader)
        self._data = data
        schema = data.schema if isinstance(getattr(data, "schema", None), pa.Schema) else None
        if schema is None:
            # A lazy query is run to find its columns: of no rows, where it can say so.
            lazy = type(data).__module__.split(".")[0].lstrip("_") == "duckdb"
            query = data.limit(0) if lazy and hasattr(data, "limit") else data
            schema = _withheld(lambda: pa.RecordBatchReader.from_stream(query).schema)
        _check_names(schema.names)
        self.kinds = {f.name: _arrow_kind(f.type) for f in schema}
        self.n: int | None = None
        if hasattr(data, "num_rows"):
            self.n = int(data.num_rows)
        elif type(data).__module__.startswith("polars"):
            self.n = int(data.height)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield record batches as dictionaries."""
        import pyarrow as pa

        if isinstance(self._data, pa.RecordBatchReader):
            reader = self._data
        else:
            reader = pa.RecordBatchReader.from_stream(self._data)
        for batch in reader:
            yield from _batch_chunks(batch, names)


def _columns(batch: Any, names: Sequence[str]) -> Chunk:
    schema = batch.schema
    return {c: batch.column(schema.get_field_index(c)) for c in names}


def _batch_chunks(batch: Any, names: Sequence[str]) -> Iterator[Chunk]:
    columns = _columns(batch, names)
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
        _need("pyarrow", "to read a polars LazyFrame")
        self._data = data
        schema = data.collect_schema()
        _check_names(schema.names())
        self.kinds = {f.name: _arrow_kind(f.type) for f in schema.to_frame().to_arrow().schema}

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
                yield from _batch_chunks(batch, names)


#: Said where the message of a library is withheld.
_UNREADABLE = (
    "the table cannot be read: its library failed, with a message that is withheld because it "
    "could quote rows. Nothing was charged. Try to read it without this package"
)


def _withheld(read: Callable[[], Any], said: str = _UNREADABLE) -> Any:
    """Return what ``read`` gives; the message of a library that fails could quote rows."""
    problem: DPModelsError | None = None
    try:
        return read()
    except DPModelsError as error:
        problem = error
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of a library written in Rust is no Exception
        problem = SourceError(said)
    # Raised outside the except block: the library's exception must not stay in __context__.
    raise problem


def _need(module: str, why: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise SourceError(f"{module} is needed {why}: pip install {module}")


def as_source(data: Any) -> Source:
    """Choose the adapter for ``data`` without reading a cell.

    Parameters
    ----------
    data : table
        pandas DataFrame, dictionary of arrays, anything with an Arrow stream (polars, pyarrow,
        DuckDB relation), pyarrow dataset, polars LazyFrame, path or list of paths to Parquet or
        CSV, Dask DataFrame, list of tables, function returning an iterator of tables, iterator of
        tables.

    Raises
    ------
    SourceError
        The object is none of these.

    Privacy
    -------
    Reads column names, dtypes and (where the container states it) the row count: public. Types of
    a table in parts are those of its first part; a pandas reader, which guesses them part by part,
    is refused.
    """
    module = type(data).__module__.split(".")[0]
    if any(
        c.__name__ == "DataFrame" and c.__module__.split(".")[0] == "pandas"
        for c in type(data).__mro__
    ):  # subclasses too; decided without importing pandas
        return FrameSource(data)
    if module.startswith("dask"):
        from dpmodels.sources.dask import DaskSource

        return DaskSource(data)
    if module == "polars" and type(data).__name__ == "LazyFrame":
        return LazyPolarsSource(data)
    if module == "pyarrow" and hasattr(data, "count_rows") and hasattr(data, "to_batches"):
        from dpmodels.sources.files import DatasetSource

        return DatasetSource(data)
    if type(data).__name__ == "Series":
        raise SourceError("a Series is one column, not a table. For example: series.to_frame('y')")
    if isinstance(data, Mapping):
        if any(isinstance(v, (str, Number)) for v in data.values()):
            raise SourceError(
                "a dictionary is a table if its values are columns. For records: "
                "pd.DataFrame(records)"
            )
        return DictSource(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data)
    if isinstance(data, (str, os.PathLike)):
        from dpmodels.sources.files import path_source

        return path_source([Path(data)])
    if isinstance(data, np.ndarray):
        raise SourceError(
            "a bare array has no column names. For example: "
            "pd.DataFrame(array, columns=['y', 'x1', 'x2'])"
        )
    listed = isinstance(data, (list, tuple))
    if listed and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        from dpmodels.sources.files import path_source

        return path_source([Path(d) for d in data])
    if listed or isinstance(data, Iterator) or callable(data):
        from dpmodels.sources.parts import FramesSource

        return FramesSource(data)
    raise SourceError(
        f"cannot read a {type(data).__name__} as a table. Pass a pandas or polars frame, an Arrow "
        "table, a path to a Parquet or CSV file, or a list of frames"
    )
