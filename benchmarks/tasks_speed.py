"""What tasks cost: CPU and wall time of one fit read by one thread, two threads, a Dask cluster.

Parquet with row groups of 100 000 rows, 5 columns and a response; medians of interleaved repeats.
CPU is of all processes (workers of the cluster included). Also: coins of the system and of the
keyed stream, the look-up of BLAS libraries, and the memory of a pyarrow dataset. Run with
OMP_NUM_THREADS=1; wall times mean nothing on a machine that does other work.

    python benchmarks/tasks_speed.py [--rows 4000000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import dpmodels as dp
from dpmodels.sources.keyed import Key


def write(path, n):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([(c, pa.float64()) for c in ("x0", "x1", "x2", "x3", "x4", "y")])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n, 100_000):
            m = min(100_000, n - start)
            x = rng.normal(size=(5, m))
            y = x.sum(0) + rng.normal(size=m)
            file.write_table(pa.table([*x, y], schema=schema))


def fit(path):
    names = [f"x{j}" for j in range(5)]
    bounds = {**{c: (-4, 4) for c in names}, "y": (-12, 12)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ols("y ~ " + " + ".join(names), path, eps=1, delta=1e-9, bounds=bounds)


def peak_anonymous(job):
    """Return the peak anonymous memory above the start, in MiB."""

    def anonymous():
        text = Path("/proc/self/status").read_text()
        return int(text.split("RssAnon:")[1].split()[0]) / 1024

    start, most, done = anonymous(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.005):
            most[0] = max(most[0], anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    job()
    done.set()
    thread.join()
    return most[0] - start


def workers_cpu(client):
    return sum(client.run(time.process_time).values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    import pyarrow.dataset as ds
    from distributed import Client, LocalCluster

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "rows.parquet"
    write(path, args.rows)
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:

        def one():
            fit(path)

        def threads():
            with dp.connect(threads=2):
                fit(path)

        def workers():
            with dp.connect(client):
                fit(path)

        ways = {"one thread": one, "two threads": threads, "cluster, 2 workers": workers}
        for way in ways.values():
            way()
        cpu, wall = {k: [] for k in ways}, {k: [] for k in ways}
        for _ in range(args.repeats):
            for name, way in ways.items():
                c, w = time.process_time() + workers_cpu(client), time.perf_counter()
                way()
                wall[name].append(time.perf_counter() - w)
                cpu[name].append(time.process_time() + workers_cpu(client) - c)
    base_c, base_w = (statistics.median(t["one thread"]) for t in (cpu, wall))
    print(f"load {os.getloadavg()[0]:.1f}, {args.rows} rows")
    for name in ways:
        c, w = statistics.median(cpu[name]), statistics.median(wall[name])
        print(f"{name:20s} CPU {c:6.2f} s ({c / base_c:.2f})   wall {w:6.2f} s ({w / base_w:.2f})")

    def per_row(job, m=2_000_000):
        start = time.process_time()
        job(m)
        return (time.process_time() - start) / m * 1e9

    print(f"coins: system {per_row(os.urandom):.1f} ns a row, "
          f"keyed {per_row(Key(8, b'k' * 32).coins(0, 0).draw):.1f}")  # fmt: skip
    scan = ds.dataset(path)
    print(f"dataset of {path.stat().st_size / 2**20:.0f} MiB: peak "
          f"{peak_anonymous(lambda: fit(scan)):.0f} MiB, path {peak_anonymous(one):.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
