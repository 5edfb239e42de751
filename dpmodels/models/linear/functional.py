"""Backend of ``dp_ols(method="functional")``: the functional mechanism of Zhang et al. (2012)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.exact.rowmap import STEPS
from dpmodels.models.linear.simple import (
    Released,
    declared_only,
    integer_moments,
    make_plan,
    unit_design,
    unit_estimate,
)
from dpmodels.privacy.mechanisms import Pure
from dpmodels.privacy.steps import Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

__all__ = ["estimate", "functional_l1", "plan", "release"]

_STEP = "objective"


def functional_l1(p: int, rx: float, ry: float) -> float:
    """Return the L1 sensitivity of the coefficients of ``(y - x'b)^2`` without the constant.

    One row: ``2 |y| |x|_1 + |x|_1^2 <= 2 sqrt(p) R_x R_y + p R_x^2``; replaced: twice.
    """
    return 2.0 * (2.0 * math.sqrt(p) * rx * ry + p * rx * rx)


def plan(request: Request, design: Design, n: int) -> Plan:
    """Plan one Laplace release of the objective's coefficients."""
    declared_only(design, "functional")
    part = Pure(request.eps)
    return make_plan(request, design, n, [Step(_STEP, part, share=1.0)], None, part)


def release(plan: Plan, ask: Ask) -> Release:
    """Release the coefficients ``-2 X'y`` and ``x_j^2, 2 x_j x_k`` of the objective. One pass."""
    rows, run = ask._rows, ask._run  # TODO
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    p = given.design.p
    G = integer_moments(rows, given)
    upper = np.triu_indices(p)
    twice = np.where(upper[0] == upper[1], 1, 2)
    value = np.concatenate([2 * G[:p, p], G[upper] * twice])
    l1 = functional_l1(p, given.rx, given.ry)
    noisy = run.laplace(_STEP, value, l1 * 2.0**40, unit=STEPS**-2)
    h = noisy[:p] / 2.0
    M = np.zeros((p, p))
    M[upper] = noisy[p:] / twice
    M.T[upper] = M[upper]
    # Original regularisation: a ridge of four standard deviations, then positive directions only.
    lam = 4.0 * math.sqrt(2.0) * l1 / plan.detail.eps
    values, vectors = np.linalg.eigh(M + lam * np.eye(p))
    keep = values > 0
    U = vectors[:, keep]
    theta = U @ ((U.T @ h) / values[keep])
    note = "The functional mechanism gives no standard errors: its ridge biases the coefficients."
    return Release(
        {"theta": theta, "second_moments": M, "cross_moments": h},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("ridge", lam),), (note,)),
    )


estimate = unit_estimate
