"""Backend of ``dp_mest(method="scoring")``: M-estimators of the residual by private scoring."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.families import LINKS, family_of
from dpmodels.models.robust.tabulated import Tabulated
from dpmodels.planning.plan import planning_rows
from dpmodels.scoring.engine import Chain
from dpmodels.scoring.fitting import Model, plan_fit, release_fit
from dpmodels.scoring.mean_score import MeanScore
from dpmodels.scoring.report import Part, estimate_fit
from dpmodels.scoring.score import Expectile, Huber, LeastSquares, Quantile, Score

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

#: Losses by name; families of the same loss beside them.
_NAMES = (
    "squared", "huber", "expectile", "quantile", "median", "logistic", "poisson", "geometric",
)  # fmt: skip
#: Corner of the Huber loss: efficiency .95 at normal errors.
_CORNER = 1.345

#: The release of the passes.
release = release_fit


def score_of(request: Request, design: Design) -> Score:
    """Return the score of a call, or refuse."""
    loss, options = request["loss"], request.options
    if hasattr(loss, "derivatives"):
        return Tabulated.of(loss, design)
    if callable(loss):
        raise RequestError(
            "method='scoring' takes a named loss, or dp.IndexLoss(value, d1, d2, "
            "of_residual=True). A function loss(y, X, theta) is minimised on a noised table: "
            "method='drcl'"
        )
    if not isinstance(loss, str) or loss not in _NAMES:
        more = " 'hinge' needs method='drcl'." if loss == "hinge" else ""
        raise RequestError(
            f"loss={shown(loss)} is not one of {list(_NAMES)}.{did_you_mean(str(loss), _NAMES)}"
            f"{more} Or give dp.IndexLoss(value, d1, d2, of_residual=True)"
        )
    _alone(request, loss)
    tau = 0.5 if loss == "median" else float(options["tau"])
    if loss in ("quantile", "median"):
        return Quantile(tau=tau)
    if loss == "expectile":
        return Expectile(tau=tau)
    if loss == "huber":
        return Huber(k=float(options["k"] or _CORNER))
    if loss == "squared":
        return LeastSquares()
    family = family_of(loss)
    return MeanScore.of(family, LINKS[family.link])


def _alone(request: Request, loss: str) -> None:
    """Refuse options of another loss."""
    owners = {"k": ("huber",), "scale": ("huber",), "tau": ("quantile", "expectile")}
    for name, losses in owners.items():
        default = {o.name: o.default for o in request.method.options}[name]
        if loss not in losses and request[name] != default:
            raise RequestError(f"{name}= belongs to loss={' or '.join(map(repr, losses))}")


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_mest(method="scoring")``."""
    score = score_of(request, design)
    fixed = request["scale"]
    if fixed is not None and isinstance(score, Huber):
        score = replace(score, given=float(fixed))
    return plan_fit(request, design, planning_rows(request, n), Model((Chain(score),)))


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware robust errors."""

    def stats(part: Part) -> dict[str, float]:
        if plan.detail.model.raw:  # a family: its scale is not one of residuals
            return {}
        return {"scale": math.sqrt(part.before.phi) / part.unit}

    return estimate_fit(plan, release, stats)
