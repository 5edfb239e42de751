"""What the plans of this room share: currency, radii of public rules, the stage rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.exact.passes import ball_sd
from dpmodels.exact.prove import gram_l1
from dpmodels.exact.rowmap import unit_scale
from dpmodels.exact.symmetric import chi2_upper
from dpmodels.planning import Purchase
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import gaussian_part, to_be_bought

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.mechanisms import Gaussian, Pure
    from dpmodels.request import Request

#: Tolerated ratio of privacy to sampling variance in the radius rules.
PHI = 0.1
#: Share of the budget (mu^2; eps when delta = 0) of the first of two stages.
STAGE_ONE = 0.2


@dataclass(frozen=True)
class StageBudget:
    """A budget that stages share: mu^2 of a Gaussian plan, or eps of a pure one.

    Attributes
    ----------
    mu, eps : float
        One of them is positive.
    """

    mu: float = 0.0
    eps: float = 0.0

    def part(self, share: float) -> Gaussian | Pure:
        """Return the mechanism that a share of the budget buys."""
        if self.eps > 0:
            return Pure(self.eps * share)
        return Gaussian(self.mu * math.sqrt(share))

    def rest(self, share: float) -> StageBudget:
        """Return what is left after ``share`` was taken."""
        if self.eps > 0:
            return StageBudget(eps=self.eps * (1.0 - share))
        return StageBudget(mu=self.mu * math.sqrt(1.0 - share))


def stage_shares(request: Request, *, two: bool, scores: float) -> tuple[float, float]:
    """Return the shares of the (first, second) release of moments; ``split=`` before the default.

    ``scores`` is the share of a release of scores (0: none); the stages share the rest. With one
    stage the second share is 0.
    """
    stages = ("first", "second") if two else ("moments",)
    given = request.shares_of((*stages, "scores") if scores > 0 else stages)
    if not two:
        return 1.0 - scores, 0.0
    first = STAGE_ONE * (1.0 - scores) if given is None else given["first"]
    return first, 1.0 - first - scores


def mu_like(mechanism: Gaussian | Pure, q: int) -> float:
    """Return mu, or for Laplace noise the mu with the same variance off the diagonal."""
    if isinstance(mechanism, Pure):
        return mechanism.eps / (math.sqrt(2.0) * gram_l1(q))
    return mechanism.mu


def currency(request: Request) -> StageBudget:
    """Return the budget of a request that buys no ranges."""
    if request.delta == 0:
        return StageBudget(eps=request.eps)
    return StageBudget(mu=mu_gdp(request.eps, request.delta))


def purchase(request: Request, design: Design) -> tuple[Purchase | None, list[Step], StageBudget]:
    """Plan the ranges that must be bought; return them with what they leave."""
    missing = design.unknown
    if not missing:
        return None, [], currency(request)
    shown = ", ".join(f'"{c}": (lower, upper)' for c in missing[:2])
    if request.delta == 0:
        raise RequestError(
            f"delta = 0 buys no ranges (the search has a failure probability): declare them, "
            f"for example bounds={{{shown}}}"
        )
    part = gaussian_part(request, to_be_bought(request, missing))
    return part.purchase, list(part.steps), StageBudget(mu=part.mu).rest(part.share)


def second_radius(mu: float, q: int, n: int, phi: float = PHI) -> float:
    """Return R of a stage whose rows were whitened by a released matrix.

    ``R^2 = min(max(chi2_q(.95), mu sqrt(phi n)), 1.5 chi2_q(1 - .05/n))``: the predictive quantile
    of a Gaussian row, raised until noise is phi of the sampling variance.
    """
    low = chi2_upper(q, 0.05)
    return math.sqrt(min(max(low, mu * math.sqrt(phi * n)), 1.5 * chi2_upper(q, 0.05 / n)))


# -- Expected privacy errors of a moment fit, before any data: for ``plan()``


#: Spread (sd) of a column, and of the residual, in half ranges: a quarter of the range.
_SPREAD = 0.5


def expected_se(
    design: Design,
    mechanism: Gaussian | Pure,
    radius: float,
    n: int,
    relation: str,
    *,
    whitened: bool,
) -> dict[str, float]:
    """Return the expected privacy error of each coefficient (``theory.md``, 3.5).

    Assumed (public, not data): uncorrelated columns about the middle of their ranges, their sd
    and the residual's a quarter of the range. An entry of ``X'y`` has noise sd ``s / sqrt 2``; in
    whitened rows its second moments are n I, in unit rows n times the square of the spread.
    """
    unit = unit_scale(design)
    A, _ = unit.back()
    if not np.isfinite(A).all():
        return {}
    noise = ball_sd(mechanism, radius, design.q, relation) / math.sqrt(2.0) / n
    flat = np.array([c.kind == "intercept" for c in design.columns])
    slope = np.where(flat, 1.0, _SPREAD)
    # whitened: residual in units of its sd, column in units of its own; else 1 / second moment
    size = _SPREAD / slope if whitened else 1.0 / slope**2
    se = noise * np.sqrt(np.sum((A * size) ** 2, axis=1))
    return dict(zip(design.names, se.tolist(), strict=True))
