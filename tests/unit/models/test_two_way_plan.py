"""Two-way effects: where a budget determines none, the plan says how many people it would take."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

YEARS = list(range(2000, 2008))
SCHEMA = dp.Schema(y=dp.Real(0, 10), x=dp.Real(0, 1), z=dp.Real(0, 1), year=dp.Levels(YEARS))
CALL = {"schema": SCHEMA, "unit": "id", "eps": 1, "delta": 1e-6, "rows_per_unit": 8}


def panel(people):
    rng = np.random.default_rng(people)
    rows = {"id": np.repeat(np.arange(people), 8), "year": np.tile(YEARS, people)}
    x, z = rng.uniform(0, 1, 8 * people), rng.uniform(0, 1, 8 * people)
    own = rng.normal(0, 1, people)[rows["id"]] + 0.1 * (rows["year"] - 2000)
    y = 4 + own + x - 0.5 * z + rng.normal(0, 0.8, 8 * people)
    return pd.DataFrame({**rows, "x": x, "z": z, "y": y.clip(0, 10)})


@pytest.mark.statistical
def test_the_people_that_a_plan_asks_for_are_enough():
    """One seeded panel at each size; intervals of the larger hold the truth at 4 errors.

    False-alarm probability below 1e-3.
    """
    plan = dp.plan("y ~ x + z | id + year", verb="dp_feols", n=1000, **CALL)
    assert "not be determined" in plan.forecast
    needed = int(re.search(r"About (\d+) people", " ".join(plan.advice))[1])
    assert 8000 < needed < 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = dp.dp_feols("y ~ x + z | id + year", panel(1000), seed=1, **CALL)
        enough = dp.dp_feols("y ~ x + z | id + year", panel(needed), seed=1, **CALL)
    assert few.pvalues[["x", "z"]].isna().all(), "as the plan said"
    assert (enough.pvalues[["x", "z"]] < 1e-6).all()
    errors = enough.errors()["error"][["x", "z"]]
    assert (abs(enough.params[["x", "z"]] - [1.0, -0.5]) < 4 * errors).all()
