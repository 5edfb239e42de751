"""Errors by cluster: one more pass at the final fit, whose scores are summed by cluster.

What a row adds, and how sums are cut, is the business of :mod:`dpmodels.core.clusters`. Radii are
rules (:mod:`dpmodels.scoring.cluster_plan`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.clusters import ClusterPasses, PeopleByCluster, Radii, Scorer, statistic
from dpmodels.core.release import Queried
from dpmodels.formula.design import Design
from dpmodels.scoring import rules
from dpmodels.scoring.cluster_plan import ClusterPlan, clip_of
from dpmodels.scoring.models import floored, roots, shrunk
from dpmodels.sums.ask import Noisy
from dpmodels.survey import LEAST


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """Release of a pass by cluster."""

    # tuple of (r, r) arrays: J per row, of each chain, in the coordinates of its last pass.
    products: tuple[Array, ...]
    radii: Radii
    clusters: float  # Declared, or released
    df: float
    correction: float  # Factor on J: ``G/(G - 1)``; 1 in pairs
    few: bool = False

    @property
    def noise_sd(self) -> float:
        """Noise sd of an entry of the corrected J in svec coordinates, per row."""
        return self.correction * self.radii.noise

    def noise(self, chain: int) -> float:
        """Return the noise of J over its size, by released numbers."""
        J = self.products[chain]
        size = float(np.trace(J)) / len(J)
        return self.radii.noise / size if size > 0.0 else math.inf

    def determined(self, chain: int) -> bool:
        """Return whether J exceeds its noise. Otherwise errors are upper bounds."""
        return not self.few and self.noise(chain) <= rules.CLUSTER_NOISE_MAX

    def meat(self, chain: int, of_rows: Array) -> Array:
        """Return J per row, shrunk by the spread that noise explains, and at least that of rows.

        If it does not exceed its noise, the design effects sum to at most the released value plus
        two noise sds, and each but one is at least ``MIN_DESIGN_EFFECT``: the one may be any. Each
        design effect is raised to at least .7 of the released meat of rows.
        """
        J = self.correction * self.products[chain]
        root, back = roots(of_rows)
        if not self.determined(chain):
            sd = self.noise_sd * float(np.linalg.norm(back @ back))
            trace = float(np.trace(back @ J @ back)) + rules.VISIBLE_SDS * sd
            return of_rows * max(trace - rules.MIN_DESIGN_EFFECT * (len(J) - 1.0), 1.0)
        J = shrunk(J, self.noise_sd, len(J))
        return np.asarray(root @ floored(back @ J @ back, rules.MIN_DESIGN_EFFECT) @ root)


def release_clusters(
    plan: ClusterPlan, passes: tuple[Scorer, ...], design: Design
) -> Generator[Queried, Noisy, ClusterRelease]:
    """Release the number of clusters, where it is not declared, and J of every chain.

    ``passes`` score rows at the final fit of each; the design has its ranges put in.

    Privacy
    -------
    The steps of the plan, each a query of the prover, over one reading of the rows.
    """
    kind = PeopleByCluster if plan.people else ClusterPasses
    frame, r = plan.frame, passes[0].size
    clip = clip_of(r, plan.n, plan.each)
    slack = statistic(r, plan.radii(r)).slack * plan.radii(r).bound if plan.people else 0.0
    over = kind(passes, plan.sample.read(design), frame, clip, slack)
    total, few = frame.survey.total, False
    if plan.count:
        count = yield Queried("clusters", over.count())
        few = float(count.values[0]) < rules.MIN_RELEASED_CLUSTERS + rules.VISIBLE_SDS * float(
            count.sd[0]
        )
        total = max(float(count.values[0]), float(LEAST))
    radii = plan.radii(r, total)
    out = []
    for i, (label, scorer) in enumerate(zip(plan.chains, passes, strict=True)):
        J = (yield Queried(f"cluster scores{label}", over.products(i, radii))).values
        if plan.totals:
            by_stratum = yield Queried(f"stratum totals{label}", over.totals(i, radii))
            T, sd = by_stratum.values.reshape(frame.strata, r), float(by_stratum.sd[0])
            J = J - of_means(T, sd, frame.units)
        J = J / plan.n
        out.append(J if scorer.back is None else scorer.back @ J @ scorer.back.T)
    if total is None:  # rows are their own units
        return ClusterRelease(tuple(out), radii, float(plan.n), math.inf, 1.0)
    df = frame.df if frame.df is not None else total - frame.strata
    factor = frame.correction if frame.totals else 1.0 if frame.pairs else total / (total - 1.0)
    return ClusterRelease(tuple(out), radii, total, max(df, 1.0), factor, few)


def of_means(T: Array, sd: float, units: Sequence[float]) -> Array:
    """Return ``sum_h (T_h T_h' - sd^2 I)/n_h`` over strata of two units or more.

    It is computed from released totals T, less the part of their noise. The mean of a stratum of
    one unit is not removed.
    """
    many = np.asarray(units)
    several = many > 1.0
    means = T[several] / np.sqrt(many[several])[:, None]
    noise = sd**2 * float(np.sum(1.0 / many[several]))
    return np.asarray(means.T @ means - noise * np.eye(T.shape[1]))
