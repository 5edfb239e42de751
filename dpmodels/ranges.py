"""Ranges estimated from the budget, and the division of a call's budget (``ranges.md``).

Per column: a histogram of binary exponents of differences of random pairs finds a scale; a
histogram of locations at that scale finds the range. Only non-empty bins get noise, and only
noisy counts above a threshold are kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.bought import SAMPLE_ROWS, Sample, random_sample
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.mechanisms import BOUGHT, Approximate, Gaussian, Pure, Step, mu_gdp
from dpmodels.privacy.returns import EARLY_ENDS_SHARE
from dpmodels.privacy.run import tail_margin
from dpmodels.records import Release, Request
from dpmodels.sums.ask import Ask


def plan_purchase(
    columns: tuple[str, ...], mu: float, delta: float, share: float | None = None
) -> tuple[Purchase, list[Step]]:
    """Declare the steps that estimate the ranges of V columns: two per column.

    Each has ``mu / sqrt(2 V)`` and ``delta / (2 V)`` of the Gaussian and the failure part of the
    whole purchase; ``share`` is what this takes of the call's currency, for the ledger.
    """
    v = len(columns)
    steps = [
        Step(
            f"{what} of {name}",
            Gaussian(mu / math.sqrt(2 * v)),
            share=None if share is None else share / (2 * v),
            failure=delta / (2 * v),
            reply_test=True,
            label=BOUGHT,
        )
        for name in columns
        for what in ("scale", "range")
    ]
    return Purchase(columns, mu, delta), steps


# -- How a call divides between the ranges that must be estimated and the rest (``ranges.md``,
# costs).


#: Part of delta for the failure of estimated ranges; methods with a test of their own
#: spend as much again on the failure of its bound.
FAILURE_SHARE = 0.1
#: An estimated range is a scale, not a claim: cells are clipped this many half widths from its
#: middle.
REACH = 64.0


@dataclass(frozen=True)
class Part:
    """Part of a call for estimating ranges, and the remainder of its budget."""

    share: float = 0.0  # Share of the currency (mu^2, or eps) spent on ranges; 0 without a purchase
    steps: tuple[Step, ...] = ()
    purchase: Purchase | None = None
    mu: float = 0.0  # Gaussian plans: mu of the *whole* call; a step of share s gets ``mu sqrt(s)``
    # (eps, delta) left for the rest, in plans by pairs.
    eps: float = 0.0
    delta: float = 0.0

    @property
    def printed(self) -> dict[str, float]:
        """Return the share of ranges as a plan prints it; none if no range is estimated."""
        return {} if self.purchase is None else {
            "ranges": math.fsum(s.share or 0.0 for s in self.steps if s.label == BOUGHT)
        }

    def mechanism(self, share: float) -> Gaussian | Pure:
        """Return the mechanism of a share of the whole call; Laplace noise where delta is 0."""
        return Gaussian(self.mu * math.sqrt(share)) if self.mu else Pure(self.eps * share)

    def coins(self, *names: str, test: float) -> list[Step]:
        """Return the steps: ranges, then the remainder in equal pairs, each a coin and Gaussian.

        ``test``: share of a pair's eps that its coin costs.
        """
        k = len(names)
        pair = Approximate(self.eps / k, self.delta / k)
        each = Step(
            "", pair, (1.0 - self.share) / k, 0.0, True, "ePTR coin and Gaussian",
            no_reply_eps=test * pair.eps,
        )  # fmt: skip
        return [*self.steps, *(replace(each, name=name) for name in names)]


def _check_purchase(request: Request, to_buy: tuple[str, ...]) -> None:
    """Refuse to estimate ranges where that has no proof."""
    shown = ", ".join(f'"{c}": (lower, upper)' for c in to_buy[:2])
    if request.relation != "replace":
        raise RequestError(
            f"ranges can be estimated under relation='replace' only: declare them, for example "
            f"bounds={{{shown}}}"
        )
    if request.delta == 0:
        raise RequestError(
            f"delta = 0 estimates no ranges (the search has a failure probability): declare them, "
            f"for example bounds={{{shown}}}"
        )


def bounds_share(request: Request, to_buy: object) -> float:
    """Return the share of the budget for estimating ranges: 0 if no range must be estimated."""
    return float(request["bounds_share"]) if to_buy else 0.0


def gaussian_part(
    request: Request, to_buy: tuple[str, ...], delta_f: float = 0.0, *, stops: bool = False
) -> Part:
    """Divide a call whose releases are Gaussian, or Laplace where delta is 0.

    ``delta_b = 0.1 delta`` if any range is estimated; ``mu = mu(eps, delta' - delta_b - delta_f)``;
    the ranges take ``bounds_share`` of mu^2. delta' is delta, less what is set aside where the call
    may end early: at a search for a range, at a test (``delta_f``), or where it ``stops``.
    """
    delta = request.delta
    if to_buy or delta_f or stops:
        delta *= 1.0 - EARLY_ENDS_SHARE
    if not to_buy:
        if request.delta == 0:
            return Part(eps=request.eps)
        return Part(mu=mu_gdp(request.eps, delta - delta_f))
    _check_purchase(request, to_buy)
    delta_b = FAILURE_SHARE * request.delta
    mu = mu_gdp(request.eps, delta - delta_b - delta_f)
    share = bounds_share(request, to_buy)
    purchase, steps = plan_purchase(to_buy, mu * math.sqrt(share), delta_b, share)
    return Part(share, tuple(steps), purchase, mu=mu)


class Split:
    """The Gaussian budget of a call: ranges first, the rest by shares, of which each is a step.

    ``split[name]`` is the mechanism of a share, and ``split.plan(n)`` the plan of all of them.
    ``steps``: printed name -> (name of the step, share of what ranges leave); a share of 0 is no
    step, and ``split=`` of the request says other shares of the same names. ``failure`` is the part
    of delta for the failure of ``test``, the share whose step decides on a reply. Ranges of columns
    without one are estimated, unless the method needs no ranges (``ranged=False``). ``first``:
    steps before these, within the same budget.
    """

    def __init__(
        self, request: Request, design: Design, steps: Mapping[str, tuple[str, float]], *,
        failure: float = 0.0, test: str = "", ranged: bool = True, first: Sequence[Step] = (),
    ) -> None:  # fmt: skip
        self.request, self.design = request, design
        self.bought = gaussian_part(request, design.unknown if ranged else (), failure)
        remainder = 1.0 - self.bought.share
        split = request.shares_of(name for name, (_, share) in steps.items() if share)
        self.shares = {
            name: remainder * (share if split is None else split[name])
            for name, (_, share) in steps.items()
            if share
        }
        self.parts = {k: self.bought.mechanism(v) for k, v in self.shares.items()}
        self.mu = {k: m.mu for k, m in self.parts.items() if isinstance(m, Gaussian)}
        self.first = first
        self.steps = [
            Step(steps[k][0], self.parts[k], share=v, reply_test=k == test,
                 failure=failure if k == test else 0.0)
            for k, v in self.shares.items()
        ]  # fmt: skip

    def __getitem__(self, name: str) -> Gaussian | Pure:
        return self.parts[name]

    def plan(self, n: int | None, **facts: Any) -> Plan[Any]:
        """Return the plan; its detail is the mechanism of each share by name."""
        before = {step.name: step.share or 0.0 for step in self.first}
        return Plan.of(
            self.request, self.design, n, [*self.bought.steps, *self.first, *self.steps],
            purchase=self.bought.purchase,
            **{"detail": self.parts, "shares": self.bought.printed | before | self.shares, **facts},
        )  # fmt: skip


def pair_part(request: Request, to_buy: tuple[str, ...]) -> Part:
    """Divide a call whose main part is known as a pair, by sums of (eps, delta).

    Ranges: ``mu(share eps, 0.1 delta)`` and failure ``0.1 delta``; the rest gets
    ``((1 - share) eps, 0.799 delta)``: a part of delta is set aside for early ends.
    """
    if not to_buy:
        return Part(eps=request.eps, delta=request.delta)
    _check_purchase(request, to_buy)
    share, part = bounds_share(request, to_buy), FAILURE_SHARE * request.delta
    purchase, steps = plan_purchase(to_buy, mu_gdp(share * request.eps, part), part, share)
    return Part(
        share,
        tuple(steps),
        purchase,
        eps=(1.0 - share) * request.eps,
        delta=(1.0 - EARLY_ENDS_SHARE) * request.delta - 2.0 * part,
    )


# -- The ranges of columns, from kept bins.


#: Reach of an estimated range, in standard deviations of the released histogram.
TAIL = 3.0


def threshold(purchase: Purchase) -> tuple[float, float]:
    """Return (sd, tau): noise of a count, and the count below which a bin is not kept.

    tau is raised by one grid step of the discrete noise.
    """
    bins = 2 * len(purchase.columns)
    sd = math.sqrt(2.0 * bins) / purchase.mu
    return sd, 1.0 + tail_margin(sd, purchase.delta / bins)


def extend_range(
    bins: list[int], counts: list[float], h: float, *, response: bool
) -> tuple[float, float]:
    """Return the range of the kept bins, widened where the released counts show a tail.

    Bins below the threshold are invisible: up to tau rows a side would be clipped, and clipping
    the response biases every interval. Where an end bin holds less than half of the fullest one
    the range reaches to ``TAIL`` standard deviations of the released histogram (post-processing,
    free); for the response also where fewer than four bins say nothing of the shape. A hard edge
    (a uniform or a two-point variable) is left alone.
    """
    w = np.asarray(counts)
    middle = (np.asarray(bins, dtype=float) + 0.5) * h
    mean = float(w @ middle / w.sum())
    sd = math.sqrt(float(w @ (middle - mean) ** 2 / w.sum()))
    lo, hi = bins[0] * h, (bins[-1] + 1) * h
    unknown_shape = response and len(bins) < 4
    if unknown_shape or 2.0 * counts[0] < max(counts):
        lo = min(lo, mean - TAIL * sd)
    if unknown_shape or 2.0 * counts[-1] < max(counts):
        hi = max(hi, mean + TAIL * sd)
    return lo, hi


def column_range(
    over: Sample, j: int, name: str, n: int, tau: float, *, response: bool
) -> tuple[float, float] | None:
    """Return [lo, hi] of one column, or None if a histogram keeps nothing."""
    base = 2 if n >= 12 * tau else 4
    bins, _ = over.scale_bins(j, name, base, tau)
    if not bins:
        return None
    scale = math.ldexp(1.0, (bins[-1] + 1) * (1 if base == 2 else 2))
    if base == 2:
        h = scale / 4 if n > 40 * tau else scale / 2
    else:
        h = scale / 8 if n > 40 * tau else scale / 4
    bins, counts = over.range_bins(j, name, h, tau)
    return extend_range(bins, counts, h, response=response) if bins else None


def buy_ranges(
    purchase: Purchase, design: Design, ask: Ask, *, wide: bool = False
) -> Design | None:
    """Buy the ranges of ``purchase.columns``; return the completed design, or None: no reply.

    There is none where some histogram kept no bin; the charge stands. ``wide``: the ranges of
    predictors are widened as those of the response (post-processing), for methods to which width
    costs little, since clipped predictors bias slopes.

    Privacy
    -------
    Unit: one row; replace-one, n public. One row changes one pair and one value of a column, so
    each histogram moves by sqrt(2); cost ``mu``-GDP plus ``delta``. Pairs come from a uniform
    permutation drawn without looking at the values, and are not kept. Where the unit is a person,
    the rows are people: one row of each, that of the smallest keyed hash (``units.md``, 5).
    """
    mean = design.response is None  # the columns themselves are what is averaged
    names = [*design.names, design.response.name if design.response else ""]
    _, tau = threshold(purchase)
    places = [
        len(names) - 1 if c == names[-1] and c else names.index(c) for c in purchase.columns
    ]
    over = random_sample(design, places, ask)
    read = ask.n if over.keep is None else len(over.keep)
    intervals: dict[str, tuple[float, float]] = {}
    for j, name in enumerate(purchase.columns):
        interval = column_range(
            over, j, name, read, tau, response=mean or wide or name == names[-1]
        )
        if interval is None:
            return None
        intervals[name] = interval
    ask.forget(over)  # the cells of a million rows are not kept through the passes to come
    return design.with_bounds(intervals)


def ranged_design(plan: Plan[Any], ask: Ask, *, wide: bool = False) -> Design | None:
    """Return the design with every range known, estimated if planned, or None after a no-reply.

    As :func:`buy_ranges`, whose privacy statement is that of this.
    """
    if plan.purchase is None:
        return plan.design
    return buy_ranges(plan.purchase, plan.design, ask, wide=wide)


def no_ranges(plan: Plan[Any]) -> Release:
    """Return the no-reply of a call whose ranges could not be estimated."""
    return Release({}, plan.guarantee, plan.design, reply=False, why="ranges")


def with_ranges(
    stage: Callable[[Plan[Any], Ask, Design], Release],
) -> Callable[[Plan[Any], Ask], Release]:
    """Give a release stage the design with every range known; it has no reply without one."""

    @functools.wraps(stage)
    def release(plan: Plan[Any], ask: Ask) -> Release:
        design = ranged_design(plan, ask)
        return no_ranges(plan) if design is None else stage(plan, ask, design)

    return release


# -- Probability that ranges can be estimated: a public number, before anything is charged


#: Below this chance of a reply a plan says so.
_POOR = 0.5


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def expected_reply(purchase: Purchase, n: int) -> float:
    """Return the probability that ranges can be estimated, for normal columns.

    This is the probability that in every histogram some bin exceeds the threshold. Otherwise the
    call returns no reply. The rule is that of :func:`column_range` for the
    fullest bin, averaged over the position of the unknown scale between powers of two. It is a
    function of public numbers only. A column with few values does better, one with heavy tails
    worse.
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
    """Return advice on an estimation of ranges that is unlikely to succeed, else an empty tuple.

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
        f"the ranges of {len(purchase.columns)} columns ({names}) are to be estimated from {n} "
        "rows: a reply cannot be expected, and all of eps would be spent. Declare what is known "
        f"without the data, bounds={{{purchase.columns[0]!r}: (lower, upper)}}, or use "
        f"{rows}a larger eps",
    )


def widen_ranges(design: Design, requested: Design) -> Design:
    """Return the design with estimated ranges widened: cells are clipped far beyond them."""
    names = requested.unknown
    wide = {}
    for column in design.z:
        if column.name in names and column.interval is not None:
            lo, hi = column.interval
            middle, half = (lo + hi) / 2.0, (hi - lo) / 2.0
            wide[column.name] = (middle - REACH * half, middle + REACH * half)
    return design.with_bounds(wide) if wide else design
