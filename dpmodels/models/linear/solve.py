"""Least squares from noisy moments: ridge, Stein ridge, covariance, bootstrap.

Everything here is post-processing of released numbers. Notation of ``theory.md``, section 4:
``M = M0 + E`` (p, p) and ``h = h0 + e`` (p,), where the entries of E (on and above the diagonal)
and of e are independent with known variances; ``t = t0 + noise`` is the sum of squares of the
response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array

_GRID = 60


@dataclass(frozen=True)
class Moments:
    """Released second moments of rows (x, y), with the variances of their noise.

    Attributes
    ----------
    M : (p, p) array
    h : (p,) array
    t : float
    V : (p, p) array
        Noise variance of each entry of M.
    vh : (p,) array
        Noise variance of each entry of h.
    vt : float
    """

    M: Array
    h: Array
    t: float
    V: Array
    vh: Array
    vt: float

    @property
    def s(self) -> float:
        """Noise scale in svec coordinates: the largest over the blocks."""
        p = len(self.h)
        off = self.V[np.triu_indices(p, 1)]
        both = max(float(np.diag(self.V).max()), 2.0 * float(off.max()) if p > 1 else 0.0)
        return math.sqrt(both)

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
    V = np.full((p, p), s * s / 2.0)
    V[np.diag_indices(p)] = s * s
    return Moments(Q[:p, :p], Q[:p, p], float(Q[p, p]), V, np.full(p, s * s / 2.0), s * s)


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
    """A shrunk solution.

    Attributes
    ----------
    d : (p,) array
    lam, factor : float
        ``d = factor (M + lam I)^{-1} h``.
    risk : float
        Stein's estimate of ``d'M0 d - 2 d'h0`` at the choice (optimistic: it was minimised).
    """

    d: Array
    lam: float
    factor: float
    risk: float


def _weighted(V: Array, th: Array, A: Array) -> float:
    """Return ``sum_k v_k th'B_k A B_k th`` over the entries of a symmetric matrix.

    ``B_ij = e_i e_j' + e_j e_i'`` for i < j and ``e_i e_i'``, entry variances V:
    ``sum_ij V_ij (A_jj th_i^2 + A_ij th_i th_j)`` less the diagonal counted twice.
    """
    a = np.diag(A)
    total = th * th @ V @ a + th @ (V * A) @ th
    return float(total - np.sum(np.diag(V) * a * th * th))


def _risk_terms(m: Moments, lam: float, floor: Array | None) -> tuple[Array, float, float]:
    """Return (th, q, l) with ``SURE(c) = c^2 q - 2 c l`` for the estimate ``c th``.

    ``q = th'M th + 2 sum_k v_k th'B_k A B_k th``, ``l = th'h - tr(A diag(vh))``. Where the floor on
    the eigenvalues sets lam, lam moves with M along the eigenvector ``floor``; that derivative is
    taken off.
    """
    th, A = solve(m, lam)
    q = float(th @ m.M @ th) + 2.0 * _weighted(m.V, th, A)
    l = float(th @ m.h) - float(np.diag(A) @ m.vh)
    if floor is not None:
        # sum_k v_k (u'B_k u) B_k, entry by entry
        W = 2.0 * m.V * np.outer(floor, floor)
        W[np.diag_indices(len(th))] = np.diag(m.V) * floor**2
        q -= 2.0 * float(th @ W @ A @ th)
        # the same derivative in l = th'h: h does not move lam, so nothing to take off
    return th, q, l


def stein_ridge(m: Moments, *, scale: bool = True) -> Solution:
    """Choose ridge and factor by Stein's unbiased estimate of the in-sample loss.

    Parameters
    ----------
    m : Moments
    scale : bool
        Whether to choose a factor in [0, 1] too.

    Notes
    -----
    ``lambda_min(M) + lam >= s sqrt(2p) / 2`` keeps the inverse away from singular. 60
    log-spaced multiples of ``s sqrt(2p)`` are searched.
    """
    values, vectors = np.linalg.eigh(m.M)
    least = max(0.0, m.spectral / 2.0 - float(values[0]))
    grid = m.spectral * np.geomspace(1e-3, 1e4, _GRID)
    candidates = [(least, vectors[:, 0] if least > 0 else None)]
    candidates += [(float(lam), None) for lam in grid if lam > least]
    best: Solution | None = None
    for lam, floor in candidates:
        th, q, l = _risk_terms(m, lam, floor)
        c = min(1.0, max(0.0, l / q)) if scale and q > 0 else 1.0
        risk = c * c * q - 2.0 * c * l
        if best is None or risk < best.risk:
            best = Solution(c * th, lam, c, risk)
    assert best is not None
    return best
