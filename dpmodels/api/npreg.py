"""``dp_npreg``: kernel regression with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_npreg"]


def dp_npreg(
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
    """Fit a Nadaraya-Watson kernel regression with differential privacy.

    Parameters
    ----------
    formula : str
        ``"y ~ x1"`` or ``"y ~ x1 + x2"``; with three variables and more give ``at=``.
    data, eps, delta, schema, bounds, budget, seed, progress, **options
        As in :func:`dpmodels.dp_ols`. ``h=`` is the bandwidth on the scale where every variable
        runs over [-1, 1] (default: a rule of n alone); ``at=`` a table of public points.
    method : {"functional", "eptr", "wavelet"}
        "functional" (default): one payment for any number of points. "eptr": efficient
        Propose-Test-Release at the points jointly. "wavelet": for comparison.

    Returns
    -------
    Fit
        ``params`` are the values at the points; ``predict(new)`` interpolates and never draws
        noise again; ``plot()`` shows the curve with its privacy band.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. Charged: (eps, delta), before noise is
    drawn. Public: formula, schema, n, the points and the bandwidth.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_npreg("log1p(mdvis) ~ disea", dp.datasets.rand_hie(), eps=1, delta=1e-6,
    ...                       seed=1)
    >>> fit.predict(pd.DataFrame({"disea": [5.0, 20.0]})).round(1).tolist()
    [0.8, 1.2]
    """
    return fit_formula(
        "dp_npreg",
        default="functional",
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
