from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from unittest import mock

import numpy as np
import pytest

import dpmodels as dp
from dpmodels import quiet as quiet_module
from dpmodels import registry
from dpmodels.errors import BudgetError, BudgetExceededError, LedgerWarning
from dpmodels.privacy import budget as ledger
from dpmodels.privacy import ledger_file
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.ledger_file import _Known, _seal
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step, mu_gdp

CHILD = """
import sys
from dpmodels.errors import BudgetExceededError
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.mechanisms import Pure
from dpmodels.privacy.mechanisms import Step
path, log, wait = sys.argv[1:4]
budget = Budget.open(path)
g = Guarantee((Step("coin", Pure(0.01)),), 0.01, 1e-9)
if wait == "go":
    print("ready", flush=True)
    sys.stdin.readline()
while True:
    try:
        budget.charge("call", g)
    except BudgetExceededError:
        print("refused", flush=True)
        break
    with open(log, "ab", buffering=0) as f:   # "the noise is drawn": after the charge
        f.write(b"x")
    if wait == "go":
        print("won", flush=True)
        break
"""


def _witness(path):
    return path.with_name(path.name + "-charges")


def gauss(eps=1.0, delta=1e-6):
    return Guarantee((Step("coefficients", Gaussian(mu_gdp(eps, delta)), share=1.0),), eps, delta)


def test_create_charge_reopen(tmp_path):
    path = tmp_path / "study.ledger"
    budget = Budget.open(path, eps=3, delta=1e-5, label="wine")
    charge = budget.charge('dp_ols("q ~ a")', gauss())
    budget.note(charge, "coefficients", "reply")
    again = Budget.open(path)
    assert again.label == "wine" and (again.eps, again.delta) == (3.0, 1e-5)
    assert again.charges[0].guarantee == gauss() and again.charges[0].when
    memory = Budget(3, 1e-5)
    memory.charge('dp_ols("q ~ a")', gauss())
    assert again.account == memory.account
    assert "reply" in Budget.open_readonly(path).report()
    assert "wine" in again.report() and "wine" in again.report("html")
    assert list(again.to_frame()["call"]) == [1]
    assert Budget.open(path, eps=3, delta=1e-5, label="wine", rule="auto").label == "wine"


def test_arguments_of_a_file(tmp_path):
    path = tmp_path / "a.ledger"
    with pytest.raises(BudgetError, match="no ledger yet"):
        Budget.open(path)
    Budget.open(path, eps=1, delta=1e-6)
    assert Budget.open(path).label == "a"
    for wrong in ({"label": "b"}, {"eps": 2}, {"delta": 1e-5}, {"relation": "add-remove"}):
        with pytest.raises(BudgetError, match="nothing was charged"):
            Budget.open(path, **wrong)
    with pytest.raises(BudgetError, match="no directory"):
        Budget.open(tmp_path / "nowhere" / "a.ledger", eps=1, delta=1e-6)
    for bad in ({"eps": -1, "delta": 1e-6}, {"eps": 1, "delta": math.nan}):
        with pytest.raises(ValueError, match=r"eps|delta"):
            Budget.open(tmp_path / "bad.ledger", **bad)
    # a refused creation leaves nothing that a later one trips over
    assert Budget.open(tmp_path / "bad.ledger", eps=1, delta=1e-6).eps == 1


def test_overspending_charges_nothing(tmp_path):
    budget = Budget.open(tmp_path / "a.ledger", eps=1, delta=1e-6)
    budget.charge("a", gauss(0.9, 8e-7))
    with pytest.raises(BudgetExceededError):
        budget.charge("b", gauss(0.9, 8e-7))
    assert len(Budget.open(tmp_path / "a.ledger").charges) == 1


def test_newer_version(tmp_path):
    path = tmp_path / "a.ledger"
    budget = Budget.open(path, eps=1, delta=1e-6)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    for act in (
        lambda: Budget.open(path),
        lambda: budget.charge("x", gauss(0.1, 1e-7)),
        lambda: Budget.open_readonly(path),
    ):
        with pytest.raises(BudgetError, match="format 99"):
            act()
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM calls").fetchone() == (0,)
    db.close()


def test_corrupt_and_foreign_files(tmp_path):
    text = tmp_path / "text.ledger"
    text.write_text("this is not a database, at all, by any means " * 50)
    foreign = tmp_path / "foreign.ledger"
    db = sqlite3.connect(foreign)
    db.execute("CREATE TABLE t (x)")
    db.commit()
    db.close()
    for path in (text, foreign):
        before = path.read_bytes()
        for act in (Budget.open, Budget.open_readonly, lambda p: Budget.open(p, eps=1, delta=1e-6)):
            with pytest.raises(BudgetError) as caught:
                act(path)
            assert caught.value.__context__ is None
        assert path.read_bytes() == before
    good = tmp_path / "good.ledger"
    budget = Budget.open(good, eps=100, delta=1e-6)
    for _ in range(60):
        budget.charge("y" * 200, gauss(0.1, 1e-8))
    raw = bytearray(good.read_bytes())
    raw[4096 : len(raw) - 4096] = os.urandom(len(raw) - 8192)
    good.write_bytes(bytes(raw))
    with pytest.raises(BudgetError, match=r"damaged|cannot be used"):
        Budget.open(good)
    with pytest.raises(BudgetError, match="no ledger"):
        Budget.open_readonly(tmp_path / "none.ledger")


def test_read_only_file(tmp_path):
    path = tmp_path / "a.ledger"
    budget = Budget.open(path, eps=1, delta=1e-6)
    path.chmod(0o444)
    with pytest.raises(BudgetError, match="read-only"):
        Budget.open(path)
    with pytest.raises(BudgetError, match="read-only"):
        budget.charge("x", gauss(0.1, 1e-7))
    reader = Budget.open_readonly(path)
    assert "budget" in reader.report()
    with pytest.raises(BudgetError, match="read-only"):
        reader.charge("x", gauss(0.1, 1e-7))
    with pytest.raises(BudgetError, match="read-only"):
        reader.note(1, "x", "y")


def test_unknown_mechanism_is_shown_by_its_pair(tmp_path):
    path = tmp_path / "a.ledger"
    Budget.open(path, eps=3, delta=1e-5).charge("theirs", gauss())
    db = sqlite3.connect(path)
    saved = json.loads(db.execute("SELECT guarantee FROM calls").fetchone()[0])
    saved["steps"][0]["mechanism"] = {"kind": "profile", "name": "no such", "parameters": []}
    db.execute("UPDATE calls SET guarantee = ?", (json.dumps(saved),))
    chains = []
    _Known().with_later(db, chains)
    for chain, number in chains:  # as the other package would write it
        db.execute("UPDATE calls SET chain = ? WHERE number = ?", (chain, number))
    _seal(db)
    db.commit()
    db.close()
    budget = Budget.open(path)
    assert "another package" in budget.report()
    assert budget.eps_spent(1e-5) <= 1.0


def test_a_file_cut_short_before_its_first_commit_opens(tmp_path):
    path = tmp_path / "a.ledger"
    path.write_bytes(b"")
    with pytest.warns(LedgerWarning, match="was an empty file: a new ledger begins in it"):
        assert Budget.open(path, eps=1, delta=1e-6).charges == ()


def _child(path, log, wait):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(log), wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
    )


def test_race_of_eight_for_the_last_unit(tmp_path):
    path, log = tmp_path / "race.ledger", tmp_path / "log"
    Budget.open(path, eps=0.01, delta=1e-9)
    children = [_child(path, log, "go") for _ in range(8)]
    assert all(c.stdout.readline() == "ready\n" for c in children)
    for c in children:
        c.stdin.write("go\n")
        c.stdin.flush()
    answers = [c.communicate(timeout=60)[0].strip() for c in children]
    assert sorted(answers) == ["refused"] * 7 + ["won"]
    assert log.read_bytes() == b"x" and len(Budget.open(path).charges) == 1


def _size(log):
    return log.stat().st_size if log.exists() else 0


def _until(happened):
    """Wait for an event; a minute is no wait, it ends a test that would hang."""
    start = time.monotonic()
    while not happened():
        assert time.monotonic() - start < 60
        time.sleep(0.005)


def _kill_loop(tmp_path, kills):
    rng = random.Random(5)
    path = tmp_path / "kill.ledger"
    total = 0.01 * 100_000
    Budget.open(path, eps=total, delta=1e-4)
    logs = [tmp_path / "log0", tmp_path / "log1"]
    children = [_child(path, log, "no") for log in logs]
    try:
        # on a loaded machine a child may take seconds to start: kill nothing before both draw
        _until(lambda: all(map(_size, logs)))
        for k in range(kills):
            victim = k % 2
            if k % 4:  # anywhere, also while it starts
                time.sleep(rng.uniform(0.0, 0.03))
            else:  # after some draws of its own, however long they take here
                few = _size(logs[victim]) + rng.randrange(1, 20)
                _until(lambda log=logs[victim], few=few: _size(log) >= few)
            children[victim].send_signal(signal.SIGKILL)
            children[victim].communicate()
            children[victim] = _child(path, logs[victim], "no")
            budget = Budget.open(path)
            drawn = sum(log.stat().st_size for log in logs if log.exists())
            charges = budget.account.calls
            assert charges * 0.01 <= total
            # read after the log, so every draw seen is charged
            assert charges >= drawn, (charges, drawn)
    finally:
        for c in children:
            c.kill()
            c.communicate()
    drawn = sum(log.stat().st_size for log in logs if log.exists())
    charges = Budget.open(path).account.calls
    assert drawn > 0 and drawn <= charges <= drawn + kills + 2
    return charges, drawn


def test_kill_nine(tmp_path):
    _kill_loop(tmp_path, 12)


@pytest.mark.slow
def test_kill_nine_two_hundred_times(tmp_path):
    charges, drawn = _kill_loop(tmp_path, 200)
    print(f"charges {charges}, draws {drawn}")


def test_pure_budget_in_a_file(tmp_path):
    budget = Budget.open(tmp_path / "p.ledger", eps=1, delta=0)
    g = Guarantee((Step("coin", Pure(0.5)),), 0.5, 0.0)
    budget.charge("a", g)
    budget.charge("b", g)
    with pytest.raises(BudgetExceededError):
        budget.charge("c", g)


def test_a_change_of_directory_does_not_change_the_ledger(tmp_path, monkeypatch):
    """A relative path was looked up anew by each charge: 3 charges of eps 50 in a budget of 1."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "b")
    Budget.open("study.ledger", eps=1000, delta=1e-2, label="study")
    monkeypatch.chdir(tmp_path / "a")
    budget = Budget.open("study.ledger", eps=1, delta=1e-6, label="study")
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(BudgetExceededError):
        budget.charge("big", gauss(50, 1e-3))
    budget.charge("small", gauss(0.1, 1e-7))
    assert len(Budget.open(tmp_path / "a" / "study.ledger").charges) == 1
    assert not Budget.open(tmp_path / "b" / "study.ledger").charges
    assert budget.eps == 1


def _uses(budget):
    return (
        lambda: budget.charge("x", gauss(0.1, 1e-7)),
        lambda: budget.check(gauss(0.1, 1e-7)),
        lambda: budget.note(1, "x", "y"),
        budget.remaining,
        budget.report,
        lambda: budget.charges,
    )


def test_another_ledger_under_the_path_is_refused(tmp_path):
    ours, other = tmp_path / "ours", tmp_path / "other"
    budget = Budget.open(ours, eps=1, delta=1e-6, label="same")
    reader = Budget.open_readonly(ours)
    budget.charge("first", gauss(0.2, 1e-7))
    # the same label and totals: only the random identity tells them apart
    Budget.open(other, eps=1, delta=1e-6, label="same").charge("first", gauss(0.1, 1e-7))
    shutil.copy(other, ours)
    for act in _uses(budget):
        with pytest.raises(BudgetError, match="another ledger"):
            act()
    with pytest.raises(BudgetError, match="another ledger"):
        reader.report()
    with pytest.raises(BudgetError, match="another ledger lies under"):
        Budget.open(ours)  # nor by whoever opens it next, until the list beside it is removed
    _witness(ours).unlink()
    assert len(Budget.open(ours).charges) == 1


def test_an_older_copy_is_refused(tmp_path):
    path, backup = tmp_path / "a.ledger", tmp_path / "backup"
    budget = Budget.open(path, eps=1, delta=1e-6)
    budget.charge("first", gauss(0.2, 1e-7))
    shutil.copy(path, backup)
    budget.charge("second", gauss(0.2, 1e-7))
    shutil.copy(backup, path)
    for act in _uses(budget):
        with pytest.raises(BudgetError, match="lost charges"):
            act()
    # another process opens the copy and goes on: as many calls again, but not the same ones
    with pytest.raises(BudgetError, match="2 were committed, the file is an older copy with 1"):
        Budget.open(path)
    _witness(path).unlink()  # on purpose
    restored = Budget.open(path)
    restored.charge("other second", gauss(0.1, 1e-7))
    restored.charge("third", gauss(0.1, 1e-7))
    for act in _uses(budget):
        with pytest.raises(BudgetError, match="lost charges"):
            act()
    assert len(restored.charges) == 3


def test_a_charge_seen_by_reading_is_remembered(tmp_path):
    path, backup = tmp_path / "a.ledger", tmp_path / "backup"
    budget = Budget.open(path, eps=1, delta=1e-6)
    shutil.copy(path, backup)
    Budget.open(path).charge("by another process", gauss(0.2, 1e-7))
    assert budget.account.calls == 1
    shutil.copy(backup, path)
    with pytest.raises(BudgetError, match="lost charges"):
        budget.charge("x", gauss(0.1, 1e-7))


def test_a_ledger_that_was_deleted(tmp_path):
    path = tmp_path / "a.ledger"
    budget = Budget.open(path, eps=1, delta=1e-6)
    reader = Budget.open_readonly(path)
    path.unlink()
    for act in (*_uses(budget), reader.report, lambda: reader.eps):
        with pytest.raises(BudgetError, match="is gone") as caught:
            act()
        assert caught.value.__context__ is None
    assert not path.exists()  # a new one would forget what was spent
    with pytest.raises(BudgetError, match="no ledger yet"):
        Budget.open(path)
    with pytest.raises(BudgetError, match="path of the ledger"):
        Budget.open("a\0b")


@pytest.mark.parametrize("number", [1, 2])
def test_a_file_of_an_old_format_is_refused_with_the_version_that_reads_it(tmp_path, number):
    path = tmp_path / "a.ledger"
    budget = Budget.open(path, eps=3, delta=1e-5, label="old")
    budget.charge("first", gauss(0.5, 1e-6))
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {number}")
    db.commit()
    db.close()
    before = path.read_bytes()
    for act in (*_uses(budget), lambda: Budget.open(path), lambda: Budget.open_readonly(path)):
        with pytest.raises(BudgetError, match=r"has format \d; .* dpmodels==0\.2\.1"):
            act()
    assert path.read_bytes() == before


def test_mixed_boxes_in_a_file_are_those_in_memory(tmp_path):
    path = tmp_path / "a.ledger"
    memory = Budget(2, 1e-5)
    pair = Guarantee((Step("p", Approximate(0.5, 1e-6)),), 0.5, 1e-6)
    Budget.open(path, eps=2, delta=1e-5)
    for g in (gauss(0.5, 1e-6), pair, gauss(0.3, 1e-6), pair):
        memory.charge("x", g)
        Budget.open(path).charge("x", g)
        assert Budget.open(path).account == memory.account
        assert Budget.open(path).remaining() == memory.remaining()
    assert len(memory.account.boxes) > 10
    for budget in (memory, Budget.open(path)):
        with pytest.raises(BudgetExceededError, match="for any other call"):
            budget.charge("y", Guarantee((Step("p", Approximate(1.5, 1e-6)),), 1.5, 1e-6))


def _stopped(budget):
    """A call that was charged, and stopped before it released anything."""
    charge = budget.charge("fit", gauss())
    budget.stopped(charge, gauss())
    return charge


def _in_child(work):
    """Return what ``work()`` says in a forked process."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner
        child = os.fork()
    if child == 0:
        try:
            said = work()
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as stream:
        return stream.read().decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_does_not_take_up_a_stopped_call(tmp_path):
    """One charge is good for one draw: the child pays for its own."""
    budget = Budget.open(tmp_path / "l.db", eps=10, delta=1e-4)
    first = _stopped(budget)
    assert _in_child(lambda: str(budget.charge("fit", gauss()).number)) == "2"
    assert budget.charge("fit", gauss()).number == first.number
    assert len(budget.charges) == 2
    memory = Budget(eps=10, delta=1e-4)
    _stopped(memory)
    assert "forked process" in _in_child(lambda: str(memory.charge("fit", gauss()).number))


def test_a_stopped_call_is_not_taken_up_from_a_file_that_lost_it(tmp_path):
    """An older copy lists no charge: the call would be answered for nothing."""
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=10, delta=1e-4)
    old = path.read_bytes()
    _stopped(budget)
    new = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(BudgetError, match="lost charges"):
        budget.charge("fit", gauss())
    path.unlink()
    with pytest.raises(BudgetError, match="is gone"):
        budget.charge("fit", gauss())
    other = tmp_path / "other.db"
    Budget.open(other, eps=10, delta=1e-4).charge("fit", gauss())
    path.write_bytes(other.read_bytes())
    with pytest.raises(BudgetError, match="another ledger"):
        budget.charge("fit", gauss())
    path.write_bytes(new)  # the newest file is back
    assert budget.charge("fit", gauss()).number == 1
    assert len(budget.charges) == 1


def test_a_ledger_with_two_names_is_refused(tmp_path):
    """The journal lies beside the name: 25 charges became 4 through a hard link."""
    path, other = tmp_path / "l.db", tmp_path / "same.db"
    budget = Budget.open(path, eps=10, delta=1e-4)
    reader = Budget.open_readonly(path)
    os.link(path, other)
    for act in (*_uses(budget), reader.report, lambda: Budget.open(other)):
        with pytest.raises(BudgetError, match=r"more than one name.*Remove the other name"):
            act()
    other.unlink()
    budget.charge("x", gauss(0.1, 1e-7))
    link = tmp_path / "link.db"
    link.symlink_to(path)  # leads to the one name
    assert len(Budget.open(link).charges) == 1


def test_what_was_committed_is_known_beside_the_file(tmp_path):
    """A backup, or an emptied or deleted ledger, is refused by whoever opens it next."""
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=10, delta=1e-4)
    budget.charge("first", gauss(0.1, 1e-7))
    old = path.read_bytes()
    Budget.open(path).charge_together([("second", gauss(0.1, 1e-7)), ("third", gauss(0.1, 1e-7))])
    new = path.read_bytes()
    path.write_bytes(old)
    for act in (lambda: Budget.open(path), lambda: Budget.open_readonly(path)):
        with pytest.raises(BudgetError, match="3 were committed, the file is an older copy with 1"):
            act()
    for empty in (lambda: path.write_bytes(b""), path.unlink):
        empty()
        with pytest.raises(BudgetError, match="gone or empty, and 3 calls were charged"):
            Budget.open(path, eps=10, delta=1e-4)
    path.write_bytes(new)
    assert len(Budget.open(path).charges) == 3
    with _witness(path).open("ab") as file:
        file.write(b"torn li")  # killed while it wrote
    Budget.open(path).charge("fourth", gauss(0.1, 1e-7))
    assert len(Budget.open(path).charges) == 4


def test_a_stale_journal_put_back_is_noticed(tmp_path):
    """SQLite plays it back: charges are gone from the file, 23 became 3."""
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=100, delta=1e-3)
    budget.charge("first", gauss(0.1, 1e-7))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO notes (number, step, text) SELECT 1, 'x', hex(zeroblob(200000))")
    db.execute("UPDATE calls SET running_eps = 0")
    journal = path.with_name(path.name + "-journal").read_bytes()
    db.execute("ROLLBACK")
    db.close()
    for _ in range(20):
        budget.charge("x", gauss(0.1, 1e-7))
    path.with_name(path.name + "-journal").write_bytes(journal)
    with pytest.raises(BudgetError, match=r"lost charges|damaged|cannot be used"):
        Budget.open(path)


def test_create_says_whether_there_may_be_a_ledger(tmp_path):
    path = tmp_path / "l.db"
    with pytest.raises(BudgetError, match=r"create=False.*holds no ledger"):
        Budget.open(path, eps=1, delta=1e-6, create=False)
    assert not path.exists()
    Budget.open(path, eps=1, delta=1e-6, create=True)
    Budget.open(path, create=False)
    with pytest.raises(BudgetError, match=r"create=True.*a ledger already"):
        Budget.open(path, eps=1, delta=1e-6, create=True)
    with pytest.raises(ValueError, match="create="):
        Budget.open(path, create="yes")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET mu2 = mu2 / 2 WHERE number = 1",
        "UPDATE calls SET charged_eps = 0 WHERE number = 2",
        "UPDATE calls SET guarantee = replace(guarantee, '0.1', '0.2')",
        "UPDATE meta SET value = '1000.0' WHERE key = 'eps'",
        "UPDATE meta SET value = '0.5' WHERE key = 'delta'",
        "DELETE FROM calls WHERE number = 3",
        "DELETE FROM meta WHERE key = 'seal'",
    ],
)
def test_a_changed_row_is_noticed(tmp_path, change):
    """One flipped bit had lowered an account; SQLite's own check sees the pages, not the values.

    A budget that has seen the rows goes on from their sums, and notices when it lists them.
    """
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=10, delta=1e-4)
    for _ in range(3):
        budget.charge("x", gauss(0.1, 1e-7))
    before = budget.remaining()
    _witness(path).unlink()
    db = sqlite3.connect(path)
    assert db.execute(change).rowcount >= 1
    db.commit()
    db.close()
    with contextlib.suppress(BudgetError):
        assert budget.remaining() == before  # never more
    lists = (budget.report, lambda: budget.charges, budget.joint, budget.to_frame)
    for act in (*lists, lambda: Budget.open(path), lambda: Budget.open_readonly(path)):
        with pytest.raises(BudgetError, match=r"damaged|lost charges"):
            act()


def test_a_no_reply_is_noted_at_the_step_that_it_ended_at(tmp_path, quiet):
    """The ledger named the last test of the plan, the fit's ledger the last search of a range."""
    rng = np.random.default_rng(0)
    frame = {"x": np.ones(300), "y": rng.uniform(0, 1, 300)}  # x hardly varies
    budget = Budget.open(tmp_path / "l.db", eps=10, delta=1e-3)
    fit = dp.dp_ols("y ~ x", frame, eps=1, delta=1e-6, method="eptr", budget=budget)
    assert not fit.released
    (charge,) = budget.charges
    ended = fit._record.ended
    assert dict(charge.notes) == {ended: "NO REPLY"} and ended.startswith("scale of")
    assert fit.ledger.notes[ended] == "NO REPLY"
    again = dp.load(fit.save(tmp_path / "fit.json") or tmp_path / "fit.json")
    assert again.ledger.notes == fit.ledger.notes


def test_a_charge_reads_rows_that_came_since_and_no_others(tmp_path):
    """A charge took 3.7 s on a ledger of 100 000 lines: every row was hashed each time."""
    path, read = tmp_path / "l.db", []
    budget = Budget.open(path, eps=1e6, delta=0.5, accounting="gaussian")
    budget.charge_together([("x", gauss(1e-3, 1e-9))] * 500)
    other = Budget.open(path)
    budget.charge("x", gauss(1e-3, 1e-9))
    texts = ledger_file._texts

    def counted(rows):
        read.extend(rows)
        return texts(rows)

    with mock.patch.object(ledger_file, "_texts", counted):
        other.charge("x", gauss(1e-3, 1e-9))
        budget.remaining()
    assert 0 < len(read) < 10
    assert budget.remaining() == other.remaining() == Budget.open(path).remaining()
    memory = Budget(1e6, 0.5, accounting="gaussian")
    memory.charge_together([("x", gauss(1e-3, 1e-9))] * 502)
    assert budget.remaining() == memory.remaining()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_a_busy_process_does_not_wait_for_ever(tmp_path):
    """Locks that another thread held at the fork stayed closed in the child, and blocks open."""
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=10, delta=1e-4)
    held, done = threading.Event(), threading.Event()

    def busy():
        with budget, ledger._LOCK, budget._store._lock, quiet_module._QUIET._lock, registry._LOADING:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=busy)
    thread.start()
    held.wait(60)
    try:

        def work():
            with quiet_module.quiet():
                charge = budget.charge("x", gauss())
            return f"{charge.number} {ledger.current_budget()}"

        assert _in_child(work) == "1 None"
    finally:
        done.set()
        thread.join()
    assert len(budget.charges) == 1
