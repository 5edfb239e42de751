"""``dp_test``: tests with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.building import check_first
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_test", "plan_arguments", "test_arguments"]


def test_arguments(formula: Any, test: Any) -> tuple[str, str]:
    """Return the formula of a test and its method: a paired test is one of a difference."""
    from dpmodels.models.table.hypotheses import check_name

    check_first(formula)
    check_name(test)
    if callable(test):
        text = str(formula)
        return text if "~" in text else f"~ {text}", "subsample"
    if test == "paired":
        left, tilde, right = (part.strip() for part in str(formula).partition("~"))
        if not (left and tilde and right) or right == "1":
            raise RequestError(
                f'test="paired" takes two measurements, as in "after ~ before"; got "{formula}"'
            )
        return f"I(({left}) - ({right})) ~ 1", "score"
    return str(formula), "score"


def plan_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of a test goes by."""
    text, by_test = test_arguments(formula, options.get("test"))
    return text, method or by_test, options, ()


test_arguments.__test__ = False  # type: ignore[attr-defined]


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
        ``"~ smoker * region"`` (independence of what is crossed, as in a table), ``"~ wage * age"``
        (correlation of two numbers); ``+`` says the same.
    data, eps, delta, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    test : str or function, optional
        "t", "welch", "anova", "paired", "proportion", "chi2", "correlation"; default: what the
        variables call for. A function ``f(table) -> p-value`` is run in random parts of the rows,
        and the number of its rejections is tested (``delta=0`` will do).
    mu0 : float, optional
        Hypothesis of one mean; default 0.
    p : float, list or mapping, optional
        Hypothesis of the shares of one category; default: equal. A number is the share of the
        second of two levels.
    **options
        ``level=`` (one minus the level of the test, in plans), ``subset=``; ``unit="person_id"``:
        each person counts once, by the mean of own rows (no correlations); of a function
        ``parts=``, ``a0=``. For ``dp.plan(..., verb="dp_test")``: ``effect=``, ``sd=``,
        ``shares=``, from which it tells the power.

    Returns
    -------
    Fit
        ``fit.stats["p_value"]``, ``fit.summary()``, ``fit.tidy()``.

    Notes
    -----
    "t" does not pool variances. The noise is in the variance of every statistic, so the level is
    kept at any eps; what noise costs is power.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: replace one, their number
    public. Charged: (eps, delta), before noise is drawn. Group sizes and missing cells are private.

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
    text, method = test_arguments(formula, test)
    if method == "subsample":
        given = {"mu0": mu0, "p": p}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise RequestError(f"{extra[0]}= belongs to the tests by name; a function has its own")
        chosen = {"test": test, **options}
    else:
        chosen = {"test": test, "mu0": mu0, "p": p, **options}
    return fit_formula(
        "dp_test",
        text,
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default=method,
        schema=schema,
        bounds=bounds,
        seed=seed,
        progress=progress,
        options=chosen,
    )


dp_test.__test__ = False  # type: ignore[attr-defined]
