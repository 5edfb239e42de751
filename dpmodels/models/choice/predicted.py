"""What models of categories predict: probabilities of the classes at public rows, or the class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice
from dpmodels.models.choice.likelihood import Classes, Multinomial, ProportionalOdds, probabilities

if TYPE_CHECKING:
    from dpmodels.results.capabilities import Predictions
    from dpmodels.results.fit import Fit

#: Least probability whose log odds are looked at.
_LEAST = 1e-9


def ordered(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict by proportional odds: ``what="probs"``, or the likeliest ``"class"``.

    Probabilities have ``interval="confidence"`` and ``se_fit=``: a row for each row and class.

    Privacy
    -------
    Post-processing of released numbers; see ``Fit.predict``.
    """
    K, X = len(fit.design.levels), _rows(fit, new, outside)
    classes = ProportionalOdds(K, str(fit.options.get("link") or "logistic"))
    params = np.asarray(fit._record.estimate.params)
    slopes = len(params) - (K - 1)
    cuts = np.maximum.accumulate(params[slopes:])  # noise may have crossed two
    theta = np.concatenate([cuts, params[:slopes]])
    places = np.roll(np.arange(len(params)), -(K - 1))  # of the coefficients in theta
    return _shown(fit, new, classes, theta, places, X, what, (interval, se_fit), level)


def unordered(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict by a multinomial logit: ``what="probs"``, or the likeliest ``"class"``.

    Probabilities have ``interval="confidence"`` and ``se_fit=``: a row for each row and class.

    Privacy
    -------
    Post-processing of released numbers; see ``Fit.predict``.
    """
    classes = Multinomial(len(fit.design.levels))
    theta = np.asarray(fit._record.estimate.params)
    X, places = _rows(fit, new, outside), np.arange(len(theta))
    return _shown(fit, new, classes, theta, places, X, what, (interval, se_fit), level)


def _rows(fit: Fit, new: Any, outside: str) -> Array:
    return np.asarray(fit.design.matrix(new, outside=outside), dtype=float)


def _shown(
    fit: Fit, new: Any, classes: Classes, theta: Array, places: Any, X: Array, what: str,
    asked: tuple[str | None, bool], level: float,
) -> Any:  # fmt: skip
    """Return classes, or probabilities: a column a class, with errors a row a row and a class."""
    import pandas as pd

    what = "class" if what == "mean" else what
    choice("what", {"prob": "probs"}.get(what, what), ("probs", "class"))
    choice("interval", asked[0], (None, "confidence"))
    index, levels = getattr(new, "index", None), list(fit.design.levels)
    missing: Any = np.isnan(X).any(axis=1) | bool(np.isnan(theta).any())
    if what == "class" and any(asked):
        raise RequestError(
            "a class has no interval= and no se_fit=: its probability has, predict(new, "
            'what="probs", interval="confidence")'
        )
    u, known = np.where(missing, 0.0, X.T), np.nan_to_num(theta)
    p = np.where(missing[:, None], np.nan, probabilities(classes, known, u).T)
    if any(asked):
        return _with_errors(fit, p, classes.gradients(known, u)[1][:, places], index, asked, level)
    if what == "prob":
        return pd.DataFrame(p, index=index, columns=levels)
    best = np.where(missing, 0, np.nan_to_num(p, nan=-1.0).argmax(axis=1))
    out = pd.Series([levels[k] for k in best.tolist()], index=index, name="class")
    return out.mask(missing) if missing.any() else out


def _with_errors(
    fit: Fit, p: Array, grad: Array, index: Any, asked: tuple[str | None, bool], level: float
) -> Any:
    """Return ``class, fit, lwr, upr, se_fit``, a row a row and a class.

    Parameters
    ----------
    p : (m, K) array
    grad : (K, P, m) array
        By the coefficients. Intervals are symmetric in the log odds of a class.
    """
    import pandas as pd

    levels = list(fit.design.levels)
    odds = np.clip(p, _LEAST, 1.0 - _LEAST)
    slope = odds * (1.0 - odds)  # of p by its log odds
    L = (grad.transpose(2, 0, 1) / slope[:, :, None]).reshape(p.size, -1)
    gone = np.isnan(L).any(axis=1)
    se, half = cast("Predictions", fit)._widths(np.nan_to_num(L), level)
    middle = np.log(odds / (1.0 - odds)).ravel()
    columns: dict[str, Any] = {"class": np.tile(levels, len(p)), "fit": p.ravel()}
    if asked[0] is not None:
        for name, end in (("lwr", middle - half), ("upr", middle + half)):
            columns[name] = np.where(gone, np.nan, 1.0 / (1.0 + np.exp(-end)))
    if asked[1]:
        columns["se_fit"] = np.where(gone, np.nan, se * slope.ravel())
    rows = np.arange(len(p)) if index is None else np.asarray(index)
    return pd.DataFrame(columns, index=np.repeat(rows, p.shape[1]))
