"""Nested models side by side: score tests on one release, Wald tests otherwise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dpmodels.after.regression import score
from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice
from dpmodels.results.fit import Fit
from dpmodels.results.joint import AnovaTable, checked_errors, joint_test
from dpmodels.results.released_moments import moments_of
from dpmodels.results.summary import response_of

__all__ = ["anova"]


def anova(*fits: Fit, test: str | None = None) -> AnovaTable:
    """Compare nested models, each with the one before it.

    Parameters
    ----------
    *fits : Fit
        From the smallest to the largest, at least two (one: its table of terms).
    test : {None, "score", "wald"}
        None: score tests where all fits come from one release of second moments
        (``dp_ols(formula, m)``), else Wald tests in the larger fit.

    Returns
    -------
    AnovaTable

    Privacy
    -------
    Post-processing: costs nothing. Residual sums of squares are not compared: their noise would
    make F reject true nulls in 8 to 95 of 100 tables.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     m = dp.dp_moments("mdvis + physlm + disea", dp.datasets.rand_hie(), eps=2, delta=1e-6,
    ...                       seed=1)
    >>> table = dp.anova(dp.dp_ols("mdvis ~ disea", m), dp.dp_ols("mdvis ~ disea + physlm", m))
    >>> table.to_frame()["df"].tolist()
    [1]
    """
    choice("test", test, (None, "score", "wald"))
    for fit in fits:
        if not isinstance(fit, Fit):
            raise RequestError(f"anova takes fits, got {type(fit).__name__}: anova(m1, m2)")
        checked_errors(fit._record)
    if not fits:
        raise RequestError("anova takes at least one fit: anova(m1, m2)")
    if len(fits) == 1:
        return fits[0].anova_table()
    same = all(_one_release(fits[0], fit) for fit in fits[1:])
    if test == "score" and not same:
        raise RequestError(
            "test='score' needs fits from one release of second moments: "
            "m = dp.dp_moments(...), then dp.dp_ols(formula, m) for each"
        )
    one = _score_row if same and test != "wald" else _wald_row
    rows = [one(small, large) for small, large in itertools.pairwise(fits)]
    if one is _score_row:
        notes = ["Score tests from the smaller model: right also where noise rules the larger."]
    else:
        notes = ["Wald tests in the larger model, noise included."]
        if not same:
            notes.append("Each fit is a release of its own: the smaller one says which terms.")
    return AnovaTable("Nested models", tuple(rows), tuple(notes))


def _one_release(one: Fit, two: Fit) -> bool:
    arrays = [fit._record.estimate.arrays for fit in (one, two)]
    if not all("functionals" in a for a in arrays):
        return False
    first, second = (np.asarray(a["released_moments"]) for a in arrays)
    return first.shape == second.shape and bool((first == second).all())


def _nested(small: Fit, large: Fit) -> list[str]:
    """Return the coefficients of the larger model that the smaller lacks, or refuse."""
    one, two = response_of(small._record), response_of(large._record)
    if one != two or small.model != large.model:
        raise RequestError(
            f"anova compares models of one response: {small.model}({one}) and {large.model}({two})"
        )
    mine, theirs = small.design.schema, large.design.schema
    if small.nobs != large.nobs or any(mine[n] != theirs[n] for n in mine if n in theirs):
        raise RequestError(
            "anova compares fits on the same data: these have other rows or other declared ranges"
        )
    names, wide = small._record.estimate.names, large._record.estimate.names
    missing = [n for n in names if n not in wide]
    if missing:
        raise RequestError(
            f"not nested: {', '.join(missing)} of {small.formula!r} is not in {large.formula!r}. "
            "From the smallest to the largest: anova(small, large)"
        )
    extra = [n for n in wide if n not in names]
    if not extra:
        raise RequestError(f"{small.formula!r} and {large.formula!r} have the same coefficients")
    return extra


def _label(small: Fit, large: Fit) -> str:
    return f"{small.formula.partition('~')[2].strip()} < {large.formula.partition('~')[2].strip()}"


def _wald_row(small: Fit, large: Fit) -> tuple[str, float, int, float]:
    extra = _nested(small, large)
    places = [large._record.estimate.names.index(n) for n in extra]
    found = joint_test(
        large._record, np.eye(len(large._record.estimate.names))[places], use_f=False
    )
    return _label(small, large), found.statistic, found.df, found.pvalue


def _score_row(small: Fit, large: Fit) -> tuple[str, float, int, float]:
    extra = _nested(small, large)
    facts = moments_of(small._record)
    if facts.people:
        raise NotReleasedError(
            "a score test takes rows for independent, and these moments are of people with several "
            "rows: fit the data itself, dp_ols(formula, data, unit=...), whose errors allow it"
        )
    wide: Any = large._record.estimate
    rows: Array = np.asarray(wide.arrays["functionals"])
    B2 = rows[[wide.names.index(n) for n in extra]]
    mine = np.asarray(small._record.estimate.arrays["functionals"])
    found = score(facts.moments, mine[:-1], B2, mine[-1])
    return _label(small, large), found.statistic, found.df, found.pvalue
