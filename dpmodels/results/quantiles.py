"""Predictions of one or several quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.results.predict import regression

if TYPE_CHECKING:
    from dpmodels.results.fit import Fit

__all__ = ["predict_quantiles"]


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
