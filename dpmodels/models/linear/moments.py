"""``dp_ols`` by noisy second moments: ``"ssp"`` from public ranges, ``"pmt"`` from public data.

One stage: one joint release of the moments of unit rows. Two stages: the first release whitens
(and re-centres) the rows of the second, which takes most of the budget (``theory.md``, 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.after.moments import counted_rows
from dpmodels.arrays import Array, chi2_upper
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.linear import scored
from dpmodels.models.linear.inference import (
    Passes,
    Stages,
    ball_sd,
    ball_stage,
    expected_se,
    mu_like,
    noise_figure,
    release_scores,
    report,
    score_facts,
    score_share,
    second_radius,
    shrink_report,
    stage_steps,
    whitened_stage,
)
from dpmodels.models.linear.scored import (
    LinearModel,
    PublicFit,
    PublicWhitening,
    combined,
    public_fit,
    public_radius,
    public_whitening,
    start_stage,
)
from dpmodels.models.linear.solve import Report, Stage
from dpmodels.notes import Note
from dpmodels.places import ALL_ROWS, Windows
from dpmodels.planning import Plan, enough_rows, guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.proof.prove import gram_sensitivity, intercept_sensitivity
from dpmodels.proof.statistics import Split as SplitMoments
from dpmodels.ranges import Split, gaussian_part, no_ranges, ranged_design
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    GUESS,
    ORDER_OPTION,
    PERSON_WEIGHTS,
    PHI,
    PMT_PAPER,
    PUBLIC_RADIUS,
    SHRINK,
    STAGES,
    STOP,
    Backend,
    Ending,
    Method,
    Option,
    one_of,
    positive,
    register_method,
)
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.scoring.pass_plan import coin_share, noise_ratio, pilot_windows
from dpmodels.scoring.rules import FIRST_NOISE
from dpmodels.scoring.run import Schedule
from dpmodels.sums.ask import Ask, bounded_moments_query
from dpmodels.sums.rowmap import unit_rows
from dpmodels.sums.scaling import UnitScale

#: Two stages up to this public noise ratio (``theory.md`` 3.3).
TWO_STAGE_RATIO = 0.06
#: Part of the slopes' largest squared norm that the ball of the first release covers at least.
BALL_PART = 0.25
#: Noise of an eigenvalue per row up to which a larger ball costs nothing that matters.
BALL_NOISE = 0.02
#: Eigenvalues of the first release are floored at this multiple of its noise.
NOISE_FLOOR = 0.5
LEAST_MOMENT_EIGENVALUE = 1e-6
#: Weights (a, b, c, e, f) of X'X, X'y, y'y, sum x, sum y: the moment matrix of (1, x, y), with
#: y'y improved for free. S^2 = 18.
INTERCEPT_WEIGHTS = (1.0, math.sqrt(2.0), math.sqrt(6.0), math.sqrt(2.0), math.sqrt(2.0))
#: Public noise ratio above which the noise exceeds the signal: a ridge will act.
RIDGE_RATIO = 0.4
#: And above which most coefficients have no errors: .09 to .20 of them had at ratios of .17 to .6,
#: all at .04 [N, 16 skewed tables, ten samples each].
OPEN_RATIO = 0.1


@dataclass(frozen=True)
class SspDetail:
    """Decisions of ``ssp`` before the first row is read."""

    rows: int  # Row count of the public rules (n, or the guess)
    # The query of the first stage with separate bounds; None: rows scaled into a ball.
    bounded: SplitMoments | None
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    # phi, radius: ``radius``: given radius of the last stage (0: by rule).
    phi: float
    radius: float
    row_norm: float = math.inf  # Declared length of a unit row's slopes
    windows: Windows = ALL_ROWS  # The rows that the first of two stages reads
    every: int = 1  # It reads each of them with probability 1 / ``every``, by secret coins
    scores: Gaussian | Pure | None = None  # Mechanism of the scores, for ``vcov="hetero"``


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="ssp")`` that ends by moments alone."""
    rows = enough_rows(request, design, n)
    p, q = design.p, design.q
    scores = score_share(request)
    part = gaussian_part(request, design.unknown)
    moments = part.mechanism((1.0 - part.share) * (1.0 - scores))
    x = noise_ratio(mu_like(moments, q), p, rows)
    two, why = stages_of(
        request, x, TWO_STAGE_RATIO, "ratio sqrt(16 p)/(mu n) =",
        (", so a first release is worth its share as a guide to the second",
         ", too noisy for a first release to guide a second"),
    )  # fmt: skip
    if request["query"] == "bounded" and request.delta == 0:
        raise RequestError("query='bounded' has its proof for Gaussian noise: give delta > 0")
    if request["query"] == "bounded" and request["row_norm"]:
        raise RequestError(
            "query='bounded' needs a bound that holds for every row, which row_norm= is not: "
            "leave one of them out"
        )
    split = Split(request, design, stage_steps(two=two, scores=scores))
    first, second = split["first" if two else "moments"], split.parts.get("second")
    third = split.parts.get("scores")
    bounded = _bounded(request, design) if request["query"] == "bounded" else None
    guided = two and bounded is None
    # In a table sorted by a private column one row replaced moves the others between windows.
    ordered = guided and n is not None and bool(request["public_order"])
    detail = SspDetail(
        rows, bounded, first, second, float(request["phi"]), float(request["radius"] or 0.0),
        float(request["row_norm"] or math.inf),
        pilot_windows(design, rows, x) if ordered else ALL_ROWS,
        coin_share(FIRST_NOISE / x, rows) if guided and not ordered else 1, third,
    )  # fmt: skip
    noisy, advice = score_facts(
        noise_figure(third, p, rows, request.relation, two=second is not None)
    )
    return split.plan(
        n,
        scales={**_scales(detail, design, x), **noisy},
        expected_se=_expected(detail, design, x, relation=request.relation),
        detail=detail,
        reasons=(*request.reasons, why),
        advice=(*_advice(x), *advice),
        verdict="not determined" if x > OPEN_RATIO else "",
        passes=len(split.steps) + bool(design.unknown),
    )


def stages_of(
    request: Request, value: float, most: float, what: str,
    after: tuple[str, str] = ("", ""), *, digits: bool = True,
) -> tuple[bool, str]:  # fmt: skip
    """Return whether there are two stages, and why: as asked, or up to ``most`` of a figure."""
    stages = request["stages"]
    two = stages == 2 if stages in (1, 2) else value <= most
    words, sign = ("two-stage release", "at most") if two else ("one-stage release", "above")
    if stages in (1, 2):
        return two, f"{words} (stages={stages})"
    return two, (
        f"{words} (public noise {what} {value:.3g}, {sign} {most:g}){after[0 if two else 1]}"
    )


def separate_weights(ratio: float) -> tuple[float, float, float, float]:
    """Return (a, b, c, S) that minimise the noise variance of ``e - E b`` for the query above.

    Parameters
    ----------
    ratio : float
        ``A / B`` with ``A = (p+1)/2 r^2 R_x^4`` and ``B = p R_x^2 R_y^2``: how much the noise of
        X'X matters beside that of X'y (r^2 a public guess of the R-squared).
    """
    if ratio < 1e-9:
        tau = 2.0
    else:
        tau = (math.sqrt(0.25 + 4.0 * ratio) - 0.5) / (2.0 * ratio)
    S = math.sqrt(2.0) * (1.0 + tau / 2.0)
    c = math.sqrt(max(S * S - 2.0 - tau, 0.0))
    return 1.0, math.sqrt(tau), c, S


def count_weight(S: float, a: float, b: float, c: float, e: float, f: float) -> float:
    """Return the largest weight at which the count of complete rows joins the query for free.

    Two complete rows do not move the count; a complete and a zero row are at most
    ``a^2 + b^2 + c^2 + e^2 + f^2 + k^2`` apart, which may not exceed ``S^2``.
    """
    room = S * S / (1.0 + 1e-8) - (a * a + b * b + c * c + e * e + f * f)
    return math.sqrt(max(room, 0.0))


def split_query(p: int, square: float, *, known: bool, relation: str, r2: float) -> SplitMoments:
    """Choose the weights of the moments of rows with separate bounds on x and y.

    Parameters
    ----------
    p : int
        Coefficients, intercept included.
    square : float
        Bound on the squared norm of the slopes in unit rows.
    known : bool
        The first column is an intercept that every complete row has: sums and count are cells.
    relation : {"replace", "add-remove"}
    r2 : float
        Public guess of the R-squared.
    """
    rx, ry = math.sqrt(square), 1.0
    if known:
        a, b, c, e, f = INTERCEPT_WEIGHTS
        if relation == "replace":
            # the largest at which the count of complete rows joins for free
            k = count_weight(intercept_sensitivity(a, b, c, e, f), a, b, c, e, f)
        else:
            k = math.sqrt(5.0)
        return SplitMoments(p, True, (a, b, c, e, f, k), rx, ry)
    ratio = (p + 1.0) / (2.0 * p) * r2 * rx**2 / ry**2
    a, b, c, _ = separate_weights(ratio)
    return SplitMoments(p, False, (a, b, c, 0.0, 0.0, 0.0), rx, ry)


def _bounded(request: Request, design: Design) -> SplitMoments:
    """Return the query of second moments with separate bounds of predictors and response."""
    complete = design
    if design.unknown:
        # norms do not depend on where an estimated range lies
        complete = design.with_bounds(dict.fromkeys(design.unknown, (-1.0, 1.0)))
    _, square = unit_rows(complete)
    known_constant = design.has_intercept and not design.scaled
    square += 0.0 if known_constant or not design.has_intercept else 1.0
    return split_query(design.p, square, known=known_constant, relation=request.relation, r2=0.5)


def _unit_rows(design: Design, row_norm: float) -> tuple[UnitScale, float]:
    """Return the map to unit rows, and the mean squared slopes for which the ball has room.

    A declared length is less than the box has; privacy depends on the ball alone, so a longer row
    only causes bias.
    """
    unit, square = unit_rows(design)
    return unit, min(square, row_norm**2)


def first_radius(
    square: float, mechanism: Gaussian | Pure, q: int, n: int, relation: str, *,
    constant: float = 1.0, response: float = 1.0,
) -> float:  # fmt: skip
    """Return the radius of the first release's ball, from public numbers only.

    At least ``R^2 = 1 + |slopes|^2 / 4 + 1/2`` (intercept, slopes, response, where there are any),
    at most the whole domain; between them as large as keeps the noise of an eigenvalue per row,
    ``s sqrt(2q)/n = sqrt2 R^2 sqrt(2q) / (mu n)``, at .02. Rows beyond it are scaled down
    (weighted least squares): the noise falls with R^2 for every row, while a row loses only what
    it exceeds.
    """
    size = gram_sensitivity(q, relation) * math.sqrt(2.0 * q)
    quiet = BALL_NOISE * mu_like(mechanism, q) * n / size
    least, most = constant + BALL_PART * square + response / 2.0, constant + square + response
    return math.sqrt(min(max(least, quiet), most))


def _first(detail: SspDetail, design: Design, square: float, n: int, relation: str) -> float:
    """Return the radius of the first of ``ssp``'s releases, or of its only one."""
    if detail.second is None and detail.radius:
        return detail.radius
    constant = float(design.has_intercept)
    return first_radius(square, detail.first, design.q, n, relation, constant=constant)


def _scales(detail: SspDetail, design: Design, x: float) -> dict[str, float]:
    """Return the public numbers that a plan prints."""
    out = {"public noise ratio": x}
    if detail.second is not None:
        mu = mu_like(detail.second, design.q)
        out["radius of whitened rows"] = detail.radius or second_radius(
            mu, design.q, detail.rows, detail.phi
        )
    return out


def _expected(detail: SspDetail, design: Design, x: float, *, relation: str) -> dict[str, float]:
    """Return expected privacy errors; none where ranges are estimated or the ridge will act."""
    if design.unknown or detail.bounded is not None or x > RIDGE_RATIO:
        return {}
    if detail.second is not None:
        R = _scales(detail, design, x)["radius of whitened rows"]
        return expected_se(design, detail.second, R, detail.rows, relation, whitened=True)
    _, square = _unit_rows(design, detail.row_norm)
    R = _first(detail, design, square, detail.rows, relation)
    return expected_se(design, detail.first, R, detail.rows, relation, whitened=False)


def _advice(x: float) -> tuple[str, ...]:
    """Return a warning if the noise will exceed the signal."""
    if x <= RIDGE_RATIO:
        return ()
    return (
        f"the noise will exceed the signal (public noise ratio {x:.2g}, above {RIDGE_RATIO:g}): "
        "every method is then about as good as answering zero. More rows, a larger eps or fewer "
        "columns help",
    )


def release(plan: Plan[SspDetail], ask: Ask) -> Release:
    """Release noisy second moments of rows in one or two passes, then those of scores if asked for.

    Privacy
    -------
    Unit: one row; replace-one (n public) or add-remove. Charged: the steps of the plan.
    """
    detail = plan.detail
    relation = plan.request.relation
    # whitening takes the width of a range out again, so a wide one costs the first stage only
    design = ranged_design(plan, ask, wide=detail.second is not None)
    if design is None:
        return no_ranges(plan)
    unit, square = _unit_rows(design, detail.row_norm)
    passes = Passes(ask, design, unit, relation)
    name = "moments" if detail.second is None else "first moments"
    used = detail.windows.count(detail.rows) // detail.every
    if detail.bounded is not None:
        assert isinstance(detail.first, Gaussian)
        answer = ask(name, bounded_moments_query(design, detail.bounded))
        first = Stage(answer.values, answer.variance, np.eye(design.q), math.inf)
    else:
        radius = _first(detail, design, square, used, relation)
        first = ball_stage(passes, None, radius, name, detail.first, detail.windows, detail.every)
    stages = [first]
    if detail.second is not None:
        second = whitened_stage(
            passes, first, detail.second, n=detail.rows, first_n=used, phi=detail.phi,
            radius=detail.radius, floor=NOISE_FLOOR, least=LEAST_MOMENT_EIGENVALUE,
        )  # fmt: skip
        stages.append(second)
    return _finished(plan, passes, stages, detail.scores)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last stage back to the user's units."""
    if not release.reply:
        return no_ranges_note(release.design.names)
    facts = _facts(plan, release.design, release.detail)
    return shrink_report(facts) if plan.request["ridge"] == "stein" else report(facts)


def _finished(
    plan: Plan[Any], passes: Passes, stages: Sequence[Stage], mechanism: Gaussian | Pure | None
) -> Release:
    """Return the release of some stages, after that of the scores where a plan has them.

    Privacy
    -------
    That of :func:`release_scores`.
    """
    released = Stages(passes.unit, tuple(stages))
    values = {f"Q{i}": stage.Q for i, stage in enumerate(stages, 1)}
    if mechanism is not None:
        scores = release_scores(passes, _facts(plan, passes.design, released), mechanism)
        released, values = replace(released, scores=scores), {**values, **scores.values}
    return Release(values, plan.guarantee, passes.design, detail=released)


def _facts(plan: Plan[Any], design: Design, released: Stages) -> Report:
    """Collect the public and released numbers of which the estimate is made."""
    detail, rows = plan.detail, float(plan.detail.rows)
    public = isinstance(detail, PmtDetail)
    first = "the public fit" if public else "zero"
    if plan.request.relation == "add-remove" and design.has_intercept and not design.scaled:
        stage = released.stages[-1]
        rows = counted_rows(stage.Q, stage.L[0] / released.unit.scale[0])
    return Report(
        design=design,
        unit=released.unit,
        stages=released.stages,
        rows=rows,
        request=plan.request,
        notes=() if public else tuple(plan.reason_notes),
        towards="the first-stage fit" if detail.second is not None else first,
        scores=released.scores,
    )


MOMENTS_BACKEND = Backend(plan, release, estimate)


# -- ``dp_ols(method="pmt")``: joint whitening by public second moments.
#
# One release of the moments of rows that were whitened by public data, response last, and scaled
# into a ball as a whole; or two, the second whitened by the first (``theory.md``, 2 and 3).


#: Two stages while the first release's relative noise is at most this (``theory.md`` 3.3).
TWO_STAGE_NOISE = 0.15
PUBLIC_FLOOR = 2.0
PUBLIC_LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class PmtDetail:
    """Decisions of ``pmt`` from public facts."""

    white: PublicWhitening
    rows: int  # Row count of the public rules (n, or the guess)
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    # radius, second_radius: radii of the two passes. The second is chosen by rule if it is 0.
    radius: float
    second_radius: float
    phi: float
    scores: Gaussian | Pure | None = None  # Mechanism of the scores, for ``vcov="hetero"``
    per: float = 0.0  # Public guess of the rows of a person, where that is the unit; 0: rows


def whitening_of(request: Request, design: Design, n: int | None) -> PublicWhitening:
    """Return the whitening by the public data, which are part of the request."""
    if request.public is None:
        raise RequestError(
            "method='pmt' needs public data: public= a table with the same columns, or second "
            "moments. Without public data use method='ssp'"
        )
    enough_rows(request, design, n)  # first: without a guess there is nothing to plan
    return public_whitening(
        request.public, separate=request["whitening"] == "separate", shrink=request["shrink"]
    )


def plan_pmt(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="pmt")`` that ends by moments alone."""
    return whitened_plan(request, design, n, whitening_of(request, design, n))


def first_noise(mu: float, q: int, n: int) -> float:
    """Return ``sqrt2 chi2_q(.95)/mu sqrt(2q)/n``, the relative noise of a first release."""
    return math.sqrt(2.0) * chi2_upper(q, 0.05) / mu * math.sqrt(2.0 * q) / n


def whitened_plan(
    request: Request, design: Design, n: int | None, white: PublicWhitening
) -> Plan[Any]:
    """Plan stages, shares and radii of publicly whitened rows, from public facts."""
    rows = planning_rows(request, n)
    q = len(white.L)
    scores = score_share(request)
    moments = gaussian_part(request, ()).mechanism(1.0 - scores)
    noise = first_noise(mu_like(moments, q), q, rows)
    two, why = stages_of(request, noise, TWO_STAGE_NOISE, "figure")
    split = Split(request, design, stage_steps(two=two, scores=scores), ranged=False)
    first, second = split["first" if two else "moments"], split.parts.get("second")
    third = split.parts.get("scores")
    phi = float(request["phi"])
    radius_option = request["radius"]
    per = guessed_rows(request)
    radius = public_radius(
        white, mu_like(first, q), rows, phi=phi / (per or 1.0),
        rule=None if two and radius_option != "loo" else radius_option,
    )  # fmt: skip
    if per and not (isinstance(radius_option, float) and not two):
        radius *= math.sqrt(per)
    after = float(radius_option) if two and isinstance(radius_option, float) else 0.0
    detail = PmtDetail(white, rows, first, second, radius, after, phi, third, per)
    noisy, advice = score_facts(noise_figure(third, q - 1, rows, request.relation, two=two))
    return split.plan(
        n,
        scales={**_public_scales(detail, q, request.relation), **noisy},
        detail=detail,
        reasons=(*request.reasons, why),
        advice=(*_public_advice(detail, request, q - 1), *advice),
        passes=len(split.steps),
    )


def _public_scales(detail: PmtDetail, q: int, relation: str) -> dict[str, float]:
    """Return the public numbers that a plan with public data prints."""
    out = {
        "radius of whitened rows": detail.radius,
        "noise scale per row": ball_sd(detail.first, detail.radius, q, relation) / detail.rows,
    }
    if detail.second is not None:
        out["radius of the second stage"] = detail.second_radius or second_radius(
            mu_like(detail.second, q), q, detail.rows, detail.phi / (detail.per or 1.0)
        )
    return out


def _public_advice(detail: PmtDetail, request: Request, p: int) -> tuple[str, ...]:
    """Return public advice, before anything is spent."""
    white, n, m = detail.white, detail.rows, detail.white.moments.m
    q = p + 1
    out = []
    s = ball_sd(detail.first, detail.radius, q, request.relation)
    if detail.second is None and s * math.sqrt(2.0 * p) / n > 0.5:
        out.append(
            "the noise will exceed the signal: more rows, a larger eps or fewer columns help"
        )
    if white.shrink > 0:
        out.append(
            f"few public rows (m = {m}, {q} columns): their moments were shrunk towards the "
            f"diagonal by {white.shrink:.2g}"
        )
    if m is None:
        out.append("the number of public rows is unknown, so radii are 20 % larger. Give m=")
    elif request["stages"] == 1 and m < 50 and n > 20_000:
        out.append(
            "one stage with few public rows and many private ones under-covers: stages=2 re-centres"
        )
    if request.eps > 10:
        out.append(f"eps = {request.eps:g} is weak protection")
    return tuple(out)


def release_pmt(plan: Plan[PmtDetail], ask: Ask) -> Release:
    """Release noisy second moments of whitened rows in one or two passes, then those of scores.

    Privacy
    -------
    Unit: one row; replace-one (n public) or add-remove. Charged: the steps of the plan. Privacy
    never depends on the public data being right.
    """
    detail = plan.detail
    unit = UnitScale(1.0 / detail.white.scale, np.zeros(len(detail.white.scale)), False)
    constant = plan.design.response is None
    passes = Passes(ask, plan.design, unit, plan.request.relation, constant, detail.per)
    name = "moments" if detail.second is None else "first moments"
    stages = [ball_stage(passes, detail.white.L, detail.radius, name, detail.first)]
    if detail.second is not None:
        second = whitened_stage(
            passes, stages[0], detail.second, n=detail.rows, phi=detail.phi,
            radius=detail.second_radius, floor=PUBLIC_FLOOR, least=PUBLIC_LEAST,
        )  # fmt: skip
        stages.append(second)
    return _finished(plan, passes, stages, detail.scores)


def diagnostics(stage: Stage, n: int) -> tuple[str, ...]:
    """Compare the private second moment with the public one: ``Q1/n`` should be near I.

    Free: a function of the released matrix and its known noise.
    """
    q = len(stage.Q)
    slack = 2.0 * stage.s * math.sqrt(2.0 * q) / n
    least = float(np.linalg.eigvalsh(stage.Q / n)[0])
    trace = float(np.trace(stage.Q)) / n
    wide = slack * math.sqrt(q)
    why = []
    if least < 0.2 - slack:
        why.append(f"smallest eigenvalue {least:.2g} below .2")
    if trace > 0.9 * stage.radius**2 + wide:
        why.append("most private rows lie outside the public ball")
    if trace < q / 2.0 - wide:
        why.append("the private rows spread much less")
    if not why:
        return ()
    return (f"the public data look different from the private data: {'; '.join(why)}",)


def public_only_fit(
    white: PublicWhitening, names: tuple[str, ...]
) -> tuple[PublicFit | None, list[Note], dict[str, Array]]:
    """Return the public-only fit (None without one), the note that shows it, and its arrays."""
    fit = public_fit(white.moments) if white.moments.response_scale is None else None
    if fit is None:
        return None, [], {}
    cells = ", ".join(
        f"{name} {b:.4g}" + (f" ({s:.2g})" if math.isfinite(s) else "")
        for name, b, s in zip(names, fit.params, fit.bse, strict=True)
    )
    rows = "unknown m" if fit.m is None else f"m = {fit.m}"
    note = messages.PUBLIC_ONLY(rows=rows, cells=cells)
    return fit, [note], {"public_params": fit.params, "public_bse": fit.bse}


def estimate_pmt(plan: Plan[PmtDetail], release: Release) -> Estimate:
    """Map the last stage back, show the public-only fit next to it, and combine them on request."""
    detail = plan.detail
    released: Stages = release.detail
    request, design = plan.request, release.design
    public, shown, arrays = public_only_fit(detail.white, design.names)
    # levels that the public data hold so rarely that their rows are scaled down
    C = np.asarray(detail.white.moments.moments)
    dummies = [(c.name, C[j, j]) for j, c in enumerate(design.columns) if c.kind == "dummy"]
    rare = [name for name, square in dummies if 1.0 / square > detail.radius**2]
    notes = plan.reason_notes
    if rare:
        notes.append(messages.PUBLIC_RARE(columns=rare))
    notes += shown
    facts = replace(
        _facts(plan, design, released),
        biased_errors=True,
        notes=tuple(notes),
        warnings=diagnostics(released.stages[0], detail.rows),
        stats=(("shrinkage_of_public_moments", detail.white.shrink),),
        arrays=tuple(arrays.items()),
    )
    fit = shrink_report(facts) if request["ridge"] == "stein" else report(facts)
    return with_public(fit, public, request)


def with_public(fit: Estimate, public: PublicFit | None, request: Request) -> Estimate:
    """Combine, or say that the public fit may be the better one."""
    if public is None:
        return fit
    if request["combine"]:
        return combined(fit, public)
    # of people no residual variance is released to compare with
    sampling, privacy = fit.vcov_sampling, fit.vcov_privacy
    if "sigma" in fit.stats and sampling is not None and privacy is not None:
        prior = public.covariance(float(fit.stats["sigma"]) ** 2)
        ours = float(np.sum(public.C * (sampling + privacy)))
        if prior is not None and float(np.sum(public.C * prior)) < ours:
            text = (
                "by the standard errors the public-only fit is more accurate than the private one; "
                "combine=True uses both if they share their coefficients"
            )
            return replace(fit, warnings=(*fit.warnings, text))
    return fit


PMT_BACKEND = Backend(plan_pmt, release_pmt, estimate_pmt)


# -- The ending of ``pmt`` by scoring: the passes of :mod:`.scored`, whitened by public moments.


def estimate_pmt_scored(plan: Plan[Schedule], release: Release) -> Estimate:
    """Return the estimate of a scoring fit, with the public-only fit next to it."""
    detail, model = plan.detail, plan.detail.model
    assert isinstance(model, LinearModel) and model.white is not None
    white = model.white
    fit = scored.estimate(plan, release)
    public, shown, arrays = public_only_fit(white, release.design.names)
    unlike: tuple[str, ...] = ()
    if plan.request.unit is None:  # of people no start is released to compare
        unlike = diagnostics(start_stage(plan, release), detail.pilot.start(detail.rows))
    fit = replace(
        fit,
        notes=(*fit.notes, *shown),
        arrays={**fit.arrays, **arrays},
        warnings=(*fit.warnings, *unlike),
        stats={**fit.stats, "shrinkage_of_public_moments": white.shrink},
    )
    return with_public(fit, public, plan.request)


PMT_SCORED = Backend(
    lambda request, design, n: scored.plan(request, design, n, whitening_of(request, design, n)),
    scored.release, estimate_pmt_scored, people=True,
    title="least squares, private, from public moments",
)  # fmt: skip


# -- Methods of linear regression, as data.


_INFERENCE_METHOD = one_of(
    "inference_method", "'delta' method, or parametric 'bootstrap' from released numbers", "delta",
    "bootstrap",
)  # fmt: skip


_ROW_NORM = positive(
    "row_norm",
    "public bound on the length of a row of predictors, each over half of its declared range "
    "(about the middle where there is an intercept); None: the bound by the ranges",
)
_ROW_RADIUS = positive("radius", "radius of the rows of the last stage; None: by rule")

_RIDGE = one_of(
    "ridge",
    "'floor': only where noise dominates; 'stein': by Stein's estimate of the loss; 'none'",
    "floor", "stein", "none",
)  # fmt: skip

_RANGES = Option(
    "ranges",
    "accepted, without effect on a fit by scores: centre and scale of every number are always "
    "released first", "declared", str, choices=("declared", "uncertain"),
)  # fmt: skip


register_method(
    Method(
        name="ssp", verb="dp_ols", proof="models/linear/theory.md", foretells=True,
        title="least squares from noisy moments", backend=MOMENTS_BACKEND,
        endings=(Ending(scored.SCORED_BACKEND, scored.why_not, "moments only"),),
        needs=("ranges", "two passes"), relations=("replace", "add-remove"),
        accepts=("weights", "design"),
        reference=(
            "Vu and Slavkovic 2009; Dwork, Talwar, Thakurta and Zhang 2014; two stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(
            STAGES,
            one_of(
                "query",
                "first release: rows in a 'ball', or separate bounds on x and y ('bounded')",
                "ball", "bounded",
            ),
            _RIDGE, replace(PHI, default=0.5), _ROW_RADIUS, _ROW_NORM, _INFERENCE_METHOD,
            scored.VCOV, scored.SCORING, _RANGES, BOUNDS_SHARE, GUESS, ORDER_OPTION, PERSON_WEIGHTS,
            STOP,
        ),
    )
)  # fmt: skip


_PUBLIC_OPTIONS = (
    STAGES,
    one_of(
        "whitening", "'joint' with the response, or x and y 'separate' as published", "joint",
        "separate",
    ),
    SHRINK, Option("combine", "combine with the public-only fit by precision", False, bool), _RIDGE,
    PHI, PUBLIC_RADIUS, _INFERENCE_METHOD, scored.VCOV, scored.SCORING, GUESS,
)  # fmt: skip

register_method(
    Method(
        name="pmt", verb="dp_ols", proof="models/linear/theory.md",
        title="least squares whitened by public moments", backend=PMT_BACKEND,
        endings=(Ending(PMT_SCORED, scored.why_not, "moments only"),),
        needs=("public data", "two passes"), relations=("replace", "add-remove"),
        accepts=("weights", "public", "design"),
        reference=(
            f"after '{PMT_PAPER}'; joint whitening, radii and stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(*_PUBLIC_OPTIONS, PERSON_WEIGHTS),
    )
)  # fmt: skip
