"""Time and memory of a release of n x 10, its CSV, and a logistic fit on it.

    python benchmarks/zil_speed.py [--n 1000000]

Target: release < 3 s beside the CSV write; fit within 3 x a plain logistic fit (own Newton on the
clean data, same rows and columns); peak memory < 4 x the data. Real noise, no seed.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import dpmodels as dp


def newton(X, y):
    theta = np.zeros(X.shape[1])
    for _ in range(25):
        s = expit(X @ theta)
        g = X.T @ (s - y) / len(y)
        if np.linalg.norm(g) < 1e-8:
            break
        H = (X * (s * (1 - s))[:, None]).T @ X / len(y)
        theta = theta - np.linalg.solve(H, g)
    return theta


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=1_000_000)
    n = parser.parse_args().n
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(9)]
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 9)), columns=names)
    frame["y"] = (rng.random(n) < expit(0.5 * frame[names].sum(axis=1) - 0.2)) * 1.0
    size = frame.memory_usage().sum() / 2**20
    schema = dp.Schema(**{c: dp.Real(-1, 1) for c in names}, y=dp.Binary())
    dp.dp_release(frame.head(1000), eps=12, delta=0.0, schema=schema, unit="attribute")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    rows = []
    start = time.perf_counter()
    rel = dp.dp_release(
        frame, eps=12, delta=1e-3, schema=schema, unit="attribute", noise="sl", tight=False
    )
    rows.append(("release, SL", time.perf_counter() - start))
    start = time.perf_counter()
    rel = dp.dp_release(frame, eps=12, delta=0.0, schema=schema, unit="attribute")
    rows.append((f"release, {rel.noise}", time.perf_counter() - start))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        rel.save(Path(folder) / "rel", "csv")
        rows.append(("CSV write", time.perf_counter() - start))
        start = time.perf_counter()
        rel.save(Path(folder) / "rel", "parquet")
        rows.append(("Parquet write", time.perf_counter() - start))
    start = time.perf_counter()
    X = np.column_stack([np.ones(n), frame[names]])
    newton(X, frame["y"].to_numpy())
    plain = time.perf_counter() - start
    rows.append(("plain logistic fit (clean data)", plain))
    del X
    few = " + ".join(names[:8])
    start = time.perf_counter()
    fit = dp.dp_glm(f"y ~ {few}", rel, progress=False)
    rows.append(
        (
            f"corrected logistic fit, Laplace, 8 columns (converged {fit.stats['converged']:g})",
            time.perf_counter() - start,
        )
    )
    single = dp.dp_release(frame, eps=40, delta=0.05, schema=schema, noise="sl", tight=False)
    start = time.perf_counter()
    fit = dp.dp_glm(f"y ~ {' + '.join(names)}", single, progress=False)
    rows.append(
        (
            f"corrected logistic fit, SL, 9 columns (converged {fit.stats['converged']:g})",
            time.perf_counter() - start,
        )
    )
    final = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    lines = [
        f"# zil_speed: n = {n}, 10 columns, data {size:.0f} MB",
        "",
        "| what | seconds | x plain fit |",
        "|---|---|---|",
    ]
    lines += [f"| {k} | {v:.2f} | {v / plain:.1f} |" for k, v in rows]
    lines += [
        "",
        f"Peak memory above the base, after the releases: {(peak - base) / size:.1f} x the data (base, with the data in memory: {base:.0f} MB); after everything {(final - base) / size:.1f} x.",
    ]
    text = "\n".join([*lines, ""])
    (Path(__file__).parent / "results" / "zil_speed.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
