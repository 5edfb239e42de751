"""Comparison methods: private as stated, and they work."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.kernel import default_level
from dpmodels.own.class_means import smooth_sensitivity, smoothness

SCHEMA = dp.Schema(k=dp.Levels(["u", "v"]), a=dp.Real(-3, 3), b=dp.Real(-3, 3))


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    k = (rng.uniform(size=n) < 0.4).astype(int)
    x = rng.normal(size=(n, 2)) + np.array([[-1, 0], [1, 0.5]])[k]
    return pd.DataFrame({"k": np.array(["u", "v"])[k], "a": x[:, 0], "b": x[:, 1]})


@pytest.mark.parametrize("method", ["dpnb", "dpnbss"])
def test_they_classify_at_a_generous_budget(quiet, method):
    fit = dp.dp_bayes("k ~ a + b", table(20_000), eps=20, delta=1e-6, schema=SCHEMA, method=method,
                      seed=1)  # fmt: skip
    best = dp.dp_bayes("k ~ a + b", table(20_000), eps=20, delta=1e-6, schema=SCHEMA, seed=1)
    test = table(5000, 2)
    assert dp.balanced_error(fit, test) < dp.balanced_error(best, test) + 0.03
    assert fit.privacy.delta_at(20) <= 1e-6 * (1 + 1e-8)


def test_smooth_sensitivity_is_smooth_and_above_local():
    beta = 0.03
    for n in range(1, 400):
        s, s2 = smooth_sensitivity(n, beta), smooth_sensitivity(n + 1, beta)
        assert s >= min(2.0, 2.0 / n) - 1e-15
        assert math.exp(-beta) <= s / s2 <= math.exp(beta) * (1 + 1e-12)
        grid = max(math.exp(-beta * t) * min(2.0, 2.0 / max(n - t, 1)) for t in range(n + 1))
        assert s == pytest.approx(grid, rel=1e-12)


def test_wavelet_curve(quiet):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 20_000)
    frame = pd.DataFrame({"x": x, "y": np.sin(3 * x) * 0.7 + rng.normal(0, 0.2, 20_000)})
    bounds = {"x": (-1, 1), "y": (-1, 1)}
    call = dict(eps=1, delta=1e-6, bounds=bounds, seed=1)
    fit = dp.dp_npreg("y ~ x", frame, method="wavelet", **call)
    q = np.linspace(-0.9, 0.9, 50)
    new = pd.DataFrame({"x": q})
    ours = dp.dp_npreg("y ~ x", frame, **call).predict(new)
    error = np.mean((fit.predict(new) - 0.7 * np.sin(3 * q)) ** 2)
    assert error < 0.005
    assert np.mean((ours - 0.7 * np.sin(3 * q)) ** 2) < 0.005
    assert default_level(20_000, 0.2) >= 4
    with pytest.raises(ValueError, match="one numeric variable"):
        dp.dp_npreg("y ~ x + z", frame.assign(z=0.0), method="wavelet",
                    **{**call, "bounds": {**bounds, "z": (-1, 1)}})  # fmt: skip


def test_noise_of_private_scale_leaves_no_trace_of_the_exact_means(quiet):
    """Noise on a lattice of private width spelt out the exact mean: neighbours told apart surely.

    Released means lie on a public grid, whatever the data; two runs differ.
    """
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 4000)
    frame = pd.DataFrame({"x": x, "k": np.where(x + rng.normal(size=4000) > 0, "u", "v")})
    schema = dp.Schema(x=dp.Real(-1, 1), k=dp.Levels(["u", "v"]))
    means = []
    for _ in range(2):
        fit = dp.dp_bayes("k ~ x", frame, eps=20, delta=1e-6, schema=schema, method="dpnbss")
        steps = fit.arrays["means"].ravel() * 2.0**30
        assert np.abs(steps).max() < 2.0**30  # not clipped: noise of sd .05 at most
        np.testing.assert_array_equal(steps, np.round(steps))
        assert "depends on the data" in " ".join(map(str, fit.privacy.notes))
        means.append(steps)
    assert not np.array_equal(*means)


def _smooth_delta(eps, ratio, shift):
    """Exact delta(eps) of Laplace noise of scale 1 against scale ``ratio`` moved by ``shift``."""
    z = np.linspace(-90, 90, 300_001)
    p = 0.5 * np.exp(-np.abs(z))
    q = 0.5 / ratio * np.exp(-np.abs(z - shift) / ratio)
    return float(np.maximum(p - math.exp(eps) * q, 0).sum() * (z[1] - z[0]))


@pytest.mark.parametrize("delta", [0.1, 1e-4])
@pytest.mark.parametrize("eps", [0.5, 4.0, 20.0])
def test_smooth_sensitivity_is_private_at_every_eps(eps, delta):
    """The theorem's beta holds for e^(eps/2) <= 2 only: it gave five times delta at eps = 20."""

    def worst(beta):
        pairs = [(math.exp(s * beta), k) for s in (1, -1) for k in (0.0, 0.5, 1.0)]
        return max(_smooth_delta(eps, r, k * eps / 2 * min(1.0, r)) for r, k in pairs)

    assert worst(smoothness(eps, delta)) <= delta
    if eps == 20:
        assert worst(eps / (2 * math.log(2 / delta))) > 3 * delta
