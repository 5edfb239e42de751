"""Which rows a pass reads: by position in the table or by secret coins, never by a cell."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

#: Rows of a window: one block, whose products of integers up to 2^20 are exact in float64.
WINDOW = 8192
#: Coins tossed at once.
_TOSSED = 1 << 16
#: Cells between the columns of a block: columns that lie a power of two of bytes apart share their
#: places in the cache, and a product with a small matrix then takes twice as long.
ROW_PAD = 24


@dataclass(frozen=True)
class Windows:
    """Runs of windows, evenly spread from the first row of the table on.

    Notes
    -----
    **Privacy.** Positions only, whatever the chunks, files or row groups: with n public and one
    row replaced *in its place*, that row is in a chosen window or not, and every other row stays
    where it was. Nothing of the kind holds where a row is added or removed, or where the order of
    the rows follows from their cells (a table sorted by one): the caller must know that it does
    not.
    """

    every: int = 1  # One run in ``every`` is read: the first of them. 1: every row.
    run: int = 1  # Windows of 8192 rows in a run

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the chosen parts of the rows ``start`` to ``stop`` of the table."""
        if self.every == 1:
            if stop > start:
                yield start, stop
            return
        length = self.run * WINDOW
        period = length * self.every
        for first in range(start - start % period, stop, period):
            a, b = max(first, start), min(first + length, stop)
            if a < b:
                yield a, b

    def count(self, n: int) -> int:
        """Return how many of n rows are chosen (a public number)."""
        return sum(b - a for a, b in self.spans(0, n))


@dataclass(frozen=True, eq=False)
class Coins:
    """Each row with probability 1 / ``every``, by a secret coin of its own.

    Notes
    -----
    **Privacy.** Coins know nothing of cells, places or the order of the rows, nor of what was
    released before: when they are tossed changes nothing.
    """

    every: int  # A power of two, at most 256
    # callable(size) -> uint8 array: secret uniform bytes.
    draw: Callable[[int], npt.NDArray[np.uint8]]
    # Of passes after this one, fresh ones each. Whoever reads the rows for this pass may toss them
    # too, and keep what they choose.
    then: tuple[Coins, ...] = ()
    tossed: int = _TOSSED  # How many are tossed at once
    #: Tossed and not yet asked for: the coin of a row depends on no chunk.
    _left: list[npt.NDArray[np.bool_]] = field(default_factory=list, repr=False)

    def choose(self, m: int) -> npt.NDArray[np.intp]:
        """Return the chosen ones of the next m rows, in order."""
        have = sum(map(len, self._left))
        while have < m:
            self._left.append(self._tossed())
            have += self.tossed
        coins = np.concatenate(self._left or [np.ones(0, dtype=bool)])
        self._left[:] = [coins[m:]]
        return np.flatnonzero(coins[:m])

    def _tossed(self) -> npt.NDArray[np.bool_]:
        """Return the next coins: a row is chosen if log2(every) fair bits of its own are all 0."""
        bits = self.every.bit_length() - 1
        if not bits:
            return np.ones(self.tossed, dtype=bool)
        planes = self.draw(bits * self.tossed // 8).reshape(bits, -1)
        return np.unpackbits(~np.bitwise_or.reduce(planes, axis=0)).view(bool)


ALL_ROWS = Windows()


def short(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield blocks, those of numbers and cells in parts of which products are exact."""
    for block in blocks:
        if not isinstance(block, tuple):
            yield block
            continue
        numbers, cells = block
        for a in range(0, len(cells), WINDOW):
            yield numbers[:, a : a + WINDOW], cells[a : a + WINDOW]


class OfRows:
    """What a pass may ask of whatever yields the rows of a call: one answer a kind, all public.

    The answers here are those of something that yields blocks and no more.
    """

    executor: Any = None  # Who does the tasks of passes that are sums; None: this thread
    by_person: bool = False  # Units are people, and blocks are of whole ones
    by_cell: bool = False  # Numbers and cells of a grid can be had in place of rows of dummies
    # It adds up in a way of its own, ``summed``: by person, or through a map.
    own_sums: bool = False

    def blocks_for(self, job: Any, design: Any, **chosen: Any) -> Iterator[Any]:
        """Yield one pass of the blocks that a job reads."""
        blocks: Iterator[Any] = self.blocks(design, **chosen)  # type: ignore[attr-defined]
        return blocks

    def close(self) -> None:
        """Let go of what was kept of the rows."""


# -- Secret coins that can be tossed twice: a keyed stream, so that a task done again agrees


#: Length of a key.
KEY_BYTES = 32
#: The key fills a whole block of SHAKE256: what follows is a function keyed by its state.
_RATE = 136
#: The part that all parts are whose place is known.
_BY_PLACE = (1 << 64) - 1


@dataclass(frozen=True)
class Key:
    """What a task is given instead of coins."""

    every: int  # Each row with probability 1 / every
    # Fresh for each pass, from the noise source of the call. As confidential as the rows.
    secret: bytes = field(repr=False)

    def coins(self, part: int, purpose: int, first: int | None = None) -> Coins:
        """Return the coins of one part of the table, from its first row on.

        Those of a row go by its place, where that is known: however the table is cut.
        """
        if first is None:
            return Coins(self.every, _Stream(self.secret, part, purpose).draw)
        own = _Stream(self.secret, _BY_PLACE, purpose, first // WINDOW)
        return Coins(self.every, own.draw, tossed=WINDOW)


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
