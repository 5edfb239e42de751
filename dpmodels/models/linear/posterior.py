"""``dp_ols(method="gptr")``: posterior sampling with tested bounds, by its exact privacy profile.

theta ~ N(theta*, (gamma A)^{-1}), A = X'X + lam I. Adding or removing a row (x, y0) changes the
density by a function of u = sqrt(gamma) (y0 - x'theta) alone, a univariate normal: the profile is
closed in two scalars, the leverage and the scaled residual (``posterior.md``, section 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.planning import Plan, Purchase, column_radius
from dpmodels.privacy.composition import gdp_curve, interval_mass
from dpmodels.privacy.mechanisms import (
    Gaussian,
    Profile,
    Step,
    add_remove_request,
    eps_gdp,
    failure_part,
    gaussian_replace,
    mu_gdp,
    upper_quantile,
)
from dpmodels.privacy.run import FLOAT_NOTE, ROUND_UP, own_proof
from dpmodels.proof.prove import Of
from dpmodels.ranges import FAILURE_SHARE, bounds_share, plan_purchase, ranged
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    WORKING_RADIUS,
    Backend,
    Method,
    Option,
    automatic,
    one_of,
    register_method,
)
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Added, Ask, Moments, Query
from dpmodels.sums.rowmap import RowMap, UnitScale, unit_scale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["estimate", "plan", "release"]


def _log_outside(root: Array, m: float, v: float) -> Array:
    """Return log P(|u| > root), u ~ N(m, v)."""
    from scipy.special import log_ndtr

    sd = math.sqrt(v)
    return np.asarray(np.logaddexp(log_ndtr((m - root) / sd), log_ndtr((-m - root) / sd)))


def _inside(root: Array, m: float, v: float) -> Array:
    """Return P(|u| < root), u ~ N(m, v)."""
    sd = math.sqrt(v)
    return interval_mass((-root - m) / sd, (root - m) / sd)


def d_add(eps: npt.ArrayLike, h: float, s: float) -> Array:
    """Return delta(eps) of (Z, Z plus a row): out-of-sample leverage h, scaled residual s.

    ``h = x'A^{-1}x`` and ``s = sqrt(gamma) (y0 - x'theta*)``, both at Z; eps any real numbers.
    """
    e = np.asarray(eps, dtype=float)
    if h <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    t = 2 * e + math.log1p(h) + s * s / (1 + h)
    root = np.sqrt(np.maximum(t, 0.0))
    p = _log_outside(root, s, h)
    q = e + _log_outside(root, s / (1 + h), h / (1 + h))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(t <= 0, -np.expm1(np.minimum(e, 700.0)), np.exp(p) - np.exp(q)))


def d_rem(eps: npt.ArrayLike, g: float, s: float) -> Array:
    """Return delta(eps) of (Z, Z minus a row): in-sample leverage g < 1, scaled residual s."""
    e = np.asarray(eps, dtype=float)
    if g <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    t = -2 * e - math.log1p(-g) + s * s / (1 - g)
    root = np.sqrt(np.maximum(t, 0.0))
    p = _inside(root, s, g)
    q = np.exp(np.minimum(e, 700.0)) * _inside(root, s / (1 - g), g / (1 - g))
    return np.asarray(np.where(t <= 0, 0.0, p - q))


@lru_cache(maxsize=256)
def eps_grid(rho: float, delta_t: float, points: int = 4000) -> Array:
    """Return the eps on which a calibration is checked (``posterior.md``, 2.3)."""
    top = 1.0 + eps_gdp(rho, delta_t / 1000.0)
    grid = np.linspace(0.0, top, points)
    return np.concatenate([grid, np.geomspace(1e-6, 1e-2, 40), [2 * top, 4 * top]])


def _within(
    curves: Callable[[Array, float], Iterator[Array]], hbar: float, rho: float, delta_t: float,
    points: int, top: float,
) -> float:  # fmt: skip
    """Return the largest bound whose curves stay below dG(eps; rho) + delta_t, all real eps.

    (C1) and (C2), of a row more and a row less, at eps >= 0; and (C3), which is (C2) at negative
    eps by symmetry. 0.99 delta_t on the grid pays for what lies between its points, of which fewer
    are for choosing a ridge only, never for a release. 0 if hbar, a bound of in- and out-of-sample
    leverages below 1/2, is too large.
    """
    if not 0 < hbar < 0.5:
        return 0.0
    eps = eps_grid(rho, delta_t, points)
    base = gdp_curve(eps, rho)
    room = base + 0.99 * delta_t
    low = base + 0.99 * delta_t * np.exp(np.minimum(eps, 700.0))

    def fits(bound: float) -> bool:
        found = zip(curves(eps, bound), (room, room, low), strict=True)
        return all(bool(np.all(curve <= most)) for curve, most in found)

    return _largest(fits, top, 45 if points >= 4000 else 16)


@lru_cache(maxsize=2048)
def largest_s(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest scaled residual bound: see :func:`_within`."""

    def curves(eps: Array, s: float) -> Iterator[Array]:
        yield d_rem(eps, hbar, s)
        yield d_add(eps, hbar, s)
        yield d_add(eps, hbar / (1 - hbar), s / (1 - hbar))

    return _within(curves, hbar, rho, delta_t, points, 1.2 * rho / math.sqrt(max(hbar, 1e-300)))


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
    return _largest(fits, top)


def _largest(fits: Callable[[float], bool], top: float, steps: int = 45) -> float:
    if not fits(0.0):
        return 0.0
    lo, hi = 0.0, top
    for _ in range(steps):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if fits(mid) else (lo, mid)
    return lo


def add_remove_curve(eps: float, *, h: float, s: float) -> float:
    """Return delta(eps), eps >= 0, at public bounds h < 1/2 of the leverage and s."""
    return float(max(d_add(eps, h, s), d_rem(eps, h, s)))


def replace_curve(eps: float, *, h: float, s: float) -> float:
    """Return the replace-one form: (1 + e^(eps/2)) times the above at eps/2."""
    return min(1.0, (1.0 + math.exp(min(600.0, eps / 2))) * add_remove_curve(eps / 2, h=h, s=s))


# -- The plan of posterior sampling and score perturbation for linear regression; all public.


EIGEN_STEP, RESIDUAL_STEP = "smallest eigenvalue", "residual bound"


@dataclass(frozen=True)
class LinearDetail:
    """What a linear fit of this room decided before the first row."""

    kind: str
    # {"auto", "fixed", "adaops", "ops"}: how lam is chosen from released numbers; "ops": public
    # constants only.
    rule: str
    lam: float
    n: int | None  # Public row count
    B: float
    factor: float = 2.0  # 2 under replace-one: the steps are stated with twice the add/remove mu
    # mu1, mu2, rho: add/remove strengths of the two bounds and of *each* draw.
    mu1: float = 0.0
    mu2: float = 0.0
    rho: float = 0.0
    # d1, d2, delta_t: failure probabilities (delta_t of each draw).
    d1: float = 0.0
    d2: float = 0.0
    delta_t: float = 0.0
    floor: float = 0.0
    draws: int = 1
    Y: float = 1.0
    # gamma, s: of rule "ops".
    gamma: float = 0.0
    s: float = 0.0


def draw_name(j: int, draws: int) -> str:
    """Return the step name of draw j."""
    return "coefficients" if draws == 1 else f"coefficients, draw {j + 1}"


def _check(request: Request) -> None:
    options = request.options
    if options.get("variant") == "paper":
        raise RequestError(
            "variant='paper' is not offered: the published constants of OPS-PTR (Theorem 5.1 and "
            "Algorithm 8) lose a factor sqrt(2) in a Gaussian tail: from eps of .25 on the true "
            "delta exceeds the claimed one, up to 29 times at 1e-6 and far more at smaller ones "
            "(theory note, section 6). The corrected algorithm is the default: leave variant= out"
        )
    if request.weights is not None:
        raise RequestError(f"method={request.method.name!r} takes no weights=")


def _fractions(request: Request, rule: str) -> tuple[float, float]:
    if rule == "adaops":  # quarters and a half of eps, in squares
        return 1.0 / 6.0, 1.0 / 6.0
    given = request["fractions"]
    if given is None:
        return 0.05, 0.10
    try:
        f1, f2 = (float(v) for v in given)
    except (TypeError, ValueError):
        f1 = f2 = math.nan
    if not (f1 > 0 and f2 > 0 and f1 + f2 < 1):
        raise RequestError(
            "fractions= takes two positive shares of mu^2 (eigenvalue, residual bound) with a sum "
            f"below 1, for example (0.05, 0.10); got {shown(given)}"
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
        kind, rule, float(lam) if rule == "fixed" else 0.0, n, _radius(request, design), factor,
        math.sqrt(f1) * mu, math.sqrt(f2) * mu, math.sqrt((1.0 - f1 - f2) / draws) * mu,
        d1=x, d2=x, delta_t=x / draws, floor=float(request.options.get("floor", 10.0)),
        draws=draws,
    )  # fmt: skip
    # the failures cost gaussian_replace(mu, 3x)[1] in all under replace-one
    cost = (gaussian_replace(mu, 3 * x)[1] if factor == 2.0 else 3 * x) / 3.0
    steps = [
        Step(EIGEN_STEP, Gaussian(factor * detail.mu1), share=f1 * (1 - bought), failure=cost),
        Step(RESIDUAL_STEP, Gaussian(factor * detail.mu2), share=f2 * (1 - bought), failure=cost),
    ]
    label = "posterior sample" if kind == "posterior" else "score perturbation"
    mechanism, share = Gaussian(factor * detail.rho), (1 - f1 - f2) * (1 - bought) / draws
    steps += [
        Step(draw_name(j, draws), mechanism, share=share, failure=cost / draws, label=label)
        for j in range(draws)
    ]
    purchase: Purchase | None = None
    if to_buy:
        purchase, first = plan_purchase(to_buy, math.sqrt(bought) * total, fail_b, bought)
        steps = first + steps
    return _plan(request, design, detail, steps, purchase=purchase)


def _plan(
    request: Request, design: Design, detail: LinearDetail, steps: list[Step], **facts: Any
) -> Plan[Any]:
    return Plan.of(
        request, design, detail.n, steps, notes=(FLOAT_NOTE,), detail=detail,
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
    tbar = min(math.sqrt(n / (4.0 * lam)), n * B / lam)
    gamma = (s / (1.0 + B * tbar)) ** 2
    detail = LinearDetail("posterior", "ops", lam, n, B, gamma=gamma, s=s)
    curve = Profile("posterior sampling, replace", (("h", B * B / lam), ("s", s)))
    steps = [Step("coefficients", curve, share=1.0, label="posterior sample")]
    return _plan(request, design, detail, steps)


# -- Private bounds for ridge regression, and the ridge chosen from them


# -- Score perturbation for ridge regression: theta = A^{-1}(X'y + sigma b), b ~ N(0, I)


def loss_bound(eps: Array, c: float, m: float, h: float, delta_t: float) -> Array:
    """Return the bound of delta(eps): m = B rbar / sigma, leverage h, determinant term c.

    On |x'A^{-1}b| <= (B/lam*) z, of probability 1 - delta_t/2, the loss is convex in the noisy
    residual, so at most the larger of two Gaussian losses (mu = m + eta and eta), plus c.
    """
    from scipy.special import ndtr

    eta = h * upper_quantile(delta_t / 4.0)
    x, mu = eps - c, m + eta
    # E(1 - e^(x - max(0, l)))_+ for a Gaussian loss l: dG for x >= 0
    low = 1.0 - 2.0 * np.exp(np.minimum(x, 0.0)) * float(ndtr(-mu / 2))
    first = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), mu), low)
    second = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), eta), 1.0 - 2.0 * float(ndtr(-eta / 2)))
    return np.asarray(first + second + delta_t / 2.0)


@lru_cache(maxsize=2048)
def largest_m(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest m = B rbar / sigma: see :func:`_within`."""

    def curves(eps: Array, m: float) -> Iterator[Array]:
        h2 = hbar / (1 - hbar)
        yield loss_bound(eps, -math.log1p(-hbar), m, hbar, delta_t)
        yield loss_bound(eps, 0.0, m, hbar, delta_t)
        yield loss_bound(eps, math.log1p(h2), m / (1 - hbar), h2, delta_t)

    return _within(curves, hbar, rho, delta_t, points, rho)


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
def _efficiency_curve(
    kind: str, rho: float, delta_t: float, lo: float, hi: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    grid = np.linspace(lo, hi, 7)
    values = [efficiency(kind, math.exp(x), rho, delta_t, 200) for x in grid.tolist()]
    return tuple(grid.tolist()), tuple(values)


def choose_ridge(
    detail: LinearDetail, *, lam_star0: float, lam_min: float, rbar: float, d: int
) -> float:
    """Return lam* >= lam_star0 that minimises shrinkage plus noise, from released numbers: free.

    (lam* - lam~) tbar^2/4 + noise, tbar = (rbar - Y)/B; noise d/gamma (posterior) or
    d sigma^2/lam* (score). The bounds hold for every larger ridge at once.
    """
    kind, B, rho, delta_t = detail.kind, detail.B, detail.rho, detail.delta_t
    stars = lam_star0 * np.geomspace(1.0, 50.0, 40)
    h = B * B / stars
    # ends on quarters: few distinct efficiency curves, and they are cached
    ends = math.floor(4 * math.log(h[-1])) / 4, math.ceil(4 * math.log(h[0])) / 4
    x, y = _efficiency_curve(kind, rho, delta_t, *(min(math.log(0.4999), end) for end in ends))
    eff = np.maximum(np.interp(np.log(h), x, y), 1e-9)
    tbar = max(rbar - detail.Y, 0.0) / B
    if kind == "posterior":
        gamma = (eff * rho / np.sqrt(h) / rbar) ** 2
        noise = d / gamma
    else:
        noise = d * (B * rbar / (eff * rho)) ** 2 / stars
    cost = (stars - lam_min) * tbar**2 / 4.0 + noise
    return float(stars[int(np.argmin(cost))])


# -- The private stage of posterior sampling and score perturbation.


#: Float allowance of sensitivities of eigenvalues and norms of exactly accumulated moments.
_ALLOW = 1.0 + 2.0**-20


@dataclass(frozen=True)
class LinearReleased:
    """Released and public numbers beside the draws."""

    unit: UnitScale
    # lam, lam_min, lam_star, rbar: ridge, released lower bound of the smallest eigenvalue, their
    # sum, residual bound.
    lam: float
    lam_min: float
    lam_star: float
    rbar: float
    # gamma, sigma: of a draw: posterior precision factor, or sd of the score noise (the other is
    # NaN).
    gamma: float
    sigma: float
    raised: bool  # The user's ridge was too small for the released bound and was raised


def ridge_solution(S: Array, b: Array, lam: float) -> tuple[Array, Array]:
    """Return (L, theta*) with L L' = S + lam I."""
    L = np.linalg.cholesky(S + lam * np.eye(len(b)))
    half = np.linalg.solve(L, b)
    return np.asarray(L), np.asarray(np.linalg.solve(L.T, half))


def sample(S: Array, b: Array, lam: float, normals: Array, *, gamma: float, sigma: float) -> Array:
    """Return theta* + L^{-T} normals / sqrt(gamma), or A^{-1}(b + sigma normals)."""
    L, theta = ridge_solution(S, b, lam)
    if sigma == sigma:
        noise = sigma * np.linalg.solve(L, normals)
    else:
        noise = normals / math.sqrt(gamma)
    return np.asarray(theta + np.linalg.solve(L.T, noise))


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


def _ridge(
    plan: Plan[Any], detail: LinearDetail, lam_min: float, d: int
) -> tuple[float, float, bool]:
    """Return (lam_star0, lam_0, raised), from released numbers."""
    B2 = detail.B**2
    # the least lam* at which the second release and the sampling are of any use
    half = half_leverage(detail.kind, detail.rho, detail.delta_t)
    least = max(detail.floor * B2 / detail.mu2, B2 / half)
    asked = detail.lam
    if detail.rule == "adaops":
        request = plan.request
        asked = B2 * adaops_ridge(d, request.eps, request.delta, lam_min / B2)
    star = max(lam_min + asked, least)
    lam0 = star - lam_min
    return star, lam0, detail.rule == "fixed" and lam0 > asked * (1 + 1e-12)


def _bounded(rbar: float, detail: LinearDetail, lam0: float) -> float:
    """Return rbar with its public ends: at least Y; under replace-one at most the free bound."""
    rbar = max(rbar, detail.Y)
    if detail.n is not None and lam0 > 0:
        top = detail.Y + detail.B * detail.Y * math.sqrt(detail.n) / (2.0 * math.sqrt(lam0))
        rbar = min(rbar, top)
    return rbar


@ranged
def release(plan: Plan[LinearDetail], ask: Ask, design: Design) -> Release:
    """Release two bounds, choose ridge and noise from them, and sample.

    Privacy
    -------
    Unit: one row. One-sided composition (``posterior.md``, section 1): the bounds need to hold at
    the data set at hand only. Always answers, unless ranges could not be bought.
    """
    detail = plan.detail
    p, unit = design.p, unit_scale(design)
    box = np.append(np.full(p, detail.B), detail.Y)
    rowmap = RowMap(unit, box, ball=p, radius=detail.B)
    raw = ask.raw(own_proof("posterior draws"))
    over = Moments(design, rowmap)
    G = raw.total(over).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    if detail.rule == "ops":
        normals = raw.inner_normals("coefficients", p)
        draw = sample(S, b, detail.lam, normals, gamma=detail.gamma, sigma=math.nan)
        done = LinearReleased(
            unit, detail.lam, math.nan, detail.lam, math.nan, detail.gamma, math.nan, False
        )
        return Release({"draws": _on_grid(draw[None], done)}, plan.guarantee, design, detail=done)
    B2 = detail.B**2 * _ALLOW
    lemma = Of("least eigenvalue, by relation", (detail.B**2,))
    low = ask(EIGEN_STEP, Query(lemma, over, lambda _: Added(np.linalg.eigvalsh(S)[:1])))
    lam_min = max(0.0, float(low.at_least(detail.d1)[0]))
    star0, lam0, raised = _ridge(plan, detail, lam_min, p)
    _, theta = ridge_solution(S, b, lam0)
    size = math.log(detail.Y + detail.B * float(np.linalg.norm(theta)))
    lemma = Of("log residual", (B2, star0))
    found = ask(RESIDUAL_STEP, Query(lemma, over, lambda _: Added(np.array([size]))))
    rbar = _bounded(math.exp(min(700.0, float(found.at_most(detail.d2)[0]))), detail, lam0)
    done = _calibrate(detail, unit, lam_min, star0, rbar, raised, p)
    draws = [
        sample(
            S, b, done.lam, raw.inner_normals(draw_name(j, detail.draws), p),
            gamma=done.gamma, sigma=done.sigma,
        )
        for j in range(detail.draws)
    ]  # fmt: skip
    values = {
        "draws": _on_grid(np.array(draws), done),
        "lam_min": np.array(lam_min),
        "rbar": np.array(rbar),
    }
    return Release(values, plan.guarantee, design, detail=done)


def _calibrate(
    detail: LinearDetail, unit: UnitScale, lam_min: float, star: float, rbar: float, raised: bool,
    d: int,
) -> LinearReleased:  # fmt: skip
    """Choose the ridge and the noise from released numbers: post-processing, free."""
    B2 = detail.B**2
    if detail.rule == "auto":
        star = choose_ridge(detail, lam_star0=star, lam_min=lam_min, rbar=rbar, d=d)
    hbar = B2 / star * _ALLOW
    gamma = sigma = math.nan
    if detail.kind == "posterior":
        gamma = (largest_s(hbar, detail.rho, detail.delta_t) / rbar) ** 2 / ROUND_UP**2
    else:
        sigma = detail.B * rbar / largest_m(hbar, detail.rho, detail.delta_t) * ROUND_UP
    return LinearReleased(unit, star - lam_min, lam_min, star, rbar, gamma, sigma, raised)


def noise_bound(released: LinearReleased) -> float:
    """Return the bound of the noise sd of a working coefficient: released numbers only."""
    if released.sigma == released.sigma:
        return released.sigma / released.lam_star
    return 1.0 / math.sqrt(released.gamma * released.lam_star)


def _on_grid(draws: Array, released: LinearReleased) -> Array:
    """Round to a public grid of 2^-34 of the largest noise sd."""
    grid = noise_bound(released) * 2.0**-34
    return np.asarray(np.round(draws / grid) * grid)


# -- Estimates of posterior sampling and score perturbation, from released numbers alone


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the draws back to the design's own units; ``params`` is their mean."""
    design = release.design
    if not release.reply:
        return no_ranges_note(design.names)
    released: LinearReleased = release.detail
    A, a = released.unit.back()
    draws = release.values["draws"] @ A.T + a
    bound = noise_bound(released)
    notes = [
        messages.POSTERIOR_ERRORS(bound=bound),
    ]
    if released.lam > 0:
        notes.append(messages.POSTERIOR_RIDGE(lam=released.lam))
    if released.raised:
        notes.append(messages.RIDGE_RAISED())
    stats = {"noise_sd_bound": bound, "ridge": released.lam, "lam_star": released.lam_star}
    for name, value in (("gamma", released.gamma), ("score_noise_sd", released.sigma)):
        if value == value:
            stats[name] = value
    if released.rbar == released.rbar:
        stats |= {"eigenvalue_lower_bound": released.lam_min, "residual_bound": released.rbar}
    arrays = {"draws": draws} if len(draws) > 1 else {}
    return Estimate(design.names, draws.mean(0), stats=stats, notes=tuple(notes), arrays=arrays)


GPTR = Backend(plan, release, estimate)

_sampled = functools.partial(
    Method, verb="dp_ols", proof="models/linear/posterior.md", backend=GPTR,
    needs=("delta > 0", "one pass"), relations=("replace", "add-remove"),
    inference="no (bound of the noise)", privacy_se="unavailable",
)  # fmt: skip

register_method(
    _sampled(
        name="gptr",
        title="Posterior sampling with tested bounds",
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
            WORKING_RADIUS,
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    _sampled(
        name="ops",
        title="OPS-Balanced, exact calibration",
        backend=Backend(plan_ops, release, estimate),
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
