"""What a release lets expect is said, and refused, before anything is read or charged."""

import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

BOUNDS = {"a": (-1, 1), "b": (0, 10), "y": (-4, 8)}


def planned(n, eps, formula="y ~ a + b", **more):
    return dp.plan(formula, n=n, eps=eps, delta=1e-6, bounds=BOUNDS, method="drcl", **more)


def table(n, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, n), rng.uniform(0, 10, n)
    return {"a": a, "b": b, "y": 1 + a + 0.2 * b + rng.normal(0, 0.5, n)}


@pytest.mark.parametrize(
    ("n", "eps", "more", "verdict"),
    [
        (1.5e7, 1.0, {}, "fine"), (7e6, 1.0, {}, "rough"), (60_000, 4.0, {}, "fine"),
        (6_000, 4.0, {}, "not determined"), (14_000, 2.0, {"unit": "attribute"}, "fine"),
        (3_000, 2.0, {"unit": "attribute"}, "rough"),
    ],
)  # fmt: skip
def test_rows_that_a_release_needs(n, eps, more, verdict):
    """Two predictors and a response, noised: some 14 million rows at (1, 1e-6)."""
    plan = planned(int(n), eps, **more)
    assert plan.verdict == verdict
    assert plan.forecast[:30] in str(plan)


@pytest.mark.parametrize("method", ["drcl", "sdrcl", "sl"])
def test_a_hopeless_call_is_refused_before_the_charge(method):
    budget = dp.Budget(eps=2, delta=1e-5)
    with pytest.raises(RequestError, match="no estimate is to be expected") as caught:
        dp.dp_ols("y ~ a + b", table(2000), eps=1, delta=1e-6, bounds=BOUNDS, method=method,
                  budget=budget)  # fmt: skip
    said = str(caught.value)
    assert budget.remaining() == dp.Budget(eps=2, delta=1e-5).remaining()
    assert "accept_no_estimate=True" in said and "rows at this eps" in said
    assert "eps = " in said and "method='ssp'" in said


def test_a_plan_says_what_the_call_refuses():
    plan = planned(2000, 1.0)
    assert "no estimate is to be expected" in plan.refusal and plan.refusal[:40] in str(plan)
    assert planned(2000, 1.0, accept_no_estimate=True).refusal == ""
    assert dp.plan("y ~ a + b", n=2000, eps=1, delta=1e-6, bounds=BOUNDS, method="naive").refusal == ""


def test_what_a_refusal_proposes_would_do():
    """The rows and the eps of the message are fine with room for tails, a ninth of eps is not."""
    said = planned(5000, 1.0).refusal
    eps = float(said.split("or eps = ")[1].split(" ")[0])
    assert planned(5000, 1.02 * eps).verdict == "fine" != planned(5000, eps / 9.0).verdict
    said = planned(2000, 4.0).refusal
    rows = int(said.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert planned(rows + 1, 4.0).verdict == "fine" != planned(rows // 100, 4.0).verdict


def test_a_release_by_itself_is_refused_and_can_be_asked_for():
    call = {"eps": 1, "delta": 1e-6, "bounds": BOUNDS}
    budget = dp.Budget(eps=2, delta=1e-5)
    with pytest.raises(RequestError, match="any regression on noised rows"):
        dp.dp_release("~ a + b", table(2000), **call, budget=budget)
    assert budget.remaining() == dp.Budget(eps=2, delta=1e-5).remaining()
    rel = dp.dp_release("~ a + b", table(2000), **call, accept_no_estimate=True, budget=budget)
    assert rel.n == 2000 and budget.remaining().eps != 2
    with pytest.raises(RequestError, match="True or False"):
        dp.dp_release("~ a + b", table(50), **call, accept_no_estimate="yes")


def test_what_needs_no_noised_predictor_is_not_refused():
    """A column has a mean, and public columns may be predictors."""
    data = table(2000)
    call = {"eps": 1, "delta": 1e-6, "bounds": BOUNDS}
    assert dp.dp_release("~ a", data, **call).n == 2000
    assert dp.dp_release("~ y + a", data, **call, public_columns=["b"]).n == 2000
    assert planned(2000, 1.0, "y ~ 1").refusal == ""


def test_variances_that_are_said_change_the_outlook():
    """Of an sd half as large as assumed, 16 times the rows are needed where noise is large."""
    plain, half = (planned(5000, 1.0, **more) for more in ({}, {"variances": {"a": 1 / 16, "b": 25 / 16}}))
    rows = [float(p.refusal.split("about ")[1].split(" rows")[0]) for p in (plain, half)]
    assert rows[1] / rows[0] == pytest.approx(16.0, rel=0.1)


@pytest.mark.statistical
def test_the_signal_is_that_of_fits():
    """The mean signal of four releases of 24 000 rows at eps = 4 lies within 1.6 of the forecast.

    Seeds 5 to 8. A signal has a standard error of about 1, its mean of .5: the distance is above
    1.6 in fewer than 1 of 500 sets of seeds where the forecast is right.
    """
    plan = planned(24_000, 4.0)
    expected = float(plan.forecast.split("about ")[1].split(" ")[0])
    found = []
    for seed in range(5, 9):
        rng = np.random.default_rng(seed)
        a, b = 0.5 * rng.choice([-1.0, 1.0], 24_000), 5 + 2.5 * rng.choice([-1.0, 1.0], 24_000)
        data = {"a": a, "b": b, "y": 1 + a + 0.2 * b + rng.normal(0, 0.5, 24_000)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_ols("y ~ a + b", data, eps=4, delta=1e-6, bounds=BOUNDS, method="drcl", seed=seed)
        found.append(fit.stats["signal"])
    assert abs(np.mean(found) - expected) < 1.6
