"""Budgets against brute force: random calls, every rule, relation and unit.

The oracle is written out here and shares nothing with the package: every subset of randomised
responses is an atom, the Gaussian curve is scipy's, failures and mass at infinity are added. What a
budget admits must come to no more than its (eps, delta); every description that the accountant may
charge a call with must lie above the call's own curve. Deterministic (seeded): no false alarms.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from dpmodels.errors import BudgetError, BudgetExceededError
from dpmodels.own.minimum import PoissonLoss
from dpmodels.own.tilted import tilt_profile
from dpmodels.privacy.account import Account, entries_of, joint
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step, mu_gdp

RULES = ("auto", "mixed", "caps", "basic")
PID = "one person (column pid)"


def gaussian_delta(eps, mu):
    """The curve of a Gaussian mechanism, also at eps < 0 (Balle and Wang 2018, Theorem 5)."""
    if mu == 0.0:
        return max(0.0, 1.0 - math.exp(eps))
    a, b = norm.logcdf(mu / 2.0 - eps / mu), eps + norm.logcdf(-mu / 2.0 - eps / mu)
    return max(0.0, math.exp(a) - math.exp(b)) if max(a, b) < 0.1 else 0.0


def brute_delta(steps, eps, twice=False):
    """delta(eps) of the composition, every atom by itself; twice: a removal and an addition."""
    mu2, atoms, finite, failures = 0.0, [(0.0, 1.0)], 1.0, 0.0
    for step in steps:
        m, k = step.mechanism, 2 if twice else 1
        failures += step.failure
        if isinstance(m, Gaussian):
            mu2 += (k * m.mu) ** 2
            continue
        e = k * m.eps
        high = math.exp(e) / (1.0 + math.exp(e))
        if isinstance(m, Approximate):
            # P <= e^e Q + d and Q <= e^e R + d: d (1 + e^e) of P need not lie below e^2e R
            finite *= 1.0 - m.delta * (1.0 + math.exp(m.eps) if twice else 1.0)
        atoms = [
            (loss + sign * e, mass * (high if sign > 0 else 1.0 - high))
            for (loss, mass), sign in itertools.product(atoms, (1, -1))
        ]
    mu = math.sqrt(mu2)
    tail = math.fsum(mass * gaussian_delta(eps - loss, mu) for loss, mass in atoms)
    return failures + (1.0 - finite) + finite * tail


def random_steps(rng, delta, kinds="gpaf"):
    """One call: one to three mechanisms, small beside a budget of eps 2."""
    steps = []
    for i in range(rng.integers(1, 4)):
        kind = kinds[rng.integers(len(kinds))]
        size = float(rng.choice([0.02, 0.1, 0.4]))
        lost = float(delta * 10.0 ** rng.uniform(-3, -0.7))
        steps.append(
            {
                "g": lambda i=i, s=size: Step(f"g{i}", Gaussian(s)),
                "p": lambda i=i, s=size: Step(f"p{i}", Pure(s)),
                "a": lambda i=i, s=size, x=lost: Step(f"a{i}", Approximate(s, x)),
                "f": lambda i=i, s=size, x=lost: Step(f"f{i}", Gaussian(s), failure=x),
            }[kind]()
        )
    return tuple(steps)


def promised(steps, **more):
    """A call that asks for what its steps come to, at an eps of its own."""
    free = Guarantee(steps, 30.0, 1.0)
    eps = sum(getattr(s.mechanism, "eps", 4.0 * getattr(s.mechanism, "mu", 0.0)) for s in steps)
    return Guarantee(steps, eps, free.delta_at(eps) * (1 + 1e-12), **more)


@pytest.mark.parametrize("seed", range(60))
def test_the_composition_is_the_brute_force(seed):
    rng = np.random.default_rng(seed)
    steps = [s for _ in range(3) for s in random_steps(rng, 1e-3)]
    found = Guarantee(tuple(steps), 50.0, 1.0)
    for eps in (0.0, 0.3, 1.0, 2.5):
        exact = brute_delta(steps, eps)
        assert found.delta_at(eps) == pytest.approx(min(1.0, exact), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("relation", "stated"),
    [("replace", "replace"), ("add-remove", "add-remove"), ("replace", "add-remove")],
)
@pytest.mark.parametrize("unit", ["record", PID])
def test_what_is_admitted_fits_by_brute_force(rule, relation, stated, unit):
    """And what is refused changes nothing: refusals depend on delta as well as on eps."""
    twice = relation != stated
    tight = refused = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        eps, delta = float(rng.choice([0.5, 2.0])), float(rng.choice([1e-6, 1e-3]))
        budget = Budget(eps, delta, rule=rule, relation=relation, unit=unit)
        kinds = "gpa" if twice else str(rng.choice(["gpaf", "g", "p", "gf"]))
        steps = []
        for k in range(14):
            own = random_steps(rng, delta, kinds)
            call = promised(own, relation=stated, unit=unit)
            before = budget.account
            try:
                budget.charge(str(k), call)
            except BudgetExceededError:
                refused += 1
                assert budget.account == before and budget.account.calls == before.calls
                continue
            if sum(not isinstance(s.mechanism, Gaussian) for s in (*steps, *own)) > 13:
                break  # 2^13 atoms are enough
            steps += own
        if not steps:
            continue
        came_to = brute_delta(steps, eps, twice)
        assert came_to <= delta * (1 + 1e-8)
        tight += came_to > 0.02 * delta
    assert refused and (tight or rule == "basic" or twice)  # budgets do fill up


def dominated(call, entries, relation_delta):
    for entry in entries:
        for e in np.linspace(0.0, 6.0, 41):
            top = entry.failure + gaussian_delta(e - entry.pure, math.sqrt(entry.mu2))
            assert relation_delta(float(e)) <= top * (1 + 1e-8) + 1e-15, entry


@pytest.mark.parametrize("seed", range(40))
def test_every_description_of_a_call_lies_above_its_curve(seed):
    """Whichever the accountant picks: simple steps, and profiles with failures beside them."""
    rng = np.random.default_rng(100 + seed)
    steps = random_steps(rng, 1e-3)
    if seed % 2:  # not simple: a curve, covered by a Gaussian plus a failure
        profile = Step("c", tilt_profile(PoissonLoss(1.0), 0.3, math.expm1(0.01), "replace"), failure=1e-5 * (seed % 4))
        steps = (profile, *(s for s in steps if isinstance(s.mechanism, Gaussian)))
    call = promised(steps)
    entries = entries_of(call, "replace", "record")
    assert len(entries) >= 3
    dominated(call, entries, call.delta_at)
    assert {(e.eps, e.delta) for e in entries} == {(call.eps, call.delta)}


@pytest.mark.parametrize("seed", range(20))
def test_every_description_under_the_other_relation_lies_above_its_curve(seed):
    rng = np.random.default_rng(300 + seed)
    steps = random_steps(rng, 1e-3, "gpa" if seed % 2 else "g")
    call = promised(steps, relation="add-remove")
    entries = entries_of(call, "replace", "record")
    dominated(call, entries, lambda e: brute_delta(steps, e, twice=True))
    with pytest.raises(BudgetError, match="implies nothing"):
        entries_of(promised(steps), "add-remove", "record")


def test_rows_are_charged_the_pair_that_is_stated_for_them():
    """A table noised by attribute, on a budget of rows: its pair for a whole row, nothing less."""
    g = Guarantee(
        (Step("t", Gaussian(0.2)),), 1.0, 1e-6, unit="attribute", record_pair=(2.5, 3e-6)
    )
    entries = entries_of(g, "replace", "record")
    assert [(e.eps, e.delta) for e in entries] == [(2.5, 3e-6)] * 2
    assert (entries[0].mu2, entries[0].pure, entries[0].failure) == (0.0, 2.5, 3e-6)
    # eps-DP is mu-GDP of mu = 2 Phi^-1(e^eps/(1 + e^eps))
    mu = 2.0 * norm.ppf(math.exp(2.5) / (1.0 + math.exp(2.5)))
    assert entries[1].mu2 == pytest.approx(mu * mu, rel=1e-8)
    assert (entries[1].pure, entries[1].failure) == (0.0, 3e-6)
    with pytest.raises(BudgetExceededError):
        Budget(2.4, 1e-5).charge("t", g)
    with pytest.raises(BudgetExceededError):  # for its delta alone
        Budget(2.6, 2e-6).charge("t", g)
    with pytest.raises(BudgetError, match="row-level pair"):
        entries_of(g, "add-remove", "record")


@pytest.mark.parametrize("rule", ["basic", "mixed", "caps", "auto"])
def test_delta_alone_refuses(rule):
    """Plenty of eps; failures that do not fit, at the first charge and at later ones."""
    call = Guarantee((Step("a", Approximate(0.01, 6e-7)),), 0.01, 6e-7)
    with pytest.raises(BudgetExceededError):
        Budget(5.0, 5e-7, rule=rule).charge("a", call)
    budget = Budget(5.0, 1e-6, rule=rule)
    tests = Guarantee((Step("t", Gaussian(0.01), failure=6e-7),), 0.1, 6.1e-7)
    admitted = 0
    for name, one in (("a", call), ("b", call), ("t", tests), ("t2", tests)):
        try:
            budget.charge(name, one)
            admitted += 1
        except BudgetExceededError:
            pass
    assert admitted == 1


def test_caps_on_delta_beyond_the_budget_hold_nothing():
    call = Guarantee((Step("p", Pure(0.1)),), 0.1, 0.0)
    with pytest.raises(BudgetExceededError):
        Account(1.0, 1e-6, rule="caps", cap_eps=0.5, cap_delta=2e-6).admit(call)
    after, _ = Account(1.0, 1e-6, rule="caps", cap_eps=0.5, cap_delta=1e-6).admit(call)
    assert after.caps is not None and after.caps[0] == 0.0  # nothing is left for mu


@pytest.mark.parametrize("seed", range(12))
def test_eps_spent_is_true_at_any_delta(seed):
    """Brute force stays below, at deltas smaller than the sum of the calls' own as well."""
    rng = np.random.default_rng(seed)
    budget, steps = Budget(8.0, 1e-3), []
    for k in range(4):
        own = random_steps(rng, 1e-4, "gf" if seed % 2 else "gpa")
        budget.charge(str(k), promised(own))
        steps += own
    pairs = sum(c.guarantee.delta for c in budget.charges)
    for delta in (0.3 * pairs, pairs * (1 - 1e-9), pairs * 1.01, 1e-3):
        eps = budget.eps_spent(delta)
        if not math.isfinite(eps):  # more failures than delta
            assert brute_delta(steps, 40.0) > delta * (1 - 1e-9)
            continue
        assert brute_delta(steps, eps) <= delta * (1 + 1e-6)
        if eps > 0.0 and eps < min(sum(c.guarantee.eps for c in budget.charges), 7.9):
            assert brute_delta(steps, eps * 0.999) >= delta * (1 - 1e-6)  # and no more than needed
    assert joint([c.guarantee for c in budget.charges], pairs).eps == pytest.approx(
        joint([Guarantee(tuple(steps), 50.0, 1.0)], pairs).eps, rel=1e-6
    )


def test_the_oracle_can_tell():
    """Twice the mu of a budget, and a failure that is left out, are seen."""
    mu = mu_gdp(1.0, 1e-6)
    assert brute_delta([Step("g", Gaussian(mu))], 1.0) == pytest.approx(1e-6, rel=1e-6)
    assert brute_delta([Step("g", Gaussian(1.01 * mu))], 1.0) > 1.05e-6
    assert brute_delta([Step("g", Gaussian(mu / 2), failure=1e-6)], 1.0) > 1e-6
    assert brute_delta([Step("p", Pure(1.0))], 1.0) == pytest.approx(0.0, abs=1e-15)
    assert brute_delta([Step("p", Pure(1.001))], 1.0) > 1e-4
