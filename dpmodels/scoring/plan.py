"""A scoring fit as a backend: what every room of regressions plans and releases.

A room says which models (chains), where the start looks from, and what its options mean; this
module makes the plan and the release of it, over rows or over units
(:mod:`dpmodels.scoring.run`), and :mod:`dpmodels.scoring.estimate` the estimate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.planning import Plan, enough_rows
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design, reaching
from dpmodels.records import Release, Request
from dpmodels.scoring.cluster_plan import Paid
from dpmodels.scoring.rows import ROWS
from dpmodels.scoring.run import Model, ScoredDetail, release_scoring
from dpmodels.scoring.starts import scale_steps

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sums.ask import Ask


def plan_fit(
    request: Request, design: Design, n: int, model: Model, *, of_units: bool = False
) -> Plan[Any]:
    """Plan a scoring fit.

    Parameters
    ----------
    request, design, n
        As a backend's ``plan`` gets them; ``request.delta > 0``.
    model : Model
    of_units : bool
        Its chains are models of units, be these people or rows.
    """
    _check_independent(request, model)
    own = ROWS
    if of_units or request.unit is not None:
        from dpmodels.scoring.units import UNITS as own
    rows = enough_rows(request, design, n)
    missing = () if model.coordinates is not None else design.unknown
    ranges = gaussian_part(request, missing)
    chains = own.chains(request, model)
    p, labels = chains[0].dimension(design.p), [chain.label for chain in chains]
    paid = Paid.of(request, ranges, rows, p, labels=labels)
    mu, shares, pilot, scales = own.schedule(request, design, n, rows, paid.mu(paid.rest), model)
    detail = ScoredDetail(
        model, own, chains, design, rows, mu, shares, pilot, scales, paid.clusters,
        request.unit is not None, request.split is None,
    )  # fmt: skip
    scoring = detail.scoring(design.p, request.relation)
    first = () if scales is None else scale_steps(scales)
    asked = math.fsum(s.share or 0.0 for s in first)
    left = paid.rest * (1.0 - asked)
    closes = {} if model.closing is None else {model.closing.name: model.closing.share * left}
    printed = {"scales": asked * paid.rest} if first else {}
    for name, one in zip(own.names(len(shares)), shares, strict=True):
        printed[name] = one * (left - math.fsum(closes.values()))
    numbers, expected = own.shown(detail, scoring)
    return paid.plan(
        design, n,
        [*(s.within(paid.rest) for s in first), *(s.within(left) for s in scoring.steps)],
        shares=printed | closes, passes=scoring.readings + len(first) + len(closes), scales=numbers,
        advice=own.advice(scoring) if scoring.noise > scoring.forecast.high_noise else (),
        expected_se=expected, detail=detail, forecast=scoring.forecast.said(scoring.noise),
        verdict=scoring.forecast.verdict(scoring.noise),
    )  # fmt: skip


def _check_independent(request: Request, model: Model) -> None:
    """Refuse vcov='iid' of what has no form for it."""
    if model.meat:
        return
    if request.unit is not None:
        raise RequestError(
            "vcov='iid' takes rows for independent, and those of a person are not: leave vcov= out"
        )
    if request.sample is not None and request.sample.needed:
        raise RequestError("vcov='iid' takes rows for unrelated, and those of a cluster are not")


def release_fit(plan: Plan[ScoredDetail], ask: Ask) -> Release:
    """Release what is asked first, the passes, what closes the fit, and sums by cluster.

    Privacy
    -------
    Unit: one row, or one person; replace-one (n public) or add-remove. Charged: the steps of the
    plan.
    """
    detail, relation = plan.detail, plan.request.relation
    own = detail.strategy
    design = ranged_design(plan, ask, wide=True)
    if design is None:
        return no_ranges(plan)
    coordinates = detail.coordinates(design)
    read = reaching(design, plan.design)
    scoring = detail.scoring(coordinates.rank, relation, design)
    coordinates, spreads = own.locate(detail, scoring, coordinates, read, ask)
    scoring = detail.scoring(coordinates.rank, relation, design)
    found = release_scoring(scoring, coordinates, read, ask, spreads)
    if scoring.closing is not None:
        found = replace(found, statistics=scoring.closing.conclude(found, read, ask))
    if detail.clusters is not None:
        from dpmodels.scoring.clusters import release_clusters

        passes, turns = own.scorers(detail, found, read)
        by_cluster = release_clusters(detail.clusters, passes, read, ask)
        found = replace(found, clusters=by_cluster, turns=turns)
    return Release(
        found.values, plan.guarantee, design, detail=found, remarks=scoring.remarks(found)
    )
