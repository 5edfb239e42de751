"""``dp_table``: counts, means by group, quantiles, histograms with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels.api.building import check_first
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_table", "with_groups"]


def with_groups(formula: Any, by: Any) -> str:
    """Return ``"~ a + b"`` with groups ``by`` as the two-sided ``"a + b ~ by"``."""
    check_first(formula)
    if by is None:
        return str(formula)
    names = [by] if isinstance(by, str) else [*by] if isinstance(by, (list, tuple)) else []
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise RequestError(
            f'by= takes the name of a variable, as in by="region", or a list; got {shown(by)}'
        )
    left, tilde, right = str(formula).partition("~")
    if tilde and left.strip():
        raise RequestError(
            f'"{formula}" has its groups on the right of "~" already: leave by= out, or write '
            f'"~ {left.strip()}"'
        )
    return f"{(right if tilde else left).strip()} ~ {':'.join(names)}"


def dp_table(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    by: str | list[str] | None = None,
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
    data : table
        As in :func:`dpmodels.dp_ols`.
    eps, delta : float
        The guarantee of the whole call; ``delta=0`` gives pure differential privacy.
    by : str or list of str, optional
        Groups: ``dp_table("~ age + gender", by="treatment")``, a "table 1".
    quantiles : list of float, optional
        Of every number, in every group; they take half of eps. :func:`dpmodels.dp_quantile` has
        intervals too.
    histogram : int, optional
        Number of equal bins over the declared range of every number.
    schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_ols`. Categories need declared levels; ranges can be bought.
    **options
        ``noise="auto"`` (the narrower at this guarantee), ``suppress=10`` (blank what rests on a
        *released* count below 10), ``bounds_share=``, ``subset=``, ``level=``.

    Returns
    -------
    Fit
        ``print(fit.summary())``, ``fit.tidy()``, ``fit.crosstab()``, ``fit.plot()``.

    Notes
    -----
    Every axis has a cell ``(missing)``: missing and undeclared cells, and rows that ``subset=``
    leaves out. So a table adds up to n, which is public, and all margins agree.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. Charged: (eps, delta), before noise is
    drawn. Which cells are empty is never shown: all declared cells are released, with noise.

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
    return fit_formula(
        "dp_table",
        with_groups(formula, by),
        data,
        budget=budget,
        eps=eps,
        delta=delta,
        method=method,
        default="joint",
        schema=schema,
        bounds=bounds,
        seed=seed,
        progress=progress,
        options={"quantiles": quantiles, "histogram": histogram, **options},
    )
