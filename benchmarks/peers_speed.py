"""Seconds of a fit beside statsmodels (and pyfixest, where it is installed), in one run.

    OMP_NUM_THREADS=1 python benchmarks/peers_speed.py --out benchmarks/results/peers_speed.md

Each call is made several times, in turns; the fastest counts. statsmodels: a formula, errors HC1.
Memory: a Parquet file of 5e6 rows, above what the imports take, in a process of its own.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tasks_speed import peak_anonymous

TEN = " + ".join(f"x{j}" for j in range(10))
NINE = " + ".join(f"x{j}" for j in range(9))
#: name -> (rows, numbers, levels of factors, formula, logit, seconds asked on a quiet machine)
CALLS = {
    "10 numbers": (10**6, 10, (), f"y ~ {TEN}", False, 0.15),
    "factor of 30 levels and 9 numbers": (10**6, 9, (30,), f"y ~ g0 + {NINE}", False, 1.0),
    "factors 50 + 8 and 3 numbers": (10**6, 3, (50, 8), "y ~ g0 + g1 + x0 + x1 + x2", False, 1.2),
    "factors 50 + 8 alone": (10**6, 0, (50, 8), "y ~ g0 + g1", False, 0.06),
    "logit, 9 numbers": (10**6, 9, (), f"y ~ {NINE}", True, 0.25),
    "n = 1000, p = 6": (1000, 5, (), "y ~ x0 + x1 + x2 + x3 + x4", False, 0.005),
    "n = 1e5, a factor of 400 levels": (10**5, 0, (400,), "y ~ g0", False, 0.7),
    "n = 1e5, 100 levels and a number": (10**5, 1, (100,), "y ~ g0 + x0", False, 1.0),
    "n = 1e5, 400 levels and a number": (10**5, 1, (400,), "y ~ g0 + x0", False, 10.0),
}
#: Designs that statsmodels makes dense and does not finish in reason.
TOO_WIDE = {"n = 1e5, 400 levels and a number", "n = 1e5, a factor of 400 levels"}


def table(n, numbers, levels, logit):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, numbers))
    frame = pd.DataFrame({f"x{j}": x[:, j].copy() for j in range(numbers)})
    kinds = {name: dp.Real(-1, 1) for name in frame}
    for i, k in enumerate(levels):
        words = [f"l{v:03d}" for v in range(k)]
        frame[f"g{i}"] = pd.Categorical.from_codes(rng.integers(0, k, n), words)
        kinds[f"g{i}"] = dp.Levels(words)
    y = x.sum(axis=1) + rng.normal(size=n)
    frame["y"] = (y > 0).astype(int) if logit else y
    kinds["y"] = dp.Binary() if logit else dp.Real(-8, 8)
    return frame, dp.Schema(**kinds)


def ways(name, frame, schema, formula, logit):
    verb = dp.dp_glm if logit else dp.dp_ols
    out = {"dpmodels": lambda: verb(formula, frame, eps=1, delta=1e-7, schema=schema)}
    if name in TOO_WIDE:
        return out
    import statsmodels.formula.api as smf

    model = smf.logit if logit else smf.ols
    out["statsmodels"] = lambda: model(formula, frame).fit(cov_type="HC1", disp=0)
    try:
        import pyfixest as pf
    except ImportError:
        return out
    if not logit:
        out["pyfixest"] = lambda: pf.feols(formula, frame, vcov="HC1")
    return out


def timed(ways, repeats):
    best = {}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            best[name] = min(best.get(name, np.inf), time.perf_counter() - start)
    return best


def memory(path):
    """Print MiB at the peak of a Parquet fit above the imports."""
    import pyarrow.parquet  # noqa: F401

    tiny, schema = table(1000, 5, (), False)
    fit = lambda data: dp.dp_ols("y ~ x0 + x1 + x2 + x3 + x4", data, eps=1, delta=1e-8, schema=schema)  # noqa: E731
    fit(tiny)
    print(round(peak_anonymous(lambda: fit(path))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.memory:
        memory(args.memory)
        return
    lines = ["# Beside peers", "",
             "`OMP_NUM_THREADS=1 python benchmarks/peers_speed.py`: seconds of a call, one thread "
             "(`dp.connect(threads=1)`), the fastest of several in turns, in one run. Asked: on a quiet "
             "machine. Ratios to peers depend least on the machine.", "",
             "| n = 1e6 unless said | dpmodels | asked | statsmodels | pyfixest | statsmodels / dpmodels | all cores |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, (n, numbers, levels, formula, logit, asked) in CALLS.items():
        frame, schema = table(n, numbers, levels, logit)
        own = ways(name, frame, schema, formula, logit)
        with dp.connect(threads=1):
            found = timed(own, args.repeats if n > 1000 else 20)
        cores = timed({"dpmodels": own["dpmodels"]}, args.repeats)["dpmodels"]
        mine, theirs = found["dpmodels"], found.get("statsmodels")
        cells = ["" if x is None else f"{x:.3g}" for x in (theirs, found.get("pyfixest"))]
        ratio = "" if theirs is None else f"{theirs / mine:.1f}"
        lines.append(f"| {name} | {mine:.3g} | {asked} | {cells[0]} | {cells[1]} | {ratio} | {cores:.3g} |")
        print(lines[-1], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        table(5_000_000, 5, (), False)[0].to_parquet(path, row_group_size=250_000, index=False)
        used = subprocess.run([sys.executable, __file__, "--memory", str(path)],
                              capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    lines += ["", f"A Parquet file of 5e6 rows and 6 columns: {used} MiB at the peak above the imports (asked: 300)."]
    print(lines[-1])
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
