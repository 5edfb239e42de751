"""The one door: every call that reads rows is checked, warned, charged and guarded alike."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import _testing
from dpmodels import door as private
from dpmodels.errors import (
    BudgetError,
    DPModelsWarning,
    NotPrivateWarning,
    PrivacyBugError,
    PrivateStageError,
    RequestError,
    UtilityWarning,
)
from dpmodels.models.selection import select

N = 60
BOUNDS = {"y": (0, 1), "x": (0, 1), "z": (0, 1)}


def frame(n=N):
    rng = np.random.default_rng(0)
    return pd.DataFrame({c: rng.uniform(size=n) for c in BOUNDS})


def release():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_release(frame(), ["x"], eps=1, delta=1e-6, bounds=BOUNDS, seed=0)


def best(**more):
    eps, delta = more.pop("eps", 1), more.pop("delta", 1e-6)
    runs = [lambda mu, noise: (0.0, mu)]
    return select(runs, eps=eps, delta=delta, mean=3.0, relation="replace", **more)


def pair(more):
    return {"eps": 1, "delta": 1e-6, **more}


#: Every way to private rows: name -> (call, whether its number of units is public).
CALLS = {
    "ols": (lambda **k: dp.dp_ols("y ~ x", frame(), bounds=BOUNDS, **pair(k)), True),
    "mean": (lambda **k: dp.dp_mean("y ~ 1", frame(), bounds=BOUNDS, **pair(k)), True),
    "pca": (lambda **k: dp.dp_pca("~ x + y + z", frame(), bounds=BOUNDS, **pair(k)), True),
    "gptr": (
        lambda **k: dp.dp_gptr(
            lambda Z, noise: [0.0], lambda Z: 0.0, "y ~ 1", frame(), sensitivity=1e-3,
            bounds=BOUNDS, **pair(k),
        ),
        True,
    ),
    "release": (lambda **k: dp.dp_release(frame(), ["x"], bounds=BOUNDS, **pair(k)), True),
    "append": (lambda **k: release().append(frame(20), **k), True),
    "vote": (lambda **k: dp.dp_vote(["a"] * N, ["a", "b"], **pair(k)), True),
    "pate": (
        lambda **k: dp.dp_pate(np.zeros((N, 2), dtype=int), classes=2, **pair(k)), True,
    ),
    "select": (best, False),
}  # fmt: skip


@pytest.fixture(params=sorted(CALLS))
def call(request):
    return CALLS[request.param][0]


def test_a_budget_that_is_none_is_one_error_everywhere(call):
    """It was a BudgetError in fits and releases, a RequestError in votes, and no error at all."""
    with pytest.raises(BudgetError, match=r"must be a dp\.Budget"):
        call(budget=3)


@pytest.mark.parametrize("seed", [True, 1.0, "1"])
def test_a_seed_that_is_none_is_one_error_everywhere(call, seed):
    budget = dp.Budget(10, 1e-4)
    with pytest.raises(RequestError, match="seed must be a whole number"):
        call(seed=seed, budget=budget)
    assert budget.charges == ()


def test_a_seed_is_told_and_marks_the_charge(call, quiet):
    budget = dp.Budget(10, 1e-4)
    with pytest.warns(NotPrivateWarning, match="seed= was given"):
        call(seed=1, budget=budget)
    assert [c.guarantee.seeded for c in budget.charges] == [True]


@pytest.mark.parametrize("name", sorted(n for n, (_, n_public) in CALLS.items() if n_public))
def test_a_delta_that_publishes_a_record_is_told_everywhere(name, quiet):
    """Only fits said so."""
    if name == "append":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            rel = dp.dp_release(frame(), ["x"], eps=1, delta=1.0 / (N + 10), bounds=BOUNDS)
        with pytest.warns(UtilityWarning, match=r"not below 1/n = 0\.0125"):
            rel.append(frame(20))
        return
    with pytest.warns(UtilityWarning, match="published outright"):
        CALLS[name][0](delta=1.0 / N)


def test_warnings_point_at_the_line_of_the_caller(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(seed=1)
    assert seen and {w.filename for w in seen if w.category is NotPrivateWarning} == {__file__}


class _Breaks:
    """Noise that fails at the first draw: what is charged by then was charged before it."""

    private = True

    def __getattr__(self, name):
        raise ValueError("sentinel-4711")


def test_the_charge_comes_before_the_first_draw_and_a_crash_leaves_it(call, quiet):
    rel = release()
    budget = dp.Budget(10, 1e-4)
    with (
        _testing.noise_source(_Breaks(), reraise=False),
        pytest.raises(PrivateStageError, match="The charge stands") as caught,
    ):
        if call is CALLS["append"][0]:
            rel.append(frame(20), budget=budget)
        else:
            call(budget=budget)
    assert len(budget.charges) == 1
    assert "4711" not in str(caught.value) and caught.value.__context__ is None


def test_the_enclosing_block_pays(call, quiet):
    rel = release()
    with dp.Budget(10, 1e-4) as budget:
        rel.append(frame(20)) if call is CALLS["append"][0] else call()
    assert len(budget.charges) == 1


def test_one_charge_opens_the_door_once():
    from dpmodels.models.votes import vote_plan
    from dpmodels.own.voting import release_winner

    door = private.opened("twice", vote_plan(["a", "b"], N, 1.0, 1e-6), None, None)
    private.released(door, release_winner, ["a"] * N)
    with pytest.raises(PrivacyBugError, match="ran already"):
        private.released(door, release_winner, ["a"] * N)


def test_an_overrun_budget_is_met_before_a_stage():
    from dpmodels.models.votes import vote_plan

    with pytest.raises(dp.errors.BudgetExceededError):
        private.opened("big", vote_plan(["a", "b"], N, 2.0, 1e-6), dp.Budget(1, 1e-5), None)


def test_what_came_of_a_test_is_in_the_ledger_of_votes_too(quiet):
    """dp_pate paid for its test and the ledger did not say what came of it."""
    budget = dp.Budget(10, 1e-4)
    mixed = np.arange(4 * 100).reshape(4, 100) % 10
    answer = dp.dp_pate(mixed, classes=10, eps=1, delta=1e-6, budget=budget, seed=1)
    assert not answer.released
    assert "NO REPLY" in str(budget.report())
