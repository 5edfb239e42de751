"""What public rows of 250 units bring to a private fit, and what rows of another population cost.

A real table is the population, samples of n rows are drawn with replacement, the target is the
non-private fit of the whole table. Next to each private fit stand two with the same rows and noise
seed: one with 250 public rows of the same table, one with 250 rows of another population. These
have slopes of half the size, predictors 1.5 times as far from their means, and residuals twice as
large.

    python benchmarks/public_rows.py [--group tuned] [--reps 60] [--n 3000] [--eps 1]
        [--out benchmarks/results/public_rows.md]

The folder of data sets is named by DPMODELS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import real_families
from common import one_core, write
from real_models import population

import dpmodels as dp

DELTA, PUBLIC, SLOPES = 1e-6, 250, 0.5
#: Formulas of calls whose public rows were refused; the fit without them counts.
REFUSED: list[str] = []
LOGIT, POISSON = ("glm", {}), ("glm", {"family": "poisson"})
MEDIAN, HUBER = ("quantreg", {"tau": 0.5}), ("mest", {"loss": "huber"})
_WAGE = "log(wage) ~ education + experience"
_NMES = "visits ~ chronic + age + school"
_RWM = "docvis ~ age + educ + hhninc + female + married + kids + self"
#: Name -> table, formula, model; by whether anything was chosen by them.
GROUPS = {
    "tuned": {
        "adult logit": ("adult", "event ~ age + education_num + hours_per_week", *LOGIT),
        "adult logit, wide": (
            "adult", "event ~ age + education_num + hours_per_week + sex + relationship", *LOGIT
        ),
        "nmes Poisson": ("nmes1988_visits", _NMES, *POISSON),
        "wage median": ("cps1988_wage", _WAGE, *MEDIAN),
        "wage median, wide": (
            "cps1988_wage", f"{_WAGE} + ethnicity + smsa + region", *MEDIAN
        ),
        "wage Huber": ("cps1988_wage", _WAGE, *HUBER),
    },
    "others": {
        "credit logit": ("credit_default", "default ~ PAY_0 + PAY_2 + BILL_AMT1 + PAY_AMT1", *LOGIT),
        "doctor logit": ("rwm5yr", "outwork ~ age + educ + hhninc + female + married + kids", *LOGIT),
        "rand Poisson": ("rand_hie", "mdvis ~ lncoins + disea + physlm", *POISSON),
        "rwm Poisson": ("rwm5yr", _RWM, *POISSON),
        "earnings median": (
            "cps_earnings_sw8", "log(earnings) ~ education + age + gender", *MEDIAN
        ),
        "california median": (
            "california_housing", "MedHouseVal ~ MedInc + HouseAge + Latitude + Longitude", *MEDIAN
        ),
        "earnings Huber": (
            "cps_earnings_sw8", "log(earnings) ~ education + age + gender", *HUBER
        ),
    },
}  # fmt: skip


def other_population(frame, schema, formula, verb, options, truth, rng):
    """Return rows with other slopes, predictors further out, and larger residuals."""
    from common import design_matrix

    y = formula.split("~")[0].strip()
    name = y[4:-1] if y.startswith("log(") else y
    out = frame.copy()
    for column in out.select_dtypes("number"):
        variable = schema[column]
        if column == name or variable.kind == "binary":
            continue
        low, high = variable.interval
        middle = out[column].mean()
        out[column] = np.clip(middle + 1.5 * (out[column] - middle), low, high)
    X = design_matrix(out, formula, schema)[0]
    before, old = design_matrix(frame, formula, schema)
    other = SLOPES * truth
    other[0] += float(np.mean(before @ truth - X @ other))
    eta, low_high = X @ other, schema[name].interval
    if verb == "glm" and options.get("family") == "poisson":
        out[name] = np.minimum(rng.poisson(np.exp(eta)), low_high[1]).astype(float)
    elif verb == "glm":
        out[name] = (rng.uniform(size=len(out)) < 1 / (1 + np.exp(-eta))).astype(int)
    else:
        made = eta + 2.0 * (old - before @ truth)
        out[name] = np.clip(np.exp(made) if y != name else made, *low_high)
    return out


def private(verb, formula, rows, schema, options, eps, seed, public):
    """Return the private fit of a sample."""
    call = getattr(dp, f"dp_{verb}")
    given = dict(eps=eps, delta=DELTA, schema=schema, seed=seed, **options)
    if public is not None:
        try:
            return call(formula, rows, public=public, **given)
        except dp.errors.RequestError:  # a level without events: as it says, without public=
            REFUSED.append(formula)
    return call(formula, rows, **given)


def design(file, formula, verb, options, n, eps, reps):
    """Return figures of the three fits of one design."""
    frame, schema, X, y = population(file, formula)
    given = dict(options)
    if options.get("loss") == "huber":
        spread = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        given["scale"] = round(float(np.median(np.abs(spread)) * 1.48), 2)
    truth, _ = real_families.fit(X, y, verb, given)
    found = {k: ([], [], [], []) for k in ("none", "same", "other")}
    errors, passes = [], {k: [] for k in found}
    for r in range(reps):
        rng = np.random.default_rng([29, r])
        rows = rng.integers(0, len(frame), n)
        own, hc = real_families.fit(X[rows], y[rows], verb, given, start=truth)
        errors.append(hc)
        same = frame.iloc[rng.integers(0, len(frame), PUBLIC)]
        publics = {
            "none": None, "same": same,
            "other": other_population(same, schema, formula, verb, given, truth, rng),
        }  # fmt: skip
        for k, public in publics.items():
            fit = private(verb, formula, frame.iloc[rows], schema, options, eps, r, public)
            ends, b = fit.conf_int().to_numpy(), fit.params.to_numpy()
            inside = (ends[:, 0] <= truth) & (ends[:, 1] >= truth)
            parts = (b - truth, b - own, inside, ends[:, 1] - ends[:, 0])
            for into, part in zip(found[k], parts, strict=True):
                into.append(part)
            untested = fit._record.estimate.untested
            passes[k].append(0.0 if untested is None else np.mean(untested))
    hc = np.median(errors, axis=0)
    out = {"p": X.shape[1]}
    for k, (error, noise, inside, width) in found.items():
        by = [float(np.sqrt(np.mean(np.square(e) / hc**2))) for e in (error, noise)]
        out[k] = (*by, float(np.mean(inside)), float(np.median(np.asarray(width) / hc / 3.92)),
                  float(np.mean(passes[k])))  # fmt: skip
    return out


HEAD = (
    "| design | p | error without | same | other | noise same | noise other | coverage without, "
    "same, other | width without, same, other | untested |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def line(name, f):
    """Return the row of the table of one design."""
    none, same, other = (f[k] for k in ("none", "same", "other"))
    three = lambda i, d=3: " / ".join(f"{x[i]:.{d}f}" for x in (none, same, other))  # noqa: E731
    return (
        f"| {name} | {f['p']} | {none[0]:.2f} | {same[0] / none[0]:.2f} | "
        f"{other[0] / none[0]:.2f} | {same[1] / none[1]:.2f} | {other[1] / none[1]:.2f} | "
        f"{three(2)} | {three(3, 2)} | {three(4, 2)} |"
    )


def main():
    """Run the designs of a group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", default="tuned", choices=GROUPS)
    parser.add_argument("--designs", default="")
    parser.add_argument("--reps", type=int, default=60)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    lines, start = list(HEAD), time.process_time()
    print("\n".join(HEAD), flush=True)
    for name, one in GROUPS[args.group].items():
        if args.designs and name not in args.designs.split(";"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lines.append(line(name, design(*one, args.n, args.eps, args.reps)))
        print(lines[-1], flush=True)
    lines += ["", f"{len(REFUSED)} samples of public rows were refused (a level without events)."]
    print(lines[-1])
    if args.out:
        write(args.out, [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
