"""``dp_glm``: generalised linear models with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError, shown
from dpmodels.families import Family, family_of

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
    family: str = "binomial",
    method: str | None = None,
    event: Any = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    inference: bool = True,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Fit a logistic (or Poisson) regression with differential privacy.

    Parameters
    ----------
    formula : str
        R-style. A binomial response is declared: ``Binary()``, two ``Levels``, or a comparison
        such as ``"I(income > 50) ~ age"``.
    data, eps, delta, schema, bounds, public, inference, budget, seed, progress
        As in :func:`dpmodels.dp_ols`.
    family : {"binomial", "poisson", "geometric"}
        "logistic" and "logit" are read as "binomial". "geometric": counts with mean e^eta by the
        geometric quasi-likelihood, on noised tables (``method="drcl"`` and its kin).
    method : str, optional
        Default "objpert" (objective perturbation), the most accurate wherever it was compared.
        See ``dp.methods()``.
    event : level, optional
        The level of the response whose probability is modelled; default: the second declared.
        A response that is a plain number needs it, or a declaration: ``event=1`` models
        P(y = 1), and every other number is "no event".
    **options
        Options of the method (``dp.methods("objpert")``), and ``split, level, relation, na,
        on_no_reply, engine, subset, n``.

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
    Unit: one row. Neighbours: replace one row, n public (or ``relation="add-remove"``). Charged:
    (eps, delta), before noise is drawn. Public: the formula, schema, column names and dtypes, n,
    the method and its options.

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
    default, options, design_options = glm_arguments(family, event, options)
    return fit_formula(
        "dp_glm",
        formula,
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default=default,
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
    family: Any, event: Any, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return (default method, options, design options) of a call: for a fit and for its plan."""
    from dpmodels.registry import method_names

    chosen = family_of(family)
    link = options.get("link")
    if link not in (None, chosen.link):
        raise RequestError(
            f"family={chosen.name!r} has link={chosen.link!r}, got link={shown(link)}"
        )
    return (
        chosen.default_method or method_names("dp_glm")[0],
        {**options, "family": chosen.name, "link": chosen.link},
        _design_options(chosen, event),
    )


def _design_options(family: Family, event: Any) -> dict[str, Any]:
    if event is not None and not family.is_event:
        raise RequestError("event= names the level of a binomial response")
    out: dict[str, Any] = {"response_ok": family.response}
    return {**out, "event": event} if event is not None else out
