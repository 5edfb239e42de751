"""Forecasts of ``dp.plan`` beside fits: expected errors over actual ones, and power.

Thirty designs: samples of real tables, and made tables of people and of survival times. A plan is
told the sds of the columns (what the other columns leave of them), of the residuals, and the mean
of events or counts. Expected: the root of sampling^2 + privacy^2. Actual: the root mean square
error of fits about the truth. Power of an effect of 2.8 expected errors: planned, and the share of
fits whose interval excludes the truth less that effect.

    python benchmarks/forecasts.py [--reps 40] [--designs wine,cox] [--out benchmarks/results/forecasts.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import real_models
from common import one_core, write

import dpmodels as dp

DELTA, EPS, N = 1e-6, 1.0, 10_000
#: Effect in expected errors whose power is compared.
EFFECT = 2.8
LOGIT, POISSON = {"family": "binomial"}, {"family": "poisson"}
#: Table, formula, verb, options of samples of real tables.
REAL = {
    "houses": ("california_housing", "MedHouseVal ~ MedInc + HouseAge + Latitude", "ols", {}),
    "wage": ("cps1988_wage", "log(wage) ~ education + experience + parttime", "ols", {}),
    "wine": ("winequality", "quality ~ alcohol + volatile_acidity + density + pH", "ols", {}),
    "wine of two": ("winequality", "quality ~ alcohol + pH", "ols", {}),
    "hours": ("adult", "hours_per_week ~ age + education_num + sex", "ols", {}),
    "power plant": ("power_plant", "PE ~ AT + V + AP + RH", "ols", {}),
    "earnings": ("cps_earnings_sw8", "log(earnings) ~ education + age + gender", "ols", {}),
    "visits": ("rand_hie", "mdvis ~ lncoins + disea + physlm", "ols", {}),
    "robot": ("kin8nm", "y ~ theta1 + theta2 + theta3 + theta4", "ols", {}),
    "words": ("vocab", "vocabulary ~ education + sex", "ols", {}),
    "income": ("rwm5yr", "hhninc ~ age + educ + female", "ols", {}),
    "computers": ("computers", "price ~ speed + hd + ram + trend", "ols", {}),
    "rich": ("adult", "event ~ age + education_num + sex", "glm", LOGIT),
    "out of work": ("rwm5yr", "outwork ~ age + educ + female", "glm", LOGIT),
    "more children": ("fertility2", "morekids ~ age + afam + hispanic", "glm", LOGIT),
    "poor wine": ("winequality", "poor_wine ~ alcohol + volatile_acidity + color", "glm", LOGIT),
    "few bikes": ("bike_sharing_hour", "few_bikes ~ temp + hum + windspeed", "glm", LOGIT),
    "doctor": ("rand_hie", "mdvis ~ lncoins + disea + physlm", "glm", POISSON),
    "doctor in Germany": ("rwm5yr", "docvis ~ age + female + kids", "glm", POISSON),
    "elderly": ("nmes1988_visits", "visits ~ chronic + age + gender", "glm", POISSON),
}
#: Made tables: model, mean parameter, rows of a person (0: rows are protected), people.
MADE = {
    "made numbers": ("ols", 0.0, 0, N),
    "people of 1 row": ("ols", 0.0, 1, N),
    "people of 3 rows": ("ols", 0.0, 3, N),
    "people of 6 rows": ("ols", 0.0, 6, 3000),
    "events of people": ("logit", -1.0, 1, N),
    "events of 3 rows": ("logit", -1.0, 3, N),
    "counts of people": ("poisson", 0.0, 3, N),
    "survival": ("cox", 4.0, 0, N),
    "survival of 3 000": ("cox", 4.0, 0, 3000),
    "few events": ("cox", 0.4, 0, N),
}
SLOPES = np.array([0.3, -0.2])
SCHEMA = dp.Schema(
    x0=dp.Real(-4, 4), x1=dp.Real(-4, 4), y=dp.Real(-8, 8), e=dp.Binary(), k=dp.Real(0, 20),
    t=dp.Real(0, 10),
)  # fmt: skip


def sds_left(X, names):
    """Return the sd of each column that the others leave."""
    out = {}
    for j, name in enumerate(names):
        others = np.delete(X, j, axis=1)
        left = X[:, j] - others @ np.linalg.lstsq(others, X[:, j], rcond=None)[0]
        out[name] = float(left.std())
    out.pop("Intercept", None)
    return out


def real(name, reps):
    """Return (plan's arguments, known facts, fits, truth) of a real table."""
    file, formula, verb, options = REAL[name]
    frame, schema, X, y = real_models.population(file, formula)
    truth, _ = real_models.twin_of(X, y, verb, options)
    fits = []
    for r in range(reps):
        rows = np.random.default_rng([41, r]).integers(0, len(frame), N)
        sample = frame.iloc[rows]
        fits.append(real_models.private(verb, formula, sample, schema, options, EPS, 1000 + r))
    known = {"sd": sds_left(X, fits[0].params.index)}
    response, family = formula.split("~")[0].strip(), options.get("family")
    if verb == "ols":
        known["sd"][response] = float((y - X @ truth).std())
    else:
        known["events"] = float(y.mean())
    if family == "poisson":
        known["sd"][response] = float((y - np.exp(X @ truth)).std())
    call = {"formula": formula, "schema": schema, "n": N, "verb": f"dp_{verb}", **options}
    return call, known, fits, truth


def sample(kind, level, rows, n, rng):
    """Return (formula, verb, options, table, mean of the response) of a made table."""
    many = n * max(rows, 1)
    x = rng.normal(size=(many, 2)).clip(-4, 4)
    table = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1]})
    if rows:
        table["pid"] = np.repeat(np.arange(n), rows)
    eta = level + x @ SLOPES
    if kind == "ols":
        table["y"] = eta + rng.normal(size=many)
        return "y", "ols", {}, table, None
    if kind == "logit":
        table["e"] = (rng.random(many) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
        return "e", "glm", LOGIT, table, float(table["e"].mean())
    if kind == "poisson":
        table["k"] = rng.poisson(np.exp(eta))
        return "k", "glm", POISSON, table, float(table["k"].mean())
    time_of_event = -np.log(rng.random(many)) / (0.25 * np.exp(x @ SLOPES))
    table["e"] = (time_of_event < level).astype(int)
    table["t"] = np.minimum(time_of_event, level)
    return "Surv(t, e)", "coxph", {}, table, float(table["e"].mean())


def made(name, reps):
    """Return (plan's arguments, known facts, fits, truth) of a made table."""
    kind, level, rows, n = MADE[name]
    fits, unit = [], {"unit": "pid", "rows_per_unit": float(rows)} if rows else {}
    for r in range(reps):
        rng = np.random.default_rng([43, n, r])
        response, verb, options, table, mean = sample(kind, level, rows, n, rng)
        call = getattr(dp, f"dp_{verb}")
        fits.append(call(
            f"{response} ~ x0 + x1", table, eps=EPS, delta=DELTA, schema=SCHEMA, seed=1000 + r,
            **options, **unit,
        ))  # fmt: skip
    known = {"sd": {"x0": 1.0, "x1": 1.0, **({"y": 1.0} if kind == "ols" else {})}}
    if mean is not None:
        known["events"] = mean
    planned = {"formula": f"{response} ~ x0 + x1", "schema": SCHEMA, "n": n, "verb": f"dp_{verb}"}
    truth = SLOPES if kind == "cox" else np.r_[level, SLOPES]
    return {**planned, **options, **unit}, known, fits, truth


def compared(name, reps):
    """Return expected over actual errors, planned and found power of the slopes of a design."""
    call, known, fits, truth = (real if name in REAL else made)(name, reps)
    formula, schema = call.pop("formula"), call.pop("schema")
    call = {**call, "eps": EPS, "delta": DELTA, **known}
    names = [k for k in fits[0].params.index if k != "Intercept"]
    effects = dict.fromkeys(names, 1.0)
    grid = dp.plan(formula, schema, want="power", effect=effects, **call).to_frame(grid=True)
    here = grid[(grid["along"] == "n") & (grid["n"] == call["n"])].set_index("term")
    expected = here["half_width"][names].to_numpy() / 1.96
    effects = dict(zip(names, (EFFECT * expected).tolist(), strict=True))
    grid = dp.plan(formula, schema, want="power", effect=effects, **call).to_frame(grid=True)
    here = grid[(grid["along"] == "n") & (grid["n"] == call["n"])].set_index("term")
    at = [list(fits[0].params.index).index(k) for k in names]
    errors = np.array([f.params.to_numpy()[at] - truth[at] for f in fits])
    actual = np.sqrt(np.mean(np.square(errors), axis=0))
    ends = np.array([f.conf_int().to_numpy()[at] for f in fits])
    wrong = truth[at] - np.array(list(effects.values()))
    found = np.mean((ends[:, :, 0] > wrong) | (ends[:, :, 1] < wrong))
    return float(np.exp(np.mean(np.log(expected / actual)))), float(here["power"].mean()), found


def main():
    """Run the designs and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--designs", default=",".join([*REAL, *MADE]))
    parser.add_argument("--out")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start, lines, ratios, gaps = time.process_time(), [], [], []
    for name in args.designs.split(","):
        ratio, planned, found = compared(name, args.reps)
        ratios.append(ratio)
        gaps.append(abs(planned - found))
        lines.append(f"| {name} | {ratio:.2f} | {planned:.2f} | {found:.2f} |")
        print(lines[-1], flush=True)
    inside = sum(0.8 <= r <= 1.25 for r in ratios)
    near = sum(g <= 0.08 for g in gaps)
    text = (
        f"Expected over actual errors lie in [.8, 1.25] in {inside} of {len(ratios)} designs "
        f"(geometric mean over slopes); power is within .08 in {near}, the median gap is "
        f"{np.median(gaps):.2f}. {args.reps} fits a design, eps = 1, delta = 1e-6, 10 000 rows or "
        "people unless the name says another number. Fits r have seed 1000 + r, samples "
        "`default_rng([41, r])` of real and `default_rng([43, n, r])` of made tables."
    )
    print(text)
    if args.out:
        head = ["| design | expected / actual error | power planned | found |", "|---|---|---|---|"]
        command = f"`python benchmarks/forecasts.py --reps {args.reps}`"
        title = "# Forecasts of plans beside fits"
        write(args.out, [title, "", text, "", command, "", *head, *lines, *one_core(start)])


if __name__ == "__main__":
    main()
