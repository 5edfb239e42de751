"""Notes of a scoring fit on the coverage of its errors, and marks found at public rows.

At these a fit is looked at without looking at any row of the data: how far a step moves them, what
it leaves there, whether a pass more is needed (``method.md``, 3.2 and 5.9).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.inference import SETTLED
from dpmodels.arrays import Array
from dpmodels.formula.design import variables_of
from dpmodels.records import Estimate
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates, cached_on, constant_columns, unweighted
from dpmodels.scoring.intervals import Inference
from dpmodels.scoring.models import Model, State, mass_of, mean_row
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.step import Step
from dpmodels.variables import Binary, Levels

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note
    from dpmodels.planning import Plan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.run import Fitting


def no_ranges_note(names: Sequence[str]) -> Estimate:
    """Return the estimate of a run whose ranges could not be released."""
    return Estimate.silent(names, messages.NO_RANGES())


def is_seen(lost: float, sd: float) -> bool:
    """Return whether a share of dropped rows is large, and clear of its noise (rules.py)."""
    return lost >= rules.EMPTY_SHARE and lost > rules.CLEAR_OF_NOISE * sd


def empty_rows(lost: float, sd: float, design: Design, *, shortened: bool) -> list[Note]:
    """Return a note on the released share of dropped rows, if it is worth one (`is_seen`).

    ``sd``: noise of the share; ``shortened``: whether shrunk rows count as dropped.
    """
    if not is_seen(lost, sd):
        return []
    shrunk = " or shrunk" if shortened else ""
    outside = ", or if it is outside subset=" if design.subset else ""
    lost, sd = 100.0 * lost, 100.0 * sd
    return [messages.DROPPED(share=lost, sd=sd, shortened=shrunk, outside=outside)]


def _error_notes(plan: Plan[Any]) -> list[Note]:
    """Return notes on the assumptions of the standard errors."""
    person = plan.request.unit
    if person is not None:
        between = "Errors of differences between quantiles are too large: as of unrelated rows."
        clusters = getattr(plan.detail, "clusters", None)
        psu = None if clusters is None else clusters.frame.survey.psu
        equal = plan.request.options.get("person_weights") == "equal"
        return [
            *([messages.EQUAL_PEOPLE()] if equal else []),
            messages.ERRORS_PERSON(
                who="person" if psu is None else "cluster",
                column=person.column if psu is None else psu,
                more=between if len(plan.detail.chains) > 1 else "",
            ),
        ]
    if getattr(plan.detail, "clusters", None) is not None:
        column = plan.request.sample.frame.survey.psu
        return [messages.ERRORS_PERSON(who="cluster", column=column, more="")]
    if getattr(plan.detail, "model", None) is None or plan.detail.model.meat:
        return [messages.ERRORS_HC1()]
    return [messages.ERRORS_IID()]


def marked_names(names: Sequence[str], which: npt.NDArray[np.bool_]) -> list[str]:
    """Return the names that are marked."""
    return [n for n, w in zip(names, which, strict=True) if w]


def fit_notes(
    plan: Plan[Any], names: tuple[str, ...], undetermined: Mask, lost: Mask, empty: Mask, *,
    weighed: bool,
) -> list[Note]:  # fmt: skip
    """Return notes on the errors of a fit (``weighed``: no score is cut), and on untested terms."""
    notes, who = plan.reason_notes, "rows" if plan.request.unit is None else "people"
    count = int(undetermined.sum())
    if 2 * count > len(names):
        notes.append(messages.MOSTLY_NOISE(count=count, total=len(names), who=who))
    bias = messages.WEIGHED_FIT if weighed else messages.BIAS_ALLOWANCE
    notes += [bias(), *_error_notes(plan)]
    if undetermined.any():
        notes.append(messages.TOO_NOISY(columns=marked_names(names, undetermined), who=who))
    if empty.any():
        notes.append(messages.NO_ROWS(columns=marked_names(names, empty)))
    if (lost & ~empty).any():
        notes.append(messages.ALIASED(columns=marked_names(names, lost & ~empty)))
    return notes


def cluster_notes(plan: Plan[Any], release: ClusterRelease, chains: int) -> list[Note]:
    """Return notes on cluster-robust errors, and on whom the guarantee protects."""
    survey = plan.request.sample.frame.survey
    which = "declared" if not plan.detail.clusters.count else "estimated, with noise"
    frame = plan.detail.clusters.frame
    centred = f"; {plan.detail.clusters.centring}" if frame.strata > 1 or frame.pairs else ""
    who = "row" if plan.request.unit is None else "person"
    detail = (
        f"{release.clusters:.0f} clusters ({which}); t distribution with {release.df:.0f} degrees "
        f"of freedom{centred}"
    )
    out = [
        messages.ROW_NOT_CLUSTER(who=who, psu=survey.psu, detail=detail),
        *([messages.CLUSTER_ERRORS()] if any(map(release.determined, range(chains))) else []),
    ] if survey.psu is not None else []  # fmt: skip
    lost = [i for i in range(chains) if not release.determined(i)]
    if release.few:
        out.append(messages.FEW_CLUSTERS())
    elif lost:
        ratio = release.noise(lost[0])
        size = "The released variance is not positive" if math.isinf(ratio) else (
            f"Its noise is {ratio:.2g} times its size"
        )  # fmt: skip
        out.append(messages.CLUSTER_BOUND(size=size))
    return out


# -- Public rows of a design: where a fit is looked at without looking at any row of the data.
#
# Each level of each factor, both ends and the middle of each numeric variable. For variables that
# share a column (products, powers) every combination, at most ``MAX_PUBLIC_ROWS``. All else is at
# its middle.


Mask = npt.NDArray[np.bool_]

#: Verbs of people whose coefficients are effects on the response itself.
EFFECT_VERBS = frozenset({"dp_ols", "dp_feols"})


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Rows of no data."""

    rows: Array  # (k, p): in the user's units
    moved: Mask  # (k, p): the columns that the variables of a row's set move
    group: npt.NDArray[np.intp]  # (k,): number of the set of variables that a row varies
    discrete: Mask  # (p,): columns that no number moves

    def in_coordinates(self, coordinates: Coordinates, M: Array) -> Array:
        """Return the rows in u, (k, r), other columns at their means; M: second moments of u."""
        p, unit, a = self.rows.shape[1], coordinates.unit, coordinates.constant
        z = self.rows * unit.scale[:p] + unit.shift[:p]
        if a is None:
            mean = z.mean(axis=0)
        else:
            back = (np.linalg.inv if len(coordinates.W0) == p else np.linalg.pinv)(coordinates.W0)
            mean = back @ mean_row(M, a)
            square = np.diag(back @ M @ back.T) / mass_of(M, a) - mean**2
            far = rules.PUBLIC_END_SDS * np.sqrt(np.maximum(square, 1e-4))
            levels = np.isin(self.rows, (0.0, 1.0)).all(axis=0)
            z = np.where(levels, z, np.clip(z, mean - far, mean + far))
        return np.asarray(np.where(self.moved, z, mean) @ coordinates.W0.T)

    def columns(self, marked: Mask) -> Mask:
        """Return which columns belong to marked rows."""
        return np.asarray(self.moved[marked].any(axis=0))


#: Where values are, by released scales, by variable.
Ends = Mapping[str, tuple[float, float]] | None


def public_rows(design: Design, ends: Ends = None) -> PublicRows | None:
    """Return the public rows of a design, or None if a range is not declared or no variable moves.

    ``ends``: where values are, by released scales; their declared ranges are cut to these.
    """
    if ends:
        return _rows(design, ends)
    rows: PublicRows | None = cached_on(design, "public rows", lambda: _rows(design, {}))
    return rows


def _moved_columns(
    at: Mapping[str, Array], filled: Callable[[dict[str, Array]], Array]
) -> dict[str, Mask]:
    """Return for each variable which columns change with it, from two bases: products with 0."""
    moves: dict[str, Mask] = {}
    for name, values in at.items():
        changed = []
        for place in (len, lambda column: (len(column) + 1) // 2):
            table = {k: np.repeat(v[place(v) - 1], len(values)) for k, v in at.items()}
            table |= {name: values}
            changed.append(np.ptp(filled(table), axis=0) > 0.0)
        moves[name] = np.any(changed, axis=0)
    return moves


def _points(variable: Any, ends: tuple[float, float] | None) -> Array:
    """Return the values of a variable at which it is looked at: levels, or ends and middle."""
    if isinstance(variable, Levels):
        return np.arange(len(variable.codes), dtype=np.int32)
    low, high = variable.interval
    if ends is not None:
        low, high = max(low, ends[0]), min(high, ends[1])
    points = (low, high) if variable.kind == "binary" else (low, (low + high) / 2.0, high)
    return np.array(points, dtype=float)


def _rows(design: Design, ends_of: Mapping[str, tuple[float, float]]) -> PublicRows | None:
    kinds = dict(design.kinds)
    if design.ids is not None:  # every public row has a label
        program: Any = design.program
        if design.ids not in variables_of(design):
            del kinds[design.ids]
        design = replace(design, program=replace(program, ids=None))
    if not kinds or any(not isinstance(v, Levels) and v.interval is None for v in kinds.values()):
        return None

    def filled(table: dict[str, Array]) -> Array:
        block = np.zeros((design.q, len(next(iter(table.values())))))
        design.fill(table, block)
        return np.asarray(block[: design.p].T)

    at = {name: _points(v, ends_of.get(name)) for name, v in kinds.items()}
    moves = _moved_columns(at, filled)
    sets = {tuple(n for n in at if moves[n][j]) for j in range(design.p)}
    sets = {s for s in sets if s and not any(set(s) < set(o) for o in sets)}
    rows, moved, group = [], [], []
    for number, names in enumerate(sorted(sets)):
        every = itertools.product(*(at[n] for n in names))
        chosen = list(itertools.islice(every, rules.MAX_PUBLIC_ROWS))
        table = {k: np.repeat(v[(len(v) - 1) // 2], len(chosen)) for k, v in at.items()}
        table |= {n: np.array([c[i] for c in chosen], at[n].dtype) for i, n in enumerate(names)}
        block = filled(table)
        block = block[np.isfinite(block).all(axis=1)]
        rows.append(block)
        moved.append(np.repeat([np.any([moves[n] for n in names], axis=0)], len(block), axis=0))
        group.append(np.full(len(block), number, dtype=np.intp))
    if not rows or not sum(map(len, rows)):
        return None
    numbers = [moves[n] for n, v in kinds.items() if not isinstance(v, Levels | Binary)]
    discrete = ~np.any([np.zeros(design.p, dtype=bool), *numbers], axis=0)
    return PublicRows(np.concatenate(rows), np.concatenate(moved), np.concatenate(group), discrete)


def is_known(effect: Array, half: Array) -> Mask:
    """Return whether effects are large against the half widths of their intervals."""
    return np.asarray(half <= rules.KNOWN_EFFECT * np.abs(effect))


def too_wide(
    design: Design, names: Sequence[str], half: Array, *, linear: bool,
    params: Array | None = None,
) -> Mask:  # fmt: skip
    """Return a mask of coefficients with intervals too wide, by declared ranges, to be useful.

    ``half``: half widths. A coefficient that is known (:func:`is_known`) is useful for any declared
    range. For effects on the response itself (``linear``) the half width, over the range of the
    column, is compared with the range of the response. For logs of ratios it is compared with
    ``log(MAX_RATIO)``.
    """
    response = None if design.response is None else design.response.interval
    most = math.log(rules.MAX_RATIO)
    if linear:
        most = math.inf if response is None else response[1] - response[0]
    width = {
        column.name: column.interval[1] - column.interval[0]
        for column in design.columns
        if column.interval is not None
    }
    wide = half * np.array([width.get(name) or 1.0 for name in names]) > most
    return np.asarray(wide if params is None else wide & ~is_known(params, half))


def wide_for_rows(design: Design, half: Array, params: Array, ends: Ends) -> Mask:
    """Return a mask of coefficients whose intervals are too wide, in a model of the response.

    The interval of a level is too wide if it is as wide as the declared range of the response, that
    of a numeric variable if it is twice as wide, over the variable's range by released scales.
    Constants and known coefficients (:func:`is_known`) are not flagged.
    """
    response = None if design.response is None else design.response.interval
    if response is None or design.scaled:
        return np.zeros(design.p, dtype=bool)
    width = []
    for column in design.columns:
        low, high = (ends or {}).get(column.name) or column.interval or (0.0, 0.0)
        if column.interval is not None:
            low, high = max(low, column.interval[0]), min(high, column.interval[1])
        part = {"intercept": 0.0, "dummy": 2.0}.get(column.kind, 1.0)
        width.append(part * (high - low))
    wide = half * np.array(width) > response[1] - response[0]
    return np.asarray(wide & ~is_known(params, half))


def effects_beyond(
    design: Design, params: Array, half_widths: Callable[[Array], Array] | None = None,
    ends: Ends = None,
) -> Mask:  # fmt: skip
    """Return a mask of columns of variables with an effect that no declared range allows.

    Such an effect is noise if its interval is as wide: an effect that is known
    (:func:`is_known`) only says that the range was declared too widely. ``half_widths`` returns
    the half widths of linear functions of the coefficients, (k, p). If it is None, no effect is
    known.

    The effect is the largest difference of ``x'b`` over the declared values of a set of variables,
    all others fixed. It is compared with ``MAX_EFFECT_RANGES`` ranges of the response. If no
    columns sum to a constant the range is extended to zero. Only for models without a link.
    """
    if design.scaled and not design.bought:
        design = unweighted(design)
    p = design.p
    beyond = np.zeros(p, dtype=bool)
    interval = None if design.response is None else design.response.interval
    if interval is None:
        return beyond
    low, high = interval
    if not (design.bought or design.has_intercept) and constant_columns(design) is None:
        low, high = min(low, 0.0), max(high, 0.0)
    most = rules.MAX_EFFECT_RANGES * (high - low)
    wide = design.intervals()[:p]
    if float(np.abs(params) @ (wide[:, 1] - wide[:, 0])) <= most:  # all columns together
        return beyond
    rows = public_rows(design, ends)
    if rows is None:
        return beyond
    for number in range(int(rows.group.max()) + 1):
        in_group = rows.group == number
        moved = rows.moved[in_group][0]
        linear = rows.rows[in_group][:, moved] @ params[moved]
        if not float(np.ptp(linear)) > most:
            continue
        doubtful = moved
        if half_widths is not None:
            effect = np.zeros((1, p))
            patterns = rows.rows[in_group][:, moved]
            effect[0, moved] = patterns[np.argmax(linear)] - patterns[np.argmin(linear)]
            if is_known(effect @ params, half_widths(effect))[0]:
                continue
            doubtful = moved & ~is_known(params, half_widths(np.eye(p)))
        beyond |= doubtful
    return beyond


def separated(
    design: Design, coordinates: Coordinates, M: Array, theta: Array, A: Array,
    least: float = rules.SEPARATED_LOGITS,
) -> Mask:  # fmt: skip
    """Return the mask of coefficients of a linear predictor that events hardly determine.

    ``theta``, (r,): the fit for u, of logits; M: second moments of u; A, (p, r): from theta to
    coefficients. If the predictor has an sd of more than ``least`` logits, nearly every row has a
    probability near 0 or 1, and the data only show that effects are this large or larger. Flagged
    are the columns with at least ``SEPARATED_PART`` of that sd, and a constant as large as that.
    """
    a = coordinates.constant
    mean = 0.0 if a is None else float(theta @ mean_row(M, a))
    mass = 1.0 if a is None else mass_of(M, a)
    sd = math.sqrt(max(float(theta @ M @ theta) / mass - mean * mean, 0.0))
    if sd <= least:
        return np.zeros(design.p, dtype=bool)
    back = np.linalg.pinv(coordinates.W0)  # from u to unit rows
    square = np.diag(back @ M @ back.T) / mass
    if a is not None:
        square = square - (back @ mean_row(M, a)) ** 2
    unit = np.abs(coordinates.unit.scale[: design.p])
    spread = np.sqrt(np.maximum(square, 0.0)) / unit
    intercept = np.array([column.kind == "intercept" for column in design.columns])
    size = np.abs(A @ theta) * np.where(intercept, 1.0, spread)
    return np.asarray(size >= rules.SEPARATED_PART * sd)


def few_events(
    design: Design, coordinates: Coordinates, state: State, theta: Array, score: Model, H: Array,
    plan: PassPlan, privacy: Array,
) -> Mask:  # fmt: skip
    """Return a mask of columns of levels with fewer than ``MIN_EVENTS`` expected events.

    The last pass was evaluated at ``state`` and gave the fit ``theta``, both for u. H is the
    information per row, and ``privacy`` the covariance of the noise of the step, in w. At most
    ``n/(w'H^-1 w)`` rows can be at a public row x, weighed as in H, and the fit gives their
    expected number of events. ``MIN_EVENTS_SDS`` noise sds of this number are subtracted, as noise
    can make up a few events of many rows. For a level in a product with a numeric variable the
    value with the most events counts. If the base level has too few, all columns of its factor and
    the constant are flagged.
    """
    rows, few = public_rows(design, coordinates.ends), np.zeros(design.p, dtype=bool)
    if rows is None:
        return few
    u = rows.in_coordinates(coordinates, state.M)
    before = u @ state.theta
    each, earlier = (score.events_of(state, before, at) for at in (u @ theta, before))
    w = u @ state.W.T
    sd = noise_at(w, privacy)
    leverage = np.sum(w * np.linalg.solve(H, w.T).T, axis=1)
    events = (each - rules.MIN_EVENTS_SDS * earlier * sd) * plan.rows / leverage
    if plan.uncut:
        longest = np.linalg.norm(w, axis=1) * score.farthest(state, before)
        events *= np.maximum(longest / plan.clip, 1.0)
    for number in range(int(rows.group.max()) + 1):
        in_group = rows.group == number
        moved = rows.moved[in_group][0]
        levels = moved & rows.discrete
        nonzero = rows.rows[in_group][:, levels] != 0.0
        patterns, which = np.unique(nonzero, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns if levels.any() else ()):
            if events[in_group][which.ravel() == k].max() < rules.MIN_EVENTS:
                few[levels] |= pattern if pattern.any() else True
                if not pattern.any():
                    few |= np.array([c.kind == "intercept" for c in design.columns])
    return few


# -- What a step leaves at public rows: how far it moves them, and what is missing. It reads no row.


def noise_at(rows: Array, privacy: Array) -> Array:
    """Return the noise sd of a step at rows in w, of its covariance ``privacy``."""
    return np.sqrt(np.maximum(np.sum((rows @ privacy) * rows, axis=1), 0.0))


def still_moving(
    rows: Array, d: Array, privacy: Array, least: float | Array = rules.MOVED_LINK
) -> npt.NDArray[np.bool_]:
    """Return a mask of rows (k, r) in w that a step d moves by more than ``least`` and noise."""
    return np.asarray(
        np.abs(rows @ d) > np.maximum(least, rules.CLEAR_OF_NOISE * noise_at(rows, privacy))
    )


def settles(rows: Array, plan: PassPlan, state: State, score: Model) -> float | Array:
    """Return the largest move of public rows (in w) by a step that has converged.

    For a model of a mean it is in link units. For a model of a residual it is a part of the size at
    which scores of rows there are clipped, or change sign.
    """
    if not score.of_residual:
        return rules.MOVED_LINK
    length = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    return np.asarray(SETTLED * math.sqrt(state.phi) * np.minimum(plan.clip / length, score.corner))


def too_long(step: Step, plan: PassPlan, before: PassPlan) -> bool:
    """Return whether a step is longer than the noise of its pass and of the one before explains.

    ``|d|^2 > STEP_OVER_NOISE phi (sd^2 + sd_before^2) |H^-1|_F^2``: of fits that have arrived the
    ratio is about 1.
    """
    noise = sum(planned.variance_of_score for planned in (plan, before))
    explained = step.state.phi * noise * float(np.sum(step.inverse * step.inverse))
    return float(step.d @ step.d) > rules.STEP_OVER_NOISE * explained


def moves_on(fit: Fitting) -> bool:
    """Return whether the last step is longer than noise explains: as a whole or at a public row.

    **Privacy.** It reads released numbers and public rows, so it may decide which pass comes next.
    """
    plan, state, step = fit.plans[-1], fit.before, fit.last
    if fit.public is None:
        return False
    if len(fit.plans) > 1 and too_long(step, plan, fit.plans[-2]):
        return True
    rows = fit.public @ state.W
    inverse, back = step.inverse, step.inverse @ step.d
    size = step.state.phi * step.sd**2 + step.nu**2 / 2.0 * float(step.d @ step.d)
    noise = size * inverse @ inverse + step.nu**2 / 2.0 * np.outer(back, back)
    least = settles(rows, plan, replace(state, phi=step.state.phi), fit.model)
    return bool(still_moving(rows, step.d, noise, least).any())


def unconverged(
    inference: Inference, seen: Array, state: State, score: Model
) -> npt.NDArray[np.bool_]:
    """Return a mask of the public rows (k, r) in u that the last step still moved.

    ``state``: the state at which the last pass was evaluated.
    """
    rows = seen @ state.W
    return still_moving(
        rows, inference.d, inference.privacy, settles(rows, inference.plan, state, score)
    )
