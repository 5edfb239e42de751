"""Backend of ``dp_ols(method="ops")``: posterior sampling at public constants, for comparison."""

from dpmodels.models.linear.gptr import estimate
from dpmodels.models.linear.gptr_plan import plan_ops as plan
from dpmodels.models.linear.gptr_release import release

__all__ = ["estimate", "plan", "release"]
