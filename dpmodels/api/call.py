"""The life of a call: a table or a release of one, a request, a plan, a run, a fit; ``plan()``."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpmodels import _testing, messages
from dpmodels.api.levels import planned_levels, stand_in, unlisted, with_levels
from dpmodels.api.releases import REQUIRED, fit_of, require
from dpmodels.api.requests import (
    Choice,
    Designed,
    build_request,
    check_first,
    choose_method,
    formula_text,
    glm_arguments,
    not_the_private_data,
    with_base,
)
from dpmodels.arrays import with_numpy_defaults
from dpmodels.door import checked, people_count, row_count, rows_of, run_stage
from dpmodels.errors import (
    DPModelsError,
    NoReplyError,
    NoReplyWarning,
    PrivacyBugError,
    RequestError,
    SourceError,
    StoppedError,
    StoppedWarning,
    UtilityWarning,
    did_you_mean,
    shown,
)
from dpmodels.formula.schema import declared_schema
from dpmodels.planning import Plan, capped_plan, check_size
from dpmodels.quiet import tell
from dpmodels.records import check_n
from dpmodels.registry import method_names, methods
from dpmodels.resources import one_thread
from dpmodels.sources.executors import Elsewhere, need_rows
from dpmodels.sources.tables import Features
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Count, Real
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.notes import Note
    from dpmodels.records import Estimate, Release, Request
    from dpmodels.registry import Backend
    from dpmodels.results.fit import Fit
    from dpmodels.units import Person


# -- The one route of every fit: plan, open the door, release, estimate.


T = TypeVar("T")


def make_plan(call: Designed, n: int | None) -> Plan[Any]:
    """Return the plan of a call: the same code for ``plan()`` and for a fit.

    Where the number n of rows (people) is private it is dropped here, so that no plan can depend on
    it: under add-remove a method's ``plan`` gets None.
    """
    request, response = call.request, call.design.response
    if request.relation != "replace":
        n = None
    elif n is None or n < 1:
        raise RequestError("the table has no rows")
    large = check_size(request, call.design, n)
    uncharged = "Nothing was read or charged"
    backend, reasons = _finite(uncharged, request.method.chosen, request, call.design, n)
    if request.unit is not None:
        _serves_people(request, request.unit, backend, reasons)
    request = replace(request, reasons=(*request.reasons, *reasons))
    planned: Any = backend.plan
    if request.unit is not None and request.unit.most:
        planned = functools.partial(capped_plan, planned)
    with one_thread():
        plan = _finite(uncharged, planned, request, call.design, n)
    advice = [*plan.advice, *large]
    if verb_of(request.verb).design in ("build_design", "build_survival_design"):
        from dpmodels.scoring.coordinates import aliased_advice

        advice += aliased_advice(call.design)
    kind = "" if response is None else getattr(call.design.kinds.get(response.name), "kind", "")
    if request.verb == "dp_ols" and response is not None and kind == "binary":  # by the schema
        advice.append(
            f"{response.name} is 0/1: coefficients are differences of probabilities, and rare "
            "events count as outlying rows. For odds ratios: "
            f'dp.dp_glm("{request.formula}", ...)'
        )
    plan = replace(plan, backend=backend, advice=tuple(advice))
    if plan.purchase is not None and n is not None:
        from dpmodels.ranges import purchase_advice

        plan = replace(plan, advice=(*purchase_advice(plan.purchase, n), *plan.advice))
    if request.seed is not None or _testing.NOISE.get() is not None:
        plan = replace(plan, guarantee=replace(plan.guarantee, seeded=True))
    return plan


def _finite(charged: str, step: Callable[..., T], planned: Any, *arguments: Any) -> T:
    """Return a public step's result; a failure on numbers too extreme for floats says so.

    Privacy: plans depend on public facts and estimates on released numbers, so the error may be
    shown.
    """
    request: Request = getattr(planned, "request", planned)
    try:
        return step(planned, *arguments)
    except MemoryError:  # left first: its traceback contains the values that did not fit
        pass
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
    raise RequestError(
        f"{request.verb}(method={request.method.name!r}) needs more memory than there is here. "
        f"{charged}. Take fewer columns or levels"
    )


def _extreme(request: Request) -> bool:
    """Return whether eps or delta is so extreme that float formulas overflow or underflow."""
    return not 1e-9 < request.eps < 1e4 or 0.0 < request.delta < 1e-60 or request.delta > 0.999


def _serves_people(
    request: Request, person: Person, backend: Backend, reasons: tuple[str, ...]
) -> None:
    """Refuse a call for people whose backend has a proof for rows only."""
    if person.most and backend.people and not request.method.kept:
        raise RequestError(
            f"{request.verb}(method={request.method.name!r}) has a proof for people with any "
            "number of rows: leave max_rows= out"
        )
    if person.most or backend.people:
        return
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise RequestError(
        f"{request.verb}(method={request.method.name!r}) has a proof for people "
        f"(unit={person.column!r}) only where it ends by scoring; this call would not"
        f"{why}. Leave out the options of the other ending, or use at most m rows per person, "
        "with the charge of m rows: max_rows=2"
    )


def _label(plan: Plan[Any], typed: tuple[Any, Mapping[str, Any]] | None) -> str:
    """Return the call as the ledger prints it: formula, and arguments that change the release.

    ``typed`` is the formula as given, where the verb made another of it and of further arguments.
    """
    request = plan.request
    defaults = {option.name: option.default for option in request.method.options}
    plain = (str, int, float, bool, tuple, list, dict, type(None))  # tables are never a default
    printed = {
        k: v
        for k, v in request.options.items()
        if k in defaults and (not isinstance(v, plain) or bool(v != defaults[k]))
    }
    if printed.get("link") == verb_of(request.verb).link:
        del printed["link"]
    formula, consumed = typed or (request.formula, {})
    if typed is not None:
        printed.pop("outcome", None)  # of dp_ate: the formula itself
    printed |= {name: value for name, value in consumed.items() if value is not None}
    if (person := request.unit) is not None:
        printed["unit"] = person.column
    if person is not None and person.most:
        printed["max_rows"] = person.most
    for name in ("weights", "subset"):
        if getattr(request, name) is not None:
            printed[name] = getattr(request, name)
    if request.sample is not None:
        printed["design"] = request.sample.frame.survey.text
    text = f'"{formula}"' if isinstance(formula, str) else repr([*formula])
    words = [f"{request.verb}({text}", f'method="{request.method.name}"']
    for name, value in printed.items():  # as typed; the kind of long values
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        short = len(text) <= 60 and "\n" not in text
        words.append(f"{name}={text if short else f'<{type(value).__name__}>'}")
    return ", ".join(words) + ")"


#: Names that are not options: an argument of another name is an option of the verb.
_CALL: dict[str, Any] = {
    "schema": None,
    "bounds": None,
    "public": None,
    "inference": True,
    "progress": None,
    "seed": None,
    "design_options": None,
    "options": {},
    "typed": None,
}


@with_numpy_defaults
def call(
    verb: str,
    formula: str,
    data: Any,
    *,
    budget: Any,
    eps: Any,
    delta: Any,
    method: str | None,
    default: str | Callable[[], Choice],
    **arguments: Any,
) -> Fit:
    """Run one call: its public part, the charge, rows and noise, arithmetic on released numbers.

    ``default`` is the method where none is asked for, or a function that chooses it;
    ``arguments`` are the other arguments of the verb, each under its name.
    """
    from dpmodels.results.fit import Fit

    formula = formula_text(formula)
    method_options = {name: arguments.pop(name) for name in [*arguments] if name not in _CALL}
    if method_options.get("unit") is None:
        # an argument of some methods: not passed on if it was not given
        method_options.pop("unit", None)
    options = {**arguments.get("options", {}), **method_options}
    arguments = {**_CALL, **arguments, "options": options}
    free = fit_of(verb, data)
    if free is not None:  # a release in a table's place: no row, no charge
        del arguments["typed"]
        return free(
            verb, formula, data, eps=eps, delta=delta, method=method, budget=budget, **arguments
        )
    check_first(formula)
    typed = arguments.pop("typed")
    require(verb, eps, delta, arguments["options"])
    if arguments["public"] is not None:
        not_the_private_data(arguments["public"], data)
    chosen = default() if callable(default) else Choice(method or default)
    source = as_source(data)
    schema = declared_schema(arguments["schema"], source.schema_attr)
    charged: Note | None = None
    unknown = unlisted(formula, schema, arguments["options"])
    build = functools.partial(build_request, verb, formula, **chosen._asdict(), kinds=source.kinds)
    if schema is not None and unknown:
        checked(budget, arguments["seed"])
        # whatever can be refused is refused before levels are charged
        stands_in = {**arguments, "schema": stand_in(schema, unknown)}
        build(eps=eps, delta=delta, attached=None, **stands_in)
        arguments["schema"], eps, delta, charged = with_levels(
            schema, unknown, source, eps, delta, budget, arguments["seed"], arguments["options"]
        )
    designed = build(eps=eps, delta=delta, attached=source.schema_attr, **arguments)
    request = designed.request
    seed, person, public_n = request.seed, request.unit, request.relation == "replace"
    checked(budget, seed)
    if person is not None:
        n = people_count(source, person, public_n=public_n)
    else:  # where it is private no plan depends on it
        declared = designed.n if public_n or source.n is None else None
        n = row_count(source, declared, next(iter(designed.design.kinds)))
    plan = make_plan(designed, n)
    if charged is not None:
        notes = (*plan.guarantee.notes, charged)
        plan = replace(plan, guarantee=replace(plan.guarantee, notes=notes))
    if plan.passes > 1 and not source.rescannable and person is None:
        from dpmodels.sources.rows import READ_ONCE

        raise SourceError(READ_ONCE)
    if request.method.by_rows:
        need_rows(source, f"{verb}(method={request.method.name!r})")
    if plan.purchase is not None and isinstance(source, Elsewhere):
        raise RequestError(
            "ranges are estimated from pairs of rows, which are not on this machine: declare "
            f"them, bounds={{{plan.purchase.columns[0]!r}: (lower, upper)}}"
        )
    rows = functools.partial(
        rows_of, source, n, plan.request.progress, public_n=public_n, passes=plan.passes,
        person=person, kinds=plan.design.kinds, seed=seed,
    )  # fmt: skip
    door, release = run_stage(  # charged here; the stage is the only one that reads rows
        _label(plan, typed), plan, plan.backend.release, rows, budget, seed, what="the fit is "
    )
    estimate = _estimated(plan, release, source.kinds)
    door.note(release.reply, release.ended)
    for step, text in release.remarks.items():
        door.remark(step, text)
    tell(*map(UtilityWarning, estimate.warnings))
    if not release.reply:
        return _without_reply(plan, release, estimate)
    return Fit(plan, release, _with_note_on_base(plan, estimate))


def _estimated(plan: Plan[Any], release: Release, kinds: Mapping[str, str]) -> Estimate:
    """Return the estimate from a release, with the notes of a call that has no reply."""
    request = plan.request
    with one_thread():
        estimate: Estimate = _finite("The charge stands", plan.backend.estimate, plan, release)
    if request.copies > 1:
        estimate = estimate.of_copied_rows(request.copies)
    if hasattr(request.public, "printed_with"):
        estimate = request.public.printed_with(estimate)
    if release.why == "rows":
        estimate = replace(estimate, notes=release.detail.notes(release))
    if not release.reply and (names := _untyped_numbers(plan, kinds)):
        note = messages.UNTYPED_NUMBERS(names=", ".join(names), name=names[0])
        estimate = replace(estimate, notes=(note, *estimate.notes))
    return estimate


def _without_reply(plan: Plan[Any], release: Release, estimate: Estimate) -> Fit:
    """Return the fit of a call without a reply, with a warning; or raise, as ``on_no_reply`` says.

    The default is public: no effects, and the response in the middle of its range.
    """
    from dpmodels.results.fit import Fit

    request, fit = plan.request, Fit(plan, release, estimate)
    back, stopped = fit._record.returned, release.why == "rows"
    failed = "too few rows are usable" if stopped else "the private test did not pass"
    if request.on_no_reply == "raise":
        charge = f"charge (eps = {plan.guarantee.eps:g}, delta = {plan.guarantee.delta:g})"
        raise (StoppedError if stopped else NoReplyError)(
            f"{failed}: no reply (a valid private outcome). "
            + (f"Of the {charge} {back} went back" if back else f"The full {charge} stands")
        )
    stands = f"{back} went back to the budget" if back else "the charge stands"
    kind = StoppedWarning if stopped else NoReplyWarning
    tell(kind(f"no reply: {failed}; {stands}"))
    if request.on_no_reply == "default":
        params = np.zeros(len(estimate.names))
        ends = getattr(plan.design.response, "interval", None)
        if "Intercept" in estimate.names and ends is not None:
            params[estimate.names.index("Intercept")] = sum(ends) / 2.0
        fit = Fit(plan, release, replace(estimate, params=params))
    return fit


def _with_note_on_base(plan: Plan[Any], estimate: Estimate) -> Estimate:
    """Return the estimate, with a note where the base level of a factor is rare.

    **Privacy.** From released numbers: the errors of contrasts.
    """
    from dpmodels.results.contrasts import better_base

    parts = [v for v in (estimate.vcov_sampling, estimate.vcov_privacy) if v is not None]
    if not parts or any(v.shape != (len(estimate.names),) * 2 for v in parts):
        return estimate
    found = better_base(plan.design.kinds, estimate.names, np.sum(parts, axis=0))
    if found is None:
        return estimate
    note = messages.RARE_BASE(factor=found[0], base=found[1], other=found[2])
    return replace(estimate, notes=(*estimate.notes, note))


def _untyped_numbers(plan: Plan[Any], kinds: Mapping[str, str]) -> list[str]:
    """Return the columns that are declared numbers and whose type in the table says nothing."""
    return [
        name
        for name, variable in plan.design.kinds.items()
        if isinstance(variable, (Real, Count)) and kinds.get(name) in ("object", "text")
    ]


def as_typed(fit: Fit, formula: str) -> Fit:
    """Return the fit with the formula as it was given, of which the verb made another."""
    from dpmodels.results.fit import Fit

    record = fit._record
    return Fit._of(replace(record, call=replace(record.call, formula=formula)))


# -- ``plan()``: cost and expected errors of a call, before any data


#: Calls without a formula's method, and where their noise can be looked up.
_OTHER_PLANS = {
    "dp_iv": "it is made from a release of moments: dp.plan(formula, verb='dp_moments', ...) tells "
    "its noise",
    "dp_release": "the fits on a noised table have plans: dp.plan(formula, verb='dp_ols', "
    "method='drcl', ...)",
    "dp_vote": "its noise is a function of eps and delta alone, and dp_vote accepts them",
    "dp_pate": "its noise is a function of eps and delta alone, and dp_pate accepts them",
    "dp_select": "what it costs is what dp_select is given; each candidate has a separate plan",
}


@with_numpy_defaults
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
        Or ``bounds=``. The variables of the formula must be declared; the plan estimates the ranges
        of those without one.
    n : int
        Number of rows the study will have; of people, with ``unit=``.
    eps, delta, method, bounds, public, inference, **options
        As in the verb.
    verb : str
        "dp_ols", ...
    want : mapping, optional
        Column -> privacy standard error that you want. The plan then says which n, or which eps,
        gives it. ``want="power"`` with ``effect={"x": 0.1}``: the power of the test of that
        coefficient with a range, and the n, the eps or the effect that would give .8.
    sd : mapping, optional
        For a regression: standard deviations of columns, and of the residuals of the response, from
        other sources: ``sd={"x": 1, "y": 2}``. Default: a part of the declared range. Expected
        errors and forecasts use these values. A level with a share q of the rows has
        ``sqrt(q (1 - q))``.
    tail : float, optional
        For a regression of a number or count: the share of rows whose residual is longer than four
        standard deviations, ``tail=0.005``. Intervals allow for the bias of clipping long rows, so
        power falls with it. Default: residuals count as normal, and those of a count with ``sd=``
        as negative binomial.
    corr : mapping, optional
        For a regression: correlations of pairs of numeric columns, ``corr={("x", "z"): 0.9}``.
        Default: 0. Instead, ``sd=`` may give the sd of a column after regression on the others.
    events : float, optional
        For a regression of events, counts or survival times: the share of rows (of people) with an
        event, or the mean count.
    within : list of str, optional
        With ``unit=`` and ``rows_per_unit=``: predictors that vary within persons. The others count
        as constant there, so that rows of a person add little.
    icc : float, optional
        With ``unit=``: correlation of two residuals of a person, ``icc=0.4``. Default: 0.45. Of
        ``dp_coxph`` it is that of several events of a person. ``dp_feols`` takes in ``sd=`` what
        varies within persons, by default half of the sd.

    Returns
    -------
    Plan
        Prints itself; the same object that a fit with these arguments would follow. It forecasts
        each coefficient as "fine", "rough" or "not determined" (``to_frame()["forecast"]``).

    Privacy
    -------
    Reads no data and costs nothing.
    """
    if n is REQUIRED:
        raise RequestError("a plan needs the number of rows of the study: dp.plan(..., n=1000)")
    _check_planned(verb)
    formula = formula_text(formula)
    if verb_of(verb).design != "build_mean_design":  # which also takes names
        check_first(formula)
    require("dp.plan", eps, delta, options)
    n = check_n(n)
    if isinstance(want, str) and want != "power":
        raise RequestError(
            f"want={shown(want)} is not known.{did_you_mean(want, ['power'])} want='power' with "
            "effect={'x': 0.1}, or a mapping of privacy standard errors, want={'x': 0.1}"
        )
    asks_power = isinstance(want, str) and want == "power" and verb != "dp_test"
    effect = options.pop("effect", None) if asks_power else None
    typed_facts = dict.fromkeys(("sd", "corr", "events", "tail", "within", "icc"))
    if verb != "dp_test":
        typed_facts = {name: options.pop(name, None) for name in typed_facts}
    design_options = None
    if verb_of(verb).loss == "family":
        formula, options, design_options = glm_arguments(
            formula, **{"family": "binomial", **options}
        )
    typed = verb_of(verb).load("arguments")
    reasons: tuple[str, ...] = ()
    if typed is not None:
        formula, method, options, reasons = typed(formula, method, options, inference, delta)
        design_options = options.pop("design_options", design_options)
    if verb == "dp_multinom":
        schema = with_base(schema, formula, options.pop("base", None), None)
    chosen = choose_method(verb, method, public, inference=inference, options=options)
    chosen = chosen._replace(reasons=(*reasons, *chosen.reasons))
    declared, advice = declared_schema(schema, None), ""
    unknown = unlisted(formula, declared, options)
    if declared is not None and unknown:
        schema, eps, delta, advice = planned_levels(
            declared, unknown, n, eps, delta, options.get("unit")
        )

    def planned(rows: int, budget: float) -> Plan[Any]:
        designed = build_request(
            verb, formula, **chosen._asdict(), eps=budget, delta=delta, schema=schema,
            bounds=bounds, public=public, inference=inference, options=options,
            design_options=design_options,
        )  # fmt: skip
        return make_plan(designed, rows)

    result = planned(n, eps)
    from dpmodels.coefficient_forecasts import rare_bases
    from dpmodels.forecasts import Replanned, checked_facts, options_by, power, with_errors

    facts = checked_facts(result, **typed_facts, rows=options.get("rows_per_unit"))
    if with_facts := options_by(result, facts, options):
        options = with_facts
        result = planned(n, eps)

    def make(rows: int, budget: float) -> Plan[Any]:
        return with_errors(planned(rows, budget), facts)

    result, first = with_errors(result, facts), (advice,) if advice else ()
    last = rare_bases(result.design, facts.sd)
    result = replace(result, advice=(*first, *result.advice, *last), again=Replanned(make))
    if want is None or (isinstance(want, str) and not asks_power):  # a plan of a test has its power
        return result
    if asks_power:
        advised = (*result.advice, *power(make, n, float(eps), effect))
        again = Replanned(make, dict(effect or {}))
        return replace(result, advice=advised, again=again)
    return _with_error_advice(result, make, want, n, float(eps))


def _check_planned(verb: Any) -> None:
    """Refuse a verb that has no plan."""
    if isinstance(verb, str) and verb in _OTHER_PLANS:
        raise RequestError(f"dp.plan cannot plan {verb}: {_OTHER_PLANS[verb]}")
    if not method_names(verb):
        planned_verbs = list(dict.fromkeys(methods()["verb"]))
        raise RequestError(
            f"verb={shown(verb)} has no plan.{did_you_mean(str(verb), planned_verbs)} "
            f"Known: {', '.join(planned_verbs)}"
        )


def _with_error_advice(
    result: Plan[Any], make: Callable[[int, float], Plan[Any]], want: Any, n: int, eps: float
) -> Plan[Any]:
    """Return the plan with advice on the privacy standard errors that ``want=`` names."""
    if not isinstance(want, Mapping):
        raise RequestError(
            f"want= must be a mapping, for example want={{{result.design.names[-1]!r}: 0.1}}, or "
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
    from dpmodels.forecasts import error_advice

    return replace(result, advice=(*result.advice, *error_advice(make, n, eps, want)))


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
    """Print versions of this package and of its dependencies, for a report of a problem.

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
    """Return a table with one row per person: counts, sums, extremes, first cells.

    Parameters
    ----------
    data : table
        With any number of rows per person: whatever ``data=`` of a verb takes and can be read
        again.
    unit : str
        Column that identifies the person.
    **features
        New column = (function, column): ``visits="count"`` (of rows), ``paid=("sum", "bill")``,
        ``worst=("max", "score")``, ``ill=("any", "diagnosis")``, ``sex=("first", "sex")``,
        ``("min", ...)``, ``("count", "bill")`` (of cells that are not missing). "first" is by the
        order of the table. For a person without a cell "sum", "any" and "count" are 0, the others
        missing.

    Returns
    -------
    table
        To be given to a verb as its data, with the same ``unit=``; without it the call is refused.

    Privacy
    -------
    Reads no cell: a person's rows are aggregated inside the calls. A row of the result
    is a function of one person's rows alone, so the guarantee of a call for one person of the
    result holds for all rows of that person in ``data``. Ranges and levels of the new columns are
    declared as those of any other column.

    Examples
    --------
    >>> import pandas as pd, dpmodels as dp
    >>> visits = pd.DataFrame({"id": [1, 1, 2], "bill": [10.0, 5.0, 7.0], "sex": ["m", "m", "f"]})
    >>> people = dp.per_person(visits, "id", visits="count", paid=("sum", "bill"))
    >>> sorted(people.kinds)
    ['id', 'paid', 'visits']
    """
    return Features(as_source(data), unit, features)
