"""Least squares from noisy moments: ridge, Stein ridge, covariance, and errors where noise rules.

Everything here is post-processing of released numbers. Notation of ``theory.md``, section 4:
``M = M0 + E`` (p, p) and ``h = h0 + e`` (p,), where the entries of E (on and above the diagonal)
and of e are independent with known variances; ``t = t0 + noise`` is the sum of squares of the
response.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.moments import isotropic_noise, svec_scale
from dpmodels.arrays import Array
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.notes import Note
from dpmodels.records import Request
from dpmodels.sums.scaling import UnitScale

_LOG_GRID = 60


@dataclass(frozen=True)
class Moments:
    """Released second moments of rows (x, y), with the variances of their noise."""

    M: Array  # (p, p)
    h: Array  # (p,)
    t: float
    # V, vh: (p, p), (p,); noise variance of each entry of M and of h.
    V: Array
    vh: Array

    @property
    def s(self) -> float:
        """Noise scale in svec coordinates: the largest over the blocks."""
        return svec_scale(self.V)

    @property
    def spectral(self) -> float:
        """Typical spectral norm of E: ``s sqrt(2 p)``."""
        return self.s * math.sqrt(2.0 * len(self.h))

    @property
    def smallest(self) -> float:
        """Smallest eigenvalue of M."""
        return float(np.linalg.eigvalsh(self.M)[0])

    def noise_moment(self, S: Array) -> Array:
        """Return ``E[E S E]`` for a fixed symmetric S, (p, p).

        Entry (i, i): ``sum_j V_ij S_jj``; entry (i, l): ``V_il S_il``.
        """
        B = self.V * S
        B[np.diag_indices(len(S))] = self.V @ np.diag(S)
        return B

    def score_noise(self, D: Array) -> Array:
        """Return ``Cov(e - E d) = diag(vh) + E[E D E]``, (p, p), for d with second moments D."""
        return self.noise_moment(D) + np.diag(self.vh)

    def coefficient_noise(self, d: Array) -> Array:
        """Return Cn = Cov(e - E d) for a known d, (p, p).

        In the isotropic case this is ``(s^2/2) [(1 + |d|^2) I + d d']``.
        """
        return self.score_noise(np.outer(d, d))


def isotropic(Q: Array, s: float) -> Moments:
    """Return the moments in a released matrix ``Q = sum z z' + SymN(p + 1, s)``, response last."""
    p = len(Q) - 1
    V = isotropic_noise(p, s)
    return Moments(Q[:p, :p], Q[:p, p], float(Q[p, p]), V, np.full(p, s * s / 2.0))


def positive_part(S: Array) -> Array:
    """Return the positive part of a symmetric matrix."""
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def floor_ridge(m: Moments) -> float:
    """Return ``max(0, s sqrt(2p) - lambda_min(M))``: AdaSSP's rule, from the release alone."""
    return max(0.0, m.spectral - m.smallest)


def solve(m: Moments, lam: float) -> tuple[Array, Array]:
    """Return (d, A): ``A = (M + lam I)^{-1}`` and ``d = A h``."""
    A = np.linalg.inv(m.M + lam * np.eye(len(m.h)))
    A = (A + A.T) / 2.0
    return A @ m.h, A


@dataclass(frozen=True)
class Solution:
    """A shrunk solution."""

    d: Array  # (p,)
    # lam, factor: ``d = factor (M + lam I)^{-1} h``.
    lam: float
    factor: float
    # Stein's estimate of ``d'M0 d - 2 d'h0`` at the choice (optimistic: it was minimised).
    risk: float


def _risk_terms(m: Moments, lam: float, floor: Array | None) -> tuple[Array, float, float]:
    """Return (th, q, l) with ``SURE(c) = c^2 q - 2 c l`` for the estimate ``c th``.

    ``q = th'M th + 2 sum_k v_k th'B_k A B_k th``, ``l = th'h - tr(A diag(vh))``. Where the floor on
    the eigenvalues sets lam, lam moves with M along the eigenvector ``floor``; that derivative is
    taken off.
    """
    th, A = solve(m, lam)
    # sum_k v_k th'B_k A B_k th over the entries of a symmetric matrix, B_ij = e_i e_j' + e_j e_i'
    # for i < j and e_i e_i': sum_ij V_ij (A_jj th_i^2 + A_ij th_i th_j) less the diagonal counted
    # twice
    a = np.diag(A)
    total = th * th @ m.V @ a + th @ (m.V * A) @ th
    q = float(th @ m.M @ th) + 2.0 * float(total - np.sum(np.diag(m.V) * a * th * th))
    l = float(th @ m.h) - float(np.diag(A) @ m.vh)
    if floor is not None:
        # sum_k v_k (u'B_k u) B_k, entry by entry
        W = 2.0 * m.V * np.outer(floor, floor)
        W[np.diag_indices(len(th))] = np.diag(m.V) * floor**2
        q -= 2.0 * float(th @ W @ A @ th)
        # the same derivative in l = th'h: h does not move lam, so nothing to take off
    return th, q, l


def stein_ridge(m: Moments) -> Solution:
    """Choose ridge and factor (in [0, 1]) by Stein's estimate of the loss.

    ``lambda_min(M) + lam >= s sqrt(2p) / 2`` keeps the inverse away from singular. 60
    log-spaced multiples of ``s sqrt(2p)`` are searched.
    """
    values, vectors = np.linalg.eigh(m.M)
    least = max(0.0, m.spectral / 2.0 - float(values[0]))
    grid = m.spectral * np.geomspace(1e-3, 1e4, _LOG_GRID)
    candidates = [(least, vectors[:, 0] if least > 0 else None)]
    candidates += [(float(lam), None) for lam in grid if lam > least]
    best: Solution | None = None
    for lam, floor in candidates:
        th, q, l = _risk_terms(m, lam, floor)
        c = min(1.0, max(0.0, l / q)) if q > 0 else 1.0
        risk = c * c * q - 2.0 * c * l
        if best is None or risk < best.risk:
            best = Solution(c * th, lam, c, risk)
    assert best is not None
    return best


# -- What a fit by moments is made from: released stages, and the facts of its report.


@dataclass(frozen=True)
class Stage:
    """One released matrix of second moments, in the coordinates of its mapped rows."""

    Q: Array  # (q, q): response last
    V: Array  # (q, q): noise variance of each entry
    L: Array  # (q, q): lower triangular: unit rows are ``L`` times mapped rows (before the ball)
    radius: float  # Radius of the clipping ball, inf if rows are not clipped

    @property
    def moments(self) -> Moments:
        """Return the blocks as moments of (x, y)."""
        p = len(self.Q) - 1
        Q, V = self.Q, self.V
        return Moments(Q[:p, :p], Q[:p, p], float(Q[p, p]), V[:p, :p], V[:p, p])

    @property
    def s(self) -> float:
        """Largest noise scale of the matrix in svec coordinates."""
        return svec_scale(self.V)

    def back(self, d: Array) -> Array:
        """Return unit-row coefficients ``b_B + L_yy L_xx^{-T} d``."""
        p = len(d)
        Lx = self.L[:p, :p]
        centre = self.L[p, :p] + self.L[p, p] * d
        return np.asarray(np.linalg.solve(Lx.T, centre))

    @property
    def slope(self) -> Array:
        """Return ``L_yy L_xx^{-T}``: derivative of :meth:`back`."""
        p = len(self.L) - 1
        return np.asarray(self.L[p, p] * np.linalg.inv(self.L[:p, :p]).T)

    def effective_rows(self, n: float, unit: UnitScale, *, intercept: bool) -> float:
        """Return n_eff: the released sum of squared row weights, between 1 and n.

        Rows voided by a missing cell do not count. Without an intercept it is n.
        """
        if not intercept:
            return float(n)
        released = float(self.Q[0, 0]) * float(self.L[0, 0] / unit.scale[0]) ** 2
        return min(float(n), max(released, 1.0))


@dataclass(frozen=True)
class Report:
    """Facts for the report of a moment fit."""

    design: Design
    unit: UnitScale
    stages: tuple[Stage, ...]
    rows: float  # n, or the released count (without one, the public guess)
    request: Request
    towards: str  # Description of the target of the ridge
    # Print standard errors (with a warning) even where the ridge is active.
    biased_errors: bool = False
    # notes, warnings: notes and warnings of the method, before those of this module.
    notes: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()
    stats: tuple[tuple[str, float], ...] = ()
    arrays: tuple[tuple[str, Array], ...] = ()
    # Scores of the last stage, for errors that allow unequal variances. None: one residual
    # variance.
    scores: Scores | None = None

    @property
    def has_constant(self) -> bool:
        """Whether the first cell of every complete row is 1."""
        return self.design.has_intercept and not self.design.scaled


@dataclass(frozen=True)
class Errors:
    """Covariances of the working coefficients d, residual variance v, and the meat.

    ``meat``, (p, p): covariance of the score ``h0 - M0 d0``; ``v M`` under one variance.
    ``taken``, (p,): what row weights may have taken off d.
    ``unknown``, (p,): coefficients in the user's units that the release does not determine.
    """

    sampling: Array
    privacy: Array
    v: float
    meat: Array
    weight_shift: Array
    unknown: npt.NDArray[np.bool_] | None = None


# -- The meat of a sandwich: released moments of scores, and what they say. Sees no row


@dataclass(frozen=True, eq=False)
class Scores:
    """Released second moments of whitened scores (``models/linear/inference.py``)."""

    # (p, p): second moments of ``K^{-1} g`` over the rows, noise included; g is the score in the
    # stage's coordinates.
    inside: Array
    K: Array  # (p, p): lower triangular
    radius: float  # Radius of the ball into which the whitened scores were scaled
    sd: float  # Noise scale of S in svec coordinates
    # (p, p): those of the rows that were scaled onto the ball of the stage; ``inside`` then holds
    # the others.
    outside: Array | None = None

    @property
    def S(self) -> Array:
        """Return the moments over all rows."""
        return self.inside if self.outside is None else self.inside + self.outside

    @property
    def values(self) -> dict[str, Array]:
        """Return the released matrices by name."""
        both = {"scores": self.inside, "scores outside": self.outside}
        return {name: S for name, S in both.items() if S is not None}

    @property
    def meat(self) -> Array:
        """Return the second moments of the scores.

        Eigenvalues of S are floored at its noise scale, which is public given the radius: no
        variance is reported that is below the noise it was measured with.
        """
        values, vectors = np.linalg.eigh(self.S)
        root = self.K @ vectors * np.sqrt(np.maximum(values, self.sd))
        return np.asarray(root @ root.T)

    def weighting(self, radius: float, free: float) -> Array:
        """Return ``J = (I - kappa)^{-1}``, (p, p); the identity where rows were not kept apart.

        ``kappa = M^{-1} (2/R^2) sum g g'`` over the rows on the ball of ``radius`` is what the
        row weights take off a deviation from its centre (4.3). Its eigenvalues are held between 0
        and 1/2: the formula is of first order.
        """
        p = len(self.K)
        if self.outside is None:
            return np.eye(p)
        values, vectors = np.linalg.eigh(self.outside)
        kappa = np.clip(2.0 / radius**2 * values / (free + p), 0.0, 0.5)
        inner = (vectors / (1.0 - kappa)) @ vectors.T
        return np.asarray(np.linalg.solve(self.K.T, inner @ self.K.T))

    def noise(self, free: float, v: float) -> float:
        """Return the noise of a variance of the sandwich, relative to it: ``sd / (n_eff v)``."""
        return self.sd / ((free + len(self.S)) * v)

    def note(self, free: float, v: float) -> Note:
        """Return the note on the standard errors and on their own noise."""
        noise = self.noise(free, v)
        return messages.ERRORS_HETERO(variance=100.0 * noise, error=50.0 * noise)


# -- Errors where noise dominates some direction of the design, and the allowance for row weights.
#
# Both are post-processing of released numbers (``theory.md``, 4.2 and 4.3).


#: Prior sd of a coefficient in unit rows: half ranges of the response per half range of a column.
PRIOR_SD = 1.0
#: Mean information of pure noise, this many times, is taken off the information of M.
NOISE_INFORMATION = 2.0
#: A coefficient whose posterior sd exceeds this part of its prior sd was not determined.
DETERMINED_SD = 0.5
#: Rounds of the iteration at most, and the relative change at which it ends: float precision.
_ROUNDS, _CLOSE = 60, 1e-8


def posterior(m: Moments, precision: Array, meat: Array) -> tuple[Array, Array]:
    """Return (mean, covariance) of d0, given the release and a normal prior about zero.

    ``precision`` is the prior's, of d0; ``meat`` the covariance of the score ``h0 - M0 d0``.

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
    """Return kappa, the part of d0 that is lost by row weights, (intercept, slopes).

    d0 is the difference between the coefficients and those about which residuals are taken. The
    factor ``c = min(1, R/|w|)`` of a whitened row w (``radius`` R) depends on its residual
    ``r = x'd0 + e``, so least squares of r on x with weights c^2 gives ``(1 - kappa) d0`` to first
    order. For Gaussian rows whose whitening is exact, ``w = (1, u)`` with ``u ~ N(0, I_k)``
    (``w = u`` without an intercept),

        kappa = 2 R^2 E[1{|w| > R} |u|^4 / |w|^4] / ((k + 2) E[c^2 |u|^2])     (slopes)
        kappa = 2 R^2 E[1{|w| > R} |u|^2 / |w|^4] / (k E[c^2])                 (intercept).
    """
    k = q - 1 if intercept else q
    size = 4096
    squares = np.asarray(special.chdtri(float(k), (np.arange(size) + 0.5) / size))
    norms = squares + (1.0 if intercept else 0.0)
    outside = norms > radius**2
    weights = np.minimum(1.0, radius**2 / norms)
    tail = np.where(outside, 2.0 * radius**2 / norms**2, 0.0)
    slopes = float(np.mean(tail * squares**2) / ((k + 2.0) * np.mean(weights * squares)))
    level = float(np.mean(tail * squares) / (k * np.mean(weights)))
    return (level if intercept else slopes), slopes


def allowance(facts: Report, d: Array) -> Array:
    """Return the allowance (p,) for the shrinkage of d by row weights, ``kappa/(1 - kappa) d``.

    It is 0 unless a released matrix whitened the rows: the factor is that of whitened rows.
    """
    if len(facts.stages) < 2:
        return np.zeros(len(d))
    stage = facts.stages[-1]
    level, slopes = attenuation(len(stage.Q), stage.radius, intercept=facts.has_constant)
    kappa = np.full(len(d), slopes)
    kappa[0] = level
    return np.asarray(kappa / (1.0 - kappa) * d)


def posterior_errors(facts: Report, d: Array, fit_errors: Errors) -> Errors:
    """Compute errors of a shrunk estimate d: its mean squared error under a public prior.

    ``E[(d0 - d)(d0 - d)' | release] = P + (mean - d)(mean - d)'`` for the prior that unit-row
    coefficients lie about the centre with sd ``PRIOR_SD``.
    """
    stage, (B, _) = facts.stages[-1], facts.unit.back()
    slope = stage.slope
    mean, P = posterior(
        stage.moments, slope.T @ slope / PRIOR_SD**2, positive_part(fit_errors.meat)
    )
    sd = np.sqrt(np.diag(B @ slope @ P @ slope.T @ B.T))
    prior_sd = PRIOR_SD * np.linalg.norm(B, axis=1)
    total = P + np.outer(mean - d, mean - d)
    return replace(
        fit_errors,
        privacy=positive_part(total - fit_errors.sampling),
        unknown=np.asarray(sd > DETERMINED_SD * prior_sd),
    )


def dominated_notes(facts: Report, fit_errors: Errors) -> list[Note]:
    """Return notes on the errors of a shrunk fit, and on coefficients that have none."""
    assert fit_errors.unknown is not None
    notes = []
    if not fit_errors.unknown.all():
        notes.append(messages.DOMINATED(towards=facts.towards, sd=PRIOR_SD))
    lost = [n for n, u in zip(facts.design.names, fit_errors.unknown, strict=True) if u]
    if lost:
        notes.append(messages.NO_ERRORS_IDENTIFIED(columns=lost))
    return notes
