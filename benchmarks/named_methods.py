"""ePTR and a posterior draw as starts of ``dp_ols``: coverage and error beside the default.

A real table is the population, samples of n rows are drawn with replacement, the target is least
squares on the whole table. Error: root mean square over that of least squares on the same samples,
the median over coefficients. Ranges are declared (those of the table, rounded outwards) or
estimated by the call; delta = 1e-6. The tables of the part "aside" were not looked at before the
constants were frozen.

    python benchmarks/named_methods.py [--part tuned] [--reps 40] [--cells 5000:1] [--methods eptr]
        [--ranges declared] [--designs wine] [--out benchmarks/results/named_methods.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from common import data_folder, design_matrix, one_core, schema_of, write

import dpmodels as dp

DELTA = 1e-6
#: Part, file, formula of each design.
DESIGNS = {
    "california": ("tuned", "california_housing", "MedHouseVal ~ MedInc + HouseAge + Latitude"),
    "cps1988": ("tuned", "cps1988_wage", "log(wage) ~ education + experience + I(experience**2)"),
    "wine": ("tuned", "winequality", "quality ~ alcohol + volatile_acidity + density + pH"),
    "adult": ("tuned", "adult", "hours_per_week ~ age + education_num + sex"),
    "power": ("tuned", "power_plant", "PE ~ AT + V + AP + RH"),
    "cps2005": ("aside", "cps_earnings_sw8", "log(earnings) ~ education + age + gender + region"),
    "rand": ("aside", "rand_hie", "mdvis ~ lncoins + disea + physlm"),
}
CELLS = ("5000:1", "5000:4", "20000:1", "20000:4")
METHODS = ("ssp", "eptr", "gptr")
RANGES = ("declared", "estimated")


def population(name):
    """Return (frame, schema, design matrix, response) of a design."""
    _, file, formula = DESIGNS[name]
    frame = pd.read_csv(data_folder() / f"{file}.csv.gz")
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in formula).split())
    frame = frame[[c for c in frame if c in words]].dropna().reset_index(drop=True)
    schema = schema_of(frame, formula)
    for column, ends in {"wage": (50, 20_000), "earnings": (1, 100)}.items():
        if column in frame:
            schema = schema.update(**{column: dp.Real(*ends)})
    return frame, schema, *design_matrix(frame, formula, schema)


def without_ranges(schema):
    """Return the schema with levels alone."""
    real = {k: dp.Real() for k, v in schema.items() if isinstance(v, dp.Real)}
    return schema.update(**real)


def squares(X, y):
    """Return least squares."""
    return np.linalg.lstsq(X, y, rcond=None)[0]


def cell(table, formula, method, ranges, n, eps, reps):
    """Return figures of one method on one design at one n and eps."""
    frame, schema, X, y = table
    truth, hits, errors, twins, replies = squares(X, y), [], [], [], 0
    given = schema if ranges == "declared" else without_ranges(schema)
    for r in range(reps):
        rows = np.random.default_rng([23, r]).integers(0, len(frame), n)
        fit = dp.dp_ols(
            formula, frame.iloc[rows], eps=eps, delta=DELTA, method=method, schema=given, seed=r
        )
        twins.append(squares(X[rows], y[rows]) - truth)
        if not fit.released:
            continue
        replies += 1
        ends = fit.conf_int().to_numpy()
        hits.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        errors.append(fit.params.to_numpy() - truth)
    by, twin = np.mean(hits, axis=0), np.sqrt(np.mean(np.square(twins), axis=0))
    rmse = np.sqrt(np.mean(np.square(errors), axis=0)) / twin
    return {
        "method": method, "ranges": ranges, "n": n, "eps": eps, "replies": replies / reps,
        "cover": by.mean(), "least": by.min(), "error": float(np.median(rmse)),
        "worst": float(rmse.max()),
    }  # fmt: skip


HEAD = "| design | ranges | n | eps | method | replies | coverage / least | error / worst |"


def line(name, c):
    """Return the row of a cell."""
    return (
        f"| {name} | {c['ranges']} | {c['n']} | {c['eps']:g} | {c['method']} | {c['replies']:.2f} |"
        f" {c['cover']:.3f} / {c['least']:.2f} | {c['error']:.2f} / {c['worst']:.1f} |"
    )


def over(found, method, ranges, default):
    """Return the row of a method over designs and cells, its error beside that of the default."""
    own = [c for c in found if (c["method"], c["ranges"]) == (method, ranges)]
    ratio = [
        c["error"] / d["error"]
        for c in own
        for d in found
        if d["method"] == default
        and all(c[k] == d[k] for k in ("design", "ranges", "n", "eps"))
    ]  # fmt: skip
    return (
        f"| {method} | {ranges} | {min(c['replies'] for c in own):.2f} | "
        f"{np.mean([c['cover'] for c in own]):.3f} / {min(c['least'] for c in own):.2f} | "
        f"{np.median([c['error'] for c in own]):.2f} | "
        + (f"{np.median(ratio):.2f} / {max(ratio):.2f} |" if ratio else "n/a |")
    )


def main():
    """Run all cells and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="tuned,aside")
    parser.add_argument("--designs", default=",".join(DESIGNS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--ranges", default=",".join(RANGES))
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--out")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start, lines, found = time.process_time(), [], []
    for name in args.designs.split(","):
        if DESIGNS[name][0] not in args.part.split(","):
            continue
        table = population(name)
        for at in args.cells.split(","):
            n, eps = int(at.split(":")[0]), float(at.split(":")[1])
            for ranges in args.ranges.split(","):
                for method in args.methods.split(","):
                    one = cell(table, DESIGNS[name][2], method, ranges, n, eps, args.reps)
                    found.append({"design": name, **one})
                    lines.append(line(name, one))
                    print(lines[-1], flush=True)
    every = [
        over(found, method, ranges, "ssp")
        for method in args.methods.split(",")
        for ranges in args.ranges.split(",")
    ]
    print("\n".join(every))
    if args.out:
        head = ["| method | ranges | least replies | coverage / least | median error | error over "
                "that of the default: median / most |", "|---|---|---|---|---|---|"]  # fmt: skip
        write(args.out, [
            "# Named methods as starts", "", f"{args.reps} samples a cell; delta = 1e-6. " + (
                "Error over that of least squares on the same samples."), "", *head, *every, "",
            HEAD, "|---|---|---|---|---|---|---|---|", *lines, *one_core(start),
        ])  # fmt: skip


if __name__ == "__main__":
    main()
