"""``fit.score``, ``diagnose``, ``update``, ``cox_zph``: new releases about a fit, on given rows."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.api.multivariate import dp_mean, dp_moments
from dpmodels.api.releases import signed
from dpmodels.api.units import person_of
from dpmodels.arrays import Array, with_numpy_defaults
from dpmodels.door import checked, people_count, row_count, rows_of, run_stage
from dpmodels.errors import BudgetError, NotReleasedError, RequestError, choice, did_you_mean, shown
from dpmodels.families import LINKS, family_of
from dpmodels.formula.describe import public_points
from dpmodels.formula.schema import Schema, declared_schema
from dpmodels.formula.types import check_types
from dpmodels.models.holdout import (
    AtBounds,
    BinnedResiduals,
    ClassCounts,
    Diagnosis,
    HoldoutPlan,
    LossSums,
    Predictor,
    Score,
    Sums,
    auc_score,
    diagnosis,
    loss_score,
    noise_sd,
    plan_holdout,
    release,
)
from dpmodels.models.survival.hazard import Timeline
from dpmodels.models.survival.zph import TRANSFORMS, CoxZph, plan_zph, whitened, zph_of
from dpmodels.models.survival.zph import release as release_zph
from dpmodels.privacy.budget import current_budget
from dpmodels.privacy.statements import neighbours_of
from dpmodels.records import check_eps_delta
from dpmodels.registry import method_names, resolve
from dpmodels.results.fit import Fit
from dpmodels.sources.tasks import as_source
from dpmodels.survey import Survey
from dpmodels.units import column_of, named, unit_of
from dpmodels.verbs import verb_of

METRICS = ("auc", "logloss", "rmse")
#: Least probability of a prediction in a log loss.
_LEAST = 0.01
#: Squared errors are kept up to this many residual sds. Residuals of a diagnosis are too, and those
#: of skewed responses up to the second number.
_SDS, _LONG = 4.0, 8.0


@with_numpy_defaults
def score(
    fit: Fit, holdout: Any, *, eps: Any, delta: Any, metric: str | None, bins: int, clip: Any,
    budget: Any, seed: int | None,
) -> Score:  # fmt: skip
    """Release the performance of a fit on held-out rows; see ``Fit.score``."""
    eps, delta = check_eps_delta(eps, delta, allow_pure=True)
    event = _checked_fit(fit)
    metric = choice("metric", metric or ("auc" if event else "rmse"), METRICS)
    if metric != "rmse" and not event:
        raise RequestError(
            f"metric={metric!r} is for responses that are one of two (dp_glm, family='binomial'); "
            "this fit has a number: metric='rmse'"
        )
    predictor = _predictor(fit)
    what: Sums
    if metric == "auc":
        what = ClassCounts(predictor, _edges(fit, predictor, bins))
    else:
        loss = "log" if metric == "logloss" else "squared"
        what = LossSums(predictor, loss, _clip(fit, metric, clip))
    plan, (sums,) = _released(
        fit, holdout, {"score": (what, 1.0)}, eps, delta, f"score, metric={metric!r}", budget, seed
    )
    tau = noise_sd(plan, 0)
    if isinstance(what, ClassCounts):
        performance = auc_score(plan.guarantee, sums, what.edges, tau)
    else:
        performance = loss_score(metric, plan.guarantee, sums, what.clip, tau)
    return replace(performance, notes=(*performance.notes, *_rows_noted(fit)))


def _rows_noted(fit: Fit) -> tuple[str, ...]:
    """Return notes on the rows of a fit that its follow-up uses too, and on errors by cluster."""
    notes = [f"Of the rows with {fit.design.subset}, as the fit."] if fit.design.subset else []
    sample = fit._record.call.survey
    if sample is not None:
        of = Survey.from_dict(sample).text or "its design"
        notes.append(f"Errors assume that rows are independent; those of the fit are by {of}.")
    return tuple(notes)


@with_numpy_defaults
def diagnose(
    fit: Fit, data: Any, *, eps: Any, delta: Any, bins: int, budget: Any, seed: int | None
) -> Diagnosis:
    """Release diagnostics of a fit on rows; see ``Fit.diagnose``."""
    eps, delta = check_eps_delta(eps, delta, allow_pure=True)
    event = _checked_fit(fit)
    predictor = _predictor(fit)
    columns = [
        (j, c)
        for j, c in enumerate(fit.design.z)
        if c.interval is not None and c.kind not in ("intercept", "dummy", "contrast", "event")
    ]
    low, high = (np.array([c.interval[k] for _, c in columns]) for k in (0, 1))
    at = AtBounds(low, high, np.array([j for j, _ in columns], dtype=np.intp))
    edges = _edges(fit, predictor, bins)
    spread, notes = _spreads(fit, predictor, edges)
    sds = _SDS if fit.stats.get("sigma") else _LONG
    clip = 1.0 if event else min(sds * float(spread.max()), _width(fit))
    residuals = BinnedResiduals(predictor, edges, clip)
    parts: dict[str, tuple[Sums, float]] = {
        "cells at their bounds": (at, 0.3), "residuals by prediction": (residuals, 0.7),
    }  # fmt: skip
    plan, (counts, sums) = _released(fit, data, parts, eps, delta, "diagnose", budget, seed)
    diagnosed = diagnosis(
        plan.guarantee, plan.n, tuple(c.name for _, c in columns), counts, noise_sd(plan, 0),
        sums, edges, clip, noise_sd(plan, 1), spread,
    )  # fmt: skip
    return replace(diagnosed, notes=(*diagnosed.notes, *notes, *_rows_noted(fit)))


def _spreads(fit: Fit, predictor: Predictor, edges: Array) -> tuple[Array, tuple[str, ...]]:
    """Return the standard deviation of a response by bin of its prediction, and notes on it.

    It is that of the family at the fitted means, averaged over the public rows of the bin, with
    the released dispersion; of a linear model the released residual standard deviation.
    """
    seen = _public_means(fit, predictor)
    place = np.searchsorted(edges, seen, side="right")
    stats, bins = fit.stats, len(edges) + 1
    if verb_of(fit.model).loss == "family":
        family = family_of(fit.options["family"])
        phi = stats.get("dispersion") if family.dispersion == "free" else 1.0
        alpha = stats.get("alpha") or fit.options.get("alpha") or family.alpha or 1.0
        what = f"of family={family.name!r} at the fitted mean"
        if family.is_event or family.name in ("poisson", "geometric"):
            phi = 1.0 if phi is None or family.is_event else phi
        variance = None if phi is None else phi * family.variance(seen, float(alpha))
    elif fit.design.response.kind == "event":
        p = np.clip(seen, 0.0, 1.0)
        variance, what = p * (1.0 - p), "of events at the fitted probability"
    else:
        sigma = stats.get("sigma")
        variance = None if not sigma else np.full(len(seen), float(sigma) ** 2)
        what = "the released residual one"
    if variance is None:
        note = "No residual variance was released: errors of bins are bounds, and z is too small."
        return np.full(bins, _width(fit) / 4.0), (note,)
    total = np.bincount(place, weights=variance, minlength=bins)
    mean = total / np.maximum(np.bincount(place, minlength=bins), 1)
    note = f"Errors of bins assume that the spread of a row is {what}."
    return np.sqrt(np.maximum(mean, 1e-300)), (note,)


def _released(
    fit: Fit, data: Any, parts: dict[str, tuple[Sums, float]], eps: float, delta: float,
    label: str, budget: Any, seed: int | None,
) -> tuple[HoldoutPlan, tuple[Array, ...]]:  # fmt: skip
    """Check the table, charge, and call the one stage."""
    checked(budget, seed)
    unit = column_of(fit.privacy.unit)
    if unit is not None:
        raise RequestError(
            f"the fit protects {fit.privacy.unit}, and a held-out table would be scored row by "
            "row. Use a table with one row per person, and a fit without unit="
        )
    _check_relation(fit, "the number of held-out rows")
    _check_budget(fit, budget, fit.privacy.relation, None)
    source = _source(fit, data, "held-out table")
    n = row_count(source, None, fit.design.variables[0], asks_n=False)
    if n < 1:
        raise RequestError("the held-out table has no rows")
    plan = plan_holdout(fit.design, n, parts, eps, delta)
    call = f"{fit.model}({fit.formula!r}).{label}"
    rows = functools.partial(rows_of, source, n)
    door, answer = run_stage(call, plan, release, rows, budget, seed, what="the score is ")
    return replace(plan, guarantee=door.guarantee), answer


def _source(fit: Fit, data: Any, what: str) -> Any:
    """Return the table of a new release, which has the variables of the fit."""
    source = as_source(data)
    for name in fit.design.variables:
        if name not in source.kinds:
            raise RequestError(
                f"the {what} has no column {name!r}."
                f"{did_you_mean(name, source.kinds)} It needs {', '.join(fit.design.variables)}"
            )
    check_types(source.kinds, fit.design.kinds)
    return source


def _checked_fit(fit: Any) -> bool:
    """Refuse fits that do not predict a mean; return whether the response is an event."""
    design = fit.design
    if not fit.released:
        raise NotReleasedError("this fit got no reply: it predicts nothing")
    if design.response is None or fit.kind.predict != "dpmodels.results.effects:regression":
        raise RequestError(f"{fit.model} has no predictions of a mean to be scored")
    if design.offset is not None or design.weights is not None:
        raise RequestError("fits with offset() or weights= are not scored")
    if not np.isfinite(np.asarray(fit.params)).all():
        raise NotReleasedError("some coefficients of this fit are not known: it predicts nothing")
    return bool(design.response.kind == "event")


def _predictor(fit: Any) -> Predictor:
    """Return the predictor of a fit: its shrunken coefficients and the inverse of its link."""
    inverse = LINKS[fit.kind.link_name(fit.options)].inverse
    return Predictor(np.asarray(fit.shrunk, dtype=float), inverse)  # as ``predict`` does


def _edges(fit: Fit, predictor: Predictor, bins: Any) -> Array:
    """Return edges between bins: quantiles of predictions over the public box."""
    if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= 1000:
        raise RequestError("bins= is a whole number from 2 to 1000")
    return np.unique(np.quantile(_public_means(fit, predictor), np.arange(1, bins) / bins))


def _public_means(fit: Fit, predictor: Predictor) -> Array:
    """Return predictions of points of the public box."""
    X = np.asarray(fit.design.matrix(public_points(fit.design, 8192)), dtype=float)
    X = X[np.isfinite(X).all(axis=1)]
    return np.asarray(predictor.mean(X @ predictor.params))


def _width(fit: Fit) -> float:
    """Return the width of the response's range, or refuse a fit without one."""
    ends = fit.design.response.interval
    if ends is None:
        raise RequestError("the range of the response is not known: give clip=")
    return float(ends[1] - ends[0])


def _clip(fit: Fit, metric: str, clip: Any) -> float:
    """Return the largest loss of a row."""
    if clip is not None:
        if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not 0 < clip < 1e300:
            raise RequestError("clip= is the largest loss of a row, a positive number")
        return float(clip)
    if metric == "logloss":
        return -math.log(_LEAST)
    width, sigma = _width(fit), fit.stats.get("sigma")
    return width**2 if not sigma else min((_SDS * float(sigma)) ** 2, width**2)


# -- are hazards proportional ---------------------------------------------------------------------


@with_numpy_defaults
def cox_zph(
    fit: Any, data: Any, *, eps: Any, delta: Any, transform: str, intervals: Any, units: Any,
    budget: Any, seed: int | None,
) -> CoxZph:  # fmt: skip
    """Release scores of a Cox fit by interval of time; see ``Hazards.cox_zph``."""
    eps, delta = check_eps_delta(eps, delta)
    choice("transform", transform, TRANSFORMS)
    if isinstance(intervals, bool) or not isinstance(intervals, int) or not 2 <= intervals <= 20:
        raise RequestError("intervals= is a whole number of parts of the follow-up, from 2 to 20")
    checked(budget, seed)
    if not fit.released:
        raise NotReleasedError("this fit got no reply: there is nothing to check")
    column = column_of(fit.privacy.unit)
    _check_relation(fit, f"the number of {'rows' if column is None else 'people'} in the table")
    _check_budget(fit, budget, fit.privacy.relation, column)
    estimate: Any = fit._record.estimate
    arrays, design = fit.arrays, fit.design
    params = np.asarray(fit.params, dtype=float)
    finite = np.isfinite(params) & np.isfinite(np.diag(estimate.vcov_sampling))
    places = np.flatnonzero(finite)
    if not finite.any() or not np.isfinite(params).all():
        raise NotReleasedError("some coefficients of this fit are not known: nothing is checked")
    line = Timeline(*(np.asarray(arrays[k]) for k in ("edges", "baseline", "baseline_events")))
    joint = np.asarray(arrays["baseline_vcov"])
    joint_places = np.r_[0, places + 1, len(params) + 1 : len(joint)]
    seen = whitened(
        estimate.vcov_sampling[np.ix_(places, places)], joint[np.ix_(joint_places, joint_places)],
        float(fit.stats["events"]), places + 1, design.q,
    )  # fmt: skip
    source = _source(fit, data, "table")
    person = person_of(column, units, columns=source.kinds)
    if person is None:
        n = row_count(source, None, design.variables[0], asks_n=False)
    else:
        n = people_count(source, person, public_n=True)
    if n < 1:
        raise RequestError("the table has no rows")
    plan = plan_zph(
        design, n, fit.privacy.unit, seen, params[places], line, intervals, eps, delta,
        float(fit.stats["events"]),
    )  # fmt: skip
    rows = functools.partial(rows_of, source, n, person=person)
    call = f"{fit.model}({fit.formula!r}).cox_zph"
    door, flat = run_stage(call, plan, release_zph, rows, budget, seed, what="the check is ")
    names = tuple(estimate.names[k] for k in places)
    local = plan.local
    return zph_of(
        local.layout, names, params[places], seen.W, local.ends, flat, plan.noise, transform,
        door.guarantee,
    )  # fmt: skip


# -- a fit again, changed --------------------------------------------------------------------------


def updated(old: str, new: Any) -> str:
    """Return a formula with a dot for a side of the old one, as R's ``update.formula``.

    Terms that are taken away go; what cannot be found as a term stays as ``- term``.
    """
    if not isinstance(new, str) or not new.strip():
        raise RequestError(
            "update needs a formula in which a dot means that side of the old formula, "
            f"'~ . - x' or 'log(y) ~ . + z'; got {shown(new)}"
        )
    left, tilde, right = (part.strip() for part in new.partition("~"))
    if not tilde:
        raise RequestError(f"update needs a formula with '~': '~ {new.strip()}'")
    was_left, _, was_right = (part.strip() for part in old.partition("~"))
    left = re.sub(r"(?<![\w.])\.(?![\w.])", was_left, left or ".")
    if not re.search(r"(?<![\w.])\.(?![\w.])", right):
        return f"{left} ~ {right}"
    if "|" in was_right and right != ".":
        raise RequestError(
            f"a dot cannot replace both parts of {was_right!r}. Type the right side in full"
        )
    terms: list[tuple[str, str]] = []
    for sign, term in signed(right):
        listed = signed(was_right) if term == "." else [(sign, term)]
        for listed_sign, listed_term in listed:
            bare = "".join(listed_term.split())
            same = [k for k, (_, t) in enumerate(terms) if "".join(t.split()) == bare]
            if listed_sign == "-" and same and listed_term not in ("0", "1"):
                terms = [t for k, t in enumerate(terms) if k not in same]
            elif not (listed_sign == "+" and same):
                terms.append((listed_sign, listed_term))
    text = " ".join(f"{sign} {term}" for sign, term in terms).removeprefix("+ ") or "1"
    return f"{left} ~ {text}"


@with_numpy_defaults
def update(fit: Any, formula: Any, data: Any, *, eps: Any, delta: Any, **changed: Any) -> Any:
    """Make the call of a fit again, changed; see ``fit.update``."""
    import dpmodels as dp

    call = fit._record.call
    text = updated(call.formula, formula)
    function = getattr(dp, call.verb)
    free = isinstance(data, Fit) or hasattr(type(data), "__noisy_table__")
    if data is None or (not free and (eps is None or delta is None)):
        lacks = "data again, as a fit contains none" if data is None else "eps= and delta="
        raise RequestError(
            f"update makes a new release with a separate charge: it needs {lacks}. Type "
            f"fit.update({formula!r}, data, eps={fit.privacy.eps:g}, delta={fit.privacy.delta:g})"
        )
    odd = [k for k, v in call.options.items() if isinstance(v, str) and v.startswith("<")]
    absent = [k for k in odd if k not in changed]
    if absent:
        raise RequestError(
            f"{absent[0]}= of the old call was an object that a fit does not store: give it again"
        )
    if free:
        return function(text, data, **changed)
    arguments = {**_old_arguments(fit), "eps": eps, "delta": delta, **changed}
    attached = as_source(data).schema_attr
    if "schema" not in changed:
        arguments["schema"] = _old_schema(fit, attached)
    new = function(text, data, **arguments)
    eps, delta = (getattr(fit.privacy, k) + getattr(new.privacy, k) for k in ("eps", "delta"))
    both = messages.UPDATED_FIT(eps=eps, delta=delta)
    record = new._record
    estimate = replace(record.estimate, notes=(*record.estimate.notes, both))
    return Fit._of(replace(record, estimate=estimate))


def _rows_protected(fit: Any) -> dict[str, Any]:
    """Return the arguments for the rows that a fit used and for its unit of privacy."""
    design = fit.design
    return {
        "na": fit._record.call.na, "relation": fit.privacy.relation, "subset": design.subset,
        "weights": design.weights, "unit": column_of(fit.privacy.unit),
    }  # fmt: skip


def _without_defaults(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from those of a plain call."""
    plain = {"level": 0.95, "na": "zero-row", "relation": "replace", "inference": True}
    return {k: v for k, v in arguments.items() if v is not None and v != plain.get(k)}


def _old_schema(fit: Any, attached: Schema | None) -> Schema:
    """Return the schema of a fit, with units and strata, merged over the table's schema."""
    schema: Schema = fit.design.schema
    labels = fit._record.call.labels
    if labels is not None:  # of units and strata, which the formula does not name
        schema = Schema.from_dict(labels).update(schema)
    declared = declared_schema(None, attached)
    return schema if declared is None else declared.update(schema)


def _old_arguments(fit: Any) -> dict[str, Any]:
    """Return the arguments of a call that differ from their defaults."""
    call = fit._record.call
    defaults = {o.name: o.default for o in resolve(call.verb, call.method).options}
    options = {k: v for k, v in call.options.items() if k not in defaults or v != defaults[k]}
    common = {
        "method": call.method, "level": call.level, "inference": call.inference,
        **_rows_protected(fit),
    }  # fmt: skip
    if call.survey is not None:
        survey = Survey.from_dict(call.survey)
        if survey.errors_only:
            options = {**options, "vcov": {"CRV1": survey.psu}, "psus": survey.psus}
        else:
            options, common = {**options, "design": survey}, {**common, "weights": None}
    changed = _without_defaults(common)
    if len(method_names(call.verb)) == 1:  # a verb with one method need not take method=
        changed.pop("method", None)
    return {**options, **changed}


@with_numpy_defaults
def means(fit: Any, names: list[str], data: Any, *, budget: Any = None, **paid: Any) -> Any:
    """Release the means of the numeric predictors of a fit; see ``fit.avg_slopes``.

    They are those of the rows of the fit (its subset, weights and design of the sample), and the
    release protects whom the fit protects. Where the number of rows is private they are part of a
    release of second moments.
    """
    call, protection = fit._record.call, _rows_protected(fit)
    _check_budget(fit, budget, protection["relation"], protection["unit"])
    design = None
    if call.survey is not None:
        survey = Survey.from_dict(call.survey)
        weights = protection.pop("weights")
        design = replace(survey, weights=weights, errors_only=False)
    quoted = " + ".join(name if name.isidentifier() else f"`{name}`" for name in names)
    _check_means(protection, design, quoted)
    arguments = {
        **_without_defaults(protection),
        "schema": _old_schema(fit, as_source(data).schema_attr),
    }
    if protection["relation"] == "add-remove":
        guess = {"n_guess": call.options.get("n_guess")}
        return dp_moments(f"~ {quoted}", data, **arguments, **guess, budget=budget, **paid)
    if design is not None:
        arguments["design"] = design
    return dp_mean(f"{quoted} ~ 1", data, **arguments, budget=budget, **paid)


def _check_means(protection: dict[str, Any], design: Survey | None, quoted: str) -> None:
    """Refuse means that no method releases for the unit, relation and weights of the fit."""
    weighted = protection.get("weights") is not None or design is not None
    if not weighted or (protection["unit"] is None and protection["relation"] == "replace"):
        return
    whom = [f"unit={protection['unit']!r}"] if protection["unit"] is not None else []
    whom += ["relation='add-remove'"] if protection["relation"] == "add-remove" else []
    verb = "dp_mean" if protection["relation"] == "replace" else "dp_moments"
    raise RequestError(
        f"weighted means are released for rows and a public number of them, and this fit has "
        f"{', '.join(whom)}: give public rows, or means without weights, "
        f"newdata=dp.{verb}('~ {quoted}', data, eps=..., delta=..., {', '.join(whom)})"
    )


def _check_budget(fit: Any, budget: Any, relation: str, unit: str | None) -> None:
    """Refuse a budget that counts other units or neighbours than a follow-up of a fit protects.

    A follow-up under add-remove may also be charged to a budget by replace: it is converted.
    """
    checked(budget, None)
    budget = current_budget() if budget is None else budget
    if budget is None:
        return
    other = column_of(budget.unit) != unit
    if not other and (budget.relation == relation or relation == "add-remove"):
        return
    words = [f"unit={unit!r}"] if unit is not None else []
    words += [f"relation={relation!r}"] if relation != "replace" else []
    arguments = "".join(f", {word}" for word in words)
    raise BudgetError(
        f"a follow-up protects what its fit protects ({neighbours_of(relation, _unit(unit))}), and "
        f"this budget another ({neighbours_of(budget.relation, budget.unit)}). Charge it to "
        f"budget=dp.Budget(eps=..., delta=...{arguments})"
    )


def _unit(column: str | None) -> str:
    return "record" if column is None else unit_of(column)


def _check_relation(fit: Any, number: str) -> None:
    """Refuse a follow-up that needs a public number of units where the fit keeps it private."""
    if fit.privacy.relation == "add-remove":
        raise RequestError(
            f"the fit protects against adding or removing {named(fit.privacy.unit)}, and here "
            f"{number} would be public. Use a fit with relation='replace', where it is public"
        )
