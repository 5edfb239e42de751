"""From a released scoring fit to coefficients, errors and words. Sees no row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import BiasBound
from dpmodels.arrays import Array
from dpmodels.records import Estimate, Release
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
    still_moving,
    those,
)
from dpmodels.scoring.rules import OF_UNITS
from dpmodels.scoring.scores import State, roots
from dpmodels.scoring.starts import most_root, unweighted

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.run import Fitting, ScoredDetail, ScoringRelease

__all__ = ["SEEN", "Part", "empty_rows", "estimate_fit", "no_ranges_note"]


Mask = npt.NDArray[np.bool_]
#: Correlation of the scores of two models, by their places.
Common = Callable[[int, int], float]


STOPPED = (
    "Not arrived: the last step still moved the linear predictor by more than .3 where these "
    "coefficients count, so they are not tested, and the truth may lie outside the interval (a "
    "larger eps, or levels with more events, would help): "
)
BEYOND = (
    "Effects beyond what the declared ranges allow (more than three ranges of the response), so "
    "they are noise and not tested: "
)
FEW = (
    "Fewer than 25 expected events (or counts) at a level, too few for a normal interval, so these "
    "are not tested (join rare levels): "
)


def if_determined(inference: Inference, clusters: ClusterRelease | None, chain: int) -> Inference:
    """Return the inference; without sampling errors where those by cluster are lost in noise."""
    if clusters is None or clusters.determined(chain):
        return inference
    return replace(inference, sampling=np.full_like(inference.sampling, math.nan))


def estimated(
    plan: Plan[Any], parts: Sequence[Part], labels: Sequence[str], names: Sequence[str],
    stats: Callable[[Part], Mapping[str, float]], *, lost: Mask, common: Common | None,
    clusters: ClusterRelease | None, statistics: Mapping[str, float], notes: Sequence[str],
    arrays: Mapping[str, Array], stopped: Mask | None = None, beyond: Mask | None = None,
    few: Mask | None = None,
) -> Estimate:  # fmt: skip
    """Return the estimate of all models together.

    Parameters
    ----------
    parts : sequence of Part
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
    parts: Sequence[Part], lost: Mask, common: Common | None, *, by_cluster: bool
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
    """One model of a fit, in the user's units.

    Attributes
    ----------
    release : Fitting
    inference : Inference
    params : (p,) array
    T : (p, r) array
        Maps a step in w to coefficients.
    unit : float
        Unit responses to one of the user's.
    constant : (r,) array or None
        a with ``a'w = 1`` in every complete row; of units none.
    """

    release: Fitting
    inference: Inference
    params: Array
    T: Array
    unit: float = 1.0
    constant: Array | None = None

    @property
    def before(self) -> State:
        """Where the last pass looked from."""
        return self.release.before

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a unit to the coefficients."""
        out = np.asarray(self.T @ self.inference.inverse * math.sqrt(self.before.phi))
        return out @ roots(self.inference.meat)[0] if self.inference.people else out

    @property
    def noise(self) -> float:
        """Noise of the information over its size, as released: ``nu sqrt(2p)/(tr H/p)``."""
        last, found = self.inference.plan, self.release.released[-1].information
        r, n = len(found), last.rows
        size = max(float(np.trace(found)) / (r * n), 1e-300)
        return last.noise.information / n * math.sqrt(2.0 * r) / size

    @property
    def undetermined(self) -> Mask:
        """Which coefficients are not determined at this budget: along unresolved directions.

        Of units all where the released noise of the information is beyond what intervals bear.
        """
        open_ = self.inference.undetermined(self.T)
        return open_ | (self.noise > OF_UNITS.loud) if self.inference.people else open_


Back = Callable[["ScoringRelease", "Fitting"], tuple[Array, Array]]


def estimate_fit(
    plan: Plan[ScoredDetail], release: Release, stats: Callable[[Part], dict[str, float]], *,
    back: Back | None = None, names: Sequence[str] | None = None, lost: Mask | None = None,
    more: Sequence[str] = (), arrays: Callable[[Part], dict[str, Array]] | None = None,
) -> Estimate:  # fmt: skip
    """Map the last step of every model to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports of a model beside the coefficients: released numbers. Clip and noise
        of the scores, and fit statistics, follow.
    back : function
        (A, a) of a model: coefficients in the user's units are ``A theta + a``. None: those of
        the columns.
    names : sequence of str
        Of the coefficients; None: of the columns.
    lost : bool array
        Coefficients that the design does not determine.
    more : sequence of str
        Notes of the room.
    arrays : function
        What the room keeps of its (first) model beside its information: released numbers.
    """
    detail, design = plan.detail, release.design
    own, chains = tuple(names or design.names), detail.chains
    if not release.reply:
        return no_ranges_note([name for c in chains for name in c.named(own)])
    found: ScoringRelease = release.detail
    coordinates, clusters = found.coordinates, found.clusters
    parts: list[Part] = []
    marks: list[tuple[Mask, ...]] = []
    for i, fit in enumerate(found.fits):
        by_cluster = None if clusters is None else functools.partial(found.meat, i)
        inference = _infer(plan, release, i, by_cluster)
        A, a = coordinates.back() if back is None else back(found, fit)
        parts.append(
            Part(
                fit, if_determined(inference, clusters, i), A @ fit.state.theta + a,
                A @ fit.before.W.T, float(coordinates.unit.scale[-1]), _constant(found, fit),
            )
        )  # fmt: skip
        marks.append(_marks(release, parts[-1], of_columns=back is None and names is None))
    stopped, beyond, few = map(np.concatenate, zip(*marks, strict=True))
    first = found.fits[0]
    kept = {k: first.values[k] for k in ("start",) if k in first.values}
    return estimated(
        plan, parts, [c.label for c in chains], own, stats,
        lost=~coordinates.identified if lost is None else lost,
        common=lambda i, j: found.fits[i].score.common(found.fits[j].score),
        clusters=clusters, statistics=found.statistics,
        notes=[*_void(plan, design, parts[0]), *_cut_deviances(found), *more],
        arrays={
            **kept, "information": first.released[-1].information,
            **({} if arrays is None else arrays(parts[0])),
        },
        stopped=stopped, beyond=beyond, few=few,
    )  # fmt: skip


def _infer(plan: Plan[ScoredDetail], release: Release, i: int, by_cluster: Any) -> Inference:
    """Return the inference of the last pass of model i, over rows or over units."""
    found: ScoringRelease = release.detail
    fit, coordinates = found.fits[i], found.coordinates
    if fit.plans[-1].people:
        return infer_units(fit, plan.detail.rows, by_cluster)
    unit = float(coordinates.unit.scale[-1])
    return infer(
        fit.released[-1], fit.plans[-1], fit.before, fit.last, fit.model,
        free=_free(plan, coordinates.rank),
        longest=_range(release.design, unit) if fit.model.of_residual else None,
        by_cluster=by_cluster, remainder=fit.model.remainder(fit.before, fit.last.d),
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


def _constant(found: ScoringRelease, fit: Fitting) -> Array | None:
    """Return a with ``a'w = 1`` in every complete row; None: there is none, or units are none."""
    a = found.coordinates.constant
    if a is None or fit.plans[-1].people:
        return None
    return np.asarray(np.linalg.solve(fit.before.W, a))


def _marks(release: Release, part: Part, *, of_columns: bool) -> tuple[Mask, Mask, Mask]:
    """Say which coefficients have not arrived, are beyond their ranges, or have few events."""
    fit, design, coordinates = part.release, release.design, release.detail.coordinates
    stopped = beyond = few = np.zeros(len(part.params), dtype=bool)
    if fit.public is not None:
        seen = fit.public @ fit.before.W
        stopped = still_moving(design, seen, fit.last.d, part.inference.privacy)
    if not part.inference.people:
        few = few_events(
            design, coordinates, fit.before, fit.state.theta, fit.score, part.inference.H,
            fit.plans[-1].rows,
        )  # fmt: skip
    if of_columns and fit.score is not None and fit.score.of_residual:
        beyond = effects_beyond(design, part.params)
    return stopped, beyond, few


def _cut_deviances(found: ScoringRelease) -> list[str]:
    """Say what the deviance of a fit has cut, and what of it its error does not hold."""
    first = found.fits[0]
    cut = found.statistics.get("deviance_cut", 0.0)
    amounts = (
        "deviance" in found.statistics and not first.plans[-1].people
        and not first.score.is_event and not first.score.family.counts
    )  # fmt: skip
    if not cut and not amounts:
        return []
    from dpmodels.scoring.cells import LONGEST

    low = " Of responses far below the mean what a gamma response would lose." if amounts else ""
    return [
        f"Deviance: a row counts up to {LONGEST:g} dispersions. By the released lengths of scores "
        f"about {cut:.3g} lies beyond in all: not added, but in the errors of deviance and pseudo "
        f"R-squared.{low}"
    ]


def _void(plan: Plan[Any], design: Design, part: Part) -> list[str]:
    """Say how many units count as nothing: the histogram has one entry each of the others."""
    if plan.request.relation != "replace":
        return []
    fit, last = part.release, part.inference.plan
    if fit.lengths:
        counts, sd = fit.lengths[-1].counts, fit.lengths[-1].sd
    else:
        counts, sd = fit.released[-1].bins, last.noise.count
    assert counts is not None
    lost = min(1.0 - float(np.sum(counts)) / last.rows, 1.0)
    sd *= math.sqrt(len(counts)) / last.rows
    if not fit.lengths:
        return empty_rows(lost, sd, design, shortened=False)
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    what = "rows count as nothing" if plan.request.unit is None else (
        "people have no row that counts"
    )  # fmt: skip
    return [f"About {lost:.0%} of the {what} (from the released histogram, free)."]
