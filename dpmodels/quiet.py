"""Warnings, told to the caller or silenced from several threads at once; progress bars too.

``warnings.catch_warnings`` saves and restores a list that all threads share: two blocks that
overlap in time can restore each other's "ignore", for good. Here the first block to open saves
the filters and the last one to close restores them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dpmodels.locks import Lock

__all__ = ["bars_are_secret", "no_bars", "quiet", "tell"]

_SECRET: ContextVar[bool] = ContextVar("dpmodels_no_bars", default=False)

_LOCK = Lock()
_OPEN: list[warnings.catch_warnings] = []  # type: ignore[type-arg, unused-ignore]
_COUNT = [0]


@contextmanager
def quiet() -> Iterator[None]:
    """Let no warning out while the block runs, in this thread or another."""
    with _LOCK:
        if _COUNT[0] == 0:
            saved = warnings.catch_warnings()
            saved.__enter__()
            warnings.simplefilter("ignore")
            _OPEN.append(saved)
        _COUNT[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _COUNT[0] -= 1
            if _COUNT[0] == 0:
                _OPEN.pop().__exit__(None, None, None)


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bar inside, whatever is asked: how often something runs there is secret."""
    token = _SECRET.set(True)
    try:
        yield
    finally:
        _SECRET.reset(token)


def bars_are_secret() -> bool:
    """Tell if a bar would show what has to stay secret."""
    return _SECRET.get()


def tell(*found: Warning) -> None:
    """Warn at the line outside this package that made the call."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpmodels"):
        frame, level = frame.f_back, level + 1
    for warning in found:
        warnings.warn(warning, stacklevel=level)
