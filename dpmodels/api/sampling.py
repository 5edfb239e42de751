"""``design=``, ``psus=`` and ``vcov={"CRV1": ...}`` of a call: the sample, as public facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, SchemaError, did_you_mean, shown
from dpmodels.scoring.cluster_rules import SampleDesign
from dpmodels.survey import Frame, Survey
from dpmodels.variables import Count, Levels, Text

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.registry import Method
    from dpmodels.schema import Schema

__all__ = ["check_sample", "labels_declared", "named_by", "sample_of", "survey_of"]

_CRV = 'vcov={"CRV1": "village"}'
#: Verbs whose designs are of rows alone.
_OF_ROWS = ("dp_mean", "dp_table", "dp_quantile", "dp_test")


def survey_of(options: dict[str, Any]) -> Survey | None:
    """Take the sample of a call out of its options: ``design=``, or errors by cluster."""
    survey, psus = options.pop("design", None), options.pop("psus", None)
    if survey is not None and not isinstance(survey, Survey):
        raise RequestError(
            "design= takes a dp.Survey, for example dp.Survey(weights='w', strata='region', "
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
            "design= says how errors are made: leave vcov= out, dp.Survey(psu=) names the clusters"
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
    survey: Survey, method: Method, weights: str | None, unit: Any, kept: int | None = None
) -> str | None:
    """Refuse a call that has no errors by design; return its weights.

    Parameters
    ----------
    kept : int or None
        Rows that are kept of each person (``max_rows=``).
    """
    if "design" not in method.accepts:
        what = _CRV if survey.errors_only else "design="
        raise RequestError(
            f"{method.verb}(method={method.name!r}) takes no {what}: it releases no sums of "
            "scores, of which errors by cluster are made"
        )
    column = getattr(unit, "column", unit)
    if unit is not None and column == survey.psu:
        raise RequestError(
            f"unit={column!r} is the cluster itself: errors are by person already, and the person "
            "is protected. Leave the clusters out"
        )
    if unit is not None and method.verb in _OF_ROWS:
        raise RequestError(
            f"{method.verb}(design=) is of rows. With unit={column!r} errors by design are those "
            "of regressions: dp_ols(\"y ~ 1\", unit=, design=), dp_glm, dp_quantreg; or leave "
            "unit= out, rows are then protected"
        )
    if unit is not None and kept is not None:
        raise RequestError(
            "max_rows= keeps rows and fills people up, and clusters of those have no proof here: "
            "leave max_rows= out, each person then lays the sum of its scores"
        )
    if survey.weights is not None and weights is not None:
        raise RequestError("weights= and design= together: dp.Survey(weights=) names the weights")
    return survey.weights or weights


def named_by(survey: Survey | None) -> tuple[str, ...]:
    """Return the columns of labels."""
    return () if survey is None else tuple(n for n in (survey.psu, survey.strata) if n)


def labels_declared(
    survey: Survey | None, declared: Schema | None, kinds: Mapping[str, str]
) -> dict[str, Any]:
    """Return the variables of the columns of labels, or refuse."""
    if survey is None:
        return {}
    known = {} if declared is None else dict(declared.variables)
    out: dict[str, Any] = {}
    for what, name in (("psu", survey.psu), ("strata", survey.strata)):
        if name is None:
            continue
        if name not in kinds:
            raise RequestError(
                f"{what}={shown(name)}: the data has no column of this name."
                + did_you_mean(name, kinds)
            )
        if what == "strata" and not isinstance(known.get(name), Levels):
            raise SchemaError(
                f"strata={name!r} needs declared levels: schema={{{name!r}: "
                f"dp.Levels(['north', 'south'])}}. Do not take them from the data"
            )
        out[name] = known.get(name)
        if what == "psu" and not isinstance(out[name], (Count, Levels)):
            out[name] = Text()
    return out


def sample_of(survey: Survey, design: Design, variables: Mapping[str, Any]) -> SampleDesign:
    """Return the sample of a call: its design with labels, and what is public of them."""
    from dpmodels.formula.again import design_from
    from dpmodels.schema import Schema

    psu, strata = survey.psu, survey.strata
    levels: tuple[Any, ...] = () if strata is None else tuple(variables[strata].levels)
    own = None if psu is None else variables[psu]
    labelled = isinstance(own, (Count, Levels)) and not survey.errors_only
    if labelled and survey.psus is None and strata is None:
        count = len(own.levels) if isinstance(own, Levels) else getattr(own, "upper", None)
        survey = survey if count is None else replace(survey, psus=count)
    frame = Frame(survey, levels, labelled)
    frame.factors()  # what is declared fits together, or is refused now
    if psu is None and (strata is None or survey.fpc is None):
        return SampleDesign(frame, design)
    known = dict(design.schema.variables)
    schema = Schema(**{**{k: v for k, v in variables.items() if k not in known}, **known})
    text = {**design.to_dict(), "schema": schema.to_dict(), "labels": [psu, strata]}
    return SampleDesign(frame, design_from(text))
