"""Backend of ``dp_ols(method="pmt_paper")``: the published Algorithm 3, constants and all.

Whitening of x by the symmetric root of the public second moment, separate truncation of x and y,
noise of full size off the diagonal, no stabilisation, no inference. Its guarantee is stated
exactly: two Gaussian releases of rho each are mu-GDP with ``mu = 2 sqrt(rho)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.passes import Moments
from dpmodels.exact.prove import reach
from dpmodels.exact.rowmap import RowMap, UnitScale
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import Gram, Sum
from dpmodels.models.linear.simple import make_plan
from dpmodels.privacy.gdp import eps_gdp, mu_gdp
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.request import Request

#: Published sensitivity of ``sum x x'``, over R^2.
PUBLISHED = 2.0


@dataclass(frozen=True, eq=False)
class PaperDetail:
    """Public facts of the published algorithm.

    Attributes
    ----------
    root : (d, d) array
        ``S^{-1/2}``, symmetric.
    scale : float
        ``s_B``: root mean square of the public response.
    rx, ry : float
        Truncation radii, ``rx^2 = d (1 + log(2n/eta))``, ``ry^2 = 1 + log(2n/eta)``.
    mu : float
        Of each of the two releases.
    """

    root: Array
    scale: float
    rx: float
    ry: float
    mu: float


def published_mu(request: Request) -> float:
    """Return the mu of the whole call: of ``rho=`` (a total) if given, else of (eps, delta)."""
    mu = mu_gdp(request.eps, request.delta)
    rho = request["rho"]
    if rho is None:
        return mu
    need = eps_gdp(math.sqrt(2.0 * float(rho)), request.delta)
    if request.eps < need * (1.0 - 1e-9):
        raise RequestError(
            f"rho={shown(rho)} (the total) needs eps = {need:.6g} at delta = {request.delta:g}: "
            "give an eps at least as large, or leave rho= out"
        )
    return min(math.sqrt(2.0 * float(rho)), mu)


def published_roots(C: Array) -> tuple[Array, Array]:
    """Return ``(S^{-1/2}, S^{1/2})``, symmetric, of a public second moment."""
    values, vectors = np.linalg.eigh(C)
    if values[0] <= 1e-14 * values[-1]:
        raise RequestError(
            "the published algorithm inverts the public second moment, and here it is singular: "
            "more public rows are needed, or method='pmt', which shrinks"
        )
    return (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def published_query(
    ball: Ball, over: Moments, radius: float, part: Callable[[Any], Any] = lambda G: G
) -> Query:
    """Return moments with noise of full size on every entry of their upper triangle.

    Privacy
    -------
    The published sensitivity ``2 R^2`` exceeds that of the upper triangle, which is at most the
    Frobenius norm ``sqrt2 R^2``: noise larger than proved.
    """
    statistic = Gram(ball, entries=True)
    factor = max(1.0, PUBLISHED / reach(statistic, "replace", "l2"))
    return Query(
        statistic, over, lambda G: Added(part(G.integers())), radius * radius, factor=factor
    )


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the two releases. ``rho=`` means the total of both (the paper's is half of it)."""
    if request.public is None:
        raise RequestError("method='pmt_paper' needs public data with the response: public=")
    mu = published_mu(request)
    C = np.asarray(request.public.moments, dtype=float)
    d = design.p
    root, _ = published_roots(C[:d, :d])
    factor = 1.0 + math.log(2.0 * n / float(request["eta"]))
    detail = PaperDetail(
        root,
        math.sqrt(C[d, d]),
        math.sqrt(d * factor),
        math.sqrt(factor),
        mu / math.sqrt(2.0),
    )
    part = Gaussian(detail.mu)
    steps = [Step("second moments", part, share=0.5), Step("cross moments", part, share=0.5)]
    return make_plan(
        request, design, n, steps, None, detail,
        scales={"radius of x": detail.rx, "radius of y": detail.ry},
    )  # fmt: skip


def release(plan: Plan[PaperDetail], ask: Ask) -> Release:
    """Release ``sum x~x~'`` and ``sum x~y~`` of truncated rows. One pass.

    Privacy
    -------
    Noise of the published size: sensitivity 2 R^2 (the tight one is sqrt2 R^2), and full size off
    the diagonal. Both only add noise, so the stated guarantee holds.
    """
    detail = plan.detail
    d = plan.design.p
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = detail.root
    matrix[d, d] = 1.0 / detail.scale
    box = np.append(np.full(d, detail.rx), detail.ry)
    unit = UnitScale(np.ones(d + 1), np.zeros(d + 1), False)
    rowmap = RowMap(
        unit,
        box,
        ball=d,
        radius=detail.rx,
        matrix=matrix,
        project=True,
    )
    over = Moments(plan.design, rowmap)
    M = ask("second moments", published_query(Ball(d), over, detail.rx, lambda G: G[:d, :d]))
    # x y is in the ball of rx ry: 2 rx ry apart, as published
    cross = Query(
        Sum(Ball(d), products=True), over, lambda G: Added(G.integers()[:d, d]),
        detail.rx * detail.ry,
    )  # fmt: skip
    h = ask("cross moments", cross)
    return Release(
        {"second_moments": M.values, "cross_moments": h.values},
        plan.guarantee,
        plan.design,
        detail=detail,
    )


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Return ``s_B S^{-1/2} M^{-1} h``, as published."""
    detail: PaperDetail = release.detail
    M, h = release.values["second_moments"], release.values["cross_moments"]
    theta = np.linalg.lstsq(M, h, rcond=None)[0]
    return Estimate(
        release.design.names,
        detail.scale * detail.root @ theta,
        notes=("The published algorithm has no stabilisation and no standard errors.",),
        arrays=dict(release.values),
    )
