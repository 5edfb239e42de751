"""Plan and private stage of a score or a diagnosis: one pass, one release a group of sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.passes import Counts
from dpmodels.exact.products import mapped
from dpmodels.exact.prove import noise_of
from dpmodels.exact.sets import Box, Mark
from dpmodels.exact.statistics import ByClass, Powers, Sum
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design

# -- What one row gives to the sums of a score or a diagnosis: integers, bounded row by row


@dataclass(frozen=True, eq=False)
class Predictor:
    """The released fit as a map of a block ``(q, m)`` to predictions: public.

    Attributes
    ----------
    params : (p,) array
    mean : function
        Inverse link.
    """

    params: Array
    mean: Callable[[Array], Array]

    def both(self, block: Array) -> tuple[Array, Array]:
        """Return (prediction, response), (m,) each; NaN in rows with a missing cell."""
        with np.errstate(all="ignore"):
            eta = mapped(self.params[None], block[:-1])[0]
            return np.asarray(self.mean(eta), dtype=float), np.array(block[-1])


def _whole(*parts: Array) -> Array:
    return np.logical_and.reduce([np.isfinite(p) for p in parts])


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts of (class, bin of the prediction): one cell of 2K a complete row.

    Attributes
    ----------
    predictor : Predictor
    edges : (K - 1,) array
        Between the bins.
    """

    predictor: Predictor
    edges: Array

    unit = 1.0

    @property
    def size(self) -> int:
        """Cells."""
        return 2 * (len(self.edges) + 1)

    @property
    def statistic(self) -> Sum:
        """One cell a row, or none."""
        return Sum(Mark(self.size))

    def of_block(self, block: Array) -> Array:
        """Return the counts of a block, others first, then events."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        place = np.searchsorted(self.edges, seen[whole], side="right")
        cell = place + (len(self.edges) + 1) * (y[whole] > 0.5)
        return np.asarray(np.bincount(cell.astype(np.intp), minlength=self.size), dtype=float)


@dataclass(frozen=True, eq=False)
class LossSums:
    """``sum (1, t, t^2)`` over complete rows, t in [0, 1]: a loss over its clip.

    Attributes
    ----------
    predictor : Predictor
    loss : {"squared", "log"}
    clip : float
        Losses beyond it count as it.
    """

    predictor: Predictor
    loss: str
    clip: float

    unit, size = 1.0 / STEPS, 3
    statistic = Powers(1, low=0)

    def of_block(self, block: Array) -> Array:
        """Return the sums of a block in lattice steps."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        seen, y = seen[whole], y[whole]
        if self.loss == "log":
            p = np.clip(np.where(y > 0.5, seen, 1.0 - seen), math.exp(-self.clip), 1.0)
            loss = -np.log(p)
        else:
            loss = (y - seen) ** 2
        t = loss / self.clip
        np.clip(t, 0.0, 1.0, out=t)
        parts = [np.full(len(t), STEPS), end_of_numbers(t), end_of_numbers(t * t)]
        return np.array([part.sum() for part in parts])


@dataclass(frozen=True, eq=False)
class AtBounds:
    """For each column: complete rows whose cell is at an end of its range; then complete rows.

    Attributes
    ----------
    low, high : (d,) arrays
    rows : (d,) int array
        Places in the block.
    """

    low: Array
    high: Array
    rows: Array

    unit = 1.0

    @property
    def size(self) -> int:
        """Cells."""
        return len(self.low) + 1

    @property
    def statistic(self) -> Sum:
        """Indicators, and the count."""
        return Sum(Box(len(self.low), low=0), count=1.0)

    def of_block(self, block: Array) -> Array:
        """Return the counts of a block."""
        cells = block[self.rows]
        whole = np.isfinite(block).all(axis=0)
        at = (cells <= self.low[:, None]) | (cells >= self.high[:, None])
        return np.append((at & whole).sum(axis=1), whole.sum())


@dataclass(frozen=True, eq=False)
class BinnedResiduals:
    """``(1_k, t 1_k)`` by bin k of the prediction, t in [-1, 1]: residuals over their clip.

    Attributes
    ----------
    predictor : Predictor
    edges : (K - 1,) array
    clip : float
    """

    predictor: Predictor
    edges: Array
    clip: float

    unit = 1.0 / STEPS

    @property
    def size(self) -> int:
        """Cells: counts, then sums."""
        return 2 * (len(self.edges) + 1)

    @property
    def statistic(self) -> ByClass:
        """(1, t) of the bin of a row."""
        return ByClass(Sum(Box(1), count=1.0, count_first=True), len(self.edges) + 1)

    def of_block(self, block: Array) -> Array:
        """Return the sums of a block in lattice steps."""
        seen, y = self.predictor.both(block)
        whole = _whole(seen, y)
        k = len(self.edges) + 1
        place = np.searchsorted(self.edges, seen[whole], side="right")
        t = end_of_numbers((y - seen)[whole], self.clip)
        counts = np.bincount(place, minlength=k) * STEPS
        sums = np.bincount(place, weights=t, minlength=k)
        return np.append(counts, sums)


Sums = ClassCounts | LossSums | AtBounds | BinnedResiduals


def added_up(blocks: Iterable[Array], sums: tuple[Sums, ...]) -> tuple[Array, ...]:
    """Return the exact integer sums over blocks; **confidential**."""
    total = [np.zeros(one.size, dtype=object) for one in sums]
    for block in blocks:
        for kept, one in zip(total, sums, strict=True):
            kept += np.array([int(v) for v in one.of_block(block)], dtype=object)
    return tuple(total)


@dataclass(frozen=True, eq=False)
class HoldoutPlan:
    """Everything public about a release on held-out rows.

    Attributes
    ----------
    design : Design
        Of the fit.
    n : int
    sums : tuple of Sums
        One a step.
    guarantee : Guarantee
    advice : tuple of str
    """

    design: Design
    n: int
    sums: tuple[Sums, ...]
    guarantee: Guarantee
    advice: tuple[str, ...] = ()


def plan_holdout(
    design: Design, n: int, parts: dict[str, tuple[Sums, float]], eps: float, delta: float
) -> HoldoutPlan:
    """Plan the release of some sums; ``parts``: step -> (sums, share of the budget)."""
    steps = []
    for name, (_, share) in parts.items():
        if delta > 0:
            steps.append(Step(name, Gaussian(mu_gdp(eps, delta) * math.sqrt(share)), share=share))
        else:
            steps.append(Step(name, Pure(eps * share), share=share))
    guarantee = Guarantee(tuple(steps), eps, delta, "replace")
    return HoldoutPlan(design, n, tuple(one for one, _ in parts.values()), guarantee)


def noise_sd(plan: HoldoutPlan, k: int) -> float:
    """Return the noise sd of each cell of the k-th sums, in their own units."""
    one, mechanism = plan.sums[k], plan.guarantee.steps[k].mechanism
    scale = float(noise_of(one.statistic, mechanism, plan.guarantee.relation)[0])
    return math.sqrt(2.0) * scale if isinstance(mechanism, Pure) else scale


def release(plan: HoldoutPlan, ask: Ask) -> tuple[Array, ...]:
    """Release the sums of the plan. One pass; alone in seeing rows.

    Privacy
    -------
    Unit: one row; replace-one, n public. Sensitivities: ``theory.md``, exact in integers.
    """
    over = Counts(plan.design, functools.partial(added_up, sums=plan.sums))
    return tuple(
        ask(
            step.name, Query(one.statistic, over, functools.partial(_of, k=k, unit=one.unit))
        ).values
        for k, (step, one) in enumerate(zip(plan.guarantee.steps, plan.sums, strict=True))
    )


def _of(totals: tuple[Array, ...], k: int, unit: float) -> Added:
    """Return the k-th of several sums, in steps of its own."""
    return Added(totals[k], unit)
