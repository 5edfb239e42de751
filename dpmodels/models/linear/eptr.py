"""Backend of ``dp_ols(method="eptr")``."""

from dpmodels.models.linear.eptr_estimate import estimate
from dpmodels.models.linear.eptr_plan import plan
from dpmodels.models.linear.eptr_release import release

__all__ = ["estimate", "plan", "release"]
