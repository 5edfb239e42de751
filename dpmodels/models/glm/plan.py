"""The plan of ``dp_glm(method="objpert")``: ridge, noise, shares and steps; all of it public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.families import family_of
from dpmodels.models.glm.lattice import LogisticLoss, Loss, PoissonLoss
from dpmodels.models.glm.newton import WorkingRows, back_map, minimise, planned_passes
from dpmodels.models.glm.perturbation import largest_rho, logistic_profile, two_sided_profile
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.composition import delta_of_parts
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.group import add_remove_request
from dpmodels.privacy.mechanisms import Gaussian, Profile, Step
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.ranges import FAILURE_SHARE, bounds_share, plan_purchase
from dpmodels.roots import brent
from dpmodels.scoring.rules import noise_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: mu of the output noise over rho: it costs 1/800 of rho, and pays for an inexact optimum.
OUT_RATIO = 0.05
#: Default shares of mu^2: centres and scales of the columns; noisy information matrix.
SCALE_SHARE, INFO_SHARE = 0.10, 0.15
#: Privacy variance over sampling variance up to which B grows, and its largest factor.
NOISE_PART, LONGEST = 0.5, 2.0
#: Reach of the working rows over B: rows between B and the reach are down-weighted, beyond it
#: they are void (labels) or weighted down further (counts).
REACH = 2.0
#: Tried ratios kappa = B R / lam.
_KAPPAS = tuple(float(k) for k in np.geomspace(1e-3, 10.0, 13))
#: Prior guesses of the ridge rule, in working coordinates (public, not tuned to a data set):
#: squared size of a coefficient, weight of a row (binomial), mean of a count (poisson), variance
#: of a unit half-range column.
_THETA2, _WEIGHT, _MEAN, _UNIT_VARIANCE = 0.1, 0.15, 1.0, 1.0 / 12.0

#: Part of the information that n rows would hold at a mean count of a quarter of the cap: a ridge
#: beyond it is advised against.
_HEAVY = 0.05

#: Public noise ratio above which a design of dummies is left in half-ranges.
NOISY = 8e-3
SCALE_STEP, COEF_STEP = "centres and scales", "coefficients"
OUT_STEP, INFO_STEP = "inexactness of the optimum", "information matrix"


@dataclass(frozen=True)
class GlmDetail:
    """What a fit by objective perturbation decided before the first row.

    Attributes
    ----------
    loss : Loss
        In working units: the score of a row is at most ``radius * loss.score``.
    radius, reach : float
        B, the largest weighted norm of a working row; R, its largest norm (labels), or B R the
        largest weighted square of it (counts).
    lam : float
        Ridge, in working units; acts on every coordinate.
    rho, sigma : float
        sigma = B score / rho is the sd of the linear term.
    tol : float
        Certified bound on the gradient norm.
    mu : dict
        Step name -> mu of the Gaussian steps.
    rescale, inference : bool
    max_iter : int
    passes : int
        Of the minimisation; the others are one each.
    relation : str
    public_params : tuple of float
        Coefficients of a fit on the public data alone; empty without public data.
    """

    loss: Loss
    radius: float
    reach: float
    lam: float
    rho: float
    sigma: float
    tol: float
    mu: dict[str, float]
    rescale: bool
    inference: bool
    max_iter: int
    passes: int
    relation: str
    public_params: tuple[float, ...] = ()


def glm_loss(request: Request, design: Design) -> Loss:
    """Return the loss of the family, or refuse."""
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
    """Refuse what no method of this room can do; a function of public facts."""
    if request.weights is not None or design.offset is not None:
        what = "weights=" if request.weights is not None else "offset()"
        raise RequestError(f"{request.verb}(method={request.method.name!r}) takes no {what}")
    if (
        request.relation == "add-remove"
        and design.unknown
        and family_of(request["family"]).is_event
    ):
        raise RequestError(
            "ranges are bought under relation='replace' only; declare the ranges of "
            f"{', '.join(design.unknown)}, for example bounds={{{design.unknown[0]!r}: (0, 10)}}"
        )


def working_radius(design: Design, rescale: bool) -> float:
    """Return B of the working rows.

    Rescaled columns have about unit variance, so B^2 = p; columns in unit half-ranges are bounded
    by 1, and B^2 = 1 + d/2 as for least squares. Longer rows are weighted down.
    """
    p = design.p
    if rescale:
        return math.sqrt(max(1.0, float(p)))
    numeric = sum(c.kind not in ("intercept", "dummy") for c in design.columns)
    factors = len({c.term for c in design.columns if c.kind == "dummy"})
    square = (1.0 if design.has_intercept else 0.0) + factors
    square += numeric / 2.0 if numeric + factors > 1 else numeric
    return math.sqrt(max(square, 0.5))


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
    weight = _WEIGHT if loss.one_sided else _MEAN
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
    weight = _WEIGHT if loss.one_sided else _MEAN
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
        lam = radius * REACH * radius / kappa
        cost = (radius * loss.score / rho) ** 2 + lam * lam * _THETA2
        cost /= 1.0 if h is None else (h + lam) ** 2
        if cost < best:
            best, chosen = cost, kappa
    return chosen


def _coef_profile(loss: Loss, rho: float, kappa: float, relation: str) -> Profile:
    if loss.one_sided:
        return logistic_profile(rho, kappa, relation)
    return two_sided_profile(rho, math.log1p(loss.curvature * kappa), relation)


def _steps(
    shares: dict[str, float], mu: float, loss: Loss, kappa: float, relation: str
) -> list[Step]:
    """Return the steps at total strength ``mu``: shares of mu^2, a Gaussian of the same strength.

    Under replace-one the profile with rho is about a Gaussian with 2 rho.
    """
    steps = []
    for name, share in shares.items():
        part = math.sqrt(share) * mu
        if name != COEF_STEP:
            steps.append(Step(name, Gaussian(part), share=share))
            continue
        rho = part / (2.0 if relation == "replace" else 1.0)
        steps.append(
            Step(
                name,
                _coef_profile(loss, rho, kappa, relation),
                share=share,
                label="objective perturbation",
            )
        )
        steps.append(Step(OUT_STEP, Gaussian(OUT_RATIO * part)))
    return steps


@lru_cache(maxsize=256)
def _strength(
    eps: float,
    delta: float,
    shares: tuple[tuple[str, float], ...],
    loss: Loss,
    kappa: float,
    relation: str,
    failure: float,
    bought: float,
) -> float:
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


def rescales(request: Request, design: Design, n: int | None) -> bool:
    """Return whether centres and scales are learnt first: the user's word, or a public rule.

    Not where most columns are dummies (their half-ranges are their scale) and noise is loud:
    ``sqrt(16 p)/(mu n)`` above ``NOISY``. Otherwise it was the better of the two, and where n is
    private (None) it is what is done.
    """
    if request["rescale"] is not None:
        return bool(request["rescale"])
    if n is None:
        return True
    dummies = sum(c.kind == "dummy" for c in design.columns)
    loud = noise_ratio(mu_gdp(request.eps, request.delta), design.p, n) > NOISY
    return not (loud and 2 * dummies > design.p)


def _shares(request: Request, rescale: bool, inference: bool) -> dict[str, float]:
    default = {SCALE_STEP: SCALE_SHARE} if rescale else {}
    default[COEF_STEP] = 1.0 - SCALE_SHARE * rescale - INFO_SHARE * inference
    if inference:
        default[INFO_STEP] = INFO_SHARE
    short = {SCALE_STEP: "scale", COEF_STEP: "coef", INFO_STEP: "information"}
    given = request.shares_of(short[k] for k in default)
    return default if given is None else {k: given[short[k]] for k in default}


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="objpert")``. Source: ``theory.md``, section 4."""
    check_common(request, design)
    loss = glm_loss(request, design)
    relation = request.relation
    rescale = rescales(request, design, n)
    to_buy = design.unknown
    bought = bounds_share(request, to_buy)
    failure = FAILURE_SHARE * request.delta if to_buy else 0.0
    shares = {
        k: v * (1.0 - bought) for k, v in _shares(request, rescale, request.inference).items()
    }
    radius = float(request["radius"] or working_radius(design, rescale))
    if rescale and n is not None and not request["radius"]:
        about = math.sqrt(shares[COEF_STEP]) * mu_gdp(request.eps, request.delta) / 2.0
        radius = longer_radius(radius, loss, about, n)
    pair = (request.eps, request.delta)
    if relation == "replace":
        pair = add_remove_request(*pair)
    kappa = _kappa(request, loss, radius, pair, n, rescale)
    lam = radius * REACH * radius / kappa
    mu = _strength(
        request.eps, request.delta, tuple(shares.items()), loss, kappa, relation, failure, bought
    )
    steps = _steps(shares, mu, loss, kappa, relation)
    purchase: Purchase | None = None
    if to_buy:
        purchase, first = plan_purchase(to_buy, math.sqrt(bought) * mu, failure, bought)
        steps = first + steps
    rho = math.sqrt(shares[COEF_STEP]) * mu / (2.0 if relation == "replace" else 1.0)
    sigma = radius * loss.score / rho
    tol = 1e-8 * sigma
    if n is not None:
        tol = max(tol, n * radius * loss.score * 2.0**-50)
    detail = GlmDetail(
        loss=loss,
        radius=radius,
        reach=REACH * radius,
        lam=lam,
        rho=rho,
        sigma=sigma,
        tol=tol,
        mu={s.name: s.mechanism.mu for s in steps if isinstance(s.mechanism, Gaussian)},
        rescale=rescale,
        inference=request.inference,
        max_iter=int(request["max_iter"]),
        passes=planned_passes(n, design.p),
        relation=relation,
        public_params=public_only(request, loss, design.has_intercept),
    )
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=(FLOAT_NOTE,),
        shares={"ranges": bought, **_short(shares)} if to_buy else _short(shares),
        scales={
            "ridge (working units)": lam,
            "row norm bound (working units)": radius,
            "noise of the score (working units)": sigma,
        },
        purchase=purchase,
        detail=detail,
        advice=_advice(detail, design, n),
        # the design without its intercept has nothing to rescale
        passes=detail.passes
        + (purchase is not None)
        + (rescale and design.p > design.has_intercept)
        + request.inference,
    )


def public_only(request: Request, loss: Loss, intercept: bool) -> tuple[float, ...]:
    """Return the coefficients of a (hardly penalised) fit on the public rows alone; free."""
    Z = getattr(request.public, "rows", None)
    if Z is None:
        return ()
    lo, hi = Z[:-1].min(1), Z[:-1].max(1)
    half = np.where(hi > lo, (hi - lo) / 2.0, 1.0)
    scale, shift = 1.0 / half, np.zeros(len(half))
    if intercept:
        shift = -(lo + hi) / 2.0 / half
        scale[0], shift[0] = 1.0, 0.0
    top = None if loss.one_sided else loss.score
    working = WorkingRows(scale, shift, math.inf, math.inf, y_max=top)

    def blocks() -> Iterator[Array]:
        for start in range(0, Z.shape[1], 8192):
            yield Z[:, start : start + 8192].copy()

    found = minimise(
        blocks, working, loss, 1e-3, np.zeros(len(half)), 1e-6, n=Z.shape[1], max_iter=200,
        passes=planned_passes(Z.shape[1], len(half)),
    )  # fmt: skip
    return tuple(float(v) for v in back_map(scale, shift, intercept) @ found.theta)


def _short(shares: dict[str, float]) -> dict[str, float]:
    names = {SCALE_STEP: "scale", COEF_STEP: "coef", INFO_STEP: "information"}
    return {names[k]: v for k, v in shares.items()}


def _kappa(
    request: Request,
    loss: Loss,
    radius: float,
    pair: tuple[float, float],
    n: int | None,
    rescale: bool,
) -> float:
    """Return B R / lam: the user's ridge (in working units), or the default rule."""
    if request["lam"] is not None:
        return radius * REACH * radius / float(request["lam"])
    return default_kappa(*pair, n, radius, rescale, loss)


def _advice(detail: GlmDetail, design: Design, n: int | None) -> tuple[str, ...]:
    """Public advice: the noise of the score against the information n rows can have at most."""
    if n is None:
        return ()
    if not detail.loss.one_sided and detail.lam > _HEAVY * n * detail.loss.score / 4.0:
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
