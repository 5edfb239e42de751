"""A purchase of ranges that cannot be expected to succeed is said so before it is charged."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import UtilityWarning
from dpmodels.ranges import expected_reply


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": 7 * rng.normal(size=n)})
    return frame.assign(y=frame["x"] + rng.normal(size=n))


CALL = {"eps": 1, "delta": 1e-6}


def test_a_fit_that_would_spend_all_for_nothing_warns_before_the_charge():
    budget = dp.Budget(eps=3, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        with pytest.raises(UtilityWarning, match="a reply cannot be expected"):
            dp.dp_ols("y ~ x + z", table(1000), budget=budget, **CALL)
    assert budget.charges == ()  # a warning turned into an error stops the call before it
    few = dp.plan("y ~ x + z", n=1000, bounds="private", **CALL)
    many = dp.plan("y ~ x + z", n=20_000, bounds="private", **CALL)
    declared = dp.plan("y ~ x + z", n=1000, bounds=dict.fromkeys("xyz", (0, 1)), **CALL)
    tiny = dp.plan("y ~ x + z", n=1000, bounds="private", eps=1e-4, delta=1e-9)
    assert "or use a larger eps" in str(tiny.advice)  # no number of rows would do
    assert "a reply cannot be expected" in str(few)
    assert all("cannot be expected" not in text for text in (*many.advice, *declared.advice))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
def test_the_expectation_is_what_happens():
    """Normal columns, seeds 0-7: where < 0.05 is expected at most 2 of 8 reply (false alarm
    < 0.006), where > 0.99 at least 6 (< 1e-4)."""
    for n, low in ((800, True), (8000, False)):
        purchase = dp.plan("y ~ x + z", n=n, bounds="private", **CALL).purchase
        chance = expected_reply(purchase, n)
        assert chance < 0.05 if low else chance > 0.99, chance
        replies = sum(
            dp.dp_ols("y ~ x + z", table(n, s), seed=s, **CALL).released for s in range(8)
        )
        assert replies <= 2 if low else replies >= 6
