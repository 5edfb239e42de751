"""Synthetic rows of released moments: coverage of pooled intervals on real tables.

A real table is the population; samples of n rows are drawn with replacement, the target is least
squares on the whole table. Of each sample the moments are released once, 100 synthetic tables are
drawn, a model is fitted to each, and the fits are combined. Beside it: ``dp_ols`` on the same
release, and ordinary intervals of the first synthetic table. Moments are those of method="joint",
which weights no row, so that the target is plain least squares.

``python benchmarks/synthetic_rows.py [samples]`` writes ``results/synthetic_rows.md``.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from common import RESULTS, one_core, write
from real_responses import population

import dpmodels as dp

#: Ten tables and models.
TABLES = (
    ("winequality", "quality ~ alcohol + volatile_acidity + density + pH"),
    ("power_plant", "PE ~ AT + V + AP + RH"),
    ("california_housing", "MedHouseVal ~ MedInc + HouseAge + Latitude"),
    ("kin8nm", "y ~ theta1 + theta2 + theta3"),
    ("protein", "RMSD ~ F1 + F3 + F4"),
    ("vocab", "vocabulary ~ education + year"),
    ("credit_default", "LIMIT_BAL ~ AGE + BILL_AMT1"),
    ("cps1988_wage", "education ~ experience + wage"),
    ("bike_sharing_hour", "windspeed ~ temp + hum + hr"),
    ("pol_centred", "y ~ x5 + x6 + x7"),
)


def least_squares(X, y):
    """Return estimates and the ordinary covariance."""
    inverse = np.linalg.inv(X.T @ X)
    b = inverse @ (X.T @ y)
    left = y - X @ b
    return b, inverse * float(left @ left) / (len(y) - len(b))


def cell(file, formula, n, eps, samples):
    """Return coverage by pooling, by dp_ols and of one table; and distances from dp_ols."""
    frame, schema, X, y = population(file, formula)
    target, _ = least_squares(X, y)
    response, covariates = (side.split(" + ") for side in formula.split(" ~ "))
    inside, far = [], []
    for i in range(samples):
        rows = frame.iloc[np.random.default_rng(i).integers(0, len(frame), n)]
        m = dp.dp_moments(
            " + ".join(response + covariates), rows.reset_index(drop=True), eps=eps, delta=1e-6,
            schema=schema, seed=i, method="joint",
        )  # fmt: skip
        fit = dp.dp_ols(formula, m)
        fits = []
        for table in m.synthetic(100, seed=i):
            Z = np.column_stack([np.ones(len(table)), table[covariates]])
            fits.append(least_squares(Z, table[response[0]].to_numpy()))
        pooled = dp.combine(fits)
        ends = [pooled.conf_int().to_numpy(), fit.conf_int().to_numpy()]
        b, V = fits[0]
        half = 1.96 * np.sqrt(np.diag(V))
        ends.append(np.stack([b - half, b + half], axis=1))
        inside.append([(e[:, 0] <= target) & (target <= e[:, 1]) for e in ends])
        far.append((pooled.params.to_numpy() - fit.params.to_numpy()) / fit.bse.to_numpy())
    return np.mean(inside, axis=(0, 2)), float(np.sqrt(np.nanmean(np.square(far))))


def main():
    """Write the report."""
    warnings.simplefilter("ignore")
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    begun = time.process_time()
    lines = [
        "# Synthetic rows of released moments",
        "",
        f"`python benchmarks/synthetic_rows.py {samples}`, seeded, delta = 1e-6, {samples} samples "
        "a line, 100 synthetic tables each. Coverage of 95 % intervals, mean over coefficients; "
        "distance of the pooled estimates from `dp_ols` on the same release, root mean square in "
        "standard errors. `dp_ols` has no interval where noise leaves no residual variance.",
        "",
        "| table | model | n | eps | pooled | dp_ols(formula, m) | one table | distance |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = []
    for file, formula in TABLES:
        (pooled, direct, single), far = cell(file, formula, 10_000, 4.0, samples)
        every.append((pooled, direct, single))
        lines.append(
            f"| {file} | `{formula}` | 10 000 | 4 | {pooled:.3f} | {direct:.3f} | {single:.3f} | "
            f"{far:.2f} |"
        )
        print(lines[-1], flush=True)
    mean = np.mean(every, axis=0)
    lines += ["", f"All: {mean[0]:.3f} pooled, {mean[1]:.3f} dp_ols, {mean[2]:.3f} one table."]
    lines += one_core(begun)
    write(RESULTS / "synthetic_rows.md", lines)


if __name__ == "__main__":
    main()
