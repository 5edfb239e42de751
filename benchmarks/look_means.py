"""Means of numbers whose declared ranges are 1, 4 and 20 times too wide, before and after a look.

Made data of several shapes and columns of real tables; eps = 1, delta = 1e-6. "Before" is the same
call without the two histograms. Widths are over those before at the tight range (the ends of
10 000 values). The rules were set with the shapes of "tuned" in view; "aside" was run once.

    python benchmarks/look_means.py [--verb mean,table,test,groups] [--part tuned,aside,real]
        [--rows 3000,10000,50000] [--reps 100] [--out benchmarks/results/look_means.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from unittest import mock

import numpy as np
import pandas as pd
from common import data_folder, write

import dpmodels as dp
from dpmodels.models import mean
from dpmodels.models.table import table, testing

#: Whole populations are this large: their means are the truth.
POPULATION = 1_000_000
TIMES = 1.0, 4.0, 20.0
GROUPS = [f"g{k}" for k in range(5)]

MADE = {
    "tuned": {
        "normal": lambda r, n: r.normal(0, 1, n),
        "lognormal": lambda r, n: r.lognormal(0, 1, n),
        "lognormal, sd 1.5": lambda r, n: r.lognormal(0, 1.5, n),
        "70 % zeros": lambda r, n: np.where(r.random(n) < 0.7, 0.0, r.lognormal(0, 1, n)),
        "0/1, a fifth": lambda r, n: (r.random(n) < 0.2) * 1.0,
        "0/1, 2 %": lambda r, n: (r.random(n) < 0.02) * 1.0,
        "whole numbers": lambda r, n: r.poisson(1.5, n) * 1.0,
        "exponential": lambda r, n: r.exponential(1, n),
        "t, 3 degrees": lambda r, n: r.standard_t(3, n),
    },
    "aside": {
        "gamma, shape 2": lambda r, n: r.gamma(2, 1, n),
        "Weibull, shape .6": lambda r, n: r.weibull(0.6, n),
        "minus lognormal, sd .7": lambda r, n: -r.lognormal(0, 0.7, n),
        "half zeros, gamma": lambda r, n: np.where(r.random(n) < 0.5, 0.0, r.gamma(3, 2, n)),
        "scale of 1 to 7": lambda r, n: np.clip(np.round(r.normal(5, 1.5, n)), 1, 7),
        "ages": lambda r, n: np.floor(r.triangular(18, 30, 95, n)),
        "two humps": lambda r, n: np.where(r.random(n) < 0.3, r.normal(6, 1, n), r.normal(0, 1, n)),
        "Pareto, index 3": lambda r, n: r.pareto(3, n),
        "0/1, .4": lambda r, n: (r.random(n) < 0.4) * 1.0,
    },
}


def populations(part):
    """Yield (name, numbers of a whole population)."""
    if part != "real":
        for name, draw in MADE[part].items():
            yield name, draw(np.random.default_rng(99), POPULATION)
        return
    for file, column in REAL:
        frame = pd.read_csv(data_folder() / f"{file}.csv.gz")
        yield f"{file}: {column}", frame[column].dropna().to_numpy(float)


REAL = [
    ("cps1988_wage", "wage"), ("meps_drugexp", "drugexp"), ("adult", "hours_per_week"),
    ("california_housing", "MedInc"),
]  # fmt: skip


def wider(low, high, by):
    """Return a range that is wider, about its lower third."""
    start = low - (by - 1.0) * (high - low) / 3.0
    return start, start + by * (high - low)


def of_mean(y, k, ends, seed):
    """Return the intervals of one mean, and their truths."""
    fit = dp.dp_mean(
        "y ~ 1", pd.DataFrame({"y": y}), bounds={"y": ends}, eps=1, delta=1e-6, seed=seed
    )
    return fit.conf_int().to_numpy()


def of_table(y, k, ends, seed):
    """Return the intervals of the means of five groups."""
    schema = {"y": dp.Real(*ends), "g": dp.Levels(GROUPS)}
    fit = dp.dp_table(
        "y ~ g", pd.DataFrame({"y": y, "g": np.array(GROUPS)[k]}), schema=schema, eps=1,
        delta=1e-6, seed=seed,
    )  # fmt: skip
    means = fit.tidy().query("measure == 'mean' and level != 'all'")
    return means[["conf_low", "conf_high"]].to_numpy()


def of_test(y, k, ends, seed):
    """Return the interval of a tested mean."""
    fit = dp.dp_test(
        "y ~ 1", pd.DataFrame({"y": y}), bounds={"y": ends}, mu0=sum(ends) / 2.0, eps=1, delta=1e-6,
        seed=seed,
    )  # fmt: skip
    return fit.conf_int().to_numpy()


def of_groups(y, k, ends, seed):
    """Return the intervals of the means of five groups that are compared."""
    schema = {"y": dp.Real(*ends), "g": dp.Levels(GROUPS)}
    data = pd.DataFrame({"y": y, "g": np.array(GROUPS)[k]})
    return dp.dp_test("y ~ g", data, schema=schema, eps=1, delta=1e-6, seed=seed).conf_int().to_numpy()


VERBS = {"mean": of_mean, "table": of_table, "test": of_test, "groups": of_groups}
NAMES = {"groups": "dp_test, five groups"}
MODULES = {"mean": mean, "table": table, "test": testing, "groups": testing}


def figures(verb, population, n, reps):
    """Return (range, coverage before, after, width before, after) of one number, by range."""
    some = np.random.default_rng(98).choice(population, 10_000)
    low, high = float(some.min()), float(some.max())
    # groups differ in size and in level: ranks of the numbers, with noise
    rank = np.argsort(np.argsort(population)) / len(population)
    group = (rank + np.random.default_rng(97).normal(0, 0.5, len(population))).argsort().argsort()
    group = np.minimum((group / len(population)) ** 1.5 * 5, 4).astype(int)
    out, base = [], None
    for by in TIMES:
        ends = wider(low, high, by)
        inside = np.clip(population, *ends)
        truth = np.array([inside.mean()])
        if verb in ("table", "groups"):
            truth = np.array([inside[group == g].mean() for g in range(5)])
        hit, half = np.zeros(2), np.zeros(2)
        for rep in range(reps):
            rows = np.random.default_rng([17, rep]).integers(0, len(population), n)
            for after in (0, 1):
                with look(MODULES[verb], bool(after)):
                    found = VERBS[verb](population[rows], group[rows], ends, rep)
                hit[after] += np.mean((found[:, 0] <= truth) & (truth <= found[:, 1])) / reps
                half[after] += np.mean(found[:, 1] - found[:, 0]) / 2.0 / reps
        base = half[0] if base is None else base
        out.append((by, *hit, *(half / base)))
    return out


def look(module, on):
    """Return the context in which calls look first, or do not."""
    if on:
        return contextlib.nullcontext()
    return mock.patch.multiple(module, look_steps=lambda *_: [])


def main():
    """Print the table, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--verb", default="mean,table")
    parser.add_argument("--part", default="tuned,aside,real")
    parser.add_argument("--rows", default="3000,10000,50000")
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--out")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    begun = time.time()
    lines = [
        "| verb | numbers | rows | times too wide | coverage before, after | width before, after |",
        "|---|---|---|---|---|---|",
    ]
    for verb in args.verb.split(","):
        for part in args.part.split(","):
            for name, population in populations(part):
                for n in map(int, args.rows.split(",")):
                    for by, c0, c1, w0, w1 in figures(verb, population, n, args.reps):
                        lines.append(
                            f"| {NAMES.get(verb, 'dp_' + verb)} | {part}: {name} | {n} | {by:g} | {c0:.3f}, {c1:.3f} | "
                            f"{w0:.2f}, {w1:.2f} |"
                        )
                        print(lines[-1], flush=True)
    if args.out:
        head = ["# Means that look first", "", __doc__.split("    python")[0].strip(), ""]
        write(args.out, [*head, *lines, "", f"{time.time() - begun:.0f} s on one core."])


if __name__ == "__main__":
    main()
