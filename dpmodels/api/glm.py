"""``dp_glm``: generalised linear models with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.choice import choose_method
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError
from dpmodels.families import family_of, link_of

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_glm", "glm_arguments"]


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
    data, eps, delta, schema, bounds, public, inference, budget, seed, progress
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
    unit : str, optional
        Column that says whose row it is: the guarantee then protects a *person* with all rows,
        whatever their number. ``units=`` declares how many people there are (else the ids are
        counted, a public number); ``rows_per_unit=`` is a public guess of the rows of one;
        ``sort="duckdb"`` puts rows that memory does not hold in the order of people on disk. None:
        a row is its own unit.
    **options
        Options of the method (``dp.methods("scoring")``), and ``split, level, relation, na,
        on_no_reply, engine, subset, weights, n, units,
        rows_per_unit, sort``. ``weights="w"``: a declared column that
        multiplies a row's share of the likelihood. On a noised table ``theta=(0, 2)``, or
        a dict of coefficient -> ends, keeps the coefficients inside ends that are known.

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
    return fit_formula(
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


def glm_arguments(
    formula: Any,
    *,
    family: Any,
    event: Any = None,
    link: Any = None,
    offset: Any = None,
    exposure: Any = None,
    **options: Any,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return (formula, options, design options) of a call: for a fit and for its plan."""
    chosen = family_of(family)
    named = link_of(chosen, link, family)
    if event is not None and not chosen.is_event:
        raise RequestError("event= names the level of a binomial response")
    if exposure is not None and named.name != "log":
        raise RequestError(
            "exposure= multiplies the mean of a log link; for another link give offset="
        )
    for name, text in (("offset", offset), ("exposure", exposure)):
        if text is None:
            continue
        if not isinstance(text, str):
            raise RequestError(
                f"{name}= takes a text, for example {name}='months': it is read row by row with "
                f"the data; got {type(text).__name__}"
            )
        inner = f"log({text})" if name == "exposure" else text
        formula = f"{formula} + offset({inner})"
    design: dict[str, Any] = {"response_ok": chosen.response}
    if event is not None:
        design["event"] = event
    return formula, {**options, "family": chosen.name, "link": named.name}, design
