"""A progress bar over rows: public totals only, never a loss, a count or an acceptance."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

__all__ = ["progress_bar"]

#: Cells of one pass above which a bar is shown unasked (about two seconds).
LONG = 200_000_000


class _Silent:
    """No bar."""

    def update(self, rows: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def progress_bar(asked: bool | None, n: int, columns: int) -> Any:
    """Return a bar of ``n`` rows with ``update(rows)`` and ``close()``.

    Parameters
    ----------
    asked : bool or None
        None: only if the pass is long and the error stream is a terminal.
    n, columns : int
        Public size of the pass.
    """
    if asked is None:
        asked = n * columns > LONG and sys.stderr.isatty()
    if not asked or importlib.util.find_spec("tqdm") is None:
        return _Silent()
    from tqdm.auto import tqdm

    return tqdm(total=n, unit=" rows", unit_scale=True, desc="reading", leave=False)
