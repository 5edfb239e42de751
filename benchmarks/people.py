"""What a person as the unit costs in time, and whether its intervals hold.

``python benchmarks/people.py time`` : n = 1e6 rows, 2e5 people, against the same call on rows.
``python benchmarks/people.py cover [R]`` : simulated panels, R fits each.
"""

import sys
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore")
BOUNDS = {"y": (-6, 6), "xb": (-1, 1), "xw": (-1, 1)}
TRUTH = np.array([0.5, 1.0, 0.5])


def panel(rng, N=4000, T=5, rho=0.5):
    """Errors of one person correlated by rho; xb is constant in the person, xw varies."""
    n = N * T
    xb, xw = np.repeat(rng.uniform(-1, 1, N), T), rng.uniform(-1, 1, n)
    a = np.repeat(rng.normal(0, np.sqrt(rho), N), T)
    e = a + rng.normal(0, np.sqrt(1 - rho), n)
    return pd.DataFrame({"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "e": e})


def linear(rng):
    d = panel(rng)
    return d.assign(y=0.5 + d.xb + 0.5 * d.xw + d.e)


def events(rng):
    """Logit margins: one uniform a row, correlated by a normal copula."""
    from scipy.special import expit, ndtr

    d = panel(rng)
    return d.assign(y=(ndtr(d.e) < expit(0.5 + d.xb + 0.5 * d.xw)).astype(float))


def skewed(rng, N=4000):
    """Exponential errors, twice as large in a group of 15 %, 1 to about 25 rows a person."""
    T = 1 + rng.poisson(rng.gamma(1.0, 3.0, N))
    n = int(T.sum())
    xb, xw = np.repeat((rng.uniform(size=N) < 0.15) * 1.0, T), rng.beta(1, 4, n) * 2 - 1
    a = np.repeat(rng.exponential(0.7, N) - 0.7, T) * (1 + xb)
    e = a + (rng.exponential(0.7, n) - 0.7) * (1 + 0.5 * xw)
    y = 0.5 + xb + 0.5 * xw + e
    return pd.DataFrame({"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "y": y})


def clustered(data, formula_family):
    """Cluster-robust errors without privacy, by Newton steps of the score."""
    from scipy.special import expit

    X = np.column_stack([np.ones(len(data)), data.xb, data.xw])
    y, b = data.y.to_numpy(), np.zeros(3)
    for _ in range(8):
        mu = expit(X @ b) if formula_family == "logit" else X @ b
        w = mu * (1 - mu) if formula_family == "logit" else np.ones(len(y))
        H = np.linalg.inv((X * w[:, None]).T @ X)
        b = b + H @ (X.T @ (y - mu))
    first = np.flatnonzero(np.r_[True, np.diff(data.pid.to_numpy()) != 0])
    S = np.add.reduceat(X * (y - mu)[:, None], first, axis=0)
    return np.sqrt(np.diag(H @ (S.T @ S) @ H) * len(S) / (len(S) - 1))


CASES = {
    "linear": (dp.dp_ols, linear, BOUNDS, {}),
    "logit": (dp.dp_glm, events, {**BOUNDS, "y": (0, 1)}, {}),
    "median": (dp.dp_quantreg, linear, BOUNDS, {}),
    "skewed": (dp.dp_ols, skewed, {**BOUNDS, "y": (-5, 12), "xb": (0, 1)}, {}),
}


def cover(name, R, eps, seed=1, unit="pid", **more):
    """Return coverage, median SE over cluster-robust, RMSE and mean bias of each coefficient."""
    verb, make, bounds, options = CASES[name]
    rng = np.random.default_rng(seed)
    inside, ratio, error = [], [], []
    for r in range(R):
        data = make(rng)
        schema = dict(bounds)
        if name == "logit":
            schema["y"] = dp.Binary()
        fit = verb("y ~ xb + xw", data, eps=eps, delta=1e-6, unit=unit, schema=schema,
                   seed=1000 * seed + r, **options, **more)  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        inside.append((low <= TRUTH) & (high >= TRUTH))
        error.append(fit.params.to_numpy() - TRUTH)
        if name != "median":
            ratio.append(fit.bse.to_numpy() / clustered(data, name))
    error = np.array(error)
    return {
        "coverage": np.mean(inside, 0).round(3),
        "SE ratio": np.median(ratio, 0).round(2) if ratio else None,
        "rmse": np.sqrt((error**2).mean(0)).round(4),
        "bias": error.mean(0).round(4),
    }


def seconds(call, times=3):
    best = np.inf
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def timing(N=200_000, T=5):
    rng = np.random.default_rng(0)
    data = panel(rng, N, T)
    data["y"] = 0.5 + data.xb + 0.5 * data.xw + data.e
    for name in ("x2", "x3", "x4"):
        data[name] = rng.uniform(-1, 1, len(data))
    bounds = {**BOUNDS, "x2": (-1, 1), "x3": (-1, 1), "x4": (-1, 1)}
    mixed = data.sample(frac=1, random_state=1).reset_index(drop=True)
    formula = "y ~ xb + xw + x2 + x3 + x4"
    events = data.assign(y=(data.y > 0.5).astype(float))
    for name, verb, table, schema in (
        ("dp_ols, in order", dp.dp_ols, data, bounds),
        ("dp_ols, mixed", dp.dp_ols, mixed, bounds),
        ("dp_glm logit, in order", dp.dp_glm, events, {**bounds, "y": dp.Binary()}),
    ):
        call = {"eps": 1, "delta": 1e-8, "schema": schema, "seed": 1}
        rows = seconds(partial(verb, formula, table, **call))
        people = seconds(partial(verb, formula, table, unit="pid", rows_per_unit=T, **call))
        print(f"{name}: rows {rows:.2f} s, people {people:.2f} s, ratio {people / rows:.2f}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        timing()
    else:
        R = int(sys.argv[2]) if len(sys.argv) > 2 else 100
        for name in CASES:
            print(name, cover(name, R, 1.0), flush=True)
        print("linear, unit = row", cover("linear", R, 1.0, unit=None), flush=True)
