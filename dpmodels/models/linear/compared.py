"""Least squares as others released it, kept for comparison: one release, no standard errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.models.linear.solve import floor_ridge, isotropic, solve
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
from dpmodels.privacy.run import FLOAT_NOTE, own_proof
from dpmodels.proof.prove import Of, sensitivity
from dpmodels.proof.sets import STEPS, Ball, float_allowance
from dpmodels.proof.statistics import Gram, Objective, Sum
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
from dpmodels.sums.ask import Added, Ask, Counts, Moments, Query, first_array
from dpmodels.sums.products import ball_integers, integers_of, mapped
from dpmodels.sums.rowmap import RowMap, UnitScale, unit_rows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note


@dataclass(frozen=True)
class UnitRows:
    """Rows in unit half-ranges: ``|x| <= rx`` (intercept included), ``|y| <= ry``."""

    plan: Plan[Any]
    design: Design
    unit: UnitScale
    rx: float
    ry: float = 1.0

    @property
    def rowmap(self) -> RowMap:
        """Return the map of rows."""
        return RowMap(self.unit, np.ones(self.design.q))

    @property
    def moments(self) -> Moments:
        """Return the pass of the moments of unit rows, response last."""
        return Moments(self.design, self.rowmap)

    def released(
        self, theta: Array, note: Note, arrays: dict[str, Array], **stats: float
    ) -> Release:
        """Return the release of ``theta``, and of further arrays and printed facts."""
        values = {"theta": np.asarray(theta, dtype=np.float64), **arrays}
        detail = (self.unit, stats, note)
        return Release(values, self.plan.guarantee, self.design, detail=detail)


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
    stage: Callable[[UnitRows, Ask], Release],
) -> Callable[[Plan[Any], Ask], Release]:
    """Give a release stage unit rows, ranges bought; it has no reply without them."""

    @with_ranges
    @functools.wraps(stage)
    def release(plan: Plan[Any], ask: Ask, design: Design) -> Release:
        unit, square = unit_rows(design)
        rows = UnitRows(plan, design, unit, math.sqrt(square + design.has_intercept))
        return stage(rows, ask)

    return release


# -- AdaSSP (Wang 2018), with exact Gaussian accounting

_ADA = ("smallest eigenvalue", "second moments", "cross moments")


@_of_unit_rows
def release_adassp(rows: UnitRows, ask: Ask) -> Release:
    """Release lambda_min(X'X), X'X and X'y. Sensitivities: theory.md 1.1, 1.4."""
    p, rx2, mu = rows.design.p, rows.rx**2, rows.plan.detail.mu
    over = rows.moments
    # Under add-remove the noise may not depend on the row count: a public ceiling stands for it.
    ceiling = ask.n if rows.plan.request.relation == "replace" else 1 << 30

    def least_eigenvalue(G: Any) -> Added:
        XX = np.asarray(G.integers()[:p, :p], dtype=float) * STEPS**-2
        return Added(np.linalg.eigvalsh(XX)[:1])

    bound = Of("least eigenvalue", (rx2, p, ceiling))
    least = float(ask(_ADA[0], Query(bound, over, least_eigenvalue)).values[0])
    lower = max(0.0, least - upper_quantile(0.05) * rx2 / mu)
    gram = Gram(Ball(p, rows.rx))
    moments = ask(_ADA[1], Query(gram, over, lambda G: Added(G.integers()[:p, :p])))
    M, s = moments.values, float(moments.sd[0, 0])
    products = Sum(Ball(p, rows.rx * rows.ry), products=True)
    h = ask(_ADA[2], Query(products, over, lambda G: Added(G.integers()[:p, p]))).values
    lam = max(0.0, s * math.sqrt(p * math.log(2.0 * p * p / 0.05)) - lower)
    return rows.released(
        np.linalg.solve(M + lam * np.eye(p), h),
        messages.NO_ERRORS_ADASSP(),
        {"second_moments": M, "cross_moments": h}, ridge=lam, eigenvalue_lower_bound=lower,
    )  # fmt: skip


# -- Full-batch descent with noisy clipped gradients


def plan_dpgd(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one noisy sum of clipped gradients a step."""
    T = int(request["iterations"])
    parts = [(f"gradient {t}", 1.0 / T) for t in range(1, T + 1)]
    return replace(_plan(request, design, n, parts), detail=planning_rows(request, n))


def _gradient_sum(
    blocks: Iterable[Array], rowmap: RowMap, b: Array, G: float
) -> tuple[npt.NDArray[np.int64]]:
    """Return the sum of ``x_i (x_i'b - y_i)`` in the ball of radius G, (p,), in steps of G / 2^20.

    Below 2^63 up to 2^43 rows. Confidential.
    """
    p = len(b)
    total = np.zeros(p, dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            z = rowmap.normalised(block)
            gradients = z[:p] * (mapped(b[None], z[:p])[0] - z[p])
            total += integers_of(ball_integers(gradients, G).sum(axis=1))
    return (total,)


@_of_unit_rows
def release_dpgd(rows: UnitRows, ask: Ask) -> Release:
    """Release T noisy sums of gradients, each at the released iterate. A row moves one by 2 G."""
    request, p, G = rows.plan.request, rows.design.p, rows.rx * rows.ry
    T, step = int(request["iterations"]), float(request["step"])
    n: int = rows.plan.detail
    b, tail, noise = np.zeros(p), np.zeros(p), 0.0
    for t in range(1, T + 1):
        job = functools.partial(_gradient_sum, rowmap=rows.rowmap, b=b, G=G)
        query = Query(Sum(Ball(p)), Counts(rows.design, job), first_array, unit=G)
        gradient = ask(f"gradient {t}", query)
        noise = float(gradient.sd[0]) / n
        b = b - step / n * gradient.values
        b *= min(1.0, 1e3 / max(float(np.linalg.norm(b)), 1e-300))
        if t > T // 2:
            tail += b / (T - T // 2)
    note = messages.NO_ERRORS_DESCENT()
    return rows.released(tail, note, {}, noise_per_step=noise)


# -- The functional mechanism (Zhang et al. 2012)


def plan_functional(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one release of the coefficients of the objective."""
    part = Pure(request.eps)
    return _declared(request, design, n, Step("objective", part, share=1.0), part)


@_of_unit_rows
def release_functional(rows: UnitRows, ask: Ask) -> Release:
    """Release the coefficients ``-2 X'y`` and ``x_j^2, 2 x_j x_k`` of the objective."""
    p = rows.design.p
    upper = np.triu_indices(p)
    twice = np.where(upper[0] == upper[1], 1, 2)

    def coefficients(sums: Any) -> Added:
        G = sums.integers()
        return Added(np.concatenate([2 * G[:p, p], G[upper] * twice]))

    released = ask("objective", Query(Objective(p, rows.rx, rows.ry), rows.moments, coefficients))
    h, M = released.values[:p] / 2.0, np.zeros((p, p))
    M[upper] = released.values[p:] / twice
    M.T[upper] = M[upper]
    # Original regularisation: a ridge of four standard deviations, then positive directions only.
    lam = 4.0 * math.sqrt(2.0) * float(released.sd[0])
    values, vectors = np.linalg.eigh(M + lam * np.eye(p))
    keep = values > 0
    U = vectors[:, keep]
    return rows.released(
        U @ ((U.T @ h) / values[keep]),
        messages.NO_ERRORS_FUNCTIONAL(),
        {"second_moments": M, "cross_moments": h}, ridge=lam,
    )  # fmt: skip


# -- A Gaussian sketch ``Y = G [A; w I]`` (Sheffet 2017)


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
    """Return the least ``w^2 / B^2`` for (eps, delta), by bisection of its logarithm."""
    lo, hi = math.log(1e-3), math.log(1e9)
    for _ in range(80):
        mid = 0.5 * (lo + hi)
        theta = math.exp(-mid)
        above = rdp_delta(functools.partial(jl_curve, r=r, theta=theta), eps) > delta
        lo, hi = (mid, hi) if above else (lo, mid)
    return math.exp(hi)


def plan_jl(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one sketch; its detail is (rows of the sketch, ``w^2 / B^2``)."""
    r = int(request["rows"])
    ratio = jl_width(request.eps, request.delta * (1.0 - 1e-9), r)
    mechanism = RDP("jl", (("r", float(r)), ("theta", 1.0 / ratio)))
    step = Step("sketch", mechanism, share=1.0, label="Gaussian sketch")
    return _declared(request, design, n, step, (r, ratio), FLOAT_NOTE)


@_of_unit_rows
def release_jl(rows: UnitRows, ask: Ask) -> Release:
    """Release the sketch Y, r x q; r normals a row, which workers must not draw: read here."""
    raw = ask.raw(own_proof("gaussian sketch"))
    q, (r, ratio) = rows.design.q, rows.plan.detail
    w = math.hypot(rows.rx, rows.ry) * math.sqrt(ratio)
    normals, rowmap = raw.sketch_normals("sketch"), rows.rowmap
    Y = w * normals(r * q).reshape(r, q)
    with np.errstate(all="ignore"):
        for block in raw.rows.blocks(rows.design):
            z = rowmap.normalised(block)
            Y += normals(r * z.shape[1]).reshape(r, -1) @ z.T
    grid = w * 2.0**-30
    Y = np.round(Y / grid) * grid
    m = isotropic(Y.T @ Y / r - w * w * np.eye(q), w * w * math.sqrt(2.0 / r))
    theta, _ = solve(m, floor_ridge(m))
    note = messages.NO_ERRORS_SKETCH()
    return rows.released(theta, note, {"sketch": Y}, width=w)


# -- Ridge regression with noise on its output


def output_sensitivity(lam: float, n: int, rx: float, ry: float) -> float:
    """Return ``D = 2 L R_x / lam`` with ``L = R_y + R_x |theta|_max``, replace-one.

    ``|theta| <= min(R_y sqrt n / (2 sqrt lam), n R_x R_y / lam)`` for the minimiser of
    ``sum (y - x'th)^2 / 2 + lam |th|^2 / 2``, which is lam-strongly convex; one row changes the
    gradient by at most ``2 L R_x`` (the published ``L B / lam`` is the add/remove figure).
    """
    top = min(ry * math.sqrt(n) / (2.0 * math.sqrt(lam)), n * rx * ry / lam)
    return 2.0 * (ry + rx * top) * rx / lam


@_of_unit_rows
def release_outpert(rows: UnitRows, ask: Ask) -> Release:
    """Release ``(X'X + lam I)^{-1} X'y`` with Gaussian noise, lam from a public rule."""
    raw = ask.raw(own_proof("output perturbation"))
    mu, n, p = rows.plan.detail.mu, ask.n, rows.design.p

    def D(lam: float) -> float:
        return output_sensitivity(lam, n, rows.rx, rows.ry)

    grid = n * rows.rx**2 * np.geomspace(1e-6, 10.0, 60)
    lam = float(min(grid, key=lambda lam: lam + n * (D(lam) / mu) ** 2))
    G = np.asarray(raw.total(rows.moments).integers(), dtype=float) * STEPS**-2
    theta = np.linalg.solve(G[:p, :p] + lam * np.eye(p), G[:p, p])
    moved = D(lam) * (1.0 + float_allowance(p, n))
    noisy = raw.gaussian_real("coefficients", theta, moved)
    note = messages.NO_ERRORS_OUTPUT()
    return rows.released(noisy, note, {}, ridge=lam, noise_sd=moved / mu)


# -- Backend of ``dp_ols(method="pmt_paper")``: the published Algorithm 3, constants and all.
#
# Whitening of x by the symmetric root of the public second moment, separate truncation of x and y,
# noise of full size off the diagonal, no stabilisation, no inference. Its guarantee is stated
# exactly: two Gaussian releases of rho each are mu-GDP with ``mu = 2 sqrt(rho)``.


#: Published sensitivity of ``sum x x'``, over R^2.
PUBLISHED_SENSITIVITY = 2.0


@dataclass(frozen=True, eq=False)
class PaperDetail:
    """Public facts of the published algorithm."""

    root: Array  # (d, d): ``S^{-1/2}``, symmetric
    scale: float  # ``s_B``: root mean square of the public response
    # rx, ry: truncation radii, ``rx^2 = d (1 + log(2n/eta))``, ``ry^2 = 1 + log(2n/eta)``.
    rx: float
    ry: float
    mu: float  # mu of each of the two releases


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
    factor = max(1.0, PUBLISHED_SENSITIVITY / sensitivity(statistic, "replace", "l2"))
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
        root, math.sqrt(C[d, d]), math.sqrt(d * factor), math.sqrt(factor), mu / math.sqrt(2.0)
    )
    part = Gaussian(detail.mu)
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
    M = ask("second moments", published_query(Ball(d), over, detail.rx, lambda G: G[:d, :d]))
    # x y is in the ball of rx ry: 2 rx ry apart, as published
    cross = Query(
        Sum(Ball(d), products=True), over, lambda G: Added(G.integers()[:d, d]),
        detail.rx * detail.ry,
    )  # fmt: skip
    h = ask("cross moments", cross)
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
            functools.partial(_plan, parts=[("coefficients", 1.0)]), release_outpert, estimate
        ),
        needs=("delta > 0", "ranges"),
        reference="after Chaudhuri, Monteleoni and Sarwate 2011",
        options=(BOUNDS_SHARE,),
    ),
):
    register_method(_entry)
