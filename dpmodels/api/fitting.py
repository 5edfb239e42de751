"""The body that all formula verbs share: a table or a release of one, a request, a run, a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.api.building import Choice, build_chosen
from dpmodels.api.on_moments import fit_on_moments, holds_moments
from dpmodels.api.on_release import fit_on_release, is_release, require
from dpmodels.api.run import execute
from dpmodels.errors import RequestError
from dpmodels.sources.adapt import as_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpmodels.results import Fit

__all__ = ["fit_formula"]

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
    from dpmodels.api.building import check_first
    from dpmodels.api.public import not_the_private_data
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
