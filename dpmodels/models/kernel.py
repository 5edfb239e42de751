"""Gaussian-kernel sums of a table: direct, or through linear binning on a grid.

``D(q) = sum_i K(q, x_i)``, ``N(q) = sum_i y_i K(q, x_i)``, ``K(q, x) = exp(-|q - x|^2 / (2 h^2))``,
so ``0 <= K <= K(x, x) = 1``. Features lie in [-1, 1]^d, responses in [-1, 1].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice
from dpmodels.sources.summed import counted
from dpmodels.sums.products import end_of_numbers, towards_zero

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.results.fit import Fit


#: Cells of the binning grid by dimension.
CELLS = {1: 4096, 2: 256}
_WEIGHT = 2.0**12
_LABEL = 2.0**15
#: Steps of a direct sum: one row has at most so many at a point.
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
    """Maps a block to unit half-ranges: features, and the response in [-1, 1].

    Attributes
    ----------
    columns : tuple of int
    centre, half : (d,) arrays
    y_centre, y_half : float
    """

    columns: tuple[int, ...]
    centre: Array
    half: Array
    y_centre: float
    y_half: float

    def __call__(self, block: Array) -> tuple[Array, Array]:
        """Return (features (d, m), response (m,))."""
        with np.errstate(all="ignore"):
            x = (block[list(self.columns)] - self.centre[:, None]) / self.half[:, None]
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
        """Return functions of exact integer sums, the same whoever adds up. Confidential."""
        reader, points, h = self.reader, self.points, self.h
        d = points.shape[1]
        if d in CELLS:
            grid = counted(rows, self.design, functools.partial(grid_sums, reader=reader, d=d))
            return _of_grid(grid, points, h)
        job = functools.partial(lattice_sums, reader=reader, points=points, h=h)
        return _of_lattice(counted(rows, self.design, job))


def direct_sums(
    blocks: Iterable[Array], reader: Reader, points: Array, h: float
) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` (m, d) from :func:`lattice_sums`. Confidential."""
    return _of_lattice(lattice_sums(blocks, reader, points, h))


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
    """Return K (m, rows) of rows x (d, rows), each by itself whatever its place in a block."""
    square = np.zeros((len(points), x.shape[1]))
    part = np.empty_like(square)
    for at, cells in zip(points.T, x, strict=True):
        np.subtract(at[:, None], cells[None, :], out=part)
        part *= part
        square += part
    square *= -0.5 / (h * h)  # differences first: near points keep their digits
    return np.asarray(np.exp(square, out=square))


def lattice_error(m: int, ridge: float) -> float:
    """Return by how much truncation can lengthen the change of ``L^{-1} (N, D)`` by one row.

    A row at m points is off by a vector in ``[0, 2^-44]^{2m}`` up to signs, two rows by at most
    ``2 sqrt(2m) 2^-44``; ``|L^{-1}| <= ridge^{-1/2}`` with ``L L' = K + ridge I``.
    """
    return 2.0 * math.sqrt(2.0 * m) / _KERNEL / math.sqrt(ridge)


def _real(high: Integers, low: Integers, scale: float) -> Array:
    """Return ``(high * 2^22 + low) / scale``, rounded once."""
    whole = high.astype(object) * int(_WORD) + low.astype(object)
    return np.asarray(whole / int(scale), dtype=float)


def _bins(x: Array, cells: int) -> tuple[Array, Array]:
    """Return (cell, weight of the next cell in 2^-12) of points in [-1, 1]."""
    at = (np.clip(x, -1.0, 1.0) + 1.0) * (0.5 * (cells - 1))
    cell = np.minimum(at.astype(np.intp), cells - 2)
    return cell, np.rint((at - cell) * _WEIGHT)


def binned_sums(
    blocks: Iterable[Array], reader: Reader, points: Array, h: float
) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` by linear binning (d <= 2): :func:`grid_sums`. Confidential."""
    return _of_grid(grid_sums(blocks, reader, points.shape[1]), points, h)


def grid_sums(blocks: Iterable[Array], reader: Reader, d: int) -> Limbs:
    """Return (labels in two words, weights) of the cells of the grid, exact integers (cells^d,).

    Labels in steps of ``2^-12d 2^-15``: the sum is ``high * 2^22 + low``. A row is spread over its
    2^d neighbouring cells with weights that sum to 1, so its element of the kernel's RKHS is a
    convex combination of elements of norm 1: the sensitivity is unchanged. Confidential.
    """
    cells = CELLS[d]
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
            weight = np.vstack([weight * (_WEIGHT - w), weight * w])
        for i, w in zip(index, weight, strict=True):
            count += np.bincount(i, weights=w, minlength=size).astype(np.int64)
            label = np.bincount(i, weights=w * k, minlength=size).astype(np.int64)  # <= 2^52
            high += label >> _WORD_BITS
            low += label & (int(_WORD) - 1)
    return high, low, count


def _of_grid(limbs: Limbs, points: Array, h: float) -> tuple[Array, Array]:
    """Return (N, D) at ``points`` from the sums of the cells of the grid."""
    d = points.shape[1]
    cells, scale = CELLS[d], _WEIGHT**d
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


def curve(N: Array, D: Array, sigma: float) -> tuple[Array, Array]:
    """Return (f, privacy se) of noisy sums: f = clip(N/D, -1, 1) where D > 4/mu, else NaN.

    First order: ``N/D`` has error ``sigma sqrt(1 + f^2) / D`` with sigma = 2/mu.
    """
    ok = 2.0 * sigma < D
    f = np.where(ok, np.clip(N / np.where(ok, D, 1.0), -1.0, 1.0), np.nan)
    se = np.where(ok, sigma * np.sqrt(1.0 + f * f) / np.where(ok, D, 1.0), np.nan)
    return f, se


# -- Curves of a kernel regression between their released points. Post-processing only


def _values(fit: Fit, u: Array) -> tuple[Array, Array]:
    """Return (f, privacy se) on the [-1, 1] scale at points u (k, d)."""
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
        return curve(N, D, sigma)
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
    fit: Fit,
    new: Any,
    *,
    what: str,
    interval: str | None,
    level: float,
    se_fit: bool,
    outside: str,
) -> Any:
    """Predict the curve at new points: interpolation of released values, never new noise.

    ``interval="confidence"`` is the privacy band: it covers the kernel estimate without privacy.

    Privacy
    -------
    Post-processing of released numbers.
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
    """Draw a curve in one variable with its privacy band.

    The band covers the kernel estimate that would be computed without privacy; a gap is a point
    without a reply.

    Privacy
    -------
    Post-processing of released numbers.
    """
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
    ax.set_title(f"{100 * level:g} % privacy band")
    return ax
