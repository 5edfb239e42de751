"""The private stage of objective perturbation: rows in, released numbers out."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import TOP, towards_zero
from dpmodels.exact.features import column_sums, rescaling
from dpmodels.exact.lemmas import Of
from dpmodels.exact.passes import Counts, first_array
from dpmodels.exact.products import cross_product, mapped
from dpmodels.exact.rowmap import UnitScale, unit_scale
from dpmodels.exact.statistics import Powers
from dpmodels.exact.symmetric import svec, unsvec
from dpmodels.exact.words import Words, joined
from dpmodels.models.glm.lattice import passes_over
from dpmodels.models.glm.newton import WorkingRows, minimise
from dpmodels.models.glm.plan import COEF_STEP, INFO_STEP, OUT_STEP, SCALE_STEP, GlmDetail
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.ranges import no_ranges, ranged_design
from dpmodels.release import Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.models.glm.lattice import Loss
    from dpmodels.planning import Plan

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
    ask: Ask, detail: GlmDetail, design: Design, scale: Array, shift: Array
) -> tuple[Array, Array, Array]:
    keep = np.array([c.kind != "intercept" for c in design.columns])
    d = int(keep.sum())
    index = [*np.flatnonzero(keep).tolist(), design.p]
    job = functools.partial(_column_sums, index=index, scale=scale[keep], shift=shift[keep])
    found = ask(SCALE_STEP, Query(Powers(d), Counts(design, job), first_array))
    noisy, sd = found.values, float(found.sd[0])
    factor, offset = rescaling(noisy, sd, design.has_intercept, most_magnified(design)[keep])
    scale, shift = scale.copy(), shift.copy()
    shift[keep] = shift[keep] * factor + offset
    scale[keep] *= factor
    return noisy, scale, shift


def _column_sums(
    blocks: Iterable[Array], index: list[int], scale: Array, shift: Array
) -> tuple[npt.NDArray[np.object_]]:
    """Return :func:`column_sums` of some columns, the response last. Confidential."""
    return (column_sums((block[index] for block in blocks), scale, shift),)


def release(plan: Plan[GlmDetail], ask: Ask) -> Release:
    """Run objective perturbation on the rows.

    Privacy
    -------
    Unit: one row. Charged: the steps of the plan. The random linear term is drawn before the
    rows are read; the optimum is certified, never assumed (``theory.md``, 4.4).

    Notes
    -----
    Where the mapped rows fit in memory (a function of n and p) they are read once by the caller,
    and kept until the minimum is found: which takes rows themselves. All other passes are exact
    integers, added up by tasks where there are any: column sums, value, gradient and Hessian of
    larger tables at each step, the information. The steps are taken by the caller.
    """
    raw = ask.raw(own_proof("objective perturbation"))
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    values: dict[str, Array] = {}
    scale, shift = working_map(design)
    if detail.rescale and design.p > design.has_intercept:
        values["sums"], scale, shift = _rescale(ask, detail, design, scale, shift)
    working = WorkingRows(
        scale, shift, detail.radius, detail.reach, y_max=_y_max(detail),
        thins=not detail.loss.one_sided,
    )  # fmt: skip
    tilt = detail.sigma * raw.inner_normals(COEF_STEP, design.p)
    found = minimise(
        rows=working,
        loss=detail.loss,
        lam=detail.lam,
        tilt=tilt,
        tol=detail.tol,
        n=raw.rows.n,
        max_iter=detail.max_iter,
        passes=detail.passes,
        **passes_over(raw.rows, design, working, detail.loss),
    )
    # Not certified within the (public) cap: theory.md, 4.4 - the answer is then the centre of
    # the prior, whatever the rows.
    theta = found.theta if found.certified else np.zeros(design.p)
    values["theta"] = raw.gaussian_real(OUT_STEP, theta, 2.0 * detail.tol / detail.lam)
    if detail.inference:
        values["information"] = _information(ask, detail, design, working, values["theta"])
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


def _information(
    ask: Ask, detail: GlmDetail, design: Design, working: WorkingRows, theta: Array
) -> Array:
    """Release H at the *released* theta; (H, J) where the model may be over-dispersed.

    Each is divided by what one row can add (a positive semidefinite matrix of norm at most 1);
    replacing a row moves it by sqrt(2) at most, in integers exactly; 2^-20 pays for the grid.
    """
    p = len(theta)
    h, j = information_scales(detail)
    two = not detail.loss.one_sided
    job = functools.partial(
        information_sums, working=working, loss=detail.loss, theta=theta, scales=(h, j)[: 1 + two]
    )
    lemma = Of("unit matrices", (1 + two,), (1 + two) * p * (p + 1) // 2)
    noisy = ask(INFO_STEP, Query(lemma, Counts(design, job), _as_svec)).values
    parts = noisy.reshape(1 + two, -1)
    return np.array([unsvec(v, p) * s for v, s in zip(parts, (h, j), strict=False)])


def _as_svec(words: tuple[npt.NDArray[np.int64], ...]) -> Added:
    """Return the matrices of two words each, over what a row can add, as svec."""
    whole = [joined(*words[at : at + 2]) / 2**40 for at in range(0, len(words), 2)]
    return Added(np.concatenate([svec(np.asarray(M, dtype=float)) for M in whole]))


def information_sums(
    blocks: Iterable[Array], working: WorkingRows, loss: Loss, theta: Array,
    scales: tuple[float, ...],
) -> tuple[npt.NDArray[np.int64], ...]:  # fmt: skip
    """Return H / h and, with two scales, J / j in steps of 2^-40, two words each. Confidential.

    Sums of ``z z'`` over integer rows z, ``|z| <= 2^20``: ``z = 2^20 sqrt(w l'' / h) x`` of H,
    ``2^20 (w l') x / sqrt(j)`` of J, cut towards zero. Blocks of at most 2^13 rows: exact in any
    order (``exact/theory.md``, 1.5).
    """
    totals = [Words(len(theta)) for _ in scales]
    with np.errstate(all="ignore"):
        for block in blocks:
            X, y, w = working.apply(block)
            # each row by itself: its integers do not depend on its place
            _, first, second = loss.terms(mapped(theta[None], X)[0], y, w)
            weights = (np.sqrt(second), first)
            for total, weight, scale in zip(totals, weights, scales, strict=False):
                weight[~np.isfinite(weight)] = 0.0  # a linear predictor beyond floats
                total.add(cross_product(towards_zero(X * (weight * (TOP / math.sqrt(scale))))))
    return tuple(word for total in totals for word in total.words())
