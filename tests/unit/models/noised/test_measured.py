"""Releases measure declared ranges first, and clip at a few released scales."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import RequestError
from dpmodels.models.noised.release import LOOK_DELTA, LOOK_EPS
from dpmodels.privacy.mechanisms import eps_gdp

N = 60_000
WIDE = dp.Schema(a=dp.Real(-100, 400), b=dp.Real(0, 1000), y=dp.Real(-500, 500), t=dp.Binary())


def table(n=N):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": 150 + 10 * rng.normal(size=n), "b": rng.uniform(10, 60, n)})
    frame["t"] = (rng.random(n) < 0.4).astype(int)
    frame["y"] = 2.0 * frame.a - frame.b + 10 * rng.normal(size=n) - 250
    return frame


def released(**options):
    given = {"eps": 4.0, "delta": 1e-6, "schema": WIDE, "accept_no_estimate": True} | options
    return dp.dp_release("~ a + b + t + y", table(), **given)


def test_a_release_clips_at_four_released_scales():
    with noise_source(ZeroNoise()):
        rel = released()
    ends = dict(zip(rel.names, zip(rel.lower, rel.upper, strict=True), strict=True))
    assert 35 < 150 - ends["a"][0] < 45
    assert 35 < ends["a"][1] - 150 < 45
    assert ends["b"][1] < 150  # a uniform number: its scale is that of its outer tenth
    assert ends["t"] == (0.0, 1.0)  # two values tell no scale
    assert set(rel.bought) == {"a", "b", "y"}
    assert "released" in str(rel.summary())


def test_its_steps_are_a_small_part_of_the_budget_and_stand_in_the_ledger():
    rel = released()
    names = [step.name for step in rel.guarantee.steps]
    assert names[:2] == ["places of values", "scales of values"]
    part = sum(step.share for step in rel.guarantee.steps[:2])
    assert 0 < part <= LOOK_EPS
    mus = [step.mechanism.mu for step in rel.guarantee.steps[:2]]
    assert eps_gdp(float(np.hypot(*mus)), LOOK_DELTA * 1e-6) == pytest.approx(4.0 * part, rel=1e-6)
    assert rel.guarantee.eps_at(1e-6) <= 4.0
    assert 4.0 * (1 - LOOK_EPS) <= rel.plan.eps < 4.0


def test_a_record_pays_for_the_scales_too():
    rel = released(level="attribute", eps=2.0)
    alone = released(level="attribute", eps=2.0, rescale=False)
    eps, delta = rel.guarantee.record_pair
    assert delta == pytest.approx(alone.guarantee.record_pair[1] + LOOK_DELTA * 1e-6)
    assert eps - rel.plan.record_pair[0] == pytest.approx(2.0 - rel.plan.eps)


@pytest.mark.parametrize(
    ("n", "options"),
    [(N, {"rescale": False}), (500, {}), (N, {"delta": 0.0, "noise": "laplace"})],
)
def test_nothing_is_measured_without_leave_rows_or_delta(n, options):
    given = {"eps": 4.0, "delta": 1e-6, "schema": WIDE, "accept_no_estimate": True} | options
    rel = dp.dp_release("~ a + b + t + y", table(n), **given)
    assert len(rel.guarantee.steps) == 1
    assert rel.lower.tolist() == [-100.0, 0.0, 0.0, -500.0]
    assert not rel.bought


@pytest.mark.parametrize("wrong", ["yes", 0.5, float("nan"), float("inf"), -2, None])
def test_other_numbers_of_scales_are_refused(wrong):
    with pytest.raises(RequestError, match="rescale must be True"):
        released(rescale=wrong)


def test_a_further_batch_has_the_ranges_of_the_first_and_pays_for_its_noise_alone():
    budget = dp.Budget(8.0, 1e-5, rule="basic")
    rel = released(budget=budget)
    more = rel.append(table(1000), budget=budget)
    assert more.lower.tolist() == rel.lower.tolist()
    assert [step.name for step in budget.charges[-1].guarantee.steps] == ["noised table"]


@pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")
def test_wide_ranges_have_estimates_again():
    """False alarm below 1e-4: ten fits whose signals are 15 and more of their errors."""
    frame, found = table(), []
    for seed in range(10):
        fit = dp.dp_ols(
            "y ~ a + b", frame, eps=8, delta=1e-6, schema=WIDE, method="drcl", seed=seed,
            rescale=2, accept_no_estimate=True,
        )  # fmt: skip
        found.append((fit.params["a"] - 2.0) / fit.bse["a"])
    assert np.isfinite(found).all()
    assert np.sum(np.abs(found) > 2.6) <= 3


def test_the_plan_names_the_steps():
    plan = dp.plan(
        "y ~ a + b", WIDE, n=N, eps=4, delta=1e-6, verb="dp_ols", method="drcl",
        accept_no_estimate=True,
    )  # fmt: skip
    assert "scales of values" in str(plan)


def test_bought_ranges_beside_noise_of_a_long_tail_compose():
    """Points of a profile lie close where eps is small: 2.8 times delta, and refused, before."""
    schema = dp.Schema(y=dp.Real(0, 1), a=dp.Real(), b=dp.Real(0, 1))
    plan = dp.plan(
        "y ~ a + b", schema, n=3000, eps=0.2, delta=0.015, verb="dp_ols", method="drcl",
        noise="sl", accept_no_estimate=True,
    )  # fmt: skip
    assert 0.5 < plan.guarantee.delta_at(0.2) / 0.015 <= 1.0
