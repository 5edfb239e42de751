"""predict() on public rows says what it moved or did not understand."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import UtilityWarning


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    n = 5000
    data = pd.DataFrame({"age": rng.uniform(18, 65, n), "g": rng.choice(["a", "b"], n)})
    data["y"] = data.age / 65 + (data.g == "b") + rng.normal(0, 0.1, n)
    schema = dp.Schema(age=dp.Real(18, 65), g=dp.Levels(["a", "b"]), y=dp.Real(-1, 4))
    bought = dp.Schema(g=dp.Levels(["a", "b"]), y=dp.Real(-1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            dp.dp_ols("y ~ age + g", data, eps=4, delta=1e-6, schema=s, seed=1)
            for s in (schema, bought)
        ]


@pytest.mark.parametrize("k", [0, 1])
def test_cells_outside_the_range_are_named(fits, k):
    """Age 90 was answered as age 65, silently."""
    new = pd.DataFrame({"age": [30.0, 200.0, np.nan], "g": ["a", "b", None]})
    with pytest.warns(UtilityWarning, match=r"1 of 3 cells of 'age' are outside .*nearer bound"):
        fits[k].predict(new)
    with pytest.warns(UtilityWarning, match="1 of 3 cells of 'age' .* answered by NaN"):
        fits[k].predict(new, outside="nan")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits[k].predict(new, outside="extrapolate")
        fits[k].predict(new.iloc[[0, 2]])  # a missing cell is no surprise
        fits[k].predict({"age": 30, "g": "a"})


def test_levels_that_were_not_declared_are_named(fits):
    with pytest.warns(UtilityWarning, match="2 of 3 cells of 'g' are not a declared level"):
        out = fits[0].predict(pd.DataFrame({"age": 30.0, "g": ["a", "zz", "c"]}))
    assert out.isna().tolist() == [False, True, True]
    with pytest.warns(UtilityWarning, match="1 of 2 cells of 'age' are not readable"):
        fits[0].predict(pd.DataFrame({"age": ["30", "old"], "g": "a"}))
