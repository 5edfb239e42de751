"""From a released scoring fit to coefficients, errors and words. Sees no row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import BiasBound
from dpmodels.arrays import Array
from dpmodels.records import Estimate, Release
from dpmodels.scoring.arrival import arrived
from dpmodels.scoring.intervals import Inference, infer, infer_units
from dpmodels.scoring.notes import (
    EMPTY,
    SEEN,
    cluster_notes,
    effects_beyond,
    empty_rows,
    few_events,
    fit_notes,
    named,
    no_ranges_note,
    public_rows,
    those,
)
from dpmodels.scoring.plan import ScoredDetail
from dpmodels.scoring.rules import LOUD
from dpmodels.scoring.scores import State, roots
from dpmodels.scoring.starts import most_root, unweighted

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.run import ChainRelease, ScoringRelease
    from dpmodels.scoring.unit_run import UnitChain, UnitDetail, UnitRelease

__all__ = ["SEEN", "Part", "empty_rows", "estimate_fit", "no_ranges_note"]


# -- From the inferred models of a fit to its estimate: the same of rows and of units. Sees no row.
#
# :mod:`dpmodels.scoring.estimate` and :mod:`dpmodels.scoring.estimate` infer each model and put
# it
# into the user's units; here models are put together.


Mask = npt.NDArray[np.bool_]
#: Correlation of the scores of two models, by their places.
Common = Callable[[int, int], float]


class Fitted(Protocol):
    """One model of a fit, in the user's units."""

    @property
    def inference(self) -> Inference:
        """Covariances and allowances of its last step."""
        ...

    @property
    def params(self) -> Array:
        """Coefficients, (p,)."""
        ...

    @property
    def T(self) -> Array:
        """Map of a step in w to the coefficients, (p, r)."""
        ...

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a unit to the coefficients, (p, r)."""
        ...

    @property
    def undetermined(self) -> Mask:
        """Which coefficients are not determined at this budget."""
        ...


F = TypeVar("F", bound=Fitted)

STOPPED = (
    "Not arrived: the last step still moved the fit where these coefficients count, so they are "
    "not tested, and the truth may lie outside the interval (a larger eps, narrower ranges, or "
    "levels with more rows or events would help): "
)
BEYOND = (
    "Effects beyond what the declared ranges allow (more than three ranges of the response), so "
    "they are noise and not tested: "
)
FEW = (
    "Fewer than 25 expected events (or counts) at a level, too few for a normal interval, so these "
    "are not tested (join rare levels): "
)


def if_counted(inference: Inference, clusters: ClusterRelease | None) -> Inference:
    """Return the inference; without sampling errors where clusters cannot be counted."""
    if clusters is None or not clusters.few:
        return inference
    return replace(inference, sampling=np.full_like(inference.sampling, math.nan))


def estimated(
    plan: Plan[Any], parts: Sequence[F], labels: Sequence[str], names: Sequence[str],
    stats: Callable[[F], Mapping[str, float]], *, lost: Mask, common: Common | None,
    clusters: ClusterRelease | None, statistics: Mapping[str, float], notes: Sequence[str],
    arrays: Mapping[str, Array], stopped: Mask | None = None, beyond: Mask | None = None,
    few: Mask | None = None,
) -> Estimate:  # fmt: skip
    """Return the estimate of all models together.

    Parameters
    ----------
    parts : sequence of Fitted
    labels : sequence of str
        Of each model; empty: the only one.
    names : sequence of str
        Of the coefficients of a model.
    stats : function
        What the room reports of a model beside the coefficients: released numbers.
    lost : bool array
        Coefficients that the design does not determine.
    common : function or None
        None: scores of models are unrelated.
    clusters : ClusterRelease or None
    statistics : mapping
        Fit statistics, reported after clip and noise of the scores.
    notes : sequence of str
        Of the caller, after those of any fit.
    arrays : mapping
        Of the estimate.
    stopped, beyond, few : bool arrays, optional
        Coefficients of all models whose last step had not arrived; with an effect that the
        declared ranges do not allow; of levels with few events. They are marked and not tested.
    """
    every = tuple(name for label in labels for name in named(names, label))
    sampling, privacy = covariances(parts, lost, common, by_cluster=clusters is not None)
    gone = np.tile(lost, len(parts))
    bias = np.concatenate([p.inference.allowance.bias(p.T) for p in parts])
    bias[gone] = math.nan
    leverage = np.concatenate([p.inference.allowance.few(p.T) for p in parts]) & ~gone
    open_ = np.concatenate([p.undetermined for p in parts]) & ~gone
    said = fit_notes(plan, every, bias, leverage & ~open_, open_, gone)
    for which, text in ((stopped, STOPPED), (beyond, BEYOND), (few, FEW)):
        if which is not None and (which & ~gone).any():
            open_ = open_ | (which & ~gone)
            said.append(text + those(every, which & ~gone))
    said += cluster_notes(plan, clusters, len(parts))
    reported: dict[str, float] = {}
    for label, part in zip(labels, parts, strict=True):
        last = part.inference.plan
        values = {
            **stats(part), "score_clip": last.clip, "score_noise": last.noise.score, **statistics,
        }  # fmt: skip
        reported |= dict(zip(named(tuple(values), label), values.values(), strict=True))
    return Estimate(
        every,
        np.concatenate([p.params for p in parts]),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        bias=bias,
        bias_bound=BiasBound(tuple((p.T, p.inference.allowance) for p in parts)),
        untested=open_ if open_.any() else None,
        stats=reported,
        use_t=None if clusters is None or math.isinf(clusters.df) else clusters.df,
        notes=(*said, *notes),
        arrays=dict(arrays),
    )


def covariances(
    parts: Sequence[Fitted], lost: Mask, common: Common | None, *, by_cluster: bool
) -> tuple[Array, Array]:
    """Return the two covariances of all coefficients; the noise of one model is its own."""
    p, k = len(lost), len(parts)
    sampling, privacy = np.zeros((k * p, k * p)), np.zeros((k * p, k * p))
    for i, one in enumerate(parts):
        at = slice(i * p, (i + 1) * p)
        sampling[at, at] = one.T @ one.inference.sampling @ one.T.T
        privacy[at, at] = one.T @ one.inference.privacy @ one.T.T
        for j, other in enumerate(parts[:i] if common is not None else ()):
            assert common is not None
            if by_cluster:
                left, right = (x.T @ roots(x.inference.sampling)[0] for x in (one, other))
                block = common(i, j) * left @ right.T
            else:
                block = common(i, j) / one.inference.plan.rows * one.spread @ other.spread.T
            there = slice(j * p, (j + 1) * p)
            sampling[at, there], sampling[there, at] = block, block.T
    every = np.tile(lost, k)
    for V in (sampling, privacy):
        V[every] = V[:, every] = math.nan
    return sampling, privacy


# -- From a released scoring fit to coefficients, errors and words. Sees no row.


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
    moves = None if found.seen is None else public_rows(design)
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
        none = np.zeros(len(params), dtype=bool)
        stopped.append(none)
        if moves is not None and found.seen is not None:
            inference, far = arrived(inference, found.seen, one.before, chain.score)
            stopped[-1] = moves.columns(far) | one.on_its_way
        inference = if_counted(inference, clusters)
        parts.append(Part(one, inference, params, T, constant, unit))
        few.append(few_events(
            design, coordinates, one.before, one.last.state.theta, chain.score, inference.H,
            one.plans[-1].rows, inference.privacy,
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
    from dpmodels.scoring.cells import LONGEST

    low = " Of responses far below the mean what a gamma response would lose." if amounts else ""
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


# -- From a released fit over units to coefficients, errors and words. Sees no row.
#
# The mirror of :mod:`dpmodels.scoring.estimate` for the engine of expansions.


@dataclass(frozen=True, eq=False)
class UnitPart:
    """One model of a fit over units, in the user's units.

    Attributes
    ----------
    chain : UnitChain
    inference : Inference
    params : (p,) array
    T : (p, r) array
        Maps a step in w to coefficients.
    unit : float
        Unit responses to one of the user's.
    """

    chain: UnitChain
    inference: Inference
    params: Array
    T: Array
    unit: float = 1.0

    @property
    def before(self) -> State:
        """Where the last pass looked from."""
        return self.chain.before

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a unit to the coefficients."""
        out = self.T @ self.inference.inverse * math.sqrt(self.before.phi)
        return np.asarray(out @ roots(self.inference.meat)[0])

    @property
    def noise(self) -> float:
        """Noise of the information over its size, as released: ``nu sqrt(2p)/(tr H/p)``."""
        last, found = self.inference.plan, self.chain.released[-1].information
        r, n = len(found), last.rows
        size = max(float(np.trace(found)) / (r * n), 1e-300)
        return last.noise.information / n * math.sqrt(2.0 * r) / size

    @property
    def undetermined(self) -> npt.NDArray[np.bool_]:
        """Which coefficients are not determined: along unresolved directions, or all.

        All where the released noise of the information is beyond what intervals were found to bear.
        """
        return self.inference.undetermined(self.T) | (self.noise > LOUD)

    @property
    def constant(self) -> None:
        """None: no share of complete rows is released of units."""
        return None


def estimate_units(
    plan: Plan[UnitDetail], release: Release, stats: Callable[[UnitPart], dict[str, float]], *,
    back: Callable[[UnitRelease, UnitChain], tuple[Array, Array]] | None = None,
    names: Sequence[str] | None = None, common: Common | None = None,
    lost: npt.NDArray[np.bool_] | None = None, more: Sequence[str] = (),
    arrays: Callable[[UnitPart], dict[str, Array]] | None = None,
) -> Estimate:  # fmt: skip
    """Map the last step of every model to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports beside the coefficients: released numbers.
    back : function
        (A, a) of a model: coefficients in the user's units are ``A theta + a``. None: those of
        the columns.
    names : sequence of str
        Of the coefficients; None: of the columns.
    common : function
        Correlation of the scores of models i and j; None: 0.
    lost : bool array
        Coefficients that the design does not determine.
    more : sequence of str
        Notes of the room.
    arrays : function
        What the room keeps of its (first) model beside its information: released numbers.
    """
    detail = plan.detail
    own = tuple(names or release.design.names)
    labels = [label for _, label in detail.models]
    if not release.reply:
        return no_ranges_note([name for label in labels for name in named(own, label)])
    found: UnitRelease = release.detail
    coordinates, clusters = found.coordinates, found.clusters
    parts, beyond = [], []
    for i, chain in enumerate(found.chains):
        A, a = coordinates.back() if back is None else back(found, chain)
        own_meat = None if clusters is None else functools.partial(found.meat, i)
        inference = if_counted(infer_units(chain, detail.rows, own_meat), clusters)
        parts.append(
            UnitPart(
                chain, inference, A @ chain.last.state.theta + a,
                A @ chain.before.W.T, float(coordinates.unit.scale[-1]),
            )
        )  # fmt: skip
        score = getattr(chain.expansion, "score", None)
        of_response = back is None and names is None and score is not None and score.of_residual
        beyond.append(
            effects_beyond(release.design, parts[-1].params) if of_response
            else np.zeros(len(own), dtype=bool)
        )  # fmt: skip
    return estimated(
        plan, parts, labels, own, stats,
        lost=~coordinates.identified if lost is None else lost, common=common,
        clusters=clusters, statistics=found.statistics, notes=[*_void(plan, parts[0]), *more],
        arrays={
            "information": found.chains[0].released[-1].information,
            **({} if arrays is None else arrays(parts[0])),
        },
        beyond=np.concatenate(beyond),
    )  # fmt: skip


def _void(plan: Plan[Any], part: UnitPart) -> list[str]:
    """Say how many units count as nothing: the histogram has one entry each of the others."""
    if plan.request.relation != "replace":
        return []
    lengths, N = part.chain.lengths[-1], part.inference.plan.rows
    lost = min(1.0 - float(np.sum(lengths.counts)) / N, 1.0)
    sd = lengths.sd * math.sqrt(len(lengths.counts)) / N
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    counted = "people have no row that counts" if plan.request.unit is not None else "rows count"
    said = f"About {lost:.0%} of the {counted}"
    end = "" if plan.request.unit is not None else " as nothing"
    return [f"{said}{end} (from the released histogram, free)."]
