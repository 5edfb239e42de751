"""``dp_moments``: means and second moments with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.choice import choose_method
from dpmodels.api.columns import columns_formula
from dpmodels.api.fitting import fit_formula

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
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release the second-moment matrix of (1, x) with differential privacy.

    One release; means, covariances, correlations, and regressions of any column on any others,
    are then functions of it and cost nothing more: ``m.corr()``, ``dp_ols("y ~ x1", m)``,
    ``dp_iv("y ~ x | z", m)``, ``dp.anova(...)`` of such fits, ``m.best_subset("y")``.

    Parameters
    ----------
    columns : str or sequence of str
        ``"y + x1 + C(g)"``, ``"~ x1 + x2"``, or the names of the columns.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`; ``delta=0`` gives pure differential privacy.
    method : str, optional
        None: "pmt" with public data (rows are whitened by their second moment and scaled into a
        ball: no ranges are needed or bought), else "ssp" (a first release from declared or bought
        ranges whitens the rows of a second). "joint": rows in their ranges, none weighed down,
        at more noise in regressions. "pmt_paper": the published algorithm, for comparison.
    public : table or PublicMoments, optional
        Public rows, or public second moments of (x, 1) in the layout of ``arrays["moments"]``
        (``{"moments": C, "m": 100}``). Used without noise; rows that need protection must not be
        among them.
    **options
        ``unit="person_id"``, the column that says whose row it is (with ``units=``,
        ``rows_per_unit=``, ``sort=`` as in :func:`dpmodels.dp_ols`): all rows of a person are
        scaled together. ``relation="add-remove"`` with ``n_guess=``; ``bounds_share=``; of "pmt"
        ``stages=``, ``radius=``, ``shrink=``, ``phi=``.

    Returns
    -------
    Fit
        ``params``: mean products, means, and the share of complete rows; ``arrays["moments"]``:
        the matrix itself, the constant last, in the user's units and per row; ``bse_privacy`` and
        ``vcov("privacy")``: what the noise adds to each entry. Rows that "ssp" and "pmt" scale
        into a ball count less, so their moments are over the released mean weight of a row
        (the last of ``params``); ``arrays["moments_per_row"]`` are not.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: replace one, their number
    public (or as ``relation=`` says). Charged: (eps, delta), before noise is drawn. Privacy never
    depends on the public data being right.

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
    return fit_formula(
        "dp_moments",
        columns_formula(columns),
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default=lambda: choose_method("dp_moments", method, public),
        schema=schema,
        bounds=bounds,
        public=public,
        inference=True,
        seed=seed,
        progress=progress,
        options=options,
    )
