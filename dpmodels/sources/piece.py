"""A part of a table, and who adds up the parts; and who does so in this process at the moment."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpmodels.sources.source import Source
from dpmodels.sources.windows import WINDOW


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a table that one task reads.

    Attributes
    ----------
    opener : function
        ``opener(data)`` is the source of its rows.
    data : object
        Travels to the worker: a place in a file, or rows.
    first, rows : int or None
        Its place in the table; None where that is not known. A place that is known begins at a
        block of the table, so that blocks are those of a pass in one process.
    """

    opener: Callable[[Any], Source]
    data: Any
    first: int | None = None
    rows: int | None = None

    def __repr__(self) -> str:
        return "<part of a table, confidential>"


class Crew(Protocol):
    """Does the tasks of a pass.

    Attributes
    ----------
    knows_parts : bool
        The parts are its own affair: none are given to it.
    """

    @property
    def knows_parts(self) -> bool:
        """Whether the crew cuts the table by itself."""
        ...

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return the parts of the table that tasks read; none: the caller reads it himself."""
        ...

    def run(self, task: Any, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Return the stamp of the pass, and what the tasks return, in any order."""
        ...


def cut(source: Source, names: Sequence[str], rows: int, *, travel: bool) -> list[Piece]:
    """Return the parts of a source that says how to cut it; memory does not travel."""
    cut = getattr(source, "pieces", None)
    if cut is None or (travel and not getattr(source, "travels", False)):
        return []
    found: list[Piece] = cut(names, rows)
    return found if len(found) > 1 or travel else []


def stamp(packed: bytes) -> str:
    """Return the fingerprint of a packed plan of a pass."""
    return hashlib.blake2b(packed, digest_size=16).hexdigest()


def aligned(n: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of n rows in memory, about ``rows`` each: they begin with a block."""
    step = max(rows // WINDOW, 1) * WINDOW
    for first in range(0, n, step):
        yield first, min(first + step, n)


#: Crews that :func:`dpmodels.connect` put in force: the last one counts.
CONNECTED: list[Crew] = []


def connected_client() -> Any:
    """Return the Dask client that is connected, else the one that this process made; or None."""
    for crew in reversed(CONNECTED):
        client = getattr(crew, "client", None)
        if client is not None:
            return client
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
