"""``dp_bayes``: Gaussian Bayes classifier with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_bayes"]


def dp_bayes(
    formula: str,
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
    """Fit a Gaussian Bayes classifier with differential privacy.

    Parameters
    ----------
    formula : str
        ``"class ~ x1 + x2"``. The class must have declared levels; features are independent
        within a class.
    data, eps, delta, schema, bounds, budget, seed, progress, **options
        As in :func:`dpmodels.dp_ols`.
    method : {"sums", "eptr", "dpnb", "dpnbss"}
        "sums" (default): noisy class sums and counts, always answers, most accurate. "eptr":
        efficient Propose-Test-Release. The others are for comparison.

    Returns
    -------
    Fit
        ``params`` are the priors and class means. ``predict(new)`` gives classes,
        ``predict(new, what="prob")`` their probabilities; ``dpmodels.balanced_error`` and
        ``dpmodels.confusion_table`` measure them on public data.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. Charged: (eps, delta), before noise is
    drawn, also for a no-reply. Public: formula, schema with the class levels, n. A row of an
    undeclared class adds nothing.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> data = dp.datasets.rand_hie()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_bayes("hlthp ~ disea + physlm", data, eps=1, delta=1e-6, seed=1,
    ...                       schema=dp.Schema.from_frame_attrs(data).update(
    ...                           hlthp=dp.Levels([0, 1])))
    >>> fit.predict(data.head(2)).tolist()
    [0, 0]
    """
    return fit_formula(
        "dp_bayes",
        default="sums",
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
