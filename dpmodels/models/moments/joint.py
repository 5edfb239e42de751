"""Backend of ``dp_moments``: the noisy second-moment matrix of (1, x) as a release of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.passes import Moments, ball_map, moments_query
from dpmodels.exact.rowmap import OneFirst, RowMap, UnitScale, WithOne
from dpmodels.models.linear.inference import no_reply
from dpmodels.models.linear.simple import budget_of, make_plan
from dpmodels.models.moments.public import OF_PEOPLE, ROWS_OF_ONE, Back, moment_estimate
from dpmodels.planning.plan import guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate
    from dpmodels.request import Request

_STEP = "second moments"


@dataclass(frozen=True)
class SecondDetail:
    """Mechanism of the release, row count of the estimate (n, or the public guess).

    ``per``: public guess of the rows of a person, where that is the unit; 0: rows.
    """

    mechanism: Gaussian | Pure
    rows: int
    per: float = 0.0


@dataclass(frozen=True, eq=False)
class JointReleased:
    """The map of the columns, and the noise variance of every moment, (q, q)."""

    unit: UnitScale
    noise: Array


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one release of ``sum (u, 1)(u, 1)'`` of unit rows."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0)
    steps.append(Step(_STEP, part, share=rest))
    detail = SecondDetail(part, planning_rows(request, n), guessed_rows(request))
    return make_plan(request, design, n, steps, bought, detail)


def release(plan: Plan[SecondDetail], ask: Ask) -> Release:
    """Release the second moments of (u, 1), u the columns in unit half-ranges. One pass.

    Privacy
    -------
    Unit: one row. ``|(u, 1)|^2 <= k + 1`` holds by clipping each cell, in integers. Or one person,
    whose rows are scaled into a ball: their squares come to at most as many times k + 1 as
    ``rows_per_unit=`` says (``units/theory.md``, 2).
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    unit = _centred(design)
    q = design.p + 1
    ones = RowMap(unit, np.ones(q - 1))
    over = Moments(design, WithOne(ones))
    radius = 1.0
    if detail.per:
        rowmap = _ball(unit, detail)
        over, radius = Moments(design, OneFirst(rowmap), people=True), rowmap.radius
    found = ask(_STEP, moments_query(over, radius=radius))
    parts = {"Q": found.values, "V": found.variance}
    if detail.per:  # the constant last, as of rows
        parts = {name: np.roll(part, -1, (0, 1)) for name, part in parts.items()}
    done = JointReleased(unit, parts["V"])
    return Release({"Q": parts["Q"]}, plan.guarantee, design, detail=done)


def _ball(unit: UnitScale, detail: SecondDetail) -> RowMap:
    """Return the map of rows (1, u) into the ball of a person."""
    whole = UnitScale(np.append(1.0, unit.scale), np.append(0.0, unit.shift), False)
    radius = math.sqrt(detail.per * len(whole.scale))
    return ball_map(whole, radius, None)


def _centred(design: Design) -> UnitScale:
    """Return the map of every column to [-1, 1]; there is no intercept among the columns."""
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 2.0)
    return UnitScale(2.0 / width, -(lo + hi) / width, False)


def estimate(plan: Plan[SecondDetail], release: Release) -> Estimate:
    """Return moments per row in the user's units: means, mean products, share of complete rows."""
    if not release.reply:
        return no_reply(release)
    detail = plan.detail
    done: JointReleased = release.detail
    unit = done.unit
    Q = release.values["Q"]
    # (x, 1) = T (u, 1)
    T = np.diag(np.append(1.0 / unit.scale, 1.0))
    T[:-1, -1] = -unit.shift / unit.scale
    V = done.noise
    s = math.sqrt(2.0 * float(V[0, -1]))  # in svec coordinates
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
