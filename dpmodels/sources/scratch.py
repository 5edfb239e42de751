"""A folder for cells that memory does not hold, and a DuckDB that spills into it, encrypted.

What lies on the disk, and for how long, changes no result.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from dpmodels.errors import SourceError
from dpmodels.sources.refusals import require_package

# -- A folder for private cells that memory does not hold: gone with its process, however that ends.


_MADE, _HELD = "dpmodels-new-", "dpmodels-cells-"
_LOCK = "lock"
#: Seconds that a folder may take from its making to its name: then its process is dead.
_YOUNG = 60.0


class Scratch:
    """A directory of this user alone (0700) for files of this user alone (0600)."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=_MADE))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        _locked(lock)
        # only now: a sweep must not find a folder that nobody has locked yet
        self.path = folder.with_name(_HELD + folder.name[len(_MADE) :])
        folder.rename(self.path)
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def file(self, name: str) -> BinaryIO:
        """Return a new file, open for writing and reading, that has no name any more."""
        path = self.path / name
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags, 0o600), "w+b")
        with contextlib.suppress(OSError):  # Windows: it is removed with the folder
            path.unlink()
        return file

    def close(self) -> None:
        """Remove the folder."""
        self._end()


def _remove(path: Path, lock: int, process: int) -> None:
    if os.getpid() == process:  # a forked child ends, and its parent goes on reading
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _locked(file: int) -> bool:
    """Lock a file while this process has it open; return False if another process holds it."""
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
    for path in (*place.glob(_HELD + "*"), *place.glob(_MADE + "*")):
        with contextlib.suppress(OSError):  # another user's, or gone since
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.getuid():
                continue
            if path.name.startswith(_MADE) and time.time() - status.st_mtime < _YOUNG:
                continue  # its maker may not have locked it yet
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if _locked(lock):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def check_sorter() -> None:
    """Refuse ``sort="duckdb"`` without its packages, or where a sort could not spill to disk."""
    for module in ("duckdb", "pyarrow"):
        require_package(module, 'for sort="duckdb"')
    way_to_spill()


#: Ways to spill, best first: settings, and the statements for DuckDB. From 2.0 on DuckDB encrypts
#: with its own library only if a setting allows it.
_ENCRYPTED = {"temp_file_encryption": "true"}
_WAYS = tuple(
    (_ENCRYPTED, words) for words in ((), ("LOAD httpfs",), ("SET force_mbedtls_unsafe = 'true'",))
)


@functools.cache
def way_to_spill() -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the first way in which this DuckDB spills, tried on numbers of no table.

    Where there is none the call is refused, before anything is read or charged.
    """
    import duckdb

    settings = duckdb.sql(
        "SELECT count(*) FROM duckdb_settings() WHERE name = 'temp_file_encryption'"
    ).fetchall()
    for way in _WAYS if settings[0][0] else (({}, ()),):  # none before 1.4
        with closing(Scratch()) as scratch, contextlib.suppress(duckdb.Error):
            with closing(connected(scratch.path / "trial", way, "2MB")) as trial:
                trial.execute("CREATE TABLE t AS SELECT hash(range) AS h FROM range(50000)")
                trial.execute("SELECT h FROM t ORDER BY h").fetchmany(1)
            return way
    raise SourceError(
        f"DuckDB {duckdb.__version__} cannot write encrypted temporary files here, which "
        'sort="duckdb" needs for tables larger than memory: install its extension httpfs '
        "(duckdb.sql('INSTALL httpfs')) or another version, or leave sort= out. Nothing was read "
        "or charged"
    )


def connected(spill: Path, way: tuple[dict[str, str], tuple[str, ...]], memory: str) -> Any:
    """Return DuckDB in memory, which spills beyond its limit: nothing has to outlive the call."""
    import duckdb

    settings, words = way
    config = {
        "memory_limit": memory, "temp_directory": str(spill), "threads": "1",
        "preserve_insertion_order": "false", "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false", **settings,
    }  # fmt: skip
    connection = duckdb.connect(":memory:", config=config)
    for word in words:
        connection.execute(word)
    return connection
