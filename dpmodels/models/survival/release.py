"""What ``dp_survfit`` and ``dp_survdiff`` share: one table, planned and released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query
from dpmodels.exact.prove import noise_of
from dpmodels.models.survival.counts import SurvivalPass, added, statistic_of
from dpmodels.models.survival.curve import Curve, curves
from dpmodels.models.survival.layout import Layout, layout_of
from dpmodels.models.survival.noise import CellNoise
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

_STEP = "survival table"
#: Noise over sampling error of a curve beyond which a plan says that the noise decides.
_WIDE = 1.5


@dataclass(frozen=True)
class SurvivalDetail:
    """The layout of a call and the noise of its cells."""

    layout: Layout
    noise: CellNoise


def plan(request: Request, design: Design, n: int) -> Plan[SurvivalDetail]:
    """Plan one Gaussian release of a table. Reads no row."""
    layout = layout_of(design, request.options)
    if request.verb == "dp_survdiff" and len(layout.groups) < 2:
        raise RequestError(
            f'"{request.formula}" has one group, and a test compares several: write a variable '
            "with two declared levels or more on the right, Surv(time, event) ~ group"
        )
    mu = gaussian_part(request, ()).mu
    statistic = statistic_of(layout, people=request.by_person)
    sd = float(noise_of(statistic, Gaussian(mu), request.relation)[0])
    noise = CellNoise(layout, sd)
    ahead, sampling = _foreseen(layout, noise, n)
    counted = "people" if request.by_person else "rows"
    advice: list[str] = []
    if not ahead <= _WIDE * sampling:
        advice.append(
            f"{n:,} {counted} in {layout.G} group{'s' if layout.G > 1 else ''} at this budget: the "
            "noise of a curve is larger than its sampling error. Fewer groups or intervals, more "
            f"{counted} or a larger eps"
        )
    reasons = list(request.reasons)
    if layout.levels > 1:
        reasons.append(
            f"a binary tree of {layout.levels} levels, because {layout.K} intervals by themselves "
            "would add up more noise"
        )
    if layout.entries:
        said = "episode" if layout.episodes == 1 else "episodes"
        reasons.append(
            f"{layout.episodes} {said} of a unit whole (max_episodes=); more are scaled down"
        )
    return Plan.of(
        request, design, n, (Step(_STEP, Gaussian(mu), share=1.0),),
        shares={"table": 1.0},
        scales={
            "noise sd of a released count": sd,
            "noise sd of S = .5 at the end": ahead,
            "sampling sd of S = .5 at the end": sampling,
        },
        detail=SurvivalDetail(layout, noise),
        reasons=tuple(reasons),
        advice=tuple(advice),
        passes=1,
    )  # fmt: skip


def _foreseen(layout: Layout, noise: CellNoise, n: int) -> tuple[float, float]:
    """Return noise and sampling sd of S = .5 at the end, of a group of average size."""
    mean = n / layout.G
    cells = np.zeros(layout.M)
    cells[layout.run(0, 0)] = 0.5 * mean / layout.K
    cells[layout.beyond(0)] = 0.5 * mean
    if layout.entries:
        cells[layout.first(0)] = mean
    curve = Curve(layout, noise, cells, 0)
    if curve.known < layout.K:
        return math.inf, 0.5 / math.sqrt(mean)
    return 0.5 * math.sqrt(float(curve.privacy[-1])), 0.5 * math.sqrt(float(curve.greenwood[-1]))


def release(plan: Plan[SurvivalDetail], ask: Ask) -> Release:
    """Release the table.

    Privacy
    -------
    Unit: one row, or one person (the mean of own rows; of episodes, their counts in a ball);
    replace-one, their number public. A unit is in one cell of each level: ``sqrt(2 levels)``;
    episodes: ``theory.md``, 2. A row that makes no sense is in the cell "missing", or nowhere.
    """
    detail = plan.detail
    people = plan.request.by_person
    over = SurvivalPass(plan.design, detail.layout, people)
    found = ask(_STEP, Query(statistic_of(detail.layout, people=people), over, added))
    cells: Array = detail.noise.fit(found.values, plan.n)
    return Release({"cells": cells}, plan.guarantee, plan.design)


def curves_of(plan: Plan[Any], release: Release) -> tuple[Curve, ...]:
    """Return the curves of a release."""
    detail: SurvivalDetail = plan.detail
    return curves(detail.layout, detail.noise, release.values["cells"])
