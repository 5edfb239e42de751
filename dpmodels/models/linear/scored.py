"""The ending of ``ssp`` and ``pmt`` that their intervals rest on: private Fisher scoring.

Least squares by :mod:`dpmodels.scoring`. ``ssp`` starts from the declared (or bought) ranges,
``pmt`` from public second moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.after.moments import SecondMoments
from dpmodels.after.statistics import fit_statistics
from dpmodels.errors import RequestError
from dpmodels.exact.queries import ball_sd, joint_noise
from dpmodels.exact.rowmap import UnitScale
from dpmodels.models.linear.facts import Stage
from dpmodels.models.linear.inference import unit_back
from dpmodels.models.linear.public import public_radius
from dpmodels.planning.rows import enough_rows, planning_rows
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.scoring.coordinates import Coordinates, constant_direction
from dpmodels.scoring.engine import Chain
from dpmodels.scoring.fitting import Model, ScoredDetail, pass_names, plan_fit, release_fit
from dpmodels.scoring.report import Part, estimate_fit
from dpmodels.scoring.rules import LINEAR
from dpmodels.scoring.score import LeastSquares

if TYPE_CHECKING:
    from dpmodels.estimate import Estimate
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.public import PublicWhitening
    from dpmodels.planning import Plan
    from dpmodels.release import Release
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
) -> Plan:
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


_ROUGH = (
    "R-squared is from the first pass alone, whose long rows were scaled down: a rough figure. "
    "dp_moments() and dp_ols(formula, m), or scoring=False, give a closer one."
)


def estimate(plan: Plan, release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware errors."""

    def stats(part: Part) -> dict[str, float]:
        variance = part.inference.variance(part.constant) * part.release.before.phi
        return {"sigma": math.sqrt(variance) / part.unit}

    found = estimate_fit(plan, release, stats)
    about = _r_squared(plan, release) if release.reply else {}
    if not about:
        return found
    return replace(found, stats={**about, **found.stats}, notes=(*found.notes, _ROUGH))


def _r_squared(plan: Plan, release: Release) -> dict[str, float]:
    """Return R-squared and its errors from the start; nothing without an intercept or full rank."""
    c, design = release.detail.coordinates, release.design
    if not design.has_intercept or design.scaled or c.rank < design.p:
        return {}
    stage = start_stage(plan, release)
    back = unit_back(c.unit) @ np.linalg.inv(c.start)
    read = plan.detail.guide.start(plan.detail.rows)
    m = SecondMoments(stage.Q, stage.V, float(read), back[0])
    found = fit_statistics(m, back[:-1], back[-1])
    found.pop("sigma_se", None)  # sigma is that of the last pass
    return found


def start_stage(plan: Plan, release: Release) -> Stage:
    """Return the start as a released stage, for comparing private with public moments."""
    detail: ScoredDetail = plan.detail
    found: ScoringRelease = release.detail
    scoring = detail.scoring(found.coordinates.rank, plan.request.relation)
    mechanism, q = Gaussian(scoring.start), len(found.Q)
    s = ball_sd(mechanism, scoring.radius, q, plan.request.relation)
    return Stage(found.Q, joint_noise(q, s, mechanism), np.eye(q), scoring.radius)
