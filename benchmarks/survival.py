"""Survival curves and log-rank tests: coverage, width, size and power against the exact ones.

    python benchmarks/survival.py [runs]

Two designs, seeded. *trial*: followed for 12 at most, censored uniformly on (4, 16); *registry*:
three covariates, censored uniformly on (2, 12), so that nobody is left at 12. Truth is the law of
the simulation. Width: of the interval over that of the exact Kaplan-Meier curve of the same rows.
"""

import math
import sys
import time
import warnings

import numpy as np
from common import RESULTS, one_core, write

import dpmodels as dp

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
END, SHAPE, SCALE, Z = 12.0, 1.3, 8.0, 1.959963984540054
ARMS = {"arm": dp.Levels(["a", "b"])}
BETA = np.array([0.5, -0.4, 0.3])


def covariates(rng, n):
    """Return x'b of n people."""
    x = [rng.random(n) < 0.4, np.clip(rng.normal(size=n), -3, 3), rng.uniform(-1, 1, n)]
    return BETA @ np.array(x)


def cohort(rng, n, design, log_ratio=0.0):
    """Return (time, event, arm)."""
    arm = rng.integers(0, 2, n)
    eta = log_ratio * arm + (covariates(rng, n) if design == "registry" else 0.0)
    dies = SCALE * (rng.exponential(size=n) / np.exp(eta)) ** (1 / SHAPE)
    leaves = rng.uniform(2, 12, n) if design == "registry" else rng.uniform(4, 16, n)
    seen = np.minimum(dies, leaves)
    return seen, (dies <= leaves).astype(float), arm


def truth(design, times):
    """Return survival at times."""
    H = (times / SCALE) ** SHAPE
    if design == "trial":
        return np.exp(-H)
    eta = covariates(np.random.default_rng(0), 400_000)
    return np.array([np.exp(-h * np.exp(eta)).mean() for h in H])


def exact(time_, event, at):
    """Return (log S, Greenwood) of the exact curve at times; no two times are equal."""
    order = np.argsort(time_)
    t, d = time_[order], event[order]
    Y = np.arange(len(t), 0, -1.0)
    some = (d > 0) & (Y > 1)
    log_S = np.cumsum(np.where(some, np.log1p(-1 / np.maximum(Y, 2)), 0.0))
    G = np.cumsum(np.where(some, 1 / (Y * np.maximum(Y - 1, 1)), 0.0))
    k = np.searchsorted(t, at, side="right") - 1
    return log_S[k], G[k]


def log_log(log_S, G):
    """Return the ends of the exact curve's intervals."""
    factor = np.exp(Z * np.sqrt(G) / -log_S)
    return np.exp(log_S * factor), np.exp(log_S / factor)


def run(design, n, eps, K, runs=RUNS):
    """Return a line of the table of curves."""
    at = np.linspace(0, END, K + 1)[1:]
    S = truth(design, at)
    covers, plain, width, left, gap, off = ([] for _ in range(6))
    rng = np.random.default_rng(n + K)
    for i in range(runs):
        seen, event, _ = cohort(rng, n, design)
        fit = dp.dp_survfit(
            "Surv(t, d == 1) ~ 1", {"t": seen, "d": event}, eps=eps, delta=1e-6, breaks=K,
            bounds={"t": (0, END)}, seed=i,
        )  # fmt: skip
        found = fit.tidy()
        low, high = found["conf_low"].to_numpy(), found["conf_high"].to_numpy()
        covers.append((low <= S) & (high >= S))
        log_S, G = exact(seen, event, at)
        lo, hi = log_log(log_S, G)
        plain.append((lo <= S) & (hi >= S))
        width.append((high - low) / (hi - lo))
        left.append(np.mean(seen[:, None] >= at, axis=0))
        gap.append(found["estimate"].to_numpy() - np.exp(log_S))
        off.append(np.exp(log_S) * np.sqrt(G))
    there = np.mean(left, axis=0) >= 0.05 if design == "registry" else np.ones(K, bool)
    bias = np.nanmean(gap, axis=0) / np.nanmean(off, axis=0)
    by_time = np.mean(covers, axis=0)
    return (
        f"| {design} | {n} | {eps:g} | {K} | {by_time.mean():.3f} | {by_time[there].mean():.3f} | "
        f"{by_time[there].min():.3f} | {np.mean(plain):.3f} | "
        f"{np.nanmean(np.median(width, axis=0)[there]):.2f} | "
        f"{np.nanmax(np.abs(bias[there])):.2f} |"
    )


def test(n, eps, log_ratio, runs=RUNS):
    """Return a line of the table of tests: share rejected, and of the exact test."""
    rng, found, plain = np.random.default_rng(n), [], []
    for i in range(runs):
        seen, event, arm = cohort(rng, n, "trial", log_ratio)
        data = {"t": seen, "d": event, "arm": np.array(["a", "b"])[arm]}
        fit = dp.dp_survdiff("Surv(t, d) ~ arm", data, eps=eps, delta=1e-6, schema=ARMS,
                             bounds={"t": (0, END)}, seed=i)  # fmt: skip
        found.append(fit.pvalue < 0.05)
        plain.append(exact_test(np.minimum(seen, END), event * (seen <= END), arm) > 3.841459)
    return (
        f"| {n} | {eps:g} | {math.exp(log_ratio):.2f} | {np.mean(found):.3f} | "
        f"{np.mean(plain):.3f} |"
    )


def exact_test(seen, event, arm):
    """Return the log-rank statistic of the rows."""
    order = np.argsort(seen, kind="stable")
    d, g = event[order], arm[order]
    Y = np.arange(len(d), 0, -1.0)
    share = np.cumsum(g[::-1])[::-1] / Y
    U, V = np.sum(d * (g - share)), np.sum(d * share * (1 - share))
    return U * U / V


def main():
    """Write the report."""
    warnings.simplefilter("ignore")
    begun = time.process_time()
    lines = [
        "# Survival curves and log-rank tests",
        "",
        f"`python benchmarks/survival.py {RUNS}`, seeded, delta = 1e-6, {RUNS} runs a line: "
        "standard error of a coverage at one time about "
        f"{math.sqrt(0.05 * 0.95 / RUNS):.3f}. Coverage of 95 % intervals of S at the ends of K "
        "intervals: mean over all times, mean and least over times with 5 % at risk (all of "
        "*trial*), of the exact curve of the same rows; median width over that of the exact "
        "curve, and largest bias over its standard error, at these times.",
        "",
        "| design | N | eps | K | all times | with 5 % | least | exact | width | bias |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for design in ("trial", "registry"):
        for n, eps, K in ((5000, 1, 16), (2000, 1, 16), (5000, 0.3, 16), (5000, 1, 256)):
            lines.append(run(design, n, eps, K))
            print(lines[-1], flush=True)
    lines += [
        "",
        "Log-rank test of two arms at .05, 16 intervals, *trial*: share rejected.",
        "",
        "| N | eps | hazard ratio | private | exact |",
        "|---|---|---|---|---|",
    ]
    for n, eps, ratio in (
        (5000, 1, 1), (2000, 1, 1), (5000, 0.3, 1), (5000, 1, 1.16), (5000, 0.3, 1.16),
    ):  # fmt: skip
        lines.append(test(n, eps, math.log(ratio), 2 * RUNS))
        print(lines[-1], flush=True)
    lines += one_core(begun)
    write(RESULTS / "survival.md", lines)


if __name__ == "__main__":
    main()
