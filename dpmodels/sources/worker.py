"""What runs where the rows are: a task on a Dask worker, or one that another engine calls."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpmodels._guard import guarded
from dpmodels.errors import DPModelsError, RequestError, shown
from dpmodels.sources.adapt import as_source
from dpmodels.sources.pieces import Partial, done_by_bytes
from dpmodels.sources.source import Source


@dataclass(frozen=True)
class Failed:
    """A task that failed, as it comes back: an exception would be logged beside the rows."""

    kind: type[DPModelsError]
    said: tuple[Any, ...]


def on_worker(
    packed: bytes, index: int, opener: Callable[[Any], Source], data: Any, first: int | None
) -> Partial | Failed:
    """Do a task where it arrives. Nothing random, nothing logged; an error comes back as a value.

    Privacy
    -------
    Confidential: exact sums. Static check: no generator of random numbers is reachable from here.
    """
    from dpmodels._guard import guarded
    from dpmodels.quiet import holding_memory

    try:
        with holding_memory():
            return guarded(lambda: done_by_bytes(packed, index, opener(data), first))
    except DPModelsError as error:  # says nothing of the rows
        return Failed(type(error), error.args)


def told(found: Any) -> Any:
    """Return what a worker sent, or raise what it said."""
    if isinstance(found, Failed):
        raise found.kind(*found.said)
    return found


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
