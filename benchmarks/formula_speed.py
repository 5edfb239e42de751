"""CPU cost of the formula front end, as ratios taken in one run on one thread.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/formula_speed.py [rows] [repeats]

A: 10 numeric terms. B: 10 numeric terms, factors of 10 and 50 levels, one interaction.
``block loop``: coerce, clip, fill blocks of 8192 rows, and the product of each block.
``exact, by counting``: integers of the Gram matrix, factors of many levels by code.
``bare product``: X'X of the finished float matrix. Memory: peak of Python and numpy allocations
above the start (tracemalloc, in a run of its own).
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
import warnings

import numpy as np
import pandas as pd
from common import cpu, peak

from dpmodels.formula import coerce
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.variables import Levels, Real

HEIGHT, READ = 8192, 65_536
TERMS = " + ".join(f"x{i}" for i in range(10))
FORMULAS = {
    "A: 10 numeric": f"y ~ {TERMS}",
    "B: + 10 and 50 levels + interaction": f"y ~ {TERMS} + g + h + x0:x1",
    "C: B + x0:g, log, square": f"y ~ {TERMS} + g + h + x0:x1 + x0:g + log(x2 + 2) + I(x3**2)",
}


def data(n: int) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    frame = {f"x{i}": rng.uniform(-1.1, 1.1, n) for i in range(10)}
    frame["y"] = rng.normal(size=n)
    variables = {name: Real(-1, 1) for name in frame}
    for name, k in (("g", 10), ("h", 50)):
        levels = [f"{name}{i:02d}" for i in range(k)]
        frame[name] = pd.Categorical.from_codes(rng.integers(0, k, n), categories=levels)
        variables[name] = Levels(levels)
    return pd.DataFrame(frame), Schema(**variables)


def blocks(design, df):
    kinds = design.kinds
    buffer = np.empty((design.q, HEIGHT))
    n = len(df)
    for start in range(0, n, READ):
        stop = min(n, start + READ)
        chunk = {v: coerce(df[v].iloc[start:stop], kinds[v]) for v in kinds}
        for a in range(0, stop - start, HEIGHT):
            b = min(stop - start, a + HEIGHT)
            out = buffer[:, : b - a]
            design.fill({v: c[a:b] for v, c in chunk.items()}, out)
            yield out


def fill_only(design, df):
    return sum(out.shape[1] for out in blocks(design, df))


def block_loop(design, df):
    S = np.zeros((design.q, design.q))
    for out in blocks(design, df):
        S += out @ out.T
    return S


def exact_loop(design, df):
    from dpmodels.sums.cells import gram
    from dpmodels.sums.rowmap import RowMap
    from dpmodels.sums.scaling import unit_scale

    return gram(blocks(design, df), RowMap(unit_scale(design), np.ones(design.q)))


def counting_loop(design, df):
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tasks import as_source
    from dpmodels.sums.cells import gram_over
    from dpmodels.sums.rowmap import RowMap
    from dpmodels.sums.scaling import unit_scale

    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    return gram_over(Rows(as_source(df), len(df)), design, rowmap)


def formulaic_product(formula, df):
    import formulaic

    mm = formulaic.Formula(formula).get_model_matrix(df, output="numpy", na_action="ignore")
    X = np.asarray(mm.rhs)
    return X.T @ X


def finished(design, df):
    return np.vstack([b.T.copy() for b in blocks(design, df)])


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        print("note: set OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 for ratios on one thread")
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    warnings.simplefilter("ignore")
    df, schema = data(n)
    for name, formula in FORMULAS.items():
        start = time.process_time()
        design = build_design(formula, schema)
        built = time.process_time() - start
        plain_df = df.assign(**{f"x{i}": df[f"x{i}"].clip(-1, 1) for i in range(10)})
        X = finished(design, df)
        jobs = {
            "bare product": functools.partial(np.matmul, X.T, X),
            "block loop": functools.partial(block_loop, design, df),
            "  of which fill": functools.partial(fill_only, design, df),
            "exact integer loop": functools.partial(exact_loop, design, df),
            "exact, by counting": functools.partial(counting_loop, design, df),
            "formulaic + product": functools.partial(formulaic_product, formula, plain_df),
        }
        times = {k: [] for k in jobs}
        for i in range(repeats):
            for k, job in jobs.items():
                if k.startswith("formulaic") and i >= max(2, repeats // 2):
                    continue
                times[k].append(cpu(job))
        most = peak(functools.partial(counting_loop, design, df))
        base = statistics.median(times["bare product"])
        print(f"{name}: n = {n}, {design.q} buffer rows; design built in {1000 * built:.0f} ms CPU")
        for k, t in times.items():
            m = statistics.median(t)
            print(f"  {k:22s} {1000 * m:8.1f} ms   {m / base:6.2f} x bare product")
        print(f"  extra memory of the exact loop: {most:.1f} MiB")
        del X


if __name__ == "__main__":
    main()
