"""Where n is private, what follows from a fit does not depend on the guess of it."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")
N = 12_000
SCHEMA = {"x": dp.Real(-1, 1), "y": dp.Real(-4, 6), "b": dp.Binary(), "c": dp.Count(15)}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, N)
    return pd.DataFrame(
        {
            "x": x,
            "y": (1.0 + 0.65 * x + rng.normal(0.0, 0.694, N)).clip(-4, 6),
            "b": (rng.random(N) < 1.0 / (1.0 + np.exp(-x))) * 1.0,
            "c": rng.poisson(np.exp(0.5 * x + 0.5)).clip(0, 15) * 1.0,
            "person": np.arange(N) // 2,
        }
    )


CALLS = {
    "ols": ("dp_ols", "y ~ x", {}, "sigma", 0.694, 0.15),
    "iid": ("dp_ols", "y ~ x", {"vcov": "iid"}, "sigma", 0.694, 0.15),
    "r_squared": ("dp_ols", "y ~ x", {}, "r_squared", 0.229, 0.07),
    "moments": ("dp_ols", "y ~ x", {"inference": False}, "aic", 25_100.0, 400.0),
    "gaussian": ("dp_glm", "y ~ x", {"family": "gaussian"}, "dispersion", 0.48, 0.12),
    "counts": ("dp_glm", "c ~ x", {"family": "quasipoisson"}, "dispersion", 1.0, 0.15),
    "huber": ("dp_mest", "y ~ x", {"loss": "huber"}, "scale", 0.66, 0.1),
    "median": ("dp_quantreg", "y ~ x", {}, "sparsity", 0.84, 0.12),
    "people": ("dp_ols", "y ~ x", {"unit": "person"}, "sigma", 0.694, 0.12),
    "median of people": ("dp_quantreg", "y ~ x", {"unit": "person"}, "sparsity", 0.87, 0.2),
}


@pytest.mark.parametrize("times", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("call", CALLS)
def test_statistics_do_not_follow_the_guess(frame, call, times):
    """Deterministic: seeded. Half and four times the rows gave a sigma of .99 and .54 for .69."""
    verb, formula, options, name, true, most = CALLS[call]
    guess = int(times * N / (2 if "unit" in options else 1))
    fit = getattr(dp, verb)(
        formula, frame, eps=4, delta=1e-6, schema=SCHEMA, seed=2, relation="add-remove",
        n_guess=guess, **options,
    )  # fmt: skip
    assert abs(fit.stats[name] - true) < most
    assert abs(fit.params["x"] - (0.5 if "c ~" in formula else 0.65)) < 0.06


@pytest.mark.parametrize("times", [0.5, 4.0])
@pytest.mark.parametrize("method", ["ssp", "joint"])
def test_released_moments_are_those_of_the_rows_that_are_there(frame, method, times):
    m = dp.dp_moments(
        "~ y + x", frame, eps=4, delta=1e-6, schema=SCHEMA, seed=2, relation="add-remove",
        n_guess=int(times * N), method=method,
    )  # fmt: skip
    fit = dp.dp_ols("y ~ x", m)
    assert abs(fit.stats["sigma"] - 0.694) < 0.05
    assert abs(fit.stats["effective_rows"] - N) < 0.1 * N
