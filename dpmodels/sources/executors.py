"""Executors of the tasks of a pass: threads, a Dask cluster, or the user's own engine.

Tasks and parts are moved from here and their results are handed on, unopened: which rows a part
has, what a task returns and which results are added is decided in
:mod:`dpmodels.sources.summed`. Proofs: ``theory.md``.
"""

from __future__ import annotations

import contextvars
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from dpmodels.errors import ClusterError, DPModelsError, RequestError, SourceError, shown
from dpmodels.sources.parts import CONNECTED, Adapter, Chunk, Executor, Partition, Source
from dpmodels.sources.refusals import check_names
from dpmodels.sources.summed import Failed, Task, on_worker, sums_of_part
from dpmodels.sources.tasks import as_source

# -- Rows that never come here: another engine adds them up, task by task.


_KINDS = ("numeric", "bool", "category", "text", "datetime")


@dataclass(frozen=True)
class Caller:
    """Tasks that the user's own engine does (Spark, Ray, a warehouse)."""

    # ``gather(task)`` has ``dp.partial_sums`` done for every part of the table, and returns what
    # they return.
    gather: Callable[[bytes], Iterable[bytes]]
    knows_parts: ClassVar[bool] = True
    remote: ClassVar[bool] = True

    def part_rows(self, source: Source) -> int:
        """Return 0: the parts are known to the user's engine."""
        return 0

    def run(self, task: Any, parts: Sequence[Partition]) -> Iterator[Any]:
        """Have the tasks done."""
        return map(_unpacked, self.gather(task))


class Elsewhere(Adapter):
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
        self.kinds = dict(kinds)
        self.n = n
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
    """Return the partial sums that came as bytes; None, which is refused where it is added."""
    with suppress(Exception):
        return pickle.loads(bytes(packed))  # noqa: S301 - from the user's own engine, which is trusted
    return None


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
    return pickle.dumps(sums_of_part(task, part, as_source, rows, None))


# -- Threads of this process, and the workers of a Dask cluster.


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
    remote: ClassVar[bool] = False
    rows: int = _THREAD_ROWS  # Rows per part, about
    wide: int = 0  # Columns of a design up to which one thread reads

    def part_rows(self, source: Source) -> int:
        """Return the rows of a part; 0 where the caller's own thread reads."""
        share = (source.n or 0) // _PARTS
        return 0 if self.count == 1 else min(self.rows, max(share, _LEAST))

    def run(self, task: Task, parts: Sequence[Partition]) -> Iterator[Any]:
        """Run the tasks on threads of this process, and yield their results."""
        pool = ThreadPoolExecutor(self.count)
        try:
            waiting = [
                pool.submit(contextvars.copy_context().run, task.of_part, part) for part in parts
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
    remote: ClassVar[bool] = True
    rows: int = _WORKER_ROWS  # Rows per part of a file, about

    def part_rows(self, source: Source) -> int:
        """Return the rows of a part of a file."""
        return self.rows

    def run(self, task: bytes, parts: Sequence[Partition]) -> Iterator[Any]:
        """Run the tasks on a Dask cluster, and yield their results."""
        import dask
        import distributed

        lost = ""
        try:
            # the plan is a separate task, so that it is sent once per worker
            plan = self.client.submit(bytes, task, pure=False)
            tasks = [dask.delayed(on_worker, pure=False)(plan, part) for part in parts]
            futures = self.client.compute(tasks)
            for future in distributed.as_completed(futures, loop=self.client.loop):
                yield _unwrapped(future.result())
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


def _unwrapped(result: Any) -> Any:
    """Return a worker's result, or raise its error."""
    if isinstance(result, Failed):
        raise result.kind(*result.said)
    return result


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
