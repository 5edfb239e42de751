"""Bands of a kernel regression of a 0/1 response: noise and sampling."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

POINTS = np.array([-0.9, -0.5, 0.0, 0.5, 0.9])


def chance(x):
    return 0.5 + 0.35 * np.sin(4 * x)


def smoothed(h):
    x = np.linspace(-1, 1, 4001)
    K = np.exp(-0.5 * ((POINTS[:, None] - x) / h) ** 2)
    return K @ chance(x) / K.sum(axis=1)


def fitted(n, seed, response, eps=1, **options):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    rows = pd.DataFrame({"x": x, "y": (rng.uniform(size=n) < chance(x)).astype(int)})
    schema = dp.Schema(x=dp.Real(-1, 1), y=response)
    return dp.dp_npreg("y ~ x", rows, eps=eps, delta=1e-6, schema=schema, seed=seed, **options)


@pytest.mark.parametrize(
    ("n", "options"),
    [(20_000, {"eps": 8}), (2000, {}), (20_000, {"eps": 8, "method": "eptr", "at": {"x": POINTS}})],
)
def test_the_band_covers_the_smoothed_curve(quiet, n, options):
    """False alarm: below 1e-4. 250 nearly independent hits of .95 have a sd of .014; 4 sd below."""
    hits = []
    for seed in range(50):
        fit = fitted(n, seed, dp.Binary(), **options)
        band = fit.predict({"x": POINTS}, interval="confidence")
        truth = smoothed(fit.glance()["bandwidth"][0])
        hits.extend((band["lwr"] <= truth) & (truth <= band["upr"]))
    assert np.mean(hits) > 0.894


def test_both_parts_are_printed_and_numbers_keep_the_privacy_band(quiet):
    fit, number = fitted(5000, 1, dp.Binary()), fitted(5000, 1, dp.Real(0, 1))
    assert np.allclose(fit.vcov("sampling") + fit.vcov("privacy"), fit.vcov())
    assert np.isfinite(fit.conf_int().to_numpy()).all()
    assert "includes sampling error" in str(fit.summary(full=True))
    assert number.params.to_numpy() == pytest.approx(fit.params.to_numpy())
    assert number.conf_int().isna().all(axis=None)
    new = {"x": [0.3]}
    both, noise = (f.predict(new, se_fit=True)["se_fit"][0] for f in (fit, number))
    assert both > 1.5 * noise
    again = dp.results.Fit.from_json(fit.to_json())
    assert again.predict(new, se_fit=True)["se_fit"][0] == both


def test_cells_of_wavelets_have_errors(quiet):
    fit = fitted(5000, 1, dp.Binary(), method="wavelet", level_j=3)
    f = np.clip(2 * fit.params.to_numpy() - 1, -1, 1)
    sampling = np.sqrt(np.diag(fit.vcov("sampling")))
    assert sampling == pytest.approx(np.sqrt((1 - f**2) / 4 / (5000 / 8)), rel=0.2)


def test_rows_of_a_person_widen_the_band_as_they_widen_the_table(quiet):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 6000)
    rows = pd.DataFrame({"x": x, "y": (rng.uniform(size=6000) < chance(x)).astype(int), "id": np.arange(6000) // 3})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Binary())
    fit = dp.dp_npreg("y ~ x", rows, eps=8, delta=1e-6, schema=schema, seed=1, unit="id", max_rows=3, at={"x": [0.0]})
    assert fit.predict({"x": [0.0]}, se_fit=True)["se_fit"][0] == pytest.approx(fit.vcov().iloc[0, 0] ** 0.5, rel=1e-4)
