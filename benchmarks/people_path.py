"""Memory and time of a fit by person over a Parquet file: ``sort="duckdb"`` against memory.

``python benchmarks/people_path.py [rows ...]`` : files of about five rows a person, in order of
people and in no order, each fitted in a process of its own.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

T = 5
BOUNDS = {"y": (-6, 6), "xb": (-1, 1), "xw": (-1, 1)}
PART = 1_000_000


def write(path, n, in_order, seed=1):
    """Rows of n/5 people, part by part; the truth is .5 + xb + .5 xw."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(seed), None
    for start in range(0, n, PART):
        m = min(PART, n - start)
        if in_order:
            pid = np.arange(start, start + m) // T
        else:
            pid = rng.integers(0, n // T, m)  # 1 to about 18 rows a person
        xb = (pid * 2654435761 % 2**32) / 2**31 - 1.0  # constant in the person
        xw = rng.uniform(-1, 1, m)
        y = 0.5 + xb + 0.5 * xw + rng.normal(size=m)
        table = pa.table({"pid": pid, "xb": xb, "xw": xw, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=100_000)
    writer.close()


class Peak(threading.Thread):
    """The largest anonymous memory of this process, looked at twenty times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0

    def now(self):
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) // 1024
        return 0

    def run(self):
        while True:
            self.most = max(self.most, self.now())
            time.sleep(0.05)


def one(path, sort, units):
    """One fit in this process: MB of anonymous memory before and at most, CPU seconds."""
    import pyarrow.parquet  # noqa: F401

    import dpmodels as dp

    warnings.simplefilter("ignore")
    peak = Peak()
    before = peak.now()
    peak.start()
    cpu, wall = time.process_time(), time.perf_counter()
    fit = dp.dp_ols("y ~ xb + xw", path, eps=1, delta=1e-9, bounds=BOUNDS, unit="pid", seed=1,
                    progress=False, **({"sort": sort} if sort else {}),
                    **({"units": units} if units else {}))  # fmt: skip
    return {
        "before": before, "peak": peak.most, "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall, "params": [float(v).hex() for v in fit.params],
        "people": fit.nobs,
    }  # fmt: skip


def main(sizes):
    with tempfile.TemporaryDirectory() as place:
        for n in sizes:
            for in_order in (True, False):
                path = Path(place) / "panel.parquet"
                write(path, n, in_order)
                seen = set()
                for sort, units in (("", 0), ("duckdb", 0), ("duckdb", n // T + 1)):
                    run = subprocess.run(
                        [sys.executable, __file__, "one", str(path), sort, str(units)],
                        capture_output=True, text=True,
                    )  # fmt: skip
                    if run.returncode:
                        raise SystemExit(run.stderr)
                    found = json.loads(run.stdout.splitlines()[-1])
                    if not units:  # the declared number is another number of people
                        seen.add(tuple(found["params"]))
                    order = "in order" if in_order else "in no order"
                    counted = "declared" if units else "counted"
                    print(
                        f"{n:.0e} rows {order:12} {sort or 'memory':8} people {counted:9} "
                        f"{found['before']:5d} -> {found['peak']:5d} MB, {found['cpu']:6.1f} s CPU, "
                        f"{found['wall']:6.1f} s, {found['people']} people",
                        flush=True,
                    )
                print("  the same estimates, bit for bit:", len(seen) == 1, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main([int(float(a)) for a in sys.argv[1:]] or [2_000_000, 20_000_000])
