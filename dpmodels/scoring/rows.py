"""Schedule of scoring fits of rows: an initial fit (the start), then passes with Newton steps.

Units have another (:mod:`dpmodels.scoring.units`). The start is least squares from rows
(predictors and response together) scaled into one ball. A *pass* is one reading of the rows, its
release and the Newton step from it. Models that are fitted under one charge share every reading of
the rows. Radii and clips are functions of public numbers (:mod:`dpmodels.scoring.rules`), and never
exceed the longest row that the declared ranges allow.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpmodels.core.parallel import Parallel, costs_of_pass
from dpmodels.formula.design import Design
from dpmodels.places import ALL_ROWS
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.records import Request
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.expected import Expectation, ScoreLengths, of_rows
from dpmodels.scoring.models import LeastSquares, State, Traits
from dpmodels.scoring.pass_plan import (
    PassPlan,
    Pilot,
    coin_share,
    longer,
    noise_ratio,
    passes_of,
    pilot_windows,
    plan_pass,
    policy_of,
)
from dpmodels.scoring.passes import reach, row_of
from dpmodels.scoring.rules import Forecast, PassShares
from dpmodels.scoring.run import (
    Chain,
    Closing,
    ModelSpec,
    Opening,
    Schedule,
    ScoringPlan,
    ScoringRelease,
    centre_of,
    split_names,
)
from dpmodels.scoring.scales import ScalePlan, WeightPlan, numbers_of


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
    before: ClassVar[tuple[str, ...]] = ("start",)
    forecast: ClassVar[Forecast] = rules.OF_ROWS

    def expected(
        self, i: int, lengths: ScoreLengths, state: State, coordinates: Coordinates, design: Design
    ) -> Expectation:
        """Return the expected inference of a coefficient of model i at this state."""
        score = self.chains[i].score
        most = reach(score, state, coordinates, design)
        return of_rows(self.passes, Traits.of(score), lengths, most)

    @property
    def ledger(self) -> tuple[LedgerStep, ...]:
        """Ledger steps of the start and the passes, without the closing release."""
        out = [("start", self.start)] if self.opening is None else []
        for k, planned in enumerate(self.passes, 1):
            if planned.last and self.more:
                out.append((rules.RESERVE, self.reserve))
            else:
                for chain in self.chains:
                    out += [cost for cost in costs_of_pass(planned, chain.step(k)) if cost[1]]
        steps = (LedgerStep(name, Gaussian(mu), share=(mu / self.mu) ** 2) for name, mu in out)
        first = () if self.opening is None else self.opening.steps(self.start)
        return (*(s.within((self.start / self.mu) ** 2) for s in first), *steps)

    def followed(self, to: Schedule, usable: float) -> RowsPlan:
        """Return the plan with clips and radii for the released part of the rows that is usable.

        Noise is in proportion to a radius, so the ledger stays as it is.
        """
        if usable >= 1.0:
            return self
        few = replace(to, rows=max(round(to.rows * usable), 1))
        radius = to.model.radius or start_radius(few, self.p) or self.radius
        return replace(
            self, usable=usable, radius=radius,
            passes=tuple(planned.of_part(usable) for planned in self.passes),
            more=tuple(
                (extra.of_part(usable), end.of_part(usable)) for extra, end in self.more
            ),
        )  # fmt: skip

    def shown(self) -> dict[str, float]:
        """Return public numbers."""
        return {
            "public noise ratio": noise_ratio(self.mu, self.p, self.n),
            "noise of the information": self.noise,
            "clip of scores": self.passes[-1].clip,
        }

    def advice(self) -> tuple[str, ...]:
        """Return advice for a model for which the budget is too small."""
        return (
            f"noise is {self.noise:.0%} of the signal (above {rules.OF_ROWS.high_noise:.0%}): "
            "this budget is too small for this model, so intervals will be wide and coefficients "
            "not determined. More rows, a larger eps, narrower ranges or fewer terms "
            "help; for predictions alone inference=False spends nothing on errors",
        )

    def scorers(self, _: Schedule, release: ScoringRelease, design: Design) -> tuple[Any, ...]:
        """Return the scores at the final fit, in the rotated coordinates of the passes."""
        from dpmodels.core.clusters import Scorer

        out = []
        for fit in release.fits:
            state = replace(fit.before, theta=fit.state.theta)
            centre = centre_of(fit.model, state, release.coordinates, design)
            into = Parallel(fit.plans[-1], release.coordinates.rank)
            formula, turn = row_of(centre, into.step, into.plan.clip_of_weights)
            out.append(Scorer(formula, into.r, turn, into))
        return tuple(out), ()



def plan_scoring(
    pass_shares: PassShares, mu: float, n: int, p: int, relation: str, *,
    chains: tuple[Chain, ...] = (Chain(LeastSquares()),), meat: bool = True,
    pilot: Pilot | None = None, radius: float = 0.0, weighted: bool = False,
    of_weights: bool = False, closing: Closing | None = None, reserve: bool = False,
    opening: Opening | None = None,
) -> RowsPlan:  # fmt: skip
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
    if model.from_public:
        return ()
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


def start_radius(to: Schedule, rank: int) -> float:
    """Return the radius of a start from released scales, or 0 to choose it by rule.

    The rule is used if no scale of a predictor is released, and for models of a mean: events and
    counts may be rare, and their start is then mostly noise.
    """
    measured = any(isinstance(scale, ScalePlan) and scale.predictors for scale in to.scales)
    if not measured or not to.chains[0].score.of_residual:
        return 0.0
    x = to.mu * math.sqrt(to.shares[0]) * to.pilot.start(to.rows) / max(rank, 1)
    kappa = rules.INFORMATION_FACTOR * x**rules.INFORMATION_POWER
    if rank >= rules.COLUMNS:
        kappa = min(kappa, rules.NARROW_FACTOR * x / math.sqrt(rank))
    return math.sqrt((rank + 1.0) * min(max(1.0, kappa), rules.START_RADIUS_MAX))


def schedule_rows(
    request: Request, design: Design, n: int, rows: int, mu: float, model: ModelSpec
) -> Schedule:
    """Return the schedule of a fit of rows, but for its look and its pass by cluster."""
    scales = _scales(request, design, model, mu, rows)
    mu *= math.sqrt(1.0 - math.fsum(scale.share for scale in scales))
    p, pass_shares = design.p, model.chains[0].score.pass_shares
    chosen = request.shares_of(split_names(RowsPlan.before, len(pass_shares.passes)))
    shares = passes_of(pass_shares, mu, rows, p) if chosen is None else tuple(chosen.values())
    shares = model.from_public or shares
    x = noise_ratio(mu, p, rows)
    # In a table sorted by a private column one replaced row can move others into another block
    # of rows, and a pass may read only some blocks.
    ordered = request.relation == "replace" and bool(request.options.get("public_order"))
    windows = pilot_windows(design, n, x) if ordered else ALL_ROWS
    every, first = (coin_share(noise / x, rows) for noise in (rules.PILOT_NOISE, rules.FIRST_NOISE))
    pilot = Pilot(every, windows, first)
    return Schedule(
        model, plan_rows, model.chains, design, rows, mu, shares, pilot, scales,
        whole=request.split is None, over_rows=True,
    )  # fmt: skip


def plan_rows(to: Schedule, rank: int, relation: str, _: Design) -> RowsPlan:
    """Return the plan of the passes for a design of this rank."""
    model, weighted = to.model, to.design.auxiliary_place("weights") is not None
    usual = model.chains[0].score.pass_shares
    pass_shares = replace(usual, passes=to.shares)
    plan = plan_scoring(
        pass_shares, to.mu, to.rows, rank, relation, chains=to.chains,
        meat=model.meat, pilot=to.pilot, radius=model.radius or start_radius(to, rank),
        weighted=weighted,
        of_weights=weighted or bool(to.design.scaled), closing=model.closing,
        reserve=bool(model.from_public) or (to.whole and not to.chains[0].raw
        and (to.design.p >= rules.COLUMNS or not to.chains[0].score.averages)),
        opening=model.opening,
    )  # fmt: skip
    public: Any = model.opening if model.from_public else None
    return plan if public is None else public.planned(plan, usual.passes)
