"""From a released scoring fit to coefficients, errors and words. Sees no row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.coordinates import most_root, unweighted
from dpmodels.scoring.fitted import estimated, if_determined
from dpmodels.scoring.fitting import ScoredDetail
from dpmodels.scoring.intervals import Inference, infer
from dpmodels.scoring.public_rows import effects_beyond, few_events, still_moving
from dpmodels.scoring.words import SEEN, empty_rows, no_ranges_note

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.scoring.engine import ChainRelease, ScoringRelease
    from dpmodels.scoring.state import State

__all__ = ["SEEN", "Part", "empty_rows", "estimate_fit", "no_ranges_note"]


@dataclass(frozen=True, eq=False)
class Part:
    """One chain of a fit, in the user's units.

    Attributes
    ----------
    release : ChainRelease
    inference : Inference
    params : (p,) array
    T : (p, r) array
        Maps a step in w to coefficients.
    constant : (r,) array or None
        a with ``a'w = 1`` in every complete row.
    unit : float
        Unit responses to one of the user's.
    """

    release: ChainRelease
    inference: Inference
    params: Array
    T: Array
    constant: Array | None
    unit: float

    @property
    def before(self) -> State:
        """Where the last pass looked from."""
        return self.release.before

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a row to the coefficients."""
        return np.asarray(self.T @ self.inference.inverse * math.sqrt(self.before.phi))

    @property
    def undetermined(self) -> npt.NDArray[np.bool_]:
        """Which coefficients are not determined at this budget: along unresolved directions."""
        return self.inference.undetermined(self.T)


def estimate_fit(
    plan: Plan[ScoredDetail], release: Release, stats: Callable[[Part], dict[str, float]]
) -> Estimate:
    """Map the last step of every chain to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports of a chain beside the coefficients: released numbers. Clip and noise
        of the scores, and fit statistics, follow.
    """
    if not isinstance(plan.detail, ScoredDetail):
        from dpmodels.scoring.expand_report import estimate_units

        scores = [chain.expansion.score for chain in release.detail.chains] if release.reply else []
        return estimate_units(
            plan, release, stats, common=lambda i, j: scores[i].common(scores[j])
        )
    detail = plan.detail
    design = release.design
    if not release.reply:
        chains = detail.model.chains
        return no_ranges_note([name for c in chains for name in c.named(design.names)])
    found: ScoringRelease = release.detail
    coordinates, clusters = found.coordinates, found.clusters
    chains = detail.scoring(coordinates.rank, plan.request.relation).chains
    A, a = coordinates.back()
    unit = float(coordinates.unit.scale[-1])
    parts: list[Part] = []
    stopped, beyond, few = [], [], []
    for i, (chain, one) in enumerate(zip(chains, found.chains, strict=True)):
        inference = infer(
            one.released[-1], one.plans[-1], one.before, one.last, chain.score,
            free=_free(plan, coordinates.rank),
            longest=_range(design, unit) if chain.score.of_residual else None,
            by_cluster=None if clusters is None else functools.partial(clusters.meat, i),
            remainder=chain.score.remainder(one.before, one.last.d),
        )  # fmt: skip
        constant = None
        if coordinates.constant is not None:
            constant = np.asarray(np.linalg.solve(one.before.W, coordinates.constant))
        params, T = A @ one.last.state.theta + a, A @ one.before.W
        inference = if_determined(inference, clusters, i)
        parts.append(Part(one, inference, params, T, constant, unit))
        none = np.zeros(len(params), dtype=bool)
        seen = None if found.seen is None else found.seen @ one.before.W
        stopped.append(
            none if seen is None
            else still_moving(design, seen, one.last.d, inference.privacy)
        )  # fmt: skip
        few.append(few_events(
            design, coordinates, one.before, one.last.state.theta, chain.score, inference.H,
            one.plans[-1].rows,
        ))  # fmt: skip
        beyond.append(effects_beyond(design, params) if chain.score.of_residual else none)
    return estimated(
        plan, parts, [chain.label for chain in chains], design.names, stats,
        lost=~coordinates.identified, common=lambda i, j: chains[i].score.common(chains[j].score),
        clusters=clusters, statistics=found.statistics,
        notes=[*_void_rows(plan, design, parts[0]), *_cut_deviances(chains[0].score, found)],
        arrays={"start": found.Q, "information": found.chains[0].released[-1].information},
        stopped=np.concatenate(stopped), beyond=np.concatenate(beyond), few=np.concatenate(few),
    )  # fmt: skip


def _free(plan: Plan[Any], rank: int) -> float:
    """Return the small-sample factor of the errors: of HC1, of CRV1, or none of a survey."""
    n, sample = plan.detail.rows, plan.request.sample
    if sample is None:
        return n / max(n - rank, 1.0)
    return (n - 1.0) / max(n - rank, 1.0) if sample.frame.survey.errors_only else 1.0


def _range(design: Design, unit: float) -> float | None:
    """Return the width of the declared range of the response, in units of the fit."""
    whole = design if design.bought else unweighted(design)
    interval = None if whole.response is None else whole.response.interval
    root = 1.0 if whole is design else most_root(design)
    return None if interval is None else (interval[1] - interval[0]) * unit * root


def _cut_deviances(score: Any, found: ScoringRelease) -> list[str]:
    """Say what the deviance of a fit has cut, and what of it its error does not hold."""
    cut = found.statistics.get("deviance_cut", 0.0)
    amounts = bool(found.statistics) and not score.is_event and not score.family.counts
    if not cut and not amounts:
        return []
    from dpmodels.scoring.deviance import LONGEST

    low = " Of responses far below the mean no release tells what is cut." if amounts else ""
    return [
        f"Deviance: a row counts up to {LONGEST:g} dispersions. By the released lengths of scores "
        f"about {cut:.3g} lies beyond in all: not added, but in the errors of deviance and pseudo "
        f"R-squared.{low}"
    ]


def _void_rows(plan: Plan[Any], design: Design, part: Part) -> list[str]:
    """Say how many rows were empty: the histogram of the last pass has one entry a whole row."""
    if plan.request.relation != "replace":
        return []
    last, bins = part.release.plans[-1], part.release.released[-1].bins
    assert bins is not None
    lost = min(1.0 - float(np.sum(bins)) / last.rows, 1.0)
    sd = last.noise.count * math.sqrt(len(bins)) / last.rows
    return empty_rows(lost, sd, design, shortened=False)
