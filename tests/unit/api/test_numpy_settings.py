"""Calls do not depend on the error settings of numpy."""

import numpy as np
import pytest

import dpmodels as dp

SCHEMA = {"y": dp.Real(0, 1), "x": dp.Real(0, 1)}


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
@pytest.mark.parametrize(("verb", "formula", "more"), [
    ("dp_ols", "y ~ x", {}), ("dp_glm", "{y > .5} ~ x", {}), ("dp_quantreg", "y ~ x", {}),
    ("dp_mean", "y ~ 1", {}), ("dp_glm", "{y > .5} ~ x", {"method": "objpert"}),
    ("dp_release", "~ y + x", {}),
])  # fmt: skip
def test_calls_work_where_numpy_raises(verb, formula, more):
    rng = np.random.default_rng(0)
    data = {"y": rng.uniform(0, 1, 1000), "x": rng.uniform(0, 1, 1000)}
    with np.errstate(all="raise"):
        assert getattr(dp, verb)(formula, data, eps=1, delta=1e-6, schema=SCHEMA, **more) is not None
        assert dp.plan("y ~ x", SCHEMA, n=1000, eps=1, delta=1e-6)
        assert np.geterr()["under"] == "raise"
