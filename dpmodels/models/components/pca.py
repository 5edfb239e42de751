"""Backend of ``dp_pca``: the projector on the leading principal components.

A lower bound of the eigengap is released, then the projector with noise for the improved
sensitivity 1/(sqrt(2) (gap - 1)) (``theory.md``, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.estimate import Estimate
from dpmodels.exact.columns import column_sums, rescaling, sums_sensitivity
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.symmetric import svec, unsvec
from dpmodels.planning import Plan
from dpmodels.privacy.convert import gaussian_replace
from dpmodels.privacy.gdp import mu_gdp
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.run import tail_margin
from dpmodels.privacy.steps import Step
from dpmodels.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpmodels.formula.design import Design
    from dpmodels.privacy.run import Run
    from dpmodels.request import Request
    from dpmodels.sources.rows import Rows

__all__ = ["eigengap", "estimate", "plan", "projector", "projector_sensitivity", "release"]

CENTRE_STEP, GAP_STEP, COEF_STEP = "centres and scales", "eigengap", "projector"
_SHARES = {CENTRE_STEP: 0.10, GAP_STEP: 0.10, COEF_STEP: 0.80}
_MAX_SCALE = 50.0
_ALLOW = 1.0 + 2.0**-20


@dataclass(frozen=True)
class PcaDetail:
    """What the fit decided before the first row.

    Attributes
    ----------
    k : int
    radius : float
        Norm bound of a working row.
    scale : bool
        Columns are standardised (principal components of the correlation matrix).
    mu : dict
        Add/remove strength of each step.
    factor : float
        2 under replace-one.
    d1 : float
    relation : str
    """

    k: int
    radius: float
    scale: bool
    mu: dict[str, float]
    factor: float
    d1: float
    relation: str


def projector_sensitivity(gap: float) -> float:
    """Return 1/(sqrt(2) (gap - 1)): Frobenius change of the top-k projector, a row of norm <= 1."""
    return 1.0 / (math.sqrt(2.0) * (gap - 1.0))


def eigengap(M: Array, k: int) -> float:
    """Return lambda_k - lambda_{k+1} of a symmetric matrix; moves by at most 1 a row."""
    values = np.linalg.eigvalsh(M)[::-1]
    return float(values[k - 1] - values[k])


def projector(M: Array, k: int) -> Array:
    """Return V_k V_k' of a symmetric matrix."""
    V = np.linalg.eigh(M)[1][:, -k:]
    return np.asarray(V @ V.T)


def plan(request: Request, design: Design, n: int) -> Plan:
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
            f"dp_pca buys no ranges: declare those of {', '.join(design.unknown)}, for example "
            f"bounds={{{design.unknown[0]!r}: (0, 10)}}"
        )
    if request.weights is not None:
        raise RequestError("dp_pca takes no weights=")
    factor = 2.0 if request.relation == "replace" else 1.0
    total = mu_gdp(request.eps, 0.8 * request.delta)
    # centres and scales are proved for the relation itself; the other two go through add/remove
    mu = {
        name: math.sqrt(share) * total / (1.0 if name == CENTRE_STEP else factor)
        for name, share in _SHARES.items()
    }
    core = math.sqrt(mu[GAP_STEP] ** 2 + mu[COEF_STEP] ** 2)
    cost = 0.2 * request.delta
    d1 = cost
    if factor == 2.0:
        lo, hi = 1e-12 * cost, cost
        for _ in range(200):
            mid = math.sqrt(lo * hi)
            lo, hi = (mid, hi) if gaussian_replace(core, mid)[1] <= cost else (lo, mid)
        d1 = lo
    steps = tuple(
        Step(
            name,
            Gaussian(math.sqrt(share) * total),
            share=share,
            failure=cost if name == GAP_STEP else 0.0,
            reply_test=name == GAP_STEP,
        )
        for name, share in _SHARES.items()
    )
    detail = PcaDetail(
        k=int(k),
        radius=float(request["radius"] or math.sqrt(p)),
        scale=bool(request["scale"]),
        mu=mu,
        factor=factor,
        d1=d1,
        relation=request.relation,
    )
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={"centre": 0.10, "gap": 0.10, "coef": 0.80},
        scales={"row norm bound (working units)": detail.radius},
        detail=detail,
    )


def _unit(design: Design) -> tuple[Array, Array]:
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 1.0)
    return 2.0 / width, -(lo + hi) / width


def _with_marker(rows: Rows, design: Design) -> Iterator[Array]:
    """Yield blocks with one more row: NaN where the row is void, 0 elsewhere."""
    for block in rows.blocks(design):
        yield np.vstack([block, np.where(np.isnan(block).any(0), np.nan, 0.0)])


def second_moment(blocks: Iterator[Array], scale: Array, shift: Array, radius: float) -> Array:
    """Return the sum of w w' / R^2 over rows w bounded by R; void rows add nothing."""
    p = len(scale)
    M = np.zeros((p, p))
    with np.errstate(all="ignore"):
        for block in blocks:
            w = (block[:-1] * scale[:, None] + shift[:, None]) / radius
            norm = np.sqrt(np.einsum("ij,ij->j", w, w))
            w *= np.minimum(1.0, 1.0 / np.maximum(norm, 1e-300)) * (1.0 - 2.0**-36)
            w[:, ~np.isfinite(norm + block[-1])] = 0.0
            M += w @ w.T
    return M


def release(plan: Plan, rows: Rows, run: Run) -> Release:
    """Release centres and scales, a lower bound of the eigengap, and the projector.

    Privacy
    -------
    Unit: one row. If the released bound of the gap is not above 1 there is no reply; everything
    is charged.
    """
    detail: PcaDetail = plan.detail
    design = plan.design
    p = design.p
    scale, shift = _unit(design)
    sums = column_sums(_with_marker(rows, design), scale, shift)
    size = sums_sensitivity(p, detail.relation)
    noisy = run.gaussian(CENTRE_STEP, sums, size, unit=1.0 / STEPS)
    sd = size / STEPS / detail.mu[CENTRE_STEP]
    factor, offset = rescaling(noisy, sd, True, np.full(p, _MAX_SCALE))
    if not detail.scale:
        offset, factor = offset / factor, np.ones(p)
    scale, shift = scale * factor, shift * factor + offset
    M = second_moment(_with_marker(rows, design), scale, shift, detail.radius)
    values = {"sums": noisy}
    gap = float(run.gaussian_real(GAP_STEP, eigengap(M, detail.k), detail.factor * _ALLOW))
    gap -= tail_margin(_ALLOW / detail.mu[GAP_STEP], detail.d1)
    values["gap"] = np.array(gap)
    if gap <= 1.0 + 1e-6:
        return Release(values, plan.guarantee, design, reply=False, why="test")
    bound = projector_sensitivity(gap) * _ALLOW
    noisy = run.gaussian_real(COEF_STEP, svec(projector(M, detail.k)), bound * detail.factor)
    values["projector"] = unsvec(noisy, p)
    values["scale"], values["shift"] = scale, shift
    return Release(values, plan.guarantee, design, detail=bound / detail.mu[COEF_STEP])


def estimate(plan: Plan, release: Release) -> Estimate:
    """Return loadings of the k components, in working units, signs fixed by the largest entry."""
    detail: PcaDetail = plan.detail
    design = release.design
    names = tuple(f"PC{j + 1}:{c}" for j in range(detail.k) for c in design.names)
    if not release.reply:
        note = (
            "The eigengap behind component k was not visible above the noise: try another k, more "
            "rows or a larger eps."
        )
        return Estimate.silent(names, note)
    _, V = np.linalg.eigh(release.values["projector"])
    V = V[:, ::-1][:, : detail.k]
    V = V * np.sign(V[np.abs(V).argmax(0), np.arange(detail.k)])
    units = "standard deviations" if detail.scale else "half-ranges"
    return Estimate(
        names,
        V.T.ravel(),
        stats={
            "noise_sd": float(release.detail),
            "eigengap_lower_bound": float(release.values["gap"]),
        },
        notes=(
            f"Loadings are in {units} of the columns. Within the subspace the axes are those of "
            "the released projector: only the subspace is estimated.",
        ),
        arrays={"projector": release.values["projector"], "loadings": V},
    )
