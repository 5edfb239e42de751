"""How a call divides between the ranges it has to buy and the rest (``theory.md``, costs)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.steps import Step
from dpmodels.ranges.buy import buy_ranges, plan_purchase
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = [
    "FAILURE_SHARE",
    "RANGES_SHARE",
    "Part",
    "bounds_share",
    "gaussian_part",
    "no_ranges",
    "pair_part",
    "ranged_design",
]

#: Share of a budget that buys ranges, where ``bounds_share=`` does not say another.
RANGES_SHARE = 0.15
#: Part of delta that pays for the failure of bought ranges; methods with a test of their own
#: spend as much again on the failure of its bound.
FAILURE_SHARE = 0.1


@dataclass(frozen=True)
class Part:
    """The ranges' part of a call, and what it leaves.

    Attributes
    ----------
    share : float
        Share of the currency (mu^2, or eps) spent on ranges; 0 without a purchase.
    steps : tuple of Step
    purchase : Purchase or None
    mu : float
        Gaussian plans: mu of the *whole* call; a step of share s gets ``mu sqrt(s)``.
    eps, delta : float
        Pair plans: what is left for the rest.
    """

    share: float = 0.0
    steps: tuple[Step, ...] = ()
    purchase: Purchase | None = None
    mu: float = 0.0
    eps: float = 0.0
    delta: float = 0.0
    printed: dict[str, float] = field(default_factory=dict)


def bounds_share(request: Request, to_buy: object) -> float:
    """Return the share of the budget that buys ranges: 0 where there are none to buy."""
    return float(request["bounds_share"]) if to_buy else 0.0


def gaussian_part(request: Request, to_buy: tuple[str, ...], delta_f: float = 0.0) -> Part:
    """Divide a call whose releases are Gaussian.

    ``delta_b = 0.1 delta`` if anything is bought; ``mu = mu(eps, delta - delta_b - delta_f)``;
    the ranges take ``bounds_share`` of mu^2.
    """
    delta_b = FAILURE_SHARE * request.delta if to_buy else 0.0
    mu = mu_gdp(request.eps, request.delta - delta_b - delta_f)
    share = bounds_share(request, to_buy)
    if not to_buy:
        return Part(mu=mu)
    purchase, steps = plan_purchase(to_buy, mu * math.sqrt(share), delta_b, share)
    return Part(share, tuple(steps), purchase, mu=mu, printed={"ranges": share})


def pair_part(request: Request, to_buy: tuple[str, ...]) -> Part:
    """Divide a call whose main part is known as a pair, by sums of (eps, delta).

    Ranges: ``mu(share eps, 0.1 delta)`` and failure ``0.1 delta``; the rest gets
    ``((1 - share) eps, 0.8 delta)``.
    """
    if not to_buy:
        return Part(eps=request.eps, delta=request.delta)
    share, part = bounds_share(request, to_buy), FAILURE_SHARE * request.delta
    purchase, steps = plan_purchase(to_buy, mu_gdp(share * request.eps, part), part, share)
    return Part(
        share,
        tuple(steps),
        purchase,
        eps=(1.0 - share) * request.eps,
        delta=request.delta - 2.0 * part,
        printed={"ranges": share},
    )


def ranged_design(plan: Plan[Any], ask: Ask, *, wide: bool = False) -> Design | None:
    """Return the plan's design with every range known, buying what the plan says; None: no reply.

    Parameters
    ----------
    wide : bool
        As in :func:`buy_ranges`.

    Privacy
    -------
    See :func:`buy_ranges`.
    """
    if plan.purchase is None:
        return plan.design
    return buy_ranges(plan.purchase, plan.design, ask, wide=wide)


def no_ranges(plan: Plan[Any]) -> Release:
    """Return the no-reply of a call whose ranges could not be bought."""
    return Release({}, plan.guarantee, plan.design, reply=False, why="ranges")
