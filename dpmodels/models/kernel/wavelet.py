"""Wavelet regression with Gaussian noise, for comparison (after Cai, Chakraborty, Vuursteen 2024).

Haar scaling functions at one public level J on [-1, 1]^d, d = 1: since the Haar transform is
orthonormal, noise on the scaling coefficients is noise on the wavelet coefficients up to J. The
published estimator assumes a uniform design; here the count of each cell is released with the sum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import end_of_numbers
from dpmodels.exact.features import feature_scale
from dpmodels.exact.passes import Counts
from dpmodels.exact.sets import Box
from dpmodels.exact.statistics import ByClass, Sum
from dpmodels.models.kernel.kernel import UnitRows
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

_LABEL = 2.0**15


@dataclass(frozen=True)
class WaveletDetail:
    """Level J (2^J cells) and mu."""

    level: int
    mu: float


def default_level(n: int, mu: float) -> int:
    """Return J with 2^J ~ min(n^(1/3), (n mu)^(1/2)): smoothness 1, public numbers only."""
    cells = min(n ** (1 / 3), math.sqrt(n * mu))
    return max(1, round(math.log2(max(cells, 2.0))))


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a wavelet regression in one variable."""
    index = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    if len(index) != 1 or design.columns[index[0]].kind == "dummy":
        raise RequestError("method='wavelet' takes one numeric variable: 'y ~ x1'")
    part = gaussian_part(request, design.unknown)
    steps, bought = list(part.steps), part.share
    rest = part.mu * math.sqrt(1.0 - bought)
    steps.append(Step("coefficients", Gaussian(rest), share=1.0 - bought))
    level = request["level_j"]
    detail = WaveletDetail(default_level(n, rest) if level is None else int(level), rest)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares={**part.printed, "coef": 1.0 - bought},
        scales={"cells": float(2**detail.level)},
        purchase=part.purchase,
        detail=detail,
    )


def release(plan: Plan[WaveletDetail], ask: Ask) -> Release:
    """Release (sum of y, count) of each cell.

    Privacy
    -------
    Unit: one row; replace-one, n public. With |y| <= 1 the joint L2 sensitivity is 2: same cell
    2, two cells ``sqrt(1 + 1 + 1 + 1)``.
    """
    detail = plan.detail
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    scale = feature_scale(design, None)
    lo, hi = design.intervals()[-1].tolist()
    centre, half = (lo + hi) / 2.0, max((hi - lo) / 2.0, 1e-300)
    cells = 2**detail.level
    reader = UnitRows(scale.columns, scale.centre, scale.half, centre, half)
    job = functools.partial(_cell_sums, reader=reader, cells=cells)
    statistic = ByClass(Sum(Box(1), count=1.0), cells)
    found = ask("coefficients", Query(statistic, Counts(design, job), _labelled)).values
    sums, counts = statistic.parts(found)
    values = {"sums": sums.ravel(), "counts": counts}
    return Release(values, plan.guarantee, design, detail=(scale, centre, half))


def _labelled(found: tuple[Any, ...]) -> Added:
    """Return sums and counts in steps of 2^-15."""
    sums, counts = found
    return Added((sums.astype(object), counts.astype(object) * int(_LABEL)), 1.0 / _LABEL)


def _cell_sums(
    blocks: Iterable[Array], reader: UnitRows, cells: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (sums of y in steps of 2^-15, counts) of the cells, (cells,) each. Confidential."""
    sums, counts = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    for block in blocks:
        (u,), y = reader(block)
        keep = ~(np.isnan(u) | np.isnan(y))
        at = ((np.clip(u[keep], -1.0, 1.0) + 1.0) * 0.5 * cells).astype(np.intp)
        at = np.minimum(at, cells - 1)
        k = end_of_numbers(y[keep], steps=_LABEL)
        sums += np.bincount(at, weights=k, minlength=cells).astype(np.int64)
        counts += np.bincount(at, minlength=cells)
    return sums, counts


def estimate(plan: Plan[WaveletDetail], release: Release) -> Estimate:
    """Cell means, as a curve at the mid-points of the cells."""
    if not release.reply:
        return Estimate.silent(("curve",))
    detail = plan.detail
    scale, centre, half = release.detail
    cells = 2**detail.level
    sigma = 2.0 / detail.mu
    ok = release.values["counts"] > 2.0 * sigma
    D = np.where(ok, release.values["counts"], 1.0)
    f = np.where(ok, np.clip(release.values["sums"] / D, -1.0, 1.0), np.nan)
    se = np.where(ok, sigma * np.sqrt(1.0 + f * f) / D, np.nan)
    u = ((np.arange(cells) + 0.5) / cells * 2.0 - 1.0)[:, None]
    points = scale.centre + scale.half * u
    name = next(c.name for c in release.design.columns if c.kind != "intercept")
    return Estimate(
        tuple(f"f({name}={v:.4g})" for v in points[:, 0].tolist()),
        centre + half * f,
        vcov_privacy=np.diag((se * half) ** 2),
        stats={"cells": float(cells)},
        notes=("Cell means; between the mid-points of cells predict() interpolates.",),
        arrays={
            "points": points,
            "unit_points": u,
            "scale": np.array([1.0 / cells, centre, half, sigma]),
            "centre": scale.centre,
            "half": scale.half,
            "f": f,
            "se": se,
        },
    )
