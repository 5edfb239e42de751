"""Set of rows that are summed by class: d numbers x of a row that is in one class, or in none.

A formula returns x and the class. A row adds to the count, to the sums and to the sums of squares
of its class. A row without one, or with a missing number, adds nothing (``models/bayes.md``, 7).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows
from dpmodels.proof.sets import STEPS, Ball, Blocks, Box, OneHot, Simplex
from dpmodels.proof.statistics import ByClass, Sum
from dpmodels.sources.summed import Integers
from dpmodels.sums.ask import Added, Query
from dpmodels.sums.products import TOP, end_of_rows


class Classes:
    """Counts (K,), sums (K, d) and sums of squares (K, d) by class, of ``u = (x - centre)/half``.

    Parameters
    ----------
    classes : int
    within : Ball, Blocks or Box
        Set of u, of radius 1. In a ball, u is scaled. In a box, its numbers are clipped to
        [-1, 1]. In blocks too; a row is in no class where the squares of a block sum to more
        than 1.
    centre, half : (d,) arrays
        Public.
    """

    cells, of_units, of_people = "", False, False

    def __init__(
        self, classes: int, within: Ball | Blocks | Box, centre: Array, half: Array
    ) -> None:
        self.classes, self.within, d = classes, within, within.dim
        self.centre, self.half = centre, half
        self.blocks = within.blocks if isinstance(within, Blocks) else ()
        steps = TOP if isinstance(within, Ball) else STEPS
        self.scale, self.shift = (1.0 / half)[:, None] * steps, (-centre / half)[:, None] * steps
        # Bound of |x|, and set of its squares
        self.norm: float
        self.squares: Any
        if isinstance(within, Ball):
            self.norm, self.squares = 1.0, Simplex(d, complete=False)
        elif isinstance(within, Box):
            self.norm, self.squares = math.sqrt(d), Box(d, low=0)
        else:
            self.norm, self.squares = math.sqrt(within.single + len(self.blocks)), within
        self.joint = ByClass(Sum(Ball(d, self.norm), count=1.0, weight=1.0 / self.norm), classes)

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        shape = self.classes, self.within.dim
        counts, sums = np.zeros(shape[0], dtype=np.int64), np.zeros(shape, dtype=np.int64)
        return counts, sums, np.zeros(shape, dtype=object)

    def add(self, sums: Any, chosen: Any, x: Rows, code: Rows) -> None:
        """Add each row to its class."""
        K, w = self.classes, x.numbers * self.scale
        w += self.shift
        ball = self.within.dim if isinstance(self.within, Ball) else 0
        z, complete = end_of_rows(w, ball, project=True)
        at = code.numbers[0]
        present = (at >= 0.0) & (at < K)
        if complete is not None:
            present &= complete
        for block in self.blocks:
            if len(block) > 1:
                present &= sum(z[j] * z[j] for j in block) <= STEPS**2
        y = np.where(present, at, K).astype(np.intp)
        counts, totals, squares = sums
        counts += np.bincount(y, minlength=K + 1)[:K]
        for j, numbers in enumerate(z):
            # integers of at most 2^20 over 2^13 rows, squares below 2^53: float sums are exact
            for total, mass in ((totals, numbers), (squares, numbers * numbers)):
                part = np.bincount(y, weights=mass, minlength=K + 1)[:K]
                total[:, j] += part.astype(np.int64)

    def exact(self, sums: Any) -> Integers:
        """Return the exact sums."""
        return Integers(sums)

    def query(self, over: Any, of: str) -> Query:
        """Return a query of a reading for this set alone."""
        K, squares = self.classes, Sum(self.squares, products=True)
        queries: dict[str, tuple[Any, Any]] = {
            "counts": (Sum(OneHot(K)), lambda n, *_: n),
            "sums": (ByClass(Sum(Box(self.within.dim)), K), lambda _, sums, __: sums),
            "sums and counts": (
                self.joint, lambda n, sums, _: (sums.astype(object), n.astype(object) << 20)
            ),
            "squares": (squares, lambda *sums: sums[2].sum(axis=0)),
            "squares by class": (ByClass(squares, K), lambda *sums: sums[2]),
        }  # fmt: skip
        statistic, take = queries[of]
        return Query(statistic, over, lambda sums: Added(take(*sums.arrays[0].arrays)))
