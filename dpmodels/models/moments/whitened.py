"""Backend of ``dp_moments(method="ssp")``: second moments from ranges, the second release whitened.

Rows (1, x) in unit half-ranges are scaled into a ball; a first release whitens (and re-centres)
the rows of a second, which takes most of the budget. The passes are those of
``dp_ols(method="ssp")`` (``models/linear/theory.md`` 3, ``theory.md`` 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.exact.prove import gram_sensitivity
from dpmodels.exact.rowmap import UnitScale, unit_rows
from dpmodels.models.linear.inference import no_reply, unit_back
from dpmodels.models.linear.plans import (
    mu_like,
    purchase,
    stage_shares,
)
from dpmodels.models.linear.ssp import BALL_NOISE, BALL_PART, FLOOR, LEAST, TWO_STAGE_RATIO
from dpmodels.models.linear.stages import Passes, Stages, ball_stage, whitened_stage
from dpmodels.models.moments.public import OF_PEOPLE, ROWS_OF_ONE, Back, moment_estimate
from dpmodels.planning import Plan
from dpmodels.planning.plan import guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import bounds_share, no_ranges, ranged_design
from dpmodels.release import Release
from dpmodels.scoring.report import empty_rows
from dpmodels.scoring.rules import first_share, noise_ratio

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.release import Estimate
    from dpmodels.request import Request

WEIGHTS = "row weights"


@dataclass(frozen=True)
class WhitenedDetail:
    """What was decided before the first row.

    Attributes
    ----------
    rows : int
        n, or the public guess.
    first, second : mechanism, mechanism or None
    every : int
        The first of two stages reads each row with probability 1 / every.
    phi : float
    per : float
        Public guess of the rows of a person, where that is the unit; 0: rows.
    """

    rows: int
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    every: int
    phi: float
    per: float = 0.0


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one release of the moments of (1, x), or two by a rule on public numbers."""
    rows, p = planning_rows(request, n), design.p
    bought, steps, budget = purchase(request, design)
    x = noise_ratio(mu_like(budget.part(1.0), p + 1), p, rows)
    asked = request["stages"]
    two = asked == 2 if asked in (1, 2) else x <= TWO_STAGE_RATIO
    words = "two stages" if two else "one stage"
    if asked in (1, 2):
        why = f"{words}: stages={asked} was given"
    else:
        sign = "at most" if two else "above"
        why = f"{words}: the public noise ratio {x:.3g} is {sign} {TWO_STAGE_RATIO:g}"
    share, other = stage_shares(request, two=two, scores=0.0)
    first, second = budget.part(share), budget.part(other) if two else None
    spent = 1.0 - bounds_share(request, bought)
    steps.append(Step("first moments" if two else "moments", first, share=share * spent))
    if second is not None:
        steps.append(Step("whitened moments", second, share=other * spent))
    every = first_share(x) if two else 1
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={step.name: float(step.share or 0.0) for step in steps},
        scales={"public noise ratio": x},
        purchase=bought,
        detail=WhitenedDetail(
            rows, first, second, every, float(request["phi"]), guessed_rows(request)
        ),
        reasons=(*request.reasons, why),
        passes=len(steps) if bought is None else 2 + two,
    )


def with_constant(design: Design) -> tuple[UnitScale, float]:
    """Return the map of rows (1, x) to unit rows, centred, and the squared norm of x in them."""
    unit, square = unit_rows(design, centred=not design.scaled)
    one = not design.scaled
    return UnitScale(np.append(1.0, unit.scale), np.append(0.0, unit.shift), one), square


def radius_of(square: float, mechanism: Gaussian | Pure, q: int, n: int, relation: str) -> float:
    """Return the radius of the first ball, as in ``models/linear/ssp.py``: public numbers only."""
    size = gram_sensitivity(q, relation) * math.sqrt(2.0 * q)
    quiet = BALL_NOISE * mu_like(mechanism, q) * n / size
    return math.sqrt(min(max(1.0 + BALL_PART * square, quiet), 1.0 + square))


def release(plan: Plan[WhitenedDetail], ask: Ask) -> Release:
    """Release the second moments of (1, x) in one or two passes.

    Privacy
    -------
    Unit: one row, or one person; replace-one (n public) or add-remove. Charged: the steps of the
    plan. Rows (the trace of a person's) are bounded by the ball, in integers; the second map was
    released by the first stage.
    """
    detail = plan.detail
    relation = plan.request.relation
    design = ranged_design(plan, ask, wide=detail.second is not None)
    if design is None:
        return no_ranges(plan)
    unit, square = with_constant(design)
    q = design.p + 1
    passes = Passes(ask, design, unit, relation, constant=True, per=detail.per)
    name = "moments" if detail.second is None else "first moments"
    read = detail.rows // detail.every
    radius = radius_of(square, detail.first, q, read, relation) * math.sqrt(detail.per or 1.0)
    stages = [ball_stage(passes, None, radius, name, detail.first, every=detail.every)]
    if detail.second is not None:
        second = whitened_stage(
            passes, stages[0], detail.second, n=detail.rows, first_n=read, phi=detail.phi,
            radius=0.0, floor=FLOOR, least=LEAST,
        )  # fmt: skip
        stages.append(second)
    values = {f"Q{k}": stage.Q for k, stage in enumerate(stages, 1)}
    return Release(values, plan.guarantee, design, detail=Stages(unit, tuple(stages)))


def estimate(plan: Plan[WhitenedDetail], release: Release) -> Estimate:
    """Map the last stage back to (x, 1), per row."""
    if not release.reply:
        return no_reply(release)
    detail = plan.detail
    released: Stages = release.detail
    stage = released.stages[-1]
    # (1, x) = S^{-1} L w; the constant goes last
    T = np.roll(unit_back(released.unit) @ stage.L, -1, axis=0)
    notes = [text[:1].upper() + text[1:] + "." for text in plan.reasons]
    notes.append(
        OF_PEOPLE
        if detail.per
        else "Moments of weighted rows: one far from the centre counts less and one with a missing "
        f"cell not at all, so spread is understated where tails are heavy. '{WEIGHTS}' is the "
        "released mean weight. method='joint' weighs no row down, at more noise."
    )
    if not detail.per and plan.request.relation == "replace":
        cell = float(T[-1] @ stage.Q @ T[-1]) / detail.rows
        noise = SecondMoments(stage.Q, stage.V, detail.rows).form_variance(np.outer(T[-1], T[-1]))
        sd = math.sqrt(noise) / detail.rows
        notes += empty_rows(1.0 - cell, sd, release.design, shortened=True)
    return moment_estimate(
        Back(release.design.names, T, detail.rows, ROWS_OF_ONE if detail.per else WEIGHTS),
        stage.Q,
        stage.V,
        stats={"noise_sd": stage.s / detail.rows, "radius": stage.radius},
        notes=tuple(notes),
        arrays={"whitened_moments": stage.Q, "whitening": T},
        weighted=True,
    )
