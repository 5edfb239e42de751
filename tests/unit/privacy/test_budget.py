from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import pickle
import re
import subprocess
import sys
import threading

import pytest

from dpmodels.errors import BudgetError, BudgetExceededError, PrivacyBugError, RequestError
from dpmodels.privacy.account import joint
from dpmodels.privacy.budget import Budget, Ledger, current_budget
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step, delta_gdp, mu_gdp


def gauss(eps=1.0, delta=1e-6, **kw):
    return Guarantee(
        (Step("coefficients", Gaussian(mu_gdp(eps, delta)), share=1.0),), eps, delta, **kw
    )


def pure(eps=1.0, delta=1e-6):
    return Guarantee((Step("coin", Pure(eps)),), eps, delta)


def test_twenty_fits():
    budget = Budget(5, 4e-5)
    for _ in range(20):
        budget.charge("dp_ols(...)", gauss())
    assert budget.eps_spent(3e-5) == pytest.approx(4.397, abs=1e-3)
    assert joint([gauss()] * 20, 3e-5).eps == pytest.approx(4.397117492, abs=1e-8)
    assert budget.eps_spent(2e-5) < 20
    frame = budget.to_frame()
    assert len(frame) == 20 and list(frame["call"]) == list(range(1, 21))


def test_check_and_charge_refuse_alike_and_charge_nothing():
    budget = Budget(1, 1e-6)
    budget.charge("a", gauss(0.9, 8e-7))
    before = budget.account
    for act in (budget.check, lambda g: budget.charge("b", g)):
        with pytest.raises(BudgetExceededError, match="Nothing was read and nothing was charged"):
            act(gauss(0.8, 8e-7))
    assert budget.account == before and len(budget.charges) == 1


def test_exact_fit_and_one_more():
    budget = Budget(1, 1e-6)
    budget.charge("all", gauss(1, 1e-6))
    assert budget.remaining().eps == 0
    with pytest.raises(BudgetExceededError):
        budget.charge("more", gauss(1e-3, 1e-9))


def test_caps_are_proved_at_the_first_charge_and_never_move():
    budget = Budget(3, 1e-5, rule="caps")
    budget.charge("first", gauss(0.5, 5e-7))
    m, e, d = budget.account.caps
    assert e == 0 and d == pytest.approx(2e-6)
    assert d + delta_gdp(3 - e, m) <= 1e-5 * (1 + 1e-9)
    for _ in range(5):
        budget.charge("next", gauss(0.3, 1e-7))
        assert budget.account.caps == (m, e, d)
    spent = budget.account.spent
    assert spent[0] <= m**2 and spent[1] <= e and spent[2] <= d


def test_the_interactive_counterexample_is_refused():
    """0.3 of mu^2 first, then any part that passes the joint formula: the caps do not allow it."""
    mu = mu_gdp(1, 1e-6)
    budget = Budget(1, 1e-6)
    first = Guarantee((Step("g", Gaussian(math.sqrt(0.3) * mu)),), 1.0, 1e-6)
    budget.charge("first", first)
    mu1 = math.sqrt(0.3) * mu
    left = 1e-6 - delta_gdp(1, mu1)  # what the joint formula would still allow as (0, delta')
    failure = Guarantee((Step("f", Approximate(0.0, left * 0.999)),), 0.0, left)
    with pytest.raises(BudgetExceededError):
        budget.charge("(0, delta')", failure)
    boxes = budget.account.boxes
    total = boxes[0][2] + sum(delta_gdp(1 - e, m) for m, e, _ in boxes)
    assert len(boxes) > 10 and total <= 1e-6
    assert {d for _, _, d in boxes} == {boxes[0][2]}


def test_the_order_of_calls_does_not_matter(tmp_path):
    """A table first locked the budget to plain sums: nothing was left, and eps 1.74 table last."""
    kinds = {
        **_calls(1, 2.5e-7),
        "table": Guarantee((Step("table", Pure(1.0)),), 1.0, 2.5e-7),
        "vote": pure(0.3, 1e-8),
        "far": gauss(0.4, 1e-7, relation="add-remove"),
    }
    for chosen in (("table", "gauss", "gauss", "gauss"), ("table", "test", "profile", "vote"),
                   ("table", "far", "gauss", "vote"), ("vote", "vote", "table", "far")):  # fmt: skip
        left = set()
        for number, order in enumerate(sorted(set(itertools.permutations(chosen)))):
            budget = Budget(4, 1e-6)
            if number < 2:
                budget = Budget.open(tmp_path / f"{'-'.join(chosen)}-{number}", 4, 1e-6)
            for name in order:
                budget.charge(name, kinds[name])
            assert budget.account.rule == "mixed"
            spent = budget.account.spent
            left.add(tuple(float(f"{x:.9g}") for x in (*budget.remaining(), *spent)))
        assert len(left) == 1, (chosen, left)
        if chosen.count("gauss") == 3:
            assert budget.remaining().eps > 1.743


@pytest.mark.parametrize("first", ["table", "fit"])
def test_plain_sums_fit_in_any_order(first):
    """What fits as sums of the pairs is admitted, half of the orders were not."""
    calls = {"table": Guarantee((Step("t", Pure(2.0)),), 2.0, 1e-8), "fit": gauss(1, 1e-7)}
    budget = Budget(3, 1e-6)
    for name in (first, *(name for name in calls if name != first)):
        budget.charge(name, calls[name])
    assert budget.remaining() == (0, pytest.approx(1.4e-7))
    with pytest.raises(BudgetExceededError):
        budget.check(pure(1e-3, 0))


def test_a_refusal_of_plain_sums_says_what_they_cost():
    budget = Budget(4, 1e-6, accounting="sums")
    for _ in range(4):
        budget.charge("g", gauss(1, 2e-7))
    with pytest.raises(BudgetExceededError, match=r"adds up pairs(.|\n)*default(.|\n)*eps = [23]"):
        budget.charge("g", gauss(1, 2e-7))


def test_pure_first_goes_by_sums_and_gaussians_then_enter_as_pairs():
    budget = Budget(3, 1e-5, accounting="sums")
    budget.charge("coin", pure(1.0, 1e-6))
    assert budget.account.rule == "basic"
    budget.charge("g", gauss(1.5, 1e-6))
    assert budget.remaining() == (pytest.approx(0.5), pytest.approx(8e-6))
    with pytest.raises(BudgetExceededError):
        budget.charge("g", gauss(0.6, 1e-6))


def test_opened_caps_take_pure_parts_later():
    budget = Budget(3, 1e-5, cap_eps=1.0, cap_delta=1e-6)
    budget.charge("g", gauss(0.5, 5e-7))
    budget.charge("coin", pure(0.9, 1e-7))
    assert budget.account.spent[1] == pytest.approx(0.9)
    closed = Budget(3, 1e-5, rule="caps")
    closed.charge("g", gauss(0.5, 5e-7))
    closed.charge("small coin", pure(0.1, 1e-7))  # enters as 1.25 eps of Gaussian
    assert closed.account.spent[1] == 0
    with pytest.raises(BudgetExceededError, match="cap_eps"):
        closed.charge("coin", pure(0.9, 1e-7))


def test_together_all_or_none():
    budget = Budget(1, 1e-6)
    with pytest.raises(BudgetExceededError):
        budget.charge_together([("a", gauss(0.6, 5e-7)), ("b", gauss(0.9, 9e-7))])
    assert not budget.charges
    done = budget.charge_together([("a", gauss(0.5, 4e-7)), ("b", gauss(0.5, 4e-7))])
    assert [c.number for c in done] == [1, 2]


def test_relations_and_units():
    budget = Budget(4, 1e-4)
    budget.charge("a", gauss(1, 1e-6, relation="add-remove"))
    assert budget.account.spent[0] == pytest.approx((2 * mu_gdp(1, 1e-6)) ** 2)
    with pytest.raises(BudgetError, match="implies nothing"):
        Budget(4, 1e-4, relation="add-remove").charge("a", gauss())
    attribute = gauss(1, 1e-6, unit="attribute")
    with pytest.raises(BudgetError, match="attribute"):
        Budget(4, 1e-4).charge("a", attribute)
    with_pair = gauss(1, 1e-6, unit="attribute", record_pair=(3.0, 3e-6))
    budget = Budget(4, 1e-4)
    budget.charge("a", with_pair)
    assert budget.account.pairs == (3.0, 3e-6)
    assert budget.to_frame()["unit"].tolist() == ["attribute"]
    assert 2.99 < budget.eps_spent(1e-4) <= 3.0


@pytest.mark.parametrize(
    "bad",
    [
        (0, 1e-6),
        (-1, 1e-6),
        (math.nan, 1e-6),
        (math.inf, 1e-6),
        (1, -1e-6),
        (1, 1),
        (1, math.nan),
        ("x", 0.1),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises(RequestError, match=r"eps|delta"):
        Budget(*bad)


def test_bad_words():
    with pytest.raises(RequestError, match="rule"):
        Budget(1, 1e-6, rule="joint")
    with pytest.raises(RequestError, match="cap_eps"):
        Budget(1, 1e-6, cap_eps=2)
    with pytest.raises(RequestError, match="format"):
        Budget(1, 1e-6).report("pdf")


def test_no_copies():
    budget = Budget(1, 1e-6)
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(BudgetError, match="copied"):
            make(budget)


def test_a_forked_process_cannot_spend_the_budget_again(monkeypatch):
    """A fork copies memory without asking: three children spent one budget three times."""
    budget = Budget(3, 1e-5)
    call = Guarantee((Step("a", Gaussian(0.1)),), 1.0, 1e-6)
    budget.charge("here", call)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetError, match="process"):
        budget.charge("there", call)
    assert len(budget.charges) == 1


def test_a_block_that_does_not_reach_a_thread_refuses_its_calls():
    """Calls in threads of an open block were charged to nobody."""
    seen = []

    def work():
        try:
            seen.append(current_budget())
        except BudgetError as error:
            seen.append(error)

    def in_thread():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return seen.pop()

    assert in_thread() is None
    with Budget(3, 1e-5) as outer, Budget(1, 1e-5) as inner:
        assert current_budget() is inner is not outer
        assert isinstance(in_thread(), BudgetError)
    assert in_thread() is None and current_budget() is None


def test_context():
    assert current_budget() is None
    with Budget(1, 1e-6) as outer:
        with Budget(2, 1e-6) as inner:
            assert current_budget() is inner
        assert current_budget() is outer
    assert current_budget() is None


def test_a_budget_may_be_a_block_within_its_own_block():
    """Leaving the inner one leaves that one: the block between stays the innermost."""
    outer, between = Budget(1, 1e-6), Budget(2, 1e-6)
    with outer, between:
        with outer:
            assert current_budget() is outer
        assert current_budget() is between


def test_one_budget_is_the_block_of_several_threads_at_once():
    """Tokens of one thread were reset in another: all fits charged, then a ValueError."""
    budget, inner, met = Budget(100, 1e-3), Budget(1, 1e-6), threading.Barrier(4, timeout=30)
    found = []

    def work():
        try:
            with budget:
                met.wait()  # all are inside
                found.append(current_budget() is budget)
                with inner:
                    met.wait()
                    found.append(current_budget() is inner)
                budget.charge("x", gauss(0.1, 1e-7))
                met.wait()
            found.append(current_budget_or_refusal())
        except BaseException as error:
            found.append(error)

    def current_budget_or_refusal():
        try:
            return current_budget() is None
        except BudgetError:  # another thread is inside still
            return True

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 12
    assert len(budget.charges) == 4 and current_budget() is None


def test_blocks_that_are_left_in_another_order():
    """Generators leave blocks as they are collected: each leaves its own."""
    one, two = Budget(1, 1e-6), Budget(2, 1e-6)

    def inside(budget):
        with budget:
            yield

    first, second = inside(one), inside(two)
    next(first), next(second)
    first.close()
    assert current_budget() is two
    second.close()
    assert current_budget() is None


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="looks like a with statement there")
def test_blocks_that_are_opened_by_name():
    one, two = Budget(1, 1e-6), Budget(2, 1e-6)
    assert one.__enter__() is one
    two.__enter__()
    one.__exit__(None, None, None)
    assert current_budget() is two
    with one:
        assert current_budget() is one
    assert current_budget() is two
    two.__exit__(None, None, None)
    assert current_budget() is None


def test_blocks_of_an_exit_stack():
    one, two = Budget(1, 1e-6), Budget(2, 1e-6)
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(one) is one
        with two:
            assert current_budget() is two
        assert current_budget() is one
        stack.enter_context(two)
        assert current_budget() is two
    assert current_budget() is None


_INTERRUPTED = """
import _thread, random, signal, sys, threading, time
import dpmodels as dp
from dpmodels.privacy.budget import already_charged, current_budget

# a job in the background of a script is started with interrupts ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
outer, inner, paid = dp.Budget(1, 1e-6), dp.Budget(1, 1e-6), object()
left, ready, last = [600], [], [time.monotonic()]

def press():
    while left[0]:
        time.sleep(2e-5 * random.random())
        if ready or time.monotonic() - last[0] > 5.0:
            ready.clear()
            last[0] = time.monotonic()
            _thread.interrupt_main()

threading.Thread(target=press, daemon=True).start()
kept = []  # as a notebook keeps the last error, with its traceback
while left[0]:
    try:
        ready.append(True)
        with outer:
            while True:
                try:
                    with inner:
                        pass
                    with already_charged(paid):
                        pass
                except KeyboardInterrupt as error:
                    kept = [*kept[-9:], error]
                    assert current_budget() is outer
                    raise
                assert current_budget() is outer
    except KeyboardInterrupt as error:
        left[0] -= 1
        kept = [*kept[-9:], error]
        assert current_budget() is None
print("closed")
"""


def test_an_interrupt_leaves_no_block_open():
    """On entering or leaving: 15 of 2212 calls after an interrupt went to the old budget."""
    given = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout == "closed\n", done.stderr


def test_report_and_ledger_text():
    budget = Budget(3, 1e-5)
    call = 'dp_ols("quality ~ alcohol + pH", method="eptr")'
    steps = (
        Step("scale matrix", Gaussian(0.1053), share=0.2),
        Step("lower bound and test", Gaussian(0.0816), share=0.12, failure=1e-7, reply_test=True),
        Step("coefficients", Gaussian(0.1824), share=0.6),
        Step("residual variance", Gaussian(0.0666), share=0.08),
    )
    g = Guarantee(steps, 1.0, 1e-6)
    charge = budget.charge(call, g)
    budget.note(charge, "lower bound and test", "reply")
    text = budget.report()
    for part in (
        call,
        "Gaussian, reply test",
        ".20",
        "0.1053",
        "1e-07",
        "reply",
        "sum of the call",
        "left (accounting",
    ):
        assert part in text
    assert max(map(len, text.splitlines()[1:])) <= 100
    assert "<table" in budget._repr_html_() and "&quot;quality" in budget.report("html")
    ledger = Ledger(call, g, {"lower bound and test": "NO REPLY"}, "schema, formula, n = 1599")
    assert "NO REPLY" in str(ledger) and "n = 1599" in str(ledger)
    assert len(ledger.to_frame()) == 4 and "<table" in ledger._repr_html_()
    assert ledger.to_frame()["share"].sum() == pytest.approx(1.0)
    with pytest.raises(BudgetError, match="no call number"):
        budget.note(7, "x", "y")


def test_seeded_lines_are_marked():
    budget = Budget(3, 1e-5)
    budget.charge("fit", gauss(seeded=True))
    assert "NOT PRIVATE" in budget.report()


def test_guarantee_travels():
    g = Guarantee(
        (Step("a", Gaussian(0.1), failure=1e-8), Step("b", Approximate(0.2, 1e-8))), 1.0, 1e-6
    )
    assert pickle.loads(pickle.dumps(g)) == g
    assert Guarantee.from_dict(g.to_dict()) == g
    g.delta_at(0.5)
    assert pickle.loads(pickle.dumps(g)) == g


@pytest.mark.parametrize("eps", [k / 10 for k in range(1, 51)])
def test_shares_that_sum_to_eps_and_a_last_digit(eps):
    """delta = 0 allows nothing: shares that sum to eps + 1 ulp were called a bug of the plan."""
    for shares in ((0.2, 0.64, 0.16), (0.1,) * 10, (1 / 3,) * 3, (0.7, 0.2, 0.1)):
        steps = tuple(Step(f"part {i}", Pure(eps * s)) for i, s in enumerate(shares))
        g = Guarantee(steps, eps, 0.0)
        Budget(eps, 0).charge("all", g)
    with pytest.raises(PrivacyBugError):
        Guarantee((Step("too much", Pure(eps * (1 + 1e-9))),), eps, 0.0)
    with pytest.raises(PrivacyBugError):
        mu = mu_gdp(eps, 1e-6 * (1 + 3e-9))
        Guarantee((Step("too much", Gaussian(mu)),), eps, 1e-6)


def _attack(eps, delta, first_share, admits):
    """Return the true delta of the best attacker with one Gaussian and then any admitted call.

    The first output is the loss of a Gaussian pair; after it, the attacker takes a Gaussian, a
    pure or a (0, d) mechanism, whichever distinguishes best. Exact up to the quadrature.
    """
    mu1 = math.sqrt(first_share) * mu_gdp(eps, delta)
    grid = [-9 + 18 * k / 1500 for k in range(1501)]
    seconds = admits(mu1)
    total = 0.0
    for z in grid:
        loss = mu1 * z + mu1 * mu1 / 2
        weight = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * 18 / 1500
        total += weight * max(d + delta_gdp(eps - loss - u, mu) for mu, u, d in seconds)
    return total


@pytest.mark.parametrize(
    ("eps", "delta", "share"), [(1, 1e-6, 0.3), (4, 1e-6, 0.3), (2, 1e-5, 0.2)]
)
def test_the_best_attacker_stays_below_delta(eps, delta, share):
    """The joint formula is not a stopping rule (true delta above 1.5 delta); boxes are."""

    def boxes(mu1):
        budget = Budget(eps, delta)
        budget.charge("first", Guarantee((Step("g", Gaussian(mu1)),), eps, delta))
        after = budget.account._alive()
        assert len(after) > 3
        # all of a box, its failures included, in one further call
        return [(math.sqrt(max(0.0, m * m - mu1**2)), u, d) for m, u, d in after]

    def joint_formula(mu1):
        rest = math.sqrt(mu_gdp(eps, delta) ** 2 - mu1**2)
        return [(rest, 0.0, 0.0), (0.0, 0.0, (delta - delta_gdp(eps, mu1)))]

    assert _attack(eps, delta, share, joint_formula) > 1.3 * delta
    assert _attack(eps, delta, share, boxes) <= delta


def _calls(eps, delta):
    """Calls of the kinds that the library has: Gaussian plans, profiles, tests with failures."""
    from dpmodels.own.minimum import PoissonLoss
    from dpmodels.own.tilted import tilt_profile

    part = Gaussian(mu_gdp(eps, delta) * 0.9)
    small = mu_gdp(eps, delta) / 4
    steps = [Step("a", tilt_profile(PoissonLoss(1.0), small, math.expm1(0.01), "replace"))]
    return {
        "gauss": gauss(eps, delta),
        "test": Guarantee((Step("t", part, failure=delta / 20),), eps, delta),
        "profile": Guarantee(tuple(steps), eps, delta),
    }


def test_any_order_of_the_own_methods_fits():
    """dp_ols then dp_glm was refused with nearly all of the budget left, the reverse admitted."""
    kinds = _calls(0.5, 2.5e-6)
    for order in itertools.product(kinds, repeat=4):
        budget = Budget(2, 1e-5)
        for name in order:
            budget.charge(name, kinds[name])
    # a call known by its pair alone, after Gaussian ones
    budget = Budget(2, 1e-5)
    budget.charge("g", gauss(0.5, 1e-6))
    budget.charge("pair", Guarantee((Step("p", Approximate(0.5, 1e-6)),), 0.5, 1e-6))
    budget.charge("pure", Guarantee((Step("p", Pure(0.5)),), 0.5, 0.0))


def test_remaining_and_the_refusal_agree():
    for first in (gauss(0.5, 1e-6), gauss(1.9, 1e-6), _calls(0.5, 1e-6)["profile"]):
        for rule in ("auto", "mixed", "caps", "basic"):
            budget = Budget(2, 1e-5, rule=rule)
            budget.charge("first", first)
            left = budget.remaining()
            if left.eps > 0 and left.delta > 0:
                budget.check(gauss(*left))
                with pytest.raises(BudgetExceededError, match="Nothing was read"):
                    budget.check(gauss(left.eps * 1.01 + 1e-6, left.delta))
            if left.pure > 0:
                budget.check(
                    Guarantee(
                        (Step("p", Approximate(left.pure, left.failure)),), left.pure, left.failure
                    )
                )
    budget = Budget(2, 1e-5)
    budget.charge("first", gauss(1.5, 5e-6))
    left = budget.remaining()
    with pytest.raises(BudgetExceededError) as caught:
        budget.check(Guarantee((Step("p", Approximate(1.5, 1e-6)),), 1.5, 1e-6))
    assert f"(eps = {left.pure:.4g}, delta = {left.failure:.4g}) for any other" in str(caught.value)


def test_the_first_charge_is_held_to_what_the_noise_pays():
    """The first charge could exceed the cap on mu by 1e-7, which nothing paid for."""
    for eps, delta in ((1, 1e-6), (3, 1e-5)):
        for rule in ("auto", "caps"):
            mu = mu_gdp(eps, delta)
            budget = Budget(eps, delta, rule=rule)
            over = Guarantee((Step("g", Gaussian(mu * (1 + 3e-9))),), eps * 1.001, delta)
            with pytest.raises(BudgetExceededError):
                budget.charge("over", over)
            budget.charge("all", gauss(eps, delta))
            held = budget.account._alive()
            assert held[0][0] <= mu * (1 + 1e-12)
    sums = Budget(1, 0)
    for _ in range(10):
        sums.charge("tenth", Guarantee((Step("p", Pure(0.1)),), 0.1, 0.0))
    assert sums.account.pairs[0] <= 1 + 1e-12
    with pytest.raises(BudgetExceededError):
        Budget(1, 0).charge("p", Guarantee((Step("p", Pure(1 + 1e-10)),), 1 + 1e-10, 0.0))


def test_the_frame_of_a_call_is_that_of_its_one_charge():
    """Number, name and notes of the call, and one row a step."""
    import warnings

    import dpmodels as dp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_mean("x ~ 1", {"x": [0.1, 0.5] * 50}, eps=1, delta=1e-6, bounds={"x": (0, 1)}, seed=1)
    frame = fit.ledger.to_frame()
    assert (frame["call"] == 1).all() and (frame["label"] == fit.ledger.call).all()
    assert (frame["when"].astype(str) == "").all() or frame["when"].isna().all()
    assert len(frame) == len(fit.ledger.guarantee.steps)
    assert dict(zip(frame["what"], frame["note"], strict=True)) == {
        step.name: fit.ledger.notes.get(step.name, "") for step in fit.ledger.guarantee.steps
    }


@pytest.mark.parametrize("accounting", ["gaussian", "sums"])
def test_the_account_of_a_budget_adds_up(accounting):
    """The charges of the calls sum to the printed sum; what is left is in the same units."""
    budget = Budget(3, 1e-5, accounting=accounting)
    for k in range(3):
        step = Step("a", Gaussian(mu_gdp(0.3 + 0.1 * k, 1e-6)), share=1.0)
        budget.charge(f"call {k}", Guarantee((step,), 0.3 + 0.1 * k, 1e-6))
    unit = "mu\\^2 = " if accounting == "gaussian" else r"\(eps = "
    text = budget.report()
    charged = [float(x) for x in re.findall(rf"charged\s+{unit}([\d.]+)", text)]
    (total,) = (float(x) for x in re.findall(rf"sum of the 3 calls\s+{unit}([\d.]+)", text))
    (left,) = (float(x) for x in re.findall(rf"left \(accounting: \w+\)\s+{unit}([\d.]+)", text))
    assert len(charged) == 3 and sum(charged) == pytest.approx(total, rel=2e-3)
    account = budget.account
    whole = max(b[0] ** 2 for b in account.boxes) if accounting == "gaussian" else 3.0
    assert total + left == pytest.approx(whole, rel=2e-3)
    assert "composition of" not in text and "delta+" in text
    assert ("sums of the pairs" in budget.report(full=True)) and "sums of the pairs" not in text
    assert max(map(len, text.splitlines()[1:])) <= 100


def test_rows_of_a_ledger_are_hashed_as_json():
    """The blocks in which rows are encoded have the bytes of each row by itself."""
    import json

    from dpmodels.privacy.ledger_file import _texts

    rows = [(1, "a], [\0b", 'quote " and \\', 0.1, None, "é"), (2, "]", 1e-300, 3), (3, "")]
    assert [f"[{text}]" for text in _texts(rows)] == [json.dumps(row) for row in rows]
