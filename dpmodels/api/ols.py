"""``dp_ols``: linear regression with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.choice import choose_method
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_ols"]


def dp_ols(
    formula: str,
    data: Any,
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
    """Fit a linear regression with differential privacy.

    Parameters
    ----------
    formula : str
        R-style: ``"quality ~ alcohol + pH"``. The response is the left-hand side.
    data : table
        A pandas or polars frame, an Arrow table, a DuckDB relation, a path to a Parquet or CSV
        file (or a list of paths), a dictionary of arrays, a list of frames, or a function that
        returns an iterator of frames. Or a release (``dp_release``), or second moments
        (``m = dp_moments("y + x1 + x2", ...)``): the fit then costs nothing, and ``eps`` and
        ``delta`` must not be given.
    eps, delta : float
        The guarantee of the whole call: ranges, tests, coefficients and standard errors together.
    method : str, optional
        See ``dp.methods()``. None: "pmt" with public data, else "ssp" (one or two stages by a rule
        on public quantities, printed with its reason).
    schema : Schema, optional
        Declared facts about the variables. Numeric variables without a declared range have their
        range bought from ``eps`` and ``delta``; text variables need declared levels.
    bounds : mapping or "private", optional
        Short form of ranges, ``{"alcohol": (8, 15)}``; "private" buys every range.
    public : table or PublicMoments, optional
        Public rows (with the response), or public second moments, for ``method="pmt"``. They are
        used without noise; rows that need protection must not be among them.
    inference : bool
        Spend a part of the budget on standard errors.
    budget : Budget, optional
        The ledger this call is charged to.
    seed : int, optional
        For tests and vignettes: the result is then NOT PRIVATE.
    progress : bool, optional
        Show a progress bar (None: when the work is long).
    unit : str, optional
        Column that says whose row it is: the guarantee then protects a *person* with all rows,
        whatever their number. ``units=`` declares how many people there are (else the ids are
        counted, a public number); ``rows_per_unit=`` is a public guess of the rows of one;
        ``sort="duckdb"`` puts rows that memory does not hold in the order of people on disk. None:
        a row is its own unit.
    **options
        Options of the method (``dp.methods("eptr")``), and ``split, level, relation, na,
        on_no_reply, engine, subset, weights, n, units,
        rows_per_unit, sort``. Where "ssp" and "pmt" end by private Fisher scoring, their
        default, errors are robust (HC1); where they end by moments alone (``scoring=False``,
        ``inference=False``, ``delta=0``) they assume one variance. ``vcov="hetero"`` or ``"iid"``
        chooses. ``ranges="uncertain"`` (ssp) spends a twentieth of
        mu^2 on the centre and scale of every number first, for declared ranges that may be ten
        times too wide.

    Returns
    -------
    Fit
        Coefficients, standard errors that include the privacy noise, intervals, and the privacy
        that was spent. After a no-reply the coefficients are NaN.

    Raises
    ------
    ValueError
        A subclass of it, before anything is read or charged, for every unusable argument.

    Privacy
    -------
    Unit: one row, or one person (``unit=``). Neighbours: replace one row, n public (or as
    ``relation=`` says). Charged: the pair (eps, delta), before any noise is drawn, also if there is
    no reply. Public: the formula, schema, column names and dtypes, n, the method and its options.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> data = dp.datasets.rand_hie()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_ols("mdvis ~ physlm", data, eps=1, delta=1e-6, method="eptr", seed=1)
    >>> fit.released
    True
    """
    return fit_formula(
        "dp_ols",
        default=lambda: choose_method("dp_ols", method, public),
        formula=formula,
        data=data,
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
