"""A cluster of two workers reads 2e7 rows of Parquet: the same integers, also when workers die.

Every fit is seeded, so equal coefficients mean equal integers. Each is done in one process and on
the cluster, then again while random workers are killed (``--kills`` in all, over the passes of all
fits). CPU of all processes, of the fits without kills; memory of the client above its start.

    python benchmarks/cluster_kills.py [--rows 20000000] [--groups 40] [--kills 20]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import dpmodels as dp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tasks_speed import peak_anonymous, workers_cpu

from dpmodels.sources.executors import Cluster

NAMES = [f"x{j}" for j in range(5)]
RIGHT = " + ".join(NAMES)
SCHEMA = dp.Schema(
    **{c: dp.Real(-4, 4) for c in NAMES},
    y=dp.Real(-12, 12), b=dp.Levels([0, 1]), g=dp.Levels(list("abcd")),
)  # fmt: skip
#: A small eps: no coins, so that one process and the cluster read the same rows.
CALL = {"schema": SCHEMA, "eps": 0.001, "delta": 1e-9, "seed": 1}
FITS = {
    "dp_ols": lambda d: dp.dp_ols(f"y ~ {RIGHT}", d, **CALL),
    "dp_glm": lambda d: dp.dp_glm(f"b ~ {RIGHT}", d, family="binomial", event=1, **CALL),
    "dp_quantreg": lambda d: dp.dp_quantreg(f"y ~ {RIGHT}", d, tau=0.4, **CALL),
    "dp_table": lambda d: dp.dp_table("y ~ g", d, **CALL),
    "dp_npreg": lambda d: dp.dp_npreg("y ~ x0 + x1", d, **{**CALL, "eps": 1}),
    "dp_pca": lambda d: dp.dp_pca(f"{RIGHT} + y ~ 1", d, **{**CALL, "eps": 1}),
    "bought ranges": lambda d: dp.dp_npreg("y ~ x0", d, eps=1, delta=1e-9, seed=1),
}


def write(path, n, groups):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    kinds = [(c, pa.float64()) for c in NAMES]
    schema = pa.schema([*kinds, ("g", pa.string()), ("y", pa.float64()), ("b", pa.int64())])
    m = n // groups
    with pq.ParquetWriter(path, schema) as file:
        for _ in range(groups):
            x = rng.normal(size=(5, m))
            y = x.sum(0) + rng.standard_t(4, size=m)
            g = np.array(list("abcd"))[rng.integers(0, 4, m)]
            b = (rng.random(m) < 1 / (1 + np.exp(0.5 * x[1] - x[0]))).astype(int)
            file.write_table(pa.table([*x, g, y, b], schema=schema), row_group_size=m)


class Deadly:
    """Kills a random worker before given parts of given passes have come."""

    def __init__(self, client, rng):
        self.client, self.rng, self.killed, self.wanted = client, rng, 0, 0
        self.run = Cluster.run

    def __call__(self, crew, packed, pieces):
        places = set()
        if self.killed < self.wanted:
            places = {int(self.rng.integers(0, max(len(pieces) - 2, 1)))}
        for i, part in enumerate(self.run(crew, packed, pieces)):
            if i in places:
                self.kill()
            yield part

    def kill(self):
        for _ in range(40):  # one that is being started again takes a while
            up = set(self.client.run(os.getpid).values())
            keepers = self.client.cluster.workers.values()  # one that is starting cannot restart
            pids = [w.process.pid for w in keepers if w.status.name == "running" and w.process]
            pids = [pid for pid in pids if pid in up]
            if len(pids) == 2:
                os.kill(int(self.rng.choice(pids)), signal.SIGKILL)
                self.killed += 1
                return
            time.sleep(0.5)


def numbers(fit):
    return fit.params.to_numpy()


def same(one, other):
    return bool(np.isfinite(one).any() and np.array_equal(one, other, equal_nan=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--kills", type=int, default=20)
    args = parser.parse_args()
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, args.rows, args.groups)
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options, silence_logs=50) as cluster, Client(cluster) as client:
            plain = {}
            for name, fit in FITS.items():
                start = time.process_time()
                plain[name] = numbers(fit(path))
                one = time.process_time() - start
                with dp.connect(client):
                    fit(path)  # workers have imported everything
                    start = time.process_time() + workers_cpu(client)
                    found = []
                    memory = peak_anonymous(lambda f=fit, to=found: to.append(numbers(f(path))))
                    many = time.process_time() + workers_cpu(client) - start
                print(
                    f"{name:13s} CPU {one:5.2f} s in one process, {many:5.2f} s on the cluster "
                    f"({many / one:.2f}); client {memory:.0f} MiB; the same integers: "
                    f"{same(found[0], plain[name])}",
                    flush=True,
                )
            deadly = Deadly(client, np.random.default_rng(1))
            Cluster.run = lambda crew, packed, pieces: deadly(crew, packed, pieces)
            rounds, each = 0, -(-args.kills // len(FITS))  # of every fit's passes some are hit
            with dp.connect(client):
                while deadly.killed < args.kills and rounds < args.kills:
                    rounds += 1
                    for name, fit in FITS.items():
                        deadly.wanted = min(args.kills, deadly.killed + each)
                        before = deadly.killed
                        agree = same(numbers(fit(path)), plain[name])
                        print(
                            f"{name:13s} {deadly.killed - before} workers killed, one a pass at "
                            f"most; the same integers: {agree}", flush=True,
                        )  # fmt: skip
            print(f"{deadly.killed} workers killed")


if __name__ == "__main__":
    main()
