"""What ePTR least squares must reach on real and simulated data."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::UserWarning")]


def prediction_ratio(frame, predictors, eps, runs, seed=None):
    """Released fits, and the median in-sample mean squared error over that of least squares."""
    X = np.column_stack([np.ones(len(frame)), frame[predictors]])
    y = frame["quality"].to_numpy(float)
    best = np.mean((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2)
    ratios = []
    for run in range(runs):
        fit = dp.dp_ols(
            "quality ~ " + " + ".join(predictors), frame, eps=eps, delta=1e-6, method="eptr",
            seed=None if seed is None else seed + run,
        )  # fmt: skip
        if fit.released:
            ratios.append(np.mean((y - X @ fit.params.to_numpy()) ** 2) / best)
    return len(ratios), float(np.median(ratios))


@pytest.mark.parametrize(
    ("predictors", "limit"),
    [
        (["alcohol", "pH"], 1.02),
        (["alcohol", "pH", "volatile_acidity", "density"], 1.03),
    ],
)
def test_the_first_call_on_wine(wine, predictors, limit):
    """Seeds 100 to 119 on a bare frame, ranges bought; at least 18 replies. Fixed seeds: a false
    alarm only where the stream of noise changes. 200 unseeded runs always replied and had medians of
    1.003 and 1.017; resampling them, the median of 20 is above its limit with probability below
    1e-3 (two predictors) and about 1e-3 (four): that is the false alarm of a new seed."""
    replies, ratio = prediction_ratio(wine, predictors, 1, 20, seed=100)
    assert replies >= 18
    assert ratio <= limit


def coverage(frame, formula, beta, sd, reps, seed=5, **call):
    X = np.column_stack([np.ones(len(frame)), frame])
    if formula.endswith("- 1"):
        X = X[:, 1:]
    rng = np.random.default_rng(seed)
    hits, naive = [], []
    for rep in range(reps):
        data = frame.assign(y=X @ beta + rng.normal(0, sd, len(X)))
        fit = dp.dp_ols(
            formula, data, delta=1e-6, method="eptr", scoring=False, seed=rep, **call
        )
        assert fit.released
        error = np.abs(fit.params.to_numpy() - beta)
        hits.append(error < 1.959964 * fit.bse.to_numpy())
        naive.append(error < 1.959964 * fit.bse_sampling.to_numpy())
    return np.mean(hits, axis=0), np.mean(naive, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1, 4])
@pytest.mark.parametrize(
    "predictors", [["alcohol", "pH"], ["alcohol", "volatile_acidity", "density", "pH"]]
)
def test_coverage_with_bought_ranges(wine, predictors, eps):
    """Wine design, simulated errors, n = 6497, 1000 replications (seed 5): each coefficient in
    92-98 %; at a true 95 % a coefficient leaves that band with probability 2e-5. (With the first
    300 of these replications one coefficient of sixteen stands at .907, with all 1000 at .947:
    300 are too few for a band of 3 %.)"""
    X = np.column_stack([np.ones(len(wine)), wine[predictors]])
    y = wine["quality"].to_numpy(float)
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    formula = "y ~ " + " + ".join(predictors)
    hits, _ = coverage(wine[predictors], formula, beta, np.std(y - X @ beta), 1000, eps=eps)
    assert np.all((hits >= 0.92) & (hits <= 0.98)), hits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "eps", "naive_limit"),
    [(2000, 4, 0.75), (8000, 1, 0.60), (8000, 4, 0.93), (20_000, 1, 0.75)],
)
def test_coverage_of_the_theory_note(n, eps, naive_limit):
    """p = 5, R_x = R_y = 4, R_theta = 1, no whitening, 300 replications (seed 5): mean coverage in
    93-97 % (its standard error is .006), and far below without the privacy part."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    beta = 1 / np.arange(1, 6)
    beta /= np.linalg.norm(beta)
    options = dict(Rx=4.0, Ry=4.0, Rtheta=1.0, whiten=False)
    hits, naive = coverage(frame, "y ~ a + b + c + d + e - 1", beta, 1.0, 300, eps=eps, **options)
    assert 0.93 <= hits.mean() <= 0.97, hits
    assert naive.mean() < naive_limit


def simulation(reps, eps=1.0, n=8000, p=5, radius=4.0):
    """Mean squared errors of the paper's simulation 4.3: default, the paper's, exact AdaSSP."""
    from dpmodels.privacy.mechanisms import mu_gdp

    rng = np.random.default_rng(0)
    theta = 1 / np.arange(1, p + 1)
    theta /= np.linalg.norm(theta)
    names = list("abcde")
    formula = "y ~ " + " + ".join(names) + " - 1"
    out = {"least squares": [], "default": [], "paper": [], "adassp": []}
    mu = mu_gdp(eps, 0.01) / math.sqrt(3)
    for rep in range(reps):
        x = rng.normal(size=(n, p))
        y = x @ theta + rng.normal(size=n)
        frame = pd.DataFrame(x, columns=names).assign(y=y)
        call = dict(eps=eps, delta=0.01, method="eptr", seed=rep, Rx=radius, Rtheta=1.0)
        default = dp.dp_ols(formula, frame, Ry=radius, **call)
        paper = dp.dp_ols(formula, frame, variant="paper", c0=0.5, **call)
        w = np.minimum(1, radius / np.linalg.norm(x, axis=1))
        xs, ys = x * w[:, None], np.clip(y * w, -radius, radius)
        S = xs.T @ xs
        low = max(0, np.linalg.eigvalsh(S)[0] + radius**2 / mu * (rng.normal() - 1.645))
        s = math.sqrt(2) * radius**2 / mu
        E = np.triu(rng.normal(size=(p, p)) / math.sqrt(2), 1)
        E = s * (E + E.T + np.diag(rng.normal(size=p)))
        ridge = max(0, s * math.sqrt(p * math.log(2 * p * p / 0.05)) - low)
        b = xs.T @ ys + 2 * radius**2 / mu * rng.normal(size=p)
        estimates = {
            "least squares": np.linalg.lstsq(x, y, rcond=None)[0],
            "default": default.params.to_numpy(),
            "paper": paper.params.to_numpy(),
            "adassp": np.linalg.solve(S + E + ridge * np.eye(p), b),
        }
        for name, value in estimates.items():
            out[name].append(float(np.sum((value - theta) ** 2)))
    return {name: float(np.mean(v)) for name, v in out.items()}


def test_simulation_of_the_paper():
    """Seed 0, 40 replications (the slow twin has 300). Excess of the paper's constants is more than
    100 times ours in expectation, so that a factor of 10 fails with negligible probability."""
    m = simulation(40)
    excess = {k: v - m["least squares"] for k, v in m.items()}
    assert excess["paper"] >= 10 * excess["default"]
    assert m["default"] <= m["adassp"]


@pytest.mark.slow
def test_simulation_of_the_paper_in_full():
    """Seed 0, 300 replications."""
    m = simulation(300)
    assert m["default"] == pytest.approx(0.00106, rel=0.1)
    assert m["paper"] == pytest.approx(0.0493, rel=0.15)
    assert m["default"] <= m["adassp"]


@pytest.mark.slow
def test_error_does_not_rise_with_eps(wine):
    """Medians of 15 seeded runs at six values of eps; adjacent medians may tie within 2 %."""
    medians = []
    for eps in (1, 1.5, 2.5, 4, 8, 16):
        _, ratio = prediction_ratio(wine, ["alcohol", "pH"], eps, 15)
        medians.append(ratio)
    assert all(b <= a * 1.02 for a, b in pairwise(medians)), medians
