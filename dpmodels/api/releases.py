"""``dp_release``, and verbs with a release (a noised table, moments) as data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.api.requests import Designed, build_request, check_columns, check_first
from dpmodels.api.units import NO_PEOPLE, identifier_among
from dpmodels.arrays import with_numpy_defaults
from dpmodels.door import checked, row_count, rows_of, run_stage
from dpmodels.errors import (
    FormulaError,
    NoReplyError,
    RequestError,
    UtilityWarning,
    did_you_mean,
    shown,
)
from dpmodels.quiet import tell
from dpmodels.records import Estimate, Release, Request, check_eps_delta, check_n
from dpmodels.resources import one_thread
from dpmodels.units import LEVELS, NO_IDS

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design
    from dpmodels.formula.schema import Schema
    from dpmodels.models.noised.release import TablePlan
    from dpmodels.models.noised.table import NoisyTable
    from dpmodels.results.fit import Fit
    from dpmodels.results.moments import MomentFacts


def _requested_columns(
    columns: Any, kinds: Mapping[str, str], declared: Schema | None
) -> list[str]:
    """Return the names of the columns to release: those listed, or all."""
    if columns is None:
        columns = list(kinds if declared is None else declared)
    cells = isinstance(columns, str) or type(columns).__name__ == "Series"
    listed = isinstance(columns, Iterable) and not cells
    if not (listed and all(isinstance(c, str) for c in columns)):
        raise RequestError(
            f"columns must be a list of names (or terms such as 'log(x)'), got {shown(columns)}"
        )
    names = list(columns)
    if not names:
        raise RequestError("a release needs at least one column")
    twice = sorted({c for c in names if names.count(c) > 1})
    if twice:
        raise RequestError(f"columns names {twice[0]!r} twice")
    return names


def _plan(
    source: Any, columns: Any, eps: float, delta: float, schema: Schema | None, bounds: Any,
    options: Mapping[str, Any], n: int | None, accepted: bool = False,
) -> TablePlan:  # fmt: skip
    """Plan the release of noised columns: design, noise, ranges."""
    from dpmodels.formula.build import build_design
    from dpmodels.formula.parser import needed_variables
    from dpmodels.formula.schema import declared_schema, schema_for
    from dpmodels.formula.types import check_types
    from dpmodels.models.noised.outlook import foreseen
    from dpmodels.models.noised.release import Settings, plan_table
    from dpmodels.variables import Text

    settings = Settings.of(options)
    declared = declared_schema(schema, source.schema_attr)
    if declared is not None and declared.unit is not None:
        raise RequestError(NO_PEOPLE.format(declared.unit))
    public = settings.public_columns
    for name in public:
        if name not in source.kinds:
            raise RequestError(
                f"public_columns: the data has no column {shown(name)}."
                + did_you_mean(name, source.kinds)
            )
        if source.kinds[name] == "nested":
            check_types(source.kinds, {name: Text()})
    terms = [
        f"`{text}`" if text in source.kinds and not text.isidentifier() else text
        for text in _requested_columns(columns, source.kinds, declared)
        if text not in public
    ]
    if not terms:
        raise RequestError("every requested column is public, so there is nothing to release")
    formula = "~ " + " + ".join(terms)
    needed = needed_variables(formula, source.kinds)
    extra = [c for c in public if declared is not None and c in declared and c not in needed]
    full = schema_for(
        source.kinds, declared, bounds, [*needed, *extra], formula=formula, verb="dp_release"
    )
    design = build_design(formula, full, na="impute-midpoint", one_sided_ok=True)
    if bounds == "private":
        design = design.without_bounds()
    check_columns(design, formula)
    rows = row_count(source, n, next(iter(design.kinds)))
    if rows < 1:
        raise RequestError("the table has no rows")
    plan = foreseen(plan_table(design, rows, eps, delta, settings, full), accepted)
    countable = [c for c, kind in source.kinds.items() if kind not in NO_IDS]
    name = identifier_among([*full, *countable]) if settings.unit == "record" else ""
    if not name:
        return plan
    note = messages.ROW_NOT_PERSON(name=name)
    guarantee = replace(plan.guarantee, notes=(*plan.guarantee.notes, note))
    return replace(plan, guarantee=guarantee)


def _ordered(formula: Any, data: Any, columns: Any) -> tuple[Any, list[str] | None]:
    """Return the table and its columns, in whichever order they were given."""
    has_formula = isinstance(formula, str) and "~" in formula
    terms = isinstance(data, (list, tuple)) and data and all(isinstance(x, str) for x in data)
    old = formula is not None and terms
    if old or (data is None and not has_formula):
        formula, data = data, formula  # dp_release(data), dp_release(data, columns)
    if data is None:
        raise RequestError("dp_release needs a table: dp_release('~ x + z', data, eps=, delta=)")
    if formula is not None and columns is not None:
        raise RequestError(
            "dp_release needs columns in one place, the first argument or columns=: "
            "dp_release('~ x + z', data, ...)"
        )
    requested = columns if formula is None else formula
    if isinstance(requested, str):
        left, tilde, right = (part.strip() for part in requested.partition("~"))
        if tilde and left:
            raise RequestError(
                f"a release has no response: write all columns on the right, '~ {left} + {right}'"
            )
        listed = [term for _, term in signed(right if tilde else requested, "+")]
        return data, None if listed in (["."], []) else listed  # a dot: all
    return data, None if requested is None else list(requested)


def signed(text: str, signs: str = "+-") -> list[tuple[str, str]]:
    """Return the terms of a sum with their signs, those inside brackets left whole."""
    out, depth, start, sign = [], 0, 0, "+"
    for k, letter in enumerate(f"{text}+"):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and letter in signs:
            if text[start:k].strip():
                out.append((sign, text[start:k].strip()))
            sign, start = letter, k + 1
    return out


@with_numpy_defaults
def dp_release(
    formula: Any = None,
    data: Any = None,
    *,
    columns: Any = None,
    eps: float,
    delta: float,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    level: str | None = None,
    unit: str | None = None,
    clear_prob: float = 0.0,
    allow_clear_records: bool = False,
    accept_no_estimate: bool = False,
    noise: str = "auto",
    blocks: Any = None,
    public_columns: Iterable[str] = (),
    keep_order: bool = False,
    budget: Any = None,
    seed: int | None = None,
    tight: bool = True,
    rescale: bool | float = True,
    n: int | None = None,
) -> NoisyTable:
    """Release a noised table once; fit any model on it afterwards, as often as you like.

    Parameters
    ----------
    formula : str or list of str, optional
        Columns, or terms of the formula language: ``"~ x + log(z) + x:z"``, or a list of them,
        which are released as separate columns. Left out, ``dp_release(data)``: all of the
        schema, else of the data.
    data : table
        Any table that a verb takes (see :func:`dpmodels.dp_ols`), with one row per record.
    columns : list of str, optional
        The formula as version 0.1 took it: ``dp_release(data, columns)``, by position or by name.
    eps, delta : float
        The guarantee of the release. ``delta=0`` is possible for ``noise="laplace"`` (and for a
        single column) with all bounds declared.
    schema, bounds
        Facts about the variables, or ranges alone: undeclared ranges of numeric columns are
        estimated, levels must be declared.
    level, unit : {"record", "attribute"}
        What is protected: a whole row, or one variable of it (synonyms).
    clear_prob : float
        Probability that a record is published UNPERTURBED. Not the delta of the guarantee.
    allow_clear_records : bool
        Needed for a ``clear_prob`` above 1/(10 n).
    accept_no_estimate : bool
        Release although the noise lets expect no estimate of any regression on the release; else
        the call is refused before the charge.
    noise : {"auto", "sl", "laplace", "gaussian"}
    blocks : list of lists of str, optional
        SL noise with one radius for each group of columns (eps and delta are split evenly).
    public_columns : list of str
        Published as they are: NOT PROTECTED.
    keep_order : bool
        True states that the order of the rows is public; otherwise they are permuted.
    budget : Budget, optional
    seed : int, optional
        For tests: the release is then NOT PRIVATE.
    tight : bool
        Calibrate SL noise exactly for the number of columns (else by the limit of many columns).
    rescale : bool or float
        Release the centre and scale of declared numeric columns first (at most a twentieth of
        ``eps``, and only if n is large enough). Cells are then clipped at this number of scales on
        either side of the centre (True: 4), as the noise is in proportion to the range. 2 needs a
        ninth of the rows, and shortens slopes of long-tailed columns by up to .05 of a standardised
        one.
    n : int, optional
        Number of rows of a source that does not report it.

    Returns
    -------
    NoisyTable

    Privacy
    -------
    Unit: one row, or one attribute of a row (``level``). Neighbours: replace one row, n public;
    add/remove is not covered. Charged: (eps, delta), before any row is read. Public: column names,
    ranges, levels, n, noise scales, and every column in ``public_columns``. With declared bounds
    and ``rescale=False`` the guarantee holds record by record (local differential privacy).

    Notes
    -----
    The rows are read by this process, part after part, whatever is connected by ``dp.connect``:
    what is released is not a sum but every row, and noise is never drawn on a worker. A table that
    stays elsewhere (``dp.Elsewhere``) is refused before the charge.
    """
    from dpmodels.models.noised.release import make_table
    from dpmodels.models.noised.table import Origin
    from dpmodels.sources.executors import need_rows
    from dpmodels.sources.tasks import as_source

    data, columns = _ordered(formula, data, columns)
    if hasattr(data, "__noisy_table__"):
        raise RequestError("the data is a release already: releasing it again is post-processing")
    if level is not None and unit is not None and level != unit:
        raise RequestError("level= and unit= are synonyms; give one of them")
    if unit is not None and unit not in LEVELS:
        raise RequestError(NO_PEOPLE.format(unit))
    eps, delta = check_eps_delta(eps, delta, allow_pure=True)
    checked(budget, seed)
    if n is not None:
        n = check_n(n)
    options = {
        "unit": level or unit or "record",
        "clear_prob": clear_prob,
        "allow_clear_records": allow_clear_records,
        "noise": noise,
        "blocks": blocks,
        "public_columns": public_columns,
        "keep_order": keep_order,
        "tight": tight,
        "rescale": rescale,
    }
    source = as_source(data)
    need_rows(source, "dp_release")
    if not isinstance(accept_no_estimate, bool):
        raise RequestError(
            f"accept_no_estimate must be True or False, got {shown(accept_no_estimate)}"
        )
    plan = _plan(source, columns, eps, delta, schema, bounds, options, n, accept_no_estimate)
    label = f"dp_release({', '.join(plan.layout.names)})"
    rows = functools.partial(rows_of, source, plan.n)
    _, table = run_stage(label, plan, make_table, rows, budget, seed, what="the release is ")
    if table is None:
        raise NoReplyError(
            "no reply: the ranges of undeclared columns could not be found within the budget (a "
            f"valid private outcome). The full charge (eps = {plan.guarantee.eps:g}, delta = "
            f"{plan.guarantee.delta:g}) stands. Declare them: bounds={{'x': (0, 10)}}"
        )
    return replace(table, origins=(Origin(data),))


def load_release(path: Any) -> NoisyTable:
    """Load a release that ``rel.save(path)`` wrote.

    Privacy
    -------
    Costs nothing: the files hold released numbers and public facts.
    """
    from dpmodels.models.noised.table import NoisyTable

    return NoisyTable.load(path)


# -- A release in place of the data: the fit reads no row, and costs nothing.


class _Required:
    """Stands for an argument that must be given; it has no default value."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()

#: Names of the two numbers in other packages.
_OTHER_NAMES = {"epsilon": "eps"}


class MissingArgumentError(RequestError, TypeError):
    """A required keyword was left out."""


def given_names(**arguments: Any) -> list[str]:
    """Return the names of the arguments that a call gave: none of them goes with a release."""
    return [
        name
        for name, value in arguments.items()
        if value is not (REQUIRED if name in ("eps", "delta") else None)
    ]


def require(verb: str, eps: Any, delta: Any, options: Mapping[str, Any] | None = None) -> None:
    """Refuse a call on ordinary data without eps and delta."""
    missing = [name for name, v in (("eps", eps), ("delta", delta)) if v is REQUIRED]
    if missing:
        other = [name for name in options or {} if name in _OTHER_NAMES]
        hints = "".join(f" ({_OTHER_NAMES[name]} is not called {name} here)" for name in other)
        raise MissingArgumentError(
            f"{verb}() needs {' and '.join(missing)}{hints}: the guarantee of the call has no "
            "default. For example eps=1, delta=1e-6"
        )


def fit_of(verb: str, data: Any) -> Callable[..., Fit] | None:
    """Return the function that fits on a release, or None if the data is a table."""
    from dpmodels.registry import method_names
    from dpmodels.results.fit import Fit

    if hasattr(type(data), "__noisy_table__"):
        return _fit_on_release if "drcl" in method_names(verb) else None
    if not isinstance(data, Fit):
        return None
    if verb == "dp_ols":
        return _fit_on_moments
    raise RequestError(
        f"{verb} needs a table, got a fit. A release of second moments serves dp_ols and dp_iv"
    )


def _estimated(plan: Any, release: Release, estimate: Callable[[Any, Release], Estimate]) -> Fit:
    """Return the fit of an earlier release: nothing is read and nothing is charged."""
    from dpmodels.results.fit import Fit
    from dpmodels.scoring.notes import no_ranges_note

    with one_thread():
        result = estimate(plan, release) if release.reply else no_ranges_note(release.design.names)
    tell(*map(UtilityWarning, result.warnings))
    return Fit(plan, release, result)


def _fit_on_release(
    verb: str,
    formula: Any,
    rel: Any,
    *,
    method: str | None,
    inference: bool,
    progress: bool | None,
    options: Mapping[str, Any],
    design_options: Mapping[str, Any] | None,
    **paid: Any,
) -> Fit:
    """Fit a model on a release, whose guarantee the fit states: nothing is read or charged."""
    from dpmodels.models.noised.fit import RELEASE_OPTIONS, estimate, plan_on_release
    from dpmodels.models.noised.model import schema_of
    from dpmodels.registry import method_names, resolve

    check_first(formula)
    order = ("eps", "delta", "schema", "bounds", "public", "budget", "seed")
    refused = given_names(**{name: paid[name] for name in order})
    if refused:
        raise RequestError(
            f"{', '.join(refused)} must not be given with a release: it was charged when it was "
            f"made, with guarantee {rel.guarantee.statement()}"
        )
    method = method or "drcl"
    entry = resolve(verb, method)
    if "release" not in entry.accepts:
        able = [m for m in method_names(verb) if "release" in resolve(verb, m).accepts]
        raise RequestError(
            f"{verb}(method={method!r}) needs the data itself, not a release. Methods that work "
            f"on a release: {', '.join(map(repr, able)) or 'none'}"
        )
    ours = {o.name for o in RELEASE_OPTIONS}
    for name in options:
        if name in ours:
            raise RequestError(f"{name}= is fixed when the release is made, in dp_release()")
    facts = schema_of(rel)
    call = build_request(
        verb, formula, eps=rel.guarantee.eps, delta=rel.guarantee.delta, method=method,
        kinds=_kinds_of(facts), attached=facts, inference=inference,
        progress=progress, options=options, design_options=design_options,
    )  # fmt: skip
    intervals = {
        name: (float(lo), float(lo + s))
        for name, lo, s in zip(rel.names, rel.lower, rel.scale, strict=True)
    }
    unknown = [c for c in call.design.unknown if c in intervals]
    design = call.design.with_bounds({c: intervals[c] for c in unknown}) if unknown else call.design
    plan = plan_on_release(call.request, design, rel)
    release = Release({}, rel.guarantee, design, detail=rel)
    return _estimated(plan, release, estimate)


def _kinds_of(schema: Any) -> dict[str, str]:
    """Return the kinds of the columns from their declarations, as there is no table."""
    return {
        name: "numeric" if getattr(schema[name], "levels", None) is None else "category"
        for name in schema
    }


def request_of_other_verb(
    fit: Fit, verb: str, formula: str, method: str, call_options: Mapping[str, Any], **entry: Any
) -> Designed:
    """Return the request that another function would make of the released numbers of a fit."""
    schema = fit._record.design.schema
    call = build_request(
        verb, formula, eps=fit.privacy.eps, delta=fit.privacy.delta, method=method,
        kinds=_kinds_of(schema), attached=schema, options=call_options,
    )  # fmt: skip
    method_ran = replace(call.request.method, **entry)
    return replace(call, request=replace(call.request, method=method_ran, level=fit.level))


# -- Regressions on a release of second moments: they read no row and cost nothing.


_BEFORE = "Fitted on a release that was made before: this fit cost nothing."


def _fit_on_moments(
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
    """Fit a linear regression on released second moments: nothing is read and nothing charged."""
    from dpmodels.results.moments import moments_of

    check_first(formula)
    arguments = dict(options or {})
    level = arguments.pop("level", 0.95)
    refused = given_names(eps=eps, delta=delta, **others, method=method)
    refused += [*arguments, *([] if inference is True else ["inference"])]
    if refused:
        raise RequestError(
            f"{', '.join(refused)} must not be given with a release of second moments: it was "
            f"fixed and charged when the release was made ({m.privacy.statement()}). "
            f"Type {verb}({formula!r}, m)"
        )
    facts = moments_of(m._record)
    design = design_on(formula, m, verb)
    rows = functionals_on(design, m, facts)
    return fit_of_functionals(verb, formula, m, facts, design, rows, level=level)


def fit_of_functionals(
    verb: str, formula: str, m: Fit, facts: MomentFacts | None, design: Design, rows: Array | None,
    *, level: float = 0.95, title: str = "least squares on released second moments",
    instruments: Any = None, paid: bool = False,
) -> Fit:  # fmt: skip
    """Return the fit of functionals ``rows`` (response last) of a release; None is a no-reply."""
    from dpmodels.models.moments import OnMoments, estimate
    from dpmodels.planning import Plan
    from dpmodels.registry import resolve

    promise = m.privacy
    entry = replace(
        resolve(m._record.call.verb, m.method), verb=verb, title=title,
        privacy_se="released", options=(),
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
    return _estimated(plan, release, estimate)


def design_on(formula: str, m: Fit, verb: str) -> Design:
    """Return the design of a formula in the variables of a release."""
    from dpmodels.formula.build import build_design
    from dpmodels.formula.parser import needed_variables

    source = m.design
    kinds = _kinds_of(source.schema) if "." in formula.split() else None
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
            "offset() cannot be combined with a release of second moments: regress "
            f"I({design.response.name} - {design.offset}) instead, if the release holds both"
        )
    intervals = {c.name: c.interval for c in source.z if c.interval is not None}
    return design.with_bounds({c: intervals[c] for c in design.unknown if c in intervals})


def functionals_on(design: Design, m: Fit, facts: MomentFacts) -> Array:
    """Return the columns of a design (response last) as functionals of a release, or refuse."""
    from dpmodels.formula.describe import span, terms_at

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
    """Return the call of a release of moments that would contain the given terms."""
    held = m.formula.partition("~")
    released = held[0].strip() if held[2].strip() in ("", "1") else f"{held[0]} + {held[2]}".strip()
    formula = " + ".join([released, *terms])
    return f'A release that holds it: dp.dp_moments("{formula}", data, eps=..., delta=...)'
