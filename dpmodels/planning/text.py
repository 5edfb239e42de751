"""What a plan shows: the same facts as a table and as a frame. Computes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.tables import Table, plain

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.planning.plan import Plan


def _head(plan: Plan[Any]) -> list[tuple[str, str]]:
    request, guarantee = plan.request, plan.guarantee
    shares = " ".join(f"{k} {v:.2f}".replace("0.", ".") for k, v in plan.shares.items())
    rows = [
        ("Formula", request.formula),
        ("Method", f'{request.method.title_of(plan.backend)} (method="{request.method.name}")'),
        ("Guarantee", f"(eps = {guarantee.eps:g}, delta = {guarantee.delta:g})-DP"),
        ("Neighbours", _neighbours(plan)),
        (
            "Rows" if request.unit is None else "People",
            "private" if plan.n is None else f"{plan.people or plan.n}",
        ),
    ]
    if plan.design.cells:
        rows.append(("Variables", f"{plan.design.p}"))
    else:
        rows.append(("Coefficients", f"{plan.design.p}"))
        rows.append(("Row norm bound", _number(plan.design.row_norm())))
    if shares:
        rows.append(("Budget", shares))
    if plan.purchase is not None:
        rows.append(("Ranges to buy", ", ".join(plan.purchase.columns)))
    rows += [(k[:1].upper() + k[1:], _number(v)) for k, v in plan.scales.items()]
    return rows


def _neighbours(plan: Plan[Any]) -> str:
    request = plan.request
    short = "replace one row" if request.relation == "replace" else "add or remove"
    return short if request.unit is None else plan.guarantee.neighbours


def _number(x: float | None) -> str:
    return "not known yet" if x is None or x != x else f"{x:.4g}"


def _origin(interval: tuple[float, float] | None, bought: bool) -> str:
    """Where the range of a column comes from; without any, public data bound the row."""
    if bought:
        return "bought"
    return "declared" if interval is not None else "not needed"


def _range(plan: Plan[Any], interval: tuple[float, float] | None) -> str:
    if interval is not None:
        return "[{:g}, {:g}]".format(*interval)
    return "not needed" if plan.purchase is None else "to buy"


def plan_frame(plan: Plan[Any]) -> pd.DataFrame:
    """Return one row a design column: name, term, kind, lower, upper, privacy_se."""
    import pandas as pd

    columns = plan.design.z
    bought = plan.purchase.columns if plan.purchase is not None else ()
    return pd.DataFrame(
        {
            "column": [c.name for c in columns],
            "term": [c.term for c in columns],
            "kind": [c.kind for c in columns],
            "lower": [c.lower for c in columns],
            "upper": [c.upper for c in columns],
            "range": [_origin(c.interval, c.name in bought) for c in columns],
            "privacy_se": [plan.expected_se.get(c.name, float("nan")) for c in columns],
        }
    )


def plan_table(plan: Plan[Any]) -> Table:
    """Return the plan as a table of columns, and one of what is released below it."""
    known = bool(plan.expected_se)
    columns = [
        (
            c.name,
            c.kind,
            _range(plan, c.interval),
            *([f"{plan.expected_se[c.name]:.4g}" if c.name in plan.expected_se else ""] * known),
        )
        for c in plan.design.z
    ]
    steps = [
        (
            s.name,
            s.label or s.mechanism.kind,
            "" if s.share is None else f"{s.share:.2f}",
            f"{s.mechanism.mu:.4g}" if hasattr(s.mechanism, "mu") else "",
            f"{s.failure:.3g}" if s.failure else "0",
        )
        for s in plan.steps
    ]
    below = plain(("what is released", "mechanism", "share", "mu", "delta+"), steps)
    return replace(
        plain(("column", "kind", "range", *(["expected privacy se"] * known)), columns),
        title="Plan of a private fit (no data read, nothing charged)",
        facts=tuple(_head(plan)),
        more=(below,),
        notes=(
            *plan.reasons, *filter(None, (plan.forecast,)), *plan.advice, *_assumption(plan)
        ),
    )


#: What forecasts from ranges alone came to, over the privacy se of fits of real tables with ranges
#: rounded outwards (tables of ``benchmarks/``, n = 10 000, eps = 1; medians over coefficients).
_MEASURED = {
    "dp_ols": "A rough guide: on ten real tables .2 to 9 times the error of the fit, half of them "
    "within .5 to 2 times",
    "dp_glm": "A rough guide, and mostly too small: on eight real tables .1 to .6 of the error of "
    "the fit",
}


def _assumption(plan: Plan[Any]) -> tuple[str, ...]:
    if not plan.expected_se:
        return ()
    if plan.design.cells:
        return ("expected privacy se: public; of a mean, in a group of average size",)
    said = (
        "expected privacy se: public, for uncorrelated predictors (and, where rows are scaled by a "
        "released fit, residuals) with an sd of a quarter of their declared range; narrower "
        "columns get larger errors"
    )
    return (f"{said}. {_MEASURED[plan.request.verb]}" if plan.request.verb in _MEASURED else said,)
