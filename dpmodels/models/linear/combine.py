"""The public-only fit: shown beside the private one, and combined with it on request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array

if TYPE_CHECKING:
    from dpmodels.estimate import Estimate
    from dpmodels.models.linear.public import PublicMoments

__all__ = ["PublicFit", "combined", "public_fit"]


@dataclass(frozen=True, eq=False)
class PublicFit:
    """Least squares on the public rows, in the user's units.

    Attributes
    ----------
    params, bse : (p,) arrays
        ``bse`` NaN where the number of public rows is unknown.
    C : (p, p) array
        Second moments of x.
    m : int or None
    """

    params: Array
    bse: Array
    C: Array
    m: int | None

    def covariance(self, sigma2: float) -> Array | None:
        """Return ``sigma^2 / (m - p - 1) C^{-1}``; None if m is unknown or too small."""
        p = len(self.params)
        if self.m is None or self.m <= p + 1:
            return None
        return np.asarray(sigma2 / (self.m - p - 1.0) * np.linalg.inv(self.C))


def public_fit(public: PublicMoments) -> PublicFit | None:
    """Return the public-only fit; None where the public rows do not determine one."""
    C = np.asarray(public.moments, dtype=float)
    p = len(C) - 1
    scale = np.sqrt(np.diag(C)[:p])
    unit = C[:p, :p] / np.outer(scale, scale)
    if (public.m is not None and public.m <= p) or np.linalg.eigvalsh(unit)[0] < 1e-12:
        return None
    inverse = np.linalg.inv(unit) / np.outer(scale, scale)
    params = inverse @ C[:p, p]
    bse = np.full(p, math.nan)
    if public.m is not None:
        rss = max(float(C[p, p] - C[:p, p] @ params), 0.0) * public.m / (public.m - p)
        bse = np.sqrt(rss / public.m * np.diag(inverse))
    return PublicFit(params, bse, C[:p, :p], public.m)


def combined(estimate: Estimate, public: PublicFit) -> Estimate:
    """Combine by precision, under the assumption that both sources share the coefficients.

    ``d <- (P + K)^{-1} (P d + K d_public)``, covariance ``(P + K)^{-1}``; its privacy part is what
    the privacy noise of d leaves in it.
    """
    if estimate.vcov_sampling is None or estimate.vcov_privacy is None:
        return replace(
            estimate,
            notes=(
                *estimate.notes,
                "combine=True had nothing to combine: no covariance was released.",
            ),
        )
    prior = public.covariance(float(estimate.stats["sigma"]) ** 2)
    if prior is None:
        note = "combine=True had nothing to combine: too few public rows."
        return replace(estimate, notes=(*estimate.notes, note))
    total = estimate.vcov_sampling + estimate.vcov_privacy
    gain = np.linalg.solve((total + prior).T, prior.T).T  # prior (total + prior)^{-1}
    params = public.params + gain @ (estimate.params - public.params)
    cov = prior - gain @ prior
    privacy = gain @ estimate.vcov_privacy @ gain.T
    cov, privacy = (cov + cov.T) / 2.0, (privacy + privacy.T) / 2.0
    note = (
        f"Combined with the public fit by precision (combine=True, m = {public.m}): the public and "
        "the private rows are assumed to share their coefficients."
    )
    return replace(
        estimate,
        params=params,
        vcov_sampling=cov - privacy,
        vcov_privacy=privacy,
        notes=(*estimate.notes, note),
        arrays={**estimate.arrays, "params_private": estimate.params},
    )
