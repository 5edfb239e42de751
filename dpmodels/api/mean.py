"""``dp_mean``: means with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.columns import columns_formula
from dpmodels.api.fitting import fit_formula

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_mean"]


def dp_mean(
    formula: str | Sequence[str],
    data: Any,
    *,
    eps: float,
    delta: float,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    inference: bool = True,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release means with differential privacy.

    Parameters
    ----------
    formula : str or sequence of str
        ``"x1 + x2 ~ 1"`` or ``"~ x1 + x2"``: the variables (or row-wise expressions) to average;
        or their names.
    data, eps, delta, schema, bounds, inference, budget, seed, progress, **options
        As in :func:`dpmodels.dp_ols`.
    method : {"clipped", "ptr"}
        "clipped" (default): means of values clipped to declared or bought ranges. "ptr": the
        classic Propose-Test-Release mean at a known half-width ``width=``, for teaching.

    Returns
    -------
    Fit
        ``params`` are the means; ``bse`` contains the privacy noise.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``: each counts once, by the mean of own
    rows). Neighbours: replace one, their number public. Charged: (eps, delta), before noise is
    drawn. The count of complete rows is a part of the release.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_mean("mdvis ~ 1", dp.datasets.rand_hie(), eps=1, delta=1e-6, seed=1)
    >>> fit.params.round(1).to_dict()
    {'mdvis': 2.9}
    """
    formula = columns_formula(formula)
    return fit_formula(
        "dp_mean",
        default="clipped",
        formula=formula,
        data=data,
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
