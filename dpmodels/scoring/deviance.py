"""Deviance, null deviance and what follows from them: one more pass, asked for.

A unit deviance is a Bregman divergence, ``d(y, mu) = 2 (phi(y) - phi(mu) - phi'(mu) (y - mu))``, so
the null deviance is ``2 (sum phi(y) - n phi(mean y))``: three sums of bounded numbers, and the
number of rows in them, say both (``theory.md``, 5.7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.after.explained import explained
from dpmodels.arrays import Array
from dpmodels.exact.ask import Query
from dpmodels.exact.bycell import seen_by_row
from dpmodels.exact.end import STEPS, end_of_numbers, integers_of, towards_zero
from dpmodels.exact.people import sums
from dpmodels.exact.products import mapped
from dpmodels.exact.sets import Box, Hull
from dpmodels.exact.statistics import Sum
from dpmodels.scoring.cells import scoring_grid, seen_of_cells
from dpmodels.scoring.rules import STATISTICS_STEP
from dpmodels.scoring.sums import AT_CLIP
from dpmodels.scoring.words import SEEN
from dpmodels.sources.summed import summed

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.families import Family, Link
    from dpmodels.formula.design import Design
    from dpmodels.formula.grid import Grid
    from dpmodels.scoring.rules import PassPlan
    from dpmodels.scoring.sums import Centre
    from dpmodels.sources.people import BlockOfPeople

#: A unit deviance counts up to this many dispersions.
LONGEST = 12.0
#: Weight of the count of whole rows beside three sums of numbers in [-1/2, 1/2] over them: the
#: largest at which it is free.
COUNT = 1.5
_GRID = 4097


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """Released sums over whole rows and their noise.

    Attributes
    ----------
    whole : float
        Whole rows.
    sums : (3,) array
        Of y, phi(y) and d(y, mu).
    lift : (4, 3) array
        What one sd of each independent noise, that of the count first, moves the sums by.
    sd : float
        Of the count.
    """

    whole: float
    sums: Array
    lift: Array
    sd: float


@dataclass(frozen=True, eq=False)
class Deviance:
    """The public map of a row to its three numbers, at a released fit.

    Attributes
    ----------
    family, link, alpha
    centre : Centre
        Where eta is taken.
    low, width : (3,) arrays
        Public ranges of y, phi(y), d(y, mu).
    """

    family: Family
    link: Link
    alpha: float
    centre: Centre
    low: Array
    width: Array

    @classmethod
    def of(
        cls,
        family: Family,
        link: Link,
        alpha: float,
        phi: float,
        centre: Centre,
        interval: tuple[float, float],
    ) -> Deviance:
        """Return the map for responses in a public interval."""
        y = np.linspace(*interval, _GRID)
        y = np.append(y, np.arange(max(interval[0], 0.0), min(interval[1], 4096.0) + 1.0))
        y = y[family.valid(y)]
        values = family.convex(y, alpha) if len(y) else np.zeros(1)
        ends = np.array(
            [
                [min(interval), float(values.min()), 0.0],
                [max(interval), float(values.max()), LONGEST * max(phi, 1e-6)],
            ]
        )
        return cls(family, link, alpha, centre, ends[0], np.maximum(ends[1] - ends[0], 1e-12))

    def rows_and_which(
        self, block: Array, affine: tuple[Array, Array | None]
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the three numbers of every row of a block in [0, 1], (3, m), and which are whole.

        Those of a missing row are 0.
        """
        matrix, shift = affine
        image = mapped(matrix[-1:], block)
        if shift is not None:
            image += shift[-1:]
        return self.numbers(image[-1], block[-1])

    def numbers(self, eta: Array, y: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the same of linear predictors and responses (m,)."""
        alpha = self.alpha
        mean = self.link.inverse(np.clip(eta, *self.link.reach))
        convex = self.family.convex(y, alpha)
        slope = self.family.convex_slope(mean, alpha)
        deviance = 2.0 * (convex - self.family.convex(mean, alpha) - slope * (y - mean))
        t = (np.stack([y, convex, deviance]) - self.low[:, None]) / self.width[:, None]
        np.clip(t, 0.0, 1.0, out=t)
        whole = np.isfinite(t).all(axis=0) & self.family.valid(y)
        t[:, ~whole] = 0.0
        return t, whole

    def release(self, design: Design, affine: Any, ask: Ask, *, people: bool) -> FitStatistics:
        """Release the sums over rows.

        Privacy
        -------
        The mechanism of the step ``fit statistics``. Integers: a row is rounded towards zero.
        Of people the mean over a person's whole rows counts, in the convex hull of what one row
        can be (``units/theory.md``, 8).
        """
        three = Box(3, radius=0.5)
        of = Hull(three) if people else three
        over = _StatisticsPass(self, design, affine, people)
        found = ask(STATISTICS_STEP, Query(Sum(of, count=COUNT, count_first=True), over))
        noisy = found.values
        middle, sd = self.low + self.width / 2.0, found.sd
        lift = np.vstack([sd[0] * middle, np.diag(sd[1:] * self.width)])
        sums = noisy[0] * middle + noisy[1:] * self.width
        return FitStatistics(max(float(noisy[0]), 1.0), sums, lift, float(sd[0]))

    def cut(self, found: FitStatistics, bins: Array, last: PassPlan, phi: float) -> float:
        """Return about what unit deviances beyond their range have lost in all, by score lengths.

        Of a row of mean leverage the squared score is p times the squared Pearson residual, over
        phi; at the mean response that says its deviance.

        Parameters
        ----------
        found : FitStatistics
        bins : array
            Released histogram of the lengths of scores.
        last : PassPlan
            The pass that released it.
        phi : float
            Dispersion that its scores are over.
        """
        squares = phi * last.clip**2 / last.p * 2.0 ** (np.arange(len(bins)) - AT_CLIP + 0.5)
        if self.family.is_event:
            each = 2.0 * np.log1p(squares)
        else:
            mean = np.full(len(bins), max(float(found.sums[0]) / found.whole, 1e-9))
            y = mean + np.sqrt(squares * self.family.variance(mean, self.alpha))
            y = np.minimum(y, float(self.low[0] + self.width[0]))
            beyond = self.family.convex(y, self.alpha) - self.family.convex(mean, self.alpha)
            each = 2.0 * (beyond - self.family.convex_slope(mean, self.alpha) * (y - mean))
        seen = np.where(bins > SEEN * last.noise.count, bins, 0.0)
        return float(seen @ np.maximum(each - self.low[2] - self.width[2], 0.0))

    def report(
        self, found: FitStatistics, p: int, *, cut: float = 0.0, people: bool = False
    ) -> dict[str, float]:
        """Return deviances, the pseudo R-squared of deviance and their errors.

        Of privacy, and of what unit deviances beyond their range have lost (``cut``).

        Of people (each counts once) no AIC: their mean deviance is no likelihood. With an offset
        the null model has it too, and no sum of the release holds its deviance: neither that nor
        a pseudo R-squared is given.
        """
        y, convex, deviance = found.sums
        of_fit = math.hypot(float(np.linalg.norm(found.lift[:, 2])), cut)
        out = {"deviance": deviance, "deviance_se": of_fit}
        if self.centre.offset is None:
            whole, most = found.whole, 1.0 - 1e-9 if self.family.is_event else math.inf
            mean = np.array([min(max(y / whole, 1e-9), most)])
            at = float(self.family.convex(mean, self.alpha)[0])
            slope = float(self.family.convex_slope(mean, self.alpha)[0])
            null = 2.0 * (convex - whole * at)
            # d null = 2 (d sum phi - phi'(mean) d sum y - (phi - phi' mean) d n)
            moves = 2.0 * (found.lift[:, 1] - slope * found.lift[:, 0])
            moves[0] -= 2.0 * (at - slope * float(mean[0])) * found.sd
            of_null, both = float(moves @ moves), float(moves @ found.lift[:, 2])
            out |= {"null_deviance": null, "null_deviance_se": math.sqrt(of_null)}
            out |= explained(deviance, null, (of_fit**2, both, of_null)).named("pseudo_r2")
        if self.family.is_event and not people:
            out["aic"] = deviance + 2.0 * p
            out["aic_se"] = of_fit
        if cut:
            out["deviance_cut"] = cut
        return {k: float(v) for k, v in out.items()}


def _in_steps(t: Array, whole: npt.NDArray[np.bool_]) -> Array:
    """Return (1, t - 1/2) of whole rows in lattice steps, (4, m), rounded towards zero; else 0."""
    out = np.where(whole, np.vstack([np.ones((1, t.shape[1])), t - 0.5]), 0.0)
    return end_of_numbers(out)


@dataclass(frozen=True, eq=False)
class _StatisticsPass:
    """The pass of the fit statistics, by row, by cell or by person."""

    deviance: Deviance
    design: Design
    affine: Any
    people: bool

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return (count, sums). Confidential."""
        if self.people:
            return np.asarray(summed(rows, self.design, _SumsOfPeople(self.deviance, self.affine)))
        grid = scoring_grid(self.design) if rows.by_cell else None
        return np.asarray(summed(rows, self.design, _Sums(self.deviance, self.affine, grid)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """The pass of the fit statistics."""

    deviance: Deviance
    affine: Any
    #: By whose cells blocks come; None: filled ones.
    grid: Grid | None = None

    def over(self, blocks: Iterable[Any], _: Any = None) -> npt.NDArray[np.object_]:
        """Return the count and the sums over blocks, in lattice steps. Confidential."""
        total = np.zeros(4, dtype=object)
        with np.errstate(all="ignore"):
            for t, whole in self._rows(blocks):
                steps = _in_steps(t, whole)
                total += integers_of(steps.sum(axis=1)).astype(object)
        return total

    def _rows(self, blocks: Iterable[Any]) -> Iterator[tuple[Array, npt.NDArray[np.bool_]]]:
        """Yield the three numbers of rows, (3, m), and which are not missing."""
        if self.grid is None:
            for block in blocks:
                yield self.deviance.rows_and_which(block, self.affine)
            return
        eta, slopes = seen_of_cells(self.affine, self.grid)
        for block, cells in blocks:
            found = seen_by_row(eta, slopes, block, cells)
            yield self.deviance.numbers(found, block[-1])


@dataclass(frozen=True, eq=False)
class _SumsOfPeople:
    """The same where the unit is a person."""

    deviance: Deviance
    affine: Any
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> npt.NDArray[np.object_]:
        """Return the people with a whole row, and sums of the means of those. Confidential."""
        total = np.zeros(4, dtype=object)
        with np.errstate(all="ignore"):
            for block in blocks:
                own = sums(
                    _in_steps(*self.deviance.rows_and_which(block.rows, self.affine)), block.starts
                )
                steps = towards_zero(own / np.maximum(own[0] / STEPS, 1.0))
                total += integers_of(steps.sum(axis=1)).astype(object)
        return total
