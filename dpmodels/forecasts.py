"""Forecasts of a plan: the n or eps of a wanted error, power, and errors over eps and over n.

Public numbers alone: a plan, and facts of the data that the user knows from elsewhere
(``Facts``). A forecast at another n or eps plans the same call again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmodels.after.inference import critical_value
from dpmodels.arrays import Array
from dpmodels.coefficient_forecasts import (
    Facts,
    alpha_of_request,
    check_correlations,
    error_of_row,
    family_of_request,
    mean_of_response,
    second_moments,
    variance_inflation,
)
from dpmodels.errors import RequestError, check_among, shown
from dpmodels.families import EVENTS_OF_SURVIVAL, Family
from dpmodels.formula.design import Column
from dpmodels.lazy import pd, special
from dpmodels.planning import EVEN, SPREAD, Later, Plan, Replanning, spreads
from dpmodels.records import Request
from dpmodels.scoring.expected import Expectation, ScoreLengths, spread_of_tail
from dpmodels.scoring.models import Quantile
from dpmodels.tables.pictures import line_styles, outside_legend, plain_log_axis

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
    plan: Plan[Any], sd: Any, corr: Any, events: Any, tail: Any, within: Any, icc: Any,
    rows: float | None,
) -> Facts:  # fmt: skip
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
    if rows is None:
        person = plan.request.unit
        rows = 1.0 if person is None or not of_effects(plan.request) else person.rows
    varies = frozenset[str]() if within is None else _checked_within(plan, within)
    correlation = None if icc is None else _checked_icc(plan, icc)
    return Facts(sds, mean, correlations, share, float(rows), varies, correlation)


def _checked_icc(plan: Plan[Any], icc: Any) -> float:
    if plan.request.unit is None or of_effects(plan.request):
        raise RequestError(
            "icc= is the correlation of two residuals of a person: it needs unit=, and a model "
            "without effects of people"
        )
    number = isinstance(icc, (int, float)) and not isinstance(icc, bool)
    if not number or not 0.0 <= icc <= 1.0:
        raise RequestError(
            f"icc= must be a correlation from 0 to 1, as in icc=0.4, got {shown(icc)}"
        )
    return float(icc)


def _checked_within(plan: Plan[Any], within: Any) -> frozenset[str]:
    """Return the columns of the terms and columns that vary within people, or refuse them."""
    if plan.request.unit is None:
        raise RequestError("within= names columns that vary within people, and needs unit=")
    columns = [c for c in plan.design.columns if c.kind != "intercept"]
    names = list(dict.fromkeys([*(c.term for c in columns), *(c.name for c in columns)]))
    within = [within] if isinstance(within, str) else within
    if not isinstance(within, Iterable) or isinstance(within, Mapping):
        raise RequestError(f"within= must be a list of columns, within=[{names[0]!r}]")
    chosen = list(within)
    for name in chosen:
        problem = f"within= names {shown(name)}, which is not a predictor of this design"
        check_among(name, names, problem, "Predictors:")
    return frozenset(c.name for c in columns if c.term in chosen or c.name in chosen)


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
    linear = plan.request.verb in ("dp_ols", "dp_feols")
    return linear or (family is not None and not family.is_event)


def _place(plan: Plan[Any], name: str) -> tuple[int, str]:
    """Return the model of a coefficient, among those of the call, and its column."""
    for i, chain in enumerate(getattr(plan.detail, "chains", ())):
        for column, label in zip(plan.design.names, chain.named(plan.design.names), strict=True):
            if label == name:
                return i, column
    return 0, name


def unit_error(plan: Plan[Any], facts: Facts, model: int = 0) -> float | None:
    """Return the sampling error of a coefficient times root n, of a column of sd 1, or None.

    Of least squares the residual sd, of quantiles that of normal residuals. Of a generalised
    linear model ``V^1/2 / (dmu/deta)`` at the mean of the response, V the variance of the family
    or the square of ``sd=`` of the response; of hazards ``1 / root(share of events)``. Of people
    as if each had one row.
    """
    if plan.request.verb == "dp_coxph":  # episodes of a person have one event
        return (EVENTS_OF_SURVIVAL if facts.events is None else facts.events) ** -0.5
    y, family = plan.design.response, family_of_request(plan.request)
    if y is None:
        return None
    if family is None or family.link == "identity":
        error = facts.sd.get(y.name, assumed_sds(plan).get(y.name))
        chains = getattr(plan.detail, "chains", ())
        return error if error is None or not chains else error * chains[model].score.normal_error
    if y.interval is None and facts.events is None:
        return None
    return _error_of_mean(plan, family, facts, y)


#: Correlation of two residuals of a person that a plan assumes without ``icc=``.
_OWN_CORRELATION = 0.45
#: Part of it that scores have: a column that is called constant varies a little within people.
_CONSTANT_PART = 0.75
#: The same of the differences from a person's mean, of which those of near rows are alike.
_OWN_CORRELATION_OF_EFFECTS = 0.1
#: Assumed sd within people over that of all rows, where the effects of people are removed.
_WITHIN_PART = 0.5


def mean_correlation(plan: Plan[Any], facts: Facts) -> float:
    """Return how the rows of a person correlate in a score, over its columns."""
    if of_effects(plan.request):
        return _OWN_CORRELATION_OF_EFFECTS
    if plan.request.options.get("re") is not None:
        return 0.0
    return _CONSTANT_PART * _icc(facts) * (1.0 - len(facts.within) / plan.design.p)


def _icc(facts: Facts) -> float:
    return _OWN_CORRELATION if facts.icc is None else facts.icc


def people_factor(plan: Plan[Any], facts: Facts, name: str | None = None) -> float:
    """Return the variance of a coefficient of people over that of people with one row each.

    Of rows that are independent 1/k, k the rows of a person; of a column that is constant within
    people ``(1 + (k - 1) rho)/k``. ``name``: None for the mean over columns, of which scores, and
    so their noise, are made.
    """
    k = facts.rows
    if plan.design.survival is not None:  # episodes of a person have one event, unless icc= says so
        return 1.0 if facts.icc is None else 1.0 + (k - 1.0) * facts.icc
    if k <= 1.0:
        return 1.0
    if of_effects(plan.request):
        return (1.0 + (k - 1.0) * _OWN_CORRELATION_OF_EFFECTS) / (k - 1.0)
    if plan.request.options.get("re") is not None and (name is None or name in facts.within):
        return (1.0 - _icc(facts)) / k  # what varies within people is freed of their own
    rho = _icc(facts) * (1.0 - len(facts.within) / plan.design.p)  # in full: that of the constant
    if name is not None:
        rho = 0.0 if name in facts.within else _CONSTANT_PART * _icc(facts)
    return (1.0 + (k - 1.0) * rho) / k


def of_effects(request: Request) -> bool:
    """Return whether a call removes the effects of people: its sds are those within people."""
    return request.verb in ("dp_feols", "dp_fepois") and request.options.get("re") is None


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
        linear = plan.request.verb in ("dp_ols", "dp_feols")
        model = getattr(plan.detail, "model", None) if linear else None
        out[y.name] = getattr(model, "guess", SPREAD) / 2.0 * (y.interval[1] - y.interval[0])
    if of_effects(plan.request):
        return {name: _WITHIN_PART * sd for name, sd in out.items()}
    return out


def errors_as(plan: Plan[Any], facts: Facts) -> dict[str, float]:
    """Return the privacy errors that a plan expects with these facts.

    The noise of a fit by scores is in proportion to the sampling error of a row; other methods
    know no residual.
    """
    if _takes_variances(plan):
        return dict(plan.expected_se)  # of these already
    if not hasattr(plan.detail, "scoring"):
        narrow = dict(zip(plan.design.names, _narrow(plan, facts).tolist(), strict=True))
        factors = variance_inflation(plan.design, facts.correlations)
        return {
            name: error * math.sqrt(factors.get(name, 1.0)) / narrow.get(name, 1.0)
            for name, error in plan.expected_se.items()
        }
    if plan.verdict == "not determined":
        return {}
    out: dict[str, float] = plan.detail.errors(
        lambda i, *at: _expectation(plan, facts, i, at).privacy, _moments(plan, facts),
        [_error_ratio(plan, facts, i) for i in range(len(plan.detail.chains))],
    )  # fmt: skip
    if plan.request.options.get("re") is not None:  # in proportion to each sampling error
        for name in out:
            factor = people_factor(plan, facts, _place(plan, name)[1])
            out[name] *= math.sqrt(factor / people_factor(plan, facts))
    return out


def _moments(plan: Plan[Any], facts: Facts) -> Array:
    """Return second moments of unit columns, (p, p), given or assumed."""
    sds = spreads(plan.design) * _narrow(plan, facts)
    if of_effects(plan.request):  # those within people are small, and known for numbers alone
        return np.diag(sds**2)
    return second_moments(plan.design, sds, facts, EVEN)


def _narrow(plan: Plan[Any], facts: Facts) -> Array:
    """Return the given sds of columns over those that the plan assumes, (p,)."""
    assumed = assumed_sds(plan)
    sds = [(name, assumed.get(name)) for name in plan.design.names]
    return np.array([facts.sd.get(name, sd) / sd if sd else 1.0 for name, sd in sds])


def _error_ratio(plan: Plan[Any], facts: Facts, model: int) -> float:
    """Return the error of a row by these facts over that of a plan without facts."""
    of_facts, assumed = unit_error(plan, facts, model), unit_error(plan, Facts(), model)
    ratio = of_facts / assumed if of_facts is not None and assumed else 1.0
    return ratio * math.sqrt(people_factor(plan, facts))


def with_errors(plan: Plan[Any], facts: Facts) -> Plan[Any]:
    """Return the plan with errors expected of such data."""
    errors = Later(functools.partial(errors_as, plan, facts))
    return replace(plan, facts=facts, expected_se=errors)


def options_by(plan: Plan[Any], facts: Facts, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options of a plan that takes variances and the sd of the residuals, else None."""
    if not _takes_variances(plan) or facts == Facts(rows=facts.rows):
        return None
    response = "" if plan.design.response is None else plan.design.response.name
    variances = {k: v * v for k, v in facts.sd.items() if k != response}
    return {"sigma": facts.sd.get(response), **options, "variances": variances}


def _takes_variances(plan: Plan[Any]) -> bool:
    return any(o.name == "variances" for o in plan.request.method.options)


def _numbers_of(
    where: str, numbers: Any, names: Sequence[str], *, positive: bool
) -> dict[str, float]:
    """Return numbers by column, or refuse them: positive, or different from zero."""
    if not isinstance(numbers, Mapping):
        raise RequestError(f"{where}= must be a mapping, {where}={{{names[0]!r}: 1}}")
    for name, value in numbers.items():
        problem = f"{where}= names {shown(name)}, which is not a column of this design"
        check_among(name, names, problem, "Columns:")
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
        of = self.expected
        variance = of.printed_sampling * self.sampling**2 + of.printed_privacy * self.privacy**2
        se = np.sqrt(variance)
        return np.asarray(se * critical_value(self.privacy * of.bias / se, self.level))

    def power(self, effect: float) -> float:
        """Return the power of the test that a summary prints."""
        se, bias = math.hypot(self.sampling, self.privacy), self.bias
        shifted = np.concatenate([effect - bias, effect + bias])
        widths = np.tile(self.half_widths, 2)
        tails = (special.ndtr((side * shifted - widths) / se) for side in (1.0, -1.0))
        return float(np.mean(sum(tails)))


def _coefficient_error(
    plan: Plan[Any], name: str, expectation: Callable[[int], Expectation] | None = None
) -> CoefficientError:
    """Return the expected errors of a coefficient; ``expectation``: that of each model, if kept."""
    facts = plan.facts
    model, column = _place(plan, name)
    assumed = assumed_sds(plan).get(column)
    if assumed is None:
        raise RequestError(f"power needs the declared range of {name!r}")
    rows = plan.people or plan.n
    if rows is None:
        raise RequestError("power needs a public number of rows: relation='replace'")
    error = unit_error(plan, facts, model)
    if error is None:
        y = plan.design.response
        raise RequestError(
            f"power needs the declared range of {'the response' if y is None else repr(y.name)}, "
            "or sd="
        )
    expected = expectation(model) if expectation else _expectation(plan, facts, model)
    privacy = plan.expected_se.get(name, math.inf)
    if hasattr(plan.detail, "scoring"):  # a score has the variance 1/n by rows
        factor = 1.0
        if plan.request.options.get("re") is None:
            factor = people_factor(plan, facts, column) / people_factor(plan, facts)
        sampling = expected.sampling * privacy / expected.privacy * math.sqrt(factor / rows)
    else:
        x = float(facts.sd.get(column, assumed)) * math.sqrt(rows)
        factor = variance_inflation(plan.design, facts.correlations).get(column, 1.0)
        sampling = error / x * math.sqrt(factor * people_factor(plan, facts, column))
    return CoefficientError(sampling, privacy, plan.request.level, expected)


def _expectation(
    plan: Plan[Any], facts: Facts, model: int, at: tuple[Any, ...] = ()
) -> Expectation:
    """Return the expected inference of a coefficient; ``at``: its state and coordinates, if known.

    Of a fit by moments its errors are those of its plan, and it has no allowance for bias.
    """
    if not hasattr(plan.detail, "scoring"):
        return Expectation()
    state, coordinates = at or plan.detail.guessed(
        model, _moments(plan, facts), _error_ratio(plan, facts, model)
    )
    scoring = plan.detail.scoring(coordinates.rank, plan.request.relation)
    lengths = _score_lengths(plan, facts, model)
    return scoring.expected(model, lengths, state, coordinates, plan.design)


def _score_lengths(plan: Plan[Any], facts: Facts, model: int = 0) -> ScoreLengths:
    """Return the distribution of score lengths by the facts: normal residuals without a tail."""
    family, y = family_of_request(plan.request), plan.design.response
    if plan.design.survival is not None or y is None:
        return ScoreLengths()
    rho = mean_correlation(plan, facts)
    score = plan.detail.chains[model].score  # of people a model of units
    if isinstance(score, Quantile):  # a residual above the fit is an event
        return ScoreLengths(events=1.0 - score.tau)
    if family is not None and family.is_event:
        events = mean_of_response(family, y, facts)
        return ScoreLengths(rows=facts.rows, rho=rho, events=events)
    share = facts.tail
    if share is None and family is not None and family.counts:
        share = _tail_of_counts(plan, family, facts, y)
        rho = 1.0  # a long tail of counts is that of people
    return ScoreLengths(spread_of_tail(share or 0.0, _TAIL_SDS), facts.rows, rho)


def _tail_is_open(plan: Plan[Any]) -> bool:
    """Return whether the plan assumes a normal tail where no fact says so."""
    family, y = family_of_request(plan.request), plan.design.response
    if y is None or not hasattr(plan.detail, "scoring") or not _has_tail(plan):
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
#: 30 of 30 designs (``benchmarks/results/forecasts.md``), and 14 of 16 that no constant was set on
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
            error.power(abs(float(size)) * by) for by in (1.0 / POWER_RANGE[0], 1.0, POWER_RANGE[1])
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
        out.append(_about_people(plan))
    return tuple(out)


def _about_people(plan: Plan[Any]) -> str:
    """Return the assumptions of a plan about the rows of a person."""
    rows = f"power: for people of {plan.facts.rows:g} row(s) each (rows_per_unit=)"
    if of_effects(plan.request):
        return f"{rows}; sd= is that of a person's rows about their mean"
    icc = _icc(plan.facts)
    constant = "" if plan.facts.within else ", which are all"
    return (
        f"{rows}, whose residuals correlate by {icc:g} (icc=), with predictors that are "
        f"constant within people{constant} but those in within="
    )


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
        n, eps, effects = plan.public_n, plan.request.eps, self.effects
        points = {("eps", f): (n, f * eps) for f in _FACTORS}
        points |= {("n", f): (max(round(f * n), 2), eps) for f in _FACTORS}
        rows = []
        for (along, _), (size, budget) in points.items():
            other = self.make(size, budget)
            expectation = functools.cache(functools.partial(_expectation, other, other.facts))
            for name in effects or [c for c in other.expected_se if c != "Intercept"]:
                if name not in other.expected_se:
                    continue
                error = _coefficient_error(other, name, expectation)
                width = float(np.mean(error.half_widths))
                power_ = error.power(abs(effects[name])) if name in effects else math.nan
                rows.append((along, budget, size, name, error.total, width, power_))
        columns = ["along", "eps", "n", "term", "error", "half_width", "power"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, plan: Plan[Any], axes: Any) -> Any:
        """Draw the forecast of each coefficient against eps (first axes) and against n (second)."""
        frame = self.frame(plan)
        ours = axes is None
        if ours:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(9.0, 3.6), layout="constrained").subplots(1, 2, sharey=True)
        value = "power" if self.effects else "half_width"
        label = "power at level .05" if self.effects else "expected half width (95 %)"
        planned = {"eps": plan.request.eps, "n": float(plan.public_n)}
        for ax, along in zip(axes, planned, strict=True):
            part = frame[frame["along"] == along]
            lines = list(part.groupby("term", sort=False))
            for k, (name, line) in enumerate(lines):
                dashes = line_styles(len(lines))[k]
                ax.plot(line[along], line[value], color=f"C{k}", label=str(name), linestyle=dashes)
                here = line[np.isclose(line[along], planned[along])]
                ax.plot(here[along], here[value], "o", color=f"C{k}")
            ax.set(xscale="log", xlabel=along)
            plain_log_axis(ax.xaxis, part[along].min(), part[along].max())
            if value == "half_width":
                ax.set_yscale("log")
                plain_log_axis(ax.yaxis, frame[value].min(), frame[value].max())
        axes[0].set_ylabel(label)
        outside_legend(axes[-1], outside=ours)
        return axes
