"""Regressions of numeric responses and families, of effects within people, and of categories."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dpmodels.api.call import as_typed, call
from dpmodels.api.releases import REQUIRED
from dpmodels.api.requests import choose_method, glm_arguments, with_base
from dpmodels.errors import RequestError, shown
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import is_one_name, split_effects, written_name
from dpmodels.results.fit import Fit
from dpmodels.verbs import like


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
        range estimated from ``eps`` and ``delta``; text variables need declared levels.
    bounds : mapping or "private", optional
        Short form of ranges, ``{"alcohol": (8, 15)}``; "private" estimates every range.
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
        Column that identifies the person: the guarantee then protects a *person* with all rows, for
        any number of rows. ``units=`` declares how many people there are (else the ids are counted,
        a public number); ``rows_per_unit=`` is a public guess of a person's number of rows. With
        ``person_weights="equal"`` each person counts once (not each row). ``sort="duckdb"`` sorts
        tables larger than memory by person, on disk. None: each row is a unit.
    **options
        Options of the method (see ``dp.methods()``), and ``split, level, relation, na,
        on_no_reply, engine, subset, weights, n, units, rows_per_unit, sort``.

        Where "scoring" and "pmt" end by private Fisher scoring, their
        default, errors are robust (HC1); where they end by moments alone (``scoring=False``,
        ``inference=False``, ``delta=0``) they assume one variance. ``vcov="hetero"`` or ``"iid"``
        chooses between the two. ``vcov={"CRV1": "village"}, psus=194`` gives errors by cluster, and
        ``design=dp.Survey(weights=, strata=, psu=)`` errors by the design of a survey (a row, or
        with ``unit=`` a person, is protected, not a village).
        The centre and scale of every numeric variable with a declared range are released first, for
        a twentieth of mu^2; ``ranges="uncertain"``, which asked for it, is still accepted.

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
    ``relation=`` says). Charged: the pair (eps, delta), before any noise is drawn; after a
    no-reply the part for which none was drawn goes back. Public: the formula, schema, column names
    and dtypes, n, the method and its options.

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
        "dp_ols", default=lambda: choose_method("dp_ols", method, public), formula=formula,
        data=data, eps=eps, delta=delta, method=method, schema=schema, bounds=bounds, public=public,
        inference=inference, budget=budget, seed=seed, progress=progress, unit=unit,
        options=options,
    )  # fmt: skip


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
        response that the family cannot have (a negative count) is a missing cell: the row counts
        as empty, silently. Amounts that are not whole are fitted, as in R; so are shares.
    link : str, optional
        Default: the family's first.
    method : str, optional
        Default "scoring" (private Fisher scoring: errors near the non-private ones, robust), or
        "objpert" (objective perturbation) without inference, or under add-remove without
        ``n_guess=``. The summary says which and why. See ``dp.methods()``.
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
    typed = formula, {"offset": offset, "exposure": exposure}
    formula, options, design_options = glm_arguments(
        formula, family=family, event=event, link=link, offset=offset, exposure=exposure, **options
    )
    options |= {} if unit is None else {"unit": unit}
    choose = functools.partial(
        choose_method, "dp_glm", method, public, inference=inference, options=options
    )
    return call(
        "dp_glm", default=choose, formula=formula, data=data, eps=eps, delta=delta, method=method,
        schema=schema, bounds=bounds, public=public, inference=inference, budget=budget, seed=seed,
        progress=progress, options=options, design_options=design_options, typed=typed,
    )  # fmt: skip


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
        Quantiles, strictly between 0 and 1. With several quantiles one initial fit and every
        reading of the rows serve all of them. Coefficients are then called ``"x [tau = 0.25]"``.
        Also called ``q=``, as in statsmodels.
    method : {"scoring", "drcl", "sdrcl", "sl"}, optional
        On data "scoring" (private Fisher scoring). On a release "drcl" (corrected loss, averaged
        over draws of the noise), or "sdrcl" and "sl" (one draw of the noise).
    schema, bounds, public, inference, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`. "attribute" (noised tables): one variable of a row.
    **options
        Options of the method (``dp.methods("scoring")``, ``dp.methods("drcl")``), and ``split,
        level, relation, na, on_no_reply, engine, subset, weights, n,
        units, rows_per_unit, max_rows, sort``.

    Returns
    -------
    Fit
        ``predict(new)`` gives the quantile. With several quantiles there is one column for each,
        rearranged so that they do not cross. On a noised table without clear records
        (``clear_prob=0``: noise in every record) there are no standard errors. The loss is
        smoothed there, and the bias of the smoothing exceeds any standard error, except for the
        median of symmetric errors.

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
    options = quantreg_arguments(formula, method, {"tau": tau, **options}, inference, delta)[2]
    return call(
        "dp_quantreg", default="scoring", formula=formula, data=data, eps=eps, delta=delta,
        method=method, schema=schema, bounds=bounds, public=public, inference=inference,
        budget=budget, seed=seed, progress=progress, unit=unit, options=options,
    )  # fmt: skip


def quantreg_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[Any, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of a quantile regression: ``q=`` is statsmodels' word."""
    if "q" in options:
        options = {**options, "tau": options["q"]}
        del options["q"]
    return formula, method, options, ()


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
        into a table before any row is read. With ``method="drcl"``, "sdrcl" and "sl" also "hinge"
        (public response), other index losses, and any function ``loss(y, X, theta)`` that returns
        one value per row (noise in one block: ``noise="sl"``). There ``k=`` is in units of the
        response. The order of version 0.1, ``dp_mest(loss, formula, data)``, is accepted too.
    eps, delta : float
        The guarantee of the whole call.
    method : {"scoring", "drcl", "sdrcl", "sl"}, optional
        On data "scoring" (private Fisher scoring). On a release "drcl" (corrected loss, averaged
        over draws of the noise), or "sdrcl" and "sl" (one draw of the noise).
    schema, bounds, public, inference, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`. "attribute" (noised tables): one variable of a row.
    **options
        Options of the method (``dp.methods("scoring")``, ``dp.methods("drcl")``), and ``split,
        level, relation, na, on_no_reply, engine, subset, weights, n,
        units, rows_per_unit, max_rows, sort``.

    Returns
    -------
    Fit
        On a noised table without clear records (``clear_prob=0``: noise in every record)
        "quantile", "median" and "hinge" have no standard errors: see :func:`dpmodels.dp_quantreg`.

    Raises
    ------
    ValueError
        A subclass of it, before anything is read or charged, for every unusable argument.

    Privacy
    -------
    Unit: one row, or one person (``unit="person_id"``); ``method="drcl"`` with
    ``unit="attribute"``: one attribute of a row. Neighbours: replace one, n public (or
    ``relation="add-remove"``). Charged: (eps, delta), before noise is drawn. On a release:
    nothing. With ``method="scoring"`` a user's loss is never evaluated at a row.
    """
    if isinstance(data, str) and "~" in data:  # dp_mest(loss, formula, data), the old order
        loss, formula, data = formula, data, loss
    if loss is None:
        raise RequestError(
            f"dp_mest needs a loss: dp_mest({shown(formula)}, data, loss='huber', ...), or "
            "'expectile', 'median', dp.IndexLoss(...)"
        )
    return call(
        "dp_mest", default="scoring", formula=formula, data=data, loss=loss, eps=eps, delta=delta,
        method=method, schema=schema, bounds=bounds, public=public, inference=inference,
        budget=budget, seed=seed, progress=progress, unit=unit, options=options,
    )  # fmt: skip


# -- ``dp_feols``, ``dp_fepois``: regressions with an effect of every person.


def without_effects(verb: str, formula: str, unit: str | None) -> tuple[str, str]:
    """Return the formula with other effects as factors, and the unit: ``y ~ x | id + year``."""
    if not isinstance(formula, str) or formula.count("|") != 1:
        raise RequestError(
            f'{verb} needs fixed effects after one "|", as in {verb}("y ~ x | id + year", data, '
            f'unit="id"); got {shown(formula)}'
        )
    model, effects = (part.strip() for part in formula.split("|"))
    names = split_effects(effects)
    if not all(names):
        raise RequestError(f'{verb}: nothing follows "|" in {shown(formula)}')
    first, *others = names
    ticks = first[:1] == first[-1:] == "`" and len(first) > 1
    first = first[1:-1] if ticks else first
    spells = [first] if ticks or first == unit else first.split("^")
    if unit is None:
        raise RequestError(
            f"{verb} removes person fixed effects, so it protects people with all rows. Add "
            f'unit="{spells[0]}"'
        )
    if not isinstance(unit, str):
        raise RequestError(
            f'{verb}: unit= is the name of a column, as in unit="{spells[0]}"; got {shown(unit)}'
        )
    if unit == f"`{first}`":
        raise RequestError(
            f'{verb}: unit= must be the name of the column without back-ticks: unit="{first}"'
        )
    if unit not in spells:
        person, other = written_name(unit), names[0]
        raise RequestError(
            f"{verb}: the first effect is {first!r} and the unit is {unit!r}. Only effects of the "
            f'unit can be removed within its rows: "{model} | {person} + {other}" makes {other} a '
            f'factor (declare its levels), or unit="{first}" protects it as a whole'
        )
    if first != unit:
        raise RequestError(
            f"{verb}: effects of spells within a person ({first}) are not offered: write "
            f'"| {written_name(unit)}", or make the spell a separate column and the unit'
        )
    if "~" not in model or not model.split("~")[1].strip() or model.split("~")[1].strip() == "1":
        raise RequestError(f"{verb} needs a predictor: y ~ x | {written_name(unit)}")
    # further effects are factors with declared levels; a call (a smooth of time) stays as it is
    terms = [f"C({name})" if is_one_name(name) else name for name in others]
    return " + ".join([model, *terms]), unit


def with_intercepts(verb: str, formula: str, unit: str | None, re: Any) -> tuple[str, str]:
    """Return the formula and the unit of ``re="id"``: random intercepts of the unit."""
    if verb != "dp_feols":
        raise RequestError(
            f"{verb} has no re=: use dp_feols for random intercepts. Effects of people (| id) "
            "need none"
        )
    if not isinstance(re, str):
        raise RequestError(f'{verb}: re= is the column of the unit, as in re="id"; got {shown(re)}')
    if not isinstance(formula, str) or "~" not in formula:
        raise RequestError(
            f'{verb} with re= needs a formula without "|", as in {verb}("y ~ x", data, unit="id", '
            f're="id"); got {shown(formula)}'
        )
    model = formula.split("|")[0].strip()
    if "|" in formula:
        raise RequestError(
            f"{verb}: an intercept of a person is a fixed effect (|) or random (re=), not both. "
            f'{verb}("{model}", data, unit="{re}", re="{re}") makes it random, '
            f'{verb}("{model} | {written_name(re)}", data, unit="{re}") removes it'
        )
    if unit is None:
        raise RequestError(
            f'{verb}: re= needs all rows of each person, so it protects people. Add unit="{re}"'
        )
    if re != unit:
        raise RequestError(
            f"{verb}: re={re!r} and the unit is {unit!r}. Random intercepts are of the unit: "
            f're="{unit}", or unit="{re}" protects {re} as a whole'
        )
    if not model.split("~")[1].strip() or model.split("~")[1].strip() == "1":
        raise RequestError(f'{verb} needs a predictor: {verb}("y ~ x", ..., re="{unit}")')
    return model, unit


def panel_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of ``"y ~ x | id + year"`` or of ``re="id"``."""
    unit_and_re = options.get("unit"), options.get("re")
    if unit_and_re[1] is not None:
        text, unit = with_intercepts("dp_feols", formula, *unit_and_re)
    else:
        text, unit = without_effects("dp.plan", formula, unit_and_re[0])
    return text, method, {**options, "unit": unit}, ()


def _fit(verb: str, formula: str, data: Any, *, unit: str | None, **arguments: Any) -> Fit:
    """Fit a panel model: people are the unit, and errors are clustered by person."""
    for name in ("vcov", "cluster"):  # of fixest and other packages
        if name in arguments["options"]:
            raise RequestError(
                f"{verb} cannot use {name}=: errors are always clustered by the unit. Drop {name}="
            )
    re = arguments["options"].get("re")
    if re is not None:
        text, unit = with_intercepts(verb, formula, unit, re)
    else:
        text, unit = without_effects(verb, formula, unit)
        if arguments["options"].pop("mundlak", True) is not True:
            raise RequestError(f'{verb}: mundlak= needs re=, for example re="{unit}"')
    fit = call(
        verb, text, data, method=None, default="scoring", unit=unit, typed=(formula, {}),
        **arguments,
    )  # fmt: skip
    return as_typed(fit, formula)


@like(dp_ols)
def dp_feols(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    unit: str | None = None,
    re: str | None = None,
    mundlak: bool = True,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Fit a linear model with effects of people with differential privacy (fixest's ``feols``).

    Parameters
    ----------
    formula : str
        ``"y ~ x | id"``, ``"y ~ x | id + year"``. The first effect is the unit: y and x are
        demeaned within each person. Further effects are factors and need declared levels. Each of
        their coefficients adds noise, so a smooth function of time, ``y ~ x + ns(year, 3) | id``,
        may be the better choice.
    unit : str
        The column of the first effect, which identifies the person. A person is protected with all
        rows.
    re : str, optional
        Random intercepts in place of effects, ``dp_feols("y ~ x", data, unit="id", re="id")``: the
        column of the unit. The variances of intercepts and errors are released first. The fit is
        then least squares, with the part of each person's means subtracted that these variances
        imply.
    mundlak : bool
        With ``re=``: means over a person's rows are predictors too, ``mean(x)``. Then x is the
        effect within people, even if the intercepts are correlated with predictors.
        ``fit.hausman()`` is the joint test of the means.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    **options
        ``units=, rows_per_unit=, subset=, level=, relation=, split=``.

    Returns
    -------
    Fit
        Coefficients within people, errors clustered by person. With ``re=`` the released variances
        ``fit.sigma_u2, sigma_e2, icc`` with errors ``sigma_u2_se, ...`` too.

    Notes
    -----
    With ``re=`` the target is the fit *at the released weights*: the noise of the variances makes
    errors larger, not coefficients wrong. It equals the fit at the population's variances if
    predictors are uncorrelated with the intercepts, or if their means are in the model (the
    default). Residuals are clipped before they are squared, so variances of heavy-tailed residuals
    are too small.

    The coefficient of a column that is constant within people is not determined. Whether a column
    is constant is private, so no column is dropped. People with one row add nothing.

    Privacy
    -------
    Unit: one person with all rows, for any number of rows. Neighbours: replace all rows of one
    person, the number of people public (or ``relation=``). Charged: (eps, delta), before noise is
    drawn. Public: formula, declared ranges and levels.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> who = np.repeat(np.arange(6000), 4)
    >>> x = rng.uniform(-1, 1, 24000)
    >>> y = rng.normal(size=6000)[who] + 0.5 * x + rng.normal(size=24000)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_feols("y ~ x | id", {"id": who, "x": x, "y": y}, unit="id", eps=1,
    ...                       delta=1e-6, bounds={"y": (-6, 6), "x": (-1, 1)}, seed=1)
    >>> bool(0.4 < fit.params["x"] < 0.6)
    True
    """
    if re is not None:
        options = {**options, "re": re}
    return _fit(
        "dp_feols", formula, data, unit=unit, schema=schema, eps=eps, delta=delta, bounds=bounds,
        budget=budget, seed=seed, progress=progress, options={**options, "mundlak": mundlak},
    )  # fmt: skip


@like(dp_feols)
def dp_fepois(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    unit: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Fit Poisson counts with effects of people with differential privacy (fixest's ``fepois``).

    Parameters
    ----------
    formula : str
        ``"visits ~ x | id"``, as in :func:`dp_feols`; counts are declared, for example
        ``bounds={"visits": (0, 50)}`` or ``dp.Count(50)``.
    unit, data, eps, delta, schema, bounds, budget, seed, progress, **options
        As in :func:`dp_feols`.

    Returns
    -------
    Fit
        Log rate ratios within people, errors clustered by person.

    Notes
    -----
    Given its total, a person's counts are multinomial over the person's rows: the conditional
    likelihood, which equals dummies for every person. People without events add nothing.

    Privacy
    -------
    As :func:`dp_feols`.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> who = np.repeat(np.arange(6000), 4)
    >>> x = rng.uniform(-1, 1, 24000)
    >>> y = rng.poisson(np.exp(0.5 * rng.normal(size=6000)[who] + 0.5 * x)) * 1.0
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_fepois("y ~ x | id", {"id": who, "x": x, "y": y}, unit="id", eps=2,
    ...                        delta=1e-6, schema={"y": dp.Count(20), "x": (-1, 1)}, seed=1)
    >>> bool(0.35 < fit.params["x"] < 0.65)
    True
    """
    return _fit(
        "dp_fepois", formula, data, unit=unit, schema=schema, eps=eps, delta=delta, bounds=bounds,
        budget=budget, seed=seed, progress=progress, options=options,
    )  # fmt: skip


# -- ``dp_polr``, ``dp_multinom``: regressions of ordered and of unordered categories.


_LINKS = ("logistic", "probit", "cloglog")


@like(dp_ols)
def dp_polr(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str = "logistic",
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit a proportional odds model with differential privacy (R's ``polr``, OrderedModel).

    Parameters
    ----------
    formula : str
        ``"health ~ age + income"``, the response declared ``dp.Ordered(["poor", "fair", "good"])``
        from the lowest level.
    data, eps, delta, schema, bounds, public, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    method : {"logistic", "probit", "cloglog"}
        Distribution of the latent response, as in R.
    **options
        ``subset=, level=, relation=, units=, split=``.

    Returns
    -------
    Fit
        Slopes, then thresholds ``low|mid``: ``P(y <= k) = F(threshold_k - x'b)``.
        ``fit.predict(new, what="probs")`` and ``what="class"``.

    Privacy
    -------
    Unit: one row, or one person (``unit=``). Neighbours: one unit is replaced, the number of units
    is public (or ``relation=``). Charged: (eps, delta), before noise is drawn. Public: formula,
    declared levels and ranges.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, 20000)
    >>> y = np.array(["low", "mid", "high"])[np.digitize(x + rng.logistic(size=20000), [-1, 1])]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_polr("y ~ x", {"x": x, "y": y}, eps=2, delta=1e-6, seed=1,
    ...                      schema={"y": dp.Ordered(["low", "mid", "high"]), "x": (-1, 1)})
    >>> bool(0.8 < fit.params["x"] < 1.2)
    True
    """
    link = options.pop("link", method)  # an update() hands the option over
    return call(
        "dp_polr", formula, data, eps=eps, delta=delta, method=None, default="scoring",
        schema=schema, bounds=bounds, public=public, budget=budget, seed=seed, progress=progress,
        unit=unit, link=_link(link, None), options=options,
    )  # fmt: skip


def _link(method: Any, link: Any) -> str:
    """Return the distribution of the latent response: ``method=``, or as an option ``link=``."""
    distribution = method or link or _LINKS[0]
    if distribution not in _LINKS:
        raise RequestError(
            f"method={shown(distribution)} is not one of {list(_LINKS)}: the distribution of the "
            "latent response, as in R's polr"
        )
    return str(distribution)


def choice_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of ``dp_polr``, whose ``method=`` is the link."""
    others = {k: v for k, v in options.items() if k != "link"}
    method = None if method == "scoring" else method  # dp.methods() calls it so
    return formula, None, {**others, "link": _link(method, options.get("link"))}, ()


@like(dp_ols, dp_polr)
def dp_multinom(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    base: Any = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit a multinomial logit model with differential privacy (R's ``multinom``, MNLogit).

    Parameters
    ----------
    formula : str
        ``"choice ~ price + age"``, the response with declared levels.
    base : level, optional
        The level that others are compared with: the first declared, as in R.
    data, eps, delta, schema, bounds, public, budget, seed, progress, unit
        As in :func:`dpmodels.dp_ols`.
    **options
        ``subset=, level=, relation=, units=, split=``.

    Returns
    -------
    Fit
        Log odds of each level against the base, named ``level:column``.
        ``fit.predict(new, what="probs")`` and ``what="class"``.

    Privacy
    -------
    As :func:`dpmodels.dp_polr`.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, 20000)
    >>> odds = np.exp(np.stack([0 * x, 0.2 + x, -0.3 - 0.5 * x]))
    >>> draw = rng.uniform(size=20000) * odds.sum(axis=0)
    >>> y = np.array(["car", "bus", "foot"])[(draw > np.cumsum(odds, axis=0)[:2]).sum(axis=0)]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_multinom("y ~ x", {"x": x, "y": y}, eps=2, delta=1e-6, seed=1,
    ...                          schema={"y": dp.Levels(["car", "bus", "foot"]), "x": (-1, 1)})
    >>> bool(0.7 < fit.params["bus:x"] < 1.3)
    True
    """
    return call(
        "dp_multinom", formula, data, eps=eps, delta=delta, method=None, default="scoring",
        schema=with_base(schema, formula, base, data), bounds=bounds, public=public, budget=budget,
        seed=seed, progress=progress, unit=unit, options=options,
    )  # fmt: skip
