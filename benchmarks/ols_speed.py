"""Speed and memory of ``dp_ols(method="eptr")`` on a frame with declared ranges.

Prints ratios of CPU time taken in one run, interleaved, medians of five: to hand-written numpy
normal equations from the same frame, and to statsmodels' formula ``ols``. Extra memory is the peak
of traced allocations above the start. Run with OMP_NUM_THREADS=1 for comparable CPU times.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from common import medians, peak

import dpmodels as dp


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)).clip(-4, 4)
    y = x @ np.linspace(-1, 1, p) + rng.normal(size=n)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(p)])
    frame["y"] = y.clip(-12, 12)
    return frame


def normal_equations(frame, names):
    X = np.column_stack([np.ones(len(frame)), *(frame[c].to_numpy() for c in names)])
    y = frame["y"].to_numpy()
    return np.linalg.solve(X.T @ X, X.T @ y)


def statsmodels_ols(frame, formula):
    import statsmodels.formula.api as smf

    return smf.ols(formula, frame).fit().params


def private(frame, formula, bounds, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ols(
            formula, frame, eps=1, delta=1e-8, method="eptr", scoring=False, bounds=bounds,
            **options,
        ).params


def main(n=1_000_000, p=10, repeats=5):
    frame = table(n, p)
    names = [f"x{j}" for j in range(p)]
    formula = "y ~ " + " + ".join(names)
    bounds = {**dict.fromkeys(names, (-4, 4)), "y": (-12, 12)}
    ways = {
        "numpy normal equations": lambda: normal_equations(frame, names),
        "dp_ols eptr (default)": lambda: private(frame, formula, bounds),
        "dp_ols eptr, coefficients only, unwhitened": lambda: private(
            frame, formula, bounds, inference=False, whiten=False
        ),
        "statsmodels formula ols": lambda: statsmodels_ols(frame, formula),
    }
    for way in ways.values():
        way()  # first use: imports
    times = medians(ways, repeats)
    base, slow = times["numpy normal equations"], times["statsmodels formula ols"]
    print(f"n = {n}, p = {p}; CPU ratios, medians of {repeats} interleaved runs")
    for name, m in times.items():
        print(f"  {name:44s} {m / base:6.2f} x numpy   {m / slow:6.3f} x statsmodels")
    for name in list(ways)[:3]:
        print(f"  {name:44s} {peak(ways[name]):7.1f} MiB above the start")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
