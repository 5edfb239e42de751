"""Simulations in the settings of the efficient Propose-Test-Release paper, our defaults beside it.

Least squares (its simulation 4.3): p = 5, n = 8000, theta ~ 1/j normalised, delta = .01; rows bounded
by 4 (the paper states neither bound nor c0 for its figure). Bayes classifier: three classes with
shares .75, .15, .10 and means 3 e_k in ten dimensions. Kernel regression: .7 sin 3x, 41 points, where
the paper states the guarantee of one query: for 41 the budget is divided.

    python benchmarks/eptr_simulations.py [--reps 40]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from common import RESULTS, one_core, write

import dpmodels as dp

COLUMNS = list("abcde")


def least_squares(eps, reps, n=8000, radius=4.0):
    """Mean squared error of theta, method -> mean over replications."""
    rng = np.random.default_rng(0)
    theta = 1 / np.arange(1, 6)
    theta /= np.linalg.norm(theta)
    formula = "y ~ " + " + ".join(COLUMNS) + " - 1"
    out = {}
    for rep in range(reps):
        x = rng.normal(size=(n, 5))
        frame = pd.DataFrame(x, columns=COLUMNS).assign(y=x @ theta + rng.normal(size=n))
        call = {"eps": eps, "delta": 0.01, "seed": rep}
        test = {**call, "method": "eptr", "Rx": radius, "Rtheta": 1.0}
        bounds = {**dict.fromkeys(COLUMNS, (-4, 4)), "y": (-6, 6)}
        found = {
            "as printed, c0 = .5": dp.dp_ols(formula, frame, variant="paper", c0=0.5, **test),
            "eptr": dp.dp_ols(formula, frame, Ry=radius, **test),
            "default (ssp)": dp.dp_ols(formula, frame, bounds=bounds, **call),
        }
        values = {k: f.params.fillna(0.0).to_numpy() for k, f in found.items()}
        values["least squares"] = np.linalg.lstsq(x, frame["y"].to_numpy(), rcond=None)[0]
        for k, v in values.items():
            out.setdefault(k, []).append(float(np.sum((v - theta) ** 2)))
    return {k: float(np.mean(v)) for k, v in out.items()}


def bayes(eps, reps, n=2000):
    """Balanced test error of the classifier; a no reply counts 2/3."""
    shares, names = np.array([0.75, 0.15, 0.10]), [f"x{j}" for j in range(10)]
    out = {}

    def draw(rng, m, p):
        k = rng.choice(3, size=m, p=p)
        x = rng.normal(size=(m, 10)) + 3 * np.eye(3, 10)[k]
        return pd.DataFrame(x, columns=names).assign(k=np.array(list("uvw"))[k])

    schema = dp.Schema(k=dp.Levels(list("uvw")), **{c: dp.Real(-8, 8) for c in names})
    for rep in range(reps):
        rng = np.random.default_rng([1, rep])
        train, test = draw(rng, n, shares), draw(rng, 3000, np.full(3, 1 / 3))
        call = {"eps": eps, "delta": 0.01, "schema": schema, "seed": rep, "variance": "identity"}
        formula = "k ~ " + " + ".join(names)
        fits = {
            "as printed, c0 = .05": dp.dp_bayes(
                formula, train, method="eptr", variant="paper", R=8.0, c0=0.05, **call
            ),
            "eptr": dp.dp_bayes(formula, train, method="eptr", R=8.0, **call),
            "default (sums)": dp.dp_bayes(formula, train, R=8.0, **call),
        }
        for k, fit in fits.items():
            error = 2 / 3
            if fit.released:
                guess = np.asarray(fit.predict(test))
                hit = guess == test["k"].to_numpy()
                error = 1 - np.mean([hit[(test["k"] == c).to_numpy()].mean() for c in "uvw"])
            out.setdefault(k, []).append(float(error))
    return {k: float(np.mean(v)) for k, v in out.items()}


def kernel(eps, reps, n=2000):
    """Mean squared error over 41 points; a point without a reply counts as 0."""
    at = pd.DataFrame({"x": np.linspace(-1, 1, 41)})
    truth = 0.7 * np.sin(3 * at["x"].to_numpy())
    out = {}
    for rep in range(reps):
        rng = np.random.default_rng([2, rep])
        x = rng.uniform(-1, 1, n)
        frame = pd.DataFrame({"x": x, "y": 0.7 * np.sin(3 * x) + 0.3 * rng.normal(size=n)})
        call = {
            "eps": eps, "delta": 1e-6, "at": at, "bounds": {"x": (-1, 1), "y": (-1, 1)}, "seed": rep,
        }  # fmt: skip
        fits = {
            "as printed, eps/41 each": dp.dp_npreg(
                "y ~ x", frame, method="eptr", variant="paper", c0=0.1, **call
            ),
            "eptr": dp.dp_npreg("y ~ x", frame, method="eptr", **call),
            "default (functional)": dp.dp_npreg("y ~ x", frame, **call),
        }
        for k, fit in fits.items():
            value = np.nan_to_num(np.asarray(fit.predict(at), dtype=float)) if fit.released else 0.0
            out.setdefault(k, []).append(float(np.mean((value - truth) ** 2)))
    return {k: float(np.mean(v)) for k, v in out.items()}


SIMULATIONS = {
    "Least squares: mean squared error of the coefficients": (least_squares, (1, 2, 4, 8)),
    "Bayes classifier, n = 2000: balanced test error": (bayes, (0.5, 1, 2, 4)),
    "Kernel regression, n = 2000: mean squared error over 41 points": (kernel, (0.5, 1, 4, 16)),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--out", default=RESULTS / "eptr_simulations.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    lines = [
        "# Efficient Propose-Test-Release: its simulations",
        "",
        f"`python benchmarks/eptr_simulations.py --reps {args.reps}`, seeded; means over replications. "
        '"As printed": the paper\'s algorithm with its constants.',
    ]
    for title, (simulate, grid) in SIMULATIONS.items():
        cells = {eps: simulate(eps, args.reps) for eps in grid}
        lines += [
            "",
            f"## {title}",
            "",
            "| estimator | " + " | ".join(f"eps {e:g}" for e in grid) + " |",
        ]
        lines.append("|---" * (len(grid) + 1) + "|")
        for k in next(iter(cells.values())):
            lines.append(f"| {k} | " + " | ".join(f"{cells[e][k]:.3g}" for e in grid) + " |")
            print(lines[-1], flush=True)
    lines += one_core(start)
    write(args.out, lines)


if __name__ == "__main__":
    main()
