"""``dp_mest``: any M-estimator with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_mest"]


def dp_mest(
    formula: Any,
    data: Any,
    loss: Any = None,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    inference: bool = True,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit an M-estimator with differential privacy.

    Parameters
    ----------
    formula : str
        R-style: ``"y ~ x1 + x2"``.
    data : table or NoisyTable
        Any table, or a release (``dp_release``): then ``eps`` and ``delta`` must not be given and
        the fit costs nothing.
    loss : str, IndexLoss or callable
        "huber" (``k=`` corners in units of the scale, ``scale=`` a given scale), "expectile" and
        "quantile" (``tau=``), "median", "squared", "logistic", "poisson", "geometric"; or
        ``dp.IndexLoss(value, d1, d2, of_residual=True)``, functions of (y, eta), which are put
        into a table before any row is read. With ``method="drcl"`` and its kin also "hinge"
        (public response), other index losses, and any function ``loss(y, X, theta)`` that returns
        one number a row (noise in one block: ``noise="sl"``); there ``k=`` is in units of the
        response. The order of version 0.1, ``dp_mest(loss, formula, data)``, is accepted too.
    eps, delta : float
        The guarantee of the whole call.
    method : {"scoring", "drcl", "sdrcl", "sl"}, optional
        On data "scoring" (private Fisher scoring); on a release "drcl" (integrated corrected
        loss) or its one-draw forms.
    schema, bounds, public, inference, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    unit : str, optional
        Column that says whose row it is: the guarantee then protects a *person* with all rows,
        whatever their number. ``units=`` declares how many people there are (else the ids are
        counted, a public number); ``rows_per_unit=`` is a public guess of the rows of one;
        ``sort="duckdb"`` puts rows that memory does not hold in the order of people on disk. None:
        a row is its own unit; "attribute" (noised tables): one variable of a row.
    **options
        Options of the method (``dp.methods("scoring")``, ``dp.methods("drcl")``), and ``split,
        level, relation, na, on_no_reply, engine, subset, weights, n,
        units, rows_per_unit, max_rows, sort``. On a noised table ``theta=(0, 2)``, or
        a dict of coefficient -> ends, keeps the coefficients inside ends that are known.

    Returns
    -------
    Fit
        On a noised table without standard errors for "quantile", "median" and "hinge" where the
        data have no clear records (``clear_prob=0``): see :func:`dpmodels.dp_quantreg`.

    Raises
    ------
    ValueError
        A subclass of it, before anything is read or charged, for every unusable argument.

    Privacy
    -------
    Unit: one row, or one person (``unit="person_id"``); ``method="drcl"`` with
    ``unit="attribute"``: one attribute of a row. Neighbours: replace one, n public (or
    ``relation="add-remove"``). Charged: (eps, delta), before noise is drawn. On a release:
    nothing. A user's loss never sees a row with ``method="scoring"``.
    """
    if isinstance(data, str) and "~" in data:  # dp_mest(loss, formula, data), the old order
        loss, formula, data = formula, data, loss
    if loss is None:
        raise RequestError(
            f"dp_mest needs a loss: dp_mest({shown(formula)}, data, loss='huber', ...), or "
            "'expectile', 'median', dp.IndexLoss(...)"
        )
    return fit_formula(
        "dp_mest",
        default="scoring",
        formula=formula,
        data=data,
        loss=loss,
        eps=eps,
        delta=delta,
        method=method,
        schema=schema,
        bounds=bounds,
        public=public,
        inference=inference,
        budget=budget,
        seed=seed,
        progress=progress,
        unit=unit,
        options=options,
    )
