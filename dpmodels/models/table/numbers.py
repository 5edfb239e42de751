"""From noisy counts and sums to what a table shows. Post-processing (``theory.md``, 1.3 to 1.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.table.effects import Effects, Spread
from dpmodels.models.table.intervals import critical, fieller, share_interval
from dpmodels.models.table.layout import Layout, Section
from dpmodels.models.table.noise import TableNoise

__all__ = ["COLUMNS", "Numbers", "shown_numbers"]

#: What is kept of every item of a table.
COLUMNS = (
    "estimate", "se_sampling", "se_privacy", "low", "high",
    "share", "share_se", "share_low", "share_high",
)  # fmt: skip
#: A group is too small to divide by below this many sds of its count's noise.
_SMALL = 3.0


@dataclass(frozen=True)
class Numbers:
    """A value of each of :data:`COLUMNS` for every item, and what to say of them."""

    arrays: dict[str, Array]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Context:
    """Everything released and public that the sections are made of."""

    layout: Layout
    noise: TableNoise
    effects: Effects
    sums: Mapping[int, tuple[Array, Array | None]]
    centre: Array
    half: Array
    n: int
    level: float

    @property
    def z(self) -> float:
        """Two-sided normal quantile."""
        return critical(Spread(1.0), self.level)


def shown_numbers(
    layout: Layout,
    noise: TableNoise,
    released: Mapping[str, Array],
    scale: tuple[Array, Array],
    n: int,
    *,
    level: float,
    suppress: float | None,
    points: Mapping[int, Array] | None,
) -> Numbers:
    """Return the numbers of all sections, in the order of ``Layout.items``.

    Parameters
    ----------
    released : mapping
        "table", and the places of quantiles by step.
    scale : pair of (q,) arrays
        Middles and half-ranges.
    suppress : float or None
        Items of groups (cells) with a smaller *released* count become NaN.
    points : mapping or None
        Grid of each number with quantiles.
    """
    counts, sums = _unpacked(layout, released["table"])
    effects = noise.measured(layout, counts, float(n))
    context = _Context(layout, noise, effects, sums, *scale, n, level)
    parts = []
    for section in layout.sections:
        if section.kind == "counts":
            part, size = _counts(context, section)
        elif section.kind == "means":
            part, size = _means(context, section)
        else:
            assert points is not None
            part, size = _quantiles(context, section, released, points[section.number])
        if suppress is not None:
            part[:, size < suppress] = np.nan
        parts.append(part)
    whole = np.concatenate(parts, axis=1)
    return Numbers(dict(zip(COLUMNS, whole, strict=True)), _notes(layout, noise, suppress))


def _notes(layout: Layout, noise: TableNoise, suppress: float | None) -> tuple[str, ...]:
    kinds = {s.kind for s in layout.sections}
    notes = [
        "Counts are those of this table: their intervals contain the noise and nothing else. "
        "Shares and means are of the population: their intervals contain sampling error too.",
        "Counts are consistent (margins are sums of cells, the total is n), so they are no "
        "integers and may be negative.",
    ]
    if "means" in kinds:
        notes.append(
            "Errors of standard deviations take the values to be normal; groups whose count is "
            f"below {_SMALL:g} standard deviations of its noise have no mean, only an interval."
        )
    if "quantiles" in kinds:
        notes.append("Quantiles by the exponential mechanism; dp_quantile gives intervals.")
    if suppress is not None:
        notes.append(f"Suppressed: what rests on a released count below {suppress:g}.")
    return tuple(notes)


def _unpacked(
    layout: Layout, noisy: Array
) -> tuple[list[Array], dict[int, tuple[Array, Array | None]]]:
    """Return the counts of each block, and (sums, squares) of the blocks with a number."""
    counts, sums = [], {}
    at = 0

    def take(size: int) -> Array:
        nonlocal at
        at += size
        return noisy[at - size : at]

    for b, block in enumerate(layout.blocks):
        counts.append(take(layout.cells(block.axes)))
        if block.number >= 0:
            total = take(layout.cells(block.group))
            square = take(layout.cells(block.group)) if layout.squares else None
            sums[b] = (total, square)
    return counts, sums


def _counts(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return counts with the interval of the noise, and shares of n with Wilson's."""
    count = c.effects.table(section.axes).ravel()
    spread = c.effects.spread(section.axes)
    out = np.full((len(COLUMNS), count.size), np.nan)
    half = critical(spread, c.level)
    share = count / c.n
    p = np.clip(share, 0.0, 1.0)
    tau = spread.sd / c.n
    # the law of the error of a share is that of noise and sampling together
    if spread.scale > 0:
        grid = np.linspace(0.0, 1.0, 33)
        ratio = [
            critical(spread, c.level, c.n * g * (1 - g))
            / math.sqrt(max(spread.variance + c.n * g * (1 - g), 1e-300))
            for g in grid.tolist()
        ]
        z = np.interp(p, grid, ratio)
    else:
        z = np.full(p.shape, c.z)
    low, high = share_interval(share, c.n, tau, z)
    out[0], out[1], out[2] = count, 0.0, spread.sd
    out[3], out[4] = count - half, count + half
    out[5], out[6], out[7], out[8] = share, np.sqrt(p * (1 - p) / c.n + tau**2), low, high
    return out, count


def _block_of(c: _Context, section: Section) -> int:
    """Return the block whose sums hold those of a section: the least that contains the group."""
    fit = [
        b
        for b, block in enumerate(c.layout.blocks)
        if block.number == section.number and set(section.axes) <= set(block.group)
    ]
    return min(fit, key=lambda b: c.layout.cells(c.layout.blocks[b].group))


def _means(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return n, mean and sd of every group."""
    b = _block_of(c, section)
    block, inner = c.layout.blocks[b], c.noise.inner[b]
    gone = tuple(i for i, j in enumerate(block.group) if j not in section.axes)
    shape = [c.layout.axes[j].size for j in block.group]
    merged = math.prod(shape[i] for i in gone)
    there = tuple(slice(0, -1) for _ in section.axes)

    def margin(values: Array) -> Array:
        return np.asarray(values.reshape(shape).sum(axis=gone)[there]).ravel()

    total, square = c.sums[b]
    T = margin(total)
    valid = c.layout.valid_axis(section.number)
    axes = tuple(sorted({*section.axes, valid}))
    N = np.moveaxis(c.effects.table(axes), axes.index(valid), -1)[..., 0][there].ravel()
    spread = c.effects.spread(axes)
    tau_n, tau_t = spread.sd, c.noise.sd(b, inner.total) * math.sqrt(merged)
    h, middle = float(c.half[section.number]), float(c.centre[section.number])
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    large = _SMALL * tau_n <= N
    if square is not None:
        tau_q = c.noise.sd(b, inner.square) * math.sqrt(merged)
        v = margin(square) / safe - m * m
        floor = np.minimum(tau_q / safe, 1.0)
        spread_v = np.clip(v, floor, 1.0)
    else:
        tau_q, v, spread_v = math.nan, np.full(m.shape, np.nan), np.full(m.shape, np.nan)
    sampling = np.sqrt(spread_v / safe)
    privacy = np.sqrt(tau_t**2 + m * m * tau_n**2) / safe
    z = c.z
    low, high = m - z * np.hypot(sampling, privacy), m + z * np.hypot(sampling, privacy)
    odd_low, odd_high = fieller(
        T, N, np.stack([tau_t**2 + safe * spread_v, np.full(m.shape, tau_n**2)]), z
    )
    low, high = np.where(large, low, odd_low), np.where(large, high, odd_high)
    rows = 3 if c.layout.squares else 2
    out = np.full((len(COLUMNS), rows, m.size), np.nan)
    half = critical(spread, c.level)
    out[:5, 0] = N, np.zeros(m.size), np.full(m.size, tau_n), N - half, N + half
    blank = np.where(large, 1.0, np.nan)
    out[:5, 1] = (
        (middle + h * m) * blank, h * sampling * blank, h * privacy * blank,
        np.maximum(middle + h * low, middle - h), np.minimum(middle + h * high, middle + h),
    )  # fmt: skip
    if rows == 3:
        out[:5, 2] = _sd(np.where(large, v, np.nan), safe, (tau_t, tau_n, tau_q), m, z) * h
    return out.transpose(0, 2, 1).reshape(len(COLUMNS), -1), np.repeat(N, rows)


def _sd(v: Array, n: Array, taus: tuple[float, float, float], m: Array, z: float) -> Array:
    """Return (sd, sampling se, privacy se, low, high) in half-ranges; (5, groups).

    ``v = Q/N - (T/N)^2`` has noise variance
    ``[tau_Q^2 + (2 m tau_T)^2 + (v - m^2)^2 tau_N^2]/N^2``.
    NaN where v is not above twice its noise.
    """
    tau_t, tau_n, tau_q = taus
    noise = np.sqrt(tau_q**2 + (2 * m * tau_t) ** 2 + (v - m * m) ** 2 * tau_n**2) / n
    with np.errstate(all="ignore"):
        sd = np.sqrt(np.where(v > 2.0 * noise, v, np.nan))
        sampling, privacy = sd / np.sqrt(2.0 * n), noise / (2.0 * sd)
    half = z * np.hypot(sampling, privacy)
    return np.stack([sd, sampling, privacy, np.maximum(sd - half, 0.0), sd + half])


def _quantiles(
    c: _Context, section: Section, released: Mapping[str, Array], grid: Array
) -> tuple[Array, Array]:
    """Return the quantiles of every group: points of the grid."""
    by = " by " + " x ".join(c.layout.axes[j].name for j in section.axes) if section.axes else ""
    shape = [c.layout.axes[j].size for j in section.axes]
    there = tuple(slice(0, -1) for _ in section.axes)
    chosen = [
        released[f"{q:g} quantile of {section.variable}{by}"].reshape(shape)[there].ravel()
        for q in c.layout.quantiles
    ]
    places = np.sort(np.stack(chosen, axis=-1), axis=-1).astype(np.intp)  # quantiles do not cross
    out = np.full((len(COLUMNS), places.size), np.nan)
    out[0] = grid[places].ravel()
    count = c.effects.table(section.axes)[there] if section.axes else np.array([float(c.n)])
    return out, np.repeat(count.ravel(), len(chosen))
