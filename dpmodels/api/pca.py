"""``dp_pca``: principal components with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.columns import columns_formula
from dpmodels.api.fitting import fit_formula

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_pca"]


def dp_pca(
    formula: str | Sequence[str],
    data: Any,
    *,
    eps: float,
    delta: float,
    k: int = 1,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Fit:
    """Release the subspace of the leading principal components.

    Parameters
    ----------
    formula : str or list of str
        ``"~ x1 + x2 + x3"``, ``"x1 + x2 + x3 ~ 1"`` or the column names.
    data, eps, delta, schema, bounds, budget, seed
        As in :func:`dpmodels.dp_ols`. Ranges must be declared.
    k : int
        Number of components, below the number of columns.
    **options
        ``scale=`` (standardise the columns; default True), ``radius=``, and the common ones.

    Returns
    -------
    Fit
        ``params``: loadings ("PC1:x1", ...); NaN after a no-reply, when the eigengap behind
        component k is not visible above the noise.

    Privacy
    -------
    Unit: one row; replace-one, n public (or ``relation="add-remove"``). Charged: (eps, delta).

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_pca("~ lncoins + fmde + disea", dp.datasets.rand_hie(), eps=4, delta=1e-6,
    ...         bounds={"lncoins": (0, 5), "fmde": (0, 9), "disea": (0, 60)}, seed=1)
    >>> len(fit.params)
    3
    """
    formula = columns_formula(formula)
    method = options.pop("method", None)
    return fit_formula(
        "dp_pca",
        default="gptr",
        formula=formula,
        data=data,
        eps=eps,
        delta=delta,
        k=k,
        schema=schema,
        bounds=bounds,
        budget=budget,
        seed=seed,
        method=method,
        options=options,
    )
