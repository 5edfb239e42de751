"""Which rows of a large table the early passes of a fit read: public rules.

Proofs: ``models/linear/theory.md`` 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpmodels.exact.ask import Read
from dpmodels.sources.windows import ALL_ROWS, WINDOW, Windows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["Guide", "first_share", "guide_share", "guide_windows", "noise_ratio"]


#: A first stage reads one run of windows in k up to a noise ratio of this over k ...
GUIDE_NOISE = 1e-3
#: (a first release, whose noise decides which directions are seen at all, by coins: this over k)
FIRST_NOISE = 1e-4
#: ... with k at most this (at most the second where columns may be local) ...
GUIDE_EVERY = (32, 4)
#: ... (by coins: at most this: beyond it the coins cost more than the rows) ...
GUIDE_COINS = 8
#: ... from at least so many places of the table ...
GUIDE_PLACES = (8, 16)
#: ... that are at most so many windows apart (2^21 rows).
GUIDE_PERIOD = 256
#: Kinds of columns that vary wherever one looks; the others may be constant over parts of a table.
_SPREAD = ("intercept", "numeric", "product")


def noise_ratio(mu: float, p: int, n: int) -> float:
    """Return ``x = sqrt(8) sqrt(2p) / (mu n)``: public, the noise beside the trace of X'X."""
    return math.sqrt(8.0) * math.sqrt(2.0 * p) / (mu * n)


def guide_share(x: float) -> int:
    """Return k: a pass between the first and the last reads each row with probability 1/k."""
    return _power_of_two(min(GUIDE_NOISE / x, GUIDE_COINS))


def first_share(x: float) -> int:
    """Return k: the first of two stages reads each row with probability 1/k (``theory.md`` 3.2)."""
    return _power_of_two(min(FIRST_NOISE / x, GUIDE_COINS))


def guide_windows(design: Design, n: int, x: float) -> Windows:
    """Return the rows that the first of two stages reads, by public numbers (``theory.md`` 3.2).

    Parameters
    ----------
    design : Design
    n : int
        Public row count: the relation must be replace-one.
    x : float
        Public noise ratio.
    """
    local = any(c.kind not in _SPREAD for c in design.columns) or any(
        v.kind != "real" for v in design.kinds.values()
    )
    apart = _power_of_two(min(n / (GUIDE_PLACES[local] * WINDOW), GUIDE_PERIOD))
    every = _power_of_two(min(GUIDE_NOISE / x, GUIDE_EVERY[local], apart))
    return Windows(every, 1 if local else apart // every)


def _power_of_two(most: float) -> int:
    """Return the largest power of two up to ``most``, at least 1."""
    return 1 << max(int(most).bit_length() - 1, 0)


@dataclass(frozen=True)
class Guide:
    """Which rows of a large table the passes before the last read, and meat and ordinary rows.

    Attributes
    ----------
    every : int
        Each row with probability 1 / every, by secret coins ...
    windows : Windows
        ... or whole windows of rows, where the order of the rows is public.
    first : int
        The start: each row with probability 1 / first, by secret coins.
    """

    every: int = 1
    windows: Windows = ALL_ROWS
    first: int = 1

    def start(self, n: int) -> int:
        """Return how many of n rows the start reads (expected, under coins). Public."""
        return max(n // self.first, 1)

    def early(self, n: int) -> int:
        """Return how many of n rows the early passes read (expected, under coins). Public."""
        return max(self.windows.count(n) if self.by_place else n // self.every, 1)

    def tail(self, n: int) -> int:
        """Return how many rows meat and ordinary information are of."""
        return max(n // self.every, 1)

    @property
    def by_place(self) -> bool:
        """Whether windows choose the rows of the early passes."""
        return self.windows.every > 1

    def read_start(self, passes: int) -> Read:
        """Return what the start reads; the coins of ``passes`` early passes go with its own.

        Whoever reads the rows for the start may keep what they choose.
        """
        ahead = passes if self.every > 1 and not self.by_place else 0
        return Read(self.first, then=(self.every,) * ahead)

    def read_early(self) -> Read:
        """Return what a pass before the last reads."""
        return Read(1 if self.by_place else self.every, self.windows)

    def read_last(self) -> Read:
        """Return what the last pass reads: every row, some for meat and ordinary information."""
        return Read(inner=self.every)
