"""Coverage of 95 % intervals on real designs with simulated errors, and AdaSSP on wine.

Designs: the covariates of four data sets, all rows, ranges rounded outwards; response = X beta +
normal errors with the beta and sd of least squares. Constants frozen before these were looked at.

    python benchmarks/real_coverage.py [--reps 40] [--out benchmarks/results/coverage.md]
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
import default_grid
from common import one_core, outwards, schema_of, write
from default_grid import REAL, real_designs

#: Wide designs as in the grid (rare levels, ranges a hundred times the spread), and narrow ones.
WIDE = ("adult", "california8", "credit")
NARROW = {
    "adult, narrow": ("adult.csv.gz", "hours_per_week ~ age + education_num + sex + race"),
    "california4": (
        "california_housing.csv.gz",
        "MedHouseVal ~ MedInc + HouseAge + Latitude + Longitude",
    ),
    "credit, narrow": ("credit_default.csv.gz", "LIMIT_BAL ~ AGE + PAY_0 + PAY_2 + C(SEX)"),
    "cps8": ("cps_earnings_sw8.csv.gz", "earnings ~ age + education + gender + region"),
}


def simulated(frame, formula, schema):
    """Return (X, beta, sd, response name) of the design."""
    from dpmodels.formula.build import build_design

    X = np.asarray(build_design(formula, schema).matrix(frame))
    name = formula.split("~")[0].strip()
    y = frame[name].to_numpy(dtype=float)
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    return X, beta, float(np.std(y - X @ beta)), name


def merged(frame, formula, share=0.01):
    """Join levels rarer than ``share`` to the commonest one, as public rows would force one to."""
    coded = {w[2:].split(")")[0] for w in formula.split() if w.startswith("C(")}
    frame = frame.copy()
    for name in frame:
        if name in coded or not pd.api.types.is_numeric_dtype(frame[name]):
            part = frame[name].value_counts(normalize=True)
            frame[name] = frame[name].where(frame[name].map(part) >= share, part.index[0])
    return frame


def cell(frame, formula, eps, reps, method, seed=9):
    """Return (mean coverage, of the lowest coefficient, share with intervals, failed fits)."""
    if method == "pmt":
        frame = merged(frame, formula)
    schema = schema_of(frame, formula)
    X, beta, sd, name = simulated(frame, formula, schema)
    mean = X @ beta
    wide = dp.Real(float(mean.min() - 4 * sd), float(mean.max() + 4 * sd))
    schema = schema.update(**{name: wide})
    hits, silent = [], 0
    for r in range(reps):
        rng = np.random.default_rng([seed, r])
        data = frame.assign(**{name: mean + sd * rng.normal(size=len(frame))})
        public = None
        if method == "pmt":
            order = rng.permutation(len(frame))
            public, data = data.iloc[order[:1000]], data.iloc[order[1000:]]
        try:
            fit = dp.dp_ols(
                formula, data, eps=eps, delta=1e-6, method=method, schema=schema, public=public,
                seed=r,
            )  # fmt: skip
        except ValueError:  # a level that the public rows do not hold
            silent += 1
            continue
        ci = fit.conf_int().to_numpy()
        inside = ((ci[:, 0] <= beta) & (ci[:, 1] >= beta)).astype(float)
        hits.append(np.where(np.isnan(ci[:, 0]), np.nan, inside))
    hits = np.array(hits)
    given = ~np.isnan(hits)
    often = given.mean(axis=0) >= 0.5
    return (
        float(np.nanmean(hits)), float(np.nanmean(hits[:, often], axis=0).min()),
        float(given.mean()), silent,
    )  # fmt: skip


def wine(reps):
    """Median test error on wine, 11 covariates in ranges rounded outwards (row norm sqrt 12)."""
    _, data, formula = next(d for d in real_designs() if d[0] == "wine12")
    formula = formula.replace(" + color", "")
    x = [w.strip() for w in formula.split("~")[1].split("+")]
    bounds = {c: outwards(data[c].min(), data[c].max()) for c in [*x, "quality"]}
    out = {}
    for method, more in (
        ("adassp", {"relation": "add-remove"}), ("ssp", {}),
        ("ssp", {"relation": "add-remove", "n_guess": 5000}),
    ):  # fmt: skip
        errors = []
        for r in range(reps):
            order = np.random.default_rng([3, r]).permutation(len(data))
            train, test = data.iloc[order[:5197]], data.iloc[order[5197:]]
            fit = dp.dp_ols(
                formula, train, eps=1, delta=1e-6, method=method, bounds=bounds, seed=r, **more
            )
            X = np.column_stack([np.ones(len(test)), test[x]])
            errors.append(float(np.mean((test["quality"] - X @ fit.params.to_numpy()) ** 2)))
        label = f"{method} ({more.get('relation', 'replace')})"
        out[label] = float(np.median(errors))
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--out", default="benchmarks/results/coverage.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    lines = [
        "# Coverage of 95 % intervals on real designs with simulated errors",
        "",
        f"`python benchmarks/real_coverage.py --reps {args.reps}`, seeded, delta = 1e-6. Coverage over "
        "the coefficients that have an interval; lowest coefficient (of those with one in at least "
        "half of the replications); share of intervals given: where noise dominates a direction, "
        "coefficients that the release does not determine get none; fits that failed (a level "
        "missing among the 1000 public rows; for pmt levels rarer than 1 % are joined to the "
        "commonest).",
        "",
        "| design | n | method | eps | coverage | lowest | intervals | failed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    designs = [d for d in real_designs() if d[0] in WIDE]
    default_grid.REAL = NARROW
    for name, frame, formula in [*real_designs(), *designs]:
        for method, eps in (("ssp", 1.0), ("ssp", 2.5), ("pmt", 1.0)):
            mean, low, given, silent = cell(frame, formula, eps, args.reps, method)
            lines.append(
                f"| {name} | {len(frame)} | {method} | {eps} | {mean:.3f} | {low:.2f} | "
                f"{given:.2f} | {silent} |"
            )
            print(lines[-1], flush=True)
    lines += ["", "Wine, 11 covariates, ranges rounded outwards, eps = 1, 5197 training rows, median "
              "test error (variance of the response .76):", ""]  # fmt: skip
    default_grid.REAL = REAL
    for label, value in wine(args.reps).items():
        lines.append(f"* {label}: {value:.3f}")
        print(lines[-1], flush=True)
    lines += one_core(start)
    write(args.out, lines)


if __name__ == "__main__":
    main()
