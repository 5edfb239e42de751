"""Adapters: one class a kind of table, one function that chooses.

An adapter knows its columns, their public kinds and (where the container says so) its row count,
all without reading a cell. It never drops, sorts or samples rows, and it is asked for raw columns
only; coercion to numbers is done by :mod:`dpmodels.formula.coerce`, row by row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from dpmodels.errors import SourceError
from dpmodels.sources.dask import DaskSource
from dpmodels.sources.elsewhere import Elsewhere
from dpmodels.sources.files import DatasetSource, path_source
from dpmodels.sources.memory import ArrowSource, DictSource, FrameSource, LazyPolarsSource
from dpmodels.sources.parts import FramesSource
from dpmodels.sources.source import READ_ROWS, Source, chosen_chunks

__all__ = ["READ_ROWS", "DictSource", "Source", "as_source", "chosen_chunks"]


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
    if isinstance(data, Elsewhere):
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
