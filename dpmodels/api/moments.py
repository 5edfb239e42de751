"""``dp_moments``: means and second moments with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api._request import build_request
from dpmodels.api._run import execute

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_moments"]


def dp_moments(
    columns: str | Sequence[str],
    data: Any,
    *,
    eps: float,
    delta: float,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release the second-moment matrix of (1, x) with differential privacy.

    One release; means, covariances, correlations, and regressions of any column on any others,
    are then functions of it and cost nothing more.

    Parameters
    ----------
    columns : str or sequence of str
        ``"x1 + x2 ~ 1"``, or the names of the columns.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`; ``delta=0`` gives pure differential privacy.
    **options
        ``relation="add-remove"`` with ``n_guess=``; ``bounds_share=``.

    Returns
    -------
    Fit
        ``params``: mean products, means, and the share of complete rows. ``arrays["moments"]``:
        the matrix itself, the constant last, in the user's units and per row.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public (or as ``relation=`` says). Charged:
    (eps, delta), before noise is drawn.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_moments(["physlm", "disea"], dp.datasets.rand_hie(), eps=1, delta=1e-6,
    ...                         seed=1)
    >>> fit.arrays["moments"].shape
    (3, 3)
    """
    from dpmodels.errors import RequestError
    from dpmodels.results import Fit
    from dpmodels.sources.adapt import as_source

    if not isinstance(columns, str):
        names = list(columns)
        if not names or not all(isinstance(c, str) for c in names):
            raise RequestError("columns must be a formula 'x1 + x2 ~ 1' or a list of column names")
        columns = " + ".join(c if c.isidentifier() else f"`{c}`" for c in names) + " ~ 1"
    source = as_source(data)
    call = build_request(
        "dp_moments",
        columns,
        eps=eps,
        delta=delta,
        method="joint",
        kinds=source.kinds,
        attached=source.schema_attr,
        schema=schema,
        bounds=bounds,
        public=None,
        inference=False,
        seed=seed,
        progress=progress,
        options=options,
    )
    return Fit(*execute(call, source, budget))
