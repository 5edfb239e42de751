"""Backend of ``dp_ols(method="dpgd")``: full-batch descent with noisy clipped gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Query
from dpmodels.exact.end import ball_integers, integers_of
from dpmodels.exact.passes import Counts, first_array
from dpmodels.exact.products import mapped
from dpmodels.exact.rowmap import RowMap
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import Sum
from dpmodels.models.linear.simple import Released, budget_of, make_plan, unit_design, unit_estimate
from dpmodels.planning.plan import planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request


@dataclass(frozen=True, eq=False)
class GdDetail:
    """Steps, step size, mu of one step, rows of the public rules."""

    iterations: int
    step: float
    mu: float
    rows: int


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan T noisy gradients of ``mu / sqrt T`` each."""
    bought, steps, budget, rest = budget_of(request, design)
    T = int(request["iterations"])
    part = budget.part(1.0 / T)
    assert isinstance(part, Gaussian)
    steps += [Step(f"gradient {t}", part, share=rest / T) for t in range(1, T + 1)]
    detail = GdDetail(T, float(request["step"]), part.mu, planning_rows(request, n))
    return make_plan(request, design, n, steps, bought, detail)


def clipped_gradients(z: Array, b: Array, G: float) -> Array:
    """Return integer gradients (p, m), ``|k| <= 2^20``, of rows z (p + 1, m) at b.

    ``g_i = x_i (x_i'b - y_i)``, scaled into the ball of radius G, in lattice steps of G / 2^20;
    zero where a row is not finite.
    """
    p = len(b)
    g = z[:p] * (mapped(b[None], z[:p])[0] - z[p])
    return ball_integers(g, G)


def _gradient_sum(
    blocks: Iterable[Array], rowmap: RowMap, b: Array, G: float
) -> tuple[npt.NDArray[np.int64]]:
    """Return the sum of integer gradients, (p,): below 2^63 up to 2^43 rows. Confidential."""
    total = np.zeros(len(b), dtype=np.int64)
    with np.errstate(all="ignore"):
        for block in blocks:
            z = rowmap.normalised(block)
            total += integers_of(clipped_gradients(z, b, G).sum(axis=1))
    return (total,)


def release(plan: Plan[GdDetail], ask: Ask) -> Release:
    """Release T noisy sums of clipped gradients, each at the released iterate. T passes.

    Privacy
    -------
    A row moves a sum of clipped gradients by 2 G (replace) or G.
    """
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    p, q = given.design.p, given.design.q
    G = given.rx * given.ry
    rowmap = RowMap(given.unit, np.ones(q))
    b, noise = np.zeros(p), 0.0
    tail = np.zeros(p)
    half = detail.iterations // 2
    for t in range(1, detail.iterations + 1):
        job = functools.partial(_gradient_sum, rowmap=rowmap, b=b, G=G)
        query = Query(Sum(Ball(p)), Counts(given.design, job), first_array, unit=G)
        gradient = ask(f"gradient {t}", query)
        noise = float(gradient.sd[0]) / detail.rows
        b = b - detail.step / detail.rows * gradient.values
        b *= min(1.0, 1e3 / max(float(np.linalg.norm(b)), 1e-300))
        if t > half:
            tail += b / (detail.iterations - half)
    note = "Gradient descent stops early and clips: no standard errors are given."
    return Release(
        {"theta": tail},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("noise_per_step", noise),), (note,)),
    )


estimate = unit_estimate
