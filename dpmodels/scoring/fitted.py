"""From the inferred models of a fit to its estimate: the same of rows and of units. Sees no row.

:mod:`dpmodels.scoring.report` and :mod:`dpmodels.scoring.expand_report` infer each model and put it
into the user's units; here models are put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import BiasBound
from dpmodels.arrays import Array
from dpmodels.release import Estimate
from dpmodels.scoring.state import roots
from dpmodels.scoring.words import cluster_notes, fit_notes, named, those

if TYPE_CHECKING:
    from dpmodels.planning import Plan
    from dpmodels.scoring.clusters import ClusterRelease
    from dpmodels.scoring.intervals import Inference

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


def if_determined(
    inference: Inference, clusters: ClusterRelease | None, chain: int
) -> Inference:
    """Return the inference; without sampling errors where those by cluster are lost in noise."""
    if clusters is None or clusters.determined(chain):
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
