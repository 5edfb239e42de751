"""The passes of a scoring fit, in order: start, scoring passes, last pass.

Plan (public) -> release (sees rows) -> what :mod:`dpmodels.scoring.intervals` reads.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.formula.cells import grid_of_images
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring.arrival import moves_on, too_long
from dpmodels.scoring.cells import CellPass, CellPasses, Deviance, scoring_grid
from dpmodels.scoring.intervals import Step, newton_step
from dpmodels.scoring.notes import named, public_rows, reaching_events
from dpmodels.scoring.passes import Centre, Passes, PassSums, Released, ScorePass, ask_pass
from dpmodels.scoring.rules import (
    RESERVE,
    STATISTICS_SHARE,
    STATISTICS_STEP,
    Guide,
    PassPlan,
    Rules,
    longer,
    manner_of,
    plan_pass,
)
from dpmodels.scoring.scores import LeastSquares, Score, Start, State
from dpmodels.scoring.starts import Coordinates, longest_row
from dpmodels.sources.summed import Job, summed
from dpmodels.sources.windows import ALL_ROWS, Coins, OfRows, Windows
from dpmodels.sums.ask import Ask, Moments, Read, moments_query
from dpmodels.sums.rowmap import RowMap

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.mean_scores import Working


@dataclass(frozen=True)
class Chain:
    """One model of a call: its score, and what its steps are called.

    Attributes
    ----------
    score : Score
    label : str
        Empty for the only one of a call.
    """

    score: Score
    label: str = ""

    def named(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of coefficients (or numbers) of this chain."""
        return named(names, self.label)

    def step(self, k: int) -> str:
        """Return the name of pass k in the ledger."""
        return f"{k} ({self.label})" if self.label else str(k)


@dataclass(frozen=True)
class ScoringPlan:
    """What a scoring fit will release.

    Attributes
    ----------
    p, n : int
        Rank of the design; public row count, or the guess.
    mu : float
        Of all releases together.
    start, radius : float
        mu of the start, and of the ball of its rows ``(u, c (y - u'centre))``.
    passes : tuple of PassPlan
        Of each chain.
    guide : Guide
    chains : tuple of Chain
        Models that are fitted to the same rows, from one start; each gets an equal part of every
        pass.
    statistics : float
        mu of the fit statistics; 0: none.
    more : tuple of (PassPlan, PassPlan)
        One pass more from the reserve and the last pass after it, two, ...; empty: the last pass is
        as planned.
    reserve : float
        mu of the last pass, or of those in its place.
    """

    p: int
    n: int
    mu: float
    start: float
    radius: float
    relation: str
    passes: tuple[PassPlan, ...]
    guide: Guide
    chains: tuple[Chain, ...]
    statistics: float = 0.0
    more: tuple[tuple[PassPlan, PassPlan], ...] = ()
    reserve: float = 0.0

    def ahead(self, moving: Callable[[], bool]) -> Iterator[PassPlan]:
        """Yield the passes; ``moving``: whether the step of the last one has not arrived."""
        *early, last = self.passes
        yield from early
        for one, end in self.more:
            if not moving():
                break
            yield one
            last = end
        yield last

    def spent(self, found: ScoringRelease) -> str:
        """Say how many passes the reserve paid for, of how many it could."""
        used = len(found.chains[0].plans) - len(self.passes)
        return f"{len(self.passes)} passes planned, {used} more used of {len(self.more)}"

    def facing(self, design: Design, coordinates: Coordinates) -> ScoringPlan:
        """Return the plan whose models know what values a response has in its released unit."""
        chains = (replace(c, score=c.score.facing(design, coordinates.unit)) for c in self.chains)
        return replace(self, chains=tuple(chains))

    def bound(self, design: Design) -> ScoringPlan:
        """Return the plan for a design whose ranges are known."""
        chains = tuple(replace(c, score=c.score.bound(design)) for c in self.chains)
        return replace(self, chains=chains)


@dataclass(frozen=True, eq=False)
class ChainRelease:
    """What a chain released, and what the passes made of it.

    Attributes
    ----------
    plans : tuple of PassPlan
        As they were run: radii no larger than rows and scores can be.
    released : tuple of Released
    before : State
        Where the last pass looked from.
    last : Step
    on_its_way : bool
        The last step is longer than noise explains, and no shorter than the one before.
    """

    plans: tuple[PassPlan, ...]
    released: tuple[Released, ...]
    before: State
    last: Step
    on_its_way: bool = False


@dataclass(frozen=True, eq=False)
class ScoringRelease:
    """What went out of a scoring fit.

    Attributes
    ----------
    coordinates : Coordinates
    Q : (r + 1, r + 1) array
        The start.
    chains : tuple of ChainRelease
    statistics : dict
        Deviance and its kin, with errors; empty unless asked for.
    clusters : ClusterRelease or None
        Of a pass by cluster.
    seen : (k, r) array or None
        Public rows in u, of models of events and counts and of a residual.
    """

    coordinates: Coordinates
    Q: Array
    chains: tuple[ChainRelease, ...]
    statistics: dict[str, float] = field(default_factory=dict)
    clusters: ClusterRelease | None = None
    seen: Array | None = None


def plan_scoring(
    rules: Rules,
    mu: float,
    n: int,
    p: int,
    relation: str,
    *,
    chains: tuple[Chain, ...] = (Chain(LeastSquares()),),
    meat: bool = True,
    guide: Guide | None = None,
    radius: float = 0.0,
    weighted: bool = False,
    of_weights: bool = False,
    statistics: bool = False,
    reserve: bool = False,
) -> ScoringPlan:
    """Plan a scoring fit from public numbers.

    Parameters
    ----------
    radius : float
        Of the start; 0: ``sqrt(p + 1)``, the root mean square length of a row over the box.
    weighted : bool
        Rows have weights of their own, beside them.
    of_weights : bool
        The same, or rows are multiplied by them.
    statistics : bool
        Release fit statistics.
    reserve : bool
        The last pass may give a part to passes before it.
    """
    own = mu * math.sqrt(STATISTICS_SHARE) if statistics else 0.0
    whole, mu = mu, math.sqrt(mu * mu - own * own)
    last = len(rules.passes) - 1
    guide = Guide() if guide is None else guide
    part = mu / math.sqrt(len(chains))
    first = chains[0].score
    manner = manner_of(p, averages=first.averages, of_mean=not first.of_residual)

    def one(rules: Rules, k: int) -> PassPlan:
        return plan_pass(
            rules, k, part, guide.early(n) if k < len(rules.passes) - 1 else n, p, relation,
            meat=meat, tail=guide.tail(n),
            weighted=weighted or any(c.score.weighted for c in chains), manner=manner,
            of_weights=of_weights,
        )  # fmt: skip

    passes = tuple(one(rules, k) for k in range(1, last + 1))
    more = tuple(
        (one(own_rules, len(shares) - 2), one(own_rules, len(shares) - 1))
        for shares in (longer(rules.passes) if reserve else ())
        for own_rules in (replace(rules, passes=shares),)
    )
    start = mu * math.sqrt(rules.passes[0])
    radius = radius or math.sqrt(p + 1.0)
    return ScoringPlan(
        p, n, whole, start, radius, relation, passes, guide, chains, own, more,
        mu * math.sqrt(rules.passes[-1]) if more else 0.0,
    )  # fmt: skip


def steps(plan: ScoringPlan, part: float = 1.0) -> tuple[LedgerStep, ...]:
    """Return the steps of the ledger in the order of the release; they are ``part`` of mu^2."""
    out = [("start", plan.start)]
    for k, one in enumerate(plan.passes, 1):
        if one.last and plan.more:
            out.append((RESERVE, plan.reserve))
        else:
            out += [step for chain in plan.chains for step in _pass_steps(one, chain.step(k))]
    out += [(STATISTICS_STEP, plan.statistics)] if plan.statistics else []
    return tuple(
        LedgerStep(name, Gaussian(mu), share=(mu / plan.mu) ** 2 * part) for name, mu in out
    )


def _pass_steps(one: PassPlan, label: str) -> Iterator[tuple[str, float]]:
    """Yield name and mu of what a pass releases of a chain."""
    yield f"information and scores {label}", one.mu_joint
    if one.mu_scale:
        yield f"scale {label}", one.mu_scale
    if one.mu_histogram:
        yield f"score lengths {label}", one.mu_histogram
    if one.mu_far:
        yield f"far scores {label}", one.mu_far


def release_scoring(
    plan: ScoringPlan, coordinates: Coordinates, design: Design, ask: Ask
) -> ScoringRelease:
    """Read the rows once a pass and release its sums.

    Privacy
    -------
    The steps of the plan. Every pass looks from released numbers only.
    """
    plan = plan.facing(design, coordinates)
    r = coordinates.rank
    radius, guide, n = plan.radius, plan.guide, plan.n
    rowmap = RowMap(
        coordinates.unit, np.full(r + 1, radius), ball=r + 1, radius=radius,
        matrix=coordinates.start,
    )  # fmt: skip
    working = plan.chains[0].score.working
    over = Moments(
        design, rowmap,
        through=None if working is None else functools.partial(_Worked, working=working),
    )  # fmt: skip
    moments = ask(
        "start",
        moments_query(over, radius=radius),
        guide.read_start(len(plan.passes) - 1),
    )
    Q, s = moments.values, float(moments.sd[0, 0])
    start = Start.of(Q, s, guide.start(n), coordinates)
    states = [chain.score.start(start) for chain in plan.chains]
    wanted = plan.chains[0].score.can_be_rare or plan.more
    places = public_rows(design) if wanted else None
    seen = None if places is None else places.seen(coordinates, start.M)
    befores = states
    released: list[list[Released]] = [[] for _ in plan.chains]
    plans: list[list[PassPlan]] = [[] for _ in plan.chains]
    taken: list[Step] = []
    moved = [0.0 for _ in plan.chains]
    on_its_way = [False for _ in plan.chains]

    def moving() -> bool:
        """Whether the step of the last pass still moves a public row: by released numbers."""
        if seen is None:
            return False
        last = zip(plan.chains, released, plans, befores, taken, strict=True)
        return any(
            moves_on(seen, chain.score, out[-1], ran, before, step)
            for chain, out, ran, before, step in last
        )

    for k, one in enumerate(plan.ahead(moving), 1):
        if plan.more and k >= len(plan.passes):
            ask.pay(RESERVE, [
                LedgerStep(name, Gaussian(mu))
                for chain in plan.chains for name, mu in _pass_steps(one, chain.step(k))
            ])  # fmt: skip
        befores = states
        passes = [
            ScorePass(
                reaching_events(
                    within(one, chain.score, state, coordinates, design), seen, state, chain.score
                ),
                _centre(chain.score, state, k, coordinates, design),
                turned=True,
            )
            for chain, state in zip(plan.chains, states, strict=True)
        ]
        taken = []
        read = guide.read_last() if one.last else guide.read_early()
        if any(own.plan.humped for own in passes):
            # events are few where rows are many: of one row in k their noise were k times larger
            passes = [replace(own, plan=replace(own.plan, rows=n, tail_rows=n)) for own in passes]
            read = Read()
        together = ScorePasses(tuple(passes), design)
        for i, chain in enumerate(plan.chains):
            own = passes[i].plan
            plans[i].append(own)
            found = ask_pass(ask, own, together, operator.itemgetter(i), chain.step(k), r, read)
            released[i].append(passes[i].back(found))
            taken.append(newton_step(released[i][-1], own, befores[i], chain.score))
            length = befores[i].length(taken[i].d)
            on_its_way[i] = (
                bool(plan.more) and k > 1 and length > moved[i]
                and too_long(taken[i], befores[i], own, plans[i][-2])
            )  # fmt: skip
            moved[i] = length
        states = [step.state for step in taken]
    statistics: dict[str, float] = {}
    if plan.statistics:
        statistics = ask_statistics(
            plan.chains[0].score, plan.passes[-1], plan.p, states[0], coordinates, design, ask,
            (released[0][-1], plans[0][-1], befores[0].phi),
        )
    return ScoringRelease(
        coordinates,
        Q,
        tuple(
            ChainRelease(tuple(ran), tuple(out), before, step, still)
            for ran, out, before, step, still in zip(
                plans, released, befores, taken, on_its_way, strict=True
            )
        ),
        statistics,
        seen=seen,
    )


@dataclass(frozen=True, eq=False)
class ScorePasses:
    """The passes of all chains over one reading of the rows, by row or by cell."""

    passes: tuple[ScorePass, ...]
    design: Design

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[PassSums, ...]:
        """Return the exact sums of each. Confidential."""
        grid = scoring_grid(self.design) if rows.by_cell else None
        if grid is not None:
            by_cell = CellPasses(tuple(CellPass(one, grid) for one in self.passes), grid)
            return by_cell.done(summed(rows, self.design, by_cell, **reading))
        images = grid_of_images(self.design) if rows.by_cell else None
        passes = tuple(replace(one, grid=images) for one in self.passes)
        return tuple(summed(rows, self.design, Passes(passes), **reading).sums)


def final_passes(
    plan: ScoringPlan, found: ScoringRelease, design: Design
) -> tuple[ScorePass, ...]:
    """Return the last pass of every chain, looking from its final fit."""
    out = []
    for chain, one in zip(plan.chains, found.chains, strict=True):
        state = replace(one.before, theta=one.last.state.theta)
        centre = _centre(chain.score, state, len(plan.passes), found.coordinates, design)
        out.append(ScorePass(one.plans[-1], centre, turned=True))
    return tuple(out)


def ask_statistics(
    score: Score, last: PassPlan, p: int, state: State, coordinates: Coordinates, design: Design,
    ask: Ask, lengths: tuple[Released, PassPlan, float] | None = None,
) -> dict[str, float]:  # fmt: skip
    """Release the fit statistics of a model at the final fit.

    Parameters
    ----------
    score, last, p, state, coordinates, design, ask
    lengths : (Released, PassPlan, float) or None
        The last pass over rows and the dispersion of its scores: what the deviance cuts.
    """
    from dpmodels.scoring.mean_scores import MeanScore

    assert isinstance(score, MeanScore) and design.response is not None
    assert score.family is not None and score.link is not None
    interval = design.response.interval
    assert interval is not None
    centre = _centre(score, state, 1, coordinates, design)
    one = Deviance.of(score.family, score.link, state.nuisance, state.phi, centre, interval)
    affine = ScorePass(last, centre).affine
    found = one.release(design, affine, ask, people=last.people)
    cut = 0.0
    if lengths is not None and lengths[0].bins is not None:
        cut = one.cut(found, lengths[0].bins, *lengths[1:])
    return one.report(found, p, cut=cut, people=last.people)


def within(
    one: PassPlan, score: Score, state: State, coordinates: Coordinates, design: Design
) -> PassPlan:
    """Return the pass with radii no larger than rows of the declared box can need."""
    one = one.reaching(score.typical_long(state), bounded=score.bounded)
    psi, omega = score.most(state)
    if not math.isfinite(psi):
        return one
    row = longest_row(design, coordinates, state.W)
    place = design.place_aside("weights")
    if place is not None:
        interval = design.z[place].interval
        weight = math.inf if interval is None else interval[1]
        psi, omega = psi * weight, omega * weight
    return one.within(row * math.sqrt(omega), row * psi) if row * psi > 0.0 else one


def _centre(score: Score, state: State, k: int, coordinates: Coordinates, design: Design) -> Centre:
    """Return where pass k looks from."""
    return Centre(
        coordinates.unit, coordinates.W0, state.theta, state.W, state.phi,
        score.evaluate(state, k), score.of_residual, design.place_aside("offset"),
        design.place_aside("weights"),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Worked(OfRows):
    """Rows whose response is the working response of a start: row by row."""

    rows: Any
    working: Working

    own_sums = True

    @property
    def by_cell(self) -> bool:  # type: ignore[override]
        """Whether a job may ask for numbers and cells in place of filled rows."""
        return bool(self.rows.by_cell)

    def blocks(
        self, design: Design, *, windows: Windows = ALL_ROWS, coins: Coins | None = None
    ) -> Iterator[Array]:
        """Yield one pass of blocks (see :meth:`dpmodels.sources.rows.Rows.blocks`)."""
        return _worked(self.rows.blocks(design, windows=windows, coins=coins), self.working)

    def summed(self, design: Design, job: Job, **chosen: Any) -> Any:
        """Return the sums of one pass (see :func:`dpmodels.sources.summed.summed`)."""
        return summed(self.rows, design, _WorkedJob(job, self.working), **chosen)


@dataclass(frozen=True, eq=False)
class _WorkedJob:
    """A pass that sees the working response."""

    job: Job
    working: Working

    @property
    def grid(self) -> Any:
        """The grid of whose cells blocks are; None: they are filled."""
        return getattr(self.job, "grid", None)

    def over(self, blocks: Iterable[Array], coins: Coins | None = None) -> Any:
        """Return the sums over blocks. Confidential."""
        working, grid = self.working, self.grid
        if grid is not None and working.place is not None:  # its place among the numbers
            working = replace(working, place=grid.numbers.index(working.place))
        return self.job.over(_worked(blocks, working), coins)


def _worked(blocks: Iterable[Any], working: Working) -> Iterator[Any]:
    for block in blocks:
        working.apply(block[0] if isinstance(block, tuple) else block)
        yield block
