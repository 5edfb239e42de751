"""What maketables looks for on a result, a base of ``Fit``; neither package imports the other.

maketables 0.2.0 asks its registered extractors first, and the one for statsmodels takes any object
with ``params``, ``bse`` and ``pvalues``. So where maketables is imported, a new fit registers an
extractor that is asked before: ``ETable([fit1, fit2])`` has our columns and statistics. Where it is
imported after the last fit was made, ``ETable([as_model(fit), ...])`` has them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dpmodels.results import inference
from dpmodels.results.design_facts import row_norm
from dpmodels.results.summary import response_of

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.record import Record

__all__ = ["MaketablesPlugin", "register"]

_STATS = ("N", "method", "eps", "delta")
_LABELS = {
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


class MaketablesPlugin:
    """What ``maketables.ETable`` reads from a fit; a base class of ``Fit``.

    Privacy
    -------
    Post-processing of released numbers: costs nothing.
    """

    __slots__ = ()
    _record: Record

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """Coefficients with columns ``b, se, p`` and ours, one row a coefficient."""
        import pandas as pd

        est = self._record.estimate
        low, high = inference.conf_int(est, 0.95)
        table: pd.DataFrame = pd.DataFrame(
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
        return table

    def __maketables_stat__(self, key: str) -> Any:
        """Return one statistic, or None if this fit has no such key."""
        record, promise = self._record, self._record.guarantee
        values = {
            "N": record.n,
            "eps": promise.eps,
            "delta": promise.delta,
            "method": record.call.method,
            "relation": promise.relation,
            "reply": "released" if record.estimate.released else "no reply",
            "row_norm": row_norm(record.design),
            "r2": record.estimate.stats.get("r_squared"),
            "adj_r2": record.estimate.stats.get("adj_r_squared"),
            "rmse": record.estimate.stats.get("sigma"),
        }
        return values.get(key)

    @property
    def endog_names(self) -> str:
        """Text of the response, under the name that statsmodels has for it."""
        return response_of(self._record)

    @property
    def __maketables_depvar__(self) -> str:
        """Text of the response."""
        return response_of(self._record)

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        """Statistics shown by default."""
        return list(_STATS)

    @property
    def __maketables_stat_labels__(self) -> dict[str, str]:
        """Labels of the statistics."""
        return dict(_LABELS)

    @property
    def __maketables_vcov_info__(self) -> dict[str, str]:
        """What the standard errors hold."""
        robust = self._record.call.options.get("vcov") == "hetero"
        return {"vcov_type": f"sampling{' (hetero)' if robust else ''} + privacy"}

    @property
    def __maketables_fixef_string__(self) -> None:
        """No fixed effects."""
        return None

    @property
    def __maketables_var_labels__(self) -> None:
        """No labels beside the names."""
        return None


def register() -> None:
    """Have maketables ask a fit what it shows, if maketables is imported already.

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
        """What maketables makes of the attributes of a fit."""

        def can_handle(self, model: Any) -> bool:
            return isinstance(model, MaketablesPlugin)

    registry.insert(0, FitExtractor())
