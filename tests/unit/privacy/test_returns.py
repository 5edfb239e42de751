"""What goes back of a charge: the attacks of a filter with returns, in memory and in files.

Exact dynamic programming against the best adaptive adversary, no sampling: the adversary sees the
exact privacy loss after every step, stops calls, takes what is returned and spends it elsewhere.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import (
    BudgetError,
    DPModelsError,
    LedgerWarning,
    NoReplyError,
    NoReplyWarning,
    PrivacyBugError,
)
from dpmodels.privacy.account import Account, Entry
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.ledger_file import FileStore
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Pure,
    Step,
    delta_gdp,
    eps_gdp,
    mu_gdp,
)
from dpmodels.privacy.noise import make_noise
from dpmodels.privacy.returns import EARLY_ENDS_SHARE, Drawn, kept_of
from dpmodels.privacy.run import Run

# -- The best adversary, by dynamic programming on a grid of the privacy loss

GRID = 0.002
LOSS = np.arange(-5.0, 7.0, GRID)


def gauss(W, m):
    """E W(l + loss), the loss of a Gaussian step of mu^2 = m."""
    sd = math.sqrt(m)
    k = int(9 * sd / GRID) + 2
    x = np.arange(-k, k + 1) * GRID
    shift = round(m / 2 / GRID)
    w = np.exp(-0.5 * ((x + (shift * GRID - m / 2)) / sd) ** 2)
    w /= w.sum()
    pad = np.pad(W, (k + abs(shift), k + abs(shift)), mode="edge")
    full = np.convolve(pad, w[::-1], mode="same")
    a = k + abs(shift) + shift
    return full[a : a + len(W)]


def pure(W, e):
    """E W(l + loss), the loss of randomised response."""
    p = 1 / (1 + math.exp(-e))
    return p * np.interp(LOSS + e, LOSS, W) + (1 - p) * np.interp(LOSS - e, LOSS, W)


def worst(alive, quanta, eps):
    """Largest delta(eps) over all adversaries whose drawn steps pass ``alive`` one by one."""
    q, e, f = quanta
    h = np.maximum(0.0, -np.expm1(np.minimum(eps - LOSS, 0.0)))
    memo = {}

    def value(i, j, k):
        if (i, j, k) not in memo:
            best = h
            if q and alive(i + 1, j, k):
                best = np.maximum(best, gauss(value(i + 1, j, k), q))
            if e and alive(i, j + 1, k):
                best = np.maximum(best, pure(value(i, j + 1, k), e))
            if f and alive(i, j, k + 1):
                best = np.maximum(best, f + (1 - f) * value(i, j, k + 1))
            memo[i, j, k] = best
        return memo[i, j, k]

    return float(np.interp(0.0, LOSS, value(0, 0, 0)))


@pytest.mark.parametrize(("eps", "delta", "first"), [(1.0, 1e-6, 0.5), (3.0, 1e-5, 1.0)])
def test_gaussian_accounting_counts_drawn_steps_only(eps, delta, first):
    """Theorem 1: what is drawn stays in a box, so everything of a call may go back."""
    mu = mu_gdp(first, delta / 10)
    opened = Account(eps, delta, rule="mixed")._try(Entry(mu**2, 0, 0, first, delta / 10))
    empty = opened.recounted([])  # everything of the first call came back
    M, D = max(box[0] for box in opened.boxes), opened.boxes[0][2]
    q, e, f = M**2 / 3 * (1 - 1e-9), eps / 16, D / 2

    pair = eps_gdp(math.sqrt(q), delta / 50), delta / 50  # of one Gaussian step

    def alive(i, j, k):
        pairs = (i * pair[0] + j * e, i * pair[1] + k * f)
        spent = replace(empty, spent=(i * q, j * e, k * f), pairs=pairs)
        return bool(spent._alive() or spent._sums_fit())

    attained = worst(alive, (q, e, f), eps) / delta
    assert 0.6 < attained < 0.95
    mutant = worst(lambda i, j, k: i <= 7 and not j and not k, (mu_gdp(eps, delta) ** 2 / 6, 0, 0), eps)
    assert mutant / delta > 2.0  # a return counted twice


def test_the_joint_formula_of_what_was_drawn_is_no_filter():
    eps, delta = 1.0, 1e-6
    q, f = mu_gdp(eps, delta) ** 2 / 6, delta / 8

    def joint(i, j, k):
        return k * f + delta_gdp(eps, math.sqrt(i * q)) <= delta * (1 + 1e-9)

    assert worst(joint, (q, 0, f), eps) / delta > 1.5


def _sums(budget_eps, budget_delta, calls, share, aside, keeps_delta, one=1e-3):
    """Attained over the budget's delta: calls of (1, 1e-6) with a look; a stop records a pair."""
    eps, delta = 1.0, 1e-6
    mu = mu_gdp(eps, delta * (1 - aside))
    first, part = share * mu**2, delta * (aside or one)
    left = eps_gdp(math.sqrt(first), part)
    stop_delta = delta if keeps_delta else part

    def value(k, e, d):
        curve = [Pure(e).delta_at(x) for x in budget_eps - LOSS]
        last = d + (1 - d) * np.array(curve)
        if k == 0 or e < eps - 1e-12 or d < delta * (1 - 1e-9):
            return last
        stop = value(k - 1, e - left, d - stop_delta)
        go = gauss(value(k - 1, e - eps, max(d - delta, 0)), mu**2 - first)
        return np.maximum(last, gauss(np.maximum(stop, go), first))

    found = value(calls, budget_eps, budget_delta)
    return float(np.interp(0.0, LOSS, found)) / budget_delta


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_sums_of_pairs_take_back_eps_only_and_set_delta_aside(share):
    """Theorem 2 holds; without what is set aside, or with delta returned, the budget is exceeded."""
    assert _sums(1.0, 1e-6, 1, share, EARLY_ENDS_SHARE, True) <= 1.0 + 2e-5
    assert _sums(2.0, 2e-6, 2, share, EARLY_ENDS_SHARE, True) <= 1.0 + 2e-5
    assert _sums(1.0, 1e-6, 1, share, 0.0, True, one=1.0) > 1.5  # nothing set aside
    assert _sums(1.0, 1e-6, 1, share, 0.0, False) > 1.1  # delta returned


def test_a_coin_without_a_reply_takes_back_eps_and_no_delta():
    eps_t = eps_r = 0.5
    delta = 1e-6

    def attained(left):
        M, mu, most = math.log((1 - delta) / delta) / eps_t, mu_gdp(eps_r, delta), 0.0
        for g in np.arange(0, 3 * M, 0.25):
            for near in (max(g - 1, 0), g, g + 1):
                p, q = (1 / (1 + math.exp(-eps_t * (x - M))) for x in (g, near))
                lost = Approximate(eps_r, left).delta_at(1.0 - math.log((1 - p) / (1 - q)))
                reply = delta_gdp(1.0 - math.log(p / q), mu) if g or near else 1.0
                most = max(most, (1 - p) * lost + p * reply)
        return most / delta

    assert attained(0.0) <= 1.0 + 1e-9
    assert attained(delta) > 1.9


# -- What is kept

LOOK, FIT = 0.01, 0.99


def looked(eps=1.0, delta=1e-6, seeded=False, **kw):
    """A call with a look, one per cent of mu^2."""
    mu = mu_gdp(eps, (1 - EARLY_ENDS_SHARE) * delta)
    steps = (
        Step("look", Gaussian(mu * math.sqrt(LOOK)), share=LOOK, reply_test=True),
        Step("fit", Gaussian(mu * math.sqrt(FIT)), share=FIT),
    )
    return Guarantee(steps, eps, delta, seeded=seeded, **kw)


def run_of(guarantee):
    return Run(guarantee.inner or guarantee.steps, make_noise(None))


def stopped(guarantee):
    """Run the first step of a call."""
    run = run_of(guarantee)
    run.gaussian(guarantee.steps[0].name, np.array([3]), 1.0)
    return run


def test_gaussian_accounting_takes_back_the_steps_that_were_not_drawn():
    budget = Budget(1, 1e-6, accounting="gaussian")
    g = looked(0.9, 5e-7)
    charge = budget.charge("x", g)
    boxes, rule = budget.account.boxes, budget.account.rule
    found = budget._give_back(charge, stopped(g))
    assert found.kept.mu2 == pytest.approx(LOOK * charge.entry.mu2, rel=1e-12)
    assert (budget.account.boxes, budget.account.rule) == (boxes, rule)
    assert budget.account.spent == (found.kept.mu2, 0.0, 0.0)
    budget.charge("again", looked(0.89, 5e-7))
    text = budget.report()
    assert "returned 99.0 % of mu^2" in " ".join(text.split())
    assert text.count("returned") >= 2 and "the guarantee is the budget's" in text
    assert budget.eps_spent() < 1.0


def test_sums_take_back_eps_and_keep_delta():
    budget = Budget(1, 1e-6, accounting="sums")
    charge = budget.charge("x", looked())
    found = budget._give_back(charge, stopped(looked()))
    mu = mu_gdp(1.0, (1 - EARLY_ENDS_SHARE) * 1e-6) * math.sqrt(LOOK)
    assert found.kept.eps == pytest.approx(eps_gdp(mu, 1e-9), rel=1e-8)
    assert found.kept.eps == pytest.approx(0.12, abs=0.001) and found.kept.delta == 1e-6
    assert budget.remaining().eps == pytest.approx(1 - found.kept.eps)
    assert budget.remaining().delta == 0.0


def _entry(g, rule="mixed"):
    return Account(10.0, 1e-4, rule=rule).admit(g)[1]


def test_nothing_goes_back_of_what_has_no_sum():
    """Covers, seeds, RDP, a charge that left nothing aside, other relations with failures."""
    look = Drawn({"look": 1.0, "fit": 0.0})
    plain = Guarantee(looked().steps, 1.01, 1e-6)
    seeded = looked(seeded=True)
    assert kept_of(seeded, "replace", _entry(seeded), look) == _entry(seeded)
    entry = replace(_entry(plain), how="other")
    assert kept_of(plain, "replace", entry, look) == entry
    mu = mu_gdp(1.0, 1e-6)  # all of delta is used
    full = Guarantee(
        tuple(replace(s, mechanism=Gaussian(mu * math.sqrt(s.share))) for s in looked().steps),
        1.0, 1e-6,
    )
    entry = _entry(full, "basic")
    assert entry.how == "pair" and kept_of(full, "replace", entry, look) == entry
    added = Guarantee(
        (Step("look", Gaussian(0.01), failure=1e-9, reply_test=True), Step("fit", Gaussian(0.05))),
        1.0, 1e-6, relation="add-remove",
    )
    entry = _entry(added)
    assert entry.how == "other" and kept_of(added, "replace", entry, look) == entry
    # the pair of a conversion is no pair of ends
    converted = replace(added, relation="replace", proved="add-remove")
    assert _entry(converted, "basic").how == "other"


def test_conversions_that_are_sums_over_steps():
    """Add-remove in a replace-one budget: four times mu^2; max_rows=m of Gaussian steps: m^2."""
    look = Drawn({"look": 1.0, "fit": 0.0})
    added = looked(relation="add-remove")
    entry = _entry(added)
    assert entry.how == "steps"
    kept = kept_of(added, "replace", entry, look)
    assert kept.mu2 == pytest.approx(4 * added.steps[0].mechanism.mu**2)
    inner = looked(0.2, 1e-6)
    steps = tuple(replace(s, mechanism=Gaussian(3 * s.mechanism.mu)) for s in inner.steps)
    eps = Guarantee(steps, 5.0, 1e-6).eps_at(1e-6) * (1 + 1e-9)
    capped = Guarantee(
        tuple(replace(s, share=t.share) for s, t in zip(steps, inner.steps, strict=True)),
        eps, 1e-6, inner=inner.steps, most=3, row_pair=(0.2, 1e-6),
    )
    run = stopped(inner)
    kept = kept_of(capped, "replace", _entry(capped), run.close())
    assert kept.mu2 == pytest.approx(9 * inner.steps[0].mechanism.mu**2)


def test_failures_of_drawn_steps_stay():
    g = Guarantee(
        (Step("test", Gaussian(0.02), failure=1e-7, reply_test=True),
         Step("rest", Gaussian(0.1), failure=2e-7), Step("votes", Pure(0.2))),
        1.0, 1e-6,
    )  # fmt: skip
    kept = kept_of(g, "replace", _entry(g), Drawn({"test": 1.0, "rest": 0.0, "votes": 0.0}))
    assert (kept.mu2, kept.pure, kept.failure) == (0.02**2, 0.0, 1e-7)


def test_a_coin_gives_its_release_back():
    step = Step("coin", Approximate(1.0, 1e-6), reply_test=True, no_reply_eps=0.25)
    g = Guarantee((step,), 1.0, 1e-6)
    for rule in ("basic", "mixed"):
        entry = _entry(g, rule)
        kept = kept_of(g, "replace", entry, Drawn({"coin": 1.0}, ("coin",)))
        assert (kept.eps if rule == "basic" else kept.pure) == 0.25
        assert kept.delta == 1e-6 and kept_of(g, "replace", entry, Drawn({"coin": 1.0})) == entry
    assert Guarantee.from_dict(g.to_dict()) == g


def test_a_step_that_pays_gives_back_what_it_has_left():
    g = looked()
    run = stopped(g)
    mu = g.steps[1].mechanism.mu
    run.pay("fit", [Step("blame", Gaussian(mu * 0.1)), Step("never", Gaussian(mu * 0.5))])
    run.gaussian("blame", np.array([1]), 1.0)
    drawn = run.close()
    assert drawn.parts["fit"] == pytest.approx(0.01)
    kept = kept_of(g, "replace", _entry(g), drawn)
    assert kept.mu2 == pytest.approx(g.steps[0].mechanism.mu ** 2 + 0.01 * mu**2)
    pair = kept_of(g, "replace", _entry(g, "basic"), drawn)
    assert pair.eps == pytest.approx(eps_gdp(math.sqrt(kept.mu2), 1e-9), rel=1e-8)


def test_a_step_that_was_paid_for_pays_as_well():
    """What is left at any depth is left of the planned step, once."""
    g = looked()
    run, mu = stopped(g), g.steps[1].mechanism.mu
    run.pay("fit", [Step("part", Gaussian(mu * 0.5)), Step("other", Gaussian(mu * 0.1))])
    run.pay("part", [Step("inner", Gaussian(mu * 0.3)), Step("never", Gaussian(mu * 0.2))])
    assert run.undrawn == ("fit",)
    with pytest.raises(PrivacyBugError, match="has less left than that"):
        run.pay("part", [Step("more", Gaussian(mu * 0.4))])
    run.gaussian("inner", np.array([1]), 1.0)
    run.gaussian("other", np.array([1]), 1.0)
    assert run.close().parts["fit"] == pytest.approx(0.3**2 + 0.1**2)


# -- Runs that are closed, and objects that are none


def test_a_closed_run_draws_nothing_and_closes_once():
    g = looked()
    run = stopped(g)
    assert run.close().parts == {"look": 1.0, "fit": 0.0}
    for act in (
        lambda: run.gaussian("fit", np.array([1]), 1.0),
        lambda: run.pay("fit", [Step("blame", Gaussian(0.01))]),
        run.close,
    ):
        with pytest.raises(PrivacyBugError, match="closed"):
            act()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_draws_nothing_of_a_run():
    g = looked()
    run = run_of(g)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "drawn"
        try:
            run.gaussian("look", np.array([3]), 1.0)
        except PrivacyBugError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as stream:
        assert "in the process that made it" in stream.read().decode()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_second_return_and_foreign_objects_are_refused(tmp_path, kind):
    def budget(name):
        if kind == "memory":
            return Budget(3, 1e-5, accounting="gaussian")
        return Budget.open(tmp_path / f"{name}.db", eps=3, delta=1e-5, accounting="gaussian")

    one, other = budget("one"), budget("other")
    charge = one.charge("x", looked())
    one.charge("y", looked(0.5, 1e-6))
    before = one.account
    for wrong in (Drawn({"fit": 0.0}), None, stopped(looked(0.4, 1e-6))):
        with pytest.raises(PrivacyBugError):
            one._give_back(charge, wrong)
    with pytest.raises(PrivacyBugError, match="did not make"):
        other._give_back(charge, stopped(charge.guarantee))
    assert one.account == before
    assert one._give_back(charge, stopped(looked())) is not None
    with pytest.raises(PrivacyBugError, match="once"):
        one._give_back(charge, stopped(looked()))
    whole = stopped(charge.guarantee)
    whole.gaussian("fit", np.array([3]), 1.0)
    third = one.charge("z", looked())
    whole = stopped(third.guarantee)
    whole.gaussian("fit", np.array([3]), 1.0)
    assert one._give_back(third, whole) is None  # all of it was drawn
    again = one if kind == "memory" else Budget.open(tmp_path / "one.db")
    assert again.account == one.account
    assert again.charges[0].kept == one.charges[0].kept


def test_memory_and_file_count_alike(tmp_path):
    memory = Budget(3, 1e-5)
    file = Budget.open(tmp_path / "l.db", eps=3, delta=1e-5)
    for budget in (memory, file):
        charges = [budget.charge("x", looked(0.1 * k, 1e-7 * k)) for k in (1, 2, 3, 4)]
        for k in (2, 0):
            budget._give_back(charges[k], stopped(charges[k].guarantee))
        budget.charge("last", looked(0.2, 1e-7))
    assert memory.account == file.account == Budget.open(tmp_path / "l.db").account
    assert memory.report() == file.report().replace(" of l ", " ")
    assert file.to_frame()["note"].tolist().count("returned") == 2
    readonly = Budget.open_readonly(tmp_path / "l.db")
    assert readonly.account == memory.account and "returned" in readonly.report()


def test_a_file_of_format_three_is_raised_by_the_first_charge(tmp_path):
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=3, delta=1e-5)
    db = sqlite3.connect(path)
    db.execute("DROP TABLE returns")
    db.execute("ALTER TABLE calls DROP COLUMN how")
    db.execute("PRAGMA user_version = 3")
    db.commit()
    budget = Budget.open(path)
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    assert Budget.open_readonly(path).remaining().eps == 3
    charge = budget.charge("x", looked())
    assert db.execute("PRAGMA user_version").fetchone() == (4,)
    budget._give_back(charge, stopped(looked()))
    assert Budget.open(path).account == budget.account
    db.close()


# -- Files: crashes, races, copies, changed bits

CHILD = """
import sys, math, random
import numpy as np
sys.path.insert(0, sys.argv[4])
from dpmodels.errors import BudgetExceededError
from dpmodels.privacy.budget import Budget
from test_returns import looked, run_of
path, log, seed = sys.argv[1:4]
g = random.Random(int(seed))
budget = Budget.open(path)
with open(log, "ab", buffering=0) as out:
    for _ in range(int(sys.argv[5])):
        call = looked(0.2, 1e-7)
        try:
            charge = budget.charge("call", call)
        except BudgetExceededError:
            break
        run = run_of(call)
        for step in call.steps:
            if g.random() < .5:
                break
            run.gaussian(step.name, np.array([1]), 1.0)
            out.write((repr(step.mechanism.mu ** 2) + "\\n").encode())  # drawn
        budget._give_back(charge, run)
"""


def _child(tmp_path, seed, calls):
    here = os.path.dirname(__file__)
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "l.db"), str(tmp_path / "log"), str(seed),
         here, str(calls)],
    )  # fmt: skip


def _drawn(tmp_path):
    path = tmp_path / "log"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return math.fsum(map(float, lines))


def test_eight_processes_that_stop_at_random(tmp_path):
    """What was drawn is at most what is recorded, and no more is open than was charged."""
    Budget.open(tmp_path / "l.db", eps=3, delta=1e-5, accounting="gaussian")
    children = [_child(tmp_path, seed, 6) for seed in range(8)]
    assert [child.wait(120) for child in children] == [0] * 8
    account = Budget.open(tmp_path / "l.db").account
    drawn = _drawn(tmp_path)
    assert 0 < drawn <= account.spent[0] * (1 + 1e-9) and account._alive()
    assert account.spent[0] == pytest.approx(drawn, rel=1e-6)  # all of the rest came back


def test_killed_anywhere_the_ledger_over_counts(tmp_path):
    """Killed some time after it drew: the test waits for lines of the log, not for seconds."""
    Budget.open(tmp_path / "l.db", eps=30, delta=1e-4, accounting="gaussian")
    g, log = random.Random(5), tmp_path / "log"
    for seed in range(4):
        before = log.stat().st_size if log.exists() else 0
        child = _child(tmp_path, seed, 1000)
        more = before + g.randrange(1, 400)  # bytes
        while child.poll() is None and (log.stat().st_size if log.exists() else 0) < more:
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
        account = Budget.open(tmp_path / "l.db").account
        assert _drawn(tmp_path) <= account.spent[0] * (1 + 1e-9)
    assert _drawn(tmp_path) > 0


def test_older_copies(tmp_path):
    """A copy without the return over-counts; one with it and later charges missing is refused."""
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=3, delta=1e-5, accounting="gaussian")
    charge = budget.charge("x", looked())
    before = path.read_bytes()
    budget._give_back(charge, stopped(looked()))
    after = path.read_bytes()
    kept = budget.account.spent[0]
    path.write_bytes(before)
    assert budget.account.spent[0] > kept and Budget.open(path).account.spent[0] > kept
    path.write_bytes(after)
    assert budget.account.spent[0] == kept
    budget.charge("y", looked())
    path.write_bytes(after)
    for act in (lambda: budget.account, lambda: Budget.open(path)):
        with pytest.raises(BudgetError, match="lost charges"):
            act()


CHANGES = [
    "UPDATE returns SET mu2 = mu2 / 2",
    "UPDATE returns SET mu2 = mu2 * 2",
    "UPDATE returns SET of = 2",
    "UPDATE returns SET kept_delta = 0",
    "UPDATE returns SET drawn = replace(drawn, 'fit', 'look')",
    "UPDATE returns SET utc = 'x'",
    "DELETE FROM returns",
    "INSERT INTO returns SELECT 2, 2, mark, charge, utc, drawn, mu2, pure, failure, kept_eps, "
    "kept_delta, chain FROM returns",
    "UPDATE calls SET how = 'pair' WHERE number = 1",
    "UPDATE calls SET how = NULL WHERE number = 2",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_bit_is_noticed(tmp_path, change):
    path = tmp_path / "l.db"
    budget = Budget.open(path, eps=3, delta=1e-5, accounting="gaussian")
    first = budget.charge("x", looked())
    budget.charge("y", looked())
    budget._give_back(first, stopped(looked()))
    db = sqlite3.connect(path)
    assert db.execute(change).rowcount >= 1
    db.commit()
    db.close()
    for act in (lambda: budget.charges, lambda: Budget.open(path)):
        with pytest.raises(BudgetError, match="damaged"):
            act()


def test_a_return_of_another_file_is_noticed(tmp_path):
    """Its hash holds the identity of the ledger."""
    files = [tmp_path / "a.db", tmp_path / "b.db"]
    for path in files:
        budget = Budget.open(path, eps=3, delta=1e-5, label="l", accounting="gaussian")
        budget._give_back(budget.charge("x", looked()), stopped(looked()))
        budget.charge("y", looked())
    db = sqlite3.connect(files[0])
    db.execute("ATTACH ? AS b", (str(files[1]),))
    db.execute("DELETE FROM returns")
    db.execute("INSERT INTO returns SELECT * FROM b.returns")
    db.commit()
    db.close()
    with pytest.raises(BudgetError, match="damaged"):
        Budget.open(files[0])


def _fuzz(seed, naive):
    """Return in how many states more was drawn than is recorded, or no box holds it."""
    g = random.Random(seed)
    budget = Budget(1, 1e-6, accounting="gaussian")
    live, drawn, bad = [], 0.0, 0
    for _ in range(100):
        act = g.random()
        if act < 0.45:
            sizes = [g.choice([0.0004, 0.002, 0.01]) for _ in range(g.randint(2, 4))]
            steps = [Step(str(k), Gaussian(math.sqrt(m))) for k, m in enumerate(sizes)]
            guarantee = Guarantee(tuple(steps), 1.0, 1e-6)
            try:
                live.append((budget.charge("x", guarantee), run_of(guarantee)))
            except BudgetError:
                continue
        elif live:
            charge, run = g.choice(live)
            left = run.undrawn
            if act < 0.75 and left:
                run.gaussian(left[0], np.array([1]), 1.0)
                drawn += charge.guarantee.steps[int(left[0])].mechanism.mu ** 2
            elif act < 0.97:
                if naive:  # a run that is not closed, and a charge that gives back again
                    store = budget._store
                    at = charge.number - 1
                    store._charges[at] = replace(store._charges[at], kept=None, drawn=None)
                    parts = {name: 0.0 for name in left}
                    now = kept_of(charge.guarantee, "replace", charge.entry, Drawn(parts))
                    spent = budget.account.spent
                    back = charge.entry.mu2 - now.mu2
                    store._account = replace(budget.account, spent=(spent[0] - back, *spent[1:]))
                else:
                    budget._give_back(charge, run)
                    live.remove((charge, run))
            else:
                live.remove((charge, run))  # killed
        bad += drawn > budget.account.spent[0] * (1 + 1e-9) + 1e-15
        if budget.account.boxes:
            bad += not replace(budget.account, spent=(drawn, 0.0, 0.0))._alive()
    return bad


def test_fuzzed_ledgers():
    """None of 40 goes wrong; with doubled returns and runs left open most do."""
    assert sum(_fuzz(seed, False) > 0 for seed in range(40)) == 0
    assert sum(_fuzz(seed, True) > 0 for seed in range(20)) > 10


# -- Through the door


@pytest.fixture
def wine():
    rng = np.random.default_rng(0)
    x = rng.normal(10, 1, 300)
    return pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 1, 300), 0, 20)})


def test_an_eptr_test_that_does_not_pass_gives_its_release_back(wine, quiet):
    """68 % of mu^2 were the coefficients and the residual variance."""
    budget = Budget(3, 1e-5, accounting="gaussian")
    given = {"bounds": {"x": (0, 100), "y": (0, 100)}, "eps": 1, "delta": 1e-6}
    fit = dp.dp_ols("y ~ x", wine, method="eptr", scoring=False, budget=budget, **given)
    (charge,) = budget.charges
    assert not fit.released and charge.kept.mu2 == pytest.approx(0.32 * charge.entry.mu2)
    assert charge.kept.failure == charge.entry.failure > 0
    sums = Budget(1, 1e-6, accounting="sums")
    dp.dp_ols("y ~ x", wine, method="eptr", scoring=False, budget=sums, **given)
    assert 0.5 < sums.charges[0].kept.eps < 0.75 and sums.charges[0].kept.delta == 1e-6


def test_what_went_back_is_said(wine, tmp_path):
    """Page, warning, error and ledger say it; a saved fit still does when it is read back."""
    given = {"bounds": {"x": (0, 100), "y": (0, 100)}, "eps": 1, "delta": 1e-6}
    given |= {"method": "eptr", "scoring": False}
    budget = Budget(3, 1e-5, accounting="gaussian")
    with pytest.warns(NoReplyWarning, match=r"68.0 % of mu\^2 went back"):
        fit = dp.dp_ols("y ~ x", wine, budget=budget, **given)
    with pytest.raises(NoReplyError, match=r"68.0 % of mu\^2 went back"):
        dp.dp_ols("y ~ x", wine, budget=budget, on_no_reply="raise", **given)
    fit.save(tmp_path / "fit.json")
    for one in (fit, dp.load(tmp_path / "fit.json")):
        assert "68.0 % of mu^2 went back" in " ".join(str(one.summary()).split())
        assert one.ledger.notes["coefficients"] == "returned"
    with pytest.warns(NoReplyWarning, match="the charge stands"):
        alone = dp.dp_ols("y ~ x", wine, **given)
    assert "full charge" in str(alone.summary())
    assert alone.ledger.notes["coefficients"] == "charged"


def test_ranges_that_are_not_found_give_the_rest_back(wine, quiet):
    budget = Budget(3, 1e-5, accounting="gaussian")
    wine["x"] = 1.0
    fit = dp.dp_ols("y ~ x", wine, method="eptr", eps=1, delta=1e-6, budget=budget)
    (charge,) = budget.charges
    assert not fit.released and charge.kept.mu2 < 0.1 * charge.entry.mu2
    assert charge.kept.failure < charge.entry.failure
    # seeded noise promises nothing, so nothing goes back
    dp.dp_ols("y ~ x", wine, method="eptr", eps=1, delta=1e-6, budget=budget, seed=1)
    assert budget.charges[1].kept is None


def test_a_vote_whose_margin_suffices_gives_half_back(quiet):
    budget = Budget(3, 1e-5, accounting="sums")
    votes = ["a"] * 900 + ["b"] * 100
    dp.dp_vote(votes, ["a", "b"], eps=1, delta=1e-6, budget=budget)
    assert budget.charges[0].kept.eps == pytest.approx(0.5)


def test_candidates_of_a_choice_and_exceptions_give_nothing_back(wine, quiet):
    """A return would tell how many runs there were, or what made a stage fail."""
    budget = Budget(9, 1e-4, accounting="gaussian")

    def candidate(mu, noise):
        fit = dp.dp_ols(
            "y ~ x", wine, method="eptr", bounds={"x": (0, 100), "y": (0, 100)},
            eps=0.01, delta=1e-7, scoring=False,
        )  # fmt: skip
        return float(fit.released), fit

    dp.dp_select([candidate], eps=1, delta=1e-6, relation="replace", budget=budget)
    assert [charge.kept for charge in budget.charges] == [None]

    before = budget.remaining()
    with pytest.raises(DPModelsError):
        dp.dp_ols("y ~ x", iter([wine, None]), n=300, method="ssp", eps=0.1, delta=1e-7,
                  bounds={"x": (0, 100), "y": (0, 100)}, budget=budget)  # fmt: skip
    assert all(charge.kept is None for charge in budget.charges)
    assert budget.remaining().mu <= before.mu


def test_a_return_that_cannot_be_written_warns(wine, tmp_path, quiet, monkeypatch):
    def gone(*_):
        raise BudgetError("no room")

    budget = Budget.open(tmp_path / "l.db", eps=3, delta=1e-5, accounting="gaussian")
    monkeypatch.setattr(FileStore, "give_back", gone)
    with pytest.warns(LedgerWarning, match="the charge stands"):
        dp.dp_ols("y ~ x", wine, method="eptr", bounds={"x": (0, 100), "y": (0, 100)},
                  eps=1, delta=1e-6, budget=budget, scoring=False)  # fmt: skip
    assert budget.charges[0].kept is None
