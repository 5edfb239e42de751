"""A plan forecasts every coefficient, by shares of levels and correlations that the caller knows."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.coefficient_forecasts import (
    _row_information,
    level_shares,
    variance_inflation,
)
from dpmodels.errors import RequestError

SCHEMA = dp.Schema(g=dp.Levels(list("abcd")), x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Real(-6, 6))


def planned(**options):
    call = {"n": 10_000, "eps": 1, "delta": 1e-6, **options}
    return dp.plan("y ~ g + x + z", SCHEMA, **call)


def words(plan):
    frame = plan.to_frame()
    return dict(zip(frame["column"], frame["forecast"], strict=True))


def test_a_rare_level_and_collinear_numbers_are_named():
    plain = words(planned())
    assert set(plain.values()) == {"fine", ""} and plain["y"] == ""
    rare = words(planned(sd={"g[T.d]": np.sqrt(0.005 * 0.995)}))
    assert rare["g[T.d]"] == "not determined" and rare["g[T.c]"] == "fine"
    collinear = words(planned(corr={("x", "z"): 0.999}))
    assert collinear["x"] == collinear["z"] == "rough" and collinear["g[T.b]"] == "fine"
    text = str(planned(corr={("x", "z"): 0.9999}).table())
    assert "forecast" in text and "not determined" in text


def test_no_coefficient_is_better_than_its_model():
    plan = planned(n=150)
    assert plan.verdict == "not determined"
    assert set(words(plan).values()) == {"not determined", ""}


def test_many_levels_are_rare_levels():
    schema = dp.Schema(g=dp.Levels([f"l{k}" for k in range(150)]), y=dp.Real(-6, 6))
    plan = dp.plan("y ~ g", schema, n=10**5, eps=1, delta=1e-6)
    frame = plan.to_frame()
    dummies = frame[frame["kind"] == "dummy"]["forecast"]
    assert set(dummies) <= {"rough", "not determined"}


def test_a_rare_reference_is_rare_for_every_level():
    design = planned().design
    sds = {f"g[T.{v}]": float(np.sqrt(q * (1 - q))) for v, q in (("b", 0.3), ("c", 0.3), ("d", 0.39))}
    ((shares, base),) = level_shares(design, sds).values()
    assert base == pytest.approx(0.01) and [*shares.values()] == pytest.approx([0.3, 0.3, 0.39])


def test_errors_of_levels_are_those_of_contrasts_with_the_reference():
    """``1/q + 1/q_0``; without a constant ``1/q``, and errors of levels do not move numbers."""
    shares = {"b": 0.4, "c": 0.15, "d": 0.05}
    schema = dp.Schema(g=dp.Levels(list("abcd")), x=dp.Real(-2, 2), y=dp.Real(-6, 6))
    call = {"n": 10_000, "eps": 1, "delta": 1e-6}
    sds = {"x": 0.5} | {f"g[T.{k}]": np.sqrt(q * (1 - q)) for k, q in shares.items()}
    se = dp.plan("y ~ x + g", schema, sd=sds, **call).expected_se
    found = [se[f"g[T.{k}]"] / se["x"] for k in shares]
    assert found == pytest.approx([0.5 * np.sqrt(1 / q + 1 / 0.4) for q in shares.values()], rel=1e-4)
    sds = {"x": 0.5} | {f"g[{k}]": np.sqrt(q * (1 - q)) for k, q in (shares | {"a": 0.4}).items()}
    se = dp.plan("y ~ 0 + x + g", schema, sd=sds, **call).expected_se
    found = [se[f"g[{k}]"] / se["x"] for k in shares]
    assert found == pytest.approx([0.5 * np.sqrt(1 / q) for q in shares.values()], rel=0.05)


def test_correlated_columns_have_larger_errors_and_less_power():
    plan, correlated = planned(), planned(corr={("x", "z"): 0.8})
    inflation = variance_inflation(plan.design, {("x", "z"): 0.8})
    assert inflation["x"] == pytest.approx(1 / 0.36)
    ratio = correlated.expected_se["x"] / plan.expected_se["x"]
    scale = correlated.expected_se["g[T.b]"] / plan.expected_se["g[T.b]"]
    assert scale == pytest.approx(1.0, rel=0.05)  # what fits of normal residuals learn
    assert ratio == pytest.approx(scale / 0.6)
    call = {"want": "power", "effect": {"x": 0.05}, "sd": {"x": 1.0, "y": 1.0}}
    powers = [float(planned(**call, **more).advice[-3].split("power at most ")[1][:4])
              for more in ({}, {"corr": {("x", "z"): 0.8}})]  # fmt: skip
    assert powers[1] < powers[0]


@pytest.mark.parametrize("corr", [
    {("x", "g[T.b]"): 0.5}, {("x", "x"): 0.5}, {"x": 0.5}, {("x", "z"): 1.0}, 0.5,
    {("x", "z"): True}, {("x", "w"): 0.1},
])  # fmt: skip
def test_correlations_that_mean_nothing_are_refused(corr):
    with pytest.raises(RequestError, match="corr="):
        planned(corr=corr)


def test_impossible_correlations_are_refused():
    schema = dp.Schema(a=dp.Real(0, 1), b=dp.Real(0, 1), c=dp.Real(0, 1), y=dp.Real(0, 1))
    corr = {("a", "b"): 0.9, ("b", "c"): 0.9, ("a", "c"): -0.9}
    with pytest.raises(RequestError, match="cannot occur together"):
        dp.plan("y ~ a + b + c", schema, n=1000, eps=1, delta=1e-6, corr=corr)


def test_rare_events_make_words_worse():
    """A logit's words hold the information of a row at the share of events that is told."""
    schema = SCHEMA.update(e=dp.Binary())
    call = {"n": 10_000, "eps": 1, "delta": 1e-6, "verb": "dp_glm", "family": "binomial"}
    found = [words(dp.plan("e ~ g + x", schema, **call, events=m))["g[T.b]"] for m in (0.5, 0.01)]
    assert found == ["fine", "not determined"]
    half, assumed = (
        _row_information(plan.request, plan.design, plan.facts)
        for plan in (dp.plan("e ~ g + x", schema, **call, events=0.5),
                     dp.plan("e ~ g + x", schema, **call))
    )  # fmt: skip
    assert half == pytest.approx(0.25) and assumed == pytest.approx(0.1875)


def test_a_plan_names_a_base_level_that_few_rows_have():
    """A base with 20 of 28 000 rows: every contrast is useless, and the plan says what to type."""
    schema = dp.Schema(g=dp.Levels(["a", "b", "c", "d"]), y=dp.Real(-5, 5))

    def said(shares):
        sds = {f"g[T.{k}]": (q * (1 - q)) ** 0.5 for k, q in zip("bcd", shares, strict=True)}
        plan = dp.plan("y ~ g", schema, n=28_000, eps=1, delta=1e-6, sd=sds)
        return " ".join(text for text in plan.advice if "first level" in text)

    rest = 1 - 20 / 28_000
    assert "Treatment('b')" in said([0.5 * rest, 0.3 * rest, 0.2 * rest])
    assert said([0.3, 0.25, 0.2]) == ""
