"""The plan of posterior sampling and score perturbation for linear regression; all public."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.models.linear.eptr_plan import column_radius
from dpmodels.models.linear.posterior import _largest, eps_grid, largest_s, largest_s_pair
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.composition import gdp_curve
from dpmodels.privacy.gdp import mu_gdp, upper_quantile
from dpmodels.privacy.group import add_remove_request, gaussian_replace
from dpmodels.privacy.mechanisms import Gaussian, Profile, Step
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.ranges import FAILURE_SHARE, bounds_share, plan_purchase

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

EIGEN_STEP, RESIDUAL_STEP = "smallest eigenvalue", "residual bound"


@dataclass(frozen=True)
class LinearDetail:
    """What a linear fit of this room decided before the first row.

    Attributes
    ----------
    kind : {"posterior", "score"}
    rule : {"auto", "fixed", "adaops", "ops"}
        How lam is chosen from released numbers; "ops": public constants only.
    mu1, mu2, rho : float
        Add/remove strengths of the two bounds and of *each* draw.
    d1, d2, delta_t : float
        Failure probabilities (delta_t of each draw).
    factor : float
        2 under replace-one: the steps are stated with twice the add/remove mu.
    lam, floor : float
    draws : int
    n : int or None
        Public row count.
    B, Y : float
    gamma, s : float
        Of rule "ops".
    """

    kind: str
    rule: str
    mu1: float
    mu2: float
    rho: float
    d1: float
    d2: float
    delta_t: float
    factor: float
    lam: float
    floor: float
    draws: int
    n: int | None
    B: float
    Y: float = 1.0
    gamma: float = 0.0
    s: float = 0.0


def draw_name(j: int, draws: int) -> str:
    """Return the step name of draw j."""
    return "coefficients" if draws == 1 else f"coefficients, draw {j + 1}"


def failure_part(mu: float, total: float, relation: str) -> float:
    """Return x such that three failures of x cost ``total`` under the relation.

    Under replace-one: 3x + Phi(Phi^{-1}(3x) + mu) = total (``privacy/theory.md``, section 5).
    """
    if relation != "replace":
        return total / 3.0
    lo, hi = 1e-12 * total, total / 3.0
    for _ in range(200):
        mid = math.sqrt(lo * hi)
        lo, hi = (mid, hi) if gaussian_replace(mu, 3 * mid)[1] <= total else (lo, mid)
        if hi / lo < 1 + 1e-14:
            break
    return lo


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


def _purchase_allowed(request: Request, design: Design) -> tuple[str, ...]:
    unknown = design.unknown
    if unknown and request.relation == "add-remove":
        raise RequestError(
            "ranges are bought under relation='replace' only; declare the ranges of "
            f"{', '.join(unknown)}, for example bounds={{{unknown[0]!r}: (0, 10)}}"
        )
    return unknown


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
    to_buy = _purchase_allowed(request, design)
    bought = bounds_share(request, to_buy)
    fail_b = FAILURE_SHARE * request.delta if to_buy else 0.0
    total = mu_gdp(request.eps, 0.7 * request.delta - fail_b)
    factor = 2.0 if request.relation == "replace" else 1.0
    mu = math.sqrt(1.0 - bought) * total / factor
    x = failure_part(mu, 0.3 * request.delta, request.relation)
    f1, f2 = _fractions(request, rule)
    detail = LinearDetail(
        kind=kind,
        rule=rule,
        mu1=math.sqrt(f1) * mu,
        mu2=math.sqrt(f2) * mu,
        rho=math.sqrt((1.0 - f1 - f2) / draws) * mu,
        d1=x,
        d2=x,
        delta_t=x / draws,
        factor=factor,
        lam=float(lam) if rule == "fixed" else 0.0,
        floor=float(request.options.get("floor", 10.0)),
        draws=draws,
        n=n,
        B=_radius(request, design),
    )
    # the failures cost gaussian_replace(mu, 3x)[1] in all under replace-one
    cost = (gaussian_replace(mu, 3 * x)[1] if factor == 2.0 else 3 * x) / 3.0
    steps = [
        Step(EIGEN_STEP, Gaussian(factor * detail.mu1), share=f1 * (1 - bought), failure=cost),
        Step(RESIDUAL_STEP, Gaussian(factor * detail.mu2), share=f2 * (1 - bought), failure=cost),
    ]
    steps += [
        Step(
            draw_name(j, draws),
            Gaussian(factor * detail.rho),
            share=(1 - f1 - f2) * (1 - bought) / draws,
            failure=cost / draws,
            label="posterior sample" if kind == "posterior" else "score perturbation",
        )
        for j in range(draws)
    ]
    purchase: Purchase | None = None
    if to_buy:
        purchase, first = plan_purchase(to_buy, math.sqrt(bought) * total, fail_b, bought)
        steps = first + steps
    shares = {"bound": f1, "residual": f2, "coef": 1 - f1 - f2}
    shares = {k: v * (1 - bought) for k, v in shares.items()}
    return _plan(
        request, design, detail, steps, {"ranges": bought, **shares} if to_buy else shares, purchase
    )


def _plan(
    request: Request,
    design: Design,
    detail: LinearDetail,
    steps: list[Step],
    shares: dict[str, float],
    purchase: Purchase | None = None,
) -> Plan[Any]:
    return Plan.of(
        request,
        design,
        detail.n,
        steps,
        notes=(FLOAT_NOTE,),
        shares=shares,
        scales={"row norm bound (working units)": detail.B},
        purchase=purchase,
        detail=detail,
    )


def plan_ops(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan ``dp_ols(method="ops")``: one posterior sample at a ridge fixed by n (OPS-Balanced).

    Source: Wang (2018), with the exact calibration in place of the published one.
    """
    _check(request)
    if design.unknown:
        raise RequestError(
            "method='ops' exists for comparison and buys no ranges: declare those of "
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
    detail = LinearDetail(
        kind="posterior", rule="ops", mu1=0.0, mu2=0.0, rho=0.0, d1=0.0, d2=0.0, delta_t=0.0,
        factor=2.0, lam=lam, floor=0.0, draws=1, n=n, B=B, gamma=gamma, s=s,
    )  # fmt: skip
    curve = Profile("posterior sampling, replace", (("h", B * B / lam), ("s", s)))
    steps = [Step("coefficients", curve, share=1.0, label="posterior sample")]
    return _plan(request, design, detail, steps, {})


# -- Private bounds for ridge regression, and the ridge chosen from them


# -- Score perturbation for ridge regression: theta = A^{-1}(X'y + sigma b), b ~ N(0, I)


def _positive_part(x: Array, mu: float) -> Array:
    """Return E(1 - e^(x - max(0, l)))_+ for a Gaussian loss l: dG for x >= 0."""
    from scipy.special import ndtr

    low = 1.0 - 2.0 * np.exp(np.minimum(x, 0.0)) * float(ndtr(-mu / 2))
    return np.asarray(np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), mu), low))


def loss_bound(eps: Array, c: float, m: float, h: float, delta_t: float) -> Array:
    """Return the bound of delta(eps): m = B rbar / sigma, leverage h, determinant term c.

    On |x'A^{-1}b| <= (B/lam*) z, of probability 1 - delta_t/2, the loss is convex in the noisy
    residual, so at most the larger of two Gaussian losses (mu = m + eta and eta), plus c.
    """
    from scipy.special import ndtr

    eta = h * upper_quantile(delta_t / 4.0)
    x = eps - c
    second = np.where(x >= 0, gdp_curve(np.maximum(x, 0.0), eta), 1.0 - 2.0 * float(ndtr(-eta / 2)))
    return np.asarray(_positive_part(x, m + eta) + second + delta_t / 2.0)


@lru_cache(maxsize=2048)
def largest_m(hbar: float, rho: float, delta_t: float, points: int = 4000) -> float:
    """Return the largest m = B rbar / sigma with curve <= dG(eps; rho) + delta_t, all real eps."""
    if not 0 < hbar < 0.5:
        return 0.0
    eps = eps_grid(rho, delta_t, points)
    base = gdp_curve(eps, rho)
    room = base + 0.99 * delta_t
    low = base + 0.99 * delta_t * np.exp(np.minimum(eps, 700.0))
    h2 = hbar / (1 - hbar)

    def fits(m: float) -> bool:
        return bool(
            np.all(loss_bound(eps, -math.log1p(-hbar), m, hbar, delta_t) <= room)
            and np.all(loss_bound(eps, 0.0, m, hbar, delta_t) <= room)
            and np.all(loss_bound(eps, math.log1p(h2), m / (1 - hbar), h2, delta_t) <= low)
        )

    return _largest(fits, rho, 45 if points >= 4000 else 16)


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


def ridge_floor(
    kind: str, B2: float, mu2: float, rho: float, delta_t: float, floor: float
) -> float:
    """Return the least lam* at which the second release and the sampling are of any use."""
    return max(floor * B2 / mu2, B2 / half_leverage(kind, rho, delta_t))


@lru_cache(maxsize=256)
def _efficiency_curve(
    kind: str, rho: float, delta_t: float, lo: float, hi: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    grid = np.linspace(lo, hi, 7)
    values = [efficiency(kind, math.exp(x), rho, delta_t, 200) for x in grid.tolist()]
    return tuple(grid.tolist()), tuple(values)


def choose_ridge(
    kind: str,
    *,
    lam_star0: float,
    lam_min: float,
    rbar: float,
    Y: float,
    B: float,
    d: int,
    rho: float,
    delta_t: float,
) -> float:
    """Return lam* >= lam_star0 that minimises shrinkage plus noise, from released numbers: free.

    (lam* - lam~) tbar^2/4 + noise, tbar = (rbar - Y)/B; noise d/gamma (posterior) or
    d sigma^2/lam* (score). The bounds hold for every larger ridge at once.
    """
    stars = lam_star0 * np.geomspace(1.0, 50.0, 40)
    h = B * B / stars
    ends = _rounded(math.log(h[-1]), -1), _rounded(math.log(h[0]), 1)
    x, y = _efficiency_curve(kind, rho, delta_t, *ends)
    eff = np.maximum(np.interp(np.log(h), x, y), 1e-9)
    tbar = max(rbar - Y, 0.0) / B
    if kind == "posterior":
        gamma = (eff * rho / np.sqrt(h) / rbar) ** 2
        noise = d / gamma
    else:
        noise = d * (B * rbar / (eff * rho)) ** 2 / stars
    cost = (stars - lam_min) * tbar**2 / 4.0 + noise
    return float(stars[int(np.argmin(cost))])


def _rounded(x: float, direction: int) -> float:
    """Round to a quarter, outwards: few distinct efficiency curves, and they are cached."""
    step: Callable[[float], int] = math.ceil if direction > 0 else math.floor
    return min(math.log(0.4999), step(4 * x) / 4)
