"""Scoring engine for rows: an initial fit (the start), then passes with Newton steps.

One of the two engines of :mod:`dpmodels.scoring.run`. The start is least squares from rows
(predictors and response together) scaled into one ball. A *pass* is one reading of the rows, its
release and the Newton step from it. Models that are fitted under one charge share every reading of
the rows. Radii and clips are functions of public numbers (:mod:`dpmodels.scoring.rules`), and never
exceed the longest row that the declared ranges allow.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.after.moments import counted_rows
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring import rules
from dpmodels.scoring.cells import CellPass, CellPasses, scoring_grid
from dpmodels.scoring.coordinates import Coordinates, longest_row
from dpmodels.scoring.expected import Expectation, ScoreLengths, Traits, of_rows
from dpmodels.scoring.known import Known, known_entries
from dpmodels.scoring.models import LeastSquares, Model, Start, State, mean_row
from dpmodels.scoring.notes import moves_on, public_rows, reaching_events, too_long
from dpmodels.scoring.pass_plan import (
    PassPlan,
    Pilot,
    first_share,
    longer,
    noise_ratio,
    passes_of,
    pilot_share,
    pilot_windows,
    plan_pass,
    policy_of,
)
from dpmodels.scoring.passes import Passes, PassSums, Released, ScorePass
from dpmodels.scoring.rules import Forecast, PassShares
from dpmodels.scoring.run import (
    Aimed,
    Chain,
    Closing,
    Fitting,
    ModelSpec,
    Opening,
    Schedule,
    ScoredDetail,
    ScoringEngine,
    ScoringPlan,
    ScoringRelease,
    centre_of,
)
from dpmodels.scoring.scales import ScalePlan, WeightPlan, numbers_of
from dpmodels.scoring.step import newton_step
from dpmodels.sources.rows import ALL_ROWS, Coins, OfRows, Windows
from dpmodels.sources.summed import Job, summed
from dpmodels.sums.ask import Ask, Moments, Read, moments_query
from dpmodels.sums.rowmap import RowMap

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.records import Request
    from dpmodels.scoring.mean_models import Working


@dataclass(frozen=True)
class RowsPlan(ScoringPlan):
    """Plan of a scoring fit over rows."""

    # start, radius: mu of the start; radius of the ball of its rows ``(u, c (y - u'centre))``.
    start: float
    radius: float
    passes: tuple[PassPlan, ...]  # Passes of each chain
    # tuple of (PassPlan, PassPlan): for each possible extra pass, this pass and the last pass if
    # the fit ends after it. Empty without a reserve.
    more: tuple[tuple[PassPlan, PassPlan], ...] = ()
    reserve: float = 0.0  # mu of the last pass, together with the extra passes before it
    noise: float = 0.0  # Spectral norm of the noise of the last information, relative to it: public
    readings: int = 0  # Largest number of readings of the rows, without the closing release
    opening: Opening | None = None  # Another method for the start; None: rows in one ball
    forecast: ClassVar[Forecast] = rules.OF_ROWS

    def sequence(self, fits: Callable[[], Sequence[Fitting]]) -> Iterator[PassPlan]:
        """Yield the passes, with extra ones from the reserve until the fit has converged."""
        *early, last = self.passes
        yield from early
        for extra, end in self.more:
            if not any(
                fit.public is not None
                and moves_on(fit.public, fit.model, fit.plans, fit.before, fit.last)
                for fit in fits()
            ):
                break
            yield extra
            last = end
        yield last

    def remarks(self, release: ScoringRelease) -> Mapping[str, str]:
        """Return a remark on the number of extra passes that the reserve paid for."""
        if not self.more:
            return {}
        planned, used = len(self.passes), len(release.fits[0].plans) - len(self.passes)
        return {rules.RESERVE: f"{planned} passes planned, {used} more used of {len(self.more)}"}

    def expected(self, lengths: ScoreLengths, few: float, *, stops: bool) -> Expectation:
        """Return the expected inference of a coefficient."""
        return of_rows(self.passes, Traits.of(self.chains[0].score), lengths, few)

    @property
    def ledger(self) -> tuple[LedgerStep, ...]:
        """Ledger steps of the start and the passes, without the closing release."""
        out = [("start", self.start)] if self.opening is None else []
        for k, planned in enumerate(self.passes, 1):
            if planned.last and self.more:
                out.append((rules.RESERVE, self.reserve))
            else:
                for chain in self.chains:
                    out += _pass_steps(planned, chain.step(k))
        steps = (LedgerStep(name, Gaussian(mu), share=(mu / self.mu) ** 2) for name, mu in out)
        first = () if self.opening is None else self.opening.steps(self.start)
        return (*(s.within((self.start / self.mu) ** 2) for s in first), *steps)


def _pass_steps(planned: PassPlan, label: str) -> Iterator[tuple[str, float]]:
    """Yield name and mu of each release of a pass for a chain."""
    parts = (
        ("information and scores", planned.mu_joint), ("scale", planned.mu_scale),
        ("score lengths", planned.mu_histogram), ("far scores", planned.mu_far),
    )  # fmt: skip
    return ((f"{name} {label}", mu) for name, mu in parts if mu)


def plan_scoring(
    pass_shares: PassShares,
    mu: float,
    n: int,
    p: int,
    relation: str,
    *,
    chains: tuple[Chain, ...] = (Chain(LeastSquares()),),
    meat: bool = True,
    pilot: Pilot | None = None,
    radius: float = 0.0,
    weighted: bool = False,
    of_weights: bool = False,
    closing: Closing | None = None,
    reserve: bool = False,
    opening: Opening | None = None,
) -> RowsPlan:
    """Plan a scoring fit from public numbers.

    The radius of the start is ``sqrt(p + 1)`` unless it is given, the root mean square length of a
    row over the box. ``weighted``: the rows have a column of case weights. ``of_weights``: they
    have this column, or are multiplied by weights. ``reserve``: a part of the last pass's share may
    go to extra passes before it.
    """
    total_mu = mu
    if closing is not None:
        mu *= math.sqrt(1.0 - closing.share)
    last = len(pass_shares.passes) - 1
    pilot = Pilot() if pilot is None else pilot
    part = mu / math.sqrt(len(chains))
    first = chains[0].score
    planned_pass = functools.partial(
        plan_pass, mu=part, p=p, relation=relation, meat=meat, tail=pilot.tail(n),
        weighted=weighted or any(c.score.weighted for c in chains),
        policy=policy_of(p, averages=first.averages, of_mean=not first.of_residual),
        of_weights=of_weights,
    )  # fmt: skip
    early = pilot.early(n)
    passes = tuple(
        planned_pass(pass_shares, k, n=early if k < last else n) for k in range(1, last + 1)
    )
    extra = []
    for shares in longer(pass_shares.passes) if reserve else ():
        with_more, k = replace(pass_shares, passes=shares), len(shares) - 1
        extra.append((planned_pass(with_more, k - 1, n=early), planned_pass(with_more, k, n=n)))
    start = mu * math.sqrt(pass_shares.passes[0])
    radius = radius or math.sqrt(p + 1.0)
    left = mu * math.sqrt(pass_shares.passes[-1]) if extra else 0.0
    noise = passes[-1].noise.information / passes[-1].rows * math.sqrt(2.0 * p)
    return RowsPlan(
        p, n, total_mu, relation, pilot, chains, closing, start, radius, passes, tuple(extra), left,
        noise, (1 if opening is None else opening.readings) + len(passes) + len(extra), opening,
    )  # fmt: skip


def _scales(
    request: Request, design: Design, model: ModelSpec, mu: float, rows: int
) -> tuple[ScalePlan | WeightPlan, ...]:
    """Return the releases before the start: centre and scale of variables, mean of weights.

    Centres and scales are released for numeric variables with declared ranges. They are not
    released if the model brings its own coordinates (from public rows), nor with ``split=``. Those
    of the response are released for models of a residual.
    """
    place = design.auxiliary_place("weights")
    top = None if place is None else design.z[place].interval
    weights = () if place is None or top is None else (WeightPlan(place, top[1], mu),)
    no_scales = model.coordinates is not None or bool(design.unknown or design.bought)
    if no_scales or request.split is not None:
        return weights
    names = numbers_of(design) if model.row_norm is None else ()
    score = model.chains[0].score
    response = score.of_residual and not score.in_own_units
    if response:
        assert design.response is not None
        names = (*names, design.response.name)
    if not names:
        return weights
    return (ScalePlan.of(names, response, mu, request.relation, rows), *weights)


def start_radius(detail: ScoredDetail, rank: int) -> float:
    """Return the radius of a start from released scales, or 0 to choose it by rule.

    The rule is used if no scale of a predictor is released, and for models of a mean: events and
    counts may be rare, and their start is then mostly noise.
    """
    measured = any(isinstance(scale, ScalePlan) and scale.predictors for scale in detail.scales)
    if not measured or not detail.chains[0].score.of_residual:
        return 0.0
    x = detail.mu * math.sqrt(detail.shares[0]) * detail.pilot.start(detail.rows) / max(rank, 1)
    kappa = rules.INFORMATION_FACTOR * x**rules.INFORMATION_POWER
    if rank >= rules.COLUMNS:
        kappa = min(kappa, rules.NARROW_FACTOR * x / math.sqrt(rank))
    strong = detail.mu * detail.rows > rules.START_STRONG
    most = rules.START_RADIUS_MAX_STRONG if strong else rules.START_RADIUS_MAX
    return math.sqrt((rank + 1.0) * min(max(1.0, kappa), most))


def _rows_of_start(Q: Array, sd: float, guess: float, coordinates: Coordinates) -> float:
    """Return the released number of rows of a start, or the guess if it cannot be released.

    This is so if there is no constant, or if noise hides the count. Rows are shortened by the ball,
    so the count is a little too small. The last pass releases a better one.
    """
    a = coordinates.constant
    if a is None:
        return guess
    count = counted_rows(Q[:-1, :-1], a)
    return count if count > rules.SEEN_COUNT * sd * float(a @ a) else guess


def _joint_ball(
    plan: RowsPlan, score: Model, coordinates: Coordinates, design: Design, ask: Ask, read: Read
) -> tuple[Start, dict[str, Any], float]:
    """Release the start from rows in one ball; return it, its values and its number of rows."""
    r, radius = coordinates.rank, plan.radius
    rowmap = RowMap(
        coordinates.unit, np.full(r + 1, radius), ball=r + 1, radius=radius,
        matrix=coordinates.start,
    )  # fmt: skip
    working = score.working
    over = Moments(
        design, rowmap,
        through=None if working is None else functools.partial(_Worked, working=working),
    )  # fmt: skip
    moments = ask("start", moments_query(over, radius=radius), read)
    Q, s = moments.values, float(moments.sd[0, 0])
    guess = plan.pilot.start(plan.n)
    rows = guess if plan.relation == "replace" else _rows_of_start(Q, s, guess, coordinates)
    return Start.of(Q, s, rows, coordinates), {"start": Q}, rows


def _within_reach(state: State, seen: Array) -> State:
    """Return the start with slopes shortened, so that later passes can correct its errors.

    At every public row its linear predictor is then within ``REACH_OF_START`` of that at the mean
    row. The start of a model of a mean fits a line and divides its slopes by the slope of the mean,
    ``m (1 - m)`` for events, and so divides their noise. With rare events the noise can then be
    many link units, of which a pass corrects about three.
    """
    a = state.constant
    middle = 0.0 if a is None else float(state.theta @ mean_row(state.M, a))
    far = float(np.abs(seen @ state.theta - middle).max(initial=0.0))
    factor = min(1.0, rules.REACH_OF_START / max(far, 1e-300))
    theta = factor * state.theta
    return replace(state, theta=theta if a is None else theta + (1.0 - factor) * middle * a)


def _take(
    plan: RowsPlan, fit: Fitting, score_pass: ScorePass, entries: Known | None, released: Released
) -> Fitting:
    """Return the fit after the Newton step of a pass."""
    sums, state = score_pass.back(released), fit.state
    fit = fit.recounted(sums.bins, score_pass.plan.count, score_pass.plan)
    pass_plan = score_pass.plan.of_rows(score_pass.plan.rows * fit.counted)
    projection = None if entries is None else entries.projection(state.W)
    if projection is not None:
        sums, pass_plan = projection.applied(sums, pass_plan)
    step = newton_step(sums, pass_plan, state, fit.model)
    still = (
        bool(plan.more and fit.plans) and state.length(step.d) > fit.before.length(fit.last.d)
        and too_long(step, state, pass_plan, fit.plans[-1])
    )  # fmt: skip
    return fit.after(pass_plan, sums, state, step, on_its_way=still)


@dataclass(frozen=True, eq=False)
class ScorePasses:
    """Sums that one reading of the rows computes for all models (chains), by row or by cell."""

    passes: tuple[ScorePass, ...]
    design: Design

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[PassSums, ...]:
        """Return the exact sums of each model. Confidential."""
        grid = scoring_grid(self.design) if rows.by_cell else None
        if grid is not None:
            by_cell = CellPasses(tuple(CellPass(p, grid) for p in self.passes), grid)
            return by_cell.pass_sums(summed(rows, self.design, by_cell, **reading))
        images = self.design.grid_of_images if rows.by_cell else None
        return tuple(summed(rows, self.design, Passes(self.passes, images), **reading).sums)


def within(
    planned: PassPlan, score: Model, state: State, coordinates: Coordinates, design: Design
) -> tuple[PassPlan, float]:
    """Return the pass with radii that do not exceed the longest row in the declared ranges.

    Also return the typical length of the score of an event or count if these are rare, else 0.
    """
    typical = score.typical_long(state)
    if typical:
        planned = planned.reaching(typical, bounded=score.bounded)
    psi, omega = score.most(state)
    if not math.isfinite(psi):
        return planned, typical
    row = longest_row(design, coordinates, state.W)
    place = design.auxiliary_place("weights")
    if place is not None:
        interval = design.z[place].interval
        weight = math.inf if interval is None else interval[1] / coordinates.mean_weight
        psi, omega = psi * weight, omega * weight
    if row * psi > 0.0:
        planned = planned.within(row * math.sqrt(omega), row * psi)
    return planned, typical


@dataclass(frozen=True, eq=False)
class _Worked(OfRows):
    """Rows whose response is the working response of a start, computed separately for each row."""

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
        """Yield the blocks of one reading (see :meth:`dpmodels.sources.rows.Rows.blocks`)."""
        return _worked(self.rows.blocks(design, windows=windows, coins=coins), self.working)

    def summed(self, design: Design, job: Job, **chosen: Any) -> Any:
        """Return the sums of one pass (see :func:`dpmodels.sources.summed.summed`)."""
        return summed(self.rows, design, _WorkedJob(job, self.working), **chosen)


@dataclass(frozen=True, eq=False)
class _WorkedJob:
    """Job over the rows that gets the working response in place of the response."""

    job: Job
    working: Working

    @property
    def grid(self) -> Any:
        """Grid of the cells in blocks by cell, or None if blocks hold complete rows."""
        return getattr(self.job, "grid", None)

    def over(self, blocks: Iterable[Array], coins: Coins | None = None) -> Any:
        """Return the sums over blocks. Confidential."""
        working, grid = self.working, self.grid
        if grid is not None and working.place is not None:  # its index among the numeric columns
            working = replace(working, place=grid.numbers.index(working.place))
        return self.job.over(_worked(blocks, working), coins)


def _worked(blocks: Iterable[Any], working: Working) -> Iterator[Any]:
    for block in blocks:
        working.apply(block[0] if isinstance(block, tuple) else block)
        yield block


class RowEngine(ScoringEngine):
    """Score rows: a start by least squares from rows in one ball, then Newton steps."""

    before: ClassVar[tuple[str, ...]] = ("start",)
    together: ClassVar[bool] = True
    #: Coefficients are forecast one by one, by limits calibrated on these passes.
    forecasts_coefficients: ClassVar[bool] = True

    def schedule(
        self, request: Request, design: Design, n: int, rows: int, mu: float, model: ModelSpec
    ) -> Schedule:
        """Return chains, shares of start and passes, and the releases before the start."""
        scales = _scales(request, design, model, mu, rows)
        mu *= math.sqrt(1.0 - math.fsum(scale.share for scale in scales))
        p, pass_shares = design.p, model.chains[0].score.pass_shares
        chosen = request.shares_of(self.names(len(pass_shares.passes)))
        shares = passes_of(pass_shares, mu, rows, p) if chosen is None else tuple(chosen.values())
        x = noise_ratio(mu, p, rows)
        # In a table sorted by a private column one replaced row can move others into another block
        # of rows, and a pass may read only some blocks.
        ordered = request.relation == "replace" and bool(request.options.get("public_order"))
        windows = pilot_windows(design, n, x) if ordered else ALL_ROWS
        return Schedule(
            model.chains, mu, shares, Pilot(pilot_share(x), windows, first_share(x)), scales
        )

    def plan(self, detail: ScoredDetail, rank: int, relation: str, _: Design) -> RowsPlan:
        """Return the plan of the passes for a design of this rank."""
        model, weighted = detail.model, detail.design.auxiliary_place("weights") is not None
        pass_shares = replace(model.chains[0].score.pass_shares, passes=detail.shares)
        return plan_scoring(
            pass_shares, detail.mu, detail.rows, rank, relation, chains=detail.chains,
            meat=model.meat, pilot=detail.pilot, radius=model.radius or start_radius(detail, rank),
            weighted=weighted,
            of_weights=weighted or bool(detail.design.scaled), closing=model.closing,
            reserve=detail.whole and detail.design.p >= rules.COLUMNS and not detail.chains[0].raw,
            opening=model.opening,
        )  # fmt: skip

    def shown(
        self, detail: ScoredDetail, scoring: RowsPlan
    ) -> tuple[dict[str, float], Mapping[str, float]]:
        """Return public numbers, and expected errors where the information will be determined."""
        numbers = {
            "public noise ratio": noise_ratio(detail.mu, detail.design.p, detail.rows),
            "noise of the information": scoring.noise,
            "clip of scores": scoring.passes[-1].clip,
        }
        if scoring.noise > rules.OF_ROWS.high_noise:
            return numbers, {}

        def noise(chain: Chain, state: State, coordinates: Coordinates) -> float:
            last = detail.scoring(coordinates.rank, scoring.relation).passes[-1]
            planned, _ = within(last, chain.score, state, coordinates, detail.design)
            return planned.noise.score / detail.rows

        return numbers, detail.errors(noise)

    def advice(self, scoring: RowsPlan) -> tuple[str, ...]:
        """Return advice for a model for which the budget is too small."""
        return (
            f"noise is {scoring.noise:.0%} of the signal (above {rules.OF_ROWS.high_noise:.0%}): "
            "this budget is too small for this model, so intervals will be wide and coefficients "
            "not determined. More rows, a larger eps, narrower ranges or fewer terms "
            "help; for predictions alone inference=False spends nothing on errors",
        )

    def locate(
        self, detail: ScoredDetail, scoring: RowsPlan, coordinates: Coordinates, design: Design,
        ask: Ask,
    ) -> tuple[Coordinates, tuple[Any, ...]]:  # fmt: skip
        """Return coordinates by the released centres and scales, and the mean weight."""
        clear = scoring.start * scoring.pilot.start(scoring.n) / scoring.radius**2
        for scale in detail.scales:
            coordinates = scale.locate(coordinates, design, ask, clear / math.sqrt(scoring.p))
        return coordinates, ()

    def begin(
        self, plan: RowsPlan, chains: tuple[Chain, ...], coordinates: Coordinates,
        _: Any, design: Design, ask: Ask,
    ) -> list[Fitting]:  # fmt: skip
        """Release the start and begin all models there.

        Privacy
        -------
        Gaussian DP for one row with the planned mu: second moments of rows in a ball, or the
        steps of another method for the start.
        """
        scores = [chain.score.bound(design, coordinates.unit) for chain in chains]
        guess = plan.pilot.start(plan.n)
        read = plan.pilot.read_start(len(plan.passes) - 1)
        if plan.opening is not None:
            start, values = plan.opening.begin(
                plan.start, coordinates, design, ask, replace(read, then=()), guess
            )
            rows = float(guess)
        else:
            start, values, rows = _joint_ball(plan, scores[0], coordinates, design, ask, read)
        places = None
        if scores[0].can_be_rare or plan.more:
            places = public_rows(design, coordinates.ends)
        seen = None if places is None else places.in_coordinates(coordinates, start.M)
        states = [score.start(start) for score in scores]
        if seen is not None and scores[0].can_be_rare:
            states = [_within_reach(state, seen) for state in states]
        return [
            Fitting(chain, score, state, values, seen, counted=rows / guess)
            for chain, score, state in zip(chains, scores, states, strict=True)
        ]

    def aim(
        self, plan: RowsPlan, k: int, planned: PassPlan, fits: Sequence[Fitting],
        coordinates: Coordinates, design: Design, ask: Ask,
    ) -> tuple[list[Aimed], Read]:  # fmt: skip
        """Return pass k of all models over one reading of the rows."""
        if plan.more and k >= len(plan.passes):
            steps = [step for fit in fits for step in _pass_steps(planned, fit.chain.step(k))]
            ask.pay(rules.RESERVE, [LedgerStep(name, Gaussian(mu)) for name, mu in steps])
        passes = []
        for fit in fits:
            pass_plan, typical = within(planned, fit.model, fit.state, coordinates, design)
            if fit.public is not None:
                pass_plan = reaching_events(pass_plan, fit.public, fit.state, fit.model, typical)
            centre = centre_of(fit.model, fit.state, coordinates, design)
            passes.append(ScorePass(pass_plan, centre, rotated=True))
        read = plan.pilot.read(last=planned.last)
        if any(score_pass.plan.unimodal for score_pass in passes):
            # events are rare: if only one row in k were read, noise would be k times larger
            # relative to them
            passes = [
                replace(score_pass, plan=replace(score_pass.plan, rows=plan.n, tail_rows=plan.n))
                for score_pass in passes
            ]
            read = Read()
        over = ScorePasses(tuple(passes), design)
        entries = known_entries(design, coordinates)
        return [
            Aimed(
                score_pass.plan, over, operator.itemgetter(i),
                functools.partial(_take, plan, fit, score_pass, entries),
            )
            for i, (fit, score_pass) in enumerate(zip(fits, passes, strict=True))
        ], read

    def scorers(self, _: ScoredDetail, release: ScoringRelease, design: Design) -> tuple[Any, ...]:
        """Return the scores at the final fit, in the rotated coordinates of the passes."""
        from dpmodels.scoring.clusters import Scored

        out = []
        for fit in release.fits:
            state = replace(fit.before, theta=fit.state.theta)
            centre = centre_of(fit.model, state, release.coordinates, design)
            out.append(Scored(ScorePass(fit.plans[-1], centre, rotated=True)))
        return tuple(out), ()


ROWS = RowEngine()
RowsPlan.engine = ROWS
