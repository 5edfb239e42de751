"""A test of tests: rejections in random parts of the rows (``models/table/theory.md``, 3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.formula.design import Design
from dpmodels.planning import Plan
from dpmodels.proof.prove import Of
from dpmodels.records import Release
from dpmodels.sources.rows import Rows
from dpmodels.sums.ask import Added, Ask, Query

_REJECTIONS_STEP = "rejections"


@dataclass(frozen=True)
class Split:
    """Parts, level of each, and the public test."""

    m: int
    a0: float
    test: Callable[[Any], Any]


def release(plan: Plan[Split], ask: Ask) -> Release:
    """Release the noisy number of rejections.

    **Privacy.** Unit: one row; replace-one, n public. Which rows make a part is drawn without
    looking at them, so a row is in one part whatever it holds, and moves the count by at most 1. A
    test that fails, or says nothing, rejects nothing.
    """
    split = plan.detail
    over = _Parts(split, plan.design, ask)
    rejected = Query(
        Of("rejections", ()), over, lambda k: Added(np.array([k], dtype=object)), whole=True
    )
    noisy = ask(_REJECTIONS_STEP, rejected).values
    dither = int(ask.coins(8).copy().view(np.uint64)[0]) * 2.0**-64 - 0.5
    return Release({"rejections": noisy + dither}, plan.guarantee, plan.design)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The number of random parts on which the test rejects."""

    split: Split
    design: Design
    ask: Ask

    def total(self, rows: Rows, reading: Any) -> int:
        """Return the number. Confidential."""
        n, m = rows.n, self.split.m
        table = _frame(rows, self.design)
        keys = self.ask.coins(8 * n).copy().view(np.uint64)
        part = np.empty(n, dtype=np.intp)
        part[np.argsort(keys, kind="stable")] = np.arange(n) % m
        rejected = 0
        for k in range(m):
            rows_of_part = table[part == k].reset_index(drop=True)
            try:
                p = float(self.split.test(rows_of_part))
            except KeyboardInterrupt:
                raise
            except BaseException:  # whatever the test does with these rows is private
                p = math.nan
            rejected += p <= self.split.a0
        return rejected


def _frame(rows: Rows, design: Design) -> Any:
    """Return the cells of all rows: numbers in their ranges, categories by their levels.

    Read by the caller: the user's test takes a table, and is not sent to workers.
    """
    import pandas as pd

    program: Any = design.program
    cells = np.concatenate([block.copy() for block in rows.blocks(design)], axis=1)
    columns = {}
    for source, values in zip(program.sources, cells, strict=True):
        if source.levels is None:
            columns[source.name] = values
        else:
            levels = np.array([*source.levels, None], dtype=object)
            columns[source.name] = levels[values.astype(np.intp)]
    return pd.DataFrame(columns)
