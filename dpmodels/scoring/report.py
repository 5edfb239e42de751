"""From a released scoring fit to coefficients, errors and words. Sees no row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import BiasBound
from dpmodels.arrays import Array
from dpmodels.release import Estimate
from dpmodels.scoring.fitting import ScoredDetail
from dpmodels.scoring.intervals import Inference, infer
from dpmodels.scoring.state import State, roots
from dpmodels.scoring.words import SEEN, cluster_notes, empty_rows, fit_notes, no_ranges_note

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Release
    from dpmodels.scoring.engine import ChainRelease, ScoringPlan, ScoringRelease

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
        from dpmodels.scoring.expand_fit import estimate_units

        scores = [chain.expansion.score for chain in release.detail.chains] if release.reply else []
        return estimate_units(
            plan, release, stats, common=lambda i, j: scores[i].common(scores[j])
        )
    detail = plan.detail
    if not release.reply:
        chains = detail.model.chains
        return no_ranges_note([name for c in chains for name in c.named(release.design.names)])
    found: ScoringRelease = release.detail
    design, coordinates = release.design, found.coordinates
    scoring = detail.scoring(coordinates.rank, plan.request.relation)
    A, a = coordinates.back()
    lost = ~coordinates.identified
    unit = float(coordinates.unit.scale[-1])
    parts: list[Part] = []
    names: list[str] = []
    clusters = found.clusters
    for i, (chain, one) in enumerate(zip(scoring.chains, found.chains, strict=True)):
        T = A @ one.before.W
        inference = infer(
            one.released[-1], one.plans[-1], one.before, one.last, chain.score,
            free=_free(plan, coordinates.rank),
            longest=_range(design, unit) if chain.score.of_residual else None,
            by_cluster=None if clusters is None else functools.partial(clusters.meat, i),
        )  # fmt: skip
        constant = None
        if coordinates.constant is not None:
            constant = np.asarray(np.linalg.solve(one.before.W, coordinates.constant))
        params = A @ one.last.state.theta + a
        if clusters is not None and not clusters.determined(i):
            inference = replace(inference, sampling=np.full_like(inference.sampling, math.nan))
        parts.append(Part(one, inference, params, T, constant, unit))
        names += chain.named(design.names)
    sampling, privacy = _covariances(parts, scoring, lost, by_cluster=clusters is not None)
    every = np.tile(lost, len(parts))
    bias = np.concatenate([p.inference.allowance.bias(p.T) for p in parts])
    bias[every] = math.nan
    few = np.concatenate([p.inference.allowance.few(p.T) for p in parts]) & ~every
    open_ = np.concatenate([p.inference.undetermined(p.T) for p in parts]) & ~every
    notes = fit_notes(plan, tuple(names), bias, few & ~open_, open_, every)
    notes += cluster_notes(plan, clusters, len(parts))
    notes += _void_rows(plan, design, parts[0])
    reported: dict[str, float] = {}
    for chain, part in zip(scoring.chains, parts, strict=True):
        last = part.release.plans[-1]
        values = {
            **stats(part),
            "score_clip": last.clip,
            "score_noise": last.noise.score,
            **found.statistics,
        }
        reported |= dict(zip(chain.named(tuple(values)), values.values(), strict=True))
    return Estimate(
        tuple(names),
        np.concatenate([p.params for p in parts]),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        bias=bias,
        bias_bound=BiasBound(tuple((p.T, p.inference.allowance) for p in parts)),
        untested=open_ if open_.any() else None,
        stats=reported,
        use_t=None if clusters is None or math.isinf(clusters.df) else clusters.df,
        notes=tuple(notes),
        arrays={"start": found.Q, "information": found.chains[0].released[-1].information},
    )


def _covariances(
    parts: list[Part], scoring: ScoringPlan, lost: npt.NDArray[np.bool_], *, by_cluster: bool
) -> tuple[Array, Array]:
    """Return the two covariances of all coefficients; noise of chains is independent."""
    p, k = len(lost), len(parts)
    sampling, privacy = np.zeros((k * p, k * p)), np.zeros((k * p, k * p))
    for i, one in enumerate(parts):
        at = slice(i * p, (i + 1) * p)
        sampling[at, at] = one.T @ one.inference.sampling @ one.T.T
        privacy[at, at] = one.T @ one.inference.privacy @ one.T.T
        for j, other in enumerate(parts[:i]):
            common = scoring.chains[i].score.common(scoring.chains[j].score)
            if by_cluster:
                left, right = (x.T @ roots(x.inference.sampling)[0] for x in (one, other))
                block = common * left @ right.T
            else:
                block = common / scoring.n * _spread(one) @ _spread(other).T
            there = slice(j * p, (j + 1) * p)
            sampling[at, there], sampling[there, at] = block, block.T
    every = np.tile(lost, k)
    for V in (sampling, privacy):
        V[every] = V[:, every] = math.nan
    return sampling, privacy


def _free(plan: Plan[Any], rank: int) -> float:
    """Return the small-sample factor of the errors: of HC1, of CRV1, or none of a survey."""
    n, sample = plan.detail.rows, plan.request.sample
    if sample is None:
        return n / max(n - rank, 1.0)
    return (n - 1.0) / max(n - rank, 1.0) if sample.frame.survey.errors_only else 1.0


def _range(design: Design, unit: float) -> float | None:
    """Return the width of the declared range of the response, in units of the fit."""
    interval = None if design.response is None else design.response.interval
    return None if interval is None else (interval[1] - interval[0]) * unit


def _spread(part: Part) -> Array:
    """Return the map of a whitened score of a row to the coefficients."""
    return np.asarray(part.T @ part.inference.inverse * math.sqrt(part.before.phi))


def _void_rows(plan: Plan[Any], design: Design, part: Part) -> list[str]:
    """Say how many rows were empty: the histogram of the last pass has one entry a whole row."""
    if plan.request.relation != "replace":
        return []
    last, bins = part.release.plans[-1], part.release.released[-1].bins
    assert bins is not None
    lost = min(1.0 - float(np.sum(bins)) / last.rows, 1.0)
    sd = last.noise.count * math.sqrt(len(bins)) / last.rows
    return empty_rows(lost, sd, design, shortened=False)
