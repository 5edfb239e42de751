"""Structural and sentinel audits of any verb, and runs of a backend on synthetic rows.

Test equipment: the only part of this room that knows the verbs.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.audit.kit import AuditCase, SentinelCheck, StructureCheck
from dpmodels.errors import NoReplyWarning

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.planning import Plan
    from dpmodels.records import Release

__all__ = ["backend_release", "odd_neighbours", "plan_of", "verb_case"]

#: Unique values: digits that occur nowhere else, and a word.
SENTINEL_NUMBER = 3.9182736455463
SENTINELS = ("3.918273645", "9182736455", "zq-sentinel-zq")


def odd_neighbours(frame: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Return pairs that differ in the first row: missing, infinite, far out, text, a new level.

    Both members of a pair have the same column types, which are public.
    """
    pairs = []
    for column in frame.columns:
        odd_values: list[Any] = [None, "zq-sentinel-zq", "12.5", True]
        if frame[column].dtype.kind in "iuf":
            base = frame if frame[column].dtype == float else frame.astype({column: float})
            for value in (np.nan, np.inf, -np.inf, 1e300, 0.0):
                other = base.copy()
                other.loc[other.index[0], column] = value
                pairs.append((base, other))
        base = frame.astype({column: object})
        for value in odd_values:
            other = base.copy()
            other.loc[other.index[0], column] = value
            pairs.append((base, other))
    return pairs


def _quiet_call(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Leave out warnings that are outputs of the mechanism, and random.

    These are the no-reply warning and those the fit keeps: its estimate, a function of the
    release, gave them.
    """

    def run(data: Any) -> Any:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fit = call(data)
        record = getattr(fit, "_record", None)
        said = set() if record is None else set(record.estimate.warnings)
        for warning in seen:
            released = isinstance(warning.message, NoReplyWarning) or str(warning.message) in said
            if not released:
                warnings.warn(warning.message, stacklevel=2)
        return fit

    return run


def _once(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Call once for a table that several pairs share; its warnings are given again."""
    seen: dict[int, tuple[Any, Any, list[Any]]] = {}

    def run(data: Any) -> Any:
        if id(data) not in seen:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                seen[id(data)] = data, call(data), said  # the table is kept: its id is its own
        _, fit, said = seen[id(data)]
        for warning in said:
            warnings.warn(warning.message, stacklevel=2)
        return fit

    return run


def _shape(fit: Any) -> tuple[Any, ...]:
    return type(fit).__name__, fit.nobs, fit.design.names, fit.privacy.eps, fit.privacy.delta


def verb_case(
    verb: str,
    method: str,
    formula: str,
    frame: pd.DataFrame,
    *,
    call: Callable[[Any], Any] | None = None,
    **arguments: Any,
) -> AuditCase:
    """Return the structural and the sentinel audit of one method through its public verb.

    Parameters
    ----------
    verb, method, formula
    frame : DataFrame
        Synthetic; large enough for a reply at the eps given in ``arguments``.
    call : function, optional
        ``call(data) -> fit``, for verbs with another signature.
    **arguments
        Passed to the verb (``eps``, ``delta``, ``schema`` or ``bounds``, options).
    """
    if call is None:

        def call(data: Any) -> Any:
            function = getattr(importlib.import_module("dpmodels"), verb)
            return function(formula, data, method=method, **arguments)

    run = _once(_quiet_call(call))

    def sentinels() -> Any:
        data = frame.copy()
        for column in data.columns:
            data[column] = data[column].astype(object)
            data.loc[data.index[::7], column] = SENTINEL_NUMBER
            data.loc[data.index[1::7], column] = "zq-sentinel-zq"
        fit = run(data)
        return fit, str(fit.summary()), repr(fit), fit.to_json(), str(fit.ledger), fit.glance()

    # one pair a kind of odd cell is enough a column; every pair costs two calls
    return AuditCase(
        structure=(
            StructureCheck(f"{verb}/{method} odd rows", run, odd_neighbours(frame), _shape),
        ),
        sentinels=(SentinelCheck(f"{verb}/{method} sentinels", sentinels, SENTINELS),),
    )


def plan_of(
    verb: str, method: str, formula: str, n: int, schema: Any, eps: float, delta: float,
    options: Mapping[str, Any] | None = None,
) -> Plan[Any]:  # fmt: skip
    """Return the plan of a call without data (the code that a fit runs)."""
    dpmodels = importlib.import_module("dpmodels")
    plan: Plan[Any] = dpmodels.plan(
        formula, schema, n=n, eps=eps, delta=delta, method=method, verb=verb, **(options or {})
    )
    return plan


def backend_release(plan: Plan[Any], data: Mapping[str, Any], run: Any) -> Release:
    """Run the private stage of a plan on synthetic columns."""
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tables import DictSource
    from dpmodels.sums.ask import Ask

    assert plan.n is not None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = Rows(DictSource(data), plan.n)
        return plan.backend.release(plan, Ask(rows, run, plan.guarantee.relation))
