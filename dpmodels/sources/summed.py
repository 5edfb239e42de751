"""One pass that is a sum: added up in this thread, or by tasks."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels._version import __version__
from dpmodels.arrays import Array
from dpmodels.errors import DPModelsError, SourceError
from dpmodels.places import ALL_ROWS, Windows
from dpmodels.quiet import guarded
from dpmodels.resources import holding_memory
from dpmodels.sources.parts import Executor, Partition, Source
from dpmodels.sources.rows import Coins, Key, Rows, keyed
from dpmodels.sources.tables import WHOLE, TypedPart

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


# -- A pass cut into tasks: exact integer sums of parts of a table, which can be added.
#
# A task is a public plan of a pass (design, map, which rows) and a part of the table. It returns
# integers: no noise and no charge belongs to it, and done twice it returns the same.


class Job(Protocol):
    """The public map of one pass."""

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Any:
        """Return the exact integer sums over blocks: a value with ``+``. Confidential."""
        ...


@dataclass(frozen=True, eq=False)
class Partial:
    """Result of a task. **Confidential**: sums without noise."""

    index: int  # Key of the part
    rows: int  # That it has, read or skipped
    sums: Any
    stamp: str  # Hash of the plan of the pass and of the package of the executor

    def __repr__(self) -> str:
        return "<partial sums, confidential>"


@dataclass(frozen=True, eq=False)
class Task:
    """The plan of one pass, for any part of the table. Public but for the keys."""

    design: Design
    job: Job
    windows: Windows = ALL_ROWS
    key: Key | None = None  # Key of the coins that choose which rows are read at all ..
    inner: Key | None = None  # ... and of those that the job tosses.
    # Types of the table's columns, where a part comes with other types.
    types: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return "<task of a pass, confidential>"

    def add_part(self, index: int, source: Source, first: int | None, mark: str = "") -> Partial:
        """Add up one part of the table."""
        if self.types is not None:
            source = TypedPart(source, self.types, WHOLE)
        rows = Rows(source, 0, public_n=False, first=first or 0)
        coins = None if self.key is None else self.key.coins(index, 0, first)
        inner = None if self.inner is None else self.inner.coins(index, 1, first)
        placed = getattr(self.job, "placed", None)  # jobs that depend on the positions of rows
        job = self.job if placed is None else placed(first or 0)
        with np.errstate(all="ignore"):
            blocks = rows.blocks_for(job, self.design, windows=self.windows, coins=coins)
            sums = job.over(blocks, inner)
        return Partial(index, rows.seen, sums, mark)

    def of_part(self, part: Partition) -> Partial:
        """Open one part of the table and add it up, under its own number."""
        return self.add_part(part.index, part.opener(part.data), part.first)

    def packed(self) -> bytes:
        """Return the task as bytes for a worker: the pickled plan behind who packed it."""
        import cloudpickle

        body: bytes = cloudpickle.dumps(self)
        return pickle.dumps((_package(), body))


def _package() -> str:
    return f"dpmodels {__version__}, Python {sys.version_info[0]}.{sys.version_info[1]}"


@functools.lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> tuple[Task, str]:
    """Return the task of a packed plan and its fingerprint; versions must agree."""
    package, body = pickle.loads(packed)  # noqa: S301 - from the client, which the cluster trusts
    if package != _package():
        raise SourceError(
            f"the caller has {package}, a worker has {_package()}: install the same on both"
        )
    return pickle.loads(body), _stamp(packed)  # noqa: S301


def _stamp(packed: bytes) -> str:
    """Return the fingerprint of a packed plan of a pass."""
    return hashlib.blake2b(packed, digest_size=16).hexdigest()


def sums_of_part(
    packed: bytes, index: int, opener: Callable[[Any], Source], data: Any, first: int | None
) -> Partial:
    """Add up one part by a packed plan, which must come from the same package, under the guard."""

    def add_up() -> Partial:
        task, mark = _unpacked(packed)
        return task.add_part(index, opener(data), first, mark)

    return guarded(add_up)


@dataclass(frozen=True)
class Failed:
    """Returned form of a failed task: an exception would be logged next to the rows."""

    kind: type[DPModelsError]
    said: tuple[Any, ...]


def on_worker(packed: bytes, part: Partition) -> Partial | Failed:
    """Do a task where it arrives. Nothing random, nothing logged; an error comes back as a value.

    **Confidential**: exact sums. A static check: no random numbers can be reached from here.
    """
    try:
        with holding_memory():
            return sums_of_part(packed, part.index, part.opener, part.data, part.first)
    except DPModelsError as error:  # says nothing of the rows
        return Failed(type(error), error.args)


def cut(executor: Executor, source: Source, names: Sequence[str]) -> list[Partition]:
    """Return the parts of a source that says how to cut it; memory does not travel."""
    rows, remote = executor.part_rows(source), executor.remote
    partitions = getattr(source, "partitions", None)
    if partitions is None or not rows or (remote and not getattr(source, "travels", False)):
        return []
    parts: list[Partition] = partitions(names, rows)
    return parts if len(parts) > 1 or remote else []


def results(
    executor: Executor, task: Task, partitions: Iterable[Partition]
) -> tuple[str, Iterator[Any]]:
    """Return the stamp of a pass, and the results of the task for every part.

    A part bears its number, and its result too: an executor cannot read one part in another's
    place, and :func:`added` finds out if one is read twice, or by another plan.
    """
    parts = [dataclasses.replace(part, index=i) for i, part in enumerate(partitions)]
    if not executor.remote:
        return "", executor.run(task, parts)
    packed = task.packed()
    return _stamp(packed), executor.run(packed, parts)


def added(task: Task, parts: Iterable[Any], count: int | None, mark: str = "") -> tuple[Any, int]:
    """Return (sum, rows) of the partial sums of all parts, each of them once, in any order.

    There must be ``count`` of them, if it is known, and each bears ``mark``. A part that is
    missing, comes twice, is of another plan or has not the shape of its sums is refused: which of
    these does not depend on a cell.
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


def alike(first: Any, other: Any) -> bool:
    """Return whether two values have the same types, shapes and public strings."""
    if type(first) is not type(other):
        return False
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        return all(alike(getattr(first, name), getattr(other, name)) for name in names)
    if isinstance(first, np.ndarray):
        if first.shape != other.shape or first.dtype != other.dtype:
            return False
        return first.dtype != object or all(type(x) is int for x in other.ravel().tolist())
    if isinstance(first, tuple):
        return len(first) == len(other) and all(map(alike, first, other))
    return first == other if isinstance(first, str) else isinstance(first, (int, type(None)))


# -- One pass that is a sum: added up in this thread, or by tasks.


def summed(
    rows: Any, design: Design, job: Job, *, windows: Windows = ALL_ROWS, coins: Coins | None = None,
    inner: Coins | None = None,
) -> Any:  # fmt: skip
    """Return the sums of one pass over rows, in this thread or by the tasks of their executor.

    ``rows`` is whatever yields blocks, chosen by ``windows`` and ``coins`` as for
    :meth:`dpmodels.sources.rows.Rows.blocks`; tasks are given a key for coins. ``inner`` is for the
    job. **Confidential**: exact sums, the same integers whoever adds up, where no coins choose rows
    or the places of rows are known (``theory.md``, 1).
    """
    if rows.own_sums:
        return rows.summed(design, job, windows=windows, coins=coins, inner=inner)
    chosen: dict[str, Any] = {} if windows.every == 1 else {"windows": windows}
    if coins is not None:
        chosen["coins"] = coins
    executor = rows.executor
    if executor is None:
        return job.over(rows.blocks_for(job, design, **chosen), inner)
    names = list(design.kinds)
    wide = design.q > getattr(executor, "wide", 0)
    partitions = cut(executor, rows.source, names) if wide else []
    if not partitions and not executor.knows_parts:
        read, inner_key = keyed(coins), keyed(inner)  # the coins that tasks would toss
        if read is not None:
            chosen["coins"] = read.coins(0, 0, 0)
        own_coins = None if inner_key is None else inner_key.coins(0, 1, 0)
        return job.over(rows.blocks_for(job, design, **chosen), own_coins)
    if windows.every > 1:
        partitions = _parts_with_places(rows, partitions)
        if not partitions:
            raise SourceError(
                "public_order=True reads rows by their position in the table, which is not known "
                "here: leave it out, rows are then chosen by secret coins"
            )
    # of parts that another engine knows the types are those that the user declares
    source = rows.source
    types = source.kinds if executor.knows_parts else getattr(source, "types", None)
    task = Task(design, job, windows, keyed(coins), keyed(inner), types)
    return _by_tasks(rows, task, partitions)


def _by_tasks(rows: Any, task: Task, partitions: Sequence[Partition]) -> Any:
    """Return the sums of one pass by the tasks of the executor of rows."""
    declared = {i: part.rows for i, part in enumerate(partitions) if part.rows is not None}
    if len(declared) == len(partitions) > 0:  # places were made of them
        rows.check_parts(declared)
    bar = rows.next_pass(len(task.design.kinds))
    mark, parts = results(rows.executor, task, partitions)
    count = None if rows.executor.knows_parts else len(partitions)
    lengths: dict[int, int] = {}
    total, seen = added(task, _shown(parts, bar, lengths), count, mark)
    rows.check(seen)
    rows.check_parts(lengths)
    return total


@dataclass(frozen=True, eq=False)
class Integers:
    """Several exact sums of one pass, added entry by entry. **Confidential**."""

    arrays: tuple[Any, ...]

    def __add__(self, other: Integers) -> Integers:
        return Integers(tuple(a + b for a, b in zip(self.arrays, other.arrays, strict=True)))

    def __repr__(self) -> str:
        return "<exact sums of a pass, confidential>"


class _Idle:
    """Pass that reads the rows and ignores them."""

    def over(self, blocks: Iterable[Any], _: Any = None) -> Integers:
        deque(blocks, maxlen=0)
        return Integers(())


def idle_pass(rows: Any, design: Design) -> None:
    """Read the table once more and ignore it: the number of readings is as planned."""
    if rows.executor is None:
        rows.skim(design)
    else:
        summed(rows, design, _Idle())


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of chosen rows, and which rows they are. **Confidential**: no sums."""

    # tuple of (m,) int64 arrays: among the chosen rows, for each part of the table that has some.
    places: tuple[npt.NDArray[np.int64], ...]
    values: tuple[Array, ...]  # tuple of (k, m) arrays

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.places + other.places, self.values + other.values)

    def __repr__(self) -> str:
        return "<cells of chosen rows, confidential>"


@dataclass(frozen=True, eq=False)
class Sampled:
    """Pass of :func:`sampled`: rows read by their positions and not summed."""

    index: tuple[int, ...]  # Design columns
    size: int  # How many rows are chosen
    keep: npt.NDArray[np.intp] | None  # (size,): sorted positions in the table, or None for all
    response: bool  # Whether the last cell of a row says that it is missing, or the first
    first: int = 0  # Place of the first row of the part

    def placed(self, first: int) -> Sampled:
        """Return the job for a part of the table."""
        return dataclasses.replace(self, first=first)

    def over(self, blocks: Iterable[Array], _: Any = None) -> Cells:
        """Return the chosen rows of a part; missing ones are NaN throughout. Confidential."""
        places: list[npt.NDArray[np.int64]] = []
        values: list[Array] = []
        at = self.first
        for block in blocks:
            m = block.shape[1]
            low, high = at, at + m
            if self.keep is not None:
                low, high = np.searchsorted(self.keep, [at, at + m]).tolist()
            if low < high:
                chosen: Any = slice(None) if self.keep is None else self.keep[low:high] - at
                part = block[list(self.index)][:, chosen]
                part[:, np.isnan(block[-1 if self.response else 0][chosen])] = np.nan
                places.append(np.arange(low, high, dtype=np.int64))
                values.append(part)
            at += m
        if not places:
            return Cells((), ())
        return Cells((np.concatenate(places),), (np.concatenate(values, axis=1),))

    def accepts(self, part: Any) -> bool:
        """Return whether a part returned positions and cells of that many columns."""
        if type(part) is not Cells or not len(part.places) == len(part.values) <= 1:
            return False
        return all(
            type(at) is np.ndarray and type(cells) is np.ndarray
            and at.dtype == np.int64 and cells.dtype == np.float64
            and at.ndim == 1 and cells.shape == (len(self.index), len(at))
            and bool(((at >= 0) & (at < self.size)).all())
            for at, cells in zip(part.places, part.values, strict=True)
        )  # fmt: skip


def sampled(
    rows: Any, design: Design, indices: Sequence[int], keep: npt.NDArray[np.intp] | None = None,
    draw: Callable[[int], npt.NDArray[np.uint8]] | None = None,
) -> Array:  # fmt: skip
    """Return design columns of all rows, or of the rows ``keep``, in their order: (k, size).

    Of people as ``rows.sample``. Where tasks can read the parts of the table, they return the
    chosen rows, and no other row travels; not of a table elsewhere, whose rows stay there.
    **Confidential**: cells, whoever reads. Rows that would become zero rows are NaN throughout.
    """
    if rows.by_person:
        columns: Array = rows.sample(design, indices, keep, draw)
        return columns
    executor, partitions = rows.executor, list[Partition]()
    if executor is not None and not executor.knows_parts:
        names = list(design.kinds)
        partitions = _parts_with_places(rows, cut(executor, rows.source, names))
    size = rows.n if keep is None else len(keep)
    job = Sampled(tuple(indices), size, keep, design.response is not None)
    if partitions:
        types = getattr(rows.source, "types", None)
        cells: Cells = _by_tasks(rows, Task(design, job, types=types), partitions)
    else:
        cells = job.over(rows.blocks(design))
    out = np.full((len(job.index), size), np.nan)
    for at, values in zip(cells.places, cells.values, strict=True):
        out[:, at] = values
    return out


def _parts_with_places(rows: Any, partitions: Sequence[Partition]) -> list[Partition]:
    """Return the parts with their positions in the table; none: those are not known."""
    if partitions and all(partition.first is not None for partition in partitions):
        return list(partitions)
    lengths = rows.source.lengths() if partitions else None
    if lengths is None:
        return []
    places = accumulate(lengths, initial=0)
    return [
        dataclasses.replace(partition, first=at, rows=length)
        for partition, at, length in zip(partitions, places, lengths, strict=False)
    ]


def _shown(parts: Iterable[Any], bar: Any, lengths: dict[int, int]) -> Iterator[Any]:
    """Yield parts, move the bar, and note how many rows each has."""
    for part in parts:
        yield part  # refused there, if it is none
        if bar is not None:
            bar.update(part.rows)
        lengths[part.index] = part.rows
