"""``dp_ols``, ``dp_glm``, ``dp_quantreg``, ``dp_mest``: regressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.call import call
from dpmodels.api.releases import REQUIRED
from dpmodels.api.requests import choose_method, glm_arguments
from dpmodels.errors import RequestError, shown
from dpmodels.verbs import like

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.results import Fit

__all__ = ["dp_glm", "dp_mest", "dp_ols", "dp_quantreg"]


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
        returns an iterator of frames.

        Or a release (``dp_release``), or second moments (``m = dp_moments("y + x1 + x2", ...)``):
        the fit then costs nothing, and ``eps`` and ``delta`` must not be given.
    eps, delta : float
        The guarantee of the whole call: ranges, tests, coefficients and standard errors together.
    method : str, optional
        See ``dp.methods()``. None: the best by a rule on public facts, printed with its reason.

        That is "pmt" with public data, else "scoring" (one or two stages). "moments" is the fit
        by released sufficient statistics alone (``scoring=False``). The old name of both is "ssp".
    schema : Schema, optional
        Declared facts about the variables. Numeric variables without a declared range have their
        range bought from ``eps`` and ``delta``; text variables need declared levels.
    bounds : mapping or "private", optional
        Short form of ranges, ``{"alcohol": (8, 15)}``; "private" buys every range.
    public : table or PublicMoments, optional
        Public rows (with the response), or public second moments. They are used without noise;
        rows that need protection must not be among them.

        For ``method="pmt"``.
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
        counted, a public number); ``rows_per_unit=`` is a public guess of the rows of one,
        ``person_weights="equal"`` lets each person count once (not each row);
        ``sort="duckdb"`` puts rows that memory does not hold in the order of people on disk. None:
        a row is its own unit.
    **options
        Options of the method (see ``dp.methods()``), and ``split, level, relation, na,
        on_no_reply, engine, subset, weights, n, units, rows_per_unit, sort``.

        Where "scoring" and "pmt" end by private Fisher scoring, their
        default, errors are robust (HC1); where they end by moments alone (``scoring=False``,
        ``inference=False``, ``delta=0``) they assume one variance. ``vcov="hetero"`` or ``"iid"``
        chooses, ``vcov={"CRV1": "village"}, psus=194`` makes them by cluster, and
        ``design=dp.Survey(weights=, strata=, psu=)`` by the design of a survey (a row, or
        with ``unit=`` a person, is protected, not a village).
        ``ranges="uncertain"`` ("scoring") spends a twentieth of mu^2 on centre and scale of every
        number first, for declared ranges that may be ten times too wide.

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
    return call(
        "dp_ols", default=lambda: choose_method("dp_ols", method, public), **locals()
    )


@like(dp_ols)
def dp_glm(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    family: Any = "binomial",
    link: str | None = None,
    method: str | None = None,
    event: Any = None,
    offset: str | None = None,
    exposure: str | None = None,
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
    """Fit a generalised linear model with differential privacy.

    Parameters
    ----------
    formula : str
        R-style. A binomial response is declared: ``Binary()``, two ``Levels``, or a comparison
        such as ``"I(income > 50) ~ age"``.
    data, eps, delta, schema, bounds, public, inference, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    family : str or family of statsmodels
        "binomial" (links "logit", "probit", "cloglog"), "poisson", "quasipoisson", "gamma",
        "negative_binomial" and "geometric" (link "log"), "gaussian"; the usual aliases too. A
        response that the family cannot have (a negative or broken count) is a missing cell: the
        row counts as empty, silently.
    link : str, optional
        Default: the family's first.
    method : str, optional
        Default "scoring" (private Fisher scoring: errors near the non-private ones, robust), or
        "objpert" (objective perturbation) without inference, with public data, or under
        add-remove without ``n_guess=``. The summary says which and why. See ``dp.methods()``.
    event : level, optional
        The level of the response whose probability is modelled; default: the second declared.
        A response that is a plain number needs it, or a declaration: ``event=1`` models
        P(y = 1), and every other number is "no event".
    offset, exposure : str, optional
        Column (or expression) that is added to the linear predictor, as it is or as its logarithm
        (log links); the same as ``offset(z)`` in the formula. Its range must be known as any
        other's.
    **options
        Options of the method (``dp.methods("scoring")``), and ``split, level, relation, na,
        on_no_reply, engine, subset, weights, n, units,
        rows_per_unit, sort``. ``weights="w"``: a declared column that
        multiplies a row's share of the likelihood.

    Returns
    -------
    Fit
        ``predict(new)`` gives the mean (a probability), ``predict(new, what="link")`` the
        linear predictor.

    Raises
    ------
    ValueError
        A subclass of it, before anything is read or charged, for every unusable argument.

    Privacy
    -------
    Unit: one row, or one person (``unit=``). Neighbours: replace one row, n public (or
    ``relation="add-remove"``). Charged: (eps, delta), before noise is drawn. Public: the formula,
    schema, column names and dtypes, n, the method and its options.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> data = dp.datasets.rand_hie()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_glm(
    ...         "I(mdvis > 0) ~ lncoins + hlthp", data, eps=1, delta=1e-6, seed=1,
    ...         bounds={"mdvis": (0, 100), "lncoins": (0, 5)},
    ...     )
    >>> bool(fit.params["lncoins"] < 0)
    True
    """
    formula, options, design_options = glm_arguments(
        formula, family=family, event=event, link=link, offset=offset, exposure=exposure, **options
    )
    options |= {} if unit is None else {"unit": unit}
    return call(
        "dp_glm",
        formula,
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default=lambda: choose_method(
            "dp_glm", method, public, inference=inference, options=options
        ),
        schema=schema,
        bounds=bounds,
        public=public,
        inference=inference,
        seed=seed,
        progress=progress,
        options=options,
        design_options=design_options,
    )


@like(dp_ols)
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
    schema, bounds, public, inference, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`. "attribute" (noised tables): one variable of a row.
    **options
        Options of the method (``dp.methods("scoring")``, ``dp.methods("drcl")``), and ``split,
        level, relation, na, on_no_reply, engine, subset, weights, n,
        units, rows_per_unit, max_rows, sort``.

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
    return call("dp_quantreg", default="scoring", **locals())


@like(dp_ols)
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
    schema, bounds, public, inference, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`. "attribute" (noised tables): one variable of a row.
    **options
        Options of the method (``dp.methods("scoring")``, ``dp.methods("drcl")``), and ``split,
        level, relation, na, on_no_reply, engine, subset, weights, n,
        units, rows_per_unit, max_rows, sort``.

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
    return call("dp_mest", default="scoring", **locals())
