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

#: Public name -> module that holds it, imported when the name is first used.
_EXPORTS = {
    name: f"dpmodels.{module}"
    for module, names in {
        "api.call": "per_person plan show_versions",
        "api.custom": "dp_eptr dp_gptr dp_pate dp_select dp_vote",
        "api.inspected": "inspect_source",
        "api.levels": "dp_levels",
        "api.multivariate": "dp_bayes dp_iv dp_mean dp_moments dp_npreg dp_pca",
        "api.pool": "pool",
        "api.regressions": (
            "dp_ols dp_glm dp_quantreg dp_mest dp_feols dp_fepois dp_multinom dp_polr"
        ),
        "api.releases": "dp_release load_release",
        "api.survival": "dp_coxph dp_survdiff dp_survfit",
        "api.tables": "dp_quantile dp_table dp_test",
        "api.treatment": "dp_ate",
        "formula": "describe register_rowwise",
        "formula.schema": "Schema",
        "gain": "explain",
        "models.linear.scored": "PublicMoments",
        "models.noised.losses": "IndexLoss",
        "models.noised.table": "NoisyTable",
        "models.selection": "check_safety",
        "privacy.budget": "Budget",
        "registry": "methods register_method Method Option Backend",
        "results.effects": "balanced_error confusion_table",
        "results.event_study": "iplot",
        "results.fit": "load",
        "results.forest": "coef_plot",
        "results.inference": "tidy_style",
        "results.merged": "tbl_merge tbl_stack",
        "results.meta": "meta",
        "results.side_by_side": "anova etable modelsummary",
        "results.synthetic": "combine",
        "sources.files": "read_csv",
        "sources.executors": "connect Elsewhere partial_sums",
        "study": "Study",
        "survey": "Survey",
        "variables": "Real Levels Ordered Binary Count Date",
    }.items()
    for name in names.split()
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
