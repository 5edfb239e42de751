"""``dp_feols``, ``dp_fepois``, ``dp_polr``, ``dp_multinom``: panels and choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.api.call import call
from dpmodels.api.regressions import dp_ols
from dpmodels.api.releases import REQUIRED
from dpmodels.errors import RequestError, shown
from dpmodels.verbs import like

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.results import Fit

__all__ = [
    "choice_arguments",
    "dp_feols",
    "dp_fepois",
    "dp_multinom",
    "dp_polr",
    "panel_arguments",
    "without_effects",
]


def without_effects(verb: str, formula: str, unit: str | None) -> tuple[str, str]:
    """Return the formula with other effects as factors, and the unit: ``y ~ x | id + year``."""
    if not isinstance(formula, str) or formula.count("|") != 1:
        raise RequestError(
            f'{verb} takes the effects after one "|", as in {verb}("y ~ x | id + year", data, '
            f'unit="id"); got {shown(formula)}'
        )
    model, effects = (part.strip() for part in formula.split("|"))
    names = [name.strip() for name in effects.split("+")]
    if not all(names):
        raise RequestError(f'{verb}: nothing stands after "|" in {shown(formula)}')
    first, *others = names
    if unit is None:
        raise RequestError(
            f"{verb} takes the effects of people off by their own rows, and protects people with "
            f'all rows: give unit="{first.split("^")[0]}"'
        )
    if unit not in first.split("^"):
        raise RequestError(
            f"{verb}: the first effect is {first!r} and the unit is {unit!r}. Only effects of the "
            f'unit can be taken off by own rows: "{model} | {unit} + {first}" makes {first} a '
            f'factor (declare its levels), or unit="{first}" protects it as a whole'
        )
    if first != unit:
        raise RequestError(
            f"{verb}: effects of spells within a person ({first}) are not offered: write "
            f'"| {unit}", or make the spell a column of its own and the unit'
        )
    if "~" not in model or not model.split("~")[1].strip() or model.split("~")[1].strip() == "1":
        raise RequestError(f"{verb} needs a predictor: y ~ x | {unit}")
    terms = [_factor(name) for name in others]
    return " + ".join([model, *terms]), unit


def with_intercepts(verb: str, formula: str, unit: str | None, re: Any) -> tuple[str, str]:
    """Return the formula and the unit of ``re="id"``: random intercepts of the unit."""
    if verb != "dp_feols":
        raise RequestError(
            f"{verb} takes no re=: random intercepts are of dp_feols; effects of people (| id) "
            "hold without them"
        )
    if not isinstance(re, str):
        raise RequestError(f'{verb}: re= is the column of the unit, as in re="id"; got {shown(re)}')
    if not isinstance(formula, str) or "~" not in formula:
        raise RequestError(
            f'{verb} with re= takes a formula without "|", as in {verb}("y ~ x", data, unit="id", '
            f're="id"); got {shown(formula)}'
        )
    model = formula.split("|")[0].strip()
    if "|" in formula:
        raise RequestError(
            f"{verb}: an intercept of a person is an effect (|) or random (re=), not both. "
            f'{verb}("{model}", data, unit="{re}", re="{re}") makes it random, '
            f'{verb}("{model} | {re}", data, unit="{re}") takes it off'
        )
    if unit is None:
        raise RequestError(
            f"{verb}: re= weights people by their own rows, and protects people with all rows: "
            f'give unit="{re}"'
        )
    if re != unit:
        raise RequestError(
            f"{verb}: re={re!r} and the unit is {unit!r}. Random intercepts are of the unit: "
            f're="{unit}", or unit="{re}" protects {re} as a whole'
        )
    if not model.split("~")[1].strip() or model.split("~")[1].strip() == "1":
        raise RequestError(f'{verb} needs a predictor: {verb}("y ~ x", ..., re="{unit}")')
    return model, unit


def _factor(name: str) -> str:
    """Return a further effect as a term: a factor with declared levels, or a call as it is."""
    return f"C({name})" if name.replace("_", "").isalnum() else name


def panel_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of ``"y ~ x | id + year"`` goes by, or of ``re="id"``."""
    asked = options.get("unit"), options.get("re")
    if asked[1] is not None:
        text, unit = with_intercepts("dp_feols", formula, *asked)
    else:
        text, unit = without_effects("dp.plan", formula, asked[0])
    return text, method, {**options, "unit": unit}, ()


#: What fixest and other packages take and is not offered: what to do instead.
_NOT_HERE = {
    "vcov": "errors are clustered by the unit, always",
    "cluster": "errors are clustered by the unit, always",
}


def _fit(verb: str, formula: str, data: Any, *, unit: str | None, **given: Any) -> Fit:
    from dpmodels.results import Fit

    for name, why in _NOT_HERE.items():
        if name in given["options"]:
            raise RequestError(f"{verb} takes no {name}=: {why}")
    re = given["options"].get("re")
    if re is not None:
        text, unit = with_intercepts(verb, formula, unit, re)
    else:
        text, unit = without_effects(verb, formula, unit)
        if given["options"].pop("mundlak", True) is not True:
            raise RequestError(f'{verb}: mundlak= belongs to re=, as in re="{unit}"')
    fit = call(verb, text, data, method=None, default="scoring", unit=unit, **given)
    record = fit._record
    typed = replace(record, call=replace(record.call, formula=formula))
    return Fit._of(typed)


@like(dp_ols)
def dp_feols(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    unit: str | None = None,
    re: str | None = None,
    mundlak: bool = True,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Fit a linear model with effects of people with differential privacy (fixest's ``feols``).

    Parameters
    ----------
    formula : str
        ``"y ~ x | id"``, ``"y ~ x | id + year"``. The first effect is the unit: y and x are
        demeaned by its own rows. Further effects are factors and need declared levels; each of
        their coefficients costs, so that a smooth of time, ``y ~ x + ns(year, 3) | id``, may say
        as much.
    unit : str
        The column of the first effect: whose row it is. A person is protected with all rows.
    re : str, optional
        Random intercepts in place of effects, ``dp_feols("y ~ x", data, unit="id", re="id")``: the
        column of the unit. The variances of intercepts and errors are released first; the rest is
        least squares with the part of a person's means taken off that they ask for.
    mundlak : bool
        With ``re=``: means of a person's own rows are predictors too, ``mean(x)``. Then x is the
        effect within people whatever the intercepts go with; ``fit.hausman()`` is the joint test
        of the means.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    **options
        ``units=, rows_per_unit=, subset=, level=, relation=, split=``.

    Returns
    -------
    Fit
        Coefficients within people, errors clustered by person. With ``re=`` the released variances
        ``fit.sigma_u2, sigma_e2, icc`` with errors ``sigma_u2_se, ...`` too.

    Notes
    -----
    With ``re=`` the target is the fit *at the released weights*: the noise of the variances makes
    errors larger, not coefficients wrong. It is that of the population's own variances where
    predictors do not go with the intercepts, or their means are in the model (the default).
    Residuals are clipped before they are squared, so variances of heavy tails come out small.

    What is constant in a person is not determined; whether a column is, is private, so nothing is
    dropped. People with one row add nothing.

    Privacy
    -------
    Unit: one person with all rows, whatever their number. Neighbours: replace all rows of one
    person, the number of people public (or ``relation=``). Charged: (eps, delta), before noise is
    drawn. Public: formula, declared ranges and levels.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> who = np.repeat(np.arange(6000), 4)
    >>> x = rng.uniform(-1, 1, 24000)
    >>> y = rng.normal(size=6000)[who] + 0.5 * x + rng.normal(size=24000)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_feols("y ~ x | id", {"id": who, "x": x, "y": y}, unit="id", eps=1,
    ...                       delta=1e-6, bounds={"y": (-6, 6), "x": (-1, 1)}, seed=1)
    >>> bool(0.4 < fit.params["x"] < 0.6)
    True
    """
    if re is not None:
        options = {**options, "re": re}
    return _fit(
        "dp_feols", formula, data, unit=unit, schema=schema, eps=eps, delta=delta, bounds=bounds,
        budget=budget, seed=seed, progress=progress, options={**options, "mundlak": mundlak},
    )  # fmt: skip


@like(dp_feols)
def dp_fepois(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    unit: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Fit Poisson counts with effects of people with differential privacy (fixest's ``fepois``).

    Parameters
    ----------
    formula : str
        ``"visits ~ x | id"``, as in :func:`dp_feols`; counts are declared, for example
        ``bounds={"visits": (0, 50)}`` or ``dp.Count(50)``.
    unit, data, eps, delta, schema, bounds, budget, seed, progress, **options
        As in :func:`dp_feols`.

    Returns
    -------
    Fit
        Log rate ratios within people, errors clustered by person.

    Notes
    -----
    Given its total, a person's counts are multinomial over its own rows: the conditional
    likelihood, which equals dummies for every person. People without events add nothing.

    Privacy
    -------
    As :func:`dp_feols`.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> who = np.repeat(np.arange(6000), 4)
    >>> x = rng.uniform(-1, 1, 24000)
    >>> y = rng.poisson(np.exp(0.5 * rng.normal(size=6000)[who] + 0.5 * x)) * 1.0
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_fepois("y ~ x | id", {"id": who, "x": x, "y": y}, unit="id", eps=2,
    ...                        delta=1e-6, schema={"y": dp.Count(20), "x": (-1, 1)}, seed=1)
    >>> bool(0.35 < fit.params["x"] < 0.65)
    True
    """
    return _fit(
        "dp_fepois", formula, data, unit=unit, schema=schema, eps=eps, delta=delta, bounds=bounds,
        budget=budget, seed=seed, progress=progress, options=options,
    )  # fmt: skip


# -- ``dp_polr``, ``dp_multinom``: regressions of ordered and of unordered categories.


_LINKS = ("logistic", "probit", "cloglog")


@like(dp_ols)
def dp_polr(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str = "logistic",
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit a proportional odds model with differential privacy (R's ``polr``, OrderedModel).

    Parameters
    ----------
    formula : str
        ``"health ~ age + income"``, the response declared ``dp.Ordered(["poor", "fair", "good"])``
        from the lowest level.
    data, eps, delta, schema, bounds, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    method : {"logistic", "probit", "cloglog"}
        Distribution of the latent response, as in R.
    **options
        ``subset=, level=, relation=, units=, split=``.

    Returns
    -------
    Fit
        Slopes, then thresholds ``low|mid``: ``P(y <= k) = F(threshold_k - x'b)``.
        ``fit.predict(new, what="probs")`` and ``what="class"``.

    Privacy
    -------
    Unit: one row, or one person (``unit=``). Neighbours: replace one, their number public (or
    ``relation=``). Charged: (eps, delta), before noise is drawn. Public: formula, declared levels
    and ranges.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, 20000)
    >>> y = np.array(["low", "mid", "high"])[np.digitize(x + rng.logistic(size=20000), [-1, 1])]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_polr("y ~ x", {"x": x, "y": y}, eps=2, delta=1e-6, seed=1,
    ...                      schema={"y": dp.Ordered(["low", "mid", "high"]), "x": (-1, 1)})
    >>> bool(0.8 < fit.params["x"] < 1.2)
    True
    """
    link = options.pop("link", method)  # an update() hands the option over
    return call(
        "dp_polr", formula, data, eps=eps, delta=delta, method=None, default="scoring",
        schema=schema, bounds=bounds, budget=budget, seed=seed, progress=progress, unit=unit,
        link=_link(link, None), options=options,
    )  # fmt: skip


def _link(method: Any, link: Any) -> str:
    """Return the distribution of the latent response: ``method=``, or as an option ``link=``."""
    asked = method or link or _LINKS[0]
    if asked not in _LINKS:
        raise RequestError(
            f"method={shown(asked)} is not one of {list(_LINKS)}: the distribution of the latent "
            "response, as in R's polr"
        )
    return str(asked)


def choice_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of ``dp_polr`` goes by: its ``method=`` is the link."""
    rest = {k: v for k, v in options.items() if k != "link"}
    method = None if method == "scoring" else method  # dp.methods() calls it so
    return formula, None, {**rest, "link": _link(method, options.get("link"))}, ()


@like(dp_ols, dp_polr)
def dp_multinom(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    base: Any = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit a multinomial logit model with differential privacy (R's ``multinom``, MNLogit).

    Parameters
    ----------
    formula : str
        ``"choice ~ price + age"``, the response with declared levels.
    base : level, optional
        The level that others are compared with: the first declared, as in R.
    data, eps, delta, schema, bounds, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    **options
        ``subset=, level=, relation=, units=, split=``.

    Returns
    -------
    Fit
        Log odds of each level against the base, named ``level:column``.
        ``fit.predict(new, what="probs")`` and ``what="class"``.

    Privacy
    -------
    As :func:`dpmodels.dp_polr`.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, 20000)
    >>> odds = np.exp(np.stack([0 * x, 0.2 + x, -0.3 - 0.5 * x]))
    >>> draw = rng.uniform(size=20000) * odds.sum(axis=0)
    >>> y = np.array(["car", "bus", "foot"])[(draw > np.cumsum(odds, axis=0)[:2]).sum(axis=0)]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_multinom("y ~ x", {"x": x, "y": y}, eps=2, delta=1e-6, seed=1,
    ...                          schema={"y": dp.Levels(["car", "bus", "foot"]), "x": (-1, 1)})
    >>> bool(0.7 < fit.params["bus:x"] < 1.3)
    True
    """
    return call(
        "dp_multinom", formula, data, eps=eps, delta=delta, method=None, default="scoring",
        schema=_based(schema, formula, base, data), bounds=bounds, budget=budget, seed=seed,
        progress=progress, unit=unit, options=options,
    )  # fmt: skip


def _based(schema: Any, formula: str, base: Any, data: Any) -> Any:
    """Return the schema (of the call, else of the frame) with the response's base level first."""
    if base is None:
        return schema
    from dpmodels.formula.schema import Schema, declared_schema
    from dpmodels.variables import Levels

    name = formula.split("~")[0].strip().strip("`")
    given = declared_schema(schema, Schema.from_frame_attrs(data)) or Schema()
    declared: Any = given[name] if name in given else None  # noqa: SIM401
    levels = list(declared.levels) if isinstance(declared, Levels) else []
    if base not in levels:
        raise RequestError(
            f"base={shown(base)} is not a declared level of {name!r}"
            + (f": {levels}" if levels else ", whose levels are not declared in schema=")
        )
    return given.update({name: Levels(sorted(levels, key=lambda level: level != base))})
