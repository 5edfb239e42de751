"""Coverage of nominal 95 % intervals of private logistic regression (seeds 0..reps-1).

python benchmarks/glm_coverage.py [reps]
"""

import sys
import warnings

import numpy as np
import pandas as pd
from common import RESULTS, write

import dpmodels as dp

OUT = RESULTS / "glm_coverage.md"
REPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SCHEMA = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(0, 10), y=dp.Binary())
TRUTH = np.array([1.7, 1.0, -0.4])


def main():
    warnings.simplefilter("ignore")
    lines = [
        "# Coverage of nominal 95 % intervals, logistic regression, p = 3",
        "",
        f"{REPS} simulated tables each (standard error of an entry about .015 at .95).",
        "",
        "| n | eps | intercept | a | b | mean se (a) / sd (a) |",
        "|---|---|---|---|---|---|",
    ]
    for n, eps in ((5000, 1.0), (20000, 1.0), (20000, 4.0)):
        hits, est, ses = [], [], []
        for seed in range(REPS):
            rng = np.random.default_rng(seed)
            a, b = rng.uniform(-1, 1, n), rng.uniform(0, 10, n)
            p = 1 / (1 + np.exp(-(TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b)))
            data = pd.DataFrame({"a": a, "b": b, "y": (rng.random(n) < p).astype(int)})
            fit = dp.dp_glm("y ~ a + b", data, eps=eps, delta=1e-6, schema=SCHEMA, seed=seed)
            ci = fit.conf_int().to_numpy()
            hits.append((ci[:, 0] <= TRUTH) & (ci[:, 1] >= TRUTH))
            est.append(fit.params["a"])
            ses.append(fit.bse["a"])
        c = np.mean(hits, 0)
        ratio = np.mean(ses) / np.std(est)
        lines.append(f"| {n} | {eps:g} | {c[0]:.3f} | {c[1]:.3f} | {c[2]:.3f} | {ratio:.2f} |")
        print(lines[-1], flush=True)
    write(OUT, lines)


if __name__ == "__main__":
    main()
