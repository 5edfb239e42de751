"""``plan``: public, free, and the code of a fit."""

import pytest

import dpmodels as dp

SCHEMA = dp.Schema(a=dp.Real(0, 10), b=dp.Real(-1, 1), y=dp.Real(0, 100))
CALL = dict(n=20_000, eps=1, delta=1e-6, method="eptr", scoring=False)


def test_text_html_and_frame():
    plan = dp.plan("y ~ a + b", SCHEMA, **CALL)
    text = str(plan)
    for word in ("scale matrix", "coefficients", "(eps = 1, delta = 1e-06)-DP", "[0, 10]", "20000"):
        assert word in text
    assert "<table" in plan._repr_html_()
    frame = plan.to_frame()
    assert list(frame["column"]) == ["Intercept", "a", "b", "y"]
    assert frame["privacy_se"].iloc[:3].notna().all()
    assert "plan of dp_ols" in repr(plan)


def test_expected_errors_are_near_those_of_a_fit(quiet):
    """The assumption of the plan (sd a quarter of the range) made true by the data."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2.5, 20_000), rng.normal(0, 0.5, 20_000)
    frame = pd.DataFrame({"a": a, "b": b, "y": 50 + 2 * a + 5 * b + rng.normal(0, 5, 20_000)})
    frame["a"], frame["b"] = frame["a"].clip(0, 10), frame["b"].clip(-1, 1)
    plan = dp.plan("y ~ a + b", SCHEMA, **CALL)
    fit = dp.dp_ols("y ~ a + b", frame, schema=SCHEMA, seed=1, **CALL)
    for name in ("a", "b"):
        assert fit.bse_privacy[name] == pytest.approx(plan.expected_se[name], rel=0.35)


@pytest.mark.parametrize("n", [3_000, 60_000])
def test_expected_errors_of_ssp_are_near_those_of_a_fit(quiet, n):
    """The assumptions of the plan made true by the data: a quarter of a range, .19 for residuals."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2.5, n).clip(0, 10), rng.normal(0, 0.5, n).clip(-1, 1)
    frame = pd.DataFrame({"a": a, "b": b, "y": (50 + a + b + rng.normal(0, 18.75, n)).clip(0, 100)})
    call = {"eps": 4, "delta": 1e-6, "method": "ssp"}
    plan = dp.plan("y ~ a + b", SCHEMA, n=n, **call)
    fit = dp.dp_ols("y ~ a + b", frame, schema=SCHEMA, seed=1, **call)
    for name in ("Intercept", "a", "b"):
        assert fit.bse_privacy[name] == pytest.approx(plan.expected_se[name], rel=0.35)


def test_no_expected_error_is_promised_where_there_is_none():
    noisy = dp.plan("y ~ a", SCHEMA, n=20, eps=0.1, delta=1e-6, want={"a": 0.1})
    bought = dp.plan("y ~ a", dp.Schema(a=dp.Real(), y=dp.Real()), n=20_000, eps=1, delta=1e-6)
    for plan in (noisy, bought):
        assert not plan.expected_se
        assert "expected privacy se" not in str(plan)
    assert "no public expected error" in noisy.advice[-1]


def test_what_would_reach_a_wanted_error():
    now = dp.plan("y ~ a + b", SCHEMA, **CALL).expected_se["a"]
    plan = dp.plan("y ~ a + b", SCHEMA, want={"a": now / 4, "b": 1e6}, **CALL)
    first, second = plan.advice[-2:]
    assert "would need about n = " in first
    assert "eps = " in first
    n = int(first.split("n = ")[1].split()[0])
    reached = dp.plan("y ~ a + b", SCHEMA, **{**CALL, "n": n}).expected_se["a"]
    assert 0.95 * now / 4 <= reached <= now / 4
    assert "within the wanted" in second


def test_want_takes_a_mapping():
    with pytest.raises(dp.errors.RequestError, match="want= must be a mapping"):
        dp.plan("y ~ a", SCHEMA, want=0.1, **CALL)


def test_refused():
    with pytest.raises(ValueError, match="Did you mean 'a'"):
        dp.plan("y ~ a + b", SCHEMA, want={"aa": 1.0}, **CALL)
    with pytest.raises(ValueError, match="n must be a positive"):
        dp.plan("y ~ a + b", SCHEMA, **{**CALL, "n": 0})
    with pytest.raises(ValueError, match="schema="):
        dp.plan("y ~ a + b", **CALL)


def test_a_plan_with_ranges_to_buy_says_so():
    plan = dp.plan("y ~ a + b", dp.Schema(a=dp.Real(), b=dp.Real(-1, 1), y=dp.Real()), **CALL)
    assert plan.purchase.columns == ("a", "y")
    assert "to estimate" in str(plan)
    assert plan.expected_se == {}


@pytest.mark.parametrize("family", ["poisson", "logistic"])
def test_a_glm_is_planned_with_the_arguments_of_its_fit(table, quiet, family):
    frame = table(3000)
    frame["c"] = (frame["y"] > 0).astype(int)
    schema = dp.Schema(a=dp.Real(-1, 1), c=dp.Binary() if family == "logistic" else dp.Count(3))
    call = {"eps": 2, "delta": 1e-6, "family": family}
    plan = dp.plan("c ~ a", schema, n=3000, verb="dp_glm", **call)
    fit = dp.dp_glm("c ~ a", frame, schema=schema, seed=1, **call)
    assert plan.request["family"] == fit.options["family"]
    assert plan.scales == pytest.approx(fit.scales)
    with pytest.raises(dp.errors.RequestError, match="Did you mean 'poisson'"):
        dp.plan("c ~ a", schema, n=3000, verb="dp_glm", **{**call, "family": "poison"})


def test_shares_are_those_of_the_steps_ranges_together_many_by_kind():
    from dpmodels.planning import shares_of
    from dpmodels.privacy.mechanisms import BOUGHT, Gaussian, Step

    one = Gaussian(1.0)
    bought = [Step(f"range of x{j}", one, share=0.05, label=BOUGHT) for j in range(2)]
    own = [Step("bound", one, share=0.3), Step("estimate", one, share=0.6, label="output noise")]
    assert shares_of([*bought, *own]) == {"ranges": 0.1, "bound": 0.3, "estimate": 0.6}
    draws = [Step(f"draw {j}", one, share=0.09, label="posterior sample") for j in range(10)]
    assert shares_of([own[0], *draws]) == {"bound": 0.3, "posterior sample": pytest.approx(0.9)}
    assert shares_of([Step("table", one, share=1.0), Step("free", one)]) == {}
