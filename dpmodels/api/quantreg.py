"""``dp_quantreg``: quantile regression with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_quantreg"]


def dp_quantreg(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    tau: Any = 0.5,
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
    """Fit a quantile regression with differential privacy.

    Parameters
    ----------
    formula : str
        R-style: ``"y ~ x1 + x2"``.
    data : table or NoisyTable
        Any table, or a release (``dp_release``): then ``eps`` and ``delta`` must not be given and
        the fit costs nothing.
    eps, delta : float
        The guarantee of the whole call.
    tau : float or list of float
        Quantiles, strictly between 0 and 1. Several share their start and read the rows together;
        coefficients are then called ``"x [tau = 0.25]"``. Also called ``q=``, as in statsmodels.
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
        ``predict(new)`` gives the quantile; of several, a column each, rearranged so that they do
        not cross. On a noised table without clear records (``clear_prob=0``) there are no standard
        errors: the loss is smoothed there, which moves every quantile but the median of symmetric
        errors by more than an error would say.

    Raises
    ------
    ValueError
        A subclass of it, before anything is read or charged, for every unusable argument.

    Privacy
    -------
    Unit: one row, or one person (``unit="person_id"``); ``method="drcl"`` with
    ``unit="attribute"``: one attribute of a row. Neighbours: replace one, n public (or
    ``relation="add-remove"``). Charged: (eps, delta), before noise is drawn. On a release: nothing.
    """
    if "q" in options:  # statsmodels' word
        tau = options.pop("q")
    return fit_formula(
        "dp_quantreg",
        default="scoring",
        formula=formula,
        data=data,
        eps=eps,
        delta=delta,
        tau=tau,
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
