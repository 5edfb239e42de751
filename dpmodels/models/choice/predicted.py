"""What models of categories predict: probabilities of the classes at public rows, or the class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice
from dpmodels.models.choice.likelihood import Classes, Multinomial, ProportionalOdds, probabilities

if TYPE_CHECKING:
    from dpmodels.results.fit import Fit

__all__ = ["ordered", "unordered"]


def ordered(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict by proportional odds: ``what="probs"``, or the likeliest ``"class"``.

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
    return _shown(fit, new, classes, theta, X, what, interval, se_fit)


def unordered(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict by a multinomial logit: ``what="probs"``, or the likeliest ``"class"``.

    Privacy
    -------
    Post-processing of released numbers; see ``Fit.predict``.
    """
    classes = Multinomial(len(fit.design.levels))
    theta = np.asarray(fit._record.estimate.params)
    return _shown(fit, new, classes, theta, _rows(fit, new, outside), what, interval, se_fit)


def _rows(fit: Fit, new: Any, outside: str) -> Array:
    return np.asarray(fit.design.matrix(new, outside=outside), dtype=float)


def _shown(
    fit: Fit, new: Any, classes: Classes, theta: Array, X: Array, what: str, interval: str | None,
    se_fit: bool,
) -> Any:  # fmt: skip
    import pandas as pd

    what = "class" if what == "mean" else what
    choice("what", {"prob": "probs"}.get(what, what), ("probs", "class"))
    if interval is not None or se_fit:
        raise RequestError(
            "probabilities of classes have no interval= and no se_fit=: predict(new, what='probs')"
        )
    index, levels = getattr(new, "index", None), list(fit.design.levels)
    missing: Any = np.isnan(X).any(axis=1) | bool(np.isnan(theta).any())
    p = probabilities(classes, np.nan_to_num(theta), np.where(missing, 0.0, X.T)).T
    p = np.where(missing[:, None], np.nan, p)
    if what == "prob":
        return pd.DataFrame(p, index=index, columns=levels)
    best = np.where(missing, 0, np.nan_to_num(p, nan=-1.0).argmax(axis=1))
    out = pd.Series([levels[k] for k in best.tolist()], index=index, name="class")
    return out.mask(missing) if missing.any() else out
