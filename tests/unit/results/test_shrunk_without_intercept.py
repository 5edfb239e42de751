"""``fit.shrunk`` of hazards and of effects of people, whose design has a column more."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
SCHEMA = dp.Schema(
    x=dp.Real(0, 1), z=dp.Real(-1, 1), y=dp.Real(-2, 3), g=dp.Levels(["a", "b", "c"]),
    t=dp.Real(0, 5), d=dp.Binary((0, 1)), year=dp.Levels([0, 1, 2]),
)  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    n = 1500
    d = pd.DataFrame({"id": np.repeat(np.arange(n // 3), 3), "year": np.tile([0, 1, 2], n // 3)})
    d["x"], d["z"] = rng.uniform(0, 1, n), rng.uniform(-1, 1, n)
    d["g"] = rng.choice(["a", "b", "c"], n)
    d["y"] = d["x"] + rng.normal(0, 0.3, n)
    d["t"], d["d"] = rng.exponential(2, n).clip(0, 5), rng.integers(0, 2, n)
    return d


@pytest.mark.parametrize(
    ("verb", "formula", "unit"),
    [
        ("dp_coxph", "Surv(t, d) ~ x", None), ("dp_coxph", "Surv(t, d) ~ g + strata(year)", None),
        ("dp_coxph", "Surv(t, d) ~ x + z + g", "id"), ("dp_feols", "y ~ x | id", "id"),
        ("dp_feols", "y ~ x * z + g | id + year", "id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("eps", [0.1, 5.0])
def test_it_is_the_estimate(data, verb, formula, unit, eps):
    fit = getattr(dp, verb)(formula, data, eps=eps, delta=1e-6, schema=SCHEMA, unit=unit, seed=1)
    pd.testing.assert_series_equal(fit.shrunk, fit.params, check_names=False)
    assert str(fit.summary(full=True))
