"""``dp_ols(method="gptr")``: posterior sampling with tested bounds, by its exact privacy profile.

theta ~ N(theta*, (gamma A)^{-1}), A = X'X + lam I, ridge and gamma by released bounds
(``posterior.md``, section 2; :mod:`dpmodels.own.draws`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.core.release import Own, Program
from dpmodels.errors import RequestError, shown
from dpmodels.formula.design import Design
from dpmodels.models.linear import scored
from dpmodels.models.linear.opening import (
    MATRIX_STEP,
    OPENED_OPTIONS,
    VARIANCE_STEP,
    Whitened,
    WhitenedStart,
    why_alone,
)
from dpmodels.notes import Note
from dpmodels.own.draws import (
    EIGEN_STEP,
    RESIDUAL_STEP,
    Bounds,
    DrawDetail,
    LinearReleased,
    begin_draw,
    draw_name,
    noise_bound,
    release,
)
from dpmodels.own.profile import d_add, d_rem, largest, largest_m, largest_s
from dpmodels.planning import Plan, Purchase, column_radius
from dpmodels.privacy.mechanisms import (
    Gaussian,
    Profile,
    Step,
    add_remove_request,
    failure_part,
    gaussian_replace,
    mu_gdp,
)
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.ranges import FAILURE_SHARE, bounds_share, plan_purchase, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    WORKING_RADIUS,
    Backend,
    Ending,
    Method,
    Option,
    automatic,
    one_of,
    register_method,
)
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Read
from dpmodels.sums.scaling import unit_scale

__all__ = ["estimate", "plan", "release"]


# -- The plan of posterior sampling and score perturbation for linear regression; all public.


@dataclass(frozen=True)
class LinearDetail(DrawDetail):
    """Plan of a linear fit, fixed before the first row."""

    # {"auto", "fixed", "adaops", "ops"}: how lam is chosen from released numbers; "ops": public
    # constants only.
    rule: str = "auto"
    lam: float = 0.0
    floor: float = 10.0
    pair: tuple[float, float] = (0.0, 0.0)  # eps and delta of the call

    def ridge(self, at: Bounds) -> float:
        """Return the least eigenvalue that A is to have, by the rule of the call."""
        if at.rbar == at.rbar:
            return choose_ridge(at) if self.rule == "auto" else at.star
        # the least lam* at which the second release and the sampling are of any use
        B2, half = at.B**2, half_leverage(at.kind, at.rho, at.delta_t)
        ridge = self.lam
        if self.rule == "adaops":
            ridge = B2 * adaops_ridge(at.d, *self.pair, at.lam_min / B2)
        return max(at.lam_min + ridge, self.floor * B2 / at.mu2, B2 / half)


def _check(request: Request) -> None:
    """Refuse options that posterior sampling cannot take."""
    options = request.options
    if options.get("variant") == "paper":
        raise RequestError(
            "variant='paper' is not offered: the published constants of OPS-PTR (Theorem 5.1 and "
            "Algorithm 8) lose a factor sqrt(2) in a Gaussian tail: from eps of .25 on the true "
            "delta exceeds the claimed one, up to 29 times at 1e-6 and far more at smaller ones "
            "(theory note, section 6). The corrected algorithm is the default: leave variant= out"
        )
    if request.weights is not None:
        raise RequestError(f"method={request.method.name!r} cannot use weights=")


def _fractions(request: Request, rule: str) -> tuple[float, float]:
    """Return the parts of the budget for the two private bounds."""
    if rule == "adaops":  # quarters and a half of eps, in squares
        return 1.0 / 6.0, 1.0 / 6.0
    fractions = request["fractions"]
    if fractions is None:
        return 0.05, 0.10
    try:
        f1, f2 = (float(v) for v in fractions)
    except (TypeError, ValueError):
        f1 = f2 = math.nan
    if not (f1 > 0 and f2 > 0 and f1 + f2 < 1):
        raise RequestError(
            "fractions= must be two positive shares of mu^2 (eigenvalue, residual bound) with a "
            f"sum below 1, for example (0.05, 0.10); got {shown(fractions)}"
        )
    return f1, f2


def _radius(request: Request, design: Design) -> float:
    return float(request["radius"] or column_radius(design))


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="gptr")`` or ``"adaops"``."""
    _check(request)
    rule = request.method.name if request.method.name == "adaops" else "auto"
    lam = request.options.get("lam", "auto")
    if rule == "auto" and lam not in (None, "auto"):
        rule = "fixed"
    kind = str(request.options.get("estimator", "posterior"))
    draws = int(request.options.get("draws", 1))
    to_buy = design.unknown
    if to_buy and request.relation == "add-remove":
        raise RequestError(
            "ranges are estimated under relation='replace' only; declare the ranges of "
            f"{', '.join(to_buy)}, for example bounds={{{to_buy[0]!r}: (0, 10)}}"
        )
    bought = bounds_share(request, to_buy)
    fail_b = FAILURE_SHARE * request.delta if to_buy else 0.0
    total = mu_gdp(request.eps, 0.7 * request.delta - fail_b)
    factor = 2.0 if request.relation == "replace" else 1.0
    mu = math.sqrt(1.0 - bought) * total / factor
    x = failure_part(mu, 0.3 * request.delta, request.relation, 3)
    f1, f2 = _fractions(request, rule)
    detail = LinearDetail(
        kind, _radius(request, design), x, draws, rule, float(lam) if rule == "fixed" else 0.0,
        float(request.options.get("floor", 10.0)), (request.eps, request.delta),
    )  # fmt: skip
    # the failures cost gaussian_replace(mu, 3x)[1] in all under replace-one
    cost = (gaussian_replace(mu, 3 * x)[1] if factor == 2.0 else 3 * x) / 3.0
    of_draws = (1.0 - f1 - f2) / draws
    each = [factor * (math.sqrt(part) * mu) for part in (f1, f2, of_draws)]
    steps = [
        Step(EIGEN_STEP, Gaussian(each[0]), share=f1 * (1 - bought), failure=cost),
        Step(RESIDUAL_STEP, Gaussian(each[1]), share=f2 * (1 - bought), failure=cost),
    ]
    label = "posterior sample" if kind == "posterior" else "score perturbation"
    mechanism, share = Gaussian(each[2]), (1 - f1 - f2) * (1 - bought) / draws
    steps += [
        Step(draw_name(j, draws), mechanism, share=share, failure=cost / draws, label=label)
        for j in range(draws)
    ]
    purchase: Purchase | None = None
    if to_buy:
        purchase, first = plan_purchase(to_buy, math.sqrt(bought) * total, fail_b, bought)
        steps = first + steps
    return _plan(request, design, n, detail, steps, purchase=purchase)


def _plan(
    request: Request, design: Design, n: int | None, detail: LinearDetail, steps: list[Step],
    **facts: Any,
) -> Plan[Any]:
    """Return the plan of a release by posterior sampling."""
    return Plan.of(
        request, design, n, steps, notes=(FLOAT_NOTE,), detail=detail,
        scales={"row norm bound (working units)": detail.B}, **facts,
    )  # fmt: skip


def plan_ops(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan ``dp_ols(method="ops")``: one posterior sample at a ridge fixed by n (OPS-Balanced).

    Source: Wang (2018), with the exact calibration in place of the published one.
    """
    _check(request)
    if design.unknown:
        raise RequestError(
            "method='ops' exists for comparison and estimates no ranges: declare those of "
            + ", ".join(design.unknown)
        )
    d, B = design.p, _radius(request, design)
    eps, delta = request.eps, request.delta
    log_d = math.log(2.0 / delta)
    c1 = (d / 2 + math.sqrt(d * math.log(20)) + math.log(20)) * log_d
    c1 /= min(eps / 2, math.sqrt(eps / 2)) ** 2
    lam = B * B * max((c1 * n / 2) ** (1 / 3), (1 + log_d) / eps)
    pair = add_remove_request(eps, delta)
    # the published floor can be too small for the exact profile at tiny eps
    while largest_s_pair(B * B / lam, *pair) <= 0:
        lam *= 1.5
    s = largest_s_pair(B * B / lam, *pair) * (1 - 1e-9)
    detail = LinearDetail("posterior", B, rule="ops", lam=lam)
    curve = Profile("posterior sampling, replace", (("h", B * B / lam), ("s", s)))
    steps = [Step("coefficients", curve, share=1.0, label="posterior sample")]
    return _plan(request, design, n, detail, steps)


def choose_ridge(at: Bounds) -> float:
    """Return lam* >= at.star that minimises shrinkage plus noise, from released numbers: free.

    (lam* - lam~) tbar^2/4 + noise, tbar = (rbar - Y)/B; noise d/gamma (posterior) or
    d sigma^2/lam* (score). The bounds hold for every larger ridge at once.
    """
    kind, B, rho, rbar = at.kind, at.B, at.rho, at.rbar
    stars = at.star * np.geomspace(1.0, 50.0, 40)
    h = B * B / stars
    # ends on quarters: few distinct efficiency curves, and they are cached
    ends = math.floor(4 * math.log(h[-1])) / 4, math.ceil(4 * math.log(h[0])) / 4
    x, y = efficiency_curve(kind, rho, at.delta_t, *(min(math.log(0.4999), end) for end in ends))
    eff = np.maximum(np.interp(np.log(h), x, y), 1e-9)
    tbar = max(rbar - at.Y, 0.0) / B
    if kind == "posterior":
        gamma = (eff * rho / np.sqrt(h) / rbar) ** 2
        noise = at.d / gamma
    else:
        noise = at.d * (B * rbar / (eff * rho)) ** 2 / stars
    cost = (stars - at.lam_min) * tbar**2 / 4.0 + noise
    return float(stars[int(np.argmin(cost))])


def adaops_ridge(d: int, eps: float, delta: float, lam_min: float) -> float:
    """Return the ridge rule of AdaOPS (Wang 2018), in units of B^2; a heuristic, no privacy."""
    l6 = math.log(6.0 / delta)
    ebar = (math.sqrt(1.0 + l6 * eps / 2.0) - 1.0) / l6
    c1 = (d / 2 + math.sqrt(d * math.log(20)) + math.log(20)) * l6 / ebar**2
    c2 = l6 / (eps / 4)
    start = max(0.0, (1 + l6) / (eps / 2) - lam_min)
    t = start + np.concatenate([[0.0], np.geomspace(1e-2, 1e8, 400)])
    with np.errstate(all="ignore"):
        cost = np.log(c1) + 2 * c2 * np.log1p(1 / (t + lam_min)) - np.log(t + lam_min)
        cost = np.logaddexp(cost, np.log(np.maximum(t, 1e-300)))
    return float(t[int(np.nanargmin(cost))])


@lru_cache(maxsize=512)
def largest_s_pair(hbar: float, eps: float, delta: float) -> float:
    """Return the largest s with max(d_add, d_rem)(eps; hbar, s) <= delta: public bounds."""
    if not 0 < hbar < 0.5:
        return 0.0

    def fits(s: float) -> bool:
        return float(d_add(eps, hbar, s)) <= delta and float(d_rem(eps, hbar, s)) <= delta

    top = 1.0 / math.sqrt(hbar)
    while fits(top):
        top *= 2.0
    return largest(fits, top)


def efficiency(kind: str, hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return S sqrt(hbar)/rho (posterior) or m/rho (score): 1 means no loss against a Gaussian."""
    if kind == "posterior":
        return largest_s(hbar, rho, delta_t, points) * math.sqrt(hbar) / rho
    return largest_m(hbar, rho, delta_t, points) / rho


@lru_cache(maxsize=256)
def half_leverage(kind: str, rho: float, delta_t: float) -> float:
    """Return the largest leverage bound (at most .49) with efficiency at least one half."""
    lo, hi = -16.0, math.log(0.49)
    if efficiency(kind, math.exp(hi), rho, delta_t, 400) >= 0.5:
        return math.exp(hi)
    for _ in range(18):
        mid = 0.5 * (lo + hi)
        ok = efficiency(kind, math.exp(mid), rho, delta_t, 400) >= 0.5
        lo, hi = (mid, hi) if ok else (lo, mid)
    return math.exp(lo)


@lru_cache(maxsize=256)
def efficiency_curve(
    kind: str, rho: float, delta_t: float, lo: float, hi: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return seven logarithms of leverage bounds in [lo, hi], and the efficiency at each."""
    grid = np.linspace(lo, hi, 7)
    values = [efficiency(kind, math.exp(x), rho, delta_t, 200) for x in grid.tolist()]
    return tuple(grid.tolist()), tuple(values)


# -- Estimates of posterior sampling and score perturbation, from released numbers alone


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the draws back to the user's units; ``params`` is their mean."""
    design = release.design
    if not release.reply:
        return no_ranges_note(design.names)
    released: LinearReleased = release.detail
    A, a = unit_scale(design).back()
    draws = release.values["draws"] @ A.T + a
    bound = noise_bound(released)
    notes = [
        messages.POSTERIOR_ERRORS(bound=bound),
    ]
    if released.lam > 0:
        notes.append(messages.POSTERIOR_RIDGE(lam=released.lam))
    if len(draws) > 1:
        sds = zip(design.names, draws.std(0, ddof=1), strict=True)
        listed = ", ".join(f"{name} {v:.3g}" for name, v in sds)
        notes.append(messages.POSTERIOR_DRAWS(many=len(draws), sds=listed))
    if plan.detail.rule == "fixed" and released.lam > plan.detail.lam * (1 + 1e-12):
        notes.append(messages.RIDGE_RAISED())
    stats = {"noise_sd_bound": bound, "ridge": released.lam, "lam_star": released.lam_star}
    for name, value in (("gamma", released.gamma), ("score_noise_sd", released.sigma)):
        if value == value:
            stats[name] = value
    if released.rbar == released.rbar:
        stats |= {"eigenvalue_lower_bound": released.lam_min, "residual_bound": released.rbar}
    arrays = {"draws": draws} if len(draws) > 1 else {}
    return Estimate(design.names, draws.mean(0), stats=stats, notes=tuple(notes), arrays=arrays)


# -- A posterior draw as the start of a fit by scores.


#: Shares of mu^2 of the start.
DRAW_SHARES = {"scale": 0.20, "eigen": 0.04, "bound": 0.08, "draw": 0.60, "variance": 0.08}
_DRAW_STEPS = {
    "scale": MATRIX_STEP, "eigen": EIGEN_STEP, "bound": RESIDUAL_STEP, "draw": draw_name(0, 1),
    "variance": VARIANCE_STEP,
}  # fmt: skip
#: The steps with a one-sided proof, and the part of delta for their failures.
ONE_SIDED, DRAW_FAILURE = ("eigen", "bound", "draw"), 0.3
#: Options that belong to the draws alone.
OF_DRAWS = ("estimator", "draws", "lam", "fractions", "floor", "variant", "radius")


@dataclass(frozen=True)
class DrawStart(WhitenedStart):
    """Start of a fit by scores: one posterior draw with tested bounds."""

    shares: ClassVar[Mapping[str, float]] = DRAW_SHARES
    names: ClassVar[Mapping[str, str]] = _DRAW_STEPS
    labels: ClassVar[Mapping[str, str]] = {"draw": "posterior sample"}
    notes: ClassVar[tuple[Note, ...]] = (FLOAT_NOTE,)

    def one_sided(self, mu: float) -> tuple[float, float, float]:
        """Return mu of the add/remove run, each failure in it, and its cost under replace-one."""
        half = mu * math.sqrt(math.fsum(DRAW_SHARES[k] for k in ONE_SIDED)) / 2.0
        x = failure_part(half, self.failure, "replace", len(ONE_SIDED))
        cost = gaussian_replace(half, len(ONE_SIDED) * x)[1] / len(ONE_SIDED)
        return half, x, cost

    def failures(self, mu: float) -> Mapping[str, float]:
        """Return the failures of the one-sided steps, whose mu is twice that of their run."""
        return dict.fromkeys(ONE_SIDED, self.one_sided(mu)[2])

    def coefficients(
        self, mu: float, rows: Whitened, coordinates: Coordinates, read: Read
    ) -> Program:
        """Release two bounds and the draw."""
        over = rows.over
        detail = LinearDetail("posterior", over.rowmap.radius, self.one_sided(mu)[1])
        draw, done = yield Own(functools.partial(begin_draw, detail, over, read=read))
        sd = noise_bound(done)
        return draw, sd, {
            "lam_min": np.array(done.lam_min), "rbar": np.array(done.rbar),
            "draw": rows.W @ draw, "noise": np.array(sd), "ridge": np.array(done.lam),
        }  # fmt: skip


def why_not(request: Request, design: Design, n: int | None) -> str:
    """Return the reason why a call releases draws alone, or "" if it ends by scores. Public."""
    other = "" if request.relation == "replace" else "its proof is of relation='replace'"
    return why_alone(request, OF_DRAWS, "the draws alone", other)


def plan_scored(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan ``dp_ols(method="gptr")`` that starts from a draw and ends by scores."""
    _check(request)
    return scored.plan(request, design, n, opening=DrawStart(DRAW_FAILURE * request.delta))


def estimate_scored(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, and add the draw that it started from."""
    fit = scored.estimate(plan, release)
    if not release.reply:
        return fit
    values = release.detail.fits[0].values
    A, a = release.detail.coordinates.back()
    stats = {
        "eigenvalue_lower_bound": float(values["lam_min"]), "ridge": float(values["ridge"]),
        "residual_bound": float(values["rbar"]), "noise_sd_bound": float(values["noise"]),
    }  # fmt: skip
    return replace(
        fit, notes=(*fit.notes, messages.DRAW_START()), stats={**fit.stats, **stats},
        arrays={**fit.arrays, "draw": A @ values["draw"] + a},
    )  # fmt: skip


POSTERIOR_SCORED = Backend(
    plan_scored, scored.release, estimate_scored,
    title="least squares, private, from a posterior draw",
)  # fmt: skip

GPTR = Backend(plan, with_ranges(release), estimate)

_sampled = functools.partial(
    Method, verb="dp_ols", proof="models/linear/posterior.md", backend=GPTR,
    needs=("delta > 0", "one pass"), relations=("replace", "add-remove"),
    inference="no (bound of the noise)", privacy_se="unavailable",
)  # fmt: skip

register_method(
    _sampled(
        name="gptr",
        title="Posterior sampling with tested bounds",
        endings=(Ending(POSTERIOR_SCORED, why_not, "draws alone"),),
        foretells=True,
        needs=("delta > 0", "several passes"),
        inference="yes",
        privacy_se="released",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            one_of(
                "estimator",
                "'posterior' sample, or 'score' perturbation (better for ill conditioned designs)",
                "posterior",
                "score",
            ),
            Option("draws", "number of draws; the budget is split over them", 1, int, lower=0),
            automatic(
                "lam",
                "ridge in working units; 'auto' chooses it from released numbers, free of charge",
            ),
            Option(
                "fractions", "shares of mu^2 of the two bounds; None: (0.05, 0.10)", None, object
            ),
            Option(
                "floor", "smallest eigenvalue over the noise of its bound", 10.0, float, lower=1.0
            ),
            one_of(
                "variant",
                "'paper' is refused: its constants are not private (theory note)",
                "default",
                "paper",
            ),
            *OPENED_OPTIONS,
            WORKING_RADIUS,
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    _sampled(
        name="ops",
        title="OPS-Balanced, exact calibration",
        backend=replace(GPTR, plan=plan_ops),
        needs=("delta > 0", "one pass", "ranges"),
        relations=("replace",),
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(WORKING_RADIUS,),
        comparison_only=True,
    )
)

register_method(
    _sampled(
        name="adaops",
        title="AdaOPS, exact calibration",
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(WORKING_RADIUS, BOUNDS_SHARE),
        comparison_only=True,
    )
)
