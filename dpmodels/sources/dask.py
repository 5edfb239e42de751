"""Dask DataFrames: partitions are added up where they are, or read one by one in this process.

Workers return exact sums and draw nothing (:mod:`dpmodels.sources.crew`). The frame must be
deterministic (read from files, or persisted): a partition that is computed again must hold the
same rows. What a cluster logs of a failed computation of the frame itself is its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpmodels.sources.memory import FrameSource
from dpmodels.sources.piece import Piece, connected_client
from dpmodels.sources.source import check_names, numpy_kind
from dpmodels.sources.typed import TypedPart, types_of
from dpmodels.units.ids import id_type

__all__ = ["DaskSource"]


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
            found = FrameSource(part.compute(scheduler=scheduler))
            yield from TypedPart(found, self.types).chunks(names)

    def pieces(self, names: Sequence[str], rows: int) -> list[Piece]:
        """Return the partitions, if a cluster computes them."""
        if self.client is None:
            return []
        return [Piece(FrameSource, part) for part in self._parts(names)]

    def lengths(self) -> list[int] | None:
        """Return the number of rows of each partition, counted where they are."""
        if self.client is None:
            return None
        tasks = [_length(part) for part in self._parts(list(self.kinds)[:1])]
        found: list[int] = self.client.gather(self.client.compute(tasks))
        return found

    def whole(self, column: str, kinds: Mapping[str, Any]) -> list[Piece]:
        """Return partitions in which each person of a column lies whole, if a cluster has them.

        Rows move once, and are held by the workers until the pieces are let go.
        """
        if self.client is None:
            return []
        from dpmodels.sources.together import moved, whole_part

        held = self.client.persist(moved(self._data, column, kinds))
        return [Piece(whole_part, part) for part in held.to_delayed()]

    def people(self, column: str) -> int | None:
        """Return the number of different ids, counted where they are; None: by the caller."""
        if self.client is None:
            return None
        from dpmodels.sources.together import added_people, counted, people_of

        tasks = [people_of(part) for part in counted(self._data, column).to_delayed()]
        return added_people(self.client.gather(self.client.compute(tasks)))

    def ids(self, column: str) -> str:
        """Return what the frame says of the type of ids."""
        return id_type(self._data._meta[column])

    @functools.cached_property
    def client(self) -> Any:
        """The client of the cluster that holds the frame, else the one in force, or None."""
        parts = self._parts(list(self.kinds)[:1])
        return (_holder(parts[0]) if parts else None) or connected_client()

    def _parts(self, names: Sequence[str]) -> list[Any]:
        return list(self._data[list(names)].to_delayed())


def _length(part: Any) -> Any:
    import dask

    return dask.delayed(len)(part)


def _holder(part: Any) -> Any:
    """Return the client of the cluster that holds a partition; None: it is computed anywhere."""
    for task in dict(part.__dask_graph__()).values():
        # a future of dask.distributed, which is not imported here: only its client can fetch it
        if type(task).__name__ == "Future" and hasattr(task, "client"):
            return task.client
    return None
