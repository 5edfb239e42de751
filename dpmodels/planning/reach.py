"""What n or what eps would reach a wanted standard error: planning by planning again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmodels.planning.plan import Plan

__all__ = ["reach"]

_MAX_N = 10**10
_MAX_EPS = 100.0


def _error(plan: Plan, name: str) -> float:
    return plan.expected_se.get(name, math.inf)


def _smallest(ok: Callable[[float], bool], low: float, high: float) -> float | None:
    """Return the smallest value in [low, high] with ok, within 1 %; None if there is none."""
    if ok(low):
        return low
    top = low
    while top < high:
        top = min(2.0 * top, high)
        if ok(top):
            break
    else:
        return None
    bottom = top / 2.0
    while top > 1.01 * bottom:
        middle = math.sqrt(bottom * top)
        bottom, top = (bottom, middle) if ok(middle) else (middle, top)
    return top


def reach(
    make: Callable[[int, float], Plan], n: int, eps: float, want: Mapping[str, float]
) -> tuple[str, ...]:
    """Return one sentence a wanted privacy standard error.

    Parameters
    ----------
    make : function
        (n, eps) -> Plan, the code of a fit.
    n, eps : int, float
        What is planned now.
    want : mapping
        Column -> wanted privacy standard error.
    """
    out = []
    for name, target in want.items():
        now = _error(make(n, eps), name)
        if math.isinf(now):
            out.append(
                f"{name}: this method's plan has no public expected error at this n and eps; "
                "declared ranges, more rows or a larger eps may give one"
            )
            continue
        if now <= target:
            out.append(
                f"{name}: the expected privacy se is {now:.3g}, within the wanted {target:g}"
            )
            continue

        def by_n(v: float, name: str = name, target: float = target) -> bool:
            return _error(make(round(v), eps), name) <= target

        def by_eps(v: float, name: str = name, target: float = target) -> bool:
            return _error(make(n, v), name) <= target

        rows = _smallest(by_n, float(n), float(_MAX_N))
        budget = _smallest(by_eps, eps, _MAX_EPS)
        ways = []
        if rows is not None:
            ways.append(f"n = {math.ceil(rows)} at this eps")
        if budget is not None:
            ways.append(f"eps = {budget:.3g} at this n")
        said = " or ".join(ways) or "nothing up to n = 1e10 and eps = 100"
        out.append(
            f"{name}: the expected privacy se is {now:.3g}; {target:g} would take about {said}"
        )
    return tuple(out)
