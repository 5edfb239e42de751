"""The body that all formula verbs share: source, request, run, fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.api._request import build_request
from dpmodels.api._run import execute

if TYPE_CHECKING:
    from dpmodels.results import Fit

__all__ = ["fit_formula"]


def fit_formula(verb: str, formula: str, data: Any, *, budget: Any, **call: Any) -> Fit:
    """Run one call of a verb on a table.

    Parameters
    ----------
    verb, formula, data
    budget : Budget or None
    **call
        The arguments of :func:`dpmodels.api._request.build_request` that the verb decides.
    """
    from dpmodels.results import Fit
    from dpmodels.sources.adapt import as_source

    source = as_source(data)
    request = build_request(
        verb,
        formula,
        kinds=source.kinds,
        attached=source.schema_attr,
        **{"public": None, "inference": True, "progress": None, **call},
    )
    return Fit(*execute(request, source, budget))
