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
    "dp_ate": "dpmodels.api",
    "dp_mean": "dpmodels.api",
    "dp_bayes": "dpmodels.api",
    "dp_eptr": "dpmodels.api",
    "check_safety": "dpmodels.models.selection",
    "dp_npreg": "dpmodels.api",
    "balanced_error": "dpmodels.results.effects",
    "confusion_table": "dpmodels.results.effects",
    "PublicMoments": "dpmodels.models.linear.scored",
    "dp_quantreg": "dpmodels.api",
    "dp_mest": "dpmodels.api",
    "dp_release": "dpmodels.api",
    "IndexLoss": "dpmodels.models.noised.losses",
    "load_release": "dpmodels.api",
    "NoisyTable": "dpmodels.models.noised.table",
    "dp_table": "dpmodels.api",
    "dp_survdiff": "dpmodels.api",
    "dp_coxph": "dpmodels.api",
    "dp_feols": "dpmodels.api",
    "dp_fepois": "dpmodels.api",
    "dp_multinom": "dpmodels.api",
    "dp_polr": "dpmodels.api",
    "dp_survfit": "dpmodels.api",
    "dp_test": "dpmodels.api",
    "dp_quantile": "dpmodels.api",
    "per_person": "dpmodels.api.call",
    "plan": "dpmodels.api",
    "connect": "dpmodels.sources.tasks",
    "Elsewhere": "dpmodels.sources.tasks",
    "partial_sums": "dpmodels.sources.tasks",
    "methods": "dpmodels.registry",
    "register_method": "dpmodels.registry",
    "Method": "dpmodels.registry",
    "Option": "dpmodels.registry",
    "Backend": "dpmodels.registry",
    "Schema": "dpmodels.formula.schema",
    "Real": "dpmodels.variables",
    "Levels": "dpmodels.variables",
    "Ordered": "dpmodels.variables",
    "Binary": "dpmodels.variables",
    "Count": "dpmodels.variables",
    "Date": "dpmodels.variables",
    "read_csv": "dpmodels.sources.files",
    "inspect_source": "dpmodels.api.inspected",
    "dp_levels": "dpmodels.api.levels",
    "Budget": "dpmodels.privacy.budget",
    "load": "dpmodels.results",
    "anova": "dpmodels.results",
    "coef_plot": "dpmodels.results",
    "combine": "dpmodels.results.synthetic",
    "etable": "dpmodels.results",
    "modelsummary": "dpmodels.results",
    "tidy_style": "dpmodels.results",
    "Study": "dpmodels.study",
    "Survey": "dpmodels.survey",
    "describe": "dpmodels.formula",
    "register_rowwise": "dpmodels.formula",
    "show_versions": "dpmodels.api.call",
    "explain": "dpmodels.gain",
    "meta": "dpmodels.results.meta",
    "pool": "dpmodels.api.pool",
    "iplot": "dpmodels.results.event_study",
    "tbl_merge": "dpmodels.results.merged",
    "tbl_stack": "dpmodels.results.merged",
}
#: Names of verbs in other packages.
_MEANT_VERBS = {
    **dict.fromkeys(("lm", "ols", "feols", "reg", "dp_lm", "linearregression"), "dp.dp_ols"),
    **dict.fromkeys(
        ("logit", "probit", "poisson", "glm", "fepois", "feglm", "dp_logit", "logisticregression"),
        "dp.dp_glm(..., family='binomial'), or another family",
    ),
    **dict.fromkeys(("rq", "quantreg", "dp_rq"), "dp.dp_quantreg"),
    **dict.fromkeys(("rlm", "dp_rlm"), "dp.dp_mest(..., loss='huber')"),
    **dict.fromkeys(("ivreg", "iv2sls", "dp_ivreg"), "dp.dp_iv"),
    **dict.fromkeys(("ttest", "t_test", "chisq_test", "dp_ttest"), "dp.dp_test"),
    **dict.fromkeys(("crosstab", "table", "count", "dp_count", "xtabs"), "dp.dp_table"),
    **dict.fromkeys(("mean", "median", "quantile", "dp_median"), "dp.dp_mean or dp.dp_quantile"),
    **dict.fromkeys(("predict", "summary", "tidy", "vif", "emmeans", "avg_slopes"),
                    "fit.predict(new), fit.summary(), fit.tidy(): methods of a fit"),
    **dict.fromkeys(("svyglm", "svymean", "svytable", "svydesign"),
                    "dp.dp_glm(formula, data, design=dp.Survey(weights='w', psu='village'))"),
    **dict.fromkeys(("lmer", "mixedlm", "plm", "panelols"),
                    'dp.dp_feols("y ~ x", data, unit="id", re="id"), random intercepts'),
    **dict.fromkeys(("ate", "att", "aipw", "ipw", "treatmenteffect", "weightit", "matchit",
                     "teffects", "dp_att", "dp_ipw", "dp_aipw"),
                    'dp.dp_ate("y ~ x", data, treatment="t")'),
    **dict.fromkeys(("stargazer", "texreg", "summary_col"), "dp.etable(fit1, fit2)"),
    **dict.fromkeys(("coxph", "phreg", "coxphfitter"), "dp.dp_coxph"),
    **dict.fromkeys(("survfit", "kaplanmeierfitter"), "dp.dp_survfit"),
    **dict.fromkeys(("set_seed", "seed"), "seed=1 in the call: the result is then NOT PRIVATE"),
    **dict.fromkeys(("save", "read_parquet"), "the path itself as data; fit.save"),
}  # fmt: skip
_PUBLIC_MODULES = ("datasets", "errors", "privacy", "results", "formula", "interop")

__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        globals()[name] = exported = getattr(importlib.import_module(_EXPORTS[name]), name)
        return exported
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"dpmodels.{name}")
    from dpmodels.errors import did_you_mean

    meant = _MEANT_VERBS.get(name.lower(), "")
    hint = f" Type {meant}" if meant else did_you_mean(name, __all__)
    raise AttributeError(f"module 'dpmodels' has no attribute {name!r}.{hint}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PUBLIC_MODULES])
