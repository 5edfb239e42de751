"""Backend of ``dp_ols(method="jl")``: a Gaussian sketch of the augmented rows (Sheffet 2017).

``Y = G [A; w I]`` with G an r x (n + q) matrix of N(0, 1); no singular-value test is needed. Each
row meets r normals of its own, which workers must not draw: the rows are read by the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.exact.rowmap import RowMap
from dpmodels.models.linear.simple import (
    Released,
    declared_only,
    make_plan,
    unit_design,
    unit_estimate,
)
from dpmodels.models.linear.solve import floor_ridge, isotropic, solve
from dpmodels.privacy.mechanisms import RDP, Step, rdp_delta
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

_STEP = "sketch"


def jl_curve(alpha: float, r: float, theta: float) -> float:
    """Return the Renyi bound of order ``alpha`` of an r-row sketch, ``theta = B^2 / w^2``.

    ``g(1 + theta) + g(1/(1 + theta))``, ``g(c) = -(r / (2 (alpha - 1))) [log(alpha + (1 - alpha) c)
    - (1 - alpha) log c]``; infinite where an argument is not positive (theory.md, 5.1).
    """
    total = 0.0
    for c in (1.0 + theta, 1.0 / (1.0 + theta)):
        inside = alpha + (1.0 - alpha) * c
        if inside <= 0:
            return math.inf
        total -= r / (2.0 * (alpha - 1.0)) * (math.log(inside) - (1.0 - alpha) * math.log(c))
    return total


def jl_width(eps: float, delta: float, r: int) -> float:
    """Return the least ``w^2 / B^2`` for (eps, delta)."""

    def room(log_ratio: float) -> float:
        theta = math.exp(-log_ratio)
        return rdp_delta(lambda a: jl_curve(a, r, theta), eps) - delta

    lo, hi = math.log(1e-3), math.log(1e9)
    for _ in range(80):
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if room(mid) > 0 else (lo, mid)
    return math.exp(hi)


@dataclass(frozen=True)
class JlDetail:
    """Rows of the sketch and ``w^2 / B^2``."""

    r: int
    ratio: float


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one sketch."""
    declared_only(design, "jl")
    r = int(request["rows"])
    ratio = jl_width(request.eps, request.delta * (1.0 - 1e-9), r)
    mechanism = RDP("jl", (("r", float(r)), ("theta", 1.0 / ratio)))
    steps = [Step(_STEP, mechanism, share=1.0, label="Gaussian sketch")]
    detail = JlDetail(r, ratio)
    return make_plan(request, design, n, steps, None, detail, notes=(FLOAT_NOTE,))


def release(plan: Plan[JlDetail], ask: Ask) -> Release:
    """Release the sketch Y, r x q. One pass; r normals a row.

    Privacy
    -------
    Unit: one row, replaced. Float normals: the guarantee carries a note.
    """
    raw = ask.raw(own_proof("gaussian sketch"))
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    q, r = given.design.q, detail.r
    B = math.hypot(given.rx, given.ry)
    w = B * math.sqrt(detail.ratio)
    normals = raw.sketch_normals(_STEP)
    rowmap = RowMap(given.unit, np.ones(q))
    Y = w * normals(r * q).reshape(r, q)
    with np.errstate(all="ignore"):
        for block in raw.rows.blocks(given.design):
            z = rowmap.normalised(block)
            Y += normals(r * z.shape[1]).reshape(r, -1) @ z.T
    grid = w * 2.0**-30
    Y = np.round(Y / grid) * grid
    Q = Y.T @ Y / r - w * w * np.eye(q)
    m = isotropic(Q, w * w * math.sqrt(2.0 / r))
    theta, _ = solve(m, floor_ridge(m))
    note = "The sketch itself adds error of order sqrt(2/r) to every moment; no errors are given."
    return Release(
        {"theta": theta, "sketch": Y},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("width", w),), (note,)),
    )


estimate = unit_estimate
