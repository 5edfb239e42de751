"""The passes of a fit over units, in order: places, scales, and scoring passes of two readings.

Plan (public) -> release (sees rows) -> what :mod:`dpmodels.scoring.intervals` reads. Each pass
first releases how long the scores are, then chooses its clip by that, then its sums
(``expand_theory.md``, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import ALL
from dpmodels.exact.passes import Sums
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring.expand import Expansion
from dpmodels.scoring.expand_pass import UnitsJob
from dpmodels.scoring.expand_rules import Lengths, UnitRules, shares_of, unit_pass
from dpmodels.scoring.expand_start import (
    PLACES,
    SCALES,
    Number,
    Spread,
    ask_lengths,
    ask_places,
    ask_scales,
    in_order,
    located,
)
from dpmodels.scoring.newton import FLOOR_NOISE, FLOOR_SHRUNK, Step
from dpmodels.scoring.release import Released, ask_pass
from dpmodels.scoring.rules import Guide, PassPlan
from dpmodels.scoring.state import Information, State, axes, floored, kept_apart, roots, shrunk

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.coordinates import Coordinates

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
