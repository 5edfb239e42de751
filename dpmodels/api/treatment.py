"""``dp_ate``: average treatment effects with differential privacy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpmodels.api.call import as_typed, call
from dpmodels.api.regressions import dp_ols
from dpmodels.api.releases import REQUIRED
from dpmodels.api.requests import check_first
from dpmodels.errors import FormulaError, RequestError, shown
from dpmodels.formula.schema import Schema, declared_schema
from dpmodels.formula.words import one_name
from dpmodels.results.fit import Fit
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Levels
from dpmodels.verbs import like

__all__ = ["dp_ate"]

_COMPARES = re.compile(r"[<>]|==|!=")


def joint_formula(formula: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the formula of all columns of a call, and its options; or refuse."""
    treatment, propensity = options.get("treatment"), options.get("propensity")
    if not isinstance(treatment, str) or not treatment.strip():
        raise RequestError(
            "dp_ate needs treatment=, the column of the treatment, for example "
            f"treatment='t'; got {shown(treatment)}"
        )
    treatment = one_name(treatment)
    response, tilde, covariates = formula.partition("~")
    covariates = covariates.strip()
    if not tilde or not response.strip():
        raise FormulaError(f"{formula!r} names no outcome. For example 'y ~ x1 + x2'")
    if propensity is None:
        propensity = covariates
    if not isinstance(propensity, str):
        raise RequestError(
            "propensity= is the right-hand side of the model of the treatment, for example "
            f"propensity='x1 + x2'; got {shown(propensity)}"
        )
    propensity = propensity.rpartition("~")[2].strip()
    for text in (covariates, propensity):
        if re.search(r"(^|[\s+])\.($|[\s+])", text):
            raise FormulaError(
                f"{text!r}: list the covariates by name, '.' would include the treatment"
            )
    folds = checked_folds(options.get("folds"))
    sides = dict.fromkeys([treatment, folds or "", covariates, propensity])
    joint = f"{response.strip()} ~ {' + '.join(side for side in sides if side)}"
    checked = {**options, "treatment": treatment, "propensity": propensity or "1"}
    if folds is not None:
        checked["folds"] = folds
    return joint, {**checked, "outcome": f"{response.strip()} ~ {covariates or '1'}"}


def checked_folds(folds: Any) -> str | None:
    """Return the column of the halves, or refuse a number of folds."""
    if folds is None or (isinstance(folds, str) and folds.strip()):
        return folds if folds is None else one_name(folds)
    raise RequestError(
        f"folds={shown(folds)}: name a column that divides the rows at random into two halves, "
        "data['half'] = rng.random(len(data)) < 0.5, folds='half'. The half of a row is then one "
        "of its own cells, whatever the other rows are"
    )


def event_response(formula: str, declared: Schema | None, family: Any) -> bool:
    """Return whether the outcome is an event, by its declaration or by the family."""
    response = formula.partition("~")[0].strip()
    name = response.strip("`")
    if family is not None:
        return bool(family == "binomial")
    if declared is not None and name in declared:
        return isinstance(declared[name], (Binary, Levels))
    return bool(_COMPARES.search(response))


def plan_arguments(
    formula: str, method: str | None, options: Mapping[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the (formula, method, options, reasons) of a plan of ``dp_ate``."""
    joint, arguments = joint_formula(formula, options)
    if options.get("family") in (None, "binomial"):
        arguments["design_options"] = {"response_ok": "either"}
    return joint, method, arguments, ()


@like(dp_ols)
def dp_ate(
    formula: str,
    data: Any,
    *,
    treatment: str,
    propensity: str | None = None,
    estimand: str = "ATE",
    family: str | None = None,
    clip: Any = None,
    folds: str | None = None,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Estimate an average treatment effect by augmented inverse probability weighting.

    Parameters
    ----------
    formula : str
        Outcome and its covariates, without the treatment: ``"y ~ x1 + x2"``. A model is fitted in
        each arm: least squares for a number, a logit for 0/1 (``Binary()``, two ``Levels``, or a
        comparison), a Poisson model for a ``Count``.
    data, eps, delta, schema, bounds, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    treatment : str
        Column of truth values, or declared to be 0 and 1 (``Binary()``) or two levels (the second
        is treated), or a comparison such as ``"{arm == 'drug'}"``.
    propensity : str, optional
        Covariates of the logit of the treatment: ``"x1 + x2"``; default: those of the outcome.
    method : str, optional
        "aipw", the only one.
    estimand : {"ATE", "ATT"}
        Effect in everybody, or in the treated.
    family : {"gaussian", "binomial", "poisson"}, optional
        Of the outcome models; default: by the declared outcome.
    clip : (float, float), optional
        Bounds of the propensity; default: those of the shortest interval.
    folds : str, optional
        Cross-fitting: such a column that divides the rows into halves by chance. Each half is
        evaluated at the models of the other one, which are fitted to half of the rows. With
        ``unit=`` give all rows of a person the same half.
    **options
        ``split, level, na, on_no_reply, subset, weights, n, units, rows_per_unit,
        sort``. With ``unit=`` each person counts once, by the mean over its rows.

    Returns
    -------
    TreatmentEffect
        Effect and mean of each arm, with intervals; ``fit.balance()``, ``fit.overlap()`` and
        ``fit.plot()``.

    Privacy
    -------
    As :func:`dpmodels.dp_ols`.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> data = dp.datasets.rand_hie()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_ate(
    ...         "mdvis ~ lncoins + disea", data, treatment="{physlm > 0}", eps=1, delta=1e-6,
    ...         seed=1, bounds={"mdvis": (0, 100), "lncoins": (0, 5), "disea": (0, 60),
    ...         "physlm": (0, 1)},
    ...     )
    >>> bool(fit.params["ATE"] > 0)
    True
    """
    formula = check_first(formula)
    arguments = {**options, "treatment": treatment, "propensity": propensity, "estimand": estimand,
           "family": family, "clip": clip, "folds": folds}  # fmt: skip
    joint, arguments = joint_formula(formula, arguments)
    declared = declared_schema(schema, as_source(data).schema_attr)
    for name in (treatment.strip().strip("`"), (folds or "").strip().strip("`")):
        if isinstance(bounds, Mapping) and name in bounds and tuple(bounds[name]) == (0, 1):
            bounds = {key: value for key, value in bounds.items() if key != name}
            declared = (declared or Schema()).update({name: Binary()})
    if event_response(formula, declared, family):
        arguments["design_options"] = {"response_ok": "event"}
    fit = call(
        "dp_ate", joint, data, typed=(formula, {}),
        eps=eps, delta=delta, method=method, default="aipw",
        schema=declared, bounds=bounds, budget=budget, seed=seed, progress=progress, unit=unit,
        **arguments,
    )  # fmt: skip
    return as_typed(fit, formula)
