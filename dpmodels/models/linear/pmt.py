"""``dp_ols(method="pmt")``: joint whitening by public second moments.

One release of the moments of rows that were whitened by public data, response last, and scaled
into a ball as a whole; or two, the second whitened by the first (``theory.md``, 2 and 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.linear import scored
from dpmodels.models.linear.inference import (
    SCORES,
    Passes,
    Stages,
    ball_stage,
    currency,
    finished,
    mu_like,
    noise_figure,
    report,
    score_advice,
    score_scales,
    score_share,
    second_radius,
    shrink_report,
    stage_shares,
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
from dpmodels.planning import Plan, enough_rows, guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.proof.sets import chi2_upper
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.scoring.run import ScoredDetail
from dpmodels.sums.ask import Ask, ball_sd
from dpmodels.sums.rowmap import UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["estimate_pmt_scored", "plan_pmt_scored", "release"]


#: Two stages while the first release's relative noise is at most this (``theory.md`` 3.3).
TWO_STAGE_NOISE = 0.15
FLOOR = 2.0
LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class PmtDetail:
    """What ``pmt`` decided from public facts.

    Attributes
    ----------
    white : PublicWhitening
    rows : int
        Row count of the public rules (n, or the guess).
    first, second : mechanism, mechanism or None
    radius, second_radius : float
        Of the two passes; ``second_radius`` 0: by rule.
    scores : mechanism or None
        Of the scores, for ``vcov="hetero"``.
    per : float
        Public guess of the rows of a person, where that is the unit; 0: rows.
    """

    white: PublicWhitening
    rows: int
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    radius: float
    second_radius: float
    phi: float
    scores: Gaussian | Pure | None = None
    per: float = 0.0


def two_stages(mu: float, q: int, n: int) -> tuple[bool, float]:
    """Return (rule, value): ``sqrt2 chi2_q(.95)/mu sqrt(2q)/n <= .15``."""
    value = math.sqrt(2.0) * chi2_upper(q, 0.05) / mu * math.sqrt(2.0 * q) / n
    return value <= TWO_STAGE_NOISE, value


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


def whitened_plan(
    request: Request, design: Design, n: int | None, white: PublicWhitening
) -> Plan[Any]:
    """Plan stages, shares and radii of publicly whitened rows, from public facts."""
    rows = planning_rows(request, n)
    q = len(white.L)
    budget = currency(request)
    scores = score_share(request)
    two, why = _stages(request, mu_like(budget.part(1.0 - scores), q), q, rows)
    share, other = stage_shares(request, two=two, scores=scores)
    first = budget.part(share)
    second = budget.part(other) if two else None
    third = budget.part(scores) if scores > 0 else None
    phi = float(request["phi"])
    given = request["radius"]
    per = guessed_rows(request)
    radius = public_radius(
        white, mu_like(first, q), rows, phi=phi / (per or 1.0),
        rule=None if two and given != "loo" else given,
    )  # fmt: skip
    if per and not (isinstance(given, float) and not two):
        radius *= math.sqrt(per)
    after = float(given) if two and isinstance(given, float) else 0.0
    detail = PmtDetail(white, rows, first, second, radius, after, phi, third, per)
    steps = [Step("first moments" if two else "moments", first, share=share)]
    if second is not None:
        steps.append(Step("whitened moments", second, share=other))
    if third is not None:
        steps.append(Step(SCORES, third, share=scores))
    figure = noise_figure(third, q - 1, rows, request.relation, two=two)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={s.name: float(s.share or 0.0) for s in steps},
        scales={**_scales(detail, q, request.relation), **score_scales(figure)},
        detail=detail,
        reasons=(*request.reasons, why),
        advice=(*_advice(detail, request, q - 1), *score_advice(figure)),
        passes=len(steps),
    )


def _stages(request: Request, mu: float, q: int, n: int) -> tuple[bool, str]:
    asked = request["stages"]
    if asked in (1, 2):
        return asked == 2, f"{asked} stage{'s' if asked == 2 else ''}: stages={asked} was given"
    two, value = two_stages(mu, q, n)
    words = "two stages" if two else "one stage"
    sign = "at most" if two else "above"
    return two, f"{words}: the public noise figure {value:.3g} is {sign} {TWO_STAGE_NOISE:g}"


def _scales(detail: PmtDetail, q: int, relation: str) -> dict[str, float]:
    out = {
        "radius of whitened rows": detail.radius,
        "noise scale per row": ball_sd(detail.first, detail.radius, q, relation) / detail.rows,
    }
    if detail.second is not None:
        out["radius of the second stage"] = detail.second_radius or second_radius(
            mu_like(detail.second, q), q, detail.rows, detail.phi / (detail.per or 1.0)
        )
    return out


def _advice(detail: PmtDetail, request: Request, p: int) -> tuple[str, ...]:
    """Public advice, given before anything is spent."""
    white, n = detail.white, detail.rows
    q = p + 1
    out = []
    s = ball_sd(detail.first, detail.radius, q, request.relation)
    if detail.second is None and s * math.sqrt(2.0 * p) / n > 0.5:
        out.append(
            "the noise will exceed the signal: more rows, a larger eps or fewer columns help"
        )
    if white.shrink > 0:
        out.append(
            f"few public rows (m = {white.m}, {q} columns): their moments were shrunk towards the "
            f"diagonal by {white.shrink:.2g}"
        )
    if white.m is None:
        out.append("the number of public rows is unknown: radii were taken 20 % larger. Give m=")
    elif request["stages"] == 1 and white.m < 50 and n > 20_000:
        out.append(
            "one stage with few public rows and many private ones under-covers: stages=2 re-centres"
        )
    if request.eps > 10:
        out.append(f"eps = {request.eps:g} is weak protection")
    return tuple(out)


def release(plan: Plan[PmtDetail], ask: Ask) -> Release:
    """Release noisy second moments of whitened rows, in one or two passes; of scores in one more.

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
        stages.append(
            whitened_stage(
                passes,
                stages[0],
                detail.second,
                n=detail.rows,
                phi=detail.phi,
                radius=detail.second_radius,
                floor=FLOOR,
                least=LEAST,
            )
        )
    return finished(plan, passes, stages, detail.scores, _facts)


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


def _rare(detail: PmtDetail, design: Design) -> tuple[str, ...]:
    """Levels that the public data hold so rarely that their rows are scaled down."""
    C = np.asarray(detail.white.moments.moments)
    rare = [
        c.name
        for j, c in enumerate(design.columns)
        if c.kind == "dummy" and 1.0 / C[j, j] > detail.radius**2
    ]
    if not rare:
        return ()
    return (f"Rare in the public data, so down-weighted in the first pass: {', '.join(rare)}.",)


def beside(fit: PublicFit, names: tuple[str, ...]) -> str:
    """Return the note that shows the public-only fit."""
    cells = ", ".join(
        f"{name} {b:.4g}" + (f" ({s:.2g})" if math.isfinite(s) else "")
        for name, b, s in zip(names, fit.params, fit.bse, strict=True)
    )
    rows = "unknown m" if fit.m is None else f"m = {fit.m}"
    return f"Public-only fit ({rows}; standard errors in brackets): {cells}."


def estimate_pmt(plan: Plan[PmtDetail], release: Release) -> Estimate:
    """Map the last stage back, beside the public-only fit; combine on request."""
    detail = plan.detail
    released: Stages = release.detail
    request, design = plan.request, release.design
    public = public_fit(detail.white.moments) if _has_response(detail) else None
    notes = plan.sentences
    notes += _rare(detail, design)
    arrays: tuple[tuple[str, Array], ...] = ()
    if public is not None:
        notes.append(beside(public, design.names))
        arrays = (("public_params", public.params), ("public_bse", public.bse))
    facts = replace(
        _facts(plan, design, released),
        biased_errors=True,
        notes=tuple(notes),
        warnings=diagnostics(released.stages[0], detail.rows),
        stats=(("shrinkage_of_public_moments", detail.white.shrink),),
        arrays=arrays,
    )
    found = shrink_report(facts) if request["ridge"] == "stein" else report(facts)
    return with_public(found, public, request)


def _facts(plan: Plan[PmtDetail], design: Design, released: Stages) -> Report:
    """Collect what the fit of the last stage is made from: public and released numbers."""
    detail = plan.detail
    return Report(
        design=design,
        unit=released.unit,
        stages=released.stages,
        rows=detail.rows,
        request=plan.request,
        towards="the first-stage fit" if detail.second is not None else "the public fit",
        scores=released.scores,
    )


def _has_response(detail: PmtDetail) -> bool:
    return detail.white.moments.response_scale is None


def with_public(found: Estimate, public: PublicFit | None, request: Request) -> Estimate:
    """Combine, or say that the public fit may be the better one."""
    if public is None:
        return found
    if request["combine"]:
        return combined(found, public)
    # of people no residual variance is released to compare with
    sampling, privacy = found.vcov_sampling, found.vcov_privacy
    if "sigma" in found.stats and sampling is not None and privacy is not None:
        prior = public.covariance(float(found.stats["sigma"]) ** 2)
        ours = float(np.sum(public.C * (sampling + privacy)))
        if prior is not None and float(np.sum(public.C * prior)) < ours:
            text = (
                "by the standard errors the public-only fit is more accurate than the private one; "
                "combine=True uses both if they share their coefficients"
            )
            return replace(found, warnings=(*found.warnings, text))
    return found


PMT = Backend(plan_pmt, release, estimate_pmt)


# -- The ending of ``pmt`` by scoring: the passes of :mod:`.scored`, whitened by public moments.


def plan_pmt_scored(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="pmt")`` that ends by scoring."""
    return scored.plan(request, design, n, whitening_of(request, design, n))


def _unlike(plan: Plan[ScoredDetail], release: Release) -> tuple[str, ...]:
    """Return warnings where the start is unlike the public rows; of people none is released."""
    if plan.request.unit is not None:
        return ()
    detail = plan.detail
    return tuple(diagnostics(start_stage(plan, release), detail.pilot.start(detail.rows)))


def estimate_pmt_scored(plan: Plan[ScoredDetail], release: Release) -> Estimate:
    """Return the estimate of a scoring fit, beside the public-only fit."""
    detail = plan.detail
    model = detail.model
    assert isinstance(model, LinearModel) and model.white is not None
    white = model.white
    found = scored.estimate(plan, release)
    public = None
    if white.moments.response_scale is None:
        public = public_fit(white.moments)
    notes, arrays = list(found.notes), dict(found.arrays)
    if public is not None:
        notes.append(beside(public, release.design.names))
        arrays |= {"public_params": public.params, "public_bse": public.bse}
    found = replace(
        found,
        notes=tuple(notes),
        arrays=arrays,
        warnings=(*found.warnings, *_unlike(plan, release)),
        stats={**found.stats, "shrinkage_of_public_moments": white.shrink},
    )
    return with_public(found, public, plan.request)


PMT_SCORED = Backend(
    plan_pmt_scored, scored.release, estimate_pmt_scored, people=True,
    title="least squares, private, from public moments",
)  # fmt: skip
