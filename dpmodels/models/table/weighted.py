"""Backend of ``dp_table(weights=)``: weighted totals, shares and means by group, as ``svyby``.

A row lays ``u = min(w, T)/T`` of its mass as in an unweighted table, and 1 - u into a cell
"(unused)" behind every table: not negative, adding up to 1, so the sensitivity of a table holds
verbatim. A second vector of tables, of masses u^2, says the errors (``theory.md``, 4).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.wald import critical_value
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query, as_is
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.statistics import Cells
from dpmodels.models.table.effects import Effects, Measured, Spread, critical
from dpmodels.models.table.layout import Layout, Section
from dpmodels.models.table.noise import TableNoise
from dpmodels.models.table.numbers import COLUMNS
from dpmodels.models.table.sums import COUNT, SQUARE, TOTAL, codes_of, placed
from dpmodels.models.table.table import half_ranges, layout_for
from dpmodels.models.weighted import SHARE, STEP, Trim, shares_of_weight, trim_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release
from dpmodels.sources.summed import counted

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = ["WeightedTables", "estimate", "plan", "release", "why_not"]

#: Share of what is left for the tables of squares.
SQUARES = 0.15
#: Of the trimmed part of the weight, how far beyond its own difference a share may be moved.
MOVED, ALLOWED = 1.5, 0.75
#: Below so many sds of its noise a sum of squares says nothing of heavy rows, and a group has no
#: mean.
CLEAR, SMALL = 4.0, 3.0


def why_not(request: Request) -> str:
    """Return why a call does not end here, in words; empty if it does."""
    return "" if request.weights is not None else "no weights"


@dataclass(frozen=True)
class WeightedTable:
    """The layout of a call, the noise of its masses and squares, and the public population."""

    layout: Layout
    noise: TableNoise
    squares: TableNoise
    population: float | None


@dataclass(frozen=True)
class WeightedTableReleased:
    """Middles and half-ranges of the columns, and where weights were cut."""

    centre: Array
    half: Array
    trim: Trim


def statistic(layout: Layout, noise: TableNoise) -> Cells:
    """Return the tables of a layout, each with the cell "(unused)" behind it."""
    sizes = tuple(layout.cells(block.axes) + 1 for block in layout.blocks)
    return Cells(sizes, noise.shares)


@dataclass(frozen=True, eq=False)
class WeightedTables:
    """The tables of rows that lay ``u^power`` of their mass."""

    design: Design
    layout: Layout
    centre: Array
    half: Array
    top: float
    power: int = 1

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return the tables, flat. Confidential."""
        place = self.design.place_aside("weights")
        job = functools.partial(
            _of_tables, layout=self.layout, centre=self.centre, half=self.half, top=self.top,
            power=self.power, place=place,
        )  # fmt: skip
        return counted(rows, self.design, job)[0]


def _of_tables(
    blocks: Iterable[Array], layout: Layout, centre: Array, half: Array, top: float, power: int,
    place: int | None,
) -> tuple[npt.NDArray[np.object_]]:  # fmt: skip
    """Return the tables over blocks, for whoever adds up."""
    totals = [np.zeros(layout.cells(b.axes) + 1, dtype=np.int64) for b in layout.blocks]
    numbers = {a.column for a in layout.axes if a.kind != "level"}
    for cells in blocks:
        u = np.ones(cells.shape[1]) if place is None else shares_of_weight(cells[place], top)
        u = u**power
        whole = end_of_numbers(u, low=0.0)
        with np.errstate(all="ignore"):
            unit = {j: np.clip((cells[j] - centre[j]) / half[j], -1.0, 1.0) for j in numbers}
        codes = codes_of(layout, cells, unit)
        for block, total in zip(layout.blocks, totals, strict=True):
            mass = None if block.number < 0 else weighed(unit[block.number], u, whole)
            for where, part in placed(layout, block, codes, mass, whole):
                sums = np.bincount(where, weights=part, minlength=total.size)
                total += sums.astype(np.int64)  # integers of at most 2^20: exact
            total[-1] += int((STEPS - whole).sum())
    return (np.concatenate(totals).astype(object),)


def weighed(t: Array, u: Array, whole: Array) -> Array:
    """Return the masses (4, m) of numbers in [-1, 1] that add up to ``whole``: u in steps."""
    with np.errstate(all="ignore"):
        low, high = (end_of_numbers(u * (0.5 * (1.0 + s * t)) ** 2, low=0.0) for s in (-1.0, 1.0))
    gone = np.isnan(t)
    out = np.stack([low, whole - low - high, high, np.zeros_like(low)])
    out[:, gone] = 0.0
    out[3, gone] = whole[gone]
    return out


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan weighted tables. Reads no row."""
    if request.unit is not None:
        raise RequestError("weights= are of rows: with unit= every person counts once")
    layout = layout_for(request, design)
    if layout.quantiles:
        raise RequestError("quantiles= of a table take no weights=: leave one of the two out")
    if request.delta == 0 or request["noise"] not in ("auto", "gaussian"):
        raise RequestError("a weighted table has Gaussian noise: give delta > 0, leave noise= out")
    if request.sample is not None and request.sample.needed:
        raise RequestError(
            "a table takes dp.Survey(weights=, population=): errors by PSU are those of "
            'dp_mean("{g == \'a\'} ~ 1", design=) and of dp_ols("y ~ 0 + g", design=)'
        )
    part = gaussian_part(request, design.unknown)
    rest = 1.0 - part.share
    budgets = {
        "weights": SHARE * rest, "table": (1.0 - SHARE) * (1.0 - SQUARES) * rest,
        "squares": (1.0 - SHARE) * SQUARES * rest,
    }  # fmt: skip
    mu = {name: part.mu * math.sqrt(share) for name, share in budgets.items()}
    equal = (1.0 / len(layout.blocks),) * len(layout.blocks)
    survey = None if request.sample is None else request.sample.frame.survey
    detail = WeightedTable(
        layout, TableNoise("gaussian", mu["table"], equal),
        TableNoise("gaussian", mu["squares"], equal),
        None if survey is None else survey.population,
    )  # fmt: skip
    steps = [Step(name, Gaussian(mu[name]), share=share) for name, share in budgets.items()]
    assert STEP == "weights"
    return Plan.of(
        request, design, n, [*part.steps, *steps], shares={**part.printed, **budgets},
        purchase=part.purchase, detail=detail, passes=3 + bool(part.purchase),
    )  # fmt: skip


def release(plan: Plan[WeightedTable], ask: Ask) -> Release:
    """Release where weights are cut, the tables of u and those of u^2.

    Privacy
    -------
    Unit: one row; replace-one, n public. A row is one unit of mass in every table.
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail, n = plan.detail, plan.n
    assert n is not None
    cells = max(detail.layout.cells(block.axes) for block in detail.layout.blocks)
    trim = trim_of(ask, design, detail.noise.budget * n / cells, detail.population, n)
    centre, half = half_ranges(design)
    over = WeightedTables(design, detail.layout, centre, half, trim.top)
    values = {}
    for name, power, noise in (("table", 1, detail.noise), ("squares", 2, detail.squares)):
        query = Query(statistic(detail.layout, noise), replace(over, power=power), as_is)
        values[name] = ask(name, query).values
    return Release(
        values, plan.guarantee, design, detail=WeightedTableReleased(centre, half, trim)
    )


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
class _Context:
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


def estimate(plan: Plan[WeightedTable], release: Release) -> Estimate:
    """Return weighted totals, shares, means and sds, with intervals."""
    detail = plan.detail
    layout = detail.layout
    names = tuple(item.name for s in layout.sections for item in layout.items(s))
    if not release.reply:
        return Estimate.silent(names)
    part, n = release.detail, plan.n
    assert n is not None
    c = _Context(
        layout, effects_of(layout, detail.noise, release.values["table"], n),
        effects_of(layout, detail.squares, release.values["squares"], n),
        part.trim, part.centre, part.half, n, plan.request.level, detail.population,
    )  # fmt: skip
    if float(c.mass.effect(())) < SMALL * math.sqrt(c.mass.variance(())):
        return Estimate.silent(
            names, "The sum of the weights is not determined at this budget (all near 0?)."
        )
    parts = []
    for section in layout.sections:
        found, size = _counts(c, section) if section.kind == "counts" else _means(c, section)
        if plan.request["suppress"] is not None:
            found[:, size < plan.request["suppress"]] = np.nan
        parts.append(found)
    whole = np.concatenate(parts, axis=1)
    arrays = dict(zip((*COLUMNS, "deff"), whole, strict=True))
    kish = c.heavy * n / c.used**2
    return Estimate(
        names, arrays["estimate"], arrays=arrays, notes=_notes(c, kish),
        stats={"kish": kish, "sum_of_weights": c.used * c.trim.top / (1.0 - c.trim.lost)},
    )  # fmt: skip


def _notes(c: _Context, kish: float) -> tuple[str, ...]:
    what = "the population that was declared" if c.population else "sums of weights"
    return (
        f"Totals are of {what}; shares and means are weighted (Hajek). Errors by linearisation, of "
        "rows drawn one by one, with replacement; they contain the noise.",
        f"Weights are cut at {c.trim.top:.3g}; about {c.trim.lost:.1%} of all weight is beyond (by "
        "the released histogram). Shares are corrected for it, by a rule, and intervals allow for "
        "an error of that.",
        f"Weights are taken as delivered; how they were computed is outside this guarantee. Design "
        f"effect of unequal weights (Kish, released): {kish:.2f}.",
    )


def _counts(c: _Context, section: Section) -> tuple[Array, Array]:
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
    corrected, bias = share, np.zeros_like(share)
    noise_s = math.sqrt(c.squares.variance(section.axes))
    if float(c.squares.effect(())) > CLEAR * math.sqrt(c.squares.variance(())):
        d = S / S2 - share
        corrected = share + MOVED * c.trim.lost * d
        bias = ALLOWED * c.trim.lost * (np.abs(d) + noise_s / S2)
    se = np.hypot(sampling, privacy)
    half = c.widened(bias, se)
    # Wilson's middle: an interval of a rare cell leans to the inside
    middle = corrected + c.z**2 * (1.0 - 2.0 * p) * sampling**2 / np.maximum(p * (1 - p), 1e-3) / 2
    middle = np.where(p > 0.02, corrected, np.minimum(middle, corrected + half / 2.0))
    whole = c.population or U * c.trim.top / (1.0 - c.trim.lost)
    spread = 0.0 if c.population else of_total / U**2 + max(S2 / U**2 - 1.0 / c.n, 0.0)
    out = np.full((len(COLUMNS) + 1, M.size), np.nan)
    more = np.sqrt(se**2 + corrected**2 * spread)
    out[0] = corrected * whole
    out[1] = whole * np.sqrt(sampling**2 + corrected**2 * max(spread - of_total / U**2, 0.0))
    out[2] = whole * np.sqrt(privacy**2 + corrected**2 * (0.0 if c.population else of_total / U**2))
    wide = whole * c.widened(bias, more)
    out[3], out[4] = out[0] - wide, out[0] + wide
    out[5], out[6], out[7], out[8] = corrected, se, middle - half, middle + half
    with np.errstate(all="ignore"):
        plain = p * (1.0 - p) / c.n
        out[9] = np.where(plain * c.n > 3.0 * privacy, sampling**2 / plain, np.nan)
    return out, M * c.trim.top / max(c.trim.mean, 1e-300)


def _means(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return the total, weighted mean and sd of every group."""
    axis = c.layout.number_axis(section.number)
    axes = tuple(sorted((*section.axes, axis)))
    there = tuple(slice(0, -1) for _ in section.axes)

    def cells(effects: Effects) -> Array:
        found = np.moveaxis(effects.table(axes), axes.index(axis), -1)
        return np.asarray(found[there].reshape(-1, 4))

    M, S = cells(c.mass), cells(c.squares)
    K, KS = c.mass.along(axes, axis), c.squares.along(axes, axis)
    N, T, Q = (M @ w for w in (COUNT, TOTAL, SQUARE))
    N2, T2, Q2 = (S @ w for w in (COUNT, TOTAL, SQUARE))
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    v = np.clip(Q / safe - m * m, 0.0, 1.0)
    slope = TOTAL - m[:, None] * COUNT
    privacy = np.sqrt(np.einsum("gi,ij,gj->g", slope, K, slope)) / safe
    kish = c.heavy * c.n / c.used**2
    least = v / np.maximum(safe * c.n / c.used, 1.0)
    sampling = np.sqrt(np.maximum((Q2 - 2.0 * m * T2 + m * m * N2) / safe**2, least))
    sampling = np.minimum(sampling, np.sqrt(25.0 * kish * np.maximum(least, 1e-300)))
    tau_n = math.sqrt(float(COUNT @ K @ COUNT))
    noise_2 = math.sqrt(float(COUNT @ KS @ COUNT))
    d = np.where(CLEAR * noise_2 < N2, T2 / np.maximum(N2, 1e-300) - m, 0.0)
    error = np.where(CLEAR * noise_2 < N2, noise_2 / np.maximum(N2, 1e-300), 0.0)
    corrected = np.clip(m + MOVED * c.trim.lost * d, -1.0, 1.0)
    bias = ALLOWED * c.trim.lost * (np.abs(d) + error)
    se = np.hypot(sampling, privacy)
    half = c.widened(bias, se)
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
