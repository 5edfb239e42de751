"""The ending of ``ssp`` and ``pmt`` that their intervals rest on: private Fisher scoring.

Least squares by :mod:`dpmodels.scoring`. ``ssp`` starts from the declared (or bought) ranges,
``pmt`` from public second moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.explained import LEAST_ROWS, explained
from dpmodels.errors import RequestError
from dpmodels.exact.prove import noise_of
from dpmodels.exact.rowmap import UnitScale
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import Gram
from dpmodels.models.linear.facts import Stage
from dpmodels.models.linear.public import public_radius
from dpmodels.planning.plan import enough_rows, planning_rows
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.scoring.coordinates import Coordinates, constant_direction
from dpmodels.scoring.engine import Chain
from dpmodels.scoring.fitting import Model, ScoredDetail, pass_names, plan_fit, release_fit
from dpmodels.scoring.report import SEEN, Part, estimate_fit
from dpmodels.scoring.rules import LINEAR
from dpmodels.scoring.score import LeastSquares
from dpmodels.scoring.sums import AT_CLIP

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.public import PublicWhitening
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request
    from dpmodels.scoring.engine import ScoringRelease

__all__ = ["ScoredDetail", "estimate", "plan", "release", "start_stage", "why_not"]


#: Options that belong to the ending by moments: a value of one's own asks for that ending.
OF_MOMENTS = (
    "stages", "query", "ridge", "phi", "radius", "inference_method", "combine", "whitening",
)  # fmt: skip

#: The release of the passes.
release = release_fit


@dataclass(frozen=True, eq=False)
class LinearModel(Model):
    """Least squares, about a public whitening if there is one."""

    white: PublicWhitening | None = None


def why_not(request: Request) -> str:
    """Return why a call does not end by scoring, in words; empty if it does. Public."""
    asked = request.options.get("scoring")
    if asked and request.delta == 0:
        raise RequestError(
            "scoring=True has its proof for Gaussian noise: give delta > 0, as in delta=1e-6, "
            "or drop scoring="
        )
    why = _why_moments(request, asked)
    if why and request.sample is not None:
        raise RequestError(
            "errors by design are of the ending by scores, the default; here the call would end "
            f"by moments ({why}): leave that out"
        )
    if why and request.options.get("ranges") == "uncertain":
        raise RequestError(
            f'ranges="uncertain" is of the ending by scores, and {why}: leave it out'
        )
    return why


def _why_moments(request: Request, asked: bool | None) -> str:
    """Return why a call ends by moments, in words; empty if it does not."""
    if asked is not None:
        return "" if asked else "scoring=False was given"
    if not request.inference:
        return "inference=False asks for no intervals, so the fit is tuned for prediction"
    if request.delta == 0:
        return "scoring has its proof for Gaussian noise, and delta = 0"
    if request.split is not None and set(request.split) != set(pass_names(LINEAR)):
        return "split= names the stages of moments"
    defaults = {o.name: o.default for o in request.method.options}
    for name in OF_MOMENTS:
        if name in defaults and request.options[name] != defaults[name]:
            return f"{name}= belongs to the ending by moments"
    return ""


def plan(
    request: Request, design: Design, n: int | None, white: PublicWhitening | None = None
) -> Plan[Any]:
    """Plan a scoring fit: of ``ssp``, or of ``pmt`` about a public whitening."""
    chains, meat = (Chain(LeastSquares()),), request.options["vcov"] != "iid"
    model = LinearModel(chains, meat=meat)
    if white is not None:
        share = LINEAR.passes[0] if request.split is None else float(request.split["start"])
        mu = mu_gdp(request.eps, request.delta) * math.sqrt(share)
        radius = public_radius(white, mu, enough_rows(request, design, n), phi=0.1, rule=None)
        model = LinearModel(chains, _white_coordinates(white, design), radius, meat, white=white)
    return plan_fit(request, design, planning_rows(request, n), model)


def _white_coordinates(white: PublicWhitening, design: Design) -> Coordinates:
    """Return coordinates whitened by public moments, about the public fit."""
    p = len(white.L) - 1
    unit = UnitScale(1.0 / white.scale, np.zeros(p + 1), False)
    W0 = np.asarray(np.linalg.inv(white.L[:p, :p]))
    return Coordinates(
        unit, W0, np.ones(p, dtype=bool), np.array(white.L[p, :p]), 1.0 / float(white.L[p, p]),
        constant_direction(design, unit, W0),
    )  # fmt: skip


_SHARE = (
    "R-squared is that of the last pass: spread of the fitted values against that and the residual "
    "variance. Its interval holds the noise, and sampling as of normal rows; long rows count less."
)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware errors."""

    def stats(part: Part) -> dict[str, float]:
        if release.design.scaled:  # the meat has squares of weights: the spread of no residual
            return {}
        variance = part.inference.variance(part.constant) * part.before.phi
        if part.constant is not None:
            variance /= _complete(part)
        return {**_r_squared(plan, release, part), "sigma": math.sqrt(variance) / part.unit}

    found = estimate_fit(plan, release, stats)
    return replace(found, notes=(*found.notes, _SHARE)) if "r_squared" in found.stats else found


def _complete(part: Part) -> float:
    """Return the released share of complete rows, at least a tenth."""
    assert part.constant is not None
    share = float(part.constant @ part.inference.H @ part.constant)
    return min(max(share, LEAST_ROWS), 1.0)


def _cut(part: Part) -> float:
    """Return what long scores may have lost of the residual variance, in scales of the fit.

    Scores count up to the radius of the meat in it. What those beyond lost, from the released
    histogram of their lengths; a row of mean leverage has r times its residual in its score.
    """
    last, bins = part.release.plans[-1], part.release.released[-1].bins
    if bins is None or not last.meat:
        return 0.0
    square = (last.clip * 2.0 ** ((np.arange(len(bins)) - AT_CLIP + 0.5) / 2.0)) ** 2
    seen = np.where(bins > SEEN * last.noise.count, bins, 0.0)
    lost = float(np.sum(seen * np.maximum(square - last.meat**2, 0.0)))
    return lost / last.rows / len(part.inference.d) * part.before.phi


def _r_squared(plan: Plan[Any], release: Release, part: Part) -> dict[str, float]:
    """Return R-squared of the last pass and its interval (``scoring/theory.md``, 5.8).

    Nothing without an intercept or full rank, or of people, whose residual variance is not that
    of rows.
    """
    c, design = release.detail.coordinates, release.design
    whole = design.has_intercept and c.rank == design.p
    if not whole or part.constant is None or part.inference.people:
        return {}
    found, last, a = part.inference, part.release.plans[-1], part.constant
    share, n = _complete(part), plan.detail.rows
    fitted = np.linalg.solve(part.T, part.params)
    H = found.H / share
    t = fitted - float(fitted @ H @ a) * a  # of fitted values about their mean
    H = H - np.outer(H @ a, H @ a)
    spread = float(t @ H @ t - np.sum(H * (found.privacy + found.sampling)))
    residual = found.variance(a) * part.before.phi / share
    steep, noisy = H @ t, H @ found.privacy
    of_fit = 4.0 * steep @ found.privacy @ steep + 2.0 * np.sum(noisy * noisy.T)
    of_fit += (part.release.last.nu / share * float(t @ t)) ** 2
    meat = last.noise.meat or last.noise.scale
    one = meat / last.tail_rows / share * float(a @ a) * part.before.phi
    noise = (one**2, one**2, float(of_fit) + one**2)
    value = explained(residual, spread + residual, noise).value
    sampling = 4.0 * value * (1.0 - value) ** 2 / n
    out = explained(residual, spread + residual, noise, sampling)
    more = residual + _cut(part) / share
    least = explained(more, spread + more, noise, sampling).low
    out = replace(out, low=min(out.low, least))
    adjusted = 1.0 - (1.0 - out.value) * (n - 1.0) / max(n - design.p, 1.0)
    private = math.sqrt(max(out.se**2 - sampling, 0.0))
    return {
        **out.named("r_squared"), "adj_r_squared": adjusted, "r_squared_se_privacy": private,
    }  # fmt: skip


def start_stage(plan: Plan[ScoredDetail], release: Release) -> Stage:
    """Return the start as a released stage, for comparing private with public moments."""
    detail = plan.detail
    found: ScoringRelease = release.detail
    scoring = detail.scoring(found.coordinates.rank, plan.request.relation)
    mechanism, q = Gaussian(scoring.start), len(found.Q)
    moments = Gram(Ball(q))
    sd = noise_of(moments, mechanism, plan.request.relation) * scoring.radius**2
    return Stage(found.Q, moments.shaped(sd * sd, "l2"), np.eye(q), scoring.radius)
