"""Shared by the methods that release once and give no standard errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.exact.passes import Moments
from dpmodels.exact.rowmap import RowMap, UnitScale, unit_rows
from dpmodels.models.linear.inference import no_reply
from dpmodels.models.linear.plans import StageBudget, purchase
from dpmodels.planning import Plan, Purchase
from dpmodels.ranges import bounds_share, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.privacy.mechanisms import Step
    from dpmodels.request import Request


@dataclass(frozen=True)
class UnitRows:
    """Rows in unit half-ranges, with the bounds that a method may use.

    Attributes
    ----------
    rx, ry : float
        ``|x| <= rx`` (intercept included), ``|y| <= ry``.
    """

    design: Design
    unit: UnitScale
    rx: float
    ry: float = 1.0


@dataclass(frozen=True)
class Released:
    """What :func:`unit_estimate` needs: the map of the rows, and printed facts."""

    unit: UnitScale
    stats: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()


def budget_of(
    request: Request, design: Design
) -> tuple[Purchase | None, list[Step], StageBudget, float]:
    """Return (purchase, its steps, the rest of the budget, the share of the rest)."""
    bought, steps, rest = purchase(request, design)
    return bought, steps, rest, 1.0 - bounds_share(request, bought)


def make_plan(
    request: Request,
    design: Design,
    n: int | None,
    steps: Sequence[Step],
    bought: Purchase | None,
    detail: Any,
    *,
    scales: Mapping[str, float] | None = None,
    advice: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Plan[Any]:
    """Return the plan of a method without a rule of its own."""
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=notes,
        scales=dict(scales or {}),
        purchase=bought,
        detail=detail,
        advice=advice,
    )


def declared_only(design: Design, method: str) -> None:
    """Refuse a design with ranges to buy: the method buys none."""
    if design.unknown:
        shown = ", ".join(f'"{c}": (lower, upper)' for c in design.unknown[:2])
        raise RequestError(
            f"method={method!r} buys no ranges: declare them, for example bounds={{{shown}}}"
        )


def unit_design(plan: Plan[Any], ask: Ask) -> UnitRows | Release:
    """Buy what must be bought, and map to unit rows; a Release is a no-reply."""
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    unit, square = unit_rows(design)
    return UnitRows(design, unit, math.sqrt(square + float(design.has_intercept)))


def unit_moments(given: UnitRows) -> Moments:
    """Return the pass of the moments of unit rows, response last."""
    return Moments(given.design, RowMap(given.unit, np.ones(given.design.q)))


def unit_estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map ``values["theta"]`` (unit rows) to the user's units; no standard errors."""
    if not release.reply:
        return no_reply(release)
    found: Released = release.detail
    A, a = found.unit.back()
    return Estimate(
        release.design.names,
        A @ release.values["theta"] + a,
        stats=dict(found.stats),
        notes=found.notes,
        arrays={k: v for k, v in release.values.items() if k != "theta"},
    )
