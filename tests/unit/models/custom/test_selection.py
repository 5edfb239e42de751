"""dp_select: the exact curve of its rule, one charge, and nothing of the runs in the open."""

import importlib.machinery
import math
import sys
import threading
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import BudgetError, NoReplyWarning, NotPrivateWarning, RequestError
from dpmodels.own.best import pair_per_candidate
from dpmodels.privacy.run import RUNS_NOTE

pytestmark = pytest.mark.usefixtures("quiet")


def best_of_geometric(p, stop):
    """Law of the best of K runs with law p on outputs ordered from worst to best, exactly."""
    worse = np.cumsum(p)  # at most this good
    below = worse - p

    def at_most(F):
        return stop * F / (1.0 - (1.0 - stop) * F)

    return at_most(worse) - at_most(below)


def curve(p, q, eps):
    return float(np.maximum(p - math.exp(eps) * q, 0.0).sum())


@pytest.mark.parametrize("eps", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("mean", [2.0, 30.0])
def test_the_pair_of_a_run_is_enough(eps, mean):
    """Leaky randomised response, the leak scored best, worst or in the middle: delta(eps) exactly."""
    delta = 1e-3
    e, d = pair_per_candidate(eps, delta, mean)
    yes = math.exp(e) / (1.0 + math.exp(e))
    found = []
    for order in ([0, 1, 2, 3], [2, 0, 1, 3], [3, 1, 0, 2], [1, 0, 3, 2], [0, 3, 2, 1]):
        p = np.array([d, (1 - d) * yes, (1 - d) * (1 - yes), 0.0])
        q = np.array([0.0, (1 - d) * (1 - yes), (1 - d) * yes, d])
        assert curve(p, q, e) == pytest.approx(d, rel=1e-9)
        a, b = best_of_geometric(p[order], 1 / mean), best_of_geometric(q[order], 1 / mean)
        assert a.sum() == pytest.approx(1.0)
        found += [curve(a, b, eps), curve(b, a, eps)]
    assert max(found) <= delta
    assert max(found) >= 0.3 * delta / (1 + math.exp(eps))  # the leaks of all runs are needed


def test_three_times_a_pure_run_is_reached():
    """A rare output with a better one that is seldom: likelier, and beaten less often, twice."""
    e, _ = pair_per_candidate(0.3, 1e-6, 2.0)
    rare, better = 1e-9, 1e-3
    p = np.array([1 - rare - better, rare, better])
    q = np.array([0.0, rare * math.exp(e), better * math.exp(-e)])
    q[0] = 1 - q.sum()
    a, b = best_of_geometric(p, 1e-7), best_of_geometric(q, 1e-7)
    assert 2.9 * e < abs(math.log(b[1] / a[1])) <= 0.3


def test_one_charge_whatever_the_candidates_do():
    def fit(eps, delta, noise):
        found = dp.dp_vote(["a"] * 90 + ["b"] * 9, ["a", "b"], eps=eps, delta=delta)
        return 0.0, found.label

    with dp.Budget(2, 1e-5) as budget:
        chosen = dp.dp_select([fit], eps=2, delta=1e-6, mean=5.0)
        dp.dp_vote(["a"] * 9, ["a", "b"], eps=1e-3, delta=1e-9, budget=dp.Budget(1, 1e-6))
    assert chosen.output == "a" and chosen.reply
    assert [c.call for c in budget.charges] == ["dp_select(...)"]
    with pytest.raises(BudgetError):
        dp.dp_select([fit], eps=2, delta=1e-6, budget=budget)


@pytest.mark.parametrize(
    "kind", [ValueError, SystemExit, "none", "nan", "text", "one number", "warning"]
)
@pytest.mark.parametrize("proof", ["pair", "gdp"])
def test_a_run_that_fails_is_no_reply(kind, proof):
    def odd(*given):
        if kind == "warning":
            warnings.warn("a private cell", NoReplyWarning, stacklevel=1)
            return 1.0, "good"
        if isinstance(kind, type):
            raise kind("a private cell")
        return {"none": None, "nan": (math.nan, 1), "text": ("x", 1), "one number": 3.0}[kind]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = dp.dp_select([odd], eps=1, delta=1e-6, proof=proof, mean=4)
    assert chosen.output == ("good" if kind == "warning" else None)
    assert chosen.reply == (kind == "warning")
    assert "private cell" not in repr(chosen)


def test_the_better_candidate_is_chosen_and_told_its_budget():
    seen = []

    def candidate(level):
        def run(eps, delta, noise):
            seen.append((eps, delta))
            return float(level), level

        return run

    chosen = dp.dp_select(
        [candidate(v) for v in range(3)], eps=3, delta=1e-6, relation="add-remove", seed=2
    )
    assert chosen.output == 2
    assert set(seen) == {(1.0, 1e-6 / ((1 + math.exp(3)) * 30))}
    assert chosen.privacy.relation == "add-remove" and chosen.privacy.seeded
    assert RUNS_NOTE in chosen.privacy.notes
    assert chosen.privacy.delta_at(3.0) == pytest.approx(1e-6)
    assert "NOT PRIVATE" in repr(chosen)


@pytest.mark.parametrize(
    "odd",
    [{"candidates": []}, {"candidates": "x"}, {"candidates": [3]}, {"mean": 1}, {"mean": True},
     {"proof": "rdp"}, {"relation": "swap"}, {"eps": 0}],
)  # fmt: skip
def test_bad_arguments(odd):
    given = {"candidates": [lambda *a: None], "eps": 1, "delta": 1e-6} | odd
    with pytest.raises(RequestError):
        dp.dp_select(given.pop("candidates"), **given)


def test_candidates_may_be_tested_calls_of_the_package(quiet):
    """A call with a test notes its outcome: inside a choice nothing is noted, and it replies."""
    data = pd.DataFrame({"y": np.linspace(0, 1, 4000)})

    def run(eps, delta, noise):
        fit = dp.dp_eptr(
            lambda x: [x.mean()], lambda x: 1e6, 1 / 4000, "y ~ 1", data, eps=eps, delta=delta,
            bounds={"y": (0, 1)}, seed=1,
        )  # fmt: skip
        return 1.0, float(fit.params.iloc[0])

    budget = dp.Budget(5, 1e-5)
    chosen = dp.dp_select([run], eps=3, delta=1e-6, mean=3, budget=budget, seed=2)
    assert chosen.reply and abs(chosen.output - 0.5) < 0.1
    assert len(set(budget.to_frame()["call"])) == 1


@pytest.mark.parametrize("proof", ["pair", "gdp"])
def test_a_seeded_candidate_marks_the_choice(proof):
    """Its noise is known to whoever knows the seed: nothing is promised, in the ledger neither."""
    data = pd.DataFrame({"y": np.linspace(0, 1, 400)})

    def run(*given):
        fit = dp.dp_mean("y ~ 1", data, eps=0.1, delta=1e-7, bounds={"y": (0, 1)}, seed=1)
        return 1.0, float(fit.params.iloc[0])

    budget = dp.Budget(5, 1e-5)
    with pytest.warns(NotPrivateWarning, match="a candidate was given a seed"):
        chosen = dp.dp_select([run], eps=3, delta=1e-6, mean=3, proof=proof, budget=budget)
    assert chosen.reply and chosen.privacy.seeded and "NOT PRIVATE" in repr(chosen)
    assert "NOT PRIVATE: a candidate was seeded" in budget.charges[0].notes.values()
    assert "NOT PRIVATE" in str(budget)


def test_no_bar_tells_how_often_candidates_ran(monkeypatch, quiet):
    """Bars of rows and of corrected fits alike: one a run would count the runs."""
    shown = []

    class Bar:
        total = 0

        def __init__(self, *args, **kw):
            shown.append(kw)

        def __getattr__(self, name):
            return lambda *args, **kw: None

    module = types.ModuleType("tqdm")
    module.tqdm, module.__spec__ = Bar, importlib.machinery.ModuleSpec("tqdm", None)
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", module)
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    x = np.linspace(0, 1, 400)
    data = pd.DataFrame({"y": x, "x": x[::-1]})
    bounds = {"y": (0, 1), "x": (0, 1)}

    def run(*given):
        common = {"eps": 0.1, "bounds": bounds, "progress": True}
        dp.dp_mean("y ~ 1", data, delta=1e-7, **common)
        dp.dp_ols("y ~ x", data, delta=1e-7, method="sdrcl", accept_no_estimate=True, **common)
        return 1.0, 1

    run()
    assert shown  # bars are there outside
    shown.clear()
    assert dp.dp_select([run], eps=3, delta=1e-6, mean=3).reply
    assert not shown
    run()
    assert shown


def spending(**spent):
    """A candidate that calls a verb with a pair of its own, once per entry."""
    data = pd.DataFrame({"y": np.linspace(0, 1, 400)})

    def run(*given):
        for eps, delta in zip(spent["eps"], spent["delta"], strict=True):
            fit = dp.dp_mean("y ~ 1", data, eps=eps, delta=delta, bounds={"y": (0, 1)})
        return 1.0, float(fit.params.iloc[0])

    return run


@pytest.mark.parametrize(
    ("proof", "eps", "delta"),
    [
        ("pair", [200.0], [0.01]),
        ("pair", [0.5, 0.6], [1e-10] * 2),
        ("pair", [0.5], [1e-4]),
        ("gdp", [200.0], [0.01]),
        ("gdp", [2.0, 2.0], [1e-6] * 2),
    ],
)
def test_a_candidate_that_overspends_marks_the_choice(proof, eps, delta):
    """The inner calls of a run are added up, in eps and in delta."""
    budget = dp.Budget(9, 1e-3)
    with pytest.warns(NotPrivateWarning, match="NOT PROVED"):
        chosen = dp.dp_select(
            [spending(eps=eps, delta=delta)], eps=3, delta=1e-6, mean=3, proof=proof, budget=budget
        )
    assert "NOT PROVED" in chosen.privacy.statement()
    assert any("NOT PROVED" in note for note in budget.charges[0].notes.values())


def test_an_honest_candidate_is_not_marked():
    def run(eps, delta, noise):
        return spending(eps=[eps / 2] * 2, delta=[delta / 2] * 2)()

    chosen = dp.dp_select([run], eps=3, delta=1e-6, mean=3)
    assert "NOT PROVED" not in chosen.privacy.statement()


# -- calls of a candidate by another route -----------------------------------------------------


ROWS = pd.DataFrame({"y": np.linspace(0, 1, 400), "id": np.arange(400)})
OTHER = {}  # a budget that a candidate names


def _mean(eps, delta, **more):
    fit = dp.dp_mean("y ~ 1", ROWS, eps=eps, delta=delta, schema={"y": dp.Real(0, 1)}, **more)
    return 1.0, float(fit.params.iloc[0])


def _in_a_thread(eps, delta, **more):
    found = []
    thread = threading.Thread(target=lambda: found.append(_mean(eps, delta, **more)))
    thread.start()
    thread.join()
    return found[0]


def _nested(eps, delta, **more):
    return 1.0, dp.dp_select([lambda e, d, noise: _mean(e, d)], eps=eps, delta=delta, mean=2, **more).output


def _in_a_block(eps, delta):
    with OTHER["budget"]:
        return _mean(eps, delta)


ROUTES = {
    "plain": _mean,
    "budget": lambda e, d: _mean(e, d, budget=OTHER["budget"]),
    "block": _in_a_block,
    "thread": _in_a_thread,
    "nested": _nested,
    "nested budget": lambda e, d: _nested(e, d, budget=OTHER["budget"]),
    "budget in the nested": lambda e, d: (
        1.0, dp.dp_select([lambda a, b, noise: _mean(a, b, budget=OTHER["budget"])], eps=e, delta=d, mean=2).output
    ),
}  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
def test_every_call_of_a_candidate_counts(route):
    """Whatever its budget, thread or nesting: it is within the run's budget, or the choice is marked."""
    OTHER["budget"] = dp.Budget(1e4, 0.5)
    for factor in (1.0, 30.0):
        chosen = dp.dp_select(
            [lambda e, d, noise, f=factor: ROUTES[route](f * e, d)], eps=3, delta=1e-4, mean=3, seed=5
        )
        assert chosen.reply
        marked = any("NOT PROVED" in str(note) for note in chosen.privacy.notes)
        assert marked == (factor > 1), factor
    assert OTHER["budget"].charges == ()


def test_what_is_wrong_in_a_choice_within_is_wrong_in_the_choice():
    def within(eps, delta, noise):
        inner = dp.dp_select([lambda e, d, noise: _mean(40 * e, d)], eps=eps, delta=delta, mean=2)
        return 1.0, inner.output

    def seeded(eps, delta, noise):
        return 1.0, dp.dp_select([lambda e, d, noise: _mean(e, d, seed=1)], eps=eps, delta=delta, mean=2).output

    chosen = dp.dp_select([within], eps=3, delta=1e-4, mean=3)
    assert any("NOT PROVED" in str(note) for note in chosen.privacy.notes)
    with pytest.warns(NotPrivateWarning):
        assert dp.dp_select([seeded], eps=3, delta=1e-4, mean=3).privacy.seeded


@pytest.mark.parametrize("more", [{"unit": "id"}, {"relation": "add-remove", "n_guess": 400}])
def test_another_unit_or_relation_is_marked(more):
    def candidate(eps, delta, noise):
        dp.dp_ols("y ~ 1", ROWS, eps=eps, delta=delta, schema={"y": dp.Real(0, 1)}, **more)
        return 1.0, 2.0

    chosen = dp.dp_select([candidate], eps=3, delta=1e-4, mean=3, seed=5)
    assert chosen.reply and any("NOT PROVED" in str(note) for note in chosen.privacy.notes)


def test_a_ledger_in_another_thread_does_not_count_the_runs():
    """Refused before anything is read, and reported; after the choice the thread may call again."""
    budget, said = dp.Budget(1e4, 0.5), []

    def elsewhere():
        try:
            _mean(9.0, 1e-9, budget=budget)
        except BudgetError as error:
            said.append(str(error))

    def candidate(eps, delta, noise):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return 1.0, 2.0

    chosen = dp.dp_select([candidate], eps=3, delta=1e-4, mean=3, seed=5)
    assert said and "dp_select is running" in said[0] and budget.charges == ()
    assert any("NOT PROVED" in str(note) for note in chosen.privacy.notes)
    elsewhere()
    assert len(budget.charges) == 1
