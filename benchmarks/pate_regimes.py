"""PATE in two regimes: 400 teachers, 200 queries, 10 classes; data-dependent against fixed price.

python benchmarks/pate_regimes.py
"""

import warnings

import numpy as np
from common import RESULTS, write

import dpmodels as dp

OUT = RESULTS / "pate_regimes.md"


def main():
    warnings.simplefilter("ignore")
    lines = [
        "# PATE: 400 teachers, 200 queries, 10 classes, delta = 1e-5",
        "",
        "Simulated votes: a teacher is right with the probability given, else uniform. Median of 9",
        "noise seeds; test_eps = 4; the data-dependent eps contains the cost of releasing it.",
        "",
        "| regime | sigma | data-dependent eps | data-independent eps | replies at eps = 8 |",
        "|---|---|---|---|---|",
    ]
    for name, consensus in (("high consensus (.95)", 0.95), ("low consensus (.3)", 0.3)):
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 10, 200)
        agree = rng.random((400, 200)) < consensus
        votes = np.where(agree, truth, rng.integers(0, 10, (400, 200)))
        for sigma in (5.0, 8.0, 12.0, 20.0):
            args = {"classes": 10, "delta": 1e-5, "sigma": sigma, "test_eps": 4.0}
            # a request below the fixed price, so that the test is made
            runs = [dp.dp_pate(votes, eps=4.2, seed=s, **args) for s in range(9)]
            replies = sum(dp.dp_pate(votes, eps=8, seed=s, **args).released for s in range(9))
            dependent = np.median([r.eps_data_dependent for r in runs])
            fixed = runs[0].eps_data_independent
            lines.append(f"| {name} | {sigma:g} | {dependent:.2f} | {fixed:.2f} | {replies}/9 |")
            print(lines[-1], flush=True)
    write(OUT, lines)


if __name__ == "__main__":
    main()
