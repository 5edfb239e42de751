"""Outlook of a fit on a release, from public numbers, before anything is read.

The outlook is the expected signal of the weakest predictor (``theory.md``, 5.1). A call of which no
estimate is to be expected is refused before the charge, with the rows and the eps that would do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.errors import RequestError, check_among, shown
from dpmodels.formula.design import Design
from dpmodels.models.noised.calibration import NoisePlan
from dpmodels.models.noised.release import TablePlan, noise_at
from dpmodels.models.noised.solve import asymptotic_variance
from dpmodels.own.noised import Layout
from dpmodels.planning import RESIDUAL, SPREAD, spreads
from dpmodels.records import Request

#: Assumed sd of a column over its declared range, and over an estimated one.
SD_OF_DECLARED, SD_OF_BOUGHT = 1.0 / 4.0, 1.0 / 7.0
#: Standard errors that the smallest of m noisy eigenvalues loses, times sqrt(m - 1).
LOSS_OF_SMALLEST = 0.9
#: Expected signals, in standard errors: below the first no estimate is to be expected, below the
#: second none that is determined, below the third a rough one.
NO_ESTIMATE, NOT_DETERMINED, FINE = 1.0, 2.0, 5.0
#: Expected signal of what a refusal proposes. Columns with long tails have an eighth of their range
#: as sd, and correlated ones a direction with less than half of its variance: nine times ``FINE``.
#: On three models of wine 9, 10 and 10 of ten fits gave estimates with errors at that eps; at that
#: of ``FINE`` 0, 4 and 9.
PROPOSED = 9.0 * FINE
#: Fourth moment of a unit of noise.
_KURTOSIS = {"gaussian": 3.0, "laplace": 6.0, "sl": 6.0}
#: Largest eps that a refusal proposes.
_LARGEST_EPS = 64.0


@dataclass(frozen=True)
class Outlook:
    """Expected noise and signal of a regression on a release. Public."""

    noise: float  # Largest noise sd of a predictor, over the sd that is assumed of it
    signal: float  # Expected smallest eigenvalue of the corrected moments, in its standard errors
    rows: float  # Rows at which the signal is ``PROPOSED``

    @property
    def verdict(self) -> str:
        """Expected quality of the coefficients, in a word."""
        if self.signal < NOT_DETERMINED:
            return "not determined"
        return "rough" if self.signal < FINE else "fine"

    @property
    def forecast(self) -> str:
        """Sentence of a plan; empty where no predictor is noised."""
        if math.isinf(self.signal):
            return ""
        so = {
            "fine": "coefficients will be determined",
            "rough": "intervals will be wide",
            "not determined": "coefficients will not be determined",
        }
        return (
            f"forecast: the noise is {self.noise:.2g} times the sd of a predictor (assumed: a "
            "quarter of a declared range, a seventh of an estimated one), and the weakest signal "
            f"about {self.signal:.2g} of its standard errors, so {so[self.verdict]} (fine from "
            f"{FINE:g} on)"
        )


def _ratios(
    design: Design, layout: Layout, noise: NoisePlan, bought: Sequence[str],
    variances: Mapping[str, float],
) -> dict[int, tuple[float, float]]:  # fmt: skip
    """Return row of the design -> (signal at one row, noise over sd) of each noised column."""
    kurtosis, keep = _KURTOSIS[noise.noise], 1.0 - noise.clear_prob
    ends = design.intervals()
    out = {}
    for name, row, sd in zip(layout.names, layout.rows, noise.sd, strict=True):
        width = float(ends[row, 1] - ends[row, 0])
        v = (SD_OF_BOUGHT if name in bought else SD_OF_DECLARED) ** 2
        if name in variances and width > 0.0:
            v = variances[name] / (width * width)
        fourth = (kurtosis - keep) * keep * sd**4 + 4.0 * v * keep * sd * sd + 2.0 * v * v
        out[row] = v / math.sqrt(max(fourth, 1e-300)), sd * math.sqrt(keep / max(v, 1e-300))
    return out


def outlook(table: TablePlan, variances: Mapping[str, float] | None = None) -> Outlook:
    """Return the outlook of the regression of a design on its own release.

    For a release without a response it is the regression on the column that has least noise.
    """
    bought = () if table.purchase is None else table.purchase.columns
    design = table.design
    ratios = _ratios(design, table.layout, table.noise, bought, variances or {})
    if design.response is not None:
        ratios = {row: pair for row, pair in ratios.items() if row < design.p}
    elif len(ratios) < 2 or table.settings.public_columns:
        ratios = {}  # one column has no regression, and public columns may be its predictors
    else:
        best = max(ratios, key=lambda row: ratios[row][0])
        ratios = {best: ratios[best]}
    if not ratios:
        return Outlook(0.0, math.inf, 0.0)
    least, lost = (
        min(r for r, _ in ratios.values()),
        LOSS_OF_SMALLEST * math.sqrt(len(ratios) - 1.0),
    )
    signal = least * math.sqrt(table.n) - lost
    return Outlook(max(t for _, t in ratios.values()), signal, ((PROPOSED + lost) / least) ** 2)


def poor_outlook(
    table: TablePlan, seen: Outlook, variances: Mapping[str, float] | None = None, other: str = ""
) -> str:
    """Return a warning of a poor outlook and its remedies, or "" if the outlook is not poor.

    ``other``: a call that fits one model without a release.
    """
    if seen.signal >= NOT_DETERMINED:
        return ""
    g = table.guarantee
    what = "no estimate is" if seen.signal < NO_ESTIMATE else "no determined coefficient is"
    model = "a regression on" if table.design.response is not None else "any regression on"
    most = _rows(table, seen, variances)
    rows = f"{most:.2g}" if most >= 1e7 else f"{math.ceil(most):,}"
    ways = [f"about {rows} rows at this eps"]
    eps = _enough(table, variances)
    if eps is not None:
        ways.append(f"eps = {eps:.2g} at these rows")
    if table.settings.unit == "record":
        ways.append('unit="attribute" (one value of a row is protected, not the row)')
    poor = (
        f"{what} to be expected from {model} noised rows: with {table.n:,} rows, eps = {g.eps:g} "
        f"and delta = {g.delta:g} the noise of a cell is {seen.noise:.2g} times the sd assumed of "
        f"its column. This needs {', or '.join(ways)}"
    )
    return f"{poor}. One model needs no noised rows: {other}" if other else poor


def refusal(seen: Outlook, poor: str) -> str:
    """Return the reason why a release is refused before the charge, or "" if it is not."""
    if not poor or seen.signal >= NO_ESTIMATE:
        return ""
    return (
        f"{poor}.\n  Nothing was read or charged. To release all the same: accept_no_estimate=True"
    )


def foreseen(table: TablePlan, accepted: bool) -> TablePlan:
    """Return the plan of a release by itself with its outlook: advice, or a refusal."""
    seen = outlook(table)
    warning = "" if accepted else poor_outlook(table, seen)
    refused = refusal(seen, warning)
    advice = table.advice if refused or not warning else (warning, *table.advice)
    return replace(table, advice=advice, refusal=refused)


def _rows(table: TablePlan, seen: Outlook, variances: Mapping[str, float] | None) -> float:
    """Return the rows of a sure outlook, of which a part of eps may measure the scales."""
    bought = () if table.purchase is None else table.purchase.columns
    g, n = table.guarantee, math.ceil(seen.rows)
    noise, _ = noise_at(table.layout, n, g.eps, g.delta, table.settings, bought)
    return max(seen.rows, outlook(replace(table, n=n, noise=noise), variances).rows)


def _enough(table: TablePlan, variances: Mapping[str, float] | None) -> float | None:
    """Return an eps (a tenth too large at most) with a sure outlook, or None above a limit."""
    bought = () if table.purchase is None else table.purchase.columns

    def is_enough(eps: float) -> bool:
        noise, _ = noise_at(
            table.layout, table.n, eps, table.guarantee.delta, table.settings, bought
        )
        return outlook(replace(table, noise=noise), variances).signal >= PROPOSED

    low = high = max(table.guarantee.eps, 0.01)
    while not is_enough(high):
        low, high = high, 2.0 * high
        if high > _LARGEST_EPS:
            return None
    while high > 1.1 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


# -- Expected errors under public guesses, for ``plan()``.


def checked_guesses(what: str, guesses: Any, columns: tuple[str, ...]) -> dict[str, float]:
    """Return public guesses by column, checked."""
    if guesses is None:
        return {}
    if not isinstance(guesses, Mapping):
        raise RequestError(f"{what} must be a mapping such as {{'x': 0.5}}, got {shown(guesses)}")
    out = {}
    for name, value in guesses.items():
        check_among(name, columns, f"{what}: no column {shown(name)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise RequestError(f"{what}[{name!r}] must be a number, got {shown(value)}")
        out[str(name)] = float(value)
    return out


def _assumed(
    request: Request, design: Design, sigma: float | None
) -> tuple[dict[str, float], float | None]:
    """Return the variances of columns and the error sd that every plan of least squares assumes."""
    ends = design.intervals()
    if request.verb != "dp_ols" or not np.isfinite(ends).all():
        return {}, sigma
    widths = ends[:, 1] - ends[:, 0]
    columns = zip(design.columns, spreads(design), widths, strict=False)
    variances = {
        c.name: float(spread * (1.0 if c.kind == "dummy" else width / 2.0)) ** 2
        for c, spread, width in columns
    }
    assumed = RESIDUAL * SPREAD / 2.0 * float(widths[len(design.columns)])
    return variances, assumed if sigma is None else sigma


def expected_of(
    request: Request, design: Design, table: TablePlan, n: int
) -> tuple[dict[str, float], dict[str, float], tuple[str, ...]]:
    """Return (scales, standard errors, sentences) for public guesses ``variances=`` of columns.

    Without them those that every plan assumes, of least squares. With ``guess=`` (coefficients) and
    ``sigma=`` (error sd) the asymptotic standard errors of the linear model follow, for
    uncorrelated columns with means at the middle of their ranges, and the n at which they are a
    quarter of the coefficient.
    """
    names = design.names
    response = design.response.name if design.response is not None else ""
    variances = checked_guesses("variances", request.options.get("variances"), (*names, response))
    guess = checked_guesses("guess", request.options.get("guess"), names)
    sigma, has_variances = request.options.get("sigma"), bool(variances)
    ends = design.intervals()
    if not has_variances:
        variances, sigma = _assumed(request, design, sigma)
    sd = dict.fromkeys((*names, response), 0.0)
    for name, row, relative in zip(
        table.layout.names, table.layout.rows, table.noise.sd, strict=True
    ):
        sd[name] = relative * float(ends[row, 1] - ends[row, 0])
    p = table.noise.clear_prob
    scales = {
        f"reliability of {name}": v / (v + (1 - p) * sd[name] ** 2)
        for name, v in variances.items()
        if has_variances and math.isfinite(sd[name])
    }
    slopes = [c for c in names if design.columns[names.index(c)].kind != "intercept"]
    if sigma is None or any(c not in variances for c in slopes) or not slopes:
        return scales, {}, ()
    theta = np.array([guess.get(c, 0.0) for c in names])
    # means at the middle of the ranges
    mean = np.array([0.5 * float(ends[j, 0] + ends[j, 1]) for j in range(len(names))])
    M = np.diag([variances.get(c, 0.0) for c in names]) + np.outer(mean, mean)
    D = np.diag([sd[c] ** 2 for c in names])
    if not np.isfinite(D).all() or not math.isfinite(sd[response]):
        return scales, {}, ()
    noise = table.noise.noise
    _, V = asymptotic_variance(
        theta, M, D, float(sigma) ** 2, lambda_y2=sd[response] ** 2, p=p,
        kind="drcl" if noise == "sl" and request.method.name != "sl" else noise,
    )  # fmt: skip
    se = np.sqrt(np.diag(V) / n)
    sizes = [
        16.0 * V[j, j] / theta[j] ** 2 for j, c in enumerate(names) if c in slopes and theta[j] != 0
    ]
    sentences = () if not sizes else (
        f"n = {math.ceil(max(sizes))} rows would make every given slope four standard errors "
        "(linear model, uncorrelated columns, the given variances).",
    )  # fmt: skip
    return scales, dict(zip(names, se.tolist(), strict=True)), sentences
