"""``dp_survfit``, ``dp_survdiff``, ``dp_coxph``: curves by group, log-rank, hazards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmodels.api.call import call
from dpmodels.api.regressions import dp_ols
from dpmodels.api.releases import REQUIRED, given_names, request_of_other_verb
from dpmodels.errors import RequestError
from dpmodels.formula.schema import Schema
from dpmodels.formula.survival import with_cause
from dpmodels.models.survival.curve import check_tested, estimate_of, logrank
from dpmodels.models.survival.show import curves_from
from dpmodels.planning import Plan
from dpmodels.records import Release
from dpmodels.results.fit import Fit
from dpmodels.verbs import like


@like(dp_ols)
def dp_survfit(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    times: Any = None,
    breaks: Any = None,
    conf_type: str = "log-log",
    cause: Any = None,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Release Kaplan-Meier curves by group with differential privacy.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ 1"``, ``"Surv(time, event) ~ arm"``, ``"... ~ arm + strata(site)"``;
        ``"Surv(start, stop, event) ~ arm"`` for delayed entry. The event is 0 or 1, the second of
        two declared levels, or a comparison: ``Surv(time, status == "dead")``.
    data, eps, delta, method, budget, seed, progress, schema, bounds
        As in :func:`dpmodels.dp_ols`. Groups need declared levels, the time a declared range
        (``bounds={"time": (0, 60)}``) or ``times=``: its longest value is private.
    times : list of float, optional
        Public times at which survival is wanted; the ends of the intervals.
    breaks : int or list of float, optional
        Equal intervals of the declared range, about 16 by default; a list is ``times=``. More than
        32 are released as a binary tree.
    conf_type : {"log-log", "log", "plain"}
        Scale on which intervals are symmetric. R's default is "log"; "log-log" covers better.
    cause : level, optional
        For competing risks: the event has declared levels, the first of which is censored
        (``dp.Levels([0, 1, 2])``), and this is the one of interest, or "all" for each. The fit is
        then the cumulative incidence (Aalen and Johansen), and ``fit.rmst(24)`` the mean time lost.
    **options
        ``unit="person_id"``: each person counts once, by the share of their rows. With
        ``Surv(start, stop, event)`` a person counts by all their episodes, of which up to
        ``max_episodes=k`` count in full (1 by default; the noise grows with the root of k).
        ``subset=``, ``level=``.

    Returns
    -------
    Fit
        ``fit.summary()``, ``fit.tidy()``, ``fit.plot()``, ``fit.quantile(0.5)``, ``fit.rmst(24)``,
        ``fit.at([12])``, ``fit.difference([12])``, ``fit.risk_table()``, ``fit.survdiff()``: all
        of one release.

    Notes
    -----
    Events are counted in (a, b]; who is censored at a break is at risk up to it, within by half.
    Who is followed to the last break is at risk throughout. A row with a missing or negative time,
    another event code, or ``start >= stop`` counts as nothing, silently.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. Numbers at risk, events
    and how many rows make no sense are private, and released with noise.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> dies, leaves = rng.exponential(10, 5000), rng.uniform(4, 20, 5000)
    >>> table = {"time": np.minimum(dies, leaves), "dead": dies <= leaves}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_survfit("Surv(time, dead) ~ 1", table, eps=1, delta=1e-6,
    ...                         bounds={"time": (0, 12)}, seed=1)
    >>> bool(fit.quantile(0.5)["estimate"].between(6, 8).all())
    True
    """
    return call(
        "dp_survfit", default="table", formula=formula, data=data, eps=eps, delta=delta,
        times=times, breaks=breaks, conf_type=conf_type, cause=cause, method=method, schema=schema,
        bounds=bounds, budget=budget, seed=seed, progress=progress, options=options,
    )  # fmt: skip


@like(dp_survfit)
def dp_survdiff(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    times: Any = None,
    breaks: Any = None,
    cause: Any = None,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Fit:
    """Test whether survival differs between groups with differential privacy: log-rank.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ arm"``, ``"Surv(time, event) ~ arm + strata(site)"``.
    data
        As in :func:`dpmodels.dp_survfit`. Or a curve that ``dp_survfit`` released: the test of its
        groups, at no further cost, which is also ``fit.survdiff()``.
    eps, delta, times, breaks, method, schema, bounds, budget, seed, progress
        As in :func:`dpmodels.dp_survfit`.
    cause : level, optional
        As in :func:`dpmodels.dp_survfit`: hazards of one cause are compared.
    **options
        As in :func:`dpmodels.dp_survfit`.

    Returns
    -------
    Fit
        ``fit.pvalue``, ``fit.statistic``, ``fit.summary()``, ``fit.tidy()``.

    Notes
    -----
    The exact variance of the noise of observed less expected events is added to the variance of
    the test, so that its level is kept.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn; of a released curve
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> arm = rng.choice(["a", "b"], 5000)
    >>> dies = rng.exponential(np.where(arm == "a", 10.0, 14.0))
    >>> table = {"time": np.minimum(dies, 15.0), "dead": dies <= 15.0, "arm": arm}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_survdiff("Surv(time, dead) ~ arm", table, eps=1, delta=1e-6, seed=1,
    ...                          schema={"arm": dp.Levels(["a", "b"])}, bounds={"time": (0, 15)})
    >>> fit.pvalue < 0.001
    True
    """
    if getattr(data, "model", None) == "dp_survfit" and hasattr(data, "_record"):
        surplus = given_names(
            times=times, breaks=breaks, method=method, schema=schema, bounds=bounds, budget=budget,
            seed=seed,
        )  # fmt: skip
        surplus += [*options, *given_names(eps=eps, delta=delta)]
        if surplus:
            raise RequestError(
                f"{', '.join(surplus)} must not be given with a released curve: it was charged "
                "when it was released"
            )
        if (formula if cause is None else with_cause(formula, cause)) != data.formula:
            raise RequestError(
                f'the curve is of "{data.formula}", and the test is of its groups: write the same '
                "formula, or fit.survdiff()"
            )
        return survdiff_of(data)
    return call(
        "dp_survdiff", default="logrank", formula=formula, data=data, eps=eps, delta=delta,
        times=times, breaks=breaks, cause=cause, method=method, schema=schema, bounds=bounds,
        budget=budget, seed=seed, progress=progress, options=options,
    )  # fmt: skip


def survdiff_of(fit: Any) -> Fit:
    """Return the log-rank test of the groups of a released curve: reads no row, costs nothing."""
    curves = curves_from(fit._record)
    layout = curves[0].layout
    check_tested(layout, fit.formula)
    options = {k: fit.options[k] for k in ("times", "breaks", "max_episodes")
             if fit.options.get(k) is not None}  # fmt: skip
    call = request_of_other_verb(
        fit, "dp_survdiff", fit.formula, "logrank", options, name="curve",
        title="Log-rank test of a released curve", privacy_se="public",
    )  # fmt: skip
    plan: Plan[None] = Plan(call.request, fit.design, fit.nobs, fit.privacy.steps, fit.privacy)
    release = Release({}, fit.privacy, fit.design)
    return Fit(plan, release, estimate_of(layout, logrank(layout, curves)))


@like(dp_ols)
def dp_coxph(
    formula: str,
    data: Any,
    *,
    eps: float = REQUIRED,
    delta: float = REQUIRED,
    breaks: Any = None,
    cause: Any = None,
    concordance: bool = False,
    method: str | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    public: Any = None,
    budget: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
    unit: str | None = None,
    **options: Any,
) -> Fit:
    """Fit a proportional hazards model (Cox regression) with differential privacy.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ x"``, ``"Surv(time, event) ~ x + strata(site)"``; for delayed entry
        and predictors that change ``"Surv(start, stop, event) ~ x"`` with ``unit=``. The event is
        0 or 1, the second of two declared levels, or a comparison.
    data, eps, delta, method, budget, seed, progress, schema, bounds, public
        As in :func:`dpmodels.dp_ols`. The time needs a declared range (``bounds={"time": (0,
        60)}``): its longest value is private. Strata and factors need declared levels.
    breaks : int or list of float, optional
        Cells of time in which the baseline hazard is released: 13 equal ones by default.
    cause : level, optional
        The event of interest, of declared levels the first of which is censored. Events of other
        causes are censored too: hazards are cause-specific.
    concordance : bool
        Release Harrell's C too, for .05 of mu^2: one more table, by deciles of the released risk.
        Not with ``Surv(start, stop, event)``.
    unit : str, optional
        Column that identifies the person: a person's rows are their episodes. Of episodes that
        overlap the one that starts first counts. None: each row is a separate person.
    **options
        ``max_episodes=k``: number of separate episodes of a person that count in full in the
        table of the baseline; ``subset=, level=, units=, split=``.

    Returns
    -------
    Fit
        Log hazard ratios with errors by unit; ``fit.predict(new, what="risk")``,
        ``what="survival"`` with ``times=``, ``fit.hazard_ratios()``, ``fit.baseline()``,
        ``fit.concordance()``, ``fit.adjusted_curves("arm", over=)``; ``fit.cox_zph(data, ...)``
        checks proportionality, a new release.

    Notes
    -----
    Person-period Poisson scores with a released hazard by cell of time as offset and 1, t, t^2 as
    time terms of every stratum: within .02 standard errors of Cox's partial likelihood (Efron)
    where hazards are proportional. The follow-up of a unit ends when its expected weight is used
    up. This depends on predictors and released numbers alone, so it is censoring that does not
    depend on outcomes.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. Public: the formula,
    declared ranges and levels, breaks. Events, numbers at risk and times are private.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import dpmodels as dp
    >>> rng = np.random.default_rng(1)
    >>> x = rng.integers(0, 2, 8000) * 1.0
    >>> dies, leaves = rng.exponential(10 * np.exp(-0.7 * x)), rng.uniform(4, 20, 8000)
    >>> table = {"time": np.minimum(dies, leaves), "dead": dies <= leaves, "x": x}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_coxph("Surv(time, dead) ~ x", table, eps=2, delta=1e-6,
    ...                       bounds={"time": (0, 12), "x": (0, 1)}, seed=1)
    >>> bool(0.5 < fit.params["x"] < 0.9)
    True
    """
    return call(
        "dp_coxph", default="scoring", formula=formula, data=data, eps=eps, delta=delta,
        breaks=breaks, cause=cause, concordance=concordance, method=method, schema=schema,
        bounds=bounds, public=public, budget=budget, seed=seed, progress=progress, unit=unit,
        options=options,
    )  # fmt: skip
