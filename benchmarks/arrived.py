"""Measure how often quantile and Huber regressions are tested and wrong, on random tables.

``python benchmarks/arrived.py 160 12``: configurations and seeds. Predictors have many zeros and long
tails, the response fills a small part of its declared range, eps is 1 or 20. A configuration is
wrong if a coefficient is tested and not covered in 5 or more of 12 seeds.
"""

import sys

import numpy as np
import pandas as pd
from scipy import stats

import dpmodels as dp

LONGEST = {"lognormal": 30.0, "exponential": 20.0, "pareto": 50.0, "normal": 30.0, "binary": 1.0}
ERRORS = {"normal": stats.norm, "t": stats.t(3), "laplace": stats.laplace}


def configuration(i):
    """Return a random design."""
    r = np.random.default_rng([7, i])
    p = int(r.integers(1, 5))
    return {
        "zeros": r.choice([0, 0.3, 0.5, 0.75, 0.9], p),
        "kinds": list(r.choice(list(LONGEST), p, p=[0.4, 0.2, 0.2, 0.1, 0.1])),
        "slopes": r.choice([0.0, 0.2, 0.5, 1.0, -0.5], p),
        "errors": str(r.choice(list(ERRORS))),
        "wide": 10 ** r.uniform(0.3, 2),
        "unequal": float(r.choice([0, 0, 0.3])),
        "tau": float(r.choice([0.5, 0.5, 0.25, 0.75, 0.9])) if i % 2 == 0 else None,
        "eps": (1, 20)[(i // 2) % 2],
        "n": int(r.choice([5_000, 20_000])),
    }


def table(c, seed):
    """Return (rows, schema, true coefficients) of a configuration; ``tau`` None: Huber."""
    r, n, columns = np.random.default_rng([11, seed]), c["n"], {}
    for j, (zeros, kind) in enumerate(zip(c["zeros"], c["kinds"], strict=True)):
        values = {
            "lognormal": lambda: np.exp(r.normal(size=n)),
            "exponential": lambda: r.exponential(size=n),
            "pareto": lambda: r.pareto(2.0, n),
            "normal": lambda: r.normal(5.0, 1.0, n).clip(0.0),
            "binary": lambda: np.ones(n),
        }[kind]()
        zero = r.random(n) < (max(zeros, 0.5) if kind == "binary" else zeros)
        columns[f"x{j}"] = np.where(zero, 0.0, np.minimum(values, LONGEST[kind]))
    ends = np.array([LONGEST[kind] for kind in c["kinds"]])
    slope, first = c["unequal"] / ends[0], columns["x0"]
    e = ERRORS[c["errors"]].rvs(size=n, random_state=r)
    half = (np.abs(c["slopes"]) @ ends * 0.3 + 4.0) * c["wide"]
    y = c["slopes"] @ np.array(list(columns.values())) + (1.0 + slope * first) * e
    quantile = 0.0 if c["tau"] is None else float(ERRORS[c["errors"]].ppf(c["tau"]))
    truth = np.append(quantile, c["slopes"])
    truth[1] += quantile * slope
    ranges = {name: dp.Real(0, end) for name, end in zip(columns, ends, strict=True)}
    frame = pd.DataFrame({**columns, "y": y.clip(-half, half)})
    return frame, dp.Schema(y=dp.Real(-half, half), **ranges), truth


def main(many, seeds):
    """Print how many configurations are wrong, and how many coefficients are tested and covered."""
    wrong = tested = missed = total = 0
    for i in range(many):
        c, misses = configuration(i), 0
        for seed in range(seeds):
            frame, schema, truth = table(c, 100 * i + seed)
            formula = "y ~ " + " + ".join(frame.columns[:-1])
            call = {"schema": schema, "eps": c["eps"], "delta": 1e-6, "seed": seed}
            if c["tau"] is None:
                fit = dp.dp_mest("huber", formula, frame, **call)
            else:
                fit = dp.dp_quantreg(formula, frame, tau=c["tau"], **call)
            ends, p = fit.conf_int().to_numpy(), fit.pvalues.to_numpy()
            shown = np.isfinite(p)
            miss = shown & ((truth < ends[:, 0]) | (truth > ends[:, 1]))
            misses = misses + miss
            tested, missed, total = tested + shown.sum(), missed + miss.sum(), total + len(p)
        if np.any(misses >= max(round(5 * seeds / 12), 1)):
            wrong += 1
            print(i, c, misses)
    print(
        f"{wrong} of {many} wrong; {tested / total:.1%} tested, {missed / tested:.1%} not covered"
    )


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
