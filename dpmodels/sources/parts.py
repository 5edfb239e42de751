"""Interfaces of a table that is read in chunks, its kinds and its parts, and who adds up these."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpmodels.errors import SourceError, did_you_mean

Chunk = Mapping[str, Any]


class Source(Protocol):
    """A table that can be read in chunks. All but the cells is public."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """Column -> its kind.

        "numeric", "bool", "category", "text", "datetime", "duration" or "nested" (lists, records);
        "object": any cells; "unknown": CSV files and lists.
        """
        ...

    @property
    def n(self) -> int | None:
        """Row count, if the container knows it without a pass."""
        ...

    @property
    def rescannable(self) -> bool:
        """Whether ``chunks`` can be called again: the same rows in the same order."""
        ...

    @property
    def schema_attr(self) -> Any:
        """Schema attached to the table (``Schema.attach``), or None."""
        ...

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield dictionaries of equally long raw columns."""
        ...


@dataclass(frozen=True)
class Signs:
    """Number format of the cells of a text file, if the reader was given one; public."""

    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] | None = None  # Words for a missing cell; None: the usual ones
    ask: bool = False  # Whether the decimal sign must be declared first


class Kinds(dict[str, str]):
    """Kinds of columns of which some come from a file of text."""

    signs: Signs | None = None


class Untyped(Kinds):
    """Kinds of the columns of a file that has no types: all "unknown" until they are declared."""


class Adapter:
    """Base of sources: one that can be read again, of an unknown number of rows."""

    rescannable: bool = True
    schema_attr: Any = None
    n: int | None = None
    kinds: Mapping[str, str] = {}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield dictionaries of equally long raw columns."""
        raise NotImplementedError


class Renamed(Adapter):
    """A source under other names of its columns; its cells are read as they are there."""

    def __init__(self, source: Source, columns: Mapping[str, str]) -> None:
        source_kinds = source.kinds
        if hasattr(source, "ids"):  # parts that others hold answer by the names they have there
            raise SourceError(
                "columns of tables in parts elsewhere (Dask, dp.Elsewhere) are renamed there: "
                "leave [data.columns] out"
            )
        for name, old in columns.items():
            if old not in source_kinds:
                raise SourceError(
                    f"[data.columns] {name} = {old!r}: the data have no such column."
                    f"{did_you_mean(old, source_kinds)}"
                )
        taken = set(columns.values())
        self._there = {**{k: k for k in source_kinds if k not in taken}, **columns}
        self._source = source
        kinds = {name: source_kinds[old] for name, old in self._there.items()}
        self.kinds = kinds
        if isinstance(source_kinds, Untyped):
            self.kinds = untyped = Untyped(kinds)
            untyped.signs = source_kinds.signs
        self.n, self.rescannable = source.n, source.rescannable

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of the source, under the names of the study."""
        for chunk in self._source.chunks([self._there[name] for name in names]):
            yield {name: chunk[self._there[name]] for name in names}


@dataclass(frozen=True, eq=False)
class Partition:
    """A part of a table that one task reads."""

    opener: Callable[[Any], Source]  # ``opener(data)`` is the source of its rows
    data: Any  # Travels to the worker: a place in a file, or rows
    # first, rows: its position in the table; None where that is not known. A place that is known
    # begins at a block of the table, so that blocks are those of a pass in one process.
    first: int | None = None
    rows: int | None = None
    index: int = -1  # Its number, which goes wherever the part goes

    def __repr__(self) -> str:
        return "<part of a table, confidential>"


class Executor(Protocol):
    """Has the tasks of a pass done: it moves tasks and parts, and opens neither."""

    @property
    def knows_parts(self) -> bool:
        """Whether it cuts the table by itself: no parts are given to it."""
        ...

    @property
    def remote(self) -> bool:
        """Whether tasks leave this process, as bytes; rows in its memory stay."""
        ...

    def part_rows(self, source: Source) -> int:
        """Return the approximate number of rows of a part, 0 if the caller reads the table."""
        ...

    def run(self, task: Any, parts: Sequence[Partition]) -> Iterator[Any]:
        """Return the results of the task (of its bytes, if remote) for all parts, in any order."""
        ...


#: Executors that :func:`dpmodels.connect` put in force: the last one counts.
CONNECTED: list[Executor] = []


def connected_client() -> Any:
    """Return the Dask client that is connected, else the one that this process made; or None."""
    for executor in reversed(CONNECTED):
        client = getattr(executor, "client", None)
        if client is not None:
            return client
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
