"""``dp_pca``: the projector on the leading principal components.

A lower bound of the eigengap is released, then the projector with noise for the improved
sensitivity 1/(sqrt(2) (gap - 1)) (``components.md``, section 5).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.means import PowersOfRows
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.own.projector import GAP, PROJECTOR, gap_failure, tested_projector
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import WORKING_RADIUS, Backend, Method, Option, register_method
from dpmodels.sums.ask import Ask, Moments
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale, rescaling

CENTRE_STEP = "centres and scales"
_PCA_SHARES = {CENTRE_STEP: 0.10, GAP: 0.10, PROJECTOR: 0.80}
_MAX_SCALE = 50.0


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_pca``."""
    k, p = request["k"], design.p
    if p < 2:
        raise RequestError("dp_pca needs two columns at least, for example 'x1 + x2 + x3 ~ 1'")
    if not k < p:
        raise RequestError(
            f"k={k} components of {p} columns: k must be below the number of columns"
        )
    if design.unknown:
        raise RequestError(
            f"dp_pca estimates no ranges: declare those of {', '.join(design.unknown)}, for "
            "example "
            f"bounds={{{design.unknown[0]!r}: (0, 10)}}"
        )
    if request.weights is not None:
        raise RequestError("dp_pca cannot use weights=")
    # centres and scales are proved for the relation itself; the other two go through add/remove
    total = mu_gdp(request.eps, 0.8 * request.delta)
    mu = {name: math.sqrt(share) * total for name, share in _PCA_SHARES.items()}
    cost = 0.2 * request.delta
    gap_failure(mu[GAP], mu[PROJECTOR], cost, request.relation)  # refused before the charge
    steps = tuple(
        Step(name, Gaussian(mu[name]), share=share,
             failure=cost if name == GAP else 0.0, reply_test=name == GAP)
        for name, share in _PCA_SHARES.items()
    )  # fmt: skip
    radius = float(request["radius"] or math.sqrt(p))  # Norm bound of a working row
    return Plan.of(
        request, design, n, steps, scales={"row norm bound (working units)": radius}, detail=radius,
    )  # fmt: skip


def working_map(scale: Array, shift: Array, radius: float) -> RowMap:
    """Return the map of rows to the lattice of the ball of ``radius``: (p,) to (p,).

    Column by column before the ball, so that the image of a row does not depend on its position.
    """
    p = len(scale)
    return RowMap(UnitScale(scale, shift, False), np.full(p, radius), ball=p, radius=radius)


def release(plan: Plan[float], ask: Ask) -> Release:
    """Release centres and scales, a lower bound of the eigengap, and the projector.

    **Privacy.** Unit: one row. If the released bound of the gap is not above 1 there is no reply;
    everything is charged. Both passes add up exact integers.
    """
    design, p, k = plan.design, plan.design.p, int(plan.request["k"])
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 1.0)
    unit, middle = 2.0 / width, -(lo + hi) / width
    powers = core.Release(CENTRE_STEP, PowersOfRows(p), lambda z: z * unit + middle, design)
    noisy = core.answered(powers, ask)
    values = {"sums": noisy.values}
    factor, offset = rescaling(noisy.values, float(noisy.sd[0]), True, np.full(p, _MAX_SCALE))
    wrong = factor**2 * float(noisy.sd[0]) / (2.0 * max(noisy.values[0], 1.0))  # of a scale
    if not plan.request["scale"]:  # else components of the correlation matrix
        offset, factor, wrong = offset / factor, np.ones(p), np.zeros(p)
    scale, shift = unit * factor, middle * factor + offset
    over = Moments(design, working_map(scale, shift, plan.detail))
    gap, released, noise = tested_projector(over, k, ask)
    values["gap"] = np.array(gap)
    if released is None:
        return Release(values, plan.guarantee, design, reply=False, why="test")
    values |= {"projector": released, "scale": scale, "shift": shift}
    return Release(values, plan.guarantee, design, detail=(noise, wrong))


def estimate(plan: Plan[float], release: Release) -> Estimate:
    """Return loadings of the k components, in working units, signs fixed by the largest entry."""
    design, k = release.design, int(plan.request["k"])
    names = tuple(f"PC{j + 1}:{c}" for j in range(k) for c in design.names)
    if not release.reply:
        return Estimate.silent(names, messages.NO_EIGENGAP())
    V = np.linalg.eigh(release.values["projector"])[1][:, ::-1][:, :k]
    V = V * np.sign(V[np.abs(V).argmax(0), np.arange(k)])
    units = "standard deviations" if plan.request["scale"] else "half-ranges"
    gap, (noise, wrong) = float(release.values["gap"]), release.detail
    rows, lever = max(float(release.values["sums"][0]), 1.0), (V**2).sum(axis=1)
    scales = 1.0 + 2.0 * max(rows / gap - k, 0.0) / design.p
    scales *= math.sqrt(wrong**2 @ (lever * (1.0 - lever)))
    # root mean squares of the sine of the angle, at most (components.md, 5.4)
    private = math.hypot(noise * math.sqrt(k * (design.p - k) / 2.0), scales)
    sines = private, math.sqrt(rows * plan.request.copies) / (2.0 * gap)
    angles = [math.degrees(math.asin(min(1.0, sine))) for sine in (math.hypot(*sines), *sines)]
    named = zip(("angle_error", "angle_privacy", "angle_sampling"), angles, strict=True)
    return Estimate(
        names, V.T.ravel(), notes=(messages.SUBSPACE(units=units, angle=angles[0]),),
        stats={"noise_sd": noise, "eigengap_lower_bound": gap, **dict(named)},
        arrays={"projector": release.values["projector"], "loadings": V},
    )  # fmt: skip


PCA_BACKEND = Backend(plan, release, estimate)


# -- Methods of principal components, as data.


register_method(Method(
    name="gptr", verb="dp_pca", proof="models/components.md", backend=PCA_BACKEND,
    title="Projector with a tested eigengap", needs=("delta > 0", "two passes", "ranges"),
    relations=("replace", "add-remove"), inference="no", privacy_se="unavailable",
    reference="Redberg, Zhu, Wang (2023), Appendix C.4, with an improved sensitivity",
    options=(
        Option("k", "number of components", 1, int, lower=0),
        Option("scale", "standardise the columns first", True, bool), WORKING_RADIUS,
    ),
))  # fmt: skip
