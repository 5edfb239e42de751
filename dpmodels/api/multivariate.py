"""``dp_mean, dp_moments, dp_iv, dp_pca, dp_npreg, dp_bayes``: means, moments, curves, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmodels.api.call import call
from dpmodels.api.regressions import dp_ols
from dpmodels.api.releases import (
    REQUIRED,
    design_on,
    fit_of_functionals,
    functionals_on,
    given_names,
    require,
)
from dpmodels.api.requests import check_first, check_level, choose_method, formula_text
from dpmodels.errors import FormulaError, RequestError
from dpmodels.formula.build import build_design
from dpmodels.formula.describe import independent, public_points
from dpmodels.formula.design import Design
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.schema import Schema, declared_schema, schema_for
from dpmodels.results.fit import Fit
from dpmodels.sources.tasks import as_source
from dpmodels.verbs import like


def columns_formula(columns: Any) -> str:
    """Return ``"x1 + x2 ~ 1"`` for that text, with or without its ``~``, or for a list of names."""
    columns = formula_text(columns)
    if isinstance(columns, str):
        text = columns.strip()
        if text.startswith("~"):
            return f"{text[1:].strip()} ~ 1"
        return columns if "~" in text or not text else f"{text} ~ 1"
    names = list(columns) if hasattr(columns, "__iter__") else []
    if not names or not all(isinstance(c, str) for c in names):
        raise RequestError(
            "the columns are a formula, 'x1 + x2 ~ 1' or '~ x1 + x2', or a list of column names; "
            f"got {type(columns).__name__}"
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
        As in :func:`dpmodels.dp_ols`. ``delta=0`` gives pure differential privacy: Laplace noise, a
        third of the Gaussian noise of one mean at eps = 1; ranges must be declared.
    method : {"clipped", "ptr"}
        "clipped" (default): means of values clipped to declared or estimated ranges. "ptr": the
        classic Propose-Test-Release mean at a known half-width ``width=``, for teaching. With
        ``weights=`` means are weighted, with ``design=dp.Survey(...)`` errors are by design.

    Returns
    -------
    Fit
        ``params`` are the means; ``bse`` contains the privacy noise.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``: each person counts once, by the mean of
    their rows). Neighbours: one unit is replaced, the number of units is public. Charged: (eps,
    delta), before noise is drawn. The count of complete rows is a part of the release.

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
    typed: tuple[Any, dict[str, Any]] = (formula, {})
    formula = columns_formula(formula)
    return call(
        "dp_mean", typed=typed, default="clipped", formula=formula, data=data, eps=eps, delta=delta,
        method=method, schema=schema, bounds=bounds, inference=inference, budget=budget, seed=seed,
        progress=progress, options=options,
    )  # fmt: skip


def columns_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of columns."""
    return columns_formula(formula), method, options, ()


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
        ball: no ranges are needed or estimated), else "ssp" (a first release from declared or
        estimated ranges whitens the rows of a second). "joint": rows in their ranges, none weighed
        down, at more noise in regressions. "pmt_paper": the published algorithm, for comparison.
    public : table or PublicMoments, optional
        Public rows, or public second moments of (x, 1) in the layout of ``arrays["moments"]``
        (``{"moments": C, "m": 100}``). Used without noise; rows that need protection must not be
        among them.
    **options
        ``unit="person_id"``, the column that identifies the person (with ``units=``,
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
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public (or as ``relation=`` says). Charged: (eps, delta), before noise is
    drawn. Privacy never depends on the public data being right.

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
    return call(
        "dp_moments", typed=(columns, {}),
        default=lambda: choose_method("dp_moments", method, public), data=data,
        eps=eps, delta=delta, method=method, schema=schema, bounds=bounds, public=public,
        budget=budget, seed=seed, progress=progress, options=options, formula=formula,
    )  # fmt: skip


@like(dp_ols)
def dp_pca(
    formula: str | Sequence[str], data: Any, *, eps: float, delta: float, k: int = 1,
    schema: Schema | None = None, bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None, seed: int | None = None, **options: Any,
) -> Fit:  # fmt: skip
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
        component k is not visible. ``glance()``: ``angle_error`` of the subspace, degrees at most.

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
    typed: tuple[Any, dict[str, Any]] = (formula, {})
    formula = columns_formula(formula)
    method = options.pop("method", None)
    return call(
        "dp_pca", typed=typed,
        default="gptr", formula=formula, data=data, eps=eps, delta=delta, k=k,
        schema=schema, bounds=bounds, budget=budget, seed=seed, options=options, method=method,
    )  # fmt: skip


@like(dp_ols)
def dp_npreg(
    formula: str, data: Any, *, eps: float, delta: float, method: str | None = None,
    schema: Schema | None = None, bounds: Mapping[str, tuple[float, float]] | str | None = None,
    inference: bool = True, budget: Any = None, seed: int | None = None,
    progress: bool | None = None, **options: Any,
) -> Fit:  # fmt: skip
    """Fit a Nadaraya-Watson kernel regression with differential privacy.

    Parameters
    ----------
    formula : str
        ``"y ~ x1"`` or ``"y ~ x1 + x2"``; with three variables and more give ``at=``.
    data, eps, delta, schema, bounds, inference, budget, seed, progress, **options
        As in :func:`dpmodels.dp_ols`. ``h=`` is the bandwidth on the scale where every variable
        runs over [-1, 1] (default: a rule of n alone); ``at=`` a table of public points.
    method : {"functional", "eptr", "wavelet"}
        "functional" (default): one charge for any number of points. "eptr": efficient
        Propose-Test-Release, which releases the points with enough rows near them and marks the
        others (nan). "wavelet": for comparison.

    Returns
    -------
    Fit
        ``params`` are the values at the points; ``predict(new)`` interpolates and never draws
        noise again; ``plot()`` shows the curve with its band.

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
    return call(
        "dp_npreg", default="functional", formula=formula, data=data, eps=eps, delta=delta,
        method=method, schema=schema, bounds=bounds, inference=inference, budget=budget, seed=seed,
        progress=progress, options=options,
    )  # fmt: skip


@like(dp_ols)
def dp_bayes(
    formula: str, data: Any, *, eps: float, delta: float, method: str | None = None,
    schema: Schema | None = None, bounds: Mapping[str, tuple[float, float]] | str | None = None,
    inference: bool = True, budget: Any = None, seed: int | None = None,
    progress: bool | None = None, **options: Any,
) -> Fit:  # fmt: skip
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
        ``params`` are the priors and class means. ``predict(new)`` gives classes, ``predict(new,
        what="prob")`` their probabilities, with ``interval="confidence"`` and ``se_fit=True``;
        ``dpmodels.balanced_error``, ``dpmodels.confusion_table`` measure them on public data.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. Charged: (eps, delta), before noise is
    drawn. Public: formula, schema with the class levels, n. A row of an
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
    return call(
        "dp_bayes", default="sums", formula=formula, data=data, eps=eps, delta=delta, method=method,
        schema=schema, bounds=bounds, inference=inference, budget=budget, seed=seed,
        progress=progress, options=options,
    )  # fmt: skip


# -- ``dp_iv``: two-stage least squares with differential privacy.


#: Row weights depend on the response and on what is endogenous, and then the instruments of the
#: weighted rows are not quite exogenous: rows of a release that is made for a two-stage fit are
#: weighed down less than the rule of regressions has it, at more noise.
LIGHT = 1.0
_EXAMPLE = "'wage ~ school + age | distance + age'"


@like(dp_ols)
def dp_iv(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    budget: Any = None,
    seed: int | None = None,
    level: float = 0.95,
    **options: Any,
) -> Fit:
    """Fit a linear model by two-stage least squares with differential privacy.

    Parameters
    ----------
    formula : str
        ``"y ~ x + w | z + w"``: regressors, then all instruments, exogenous regressors among them
        (as R's ivreg writes it).
    data
        As in :func:`dpmodels.dp_ols`. Or a release of second moments,
        ``m = dp_moments("y + x + z + w", ...)``: the fit then costs nothing, and ``eps`` and
        ``delta`` must not be given.
    eps, delta, schema, bounds, public, budget, seed, **options
        Of the release of second moments that is made from a table, as in
        :func:`dpmodels.dp_moments`; but ``phi=1``, which weighs fewer rows down.
    method : str, optional
        Of that release.
    level : float
        Of intervals, and of the Anderson-Rubin set.

    Returns
    -------
    Fit
        Errors include the noise. ``stats["first_stage_F[x]"]`` is the F of the excluded
        instruments; ``arrays["anderson_rubin"]`` the intervals of the Anderson-Rubin set, which is
        right however weak they are (one endogenous regressor). If the release gives long rows less
        weight, both are those of the weighted rows. With long tails they can differ from those of
        all rows. ``method="joint"`` gives equal weights and is the safe choice.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. Charged: the pair (eps, delta) for the
    release of second moments; nothing on a release. Public: formula, schema, n.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     m = dp.dp_moments("mdvis + physlm + disea", dp.datasets.rand_hie(), eps=2, delta=1e-6,
    ...                       seed=1)
    >>> fit = dp.dp_iv("mdvis ~ physlm | disea", m)
    >>> list(fit.params.index)
    ['Intercept', 'physlm']
    """
    from dpmodels.results.fit import Fit

    main, instruments = _parts(formula)
    check_level(level)
    if isinstance(data, Fit):
        refused = given_names(
            eps=eps, delta=delta, method=method, schema=schema, bounds=bounds, public=public,
            budget=budget, seed=seed,
        )  # fmt: skip
        refused += options
        if refused:
            raise RequestError(
                f"{', '.join(refused)} must not be given with a release of second moments: it was "
                f"charged when it was made. Type dp_iv({formula!r}, m)"
            )
        return _fit_on_release(data, formula, main, instruments, level)
    require("dp_iv", eps, delta, options)
    if not hasattr(data, "__next__"):
        _check_first(data, main, instruments, schema, bounds)
    if method in (None, "ssp", "pmt"):
        options.setdefault("phi", LIGHT)
    response, _, regressors = main.partition("~")
    columns = " + ".join(part.strip() for part in (response, regressors, instruments))
    m = dp_moments(
        columns, data, eps=eps, delta=delta, method=method, schema=schema, bounds=bounds,
        public=public, budget=budget, seed=seed, **options,
    )  # fmt: skip
    return _fit_on_release(m, formula, main, instruments, level, paid=True)


def _parts(formula: Any) -> tuple[str, str]:
    """Return ``("y ~ x + w", "z + w")``."""
    formula = check_first(formula)
    main, bar, instruments = formula.partition("|")
    if not bar or "|" in instruments or not instruments.strip() or "~" in instruments:
        raise FormulaError(
            f"{formula!r}: dp_iv needs regressors, one bar and then all instruments, as in "
            f"{_EXAMPLE}"
        )
    if "~" not in main or not main.partition("~")[0].strip():
        raise FormulaError(f"{formula!r} has no response. For example {_EXAMPLE}")
    return main.strip(), instruments.strip()


def _check_first(data: Any, main: str, instruments: str, schema: Any, bounds: Any) -> None:
    """Refuse a model that is not identified, before anything is read or charged."""
    source = as_source(data)
    with_instruments = f"{main} + {instruments}"
    needed = needed_variables(with_instruments, source.kinds)
    declared = declared_schema(schema, source.schema_attr)
    full = schema_for(
        source.kinds, declared, bounds, needed, formula=with_instruments, verb="dp_iv"
    )
    _places(build_design(main, full), build_design(f"~ {instruments}", full, one_sided_ok=True))


def _places(design: Design, instruments: Design) -> tuple[list[int], list[int]]:
    """Return (endogenous columns of the design, instruments that are not in it), or refuse."""
    if not (design.has_intercept and instruments.has_intercept):
        raise RequestError("dp_iv needs an intercept in both parts: drop '0 +' or '- 1'")
    endogenous = [j for j, name in enumerate(design.names) if name not in instruments.names]
    excluded = [j for j, name in enumerate(instruments.names) if name not in design.names]
    if not endogenous:
        raise RequestError(
            "every regressor is among the instruments, so nothing is endogenous: dp_ols() fits it"
        )
    if len(excluded) < len(endogenous):
        listed = ", ".join(design.names[j] for j in endogenous)
        raise RequestError(
            f"not identified: {len(endogenous)} endogenous regressor"
            f"{'s' if len(endogenous) > 1 else ''} ({listed}) and {len(excluded)} excluded "
            f"instrument{'' if len(excluded) == 1 else 's'}. List exogenous regressors on both "
            f"sides of the bar, as in {_EXAMPLE}"
        )
    for regressors in (design, instruments):
        rows = public_points(regressors, 64 * (regressors.p + 1), (1.0, 2.0))
        X = dict(
            zip(regressors.names, np.asarray(regressors.matrix(rows), dtype=float).T, strict=True)
        )
        del X["Intercept"]
        if lost := [name for name in X if name not in independent(X)]:
            raise RequestError(
                f"{lost[0]!r} is a linear function of the columns before it in every row, so the "
                "coefficients are not identified: leave it out"
            )
    return endogenous, excluded


def _fit_on_release(
    m: Fit, formula: str, main: str, instruments: str, level: float, *, paid: bool = False
) -> Fit:
    """Return the fit on a release."""
    from dpmodels.models.moments import Instruments
    from dpmodels.results.moments import moments_of

    if paid and not m._record.estimate.released:  # as every charged fit
        design = build_design(main, m.design.schema, na=m.design.na)
        return fit_of_functionals("dp_iv", formula, m, None, design, None, level=level, paid=True)
    facts = moments_of(m._record)
    design = design_on(main, m, "dp_iv")
    response = main.partition("~")[0].strip()
    beside = design_on(f"{response} ~ {instruments}", m, "dp_iv")
    instrument_design = build_design(
        f"~ {instruments}", m.design.schema, na=m.design.na, one_sided_ok=True
    )
    endogenous, excluded = _places(design, instrument_design)
    B = functionals_on(beside, m, facts)[:-1]
    rows = functionals_on(design, m, facts)
    instrument_columns = Instruments(B, tuple(endogenous), tuple(excluded))
    title = "two-stage least squares on released second moments"
    return fit_of_functionals(
        "dp_iv", formula, m, facts, design, rows, level=level, title=title,
        instruments=instrument_columns, paid=paid,
    )  # fmt: skip
