"""Backend of ``dp_ols(method="gptr")`` and ``"adaops"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.models.linear.gptr_plan import plan
from dpmodels.models.linear.gptr_release import noise_bound, release
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.models.linear.gptr_release import LinearReleased
    from dpmodels.planning import Plan
    from dpmodels.release import Release

__all__ = ["estimate", "plan", "release"]


# -- Estimates of posterior sampling and score perturbation, from released numbers alone


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the draws back to the design's own units; ``params`` is their mean."""
    design = release.design
    if not release.reply:
        note = (
            "The ranges could not be found within the budget. Declare them, for example "
            "bounds={'x': (0, 10)}: declared ranges cost nothing."
        )
        return Estimate.silent(design.names, note)
    released: LinearReleased = release.detail
    A, a = released.unit.back()
    draws = release.values["draws"] @ A.T + a
    bound = noise_bound(released)
    notes = [
        "No standard errors: the covariance of the noise is a function of the data. In working "
        f"units (half-ranges) the noise of a coefficient has sd at most {bound:.3g} a draw. For "
        "intervals use method='ssp' or 'pmt'.",
    ]
    if released.lam > 0:
        notes.append(
            f"A ridge of {released.lam:.4g} (working units) was chosen from released numbers: the "
            "coefficients are shrunk towards the centres of the ranges."
        )
    if released.raised:
        notes.append("lam= was too small for the released bounds and was raised.")
    stats = {"noise_sd_bound": bound, "ridge": released.lam, "lam_star": released.lam_star}
    for name, value in (("gamma", released.gamma), ("score_noise_sd", released.sigma)):
        if value == value:
            stats[name] = value
    if released.rbar == released.rbar:
        stats |= {"eigenvalue_lower_bound": released.lam_min, "residual_bound": released.rbar}
    arrays = {"draws": draws} if len(draws) > 1 else {}
    return Estimate(design.names, draws.mean(0), stats=stats, notes=tuple(notes), arrays=arrays)


# --
