"""What the benchmarks share: ranges as a user would write them, the data folder, CPU times, reports.

Scripts import it as ``common``: their own folder is on the path.
"""

from __future__ import annotations

import math
import os
import statistics
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

#: Codes of notes that name coefficients: clipped residuals; not determined at this budget.
NAMED, OPEN = "clip.large_residuals", "test.too_noisy"
#: Ranges a user would write where rounding outwards would reach 0 under a logarithm.
RANGES = {"wage": (50, 20_000), "earnings": (1, 100)}
#: Where reports are kept.
RESULTS = Path(__file__).resolve().parent / "results"


def outwards(lo, hi):
    """Round a range outwards to half a power of ten of its width."""
    step = 10 ** math.floor(math.log10(max(hi - lo, 1e-12))) / 2
    return math.floor(lo / step) * step, math.ceil(hi / step) * step


def schema_of(frame, formula):
    """What a user would declare: rounded ranges, levels of text and of C() columns."""
    coded = {w[2:].split(")")[0] for w in formula.split() if w.startswith("C(")}
    facts = {}
    for name, column in frame.items():
        if not pd.api.types.is_numeric_dtype(column) or name in coded:
            facts[name] = dp.Levels(sorted(column.unique().tolist()))
        else:
            facts[name] = dp.Real(*outwards(float(column.min()), float(column.max())))
    return dp.Schema(**facts)


def data_folder(otherwise=None):
    """Return the folder in DPMODELS_DATA; without it ``otherwise``, or shared/data beside here."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("DPMODELS_DATA") or otherwise or beside)


def design_matrix(frame, formula, schema):
    """Return (design matrix, response) of a whole table, cells as a fit reads them."""
    from dpmodels.formula.build import build_design
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tasks import as_source

    design = build_design(formula, schema)
    Z = np.hstack([b.copy() for b in Rows(as_source(frame), len(frame)).blocks(design)])
    return Z[:-1].T, Z[-1]


def marked(fit, code):
    """Return a mask of the coefficients that notes with this code name."""
    out = np.zeros(len(fit.params), dtype=bool)
    for note in fit.notes.records:
        if note.code == code:
            out |= np.array([name in note.columns for name in fit.params.index])
    return out


def coverage_line(group, name, size, eps, c):
    """Return the row of a table of coverage: the figures of one design at one n and eps."""
    return (
        f"| {group} | {name} | {size} | {eps} | "
        f"{c['cover']:.3f} / {c['least']:.2f} | {c['unnamed']:.3f} / "
        f"{c['least unnamed']:.2f} | {c['named']} | {c['width']:.2f} | {c['rmse']:.2f} | "
        f"{c['bias']:.2f} | {c['twin']:.2f} | {c['open']:.2f} |"
    )


def coverage_over(found, groups, twin):
    """Return (and print) the second table: cells (n, eps) over designs, by group and all."""
    head = f"| group | n | eps | coverage | median width | median RMSE | designs with {twin} >= .92: "
    lines = ["", "## Over designs", "", head + "coverage, least not named |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for (n, eps), rows in found.items():
        for group in (*groups, "all"):
            part = [c for g, _, c in rows if group in (g, "all")]
            if not part:
                continue
            good = [c for c in part if c["twin"] >= 0.92] or part
            lines.append(
                f"| {group} | {n} | {eps} | {np.mean([c['cover'] for c in part]):.3f} | "
                f"{np.median([c['width'] for c in part]):.2f} | "
                f"{np.median([c['rmse'] for c in part]):.2f} | "
                f"{np.mean([c['cover'] for c in good]):.3f}, "
                f"{np.nanmin([c['least unnamed'] for c in good]):.2f} |"
            )
            print(lines[-1], flush=True)
    return lines


def cpu(job):
    """Return the CPU seconds of a call."""
    start = time.process_time()
    job()
    return time.process_time() - start


def medians(ways, repeats):
    """Return the median CPU seconds of each way, in interleaved runs: for ratios."""
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            times[name].append(cpu(way))
    return {name: statistics.median(t) for name, t in times.items()}


def peak(job):
    """Return the memory that a call takes at its highest, MiB above the start."""
    tracemalloc.start()
    job()
    _, top = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return top / 2**20


def one_core(start):
    """Return the last lines of a report: the CPU time since ``start``."""
    return ["", f"{time.process_time() - start:.0f} s on one core."]


def write(path, lines):
    """Write a report."""
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def kept(name):
    """Return the tables of a kept result, one frame each; cells that are all numbers as numbers."""
    found, rows = [], []
    for line in [*(RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            table = pd.DataFrame(rows[2:], columns=rows[0])
            found.append(table.apply(_as_numbers))
            rows = []
    return found


def _as_numbers(column):
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().any() else numbers
