"""Dask DataFrames, read partition by partition in this process.

Workers are given nothing random: partitions are exact data, noise is drawn once by the caller. The
frame must be deterministic (read from files, or persisted): a partition that is recomputed must
hold the same rows. Partitions that a cluster holds (``persist()`` with a distributed client) are
fetched by that client; what its workers log of a failed task is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpmodels.sources.memory import FrameSource
from dpmodels.sources.source import check_names, numpy_kind

__all__ = ["DaskSource"]


class DaskSource:
    """A Dask DataFrame."""

    rescannable = True
    schema_attr = None
    n: int | None = None

    def __init__(self, data: Any) -> None:
        check_names(data.columns)
        self._data = data
        self.kinds = {c: numpy_kind(t) for c, t in data.dtypes.items()}

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the chunks of one partition after another."""
        parts = self._data[list(names)].to_delayed()
        scheduler = _scheduler(parts[0]) if len(parts) else "synchronous"
        for part in parts:
            yield from FrameSource(part.compute(scheduler=scheduler)).chunks(names)


def _scheduler(part: Any) -> Any:
    """Return where partitions are computed: in this process, unless a cluster holds them."""
    for task in dict(part.__dask_graph__()).values():
        # a future of dask.distributed, which is not imported here: only its client can fetch it
        if type(task).__name__ == "Future" and hasattr(task, "client"):
            return task.client
    return "synchronous"
