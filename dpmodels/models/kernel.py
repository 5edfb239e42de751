"""Gaussian-kernel sums of a table: direct, or through linear binning on a grid.

``D(q) = sum_i K(q, x_i)``, ``N(q) = sum_i y_i K(q, x_i)``, ``K(q, x) = exp(-|q - x|^2 / (2 h^2))``,
so ``0 <= K <= K(x, x) = 1``. Features lie in [-1, 1]^d, responses in [-1, 1].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.means import half_ranges
from dpmodels.errors import RequestError, choice
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import agm
from dpmodels.privacy.noise import paper_midpoint, paper_sigma, reply_probability, split_midpoint
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import Box
from dpmodels.proof.statistics import ByClass, Sum
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
from dpmodels.sources.summed import integer_sums
from dpmodels.sums.ask import Added, Ask, Counts, Query, Raw
from dpmodels.sums.products import end_of_numbers, towards_zero

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.results.fit import Fit


#: Cells of the binning grid by dimension.
CELLS_BY_DIMENSION = {1: 4096, 2: 256}
_WEIGHT_STEPS = 2.0**12
_LABEL = 2.0**15
#: Steps of a direct sum: the most that one row has at a point.
_KERNEL = 2.0**44
#: The lower word of a sum.
_WORD_BITS = 22
_WORD = 2.0**_WORD_BITS
#: Rows whose sum of steps a float holds exactly.
_TOGETHER = 1 << 9
#: Kernel values in memory at once.
_AT_ONCE = 1 << 17

#: maps a block buffer to (features (d, m), response (m,)), NaN in missing rows
Reader = Callable[[Array], tuple[Array, Array]]
Integers = npt.NDArray[np.int64]
Limbs = tuple[Integers, ...]


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Maps a block to unit half-ranges: features, and the response in [-1, 1]."""

    columns: list[int]  # Columns of the design that are features
    centre: Array
    half: Array
    y_centre: float
    y_half: float

    @classmethod
    def of(cls, design: Design) -> UnitRows:
        """Return the map of a design whose ranges are all known."""
        columns = _features(design)
        (*_, y_centre), (*_, y_half) = centre, half = half_ranges(design)
        return cls(columns, centre[columns], half[columns], float(y_centre), float(y_half))

    def __call__(self, block: Array) -> tuple[Array, Array]:
        """Return (features (d, m), response (m,))."""
        with np.errstate(all="ignore"):
            x = (block[self.columns] - self.centre[:, None]) / self.half[:, None]
            return x, np.clip((block[-1] - self.y_centre) / self.y_half, -1.0, 1.0)


def default_bandwidth(n: int, d: int) -> float:
    """Return the public rule h = 1.06 * 0.58 * n^(-1/(d+4)) on the [-1, 1] scale.

    0.58 is the sd of a uniform variable on [-1, 1]: nothing of the data enters.
    """
    return 1.06 * 0.58 * n ** (-1.0 / (d + 4))


def gaussian(a: Array, b: Array, h: float) -> Array:
    """Return the (len(a), len(b)) kernel matrix of points given as (k, d) arrays."""
    a, b = a / h, b / h
    square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.T)
    return np.asarray(np.exp(-0.5 * np.maximum(square, 0.0)))


def joint_norm(points: Array, h: float) -> float:
    """Return k2 with k2^2 >= sup_x sum_j K(x, q_j)^2.

    ``k2^2 <= max_i sum_j exp(-|q_i - q_j|^2 / (4 h^2))``: nearest query and triangle inequality.
    """
    return math.sqrt(float(gaussian(points, points, h * math.sqrt(2.0)).sum(axis=1).max()))


@dataclass(frozen=True, eq=False)
class KernelSums:
    """(N, D) at ``points`` (m, d) from one pass, by binning for d <= 2, else direct."""

    design: Design
    reader: Reader
    points: Array
    h: float

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[Array, Array]:
        """Return functions of exact integer sums, the same for every executor. Confidential."""
        reader, points, h = self.reader, self.points, self.h
        d = points.shape[1]
        if d in CELLS_BY_DIMENSION:
            grid = integer_sums(rows, self.design, functools.partial(grid_sums, reader=reader, d=d))
            return _of_grid(grid, points, h)
        job = functools.partial(lattice_sums, reader=reader, points=points, h=h)
        return _of_lattice(integer_sums(rows, self.design, job))


def _of_lattice(limbs: Limbs) -> tuple[Array, Array]:
    n_high, n_low, d_high, d_low = limbs
    return _real(n_high, n_low, _KERNEL), _real(d_high, d_low, _KERNEL)


def lattice_sums(blocks: Iterable[Array], reader: Reader, points: Array, h: float) -> Limbs:
    """Return N and D in steps of 2^-44: ``sum trunc(2^44 y K)``, ``sum trunc(2^44 K)``.

    Each as two words, (m,) each: the sum is ``high * 2^22 + low``. Confidential. Integers, so the
    order is no matter; a row adds ``0 <= k <= 2^44`` to D and ``|t| <= k`` to N at each point,
    since truncation is monotone (``kernel.md``, section 8).
    """
    m = len(points)
    out = [np.zeros(m, dtype=np.int64) for _ in range(4)]
    height = max(1, _AT_ONCE // m)
    for block in blocks:
        x, y = reader(block)
        keep = ~(np.isnan(y) | np.isnan(x).any(axis=0))
        x, y = x[:, keep], y[keep]
        for a in range(0, len(y), height):
            K = pointwise(points, x[:, a : a + height], h)
            K *= _KERNEL
            for i, part in enumerate((K * y[a : a + height], K)):
                towards_zero(part)
                # sums of integers of at most 2^44 over at most 2^9 rows: exact in any order
                sums = np.add.reduceat(part, range(0, part.shape[1], _TOGETHER), axis=1)
                total = sums.astype(np.int64).sum(axis=1)
                out[2 * i] += total >> _WORD_BITS
                out[2 * i + 1] += total & (int(_WORD) - 1)
    return tuple(out)


def pointwise(points: Array, x: Array, h: float) -> Array:
    """Return K (m, rows) of rows x (d, rows), computed row by row."""
    square = np.zeros((len(points), x.shape[1]))
    part = np.empty_like(square)
    for at, cells in zip(points.T, x, strict=True):
        np.subtract(at[:, None], cells[None, :], out=part)
        part *= part
        square += part
    square *= -0.5 / (h * h)  # differences first: near points keep their digits
    return np.asarray(np.exp(square, out=square))


def lattice_error(m: int, ridge: float) -> float:
    """Return how much rounding to the lattice adds to the sensitivity of ``L^{-1} (N, D)``.

    N, D: sums of the module docstring at m points; K: kernel matrix of the points.
    A row at m points is off by a vector in ``[0, 2^-44]^{2m}`` up to signs, two rows by at most
    ``2 sqrt(2m) 2^-44``; ``|L^{-1}| <= ridge^{-1/2}`` with ``L L' = K + ridge I``.
    """
    return 2.0 * math.sqrt(2.0 * m) / _KERNEL / math.sqrt(ridge)


def _real(high: Integers, low: Integers, scale: float) -> Array:
    """Return ``(high * 2^22 + low) / scale``, rounded once."""
    combined = high.astype(object) * int(_WORD) + low.astype(object)
    return np.asarray(combined / int(scale), dtype=float)


def _bins(x: Array, cells: int) -> tuple[Array, Array]:
    """Return (cell, weight of the next cell in 2^-12) of points in [-1, 1]."""
    at = (np.clip(x, -1.0, 1.0) + 1.0) * (0.5 * (cells - 1))
    cell = np.minimum(at.astype(np.intp), cells - 2)
    return cell, np.rint((at - cell) * _WEIGHT_STEPS)


def grid_sums(blocks: Iterable[Array], reader: Reader, d: int) -> Limbs:
    """Return (labels in two words, weights) of the cells of the grid, exact integers (cells^d,).

    Labels in steps of ``2^-12d 2^-15``: the sum is ``high * 2^22 + low``. A row is spread over its
    2^d neighbouring cells with weights that sum to 1, so its element of the kernel's RKHS is a
    convex combination of elements of norm 1: the sensitivity is unchanged. Confidential.
    """
    cells = CELLS_BY_DIMENSION[d]
    size = cells**d
    high, low, count = (np.zeros(size, dtype=np.int64) for _ in range(3))
    for block in blocks:
        x, y = reader(block)
        keep = ~(np.isnan(y) | np.isnan(x).any(axis=0))
        k = end_of_numbers(y[keep], steps=_LABEL)
        index = np.zeros((1, int(keep.sum())), dtype=np.intp)
        weight = np.full((1, index.shape[1]), 1.0)
        for axis in x:
            cell, w = _bins(axis[keep], cells)
            index = np.vstack([index * cells + cell, index * cells + cell + 1])
            weight = np.vstack([weight * (_WEIGHT_STEPS - w), weight * w])
        for i, w in zip(index, weight, strict=True):
            count += np.bincount(i, weights=w, minlength=size).astype(np.int64)
            label = np.bincount(i, weights=w * k, minlength=size).astype(np.int64)  # <= 2^52
            high += label >> _WORD_BITS
            low += label & (int(_WORD) - 1)
    return high, low, count


def _of_grid(limbs: Limbs, points: Array, h: float) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` from the sums of the cells of the grid."""
    d = points.shape[1]
    cells, scale = CELLS_BY_DIMENSION[d], _WEIGHT_STEPS**d
    high, low, count = limbs
    s, c = _real(high, low, scale * _LABEL), count / scale
    centres = np.linspace(-1.0, 1.0, cells)[:, None]
    if d == 1:
        K = gaussian(points, centres, h)
        return K @ s, K @ c
    # separable kernel: one product an axis
    K1, K2 = gaussian(points[:, :1], centres, h), gaussian(points[:, 1:], centres, h)
    s2, c2 = s.reshape(cells, cells), c.reshape(cells, cells)
    return ((K1 @ s2) * K2).sum(axis=1), ((K1 @ c2) * K2).sum(axis=1)


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
        from scipy.linalg import cholesky, solve_triangular

        K = gaussian(points, points, h)
        K[np.diag_indices_from(K)] += 1e-8
        L = cholesky(K, lower=True)
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
    import pandas as pd
    from scipy.special import ndtri

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
        reach = float(ndtri(0.5 + level / 2.0)) * half * se
        columns |= {"lwr": mean - reach, "upr": mean + reach}
    if se_fit:
        columns["se_fit"] = half * se
    return pd.DataFrame(columns, index=index)


def plot_curve(fit: Fit, ax: Any = None, *, level: float = 0.95, color: str | None = None) -> Any:
    """Draw a curve in one variable with its band; a gap is a point without a reply."""
    import matplotlib.pyplot as plt
    from scipy.special import ndtri

    arrays = fit.arrays
    if not fit.released or arrays["points"].shape[1] != 1:
        raise RequestError("plot() draws a released curve in one variable; use predict() otherwise")
    if ax is None:
        _, ax = plt.subplots()
    order = np.argsort(arrays["points"][:, 0])
    x = arrays["points"][order, 0]
    _, centre, half, _ = arrays["scale"].tolist()
    mean = centre + half * arrays["f"][order]
    reach = float(ndtri(0.5 + level / 2.0)) * half * arrays["se"][order]
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
_JITTER = 1e-8
_MAX_POINTS = 5000
_MAX_PER_POINT = 50
#: Noise sd of a point of ePTR that is still released, in half ranges of the response.
MOST_NOISE = 0.5


@dataclass(frozen=True)
class NpregDetail:
    """Decided before the first row."""

    form: str
    h: float  # Bandwidth on the [-1, 1] scale
    points: Any  # (m, d): public query points on the [-1, 1] scale; None: the grid
    mu: dict[str, float]
    delta_f: float = 0.0
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
        steps = {"bound": ("smallest kernel mass", test), "curve": ("curve", 1 - test)}
        split = Split(request, design, steps, failure=delta_f, test="bound")
        return split.plan(n, scales=scales, detail=NpregDetail(form, h, points, split.mu, delta_f))
    part, pieces = pair_part(request, design.unknown), m if form == "paper" else 1
    names = [f"point {j + 1} and test" for j in range(m)] if pieces > 1 else ["curve and test"]
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
    rows = UnitRows.of(design)
    d = len(rows.columns)
    if detail.points is None:
        axis = np.linspace(-1.0, 1.0, _GRID[d])
        points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    else:
        points = np.clip((detail.points - rows.centre) / rows.half, -1.0, 1.0)
    if len(points) > _MAX_POINTS:  # spread evenly through the table
        points = points[np.linspace(0, len(points) - 1, _MAX_POINTS).astype(np.intp)]
    over = KernelSums(design, rows, points, detail.h)
    stage = _release_functional if detail.form == "functional" else _release_eptr
    return stage(plan, design, NpregReleased(rows, points), over, ask)


def _release_functional(
    plan: Plan[NpregDetail], design: Design, frame: NpregReleased, over: KernelSums, ask: Ask
) -> Release:
    """Release the sums N and D at fixed points by the functional mechanism."""
    from scipy.linalg import solve_triangular

    detail = plan.detail
    L = factor_of(frame.points, detail.h)

    def white(sums: tuple[Array, Array]) -> Added:
        both = np.column_stack(sums)
        return Added(solve_triangular(L, both, lower=True, check_finite=False))

    # 2^-20 allows for the public grid, the rest for the float triangular solve (condition 1e4)
    lemma = Of("kernel curves", (plan.public_n, lattice_of(frame.points)), 2 * len(L))
    noisy = ask("curve", Query(lemma, over, white)).values.reshape(-1, 2)
    values = L @ noisy
    return Release(
        {"white": noisy, "N": values[:, 0], "D": values[:, 1]}, plan.guarantee, design,
        detail=replace(frame, sigma=2.0 / detail.mu["curve"]),
    )  # fmt: skip


def _release_eptr(
    plan: Plan[NpregDetail], design: Design, frame: NpregReleased, over: KernelSums, ask: Ask
) -> Release:
    """Release the curve at each point behind a private test of its kernel mass."""
    detail = plan.detail
    n = plan.public_n
    raw = ask.raw(own_proof("ePTR, kernel regression"))
    N, D = raw.total(over)
    f = np.where(D > 0, N / np.where(D > 0, D, 1.0), 0.0)
    allowance = 1.0 + 2.0**-20 + 64.0 * n * 2.0**-53
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
        lower = _masses(detail, frame, over, n, ask)
        precise, factor = kept_points(frame.points, detail.h, lower, detail.mu["curve"])
        if not precise.any():
            return Release({"masses": lower}, plan.guarantee, design, reply=False, why="test")
        quotient = Of("kernel quotient", (factor, 1.0, n), int(precise.sum()))
        answer = ask("curve", Query(quotient, over, lambda _: Added((lower * f)[precise])))
        values, sds = np.full((2, len(f)), np.nan)
        values[precise], sds[precise] = answer.values / lower[precise], answer.sd / lower[precise]
        frame = replace(frame, sigma=float(np.nanmax(sds)))
        return Release(
            {"f": values, "sds": sds, "masses": lower}, plan.guarantee, design, detail=frame
        )
    frame = replace(frame, sigma=sigma)
    return Release({"f": values}, plan.guarantee, design, detail=frame)


def _masses(d: NpregDetail, frame: NpregReleased, over: KernelSums, n: int, ask: Ask) -> Array:
    """Release lower bounds of the kernel masses of all points, wrong with probability delta_f."""
    from scipy.linalg import solve_triangular

    m = len(frame.points)
    L = factor_of(frame.points, d.h)
    lemma = Of("kernel masses", (n, lattice_of(frame.points)), m)

    def white(sums: tuple[Array, Array]) -> Added:
        return Added(solve_triangular(L, sums[1], lower=True, check_finite=False))

    answer = ask("smallest kernel mass", Query(lemma, over, white))
    margin = float(answer.margin(d.delta_f / m)[0]) * np.linalg.norm(L, axis=1)
    return np.asarray(L @ answer.values - margin * (1.0 + 2.0**-20))


def kept_points(
    points: Array, h: float, lower: Array, mu: float
) -> tuple[npt.NDArray[np.bool_], float]:
    """Return the points with noise up to ``MOST_NOISE``, by bounds of masses, and their factor."""
    precise = lower >= _joint_factor(points, h) / (mu * MOST_NOISE)
    return precise, _joint_factor(points[precise], h) if precise.any() else math.inf


def _joint_factor(points: Array, h: float) -> float:
    return 2.0 if len(points) == 1 else 2.0 * math.sqrt(2.0) * joint_norm(points, h)


def factor_of(points: Array, h: float) -> Array:
    """Return L with ``L L' = K(Z, Z) + jitter I``."""
    from scipy.linalg import cholesky

    K = gaussian(points, points, h)
    K[np.diag_indices_from(K)] += _JITTER
    return np.asarray(cholesky(K, lower=True, overwrite_a=True, check_finite=False))


def lattice_of(points: Array) -> float:
    """Return the part of a sensitivity due to the lattice of direct sums (jitter/4 is kept)."""
    return (
        0.0 if points.shape[1] in CELLS_BY_DIMENSION else lattice_error(len(points), _JITTER / 4.0)
    )


def _per_point(detail: NpregDetail, f: Array, D: Array, n: int, raw: Raw) -> tuple[Array, float]:
    """Run the paper's Algorithm 5 at each point with its part of the budget."""
    eps = detail.eps_t + detail.eps_r
    sigma = paper_sigma(4.0 / (detail.c0 * n), eps, detail.delta)
    out = np.full(len(f), np.nan)
    for j, (value, mass) in enumerate(zip(f.tolist(), D.tolist(), strict=True)):
        gamma = max(0.0, mass - detail.c0 * n - 2.0) / 2.0
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        name = "curve and test" if len(f) == 1 else f"point {j + 1} and test"
        noisy = raw.coin_gaussian(name, p, np.array([value]), sigma)
        if noisy is not None:
            out[j] = noisy[0]
    return out, sigma


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
    rows, cells = UnitRows.of(design), 2 ** plan.detail[0]
    job = functools.partial(_cell_sums, reader=rows, cells=cells)
    statistic = ByClass(Sum(Box(1), count=1.0), cells)

    def labelled(totals: tuple[Any, ...]) -> Added:  # in steps of 2^-15
        sums, counts = totals
        return Added((sums.astype(object), counts.astype(object) * int(_LABEL)), 1.0 / _LABEL)

    query = Query(statistic, Counts(design, job), labelled)
    sums, counts = statistic.parts(ask("coefficients", query).values)
    values = {"sums": sums.ravel(), "counts": counts}
    return Release(values, plan.guarantee, design, detail=rows)


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
