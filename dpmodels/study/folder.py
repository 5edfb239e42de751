"""The folder of a run: files that are whole or not there, and one run at a time."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dpmodels.errors import BudgetError, RequestError

RECORD, STARTED = "record.json", "started.json"
_PART = ".part-"
#: When all files were written, as the disk has it: 1980-01-02, the first day of zip files.
_NO_TIME = 315_619_200


@contextmanager
def held(ledger: Path) -> Iterator[None]:
    """Hold a ledger for one run of a study; a second one is told, and charges nothing.

    The lock is SQLite's on a file beside the ledger: the system frees it when a process is killed.
    """
    place = ledger.resolve()
    if not place.parent.is_dir():
        raise BudgetError(f"there is no directory {str(place.parent)!r} for the ledger")
    lock = sqlite3.connect(
        place.with_name(place.name + "-run"), timeout=0, isolation_level=None
    )
    try:
        free = False
        with suppress(sqlite3.OperationalError):
            lock.execute("BEGIN IMMEDIATE")
            free = True
        if not free:
            raise BudgetError(
                "another run of a study holds this ledger. Nothing was read and nothing was "
                "charged by this one. Wait until it has ended: run again then, and its releases "
                "are read back from its folder"
            )
        yield
    finally:
        lock.close()


class Folder:
    """A folder that is written aside and renamed, file by file.

    Parameters
    ----------
    path : path
    whose : mapping
        Study, ledger and mode: a folder holds one run.
    """

    def __init__(self, path: Path, whose: Mapping[str, Any]) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise RequestError("--out is a file: give the path of a new folder")
        path.mkdir(parents=True, exist_ok=True)
        for left in path.rglob(f"{_PART}*"):  # of a run that was killed while it wrote
            left.unlink()
        found = next((read_json(path / n) for n in (STARTED, RECORD) if (path / n).exists()), None)
        if found is None and any(path.iterdir()):
            raise RequestError("the folder of --out holds other files: give a new or empty one")
        if found is not None and {k: found.get("run", {}).get(k) for k in whose} != dict(whose):
            raise RequestError(
                "the folder of --out holds the run of another study, ledger or rehearsal (a study "
                "that was changed is another one): give a new or empty folder"
            )
        self.write(STARTED, json.dumps({"run": dict(whose)}))
        with suppress(FileNotFoundError):
            (path / RECORD).unlink()  # written again at the end

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file whole: aside, to the disk, and then under its name."""
        place = self.path / name
        place.parent.mkdir(exist_ok=True)
        aside = place.with_name(f"{_PART}{place.name}")
        with aside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.utime(aside, (_NO_TIME, _NO_TIME))  # when it was written is no part of what leaves
        aside.replace(place)

    def write_word(self, name: str, table: Any) -> None:
        """Write a table as a Word file, without the time that zip files hold."""
        from dpmodels.tables.files import write_as

        aside = self.path / f"{_PART}word.docx"
        write_as(table, "docx", aside)
        packed = io.BytesIO()
        with zipfile.ZipFile(aside) as old, zipfile.ZipFile(packed, "w") as new:
            for one in old.infolist():
                fixed = zipfile.ZipInfo(one.filename, (1980, 1, 1, 0, 0, 0))
                new.writestr(fixed, old.read(one), zipfile.ZIP_DEFLATED)
        aside.unlink()
        self.write(name, packed.getvalue())

    def finish(self, record: str, listed: Any) -> None:
        """Write the record last, and remove files of an earlier version of the same run."""
        for path in files_of(self.path):
            if path not in {*listed, STARTED}:
                (self.path / path).unlink()
        self.write(RECORD, record)
        (self.path / STARTED).unlink()


def files_of(path: Path) -> list[str]:
    """Return the names of all files of a folder."""
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; empty where it is none."""
    with suppress(ValueError, OSError, RecursionError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}
