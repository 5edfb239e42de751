"""Backend of ``dp_test("~ a * b", design=)``: independence in a survey (Rao and Scott, 1984).

Weighted cells in one release; then a pass by cluster over the contrasts
``z = u (1_{a=i} - r_i)(1_{b=j} - c_j)`` at the released margins, whose sums X are 0 where a and b
are independent. At released margins the errors of these are of second order. The reference is F by
the second-order correction: eigenvalues of the design covariance, noise of X included, in the
coordinates where rows drawn one by one have the identity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query, as_is
from dpmodels.exact.end import end_along
from dpmodels.exact.products import mapped, squares
from dpmodels.models.table.hypotheses import kind_of, null_of
from dpmodels.models.table.layout import Block, Layout, layout_of
from dpmodels.models.table.noise import TableNoise
from dpmodels.models.table.table import half_ranges
from dpmodels.models.table.weighted import WeightedTables, statistic
from dpmodels.models.weighted import SHARE, STEP, Trim, shares_of_weight, trim_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part
from dpmodels.release import Estimate, Release
from dpmodels.scoring.cluster_rules import ClusterPlan
from dpmodels.scoring.clusters import ClusterRelease, release_clusters

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

_STEP = "sums of the test"
CAREFUL = (
    "The test is careful: where rows of a PSU have nothing in common it rejects .02 to .03 of true "
    "hypotheses at .05."
)
#: Least share of a level that is believed, in steps of its noise and absolutely.
_LEAST = 1e-3


def why_not(request: Request) -> str:
    """Return why a call does not end here, in words; empty if it does."""
    given = request.weights is not None or request.sample is not None
    return "" if given else "no weights and no design"


@dataclass(frozen=True)
class RaoScott:
    """What is public of the test: its table, its noise, and the pass by cluster."""

    layout: Layout
    noise: TableNoise
    clusters: ClusterPlan
    population: float | None
    weighted: bool


@dataclass(frozen=True)
class RaoScottReleased:
    """Released cells with their margins, and what the pass by cluster told."""

    cells: Array
    rows: Array
    columns: Array
    clusters: ClusterRelease
    root: Array
    square: float


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the test. Reads no row."""
    kind = kind_of(request, design)
    if kind != "independence":
        raise RequestError(
            f'dp_test("{design.formula}", design=) has the test of independence, "~ a * b". Equal '
            'means are a Wald test: dp_ols("y ~ g", data, design=...).wald_test("g")'
        )
    null_of(request, design, kind)
    if request.unit is not None:
        raise RequestError("weights= and design= are of rows: leave unit= out")
    if request.sample is None:
        raise RequestError(
            'weights= of a test: say the design, design=dp.Survey(weights="w") (with psu= and '
            "strata=, if there are any), by which its reference is made"
        )
    whole = layout_of(design)
    layout = Layout(whole.axes, (Block((0, 1)),), whole.sections)
    part = gaussian_part(request, ())
    frame = request.sample.frame
    # contrasts are products: where a and b go with the unit, they do so by the product
    survey = replace(frame.survey, icc=frame.survey.icc**1.5)
    sample = replace(request.sample, frame=replace(frame, survey=survey))
    dim = (layout.axes[0].size - 2) * (layout.axes[1].size - 2)
    clusters = ClusterPlan.of(sample, part.mu, n, request.relation, [""], dim)
    rest, weighted = 1.0 - clusters.share, design.place_aside("weights") is not None
    shares = {"weights": SHARE * rest} if weighted else {}
    shares["sums"] = rest - math.fsum(shares.values())
    steps = [
        Step(STEP if name == "weights" else _STEP, Gaussian(part.mu * math.sqrt(s)), share=s)
        for name, s in shares.items()
    ]
    detail = RaoScott(
        layout, TableNoise("gaussian", part.mu * math.sqrt(shares["sums"]), (1.0,)), clusters,
        request.sample.frame.survey.population, weighted,
    )  # fmt: skip
    return Plan.of(
        request, design, n, [*steps, *clusters.steps],
        shares={**shares, "clusters": clusters.share}, detail=detail, passes=2 + weighted,
        scales=clusters.printed(dim), advice=clusters.advice(dim),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Contrasts:
    """``R u (1_{a=i} - r_i)(1_{b=j} - c_j)`` of rows, all but the last i and j; 0 where missing."""

    rows: Array
    columns: Array
    root: Array
    top: float
    place: int | None
    back: None = None

    @property
    def size(self) -> int:
        """Degrees of freedom of the table."""
        return len(self.root)

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (d, m)."""
        m = rows.shape[1]
        u = np.ones(m) if self.place is None else shares_of_weight(rows[self.place], self.top)
        a, b = rows[0].astype(np.intp), rows[1].astype(np.intp)
        u = np.where((a < len(self.rows)) & (b < len(self.columns)), u, 0.0)
        left = (a == np.arange(len(self.rows) - 1)[:, None]) - self.rows[:-1, None]
        right = (b == np.arange(len(self.columns) - 1)[:, None]) - self.columns[:-1, None]
        z = (left[:, None, :] * right[None, :, :]).reshape(-1, m) * u
        s = mapped(self.root, z)
        length = np.sqrt(squares(s))
        return end_along(s, length, clip, np.minimum(length * np.abs(factor), clip), factor)


def release(plan: Plan[RaoScott], ask: Ask) -> Release:
    """Release where weights are cut, the cells, and the products of contrasts by cluster.

    Privacy
    -------
    Unit: one row; replace-one, n public. Every query is one of the prover.
    """
    detail, design, n = plan.detail, plan.design, plan.n
    assert n is not None
    layout, (block,) = detail.layout, detail.layout.blocks
    place = design.place_aside("weights")
    trim = Trim(1.0, 1.0, 0.0)
    if detail.weighted:
        strength = detail.noise.budget * n / layout.cells(block.axes)
        trim = trim_of(ask, design, strength, detail.population, n)
    centre, half = half_ranges(design)
    over = WeightedTables(design, layout, centre, half, trim.top)
    noisy = ask(_STEP, Query(statistic(layout, detail.noise), over, as_is)).values
    shape = tuple(layout.axes[j].size for j in block.axes)
    cells = noisy[: math.prod(shape)].reshape(shape)[:-1, :-1]
    total = max(float(cells.sum()), 1.0)
    r, c = (_margin(cells.sum(axis=axis) / total) for axis in (1, 0))
    square = trim.square if detail.weighted else min(total / n, 1.0)
    product = np.kron(_spread(r), _spread(c)) * max(square, 1e-9)
    values, vectors = np.linalg.eigh(product)
    root = (vectors / np.sqrt(values)) @ vectors.T
    scorer = Contrasts(r, c, root, trim.top, place)
    found = release_clusters(detail.clusters, (scorer,), design, ask)
    out = RaoScottReleased(cells, r, c, found, root, square)
    return Release(
        {"sums": noisy, "cluster scores": found.products[0]}, plan.guarantee, design, detail=out
    )


def _margin(share: Array) -> Array:
    """Return released shares as shares: not below a thousandth, adding up to 1."""
    out = np.maximum(share, _LEAST)
    return np.asarray(out / out.sum())


def _spread(share: Array) -> Array:
    """Return the covariance of a row's dummies but the last."""
    p = share[:-1]
    return np.diag(p) - np.outer(p, p)


def estimate(plan: Plan[RaoScott], release: Release) -> Estimate:
    """Return the F test, and the weighted cells."""
    from scipy.special import fdtrc

    detail, part, n = plan.detail, release.detail, plan.n
    assert n is not None
    r, c, cells = part.rows, part.columns, part.cells
    total = max(float(cells.sum()), 1.0)
    X = (cells - np.outer(r, c) * total)[:-1, :-1].ravel()
    x = part.root @ X
    turns = (np.eye(len(p) - 1, len(p)) - np.outer(p[:-1], np.ones(len(p))) for p in (r, c))
    turn = part.root @ np.kron(*turns)
    noise = detail.noise.variance(0) * turn @ turn.T
    found: ClusterRelease = part.clusters
    V = found.meat(0, np.eye(len(x))) + noise / n
    values = np.linalg.eigvalsh((V + V.T) / 2.0)
    whole = float(values.sum())
    df = whole**2 / float((values**2).sum())
    free = df * min(found.df, float(n))
    F = float(x @ x) / n / whole
    known = found.determined(0)
    a, b = detail.layout.axes[:2]
    names = tuple(
        f"share[{a.name}={x}, {b.name}={y}]" for x in a.labels[:-1] for y in b.labels[:-1]
    )
    survey = plan.request.sample.frame.survey
    units = "rows" if survey.psu is None else f"{found.clusters:.0f} PSUs"
    sd = math.sqrt(detail.noise.variance(0)) / total
    return Estimate(
        names,
        (cells / total).ravel(),
        vcov_sampling=np.full((len(names),) * 2, np.nan),
        vcov_privacy=np.diag(np.full(len(names), sd**2)),
        stats={
            "statistic": F, "df": df, "df_denominator": free,
            "p_value": float(fdtrc(df, free, F)) if known else math.nan,
        },
        notes=(
            "Hypothesis: the two are independent. Rao-Scott, second order: F with "
            f"{df:.2f} and {free:.0f} degrees of freedom, by {units}; the covariance holds the "
            "noise.",
            *(() if known else ("The design variance is not determined at this budget: no p.",)),
            *((CAREFUL,) if known and survey.psu is not None else ()),
            "The guarantee protects one row, not one PSU. Weights are taken as delivered.",
        ),
    )  # fmt: skip
