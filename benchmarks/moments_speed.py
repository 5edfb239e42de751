"""Speed and memory of the moment methods: ratios of CPU time taken in one run.

Frame: n = 1e6, p = 10, declared ranges, against numpy normal equations from the same frame and
statsmodels' formula ``ols``. Parquet: 2e7 rows, 5 columns and a response, against the bare scan.
Medians of interleaved repeats. Memory: peak traced allocations (frame), peak anonymous memory
above the start (Parquet). Run with OMP_NUM_THREADS=1.

    python benchmarks/moments_speed.py [--rows 1000000] [--parquet 20000000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from ols_speed import cpu, normal_equations, peak, statsmodels_ols, table


def fit(data, formula, bounds, method="ssp", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ols(
            formula, data, eps=1, delta=1e-9, method=method, bounds=bounds, **options
        ).params


def frame_part(n, repeats, with_statsmodels):
    data = table(n, 10)
    names = [f"x{j}" for j in range(10)]
    formula = "y ~ " + " + ".join(names)
    bounds = {**{c: (-4, 4) for c in names}, "y": (-12, 12)}
    calls = {
        "numpy": lambda: normal_equations(data, names),
        "ssp, one stage": lambda: fit(data, formula, bounds, stages=1),
        "ssp, two stages": lambda: fit(data, formula, bounds),
        "pmt, two stages": lambda: fit(data, formula, None, "pmt", public=table(200, 10, 5)),
        "adassp": lambda: fit(data, formula, bounds, "adassp"),
    }
    if with_statsmodels:
        calls["statsmodels"] = lambda: statsmodels_ols(data, formula)
    for call in calls.values():
        call()
    times = {k: [] for k in calls}
    for _ in range(repeats):
        for k, call in calls.items():
            times[k].append(cpu(call))
    middle = {k: statistics.median(v) for k, v in times.items()}
    for k, v in middle.items():
        text = f"{k:18s} {v * 1e3:8.1f} ms  {v / middle['numpy']:.2f} x numpy"
        if with_statsmodels:
            text += f"  {v / middle['statsmodels']:.3f} x statsmodels"
        print(text)
    for k in ("ssp, one stage", "ssp, two stages"):
        print(f"{k:18s} peak extra memory {peak(calls[k]):.1f} MiB")


def anonymous():
    """Anonymous memory of this process, MiB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def peak_anonymous(function):
    start, top, done = anonymous(), [0.0], threading.Event()

    def watch():
        while not done.is_set():
            top[0] = max(top[0], anonymous())
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    function()
    done.set()
    thread.join()
    return top[0] - start


def parquet_part(n):
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{j}" for j in range(5)]
    bounds = {**{c: (-4, 4) for c in names}, "y": (-12, 12)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        writer = None
        for k in range(max(1, n // 500_000)):
            part = pa.Table.from_pandas(table(500_000, 5, k), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part, row_group_size=500_000)
        writer.close()

        def scan():
            with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=65_536, columns=[*names, "y"]):
                    batch.num_rows  # noqa: B018

        formula = "y ~ " + " + ".join(names)
        calls = {
            "scan": scan,
            "ssp, one stage": lambda: fit(path, formula, bounds, stages=1),
            "ssp, two stages": lambda: fit(path, formula, bounds),
        }
        scan()
        times = {k: [cpu(call) for _ in range(3)] for k, call in calls.items()}
        base = statistics.median(times["scan"])
        for k, v in times.items():
            passes = 2 if "two" in k else 1
            ratio = statistics.median(v) / base
            print(f"{k:18s} {statistics.median(v):8.2f} s  {ratio:.2f} x scan, {passes} pass(es)")
        print(f"peak anonymous memory {peak_anonymous(calls['ssp, two stages']):.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parquet", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-statsmodels", action="store_true")
    args = parser.parse_args()
    print(f"frame: n = {args.rows}, p = 10, {pd.__name__} {pd.__version__}, numpy {np.__version__}")
    frame_part(args.rows, args.repeats, not args.no_statsmodels)
    if args.parquet:
        print(f"parquet: n = {args.parquet}, 5 columns and a response")
        parquet_part(args.parquet)


if __name__ == "__main__":
    main()
