"""``dp_survfit`` and ``dp_survdiff``: Kaplan-Meier and log-rank tests of a released table.

Everything is a function of released cells: nothing here costs anything.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.after.moments import inverse_and_rank
from dpmodels.arrays import Array
from dpmodels.core.followup import FollowUp
from dpmodels.core.release import answered
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.models.survival.table import (
    CellNoise,
    Layout,
    follow_up_release,
    layout_of,
    rounding,
)
from dpmodels.planning import Plan
from dpmodels.proof.prove import noise_of
from dpmodels.ranges import Split
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.sums.ask import Ask

#: A number at risk below this many of its noise sds ends the curve: a quotient by it is noise.
_DETERMINED_AT_RISK = 4.0


def events_sd(by_group: Sequence[Curve]) -> float:
    """Return the sd of the noise of the number of events in a consistent table, all groups."""
    events = sum(curve.weights[0].sum(axis=0) for curve in by_group)
    return math.sqrt(max(float(by_group[0].noise.covariance(np.atleast_2d(events))[0, 0]), 0.0))


@dataclass(frozen=True)
class Curve:
    """The curve of one tabulated group."""

    layout: Layout
    noise: CellNoise
    cells: Array  # (M,): cells of the whole table; noisy, consistent, never clipped
    group: int
    label: str = ""  # Name of its group and cause, "" for the only curve
    counted: tuple[int, ...] = (0,)  # Kinds of events that are counted
    events: tuple[int, ...] = (0,)  # Kinds that are events
    cause: int | None = None  # Number of the cause of an incidence
    of_causes: ClassVar[Any] = None  # Makes incidences; set by incidence.py

    # -- the life table --------------------------------------------------------------------
    @functools.cached_property
    def weights(self) -> tuple[Array, Array, Array]:
        """Return d, c and Y as weights of the cells: three (K, M) arrays."""
        lay, g = self.layout, self.group
        d, c, Y = (np.zeros((lay.K, lay.M)) for _ in range(3))
        unit, before = np.eye(lay.K), np.tril(np.ones((lay.K, lay.K)), -1)
        within, at, *entry = (lay.run(g, kind) for kind in range(1, 5 if lay.entries else 3))
        c[:, within] = c[:, at] = unit
        for event, kind in ((lay.run(g, kind), kind) for kind in self.events):
            d[:, event] = unit * (kind in self.counted)
            if entry:  # entered before less gone before, those within by half
                Y[:, entry[0]], Y[:, entry[1]] = before + 0.5 * unit, before + unit
                Y[:, event], Y[:, within], Y[:, at] = -before, -before - 0.5 * unit, -before - unit
            else:  # all that leave later, of those within half
                Y[:, event], Y[:, within], Y[:, at] = 1 - before, 1 - before - 0.5 * unit, before.T
                Y[:, lay.beyond(g)] = 1.0
        return d, c, Y

    @functools.cached_property
    def d(self) -> Array:
        """Events by interval, (K,)."""
        return np.sum([self.cells[self.layout.run(self.group, k)] for k in self.counted], axis=0)

    @functools.cached_property
    def c(self) -> Array:
        """Censorings by interval, its first break included, (K,)."""
        return np.asarray(self.weights[1] @ self.cells)

    @functools.cached_property
    def Y(self) -> Array:
        """Numbers at risk, those censored (and entered) in an interval by half, (K,)."""
        return np.asarray(self.weights[2] @ self.cells)

    @functools.cached_property
    def entering(self) -> Array:
        """Numbers at risk at the beginning of the intervals, and at the end of the last, (K+1,)."""
        lay = self.layout
        start = self.Y + 0.5 * self.cells[lay.run(self.group, 1)]
        if lay.entries:
            start -= 0.5 * self.cells[lay.run(self.group, 3)]
        return np.append(start, self.cells[lay.beyond(self.group)])

    @property
    def units_followed(self) -> float:
        """Number of units followed at all: from the start, or from an entry."""
        lay, g = self.layout, self.group
        if not lay.entries:  # those censored at the first break are at risk of nothing
            return float(self.entering[0] + self.cells[lay.run(g, 2).start])
        return float(self.cells[lay.run(g, 3).start : lay.run(g, 4).stop].sum())

    @functools.cached_property
    def intervals_known(self) -> int:
        """Intervals before the numbers at risk sink into the noise: the curve ends there."""
        sd = np.sqrt(np.diag(self.noise.covariance(self.weights[2])))
        bad = (_DETERMINED_AT_RISK * sd >= self.Y) | (self.Y <= 1.0) | (self.d >= self.Y)
        return int(np.argmax(bad)) if bad.any() else self.layout.K

    # -- the curve -------------------------------------------------------------------------
    @functools.cached_property
    def log_S(self) -> Array:
        """Log of survival at the ends of the intervals, (K,); NaN where it is not known."""
        k = self.intervals_known
        out = np.full(self.layout.K, np.nan)
        out[:k] = np.cumsum(np.log1p(-self.d[:k] / self.Y[:k]))
        return out

    @functools.cached_property
    def S(self) -> Array:
        """Survival at the ends of the intervals, (K,)."""
        return np.exp(self.log_S)

    @functools.cached_property
    def greenwood(self) -> Array:
        """Variance of log S without noise, (K,): ``sum d / (Y (Y - d))``, and where entries are."""
        k = self.intervals_known
        out = np.full(self.layout.K, np.nan)
        terms = self.d[:k] / (self.Y[:k] * (self.Y[:k] - self.d[:k])) + self.entry_variance[:k]
        out[:k] = np.maximum.accumulate(np.maximum(np.cumsum(terms), 0.0)) if k else 0.0
        return out

    @functools.cached_property
    def entry_variance(self) -> Array:
        """Variance of each step of log S by where within the interval its entries are, (K,).

        They count half at risk; of none to all of the time, as good as any, that is off by
        ``1/sqrt(12)`` of them.
        """
        if not self.layout.entries:
            return np.zeros(self.layout.K)
        within = np.maximum(self.cells[self.layout.run(self.group, 3)], 0.0)
        with np.errstate(all="ignore"):
            return np.asarray((self.d * within / self.Y**2) ** 2 / 12.0)

    @property
    def mostly_unplaced(self) -> bool:
        """Whether at any time most of the variance is of where entries are."""
        k = self.intervals_known
        return bool(np.any(2.0 * np.cumsum(self.entry_variance[:k]) > self.greenwood[:k]))

    @functools.cached_property
    def J(self) -> Array:
        """Jacobian of log S by the cells of the table, (K, M); 0 where it is not known."""
        k = self.intervals_known
        d, _, Y = self.weights
        out = np.zeros_like(d)
        gone = self.Y[:k] - self.d[:k]
        by_Y = self.d[:k] / (self.Y[:k] * gone)
        out[:k] = np.cumsum(by_Y[:, None] * Y[:k] - d[:k] / gone[:, None], axis=0)
        return out

    @functools.cached_property
    def privacy(self) -> Array:
        """Noise variance of log S, (K,)."""
        out = np.diag(self.noise.covariance(self.J)).copy()
        out[self.intervals_known :] = np.nan
        return np.maximum(out, 0.0)

    def sampling(self, other: Curve) -> Array:
        """Return the sampling covariance of log S with that of a curve of the group, (K, K)."""
        return np.asarray(np.minimum.outer(self.greenwood, other.greenwood))

    def reported(self, value: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        """Return the printed numbers for a value of S and the ends of its interval."""
        return value, low, high

    @property
    def variance(self) -> Array:
        """Variance of log S: sampling and noise, (K,)."""
        return self.greenwood + self.privacy

    def band(self, level: float, conf_type: str) -> tuple[Array, Array]:
        """Return the ends of the intervals of S, (K,) each: :func:`band`."""
        return band(self.log_S, self.greenwood, self.privacy, level, conf_type)

    # -- what is linear in S ---------------------------------------------------------------
    def at(self, t: float, *, after: bool = False) -> Array:
        """Return the weights of S at the ends of the intervals for the last break until t.

        ``after``: for the first one from t on. Survival at t lies between the two.
        """
        edges = np.array(self.layout.edges)
        end, near = edges[-1], rounding(edges)
        if not edges[0] <= t <= end + near:
            raise RequestError(
                f"time {t:g} is outside of the table, [{edges[0]:g}, {end:g}]: the call's times= "
                "or breaks= say how far it goes"
            )
        k = np.searchsorted(edges - near, t, side="right") - 1
        if after:
            k = max(k, np.searchsorted(edges + near, t, side="left"))
        return np.asarray(np.arange(self.layout.K + 1) == k, dtype=float)  # S = 1 at the first end

    def up_to(self, tau: float) -> Array:
        """Return the weights of S whose sum is its integral to tau.

        Between breaks the curve is straight, or falls by equal steps, one after each period.
        """
        self.at(tau)  # checks tau
        edges = np.array(self.layout.edges)
        w = np.zeros(self.layout.K + 1)
        for k, period in enumerate(self.layout.periods.tolist()):
            width = edges[k + 1] - edges[k]
            lived = min(edges[k + 1], tau) - edges[k]
            if lived <= 0.0:  # the beginning, or after tau
                continue
            last = period * math.floor(lived / period + 1e-9) if period else lived
            w[k] += (last + period) / 2.0
            after = lived - (last + period) / 2.0  # of survival at the last step
            w[k] += after * (1.0 - last / width)
            w[k + 1] += after * last / width
        return w

    def value(self, w: Array) -> float:
        """Return ``w @ (1, S)``, or NaN if a needed value is not known."""
        used = w[1:] != 0.0
        return float(w[0] + w[1:][used] @ self.S[used])

    def gradient(self, w: Array) -> Array:
        """Return the weights of log S that ``w @ (1, S)`` moves by, (K,)."""
        return np.where(w[1:] != 0.0, w[1:] * self.S, 0.0)


def curves(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Curve, ...]:
    """Return the curves of all tabulated groups, or the incidences of their causes."""
    if layout.causes:
        return Curve.of_causes(layout, noise, cells)
    return tuple(Curve(layout, noise, cells, g, label) for g, label in enumerate(layout.labels))


def opened(released: Sequence[Curve]) -> bool:
    """Return whether the count of events at the beginning of the range is clear of its noise."""
    if not released[0].layout.opening:
        return False
    weights = sum(curve.weights[0][0] for curve in released)
    sd = math.sqrt(float(released[0].noise.covariance(np.atleast_2d(weights))[0, 0]))
    return sum(float(curve.d[0]) for curve in released) > _DETERMINED_AT_RISK * sd


def first_shown(released: Sequence[Curve]) -> int:
    """Return the first interval that is shown: that of the beginning if it has events."""
    return int(released[0].layout.opening and not opened(released))


def covariance_of(parts: Sequence[tuple[Curve, Array]]) -> tuple[float, float]:
    """Return the sampling and noise variance of a sum of ``w @ (1, S)`` over curves.

    Curves of different groups are sampled independently. NaN where a weight (K + 1,) needs what is
    not known.
    """
    sampling, slopes = 0.0, [(curve, curve.gradient(w)) for curve, w in parts]
    if not all(np.isfinite(a).all() for _, a in slopes):
        return math.nan, math.nan
    for (curve, a), (other, b) in itertools.product(slopes, repeat=2):
        if curve.group == other.group:
            both = np.outer(a, b)
            sampling += float((np.where(both != 0.0, curve.sampling(other), 0.0) * both).sum())
    row = sum(a @ curve.J for curve, a in slopes)
    total = float(parts[0][0].noise.covariance(np.atleast_2d(row))[0, 0])
    return sampling, max(total, 0.0)


def band(
    log_S: Array, sampling: Array, privacy: Array, level: float, conf_type: str = "log-log"
) -> tuple[Array, Array]:
    """Return the ends of pointwise intervals of S.

    ``conf_type``: the scale on which the interval is symmetric; without noise R's.

    The noise is symmetric in H = -log S itself: for "log-log" its half width is joined with that
    of sampling in squares, end by end. Where hardly anybody has died log H has no error to speak
    of: there sampling is taken symmetric in H too. Where the curve is not known survival lies
    between 0 and the upper end before: it never rises.
    """
    z = -float(special.ndtri((1.0 - level) / 2.0))
    with np.errstate(all="ignore"):
        se, half = np.sqrt(sampling + privacy), z * np.sqrt(sampling)
        if conf_type == "plain":
            S = np.exp(log_S)
            low, high = S - z * S * se, S + z * S * se
        elif conf_type == "log":
            low, high = np.exp(log_S - z * se), np.exp(log_S + z * se)
        else:
            H = -log_S
            factor = np.exp(half / H)
            up = np.where(half < H, H * factor - H, half)
            down = np.where(half < H, H - H / factor, half)
            noise = z * np.sqrt(privacy)
            low, high = np.exp(-H - np.hypot(up, noise)), np.exp(-H + np.hypot(down, noise))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    finite = np.isfinite(low) & np.isfinite(high)
    k = int(np.argmin(finite)) if not finite.all() else len(finite)
    low[k:], high[k:] = 0.0, high[k - 1] if k else 1.0
    return low, high


def level_at(edges: Array, S: Array, q: float, periods: Array) -> float:
    """Return the first time at which a falling curve is at most q; infinite if it never is.

    It falls after each of the ``periods`` (K,), or on a straight line where one is 0. S (K,) is
    that at the ends of the intervals, 1 before; rises are levelled out, NaN ends it.
    """
    finite = np.isfinite(S)
    S = S[: int(np.argmin(finite)) if not finite.all() else len(S)]
    falling = np.concatenate([[1.0], np.minimum.accumulate(np.minimum(S, 1.0))])
    below = np.flatnonzero(falling <= q)
    if not len(below):
        return math.inf
    k = int(below[0])
    if k == 0:
        return float(edges[0])
    drop = falling[k - 1] - falling[k]
    inside = (edges[k] - edges[k - 1]) * (falling[k - 1] - q) / drop
    if periods[k - 1]:
        inside = periods[k - 1] * math.ceil(inside / periods[k - 1] - 1e-9)
    return float(min(edges[k - 1] + inside, edges[k]))


# -- What ``dp_survfit`` and ``dp_survdiff`` share: one table, planned and released.


_CURVE_STEP = "survival table"
#: Noise over sampling error of a curve beyond which a plan says that the noise decides.
_WIDE_NOISE = 1.5


@dataclass(frozen=True)
class SurvivalDetail:
    """The layout of a call and the noise of its cells."""

    layout: Layout
    noise: CellNoise


def plan(request: Request, design: Design, n: int) -> Plan[SurvivalDetail]:
    """Plan one Gaussian release of a table. Reads no row."""
    layout = layout_of(design, request.options)
    if request.verb == "dp_survdiff":
        check_tested(layout, request.formula)
    elif layout.causes:
        title = "Aalen-Johansen of a table of follow-up"
        request = replace(request, method=replace(request.method, title=title))
    split = Split(request, design, {"table": (_CURVE_STEP, 1.0)}, ranged=False)
    statistic = FollowUp(layout, people=request.by_person).statistic
    sd = float(noise_of(statistic, split["table"], request.relation)[0])
    noise = CellNoise(layout, sd)
    ahead, sampling = _foreseen(layout, noise, n)
    counted = "people" if request.by_person else "rows"
    advice: list[str] = []
    if not ahead <= _WIDE_NOISE * sampling:
        advice.append(
            f"{n:,} {counted} in {layout.G} group{'s' if layout.G > 1 else ''} at this budget: the "
            "noise of a curve is larger than its sampling error. Fewer groups or intervals, more "
            f"{counted} or a larger eps"
        )
    reasons = list(request.reasons)
    if layout.levels > 1:
        reasons.append(
            f"a binary tree of {layout.levels} levels, because {layout.K} intervals by themselves "
            "would add up more noise"
        )
    if layout.entries:
        episodes = "episode" if layout.episodes == 1 else "episodes"
        reasons.append(
            f"{layout.episodes} {episodes} of a unit whole (max_episodes=); more are scaled down"
        )
    return split.plan(
        n, detail=SurvivalDetail(layout, noise), reasons=tuple(reasons), advice=tuple(advice),
        scales={
            "noise sd of a released count": sd,
            "noise sd of S = .5 at the end": ahead,
            "sampling sd of S = .5 at the end": sampling,
        },
    )  # fmt: skip


def check_tested(layout: Layout, formula: str) -> None:
    """Refuse a test of one group, or of several causes."""
    if len(layout.groups) < 2 or any(layout.causes[1:]):
        raise RequestError(
            f'"{formula}" has one group, or several causes: a test needs a variable with two '
            "declared levels or more, Surv(time, event) ~ group, and one of the causes, cause=1"
        )


def _foreseen(layout: Layout, noise: CellNoise, n: int) -> tuple[float, float]:
    """Return noise and sampling sd of S = .5 at the end, of a group of average size."""
    mean = n / layout.G
    cells = np.zeros(layout.M)
    cells[layout.run(0, 0)] = 0.5 * mean / layout.K
    cells[layout.beyond(0)] = 0.5 * mean
    if layout.entries:
        cells[layout.first(0)] = mean
    curve = Curve(layout, noise, cells, 0)
    if curve.intervals_known < layout.K:
        return math.inf, 0.5 / math.sqrt(mean)
    return 0.5 * math.sqrt(float(curve.privacy[-1])), 0.5 * math.sqrt(float(curve.greenwood[-1]))


def release(plan: Plan[SurvivalDetail], ask: Ask) -> Release:
    """Release the table.

    **Privacy.** Unit: one row, or one person (the mean of a person's rows; of episodes, their
    counts in a ball); one unit is replaced, the number of units is public. A unit is in one cell of
    each level: ``sqrt(2 levels)``; episodes: ``theory.md``, 2. A row that makes no sense is in the
    cell "missing", or nowhere.
    """
    detail = plan.detail
    people = plan.request.by_person
    noisy = answered(
        follow_up_release(_CURVE_STEP, plan.design, detail.layout, people=people), ask
    )
    cells: Array = detail.noise.fit(noisy.values, plan.n)
    return Release({"cells": cells}, plan.guarantee, plan.design)


def curves_of(plan: Plan[Any], release: Release) -> tuple[Curve, ...]:
    """Return the curves of a release."""
    detail: SurvivalDetail = plan.detail
    return curves(detail.layout, detail.noise, release.values["cells"])


# -- Backend of ``dp_survfit``: Kaplan-Meier curves by group from one table.


#: More points than this, and covariances between them are not worked out.
_MOST_COVARIANCES = 600


def names_of(by_group: Sequence[Curve], first: int = 0) -> tuple[str, ...]:
    """Return ``S(12)``, ``S(12)[g=a]``, ``F(12)[cause=1]``: curve by curve, from an interval on."""
    return tuple(
        f"{'S' if c.cause is None else 'F'}({t:g})" + (f"[{c.label}]" if c.label else "")
        for c in by_group
        for t in c.layout.edges[1 + first :]
    )


def estimate_survfit(plan: Plan[SurvivalDetail], release: Release) -> Estimate:
    """Return survival at the end of every interval, by group, with both errors."""
    detail, layout = plan.detail, plan.detail.layout
    by_group = curves_of(plan, release)
    first = first_shown(by_group)
    sampling, privacy = _covariances(by_group, first)
    notes = [
        *([messages.INCIDENCE()] if layout.causes else []),
        messages.SURVIVAL_COUNTS(),
        messages.SURVIVAL_SCALE(
            scale=plan.request["conf_type"],
            default=" (R's default: log)" if plan.request["conf_type"] == "log-log" else "",
        ),
    ]
    if opened(by_group):
        low = layout.edges[1]
        notes.append(messages.EVENTS_FIRST(time=low))
    if not layout.in_periods:
        notes.append(messages.STRAIGHT())
    short = [c for c in by_group if c.intervals_known < layout.K]
    if short:
        where = ", ".join(
            f"{c.label or 'all'} at {layout.edges[c.intervals_known]:g}" for c in short
        )
        notes.append(messages.ONLY_EVENTS_CURVE(where=where))
    if any(c.mostly_unplaced for c in by_group):
        notes.append(messages.LATE_ENTRIES())
    if plan.request.by_person and detail.layout.entries:
        notes.append(messages.RECURRENT())
    return Estimate(
        names_of(by_group, first),
        np.concatenate([c.reported(np.clip(c.S[first:], 0.0, 1.0), 0, 0)[0] for c in by_group]),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats={
            "events": float(sum(c.d.sum() for c in by_group)),
            "events_se": events_sd(by_group),
        },
        notes=tuple(notes),
        arrays={"cells": release.values["cells"], "sd": np.array([detail.noise.sd])},
    )


def _covariances(by_group: tuple[Curve, ...], first: int) -> tuple[Any, Any]:
    """Return the two covariances of S at the ends of the intervals shown, all groups."""
    K = by_group[0].layout.K - first
    size = len(by_group) * K
    S = np.concatenate([c.S[first:] for c in by_group])
    if size > _MOST_COVARIANCES:  # the diagonals alone
        parts = np.full((2, size, size), np.nan)
        for part, v in zip(parts, ("greenwood", "privacy"), strict=True):
            np.fill_diagonal(part, S**2 * np.concatenate([getattr(c, v)[first:] for c in by_group]))
        return parts[0], parts[1]
    sampling = np.zeros((size, size))
    for (i, a), (j, b) in itertools.product(enumerate(by_group), repeat=2):
        if a.group == b.group:
            sampling[i * K : (i + 1) * K, j * K : (j + 1) * K] = a.sampling(b)[first:, first:]
    privacy = by_group[0].noise.covariance(np.concatenate([c.J[first:] for c in by_group]))
    scale = np.outer(S, S)
    return sampling * scale, privacy * scale


SURVFIT = Backend(plan, release, estimate_survfit, people=True)


# -- The log-rank test on a table of cells, for any number of groups and strata (``theory.md``, 5).


@dataclass(frozen=True)
class LogRank:
    """Observed and expected events by group, and the test that they agree."""

    # N, observed, expected: (G,) arrays; at risk from the first (or entered), events, events if all
    # groups were alike; noisy.
    N: Array
    observed: Array
    expected: Array
    U: Array  # (G,): ``observed - expected``
    # V, W: (G, G) arrays; its sampling covariance under the hypothesis, and that of the noise.
    V: Array
    W: Array

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return len(self.U) - 1

    @property
    def statistic(self) -> float:
        """``U' (V + W)^{-1} U`` without the last group, whose part follows from the others."""
        total = (self.V + self.W)[:-1, :-1]
        U = self.U[:-1]
        return float(U @ inverse_and_rank(total)[0] @ U)

    @property
    def p_value(self) -> float:
        """Return the p-value of the statistic against its chi-square reference."""
        return float(special.chdtrc(self.df, max(self.statistic, 0.0)))


def logrank(layout: Layout, by_group: Sequence[Curve]) -> LogRank:
    """Return the test of equal curves within strata, from the curves of all tabulated groups."""
    G = len(layout.groups)
    observed, expected, V = np.zeros(G), np.zeros(G), np.zeros((G, G))
    slopes = np.zeros((G, layout.M))
    N = np.zeros(G)
    for s in range(len(layout.stratas)):
        mine = by_group[s * G : (s + 1) * G]
        d, Y = np.array([c.d for c in mine]), np.array([c.Y for c in mine])
        N += [c.units_followed for c in mine]
        by_d, by_Y = (np.array([c.weights[i] for c in mine]) for i in (0, 2))  # (G, K, M)
        sd = np.sqrt(np.diag(mine[0].noise.covariance(by_Y.sum(axis=0))))
        all_d, all_Y = d.sum(axis=0), Y.sum(axis=0)
        bad = (all_Y <= _DETERMINED_AT_RISK * sd) | (all_Y <= 1.0)
        k = int(np.argmax(bad)) if bad.any() else layout.K
        d, Y, all_d, all_Y = d[:, :k], Y[:, :k], all_d[:k], all_Y[:k]
        share, rate = Y / all_Y, all_d / all_Y
        observed += d.sum(axis=1)
        expected += (Y * rate).sum(axis=1)
        # ties: without the last factor V is too large by 1 - d/Y
        tied = all_d * (all_Y - all_d) / (all_Y - 1.0)
        V += np.diag(share @ tied) - (share * tied) @ share.T
        sum_d, sum_Y = by_d[:, :k].sum(axis=0), by_Y[:, :k].sum(axis=0)
        for g in range(G):
            slopes[g] += by_d[g, :k].sum(axis=0) - rate @ by_Y[g, :k] - share[g] @ sum_d
            slopes[g] += (share[g] * rate) @ sum_Y
    W = by_group[0].noise.covariance(slopes)
    return LogRank(N, observed, expected, observed - expected, _psd(V), _psd(W))


def _psd(V: Array) -> Array:
    """Return the nearest covariance: noise may leave a small negative eigenvalue."""
    values, vectors = np.linalg.eigh(0.5 * (V + V.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


# -- Backend of ``dp_survdiff``: the log-rank test from one table.


def estimate_survdiff(plan: Plan[Any], release: Release) -> Estimate:
    """Return observed less expected events by group, and the test."""
    layout: Layout = plan.detail.layout
    return estimate_of(layout, logrank(layout, curves_of(plan, release)))


def estimate_of(layout: Layout, test: LogRank) -> Estimate:
    """Return the estimate of a test."""
    notes = [messages.LOGRANK_NOISE()]
    if len(layout.stratas) > 1:
        notes.append(messages.STRATIFIED(count=len(layout.stratas)))
    return Estimate(
        layout.groups,
        test.U,
        vcov_sampling=test.V,
        vcov_privacy=test.W,
        stats={"statistic": test.statistic, "df": float(test.df), "p_value": test.p_value},
        notes=tuple(notes),
        arrays={"n": np.asarray(test.N), "observed": test.observed, "expected": test.expected},
    )


SURVDIFF = Backend(plan, release, estimate_survdiff, people=True)
