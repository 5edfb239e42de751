"""``plan`` (everything public about a fit, at no cost) and ``show_versions``."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.api.call import make_plan
from dpmodels.api.regressions import glm_arguments
from dpmodels.api.releases import REQUIRED, require
from dpmodels.api.requests import build_chosen, choose_method
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.records import check_n
from dpmodels.registry import method_names, methods
from dpmodels.sources.features import Features
from dpmodels.sources.tasks import as_source
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.planning import Plan

__all__ = ["per_person", "plan", "show_versions", "versions"]


#: Calls without a formula's method, and where their noise can be looked up.
_OTHER_PLANS = {
    "dp_iv": "it is made from a release of moments: dp.plan(formula, verb='dp_moments', ...) tells "
    "its noise",
    "dp_release": "the fits on a noised table have plans: dp.plan(formula, verb='dp_ols', "
    "method='drcl', ...)",
    "dp_vote": "its noise is a function of eps and delta alone, which dp_vote takes",
    "dp_pate": "its noise is a function of eps and delta alone, which dp_pate takes",
    "dp_select": "what it costs is what dp_select is given; each candidate has a plan of its own",
}


def _no_plan(verb: Any) -> str:
    """Say why a verb has no plan."""
    known = list(dict.fromkeys(methods()["verb"]))
    if isinstance(verb, str) and verb in _OTHER_PLANS:
        return f"dp.plan has no plan of {verb}: {_OTHER_PLANS[verb]}"
    return (
        f"verb={shown(verb)} is no verb with a plan.{did_you_mean(str(verb), known)} "
        f"Known: {', '.join(known)}"
    )


def plan(
    formula: str,
    schema: Schema | None = None,
    *,
    n: int = REQUIRED,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    verb: str = "dp_ols",
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    inference: bool = True,
    want: Mapping[str, float] | str | None = None,
    **options: Any,
) -> Plan[Any]:
    """Plan a fit without data: columns, bounds, noise, shares, expected errors.

    Parameters
    ----------
    formula : str
    schema : Schema, optional
        Or ``bounds=``. The variables of the formula must be declared; those without a range are
        planned as bought.
    n : int
        Number of rows the study will have; of people, with ``unit=``.
    eps, delta, method, bounds, public, inference, **options
        As in the verb.
    verb : str
        "dp_ols", ...
    want : mapping, optional
        Column -> privacy standard error you would like: the plan then says which n, or which eps,
        would reach it. ``want="power"`` with ``effect={"x": 0.1}``: the power of the test of that
        coefficient, and the n, the eps or the effect that would give .8. ``sd={"x": 1, "y": 2}``
        says how columns spread (the response: its residuals); else a quarter of the declared range.

    Returns
    -------
    Plan
        Prints itself; the same object that a fit with these arguments would follow.

    Privacy
    -------
    Reads no data and costs nothing.
    """
    if n is REQUIRED:
        raise RequestError("a plan needs the number of rows of the study: dp.plan(..., n=1000)")
    require("dp.plan", eps, delta, options)
    n = check_n(n)
    if isinstance(want, str) and want != "power":
        raise RequestError(
            f"want={shown(want)} is not known.{did_you_mean(want, ['power'])} want='power' with "
            "effect={'x': 0.1}, or a mapping of privacy standard errors, want={'x': 0.1}"
        )
    asks_power = isinstance(want, str) and want == "power" and verb != "dp_test"
    effect, sd = (options.pop(k, None) if asks_power else None for k in ("effect", "sd"))
    if not method_names(verb):
        raise RequestError(_no_plan(verb))
    design_options = None
    if verb_of(verb).loss == "family":
        formula, options, design_options = glm_arguments(
            formula, **{"family": "binomial", **options}
        )
    typed = verb_of(verb).load_arguments()
    told: tuple[str, ...] = ()
    if typed is not None:
        formula, method, options, told = typed(formula, method, options, inference, delta)
    chosen = choose_method(verb, method, public, inference=inference, options=options)
    chosen = replace(chosen, reasons=(*told, *chosen.reasons))
    arguments: dict[str, Any] = {
        "delta": delta,
        "kinds": None,
        "attached": None,
        "schema": schema,
        "bounds": bounds,
        "public": public,
        "inference": inference,
        "seed": None,
        "progress": None,
        "options": options,
        "design_options": design_options,
    }

    def planned(rows: int, budget: float) -> Plan[Any]:
        return make_plan(build_chosen(verb, formula, chosen, eps=budget, **arguments), rows)

    result = planned(n, eps)
    if want is None or (isinstance(want, str) and not asks_power):  # a test tells its power
        return result
    if asks_power:
        from dpmodels.planning import power

        return replace(result, advice=(*result.advice, *power(planned, n, float(eps), effect, sd)))
    if not isinstance(want, Mapping):
        raise RequestError(
            f"want= takes a mapping, for example want={{{result.design.names[-1]!r}: 0.1}}, or "
            f"want='power' with effect={{{result.design.names[-1]!r}: 0.1}}; got {shown(want)}"
        )
    columns = list(dict.fromkeys([*result.expected_se, *result.design.names]))
    unknown = [c for c in want if c not in columns]
    if unknown:
        raise RequestError(
            f"want= names {unknown[0]!r}, which is not a column of this design."
            + did_you_mean(unknown[0], columns)
            + f" Columns: {', '.join(columns)}"
        )
    from dpmodels.planning import reach

    return replace(result, advice=(*result.advice, *reach(planned, n, float(eps), want)))


# -- ``show_versions``: what a report of a problem needs, and nothing about the machine's files.


_PACKAGES = ("numpy", "scipy", "pandas", "formulaic", "pyarrow", "duckdb")


def versions() -> dict[str, str]:
    """Return versions by name: packages, BLAS, platform.

    Returns
    -------
    dict of str
        No file path and no user name.

    Privacy
    -------
    Reads no data.
    """
    from threadpoolctl import threadpool_info

    import dpmodels as dp

    out = {"dpmodels": dp.__version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            out[name] = "not installed"
    for lib in threadpool_info():
        if lib.get("user_api") == "blas":
            kind = f"{lib.get('internal_api')} {lib.get('version')} {lib.get('architecture', '')}"
            out["BLAS"] = f"{kind.strip()}, threads {lib.get('num_threads')}"
    bits = sys.maxsize.bit_length() + 1
    out["platform"] = f"{platform.system()} {platform.machine()}, {bits} bits"
    return out


def show_versions() -> None:
    """Print versions of this package and of what it stands on, for a report of a problem.

    Privacy
    -------
    Reads no data. No file path and no user name.

    Examples
    --------
    >>> import dpmodels as dp
    >>> dp.show_versions()  # doctest: +ELLIPSIS
    dpmodels ...
    """
    print("\n".join(f"{name:<10}{version}" for name, version in versions().items()))


# -- ``per_person``: what the rows of a person come to, as a table of people.


def per_person(data: Any, unit: str, /, **features: Any) -> Features:
    """Return a table with one row a person: counts, sums, extremes, first cells of its own rows.

    Parameters
    ----------
    data : table
        With any number of rows a person: whatever ``data=`` of a verb takes and can be read again.
    unit : str
        Column that says whose row it is.
    **features
        New column = (function, column): ``visits="count"`` (of rows), ``paid=("sum", "bill")``,
        ``worst=("max", "score")``, ``ill=("any", "diagnosis")``, ``sex=("first", "sex")``,
        ``("min", ...)``, ``("count", "bill")`` (of cells that are there). "first" is by the order
        of the table. Of no cell "sum", "any" and "count" are 0, the others missing.

    Returns
    -------
    table
        To be given to a verb as its data, with the same ``unit=``; without it the call is refused.

    Privacy
    -------
    Reads no cell: what a person's rows come to is worked out inside the calls. A row of the result
    is a function of one person's rows alone, so what a call promises to one person of it holds for
    all rows of that person in ``data``. Ranges and levels of the new columns are declared as those
    of any other column.

    Examples
    --------
    >>> import pandas as pd, dpmodels as dp
    >>> visits = pd.DataFrame({"id": [1, 1, 2], "bill": [10.0, 5.0, 7.0], "sex": ["m", "m", "f"]})
    >>> people = dp.per_person(visits, "id", visits="count", paid=("sum", "bill"))
    >>> sorted(people.kinds)
    ['id', 'paid', 'visits']
    """
    return Features(as_source(data), unit, features)
