"""Plans of people with several rows: what repeats within a person adds little; quantiles by tau."""

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError
from dpmodels.forecasts import _coefficient_error

SCHEMA = dp.Schema(x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Real(-8, 8), e=dp.Binary(),
                   t=dp.Real(0, 10))  # fmt: skip
CALL = {"n": 6000, "eps": 1, "delta": 1e-6}
PEOPLE = {**CALL, "unit": "id", "sd": {"x": 1.0, "z": 1.0, "y": 1.0}, "rows_per_unit": 5}


def error(formula="y ~ x + z", term="x", **more):
    return _coefficient_error(dp.plan(formula, SCHEMA, **{**PEOPLE, **more}), term)


def test_columns_are_constant_within_people_unless_the_call_says_otherwise():
    constant, varies = error(), error(within=["x"])
    assert varies.sampling < 0.75 * constant.sampling  # sqrt(5) less if nothing repeated
    assert error(within=["x"], term="z").sampling == pytest.approx(constant.sampling)
    assert error(within=["x", "z"]).privacy < constant.privacy
    one = error(rows_per_unit=1)
    assert 0.5 * one.sampling < constant.sampling < one.sampling


def test_residuals_that_repeat_make_rows_worth_less():
    least, most = error(icc=0.0), error(icc=1.0)
    assert least.sampling < 0.6 * most.sampling and least.privacy < most.privacy
    assert least.sampling == pytest.approx(error(within=["x", "z"]).sampling)
    hazards = {"formula": "Surv(t, e) ~ x + z", "verb": "dp_coxph", "sd": {"x": 1.0, "z": 1.0}}
    assert error(**hazards).sampling < error(**hazards, icc=0.5).sampling


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"within": ["xx"]}, "Did you mean 'x'"),
        ({"within": 3}, r"within=\['x'\]"),
        ({"within": ["x"], "unit": None, "rows_per_unit": None}, "needs unit="),
        ({"icc": 2}, "correlation from 0 to 1"),
        ({"icc": "high"}, "correlation from 0 to 1"),
        ({"icc": 0.4, "unit": None, "rows_per_unit": None}, "needs unit="),
        ({"formula": "y ~ x + z | id", "verb": "dp_feols", "icc": 0.4}, "without effects"),
    ],
)
def test_facts_of_people_that_cannot_be_are_refused(more, says):
    call = {"formula": "y ~ x + z", **PEOPLE, **more}
    with pytest.raises(RequestError, match=says):
        dp.plan(call.pop("formula"), SCHEMA, **call)


def test_a_plan_says_what_it_assumes_of_the_rows_of_a_person():
    said = dp.plan("y ~ x + z", SCHEMA, want="power", effect={"x": 0.1}, **PEOPLE).advice[-1]
    assert "correlate by 0.45" in said and "constant within people" in said


def panel(seed, people=3000, rows=5):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rows)
    own, x, z = rng.normal(size=(3, people))
    d = pd.DataFrame({"id": who, "x": x[who].clip(-4, 4), "z": z[who].clip(-4, 4)})
    noise = np.sqrt(0.5) * (own[who] + rng.normal(size=people * rows))
    return d.assign(y=(0.3 * d["x"] + noise).clip(-8, 8))


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
def test_expected_errors_of_people_are_those_of_fits():
    """20 fits, seeds fixed: two slopes give the root mean square to 11 %; within .75 and 1.35."""
    expected = error(n=3000, icc=0.5, tail=0.0)
    found = []
    for seed in range(20):
        fit = dp.dp_ols("y ~ x + z", panel(seed), schema=SCHEMA, eps=1, delta=1e-6, unit="id",
                        seed=seed)  # fmt: skip
        found.append(fit.params[["x", "z"]].to_numpy() - [0.3, 0.0])
    assert 0.75 < expected.total / np.sqrt(np.mean(np.square(found))) < 1.35


def test_effects_of_people_have_expected_errors():
    call = {"formula": "y ~ x + z | id", "verb": "dp_feols"}
    plan = dp.plan("y ~ x + z | id", SCHEMA, verb="dp_feols", unit="id", **CALL)
    assert set(plan.expected_se) == {"x", "z"}
    power = dp.plan("y ~ x + z | id", SCHEMA, verb="dp_feols", want="power", effect={"x": 0.1},
                    **PEOPLE).advice  # fmt: skip
    assert any(line.startswith("x: power") for line in power)
    few, many = error(**call, rows_per_unit=2), error(**call, rows_per_unit=8)
    assert many.sampling < 0.6 * few.sampling and many.privacy < few.privacy
    counts = dp.Schema(x=dp.Real(-4, 4), c=dp.Count(30))
    plan = dp.plan("c ~ x | id", counts, verb="dp_fepois", unit="id", **CALL)
    assert set(plan.expected_se) == {"x"}


def test_random_intercepts_free_what_varies_within_people_of_their_own():
    call = {"verb": "dp_feols", "re": "id", "icc": 0.5}
    plan = dp.plan("y ~ x + z", SCHEMA, verb="dp_feols", re="id", unit="id", **CALL)
    assert set(plan.expected_se) >= {"x", "z"}
    constant, varies = error(**call), error(**call, within=["x"])
    assert varies.sampling == pytest.approx(np.sqrt(0.5 / 5 / 6000), rel=0.3)
    assert varies.sampling < 0.6 * constant.sampling and varies.privacy < constant.privacy


ROWS = {**CALL, "n": 10_000, "sd": {"x": 1.0, "z": 1.0, "y": 1.0}, "verb": "dp_quantreg"}


def quantile(tau, term="x", **more):
    return _coefficient_error(dp.plan("y ~ x + z", SCHEMA, **{**ROWS, "tau": tau, **more}), term)


def test_plans_of_quantiles_use_tau():
    half, outer = quantile(0.5), quantile(0.9)
    assert outer.sampling == pytest.approx(half.sampling * 1.7094 / 1.2533, rel=1e-3)
    assert outer.privacy > half.privacy
    assert quantile(0.1).sampling == pytest.approx(outer.sampling)
    several = dp.plan("y ~ x + z", SCHEMA, tau=[0.5, 0.9], want="power",
                      effect={"x [tau = 0.9]": 0.1}, **ROWS)  # fmt: skip
    assert any(line.startswith("x [tau = 0.9]: power") for line in several.advice)
    assert several.expected_se["x [tau = 0.9]"] > several.expected_se["x [tau = 0.5]"]
    robust = {"verb": "dp_mest", "loss": "quantile"}
    assert quantile(0.9, **robust).sampling == pytest.approx(outer.sampling)


@pytest.mark.statistical
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_expected_errors_of_quantiles_are_those_of_fits(tau):
    """12 fits, seeds fixed: medians of printed errors within a factor of 1.5 (they vary by 1.2)."""
    expected, printed = quantile(tau), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d = pd.DataFrame(rng.normal(size=(10_000, 2)).clip(-4, 4), columns=["x", "z"])
        d["y"] = (0.3 * d["x"] + rng.normal(size=10_000)).clip(-8, 8)
        fit = dp.dp_quantreg("y ~ x + z", d, schema=SCHEMA, eps=1, delta=1e-6, tau=tau, seed=seed)
        printed.append((fit.bse_sampling["x"], fit.bse_privacy["x"]))
    sampling, privacy = np.median(printed, axis=0)
    assert 1 / 1.5 < expected.sampling / sampling < 1.5
    assert 1 / 1.5 < expected.privacy / privacy < 1.5


def test_the_note_on_power_names_no_assumption_that_was_given():
    said = dp.plan("y ~ x + z", SCHEMA, want="power", effect={"x": 0.1}, icc=0.2, within=["z"],
                   **PEOPLE).advice[-1]  # fmt: skip
    assert re.search(r"correlate by 0\.2 \(icc=\)", said) and "which are all" not in said


def people_of(rng, people=3000, rows=4):
    """Made people: x varies within them, a public half of it between; counts and numbers."""
    own = rng.normal(size=people).repeat(rows)
    x = 0.5 * own + rng.normal(size=people * rows)
    frame = pd.DataFrame({"id": np.arange(people).repeat(rows), "x": x.clip(-4, 4)})
    frame["z"] = (0.3 * frame.x + own + rng.normal(size=len(x))).clip(-8, 8)
    frame["c"] = rng.poisson(np.exp(0.7 + 0.2 * frame.x + 0.3 * own)).clip(0, 30)
    return frame


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("verb", "formula", "facts"), [
    ("dp_fepois", "c ~ x | id", {"sd": {"x": 0.87, "c": 1.3}, "events": 2.15, "tail": 0.001}),
    ("dp_feols", "z ~ x", {"sd": {"x": 0.87, "z": 1.42}, "icc": 0.5, "within": ["x"], "tail": 0.0}),
])  # fmt: skip
def test_plans_of_effects_and_random_intercepts_expect_the_errors_found(verb, formula, facts, quiet):
    """40 fits, seeds 0 to 39. Expected over found: .82 and 1.16. The sd of a root mean square of 40
    errors is 11 %, so that other draws leave [.55, 1.7] with a probability below 1e-3."""
    schema = dp.Schema(x=dp.Real(-4, 4), z=dp.Real(-8, 8), c=dp.Count(30))
    call = {"schema": schema, "eps": 1.0, "delta": 1e-6, "unit": "id"}
    call |= {"re": "id"} if verb == "dp_feols" else {}
    plan = dp.plan(formula, n=3000, verb=verb, rows_per_unit=4, want="power", effect={"x": 0.1},
                   **facts, **call)  # fmt: skip
    expected = plan.to_frame(grid=True).query("along == 'n' and n == 3000")["error"].iloc[0]
    truth = 0.2 if verb == "dp_fepois" else 0.3
    off = [
        getattr(dp, verb)(formula, people_of(np.random.default_rng(s)), seed=s, rows_per_unit=4, **call).params["x"]
        - truth
        for s in range(40)
    ]
    ratio = expected / np.sqrt(np.mean(np.square(off)))
    assert 0.55 < ratio < 1.7, ratio
