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
KNOWN = {"sd": SD, "tail": 0.0}


def said(**more):
    plan = dp.plan("y ~ x + z", SCHEMA, want="power", **{**CALL, **more})
    (line,) = [a for a in plan.advice if a.startswith("x: power")]
    assert line in " ".join(str(plan).split())
    return power_of(line), line


def power_of(line):
    return float(re.search(r"power (?:at most )?([.\d]+) \(", line).group(1))


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("effect", [0.06, 0.12, 0.2])
def test_the_power_of_a_plan_is_near_that_of_fits(effect):
    """60 fits a cell, seeds fixed; within .2, three sds of a share of 60 at one half."""
    planned, _ = said(effect={"x": effect}, **KNOWN)
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
    assert "would need" not in said(effect={"x": 2.0}, sd=SD)[1]


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
        ({"effect": {"x": 0.0}}, "must be a number"),
        ({"effect": {"x": "big"}}, "must be a number"),
        ({"effect": {"x": 0.1}, "sd": {"w": 1}}, "sd= names 'w'"),
        ({"effect": {"x": 0.1}, "sd": {"x": -1}}, "must be a number"),
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
    """More people, more rows of each that repeat little, more events and a larger eps: more power."""
    schema = SCHEMA.update(t=dp.Real(0, 10))
    formula = call.pop("formula")

    def power(**given):
        known = {"n": 4000, "eps": 1, "delta": 1e-6, "effect": {"x": 0.15}, **call, **given}
        plan = dp.plan(formula, schema, want="power", **known)
        (line,) = [a for a in plan.advice if a.startswith("x: power")]
        return power_of(line)

    now = power()
    assert 0.05 < now < power(n=9000) and now < power(eps=3)
    if "unit" in call and call["verb"] != "dp_coxph":
        assert now < power(rows_per_unit=3.0, icc=0.2)  # rows that repeat by .45 add nothing here
    if call["verb"] != "dp_ols":
        assert power(events=0.1) < power(events=0.4)


def test_errors_of_events_and_counts_follow_their_mean():
    """Expected errors are in proportion to V^1/2 / (dmu/deta), V of sd= where counts have one.

    If noise is small C is that of the longest score, which grows by the same factor.
    """
    schema = SCHEMA.update(k=dp.Real(0, 40))
    call = {"verb": "dp_glm", "n": 4_000, "eps": 1, "delta": 1e-6}

    def expected(formula, **known):
        return dp.plan(formula, schema, **{**call, **known}).expected_se["x"]

    some, half = (expected("e ~ x", events=v) for v in (0.2, 0.5))
    assert some / half == pytest.approx(0.5 / np.sqrt(0.2 * 0.8), rel=0.02)
    some, half = (expected("e ~ x", events=v, n=100_000) for v in (0.2, 0.5))
    assert some / half == pytest.approx((0.5 / np.sqrt(0.2 * 0.8)) ** 2, rel=0.02)
    few, many = (expected("e ~ x", events=v, n=20_000, eps=0.2) for v in (0.02, 0.5))
    # rows are weighed before their response: C does not reach for the scores of rare events
    assert few / many == pytest.approx(0.5 / np.sqrt(0.02 * 0.98), rel=0.2)
    explained, half = (expected("e ~ x", events=0.5, **v) for v in ({"sd": {"e": 0.4}}, {}))
    assert explained / half == pytest.approx(0.5 / 0.4, rel=0.02)
    one, four = (expected("k ~ x", family="poisson", events=v) for v in (1.0, 4.0))
    assert one / four == pytest.approx(2.0, rel=0.03)
    wide = expected("k ~ x", family="poisson", events=4.0, sd={"k": 6.0}, tail=0.0)
    assert wide / four == pytest.approx(3.0, rel=0.03)


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
    error, half = here["error"].iloc[0], here["half_width"].iloc[0]
    assert np.hypot(sampling, privacy) < error < 1.1 * np.hypot(sampling, privacy)
    assert 1.96 * error < half < 3.0 * error  # with the allowance for bias
    powered = dp.plan("y ~ x + z", SCHEMA, want="power", effect={"x": 0.1}, **CALL, **known)
    assert powered.expected_se == plan.expected_se


def test_a_long_tail_has_less_power_and_an_unknown_one_at_most_that():
    """The share beyond four sds lowers power; of counts it follows from sd= and events=."""
    powers = [said(effect={"x": 0.12}, sd=SD, tail=tail)[0] for tail in (0.0, 0.002, 0.01)]
    # what is cut is measured, so that a tail costs little; draws differ by .05
    assert powers[0] >= powers[1] - 0.05 and powers[1] >= powers[2]
    open_, line = said(effect={"x": 0.12}, sd=SD)
    assert open_ == powers[0] and "power at most" in line
    assert "at most" not in said(effect={"x": 0.12}, sd=SD, tail=0.0)[1]
    schema = SCHEMA.update(k=dp.Real(0, 80))
    call = {"verb": "dp_glm", "family": "poisson", "n": 20_000, "eps": 1, "delta": 1e-6}
    known = {"events": 3.0, "want": "power", "effect": {"x": 0.1}}
    plans = [
        dp.plan("k ~ x", schema, **call, **known, sd={"x": 0.577, "k": 5.0}, **tail)
        for tail in ({}, {"tail": 0.0})
    ]
    assert "at most" not in plans[0].advice[-2]
    grids = [plan.to_frame(grid=True) for plan in plans]
    widths = [float((grid["half_width"] / grid["error"]).iloc[0]) for grid in grids]
    assert widths[0] > 1.03 * widths[1]  # what was cut, and the allowance for it


def test_the_range_of_a_power_holds_it():
    for effect in (0.05, 0.1, 0.2):
        power, line = said(effect={"x": effect}, **KNOWN)
        low, high = map(float, re.search(r"\(([.\d]+) to ([.\d]+)\)", line).groups())
        assert low <= power <= high and high - low > 0.05


@pytest.mark.parametrize(
    ("formula", "verb", "tail"),
    [("y ~ x", "dp_ols", 0.2), ("y ~ x", "dp_ols", "long"), ("y ~ x", "dp_ols", True),
     ("e ~ x", "dp_glm", 0.01), ("Surv(t, e) ~ x", "dp_coxph", 0.01),
     ("y ~ x", "dp_quantreg", 0.01)],
)  # fmt: skip
def test_tails_that_cannot_be_are_refused(formula, verb, tail):
    schema = SCHEMA.update(t=dp.Real(0, 10))
    with pytest.raises(RequestError, match="tail="):
        dp.plan(formula, schema, verb=verb, n=4000, eps=1, delta=1e-6, tail=tail)


@pytest.mark.usefixtures("quiet")
def test_half_widths_of_a_plan_are_those_of_fits():
    """Fifteen fits with fixed seeds: the mean half width is within a quarter of the planned one."""
    plan = dp.plan("y ~ x + z", SCHEMA, **CALL, **KNOWN)
    grid = plan.to_frame(grid=True)
    here = grid[(grid["along"] == "n") & (grid["n"] == CALL["n"]) & (grid["term"] == "x")]
    widths = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        d = pd.DataFrame({"x": rng.uniform(-1, 1, 4000), "z": rng.uniform(0, 2, 4000)})
        d["y"] = 0.1 * d["x"] + rng.normal(0, 1, 4000).clip(-4, 4)
        ends = dp.dp_ols("y ~ x + z", d, schema=SCHEMA, seed=seed, eps=1, delta=1e-6).conf_int()
        widths.append(float(np.diff(ends.loc["x"])[0]) / 2)
    assert np.mean(widths) == pytest.approx(here["half_width"].iloc[0], rel=0.25)


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
def test_a_range_holds_the_power_of_fits_with_a_long_tail():
    """50 fits, seeds fixed, exponential residuals: .15 beyond the range is two sds of the share.

    Told nothing of the tail the plan says "at most", and found power is no more than that plus .15.
    """
    schema = dp.Schema(x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Real(-30, 30))
    call = {"n": 5000, "eps": 1, "delta": 1e-6, "sd": {"x": 1.0, "z": 1.0, "y": 2.0}}
    lines = [
        next(a for a in dp.plan("y ~ x + z", schema, want="power", effect={"x": 0.2}, **call,
                                **tail).advice if a.startswith("x:"))
        for tail in ({"tail": 0.0067}, {})
    ]  # fmt: skip
    low, high = map(float, re.search(r"\(([.\d]+) to ([.\d]+)\)", lines[0]).groups())
    assert "at most" in lines[1] and power_of(lines[1]) > power_of(lines[0]) - 0.05
    found = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        d = pd.DataFrame(rng.normal(size=(5000, 2)).clip(-4, 4), columns=["x", "z"])
        d["y"] = (0.2 * d["x"] + 2.0 * rng.standard_exponential(5000)).clip(-30, 30)
        fit = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, schema=schema, seed=seed)
        found += fit.pvalues["x"] < 0.05
    assert low - 0.15 <= found / 50 <= high + 0.15
    assert found / 50 <= power_of(lines[1]) + 0.15
