"""Deviance, null deviance and what follows from them: one more pass, asked for.

A unit deviance is a Bregman divergence, ``d(y, mu) = 2 (phi(y) - phi(mu) - phi'(mu) (y - mu))``, so
the null deviance is ``2 (sum phi(y) - n phi(mean y))``: three sums of bounded numbers say both
(``theory.md``, 5.7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.bycell import seen_by_row
from dpmodels.exact.people import sums
from dpmodels.exact.products import mapped
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.total import integers_of
from dpmodels.scoring.cells import scoring_grid, seen_of_cells
from dpmodels.sources.people import PeopleRows
from dpmodels.sources.summed import summed

if TYPE_CHECKING:
    from dpmodels.families import Family, Link
    from dpmodels.formula.design import Design
    from dpmodels.formula.grid import Grid
    from dpmodels.privacy.run import Run
    from dpmodels.scoring.sums import Centre
    from dpmodels.sources.people import BlockOfPeople

__all__ = ["REACH", "SHARE", "STEP", "Deviance", "FitStatistics"]

#: Share of mu^2 that fit statistics take where they are asked for; their step in the ledger.
SHARE, STEP = 0.10, "fit statistics"
#: A unit deviance counts up to this many dispersions.
LONGEST = 12.0
#: L2 sensitivity of three sums of numbers in [0, 1], under either relation.
REACH = math.sqrt(3.0)
_GRID = 4097


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """Released sums over whole rows: of y, phi(y) and d(y, mu), and their noise sds, (3,) each."""

    sums: Array
    sds: Array


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

    def rows(self, block: Array, affine: tuple[Array, Array | None]) -> Array:
        """Return the three numbers of every row of a block in [0, 1], (3, m); 0 if missing."""
        return self.rows_and_which(block, affine)[0]

    def rows_and_which(
        self, block: Array, affine: tuple[Array, Array | None]
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the same, and which rows are not missing."""
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

    def release(
        self, rows: Any, design: Design, affine: Any, run: Run, mu: float, whole: float
    ) -> FitStatistics:
        """Release the sums over rows.

        Parameters
        ----------
        mu : float
            Of the step.
        whole : float
            Released number of whole rows: adds the low ends back.

        Privacy
        -------
        The mechanism of the step ``fit statistics``. Integers: a row is rounded towards zero.
        Of people the mean over a person's whole rows counts, in the convex hull of what one row
        can be (``units/theory.md``, 8).
        """
        job: Any
        if isinstance(rows, PeopleRows):
            job = _SumsOfPeople(self, affine)
        else:
            grid = scoring_grid(design) if hasattr(rows, "cell_blocks") else None
            job = _Sums(self, affine, grid)
        total = summed(rows, design, job)
        noisy = run.gaussian(STEP, total, REACH * STEPS, unit=1.0 / STEPS)
        return FitStatistics(noisy * self.width + whole * self.low, REACH / mu * self.width)

    def report(
        self, found: FitStatistics, whole: float, p: int, *, people: bool = False
    ) -> dict[str, float]:
        """Return deviances, the pseudo R-squared of deviance and their errors of privacy.

        Of people (each counts once) no AIC: their mean deviance is no likelihood.
        """
        y, convex, deviance = found.sums
        most = 1.0 - 1e-9 if self.family.is_event else math.inf
        mean = np.array([min(max(y / max(whole, 1.0), 1e-9), most)])
        null = 2.0 * (convex - whole * float(self.family.convex(mean, self.alpha)[0]))
        slope = float(self.family.convex_slope(mean, self.alpha)[0])
        s_null = 2.0 * math.hypot(found.sds[1], slope * found.sds[0])
        out = {
            "deviance": deviance,
            "deviance_se": float(found.sds[2]),
            "null_deviance": null,
            "null_deviance_se": s_null,
        }
        if null > 3.0 * s_null:
            out["pseudo_r2"] = 1.0 - deviance / null
            out["pseudo_r2_se"] = math.hypot(found.sds[2], deviance / null * s_null) / null
        if self.family.is_event and not people:
            out["aic"] = deviance + 2.0 * p
            out["aic_se"] = float(found.sds[2])
        return {k: float(v) for k, v in out.items()}


@dataclass(frozen=True, eq=False)
class _Sums:
    """The pass of the fit statistics."""

    deviance: Deviance
    affine: Any
    #: By whose cells blocks come; None: filled ones.
    grid: Grid | None = None

    def over(self, blocks: Iterable[Any], _: Any = None) -> npt.NDArray[np.object_]:
        """Return the sums over blocks, in lattice steps. Confidential."""
        total = np.zeros(3, dtype=object)
        with np.errstate(all="ignore"):
            for t in self._rows(blocks):
                steps = np.trunc(t * STEPS)
                total += integers_of(steps.sum(axis=1)).astype(object)
        return total

    def _rows(self, blocks: Iterable[Any]) -> Iterator[Array]:
        """Yield the three numbers of rows, (3, m)."""
        if self.grid is None:
            for block in blocks:
                yield self.deviance.rows(block, self.affine)
            return
        eta, slopes = seen_of_cells(self.affine, self.grid)
        for block, cells in blocks:
            found = seen_by_row(eta, slopes, block, cells)
            yield self.deviance.numbers(found, block[-1])[0]


@dataclass(frozen=True, eq=False)
class _SumsOfPeople:
    """The same where the unit is a person."""

    deviance: Deviance
    affine: Any
    of_people: ClassVar[bool] = True

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> npt.NDArray[np.object_]:
        """Return the sums over people of the means of their whole rows. Confidential."""
        total = np.zeros(3, dtype=object)
        with np.errstate(all="ignore"):
            for block in blocks:
                t, whole = self.deviance.rows_and_which(block.rows, self.affine)
                own = sums(np.vstack([np.trunc(t * STEPS), whole]), block.starts)
                steps = np.trunc(own[:3] / np.maximum(own[3], 1.0))
                total += integers_of(steps.sum(axis=1)).astype(object)
        return total
