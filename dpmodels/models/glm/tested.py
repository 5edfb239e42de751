"""Backend of ``dp_glm(method="gptr")``: noise after a private test of the curvature.

"iso": output perturbation, sd D(alpha~)/rho; "hessian": the paper's Hessian-shaped sample with
corrected constants. Both need a lower bound alpha~ of the curvature at the optimum, released
first. Objective perturbation is more accurate wherever it was compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.families import family_of
from dpmodels.models.glm.lattice import LogisticLoss, passes_over
from dpmodels.models.glm.newton import WorkingRows, back_map, evaluate, minimise, planned_passes
from dpmodels.models.glm.perturbation import curvature_sensitivity, displacement, hessian_gamma
from dpmodels.models.glm.plan import check_common, full_radius
from dpmodels.planning import Plan
from dpmodels.privacy.composition import delta_of_parts
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.group import add_remove_request, gaussian_replace
from dpmodels.privacy.mechanisms import RDP, Gaussian, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import FLOAT_NOTE, tail_margin
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

TEST_STEP, COEF_STEP = "smallest curvature", "coefficients"
_TEST_SHARE = 0.1
_TOL = 1e-9
#: The curvature is released up to this multiple of B^2: beyond it there is nothing to gain.
_CAP = 1e5


@dataclass(frozen=True)
class TestedDetail:
    """What the fit decided before the first row.

    Attributes
    ----------
    shape : {"iso", "hessian"}
    B, lam : float
    mu1, rho : float
        Add/remove strengths.
    factor : float
        2 where the steps are stated under replace-one.
    d1 : float
    top : float
        Public Renyi order (hessian).
    max_iter : int
    passes : int
        Of the minimisation; the curvature takes one more.
    """

    shape: str
    B: float
    lam: float
    mu1: float
    rho: float
    factor: float
    d1: float
    top: float
    max_iter: int
    passes: int


@dataclass(frozen=True)
class TestedReleased:
    """Released curvature bound, the noise made from it, and the working map."""

    scale: Array
    shift: Array
    alpha: float
    sd: float
    gamma: float


def _iso(
    request: Request, B: float, d: int, passes: int
) -> tuple[TestedDetail, list[Step], str | None]:
    replace = request.relation == "replace"
    factor = 2.0 if replace else 1.0
    mu = mu_gdp(request.eps, 0.8 * request.delta) / factor
    cost = 0.2 * request.delta
    d1 = cost
    if replace:
        lo, hi = 1e-12 * cost, cost
        for _ in range(200):
            mid = math.sqrt(lo * hi)
            lo, hi = (mid, hi) if gaussian_replace(mu, mid)[1] <= cost else (lo, mid)
        d1 = lo
    mu1, rho = math.sqrt(_TEST_SHARE) * mu, math.sqrt(1 - _TEST_SHARE) * mu
    lam = request["lam"] or B * B * max(3 * math.sqrt(d) / rho, 2.0)
    detail = TestedDetail(
        "iso", B, float(lam), mu1, rho, factor, d1, 0.0, int(request["max_iter"]), passes
    )
    steps = [
        Step(TEST_STEP, Gaussian(factor * mu1), share=_TEST_SHARE, failure=cost),
        Step(COEF_STEP, Gaussian(factor * rho), share=1 - _TEST_SHARE, label="output noise"),
    ]
    return detail, steps, None


def _hessian(
    request: Request, B: float, d: int, passes: int
) -> tuple[TestedDetail, list[Step], str | None]:
    eps, delta = request.eps, request.delta
    proved = None
    if request.relation == "replace":
        (eps, delta), proved = add_remove_request(eps, delta), "add-remove"
    d1 = 0.2 * delta
    start = mu_gdp(eps, 0.8 * delta)
    top = max(3.0, 1.0 + math.sqrt(2.0 * math.log(1.0 / (0.8 * delta))) / start)

    def steps(mu: float) -> list[Step]:
        rho = math.sqrt(1 - _TEST_SHARE) * mu
        curve = RDP("hessian-shaped sample", (("rho", rho), ("top", top)))
        first = Gaussian(math.sqrt(_TEST_SHARE) * mu)
        return [
            Step(TEST_STEP, first, share=_TEST_SHARE, failure=d1),
            Step(COEF_STEP, curve, share=1 - _TEST_SHARE, label="Hessian-shaped sample"),
        ]

    lo, hi = 0.0, start
    for _ in range(40):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if delta_of_parts(steps(mid), eps) <= delta else (lo, mid)
    mu1, rho = math.sqrt(_TEST_SHARE) * lo, math.sqrt(1 - _TEST_SHARE) * lo
    # lam alone must leave room: psi <= half of the Renyi budget
    lam = B * B * max(3 * math.sqrt(d) / rho, 2.0)
    while hessian_gamma(top, rho, lam, B) <= hessian_gamma(top, rho, 1e12, B) * lam / 1e12 / 2:
        lam *= 1.2
    lam = float(request["lam"] or lam)
    detail = TestedDetail(
        "hessian", B, lam, mu1, rho, 1.0, d1, top, int(request["max_iter"]), passes
    )
    if hessian_gamma(top, rho, lam, B) <= 0:
        raise RequestError("lam= is too small for shape='hessian': leave it out, or enlarge it")
    return detail, steps(lo), proved


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="gptr")``."""
    check_common(request, design)
    if not family_of(request["family"]).is_event:
        raise RequestError(
            "method='gptr' is proved for family='binomial' (generalised self-concordance with a "
            "bounded score). For counts use method='objpert'"
        )
    if design.unknown:
        raise RequestError(
            f"method='gptr' buys no ranges: declare those of {', '.join(design.unknown)}, or use "
            "method='objpert'"
        )
    B = float(request["radius"] or full_radius(design))
    build = _iso if request["shape"] == "iso" else _hessian
    passes = planned_passes(n, design.p)
    detail, steps, proved = build(request, B, design.p, passes)
    if detail.lam <= B * B:
        raise RequestError(f"lam= must exceed B^2 = {B * B:.4g} (working units) for method='gptr'")
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=(FLOAT_NOTE,) if detail.shape == "hessian" else (),
        proved=proved,
        shares={"curvature": _TEST_SHARE, "coef": 1 - _TEST_SHARE},
        scales={"ridge (working units)": detail.lam, "row norm bound (working units)": B},
        detail=detail,
        passes=detail.passes + 1,
    )


def release(plan: Plan[TestedDetail], ask: Ask) -> Release:
    """Release a lower bound of the curvature at the optimum, then the coefficients.

    Privacy
    -------
    Unit: one row. One-sided composition (``privacy/one_sided.md``, section 1). The distance to the
    exact optimum is certified by the gradient norm and added to the sensitivity. Rows that fit in
    memory are read and kept by the caller, who also adds up the curvature, in floats; other passes
    are sums of integers, by tasks where there are any.
    """
    raw = ask.raw(own_proof("logistic posterior"))
    from dpmodels.models.glm.release import working_map

    detail = plan.detail
    design = plan.design
    scale, shift = working_map(design)
    B, lam = detail.B, detail.lam
    working = WorkingRows(scale, shift, B, B)
    loss = LogisticLoss()
    tol = _TOL * B
    if plan.n is not None:
        tol *= max(1.0, plan.n * 1e-6)
    found = minimise(
        rows=working, loss=loss, lam=lam, tilt=np.zeros(design.p), tol=tol, n=raw.rows.n,
        max_iter=detail.max_iter, passes=detail.passes,
        **passes_over(raw.rows, design, working, loss),
    )  # fmt: skip
    theta = found.theta if found.certified else np.zeros(design.p)
    _, _, H = evaluate(raw.rows.blocks(design), working, loss, theta)
    # |theta - theta*| <= tol/lam moves an eigenvalue by a factor exp(B tol/lam) at most, at both
    # neighbours; the cap makes that an absolute bound (it also pays for rounding)
    size = curvature_sensitivity(B) + 4.0 * _CAP * B * B * B * tol / lam
    low = min(max(0.0, float(np.linalg.eigvalsh(H)[0])), _CAP * B * B)
    noisy = float(raw.gaussian_real(TEST_STEP, low, size * detail.factor))
    alpha = lam + max(0.0, noisy - tail_margin(size / detail.mu1, detail.d1))
    gamma = sd = math.nan
    if detail.shape == "iso":
        D = (displacement(alpha, B) + 2.0 * tol / lam) * (1.0 + 1e-6)
        values = raw.gaussian_real(COEF_STEP, theta, D * detail.factor)
        sd = D / detail.rho
    else:
        gamma = hessian_gamma(detail.top, detail.rho, alpha, B) * (1.0 - 1e-4)
        L = np.linalg.cholesky(H + lam * np.eye(design.p))
        normals = raw.inner_normals(COEF_STEP, design.p)
        values = theta + np.linalg.solve(L.T, normals) / math.sqrt(gamma)
        grid = 2.0**-34 / math.sqrt(gamma * alpha)
        values = np.round(values / grid) * grid
    done = TestedReleased(scale, shift, alpha, sd, gamma)
    return Release({"theta": values, "alpha": np.array(alpha)}, plan.guarantee, design, detail=done)


def estimate(plan: Plan[TestedDetail], release: Release) -> Estimate:
    """Map the release back to the design's own units."""
    detail = plan.detail
    released: TestedReleased = release.detail
    design = release.design
    A = back_map(released.scale, released.shift, design.has_intercept)
    notes = [
        "No sampling standard errors are released by this method; method='objpert' buys them.",
        f"A ridge of {detail.lam:.4g} (working units) shrinks the coefficients.",
    ]
    stats = {"ridge": detail.lam, "curvature_lower_bound": released.alpha}
    privacy = None
    if released.sd == released.sd:
        privacy = released.sd**2 * A @ A.T
        stats["noise_sd"] = released.sd
    else:
        stats["gamma"] = released.gamma
    return Estimate(
        design.names,
        A @ release.values["theta"],
        vcov_privacy=privacy,
        stats=stats,
        notes=tuple(notes),
    )
