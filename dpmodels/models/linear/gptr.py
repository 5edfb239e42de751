"""Backend of ``dp_ols(method="gptr")`` and ``"adaops"``."""

from dpmodels.models.linear.gptr_estimate import estimate
from dpmodels.models.linear.gptr_plan import plan
from dpmodels.models.linear.gptr_release import release

__all__ = ["estimate", "plan", "release"]
