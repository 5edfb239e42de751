"""``dp_ate``: release of an average treatment effect, and the entry of its method (``theory.md``).

Augmented inverse probability weighting in one call: a private logit of the treatment, a private
model of the outcome in each arm, balance and overlap, and the mean of the influence function at
these. The two fits are those of ``dp_glm`` at a part of the budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.release import End, Own, Program, run
from dpmodels.core.units import LengthsOfMeans, Masses, MeansInBalls
from dpmodels.families import FAMILIES, LINKS
from dpmodels.formula.design import Design
from dpmodels.models.treatment.estimate import EffectRelease, estimate, turns_of
from dpmodels.models.treatment.facts import Assignment, Fitted, Influence
from dpmodels.models.treatment.forecast import (
    Columns,
    Overlap,
    Tail,
    centres_of,
    clip_of_slopes,
    crossed_noise,
    denominator,
    errors_of_means,
    lengths_of_slopes,
    tamed,
)
from dpmodels.models.treatment.plan import (
    BALANCE,
    BOTH_ARMS,
    EFFECT_STEP,
    FIT,
    LENGTHS,
    OUTCOME,
    OVERLAP,
    PRODUCTS,
    SLOPES,
    EffectPlan,
    Nuisance,
    base_of,
    plan,
    without,
)
from dpmodels.models.treatment.rows import (
    COUNT_WEIGHT,
    BalanceRows,
    EffectRows,
    OverlapRows,
    SquareRows,
)
from dpmodels.planning import Plan
from dpmodels.ranges import no_ranges, ranged_design, widen_ranges
from dpmodels.records import Release
from dpmodels.registry import BOUNDS_SHARE, Backend, Method, Option, register_method
from dpmodels.scoring.clip import Lengths
from dpmodels.scoring.fit import Part, estimate_fit, release_fit
from dpmodels.scoring.models import axes
from dpmodels.sums.ask import Ask, Labelled, Noisy

#: Cells of the propensity, even in its logit; one more lies beyond each end.
OVERLAP_CELLS = 24
#: Ends of these cells without bounds: their edges hold .1 and .9.
WIDEST = 1.0 / 82.0, 81.0 / 82.0
#: Units of the rarer arm, times mu of the outcome model over k^1.5 for k covariates, for a model
#: of its own.
ENOUGH = 15.0
#: Numbers of a fit beyond this say nothing.
LARGEST = 1e30
#: Weights count up to this many times their mean.
LARGEST_WEIGHT = 8.0
#: Radius of squares in root mean squares, over the root of mu n; its least and largest value.
GROWS_OF_SQUARES, LEAST_RADIUS, MOST_RADIUS = 0.16, 4.0, 12.0


def finite(values: Any) -> Array:
    """Return released numbers with 0 for those that are none, products of which stay finite."""
    return np.clip(np.nan_to_num(np.asarray(values)), -LARGEST, LARGEST)


def _nuisance_fit(part: Nuisance, detail: EffectPlan, joint: Design) -> Program:
    """Release a nuisance fit; return its estimate and its index in the joint design.

    Its steps are steps of the whole, within its share.
    """
    design = part.ranged(joint, detail.crossing)
    sub_plan = replace(part.sub_plan, design=part.design)

    def fit_of_part(ask: Ask) -> Release:
        labelled: Any = Labelled(ask, part.label)
        labelled.pay(FIT, sub_plan.steps)
        return release_fit(sub_plan, labelled, design)

    released = yield Own(fit_of_part)
    inverse: dict[str, Array] = {}

    def bread(fit: Part) -> dict[str, Array]:
        scale = fit.unit**2 if fit.release.score is None or fit.release.score.of_residual else 1.0
        inverse["bread"] = fit.T @ fit.inference.inverse @ fit.T.T * scale
        return {}

    estimate = estimate_fit(sub_plan, released, lambda _: {}, arrays=bread)
    crossing = [joint.names[j] for j in detail.crossing]
    base = [base_of(name, crossing) for name in design.names]
    half = None if detail.fold is None else joint.names[detail.fold]
    plain = [without(name, crossing[0]) for name in design.names]
    return estimate, Fitted(
        tuple(joint.names.index(name) for name in base),
        finite(estimate.params), root_of(finite(estimate.vcov_privacy)), finite(inverse["bread"]),
        np.eye(len(base)), np.eye(len(base)), released.detail.coordinates.mean_weight,
        detail.fold, tuple(half is not None and without(name, half) != name for name in plain),
    )  # fmt: skip


def _by_arm(both: Fitted, names: tuple[str, ...], treated: str) -> tuple[Fitted, Fitted]:
    """Return the models of both arms from that of covariates times the treatment."""
    every = list(zip(both.places, both.crossed, strict=True))
    columns = list(dict.fromkeys(every))
    places, crossed = zip(*columns, strict=True)
    out = []
    for arm in (1.0, 0.0):
        T = np.zeros((len(columns), len(names)))
        for j, (name, column) in enumerate(zip(names, every, strict=True)):
            T[columns.index(column), j] = 1.0 if without(name, treated) == name else arm
        U, sizes, into = np.linalg.svd(T @ both.root, full_matrices=False)
        out.append(
            Fitted(
                places, T @ both.coef, U * sizes, both.bread @ T.T, T, into, both.mean_weight,
                both.fold, crossed,
            )
        )
    return out[0], out[1]


def root_of(V: Array) -> Array:
    """Return the symmetric root of a covariance."""
    values, vectors = axes(V)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def release(plan: Plan[EffectPlan], ask: Ask) -> Release:
    """Run the program of an effect over the private rows.

    Privacy
    -------
    Unit: one row, or one person by the mean over its complete rows; replace-one, n public.
    Charged: the steps of the plan (``theory.md``, 2).
    """
    end = run(effect_program(plan), ask)
    if end.why:
        return no_ranges(plan)
    return Release(end.values, plan.guarantee, end.design, detail=end.detail)


def effect_program(plan: Plan[EffectPlan]) -> Program:
    """Release the fits, balance and overlap, lengths, sums and squares.

    Each is evaluated at public and released numbers alone.
    """
    detail, n = plan.detail, plan.public_n
    joint = yield Own(functools.partial(ranged_design, plan, wide=True))
    if joint is None:
        return End(why="ranges")
    read = widen_ranges(joint, plan.design)
    ends = joint.response.interval
    answers: dict[str, Noisy] = {}
    first, propensity = yield from _assignment(detail, joint)
    overlap = yield from _overlap(first, detail, read, n, answers)
    at, outcome, shared = yield from _influence(first, overlap, detail, joint, n)
    balance, centred = yield from _balance(at, joint, read, overlap.largest, answers)
    columns = Columns.of(balance, centred)
    treated, control = at.outcomes if shared else (tamed(model, columns) for model in at.outcomes)
    at = replace(at, propensity=tamed(at.propensity, columns), outcomes=(treated, control))
    centres = centres_of(at, balance, centred, ends)
    rows = EffectRows(at, centres, max((ends[1] - ends[0]) / 2.0, 1e-300), overlap.part)
    away = errors_of_means(at, columns, outcome, ends)
    tails, clips, residual = yield from _clips(
        detail, rows, columns, overlap, n, read, answers, ends, away
    )
    steps = (EFFECT_STEP, BOTH_ARMS, SLOPES)
    sizes = zip(steps, (1, 1, rows.width), clips, strict=True)
    balls = MeansInBalls(*((name, size, clip, rows.unit) for name, size, clip in sizes))
    noisy = yield core.Release(EFFECT_STEP, balls, rows, read)
    answers.update(zip(steps, noisy, strict=True))
    count, count_sd = denominator(at, centred, answers[BALANCE], n)
    residual *= rows.unit
    pair = [float(answers[k].values[0]) / count for k in (EFFECT_STEP, BOTH_ARMS)]
    treated_mean, control_mean = (np.array(centres) + np.linalg.solve(rows.turn, pair)).tolist()
    means = treated_mean, control_mean
    facts = EffectRelease(
        rows, count, count_sd, clips, answers, tails, means, overlap,
        balance.centre[:-1], balance.half[:-1], centred,
        min(max(GROWS_OF_SQUARES * math.sqrt(n * detail.divided.mu), LEAST_RADIUS), MOST_RADIUS),
        crossed_noise(at, columns, overlap, residual * shared), (propensity, outcome), residual,
    )  # fmt: skip
    corrected = SquareRows(replace(rows, centres=means), turns_of(facts, n), facts.scales)
    products = MeansInBalls((PRODUCTS, 2, facts.radius, 1.0), products=True)
    (answers[PRODUCTS],) = yield core.Release(PRODUCTS, products, corrected, read)
    return End({k: v.values for k, v in answers.items()}, joint, detail=facts)


def _assignment(detail: EffectPlan, joint: Design) -> Program:
    """Release the propensity model; return it with its estimate."""
    estimate, propensity = yield from _nuisance_fit(detail.propensity, detail, joint)
    place = joint.auxiliary_place("weights")
    largest = None if place is None else joint.z[place].interval
    # weights count up to a multiple of their released mean (``theory.md``, 1)
    top = 1.0 if largest is None else min(largest[1], LARGEST_WEIGHT * propensity.mean_weight)
    return Assignment(detail.estimand, detail.treated, place, top, propensity), estimate


def _influence(
    first: Assignment, overlap: Overlap, detail: EffectPlan, joint: Design, n: int
) -> Program:
    """Release the outcome model; return influence functions, its estimate, whether arms share it.

    Few units of an arm do not tell how its outcome depends on covariates: then both arms share it.
    """
    rarer = n * min(float(arm.sum()) / overlap.total for arm in overlap.clear)
    enough = ENOUGH * (len(detail.outcome.design.names) / 2.0) ** 1.5 / detail.mu(OUTCOME)
    part = detail.outcome if rarer >= enough else detail.shared
    estimate, both = yield from _nuisance_fit(part, detail, joint)
    models = _by_arm(both, part.design.names, joint.names[detail.treated])
    assert joint.response is not None and joint.response.interval is not None
    at = Influence(
        **{name.name: getattr(first, name.name) for name in fields(first)},
        clip=overlap.clip, outcomes=models,
        link=LINKS[FAMILIES[detail.family].link], most=joint.response.interval[1],
    )  # fmt: skip
    return at, estimate, part is detail.shared


def _clips(
    detail: EffectPlan, rows: EffectRows, columns: Columns, overlap: Overlap, n: int,
    read: Design, answers: dict[str, Noisy], ends: tuple[float, float], away: tuple[float, float],
) -> Program:  # fmt: skip
    """Release histograms of lengths; return tails, clips of the three sums, and a residual's sd."""
    noisy = yield core.Release(LENGTHS[0], LengthsOfMeans(*LENGTHS), rows.lengths, read)
    answers.update(zip(LENGTHS, noisy, strict=True))
    difference, total = (
        Tail.of(Lengths(bins.values, float(bins.sd[0])), overlap, rows, k, ends, away)
        for k, bins in enumerate(noisy)
    )
    spread = float(np.sum(overlap.likely * overlap.weights**2)) / overlap.total
    residual = math.sqrt(difference.mean_square / max(spread, 1e-300))
    derivatives = lengths_of_slopes(rows, columns, overlap, residual)
    slopes = clip_of_slopes(derivatives, detail.mu(SLOPES), n, rows.width)
    clips = difference.clip(detail.mu(EFFECT_STEP), n), total.clip(detail.mu(BOTH_ARMS), n), slopes
    return (difference, total), clips, residual


def _overlap(
    first: Assignment, detail: EffectPlan, read: Design, n: int, answers: dict[str, Noisy]
) -> Program:
    """Release the masses of the cells of the propensity in both arms."""
    link = LINKS["logit"]
    low, high = map(link.forward, detail.clip or WIDEST)
    edges = link.inverse(np.linspace(low, high, OVERLAP_CELLS + 1))
    cells = OverlapRows(first, edges)
    answers[OVERLAP] = yield core.Release(OVERLAP, Masses(2 * cells.cells), cells, read)
    mu = detail.mu(EFFECT_STEP)
    return Overlap.of(first.estimand, edges, answers[OVERLAP], detail.clip, mu, n)


def _balance(
    at: Influence, joint: Design, read: Design, most: tuple[float, float],
    answers: dict[str, Noisy],
) -> Program:  # fmt: skip
    """Release moments of both arms before and after weighting; return the five blocks."""
    columns = enumerate(joint.columns)
    apart = (at.treated, at.propensity.fold)
    covariates = [j for j, c in columns if c.kind != "intercept" and j not in apart]
    places = (*covariates, joint.q - 1)
    ends = joint.intervals()[list(places)]
    half = np.maximum((ends[:, 1] - ends[:, 0]) / 2.0, 1e-300)
    rows = BalanceRows(at, places, ends.mean(axis=1), half, most)
    ball = MeansInBalls((BALANCE, rows.size, rows.radius, 1.0))
    (answers[BALANCE],) = yield core.Release(BALANCE, ball, rows, read)
    k, moments = len(places) + 1, answers[BALANCE].values
    blocks = np.zeros((5, k))
    blocks[:4] = moments[: 4 * k].reshape(4, k)
    blocks[4, 1:] = moments[4 * k :]
    blocks[:, 0] /= COUNT_WEIGHT
    return rows, blocks


ATE_BACKEND = Backend(plan, release, estimate, people=True)

register_method(
    Method(
        name="aipw",
        verb="dp_ate",
        title="Augmented inverse probability weighting",
        backend=ATE_BACKEND,
        proof="models/treatment/theory.md",
        needs=("delta > 0", "several passes"),
        reference="Robins, Rotnitzky and Zhao (1994); Chernozhukov et al. (2018); theory note "
        "models/treatment/theory.md",
        options=(
            Option("treatment", "the column (or comparison) of the treatment", "", str),
            Option("outcome", "formula of the outcome models, without the treatment", "", str),
            Option("propensity", "right-hand side of the model of the treatment", "", str),
            Option(
                "estimand", "'ATE', of all; 'ATT', of the treated", "ATE", str,
                choices=("ATE", "ATT"), other_words={"att": "ATT", "atet": "ATT", "ate": "ATE"},
            ),
            Option(
                "family",
                "of the outcome models: 'gaussian', 'binomial' or 'poisson'; None: by the declared "
                "response (a number, 0/1, a count)",
                None, str, choices=("gaussian", "binomial", "poisson"),
            ),
            Option(
                "folds",
                "column of 0 and 1 that divides the rows into halves: each is evaluated at the "
                "models of the other",
                None, str,
            ),
            Option(
                "clip",
                "bounds of the propensity, two numbers; None: those of the shortest interval",
                None, object,
            ),
            BOUNDS_SHARE,
        ),
        accepts=("weights",),
        aside=True,
    )
)  # fmt: skip
