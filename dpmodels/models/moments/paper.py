"""Backend of ``dp_moments(method="pmt_paper")``: the published Algorithm 2, constants and all.

Rows (1, x) whitened by the symmetric root of their public second moment, truncated at
``R^2 = d (1 + log(2n/eta))``, with noise ``2 R^2 / sqrt(2 rho)`` of full size on every entry of the
upper triangle. Its guarantee is stated exactly: one Gaussian release, ``mu = sqrt(2 rho)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.passes import Moments, ball_map
from dpmodels.exact.rowmap import OneFirst, identity_scale
from dpmodels.exact.sets import Ball
from dpmodels.models.linear.paper import published_mu, published_query, published_roots
from dpmodels.models.linear.simple import make_plan
from dpmodels.models.moments.public import Back, moment_estimate
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate
    from dpmodels.request import Request

_STEP = "second moments"


@dataclass(frozen=True, eq=False)
class PaperSecond:
    """Public facts of the published algorithm.

    Attributes
    ----------
    root, back : (d, d) arrays
        ``S^{-1/2}`` and ``S^{1/2}`` of the rows (1, x), symmetric.
    radius : float
    mu : float
    rows : int
    """

    root: Array
    back: Array
    radius: float
    mu: float
    rows: int

    @property
    def sd(self) -> float:
        """Noise of each entry of the sum."""
        return 2.0 * self.radius**2 / self.mu


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the one release. ``rho=`` is its zCDP parameter, as in the paper."""
    if request.public is None:
        raise RequestError("method='pmt_paper' needs public data: public=")
    mu = published_mu(request)
    C = np.asarray(request.public.moments, dtype=float)
    root, back = published_roots(C)
    radius = math.sqrt(len(C) * (1.0 + math.log(2.0 * n / float(request["eta"]))))
    detail = PaperSecond(root, back, radius, mu, n)
    return make_plan(
        request, design, n, [Step(_STEP, Gaussian(mu), share=1.0)], None, detail,
        scales={"radius of whitened rows": radius, "noise scale per row": detail.sd / n},
    )  # fmt: skip


def release(plan: Plan[PaperSecond], ask: Ask) -> Release:
    """Release ``sum x~x~'`` of whitened, truncated rows (1, x). One pass.

    Privacy
    -------
    Unit: one row, replace-one. The published noise exceeds what the sensitivity asks for
    (``2 R^2`` for ``sqrt2 R^2``; full size off the diagonal), so the stated guarantee holds.
    """
    detail = plan.detail
    q = len(detail.root)
    rowmap = OneFirst(ball_map(identity_scale(q), detail.radius, detail.root))
    over = Moments(plan.design, rowmap)
    Q = ask(_STEP, published_query(Ball(q), over, detail.radius)).values
    return Release({"Q": Q}, plan.guarantee, plan.design, detail=detail)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Return ``S^{1/2} Q S^{1/2} / n``, the constant last."""
    detail: PaperSecond = release.detail
    Q = release.values["Q"]
    back = Back(release.design.names, np.roll(detail.back, -1, axis=0), detail.rows, "row weights")
    return moment_estimate(
        back,
        Q,
        np.full(Q.shape, detail.sd**2),
        stats={"noise_sd": detail.sd / detail.rows, "radius": detail.radius},
        notes=("The published algorithm: radius and noise are those of the paper.",),
        arrays={"whitened_moments": Q},
    )
