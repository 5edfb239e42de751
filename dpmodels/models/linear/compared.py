"""Least squares as others released it, kept for comparison: one release, no standard errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.formula.design import Design
from dpmodels.models.linear.solve import floor_ridge, isotropic, solve
from dpmodels.notes import Note
from dpmodels.own import compared as own
from dpmodels.planning import Plan, planning_rows
from dpmodels.privacy.mechanisms import (
    RDP,
    Gaussian,
    Pure,
    Step,
    eps_gdp,
    mu_gdp,
    rdp_delta,
    upper_quantile,
)
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.ranges import Split, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    GUESS,
    PMT_PAPER,
    PUBLISHED,
    Backend,
    Method,
    Option,
    positive,
    register_method,
)
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Ask, Moments, ball_moments_query
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale


def released(
    plan: Plan[Any], rows: own.UnitRows, theta: Array, note: Note,
    arrays: dict[str, Array] | None = None, **stats: float,
) -> Release:  # fmt: skip
    """Return the release of ``theta``, and of further arrays and printed facts."""
    values = {"theta": np.asarray(theta, dtype=np.float64), **(arrays or {})}
    return Release(values, plan.guarantee, rows.design, detail=(rows.unit, stats, note))


def _plan(
    request: Request, design: Design, n: int | None, parts: Sequence[tuple[str, float]]
) -> Plan[Any]:
    """Return the plan of steps that share the budget after ranges, with the detail of the first."""
    split = Split(request, design, {name: (name, share) for name, share in parts})
    return split.plan(n, shares={}, detail=split[parts[0][0]])


def _declared(
    request: Request, design: Design, n: int, step: Step, detail: Any, *notes: Note
) -> Plan[Any]:
    """Return the plan of one step of a method that estimates no ranges."""
    if design.unknown:
        shown = ", ".join(f'"{c}": (lower, upper)' for c in design.unknown[:2])
        raise RequestError(
            f"method={request.method.name!r} estimates no ranges: declare them, for example "
            f"bounds={{{shown}}}"
        )
    return Plan.of(request, design, n, [step], detail=detail, notes=notes)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map ``theta`` to the user's units; no standard errors."""
    if not release.reply:
        return no_ranges_note(release.design.names)
    unit, stats, note = release.detail
    A, a = unit.back()
    arrays = {k: v for k, v in release.values.items() if k != "theta"}
    return Estimate(
        release.design.names, A @ release.values["theta"] + a, stats=stats, notes=(note,),
        arrays=arrays,
    )  # fmt: skip


def _of_unit_rows(
    stage: Callable[[Plan[Any], own.UnitRows, Ask], Release],
) -> Callable[[Plan[Any], Ask], Release]:
    """Give a release stage unit rows, ranges bought; it has no reply without them."""

    @with_ranges
    @functools.wraps(stage)
    def release(plan: Plan[Any], ask: Ask, design: Design) -> Release:
        return stage(plan, own.UnitRows(design), ask)

    return release


# -- AdaSSP (Wang 2018), with exact Gaussian accounting

_ADA = (own.EIGENVALUE, "second moments", "cross moments")


@_of_unit_rows
def release_adassp(plan: Plan[Any], rows: own.UnitRows, ask: Ask) -> Release:
    """Release lambda_min(X'X), X'X and X'y. Sensitivities: theory.md 1.1, 1.4."""
    p, margin = rows.p, upper_quantile(0.05) * rows.rx**2 / plan.detail.mu
    lower = max(0.0, rows.least_eigenvalue(ask) - margin)
    moments = ask(_ADA[1], rows.query("moments"))
    M, s = moments.values, float(moments.sd[0, 0])
    h = ask(_ADA[2], rows.query("products")).values
    lam = max(0.0, s * math.sqrt(p * math.log(2.0 * p * p / 0.05)) - lower)
    return released(
        plan, rows, np.linalg.solve(M + lam * np.eye(p), h), messages.NO_ERRORS_ADASSP(),
        {"second_moments": M, "cross_moments": h}, ridge=lam, eigenvalue_lower_bound=lower,
    )  # fmt: skip


# -- Full-batch descent with noisy clipped gradients


def plan_dpgd(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one noisy sum of clipped gradients a step."""
    T = int(request["iterations"])
    parts = [(f"gradient {t}", 1.0 / T) for t in range(1, T + 1)]
    return replace(_plan(request, design, n, parts), detail=planning_rows(request, n))


@_of_unit_rows
def release_dpgd(plan: Plan[Any], rows: own.UnitRows, ask: Ask) -> Release:
    """Release T noisy sums of gradients, each at the released iterate. A row moves one by 2 G."""
    p, T, step = rows.p, int(plan.request["iterations"]), float(plan.request["step"])
    n: int = plan.detail
    b, tail, noise = np.zeros(p), np.zeros(p), 0.0
    for t in range(1, T + 1):
        gradient = ask(f"gradient {t}", rows.gradient(b))
        noise = float(gradient.sd[0]) / n
        b = b - step / n * gradient.values
        b *= min(1.0, 1e3 / max(float(np.linalg.norm(b)), 1e-300))
        if t > T // 2:
            tail += b / (T - T // 2)
    return released(plan, rows, tail, messages.NO_ERRORS_DESCENT(), noise_per_step=noise)


# -- The functional mechanism (Zhang et al. 2012)


def plan_functional(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one release of the coefficients of the objective."""
    return _declared(request, design, n, Step("objective", Pure(request.eps), share=1.0), None)


@_of_unit_rows
def release_functional(plan: Plan[Any], rows: own.UnitRows, ask: Ask) -> Release:
    """Release the coefficients ``-2 X'y`` and ``x_j^2, 2 x_j x_k`` of the objective."""
    p, upper = rows.p, np.triu_indices(rows.p)
    answer = ask("objective", rows.query("objective"))
    h, M = answer.values[:p] / 2.0, np.zeros((p, p))
    M[upper] = answer.values[p:] / np.where(upper[0] == upper[1], 1, 2)
    M.T[upper] = M[upper]
    # Original regularisation: a ridge of four standard deviations, then positive directions only.
    lam = 4.0 * math.sqrt(2.0) * float(answer.sd[0])
    values, vectors = np.linalg.eigh(M + lam * np.eye(p))
    keep = values > 0
    U = vectors[:, keep]
    return released(
        plan, rows, U @ ((U.T @ h) / values[keep]), messages.NO_ERRORS_FUNCTIONAL(),
        {"second_moments": M, "cross_moments": h}, ridge=lam,
    )  # fmt: skip


# -- A Gaussian sketch ``Y = G [A; w I]`` (Sheffet 2017)


def jl_width(eps: float, delta: float, r: int) -> float:
    """Return the least ``w^2 / B^2`` for (eps, delta), by bisection of its logarithm."""
    lo, hi = math.log(1e-3), math.log(1e9)
    for _ in range(80):
        mid = 0.5 * (lo + hi)
        theta = math.exp(-mid)
        above = rdp_delta(functools.partial(own.jl_curve, r=r, theta=theta), eps) > delta
        lo, hi = (mid, hi) if above else (lo, mid)
    return math.exp(hi)


def plan_jl(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one sketch; its detail is (rows of the sketch, ``w^2 / B^2``)."""
    r = int(request["rows"])
    ratio = jl_width(request.eps, request.delta * (1.0 - 1e-9), r)
    mechanism = RDP("jl", (("r", float(r)), ("theta", 1.0 / ratio)))
    step = Step(own.SKETCH, mechanism, share=1.0, label="Gaussian sketch")
    return _declared(request, design, n, step, (r, ratio), FLOAT_NOTE)


@_of_unit_rows
def release_jl(plan: Plan[Any], rows: own.UnitRows, ask: Ask) -> Release:
    """Release the sketch Y, r x q."""
    q, (r, ratio) = rows.design.q, plan.detail
    Y, w = own.sketch(rows, r, ratio, ask)
    m = isotropic(Y.T @ Y / r - w * w * np.eye(q), w * w * math.sqrt(2.0 / r))
    theta, _ = solve(m, floor_ridge(m))
    return released(plan, rows, theta, messages.NO_ERRORS_SKETCH(), {"sketch": Y}, width=w)


@_of_unit_rows
def release_outpert(plan: Plan[Any], rows: own.UnitRows, ask: Ask) -> Release:
    """Release ``(X'X + lam I)^{-1} X'y`` with Gaussian noise, lam from a public rule."""
    theta, lam, sd = own.noisy_ridge(rows, ask)
    return released(plan, rows, theta, messages.NO_ERRORS_OUTPUT(), ridge=lam, noise_sd=sd)


# -- Backend of ``dp_ols(method="pmt_paper")``: the published Algorithm 3, constants and all.
#
# Its guarantee is stated exactly: two Gaussian releases of rho each, ``mu = 2 sqrt(rho)``.


@dataclass(frozen=True, eq=False)
class PaperDetail:
    """Public facts of the published algorithm."""

    root: Array  # (d, d): ``S^{-1/2}``, symmetric
    scale: float  # ``s_B``: root mean square of the public response
    # rx, ry: truncation radii, ``rx^2 = d (1 + log(2n/eta))``, ``ry^2 = 1 + log(2n/eta)``.
    rx: float
    ry: float


def published_mu(request: Request) -> float:
    """Return the mu of the whole call, from ``rho=`` (a total) if given, or from (eps, delta)."""
    mu = mu_gdp(request.eps, request.delta)
    rho = request["rho"]
    if rho is None:
        return mu
    need = eps_gdp(math.sqrt(2.0 * float(rho)), request.delta)
    if request.eps < need * (1.0 - 1e-9):
        raise RequestError(
            f"rho={shown(rho)} (the total) needs eps = {need:.6g} at delta = {request.delta:g}: "
            "give an eps at least as large, or leave rho= out"
        )
    return min(math.sqrt(2.0 * float(rho)), mu)


def published_roots(C: Array) -> tuple[Array, Array]:
    """Return ``(S^{-1/2}, S^{1/2})``, symmetric, of a public second moment."""
    values, vectors = np.linalg.eigh(C)
    if values[0] <= 1e-14 * values[-1]:
        raise RequestError(
            "the published algorithm inverts the public second moment, and here it is singular: "
            "more public rows are needed, or method='pmt', which shrinks"
        )
    return (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def plan_paper(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the two releases. ``rho=`` means the total of both (the paper's is half of it)."""
    if request.public is None:
        raise RequestError("method='pmt_paper' needs public data with the response: public=")
    mu = published_mu(request)
    C = np.asarray(request.public.moments, dtype=float)
    d = design.p
    root, _ = published_roots(C[:d, :d])
    factor = 1.0 + math.log(2.0 * n / float(request["eta"]))
    detail = PaperDetail(root, math.sqrt(C[d, d]), math.sqrt(d * factor), math.sqrt(factor))
    part = Gaussian(mu / math.sqrt(2.0))
    steps = [Step("second moments", part, share=0.5), Step("cross moments", part, share=0.5)]
    return Plan.of(
        request, design, n, steps, detail=detail,
        scales={"radius of x": detail.rx, "radius of y": detail.ry},
    )  # fmt: skip


def release_paper(plan: Plan[PaperDetail], ask: Ask) -> Release:
    """Release ``sum x~x~'`` and ``sum x~y~`` of truncated rows. One pass.

    Privacy
    -------
    Noise of the published size: sensitivity 2 R^2 (the tight one is sqrt2 R^2), and full size off
    the diagonal. Both only add noise, so the stated guarantee holds.
    """
    detail = plan.detail
    d = plan.design.p
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = detail.root
    matrix[d, d] = 1.0 / detail.scale
    box = np.append(np.full(d, detail.rx), detail.ry)
    unit = UnitScale(np.ones(d + 1), np.zeros(d + 1), False)
    rowmap = RowMap(unit, box, ball=d, radius=detail.rx, matrix=matrix, project=True)
    over = Moments(plan.design, rowmap)
    M = ask("second moments", ball_moments_query(over, d, published=True))
    h = ask("cross moments", own.products_in_ball(over, detail.ry))
    values = {"second_moments": M.values, "cross_moments": h.values}
    return Release(values, plan.guarantee, plan.design, detail=detail)


def estimate_paper(plan: Plan[Any], release: Release) -> Estimate:
    """Return ``s_B S^{-1/2} M^{-1} h``, as published (PMT, Algorithm 3).

    S: public second moment; s_B: root mean square of the public response; M, h: released second
    and cross moments.
    """
    detail: PaperDetail = release.detail
    M, h = release.values["second_moments"], release.values["cross_moments"]
    theta = np.linalg.lstsq(M, h, rcond=None)[0]
    return Estimate(
        release.design.names,
        detail.scale * detail.root @ theta,
        notes=(messages.PUBLISHED_FIT(),),
        arrays=dict(release.values),
    )


# -- Entries

_of_ols = functools.partial(
    Method, verb="dp_ols", proof="models/linear/theory.md", accepts=("weights",), inference="no",
    privacy_se="unavailable", comparison_only=True,
)  # fmt: skip

for _entry in (
    _of_ols(
        name="adassp",
        title="AdaSSP with exact Gaussian accounting",
        backend=Backend(
            functools.partial(_plan, parts=[(name, 1.0 / 3.0) for name in _ADA]),
            release_adassp, estimate,
        ),
        needs=("delta > 0", "ranges"),
        relations=("replace", "add-remove"),
        reference="Wang 2018, Revisiting differentially private linear regression",
        options=(BOUNDS_SHARE,),
        comparison_only=False,  # a method to choose; the others are here to be compared with
    ),
    _of_ols(
        name="pmt_paper",
        title="PMT as published (Algorithm 3)",
        backend=Backend(plan_paper, release_paper, estimate_paper),
        needs=("delta > 0", "public data"),
        accepts=("weights", "public"),
        reference=PMT_PAPER,
        options=PUBLISHED,
    ),
    _of_ols(
        name="jl",
        title="Gaussian sketch",
        backend=Backend(plan_jl, release_jl, estimate),
        by_rows=True,
        needs=("delta > 0", "declared ranges"),
        reference="Sheffet 2017, Differentially private ordinary least squares",
        options=(Option("rows", "rows of the sketch", 500, int, lower=0),),
    ),
    _of_ols(
        name="dpgd",
        title="noisy gradient descent",
        backend=Backend(plan_dpgd, release_dpgd, estimate),
        needs=("delta > 0", "ranges", "several passes"),
        relations=("replace", "add-remove"),
        reference="after Cai, Wang and Zhang 2021, The cost of privacy",
        options=(
            Option("iterations", "full-batch steps", 100, int, lower=1),
            positive("step", "step size", 1.0),
            BOUNDS_SHARE,
            GUESS,
        ),
    ),
    _of_ols(
        name="functional",
        title="functional mechanism",
        backend=Backend(plan_functional, release_functional, estimate),
        needs=("declared ranges",),
        reference="Zhang, Zhang, Xiao, Yang and Winslett 2012, Functional mechanism",
    ),
    _of_ols(
        name="outpert",
        title="output perturbation",
        backend=Backend(
            functools.partial(_plan, parts=[(own.COEFFICIENTS, 1.0)]), release_outpert, estimate
        ),
        needs=("delta > 0", "ranges"),
        reference="after Chaudhuri, Monteleoni and Sarwate 2011",
        options=(BOUNDS_SHARE,),
    ),
):
    register_method(_entry)
