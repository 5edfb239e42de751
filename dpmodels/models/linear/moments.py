"""Backend of ``dp_ols(method="ssp")``: noisy second moments from public ranges, no public data.

One stage: one joint release of the moments of unit rows. Two stages: the first release whitens
(and re-centres) the rows of the second, which takes most of the budget (``theory.md``, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import PrivacyBugError, RequestError
from dpmodels.models.linear.inference import (
    SCORES,
    Passes,
    Stages,
    ball_stage,
    expected_se,
    finished,
    mu_like,
    no_reply,
    noise_figure,
    purchase,
    report,
    score_advice,
    score_scales,
    score_share,
    second_radius,
    shrink_report,
    stage_shares,
    whitened_stage,
)
from dpmodels.models.linear.solve import Report, Stage
from dpmodels.planning import Plan, enough_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.proof.prove import gram_sensitivity
from dpmodels.proof.statistics import Split
from dpmodels.ranges import bounds_share, no_ranges, ranged_design
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.scoring.rules import first_share, pilot_windows, noise_ratio
from dpmodels.sources.windows import ALL_ROWS, Windows
from dpmodels.sums.ask import Ask, Moments, Query, split_query, whole_matrix
from dpmodels.sums.rowmap import RowMap, unit_rows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


#: Two stages up to this public noise ratio (``theory.md`` 3.3).
TWO_STAGE_RATIO = 0.06
#: Part of the slopes' largest squared norm that the ball of the first release covers at least.
BALL_PART = 0.25
#: Noise of an eigenvalue per row up to which a larger ball costs nothing that matters.
BALL_NOISE = 0.02
#: Eigenvalues of the first release are floored at this multiple of its noise.
FLOOR = 0.5
LEAST = 1e-6
#: Public noise ratio above which the noise exceeds the signal: a ridge will act.
RIDGE_RATIO = 0.4


@dataclass(frozen=True)
class SspDetail:
    """What ``ssp`` decided before the first row.

    Attributes
    ----------
    stages : {1, 2}
    rows : int
        Row count of the public rules (n, or the guess).
    bounded : Split or None
        The query of the first stage with separate bounds; None: rows scaled into a ball.
    first, second : mechanism, mechanism or None
    phi, radius : float
        ``radius``: given radius of the last stage (0: by rule).
    windows : Windows
        The rows that the first of two stages reads.
    every : int
        It reads each of them with probability 1 / ``every``, by secret coins.
    scores : mechanism or None
        Of the scores, for ``vcov="hetero"``.
    """

    stages: int
    rows: int
    bounded: Split | None
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    phi: float
    radius: float
    windows: Windows = ALL_ROWS
    every: int = 1
    scores: Gaussian | Pure | None = None


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="ssp")`` that ends by moments alone."""
    rows = enough_rows(request, design, n)
    p, q = design.p, design.q
    bought, steps, budget = purchase(request, design)
    scores = score_share(request)
    x = noise_ratio(mu_like(budget.part(1.0 - scores), q), p, rows)
    stages, why = _stages(request, x)
    if request["query"] == "bounded" and request.delta == 0:
        raise RequestError("query='bounded' has its proof for Gaussian noise: give delta > 0")
    share, other = stage_shares(request, two=stages == 2, scores=scores)
    first = budget.part(share)
    second = budget.part(other) if stages == 2 else None
    third = budget.part(scores) if scores > 0 else None
    spent = 1.0 - bounds_share(request, bought)
    parts = [("first moments" if second is not None else "moments", first, share)]
    parts += [("whitened moments", second, other)] if second is not None else []
    parts += [(SCORES, third, scores)] if third is not None else []
    steps += [Step(name, mechanism, share=part * spent) for name, mechanism, part in parts]
    bounded = None
    if request["query"] == "bounded":
        bounded = _bounded(request, design)
    guided = stages == 2 and bounded is None
    # In a table sorted by a private column one row replaced moves the others between windows.
    ordered = guided and n is not None and bool(request["public_order"])
    detail = SspDetail(
        stages,
        rows,
        bounded,
        first,
        second,
        float(request["phi"]),
        float(request["radius"] or 0.0),
        pilot_windows(design, rows, x) if ordered else ALL_ROWS,
        first_share(x) if guided and not ordered else 1,
        third,
    )
    figure = noise_figure(third, p, rows, request.relation, two=second is not None)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={
            **({"ranges": 1.0 - spent} if bought is not None else {}),
            **{name: part * spent for name, _, part in parts},
        },
        scales={**_scales(detail, design, x), **score_scales(figure)},
        expected_se=_expected(detail, design, x, relation=request.relation),
        purchase=bought,
        detail=detail,
        reasons=(*request.reasons, why),
        advice=(*_advice(x), *score_advice(figure)),
        passes=len(parts) + (bought is not None),
    )


def _stages(request: Request, x: float) -> tuple[int, str]:
    asked = request["stages"]
    if asked in (1, 2):
        return int(asked), f"{asked} stage{'s' if asked == 2 else ''}: stages={asked} was given"
    if x <= TWO_STAGE_RATIO:
        return 2, (
            f"two stages: the public noise ratio sqrt(16 p)/(mu n) = {x:.3g} is at most "
            f"{TWO_STAGE_RATIO:g}, so a first release is worth its share as a guide to the second"
        )
    return 1, (
        f"one stage: the public noise ratio sqrt(16 p)/(mu n) = {x:.3g} is above "
        f"{TWO_STAGE_RATIO:g}, too noisy for a first release to guide a second"
    )


def _known(design: Design) -> bool:
    return design.has_intercept and not design.scaled


def _bounded(request: Request, design: Design) -> Split:
    complete = design
    if design.unknown:
        # norms do not depend on where a bought range lies
        complete = design.with_bounds(dict.fromkeys(design.unknown, (-1.0, 1.0)))
    _, square = unit_rows(complete)
    known = _known(design)
    square += 0.0 if known or not design.has_intercept else 1.0
    return split_query(design.p, square, known=known, relation=request.relation, r2=0.5)


def first_radius(
    design: Design, square: float, mechanism: Gaussian | Pure, n: int, relation: str
) -> float:
    """Return the radius of the first release's ball, from public numbers only.

    At least ``R^2 = 1 + |slopes|^2 / 4 + 1/2`` (intercept, slopes, response), at most the whole
    domain; between them as large as keeps the noise of an eigenvalue per row,
    ``s sqrt(2q)/n = sqrt2 R^2 sqrt(2q) / (mu n)``, at .02. Rows beyond it are scaled down
    (weighted least squares): the noise falls with R^2 for every row, while a row loses only what
    it exceeds.
    """
    q = design.q
    one = 1.0 if design.has_intercept else 0.0
    quiet = (
        BALL_NOISE
        * mu_like(mechanism, q)
        * n
        / (gram_sensitivity(q, relation) * math.sqrt(2.0 * q))
    )
    return math.sqrt(min(max(one + BALL_PART * square + 0.5, quiet), one + square + 1.0))


def _scales(detail: SspDetail, design: Design, x: float) -> dict[str, float]:
    out = {"public noise ratio": x}
    if detail.second is not None:
        mu = mu_like(detail.second, design.q)
        out["radius of whitened rows"] = detail.radius or second_radius(
            mu, design.q, detail.rows, detail.phi
        )
    return out


def _expected(detail: SspDetail, design: Design, x: float, *, relation: str) -> dict[str, float]:
    """Return expected privacy errors; none where ranges are bought or the ridge will act."""
    if design.unknown or detail.bounded is not None or x > RIDGE_RATIO:
        return {}
    if detail.second is not None:
        R = _scales(detail, design, x)["radius of whitened rows"]
        return expected_se(design, detail.second, R, detail.rows, relation, whitened=True)
    _, square = unit_rows(design)
    R = detail.radius or first_radius(design, square, detail.first, detail.rows, relation)
    return expected_se(design, detail.first, R, detail.rows, relation, whitened=False)


def _advice(x: float) -> tuple[str, ...]:
    if x <= RIDGE_RATIO:
        return ()
    return (
        f"the noise will exceed the signal (public noise ratio {x:.2g}, above {RIDGE_RATIO:g}): "
        "every method is then about as good as answering zero. More rows, a larger eps or fewer "
        "columns help",
    )


def release(plan: Plan[SspDetail], ask: Ask) -> Release:
    """Release noisy second moments of the rows, in one or two passes; of the scores in one more.

    Privacy
    -------
    Unit: one row; replace-one (n public) or add-remove. Charged: the steps of the plan.
    """
    detail = plan.detail
    relation = plan.request.relation
    # whitening takes the width of a range out again, so a wide one costs the first stage only
    design = ranged_design(plan, ask, wide=detail.second is not None)
    if design is None:
        return no_ranges(plan)
    unit, square = unit_rows(design)
    passes = Passes(ask, design, unit, relation)
    name = "moments" if detail.second is None else "first moments"
    used = detail.windows.count(detail.rows) // detail.every
    if detail.bounded is not None:
        assert isinstance(detail.first, Gaussian)
        square += float(design.has_intercept and not detail.bounded.known)
        if square > detail.bounded.rx**2 * (1.0 + 1e-12):
            raise PrivacyBugError("the rows of this design exceed the norm that was planned")
        over = Moments(design, RowMap(unit, np.ones(design.q)))
        found = ask(name, Query(detail.bounded, over, whole_matrix))
        first = Stage(found.values, found.variance, np.eye(design.q), math.inf)
    else:
        radius = first_radius(design, square, detail.first, used, relation)
        if detail.second is None and detail.radius:
            radius = detail.radius
        first = ball_stage(passes, None, radius, name, detail.first, detail.windows, detail.every)
    stages = [first]
    if detail.second is not None:
        second = whitened_stage(
            passes, first, detail.second, n=detail.rows, first_n=used, phi=detail.phi,
            radius=detail.radius, floor=FLOOR, least=LEAST,
        )  # fmt: skip
        stages.append(second)
    return finished(plan, passes, stages, detail.scores, _facts)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last stage back to the design's own units."""
    if not release.reply:
        return no_reply(release)
    facts = _facts(plan, release.design, release.detail)
    return shrink_report(facts) if plan.request["ridge"] == "stein" else report(facts)


def _facts(plan: Plan[SspDetail], design: Design, released: Stages) -> Report:
    """Collect what the estimate is made from: public and released numbers."""
    detail = plan.detail
    return Report(
        design=design,
        unit=released.unit,
        stages=released.stages,
        rows=detail.rows,
        request=plan.request,
        notes=tuple(plan.sentences),
        towards="the first-stage fit" if detail.second is not None else "zero",
        scores=released.scores,
    )


BACKEND = Backend(plan, release, estimate)
