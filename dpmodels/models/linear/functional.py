"""Backend of ``dp_ols(method="functional")``: the functional mechanism of Zhang et al. (2012)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.exact.ask import Added, Query
from dpmodels.exact.statistics import Objective
from dpmodels.models.linear.simple import (
    Released,
    declared_only,
    make_plan,
    unit_design,
    unit_estimate,
    unit_moments,
)
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

_STEP = "objective"


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one Laplace release of the objective's coefficients."""
    declared_only(design, "functional")
    part = Pure(request.eps)
    return make_plan(request, design, n, [Step(_STEP, part, share=1.0)], None, part)


def release(plan: Plan[Any], ask: Ask) -> Release:
    """Release the coefficients ``-2 X'y`` and ``x_j^2, 2 x_j x_k`` of the objective. One pass."""
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    p = given.design.p
    upper = np.triu_indices(p)
    twice = np.where(upper[0] == upper[1], 1, 2)

    def coefficients(found: Any) -> Added:
        G = found.integers()
        return Added(np.concatenate([2 * G[:p, p], G[upper] * twice]))

    statistic = Objective(p, given.rx, given.ry)
    released = ask(_STEP, Query(statistic, unit_moments(given), coefficients))
    noisy = released.values
    h = noisy[:p] / 2.0
    M = np.zeros((p, p))
    M[upper] = noisy[p:] / twice
    M.T[upper] = M[upper]
    # Original regularisation: a ridge of four standard deviations, then positive directions only.
    lam = 4.0 * math.sqrt(2.0) * float(released.sd[0])
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
