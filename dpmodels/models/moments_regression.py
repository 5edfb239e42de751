"""Least squares and two-stage least squares on released second moments. Sees no row.

Estimates of ``dp_ols(formula, m)`` and ``dp_iv``; the formulas are those of ``after/theory.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.inference import anderson_rubin, two_stage
from dpmodels.after.moments import (
    TRUSTED,
    UNUSABLE,
    SecondMoments,
    fit_statistics,
    kept_moments,
    regress,
    trust_of,
)
from dpmodels.records import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.planning import Plan


#: Statistics whose errors take rows for independent.
_OF_ROWS = (
    "sigma_se", "r_squared_se", "r_squared_low", "r_squared_high", "adj_r_squared",
)  # fmt: skip
_LOST = (
    "the noise of the release exceeds the information on some direction of this design: "
    "coefficients have no errors here. Fewer terms, or a release with a larger eps; "
    "fit.anova() on a smaller model still tests terms"
)
_NO_ERRORS = (
    "Rows of one person may be correlated, and the release does not hold how much: there "
    "are no sampling errors, tests or intervals, only the errors of the noise (bse_privacy). "
    "dp_ols(formula, data, unit=...) has cluster-robust errors."
)


@dataclass(frozen=True, eq=False)
class Instruments:
    """The instruments of a two-stage fit.

    Attributes
    ----------
    B : (q, k) array
        Functionals of all instruments, the exogenous regressors among them.
    endogenous, excluded : tuple of int
        Columns of the design that are endogenous; instruments that are not in it.
    """

    B: Array
    endogenous: tuple[int, ...]
    excluded: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OnMoments:
    """What a fit on released moments is made from: the detail of its release.

    Attributes
    ----------
    moments : SecondMoments
    B, a : (p, k), (k,) arrays
        Functionals of design and response.
    weighted : bool
        Rows of the release may have been scaled down.
    paid : bool
        The release was made for this fit: it did cost something.
    instruments : Instruments or None
    people : bool
        Sums are of people, whose rows may depend on each other: errors of the noise alone.
    """

    moments: SecondMoments
    B: Array
    a: Array
    weighted: bool = False
    paid: bool = False
    instruments: Instruments | None = None
    people: bool = False


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Return least squares, or two-stage least squares, with errors that hold the noise."""
    detail: OnMoments = release.detail
    if detail.instruments is not None:
        return _instrumented(plan, release, detail, detail.instruments)
    m, names = detail.moments, release.design.names
    fit = regress(m, detail.B, detail.a)
    lost = fit.trust < UNUSABLE
    stats: dict[str, float] = {"sigma": math.sqrt(fit.v), "effective_rows": m.n_eff}
    stats["noise_margin"] = fit.trust
    notes = list(_notes(detail))
    warnings = []
    if lost:
        warnings.append(_LOST)
    elif fit.trust < TRUSTED:
        notes.append(
            f"The information of the weakest direction is {fit.trust:.1f} times the noise "
            f"(intervals are as good as without noise from {TRUSTED:g}): tests are conservative."
        )
    if release.design.has_intercept and m.constant is not None:
        stats |= fit_statistics(m, detail.B, detail.a)
    if detail.people:
        stats = {k: v for k, v in stats.items() if k not in _OF_ROWS}
    nan = np.full((len(names), len(names)), math.nan)
    return Estimate(
        names,
        fit.b,
        vcov_sampling=nan if lost or detail.people else fit.sampling,
        vcov_privacy=nan if lost else fit.privacy,
        stats=stats,
        notes=tuple(notes),
        warnings=tuple(warnings),
        arrays=_arrays(detail),
    )


def _arrays(detail: OnMoments) -> dict[str, Array]:
    m = detail.moments
    constant = np.zeros((0, m.k)) if m.constant is None else m.constant[None]
    return {
        **kept_moments(m, np.vstack([detail.B, detail.a[None], constant])),
        "functionals": np.vstack([detail.B, detail.a[None]]),
    }


def _notes(detail: OnMoments) -> tuple[str, ...]:
    cost = " made for this fit" if detail.paid else ": this fit cost nothing"
    said = [
        f"Computed from a release of second moments{cost}. "
        + (_NO_ERRORS if detail.people else "Errors are model-based (one residual variance).")
    ]
    if detail.people:
        said.append(
            "A person with many rows, or rows far from the centre, counts less in every regression."
        )
    elif detail.weighted:
        said.append(
            "Row weights belong to the release: a row far from the centre of all its columns, the "
            "response among them, counts less in every regression. Coefficients, intervals, tests "
            "and R-squared are those of the rows so weighted; where errors are skewed or their "
            "spread varies, they can miss those of all rows by far (an interval of 95 % covered "
            "them 0 to 97 % of the time at n = 50 000). A release by method='joint' weighs no "
            "row down (91 to 98 %, at several times the noise); phi=1 weighs down less."
        )
    return tuple(said)


def _instrumented(
    plan: Plan[Any], release: Release, detail: OnMoments, given: Instruments
) -> Estimate:
    m, names = detail.moments, release.design.names
    inside, excluded = list(given.endogenous), list(given.excluded)
    fit = two_stage(m, detail.B, given.B, detail.a, inside, excluded)
    stats: dict[str, float] = {"sigma": math.sqrt(fit.v), "effective_rows": m.n_eff}
    notes = [*_notes(detail)]
    lost = min(trust_of(m, detail.B), trust_of(m, given.B)) < UNUSABLE
    nan = np.full_like(fit.privacy, math.nan)
    if detail.people:
        return Estimate(
            names, fit.b, vcov_sampling=nan, vcov_privacy=nan if lost else fit.privacy,
            stats=stats, notes=tuple(notes), arrays=_arrays(detail),
        )  # fmt: skip
    for j, (F, df, p) in zip(inside, fit.first, strict=True):
        stats[f"first_stage_F[{names[j]}]"] = F
        notes.append(
            f"First stage of {names[j]}: F = {F:.4g} on {df} instrument{'s' if df > 1 else ''} "
            f"(Wald, its own noise included; p {'< 1e-16' if p < 1e-16 else f'= {p:.3g}'})."
        )
    arrays: dict[str, Any] = {**_arrays(detail), "instruments": given.B}
    if len(inside) == 1:
        j, level = inside[0], plan.request.level
        kept = [i for i in range(len(names)) if i != j]
        V = float(fit.sampling[j, j] + fit.privacy[j, j])
        se = math.sqrt(V) if V > 0.0 else 1.0  # where the line is searched, no error
        found = anderson_rubin(
            m, detail.B[kept], given.B[excluded], detail.B[j], detail.a, level, float(fit.b[j]), se
        )
        arrays["anderson_rubin"] = np.array(found).reshape(-1, 2)
        notes.append(
            f"Anderson-Rubin {level:.0%} set of {names[j]} (right however weak the instruments"
            f"{', for the rows as they are weighted' if detail.weighted else ''}): "
            f"{_set_in_words(found)}."
        )
    else:
        notes.append("Anderson-Rubin sets are given for one endogenous regressor only.")
    return Estimate(
        names, fit.b, vcov_sampling=nan if lost else fit.sampling,
        vcov_privacy=nan if lost else fit.privacy, stats=stats, notes=tuple(notes),
        warnings=(_LOST,) if lost else (), arrays=arrays,
    )  # fmt: skip


def _set_in_words(found: tuple[tuple[float, float], ...]) -> str:
    if not found:
        return "empty (no value agrees with the instruments: they are not all valid)"
    if found == ((-math.inf, math.inf),):
        return "the whole line (the instruments say nothing at this budget)"
    return " and ".join(f"[{low:.4g}, {high:.4g}]" for low, high in found)
