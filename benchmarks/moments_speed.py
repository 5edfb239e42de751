"""Speed and memory of the moment methods: ratios of CPU time taken in one run.

Frame: n = 1e6, p = 10, declared ranges, against numpy normal equations from the same frame and
statsmodels' formula ``ols``. Parquet: 2e7 rows, 5 columns and a response, against the bare scan.
Medians of interleaved repeats; the Parquet part with and without its reader thread. Memory: peak traced allocations (frame), peak anonymous memory
above the start (Parquet). Run with OMP_NUM_THREADS=1.

    python benchmarks/moments_speed.py [--rows 1000000] [--parquet 20000000]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
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
from common import cpu, peak
from ols_speed import normal_equations, statsmodels_ols, table


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
        "two, public order": lambda: fit(data, formula, bounds, public_order=True),
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
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    function()
    done.set()
    thread.join()
    return top[0] - start


NAMES = [f"x{j}" for j in range(5)]
FORMULA = "y ~ " + " + ".join(NAMES)
BOUNDS = {**{c: (-4, 4) for c in NAMES}, "y": (-12, 12)}


def scan(path):
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=65_536, columns=[*NAMES, "y"]):
            batch.num_rows  # noqa: B018


def unthreaded(call):
    """Run a call with files decoded in its own thread."""
    from dpmodels.sources import files

    threaded, files.read_ahead = files.read_ahead, iter
    try:
        call()
    finally:
        files.read_ahead = threaded


def parquet_part(n, repeats):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        writer = None
        for k in range(max(1, n // 500_000)):
            part = pa.Table.from_pandas(table(500_000, 5, k), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part, row_group_size=500_000)
        writer.close()
        one, two = (lambda k=k: fit(path, FORMULA, BOUNDS, stages=k) for k in (1, 2))
        ordered = lambda: fit(path, FORMULA, BOUNDS, stages=2, public_order=True)  # noqa: E731
        calls = {
            "scan": lambda: scan(path),
            "one stage": lambda: unthreaded(one),
            "two stages": lambda: unthreaded(two),
            "two, public order": lambda: unthreaded(ordered),
            "one stage, reader thread": one,
            "two stages, reader thread": two,
            "two, public order, thread": ordered,
        }
        for call in calls.values():
            call()
        times = {k: [] for k in calls}
        for _ in range(repeats):
            for k, call in calls.items():
                wall = time.perf_counter()
                used = cpu(call)
                times[k].append((used, time.perf_counter() - wall))
        middle = {k: [statistics.median(t) for t in zip(*v, strict=True)] for k, v in times.items()}
        least = {k: min(t for t, _ in v) for k, v in times.items()}
        for k, (used, wall) in middle.items():
            print(
                f"{k:26s} CPU {used:5.2f} s  {used / middle['scan'][0]:.2f} x scan (least of both "
                f"{least[k] / least['scan']:.2f} x)  wall {wall:5.2f} s"
            )
        child = [sys.executable, __file__, "--peak", str(path)]
        print(subprocess.run(child, check=True, capture_output=True, text=True).stdout, end="")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parquet", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-statsmodels", action="store_true")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:  # in a fresh process, so that no pool is warm
        fit(table(1000, 5), FORMULA, BOUNDS)
        peak = peak_anonymous(lambda: fit(args.peak, FORMULA, BOUNDS, stages=2))
        print(f"peak anonymous memory {peak:.0f} MiB")
        return
    print(f"frame: n = {args.rows}, p = 10, {pd.__name__} {pd.__version__}, numpy {np.__version__}")
    frame_part(args.rows, args.repeats, not args.no_statsmodels)
    if args.parquet:
        print(f"parquet: n = {args.parquet}, 5 columns and a response")
        parquet_part(args.parquet, args.repeats)


if __name__ == "__main__":
    main()
