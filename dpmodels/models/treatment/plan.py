"""Plan of ``dp_ate``: the designs and budgets of the two fits, and the steps after them.

Reads no row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmodels.errors import RequestError, shown
from dpmodels.families import FAMILIES
from dpmodels.formula.build import build_design
from dpmodels.formula.design import Design
from dpmodels.models.glm import plan_scored
from dpmodels.planning import RESIDUAL, SPREAD, Plan
from dpmodels.privacy.mechanisms import Step, eps_gdp
from dpmodels.ranges import Part as Divided
from dpmodels.ranges import gaussian_part
from dpmodels.records import Request
from dpmodels.registry import resolve
from dpmodels.scoring.clip import first_clip

#: Names of the parts of a call and their shares of mu^2 (``theory.md``, 3).
PROPENSITY, OUTCOME = "propensity", "outcome"
#: Step that pays for the steps of either fit.
FIT = "fit"
#: Noise of the effect, in residual sds, above which a call is advised to ask for less.
_NOISE_OF_EFFECT = 0.2
LENGTHS = ("lengths of differences", "lengths of sums")
OVERLAP, BALANCE = "overlap", "balance"
EFFECT_STEP, BOTH_ARMS, SLOPES, PRODUCTS = "effect", "mean of both arms", "derivatives", "squares"
ATE_SHARES = {
    PROPENSITY: 0.14, OUTCOME: 0.14, LENGTHS[0]: 0.025, LENGTHS[1]: 0.015, OVERLAP: 0.02,
    BALANCE: 0.04, EFFECT_STEP: 0.39, BOTH_ARMS: 0.05, SLOPES: 0.12, PRODUCTS: 0.06,
}  # fmt: skip
#: Names in ``split=``: each is divided as in ``SHARES``.
SPLIT_NAMES = {
    "propensity": (PROPENSITY,), "outcome": (OUTCOME,), "clip": LENGTHS,
    "balance": (OVERLAP, BALANCE), "effect": (EFFECT_STEP, BOTH_ARMS, SLOPES, PRODUCTS),
}  # fmt: skip
#: Readings of the rows after the two fits.
_READINGS = 5
#: Root finders are exact to this.
_SHORT = 1.0 - 1e-10


@dataclass(frozen=True, eq=False)
class Nuisance:
    """Plan and design of one nuisance fit (the propensity, or the outcome) of a call."""

    label: str
    sub_plan: Plan[Any]
    design: Design  # Ranges that are to be estimated are unknown

    def ranged(self, joint: Design, crossing: tuple[int, ...]) -> Design:
        """Return the design of this fit with the released ranges of the joint design.

        ``crossing``: indices of treatment and half. A product with one of them, which are 0 or 1,
        has the range of its other factor, widened to include 0.
        """
        intervals, names = {c.name: c.interval for c in joint.z}, [joint.names[j] for j in crossing]
        ranges = {}
        for name in self.design.unknown:
            low, high = intervals.get(name) or intervals[base_of(name, names)]  # type: ignore[misc]
            ranges[name] = (low, high) if name in intervals else (min(low, 0.0), max(high, 0.0))
        return self.design.with_bounds(ranges)


def without(name: str, treated: str) -> str:
    """Return the name of the column whose product with the treatment has a given name."""
    if name == treated:
        return "Intercept"
    return name.removeprefix(f"{treated}:").removesuffix(f":{treated}")


def base_of(name: str, crossing: Sequence[str]) -> str:
    """Return the name of the column in a product with treatment, half, or both."""
    for other in crossing:
        name = without(name, other)
    return name


@dataclass(frozen=True, eq=False)
class EffectPlan:
    """Decisions of a call before the first row."""

    divided: Divided  # Part for ranges, and mu
    shares: dict[str, float]  # Share of mu^2 of each part
    estimand: str
    clip: tuple[float, float] | None
    family: str
    treated: int  # Index of the treatment among the columns of the joint design
    propensity: Nuisance
    outcome: Nuisance  # Covariates times the treatment: a model in each arm
    shared: Nuisance  # Covariates and the treatment: for arms with few units
    # The same of the half of a row (0 or 1, ``folds=``) for cross-fitting, or None without halves
    fold: int | None = None

    @property
    def crossing(self) -> tuple[int, ...]:
        """Indices of the columns that multiply covariates: treatment, and half if there is one."""
        return (self.treated,) if self.fold is None else (self.treated, self.fold)

    @property
    def nuisances(self) -> tuple[Nuisance, Nuisance]:
        """The nuisance fits in the order of their release."""
        return self.propensity, self.outcome

    def mu(self, name: str) -> float:
        """Return the mu of a part."""
        return self.divided.mu * math.sqrt(self.shares[name])


# -- Public part: the designs and plans of the fits


def check_two(role: str, text: str, request: Request) -> None:
    """Refuse a treatment, or a half, that is not 0 or 1 by its declaration."""
    name = text.strip("`")
    if name not in request.schema:
        return
    variable = request.schema[name]
    if getattr(variable, "kind", "") != "binary" and len(getattr(variable, "levels", ())) != 2:
        raise RequestError(
            f"{role}={text!r} must be 0 or 1: declare its codes, schema={{{name!r}: dp.Binary()}} "
            f"for 0 and 1, or schema={{{name!r}: dp.Levels([1, 2])}}, the second of which is 1. Or "
            f'compare, {role}="{{{name} == 1}}"'
        )


def _column_index(role: str, text: str, request: Request, family: str, design: Design) -> int:
    """Return the index, in the joint design, of the treatment or of the half of a row.

    ``role``: the argument that names it, "treatment" or "folds". ``text``: its value, a column or
    an expression. It must give one column of 0 and 1.
    """
    check_two(role, text, request)
    response = request["outcome"].partition("~")[0]
    names = _sub_design(request, f"{response} ~ {text}", family).names  # intercept, then the column
    column = dict(zip(design.names, design.columns, strict=True)).get(names[-1])
    if len(names) != 2 or column is None or column.interval != (0.0, 1.0):
        raise RequestError(
            f"{role}={shown(text)} must be one column of 0 and 1, for example "
            f"{role}='t' or {role}=\"{{arm == 'drug'}}\""
        )
    return design.names.index(names[-1])


def family_for(request: Request, design: Design) -> str:
    """Return the family of the outcome models: as asked for, else by the declared response."""
    if request["family"] is not None:
        return str(request["family"])
    assert design.response is not None
    if design.response.kind == "event":
        return "binomial"
    kind = getattr(design.kinds.get(design.response.name), "kind", "")
    return {"binary": "binomial", "count": "poisson"}.get(kind, "gaussian")


def _sub_design(request: Request, formula: str, family: str) -> Design:
    """Return the design of a nuisance fit."""
    design: Design = build_design(
        formula, request.schema, na=request.na, engine=request.engine, weights=request.weights,
        subset=request.subset, response_ok=FAMILIES[family].response, aside=True,
    )  # fmt: skip
    if not design.has_intercept:
        raise RequestError(
            f"{formula!r}: the models of dp_ate have an intercept. Leave out '- 1' and '+ 0'"
        )
    return design.without_bounds() if request.buy == "all" else design


def _sub_plan(
    request: Request, label: str, formula: str, design: Design, family: str, mu: float, n: int
) -> Nuisance:
    """Plan a nuisance fit at a part of the budget: by the (eps, delta) of its mu."""
    method = resolve("dp_glm", "scoring")
    options: dict[str, Any] = {"family": family, "stop": False}
    if request.by_person:
        options["person_weights"] = "equal"
    sub_request = replace(
        request, verb="dp_glm", formula=formula, method=method, split=None, reasons=(),
        eps=eps_gdp(mu, request.delta) * _SHORT, options=method.resolve_options(options),
    )  # fmt: skip
    # a design whose ranges are to be estimated is planned as if it had them
    ranged = design.with_bounds(dict.fromkeys(design.unknown, (-1.0, 1.0)))
    if family in ("poisson", "binomial") and ranged.response is not None:
        name = ranged.response.name
        if name in design.unknown:
            ranged = ranged.with_bounds({name: (0.0, 1.0)})
    return Nuisance(label, plan_scored(sub_request, ranged, n), design)


def _check(request: Request, design: Design) -> None:
    """Refuse what ``dp_ate`` has no answer for."""
    if request.delta == 0:
        raise RequestError("dp_ate adds Gaussian noise: give delta > 0, as in delta=1e-6")
    if not request.inference:
        raise RequestError("dp_ate spends its budget on an effect with its error: leave inference=")
    if design.offset is not None:
        raise RequestError("dp_ate cannot use offset(): add the column to the formula")
    low, high = bounds_of(request["clip"]) or (0.1, 0.9)
    if not 0.0 < low < 0.5 < high < 1.0:
        raise RequestError(
            f"clip={shown(request['clip'])} bounds the propensity: two numbers on both sides of "
            "1/2, for example clip=(0.1, 0.9)"
        )


def bounds_of(clip: Any) -> tuple[float, float] | None:
    """Return the bounds of the propensity; one number c is (c, 1 - c)."""
    if clip is None:
        return None
    if isinstance(clip, (int, float)) and not isinstance(clip, bool):
        return float(clip), 1.0 - float(clip)
    try:
        low, high = (float(x) for x in clip)
    except (TypeError, ValueError):
        return math.nan, math.nan
    return low, high


def shares_for(request: Request) -> dict[str, float]:
    """Return the share of each part, after ``split=``."""
    split = request.shares_of(SPLIT_NAMES)
    if split is None:
        return dict(ATE_SHARES)
    out: dict[str, float] = {}
    for name, parts in SPLIT_NAMES.items():
        total = math.fsum(ATE_SHARES[part] for part in parts)
        out |= {part: split[name] * ATE_SHARES[part] / total for part in parts}
    return out


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_ate``: the fits as separate plans, then the sums. Reads no row."""
    _check(request, design)
    divided = gaussian_part(request, design.unknown)
    shares = {name: (1.0 - divided.share) * share for name, share in shares_for(request).items()}
    treatment, (response, _, covariates) = request["treatment"], request["outcome"].partition("~")
    covariates = covariates.strip()
    shared = treatment if covariates == "1" else f"{treatment} + {covariates}"
    estimand, family = request["estimand"], family_for(request, design)
    treated = _column_index("treatment", treatment, request, family, design)
    fold, halves = None, []
    if request["folds"] is not None:
        halves = [request["folds"]]
        fold = _column_index("folds", halves[0], request, family, design)
    texts = (
        f"{treatment} ~ {_crossed(halves, request['propensity'])}",
        f"{response.strip()} ~ {_crossed([treatment, *halves], covariates)}",
        f"{response.strip()} ~ {_crossed(halves, shared)}",
    )
    parts = [
        _sub_plan(
            request, label, text, _sub_design(request, text, kind), kind,
            divided.mu * math.sqrt(shares[label]), n,
        )
        for label, text, kind in zip(
            (PROPENSITY, OUTCOME, OUTCOME), texts, ("binomial", family, family), strict=True
        )
    ]  # fmt: skip
    detail = EffectPlan(
        divided, shares, estimand, bounds_of(request["clip"]), family, treated, parts[0], parts[1],
        parts[2], fold,
    )  # fmt: skip
    _check_columns(detail, design)
    steps = [*divided.steps]
    for k, share in shares.items():
        name = f"{k}: {FIT}" if k in (PROPENSITY, OUTCOME) else k
        steps.append(Step(name, divided.mechanism(share), share=share))
    printed = {
        name: math.fsum(shares[part] for part in parts) for name, parts in SPLIT_NAMES.items()
    }
    passes = sum(fit.sub_plan.passes for fit in detail.nuisances) + _READINGS
    scales = _forecast(detail, design, n)
    advice: tuple[str, ...] = ()
    share_of_sd = scales.get("noise of the effect by residual sd", 0.0)
    if share_of_sd > _NOISE_OF_EFFECT:
        advice = (
            f"the noise of the effect is about {share_of_sd:.2g} residual standard deviations of "
            "the outcome: this budget is too small for a smaller effect. More rows, a larger eps "
            "or a narrower range of the outcome help",
        )
    return Plan.of(
        request, design, n, steps, purchase=divided.purchase,
        shares={**divided.printed, **printed}, passes=passes + (divided.purchase is not None),
        detail=detail, advice=advice, scales=scales,
    )  # fmt: skip


def _crossed(factors: list[str], covariates: str) -> str:
    """Return the text of all products of factors and covariates."""
    if not factors:
        return covariates
    return " * ".join(factors if covariates == "1" else [*factors, f"({covariates})"])


def _forecast(detail: EffectPlan, design: Design, n: int) -> dict[str, float]:
    """Return the expected noise of the effect for bounded outcomes, nothing without a range.

    Residuals as a plan assumes them, arms of equal size, and half of the clip by rule, which is
    what the released lengths mostly choose. The noise of the two fits is left out.
    """
    interval = None if design.response is None else design.response.interval
    if interval is None:
        return {}
    sd = 2.0 * RESIDUAL * SPREAD * (interval[1] - interval[0]) / 2.0
    mu = detail.mu(EFFECT_STEP)
    share = 0.5 if detail.estimand == "ATT" else 1.0
    clip = first_clip(1, mu, n, sd * sd) / 2.0
    noise = 2.0 * clip / (mu * n * share)
    return {
        "expected noise of the effect": noise,
        "noise of the effect by residual sd": 2.0 * noise / sd,  # sd: of a difference of arms
    }


def _check_columns(detail: EffectPlan, design: Design) -> None:
    """Refuse models whose columns are not those of the joint formula."""
    crossing = [design.names[j] for j in detail.crossing]
    for fit in detail.nuisances:
        base = [base_of(name, crossing) for name in fit.design.names]
        lost = [name for name in base if name not in design.names]
        if lost:
            raise RequestError(
                f"{fit.sub_plan.request.formula!r} has the column {lost[0]!r}, and the formula of "
                "all columns has not: write interactions with their main effects"
            )
        products = 2 ** (len(crossing) - (fit is detail.propensity))
        if any(base.count(name) != products for name in base):
            roles = " and ".join(map(repr, crossing))
            raise RequestError(
                f"{roles} is the treatment: leave it out of the covariates and of propensity="
                if len(crossing) == 1
                else f"{roles} are treatment and half: leave them out of all covariates"
            )
