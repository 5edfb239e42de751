"""Rows on their way to a release: passes over blocks of the design, and nothing that keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import SourceError
from dpmodels.formula.coerce import coerce
from dpmodels.sources.adapt import Source
from dpmodels.sources.progress import progress_bar

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["BLOCK_ROWS", "READ_ONCE", "Rows", "count_rows", "rows_in_windows"]

#: Block height: products of integers up to 2^20 over 2^13 rows are exact in float64.
BLOCK_ROWS = 8192

#: Why a source that cannot be opened again is refused.
READ_ONCE = (
    "this method reads the rows more than once, but an iterator gives them only once. "
    "Pass a list of frames, a path, or a function that returns a new iterator"
)

Array = npt.NDArray[np.float64]


def count_rows(source: Source, name: str) -> int:
    """Count the rows of a source that does not state its length (a public number)."""
    return sum(len(chunk[name]) for chunk in source.chunks([name]))


def _parts(seen: int, m: int, height: int, every: int) -> list[tuple[int, int]]:
    """Cut a chunk of m rows, ``seen`` rows into the table, into blocks (of every k-th window)."""
    if every == 1:
        return [(a, min(m, a + height)) for a in range(0, m, height)]
    out = []
    for w in range(seen // BLOCK_ROWS, (seen + m - 1) // BLOCK_ROWS + 1 if m else 0):
        if w % every == 0:
            low, high = max(w * BLOCK_ROWS - seen, 0), min((w + 1) * BLOCK_ROWS - seen, m)
            out += [(a, min(high, a + height)) for a in range(low, high, height)]
    return out


def rows_in_windows(n: int, every: int) -> int:
    """Return how many of n rows lie in every k-th window of 8192 (a public number)."""
    return sum(min(BLOCK_ROWS, n - a) for a in range(0, n, BLOCK_ROWS * every))


class Rows:
    """The private rows of one call, read block by block through a design.

    Parameters
    ----------
    source : Source
    n : int
        The public row count; a pass that meets another number stops the call.
    progress : bool or None
        See :func:`dpmodels.sources.progress.progress_bar`.
    public_n : bool
        False under add/remove: the count of a pass is then not compared with n.
    """

    def __init__(
        self,
        source: Source,
        n: int,
        progress: bool | None = False,
        *,
        public_n: bool = True,
    ) -> None:
        self._source = source
        # Where one row may be added or removed, neither a bar nor an error may show the count.
        self._progress = progress if public_n else False
        self._public_n = public_n
        self._read_once = False
        self.n = n

    def blocks(self, design: Design, height: int = BLOCK_ROWS, every: int = 1) -> Iterator[Array]:
        """Yield one pass of blocks ``(q, m)``, m <= height: a row per design column, response last.

        Values are in the user's units and inside the known intervals; a row that must become a
        zero row has NaN in its last cell (in its first, without a response). The buffer is reused:
        use it before the next block. With ``every = k`` only every k-th window of 8192 rows,
        counted from the first row of the table whatever its chunks, is mapped.
        """
        buffer = np.empty((design.q, height))
        for columns, m in self._slices(design, height, every):
            block = buffer[:, :m]
            design.fill(columns, block)
            yield block

    def coded_blocks(
        self, design: Design, height: int = BLOCK_ROWS
    ) -> Iterator[tuple[Array, npt.NDArray[np.intp]]]:
        """Yield blocks without the dummies of ``design.factors``, and the codes that replace them.

        Rows of the block are ``design.dense`` of the buffer; both arrays are reused.
        """
        buffer = np.empty((len(design.dense), height))
        codes = np.empty((len(design.factors), height), dtype=np.intp)
        for columns, m in self._slices(design, height):
            block, code = buffer[:, :m], codes[:, :m]
            design.fill(columns, block, code)
            yield block, code

    def _slices(
        self, design: Design, height: int, every: int = 1
    ) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield coerced cells of at most ``height`` rows: one pass."""
        if self._read_once and not self._source.rescannable:
            raise SourceError(READ_ONCE)
        self._read_once = True
        kinds = design.kinds
        names = list(kinds)
        seen = 0
        bar = progress_bar(self._progress, self.n, len(names))
        for chunk in self._source.chunks(names):
            m = len(chunk[names[0]])
            parts = _parts(seen, m, height, every)
            seen += m
            bar.update(m)
            columns = {c: coerce(chunk[c], kinds[c]) for c in names} if parts else {}
            for start, stop in parts:
                yield {c: a[start:stop] for c, a in columns.items()}, stop - start
        bar.close()
        if self._public_n and seen != self.n:
            raise SourceError(
                "this pass met another number of rows than was declared or counted before: the "
                "source must give the same rows each time"
            )

    def raw(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield cells as they are, for columns the caller has declared public."""
        if self._read_once and not self._source.rescannable:
            raise SourceError(
                "public columns are read in a pass of their own, but an iterator gives its rows "
                "only once. Pass a list of frames or a path"
            )
        yield from self._source.chunks(list(names))

    def sample(
        self, design: Design, indices: Sequence[int], keep: npt.NDArray[np.intp] | None
    ) -> Array:
        """Return design columns ``indices`` of all rows, or of the rows ``keep`` (sorted).

        For histograms only; the array must not outlive the release that asked for it. Rows that
        would become zero rows are NaN throughout.
        """
        index = list(indices)
        size = self.n if keep is None else len(keep)
        out = np.empty((len(index), size))
        at = done = 0
        for block in self.blocks(design):
            m = block.shape[1]
            part = block[index]
            part[:, np.isnan(block[0 if design.response is None else -1])] = np.nan
            if keep is not None:
                lo, hi = np.searchsorted(keep, [done, done + m])
                part = part[:, keep[lo:hi] - done]
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
            done += m
        return out
