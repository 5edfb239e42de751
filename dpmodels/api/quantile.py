"""``dp_quantile``: quantiles with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.building import check_first
from dpmodels.api.choice import Choice
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_quantile", "quantile_arguments", "quantile_formula", "quantile_method"]

#: More quantiles than this come from a tree: it has all of them for one price.
_MANY = 10


def quantile_formula(formula: Any) -> str:
    """Return ``"wage"`` and ``"wage ~ 1"`` as the formulas ``"~ wage"`` and ``"wage ~ 1"``."""
    check_first(formula)
    return str(formula) if "~" in formula else f"~ {formula}"


def quantile_method(q: Any, inference: bool, delta: Any) -> tuple[str, tuple[str, ...]]:
    """Return the method by a public rule, and the reason."""
    many = hasattr(q, "__len__") and len(q) > _MANY
    if isinstance(delta, (int, float)) and delta == 0:
        return "em", ("method chosen: em, because delta = 0 allows no Gaussian noise",)
    if many:
        return "tree", (f"method chosen: tree, because more than {_MANY} quantiles cost one tree",)
    if inference:
        return "tree", ("method chosen: tree, because intervals are asked for (inference=True)",)
    return "em", ("method chosen: em, the most accurate for few points without intervals",)


def quantile_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of quantiles goes by: the method that the rule chooses."""
    reasons: tuple[str, ...] = ()
    if method is None:
        method, reasons = quantile_method(options.get("q", 0.5), inference, delta)
    return quantile_formula(formula), method, options, reasons


def dp_quantile(
    formula: str,
    data: Any,
    *,
    q: Any = 0.5,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    inference: bool = True,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release quantiles with differential privacy.

    Parameters
    ----------
    formula : str
        ``"wage"``, ``"~ wage + age"`` or ``"wage ~ 1"``: numbers or row-wise expressions.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`; "em" takes ``delta=0``.
    q : float or list of float
        Also called ``tau=``, ``quantiles=`` and ``probs=``.
    method : {"em", "tree"}, optional
        "em": the exponential mechanism, one draw a quantile. "tree": a noisy tree of counts, which
        has every quantile, with intervals. None: "tree" for intervals or more than 10 quantiles,
        else "em".
    inference : bool
        Whether intervals are wanted. ``inference=False`` gives the most accurate points.
    **options
        ``points=``: most points of the public grid, multiples of 1, 2 or 5 times a power of ten
        inside the range (65 536 for "em", 4096 to 65 536 by n for "tree"); ``subset=``, ``level=``;
        ``unit="person_id"``: each person counts once, by the shares of own rows.

    Returns
    -------
    Fit
        ``params`` are the quantiles, ``conf_int()`` their intervals.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: replace one, their number
    public. Charged: (eps, delta), before noise is drawn. How many values are missing is private.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_quantile("mdvis", dp.datasets.rand_hie(), q=[0.5, 0.9], eps=1, delta=0,
    ...                          bounds={"mdvis": (0, 100)}, inference=False, seed=1)
    >>> fit.params.to_dict()
    {'q0.5(mdvis)': 1.0, 'q0.9(mdvis)': 7.0}
    """
    formula = quantile_formula(formula)
    for word in ("tau", "quantiles", "probs"):  # of dp_quantreg, of dp_table, of R
        q = options.pop(word, q)
    return fit_formula(
        "dp_quantile",
        default=method or (lambda: Choice(*quantile_method(q, inference, delta))),
        formula=formula,
        data=data,
        q=q,
        eps=eps,
        delta=delta,
        method=method,
        schema=schema,
        bounds=bounds,
        inference=inference,
        budget=budget,
        seed=seed,
        progress=progress,
        options=options,
    )
