"""A fit under statsmodels' names, for code that was written for its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import NotReleasedError
from dpmodels.results import inference

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.fit import Fit

__all__ = ["StatsmodelsLike"]


class StatsmodelsLike:
    """What a reader of a statsmodels result asks a fit for; everything per row is absent.

    Parameters
    ----------
    fit : Fit

    Privacy
    -------
    Post-processing of released numbers.
    """

    _PASSED = (
        "params", "bse", "tvalues", "pvalues", "nobs", "df_model", "use_t", "rsquared",
        "rsquared_adj", "fvalue", "f_pvalue", "summary",
    )  # fmt: skip

    def __init__(self, fit: Fit) -> None:
        self._fit = fit

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._fit, name)

    @property
    def df_resid(self) -> float:
        """Public rows less coefficients; NaN where n is private."""
        n = self._fit.nobs
        return np.nan if n is None else float(n - len(self._fit.params))

    @property
    def scale(self) -> float:
        """Residual variance."""
        sigma = self._fit.stats.get("sigma")
        if sigma is None:
            raise NotReleasedError("scale was not released by this fit")
        return float(sigma) ** 2

    def conf_int(self, alpha: float = 0.05, cols: Any = None) -> pd.DataFrame:
        """Return intervals, columns 0 and 1."""
        table = self._fit.conf_int(alpha=alpha)
        table = table.set_axis([0, 1], axis=1)
        return table if cols is None else table.iloc[cols]

    def cov_params(self, r_matrix: Any = None) -> Any:
        """Return the covariance of the coefficients, or of their combinations."""
        V = self._fit.vcov()
        if r_matrix is None:
            return V
        R = np.atleast_2d(np.asarray(r_matrix, dtype=float))
        return R @ inference.covariance(self._fit._record.estimate) @ R.T

    def predict(self, exog: Any) -> Any:
        """Return predictions at new rows: there is no default, a fit keeps no data."""
        return self._fit.predict(exog)

    def t_test(self, r_matrix: Any) -> Any:
        """Return tests of combinations, one by one."""
        return self._fit.t_test(r_matrix)

    def f_test(self, r_matrix: Any) -> Any:
        """Return a joint test as an F."""
        return self._fit.f_test(r_matrix)

    def wald_test(self, r_matrix: Any, use_f: bool = False, **_: Any) -> Any:
        """Return a joint test."""
        return self._fit.wald_test(r_matrix, use_f=use_f)

    def __dir__(self) -> list[str]:
        own = ("df_resid", "scale", "conf_int", "cov_params", "predict", "t_test", "f_test")
        return sorted({*self._PASSED, *own, "wald_test"})
