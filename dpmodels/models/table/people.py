"""Products of the contributions of people to a table, for errors of their shares and means.

A person adds the vector a of its shares of the cells of a table, one unit in all. Beside the
tables the sums of its products are released, a cell for each pair: ``a_i^2`` and ``2 a_i a_j``.
They are not negative and one unit in all, so they are a table too (``units.md``, 11.6). By them
the sampling variance of any linear statistic of a table is known, where that of rows drawn one by
one is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.release import answered
from dpmodels.formula.design import Design
from dpmodels.models.table.layout import Layout, Section, table_release
from dpmodels.models.table.noise import TableNoise
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.sums.ask import Ask

#: Name of the step, and its share of mu^2 (of eps with Laplace noise).
PAIRS_STEP, PAIRS_SHARE = "products of people", 0.1
#: Tables of more cells than this have no products: their noise would be all there is.
MOST_PAIRED = 60
#: Noise sd of a design effect at which it counts half, and its least value.
_UNSURE, _LEAST = 0.3, 1e-3


def may_pair(layout: Layout) -> bool:
    """Return whether a table of the layout is small enough for products."""
    return any(layout.cells(block.axes) <= MOST_PAIRED for block in layout.blocks)


@dataclass(frozen=True)
class PairPlan:
    """The products that a call releases: public facts."""

    layout: Layout
    blocks: tuple[int, ...]  # Blocks of the layout that have products
    noise: TableNoise

    @classmethod
    def of(cls, layout: Layout, kind: str, budget: float) -> PairPlan:
        """Plan the products of the tables that are small enough."""
        sizes = [layout.cells(block.axes) for block in layout.blocks]
        blocks = tuple(b for b, size in enumerate(sizes) if size <= MOST_PAIRED)
        return cls(layout, blocks, TableNoise(kind, budget, (1.0 / len(blocks),) * len(blocks)))

    def step(self, share: float) -> Step:
        """Return the step of the products, with its share of the budget of the call."""
        kind = Pure if self.noise.kind == "laplace" else Gaussian
        return Step(PAIRS_STEP, kind(self.noise.budget), share=share)

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells of the tables that have products."""
        return tuple(self.layout.cells(self.layout.blocks[b].axes) for b in self.blocks)

    def release(self, ask: Ask, design: Design, scale: tuple[Array, Array]) -> Array:
        """Release the products, numbers in windows.

        **Privacy.** Unit: one person; replace-one, the number of people is public. In each table
        the products of a person are one unit of mass.
        """
        blocks = [self.layout.blocks[b] for b in self.blocks]
        shares = self.noise.shares
        pairs = table_release(PAIRS_STEP, self.layout, shares, design, pairs=blocks, scale=scale)
        return np.asarray(answered(pairs, ask).values)

    def read(self, noisy: Array) -> Products:
        """Return the released products by block."""
        out, at = {}, 0
        for j, (b, k) in enumerate(zip(self.blocks, self.cells, strict=True)):
            pairs = k * (k + 1) // 2
            part = noisy[at : at + pairs]
            at += pairs + 1  # the last is what rounding leaves of a unit
            square = np.zeros((k, k))
            square[np.triu_indices(k)] = part
            square = (square + square.T) / 2.0  # a cell of two holds both orders
            out[b] = square, math.sqrt(self.noise.variance(j))
        return Products(self.layout, out)


@dataclass(frozen=True)
class Products:
    """Released sums of products ``a_i a_j`` over people, with the noise of a pair, by block."""

    layout: Layout
    of_block: dict[int, tuple[Array, float]]

    def block_of(self, section: Section) -> int | None:
        """Return the smallest table that has the axes of a section, or None."""
        blocks = self.layout.blocks
        fit = [
            b for b in self.of_block
            if set(section.axes) <= set(blocks[b].axes)
            and section.number in (-1, blocks[b].number)
        ]  # fmt: skip
        return min(fit, key=lambda b: self.layout.cells(blocks[b].axes), default=None)

    def indicators(self, block: int, axes: tuple[int, ...]) -> Array:
        """Return which cells of a block (columns) are in each cell of a margin (rows)."""
        mine = self.layout.blocks[block].axes
        shape = [self.layout.axes[j].size for j in mine]
        cell = np.array(np.unravel_index(np.arange(math.prod(shape)), shape))
        keep = [mine.index(j) for j in axes]
        sizes = [shape[i] for i in keep]
        to: Any = 0
        for i, size in zip(keep, sizes, strict=True):
            to = to * size + cell[i]
        rows = np.arange(math.prod(sizes))[:, None] * np.ones(cell.shape[1])
        return np.asarray(to == rows, dtype=float)

    def trace(self, block: int, M: Array) -> tuple[float, float]:
        """Return the sum over people of ``a'M a``, M symmetric, and its noise sd."""
        G, sd = self.of_block[block]
        squares = float((M**2).sum() + (np.diag(M) ** 2).sum()) / 2.0
        return float((M * G).sum()), sd * math.sqrt(squares)

    def effect(self, block: int, M: Array, bound: float) -> float:
        """Return a sum of squares of people over the one of rows drawn one by one, at most 1.

        The noisier the ratio, the nearer to 1, which is a bound of it.
        """
        value, sd = self.trace(block, M)
        if not bound > 0.0:
            return 1.0
        ratio, sd = value / bound, sd / bound
        sure = _UNSURE**2 / (_UNSURE**2 + sd * sd)
        return min(max(sure * ratio + 1.0 - sure, sd, _LEAST), 1.0)

    def test_effect(self, block: int, L: Array, V: Array) -> float:
        """Return :meth:`effect` of a test of L a, whose covariance is V for rows drawn one by one.

        It is the mean design effect of the directions of the test (Rao and Scott 1981).
        """
        inverse = np.linalg.pinv(V, hermitian=True)
        return self.effect(block, L.T @ inverse @ L, float(np.trace(inverse @ V)))

    def effects(self, block: int, L: Array, bounds: Array) -> Array:
        """Return :meth:`effect` of single statistics: the rows of L."""
        return np.array([
            self.effect(block, np.outer(row, row), float(bound))
            for row, bound in zip(L, bounds, strict=True)
        ])  # fmt: skip
