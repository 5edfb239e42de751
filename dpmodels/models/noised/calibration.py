"""From a target (eps, delta) to noise: kinds, blocks, scales, and the guarantee they give."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.lazy import special
from dpmodels.models.noised.curves import calibrate
from dpmodels.own.noised import Group, Layout
from dpmodels.own.radial import exact_eps
from dpmodels.privacy.mechanisms import Gaussian, Profile, Pure, Step, eps_gdp, mu_gdp

if TYPE_CHECKING:
    pass


# -- From a target (eps, delta) to noise: kinds, blocks, scales, and the guarantee they give.


NOISES = ("auto", "sl", "laplace", "gaussian")
UNITS = ("record", "attribute")


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a release, in units of the column scales. All public."""

    noise: str
    unit: str
    # Columns that share one radius ("laplace": one column each).
    blocks: tuple[tuple[int, ...], ...]
    # (d,) tuple: noise sd of the columns before a clear probability, relative to the column's
    # range.
    sd: tuple[float, ...]
    clear_prob: float
    c: tuple[float, ...]  # Distance of neighbours over the noise sd, a block ("sl", "gaussian")
    steps: tuple[Step, ...]
    # shapes, sensitivities: what the run needs: factor of each column; distance of neighbours of
    # each step.
    shapes: tuple[float, ...]
    sensitivities: tuple[float, ...]
    # eps, delta: guarantee of these steps.
    eps: float
    delta: float
    record_pair: tuple[float, float] | None = None  # (eps, delta): for the unit "attribute"
    advice: tuple[str, ...] = field(default=())

    @property
    def stages(self) -> tuple[tuple[str, tuple[int, ...], float], ...]:
        """(step, its columns, sensitivity): one draw each."""
        columns = self.blocks if self.noise == "sl" else (tuple(range(len(self.sd))),)
        names = (s.name for s in self.steps)
        return tuple(zip(names, columns, self.sensitivities, strict=True))


def _sub(layout: Layout, block: tuple[int, ...]) -> Layout:
    """Return the layout of some columns; a factor cut in two counts whole in both."""
    keep = set(block)
    place = {j: i for i, j in enumerate(block)}
    groups = tuple(
        Group(tuple(place[j] for j in g.columns if j in keep), g.variables, g.diam, g.ldiam)
        for g in layout.groups
        if keep & set(g.columns)
    )
    pick = [layout.names[j] for j in block], [layout.kinds[j] for j in block]
    return Layout(tuple(layout.rows[j] for j in block), tuple(pick[0]), tuple(pick[1]), groups)


def _diam(layout: Layout, unit: str) -> float:
    """Return the diam of a record, or the largest of an attribute."""
    if unit == "record":
        return layout.record[0]
    return max(layout.attribute(v)[0] for v in layout.variables)


def relative_sds(
    layout: Layout, eps: float, delta: float, unit: str, clear_prob: float = 0.0, tight: bool = True
) -> dict[str, float]:
    """Return the noise sd of a numeric column under each kind of noise that is possible."""
    out: dict[str, float] = {}
    if delta > clear_prob or (layout.d == 1 and delta >= clear_prob):
        out["sl"] = _diam(layout, unit) / calibrate(eps, delta, layout.d, clear_prob, tight)
    if clear_prob == 0.0:
        if unit == "record":
            out["laplace"] = math.sqrt(2.0) * layout.record[1] / eps
        else:
            out["laplace"] = math.sqrt(2.0) * min(layout.laplace_weights()) / eps
        if delta > 0:
            out["gaussian"] = _diam(layout, unit) / mu_gdp(eps, delta)
    return out


def plan_noise(
    layout: Layout, eps: float, delta: float, *, unit: str = "record", noise: str = "auto",
    clear_prob: float = 0.0, tight: bool = True,
    blocks: tuple[tuple[int, ...], ...] | None = None,
) -> NoisePlan:  # fmt: skip
    """Calibrate the noise of the rows themselves, after the cost of ranges is subtracted.

    ``tight``: exact finite-d calibration of SL noise; ``blocks``: SL noise with one radius a block,
    eps and delta split evenly (sums).
    """
    if layout.d < 1:
        raise RequestError(
            "a release needs at least one column that is noised; every requested column is public "
            "or constant"
        )
    if noise == "auto" and blocks is not None:
        noise = "sl"
    if clear_prob > 0 and noise not in ("sl", "auto", "auto-smooth"):
        raise RequestError(
            f"clear_prob > 0 goes with noise='sl' only, got noise={noise!r}: other noise has no "
            "correction for records that are published unperturbed"
        )
    if delta == 0 and (noise == "gaussian" or (noise == "sl" and layout.d > 1)):
        raise RequestError(
            f"delta = 0: noise={noise!r} on {layout.d} column(s) needs delta > 0. "
            "Use noise='laplace', or for example delta=1e-6"
        )
    if noise in ("auto", "auto-smooth"):
        sds = relative_sds(layout, eps, delta, unit, clear_prob, tight)
        if noise == "auto-smooth":  # smooth losses have no correction for Gaussian noise
            sds.pop("gaussian", None)
        others = {k: v for k, v in sds.items() if k != "sl"}
        narrower = "sl" in sds and sds["sl"] <= min(others.values(), default=math.inf)
        if clear_prob > 0 or layout.d == 1 or delta >= 0.01 or narrower:
            noise = "sl"
        else:
            noise = "laplace" if unit == "attribute" else min(others, key=others.__getitem__)
    if noise == "laplace":
        return _laplace(layout, eps, delta, unit)
    if noise == "gaussian":
        return _gaussian(layout, eps, delta, unit)
    return _sl(layout, eps, delta, unit, clear_prob, tight, blocks)


def _laplace(layout: Layout, eps: float, delta: float, unit: str) -> NoisePlan:
    """Plan independent Laplace noise: eps = sqrt2 sum of ldiam / lambda (theory.md 2.5)."""
    d = layout.d
    weights = (1.0,) * d if unit == "record" else layout.laplace_weights()
    reach = layout.record[1] if unit == "record" else 1.0
    sd = tuple(math.sqrt(2.0) * reach * w / eps for w in weights)
    pair = None
    if unit == "attribute":
        total = sum(g.ldiam / weights[g.columns[0]] for g in layout.groups)
        pair = (eps * total, 0.0)
    return NoisePlan(
        "laplace", unit, tuple((j,) for j in range(d)), sd, 0.0, (),
        (Step("noised table", Pure(eps), label="Laplace noise"),),
        weights, (reach,), eps, delta, pair,
    )  # fmt: skip


def _gaussian(layout: Layout, eps: float, delta: float, unit: str) -> NoisePlan:
    """Plan Gaussian noise on the columns."""
    mu = mu_gdp(eps, delta)
    reach = _diam(layout, unit)
    sd = reach / mu
    pair = None
    if unit == "attribute":
        pair = (eps_gdp(layout.record[0] / sd, delta), delta)
    return NoisePlan(
        "gaussian", unit, (tuple(range(layout.d)),), (sd,) * layout.d, 0.0, (mu,),
        (Step("noised table", Gaussian(mu), label="Gaussian noise"),),
        (1.0,) * layout.d, (reach,), eps, delta, pair,
    )  # fmt: skip


def _sl(
    layout: Layout, eps: float, delta: float, unit: str, clear_prob: float, tight: bool,
    blocks: tuple[tuple[int, ...], ...] | None,
) -> NoisePlan:  # fmt: skip
    """Plan SL or ZIL noise with one radius per block and record; blocks compose by sums."""
    parts = blocks if blocks is not None else (tuple(range(layout.d)),)
    if sorted(j for b in parts for j in b) != list(range(layout.d)) or not all(parts):
        raise RequestError("blocks must name every noised column exactly once")
    if len(parts) > 1 and clear_prob > 0:
        raise RequestError("clear_prob > 0 needs a single block of noise")
    b = len(parts)
    e, dl = eps / b, delta / b
    sd = [0.0] * layout.d
    cs, steps, reaches = [], [], []
    pair = [0.0, 0.0]
    for k, block in enumerate(parts):
        part = _sub(layout, block)
        d = part.d
        c = calibrate(e, dl, d, clear_prob, tight)
        reach = _diam(part, unit)
        for j in block:
            sd[j] = reach / c
        form = d if tight else 0 if d > 1 else 1
        curve = Profile("sl", (("c", c), ("d", form), ("knot", e), ("p", clear_prob)))
        name = "noised table" if b == 1 else f"noised block {k + 1}"
        label = "ZIL noise" if clear_prob > 0 else "SL noise"
        steps.append(Step(name, curve, label=label))
        cs.append(c)
        reaches.append(reach)
        pair[0] += exact_eps(part.record[0] * c / reach, max(dl, 1e-300), d, clear_prob)
        pair[1] += dl
    return NoisePlan(
        "sl", unit, parts, tuple(sd), clear_prob, tuple(cs), tuple(steps),
        (1.0,) * layout.d, tuple(reaches), eps, delta,
        (pair[0], pair[1]) if unit == "attribute" else None,
    )  # fmt: skip


# -- Laplace filters of second derivatives: F^k g(x) = E g(x + b (L_1 + ... + L_k)), k = 1, 2,


@dataclass(frozen=True)
class Filtered:
    """F g, (F g)', F^2 g, (F^2 g)', F^3 g, each of shape (n,)."""

    one: Array
    one_slope: Array
    two: Array
    two_slope: Array
    three: Array


# -- exact kernels ---------------------------------------------------------------------------------

#: A second derivative (a measure) seen through k Laplace filters of width b:
#: kernel(u, b) -> (k = 1, its slope, k = 2, its slope, k = 3).
Kernel = Callable[[Array, float], Filtered]


def point(u: Array, b: float) -> Filtered:
    """Return densities of one, two and three Laplace variables (a filtered unit mass at 0)."""
    z = np.abs(u) / b
    e = np.exp(-z)
    return Filtered(
        e / (2.0 * b),
        -np.sign(u) * e / (2.0 * b * b),
        (1.0 + z) * e / (4.0 * b),
        -np.sign(u) * z * e / (4.0 * b * b),
        (z * z + 3.0 * z + 3.0) * e / (16.0 * b),
    )


def _upper(x: Array, b: float) -> tuple[Array, Array, Array]:
    """Return distribution functions of one, two and three Laplace variables at x."""
    z = np.abs(x) / b
    e = np.exp(-z)
    tails = 0.5 * e, 0.25 * (2.0 + z) * e, (z * z + 5.0 * z + 8.0) * e / 16.0
    up = x > 0
    first, two, three = (np.where(up, 1.0 - t, t) for t in tails)
    return first, two, three


def box(k: float) -> Kernel:
    """Return the kernel of 1{|u| <= k} (Huber's loss)."""

    def kernel(u: Array, b: float) -> Filtered:
        right, left = _upper(u + k, b), _upper(u - k, b)
        r, l = point(u + k, b), point(u - k, b)
        return Filtered(
            right[0] - left[0], r.one - l.one, right[1] - left[1], r.two - l.two,
            right[2] - left[2],
        )  # fmt: skip

    return kernel


def smoothed(kernel: Kernel, u: Array, b: float, h: float) -> Filtered:
    """Return the filters of width b of a measure smoothed by a Laplace kernel of width h.

    Partial fractions: with A = h^2 / (h^2 - b^2), F_b F_h = A F_h + (1 - A) F_b.
    """
    if h <= 0.0:
        return kernel(u, b)
    wide = kernel(u, h)
    if b <= 0.0:
        return Filtered(wide.one, wide.one_slope, wide.one, wide.one_slope, wide.one)
    if abs(h - b) < 1e-4 * h:
        h *= 1.0 + 1e-3
        wide = kernel(u, h)
    narrow = kernel(u, b)
    A = h * h / (h * h - b * b)
    B = 1.0 - A
    once = A * wide.one + B * narrow.one
    one_slope = A * wide.one_slope + B * narrow.one_slope
    two = A * once + B * narrow.two
    two_slope = A * one_slope + B * narrow.two_slope
    return Filtered(once, one_slope, two, two_slope, A * two + B * narrow.three)


# -- the logistic density --------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def polynomial(m: int) -> tuple[float, ...]:
    """Return the coefficients of P_m in s = sigma(eta): d^m/deta^m log(1 + e^eta) = P_m(s)."""
    from numpy.polynomial import polynomial as P

    c = np.array([0.0, 1.0])
    for _ in range(m - 1):
        c = P.polymul(P.polyder(c), [0.0, 1.0, -1.0])
    return tuple(c.tolist())


def polynomials(combination: list[tuple[float, int]], size: int) -> Array:
    """Return the coefficients of sum c_i P_{m_i}, padded to ``size``."""
    out = np.zeros(size)
    for factor, m in combination:
        c = polynomial(m)
        out[: len(c)] += factor * np.asarray(c)
    return out


_TERMS = 7


def _series(eta: Array, b: float) -> Filtered:
    """Compute F^k g = sum_m binom(m + k - 1, k - 1) b^{2m} g^{(2m)}, for b < 0.1."""
    size = 2 * _TERMS + 4
    sums = {(k, s): np.zeros(size) for k in (1, 2, 3) for s in (0, 1)}
    for m in range(_TERMS):
        for k, weight in ((1, 1.0), (2, m + 1.0), (3, 0.5 * (m + 1) * (m + 2))):
            for s in (0, 1):
                sums[k, s] += polynomials([(weight * b ** (2 * m), 2 + 2 * m + s)], size)
    at = special.expit(eta)
    rows = [sums[1, 0], sums[1, 1], sums[2, 0], sums[2, 1], sums[3, 0]]
    return Filtered(*(_horner(c, at) for c in rows))


def _horner(c: Array, s: Array) -> Array:
    """Return a polynomial with coefficients c at the points s."""
    out = np.full_like(s, c[-1])
    for v in c[-2::-1]:
        out *= s
        out += v
    return out


_FILTER_STEP = 0.05


@functools.lru_cache(maxsize=4)
def _grid(reach: float) -> tuple[Array, Array, Array, Array]:
    """Return (grid, inner nodes (cells, 6), Gauss weights on [0, step], offsets)."""
    x: Array
    w: Array
    x, w = (np.asarray(v, dtype=float) for v in np.polynomial.legendre.leggauss(6))
    count = round(2 * reach / _FILTER_STEP)
    grid: Array = np.asarray(-reach + _FILTER_STEP * np.arange(count + 1), dtype=float)
    offsets = 0.5 * _FILTER_STEP * (x + 1.0)
    return grid, grid[:-1, None] + offsets, 0.5 * _FILTER_STEP * w, offsets


def _two_sided(values: Array, b: float, weights: Array, offsets: Array) -> tuple[Array, Array]:
    """Filter a function given at the inner nodes; return its values and slopes on the grid."""
    from scipy.signal import lfilter

    decay = math.exp(-_FILTER_STEP / b)
    forward = values @ (weights * np.exp(-offsets / b)) / b
    backward = values @ (weights * np.exp(-(_FILTER_STEP - offsets) / b)) / b
    up = np.append(lfilter([1.0], [1.0, -decay], forward[::-1])[::-1], 0.0)
    down = np.append(0.0, lfilter([1.0], [1.0, -decay], backward))
    return 0.5 * (up + down), (up - down) / (2.0 * b)


def _hermite(value: Array, slope: Array, t: Array, i: npt.NDArray[np.intp]) -> Array:
    """Interpolate by a cubic Hermite polynomial at fraction t of cell i."""
    y0, y1 = value[i], value[i + 1]
    m0, m1 = slope[i] * _FILTER_STEP, slope[i + 1] * _FILTER_STEP
    c2 = 3.0 * (y1 - y0) - 2.0 * m0 - m1
    c3 = 2.0 * (y0 - y1) + m0 + m1
    return np.asarray(y0 + t * (m0 + t * (c2 + t * c3)))


@functools.lru_cache(maxsize=8)
def _table(b: float) -> tuple[float, tuple[tuple[Array, Array], ...]]:
    """Return the filtered derivatives of the logistic function on a grid."""
    reach = math.ceil(45.0 + 30.0 * b)
    grid, nodes, weights, offsets = _grid(float(reach))
    s = special.expit(nodes)
    values = s * (1.0 - s)
    out = []
    cell = np.repeat(np.arange(len(grid) - 1)[:, None], len(offsets), axis=1)
    t = np.broadcast_to(offsets / _FILTER_STEP, cell.shape)
    for k in range(3):
        pair = _two_sided(values, b, weights, offsets)
        out.append(pair)
        if k < 2:
            values = _hermite(*pair, t, cell)
    return float(reach), tuple(out)


def logistic_filter(eta: Array, b: float) -> Filtered:
    """Return the filters of sigma (1 - sigma): a series for small b, else a table on a grid."""
    if b < 0.1:
        return _series(eta, b)
    reach, (once, two, three) = _table(b)
    x = (np.clip(eta, -reach, reach * (1 - 1e-12)) + reach) / _FILTER_STEP
    i = np.minimum(x.astype(np.intp), len(once[0]) - 2)
    t = x - i
    return Filtered(
        _hermite(*once, t, i), _hermite(once[1], _second(once, 0, b), t, i),
        _hermite(*two, t, i), _hermite(two[1], _second(two, once, b), t, i),
        _hermite(*three, t, i),
    )  # fmt: skip


def _second(pair: tuple[Array, Array], before: tuple[Array, Array] | int, b: float) -> Array:
    """Compute the second derivative on the grid: (F g - g) / b^2."""
    if isinstance(before, int):
        reach = 0.5 * (len(pair[0]) - 1) * _FILTER_STEP
        s = special.expit(-reach + _FILTER_STEP * np.arange(len(pair[0])))
        g = s * (1.0 - s)
    else:
        g = before[0]
    return np.asarray((pair[0] - g) / (b * b))


# -- any smooth function ---------------------------------------------------------------------------


def by_nodes(g: Callable[[Array], Array], slope: Callable[[Array], Array], eta: Array, b: float,
             nodes: int = 14) -> Filtered:  # fmt: skip
    """Filter by Gauss-Laguerre nodes on both sides (densities of one, two, three Laplace)."""
    if b == 0.0:
        v, s = g(eta), slope(eta)
        return Filtered(v, s, v, s, v)
    x, w = np.polynomial.laguerre.laggauss(nodes)
    sums = [np.zeros_like(eta) for _ in range(5)]
    for z, weight in zip(x.tolist(), w.tolist(), strict=True):
        density, two, three = 0.5, 0.25 * (1 + z), (z * z + 3 * z + 3) / 16.0
        for side in (b * z, -b * z):
            v, s = g(eta + side), slope(eta + side)
            sums[0] += weight * density * v
            sums[1] += weight * density * s
            sums[2] += weight * two * v
            sums[3] += weight * two * s
            sums[4] += weight * three * v
    return Filtered(*sums)
