"""Errors where noise dominates some direction of the design, and the allowance for row weights.

Both are post-processing of released numbers (``theory.md``, 4.2 and 4.3).
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.linear.solve import Moments, positive_part

if TYPE_CHECKING:
    from dpmodels.models.linear.facts import Errors, Report

#: Prior sd of a coefficient in unit rows: half ranges of the response per half range of a column.
PRIOR_SD = 1.0
#: Mean information of pure noise, this many times, is taken off the information of M.
NOISE_INFORMATION = 2.0
#: A coefficient whose posterior sd exceeds this part of its prior sd was not determined.
DETERMINED = 0.5
#: Rounds of the iteration at most, and the relative change at which it ends: what float leaves.
_ROUNDS, _CLOSE = 60, 1e-8


def posterior(m: Moments, precision: Array, meat: Array) -> tuple[Array, Array]:
    """Return (mean, covariance) of d0, given the release and a normal prior about zero.

    Parameters
    ----------
    m : Moments
        ``M = M0 + E``, ``h = h0 + e``.
    precision : (p, p) array
        Prior precision of d0.
    meat : (p, p) array
        Covariance of the score ``h0 - M0 d0``.

    Notes
    -----
    ``g(d) = h - M d`` has covariance ``W = meat + Cov(e - E d0)`` at the truth, whatever M0 is, so
    the information on d is ``M W^{-1} M`` less what noise alone would show,
    ``E[E W^{-1} E]`` (times 2, its own spread), never negative. W needs second moments of d0:
    those of the posterior, by damped iteration. Where M is far above its noise this is the delta
    method; where it is not, the prior stands.
    """
    P: Array = np.asarray(np.linalg.inv(precision))
    d: Array = np.zeros(len(m.h))
    for _ in range(_ROUNDS):
        W = meat + m.score_noise(np.outer(d, d) + P)
        inverse = np.asarray(np.linalg.inv(W), dtype=np.float64)
        shown = m.M @ inverse @ m.M - NOISE_INFORMATION * m.noise_moment(inverse)
        cov = np.asarray(np.linalg.inv(positive_part(shown) + precision), dtype=np.float64)
        mean = cov @ (m.M @ (inverse @ m.h))
        done = _close(mean, d) and _close(cov, P)
        d, P = np.asarray(d + mean) / 2.0, np.asarray(P + cov) / 2.0
        if done:
            break
    return d, P


def _close(new: Array, old: Array) -> bool:
    return bool(np.abs(new - old).max() <= _CLOSE * np.abs(new).max())


@functools.lru_cache(maxsize=256)
def attenuation(q: int, radius: float, *, intercept: bool) -> tuple[float, float]:
    """Return what row weights take off a deviation from the centre, (intercept, slopes).

    The factor ``min(1, R/|w|)`` of a row depends on its residual ``r = x'd0 + e``, so least
    squares of r on x with weights c^2 gives ``(1 - kappa) d0`` to first order. For Gaussian rows
    whitened exactly, ``w = (1, u)`` with ``u ~ N(0, I_k)`` (``w = u`` without an intercept),

        kappa = 2 R^2 E[1{|w| > R} |u|^4 / |w|^4] / ((k + 2) E[c^2 |u|^2])     (slopes)
        kappa = 2 R^2 E[1{|w| > R} |u|^2 / |w|^4] / (k E[c^2])                 (intercept).
    """
    from scipy.special import chdtri

    k = q - 1 if intercept else q
    size = 4096
    squares = np.asarray(chdtri(float(k), (np.arange(size) + 0.5) / size))
    norms = squares + (1.0 if intercept else 0.0)
    outside = norms > radius**2
    weights = np.minimum(1.0, radius**2 / norms)
    tail = np.where(outside, 2.0 * radius**2 / norms**2, 0.0)
    slopes = float(np.mean(tail * squares**2) / ((k + 2.0) * np.mean(weights * squares)))
    level = float(np.mean(tail * squares) / (k * np.mean(weights)))
    return (level if intercept else slopes), slopes


def allowance(facts: Report, d: Array) -> Array:
    """Return what the row weights may have taken off d, ``kappa/(1 - kappa) d``, (p,).

    Only where rows were whitened by a released matrix: the factor is that of whitened rows.
    """
    if len(facts.stages) < 2:
        return np.zeros(len(d))
    stage = facts.stages[-1]
    level, slopes = attenuation(len(stage.Q), stage.radius, intercept=facts.known)
    kappa = np.full(len(d), slopes)
    kappa[0] = level
    return np.asarray(kappa / (1.0 - kappa) * d)


def dominated(facts: Report, d: Array, found: Errors) -> Errors:
    """Errors of a shrunk estimate d: its mean squared error under a public prior.

    ``E[(d0 - d)(d0 - d)' | release] = P + (mean - d)(mean - d)'`` for the prior that unit-row
    coefficients lie about the centre with sd ``PRIOR_SD``.
    """
    stage, (B, _) = facts.stages[-1], facts.unit.back()
    slope = stage.slope
    mean, P = posterior(stage.moments, slope.T @ slope / PRIOR_SD**2, positive_part(found.meat))
    sd = np.sqrt(np.diag(B @ slope @ P @ slope.T @ B.T))
    prior_sd = PRIOR_SD * np.linalg.norm(B, axis=1)
    total = P + np.outer(mean - d, mean - d)
    return replace(
        found,
        privacy=positive_part(total - found.sampling),
        unknown=np.asarray(sd > DETERMINED * prior_sd),
    )


def dominated_notes(facts: Report, found: Errors) -> list[str]:
    """Say what errors of a shrunk fit mean, and which coefficients have none."""
    assert found.unknown is not None
    notes = []
    if not found.unknown.all():
        notes.append(
            "Noise dominates some direction of the design. Standard errors are root mean squared "
            "errors, the ridge's bias included, if coefficients lie about "
            f"{facts.towards} with standard deviation {PRIOR_SD:g} (half ranges of the response "
            "per half range of the column)."
        )
    lost = [n for n, u in zip(facts.design.names, found.unknown, strict=True) if u]
    if lost:
        notes.append(
            f"Not determined by this release, so without errors: {', '.join(lost)}. More rows, a "
            "larger eps, a narrower range or fewer levels would help."
        )
    return notes
