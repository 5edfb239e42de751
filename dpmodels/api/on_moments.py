"""Regressions on a release of second moments: they read no row and cost nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels._guard import one_thread
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import FormulaError, RequestError, UtilityWarning, did_you_mean

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.results import Fit
    from dpmodels.results.moments import MomentFacts

__all__ = ["design_on", "fit_on_moments", "functionals_on", "holds_moments"]


_BEFORE = "Fitted on a release that was made before: this fit cost nothing."


def holds_moments(data: Any) -> bool:
    """Whether ``data`` is a fit: one that holds a release of second moments will do as data."""
    from dpmodels.results import Fit

    return isinstance(data, Fit)


def fit_on_moments(
    verb: str,
    formula: Any,
    m: Fit,
    *,
    eps: Any = REQUIRED,
    delta: Any = REQUIRED,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    inference: bool = True,
    **others: Any,
) -> Fit:
    """Fit a linear regression on a release of second moments.

    Privacy
    -------
    Post-processing: nothing is read and nothing is charged. The fit states the guarantee of the
    release.
    """
    from dpmodels.api.building import check_first
    from dpmodels.results.moments import moments_of

    check_first(formula)
    own = dict(options or {})
    level = own.pop("level", 0.95)
    given = {"eps": eps, "delta": delta}
    refused = [k for k, v in given.items() if v is not REQUIRED]
    refused += [k for k, v in {**others, "method": method}.items() if v is not None]
    refused += [*own, *([] if inference is True else ["inference"])]
    if refused:
        raise RequestError(
            f"{', '.join(refused)} must not be given with a release of second moments: it was "
            f"settled and paid for when the release was made ({m.privacy.statement()}). "
            f"Type {verb}({formula!r}, m)"
        )
    facts = moments_of(m._record)
    design = design_on(formula, m, verb)
    rows = functionals_on(design, m, facts)
    return made(verb, formula, m, facts, design, rows, level=level)


def made(
    verb: str, formula: str, m: Fit, facts: MomentFacts | None, design: Design, rows: Array | None,
    *, level: float = 0.95, title: str = "least squares on released second moments",
    instruments: Any = None, paid: bool = False,
) -> Fit:  # fmt: skip
    """Return the fit of functionals ``rows`` (response last) of a release; None: no reply."""
    from dpmodels.models.linear.inference import no_reply
    from dpmodels.models.moments.regression import OnMoments, estimate
    from dpmodels.planning import Plan
    from dpmodels.registry import Method
    from dpmodels.release import Release
    from dpmodels.request import Request
    from dpmodels.results import Fit

    promise = m.privacy
    entry = Method(
        m.method, verb, title, "dpmodels.models.moments.regression", privacy_se="released"
    )
    request = Request(
        verb, formula, entry, promise.eps, promise.delta, design.schema,
        level=level, relation=promise.relation, na=design.na,
        reasons=() if paid else (_BEFORE,), identifier=m._record.call.identifier,
    )  # fmt: skip
    detail = facts is not None and rows is not None and OnMoments(
        facts.moments, rows[:-1], rows[-1], facts.weighted, paid, instruments, facts.people
    )
    plan: Plan[None] = Plan(
        request, design, m.nobs, promise.steps, promise, reasons=request.reasons
    )
    release = Release({}, promise, design, bool(detail), "" if detail else "ranges", detail)
    with one_thread():
        found = estimate(plan, release) if release.reply else no_reply(release)
    for text in found.warnings:
        warnings.warn(UtilityWarning(text), stacklevel=4)
    return Fit(plan, release, found)


def design_on(formula: str, m: Fit, verb: str) -> Design:
    """Return the design of a formula in the variables of a release."""
    from dpmodels.formula import build_design, needed_variables

    source = m.design
    kinds = dict.fromkeys(source.schema, "numeric") if "." in formula.split() else None
    needed = needed_variables(formula, kinds, declared=set(source.schema))
    absent = [name for name in needed if name not in source.schema]
    if absent:
        raise RequestError(
            f"{absent[0]!r} is not in the release, which holds {', '.join(source.variables)}."
            f"{did_you_mean(absent[0], source.variables)} {_would_hold(m, absent)}"
        )
    design = build_design(formula, source.schema, na=source.na, engine=source.engine)
    if design.response is None:
        raise FormulaError(f"{formula!r} has no response: type 'y ~ x1 + x2'")
    if design.offset is not None:
        raise RequestError(
            "offset() is not taken with a release of second moments: regress "
            f"I({design.response.name} - {design.offset}) instead, if the release holds both"
        )
    known = {c.name: c.interval for c in source.z if c.interval is not None}
    return design.with_bounds({c: known[c] for c in design.unknown if c in known})


def functionals_on(design: Design, m: Fit, facts: MomentFacts) -> Array:
    """Return the columns of a design (response last) as functionals of a release, or refuse."""
    from dpmodels.formula.span import span, terms_at

    if m.design.weights is not None:
        raise RequestError("a release with weights= holds moments of weighted rows only")
    rows, missing = span(design, m.design, facts.back, constant=facts.loose)
    if missing:
        terms = terms_at(design, missing)
        raise RequestError(
            f"{', '.join(terms)}: not in the release, whose columns are "
            f"{', '.join(facts.names)}. {_would_hold(m, terms)}"
        )
    return np.asarray(rows)


def _would_hold(m: Fit, terms: list[str]) -> str:
    held = m.formula.partition("~")
    kept = held[0].strip() if held[2].strip() in ("", "1") else f"{held[0]} + {held[2]}".strip()
    wanted = " + ".join([kept, *terms])
    return f'A release that holds it: dp.dp_moments("{wanted}", data, eps=..., delta=...)'
