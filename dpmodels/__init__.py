"""Statistical models with differential privacy: formulas in, honest standard errors out.

    import dpmodels as dp
    fit = dp.dp_ols("quality ~ alcohol + pH", wine, eps=1, delta=1e-6, method="eptr")
    print(fit.summary())

Importing the package imports numpy and the standard library only; pandas, scipy, formulaic and
the rest are imported when first needed.
"""

from __future__ import annotations

import importlib
from typing import Any

from dpmodels._version import __version__

#: public name -> module that holds it
_EXPORTS = {
    "dp_ols": "dpmodels.api",
    "dp_iv": "dpmodels.api",
    "dp_moments": "dpmodels.api",
    "dp_glm": "dpmodels.api",
    "dp_gptr": "dpmodels.api",
    "dp_pate": "dpmodels.api",
    "dp_pca": "dpmodels.api",
    "dp_select": "dpmodels.api",
    "dp_vote": "dpmodels.api",
    "dp_mean": "dpmodels.api",
    "dp_bayes": "dpmodels.api",
    "dp_eptr": "dpmodels.api",
    "check_safety": "dpmodels.models.custom.check",
    "dp_npreg": "dpmodels.api",
    "balanced_error": "dpmodels.results.predict",
    "confusion_table": "dpmodels.results.predict",
    "PublicMoments": "dpmodels.models.linear.public",
    "dp_quantreg": "dpmodels.api",
    "dp_mest": "dpmodels.api",
    "dp_release": "dpmodels.api",
    "IndexLoss": "dpmodels.models.noised.losses",
    "load_release": "dpmodels.api",
    "NoisyTable": "dpmodels.models.noised.table",
    "dp_table": "dpmodels.api",
    "dp_test": "dpmodels.api",
    "dp_quantile": "dpmodels.api",
    "plan": "dpmodels.api",
    "connect": "dpmodels.sources.crew",
    "Elsewhere": "dpmodels.sources.elsewhere",
    "partial_sums": "dpmodels.sources.remote",
    "methods": "dpmodels.registry",
    "register_method": "dpmodels.registry",
    "Method": "dpmodels.registry",
    "Option": "dpmodels.registry",
    "Schema": "dpmodels.schema",
    "Real": "dpmodels.variables",
    "Levels": "dpmodels.variables",
    "Ordered": "dpmodels.variables",
    "Binary": "dpmodels.variables",
    "Count": "dpmodels.variables",
    "Budget": "dpmodels.privacy.ledger",
    "load": "dpmodels.results",
    "anova": "dpmodels.results",
    "coef_plot": "dpmodels.results",
    "etable": "dpmodels.results",
    "modelsummary": "dpmodels.results",
    "tidy_style": "dpmodels.results",
    "describe": "dpmodels.formula",
    "register_rowwise": "dpmodels.formula",
}
_MODULES = ("datasets", "errors", "privacy", "results", "formula", "interop")

__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"dpmodels.{name}")
    from dpmodels.errors import did_you_mean

    hint = did_you_mean(name, __all__)
    raise AttributeError(f"module 'dpmodels' has no attribute {name!r}.{hint}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
