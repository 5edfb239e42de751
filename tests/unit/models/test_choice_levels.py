"""Models of a choice and their plans refuse more levels than they can ask about."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")


def call(verb, levels):
    kind = dp.Ordered if verb == "dp_polr" else dp.Levels
    names = [f"level {i}" for i in range(levels)]
    schema = {"y": kind(names), "x": dp.Real(0, 1)}
    rng = np.random.default_rng(0)
    data = {"y": np.array(names)[rng.integers(levels, size=800)], "x": rng.random(800)}
    return data, schema


@pytest.mark.parametrize("verb", ["dp_multinom", "dp_polr"])
def test_too_many_levels_are_refused_before_the_charge(verb):
    data, schema = call(verb, 65)
    budget = dp.Budget(5, 1e-5)
    with pytest.raises(RequestError, match="at most 64 levels, and 'y' declares 65"):
        getattr(dp, verb)("y ~ x", data, eps=1, delta=1e-6, schema=schema, budget=budget)
    assert not budget.charges
    with pytest.raises(RequestError, match="at most 64 levels"):
        dp.plan("y ~ x", schema, verb=verb, n=800, eps=1, delta=1e-6)


def test_as_many_levels_as_there_are_cells_reply():
    data, schema = call("dp_polr", 64)
    fit = dp.dp_polr("y ~ x", data, eps=1, delta=1e-6, schema=schema)
    assert len(fit.params) == 64
