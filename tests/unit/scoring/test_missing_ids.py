"""Rows without the id of a cluster are missing, from the coefficients and from the errors alike."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source

SCHEMA = {
    "x": dp.Real(-3, 3), "g": dp.Levels(list("ab")), "y": dp.Real(-8, 8), "e": dp.Binary(),
}  # fmt: skip
CRV = {"CRV1": "v"}
CALLS = {
    "least squares": (dp.dp_ols, "y ~ x", {"vcov": CRV}),
    "factors": (dp.dp_ols, "y ~ g", {"vcov": CRV}),
    "logit": (dp.dp_glm, "e ~ x", {"vcov": CRV}),
    "median": (dp.dp_quantreg, "y ~ x", {"vcov": CRV}),
    "survey": (dp.dp_ols, "y ~ x", {"design": dp.Survey(psu="v")}),
    "mean by design": (dp.dp_mean, "y ~ 1", {"design": dp.Survey(psu="v")}),
}


def villages(missing=0.5, n=12_000, seed=3):
    rng = np.random.default_rng(seed)
    v = rng.integers(0, 400, n)
    u = rng.normal(0, 1, 400)[v]
    x = np.clip(rng.normal(0, 0.5, n) + 0.5 * rng.normal(0, 1, 400)[v], -3, 3)
    y = np.clip(0.5 * x + u + rng.normal(0, 1, n), -8, 8)
    d = pd.DataFrame({"x": x, "y": y, "e": (y > 0.5).astype(int), "g": rng.choice(list("ab"), n)})
    d["v"] = [f"v{k}" for k in v]
    d.loc[rng.uniform(size=n) < missing, "v"] = None
    return d


@pytest.mark.parametrize("name", CALLS)
def test_a_row_without_an_id_is_like_a_row_that_is_missing(quiet, name):
    """Without noise: the fit of all rows is that of a table whose other rows have no response."""
    verb, formula, options = CALLS[name]
    table = villages()
    empty = table.assign(y=table.y.where(table.v.notna()))
    if formula.startswith("e"):
        empty = table.assign(e=table.e.astype(float).where(table.v.notna()))
    fits = []
    for d in (table, empty):
        with noise_source(ZeroNoise()):
            fits.append(verb(formula, d, eps=2, delta=1e-6, schema=SCHEMA, **options))
    a, b = (np.asarray(f.params, float) for f in fits)
    assert np.isfinite(a).all()
    np.testing.assert_allclose(a, b, rtol=1e-3)
    np.testing.assert_allclose(fits[0].bse, fits[1].bse, rtol=1e-3)


@pytest.mark.statistical
def test_errors_by_cluster_hold_where_half_of_the_ids_are_missing(quiet):
    """Seeds 0-19, made tables 0-19: below 14 of 20 covered with probability 1e-4 if 95 % are."""
    covered = 0
    for seed in range(20):
        fit = dp.dp_ols(
            "y ~ x", villages(seed=seed), eps=4, delta=1e-6, schema=SCHEMA, vcov=CRV, seed=seed
        )
        low, high = fit.conf_int().loc["x"]
        covered += low <= 0.5 <= high
    assert covered >= 14
