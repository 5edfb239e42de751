"""The ending of ``pmt`` by scoring: the passes of :mod:`.scored`, whitened by public moments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.models.linear import scored
from dpmodels.models.linear.pmt import beside, diagnostics, whitening_of, with_public
from dpmodels.models.linear.public import public_fit
from dpmodels.models.linear.scored import LinearModel, ScoredDetail, release, start_stage

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

__all__ = ["estimate", "plan", "release"]


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="pmt")`` that ends by scoring."""
    return scored.plan(request, design, n, whitening_of(request, design, n))


def _unlike(plan: Plan[ScoredDetail], release: Release) -> tuple[str, ...]:
    """Return warnings where the start is unlike the public rows; of people none is released."""
    if plan.request.unit is not None:
        return ()
    detail = plan.detail
    return tuple(diagnostics(start_stage(plan, release), detail.guide.start(detail.rows)))


def estimate(plan: Plan[ScoredDetail], release: Release) -> Estimate:
    """Return the estimate of a scoring fit, beside the public-only fit."""
    detail = plan.detail
    model = detail.model
    assert isinstance(model, LinearModel) and model.white is not None
    white = model.white
    found = scored.estimate(plan, release)
    public = None
    if white.moments.response_scale is None:
        public = public_fit(white.moments)
    notes, arrays = list(found.notes), dict(found.arrays)
    if public is not None:
        notes.append(beside(public, release.design.names))
        arrays |= {"public_params": public.params, "public_bse": public.bse}
    found = replace(
        found,
        notes=tuple(notes),
        arrays=arrays,
        warnings=(*found.warnings, *_unlike(plan, release)),
        stats={**found.stats, "shrinkage_of_public_moments": white.shrink},
    )
    return with_public(found, public, plan.request)
