"""Backend of ``dp_ols(method="outpert")``: ridge regression with noise on its output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.symmetric import float_allowance
from dpmodels.models.linear.simple import (
    Released,
    budget_of,
    make_plan,
    unit_design,
    unit_estimate,
    unit_moments,
)
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

_STEP = "coefficients"


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one release of the ridge solution."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0)
    assert isinstance(part, Gaussian)
    steps.append(Step(_STEP, part, share=rest))
    return make_plan(request, design, n, steps, bought, part)


def output_sensitivity(lam: float, n: int, rx: float, ry: float) -> float:
    """Return ``D = 2 L R_x / lam`` with ``L = R_y + R_x |theta|_max``, replace-one.

    ``|theta| <= min(R_y sqrt n / (2 sqrt lam), n R_x R_y / lam)`` for the minimiser of
    ``sum (y - x'th)^2 / 2 + lam |th|^2 / 2``, which is lam-strongly convex; one row changes the
    gradient by at most ``2 L R_x`` (the published ``L B / lam`` is the add/remove figure).
    """
    top = min(ry * math.sqrt(n) / (2.0 * math.sqrt(lam)), n * rx * ry / lam)
    return 2.0 * (ry + rx * top) * rx / lam


def release(plan: Plan[Any], ask: Ask) -> Release:
    """Release ``(X'X + lam I)^{-1} X'y`` with Gaussian noise, lam from a public rule. One pass."""
    raw = ask.raw(own_proof("output perturbation"))
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    mu, n, p = plan.detail.mu, ask.n, given.design.p
    grid = n * given.rx**2 * np.geomspace(1e-6, 10.0, 60)

    def cost(lam: float) -> float:
        return lam + n * (output_sensitivity(lam, n, given.rx, given.ry) / mu) ** 2

    lam = float(min(grid, key=cost))
    found = raw.total(unit_moments(given))
    G = np.asarray(found.integers(), dtype=float) * STEPS**-2
    theta = np.linalg.solve(G[:p, :p] + lam * np.eye(p), G[:p, p])
    D = output_sensitivity(lam, n, given.rx, given.ry) * (1.0 + float_allowance(p, n))
    noisy = raw.gaussian_real(_STEP, theta, D)
    note = "Output perturbation shrinks the coefficients by a public ridge; no errors are given."
    return Release(
        {"theta": noisy},
        plan.guarantee,
        given.design,
        detail=Released(given.unit, (("ridge", lam), ("noise_sd", D / mu)), (note,)),
    )


estimate = unit_estimate
