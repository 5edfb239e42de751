"""What a label says is what the number is: labels are read back, and the number made again."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

import dpmodels as dp

SCHEMA = dp.Schema(
    y=dp.Real(-20, 60), x=dp.Real(-3, 7), g=dp.Levels(["u", "v", "w"]), t=dp.Binary(),
)  # fmt: skip
CALL = {"eps": 20, "delta": 1e-6, "schema": SCHEMA}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    n = 5000
    x, g = rng.uniform(-3, 7, n), rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    y = 18 + 3 * x + 2.0 * (g == "v") - 5.0 * (g == "w") + rng.normal(0, 4, n)
    return pd.DataFrame({"x": x, "g": g, "y": y, "t": (rng.random(n) < 0.3).astype(float)})


@pytest.fixture
def fit(noiseless, data):
    return dp.dp_ols("y ~ x + g", data, **CALL)


def test_differences_of_adjusted_means(fit):
    means = fit.emmeans("g")
    of = dict(zip(means.labels, means.effect, strict=True))
    found = means.pairs()
    assert len(found.labels) == 3 and len(set(found.labels)) == 3
    for label, effect in zip(found.labels, found.effect, strict=True):
        first, second = label.split(" - ")
        assert effect == pytest.approx(of[first] - of[second], rel=1e-9)
    b = fit.params
    assert of["g = v"] - of["g = u"] == pytest.approx(b["g[T.v]"], rel=1e-9)
    assert of["g = w"] - of["g = u"] == pytest.approx(b["g[T.w]"], rel=1e-9)


@pytest.mark.parametrize(
    "hypothesis", ["x = 2*g[T.v]", "g[T.w] - g[T.v] = 1", "x = 3", "Intercept + 2*x = 0.5*g[T.w]"]
)
def test_linear_hypotheses(fit, hypothesis):
    """The label is the hypothesis: its left side less its right, in the printed coefficients."""
    found = fit.t_test(hypothesis)
    assert found.labels == (hypothesis,)
    left, right = (
        eval(  # of this file's own texts
            re.sub(r"g\[T\.(\w)\]|Intercept|\bx\b", lambda m: f"b[{m.group(0)!r}]", side),
            {"b": fit.params},
        )
        for side in hypothesis.split(" = ")
    )
    assert found.effect[0] == pytest.approx(left - right, rel=1e-9)


def test_weighted_sums_by_name(fit):
    given = {"old": {"x": 10, "g[T.v]": -1}, "other": {"Intercept": 1}}
    found = fit.contrast(given)
    for label, effect in zip(found.labels, found.effect, strict=True):
        expected = sum(w * fit.params[name] for name, w in given[label].items())
        assert effect == pytest.approx(expected, rel=1e-9)


def test_differences_of_a_test_of_means(noiseless, data):
    two = dp.Schema(y=dp.Real(-20, 60), g=dp.Levels(["u", "w"]))
    found = dp.dp_test("y ~ g", data[data["g"] != "v"], eps=20, delta=1e-6, schema=two).tidy()
    of = dict(zip(found["term"], found["estimate"], strict=True))
    (label,) = [t for t in of if t.startswith("difference")]
    first, second = label.removeprefix("difference: ").split(" - ")
    means = {k: of[f"mean(y)[g={k}]"] for k in (first, second)}
    assert of[label] == pytest.approx(means[first] - means[second], rel=1e-9)
    for k, mean in means.items():
        assert mean == pytest.approx(data.loc[data["g"] == k, "y"].mean(), abs=0.3)
    assert means["w"] < means["u"]  # and not the other way round


def test_anderson_rubin_with_three_instruments(noiseless):
    """The set is where the score test of all three does not reject: chi2 of three degrees."""
    rng = np.random.default_rng(6)
    n = 4000
    a = np.round(rng.uniform(-1, 1, (3, n)) * 1024) / 1024
    v, u = np.round(rng.uniform(-1, 1, (2, n)) * 1024) / 1024
    x = np.round(np.clip(0.25 * a[0] + 0.2 * a[1] - 0.2 * a[2] + 0.3 * u, -1, 1) * 1024) / 1024
    y = np.round((0.5 + x - 0.4 * v - u + rng.normal(0, 0.5, n)).clip(-8, 8) * 1024) / 1024
    columns = {"y": y, "x": x, "v": v, "a1": a[0], "a2": a[1], "a3": a[2]}
    schema = dp.Schema(y=dp.Real(-8, 8), **{k: dp.Real(-1, 1) for k in columns if k != "y"})
    m = dp.dp_moments(
        "y + x + v + a1 + a2 + a3 ~ 1", pd.DataFrame(columns), eps=1e9, delta=1e-6,
        schema=schema, method="joint",
    )  # fmt: skip
    fit = dp.dp_iv("y ~ x + v | a1 + a2 + a3 + v", m)
    W = np.column_stack([np.ones(n), v])
    Z = a.T - W @ np.linalg.lstsq(W, a.T, rcond=None)[0]

    def statistic(b0):
        e = y - b0 * x
        e = e - W @ np.linalg.lstsq(W, e, rcond=None)[0]
        s = Z.T @ e
        return s @ np.linalg.solve(Z.T @ Z, s) / (e @ e / (n - 2))

    top, b = chi2.ppf(0.95, 3), float(fit.params["x"])
    assert statistic(b) < top
    low = brentq(lambda t: statistic(t) - top, b - 3.0, b)
    high = brentq(lambda t: statistic(t) - top, b, b + 3.0)
    assert fit.arrays["anderson_rubin"] == pytest.approx(np.array([[low, high]]), rel=1e-4)
