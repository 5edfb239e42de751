"""Scoring fits of units: centres, scales, and passes of two readings.

A pass releases a histogram of the lengths of scores, chooses its clip from it, and then releases
its sums (``method.md``, 8.3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.core import units
from dpmodels.core.clusters import Scorer
from dpmodels.core.own import OwnRows
from dpmodels.core.parallel import Released
from dpmodels.core.release import Program, Release
from dpmodels.core.rows import Rows, linear
from dpmodels.core.units import UnitFormula
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import Ball, NuclearBall, OneHot
from dpmodels.proof.statistics import Gram, Sum
from dpmodels.scoring import rules
from dpmodels.scoring.clip import Lengths, chosen_clip
from dpmodels.scoring.coordinates import Coordinates, in_order
from dpmodels.scoring.expected import Expectation, ScoreLengths, of_units
from dpmodels.scoring.intervals import infer_units
from dpmodels.scoring.models import Beginning, Model, State, whitening
from dpmodels.scoring.pass_plan import (
    Noise,
    PassPlan,
    Pilot,
    coin_share,
    forecast,
    information_of_units,
    largest_information,
    needed,
    noise_ratio,
    shares_of_units,
)
from dpmodels.scoring.rules import Forecast
from dpmodels.scoring.run import (
    Chain,
    Fitting,
    ModelSpec,
    Schedule,
    ScoringPlan,
    ScoringRelease,
    split_names,
)
from dpmodels.scoring.step import newton_step
from dpmodels.scoring.unit_passes import Expansion, Regression
from dpmodels.scoring.unit_scales import (
    SCALES,
    Number,
    Spread,
    numbers,
    recentred,
    released_distances,
    released_places,
    released_squares,
    weight_number,
)
from dpmodels.sums.ask import ALL, Read

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.records import Request


class UnitModel:
    """Planned unit model: its steps before the first pass, and its start."""

    # Whether the score is linear in theta: three passes, else four.
    averages: ClassVar[bool] = False
    scale: ClassVar[bool] = False  # Whether early passes release a scale
    normal_error: ClassVar[float] = 1.0  # As of a model of rows
    # Kind of the cells of the response (:func:`dpmodels.scoring.scales.numbers`); empty: its
    # distribution is not released.
    cells: ClassVar[str] = ""

    @property
    def raw(self) -> bool:
        """Whether the response stays in the user's units (models that are not linear)."""
        return not self.averages

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of centres, scales and passes."""
        return rules.LINEAR_UNITS if self.averages else rules.NONLINEAR_UNITS

    def dimension(self, rank: int) -> int:
        """Return the number of coefficients of a design of this rank."""
        return rank

    def prelude(self, mu: float) -> tuple[LedgerStep, ...]:
        """Return the model's steps before the first pass; their shares are of mu^2."""
        return ()

    def initialise(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, mu: float
    ) -> Program:
        """Release the model's steps before the first pass, and return it with its start."""
        yield from ()
        return self.initialised_at(coordinates, spreads, design)

    def initialised_at(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design
    ) -> Initialised:
        """Return the model at its start, if it has no step before the first pass."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Initialised:
    """A model before its first pass."""

    expansion: Expansion
    state: State  # theta, and any W
    values: Mapping[str, Any] = field(default_factory=dict)  # Values of its own release, by name


@dataclass(frozen=True, eq=False)
class RowModel(UnitModel):
    """A model of rows (a :class:`~dpmodels.scoring.models.Model`), as it is planned for units."""

    score: Model
    equal: bool = False  # Units count alike, not rows

    averages = property(attrgetter("score.averages"))  # Whether the score is linear in theta
    scale = property(attrgetter("score.learns_scale"))  # Whether early passes release a scale
    normal_error = property(attrgetter("score.normal_error"))  # Over least squares
    cells = property(attrgetter("score.cells"))  # Cells of the response

    @property
    def raw(self) -> bool:
        """Whether the response stays in the user's units."""
        return not self.score.of_residual

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of centres, scales and passes: few passes where those of rows are few."""
        return (
            rules.LINEAR_UNITS if self.score.pass_shares is rules.LINEAR else rules.NONLINEAR_UNITS
        )

    def initialised_at(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design
    ) -> Initialised:
        """Start at the released middle of the response."""
        score = self.score.bound(design)
        values = next((s for s in spreads if s.number.place == design.q - 1), None)
        unit = coordinates.unit
        at = Beginning(
            coordinates.constant, coordinates.rank, values,
            float(unit.scale[-1]), float(unit.shift[-1]),
        )  # fmt: skip
        model = Regression(
            score, coordinates, design.auxiliary_place("offset"), design.auxiliary_place("weights"),
            values, equal=self.equal,
        )  # fmt: skip
        state = score.begin(at)
        # a public fit by the caller (0 if there is none)
        return Initialised(model, replace(state, theta=state.theta + coordinates.centre))


@dataclass(frozen=True)
class UnitsPlan(ScoringPlan):
    """Plan of a scoring fit over units."""

    people: bool  # Units are people, else rows
    shares: tuple[float, ...]  # Shares of centres, scales and passes, after the prelude
    asked: tuple[Number, ...] = ()  # Variables whose distributions are released
    scaled: bool = False  # Whether some are predictors, whose scales are released too
    opening: Any = None  # Start at public rows, with their coordinates and scales
    before: ClassVar[tuple[str, ...]] = ("places", "scales")

    @property
    def prelude(self) -> tuple[LedgerStep, ...]:
        """The models' own steps, one model after the other."""
        return tuple(step for chain in self.chains for step in chain.score.prelude(self.mu))

    @property
    def forecast(self) -> Forecast:
        """Forecast from the noise of the information."""
        model = self.chains[0].score
        if isinstance(model, RowModel) and model.score.jump:
            return rules.OF_BOUNDED_UNITS
        return rules.OF_LINEAR_UNITS if model.averages else rules.OF_UNITS

    @functools.cached_property
    def mu_of_passes(self) -> float:
        """Return the part of mu that prelude and closing leave."""
        spent = math.fsum((s.share or 0.0) for s in self.prelude)
        spent += 0.0 if self.closing is None else self.closing.share
        return self.mu * math.sqrt(1.0 - spent)

    @property
    def each(self) -> float:
        """Remaining mu for each model."""
        return self.mu_of_passes / math.sqrt(len(self.chains))

    def part(self, share: float) -> float:
        """Return the mu of a share, of one model."""
        return self.mu_of_passes * math.sqrt(share / len(self.chains))

    @property
    def asking(self) -> tuple[tuple[str, float], ...]:
        """Names and shares of the histograms of variables: half each, or one if none is scaled."""
        if not self.asked:
            return ()
        share = self.shares[0]
        names = (rules.PLACES, rules.DISTANCES) if self.scaled else (rules.PLACES,)
        return tuple((name, share / len(names)) for name in names)

    @property
    def passes(self) -> tuple[float, ...]:
        """Shares of the passes, with the share of centres if no distribution is released."""
        places, _, *early, last = self.shares
        return (*early, last + (0.0 if self.asked else places))

    @property
    def many(self) -> int:
        """Number of passes."""
        return len(self.shares) - 2

    @property
    def readings(self) -> int:
        """Number of readings of the rows before the fit closes."""
        readings = (2 * self.many + 1) * len(self.chains)
        return readings + len(self.prelude) + len(self.asking)

    @property
    def noise(self) -> float:
        """Forecast of the released noise of the information over its size."""
        return forecast(self.each, self.n, self.p, self.passes[-1])

    def expected(
        self, i: int, lengths: ScoreLengths, state: State, coordinates: Coordinates, design: Design
    ) -> Expectation:
        """Return the expected inference of a coefficient of model i."""
        shares = shares_of_units(last=True, scale=self.chains[i].score.scale)
        mu, stops = self.part(self.passes[-1]), design.survival is not None
        mu_score = mu * math.sqrt(shares.score)
        twice = sensitivity(Sum(Ball(self.p)), self.relation, "l2")
        one_bin = sensitivity(Sum(OneHot(rules.OCTAVES)), self.relation, "l2")
        sds = (twice / mu_score, one_bin / (mu * math.sqrt(shares.lengths)))
        return of_units(mu_score, sds, self.n, self.p, self.noise, lengths, stops=stops)

    @property
    def ledger(self) -> tuple[LedgerStep, ...]:
        """Steps before the fit closes."""
        out: list[tuple[str, float]] = []
        for chain in self.chains:
            if self.shares[1]:
                out.append((chain.step(SCALES), self.part(self.shares[1])))
            for k, share in enumerate(self.passes, 1):
                mu, label = self.part(share), chain.step(k)
                last = k == self.many
                of = shares_of_units(last=last, scale=chain.score.scale)
                joint = of.information + of.meat + of.score
                parts = (
                    ("score lengths", of.lengths), ("information and scores", joint),
                    ("scale", of.scale),
                )  # fmt: skip
                out += [(f"{name} {label}", mu * math.sqrt(s)) for name, s in parts if s]
        first = [(name, self.mu_of_passes * math.sqrt(share)) for name, share in self.asking]
        steps = [
            [LedgerStep(name, Gaussian(mu), share=(mu / self.mu) ** 2) for name, mu in pairs]
            for pairs in (first, out)
        ]
        return (*steps[0], *self.prelude, *steps[1])

    def shown(self) -> dict[str, float]:
        """Return public numbers."""
        return {"noise of the information": self.noise}

    def advice(self) -> tuple[str, ...]:
        """Return advice for a model for which there are too few units."""
        N, p = self.n, self.p
        least, factor, most = needed(self.each, N, p, self.passes[-1])
        counted = "people" if self.people else "rows"
        fewer = f", or at most {most} coefficients" if most else ""
        return (
            f"not determined at this budget: with {p} coefficients noise is {self.noise:.0%} "
            f"of the signal (above {self.forecast.high_noise:.0%}). About "
            f"{round(least, -max(len(str(least)) - 2, 0))} {counted}, or about {factor:.2g} times "
            f"the eps{fewer} would do",
        )

    def scorers(self, to: Schedule, release: ScoringRelease, _: Design) -> tuple[Any, ...]:
        """Return the scores at the final fit, turned to where those of people are round."""
        turns, passes = [], []
        for fit in release.fits:
            turn = whitening(infer_units(fit, to.rows).meat)
            turns.append(turn)
            formula = functools.partial(turned, scores=fit.model.at(fit.state), turn=turn)
            passes.append(Scorer(formula, len(turn)))
        return tuple(passes), tuple(turns)



def _take(
    fit: Fitting, planned: PassPlan, lengths: Lengths, turn: Array, released: Released
) -> Fitting:
    """Return the model after the step of a pass."""
    assert fit.look is not None
    before = replace(fit.state, W=fit.look)
    step = newton_step(released, planned, before, fit.model, turn)
    return fit.after(
        planned, released, before, step, lengths=(*fit.lengths, lengths), look=step.look, turn=turn
    )


def released_lengths(
    scores: UnitFormula, label: str, design: Design, read: Read = ALL
) -> Generator[Any, Any, Lengths]:
    """Release the histogram of the lengths of scores.

    Privacy
    -------
    Gaussian DP for one unit, with the planned mu: one bin.
    """
    released = yield Release(f"score lengths {label}", units.Lengths(), scores, design, read)
    return Lengths(released.values, float(released.sd[0]))


def unit_pass(
    lengths: Lengths, mu: float, N: float, p: int, relation: str, trace: float, *, last: bool,
    scale: bool, tail: float, clip: float = 0.0, least: float = 0.0,
) -> PassPlan:  # fmt: skip
    """Return a pass: radii by released lengths, and the noise of its sums.

    ``mu``: strength of the pass with its histogram of lengths; N: number of units that it reads
    (public, a guess, or expected under coins); ``tail``: number of units for the meat;
    ``trace``: trace of the information of a unit in the coordinates of the pass, as
    last released. C is ``clip`` if a model chooses it, else from :func:`chosen_clip`, and at least
    ``least``.
    """
    share = shares_of_units(last=last, scale=scale)

    def part(fraction: float) -> float:
        return mu * math.sqrt(fraction)

    H2 = trace * information_of_units(part(share.information) * N / p, p)
    J2 = lengths.square * max(
        rules.MIN_RADIUS_OF_UNITS, rules.MEAT_FACTOR * math.sqrt(part(share.meat) * tail / p)
    )
    C = max(clip or chosen_clip(lengths, part(share.score), N, p), least)
    gram_l2 = sensitivity(Gram(NuclearBall(p)), relation, "l2")
    twice = sensitivity(Sum(Ball(p)), relation, "l2")
    noise = Noise(
        information=gram_l2 * H2 / part(share.information),
        score=twice * C / part(share.score),
        meat=gram_l2 * J2 / part(share.meat),
        scale=rules.SCALE_CUT * p * lengths.square / p / part(share.scale) if share.scale else 0.0,
        count=sensitivity(Sum(OneHot(2)), relation, "l2") / part(share.lengths),
    )
    cut = rules.SCALE_CUT * lengths.square / p  # over p, as of rows
    joint = share.information + share.meat + share.score
    return PassPlan(
        p, last, part(joint), part(share.scale), 0.0, math.sqrt(H2), C,
        math.sqrt(J2), noise, relation, N, tail, weighted=True, people=True,
        policy=rules.UNITS_POLICY, strength=mu * N, scale_cut=cut * p,
    )  # fmt: skip


def schedule_units(
    request: Request, design: Design, n: int, rows: int, mu: float, model: ModelSpec
) -> Schedule:
    """Return the schedule of a fit of units, but for its look and its pass by cluster."""
    equal = request.options.get("person_weights") == "equal"
    chains = tuple(
        replace(c, score=RowModel(c.score, equal)) if isinstance(c.score, Model) else c
        for c in model.chains
    )
    first = chains[0].score
    chosen = request.shares_of(split_names(UnitsPlan.before, len(first.shares)))
    x = noise_ratio(mu, first.dimension(design.p), rows)
    pilot = Pilot(coin_share(rules.PILOT_NOISE / x, rows))
    shares = first.shares if chosen is None else tuple(chosen.values())
    shares = (0.0, *model.from_public) if model.from_public else shares
    return Schedule(
        model, plan_units, chains, design, rows, mu, shares, pilot,
        people=request.unit is not None, whole=request.split is None,
    )  # fmt: skip


def plan_units(to: Schedule, rank: int, relation: str, design: Design) -> UnitsPlan:
    """Return the plan of the steps for a design of this rank."""
    first = to.chains[0].score
    located: tuple[Number, ...] = ()
    if to.model.coordinates is None:
        # a design whose ranges will be estimated is planned as if it had them
        ranged = design.with_bounds(dict.fromkeys(design.unknown, (0.0, 1.0)))
        located = numbers(ranged, response=first.cells)
    located += () if to.model.from_public else weight_number(design)
    return UnitsPlan(
        first.dimension(rank), to.rows, to.mu, relation, to.pilot, to.chains,
        to.model.closing, to.people, to.shares, located,
        any(number.place < design.p for number in located), to.model.opening,
    )  # fmt: skip


def locate(
    scoring: UnitsPlan, coordinates: Coordinates, design: Design
) -> Generator[Any, Any, tuple[Coordinates, tuple[Spread, ...]]]:
    """Return coordinates for narrower ranges about the released centres, and these centres."""
    if not scoring.asked:
        return coordinates if scoring.opening else in_order(coordinates), ()
    pilot, root = scoring.pilot, None
    if design.scaled and not design.bought:
        root = coordinates.unit.one
    spreads = yield from released_places(
        scoring.asked, design, float(pilot.early(scoring.n)), people=scoring.people,
        read=pilot.read(), root=root,
    )  # fmt: skip
    if scoring.scaled:
        spreads = yield from released_distances(
            spreads, design, float(pilot.early(scoring.n)), people=scoring.people,
            read=pilot.read(), root=root, relation=scoring.relation,
        )  # fmt: skip
    place = design.auxiliary_place("weights")
    mean = next((s.mean for s in spreads if s.number.place == place), 1.0)
    return in_order(replace(recentred(coordinates, design, spreads), mean_weight=mean)), spreads


def initialise_model(
    plan: UnitsPlan, chain: Chain, coordinates: Coordinates,
    spreads: tuple[Spread, ...], design: Design,
) -> Generator[Any, Any, Fitting]:  # fmt: skip
    """Begin one model, and release the scales of its information."""
    pilot, r = plan.pilot, plan.p
    if plan.opening is not None:
        begun: Fitting = yield from plan.opening.begin_units(plan, chain, coordinates, design)
        return begun
    initialised = yield from chain.score.initialise(coordinates, spreads, design, plan.mu)
    first = replace(initialised.state, W=np.eye(r))
    guess = float(pilot.early(plan.n)) * plan.usable
    squares, count = yield from released_squares(
        chain.step(SCALES), initialised.expansion.at(first), r, design,
        guess, read=pilot.read(), relation=plan.relation,
    )  # fmt: skip
    state = replace(initialised.state, W=np.diag(squares**-0.5), M=np.diag(squares))
    expansion = initialised.expansion
    if plan.people:
        expansion = expansion.weighed(largest_information(plan.mu, plan.n))
    return Fitting(
        chain, expansion, state, initialised.values, look=state.W,
        counted=plan.usable * count / guess,
    )  # fmt: skip


def release_pass(
    plan: UnitsPlan, k: int, share: float, fit: Fitting, design: Design
) -> Generator[Any, Any, Fitting]:
    """Release the lengths of scores, then pass k by them; return the fit after its step."""
    pilot, r, last = plan.pilot, plan.p, k == plan.many
    expansion, state = fit.model, replace(fit.state, last=last)
    mu, early = plan.part(share), pilot.read()
    scale = fit.chain.score.scale
    guess = plan.n if last else pilot.early(plan.n)
    scores = expansion.at(state)
    reads = ALL if last else early
    lengths = yield from released_lengths(scores, fit.chain.step(k), design, reads)
    fit = fit.recounted(lengths.counts, lengths.sd, guess, plan.relation)
    n = guess * fit.counted
    of_score = shares_of_units(last=last, scale=scale).score
    planned = unit_pass(
        lengths, mu, n, r, plan.relation, float(r), last=last, scale=scale,
        tail=pilot.tail(plan.n) * fit.counted if last else n,
        clip=expansion.clip(r, mu * math.sqrt(of_score), n, lengths.square),
        least=expansion.typical_long(state),
    )  # fmt: skip
    if expansion.stops and last:
        scores = expansion.at(state, planned.clip)
    assert fit.look is not None
    turn = fit.look @ np.linalg.inv(state.W)
    into = units.UnitPass(planned, r, turn if k > 1 else None)
    read = pilot.read(last=last)
    released = yield Release(fit.chain.step(k), into, scores, design, read)
    return _take(fit, planned, lengths, turn, released)


def turned(rows: Rows, person: OwnRows, scores: UnitFormula, turn: Array) -> Rows:
    """Return scores of rows of people, turned so that those of people have length sqrt r."""
    return linear(turn, scores(rows, person).score)


def fit_units(
    to: Schedule, relation: str, design: Design, rows: Design, usable: float
) -> Generator[Any, Any, tuple[ScoringRelease, Mapping[str, str]]]:
    """Release a fit of units; return the released fit and remarks on its steps, for the ledger.

    ``design`` has every range, ``rows`` those that cells are clipped at. ``usable``: released part
    of the units that is usable.
    """
    public = to.coordinates(design)
    scoring = to.scoring(public.rank, relation, design).followed(to, usable)
    coordinates, spreads = yield from locate(scoring, public, rows)
    if coordinates.rank != public.rank:
        scoring = to.scoring(coordinates.rank, relation, design).followed(to, usable)
    return (yield from release_scoring(scoring, coordinates, rows, spreads)), {}


def release_scoring(
    plan: UnitsPlan, coordinates: Coordinates, design: Design, spreads: tuple[Any, ...] = ()
) -> Generator[Any, Any, ScoringRelease]:
    """Release the start and the passes of all models, one after the other.

    ``spreads``: released centres (:func:`locate`).

    Privacy
    -------
    The steps of the plan. Every pass is evaluated at released numbers only.
    """
    fits: list[Fitting] = []
    for chain in plan.chains:
        fit = yield from initialise_model(plan, chain, coordinates, spreads, design)
        for k, share in enumerate(plan.passes, 1):
            fit = yield from release_pass(plan, k, share, fit, design)
        fits.append(fit)
    return ScoringRelease(coordinates, tuple(fits))
