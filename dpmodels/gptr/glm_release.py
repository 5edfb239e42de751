"""The private stage of objective perturbation: rows in, released numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.gptr.glm_plan import COEF_STEP, INFO_STEP, OUT_STEP, SCALE_STEP, GlmDetail
from dpmodels.gptr.newton import WorkingRows, minimise
from dpmodels.moments.rowmap import STEPS, UnitScale, unit_scale
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.privacy.run import Run
    from dpmodels.sources.rows import Rows

__all__ = ["GlmReleased", "column_sums", "is_the_centre", "release", "rescaling"]

Array = npt.NDArray[np.float64]
#: Rescaling never magnifies a unit half-range column (a dummy) more than this.
_MAX_SCALE, _MAX_DUMMY = 50.0, 2.5
#: Released coefficients within this many sds of the output noise of 0: not certified.
_AT_CENTRE = 6.0


@dataclass(frozen=True)
class GlmReleased:
    """Public numbers of the release: the working map and what was added.

    Attributes
    ----------
    scale, shift : (p,) arrays
        Working columns are ``scale * x + shift`` of the design's own columns.
    sigma, lam : float
    """

    scale: Array
    shift: Array
    sigma: float
    lam: float


def working_map(design: Design) -> tuple[Array, Array]:
    """Return (scale, shift) of the predictors to unit half-ranges; the response keeps its own."""
    unit: UnitScale = unit_scale(design)
    return unit.scale[:-1].copy(), unit.shift[:-1].copy()


def column_sums(blocks: Iterable[Array], scale: Array, shift: Array) -> npt.NDArray[np.object_]:
    """Return integers (count, sums of k, sums of trunc(k^2 / 2^20)), k = trunc(2^20 u), |u| <= 1.

    Shape (1 + 2 d,). A void row adds nothing. Exact in any order.
    """
    d = len(scale)
    total = np.zeros(1 + 2 * d, dtype=object)
    with np.errstate(all="ignore"):
        for block in blocks:
            u = block[:-1] * scale[:, None] + shift[:, None]
            void = ~np.isfinite(block[-1] + u.sum(0))
            k = np.trunc(np.clip(u, -1.0, 1.0) * STEPS)
            k[:, void] = 0.0
            squares = np.trunc(k * k / STEPS)
            total[0] += int(STEPS) * int(k.shape[1] - void.sum())
            total[1 : 1 + d] += [int(v) for v in k.sum(1)]
            total[1 + d :] += [int(v) for v in squares.sum(1)]
    return total


def sums_sensitivity(d: int, relation: str) -> float:
    """Return the L2 sensitivity of :func:`column_sums`, in lattice units.

    One row adds (1, u, u^2): norm^2 at most 1 + 2 d. Replacing it moves a column by
    (u - u')^2 (1 + (u + u')^2) <= 4, or voids the row. 2^-18 pays for the truncations.
    """
    square = 1.0 + 2.0 * d
    if relation == "replace":
        square = max(square, 4.0 * d)
    return STEPS * math.sqrt(square) * (1.0 + 2.0**-18)


def rescaling(sums: Array, noise_sd: float, intercept: bool, most: Array) -> tuple[Array, Array]:
    """Return (scale, shift) that give the unit columns mean 0 and variance 1, from noisy sums.

    Variances below twice the noise of a mean square are not visible and are floored there; a
    column is never magnified more than ``most`` (d,): rare dummies would get long rows.
    """
    d = (len(sums) - 1) // 2
    m = max(float(sums[0]), 4.0 * noise_sd, 1.0)
    mean = np.clip(sums[1 : 1 + d] / m, -1.0, 1.0)
    if not intercept:
        mean = np.zeros(d)
    floor = np.maximum(2.0 * noise_sd / m, 1.0 / most**2)
    variance = np.clip(sums[1 + d :] / m - mean**2, np.minimum(floor, 1.0), 1.0)
    scale = 1.0 / np.sqrt(variance)
    return scale, -mean * scale


def most_magnified(design: Design) -> Array:
    """Return the largest factor of each column: two-point columns span 2.5 at most."""
    from dpmodels.variables import Binary

    def most(kind: str, term: str) -> float:
        if kind in ("dummy", "contrast"):
            return _MAX_DUMMY
        if term in design.schema and isinstance(design.schema[term], Binary):
            return _MAX_DUMMY / 2.0  # already stretched to [-1, 1]
        return _MAX_SCALE

    return np.array([most(c.kind, c.term) for c in design.columns])


def _rescale(
    run: Run, detail: GlmDetail, rows: Rows, design: Design, scale: Array, shift: Array
) -> tuple[Array, Array, Array]:
    keep = np.array([c.kind != "intercept" for c in design.columns])
    d = int(keep.sum())
    index = [*np.flatnonzero(keep).tolist(), design.p]
    blocks = (block[index] for block in rows.blocks(design))
    sums = column_sums(blocks, scale[keep], shift[keep])
    size = sums_sensitivity(d, detail.relation)
    noisy = run.gaussian(SCALE_STEP, sums, size, unit=1.0 / STEPS)
    sd = size / STEPS / detail.mu[SCALE_STEP]
    factor, offset = rescaling(noisy, sd, design.has_intercept, most_magnified(design)[keep])
    scale, shift = scale.copy(), shift.copy()
    shift[keep] = shift[keep] * factor + offset
    scale[keep] *= factor
    return noisy, scale, shift


def release(plan: Plan, rows: Rows, run: Run) -> Release:
    """Run objective perturbation on the rows.

    Privacy
    -------
    Unit: one row. Charged: the steps of the plan. The random linear term is drawn before the
    rows are read; the optimum is certified, never assumed (``theory.md``, 4.4).
    """
    detail: GlmDetail = plan.detail
    design = ranged_design(plan, rows, run)
    if design is None:
        return no_ranges(plan)
    values: dict[str, Array] = {}
    scale, shift = working_map(design)
    if detail.rescale and design.p > design.has_intercept:
        values["sums"], scale, shift = _rescale(run, detail, rows, design, scale, shift)
    working = WorkingRows(
        scale, shift, detail.radius, detail.reach, y_max=_y_max(detail),
        thins=not detail.loss.one_sided,
    )  # fmt: skip
    tilt = detail.sigma * run.inner_normals(COEF_STEP, design.p)
    found = minimise(
        lambda: rows.blocks(design),
        working,
        detail.loss,
        detail.lam,
        tilt,
        detail.tol,
        n=rows.n,
        max_iter=detail.max_iter,
        passes=detail.passes,
        skim=lambda: rows.skim(design),
    )
    # Not certified within the (public) cap: theory.md, 4.4 - the answer is then the centre of
    # the prior, whatever the rows.
    theta = found.theta if found.certified else np.zeros(design.p)
    values["theta"] = run.gaussian_real(OUT_STEP, theta, 2.0 * detail.tol / detail.lam)
    if detail.inference:
        values["information"] = _information(run, detail, rows, design, working, values["theta"])
    return Release(
        values,
        plan.guarantee,
        design,
        reply=not is_the_centre(values["theta"], detail),
        detail=GlmReleased(scale, shift, detail.sigma, detail.lam),
    )


def is_the_centre(theta: Array, detail: GlmDetail) -> bool:
    """Return whether *released* coefficients are the answer of a fit that did not certify.

    Zero within 6 sds of the noise of an inexact optimum, in every coordinate. A fit that certifies
    is there with a probability of about (1e-4)^p or less: its own noise is larger by 1e5 and more.
    """
    sd = 2.0 * detail.tol / detail.lam / detail.mu[OUT_STEP]
    return bool((np.abs(theta) <= _AT_CENTRE * sd).all())


def _y_max(detail: GlmDetail) -> float | None:
    return None if detail.loss.one_sided else detail.loss.score


def information_scales(detail: GlmDetail) -> tuple[float, float]:
    """Return bounds of the Frobenius norms that a row adds to H and to J.

    H = sum w l'' x x', at most curvature B R; J = sum (w l')^2 x x', at most (score B)^2.
    """
    loss = detail.loss
    return loss.curvature * detail.radius * detail.reach, (loss.score * detail.radius) ** 2


def svec(M: Array) -> Array:
    """Return (diagonal, sqrt(2) strict upper triangle): an isometry of the Frobenius norm."""
    upper = np.triu_indices(len(M), 1)
    return np.concatenate([np.diag(M), math.sqrt(2.0) * M[upper]])


def unsvec(v: Array, p: int) -> Array:
    """Return the symmetric matrix of :func:`svec`."""
    upper = np.triu_indices(p, 1)
    out = np.diag(v[:p])
    out[upper] = out.T[upper] = v[p:] / math.sqrt(2.0)
    return out


def _information(
    run: Run, detail: GlmDetail, rows: Rows, design: Design, working: WorkingRows, theta: Array
) -> Array:
    """Release H at the *released* theta; (H, J) where the model may be over-dispersed.

    Each is divided by what one row can add (a positive semidefinite matrix of norm at most 1);
    replacing a row moves it by sqrt(2) at most. 2^-20 pays for float sums.
    """
    p = len(theta)
    h, j = information_scales(detail)
    H, J = np.zeros((p, p)), np.zeros((p, p))
    for block in rows.blocks(design):
        X, y, w = working.apply(block)
        _, first, second = detail.loss.terms(theta @ X, y, w)
        H += (X * second) @ X.T
        if not detail.loss.one_sided:
            J += (X * first**2) @ X.T
    parts = [svec(H) / h]
    if not detail.loss.one_sided:
        parts.append(svec(J) / j)
    change = 2.0 if detail.relation == "replace" else 1.0
    size = math.sqrt(change * len(parts)) * (1.0 + 2.0**-20)
    noisy = run.gaussian_real(INFO_STEP, np.array(parts), size)
    return np.array([unsvec(v, p) * s for v, s in zip(noisy, (h, j), strict=False)])
