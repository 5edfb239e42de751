"""``dp_glm`` by private Fisher scoring, and by output noise with a tested curvature.

The family and its link say the score and the expected information (:mod:`dpmodels.families`);
the engine (:mod:`dpmodels.scoring`) does the rest. Proofs: ``scoring/theory.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.errors import RequestError
from dpmodels.families import FAMILIES, LINKS, assumed_mean, family_of
from dpmodels.formula.design import Design
from dpmodels.models import objpert
from dpmodels.models.newton import back_map, planned_passes
from dpmodels.models.objpert import check_common, full_radius, working_map
from dpmodels.own.curvature import (
    COEF_STEP,
    CURVATURE_STEP,
    TestedDetail,
    hessian_gamma,
    release_tested,
)
from dpmodels.own.minimum import WorkingRows
from dpmodels.planning import Plan, planning_rows
from dpmodels.privacy.composition import delta_of_parts
from dpmodels.privacy.mechanisms import (
    RDP,
    Gaussian,
    Step,
    add_remove_request,
    failure_part,
    mu_gdp,
)
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    WORKING_RADIUS,
    Backend,
    Method,
    Option,
    one_of,
    positive,
    register_method,
    scoring_method,
)
from dpmodels.scoring.fit import Part, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import LeastSquares, Model
from dpmodels.scoring.run import Chain, FitStatistics, ModelSpec

#: The release of the passes.
release_scored = release_fit


def score_of(request: Request) -> Model:
    """Return the score of a call."""
    family = family_of(request["family"])
    if family.link == "identity":
        return LeastSquares()
    alpha = request["alpha"]
    if alpha is not None and family.dispersion != "alpha":
        raise RequestError(
            f"alpha= is the dispersion of family='negative_binomial'; family={family.name!r} has "
            "none"
        )
    return MeanModel.of(family, LINKS[request["link"] or family.link], alpha)


def _guess(request: Request, design: Design) -> float:
    """Return the error of a whitened coefficient times root n that a plan assumes."""
    family = family_of(request["family"])
    interval = None if design.response is None else design.response.interval
    if family.link == "identity" or interval is None:
        return 0.5
    link, alpha = LINKS[request["link"] or family.link], float(request["alpha"] or 1.0)
    return family.error_at(assumed_mean(family, interval), link, alpha)


def plan_scored(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="scoring")``."""
    family = family_of(request["family"])
    fit_stats = bool(request["fit_stats"])
    if fit_stats and family.link == "identity":
        raise RequestError(
            "fit_stats=True is for families with a deviance of their own: for family='gaussian' "
            "use dp_ols, or fit.rsquared of a fit by moments"
        )
    if fit_stats and (design.response is None or design.response.interval is None):
        raise RequestError(
            "fit_stats=True needs a declared response, for example bounds={'visits': (0, 50)}"
        )
    if fit_stats and request.weights is not None:
        raise RequestError("fit_stats=True cannot use weights=: its deviance counts every row once")
    model = ModelSpec(
        (Chain(score_of(request)),), guess=_guess(request, design),
        closing=FitStatistics() if fit_stats else None,
    )  # fmt: skip
    plan = plan_fit(request, design, planning_rows(request, n), model)
    advice = (*_outside(request, design), *_clipped_counts(request, design))
    return replace(plan, advice=(*advice, *plan.advice))


def _outside(request: Request, design: Design) -> tuple[str, ...]:
    """Warn of a declared range with values that the family cannot have. Reads public facts.

    Raises ``RequestError`` if it holds no value that the family can have.
    """
    response, family = design.response, family_of(request["family"])
    if response is None or response.interval is None:
        return ()
    low, high = response.interval
    text = (
        f"{response.name!r} is declared from {low:g} to {high:g}, and family={family.name!r} needs "
        f"{family.domain}"
    )
    if not family.valid(np.array([low, high])).any():
        raise RequestError(f"{text}. For such numbers use family='gaussian'. Nothing was charged")
    if low >= 0.0 or family.valid(np.array([low])).all():
        return ()
    return (f"{text}: rows below count as empty. For such numbers use family='gaussian'",)


def _clipped_counts(request: Request, design: Design) -> tuple[str, ...]:
    """Warn of counts that are declared to be 0 or 1: all others would be clipped to 1. Public."""
    response, family = design.response, family_of(request["family"])
    if not (
        family.counts
        and family.name != "quasipoisson"
        and response is not None
        and response.interval is not None
        and response.interval[1] <= 1.0
    ):
        return ()
    return (
        f"{response.name!r} is a count by family={request['family']!r}, and declared from "
        f"{response.interval[0]:g} to {response.interval[1]:g}: larger counts are clipped. Declare "
        f"the largest count, for example bounds={{{response.name!r}: (0, 50)}}",
    )


def estimate_scored(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware robust errors."""
    family = family_of(plan.request["family"])
    weighted = release.design.auxiliary_place("weights") is not None

    def stats(part: Part) -> dict[str, float]:
        before = part.release.before
        if family.dispersion == "alpha":
            return {"alpha": before.nuisance}
        people = part.inference.plan.people  # whose meat is of sums, and tells nothing of a row
        if family.dispersion == "free" and not family.is_event and not (people or weighted):
            # meat over information: an empty row is in neither (of weights the meat has squares)
            over = part.inference.variance(None)
            return {"dispersion": over * before.phi / part.unit**2}
        return {}

    return estimate_fit(plan, release, stats)


GLM_SCORED = Backend(plan_scored, release_scored, estimate_scored, people=True)


# -- Backend of ``dp_glm(method="gptr")``: noise after a private test of the curvature.
#
# "iso": output perturbation, sd D(alpha~)/rho; "hessian": the paper's Hessian-shaped sample with
# corrected constants. Both need a lower bound alpha~ of the curvature at the optimum, released
# first. Objective perturbation is more accurate wherever it was compared.


_CURVATURE_SHARE = 0.1


def _iso(request: Request, rows: WorkingRows) -> tuple[TestedDetail, list[Step], str | None]:
    """Plan output noise after a private test of the curvature."""
    factor = 2.0 if request.relation == "replace" else 1.0
    mu = mu_gdp(request.eps, 0.8 * request.delta) / factor
    cost = 0.2 * request.delta
    mu1, rho = math.sqrt(_CURVATURE_SHARE) * mu, math.sqrt(1 - _CURVATURE_SHARE) * mu
    B2, d = rows.radius * rows.radius, len(rows.scale)
    lam = request["lam"] or B2 * max(3 * math.sqrt(d) / rho, 2.0)
    steps = [
        Step(CURVATURE_STEP, Gaussian(factor * mu1), share=_CURVATURE_SHARE, failure=cost),
        Step(COEF_STEP, Gaussian(factor * rho), share=1 - _CURVATURE_SHARE, label="output noise"),
    ]
    miss = failure_part(mu, cost, request.relation)
    return TestedDetail(rows, float(lam), miss), steps, None


def _hessian(request: Request, rows: WorkingRows) -> tuple[TestedDetail, list[Step], str | None]:
    """Plan a posterior draw N(theta*, (gamma H)^-1) after a private test of the curvature."""
    eps, delta = request.eps, request.delta
    proved = None
    if request.relation == "replace":
        (eps, delta), proved = add_remove_request(eps, delta), "add-remove"
    d1 = 0.2 * delta
    start = mu_gdp(eps, 0.8 * delta)
    top = max(3.0, 1.0 + math.sqrt(2.0 * math.log(1.0 / (0.8 * delta))) / start)

    def steps(mu: float) -> list[Step]:
        """Return the two steps at total strength mu: the curvature test, and the draw."""
        rho = math.sqrt(1 - _CURVATURE_SHARE) * mu
        curve = RDP("hessian-shaped sample", (("rho", rho), ("top", top)))
        first = Gaussian(math.sqrt(_CURVATURE_SHARE) * mu)
        return [
            Step(CURVATURE_STEP, first, share=_CURVATURE_SHARE, failure=d1),
            Step(COEF_STEP, curve, share=1 - _CURVATURE_SHARE, label="Hessian-shaped sample"),
        ]

    lo, hi = 0.0, start
    for _ in range(40):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if delta_of_parts(steps(mid), eps) <= delta else (lo, mid)
    rho, B = math.sqrt(1 - _CURVATURE_SHARE) * lo, rows.radius
    # lam alone must leave room: psi <= half of the Renyi budget
    lam = B * B * max(3 * math.sqrt(len(rows.scale)) / rho, 2.0)
    while hessian_gamma(top, rho, lam, B) <= hessian_gamma(top, rho, 1e12, B) * lam / 1e12 / 2:
        lam *= 1.2
    lam = float(request["lam"] or lam)
    if hessian_gamma(top, rho, lam, B) <= 0:
        raise RequestError("lam= is too small for shape='hessian': leave it out, or enlarge it")
    return TestedDetail(rows, lam, d1), steps(lo), proved


def plan_tested(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="gptr")``."""
    check_common(request, design)
    if not family_of(request["family"]).is_event:
        raise RequestError(
            "method='gptr' is proved for family='binomial' (generalised self-concordance with a "
            "bounded score). For counts use method='objpert'"
        )
    if design.unknown:
        raise RequestError(
            f"method='gptr' estimates no ranges: declare those of {', '.join(design.unknown)}, "
            "or use "
            "method='objpert'"
        )
    B = float(request["radius"] or full_radius(design))
    is_iso = request["shape"] == "iso"
    detail, steps, proved = (_iso if is_iso else _hessian)(
        request, WorkingRows(*working_map(design), B, B)
    )
    if detail.lam <= B * B:
        raise RequestError(f"lam= must exceed B^2 = {B * B:.4g} (working units) for method='gptr'")
    return Plan.of(
        request, design, n, steps, notes=() if is_iso else (FLOAT_NOTE,),
        proved=proved,
        scales={"ridge (working units)": detail.lam, "row norm bound (working units)": B},
        detail=detail, passes=planned_passes(n, design.p) + 1,  # the curvature takes the last
    )  # fmt: skip


def estimate_tested(plan: Plan[TestedDetail], release: Release) -> Estimate:
    """Map the release back to the user's units."""
    detail = plan.detail
    sd, gamma = release.detail
    design = release.design
    A = back_map(detail.working.scale, detail.working.shift, design.has_intercept)
    notes = [
        messages.NO_SAMPLING_GLM(),
        messages.GLM_RIDGE(lam=detail.lam, share=""),
    ]
    stats = {"ridge": detail.lam, "curvature_lower_bound": float(release.values["alpha"])}
    privacy = None
    if sd == sd:
        privacy = sd**2 * A @ A.T
        stats["noise_sd"] = sd
    else:
        stats["gamma"] = gamma
    return Estimate(
        design.names, A @ release.values["theta"], vcov_privacy=privacy, stats=stats,
        notes=tuple(notes),
    )  # fmt: skip


TESTED = Backend(plan_tested, release_tested, estimate_tested)


# -- Methods of generalised linear models, as data.


_MEAN_CAP = positive(
    "mean_cap",
    "poisson: public cap on counts and mean; None: the declared upper end of the response",
)

_FAMILY = one_of("family", "response family", "binomial", "poisson")

#: Accepted so that old calls run: whether a cap on steps is reached would depend on the rows.
_ITER = Option("max_iter", "no effect: steps go on until the minimum is found", 500, int, lower=99)

_LAM = positive("lam", "public ridge in working units; None: by rule, from eps, delta, n")

_LINK = one_of("link", "link function; fixed by the family", "logit", "log", default=None)


register_method(
    scoring_method(
        "dp_glm", GLM_SCORED, "McCullagh and Nelder (1989)", "models/glm.md",
        Option("family", "response family", "binomial", str, choices=tuple(FAMILIES)),
        Option("link", "link function; None: the family's", None, str, choices=tuple(LINKS)),
        positive("alpha", "dispersion of the negative binomial; None: by moments"),
        Option(
            "fit_stats",
            "release deviance, null deviance, pseudo R-squared (events: AIC): a tenth of mu^2",
            False, bool,
        ),
    )
)  # fmt: skip

register_method(
    Method(
        name="objpert", verb="dp_glm", proof="models/glm.md", title="Objective perturbation",
        backend=objpert.OBJPERT_BACKEND, by_rows=True, needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"), accepts=("public",),
        reference=(
            "Kifer, Smith, Thakurta (2012); Redberg, Koskela, Wang (2023); profile: theory note"
        ),
        options=(
            _FAMILY, _LINK, _LAM,
            Option(
                "rescale",
                "learn centres and scales of the columns first (a tenth of the budget); None: not "
                "where most columns are dummies and noise is high", None, bool,
            ),
            WORKING_RADIUS, _MEAN_CAP, _ITER, BOUNDS_SHARE,
        ),
    )
)  # fmt: skip

register_method(
    Method(
        name="gptr", verb="dp_glm", proof="models/glm.md",
        title="Raw draw: output noise with a tested curvature", backend=TESTED, by_rows=True,
        needs=("delta > 0", "several passes", "ranges"), relations=("replace", "add-remove"),
        inference="privacy part only",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            _FAMILY, _LINK,
            one_of(
                "shape",
                "noise: 'iso' (spherical) or 'hessian' (the paper's sample, for reproduction)",
                "iso", "hessian",
            ),
            _LAM, WORKING_RADIUS, _ITER,
        ),
    )
)  # fmt: skip
