"""Private Fisher scoring over rows as one program: releases, and the Newton steps between them.

Read :func:`scoring_fit` first: centres and scales, start, passes, reserve. Each ``yield`` is one
reading of the rows (:class:`dpmodels.core.release.Release`). What stands between two of them uses
public and released numbers alone. :func:`row_of` is the only place where a model meets a row.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.after.moments import counted_rows
from dpmodels.arrays import Array
from dpmodels.core.parallel import MATRICES, Parallel, Released, costs_of_pass
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, linear
from dpmodels.core.sets import Moments
from dpmodels.formula.design import Design
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.known import Known, known_entries
from dpmodels.scoring.models import Start, State, mean_row
from dpmodels.scoring.notes import moves_on, public_rows, too_long
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.passes import reach, row_of
from dpmodels.scoring.rows import RowsPlan
from dpmodels.scoring.run import Fitting, Schedule, ScoringRelease, centre_of
from dpmodels.scoring.scales import WeightPlan, located, weighed
from dpmodels.scoring.step import newton_step
from dpmodels.sums.ask import Read
from dpmodels.sums.rowmap import RowMap

#: A part of a program: it yields releases, receives noisy numbers, and returns a result.
Asking = Generator[Any, Any, Any]


def fit_rows(
    to: Schedule, relation: str, design: Design, rows: Design, usable: float
) -> Generator[Any, Any, tuple[ScoringRelease, Mapping[str, str]]]:
    """Release a fit of rows; return the released fit and remarks on its steps, for the ledger.

    ``design`` has every range, ``rows`` those that cells are clipped at. ``usable``: released part
    of the rows that is usable.
    """
    public = to.coordinates(design)
    plan: RowsPlan = to.scoring(public.rank, relation, design).followed(to, usable)
    coordinates = yield from coordinates_of(plan, to, public, rows)
    if coordinates.rank != public.rank:
        plan = to.scoring(coordinates.rank, relation, design).followed(to, usable)
    fits = yield from scoring_fit(plan, coordinates, rows)
    planned, used = len(plan.passes), len(fits[0].plans) - len(plan.passes)
    remark = f"{planned} passes planned, {used} more used of {len(plan.more)}"
    return ScoringRelease(coordinates, tuple(fits)), {rules.RESERVE: remark} if plan.more else {}


def scoring_fit(to: RowsPlan, coordinates: Coordinates, rows: Design) -> Asking:
    """Fit models of rows: start from least squares in a ball, then take one Newton step per pass.

    If the fit still moves after the planned passes, the reserve pays for more.

    Parameters
    ----------
    to : RowsPlan
        Public: what each release costs, and the rules for radii and clips.
    coordinates : Coordinates
        Released centres and scales.
    rows : Design
        Columns that formulas see.

    Returns
    -------
    list of Fitting
        The models after the last pass.
    """
    fits = yield from start_of(to, coordinates, rows)
    *early, last = to.passes
    for k, planned in enumerate(early, 1):
        fits = yield from scoring_pass(to, k, planned, fits, coordinates, rows)
    used, payer = 0, rules.RESERVE if to.more else ""
    while used < len(to.more) and any(map(moves_on, fits)):
        planned, last = to.more[used]
        used += 1
        fits = yield from scoring_pass(
            to, len(early) + used, planned, fits, coordinates, rows, rules.RESERVE
        )
    k = len(early) + used + 1
    return (yield from scoring_pass(to, k, last, fits, coordinates, rows, payer))


def coordinates_of(
    to: RowsPlan, schedule: Schedule, coordinates: Coordinates, rows: Design
) -> Asking:
    """Release centres and scales of numbers, and the mean weight; return coordinates by these."""
    many = to.pilot.start(to.n) * to.usable
    clear = to.start * many / to.radius**2 / math.sqrt(to.p)
    for scale in schedule.scales:
        if isinstance(scale, WeightPlan):
            coordinates = yield from weighed(scale, coordinates, rows)
        else:
            coordinates = yield from located(scale, coordinates, rows, clear)
    return coordinates


def start_of(to: RowsPlan, coordinates: Coordinates, rows: Design) -> Asking:
    """Release least squares of rows in one ball, and begin all models there.

    Privacy
    -------
    Gaussian DP for one row with the planned mu: second moments of rows in a ball, or the steps of
    another method for the start.
    """
    scores = [chain.score.bound(rows, coordinates.unit) for chain in to.chains]
    r, guess, read = coordinates.rank, to.pilot.start(to.n), to.pilot.read_start(len(to.passes) - 1)
    if to.opening is not None:
        alone = replace(read, then=())
        start, values = yield from to.opening.begin(to.start, coordinates, rows, alone, guess)
        many = float(guess)
    else:
        rowmap = RowMap(coordinates.unit, np.full(r + 1, to.radius), matrix=coordinates.start)
        matrix, shift = rowmap.affine
        turn = None
        if rows.numbers_first:  # then few coordinates depend on numbers of a row
            assert rows.grid is not None
            turn = np.linalg.qr(matrix[:, list(rows.grid.numbers)], mode="complete")[0]
            matrix, shift = turn.T @ matrix, None if shift is None else turn.T @ shift
        working = scores[0].working

        def row(z: Rows) -> Rows:
            return linear(matrix, z if working is None else z.put(-1, working.of(z)), shift)

        moments = yield Release("start", Moments(r + 1, to.radius), row, rows, read)
        Q, sd = moments.values, float(moments.sd[0, 0])
        Q = Q if turn is None else turn @ Q @ turn.T
        many = guess * to.usable
        if to.relation != "replace":
            many = rows_of_start(Q, sd, many, coordinates)
        start, values = Start.of(Q, sd, many, coordinates), {"start": Q}
    rare = scores[0].can_be_rare
    places = public_rows(rows, coordinates.ends) if rare or to.more else None
    seen = None if places is None else places.in_coordinates(coordinates, start.M)
    public = getattr(start, "fits", ())
    states = [fit.state for fit in public] or [score.start(start) for score in scores]
    if rare and seen is not None and not public:
        states = [within_reach(state, seen) for state in states]
    return [
        Fitting(chain, score, state, values, seen, counted=many / guess)
        for chain, score, state in zip(to.chains, scores, states, strict=True)
    ]


def rows_of_start(Q: Array, sd: float, guess: float, coordinates: Coordinates) -> float:
    """Return the released number of rows of a start, or the guess if it cannot be released.

    This is so if there is no constant, or if noise hides the count. Rows are shortened by the ball,
    so the count is a little too small. The last pass releases a better one.
    """
    a = coordinates.constant
    if a is None:
        return guess
    count = counted_rows(Q[:-1, :-1], a)
    return count if count > rules.CLEAR_OF_NOISE * sd * float(a @ a) else guess


def within_reach(state: State, seen: Array) -> State:
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


def scoring_pass(
    to: RowsPlan, k: int, planned: PassPlan, fits: Sequence[Fitting], coordinates: Coordinates,
    rows: Design, payer: str = "",
) -> Asking:  # fmt: skip
    """Release pass k of all models in one reading; return the models after their Newton steps.

    ``payer``: the reserve, if it pays for this pass.
    """
    read = to.pilot.read(last=planned.last)
    plans = [
        planned.suited(
            fit.model.typical_long(fit.state), fit.model, to.passes[-1],
            reach(fit.model, fit.state, coordinates, rows),
        ) for fit in fits
    ]  # fmt: skip
    if any(plan.rare for plan in plans):
        # events are rare: if only one row in k were read, noise would be k times larger relative
        # to them
        every = to.n * to.usable
        read, plans = Read(), [replace(plan, rows=every, tail_rows=every) for plan in plans]
    requests, turns = [], []
    for fit, plan in zip(fits, plans, strict=True):
        into, name = Parallel(plan, coordinates.rank), fit.chain.step(k)
        formula, turn = row_of(
            centre_of(fit.model, replace(fit.state, last=plan.last), coordinates, rows),
            into.step, plan.clip_of_weights,
        )  # fmt: skip
        costs = costs_of_pass(plan, name) if payer else ()
        steps = tuple(LedgerStep(label, Gaussian(mu)) for label, mu in costs if mu)
        requests.append(Release(name, into, formula, rows, read, payer, steps))
        turns.append(turn)
    answers = yield tuple(requests)
    entries = known_entries(rows, coordinates)
    return [
        after_pass(to, fit, plan, turn, sums, entries)
        for fit, plan, turn, sums in zip(fits, plans, turns, answers, strict=True)
    ]


def after_pass(
    to: RowsPlan, fit: Fitting, plan: PassPlan, turn: Array, sums: Released,
    entries: Known | None,
) -> Fitting:  # fmt: skip
    """Return the fit after the Newton step of a pass, in coordinates before the rotation Q.

    There the released sums are ``Q X Q'`` and ``Q s``.
    """
    matrices = {
        name: turn @ matrix @ turn.T
        for name in MATRICES
        if (matrix := getattr(sums, name)) is not None
    }
    taken = None if sums.taken is None else sums.taken @ turn.T
    sums = replace(sums, score=turn @ sums.score, taken=taken, **matrices)
    fit = fit.recounted(sums.bins, plan.noise.count, to.n, to.relation)
    state, plan = fit.state, plan.of_rows(plan.rows / to.usable * fit.counted)
    projection = None if entries is None else entries.projection(state.W)
    if projection is not None:
        sums, plan = projection.applied(sums, plan)
    step = newton_step(sums, plan, state, fit.model)
    still = bool(to.more and fit.plans and fit.model.averages) and (
        state.length(step.d) > fit.before.length(fit.last.d) and too_long(step, plan, fit.plans[-1])
    )
    return fit.after(plan, sums, state, step, on_its_way=still)
