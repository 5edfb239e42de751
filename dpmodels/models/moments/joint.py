"""Backend of ``dp_moments``: the noisy second-moment matrix of (1, x) as a release of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.exact.gram import gram_over
from dpmodels.exact.queries import ball_map, joint_noise, release_ball
from dpmodels.exact.rowmap import STEPS, OneFirst, RowMap, UnitScale, WithOne
from dpmodels.exact.sensitivity import gram_l1, gram_sensitivity
from dpmodels.exact.symmetric import release_symmetric
from dpmodels.models.linear.inference import no_reply
from dpmodels.models.linear.simple import budget_of, make_plan
from dpmodels.models.moments.report import OF_PEOPLE, ROWS_OF_ONE, Back, moment_estimate
from dpmodels.planning.rows import guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.privacy.steps import Step
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.estimate import Estimate
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

__all__ = ["estimate", "plan", "release"]

_STEP = "second moments"


@dataclass(frozen=True)
class SecondDetail:
    """Mechanism of the release, row count of the estimate (n, or the public guess).

    ``per``: public guess of the rows of a person, where that is the unit; 0: rows.
    """

    mechanism: Gaussian | Pure
    rows: int
    per: float = 0.0


def plan(request: Request, design: Design, n: int | None) -> Plan:
    """Plan one release of ``sum (u, 1)(u, 1)'`` of unit rows."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0)
    steps.append(Step(_STEP, part, share=rest))
    detail = SecondDetail(part, planning_rows(request, n), guessed_rows(request))
    return make_plan(request, design, n, steps, bought, detail)


def scale_of(mechanism: Gaussian | Pure, q: int, relation: str) -> float:
    """Return the noise scale s of the sums, for rows of squared norm at most q."""
    if isinstance(mechanism, Pure):
        return 2.0 * gram_l1(q, relation) * q / mechanism.eps
    return gram_sensitivity(q, relation) * q / mechanism.mu


def release(plan: Plan, ask: Ask) -> Release:
    """Release the second moments of (u, 1), u the columns in unit half-ranges. One pass.

    Privacy
    -------
    Unit: one row. ``|(u, 1)|^2 <= k + 1`` holds by clipping each cell, in integers. Or one person,
    whose rows are scaled into a ball: their squares come to at most as many times k + 1 as
    ``rows_per_unit=`` says (``units/theory.md``, 2).
    """
    rows, run = ask._rows, ask._run  # TODO
    detail: SecondDetail = plan.detail
    relation = plan.request.relation
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    unit = _centred(design)
    q = design.p + 1
    if detail.per:
        rowmap = OneFirst(_ball(unit, detail, relation))
        Q = release_ball(
            rows, design, rowmap, run, _STEP, detail.mechanism, relation, people=True
        )
        return Release({"Q": np.roll(Q, -1, (0, 1))}, plan.guarantee, design, detail=unit)
    G = gram_over(rows, design, WithOne(RowMap(unit, np.ones(q - 1)))).integers()
    if isinstance(detail.mechanism, Gaussian):
        sensitivity = gram_sensitivity(q, relation) * q * 2.0**40
        Q = release_symmetric(run, _STEP, G, sensitivity, STEPS**-2)
    else:
        upper = np.triu_indices(q)
        l1 = gram_l1(q, relation) * q * 2.0**40
        Q = np.zeros((q, q))
        Q[upper] = run.laplace(_STEP, G[upper], l1, unit=STEPS**-2)
        Q.T[upper] = Q[upper]
    return Release({"Q": Q}, plan.guarantee, design, detail=unit)


def _ball(unit: UnitScale, detail: SecondDetail, relation: str) -> RowMap:
    """Return the map of rows (1, u) into the ball of a person."""
    whole = UnitScale(np.append(1.0, unit.scale), np.append(0.0, unit.shift), False)
    radius = math.sqrt(detail.per * len(whole.scale))
    return ball_map(whole, radius, None, relation, people=True)


def _centred(design: Design) -> UnitScale:
    """Return the map of every column to [-1, 1]; there is no intercept among the columns."""
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 2.0)
    return UnitScale(2.0 / width, -(lo + hi) / width, False)


def estimate(plan: Plan, release: Release) -> Estimate:
    """Return moments per row in the user's units: means, mean products, share of complete rows."""
    if not release.reply:
        return no_reply(release)
    detail: SecondDetail = plan.detail
    unit: UnitScale = release.detail
    Q = release.values["Q"]
    q = len(Q)
    # (x, 1) = T (u, 1)
    T = np.diag(np.append(1.0 / unit.scale, 1.0))
    T[:-1, -1] = -unit.shift / unit.scale
    s = scale_of(detail.mechanism, q, plan.request.relation) * (detail.per or 1.0)
    V = joint_noise(q, s, detail.mechanism)
    return moment_estimate(
        Back(release.design.names, T, detail.rows, ROWS_OF_ONE if detail.per else "complete rows"),
        Q,
        V,
        stats={"noise_sd": s / detail.rows},
        notes=(
            OF_PEOPLE
            if detail.per
            else "Moments per row; a row with a missing cell counts as zero, so divide by "
            "'complete rows' where cells are missing.",
        ),
        arrays={"unit_moments": Q},
        weighted=detail.per > 0.0,
    )
