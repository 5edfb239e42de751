"""A fit over units as a backend: what every room of regressions of people plans and releases.

The mirror of :mod:`dpmodels.scoring.fitting` for the engine of expansions;
:mod:`dpmodels.scoring.expand_report` makes the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dpmodels.planning import Plan
from dpmodels.planning.plan import enough_rows
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design, reaching, to_be_bought
from dpmodels.release import Release
from dpmodels.scoring.cluster_people import PeopleByCluster, PersonScores
from dpmodels.scoring.cluster_rules import ClusterPlan, plan_clusters
from dpmodels.scoring.clusters import release_clusters
from dpmodels.scoring.coordinates import Coordinates, public_coordinates
from dpmodels.scoring.engine import ask_statistics
from dpmodels.scoring.expand import Regression
from dpmodels.scoring.expand_engine import (
    Begun,
    UnitModel,
    UnitPlan,
    UnitRelease,
    release_units,
    unit_steps,
)
from dpmodels.scoring.expand_rules import (
    FINE,
    LINEAR_UNITS,
    LOUD,
    NONLINEAR_UNITS,
    UnitRules,
    forecast,
    needed,
)
from dpmodels.scoring.expand_start import Number, Spread, numbers
from dpmodels.scoring.intervals import infer_units
from dpmodels.scoring.release import by_name
from dpmodels.scoring.rules import (
    STATISTICS_SHARE,
    STATISTICS_STEP,
    Guide,
    guide_share,
    noise_ratio,
)
from dpmodels.scoring.score import Beginning, Score
from dpmodels.scoring.state import roots
from dpmodels.scoring.words import expected_intervals

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request


@dataclass(frozen=True, eq=False)
class RowModel:
    """A model of rows (a :class:`~dpmodels.scoring.score.Score`), as it is planned for units.

    Attributes
    ----------
    score : Score
    demean : bool
        With an effect of each unit.
    equal : bool
        Units count alike, not rows.
    """

    score: Score
    demean: bool = False
    equal: bool = False

    @property
    def linear(self) -> bool:
        """Whether the score is linear in theta."""
        return self.score.averages

    @property
    def scale(self) -> bool:
        """Whether early passes release a scale."""
        return self.score.learns_scale

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return predictors that are numbers, and the response."""
        return numbers(design, response="" if self.demean else self.score.cells)

    def prelude(self, mu: float) -> tuple[LedgerStep, ...]:
        """Return none."""
        return ()

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Start at the released middle of the response."""
        score = self.score.bound(design)
        values = next((s for s in spreads if s.number.place == design.q - 1), None)
        unit = coordinates.unit
        at = Beginning(
            coordinates.constant, coordinates.rank, values,
            float(unit.scale[-1]), float(unit.shift[-1]),
        )  # fmt: skip
        model = Regression(
            score, coordinates, design.place_aside("offset"), design.place_aside("weights"),
            values, self.demean, self.equal,
        )  # fmt: skip
        state = score.begin(at)
        # a public fit of the caller's own (0 where there is none)
        return Begun(model, replace(state, theta=state.theta + coordinates.centre))


class Closing(Protocol):
    """What a room releases after the passes."""

    @property
    def step(self) -> str:
        """Name of its one step."""
        ...

    @property
    def share(self) -> float:
        """Of mu^2."""
        ...

    def conclude(
        self, found: UnitRelease, scoring: UnitPlan, design: Design, ask: Ask
    ) -> dict[str, float]:
        """Return released statistics of the fit."""
        ...


@dataclass(frozen=True)
class FitStatistics:
    """Deviance and dispersion of a model of rows."""

    step: ClassVar[str] = STATISTICS_STEP
    share: ClassVar[float] = STATISTICS_SHARE

    def conclude(
        self, found: UnitRelease, scoring: UnitPlan, design: Design, ask: Ask
    ) -> dict[str, float]:
        """Release them at the final fit."""
        first = found.chains[0]
        assert isinstance(first.expansion, Regression)
        return ask_statistics(
            first.expansion.score, first.plans[-1], scoring.r, first.last.state,
            found.coordinates, design, ask,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class UnitDetail:
    """What a fit over units decided before the first row.

    Attributes
    ----------
    models : tuple of (UnitModel, str)
    mu : float
        Of all releases but those of ranges.
    design : Design
        As planned.
    rules : UnitRules
    rows : int
        Units of the public rules.
    guide : Guide
    own : Coordinates or None
        Public ones of the room's own; None: the declared box.
    raw : bool
        The response stays in its own units.
    people : bool
    dimension : function
        Of the rank of the design: number of coefficients.
    closing : Closing or None
        What is released after the passes.
    model : object
        What a room wants to find again in its estimate.
    clusters : ClusterPlan or None
        The pass by cluster, after the others.
    """

    models: tuple[tuple[UnitModel, str], ...]
    mu: float
    design: Design
    rules: UnitRules
    rows: int
    guide: Guide
    own: Coordinates | None
    raw: bool
    people: bool
    dimension: Callable[[int], int]
    closing: Closing | None = None
    model: Any = None
    clusters: ClusterPlan | None = None

    def scoring(self, rank: int, relation: str, design: Design) -> UnitPlan:
        """Return the plan of the steps for a design of this rank."""
        asked = () if self.own is not None else self.models[0][0].numbers(design)
        closing = () if self.closing is None else (self.closing,)
        return UnitPlan(
            self.dimension(rank), self.rows, self.mu, relation, self.people, self.rules,
            self.models, asked, self.guide,
            tuple(
                LedgerStep(c.step, Gaussian(self.mu * math.sqrt(c.share)), share=c.share)
                for c in closing
            ),
        )  # fmt: skip

    def coordinates(self, design: Design) -> Coordinates:
        """Return the public coordinates of a design whose ranges are known."""
        if self.own is not None:
            return self.own
        return public_coordinates(design, raw=self.raw)


def _same(rank: int) -> int:
    return rank


def plan_units(
    request: Request, design: Design, n: int, models: tuple[tuple[UnitModel, str], ...], *,
    linear: bool, raw: bool, coordinates: Coordinates | None = None,
    dimension: Callable[[int], int] = _same, closing: Closing | None = None, model: Any = None,
    rules: UnitRules | None = None,
) -> Plan[Any]:  # fmt: skip
    """Plan a fit over units.

    Parameters
    ----------
    request, design, n
        As a backend's ``plan`` gets them; ``request.delta > 0``.
    linear : bool
        Three passes; else four.
    raw : bool
        The response stays in its own units.
    coordinates : Coordinates or None
        Public ones of the room's own.
    dimension : function
        Of the rank of the design: number of coefficients.
    closing : Closing or None
        What is released after the passes.
    model : object
        Of the detail.
    rules : UnitRules or None
        Shares of the room's own; None: three passes or four.
    """
    rows = enough_rows(request, design, n)
    missing = () if coordinates is not None else design.unknown
    part = gaussian_part(request, to_be_bought(request, missing))
    share = 1.0 - part.share
    mu = part.mu * math.sqrt(share)
    rules = _rules(request, rules or (LINEAR_UNITS if linear else NONLINEAR_UNITS))
    p = dimension(design.p)
    clusters = plan_clusters(request, mu, rows, [name for _, name in models], p)
    whole, by_cluster = share, 0.0
    if clusters is not None:
        by_cluster = clusters.share * share
        mu, share = mu * math.sqrt(1.0 - clusters.share), share - by_cluster
    guide = Guide(guide_share(noise_ratio(mu, p, rows)))
    detail = UnitDetail(
        models, mu, design, rules, rows, guide, coordinates, raw, request.unit is not None,
        dimension, closing, model, clusters,
    )  # fmt: skip
    # a design whose ranges are to be bought is planned as if it had them
    scoring = detail.scoring(design.p, request.relation, _as_ranged(design))
    carried = scoring.left / math.sqrt(len(models))  # without what a model releases beside
    rho = forecast(carried, rows, p, scoring.passes[-1])
    closes = {} if closing is None else {closing.step: closing.share * share}
    left = share - math.fsum(closes.values())
    return Plan.of(
        request, design, n,
        [
            *part.steps,
            *(s.within(share) for s in unit_steps(scoring)),
            *(s.within(whole) for s in (() if clusters is None else clusters.steps)),
        ],
        shares={
            **part.printed,
            **{name: one * left for name, one in zip(rules.names(), rules.values(), strict=True)},
            **closes,
            **({} if clusters is None else {"clusters": by_cluster}),
        },
        scales={
            "noise of the information": rho, **({} if clusters is None else clusters.printed(p)),
        },
        expected_se={},
        purchase=part.purchase,
        detail=detail,
        advice=(
            *_advice(rho, scoring.left, rows, p, scoring),
            *(() if clusters is None else clusters.advice(p)),
        ),
        forecast=expected_intervals(
            rho, FINE, LOUD, between="wide",
            beyond="coefficients will not be determined at this budget",
        ),
        passes=(2 * len(scoring.passes) + 1) * len(models) + len(scoring.prelude())
        + bool(scoring.asked) + (part.purchase is not None) + len(closes)
        + (clusters is not None),
    )  # fmt: skip


def _as_ranged(design: Design) -> Design:
    """Return the design with a range of some kind for what is bought: what is asked is the same."""
    return design.with_bounds({name: (0.0, 1.0) for name in design.unknown})


def _rules(request: Request, rules: UnitRules) -> UnitRules:
    """Return the shares of the steps; ``split=`` before the rule."""
    given = request.shares_of(rules.names())
    return rules if given is None else UnitRules.of(tuple(given.values()))


def _advice(rho: float, mu: float, N: int, p: int, scoring: UnitPlan) -> tuple[str, ...]:
    """Warn, before anything is charged, of a model that the units do not carry. Public."""
    if rho <= LOUD:
        return ()
    part = mu / math.sqrt(len(scoring.models))
    more, factor, most = needed(part, N, p, scoring.passes[-1])
    counted = "people" if scoring.people else "rows"
    fewer = f", or at most {most} coefficients" if most else ""
    return (
        f"not determined at this budget: the noise of the information of {p} coefficients will be "
        f"{rho:.2g} of its size (above {LOUD:g}). About {_round(more)} {counted}, or about "
        f"{factor:.2g} times the eps{fewer} would do",
    )


def _round(n: int) -> int:
    digits = max(len(str(n)) - 2, 0)
    return int(round(n, -digits))


def release_units_fit(plan: Plan[UnitDetail], ask: Ask) -> Release:
    """Release the steps of a fit over units.

    Privacy
    -------
    Unit: one person, or one row; replace-one (N public) or add-remove. Charged: the plan's steps.
    """
    detail = plan.detail
    design = ranged_design(plan, ask, wide=True)
    if design is None:
        return no_ranges(plan)
    coordinates = detail.coordinates(design)
    read = reaching(design, plan.design)
    scoring = detail.scoring(coordinates.rank, plan.request.relation, design)
    found = release_units(scoring, coordinates, read, ask, fixed=detail.own is not None)
    if detail.closing is not None:
        found = replace(found, statistics=detail.closing.conclude(found, scoring, read, ask))
    if detail.clusters is not None:
        found = _ask_by_cluster(detail, detail.clusters, found, read, ask)
    values: dict[str, Any] = {}
    for chain, (_, name) in zip(found.chains, detail.models, strict=True):
        end = f" ({name})" if name else ""
        values |= {key + end: value for key, value in chain.begun.values.items()}
        values |= by_name(chain.released, name)
        values[f"lengths{end}"] = chain.lengths[-1].counts
    return Release(values, plan.guarantee, design, detail=found)


def _ask_by_cluster(
    detail: UnitDetail, plan: ClusterPlan, found: UnitRelease, read: Design, ask: Ask
) -> UnitRelease:
    """Release the products of people's scores by cluster, at the final fit of every model.

    Scores are looked at where those of people are round, by the released meat.
    """
    turns, passes = [], []
    for chain in found.chains:
        turn = roots(infer_units(chain, detail.rows).meat)[1]
        local = chain.expansion.at(chain.last.state, len(chain.plans))
        turns.append(turn)
        passes.append(PersonScores(local, turn))
    clusters = release_clusters(plan, tuple(passes), read, ask, PeopleByCluster)
    return replace(found, clusters=clusters, turns=tuple(turns))
