"""The body that all formula verbs share: a table or a release of one, a request, a run, a fit."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dpmodels import _testing
from dpmodels.api.releases import fit_on_moments, fit_on_release, holds_moments, is_release, require
from dpmodels.api.requests import Choice, Designed, build_chosen, check_first, not_the_private_data
from dpmodels.door import answered, checked, people_count, row_count, rows_of
from dpmodels.errors import (
    DPModelsError,
    NoReplyError,
    NoReplyWarning,
    PrivacyBugError,
    RequestError,
    SourceError,
    UtilityWarning,
)
from dpmodels.planning import Plan, capped_plan, check_size
from dpmodels.quiet import one_thread, tell
from dpmodels.sources.tasks import Elsewhere, as_source, need_rows
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from dpmodels.records import Estimate, Release, Request
    from dpmodels.registry import Backend
    from dpmodels.results import Fit
    from dpmodels.sources.tables import Source

__all__ = ["execute", "fit_formula", "make_plan"]


# -- The one route of every fit: plan, open the door, release, estimate.


T = TypeVar("T")


def make_plan(call: Designed, n: int | None) -> Plan[Any]:
    """Return the plan of a call: the same code for ``plan()`` and for a fit.

    Parameters
    ----------
    call : Designed
    n : int or None
        Number of rows, or of people. Dropped here where it is private, so that no plan can depend
        on it: under add-remove a method's ``plan`` is handed None.
    """
    request = call.request
    if request.relation != "replace":
        n = None
    elif n is None or n < 1:
        raise RequestError("the table has no rows")
    large = check_size(request, call.design, n)
    backend, reasons = request.method.chosen(request)
    _serves_people(request, backend, reasons)
    request = replace(request, reasons=(*request.reasons, *reasons))
    planned: Any = backend.plan
    if request.unit is not None and request.unit.most:
        planned = functools.partial(capped_plan, planned)
    with one_thread():
        plan = _finite(planned, "Nothing was read or charged")(request, call.design, n)
    plan = replace(plan, backend=backend, advice=(*plan.advice, *large, *_two_valued(plan)))
    if plan.purchase is not None and n is not None:
        from dpmodels.ranges import purchase_advice

        plan = replace(plan, advice=(*purchase_advice(plan.purchase, n), *plan.advice))
    if request.seed is not None or _testing.NOISE.get() is not None:
        plan = replace(plan, guarantee=replace(plan.guarantee, seeded=True))
    return plan


def _two_valued(plan: Plan[Any]) -> list[str]:
    """Say which verb is for a response of two values: by the schema alone."""
    request, response = plan.request, plan.design.response
    if request.verb != "dp_ols" or response is None:
        return []
    if getattr(plan.design.kinds.get(response.name), "kind", "") != "binary":
        return []
    return [
        f"{response.name} is 0/1: coefficients are differences of probabilities, and rare events "
        f'count as outlying rows. For odds ratios: dp.dp_glm("{request.formula}", ...)'
    ]


def _finite(step: Callable[..., T], charged: str) -> Callable[..., T]:
    """Return a public step whose failures on numbers too extreme for floats say so.

    Privacy: plans know public facts and estimates released numbers, so what went wrong may be told.
    """

    def done(given: Any, *rest: Any) -> T:
        request: Request = getattr(given, "request", given)
        try:
            return step(given, *rest)
        except (ArithmeticError, ValueError, IndexError, PrivacyBugError) as error:
            ours = isinstance(error, DPModelsError)
            if ours and not (isinstance(error, PrivacyBugError) and _extreme(request)):
                raise
            numeric = isinstance(error, ArithmeticError) or type(error).__name__ == "LinAlgError"
            if not (numeric or _extreme(request)):
                raise
            raise RequestError(
                f"{request.verb}(method={request.method.name!r}) cannot be computed at eps = "
                f"{request.eps:g}, delta = {request.delta:g} with these ranges and options: some "
                f"number on the way is beyond floating point ({type(error).__name__}: {error}). "
                f"{charged}. Take less extreme numbers; delta is usually between 1e-4 and 1e-12"
            ) from error

    return done


def _extreme(request: Request) -> bool:
    """Tell if eps or delta is where formulas of floats may leave their range."""
    return not 1e-9 < request.eps < 1e4 or 0.0 < request.delta < 1e-60 or request.delta > 0.999


def _serves_people(request: Request, backend: Backend, reasons: tuple[str, ...]) -> None:
    """Refuse a call for people whose backend has a proof for rows only."""
    able = backend.people
    if request.unit is None or (able and not request.unit.most):
        return
    if able and not request.method.kept:
        raise RequestError(
            f"{request.verb}(method={request.method.name!r}) has a proof for people with any "
            "number of rows: leave max_rows= out"
        )
    if request.unit.most:
        return
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise RequestError(
        f"{request.verb}(method={request.method.name!r}) has a proof for people "
        f"(unit={request.unit.column!r}) only where it ends by scoring; this call would not"
        f"{why}. Leave out what asks for the other ending, or keep at most m rows a person "
        "and pay for m: max_rows=2"
    )


def execute(call: Designed, source: Source, budget: Any) -> tuple[Plan[Any], Release, Estimate]:
    """Plan, charge the budget, and only then read rows and draw noise.

    Returns
    -------
    Plan, Release, Estimate
    """
    from dpmodels.sources.rows import READ_ONCE
    checked(budget, call.request.seed)
    public_n, person = call.request.relation == "replace", call.request.unit
    if person is not None:
        n = people_count(source, person, public_n=public_n)
    else:
        n = row_count(
            source, call.n if public_n or source.n is None else None, next(iter(call.design.kinds))
        )
    plan = make_plan(call, n if public_n else None)
    request = call.request
    if plan.passes > 1 and not source.rescannable and person is None:
        raise SourceError(READ_ONCE)
    if request.method.by_rows:
        need_rows(source, f"{request.verb}(method={request.method.name!r})")
    if plan.purchase is not None and isinstance(source, Elsewhere):
        raise RequestError(
            "ranges are bought from pairs of rows themselves, which are not here: declare "
            f"them, bounds={{{plan.purchase.columns[0]!r}: (lower, upper)}}"
        )
    backend = plan.backend
    rows = functools.partial(
        rows_of, source, n, request.progress, public_n=public_n, passes=plan.passes, person=person,
        kinds=plan.design.kinds, seed=request.seed,
    )  # fmt: skip
    door, release = answered(
        _label(plan), plan, backend.release, rows, budget, request.seed, what="the fit is "
    )
    with one_thread():
        estimate = _finite(backend.estimate, "The charge stands")(plan, release)
    estimate = estimate.of_copied_rows(plan.request.copies)
    door.note(release.reply)
    for step, text in release.remarks.items():
        door.remark(step, text)
    if not release.reply and request.on_no_reply == "default":
        estimate = replace(estimate, params=_default_reply(plan, estimate))
    _after(plan, release, estimate)
    return plan, release, estimate


def _default_reply(plan: Plan[Any], estimate: Estimate) -> Any:
    """Return the fixed, public reply: no effect of anything, the response in mid-range."""
    import numpy as np

    params = np.zeros(len(estimate.names))
    response = plan.design.response
    if "Intercept" in estimate.names and response is not None and response.interval is not None:
        params[estimate.names.index("Intercept")] = sum(response.interval) / 2.0
    return params


def _label(plan: Plan[Any]) -> str:
    """Return the call as the ledger prints it: formula, and what changes the release."""
    request = plan.request
    defaults = {option.name: option.default for option in request.method.options}
    own = {k: v for k, v in request.options.items() if k in defaults and _differs(v, defaults[k])}
    if own.get("link") == verb_of(request.verb).link:
        del own["link"]
    formula, person = request.formula, request.unit
    if person is not None and request.verb in _EFFECTS and not own.get("re"):
        formula = f"{formula} | {person.column}"
    elif person is not None:
        own["unit"] = person.column
    if person is not None and person.most:
        own["max_rows"] = person.most
    for name in ("weights", "subset"):
        if getattr(request, name) is not None:
            own[name] = getattr(request, name)
    if request.sample is not None:
        own["design"] = request.sample.frame.survey.text
    words = [f'{request.verb}("{formula}"', f'method="{request.method.name}"']
    words += [f"{name}={_written(value)}" for name, value in own.items()]
    return ", ".join(words) + ")"


def _differs(value: Any, default: Any) -> bool:
    """Say whether an option is not its default; tables and arrays are never one."""
    plain = isinstance(value, (str, int, float, bool, tuple, list, dict, type(None)))
    return not plain or bool(value != default)


#: Verbs that take the effects of people behind a bar.
_EFFECTS = ("dp_feols", "dp_fepois")


def _written(value: Any) -> str:
    """Return an option as it is typed; of what is long its beginning."""
    text = json.dumps(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"<{type(value).__name__}>"


def _after(plan: Plan[Any], release: Release, estimate: Estimate) -> None:
    tell(*map(UtilityWarning, estimate.warnings))
    if not release.reply:
        if plan.request.on_no_reply == "raise":
            raise NoReplyError(
                "the private test did not pass: no reply (a valid private outcome). The full "
                f"charge (eps = {plan.guarantee.eps:g}, delta = {plan.guarantee.delta:g}) stands"
            )
        tell(NoReplyWarning("no reply: the private test did not pass; the charge stands"))


# -- The body that all formula verbs share: a table or a release of one, a request, a run, a fit.


#: Verbs that a release of second moments serves in a table's place.
ON_MOMENTS = ("dp_ols",)
_BLANK: dict[str, Any] = {
    "schema": None,
    "bounds": None,
    "public": None,
    "inference": True,
    "progress": None,
}
#: What is no option: an argument of another name is the verb's own, and goes with its options.
_CALL = {*_BLANK, "seed", "options", "design_options"}


def fit_formula(
    verb: str,
    formula: str,
    data: Any,
    *,
    budget: Any,
    eps: Any,
    delta: Any,
    method: str | None,
    default: str | Callable[[], Choice],
    **call: Any,
) -> Fit:
    """Run one call of a verb on a table, or on a release in a table's place.

    Parameters
    ----------
    verb, formula, data
    budget : Budget or None
    eps, delta : float
        Not given with a release: its guarantee is already paid for.
    method : str or None
    default : str or function
        Method where none is asked for, or a function that chooses it.
    **call
        The other arguments of the verb, each under its own name.
    """
    from dpmodels.registry import method_names
    from dpmodels.results import Fit

    own = {name: call.pop(name) for name in [*call] if name not in _CALL}
    if own.get("unit") is None:
        own.pop("unit", None)  # a word of some methods: not given is not said
    call = {**_BLANK, **call, "options": {**call.get("options", {}), **own}}
    if is_release(data) and "drcl" in method_names(verb):
        return fit_on_release(
            verb, formula, data, eps=eps, delta=delta, method=method, budget=budget, **call
        )
    if holds_moments(data) and verb in ON_MOMENTS:
        return fit_on_moments(
            verb, formula, data, eps=eps, delta=delta, method=method, budget=budget, **call
        )
    if holds_moments(data):
        raise RequestError(
            f"{verb} takes a table, got a fit. A release of second moments serves "
            f"{', '.join(ON_MOMENTS)} and dp_iv"
        )
    check_first(formula)
    require(verb, eps, delta, call.get("options"))
    not_the_private_data(call["public"], data)
    chosen = default() if callable(default) else Choice(method or default)
    source = as_source(data)
    request = build_chosen(
        verb,
        formula,
        chosen,
        eps=eps,
        delta=delta,
        kinds=source.kinds,
        attached=source.schema_attr,
        **call,
    )
    return Fit(*execute(request, source, budget))
