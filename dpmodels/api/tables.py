"""``dp_table``, ``dp_quantile``, ``dp_test``: tables, quantiles and tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmodels.api.call import call
from dpmodels.api.regressions import dp_ols
from dpmodels.api.releases import REQUIRED, given_names, request_of_other_verb
from dpmodels.api.requests import Choice, check_first
from dpmodels.errors import RequestError, shown
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import one_name
from dpmodels.models.table.table import Moments, table_of
from dpmodels.planning import Plan
from dpmodels.records import Release
from dpmodels.results.fit import Fit
from dpmodels.units import column_of
from dpmodels.verbs import like


def table_from_moments(formula: str, fit: Any, surplus: list[str]) -> Fit:
    """Return a table that is read off released moments, whose guarantee it states: no charge."""
    if surplus:
        raise RequestError(
            f"{', '.join(surplus)} must not be given with moments: they were charged when they "
            "were released, and hold counts and means"
        )
    if column_of(fit.privacy.unit) is not None:
        raise RequestError("a table needs moments of rows, and these are moments of people")
    if fit.method != "joint" or fit.nobs is None or not fit.released:
        raise RequestError(
            "a table can be read off dp_moments(method='joint') with a public number of rows: "
            "there rows are counted and not weighted"
        )
    record = fit._record
    call = request_of_other_verb(
        fit, "dp_table", formula, "joint", {}, name="moments", title="From released moments",
        privacy_se="released", options=(),
    )  # fmt: skip
    moments = Moments(
        record.design, record.estimate.arrays["moments"], record.estimate.vcov_privacy, fit.nobs
    )
    estimate = table_of(call.design, moments, fit.level)
    plan: Plan[None] = Plan(call.request, call.design, fit.nobs, fit.privacy.steps, fit.privacy)
    return Fit(plan, Release({}, fit.privacy, call.design), estimate)


def with_groups(formula: Any, by: Any) -> str:
    """Return ``"~ a + b"`` with groups ``by`` as the two-sided ``"a + b ~ by"``."""
    formula = check_first(formula)
    if by is None:
        return str(formula)
    names = [by] if isinstance(by, str) else [*by] if isinstance(by, (list, tuple)) else []
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise RequestError(
            f'by= must be the name of a variable, as in by="region", or a list; got {shown(by)}'
        )
    left, tilde, right = str(formula).partition("~")
    if tilde and left.strip():
        raise RequestError(
            f'"{formula}" has its groups on the right of "~" already: leave by= out, or write '
            f'"~ {left.strip()}"'
        )
    return f"{(right if tilde else left).strip()} ~ {':'.join(map(one_name, names))}"


def table_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of a table: ``by=`` is a part of the formula."""
    others = {k: v for k, v in options.items() if k != "by"}
    return with_groups(formula, options.get("by")), method, others, ()


@like(dp_ols)
def dp_table(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    by: str | list[str] | None = None,
    medians: Any = None,
    quantiles: Any = None,
    histogram: int | None = None,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release a table with differential privacy.

    Parameters
    ----------
    formula : str
        ``"~ region"``: counts and shares. ``"~ region * gender"``: a crosstab with margins, made
        consistent. ``"wage ~ region"``: n, mean and standard deviation by group.
        ``"~ age + gender + region"``: all of it at once, one release.
    data
        As in :func:`dpmodels.dp_ols`. Or moments that ``dp_moments`` released (with dummies of the
        groups): counts, crosses of two and means by one group, at no further cost.
    eps, delta : float
        The guarantee of the whole call; ``delta=0`` gives pure differential privacy.
    by : str or list of str, optional
        Groups: ``dp_table("~ age + gender", by="treatment")``, a "table 1": one row per variable
        (with its ``label=``), one column per group and one for all. A list: groups of several
        variables. Variables that make the groups are left out of the rows, also of ``"~ ."``.
    medians : str or list of str, optional
        Numeric variables that the table shows by median [quartiles] instead of mean (SD),
        ``medians="bmi"``; True: all. Half of eps is spent on their quartiles.
    quantiles : list of float, optional
        Quantiles of every numeric variable, in every group. Half of eps is spent on them.
        :func:`dpmodels.dp_quantile` has intervals too.
    histogram : int, optional
        Number of equal bins over the declared range of every numeric variable.
    method, budget, seed, progress, schema, bounds
        As in :func:`dpmodels.dp_ols`. Categories need declared levels; ranges can be estimated.
    **options
        ``unit="person_id"``: the column that identifies the person (with ``units=`` and ``sort=``
        as in :func:`dpmodels.dp_ols`). Each person then counts once, in every cell by the share of
        their rows; with ``max_rows=m`` rows are counted, at most m of each person, and the noise is
        that for m changed rows. ``noise="auto"`` (the narrower at this guarantee), ``suppress=10``
        (blank values that are based on a *released* count below 10), ``errors=False`` (a
        table 1 without the noise of each number), ``smd=True`` (standardised differences of
        groups), ``p_values=True`` (P of equal groups, not of medians): these three cost nothing,
        and ``fit.summary(smd=True)`` has them too. ``bounds_share=``, ``subset=``, ``level=``.
        ``weights="w"``, a column with a declared range from 0: totals, shares and means of the
        population. ``design=dp.Survey(weights="w", strata="region", psu="village", psus=400)``: the
        same with errors by village, at most 60 cells and means at once.

    Returns
    -------
    Fit
        ``print(fit.summary())``, ``fit.tidy()``, ``fit.crosstab()``, ``fit.plot()``.

    Notes
    -----
    Every axis has a cell ``(missing)`` for missing and undeclared cells. So a table adds up to n,
    which is public, and all margins agree. With ``subset=`` the other rows are in no cell: a table
    adds up to the number of rows in the subset, which is released with noise, and shares are of
    these.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. Which cells are empty
    is never shown: all declared cells are released, with noise.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_table("~ C(physlm > 0)", dp.datasets.rand_hie(), eps=1, delta=0,
    ...                       bounds={"physlm": (0, 1)}, seed=1)
    >>> fit.tidy()[["level", "estimate"]].round(0).values.tolist()[-1]
    ['(missing)', 4.0]
    """
    typed, formula = (formula, {"by": by}), with_groups(formula, by)
    if getattr(data, "model", None) == "dp_moments" and hasattr(data, "_record"):
        surplus = given_names(
            medians=medians, quantiles=quantiles, histogram=histogram, budget=budget, seed=seed,
            schema=schema, bounds=bounds, method=method,
        )  # fmt: skip
        surplus += [*options, *given_names(eps=eps, delta=delta)]
        return table_from_moments(formula, data, surplus)
    return call(
        "dp_table", typed=typed, default="joint", formula=formula, data=data, eps=eps, delta=delta,
        medians=medians, quantiles=quantiles, histogram=histogram, method=method, schema=schema,
        bounds=bounds, budget=budget, seed=seed, progress=progress, options=options,
    )  # fmt: skip


#: More quantiles than this come from a tree: it has all of them for one charge.
_MANY = 10


def quantile_formula(formula: Any) -> str:
    """Return ``"wage"`` and ``"wage ~ 1"`` as the formulas ``"~ wage"`` and ``"wage ~ 1"``."""
    formula = check_first(formula)
    return str(formula) if "~" in formula else f"~ {formula}"


def quantile_method(q: Any, inference: bool, delta: Any) -> tuple[str, tuple[str, ...]]:
    """Return the method by a public rule, and the reason."""
    many = hasattr(q, "__len__") and len(q) > _MANY
    if isinstance(delta, (int, float)) and delta == 0:
        return "em", ("method: em, because delta = 0 allows no Gaussian noise",)
    if many:
        return "tree", (f"method: tree, because more than {_MANY} quantiles cost one tree",)
    if inference:
        return "tree", ("method: tree, because inference=True needs intervals",)
    return "em", ("method: em, the most accurate for few points without intervals",)


def quantile_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of quantiles, with the method that the rule chooses."""
    options = {"q": 0.5, **options}
    reasons: tuple[str, ...] = ()
    for word in ("tau", "quantiles", "probs"):  # of dp_quantreg, of dp_table, of R
        if word in options:
            options["q"] = options.pop(word)
    chosen: tuple[str, tuple[str, ...]] = quantile_method(options["q"], inference, delta)
    method, reasons = (method, reasons) if method is not None else chosen
    return quantile_formula(formula), method, options, reasons


@like(dp_ols)
def dp_quantile(
    formula: str,
    data: Any,
    *,
    q: Any = 0.5,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    inference: bool = True,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release quantiles with differential privacy.

    Parameters
    ----------
    formula : str
        ``"wage"``, ``"~ wage + age"`` or ``"wage ~ 1"``: numbers or row-wise expressions.
    data, schema, bounds, budget, seed, progress, eps, delta
        As in :func:`dpmodels.dp_ols`. "em" allows ``delta=0``.
    q : float or list of float
        Also called ``tau=``, ``quantiles=`` and ``probs=``.
    method : {"em", "tree"}, optional
        "em": the exponential mechanism, one draw a quantile. "tree": a noisy tree of counts, which
        has every quantile, with intervals. None: "tree" for intervals or more than 10 quantiles,
        else "em".
    inference : bool
        Whether intervals are wanted. ``inference=False`` gives the most accurate points.
    **options
        ``points=``: most points of the public grid, multiples of 1, 2 or 5 times a power of ten
        inside the range (65 536 for "em", 4096 to 65 536 by n for "tree"); ``subset=``, ``level=``;
        ``unit="person_id"``: each person counts once, by the shares of their rows. ``weights="w"``
        or ``design=dp.Survey(weights=, strata=, psu=)`` ("tree"): quantiles of the population, with
        intervals by Woodruff.

    Returns
    -------
    Fit
        ``params`` are the quantiles, ``conf_int()`` their intervals.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. How many values are
    missing is private.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_quantile("mdvis", dp.datasets.rand_hie(), q=[0.5, 0.9], eps=1, delta=0,
    ...                          bounds={"mdvis": (0, 100)}, inference=False, seed=1)
    >>> fit.params.to_dict()
    {'q0.5(mdvis)': 1.0, 'q0.9(mdvis)': 7.0}
    """
    typed: tuple[Any, dict[str, Any]] = (formula, {})
    formula, chosen, options, reasons = quantile_arguments(
        formula, method, {"q": q, **options}, inference, delta
    )
    default = method or (lambda: Choice(str(chosen), reasons))
    return call(
        "dp_quantile", formula=formula, data=data, typed=typed, eps=eps, delta=delta, method=method,
        schema=schema, bounds=bounds, inference=inference, budget=budget, seed=seed,
        progress=progress, options=options, default=default,
    )  # fmt: skip


def test_arguments(formula: Any, test: Any) -> tuple[str, str]:
    """Return the formula of a test and its method: a paired test is one of a difference."""
    from dpmodels.models.table.testing import check_name

    formula = check_first(formula)
    check_name(test)
    if callable(test):
        text = str(formula)
        return text if "~" in text else f"~ {text}", "subsample"
    if test == "paired":
        left, tilde, right = (part.strip() for part in str(formula).partition("~"))
        if not (left and tilde and right) or right == "1":
            raise RequestError(
                f'test="paired" needs two measurements, as in "after ~ before"; got "{formula}"'
            )
        return f"I(({left}) - ({right})) ~ 1", "score"
    return str(formula), "score"


def plan_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return the arguments for a plan of a test."""
    text, by_test = test_arguments(formula, options.get("test"))
    return text, method or by_test, options, ()


test_arguments.__test__ = False  # type: ignore[attr-defined]


@like(dp_ols)
def dp_test(
    formula: str,
    data: Any,
    *,
    test: Any = None,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    mu0: float | None = None,
    p: Any = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Test a hypothesis with differential privacy.

    Parameters
    ----------
    formula : str
        ``"wage ~ gender"`` (equal means), ``"change ~ 1"`` (one mean, against ``mu0=``),
        ``"after ~ before"`` with ``test="paired"``, ``"~ smoker"`` (shares, against ``p=``),
        ``"~ smoker * region"`` (independence of the crossed variables, as in a table), ``"~ wage *
        age"`` (correlation of two numeric variables). ``+`` has the same meaning.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    test : str or function, optional
        "t", "welch", "anova", "paired", "proportion", "chi2", "correlation"; default: the test that
        fits the types of the variables. A function ``f(table) -> p-value`` is run in random parts
        of the rows, and the number of its rejections is tested (``delta=0`` will do).
    mu0 : float, optional
        Null value of one mean; default 0.
    p : float, list or mapping, optional
        Null value of the shares of one category; default: equal shares. A single number is the
        share of the second of two levels.
    **options
        ``level=`` (one minus the level of the test, in plans), ``subset=``, ``look=`` (False: clip
        numbers to their declared ranges, do not find windows first); ``unit="person_id"``:
        each person counts once, by the mean of their rows (not for correlations). For a function
        ``parts=``, ``a0=``. For ``dp.plan(..., verb="dp_test")``: ``effect=``, ``sd=``,
        ``shares=``, from which the plan computes the power.

    Returns
    -------
    Fit
        ``fit.stats["p_value"]``, ``fit.summary()``, ``fit.tidy()``.

    Notes
    -----
    "t" does not pool variances. The variance of every statistic includes the noise, so the test has
    its level at any eps. Noise costs power.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. Group sizes and missing
    cells are private.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_test("mdvis ~ 1", dp.datasets.rand_hie(), mu0=3, eps=1, delta=1e-6,
    ...                      bounds={"mdvis": (0, 20)}, seed=1)
    >>> fit.stats["df"]
    1.0
    """
    typed: tuple[Any, dict[str, Any]] = (formula, {})
    formula, method = test_arguments(formula, test)
    options = {"test": test, **options}
    if method != "subsample":
        options |= {"mu0": mu0, "p": p}
    elif extra := given_names(mu0=mu0, p=p):
        raise RequestError(
            f"{extra[0]}= is for tests by name: a user-supplied function has its own hypothesis"
        )
    return call(
        "dp_test", formula, data, budget=budget, eps=eps, delta=delta, method=method,
        default=method, schema=schema, bounds=bounds, seed=seed, progress=progress, options=options,
        typed=typed,
    )  # fmt: skip


dp_test.__test__ = False  # type: ignore[attr-defined]
