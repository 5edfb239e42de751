"""Backend of ``dp_glm(method="scoring")``: generalised linear models by private Fisher scoring.

The family and its link say the score and the expected information (:mod:`dpmodels.families`);
the engine (:mod:`dpmodels.scoring`) does the rest. Proofs: ``scoring/theory.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.families import LINKS, family_of
from dpmodels.planning.plan import planning_rows
from dpmodels.scoring.engine import Chain
from dpmodels.scoring.fitting import Model, plan_fit, release_fit
from dpmodels.scoring.mean_score import MeanScore
from dpmodels.scoring.report import Part, estimate_fit
from dpmodels.scoring.score import LeastSquares, Score

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

#: Public guesses of a plan: share of events, and the mean count as a part of the largest.
_EVENTS, _MEAN = 0.25, 1.0 / 16.0

#: The release of the passes.
release = release_fit


def score_of(request: Request) -> Score:
    """Return the score of a call."""
    family = family_of(request["family"])
    if family.link == "identity":
        return LeastSquares()
    alpha = request["alpha"]
    if alpha is not None and family.dispersion != "alpha":
        raise RequestError(
            f"alpha= is the dispersion of family='negative_binomial'; family={family.name!r} has "
            "none"
        )
    return MeanScore.of(family, LINKS[request["link"] or family.link], alpha)


def _guess(request: Request, design: Design) -> float:
    """Return the error of a whitened coefficient times root n that a plan assumes."""
    family = family_of(request["family"])
    interval = None if design.response is None else design.response.interval
    if family.link == "identity" or interval is None:
        return 0.5
    mean = _EVENTS if family.is_event else max(_MEAN * interval[1], 0.25)
    link, alpha = LINKS[request["link"] or family.link], float(request["alpha"] or 1.0)
    eta = np.array([link.forward(mean)])
    _, information = family.score(np.zeros(1), eta, link, alpha)
    return float(information[0] ** -0.5)


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_glm(method="scoring")``."""
    family = family_of(request["family"])
    asked = bool(request["fit_stats"])
    if asked and family.link == "identity":
        raise RequestError(
            "fit_stats=True is for families with a deviance of their own: for family='gaussian' "
            "use dp_ols, or fit.rsquared of a fit by moments"
        )
    if asked and (design.response is None or design.response.interval is None):
        raise RequestError(
            "fit_stats=True needs a declared response, for example bounds={'visits': (0, 50)}"
        )
    if asked and request.weights is not None:
        raise RequestError("fit_stats=True takes no weights=: the deviance is of whole rows")
    model = Model((Chain(score_of(request)),), guess=_guess(request, design), statistics=asked)
    plan = plan_fit(request, design, planning_rows(request, n), model)
    return replace(plan, advice=(*_clipped_counts(request, design), *plan.advice))


def _clipped_counts(request: Request, design: Design) -> tuple[str, ...]:
    """Warn of counts that are declared to be 0 or 1: all others would be clipped to 1. Public."""
    response = design.response
    if not (
        family_of(request["family"]).domain == "whole numbers from 0"
        and response is not None
        and response.interval is not None
        and response.interval[1] <= 1.0
    ):
        return ()
    return (
        f"{response.name!r} is a count by family={request['family']!r}, and declared from "
        f"{response.interval[0]:g} to {response.interval[1]:g}: larger counts are clipped. Declare "
        f"the largest count, for example bounds={{{response.name!r}: (0, 50)}}",
    )


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware robust errors."""
    family = family_of(plan.request["family"])
    weighted = release.design.place_aside("weights") is not None

    def stats(part: Part) -> dict[str, float]:
        before = part.before
        if family.dispersion == "alpha":
            return {"alpha": before.nuisance}
        people = part.inference.people  # whose meat is of sums, and tells nothing of a row
        if family.dispersion == "free" and not family.is_event and not (people or weighted):
            # meat over information: an empty row is in neither (of weights the meat has squares)
            over = part.inference.variance(None)
            return {"dispersion": over * before.phi / part.unit**2}
        return {}

    return estimate_fit(plan, release, stats)
