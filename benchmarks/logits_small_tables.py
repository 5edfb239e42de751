"""Logits of small tables: scores (the default) against objective perturbation.

    python -m benchmarks.logits_small_tables

Samples of real tables, without replacement. The truth is the fit without privacy of the whole
table. Slopes are times the sd of their column. Results: ``results/logits_small_tables.md``.
"""

import sys
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp
from benchmarks.common import data_folder

TABLES = {
    "adult": ("adult.csv.gz", {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99), "y": (0, 1)}),
    "credit": ("credit_default.csv.gz", {"LIMIT_BAL": (10_000, 1_000_000), "AGE": (21, 79), "PAY_0": (-2, 8),
                                         "BILL_AMT1": (-100_000, 1_000_000), "y": (0, 1)}),
    "doctor": ("rwm5yr.csv.gz", {"age": (25, 64), "educ": (7, 18), "hhninc": (0, 31), "female": (0, 1), "y": (0, 1)}),
    "vocab": ("vocab.csv.gz", {"education": (0, 20), "year": (1974, 2004), "y": (0, 1)}),
}  # fmt: skip
EVENTS = {
    "adult": lambda d: d.income == ">50K", "credit": lambda d: d.default == 1,
    "doctor": lambda d: d.hospvis > 0, "vocab": lambda d: d.vocabulary > 6,
}  # fmt: skip
SIZES, BUDGETS, TIMES = (1000, 2000, 3000), (0.3, 1.0), 40


def table(name):
    """Return the rows, their schema and the names of the predictors."""
    file, ranges = TABLES[name]
    rows = pd.read_csv(data_folder() / file)
    rows["y"] = np.asarray(EVENTS[name](rows), dtype=int)
    rows = rows[list(ranges)].astype(float)
    rows = rows.clip(*np.array(list(ranges.values())).T, axis=1)
    schema = {k: dp.Binary() if r == (0, 1) else dp.Real(*r) for k, r in ranges.items()}
    return rows, dp.Schema(**schema), [k for k in ranges if k != "y"]


def logit(X, y):
    """Return the coefficients of a logit without privacy, by Newton's method."""
    b = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-X @ b))
        b += np.linalg.solve((X * (p * (1.0 - p))[:, None]).T @ X, X.T @ (y - p))
    return b


def measured(name, n, eps, method):
    """Return width, error and coverage of the slopes, and of zero in their place."""
    rows, schema, names = table(name)
    sd = rows[names].std().to_numpy()
    standard = (rows[names] - rows[names].mean()) / sd
    X = np.column_stack([np.ones(len(rows)), standard])
    truth = logit(X, rows["y"].to_numpy())[1:]
    errors, widths, hits, tested, exact = [], [], [], [], []
    for seed in range(TIMES):
        some = rows.sample(n, random_state=seed)
        fit = dp.dp_glm("y ~ " + " + ".join(names), some, eps=eps, delta=1e-6, schema=schema,
                        method=method, seed=seed)  # fmt: skip
        low, high = (fit.conf_int().loc[names].to_numpy() * sd[:, None]).T
        errors.append(fit.params[names].to_numpy() * sd - truth)
        widths.append(high - low)
        hits.append((low <= truth) & (truth <= high))
        tested.append(fit.tidy().set_index("term").loc[names, "p_value"].notna())
        here = X[some.index]
        exact.append(logit(here, some["y"].to_numpy())[1:] - truth)
    rms = [float(np.sqrt(np.mean(np.square(part)))) for part in (errors, exact, truth)]
    return [float(np.median(widths)), *rms, float(np.mean(hits)), float(np.min(np.mean(hits, axis=0))),
            float(np.mean(tested))]  # fmt: skip


def main():
    """Print the table of results."""
    warnings.simplefilter("ignore")
    print("| table | n | eps | method | width | rms error | without privacy | of zero | coverage | least | tested |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in TABLES:
        for n in SIZES:
            for eps in BUDGETS:
                for method in (None, "objpert"):
                    found = " | ".join(f"{v:.2f}" for v in measured(name, n, eps, method))
                    print(f"| {name} | {n} | {eps:g} | {method or 'default'} | {found} |")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
