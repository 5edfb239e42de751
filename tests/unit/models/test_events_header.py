"""A summary says how many events a fit saw, wherever that number was released."""

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

SCHEMA = dp.Schema(x=dp.Real(-4, 4), y=dp.Binary(), t=dp.Real(0, 12), e=dp.Binary())
CALL = {"schema": SCHEMA, "eps": 1, "delta": 1e-6}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=6000).clip(-4, 4)
    t = rng.exponential(10, 6000).clip(0.01, 12)
    y = rng.uniform(size=6000) < 1 / (1 + np.exp(2 - 0.8 * x))
    return pd.DataFrame({"x": x, "y": y.astype(int), "t": t, "e": (t < 12).astype(int)})


FITS = {
    "y": lambda d, k: dp.dp_glm("y ~ x", d, fit_stats=True, seed=k, **CALL),
    "cox": lambda d, k: dp.dp_coxph("Surv(t, e) ~ x", d, seed=k, **CALL),
    "curve": lambda d, k: dp.dp_survfit("Surv(t, e) ~ 1", d, seed=k, **CALL),
}


@pytest.mark.parametrize("name", FITS)
def test_the_number_of_events_is_within_its_error(quiet, data, name):
    """Twelve fits; 3.5 errors are exceeded in one of 180 times that this is run with other seeds."""
    true = data["y" if name == "y" else "e"].sum()
    fits = [FITS[name](data, seed) for seed in range(12)]
    z = np.array([(f.stats["events"] - true) / f.stats["events_se"] for f in fits])
    assert np.abs(z).max() < 3.5 and 0.3 < z.std() < 2.0
    text = str(fits[0].summary())
    count, noise = re.search(r"Events: +about ([\d ]+) \(\+- ([\d ]+)\)", text).groups()
    assert abs(int(count.replace(" ", "")) - fits[0].stats["events"]) <= 5
    assert int(noise.replace(" ", "")) == pytest.approx(fits[0].stats["events_se"], abs=5)


def test_no_number_is_shown_that_was_not_released(quiet, data):
    """A logit without ``fit_stats=True`` releases no number of events, and buys none."""
    fit = dp.dp_glm("y ~ x", data, seed=1, **CALL)
    assert "events" not in fit.stats and "Events" not in str(fit.summary())
