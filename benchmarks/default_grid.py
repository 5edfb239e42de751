"""The default of ``dp_ols`` where only ranges are known, against its rivals, cell by cell.

A cell is a design and an eps. Ranges are rounded outwards as a user would write them, factors are
dummies, delta = 1e-6, replace-one. Figure: in-sample excess, the mean over rows of the squared
difference between private and least-squares fitted values, averaged over seeded replications.

    python benchmarks/default_grid.py [--reps 8] [--quick] [--out benchmarks/results/default_grid.md]

Real data sets are read from the folder in DPMODELS_DATA where there is one.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import data_folder, schema_of

import dpmodels as dp

EPS = (0.4, 1.0, 2.5)
DELTA = 1e-6
METHODS = {
    "default": {"method": "ssp"},
    "prediction": {"method": "ssp", "inference": False},
    "two stages": {"method": "ssp", "stages": 2},
    "one stage": {"method": "ssp", "stages": 1},
    "stein": {"method": "ssp", "ridge": "stein"},
    "tight": {"method": "ssp", "stages": 1, "query": "bounded"},
    "adassp": {"method": "adassp"},
    "eptr": {"method": "eptr", "inference": False},
}
REAL = {
    "wine4": ("winequality.csv.gz", "quality ~ alcohol + volatile_acidity + density + pH"),
    "wine12": (
        "winequality.csv.gz",
        "quality ~ fixed_acidity + volatile_acidity + citric_acid + residual_sugar + chlorides"
        " + free_sulfur_dioxide + total_sulfur_dioxide + density + pH + sulphates + alcohol"
        " + color",
    ),
    "california4": (
        "california_housing.csv.gz",
        "MedHouseVal ~ MedInc + HouseAge + Latitude + Longitude",
    ),
    "california8": (
        "california_housing.csv.gz",
        "MedHouseVal ~ MedInc + HouseAge + AveRooms + AveBedrms + Population + AveOccup"
        " + Latitude + Longitude",
    ),
    "cps8": ("cps_earnings_sw8.csv.gz", "earnings ~ age + education + gender + region"),
    "cps88": (
        "cps1988_wage.csv.gz",
        "wage ~ education + experience + ethnicity + smsa + region + parttime",
    ),
    "adult": (
        "adult.csv.gz",
        "hours_per_week ~ age + education_num + capital_gain + workclass + marital_status + race"
        " + sex",
    ),
    "credit": (
        "credit_default.csv.gz",
        "LIMIT_BAL ~ AGE + BILL_AMT1 + PAY_AMT1 + PAY_0 + C(SEX) + C(EDUCATION) + C(MARRIAGE)",
    ),
    "bike": (
        "bike_sharing_hour.csv.gz",
        "cnt ~ temp + hum + windspeed + C(season) + yr + workingday + C(weathersit)",
    ),
    "nmes": (
        "nmes1988_visits.csv.gz",
        "visits ~ chronic + age + school + income + health + gender + insurance",
    ),
    "power": ("power_plant.csv.gz", "PE ~ AT + V + AP + RH"),
    "protein": ("protein.csv.gz", "RMSD ~ F1 + F2 + F3 + F4 + F5 + F6 + F7 + F8 + F9"),
    "airfoil": (
        "airfoil.csv.gz",
        "sound_pressure ~ frequency + angle + chord_length + velocity + displacement_thickness",
    ),
    "concrete": (
        "concrete.csv.gz",
        "strength ~ cement + slag + fly_ash + water + superplasticizer + coarse_aggregate"
        " + fine_aggregate + age",
    ),
    "kin8nm": (
        "kin8nm.csv.gz",
        "y ~ theta1 + theta2 + theta3 + theta4 + theta5 + theta6 + theta7 + theta8",
    ),
    "meps": ("meps_drugexp.csv.gz", "ldrugexp ~ totchr + age + female + blhisp + linc"),
    "rand": (
        "rand_hie.csv.gz",
        "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
    ),
}
#: Data sets on which the constants of the rule were looked at; the others were not.
TUNED = {
    "wine4", "wine12", "california4", "california8", "cps8", "cps88", "adult", "credit", "bike",
    "nmes", "power", "protein", "kin8nm",
}  # fmt: skip


def real_designs():
    folder = data_folder()
    for name, (file, formula) in REAL.items():
        if not (folder / file).exists():
            continue
        frame = pd.read_csv(folder / file)
        words = formula.replace("~", " ").replace("+", " ").replace("C(", " ").replace(")", " ")
        frame = frame[[c for c in dict.fromkeys(words.split())]].dropna().reset_index(drop=True)
        yield name, frame, formula


def simulated(seed=2026):
    """n x p x (normal, correlated, heavy tails, rare level, wide range), a seed of its own."""
    rng = np.random.default_rng(seed)
    for n in (1000, 10_000, 40_000):
        for p in (2, 6, 15):
            for kind in ("normal", "correlated", "t3", "rare", "wide"):
                x = rng.normal(size=(n, p))
                if kind == "correlated":
                    x = 0.3 * x + 0.95 * rng.normal(size=(n, 1))
                if kind == "t3":
                    x = rng.standard_t(3, size=(n, p))
                beta = rng.normal(size=p) / math.sqrt(p)
                frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(p)])
                y = x @ beta + rng.normal(size=n)
                names = list(frame.columns)
                if kind == "rare":
                    g = rng.choice(4, size=n, p=[0.7, 0.25, 0.045, 0.005])
                    g[:4] = range(4)
                    frame["g"] = np.array(list("abcd"), dtype=object)[g]
                    y += np.array([0.0, 0.5, -1.0, 2.0])[g]
                    names.append("g")
                frame["y"] = y
                yield f"{kind} n={n} p={p}", frame, "y ~ " + " + ".join(names)


def widened(name, schema):
    """Design "wide": the first column's range is 30 times too wide."""
    if not name.startswith("wide"):
        return schema
    return schema.update(x0=dp.Real(-100.0, 100.0))


def excess(frame, formula, schema, eps, reps):
    """Return {method: mean excess} of one cell; a no-reply counts as fitted values of 0 range."""
    out = {}
    X = H = b = None
    for label, options in METHODS.items():
        values, silent = [], 0
        for r in range(reps):
            try:
                fit = dp.dp_ols(
                    formula,
                    frame,
                    eps=eps,
                    delta=DELTA,
                    schema=schema,
                    seed=1000 * r + 7,
                    **options,
                )
            except np.linalg.LinAlgError:
                values.append(1e6)
                continue
            if X is None:
                X = np.asarray(fit.design.matrix(frame))
                response = frame[formula.split("~")[0].strip()].to_numpy(dtype=float)
                H = X.T @ X / len(X)
                b = np.linalg.lstsq(X, response, rcond=None)[0]
            if not fit.released:
                silent += 1
                continue
            d = fit.params.to_numpy() - b
            values.append(float(d @ H @ d))
        out[label] = float(np.mean(values)) if values else math.nan
        out[label + " silent"] = silent / reps
    return out


def table(results, reps, seconds):
    """Return the report as markdown."""
    names = [m for m in METHODS if m != "adassp"]
    lines = [
        "# Default of dp_ols where only ranges are known",
        "",
        f"`python benchmarks/default_grid.py`; {len(results)} cells, {reps} seeded replications "
        f"each (`seed=`, float noise), delta = 1e-6, replace-one, {seconds:.0f} s on one core.",
        "Excess = mean squared difference of fitted values from least squares on all rows, "
        "averaged over replications, divided by that of AdaSSP (exact Gaussian accounting, same "
        "relation). `tight` = one release with separate bounds (known intercept). eptr: over the "
        "replications with a reply.",
        "The ball of the first release (at least a quarter of the slopes' norm, noise .02), the "
        "eigenvalue floor (half the noise) and the threshold .06 of the stage rule were chosen on simulated designs of another seed and on "
        f"{', '.join(sorted(TUNED))} (marked *); the other data sets and these simulated designs "
        "were not used.",
        "",
    ]
    held = {k: v for k, v in results.items() if k[0].split("*")[0] not in TUNED}
    for title, cells in (("All cells", results), ("Cells that were not used for tuning", held)):
        lines += [f"## {title}", "", "| eps | cells | " + " | ".join(names) + " | worst default |"]
        lines.append("|" + "---|" * (len(names) + 3))
        for eps in (*EPS, None):
            chosen = [v for (_, e), v in cells.items() if eps in (None, e)]
            means = [
                math.exp(
                    np.mean(
                        [math.log(v[m] / v["adassp"]) for v in chosen if v[m] == v[m]] or [math.nan]
                    )
                )
                for m in names
            ]
            worst = max(v["default"] / min(v["tight"], v["adassp"]) for v in chosen)
            lines.append(
                f"| {'all' if eps is None else eps} | {len(chosen)} | "
                + " | ".join(f"{m:.3f}" for m in means)
                + f" | {worst:.2f} |"
            )
        lines.append("")
    lines.append(
        "Worst default = largest ratio of the default to the better of `tight` and AdaSSP."
    )
    lines += ["", "## Cells", "", "| design | eps | ratio x | stages | " + " | ".join(names) + " |"]
    lines.append("|" + "---|" * (len(names) + 4))
    for (name, eps), v in results.items():
        mark = "*" if name in TUNED else ""
        cells = " | ".join("-" if v[m] != v[m] else f"{v[m] / v['adassp']:.3f}" for m in names)
        lines.append(f"| {name}{mark} | {eps} | {v['x']:.4f} | {v['stages']} | {cells} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two designs of each kind")
    parser.add_argument("--out", default="benchmarks/results/default_grid.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    designs = [*real_designs(), *simulated()]
    if args.quick:
        designs = [*designs[:2], *designs[-2:]]
    results = {}
    for name, frame, formula in designs:
        schema = widened(name, schema_of(frame, formula))
        for eps in EPS:
            cell = excess(frame, formula, schema, eps, args.reps)
            plan = dp.plan(formula, schema, n=len(frame), eps=eps, delta=DELTA, method="ssp")
            cell["x"], cell["stages"] = plan.scales["public noise ratio"], "s"
            results[name, eps] = cell
            ratio = cell["default"] / min(cell["tight"], cell["adassp"])
            print(
                f"{name:24s} {eps:4} {cell['default'] / cell['adassp']:.3f} {ratio:.2f}", flush=True
            )
    text = table(results, args.reps, time.process_time() - start)
    Path(args.out).write_text(text, encoding="utf-8")
    print(text[: text.index("## Cells")])


if __name__ == "__main__":
    main()
