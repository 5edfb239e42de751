"""Regressions on releases of every kind: bought ranges, pure budgets, missing cells, transforms."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError, UtilityWarning


def frame(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, n))
    y = np.exp(0.5 + a - 0.5 * b + rng.normal(0, 0.3, n))
    return pd.DataFrame({"y": y, "a": a, "b": b, "k": rng.integers(0, 5, n)})


BOUNDS = {"y": (0.05, 20), "a": (-1, 1), "b": (-1, 1)}


@pytest.mark.parametrize(
    "more",
    [
        dict(delta=1e-6),
        dict(delta=0),
        dict(delta=1e-6, relation="add-remove", n_guess=20_000),
        dict(delta=1e-6, method="joint"),
        dict(delta=1e-6, stages=1),
        dict(delta=1e-6, stages=2, phi=1.0),
    ],
)
def test_a_transformed_response_from_a_release_of_each_kind(quiet, more):
    m = dp.dp_moments("log(y) + a + b", frame(), eps=8, bounds=BOUNDS, seed=3, **more)
    fit = dp.dp_ols("log(y) ~ a + b", m)
    assert np.abs((fit.params - [0.5, 1.0, -0.5]) / fit.bse).max() < 4.5  # 1e-5 a coefficient
    assert (fit.bse_privacy > 0).all() and fit.nobs == m.nobs
    assert fit.privacy is m.privacy
    assert abs(fit.rsquared - 0.8218) < 5 * fit.rsquared_se


def test_bought_ranges_and_missing_cells(quiet):
    data = frame()
    data.loc[:3999, "b"] = np.nan
    m = dp.dp_moments("y + a + b", data, eps=8, delta=1e-6, seed=3)
    fit = dp.dp_ols("y ~ a + b", m)
    assert fit.stats["effective_rows"] == pytest.approx(16_000, rel=0.05)
    assert any("of the rows were dropped" in note and "About 20 %" in note for note in m.notes)
    whole = data.dropna()
    X = np.column_stack([np.ones(len(whole)), whole[["a", "b"]]])
    own = np.linalg.lstsq(X, whole["y"], rcond=None)[0]
    assert fit.params.to_numpy() == pytest.approx(own, abs=0.15)  # row weights of a long tail


def test_counts_and_subsets_are_compared_at_public_points(quiet):
    data = frame(4000)
    schema = dp.Schema(y=dp.Real(0, 20), a=dp.Real(-1, 1), b=dp.Real(-1, 1), k=dp.Count(upper=5))
    m = dp.dp_moments("y + a + k", data, eps=8, delta=1e-6, schema=schema, subset="b > 0", seed=1)
    fit = dp.dp_ols("y ~ a + I(k - 2)", m)
    assert list(fit.params.index) == ["Intercept", "a", "I(k - 2)"]
    with pytest.raises(RequestError, match="not in the release"):
        dp.dp_ols("y ~ a + I(k**2)", m)


def test_where_noise_rules_there_are_no_errors_but_score_tests(quiet):
    data = frame(300)
    with pytest.warns(UtilityWarning, match="noise of the release exceeds"):
        m = dp.dp_moments("y + a + b", data, eps=0.1, delta=1e-6, bounds=BOUNDS, seed=1)
        fit = dp.dp_ols("y ~ a + b", m)
    assert fit.bse.isna().all()
    assert (fit.stats["r_squared_low"], fit.stats["r_squared_high"]) == (0.0, 1.0)
    with pytest.raises(RequestError, match="not determined"):
        fit.wald_test("a")


def test_public_whitening_gives_regressions_too(quiet):
    public = frame(200, 9)
    m = dp.dp_moments(
        ["y", "a", "b"], frame(), eps=2, delta=1e-6, public=public[["y", "a", "b"]], seed=1
    )
    assert m.method == "pmt"
    assert dp.dp_ols("y ~ a + b", m).params["a"] == pytest.approx(1.8, abs=0.5)
    assert len(m.corr()) == 3
    with pytest.raises(RequestError, match="not in the release"):
        dp.dp_ols("y ~ I(a**2)", m)
    m = dp.dp_moments(["y", "a", "b"], frame(), eps=2, delta=1e-6, public=public[["y", "a", "b"]],
                      bounds=BOUNDS, seed=1)  # fmt: skip
    fit = dp.dp_ols("y ~ a + b", m)
    assert fit.params["a"] == pytest.approx(1.8, abs=0.5)


def test_what_weighted_moments_estimate_is_said_beside_the_number(quiet):
    """Intervals of 95 % covered the coefficients of all rows 0 to .9 of the time, unsaid."""
    data = frame(3000)
    call = {"eps": 5, "delta": 1e-6, "bounds": BOUNDS, "seed": 1}
    weighted, joint = (
        dp.dp_moments("y + a + b", data, method=name, **call) for name in ("ssp", "joint")
    )
    said = "count less in every regression"
    assert said in " ".join(dp.dp_ols("y ~ a", weighted).notes)
    assert said not in " ".join(dp.dp_ols("y ~ a", joint).notes)
    notes = " ".join(dp.dp_iv("y ~ a | b", weighted).notes)
    assert said in notes and "for the rows with their weights" in notes
    assert "with their weights" not in " ".join(dp.dp_iv("y ~ a | b", joint).notes)


def test_two_stage_releases_weigh_fewer_rows_down(quiet):
    """Weights depend on what is endogenous: lognormal errors, phi=.1: .85."""
    data = frame(3000)
    call = {"eps": 5, "delta": 1e-6, "bounds": BOUNDS, "seed": 1}
    own = dp.dp_iv("y ~ a | b", data, **call)
    light = dp.dp_iv("y ~ a | b", dp.dp_moments("y + a + b", data, phi=1.0, **call))
    assert own.params.to_numpy() == pytest.approx(light.params.to_numpy(), rel=1e-9)
    heavy = dp.dp_iv("y ~ a | b", data, phi=0.1, **call)
    assert heavy.arrays["released_moments"].tolist() != own.arrays["released_moments"].tolist()
    assert dp.dp_iv("y ~ a | b", data, method="joint", **call).released
