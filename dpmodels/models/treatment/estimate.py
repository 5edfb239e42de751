"""Effect, means of both arms and their errors, from the release of ``dp_ate``. Sees no row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.forecast import BEYOND, Overlap, Tail
from dpmodels.models.treatment.plan import (
    BALANCE,
    BOTH_ARMS,
    EFFECT_STEP,
    OVERLAP,
    PRODUCTS,
    SLOPES,
    EffectPlan,
)
from dpmodels.models.treatment.rows import EffectRows
from dpmodels.models.treatment.show import balance_of
from dpmodels.notes import Note
from dpmodels.planning import Plan
from dpmodels.records import Estimate, Release
from dpmodels.scoring.models import axes, floored
from dpmodels.sums.ask import Noisy

#: Percent of the units beyond the bounds of the propensity above which a note says so.
SHOWN_CLIPPED = 5.0
#: Largest bound on the bias by the fits, over the error by their noise.
BIAS_OF_FITS = 0.5


@dataclass(frozen=True, eq=False)
class EffectRelease:
    """Released numbers of a call, in the response's units where nothing else is said."""

    rows: EffectRows
    count: float  # Denominator: units, by weight; and its noise sd
    count_sd: float
    clips: tuple[float, float, float]
    answers: dict[str, Noisy]
    tails: tuple[Tail, Tail]
    means: tuple[float, float]  # Means of both arms
    overlap: Overlap
    centre: Array  # (covariates,): centres of their ranges
    half: Array
    blocks: Array  # (5, k): released moments of both arms, before and after weighting; squares
    radius: float  # Radius of squares, in scales
    crossed: float  # Least variance of the effect by the noise of both fits
    fits: tuple[Estimate, Estimate]
    residual: float  # Sd of residuals of the outcome

    at = property(attrgetter("rows.at"))  # The influence functions

    @property
    def scales(self) -> tuple[float, float]:
        """Root mean squares of difference and mean, in units of lengths."""
        difference, both = (max(math.sqrt(tail.mean_square), 1e-12) for tail in self.tails)
        return difference, both


def pieces(at: Influence, values: Array) -> list[Array]:
    """Return the derivatives of each block."""
    ends = np.cumsum([model.root.shape[1] for model, _, _ in at.blocks])[:-1]
    return np.split(values, ends)


def clear_pieces(facts: EffectRelease) -> list[Array]:
    """Return the derivatives of each block, times the part of their square that is clear of noise.

    The noise of k numbers has a square of about ``k + sqrt(2 k)`` variances at most.
    """
    slopes, out = facts.answers[SLOPES], []
    for sums_ in pieces(facts.at, slopes.values):
        k, square = len(sums_), max(float(sums_ @ sums_), 1e-300)
        noise = (k + math.sqrt(2.0 * k)) * float(slopes.sd[0]) ** 2
        out.append(sums_ * max(0.0, 1.0 - noise / square))
    return out


def derivative_of(model: Fitted, sums_: Array) -> Array:
    """Return derivatives in the coefficients from those along the root of their covariance."""
    return np.asarray(np.linalg.pinv(model.root.T, rcond=1e-9) @ sums_)


def turns_of(facts: EffectRelease, n: int) -> tuple[Array, ...]:
    """Return mean derivatives of both arms times bread times count/n, of each model.

    A unit moves a coefficient by ``bread x residual w/mean_weight/n``, and counts as ``w/top``.
    Derivatives are drawn towards 0, as the square of their noise would count as sampling error.
    """
    at, (of_e, of_m) = facts.at, slopes_of(facts, clear_pieces(facts))
    parts = zip((at.propensity, *at.outcomes), (of_e, of_m, of_m), strict=True)
    return tuple(J @ model.bread / n * at.top / model.mean_weight for model, J in parts)


def slopes_of(facts: EffectRelease, parts: list[Array]) -> tuple[Array, Array]:
    """Return the derivatives (2, q) of both arms in the coefficients of either fit."""
    out = tuple(np.zeros((2, m.back.shape[1])) for m in (facts.at.propensity, facts.at.outcomes[1]))
    for (model, arm, of_e), sums_ in zip(facts.at.blocks, parts, strict=True):
        out[not of_e][arm] = derivative_of(model, sums_) @ model.back
    return out  # type: ignore[return-value]


def estimate(plan: Plan[EffectPlan], release: Release) -> Estimate:
    """Return the effect and the means of both arms, with errors and the allowance for clipping."""
    names = (plan.detail.estimand, "treated", "control")
    if not release.reply:
        return Estimate.silent(names)
    facts: EffectRelease = release.detail
    difference = facts.means[0] - facts.means[1]
    part = facts.rows.part
    L = np.array([[1.0, 0.0], [1.0 - part, 1.0], [-part, 1.0]])  # of (difference, mean)
    square = np.array(facts.answers[PRODUCTS].values) * facts.rows.unit**2
    scales = np.array(facts.scales)
    missing = [tail.missing(facts.radius * s) for tail, s in zip(facts.tails, scales, strict=True)]
    square = square * np.outer(scales, scales) + np.diag(missing) * facts.rows.unit**2
    sampling = _positive(square / facts.count**2)
    by_fits, stats = _by_fits(facts), _stats(facts)
    privacy = _privacy(facts, by_fits)
    moved = np.array([tail.moved(c) for tail, c in zip(facts.tails, facts.clips[:2], strict=True)])
    moved *= facts.rows.unit / facts.count
    cut = BEYOND * facts.residual * facts.overlap.missed(facts.at.estimand)
    noise = facts.answers[BALANCE].sd
    k = len(facts.half) + 1
    arrays = {
        "treated": np.array(plan.detail.crossing),
        "overlap": facts.answers[OVERLAP].values.reshape(2, -1),
        "overlap_edges": facts.overlap.edges,
        "balance": balance_of(
            facts.blocks[:, :k], facts.centre, facts.half, float(noise[0])
        ),
    }  # fmt: skip
    return Estimate(
        names,
        np.array([difference, *facts.means]),
        vcov_sampling=L @ sampling @ L.T,
        vcov_privacy=L @ privacy @ L.T,
        bias=np.abs(L) @ (moved + _bias_of_fits(facts, by_fits)) + [cut.sum(), *cut],
        stats=stats,
        arrays=arrays,
        notes=_notes(plan, stats, facts.at.clip),
    )


def _positive(M: Array) -> Array:
    """Return a symmetric matrix without its negative part, its diagonal at least a little."""
    eigen = axes(M)
    return floored(M, 1e-12 * max(float(eigen[0][-1]), 1e-300), eigen)


def _privacy(facts: EffectRelease, by_fits: tuple[Array, float]) -> Array:
    """Return the covariance by noise of (difference, mean): own noise, fits, and denominator."""
    answers, count = facts.answers, facts.count
    out = np.diag([float(answers[name].sd[0]) ** 2 for name in (EFFECT_STEP, BOTH_ARMS)]) / count**2
    pair = facts.rows.turn @ (np.array(facts.means) - np.array(facts.rows.centres))
    out += np.outer(pair, pair) * (facts.count_sd / count) ** 2
    V, share = by_fits
    return np.asarray(out + share * V)


def _by_fits(facts: EffectRelease) -> tuple[Array, float]:
    """Return the covariance of (difference, mean) by noise of the fits, and its part above noise.

    The part is of the derivatives as released: what their own noise adds is taken off, and what it
    may hide. The least is what is left where both models hold.
    """
    at, slopes = facts.at, facts.answers[SLOPES]
    noise, moved = float(slopes.sd[0]) / facts.count, dict[bool, Array]()
    for (model, arm, of_e), sums_ in zip(at.blocks, pieces(at, slopes.values), strict=True):
        by_arm = moved.setdefault(of_e, np.zeros((2, model.into.shape[1])))
        by_arm[arm] = sums_ @ model.into / facts.count
    turned = [facts.rows.turn @ by_arm for by_arm in moved.values()]
    V = np.asarray(sum(rows @ rows.T for rows in turned))
    k = len(slopes.values)
    expected, seen = k * noise**2, max(float(V[0, 0]), 1e-300)
    above = seen - expected - 2.0 * facts.crossed - math.sqrt(2.0 / k) * expected
    return V, (facts.crossed + max(above, 0.0)) / seen


def _bias_of_fits(facts: EffectRelease, by_fits: tuple[Array, float]) -> Array:
    """Return the bound that clipping in the fits puts on (difference, mean), by the derivatives."""
    slopes = slopes_of(facts, pieces(facts.at, facts.answers[SLOPES].values / facts.count))
    V, share = by_fits
    # of derivatives that are clear of their noise, and no more than a part of what noise moves
    clear = max(share - facts.crossed / max(float(V[0, 0]), 1e-300), 0.0)
    out = np.zeros(2)
    for estimate, by_arm in zip(facts.fits, slopes, strict=True):
        bound = estimate.bias_of(facts.rows.turn @ by_arm)
        out += 0.0 if bound is None else np.nan_to_num(bound)
    return math.sqrt(clear) * np.minimum(out, BIAS_OF_FITS * np.sqrt(np.diag(V)))


def _notes(
    plan: Plan[EffectPlan], stats: dict[str, float], clip: tuple[float, float]
) -> tuple[Note, ...]:
    """Return notes on the share that is clipped, and on whom the effect is of."""
    low, high = clip
    clipped = 100.0 * stats["share_clipped"]
    out = []
    if clipped > SHOWN_CLIPPED:
        out.append(messages.CLIPPED_PROPENSITY(share=clipped, low=low, high=high))
    if plan.request.unit is not None:
        out.append(messages.EFFECT_OF_PEOPLE(column=plan.request.unit.column))
    return tuple(out)


def _stats(facts: EffectRelease) -> dict[str, float]:
    """Return released scalars: share of the treated, share clipped, effective sample sizes."""
    masses, total = facts.overlap.clear, facts.overlap.total
    treated, control = facts.overlap.effective
    return {
        "units": facts.count,
        "share_treated": float(masses[0].sum()) / total,
        "share_clipped": facts.overlap.share_clipped,
        "ess_treated": treated,
        "ess_control": control,
    }
