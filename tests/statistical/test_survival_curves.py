"""Coverage of survival curves, and size of the log-rank test. Slow.

The law of the simulation is known: Weibull, shape 1.3, followed for 12 at most and censored
uniformly on (4, 16). 1000 cohorts of 5000 at eps = 1 and .3, 16 intervals.
"""

import functools
import warnings

import numpy as np
import pytest

import dpmodels as dp

pytestmark = pytest.mark.slow
N, RUNS, END = 5000, 1000, 12.0
EDGES = np.linspace(0, END, 17)[1:]


def cohort(rng):
    dies, leaves = 8.0 * rng.exponential(size=N) ** (1 / 1.3), rng.uniform(4, 16, N)
    return np.minimum(dies, leaves), (dies <= leaves).astype(float)


def exact(time, event):
    """Ends of the exact curve's intervals; no two times are equal."""
    order = np.argsort(time)
    t, d, Y = time[order], event[order], np.arange(N, 0, -1.0)
    some = (d > 0) & (Y > 1)
    log_S = np.cumsum(np.where(some, np.log1p(-1 / np.maximum(Y, 2)), 0.0))
    G = np.cumsum(np.where(some, 1 / (Y * np.maximum(Y - 1, 1)), 0.0))
    k = np.searchsorted(t, EDGES, side="right") - 1
    factor = np.exp(1.959964 * np.sqrt(G[k]) / -log_S[k])
    return np.exp(log_S[k] * factor), np.exp(log_S[k] / factor)


@functools.cache
def curves(eps):
    rng, truth = np.random.default_rng(21), np.exp(-((EDGES / 8.0) ** 1.3))
    covers, width = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(RUNS):
            time, event = cohort(rng)
            fit = dp.dp_survfit("Surv(t, d == 1) ~ 1", {"t": time, "d": event}, eps=eps, delta=1e-6,
                                bounds={"t": (0, END)}, breaks=len(EDGES), seed=seed)  # fmt: skip
            found = fit.tidy()
            low, high = found["conf_low"].to_numpy(), found["conf_high"].to_numpy()
            covers.append((low <= truth) & (truth <= high))
            lo, hi = exact(time, event)
            width.append((high - low) / (hi - lo))
    return np.array(covers), np.array(width)


@pytest.mark.parametrize(("eps", "widest"), [(1.0, 1.15), (0.3, 2.0)])
def test_pointwise_coverage_and_width(eps, widest):
    """False alarm of the mean: about .003; of the least of 16 times: below 1e-6.

    Times of one curve go together: its mean coverage has an sd of about .13, that of 1000 curves
    one of .004, and .94 is 2.7 of them below .951. One time has an sd of .007: .91 is 5.7 of them.
    """
    covers, width = curves(eps)
    assert 0.94 <= covers.mean() <= 0.97
    assert covers.mean(axis=0).min() >= 0.91
    assert np.median(width, axis=0).mean() <= widest


@pytest.mark.parametrize("eps", [1.0, 0.3])
def test_the_log_rank_test_keeps_its_level(eps):
    """2000 tables without an effect: a test of size .05 leaves .03 to .07 with p < 1e-4."""
    rng, rejected = np.random.default_rng(22), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(2000):
            time, event = cohort(rng)
            fit = dp.dp_survdiff(
                "Surv(t, d == 1) ~ g", {"t": time, "d": event, "g": rng.integers(0, 2, N)}, eps=eps,
                delta=1e-6, schema={"g": dp.Levels([0, 1])}, bounds={"t": (0, END)}, seed=seed,
            )  # fmt: skip
            rejected += fit.pvalue < 0.05
    assert 0.03 <= rejected / 2000 <= 0.07
