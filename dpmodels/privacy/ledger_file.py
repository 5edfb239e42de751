"""Storage of the charges of a budget: memory, or one SQLite file with a witness."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpmodels.errors import (
    BudgetError,
    DPModelsError,
    LedgerWarning,
    PrivacyBugError,
    path_of,
)
from dpmodels.privacy.account import Account, Entry
from dpmodels.privacy.asked import account_asked, refused
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Step
from dpmodels.privacy.returns import Drawn, agrees, kept_of, numbers_of
from dpmodels.quiet import lock, tell

# -- One call as a budget keeps it, and the arguments of a budget, checked


@dataclass(frozen=True)
class Charge:
    """One call as a budget keeps it."""

    number: int  # Counts the calls of the budget from 1
    when: str  # UTC, ISO format. In a file only; never printed.
    call: str
    guarantee: Guarantee
    entry: Entry | None = None  # Entry charged to the stopping rule
    notes: Mapping[str, str] = field(default_factory=dict)
    # Kept and drawn parts of the charge, if a part went back.
    kept: Entry | None = None
    drawn: Drawn | None = None

    @property
    def counts(self) -> Entry:
        """Return the amount that the account counts: the kept part, or the whole charge."""
        assert self.entry is not None
        return self.kept or self.entry

    @property
    def ran(self) -> Guarantee:
        """Return the guarantee of the steps that were not given back: for composed totals."""
        g = self.guarantee
        if self.kept is None or self.drawn is None or self.entry is None:
            return g
        if self.entry.how != "steps":  # known by its pair
            steps: tuple[Step, ...] = (
                Step("early end", Approximate(self.kept.eps, self.kept.delta)),
            )
        else:
            steps = self.drawn.steps(g)
        return replace(g, steps=steps, inner=(), most=0, row_pair=None)


def admit_all(
    account: Account, guarantees: Sequence[Guarantee]
) -> tuple[Account, list[tuple[Guarantee, Entry]]]:
    """Check and enter several charges one after the other.

    Raises before anything is stored if one of them exceeds the budget.
    """
    entries = []
    for guarantee in guarantees:
        account, entry = account.admit(guarantee)
        entries.append((guarantee, entry))
    return account, entries


def given_back(charge: Charge, relation: str, drawn: Drawn) -> Charge | None:
    """Return the charge with its kept part, or None if nothing goes back.

    Refuse a second return.
    """
    if charge.kept is not None:
        raise PrivacyBugError("a charge gives back once")
    assert charge.entry is not None
    part_kept = kept_of(charge.guarantee, relation, charge.entry, drawn)
    return None if part_kept == charge.entry else replace(charge, kept=part_kept, drawn=drawn)


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
        """Refuse a budget in memory in another process than its own."""
        if os.getpid() != self._process:
            raise BudgetError(
                "this budget belongs to the process that made it: a forked process holds a copy, "
                "which would spend the same budget again. Share a ledger file instead: "
                "Budget.open(path). Nothing was charged"
            )

    def give_back(self, charge: Charge, drawn: Drawn) -> Charge | None:
        """Record the part that a closed run did not draw. Return None if nothing goes back.

        Once a charge, and only of a charge that this store made.
        """
        self._in_own_process()
        with self._lock:
            mine = self._charges[charge.number - 1 : charge.number] if charge.number > 0 else []
            if not mine or mine[0].guarantee is not charge.guarantee:
                raise PrivacyBugError("this budget did not make that charge")
            returned = given_back(mine[0], self._account.relation, drawn)
            if returned is None:
                return None
            self._charges[returned.number - 1] = returned
            self._account = self._account.recounted(charge.counts for charge in self._charges)
            return returned

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
_LINE = re.compile(r"([0-9a-f]{32}) (\d+) ([0-9a-f]{32}|-)")


def check_name(file: Path) -> None:
    """Refuse a ledger that may be reached under another name than this one."""
    with contextlib.suppress(OSError):  # it is not there: that is somebody else's message
        if file.stat().st_nlink > 1:
            raise refused("two names", file)


class Witness:
    """File next to the ledger with one line per charge: identity, number and mark.

    It only grows.
    """

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
        """Return identity, number and mark of the last charge, or None if nothing is known."""
        try:
            with self.path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - _TAIL, 0))
                lines = file.read().decode("ascii", "replace").splitlines()
        except OSError:
            return None
        matches = [m for m in map(_LINE.fullmatch, lines) if m is not None]
        if not matches:
            return None
        ours = [m for m in matches if m[1] == matches[-1][1]]
        highest = max(ours, key=lambda m: int(m[2]))
        return highest[1], int(highest[2]), highest[3]

    def check_new(self) -> None:
        """Refuse to begin a ledger where one with charges has been."""
        last = self.last()
        if last is not None and last[1]:
            raise refused("emptied", self._ledger, many=last[1], witness=self.path)

    def check(self, identity: str, held: int, mark_of: Callable[[int], str | None]) -> None:
        """Refuse a ledger with fewer or other charges than this file lists.

        The ledger got its ``identity``, a random number, when it was made, and every charge a mark;
        ``held`` is the number of charges in the file.
        """
        last = self.last()
        if last is None:
            return
        witnessed, number, mark = last
        if witnessed != identity:
            raise refused("another than listed", self._ledger, witness=self.path)
        if held < number or (number and mark != "-" and mark_of(number) != mark):
            raise refused(
                "older than listed", self._ledger, many=number, held=held, witness=self.path
            )


# -- A budget in one SQLite file, shared by processes.
#
# Every charge is one transaction: ``BEGIN IMMEDIATE`` (one writer at a time), read the state,
# decide, insert, ``COMMIT``. The journal is a rollback journal with ``synchronous=EXTRA``: the
# commit returns after the file *and* the removal of the journal have reached the disk, so neither
# a killed process nor a lost machine can undo a charge whose noise was drawn. A connection lives
# for one operation, so nothing has to be closed and forked processes share nothing.
#
# A file has a random identity and every charge a random mark. A store remembers both: when another
# ledger, or an older copy of this one, lies under its path, the next operation is refused. The path
# is resolved once, so a change of the working directory changes nothing.
#
# Three things hold a file to what was committed. A file beside it lists the charges (``Witness``),
# so that an older copy, a stale journal or an emptied file is noticed when it is opened next. A
# hard link is refused. Each row bears a hash of itself and of the row before, and the totals one
# of all: a changed bit lowers no account. Rows are held against their hashes once in the life of a
# store, which keeps their sums; afterwards only rows that came since are read.
#
# Undrawn parts of a call go back as a separate row in ``returns``; charges are never edited. The
# returnable part of a charge is computed again from the charge whenever rows are read. A lost
# return over-counts, so the file next to the ledger does not list returns.
#
# The format has a number (``PRAGMA user_version``); files of another number are refused, but those
# of format 3, which had no returns: they are raised by the first charge. Unknown columns and keys
# are left alone.


#: Marks the file as ours ("dpml").
_APPLICATION = 0x64706D6C
#: Number of the file format, and of the one before it, which is read and raised.
FORMAT, RAISED_FORMAT = 4, 3
#: Seconds to wait for another process's charge.
_TIMEOUT = 30.0

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE calls (number INTEGER PRIMARY KEY, utc TEXT NOT NULL, call TEXT NOT NULL, "
    "relation TEXT NOT NULL, unit TEXT NOT NULL, eps REAL NOT NULL, delta REAL NOT NULL, "
    "mu2 REAL NOT NULL, pure REAL NOT NULL, failure REAL NOT NULL, "
    "charged_eps REAL NOT NULL, charged_delta REAL NOT NULL, running_eps REAL, "
    "guarantee TEXT NOT NULL, mark TEXT, chain TEXT, how TEXT)",
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, step TEXT NOT NULL, "
    "text TEXT NOT NULL)",
    # of: the number of the charge; charge: its chain; the other numbers are what was kept
    "CREATE TABLE returns (id INTEGER PRIMARY KEY, of INTEGER NOT NULL UNIQUE, mark TEXT, "
    "charge TEXT NOT NULL, utc TEXT NOT NULL, drawn TEXT NOT NULL, mu2 REAL NOT NULL, "
    "pure REAL NOT NULL, failure REAL NOT NULL, kept_eps REAL NOT NULL, kept_delta REAL NOT NULL, "
    "chain TEXT NOT NULL)",
)
#: Statements that convert a file of the format before.
_RAISE = ("ALTER TABLE calls ADD COLUMN how TEXT", _TABLES[-1])


#: Columns of a call that its hash is made of.
_HASHED = (
    "number, utc, call, relation, unit, eps, delta, mu2, pure, failure, charged_eps, "
    "charged_delta, guarantee, mark"
)


#: Columns of a return that its hash is made of.
_HASHED_RETURN = "id, of, mark, charge, utc, drawn, mu2, pure, failure, kept_eps, kept_delta"
Five = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class _Known:
    """The rows of a file up to a number, held against their hashes, and their sums."""

    identity: str = ""
    number: int = 0
    chain: str = ""  # hash of the last row
    # mu2, pure, failure, charged_eps, charged_delta of all these rows, as kept
    sums: tuple[float, ...] = (0.0,) * 5
    # Charge of each row read so far, also by later states of this store.
    charged: dict[int, Five] = field(default_factory=dict)
    returns: int = 0  # Number of returns that were read ..
    return_chain: str = ""  # .. and the hash of the last
    kept: Mapping[int, Five] = field(default_factory=dict)  # By number of the charge

    def is_in(self, db: sqlite3.Connection) -> bool:
        """Return whether the last of these rows, and of their returns, is in the file as it was."""
        row = db.execute("SELECT chain FROM calls WHERE number = ?", (self.number,)).fetchone()
        same = str(_meta(db).get("id")) == self.identity
        if self.returns:
            last = db.execute("SELECT chain FROM returns WHERE id = ?", (self.returns,)).fetchone()
            same = same and last is not None and last[0] == self.return_chain
        return same and row is not None and row[0] == self.chain

    def with_later(
        self, db: sqlite3.Connection, chains: list[tuple[str, int]] | None = None
    ) -> _Known | None:
        """Return the state with the later rows, or None if one differs from its stored hash.

        ``chains``, of rows without a hash, takes the hash and the number of each. A hash is of the
        row and of the hash before; from format 4 on also of what may go back. Sums are added in the
        order of the charges, as in memory.
        """
        identity, number, last = str(_meta(db).get("id")), self.number, self.chain
        a, b, c, d, e = self.sums
        how = "how" if _version(db) >= FORMAT else "NULL"
        query = f"SELECT {_HASHED}, {how}, chain FROM calls WHERE number > ? ORDER BY number"  # noqa: S608
        found = db.execute(query, (self.number,))
        while rows := found.fetchmany(_BLOCK):
            hashed = [row[:-2] if row[-2] is None else row[:-1] for row in rows]
            for row, text in zip(rows, _texts(hashed), strict=True):
                number, five = row[0], row[7:12]
                a, b, c, d, e = a + five[0], b + five[1], c + five[2], d + five[3], e + five[4]
                self.charged[number] = five
                last = hashlib.sha256(f'["{last}", {text}]'.encode()).hexdigest()
                if chains is not None:
                    chains.append((last, number))
                elif row[-1] != last:
                    return None
        return replace(self, identity=identity, number=number, chain=last, sums=(a, b, c, d, e))

    def with_returns(self, db: sqlite3.Connection) -> _Known | None:
        """Return the state with the later returns, or None if one differs from the written record.

        What is kept of a charge is worked out anew from the charge and the drawn steps.
        """
        if _version(db) < FORMAT:
            return self
        query = f"SELECT chain, {_HASHED_RETURN} FROM returns WHERE id > ? ORDER BY id"  # noqa: S608
        parts_kept, number, chain = dict(self.kept), self.returns, self.return_chain
        relation = str(_meta(db).get("relation"))
        for written, *row in db.execute(query, (self.returns,)).fetchall():
            of, five = int(row[1]), tuple(row[6:11])
            chain = _hash([self.identity, chain, *row])
            if written != chain or row[0] != number + 1 or of in parts_kept or of > self.number:
                return None
            recomputed = _kept_anew(db, relation, of, row[2], row[3], row[5])
            if recomputed is None or not agrees(Entry(*five), *recomputed):
                return None
            parts_kept[of], number = five, int(row[0])  # type: ignore[assignment]
        if number == self.returns:
            return self
        sums: tuple[float, ...] = (0.0,) * 5
        for n in range(1, self.number + 1):
            numbers = parts_kept.get(n) or self.charged[n]
            sums = tuple(a + b for a, b in zip(sums, numbers, strict=True))
        return replace(self, sums=sums, returns=number, return_chain=chain, kept=parts_kept)


def _kept_anew(
    db: sqlite3.Connection, relation: str, of: int, mark: str | None, chain: str, drawn: str
) -> tuple[Entry, Entry] | None:
    """Return (kept, charged) of a charge from its drawn steps, or None if it is another charge."""
    row = db.execute(
        "SELECT relation, unit, eps, delta, guarantee, mark, chain, how, mu2, pure, failure, "
        "charged_eps, charged_delta FROM calls WHERE number = ?", (of,)
    ).fetchone()  # fmt: skip
    if row is None or row[5] != mark or row[6] != chain or row[7] is None:
        return None
    guarantee = _guarantee(row[4], row[0], row[1], row[2], row[3], row[11:13])
    charged = replace(Entry(*row[8:13]), how=row[7])
    try:
        part_kept = kept_of(guarantee, relation, charged, Drawn.of_dict(json.loads(drawn)))
    except (DPModelsError, AttributeError, TypeError, ValueError):
        return None
    return None if part_kept == charged else (part_kept, charged)


#: Rows that are read at once.
_BLOCK = 1000


def _texts(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the fields of each row as JSON, without the brackets: one encoder for all rows.

    Rows are divided at a character that JSON never has: it escapes it.
    """
    text = json.dumps(rows, separators=("\0", ": "))
    return [row.replace("\0", ", ") for row in text[2:-2].split("]\0[")]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _seal(db: sqlite3.Connection) -> None:
    """Write the hash of totals and rules, and of the last call."""
    _insert_row(db, {"seal": _seal_of(db)})


def _seal_of(db: sqlite3.Connection) -> str:
    """Return the hash over the fixed facts, the last charge and the last return of a ledger."""
    saved = {key: value for key, value in _meta(db).items() if key in _SEALED}
    last = db.execute("SELECT chain FROM calls ORDER BY number DESC LIMIT 1").fetchone()
    sealed = [saved, None if last is None else last[0]]
    if _version(db) >= FORMAT:
        back = db.execute("SELECT chain FROM returns ORDER BY id DESC LIMIT 1").fetchone()
        sealed += [] if back is None else [back[0]]
    return _hash(sealed)


#: Fields of a file that must be unchanged when it is used again.
_IDENTITY = ("id", "label", "eps", "delta")
#: Fields of the seal.
_SEALED = (
    "id", "label", "eps", "delta", "relation", "unit", "rule", "cap_eps", "cap_delta", "caps",
    "boxes",
)  # fmt: skip


class FileStore:
    """The charges of a budget in a file."""

    def __init__(self, path: Path, label: str, *, readonly: bool) -> None:
        self.path, self.label, self.readonly = path, label, readonly
        self._identity: tuple[Any, ...] | None = None
        #: Number and mark of the last charge that this object has seen.
        self._seen: tuple[int, str | None] = (0, None)
        #: Number -> mark of the charges that this object made.
        self._made: dict[int, str] = {}
        self._witness = Witness(path)
        self._lock = lock()
        self._known = _Known()
        self._relation = "replace"  # Neighbours that the file counts by

    # -- opening ---------------------------------------------------------------------------

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], typed: Mapping[str, Any], create: bool | None = None
    ) -> FileStore:
        """Create the file, or reopen it and compare ``typed`` with its contents."""
        file = _resolved(path)
        if create is False and not (file.is_file() and file.stat().st_size):
            raise refused("create=False", file)
        if not file.parent.is_dir():
            raise refused("no directory", file.parent)
        if file.exists() and not _writable(file):
            raise refused("cannot be charged", file)
        store = cls(file, "", readonly=False)
        emptied, new = file.exists(), False
        if not emptied or not file.stat().st_size:
            account_asked(file, typed)  # refused before a file is made
        with store._transaction("rwc") as db:
            if not _is_empty(db):
                if create:
                    raise refused("create=True", file)
                _check_pages(db, file)
            else:
                store._witness.check_new()
                _create(db, file, typed)
                new = True
            saved = _meta(db)
            last = _last(db)
        _compare(saved, typed, file)
        if new or store._witness.last() is None:
            store._witness.add(str(saved["id"]), *last)
        if new and emptied:
            tell(LedgerWarning(str(refused("was empty", file))))
        store._remember(saved, last)
        return store

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> FileStore:
        """Open for reading."""
        file = _resolved(path)
        if not file.is_file():
            raise refused("no ledger", file)
        store = cls(file, "", readonly=True)
        with store._reading() as db:
            if _is_empty(db):
                raise refused("not ours", file)
            _check_pages(db, file)
            saved = _meta(db)
            last = _last(db)
        store._remember(saved, last)
        return store

    # -- the same file ---------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """Random identity of the file, as it was when it was opened."""
        return "" if self._identity is None else str(self._identity[0])

    def _remember(self, saved: Mapping[str, Any], last: tuple[int, str | None]) -> None:
        self.label, self._relation = str(saved["label"]), str(saved["relation"])
        self._identity = tuple(saved.get(key) for key in _IDENTITY)
        self._seen = last

    def _recognise(self, db: sqlite3.Connection) -> None:
        """Refuse another ledger under this path, this one with charges missing, or changed rows.

        Runs inside a transaction: whatever another thread has recorded as seen was committed
        before, and is part of what is read here.
        """
        check_name(self.path)
        if self._identity is None and _is_empty(db):  # being created
            return
        _check_version(db, self.path)
        self._verify(db)
        if self._identity is None:  # being opened
            return
        saved = _meta(db)
        last = _last(db)
        if tuple(saved.get(key) for key in _IDENTITY) != self._identity:
            raise refused("another", self.path, label=self.label)
        with self._lock:
            number, mark = self._seen
            if number and (last[0] < number or (mark and _last(db, number) != (number, mark))):
                raise self._lost(number, last[0])
            self._seen = max(self._seen, last, key=lambda seen: seen[0])

    def _verify(self, db: sqlite3.Connection, *, anew: bool = False) -> _Known:
        """Compare rows with their hashes, and their number with the file of charges.

        Rows that this store has seen are not read again, unless ``anew``.
        """
        state = self._known
        if anew or not state.is_in(db):
            state = _Known()
        later = state.with_later(db)
        back = None if later is None else later.with_returns(db)
        if back is None or _meta(db).get("seal") != _seal_of(db):
            raise refused("changed row", self.path)
        state = back
        with self._lock:
            self._known = state
        held = _last(db)[0]
        self._witness.check(str(_meta(db).get("id")), held, lambda number: _last(db, number)[1])
        return state

    def _lost(self, seen: int, held: int) -> BudgetError:
        """Return the error for a ledger that is an older copy."""
        return refused("older copy", self.path, many=seen, held=held)

    # -- connections -----------------------------------------------------------------------

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open the file for one operation; SQLite's errors become ``BudgetError``."""
        uri = f"{self.path.as_uri()}?mode={mode}"
        problem = ""
        try:
            db = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous=EXTRA")
                yield db
            finally:
                db.close()  # rolls an open transaction back
        except sqlite3.Error as error:
            problem = str(error)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DPModelsError):
                raise
            problem = f"unreadable content ({type(error).__name__})"
        if problem:
            what = "held" if "locked" in problem else "unusable"
            raise refused(what, self.path, problem=problem)

    @contextmanager
    def _transaction(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        """Open the ledger for one write that is committed at the end."""
        with self._connection(mode) as db:
            db.execute("BEGIN IMMEDIATE")
            self._recognise(db)
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open the ledger for one consistent read."""
        # A journal left by a killed writer must be rolled back, which needs write access.
        self._must_exist()
        mode = "rw" if _writable(self.path) else "ro"
        with self._connection(mode) as db:
            db.execute("BEGIN")
            self._recognise(db)
            yield db
            db.execute("ROLLBACK")

    def _must_exist(self) -> None:
        """Refuse to go on without the ledger's file."""
        if not self.path.is_file():
            raise refused("gone", self.path)

    # -- Store -----------------------------------------------------------------------------

    def account(self) -> Account:
        """Return the current state of the stopping rule."""
        with self._reading() as db:
            return _account(db, self._verify(db))

    def charges(self) -> tuple[Charge, ...]:
        """Return the charged calls in order."""
        with self._reading() as db:
            self._verify(db, anew=True)
            return _charges(db)

    def append(self, calls: str | Sequence[str], guarantees: Sequence[Guarantee]) -> list[Charge]:
        """Admit and commit calls, all or none."""
        if self.readonly:
            raise refused("opened read-only", self.path)
        self._must_exist()
        if not _writable(self.path):
            raise refused("read-only", self.path)
        names = [calls] if isinstance(calls, str) else list(calls)
        texts = [json.dumps(g.to_dict(), allow_nan=False) for g in guarantees]
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        new: list[Charge] = []
        mark = secrets.token_hex(16)
        with self._transaction() as db:
            state = self._verify(db)
            _raise_format(db)
            before = _account(db, state)
            after, admitted = admit_all(before, guarantees)
            facts = after.to_dict()
            _insert_row(db, {key: facts[key] for key in ("rule", "caps", "boxes")})
            for i, (guarantee, entry) in enumerate(admitted):
                number = before.calls + 1 + i
                pair = guarantee.relation, guarantee.unit, guarantee.eps, guarantee.delta
                row = (number, when, names[i], *pair, *numbers_of(entry), texts[i], mark, entry.how)
                columns, marks = f"{_HASHED}, how", ",".join("?" * len(row))
                db.execute(f"INSERT INTO calls ({columns}) VALUES ({marks})", row)  # noqa: S608
                new.append(Charge(number, when, names[i], guarantee, entry))
            chains: list[tuple[str, int]] = []
            state.with_later(db, chains)
            db.executemany("UPDATE calls SET chain = ? WHERE number = ?", chains)
            _seal(db)
            identity = str(_meta(db)["id"])
        self._witness.add(identity, new[-1].number, mark)
        with self._lock:  # committed
            self._seen = max(self._seen, (new[-1].number, mark), key=lambda seen: seen[0])
            self._made.update((charge.number, mark) for charge in new)
        return new

    def give_back(self, charge: Charge, drawn: Drawn) -> Charge | None:
        """Record the part that a closed run did not draw. Return None if nothing goes back.

        Once a charge, and only of a charge that this object made. Committed before this returns;
        killed before that, the file over-counts.
        """
        mark = self._made.get(charge.number)
        if mark is None:
            raise PrivacyBugError("this budget did not make that charge")
        returned = given_back(charge, self._relation, drawn)
        if returned is None:
            return None
        self._must_exist()
        with self._transaction() as db:
            state = self._verify(db)
            row = db.execute(
                "SELECT mark, chain FROM calls WHERE number = ?", (charge.number,)
            ).fetchone()
            if row is None or row[0] != mark:
                raise self._lost(charge.number, _last(db)[0])
            if charge.number in state.kept:
                raise PrivacyBugError("a charge gives back once")
            entry = returned.kept
            assert entry is not None
            values = [
                state.returns + 1, charge.number, mark, row[1],
                datetime.now(timezone.utc).isoformat(timespec="seconds"),
                json.dumps(drawn.to_dict(), allow_nan=False), *numbers_of(entry),
            ]  # fmt: skip
            chain = _hash([state.identity, state.return_chain, *values])
            db.execute(
                f"INSERT INTO returns ({_HASHED_RETURN}, chain) "  # noqa: S608
                f"VALUES ({','.join('?' * 12)})", (*values, chain),
            )  # fmt: skip
            _seal(db)
        return returned

    def confirm(self, charge: Charge) -> None:
        """Refuse if the file under the path has lost a charge that this object made."""
        self._must_exist()
        with self._transaction() as db:  # which recognises the file
            mark = self._made.get(charge.number)
            if mark is None or _last(db, charge.number) != (charge.number, mark):
                raise self._lost(charge.number, _last(db)[0])

    def note(self, number: int, step: str, text: str) -> None:
        """Attach an outcome to a step of a charged call."""
        if self.readonly:
            raise BudgetError(f"the ledger {str(self.path)!r} was opened read-only")
        self._must_exist()
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM calls WHERE number = ?", (number,)).fetchone():
                raise BudgetError(f"this budget has no call number {number}")
            db.execute(
                "INSERT INTO notes (number, step, text) VALUES (?,?,?)", (number, step, text)
            )


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Return the file itself: the working directory and links are looked at once, here."""
    file = path_of(path, "the path of the ledger", BudgetError)
    try:
        return file.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a null character
        pass
    raise BudgetError("the path of the ledger cannot be used: it names no file")


def _writable(file: Path) -> bool:
    """Return whether the file may be written; without write bits it is left alone even by root."""
    try:
        return bool(file.stat().st_mode & 0o222) and os.access(file, os.W_OK)
    except OSError:  # gone since
        return False


def _last(db: sqlite3.Connection, upto: int = 2**62) -> tuple[int, str | None]:
    """Return number and mark of the last charge; charges made by 0.1 have no mark."""
    row = db.execute(
        "SELECT number, mark FROM calls WHERE number <= ? ORDER BY number DESC LIMIT 1", (upto,)
    ).fetchone()
    return (0, None) if row is None else (int(row[0]), row[1])


def _is_empty(db: sqlite3.Connection) -> bool:
    return int(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) == 0


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _raise_format(db: sqlite3.Connection) -> None:
    """Raise a file of the format before, within the transaction of a charge."""
    if _version(db) == RAISED_FORMAT:
        for statement in _RAISE:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {FORMAT:d}")


def _check_version(db: sqlite3.Connection, file: Path) -> None:
    """Refuse a file that is not a ledger, or name the version that reads its format."""
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise refused("not a ledger", file)
    version = _version(db)
    if version not in (RAISED_FORMAT, FORMAT):
        what = "newer format" if version > FORMAT else "older format"
        raise refused(what, file, version=version, reads=f"{RAISED_FORMAT} and {FORMAT}")


def _check_pages(db: sqlite3.Connection, file: Path) -> None:
    """Refuse a file whose pages SQLite finds damaged."""
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise refused("damaged", file)


def _create(db: sqlite3.Connection, file: Path, typed: Mapping[str, Any]) -> None:
    """Create the tables of a new ledger."""
    account = account_asked(file, typed)
    for statement in _TABLES:
        db.execute(statement)
    label = str(typed.get("label", file.stem))
    _insert_row(db, {**account.to_dict(), "label": label, "id": secrets.token_hex(16)})
    _seal(db)
    db.execute(f"PRAGMA application_id = {_APPLICATION:d}")
    db.execute(f"PRAGMA user_version = {FORMAT:d}")


def _insert_row(db: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Write facts of the ledger, replacing those with the same key."""
    db.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [(key, json.dumps(value)) for key, value in values.items()],
    )


def _meta(db: sqlite3.Connection) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM meta")}


def _compare(saved: Mapping[str, Any], typed: Mapping[str, Any], file: Path) -> None:
    """Refuse arguments that differ from the facts of an existing ledger."""
    for name, value in typed.items():
        held = saved.get(name)
        same = float(value) == held if isinstance(held, float) else str(value) == str(held)
        if name == "rule" and saved.get("rule") != value:  # "auto" became one of the others
            same = value == "auto"
        if not same:
            raise refused("differs", file, name=name, held=held, value=value)


def _account(db: sqlite3.Connection, state: _Known) -> Account:
    """Return the account that a ledger file holds."""
    saved, sums = _meta(db), state.sums
    caps, boxes = saved["caps"], saved.get("boxes", ())
    names = ("eps", "delta", "relation", "unit", "rule", "cap_eps", "cap_delta")
    return Account(
        **{name: saved[name] for name in names},
        caps=None if caps is None else (caps[0], caps[1], caps[2]),
        spent=(sums[0], sums[1], sums[2]), pairs=(sums[3], sums[4]), calls=state.number,
        boxes=tuple((box[0], box[1], box[2]) for box in boxes if len(box) == 3),
        sums=sum(box[2] for box in boxes if len(box) == 4),
    )  # fmt: skip


def _charges(db: sqlite3.Connection) -> tuple[Charge, ...]:
    """Return the charges of a ledger file with their notes and returns, in order."""
    notes: dict[int, dict[str, str]] = {}
    for number, step, text in db.execute("SELECT number, step, text FROM notes ORDER BY id"):
        notes.setdefault(number, {})[step] = text
    how, back = "NULL", dict[int, tuple[Any, ...]]()
    if _version(db) >= FORMAT:
        how = "how"
        query = "SELECT of, drawn, mu2, pure, failure, kept_eps, kept_delta FROM returns"
        back = {row[0]: row[1:] for row in db.execute(query)}
    out = []
    for row in db.execute(
        "SELECT number, utc, call, relation, unit, eps, delta, mu2, pure, failure, charged_eps, "  # noqa: S608
        f"charged_delta, guarantee, {how} FROM calls ORDER BY number"
    ):
        number, utc, call, relation, unit, eps, delta = row[:7]
        guarantee = _guarantee(row[12], relation, unit, eps, delta, row[10:12])
        entry = replace(Entry(*row[7:12]), how=row[13] or "other")
        charge = Charge(number, utc, call, guarantee, entry, notes.get(number, {}))
        if number in back:
            drawn, *numbers = back[number]
            charge = replace(
                charge, kept=replace(Entry(*numbers), how=entry.how),
                drawn=Drawn.of_dict(json.loads(drawn)),
            )  # fmt: skip
        out.append(charge)
    return tuple(out)


@lru_cache(maxsize=256)
def _guarantee(
    text: str, relation: str, unit: str, eps: float, delta: float, pair: tuple[float, float]
) -> Guarantee:
    """Rebuild a guarantee; one with a mechanism unknown here is shown by its pair."""
    try:
        return Guarantee.from_dict(json.loads(text))
    except (DPModelsError, KeyError, TypeError, ValueError):
        steps = (Step("(mechanisms of another package)", Approximate(eps, delta)),)
        record = (pair[0], pair[1]) if unit == "attribute" else None
        return Guarantee(steps, eps, delta, relation, unit, record_pair=record)
