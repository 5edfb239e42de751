"""``dp_fepois`` fits amounts, whatever their unit; nothing is printed where nobody counts."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

PEOPLE, ROWS = 1500, 8
RNG = np.random.default_rng(4)
ID = np.repeat(np.arange(PEOPLE), ROWS)
X = RNG.uniform(-1, 1, PEOPLE * ROWS)
MEAN = np.exp(1 + np.repeat(RNG.normal(0, 0.3, PEOPLE), ROWS) + X)
COUNTS = RNG.poisson(MEAN)
AMOUNTS = MEAN * RNG.gamma(4, 0.25, PEOPLE * ROWS)


def fit(y, declared, eps=4, **options):
    frame = pd.DataFrame({"y": y, "x": X, "id": ID})
    schema = {"x": dp.Real(-1, 1), "y": declared}
    return dp.dp_fepois(
        "y ~ x | id", frame, unit="id", eps=eps, delta=1e-6, schema=schema, seed=1, **options
    )


def conditional(y):
    """The estimate of Poisson regression with a dummy for every person, by Newton's method."""
    b, total = 0.0, np.bincount(ID, y)
    for _ in range(30):
        power = np.exp(b * X)
        p = power / np.bincount(ID, power)[ID]
        mean = np.bincount(ID, p * X)
        score = (X * (y - total[ID] * p)).sum()
        b += score / (total * (np.bincount(ID, p * X**2) - mean**2)).sum()
    return b


def test_amounts_are_fitted_without_noise(noiseless):
    found = fit(AMOUNTS, dp.Real(0, 60), eps=50)
    assert found.params["x"] == pytest.approx(conditional(AMOUNTS), abs=4e-3)
    counts = fit(COUNTS, dp.Count(60), eps=50)
    assert counts.params["x"] == pytest.approx(conditional(COUNTS), abs=4e-3)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e5])
def test_the_unit_of_an_amount_does_not_matter(quiet, unit):
    one, other = fit(AMOUNTS, dp.Real(0, 60)), fit(AMOUNTS * unit, dp.Real(0, 60 * unit))
    assert other.params["x"] == pytest.approx(one.params["x"], abs=1e-4)
    assert other.bse["x"] == pytest.approx(one.bse["x"], rel=1e-3)
    assert abs(one.params["x"] - 1.0) < 4 * one.bse["x"] < 0.1


def test_nothing_is_printed_where_nobody_has_an_event(quiet):
    found = fit(np.zeros(len(X)), dp.Count(60))
    assert np.isnan(found.params["x"])
    assert "Nothing is estimated" in found.notes[0]


def test_nothing_is_printed_where_no_row_is_in_the_subset(quiet):
    frame = pd.DataFrame({"y": AMOUNTS, "x": X})
    schema = {"x": dp.Real(-1, 1), "y": dp.Real(0, 60)}
    call = {"eps": 4, "delta": 1e-6, "schema": schema, "seed": 1, "subset": "x > 0.9999"}
    found = dp.dp_ols("y ~ x", frame, **call)
    assert np.isnan(found.params).all()
