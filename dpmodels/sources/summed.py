"""One pass that is a sum: added up in this thread, or by tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import SourceError
from dpmodels.sources.keyed import keyed
from dpmodels.sources.pieces import Job, Task, added
from dpmodels.sources.windows import ALL_ROWS, Coins, Windows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.piece import Piece

__all__ = ["Integers", "counted", "summed"]

Counts = tuple[npt.NDArray[Any], ...]


def summed(
    rows: Any,
    design: Design,
    job: Job,
    *,
    windows: Windows = ALL_ROWS,
    coins: Coins | None = None,
    inner: Coins | None = None,
) -> Any:
    """Return the sums of one pass over rows, in this thread or by the tasks of their crew.

    Parameters
    ----------
    rows : Rows, or anything that yields blocks
    design, windows, coins
        As for :meth:`dpmodels.sources.rows.Rows.blocks`. Tasks are given a key for coins.
    job : Job
    inner : Coins or None
        Handed to the job.

    Privacy
    -------
    Confidential: exact sums, the same integers whoever adds up (``theory.md``).
    """
    own = getattr(rows, "summed", None)  # rows seen through a map of their own
    if own is not None:
        return own(design, job, windows=windows, coins=coins, inner=inner)
    chosen: dict[str, Any] = {} if windows.every == 1 else {"windows": windows}
    if coins is not None:
        chosen["coins"] = coins
    crew = getattr(rows, "crew", None)
    if crew is None:
        return job.over(_blocks(rows, design, job, chosen), inner)
    names = list(design.kinds)
    pieces = crew.pieces(rows.source, names)
    if not pieces and not crew.knows_parts:
        return job.over(_blocks(rows, design, job, chosen), inner)
    count = None if crew.knows_parts else len(pieces)
    if windows.every > 1:
        pieces = _placed(rows.source, pieces)
    bar = rows.next_pass(len(names))
    task = Task(design, job, windows, keyed(coins), keyed(inner))
    mark, parts = crew.run(task, pieces)
    total, seen = added(task, _shown(parts, bar), count, mark)
    rows.check(seen)
    return total


@dataclass(frozen=True, eq=False)
class Integers:
    """Sums of one pass that are arrays of integers. **Confidential**."""

    arrays: Counts

    def __add__(self, other: Integers) -> Integers:
        return Integers(tuple(a + b for a, b in zip(self.arrays, other.arrays, strict=True)))

    def __repr__(self) -> str:
        return "<integer sums, confidential>"


@dataclass(frozen=True, eq=False)
class _Counting:
    """The pass of :func:`counted`, for whoever adds up."""

    count: Callable[[Iterable[Array]], Counts]

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        return Integers(tuple(np.asarray(x) for x in self.count(blocks)))


def counted(rows: Any, design: Design, count: Callable[[Iterable[Array]], Counts]) -> Counts:
    """Return the integer arrays that a function adds up over the blocks of one pass.

    Parameters
    ----------
    count : function
        Of blocks (q, m): arrays of integers whose shapes are public, zeros where there is no
        block. It travels to workers: a function of a module, or a ``functools.partial`` of one.

    Privacy
    -------
    Confidential: exact sums, the same integers whoever adds up.
    """
    found: Integers = summed(rows, design, _Counting(count))
    return found.arrays


def _blocks(rows: Any, design: Design, job: Job, chosen: dict[str, Any]) -> Any:
    """Return the blocks that a job reads, of rows or of whatever yields blocks."""
    own = getattr(rows, "blocks_for", None)
    return rows.blocks(design, **chosen) if own is None else own(job, design, **chosen)


def _placed(source: Any, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the parts with their places, which windows go by."""
    if pieces and all(piece.first is not None for piece in pieces):
        return list(pieces)
    lengths = source.lengths() if pieces else None
    if lengths is None:
        raise SourceError(
            "public_order=True reads rows by their place in the table, which is not known here: "
            "leave it out, rows are then chosen by secret coins"
        )
    places = accumulate(lengths, initial=0)
    return [dataclasses.replace(piece, first=at) for piece, at in zip(pieces, places, strict=False)]


def _shown(parts: Iterable[Any], bar: Any) -> Iterator[Any]:
    for part in parts:
        yield part
        bar.update(part.rows)
