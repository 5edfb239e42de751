"""Adapters for other packages: the plug-in for maketables, and the attribute names of statsmodels.

maketables 0.2.0 asks its registered extractors first, and the one for statsmodels takes any object
with ``params``, ``bse`` and ``pvalues``. So where maketables is imported, a new fit registers an
extractor that is asked before: ``ETable([fit1, fit2])`` has our columns and statistics. Where it is
imported after the last fit was made, ``ETable([as_model(fit), ...])`` has them.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np

from dpmodels.errors import NotReleasedError
from dpmodels.lazy import pd
from dpmodels.results import inference
from dpmodels.results.record import Record, row_norm
from dpmodels.results.summary import response_of
from dpmodels.tables.table import also


class MaketablesPlugin:
    """Attributes that ``maketables.ETable`` reads from a fit; a base class of ``Fit``.

    Privacy
    -------
    Post-processing of released numbers: costs nothing.
    """

    __slots__ = ()
    _record: Record

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """Coefficients with columns ``b, se, p`` and those of ``tidy()``, one per row."""
        est = self._record.estimate
        low, high = inference.conf_int(est, 0.95)
        return pd.DataFrame(
            {
                "b": est.params,
                "se": inference.standard_errors(est),
                "t": inference.statistics(est),
                "p": inference.p_values(est),
                "ci95l": low,
                "ci95u": high,
                "se_sampling": inference.standard_errors(est, "sampling"),
                "se_privacy": inference.standard_errors(est, "privacy"),
            },
            index=pd.Index(list(est.names), name="Coefficient"),
        )

    def __maketables_stat__(self, key: str) -> Any:
        """Return one statistic, or None if this fit has no such key."""
        record, promise = self._record, self._record.guarantee
        stats = record.estimate.stats
        values = {
            "N": record.n,
            "eps": promise.eps,
            "delta": promise.delta,
            "method": record.call.method,
            "relation": promise.relation,
            "reply": "released" if record.estimate.released else "no reply",
            "row_norm": row_norm(record.design),
            "r2": stats.get("r_squared"),
            "adj_r2": stats.get("adj_r_squared"),
            "rmse": stats.get("sigma"),
        }
        return values.get(key)

    @property
    def __maketables_depvar__(self) -> str:
        """Text of the response."""
        return response_of(self._record)

    endog_names = also("__maketables_depvar__")  # statsmodels' name for it

    @property
    def __maketables_vcov_info__(self) -> dict[str, str]:
        """Description of the standard errors."""
        robust = self._record.call.options.get("vcov") == "hetero"
        return {"vcov_type": f"sampling{' (hetero)' if robust else ''} + privacy"}

    __maketables_default_stat_keys__: ClassVar[list[str]] = ["N", "method", "eps", "delta"]
    __maketables_stat_labels__: ClassVar[dict[str, str]] = {
        "N": "Observations",
        "eps": "epsilon",
        "delta": "delta",
        "method": "Method",
        "relation": "Neighbours",
        "reply": "Reply",
        "row_norm": "Row norm bound",
        "r2": "R2",
        "adj_r2": "Adjusted R2",
        "rmse": "Residual sd",
    }
    __maketables_fixef_string__ = None
    __maketables_var_labels__ = None


def register() -> None:
    """Register fits with maketables if maketables is imported already.

    Notes
    -----
    **Privacy.** Nothing is read. Called where a fit is made.
    """
    module = sys.modules.get("maketables.extractors")
    registry = getattr(module, "_EXTRACTOR_REGISTRY", None)
    plugin = getattr(module, "PluginExtractor", None)
    if not isinstance(registry, list) or plugin is None:
        return
    if any(type(extractor).__name__ == "FitExtractor" for extractor in registry):
        return

    class FitExtractor(plugin):  # type: ignore[misc, valid-type]
        """Extractor by which maketables reads the attributes of a fit."""

        def can_handle(self, model: Any) -> bool:
            return isinstance(model, MaketablesPlugin)

    registry.insert(0, FitExtractor())


class StatsmodelsLike:
    """Attributes of a statsmodels result; everything per row is absent.

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

    def __init__(self, fit: Any) -> None:
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
        methods = ("df_resid", "scale", "conf_int", "cov_params", "predict", "t_test", "f_test")
        return sorted({*self._PASSED, *methods, "wald_test"})
