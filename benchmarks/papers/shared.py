"""What the scripts of the papers share: their arguments, their reports, the table of all items.

A script holds one function an item of its paper. It takes the number of runs and returns a text and
tables (lists of rows, a row a dict); the report says the command, the runs and the seeds:

    python benchmarks/papers/drcl.py table2 table3 --reps 400

writes ``results/papers/drcl_table2.md`` and so on.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import RESULTS, data_folder, kept, one_core, write

__all__ = [
    "DASH", "RESULTS", "data_folder", "figures", "item", "kept", "main", "rmse", "table", "write",
]  # fmt: skip

#: Where the paper prints no number, or an estimator is not of the paper.
DASH = "-"
#: What a report says of its runs.
SEEDS = "run r has the seed `default_rng([item, case, r])`, a fit of it `seed=r`."
EXACT = "computed, without runs."

Row = dict[str, Any]
Part = Callable[[int], tuple[str, Sequence[tuple[str, Sequence[Row]]]]]


def figures(value: Any, digits: int = 3) -> str:
    """Return a number to some significant figures; text as it is."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return DASH
    if isinstance(value, (int, np.integer)):
        return str(value)
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.{digits}e}"


def table(rows: Sequence[Row]) -> list[str]:
    """Return rows as a table of Markdown."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    return lines + ["| " + " | ".join(figures(r[k]) for k in names) + " |" for r in rows]


def rmse(values: Any, truth: Any) -> float:
    """Return the root mean squared error by coordinate, averaged over the coordinates."""
    error = np.asarray(values, dtype=float) - truth
    return float(np.sqrt(np.nanmean(error**2, axis=0)).mean())


def item(paper: str, name: str) -> list[Any]:
    """Return the tables of a kept item, one frame each."""
    return kept(f"papers/{paper}_{name}")


def main(paper: str, parts: dict[str, tuple[Part, int]]) -> None:
    """Run the named items of a paper (all without a name) and keep their results."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("items", nargs="*", help=", ".join(parts))
    parser.add_argument("--reps", type=int, help="runs instead of the item's own number")
    arguments = parser.parse_args()
    if unknown := set(arguments.items) - set(parts):
        parser.error(f"no such item: {', '.join(sorted(unknown))}; there are: {', '.join(parts)}")
    warnings.simplefilter("ignore")
    for name in arguments.items or parts:
        part, runs = parts[name]
        runs = arguments.reps or runs
        start = time.process_time()
        text, tables = part(runs)
        said = f" --reps {runs}" if runs else ""
        lines = [f"# {(part.__doc__ or name).splitlines()[0].rstrip('.')}", "", text, ""]
        lines += [f"`python benchmarks/papers/{paper}.py {name}{said}`; {SEEDS if runs else EXACT}"]
        for title, rows in tables:
            lines += ["", *([f"## {title}", ""] if title else []), *table(rows)]
        lines += one_core(start)
        write(RESULTS / "papers" / f"{paper}_{name}.md", lines)
        print("\n".join(lines), flush=True)
