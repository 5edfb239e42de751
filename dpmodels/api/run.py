"""The one route of every fit: plan, charge, read, release, estimate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels import _testing
from dpmodels._guard import guarded
from dpmodels.errors import (
    BudgetError,
    NoReplyError,
    NoReplyWarning,
    NotPrivateWarning,
    RequestError,
    SourceError,
    UtilityWarning,
)
from dpmodels.privacy.noise import make_noise
from dpmodels.privacy.run import Run

if TYPE_CHECKING:
    from dpmodels.api.building import Call
    from dpmodels.estimate import Estimate
    from dpmodels.planning import Plan
    from dpmodels.release import Release
    from dpmodels.sources.adapt import Source
    from dpmodels.sources.rows import Rows

__all__ = ["execute", "guarded", "make_plan", "row_count"]


def row_count(source: Source, declared: int | None, name: str) -> int:
    """Return the public number of rows, counting a source that does not state it."""
    if source.n is not None:
        if declared is not None and declared != source.n:
            raise RequestError(f"n={declared} was given, but the table has {source.n} rows")
        return source.n
    if declared is not None:
        return declared
    if not source.rescannable:
        raise RequestError(
            "an iterator of tables does not say how many rows it has: add n=<number of rows>"
        )
    from dpmodels.sources.rows import count_rows

    return guarded(lambda: count_rows(source, name), charged=False)


def make_plan(call: Call, n: int) -> Plan:
    """Return the plan of a call: the same code for ``plan()`` and for a fit."""
    request = call.request
    if n < 1 and request.relation == "replace":  # under add-remove the count is private
        raise RequestError("the table has no rows")
    plan = request.method.load().plan(request, call.design, n)
    if plan.purchase is not None and request.relation == "replace":
        from dpmodels.ranges.expected import purchase_advice

        plan = replace(plan, advice=(*plan.advice, *purchase_advice(plan.purchase, n)))
    if request.seed is not None or _testing.NOISE.get() is not None:
        plan = replace(plan, guarantee=replace(plan.guarantee, seeded=True))
    return plan


def _warn_public(plan: Plan) -> None:
    request = plan.request
    if request.seed is not None:
        warnings.warn(
            NotPrivateWarning("seed= was given: the noise is reproducible, the fit is NOT PRIVATE"),
            stacklevel=5,
        )
    if plan.n is not None and request.delta >= 1.0 / plan.n:
        warnings.warn(
            UtilityWarning(
                f"delta = {request.delta:g} is not below 1/n = {1 / plan.n:.3g}: it allows a "
                "record to be published outright. A usual choice is well below 1/n"
            ),
            stacklevel=5,
        )
    for advice in plan.advice:
        warnings.warn(UtilityWarning(advice), stacklevel=5)


def execute(call: Call, source: Source, budget: Any) -> tuple[Plan, Release, Estimate]:
    """Plan, charge the budget, and only then read rows and draw noise.

    Returns
    -------
    Plan, Release, Estimate
    """
    from dpmodels.sources.rows import READ_ONCE, Rows

    if budget is not None and not hasattr(budget, "charge"):
        raise BudgetError("budget= takes a dp.Budget, for example dp.Budget(eps=3, delta=1e-5)")
    names = list(call.design.kinds)
    counted = call.request.relation == "add-remove" and source.n is not None
    n = row_count(source, None if counted else call.n, names[0])
    plan = make_plan(call, n)
    if plan.passes > 1 and not source.rescannable:
        raise SourceError(READ_ONCE)
    _warn_public(plan)
    if budget is None:
        from dpmodels.privacy.ledger import current_budget

        budget = current_budget()
    charge = None if budget is None else budget.charge(_label(plan), plan.guarantee)
    noise = _testing.NOISE.get() or make_noise(call.request.seed)
    backend = call.request.method.load()
    public_n = call.request.relation == "replace"
    rows = Rows(source, n, call.request.progress, public_n=public_n, passes=plan.passes)
    try:
        release = _private(backend.release, plan, rows, Run(plan.steps, noise))
    finally:
        rows.close()
    estimate = backend.estimate(plan, release)
    if charge is not None:
        _note_reply(budget, charge, plan, release)
    if not release.reply and call.request.on_no_reply == "default":
        estimate = replace(estimate, params=_default_reply(plan, estimate))
    _after(plan, release, estimate)
    return plan, release, estimate


def _note_reply(budget: Any, charge: Any, plan: Plan, release: Release) -> None:
    """Write what came of the test into the ledger: an output that was paid for."""
    tests = [step.name for step in plan.steps if step.reply_test]
    for name in tests[-1:]:
        budget.note(charge, name, "reply" if release.reply else "NO REPLY")


def _default_reply(plan: Plan, estimate: Estimate) -> Any:
    """Return the fixed, public reply: no effect of anything, the response in mid-range."""
    import numpy as np

    params = np.zeros(len(estimate.names))
    response = plan.design.response
    if "Intercept" in estimate.names and response is not None and response.interval is not None:
        params[estimate.names.index("Intercept")] = sum(response.interval) / 2.0
    return params


def _private(stage: Callable[..., Release], plan: Plan, rows: Rows, run: Run) -> Release:
    return guarded(lambda: stage(plan, rows, run))


def _label(plan: Plan) -> str:
    request = plan.request
    return f'{request.verb}("{request.formula}", method="{request.method.name}")'


def _after(plan: Plan, release: Release, estimate: Estimate) -> None:
    for text in estimate.warnings:
        warnings.warn(UtilityWarning(text), stacklevel=5)
    if not release.reply:
        if plan.request.on_no_reply == "raise":
            raise NoReplyError(
                "the private test did not pass: no reply (a valid private outcome). The full "
                f"charge (eps = {plan.guarantee.eps:g}, delta = {plan.guarantee.delta:g}) stands"
            )
        warnings.warn(
            NoReplyWarning("no reply: the private test did not pass; the charge stands"),
            stacklevel=5,
        )
