"""What is done after a fit does not depend on units, nor on a mean far from zero."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.after.inference import wald
from dpmodels.after.moments import (
    SecondMoments,
    components,
    inverse_and_rank,
    isotropic_noise,
    r_squared,
    regress,
    score,
)

pytestmark = pytest.mark.usefixtures("noiseless")
N = 5000


def test_a_regression_is_equivariant_under_units():
    rng = np.random.default_rng(0)
    w = np.column_stack([np.ones(400), rng.uniform(-1, 1, (400, 3))])
    m = SecondMoments(w.T @ w, isotropic_noise(4, 1.0), 400.0, np.eye(4)[0])
    a = np.array([0.2, 0.5, 0.3, 1.0])
    B = np.eye(4)[:3]
    turned = np.array([[1.0, 0, 0], [3e7, 1e8, 0], [5e-9, 0, 1e-9]])  # same span
    one, two = regress(m, B, a), regress(m, turned @ B, a)
    back = np.linalg.inv(turned)
    assert np.allclose(two.b @ turned, one.b, rtol=1e-6)
    assert two.v == pytest.approx(one.v) and two.trust == pytest.approx(one.trust)
    scale = np.sqrt(np.diag(back.T @ one.V @ back))
    assert np.allclose((two.V - back.T @ one.V @ back) / np.outer(scale, scale), 0, atol=1e-6)
    assert score(m, turned[:2] @ B, 1e-9 * B[2:], a).statistic == pytest.approx(
        score(m, B[:2], B[2:], a).statistic
    )
    assert r_squared(m, two, m.constant).share.value == pytest.approx(
        r_squared(m, one, m.constant).share.value
    )


def test_rank_of_a_covariance_does_not_depend_on_units():
    V = np.array([[2.0, 1.0], [1.0, 3.0]])
    D = np.diag([1e-9, 1e7])
    inverse, rank = inverse_and_rank(D @ V @ D)
    assert rank == 2 and np.allclose(D @ inverse @ D, np.linalg.inv(V))
    assert inverse_and_rank(np.ones((2, 2)) * 1e-20)[1] == 1
    L = np.eye(2)
    test = wald(L, D @ np.array([1.0, 2.0]), D @ V @ D, bias=np.diag(D) * 0.1)
    same = wald(L, np.array([1.0, 2.0]), V, bias=np.full(2, 0.1))
    assert (test.df, test.statistic) == (2, pytest.approx(same.statistic))
    assert test.noncentrality == pytest.approx(same.noncentrality)


def test_a_standardised_component_does_not_depend_on_units():
    rng = np.random.default_rng(1)
    w = np.column_stack([np.ones(300), rng.normal(size=(300, 2)) @ np.array([[1, 0.6], [0, 0.8]])])
    m = SecondMoments(w.T @ w, isotropic_noise(3, 1e-3), 300.0, np.eye(3)[0])
    B = np.eye(3)[1:]
    one, two = (
        components(m, s[:, None] * B, m.constant, standardised=True)
        for s in (np.ones(2), np.array([1e8, 1e-3]))
    )
    assert np.allclose(one.values, two.values)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1e8), (1e5, 1.01e5), (0, 1e-6), (-1e12, 1e12)], ids=str
)
@pytest.mark.usefixtures("quiet")
def test_fits_from_moments_whatever_the_range_of_a_column(low, high):
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(low, high, N)})
    z = (d.b - (low + high) / 2) / (high - low)
    d["y"] = 1 + 0.5 * d.a + 2 * z + rng.normal(0, 0.5, N)
    bounds = {"y": (-4, 6), "a": (-1, 1), "b": (low, high)}
    m = dp.dp_moments("y + a + b", d, eps=2, delta=1e-6, bounds=bounds, seed=1)
    fit = dp.dp_ols("y ~ a + b", m)
    X = np.column_stack([np.ones(N), d.a, z])
    exact = np.linalg.lstsq(X, d.y, rcond=None)[0]
    se = fit.bse
    assert abs(fit.params["a"] - exact[1]) < 1.5 * se["a"] < 0.1
    assert abs(fit.params["b"] * (high - low) - exact[2]) < 1.5 * se["b"] * (high - low) < 0.15
    assert m.best_subset("y").terms[0] == "a + b"
    test = fit.wald_test("a = 0, b = 0")
    assert test.df == 2 and test.pvalue < 1e-10


@pytest.mark.usefixtures("quiet")
def test_a_square_of_years():
    rng = np.random.default_rng(3)
    d = pd.DataFrame({"year": rng.integers(1990, 2021, 50_000).astype(float)})
    d["y"] = (d.year - 2005) ** 2 * 0.00107 + rng.normal(0, 0.2, len(d))
    bounds = {"y": (-2, 3), "year": (1990, 2020)}
    m = dp.dp_moments("y + year + I(year**2)", d, eps=8, delta=1e-6, bounds=bounds, seed=1)
    fit = dp.dp_ols("y ~ year + I(year**2)", m)
    assert fit.params["I(year ** 2)"] == pytest.approx(0.00107, rel=0.1)
    assert set(m.best_subset("y").terms) >= {"year + I(year ** 2)", "1"}


@pytest.mark.parametrize("ends", [(985, 1015), (950, 1050)])
@pytest.mark.usefixtures("quiet")
def test_r_squared_beside_a_factor_and_a_mean_far_from_zero(ends):
    rng = np.random.default_rng(5)
    d = pd.DataFrame({"a": rng.uniform(-1, 1, N), "g": rng.choice(list("abc"), N)})
    d["y"] = 1000 + 4 * d.a + d.g.map({"a": 0, "b": 1, "c": -1}) + rng.normal(0, 2.4, N)
    schema = {"y": dp.Real(*ends), "a": dp.Real(-1, 1), "g": dp.Levels(list("abc"))}
    X = np.column_stack([np.ones(N), d.a, d.g == "b", d.g == "c"]).astype(float)
    b = np.linalg.lstsq(X, d.y, rcond=None)[0]
    exact = 1 - ((d.y - X @ b) ** 2).sum() / ((d.y - d.y.mean()) ** 2).sum()
    m = dp.dp_moments("y + a + C(g)", d, eps=2e3, delta=1e-6, schema=schema, method="joint", seed=1)
    stats = dp.dp_ols("y ~ a + C(g)", m)._record.estimate.stats
    assert stats["r_squared_se"] < 0.05
    assert stats["r_squared"] == pytest.approx(exact, abs=1.5 * stats["r_squared_se"])
