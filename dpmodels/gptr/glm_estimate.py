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

    theta minimises F + sigma b'theta, so theta - theta_0 is about -H^{-1}(score + sigma b):
    covariances H^{-1} J H^{-1} and sigma^2 H^{-2}, H with the ridge. ``information`` holds the
    released H (without ridge) and J, or one matrix for both (the information equality).
    Eigenvalues below 0 are noise and count as 0.
    """
    H, J = information[0], information[-1]
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    inverse = (vectors / (np.maximum(values, 0.0) + lam)) @ vectors.T
    scores, directions = np.linalg.eigh((J + J.T) / 2.0)
    half = inverse @ (directions * np.sqrt(np.maximum(scores, 0.0)))
    return half @ half.T, sigma**2 * inverse @ inverse


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
        kind = "model-based" if len(release.values["information"]) == 1 else "robust (sandwich)"
        notes.append(
            f"Standard errors are {kind}, from a released information matrix; they contain the "
            "privacy noise, not the ridge's bias."
        )
    else:
        notes.append("No standard errors: inference=False spends nothing on them.")
    arrays = {}
    if detail.public_params:
        arrays["public_params"] = np.array(detail.public_params)
        listed = ", ".join(f"{k} {v:.4g}" for k, v in zip(names, detail.public_params, strict=True))
        notes.append(f"The public data alone give (no privacy cost): {listed}.")
    return Estimate(
        names,
        A @ theta,
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats={"ridge": released.lam, "score_noise_sd": released.sigma, "radius": detail.radius},
        notes=tuple(notes),
        arrays=arrays,
    )
