"""Second moments of (1, x): ranges, public whitening and the published Algorithm 2.

The covariates of the PMT paper's section 4.1 design (d = 10, m = 20 public rows; eigenvalues from
.17 to 1.83, a mean of length 4), the same with 200 public rows, and the same moved away from zero.
Error: Frobenius norm of the difference to the moments of the private rows over that of the moments
("relative"), and the same for the covariance matrices that follow ("covariance").

    python benchmarks/second_moments.py [--reps 30] [--out benchmarks/results/second_moments.md]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from common import one_core, write

import dpmodels as dp

DELTA = 1e-6
NAMES = [f"x{j}" for j in range(10)]
#: Public ranges: the length of the mean and four of the largest sds, on both sides of the shift.
WIDTH = 4.0 + 4.0 * np.sqrt(1.83)
CELLS = [
    (eps, n, m, shift)
    for eps in (1.0, 8.0)
    for n in (3000, 10_000)
    for m, shift in ((20, 0.0), (200, 0.0), (200, 50.0))
]


def covariance(C):
    mean = C[:-1, -1] / C[-1, -1]
    return C[:-1, :-1] / C[-1, -1] - np.outer(mean, mean)


def per_weight(C):
    return C / max(C[-1, -1], 0.1)


def cell(eps, n, m, shift, reps, seed=1):
    found = {}
    for r in range(reps):
        rng = np.random.default_rng([seed, r])
        Q, _ = np.linalg.qr(rng.normal(size=(10, 10)))
        root = (Q * np.sqrt(np.linspace(0.17, 1.83, 10))) @ Q.T
        mean = rng.normal(size=10)
        mean *= 4.0 / np.linalg.norm(mean)

        def draw(rows, rng=rng, mean=mean, root=root):
            return pd.DataFrame(shift + mean + rng.normal(size=(rows, 10)) @ root, columns=NAMES)

        public, private = draw(m), draw(n)
        Z = np.column_stack([private, np.ones(n)])
        exact = Z.T @ Z / n
        U = np.column_stack([public, np.ones(m)])

        def fit(private=private, r=r, **options):
            return dp.dp_moments(NAMES, private, eps=eps, delta=DELTA, seed=r, **options).arrays

        bounds = {name: (shift - WIDTH, shift + WIDTH) for name in NAMES}
        default = fit(public=public)
        published = fit(public=public, method="pmt_paper")["moments"]
        for name, C in (
            ("ranges", fit(bounds=bounds)["moments"]),
            ("published", published),
            ("published / weight", per_weight(published)),
            ("default per row", default["moments_per_row"]),
            ("one stage", fit(public=public, stages=1)["moments"]),
            ("default", default["moments"]),
            ("public only", U.T @ U / m),
        ):
            S = covariance(exact)
            errors = (
                np.linalg.norm(C - exact) / np.linalg.norm(exact),
                np.linalg.norm(covariance(C) - S) / np.linalg.norm(S),
            )
            found.setdefault(name, []).append(errors)
    return {k: np.median(v, axis=0) for k, v in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=30)
    parser.add_argument("--out", default="benchmarks/results/second_moments.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.process_time()
    lines = [
        "# Second moments with public data",
        "",
        f"`python benchmarks/second_moments.py --reps {args.reps}`, seeded. Medians of the relative "
        "Frobenius error of the moments of (1, x) / of the covariance matrix computed from them, "
        "against the private rows themselves. 10 columns, delta = 1e-6, ranges of about "
        f"+-{WIDTH:.1f} around the shift. 'Per row' and 'published' are sums over n; 'default' and "
        "'/ weight' are divided by the released mean weight of a row (post-processing).",
        "",
    ]
    for eps, n, m, shift in CELLS:
        found = cell(eps, n, m, shift, args.reps)
        if len(lines) == 4:
            lines.append("| eps, n, m, shift | " + " | ".join(found) + " |")
            lines.append("|---" * (len(found) + 1) + "|")
        numbers = " | ".join(f"{a:.2g} / {b:.2g}" for a, b in found.values())
        lines.append(f"| {eps:g}, {n}, {m}, {shift:g} | {numbers} |")
        print(lines[-1], flush=True)
    lines += one_core(start)
    write(args.out, lines)


if __name__ == "__main__":
    main()
