"""Compare half widths at more budget, and at more rows, of least squares, logits and counts.

Reported are ratios of median half widths (over samples, then the median coefficient) to those of
the next smaller budget, or of a quarter of the rows: more of either should not make intervals
wider. Designs are the tuned ones of ``models_people_fit.py``.

    python benchmarks/wider.py [--budgets 40] [--rows 20]

DPMODELS_DATA names the data sets.
"""

from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np
import real_models
from models_people_fit import GROUPS

EPS = (1.0, 2.0, 4.0, 8.0, 11.0)
BY_BUDGET = (
    ("wide", "houses"), ("skew", "wage levels"), ("rare", "often"), ("factors", "visits poisson"),
)  # fmt: skip
BY_ROWS = (
    *BY_BUDGET, ("wide", "hours by work"), ("wide", "drugs"), ("wide", "age"), ("wide", "wine"),
    ("skew", "drug expense"), ("rare", "gain"), ("factors", "doctor poisson"),
    ("robust", "wage huber"),
)  # fmt: skip


def widths(group, name, n, eps, reps):
    """Return the median half width of each coefficient over samples, n rows from the table."""
    file, formula, (verb, options) = GROUPS[group]["tuned"][name]
    frame, schema, X, y = real_models.population(file, formula)
    options = real_models.with_scales(options, X, y)
    halves = []
    for r in range(reps):
        rows = np.random.default_rng([23, r]).integers(0, len(frame), n)
        fit = real_models.private(verb, formula, frame.iloc[rows], schema, options, eps, r)
        halves.append(np.diff(fit.conf_int().to_numpy())[:, 0] / 2)
    return np.median(halves, axis=0)


def main():
    """Print the ratios of both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", type=int, default=40, help="samples of a budget")
    parser.add_argument("--rows", type=int, default=20, help="samples of a number of rows")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for group, name in BY_BUDGET:
        found = [widths(group, name, 10_000, eps, args.budgets) for eps in EPS]
        ratios = [float(np.median(b / a)) for a, b in itertools.pairwise(found)]
        print(f"{name}, eps {EPS}: " + " ".join(f"{x:.2f}" for x in ratios), flush=True)
    for group, name in BY_ROWS:
        few, many = (widths(group, name, n, 1.0, args.rows) for n in (10_000, 40_000))
        print(f"{name}, 40 000 rows over 10 000: {float(np.median(many / few)):.2f}", flush=True)


if __name__ == "__main__":
    main()
