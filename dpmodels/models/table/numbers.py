"""From noisy counts and sums to what a table shows. Post-processing (``theory.md``, 1.3 to 1.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.table.effects import Effects, Spread, critical, fieller, share_interval
from dpmodels.models.table.layout import Layout, Section
from dpmodels.models.table.noise import TableNoise
from dpmodels.models.table.sums import COUNT, SQUARE, TOTAL

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
    effects: Effects
    centre: Array
    half: Array
    n: int
    level: float
    alike: int = 1

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
    people: bool = False,
    alike: int = 1,
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
    people : bool
        A person lays the mean of its rows.
    alike : int
        So many rows may go together in any way: sampling variances are so many times as large.
    """
    effects = noise.measured(layout, released["table"], float(n))
    context = _Context(layout, effects, *scale, n, level, alike)
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
    return Numbers(dict(zip(COLUMNS, whole, strict=True)), _notes(layout, suppress, people))


def _notes(layout: Layout, suppress: float | None, people: bool) -> tuple[str, ...]:
    kinds = {s.kind for s in layout.sections}
    notes = [
        "Counts are those of this table: their intervals contain the noise and nothing else. "
        "Shares and means are of the population: their intervals contain sampling error too.",
        "Counts are consistent (margins are sums of cells, the total is n), so they are no "
        "integers and may be negative.",
    ]
    if people:
        notes.append(
            "Each person counts once, in every cell by the share of own rows there: counts are of "
            "people, means weigh people alike. Sampling errors hold however rows of one person "
            "depend on each other (too large where they differ much)."
        )
    if "means" in kinds:
        notes.append(
            "Intervals of means are sets (Fieller) and right whatever the count of the group is "
            f"over its noise: groups whose count is below {_SMALL:g} standard deviations of it "
            "have no mean, only the interval. Errors of standard deviations hold whatever the "
            "values are within their range, so they are wide where it is; an sd is shown only "
            "where noise lets it be seen, so small groups that show "
            "one tend to too large ones."
        )
    if "quantiles" in kinds:
        notes.append("Quantiles by the exponential mechanism; dp_quantile gives intervals.")
    if suppress is not None:
        notes.append(f"Suppressed: what rests on a released count below {suppress:g}.")
    return tuple(notes)


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
            critical(spread, c.level, c.alike * c.n * g * (1 - g))
            / math.sqrt(max(spread.variance + c.alike * c.n * g * (1 - g), 1e-300))
            for g in grid.tolist()
        ]
        z = np.interp(p, grid, ratio)
    else:
        z = np.full(p.shape, c.z)
    low, high = share_interval(share, c.n / c.alike, tau, z)
    out[0], out[1], out[2] = count, 0.0, spread.sd
    out[3], out[4] = count - half, count + half
    out[5], out[6], out[7], out[8] = share, np.sqrt(c.alike * p * (1 - p) / c.n + tau**2), low, high
    return out, count


def _means(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return n, mean and sd of every group, from the cells (low, middle, high) of its number."""
    axis = c.layout.number_axis(section.number)
    axes = tuple(sorted((*section.axes, axis)))
    K = c.effects.along(axes, axis)
    cells = np.moveaxis(c.effects.table(axes), axes.index(axis), -1)
    cells = cells[tuple(slice(0, -1) for _ in section.axes)].reshape(-1, 4)
    N, T, Q = (cells @ w for w in (COUNT, TOTAL, SQUARE))
    tau_n, tau_t = (math.sqrt(float(w @ K @ w)) for w in (COUNT, TOTAL))
    h, middle = float(c.half[section.number]), float(c.centre[section.number])
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    v = Q / safe - m * m
    # dv = (SQUARE - 2 m TOTAL - (v - m^2) COUNT)' d cells / N
    slope = SQUARE - 2.0 * m[:, None] * TOTAL - (v - m * m)[:, None] * COUNT
    noise_v = np.sqrt(np.einsum("gi,ij,gj->g", slope, K, slope)) / safe
    spread_v = np.clip(v, np.minimum(noise_v, 1.0), 1.0)
    large = _SMALL * tau_n <= N
    sampling = np.sqrt(c.alike * spread_v / safe)
    privacy = np.sqrt(tau_t**2 + m * m * tau_n**2) / safe  # T and N are uncorrelated
    z = c.z
    low, high = fieller(
        T, N, np.stack([tau_t**2 + c.alike * safe * spread_v, np.full(m.shape, tau_n**2)]), z
    )
    low, high = np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high)
    out = np.full((len(COLUMNS), 3, m.size), np.nan)
    wide = critical(Spread(tau_n**2), c.level)
    out[:5, 0] = N, np.zeros(m.size), np.full(m.size, tau_n), N - wide, N + wide
    blank = np.where(large, 1.0, np.nan)
    out[:5, 1] = (
        (middle + h * m) * blank, h * sampling * blank, h * privacy * blank,
        middle + h * np.clip(low, -1.0, 1.0), middle + h * np.clip(high, -1.0, 1.0),
    )  # fmt: skip
    out[:5, 2] = _sd(np.where(large, v, np.nan), m, safe / c.alike, noise_v, z) * h
    return out.transpose(0, 2, 1).reshape(len(COLUMNS), -1), np.repeat(N, 3)


def _sd(v: Array, m: Array, n: Array, noise: Array, z: float) -> Array:
    """Return (sd, sampling se, privacy se, low, high) in half-ranges; (5, groups).

    NaN where the variance is not above twice its noise. The fourth moment is that of the values
    in the range with this mean and variance that have the largest, at most ``(1 + |m|)^2 v``.
    """
    with np.errstate(all="ignore"):
        sd = np.sqrt(np.where(v > 2.0 * noise, v, np.nan))
        sampling = np.sqrt(np.maximum((1.0 + np.abs(m)) ** 2 - sd * sd, 0.0) / (4.0 * n))
        privacy = noise / (2.0 * sd)
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
