"""Which method of ``dp_ols`` when: error, coverage and answers of each, on real tables.

Rows of a table are drawn with replacement; the truth is least squares on the whole table. Error:
root mean square over the error of least squares on the same rows, slopes together (median over
tables). Coverage: of 95 % intervals of slopes. Answers: share of calls with a finite estimate.

    python benchmarks/which_method.py [--reps 20] [--out benchmarks/results/which_method.md]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import data_folder, one_core, schema_of, write

DELTA = 1e-6
#: File, formula of each table.
TABLES = (
    ("winequality", "quality ~ alcohol + pH"),
    ("winequality", "quality ~ alcohol + volatile_acidity + sulphates + pH"),
    ("california_housing", "MedHouseVal ~ MedInc + HouseAge"),
)
#: Method, rows, eps, options, what it needs.
METHODS = (
    ("ssp", 5000, 1.0, {}, "ranges, or estimates them (default)"),
    ("pmt", 5000, 1.0, {}, "300 public rows"),
    ("eptr", 5000, 1.0, {}, "ranges, or estimates them"),
    ("gptr", 5000, 1.0, {}, "ranges, or estimates them"),
    ("adassp", 5000, 1.0, {}, "ranges"),
    ("drcl", 5000, 1.0, {}, "ranges; refused before the charge"),
    ("drcl", 60_000, 4.0, {}, "ranges, 60 000 rows, eps = 4"),
    ("drcl", 60_000, 4.0, {"unit": "attribute"}, "the same, a value protected and not the row"),
)


def drawn(name, formula):
    """Return the complete rows of a table in the variables of a formula, or None."""
    path = data_folder(".") / f"{name}.csv.gz"
    if not path.exists():
        return None
    words = [w for w in formula.replace("~", " ").split() if w != "+"]
    return pd.read_csv(path)[words].dropna()


def one(frame, formula, method, n, eps, options, rng):
    """Return (error of slopes, that of least squares, hits, answered) of one draw of rows."""
    names = [c for c in frame if c != formula.split()[0]]
    y = formula.split()[0]

    def fitted(rows):
        X = np.column_stack([np.ones(len(rows)), rows[names]])
        return np.linalg.lstsq(X, rows[y].to_numpy(), rcond=None)[0][1:]

    truth, rows = fitted(frame), frame.iloc[rng.integers(0, len(frame), n)]
    data = {"schema": schema_of(frame, formula)}
    if method == "pmt":
        data = {"public": frame.iloc[rng.integers(0, len(frame), 300)]}
    scale = frame[names].std().to_numpy()
    plain = scale * (fitted(rows) - truth)
    try:
        fit = dp.dp_ols(formula, rows, eps=eps, delta=DELTA, method=method, **data, **options)
    except dp.errors.RequestError:
        return None, plain, [], False
    b = fit.params[names].to_numpy()
    if not np.isfinite(b).all():
        return None, plain, [], False
    ends = fit.conf_int().loc[names].to_numpy()
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return scale * (b - truth), plain, inside[np.isfinite(ends).all(axis=1)].tolist(), True


def line(method, n, eps, options, needs, reps):
    """Return the row of a method."""
    ratios, hits, answers, without = [], [], [], 0
    for k, (name, formula) in enumerate(TABLES):
        frame = drawn(name, formula)
        if frame is None:
            continue
        rng = np.random.default_rng([57, k, n])
        found = [one(frame, formula, method, n, eps, options, rng) for _ in range(reps)]
        ours = [f[0] for f in found if f[0] is not None]
        if ours:
            ratios.append(np.sqrt(np.mean(np.square(ours)) / np.mean(np.square([f[1] for f in found]))))
        hits += [h for f in found for h in f[2]]
        answers += [f[3] for f in found]
        without += sum(f[3] and not f[2] for f in found)
    error = f"{np.median(ratios):.2g}" if ratios else "-"
    covered = f"{np.mean(hits):.3f}" if hits else "none" if ratios else "-"
    return f"| `{method}` | {n:,} | {eps:g} | {error} | {covered} | {np.mean(answers):.2f} | {needs} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--out", default="benchmarks/results/which_method.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    lines = [
        "# Which method when", "",
        f"`python benchmarks/which_method.py --reps {args.reps}`: {len(TABLES)} models of real tables, rows drawn with "
        "replacement, delta = 1e-6. Error over that of least squares on the same rows; coverage of 95 % intervals of "
        "slopes; answers: share of calls with an estimate. The noise is not seeded: the last digits move.", "",
        "| method | rows | eps | error | coverage | answers | needs |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for case in METHODS:
        lines.append(line(*case, args.reps))
        print(lines[-1], flush=True)
    write(args.out, [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
