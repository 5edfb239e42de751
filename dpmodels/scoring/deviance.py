"""Deviance, null deviance and the statistics from them: one more pass (``fit_stats=True``).

A unit deviance is a Bregman divergence, ``d(y, mu) = 2 (phi(y) - phi(mu) - phi'(mu) (y - mu))``.
So the null deviance is ``2 (sum phi(y) - n phi(mean y))``. Three sums of bounded values, and the
number of their rows, give both (``method.md``, 5.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.after.moments import share_explained
from dpmodels.arrays import Array
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, clip, linear, stack, where
from dpmodels.core.sets import Counted
from dpmodels.families import Family, Link
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.scoring import rules
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.passes import Centre, affine_of


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """Released sums over complete rows and their noise."""

    complete: float  # Number of complete rows
    sums: Array  # (3,): sums of y, phi(y) less its chord, and d(y, mu)
    # (4, 3): change of the sums by one sd of each independent noise, that of the count first.
    lift: Array
    sd: float  # Noise sd of the count


@dataclass(frozen=True, eq=False)
class Deviance:
    """Public map of a row to three bounded values, at a released fit."""

    family: Family
    link: Link
    alpha: float
    centre: Centre  # State at which eta is evaluated
    # low, width: (3,) arrays; public ranges of y, phi(y) - chord y, d(y, mu).
    low: Array
    width: Array
    # Slope of phi between the ends: without the line phi is several times shorter.
    chord: float = 0.0

    @classmethod
    def of(
        cls, family: Family, link: Link, alpha: float, phi: float, centre: Centre,
        interval: tuple[float, float],
    ) -> Deviance:  # fmt: skip
        """Return the map for responses in a public interval."""
        y = np.linspace(*interval, rules.DEVIANCE_POINTS)
        y = np.append(y, np.arange(max(interval[0], 0.0), min(interval[1], 4096.0) + 1.0))
        if interval[1] > 0.0:
            least = max(interval[0], rules.MIN_AMOUNT_PART * interval[1])
            y = np.append(y, np.geomspace(least, interval[1], 513))
        y = y[family.valid(y)]
        y = np.sort(y) if len(y) else np.ones(1)
        values = family.convex(y, alpha)
        chord = float((values[-1] - values[0]) / max(y[-1] - y[0], 1e-300))
        values = values - chord * y
        ends = np.array(
            [
                [min(interval), float(values.min()), 0.0],
                [max(interval), float(values.max()), rules.MAX_DEVIANCE * max(phi, 1e-6)],
            ]
        )
        width = np.maximum(ends[1] - ends[0], 1e-12)
        return cls(family, link, alpha, centre, ends[0], width, chord)

    def row_of(self) -> Callable[[Rows], Rows]:
        """Return the formula of a row: y, phi(y) less its chord and d(y, mu), in [-1/2, 1/2].

        NaN where y is not a value of the family.
        """
        matrix, shift = affine_of(self.centre, 1.0)
        last = matrix[-1:].copy(), None if shift is None else shift[-1:]
        alpha = self.alpha

        def row(z: Rows) -> Rows:
            y: Any = z[-1]
            eta: Any = clip(linear(last[0], z, last[1])[0], *self.link.reach)
            mean = self.link.inverse(eta)
            convex = self.family.convex(y, alpha)
            slope = self.family.convex_slope(mean, alpha)
            deviance = 2.0 * (convex - self.family.convex(mean, alpha) - slope * (y - mean))
            shares: Any = stack(y, convex - self.chord * y, deviance)
            t = (shares - self.low) / self.width
            return where(self.family.valid(y), clip(t, 0.0, 1.0) - 0.5, np.nan)

        return row

    def ask(self, design: Design, *, people: bool) -> Generator[Release, Any, FitStatistics]:
        """Release the sums over rows.

        Privacy
        -------
        The mechanism of the step ``fit statistics``. Integers: a row is rounded towards zero.
        A person adds the mean over their complete rows, which is in the convex hull of the values
        of one row (``units.md``, 8).
        """
        into = Counted(3, rules.COUNT_WEIGHT, people=people)
        released = yield Release(rules.STATISTICS_STEP, into, self.row_of(), design)
        noisy = released.values
        middle, sd = self.low + self.width / 2.0, released.sd
        lift = np.vstack([sd[0] * middle, np.diag(sd[1:] * self.width)])
        sums = noisy[0] * middle + noisy[1:] * self.width
        return FitStatistics(max(float(noisy[0]), 1.0), sums, lift, float(sd[0]))

    def cut(self, statistics: FitStatistics, bins: Array, last: PassPlan, phi: float) -> float:
        """Return the approximate sum clipped from unit deviances, from released score lengths.

        For a row of mean leverage the squared score is p times the squared Pearson residual, over
        phi. At the mean response this determines its deviance. ``bins`` are released by the pass
        ``last``, with its scores over ``phi``.
        """
        squares = phi * last.clip**2 / last.p * 2.0 ** (np.arange(len(bins)) - rules.AT_CLIP + 0.5)
        if self.family.is_event:
            each = 2.0 * np.log1p(squares)
        else:
            mean = np.full(len(bins), max(float(statistics.sums[0]) / statistics.complete, 1e-9))
            y = mean + np.sqrt(squares * self.family.variance(mean, self.alpha))
            y = np.minimum(y, float(self.low[0] + self.width[0]))
            beyond = self.family.convex(y, self.alpha) - self.family.convex(mean, self.alpha)
            each = 2.0 * (beyond - self.family.convex_slope(mean, self.alpha) * (y - mean))
        seen = np.where(bins > rules.CLEAR_OF_NOISE * last.noise.count, bins, 0.0)
        seen[0] = 0.0  # open below: its rows may have any length down to 0
        above = float(seen @ np.maximum(each - self.low[2] - self.width[2], 0.0))
        return above + self._cut_near_zero(statistics)

    def _cut_near_zero(self, statistics: FitStatistics) -> float:
        """Return the approximate sum clipped at amounts far below the mean, whose scores are short.

        It is that of the gamma distribution whose mean clipped deviance is the released one.
        """
        if self.family.valid(np.zeros(1))[0]:  # phi is bounded there
            return 0.0
        shape = np.geomspace(0.02, 1e3, 200)[:, None]
        log_y = -np.linspace(0.0, 1.0, 800) * (self.width[2] / 2.0 + 1.0 + 12.0 / shape)
        of_gamma = shape * (np.log(shape) + log_y - np.exp(log_y)) - special.gammaln(shape)
        beyond = np.maximum(2.0 * (np.expm1(log_y) - log_y) - self.width[2], 0.0)
        step = log_y[:, :1] - log_y[:, 1:2]
        cut = (np.exp(of_gamma) * beyond * step).sum(axis=1)
        seen = 2.0 * (np.log(shape) - special.digamma(shape))[:, 0] - cut
        # by falling shapes the deviance grows
        rows = statistics.complete
        return float(rows * np.interp(statistics.sums[2] / rows, seen[::-1], cut[::-1]))

    def report(
        self, statistics: FitStatistics, p: int, *, cut: float = 0.0, people: bool = False
    ) -> dict[str, float]:
        """Return deviances, the pseudo R-squared of deviance, events, and their errors.

        The errors are those of the noise and of the clipped part of unit deviances (``cut``).

        For people, who each count once, there is no AIC, as their mean deviance is not a
        likelihood. With an offset the null model has the offset too, and the release does not
        contain its deviance. Then neither the null deviance nor a pseudo R-squared is given.
        """
        y, convex, deviance = statistics.sums
        of_fit = math.hypot(float(np.linalg.norm(statistics.lift[:, 2])), cut)
        out = {"deviance": deviance, "deviance_se": of_fit}
        if self.centre.offset is None:
            rows, most = statistics.complete, 1.0 - 1e-9 if self.family.is_event else math.inf
            mean = np.array([min(max(y / rows, 1e-9), most)])
            at = float(self.family.convex(mean, self.alpha)[0])
            slope = float(self.family.convex_slope(mean, self.alpha)[0])
            null = 2.0 * (convex + self.chord * y - rows * at)
            # d null = 2 (d sum phi - phi'(mean) d sum y - (phi - phi' mean) d n)
            moves = 2.0 * (statistics.lift[:, 1] + (self.chord - slope) * statistics.lift[:, 0])
            moves[0] -= 2.0 * (at - slope * float(mean[0])) * statistics.sd
            of_null, both = float(moves @ moves), float(moves @ statistics.lift[:, 2])
            out |= {"null_deviance": null, "null_deviance_se": math.sqrt(of_null)}
            out |= share_explained(deviance, null, (of_fit**2, both, of_null)).named("pseudo_r2")
        if self.family.is_event and not people:
            out["aic"] = deviance + 2.0 * p
            out["aic_se"] = of_fit
            out["events"], out["events_se"] = y, float(np.linalg.norm(statistics.lift[:, 0]))
        if cut:
            out["deviance_cut"] = cut
        return {k: float(v) for k, v in out.items()}
