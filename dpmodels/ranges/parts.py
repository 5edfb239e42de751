"""How a call divides between the ranges it has to buy and the rest (``theory.md``, costs)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.mechanisms import Step
from dpmodels.ranges.buy import SAMPLE_ROWS, buy_ranges, plan_purchase, threshold
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Purchase
    from dpmodels.request import Request

#: Share of a budget that buys ranges, where ``bounds_share=`` does not say another.
RANGES_SHARE = 0.15
#: Part of delta that pays for the failure of bought ranges; methods with a test of their own
#: spend as much again on the failure of its bound.
FAILURE_SHARE = 0.1
#: A bought range is a scale, not a claim: cells are clipped this many half widths from its middle.
REACH = 64.0


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


def to_be_bought(request: Request, missing: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns whose range must be bought, or refuse."""
    if missing and request.relation != "replace":
        shown = ", ".join(f'"{c}": (lower, upper)' for c in missing[:2])
        raise RequestError(
            f"ranges can be bought under relation='replace' only: declare them, for example "
            f"bounds={{{shown}}}"
        )
    return missing


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


# -- How likely it is that ranges can be bought: a public number, before anything is spent


#: Below this chance of a reply a plan says so.
_POOR = 0.5


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def expected_reply(purchase: Purchase, n: int) -> float:
    """Return the chance that every histogram keeps a bin, for bell-shaped columns.

    The rule of :func:`dpmodels.ranges.buy._column_range` for the fullest bin of normal columns of
    unknown scale (averaged over where it falls between powers of two). Of public numbers only; a
    column with few values does better, one with heavy tails worse.
    """
    sd, tau = threshold(purchase)
    rows = min(n, SAMPLE_ROWS)
    base = 2 if rows >= 12 * tau else 4
    parts = (4 if rows > 40 * tau else 2) * base // 2
    chances = []
    for phase in (np.arange(16) + 0.5) / 16:
        low = base ** (phase + np.arange(-6, 4))
        # pairs differ by sqrt(2) standard deviations: P(low <= |difference| < base * low)
        share = np.array([math.erf(base * a / 2.0) - math.erf(a / 2.0) for a in low.tolist()])
        fullest = int(share.argmax())
        width = base * float(low[fullest]) / parts
        near = math.erf(width / 2.0 / math.sqrt(2.0))
        scale = _phi((rows / 2 * float(share[fullest]) - tau) / sd)
        chances.append(scale * _phi((rows * near - tau) / sd))
    return float(np.mean(chances)) ** len(purchase.columns)


def purchase_advice(purchase: Purchase, n: int) -> tuple[str, ...]:
    """Return what to say of a purchase that is unlikely to succeed; empty if it is likely to.

    Notes
    -----
    **Privacy.** Of n, eps, delta and the number of columns: n must be public.
    """
    if expected_reply(purchase, n) >= _POOR:
        return ()
    enough = n
    while expected_reply(purchase, enough) < 0.95 and enough < SAMPLE_ROWS:
        enough *= 2
    rows = f"more rows (about {enough}) or " if expected_reply(purchase, enough) >= 0.95 else ""
    names = ", ".join(purchase.columns[:3]) + (", ..." if len(purchase.columns) > 3 else "")
    return (
        f"the ranges of {len(purchase.columns)} columns ({names}) are to be bought from {n} rows: "
        "a reply cannot be expected, and all of eps would be spent. Declare what is known without "
        f"the data, bounds={{{purchase.columns[0]!r}: (lower, upper)}}, or use "
        f"{rows}a larger eps",
    )


def reaching(design: Design, asked: Design) -> Design:
    """Return the design with bought ranges widened: cells are clipped far beyond them."""
    names = asked.unknown
    wide = {}
    for column in design.z:
        if column.name in names and column.interval is not None:
            lo, hi = column.interval
            middle, half = (lo + hi) / 2.0, (hi - lo) / 2.0
            wide[column.name] = (middle - REACH * half, middle + REACH * half)
    return design.with_bounds(wide) if wide else design
