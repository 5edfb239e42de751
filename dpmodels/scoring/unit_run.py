"""A fit over units: what every regression of people plans, and its passes.

The mirror of :mod:`dpmodels.scoring.plan` for the engine of expansions;
:mod:`dpmodels.scoring.estimate` makes the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpmodels.arrays import Array
from dpmodels.planning import Plan, enough_rows
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design, reaching, to_be_bought
from dpmodels.records import Release, Request
from dpmodels.scoring.cluster_plan import ClusterPlan, plan_clusters
from dpmodels.scoring.clusters import (
    ClusterRelease,
    PeopleByCluster,
    PersonScores,
    release_clusters,
)
from dpmodels.scoring.intervals import FLOOR_NOISE, FLOOR_SHRUNK, Step, infer_units
from dpmodels.scoring.notes import expected_intervals
from dpmodels.scoring.passes import Released, ask_pass, by_name
from dpmodels.scoring.rules import (
    FINE,
    LOUD,
    LOUD_BOUNDED,
    LOUD_LINEAR,
    STATISTICS_SHARE,
    STATISTICS_STEP,
    Guide,
    PassPlan,
    guide_share,
    noise_ratio,
)
from dpmodels.scoring.run import ask_statistics
from dpmodels.scoring.scores import (
    Beginning,
    Information,
    Score,
    State,
    axes,
    floored,
    kept_apart,
    roots,
    shrunk,
)
from dpmodels.scoring.starts import Coordinates, public_coordinates
from dpmodels.scoring.unit_passes import Expansion, Regression, UnitsJob
from dpmodels.scoring.unit_starts import (
    LINEAR_UNITS,
    NONLINEAR_UNITS,
    PLACES,
    SCALES,
    Lengths,
    Number,
    Spread,
    UnitRules,
    ask_lengths,
    ask_places,
    ask_scales,
    forecast,
    in_order,
    located,
    needed,
    numbers,
    shares_of,
    unit_pass,
)
from dpmodels.sums.ask import ALL, Ask, Sums

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


# -- The passes of a fit over units, in order: places, scales, and scoring passes of two readings.
#
# Plan (public) -> release (sees rows) -> what :mod:`dpmodels.scoring.intervals` reads. Each pass
# first releases how long the scores are, then chooses its clip by that, then its sums
# (``expand_theory.md``, 3).


#: Floor of eigenvalues, over their mean.
FLOOR = 0.02
#: Part of a step's length in units of events by which it is damped.
DAMPED = 0.5


@dataclass(frozen=True, eq=False)
class Begun:
    """A model before its first pass.

    Attributes
    ----------
    expansion : Expansion
    state : State
        theta, and W whatever it is.
    values : dict
        What it released for itself, by name.
    """

    expansion: Expansion
    state: State
    values: dict[str, Any] = field(default_factory=dict)


class UnitModel(Protocol):
    """A model as it is planned: what it asks for itself, and how it begins."""

    @property
    def linear(self) -> bool:
        """Whether the score is linear in theta."""
        ...

    @property
    def scale(self) -> bool:
        """Whether early passes release a scale."""
        ...

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return the numbers whose places are asked about."""
        ...

    def prelude(self, mu: float) -> tuple[LedgerStep, ...]:
        """Return steps of its own before the first pass; their shares are of mu^2."""
        ...

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Return the model before its first pass, having asked its own steps."""
        ...


@dataclass(frozen=True)
class UnitPlan:
    """What a fit over units will release.

    Attributes
    ----------
    r : int
        Dimension of theta.
    N : int
        Units: public, or the guess.
    mu : float
        Of all releases together.
    relation : str
    people : bool
        Units are people, else rows.
    rules : UnitRules
        Shares, of what the prelude leaves.
    models : tuple of (UnitModel, str)
        Models that share places, each with an equal part of every other step; and their labels.
    asked : tuple of Number
    guide : Guide
        Units that passes before the last read.
    closing : tuple of LedgerStep
        What is released after the passes; shares of mu^2.
    """

    r: int
    N: int
    mu: float
    relation: str
    people: bool
    rules: UnitRules
    models: tuple[tuple[UnitModel, str], ...]
    asked: tuple[Number, ...]
    guide: Guide = field(default_factory=Guide)
    closing: tuple[LedgerStep, ...] = ()

    def prelude(self) -> tuple[LedgerStep, ...]:
        """Return the models' own steps, one model after the other."""
        return tuple(step for model, _ in self.models for step in model.prelude(self.mu))

    @property
    def left(self) -> float:
        """Of mu, what prelude and closing leave."""
        own = math.fsum((s.share or 0.0) for s in (*self.prelude(), *self.closing))
        return self.mu * math.sqrt(1.0 - own)

    def part(self, share: float, *, chain: bool = True) -> float:
        """Return the mu of a share; of one chain among several."""
        many = len(self.models) if chain else 1
        return self.left * math.sqrt(share / many)

    @property
    def passes(self) -> tuple[float, ...]:
        """Shares of the passes; of places too where no number is asked about."""
        *early, last = self.rules.passes
        return (*early, last + (0.0 if self.asked else self.rules.places))


@dataclass(frozen=True, eq=False)
class UnitChain:
    """What one model released.

    Attributes
    ----------
    expansion : Expansion
    begun : Begun
    plans : tuple of PassPlan
    lengths : tuple of Lengths
    released : tuple of Released
    before : State
        Where the last pass looked from; W in which it looked at the information.
    turn : (r, r) array
        From the coordinates of scores to those of the information.
    last : Step
    """

    expansion: Expansion
    begun: Begun
    plans: tuple[PassPlan, ...]
    lengths: tuple[Lengths, ...]
    released: tuple[Released, ...]
    before: State
    turn: Array
    last: Step


@dataclass(frozen=True, eq=False)
class UnitRelease:
    """What went out of a fit over units."""

    coordinates: Coordinates
    spreads: tuple[Spread, ...]
    chains: tuple[UnitChain, ...]
    statistics: dict[str, float] = field(default_factory=dict)
    clusters: ClusterRelease | None = None
    turns: tuple[Array, ...] = ()

    def meat(self, chain: int, of_people: Array) -> Array:
        """Return J by cluster, in the coordinates of the meat of people, which it is given."""
        assert self.clusters is not None
        turn, back = self.turns[chain], np.linalg.inv(self.turns[chain])
        found = self.clusters.meat(chain, turn @ of_people @ turn.T)
        return np.asarray(back @ found @ back.T)


def label(k: int, name: str) -> str:
    """Return the name of pass k in the ledger."""
    return f"{k} ({name})" if name else str(k)


def unit_steps(plan: UnitPlan) -> tuple[LedgerStep, ...]:
    """Return the steps of the ledger, in the order of the release."""
    out: list[tuple[str, float]] = []
    if plan.asked:
        out.append((PLACES, plan.part(plan.rules.places, chain=False)))
    passes = plan.passes
    before = list(plan.prelude())
    for model, name in plan.models:
        out.append((_named(SCALES, name), plan.part(plan.rules.scales)))
        for k, share in enumerate(passes, 1):
            mu, last = plan.part(share), k == len(passes)
            of = shares_of(last=last, scale=model.scale)
            joint = of.information + of.meat + of.spread + of.score
            out.append((f"score lengths {label(k, name)}", mu * math.sqrt(of.lengths)))
            out.append((f"information and scores {label(k, name)}", mu * math.sqrt(joint)))
            if of.scale:
                out.append((f"scale {label(k, name)}", mu * math.sqrt(of.scale)))
    steps = [LedgerStep(name, Gaussian(mu), share=(mu / plan.mu) ** 2) for name, mu in out]
    return (*steps[: bool(plan.asked)], *before, *steps[bool(plan.asked) :], *plan.closing)


def _named(step: str, name: str) -> str:
    return f"{step} ({name})" if name else step


def release_units(
    plan: UnitPlan, coordinates: Coordinates, design: Design, ask: Ask, *, fixed: bool = False
) -> UnitRelease:
    """Read the rows and release.

    Parameters
    ----------
    fixed : bool
        Coordinates are public ones of the caller's own, and are not moved.

    Privacy
    -------
    The steps of the plan: each a Gaussian release of bounded parts of units, from released
    numbers only.
    """
    guide = plan.guide
    early = guide.read_early()
    spreads: tuple[Spread, ...] = ()
    if plan.asked:
        spreads = ask_places(
            ask, plan.asked, design, float(guide.early(plan.N)), people=plan.people, read=early
        )
        if not fixed:
            coordinates = located(coordinates, design, spreads)
    coordinates = in_order(coordinates)
    chains = []
    for model, name in plan.models:
        begun = model.begin(coordinates, spreads, design, ask, plan.mu)
        chains.append(_chain(plan, model, name, begun, design, ask))
    return UnitRelease(coordinates, spreads, tuple(chains))


def _chain(
    plan: UnitPlan, model: UnitModel, name: str, begun: Begun, design: Design, ask: Ask
) -> UnitChain:
    """Release the scales and the passes of one model."""
    guide, r = plan.guide, plan.r
    early = guide.read_early()
    expansion, state = begun.expansion, begun.state
    N = float(guide.early(plan.N))
    first = replace(state, W=np.eye(r))
    squares = ask_scales(
        ask, _named(SCALES, name), expansion.at(first, 1), r, design, N, people=plan.people,
        read=early,
    )  # fmt: skip
    state = replace(state, W=np.diag(squares**-0.5), M=np.diag(squares))
    look, shares = state.W, plan.passes  # W of the information
    plans: list[PassPlan] = []
    seen: list[Lengths] = []
    out: list[Released] = []
    before, step, turn = state, None, np.eye(r)
    for k, share in enumerate(shares, 1):
        last, mu = k == len(shares), plan.part(share)
        of = shares_of(last=last, scale=model.scale)
        n = plan.N if last else guide.early(plan.N)
        local = expansion.at(state, k)
        lengths = ask_lengths(
            ask, local, label(k, name), design, people=plan.people, read=ALL if last else early
        )
        clip = expansion.clip(r, mu * math.sqrt(of.score), n, lengths.square)
        one = unit_pass(
            lengths, mu, n, r, plan.relation, float(r), last=last, scale=model.scale,
            tail=guide.tail(plan.N) if last else n, clip=clip, stops=expansion.stops and last,
            least=expansion.typical_long(state),
        )  # fmt: skip
        if expansion.stops and last:
            local = expansion.at(state, k, one.clip)
        turn = look @ np.linalg.inv(state.W)
        over = Sums(design, UnitsJob(local, one, r, plan.people, turn if k > 1 else None))
        found = ask_pass(
            ask, one, over, lambda sums: sums.sums, label(k, name), r,
            guide.read_last() if last else early,
        )  # fmt: skip
        before = replace(state, W=look)
        step, look = unit_step(found, one, before, turn, expansion)
        state = step.state
        plans.append(one)
        seen.append(lengths)
        out.append(found)
    assert step is not None
    return UnitChain(expansion, begun, tuple(plans), tuple(seen), tuple(out), before, turn, step)


def unit_step(
    released: Released, plan: PassPlan, state: State, turn: Array, expansion: Expansion
) -> tuple[Step, Array]:
    """Take one step from the released sums of a pass; and the W from which the next one looks.

    In that W the information of this pass is round; after the last pass nobody looks, and it stays.
    ``theta + W' d``, ``d = sqrt(phi) H^{-1} s / N``; where the score is linear H is averaged with
    that of the pass before, by precision; else an early step is divided by ``1 + q/2``,
    ``q^2 = d'H d / (phi r)``, as exponential models overshoot from below.

    Parameters
    ----------
    state : State
        W: in which the information was looked at.
    turn : (r, r) array
        From the coordinates of scores to those.
    """
    r, m = len(state.theta), plan.rows
    nu = plan.noise.information / m
    H = released.information / m
    root = np.linalg.inv(state.W)
    own = Information(root @ H @ root.T, nu * float(np.trace(root @ root.T)) / r)
    if expansion.linear and state.earlier is not None:
        before = state.W @ state.earlier.matrix @ state.W.T
        stretch = float(np.trace(state.W @ state.W.T)) / r
        old = (state.earlier.noise * stretch) ** 2
        weight = old / (old + nu * nu)
        H = weight * H + (1.0 - weight) * before
        nu = math.sqrt(weight**2 * nu * nu + (1.0 - weight) ** 2 * old)
    size = max(float(np.trace(H)) / r, 1e-3)
    least = FLOOR * size
    if plan.manner.shrinks and state.earlier is not None:  # it is round but for what was learnt
        H, nu = kept_apart(H, nu)
        least = FLOOR_SHRUNK * size
    floor = max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), least)
    known = axes(H)
    safe = floored(H, floor, known)
    mean = released.score / m
    d: Array = np.asarray(math.sqrt(state.phi) * np.linalg.solve(safe, turn @ mean))
    learnt, W, look = state, state.W, state.W
    if not plan.last:
        in_u = root @ safe @ root.T
        look = roots(in_u)[1]
        moved = math.sqrt(max(float(d @ safe @ d), 0.0) / expansion.events(in_u))
        if not expansion.linear:
            d = d / (1.0 + DAMPED * moved / math.sqrt(state.phi))
        d = d * min(1.0, expansion.longest(state) / max(moved, 1e-300))
        ratio = None
        if released.scale is not None:  # of scores, whose coordinates are their own
            own_look = np.linalg.inv(turn)
            ratio = released.scale / (m * float(np.trace(own_look @ safe @ own_look.T)))
        weight_one = np.sqrt(np.maximum(np.diag(state.M), 1e-300))
        learnt = expansion.learnt(state, in_u / np.outer(weight_one, weight_one), ratio)
        W = _whitening(
            released, plan, look, root @ turn, state.phi / learnt.phi, expansion.least_meat(state)
        )
    theta = state.theta + state.W.T @ d
    if not plan.last:
        theta = expansion.settled(theta)
    return Step(H, nu, floor, d, replace(learnt, theta=theta, W=W, earlier=own), known), look


def _whitening(
    released: Released, plan: PassPlan, look: Array, back: Array, rescaled: float, least: float
) -> Array:
    """Return the W in which scores are round, by the released meat of a pass.

    Looked at in the coordinates in which the information is round: there the meat is a multiple of
    the identity for a model that holds and independent rows, so it is shrunk to that as far as its
    noise explains what is between. Columns that vary within and between people are told apart.

    Parameters
    ----------
    look : (r, r) array
        W in which the released information is round.
    back : (r, r) array
        From the coordinates of the scores to u.
    rescaled : float
        What scores are multiplied by, squared, in the next pass.
    least : float
        Least meat over the information, by the model: that of rare events lies beyond its ball.
    """
    assert released.meat is not None
    m, r = plan.rows, len(look)
    mean = released.score / m
    turn = look @ back
    J = released.meat / m - np.outer(mean, mean)  # of scores about their mean: of an early fit
    noise = plan.noise.meat / m * float(np.trace(turn @ turn.T)) / r
    J = shrunk(turn @ J @ turn.T, noise, r, least=FLOOR)
    if least > 0.0:
        J = floored(J, least)
    own = np.linalg.inv(look)
    return roots(own @ J @ own.T * rescaled)[1]


# -- A fit over units as a backend: what every room of regressions of people plans and releases.


@dataclass(frozen=True, eq=False)
class RowModel:
    """A model of rows (a :class:`~dpmodels.scoring.scores.Score`), as it is planned for units.

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
    score = getattr(models[0][0], "score", None)
    bounded = score is not None and not score.leverage
    loud = LOUD_BOUNDED if bounded else LOUD_LINEAR if linear else LOUD
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
            *_advice(rho, loud, scoring.left, rows, p, scoring),
            *(() if clusters is None else clusters.advice(p)),
        ),
        forecast=expected_intervals(
            rho, FINE, loud, between="wide",
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


def _advice(
    rho: float, loud: float, mu: float, N: int, p: int, scoring: UnitPlan
) -> tuple[str, ...]:
    """Warn, before anything is charged, of a model that the units do not carry. Public."""
    if rho <= loud:
        return ()
    part = mu / math.sqrt(len(scoring.models))
    more, factor, most = needed(part, N, p, scoring.passes[-1])
    counted = "people" if scoring.people else "rows"
    fewer = f", or at most {most} coefficients" if most else ""
    return (
        f"not determined at this budget: with {p} coefficients noise is {rho:.0%} of the signal "
        f"(above {loud:.0%}). About {_round(more)} {counted}, or about "
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
