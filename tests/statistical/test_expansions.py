"""Coverage and width of the five verbs of expansions, and of random intercepts. Slow.

5000 units, eps = 1, 100 seeded tables of laws that are known. False alarms: at a true coverage of
.95 a coefficient is covered fewer than 87 times of 100 with probability 1e-4 (binomial), one of
the 29 here with .004; at .96 and more, as measured, with less than 3e-4.
"""

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.slow
N, REPS, LEAST = 5000, 100, 87
CALL = {"eps": 1, "delta": 1e-6}
PANEL = np.array([0.3, 0.2, -0.1])
BOX = {"x1": (0, 1), "x2": (-6, 6), "x3": (-3, 4)}


def cohort(rng):
    beta = np.array([0.5, -0.4, 0.3])
    x = np.array([rng.random(N) < 0.4, rng.normal(size=N).clip(-3, 3), rng.uniform(-1, 1, N)], float)
    dies = 8.0 * (rng.exponential(size=N) / np.exp(beta @ x)) ** (1 / 1.3)
    leaves = rng.uniform(2, 12, N)
    d = pd.DataFrame(x.T, columns=["x1", "x2", "x3"])
    return d.assign(t=np.minimum(dies, leaves), d=(dies <= leaves) * 1.0), beta


def panel(rng, poisson=False, n=N):
    """Uneven panels; the second predictor goes with the person's effect."""
    T = 1 + np.minimum(rng.poisson(rng.gamma(1.5, 3.0, n)), 11)
    who = np.repeat(np.arange(n), T)
    m, a, s = len(who), rng.normal(size=n)[who], rng.normal(size=n)[who]
    X = np.stack([(rng.random(m) < 0.3 + 0.2 * (a > 0)) * 1.0, 0.7 * a + rng.normal(size=m),
                  0.5 * s + 0.3 * rng.normal(size=m)], axis=1)  # fmt: skip
    eta = X @ PANEL
    if poisson:
        y = rng.poisson(np.exp(0.5 * a + eta - 0.2)).clip(max=50) * 1.0
    else:
        y = (eta + a + 0.6 * rng.standard_t(4, size=m)).clip(-10, 10)
    return pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(id=who, y=y)


def classes(rng, *, ordered):
    x, z = rng.uniform(-1, 1, N), rng.normal(size=N).clip(-3, 3)
    if ordered:  # the lowest of 4 %
        y = np.digitize(x - 0.5 * z + rng.logistic(size=N), [-3.6, 0.0, 2.0])
        truth = [1.0, -0.5, -3.6, 0.0, 2.0]
    else:
        odds = np.exp(np.stack([0 * x, 0.2 + x - 0.3 * z, -0.5 + 0.5 * x + 0.4 * z]))
        y = (rng.random(N) > np.cumsum(odds / odds.sum(axis=0), axis=0)[:2]).sum(axis=0)
        truth = [0.2, 1.0, -0.3, -0.5, 0.5, 0.4]
    return pd.DataFrame({"x": x, "z": z, "q": np.array(list("abcd"))[y]}), np.array(truth)


def hazards(rng, seed):
    d, truth = cohort(rng)
    box = {"t": (0, 12), "x1": (0, 1), "x2": (-3, 3), "x3": (-1, 1)}
    return dp.dp_coxph("Surv(t, d == 1) ~ x1 + x2 + x3", d, bounds=box, seed=seed, **CALL), truth


def effects(rng, seed):
    formula = "y ~ x1 + x2 + x3 | id"
    box = {**BOX, "y": (-10, 10)}
    return dp.dp_feols(formula, panel(rng), unit="id", bounds=box, seed=seed, **CALL), PANEL


def counts(rng, seed):
    formula, schema = "y ~ x1 + x2 + x3 | id", {**BOX, "y": dp.Count(50)}
    d = panel(rng, poisson=True)
    return dp.dp_fepois(formula, d, unit="id", schema=schema, seed=seed, **CALL), PANEL


@functools.cache
def between():
    """Person means' coefficients at shares of the variance, by least squares of 200 000 people."""
    d = panel(np.random.default_rng(9), n=200_000)
    who, T = d["id"].to_numpy(), np.bincount(d["id"])
    shares = np.linspace(0.0, 0.9, 10)

    def mean(column):
        return np.bincount(who, column) / T

    X = np.column_stack([np.ones(len(T)), *(mean(d[x]) for x in ("x1", "x2", "x3"))])
    y, found = mean(d["y"]), []
    for share in shares:  # between and within are apart: T means weigh T (1 - part)^2
        weight = T * (1 - share) / (1 - share + T * share)
        b = np.linalg.solve((X * weight[:, None]).T @ X, X.T @ (weight * y))
        found.append(np.concatenate([b[:1], PANEL, b[1:] - PANEL]))
    return shares, np.array(found)


def intercepts(rng, seed):
    box = {**BOX, "y": (-10, 10)}
    fit = dp.dp_feols("y ~ x1 + x2 + x3", panel(rng), unit="id", re="id", bounds=box, seed=seed,
                      **CALL)  # fmt: skip
    shares, found = between()
    share = fit._record.estimate.stats["weight_icc"]
    return fit, np.array([np.interp(share, shares, one) for one in found.T])


def ordered(rng, seed):
    d, truth = classes(rng, ordered=True)
    schema = {"x": (-1, 1), "z": (-3, 3), "q": dp.Ordered(list("abcd"))}
    return dp.dp_polr("q ~ x + z", d, schema=schema, seed=seed, **CALL), truth


def unordered(rng, seed):
    d, truth = classes(rng, ordered=False)
    schema = {"x": (-1, 1), "z": (-3, 3), "q": dp.Levels(list("abc"))}
    return dp.dp_multinom("q ~ x + z", d, schema=schema, seed=seed, **CALL), truth


@pytest.mark.parametrize(
    ("fitted", "widest"),
    [(hazards, 2.0), (effects, 1.7), (counts, 2.0), (intercepts, 2.4), (ordered, 3.0),
     (unordered, 2.7)],
    ids=lambda one: getattr(one, "__name__", ""),
)  # fmt: skip
def test_intervals_cover_and_are_no_wider_than_measured(fitted, widest):
    """``widest``: half width over 1.96 sampling errors that the fit itself released."""
    inside, width = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(REPS):
            fit, truth = fitted(np.random.default_rng([seed, N]), seed)
            ends = fit.conf_int().to_numpy()
            inside.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            sampling = fit.errors()["sampling"].to_numpy()
            width.append((ends[:, 1] - ends[:, 0]) / 2 / 1.959964 / sampling)
    assert (np.sum(inside, axis=0) >= LEAST).all(), np.mean(inside, axis=0)
    assert np.median(width, axis=0).max() <= widest, np.median(width, axis=0)


def test_hausman_keeps_its_level():
    """100 panels in which the effect goes with no predictor: of size .05, rejected 13 times or
    more with probability .002; of the panels above every one is."""
    rejected = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(REPS):
            rng = np.random.default_rng([seed, 1])
            who = np.repeat(np.arange(N), 3)
            d = pd.DataFrame({"id": who, "x": rng.normal(size=3 * N) + rng.normal(size=N)[who]})
            d["y"] = 0.3 * d["x"] + rng.normal(size=N)[who] + rng.normal(size=3 * N)
            fit = dp.dp_feols("y ~ x", d, unit="id", re="id", seed=seed,
                              bounds={"x": (-6, 6), "y": (-8, 8)}, **CALL)  # fmt: skip
            rejected += fit.hausman().pvalue < 0.05
        clear, _ = intercepts(np.random.default_rng([1, N]), 1)
    assert rejected <= 12
    assert clear.hausman().pvalue < 1e-6
