"""``dp_pca``: the projector on the leading principal components.

A lower bound of the eigengap is released, then the projector with noise for the improved
sensitivity 1/(sqrt(2) (gap - 1)) (``components.md``, section 5).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step, failure_part, mu_gdp
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import STEPS, svec, unsvec
from dpmodels.proof.statistics import Powers
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import WORKING_RADIUS, Backend, Method, Option, register_method
from dpmodels.sums.ask import Added, Ask, Counts, Moments, Query, first_array
from dpmodels.sums.rowmap import RowMap, UnitScale, column_sums, rescaling

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


CENTRE_STEP, GAP_STEP, PROJECTOR_STEP = "centres and scales", "eigengap", "projector"
_PCA_SHARES = {CENTRE_STEP: 0.10, GAP_STEP: 0.10, PROJECTOR_STEP: 0.80}
_MAX_SCALE = 50.0
_ALLOW = 1.0 + 2.0**-20


@dataclass(frozen=True)
class PcaDetail:
    """Public decisions of the fit before the first row."""

    radius: float  # Norm bound of a working row
    mu: dict[str, float]  # Add/remove strength of each step
    factor: float  # 2 under replace-one
    d1: float


def projector_sensitivity(gap: float) -> float:
    """Return 1/(sqrt(2) (gap - 1)): Frobenius change of the top-k projector, a row of norm <= 1."""
    return 1.0 / (math.sqrt(2.0) * (gap - 1.0))


def eigengap(M: Array, k: int) -> float:
    """Return lambda_k - lambda_{k+1} of a symmetric matrix; one row changes it by at most 1."""
    values = np.linalg.eigvalsh(M)[::-1]
    return float(values[k - 1] - values[k])


def projector(M: Array, k: int) -> Array:
    """Return V_k V_k' of a symmetric matrix."""
    V = np.linalg.eigh(M)[1][:, -k:]
    return np.asarray(V @ V.T)


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
    factor = 2.0 if request.relation == "replace" else 1.0
    total = mu_gdp(request.eps, 0.8 * request.delta)
    # centres and scales are proved for the relation itself; the other two go through add/remove
    mu = {
        name: math.sqrt(share) * total / (1.0 if name == CENTRE_STEP else factor)
        for name, share in _PCA_SHARES.items()
    }
    core = math.sqrt(mu[GAP_STEP] ** 2 + mu[PROJECTOR_STEP] ** 2)
    cost = 0.2 * request.delta
    d1 = failure_part(core, cost, request.relation)
    steps = tuple(
        Step(name, Gaussian(math.sqrt(share) * total), share=share,
             failure=cost if name == GAP_STEP else 0.0, reply_test=name == GAP_STEP)
        for name, share in _PCA_SHARES.items()
    )  # fmt: skip
    detail = PcaDetail(float(request["radius"] or math.sqrt(p)), mu, factor, d1)
    return Plan.of(
        request, design, n, steps,
        scales={"row norm bound (working units)": detail.radius}, detail=detail,
    )  # fmt: skip


def _column_sums(
    blocks: Iterable[Array], scale: Array, shift: Array
) -> tuple[npt.NDArray[np.object_]]:
    """Return :func:`column_sums` of rows without a response; NaN where a cell is missing."""
    marked = (np.vstack([b, np.where(np.isnan(b).any(0), np.nan, 0.0)]) for b in blocks)
    return (column_sums(marked, scale, shift),)


def working_map(scale: Array, shift: Array, radius: float) -> RowMap:
    """Return the map of rows to the lattice of the ball of ``radius``: (p,) to (p,).

    Column by column before the ball, so that the image of a row does not depend on its position.
    """
    p = len(scale)
    return RowMap(UnitScale(scale, shift, False), np.full(p, radius), ball=p, radius=radius)


def release(plan: Plan[PcaDetail], ask: Ask) -> Release:
    """Release centres and scales, a lower bound of the eigengap, and the projector.

    **Privacy.** Unit: one row. If the released bound of the gap is not above 1 there is no reply;
    everything is charged. Both passes add up exact integers; 2^-20 allows for eigenvalues in
    floats.
    """
    detail, design, k = plan.detail, plan.design, int(plan.request["k"])
    p = design.p
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 1.0)
    scale, shift = 2.0 / width, -(lo + hi) / width
    columns = Counts(design, functools.partial(_column_sums, scale=scale, shift=shift))
    noisy = ask(CENTRE_STEP, Query(Powers(p), columns, first_array))
    values = {"sums": noisy.values}
    factor, offset = rescaling(noisy.values, float(noisy.sd[0]), True, np.full(p, _MAX_SCALE))
    wrong = factor**2 * float(noisy.sd[0]) / (2.0 * max(noisy.values[0], 1.0))  # of a scale
    if not plan.request["scale"]:  # else components of the correlation matrix
        offset, factor, wrong = offset / factor, np.ones(p), np.zeros(p)
    scale, shift = scale * factor, shift * factor + offset
    rowmap = working_map(scale, shift, detail.radius)
    raw, over = ask.raw(own_proof("projector")), Moments(design, rowmap)
    M = raw.total(over).real(np.full(p, 1.0 / STEPS))  # rows of norm <= 1
    lemma = Of("eigengap", ())
    answer = ask(GAP_STEP, Query(lemma, over, lambda _: Added(np.array([eigengap(M, k)]))))
    gap = float(answer.at_least(detail.d1)[0])
    values["gap"] = np.array(gap)
    if gap <= 1.0 + 1e-6:
        return Release(values, plan.guarantee, design, reply=False, why="test")
    bound = projector_sensitivity(gap) * _ALLOW
    out = raw.gaussian_real(PROJECTOR_STEP, svec(projector(M, k)), bound * detail.factor)
    values["projector"] = unsvec(out, p)
    values["scale"], values["shift"] = scale, shift
    noise = bound / detail.mu[PROJECTOR_STEP]
    return Release(values, plan.guarantee, design, detail=(noise, wrong))


def estimate(plan: Plan[PcaDetail], release: Release) -> Estimate:
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
