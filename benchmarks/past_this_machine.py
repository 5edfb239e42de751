"""What a fit of any size will cost: a cost model from small runs, and a run of 1e9 rows beside it.

A pass costs ``n (b0 + b1 q + b2 q^2)`` CPU seconds, q columns with the response, measured at n up
to 4e6; a task ships its plan and returns its sums. The table of 1e9 rows is one frame of 1e6 rows
said a thousand times: it is read as a thousand parts, and memory must stay flat.

    python benchmarks/past_this_machine.py [--rows 1000000000]
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tasks_speed import peak_anonymous

from dpmodels.sources.executors import Threads
from dpmodels.sources.parts import CONNECTED
from dpmodels.sources.summed import Task

PART = 1_000_000


def part(q, rows=PART):
    rng = np.random.default_rng(q)
    Z = rng.normal(size=(rows, q))
    Z[:, -1] += Z[:, : min(3, q - 1)].sum(1)
    frame = pd.DataFrame(Z, columns=[*(f"x{j}" for j in range(q - 1)), "y"])
    frame["b"] = (frame["y"] > 0).astype(float)
    return frame


def call(q):
    bounds = {**{f"x{j}": (-4, 4) for j in range(q - 1)}, "y": (-12, 12)}
    return {"eps": 0.5, "delta": 1e-12, "bounds": bounds}


def right(q):
    return " + ".join(f"x{j}" for j in range(q - 1))


FITS = {
    "dp_ols, one stage": lambda d, q: dp.dp_ols(f"y ~ {right(q)}", d, stages=1, **call(q)),
    "dp_ols": lambda d, q: dp.dp_ols(f"y ~ {right(q)}", d, **call(q)),
    "dp_glm, logit": lambda d, q: dp.dp_glm(
        f"b ~ {right(q)}", d, family="binomial", event=1.0, **call(q)
    ),
}


def cpu(job):
    start = time.process_time()
    job()
    return time.process_time() - start


def slope(fit, q, repeats=3):
    """Return CPU ns a row at the sizes of large tables: between 1e6 and 4e6 rows."""
    parts = [part(q)]
    fit(parts, q)
    small, large = (min(cpu(lambda k=k: fit(parts * k, q)) for _ in range(repeats)) for k in (1, 4))
    return (large - small) / (3 * PART) * 1e9


def shipped(q):
    """Return bytes of the plan of a task and of what it returns: the most of any pass."""
    most = [0, 0]
    done = Task.add_part

    def seen(self, *given):
        found = done(self, *given)
        most[0] = max(most[0], len(self.packed()))
        most[1] = max(most[1], len(pickle.dumps(found)))
        return found

    Task.add_part = seen
    CONNECTED.append(Threads(2, 1 << 19))
    try:
        FITS["dp_ols"](part(q), q)
    finally:
        CONNECTED.pop()
        Task.add_part = done
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    widths = (4, 8, 16, 32)
    for name, fit in FITS.items():
        costs = np.array([slope(fit, q) for q in widths])
        design = np.array([[1.0, q, q * q] for q in widths])
        # relative errors count: a model that is off by a tenth everywhere
        model = np.linalg.lstsq(design / costs[:, None], np.ones(len(widths)), rcond=None)[0]
        print(name, "ns a row:", {q: round(c, 1) for q, c in zip(widths, costs, strict=True)})
        print(f"  = {model[0]:.2f} + {model[1]:.2f} q + {model[2]:.4f} q^2", flush=True)
        if args.rows:
            q = 6
            expected = args.rows * (model @ [1, q, q * q]) * 1e-9
            parts = [part(q)] * (args.rows // PART)
            start = time.process_time()
            memory = peak_anonymous(lambda f=fit, d=parts, q=q: f(d, q))
            spent = time.process_time() - start
            print(
                f"  {args.rows:.0e} rows, q = {q}: predicted {expected:.0f} s, took {spent:.0f} s"
                f" ({spent / expected:.2f}), {memory:.0f} MiB", flush=True,
            )  # fmt: skip
    for q in (6, 16, 51):
        plan, sums = shipped(q)
        print(f"a task of dp_ols, q = {q}: plan {plan} bytes, sums {sums} bytes", flush=True)


if __name__ == "__main__":
    main()
