"""``dp_glm(method="objpert")``: objective perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array, brent
from dpmodels.core import release as core
from dpmodels.core.means import PowersOfRows
from dpmodels.core.release import Program
from dpmodels.core.rows import Rows, complete, linear, only_where
from dpmodels.core.sets import UnitMatrices
from dpmodels.errors import RequestError
from dpmodels.families import family_of
from dpmodels.formula.design import Design
from dpmodels.models.newton import back_map, largest_rho, planned_passes
from dpmodels.notes import Note
from dpmodels.own.minimum import LogisticLoss, Loss, PoissonLoss, WorkingRows
from dpmodels.own.tilted import COEF_STEP, INEXACT_STEP, Tilted, tilt_profile, tilted_minimum
from dpmodels.planning import Plan, Purchase, column_radius
from dpmodels.privacy.composition import delta_of_parts
from dpmodels.privacy.mechanisms import Gaussian, Step, add_remove_request, mu_gdp
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.proof.prove import noise_of
from dpmodels.proof.sets import unsvec
from dpmodels.proof.statistics import Powers
from dpmodels.ranges import FAILURE_SHARE, bounds_share, plan_purchase, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.scoring.pass_plan import noise_ratio
from dpmodels.sums.ask import Ask
from dpmodels.sums.products import SHRINK
from dpmodels.sums.scaling import UnitScale, rescaling, unit_scale

#: mu of the output noise over rho: it costs 1/800 of rho, and allows for an inexact optimum.
OUT_RATIO = 0.05
#: Default shares of mu^2: centres and scales of the columns; noisy information matrix.
SCALE_SHARE, INFO_SHARE = 0.10, 0.15
#: Privacy variance over sampling variance up to which B grows, and its largest factor.
NOISE_PART, LONGEST = 0.5, 2.0
#: Reach of the working rows over B: rows between B and the reach are down-weighted, beyond it
#: they are missing (labels) or weighted down further (counts).
WORKING_REACH = 2.0
#: Tried ratios kappa = B R / lam.
_KAPPAS = tuple(float(k) for k in np.geomspace(1e-3, 10.0, 13))
#: Prior guesses of the ridge rule, in working coordinates (public, not tuned to a data set):
#: squared size of a coefficient, weight of a row (binomial), mean of a count (poisson), variance
#: of a unit half-range column.
_PRIOR_THETA2, _PRIOR_WEIGHT, _PRIOR_MEAN, _UNIT_VARIANCE = 0.1, 0.15, 1.0, 1.0 / 12.0

#: Part of the information that n rows would hold at a mean count of a quarter of the cap: a ridge
#: beyond it is advised against.
_HEAVY_RIDGE = 0.05

#: Public noise ratio above which a design of dummies is left in half-ranges.
NOISY = 8e-3
SCALE_STEP, INFO_STEP = "centres and scales", "information matrix"
#: Steps by the names of ``split=``.
_STEPS = {"scale": SCALE_STEP, "coef": COEF_STEP, "information": INFO_STEP}


@dataclass(frozen=True)
class GlmDetail(Tilted):
    """Public decisions of a fit by objective perturbation before the first row."""

    mu: dict[str, float]  # Step name -> mu of the Gaussian steps
    rescale: bool


def glm_loss(request: Request, design: Design) -> Loss:
    """Return the loss of the family; counts without a public cap are refused."""
    if family_of(request["family"]).is_event:
        return LogisticLoss()
    cap = request["mean_cap"]
    if cap is None:
        upper = design.response.upper if design.response is not None else None
        if upper is None:
            raise RequestError(
                "family='poisson' needs a public cap on the counts and on the mean: declare the "
                "response, for example schema=dp.Schema(visits=dp.Count(20), ...), or give "
                "mean_cap=20.0"
            )
        cap = float(upper)
    if not cap > 0:
        raise RequestError("mean_cap= (or the upper end of the counts) must be positive")
    return PoissonLoss(float(cap))


def check_common(request: Request, design: Design) -> None:
    """Refuse requests that no method of this package can serve; a function of public facts."""
    if request.weights is not None or design.offset is not None:
        what = "weights=" if request.weights is not None else "offset()"
        raise RequestError(f"{request.verb}(method={request.method.name!r}) cannot use {what}")
    if (
        request.relation == "add-remove"
        and design.unknown
        and family_of(request["family"]).is_event
    ):
        raise RequestError(
            "ranges are estimated under relation='replace' only; declare the ranges of "
            f"{', '.join(design.unknown)}, for example bounds={{{design.unknown[0]!r}: (0, 10)}}"
        )


def working_radius(design: Design, rescale: bool) -> float:
    """Return B of the working rows.

    Rescaled columns have about unit variance, so B^2 = p; columns in unit half-ranges are bounded
    by 1, and B^2 = 1 + d/2 as for least squares. Longer rows are weighted down.
    """
    return math.sqrt(max(1.0, float(design.p))) if rescale else column_radius(design)


def full_radius(design: Design) -> float:
    """Return the largest norm of a row in unit half-ranges: no row is beyond it."""
    numeric = sum(c.kind not in ("intercept", "dummy") for c in design.columns)
    dummies = sum(c.kind == "dummy" for c in design.columns)
    square = (1.0 if design.has_intercept else 0.0) + dummies + numeric
    return math.sqrt(max(square, 0.5)) * (1.0 + 2.0**-30)


def longer_radius(base: float, loss: Loss, rho: float, n: int) -> float:
    """Return B of rescaled rows where n allows longer ones: between ``base`` and twice that.

    Rows longer than B are weighted down, which biases wherever the model is not exact; noise grows
    with B. B^2 is what makes the noise of a coefficient, ``(B score / rho)^2 / (n w)^2``, a part
    ``NOISE_PART`` of its sampling variance ``1 / (n w)``, w a public guess of the curvature.
    """
    weight = _PRIOR_WEIGHT if loss.one_sided else _PRIOR_MEAN
    allowed = rho / loss.score * math.sqrt(NOISE_PART * n * weight)
    return min(max(base, allowed), LONGEST * base)


@lru_cache(maxsize=128)
def default_kappa(
    eps: float, delta: float, n: int | None, radius: float, rescaled: bool, loss: Loss
) -> float:
    """Return kappa = B R / lam that minimises a public guess of the error of one coefficient.

    (sigma^2 + lam^2 t^2) / (h + lam)^2 with sigma = B score / rho(kappa), h = n w v; without a
    public n its limit for large n.
    """
    weight = _PRIOR_WEIGHT if loss.one_sided else _PRIOR_MEAN
    h = None if n is None else n * weight * (1.0 if rescaled else _UNIT_VARIANCE)
    best, chosen = math.inf, _KAPPAS[0]
    for kappa in (k / (4.0 * loss.curvature) for k in _KAPPAS):
        if loss.one_sided:
            rho = largest_rho(eps, delta, kappa)
        else:
            shift = math.log1p(loss.curvature * kappa)
            rho = mu_gdp(eps - shift, delta / 2.0) if eps > shift else 0.0
        if rho <= 0:
            continue
        lam = radius * WORKING_REACH * radius / kappa
        cost = (radius * loss.score / rho) ** 2 + lam * lam * _PRIOR_THETA2
        cost /= 1.0 if h is None else (h + lam) ** 2
        if cost < best:
            best, chosen = cost, kappa
    return chosen


def _steps(
    shares: dict[str, float], mu: float, loss: Loss, kappa: float, relation: str
) -> list[Step]:
    """Return the steps at total strength ``mu``: shares of mu^2, a Gaussian of the same strength.

    Under replace-one the profile with rho is about a Gaussian with 2 rho.
    """
    steps = []
    for name, share in shares.items():
        part = math.sqrt(share) * mu
        if name != "coef":
            steps.append(Step(_STEPS[name], Gaussian(part), share=share))
            continue
        rho = part / (2.0 if relation == "replace" else 1.0)
        profile = tilt_profile(loss, rho, kappa, relation)
        steps.append(Step(COEF_STEP, profile, share=share, label="objective perturbation"))
        steps.append(Step(INEXACT_STEP, Gaussian(OUT_RATIO * part)))
    return steps


@lru_cache(maxsize=256)
def _strength(
    eps: float, delta: float, shares: tuple[tuple[str, float], ...], loss: Loss, kappa: float,
    relation: str, failure: float, bought: float,
) -> float:  # fmt: skip
    """Return the largest mu with composed delta(eps) <= delta, by secant steps on logarithms."""

    @cache  # the ends of the bracket are asked for again
    def gap(mu: float) -> float:
        steps = _steps(dict(shares), mu, loss, kappa, relation)
        if bought:
            steps.append(Step("ranges", Gaussian(math.sqrt(bought) * mu), failure=failure))
        value = delta_of_parts(steps, eps)
        return math.log(max(value, 1e-300)) - math.log(delta)

    hi = 1.02 * mu_gdp(eps, delta)
    lo = hi
    while gap(lo) > 0:
        hi, lo = lo, 0.8 * lo
        if lo < 1e-6:
            raise RequestError(
                f"no noise level reaches eps = {eps:g}, delta = {delta:g} with this ridge: give a "
                "larger lam=, or leave it out"
            )
    if gap(hi) <= 0:
        return hi
    root = brent(gap, lo, hi, xtol=1e-10 * lo, rtol=1e-10)
    while gap(root) > 0:
        root *= 1.0 - 1e-9
    return root


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="objpert")``. Source: ``glm.md``, section 4."""
    check_common(request, design)
    loss = glm_loss(request, design)
    relation = request.relation
    # Centres and scales are learnt first (and where n is private), but where most columns are
    # dummies, whose half-ranges are their scale, and noise is high: sqrt(16 p)/(mu n) > NOISY.
    rescale = n is None if request["rescale"] is None else bool(request["rescale"])
    if request["rescale"] is None and n is not None:
        high_noise = noise_ratio(mu_gdp(request.eps, request.delta), design.p, n) > NOISY
        dummies = sum(c.kind == "dummy" for c in design.columns)
        rescale = not (high_noise and 2 * dummies > design.p)
    rescale = rescale and design.p > design.has_intercept  # an intercept alone has no scale
    to_buy = design.unknown
    bought = bounds_share(request, to_buy)
    failure = FAILURE_SHARE * request.delta if to_buy else 0.0
    scale, information = SCALE_SHARE * rescale, INFO_SHARE * request.inference
    of = {"scale": scale, "coef": 1.0 - scale - information, "information": information}
    of = {name: share for name, share in of.items() if share}
    of = request.shares_of(of) or of
    shares = {name: share * (1.0 - bought) for name, share in of.items()}
    radius = float(request["radius"] or working_radius(design, rescale))
    if rescale and n is not None and not request["radius"]:
        about = math.sqrt(shares["coef"]) * mu_gdp(request.eps, request.delta) / 2.0
        radius = longer_radius(radius, loss, about, n)
    pair = (request.eps, request.delta)
    if relation == "replace":
        pair = add_remove_request(*pair)
    lam = request["lam"]  # the user's ridge, in working units
    if lam is None:
        kappa = default_kappa(*pair, n, radius, rescale, loss)
    else:
        kappa = radius * WORKING_REACH * radius / float(lam)
    mu = _strength(
        request.eps, request.delta, tuple(shares.items()), loss, kappa, relation, failure, bought
    )
    steps = _steps(shares, mu, loss, kappa, relation)
    purchase: Purchase | None = None
    if to_buy:
        purchase, first = plan_purchase(to_buy, math.sqrt(bought) * mu, failure, bought)
        steps = first + steps
    rho = math.sqrt(shares["coef"]) * mu / (2.0 if relation == "replace" else 1.0)
    detail = GlmDetail(
        loss, radius, WORKING_REACH * radius, kappa, rho, n, planned_passes(n, design.p),
        {s.name: s.mechanism.mu for s in steps if isinstance(s.mechanism, Gaussian)}, rescale,
    )  # fmt: skip
    if request["lam"] is not None and not loss.one_sided:
        _check_ridge(detail, design.p)
    return Plan.of(
        request, design, n, steps, notes=(FLOAT_NOTE,), purchase=purchase, detail=detail,
        scales={
            "ridge (working units)": detail.lam,
            "row norm bound (working units)": radius,
            "noise of the score (working units)": detail.sigma,
        },
        advice=_advice(detail, design, n),
        passes=detail.passes + (purchase is not None) + rescale + request.inference,
    )  # fmt: skip


def _check_ridge(detail: GlmDetail, p: int) -> None:
    """Refuse a ridge of counts so small that the search for the minimum could end early."""
    least = detail.least_ridge(p)
    if detail.lam < least:
        raise RequestError(
            f"lam={detail.lam:.3g} is too small for counts up to this at this n, eps and delta: "
            "the coefficients could become so large that their minimum cannot be computed. Leave "
            f"lam= out, or give at least lam={least:.2g}"
        )


def _advice(detail: GlmDetail, design: Design, n: int | None) -> tuple[str, ...]:
    """Return public advice: the noise of the score against the largest information of n rows."""
    if n is None:
        return ()
    if not detail.loss.one_sided and detail.lam > _HEAVY_RIDGE * n * detail.loss.score / 4.0:
        return (
            f"counts up to {detail.loss.score:g} ask for a ridge of {detail.lam:.3g} at this n and "
            "eps: expect coefficients that are shrunk heavily. A tighter Count(upper=...) or "
            "mean_cap=, more rows or a larger eps would help",
        )
    top = n * detail.loss.curvature * detail.radius**2 / design.p + detail.lam
    if detail.sigma < 0.5 * top:
        return ()
    return (
        f"with n = {n} and {design.p} coefficients the noise dominates at this eps and delta: "
        "expect an answer close to the ridge's zero. More rows, a larger eps or fewer columns "
        "would help",
    )


# -- The program.


#: Rescaling never magnifies a unit half-range column (a dummy) more than this.
_MAX_SCALE, _MAX_DUMMY = 50.0, 2.5


def working_map(design: Design) -> tuple[Array, Array]:
    """Return (scale, shift) of the predictors to unit half-ranges; the response keeps its own."""
    unit: UnitScale = unit_scale(design)
    return unit.scale[:-1].copy(), unit.shift[:-1].copy()


def _rescale(design: Design, scale: Array, shift: Array) -> Program:
    """Release counts, sums and squares of the columns, and return the new scale and shift."""
    keep = np.array([c.kind != "intercept" for c in design.columns])
    d = int(keep.sum())
    index, factors, shifts = np.flatnonzero(keep).tolist(), scale[keep], shift[keep]

    def row(z: Rows) -> Rows:
        return only_where(z[index] * factors + shifts, complete(z), np.nan)

    answer = yield core.Release(SCALE_STEP, PowersOfRows(d), row, design)
    noisy, sd = answer.values, float(answer.sd[0])
    most = []  # two-point columns span 2.5 at most; 0/1 columns are within [-1, 1] already
    for c in design.columns:
        kind = getattr(design.schema[c.term], "kind", "") if c.term in design.schema else ""
        dummy = c.kind in ("dummy", "contrast")
        most.append(_MAX_DUMMY if dummy else _MAX_DUMMY / 2 if kind == "binary" else _MAX_SCALE)
    factor, offset = rescaling(noisy, sd, design.has_intercept, np.array(most)[keep])
    scale, shift = scale.copy(), shift.copy()
    shift[keep] = shift[keep] * factor + offset
    scale[keep] *= factor
    return noisy, scale, shift


@with_ranges
def release(plan: Plan[GlmDetail], ask: Ask, design: Design) -> Release:
    """Run the program over the private rows.

    **Privacy.** Unit: one row. Charged: the steps of the plan.
    """
    end = core.run(tilted_program(plan, design), ask)
    return Release(end.values, plan.guarantee, design, detail=end.detail)


def tilted_program(plan: Plan[GlmDetail], design: Design) -> Program:
    """Rescale columns, release the coefficients, then the information at these."""
    detail = plan.detail
    values: dict[str, Array] = {}
    scale, shift = working_map(design)
    if detail.rescale:
        values["sums"], scale, shift = yield from _rescale(design, scale, shift)
    values["theta"] = yield core.Own(partial(tilted_minimum, plan, design, scale, shift))
    if plan.request.inference:
        working = detail.working(scale, shift)
        values["information"] = yield from _information(detail, design, working, values["theta"])
    return core.End(values, detail=(scale, shift))


def _information(
    detail: GlmDetail, design: Design, working: WorkingRows, theta: Array
) -> Program:
    """Release H at the *released* theta; (H, J) where the model may be over-dispersed.

    Each is over what one row can add: ``H = sum w l'' x x'``, ``J = sum (w l')^2 x x'``.
    """
    p, loss = len(theta), detail.loss
    h, j = loss.curvature * detail.radius * detail.reach, (loss.score * detail.radius) ** 2
    scales = (h, j)[: 2 - loss.one_sided]
    row = partial(information_row, working=working, loss=loss, theta=theta, scales=scales)
    noisy = yield core.Release(INFO_STEP, UnitMatrices(p, len(scales)), row, design)
    parts = zip(noisy.values.reshape(len(scales), -1), scales, strict=True)
    return np.array([unsvec(v, p) * s for v, s in parts])


def information_row(
    z: Rows, working: WorkingRows, loss: Loss, theta: Array, scales: tuple[float, ...]
) -> tuple[Rows, ...]:
    """Return ``sqrt(w l'') x`` of H and, with two scales, ``w l' x`` of J: over the scales' roots.

    No vector is longer than 1. A linear predictor beyond floats adds nothing.
    """
    x, y, w = working.of(z)
    _, first, second = loss.terms(linear(theta[None], x), y, w)
    sizes = zip((np.sqrt(second), first), scales, strict=False)
    return tuple(x * (only_where(t, complete(t)) * (SHRINK / math.sqrt(s))) for t, s in sizes)


# -- Coefficients and standard errors of a private GLM, from released numbers alone.


#: A ridge bias beyond this many standard errors (noise and sampling) is spoken of.
_CLEAR_BIAS = 1.0

#: Share of empty rows from which it is named, and noise sds it must exceed.
EMPTY, EMPTY_SEEN = 0.05, 3.0


def covariances(information: Array, sigma: float, lam: float) -> tuple[Array, Array]:
    """Return (sampling, privacy) covariance of the working coefficients.

    theta minimises F + sigma b'theta, so theta - theta_0 is about -H^{-1}(score + sigma b):
    covariances H^{-1} J H^{-1} and sigma^2 H^{-2}, H with the ridge. ``information`` holds the
    released H (without ridge) and J, or one matrix for both (the information equality).
    Eigenvalues below 0 are noise and count as 0.
    """
    H, J = information[0], information[-1]
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    inverse = (vectors / (np.maximum(values, 0.0) + lam)) @ vectors.T
    scores, directions = np.linalg.eigh((J + J.T) / 2.0)
    half = inverse @ (directions * np.sqrt(np.maximum(scores, 0.0)))
    return half @ half.T, sigma**2 * inverse @ inverse


def ridge_bias(information: Array, lam: float, theta: Array) -> tuple[Array, float]:
    """Return the bias that the ridge leaves in ``theta``, to first order, and its largest share.

    The stationary point theta = (H + lam)^{-1} H theta_0 lacks lam H^{-1} theta, a function of
    released numbers. Along an eigenvector with information w the lacking share is lam / w, here
    at most 1: where the ridge exceeds the information, w is mostly noise, and the bias is taken
    to be as large as the estimate itself.
    """
    values, vectors = np.linalg.eigh((information[0] + information[0].T) / 2.0)
    share = lam / np.maximum(values, lam)
    return vectors @ (share * (vectors.T @ theta)), float(share.max())


def _empty_note(plan: Plan[Any], release: Release, detail: GlmDetail) -> list[Note]:
    """Return a note on the share of dropped rows, if the released count exceeds its noise."""
    if "sums" not in release.values or plan.n is None:
        return []
    sums = release.values["sums"]
    d = (len(sums) - 1) // 2
    sd = float(noise_of(Powers(d), Gaussian(detail.mu[SCALE_STEP]), plan.request.relation)[0])
    lost = plan.n - float(sums[0])
    if lost <= max(EMPTY * plan.n, EMPTY_SEEN * sd):
        return []
    outside = ", or if it is outside subset=" if release.design.subset else ""
    return [
        messages.DROPPED(
            share=100.0 * lost / plan.n, sd=100.0 * sd / plan.n, shortened="", outside=outside
        )
    ]


def estimate(plan: Plan[GlmDetail], release: Release) -> Estimate:
    """Map the release back to the user's units."""
    detail = plan.detail
    design = release.design
    names = design.names
    if not release.reply:
        return no_ranges_note(names)
    scale, shift = release.detail
    A = back_map(scale, shift, design.has_intercept)
    theta = release.values["theta"]
    sampling = privacy = None
    notes: list[Note] = []
    if "information" in release.values:
        sampling, privacy = covariances(release.values["information"], detail.sigma, detail.lam)
        sampling, privacy = A @ sampling @ A.T, A @ privacy @ A.T
        bias, share = ridge_bias(release.values["information"], detail.lam, theta)
        bias = A @ bias
        spread = np.sqrt(np.diag(sampling) + np.diag(privacy))
        # the ridge is there for privacy: its bias counts as error of the privacy part
        privacy = privacy + np.outer(bias, bias)
        lost = 100.0 * share / (1.0 + share)
        notes.append(
            messages.GLM_RIDGE(
                lam=detail.lam,
                share=f" Along the least informed direction it shrinks by about {lost:.2g} %.",
            )
        )
        kind = "model-based" if len(release.values["information"]) == 1 else "robust (sandwich)"
        notes.append(messages.ERRORS_INFORMATION(kind=kind))
        if bool((np.abs(bias) > _CLEAR_BIAS * spread).any()):
            # a note, not a warning: warnings are the same for neighbours, this reads the release
            first = "" if detail.loss.one_sided else " (of the counts first)"
            notes.append(messages.RIDGE_BIAS(first=first))
        notes.append(messages.NO_TESTS_RIDGE())
    else:
        notes.append(messages.GLM_RIDGE(lam=detail.lam, share=""))
    notes.append(
        messages.LONG_ROWS(
            radius=detail.radius,
            unit="about unit variance" if detail.rescale else "unit half-ranges",
            twice=" Rows longer than twice that were left out." if detail.loss.one_sided else "",
        )
    )
    notes += _empty_note(plan, release, detail)
    return Estimate(
        names, A @ theta, vcov_sampling=sampling, vcov_privacy=privacy,
        stats={"ridge": detail.lam, "score_noise_sd": detail.sigma, "radius": detail.radius},
        notes=(*plan.reason_notes, *notes),
        untested=None if sampling is None else np.ones(len(names), dtype=bool),
    )  # fmt: skip


OBJPERT_BACKEND = Backend(plan, release, estimate)
