"""CPU time and memory of scoring fits beside statsmodels: ratios of one run.

    python benchmarks/families_speed.py [--n 1000000] [--p 10] [--repeats 3] [--out FILE]

Medians of interleaved repeats on one core. Memory: peak of traced allocations of a fit, in MiB
beside the table (``tracemalloc``).
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
from common import cpu, one_core, write

import dpmodels as dp


def table(n, p):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, p))
    eta = 0.2 + X @ np.linspace(-0.4, 0.4, p)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    frame["b"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["c"] = rng.poisson(np.exp(eta))
    frame["y"] = np.clip(eta + rng.normal(size=n), -8, 8)
    return frame


def main():
    import statsmodels.api as sm

    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--p", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    frame = table(args.n, args.p)
    names = [f"x{j}" for j in range(args.p)]
    right = " + ".join(names)
    X = sm.add_constant(frame[names].to_numpy())
    bounds = {**dict.fromkeys(names, (-1, 1)), "b": (0, 1), "c": (0, 30), "y": (-8, 8)}
    call = dict(eps=1, delta=1e-6, bounds=bounds)
    jobs = {
        "logistic": (
            lambda: dp.dp_glm(f"b ~ {right}", frame, event=1, **call),
            lambda: sm.GLM(frame["b"].to_numpy(), X, family=sm.families.Binomial()).fit(),
        ),
        "poisson": (
            lambda: dp.dp_glm(f"c ~ {right}", frame, family="poisson", **call),
            lambda: sm.GLM(frame["c"].to_numpy(), X, family=sm.families.Poisson()).fit(),
        ),
        "median": (
            lambda: dp.dp_quantreg(f"y ~ {right}", frame, **call),
            lambda: sm.QuantReg(frame["y"].to_numpy(), X).fit(q=0.5),
        ),
    }
    lines = [
        "# Scoring fits beside statsmodels",
        "",
        f"`python {' '.join(['benchmarks/families_speed.py', *sys.argv[1:]])}`. n = {args.n}, "
        f"p = {args.p} and an intercept; statsmodels gets the finished matrix, ours builds it from "
        "the frame.",
        "",
        "| model | CPU over statsmodels | peak of a fit, MiB |",
        "|---|---|---|",
    ]
    for name, (ours, theirs) in jobs.items():
        ours()
        times = [(cpu(ours), cpu(theirs)) for _ in range(args.repeats)]
        a, b = np.median(times, axis=0)
        tracemalloc.start()
        ours()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        lines.append(f"| {name} | {a / b:.3f} | {peak:.1f} |")
        print(lines[-1], f"({a:.2f} s)", flush=True)
    lines += one_core(start)
    if args.out:
        write(args.out, lines)


if __name__ == "__main__":
    main()
