"""``dp_table``: counts, means by group, quantiles, histograms with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.api.building import check_first
from dpmodels.api.fitting import fit_formula
from dpmodels.api.on_release import REQUIRED
from dpmodels.errors import RequestError, shown
from dpmodels.units.person import column_of

if TYPE_CHECKING:
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_table", "is_moments", "table_arguments", "table_from_moments", "with_groups"]


def is_moments(data: Any) -> bool:
    """Whether ``data`` is a fit of ``dp_moments``."""
    return getattr(data, "model", None) == "dp_moments" and hasattr(data, "_record")


def table_from_moments(formula: str, fit: Any, asked: list[str]) -> Fit:
    """Return a table that is read off released moments.

    Privacy
    -------
    Post-processing: reads no row, charges nothing. The table states the guarantee of the moments.
    """
    from dpmodels.api.building import build_request
    from dpmodels.models.table.from_moments import Moments, table_of
    from dpmodels.planning import Plan
    from dpmodels.registry import Method
    from dpmodels.release import Release
    from dpmodels.results import Fit

    if asked:
        raise RequestError(
            f"{', '.join(asked)} must not be given with moments: they were paid for when they were "
            "released, and hold counts and means"
        )
    if column_of(fit.privacy.unit) is not None:
        raise RequestError("a table is read off moments of rows, and these are of people")
    if fit.method != "joint" or fit.nobs is None or not fit.released:
        raise RequestError(
            "a table can be read off dp_moments(method='joint') with a public number of rows: "
            "there rows are counted and not weighted"
        )
    record = fit._record
    call = build_request(
        "dp_table", formula, eps=fit.privacy.eps, delta=fit.privacy.delta, method="joint",
        kinds=dict.fromkeys(record.design.schema, "numeric"), attached=record.design.schema,
        schema=None, bounds=None, public=None, inference=True, seed=None, progress=None, options={},
    )  # fmt: skip
    method = Method(
        "moments", "dp_table", "From released moments", "", privacy_se="released", options=()
    )
    request = replace(call.request, method=method, level=fit.level)
    moments = Moments(
        record.design, record.estimate.arrays["moments"], record.estimate.vcov_privacy, fit.nobs
    )
    estimate = table_of(call.design, moments, fit.level)
    plan: Plan[None] = Plan(request, call.design, fit.nobs, fit.privacy.steps, fit.privacy)
    return Fit(plan, Release({}, fit.privacy, call.design), estimate)


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


def table_arguments(
    formula: Any, method: str | None, options: dict[str, Any], inference: bool, delta: Any
) -> tuple[str, str | None, dict[str, Any], tuple[str, ...]]:
    """Return what a plan of a table goes by: ``by=`` is a part of the formula."""
    rest = {k: v for k, v in options.items() if k != "by"}
    return with_groups(formula, options.get("by")), method, rest, ()


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
        As in :func:`dpmodels.dp_ols`. Or moments that ``dp_moments`` released (with dummies of the
        groups): counts, crosses of two and means by one group, at no further cost.
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
        ``unit="person_id"``: the column that says whose row it is (with ``units=`` and ``sort=`` as
        in :func:`dpmodels.dp_ols`). Each person then counts once, in every cell by the share of own
        rows; with ``max_rows=m`` rows are counted, at most m of each person, at m times the loss.
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
    Unit: one row, or one person with all rows (``unit=``). Neighbours: replace one, their number
    public. Charged: (eps, delta), before noise is drawn. Which cells are empty is never shown: all
    declared cells are released, with noise.

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
    text = with_groups(formula, by)
    if is_moments(data):
        given = {"quantiles": quantiles, "histogram": histogram, "budget": budget, "seed": seed,
                 "schema": schema, "bounds": bounds, "method": method}  # fmt: skip
        asked = [name for name, value in given.items() if value is not None] + list(options)
        asked += [k for k, v in (("eps", eps), ("delta", delta)) if v is not REQUIRED]
        return table_from_moments(text, data, asked)
    return fit_formula(
        "dp_table",
        text,
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
