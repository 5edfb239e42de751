"""From the released moments of the last stage to coefficients, errors, notes. Sees no row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.after.statistics import fit_statistics, kept_moments
from dpmodels.arrays import Array
from dpmodels.models.linear.dominated import allowance, dominated, dominated_notes
from dpmodels.models.linear.facts import Errors, Report, Stage
from dpmodels.models.linear.plans import second_radius
from dpmodels.models.linear.solve import Moments, floor_ridge, positive_part, solve, stein_ridge
from dpmodels.release import Estimate
from dpmodels.scoring.report import empty_rows, no_ranges_note

if TYPE_CHECKING:
    from dpmodels.exact.rowmap import UnitScale
    from dpmodels.models.linear.facts import Stage
    from dpmodels.release import Release

__all__ = [
    "DRAWS",
    "LastFit",
    "Report",
    "Stage",
    "bootstrap",
    "last_fit",
    "no_reply",
    "report",
    "rescaled",
    "shrink_report",
    "unit_back",
]


# -- Parametric bootstrap of a moment fit, from released numbers only


#: Draws of the bootstrap.
DRAWS = 1000


def bootstrap(
    stage: Stage, d: Array, lam: float, v: float, *, seed: int, meat: Array | None = None
) -> Array:
    """Return draws of ``d* - d`` from released numbers only, (draws, p).

    ``h* = M d + N(0, v M) + e*`` (with scores ``N(0, meat)``), ``M* = M + E*``, solved with the
    same ridge; eigenvalues of M are floored at s for the simulation (Ferrando, Wang and Sheldon
    2022).
    """
    rng = np.random.default_rng(seed)
    m = stage.moments
    p = len(d)
    values, vectors = np.linalg.eigh(m.M)
    values = np.maximum(values, m.s)
    M = (vectors * values) @ vectors.T
    root = vectors * np.sqrt(v * values) if meat is None else np.linalg.cholesky(meat)
    out = np.empty((DRAWS, p))
    base = M @ d
    for b in range(DRAWS):
        E = np.triu(rng.normal(size=(p, p)) * np.sqrt(m.V))
        E = E + np.triu(E, 1).T
        h = base + root @ rng.normal(size=p) + rng.normal(size=p) * np.sqrt(m.vh)
        S = M + E
        extra = max(lam, m.spectral - float(np.linalg.eigvalsh(S)[0]), 0.0)
        out[b] = np.linalg.solve(S + extra * np.eye(p), h) - d
    return out


def rescaled(sampling: Array, privacy: Array, draws: Array) -> tuple[Array, Array]:
    """Scale both parts so that the total standard errors are those of the draws."""
    lo, hi = np.quantile(draws, [0.025, 0.975], axis=0)
    total = np.sqrt(np.diag(sampling) + np.diag(privacy))
    ratio = (hi - lo) / 2.0 / 1.959963984540054 / np.maximum(total, 1e-300)
    D = np.outer(ratio, ratio)
    return D * sampling, D * privacy


#: Rows' loss of weight from which the summary mentions it.
LOST = 0.01
#: Least residual variance in whitened units.
V_FLOOR = 1e-3


def errors(m: Moments, d: Array, A: Array, lam: float, free: float, least: float) -> Errors:
    """Delta method: ``V = A (v M + Cn) A``.

    ``v = max((t - 2 h'd + d'Md + tr(A Cn)) / (n_eff - p), floor)``; the trace takes the
    second-order bias of the quadratic form off. Where M is not positive (a ridge is then active)
    its positive part stands for it.
    """
    Cn = m.coefficient_noise(d)
    rss = m.t - 2.0 * float(m.h @ d) + float(d @ m.M @ d) + float(np.sum(A * Cn))
    v = max(rss / free, least)
    meat = v * (positive_part(m.M) if lam > 0 else m.M)
    return Errors(A @ meat @ A, A @ Cn @ A, v, meat, np.zeros_like(d))


def _free(stage: Stage, facts: Report) -> float:
    n_eff = stage.effective_rows(facts.rows, facts.unit, intercept=facts.known)
    return max(n_eff - len(stage.Q) + 1.0, 1.0)


def _least(stage: Stage, free: float) -> float:
    """Floor of v: 1e-3 of the second moment of the (whitened: unit) response."""
    if not np.array_equal(stage.L, np.eye(len(stage.L))):
        return V_FLOOR
    p = len(stage.Q) - 1
    return V_FLOOR * max(float(stage.Q[p, p]), math.sqrt(float(stage.V[p, p]))) / free


@dataclass(frozen=True, eq=False)
class LastFit:
    """The unshrunk fit of the last stage in its own coordinates, and its errors.

    Attributes
    ----------
    d, A : arrays
        ``d = A h``, ``A = (M + lam I)^{-1}``.
    lam : float
        Positive only where the noise dominates.
    free : float
        ``n_eff - p``.
    errors : Errors
    """

    d: Array
    A: Array
    lam: float
    free: float
    errors: Errors


def last_fit(facts: Report) -> LastFit:
    """Solve the last stage; its errors are model-based, or a sandwich where scores were released.

    The sandwich is ``J A S A J' n_eff / (n_eff - p)`` (HC1), S the released meat, J what row
    weights that depend on the residual do to the bread; the allowance for them is ``(J - I) d``.
    """
    stage = facts.stages[-1]
    m = stage.moments
    lam = 0.0 if facts.request.options.get("ridge") == "none" else floor_ridge(m)
    d, A = solve(m, lam)
    free = _free(stage, facts)
    found = errors(m, d, A, lam, free, _least(stage, free))
    if facts.scores is None:
        found = replace(found, taken=allowance(facts, d))
    else:
        J = facts.scores.weighting(stage.radius, free)
        turn = (m.M + lam * np.eye(len(d))) @ J @ A  # J A = A turn
        meat = (free + len(d)) / free * turn @ facts.scores.meat @ turn.T
        found = replace(found, sampling=A @ meat @ A, meat=meat, taken=J @ d - d)
    return LastFit(d, A, lam, free, found)


def report(facts: Report) -> Estimate:
    """Unshrunk least squares from the last stage (a ridge only where noise dominates)."""
    fit = last_fit(facts)
    d, lam, found = fit.d, fit.lam, fit.errors
    warnings, notes = list(facts.warnings), list(facts.notes)
    if lam > 0:
        warnings.append(
            "the noise dominates some direction of the design: a ridge holds the fit near "
            f"{facts.towards}, so the coefficients are biased"
            + (" and the intervals unreliable" if facts.biased_errors else "")
        )
        if facts.request.inference and not facts.biased_errors:
            found = dominated(facts, d, found)
            notes += dominated_notes(facts, found)
    return _finish(facts, d, found, lam=lam, notes=notes, warnings=warnings)


def shrink_report(facts: Report) -> Estimate:
    """Coefficients of the Stein ridge; errors of the unshrunk last stage, and a note that says so.

    Where noise dominates, the errors are those of the shrunk coefficients under a public prior.
    """
    stage = facts.stages[-1]
    fit = last_fit(facts)
    lam, found = fit.lam, fit.errors
    shrunk = stein_ridge(stage.moments)
    notes = [
        *facts.notes,
        f"Coefficients were shrunk towards {facts.towards} by Stein's estimate of the loss (ridge "
        f"{shrunk.lam:.3g}, factor {shrunk.factor:.3g})"
        + ("." if lam > 0 else "; standard errors are those of the unshrunk estimate."),
    ]
    if lam > 0 and facts.request.inference:
        found = dominated(facts, shrunk.d, found)
        notes += dominated_notes(facts, found)
    arrays = (*facts.arrays, ("params_unshrunk", _params(facts, stage, fit.d)))
    return _finish(
        replace(facts, arrays=arrays), shrunk.d, found, lam=shrunk.lam, notes=notes,
        warnings=list(facts.warnings),
    )  # fmt: skip


def _empty_note(facts: Report) -> list[str]:
    """Say which share of the rows was empty, where the released count shows it above its noise.

    The cell of the intercept is ``sum c^2``, c the factor of a row: 0 if it is empty, below 1 if it
    was shortened. Only against a public n.
    """
    if not facts.known or facts.request.relation != "replace":
        return []
    stage = facts.stages[-1]
    cell = float(stage.L[0, 0] / facts.unit.scale[0]) ** 2
    lost = 1.0 - cell * float(stage.Q[0, 0]) / facts.rows
    sd = cell * math.sqrt(float(stage.V[0, 0])) / facts.rows
    return empty_rows(lost, sd, facts.design, shortened=stage.radius < math.inf)


def _weights_note(facts: Report, effective: float) -> list[str]:
    """Say how much weight rows lost in all, and what that makes of the coefficients."""
    lost = 1.0 - effective / facts.rows
    if len(facts.stages) < 2:
        return []
    if lost < LOST:
        stage = facts.stages[-1]
        if stage.radius >= second_radius(math.inf, len(stage.Q), facts.rows):
            return []  # a Gaussian row is not scaled down: nothing to say
        return [
            f"Rows far from the fit were scaled down (less than {LOST:.0%} of the weight in all). "
            "Where errors have long tails, coefficients can differ from ordinary least squares "
            "by more than their standard errors. A larger phi= (1, say) weighs down less and adds "
            "noise."
        ]
    zero = "rows with missing cells" + (" or outside subset=" if facts.design.subset else "")
    return [
        f"Rows far from the fit were scaled down, {zero} are zero: {lost:.1%} of the weight in "
        "all. This is weighted least squares; where errors are skewed, their spread varies or the "
        "model holds only approximately, it can differ from ordinary least squares by more than "
        "the standard errors say. A larger phi= (1, say) weighs down less and adds noise."
    ]


def _params(facts: Report, stage: Stage, d: Array) -> Array:
    B, a = facts.unit.back()
    return B @ stage.back(d) + a


def _finish(
    facts: Report,
    d: Array,
    found: Errors,
    *,
    lam: float,
    notes: list[str],
    warnings: list[str],
) -> Estimate:
    """Map to the user's units and collect everything."""
    stage, keep = facts.stages[-1], facts.request.inference
    T = facts.unit.back()[0] @ stage.slope
    sampling, privacy = T @ found.sampling @ T.T, T @ found.privacy @ T.T
    out: dict[str, Any] = dict(facts.arrays)
    unshrunk = found.unknown is None
    if keep and unshrunk and facts.request.options.get("inference_method") == "bootstrap":
        meat = None if facts.scores is None else found.meat
        draws = bootstrap(stage, d, lam, found.v, seed=0, meat=meat) @ T.T
        sampling, privacy = rescaled(sampling, privacy, draws)
        out["bootstrap_deviations"] = draws
        notes.append(
            f"Standard errors: parametric bootstrap from released numbers only ({DRAWS} draws; "
            "half the central 95 % of the deviations over 1.96)."
        )
    taken = T @ found.taken
    privacy = privacy + np.outer(taken, taken)
    if found.unknown is not None:
        for part in (sampling, privacy):
            part[found.unknown] = part[:, found.unknown] = math.nan
    stats = {
        "noise_sd": stage.s,
        "ridge": lam,
        "radius": stage.radius,
        "effective_rows": stage.effective_rows(facts.rows, facts.unit, intercept=facts.known),
        **dict(facts.stats),
    }
    notes += _empty_note(facts)
    notes += _weights_note(facts, stats["effective_rows"]) if keep else []
    if keep and unshrunk:
        stats["sigma"] = math.sqrt(found.v) * float(stage.L[-1, -1] / facts.unit.scale[-1])
    if keep and not (found.unknown is not None and found.unknown.all()):
        if facts.scores is None:
            notes.append(
                "Errors are model-based (one residual variance) and rest on moments alone: on real "
                "tables, where rows far from the fit lose weight, such intervals can miss. "
                "Errors that allow unequal variances: vcov='hetero', for a tenth of the budget."
            )
        else:
            notes.append(facts.scores.note(_free(stage, facts), found.v))
        if not facts.design.has_intercept:
            notes.append(
                "Without an intercept the number of complete rows is not known: if rows are "
                "missing, sigma and the sampling errors are too small."
            )
    if facts.scores is not None:
        noise = facts.scores.noise(_free(stage, facts), found.v)
        stats.update(score_radius=facts.scores.radius, score_noise=noise)
        out["scores"] = facts.scores.S
        if facts.scores.outside is not None:
            out["scores_outside"] = facts.scores.outside
    out["moments"] = stage.Q
    stats |= _about_moments(facts, stage, out)
    out["moment_coordinates"] = stage.L
    if len(facts.stages) > 1:
        out["first_moments"] = facts.stages[0].Q
    return Estimate(
        facts.design.names,
        _params(facts, stage, d),
        vcov_sampling=sampling if keep else None,
        vcov_privacy=privacy,
        stats=stats,
        notes=tuple(notes),
        warnings=tuple(warnings),
        arrays=out,
    )


def unit_back(unit: UnitScale) -> Array:
    """Return the (q, q) map from unit rows (response last) to the columns of the design."""
    S = np.diag(unit.scale)
    if unit.intercept:
        S[:, 0] += unit.shift  # the intercept cell of a complete row is 1
    return np.asarray(np.linalg.inv(S))


def _about_moments(facts: Report, stage: Stage, out: dict[str, Any]) -> dict[str, float]:
    """Keep the last release for what is done with a fit; return R-squared where it means one."""
    back = unit_back(facts.unit) @ stage.L
    constant = back[0] if facts.known else None
    m = SecondMoments(stage.Q, stage.V, float(facts.rows), constant)
    out |= kept_moments(m, back)
    if stage.radius < math.inf:
        out["released_weighted"] = np.ones(1)
    return fit_statistics(m, back[:-1], back[-1]) if facts.known else {}


def no_reply(release: Release) -> Estimate:
    """Return the estimate of a run whose ranges could not be bought."""
    return no_ranges_note(release.design.names)
