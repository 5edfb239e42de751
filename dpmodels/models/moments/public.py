"""Backend of ``dp_moments(method="pmt")``: second moments of rows whitened by public ones.

The rows (1, x) are whitened by their public second moment and scaled into a ball, so no range is
needed; one release, or two by the rule of ``dp_ols(method="pmt")``, whose plan and passes these
are (``models/linear/theory.md`` 2, ``theory.md`` 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.models.linear.pmt import PmtDetail, diagnostics, release, whitened_plan
from dpmodels.models.linear.public import public_whitening
from dpmodels.models.moments.report import OF_PEOPLE, ROWS_OF_ONE, Back, moment_estimate

if TYPE_CHECKING:
    from dpmodels.estimate import Estimate
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.stages import Stages
    from dpmodels.planning import Plan
    from dpmodels.release import Release
    from dpmodels.request import Request

__all__ = ["estimate", "plan", "release"]

WEIGHTS = "row weights"


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_moments(method="pmt")``. The public data are part of the request."""
    if request.public is None:
        raise RequestError(
            "method='pmt' needs public data: public= a table with the same columns, or second "
            "moments of (x, 1). Without public data use method='joint'"
        )
    white = public_whitening(request.public, shrink=request["shrink"], response=False)
    return whitened_plan(request, design, n, white)


def _counted(released: Stages, detail: PmtDetail) -> int:
    """Return n, or the rows of people that the first release counts."""
    if not detail.per:
        return detail.rows
    stage = released.stages[0]
    constant = detail.white.scale[0] * stage.L[0]
    return max(round(float(constant @ stage.Q @ constant)), detail.rows)


def estimate(plan: Plan[PmtDetail], release: Release) -> Estimate:
    """Map the last stage back to (x, 1), per row."""
    detail = plan.detail
    released: Stages = release.detail
    stage = released.stages[-1]
    # (1, x) = scale L w; the constant goes last
    T = np.roll(detail.white.scale[:, None] * stage.L, -1, axis=0)
    per = detail.per
    back = Back(release.design.names, T, detail.rows, ROWS_OF_ONE if per else WEIGHTS)
    notes = plan.sentences
    notes.append(
        OF_PEOPLE
        if per
        else "Moments of weighted rows: one far from the centre of the public data counts less and "
        "one with a missing cell not at all, so spread is understated, more so with heavy tails. "
        f"'{WEIGHTS}' is the released mean weight; times it (arrays['moments_per_row']) they are "
        "sums of scaled rows over n."
    )
    return moment_estimate(
        back,
        stage.Q,
        stage.V,
        stats={
            "noise_sd": stage.s / detail.rows,
            "radius": stage.radius,
            "shrinkage_of_public_moments": detail.white.shrink,
        },
        notes=tuple(notes),
        warnings=diagnostics(released.stages[0], _counted(released, detail)),
        arrays={"whitened_moments": stage.Q, "whitening": T},
        weighted=True,
    )
