"""Scores of a quantile have two lengths: the longer one is neither cut nor taken for a tail."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import RequestError


@pytest.mark.parametrize("tau", [0.1, 0.8, 0.9, 0.95, 0.98])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_intercept_of_an_outer_quantile_is_the_exact_one(tau, relation):
    """Noise off, a normal response: up to eight errors off where the clip cut the rarer side."""
    rng = np.random.default_rng(7)
    n = 5000
    frame = pd.DataFrame({name: rng.uniform(-1, 1, n) for name in "abcde"})
    frame["y"] = 0.5 * frame.a - 0.3 * frame.b + 0.5 * rng.normal(size=n)
    schema = dp.Schema(**{name: dp.Real(-1, 1) for name in "abcde"}, y=dp.Real(-4, 4))
    options = {"n_guess": n} if relation == "add-remove" else {}
    with noise_source(ZeroNoise()):
        fit = dp.dp_quantreg(
            "y ~ a + b + c + d + e", frame, tau=tau, eps=1, delta=1e-6, schema=schema,
            relation=relation, **options,
        )  # fmt: skip
    wrong = float(fit.params["Intercept"]) - 0.5 * norm.ppf(tau)
    exact = np.sqrt(tau * (1 - tau) / n) / norm.pdf(norm.ppf(tau)) * 0.5
    assert abs(wrong) < 0.7 * fit.bse["Intercept"] + 3 * exact
    bias = fit.tidy().set_index("term").bias_bound
    assert (bias < fit.bse).all()  # nothing is beyond the clip, and nothing is allowed for it


def _expectile(X, y, tau):
    """Return the exact regression expectile: least squares weighted by the side of the fit."""
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    for _ in range(100):
        w = np.sqrt(np.where(y < X @ b, 1 - tau, tau))
        b = np.linalg.lstsq(X * w[:, None], y * w, rcond=None)[0]
    return b


@pytest.mark.parametrize("tau", [0.02, 0.1, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("how", ["replace", "add-remove", "unit"])
def test_an_outer_expectile_is_the_exact_one(tau, how):
    """Noise off: its scores are small, which was read as a small scale (55 errors at .98)."""
    rng = np.random.default_rng(8)
    n = 5000
    frame = pd.DataFrame({name: rng.uniform(-1, 1, n) for name in "abcde"})
    frame["y"] = 0.5 * frame.a - 0.3 * frame.b + 0.5 * rng.normal(size=n)
    frame["pid"] = np.arange(n)
    schema = dp.Schema(**{name: dp.Real(-1, 1) for name in "abcde"}, y=dp.Real(-4, 4))
    options = {
        "replace": {}, "add-remove": {"relation": "add-remove", "n_guess": n},
        "unit": {"unit": "pid", "units": n},
    }[how]  # fmt: skip
    call = functools.partial(
        dp.dp_mest, "y ~ a + b + c + d + e", frame, loss="expectile", tau=tau, eps=1, delta=1e-6,
        schema=schema, **options,
    )  # fmt: skip
    if how == "unit" and not 0.1 <= tau <= 0.9:  # refused before the charge
        with pytest.raises(RequestError, match=r"from 0.1 to 0.9"):
            call()
        return
    with noise_source(ZeroNoise()):
        fit = call()
    X = np.column_stack([np.ones(n), frame[list("abcde")]])
    exact = _expectile(X, frame.y.to_numpy(), tau)
    ends = fit.conf_int().to_numpy()
    assert ((ends[:, 0] < exact) & (exact < ends[:, 1])).all()
    # what lies beyond 2 C is taken to be 1.5 times what lies up to it, here less: the intercept
    away = (fit.params - exact) / fit.bse
    assert (away.abs().iloc[1:] < 1.0).all() and abs(away.iloc[0]) < 2.0


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
@pytest.mark.parametrize(("tau", "most"), [(0.5, 0.1), (0.9, 0.3), (0.1, 0.3), (0.97, 1.0)])
def test_an_outer_quantile_of_people_arrives(tau, most):
    """The first pass is at one value for all people, where few rows are: slopes were thousands off.

    Fixed seeds. The largest error of five fits was .02, .08, .04 and .28, and 4 500 at .97 before.
    """
    for seed in range(5):
        rng = np.random.default_rng(seed)
        pid = np.repeat(np.arange(5000), 3)
        x, a = rng.uniform(0, 10, pid.size), rng.normal(0, 0.5, 5000)[pid]
        frame = pd.DataFrame({"pid": pid, "x": x})
        frame["y"] = 1.0 + 0.5 * x + a + rng.normal(size=pid.size)
        fit = dp.dp_quantreg(
            "y ~ x", frame, tau=tau, eps=1, delta=1e-6, unit="pid", seed=seed,
            schema=dp.Schema(x=dp.Real(0, 10), y=dp.Real(-10, 60)),
        )  # fmt: skip
        truth = np.array([1.0 + np.sqrt(1.25) * norm.ppf(tau), 0.5])
        assert np.abs(fit.params.to_numpy() - truth).max() < most
