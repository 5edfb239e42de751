"""Draws of coefficients, synthetic rows, and the rule that combines fits to them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, NotReleasedError, RequestError, UtilityWarning

BOUNDS = {"y": (-3, 3), "a": (-1, 1), "b": (-1, 1)}


def table(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    y = 0.3 + x @ [0.8, -0.5] + rng.normal(0, 0.5, n)
    return pd.DataFrame({"y": y, "a": x[:, 0], "b": x[:, 1]})


def quiet(call, *args, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return call(*args, **how)


@pytest.fixture(scope="module")
def released():
    return quiet(
        dp.dp_moments, "y + a + b", table(), eps=2, delta=1e-6, bounds=BOUNDS, seed=1, method="joint"
    )


@pytest.fixture(scope="module")
def fit():
    return quiet(dp.dp_ols, "y ~ a + b", table(), eps=2, delta=1e-6, bounds=BOUNDS, seed=1)


def least_squares(frame):
    X = np.column_stack([np.ones(len(frame)), frame["a"], frame["b"]])
    inverse = np.linalg.inv(X.T @ X)
    b = inverse @ X.T @ frame["y"].to_numpy()
    left = frame["y"].to_numpy() - X @ b
    return b, inverse * (left @ left) / (len(X) - 3)


def test_draws_have_mean_and_covariance_of_the_fit(fit):
    """20 000 draws, seed 4: within 5 errors; false alarm below 1e-5."""
    draws = fit.draws(20_000, seed=4)
    assert list(draws) == list(fit.params.index)
    se = fit.bse.to_numpy()
    assert (np.abs(draws.mean() - fit.params) < 5 * se / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std().to_numpy(), se, rtol=5 / np.sqrt(40_000))
    assert draws.equals(fit.draws(20_000, seed=4))
    assert not fit.draws(3).equals(fit.draws(3))


def test_a_normal_prior_is_the_conjugate_posterior(fit):
    V, b = fit.vcov().to_numpy(), fit.params.to_numpy()
    P = np.diag([0.0, 1 / 0.02**2, 0.0])
    C = np.linalg.inv(np.linalg.inv(V) + P)
    mean = C @ (np.linalg.inv(V) @ b + P @ np.array([0, 0.5, 0]))
    draws = fit.draws(40_000, prior={"a": (0.5, 0.02)}, seed=2)
    se = np.sqrt(np.diag(C))
    assert (np.abs(draws.mean().to_numpy() - mean) < 5 * se / 200).all()
    np.testing.assert_allclose(draws.cov().to_numpy() / np.outer(se, se), C / np.outer(se, se), atol=0.04)


@pytest.mark.parametrize(
    ("how", "word"),
    [({"m": 0}, "m"), ({"prior": {"z": 1}}, "z"), ({"prior": {"a": -1}}, "mean, sd"),
     ({"prior": "flat"}, "mean, sd"), ({"seed": -1}, "seed")],
)  # fmt: skip
def test_bad_draws_are_refused(fit, how, word):
    with pytest.raises(RequestError, match=word):
        fit.draws(**how)


def test_draws_need_both_errors():
    mean = quiet(dp.dp_moments, "y + a", table(), eps=2, delta=1e-6, bounds=BOUNDS, seed=1)
    with pytest.raises(NotReleasedError, match="covariance"):
        mean.draws(3)


def test_synthetic_tables_are_a_sequence_and_the_same_each_time(released):
    tables = released.synthetic(5, rows=50, seed=3)
    assert len(tables) == 5
    assert [len(t) for t in tables] == [50] * 5
    assert list(tables[0]) == ["y", "a", "b"]
    assert tables[1].equals(tables[1])
    assert tables[-1].equals(tables[4])
    assert not tables[0].equals(tables[1])
    assert tables[2].equals(released.synthetic(5, rows=50, seed=3)[2])
    with pytest.raises(IndexError):
        tables[5]
    with pytest.raises(RequestError, match="rows"):
        released.synthetic(5, rows=-1)


@pytest.mark.parametrize("public", [None, "moments"])
def test_a_release_of_weighted_rows_says_so(released, public):
    """Rows of "ssp" and "pmt" are scaled into a ball, whatever they hold; those of "joint" not."""
    how = {"public": {"moments": np.diag([1.0, 0.3, 0.3, 1.0]), "m": 100}} if public else {}
    weighted = quiet(
        dp.dp_moments, "y + a + b", table(), eps=2, delta=1e-6, bounds=BOUNDS, seed=1, **how
    )
    with pytest.warns(UtilityWarning, match="joint"):
        tables = weighted.synthetic(3, rows=50, seed=3)
    assert [note.code for note in tables.notes] == ["moments.weighted"]
    assert released.synthetic(3, rows=50).notes == ()  # and no warning, which would be an error


def test_pooled_fits_agree_with_the_fit_on_the_release(released):
    """100 tables, seed 5: estimates within 5 simulation errors, errors within a quarter.

    False alarm below 1e-4: an error of 100 draws is known to 7 %, and the rule doubles that.
    """
    direct = dp.dp_ols("y ~ a + b", released)
    pooled = dp.combine(least_squares(t) for t in released.synthetic(100, seed=5))
    spread = np.sqrt(2.0) * direct.bse.to_numpy() / 10
    assert (np.abs(pooled.params.to_numpy() - direct.params.to_numpy()) < 5 * spread).all()
    np.testing.assert_allclose(pooled.bse.to_numpy(), direct.bse.to_numpy(), rtol=0.45)
    small = dp.dp_ols("a ~ b", released)  # any model of the columns
    tables = released.synthetic(60, seed=6)
    b = np.array([np.polyfit(t["b"], t["a"], 1)[0] for t in tables])
    assert abs(b.mean() - small.params["b"]) < 5 * np.sqrt(2) * small.bse["b"] / np.sqrt(60)


def test_the_combining_rule_by_hand():
    q, u = np.array([1.0, 1.4, 1.2, 0.9]), 0.01
    pooled = dp.combine([([v], [[u]]) for v in q])
    want = (1 + 1 / 4) * np.var(q, ddof=1) - u
    assert pooled.params.iloc[0] == pytest.approx(q.mean())
    assert pooled.bse.iloc[0] == pytest.approx(np.sqrt(want))
    assert pooled.df[0] == pytest.approx(3 * (1 - u / (1.25 * np.var(q, ddof=1))) ** 2)
    assert "Estimates from 4 synthetic tables" in str(pooled)
    assert pooled.vcov().shape == (1, 1)
    assert 0 < pooled.pvalues.iloc[0] < 0.05


def test_a_negative_variance_is_that_within():
    pooled = dp.combine([([1.0, 2.0], np.eye(2)), ([1.01, 2.9], 0.01 * np.eye(2))])
    assert (np.diag(pooled.vcov()) > 0).all()
    assert pooled.bse.iloc[0] == pytest.approx(np.sqrt(0.505))


def test_fits_of_statsmodels_combine(released):
    sm = pytest.importorskip("statsmodels.api")
    fits = [sm.OLS(t["y"], sm.add_constant(t[["a", "b"]])).fit() for t in released.synthetic(5, rows=200, seed=1)]
    pooled = dp.combine(fits)
    assert list(pooled.params.index) == ["const", "a", "b"]


@pytest.mark.parametrize(
    ("fits", "word"),
    [([], "two tables"), ([([1.0], [[1.0]])], "two tables"), ([object(), object()], "params"),
     ([([1.0], [[1.0]]), ([1.0, 2.0], np.eye(2))], "other coefficients")],
)  # fmt: skip
def test_bad_fits_are_refused(fits, word):
    with pytest.raises(RequestError, match=word):
        dp.combine(fits)


def test_people_and_fits_without_moments_have_no_synthetic_rows():
    frame = table(900)
    frame["id"] = np.arange(900) // 3
    people = quiet(dp.dp_moments, "y + a", frame, eps=4, delta=1e-6, bounds=BOUNDS, unit="id", seed=1)
    with pytest.raises(NotReleasedError, match="people"):
        people.synthetic(3)
