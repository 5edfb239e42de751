"""What a fit on a release may be expected to give, before any data: for ``plan()``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.models.noised.linear import asymptotic_variance

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.noised.stage import TablePlan
    from dpmodels.request import Request


@dataclass(frozen=True)
class Expected:
    """Reliabilities, standard errors and the n that would be needed.

    Attributes
    ----------
    scales : mapping
        "reliability of x": Var / (Var + (1 - p) lambda^2).
    se : mapping
        Column -> expected standard error (sampling and noise together).
    sentences : tuple of str
    """

    scales: Mapping[str, float] = field(default_factory=dict)
    se: Mapping[str, float] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()


def _numbers(what: str, given: Any, known: tuple[str, ...]) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise RequestError(f"{what} takes a mapping such as {{'x': 0.5}}, got {shown(given)}")
    out = {}
    for name, value in given.items():
        if name not in known:
            raise RequestError(f"{what}: no column {shown(name)}.{did_you_mean(str(name), known)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise RequestError(f"{what}[{name!r}] must be a number, got {shown(value)}")
        out[str(name)] = float(value)
    return out


def expected_of(request: Request, design: Design, made: TablePlan, n: int) -> Expected:
    """Return expectations for the variances (and coefficients) the user gave.

    ``variances=`` are public guesses of the columns' variances. With ``guess=`` (coefficients) and
    ``sigma=`` (error sd) the asymptotic standard errors of the linear model follow, for
    uncorrelated columns with means at the middle of their ranges, and the n at which they are a
    quarter of the coefficient.
    """
    names = design.names
    response = design.response.name if design.response is not None else ""
    variances = _numbers("variances", request.options.get("variances"), (*names, response))
    guess = _numbers("guess", request.options.get("guess"), names)
    sigma = request.options.get("sigma")
    if not variances:
        return Expected()
    ends = design.intervals()
    sd = dict.fromkeys((*names, response), 0.0)
    for name, row, relative in zip(made.layout.names, made.layout.rows, made.noise.sd, strict=True):
        sd[name] = relative * float(ends[row, 1] - ends[row, 0])
    p = made.noise.clear_prob
    scales = {
        f"reliability of {name}": v / (v + (1 - p) * sd[name] ** 2)
        for name, v in variances.items()
        if math.isfinite(sd[name])
    }
    slopes = [c for c in names if design.columns[names.index(c)].kind != "intercept"]
    if sigma is None or any(c not in variances for c in slopes) or not slopes:
        return Expected(scales)
    theta = np.array([guess.get(c, 0.0) for c in names])
    # means at the middle of the ranges
    mean = np.array([0.5 * float(ends[j, 0] + ends[j, 1]) for j in range(len(names))])
    M = np.diag([variances.get(c, 0.0) for c in names]) + np.outer(mean, mean)
    D = np.diag([sd[c] ** 2 for c in names])
    if not np.isfinite(D).all() or not math.isfinite(sd[response]):
        return Expected(scales)
    _, V = asymptotic_variance(
        theta, M, D, float(sigma) ** 2, lambda_y2=sd[response] ** 2, p=p,
        kind=made.noise.noise
        if made.noise.noise != "sl"
        else "sl"
        if request.method.name == "sl"
        else "drcl",
    )  # fmt: skip
    se = np.sqrt(np.diag(V) / n)
    sentences = []
    wanted = [
        16.0 * V[j, j] / theta[j] ** 2 for j, c in enumerate(names) if c in slopes and theta[j] != 0
    ]
    if wanted:
        sentences.append(
            f"n = {math.ceil(max(wanted))} rows would make every given slope four standard errors "
            "(linear model, uncorrelated columns, the given variances)."
        )
    return Expected(scales, dict(zip(names, se.tolist(), strict=True)), tuple(sentences))
