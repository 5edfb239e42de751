"""Backends of ``dp_feols`` and ``dp_fepois``: effects of people by own rows, errors by person."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.panel.effects import EffectModel
from dpmodels.models.panel.intercepts import (
    RULES,
    InterceptModel,
    Intercepts,
    coefficients,
    dimension,
)
from dpmodels.planning.plan import planning_rows
from dpmodels.scoring.expand_engine import UnitChain, UnitRelease
from dpmodels.scoring.expand_fit import plan_units, release_units_fit
from dpmodels.scoring.expand_report import UnitPart, estimate_units

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

#: The release of the passes.
release = release_units_fit


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_feols`` or ``dp_fepois``."""
    verb, poisson = request.verb, request.verb == "dp_fepois"
    if request.delta == 0:
        raise RequestError(f"{verb} adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if request.unit is None:
        raise RequestError(
            f"{verb} takes the effects of people off by their own rows: name the column in both "
            f'places, {verb}("y ~ x | id", data, unit="id")'
        )
    if request.weights is not None or design.offset is not None:
        raise RequestError(f"{verb} takes no weights= and no offset()")
    if not design.has_intercept:
        raise RequestError(
            f"{verb}: an effect of each person stands for the intercept, which cannot be left out "
            'as well: write the formula without "- 1" and "+ 0"'
        )
    if design.p < 2:
        raise RequestError(f"{verb} needs a predictor: y ~ x | id")
    if request.unit.rows == 1:
        raise RequestError(
            f"{verb}: rows_per_unit=1 says that people have one row each, and their effects would "
            "take all of it"
        )
    rows = planning_rows(request, n)
    if request.options.get("re") is not None:
        mundlak = bool(request["mundlak"])
        return plan_units(
            request, design, rows, ((InterceptModel(rows, request.relation, mundlak), ""),),
            linear=True, raw=False, dimension=partial(dimension, mundlak=mundlak), rules=RULES,
        )  # fmt: skip
    response = design.z[design.q - 1].interval
    if poisson and response is not None and response[0] < 0.0:
        raise RequestError(
            f"dp_fepois takes counts, and the declared range of the response begins at "
            f"{response[0]:g}: declare it, for example y=dp.Count(50)"
        )
    model = EffectModel(poisson, float(request.unit.rows))
    return plan_units(
        request, design, rows, ((model, ""),), linear=not poisson,
        raw=poisson, dimension=partial(operator.add, -1),
    )  # fmt: skip


def _back(found: UnitRelease, chain: UnitChain) -> tuple[Array, Array]:
    """Return (A, a) of the columns but the intercept."""
    A, a = chain.expansion.coordinates.back()  # type: ignore[attr-defined]
    return A[1:], np.zeros(len(a) - 1)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to coefficients within people, with errors by person."""
    if plan.request.options.get("re") is not None:
        return _of_intercepts(plan, release)
    names = release.design.names[1:]
    unit = plan.request.unit
    assert unit is not None
    more = (
        f"Coefficients are within people ({unit.column}): what is constant in a person is not "
        "determined. Whether a column is, is private: none is dropped, and the information says "
        "so.",
    )
    lost = ~release.detail.coordinates.identified[1:] if release.reply else None

    def stats(part: UnitPart) -> dict[str, float]:
        return {}

    return estimate_units(
        plan, release, stats, back=_back, names=names, lost=lost, more=more
    )


def _of_intercepts(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step of random intercepts to coefficients, those of means after the others."""
    request, design = plan.request, release.design
    assert request.unit is not None
    mundlak = bool(request["mundlak"])
    means = tuple(f"mean({name})" for name in design.names[1:]) if mundlak else ()
    more = [
        "The target is the fit at the released weights: the variances decide how people are "
        "weighted, and what is wrong with them makes errors larger, not coefficients wrong.",
    ]
    if mundlak:
        more.append(
            f"x is the effect within people ({request.unit.column}), mean(x) what the effect "
            "between people has more: fit.hausman() tests that it is nothing. What is constant in "
            "a person has no effect within: mundlak=False leaves the means out."
        )
    else:
        more.append(
            "Where a predictor goes with the person's intercept its coefficient is a mixture of "
            "the effects within and between people, by the released weights: mundlak=True tells "
            "them apart."
        )
    lost = None
    if release.reply:
        gone = ~release.detail.coordinates.identified
        lost = np.concatenate([gone, gone[1:]]) if mundlak else gone

    def back(found: UnitRelease, chain: UnitChain) -> tuple[Array, Array]:
        expansion: Any = chain.expansion
        return coefficients(expansion.coordinates, mundlak=mundlak)

    def stats(part: UnitPart) -> dict[str, float]:
        expansion = part.chain.expansion
        assert isinstance(expansion, Intercepts)
        assert expansion.variances is not None
        told = expansion.variances.reported(part.unit)
        return {**told, "weight_icc": expansion.share}

    return estimate_units(
        plan, release, stats, back=back, names=(*design.names, *means), lost=lost, more=more
    )
