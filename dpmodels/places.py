"""Public schedule of the rows that a pass reads, by their positions in the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Rows of a window: one block, whose products of integers up to 2^20 are exact in float64.
WINDOW = 8192


@dataclass(frozen=True)
class Windows:
    """Runs of windows, evenly spread from the first row of the table on.

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


ALL_ROWS = Windows()
