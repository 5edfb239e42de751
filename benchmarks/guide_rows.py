"""What reading part of the rows in the first of two stages costs in accuracy.

``ssp`` at eps = 1, delta = 1e-9, n = 1e6, on tables in random order and on sorted ones: root mean
squared error of the slopes in standard errors of least squares, and coverage of their 95 %
intervals, with a first stage that reads every row, the rows of the rule, and one run of windows
in 16 (eight places, the fewest the rule allows). The same tables and noise seeds for each.

    python benchmarks/guide_rows.py [repetitions]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp
from dpmodels.models.linear import moments as ssp
from dpmodels.places import ALL_ROWS, Windows
from dpmodels.scoring.pass_plan import pilot_windows

N = 1_000_000
TRUTH = np.array([0.5, -0.3, 0.2])


def table(kind, rng):
    x = rng.normal(size=(3, N))
    wide = (-4.0, 4.0)
    if kind.startswith("heavy"):
        x[0] = np.minimum(np.exp(x[0]), 50.0)
        wide = (0.0, 50.0)
    if "trend" in kind:
        x[1] = 0.8 * x[0] / x[0].std() + 0.6 * x[1]
    if "block" in kind:  # between two places that are read
        x[1] = 0.0
        x[1, 500_000:520_000] = rng.normal(size=20_000)
    y = TRUTH @ x + rng.normal(size=N)
    frame = pd.DataFrame({"x0": x[0], "x1": x[1], "x2": x[2], "y": y})
    if "levels" in kind:
        frame["g"] = rng.integers(0, 30, N)
        frame["y"] += 0.1 * (frame["g"] % 3)
    for column in ("x0", "y", "g"):
        if f"sorted by {column}" in kind:
            ascending = "down" not in kind
            frame = frame.sort_values(column, kind="stable", ascending=ascending)
    bounds = {"x0": wide, "x1": (-4.0, 4.0), "x2": (-4.0, 4.0), "y": (-12.0, 40.0)}
    return frame.reset_index(drop=True), bounds


KINDS = (
    "random order",
    "sorted by x0",
    "sorted by y",
    "heavy tail, sorted by x0",
    "heavy tail, sorted by x0 down",
    "trend, sorted by x0",
    "one block",
    "levels, random order",
    "levels, sorted by g",
)


def least_squares(X, y):
    G = X.T @ X
    beta = np.linalg.solve(G, X.T @ y)
    s2 = float(np.mean((y - X @ beta) ** 2))
    return np.sqrt(s2 * np.diag(np.linalg.inv(G)))


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    guides = {
        "every row": lambda design, n, x: ALL_ROWS,
        "the rule": pilot_windows,
        "1 in 16": lambda design, n, x: Windows(16, 1),
    }
    print(f"{'table':32s}" + "".join(f"{k:>22s}" for k in guides))
    for kind in KINDS:
        errors = {k: [] for k in guides}
        covered = {k: [] for k in guides}
        for r in range(repetitions):
            frame, bounds = table(kind, np.random.default_rng(r))
            formula, truth, schema = "y ~ x0 + x1 + x2", TRUTH, None
            columns = [frame["x0"], frame["x1"], frame["x2"]]
            if "levels" in kind:
                formula += " + g"
                schema = dp.Schema(g=dp.Levels(list(range(30))))
                columns += [frame["g"] == k for k in range(1, 30)]
                truth = np.concatenate([TRUTH, 0.1 * (np.arange(1, 30) % 3)])
            X = np.column_stack([np.ones(N), *columns]).astype(float)
            unit = least_squares(X, frame["y"].to_numpy())[1:]
            for name, rule in guides.items():
                ssp.pilot_windows = rule
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit = dp.dp_ols(
                        formula, frame, eps=1, delta=1e-9, method="ssp", bounds=bounds,
                        schema=schema, seed=r, public_order=True,
                    )  # fmt: skip
                beta = fit.params.to_numpy()[1:]
                low, high = fit.conf_int().to_numpy()[1:].T
                errors[name].append((beta - truth) / unit)
                covered[name].append((low <= truth) & (truth <= high))
        cells = [
            f"{np.sqrt(np.mean(np.square(errors[k]))):.2f}  max {np.sqrt(np.mean(np.square(errors[k]), 0).max()):5.2f} {np.mean(covered[k]):.3f}"
            for k in guides
        ]
        print(f"{kind:32s}" + "".join(f"{c:>22s}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
