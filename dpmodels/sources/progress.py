"""A progress bar over rows: public totals only, never a loss, a count or an acceptance."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from dpmodels.quiet import bars_are_secret

__all__ = ["progress_bar"]

#: Cells of all passes above which a bar is shown unasked (about two seconds).
LONG = 200_000_000


class _Silent:
    """No bar."""

    def update(self, rows: int) -> None:
        """Do nothing."""

    def more(self, rows: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Shown:
    """A bar of tqdm, whose total may grow."""

    def __init__(self, n: int) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(total=n, unit=" rows", unit_scale=True, desc="reading", leave=False)

    def update(self, rows: int) -> None:
        """Move on by ``rows``."""
        self._bar.update(rows)

    def more(self, rows: int) -> None:
        """Make the total larger."""
        self._bar.total += rows
        self._bar.refresh()

    def close(self) -> None:
        """End the bar."""
        self._bar.close()


def progress_bar(asked: bool | None, n: int, columns: int) -> Any:
    """Return a bar of ``n`` rows with ``update(rows)``, ``more(rows)`` and ``close()``.

    Parameters
    ----------
    asked : bool or None
        None: only if the passes are long and the error stream is a terminal.
    n, columns : int
        Public size of all passes.
    """
    if asked is None:
        asked = n * columns > LONG and sys.stderr.isatty()
    if not asked or bars_are_secret() or importlib.util.find_spec("tqdm") is None:
        return _Silent()
    return _Shown(n)
