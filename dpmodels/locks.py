"""Locks that a forked child finds open: the thread that held one is not in the child."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

__all__ = ["Lock"]

_ALL: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock for ``with``, new in every forked child.

    Parameters
    ----------
    again : bool
        The thread that holds it may take it again.
    """

    def __init__(self, *, again: bool = False) -> None:
        self._make = threading.RLock if again else threading.Lock
        self.renew()
        _ALL.add(self)

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = self._make()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # forked inside the block: it is open already
            self._lock.release()


def _renew() -> None:
    for lock in list(_ALL):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
