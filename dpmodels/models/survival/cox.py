"""Backend of ``dp_coxph``: proportional hazards by private Fisher scoring of follow-up.

A survival table by stratum first (:mod:`dpmodels.models.survival.release`); its hazards are an
offset of the person-period likelihood (:mod:`dpmodels.models.survival.hazard`), whose passes are
those of any fit over units (:mod:`dpmodels.scoring.expand_engine`). ``theory.md``, 7.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query
from dpmodels.models.survival.concordance import Concordance
from dpmodels.models.survival.counts import SurvivalPass, added, statistic_of
from dpmodels.models.survival.curve import curves
from dpmodels.models.survival.hazard import Hazard, Timeline, q_terms
from dpmodels.models.survival.layout import Layout, layout_of
from dpmodels.models.survival.noise import CellNoise
from dpmodels.planning.plan import planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.scoring.expand_engine import Begun, UnitChain, UnitRelease
from dpmodels.scoring.expand_fit import plan_units, release_units_fit
from dpmodels.scoring.expand_report import UnitPart, estimate_units
from dpmodels.scoring.expand_start import Number, Spread, numbers
from dpmodels.scoring.score import Beginning

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request
    from dpmodels.scoring.coordinates import Coordinates

__all__ = ["CoxModel", "estimate", "hazards_of", "in_halves", "plan", "release"]

#: Cells of time where the call does not say.
CELLS = 13
#: Share of mu^2 of the table; and the name of its step.
TABLE, STEP = 0.06, "survival table"
#: Cells of time that need no halves.
ENOUGH = 24
#: Hazards of cells, over their mean: at least, at most.
WITHIN = (0.2, 8.0)

#: The release of the passes.
release = release_units_fit


def hazards_of(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Array, Array]:
    """Return (hazard a unit of time of every cell, events), each (strata, K).

    Three-cell moving sums of events over exposure, within ``WITHIN`` times the mean. An offset: the
    time terms of the model take what it is wrong by.
    """
    width = np.diff(layout.edges)
    rates, events = [], []
    for curve in curves(layout, noise, cells):
        exposure = np.maximum(curve.Y - 0.5 * curve.d, 0.0) * width
        mean = max(float(curve.d.sum()), 1.0) / max(float(exposure.sum()), 1e-300)
        three = np.ones(3)
        d = np.convolve(curve.d, three, mode="same")
        time = np.convolve(exposure, three, mode="same")
        found = np.where(time > 0.0, d / np.maximum(time, 1e-300), mean)
        rates.append(np.clip(found, WITHIN[0] * mean, WITHIN[1] * mean))
        events.append(curve.d)
    return np.array(rates), np.array(events)


def in_halves(edges: Array, rates: Array, events: Array) -> Timeline:
    """Return the timeline of both halves of every cell, hazards of their middles on straight lines.

    A hazard that is level within few long cells stands below that of those who are left: slopes
    are a tenth of a standard error off, on straight lines a third of that (``theory.md``, 7).

    Parameters
    ----------
    edges : (K + 1,) array
    rates, events : (S, K) arrays
    """
    K = len(edges) - 1
    if not 1 < K < ENOUGH:
        return Timeline(edges, rates, events)
    fine = np.interp(np.arange(2 * K + 1) / 2.0, np.arange(K + 1.0), edges)
    middle, at = (edges[1:] + edges[:-1]) / 2.0, (fine[1:] + fine[:-1]) / 2.0
    out = []
    for own in rates:
        line = np.interp(at, middle, own)
        for end, inner, half in ((0, 1, 0), (-1, -2, -1)):  # beyond the middles the line goes on
            slope = (own[inner] - own[end]) / (middle[inner] - middle[end])
            line[half] = own[end] + slope * (at[half] - middle[end])
        mean = float(np.mean(own))
        out.append(np.clip(line, WITHIN[0] * mean, WITHIN[1] * mean))
    return Timeline(fine, np.array(out), np.repeat(events, 2, axis=1) / 2.0)


@dataclass(frozen=True, eq=False)
class CoxModel:
    """Proportional hazards, as planned.

    Attributes
    ----------
    layout : Layout
    people : bool
    N : int
        Units: public, as a call of replace-one.
    """

    layout: Layout
    people: bool
    N: int

    linear: ClassVar[bool] = False
    scale: ClassVar[bool] = False

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return the predictors that are numbers."""
        return numbers(design, response="")

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return the step of the table."""
        return (Step(STEP, Gaussian(mu * math.sqrt(TABLE)), share=TABLE),)

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Release the table and start at its hazards, effects 0.

        Privacy
        -------
        ``TABLE`` of the call's mu^2, for one unit: its own mass in the table (``theory.md``, 2).
        """
        statistic = statistic_of(self.layout, people=self.people)
        over = SurvivalPass(design, self.layout, self.people)
        found = ask(STEP, Query(statistic, over, added))
        noise = CellNoise(self.layout, float(found.sd.flat[0]))
        cells = noise.fit(found.values, float(self.N))
        rates, events = hazards_of(self.layout, noise, cells)
        assert design.survival is not None
        line = in_halves(np.array(self.layout.edges), rates, events)
        rate = max(float(events.sum()), 1.0) / self.N
        model = Hazard(coordinates, design.survival, line, rate, self.people)
        r = coordinates.rank + q_terms(len(rates))
        constant = coordinates.constant
        if constant is not None:
            constant = np.concatenate([constant, np.zeros(r - len(constant))])
        start = Beginning(constant, r, None)
        return Begun(model, start.state(np.zeros(r)), {"cells": cells})


def _checked(request: Request, design: Design) -> None:
    """Refuse what has no proof or no meaning, before anything is read."""
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
        options["breaks"] = CELLS
    layout = layout_of(design, options)
    rows = planning_rows(request, n)
    model = CoxModel(layout, request.by_person, rows)
    extra = q_terms(len(layout.stratas))
    return plan_units(
        request, design, rows, ((model, ""),), linear=False, raw=True,
        dimension=functools.partial(operator.add, extra), closing=_closing(request, model),
    )  # fmt: skip


def _closing(request: Request, model: CoxModel) -> Concordance | None:
    """Return what ``concordance=True`` asks for."""
    if not request["concordance"]:
        return None
    if model.layout.entries:
        raise RequestError(
            "concordance=True compares who is followed from the same beginning: write "
            "Surv(time, event); of Surv(start, stop, event) it is not released"
        )
    return Concordance(model.layout, model.people, model.N)


def _back(found: UnitRelease, chain: UnitChain) -> tuple[Array, Array]:
    """Return (A, a) of the columns but the intercept."""
    A, a = found.coordinates.back()
    r = len(chain.last.state.theta)
    out = np.zeros((len(A), r))
    out[:, : A.shape[1]] = A
    return out[1:], a[1:]


def baseline(found: UnitRelease, chain: UnitChain) -> tuple[Array, Array]:
    """Return (edges, hazard by stratum and cell of a unit with all columns 0): (S, K)."""
    model = chain.expansion
    assert isinstance(model, Hazard)
    A, a = found.coordinates.back()
    theta, first = chain.last.state.theta, A.shape[1]
    intercept = float(A[0] @ theta[:first] + a[0])
    return model.timeline.edges, model.timeline.hazards(theta, first) * math.exp(intercept)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to log hazard ratios, with bias-aware errors by unit."""
    names = release.design.names[1:]
    lost = None
    more: tuple[str, ...] = ()
    arrays: dict[str, Array] = {}
    if release.reply:
        found: UnitRelease = release.detail
        lost = ~found.coordinates.identified[1:]
        edges, hazards = baseline(found, found.chains[0])
        arrays = {"edges": edges, "baseline": hazards}
        more = (
            "The baseline hazard is that of the released table, a number for each half of a cell "
            "of time, with a released quadratic in time; ties are no matter.",
        )

    def stats(part: UnitPart) -> dict[str, float]:
        model = part.chain.expansion
        assert isinstance(model, Hazard)
        return {"events": model.rate * plan.detail.rows}

    out = estimate_units(
        plan, release, stats, back=_back, names=names, lost=lost, more=more
    )
    return replace(out, arrays={**out.arrays, **arrays})
