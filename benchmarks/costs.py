"""Costs that do not shrink with n, and waste that grows with p: ratios of CPU time in one run.

    OMP_NUM_THREADS=1 python benchmarks/costs.py --out benchmarks/results/costs.md

Every ratio is of medians of interleaved repeats. "numpy" is the fastest of three hand-written
normal equations from the very frame that the fit gets, whose columns are those of one 2-D block:
``Z.T @ Z`` of the block itself with its column sums, the same over blocks of 8192 rows with a
column of ones, and a buffer with one row a column, filled block by block. ``np.column_stack`` and two products, as most people
write it, stands beside it.
"""

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import cpu, medians, one_core, write

import dpmodels as dp

HEIGHT = 8192
CALL = {"eps": 1.0, "delta": 1e-10}


def table(n, p, seed=0):
    """Return a frame of p columns and a response, one block in memory."""
    rng = np.random.default_rng(seed)
    Z = np.empty((n, p + 1))
    Z[:, :p] = rng.normal(size=(n, p)).clip(-4, 4)
    Z[:, p] = (Z[:, :p] @ np.linspace(-1, 1, p) + rng.normal(size=n)).clip(-12, 12)
    return pd.DataFrame(Z, columns=[*(f"x{j}" for j in range(p)), "y"])


def call_of(frame):
    """Return formula and declared ranges."""
    names = list(frame.columns[:-1])
    return "y ~ " + " + ".join(names), {**dict.fromkeys(names, (-4, 4)), "y": (-12, 12)}


def solved(G):
    return np.linalg.solve(G[:-1, :-1], G[:-1, -1])


def numpy_view(frame):
    Z = frame.to_numpy()
    G = np.empty((Z.shape[1] + 1,) * 2)
    G[0, 0], G[0, 1:], G[1:, 1:] = len(Z), Z.sum(axis=0), Z.T @ Z
    G[1:, 0] = G[0, 1:]
    return solved(G)


def numpy_blocks(frame):
    Z = frame.to_numpy()
    G, B = np.zeros((Z.shape[1] + 1,) * 2), np.ones((HEIGHT, Z.shape[1] + 1))
    for a in range(0, len(Z), HEIGHT):
        b = B[: len(Z[a : a + HEIGHT])]
        b[:, 1:] = Z[a : a + HEIGHT]
        G += b.T @ b
    return solved(G)


def numpy_rows(frame):
    columns = [frame[c].to_numpy() for c in frame.columns]
    G, B = np.zeros((len(columns) + 1,) * 2), np.ones((len(columns) + 1, HEIGHT))
    for a in range(0, len(frame), HEIGHT):
        m = min(HEIGHT, len(frame) - a)
        for j, c in enumerate(columns, 1):
            B[j, :m] = c[a : a + m]
        G += B[:, :m] @ B[:, :m].T
    return solved(G)


def usual(frame):
    """Return what most people write: the design as one new array."""
    names = list(frame.columns[:-1])
    X = np.column_stack([np.ones(len(frame)), *(frame[c].to_numpy() for c in names)])
    return np.linalg.solve(X.T @ X, X.T @ frame["y"].to_numpy())


NUMPY = {"view": numpy_view, "blocks": numpy_blocks, "rows": numpy_rows}


def timed(ways, repeats):
    """Return medians after a first use of each way."""
    for way in ways.values():
        way()
    return medians(ways, repeats)


def frames(repeats):
    """Fits of a frame beside hand-written normal equations."""
    lines = ["## A frame, least squares", "",
             "| n, p | numpy (which, ms) | np.column_stack | default (hetero) | vcov='iid' | "
             "by moments, one stage | by moments, two | by moments, robust |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for n, p in ((1_000_000, 10), (1_000_000, 50), (10_000, 150)):
        frame = table(n, p)
        formula, bounds = call_of(frame)

        def fit(frame=frame, formula=formula, bounds=bounds, **options):
            return dp.dp_ols(formula, frame, bounds=bounds, **CALL, **options)

        ways = {
            **{k: lambda f=f, frame=frame: f(frame) for k, f in NUMPY.items()},
            "usual": lambda frame=frame: usual(frame),
            "default": fit,
            "iid": lambda fit=fit: fit(vcov="iid"),
            "one": lambda fit=fit: fit(scoring=False, stages=1),
            "two": lambda fit=fit: fit(scoring=False, stages=2),
            "robust": lambda fit=fit: fit(scoring=False, vcov="hetero"),
        }
        t = timed(ways, repeats)
        best = min(NUMPY, key=t.get)
        cells = " | ".join(f"{t[k] / t[best]:.2f}" for k in list(ways)[3:])
        lines.append(f"| {n:.0e}, {p} | {best}, {t[best] * 1e3:.1f} | {cells} |")
        print(lines[-1], flush=True)
    return lines


def small(repeats):
    """Fits of few rows: milliseconds, since no work of n is left to compare with."""
    frame = table(1000, 5)
    formula, bounds = call_of(frame)
    events = table(10_000, 9, 1)
    events["y"] = (events["y"] > 0) * 1.0
    about, ranges = call_of(events)
    ranges = {**ranges, "y": (0, 1)}
    new = iter(1.0 + 1e-5 * np.arange(1, 10_000))
    ways = {
        "dp_ols, n = 1000, p = 5": lambda: dp.dp_ols(formula, frame, bounds=bounds, **CALL),
        "the same by moments": lambda: dp.dp_ols(
            formula, frame, bounds=bounds, scoring=False, **CALL
        ),
        "dp_glm (logit), n = 1e4, p = 9, a new eps each time": lambda: dp.dp_glm(
            about, events, bounds=ranges, family="binomial", eps=next(new), delta=1e-10
        ),
        "plan of it, a new eps": lambda: dp.plan(
            about, n=10_000, bounds=ranges, verb="dp_glm", family="binomial", eps=next(new),
            delta=1e-10,
        ),
        "plan of n = 1000 (objective perturbation), a new eps": lambda: dp.plan(
            about, n=1000, bounds=ranges, verb="dp_glm", family="binomial", eps=next(new),
            delta=1e-10,
        ),
    }  # fmt: skip
    t = timed(ways, 3 * repeats)
    with tempfile.TemporaryDirectory() as cache:  # compiled modules, as an installed package has
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        child("--first", env=env)
        first = sorted(float(child("--first", env=env)) for _ in range(5))[2]
    lines = ["", "## Few rows", "", "| call | ms |", "|---|---|"]
    lines += [f"| {k} | {v * 1e3:.1f} |" for k, v in t.items()]
    lines += [f"| first call of a process, beside the imports of numpy and pandas | {first:.0f} |"]
    print("\n".join(lines[5:]), flush=True)
    return lines


def child(*arguments, env=None):
    """Run this script in a fresh process."""
    line = [sys.executable, __file__, *arguments]
    return subprocess.run(line, check=True, capture_output=True, text=True, env=env).stdout


def first_call():
    frame = table(1000, 5)
    formula, bounds = call_of(frame)
    print(cpu(lambda: dp.dp_ols(formula, frame, bounds=bounds, **CALL)) * 1e3)


def factors(repeats, n=1_000_000):
    """A 20 x 5 interaction, beside means of the cells by counting."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 20, n), rng.integers(0, 5, n)
    levels = [f"a{i:02d}" for i in range(20)], [f"b{i}" for i in range(5)]
    frame = pd.DataFrame({
        "y": (rng.normal(size=n) + 0.1 * a - 0.2 * b).clip(-12, 12),
        "a": pd.Categorical.from_codes(a, levels[0]),
        "b": pd.Categorical.from_codes(b, levels[1]),
    })  # fmt: skip
    schema = dp.Schema(y=dp.Real(-12, 12), a=dp.Levels(levels[0]), b=dp.Levels(levels[1]))

    def by_hand():
        cell = frame["a"].cat.codes.to_numpy().astype(np.intp) * 5 + frame["b"].cat.codes.to_numpy()
        y = frame["y"].to_numpy().clip(-12, 12)
        count = np.bincount(cell, minlength=100)
        return np.bincount(cell, weights=y, minlength=100) / count, y @ y

    def fit(**options):
        return dp.dp_ols("y ~ a * b", frame, schema=schema, **CALL, **options)

    ways = {
        "counting by hand": by_hand,
        "adassp (clipped cells)": lambda: fit(method="adassp"),
        "bounded query, one stage": lambda: fit(scoring=False, query="bounded", stages=1),
        "dp_moments (whitened)": lambda: dp.dp_moments("y + a + b", frame, schema=schema, **CALL),
        "default": fit,
    }
    t = timed(ways, max(repeats // 2, 1))
    base = t["counting by hand"]
    lines = ["", f"## Factors, y ~ a * b with 20 and 5 levels, n = {n:.0e}", "",
             f"By hand {base * 1e3:.1f} ms.", "", "| fit | x counting |", "|---|---|"]  # fmt: skip
    lines += [f"| {k} | {v / base:.1f} |" for k, v in list(t.items())[1:]]
    print("\n".join(lines[6:]), flush=True)
    return lines


def levels(repeats, counts=(10, 50, 200, 500), n=300_000):
    """Fits with a factor of many levels and a number: seconds, and over ten levels."""
    lines = ["", f"## Levels, y ~ C(f) + x, n = {n:.0e}", "",
             "| levels | CPU seconds | x ten levels |", "|---|---|---|"]  # fmt: skip
    base = None
    for k in counts:
        rng = np.random.default_rng(1)
        f, x = rng.integers(0, k, n), rng.uniform(0, 1, n)
        words = [f"l{i:04d}" for i in range(k)]
        y = (x + f / k + rng.normal(0, 0.3, n)).clip(-2, 4)
        frame = pd.DataFrame({"f": pd.Categorical.from_codes(f, words), "x": x, "y": y})
        schema = dp.Schema(f=dp.Levels(words), x=dp.Real(0, 1), y=dp.Real(-2, 4))
        ways = {"fit": functools.partial(dp.dp_ols, "y ~ C(f) + x", frame, schema=schema, **CALL)}
        t = timed(ways, repeats if k < 500 else 1)["fit"]
        base = base or t
        lines.append(f"| {k} | {t:.2f} | {t / base:.1f} |")
        print(lines[-1], flush=True)
    return lines


def mixed(n=1_000_000):
    """Factors of 50 and 8 levels and three numbers, and sums by cell by hand."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 50, n), rng.integers(0, 8, n)
    levels = [f"a{i:02d}" for i in range(50)], [f"b{i}" for i in range(8)]
    X = rng.normal(size=(n, 3)).clip(-4, 4)
    y = (rng.normal(size=n) + 0.02 * a - 0.2 * b + X @ [0.3, -0.2, 0.1]).clip(-12, 12)
    frame = pd.DataFrame({
        "y": y, "a": pd.Categorical.from_codes(a, levels[0]),
        "b": pd.Categorical.from_codes(b, levels[1]), **{f"x{j}": X[:, j] for j in range(3)},
    })  # fmt: skip
    schema = dp.Schema(y=dp.Real(-12, 12), a=dp.Levels(levels[0]), b=dp.Levels(levels[1]),
                       **{f"x{j}": dp.Real(-4, 4) for j in range(3)})  # fmt: skip

    def by_hand():
        cell = frame["a"].cat.codes.to_numpy().astype(np.intp) * 8 + frame["b"].cat.codes.to_numpy()
        numbers = [frame[c].to_numpy() for c in ("x0", "x1", "x2", "y")]
        sums = [np.bincount(cell, weights=v, minlength=400) for v in numbers]
        return np.bincount(cell, minlength=400), sums, [[u @ v for u in numbers] for v in numbers]

    def fit(formula):
        return dp.dp_ols(formula, frame, schema=schema, **CALL)

    return {
        "bincount by hand": by_hand,
        "factors and three numbers": lambda: fit("y ~ a + b + x0 + x1 + x2"),
        "factors and one number": lambda: fit("y ~ a + b + x0"),
        "factors alone": lambda: fit("y ~ a + b"),
    }


def measured(repeats):
    """Print the ratios of one path, a line each: for a process of its own."""
    for n, p in ((1_000_000, 10), (1_000_000, 50), (10_000, 150)):
        frame = table(n, p)
        formula, bounds = call_of(frame)
        fit = functools.partial(dp.dp_ols, formula, frame, bounds=bounds, **CALL)
        ways = {k: functools.partial(f, frame) for k, f in NUMPY.items()}
        ways["fit"] = fit
        ways["add-remove"] = functools.partial(fit, relation="add-remove", n_guess=n)
        t = timed(ways, repeats)
        print(f"{n:.0e} x {p}|{t['fit'] / min(t[k] for k in NUMPY):.1f}")
        if p == 50:
            print(f"add-remove over replace-one, {n:.0e} x 50|{t['add-remove'] / t['fit']:.2f}")
    t = timed(mixed(), repeats)
    base, one = t["bincount by hand"], t["factors and one number"]
    print(f"factors 50 + 8, three numbers, over bincount|{t['factors and three numbers'] / base:.1f}")
    print(f"factors and one number, over factors alone|{one / t['factors alone']:.1f}")
    for n, p in ((1000, 5), (1000, 30)):
        frame = table(n, p)
        formula, bounds = call_of(frame)
        way = {"fit": functools.partial(dp.dp_ols, formula, frame, bounds=bounds, **CALL)}
        print(f"n = {n}, p = {p}, ms|{timed(way, 5 * repeats)['fit'] * 1e3:.1f}")


def paths(repeats):
    """Fits with one BLAS thread, and with BLAS threads unset."""
    columns = {}
    for name, env in (("one BLAS thread", {}), ("BLAS threads unset", {"OMP_NUM_THREADS": ""})):
        env = {k: v for k, v in {**os.environ, **env}.items() if v}
        rows = child("--measured", "--repeats", str(repeats), env=env).splitlines()
        columns[name] = dict(line.split("|") for line in rows)
        print(name, columns[name], flush=True)
    lines = ["", "## Fits over normal equations by hand", "",
             "Least squares, three passes, over the fastest normal equations by hand.", "",
             f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]  # fmt: skip
    for row in columns["one BLAS thread"]:
        lines.append(f"| {row} | {' | '.join(c[row] for c in columns.values())} |")
    return [*lines, ""]


def files(repeats, n):
    """CSV beside pandas.read_csv, Parquet beside a bare scan."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    formula, bounds = call_of(table(10, 5))
    names = list(bounds)
    lines = ["", "## Files, 5 columns and a response", "",
             "| file | rows | one stage by moments | default (three passes) |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        text, path = Path(folder) / "t.csv", Path(folder) / "t.parquet"
        rows = min(n, 1_000_000)
        table(rows, 5).to_csv(text, index=False)
        writer = None
        for k in range(max(1, n // 500_000)):
            part = pa.Table.from_pandas(table(500_000, 5, k), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part, row_group_size=500_000)
        writer.close()

        def scan():
            with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=65_536, columns=names):
                    batch.num_rows  # noqa: B018

        for name, where, base, size in (
            ("CSV, over pandas.read_csv", text, lambda: pd.read_csv(text), rows),
            ("Parquet, over a bare scan", path, scan, max(1, n // 500_000) * 500_000),
        ):
            def fit(where=where, **options):
                return dp.dp_ols(formula, where, bounds=bounds, **CALL, **options)

            t = timed({"base": base, "one": lambda fit=fit: fit(scoring=False, stages=1),
                       "default": fit}, max(repeats // 2, 1))  # fmt: skip
            lines.append(f"| {name} | {size:.0e} | {t['one'] / t['base']:.2f} | "
                         f"{t['default'] / t['base']:.2f} |")  # fmt: skip
            print(lines[-1], flush=True)
    return lines


def noise(repeats, n=300_000):
    """Draws beside the system's random bytes that they are made of."""
    from fractions import Fraction

    from dpmodels.privacy.noise import ExactNoise

    source, variance = ExactNoise(), Fraction(3**40, 7)
    names = [f"x{j}" for j in range(10)]
    frame = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (n, 10)), columns=names)
    schema = dp.Schema(**{c: dp.Real(-1, 1) for c in names})
    options = {"delta": 1e-3, "noise": "sl", "tight": False}
    ways = {
        "bytes of a table": lambda: os.urandom(8 * n * 12),
        "release, SL": lambda: dp.dp_release(frame, eps=12, schema=schema, **options),
        "release, Laplace": lambda: dp.dp_release(
            frame, eps=12, delta=0.0, schema=schema, unit="attribute"
        ),
        "exact draws": lambda: source.discrete_gaussian(variance, 10_000),
    }
    t = timed(ways, repeats)
    base = t["bytes of a table"] / 12  # of one word a row
    lines = ["", "## Noise", "", f"* Exact discrete Gaussians: {t['exact draws'] * 1e2:.2f} us a draw "
             "(10 000 at once).",
             f"* A release of {n:.0e} x 10 numbers over the random bytes it takes: SL "
             f"{t['release, SL'] / (11 * base):.2f} (11 words a row), Laplace "
             f"{t['release, Laplace'] / (20 * base):.2f} (20 words a row)."]  # fmt: skip
    print("\n".join(lines[3:]), flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=6_000_000, help="rows of the Parquet file")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--paths", action="store_true", help="the fits alone")
    parser.add_argument("--levels", type=int, nargs="+", help="levels of a factor, alone")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measured", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.measured:
        measured(args.repeats)
        return
    if args.first:
        first_call()
        return
    if args.levels:
        levels(args.repeats, args.levels)
        return
    start = time.process_time()
    lines = ["# Costs that do not shrink with n", "",
             f"`OMP_NUM_THREADS=1 python benchmarks/costs.py --repeats {args.repeats} --rows "
             f"{args.rows}`: CPU time, medians of interleaved repeats, exact noise. Ratios are to "
             "the *fastest* of three hand-written normal equations from the same frame (columns "
             f"of one block); pandas {pd.__version__}, numpy {np.__version__}.", ""]  # fmt: skip
    lines += paths(args.repeats)
    if args.paths:
        if args.out:
            write(args.out, [*lines, *one_core(start)])
        return
    lines += frames(args.repeats)
    lines += small(args.repeats)
    lines += factors(args.repeats)
    lines += levels(args.repeats)
    lines += files(args.repeats, args.rows)
    lines += noise(args.repeats)
    if args.out:
        write(args.out, [*lines, *one_core(start)])


if __name__ == "__main__":
    main()
