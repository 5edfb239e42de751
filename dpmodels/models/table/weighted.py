"""Backend of ``dp_table(weights=)``: weighted totals, shares and means by group, as ``svyby``.

A row adds ``u = min(w, T)/T`` of its mass as in an unweighted table, and 1 - u into a cell
"(unused)" behind every table: not negative, adding up to 1, so the sensitivity of a table holds
verbatim. A second vector of tables, of masses u^2, says the errors of rows, and a pass by cluster
what PSUs make of them (``theory.md``, 4).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.inference import critical_value
from dpmodels.arrays import Array
from dpmodels.core.clusters import Scorer
from dpmodels.core.release import answered, run
from dpmodels.core.rows import Rows, clip, stack, where
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.table.layout import (
    COUNT,
    SQUARE,
    TOTAL,
    Layout,
    Section,
    codes_of,
    table_method,
    table_release,
)
from dpmodels.models.table.noise import Effects, Spread, TableNoise, critical
from dpmodels.models.table.table import (
    COLUMNS,
    cells_of_groups,
    layout_for,
    look_before,
    table_windows,
)
from dpmodels.models.table.table import TABLE_BACKEND as TABLE
from dpmodels.models.weights import (
    HISTOGRAM_SHARE,
    DesignErrors,
    Trim,
    design_note,
    refuse_kept_rows,
    row_mass,
    scale_for,
    trim_of,
    unweighted,
)
from dpmodels.models.window import LOOK_FIRST, LOOK_OPTION, Windows
from dpmodels.notes import Note
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import BOUNDS_SHARE, Backend, Ending, Option, register_method
from dpmodels.scoring.cluster_plan import ClusterPlan, Paid, clip_of
from dpmodels.scoring.clusters import release_clusters
from dpmodels.scoring.rules import MIN_DESIGN_EFFECT, WEIGHT_STEP
from dpmodels.sums.ask import Ask

# -- A table by design: its cells and means, linearised, as coordinates of one pass by cluster.
#
# ``z = u (1_c - p_c)`` of a share, ``u 1_g (t - m_g)`` of a mean, p and m released; ``u`` itself of
# a total, where units are compared in pairs. Shares of margins are sums of those of cells, so the
# largest tables alone are coordinates (``theory.md``, 4.7).


#: More coordinates than this have more noise than errors.
MOST_COORDINATES = 60
#: Least sd of a numeric variable in a group, in half ranges, that is believed.
_SPREAD = 0.02
#: Length of a row in standard deviations of its group that still fits, beside heavy weights.
_LONG = 1.2


@dataclass(frozen=True)
class CellCoordinates:
    """Coordinates that a table adds to a pass: the cells of its sections. Public."""

    layout: Layout
    sections: tuple[Section, ...]  # Counts that are not margins of others, and all means
    weight: bool = False  # The last coordinate is u

    def cells(self, section: Section) -> int:
        """Return the coordinates of a section: all cells but the last, or groups."""
        axes = [self.layout.axes[j].size for j in section.axes]
        if section.kind == "counts":
            return int(np.prod(axes)) - 1
        return int(np.prod([k - 1 for k in axes]))

    @property
    def size(self) -> int:
        """Coordinates."""
        return sum(map(self.cells, self.sections)) + self.weight

    @property
    def kinds(self) -> Array:
        """Kind of each coordinate, (d,): -1 for a share, else the index of its section."""
        out = np.full(self.size, -2.0)
        for k, (section, at) in enumerate(self.places()):
            out[at] = -1.0 if section.kind == "counts" else float(k)
        return out

    def places(self) -> Iterable[tuple[Section, slice]]:
        """Yield sections with the coordinates that are theirs."""
        at = 0
        for section in self.sections:
            end = at + self.cells(section)
            yield section, slice(at, end)
            at = end

    def functions(self, section: Section) -> tuple[Array, npt.NDArray[np.intp]]:
        """Return (functions of z that a section shows, which of its items they are), (k, d), (k,).

        The cells whose last level of every axis is "(missing)" have none: they are
        what the others leave.
        """
        for released, at in self.places():
            if released == section and section.kind == "means":
                L = np.zeros((self.cells(section), self.size))
                L[:, at] = np.eye(len(L))
                return L, np.arange(len(L))
            if section.kind == released.kind == "counts" and set(section.axes) <= set(
                released.axes
            ):
                shape = [self.layout.axes[j].size for j in released.axes]
                keep = [released.axes.index(j) for j in section.axes]
                cell = np.array(np.unravel_index(np.arange(self.cells(released)), shape))[keep]
                sizes = [shape[i] for i in keep]
                to = np.ravel_multi_index(tuple(cell), sizes)
                # the last one holds the last cell, which has no coordinate
                k = int(np.prod(sizes)) - 1
                L = np.zeros((k, self.size))
                inside = to < k
                L[to[inside], at.start + np.flatnonzero(inside)] = 1.0
                return L, np.arange(k)
        return np.zeros((0, self.size)), np.zeros(0, dtype=np.intp)


def coordinates_of(layout: Layout, *, weight: bool) -> CellCoordinates:
    """Return the coordinates that a layout adds, or refuse."""
    counts = [s for s in layout.sections if s.kind == "counts"]
    largest = [s for s in counts if not any(set(s.axes) < set(o.axes) for o in counts)]
    means = [s for s in layout.sections if s.kind == "means"]
    coordinates = CellCoordinates(layout, (*largest, *means), weight and bool(largest))
    if coordinates.size > MOST_COORDINATES:
        raise RequestError(
            f"errors by PSU of {coordinates.size} cells and means at once: their noise would be "
            f"all there is. Take at most {MOST_COORDINATES}: merge levels, or make several tables"
        )
    return coordinates


@dataclass(frozen=True, eq=False)
class CellScores:
    """The coordinates of rows: public and released numbers alone."""

    coordinates: CellCoordinates
    # middle, scale: (d,) arrays; p of cells and m of groups; factors.
    middle: Array
    scale: Array
    # centre, half: (q,) arrays, centres and half ranges of the numeric variables.
    centre: Array
    half: Array
    top: float  # T, where weights are cut
    place: int | None  # Row of the block that holds them

    def __call__(self, z: Rows) -> Rows:
        """Return the coordinates of a row."""
        layout = self.coordinates.layout
        u = row_mass(z, self.place, self.top)
        numbers = {a.column for a in layout.axes if a.kind != "level"}
        unit: dict[int, Any] = {
            j: clip((z[j] - self.centre[j]) / self.half[j], -1.0, 1.0) for j in numbers
        }
        codes = codes_of(layout, z, unit)
        parts: list[Any] = []
        for section, at in self.coordinates.places():
            means = section.kind == "means"
            cell, present = np.zeros_like(u), u >= 0.0
            for j in section.axes:
                levels, code = layout.axes[j].size - means, codes[j]
                present = present & (code < levels)
                cell = cell * levels + np.minimum(code, levels - 1)
            mine = (cell == np.arange(at.stop - at.start)) & present
            if means:
                t = unit[section.number]
                parts.append(where(mine & ~np.isnan(t), t - self.middle[at], 0.0))
            else:
                parts.append(mine - self.middle[at])
        if self.coordinates.weight:
            parts.append(np.ones_like(u))
        return stack(*parts) * u * self.scale


def scales(
    coordinates: CellCoordinates, shares: dict[Section, Array],
    means: dict[Section, tuple[Array, Array, Array]], square: float, clip: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return (middles, factors, typical variance a row) of coordinates, by released numbers.

    ``means`` are shares, means and variances of groups, in half ranges; ``square`` the mean of u^2.
    """
    middle, variance, reach = (np.ones(coordinates.size) for _ in range(3))
    part = np.full(coordinates.size, clip)
    for section, at in coordinates.places():
        d = at.stop - at.start
        part[at] = clip * np.sqrt(d / coordinates.size)
        if section.kind == "counts":
            p = np.clip(shares[section][:d], 0.0, 1.0)
            middle[at], variance[at] = p, p * (1.0 - p)
        else:
            share, m, v = means[section]
            v = np.maximum(v, _SPREAD**2)
            middle[at], variance[at] = m, np.clip(share, 0.0, 1.0) * v
            reach[at] = _LONG * np.sqrt(v)
    if coordinates.weight:
        middle[-1], part[-1] = 0.0, clip
    factor = scale_for(variance, reach, square, part)
    typical = factor**2 * variance * square
    if coordinates.weight:  # a sum of weights is not a share: PSUs of one size have the same
        typical[-1] = 0.0
    return middle, factor, typical


# -- From released masses and squares to what a weighted table shows. Post-processing.
#
# Shares are ratios of released sums; their errors are of rows by the squares, times the design
# effect of the PSUs (``theory.md``, 4.3, 4.4 and 4.7).


#: Distance beyond its own difference by which a share may be moved, over the trimmed part.
MOVED, ALLOWED = 1.5, 0.75
#: Below this many sds of its noise a sum of squares does not show heavy rows, and a group has no
#: mean.
CLEAR, SMALL = 4.0, 3.0


@dataclass(frozen=True)
class Context:
    """Everything released and public that the sections are made of."""

    layout: Layout
    mass: Effects
    squares: Effects
    trim: Trim
    windows: Windows
    n: int
    counted: float  # Units that count: all, or the released number of those in ``subset=``
    level: float
    unit: float  # Value of a sum of u of 1
    population: float | None  # Value of all units together, or None if it is not public
    coordinates: CellCoordinates | None = None
    errors: DesignErrors | None = None

    def of_design(self, section: Section, rows: Array) -> tuple[Array, Array]:
        """Return (design effects by PSU, factors for degrees of freedom); 1 where rows are alone.

        ``rows`` (k,): of each item of the section, the sum of squares of its z over rows.
        """
        effect, factor = np.ones(len(rows)), np.ones(len(rows))
        if self.errors is not None and self.coordinates is not None:
            effect[:] = self.errors.average[0] if self.errors.determined else np.nan
            L, which = self.coordinates.functions(section)
            effect[which], factor[which] = self.errors.effects(L, rows[which])
        return effect, factor

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
    variance, with_total = c.mass.variance(section.axes), c.mass.covariance(section.axes, ())
    of_total = c.mass.variance(())
    share = M / U
    p = np.clip(share, 0.0, 1.0)
    privacy = np.sqrt(np.maximum(variance - 2.0 * p * with_total + p * p * of_total, 0.0)) / U
    least = p * (1.0 - p) / c.counted  # no weights make fewer rows tell more
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
    total = c.population or U * c.unit
    noisy = 0.0 if c.population else of_total / U**2  # of the total itself
    out = np.full((len(COLUMNS) + 1, M.size), np.nan)
    out[0] = corrected * total
    out[1] = total * (sampling if c.population else _of_totals(c, section, sampling, p, S))
    out[2] = total * np.sqrt(privacy**2 + corrected**2 * noisy)
    wide = total * c.widened(bias, np.hypot(out[1], out[2]) / total) * free
    out[3], out[4] = out[0] - wide, out[0] + wide
    out[5], out[6], out[7], out[8] = corrected, se, middle - half, middle + half
    with np.errstate(all="ignore"):
        plain = p * (1.0 - p) / c.counted
        out[-1] = np.where(plain * c.counted > 3.0 * privacy, sampling**2 / plain, np.nan)
    return out, M * c.trim.top / max(c.trim.mean, 1e-300)


def _of_totals(c: Context, section: Section, sampling: Array, p: Array, S: Array) -> Array:
    """Return sampling errors of totals over the sum of weights, which is not known."""
    U = c.used
    if c.errors is None:
        spread = max(c.heavy / U**2 - 1.0 / c.n, 0.0)
        return np.asarray(np.sqrt(sampling**2 + p**2 * spread))
    if c.coordinates is None or not c.coordinates.weight:
        return np.full(len(p), np.nan)
    L, which = c.coordinates.functions(section)
    L[:, -1] = p[which]  # sum u 1_c is the sum of z, and p times the sum of u
    rows = np.maximum.reduce([S - p * p * U * U / c.n, S * 0.05, 0.0 * S])[which]  # S is released
    effect, _ = c.errors.effects(L, np.maximum(rows, 1e-300))
    out = np.hypot(sampling, p * math.sqrt(max(c.heavy / U**2 - 1.0 / c.n, 0.0)))
    out[which] = np.sqrt(effect * rows) / U
    return np.asarray(out)


@dataclass(frozen=True)
class Groups:
    """Released sums of masses, and of squared masses, of a numeric variable in groups."""

    # K, KS: noise covariance of the four cells of a group, of masses and of squared ones.
    K: Array
    KS: Array
    N: Array
    m: Array
    v: Array
    squared: tuple[Array, Array, Array]
    missing: Array  # Sum of masses without a value


def sums(c: Context, section: Section) -> Groups:
    """Return the sums of a section of means, its means and variances in half ranges."""
    (M, K), (S, KS) = (cells_of_groups(c.layout, e, section) for e in (c.mass, c.squares))
    N, T, Q = (M @ w for w in (COUNT, TOTAL, SQUARE))
    N2, T2, Q2 = (S @ w for w in (COUNT, TOTAL, SQUARE))
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    v = np.clip(Q / safe - m * m, 0.0, 1.0)
    return Groups(K, KS, N, m, v, (N2, T2, Q2), M[:, -1])


def means(c: Context, section: Section) -> tuple[Array, Array]:
    """Return the total, weighted mean and sd of every group."""
    group_sums = sums(c, section)
    K, KS = group_sums.K, group_sums.KS
    N, m, v, (N2, T2, Q2) = group_sums.N, group_sums.m, group_sums.v, group_sums.squared
    safe = np.maximum(N, 1.0)
    slope = TOTAL - m[:, None] * COUNT
    privacy = np.sqrt(np.einsum("gi,ij,gj->g", slope, K, slope)) / safe
    kish = c.heavy * c.counted / c.used**2
    least = v / np.maximum(safe * c.counted / c.used, 1.0)
    sampling = np.sqrt(np.maximum((Q2 - 2.0 * m * T2 + m * m * N2) / safe**2, least))
    sampling = np.minimum(sampling, np.sqrt(25.0 * kish * np.maximum(least, 1e-300)))
    design, free = c.of_design(section, (sampling * safe) ** 2)
    sampling = sampling * np.sqrt(design)
    tau_n = math.sqrt(float(COUNT @ K @ COUNT))
    noise_2 = math.sqrt(float(COUNT @ KS @ COUNT))
    d = np.where(CLEAR * noise_2 < N2, T2 / np.maximum(N2, 1e-300) - m, 0.0)
    error = np.where(CLEAR * noise_2 < N2, noise_2 / np.maximum(N2, 1e-300), 0.0)
    corrected = np.clip(m + MOVED * c.trim.lost * d, -1.0, 1.0)
    beyond, _ = c.windows.beyond(section.number, safe, np.maximum(v + m * m, least))
    bias = ALLOWED * c.trim.lost * (np.abs(d) + error) + beyond
    se = np.hypot(sampling, privacy)
    half = c.widened(bias, se) * free
    h, middle = float(c.windows.half[section.number]), float(c.windows.centre[section.number])
    scale = c.unit if c.population is None else c.population / c.used
    out = np.full((len(COLUMNS) + 1, 3, m.size), np.nan)
    wide = critical(Spread(tau_n**2), c.level)
    out[:5, 0] = (
        N * scale, np.zeros(m.size), np.full(m.size, tau_n * scale), (N - wide) * scale,
        (N + wide) * scale,
    )  # fmt: skip
    out[9, 0], out[10, 0] = group_sums.missing * scale, math.sqrt(float(K[-1, -1])) * scale
    blank = np.where(SMALL * tau_n <= N, 1.0, np.nan)
    low, high = np.clip(corrected - half, -1.0, 1.0), np.clip(corrected + half, -1.0, 1.0)
    out[:5, 1] = (
        (middle + h * corrected) * blank, h * sampling * blank, h * privacy * blank,
        middle + h * np.where(blank == 1.0, low, -1.0),
        middle + h * np.where(blank == 1.0, high, 1.0),
    )  # fmt: skip
    out[-1, 1] = np.where(blank == 1.0, sampling**2 / np.maximum(least, 1e-300), np.nan)
    out[0, 2] = h * np.sqrt(v) * blank
    size = np.repeat(N * c.trim.top / max(c.trim.mean, 1e-300), 3)
    return out.transpose(0, 2, 1).reshape(len(COLUMNS) + 1, -1), size


# -- Backend of ``dp_table(weights=)``: weighted totals, shares and means by group, as ``svyby``.


#: Share of the remaining budget for the tables of squares.
SQUARES = 0.15


@dataclass(frozen=True)
class WeightedTable:
    """Public facts of a weighted table.

    ``squares`` is None where there are no weights, ``clusters`` where rows are drawn one by one,
    ``coordinates`` what its pass adds.
    """

    layout: Layout
    noise: TableNoise
    squares: TableNoise | None
    population: float | None
    clusters: ClusterPlan | None = None
    coordinates: CellCoordinates | None = None
    subset: bool = False
    look: Sequence[Step] = ()

    def total(self, n: int) -> float | None:
        """Return the total that all units stand for, or None where it is released."""
        if self.subset:
            return None
        return self.population or (float(n) if self.squares is None else None)


@dataclass(frozen=True)
class WeightedTableReleased:
    """Windows of columns, the released clip of weights, and errors from PSUs."""

    windows: Windows
    trim: Trim
    errors: DesignErrors | None = None


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan weighted tables. Reads no row."""
    refuse_kept_rows(request)
    layout = layout_for(request, design)
    if layout.quantiles:
        raise RequestError("quantiles= of a table cannot use weights=: leave one of the two out")
    if request.delta == 0 or request["noise"] not in ("auto", "gaussian"):
        raise RequestError("a weighted table has Gaussian noise: give delta > 0, leave noise= out")
    survey = None if request.sample is None else request.sample.frame.survey
    weighted = design.auxiliary_place("weights") is not None
    coordinates = None
    if request.sample is not None and request.sample.needed:
        coordinates = coordinates_of(layout, weight=False)
    part = gaussian_part(request, design.unknown)
    size = 0 if coordinates is None else coordinates.size
    paid = Paid.of(request, part, n, size, averaged=True)
    clusters, remainder = paid.clusters, paid.rest
    unknown = survey is not None and survey.population is None
    paired = clusters is not None and clusters.frame.pairs
    if coordinates is not None and paired and (design.subset or (weighted and unknown)):
        weight = bool(coordinates.sections[0].kind == "counts")
        coordinates = replace(coordinates, weight=weight)
        paid = replace(paid, size=coordinates.size)
    weigh, square = HISTOGRAM_SHARE * weighted, SQUARES * weighted
    budgets = {
        "weights": weigh * remainder, "table": (1.0 - weigh) * (1.0 - square) * remainder,
        "squares": (1.0 - weigh) * square * remainder,
    }  # fmt: skip
    budgets = {name: share for name, share in budgets.items() if share}
    mu = {name: paid.mu(share) for name, share in budgets.items()}
    equal = (1.0 / len(layout.blocks),) * len(layout.blocks)
    law = TableNoise("gaussian", mu["table"], equal)
    look, law, budgets["table"] = look_before(request, design, layout, law, n, budgets["table"])
    mu["table"] = law.budget
    detail = WeightedTable(
        layout, law,
        TableNoise("gaussian", mu["squares"], equal) if weighted else None,
        None if survey is None else survey.population, clusters, coordinates,
        design.subset is not None, look,
    )  # fmt: skip
    steps = [Step(name, Gaussian(mu[name]), share=share) for name, share in budgets.items()]
    assert WEIGHT_STEP == "weights"
    return paid.plan(
        design, n, [*steps, *look], detail=detail, passes=1 + 2 * weighted + len(look),
        reasons=(*request.reasons, *(LOOK_FIRST,) * bool(look)),
    )  # fmt: skip


@with_ranges
def release(plan: Plan[WeightedTable], ask: Ask, design: Design) -> Release:
    """Release the clip of weights, the tables of u and those of u^2.

    **Privacy.** Unit: one row, or one person; one unit is replaced, the number of units is public.
    A row is one unit of mass in every table, a person the mean of its rows.
    """
    detail, n = plan.detail, plan.public_n
    cells = max(detail.layout.cells(block.axes) for block in detail.layout.blocks)
    strength = detail.noise.budget * n / cells
    trim = trim_of(ask, design, strength, detail.population, n, people=plan.request.by_person)
    windows = table_windows(detail.look, detail.layout, detail.noise, design, n, ask, trim.part)
    windows, values = windows.times(trim.of_tails), {}
    each = (("table", False, detail.noise), ("squares", True, detail.squares))
    for name, squared, noise in each:
        if noise is not None:
            u = functools.partial(row_mass, place=design.mass_place, top=trim.top, squared=squared)
            scale = windows.centre, windows.half
            tables = table_release(name, detail.layout, noise.shares, design, u, scale=scale)
            values[name] = answered(tables, ask).values
    released = WeightedTableReleased(windows, trim)
    if detail.clusters is not None:
        errors = _ask_by_psu(plan, ask, design, released, values)
        values["cluster scores"] = errors.found.products[0]
        released = replace(released, errors=errors)
    return Release(values, plan.guarantee, design, detail=released)


def _ask_by_psu(
    plan: Plan[WeightedTable], ask: Ask, design: Design, table_released: WeightedTableReleased,
    values: dict[str, Array],
) -> DesignErrors:  # fmt: skip
    """Release the products of cells and means by PSU, at the released shares and means."""
    detail, n, coordinates = plan.detail, plan.public_n, plan.detail.coordinates
    assert detail.clusters is not None and coordinates is not None
    c = _context(plan, table_released, values)
    shares, means = {}, {}
    for section in coordinates.sections:
        if section.kind == "counts":
            shares[section] = c.mass.table(section.axes).ravel() / c.used
        else:
            group_sums = sums(c, section)
            means[section] = group_sums.N / c.used, group_sums.m, group_sums.v
    clusters, square = detail.clusters, min(c.heavy / n, 1.0)
    clip = clip_of(coordinates.size, clusters.n, clusters.each)
    middle, scale, typical = scales(coordinates, shares, means, square, clip)
    score = CellScores(
        coordinates, middle, scale, c.windows.centre, c.windows.half, c.trim.top,
        design.mass_place,
    )  # fmt: skip
    scorers = (Scorer(score, coordinates.size),)
    released = run(release_clusters(clusters, scorers, design), ask)
    rates = detail.clusters.frame.factors()
    return DesignErrors(
        released, scale, typical, n, plan.request.level, coordinates.kinds,
        MIN_DESIGN_EFFECT * float(np.min(rates)) ** 2,
    )  # fmt: skip


def _context(
    plan: Plan[WeightedTable], part: WeightedTableReleased, values: Mapping[str, Array]
) -> Context:
    """Return the released effects from which sections are made. Without weights u^2 is u."""
    detail, layout, n = plan.detail, plan.detail.layout, plan.public_n
    mass = squares = detail.noise.measured(layout, values["table"], float(n))
    if detail.squares is not None:
        squares = detail.squares.measured(layout, values["squares"], float(n))
    used, unit = part.trim.used, part.trim.top / (1.0 - part.trim.lost)
    if detail.squares is None:
        unit = (detail.population or float(n)) / n
        used = max(float(mass.effect(())), 1.0)
    return Context(
        layout, mass, squares, part.trim, part.windows, n, used, plan.request.level, unit,
        detail.total(n), detail.coordinates, part.errors,
    )  # fmt: skip


def estimate(plan: Plan[WeightedTable], release: Release) -> Estimate:
    """Return weighted totals, shares, means and sds, with intervals."""
    detail = plan.detail
    layout = detail.layout
    names = tuple(item.name for s in layout.sections for item in layout.items(s))
    if not release.reply:
        return Estimate.silent(names)
    part = release.detail
    c = _context(plan, part, release.values)
    if float(c.mass.effect(())) < SMALL * math.sqrt(c.mass.variance(())):
        return Estimate.silent(names, messages.NO_WEIGHT())
    parts = []
    for section in layout.sections:
        numbers, size = counts(c, section) if section.kind == "counts" else means(c, section)
        if plan.request["suppress"] is not None:
            numbers[:, size < plan.request["suppress"]] = np.nan
        parts.append(numbers)
    all_numbers = np.concatenate(parts, axis=1)
    arrays = dict(zip((*COLUMNS, "deff"), all_numbers, strict=True))
    kish = c.heavy * c.counted / c.used**2
    return Estimate(
        names, arrays["estimate"], arrays=arrays,
        notes=(
            *([messages.WEIGHTED_PEOPLE()] if plan.request.by_person else []),
            *(() if detail.squares is None else _notes(c, kish)),
            *c.windows.note(release.design, plan.request.delta), *_of_psus(c, detail),
        ),
        stats={
            **({} if detail.squares is None else {
                "kish": kish, "sum_of_weights": c.used * c.unit
            }),
            **({} if c.errors is None else {"deff_clusters": c.errors.average[0]}),
        },
    )  # fmt: skip


def _of_psus(c: Context, detail: WeightedTable) -> tuple[Note, ...]:
    """Return notes on design-based errors."""
    if c.errors is None or detail.clusters is None or detail.coordinates is None:
        return ()
    notes = [design_note(detail.clusters, c.errors.found)]
    if not c.errors.determined:
        remedy = (
            "Use fewer cells, more rows or a larger eps; weights= alone ignores the PSUs, and its "
            "errors are too small"
        )
        return (*notes, messages.NO_DESIGN_VARIANCE(what="standard errors", remedy=remedy))
    notes.append(
        messages.CLUSTER_EFFECTS(
            effects=f"{c.errors.average[0]:.2f} for all cells together",
            more="Column deff has that of each cell, weights included.",
        )
    )
    notes.append(messages.CLUSTER_ERRORS())
    if c.population is None and not detail.coordinates.weight:
        notes.append(messages.NO_TOTAL_ERRORS())
    return tuple(notes)


def _notes(c: Context, kish: float) -> tuple[Note, ...]:
    """Return notes on the weights and on the errors."""
    return (
        messages.WEIGHTED_TABLE(
            what="the declared population" if c.population else "sums of weights",
            units="PSUs drawn" if c.errors else "rows drawn one by one",
        ),
        messages.TRIMMED_WEIGHTS(
            top=c.trim.top,
            lost=100.0 * c.trim.lost,
            more="The share is from the released histogram. Shares are corrected for it, by a "
            "rule, and intervals allow for an error of that.",
        ),
        messages.WEIGHTS_DELIVERED(
            more=f"Design effect of unequal weights (Kish, released): {kish:.2f}."
        ),
    )


WEIGHTED_BACKEND = Backend(
    plan, release, estimate, title="Weighted counts and sums, two joint releases", people=True
)
register_method(
    table_method(
        name="joint",
        verb="dp_table",
        title="Exact counts and sums, one joint release",
        backend=TABLE,
        endings=(Ending(WEIGHTED_BACKEND, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        privacy_se="public",
        foretells=True,
        reference="Hay, Rastogi, Miklau and Suciu (2010), consistency; Dwork et al. (2006)",
        options=(
            Option(
                "noise",
                "'auto': the narrower at the guarantee of the call, which the plan says",
                "auto",
                str,
                choices=("auto", "gaussian", "laplace", "geometric"),
            ),
            Option("quantiles", "quantiles of numbers, by group: [0.25, 0.5, 0.75]", None, object),
            Option(
                "medians",
                'numbers shown by median [quartiles], which use half of eps: ["bmi"]',
                None,
                object,
            ),
            Option(
                "errors", "print the noise sd of each number of a table 1; None: yes", None, bool
            ),
            Option("smd", "print standardised mean differences of groups", False, bool),
            Option("p_values", "print P of equal groups", False, bool),
            Option("histogram", "equal bins of every number", None, int, lower=1, upper=10_001),
            Option(
                "suppress", "blank what rests on a smaller released count", None, float, lower=0.0
            ),
            BOUNDS_SHARE,
            LOOK_OPTION,
        ),
    )
)
