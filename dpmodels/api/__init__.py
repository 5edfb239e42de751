"""Public functions of the package: each turns a call into a frozen request and runs it."""

from dpmodels.api.call import plan
from dpmodels.api.custom import Selection, dp_eptr, dp_gptr, dp_pate, dp_select, dp_vote
from dpmodels.api.multivariate import dp_bayes, dp_iv, dp_mean, dp_moments, dp_npreg, dp_pca
from dpmodels.api.regressions import (
    dp_feols,
    dp_fepois,
    dp_glm,
    dp_mest,
    dp_multinom,
    dp_ols,
    dp_polr,
    dp_quantreg,
)
from dpmodels.api.releases import dp_release, load_release
from dpmodels.api.survival import dp_coxph, dp_survdiff, dp_survfit
from dpmodels.api.tables import dp_quantile, dp_table, dp_test
from dpmodels.api.treatment import dp_ate

__all__ = [
    "Selection",
    "dp_ate",
    "dp_bayes",
    "dp_coxph",
    "dp_eptr",
    "dp_feols",
    "dp_fepois",
    "dp_glm",
    "dp_gptr",
    "dp_iv",
    "dp_mean",
    "dp_mest",
    "dp_moments",
    "dp_multinom",
    "dp_npreg",
    "dp_ols",
    "dp_pate",
    "dp_pca",
    "dp_polr",
    "dp_quantile",
    "dp_quantreg",
    "dp_release",
    "dp_select",
    "dp_survdiff",
    "dp_survfit",
    "dp_table",
    "dp_test",
    "dp_vote",
    "load_release",
    "plan",
]
