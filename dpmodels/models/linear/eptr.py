"""Backend of ``dp_ols(method="eptr")``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.linear.eptr_plan import plan, working_radius
from dpmodels.models.linear.eptr_release import release
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.models.linear.eptr_plan import OlsDetail
    from dpmodels.models.linear.eptr_release import OlsReleased
    from dpmodels.planning import Plan
    from dpmodels.release import Release

__all__ = ["covariances", "estimate", "plan", "release"]


# -- Coefficients and standard errors of ePTR least squares, from released numbers alone


def covariances(
    detail: OlsDetail, released: OlsReleased, values: dict[str, Array], n: int, p: int
) -> tuple[Array, Array, float]:
    """Return (sampling covariance, privacy covariance, s2) of the *working* coefficients.

    T = W St W with eigenvalues floored at the released lower bound; the residual sum contains
    sigma^2 tr T of privacy noise, which is taken off:
    ``s2 = max((q - sigma^2 tr T) / (m - p), c^2 / (mu_q (m - p)))``.
    """
    W = np.eye(p) if released.whitening is None else released.whitening
    T = W @ values["scale"] @ W
    eigenvalues, vectors = np.linalg.eigh((T + T.T) / 2.0)
    eigenvalues = np.maximum(eigenvalues, max(released.lower, 1e-12 * n))
    # With an intercept, cell (0, 0) of the released matrix is the noisy sum of squared weights:
    # rows voided by a missing cell do not count.
    m = float(n)
    if released.unit.intercept:
        m = min(m, max(float(values["scale"][0, 0]), n / 10.0))
    free = max(m - p, 1.0)
    sigma2 = released.sigma**2
    q = float(values["residual"])
    c2 = detail.ry**2
    s2 = max((q - sigma2 * float(eigenvalues.sum())) / free, c2 / (detail.mu["variance"] * free))
    sampling = s2 * (vectors / eigenvalues) @ vectors.T
    return sampling, sigma2 * np.eye(p), s2


def estimate(plan: Plan[OlsDetail], release: Release) -> Estimate:
    """Map the release back to the design's own units."""
    detail = plan.detail
    design = release.design
    p, names = design.p, design.names
    assert plan.n is not None
    if not release.reply:
        return Estimate.silent(names, *_no_reply(release.why))
    released: OlsReleased = release.detail
    A, a = released.unit.back()
    W = np.eye(p) if released.whitening is None else released.whitening
    # theta_unit = W theta, then the affine map of the ranges.
    B = A @ W
    theta = release.values["theta"]
    params = B @ theta + a
    notes = [_scaled_rows(detail, p)]
    warnings: list[str] = []
    stats = {"noise_sd": released.sigma, "coefficient_bound": released.rtheta}
    if detail.form == "auto":
        stats["eigenvalue_lower_bound"] = released.lower
        if released.sigma * math.sqrt(p) > released.rtheta:
            warnings.append(
                "the privacy noise exceeds the bound on the coefficients: the estimate says "
                "little. More rows, a larger eps or fewer columns would help"
            )
    privacy = released.sigma**2 * B @ B.T
    sampling = None
    if "residual" in release.values and released.ridge == 0.0:
        cov, _, s2 = covariances(detail, released, dict(release.values), plan.n, p)
        sampling = B @ cov @ B.T
        stats["sigma"] = math.sqrt(s2) / float(released.unit.scale[-1])
        if not released.unit.intercept:
            notes.append(
                "Without an unweighted intercept the number of complete rows is not known: if "
                "rows are missing, sigma and the sampling errors are too small."
            )
    if released.ridge > 0.0:
        stats["ridge"] = released.ridge
        notes.append(
            "A ridge, computed from the released bound, kept the estimate stable: the "
            "coefficients are shrunk, and no standard errors or intervals are given."
        )
    return Estimate(
        names,
        params,
        vcov_sampling=sampling,
        vcov_privacy=None if released.ridge > 0.0 else privacy,
        stats=stats,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _scaled_rows(detail: OlsDetail, p: int) -> str:
    """Return what the bound on the rows makes of the coefficients: public, said of every fit."""
    long = f"Rows longer than {working_radius(detail, p):.3g} in working units"
    if detail.project:
        return f"{long} had their predictors scaled down, which biases the coefficients."
    return (
        f"{long} were scaled down: weighted least squares. Where the model holds only "
        "approximately, or the spread of the errors varies, it differs from ordinary least "
        "squares by more than the standard errors say. method='ssp' weighs down less."
    )


def _no_reply(why: str) -> tuple[str, ...]:
    if why == "ranges":
        return (
            "The ranges could not be found within the budget (too few rows, or a column that "
            "hardly varies). Declare them, for example bounds={'x': (0, 10)}: declared ranges "
            "cost nothing.",
        )
    return ()


# --
