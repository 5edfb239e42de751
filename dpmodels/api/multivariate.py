"""``dp_mean, dp_moments, dp_pca, dp_npreg, dp_bayes``: means, components, curves, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.call import fit_formula
from dpmodels.api.paragraphs import like
from dpmodels.api.regressions import dp_ols
from dpmodels.api.requests import choose_method
from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.results import Fit

__all__ = ["columns_formula", "dp_bayes", "dp_mean", "dp_moments", "dp_npreg", "dp_pca"]


def columns_formula(given: Any) -> str:
    """Return ``"x1 + x2 ~ 1"`` for that text, with or without its ``~``, or for a list of names."""
    if isinstance(given, str):
        text = given.strip()
        if text.startswith("~"):
            return f"{text[1:].strip()} ~ 1"
        return given if "~" in text or not text else f"{text} ~ 1"
    names = list(given) if hasattr(given, "__iter__") else []
    if not names or not all(isinstance(c, str) for c in names):
        raise RequestError(
            "the columns are a formula, 'x1 + x2 ~ 1' or '~ x1 + x2', or a list of column names; "
            f"got {type(given).__name__}"
        )
    return " + ".join(c if c.isidentifier() else f"`{c}`" for c in names) + " ~ 1"


@like(dp_ols)
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
        classic Propose-Test-Release mean at a known half-width ``width=``, for teaching. With
        ``weights=`` means are weighted, with ``design=dp.Survey(...)`` errors are by design.

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
    return fit_formula("dp_mean", default="clipped", **locals())


@like(dp_ols)
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
    data, eps, schema, bounds, budget, seed, progress, delta
        As in :func:`dpmodels.dp_ols`. ``delta=0`` gives pure differential privacy.
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
    formula = columns_formula(columns)
    del columns  # a formula from here on
    return fit_formula(
        "dp_moments", default=lambda: choose_method("dp_moments", method, public), **locals()
    )


@like(dp_ols)
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
    data, eps, delta, budget, seed, schema, bounds
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
    return fit_formula("dp_pca", default="gptr", **locals())


@like(dp_ols)
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
    data, eps, delta, schema, bounds, inference, budget, seed, progress, **options
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
    return fit_formula("dp_npreg", default="functional", **locals())


@like(dp_ols)
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
    data, eps, delta, schema, bounds, inference, budget, seed, progress, **options
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
    return fit_formula("dp_bayes", default="sums", **locals())
