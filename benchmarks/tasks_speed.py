"""What tasks cost: CPU and wall time of one fit on one core, by two threads, a cluster.

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
from dpmodels.sources.rows import Key


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


def fit(path, verb=dp.dp_ols, **more):
    names = [f"x{j}" for j in range(5)]
    bounds = {**{c: (-4, 4) for c in names}, "y": (-12, 12)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return verb("y ~ " + " + ".join(names), path, eps=1, delta=1e-9, bounds=bounds, **more)


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
    """Return the CPU seconds of all workers so far."""
    return sum(client.run(time.process_time).values())


def measured(title, ways, job, args, client):
    """Print CPU and wall time of each way, and over those of the first."""
    for way in ways.values():
        way(job)
    cpu, wall = {k: [] for k in ways}, {k: [] for k in ways}
    for _ in range(args.repeats):
        for name, way in ways.items():
            before = time.process_time() + workers_cpu(client)
            start = time.perf_counter()
            way(job)
            wall[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() + workers_cpu(client) - before)
    base_c, base_w = (statistics.median(t["one core"]) for t in (cpu, wall))
    print(f"{title}, {args.rows} rows, load {os.getloadavg()[0]:.1f}")
    for name in ways:
        c, w = statistics.median(cpu[name]), statistics.median(wall[name])
        print(f"{name:26s} CPU {c:6.2f} s ({c / base_c:.2f})   wall {w:6.2f} s ({w / base_w:.2f})")


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
    with (
        LocalCluster(**options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        def pinned(job):
            whole = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {min(whole)})
            job()
            os.sched_setaffinity(0, whole)

        def threads(job):
            with dp.connect(threads=2):
                job()

        def workers(job):
            with dp.connect(client):
                job()

        ways = {
            "one core": pinned, "as it comes": lambda job: job(),
            "two threads": threads, "cluster, 2 workers": workers,
        }  # fmt: skip
        for title, more in (
            ("dp_ols", {}), ("dp_quantreg", {"verb": dp.dp_quantreg, "tau": 0.5}),
        ):  # fmt: skip
            measured(title, ways, lambda more=more: fit(path, **more), args, client)

    def per_row(job, m=2_000_000):
        start = time.process_time()
        job(m)
        return (time.process_time() - start) / m * 1e9

    print(f"coins: system {per_row(os.urandom):.1f} ns a row, "
          f"keyed {per_row(Key(8, b'k' * 32).coins(0, 0).draw):.1f}")  # fmt: skip
    scan = ds.dataset(path)
    print(f"dataset of {path.stat().st_size / 2**20:.0f} MiB: peak "
          f"{peak_anonymous(lambda: fit(scan)):.0f} MiB, path {peak_anonymous(lambda: fit(path)):.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
