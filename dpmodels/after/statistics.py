"""What a release of second moments adds to any fit that is made from one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.after.regression import UNUSABLE, r_squared, regress
from dpmodels.arrays import Array


def kept_moments(m: SecondMoments, back: Array) -> dict[str, Array]:
    """Return the arrays that later analyses read: the release, its noise, its map, its rows."""
    return {
        "released_moments": m.Q,
        "released_noise": m.V,
        "released_map": back,
        "released_rows": np.array([m.rows]),
    }


def fit_statistics(m: SecondMoments, B: Array, a: Array) -> dict[str, float]:
    """Return R-squared of the regression of ``a'w`` on ``B w``, its errors, that of sigma.

    ``sigma_se``: of the residual standard deviation; both sampling parts are those of normal rows.
    """
    assert m.constant is not None
    fit = regress(m, B, a)
    found = r_squared(m, fit, m.constant)
    share = found.share
    if fit.trust < UNUSABLE:  # noise rules, and its errors hold to first order only
        share = replace(share, low=0.0, high=1.0)
    noise = m.form_variance(np.outer(fit.r, fit.r)) / fit.free**2
    spread = noise + 2.0 * fit.v**2 / fit.free
    return {
        "sigma_se": math.sqrt(spread / fit.v) / 2.0,
        **_criteria(m, fit.v * fit.free, len(B), math.sqrt(noise) / fit.v),
        **share.named("r_squared"),
        "adj_r_squared": found.adjusted,
        "r_squared_se_privacy": found.se_privacy,
    }


def _criteria(m: SecondMoments, rss: float, p: int, noise: float) -> dict[str, float]:
    """Return AIC and BIC of the normal model, as R counts (sigma is a parameter), and their error.

    ``noise`` is the relative error of RSS by the noise of the release: an AIC moves by n of it. Two
    models from one release share most of it, but differences below the error are not to be read.
    """
    if m.known is not None or not rss > 0.0:  # of people: rows are not independent
        return {}
    n = m.n_eff
    deviance = n * (math.log(2.0 * math.pi * rss / n) + 1.0)
    return {
        "aic": deviance + 2.0 * (p + 1),
        "bic": deviance + math.log(n) * (p + 1),
        "aic_se_privacy": n * noise,
    }
