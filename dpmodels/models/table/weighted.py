"""Backend of ``dp_table(weights=)``: weighted totals, shares and means by group, as ``svyby``.

A row lays ``u = min(w, T)/T`` of its mass as in an unweighted table, and 1 - u into a cell
"(unused)" behind every table: not negative, adding up to 1, so the sensitivity of a table holds
verbatim. A second vector of tables, of masses u^2, says the errors of rows, and a pass by cluster
what PSUs make of them (``theory.md``, 4).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query, as_is
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.statistics import Cells
from dpmodels.models.by_design import DesignErrors, said
from dpmodels.models.table.cells_by_design import CellScores, Laid, laid_of, scales
from dpmodels.models.table.layout import Layout
from dpmodels.models.table.noise import TableNoise
from dpmodels.models.table.numbers import COLUMNS
from dpmodels.models.table.sums import codes_of, placed
from dpmodels.models.table.table import half_ranges, layout_for
from dpmodels.models.table.weighted_numbers import (
    SMALL,
    Context,
    counts,
    effects_of,
    means,
    sums,
)
from dpmodels.models.weighted import SHARE, STEP, Trim, shares_of_weight, trim_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release
from dpmodels.scoring.cluster_rules import ClusterPlan, clip_of
from dpmodels.scoring.clusters import release_clusters
from dpmodels.scoring.words import CONSERVATIVE
from dpmodels.sources.summed import counted

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: Share of what is left for the tables of squares.
SQUARES = 0.15


def why_not(request: Request) -> str:
    """Return why a call does not end here, in words; empty if it does."""
    given = request.weights is not None or request.sample is not None
    return "" if given else "no weights and no design"


@dataclass(frozen=True)
class WeightedTable:
    """The layout of a call, the noise of its masses and squares, and the public population.

    ``squares`` is None where there are no weights; ``clusters`` where rows are drawn one by one,
    ``laid`` what its pass lays down.
    """

    layout: Layout
    noise: TableNoise
    squares: TableNoise | None
    population: float | None
    clusters: ClusterPlan | None = None
    laid: Laid | None = None


@dataclass(frozen=True)
class WeightedTableReleased:
    """Middles and half-ranges of the columns, where weights were cut, and what PSUs told."""

    centre: Array
    half: Array
    trim: Trim
    errors: DesignErrors | None = None


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
    part = gaussian_part(request, design.unknown)
    rest, sample = 1.0 - part.share, request.sample
    survey = None if sample is None else sample.frame.survey
    weighted = design.place_aside("weights") is not None
    clusters, laid = None, None
    if sample is not None and sample.needed:
        laid = laid_of(layout, weight=False)
        left = part.mu * math.sqrt(rest)
        clusters = ClusterPlan.of(sample, left, n, request.relation, [""], laid.size, averaged=True)
        if weighted and survey is not None and survey.population is None and clusters.frame.pairs:
            laid = replace(laid, weight=bool(laid.sections[0].kind == "counts"))
    by_cluster = 0.0 if clusters is None else clusters.share * rest
    rest -= by_cluster
    weigh, square = SHARE * weighted, SQUARES * weighted
    budgets = {
        "weights": weigh * rest, "table": (1.0 - weigh) * (1.0 - square) * rest,
        "squares": (1.0 - weigh) * square * rest,
    }  # fmt: skip
    budgets = {name: share for name, share in budgets.items() if share}
    mu = {name: part.mu * math.sqrt(share) for name, share in budgets.items()}
    equal = (1.0 / len(layout.blocks),) * len(layout.blocks)
    detail = WeightedTable(
        layout, TableNoise("gaussian", mu["table"], equal),
        TableNoise("gaussian", mu["squares"], equal) if weighted else None,
        None if survey is None else survey.population, clusters, laid,
    )  # fmt: skip
    steps = [Step(name, Gaussian(mu[name]), share=share) for name, share in budgets.items()]
    assert STEP == "weights"
    if clusters is not None:
        steps += [s.within(1.0 - part.share) for s in clusters.steps]
        budgets["clusters"] = by_cluster
    size = 0 if laid is None else laid.size
    return Plan.of(
        request, design, n, [*part.steps, *steps], shares={**part.printed, **budgets},
        purchase=part.purchase, detail=detail,
        passes=1 + 2 * weighted + bool(part.purchase) + (clusters is not None),
        scales={} if clusters is None else clusters.printed(size),
        advice=() if clusters is None else clusters.advice(size),
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
    trim = Trim(1.0, 1.0, 0.0)
    if detail.squares is not None:
        cells = max(detail.layout.cells(block.axes) for block in detail.layout.blocks)
        strength = detail.noise.budget * n / cells
        trim = trim_of(ask, design, strength, detail.population, n)
    centre, half = half_ranges(design)
    over = WeightedTables(design, detail.layout, centre, half, trim.top)
    values = {}
    for name, power, noise in (("table", 1, detail.noise), ("squares", 2, detail.squares)):
        if noise is not None:
            query = Query(statistic(detail.layout, noise), replace(over, power=power), as_is)
            values[name] = ask(name, query).values
    found = WeightedTableReleased(centre, half, trim)
    if detail.clusters is not None:
        errors = _ask_by_psu(plan, ask, design, found, values)
        values["cluster scores"] = errors.found.products[0]
        found = replace(found, errors=errors)
    return Release(values, plan.guarantee, design, detail=found)


def _ask_by_psu(
    plan: Plan[WeightedTable], ask: Ask, design: Design, found: WeightedTableReleased,
    values: dict[str, Array],
) -> DesignErrors:  # fmt: skip
    """Release the products of cells and means by PSU, at the released shares and means."""
    detail, n, laid = plan.detail, plan.n, plan.detail.laid
    assert detail.clusters is not None and laid is not None and n is not None
    c = _context(plan, found, values)
    shares, means = {}, {}
    for section in laid.sections:
        if section.kind == "counts":
            shares[section] = c.mass.table(section.axes).ravel() / c.used
        else:
            own = sums(c, section)
            means[section] = own.N / c.used, own.m, own.v
    clusters, square = detail.clusters, min(c.heavy / n, 1.0)
    clip = clip_of(laid.size, clusters.n, clusters.each)
    middle, scale, typical = scales(laid, shares, means, square, clip)
    scorer = CellScores(
        laid, middle, scale, found.centre, found.half, found.trim.top,
        design.place_aside("weights"),
    )  # fmt: skip
    released = release_clusters(clusters, (scorer,), design, ask)
    return DesignErrors(released, scale, typical, n, plan.request.level)


def _context(
    plan: Plan[WeightedTable], part: WeightedTableReleased, values: Mapping[str, Array]
) -> Context:
    """Return what the sections are made of. Without weights u^2 is u."""
    detail, layout, n = plan.detail, plan.detail.layout, plan.n
    assert n is not None
    mass = effects_of(layout, detail.noise, values["table"], n)
    squares = mass
    if detail.squares is not None:
        squares = effects_of(layout, detail.squares, values["squares"], n)
    return Context(
        layout, mass, squares, part.trim, part.centre, part.half, n, plan.request.level,
        detail.population if detail.squares is not None else detail.population or float(n),
        detail.laid, part.errors,
    )  # fmt: skip


def estimate(plan: Plan[WeightedTable], release: Release) -> Estimate:
    """Return weighted totals, shares, means and sds, with intervals."""
    detail = plan.detail
    layout = detail.layout
    names = tuple(item.name for s in layout.sections for item in layout.items(s))
    if not release.reply:
        return Estimate.silent(names)
    part, n = release.detail, plan.n
    assert n is not None
    c = _context(plan, part, release.values)
    if float(c.mass.effect(())) < SMALL * math.sqrt(c.mass.variance(())):
        return Estimate.silent(
            names, "The sum of the weights is not determined at this budget (all near 0?)."
        )
    parts = []
    for section in layout.sections:
        found, size = counts(c, section) if section.kind == "counts" else means(c, section)
        if plan.request["suppress"] is not None:
            found[:, size < plan.request["suppress"]] = np.nan
        parts.append(found)
    whole = np.concatenate(parts, axis=1)
    arrays = dict(zip((*COLUMNS, "deff"), whole, strict=True))
    kish = c.heavy * n / c.used**2
    return Estimate(
        names, arrays["estimate"], arrays=arrays,
        notes=(*(() if detail.squares is None else _notes(c, kish)), *_of_psus(c, detail)),
        stats={
            **({} if detail.squares is None else {
                "kish": kish, "sum_of_weights": c.used * c.trim.top / (1.0 - c.trim.lost)
            }),
            **({} if c.errors is None else {"deff_clusters": c.errors.average[0]}),
        },
    )  # fmt: skip


def _of_psus(c: Context, detail: WeightedTable) -> tuple[str, ...]:
    """Say what errors by PSU rest on."""
    if c.errors is None or detail.clusters is None or detail.laid is None:
        return ()
    out = [said(detail.clusters, c.errors.found)]
    if not c.errors.determined:
        return (*out, (
            "The design variance is not determined at this budget, so no errors are given: fewer "
            "cells, more rows or a larger eps; weights= alone ignores the PSUs, and its errors are "
            "too small."
        ))  # fmt: skip
    out.append(
        f"Design effect of the PSUs, all cells together (released): {c.errors.average[0]:.2f}; "
        "column deff holds that of every cell, weights included."
    )
    out.append(CONSERVATIVE)
    if c.population is None and not detail.laid.weight:
        out.append(
            "Totals have no error by design here: it takes population=, or strata whose units are "
            "declared by labels (dp.Count) and compared in pairs."
        )
    return tuple(out)


def _notes(c: Context, kish: float) -> tuple[str, ...]:
    what = "the population that was declared" if c.population else "sums of weights"
    return (
        f"Totals are of {what}; shares and means are weighted (Hajek). Errors by linearisation, of "
        f"{'PSUs' if c.errors else 'rows drawn one by one'}, with replacement; they contain the "
        "noise.",
        f"Weights are cut at {c.trim.top:.3g}; about {c.trim.lost:.1%} of all weight is beyond (by "
        "the released histogram). Shares are corrected for it, by a rule, and intervals allow for "
        "an error of that.",
        f"Weights are taken as delivered; how they were computed is outside this guarantee. Design "
        f"effect of unequal weights (Kish, released): {kish:.2f}.",
    )


