"""Choice of the adapter of a table, and tables that come in parts: Dask frames, lists of tables.

An adapter knows its columns, their public kinds and (where the container says so) its row count,
all without reading a cell. It never drops, sorts or samples rows, and it is asked for raw columns
only; coercion to numbers is done by :mod:`dpmodels.formula.reading`, row by row.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from dpmodels.errors import SourceError, path_of
from dpmodels.sources.files import DatasetSource, path_source
from dpmodels.sources.parts import Adapter, Chunk, Partition, Source, connected_client
from dpmodels.sources.refusals import check_names, listed_paths, refuse_other_objects
from dpmodels.sources.tables import (
    ArrowSource,
    DictSource,
    FrameSource,
    TypedPart,
    check_type,
    numpy_kind,
    type_of,
    types_of,
    withheld,
)
from dpmodels.units import id_type

# -- Dask DataFrames: partitions are added up where they are, or read one by one in this process.


class DaskSource(Adapter):
    """A Dask DataFrame."""

    travels = True

    def __init__(self, data: Any) -> None:
        check_names(data.columns)
        self._data = data
        self.kinds = {c: numpy_kind(t) for c, t in data.dtypes.items()}
        # those of the frame: a partition may have got others by the cells that it holds
        self.types = types_of(FrameSource(data._meta))

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the chunks of one partition after another."""
        scheduler = self.client or "synchronous"
        for part in self._parts(names):
            frame = FrameSource(part.compute(scheduler=scheduler))
            yield from TypedPart(frame, self.types).chunks(names)

    def partitions(self, names: Sequence[str], rows: int) -> list[Partition]:
        """Return the partitions, if a cluster computes them."""
        if self.client is None:
            return []
        return [Partition(FrameSource, part) for part in self._parts(names)]

    def lengths(self) -> list[int] | None:
        """Return the number of rows of each partition, counted where they are."""
        if self.client is None:
            return None
        import dask

        tasks = [dask.delayed(len)(part) for part in self._parts(list(self.kinds)[:1])]
        counts: list[int] = self.client.gather(self.client.compute(tasks))
        return counts

    def partitions_of_people(self, column: str, kinds: Mapping[str, Any]) -> list[Partition]:
        """Return partitions in which each person of a column lies whole, if a cluster has them.

        Rows move once, and are held by the workers until the partitions are let go.
        """
        if self.client is None:
            return []
        from dpmodels.sources.people import move_to_people, whole_part

        held = self.client.persist(move_to_people(self._data, column, kinds))
        return [Partition(whole_part, part) for part in held.to_delayed()]

    def people(self, column: str) -> int | None:
        """Return the number of ids counted on the workers, or None if the caller counts."""
        if self.client is None:
            return None
        import dask

        from dpmodels.sources.people import added_people, count_rows_by_person, people_of

        parts = count_rows_by_person(self._data, column).to_delayed()
        tasks = [dask.delayed(people_of)(part) for part in parts]
        return added_people(self.client.gather(self.client.compute(tasks)))

    def ids(self, column: str) -> str:
        """Return the type of ids that the frame declares."""
        return id_type(self._data._meta[column])

    @functools.cached_property
    def client(self) -> Any:
        """The client of the cluster that holds the frame, else the one in force, or None."""
        parts = self._parts(list(self.kinds)[:1])
        return (_holder(parts[0]) if parts else None) or connected_client()

    def _parts(self, names: Sequence[str]) -> list[Any]:
        return list(self._data[list(names)].to_delayed())


def _holder(part: Any) -> Any:
    """Return the client of the cluster that holds a partition, or None for any worker."""
    for task in dict(part.__dask_graph__()).values():
        # a future of dask.distributed, which is not imported here: only its client can fetch it
        if type(task).__name__ == "Future" and hasattr(task, "client"):
            return task.client
    return None


# -- Tables that come in parts: a list of tables, a function that returns an iterator, an iterator.


_FIRST = "the first table of the iterable"


class FramesSource(Adapter):
    """A list of tables, a function that returns an iterator of tables, or a plain iterator.

    The types of the first part are those of the table (:class:`TypedPart`): a part that a library
    has typed by its own cells is not read in another way for it.

    **Privacy.** The types of the first part are public, as those of a frame are, and so is whether
    a later part has others. Readers that are known to guess types part by part are refused.
    """

    def __init__(self, data: Any, as_source: Callable[[Any], Source]) -> None:
        _refuse_reader(data)
        self._as_source = as_source  # how a part is opened: a part may itself come in parts
        self.rescannable = not isinstance(data, Iterator)
        self._open: Callable[[], Iterator[Any]]
        parts: list[Any] | None = None
        if isinstance(data, Iterator):
            first = _part(withheld(lambda: next(data, None)))
            self._open = lambda: itertools.chain([first], data)
        elif callable(data):

            def opened() -> Iterator[Any]:
                reader = data()
                try:
                    _refuse_reader(reader)
                except SourceError:
                    reader.close()  # a file that nobody else can close
                    raise
                return iter(reader)

            self._open = opened
            first = _part(withheld(lambda: next(self._open(), None)))
        else:
            parts = list(data)
            self._open = lambda: iter(parts)
            first = parts[0] if parts else None
            for place, part in enumerate(parts, 1):
                _part(part, place)
        if first is None:
            raise SourceError("the iterable of tables is empty: its columns are not known")
        head = as_source(first)
        self.kinds = head.kinds
        self.schema_attr = head.schema_attr
        self._types = types_of(head)
        if parts is not None:
            sources = [as_source(part) for part in parts]
            counts = [source.n for source in sources]
            self.n = None if any(c is None for c in counts) else sum(c or 0 for c in counts)
            for source in sources:  # types that differ are refused before anything is read
                for name in self.kinds:
                    if name in source.kinds:
                        check_type(name, self._types[name], type_of(source, name), _FIRST)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of each table in turn."""
        for part in self._open():
            yield from TypedPart(self._as_source(part), self._types, _FIRST).chunks(names)


def _part(part: Any, place: int = 1) -> Any:
    """Return a part of a table. Anything else is described by its type and position, not quoted."""
    if isinstance(part, (str, os.PathLike)) and not (
        isinstance(part, os.PathLike) and path_of(part, error=SourceError).exists()
    ):
        raise SourceError(
            f"part {place} of the iterable, <{type(part).__name__}>, is not a table. Each part "
            "must be a frame; give a list of paths for several files"
        )
    return part


def _refuse_reader(data: Any) -> None:
    """Refuse a pandas reader, which guesses types part by part."""
    module = type(data).__module__.split(".")[0]
    if module == "pandas" and type(data).__name__ in ("TextFileReader", "JsonReader"):
        raise SourceError(
            "a pandas reader guesses the types of each part from its cells, so one row could "
            "decide how the others are read. Pass the path of the CSV file itself: it is read in "
            "parts too. For other files pass a function that yields frames of stated types, for "
            "example lambda: (part for part in pd.read_json(path, lines=True, chunksize=10**5, "
            "dtype={'x': float}))"
        )
    if hasattr(data, "read"):
        raise SourceError("an open file is not a table. Give its path, as in data='study.csv'")


def as_source(data: Any) -> Source:
    """Choose the adapter for ``data`` without reading a cell.

    What is read are column names, dtypes and (where the container states it) the row count: public.
    Types of a table in parts are those of its first part; a pandas reader, which guesses them part
    by part, is refused.
    """
    if isinstance(data, Adapter):
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
        return ArrowSource(data)
    if module == "pyarrow" and hasattr(data, "count_rows") and hasattr(data, "to_batches"):
        return DatasetSource(data)
    refuse_other_objects(data)
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
        return path_source([path_of(data, "the path of a table", SourceError)])
    if isinstance(data, np.ndarray):
        raise SourceError(
            "a bare array has no column names. For example: "
            "pd.DataFrame(array, columns=['y', 'x1', 'x2'])"
        )
    listed = isinstance(data, (list, tuple))
    if listed and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        return path_source(listed_paths(data))
    if listed or isinstance(data, Iterator) or callable(data):
        return FramesSource(data, as_source)
    raise SourceError(
        f"cannot read a {type(data).__name__} as a table. Pass a pandas or polars frame, an Arrow "
        "table, a path to a Parquet or CSV file, or a list of frames"
    )
