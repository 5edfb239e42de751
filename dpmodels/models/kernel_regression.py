"""``dp_npreg``: Nadaraya-Watson regression (``functional``, ``eptr``) and Haar wavelets.

Functional release (Hall, Rinaldo and Wasserman 2013): in the RKHS of a positive definite kernel
with ``K(x, x) = 1`` the pair ``(N / R, D)`` has sensitivity 2, so Gaussian processes with
covariance K and sd ``2 / mu`` make it mu-GDP at *any* number of points. On the fixed points Z,
``K(Z, Z) = L L'``, the release of ``L^{-1} N(Z)`` and ``L^{-1} D(Z)`` with independent noise is the
same mechanism; it is drawn that way, with exact noise. ``kernel.md`` section 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.kernel import (
    CELLS,
    KernelSums,
    UnitRows,
    curve,
    default_bandwidth,
    gaussian,
    joint_norm,
    lattice_error,
)
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step, agm
from dpmodels.privacy.noise import paper_midpoint, paper_sigma, reply_probability, split_midpoint
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import Box
from dpmodels.proof.statistics import ByClass, Sum
from dpmodels.ranges import FAILURE_SHARE, gaussian_part, no_ranges, pair_part, ranged_design
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Method,
    Option,
    automatic,
    one_of,
    positive,
    register_method,
)
from dpmodels.sums.ask import Added, Ask, Counts, Query, Raw
from dpmodels.sums.products import end_of_numbers
from dpmodels.sums.rowmap import FeatureScale, feature_scale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


TEST_SHARE = 0.15
_GRID = {1: 41, 2: 15}
_JITTER = 1e-8
_MAX_POINTS = 5000
_MAX_PER_POINT = 50


@dataclass(frozen=True)
class NpregDetail:
    """Decided before the first row.

    Attributes
    ----------
    form : {"functional", "auto", "fixed", "paper"}
    h : float
        Bandwidth on the [-1, 1] scale.
    points : (m, d) array or None
        Public query points on the [-1, 1] scale; None: the grid.
    """

    form: str
    h: float
    points: Any
    mu: dict[str, float]
    delta_f: float = 0.0
    c0: float = 0.0
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True)
class NpregReleased:
    """The public frame of a curve: scales of features and response, points, bandwidth."""

    features: FeatureScale
    y_centre: float
    y_half: float
    points: Array
    sigma: float


def _features(design: Design) -> list[int]:
    index = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    if not index:
        raise RequestError("dp_npreg needs a numeric variable on the right-hand side: 'y ~ x1'")
    if any(design.columns[j].kind == "dummy" for j in index):
        raise RequestError(
            "a factor has no distance: dp_npreg takes numeric variables. Fit one curve a level "
            "with subset=, for example subset=\"group == 'a'\""
        )
    return index


def _public_points(request: Request, design: Design) -> Any:
    """Return public query points in user units as an (m, d) array, or None for the grid."""
    index = _features(design)
    at = request["at"]
    if at is None:
        if len(index) > 2:
            raise RequestError(
                f"with {len(index)} variables there is no default grid: give at= a table of public "
                "points (never rows of the private data)"
            )
        return None
    if not hasattr(at, "columns") and not hasattr(at, "keys"):
        shown = ", ".join(f"{design.names[j]!r}: [...]" for j in index)
        raise RequestError(
            f"at= takes a table of points with the names of the variables, for example "
            f"at={{{shown}}}; got {type(at).__name__}"
        )
    points = np.asarray(design.matrix(at), dtype=float)[:, index]
    if points.ndim != 2 or not len(points) or np.isnan(points).any():
        raise RequestError("at= must be a table of complete public points with the same variables")
    return points


def _bandwidth(request: Request, n: int, d: int) -> float:
    h = request["h"]
    return default_bandwidth(n, d) if h is None else float(h)


def _form(request: Request) -> str:
    if request.method.name == "functional":
        return "functional"
    if request["variant"] == "paper":
        if not isinstance(request["c0"], float):
            raise RequestError("variant='paper' needs c0=, for example c0=0.05")
        return "paper"
    return "auto" if request["c0"] in (None, "auto") else "fixed"


def plan_regression(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a kernel regression."""
    form = _form(request)
    d = len(_features(design))
    points = _public_points(request, design)
    m = _GRID[d] ** d if points is None else len(points)
    if form == "paper" and m > _MAX_PER_POINT:
        raise RequestError(
            f"variant='paper' pays for every query point: at {m} points each gets eps = "
            f"{request.eps / m:.2g}. Use method='functional', which pays once, or at most "
            f"{_MAX_PER_POINT} points in at="
        )
    if form in ("auto", "fixed") and m > _MAX_POINTS:
        raise RequestError(
            f"method='eptr' releases {m} points jointly, with noise that grows like their number. "
            "Use method='functional', which pays once for all of them"
        )
    to_buy = design.unknown
    if form in ("functional", "auto"):
        purchase, steps, mu, delta_f, shares = _gaussian_steps(request, form, to_buy)
        detail = NpregDetail(form, _bandwidth(request, n, d), points, mu, delta_f)
    else:
        purchase, steps, pair, shares = _pair_steps(request, form, to_buy, m)
        detail = NpregDetail(form, _bandwidth(request, n, d), points, {}, **pair)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares=shares,
        scales={"bandwidth on the [-1, 1] scale": detail.h, "query points": float(m)},
        purchase=purchase,
        detail=detail,
    )


def _gaussian_steps(request: Request, form: str, to_buy: tuple[str, ...]) -> Any:
    delta_f = FAILURE_SHARE * request.delta if form == "auto" else 0.0
    part = gaussian_part(request, to_buy, delta_f)
    steps, mu, bought = list(part.steps), part.mu, part.share
    shares = {"curve": 1.0 - bought}
    if form == "auto":
        shares = {"bound": TEST_SHARE * (1 - bought), "curve": (1 - TEST_SHARE) * (1 - bought)}
        mass = Gaussian(mu * math.sqrt(shares["bound"]))
        steps.append(
            Step("smallest kernel mass", mass, share=shares["bound"], failure=delta_f,
                 reply_test=True)
        )  # fmt: skip
    steps.append(Step("curve", Gaussian(mu * math.sqrt(shares["curve"])), share=shares["curve"]))
    mus = {k: mu * math.sqrt(v) for k, v in shares.items()}
    return part.purchase, steps, mus, delta_f, {**part.printed, **shares}


def _pair_steps(request: Request, form: str, to_buy: tuple[str, ...], m: int) -> Any:
    part = pair_part(request, to_buy)
    steps, eps, delta, bought = list(part.steps), part.eps, part.delta, part.share
    pieces = m if form == "paper" else 1
    for j in range(pieces):
        name = "curve and test" if pieces == 1 else f"point {j + 1} and test"
        steps.append(
            Step(name, Approximate(eps / pieces, delta / pieces), share=(1 - bought) / pieces,
                 reply_test=True, label="ePTR coin and Gaussian")
        )  # fmt: skip
    eps, delta = eps / pieces, delta / pieces
    eps_t = 0.5 * eps if form == "paper" else 0.25 * eps
    pair = {"c0": float(request["c0"]), "eps_t": eps_t, "eps_r": eps - eps_t, "delta": delta}
    return part.purchase, steps, pair, {**part.printed, "curve": 1.0 - bought}


def release_regression(plan: Plan[NpregDetail], ask: Ask) -> Release:
    """Release a curve on fixed public points.

    Privacy
    -------
    Unit: one row; replace-one, n public. A row with a missing cell adds nothing to any sum.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    scale = feature_scale(design, None)
    lo, hi = design.intervals()[-1]
    centre, half = float(lo + hi) / 2.0, max(float(hi - lo) / 2.0, 1e-300)
    d = len(scale.columns)
    if detail.points is None:
        axis = np.linspace(-1.0, 1.0, _GRID[d])
        points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    else:
        points = np.clip((detail.points - scale.centre) / scale.half, -1.0, 1.0)
    fixed = points if len(points) <= _MAX_POINTS else _subset(points)
    reader = UnitRows(scale.columns, scale.centre, scale.half, centre, half)
    over = KernelSums(design, reader, fixed, detail.h)
    frame = NpregReleased(scale, centre, half, fixed, math.nan)
    if detail.form == "functional":
        return _release_functional(plan, design, frame, over, ask)
    return _release_eptr(plan, design, frame, over, ask)


def _subset(points: Array) -> Array:
    """Return at most 5000 of the public points, spread evenly through the table."""
    return points[np.linspace(0, len(points) - 1, _MAX_POINTS).astype(np.intp)]


def _release_functional(
    plan: Plan[NpregDetail], design: Design, frame: NpregReleased, over: KernelSums, ask: Ask
) -> Release:
    from scipy.linalg import cholesky, solve_triangular

    detail = plan.detail
    K = gaussian(frame.points, frame.points, detail.h)
    K[np.diag_indices_from(K)] += _JITTER
    L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)

    def white(sums: tuple[Array, Array]) -> Added:
        both = np.column_stack(sums)
        return Added(solve_triangular(L, both, lower=True, check_finite=False))

    # 2^-20 pays for the public grid, the rest for the float triangular solve (condition 1e4)
    assert plan.n is not None
    lattice = 0.0
    if frame.points.shape[1] not in CELLS:
        # rows of direct sums are cut to a lattice; a quarter of the jitter: that of K is rounded
        lattice = lattice_error(len(frame.points), _JITTER / 4.0)
    lemma = Of("kernel curves", (plan.n, lattice), 2 * len(L))
    noisy = ask("curve", Query(lemma, over, white)).values.reshape(-1, 2)
    values = L @ noisy
    return Release(
        {"white": noisy, "N": values[:, 0], "D": values[:, 1]},
        plan.guarantee,
        design,
        detail=NpregReleased(
            frame.features, frame.y_centre, frame.y_half, frame.points, 2.0 / detail.mu["curve"]
        ),
    )


def _release_eptr(
    plan: Plan[NpregDetail], design: Design, frame: NpregReleased, over: KernelSums, ask: Ask
) -> Release:
    detail = plan.detail
    n = plan.n
    assert n is not None
    raw = ask.raw(own_proof("ePTR, kernel regression"))
    N, D = raw.total(over)
    f = np.where(D > 0, N / np.where(D > 0, D, 1.0), 0.0)
    allowance = 1.0 + 2.0**-20 + 64.0 * n * 2.0**-53
    out = frame
    if detail.form == "paper":
        values, sigma = _per_point(detail, f, D, n, raw)
        if not np.isfinite(values).any():
            return Release({}, plan.guarantee, design, reply=False, why="test")
    elif detail.form == "fixed":
        gamma = max(0.0, float(D.min()) - detail.c0 * n) / allowance
        k2 = joint_norm(frame.points, detail.h)
        alpha = 2.0 * math.sqrt(2.0) * k2 / (detail.c0 * n) * allowance
        if len(f) == 1:
            alpha = 2.0 / (detail.c0 * n) * allowance
        p = reply_probability(gamma, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
        sigma = alpha * agm(detail.eps_r, detail.delta)
        noisy = raw.coin_gaussian("curve and test", p, f, sigma)
        if noisy is None:
            return Release({}, plan.guarantee, design, reply=False, why="test")
        values = noisy
    else:
        least = Query(Of("least kernel mass", (n,)), over, lambda sums: Added(sums[1].min()[None]))
        lower = float(ask("smallest kernel mass", least).at_least(detail.delta_f)[0])
        if lower <= 0:
            return Release({}, plan.guarantee, design, reply=False, why="test")
        factor = 2.0 if len(f) == 1 else 2.0 * math.sqrt(2.0) * joint_norm(frame.points, detail.h)
        quotient = Of("kernel quotient", (factor, lower, n), len(f))
        found = ask("curve", Query(quotient, over, lambda _: Added(f)))
        values, sigma = found.values, float(found.sd[0])
    out = NpregReleased(frame.features, frame.y_centre, frame.y_half, frame.points, sigma)
    return Release({"f": values}, plan.guarantee, design, detail=out)


def _per_point(detail: NpregDetail, f: Array, D: Array, n: int, raw: Raw) -> tuple[Array, float]:
    """Run the paper's Algorithm 5 at each point with its part of the budget."""
    eps = detail.eps_t + detail.eps_r
    sigma = paper_sigma(4.0 / (detail.c0 * n), eps, detail.delta)
    single = len(f) == 1
    out = np.full(len(f), np.nan)
    for j, (value, mass) in enumerate(zip(f.tolist(), D.tolist(), strict=True)):
        gamma = max(0.0, mass - detail.c0 * n - 2.0) / 2.0
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        name = "curve and test" if single else f"point {j + 1} and test"
        noisy = raw.coin_gaussian(name, p, np.array([value]), sigma)
        if noisy is not None:
            out[j] = noisy[0]
    return out, sigma


def estimate_regression(plan: Plan[NpregDetail], release: Release) -> Estimate:
    """Values of the curve at the fixed points, with the privacy error of each."""
    detail = plan.detail
    if not release.reply:
        return Estimate.silent(("curve",))
    frame: NpregReleased = release.detail
    points = frame.features.centre + frame.features.half * frame.points
    arrays = {
        "points": points,
        "unit_points": frame.points,
        "scale": np.array([detail.h, frame.y_centre, frame.y_half, frame.sigma]),
        "centre": frame.features.centre,
        "half": frame.features.half,
    }
    if detail.form == "functional":
        N, D = release.values["N"], release.values["D"]
        f, se = curve(N, D, frame.sigma)
        arrays |= {"white": release.values["white"]}
    else:
        f = np.clip(release.values["f"], -1.0, 1.0)
        se = np.where(np.isfinite(f), frame.sigma, np.nan)
    features = [c.name for c in release.design.columns if c.kind != "intercept"]
    names: tuple[str, ...] = tuple(
        "f("
        + ", ".join(f"{x}={v:.4g}" for x, v in zip(features, row, strict=True))
        + ")"
        + ("" if len(points) < 1000 else f" #{i}")
        for i, row in enumerate(points.tolist())
    )
    variance = np.where(np.isfinite(se), (se * frame.y_half) ** 2, np.nan)
    return Estimate(
        names,
        frame.y_centre + frame.y_half * f,
        vcov_privacy=np.diag(variance) if len(names) <= 500 else None,
        stats={"bandwidth": detail.h},
        notes=(
            "The band (privacy part) covers the kernel estimate that would be computed without "
            "privacy; it does not cover the smoothing bias or the sampling error.",
            "A point where the noisy kernel mass is too small has no reply (nan).",
        ),
        arrays={**arrays, "f": f, "se": se},
    )


REGRESSION = Backend(plan_regression, release_regression, estimate_regression)


# -- Wavelet regression with Gaussian noise, for comparison (after Cai, Chakraborty, Vuursteen
# 2024).
#
# Haar scaling functions at one public level J on [-1, 1]^d, d = 1: since the Haar transform is
# orthonormal, noise on the scaling coefficients is noise on the wavelet coefficients up to J. The
# published estimator assumes a uniform design; here the count of each cell is released with the
# sum.


_LABEL = 2.0**15


@dataclass(frozen=True)
class WaveletDetail:
    """Level J (2^J cells) and mu."""

    level: int
    mu: float


def default_level(n: int, mu: float) -> int:
    """Return J with 2^J ~ min(n^(1/3), (n mu)^(1/2)): smoothness 1, public numbers only."""
    cells = min(n ** (1 / 3), math.sqrt(n * mu))
    return max(1, round(math.log2(max(cells, 2.0))))


def plan_wavelet(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a wavelet regression in one variable."""
    index = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    if len(index) != 1 or design.columns[index[0]].kind == "dummy":
        raise RequestError("method='wavelet' takes one numeric variable: 'y ~ x1'")
    part = gaussian_part(request, design.unknown)
    steps, bought = list(part.steps), part.share
    rest = part.mu * math.sqrt(1.0 - bought)
    steps.append(Step("coefficients", Gaussian(rest), share=1.0 - bought))
    level = request["level_j"]
    detail = WaveletDetail(default_level(n, rest) if level is None else int(level), rest)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={**part.printed, "coef": 1.0 - bought},
        scales={"cells": float(2**detail.level)},
        purchase=part.purchase,
        detail=detail,
    )


def release_wavelet(plan: Plan[WaveletDetail], ask: Ask) -> Release:
    """Release (sum of y, count) of each cell.

    Privacy
    -------
    Unit: one row; replace-one, n public. With |y| <= 1 the joint L2 sensitivity is 2: same cell
    2, two cells ``sqrt(1 + 1 + 1 + 1)``.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    scale = feature_scale(design, None)
    lo, hi = design.intervals()[-1].tolist()
    centre, half = (lo + hi) / 2.0, max((hi - lo) / 2.0, 1e-300)
    cells = 2**detail.level
    reader = UnitRows(scale.columns, scale.centre, scale.half, centre, half)
    job = functools.partial(_cell_sums, reader=reader, cells=cells)
    statistic = ByClass(Sum(Box(1), count=1.0), cells)
    found = ask("coefficients", Query(statistic, Counts(design, job), _labelled)).values
    sums, counts = statistic.parts(found)
    values = {"sums": sums.ravel(), "counts": counts}
    return Release(values, plan.guarantee, design, detail=(scale, centre, half))


def _labelled(found: tuple[Any, ...]) -> Added:
    """Return sums and counts in steps of 2^-15."""
    sums, counts = found
    return Added((sums.astype(object), counts.astype(object) * int(_LABEL)), 1.0 / _LABEL)


def _cell_sums(
    blocks: Iterable[Array], reader: UnitRows, cells: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (sums of y in steps of 2^-15, counts) of the cells, (cells,) each. Confidential."""
    sums, counts = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    for block in blocks:
        (u,), y = reader(block)
        keep = ~(np.isnan(u) | np.isnan(y))
        at = ((np.clip(u[keep], -1.0, 1.0) + 1.0) * 0.5 * cells).astype(np.intp)
        at = np.minimum(at, cells - 1)
        k = end_of_numbers(y[keep], steps=_LABEL)
        sums += np.bincount(at, weights=k, minlength=cells).astype(np.int64)
        counts += np.bincount(at, minlength=cells)
    return sums, counts


def estimate_wavelet(plan: Plan[WaveletDetail], release: Release) -> Estimate:
    """Cell means, as a curve at the mid-points of the cells."""
    if not release.reply:
        return Estimate.silent(("curve",))
    detail = plan.detail
    scale, centre, half = release.detail
    cells = 2**detail.level
    sigma = 2.0 / detail.mu
    ok = release.values["counts"] > 2.0 * sigma
    D = np.where(ok, release.values["counts"], 1.0)
    f = np.where(ok, np.clip(release.values["sums"] / D, -1.0, 1.0), np.nan)
    se = np.where(ok, sigma * np.sqrt(1.0 + f * f) / D, np.nan)
    u = ((np.arange(cells) + 0.5) / cells * 2.0 - 1.0)[:, None]
    points = scale.centre + scale.half * u
    name = next(c.name for c in release.design.columns if c.kind != "intercept")
    return Estimate(
        tuple(f"f({name}={v:.4g})" for v in points[:, 0].tolist()),
        centre + half * f,
        vcov_privacy=np.diag((se * half) ** 2),
        stats={"cells": float(cells)},
        notes=("Cell means; between the mid-points of cells predict() interpolates.",),
        arrays={
            "points": points,
            "unit_points": u,
            "scale": np.array([1.0 / cells, centre, half, sigma]),
            "centre": scale.centre,
            "half": scale.half,
            "f": f,
            "se": se,
        },
    )


WAVELET = Backend(plan_wavelet, release_wavelet, estimate_wavelet)


# -- Methods of kernel regression, as data.


_AT = Option("at", "table of public query points; None: a grid (one or two variables)", None)

_H = positive("h", "bandwidth on the [-1, 1] scale; None: 1.06 * 0.58 * n^(-1/(d+4))")


register_method(
    Method(
        name="functional",
        verb="dp_npreg",
        proof="models/kernel.md",
        title="Functional release",
        backend=REGRESSION,
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Hall, Rinaldo, Wasserman (2013), Differential privacy for functions",
        options=(_H, _AT, BOUNDS_SHARE),
    )
)

register_method(
    Method(
        name="eptr",
        verb="dp_npreg",
        proof="models/kernel.md",
        title="ePTR kernel regression",
        backend=REGRESSION,
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 5",
        options=(
            _H,
            _AT,
            automatic("c0", "smallest kernel mass per row; 'auto' releases a lower bound"),
            one_of(
                "variant", "'paper' pays for each point by itself (needs c0)", "default", "paper"
            ),
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    Method(
        name="wavelet",
        verb="dp_npreg",
        proof="models/kernel.md",
        title="Haar wavelets with Gaussian noise",
        backend=WAVELET,
        needs=("delta > 0", "one pass", "one variable"),
        inference="privacy band",
        reference="Cai, Chakraborty, Vuursteen (2024)",
        options=(
            Option("level_j", "2^J cells; None: by n and mu", None, int, lower=0, upper=16),
            BOUNDS_SHARE,
        ),
        comparison_only=True,
    )
)
