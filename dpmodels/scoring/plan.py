"""A scoring fit as a backend: what every room of regressions plans and releases.

A room says which models (chains), where the start looks from, and what its options mean; this
module makes the plan and the release of it, :mod:`dpmodels.scoring.estimate` the estimate.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.planning import Plan, enough_rows
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design, reaching, to_be_bought
from dpmodels.records import Release, Request
from dpmodels.scoring.cluster_plan import ClusterPlan, plan_clusters
from dpmodels.scoring.notes import expected_intervals
from dpmodels.scoring.passes import by_name
from dpmodels.scoring.rules import (
    BOUNDED,
    COLUMNS,
    LINEAR,
    RESERVE,
    STATISTICS_SHARE,
    STATISTICS_STEP,
    Guide,
    Rules,
    first_share,
    guide_share,
    guide_windows,
    noise_ratio,
    passes_of,
)
from dpmodels.scoring.run import (
    Chain,
    ScoringPlan,
    final_passes,
    plan_scoring,
    release_scoring,
    steps,
    within,
)
from dpmodels.scoring.scores import State, floored, roots
from dpmodels.scoring.starts import (
    SHARE as SCALES,
)
from dpmodels.scoring.starts import (
    STRONG,
    Coordinates,
    ScalePlan,
    located,
    numbers_of,
    public_coordinates,
    scale_steps,
)
from dpmodels.sources.windows import ALL_ROWS

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sums.ask import Ask


#: Public noise of the information, ``nu sqrt(2 p)``: up to here intervals are narrow; above the
#: second number they are wide and a plan warns.
FINE, LOUD = 0.25, 0.5
#: Spread (sd) of a column, in half ranges, that a plan assumes.
_SPREAD = 0.5
_ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True, eq=False)
class Model:
    """What a room fits.

    Attributes
    ----------
    chains : tuple of Chain
        One, or several that share their start.
    coordinates : Coordinates or None
        Public ones of the room's own; None: the declared box.
    radius : float
        Of the start; 0: by rule.
    meat : bool
        Release the meat of the sandwich (robust errors).
    guess : float
        Public guess for a plan: error of a fit without noise per root of 1/n, in the coordinates
        whitened by the second moments. 0: none.
    statistics : bool
        Release deviance and its kin in one more pass.
    """

    chains: tuple[Chain, ...]
    coordinates: Coordinates | None = None
    radius: float = 0.0
    meat: bool = True
    guess: float = 0.5
    statistics: bool = False

    @property
    def rules(self) -> Rules:
        """Shares of the passes."""
        return self.chains[0].score.rules

    @property
    def raw(self) -> bool:
        """Whether the response stays in its own units."""
        return not self.chains[0].score.of_residual


@dataclass(frozen=True, eq=False)
class ScoredDetail:
    """What a scoring fit decided before the first row.

    Attributes
    ----------
    model : Model
    mu : float
        Of all releases but those of ranges.
    design : Design
        As planned.
    shares : tuple of float
        Of the passes.
    rows : int
        Row count of the public rules.
    guide : Guide
        Rows that the passes before the last read.
    weighted : bool
        Rows have weights of their own.
    scales : ScalePlan or None
        What is asked about centres and scales first.
    clusters : ClusterPlan or None
        The pass by cluster, after the others.
    reserve : bool
        The last pass may give a part to passes before it: with many columns and no ``split=``.
    """

    model: Model
    mu: float
    design: Design
    shares: tuple[float, ...]
    rows: int
    guide: Guide
    weighted: bool = False
    scales: ScalePlan | None = None
    clusters: ClusterPlan | None = None
    reserve: bool = False

    @functools.cached_property
    def _scorings(self) -> dict[tuple[int, str], ScoringPlan]:
        return {}

    def scoring(self, rank: int, relation: str) -> ScoringPlan:
        """Return the plan of the passes for a design of this rank: made once."""
        if (rank, relation) not in self._scorings:
            self._scorings[rank, relation] = self._scoring(rank, relation)
        return self._scorings[rank, relation]

    def _scoring(self, rank: int, relation: str) -> ScoringPlan:
        model = self.model
        return plan_scoring(
            replace(model.rules, passes=self.shares), self.mu, self.rows, rank, relation,
            chains=model.chains, meat=model.meat, guide=self.guide, radius=model.radius,
            weighted=self.weighted, of_weights=self.weighted or bool(self.design.scaled),
            statistics=model.statistics, reserve=self.reserve,
        )  # fmt: skip

    def coordinates(self, design: Design) -> Coordinates:
        """Return the public coordinates of a design whose ranges are known."""
        if self.model.coordinates is not None:
            return self.model.coordinates
        if design is self.design:
            return self._planned
        return public_coordinates(design, raw=self.model.raw)

    @functools.cached_property
    def _planned(self) -> Coordinates:
        """Coordinates of the design as planned: the plan and the release need them."""
        return public_coordinates(self.design, raw=self.model.raw)


def pass_names(rules: Rules) -> tuple[str, ...]:
    """Return the names of the start and the passes, for ``split=``."""
    return ("start", *_ORDINALS[: len(rules.passes) - 2], "last")


def figure(scoring: ScoringPlan) -> float:
    """Return the spectral noise of the last information, relative to it: a public number."""
    return scoring.passes[-1].noise.information / scoring.n * math.sqrt(2.0 * scoring.p)


def _shares(request: Request, rules: Rules, mu: float, n: int, p: int) -> tuple[float, ...]:
    """Return the shares of the passes; ``split=`` before the rule."""
    given = request.shares_of(pass_names(rules))
    return passes_of(rules, mu, n, p) if given is None else tuple(given.values())


def plan_fit(request: Request, design: Design, n: int, model: Model) -> Plan[Any]:
    """Plan a scoring fit.

    Parameters
    ----------
    request, design, n
        As a backend's ``plan`` gets them; ``request.delta > 0``.
    model : Model
    """
    _check_independent(request, model)
    if request.unit is not None:
        from dpmodels.scoring.unit_run import FitStatistics, RowModel, plan_units

        equal = request.options.get("person_weights") == "equal"
        models = tuple((RowModel(chain.score, equal=equal), chain.label) for chain in model.chains)
        few = model.rules in (LINEAR, BOUNDED)
        return plan_units(
            request, design, n, models, linear=few, raw=model.raw, coordinates=model.coordinates,
            closing=FitStatistics() if model.statistics else None, model=model,
        )  # fmt: skip
    rows = enough_rows(request, design, n)
    missing = () if model.coordinates is not None else design.unknown
    part = gaussian_part(request, to_be_bought(request, missing))
    share = 1.0 - part.share
    mu = part.mu * math.sqrt(share)
    clusters = plan_clusters(request, mu, rows, [c.label for c in model.chains], design.p)
    if clusters is not None:
        mu *= math.sqrt(1.0 - clusters.share)
    scales = _scales(request, design, model, mu, rows)
    asked = 0.0 if scales is None else SCALES
    mu *= math.sqrt(1.0 - asked)
    shares = _shares(request, model.rules, mu, rows, design.p)
    x = noise_ratio(mu, design.p, rows)
    detail = ScoredDetail(
        model, mu, design, shares, rows, _guide(request, design, n, x),
        weighted=design.place_aside("weights") is not None, scales=scales, clusters=clusters,
        reserve=design.p >= COLUMNS and not model.raw and request.split is None,
    )  # fmt: skip
    scoring = detail.scoring(design.p, request.relation)
    names = pass_names(replace(model.rules, passes=shares))
    by_cluster = 0.0 if clusters is None else clusters.share * share
    share -= by_cluster
    of_scoring = share * (1.0 - asked)
    left = of_scoring * (1.0 - STATISTICS_SHARE * model.statistics)
    first = () if scales is None else scale_steps(scales)
    return Plan.of(
        request,
        design,
        n,
        [
            *part.steps,
            *(s.within(share) for s in first),
            *steps(scoring, of_scoring),
            *(s.within(share + by_cluster) for s in (() if clusters is None else clusters.steps)),
        ],
        shares={
            **part.printed,
            **({"scales": asked * share} if asked else {}),
            **{name: one * left for name, one in zip(names, shares, strict=True)},
            **({STATISTICS_STEP: STATISTICS_SHARE * of_scoring} if model.statistics else {}),
            **({"clusters": by_cluster} if clusters is not None else {}),
        },
        scales={
            "public noise ratio": x,
            "noise of the information": figure(scoring),
            "clip of scores": scoring.passes[-1].clip,
            **({} if clusters is None else clusters.printed(design.p)),
        },
        expected_se=_expected(detail, design, request.relation) if figure(scoring) <= LOUD else {},
        purchase=part.purchase,
        detail=detail,
        advice=(
            *_advice(figure(scoring)), *(() if clusters is None else clusters.advice(design.p))
        ),
        forecast=expected_intervals(
            figure(scoring), FINE, LOUD, between="rough",
            beyond="many coefficients will not be determined",
        ),
        passes=len(shares) + (part.purchase is not None) + model.statistics + 2 * bool(asked)
        + (clusters is not None),
    )


def _scales(
    request: Request, design: Design, model: Model, mu: float, n: int
) -> ScalePlan | None:
    """Return what is asked about centres and scales before the start, by public numbers.

    Least squares of rows about declared ranges: of the response where there are many columns and
    mu n is not so large that noise of a start in units of a range does no harm; of every number on
    request.
    """
    score = model.chains[0].score
    wanted = request.options.get("ranges") == "uncertain"
    if (
        not score.averages or model.coordinates is not None
        or design.place_aside("offset") is not None or design.unknown or request.split is not None
        or not (wanted or (design.p >= COLUMNS and mu * n <= STRONG))
    ):  # fmt: skip
        if wanted:
            raise RequestError(
                'ranges="uncertain" is for linear models of rows with declared ranges, without '
                "offset= and split=: leave it out, or bounds='private' buys ranges"
            )
        return None
    names, places = numbers_of(design, predictors=wanted)
    return ScalePlan(names, places, mu, request.relation)


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


def _advice(noise: float) -> tuple[str, ...]:
    """Warn, before anything is charged, of a model that the budget does not carry."""
    if noise <= LOUD:
        return ()
    return (
        f"the noise of the information will be {noise:.2g} of its size (above {LOUD:g}): this "
        "budget does not carry this model, intervals will be wide and coefficients not "
        "determined. More rows, a larger eps, narrower ranges or fewer terms help; for "
        "predictions alone inference=False spends nothing on errors",
    )


def _guide(request: Request, design: Design, n: int, x: float) -> Guide:
    """Return which rows the early passes read, by public numbers."""
    # In a table sorted by a private column one row replaced moves the others between windows.
    ordered = request.relation == "replace" and bool(request.options.get("public_order"))
    windows = guide_windows(design, n, x) if ordered else ALL_ROWS
    return Guide(guide_share(x), windows, first_share(x))


def _expected(detail: ScoredDetail, design: Design, relation: str) -> Mapping[str, float]:
    """Return expected privacy errors: the noise of the scores, mapped by a public guess.

    Assumed: uncorrelated columns about the middle of their ranges, their sd a quarter of the
    range; and the room's guess of the spread of a score.
    """
    model = detail.model
    if design.unknown or model.coordinates is not None or not model.guess:
        return {}
    coordinates = detail.coordinates(design)
    last = detail.scoring(coordinates.rank, relation).passes[-1]
    sd = np.array([1.0 if c.kind == "intercept" else _SPREAD for c in design.columns])
    M = floored(coordinates.W0 @ np.diag(sd**2) @ coordinates.W0.T, 1e-12)
    A, _ = coordinates.back()
    W = roots(M)[1] * model.guess
    length = np.linalg.norm(A @ W, axis=1)
    state = State(np.zeros(len(M)), W, 1.0, M)
    out: dict[str, float] = {}
    for chain in model.chains:
        own = within(last, chain.score, state, coordinates, design)
        se = (own.noise.score / detail.rows * length).tolist()
        out |= dict(zip(chain.named(design.names), se, strict=True))
    return out


def release_fit(plan: Plan[ScoredDetail], ask: Ask) -> Release:
    """Release the start and the scoring passes.

    Privacy
    -------
    Unit: one row; replace-one (n public) or add-remove. Charged: the steps of the plan.
    """
    if not isinstance(plan.detail, ScoredDetail):
        from dpmodels.scoring.unit_run import release_units_fit

        return release_units_fit(plan, ask)
    detail = plan.detail
    design = ranged_design(plan, ask, wide=True)
    if design is None:
        return no_ranges(plan)
    coordinates = detail.coordinates(design)
    read = reaching(design, plan.design)
    if detail.scales is not None:
        coordinates = located(detail.scales, coordinates, read, ask)
    scoring = detail.scoring(coordinates.rank, plan.request.relation).bound(design)
    found = release_scoring(scoring, coordinates, read, ask)
    if detail.clusters is not None:
        from dpmodels.scoring.clusters import Scored, release_clusters

        passes = tuple(map(Scored, final_passes(scoring, found, read)))
        found = replace(found, clusters=release_clusters(detail.clusters, passes, read, ask))
    values: dict[str, Any] = {"start": found.Q}
    for chain, one in zip(scoring.chains, found.chains, strict=True):
        values |= by_name(one.released, chain.label)
    if detail.clusters is not None and found.clusters is not None:
        for label, J in zip(detail.clusters.chains, found.clusters.products, strict=True):
            values[f"cluster scores{label}"] = J
    remarks = {RESERVE: scoring.spent(found)} if scoring.more else {}
    return Release(values, plan.guarantee, design, detail=found, remarks=remarks)
