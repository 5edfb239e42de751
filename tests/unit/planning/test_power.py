"""Power of a coefficient from a plan: against what fits come to, and what is refused."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

SCHEMA = dp.Schema(x=dp.Real(-1, 1), z=dp.Real(0, 2), y=dp.Real(-4, 4), e=dp.Binary(),
                   g=dp.Levels(["a", "b"]))  # fmt: skip
CALL = {"n": 4000, "eps": 1, "delta": 1e-6}
SD = {"x": 2 / 12**0.5, "y": 1.0}


def said(**more):
    plan = dp.plan("y ~ x + z", SCHEMA, want="power", **{**CALL, **more})
    (line,) = [a for a in plan.advice if a.startswith("x: power")]
    assert line in " ".join(str(plan).split())
    return float(re.search(r"power ([.\d]+) to find", line).group(1)), line


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("effect", [0.06, 0.12, 0.2])
def test_the_power_of_a_plan_is_near_that_of_fits(effect):
    """60 fits a cell, seeds fixed; within .2, three sds of a share of 60 at one half."""
    planned, _ = said(effect={"x": effect}, sd=SD)
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d = pd.DataFrame({"x": rng.uniform(-1, 1, 4000), "z": rng.uniform(0, 2, 4000)})
        d["y"] = effect * d["x"] + rng.normal(0, 1, 4000)
        fit = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, schema=SCHEMA, seed=seed)
        found += fit.pvalues["x"] < 0.05
    assert abs(found / 60 - planned) < 0.2


def test_it_says_what_power_point_eight_would_take():
    power, line = said(effect={"x": 0.1}, sd=SD)
    assert 0.1 < power < 0.8
    rows = int(re.search(r"n = (\d+) at this eps", line).group(1))
    assert said(effect={"x": 0.1}, sd=SD, n=rows)[0] >= 0.79
    eps = float(re.search(r"eps = ([.\d]+) at this n", line).group(1))
    assert said(effect={"x": 0.1}, sd=SD, eps=eps)[0] >= 0.79
    least = float(re.search(r"an effect of ([.\d]+)", line).group(1))
    assert said(effect={"x": least}, sd=SD)[0] >= 0.79
    assert said(effect={"x": 2.0}, sd=SD) == (1.0, said(effect={"x": 2.0}, sd=SD)[1])
    assert "would take" not in said(effect={"x": 2.0}, sd=SD)[1]


def test_a_logit_has_power_too():
    plan = dp.plan("e ~ x + g", SCHEMA, verb="dp_glm", family="binomial", want="power",
                   effect={"x": 0.3, "g[T.b]": 0.5}, **CALL)  # fmt: skip
    assert [a.partition(":")[0] for a in plan.advice if "to find" in a] == ["x", "g[T.b]"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, r"effect=\{'x': 0.1\}"),
        ({"effect": 0.1}, r"effect=\{'x': 0.1\}"),
        ({"effect": {"xx": 0.1}}, "Did you mean 'x'"),
        ({"effect": {"x": 0.0}}, "takes a number"),
        ({"effect": {"x": "big"}}, "takes a number"),
        ({"effect": {"x": 0.1}, "sd": {"w": 1}}, "sd= names 'w'"),
        ({"effect": {"x": 0.1}, "sd": {"x": -1}}, "takes a number"),
        ({"effect": {"x": 0.1}, "method": "dpgd"}, "expected errors"),
        ({"want": "pwer", "effect": {"x": 0.1}}, "Did you mean 'power'"),
    ],
)
def test_bad_requests_say_what_to_type(more, says):
    with pytest.raises(RequestError, match=says):
        dp.plan("y ~ x + z", SCHEMA, **{"want": "power", **CALL, **more})


def test_a_plan_draws_its_forecast_over_eps_and_n():
    """Half widths fall in eps and in n; the planned point is on both lines; power rises."""
    pytest.importorskip("matplotlib")
    call = {"n": 4000, "eps": 1.0, "delta": 1e-6, "bounds": {"x": (-1, 1), "z": (0, 1), "y": (-3, 3)}}
    plan = dp.plan("y ~ x + z", **call)
    frame = plan.to_frame(grid=True)
    assert set(frame["term"]) == {"x", "z"} and set(frame["along"]) == {"eps", "n"}
    for _, line in frame.groupby(["along", "term"]):
        assert (np.diff(line["half_width"]) < 0).all() and line["power"].isna().all()
    first, second = plan.plot()
    assert first.get_xlabel() == "eps" and second.get_xlabel() == "n"
    marked = [line for line in first.lines if line.get_marker() == "o"]
    assert len(marked) == 2 and all(line.get_xdata()[0] == pytest.approx(1.0) for line in marked)
    power = dp.plan("y ~ x + z", want="power", effect={"x": 0.2}, **call)
    grid = power.to_frame(grid=True)
    assert set(grid["term"]) == {"x"} and grid["power"].between(0, 1).all()
    assert power.plot()[0].get_ylabel().startswith("power")
    assert pickle.loads(pickle.dumps(plan)).again is None
    with pytest.raises(RequestError, match=r"needs a plan of dp\.plan"):
        dp.plan("y ~ x", n=100, eps=1, delta=1e-6, method="eptr", bounds=call["bounds"]).plot()


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ({"verb": "dp_ols", "formula": "y ~ x + z", "unit": "pid"}, {}),
        ({"verb": "dp_glm", "formula": "e ~ x + z", "unit": "pid", "family": "binomial"}, {}),
        ({"verb": "dp_coxph", "formula": "Surv(t, e) ~ x + z"}, {}),
        ({"verb": "dp_coxph", "formula": "Surv(t, e) ~ x + z", "unit": "pid"}, {}),
    ],
)
def test_people_and_hazards_have_power(call, more):
    """More people, more rows of each, more events and a larger eps give more power."""
    schema = SCHEMA.update(t=dp.Real(0, 10))
    formula = call.pop("formula")

    def power(**given):
        known = {"n": 4000, "eps": 1, "delta": 1e-6, "effect": {"x": 0.15}, **call, **given}
        plan = dp.plan(formula, schema, want="power", **known)
        (line,) = [a for a in plan.advice if a.startswith("x: power")]
        return float(re.search(r"power ([.\d]+) to find", line).group(1))

    now = power()
    assert 0.05 < now < power(n=9000) and now < power(eps=3)
    if "unit" in call and call["verb"] != "dp_coxph":
        assert now < power(rows_per_unit=3.0)
    if call["verb"] != "dp_ols":
        assert power(events=0.1) < power(events=0.4)


def test_errors_of_events_and_counts_follow_their_mean():
    """Expected errors are in proportion to V^1/2 / (dmu/deta), V of sd= where counts have one."""
    schema = SCHEMA.update(k=dp.Real(0, 40))
    call = {"verb": "dp_glm", "n": 20_000, "eps": 1, "delta": 1e-6}

    def expected(formula, **known):
        return dp.plan(formula, schema, **call, **known).expected_se["x"]

    few, half = (expected("e ~ x", events=v) for v in (0.02, 0.5))
    assert few / half == pytest.approx(0.5 / np.sqrt(0.02 * 0.98))
    one, four = (expected("k ~ x", family="poisson", events=v) for v in (1.0, 4.0))
    assert one / four == pytest.approx(2.0)
    wide = expected("k ~ x", family="poisson", events=4.0, sd={"k": 6.0})
    assert wide / four == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("formula", "verb", "events"),
    [("e ~ x", "dp_glm", 1.0), ("e ~ x", "dp_glm", 0.0), ("e ~ x", "dp_glm", "many"),
     ("y ~ x", "dp_ols", 0.3), ("Surv(t, e) ~ x", "dp_coxph", 1.5)],
)  # fmt: skip
def test_means_that_cannot_be_are_refused(formula, verb, events):
    schema = SCHEMA.update(t=dp.Real(0, 10))
    with pytest.raises(RequestError, match="events="):
        dp.plan(formula, schema, verb=verb, n=4000, eps=1, delta=1e-6, events=events)


@pytest.mark.parametrize("known", [{"sd": {"x": 0.2, "y": 0.5}}, {"corr": {("x", "z"): 0.8}}])
def test_errors_a_grid_and_power_are_of_the_same_facts(known):
    """Facts enter an expected error once: half widths and power hold the error that is printed."""
    plan = dp.plan("y ~ x + z", SCHEMA, **CALL, **known)
    grid = plan.to_frame(grid=True)
    here = grid[(grid["along"] == "n") & (grid["n"] == CALL["n"]) & (grid["term"] == "x")]
    _, line = said(effect={"x": 0.1}, **known)
    sampling, privacy = map(float, re.search(r"sampling ([-.\de]+), privacy ([-.\de]+)", line).groups())
    assert privacy == pytest.approx(plan.expected_se["x"], rel=5e-3)
    half = 1.96 * np.hypot(sampling, privacy)
    assert here["half_width"].iloc[0] == pytest.approx(half, rel=5e-3)
    powered = dp.plan("y ~ x + z", SCHEMA, want="power", effect={"x": 0.1}, **CALL, **known)
    assert powered.expected_se == plan.expected_se
