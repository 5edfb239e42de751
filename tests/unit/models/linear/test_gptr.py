"""dp_ols by posterior sampling and score perturbation, through the public verb."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, RequestError

pytestmark = pytest.mark.usefixtures("quiet")
FORMULA = "y ~ a + b"


@pytest.mark.parametrize("estimator", ["posterior", "score"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_guarantee_recomputed_from_the_steps(estimator, relation, table, bounds):
    fit = dp.dp_ols(
        FORMULA, table(4000), eps=1, delta=1e-6, bounds=bounds, method="gptr",
        estimator=estimator, relation=relation,
    )  # fmt: skip
    assert fit.released
    assert 0.98e-6 < fit.privacy.delta_at(1.0) <= 1e-6 * (1 + 1e-8)
    assert (fit.nobs is None) == (relation == "add-remove")


@pytest.mark.parametrize("estimator", ["posterior", "score"])
def test_without_noise_it_is_ridge_in_working_units(estimator, noiseless, table, bounds):
    data = table(100_000)
    fit = dp.dp_ols(
        FORMULA, data, eps=4, delta=1e-5, bounds=bounds, method="gptr", estimator=estimator,
        scoring=False,
    )
    lam = fit.stats["ridge"]
    X = np.column_stack([np.ones(len(data)), data.a, data.b])
    norm = np.sqrt((X**2).sum(1))
    w = np.minimum(1, np.sqrt(2.0) / norm)
    Xw, yw = X * w[:, None], data.y / 4 * w
    theta = 4 * np.linalg.solve(Xw.T @ Xw + lam * np.eye(3), Xw.T @ yw)
    np.testing.assert_allclose(fit.params, theta, rtol=1e-4, atol=1e-5)


def test_draws_are_several_and_cost(table, bounds):
    args = {"eps": 2, "delta": 1e-6, "bounds": bounds, "method": "gptr", "seed": 1, "scoring": False}
    one = dp.dp_ols(FORMULA, table(20000), **args)
    four = dp.dp_ols(FORMULA, table(20000), draws=4, **args)
    assert four._record.estimate.arrays["draws"].shape == (4, 3)
    assert four.stats["noise_sd_bound"] > one.stats["noise_sd_bound"]
    assert four.privacy.delta_at(2.0) <= 1e-6 * (1 + 1e-8)


def test_undeclared_ranges_are_bought(table):
    fit = dp.dp_ols(FORMULA, table(30000), eps=2, delta=1e-6, method="gptr", seed=1)
    assert fit.released and fit.privacy.delta_at(2.0) <= 1e-6 * (1 + 1e-8)
    with pytest.raises(RequestError, match="declare the ranges of"):
        dp.dp_ols(FORMULA, table(100), eps=2, delta=1e-6, method="gptr", relation="add-remove")


def test_the_published_variant_is_refused_with_its_erratum(table, bounds):
    with pytest.raises(RequestError, match="factor sqrt\\(2\\)"):
        dp.dp_ols(
            FORMULA, table(100), eps=1, delta=1e-6, bounds=bounds, method="gptr", variant="paper"
        )


def test_a_small_ridge_is_raised_and_said_so(table, bounds):
    fit = dp.dp_ols(
        FORMULA, table(300), eps=1, delta=1e-6, bounds=bounds, method="gptr", lam=1e-3, seed=1
    )
    assert "raised" in str(fit.summary(full=True))


@pytest.mark.parametrize("method", ["ops", "adaops"])
@pytest.mark.usefixtures("quiet")
def test_comparison_methods_answer(method, table, bounds):
    fit = dp.dp_ols(FORMULA, table(4000), eps=1, delta=1e-6, bounds=bounds, method=method, seed=1)
    assert fit.released
    # a ridge of n^(1/3): shrunk, not wild
    assert np.abs(fit.params.to_numpy()).max() < 4.0
    assert fit.privacy.delta_at(1.0) <= 1e-6 * (1 + 1e-8)


def test_rank_deficient_and_constant_columns_answer(bounds):
    data = pd.DataFrame({"a": np.ones(200), "b": np.ones(200), "y": np.zeros(200)})
    fit = dp.dp_ols(FORMULA, data, eps=1, delta=1e-6, bounds=bounds, method="gptr", seed=1)
    # y is 0 everywhere: what is published is noise about 0, of the size that the fit states
    sd = fit.bse_privacy.to_numpy()
    assert np.abs(fit.params.to_numpy()).max() < 6.0 * sd[np.isfinite(sd)].max(initial=2.0)


def test_row_order_does_not_matter(table, bounds):
    data = table(3000)
    fits = [
        dp.dp_ols(FORMULA, d, eps=1, delta=1e-6, bounds=bounds, method="gptr", seed=4)
        for d in (data, data.sample(frac=1, random_state=1))
    ]
    np.testing.assert_allclose(fits[0].params, fits[1].params, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"fractions": (0.5, 0.6)}, "fractions="),
        ({"fractions": 3}, "fractions="),
        ({"draws": 0}, "draws"),
        ({"estimator": "map"}, "estimator"),
        ({"lam": -2.0}, "lam"),
        ({"floor": 0.5}, "floor"),
        ({"weights": "a"}, "cannot use weights"),
    ],
)
def test_bad_input(change, match, table, bounds):
    with pytest.raises(DPModelsError, match=match):
        dp.dp_ols(FORMULA, table(50), eps=1, delta=1e-6, bounds=bounds, method="gptr", **change)
