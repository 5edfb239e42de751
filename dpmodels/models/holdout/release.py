"""Plan and private stage of a score or a diagnosis: one pass, one release a group of sums."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.passes import Counts
from dpmodels.exact.prove import noise_of
from dpmodels.models.holdout.sums import Sums, added_up
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.privacy.steps import Step

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design

__all__ = ["HoldoutPlan", "noise_sd", "plan_holdout", "release"]


@dataclass(frozen=True, eq=False)
class HoldoutPlan:
    """Everything public about a release on held-out rows.

    Attributes
    ----------
    design : Design
        Of the fit.
    n : int
    sums : tuple of Sums
        One a step.
    guarantee : Guarantee
    advice : tuple of str
    """

    design: Design
    n: int
    sums: tuple[Sums, ...]
    guarantee: Guarantee
    advice: tuple[str, ...] = ()


def plan_holdout(
    design: Design, n: int, parts: dict[str, tuple[Sums, float]], eps: float, delta: float
) -> HoldoutPlan:
    """Plan the release of some sums; ``parts``: step -> (sums, share of the budget)."""
    steps = []
    for name, (_, share) in parts.items():
        if delta > 0:
            steps.append(Step(name, Gaussian(mu_gdp(eps, delta) * math.sqrt(share)), share=share))
        else:
            steps.append(Step(name, Pure(eps * share), share=share))
    guarantee = Guarantee(tuple(steps), eps, delta, "replace")
    return HoldoutPlan(design, n, tuple(one for one, _ in parts.values()), guarantee)


def noise_sd(plan: HoldoutPlan, k: int) -> float:
    """Return the noise sd of each cell of the k-th sums, in their own units."""
    one, mechanism = plan.sums[k], plan.guarantee.steps[k].mechanism
    scale = float(noise_of(one.statistic, mechanism, plan.guarantee.relation)[0])
    return math.sqrt(2.0) * scale if isinstance(mechanism, Pure) else scale


def release(plan: HoldoutPlan, ask: Ask) -> tuple[Array, ...]:
    """Release the sums of the plan. One pass; alone in seeing rows.

    Privacy
    -------
    Unit: one row; replace-one, n public. Sensitivities: ``theory.md``, exact in integers.
    """
    over = Counts(plan.design, functools.partial(added_up, sums=plan.sums))
    return tuple(
        ask(step.name, Query(one.statistic, over, functools.partial(_of, k=k, unit=one.unit)))
        .values
        for k, (step, one) in enumerate(zip(plan.guarantee.steps, plan.sums, strict=True))
    )


def _of(totals: tuple[Array, ...], k: int, unit: float) -> Added:
    """Return the k-th of several sums, in steps of its own."""
    return Added(totals[k], unit)
