"""Passes over rows that are cells of a public grid: scores, and the deviance.

Where every predictor is a function of levels (``Grid`` of :mod:`dpmodels.formula.design`),
``w = W u`` is one of K public vectors. A row adds integer multiples of its cell's lattice vector
to every sum, so that the sums are ``sum_c (sum_i k_i) zeta_c`` and ``sum_c (sum_i k_i^2) zeta_c
zeta_c'``: of a pass only sums by cell are kept (``theory.md``, 2.6).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.moments import share_explained
from dpmodels.arrays import Array
from dpmodels.formula.design import Grid
from dpmodels.proof.sets import STEPS, Box, ConvexHull
from dpmodels.proof.statistics import Sum
from dpmodels.scoring import rules
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.passes import (
    MATRICES,
    Centre,
    ManySums,
    PassSums,
    ScorePass,
    clipped,
    counted_lengths,
)
from dpmodels.sources.summed import summed
from dpmodels.sums.ask import Ask, Query
from dpmodels.sums.cells import (
    LOW_NOISE,
    MULTIPLE,
    ByCell,
    checked,
    directions,
    gram_of,
    seen_by_row,
    sum_of,
)
from dpmodels.sums.products import (
    TOP,
    end_in_ball,
    end_of_numbers,
    integers_of,
    mapped,
    squares,
    towards_zero,
    usable,
)
from dpmodels.sums.rowmap import sums

if TYPE_CHECKING:
    from dpmodels.families import Family, Link
    from dpmodels.formula.design import Design
    from dpmodels.sources.rows import Coins


#: Lengths below this part of C are in the first bin.
_LOWEST = 2.0 ** (0.5 * (1 - rules.AT_CLIP))


def scoring_grid(design: Design) -> Grid | None:
    """Return the grid for scoring passes by cell, or None if a design needs dense rows.

    Public: a function of the design. Its predictors must all be functions of the cell.
    """
    grid = design.grid
    return grid if grid is not None and grid.numbers[0] >= design.p else None


class _Adding:
    """Running sums by cell of one pass."""

    def __init__(self, cells: int, signed: bool) -> None:
        self.by = {name: ByCell(cells) for name in (*MATRICES, "score", "far")}
        self.scale, self.bins = 0, np.zeros(rules.BINS * (1 + signed), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Tables:
    """Public tables of a pass by cell."""

    seen: Array  # (K,): linear predictor (or residual) without numeric variables; NaN: missing cell
    slopes: Array  # (d,): its slopes in the numeric variables
    length: Array  # (K,): ``|w|`` in lattice steps of R_H
    # (r, K): lattice vector that information and scores are multiples of: for unweighted rows w
    # itself, in the ball of R_H ...
    zeta: Array
    kept: Array  # (K,): ... and its length in this ball, before rounding.
    ahead: Array  # (r, K): same direction at length 2^20, of which all other sums are multiples
    cut: Array  # (K,): whether w is beyond the ball


@dataclass(frozen=True, eq=False)
class CellPass:
    """Scoring pass by cells: the map of a row, rounded to multiples of its cell's vector."""

    one: ScorePass
    grid: Grid

    @functools.cached_property
    def tables(self) -> _Tables:
        """Return the images of the cells: public and released numbers only."""
        matrix, shift = self.one.map.matrix, self.one.map.shift
        r, grid = len(self.one.centre.theta), self.grid
        with np.errstate(all="ignore"):
            image = mapped(matrix, grid.table)
            if shift is not None:
                image += shift
            z = np.ascontiguousarray(image[:r])
            complete, long = usable(squares(z))
            missing = grid.missing if complete is None else grid.missing | ~complete
            z[:, missing if long is None else missing | ~long] = 0.0
            length = np.sqrt(squares(z))
            seen = np.where(missing, np.nan, image[-1])
            shortened, ahead = length.copy(), directions(z)[0]
            zeta = ahead
            if not self.one.plan.weighted:
                zeta = z
                end_in_ball(zeta, shortened)
                checked(zeta)
                # all parts of a row along one lattice vector; those of w where that is zero
                unit_zeta = directions(zeta)[0]
                ahead = np.where(zeta.any(axis=0), unit_zeta, ahead)
        cut = shortened < length
        slopes = matrix[-1, list(grid.numbers)]
        return _Tables(seen, slopes, length, zeta, shortened, ahead, cut)

    def add(self, sums: _Adding, block: Array, cells: Any, chosen: Any) -> None:
        """Add a block of numeric values (d, m) and cells (m,); ``chosen``: rows for the meat."""
        plan, step = self.one.plan, self.one.map.step
        psi, omega, length, norm, cells, chosen = self._rows(block, cells, chosen)
        by = sums.by
        long = length if omega is None else length * np.sqrt(np.maximum(omega, 0.0))
        if plan.meat:
            k = _multiples(norm[chosen], plan.meat)
            by["meat"].add_rows(cells[chosen], k * k)
        if plan.ordinary and plan.weighted:
            k = _multiples(long[chosen], plan.ordinary * step)
            by["ordinary"].add_rows(cells[chosen], k * k)
        elif plan.ordinary:
            by["ordinary"].add_rows(cells[chosen])
        if plan.weighted:
            k = _multiples(long, TOP)
            by["information"].add_rows(cells, k * k)
            # f(|s|)/C with the sign of psi, as multiples of a vector of full length
            factor = clipped(norm, plan.clip)
            np.copysign(factor, psi, out=factor)
            by["score"].add_rows(cells, end_of_numbers(factor, plan.clip, MULTIPLE))
        else:
            by["information"].add_rows(cells)
            by["score"].add_rows(cells, self._factors(psi, norm, cells))
        if plan.mu_far:
            beyond = np.flatnonzero(norm > plan.clip)
            k = np.copysign(_multiples(np.ones(len(beyond)), 1.0), psi[beyond])
            by["far"].add_rows(cells[beyond], k)
        if plan.mu_scale:
            square = norm * norm
            square /= plan.scale_cut
            sums.scale += int(end_of_numbers(square, low=0.0).sum())
        if plan.mu_histogram:
            far = np.flatnonzero(norm >= _LOWEST * plan.clip)
            low = ~(psi[far] > 0.0) if plan.policy.signed else None
            sums.bins += counted_lengths(norm[far] / plan.clip, low)
            # whose sign does not matter: the first bins of both signs are added
            sums.bins[0] += len(norm) - len(far)

    def _factors(self, psi: Array, norm: Array, cells: Any) -> Array:
        """Return :meth:`ScorePass.factors`: psi, made smaller for long scores and rows."""
        score_pass, t, clip = self.one, self.tables, self.one.plan.clip
        k = end_of_numbers(psi, rules.ROW_FACTOR_MAX * clip, TOP)
        others = norm > clip
        others |= np.abs(k) >= TOP - 1.0
        if t.cut.any():
            others |= t.cut.take(cells)
        few = np.flatnonzero(others)
        k[few] = score_pass.factors(psi[few], norm[few], t.kept.take(cells[few]))
        return k

    def _rows(
        self, block: Array, cells: Any, chosen: Any
    ) -> tuple[Array, Any, Array, Array, Any, Any]:
        """Return (psi, omega, |w|, |s|, cells, chosen) of the rows that are not missing."""
        t, centre = self.tables, self.one.centre
        seen = seen_by_row(t.seen, t.slopes, block, cells)
        psi, omega = centre.evaluate(seen, block[-1])
        if centre.weights is not None:
            weight = block[self.grid.numbers.index(centre.weights)] / centre.mean_weight
            psi = psi * weight
            omega = weight if omega is None else omega * weight
        length = t.length.take(cells)
        if self.one.plan.policy.by_leverage:
            psi = self.one.by_leverage(psi, length * length, omega)
        norm = np.abs(psi)
        norm *= length
        norm /= self.one.map.step
        complete, _ = usable(length, psi, omega)
        if complete is not None:
            rows = np.flatnonzero(complete)
            if not isinstance(chosen, slice):
                mark = np.zeros(len(cells), dtype=bool)
                mark[chosen] = True
                chosen = np.flatnonzero(mark[rows])
            psi, length, norm, cells = psi[rows], length[rows], norm[rows], cells[rows]
            omega = None if omega is None else omega[rows]
        return psi, omega, length, norm, cells, chosen

    def pass_sums(self, tally: Any) -> PassSums:
        """Return the sums of a pass from its sums by cell, of all rows. Confidential."""
        plan, t = self.one.plan, self.tables
        meat = ordinary = None
        if plan.meat:
            meat = gram_of(t.ahead, tally.meat, 2 * LOW_NOISE)
        if plan.ordinary:
            weights = tally.ordinary
            if not plan.weighted:
                k = _multiples(t.length, plan.ordinary * self.one.map.step).astype(np.int64)
                weights = weights * (k * k).astype(object)
            ordinary = gram_of(t.ahead, weights, 2 * LOW_NOISE)
        information = gram_of(t.zeta, tally.information, 2 * LOW_NOISE if plan.weighted else 0)
        score = sum_of(t.zeta, tally.score)
        far = sum_of(t.ahead, tally.far) if plan.mu_far else None
        return PassSums(
            information, score, meat, ordinary, tally.scale, tally.bins, by_cell=True, far=far
        )


def _multiples(length: Array, radius: float) -> Array:
    """Return at most ``trunc(2^20 (1 - 2^-24) min(1, length/radius))``, for any row."""
    return end_of_numbers(length / radius, steps=MULTIPLE, low=0.0)


@dataclass(frozen=True, eq=False)
class CellPasses:
    """Passes by cell that read the same rows at once, for the executor."""

    passes: tuple[CellPass, ...]
    grid: Grid

    def over(self, blocks: Iterable[tuple[Array, Any]], coins: Coins | None = None) -> ManySums:
        """Return the sums by cell of each pass. Confidential.

        Its arrays are (K,): sums of squared multiples (of unweighted rows: counts), and of those
        of scores.
        """
        adding = [
            _Adding(self.grid.cells, cell_pass.one.plan.policy.signed) for cell_pass in self.passes
        ]
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                chosen: Any = slice(None) if coins is None else coins.choose(len(cells))
                for cell_pass, sums in zip(self.passes, adding, strict=True):
                    cell_pass.add(sums, block, cells, chosen)
        return ManySums(
            tuple(
                PassSums(
                    **{name: exact.integers() for name, exact in added.by.items()},
                    scale=added.scale, bins=tuple(int(x) for x in added.bins), by_cell=True,
                )
                for added in adding
            )
        )  # fmt: skip

    def pass_sums(self, sums: ManySums) -> tuple[PassSums, ...]:
        """Return the sums of each pass, of all rows. Confidential."""
        pairs = zip(self.passes, sums.sums, strict=True)
        return tuple(cell_pass.pass_sums(exact) for cell_pass, exact in pairs)


# -- Deviance, null deviance and the statistics from them: one more pass (``fit_stats=True``).
#
# A unit deviance is a Bregman divergence, ``d(y, mu) = 2 (phi(y) - phi(mu) - phi'(mu) (y - mu))``.
# So the null deviance is ``2 (sum phi(y) - n phi(mean y))``. Three sums of bounded values, and the
# number of their rows, give both (``method.md``, 5.7).


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """Released sums over complete rows and their noise."""

    whole: float  # Number of complete rows
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
        """Return unit deviances of linear predictors and responses (m,), and which are valid."""
        alpha = self.alpha
        mean = self.link.inverse(np.clip(eta, *self.link.reach))
        convex = self.family.convex(y, alpha)
        slope = self.family.convex_slope(mean, alpha)
        deviance = 2.0 * (convex - self.family.convex(mean, alpha) - slope * (y - mean))
        t = np.stack([y, convex - self.chord * y, deviance]) - self.low[:, None]
        t /= self.width[:, None]
        np.clip(t, 0.0, 1.0, out=t)
        complete = np.isfinite(t).all(axis=0) & self.family.valid(y)
        t[:, ~complete] = 0.0
        return t, complete

    def release(self, design: Design, affine: Any, ask: Ask, *, people: bool) -> FitStatistics:
        """Release the sums over rows.

        Privacy
        -------
        The mechanism of the step ``fit statistics``. Integers: a row is rounded towards zero.
        A person adds the mean over their complete rows, which is in the convex hull of the values
        of one row (``units.md``, 8).
        """
        three = Box(3, radius=0.5)
        of = ConvexHull(three) if people else three
        over = _StatisticsPass(self, design, affine, people)
        released = ask(
            rules.STATISTICS_STEP, Query(Sum(of, count=rules.COUNT_WEIGHT, count_first=True), over)
        )
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
            mean = np.full(len(bins), max(float(statistics.sums[0]) / statistics.whole, 1e-9))
            y = mean + np.sqrt(squares * self.family.variance(mean, self.alpha))
            y = np.minimum(y, float(self.low[0] + self.width[0]))
            beyond = self.family.convex(y, self.alpha) - self.family.convex(mean, self.alpha)
            each = 2.0 * (beyond - self.family.convex_slope(mean, self.alpha) * (y - mean))
        seen = np.where(bins > rules.EMPTY_SDS * last.noise.count, bins, 0.0)
        seen[0] = 0.0  # open below: its rows may have any length down to 0
        above = float(seen @ np.maximum(each - self.low[2] - self.width[2], 0.0))
        return above + self._cut_near_zero(statistics)

    def _cut_near_zero(self, statistics: FitStatistics) -> float:
        """Return the approximate sum clipped at amounts far below the mean, whose scores are short.

        It is that of the gamma distribution whose mean clipped deviance is the released one.
        """
        from scipy.special import digamma, gammaln

        if self.family.valid(np.zeros(1))[0]:  # phi is bounded there
            return 0.0
        shape = np.geomspace(0.02, 1e3, 200)[:, None]
        log_y = -np.linspace(0.0, 1.0, 800) * (self.width[2] / 2.0 + 1.0 + 12.0 / shape)
        of_gamma = shape * (np.log(shape) + log_y - np.exp(log_y)) - gammaln(shape)
        beyond = np.maximum(2.0 * (np.expm1(log_y) - log_y) - self.width[2], 0.0)
        step = log_y[:, :1] - log_y[:, 1:2]
        cut = (np.exp(of_gamma) * beyond * step).sum(axis=1)
        seen = 2.0 * (np.log(shape) - digamma(shape))[:, 0] - cut
        # by falling shapes the deviance grows
        rows = statistics.whole
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
            rows, most = statistics.whole, 1.0 - 1e-9 if self.family.is_event else math.inf
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


def _in_steps(t: Array, complete: npt.NDArray[np.bool_]) -> Array:
    """Return (1, t - 1/2) of complete rows in lattice steps, (4, m), rounded towards zero, or 0."""
    out = np.where(complete, np.vstack([np.ones((1, t.shape[1])), t - 0.5]), 0.0)
    return end_of_numbers(out)


@dataclass(frozen=True, eq=False)
class _StatisticsPass:
    """Pass of the fit statistics, by row, by cell or by person, and the job of its tasks."""

    deviance: Deviance
    design: Any
    affine: Any
    of_people: bool
    grid: Grid | None = None  # By whose cells blocks come; None: filled ones

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return (count, sums). Confidential."""
        by_cell = not self.of_people and rows.by_cell
        job = replace(self, grid=scoring_grid(self.design)) if by_cell else self
        return np.asarray(summed(rows, self.design, job))

    def over(self, blocks: Iterable[Any], _: Any = None) -> npt.NDArray[np.object_]:
        """Return the count and the sums over blocks, in lattice steps. Confidential.

        With ``of_people`` they are the number of people with a complete row, and sums of the means
        over such rows.
        """
        total = np.zeros(4, dtype=object)
        with np.errstate(all="ignore"):
            for block in blocks:
                total += integers_of(self._steps(block).sum(axis=1)).astype(object)
        return total

    def _steps(self, block: Any) -> Array:
        """Return the contributions (4, m) of the rows, or people, of a block."""
        if self.of_people:
            rows = _in_steps(*self.deviance.rows_and_which(block.rows, self.affine))
            totals = sums(rows, block.starts)
            return towards_zero(totals / np.maximum(totals[0] / STEPS, 1.0))
        if self.grid is None:
            return _in_steps(*self.deviance.rows_and_which(block, self.affine))
        numbers, cells = block
        eta = seen_by_row(*self._cells_and_slopes, numbers, cells)
        return _in_steps(*self.deviance.numbers(eta, numbers[-1]))

    @functools.cached_property
    def _cells_and_slopes(self) -> tuple[Array, Array]:
        """Return the model's view of cells (K,), NaN in missing ones, and the slopes of numbers."""
        assert self.grid is not None
        matrix, shift = self.affine
        seen = mapped(matrix[-1:], self.grid.table)[0]
        if shift is not None:
            seen = seen + shift[-1]
        return np.where(self.grid.missing, np.nan, seen), matrix[-1, list(self.grid.numbers)]
