"""Objective perturbation of counts with a small ``lam=``: refused, or the minimum is certified."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError
from dpmodels.own import minimum, tilted

pytestmark = pytest.mark.usefixtures("quiet")
N = 300
SCHEMA = dp.Schema(y=dp.Count(300), g=dp.Levels(["a", "b", "c"]), x=dp.Real(-3, 3), z=dp.Real(-3, 3))


def rows(kind):
    """Return counts and predictors: a level that no row has, twins, or counts that are all alike."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=N).clip(-3, 3)
    y = rng.poisson(np.exp(0.3 * x)).astype(float)
    if kind in ("none", "all"):
        y[:] = 0.0 if kind == "none" else 300.0
    z = x.copy() if kind == "twins" else rng.normal(size=N).clip(-3, 3)
    return {"y": y, "g": rng.choice(["a", "b"], N), "x": x, "z": z}


@pytest.mark.parametrize("kind", ["level", "twins", "none", "all"])
@pytest.mark.parametrize("eps", [5.0, 100.0])
def test_a_small_ridge_is_refused_or_its_minimum_is_certified(kind, eps, monkeypatch):
    """Seeded: no false alarms. The gradient had ended at up to 6e4 times its limit."""
    found, budget = [], dp.Budget(1e6, 0.1)

    def minimise(*given, **named):
        found.append(minimum.minimise(*given, **named))
        return found[-1]

    monkeypatch.setattr(tilted, "minimise", minimise)
    refused = 0
    for k, lam in enumerate(10.0 ** np.arange(-9.0, 4.0)):
        try:
            dp.dp_glm("y ~ g + x + z", rows(kind), family="poisson", method="objpert", lam=float(lam), eps=eps,
                      delta=1e-6, schema=SCHEMA, seed=k, budget=budget)  # fmt: skip
        except RequestError as error:
            assert "too small" in str(error)
            refused += 1
    assert 0 < refused < 13 and len(found) == len(budget.charges) == 13 - refused
    assert all(one.certified for one in found)
    fit = dp.dp_glm("y ~ g + x + z", rows(kind), family="poisson", method="objpert", eps=eps, delta=1e-6,
                    schema=SCHEMA, seed=1)  # fmt: skip
    assert fit.released and found[-1].certified
