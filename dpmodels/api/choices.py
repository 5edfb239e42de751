"""``dp_polr``, ``dp_multinom``: regressions of ordered and of unordered categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_multinom", "dp_polr", "plan_arguments"]

_LINKS = ("logistic", "probit", "cloglog")


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
    return fit_formula(
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


def plan_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of ``dp_polr`` goes by: its ``method=`` is the link."""
    rest = {k: v for k, v in options.items() if k != "link"}
    method = None if method == "scoring" else method  # dp.methods() calls it so
    return formula, None, {**rest, "link": _link(method, options.get("link"))}, ()


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
    return fit_formula(
        "dp_multinom", formula, data, eps=eps, delta=delta, method=None, default="scoring",
        schema=_based(schema, formula, base), bounds=bounds, budget=budget, seed=seed,
        progress=progress, unit=unit, options=options,
    )  # fmt: skip


def _based(schema: Any, formula: str, base: Any) -> Any:
    """Return the schema with the base level of the response first."""
    if base is None:
        return schema
    from dpmodels.formula.schema import Schema, declared_schema
    from dpmodels.variables import Levels

    name = formula.split("~")[0].strip().strip("`")
    given = declared_schema(schema, Schema()) or Schema()
    declared: Any = given[name] if name in given else None  # noqa: SIM401
    levels = list(declared.levels) if isinstance(declared, Levels) else []
    if base not in levels:
        raise RequestError(
            f"base={shown(base)} is not a declared level of {name!r}"
            + (f": {levels}" if levels else ", whose levels are not declared in schema=")
        )
    others = [level for level in levels if level != base]
    return given.update({name: Levels([base, *others])})
