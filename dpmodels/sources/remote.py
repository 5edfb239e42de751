"""What another engine calls for each part of a table."""

from __future__ import annotations

import pickle
from typing import Any

from dpmodels._guard import guarded
from dpmodels.errors import RequestError, shown
from dpmodels.sources.adapt import as_source
from dpmodels.sources.pieces import done_by_bytes

__all__ = ["partial_sums"]


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
    return guarded(
        lambda: pickle.dumps(done_by_bytes(task, part, as_source(rows), None))
    )
