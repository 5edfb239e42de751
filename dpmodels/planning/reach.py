"""What n or what eps would reach a wanted error, or a power: planning by planning again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError, did_you_mean, shown

if TYPE_CHECKING:
    from dpmodels.planning.plan import Plan

__all__ = ["power", "reach"]

_MAX_N = 10**10
_MAX_EPS = 100.0


def _error(plan: Plan[Any], name: str) -> float:
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
    make: Callable[[int, float], Plan[Any]], n: int, eps: float, want: Mapping[str, float]
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


# -- power -----------------------------------------------------------------------------------------

#: What a plan takes for the sd of a column where nobody says it: this part of its declared range.
_SD = 0.25
#: What intervals allow for a bias, over the privacy error: .4 to .75 on simulated tables.
_BIAS = 0.5
#: Information of a row about the linear predictor, where nothing is said of the response's mean.
_INFORMATION = {"logit": 0.25, "probit": 0.64, "cloglog": 0.48, "log": 1.0}


def power(
    make: Callable[[int, float], Plan[Any]], n: int, eps: float, effect: Any, sd: Any
) -> tuple[str, ...]:
    """Return one sentence a coefficient: the power of its test, and what power .8 would take.

    Parameters
    ----------
    make, n, eps
        As in :func:`reach`.
    effect : mapping
        Column -> coefficient that should be found.
    sd : mapping or None
        Column (or response) -> its standard deviation; else a quarter of its declared range. Of the
        response of a linear model: that of the residuals.
    """
    plan = make(n, eps)
    known = [name for name in plan.expected_se if name != "Intercept"]
    if not known:
        raise RequestError(
            "power needs expected errors, which this plan does not have: more rows, declare every "
            "range, and take dp_ols by 'ssp' or dp_glm by 'scoring'"
        )
    if not isinstance(effect, Mapping) or not effect:
        raise RequestError(
            f"want='power' takes the effects to be found: effect={{{known[0]!r}: 0.1}}, in units "
            "of the coefficient"
        )
    spread = dict(sd or {})
    response = "" if plan.design.response is None else plan.design.response.name
    for where, names, all_ in (("effect", effect, known), ("sd", spread, [*known, response])):
        for name in names:
            if name not in all_:
                raise RequestError(
                    f"{where}= names {shown(name)}, which is no column of this design."
                    f"{did_you_mean(str(name), all_)} Columns: {', '.join(all_)}"
                )
            value = names[name]
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not (value > 0 if where == "sd" else value != 0):
                raise RequestError(f"{where}={{{name!r}: ...}} takes a number, got {shown(value)}")
    out = []
    for name, size in effect.items():

        def at(v: float, by: float, name: str = name, size: float = size) -> float:
            return _power(_parts(make(round(v), by), name, spread), abs(float(size)))

        sampling, privacy = _parts(plan, name, spread)
        now = at(n, eps)
        said = (
            f"{name}: power {now:.2f} to find {size:g} at level {1.0 - plan.request.level:.2g} "
            f"(expected error: sampling {sampling:.3g}, privacy {privacy:.3g})"
        )
        if now < 0.8:
            rows = _smallest(lambda v: at(v, eps) >= 0.8, float(n), float(_MAX_N))
            budget = _smallest(lambda v: at(n, v) >= 0.8, eps, _MAX_EPS)
            ways = [f"n = {math.ceil(rows)} at this eps"] if rows is not None else []
            ways += [f"eps = {budget:.3g} at this n"] if budget is not None else []
            found = partial(_power, (sampling, privacy))
            least = _smallest(lambda v: found(v) >= 0.8, abs(size), 1e300)  # noqa: B023
            ways += [f"an effect of {least:.3g}"] if least is not None else []
            said += f"; power .8 would take about {' or '.join(ways)}"
        out.append(said)
    out.append(
        "power: a guide, for uncorrelated predictors and a response of the sd given (sd=), else of "
        "a quarter of the declared range; the test allows for a bias of half the privacy error"
    )
    return tuple(out)


def _parts(plan: Plan[Any], name: str, sd: Mapping[str, float]) -> tuple[float, float]:
    """Return the expected sampling and privacy error of a coefficient."""
    own = next((c.interval for c in plan.design.columns if c.name == name), None)
    if own is None:
        raise RequestError(f"power needs the declared range of {name!r}")
    width = _SD * (own[1] - own[0])
    x = float(sd.get(name, width))
    y, rows = plan.design.response, plan.n
    if rows is None or y is None:
        raise RequestError("power needs a public number of rows: relation='replace'")
    private = plan.expected_se[name] * width / x
    link = str(plan.request.options.get("link") or "identity")
    if link in _INFORMATION:
        return 1.0 / (x * math.sqrt(rows * _INFORMATION[link])), private
    if y.interval is None:
        raise RequestError(f"power needs the declared range of {y.name!r}, or sd=")
    whole = _SD * (y.interval[1] - y.interval[0])
    residual = float(sd.get(y.name, whole))
    return residual / (x * math.sqrt(rows)), private * residual / whole


def _power(parts: tuple[float, float], effect: float) -> float:
    """Return the power of the two-sided test of 5 % that a summary prints."""
    from scipy.special import ndtr

    from dpmodels.after.wald import critical_value

    sampling, privacy = parts
    se = math.hypot(sampling, privacy)
    cut = float(critical_value(np.array(_BIAS * privacy / se), 0.95))
    return float(ndtr(effect / se - cut) + ndtr(-effect / se - cut))
