"""A fit over units as a backend: what rooms of regressions of people plan, release and estimate.

The mirror of :mod:`dpmodels.scoring.fitting` for the engine of expansions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import BiasBound, Tail
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.planning import Plan
from dpmodels.planning.plan import enough_rows
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design, reaching, to_be_bought
from dpmodels.release import Estimate, Release
from dpmodels.scoring.cluster_people import PeopleByCluster, PersonScores
from dpmodels.scoring.cluster_rules import ClusterPlan
from dpmodels.scoring.clusters import release_clusters
from dpmodels.scoring.coordinates import Coordinates, public_coordinates
from dpmodels.scoring.engine import ask_statistics
from dpmodels.scoring.expand import Regression
from dpmodels.scoring.expand_engine import (
    Begun,
    UnitChain,
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
from dpmodels.scoring.intervals import Inference, infer
from dpmodels.scoring.rules import (
    STATISTICS_SHARE,
    STATISTICS_STEP,
    Guide,
    guide_share,
    noise_ratio,
)
from dpmodels.scoring.score import Beginning, Score
from dpmodels.scoring.state import State, roots
from dpmodels.scoring.words import EMPTY, SEEN, cluster_notes, fit_notes, no_ranges_note

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = [
    "Closing", "FitStatistics", "RowModel", "UnitDetail", "UnitPart", "estimate_units",
    "plan_units", "release_units_fit",
]  # fmt: skip


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
    missing = to_be_bought(request, () if coordinates is not None else design.unknown)
    part = gaussian_part(request, missing)
    share = 1.0 - part.share
    mu = part.mu * math.sqrt(share)
    rules = _rules(request, rules or (LINEAR_UNITS if linear else NONLINEAR_UNITS))
    p = dimension(design.p)
    clusters, whole, by_cluster = _clusters(request, models, mu, rows, p), share, 0.0
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
            *(replace(s, share=(s.share or 0.0) * share) for s in unit_steps(scoring)),
            *(
                replace(s, share=(s.share or 0.0) * whole)
                for s in (() if clusters is None else clusters.steps)
            ),
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
        forecast=_forecast(rho),
        passes=(2 * len(scoring.passes) + 1) * len(models) + len(scoring.prelude())
        + bool(scoring.asked) + (part.purchase is not None) + len(closes)
        + (clusters is not None),
    )  # fmt: skip


def _clusters(
    request: Request, models: tuple[tuple[UnitModel, str], ...], mu: float, n: int, p: int
) -> ClusterPlan | None:
    """Return the pass by cluster of a call that has clusters or rates; None: there is none."""
    sample = request.sample
    if sample is None or not sample.needed:
        return None
    labels = [f" ({name})" if name else "" for _, name in models]
    people = request.unit is not None
    return ClusterPlan.of(sample, mu, n, request.relation, labels, p, people=people)


def _as_ranged(design: Design) -> Design:
    """Return the design with a range of some kind for what is bought: what is asked is the same."""
    return design.with_bounds({name: (0.0, 1.0) for name in design.unknown})


def _rules(request: Request, rules: UnitRules) -> UnitRules:
    """Return the shares of the steps; ``split=`` before the rule."""
    if request.split is None:
        return rules
    if set(request.split) != set(rules.names()):
        raise RequestError(
            f"split= must name {', '.join(rules.names())} for this fit, got "
            f"{', '.join(request.split)}"
        )
    return UnitRules.of(tuple(float(request.split[name]) for name in rules.names()))


def _forecast(rho: float) -> str:
    """Say what the public noise of the information lets expect of intervals."""
    said = f"forecast: the noise of the information will be {rho:.2g} of its size, "
    if rho <= FINE:
        return said + f"so intervals will be about as narrow as they can be (below {FINE:g})"
    if rho <= LOUD:
        return said + f"so intervals will be wide (between {FINE:g} and {LOUD:g})"
    return said + f"so coefficients will not be determined at this budget (above {LOUD:g})"


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
        for k, sums in enumerate(chain.released, 1):
            values |= {f"information {k}{end}": sums.information, f"scores {k}{end}": sums.score}
        last = chain.released[-1]
        values |= {
            f"meat{end}": last.meat, f"ordinary{end}": last.spread,
            f"lengths{end}": chain.lengths[-1].counts,
        }  # fmt: skip
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


@dataclass(frozen=True, eq=False)
class UnitPart:
    """One model of a fit over units, in the user's units.

    Attributes
    ----------
    chain : UnitChain
    inference : Inference
    params : (p,) array
    T : (p, r) array
        Maps a step in w to coefficients.
    unit : float
        Unit responses to one of the user's.
    """

    chain: UnitChain
    inference: Inference
    params: Array
    T: Array
    unit: float = 1.0

    @property
    def before(self) -> State:
        """Where the last pass looked from."""
        return self.chain.before

    @property
    def constant(self) -> None:
        """None: no share of complete rows is released of units."""
        return None


def infer_units(
    chain: UnitChain, N: int, by_cluster: Callable[[Array], Array] | None = None
) -> Inference:
    """Return the inference of the last pass of a model.

    Parameters
    ----------
    by_cluster : function or None
        Of the meat of people: that of clusters.
    """
    plan, lengths = chain.plans[-1], chain.lengths[-1]
    tail = Tail()
    if not chain.expansion.stops:
        total, error = lengths.overflow(plan.clip)
        tail = Tail(0.0, total / plan.rows, error / plan.rows)
    r = len(chain.last.d)
    return infer(
        chain.released[-1], plan, chain.before, chain.last, chain.expansion,
        free=N / max(N - r, 1.0), tail=tail, turn=chain.turn,
        by_cluster=by_cluster,
    )  # fmt: skip


def estimate_units(
    plan: Plan[UnitDetail], release: Release, stats: Callable[[UnitPart], dict[str, float]], *,
    back: Callable[[UnitRelease, UnitChain], tuple[Array, Array]] | None = None,
    names: Sequence[str] | None = None, common: Callable[[int, int], float] | None = None,
    lost: npt.NDArray[np.bool_] | None = None, more: Sequence[str] = (),
) -> Estimate:  # fmt: skip
    """Map the last step of every model to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports beside the coefficients: released numbers.
    back : function
        (A, a) of a model: coefficients in the user's units are ``A theta + a``. None: those of
        the columns.
    names : sequence of str
        Of the coefficients; None: of the columns.
    common : function
        Correlation of the scores of models i and j; None: 0.
    lost : bool array
        Coefficients that the design does not determine.
    more : sequence of str
        Notes of the room.
    """
    detail = plan.detail
    own = tuple(names or release.design.names)
    labels = [label for _, label in detail.models]
    every = [f"{name} [{label}]" if label else name for label in labels for name in own]
    if not release.reply:
        return no_ranges_note(every)
    found: UnitRelease = release.detail
    coordinates = found.coordinates
    gone = ~coordinates.identified if lost is None else lost
    parts = []
    clusters = found.clusters
    for i, chain in enumerate(found.chains):
        A, a = coordinates.back() if back is None else back(found, chain)
        own_meat = None if clusters is None else functools.partial(found.meat, i)
        inference = infer_units(chain, detail.rows, own_meat)
        if clusters is not None and not clusters.determined(i):
            inference = replace(inference, sampling=np.full_like(inference.sampling, math.nan))
        parts.append(
            UnitPart(
                chain, inference, A @ chain.last.state.theta + a,
                A @ chain.before.W.T, float(coordinates.unit.scale[-1]),
            )
        )
    sampling, privacy = _covariances(
        parts, detail.rows, gone, common, by_cluster=clusters is not None
    )
    all_gone = np.tile(gone, len(parts))
    bias = np.concatenate([p.inference.allowance.bias(p.T) for p in parts])
    bias[all_gone] = math.nan
    few = np.concatenate([p.inference.allowance.few(p.T) for p in parts]) & ~all_gone
    open_ = np.concatenate([_undetermined(p) for p in parts]) & ~all_gone
    notes = fit_notes(plan, tuple(every), bias, few & ~open_, open_, all_gone)
    notes += cluster_notes(plan, clusters, len(parts))
    notes += [*_void(plan, parts[0]), *more]
    reported: dict[str, float] = {}
    for label, part in zip(labels, parts, strict=True):
        last = part.chain.plans[-1]
        values = {
            **stats(part), "score_clip": last.clip, "score_noise": last.noise.score,
            **found.statistics,
        }  # fmt: skip
        end = f" [{label}]" if label else ""
        reported |= {name + end: value for name, value in values.items()}
    return Estimate(
        tuple(every),
        np.concatenate([p.params for p in parts]),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        bias=bias,
        bias_bound=BiasBound(tuple((p.T, p.inference.allowance) for p in parts)),
        untested=open_ if open_.any() else None,
        stats=reported,
        use_t=None if clusters is None or math.isinf(clusters.df) else clusters.df,
        notes=tuple(notes),
        arrays={"information": found.chains[0].released[-1].information},
    )


def _undetermined(part: UnitPart) -> npt.NDArray[np.bool_]:
    """Say which coefficients are not determined: along unresolved directions, or all.

    All where the released noise of the information is beyond what intervals were found to bear.
    """
    return part.inference.undetermined(part.T) | (released_noise(part) > LOUD)


def released_noise(part: UnitPart) -> float:
    """Return the noise of the information over its size, as released: ``nu sqrt(2p)/(tr H/p)``."""
    last, found = part.chain.plans[-1], part.chain.released[-1].information
    r, n = len(found), last.rows
    size = max(float(np.trace(found)) / (r * n), 1e-300)
    return last.noise.information / n * math.sqrt(2.0 * r) / size


def _covariances(
    parts: list[UnitPart], N: int, gone: npt.NDArray[np.bool_],
    common: Callable[[int, int], float] | None, *, by_cluster: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the two covariances of all coefficients; noise of models is independent."""
    p, k = len(gone), len(parts)
    sampling, privacy = np.zeros((k * p, k * p)), np.zeros((k * p, k * p))
    for i, one in enumerate(parts):
        at = slice(i * p, (i + 1) * p)
        sampling[at, at] = one.T @ one.inference.sampling @ one.T.T
        privacy[at, at] = one.T @ one.inference.privacy @ one.T.T
        for j, other in enumerate(parts[:i]):
            if common is None:
                continue
            if by_cluster:
                left, right = (x.T @ roots(x.inference.sampling)[0] for x in (one, other))
                block = common(i, j) * left @ right.T
            else:
                block = common(i, j) / N * _half(one) @ _half(other).T
            there = slice(j * p, (j + 1) * p)
            sampling[at, there], sampling[there, at] = block, block.T
    every = np.tile(gone, k)
    for V in (sampling, privacy):
        V[every] = V[:, every] = math.nan
    return sampling, privacy


def _half(part: UnitPart) -> Array:
    """Return the map of a whitened score of a unit to the coefficients."""
    out = part.T @ part.inference.inverse * math.sqrt(part.chain.before.phi)
    return np.asarray(out @ roots(part.inference.meat)[0])


def _void(plan: Plan[Any], part: UnitPart) -> list[str]:
    """Say how many units count as nothing: the histogram has one entry each of the others."""
    if plan.request.relation != "replace":
        return []
    lengths, N = part.chain.lengths[-1], part.chain.plans[-1].rows
    lost = min(1.0 - float(np.sum(lengths.counts)) / N, 1.0)
    sd = lengths.sd * math.sqrt(len(lengths.counts)) / N
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    counted = "people have no row that counts" if plan.request.unit is not None else "rows count"
    said = f"About {lost:.0%} of the {counted}"
    end = "" if plan.request.unit is not None else " as nothing"
    return [f"{said}{end} (from the released histogram, free)."]
