"""Backend of ``dp_quantreg(method="scoring")``: quantile regression by private Fisher scoring.

The score is not smoothed, only its information is (``scoring/theory.md`` 5.2). Several quantiles
share their start and read the rows together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, shown
from dpmodels.planning.plan import planning_rows
from dpmodels.scoring.engine import Chain
from dpmodels.scoring.fitting import Model, plan_fit, release_fit
from dpmodels.scoring.report import Part, estimate_fit
from dpmodels.scoring.score import Quantile

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

#: Asymptotic sd of a quantile over the spread of the response, in half ranges, that a plan assumes.
_GUESS = 0.625

#: The release of the passes.
release = release_fit


def taus_of(value: Any) -> tuple[float, ...]:
    """Return the quantiles of a call, in ascending order, or refuse."""
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    for tau in several:
        if isinstance(tau, bool) or not isinstance(tau, (int, float)) or not 0 < tau < 1:
            raise RequestError(
                f"tau must lie strictly between 0 and 1, got {shown(value)}. For example tau=0.5, "
                "or tau=[0.25, 0.5, 0.75]"
            )
    if not several or len(set(several)) < len(several):
        raise RequestError("tau= takes one quantile, or a list of different ones")
    return tuple(sorted(float(tau) for tau in several))


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_quantreg(method="scoring")``."""
    taus = taus_of(request["tau"])
    labels = [f"tau = {tau:g}" if len(taus) > 1 else "" for tau in taus]
    chains = tuple(
        Chain(Quantile(tau=tau), label) for tau, label in zip(taus, labels, strict=True)
    )
    return plan_fit(request, design, planning_rows(request, n), Model(chains, guess=_GUESS))


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step of every quantile to the user's units."""

    def stats(part: Part) -> dict[str, float]:
        return {"sparsity": math.sqrt(part.before.phi) / part.unit}

    return estimate_fit(plan, release, stats)
