"""Shared by the methods that release once and give no standard errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.models.linear.inference import StageBudget, no_reply, purchase
from dpmodels.models.linear.solve import floor_ridge, isotropic, solve
from dpmodels.planning import Plan, Purchase, planning_rows
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
from dpmodels.privacy.run import FLOAT_NOTE, own_proof
from dpmodels.proof.prove import Of, reach
from dpmodels.proof.sets import Ball, float_allowance
from dpmodels.proof.statistics import Gram, Objective, Sum
from dpmodels.ranges import bounds_share, no_ranges, ranged_design
from dpmodels.records import Estimate, Release
from dpmodels.registry import Backend
from dpmodels.sums.ask import Added, Counts, Moments, Query, first_array
from dpmodels.sums.products import STEPS, ball_integers, integers_of, mapped
from dpmodels.sums.rowmap import RowMap, UnitScale, unit_rows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.records import Request
    from dpmodels.sums.ask import Ask


@dataclass(frozen=True)
class UnitRows:
    """Rows in unit half-ranges, with the bounds that a method may use.

    Attributes
    ----------
    rx, ry : float
        ``|x| <= rx`` (intercept included), ``|y| <= ry``.
    """

    design: Design
    unit: UnitScale
    rx: float
    ry: float = 1.0


@dataclass(frozen=True)
class Released:
    """What :func:`unit_estimate` needs: the map of the rows, and printed facts."""

    unit: UnitScale
    stats: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()


def budget_of(
    request: Request, design: Design
) -> tuple[Purchase | None, list[Step], StageBudget, float]:
    """Return (purchase, its steps, the rest of the budget, the share of the rest)."""
    bought, steps, rest = purchase(request, design)
    return bought, steps, rest, 1.0 - bounds_share(request, bought)


def make_plan(
    request: Request,
    design: Design,
    n: int | None,
    steps: Sequence[Step],
    bought: Purchase | None,
    detail: Any,
    *,
    scales: Mapping[str, float] | None = None,
    advice: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Plan[Any]:
    """Return the plan of a method without a rule of its own."""
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=notes,
        scales=dict(scales or {}),
        purchase=bought,
        detail=detail,
        advice=advice,
    )


def declared_only(design: Design, method: str) -> None:
    """Refuse a design with ranges to buy: the method buys none."""
    if design.unknown:
        shown = ", ".join(f'"{c}": (lower, upper)' for c in design.unknown[:2])
        raise RequestError(
            f"method={method!r} buys no ranges: declare them, for example bounds={{{shown}}}"
        )


def unit_design(plan: Plan[Any], ask: Ask) -> UnitRows | Release:
    """Buy what must be bought, and map to unit rows; a Release is a no-reply."""
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    unit, square = unit_rows(design)
    return UnitRows(design, unit, math.sqrt(square + float(design.has_intercept)))


def unit_moments(given: UnitRows) -> Moments:
    """Return the pass of the moments of unit rows, response last."""
    return Moments(given.design, RowMap(given.unit, np.ones(given.design.q)))


def unit_estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map ``values["theta"]`` (unit rows) to the user's units; no standard errors."""
    if not release.reply:
        return no_reply(release)
    found: Released = release.detail
    A, a = found.unit.back()
    return Estimate(
        release.design.names,
        A @ release.values["theta"] + a,
        stats=dict(found.stats),
        notes=found.notes,
        arrays={k: v for k, v in release.values.items() if k != "theta"},
    )


# -- Backend of ``dp_ols(method="adassp")`` (Wang 2018) with exact Gaussian accounting.


_STEPS = ("smallest eigenvalue", "second moments", "cross moments")


@dataclass(frozen=True)
class AdaDetail:
    """mu of each of the three releases."""

    mu: float


def plan_adassp(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan AdaSSP: three releases of ``mu / sqrt 3`` each."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0 / 3.0)
    assert isinstance(part, Gaussian)
    steps += [Step(name, part, share=rest / 3.0) for name in _STEPS]
    return make_plan(request, design, n, steps, bought, AdaDetail(part.mu))


def release_adassp(plan: Plan[AdaDetail], ask: Ask) -> Release:
    """Release lambda_min(X'X), X'X and X'y of unit rows. One pass.

    Privacy
    -------
    Unit: one row. Sensitivities (theory.md 1.1, 1.4): R_x^2 for the eigenvalue, sqrt2 R_x^2
    (replace) or R_x^2 for X'X, 2 R_x R_y or R_x R_y for X'y.
    """
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    relation = plan.request.relation
    p, rx2, mu = given.design.p, given.rx**2, detail.mu
    over = unit_moments(given)
    # Float error of the eigenvalue routine, and the grid of the release. Under add-remove the
    # noise may not depend on the row count: a public ceiling of 2^30 rows stands for it.
    ceiling = ask.n if relation == "replace" else 1 << 30

    def least_eigenvalue(G: Any) -> Added:
        XX = np.asarray(G.integers()[:p, :p], dtype=float) * STEPS**-2
        return Added(np.linalg.eigvalsh(XX)[:1])

    bound = Of("least eigenvalue", (rx2, p, ceiling))
    least = float(ask(_STEPS[0], Query(bound, over, least_eigenvalue)).values[0])
    lower = max(0.0, least - upper_quantile(0.05) * rx2 / mu)
    ball = Ball(p, given.rx)  # unit rows: cells in a box, and this long at most
    moments = ask(_STEPS[1], Query(Gram(ball), over, lambda G: Added(G.integers()[:p, :p])))
    M, s = moments.values, float(moments.sd[0, 0])
    products = Sum(Ball(p, given.rx * given.ry), products=True)
    h = ask(_STEPS[2], Query(products, over, lambda G: Added(G.integers()[:p, p]))).values
    lam = max(0.0, s * math.sqrt(p * math.log(2.0 * p * p / 0.05)) - lower)
    theta = np.asarray(np.linalg.solve(M + lam * np.eye(p), h), dtype=np.float64)
    return Release(
        {"theta": theta, "second_moments": M, "cross_moments": h},
        plan.guarantee,
        given.design,
        detail=Released(
            given.unit,
            (("ridge", lam), ("eigenvalue_lower_bound", lower)),
            ("AdaSSP gives no standard errors: its ridge biases the coefficients.",),
        ),
    )


estimate_adassp = unit_estimate


ADASSP = Backend(plan_adassp, release_adassp, estimate_adassp)


# -- Backend of ``dp_ols(method="jl")``: a Gaussian sketch of the augmented rows (Sheffet 2017).
#
# ``Y = G [A; w I]`` with G an r x (n + q) matrix of N(0, 1); no singular-value test is needed. Each
# row meets r normals of its own, which workers must not draw: the rows are read by the caller.


_STEP_jl = "sketch"


def jl_curve(alpha: float, r: float, theta: float) -> float:
    """Return the Renyi bound of order ``alpha`` of an r-row sketch, ``theta = B^2 / w^2``.

    ``g(1 + theta) + g(1/(1 + theta))``, ``g(c) = -(r / (2 (alpha - 1))) [log(alpha + (1 - alpha) c)
    - (1 - alpha) log c]``; infinite where an argument is not positive (theory.md, 5.1).
    """
    total = 0.0
    for c in (1.0 + theta, 1.0 / (1.0 + theta)):
        inside = alpha + (1.0 - alpha) * c
        if inside <= 0:
            return math.inf
        total -= r / (2.0 * (alpha - 1.0)) * (math.log(inside) - (1.0 - alpha) * math.log(c))
    return total


def jl_width(eps: float, delta: float, r: int) -> float:
    """Return the least ``w^2 / B^2`` for (eps, delta)."""

    def room(log_ratio: float) -> float:
        theta = math.exp(-log_ratio)
        return rdp_delta(lambda a: jl_curve(a, r, theta), eps) - delta

    lo, hi = math.log(1e-3), math.log(1e9)
    for _ in range(80):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if room(mid) > 0 else (lo, mid)
    return math.exp(hi)


@dataclass(frozen=True)
class JlDetail:
    """Rows of the sketch and ``w^2 / B^2``."""

    r: int
    ratio: float


def plan_jl(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one sketch."""
    declared_only(design, "jl")
    r = int(request["rows"])
    ratio = jl_width(request.eps, request.delta * (1.0 - 1e-9), r)
    mechanism = RDP("jl", (("r", float(r)), ("theta", 1.0 / ratio)))
    steps = [Step(_STEP_jl, mechanism, share=1.0, label="Gaussian sketch")]
    detail = JlDetail(r, ratio)
    return make_plan(request, design, n, steps, None, detail, notes=(FLOAT_NOTE,))


def release_jl(plan: Plan[JlDetail], ask: Ask) -> Release:
    """Release the sketch Y, r x q. One pass; r normals a row.

    Privacy
    -------
    Unit: one row, replaced. Float normals: the guarantee carries a note.
    """
    raw = ask.raw(own_proof("gaussian sketch"))
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    q, r = given.design.q, detail.r
    B = math.hypot(given.rx, given.ry)
    w = B * math.sqrt(detail.ratio)
    normals = raw.sketch_normals(_STEP_jl)
    rowmap = RowMap(given.unit, np.ones(q))
    Y = w * normals(r * q).reshape(r, q)
    with np.errstate(all="ignore"):
        for block in raw.rows.blocks(given.design):
            z = rowmap.normalised(block)
            Y += normals(r * z.shape[1]).reshape(r, -1) @ z.T
    grid = w * 2.0**-30
    Y = np.round(Y / grid) * grid
    Q = Y.T @ Y / r - w * w * np.eye(q)
    m = isotropic(Q, w * w * math.sqrt(2.0 / r))
    theta, _ = solve(m, floor_ridge(m))
    note = "The sketch itself adds error of order sqrt(2/r) to every moment; no errors are given."
    return Release(
        {"theta": theta, "sketch": Y},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("width", w),), (note,)),
    )


estimate_jl = unit_estimate


JL = Backend(plan_jl, release_jl, estimate_jl)


# -- Backend of ``dp_ols(method="dpgd")``: full-batch descent with noisy clipped gradients.


@dataclass(frozen=True, eq=False)
class GdDetail:
    """Steps, step size, mu of one step, rows of the public rules."""

    iterations: int
    step: float
    mu: float
    rows: int


def plan_dpgd(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan T noisy gradients of ``mu / sqrt T`` each."""
    bought, steps, budget, rest = budget_of(request, design)
    T = int(request["iterations"])
    part = budget.part(1.0 / T)
    assert isinstance(part, Gaussian)
    steps += [Step(f"gradient {t}", part, share=rest / T) for t in range(1, T + 1)]
    detail = GdDetail(T, float(request["step"]), part.mu, planning_rows(request, n))
    return make_plan(request, design, n, steps, bought, detail)


def clipped_gradients(z: Array, b: Array, G: float) -> Array:
    """Return integer gradients (p, m), ``|k| <= 2^20``, of rows z (p + 1, m) at b.

    ``g_i = x_i (x_i'b - y_i)``, scaled into the ball of radius G, in lattice steps of G / 2^20;
    zero where a row is not finite.
    """
    p = len(b)
    g = z[:p] * (mapped(b[None], z[:p])[0] - z[p])
    return ball_integers(g, G)


def _gradient_sum(
    blocks: Iterable[Array], rowmap: RowMap, b: Array, G: float
) -> tuple[npt.NDArray[np.int64]]:
    """Return the sum of integer gradients, (p,): below 2^63 up to 2^43 rows. Confidential."""
    total = np.zeros(len(b), dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            z = rowmap.normalised(block)
            total += integers_of(clipped_gradients(z, b, G).sum(axis=1))
    return (total,)


def release_dpgd(plan: Plan[GdDetail], ask: Ask) -> Release:
    """Release T noisy sums of clipped gradients, each at the released iterate. T passes.

    Privacy
    -------
    A row moves a sum of clipped gradients by 2 G (replace) or G.
    """
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    p, q = given.design.p, given.design.q
    G = given.rx * given.ry
    rowmap = RowMap(given.unit, np.ones(q))
    b, noise = np.zeros(p), 0.0
    tail = np.zeros(p)
    half = detail.iterations // 2
    for t in range(1, detail.iterations + 1):
        job = functools.partial(_gradient_sum, rowmap=rowmap, b=b, G=G)
        query = Query(Sum(Ball(p)), Counts(given.design, job), first_array, unit=G)
        gradient = ask(f"gradient {t}", query)
        noise = float(gradient.sd[0]) / detail.rows
        b = b - detail.step / detail.rows * gradient.values
        b *= min(1.0, 1e3 / max(float(np.linalg.norm(b)), 1e-300))
        if t > half:
            tail += b / (detail.iterations - half)
    note = "Gradient descent stops early and clips: no standard errors are given."
    return Release(
        {"theta": tail},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("noise_per_step", noise),), (note,)),
    )


estimate_dpgd = unit_estimate


DPGD = Backend(plan_dpgd, release_dpgd, estimate_dpgd)


# -- Backend of ``dp_ols(method="functional")``: the functional mechanism of Zhang et al. (2012).


_STEP_functional = "objective"


def plan_functional(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one Laplace release of the objective's coefficients."""
    declared_only(design, "functional")
    part = Pure(request.eps)
    return make_plan(request, design, n, [Step(_STEP_functional, part, share=1.0)], None, part)


def release_functional(plan: Plan[Any], ask: Ask) -> Release:
    """Release the coefficients ``-2 X'y`` and ``x_j^2, 2 x_j x_k`` of the objective. One pass."""
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    p = given.design.p
    upper = np.triu_indices(p)
    twice = np.where(upper[0] == upper[1], 1, 2)

    def coefficients(found: Any) -> Added:
        G = found.integers()
        return Added(np.concatenate([2 * G[:p, p], G[upper] * twice]))

    statistic = Objective(p, given.rx, given.ry)
    released = ask(_STEP_functional, Query(statistic, unit_moments(given), coefficients))
    noisy = released.values
    h = noisy[:p] / 2.0
    M = np.zeros((p, p))
    M[upper] = noisy[p:] / twice
    M.T[upper] = M[upper]
    # Original regularisation: a ridge of four standard deviations, then positive directions only.
    lam = 4.0 * math.sqrt(2.0) * float(released.sd[0])
    values, vectors = np.linalg.eigh(M + lam * np.eye(p))
    keep = values > 0
    U = vectors[:, keep]
    theta = U @ ((U.T @ h) / values[keep])
    note = "The functional mechanism gives no standard errors: its ridge biases the coefficients."
    return Release(
        {"theta": theta, "second_moments": M, "cross_moments": h},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("ridge", lam),), (note,)),
    )


estimate_functional = unit_estimate


FUNCTIONAL = Backend(plan_functional, release_functional, estimate_functional)


# -- Backend of ``dp_ols(method="outpert")``: ridge regression with noise on its output.


_STEP_outpert = "coefficients"


def plan_outpert(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one release of the ridge solution."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0)
    assert isinstance(part, Gaussian)
    steps.append(Step(_STEP_outpert, part, share=rest))
    return make_plan(request, design, n, steps, bought, part)


def output_sensitivity(lam: float, n: int, rx: float, ry: float) -> float:
    """Return ``D = 2 L R_x / lam`` with ``L = R_y + R_x |theta|_max``, replace-one.

    ``|theta| <= min(R_y sqrt n / (2 sqrt lam), n R_x R_y / lam)`` for the minimiser of
    ``sum (y - x'th)^2 / 2 + lam |th|^2 / 2``, which is lam-strongly convex; one row changes the
    gradient by at most ``2 L R_x`` (the published ``L B / lam`` is the add/remove figure).
    """
    top = min(ry * math.sqrt(n) / (2.0 * math.sqrt(lam)), n * rx * ry / lam)
    return 2.0 * (ry + rx * top) * rx / lam


def release_outpert(plan: Plan[Any], ask: Ask) -> Release:
    """Release ``(X'X + lam I)^{-1} X'y`` with Gaussian noise, lam from a public rule. One pass."""
    raw = ask.raw(own_proof("output perturbation"))
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    mu, n, p = plan.detail.mu, ask.n, given.design.p
    grid = n * given.rx**2 * np.geomspace(1e-6, 10.0, 60)

    def cost(lam: float) -> float:
        return lam + n * (output_sensitivity(lam, n, given.rx, given.ry) / mu) ** 2

    lam = float(min(grid, key=cost))
    found = raw.total(unit_moments(given))
    G = np.asarray(found.integers(), dtype=float) * STEPS**-2
    theta = np.linalg.solve(G[:p, :p] + lam * np.eye(p), G[:p, p])
    D = output_sensitivity(lam, n, given.rx, given.ry) * (1.0 + float_allowance(p, n))
    noisy = raw.gaussian_real(_STEP_outpert, theta, D)
    note = "Output perturbation shrinks the coefficients by a public ridge; no errors are given."
    return Release(
        {"theta": noisy},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("ridge", lam), ("noise_sd", D / mu)), (note,)),
    )


estimate_outpert = unit_estimate


OUTPERT = Backend(plan_outpert, release_outpert, estimate_outpert)


# -- Backend of ``dp_ols(method="pmt_paper")``: the published Algorithm 3, constants and all.
#
# Whitening of x by the symmetric root of the public second moment, separate truncation of x and y,
# noise of full size off the diagonal, no stabilisation, no inference. Its guarantee is stated
# exactly: two Gaussian releases of rho each are mu-GDP with ``mu = 2 sqrt(rho)``.


#: Published sensitivity of ``sum x x'``, over R^2.
PUBLISHED = 2.0


@dataclass(frozen=True, eq=False)
class PaperDetail:
    """Public facts of the published algorithm.

    Attributes
    ----------
    root : (d, d) array
        ``S^{-1/2}``, symmetric.
    scale : float
        ``s_B``: root mean square of the public response.
    rx, ry : float
        Truncation radii, ``rx^2 = d (1 + log(2n/eta))``, ``ry^2 = 1 + log(2n/eta)``.
    mu : float
        Of each of the two releases.
    """

    root: Array
    scale: float
    rx: float
    ry: float
    mu: float


def published_mu(request: Request) -> float:
    """Return the mu of the whole call: of ``rho=`` (a total) if given, else of (eps, delta)."""
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


def published_query(
    ball: Ball, over: Moments, radius: float, part: Callable[[Any], Any] = lambda G: G
) -> Query:
    """Return moments with noise of full size on every entry of their upper triangle.

    Privacy
    -------
    The published sensitivity ``2 R^2`` exceeds that of the upper triangle, which is at most the
    Frobenius norm ``sqrt2 R^2``: noise larger than proved.
    """
    statistic = Gram(ball, entries=True)
    factor = max(1.0, PUBLISHED / reach(statistic, "replace", "l2"))
    return Query(
        statistic, over, lambda G: Added(part(G.integers())), radius * radius, factor=factor
    )


def plan_paper(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the two releases. ``rho=`` means the total of both (the paper's is half of it)."""
    if request.public is None:
        raise RequestError("method='pmt_paper' needs public data with the response: public=")
    mu = published_mu(request)
    C = np.asarray(request.public.moments, dtype=float)
    d = design.p
    root, _ = published_roots(C[:d, :d])
    factor = 1.0 + math.log(2.0 * n / float(request["eta"]))
    detail = PaperDetail(
        root,
        math.sqrt(C[d, d]),
        math.sqrt(d * factor),
        math.sqrt(factor),
        mu / math.sqrt(2.0),
    )
    part = Gaussian(detail.mu)
    steps = [Step("second moments", part, share=0.5), Step("cross moments", part, share=0.5)]
    return make_plan(
        request, design, n, steps, None, detail,
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
    rowmap = RowMap(
        unit,
        box,
        ball=d,
        radius=detail.rx,
        matrix=matrix,
        project=True,
    )
    over = Moments(plan.design, rowmap)
    M = ask("second moments", published_query(Ball(d), over, detail.rx, lambda G: G[:d, :d]))
    # x y is in the ball of rx ry: 2 rx ry apart, as published
    cross = Query(
        Sum(Ball(d), products=True), over, lambda G: Added(G.integers()[:d, d]),
        detail.rx * detail.ry,
    )  # fmt: skip
    h = ask("cross moments", cross)
    return Release(
        {"second_moments": M.values, "cross_moments": h.values},
        plan.guarantee,
        plan.design,
        detail=detail,
    )


def estimate_paper(plan: Plan[Any], release: Release) -> Estimate:
    """Return ``s_B S^{-1/2} M^{-1} h``, as published."""
    detail: PaperDetail = release.detail
    M, h = release.values["second_moments"], release.values["cross_moments"]
    theta = np.linalg.lstsq(M, h, rcond=None)[0]
    return Estimate(
        release.design.names,
        detail.scale * detail.root @ theta,
        notes=("The published algorithm has no stabilisation and no standard errors.",),
        arrays=dict(release.values),
    )


PAPER = Backend(plan_paper, release_paper, estimate_paper)
