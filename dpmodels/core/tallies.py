"""Sets of rows that are counted, or summed with a few powers: for scores and diagnoses of a fit.

A row that is not complete adds nothing (``models/holdout.md``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.core.rows import Rows
from dpmodels.core.sets import Integers, Part
from dpmodels.proof.sets import STEPS, Box, OneHot
from dpmodels.proof.statistics import ByClass, Powers, Sum
from dpmodels.sums.ask import Added
from dpmodels.sums.products import end_of_numbers


class Tally(Integers):
    """Base: running sums of integers, in steps of ``size``."""

    size: float = 1.0

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        return np.zeros(self.shape, dtype=np.int64)

    def exact(self, sums: Any) -> Any:
        """Return the exact sums."""
        return sums.astype(object)

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the one noisy array."""
        return (Part(name, self.statistic, lambda sums: Added(sums, self.size)),)


class OneOf(Tally):
    """One cell of a row, or none where its code is not a number from 0."""

    def __init__(self, cells: int) -> None:
        self.shape, self.statistic = (cells,), Sum(OneHot(cells))

    def add(self, sums: Any, chosen: Any, code: Rows) -> None:
        """Count the codes. A code beyond the last cell is in the last."""
        at, _ = places(code, self.shape[0])
        sums += np.bincount(at, minlength=self.shape[0])


class MarksOfComplete(Tally):
    """d marks of complete rows, and then how many rows are complete."""

    def __init__(self, d: int) -> None:
        self.shape, self.statistic = (d + 1,), Sum(Box(d, low=0), count=1.0)

    def add(self, sums: Any, chosen: Any, marks: Rows, complete: Rows) -> None:
        """Count the marks (not 0) of rows that are complete."""
        present = complete.numbers[0] == 1.0
        sums[:-1] += ((marks.numbers != 0) & present).sum(axis=1)
        sums[-1] += int(present.sum())


class Losses(Tally):
    """``(1, t, t^2)`` of rows, t in [0, 1]."""

    shape, size, statistic = (3,), 1.0 / STEPS, Powers(1, low=0)

    def add(self, sums: Any, chosen: Any, t: Rows) -> None:
        """Add the powers of each t that is not missing."""
        x = np.clip(t.numbers[0][~np.isnan(t.numbers[0])], 0.0, 1.0)
        parts = (np.full(len(x), STEPS), end_of_numbers(x), end_of_numbers(x * x))
        sums += np.array([int(part.sum()) for part in parts])


class ByBin(Tally):
    """``(1_k, t 1_k)`` by bin k of a row, t in [-1, 1]: counts, then sums (or these first)."""

    def __init__(self, bins: int, steps: float = STEPS, *, count_first: bool = True) -> None:
        self.shape, self.steps, self.size, self.first = (2, bins), steps, 1.0 / steps, count_first
        self.statistic = ByClass(Sum(Box(1), count=1.0, count_first=count_first), bins)

    def add(self, sums: Any, chosen: Any, code: Rows, t: Rows) -> None:
        """Add t to the bin of each row that has one."""
        bins = self.shape[1]
        at, present = places(code, bins)
        numbers = end_of_numbers(t.numbers[0][present], steps=self.steps)
        counts, totals = sums if self.first else sums[::-1]
        counts += np.bincount(at, minlength=bins) * int(self.steps)
        totals += np.bincount(at, weights=numbers, minlength=bins).astype(np.int64)


def places(code: Rows, cells: int) -> tuple[Any, Any]:
    """Return the cells of rows that have one, and which these rows are."""
    at = code.numbers[0]
    present: Any = at >= 0.0
    if present.all():
        present = slice(None)
    return np.minimum(at[present], cells - 1).astype(np.intp), present
