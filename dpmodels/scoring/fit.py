"""Scoring backend: plan, release and estimate of every regression that fits by scoring.

The module of a model chooses the models (chains), the coordinates of the start and the meaning of
its options. Here is the plan and the release, over rows or over units
(:mod:`dpmodels.scoring.run`), and the way from released numbers to coefficients, errors and notes,
which reads no row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.inference import BiasBound, critical_value
from dpmodels.arrays import Array
from dpmodels.core.release import End, Own, Program, run
from dpmodels.errors import RequestError
from dpmodels.planning import Plan, enough_rows
from dpmodels.ranges import gaussian_part, ranged_design, widen_ranges
from dpmodels.records import OPEN_ENDS, USABLE_ROWS, Estimate, Release, Request
from dpmodels.scoring import rules
from dpmodels.scoring.cluster_plan import Paid
from dpmodels.scoring.coordinates import empty_columns, most_root, unweighted
from dpmodels.scoring.intervals import Inference, infer, infer_units
from dpmodels.scoring.models import Model, State, roots
from dpmodels.scoring.notes import (
    EFFECT_VERBS,
    cluster_notes,
    effects_beyond,
    empty_rows,
    few_events,
    fit_notes,
    is_seen,
    marked_names,
    no_ranges_note,
    public_rows,
    separated,
    too_wide,
    unconverged,
    wide_for_rows,
)
from dpmodels.scoring.program import fit_rows
from dpmodels.scoring.rows import schedule_rows
from dpmodels.scoring.run import Fitting, ModelSpec, Schedule, ScoringRelease, split_names
from dpmodels.scoring.usable import Look

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note, Template
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.scoring.pass_plan import PassPlan
    from dpmodels.sums.ask import Ask


def plan_fit(
    request: Request, design: Design, n: int, model: ModelSpec, *, of_units: bool = False
) -> Plan[Any]:
    """Plan a scoring fit, as a backend's ``plan``: ``request.delta > 0``.

    ``of_units``: its chains are models of units, be these people or rows.
    """
    if not model.meat and request.unit is not None:
        raise RequestError(
            "vcov='iid' assumes independent rows, and those of a person are not: leave vcov= out"
        )
    if not model.meat and getattr(request.sample, "needed", False):
        raise RequestError("vcov='iid' assumes independent rows, and those of a cluster are not")
    if hasattr(request.public, "start"):
        model = request.public.start.opens(model)
    schedule = schedule_rows
    if of_units or request.unit is not None:
        from dpmodels.scoring.units import schedule_units as schedule
    rows = enough_rows(request, design, n)
    missing = () if model.coordinates is not None else design.unknown
    failure = getattr(model.opening, "failure", 0.0)  # of released bounds of the start
    divided = functools.partial(gaussian_part, request, missing, failure)
    look = Look.of(request, design, divided(stops=True).mu, rows)
    ranges = divided(stops=look is not None)
    if look is not None:
        ranges = look.first(ranges)
    rank, first = design.p, model.chains[0].score
    size = rank if isinstance(first, Model) else first.dimension(rank)
    paid = Paid.of(request, ranges, rows, size, labels=[chain.label for chain in model.chains])
    mu = paid.mu(paid.rest)
    to = schedule(request, design, n, rows, mu, model)
    to = replace(to, look=look, clusters=paid.clusters)
    scoring, scales = to.scoring(rank, request.relation), to.scales
    passes = scoring.readings + (look is not None)
    noise, forecast = scoring.noise, scoring.forecast
    opening = tuple(step for scale in scales for step in scale.steps)
    opening_share = math.fsum(s.share or 0.0 for s in opening)
    left = paid.rest * (1.0 - opening_share)
    steps, closes = scoring.ledger, {}
    if model.closing is not None:
        steps = (*steps, model.closing.of(scoring.mu))
        closes = {model.closing.name: model.closing.share * left}
    printed = {} if look is None else {USABLE_ROWS: look.share}
    printed |= {scale.label: scale.share * paid.rest for scale in scales}
    for name, share in zip(split_names(scoring.before, len(to.shares)), to.shares, strict=True):
        if share:  # nothing is released of what is public
            printed[name] = share * (left - math.fsum(closes.values()))
    numbers = scoring.shown()
    verdict, sentence = forecast.of(noise)
    return paid.plan(
        design, n,
        [*(s.within(paid.rest) for s in opening), *(s.within(left) for s in steps)],
        shares=printed | closes, passes=passes + len(opening) + len(closes),
        scales=numbers if look is None else {**look.printed, **numbers},
        advice=scoring.advice() if noise > forecast.high_noise else (),
        detail=to, forecast=sentence, verdict=verdict, notes=getattr(model.opening, "notes", ()),
    )  # fmt: skip


def release_fit(plan: Plan[Schedule], ask: Ask, ranged: Design | None = None) -> Release:
    """Run the program of a scoring fit over the private rows, and return its release.

    ``ranged`` is the design with every range, where a larger plan estimated them before.

    Privacy
    -------
    Unit: one row, or one person; replace-one (n public) or add-remove. Charged: the steps of the
    plan.
    """
    end: End = run(fit_program(plan, ranged), ask)
    return Release(
        end.values, plan.guarantee, end.design or plan.design, reply=not end.why, why=end.why,
        detail=end.detail, remarks=end.remarks,
    )  # fmt: skip


def fit_program(plan: Plan[Schedule], ranged: Design | None = None) -> Program:
    """Fit by scoring: count usable units, find ranges, release the passes, statistics, clusters.

    A call ends early if few units are usable, or if ranges cannot be estimated.
    """
    to, usable = plan.detail, 1.0
    if to.look is not None:
        pays = [step for step in plan.steps if not step.reply_test and not step.failure]
        payer = max(pays, key=lambda step: step.share or 0.0).name
        part = yield from to.look.ask(plan.design, payer, plan.request.relation)
        if isinstance(part, End):
            return part
        usable = part
    design = plan.design if ranged is None else ranged
    if ranged is None and plan.purchase is not None:
        design = yield Own(functools.partial(ranged_design, plan, wide=True))
        if design is None:
            return End(why="ranges")
    rows = widen_ranges(design, plan.design)
    fit = fit_rows
    if not to.over_rows:
        from dpmodels.scoring.units import fit_units as fit
    released, remarks = yield from fit(to, plan.request.relation, design, rows, usable)
    if to.model.closing is not None:
        statistics = yield from to.model.closing.conclude(released, rows)
        released = replace(released, statistics=statistics)
    if to.clusters is not None:
        from dpmodels.scoring.clusters import release_clusters

        scoring = to.scoring(released.coordinates.rank, plan.request.relation)
        passes, turns = scoring.scorers(to, released, rows)
        by_cluster = yield from release_clusters(to.clusters, passes, rows)
        released = replace(released, clusters=by_cluster, turns=turns)
    return End(released.values, design, detail=released, remarks=remarks)


# -- From a released scoring fit to coefficients, errors and notes. It reads no row.


Mask = npt.NDArray[np.bool_]

#: Evidence of clipped residuals: of fits by person, and by rows.
_MOVED = "Clipped residuals move these coefficients by more than half of their intervals"
_HIDDEN = "Up to {many:.0f} of {n:.0f} rows with residuals beyond {far:.0f} sd would not be seen"
_CLIPPED_UNITS = (
    "By its released histogram the response may vary more than 25 times as much as in the last pass"
)


@dataclass(frozen=True, eq=False)
class Part:
    """One model of a fit, in the user's units."""

    release: Fitting
    inference: Inference
    params: Array  # (p,)
    T: Array  # (p, r): maps a step in w to coefficients
    # (p,): coefficients along unresolved directions, with intervals too wide for the declared
    # ranges to be useful, or of noise alone.
    undetermined: Mask
    unit: float = 1.0  # Unit responses to one of the user's
    # (r,): a with ``a'w = 1`` in every complete row, or None for units
    constant: Array | None = None
    flags: Mapping[Template, Mask] = field(default_factory=dict)  # Coefficients of each note
    cut: Mapping[str, Mask] = field(default_factory=dict)  # Those clips may move, by evidence

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a unit to the coefficients."""
        out = np.asarray(self.T @ self.inference.inverse * math.sqrt(self.release.before.phi))
        return out @ roots(self.inference.meat)[0] if self.inference.plan.people else out


Back = Callable[[ScoringRelease, Fitting], tuple[Array, Array]]


def estimate_fit(
    plan: Plan[Schedule], release: Release, stats: Callable[[Part], dict[str, float]], *,
    back: Back | None = None, names: Sequence[str] | None = None, lost: Mask | None = None,
    model_notes: Sequence[Note] = (), arrays: Callable[[Part], dict[str, Array]] | None = None,
) -> Estimate:  # fmt: skip
    """Map the last step of every model to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports of a model beside the coefficients: released numbers. Clip and noise
        of the scores, and fit statistics, follow.
    back : function
        (A, a) of a model: coefficients in the user's units are ``A theta + a``. None: those of
        the columns.
    names : sequence of str
        Of the coefficients; None: of the columns.
    lost : bool array
        Coefficients that the design does not determine.
    model_notes : sequence of Note
        Notes of the model.
    arrays : function
        What the room keeps of its (first) model beside its information: released numbers.
    """
    detail, design = plan.detail, release.design
    chains, terms = detail.chains, tuple(names or design.names)
    every = tuple(name for chain in chains for name in chain.named(terms))
    if not release.reply:
        return no_ranges_note(every)
    released: ScoringRelease = release.detail
    coordinates, clusters = released.coordinates, released.clusters
    lost = ~coordinates.identified if lost is None else lost
    places = [back(released, fit) if back else coordinates.back() for fit in released.fits]
    of_columns = back is None and names is None
    parts = [
        _part(plan, release, i, at, terms, of_columns=of_columns) for i, at in enumerate(places)
    ]
    gone = np.tile(lost, len(parts))
    bias = np.concatenate([p.inference.allowance.bias(p.T) for p in parts])
    bias[gone] = math.nan
    open_, notes = _marks(plan, release, parts, every, gone)
    complete = _complete(plan, parts[0])
    reported: dict[str, float] = {}
    for chain, part in zip(chains, parts, strict=True):
        last = part.inference.plan
        values = {
            **stats(part), "score_clip": last.clip, "score_noise": last.noise.score,
            **released.statistics, **complete,
        }  # fmt: skip
        reported |= dict(zip(chain.named(tuple(values)), values.values(), strict=True))
    sampling, privacy = covariances(parts, lost, by_cluster=clusters is not None)
    empty = _lost(plan, design, parts[0], complete)
    used = complete.get("complete_share", 1.0)
    if empty and used <= rules.CLEAR_OF_NOISE * complete["complete_share_se"]:
        who = "people" if plan.request.unit is not None else "rows"
        return Estimate.silent(every, messages.NO_UNITS(who=who), *empty, stats=complete)
    if released.statistics:
        empty += _cut_deviances(released)
    saved = _saved(released, parts, gone)
    return Estimate(
        every, np.concatenate([p.params for p in parts]), vcov_sampling=sampling,
        vcov_privacy=privacy, bias=bias,
        bias_bound=BiasBound(tuple((p.T, p.inference.allowance) for p in parts)),
        untested=open_ if open_.any() else None, stats=reported,
        use_t=None if clusters is None or math.isinf(clusters.df) else clusters.df,
        notes=(*notes, *empty, *model_notes),
        arrays=saved if arrays is None else saved | arrays(parts[0]),
    )  # fmt: skip


def _saved(released: ScoringRelease, parts: Sequence[Part], gone: Mask) -> dict[str, Array]:
    """Return the released numbers that a fit keeps, and the sides on which intervals are open."""
    first = released.fits[0]
    apart = np.concatenate([p.flags[messages.SEPARATED] for p in parts]) & ~gone
    saved = {k: first.values[k] for k in ("start",) if k in first.values}
    saved |= {"information": first.released[-1].information}
    saved |= {f"centre({name})": np.array([c]) for name, c in released.coordinates.centres.items()}
    if apart.any():
        saved[OPEN_ENDS] = np.where(apart, np.sign(np.concatenate([p.params for p in parts])), 0.0)
    return saved


def _part(
    plan: Plan[Schedule], release: Release, i: int, back: tuple[Array, Array],
    terms: Sequence[str], *, of_columns: bool,
) -> Part:  # fmt: skip
    """Return model i in the user's units, with what its notes list.

    Its coefficients are ``A theta + a``, ``back = (A, a)``. ``of_columns``: those of the columns.
    """
    released: ScoringRelease = release.detail
    design, coordinates, fit = release.design, released.coordinates, released.fits[i]
    (A, a), inference = back, _infer(plan, release, i)
    T, params = A @ fit.before.W.T, A @ fit.state.theta + a
    people, constant = inference.plan.people, coordinates.constant
    if constant is not None:
        constant = None if people else np.asarray(np.linalg.solve(fit.before.W, constant), float)
    larger, least = 1.0, math.inf
    if not inference.plan.whole:
        # For least squares of rows: the residual variance that the start saw, over that in the
        # scores of the last pass. These are clipped harder than the rows of the start, so that
        # long responses are missing in them.
        phi = fit.before.phi
        least = max(phi * inference.variance(constant), 1e-12 * phi)
        larger = max(rules.MIN_ERROR_PART**2 * fit.before.seen / least, 1.0)
    larger = min(larger, rules.START_SPREAD)
    inference = replace(inference, sampling=larger * inference.sampling)
    stopped = np.zeros(len(T), dtype=bool)
    if fit.public is not None:
        far = unconverged(inference, fit.public, fit.before, fit.model)
        rows = public_rows(design, coordinates.ends)
        assert rows is not None
        stopped = rows.columns(far) | fit.on_its_way
    if not fit.model.averages:
        stopped = stopped | _unconverged(fit, inference, T)
    open_, half = inference.undetermined(T) | inference.lost, half_widths(inference, T)
    if people:
        verb = plan.request.verb
        linear = verb in EFFECT_VERBS if fit.score is None else bool(fit.score.of_residual)
        open_ |= too_wide(design, terms, half, linear=linear, params=params)
    elif fit.model.of_residual and of_columns:
        open_ |= wide_for_rows(design, half, params, coordinates.ends)
    spread = _beside_places(fit, inference) if people else 0.0
    every_column = {
        _CLIPPED_UNITS: spread > rules.RESPONSE_SPREAD_OF_UNITS,
        _HIDDEN: inference.plan.policy.two_clips == "last"
        and _longest(release, coordinates) > rules.HIDING_SDS * math.sqrt(4.0 * least),
    }
    cut = {text: np.full(len(T), applies) for text, applies in every_column.items()}
    cut[_MOVED] = np.zeros(len(T), dtype=bool)
    if inference.allowance.moved is not None:
        moved = np.abs(T @ inference.allowance.scores @ inference.allowance.moved[0])
        cut[_MOVED] = moved > rules.MUCH_MOVED * half
    unit = float(coordinates.unit.scale[-1])
    part = Part(fit, inference, params, T, open_, unit, constant, cut=cut)
    flags = _more_flags(plan, release, part, terms, stopped, half, of_columns=of_columns)
    return replace(part, flags={messages.NOT_CONVERGED: stopped} | flags)


def _marks(
    plan: Plan[Schedule], release: Release, parts: Sequence[Part], every: tuple[str, ...],
    gone: Mask,
) -> tuple[Mask, list[Note]]:  # fmt: skip
    """Return the coefficients that are not determined, and the notes that list coefficients.

    ``every``: names of all coefficients; ``gone``: those that the design does not determine.
    """
    design, clusters, first = release.design, release.detail.clusters, parts[0]
    open_ = np.concatenate([p.undetermined for p in parts]) & ~gone
    columns = tuple(f":{n}" for n, e in zip(design.names, empty_columns(design), strict=True) if e)
    # the coefficients of several classes or parts have a name of more before that of the column
    unseen = gone & np.array([bool(columns) and f":{n}".endswith(columns) for n in every])
    weighed = first.inference.plan.uncut or getattr(first.release.model, "stops", False)
    notes = fit_notes(plan, every, open_, gone, unseen, weighed=weighed)
    for template in first.flags:
        marked = np.concatenate([p.flags[template] for p in parts]) & ~gone
        if marked.any():
            open_ = open_ | marked
            notes.append(template(columns=marked_names(every, marked)))
    of_cut = {
        text: np.concatenate([p.cut[text] for p in parts]) & ~(gone | open_) for text in first.cut
    }
    if texts := [text for text, mask in of_cut.items() if mask.any()]:
        shortened = marked_names(every, np.any([of_cut[text] for text in texts], axis=0))
        evidence = ". ".join(texts).format(**_hidden(first.inference.plan))
        notes.append(messages.LARGE_RESIDUALS(columns=shortened, evidence=evidence))
    if clusters is not None:
        notes += cluster_notes(plan, clusters, len(parts))
    return open_, notes


def covariances(parts: Sequence[Part], lost: Mask, *, by_cluster: bool) -> tuple[Array, Array]:
    """Return the two covariances of all coefficients; every model has separate noise."""
    p, k = len(lost), len(parts)
    sampling, privacy = np.zeros((k * p, k * p)), np.zeros((k * p, k * p))
    for i, part in enumerate(parts):
        at = slice(i * p, (i + 1) * p)
        sampling[at, at] = part.T @ part.inference.sampling @ part.T.T
        privacy[at, at] = part.T @ part.inference.privacy @ part.T.T
        for j, other in enumerate(parts[:i]):
            common = part.release.score.common(other.release.score)
            if by_cluster:
                left, right = (x.T @ roots(x.inference.sampling)[0] for x in (part, other))
                block = common * left @ right.T
            else:
                block = common / part.inference.plan.rows * part.spread @ other.spread.T
            at_other = slice(j * p, (j + 1) * p)
            sampling[at, at_other], sampling[at_other, at] = block, block.T
    every = np.tile(lost, k)
    for V in (sampling, privacy):
        V[every] = V[:, every] = math.nan
    return sampling, privacy


def _infer(plan: Plan[Schedule], release: Release, i: int) -> Inference:
    """Return the inference of the last pass of model i, over rows or over units.

    Without sampling errors where clusters cannot be counted.
    """
    released: ScoringRelease = release.detail
    fit, coordinates, clusters = released.fits[i], released.coordinates, released.clusters
    by_cluster = None if clusters is None else functools.partial(released.meat, i)
    if fit.plans[-1].people:
        out = infer_units(fit, plan.detail.rows, by_cluster)
    else:
        out = infer(
            fit.released[-1], fit.plans[-1], fit.before, fit.last, fit.model,
            free=_free(plan, fit.plans[-1].rows, coordinates.rank),
            by_cluster=by_cluster,
        )  # fmt: skip
    if clusters is None or not clusters.few:
        return out
    return replace(out, sampling=np.full_like(out.sampling, math.nan))


def _free(plan: Plan[Any], n: float, rank: int) -> float:
    """Return the small-sample factor of the errors: HC1, CRV1, or 1 for the errors of a survey."""
    sample = plan.request.sample
    if sample is None:
        return n / max(n - rank, 1.0)
    return (n - 1.0) / max(n - rank, 1.0) if sample.frame.survey.errors_only else 1.0


def _more_flags(
    plan: Plan[Any], release: Release, part: Part, terms: Sequence[str], stopped: Mask,
    half: Array, *, of_columns: bool,
) -> dict[Template, Mask]:  # fmt: skip
    """Return coefficients beyond their ranges, with few events, or separated (``half`` widths)."""
    fit, design, coordinates = part.release, release.design, release.detail.coordinates
    beyond = few = apart = np.zeros(len(part.params), dtype=bool)
    score = fit.score if of_columns else None
    if score is not None and score.counts_events and not getattr(fit.model, "demean", False):
        few = few_events(
            design, coordinates, _at_means(fit, part.inference.H, coordinates), fit.state.theta,
            score, part.inference.H, fit.plans[-1], part.inference.privacy,
        )  # fmt: skip
    widths = functools.partial(half_widths, part.inference)
    if score is not None and score.of_residual:
        beyond = effects_beyond(
            design, part.params, lambda rows: widths(rows @ part.T), coordinates.ends
        )
    elif plan.request.verb == "dp_feols":
        # slopes within people, and of their means
        first, k = int(terms[0] == design.names[0]), design.p - 1
        masks = []
        for i in range(first, len(beyond), k):
            b, T = np.append(0.0, part.params[i : i + k]), part.T[i : i + k]
            mask = effects_beyond(design, b, lambda rows: widths(rows[:, 1:] @ T))  # noqa: B023
            masks.append(mask[1:])
        beyond = np.concatenate([np.zeros(first, bool), *masks])
    if score is not None and score.is_event:
        M, least = fit.before.M, rules.SEPARATED_UNCONVERGED
        if fit.plans[-1].people:  # coordinates are those of the released centres
            M, least = np.eye(coordinates.rank), rules.SEPARATED_UNCONVERGED_OF_PEOPLE
        logits = rules.LOGITS.get(score.link.name, 1.0)
        theta, A = logits * fit.state.theta, coordinates.back()[0]
        apart = separated(design, coordinates, M, theta, A)
        apart = apart | stopped & separated(design, coordinates, M, theta, A, least)
        # an effect of noise is not one of separated events
        apart = apart & (np.abs(part.params) > rules.MUCH_MOVED * half)
    return {
        messages.IMPLAUSIBLE: beyond, messages.FEW_EVENTS: few, messages.SEPARATED: apart,
    }  # fmt: skip


def _longest(release: Release, coordinates: Coordinates) -> float:
    """Return the length of the range of the response, in units of the fit; inf without a range."""
    design = release.design
    if design.scaled and not design.bought:
        design = unweighted(design)
    interval = None if design.response is None else design.response.interval
    if interval is None:
        return math.inf
    root = 1.0 if design is release.design else most_root(release.design)
    return float((interval[1] - interval[0]) * coordinates.unit.scale[-1] * root)


def _hidden(plan: PassPlan) -> dict[str, float]:
    """Return how many rows the noise of the histogram of lengths may hide, and how far out."""
    far = 2.0 * plan.clip / math.sqrt(plan.p)
    return {"many": min(2.0 * plan.noise.count, plan.rows), "n": plan.rows, "far": far}


def _beside_places(fit: Fitting, inference: Inference) -> float:
    """Return the ratio of the possible variance of unit responses to their residual variance.

    It is 0 except for least squares. The residual variance is that of the last pass's scores.
    """
    values = getattr(fit.model, "values", None)
    if values is None or not (fit.model.averages and fit.score.of_residual):
        return 0.0
    unit = float(fit.model.coordinates.unit.scale[-1])
    left = fit.before.phi * float(np.trace(np.linalg.solve(inference.H, inference.meat)))
    return float(len(inference.H) * (values.root_mean_square * unit) ** 2 / max(left, 1e-300))


def _at_means(fit: Fitting, H: Array, coordinates: Coordinates) -> State:
    """Return the state at which the last pass was evaluated, with the second moments of rows.

    For units they are replaced by the released information: second moments are not released.
    """
    a = coordinates.constant
    if not fit.plans[-1].people or a is None:
        return fit.before
    root = np.linalg.inv(fit.before.W)
    M = root @ H @ root.T
    return replace(fit.before, M=M / max(float(a @ M @ a), 1e-12))


def _unconverged(fit: Fitting, inference: Inference, T: Array) -> Mask:
    """Return a mask of the coefficients that the last step moved by more than its noise.

    The limit is ``UNCONVERGED_SDS`` sds of the noise of its scores and of those of the pass before,
    and two sampling errors of the rows that this one read, for models whose steps are not exact.
    """
    before, last = fit.plans[-2:]
    sd = math.hypot(*(planned.noise.score / planned.rows for planned in (before, last)))
    rotated = T @ np.linalg.inv(inference.H)
    if fit.turn is not None:
        rotated = rotated @ fit.turn
    noise = math.sqrt(fit.before.phi) * sd * np.linalg.norm(rotated, axis=1)
    sampling = np.sqrt(np.maximum(np.diag(T @ inference.sampling @ T.T), 0.0))
    sampling *= math.sqrt(max(last.rows / before.rows, 1.0))
    return np.asarray(
        np.abs(T @ fit.last.d) > np.hypot(rules.UNCONVERGED_SDS * noise, 2.0 * sampling)
    )


def _cut_deviances(released: ScoringRelease) -> list[Note]:
    """Return a note on the part of the deviance above the clip, if there is one."""
    first = released.fits[0]
    cut = released.statistics.get("deviance_cut", 0.0)
    amounts = (
        "deviance" in released.statistics and not first.plans[-1].people
        and not first.score.is_event and not first.score.family.counts
    )  # fmt: skip
    if not cut and not amounts:
        return []

    low = " A gamma response far below the mean loses more." if amounts else ""
    return [messages.DEVIANCE(most=rules.MAX_DEVIANCE, cut=cut, low=low)]


def half_widths(inference: Inference, rows: Array) -> Array:
    """Return half widths of .95 intervals of linear functions of the step, (k, r)."""
    V = inference.sampling + inference.privacy
    se = np.sqrt(np.maximum(np.sum((rows @ V) * rows, axis=1), 0.0))
    a = np.divide(inference.allowance.bias(rows), se, out=np.zeros_like(se), where=se > 0.0)
    return np.asarray(critical_value(a, 0.95) * se)


def _complete(plan: Plan[Any], part: Part) -> dict[str, float]:
    """Return the share of units that count: a released histogram has one entry of each."""
    if plan.request.relation != "replace":
        return {}
    fit, last = part.release, part.inference.plan
    if fit.lengths:
        counts, sd = fit.lengths[-1].counts, fit.lengths[-1].sd
    else:
        counts, sd = fit.released[-1].bins, last.noise.count
    n = plan.detail.rows
    share = min(max(float(np.sum(counts)) / n, 0.0), 1.0)
    return {"complete_share": share, "complete_share_se": sd * math.sqrt(len(counts)) / n}


def _lost(
    plan: Plan[Any], design: Design, part: Part, complete: Mapping[str, float]
) -> list[Note]:  # fmt: skip
    """Return a note on the share of dropped rows or people, if it exceeds its noise."""
    lost = 1.0 - complete.get("complete_share", 1.0)
    sd = complete.get("complete_share_se", 0.0)
    if not is_seen(lost, sd):
        return []
    if not part.inference.plan.people:
        return empty_rows(lost, sd, design, shortened=False)
    who = "people" if plan.request.unit is not None else "rows"
    single = ", or they have one row" if who == "people" else ""
    return [messages.DROPPED_UNITS(share=100.0 * lost, sd=100.0 * sd, who=who, single=single)]
