"""Classes and probabilities from released class statistics; errors on public test data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.estimate import Array
from dpmodels.results._predict import choice

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.fit import Fit

__all__ = ["balanced_error", "confusion_table", "predict_class"]


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


def confusion_table(fit: Fit, new: Any) -> pd.DataFrame:
    """Count public test rows by true class (rows) and predicted class (columns).

    Parameters
    ----------
    fit : Fit
        Of a classifier.
    new : DataFrame
        **Public** test data with the response column.

    Privacy
    -------
    A function of released numbers and of ``new``; on private rows the table would be a release
    that nobody paid for.
    """
    import pandas as pd

    truth = pd.Series(new[fit.design.response.name])
    guess = fit.predict(new)
    levels = list(fit.design.levels)
    table = pd.crosstab(truth.to_numpy(), guess.to_numpy())
    out: pd.DataFrame = table.reindex(index=levels, columns=levels, fill_value=0)
    return out.rename_axis(index="true", columns="predicted")


def balanced_error(fit: Fit, new: Any) -> float:
    """Return one minus the mean recall over the classes present in public test data.

    Parameters
    ----------
    fit, new
        As in :func:`confusion_table`.

    Privacy
    -------
    As :func:`confusion_table`.
    """
    table = confusion_table(fit, new).to_numpy(dtype=float)
    total = table.sum(axis=1)
    present = total > 0
    return float(1.0 - (np.diag(table)[present] / total[present]).mean())
