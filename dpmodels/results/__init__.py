"""Fits, tables, plots and files, made from released and public numbers only.

Nothing in this room can reach a row: it imports nothing from ``dpmodels.sources``.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "anova": "dpmodels.results.side_by_side",
    **dict.fromkeys(
        (
            "Averages", "Classifier", "Components", "Curve", "Estimates", "Facts", "Fit",
            "LinearRegression", "Moments", "Predictor", "QuantileRegression", "Quantiles",
            "Regression", "SurvivalCurves", "Tabulation", "TestResult", "TreatmentEffect", "load",
        ),
        "dpmodels.results.fit",
    ),
    **dict.fromkeys(
        ("Choice", "Effects", "Hazards", "OrderedChoice"), "dpmodels.results.kinds"
    ),
    "Summary": "dpmodels.results.summary",
    "coef_plot": "dpmodels.results.forest",
    "tidy_style": "dpmodels.results.inference",
    "etable": "dpmodels.results.side_by_side",
    "modelsummary": "dpmodels.results.side_by_side",
}  # fmt: skip

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'dpmodels.results' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
