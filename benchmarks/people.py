"""What a person as the unit costs in time, and whether its intervals hold.

``python benchmarks/people.py time`` : n = 1e6 rows, 2e5 people, against the same call on rows.
``python benchmarks/people.py cover [R] [name ...]`` : simulated panels, R fits each.
"""

import sys
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

import dpmodels as dp

warnings.simplefilter("ignore")


def counts_of(rng, N, kind):
    """Return the rows of each of N people."""
    if isinstance(kind, int):
        return np.full(N, kind)
    if kind == "uneven":
        return 1 + rng.poisson(rng.gamma(1.0, 3.0, N))
    return rng.integers(1, 9, N)


def panel(rng, N=4000, T=5, rho=0.5):
    """Errors of one person correlated by rho; xb is constant in the person, xw varies."""
    T = counts_of(rng, N, T)
    n = int(T.sum())
    xb, xw = np.repeat(rng.uniform(-1, 1, N), T), rng.uniform(-1, 1, n)
    a = np.repeat(rng.normal(0, np.sqrt(rho), N), T)
    e = a + rng.normal(0, np.sqrt(1 - rho), n)
    return pd.DataFrame({"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "e": e})


def linear(rng, **how):
    d = panel(rng, **how)
    return d.assign(y=0.5 + d.xb + 0.5 * d.xw + d.e)


def events(rng, **how):
    """Logit margins: one uniform a row, correlated by a normal copula."""
    d = panel(rng, **how)
    return d.assign(y=(ndtr(d.e) < expit(0.5 + d.xb + 0.5 * d.xw)).astype(float))


def visits(rng, **how):
    """Poisson counts with a gamma factor of the person."""
    d = panel(rng, **how)
    a = rng.gamma(4.0, 0.25, int(d.pid.max()) + 1)[d.pid]
    y = rng.poisson(a * np.exp(0.5 + 0.5 * d.xb + 0.3 * d.xw))
    return d.assign(y=np.minimum(y, 30).astype(float))


def skewed(rng, N=4000):
    """Exponential errors, twice as large in a group of 15 %, 1 to about 25 rows a person."""
    T = counts_of(rng, N, "uneven")
    n = int(T.sum())
    xb, xw = np.repeat((rng.uniform(size=N) < 0.15) * 1.0, T), rng.beta(1, 4, n) * 2 - 1
    a = np.repeat(rng.exponential(0.7, N) - 0.7, T) * (1 + xb)
    e = a + (rng.exponential(0.7, n) - 0.7) * (1 + 0.5 * xw)
    y = 0.5 + xb + 0.5 * xw + e
    return pd.DataFrame({"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "y": y})


def moving(rng, N=4000, T=8):
    """Errors and xw that remember the row before (.7), a rare xb, a trend: never tuned on."""
    xb = np.repeat((rng.uniform(size=N) < 0.2) * 1.0, T)
    steps = rng.normal(size=(2, N, T))
    for t in range(1, T):
        steps[:, :, t] = 0.7 * steps[:, :, t - 1] + np.sqrt(0.51) * steps[:, :, t]
    xw, e = np.tanh(0.6 * steps[0]).ravel(), 0.6 * steps[1].ravel()
    trend = np.tile(np.linspace(-1, 1, T), N)
    y = 0.5 + xb + 0.5 * xw - 0.4 * trend + e
    return pd.DataFrame(
        {"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "trend": trend, "y": y}
    )


def slopes(rng, N=6000):
    """A slope of xw of each person's own, 1 to 8 rows, fewer in some, t errors: never tuned on."""
    T = counts_of(rng, N, "few")
    n = int(T.sum())
    xb, xw = np.repeat(rng.beta(2, 2, N) * 2 - 1, T), rng.uniform(-1, 1, n)
    b = np.repeat(rng.normal(0.5, 0.5, N), T)
    e = 0.4 * np.repeat(rng.normal(size=N), T) + 0.4 * rng.standard_t(5, n)
    y = 0.5 + xb + b * xw + e
    return pd.DataFrame({"pid": np.repeat(np.arange(N), T), "xb": xb, "xw": xw, "y": y})


def clustered(data, names, family):
    """Cluster-robust errors without privacy, by Newton steps of the score."""
    X = np.column_stack([np.ones(len(data)), *(data[name] for name in names)])
    y, b = data.y.to_numpy(), np.zeros(X.shape[1])
    mean = {"logit": expit, "poisson": np.exp}.get(family, lambda eta: eta)
    slope = {"logit": lambda mu: mu * (1 - mu), "poisson": lambda mu: mu}.get(family, np.ones_like)
    for _ in range(12):
        mu = mean(X @ b)
        H = np.linalg.inv((X * slope(mu)[:, None]).T @ X)
        b = b + H @ (X.T @ (y - mu))
    first = np.flatnonzero(np.r_[True, np.diff(data.pid.to_numpy()) != 0])
    S = np.add.reduceat(X * (y - mu)[:, None], first, axis=0)
    return np.sqrt(np.diag(H @ (S.T @ S) @ H) * len(S) / (len(S) - 1))


@dataclass(frozen=True)
class Case:
    """A panel and what is fitted to it."""

    verb: Any
    make: Any
    bounds: dict[str, Any]
    truth: tuple[float, ...] = (0.5, 1.0, 0.5)
    family: str = "linear"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self):
        return [name for name in self.bounds if name != "y"]


XX = {"xb": (-1, 1), "xw": (-1, 1)}
LINE = {"y": (-6, 6), **XX}
EVENT = {"y": dp.Binary(), **XX}
CASES = {
    "linear": Case(dp.dp_ols, linear, LINE),
    "logit": Case(dp.dp_glm, events, EVENT, family="logit"),
    "median": Case(dp.dp_quantreg, linear, LINE, family=""),
    "poisson": Case(
        dp.dp_glm, visits, {"y": dp.Count(30), **XX}, (0.5, 0.5, 0.3), "poisson",
        {"family": "poisson"},
    ),
    "linear, 1000 people": Case(dp.dp_ols, partial(linear, N=1000), LINE),
    "linear, 20000 people": Case(dp.dp_ols, partial(linear, N=20_000), LINE),
    "linear, one row each": Case(dp.dp_ols, partial(linear, T=1, rho=0.0), LINE),
    "linear, 30 rows each": Case(
        dp.dp_ols, partial(linear, T=30), LINE, options={"rows_per_unit": 30}
    ),
    "linear, uneven": Case(dp.dp_ols, partial(linear, T="uneven"), LINE),
    "logit, uneven": Case(dp.dp_glm, partial(events, T="uneven"), EVENT, family="logit"),
    "skewed": Case(dp.dp_ols, skewed, {"y": (-5, 12), "xb": (0, 1), "xw": (-1, 1)}),
    "skewed, 20000 people": Case(
        dp.dp_ols, partial(skewed, N=20_000), {"y": (-5, 12), "xb": (0, 1), "xw": (-1, 1)}
    ),
    "moving": Case(
        dp.dp_ols, moving, {"y": (-4, 5), "xb": (0, 1), "xw": (-1, 1), "trend": (-1, 1)},
        (0.5, 1.0, 0.5, -0.4), options={"rows_per_unit": 8},
    ),
    "slopes": Case(dp.dp_ols, slopes, LINE),
}  # fmt: skip


def cover(name, R, eps, seed=1, unit="pid", **more):
    """Return coverage, median SE over cluster-robust, RMSE and mean bias of each coefficient."""
    case = CASES[name]
    rng, truth = np.random.default_rng(seed), np.array(case.truth)
    inside, ratio, wide, error = [], [], [], []
    options = {k: v for k, v in case.options.items() if unit or k != "rows_per_unit"}
    for r in range(R):
        data = case.make(rng)
        fit = case.verb("y ~ " + " + ".join(case.names), data, eps=eps, delta=1e-6, unit=unit,
                        schema=case.bounds, seed=1000 * seed + r, **options, **more)  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        inside.append((low <= truth) & (high >= truth))
        error.append(fit.params.to_numpy() - truth)
        if case.family:
            robust = clustered(data, case.names, case.family)
            ratio.append(fit.bse.to_numpy() / robust)
            wide.append((high - low) / 2.0 / 1.96 / robust)
    error = np.array(error)
    return {
        "coverage": np.mean(inside, 0).round(3),
        "SE ratio": np.median(ratio, 0).round(2) if ratio else None,
        "width ratio": np.median(wide, 0).round(2) if ratio else None,
        "rmse": np.sqrt((error**2).mean(0)).round(4),
        "bias": error.mean(0).round(4),
    }


def seconds(calls, times=7):
    """Return the best time of each call, taken in turn."""
    best = [np.inf] * len(calls)
    for _ in range(times):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def timing(N=200_000, T=5):
    rng = np.random.default_rng(0)
    data = panel(rng, N, T)
    data["y"] = 0.5 + data.xb + 0.5 * data.xw + data.e
    for name in ("x2", "x3", "x4"):
        data[name] = rng.uniform(-1, 1, len(data))
    bounds = {**LINE, "x2": (-1, 1), "x3": (-1, 1), "x4": (-1, 1)}
    mixed = data.sample(frac=1, random_state=1).reset_index(drop=True)
    formula = "y ~ xb + xw + x2 + x3 + x4"
    happened = data.assign(y=(data.y > 0.5).astype(float))
    event = {**bounds, "y": dp.Binary()}
    for name, verb, table, schema in (
        ("dp_ols, in order", dp.dp_ols, data, bounds),
        ("dp_ols, mixed", dp.dp_ols, mixed, bounds),
        ("dp_glm logit, in order", dp.dp_glm, happened, event),
        ("dp_glm logit, mixed", dp.dp_glm, happened.sample(frac=1, random_state=1).reset_index(drop=True), event),
    ):
        call = {"eps": 1, "delta": 1e-8, "schema": schema, "seed": 1}
        rows, people = seconds([
            partial(verb, formula, table, **call),
            partial(verb, formula, table, unit="pid", rows_per_unit=T, **call),
        ])  # fmt: skip
        print(f"{name}: rows {rows:.2f} s, people {people:.2f} s, ratio {people / rows:.2f}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        timing()
    else:
        R = int(sys.argv[2]) if len(sys.argv) > 2 else 100
        for name in sys.argv[3:] or CASES:
            print(name, cover(name, R, 1.0, seed=101), flush=True)
        if not sys.argv[3:]:
            for unit in ("pid", None):
                print("linear, eps = 50", unit, cover("linear", R, 50.0, seed=102, unit=unit))
