"""Backend of ``dp_ols(method="gptr")`` and ``"adaops"``."""

from dpmodels.gptr.ols_estimate import estimate
from dpmodels.gptr.ols_plan import plan
from dpmodels.gptr.ols_release import release

__all__ = ["estimate", "plan", "release"]
