"""Do intervals cover the population's own coefficient on real tables with real errors?

A real table is the population; samples of n rows are drawn with replacement; the target is the
least-squares fit of the whole table. Nothing about the model is assumed. Everything in an interval
comes from released numbers; the non-private robust (HC1) fit of each sample stands beside it.
Ranges are the table's, rounded outwards as a user would write them; delta = 1e-6.

    python benchmarks/real_responses.py [--reps 100] [--cells 10000:1,3000:1] [--designs a,b]
        [--bought] [--out benchmarks/results/real_responses.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
import pandas as pd
from common import (
    NAMED,
    OPEN,
    RANGES,
    coverage_line,
    coverage_over,
    data_folder,
    design_matrix,
    marked,
    one_core,
    schema_of,
    write,
)  # fmt: skip

import dpmodels as dp

DELTA = 1e-6
CELLS = "10000:1,3000:1,10000:0.3,10000:4,10000:0.25,10000:0.5,0:1,0:4"

#: Looked at while the rules were made (two of them: the radius of the information, averaging).
TUNED = {
    "cps1988": ("cps1988_wage", "log(wage) ~ education + experience + I(experience**2)"),
    "cps_sw8": ("cps_earnings_sw8", "earnings ~ age + education + gender"),
    "california income": ("california_housing", "MedHouseVal ~ MedInc"),
    "california 3": ("california_housing", "MedHouseVal ~ MedInc + HouseAge + Latitude"),
    "wine4": ("winequality", "quality ~ alcohol + volatile_acidity + density + pH"),
    "protein": ("protein", "RMSD ~ F1 + F3 + F4"),
    "meps": ("meps_drugexp", "ldrugexp ~ totchr + age + female + linc"),
    "bike": ("bike_sharing_hour", "cnt ~ temp + hum + windspeed"),
    "credit": ("credit_default", "LIMIT_BAL ~ AGE + BILL_AMT1 + PAY_AMT1"),
    "rand_hie": ("rand_hie", "mdvis ~ lncoins + disea + physlm"),
}
#: Named by the specification of the intervals; not looked at while this code was made.
OTHERS = {
    "power_plant": ("power_plant", "PE ~ AT + V + AP + RH"),
    "adult hours": ("adult", "hours_per_week ~ age + education_num + sex"),
    "kin8nm": ("kin8nm", "y ~ theta1 + theta2 + theta3"),
    "nmes visits": ("nmes1988_visits", "visits ~ chronic + age + school + income"),
    "naval": ("naval_propulsion", "kmc ~ lever + t48 + fuel_flow"),
    "airfoil": ("airfoil", "sound_pressure ~ frequency + angle + chord_length"),
    "concrete": ("concrete", "strength ~ cement + water + age"),
    "log earnings": ("cps_earnings_sw8", "log(earnings) ~ education + age + gender"),
    "credit bill": ("credit_default", "BILL_AMT1 ~ LIMIT_BAL + AGE"),
    "insurance": ("insurance_simulated", "charges ~ age + bmi + smoker"),
    "wine sugar": ("winequality", "residual_sugar ~ density + alcohol"),
    "adult education": ("adult", "education_num ~ age + hours_per_week + sex"),
    "california rooms": ("california_housing", "MedHouseVal ~ AveRooms + Longitude"),
    "credit age": ("credit_default", "AGE ~ LIMIT_BAL + PAY_0"),
    "nmes chronic": ("nmes1988_visits", "chronic ~ age + school + visits"),
    "skillcraft": ("skillcraft_centred", "y ~ x1 + x2 + x3"),
    "elevators": ("elevators_centred", "y ~ x1 + x2 + x3"),
    "parkinsons": ("parkinsons_telemonitoring_centred", "y ~ x1 + x2 + x3"),
}
#: Chosen after the rules were frozen, before any was run.
FRESH = {
    "energy": (
        "energy_efficiency", "heating_load ~ relative_compactness + glazing_area + overall_height"
    ),
    "wage levels": ("cps1988_wage", "wage ~ education + experience + parttime"),
    "wind": ("bike_sharing_hour", "windspeed ~ temp + hum + hr"),
    "auto": ("auto_mpg", "mpg ~ weight + horsepower + model_year"),
    "adult age": ("adult", "age ~ education_num + hours_per_week + sex"),
    "hospital": ("nmes1988_visits", "hospital ~ chronic + age + school"),
    "pol": ("pol_centred", "y ~ x5 + x6 + x7"),
    "drug expense": ("meps_drugexp", "drugexp ~ totchr + age + female"),
}  # fmt: skip
GROUPS = {"tuned": TUNED, "others": OTHERS, "fresh": FRESH}


def population(file, formula):
    """Return (frame, schema, design matrix, response) of a table."""
    frame = pd.read_csv(data_folder() / f"{file}.csv.gz")
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in formula).split())
    frame = frame[[c for c in frame if c in words]].dropna().reset_index(drop=True)
    schema = schema_of(frame, formula)
    if "log(" in formula:
        schema = schema.update(**{c: dp.Real(*RANGES[c]) for c in frame if c in RANGES})
    return frame, schema, *design_matrix(frame, formula, schema)


def robust(X, y):
    """Return least squares and its HC1 standard errors."""
    scale = np.sqrt((X**2).mean(axis=0))
    U = X / scale
    G = np.linalg.inv(U.T @ U)
    b = G @ (U.T @ y)
    S = U * (y - U @ b)[:, None]
    V = G @ (S.T @ S) @ G * len(y) / (len(y) - X.shape[1])
    return b / scale, np.sqrt(np.diag(V)) / scale


def cell(table, formula, n, eps, reps, bought, **options):
    """Return a dictionary of figures of one design at one n and eps."""
    frame, schema, X, y = table
    truth, _ = robust(X, y)
    n = n or len(frame)
    p = X.shape[1]
    hit, width, error, twin, se, named, open_ = ([] for _ in range(7))
    for r in range(reps):
        rows = np.random.default_rng([17, r]).integers(0, len(frame), n)
        b, hc = robust(X[rows], y[rows])
        call = {"bounds": "private"} if bought else {}
        fit = dp.dp_ols(
            formula,
            frame.iloc[rows],
            eps=eps,
            delta=DELTA,
            schema=schema,
            seed=r,
            **call,
            **options,
        )
        ends = fit.conf_int().to_numpy()
        hit.append((ends[:, 0] <= truth) & (ends[:, 1] >= truth))
        width.append((ends[:, 1] - ends[:, 0]) / 2 / 1.96 / hc)
        error.append(fit.params.to_numpy() - truth)
        twin.append(np.abs(b - truth) <= 1.96 * hc)
        se.append(hc)
        named.append(marked(fit, NAMED))
        open_.append(marked(fit, OPEN))
    hc = np.median(se, axis=0)
    few = np.mean(named, axis=0) >= 0.5
    cover = np.mean(hit, axis=0)
    rmse = np.sqrt(np.nanmean(np.square(error), axis=0)) / hc
    unnamed = cover[~few] if (~few).any() else np.array([np.nan])
    return {
        "p": p, "cover": cover.mean(), "least": cover.min(), "unnamed": unnamed.mean(),
        "least unnamed": unnamed.min(), "named": int(few.sum()),
        "width": float(np.nanmedian(np.nanmedian(width, axis=0))), "rmse": float(rmse.max()),
        "bias": float(np.abs(np.nanmean(error, axis=0) / hc).max()),
        "twin": float(np.mean(twin)), "open": float(np.mean(open_)),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--cells", default=CELLS, help="n:eps, ...; n = 0: the table's size")
    parser.add_argument("--designs", default="")
    parser.add_argument("--groups", default="tuned,others,fresh")
    parser.add_argument("--bought", action="store_true")
    parser.add_argument("--moments", action="store_true", help="the ending by moments alone")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    options = {"scoring": False} if args.moments else {}
    lines = [
        "# 95 % intervals on real tables with real errors",
        "",
        f"`python {' '.join(['benchmarks/real_responses.py', *sys.argv[1:]])}`, seeded. Coverage "
        "of the population's own least-squares coefficient: mean over coefficients / least; over "
        "those not named as having long responses that may be cut (mean / least) and how many are named; width and "
        "root mean squared error of the worst coefficient over HC1's, largest bias over HC1; "
        "coverage of the non-private HC1 twin; share of intervals marked not determined.",
        "",
        "| group | design | n | eps | coverage | not named | named | width | RMSE | bias | HC1 | "
        "open |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    wanted = {w.strip() for w in args.designs.split(",") if w.strip()}
    cells = [tuple(c.split(":")) for c in args.cells.split(",")]
    found = {}
    for group in args.groups.split(","):
        for name, (file, formula) in GROUPS[group].items():
            if wanted and name not in wanted:
                continue
            table = population(file, formula)
            for n, eps in cells:
                try:
                    c = cell(table, formula, int(n), float(eps), args.reps, args.bought, **options)
                except ValueError as problem:
                    print(name, n, eps, type(problem).__name__, str(problem)[:200], flush=True)
                    continue
                found.setdefault((n, eps), []).append((group, name, c))
                size = int(n) or len(table[0])
                lines.append(coverage_line(group, name, size, eps, c))
                print(lines[-1], flush=True)
    lines += coverage_over(found, GROUPS, "HC1")
    lines += one_core(start)
    if args.out:
        write(args.out, lines)


if __name__ == "__main__":
    main()
