"""Forecasts of a plan: the n or eps of a wanted error, power, and errors over eps and over n.

Public numbers alone: a plan, and facts of the data that the user knows from elsewhere
(``Facts``). A forecast at another n or eps plans the same call again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.coefficient_forecasts import (
    Facts,
    alpha_of_request,
    check_correlations,
    error_of_row,
    family_of_request,
    level_shares,
    mean_of_response,
    rarer_share,
    variance_inflation,
)
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.families import EVENTS_OF_SURVIVAL
from dpmodels.planning import SPREAD, Plan, Replanning, spreads
from dpmodels.scoring.expected import Expectation, ScoreLengths, part_of_level, spread_of_tail

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.arrays import Array
    from dpmodels.families import Family
    from dpmodels.formula.design import Column


# -- What n or what eps would reach a wanted error, or a power: planning by planning again


_MAX_N = 10**10
_MAX_EPS = 100.0


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


def _would_take(ok: Callable[[int, float], bool], n: int, eps: float) -> list[str]:
    """Return the least n and the least eps at which ``ok(n, eps)``, as texts."""
    rows = _smallest(lambda v: ok(round(v), eps), float(n), float(_MAX_N))
    budget = _smallest(lambda v: ok(n, v), eps, _MAX_EPS)
    ways = [] if rows is None else [f"n = {math.ceil(rows)} at this eps"]
    return ways if budget is None else [*ways, f"eps = {budget:.3g} at this n"]


def error_advice(
    make: Callable[[int, float], Plan[Any]], n: int, eps: float, want: Mapping[str, float]
) -> tuple[str, ...]:
    """Return one sentence per requested privacy standard error.

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

        def error(n: int, eps: float, name: str = name) -> float:
            return make(n, eps).expected_se.get(name, math.inf)

        now = error(n, eps)
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
        ways = _would_take(lambda v, by: error(v, by) <= target, n, eps)  # noqa: B023
        answer = " or ".join(ways) or "nothing up to n = 1e10 and eps = 100"
        out.append(
            f"{name}: the expected privacy se is {now:.3g}; {target:g} would need about {answer}"
        )
    return tuple(out)


# -- Facts of the data that are known, and the errors that are expected then


def checked_facts(
    plan: Plan[Any], sd: Any, corr: Any, events: Any, tail: Any, rows: float | None
) -> Facts:
    """Return the typed facts, or refuse them."""
    response = "" if plan.design.response is None else plan.design.response.name
    names = [*(name for name in plan.design.names if name != "Intercept"), response]
    sds = _numbers_of("sd", {} if sd is None else sd, names, positive=True)
    mean = None if events is None else _checked_events(plan, events)
    share = None if tail is None else _checked_tail(plan, tail)
    correlations = check_correlations(plan.design, corr)
    if correlations and _takes_variances(plan):
        raise RequestError(
            f"corr= cannot be combined with method={plan.request.method.name!r}, which expects "
            "errors for uncorrelated columns. Drop corr=."
        )
    return Facts(sds, mean, correlations, share, 1.0 if rows is None else float(rows))


def _checked_events(plan: Plan[Any], events: Any) -> float:
    family, survival = family_of_request(plan.request), plan.request.verb == "dp_coxph"
    if not survival and (family is None or family.link == "identity"):
        raise RequestError(
            "events= is the mean of a response of events or counts, and this model has none: "
            "leave it out, or say how the response spreads by sd="
        )
    number = isinstance(events, (int, float)) and not isinstance(events, bool)
    top = 1.0 if survival or (family is not None and family.is_event) else math.inf
    if not number or not 0.0 < events <= top or (events == top == 1.0 and not survival):
        raise RequestError(
            "events= must be the share of rows (or people) with an event, as in events=0.3, or the "
            f"mean of a count, got {shown(events)}"
        )
    return float(events)


def _checked_tail(plan: Plan[Any], tail: Any) -> float:
    if not _has_tail(plan):
        raise RequestError(
            "tail= is the tail of a number or count in dp_ols or dp_glm, where scores have no "
            "bound. Leave it out, or say how many events there are by events="
        )
    number = isinstance(tail, (int, float)) and not isinstance(tail, bool)
    if not number or not 0.0 <= tail <= 1.0 / _TAIL_SDS**2:
        raise RequestError(
            "tail= must be the share of rows with a residual beyond four standard deviations, as "
            f"in tail=0.005 (at most 1/16), got {shown(tail)}"
        )
    return float(tail)


def _has_tail(plan: Plan[Any]) -> bool:
    """Return whether scores are as long as residuals: not of events, quantiles or survival."""
    family = family_of_request(plan.request)
    return plan.request.verb == "dp_ols" or (family is not None and not family.is_event)


def unit_error(plan: Plan[Any], facts: Facts) -> float | None:
    """Return the sampling error of a coefficient times root n, of a column of sd 1, or None.

    Of least squares the residual sd. Of a generalised linear model ``V^1/2 / (dmu/deta)`` at the
    mean of the response, V the variance of the family or the square of ``sd=`` of the response;
    of hazards ``1 / root(share of events)``. Of several rows a person, over their root.
    """
    if plan.request.verb == "dp_coxph":  # episodes of a person have one event
        return (EVENTS_OF_SURVIVAL if facts.events is None else facts.events) ** -0.5
    y, family = plan.design.response, family_of_request(plan.request)
    if y is None:
        return None
    if family is None or family.link == "identity":
        error = facts.sd.get(y.name, assumed_sds(plan).get(y.name))
    elif y.interval is None and facts.events is None:
        error = None
    else:
        error = _error_of_mean(plan, family, facts, y)
    return None if error is None else error / math.sqrt(facts.rows)


def _error_of_mean(plan: Plan[Any], family: Family, facts: Facts, y: Column) -> float:
    """Return the error of a row about its linear predictor, in a generalised linear model."""
    error = error_of_row(plan.request, family, y, facts)
    if y.name in facts.sd:
        ratio = facts.sd[y.name] / math.sqrt(_variance(plan, family, facts, y))
        # overdispersion of counts increases the error. Events that predictors explain vary less,
        # so that their information is smaller
        error *= 1.0 / ratio if family.is_event else ratio
    return error


def assumed_sds(plan: Plan[Any]) -> dict[str, float]:
    """Return the assumed sd of each column, and of the residuals under the response's name.

    Of columns with a declared range.
    """
    design = plan.design
    column_spreads = zip(design.columns, spreads(design).tolist(), strict=True)
    out = {
        c.name: spread * (1.0 if c.kind == "dummy" else (c.interval[1] - c.interval[0]) / 2.0)
        for c, spread in column_spreads
        if c.interval is not None and c.interval[0] < c.interval[1]
    }
    y = design.response
    if y is not None and y.interval is not None:
        model = getattr(plan.detail, "model", None) if plan.request.verb == "dp_ols" else None
        out[y.name] = getattr(model, "guess", SPREAD) / 2.0 * (y.interval[1] - y.interval[0])
    return out


def errors_as(plan: Plan[Any], facts: Facts) -> dict[str, float]:
    """Return the privacy errors that a plan without facts expects once these facts are known.

    The noise of a fit by scores is in proportion to the sampling error of a row; other methods
    know no residual.
    """
    if _takes_variances(plan):
        return dict(plan.expected_se)  # of these already
    assumed, ratio = assumed_sds(plan), 1.0
    if hasattr(plan.detail, "model"):
        error_of_facts, assumed_error = unit_error(plan, facts), unit_error(plan, Facts())
        if error_of_facts is not None and assumed_error:
            ratio = error_of_facts / assumed_error
        ratio *= _expectation(plan, facts).privacy
    factors = variance_inflation(plan.design, facts.correlations)
    return {
        name: error * ratio * math.sqrt(factors.get(name, 1.0))
        * (assumed[name] / facts.sd.get(name, assumed[name]) if name in assumed else 1.0)
        for name, error in plan.expected_se.items()
    }  # fmt: skip


def errors_by(
    make: Callable[[int, float], Plan[Any]], plan: Plan[Any], facts: Facts,
    options: Mapping[str, Any],
) -> tuple[Callable[[int, float], Plan[Any]], dict[str, Any]]:  # fmt: skip
    """Return ``make`` with errors expected of such data, and the options that say so.

    Of methods whose plans take variances, the options hold these and the sd of the residuals.
    """
    options = dict(options)
    if _takes_variances(plan):
        response = "" if plan.design.response is None else plan.design.response.name
        options = {"sigma": facts.sd.get(response), **options}
        options["variances"] = {k: v * v for k, v in facts.sd.items() if k != response}

    def rescaled(rows: int, budget: float) -> Plan[Any]:
        result = make(rows, budget)
        return replace(result, facts=facts, expected_se=errors_as(result, facts))

    return rescaled, options


def _takes_variances(plan: Plan[Any]) -> bool:
    return any(o.name == "variances" for o in plan.request.method.options)


def _numbers_of(
    where: str, numbers: Any, names: Sequence[str], *, positive: bool
) -> dict[str, float]:
    """Return numbers by column, or refuse them: positive, or different from zero."""
    if not isinstance(numbers, Mapping):
        raise RequestError(f"{where}= must be a mapping, {where}={{{names[0]!r}: 1}}")
    for name, value in numbers.items():
        if name not in names:
            raise RequestError(
                f"{where}= names {shown(name)}, which is not a column of this design."
                f"{did_you_mean(str(name), names)} Columns: {', '.join(names)}"
            )
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not (value > 0 if positive else value != 0):
            raise RequestError(f"{where}={{{name!r}: ...}} must be a number, got {shown(value)}")
    return dict(numbers)


# -- Expected inference: errors as printed, and the allowance for bias


#: Residuals count as a tail from this number of standard deviations on.
_TAIL_SDS = 4.0


@dataclass(frozen=True)
class CoefficientError:
    """Expected errors of a coefficient, and those that its interval will have."""

    sampling: float
    privacy: float
    level: float  # Level of the interval
    expected: Expectation

    @property
    def bias(self) -> Array:
        """Bias by clipping, of either sign, equally likely sizes."""
        return np.asarray(self.expected.part * self.privacy * self.expected.bias)

    @property
    def total(self) -> float:
        """Expected error of the estimate: root of sampling^2, privacy^2 and squared bias."""
        return math.sqrt(self.sampling**2 + self.privacy**2 + float(np.mean(self.bias**2)))

    @functools.cached_property
    def half_widths(self) -> Array:
        """Half widths of the interval that a summary prints, equally likely."""
        from dpmodels.after.inference import critical_value

        of = self.expected
        variance = of.printed_sampling * self.sampling**2 + of.printed_privacy * self.privacy**2
        se = np.sqrt(variance)
        return np.asarray(se * critical_value(self.privacy * of.bias / se, self.level))

    def power(self, effect: float) -> float:
        """Return the power of the test that a summary prints."""
        from scipy.special import ndtr

        se, bias = math.hypot(self.sampling, self.privacy), self.bias
        shifted = np.concatenate([effect - bias, effect + bias])
        widths = np.tile(self.half_widths, 2)
        return float(np.mean(ndtr((shifted - widths) / se) + ndtr((-shifted - widths) / se)))


def _coefficient_error(plan: Plan[Any], name: str) -> CoefficientError:
    """Return the expected errors of a coefficient."""
    facts = plan.facts
    assumed = assumed_sds(plan).get(name)
    if assumed is None:
        raise RequestError(f"power needs the declared range of {name!r}")
    rows = plan.people or plan.n
    if rows is None:
        raise RequestError("power needs a public number of rows: relation='replace'")
    error = unit_error(plan, facts)
    if error is None:
        y = plan.design.response
        raise RequestError(
            f"power needs the declared range of {'the response' if y is None else repr(y.name)}, "
            "or sd="
        )
    x = float(facts.sd.get(name, assumed))
    error *= math.sqrt(variance_inflation(plan.design, facts.correlations).get(name, 1.0))
    expected = _expectation(plan, facts, name)
    sampling = expected.sampling * error / (x * math.sqrt(rows))
    privacy = plan.expected_se.get(name, math.inf)
    return CoefficientError(sampling, privacy, plan.request.level, expected)


def _expectation(plan: Plan[Any], facts: Facts, name: str | None = None) -> Expectation:
    """Return the expected inference of a coefficient, or of a typical one.

    Of a fit by moments its errors are those of its plan, and it has no allowance for bias.
    """
    if not hasattr(plan.detail, "engine"):
        return Expectation()
    scoring = plan.detail.scoring(plan.design.p, plan.request.relation)
    share = None if name is None else _share_of_level(plan, facts, name)
    few = part_of_level(0.5 if share is None else share, scoring.p)
    stops = plan.design.survival is not None
    expected: Expectation = scoring.expected(_score_lengths(plan, facts), few, stops=stops)
    return expected


def _share_of_level(plan: Plan[Any], facts: Facts, name: str) -> float | None:
    """Return the share of the rows with a level, or with the rarer value of a binary column."""
    shares = level_shares(plan.design, facts.sd)
    if name not in shares and getattr(plan.design.kinds.get(name), "kind", "") == "binary":
        return rarer_share(facts.sd[name]) if name in facts.sd else None
    return shares.get(name)


def _score_lengths(plan: Plan[Any], facts: Facts) -> ScoreLengths:
    """Return the distribution of score lengths by the facts: normal residuals without a tail."""
    family, y = family_of_request(plan.request), plan.design.response
    if plan.design.survival is not None or y is None:
        return ScoreLengths()
    if family is not None and family.is_event:
        events = mean_of_response(family, y, facts)
        return ScoreLengths(rows=facts.rows, events=events)
    share = facts.tail
    if share is None and family is not None and family.counts:
        share = _tail_of_counts(plan, family, facts, y)
    return ScoreLengths(spread_of_tail(share or 0.0, _TAIL_SDS), facts.rows)


def _tail_is_open(plan: Plan[Any]) -> bool:
    """Return whether the plan assumes a normal tail where no fact says so."""
    family, y = family_of_request(plan.request), plan.design.response
    if y is None or not hasattr(plan.detail, "engine") or not _has_tail(plan):
        return False
    if plan.facts.tail is not None:
        return False
    return not (family is not None and family.counts and y.name in plan.facts.sd)


def _variance(plan: Plan[Any], family: Family, facts: Facts, y: Column) -> float:
    """Return the variance of the family at the mean of the response."""
    mean, alpha = mean_of_response(family, y, facts), alpha_of_request(plan.request)
    return float(family.variance(np.array([mean]), alpha)[0])


def _tail_of_counts(plan: Plan[Any], family: Family, facts: Facts, y: Column) -> float:
    """Return the share of negative binomial counts beyond four standard deviations."""
    from scipy.stats import nbinom, poisson

    mean = mean_of_response(family, y, facts)
    variance = _variance(plan, family, facts, y)
    if y.name in facts.sd:
        variance = facts.sd[y.name] ** 2
    top, over = mean + _TAIL_SDS * math.sqrt(variance), variance / mean - 1.0
    law = nbinom(mean / over, 1.0 / (1.0 + over)) if over > 1e-3 else poisson(mean)
    return float(law.sf(top))


# -- Power


#: Power is printed with a range: that of effects divided and multiplied by these factors. It holds
#: 29 of 30 designs (``benchmarks/results/forecasts.md``), and 14 of 16 that no constant was set on
#: (``benchmarks/results/scoring_rules.md``, 74).
POWER_RANGE = (1.5, 1.25)


def power(
    make: Callable[[int, float], Plan[Any]], n: int, eps: float, effect: Any
) -> tuple[str, ...]:
    """Return one sentence per coefficient: the power of its test, and the way to power .8.

    Parameters
    ----------
    make, n, eps
        As in :func:`error_advice`.
    effect : mapping
        Column -> coefficient that should be found.
    """
    plan = make(n, eps)
    names = [name for name in plan.expected_se if name != "Intercept"]
    if not names:
        raise RequestError(
            "power needs expected errors, which this plan does not have: declare every range, and "
            "use more rows or people, or dp_ols(method='ssp'), dp_glm(method='scoring')"
        )
    if not isinstance(effect, Mapping) or not effect:
        raise RequestError(
            f"want='power' needs the effects to detect: effect={{{names[0]!r}: 0.1}}, in units "
            "of the coefficient"
        )
    _numbers_of("effect", effect, names, positive=False)
    open_tail = _tail_is_open(plan)
    most = "at most " if open_tail or plan.design.survival is not None else ""
    out = []
    for name, size in effect.items():

        def at(v: int, by: float, name: str = name, size: float = size) -> float:
            return _coefficient_error(make(v, by), name).power(abs(float(size)))

        error = _coefficient_error(plan, name)
        low, now, high = (
            error.power(abs(float(size)) * by)
            for by in (1.0 / POWER_RANGE[0], 1.0, POWER_RANGE[1])
        )
        sentence = (
            f"{name}: power {most}{now:.2f} ({low:.2f} to {high:.2f}) to find {size:g} at level "
            f"{1.0 - error.level:.2g} (expected error: sampling {error.sampling:.3g}, privacy "
            f"{error.privacy:.3g})"
        )
        if now < 0.8:
            ways = _would_take(lambda v, by: at(v, by) >= 0.8, n, eps)
            power_at = error.power
            least = _smallest(lambda v: power_at(v) >= 0.8, abs(size), 1e300)  # noqa: B023
            ways += [f"an effect of {least:.3g}"] if least is not None else []
            sentence += f"; power .8 would need about {' or '.join(ways)}"
        out.append(sentence)
    out.append(
        "power: a guide, of the test of each coefficient alone. In brackets that with errors a "
        "half larger, and a fifth smaller. Standard deviations (sd=, that of the residuals for the "
        "response), correlations (corr=), the mean of events or counts (events=) and the share of "
        "residuals beyond four standard deviations (tail=) are those given, else the plan assumes "
        "them"
    )
    if open_tail:
        out.append(
            "power: at most, as the plan assumes normal residuals. Intervals allow for the bias by "
            "clipping a long tail, which is several errors if one residual in a hundred is beyond "
            "four standard deviations: say so by tail=0.01"
        )
    if plan.design.survival is not None:
        out.append(
            "power: at most, because follow-up is assumed to fill the declared range of times. A "
            "range many times too long costs most of the power"
        )
    if plan.request.unit is not None:
        out.append(
            f"power: for people of {plan.facts.rows:g} row(s) each (rows_per_unit=) that differ as "
            "much within as between people. A column that is constant within people has the power "
            "of one row a person"
        )
    return tuple(out)


# -- Expected errors on a grid of eps and of n


#: Factors of the planned eps and n at which a forecast is made: a quarter to four times.
_FACTORS = tuple(2.0 ** (k / 2.0) for k in range(-4, 5))


@dataclass(frozen=True)
class Replanned(Replanning):
    """Forecasts that plan the same call again."""

    make: Callable[[int, float], Plan[Any]]  # Plans at (n, eps)
    effects: Mapping[str, float] = field(default_factory=dict)  # Coefficients to find

    def frame(self, plan: Plan[Any]) -> pd.DataFrame:
        """Return the forecast of each coefficient on a grid of eps and a grid of n."""
        import pandas as pd

        n, eps, effects = plan.public_n, plan.request.eps, self.effects
        points = {("eps", f): (n, f * eps) for f in _FACTORS}
        points |= {("n", f): (max(round(f * n), 2), eps) for f in _FACTORS}
        rows = []
        for (along, _), (size, budget) in points.items():
            other = self.make(size, budget)
            for name in effects or [c for c in other.expected_se if c != "Intercept"]:
                if name not in other.expected_se:
                    continue
                error = _coefficient_error(other, name)
                width = float(np.mean(error.half_widths))
                power_ = error.power(abs(effects[name])) if name in effects else math.nan
                rows.append((along, budget, size, name, error.total, width, power_))
        columns = ["along", "eps", "n", "term", "error", "half_width", "power"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, plan: Plan[Any], axes: Any) -> Any:
        """Draw the forecast of each coefficient against eps (first axes) and against n (second)."""
        frame = self.frame(plan)
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(8.0, 3.6), layout="constrained").subplots(1, 2, sharey=True)
        value = "power" if self.effects else "half_width"
        label = "power at level .05" if self.effects else "expected half width (95 %)"
        planned = {"eps": plan.request.eps, "n": float(plan.public_n)}
        for ax, along in zip(axes, planned, strict=True):
            part = frame[frame["along"] == along]
            for k, (name, line) in enumerate(part.groupby("term", sort=False)):
                ax.plot(line[along], line[value], color=f"C{k}", label=str(name))
                here = line[np.isclose(line[along], planned[along])]
                ax.plot(here[along], here[value], "o", color=f"C{k}")
            ax.set(xscale="log", xlabel=along)
            if value == "half_width":
                ax.set_yscale("log")
        axes[0].set_ylabel(label)
        axes[-1].legend(fontsize="small", frameon=False)
        return axes
