"""Predictions from released coefficients: eta = X theta, se^2 = x' V x.

The total covariance V = V_sampling + V_privacy carries the noise that was added for privacy, so
intervals of a prediction do too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice
from dpmodels.families import LINKS
from dpmodels.results import inference

if TYPE_CHECKING:
    from dpmodels.results.fit import Fit

__all__ = ["linear_predictor", "regression"]


def linear_predictor(fit: Fit, new: Any, outside: str) -> tuple[Array, Array, Any]:
    """Return (eta, X, index): X is (k, p), NaN in the rows with a missing cell.

    Privacy
    -------
    A function of released coefficients and of ``new``, which is the caller's.
    """
    choice("outside", outside, ("clip", "nan", "extrapolate"))
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)
    eta = X @ np.asarray(fit._record.estimate.params)
    if fit.design.offset is not None:
        eta = eta + _offset(fit, new, outside)
    return eta, X, getattr(new, "index", None)


def _offset(fit: Fit, new: Any, outside: str) -> Array:
    """Return the known part of the linear predictor, ``offset(z)``, at new rows."""
    from dpmodels.formula import build_design

    text = f"~ 0 + I({fit.design.offset})"
    design = build_design(text, fit.design.schema, na=fit.design.na, one_sided_ok=True)
    return np.asarray(design.matrix(new, outside=outside), dtype=float)[:, 0]


def regression(
    fit: Fit,
    new: Any,
    *,
    what: str,
    interval: str | None,
    level: float,
    se_fit: bool,
    outside: str,
) -> Any:
    """Predict a regression with an inverse link: mean (or link), intervals, standard errors.

    Confidence intervals are transformed end points of the linear predictor's; standard errors of
    a mean use the delta method. A prediction interval adds the released residual variance and
    exists for the identity link only.

    Privacy
    -------
    Post-processing of released numbers; see ``Fit.predict``.
    """
    choice("what", what, ("mean", "link"))
    choice("interval", interval, (None, "confidence", "prediction"))
    import pandas as pd

    link = fit.kind.link_name(fit.options)
    shown = LINKS["identity" if what == "link" else link]
    inverse = shown.inverse
    eta, X, index = linear_predictor(fit, new, outside)
    mean = inverse(eta)
    if interval is None and not se_fit:
        return pd.Series(mean, index=index, name="fit")
    est = fit._record.estimate
    se = _spread(X, inference.covariance(est))
    columns = {"fit": mean}
    if interval is not None:
        spread = se
        if interval == "prediction":
            spread = np.sqrt(se**2 + _residual_variance(fit, link))
        bias = est.bias_of(X)
        half = inference.half_width(spread, bias, level, est.use_t)
        columns |= {"lwr": inverse(eta - half), "upr": inverse(eta + half)}
    if se_fit:
        columns["se_fit"] = shown.slope(eta) * se
    return pd.DataFrame(columns, index=index)


def _spread(X: Array, V: Array) -> Array:
    """Return (k,) standard errors of ``X b``; NaN where a coefficient without errors enters."""
    lost = np.isnan(np.diag(V))
    known = np.where(lost[:, None] | lost[None, :], 0.0, V)
    se = np.sqrt(np.einsum("kp,pq,kq->k", X, known, X))
    se[(X[:, lost] != 0).any(axis=1)] = np.nan
    return np.asarray(se)


def _residual_variance(fit: Fit, link: str) -> float:
    if link != "identity":
        raise RequestError('interval="prediction" needs a linear model; use interval="confidence"')
    sigma = fit.stats.get("sigma")
    if sigma is None:
        raise NotReleasedError(
            'interval="prediction" needs the residual variance, which this fit does not '
            "have: none is released with weights=, and nothing is spent on it without "
            "inference=True"
        )
    return float(sigma) ** 2
