"""What a ledger file is held against: its name, and a count of its charges beside it.

SQLite keeps its journal beside the *name* of a file. A file that has two names (a hard link, or a
bind mount of the file itself into a container) has two journals, and a charge that one of them
holds is lost through the other. A stale journal that somebody puts back takes charges away, too,
and so does a restored backup. The database cannot know; a file that only ever grows can.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dpmodels.errors import BudgetError

__all__ = ["Witness", "check_name"]

#: Bytes at the end that are read: concurrent processes may write a few lines out of order.
_TAIL = 1 << 14
#: Where Linux lists what is mounted.
_MOUNTS = Path("/proc/self/mountinfo")
_LINE = re.compile(r"([0-9a-f]{32}) (\d+) ([0-9a-f]{32}|-)")


def check_name(file: Path) -> None:
    """Refuse a ledger that may be reached under another name than this one."""
    problem = ""
    try:
        if file.stat().st_nlink > 1:
            problem = "has more than one name (a hard link)"
        elif file in _mounts():
            problem = "is mounted by itself"
    except OSError:  # it is not there: that is somebody else's message
        return
    if problem:
        raise BudgetError(
            f"the ledger {str(file)!r} {problem}. The journal of its charges lies beside the name, "
            "so charges made under the other name would be lost. Nothing was charged. Remove the "
            "other name, or mount the folder that holds the ledger, not the file"
        )


def _mounts() -> set[Path]:
    """Return the places where something is mounted, as Linux tells."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return set()
    places = (line.split()[4] for line in lines if len(line.split()) > 4)
    return {
        Path(os.fsdecode(re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), place)))
        for place in places
    }


class Witness:
    """A file beside the ledger with a line a charge: identity, number and mark. It only grows."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + "-charges")
        self._ledger = ledger

    def add(self, identity: str, number: int, mark: str | None) -> None:
        """Write down a charge that was committed; if that fails, less is noticed later."""
        line = f"{identity} {number} {mark or '-'}\n".encode()
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(file, line)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError:
            pass

    def last(self) -> tuple[str, int, str] | None:
        """Return identity, number and mark of the last charge; None: nothing is known."""
        try:
            with self.path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - _TAIL, 0))
                lines = file.read().decode("ascii", "replace").splitlines()
        except OSError:
            return None
        found = [m for m in map(_LINE.fullmatch, lines) if m is not None]
        if not found:
            return None
        ours = [m for m in found if m[1] == found[-1][1]]
        highest = max(ours, key=lambda m: int(m[2]))
        return highest[1], int(highest[2]), highest[3]

    def check_new(self) -> None:
        """Refuse to begin a ledger where one with charges has been."""
        last = self.last()
        if last is not None and last[1]:
            raise BudgetError(
                f"the ledger {str(self._ledger)!r} is gone or empty, and {last[1]} calls were "
                f"charged to it ({self.path.name!r} beside it says so). A new one would forget "
                f"what was spent. Nothing was charged. Bring the file back; {self._deliberate()}"
            )

    def check(self, identity: str, held: int, mark_of: dict[int, str | None]) -> None:
        """Refuse a ledger that holds fewer charges than were committed, or others.

        Parameters
        ----------
        identity : str
        held : int
            Number of charges in the file.
        mark_of : dict
            Number -> mark of its charges.
        """
        last = self.last()
        if last is None:
            return
        known, number, mark = last
        if known != identity:
            raise BudgetError(
                f"another ledger lies under {str(self._ledger)!r} now than the one whose charges "
                f"{self.path.name!r} lists. Nothing was charged. Put the file back; "
                f"{self._deliberate()}"
            )
        if held < number or (number and mark != "-" and mark_of.get(number) != mark):
            raise BudgetError(
                f"the ledger {str(self._ledger)!r} has lost charges: {number} were committed, the "
                f"file is an older copy with {held} calls. Nothing was charged. Bring back the "
                "newest file. If it is lost, the calls that the copy forgets were still answered: "
                "what is promised is then the file's budget and theirs together. To go on with "
                f"it, {self._deliberate()}"
            )

    def _deliberate(self) -> str:
        return f"if this is meant, remove {str(self.path)!r}"
