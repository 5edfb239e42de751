"""A folder for private cells that memory does not hold: gone when its process is, however it ends.

A killed process cleans nothing up. So files that have to last are unlinked as soon as they are
open (the descriptor keeps them, and the kernel frees them with the process), and a folder whose
process is dead is removed by the next one of the same user. Who is alive is told by a lock on a
file in the folder, which the kernel lets go of: numbers of processes would not do, as containers
that share a folder have numbers of their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO

__all__ = ["Scratch"]

_MADE, _HELD = "dpmodels-new-", "dpmodels-cells-"
_LOCK = "lock"


class Scratch:
    """A directory of this user alone (0700) for files of this user alone (0600)."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        made = Path(tempfile.mkdtemp(prefix=_MADE))
        lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        _locked(lock)
        # only now: a sweep must not find a folder that nobody has locked yet
        self.path = made.with_name(_HELD + made.name[len(_MADE) :])
        made.rename(self.path)
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def file(self, name: str) -> BinaryIO:
        """Return a new file, open for writing and reading, that has no name any more."""
        path = self.path / name
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        found = os.fdopen(os.open(path, flags, 0o600), "w+b")
        with contextlib.suppress(OSError):  # Windows: it is removed with the folder
            path.unlink()
        return found

    def close(self) -> None:
        """Remove the folder."""
        self._end()


def _remove(path: Path, lock: int, process: int) -> None:
    if os.getpid() == process:  # a forked child ends, and its parent goes on reading
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _locked(file: int) -> bool:
    """Lock a file for as long as it is open in this process; False: another one holds it."""
    try:
        import fcntl
    except ImportError:  # no such locks here: nothing is swept either
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(place: Path) -> None:
    """Remove the folders of this user whose processes are dead."""
    for path in place.glob(_HELD + "*"):
        with contextlib.suppress(OSError):  # another user's, or gone since
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                if _locked(lock):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
