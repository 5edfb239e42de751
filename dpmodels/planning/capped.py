"""The plan of a method of rows for people of at most m rows: cap and pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.privacy.group import charged, gaussian_rows, is_gaussian, pair_of_rows
from dpmodels.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning.plan import Plan
    from dpmodels.request import Request

__all__ = ["capped_plan"]


def capped_plan(
    planned: Callable[[Request, Design, int], Plan[Any]],
    request: Request,
    design: Design,
    n: int | None,
) -> Plan[Any]:
    """Return the plan of a call that keeps m rows of each of n people.

    The row-level call gets what, m times, is the (eps, delta) of a person: by mu where all its
    steps are Gaussian, else by the pair (``units/theory.md``, 7). Public numbers only.
    """
    person = request.unit
    assert person is not None and n is not None  # replace-one alone (``api/building.py``)
    m = person.most
    plan: Plan[Any] | None = None
    for by_mu in (True, False):
        rule = gaussian_rows if by_mu else pair_of_rows
        eps, delta = rule(request.eps, request.delta, m)
        if not eps > 0.0:
            continue
        plan = planned(replace(request, unit=None, eps=eps, delta=delta, alike=m), design, n * m)
        if not by_mu or (is_gaussian(plan.steps) and plan.guarantee.proved is None):
            break
    assert plan is not None
    row = plan.guarantee
    pair = (row.eps, row.delta)
    guarantee = Guarantee(
        charged(plan.steps, m, pair, by_pair=row.proved is not None),
        request.eps,
        request.delta,
        request.relation,
        person.text,
        notes=(
            *row.notes,
            f"cap and pay: at most {m} rows a person are kept, each at (eps = {eps:.4g}, delta = "
            f"{delta:.4g})",
        ),
        inner=plan.steps,
        most=m,
        row_pair=pair,
    )
    return replace(plan, request=replace(plan.request, unit=person), guarantee=guarantee, people=n)
