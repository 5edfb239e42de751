"""Backend of ``dp_ols(method="ops")``: posterior sampling at public constants, for comparison."""

from dpmodels.gptr.ols_estimate import estimate
from dpmodels.gptr.ols_plan import plan_ops as plan
from dpmodels.gptr.ols_release import release

__all__ = ["estimate", "plan", "release"]
