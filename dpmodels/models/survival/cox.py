"""``dp_coxph``: proportional hazards by private Fisher scoring of person-time data; concordance.

First a survival table is released for every stratum (:mod:`dpmodels.models.survival.curve`). Its
hazards are an offset of the person-period likelihood (:mod:`dpmodels.models.survival.hazard`). This
is fitted like any model with units of several rows (:mod:`dpmodels.scoring.units`). A *pass* is one
reading of the rows, its release and its Newton step. ``theory.md``, 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.rows import Rows, only_where, where
from dpmodels.errors import RequestError
from dpmodels.families import EVENTS_OF_SURVIVAL
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.models.survival.curve import SURVDIFF, SURVFIT, Curve, curves, events_sd, opened
from dpmodels.models.survival.hazard import TIME_TERMS, Hazard, Timeline
from dpmodels.models.survival.incidence import Incidence  # noqa: F401 - it enters itself
from dpmodels.models.survival.table import (
    INTERVALS,
    CellNoise,
    Layout,
    follow_up_release,
    layout_of,
)
from dpmodels.notes import Note
from dpmodels.planning import Plan, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import BOUNDS_SHARE, STOP, Backend, Method, Option, register_method
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.fit import Part, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.models import Beginning
from dpmodels.scoring.run import Chain, Closing, Fitting, ModelSpec, ScoringRelease
from dpmodels.scoring.unit_passes import in_u, predictor
from dpmodels.scoring.unit_scales import Spread
from dpmodels.scoring.units import Initialised, UnitModel

# -- The hazard that a Cox fit starts from: a value for each cell of time, and its errors.
#
# It enters as an offset and need not be right: three time terms of the model (level, slope and
# curvature) correct it. The error that they do not correct is in the errors of predicted survival
# (``theory.md``, 8). All are functions of released cells, at no cost.


#: Smoothed hazards of cells, over their mean: at least, at most. And the least one of any cell.
WITHIN, LEAST_HAZARD = (0.2, 8.0), 0.02
#: A cell keeps its own hazard if it is this many of its errors from the smoothed one.
CLEAR_OF_SMOOTH = 2.0
#: Largest share of those at risk that has its event within one cell.
_MOST_AT_ONCE = 0.99
#: Newton steps of the Poisson regression on the three time terms.
_TIME_TERM_STEPS = 20
#: Largest coefficient of that regression, and largest log of the factor that it fits.
_MOST_LOG_FACTOR = 5.0
#: Largest unsmoothed hazard of a cell, over the smoothed one.
_MOST_HAZARD = 1e3


def offset_of(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Timeline, float]:
    """Return the offset of a released table, and the events in it.

    If the events at the beginning of the range exceed their noise, they get a separate cell before
    the first one. Otherwise they count at the beginning of the first cell.
    """
    curves_released = curves(layout, noise, cells)
    apart = opened(curves_released)
    tables = [_Table.of(curve, apart) for curve in curves_released]
    skipped = int(apart)
    rates, events = hazards_of([table.after(skipped) for table in tables], noise)
    line = Timeline(tables[0].edges[skipped:], rates, events)
    if apart:
        line = _with_opening(line, tables)
    of_tables = [_unsmoothed(table, noise, line, s) for s, table in enumerate(tables)]
    factors, spread = (np.array(part) for part in zip(*of_tables, strict=True))
    total = float(sum(table.d.sum() for table in tables))
    parts = np.array([table.parts for table in tables]) if layout.in_periods else None
    return replace(line, factors=factors, spread=spread, parts=parts), total


@dataclass(frozen=True, eq=False)
class _Table:
    """Cells of a curve, from which its hazard is computed: events, time at risk, weights."""

    edges: Array  # (K + 1,)
    d: Array  # (K,) events
    exposure: Array  # (K,) time at risk
    parts: Array  # (K,) part of a cell for which units with an event in it are at risk
    # (K, M) weights of the released cells
    of_d: Array
    of_exposure: Array

    @property
    def K(self) -> int:
        """Number of cells."""
        return len(self.d)

    @classmethod
    def of(cls, curve: Curve, apart: bool) -> _Table:
        """Return the cells of a curve, with the cell of the beginning only if it is ``apart``.

        If this first cell has length 0 it is given the average length, before the range: its hazard
        is per cell, so the length does not matter.
        """
        edges, first = np.array(curve.layout.edges), int(curve.layout.opening and not apart)
        share = np.clip(curve.d / np.maximum(curve.Y, 1e-300), 1e-6, _MOST_AT_ONCE)
        # of the events of a cell, which are tied (``theory.md``, 7)
        parts = -1.0 / np.log1p(-share) - (1.0 - share) / share
        gone = 1.0 - parts
        if apart and edges[0] == edges[1]:
            edges[0] -= (edges[-1] - edges[1]) / (len(edges) - 2)
        width = np.diff(edges)
        exposure = np.maximum(curve.Y - gone * curve.d, 0.0) * width
        of_d, _, of_Y = curve.weights
        of_exposure = width[:, None] * (of_Y - gone[:, None] * of_d)
        return cls(edges, curve.d, exposure, parts, of_d, of_exposure).after(first)

    def after(self, first: int) -> _Table:
        """Return the table without its first ``first`` cells."""
        return _Table(self.edges[first:], *(
            part[first:]
            for part in (self.d, self.exposure, self.parts, self.of_d, self.of_exposure)
        ))  # fmt: skip


def hazards_of(tables: Sequence[_Table], noise: CellNoise) -> tuple[Array, Array]:
    """Return the smoothed hazard per unit of time, and the events, of every cell: (strata, K) each.

    The hazard is the ratio of three-cell moving sums of events and of exposure, clipped to
    ``WITHIN`` times the mean hazard. That of a cell alone stands instead as far as it is clear of
    its own errors: where events are tied, cells may hold many or none.
    """
    rates, events = [], []
    for table in tables:
        mean = max(float(table.d.sum()), 1.0) / max(float(table.exposure.sum()), 1e-300)
        three = np.ones(3)
        d, time = (np.convolve(v, three)[1:-1] for v in (table.d, table.exposure))
        rate = np.where(time > 0.0, d / np.maximum(time, 1e-300), mean)
        rate = np.clip(rate, WITHIN[0] * mean, WITHIN[1] * mean)
        alone = table.d - rate * table.exposure  # events beyond those of the smooth hazard
        errors = np.maximum(table.d, 1.0) + np.diag(noise.covariance(table.of_d))
        clear = np.maximum(1.0 - CLEAR_OF_SMOOTH**2 * errors / np.maximum(alone**2, 1e-300), 0.0)
        rate = rate + clear * alone / np.maximum(table.exposure, 1e-300)
        rates.append(np.maximum(rate, LEAST_HAZARD * mean))
        events.append(table.d)
    return np.array(rates), np.array(events)


def _with_opening(line: Timeline, tables: Sequence[_Table]) -> Timeline:
    """Return the timeline with the first cell of the tables added; its hazard is not smoothed."""
    rates = [max(float(t.d[0]), 0.5) / max(float(t.exposure[0]), 1e-300) for t in tables]
    events = [float(t.d[0]) for t in tables]
    return Timeline(
        np.concatenate([tables[0].edges[:1], line.edges]),
        np.column_stack([rates, line.rates]), np.column_stack([events, line.events]),
    )  # fmt: skip


# -- Factors from the smoothed to the unsmoothed hazard of each cell, for the cumulative hazard


def _unsmoothed(table: _Table, noise: CellNoise, line: Timeline, s: int) -> tuple[Array, Array]:
    """Return factors (F,) from the smoothed to the unsmoothed hazard of each cell of ``line``.

    Also return the covariance (F, F) of the logs of the factors. ``line`` has the F smoothed
    hazards of the cells of the table, and ``s`` is the stratum.

    A fit uses smoothed hazards, because moving sums keep noise out of its passes. But they distort
    the cumulative hazard. The time terms of the fit correct for the distortion, and also for the
    change of the columns among those still at risk. Only the second correction belongs in the
    hazards of cells. So the first, the regression of the table itself on the time terms (``k``), is
    divided out. The errors of the cells (events are Poisson given the exposure; both have the noise
    of the table) are projected by ``I - P``, P the projection on the time terms in the metric of
    the events.
    """
    d, exposure = np.maximum(table.d, 0.0), np.maximum(table.exposure, 1e-300)
    f = np.minimum(d / exposure / line.rates[s], _MOST_HAZARD)  # where anybody is left
    expected = line.rates[s] * exposure
    Z = line.terms[s].T
    k = _poisson(expected * f, expected, Z)
    d = np.maximum(d, 1.0)
    J = table.of_d / d[:, None] - table.of_exposure / exposure[:, None]
    errors = np.diag(1.0 / d) + noise.covariance(J)
    left = np.eye(line.K) - Z @ np.linalg.pinv(Z.T @ (d[:, None] * Z)) @ (Z.T * d)
    return f * np.exp(-Z @ k), left @ errors @ left.T


def _poisson(events: Array, expected: Array, Z: Array) -> Array:
    """Return the coefficients (3,) of a Poisson regression of events on the time terms.

    ``events`` and ``expected`` are counts of K cells, and ``Z`` (K, 3) the time terms of the cells.
    The coefficients k solve ``sum z (events - expected e^{z'k}) = 0``, by Newton steps from 0.
    """
    k = np.zeros(Z.shape[1])
    for _ in range(_TIME_TERM_STEPS):
        fitted = expected * np.exp(np.clip(Z @ k, -_MOST_LOG_FACTOR, _MOST_LOG_FACTOR))
        k = k + np.linalg.pinv(Z.T @ (fitted[:, None] * Z)) @ (Z.T @ (events - fitted))
    return np.asarray(np.clip(k, -_MOST_LOG_FACTOR, _MOST_LOG_FACTOR))


def residual(line: Timeline, mass: Array) -> Array:
    """Return sds (S, K), at cell ends, of the uncorrected error of the cumulative hazard.

    This is the part of the error of the offset that the time terms do not correct. ``mass`` (S, K):
    increase of the cumulative hazard over each cell.
    """
    if line.spread is None:
        return np.zeros_like(mass)
    up_to = np.tril(np.ones((line.K, line.K))) * mass[:, None, :]
    return np.sqrt(np.maximum(np.einsum("sij,sjk,sik->si", up_to, line.spread, up_to), 0.0))


# -- Harrell's C of a released fit: one more table, by deciles of the released risk.
#
# Concordance is the share of pairs in which the unit whose event is first is the one that the fit
# predicts at higher risk. A table of (decile of risk, cell of time, event | censored | beyond)
# is enough for it. ``theory.md``, 9.


#: Groups of risk.
TENTHS = 10
#: C is not determined if the comparable pairs are fewer than this number of their noise sds.
_DETERMINED_PAIRS = 4.0


@dataclass(frozen=True, eq=False)
class Risk:
    """Risk group of rows: the linear predictor, cut at the deciles of a normal distribution.

    The distribution has the released mean and variance of the predictor.
    """

    coordinates: Coordinates
    theta: Array  # (r,): released coefficients in u, the time terms left out

    @functools.cached_property
    def cuts(self) -> Array:
        """Return the inner ends of the deciles, from released numbers only.

        In the coordinates u second moments are the identity over the box of the released centres
        and scales. So a predictor theta'u has mean theta'a, a the coefficients of the constant.
        """
        a = self.coordinates.constant
        mean = 0.0 if a is None else float(self.theta @ a)
        sd = math.sqrt(max(float(self.theta @ self.theta) - mean * mean, 1e-12))
        return np.asarray(mean + sd * special.ndtri(np.arange(1, TENTHS) / TENTHS))

    def __call__(self, z: Rows) -> Rows:
        """Return the decile of each row, NaN if it is not known."""
        eta = predictor(self.theta, in_u(self.coordinates, z))
        tenth = np.searchsorted(self.cuts, only_where(eta, np.isfinite(eta)), "right")
        return where(np.isfinite(eta), tenth, np.nan)


def by_risk(layout: Layout) -> Layout:
    """Return the layout with deciles of risk as groups, stratum by stratum."""
    return replace(layout, groups=tuple(f"risk {k + 1}" for k in range(TENTHS)))


def concordance_of(layout: Layout, noise: CellNoise, cells: Array) -> dict[str, float]:
    """Return C with its errors: ``concordance, concordance_se, concordance_noise``.

    ``C = A / P``, summed over strata and cells k of time. P counts comparable pairs: an event in k
    with every unit that leaves later (1 each), with a censoring in k (1/2, as either may come
    first), and with another event in k (1). A counts the pairs in which the earlier event has the
    higher decile. Pairs within one decile count half, and so do pairs of two events in one cell.
    Without the pairs of one cell the closest pairs would be missing, and C would be too large.

    Noise of different cells is independent. So it biases only squares, by its variance, which is
    negligible if the pairs are many enough for C to be determined. Errors are by the gradient of
    C: ``sum n psi^2`` for sampling, ``psi V psi'`` for noise. C is NaN if it is not determined.

    The layout is from :func:`by_risk`. Its cells are noisy and consistent, and are not clipped.
    """
    to_A, to_P = np.zeros(layout.M), np.zeros(layout.M)
    A = P = 0.0
    G = len(layout.groups)
    ranks = np.tril(np.ones((G, G)), -1) + 0.5 * np.eye(G)  # the row's tenth over the column's
    for s in range(len(layout.stratas)):
        groups = range(s * G, (s + 1) * G)
        events = np.array([cells[layout.run(g, 0)] for g in groups])  # (G, K)
        censored = np.array([cells[layout.run(g, 1)] for g in groups])
        at_break = np.array([cells[layout.run(g, 2)] for g in groups])
        beyond = cells[[layout.beyond(g) for g in groups]]
        leave = events + censored + at_break
        later = np.cumsum(leave[:, ::-1], axis=1)[:, ::-1] - leave
        later += beyond[:, None] + 0.5 * censored
        together = events.sum(axis=0)  # in one cell: (K,)
        square = together * (together - 1.0)
        for to, of, part in ((to_A, ranks, 0.5), (to_P, np.ones((G, G)), 1.0)):
            by_event, by_later = of @ later, of.T @ events
            before = np.cumsum(by_later, axis=1) - by_later
            for i, g in enumerate(groups):
                to[layout.run(g, 0)] += by_event[i] + before[i] + part * (together - 0.5)
                to[layout.run(g, 1)] += before[i] + 0.5 * by_later[i]
                to[layout.run(g, 2)] += before[i]
                to[layout.beyond(g)] += by_later[i].sum()
        A += float(np.sum(events * (ranks @ later)) + np.sum(square) / 4.0)
        P += float(np.sum(together * later.sum(axis=0)) + np.sum(square) / 2.0)
    if not _DETERMINED_PAIRS * math.sqrt(float(noise.covariance(to_P[None, :])[0, 0])) < P:
        return dict.fromkeys(("concordance", "concordance_se", "concordance_noise"), math.nan)
    C = A / P
    psi = (to_A - C * to_P) / P
    privacy = float(noise.covariance(psi[None, :])[0, 0])
    sampling = max(float(cells @ psi**2), 0.0)
    return {
        "concordance": C,
        "concordance_se": math.sqrt(sampling + privacy),
        "concordance_noise": math.sqrt(privacy),
    }


@dataclass(frozen=True)
class Concordance(Closing):
    """Table from which C is computed, released after the last pass."""

    layout: Layout  # Layout of the baseline's table
    people: bool
    N: int

    name: ClassVar[str] = "concordance table"
    share: ClassVar[float] = 0.05

    def conclude(
        self, released: ScoringRelease, design: Design
    ) -> Generator[Any, Any, dict[str, float]]:
        """Release the table by deciles of the released risk, and compute C from it.

        **Privacy.** ``share`` of the call's mu^2, for one unit. A unit's contribution to the table
        is bounded as in the table of the baseline (``theory.md``, 2). Cuts are released numbers.
        """
        model = released.fits[0].model
        assert isinstance(model, Hazard)
        theta = released.fits[0].state.theta[: len(model.coordinates.W0)]
        layout = by_risk(self.layout)
        risk = Risk(model.coordinates, theta)
        noisy = yield follow_up_release(
            self.name, design, layout, people=self.people, group_of=risk
        )
        noise = CellNoise(layout, float(noisy.sd.flat[0]))
        return concordance_of(layout, noise, noise.fit(noisy.values, float(self.N)))


# -- Backend of ``dp_coxph``: proportional hazards by private Fisher scoring of person-time data.


#: Number of time cells of ``dp_coxph`` if the call gives no ``breaks``.
TIME_CELLS = 13
#: Share of mu^2 of the table; and the name of its step.
TABLE_SHARE, SURVIVAL_STEP = 0.06, "survival table"

#: The release of the passes.
release = release_fit


@dataclass(frozen=True, eq=False)
class CoxModel(UnitModel):
    """Proportional hazards, as planned."""

    layout: Layout
    people: bool
    N: int  # Number of units, public because neighbours are replace-one

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank; those of time come last."""
        return rank + TIME_TERMS * len(self.layout.stratas) - 1  # the intercept is one of them

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return the step of the table."""
        return (Step(SURVIVAL_STEP, Gaussian(mu * math.sqrt(TABLE_SHARE)), share=TABLE_SHARE),)

    def initialise(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, mu: float
    ) -> Generator[Any, Any, Initialised]:
        """Release the table, and start with its hazards and all coefficients 0.

        **Privacy.** ``TABLE_SHARE`` of the call's mu^2, for one unit, whose contribution to the
        table is bounded (``theory.md``, 2).
        """
        table = yield follow_up_release(SURVIVAL_STEP, design, self.layout, people=self.people)
        noise = CellNoise(self.layout, float(table.sd.flat[0]))
        cells = noise.fit(table.values, float(self.N))
        line, events = offset_of(self.layout, noise, cells)
        assert design.survival is not None
        rate, noise_sd = max(events, 1.0) / self.N, events_sd(curves(self.layout, noise, cells))
        model = Hazard(
            coordinates, design.survival, line, rate, self.people, rate_sd=noise_sd / self.N
        )
        r = self.dimension(coordinates.rank)
        constant = coordinates.constant
        if constant is not None:
            constant = np.concatenate([constant, np.zeros(r - len(constant))])
        start = Beginning(constant, r, None)
        values = {"cells": cells, "events_sd": noise_sd}
        return Initialised(model, start.state(np.zeros(r)), values)


def _checked(request: Request, design: Design) -> None:
    """Refuse calls that have no proof or make no sense, before anything is read."""
    if request.delta == 0:
        raise RequestError("dp_coxph adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if not design.has_intercept:
        raise RequestError(
            "dp_coxph has no intercept to leave out: the baseline hazard is free. Write "
            f'"{request.formula}" without "- 1" and "+ 0"'
        )
    if design.p < 2:
        raise RequestError(
            "dp_coxph compares hazards by predictors, and this formula has none: "
            'Surv(time, event) ~ x. For the curve alone dp_survfit("Surv(time, event) ~ 1")'
        )


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_coxph``."""
    _checked(request, design)
    options = dict(request.options)
    if options.get("breaks") is None:
        assert design.survival is not None
        column, cells = design.z[design.survival.time], TIME_CELLS
        declared = design.schema.variables.get(column.name)
        if column.interval is not None and getattr(declared, "kind", "") == "count":
            # at most one per declared whole time
            cells = max(1, min(cells, round(column.interval[1] - column.interval[0])))
        options["breaks"] = cells
    layout = layout_of(design, options)
    rows = planning_rows(request, n)
    model = CoxModel(layout, request.by_person, rows)
    closing = None
    if request["concordance"]:
        if layout.entries:
            raise RequestError(
                "concordance=True compares units that are followed from the same time 0. Write "
                "Surv(time, event): concordance is not released for Surv(start, stop, event)"
            )
        closing = Concordance(layout, model.people, rows)
    fitted = ModelSpec(
        (Chain(model),), closing=closing, guess=EVENTS_OF_SURVIVAL**-0.5, level=False
    )
    return plan_fit(request, design, rows, fitted, of_units=True)


def _back(released: ScoringRelease, fit: Fitting) -> tuple[Array, Array]:
    """Return (A, a), the map from theta to the coefficients, without the intercept."""
    A, a = released.coordinates.back()
    r = len(fit.state.theta)
    out = np.zeros((len(A), r))
    out[:, : A.shape[1]] = A
    return out[1:], a[1:]


def baseline(released: ScoringRelease, part: Part) -> dict[str, Array]:
    """Return the baseline of a unit with all columns 0, and the inputs of its intervals.

    ``edges`` (K + 1,); ``baseline`` (S, K), hazards; ``baseline_events`` (S, K);
    ``baseline_vcov`` (d, d), covariance of the d parameters (intercept, columns, time terms);
    ``baseline_gradient`` (S, K, d), gradient in them of the cumulative hazard at the ends of the
    cells; ``baseline_offset`` (S, K), its sd from errors of the offset that the time terms do not
    correct; ``baseline_bias`` (S, K), bound of the bias of its log.
    """
    fit, inference = part.release, part.inference
    model = fit.model
    assert isinstance(model, Hazard)
    line, theta = model.timeline, fit.state.theta
    A, a = released.coordinates.back()
    p, first = A.shape
    hazards = line.hazards(theta, first) * math.exp(min(float(A[0] @ theta[:first] + a[0]), 300.0))
    hazards *= 1.0 if line.factors is None else line.factors
    to_parameters = np.zeros((p + len(theta) - first, len(theta)))
    to_parameters[:p, :first] = A
    to_parameters[p:, first:] = np.eye(len(theta) - first)
    T = to_parameters @ fit.before.W.T
    mass = hazards * np.diff(line.edges)  # (S, K)
    gradient = np.zeros((*mass.shape, len(to_parameters)))
    gradient[:, :, 0] = np.cumsum(mass, axis=1)
    for s, mass_of_stratum in enumerate(mass):
        for term, at in line.slots(s, first):
            gradient[s, :, p + at - first] = np.cumsum(mass_of_stratum * line.terms[s, term])
    total = np.maximum(gradient[:, :, :1], 1e-300)
    bias = inference.allowance.bias((gradient / total).reshape(-1, len(to_parameters)) @ T)
    return {
        "edges": line.edges, "baseline": hazards, "baseline_events": line.events,
        "baseline_vcov": T @ (inference.sampling + inference.privacy) @ T.T,
        "baseline_gradient": gradient, "baseline_offset": residual(line, mass),
        "baseline_bias": bias.reshape(mass.shape),
    }  # fmt: skip


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to log hazard ratios, with bias-aware errors clustered by unit."""
    names = release.design.names[1:]
    lost = None
    further_notes: tuple[Note, ...] = ()
    if release.reply:
        released: ScoringRelease = release.detail
        lost = ~released.coordinates.identified[1:]
        further_notes = (messages.PUBLISHED_HAZARD(),)
        if getattr(plan.design.survival, "causes", ()):
            further_notes = (*further_notes, messages.CAUSE_SPECIFIC())

    def stats(part: Part) -> dict[str, float]:
        model = part.release.model
        assert isinstance(model, Hazard)
        noise_sd = float(part.release.values["events_sd"])
        return {"events": model.rate * plan.detail.rows, "events_se": noise_sd}

    return estimate_fit(
        plan, release, stats, back=_back, names=names, lost=lost, model_notes=further_notes,
        arrays=lambda part: baseline(release.detail, part),
    )  # fmt: skip


COX_BACKEND = Backend(plan, release, estimate, people=True)


# -- Methods of survival curves and tests, as data.


def _time_options(default: str) -> tuple[Option, ...]:
    """Return the options that set the intervals of a table; ``default``: those without breaks."""
    return (
        Option("times", "public times at which survival is wanted: [6, 12, 24]", None, object),
        Option(
            "breaks", f"equal intervals of the declared range, or a list of times; None: {default}",
            None, object,
        ),
        Option("cause", "the level of the event that is meant, in place of one in Surv()"),
        Option(
            "max_episodes", "number of separate episodes of a unit that count in full, with "
            "Surv(start, stop, event); None: 1", None, int, lower=0, upper=1001,
        ),
    )  # fmt: skip


_CURVE_OPTIONS = _time_options(f"about {INTERVALS}")

_method = functools.partial(
    Method, proof="models/survival/theory.md", needs=("delta > 0", "one pass")
)

register_method(
    _method(
        name="table", verb="dp_survfit", title="Kaplan-Meier of a table of follow-up",
        backend=SURVFIT, privacy_se="public",
        reference="Kaplan and Meier (1958); Greenwood (1926); Gaussian mechanism on counts",
        options=(
            *_CURVE_OPTIONS,
            Option(
                "conf_type", "scale on which intervals are symmetric (R's default is 'log')",
                "log-log", str, choices=("log-log", "log", "plain"),
            ),
        ),
    )
)  # fmt: skip
register_method(
    _method(
        name="logrank", verb="dp_survdiff", title="Log-rank test of a table of follow-up",
        backend=SURVDIFF, privacy_se="public",
        reference="Mantel (1966); Peto and Peto (1972); Gaussian mechanism on counts",
        options=_CURVE_OPTIONS,
    )
)  # fmt: skip
register_method(
    _method(
        name="scoring", verb="dp_coxph", title="proportional hazards, private", backend=COX_BACKEND,
        needs=("delta > 0", "several passes"),
        reference="Cox (1972); Holford (1980); theory note survival/theory.md",
        options=(
            *_time_options(str(TIME_CELLS)), BOUNDS_SHARE, STOP,
            Option("concordance", "release Harrell's C too, with .05 of mu^2", False, bool),
        ),
        foretells=True, accepts=("public",),
    )
)  # fmt: skip
