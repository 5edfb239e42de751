"""Predictions from released coefficients: eta = X theta, se^2 = x' V x; quantiles; classes.

The total covariance V = V_sampling + V_privacy carries the noise that was added for privacy, so
intervals of a prediction do too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotPrivateWarning, NotReleasedError, RequestError, choice
from dpmodels.families import LINKS
from dpmodels.quiet import tell
from dpmodels.results import inference

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.release import Estimate
    from dpmodels.results.fit import Fit


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
    se = spread(X, inference.covariance(est))
    columns = {"fit": mean}
    if interval is not None:
        wide = se
        if interval == "prediction":
            wide = np.sqrt(se**2 + _residual_variance(fit, link))
        bias = est.bias_of(X)
        half = inference.half_width(wide, bias, level, est.use_t)
        columns |= {"lwr": inverse(eta - half), "upr": inverse(eta + half)}
    if se_fit:
        columns["se_fit"] = shown.slope(eta) * se
    return pd.DataFrame(columns, index=index)


def widths(est: Estimate, X: Array, level: float) -> tuple[Array, Array]:
    """Return (standard errors, half widths of bias-aware intervals) of ``X b``, (k,) each."""
    se = spread(X, inference.covariance(est))
    return se, inference.half_width(se, est.bias_of(X), level, est.use_t)


def spread(X: Array, V: Array) -> Array:
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


def predict_quantiles(
    fit: Fit,
    new: Any,
    *,
    what: str,
    interval: str | None,
    level: float,
    se_fit: bool,
    outside: str,
) -> Any:
    """Predict quantiles at new rows.

    One quantile: as any regression. Several: a frame with a column a quantile; where fitted
    quantiles cross they are rearranged, in every row in ascending order (Chernozhukov,
    Fernandez-Val and Galichon 2010: never further from the truth).

    Privacy
    -------
    Post-processing of released numbers; see ``Fit.predict``.
    """
    import pandas as pd

    taus = fit.options["tau"]
    if not isinstance(taus, (list, tuple)) or len(taus) < 2:
        return regression(
            fit, new, what=what, interval=interval, level=level, se_fit=se_fit, outside=outside
        )
    if interval is not None or se_fit:
        raise RequestError(
            "intervals of predictions are given for one quantile: fit tau=0.5, say, by itself"
        )
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)
    params = np.asarray(fit._record.estimate.params).reshape(len(taus), X.shape[1])
    values = np.sort(X @ params.T, axis=1)
    index = getattr(new, "index", None)
    return pd.DataFrame(values, index=index, columns=[f"tau = {t:g}" for t in sorted(taus)])


def _log_posterior(x: Array, prior: Array, means: Array, variances: Array) -> Array:
    """Return (n, K): ``log prior_k - sum_j [(x_j - m_kj)^2 / v_kj + log v_kj] / 2``."""
    out = np.empty((len(x), len(prior)))
    for k, (m, v) in enumerate(zip(means, variances, strict=True)):
        distance = ((x - m) ** 2 / v).sum(axis=1)
        out[:, k] = np.log(prior[k]) - 0.5 * (distance + np.log(v).sum())
    return out


def predict_class(
    fit: Fit,
    new: Any,
    *,
    what: str,
    interval: str | None,
    level: float,
    se_fit: bool,
    outside: str,
) -> Any:
    """Predict classes (``what="class"``) or their probabilities (``"prob"``).

    Privacy
    -------
    Post-processing of released numbers; a prediction for a private row is as private as the row.
    """
    import pandas as pd

    choice("what", what, ("mean", "class", "prob"))
    if interval is not None or se_fit:
        raise RequestError("a classifier has no interval= and no se_fit=; use what='prob'")
    design, arrays = fit.design, fit.arrays
    keep = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    x = np.asarray(design.matrix(new, outside=outside), dtype=float)[:, keep]
    index = getattr(new, "index", None)
    levels = list(design.levels)
    missing = np.isnan(x).any(axis=1)
    if fit.released:
        score = _log_posterior(x, arrays["prior"], arrays["means"], arrays["variances"])
    else:
        score = np.full((len(x), len(levels)), np.nan)
        missing[:] = True
    if what == "prob":
        score = score - score.max(axis=1, keepdims=True)
        p = np.exp(score)
        return pd.DataFrame(p / p.sum(axis=1, keepdims=True), index=index, columns=levels)
    best = np.where(missing, 0, np.nan_to_num(score, nan=-np.inf).argmax(axis=1))
    classes = pd.Series([levels[k] for k in best.tolist()], index=index, name="class")
    return classes.mask(missing) if missing.any() else classes


def _truth(fit: Fit, new: Any) -> list[Any]:
    """Return the true class of each public row as the model reads it; None where it is missing."""
    from dpmodels.formula import build_design
    from dpmodels.formula.coerce import coerce
    from dpmodels.schema import Levels

    design, levels = fit.design, list(fit.design.levels)
    name = design.response.term
    variable = design.schema[name] if name in design.schema else None  # noqa: SIM401
    if variable is not None and name not in new:
        raise RequestError(f"the new data has no column {name!r}, the response")
    if isinstance(variable, Levels):
        codes = coerce(new[name], variable)
        return [variable.levels[c] if c >= 0 else None for c in codes.tolist()]
    if variable is not None:
        cells = np.asarray(coerce(new[name], variable), dtype=float)
    else:
        text = "~ 0 + " + design.formula.partition("~")[0]
        event = build_design(text, design.schema, na=design.na, one_sided_ok=True)
        cells = np.asarray(event.matrix(new), dtype=float)[:, -1]
    return [levels[int(c)] if c in (0.0, 1.0) else None for c in cells.tolist()]


def _guess(fit: Fit, new: Any) -> list[Any]:
    """Return the predicted class of each public row: of an event, the likelier side."""
    predicted = fit.predict(new)
    if fit.design.response.kind == "event":
        no, yes = fit.design.levels
        return [None if q != q else (yes if q > 0.5 else no) for q in predicted.tolist()]
    return [None if v != v else v for v in predicted.tolist()]


def confusion_table(fit: Fit, new: Any) -> pd.DataFrame:
    """Count public test rows by true class (rows) and predicted class (columns).

    Parameters
    ----------
    fit : Fit
        Of a classifier, or of ``dp_glm(family="binomial")``, which predicts the event where its
        probability exceeds one half.
    new : DataFrame
        **Public** test data with the variables of the response. Rows without a known class or
        prediction are not counted.

    Privacy
    -------
    A function of released numbers and of ``new``; on private rows the table would be a release
    that nobody paid for.
    """
    import pandas as pd

    response = fit.design.response
    if response is None or len(fit.design.levels) < 2:
        raise RequestError(
            f"{fit.kind.name} does not predict classes: confusion_table() and balanced_error() "
            'take a fit of dp_bayes, or of dp_glm(family="binomial")'
        )
    if fit.nobs is not None and fit.nobs == len(new):
        text = (
            f"these are {len(new)} rows, as many as the fit was made from. If they are the same, "
            "this table is a release that nobody paid for: NOT PRIVATE. Use public rows"
        )
        tell(NotPrivateWarning(text))
    levels = list(fit.design.levels)
    at = {level: k for k, level in enumerate(levels)}
    counts = np.zeros((len(levels), len(levels)), dtype=int)
    for true, guess in zip(_truth(fit, new), _guess(fit, new), strict=True):
        if true in at and guess in at:
            counts[at[true], at[guess]] += 1
    table = pd.DataFrame(counts, index=levels, columns=levels)
    return table.rename_axis(index="true", columns="predicted")


def balanced_error(fit: Fit, new: Any) -> float:
    """Return one minus the mean recall over the classes present in public test data.

    Parameters
    ----------
    fit, new
        As in :func:`confusion_table`.

    Returns
    -------
    float
        NaN if the fit gave no reply.

    Privacy
    -------
    As :func:`confusion_table`.
    """
    table = confusion_table(fit, new).to_numpy(dtype=float)
    total = table.sum(axis=1)
    present = total > 0
    if not present.any():
        if not fit.released:
            return float("nan")
        raise RequestError(
            f"no row of the new data has one of the classes {list(fit.design.levels)!r} and a "
            "prediction: compare the cells of the response with the declared levels"
        )
    return float(1.0 - (np.diag(table)[present] / total[present]).mean())
