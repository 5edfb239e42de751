"""Joint confidence intervals of predictions at several public rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.families import LINKS
from dpmodels.results import inference, joint
from dpmodels.results.contrasts import estimated
from dpmodels.results.effects import linear_predictor


def predicted(function: Any, fit: Any, new: Any, level: float, **words: Any) -> Any:
    """Return predictions with joint confidence intervals over all rows of ``new``.

    A regression with one linear predictor uses the correlation of its predictions. Other models use
    Bonferroni over their intervals.
    """
    if words["interval"] != "confidence":
        raise RequestError(
            'joint=True is for interval="confidence": predict(new, interval="confidence", '
            "joint=True). A prediction interval is of one new response"
        )
    frame = function(fit, new, level=level, **words)
    # of several groups of columns (classes) all intervals count
    lower = [c for c in frame.columns if "lwr" in str(c)]
    k = int(np.isfinite(frame[lower].to_numpy(dtype=float)).sum())
    if k < 2:
        return frame
    each = 1.0 - (1.0 - level) / k
    split = function(fit, new, level=each, **words)
    eta = _linear_predictor(fit, new, words)
    if eta is None:
        widths = joint.Widths(np.zeros(k), k, 0.0, each)
        frame = split
    else:
        at, X, shape = eta
        est, V = fit._record.estimate, inference.covariance(fit._record.estimate)
        se = np.sqrt(np.einsum("kp,pq,kq->k", X, V, X))
        widths = joint.widths_of(se, est.bias_of(X), X @ joint.factor_of(V), level, est.use_t)
        frame["lwr"], frame["upr"] = shape(at - widths.half), shape(at + widths.half)
    biased = fit._record.estimate.bias is not None
    frame.attrs["joint"] = joint.note_of(widths, level, biased=biased, tests=False)
    return frame


def _linear_predictor(fit: Any, new: Any, words: Mapping[str, Any]) -> Any:
    """Return (linear predictor, X, function to the scale of the answer), or None if it has none."""
    est, path = fit._record.estimate, fit.kind.predict
    several = isinstance(fit.options.get("tau"), (list, tuple)) and len(fit.options["tau"]) > 1
    if not est.released or several or not np.isfinite(inference.covariance(est)).all():
        return None
    if path.endswith((":regression", ":predict_quantiles")):
        eta, X, _ = linear_predictor(fit, new, words["outside"])
        link = "identity" if words["what"] == "link" else fit.kind.link_name(fit.options)
        return eta, X, LINKS[link].inverse
    if path.endswith(":hazards") and words["what"] != "survival":
        X = estimated(fit, fit.design.matrix(new, outside=words["outside"]))
        return X @ np.asarray(est.params), X, np.exp if words["what"] == "risk" else np.asarray
    return None
