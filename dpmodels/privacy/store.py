"""Where a budget keeps its charges. Memory here; a file in :mod:`sqlite_store`."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from dpmodels.errors import BudgetError, RequestError, choice, shown
from dpmodels.privacy.account import Account, Entry
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.quiet import lock
from dpmodels.units.person import LEVELS, column_of, unit_of

# -- One call as a budget keeps it, and the arguments of a budget, checked


@dataclass(frozen=True)
class Charge:
    """One call as a budget keeps it.

    Attributes
    ----------
    number : int
        Counts the calls of the budget from 1.
    when : str
        UTC, ISO format. In a file only; never printed.
    call : str
    guarantee : Guarantee
    entry : Entry or None
        What the stopping rule was charged with.
    notes : mapping of str to str
    """

    number: int
    when: str
    call: str
    guarantee: Guarantee
    entry: Entry | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


def checked_number(name: str, value: Any, *, positive: bool) -> float:
    """Return a number that is not negative, or raise ``RequestError`` naming the argument."""
    number = math.nan
    with contextlib.suppress(Exception):  # whose message may quote the value
        number = float(value)
    if math.isnan(number):
        raise RequestError(f"{name} must be a number, got {shown(value)}")
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise RequestError(f"{name} must be finite and not negative, got {shown(value)}")
    if positive and number == 0:
        raise RequestError(f"{name} must be positive, got {shown(value)}. For example {name}=1")
    return number


def checked_unit(unit: Any) -> str:
    """Return the unit of a budget: of rows, or of the people that a column names."""
    if not isinstance(unit, str) or not unit:
        raise RequestError(
            "unit= takes 'record', 'attribute', or the name of the column that says whose row it "
            f'is, for example unit="person_id"; got {shown(unit)}'
        )
    return unit if unit in LEVELS or column_of(unit) else unit_of(unit)


def new_account(
    eps: Any, delta: Any, relation: str, unit: str, rule: str, cap_eps: Any, cap_delta: Any
) -> Account:
    """Validate the arguments of a budget and return its untouched account."""
    eps = checked_number("eps", eps, positive=True)
    delta = checked_number("delta", delta, positive=False)
    if delta >= 1:
        raise RequestError(f"delta must lie in [0, 1), got {shown(delta)}. For example delta=1e-6")
    for name, value, choices in (
        ("relation", relation, ("replace", "add-remove")),
        ("rule", rule, ("auto", "mixed", "caps", "basic")),
    ):
        choice(name, value, choices)
    unit = checked_unit(unit)
    if cap_eps is not None:
        cap_eps = checked_number("cap_eps", cap_eps, positive=False)
        if cap_eps > eps:
            raise RequestError(f"cap_eps={shown(cap_eps)} is above eps={shown(eps)}")
    if cap_delta is not None:
        cap_delta = checked_number("cap_delta", cap_delta, positive=False)
        if cap_delta > delta:
            raise RequestError(f"cap_delta={shown(cap_delta)} is above delta={shown(delta)}")
    if rule in ("basic", "mixed") and (cap_eps is not None or cap_delta is not None):
        raise RequestError('cap_eps= and cap_delta= belong to rule="caps"')
    if cap_eps is not None or cap_delta is not None:
        rule = "caps"
    return Account(eps, delta, relation, unit, rule, cap_eps, cap_delta)


class Store(Protocol):
    """What a budget needs of its storage."""

    def account(self) -> Account:
        """Return the current state of the stopping rule."""
        ...

    def charges(self) -> tuple[Charge, ...]:
        """Return the charged calls in order."""
        ...

    def append(self, calls: str | Sequence[str], guarantees: Sequence[Guarantee]) -> list[Charge]:
        """Admit and commit calls, all or none."""
        ...

    def confirm(self, charge: Charge) -> None:
        """Refuse if a charge of this object is not there any more."""
        ...

    def note(self, number: int, step: str, text: str) -> None:
        """Attach an outcome to a step of a charged call."""
        ...


def admit_all(
    account: Account, guarantees: Sequence[Guarantee]
) -> tuple[Account, list[tuple[Guarantee, Entry]]]:
    """Admit calls one after the other; raises before anything is stored."""
    entries = []
    for guarantee in guarantees:
        account, entry = account.admit(guarantee)
        entries.append((guarantee, entry))
    return account, entries


class MemoryStore:
    """A budget of this process only."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._charges: list[Charge] = []
        self._lock = lock()
        self._process = os.getpid()

    def account(self) -> Account:
        """Return the current state of the stopping rule."""
        return self._account

    def charges(self) -> tuple[Charge, ...]:
        """Return the charged calls in order."""
        return tuple(self._charges)

    def append(self, calls: str | Sequence[str], guarantees: Sequence[Guarantee]) -> list[Charge]:
        """Admit and record calls, all or none."""
        names = [calls] if isinstance(calls, str) else list(calls)
        self._in_own_process()
        with self._lock:
            after, admitted = admit_all(self._account, guarantees)
            first = len(self._charges) + 1
            new = [
                Charge(first + i, "", name, guarantee, entry)
                for i, (name, (guarantee, entry)) in enumerate(zip(names, admitted, strict=True))
            ]
            self._charges += new
            self._account = after
        return new

    def _in_own_process(self) -> None:
        if os.getpid() != self._process:
            raise BudgetError(
                "this budget belongs to the process that made it: a forked process holds a copy, "
                "which would spend the same budget again. Share a ledger file instead: "
                "Budget.open(path). Nothing was charged"
            )

    def confirm(self, charge: Charge) -> None:
        """Refuse in a forked process; memory loses no charge."""
        self._in_own_process()

    def note(self, number: int, step: str, text: str) -> None:
        """Attach an outcome to a step of a charged call."""
        with self._lock:
            if not 1 <= number <= len(self._charges):
                raise BudgetError(f"this budget has no call number {number}")
            charge = self._charges[number - 1]
            self._charges[number - 1] = replace(charge, notes={**charge.notes, step: text})


# -- What a ledger file is held against: its name, and a count of its charges beside it


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
