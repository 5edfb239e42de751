"""Backend of ``dp_ols(method="eptr")``."""

from dpmodels.ptr.ols_estimate import estimate
from dpmodels.ptr.ols_plan import plan
from dpmodels.ptr.ols_release import release

__all__ = ["estimate", "plan", "release"]
