"""Gaussian-kernel sums of a table: direct, or through linear binning on a grid.

``D(q) = sum_i K(q, x_i)``, ``N(q) = sum_i y_i K(q, x_i)``, ``K(q, x) = exp(-|q - x|^2 / (2 h^2))``,
so ``0 <= K <= K(x, x) = 1``. Features lie in [-1, 1]^d, responses in [-1, 1].
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.kernels import CELLS_BY_DIMENSION, LABEL, AtPoints, OnGrid
from dpmodels.core.means import half_ranges
from dpmodels.core.rows import Rows, clip, complete, only_where
from dpmodels.core.tallies import ByBin
from dpmodels.errors import RequestError, choice
from dpmodels.lazy import pd, special
from dpmodels.own import kernel_curve as own
from dpmodels.own.kernel_curve import gaussian
from dpmodels.planning import Plan
from dpmodels.ranges import FAILURE_SHARE, Split, pair_part, with_ranges
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

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.results.fit import Fit
    from dpmodels.sums.ask import Ask


class UnitRows:
    """Formula of a row in unit half-ranges (all known): its features, and its response."""

    def __init__(self, design: Design) -> None:
        self.columns = _features(design)  # Columns of the design that are features
        centre, half = half_ranges(design)
        self.centre, self.half = centre[self.columns], half[self.columns]
        self.y_centre, self.y_half = float(centre[-1]), float(half[-1])

    def __call__(self, z: Rows) -> tuple[Rows, Rows]:
        """Return features and response."""
        return (z[self.columns] - self.centre) / self.half, (z[-1] - self.y_centre) / self.y_half


def default_bandwidth(n: int, d: int) -> float:
    """Return the public rule h = 1.06 * 0.58 * n^(-1/(d+4)) on the [-1, 1] scale.

    0.58 is the sd of a uniform variable on [-1, 1]: nothing of the data enters.
    """
    return 1.06 * 0.58 * n ** (-1.0 / (d + 4))


def curve(N: Array, D: Array, sigma: float, flat: float) -> tuple[Array, Array, Array]:
    """Return (f, privacy se, sampling se) of noisy sums; f = N/D where D > 4/mu, else NaN.

    First order: ``N/D`` has error ``sigma sqrt(1 + f^2) / D`` with sigma = 2/mu, and that of a 0/1
    response sampling error ``sqrt((1 - f^2)/(flat D))`` (``kernel.md``, 8.6).
    """
    mass = np.where(2.0 * sigma < D, D, np.nan)
    f = np.clip(N / mass, -1.0, 1.0)
    return f, sigma * np.sqrt(1.0 + f * f) / mass, np.sqrt((1.0 - f * f) / (flat * mass))


def flatness(design: Design, d: float) -> float:
    """Return D over the sum of squared kernels, or infinity if the variance is not known.

    It is 2^(d/2) for rows that are even within a bandwidth. A 0/1 response has variance 1 - f^2.
    """
    declared = design.schema.variables.get(design.response.term) if design.response else None
    return float(2.0 ** (0.5 * d)) if declared and declared.kind == "binary" else math.inf


# -- Curves of a kernel regression between their released points. Post-processing only


def _values(fit: Fit, u: Array) -> tuple[Array, Array]:
    """Return (f, standard error) on the [-1, 1] scale at points u (k, d)."""
    arrays = fit.arrays
    points = arrays["unit_points"]
    h, _, _, sigma = arrays["scale"].tolist()
    if "white" in arrays:
        from scipy.linalg import solve_triangular

        L = own.factor_of(points, h)
        # the noisy functions themselves: N(q) = K(q, Z) K(Z, Z)^{-1} N(Z), exact at Z
        weights = solve_triangular(L, arrays["white"], lower=True, trans="T")
        N, D = (gaussian(u, points, h) @ weights).T
        f, *errors = curve(N, D, sigma, float(arrays.get("flat", math.inf)))
        return f, np.hypot(*errors)
    f = arrays["f"]
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        return (
            np.interp(u[:, 0], points[order, 0], f[order]),
            np.interp(u[:, 0], points[order, 0], arrays["se"][order]),
        )
    nearest = ((u[:, None, :] - points[None]) ** 2).sum(2).argmin(1)
    return f[nearest], arrays["se"][nearest]


def predict_curve(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict the curve at new points: interpolation of released values, never new noise.

    ``interval="confidence"`` is the privacy band; of a 0/1 response it includes sampling.
    """
    choice("what", what, ("mean",))
    choice("interval", interval, (None, "confidence", "prediction"))
    if interval == "prediction":
        raise RequestError("a kernel regression releases no residual variance; use 'confidence'")
    design, arrays = fit.design, fit.arrays
    keep = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    x = np.asarray(design.matrix(new, outside=outside), dtype=float)[:, keep]
    index = getattr(new, "index", None)
    if not fit.released:
        return pd.Series(np.nan, index=range(len(x)) if index is None else index, name="fit")
    missing = np.isnan(x).any(axis=1)
    u = np.clip((np.where(np.isnan(x), 0.0, x) - arrays["centre"]) / arrays["half"], -1.0, 1.0)
    f, se = _values(fit, u)
    _, centre, half, _ = arrays["scale"].tolist()
    mean = np.where(missing, np.nan, centre + half * f)
    if interval is None and not se_fit:
        return pd.Series(mean, index=index, name="fit")
    columns = {"fit": mean}
    if interval is not None:
        reach = float(special.ndtri(0.5 + level / 2.0)) * half * se
        columns |= {"lwr": mean - reach, "upr": mean + reach}
    if se_fit:
        columns["se_fit"] = half * se
    return pd.DataFrame(columns, index=index)


def plot_curve(fit: Fit, ax: Any = None, *, level: float = 0.95, color: str | None = None) -> Any:
    """Draw a curve in one variable with its band; a gap is a point without a reply."""
    import matplotlib.pyplot as plt
    arrays = fit.arrays
    if not fit.released or arrays["points"].shape[1] != 1:
        raise RequestError("plot() draws a released curve in one variable; use predict() otherwise")
    if ax is None:
        _, ax = plt.subplots()
    order = np.argsort(arrays["points"][:, 0])
    x = arrays["points"][order, 0]
    _, centre, half, _ = arrays["scale"].tolist()
    mean = centre + half * arrays["f"][order]
    reach = float(special.ndtri(0.5 + level / 2.0)) * half * arrays["se"][order]
    (line,) = ax.plot(x, mean, color=color)
    ax.fill_between(x, mean - reach, mean + reach, color=line.get_color(), alpha=0.25, linewidth=0)
    name = next(c.name for c in fit.design.columns if c.kind != "intercept")
    ax.set_xlabel(name)
    ax.set_ylabel(fit.design.response.name)
    privacy = "privacy " * bool(np.isinf(arrays.get("flat", math.inf)))
    ax.set_title(f"{100 * level:g} % {privacy}band")
    return ax


# -- ``dp_npreg``: Nadaraya-Watson regression (``functional``, ``eptr``) and Haar wavelets.


TEST_SHARE = 0.15
_GRID = {1: 41, 2: 15}
_MAX_POINTS = 5000
_MAX_PER_POINT = 50


@dataclass(frozen=True)
class NpregDetail:
    """Decided before the first row."""

    form: str
    h: float  # Bandwidth on the [-1, 1] scale
    points: Any  # (m, d): public query points on the [-1, 1] scale; None: the grid
    mu: dict[str, float]
    c0: float = 0.0
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True)
class NpregReleased:
    """The public frame of a curve: the map of its rows, its points, and the noise."""

    rows: UnitRows
    points: Array
    sigma: float = math.nan


def _features(design: Design) -> list[int]:
    """Return the indices of the numeric columns, or refuse a design without them."""
    index = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    if not index:
        raise RequestError("dp_npreg needs a numeric variable on the right-hand side: 'y ~ x1'")
    if any(design.columns[j].kind == "dummy" for j in index):
        raise RequestError(
            "a factor has no distance: dp_npreg needs numeric variables. Fit one curve per level "
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
            f"at= must be a table of points with the names of the variables, for example "
            f"at={{{shown}}}; got {type(at).__name__}"
        )
    points = np.asarray(design.matrix(at), dtype=float)[:, index]
    if points.ndim != 2 or not len(points) or np.isnan(points).any():
        raise RequestError("at= must be a table of complete public points with the same variables")
    return points


def _form(request: Request) -> str:
    """Return the form of the release: functional, paper, fixed or auto."""
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
    h = default_bandwidth(n, d) if request["h"] is None else float(request["h"])
    scales = {"bandwidth on the [-1, 1] scale": h, "query points": float(m)}
    if form in ("functional", "auto"):
        test = TEST_SHARE if form == "auto" else 0.0
        delta_f = FAILURE_SHARE * request.delta if test else 0.0
        steps = {"bound": (own.MASS, test), "curve": (own.CURVE, 1 - test)}
        split = Split(request, design, steps, failure=delta_f, test="bound")
        return split.plan(n, scales=scales, detail=NpregDetail(form, h, points, split.mu))
    part, pieces = pair_part(request, design.unknown), m if form == "paper" else 1
    names = [f"point {j + 1} and test" for j in range(m)] if pieces > 1 else [own.CURVE_TESTED]
    eps, delta = part.eps / pieces, part.delta / pieces
    test = 0.5 if form == "paper" else 0.25
    eps_t = test * eps
    detail = NpregDetail(
        form, h, points, {}, c0=float(request["c0"]), eps_t=eps_t, eps_r=eps - eps_t, delta=delta
    )
    return Plan.of(
        request, design, n, part.coins(*names, test=test), purchase=part.purchase,
        scales=scales, detail=detail,
    )  # fmt: skip


@with_ranges
def release_regression(plan: Plan[NpregDetail], ask: Ask, design: Design) -> Release:
    """Release a curve on fixed public points.

    **Privacy.** Unit: one row; replace-one, n public. A row with a missing cell adds nothing to any
    sum.
    """
    detail = plan.detail
    rows = UnitRows(design)
    d = len(rows.columns)
    if detail.points is None:
        axis = np.linspace(-1.0, 1.0, _GRID[d])
        points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    else:
        points = np.clip((detail.points - rows.centre) / rows.half, -1.0, 1.0)
    if len(points) > _MAX_POINTS:  # spread evenly through the table
        points = points[np.linspace(0, len(points) - 1, _MAX_POINTS).astype(np.intp)]
    into = (OnGrid if d in CELLS_BY_DIMENSION else AtPoints)(points, detail.h)
    over, frame = own.KernelSums(design, rows, into), NpregReleased(rows, points)
    if detail.form == "functional":
        noisy, L = own.functional_curve(over, ask)
        values = {"white": noisy, "N": (L @ noisy)[:, 0], "D": (L @ noisy)[:, 1]}
        frame = replace(frame, sigma=2.0 / detail.mu["curve"])
    elif detail.form == "auto":
        bounded = own.counted_curve(over, ask)
        if isinstance(bounded, np.ndarray):
            return Release({"masses": bounded}, plan.guarantee, design, reply=False, why="test")
        values = dict(zip(("f", "sds", "masses"), bounded, strict=True))
        frame = replace(frame, sigma=float(np.nanmax(values["sds"])))
    else:
        f, sigma = own.tested_curve(over, detail, ask)
        if f is None:
            return Release({}, plan.guarantee, design, reply=False, why="test")
        values, frame = {"f": f}, replace(frame, sigma=sigma)
    return Release(values, plan.guarantee, design, detail=frame)


def estimate_regression(plan: Plan[NpregDetail], release: Release) -> Estimate:
    """Return values of the curve at the fixed points, with the errors of each."""
    detail = plan.detail
    if not release.reply:
        return Estimate.silent(("curve",))
    frame: NpregReleased = release.detail
    flat = flatness(release.design, frame.points.shape[1]) / plan.request.copies
    arrays = _scales(frame.rows, frame.points, detail.h, frame.sigma, flat)
    if detail.form == "functional":
        N, D = release.values["N"], release.values["D"]
        f, se, sampling = curve(N, D, frame.sigma, flat)
        arrays["white"] = release.values["white"]
    else:
        f = np.clip(release.values["f"], -1.0, 1.0)
        se = release.values.get("sds", np.where(np.isfinite(f), frame.sigma, np.nan))
        mass = np.maximum(release.values.get("masses", detail.c0 * plan.public_n), 1.0)
        sampling = np.sqrt((1.0 - f * f) / (flat * mass))
    features = [c.name for c in release.design.columns if c.kind != "intercept"]
    points = arrays["points"].tolist()
    names = tuple(
        f"f({', '.join(f'{x}={v:.4g}' for x, v in zip(features, row, strict=True))})"
        + ("" if len(points) < 1000 else f" #{i}")
        for i, row in enumerate(points)
    )
    stats, gaps = {"bandwidth": detail.h}, messages.KERNEL_GAPS()
    return _estimate(plan, names, frame.rows, f, se, sampling, arrays, stats, gaps)


def _estimate(
    plan: Plan[Any], names: tuple[str, ...], rows: UnitRows, f: Array, se: Array, sampling: Array,
    arrays: dict[str, Array], stats: dict[str, float], *notes: Any,
) -> Estimate:  # fmt: skip
    """Return a curve in the user's units; errors of many points are in ``arrays`` alone."""
    privacy, spread = ((rows.y_half * part) ** 2 for part in (se, sampling))
    few, with_sampling = len(names) <= 500, bool(np.isfinite(arrays["flat"]))
    band = messages.KERNEL_SMOOTHED() if with_sampling else messages.KERNEL_BAND()
    return Estimate(
        names, rows.y_centre + rows.y_half * f, stats=stats, notes=(band, *notes),
        vcov_sampling=np.diag(spread / plan.request.copies) if few and with_sampling else None,
        vcov_privacy=np.diag(privacy) if few else None,
        arrays={**arrays, "f": f, "se": np.hypot(se, sampling)},
    )  # fmt: skip


def _scales(
    rows: UnitRows, points: Array, h: float, sigma: float, flat: float
) -> dict[str, Array]:
    """Return the scales for reading a curve at ``points`` of the [-1, 1] scale."""
    return {
        "points": rows.centre + rows.half * points, "unit_points": points,
        "scale": np.array([h, rows.y_centre, rows.y_half, sigma]),
        "centre": rows.centre, "half": rows.half, "flat": np.array(flat),
    }  # fmt: skip


REGRESSION = Backend(plan_regression, release_regression, estimate_regression)


# -- Wavelet regression with Gaussian noise, for comparison (after Cai, Chakraborty, Vuursteen
# 2024). The published estimator assumes a uniform design; here cells are counted too.


def default_level(n: int, mu: float) -> int:
    """Return J with 2^J ~ min(n^(1/3), (n mu)^(1/2)): smoothness 1, public numbers only."""
    cells = min(n ** (1 / 3), math.sqrt(n * mu))
    return max(1, round(math.log2(max(cells, 2.0))))


def plan_wavelet(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a wavelet regression in one variable."""
    index = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    if len(index) != 1 or design.columns[index[0]].kind == "dummy":
        raise RequestError("method='wavelet' needs one numeric variable: 'y ~ x1'")
    split = Split(request, design, {"coef": ("coefficients", 1.0)})
    mu, level = split.mu["coef"], request["level_j"]
    level = default_level(n, mu) if level is None else int(level)
    return split.plan(n, scales={"cells": float(2**level)}, detail=(level, mu))


@with_ranges
def release_wavelet(plan: Plan[tuple[int, float]], ask: Ask, design: Design) -> Release:
    """Release (sum of y, count) of each cell.

    **Privacy.** Unit: one row; replace-one, n public. With |y| <= 1 the joint L2 sensitivity is 2:
    same cell 2, two cells ``sqrt(1 + 1 + 1 + 1)``.
    """
    rows, cells = UnitRows(design), 2 ** plan.detail[0]
    into = ByBin(cells, LABEL, count_first=False)

    def row(z: Rows) -> tuple[Rows, Rows]:
        x, y = rows(z)
        return only_where((clip(x, -1.0, 1.0) + 1.0) * (0.5 * cells), complete(y), np.nan), y

    noisy = core.answered(core.Release("coefficients", into, row, design), ask)
    sums, counts = into.statistic.parts(noisy.values)
    return Release({"sums": sums.ravel(), "counts": counts}, plan.guarantee, design, detail=rows)


def estimate_wavelet(plan: Plan[tuple[int, float]], release: Release) -> Estimate:
    """Return cell means, as a curve at the mid-points of the cells."""
    if not release.reply:
        return Estimate.silent(("curve",))
    rows: UnitRows = release.detail
    level, mu = plan.detail
    cells, sigma = 2**level, 2.0 / mu
    flat = flatness(release.design, 0.0) / plan.request.copies
    f, se, sampling = curve(release.values["sums"], release.values["counts"], sigma, flat)
    u = ((np.arange(cells) + 0.5) / cells * 2.0 - 1.0)[:, None]
    arrays = _scales(rows, u, 1.0 / cells, sigma, flat)
    name = next(c.name for c in release.design.columns if c.kind != "intercept")
    names = tuple(f"f({name}={v:.4g})" for v in arrays["points"][:, 0].tolist())
    stats, note = {"cells": float(cells)}, messages.CELL_MEANS()
    return _estimate(plan, names, rows, f, se, sampling, arrays, stats, note)


WAVELET = Backend(plan_wavelet, release_wavelet, estimate_wavelet)


# -- Methods of kernel regression, as data.


_AT = Option("at", "table of public query points; None: a grid (one or two variables)", None)

_BANDWIDTH = positive("h", "bandwidth on the [-1, 1] scale; None: 1.06 * 0.58 * n^(-1/(d+4))")

_npreg = functools.partial(
    Method, verb="dp_npreg", proof="models/kernel.md", backend=REGRESSION,
    needs=("delta > 0", "one pass"), inference="privacy band; sampling of 0/1 responses",
)  # fmt: skip


register_method(_npreg(
    name="functional", title="Functional release", options=(_BANDWIDTH, _AT, BOUNDS_SHARE),
    reference="Hall, Rinaldo, Wasserman (2013), Differential privacy for functions",
))  # fmt: skip
register_method(_npreg(
    name="eptr", title="ePTR kernel regression",
    reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 5",
    options=(
        _BANDWIDTH, _AT,
        automatic("c0", "smallest kernel mass per row; 'auto' releases a lower bound"),
        one_of("variant", "'paper' pays for each point by itself (needs c0)", "default", "paper"),
        BOUNDS_SHARE,
    ),
))  # fmt: skip
register_method(_npreg(
    name="wavelet", title="Haar wavelets with Gaussian noise", backend=WAVELET,
    needs=("delta > 0", "one pass", "one variable"), comparison_only=True,
    reference="Cai, Chakraborty, Vuursteen (2024)",
    options=(
        Option("level_j", "2^J cells; None: by n and mu", None, int, lower=0, upper=16),
        BOUNDS_SHARE,
    ),
))  # fmt: skip
