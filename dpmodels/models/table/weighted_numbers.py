"""From released masses and squares to what a weighted table shows. Post-processing.

Shares are ratios of released sums; their errors are of rows by the squares, times the design effect
of the PSUs (``theory.md``, 4.3, 4.4 and 4.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.wald import critical_value
from dpmodels.arrays import Array
from dpmodels.models.by_design import DesignErrors
from dpmodels.models.table.cells_by_design import Laid, errors_of
from dpmodels.models.table.effects import Effects, Measured, Spread, critical
from dpmodels.models.table.layout import Layout, Section
from dpmodels.models.table.noise import TableNoise
from dpmodels.models.table.numbers import COLUMNS
from dpmodels.models.table.sums import COUNT, SQUARE, TOTAL
from dpmodels.models.weighted import Trim

#: Of the trimmed part of the weight, how far beyond its own difference a share may be moved.
MOVED, ALLOWED = 1.5, 0.75
#: Below so many sds of its noise a sum of squares says nothing of heavy rows, and a group has no
#: mean.
CLEAR, SMALL = 4.0, 3.0


def effects_of(layout: Layout, noise: TableNoise, noisy: Array, n: int) -> Effects:
    """Return the effects of released tables; n less what is unused is their total, with noise."""
    tables, at = [], 0
    for b, block in enumerate(layout.blocks):
        shape = [layout.axes[j].size for j in block.axes]
        size = math.prod(shape)
        values = noisy[at : at + size].reshape(shape)
        unused = noisy[at + size]
        at += size + 1
        tables.append(Measured(block.axes, values, noise.variance(b)))
        tables.append(Measured((), np.array(n - unused), noise.variance(b)))
    return Effects(layout.sizes, tables, None)


@dataclass(frozen=True)
class Context:
    """Everything released and public that the sections are made of."""

    layout: Layout
    mass: Effects
    squares: Effects
    trim: Trim
    centre: Array
    half: Array
    n: int
    level: float
    population: float | None
    laid: Laid | None = None
    errors: DesignErrors | None = None

    def of_design(self, section: Section, rows: Array) -> tuple[Array, Array]:
        """Return (design effects by PSU, factors for degrees of freedom); 1 where rows are alone.

        Parameters
        ----------
        rows : (k,) array
            Sums of squares of z over rows, of the items of the section.
        """
        if self.errors is None or self.laid is None:
            return np.ones(len(rows)), np.ones(len(rows))
        return errors_of(self.errors, self.laid, section, rows)

    @property
    def used(self) -> float:
        """Released sum of u."""
        return max(float(self.mass.effect(())), 1.0)

    @property
    def heavy(self) -> float:
        """Released sum of u^2, no less than that of equal weights."""
        return max(float(self.squares.effect(())), self.used**2 / self.n)

    @property
    def z(self) -> float:
        """Two-sided normal quantile."""
        return critical(Spread(1.0), self.level)

    def widened(self, bias: Array, se: Array) -> Array:
        """Return half widths of intervals that allow for a bias."""
        ratio = np.divide(bias, se, out=np.zeros_like(se), where=se > 0.0)
        return np.asarray(critical_value(ratio, self.level) * se)


def counts(c: Context, section: Section) -> tuple[Array, Array]:
    """Return totals and shares of the cells of a table."""
    M, S = (e.table(section.axes).ravel() for e in (c.mass, c.squares))
    U, S2 = c.used, c.heavy
    own, with_total = c.mass.variance(section.axes), c.mass.covariance(section.axes, ())
    of_total = c.mass.variance(())
    share = M / U
    p = np.clip(share, 0.0, 1.0)
    privacy = np.sqrt(np.maximum(own - 2.0 * p * with_total + p * p * of_total, 0.0)) / U
    least = p * (1.0 - p) / c.n  # no weights make fewer rows tell more
    sampling = np.sqrt(np.maximum((S * (1.0 - 2.0 * p) + p * p * S2) / U**2, least))
    design, free = c.of_design(section, (sampling * U) ** 2)
    sampling = sampling * np.sqrt(design)
    corrected, bias = share, np.zeros_like(share)
    noise_s = math.sqrt(c.squares.variance(section.axes))
    if float(c.squares.effect(())) > CLEAR * math.sqrt(c.squares.variance(())):
        d = S / S2 - share
        corrected = share + MOVED * c.trim.lost * d
        bias = ALLOWED * c.trim.lost * (np.abs(d) + noise_s / S2)
    se = np.hypot(sampling, privacy)
    half = c.widened(bias, se) * free
    # Wilson's middle: an interval of a rare cell leans to the inside
    middle = corrected + c.z**2 * (1.0 - 2.0 * p) * sampling**2 / np.maximum(p * (1 - p), 1e-3) / 2
    middle = np.where(p > 0.02, corrected, np.minimum(middle, corrected + half / 2.0))
    whole = c.population or U * c.trim.top / (1.0 - c.trim.lost)
    noisy = 0.0 if c.population else of_total / U**2  # of the total itself
    out = np.full((len(COLUMNS) + 1, M.size), np.nan)
    out[0] = corrected * whole
    out[1] = whole * (sampling if c.population else _of_totals(c, section, sampling, p, S))
    out[2] = whole * np.sqrt(privacy**2 + corrected**2 * noisy)
    wide = whole * c.widened(bias, np.hypot(out[1], out[2]) / whole) * free
    out[3], out[4] = out[0] - wide, out[0] + wide
    out[5], out[6], out[7], out[8] = corrected, se, middle - half, middle + half
    with np.errstate(all="ignore"):
        plain = p * (1.0 - p) / c.n
        out[9] = np.where(plain * c.n > 3.0 * privacy, sampling**2 / plain, np.nan)
    return out, M * c.trim.top / max(c.trim.mean, 1e-300)


def _of_totals(c: Context, section: Section, sampling: Array, p: Array, S: Array) -> Array:
    """Return sampling errors of totals over the sum of weights, which is not known."""
    U = c.used
    if c.errors is None:
        spread = max(c.heavy / U**2 - 1.0 / c.n, 0.0)
        return np.asarray(np.sqrt(sampling**2 + p**2 * spread))
    if c.laid is None or not c.laid.weight:
        return np.full(len(p), np.nan)
    L, which = c.laid.functions(section)
    L[:, -1] = p[which]  # sum u 1_c is the sum of z, and p times the sum of u
    rows = np.maximum.reduce([S - p * p * U * U / c.n, S * 0.05, 0.0 * S])[which]  # S is released
    effect, _ = c.errors.effects(L, np.maximum(rows, 1e-300))
    out = np.hypot(sampling, p * math.sqrt(max(c.heavy / U**2 - 1.0 / c.n, 0.0)))
    out[which] = np.sqrt(effect * rows) / U
    return np.asarray(out)


@dataclass(frozen=True)
class Groups:
    """Released sums of a number in groups: of masses, and of squared ones."""

    axes: tuple[int, ...]
    N: Array
    T: Array
    m: Array
    v: Array
    squared: tuple[Array, Array, Array]


def sums(c: Context, section: Section) -> Groups:
    """Return the sums of a section of means, its means and variances in half ranges."""
    axis = c.layout.number_axis(section.number)
    axes = tuple(sorted((*section.axes, axis)))
    there = tuple(slice(0, -1) for _ in section.axes)

    def cells(effects: Effects) -> Array:
        found = np.moveaxis(effects.table(axes), axes.index(axis), -1)
        return np.asarray(found[there].reshape(-1, 4))

    M, S = cells(c.mass), cells(c.squares)
    N, T, Q = (M @ w for w in (COUNT, TOTAL, SQUARE))
    N2, T2, Q2 = (S @ w for w in (COUNT, TOTAL, SQUARE))
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    v = np.clip(Q / safe - m * m, 0.0, 1.0)
    return Groups(axes, N, T, m, v, (N2, T2, Q2))


def means(c: Context, section: Section) -> tuple[Array, Array]:
    """Return the total, weighted mean and sd of every group."""
    found = sums(c, section)
    axis, axes = c.layout.number_axis(section.number), found.axes
    K, KS = c.mass.along(axes, axis), c.squares.along(axes, axis)
    N, m, v, (N2, T2, Q2) = found.N, found.m, found.v, found.squared
    safe = np.maximum(N, 1.0)
    slope = TOTAL - m[:, None] * COUNT
    privacy = np.sqrt(np.einsum("gi,ij,gj->g", slope, K, slope)) / safe
    kish = c.heavy * c.n / c.used**2
    least = v / np.maximum(safe * c.n / c.used, 1.0)
    sampling = np.sqrt(np.maximum((Q2 - 2.0 * m * T2 + m * m * N2) / safe**2, least))
    sampling = np.minimum(sampling, np.sqrt(25.0 * kish * np.maximum(least, 1e-300)))
    design, free = c.of_design(section, (sampling * safe) ** 2)
    sampling = sampling * np.sqrt(design)
    tau_n = math.sqrt(float(COUNT @ K @ COUNT))
    noise_2 = math.sqrt(float(COUNT @ KS @ COUNT))
    d = np.where(CLEAR * noise_2 < N2, T2 / np.maximum(N2, 1e-300) - m, 0.0)
    error = np.where(CLEAR * noise_2 < N2, noise_2 / np.maximum(N2, 1e-300), 0.0)
    corrected = np.clip(m + MOVED * c.trim.lost * d, -1.0, 1.0)
    bias = ALLOWED * c.trim.lost * (np.abs(d) + error)
    se = np.hypot(sampling, privacy)
    half = c.widened(bias, se) * free
    h, middle = float(c.half[section.number]), float(c.centre[section.number])
    scale = c.trim.top / (1.0 - c.trim.lost)
    scale = scale if c.population is None else c.population / c.used
    out = np.full((len(COLUMNS) + 1, 3, m.size), np.nan)
    wide = critical(Spread(tau_n**2), c.level)
    out[:5, 0] = (
        N * scale, np.zeros(m.size), np.full(m.size, tau_n * scale), (N - wide) * scale,
        (N + wide) * scale,
    )  # fmt: skip
    blank = np.where(SMALL * tau_n <= N, 1.0, np.nan)
    low, high = np.clip(corrected - half, -1.0, 1.0), np.clip(corrected + half, -1.0, 1.0)
    out[:5, 1] = (
        (middle + h * corrected) * blank, h * sampling * blank, h * privacy * blank,
        middle + h * np.where(blank == 1.0, low, -1.0),
        middle + h * np.where(blank == 1.0, high, 1.0),
    )  # fmt: skip
    out[9, 1] = np.where(blank == 1.0, sampling**2 / np.maximum(least, 1e-300), np.nan)
    out[0, 2] = h * np.sqrt(v) * blank
    size = np.repeat(N * c.trim.top / max(c.trim.mean, 1e-300), 3)
    return out.transpose(0, 2, 1).reshape(len(COLUMNS) + 1, -1), size
