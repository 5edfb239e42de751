"""Where a budget keeps its charges. Memory here; a file in :mod:`sqlite_store`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dpmodels.errors import BudgetError
from dpmodels.locks import Lock
from dpmodels.privacy.account import Account, Entry
from dpmodels.privacy.charge import Charge
from dpmodels.privacy.guarantee import Guarantee

__all__ = ["MemoryStore", "Store", "admit_all"]


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
        self._lock = Lock()
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
