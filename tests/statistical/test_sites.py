"""Coverage of results of several sites: pooled second moments, and combined fits of a real table."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet")]


def covered(frame, truth):
    """Return which of the intervals of a tidy frame contain the true value."""
    return ((frame["conf_low"] <= truth) & (truth <= frame["conf_high"])).to_numpy()


@pytest.mark.parametrize("method", ["joint", "ssp"])
def test_regressions_on_pooled_moments_cover(method):
    """Three sites of 800, 1500 and 3000 rows, eps 1, 400 times: .93 to .98 of 1200 intervals.

    Seeds 0 to 399. With coverage .955 it fails with probability below 1e-3 (binomial, three
    dependent coefficients counted as two).
    """
    schema = dp.Schema(x=dp.Real(-1, 1), z=dp.Real(0, 1), y=dp.Real(-3, 4))
    truth, inside = np.array([0.5, 1.0, -0.3]), []
    for seed in range(400):
        rng, parts = np.random.default_rng(seed), []
        for k, n in enumerate((800, 1500, 3000)):
            d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 1, n)})
            d["y"] = 0.5 + d.x - 0.3 * d.z + rng.normal(0, 0.5, n)
            parts.append(dp.dp_moments("y + x + z", d, eps=1, delta=1e-6, schema=schema,
                                       method=method, seed=3 * seed + k))  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            fit = dp.dp_ols("y ~ x + z", dp.pool(parts))
        inside.append(covered(fit.tidy(), truth))
    assert 0.93 <= np.mean(inside) <= 0.98, np.mean(inside, axis=0)


def test_combined_fits_of_a_real_table_cover(real_data):
    """Hourly earnings of 61 395 people are the population; 9000 are drawn and split into 3 sites.

    150 times, seeds 0 to 149: at least .93 of 450 intervals. Intervals allow for a bias of
    clipping, so that coverage is near 1.
    """
    people = real_data("cps_earnings_sw8.csv.gz")
    X = np.column_stack([np.ones(len(people)), people["education"], people["age"]])
    truth = np.linalg.lstsq(X, people["earnings"], rcond=None)[0]
    schema = dp.Schema(earnings=dp.Real(0, 75), education=dp.Real(6, 20), age=dp.Real(20, 65))
    inside, combined = [], []
    for seed in range(150):
        drawn = people.iloc[np.random.default_rng(seed).choice(len(people), 9000, replace=False)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            fits = [dp.dp_ols("earnings ~ education + age", drawn.iloc[k::3], eps=1, delta=1e-6,
                              schema=schema, seed=3 * seed + k) for k in range(3)]  # fmt: skip
        frame = dp.meta(fits).tidy()
        inside.append(covered(frame, truth))
        combined.append(frame["std_error"] / np.mean([fit.bse for fit in fits], axis=0))
    assert np.mean(inside) >= 0.93, np.mean(inside, axis=0)
    assert np.median(combined) < 0.7, "three sites tell more than one"
