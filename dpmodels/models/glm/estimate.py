"""Coefficients and standard errors of a private GLM, from released numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.glm.newton import back_map
from dpmodels.models.glm.plan import SCALE_STEP, GlmDetail
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.models.glm.release import GlmReleased
    from dpmodels.planning import Plan
    from dpmodels.release import Release

_NO_RANGES = (
    "The ranges could not be found within the budget. Declare them, for example "
    "bounds={'x': (0, 10)}: declared ranges cost nothing."
)
_NOT_CERTIFIED = (
    "The optimum was not certified within the planned passes, so that a fixed answer (the centre "
    "of the ridge, plus noise) was released in its place; it says nothing about the coefficients. "
    "A larger lam=, a tighter cap on counts or fewer columns would help."
)
#: A ridge bias beyond this many standard errors (noise and sampling) is spoken of.
_LOUD = 1.0

#: Share of empty rows from which it is named, and noise sds it must exceed.
EMPTY, SEEN = 0.05, 3.0


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


def ridge_bias(information: Array, lam: float, theta: Array) -> tuple[Array, float]:
    """Return the bias that the ridge leaves in ``theta``, to first order, and its largest share.

    The stationary point theta = (H + lam)^{-1} H theta_0 lacks lam H^{-1} theta, a function of
    released numbers. Along an eigenvector with information w the lacking share is lam / w, here
    at most 1: where the ridge exceeds the information, w is mostly noise, and the bias is taken
    to be as large as the estimate itself.
    """
    values, vectors = np.linalg.eigh((information[0] + information[0].T) / 2.0)
    share = lam / np.maximum(values, lam)
    return vectors @ (share * (vectors.T @ theta)), float(share.max())


def _reach_note(detail: GlmDetail) -> str:
    """Return what the weights of long rows do to the estimate."""
    return (
        f"Rows longer than {detail.radius:.3g} in working units (radius=; columns with "
        + ("about unit variance" if detail.rescale else "unit half-ranges")
        + ") were weighted down"
        + (", rows longer than twice that left out. " if detail.loss.one_sided else ". ")
        + "Where the model holds only approximately, the coefficients "
        "differ from the unweighted fit's; a larger radius= weighs down less and adds noise."
    )


def _empty_note(plan: Plan[Any], release: Release, detail: GlmDetail) -> list[str]:
    """Say which share of the rows was empty, where the released count shows it above its noise."""
    if "sums" not in release.values or plan.n is None:
        return []
    from dpmodels.exact.prove import noise_of
    from dpmodels.exact.statistics import Powers

    sums = release.values["sums"]
    d = (len(sums) - 1) // 2
    sd = float(noise_of(Powers(d), Gaussian(detail.mu[SCALE_STEP]), detail.relation)[0])
    lost = plan.n - float(sums[0])
    if lost <= max(EMPTY * plan.n, SEEN * sd):
        return []
    outside = ", or outside subset=," if release.design.subset else ""
    return [
        f"About {lost / plan.n:.0%} of the rows were empty (from the released count, free). A row "
        "is empty where a cell is missing, cannot be read as its declared kind or is not a "
        f"declared level{outside}: compare the spelling of levels."
    ]


def estimate(plan: Plan[GlmDetail], release: Release) -> Estimate:
    """Map the release back to the design's own units."""
    detail = plan.detail
    design = release.design
    names = design.names
    if not release.reply:
        note = _NO_RANGES if "theta" not in release.values else _NOT_CERTIFIED
        return Estimate.silent(names, note)
    released: GlmReleased = release.detail
    A = back_map(released.scale, released.shift, design.has_intercept)
    theta = release.values["theta"]
    sampling = privacy = None
    ridge = f"A ridge of {released.lam:.4g} (working units) keeps the fit stable and private"
    notes: list[str] = []
    if "information" in release.values:
        sampling, privacy = covariances(release.values["information"], released.sigma, released.lam)
        sampling, privacy = A @ sampling @ A.T, A @ privacy @ A.T
        bias, share = ridge_bias(release.values["information"], released.lam, theta)
        bias = A @ bias
        spread = np.sqrt(np.diag(sampling) + np.diag(privacy))
        # the ridge is there for privacy: its bias counts as error of the privacy part
        privacy = privacy + np.outer(bias, bias)
        notes.append(
            f"{ridge}; it shrinks the coefficients towards zero on the centred columns, along "
            f"the least informed direction by about {100 * share / (1 + share):.2g}% of their "
            "size."
        )
        kind = "model-based" if len(release.values["information"]) == 1 else "robust (sandwich)"
        notes.append(
            f"Standard errors are {kind}, from a released information matrix; their privacy part "
            "contains the noise and, to first order, the ridge's bias."
        )
        if bool((np.abs(bias) > _LOUD * spread).any()):
            # a note, not a warning: warnings are the same for neighbours, this reads the release
            notes.append(
                "That bias exceeds the other errors of a coefficient: intervals are wide for it. "
                "More rows, a larger ε or narrower ranges"
                + ("" if detail.loss.one_sided else " (of the counts first)")
                + " would help."
            )
    else:
        notes.append(f"{ridge}; it shrinks the coefficients towards zero on the centred columns.")
    if sampling is not None:
        notes.append(
            "No z and p: the ridge's bias is in the errors to first order only, and no interval "
            'that holds all of it has been measured. method="scoring" gives tests.'
        )
    notes.append(_reach_note(detail))
    notes += _empty_note(plan, release, detail)
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
        notes=(*plan.sentences, *notes),
        arrays=arrays,
        untested=None if sampling is None else np.ones(len(names), dtype=bool),
    )
