"""Backend of ``dp_table``: counts, means by group and quantiles from one pass, one joint release.

``layout.py`` says what is released, ``noise.py`` with which noise, ``sums.py`` counts exactly,
``effects.py`` makes the counts consistent; ``theory.md`` has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query, as_is
from dpmodels.models.table.effects import Effects
from dpmodels.models.table.layout import Layout, Section, layout_of
from dpmodels.models.table.noise import TableNoise, table_noise
from dpmodels.models.table.numbers import shown_numbers
from dpmodels.models.table.ranks import QuantilePart, quantile_part, release_quantiles
from dpmodels.models.table.sums import TOTAL, TablePass
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

_STEP = "table"
#: Share of a call that its quantiles get.
QUANTILE_SHARE = 0.5


@dataclass(frozen=True)
class TableDetail:
    """The layout of a call, its noise, and its quantiles."""

    layout: Layout
    noise: TableNoise
    quantiles: QuantilePart | None = None


@dataclass(frozen=True)
class TableReleased:
    """Middles and half-ranges of the columns in force."""

    centre: Array
    half: Array


def layout_for(request: Request, design: Design) -> Layout:
    """Return the layout of a request."""
    return layout_of(
        design,
        histogram=request["histogram"],
        quantiles=_quantiles(request["quantiles"]),
    )


def _quantiles(given: Any) -> tuple[float, ...]:
    """Return checked quantiles, in order."""
    if given is None:
        return ()
    listed = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
    for q in listed:
        if isinstance(q, bool) or not isinstance(q, (int, float, np.number)) or not 0 < q < 1:
            raise RequestError("quantiles= takes numbers between 0 and 1, as in [0.25, 0.5, 0.75]")
    return tuple(sorted({float(q) for q in listed}))


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one joint release of a table. Reads no row."""
    layout = layout_for(request, design)
    to_buy = design.unknown
    kind = str(request["noise"])
    if (to_buy or kind == "gaussian") and request.delta == 0:
        raise RequestError(
            "delta = 0 allows no Gaussian noise"
            + (f", and buying the range of {to_buy[0]!r} needs it: declare the range, for example "
               f"bounds={{{to_buy[0]!r}: (lower, upper)}}" if to_buy else ": leave noise= out")
        )  # fmt: skip
    if to_buy and kind not in ("auto", "gaussian"):
        raise RequestError(f"noise={kind!r} buys no ranges: declare that of {to_buy[0]!r}")
    if kind == "geometric" and request.by_person:
        raise RequestError(
            "noise='geometric' is for whole numbers, and a person counts in each cell by the share "
            "of own rows: leave noise= out"
        )
    if kind == "geometric" and any(b.number >= 0 for b in layout.blocks):
        raise RequestError("noise='geometric' is for counts alone: this table has means as well")
    quantiles = quantile_part(layout, request.eps * QUANTILE_SHARE) if layout.quantiles else None
    eps = request.eps * (1.0 - QUANTILE_SHARE) if quantiles else request.eps
    steps: list[Step] = []
    printed: dict[str, float] = {}
    mu = share = 0.0
    purchase = None
    if request.delta > 0 and kind in ("auto", "gaussian"):
        part = gaussian_part(replace(request, eps=eps), to_buy)
        steps, mu, purchase, share = list(part.steps), part.mu, part.purchase, part.share
        printed = dict(part.printed)
    noise, reason = table_noise(layout, kind, mu * math.sqrt(1.0 - share), 0.0 if to_buy else eps)
    rest = 1.0 - share
    if noise.kind == "laplace":
        steps.append(Step(_STEP, Pure(eps), share=rest, label="Laplace, joint"))
    else:
        steps.append(Step(_STEP, Gaussian(mu * math.sqrt(rest)), share=rest))
    if quantiles:
        steps += quantiles.steps
        printed = {"quantiles": QUANTILE_SHARE, **printed}
    return Plan.of(
        request, design, n, steps,
        shares={**printed, "table": rest * (1.0 - QUANTILE_SHARE if quantiles else 1.0)},
        scales=_scales(layout, noise, n),
        expected_se=_expected(layout, noise, design, n),
        purchase=purchase,
        detail=TableDetail(layout, noise, quantiles),
        reasons=(*request.reasons, reason),
        advice=_advice(layout, n, "people" if request.by_person else "rows"),
        passes=1 + bool(purchase) + bool(quantiles),
    )  # fmt: skip


def _scales(layout: Layout, noise: TableNoise, n: int) -> dict[str, float]:
    """Return the expected noise of what is shown: counts after consistency, sums."""
    effects = noise.measured(layout, None, float(n))
    out = {}
    for s in layout.sections:
        if s.kind == "counts":
            name = " x ".join(layout.axes[j].name for j in s.axes)
            out[f"noise sd of a count by {name}"] = math.sqrt(effects.variance(s.axes))
        elif s.kind == "means":
            by = " by " + " x ".join(layout.axes[j].name for j in s.axes) if s.axes else ""
            out[f"noise sd of a sum of {s.variable}{by}, in half-ranges"] = _sum_sd(
                layout, effects, s
            )
    return out


def _sum_sd(layout: Layout, effects: Effects, section: Section) -> float:
    axis = layout.number_axis(section.number)
    K = effects.along(tuple(sorted((*section.axes, axis))), axis)
    return math.sqrt(float(TOTAL @ K @ TOTAL))


def _expected(layout: Layout, noise: TableNoise, design: Design, n: int) -> dict[str, float]:
    """Return the expected privacy error of a mean in a group of average size."""
    out: dict[str, float] = {}
    effects = noise.measured(layout, None, float(n))
    for s in layout.sections:
        interval = design.columns[s.number].interval if s.kind == "means" else None
        if interval is not None:
            groups = math.prod(layout.axes[j].size - 1 for j in s.axes)
            error = 0.5 * (interval[1] - interval[0]) * _sum_sd(layout, effects, s) * groups / n
            name = design.columns[s.number].name
            out[name] = max(error, out.get(name, 0.0))
    return out


def _advice(layout: Layout, n: int, counted: str) -> tuple[str, ...]:
    """Return warnings on public facts: a table with more cells than rows."""
    out = []
    for block in layout.blocks:
        levels = layout.group(block)
        cells = math.prod(layout.axes[j].size - 1 for j in levels)
        if cells > n:
            names = " x ".join(layout.axes[j].name for j in levels)
            out.append(f"{names} has {cells:,} declared cells for {n:,} {counted}: most are noise")
    return tuple(dict.fromkeys(out))


def half_ranges(design: Design) -> tuple[Array, Array]:
    """Return middles and half-ranges of the columns of a cell design (codes included)."""
    ends = design.intervals()
    return ends.mean(axis=1), np.maximum(0.5 * (ends[:, 1] - ends[:, 0]), 1e-300)


def release(plan: Plan[TableDetail], ask: Ask) -> Release:
    """Release the noisy counts, sums and squares of a table, and its quantiles.

    Privacy
    -------
    Unit: one row; replace-one, n public. Sensitivities: ``sums.py``, ``ranks.py``. A missing cell
    counts in the cell "(missing)" of its axis. Or one person, who lays the mean of its rows: one
    unit of mass too (``units/theory.md``, 11).
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    detail = plan.detail
    noise, layout = detail.noise, detail.layout
    centre, half = half_ranges(design)
    people = plan.request.by_person
    over = TablePass(design, layout, centre, half, people)
    query = Query(noise.statistic(layout), over, _counted if noise.whole else as_is)
    query = replace(query, whole=noise.whole)
    values = {"table": ask(_STEP, query).values}
    if detail.quantiles:
        values |= release_quantiles(detail.quantiles, layout, design, ask, people=people)
    return Release(values, plan.guarantee, design, detail=TableReleased(centre, half))


def _counted(exact: npt.NDArray[np.object_]) -> Added:
    """Return counts as whole numbers."""
    return Added(np.array([int(v) >> 20 for v in exact], dtype=object))


def estimate(plan: Plan[TableDetail], release: Release) -> Estimate:
    """Return what the table shows: consistent counts, means, sds, quantiles, with intervals."""
    detail = plan.detail
    names = [item.name for s in detail.layout.sections for item in detail.layout.items(s)]
    if not release.reply:
        return Estimate.silent(names)
    part: TableReleased = release.detail
    assert plan.n is not None
    numbers = shown_numbers(
        detail.layout, detail.noise, release.values, (part.centre, part.half), plan.n,
        level=plan.request.level, suppress=plan.request["suppress"],
        points=None if detail.quantiles is None else detail.quantiles.grids(release.design),
        people=plan.request.by_person, alike=plan.request.alike,
    )  # fmt: skip
    return Estimate(
        tuple(names),
        numbers.arrays["estimate"],
        # of single rows: whoever asked for kept ones of people multiplies it
        vcov_sampling=_diagonal(numbers.arrays["se_sampling"] / math.sqrt(plan.request.alike)),
        vcov_privacy=_diagonal(numbers.arrays["se_privacy"]),
        notes=numbers.notes,
        arrays=numbers.arrays,
    )


def _diagonal(se: Array) -> Array | None:
    """Return variances on a diagonal; covariances are not worked out. None for large tables."""
    if len(se) > 1000:
        return None
    out = np.full((len(se), len(se)), np.nan)
    out[np.diag_indices(len(se))] = se**2
    return out
