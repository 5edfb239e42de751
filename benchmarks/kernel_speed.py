"""Functional release at n = 1e6 and 1e4 queries against blocked direct sums at 1e3 queries (CPU)."""

import statistics
import warnings

import numpy as np
import pandas as pd
from common import cpu

import dpmodels as dp
from dpmodels.models.kernel.kernel import gaussian


def main(n=1_000_000):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    frame = pd.DataFrame({"x": x, "y": np.clip(np.sin(3 * x) + rng.normal(0, 0.3, n), -2, 2)})
    q = np.linspace(-1, 1, 1000)[:, None]
    queries = pd.DataFrame({"x": np.linspace(-1, 1, 10_000)})

    def direct():
        y = frame["y"].to_numpy()
        N, D = np.zeros(1000), np.zeros(1000)
        for i in range(0, n, 8192):
            K = gaussian(q, x[i : i + 8192, None], 0.04)
            N += K @ y[i : i + 8192]
            D += K.sum(axis=1)
        return N / D

    def ours():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_npreg(
                "y ~ x", frame, eps=1, delta=1e-8, bounds={"x": (-1, 1), "y": (-2, 2)}, h=0.04
            )
            return fit.predict(queries)

    ours()
    slow = cpu(direct)
    fast = statistics.median(cpu(ours) for _ in range(5))
    print(
        f"n = {n}: functional release + 1e4 queries takes {fast / slow:.4f} x blocked direct sums at 1e3"
    )


if __name__ == "__main__":
    main()
