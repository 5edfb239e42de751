"""Rows of a release: the units that a pass reads, and passes over blocks of the design.

Which rows those are is decided by position in the table or by secret coins, never by a cell.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import ROW_PAD, Array
from dpmodels.errors import PrivacyBugError, SourceError
from dpmodels.formula.reading import coerce_all
from dpmodels.places import ALL_ROWS, WINDOW, Windows
from dpmodels.quiet import bars_are_secret
from dpmodels.sources.parts import Executor, Source

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.formula.program import Grid


# -- Which rows a pass reads.


#: Coins tossed at once.
_TOSSED = 1 << 16


@dataclass(frozen=True, eq=False)
class Coins:
    """Each row with probability 1 / ``every``, by a separate secret coin.

    **Privacy.** Coins do not depend on cells, positions or the order of the rows, nor on earlier
    releases: when they are tossed changes nothing.
    """

    every: int  # A power of two, at most 256
    # callable(size) -> uint8 array: secret uniform bytes.
    draw: Callable[[int], npt.NDArray[np.uint8]]
    # Coins of later passes, fresh for each. The reader of the rows for this pass may toss them too,
    # and keep the chosen rows.
    then: tuple[Coins, ...] = ()
    tossed: int = _TOSSED  # How many are tossed at once
    #: Tossed and not yet asked for: the coin of a row depends on no chunk.
    _left: list[npt.NDArray[np.bool_]] = field(default_factory=list, repr=False)

    def choose(self, m: int) -> npt.NDArray[np.intp]:
        """Return the chosen ones of the next m rows, in order."""
        have = sum(map(len, self._left))
        while have < m:
            self._left.append(self._next_coins())
            have += self.tossed
        coins = np.concatenate(self._left or [np.ones(0, dtype=bool)])
        self._left[:] = [coins[m:]]
        return np.flatnonzero(coins[:m])

    def _next_coins(self) -> npt.NDArray[np.bool_]:
        """Return the next coins: a row is chosen if its log2(every) fair bits are all 0."""
        bits = self.every.bit_length() - 1
        if not bits:
            return np.ones(self.tossed, dtype=bool)
        planes = self.draw(bits * self.tossed // 8).reshape(bits, -1)
        return np.unpackbits(~np.bitwise_or.reduce(planes, axis=0)).view(bool)


def short(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield blocks, those of numbers and cells in parts of which products are exact."""
    for block in blocks:
        if not isinstance(block, tuple):
            yield block
            continue
        numbers, cells = block
        for a in range(0, len(cells), WINDOW):
            yield numbers[:, a : a + WINDOW], cells[a : a + WINDOW]


@dataclass(frozen=True, eq=False)
class BlockOfPeople:
    """Whole people: the rows of one after the other."""

    rows: Array  # (q, m): as a block of :class:`Rows`
    starts: npt.NDArray[np.intp]  # (k,): first row of each
    counts: npt.NDArray[np.intp]  # (k,): how many rows each has, at least one


class OfRows:
    """Requests that a pass may make of a source of rows: one answer per kind, all public.

    The answers here are those of something that yields blocks and no more.
    """

    executor: Any = None  # Who does the tasks of passes that are sums; None: this thread
    by_person: bool = False  # Units are people, and blocks are of whole ones
    by_cell: bool = False  # Numbers and cells of a grid can be had in place of rows of dummies
    # It has a separate way to sum, ``summed``: by person, or through a map.
    own_sums: bool = False

    def blocks_for(self, job: Any, design: Any, **chosen: Any) -> Iterator[Any]:
        """Yield the blocks that a job reads, of one reading of the rows."""
        blocks: Iterator[Any] = self.blocks(design, **chosen)  # type: ignore[attr-defined]
        return blocks

    def close(self) -> None:
        """Release the memory and files of the rows."""


# -- Secret coins that can be tossed twice: a keyed stream, so that a task done again agrees


#: Length of a key.
KEY_BYTES = 32
#: The key fills a whole block of SHAKE256, so the stream is a function keyed by its state.
_RATE = 136
#: Part of a table if the positions of its rows are known.
_BY_PLACE = (1 << 64) - 1


@dataclass(frozen=True)
class Key:
    """Key that a task receives in place of the coins."""

    every: int  # Each row with probability 1 / every
    # Fresh for each pass, from the noise source of the call. As confidential as the rows.
    secret: bytes = field(repr=False)

    def coins(self, part: int, purpose: int, first: int | None = None) -> Coins:
        """Return the coins of one part of the table, from its first row on.

        Those of a row depend on its position, if it is known: however the table is cut.
        """
        if first is None:
            return Coins(self.every, _Stream(self.secret, part, purpose).draw)
        stream = _Stream(self.secret, _BY_PLACE, purpose, first // WINDOW)
        return Coins(self.every, stream.draw, tossed=WINDOW)


def keyed(coins: Coins | None) -> Key | None:
    """Return a key for a pass whose coins several tasks toss."""
    return None if coins is None else Key(coins.every, coins.draw(KEY_BYTES).tobytes())


class _Stream:
    """Bytes of SHAKE256(key, part, purpose, segment), one segment a draw."""

    def __init__(self, secret: bytes, part: int, purpose: int, segment: int = 0) -> None:
        self._head = secret.ljust(_RATE, b"\0") + part.to_bytes(8, "big") + bytes([purpose])
        self._segment = segment

    def draw(self, size: int) -> npt.NDArray[np.uint8]:
        """Return ``size`` bytes."""
        text = self._head + self._segment.to_bytes(8, "big")
        self._segment += 1
        return np.frombuffer(hashlib.shake_256(text).digest(size), dtype=np.uint8)


# -- A progress bar over rows: public totals only, never a loss, a count or an acceptance.


#: Cells of all passes above which a bar is shown unasked (about two seconds).
LONG = 200_000_000


def progress_bar(show: bool | None, n: int, columns: int) -> Any:
    """Return a bar over all passes, of a public size, or None.

    Asked with None there is one only if the passes are long and the error stream is a terminal.
    """
    if show is None:
        show = n * columns > LONG and sys.stderr.isatty()
    if not show or bars_are_secret() or importlib.util.find_spec("tqdm") is None:
        return None
    from tqdm.auto import tqdm

    return tqdm(total=n, unit=" rows", unit_scale=True, desc="reading", leave=False)


# -- Rows on their way to a release: passes over blocks of the design, and nothing that keeps them.


#: Block height: products of integers up to 2^20 over 2^13 rows are exact in float64.
BLOCK_ROWS = WINDOW
#: Rows of a block of numbers and cells: no product is formed of it, and it is a few arrays only.
CELL_ROWS = 8 * WINDOW

#: Bytes of cells that are kept between passes: a small file is decoded once, a frame coerced once.
KEPT_BYTES = 1 << 26

#: Why a source that cannot be opened again is refused.
READ_ONCE = (
    "this method reads the rows more than once, but an iterator gives them only once. "
    "Pass a list of frames, a path, or a function that returns a new iterator"
)


def count_rows(source: Source, name: str) -> int:
    """Count the rows of a source that does not state its length (a public number)."""
    lengths = getattr(source, "lengths", None)  # of parts that others hold
    counts = None if lengths is None else lengths()
    if counts is not None:
        return sum(counts)
    return sum(len(chunk[name]) for chunk in source.chunks([name]))


#: Cells that coins of a later pass chose: kinds of the columns, share, (rows passed, cells) each.
_Ahead = tuple[dict[str, Any], int, list[tuple[int, dict[str, Any]]]]


def _filled(
    partitions: Iterator[tuple[Mapping[str, Any], int, bool]],
    fill: Callable[..., None],
    *buffers: npt.NDArray[Any],
) -> Iterator[Any]:
    """Yield the filled parts ``[..., :m]`` of buffers, block by block; they are reused."""
    at = 0
    for columns, m, full in partitions:
        fill(columns, *(buffer[..., at : at + m] for buffer in buffers))
        at += m
        del columns  # a view: it would keep the batch alive while the next is read
        if full:
            yield tuple(buffer[..., :at] for buffer in buffers)
            at = 0
    if at:
        yield tuple(buffer[..., :at] for buffer in buffers)


class Rows(OfRows):
    """The private rows of one call, read block by block through a design.

    ``n`` is the public row count: a pass that meets another number stops the call, but under
    add/remove (``public_n=False``). ``passes`` is how many are planned, for the one bar of a call.
    ``coerced``: the cells of the source are as coercion would give them. ``executor``: who does the
    tasks of passes that are sums. ``first``: position of the source's first row.
    """

    by_cell = True

    def __init__(
        self, source: Source, n: int, progress: bool | None = False, *, public_n: bool = True,
        passes: int = 1, coerced: bool = False, executor: Executor | None = None, first: int = 0,
    ) -> None:  # fmt: skip
        self.source = source
        # Where one row may be added or removed, neither a bar nor an error may show the count.
        self._progress = progress if public_n else False
        self._public_n = public_n
        self._coerced = coerced
        self._read_once = False
        self._bar: Any = None
        self._left = self._passes = passes
        self._ahead: list[_Ahead] = []
        self._kept: tuple[dict[str, Any], list[dict[str, Any]]] | None = None
        self.executor, self._first = executor, first
        self._categories: dict[str, Any] = {}
        self.seen = 0  # rows of the last whole pass
        self._lengths: dict[int, int] | None = None  # of the parts: confidential
        self.n = n

    def blocks(
        self, design: Design, height: int = BLOCK_ROWS, windows: Windows = ALL_ROWS,
        coins: Coins | None = None,
    ) -> Iterator[Array]:  # fmt: skip
        """Yield the blocks ``(q, m)``, m <= height, of one reading of the rows.

        A block has a row per design column, response last.

        Values are in the user's units and inside the known intervals; a row that must become a
        zero row has NaN in its last cell (in its first, without a response). The buffer is reused:
        use it before the next block. Blocks begin at multiples of ``height`` rows of the table (or
        of ``windows``) whatever its chunks, so every source gives the same ones. With ``coins``
        only a random part of the rows (:class:`Coins`).
        """
        buffer = np.empty((design.q, height + ROW_PAD))
        partitions = self._partitions(design, height, windows, coins)
        for (block,) in _filled(partitions, design.fill, buffer):
            yield block

    def people(self, design: Design, coins: Coins | None = None) -> Iterator[Any]:
        """Raise an error: no column of people was declared."""
        raise PrivacyBugError("this stage reads people, but the unit of the call is a row")

    def cell_blocks(
        self, design: Design, grid: Grid, height: int = CELL_ROWS, windows: Windows = ALL_ROWS,
        coins: Coins | None = None,
    ) -> Iterator[tuple[Array, npt.NDArray[np.intp]]]:  # fmt: skip
        """Yield blocks of the numbers of rows alone (``grid.numbers``), and the cells they are in.

        Both arrays are reused.
        """
        buffer = np.empty((len(grid.numbers), height + ROW_PAD))
        cells = np.empty(height, dtype=np.intp)
        parts = self._partitions(design, height, windows, coins)
        yield from _filled(parts, grid.fill, buffer, cells)

    def blocks_for(self, job: Any, design: Design, **chosen: Any) -> Iterator[Any]:
        """Yield the blocks of one reading for a job: filled blocks, or numbers and cells."""
        grid = getattr(job, "grid", None)
        if grid is not None:
            return self.cell_blocks(design, grid, **chosen)
        return self.blocks(design, **chosen)

    def _partitions(
        self, design: Design, height: int, windows: Windows, coins: Coins | None = None
    ) -> Iterator[tuple[Mapping[str, Any], int, bool]]:
        """Yield coerced cells of parts of blocks, and whether a block ends there: one reading."""
        kinds = design.kinds
        bar = self.next_pass(len(kinds))
        seen = 0
        for passed, columns, start, spans in self._parts(kinds, windows, coins):
            seen += passed
            if bar is not None:
                bar.update(passed)
            for low, high in spans:
                for a in range(low - low % height, high, height):
                    first, last = max(a, low), min(a + height, high)
                    # A block ends with its window if the next window may be left out.
                    full = last == a + height or (windows.every > 1 and last % WINDOW == 0)
                    partition = slice(first - start, last - start)
                    yield {c: v[partition] for c, v in columns.items()}, last - first, full
            del columns
        self.seen = seen
        self.check(self.seen)

    def _parts(
        self, kinds: Mapping[str, Any], windows: Windows, coins: Coins | None
    ) -> Iterator[tuple[int, dict[str, Any], int, list[tuple[int, int]]]]:
        """Yield (rows passed, coerced cells, position of the first, positions to take): one pass.

        Under coins the cells are those of the chosen rows, and their positions are among these.
        """
        names = list(kinds)
        reading = getattr(self.source, "reading", None)  # a source that makes use of kinds
        source = self.source if reading is None else reading(kinds)
        if coins is not None:
            taken = 0
            for passed, columns in self._cells_by_coins(source, kinds, coins):
                many = len(columns[names[0]])
                yield passed, columns, taken, [(taken, taken + many)]
                taken += many
                del columns
            return
        seen = self._first
        if windows.every == 1:
            for columns in self._all_cells(source, kinds):
                start, seen = seen, seen + len(columns[names[0]])
                yield seen - start, columns, start, [(start, seen)] if seen > start else []
                del columns
            return
        # A source that can skip rows gives (rows left out before it, chunk). Rows that it leaves
        # out are never in the windows; its last chunk may be empty, with the rows left out at the
        # end.
        chosen = getattr(source, "chosen", None)
        parts = chosen(names, windows) if chosen else map(lambda c: (0, c), source.chunks(names))
        for skipped, chunk in parts:
            start, stop = seen + skipped, seen + skipped + len(chunk[names[0]])
            spans = list(windows.spans(start, stop))
            columns = self._cells(chunk, kinds) if spans else {}
            del chunk
            yield stop - seen, columns, start, spans
            seen = stop
            del columns  # nothing is held while the next is read

    def _cells_by_coins(
        self, source: Source, kinds: Mapping[str, Any], coins: Coins
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (rows passed, coerced cells of those that the coins choose)."""
        if self._ahead and self._ahead[0][:2] == (kinds, coins.every):
            yield from self._ahead.pop(0)[2]
            return
        names = list(kinds)
        tossed = getattr(source, "tossed", None)  # a source that need not read the others
        if tossed is not None and coins.every > 1 and not self._keeps(kinds):
            for passed, chunk in tossed(names, coins.choose):
                yield passed, self._cells(chunk, kinds)
            return
        fitting = self._fitting(kinds, coins)
        ahead: list[_Ahead] = [(dict(kinds), later.every, []) for later in fitting]
        for columns in self._all_cells(source, kinds):
            passed = len(columns[names[0]])
            for later, (_, _, part) in zip(coins.then, ahead, strict=False):
                keep = later.choose(passed)
                part.append((passed, {c: v[keep] for c, v in columns.items()}))
            if coins.every > 1:
                keep = coins.choose(passed)
                columns = {c: v[keep] for c, v in columns.items()}
            yield passed, columns
            del columns
        self._ahead = ahead

    def _fitting(self, kinds: Mapping[str, Any], coins: Coins) -> list[Coins]:
        """Return the coins of later passes whose rows are kept: as many as fit, by public numbers.

        A source of memory need not be read for them.
        """
        decoded = getattr(self.source, "decoded", False) and self._kept is None
        if not decoded or not self._public_n or self._keeps(kinds):
            return []
        left, out = KEPT_BYTES, []
        for later in coins.then:
            left -= 8 * len(kinds) * self.n // later.every
            if left < 0:
                break
            out.append(later)
        return out

    def _keeps(self, kinds: Mapping[str, Any]) -> bool:
        """Return whether the cells of these columns stay in memory until the last pass.

        A rule of public numbers, by rows and columns: of tables that have to be decoded, or whose
        cells are in memory as somebody else's types.
        """
        held = any(getattr(self.source, what, False) for what in ("decoded", "in_memory"))
        small = 8 * len(kinds) * self.n <= KEPT_BYTES
        return self._public_n and self._passes > 1 and held and small

    def _all_cells(self, source: Source, kinds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the coerced cells of every chunk: one pass, decoded or kept from an earlier one."""
        if self._kept is not None and self._kept[0] == kinds:
            yield from map(dict, self._kept[1])
            return
        keeps = self._keeps(kinds)
        parts: list[dict[str, Any]] = []
        self._kept = None
        for chunk in source.chunks(list(kinds)):
            columns = self._cells(chunk, kinds)
            del chunk
            if keeps:
                parts.append(columns)
            yield columns
            del columns  # nothing is held while the next is read
        if keeps:
            self._kept = (dict(kinds), parts)

    def _cells(self, chunk: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
        return dict(chunk) if self._coerced else coerce_all(chunk, kinds, self._categories)

    def next_pass(self, columns: int) -> Any:
        """Return the bar of the call, or None: the number of passes is public, so is its total."""
        if self._read_once and not self.source.rescannable:
            raise SourceError(READ_ONCE)
        self._read_once = True
        if self._left == self._passes:
            self._bar = progress_bar(self._progress, self._passes * self.n, columns)
        self._left -= 1
        # passes beyond the plan are not shown: how many a minimum takes depends on the rows
        return self._bar if self._left >= 0 else None

    def check(self, seen: int) -> None:
        """Refuse a source that gave another number of rows than before, if this is public."""
        if self._public_n and seen != self.n:
            raise SourceError(
                "the source has another number of rows than was declared or counted before. The "
                "source must give the same rows each time"
            )

    def check_parts(self, lengths: Mapping[int, int]) -> None:
        """Refuse a source that gave another number of rows in a part than in an earlier pass.

        ``lengths`` (part -> rows) stay in this process for the length of the call, and no message
        shows them. For a table that is the same in every pass this never raises, for any
        rows. If one row may be added or removed nothing is compared (``theory.md``, 3).
        """
        if not self._public_n:
            return
        # some engines leave an empty part out
        read = {part: rows for part, rows in lengths.items() if rows}
        if self._lengths is None:
            self._lengths = read
        elif read != self._lengths:
            raise SourceError(
                "a part of the table has another number of rows than in a pass before: the source "
                "must give the same rows each time. Read files, or persist the frame"
            )

    def skim(self, design: Design) -> None:
        """Read the source once more and ignore it: the number of readings is as planned."""
        names = list(design.kinds)
        bar = self.next_pass(len(names))
        seen = 0
        for chunk in self.source.chunks(names):
            m = len(chunk[names[0]])
            if bar is not None:
                bar.update(m)
            seen += m
        self.check(seen)

    def close(self) -> None:
        """End the bar of the call, and let go of every cell."""
        self._kept, self._ahead = None, []
        if self._bar is not None:
            self._bar.close()

    def raw(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield cells as they are, for columns the caller has declared public."""
        if self._read_once and not self.source.rescannable:
            raise SourceError(
                "public columns are read in a separate pass, but an iterator gives its rows "
                "only once. Pass a list of frames or a path"
            )
        yield from self.source.chunks(list(names))
