"""Adapters: one class a kind of table, one function that chooses.

An adapter knows its columns, their public kinds and (where the container says so) its row count,
all without reading a cell. It never drops, sorts or samples rows, and it is asked for raw columns
only; coercion to numbers is done by :mod:`dpmodels.formula.coerce`, row by row.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from dpmodels.errors import SourceError
from dpmodels.sources.elsewhere import DaskSource, Elsewhere
from dpmodels.sources.features import Features
from dpmodels.sources.files import DatasetSource, path_source
from dpmodels.sources.memory import ArrowSource, DictSource, FrameSource, LazyPolarsSource
from dpmodels.sources.renamed import Renamed
from dpmodels.sources.source import READ_ROWS, Chunk, Source, chosen_chunks, withheld
from dpmodels.sources.typed import TypedPart, check_type, type_of, types_of

__all__ = ["READ_ROWS", "DictSource", "FramesSource", "Source", "as_source", "chosen_chunks"]


# -- Tables that come in parts: a list of tables, a function that returns an iterator, an itera


_FIRST = "the first table of the iterable"


class FramesSource:
    """A list of tables, a function that returns an iterator of tables, or a plain iterator.

    The types of the first part are those of the table (:class:`~dpmodels.sources.typed.TypedPart`):
    a part that a library has typed by its own cells is not read in another way for it.

    Notes
    -----
    **Privacy.** The types of the first part are public, as those of a frame are, and so is whether
    a later part has others. Readers that are known to guess types part by part are refused.
    """

    def __init__(self, data: Any, as_source: Callable[[Any], Source]) -> None:
        _refuse_reader(data)
        self._as_source = as_source  # how a part is opened: a part may itself come in parts
        self.rescannable = not isinstance(data, Iterator)
        self._open: Callable[[], Iterator[Any]]
        self.n: int | None = None
        parts: list[Any] | None = None
        if isinstance(data, Iterator):
            first = withheld(lambda: next(data, None))

            def once() -> Iterator[Any]:
                if first is not None:
                    yield first
                yield from data

            self._open = once
        elif callable(data):

            def opened() -> Iterator[Any]:
                made = data()
                try:
                    _refuse_reader(made)
                except SourceError:
                    made.close()  # a file that nobody else can close
                    raise
                return iter(made)

            self._open = opened
            first = withheld(lambda: next(self._open(), None))
        else:
            parts = list(data)
            self._open = lambda: iter(parts)
            first = parts[0] if parts else None
        if first is None:
            raise SourceError("the iterable of tables is empty: its columns are not known")
        head = as_source(first)
        self.kinds = head.kinds
        self.schema_attr = head.schema_attr
        self._types = types_of(head)
        if parts is not None:
            self._of_a_list([as_source(part) for part in parts])

    def _of_a_list(self, sources: list[Source]) -> None:
        """Know the number of rows; refuse types that differ before anything is read."""
        counts = [source.n for source in sources]
        self.n = None if any(c is None for c in counts) else sum(c or 0 for c in counts)
        for source in sources:
            for name in self.kinds:
                if name in source.kinds:
                    check_type(name, self._types[name], type_of(source, name), _FIRST)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of each table in turn."""
        for part in self._open():
            yield from TypedPart(self._as_source(part), self._types, _FIRST).chunks(names)


def _refuse_reader(data: Any) -> None:
    module = type(data).__module__.split(".")[0]
    if module == "pandas" and type(data).__name__ in ("TextFileReader", "JsonReader"):
        raise SourceError(
            "a pandas reader guesses the types of each part from its cells, so one row could "
            "decide how the others are read. Pass the path of the CSV file itself: it is read in "
            "parts too. For other files pass a function that yields frames of stated types, for "
            "example lambda: (part for part in pd.read_json(path, lines=True, chunksize=10**5, "
            "dtype={'x': float}))"
        )


def as_source(data: Any) -> Source:
    """Choose the adapter for ``data`` without reading a cell.

    Parameters
    ----------
    data : table
        pandas DataFrame, dictionary of arrays, anything with an Arrow stream (polars, pyarrow,
        DuckDB relation), pyarrow dataset, polars LazyFrame, path or list of paths to Parquet or
        CSV, Dask DataFrame, :class:`Elsewhere`, list of tables, function returning an iterator of
        tables, iterator of tables.

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
    if isinstance(data, (Elsewhere, Renamed, Features)):
        return data
    module = type(data).__module__.split(".")[0]
    if any(
        c.__name__ == "DataFrame" and c.__module__.split(".")[0] == "pandas"
        for c in type(data).__mro__
    ):  # subclasses too; decided without importing pandas
        return FrameSource(data)
    if module.startswith("dask"):
        return DaskSource(data)
    if module == "polars" and type(data).__name__ == "LazyFrame":
        return LazyPolarsSource(data)
    if module == "pyarrow" and hasattr(data, "count_rows") and hasattr(data, "to_batches"):
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
        return path_source([Path(data)])
    if isinstance(data, np.ndarray):
        raise SourceError(
            "a bare array has no column names. For example: "
            "pd.DataFrame(array, columns=['y', 'x1', 'x2'])"
        )
    listed = isinstance(data, (list, tuple))
    if listed and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        return path_source([Path(d) for d in data])
    if listed or isinstance(data, Iterator) or callable(data):
        return FramesSource(data, as_source)
    raise SourceError(
        f"cannot read a {type(data).__name__} as a table. Pass a pandas or polars frame, an Arrow "
        "table, a path to a Parquet or CSV file, or a list of frames"
    )
