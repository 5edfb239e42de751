"""``dp_iv``: two-stage least squares with differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.api.on_release import REQUIRED, require
from dpmodels.errors import FormulaError, RequestError
from dpmodels.formula.span import independent, public_points

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.results import Fit
    from dpmodels.schema import Schema

__all__ = ["dp_iv"]

#: Row weights depend on the response and on what is endogenous, and then the instruments of the
#: weighted rows are not quite exogenous: rows of a release that is made for a two-stage fit are
#: weighed down less than the rule of regressions has it, at more noise.
LIGHT = 1.0
_EXAMPLE = "'wage ~ school + age | distance + age'"


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
    data : table, or Fit
        As in :func:`dpmodels.dp_ols`; or a release of second moments,
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
        Errors hold the noise. ``stats["first_stage_F[x]"]`` is the F of the excluded instruments;
        ``arrays["anderson_rubin"]`` the intervals of the Anderson-Rubin set, which is right however
        weak they are (one endogenous regressor). Where the release weighs long rows down, both are
        of the rows so weighted: with long tails that can be another number, and
        ``method="joint"``, which weighs none down, is the safe choice.

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
    from dpmodels.api.building import check_level
    from dpmodels.api.multivariate import dp_moments
    from dpmodels.api.on_moments import holds_moments

    main, instruments = _parts(formula)
    check_level(level)
    if holds_moments(data):
        given = {"eps": eps, "delta": delta}
        refused = [k for k, v in given.items() if v is not REQUIRED]
        others = {"method": method, "schema": schema, "bounds": bounds, "public": public,
                  "budget": budget, "seed": seed}  # fmt: skip
        refused += [k for k, v in others.items() if v is not None] + list(options)
        if refused:
            raise RequestError(
                f"{', '.join(refused)} must not be given with a release of second moments: it was "
                f"paid for when it was made. Type dp_iv({formula!r}, m)"
            )
        return _on(data, formula, main, instruments, level)
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
    return _on(m, formula, main, instruments, level, paid=True)


def _parts(formula: Any) -> tuple[str, str]:
    """Return ``("y ~ x + w", "z + w")``."""
    from dpmodels.api.building import check_first

    check_first(formula)
    main, bar, instruments = formula.partition("|")
    if not bar or "|" in instruments or not instruments.strip() or "~" in instruments:
        raise FormulaError(
            f"{formula!r}: dp_iv takes regressors and all instruments, one bar between them, as in "
            f"{_EXAMPLE}"
        )
    if "~" not in main or not main.partition("~")[0].strip():
        raise FormulaError(f"{formula!r} has no response. For example {_EXAMPLE}")
    return main.strip(), instruments.strip()


def _check_first(data: Any, main: str, instruments: str, schema: Any, bounds: Any) -> None:
    """Refuse what is not identified, before anything is read or charged."""
    from dpmodels.formula import build_design, needed_variables
    from dpmodels.schema import declared_schema, schema_for
    from dpmodels.sources.adapt import as_source

    source = as_source(data)
    whole = f"{main} + {instruments}"
    needed = needed_variables(whole, source.kinds)
    declared = declared_schema(schema, source.schema_attr)
    full = schema_for(source.kinds, declared, bounds, needed, formula=whole, verb="dp_iv")
    _places(build_design(main, full), build_design(f"~ {instruments}", full, one_sided_ok=True))


def _places(design: Design, instruments: Design) -> tuple[list[int], list[int]]:
    """Return (endogenous columns of the design, instruments that are not in it), or refuse."""
    if not (design.has_intercept and instruments.has_intercept):
        raise RequestError("dp_iv takes models with an intercept: drop '0 +' or '- 1'")
    endogenous = [j for j, name in enumerate(design.names) if name not in instruments.names]
    excluded = [j for j, name in enumerate(instruments.names) if name not in design.names]
    if not endogenous:
        raise RequestError(
            "every regressor is among the instruments, so nothing is endogenous: dp_ols() fits it"
        )
    if len(excluded) < len(endogenous):
        said = ", ".join(design.names[j] for j in endogenous)
        raise RequestError(
            f"not identified: {len(endogenous)} endogenous regressor"
            f"{'s' if len(endogenous) > 1 else ''} ({said}) and {len(excluded)} excluded "
            f"instrument{'' if len(excluded) == 1 else 's'}. List exogenous regressors on both "
            f"sides of the bar, as in {_EXAMPLE}"
        )
    for one in (design, instruments):
        rows = public_points(one, 64 * (one.p + 1), (1.0, 2.0))
        X = dict(zip(one.names, np.asarray(one.matrix(rows), dtype=float).T, strict=True))
        del X["Intercept"]
        if lost := [name for name in X if name not in independent(X)]:
            raise RequestError(
                f"{lost[0]!r} is a linear function of the columns before it in every row, so the "
                "coefficients are not identified: leave it out"
            )
    return endogenous, excluded


def _on(
    m: Fit, formula: str, main: str, instruments: str, level: float, *, paid: bool = False
) -> Fit:
    """Return the fit on a release."""
    from dpmodels.api.on_moments import design_on, functionals_on, made
    from dpmodels.formula import build_design
    from dpmodels.models.moments.regression import Instruments
    from dpmodels.results.moments import moments_of

    if paid and not m._record.estimate.released:  # as every fit that was paid for
        design = build_design(main, m.design.schema, na=m.design.na)
        return made("dp_iv", formula, m, None, design, None, level=level, paid=True)
    facts = moments_of(m._record)
    design = design_on(main, m, "dp_iv")
    response = main.partition("~")[0].strip()
    beside = design_on(f"{response} ~ {instruments}", m, "dp_iv")
    one = build_design(f"~ {instruments}", m.design.schema, na=m.design.na, one_sided_ok=True)
    endogenous, excluded = _places(design, one)
    B = functionals_on(beside, m, facts)[:-1]
    rows = functionals_on(design, m, facts)
    given = Instruments(B, tuple(endogenous), tuple(excluded))
    title = "two-stage least squares on released second moments"
    return made(
        "dp_iv",
        formula,
        m,
        facts,
        design,
        rows,
        level=level,
        title=title,
        instruments=given,
        paid=paid,
    )
