"""Adjusted means, slopes and comparisons of a Cox fit are of log hazards, by hand and by delta."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

SCHEMA = dp.Schema(x=dp.Real(0, 1), g=dp.Levels(["a", "b", "c"]), t=dp.Real(0, 10), e=dp.Binary())


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    n = 8000
    x, g = rng.uniform(0, 1, n), np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    times = rng.exponential(3 / np.exp(0.8 * x + 0.5 * (g == "b") - 0.4 * (g == "c")))
    ends = rng.uniform(0, 10, n)
    data = pd.DataFrame({"x": x, "g": g, "t": np.minimum(times, ends), "e": (times <= ends) * 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_coxph("Surv(t, e) ~ x * C(g)", data, eps=8, delta=1e-6, schema=SCHEMA,
                           breaks=[0, 1, 2, 3, 5, 10], seed=1)  # fmt: skip


def check(found, L, fit):
    assert np.allclose(found.effect, L @ fit.params.to_numpy())
    sd = np.sqrt(np.einsum("ij,jk,ik->i", L, fit.vcov().to_numpy(), L))
    assert np.allclose(found.sd, sd)


def test_adjusted_means(fit):
    # x, b, c, x:b, x:c
    L = np.array([[0.4, 0, 0, 0, 0], [0.4, 1, 0, 0.4, 0], [0.4, 0, 1, 0, 0.4]])
    found = fit.emmeans("g", at={"x": 0.4})
    check(found, L, fit)
    assert any("logs of hazard ratios" in note for note in found.notes)
    check(found.pairs(adjust="none"), np.array([L[0] - L[1], L[0] - L[2], L[1] - L[2]]), fit)


def test_slopes_and_comparisons(fit):
    rows = pd.DataFrame({"x": [0.2, 0.8, 0.8], "g": ["a", "b", "c"]})
    check(fit.avg_slopes(rows, variables="x"), np.array([[1, 0, 0, 1 / 3, 1 / 3]]), fit)
    m = rows["x"].mean()
    L = np.array([[0, 1, 0, m, 0], [0, 0, 1, 0, m]])
    check(fit.avg_comparisons("g", rows), L, fit)


def test_a_saved_fit_has_them_too(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json").emmeans("g")
    assert np.array_equal(again.effect, fit.emmeans("g").effect)
