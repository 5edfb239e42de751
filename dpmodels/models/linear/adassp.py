"""Backend of ``dp_ols(method="adassp")`` (Wang 2018) with exact Gaussian accounting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.exact.ask import Added, Query
from dpmodels.exact.lemmas import Of
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.models.linear.simple import (
    Released,
    budget_of,
    make_plan,
    unit_design,
    unit_estimate,
    unit_moments,
)
from dpmodels.privacy.gdp import upper_quantile
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

_STEPS = ("smallest eigenvalue", "second moments", "cross moments")


@dataclass(frozen=True)
class AdaDetail:
    """mu of each of the three releases."""

    mu: float


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan AdaSSP: three releases of ``mu / sqrt 3`` each."""
    bought, steps, budget, rest = budget_of(request, design)
    part = budget.part(1.0 / 3.0)
    assert isinstance(part, Gaussian)
    steps += [Step(name, part, share=rest / 3.0) for name in _STEPS]
    return make_plan(request, design, n, steps, bought, AdaDetail(part.mu))


def release(plan: Plan[AdaDetail], ask: Ask) -> Release:
    """Release lambda_min(X'X), X'X and X'y of unit rows. One pass.

    Privacy
    -------
    Unit: one row. Sensitivities (theory.md 1.1, 1.4): R_x^2 for the eigenvalue, sqrt2 R_x^2
    (replace) or R_x^2 for X'X, 2 R_x R_y or R_x R_y for X'y.
    """
    detail = plan.detail
    given = unit_design(plan, ask)
    if isinstance(given, Release):
        return given
    relation = plan.request.relation
    p, rx2, mu = given.design.p, given.rx**2, detail.mu
    over = unit_moments(given)
    # Float error of the eigenvalue routine, and the grid of the release. Under add-remove the
    # noise may not depend on the row count: a public ceiling of 2^30 rows stands for it.
    ceiling = ask.n if relation == "replace" else 1 << 30

    def least_eigenvalue(G: Any) -> Added:
        XX = np.asarray(G.integers()[:p, :p], dtype=float) * STEPS**-2
        return Added(np.linalg.eigvalsh(XX)[:1])

    bound = Of("least eigenvalue", (rx2, p, ceiling))
    least = float(ask(_STEPS[0], Query(bound, over, least_eigenvalue)).values[0])
    lower = max(0.0, least - upper_quantile(0.05) * rx2 / mu)
    ball = Ball(p, given.rx)  # unit rows: cells in a box, and this long at most
    moments = ask(_STEPS[1], Query(Gram(ball), over, lambda G: Added(G.integers()[:p, :p])))
    M, s = moments.values, float(moments.sd[0, 0])
    products = Sum(Ball(p, given.rx * given.ry), products=True)
    h = ask(_STEPS[2], Query(products, over, lambda G: Added(G.integers()[:p, p]))).values
    lam = max(0.0, s * math.sqrt(p * math.log(2.0 * p * p / 0.05)) - lower)
    theta = np.asarray(np.linalg.solve(M + lam * np.eye(p), h), dtype=np.float64)
    return Release(
        {"theta": theta, "second_moments": M, "cross_moments": h},
        plan.guarantee,
        given.design,
        detail=Released(
            given.unit,
            (("ridge", lam), ("eigenvalue_lower_bound", lower)),
            ("AdaSSP gives no standard errors: its ridge biases the coefficients.",),
        ),
    )


estimate = unit_estimate
