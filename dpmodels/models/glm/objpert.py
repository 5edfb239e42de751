"""Backend of ``dp_glm(method="objpert")``."""

from dpmodels.models.glm.estimate import estimate
from dpmodels.models.glm.plan import plan
from dpmodels.models.glm.release import release

__all__ = ["estimate", "plan", "release"]
