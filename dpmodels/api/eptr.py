"""``dp_eptr``: a user's own estimator made private by a test that the user proves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_eptr"]


def dp_eptr(
    estimator: Callable[..., Any],
    safety: Callable[..., Any],
    alpha: float | Callable[[float], float],
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float,
    method: str | None = None,
    size: int = 1,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Fit:
    """Release a user's estimator by efficient Propose-Test-Release.

    You supply an estimator T, a *safety lower bound* gamma >= 0 and a number alpha, with a proof
    that for tables X, X' of n rows that differ in one row

    (i) ``|gamma(X) - gamma(X')| <= 1``;
    (ii) ``gamma(X) > 0`` implies ``|T(X) - T(X')| <= alpha`` for every neighbour X'.

    ``dpmodels.check_safety`` searches for counterexamples on synthetic tables.

    Parameters
    ----------
    estimator : function
        (n, k) array -> vector of ``size``. If it raises or is not finite, T := 0.
    safety : function
        (n, k) array -> gamma (method "coin"), the distance to the unsafe tables (method "ptr"), or
        a statistic of sensitivity ``sensitivity=`` (method "bound"). Raising, NaN: 0.
    alpha : float or function
        The bound of (ii); for method "bound" a decreasing function h(l) that bounds the change of
        T whenever l is at most the larger of the two statistics.
    formula : str
        The columns handed to the functions: ``"x1 + x2 ~ 1"``. Declared ranges are enforced first;
        a row with a missing cell is a row of zeros.
    data, eps, delta, schema, bounds, budget, seed
        As in :func:`dpmodels.dp_ols`. Ranges are not bought here.
    method : {"coin", "ptr", "bound"}
    size : int
        Length of the estimate.
    names : sequence of str, optional
        Names of its entries.
    **options
        ``test_share=`` (share of eps for the test), ``coin=`` ("integer", "sharp", "logistic"),
        ``sensitivity=``, and the common ones.

    Returns
    -------
    Fit
        ``params``: the noisy estimate, or NaN after a no-reply.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. (eps, delta), **if (i) and (ii) hold** -
    also where T is replaced by 0, so gamma must be 0 there. Charged before noise is drawn.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dpmodels as dp
    >>> def mean(x):
    ...     return [x.mean()]
    >>> def always_safe(x):  # a clipped mean is safe everywhere: any constant is 1-Lipschitz
    ...     return 1e6
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_eptr(mean, always_safe, 52 / 20190, "mdvis ~ 1", dp.datasets.rand_hie(),
    ...                      eps=1, delta=1e-6, bounds={"mdvis": (0, 52)}, seed=1)
    >>> round(float(fit.params.iloc[0]), 1)
    2.9
    """
    if names is not None and len(names) != size:
        raise RequestError(f"names= has {len(names)} entries, size={size}")
    functions = {"estimator": estimator, "safety": safety, "alpha": alpha, "size": size}
    return fit_formula(
        "dp_eptr",
        formula,
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default="coin",
        schema=schema,
        bounds=bounds,
        seed=seed,
        options={**functions, "names": None if names is None else tuple(names), **options},
    )
