"""Who reads the parts of a table: this process, its threads, a Dask cluster, or somebody else.

Workers return exact sums (:mod:`dpmodels.sources.pieces`); noise and accounting stay with the
caller. Proofs: ``theory.md``.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

from dpmodels.errors import ClusterError, DPModelsError, RequestError, shown
from dpmodels.sources.piece import CONNECTED, Crew, Piece, cut, stamp
from dpmodels.sources.pieces import Partial, Task
from dpmodels.sources.source import Source
from dpmodels.sources.worker import on_worker, told

#: Rows of a part: of many small ones a file is opened, and the head of a row group decoded, often.
_THREAD_ROWS, _WORKER_ROWS = 1 << 19, 1 << 20
#: The least that is worth a thread's while; and parts of a table of threads.
_LEAST, _PARTS = 1 << 17, 8
#: Rows beyond which the cores of the machine add up without being asked, and columns of a design
#: from which that is faster (benchmarks/results/peers_speed.md): the integers are the same.
MANY_ROWS, WIDE = 200_000, 40


@dataclass(frozen=True)
class Serial:
    """The tasks of a pass, one after the other in this process: what others are compared with."""

    knows_parts: ClassVar[bool] = False
    rows: int = _THREAD_ROWS

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return the parts of the table."""
        return cut(source, names, self.rows, travel=False)

    def run(self, task: Task, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        return "", (task.done(i, p.opener(p.data), p.first) for i, p in enumerate(pieces))


@dataclass(frozen=True)
class Threads:
    """Tasks over the threads of this process; BLAS has one thread under the guard.

    Attributes
    ----------
    count : int
    rows : int
        Of a part, about.
    wide : int
        Columns of a design up to which one thread reads.
    """

    count: int
    knows_parts: ClassVar[bool] = False
    rows: int = _THREAD_ROWS
    wide: int = 0

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return the parts of the table."""
        if self.count == 1:
            return []  # the caller's own thread
        share = (source.n or 0) // _PARTS
        return cut(source, names, min(self.rows, max(share, _LEAST)), travel=False)

    def run(self, task: Task, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        return "", self._run(task, pieces)

    def _run(self, task: Task, pieces: Sequence[Piece]) -> Iterator[Any]:
        def done(index: int, piece: Piece, context: contextvars.Context) -> Partial:
            source = piece.opener(piece.data)
            return context.run(task.done, index, source, piece.first)

        pool = ThreadPoolExecutor(self.count)
        try:
            waiting = [
                pool.submit(done, i, piece, contextvars.copy_context())
                for i, piece in enumerate(pieces)
            ]
            for future in waiting:
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _held(packed: bytes) -> bytes:
    """Return the plan of a pass: a task of its own, so that it is sent once a worker."""
    return packed


@dataclass(frozen=True)
class Cluster:
    """Tasks on the workers of a Dask cluster.

    Attributes
    ----------
    client : distributed.Client
    rows : int
        Of a part of a file, about.
    """

    client: Any
    knows_parts: ClassVar[bool] = False
    rows: int = _WORKER_ROWS

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return the parts of files and Dask frames; rows in the caller's memory stay there."""
        return cut(source, names, self.rows, travel=True)

    def run(self, task: Task, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        packed = task.packed()
        return stamp(packed), self._run(packed, pieces)

    def _run(self, packed: bytes, pieces: Sequence[Piece]) -> Iterator[Any]:
        import dask
        import distributed

        lost = ""
        try:
            plan = self.client.submit(_held, packed, pure=False)
            tasks = [
                dask.delayed(on_worker, pure=False)(plan, i, p.opener, p.data, p.first)
                for i, p in enumerate(pieces)
            ]
            futures = self.client.compute(tasks)
            for future in distributed.as_completed(futures, loop=self.client.loop):
                yield told(future.result())
                future.release()
        except Exception as error:
            if isinstance(error, DPModelsError) or not self._is_its_own(error):
                raise
            lost = type(error).__name__
        if not lost:
            return
        raise ClusterError(  # outside the except block: what is withheld must not be its context
            f"the cluster could not finish a pass ({lost}): its workers died or cannot be reached"
        )

    def _is_its_own(self, error: Exception) -> bool:
        """Say whether a failure is that of the cluster: what tasks raise comes back as a value."""
        if isinstance(error, (OSError, TimeoutError, CancelledError)):
            return True
        own = type(error).__module__.startswith("distributed")
        return own or getattr(self.client, "status", "running") != "running"


class Connection:
    """Ends with ``close()``, or with the ``with`` block that it opens."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def __repr__(self) -> str:
        return f"<connection to {type(self._crew).__name__.lower()}>"

    def close(self) -> None:
        """Read as without the connection again."""
        if self._crew in CONNECTED:
            CONNECTED.remove(self._crew)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
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
                f"dp.connect takes a Dask client, got {shown(client)}. For example: "
                "from distributed import Client; dp.connect(Client('tcp://host:8786'))"
            )
        crew: Crew = Cluster(client)
    else:
        crew = Threads(_number(threads))
    CONNECTED.append(crew)
    return Connection(crew)


def _number(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise RequestError(f"threads= is a number of threads, got {shown(given)}")
    return given


def crew_for(source: Source) -> Crew | None:
    """Return who reads a source: its own crew, or the one that is connected."""
    own: Crew | None = getattr(source, "crew", None)
    if own is not None:
        return own
    client = getattr(source, "client", None)
    if client is not None:
        return Cluster(client)
    if CONNECTED:
        return CONNECTED[-1]
    many = (source.n or 0) > MANY_ROWS and hasattr(source, "pieces")
    if not many:
        return None
    # what is decoded has a thread of its own for that
    return Threads(max(_cores() - bool(getattr(source, "decoded", False)), 1), wide=WIDE)


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
