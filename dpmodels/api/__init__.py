"""The verbs: what a statistician types. They turn a call into a frozen request and run it."""

from dpmodels.api.bayes import dp_bayes
from dpmodels.api.eptr import dp_eptr
from dpmodels.api.glm import dp_glm
from dpmodels.api.gptr import dp_gptr
from dpmodels.api.iv import dp_iv
from dpmodels.api.mean import dp_mean
from dpmodels.api.mest import dp_mest
from dpmodels.api.moments import dp_moments
from dpmodels.api.npreg import dp_npreg
from dpmodels.api.ols import dp_ols
from dpmodels.api.pate import dp_pate
from dpmodels.api.pca import dp_pca
from dpmodels.api.planning import plan
from dpmodels.api.quantile import dp_quantile
from dpmodels.api.quantreg import dp_quantreg
from dpmodels.api.release import dp_release, load_release
from dpmodels.api.select import Selection, dp_select
from dpmodels.api.table import dp_table
from dpmodels.api.test import dp_test
from dpmodels.api.vote import dp_vote

__all__ = [
    "Selection",
    "dp_bayes",
    "dp_eptr",
    "dp_glm",
    "dp_gptr",
    "dp_iv",
    "dp_mean",
    "dp_mest",
    "dp_moments",
    "dp_npreg",
    "dp_ols",
    "dp_pate",
    "dp_pca",
    "dp_quantile",
    "dp_quantreg",
    "dp_release",
    "dp_select",
    "dp_table",
    "dp_test",
    "dp_vote",
    "load_release",
    "plan",
]
