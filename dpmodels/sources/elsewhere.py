"""Rows that never come here: another engine adds them up, task by task."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmodels.errors import DPModelsError, RequestError, SourceError, shown
from dpmodels.sources.memory import FrameSource
from dpmodels.sources.piece import Piece, connected_client, stamp
from dpmodels.sources.source import Chunk, Source, check_names, numpy_kind
from dpmodels.sources.typed import TypedPart, types_of
from dpmodels.units.ids import id_type

_KINDS = ("numeric", "bool", "category", "text", "datetime")


@dataclass(frozen=True)
class Caller:
    """Tasks that the user's own engine does (Spark, Ray, a warehouse).

    Attributes
    ----------
    gather : function
        ``gather(task)`` has ``dp.partial_sums`` done for every part of the table, and returns
        what they return.
    """

    gather: Callable[[bytes], Iterable[bytes]]

    @property
    def knows_parts(self) -> bool:
        """Whether the crew cuts the table by itself."""
        return True

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return none: the parts are known to the user's engine."""
        return []

    def run(self, task: Any, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Have the tasks done."""
        packed = task.packed()
        return stamp(packed), (_unpacked(found) for found in self.gather(packed))


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
        self.crew = Caller(sums)

    def __repr__(self) -> str:
        return f"<table elsewhere, {len(self.kinds)} columns, {self.n} rows>"

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Refuse: there are no rows here."""
        raise SourceError(
            "this call reads rows themselves, not sums of them, and they are not here. Use a "
            "method of sums: the default of dp_ols, dp_glm (but for very small eps), dp_quantreg, "
            "dp_moments, dp_table, dp_npreg, dp_pca"
        )


def need_rows(source: Any, what: str) -> None:
    """Refuse a table elsewhere for what reads rows themselves. Call it before the charge."""
    if isinstance(source, Elsewhere):
        raise SourceError(
            f"{what} reads rows themselves, not sums of them, and they are not here: give the "
            "table, or take a method whose passes are sums"
        )


def _unpacked(found: Any) -> Any:
    """Return the partial sums that came as bytes."""
    out: Any = None
    try:
        out = pickle.loads(bytes(found))  # noqa: S301 - from the user's own engine, which is trusted
    except DPModelsError:
        raise
    except Exception:
        out = None
    return out  # is checked where it is added


# -- Dask DataFrames: partitions are added up where they are, or read one by one in this proces


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
