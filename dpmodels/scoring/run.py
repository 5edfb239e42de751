"""The shell of a fit by scoring: what it plans and releases, and the one loop of its passes.

Plan (public) -> release (sees rows) -> what :mod:`dpmodels.scoring.intervals` reads. What passes
over rows and over units do each in their way are two :class:`Strategy` records
(:mod:`dpmodels.scoring.rows`, :mod:`dpmodels.scoring.units`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring.cells import Deviance
from dpmodels.scoring.intervals import Step
from dpmodels.scoring.notes import named
from dpmodels.scoring.passes import Centre, PassSums, Released, affine_of, ask_pass, by_name
from dpmodels.scoring.rules import STATISTICS_SHARE, STATISTICS_STEP, Forecast, Pilot, PassPlan
from dpmodels.scoring.scores import Score, State
from dpmodels.scoring.starts import Coordinates, public_coordinates

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.records import Request
    from dpmodels.scoring.cluster_plan import ClusterPlan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.starts import ScalePlan
    from dpmodels.sums.ask import Ask, Pass, Read


@dataclass(frozen=True)
class Chain:
    """One model of a call, and what its steps are called.

    Attributes
    ----------
    score : Score or UnitModel
    label : str
        Empty for the only one of a call.
    """

    score: Any
    label: str = ""

    def named(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of coefficients (or numbers) of this chain."""
        return named(names, self.label)

    @property
    def raw(self) -> bool:
        """Whether the response stays in its own units."""
        own = self.score
        return not own.of_residual if isinstance(own, Score) else bool(own.raw)

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank."""
        return rank if isinstance(self.score, Score) else int(self.score.dimension(rank))

    def step(self, k: object) -> str:
        """Return the name of pass k in the ledger (or of another step)."""
        return f"{k} ({self.label})" if self.label else str(k)


@dataclass(frozen=True)
class ScoringPlan:
    """What a scoring fit will release; each strategy has a plan of its own kind.

    Attributes
    ----------
    p, n : int
        Dimension of theta; units: public, or the guess.
    mu : float
        Of all releases together.
    relation : str
    pilot : Pilot
        What passes before the last read.
    chains : tuple of Chain
        Models that are fitted to the same rows; each gets an equal part of every pass.
    closing : Closing or None
        What is released after the passes.
    """

    strategy: ClassVar[Strategy]

    p: int
    n: int
    mu: float
    relation: str
    pilot: Pilot
    chains: tuple[Chain, ...]
    closing: Closing | None

    @property
    def many(self) -> int:
        """Number of passes."""
        raise NotImplementedError

    def sequence(self, fits: Callable[[], Sequence[Fitting]]) -> Iterator[Any]:
        """Yield what each pass is planned as; ``fits``: the models after the pass before."""
        raise NotImplementedError

    def remarks(self, found: ScoringRelease) -> Mapping[str, str]:
        """Return what steps turned out to be, for the ledger."""
        return {}

    @property
    def ledger(self) -> tuple[LedgerStep, ...]:
        """Steps before the fit closes, in the order of the release; their shares are of mu^2."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[LedgerStep, ...]:
        """All steps."""
        return self.ledger if self.closing is None else (*self.ledger, self.closing.of(self.mu))

    @property
    def noise(self) -> float:
        """Public noise of the last information over its size."""
        raise NotImplementedError

    @property
    def forecast(self) -> Forecast:
        """What that noise lets expect."""
        raise NotImplementedError

    @property
    def readings(self) -> int:
        """How often the rows are read before the fit closes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Fitting:
    """A model on its way: what it released, and what the passes made of it.

    Attributes
    ----------
    chain : Chain
    model : Score or Expansion
        As it was initialised, at the ranges of the design.
    state : State
        Where the next pass looks from.
    values : mapping
        What was released before the passes, by name.
    public : (k, r) array or None
        Public rows in u, of models of events and counts of rows, and where passes have a reserve.
    plans : tuple of PassPlan
        As they were run: radii no larger than rows and scores can be.
    lengths : tuple of Lengths
        Of units: released before each pass.
    released : tuple of Released
    before : State
        Where the last pass looked from; of units W is that of the information.
    last : Step
        Of the last pass.
    look : (r, r) array or None
        Of units: the W in which the next pass looks at the information.
    turn : (r, r) array or None
        Of units: from the coordinates of scores to those of the information.
    on_its_way : bool
        The last step is longer than noise explains, and no shorter than the one before.
    """

    chain: Chain
    model: Any
    state: State
    values: Mapping[str, Any] = field(default_factory=dict)
    public: Array | None = None
    plans: tuple[PassPlan, ...] = ()
    lengths: tuple[Any, ...] = ()
    released: tuple[Released, ...] = ()
    before: State = None  # type: ignore[assignment]
    last: Step = None  # type: ignore[assignment]
    look: Array | None = None
    turn: Array | None = None
    on_its_way: bool = False

    @property
    def score(self) -> Any:
        """The model of rows that this is; None: of whole units."""
        return self.model if isinstance(self.model, Score) else getattr(self.model, "score", None)

    def after(
        self, plan: PassPlan, released: Released, before: State, step: Step, **changed: Any
    ) -> Fitting:
        """Return the model after a pass."""
        return replace(
            self, plans=(*self.plans, plan), released=(*self.released, released), before=before,
            last=step, state=step.state, **changed,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Aimed:
    """A pass of one model, decided by public and released numbers.

    Attributes
    ----------
    plan : PassPlan
    over : Pass
        Of one or several models.
    pick : function
        The sums of this model among those of the pass.
    take : function
        Of what was released: the model after the step.
    """

    plan: PassPlan
    over: Pass
    pick: Callable[[Any], PassSums]
    take: Callable[[Released], Fitting]


@dataclass(frozen=True)
class Strategy:
    """What passes over rows, and over units, do each in their way.

    Attributes
    ----------
    before : tuple of str
        What ``split=`` calls the shares before the passes.
    chains : function
        ``(request, model)``: the chains as they are planned.
    schedule : function
        ``(request, design, n, rows, mu, model)``: (mu, shares, guide, scales) of a fit.
    plan : function
        ``(detail, rank, relation, design)``: the plan of the passes.
    shown : function
        ``(detail, scoring)``: public numbers and expected errors of a plan.
    advice : function
        ``(scoring)``: warnings of a model that its budget does not carry.
    locate : function
        ``(detail, scoring, coordinates, design, ask)``: coordinates after what was asked about
        places, and what of it was released.
    together : bool
        Models of one payment read the rows together, from one start.
    begin : function
        ``(scoring, chains, coordinates, spreads, design, ask)``: models before their first pass.
    aim : function
        ``(scoring, k, planned, fits, coordinates, design, ask)``: pass k of each as its plan has it
        (:meth:`ScoringPlan.sequence`), and what it reads.
    scorers : function
        ``(detail, found, design)``: the scores at the final fit, for sums by cluster, and the turns
        to them.
    """

    before: tuple[str, ...]
    chains: Callable[[Request, Model], tuple[Chain, ...]]
    schedule: Callable[..., tuple[float, tuple[float, ...], Pilot, ScalePlan | None]]
    plan: Callable[[Any, int, str, Design], ScoringPlan]
    shown: Callable[[Any, Any], tuple[dict[str, float], Mapping[str, float]]]
    advice: Callable[[Any], tuple[str, ...]]
    locate: Callable[..., tuple[Coordinates, tuple[Any, ...]]]
    together: bool
    begin: Callable[..., Sequence[Fitting]]
    aim: Callable[..., tuple[Sequence[Aimed], Read]]
    scorers: Callable[..., tuple[Any, ...]]

    def names(self, many: int) -> tuple[str, ...]:
        """Return what ``split=`` calls so many shares."""
        return (*self.before, *_ORDINALS[: many - len(self.before) - 1], "last")


_ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True, eq=False)
class Model:
    """What a room fits.

    Attributes
    ----------
    chains : tuple of Chain
        One, or several of one payment.
    coordinates : Coordinates or None
        Public ones of the room's own; None: the declared box.
    radius : float
        Of the start; 0: by rule.
    meat : bool
        Release the meat of the sandwich (robust errors).
    guess : float
        Public guess for a plan: error of a fit without noise per root of 1/n, in the coordinates
        whitened by the second moments. 0: none.
    closing : Closing or None
        What is released after the passes.
    """

    chains: tuple[Chain, ...]
    coordinates: Coordinates | None = None
    radius: float = 0.0
    meat: bool = True
    guess: float = 0.5
    closing: Closing | None = None


@dataclass(frozen=True)
class Closing:
    """What a room releases after the passes, in one step.

    Attributes
    ----------
    name : str
        Of the step.
    share : float
        Of mu^2.
    """

    name: ClassVar[str]
    share: ClassVar[float]

    def of(self, mu: float) -> LedgerStep:
        """Return the step."""
        return LedgerStep(self.name, Gaussian(mu * math.sqrt(self.share)), share=self.share)

    def conclude(self, found: ScoringRelease, design: Design, ask: Ask) -> dict[str, float]:
        """Return released statistics of the fit."""
        raise NotImplementedError


@dataclass(frozen=True)
class FitStatistics(Closing):
    """Deviance and its kin, of a model of a mean, at the final fit."""

    name: ClassVar[str] = STATISTICS_STEP
    share: ClassVar[float] = STATISTICS_SHARE

    def conclude(self, found: ScoringRelease, design: Design, ask: Ask) -> dict[str, float]:
        """Release them, with what the deviance cuts by the lengths of scores of rows."""
        first, c = found.fits[0], found.coordinates
        score, last, bins = first.score, first.plans[-1], first.released[-1].bins
        assert design.response is not None and design.response.interval is not None
        centre = centre_of(score, first.state, 1, c, design)
        one = Deviance.of(
            score.family, score.link, first.state.nuisance, first.state.phi, centre,
            design.response.interval,
        )  # fmt: skip
        told = one.release(design, affine_of(centre, 1.0), ask, people=last.people)
        cut = 0.0 if bins is None else one.cut(told, bins, last, first.before.phi)
        return one.report(told, len(first.state.theta), cut=cut, people=last.people)


@dataclass(frozen=True, eq=False)
class ScoredDetail:
    """What a scoring fit decided before the first row.

    Attributes
    ----------
    model : Model
        As the room gave it.
    strategy : Strategy
        Over rows, or over units.
    chains : tuple of Chain
        As the strategy plans them.
    design : Design
        As planned.
    rows : int
        Units of the public rules.
    mu : float
        Of all releases but those of ranges, scales and clusters.
    shares : tuple of float
        Of what comes before the passes, and of the passes.
    pilot : Pilot
        What the passes before the last read.
    scales : ScalePlan or None
        What is asked about centres and scales of rows first.
    clusters : ClusterPlan or None
        The pass by cluster, after the others.
    people : bool
        The unit is a person.
    whole : bool
        The shares are those of the rules: the last pass may give a part to passes before it.
    """

    model: Model
    strategy: Strategy
    chains: tuple[Chain, ...]
    design: Design
    rows: int
    mu: float
    shares: tuple[float, ...]
    pilot: Pilot
    scales: ScalePlan | None = None
    clusters: ClusterPlan | None = None
    people: bool = False
    whole: bool = True

    def scoring(self, rank: int, relation: str, design: Design | None = None) -> Any:
        """Return the plan of the passes for a design of this rank; of the planned one made once."""
        known = (rank, relation)
        if design is not None and design is not self.design:
            return self.strategy.plan(self, rank, relation, design)
        if known not in self._scorings:
            self._scorings[known] = self.strategy.plan(self, rank, relation, self.design)
        return self._scorings[known]

    @functools.cached_property
    def _scorings(self) -> dict[tuple[int, str], ScoringPlan]:
        return {}

    def coordinates(self, design: Design) -> Coordinates:
        """Return the public coordinates of a design whose ranges are known."""
        if self.model.coordinates is not None:
            return self.model.coordinates
        return public_coordinates(design, raw=self.chains[0].raw)


def centre_of(
    score: Score, state: State, k: int, coordinates: Coordinates, design: Design
) -> Centre:
    """Return where pass k of a model of rows looks from."""
    return Centre(
        coordinates.unit, coordinates.W0, state.theta, state.W, state.phi,
        score.evaluate(state, k), score.of_residual, design.auxiliary_place("offset"),
        design.auxiliary_place("weights"),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ScoringRelease:
    """What went out of a scoring fit.

    Attributes
    ----------
    coordinates : Coordinates
    fits : tuple of Fitting
    statistics : dict
        Of what closes the fit, with errors; empty unless asked for.
    clusters : ClusterRelease or None
        Of a pass by cluster.
    turns : tuple of (r, r) arrays
        Of units: from the coordinates of each model's scores to those of its pass by cluster.
    """

    coordinates: Coordinates
    fits: tuple[Fitting, ...]
    statistics: dict[str, float] = field(default_factory=dict)
    clusters: ClusterRelease | None = None
    turns: tuple[Array, ...] = ()

    def meat(self, i: int, of_units: Array) -> Array:
        """Return J by cluster of model i, in the coordinates of the meat of units, as given."""
        assert self.clusters is not None
        if not self.turns:
            return self.clusters.meat(i, of_units)
        turn, back = self.turns[i], np.linalg.inv(self.turns[i])
        found = self.clusters.meat(i, turn @ of_units @ turn.T)
        return np.asarray(back @ found @ back.T)

    @property
    def values(self) -> dict[str, Any]:
        """All released numbers, by name."""
        out: dict[str, Any] = {}
        for one in self.fits:
            out |= {**one.values, **by_name(one.released, one.chain.label)}
            if one.lengths:
                out[one.chain.step("lengths")] = one.lengths[-1].counts
        if self.clusters is not None and not self.turns:
            for one, J in zip(self.fits, self.clusters.products, strict=True):
                out[one.chain.step("cluster scores")] = J
        return out


def release_scoring(
    plan: ScoringPlan, coordinates: Coordinates, design: Design, ask: Ask,
    spreads: tuple[Any, ...] = (),
) -> ScoringRelease:  # fmt: skip
    """Release the start and the passes of all models: the one loop of a fit by scoring.

    Parameters
    ----------
    spreads : tuple
        What was released of places (:attr:`Strategy.locate`).

    Privacy
    -------
    The steps of the plan. Every pass looks from released numbers only.
    """
    own = plan.strategy
    fits: list[Fitting] = []
    for chains in (plan.chains,) if own.together else ((chain,) for chain in plan.chains):
        some = own.begin(plan, chains, coordinates, spreads, design, ask)
        for k, planned in enumerate(plan.sequence(lambda: some), 1):  # noqa: B023
            aimed, read = own.aim(plan, k, planned, some, coordinates, design, ask)
            some = [
                to.take(ask_pass(ask, to.plan, to.over, to.pick, fit.chain.step(k), plan.p, read))
                for fit, to in zip(some, aimed, strict=True)
            ]
        fits += some
    return ScoringRelease(coordinates, tuple(fits))
