"""Choice of the adapter of a table, remote tables, and parts read by threads or workers.

An adapter knows its columns, their public kinds and (where the container says so) its row count,
all without reading a cell. It never drops, sorts or samples rows, and it is asked for raw columns
only; coercion to numbers is done by :mod:`dpmodels.formula.reading`, row by row.
"""

from __future__ import annotations

import contextvars
import functools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpmodels.errors import (
    ClusterError,
    DPModelsError,
    RequestError,
    SourceError,
    path_of,
    shown,
)
from dpmodels.quiet import guarded
from dpmodels.resources import holding_memory
from dpmodels.sources.files import CsvSource, DatasetSource, path_source
from dpmodels.sources.parts import (
    CONNECTED,
    Chunk,
    Executor,
    Partition,
    Renamed,
    Source,
    connected_client,
    cut_source,
    stamp,
)
from dpmodels.sources.summed import Partial, Task, done_by_bytes
from dpmodels.sources.tables import (
    ArrowSource,
    DictSource,
    Features,
    FrameSource,
    LazyPolarsSource,
    TypedPart,
    check_names,
    check_type,
    numpy_kind,
    type_of,
    types_of,
    withheld,
)
from dpmodels.units import id_type

# -- Rows that never come here: another engine adds them up, task by task.


_KINDS = ("numeric", "bool", "category", "text", "datetime")


@dataclass(frozen=True)
class Caller:
    """Tasks that the user's own engine does (Spark, Ray, a warehouse)."""

    # ``gather(task)`` has ``dp.partial_sums`` done for every part of the table, and returns what
    # they return.
    gather: Callable[[bytes], Iterable[bytes]]
    knows_parts: ClassVar[bool] = True

    def partitions(self, source: Source, names: Sequence[str]) -> list[Partition]:
        """Return none: the parts are known to the user's engine."""
        return []

    def run(self, task: Any, partitions: Sequence[Partition]) -> tuple[str, Iterator[Any]]:
        """Have the tasks done."""
        packed = task.packed()
        return stamp(packed), (_unpacked(packed_sums) for packed_sums in self.gather(packed))


class Elsewhere:
    """A table in Spark, Ray or a warehouse, for any verb that takes a table.

    Parameters
    ----------
    kinds : mapping of str to str
        Column -> "numeric", "bool", "category", "text" or "datetime". Public. The parts are read by
        them, whatever a library has made of the cells of one; what cannot be (numbers for text) is
        refused.
    n : int
        Number of rows. Public.
    sums : function
        ``sums(task)`` calls ``dp.partial_sums(task, part, rows)`` for every part of the table,
        wherever that is, and returns all that they return, once a part. It is called once a pass.

    Privacy
    -------
    The sums have no noise: they are as confidential as the rows, and so is the task, which may
    hold the key of secret coins. Rows of a part must be the same in every pass. What is released,
    and charged, is that of the same fit in one process. Sums that were added up elsewhere are
    trusted: no check can tell whether each row was counted once.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dpmodels as dp
    >>> parts = [pd.DataFrame({"y": np.arange(9.0), "x": np.arange(9.0)}) for _ in range(3)]
    >>> def sums(task):  # somewhere else
    ...     return [dp.partial_sums(task, i, part) for i, part in enumerate(parts)]
    >>> table = dp.Elsewhere({"y": "numeric", "x": "numeric"}, n=27, sums=sums)
    """

    rescannable = True
    schema_attr = None

    def __init__(
        self, kinds: Mapping[str, str], n: int, sums: Callable[[bytes], Iterable[bytes]]
    ) -> None:
        check_names(kinds)
        for name, kind in kinds.items():
            if kind not in _KINDS:
                raise RequestError(f"column {name!r}: {shown(kind)} is none of {', '.join(_KINDS)}")
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise RequestError(f"n= is the number of rows, got {shown(n)}")
        if not callable(sums):
            raise RequestError("sums= is a function of a task (see the documentation)")
        self.kinds = self.types = dict(kinds)
        self.n: int | None = n
        self.executor = Caller(sums)

    def __repr__(self) -> str:
        return f"<table elsewhere, {len(self.kinds)} columns, {self.n} rows>"

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Raise an error: the rows are not on this machine."""
        raise SourceError(
            "this call reads rows themselves, not sums of them, and they are not here. Use a "
            "method of sums: the default of dp_ols, dp_glm (but for very small eps), dp_quantreg, "
            "dp_moments, dp_table, dp_npreg, dp_pca"
        )


def need_rows(source: Any, what: str) -> None:
    """Refuse a remote table if the method reads rows themselves. Call it before the charge."""
    if isinstance(source, Elsewhere):
        raise SourceError(
            f"{what} reads rows themselves, not sums of them, and they are not here: give the "
            "table, or use a method that reads only sums"
        )


def _unpacked(packed: Any) -> Any:
    """Return the partial sums that came as bytes."""
    out: Any = None
    try:
        out = pickle.loads(bytes(packed))  # noqa: S301 - from the user's own engine, which is trusted
    except DPModelsError:
        raise
    except Exception:
        out = None
    return out  # is checked where it is added


# -- Dask DataFrames: partitions are added up where they are, or read one by one in this process.


class DaskSource:
    """A Dask DataFrame."""

    rescannable = True
    schema_attr = None
    travels = True
    n: int | None = None

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


class FramesSource:
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
        self.n: int | None = None
        parts: list[Any] | None = None
        if isinstance(data, Iterator):
            first = _part(withheld(lambda: next(data, None)))

            def once() -> Iterator[Any]:
                if first is not None:
                    yield first
                yield from data

            self._open = once
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


def _refuse_other_objects(data: Any) -> None:
    """Refuse a column, or a connection to a database, with what to type."""
    if type(data).__name__ == "Series":
        raise SourceError("a Series is one column, not a table. For example: series.to_frame('y')")
    connects = any(hasattr(data, name) for name in ("cursor", "sql", "connect"))
    if connects and not hasattr(data, "columns"):  # a polars frame has sql(), too
        raise SourceError(
            f"a {type(data).__name__} is a connection to a database, not a table. Pass what a "
            "query gives: con.sql(query) of DuckDB, else pd.read_sql(query, con)"
        )


def as_source(data: Any) -> Source:
    """Choose the adapter for ``data`` without reading a cell.

    What is read are column names, dtypes and (where the container states it) the row count: public.
    Types of a table in parts are those of its first part; a pandas reader, which guesses them part
    by part, is refused.
    """
    if isinstance(data, (Elsewhere, Renamed, Features, CsvSource)):
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
    _refuse_other_objects(data)
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
        return path_source(_listed_paths(data))
    if listed or isinstance(data, Iterator) or callable(data):
        return FramesSource(data, as_source)
    raise SourceError(
        f"cannot read a {type(data).__name__} as a table. Pass a pandas or polars frame, an Arrow "
        "table, a path to a Parquet or CSV file, or a list of frames"
    )


def _listed_paths(entries: Sequence[Any]) -> list[Path]:
    """Return the paths of a list. An entry that is not a file is described, not quoted."""
    paths = []
    for place, entry in enumerate(entries, 1):
        path = path_of(entry, f"entry {place} of the list: the path of a table", SourceError)
        if not path.exists():
            raise SourceError(
                f"entry {place} of the list, <{type(entry).__name__}>, is not the path of a file. "
                "A list is a table if its entries are paths, or frames with the same columns"
            )
        paths.append(path)
    return paths


# -- What runs where the rows are: a task on a Dask worker, or one that another engine calls.


@dataclass(frozen=True)
class Failed:
    """Returned form of a failed task: an exception would be logged next to the rows."""

    kind: type[DPModelsError]
    said: tuple[Any, ...]


def on_worker(
    packed: bytes, index: int, opener: Callable[[Any], Source], data: Any, first: int | None
) -> Partial | Failed:
    """Do a task where it arrives. Nothing random, nothing logged; an error comes back as a value.

    **Confidential**: exact sums. A static check: no random numbers can be reached from here.
    """
    try:
        with holding_memory():
            return guarded(lambda: done_by_bytes(packed, index, opener(data), first))
    except DPModelsError as error:  # says nothing of the rows
        return Failed(type(error), error.args)


def unwrap_result(result: Any) -> Any:
    """Return a worker's result, or raise its error."""
    if isinstance(result, Failed):
        raise result.kind(*result.said)
    return result


# -- What another engine calls for each part of a table


def partial_sums(task: bytes, part: int, rows: Any) -> bytes:
    """Return the exact sums of one part of a table, for one pass of a fit.

    Parameters
    ----------
    task : bytes
        As handed to the function ``sums`` of :class:`Elsewhere`.
    part : int
        Number of the part, the same whenever it is computed again; each part has its own.
    rows : table
        As the data of a fit: a frame, an Arrow table, a path, an iterator of tables.

    Returns
    -------
    bytes

    Privacy
    -------
    **Confidential**, no release: sums without noise. A function of the rows and the task alone,
    so a part that is computed twice gives the same. Errors say nothing of the rows.

    Notes
    -----
    On Spark, with ``df`` cached or read from files, so that its partitions stay as they are::

        def sums(task):
            def add_up(batches):
                part, rows = TaskContext.get().partitionId(), list(batches)
                found = [dp.partial_sums(task, part, rows)] if rows else []
                yield pa.RecordBatch.from_pydict({"sums": pa.array(found, pa.binary())})

            wanted = df.select("y", "x1", "x2").mapInArrow(add_up, "sums binary")
            return [bytes(row.sums) for row in wanted.collect()]

        table = dp.Elsewhere(dict.fromkeys(["y", "x1", "x2"], "numeric"), n=df.count(), sums=sums)
        fit = dp.dp_ols("y ~ x1 + x2", table, eps=1, delta=1e-9, bounds=bounds)

    Spark computes again what it lost and collects each partition once; an empty one gives nothing.
    """
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part < 1 << 62:
        raise RequestError(f"part= is the number of the part: 0, 1, ...; got {shown(part)}")
    if not isinstance(task, bytes):
        raise RequestError("task= is what the fit hands to the function sums, as bytes")
    return guarded(lambda: pickle.dumps(done_by_bytes(task, part, as_source(rows), None)))


# -- Who reads the parts of a table: this process, its threads, a Dask cluster, or somebody else.
#
# Workers return exact sums (:mod:`dpmodels.sources.summed`); noise and accounting stay with the
# caller. Proofs: ``theory.md``.


#: Rows per part. With many small parts a file is opened, and the head of a row group decoded,
#: often.
_THREAD_ROWS, _WORKER_ROWS = 1 << 19, 1 << 20
#: The least that is worth a thread's while; and parts of a table of threads.
_LEAST, _PARTS = 1 << 17, 8
#: Rows beyond which the cores of the machine add up without being asked, and columns of a design
#: from which that is faster (benchmarks/results/peers_speed.md): the integers are the same.
MANY_ROWS, WIDE = 200_000, 40


@dataclass(frozen=True)
class Threads:
    """Tasks over the threads of this process; BLAS has one thread under the guard."""

    count: int
    knows_parts: ClassVar[bool] = False
    rows: int = _THREAD_ROWS  # Rows per part, about
    wide: int = 0  # Columns of a design up to which one thread reads

    def partitions(self, source: Source, names: Sequence[str]) -> list[Partition]:
        """Return the parts of the table."""
        if self.count == 1:
            return []  # the caller's own thread
        share = (source.n or 0) // _PARTS
        return cut_source(source, names, min(self.rows, max(share, _LEAST)), travel=False)

    def run(self, task: Task, partitions: Sequence[Partition]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        return "", self._run(task, partitions)

    def _run(self, task: Task, partitions: Sequence[Partition]) -> Iterator[Any]:
        """Run the tasks on threads of this process, and yield their results."""
        def run_part(index: int, partition: Partition, context: contextvars.Context) -> Partial:
            source = partition.opener(partition.data)
            return context.run(task.add_part, index, source, partition.first)

        pool = ThreadPoolExecutor(self.count)
        try:
            waiting = [
                pool.submit(run_part, i, partition, contextvars.copy_context())
                for i, partition in enumerate(partitions)
            ]
            for future in waiting:
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Cluster:
    """Tasks on the workers of a Dask cluster."""

    client: Any
    knows_parts: ClassVar[bool] = False
    rows: int = _WORKER_ROWS  # Rows per part of a file, about

    def partitions(self, source: Source, names: Sequence[str]) -> list[Partition]:
        """Return the parts of files and Dask frames; rows in the caller's memory stay there."""
        return cut_source(source, names, self.rows, travel=True)

    def run(self, task: Task, partitions: Sequence[Partition]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        packed = task.packed()
        return stamp(packed), self._run(packed, partitions)

    def _run(self, packed: bytes, partitions: Sequence[Partition]) -> Iterator[Any]:
        """Run the tasks on a Dask cluster, and yield their results."""
        import dask
        import distributed

        lost = ""
        try:
            # the plan is a separate task, so that it is sent once per worker
            plan = self.client.submit(bytes, packed, pure=False)
            tasks = [
                dask.delayed(on_worker, pure=False)(plan, i, p.opener, p.data, p.first)
                for i, p in enumerate(partitions)
            ]
            futures = self.client.compute(tasks)
            for future in distributed.as_completed(futures, loop=self.client.loop):
                yield unwrap_result(future.result())
                future.release()
        except Exception as error:
            # Errors of tasks come back as values: other errors are failures of the cluster, or not.
            its_own = isinstance(error, (OSError, TimeoutError, CancelledError)) or (
                type(error).__module__.startswith("distributed")
                or getattr(self.client, "status", "running") != "running"
            )
            if isinstance(error, DPModelsError) or not its_own:
                raise
            lost = type(error).__name__
        if not lost:
            return
        raise ClusterError(  # outside the except block: the withheld error must not be its context
            f"the cluster could not finish reading the rows ({lost}): its workers died or cannot "
            "be reached"
        )


class Connection:
    """Ends with ``close()``, or with the ``with`` block that it opens."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def __repr__(self) -> str:
        return f"<connection to {type(self._executor).__name__.lower()}>"

    def close(self) -> None:
        """Read as without the connection again."""
        if self._executor in CONNECTED:
            CONNECTED.remove(self._executor)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(client: Any = None, *, threads: int | None = None) -> Connection:
    """Have tables read by the workers of a Dask cluster, or by a number of threads.

    Parameters
    ----------
    client : distributed.Client, optional
        Parquet files are read by row groups (the workers must see them under the same path), Dask
        frames by partitions. Rows in this process stay in it. A Dask frame finds its own client
        without this call.
    threads : int, optional
        Threads of this process that read one file or frame; 1: no other thread adds up. Without
        this call wide designs of more than 200 000 rows use as many as there are cores.

    Returns
    -------
    Connection
        In force until its ``close()``, or the end of its ``with`` block.

    Privacy
    -------
    Changes nothing of what is released: workers return exact integer sums, noise is drawn and
    charged in this process alone. The sums, and the keys of secret coins, are as confidential as
    the rows: the cluster must be trusted, and its connections encrypted where its network is not.
    A Dask frame must give the same rows whenever a partition is computed (files, or persisted):
    an unseeded sample or shuffle upstream could count one row twice; of a part whose number of
    rows changes between passes the call says so, where n is public, and ends.

    Notes
    -----
    Every pass that is a sum is added up by tasks. Ranges that are not declared, dp_eptr and
    dp_mean(method="ptr") need rows themselves: tasks return the chosen rows, and no others travel.
    By this process alone, one part after another, read dp_release and the fits on it, dp_gptr,
    dp_ols(method="jl"), dp_test(method="subsample"), and dp_glm(method="objpert" or "gptr") where
    the rows fit in memory.

    Examples
    --------
    >>> import dpmodels as dp
    >>> with dp.connect(threads=2):
    ...     pass  # fits here read with two threads
    """
    if (client is None) == (threads is None):
        raise RequestError("dp.connect(client) or dp.connect(threads=2): give one of the two")
    if client is not None:
        if not (hasattr(client, "submit") and hasattr(client, "scheduler_info")):
            raise RequestError(
                f"dp.connect needs a Dask client, got {shown(client)}. For example: "
                "from distributed import Client; dp.connect(Client('tcp://host:8786'))"
            )
        executor: Executor = Cluster(client)
    else:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise RequestError(f"threads= is a number of threads, got {shown(threads)}")
        executor = Threads(threads)
    CONNECTED.append(executor)
    return Connection(executor)


def executor_for(source: Source) -> Executor | None:
    """Return who reads a source: its own executor, or the one that is connected."""
    executor: Executor | None = getattr(source, "executor", None)
    if executor is not None:
        return executor
    client = getattr(source, "client", None)
    if client is not None:
        return Cluster(client)
    if CONNECTED:
        return CONNECTED[-1]
    if (source.n or 0) <= MANY_ROWS or not hasattr(source, "partitions"):
        return None
    affinity = getattr(os, "sched_getaffinity", None)  # the cores that this process may use
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    # decoding has a separate thread
    return Threads(max(cores - bool(getattr(source, "decoded", False)), 1), wide=WIDE)
