"""Coefficients and standard errors of a private GLM, from released numbers alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.estimate import Estimate

if TYPE_CHECKING:
    from dpmodels.gptr.glm_plan import GlmDetail
    from dpmodels.gptr.glm_release import GlmReleased
    from dpmodels.planning import Plan
    from dpmodels.release import Release

__all__ = ["back_map", "covariances", "estimate"]

Array = npt.NDArray[np.float64]


def back_map(scale: Array, shift: Array, intercept: bool) -> Array:
    """Return A with beta = A theta: eta = sum theta_j (s_j x_j + h_j)."""
    A = np.diag(scale)
    if intercept:
        A[0] = np.where(np.arange(len(scale)) == 0, 1.0, shift)
    return A


def covariances(information: Array, sigma: float, lam: float) -> tuple[Array, Array]:
    """Return (sampling, privacy) covariance of the working coefficients.

    theta minimises F + sigma b'theta, so theta - theta_0 is about -H^{-1}(score + sigma b) with
    H = J + lam I: covariances H^{-1} J H^{-1} and sigma^2 H^{-2}. Eigenvalues of the released J
    below 0 are noise and count as 0.
    """
    values, vectors = np.linalg.eigh((information + information.T) / 2.0)
    values = np.maximum(values, 0.0)
    inverse = 1.0 / (values + lam)
    sampling = (vectors * (values * inverse**2)) @ vectors.T
    privacy = (vectors * (sigma * inverse) ** 2) @ vectors.T
    return sampling, privacy


def estimate(plan: Plan, release: Release) -> Estimate:
    """Map the release back to the design's own units."""
    detail: GlmDetail = plan.detail
    design = release.design
    names = design.names
    if not release.reply:
        note = (
            "The ranges could not be found within the budget. Declare them, for example "
            "bounds={'x': (0, 10)}: declared ranges cost nothing."
        )
        return Estimate(names, np.full(design.p, math.nan), released=False, notes=(note,))
    released: GlmReleased = release.detail
    A = back_map(released.scale, released.shift, design.has_intercept)
    theta = release.values["theta"]
    sampling = privacy = None
    notes = [
        f"A ridge of {released.lam:.4g} (working units) keeps the fit stable and private; "
        "coefficients are shrunk a little towards the centre of the columns.",
    ]
    if "information" in release.values:
        sampling, privacy = covariances(release.values["information"], released.sigma, released.lam)
        sampling, privacy = A @ sampling @ A.T, A @ privacy @ A.T
        notes.append(
            "Standard errors are model-based (released information matrix); they contain the "
            "privacy noise, not the ridge's bias."
        )
    else:
        notes.append("No standard errors: inference=False spends nothing on them.")
    return Estimate(
        names,
        A @ theta,
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats={"ridge": released.lam, "score_noise_sd": released.sigma, "radius": detail.radius},
        notes=tuple(notes),
    )
