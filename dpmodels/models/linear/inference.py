"""Inference of moment fits: the stages of a release, then coefficients and errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.after.moments import SecondMoments, fit_statistics, kept_moments
from dpmodels.arrays import Array, chi2_upper
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.linear.solve import (
    Errors,
    Moments,
    Report,
    Scores,
    Stage,
    allowance,
    dominated_notes,
    floor_ridge,
    positive_part,
    posterior_errors,
    solve,
    stein_ridge,
)
from dpmodels.notes import Note
from dpmodels.places import ALL_ROWS, Windows
from dpmodels.planning import SPREAD, expected_errors, spreads
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.proof.prove import gram_l1, noise_of
from dpmodels.proof.sets import Ball
from dpmodels.proof.statistics import Gram
from dpmodels.records import Estimate, Request
from dpmodels.scoring.notes import empty_rows
from dpmodels.sums.ask import Ask, Read, ball_map, moments_query
from dpmodels.sums.ask import Moments as MomentsPass
from dpmodels.sums.rowmap import OneFirst, RowMap, ScoreMap
from dpmodels.sums.scaling import UnitScale, unit_scale

# -- What the plans of this room share: currency, radii of public rules, the stage rule.


#: Tolerated ratio of privacy to sampling variance in the radius rules.
PHI = 0.1
#: Share of the budget (mu^2; eps when delta = 0) of the first of two stages.
STAGE_ONE = 0.2


def ball_sd(mechanism: Gaussian | Pure, radius: float, q: int, relation: str) -> float:
    """Return s: the noise scale of ``sum z z'`` in svec coordinates.

    Laplace (pure eps): ``s = 2 b_L``, the scale with the same variance off the diagonal.
    """
    sd = float(noise_of(Gram(Ball(q)), mechanism, relation)[0]) * radius**2
    return 2.0 * sd if isinstance(mechanism, Pure) else sd


def floored_cholesky(C: Array, noise: float, *, multiple: float, least: float) -> Array:
    """Return the Cholesky factor of a released matrix per row, made safe from its noise.

    Eigenvalues are floored at ``max(multiple * noise, least)`` where the smallest is below that;
    ``noise`` is the typical spectral norm of the noise, ``s sqrt(2q)/n``.
    """
    values, vectors = np.linalg.eigh((C + C.T) / 2.0)
    floor = max(multiple * noise, least)
    if values[0] < floor:
        C = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray(np.linalg.cholesky((C + C.T) / 2.0))


def rotated(L: Array, column: int) -> Array:
    """Return another root of ``L L'``, after which one column of a row is in one coordinate alone.

    ``L O'``, O the reflection that takes ``L^{-1} e`` (the image of that column) to the last axis.
    Balls, sensitivities and the noise of a Gaussian release do not depend on the root.
    """
    image = np.linalg.solve(L, np.eye(len(L))[column])
    size = float(np.linalg.norm(image))
    if np.abs(image[:-1]).max(initial=0.0) <= 1e-12 * size:
        return L
    axis = image.copy()
    axis[-1] += size if image[-1] >= 0.0 else -size
    return np.asarray(L - np.outer(L @ axis, 2.0 * axis / float(axis @ axis)))


def stage_steps(*, two: bool, scores: float) -> dict[str, tuple[str, float]]:
    """Return the releases of one or two stages of moments and of scores, with default shares.

    ``scores`` is the share of a release of scores (0: none); the stages share the rest.
    """
    moments = 1.0 - scores
    stages = {"moments": ("moments", moments)}
    if two:
        first, second = STAGE_ONE * moments, (1.0 - STAGE_ONE) * moments
        stages = {"first": ("first moments", first), "second": ("whitened moments", second)}
    return {**stages, "scores": (SCORES, scores)}


def mu_like(mechanism: Gaussian | Pure, q: int) -> float:
    """Return mu, or for Laplace noise the mu with the same variance off the diagonal."""
    if isinstance(mechanism, Pure):
        return mechanism.eps / (math.sqrt(2.0) * gram_l1(q))
    return mechanism.mu


def second_radius(mu: float, q: int, n: int, phi: float = PHI) -> float:
    """Return R of a stage whose rows were whitened by a released matrix.

    ``R^2 = min(max(chi2_q(.95), mu sqrt(phi n)), 1.5 chi2_q(1 - .05/n))``: the predictive quantile
    of a Gaussian row, raised until noise is phi of the sampling variance.
    """
    low = chi2_upper(q, 0.05)
    return math.sqrt(min(max(low, mu * math.sqrt(phi * n)), 1.5 * chi2_upper(q, 0.05 / n)))


# -- Expected privacy errors of a moment fit, before any data: for ``plan()``


def expected_se(
    design: Design, mechanism: Gaussian | Pure, radius: float, n: int, relation: str, *,
    whitened: bool,
) -> dict[str, float]:  # fmt: skip
    """Return the expected privacy error of each coefficient (``theory.md``, 3.5).

    Assumed (public, not data): uncorrelated columns about the middle of their ranges, their sd
    and the residual's a quarter of the range. An entry of ``X'y`` has noise sd ``s / sqrt 2``; in
    whitened rows its second moments are n I, in unit rows n times the square of the spread.
    """
    unit = unit_scale(design)
    A, _ = unit.back()
    if not np.isfinite(A).all():
        return {}
    noise = ball_sd(mechanism, radius, design.q, relation) / math.sqrt(2.0) / n
    slope = spreads(design)
    # whitened: residual and column each in units of their sd; else 1 / second moment
    size = SPREAD / slope if whitened else 1.0 / slope**2
    return expected_errors(design.names, A * size, noise)


# -- From the released moments of the last stage to coefficients, errors, notes. Sees no row.
# First: parametric bootstrap of a moment fit, from released numbers only


#: Draws of the bootstrap.
DRAWS = 1000


def bootstrap(
    stage: Stage, d: Array, lam: float, v: float, *, seed: int, meat: Array | None = None
) -> Array:
    """Return draws of ``d* - d`` from released numbers only, (draws, p).

    ``h* = M d + N(0, v M) + e*`` (with scores ``N(0, meat)``), ``M* = M + E*``, solved with the
    same ridge; eigenvalues of M are floored at s for the simulation (Ferrando, Wang and Sheldon
    2022).
    """
    rng = np.random.default_rng(seed)
    m = stage.moments
    p = len(d)
    values, vectors = np.linalg.eigh(m.M)
    values = np.maximum(values, m.s)
    M = (vectors * values) @ vectors.T
    root = vectors * np.sqrt(v * values) if meat is None else np.linalg.cholesky(meat)
    out = np.empty((DRAWS, p))
    base = M @ d
    for b in range(DRAWS):
        E = np.triu(rng.normal(size=(p, p)) * np.sqrt(m.V))
        E = E + np.triu(E, 1).T
        h = base + root @ rng.normal(size=p) + rng.normal(size=p) * np.sqrt(m.vh)
        S = M + E
        extra = max(lam, m.spectral - float(np.linalg.eigvalsh(S)[0]), 0.0)
        out[b] = np.linalg.solve(S + extra * np.eye(p), h) - d
    return out


def rescaled(sampling: Array, privacy: Array, draws: Array) -> tuple[Array, Array]:
    """Scale both parts so that the total standard errors are those of the draws."""
    lo, hi = np.quantile(draws, [0.025, 0.975], axis=0)
    total = np.sqrt(np.diag(sampling) + np.diag(privacy))
    ratio = (hi - lo) / 2.0 / 1.959963984540054 / np.maximum(total, 1e-300)
    D = np.outer(ratio, ratio)
    return D * sampling, D * privacy


#: Rows' loss of weight from which the summary mentions it.
LOST_WEIGHT = 0.01
#: Part of the squared row weights that a ball leaves at least.
SHORTENED = 0.5
#: Least residual variance in whitened units.
V_FLOOR = 1e-3


def errors(m: Moments, d: Array, A: Array, lam: float, free: float, least: float) -> Errors:
    """Compute errors by the delta method: ``V = A (v M + Cn) A``.

    ``v = max((t - 2 h'd + d'Md + tr(A Cn)) / (n_eff - p), floor)``; the trace takes the
    second-order bias of the quadratic form off. Where M is not positive (a ridge is then active)
    its positive part stands for it.
    """
    Cn = m.coefficient_noise(d)
    rss = m.t - 2.0 * float(m.h @ d) + float(d @ m.M @ d) + float(np.sum(A * Cn))
    v = max(rss / free, least)
    meat = v * (positive_part(m.M) if lam > 0 else m.M)
    return Errors(A @ meat @ A, A @ Cn @ A, v, meat, np.zeros_like(d))


def _free(stage: Stage, facts: Report) -> float:
    n_eff = stage.effective_rows(facts.rows, facts.unit, intercept=facts.has_constant)
    return max(n_eff - len(stage.Q) + 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class LastFit:
    """The unshrunk fit of the last stage in its own coordinates, and its errors."""

    d: Array  # ``(M + lam I)^{-1} h``
    lam: float  # Positive only where the noise dominates
    free: float  # ``n_eff - p``
    errors: Errors


def last_fit(facts: Report) -> LastFit:
    """Solve the last stage; its errors are model-based, or a sandwich where scores were released.

    The sandwich is ``J A S A J' n_eff / (n_eff - p)`` (HC1), S the released meat, J what row
    weights that depend on the residual do to the bread; the allowance for them is ``(J - I) d``.
    """
    stage = facts.stages[-1]
    m = stage.moments
    lam = 0.0 if facts.request.options.get("ridge") == "none" else floor_ridge(m)
    d, A = solve(m, lam)
    free = _free(stage, facts)
    # floor of v: 1e-3 of the second moment of the (whitened: unit) response
    least, p = V_FLOOR, len(d)
    if np.array_equal(stage.L, np.eye(p + 1)):
        least *= max(float(stage.Q[p, p]), math.sqrt(float(stage.V[p, p]))) / free
    fit_errors = errors(m, d, A, lam, free, least)
    if facts.scores is None:
        fit_errors = replace(fit_errors, weight_shift=allowance(facts, d))
    else:
        J = facts.scores.weighting(stage.radius, free)
        turn = (m.M + lam * np.eye(len(d))) @ J @ A  # J A = A turn
        meat = (free + len(d)) / free * turn @ facts.scores.meat @ turn.T
        fit_errors = replace(fit_errors, sampling=A @ meat @ A, meat=meat, weight_shift=J @ d - d)
    return LastFit(d, lam, free, fit_errors)


def report(facts: Report) -> Estimate:
    """Report unshrunk least squares from the last stage (a ridge only where noise dominates)."""
    fit = last_fit(facts)
    d, lam, fit_errors = fit.d, fit.lam, fit.errors
    warnings, notes = list(facts.warnings), list(facts.notes)
    if lam > 0:
        warnings.append(
            "the noise dominates some direction of the design: a ridge holds the fit near "
            f"{facts.towards}, so the coefficients are biased"
            + (" and the intervals unreliable" if facts.biased_errors else "")
        )
        if facts.request.inference and not facts.biased_errors:
            fit_errors = posterior_errors(facts, d, fit_errors)
            notes += dominated_notes(facts, fit_errors)
    return _finish(facts, d, fit_errors, lam=lam, notes=notes, warnings=warnings)


def shrink_report(facts: Report) -> Estimate:
    """Report coefficients of the Stein ridge, with errors of the unshrunk last stage and a note.

    Where noise dominates, the errors are those of the shrunk coefficients under a public prior.
    """
    stage = facts.stages[-1]
    fit = last_fit(facts)
    lam, fit_errors = fit.lam, fit.errors
    shrunk = stein_ridge(stage.moments)
    notes = [
        *facts.notes,
        messages.STEIN(
            towards=facts.towards, lam=shrunk.lam, factor=shrunk.factor,
            errors="" if lam > 0 else "Standard errors are those of the unshrunk estimate.",
        ),
    ]
    if lam > 0 and facts.request.inference:
        fit_errors = posterior_errors(facts, shrunk.d, fit_errors)
        notes += dominated_notes(facts, fit_errors)
    arrays = (*facts.arrays, ("params_unshrunk", _params(facts, stage, fit.d)))
    return _finish(
        replace(facts, arrays=arrays), shrunk.d, fit_errors, lam=shrunk.lam, notes=notes,
        warnings=list(facts.warnings),
    )  # fmt: skip


def _empty_note(facts: Report) -> list[Note]:
    """Return a note on the share of dropped rows, if the released count exceeds its noise.

    The cell of the intercept is ``sum c^2``, c the factor of a row: 0 if it is empty, below 1 if it
    was shortened. Only against a public n.
    """
    if not facts.has_constant or facts.request.relation != "replace":
        return []
    stage = facts.stages[-1]
    cell = float(stage.L[0, 0] / facts.unit.scale[0]) ** 2
    lost = 1.0 - cell * float(stage.Q[0, 0]) / facts.rows
    sd = cell * math.sqrt(float(stage.V[0, 0])) / facts.rows
    return empty_rows(lost, sd, facts.design, shortened=stage.radius < math.inf)


def _weights_note(facts: Report, effective: float) -> list[Note]:
    """Return a note on the share of weight that rows lost by shrinking or as zero rows.

    It says that coefficients can differ from least squares. There is no note with one stage, nor
    where the share is small and the ball would not shrink a Gaussian row.
    """
    lost = 1.0 - effective / facts.rows
    if len(facts.stages) < 2:
        return []
    if lost < LOST_WEIGHT:
        stage = facts.stages[-1]
        if stage.radius >= second_radius(math.inf, len(stage.Q), round(facts.rows)):
            return []  # a Gaussian row is not shrunk
        return [messages.LIGHT_WEIGHTS(share=100.0 * LOST_WEIGHT)]
    zero = "incomplete rows" + (" or rows outside subset=" if facts.design.subset else "")
    return [messages.LOST_WEIGHTS(zero=zero, share=100.0 * lost)]


def _params(facts: Report, stage: Stage, d: Array) -> Array:
    B, a = facts.unit.back()
    return B @ stage.back(d) + a


def _finish(
    facts: Report, d: Array, fit_errors: Errors, *,
    lam: float, notes: list[Note], warnings: list[str],
) -> Estimate:  # fmt: skip
    """Map coefficients and errors to the user's units and build the estimate."""
    stage, keep = facts.stages[-1], facts.request.inference
    T = facts.unit.back()[0] @ stage.slope
    sampling, privacy = T @ fit_errors.sampling @ T.T, T @ fit_errors.privacy @ T.T
    out: dict[str, Any] = dict(facts.arrays)
    unshrunk = fit_errors.unknown is None
    if keep and unshrunk and facts.request.options.get("inference_method") == "bootstrap":
        meat = None if facts.scores is None else fit_errors.meat
        draws = bootstrap(stage, d, lam, fit_errors.v, seed=0, meat=meat) @ T.T
        sampling, privacy = rescaled(sampling, privacy, draws)
        out["bootstrap_deviations"] = draws
        notes.append(messages.BOOTSTRAP(draws=DRAWS))
    shift = T @ fit_errors.weight_shift
    privacy = privacy + np.outer(shift, shift)
    if fit_errors.unknown is not None:
        for part in (sampling, privacy):
            part[fit_errors.unknown] = part[:, fit_errors.unknown] = math.nan
    stats = {
        "noise_sd": stage.s,
        "ridge": lam,
        "radius": stage.radius,
        "effective_rows": stage.effective_rows(
            facts.rows, facts.unit, intercept=facts.has_constant
        ),
        **dict(facts.stats),
    }
    notes += _empty_note(facts)
    notes += _weights_note(facts, stats["effective_rows"]) if keep else []
    if keep and unshrunk:
        stats["sigma"] = math.sqrt(fit_errors.v) * float(stage.L[-1, -1] / facts.unit.scale[-1])
    if keep and not (fit_errors.unknown is not None and fit_errors.unknown.all()):
        if facts.scores is None:
            notes.append(messages.MOMENT_ERRORS())
        else:
            notes.append(facts.scores.note(_free(stage, facts), fit_errors.v))
        if not facts.design.has_intercept:
            notes.append(messages.NO_COUNT())
    if facts.scores is not None:
        noise = facts.scores.noise(_free(stage, facts), fit_errors.v)
        stats.update(score_radius=facts.scores.radius, score_noise=noise)
        out["scores"] = facts.scores.S
        if facts.scores.outside is not None:
            out["scores_outside"] = facts.scores.outside
    out["moments"] = stage.Q
    # the last release is kept for later uses of a fit; R-squared where it means one
    back = unit_back(facts.unit) @ stage.L
    m = SecondMoments(stage.Q, stage.V, float(facts.rows), back[0] if facts.has_constant else None)
    out |= kept_moments(m, back)
    if stage.radius < math.inf:
        out["released_weighted"] = np.ones(1)
    if facts.has_constant:
        stats |= fit_statistics(m, back[:-1], back[-1])
    out["moment_coordinates"] = stage.L
    if len(facts.stages) > 1:
        out["first_moments"] = facts.stages[0].Q
    return Estimate(
        facts.design.names, _params(facts, stage, d), vcov_sampling=sampling if keep else None,
        vcov_privacy=privacy, stats=stats, notes=tuple(notes), warnings=tuple(warnings), arrays=out,
    )  # fmt: skip


def unit_back(unit: UnitScale) -> Array:
    """Return the (q, q) map from unit rows (response last) to the columns of the design."""
    S = np.diag(unit.scale)
    if unit.intercept:
        S[:, 0] += unit.shift  # the intercept cell of a complete row is 1
    return np.asarray(np.linalg.inv(S))


# -- The passes of ``ssp`` and ``pmt``: rows into a ball, moments out, one whitened by the other.


@dataclass(frozen=True)
class Passes:
    """State that all passes of one call share."""

    ask: Ask
    design: Design
    unit: UnitScale
    relation: str
    # Put the constant 1 in front of every row (the design has no intercept column).
    constant: bool = False
    per: float = 0.0  # Public guess of the rows of a person, where that is the unit; 0: rows

    @property
    def q(self) -> int:
        """Columns of a mapped row."""
        return self.design.q + self.constant


@dataclass(frozen=True, eq=False)
class Stages:
    """Released stages of a call, in the order of the passes: the detail of its release."""

    unit: UnitScale
    stages: tuple[Stage, ...]
    scores: Scores | None = None  # With ``vcov="hetero"``


def ball_stage(
    passes: Passes, L: Array | None, radius: float, step: str, mechanism: Gaussian | Pure,
    windows: Windows = ALL_ROWS, every: int = 1,
) -> Stage:  # fmt: skip
    """Release the moments of ``min(1, R/|w|) w``, ``w = L^{-1} unit row``. One pass.

    Privacy
    -------
    The mechanism of the step. L and the radius must be public or released before. With
    ``every = k`` each row is read with probability 1/k, by secret coins. By person the ball is that
    of the trace of a person's rows (``units.md``, 2 and 10).
    """
    q = passes.q
    inverse = None if L is None else np.asarray(np.linalg.inv(L), dtype=np.float64)
    rowmap = ball_map(passes.unit, radius, inverse)
    over = MomentsPass(
        passes.design, OneFirst(rowmap) if passes.constant else rowmap, people=passes.per > 0.0
    )
    answer = passes.ask(step, moments_query(over, radius=radius), Read(every, windows))
    return Stage(answer.values, answer.variance, np.eye(q) if L is None else L, radius)


def whitened_stage(
    passes: Passes, first: Stage, mechanism: Gaussian | Pure, *, n: int,
    first_n: int | None = None, phi: float, radius: float, floor: float, least: float,
) -> Stage:  # fmt: skip
    """Whiten (and re-centre) by a released first stage, and release the moments again.

    ``C2 = L Q1/n L'`` with the eigenvalues of ``Q1/n`` floored at ``max(floor s1 sqrt(2q)/n,
    least)`` where the smallest is below that. ``radius = 0``: by rule. ``first_n``: rows that the
    first stage read, if not all. The released sum of squared row weights stands for n if it is
    below half of it: a ball shortens rows by less.
    """
    q, design = passes.q, passes.design
    read: float = n if first_n is None else first_n
    intercept = passes.constant or (design.has_intercept and not design.scaled)
    released = first.effective_rows(read, passes.unit, intercept=intercept)
    if released < SHORTENED * read:  # rows are missing
        n, read = max(round(n * released / read), 1), released
    noise = first.s * math.sqrt(2.0 * q) / read
    K = floored_cholesky(first.Q / read, noise, multiple=floor, least=least)
    # whitened is the trace of a person: phi is for rows, of which each person has `per`
    R = radius or second_radius(mu_like(mechanism, q), q, n, phi / (passes.per or 1.0))
    L = first.L @ K
    grid = None if passes.per else passes.design.grid
    if grid is not None and len(grid.numbers) == 1:  # rows can then be added up by cell
        L = rotated(L, grid.numbers[0] + passes.constant)
    return ball_stage(passes, L, R, "whitened moments", mechanism)


# -- Standard errors that allow unequal variances: one more release, the moments of the scores.
#
# At the released coefficients d of the last stage, row i of weighted least squares has the score
# ``c_i^2 x_i (r_i - x_i'd)``. Whitened by the released bread and scaled into a ball, scores are
# rows in a ball: their Gram matrix goes out as every other one does. Its inverse maps give the meat
# of a sandwich (``theory.md``, 4.1).


#: Share of the budget (mu^2; eps when delta = 0) of the scores.
SCORES_SHARE = 0.1
#: Squared radius of the scores over their mean square ``p v``, at least.
SCORE_RADIUS = 3.0
#: Noise of a variance, relative to it, up to which a larger radius costs nothing that matters.
QUIET = 0.15
#: Above this relative noise the standard errors are themselves too noisy: advice.
HIGH_NOISE = 0.3
#: Name of the step.
SCORES = "scores"


def score_share(request: Request) -> float:
    """Return the share of the scores: 0 without them, ``split=`` before the default."""
    if request.options.get("vcov") in (None, "iid"):
        return 0.0
    if not request.inference:
        raise RequestError(
            "vcov='hetero' spends a part of the budget on standard errors, and inference=False "
            "asks for none: drop one of them"
        )
    return SCORES_SHARE if request.split is None else float(request.split.get(SCORES, SCORES_SHARE))


def _unit_noise(mechanism: Gaussian | Pure, p: int, relation: str, *, parts: int) -> float:
    """Return ``s_1``: the noise scale, at radius 1, of the sum of ``parts`` released matrices."""
    return math.sqrt(parts) * ball_sd(mechanism, 1.0, parts * p, relation)


def noise_figure(
    mechanism: Gaussian | Pure | None, p: int, n: int, relation: str, *, two: bool
) -> float | None:
    """Return the noise sd of a robust variance, relative to it, under the radius rule. Public.

    None if no scores are released. ``two``: rows on the ball of the second stage are summed apart.

    With ``G^2 = v max(3 p, QUIET n / s_1)`` (``s_1``: noise scale at radius 1) the noise of the
    meat over ``n v`` is ``max(3 p s_1 / n, QUIET)``: the unknown v cancels.
    """
    if mechanism is None:
        return None
    return max(SCORE_RADIUS * p * _unit_noise(mechanism, p, relation, parts=1 + two) / n, QUIET)


def score_facts(figure: float | None) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the relative noise (``figure``) as a scale of a plan, and advice if it is large."""
    if figure is None:
        return {}, ()
    advice = (
        f"the robust variances would carry a noise of {figure:.0%} of their size (above "
        f"{HIGH_NOISE:.0%}): vcov='iid', a larger share ('scores' in split=), more rows or a "
        "larger eps give steadier intervals",
    )
    return {"relative noise of robust variances": figure}, advice if figure > HIGH_NOISE else ()


def release_scores(passes: Passes, facts: Report, mechanism: Gaussian | Pure) -> Scores:
    """Release the second moments of the scores at the released fit of the last stage. One pass.

    Privacy
    -------
    The mechanism of the step "scores". Row map, coefficients, whitening and radius are public or
    were released before, so a row changes one score in a ball. After two stages the scores of
    rows on the ball of the second are a separate block (:class:`ScoreMap`).
    """
    stage = facts.stages[-1]
    fit = last_fit(facts)
    p = len(fit.d)
    n_eff = fit.free + p
    m = stage.moments
    K = floored_cholesky(m.M / n_eff, m.spectral / n_eff, multiple=1.0, least=1e-9)
    matrix = np.asarray(np.linalg.inv(K))
    apart = len(facts.stages) > 1
    s1 = _unit_noise(mechanism, p, passes.relation, parts=1 + apart)
    square = fit.errors.v * max(SCORE_RADIUS * p, QUIET * n_eff / s1)
    # a bound of |matrix x (r - x'd)| over all mapped rows (x, r). Over |x|^2 + r^2 <= R^2:
    # |x||r - x'd| <= R^2 (|d| + sqrt(1 + |d|^2)) / 2; over the unit box: sqrt(p) + p |d|
    size = float(np.linalg.norm(fit.d))
    if math.isinf(stage.radius):
        top, rows = math.sqrt(p) + p * size, RowMap(passes.unit, np.ones(p + 1))
    else:
        top = stage.radius**2 * (size + math.sqrt(1.0 + size * size)) / 2.0
        inverse = np.asarray(np.linalg.inv(stage.L), dtype=np.float64)
        rows = ball_map(passes.unit, stage.radius, inverse)
    radius = min(math.sqrt(square), top * float(np.linalg.norm(matrix, 2)))
    scoremap = ScoreMap(rows, fit.d, matrix, radius, apart)
    over = MomentsPass(passes.design, scoremap)
    S = passes.ask(SCORES, moments_query(over, radius=radius)).values
    outside = S[p:, p:] if apart else None
    return Scores(S[:p, :p], K, radius, s1 * radius**2, outside)
