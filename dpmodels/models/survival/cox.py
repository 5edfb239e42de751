"""Backend of ``dp_coxph``: proportional hazards by private Fisher scoring of follow-up.

A survival table by stratum first (:mod:`dpmodels.models.survival.release`); its hazards are an
offset of the person-period likelihood (:mod:`dpmodels.models.survival.hazard`), whose passes are
those of any fit over units (:mod:`dpmodels.scoring.expand_engine`). ``theory.md``, 7.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query
from dpmodels.models.survival.concordance import Concordance
from dpmodels.models.survival.counts import SurvivalPass, added, statistic_of
from dpmodels.models.survival.hazard import Hazard, q_terms
from dpmodels.models.survival.layout import Layout, layout_of
from dpmodels.models.survival.noise import CellNoise
from dpmodels.models.survival.offset import offset_of, residual
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

#: Cells of time where the call does not say.
CELLS = 13
#: Share of mu^2 of the table; and the name of its step.
TABLE, STEP = 0.06, "survival table"

#: The release of the passes.
release = release_units_fit


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
        line, events = offset_of(self.layout, noise, cells)
        assert design.survival is not None
        rate = max(events, 1.0) / self.N
        model = Hazard(coordinates, design.survival, line, rate, self.people)
        r = coordinates.rank + q_terms(len(line.rates))
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


def baseline(found: UnitRelease, part: UnitPart) -> dict[str, Array]:
    """Return the baseline of a unit with all columns 0, and what intervals of it are made of.

    Returns
    -------
    dict
        ``edges`` (K + 1,); ``baseline`` (S, K), hazards. Of (intercept, columns, time terms), d
        in all: ``baseline_vcov`` (d, d); ``baseline_gradient`` (S, K, d), of the cumulative hazard
        at the ends of the cells; ``baseline_offset`` (S, K), standard deviation that it has of what
        the time terms leave of the offset; ``baseline_bias`` (S, K), bound of the bias of its log.
    """
    chain, inference = part.chain, part.inference
    model = chain.expansion
    assert isinstance(model, Hazard)
    line, theta = model.timeline, chain.last.state.theta
    A, a = found.coordinates.back()
    p, first = A.shape
    hazards = line.hazards(theta, first) * math.exp(min(float(A[0] @ theta[:first] + a[0]), 700.0))
    hazards *= 1.0 if line.factors is None else line.factors
    whole = np.zeros((p + len(theta) - first, len(theta)))
    whole[:p, :first] = A
    whole[p:, first:] = np.eye(len(theta) - first)
    T = whole @ chain.before.W.T
    mass = hazards * np.diff(line.edges)  # (S, K)
    gradient = np.zeros((*mass.shape, len(whole)))
    gradient[:, :, 0] = np.cumsum(mass, axis=1)
    for s, own in enumerate(mass):
        for term, at in line.slots(s, first):
            gradient[s, :, p + at - first] = np.cumsum(own * line.terms[s, term])
    total = np.maximum(gradient[:, :, :1], 1e-300)
    bias = inference.allowance.bias((gradient / total).reshape(-1, len(whole)) @ T)
    return {
        "edges": line.edges, "baseline": hazards,
        "baseline_vcov": T @ (inference.sampling + inference.privacy) @ T.T,
        "baseline_gradient": gradient, "baseline_offset": residual(line, mass),
        "baseline_bias": bias.reshape(mass.shape),
    }  # fmt: skip


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to log hazard ratios, with bias-aware errors by unit."""
    names = release.design.names[1:]
    lost = None
    more: tuple[str, ...] = ()
    if release.reply:
        found: UnitRelease = release.detail
        lost = ~found.coordinates.identified[1:]
        more = (
            "The baseline hazard is that of the released table, a number for each half of a cell "
            "of time, with a released quadratic in time; ties are no matter.",
        )

    def stats(part: UnitPart) -> dict[str, float]:
        model = part.chain.expansion
        assert isinstance(model, Hazard)
        return {"events": model.rate * plan.detail.rows}

    return estimate_units(
        plan, release, stats, back=_back, names=names, lost=lost, more=more,
        arrays=lambda part: baseline(release.detail, part),
    )  # fmt: skip
