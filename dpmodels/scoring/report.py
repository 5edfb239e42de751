"""From a released scoring fit to coefficients, errors and words. Sees no row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.allowance import BiasBound
from dpmodels.arrays import Array
from dpmodels.release import Estimate
from dpmodels.scoring.intervals import Inference, infer
from dpmodels.scoring.state import roots

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.planning import Plan
    from dpmodels.release import Release
    from dpmodels.scoring.engine import ChainRelease, ScoringPlan, ScoringRelease
    from dpmodels.scoring.fitting import ScoredDetail

__all__ = ["Part", "empty_rows", "estimate_fit", "no_ranges_note"]


#: So many bounds of a bias are printed under a summary.
SHOWN = 8
#: A share of empty rows below this is not worth a note; one within so many noise sds is none.
EMPTY, SEEN = 0.05, 3.0
_NO_RANGES = (
    "The ranges could not be found within the budget (too few rows, or a column that hardly "
    "varies). Declare them, for example bounds={'x': (0, 10)}: declared ranges cost nothing."
)


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


def no_ranges_note(names: Sequence[str]) -> Estimate:
    """Return the estimate of a run whose ranges could not be bought."""
    return Estimate.silent(names, _NO_RANGES)


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
    for chain, one in zip(scoring.chains, found.chains, strict=True):
        T = A @ one.before.W
        inference = infer(
            one.released[-1], one.plans[-1], one.before, one.last, chain.score,
            free=detail.rows / max(detail.rows - coordinates.rank, 1.0),
            longest=_range(design, unit) if chain.score.of_residual else None,
        )  # fmt: skip
        constant = None
        if coordinates.constant is not None:
            constant = np.asarray(np.linalg.solve(one.before.W, coordinates.constant))
        params = A @ one.last.state.theta + a
        parts.append(Part(one, inference, params, T, constant, unit))
        names += chain.named(design.names)
    sampling, privacy = _covariances(parts, scoring, lost)
    every = np.tile(lost, len(parts))
    bias = np.concatenate([p.inference.allowance.bias(p.T) for p in parts])
    bias[every] = math.nan
    few = np.concatenate([p.inference.allowance.few(p.T) for p in parts]) & ~every
    open_ = np.concatenate([p.inference.undetermined(p.T) for p in parts]) & ~every
    notes = _notes(plan, tuple(names), bias, few & ~open_, open_, every)
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
        notes=tuple(notes),
        arrays={"start": found.Q, "information": found.chains[0].released[-1].information},
    )


def _covariances(
    parts: list[Part], scoring: ScoringPlan, lost: npt.NDArray[np.bool_]
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
            left, right = _spread(one, scoring.people), _spread(other, scoring.people)
            block = common / scoring.n * left @ right.T
            there = slice(j * p, (j + 1) * p)
            sampling[at, there], sampling[there, at] = block, block.T
    every = np.tile(lost, k)
    for V in (sampling, privacy):
        V[every] = V[:, every] = math.nan
    return sampling, privacy


def _range(design: Design, unit: float) -> float | None:
    """Return the width of the declared range of the response, in units of the fit."""
    interval = None if design.response is None else design.response.interval
    return None if interval is None else (interval[1] - interval[0]) * unit


def _spread(part: Part, people: bool) -> Array:
    """Return the map of a whitened score of a row, or of a person, to the coefficients."""
    out = part.T @ part.inference.inverse * math.sqrt(part.release.before.phi)
    return np.asarray(out @ roots(part.inference.meat)[0]) if people else out


def _void_rows(plan: Plan[Any], design: Design, part: Part) -> list[str]:
    """Say how many rows were empty: the histogram of the last pass has one entry a whole row."""
    if plan.request.relation != "replace":
        return []
    last, bins = part.release.plans[-1], part.release.released[-1].bins
    assert bins is not None
    lost = min(1.0 - float(np.sum(bins)) / last.rows, 1.0)
    sd = last.noise.count * math.sqrt(len(bins)) / last.rows
    if plan.request.unit is not None:
        if lost < EMPTY or lost <= SEEN * sd:
            return []
        return [
            f"About {lost:.0%} of the people have no row that counts (from the released "
            "histogram, free)."
        ]
    return empty_rows(lost, sd, design, shortened=False)


def empty_rows(lost: float, sd: float, design: Design, *, shortened: bool) -> list[str]:
    """Return a note on the released share of empty rows, where it exceeds its noise ``sd``."""
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    outside = ", or outside subset=," if design.subset else ""
    return [
        f"About {lost:.0%} of the rows were empty"
        + (" or shortened" if shortened else "")
        + " (from the released count, free). A row is empty where a cell is missing, cannot be "
        f"read as its declared kind or is not a declared level{outside}: compare the spelling of "
        "levels."
    ]


def _listed(names: tuple[str, ...], bias: Array) -> str:
    """Return the first bounds in words."""
    given = [f"{n} {b:.2g}" for n, b in zip(names, bias, strict=True) if math.isfinite(b)]
    return ", ".join(given[:SHOWN]) + (", ..." if len(given) > SHOWN else "") or "none"


def counted(plan: Plan[Any]) -> str:
    """Return what n counts."""
    return "rows" if plan.request.unit is None else "people"


def _errors(plan: Plan[Any]) -> str:
    """Say what the errors allow for."""
    person = plan.request.unit
    if person is not None:
        between = (
            " Covariances between quantiles are those of unrelated rows: errors of differences "
            "between quantiles come out too large."
        )
        return (
            f"Errors allow unequal variances, and rows of one person ({person.column}) that go "
            "together in any way (cluster-robust)."
            + (between if len(plan.detail.model.chains) > 1 else "")
        )
    if plan.detail.model.meat:
        return "Errors allow unequal variances (HC1 sandwich), not correlated rows."
    return "Errors are model-based (vcov='iid': one residual variance)."


def _notes(
    plan: Plan[Any],
    names: tuple[str, ...],
    bias: Array,
    few: npt.NDArray[np.bool_],
    undetermined: npt.NDArray[np.bool_],
    lost: npt.NDArray[np.bool_],
) -> list[str]:
    """Say what the errors cover, and which coefficients deserve care."""

    def those(which: npt.NDArray[np.bool_]) -> str:
        return ", ".join(n for n, w in zip(names, which, strict=True) if w)

    notes = plan.sentences
    if 2 * int(undetermined.sum()) > len(names):
        notes.insert(
            0,
            f"More than half of the coefficients ({int(undetermined.sum())} of {len(names)}) are "
            f"not determined at this budget. More {counted(plan)}, a larger eps or fewer terms "
            "would help: dp.plan() says by how much, at no cost.",
        )
    notes.append(
        "Intervals and p-values are bias-aware: they allow for what the clipping of long scores "
        "may have moved, by a rule calibrated on real tables, not a proof. Bound of the bias "
        "(fit.bias_bound): "
        f"{_listed(names, bias)}."
    )
    notes.append(_errors(plan))
    if few.any():
        notes.append(
            f"Rests on {counted(plan)} of high leverage: {those(few)}. The interval allows for a "
            "bias of bias_bound; more is possible."
        )
    if undetermined.any():
        notes.append(
            f"Not determined at this budget, so the interval is wide and no z and p are given: "
            f"{those(undetermined)}. More {counted(plan)}, a larger eps, narrower ranges or fewer "
            "terms would help."
        )
    if lost.any():
        notes.append(
            f"Not determined by the design, whatever the rows: {those(lost)} (a column is a "
            "combination of others). Drop a term."
        )
    return notes
