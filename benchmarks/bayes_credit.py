"""Bayes classifiers on the credit-default data (UCI 350), the ePTR paper's section 3.4 setting.

Balanced error on 30 % test rows against eps, for every method, beside the non-private classifier.
Ranges are the documented codes and amounts rounded outwards. Usage:
``python benchmarks/bayes_credit.py path/to/credit_default.csv.gz [runs]``.
"""

import sys
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

AMOUNTS = {**{f"BILL_AMT{j}": (-100_000, 500_000) for j in range(1, 7)},
           **{f"PAY_AMT{j}": (0, 100_000) for j in range(1, 7)}}  # fmt: skip
CODES = {c: (-2, 9) for c in ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")}
RANGES = {"LIMIT_BAL": (0, 1_000_000), "AGE": (18, 80), **CODES, **AMOUNTS}
EPS = (0.25, 0.5, 1, 2, 4, 8)


def schema():
    return dp.Schema(
        default=dp.Levels([0, 1]), **{c: dp.Real(lo, hi) for c, (lo, hi) in RANGES.items()}
    )


def non_private(train, test):
    x = {c: (train[c].clip(*RANGES[c]), test[c].clip(*RANGES[c])) for c in RANGES}
    score = np.zeros((len(test), 2))
    for k in (0, 1):
        rows = (train["default"] == k).to_numpy()
        score[:, k] = np.log(rows.mean())
        for a, b in x.values():
            v = (a - a.groupby(train["default"]).transform("mean")).var()
            score[:, k] -= 0.5 * ((b - a[rows].mean()) ** 2 / v).to_numpy()
    guess = score.argmax(axis=1)
    truth = test["default"].to_numpy()
    return 1 - np.mean([(guess[truth == k] == k).mean() for k in (0, 1)])


def main(path, runs=10):
    data = pd.read_csv(path)
    formula = "default ~ " + " + ".join(RANGES)
    methods = {
        "sums": dict(method="sums"),
        "eptr auto": dict(method="eptr"),
        "dpnb": dict(method="dpnb"),
        "dpnbss": dict(method="dpnbss"),
    }
    table = {name: {} for name in methods}
    base = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        order = rng.permutation(len(data))
        cut = int(0.7 * len(data))
        train, test = data.iloc[order[:cut]], data.iloc[order[cut:]]
        base.append(non_private(train, test))
        for eps in EPS:
            for name, options in methods.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit = dp.dp_bayes(
                        formula, train, eps=eps, delta=1e-6, schema=schema(), seed=run, **options
                    )
                error = dp.balanced_error(fit, test) if fit.released else 0.5
                table[name].setdefault(eps, []).append(error)
    print(
        f"credit default, n = {cut}, {len(RANGES)} features, delta = 1e-6, {runs} random splits, seeded noise"
    )
    print("balanced test error, mean (a no-reply counts .5)\n")
    print("| method | " + " | ".join(f"eps {e:g}" for e in EPS) + " |")
    print("|---|" + "---|" * len(EPS))
    print("| non-private | " + " | ".join(f"{np.mean(base):.3f}" for _ in EPS) + " |")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(f"{np.mean(row[e]):.3f}" for e in EPS) + " |")


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:]))
