"""Table 1 of ten groups of 20 to 100 rows: what is marked, what is two printed errors off, and bounds.

Made rows: age, BMI, years of tenure (skewed), sex, smoking (three levels) and an event (a fifth). A number
of a group is its mean or its SD; a count of a level is never marked. Beside the tables stands what no split
of eps = 1 could improve on: the whole eps for the sum of one number by group, by noise of the least possible
sd for one sum (Laplace noise is within 3 % of it at eps = 1: Geng and Viswanath 2014), and n known; the same
for the sum of squares alone (a third of eps: three numbers). The rules of marks are those of the package: a
mean whose noise sd reaches an end of its range; an SD where the variance of all rows is not above four noise
sds of that of the group. Before that rule a group's own SD decided, and of the few SDs that were shown at
eps = 1 .3 to 1 were off: those that noise had made the largest.

So at most 30 % of marked means is reached by three numbers and fewer; with SDs counted as cells, no split of
the budget reaches it: 87 to 100 % of SDs of groups of 20 to 100 rows lie below their noise where three numbers share
eps = 1, and 41 to 78 % where one sum of squares has all of it. Pooling groups would shrink them to each other.

    python benchmarks/table_one_small.py [--tables 40]
"""

from __future__ import annotations

import argparse
import time
import warnings
from unittest import mock

import numpy as np
import pandas as pd
from common import RESULTS, one_core, write

import dpmodels as dp
from dpmodels.models.table import table_one

GROUPS = [f"g{k}" for k in range(10)]
SIZES = np.linspace(20, 100, 10).round().astype(int)
RANGES = {"age": (18.0, 90.0), "bmi": (15.0, 45.0), "tenure": (0.0, 40.0)}
SCHEMA = dp.Schema(
    **{k: dp.Real(*v) for k, v in RANGES.items()}, sex=dp.Levels(["f", "m"]), ill=dp.Binary(),
    smoker=dp.Levels(["never", "former", "current"]), g=dp.Levels(GROUPS),
)  # fmt: skip
TABLES = {
    "six variables": "~ age + bmi + tenure + sex + smoker + ill",
    "three numbers": "~ age + bmi + tenure",
    "two numbers": "~ age + tenure",
    "age alone": "~ age",
    "tenure alone": "~ tenure",
}


def people(seed):
    """Return made rows of ten groups."""
    rng, k = np.random.default_rng(seed), np.repeat(np.arange(10), SIZES)
    n = len(k)
    return pd.DataFrame({
        "g": np.array(GROUPS)[k], "age": np.clip(rng.normal(45 + 1.5 * k, 12), 18, 90),
        "bmi": np.clip(18 + rng.gamma(4, 2, n), 15, 45),
        "tenure": np.clip(rng.exponential(5 + 0.5 * k, n), 0, 40), "sex": rng.choice(["f", "m"], n),
        "smoker": rng.choice(["never", "former", "current"], n, p=[0.5, 0.3, 0.2]),
        "ill": (rng.random(n) < 0.2) * 1,
    })  # fmt: skip


def numbers_of(formula, seed, eps):
    """Return (kind, printed, printed error, true) of every mean and SD by group."""
    seen, compared = [], table_one._compared
    frame, names = people(1000 + seed), formula[1:].replace(" ", "").split("+")
    with mock.patch.object(table_one, "_compared", lambda *a: seen.append(a[3]) or compared(*a)):
        dp.dp_table(formula, frame, by="g", eps=eps, delta=1e-6, schema=SCHEMA, seed=seed,
                    errors=True).summary()  # fmt: skip
    for name, variable in zip(names, seen, strict=True):
        by = frame.groupby("g")[name]
        truths = () if variable.levels else (by.mean(), by.std(ddof=0))
        for kind, values, errors, true in zip(
            ("mean", "SD"), variable.values, variable.errors, truths, strict=False
        ):
            yield from zip([kind] * 10, values, errors, true, strict=False)


def bound(name, kind, seed, eps):
    """Return whether the mean or SD of each group is marked with all of eps spent on it alone."""
    x, (low, high) = people(1000 + seed), RANGES[name]
    by, half = x.groupby("g")[name], (high - low) / 2.0
    mean, v, n = by.mean(), by.var(ddof=0) / half**2, SIZES
    if kind == "mean":  # a sum moves by two half ranges at most
        error = np.sqrt(2.0) * 2.0 * half / (eps * n)
        return (mean - low <= error) | (high - mean <= error)
    # a sum of squares moves by one; SD > 8 of its errors is v > 4 of the errors of v
    return v <= 4.0 * np.sqrt(2.0) / (eps * n)


def main():
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    args, start = parser.parse_args(), time.process_time()
    warnings.simplefilter("ignore")
    lines = []
    for eps in (1.0, 4.0):
        for name, formula in TABLES.items():
            found = [one for seed in range(args.tables) for one in numbers_of(formula, seed, eps)]
            cells = []
            for kind in ("mean", "SD"):
                value, error, true = np.array([f[1:] for f in found if f[0] == kind], dtype=float).T
                shown = np.isfinite(value)
                off = np.abs(value - true)[shown] > 2.0 * error[shown]
                cells += [f"{1.0 - shown.mean():.2f}", f"{off.mean():.3f}" if shown.any() else "."]
            lines.append(f"| {name} | {eps:g} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    limits = []
    for name in RANGES:
        for eps in (1.0, 1.0 / 3.0, 4.0):
            marked = [
                np.mean([bound(name, kind, s, eps) for s in range(args.tables)])
                for kind in ("mean", "SD")
            ]
            limits.append(f"| {name} | {eps:.3g} | {marked[0]:.2f} | {marked[1]:.2f} |")
            print(limits[-1], flush=True)
    write(
        RESULTS / "table_one_small.md",
        ["# Table 1 of small groups", "", *__doc__.splitlines(), "",
         f"{args.tables} tables each. Off: share of unmarked numbers more than two printed errors from those "
         "of the rows.", "",
         "| table | eps | means marked | off | SDs marked | off |", "|---|---|---|---|---|---|", *lines, "",
         "All of eps for this number alone, and of it for this kind alone:", "",
         "| number | eps | means marked | SDs marked |", "|---|---|---|---|", *limits, *one_core(start)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
