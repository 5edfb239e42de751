"""Intervals of generalised linear, quantile and robust models, simulated: slow.

Real tables are in benchmarks/real_families.py; here the truth is known and the models hold.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
REPS, N = 250, 8000
BOUNDS = {"x": (-1, 1), "z": (0, 2), "c": (0, 40), "g": (0, 40), "y": (-8, 8)}
TRUTH = np.array([0.3, 0.8, -0.5])


def table(seed):
    rng = np.random.default_rng([31, seed])
    d = pd.DataFrame({"x": rng.uniform(-1, 1, N), "z": rng.uniform(0, 2, N)})
    eta = TRUTH[0] + TRUTH[1] * d["x"] + TRUTH[2] * d["z"]
    d["b"] = (rng.uniform(size=N) < 1 / (1 + np.exp(-eta))).astype(int)
    d["c"] = rng.poisson(np.exp(eta))
    d["g"] = np.clip(np.exp(eta) * rng.gamma(2, 0.5, N), 1e-3, 40)
    d["y"] = np.clip(eta + rng.normal(size=N), -8, 8)
    return d


MODELS = {
    "logit": lambda d, s: dp.dp_glm("b ~ x + z", d, event=1, **s),
    "poisson": lambda d, s: dp.dp_glm("c ~ x + z", d, family="poisson", **s),
    "gamma": lambda d, s: dp.dp_glm("g ~ x + z", d, family="gamma", **s),
    "median": lambda d, s: dp.dp_quantreg("y ~ x + z", d, **s),
    "huber": lambda d, s: dp.dp_mest("huber", "y ~ x + z", d, **s),
}


@pytest.mark.parametrize("eps", [0.5, 4.0])
@pytest.mark.parametrize("name", MODELS)
def test_intervals_cover(name, eps):
    """250 fits, 3 coefficients: .95 or more covers below .925 with probability under 1e-3."""
    hit = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(REPS):
            call = dict(eps=eps, delta=1e-6, bounds=BOUNDS, seed=seed)
            ends = MODELS[name](table(seed), call).conf_int().to_numpy()
            hit.append((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH))
    assert np.mean(hit) >= 0.925
