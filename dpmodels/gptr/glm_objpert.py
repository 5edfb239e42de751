"""Backend of ``dp_glm(method="objpert")``."""

from dpmodels.gptr.glm_estimate import estimate
from dpmodels.gptr.glm_plan import plan
from dpmodels.gptr.glm_release import release

__all__ = ["estimate", "plan", "release"]
