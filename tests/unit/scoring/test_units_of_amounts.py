"""Counts and amounts declared as numbers do not depend on their unit."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp


def fit(family, unit, seed=0):
    """Amounts of mean 8 in a range to 400, times a unit; the slope is .5."""
    rng = np.random.default_rng([12, seed])
    x = rng.normal(size=20_000).clip(-4, 4)
    y = np.minimum(np.exp(2.0 + 0.5 * x) * rng.gamma(2.0, 0.5, len(x)), 400.0) * unit
    schema = dp.Schema(x=dp.Real(-4, 4), y=dp.Real(0, 400.0 * unit))
    frame = pd.DataFrame({"x": x, "y": y})
    return dp.dp_glm("y ~ x", frame, family=family, schema=schema, eps=2, delta=1e-6, seed=seed)


@pytest.mark.parametrize("family", ["poisson", "quasipoisson", "negative_binomial"])
def test_amounts_in_any_unit_have_the_same_slope(quiet, family):
    """At 1e-3 the error of the slope was .13 for .007, at 1e-6 1.3, and the intercept 4.4 off.

    An error varies by a quarter with the noise.
    """
    own = fit(family, 1.0)
    for unit in (0.1, 1e-3, 1e-6, 1e3):
        found = fit(family, unit)
        assert found.pvalues.notna().all()
        assert found.bse["x"] == pytest.approx(own.bse["x"], rel=0.8)
        assert abs(found.params["x"] - 0.5) < 4.0 * found.bse["x"]
        level = found.params.iloc[0] - math.log(unit)
        assert abs(level - 2.0) < 4.0 * found.bse.iloc[0]


def test_rare_counts_that_are_declared_as_numbers(quiet):
    """The square of a rare event is cut where the dispersion is measured: that is 1, not .1."""
    hit = 0
    for seed in range(8):
        rng = np.random.default_rng([13, seed])
        x = rng.normal(size=20_000).clip(-4, 4)
        y = rng.poisson(0.1 * np.exp(0.5 * x - 0.125)).clip(max=8).astype(float)
        schema = dp.Schema(x=dp.Real(-4, 4), y=dp.Real(0, 8))
        frame = pd.DataFrame({"x": x, "y": y})
        call = {"schema": schema, "eps": 1, "delta": 1e-6, "seed": seed}
        low, high = dp.dp_glm("y ~ x", frame, family="poisson", **call).conf_int().loc["x"]
        assert high - low < 0.36  # .3 with one clip, which cut the counts
        hit += low <= 0.5 <= high
    assert hit >= 6  # 5 or fewer of 8 at .95: 4 times in 1e4
