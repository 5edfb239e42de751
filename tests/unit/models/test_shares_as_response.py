"""Errors of shares as a binomial response are theirs, not those of 0/1 events."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

N = 15_000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, N)
    mean = 1 / (1 + np.exp(-(0.2 + 0.8 * x)))
    return pd.DataFrame({"x": x, "y": rng.beta(10 * mean, 10 * (1 - mean)), "id": np.arange(N)})


def fit(data, y=None, eps=20, **options):
    schema = {"x": dp.Real(-1, 1), "y": dp.Real(0, 1) if y is None else y}
    return dp.dp_glm(
        "y ~ x", data, family="binomial", eps=eps, delta=1e-6, schema=schema, seed=1, **options
    )


@pytest.mark.parametrize("options", [{}, {"unit": "id"}])
def test_errors_of_shares_are_those_of_a_sandwich(quiet, data, options):
    sm = pytest.importorskip("statsmodels.api")
    own = sm.GLM(data["y"], sm.add_constant(data["x"]), family=sm.families.Binomial())
    robust = own.fit(cov_type="HC1").bse.to_numpy()
    assert fit(data, **options).bse.to_numpy() == pytest.approx(robust, rel=0.15)


def test_shares_are_covered_as_often_as_it_says(quiet):
    """40 fits at eps = 2, fixed seeds: fewer than 33 of the intervals cover once in 300."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, 6000)
        mean = 1 / (1 + np.exp(-(0.2 + 0.8 * x)))
        frame = pd.DataFrame({"x": x, "y": rng.beta(10 * mean, 10 * (1 - mean))})
        low, high = fit(frame, eps=2).conf_int().loc["x"]
        covered += low <= 0.8 <= high
    assert covered >= 33


def test_events_vary_as_the_model_says_or_more(quiet, data):
    """The floor of an event's errors stands, whichever way the event is declared."""
    events = data.assign(y=(data["y"] > 0.5).astype(int))
    for declared, options in ((dp.Binary(), {}), (dp.Real(0, 1), {"event": 1})):
        found = fit(events, declared, eps=1, **options)
        score = found._record.design.levels
        assert tuple(score) == (0, 1)
    assert fit(data)._record.design.levels == ()
