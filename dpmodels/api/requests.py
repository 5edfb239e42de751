"""From the arguments of a call to a frozen request and a design. Reads no row."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dpmodels.api.units import identifier_among, person_of
from dpmodels.arrays import plain
from dpmodels.errors import (
    DPModelsWarning,
    FormulaError,
    RequestError,
    SchemaError,
    SourceError,
    check_among,
    choice,
    did_you_mean,
    path_of,
    shown,
)
from dpmodels.families import family_of, link_of
from dpmodels.formula.build import check_subset
from dpmodels.formula.describe import public_points
from dpmodels.formula.design import Design
from dpmodels.formula.parser import inline_variables, needed_variables
from dpmodels.formula.schema import Schema, declared_schema, schema_for
from dpmodels.formula.survival import design_from
from dpmodels.formula.types import check_types
from dpmodels.formula.words import LONGEST_NAME, check_names, one_name, refuse_powers_of_one
from dpmodels.quiet import tell
from dpmodels.records import Request, check_eps_delta, check_n, check_seed
from dpmodels.registry import Method, default_method, method_names, resolve
from dpmodels.scoring.cluster_plan import SampleDesign
from dpmodels.sources.parts import Untyped
from dpmodels.sources.rows import Rows, count_rows
from dpmodels.survey import Frame, Survey
from dpmodels.units import LEVELS, NO_IDS, Person
from dpmodels.variables import Count, Levels, Text
from dpmodels.verbs import verb_of

# -- ``design=``, ``psus=`` and ``vcov={"CRV1": ...}`` of a call: the sample, as public facts.


_CRV = 'vcov={"CRV1": "village"}'
#: Kinds of variables that list their values.
_LISTED = ("levels", "ordered", "binary")
#: Verbs whose designs are of rows alone.
_OF_ROWS = ("dp_mean", "dp_table", "dp_quantile", "dp_test")


def survey_of(options: dict[str, Any]) -> Survey | None:
    """Take the sample of a call out of its options: ``design=``, or errors by cluster."""
    survey, psus = options.pop("design", None), options.pop("psus", None)
    if survey is not None and not isinstance(survey, Survey):
        raise RequestError(
            "design= must be a dp.Survey, for example dp.Survey(weights='w', strata='region', "
            f"psu='village'); got {shown(survey)}"
        )
    vcov = options.get("vcov")
    if not isinstance(vcov, Mapping):
        if psus is not None:
            raise RequestError(
                f"psus= is the number of clusters: give it with {_CRV}, or in dp.Survey(psus=)"
            )
        return survey
    del options["vcov"]
    if survey is not None:
        raise RequestError(
            "design= already sets the errors: leave vcov= out, dp.Survey(psu=) has the clusters"
        )
    if [str(k).upper() for k in vcov] != ["CRV1"]:
        raise RequestError(f"vcov= as a mapping is {_CRV}, errors by cluster; got {shown(vcov)}")
    column = next(iter(vcov.values()))
    if isinstance(column, str) and ("+" in column or "^" in column):
        raise RequestError(
            f"vcov={shown(vcov)}: clusters of one column only. Two-way clustering subtracts the "
            "products of the intersections: it has the noise of three releases, and its result "
            "need not be a variance"
        )
    if isinstance(psus, Mapping):
        raise RequestError("psus= is one number here, that of all clusters")
    return Survey(psu=column, psus=psus, errors_only=True)


def check_sample(
    survey: Survey, method: Method, weights: str | None, unit: Any, max_rows: int | None = None
) -> str | None:
    """Refuse a call that has no errors by design; return its weights."""
    if "design" not in method.accepts:
        what = _CRV if survey.errors_only else "design="
        raise RequestError(
            f"{method.verb}(method={method.name!r}) cannot use {what}: it releases no sums of "
            "scores, which errors by cluster need"
        )
    column = getattr(unit, "column", unit)
    if unit is not None and column == survey.psu:
        raise RequestError(
            f"unit={column!r} is the cluster itself: errors are by person already, and the person "
            "is protected. Leave the clusters out"
        )
    if unit is not None and method.verb in _OF_ROWS and (survey.psu or survey.strata):
        raise RequestError(
            f"{method.verb}(design=) with units or strata works for rows only. With "
            f"unit={column!r} give weights= alone, or use a regression with errors by design: "
            'dp_ols("y ~ 1", unit=, design=), dp_glm, dp_quantreg; or leave unit= out, rows are '
            "then protected"
        )
    if unit is not None and max_rows is not None:
        raise RequestError(
            "max_rows= together with clusters has no proof. Leave max_rows= out: each person then "
            "adds the sum of their scores"
        )
    if survey.weights is not None and weights is not None:
        raise RequestError("weights= and design= together: dp.Survey(weights=) names the weights")
    return survey.weights or weights


def labels_declared(
    survey: Survey, declared: Schema | None, kinds: Mapping[str, str]
) -> dict[str, Any]:
    """Return the variables of the columns of labels, or refuse."""
    variables = {} if declared is None else dict(declared.variables)
    out: dict[str, Any] = {}
    for what, name in (("psu", survey.psu), ("strata", survey.strata)):
        if name is None:
            continue
        check_among(name, kinds, f"{what}={shown(name)}: the data has no column of this name")
        if what == "strata" and not isinstance(variables.get(name), Levels):
            raise SchemaError(
                f"strata={name!r} needs declared levels: schema={{{name!r}: "
                f"dp.Levels(['north', 'south'])}}. Do not take them from the data"
            )
        out[name] = variables.get(name)
        if what == "psu" and not isinstance(out[name], (Count, Levels)):
            out[name] = Text()
    check_types(kinds, out)
    return out


def sampled(
    request: Request, survey: Survey, design: Design, variables: Mapping[str, Any]
) -> tuple[Request, Design]:
    """Return the request with its sample, and the design whose rows have an id of a cluster."""
    psu, strata = survey.psu, survey.strata
    levels: tuple[Any, ...] = () if strata is None else tuple(variables[strata].levels)
    psu_variable = None if psu is None else variables[psu]
    labelled = isinstance(psu_variable, (Count, Levels)) and not survey.errors_only
    if labelled and survey.psus is None and strata is None:
        count = (
            len(psu_variable.levels)
            if isinstance(psu_variable, Levels)
            else getattr(psu_variable, "upper", None)
        )
        survey = survey if count is None else replace(survey, psus=count)
    frame = Frame(survey, levels, labelled)
    frame.factors()  # raise now if the declarations do not fit together
    if psu is None and (strata is None or survey.fpc is None):
        return replace(request, sample=SampleDesign(frame, design)), design
    design_variables = dict(design.schema.variables)
    schema = Schema(
        **{**{k: v for k, v in variables.items() if k not in design_variables}, **design_variables}
    )
    text = {**design.to_dict(), "schema": schema.to_dict()}
    labelled_design = design_from({**text, "labels": [psu, strata]})
    if psu is not None and not design.cells and design.survival is None:
        design = design_from({**text, "ids": psu})
    return replace(request, sample=SampleDesign(frame, labelled_design)), design


# -- Which method serves a call that names none: a rule on public quantities


#: Arguments that every formula verb takes beside its method's own options.
COMMON_OPTIONS: dict[str, Any] = {
    "split": None,
    "level": 0.95,
    "relation": None,
    "na": "zero-row",
    "on_no_reply": "return",
    "engine": "formulaic",
    "subset": None,
    "weights": None,
    "n": None,
    "unit": None,
    "units": None,
    "rows_per_unit": None,
    "max_rows": None,
    "sort": None,
    "design": None,
    "psus": None,
}


class Choice(NamedTuple):
    """The method of a call, with the reasons."""

    method: str
    reasons: tuple[str, ...] = ()


def choose_method(
    verb: str,
    method: str | None,
    public: Any,
    *,
    inference: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Choice:
    """Return the method of a call, with the reasons.

    One that reads public data where they are given (by the verb's record), else the first method
    of the registry; the record may name another that is the better one without inference
    (``Verb.instead``). An option that only the other has asks for it.
    """
    if method is not None:
        return Choice(method)
    record, first = verb_of(verb), default_method(verb)
    chosen, why = first, record.because
    set_options = {k: v for k, v in (options or {}).items() if v is not None}
    if public is not None and record.with_public:
        chosen, why = record.with_public, "because public data were given"
    elif record.instead and all(
        _serves(verb, record.instead, k, set_options[k]) for k in set_options
    ):
        accepted = {*COMMON_OPTIONS, *(o.name for o in resolve(verb, first).options)}
        unaccepted = [name for name in set_options if name not in accepted]
        guessed = set_options.get("relation") != "add-remove" or "n_guess" in set_options
        if unaccepted:
            chosen, why = record.instead, f"because {unaccepted[0]}= was given"
        elif not inference:
            chosen, why = record.instead, "because inference=False asks for no errors"
        elif not guessed:
            chosen = record.instead
            why = "because relation='add-remove' was given without n_guess="
    default = chosen == first and why == record.because
    return Choice(
        chosen, (f"{'default method' if default else 'method'}: {chosen}, {why}",) if why else ()
    )


def _serves(verb: str, method: str, name: str, value: Any) -> bool:
    """Return whether a method takes an option with this value."""
    if name == "unit" and value not in LEVELS:
        return bool(resolve(verb, method).people)
    if name in COMMON_OPTIONS:
        return name != "weights" or "weights" in resolve(verb, method).accepts
    option = next((o for o in resolve(verb, method).options if o.name == name), None)
    if option is None:
        return False
    return not (option.choices and isinstance(value, str) and value not in option.choices)


def glm_arguments(
    formula: Any,
    *,
    family: Any,
    event: Any = None,
    link: Any = None,
    offset: Any = None,
    exposure: Any = None,
    **options: Any,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return (formula, options, design options) of a call: for a fit and for its plan."""
    chosen = family_of(family)
    named = link_of(chosen, link, family)
    if event is not None and not chosen.is_event:
        raise RequestError("event= names the level of a binomial response")
    if exposure is not None and named.name != "log":
        raise RequestError(
            "exposure= multiplies the mean of a log link; for another link give offset="
        )
    for name, text in (("offset", offset), ("exposure", exposure)):
        if text is None:
            continue
        if not isinstance(text, str):
            raise RequestError(
                f"{name}= must be a string, for example {name}='months': it is read row by row "
                f"with the data; got {type(text).__name__}"
            )
        inner = f"log({one_name(text)})" if name == "exposure" else one_name(text)
        formula = f"{formula_text(formula)} + offset({inner})"
    design: dict[str, Any] = {"response_ok": chosen.response}
    if event is not None:
        design["event"] = event
    return formula, {**options, "family": chosen.name, "link": named.name}, design


def with_base(schema: Any, formula: str, base: Any, data: Any) -> Any:
    """Return the schema (of the call, else of the frame) with the response's base level first."""
    if base is None:
        return schema
    name = formula.split("~")[0].strip().strip("`")
    current = declared_schema(schema, Schema.from_frame_attrs(data)) or Schema()
    declared: Any = current[name] if name in current else None  # noqa: SIM401
    levels = list(declared.levels) if isinstance(declared, Levels) else []
    if base not in levels:
        raise RequestError(
            f"base={shown(base)} is not a declared level of {name!r}"
            + (f": {levels}" if levels else ", whose levels are not declared in schema=")
        )
    return current.update({name: Levels(sorted(levels, key=lambda level: level != base))})


@dataclass(frozen=True)
class Designed:
    """A request with its design and the declared row count (if any)."""

    request: Request
    design: Design
    n: int | None


def check_split(split: Any) -> Mapping[str, float]:
    """Return a split of positive shares that sums to 1 within 1e-9."""
    if not isinstance(split, Mapping) or not split:
        raise RequestError("split= must be a mapping, for example {'bound': .15, 'coef': .85}")
    shares = {}
    for name, share in split.items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not share > 0:
            raise RequestError(
                f"split={{{shown(name)}: {shown(share)}}}: shares must be positive numbers"
            )
        shares[str(name)] = float(share)
    total = math.fsum(shares.values())
    if not abs(total - 1.0) <= 1e-9:
        typed = all(type(share) in (int, float) for share in split.values())
        raise RequestError(
            f"the shares of split= sum to {total!r}, not to 1"
            if typed
            else "the shares of split= must sum to 1"
        )
    return shares


#: Arguments that name a column, or are an expression of names, with examples.
_EXAMPLES = {
    "subset": "\"age >= 30 and region == 'south'\"",
    "weights": '"w", a column with a declared range',
}


def _common(options: dict[str, Any]) -> dict[str, Any]:
    """Take the common arguments out of ``options`` and check them."""
    common = {k: options.pop(k, default) for k, default in COMMON_OPTIONS.items()}
    dropped = (
        " No row is dropped, as n is public: a row with a missing cell counts as zeros "
        "(na='zero-row', the default)"
        if common["na"] in ("drop", "omit", "exclude", "na.omit")
        else ""
    )
    choice("na", common["na"], ("zero-row", "impute-midpoint", "declared"), more=dropped)
    choice("on_no_reply", common["on_no_reply"], ("return", "raise", "default"))
    choice("engine", common["engine"], ("formulaic", "patsy"))
    if common["relation"] is not None:
        choice("relation", common["relation"], ("replace", "add-remove"))
    level = plain(common["level"])
    if isinstance(level, float) and 0.0 < level < 1.0:
        common["level"] = level
    check_level(common["level"])
    if common["split"] is not None:
        common["split"] = check_split(common["split"])
    for name, example in _EXAMPLES.items():
        value = common[name]
        if value is not None and not isinstance(value, str):  # a column is not its name
            raise RequestError(
                f"{name}= must be a string, for example {name}={example}: it is read row by row "
                f"with the data; got {type(value).__name__}"
            )
    if common["n"] is not None:
        common["n"] = check_n(common["n"])
    return common


def _person(
    method: Method,
    common: Mapping[str, Any],
    declared: Schema | None,
    kinds: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> Person | None:
    """Return the person of a call (``unit=``, else of the schema), or None; or refuse."""
    unit = common["unit"]
    if unit is None and declared is not None and options.get("unit") is None:
        unit = declared.unit
    variables = {} if declared is None or unit is None else declared.variables
    levelled = [name for name, variable in variables.items() if variable.kind in _LISTED]
    person = person_of(
        unit, *(common[k] for k in ("units", "rows_per_unit", "max_rows", "sort")),
        columns=kinds, levelled=levelled,
    )  # fmt: skip
    if person is None:
        return None
    if person.sort:
        from dpmodels.sources.scratch import check_sorter

        check_sorter()
    if not (method.people or person.most):
        able = [m for m in method_names(method.verb) if resolve(method.verb, m).people]
        other = f"Use method={' or '.join(map(repr, able))}; or keep" if able else "Keep"
        raise RequestError(
            f"{method.verb}(method={method.name!r}) has no proof for people "
            f"(unit={person.column!r}). {other} at most m rows per person, with the charge of m "
            "rows, for example max_rows=2; or make a table of one row per person first (a mean, a "
            "last visit), and leave unit= out"
        )
    if person.most:
        _check_cap(method, person.most, common)
    if common["n"] is not None:
        raise RequestError(
            "n= counts rows, and under unit= their number is private: give units=, the number of "
            "people, or leave it out"
        )
    if options.get("public_order"):
        raise RequestError(
            "public_order=True reads rows by position, and with unit= the rows of one person "
            "move the others: leave it out"
        )
    return person


def _check_cap(method: Method, most: int, common: Mapping[str, Any]) -> None:
    """Refuse ``max_rows=`` where rows cannot be kept and filled up."""
    argument = f"max_rows={most}"
    if "release" in method.accepts:
        raise RequestError(
            f"{argument}: a noised table protects one row of it, and its rows are not filled up. "
            "Make a table of one row per person first, and leave unit= out"
        )
    if common["relation"] == "add-remove" or "replace" not in method.relations:
        raise RequestError(
            f"{argument} has its proof for relation='replace': people are filled up to {most} "
            "rows each, so that their number is public"
        )
    if common["na"] != "zero-row":
        raise RequestError(f"{argument} fills people up with empty rows: leave na= out")


#: Pairs of a declared name and a column that are compared for misspellings.
_MOST_PAIRS = 50_000


def nearly(name: str, others: Sequence[str]) -> str | None:
    """Return the one of other names that a name may be misspelt for, or None.

    Names whose numbers differ, income1 and income2, are different names.
    """

    def key(text: str) -> str:
        return re.sub(r"[\W_]", "", text).casefold()

    def letters(text: str) -> list[str]:
        return sorted(key(text))

    if len(name) > LONGEST_NAME:
        return None
    numbers = re.findall(r"\d+", name)
    alike = []
    for other in others:
        other_numbers = re.findall(r"\d+", other)
        if not numbers or not other_numbers or other_numbers == numbers:
            alike.append(other)
    for other in alike:  # in other capitals, or with letters swapped
        if key(other) == key(name) or (len(name) > 2 and letters(other) == letters(name)):
            return other
    return next(iter(difflib.get_close_matches(name, alike, 1, 0.75)), None)


def check_declared(
    kinds: Mapping[str, str], declared: Schema | None, bounds: Any, needed: Iterable[str],
    formula: str,
) -> None:  # fmt: skip
    """Refuse names that would silently be understood as something else.

    A declaration that no column has, where a column of the formula with nearly that name has none
    (of another column: a warning, as tables share schemas);
    a column of a file without types.
    """
    ranges = bounds if isinstance(bounds, Mapping) else {}
    declared_names = {} if declared is None else declared.variables
    silent = [
        name
        for name in needed
        if name in kinds and name not in declared_names and name not in ranges
    ]
    others = [name for name in kinds if name not in declared_names and name not in ranges]
    absent = [name for name in declared_names if name not in kinds]
    if len(absent) * len(others) > _MOST_PAIRS:  # comparing them all takes longer than the call
        others = []
    for name in absent:
        if close := nearly(name, silent):
            raise SchemaError(
                f"the schema declares {name!r}, which no column is called. Did you mean "
                f"{close!r}? It has no declaration"
            )
        if close := nearly(name, others):
            tell(
                DPModelsWarning(
                    f"the schema declares {name!r}, which no column is called. Did you mean "
                    f"{close!r}? It has no declaration, and this call does not use it"
                )
            )
    if absent and silent:
        tell(
            DPModelsWarning(
                f"the schema declares {absent[0]!r}, which no column is called, and {silent[0]!r} "
                "of this formula has no declaration. If they are the same, correct the name"
            )
        )
    inline = inline_variables(formula)
    untyped = [name for name in silent if isinstance(kinds, Untyped) and name not in inline]
    if untyped and bounds != "private":
        name = untyped[0]
        raise SchemaError(
            f"a CSV file has no types, so {name!r} must be declared. A number: "
            f"schema={{{name!r}: dp.Real(lower, upper)}} (dp.Real() estimates its range); a "
            f"category: {{{name!r}: dp.Levels([...])}}. A Parquet file or a frame has types"
        )


def check_level(level: Any) -> None:
    """Raise ``RequestError`` unless this is the level of an interval."""
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise RequestError(
            f"level must lie between 0 and 1, got {shown(level)}. For example level=0.95"
        )


#: Kinds of columns that may be 0 in every row.
_MADE = ("numeric", "product")


def check_columns(design: Design, formula: str) -> None:
    """Refuse a formula that names no column of the table, or its response twice."""
    if not design.kinds:
        raise FormulaError(f"{formula!r} names no column of the table. For example 'y ~ x'")
    if design.response is not None and design.response.name in design.names:
        raise FormulaError(
            f"{formula!r}: the response {design.response.name!r} is a predictor of itself. Leave "
            "it out on the right"
        )
    if not hasattr(design.program, "products"):  # cells of a table, not columns of numbers
        return
    vary = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    listed = [design.columns[j] for j in vary]
    declared = design.schema.variables
    if vary and all(c.name not in declared and c.kind in _MADE for c in listed):
        X = np.asarray(design.matrix(public_points(design, 16, (1.0, 2.0))), dtype=float)
        if not np.nan_to_num(X[:, vary]).any():
            raise FormulaError(f"{formula!r}: every column is 0 in every row. For example 'y ~ x'")


def formula_text(formula: Any) -> Any:
    """Return the text of a formula of formulaic or patsy; anything else as it is."""
    package = type(formula).__module__.split(".")[0]
    if package == "patsy" and hasattr(formula, "describe"):
        return str(formula.describe())
    if package != "formulaic":
        return formula
    left, right = getattr(formula, "lhs", None), getattr(formula, "rhs", formula)
    terms = [str(term) for term in right]
    terms = [t for t in terms if t != "1"] if "1" in terms else ["0", *terms]
    return f"{'' if left is None else left} ~ {' + '.join(terms) or '1'}".strip()


def check_first(formula: Any) -> Any:
    """Return the formula of a call as text; refuse a first argument that is none."""
    formula = formula_text(formula)
    check_names(formula)
    if isinstance(formula, str):
        return formula
    table = hasattr(formula, "columns") or hasattr(formula, "schema")
    raise RequestError(
        f"the first argument is the formula, a string such as 'y ~ x1 + x2'; got "
        f"{type(formula).__name__}" + (": the formula comes before the data" if table else "")
    )


def _planned_columns(
    formula: str, declared: Schema | None, bounds: Any, common: Mapping[str, Any],
    survey: Survey | None,
) -> dict[str, str]:  # fmt: skip
    """Return the columns that a plan without data knows: declared ones, or the formula's.

    Unless every range is estimated, a name that is not declared may be misspelt, and is refused.
    """
    if declared is None and bounds is None:
        raise RequestError("planning without data needs schema= (or bounds=)")
    names = set(declared.variables) if declared is not None else set()
    names |= {str(name) for name in bounds} if isinstance(bounds, Mapping) else set()
    labelled = [] if survey is None else [s for s in (survey.psu, survey.strata) if s]
    if names and "." in formula:
        return dict.fromkeys([*sorted(names), *labelled], "unknown")
    read = {k: common[k] for k in ("engine", "subset", "weights")}
    used = needed_variables(formula, None, declared=names, **read)
    unknown = [name for name in used if name not in names and name not in inline_variables(formula)]
    if unknown and bounds != "private":
        raise RequestError(
            f"planning without data: {unknown[0]!r} is neither in schema= nor in bounds=."
            f"{did_you_mean(unknown[0], names)} For a number whose range is to be estimated: "
            f"schema={{{unknown[0]!r}: dp.Real()}}, or bounds='private' for all"
        )
    return dict.fromkeys([*sorted(names.union(used)), *labelled], "unknown")


def _take_unit(options: dict[str, Any], entry: Method) -> dict[str, str]:
    """Take ``unit=`` out of the options where it is a level of a noised table, and return it.

    A word of the method and no column: noised tables protect one row or one variable of it.
    """
    unit = options.get("unit")
    if not isinstance(unit, str) or unit not in LEVELS:
        return {}
    del options["unit"]
    if any(o.name == "unit" for o in entry.options):
        return {"unit": unit}
    if unit == "attribute":
        raise RequestError(
            f"{entry.verb}(method={entry.name!r}) protects whole rows, or people "
            '(unit="person_id"); unit="attribute" needs a noised table, method="drcl"'
        )
    return {}


def _relation(verb: str, entry: Method, common: Mapping[str, Any]) -> str:
    """Return the relation of neighbours: the requested one, else the first of the method."""
    relation: str = common["relation"] or entry.relations[0]
    if relation not in entry.relations:
        raise RequestError(
            f"{verb}(method={entry.name!r}) has no proof for relation={shown(relation)}; "
            f"it has one for {', '.join(map(repr, entry.relations))}"
        )
    bounded = common["max_rows"] is not None and common["relation"] is None
    return "replace" if bounded and "replace" in entry.relations else relation


def _possible_identifier(
    person: Any, resolved: Mapping[str, Any], declared: Schema | None, kinds: Mapping[str, str]
) -> str:
    """Return a column that may identify people, if no unit was declared."""
    if person is not None or resolved.get("unit") == "attribute":
        return ""
    variables = () if declared is None else declared.variables
    return identifier_among(
        [*variables, *(c for c, kind in kinds.items() if kind not in NO_IDS)]
    )


def _check_public(entry: Method) -> None:
    """Refuse ``public=`` for a method that does not use it."""
    if "public" not in entry.accepts:
        able = [m for m in method_names(entry.verb) if "public" in resolve(entry.verb, m).accepts]
        use = f", or use method={' or '.join(map(repr, able))}, which does"
        raise RequestError(
            f"{entry.verb}(method={entry.name!r}) does not use public data: drop public="
            + (use if able else f"; no method of {entry.verb} uses them")
        )


def build_request(
    verb: str, formula: Any, *, eps: Any, delta: Any, method: str,
    kinds: Mapping[str, str] | None = None, attached: Schema | None = None,
    schema: Schema | None = None, bounds: Any = None, public: Any = None, inference: bool = True,
    seed: int | None = None, progress: bool | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    design_options: Mapping[str, Any] | None = None, reasons: tuple[str, ...] = (),
) -> Designed:  # fmt: skip
    """Validate a call completely, before any private cell is read.

    ``kinds`` are public dtypes of the columns, None when planning without data (then the schema
    decides); ``attached`` is the schema of the data, which ``schema=`` goes before.
    """
    from dpmodels import formula as language

    refuse_powers_of_one(formula)
    implied: Mapping[str, Any] = {}
    if isinstance(method, str):
        method, implied = verb_of(verb).also_called.get(method, (method, {}))
    entry = resolve(verb, method)
    all_options = {**implied, **options}
    survey = survey_of(all_options)
    level = _take_unit(all_options, entry)
    all_options.setdefault("na", entry.na)
    common = _common(all_options)
    resolved = entry.resolve_options({**all_options, **level})
    if resolved.get("cause") is not None:
        formula = language.survival.with_cause(formula, resolved["cause"])
        resolved = {**resolved, "cause": None}  # the formula has it
    eps, delta = check_eps_delta(eps, delta, allow_pure="delta > 0" not in entry.needs)
    relation = _relation(verb, entry, common)
    seed = check_seed(seed)
    if not isinstance(inference, bool):
        raise RequestError(f"inference must be True or False, got {shown(inference)}")
    if survey is not None:
        common["weights"] = check_sample(
            survey, entry, common["weights"], common["unit"], common["max_rows"]
        )
    if common["weights"] is not None and "weights" not in entry.accepts:
        raise RequestError(f"{verb}(method={shown(method)}) cannot use weights=")
    declared = declared_schema(schema, attached)
    by_person = common["unit"] is not None or (declared is not None and declared.unit is not None)
    if verb == "dp_test" and common["weights"] is not None and by_person:
        raise RequestError(
            "dp_test(weights=) works for rows only. Test equal means of weighted people by a "
            'regression: dp_ols("y ~ g", data, unit=, weights=).wald_test("g"). Shares by group '
            'are in dp_table("~ a + b", unit=, weights=)'
        )
    person = _person(entry, common, declared, kinds, {**resolved, **level})
    if resolved.get("person_weights") is not None and (person is None or person.most):
        raise RequestError(
            'person_weights="equal" needs unit=, the column that names the person, and to all '
            "rows of each: leave it out, or max_rows="
        )
    if kinds is None:
        kinds = _planned_columns(formula, declared, bounds, common, survey)
    read = {k: common[k] for k in ("engine", "subset", "weights")}
    needed = needed_variables(formula, kinds, **read)
    check_declared(kinds, declared, bounds, needed, formula)
    full = schema_for(kinds, declared, bounds, needed, formula=formula, verb=verb)
    labels = {} if survey is None else labels_declared(survey, declared, kinds)
    request = Request(
        verb=verb,
        formula=formula,
        method=entry,
        eps=eps,
        delta=delta,
        schema=full,
        buy="all" if bounds == "private" else "undeclared",
        inference=inference,
        split=common["split"],
        level=float(common["level"]),
        relation=relation,
        na=common["na"],
        on_no_reply=common["on_no_reply"],
        **read,
        seed=seed,
        progress=progress,
        options=resolved,
        public=public,
        reasons=reasons,
        unit=person,
        identifier=_possible_identifier(person, resolved, declared, kinds),
    )
    record = verb_of(verb)
    design = getattr(language, record.design)(
        formula, full, na=request.na, **read,
        **{**record.design_options, **(design_options or {})},
        **({"aside": True} if entry.aside else {}),
    )  # fmt: skip
    check_columns(design, formula)
    if request.subset is not None:
        check_subset(request.subset, full, formula)
    if survey is not None:
        request, design = sampled(request, survey, design, labels)
    if request.buy == "all":
        design = design.without_bounds()
    if public is not None:
        _check_public(entry)
        request = replace(request, public=read_public(public, request, design))
    return Designed(replace(request, schema=design.schema), design, common["n"])


# -- ``public=``: a table or moments, checked and turned into public second moments.
#
# Everything read here is public by the caller's word; it never touches the private source.


def not_the_private_data(public: Any, data: Any) -> None:
    """Refuse the private table passed as public: the same object, or the same path.

    Cells are never compared: the comparison would reveal data.
    """
    same = public is data
    if isinstance(public, (str, os.PathLike)) and isinstance(data, (str, os.PathLike)):
        paths = [path_of(x, "the path of a table", SourceError) for x in (public, data)]
        same = same or os.path.realpath(paths[0]) == os.path.realpath(paths[1])
    if same:
        raise RequestError(
            "public= is the private data itself: everything in public= is used without noise. "
            "Pass rows that need no protection, and leave them out of the private data"
        )


def read_public(public: Any, request: Request, design: Design) -> Any:
    """Return the fit of public rows, or checked second moments in the columns of ``design``.

    Incomplete public rows are dropped. A design without a response asks for moments of (1, x).
    """
    from dpmodels.models.linear.scored import CONSTANT, PublicMoments, constant_first, is_moments

    names = [c.name for c in design.z]
    response = design.response is not None
    every = names if response else [CONSTANT, *names]
    of_fit = request.verb not in ("dp_ols", "dp_moments")
    if is_moments(public):
        if of_fit:
            raise RequestError(f"{request.verb} needs public rows, a table, and not their moments")
        moments = PublicMoments.of(public)
        moments = moments if response else constant_first(moments, names)
        return moments.checked(every, response=response)
    from dpmodels.sources.tasks import as_source

    source = as_source(public)
    absent = [v for v in design.variables if v not in source.kinds]
    if absent:
        raise RequestError(
            f"the public data have no column {', '.join(absent)}.\n  public:  "
            f"{', '.join(source.kinds)}\n  needed:  {', '.join(design.variables)}"
        )
    check_types(source.kinds, design.kinds)
    m = source.n if source.n is not None else count_rows(source, design.variables[0])
    if of_fit:
        from dpmodels.api.public import fitted

        return fitted(source, m, request, design)
    parts = [b.copy() for b in Rows(source, m).blocks(design)] if m else []
    Z = np.concatenate(parts, axis=1) if parts else np.zeros((design.q, 0))
    Z = Z[:, np.isfinite(Z).all(axis=0)]
    if Z.shape[1] < 3:
        raise RequestError(
            f"public= has {Z.shape[1]} complete rows: at least 3 are needed, and "
            f"{len(every) + 8} or more to whiten without shrinkage"
        )
    complete = Z.shape[1]
    if not response:
        Z = np.vstack([np.ones(complete), Z])
    return PublicMoments(Z @ Z.T / complete, complete, rows=Z).checked(every, response=response)
