"""Forecast of each coefficient of a planned fit: "fine", "rough" or "not determined".

All of it follows from public numbers: the design, n, (eps, delta), and what the caller of
``dp.plan`` says of levels (``sd=``), correlations (``corr=``) and events (``events=``). It reads
no row. How often a word is right: ``benchmarks/results/forecasts.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.families import LINKS, Family, assumed_mean, family_of
from dpmodels.formula.design import Column, Design
from dpmodels.privacy.mechanisms import mu_gdp
from dpmodels.records import Request

#: The three words, from good to bad.
WORDS = ("fine", "rough", "not determined")
#: Least mu n q of a level with share q of the rows at which it is fine, and not undetermined. By
#: simulation (``tests/statistical/test_coefficient_forecasts.py``): rows of a rare level are long,
#: and clipped.
LEVEL_LIMITS = (80.0, 20.0)
#: The same of a number: mu n (1 - R^2), R^2 that of the column on the other columns.
NUMBER_LIMITS = (10.0, 3.0)


@dataclass(frozen=True)
class Facts:
    """Facts of the data that a user knows from elsewhere; a plan assumes the others."""

    # By column, of the response that of its residuals
    sd: Mapping[str, float] = field(default_factory=dict)
    # Mean of the events or counts of a row or person, or the share with an event.
    events: float | None = None
    # Correlations by pairs of numbers
    correlations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    # Share of rows with residuals beyond four standard deviations, or None if it is not known
    tail: float | None = None
    rows: float = 1.0  # Rows of a person
    # Columns that vary within people; the others are constant there
    within: frozenset[str] = frozenset()
    icc: float | None = None  # Correlation of two residuals of a person, or None if not known


def family_of_request(request: Request) -> Family | None:
    """Return the family of a generalised linear model, or None for another model."""
    if request.verb == "dp_fepois":
        return family_of("poisson")
    return family_of(request["family"]) if request.verb == "dp_glm" else None


def alpha_of_request(request: Request) -> float:
    """Return the alpha of a negative binomial model, 1 if it is not given."""
    return float(request.options.get("alpha") or 1.0)


def mean_of_response(family: Family, y: Column, facts: Facts) -> float:
    """Return the mean of events or counts that a plan states or assumes."""
    return assumed_mean(family, y.interval) if facts.events is None else facts.events


def error_of_row(request: Request, family: Family, y: Column, facts: Facts) -> float:
    """Return the error of a row about its linear predictor at the mean of the response."""
    link = LINKS[str(request.options.get("link") or family.link)]
    return family.error_at(mean_of_response(family, y, facts), link, alpha_of_request(request))


def _row_information(request: Request, design: Design, facts: Facts) -> float:
    """Return the information of a row about its linear predictor, at most that of a linear model.

    Limits are of rows of a linear model. Events, and counts with a mean below 1, say less.
    """
    family, y = family_of_request(request), design.response
    if family is None or family.link == "identity" or y is None:
        return 1.0
    return min(1.0, error_of_row(request, family, y, facts) ** -2.0)


def _numeric_names(design: Design) -> list[str]:
    """Return the names of the columns that are numbers."""
    return [c.name for c in design.columns if c.kind not in ("intercept", "dummy")]


def rarer_share(sd: float) -> float:
    """Return the share q <= 1/2 of a column of two values with the sd ``sqrt(q (1 - q))``."""
    return 0.5 - math.sqrt(max(0.25 - sd**2, 0.0))


def level_shares(
    design: Design, sds: Mapping[str, float]
) -> dict[str, tuple[dict[str, float], float]]:
    """Return the assumed shares of the rows of the dummies of each factor, and of its reference.

    Levels are assumed to be equally frequent unless ``sds`` has the standard deviation
    ``sqrt(q (1 - q))`` of a dummy; the remainder is shared by the others.
    """
    out: dict[str, tuple[dict[str, float], float]] = {}
    for term in dict.fromkeys(c.term for c in design.columns if c.kind == "dummy"):
        names = [c.name for c in design.columns if c.term == term and c.kind == "dummy"]
        by_sd = {n: rarer_share(sds[n]) for n in names if n in sds}
        reference = bool(out) or design.has_intercept  # else the first factor has all levels
        even = max(1.0 - sum(by_sd.values()), 0.0) / max(len(names) + reference - len(by_sd), 1)
        out[term] = {name: by_sd.get(name, even) for name in names}, even if reference else 1.0
    return out


def rare_bases(design: Design, sds: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence per factor whose base level few rows have, by the sds of its levels.

    Said where the errors of contrasts with another level are a third, as of a fit
    (``results/contrasts.py``); only of factors whose levels all have an sd.
    """
    sentences = []
    for term, (shares, base_share) in level_shares(design, sds).items():
        factor = term[2:-1] if term.startswith("C(") else term
        if len(shares) < 2 or "(" in factor or "," in factor or not sds.keys() >= {*shares}:
            continue
        best, largest = max(shares.items(), key=lambda p: p[1])
        typical = sorted(shares.values())[len(shares) // 2]
        with_base, with_best = (1.0 / max(q, 1e-9) + 1.0 / typical for q in (base_share, largest))
        if sum(shares.values()) > 1.0 or with_base <= 9.0 * with_best:
            continue
        level = best.partition("[T.")[2].rstrip("]")
        sentences.append(
            f"contrasts of {factor} are with its first level, which has {base_share:.2g} of the "
            f"rows by sd=: their errors are about {math.sqrt(with_base / with_best):.0f} times as "
            f"large as with {level!r}. Type C({factor}, Treatment({level!r})), or fit.relevel "
            "afterwards"
        )
    return tuple(sentences)


def second_moments(design: Design, sds: Array, facts: Facts, even: float) -> Array:
    """Return second moments of unit columns, (p, p): levels of a factor exclude each other.

    ``sds`` (p,): of numbers, about the middles of their ranges (1 of a constant); ``even``: factor
    of the columns of levels whose share is assumed. With a constant, levels are centred.
    """
    M = np.outer(sds, sds) * correlation_matrix(design.names, facts.correlations)
    for shares, _ in level_shares(design, facts.sd).values():
        j, q = [design.names.index(name) for name in shares], np.array(list(shares.values()))
        scale = np.array([1.0 if name in facts.sd else even for name in shares])
        q = q * min(1.0, 0.99 / q.sum())
        C = np.diag(q) - design.has_intercept * np.outer(q, q)
        M[np.ix_(j, j)] = np.outer(scale, scale) * C
    return M


def variance_inflation(
    design: Design, correlations: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Return 1/(1 - R^2) of each number on the others, at these correlations (else 0)."""
    names = _numeric_names(design)
    inverse = np.linalg.inv(correlation_matrix(names, correlations)) if correlations else None
    return {name: 1.0 if inverse is None else float(inverse[j, j]) for j, name in enumerate(names)}


def correlation_matrix(
    names: Sequence[str], correlations: Mapping[tuple[str, str], float]
) -> Array:
    """Return the correlation matrix of columns, 0 where none is given, (p, p)."""
    matrix = np.eye(len(names))
    for (a, b), value in correlations.items():
        j, k = names.index(a), names.index(b)
        matrix[j, k] = matrix[k, j] = value
    return matrix


def check_correlations(design: Design, corr: Any) -> dict[tuple[str, str], float]:
    """Return ``corr=`` as {(column, column): correlation}, or refuse it."""
    if corr is None:
        return {}
    names = _numeric_names(design)
    example = "corr={('x1', 'x2'): 0.9}"
    if not isinstance(corr, Mapping):
        raise RequestError(f"corr= must be a mapping of pairs of columns, {example}.")
    out = {}
    for pair, value in corr.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] == pair[1]:
            raise RequestError(f"corr= needs pairs of different columns, {example}.")
        for name in pair:
            if name not in names:
                raise RequestError(
                    f"corr= names {shown(name)}, which is not a numeric column of this design."
                    f"{did_you_mean(str(name), names)} Columns: {', '.join(names)}."
                )
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not abs(value) < 1.0:
            raise RequestError(f"corr={{{pair!r}: ...}} must be between -1 and 1, {example}.")
        out[pair] = float(value)
    if np.linalg.eigvalsh(correlation_matrix(names, out))[0] < 1e-8:
        raise RequestError("corr= has correlations that cannot occur together. Give fewer.")
    return out


def coefficient_forecasts(
    request: Request, design: Design, n: int | None, verdict: str, *, by_rows: bool, facts: Facts
) -> dict[str, str]:
    """Return the forecast of each coefficient, empty if the model as a whole has none (verdict).

    Parameters
    ----------
    request, design, n
        Those of the plan.
    verdict : str
        Forecast of the model as a whole.
    by_rows : bool
        Whether the fit ends by passes of scores over rows, for which the limits are calibrated.
    facts : Facts
        Known standard deviations, correlations and the share of events.

    Notes
    -----
    A coefficient is no better than the model as a whole. A level is worse if few rows have it, and
    a number if the others predict it: the limits are calibrated, not proved.

    Privacy
    -------
    A function of public numbers: reads no row.
    """
    if verdict not in WORDS:
        return {}
    words = dict.fromkeys(design.names, verdict)
    if n is None or not by_rows or request.unit is not None or not request.delta > 0.0:
        return words  # the limits are those of passes over rows
    rows = mu_gdp(request.eps, request.delta) * n * _row_information(request, design, facts)
    measures = {
        name: (rows * min(q, base), LEVEL_LIMITS)
        for shares, base in level_shares(design, facts.sd).values() for name, q in shares.items()
    }  # fmt: skip
    for name, factor in variance_inflation(design, facts.correlations).items():
        measures[name] = (rows / factor, NUMBER_LIMITS)
    for name, (measure, (fine, rough)) in measures.items():
        place = 0 if measure >= fine else 1 if measure >= rough else 2
        words[name] = WORDS[max(place, WORDS.index(verdict))]
    return words
