"""Kernel regression on California housing: 20 % train, 80 % test, income, location and age.

The ePTR paper's section 5.2 setting: mean squared test error of the functional release with the
*whole test set as queries*, over the non-private kernel estimate with the same bandwidth. Usage:
``python benchmarks/npreg_california.py path/to/california_housing.csv.gz [runs]``.
"""

import sys
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp
from dpmodels.models.kernel import default_bandwidth, gaussian

RANGES = {"MedInc": (0, 16), "Latitude": (32, 42), "Longitude": (-125, -114), "HouseAge": (0, 52),
          "MedHouseVal": (0, 5.1)}  # fmt: skip
X = list(RANGES)[:4]


def unit(frame):
    return np.column_stack(
        [2 * (frame[c].clip(*RANGES[c]) - sum(RANGES[c]) / 2) / np.diff(RANGES[c]) for c in X]
    )


def main(path, runs=5):
    data = pd.read_csv(path)
    lines = []
    for h in (None, 0.2, 0.3):
        ratios, plain = {0.5: [], 1: [], 4: []}, []
        for run in range(runs):
            order = np.random.default_rng(run).permutation(len(data))
            cut = len(data) // 5
            train, test = data.iloc[order[:cut]], data.iloc[order[cut:]]
            width = default_bandwidth(cut, 4) if h is None else h
            y, truth = train["MedHouseVal"].to_numpy(), test["MedHouseVal"].to_numpy()
            a, b = unit(train), unit(test)
            guess = np.empty(len(test))
            for i in range(0, len(test), 2000):
                K = gaussian(b[i : i + 2000], a, width)
                mass = K.sum(axis=1)
                guess[i : i + 2000] = np.where(
                    mass > 1e-12, K @ y / np.maximum(mass, 1e-300), y.mean()
                )
            base = np.mean((guess - truth) ** 2)
            plain.append(base)
            for eps in ratios:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit = dp.dp_npreg(
                        "MedHouseVal ~ " + " + ".join(X), train, eps=eps, delta=1e-6, bounds=RANGES,
                        at=test[X], h=h, seed=run,
                    )  # fmt: skip
                    p = fit.predict(test[X]).to_numpy()
                # a query without a reply gets the public mid-range of the response
                p = np.where(np.isnan(p), sum(RANGES["MedHouseVal"]) / 2, p)
                ratios[eps].append(np.mean((p - truth) ** 2) / base)
        name = f"{width:.3f}" + (" (default rule)" if h is None else "")
        lines.append(
            f"| {name} | {np.mean(plain):.3f} | "
            + " | ".join(f"{np.mean(v):.3f}" for v in ratios.values())
            + " |"
        )
        print(lines[-1], flush=True)
    print(
        f"California housing, n = {cut} train, {len(test)} queries, delta = 1e-6, {runs} splits, seeded noise"
    )
    print(
        "| bandwidth h | non-private test mse | ratio eps .5 | ratio eps 1 | ratio eps 4 |\n|---|---|---|---|---|"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:]))
