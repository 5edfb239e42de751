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

RECORD, STARTED, _PART = "record.json", "started.json", ".part-"
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
    lock = sqlite3.connect(place.with_name(place.name + "-run"), timeout=0, isolation_level=None)
    try:
        free = False
        with suppress(sqlite3.OperationalError):
            lock.execute("BEGIN IMMEDIATE")
            free = True
        if not free:
            raise BudgetError(
                "another run of a study holds this ledger. Nothing was read and nothing was "
                "charged by this one. Wait until it has ended: run again then, with its folder, "
                "and its releases are read back"
            )
        yield
    finally:
        lock.close()


class Folder:
    """A folder written file by file, aside and renamed; ``whose``: study, ledger and mode."""

    def __init__(self, path: Path, whose: Mapping[str, Any]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        for left in path.rglob(f"{_PART}*"):  # of a run that was killed while it wrote
            left.unlink()
        found = next((read_json(path / n) for n in (STARTED, RECORD) if (path / n).exists()), None)
        if found is None and any(path.iterdir()):
            raise RequestError("the folder of --out holds other files: give a new or empty folder")
        if found is not None and found.get("run") != dict(whose):
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
        aside = place.with_name(_PART + place.name)
        with aside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.utime(aside, (_NO_TIME, _NO_TIME))
        aside.replace(place)

    def write_word(self, name: str, table: Any) -> None:
        """Write a table as a Word file, without the time that its parts were packed."""
        aside, packed = self.path / f"{_PART}word.docx", io.BytesIO()
        table.to_word(aside)
        with zipfile.ZipFile(aside) as old, zipfile.ZipFile(packed, "w") as new:
            for one in old.infolist():
                new.writestr(zipfile.ZipInfo(one.filename), old.read(one), zipfile.ZIP_DEFLATED)
        aside.unlink()
        self.write(name, packed.getvalue())

    def finish(self, record: str, listed: Any) -> None:
        """Write the record last; tables of an earlier version of the same run go."""
        for name in {*files_of(self.path)} - {*listed}:
            if name.startswith("tables/"):
                (self.path / name).unlink()
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
        return found if isinstance(found, dict) else {}
    return {}
