"""``dp_gptr``: a user's mechanism with a data-dependent privacy loss, made private by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.api.fitting import fit_formula
from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_gptr"]


def dp_gptr(
    mechanism: Callable[..., Any],
    privacy_loss: Callable[..., Any],
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float,
    sensitivity: float,
    test: str = "propose",
    size: int = 1,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Fit:
    """Release a user's mechanism whose privacy loss depends on the data.

    Parameters
    ----------
    mechanism : function
        ``mechanism(Z, noise)`` (test="propose") or ``mechanism(Z, phi, noise)`` (test="choose")
        -> vector of ``size``. ``noise.normals(k)``, ``noise.uniforms(k)`` draw.
    privacy_loss : function
        "propose": ``eps(Z)``, such that at Z, against every neighbour, the mechanism is
        (eps(Z), delta_m)-DP, delta_m = 0.9 of the add/remove delta. "choose": a statistic.
    formula : str
        The columns handed to the functions as an (n, k) array: ``"x1 + x2 ~ 1"``. Declared ranges
        are enforced first; a row with a missing cell is a row of zeros.
    eps, delta, data, schema, bounds, budget, seed
        As in :func:`dpmodels.dp_ols`. Ranges are not bought here.
    sensitivity : float
        Bound on the change of ``privacy_loss`` between neighbours.
    test : {"propose", "choose"}
        Algorithm 2 (may not reply) or Algorithm 5 (always replies; needs ``choose=``).
    size : int
        Length of the output.
    names : sequence of str, optional
    **options
        ``choose=`` (function (bound, eps, delta) -> phi), ``test_share=``, ``proof=``
        ("add-remove", the default, or "replace": the relation of the user's proofs).

    Returns
    -------
    Fit

    Privacy
    -------
    Unit: one row; replace-one, n public (or ``relation="add-remove"``). (eps, delta), **if** the
    sensitivity and the privacy loss are right. Validity is needed at the data set at hand only.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> def noisy_mean(Z, noise):  # sd 1/10: eps(Z) is a constant here
    ...     return [Z.mean() + 0.1 * noise.normals(1)[0]]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_gptr(noisy_mean, lambda Z: 0.1, "mdvis ~ 1", dp.datasets.rand_hie(),
    ...         eps=4, delta=1e-6, sensitivity=1e-3, bounds={"mdvis": (0, 50)}, seed=1)
    >>> bool(abs(fit.params.iloc[0] - 2.86) < 0.5)
    True
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RequestError(
            f"size= is the length of the output, for example size=1; got {shown(size)}"
        )
    if names is not None and len(names) != size:
        raise RequestError(f"names= has {len(names)} entries, size={size}")
    return fit_formula(
        "dp_gptr",
        formula,
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=test,
        default=test,
        schema=schema,
        bounds=bounds,
        inference=False,
        seed=seed,
        options={
            "mechanism": mechanism,
            "privacy_loss": privacy_loss,
            "sensitivity": sensitivity,
            "size": size,
            "names": None if names is None else tuple(names),
            **options,
        },
    )
