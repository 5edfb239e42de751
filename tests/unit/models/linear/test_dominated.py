"""Errors where noise dominates a direction, and the allowance for row weights."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.linear.solve import attenuation, isotropic, posterior, solve
from dpmodels.sums.rowmap import unit_rows

SCHEMA = dp.Schema(
    a=dp.Real(-4, 4), b=dp.Real(-4, 4), g=dp.Levels(["x", "y", "z"]), y=dp.Real(-6, 6)
)
CALL = dict(eps=1.0, delta=1e-6, method="ssp", schema=SCHEMA, scoring=False)


def rare_level(n=20_000, count=5, seed=0):
    """A level that ``count`` rows hold: the release cannot tell its effect."""
    rng = np.random.default_rng(seed)
    g = np.where(np.arange(n) < count, "z", rng.choice(["x", "y"], n))
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "g": g})
    frame["y"] = 0.5 + frame["a"] - 0.7 * frame["b"] + (g == "y") + rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def fit():
    with pytest.warns((dp.errors.UtilityWarning, dp.errors.NotPrivateWarning)):
        return dp.dp_ols("y ~ a + b + g", rare_level(), seed=4, **CALL)


def test_only_the_undetermined_coefficient_has_no_interval(fit):
    assert fit.stats["ridge"] > 0
    assert list(fit.bse.index[fit.bse.isna()]) == ["g[T.z]"]
    truth = np.array([0.5, 1.0, -0.7, 1.0])
    assert (np.abs(fit.params.to_numpy()[:4] - truth) < 4 * fit.bse.to_numpy()[:4]).all()
    assert (fit.bse.to_numpy()[:4] < 0.15).all()
    assert any("No standard errors, the release is too noisy: g[T.z]" in note for note in fit.notes)


def test_every_coefficient_is_that_of_the_ridge(fit):
    """(M + lam I)^{-1} h of the released moments, back from their coordinates; no other shrinkage."""
    Q, L, lam = fit.arrays["moments"], fit.arrays["moment_coordinates"], fit.stats["ridge"]
    d = np.linalg.solve(Q[:5, :5] + lam * np.eye(5), Q[:5, 5])
    unit = np.linalg.solve(L[:5, :5].T, L[5, :5] + L[5, 5] * d)
    B, a = unit_rows(dp.plan("y ~ a + b + g", n=20_000, **CALL).design)[0].back()
    assert fit.params.to_numpy() == pytest.approx(B @ unit + a)


def test_predictions_have_errors_where_the_coefficient_does_not_enter(fit):
    new = pd.DataFrame({"a": [0.0, 0.0], "b": [0.0, 1.0], "g": ["y", "z"]})
    found = fit.predict(new, interval="confidence")
    assert found.loc[0].notna().all()
    b = fit.params
    assert found.loc[0, "fit"] == pytest.approx(b["Intercept"] + b["g[T.y]"])
    assert found.loc[1, "fit"] == pytest.approx(b["Intercept"] + b["b"] + b["g[T.z]"])
    assert found.loc[1, ["lwr", "upr"]].isna().all()


def test_the_fit_is_saved_and_tabled_with_its_missing_errors(fit, tmp_path):
    path = tmp_path / "fit.json"
    fit.to_json(path)
    again = dp.load(path)
    pd.testing.assert_series_equal(again.bse, fit.bse)
    assert "n/a" in str(fit.summary())
    assert "g[T.z]" in str(dp.etable([fit]))


def test_without_inference_nothing_is_said_about_errors(quiet):
    fit = dp.dp_ols("y ~ a + b + g", rare_level(), seed=4, inference=False, **CALL)
    assert fit.bse.isna().all() and fit.bse_privacy.notna().all()
    assert not any("root mean squared" in note for note in fit.notes)


def moments(M0, s, seed, d0, v=1.0):
    """Draw a release: ``Q = [M0, h0; h0', t0] + SymN(p + 1, s)``."""
    rng = np.random.default_rng(seed)
    p = len(d0)
    h0 = M0 @ d0 + np.linalg.cholesky(v * M0) @ rng.normal(size=p)
    Q = np.block([[M0, h0[:, None]], [h0[None], np.array([[h0 @ d0 + v * 1000]])]])
    E = np.triu(rng.normal(size=(p + 1, p + 1))) * s / np.sqrt(2)
    E = E + np.triu(E, 1).T
    E[np.diag_indices(p + 1)] = s * rng.normal(size=p + 1)
    return isotropic(Q + E, s)


def test_far_above_the_noise_the_posterior_is_the_delta_method():
    d0 = np.array([0.3, -0.2, 0.1])
    M0 = 1000.0 * np.diag([1.0, 0.8, 1.2])
    m = moments(M0, 20.0, 1, d0)
    mean, P = posterior(m, 1e-8 * np.eye(3), m.M)
    d, A = solve(m, 0.0)
    delta = A @ (m.M + m.coefficient_noise(d)) @ A
    assert mean == pytest.approx(d, abs=0.15 * np.sqrt(np.diag(delta)).min())
    assert np.diag(P) == pytest.approx(np.diag(delta), rel=0.02)


def test_a_direction_below_the_noise_keeps_its_prior():
    """300 releases; M0 is a fifth of the noise there, and the truth a draw from the prior.

    About 5 % of intervals miss in either direction; 10.5 % or more of 300 is 4.4 sd away.
    """
    hits, wide = [], []
    for seed in range(300):
        d0 = np.random.default_rng([7, seed]).normal(size=2) * [0.3, 1.0]
        m = moments(np.diag([2000.0, 4.0]), 20.0, seed, d0)
        mean, P = posterior(m, np.diag([1 / 0.09, 1.0]), np.diag([2000.0, 4.0]))
        sd = np.sqrt(np.diag(P))
        hits.append(np.abs(mean - d0) < 1.96 * sd)
        wide.append(sd[1])
    missed = 1.0 - np.mean(hits, axis=0)
    assert (missed < 0.105).all()
    assert np.median(wide) > 0.8


@pytest.mark.parametrize(("q", "quantile"), [(4, 0.95), (8, 0.9), (3, 0.8)])
def test_attenuation_is_what_row_weights_do_to_gaussian_rows(q, quantile):
    """Weighted least squares on 5e5 rows at +-d0, |d0| = .1: the difference leaves no first-order
    noise; what is left (about .001) is third order in d0 and the sampling of the tail."""
    from scipy.special import chdtri

    rng = np.random.default_rng(5)
    radius = float(np.sqrt(chdtri(q, 1 - quantile)))
    x, e = rng.normal(size=(500_000, q - 2)), rng.normal(size=500_000)
    X = np.column_stack([np.ones(len(x)), x])

    def weighted(d0):
        r = X @ d0 + e
        c2 = np.minimum(1.0, radius**2 / ((X**2).sum(axis=1) + r**2))
        return np.linalg.solve((X * c2[:, None]).T @ X, X.T @ (c2 * r))

    found = []
    for j in (0, 1):
        d0 = 0.1 * np.eye(q - 1)[j]
        found.append(1 - (weighted(d0) - weighted(-d0))[j] / 0.2)
    assert found == pytest.approx(attenuation(q, radius, intercept=True), abs=0.004)
    assert min(found) > 0.01
