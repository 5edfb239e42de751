"""A pass cut into tasks: exact integer sums of parts of a table, which can be added.

A task is a public plan of a pass (design, map, which rows) and a part of the table. It returns
integers: no noise and no charge belongs to it, and done twice it returns the same.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmodels._version import __version__
from dpmodels.errors import SourceError
from dpmodels.sources.piece import stamp
from dpmodels.sources.rows import Rows
from dpmodels.sources.source import Source
from dpmodels.sources.typed import WHOLE, TypedPart
from dpmodels.sources.windows import ALL_ROWS, Coins, Key, Windows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


class Job(Protocol):
    """The public map of one pass."""

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Any:
        """Return the exact integer sums over blocks: a value with ``+``. Confidential."""
        ...


@dataclass(frozen=True, eq=False)
class Partial:
    """What a task returns. **Confidential**: sums without noise.

    Attributes
    ----------
    index : int
        Of the part.
    rows : int
        That it has, read or skipped.
    sums : object
    stamp : str
        Of the plan of the pass and of the package that added up.
    """

    index: int
    rows: int
    sums: Any
    stamp: str

    def __repr__(self) -> str:
        return "<partial sums, confidential>"


@dataclass(frozen=True, eq=False)
class Task:
    """The plan of one pass, for any part of the table. Public but for the keys.

    Attributes
    ----------
    design : Design
    job : Job
    windows : Windows
    key : Key or None
        Of the coins that choose which rows are read at all ...
    inner : Key or None
        ... and of those that the job tosses.
    types : mapping or None
        Types of the table's columns, where a part comes with types of its own.
    """

    design: Design
    job: Job
    windows: Windows = ALL_ROWS
    key: Key | None = None
    inner: Key | None = None
    types: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return "<task of a pass, confidential>"

    def done(self, index: int, source: Source, first: int | None, mark: str = "") -> Partial:
        """Add up one part of the table."""
        if self.types is not None:
            source = TypedPart(source, self.types, WHOLE)
        rows = Rows(source, 0, public_n=False, first=first or 0)
        coins = None if self.key is None else self.key.coins(index, 0, first)
        inner = None if self.inner is None else self.inner.coins(index, 1, first)
        placed = getattr(self.job, "placed", None)  # of jobs that go by the places of rows
        job = self.job if placed is None else placed(first or 0)
        with np.errstate(all="ignore"):
            blocks = rows.blocks_for(job, self.design, windows=self.windows, coins=coins)
            sums = job.over(blocks, inner)
        return Partial(index, rows.seen, sums, mark)

    def packed(self) -> bytes:
        """Return the task as bytes for a worker: the pickled plan behind who packed it."""
        import cloudpickle

        body: bytes = cloudpickle.dumps(self)
        return pickle.dumps((_package(), body))


def _package() -> str:
    return f"dpmodels {__version__}, Python {sys.version_info[0]}.{sys.version_info[1]}"


@functools.lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> tuple[Task, str]:
    package, body = pickle.loads(packed)  # noqa: S301 - from the client, which the cluster trusts
    if package != _package():
        raise SourceError(
            f"the caller has {package}, a worker has {_package()}: install the same on both"
        )
    return pickle.loads(body), stamp(packed)  # noqa: S301


def done_by_bytes(packed: bytes, index: int, source: Source, first: int | None) -> Partial:
    """Add up one part of the table by a packed plan, which must come from the same package."""
    task, mark = _unpacked(packed)
    return task.done(index, source, first, mark)


def added(task: Task, parts: Iterable[Any], count: int | None, mark: str = "") -> tuple[Any, int]:
    """Return (sum, rows) of the partial sums of all parts, each of them once.

    Parameters
    ----------
    task : Task
    parts : iterable of Partial
        In any order: sums are of integers.
    count : int or None
        How many there must be; None: not known.
    mark : str
        Stamp that each must bear.

    Raises
    ------
    SourceError
        A part is missing, comes twice, is of another plan, or has not the shape of its sums. Which
        of them does not depend on a cell.
    """
    nothing = task.job.over(iter(()), None)
    accepts = getattr(task.job, "accepts", functools.partial(alike, nothing))
    total, rows, seen = nothing, 0, set()
    for part in parts:
        good = (
            type(part) is Partial
            and type(part.index) is int
            and type(part.rows) is int
            and part.rows >= 0
            and part.stamp == mark
            and accepts(part.sums)
        )
        if not good:
            raise SourceError(
                "a worker returned something that is not the partial sums of this pass: is it "
                "another plan, or another version of the package?"
            )
        if part.index in seen:
            raise SourceError("the partial sums of one part of the table came twice")
        seen.add(part.index)
        total, rows = total + part.sums, rows + part.rows
    if count is not None and seen != set(range(count)):
        raise SourceError("the partial sums of a part of the table are missing")
    return total, rows


def alike(one: Any, other: Any) -> bool:
    """Say whether two values have the same types, shapes and public words: not the same numbers."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        return all(alike(a, b) for a, b in zip(_fields(one), _fields(other), strict=True))
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return one.dtype != object or all(type(x) is int for x in other.ravel().tolist())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other if isinstance(one, str) else isinstance(one, (int, type(None)))


def _fields(value: Any) -> Iterator[Any]:
    return (getattr(value, field.name) for field in dataclasses.fields(value))
