"""Any regression of one released functional on others, and its score test (equations 1 to 3)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.explained import Explained, SecondMoments, explained
from dpmodels.arrays import Array

#: ``lambda_min(M) / (s sqrt(2p))`` below which only score tests are reported, and from which Wald
#: intervals are as good as without noise.
UNUSABLE, TRUSTED = 1.0, 5.0


@dataclass(frozen=True, eq=False)
class Regression:
    """One regression from a release.

    Attributes
    ----------
    B, a : (p, k), (k,) arrays
        Functionals of design and response.
    b : (p,) array
    inverse : (p, p) array
        ``M^{-1}``, ``M = B Q B'``.
    r : (k,) array
        Residual functional ``a - B'b``.
    rss : float
        Corrected: ``r'Qr + tr(M^{-1} Cn)``.
    v, free : float
        Residual variance ``rss / (n_eff - p)``, at least one noise sd of it; its divisor.
    sampling, privacy : (p, p) arrays
        The two parts of ``V = M^{-1} (v M + Cn) M^{-1}``.
    moments : SecondMoments
        What it was made from.
    """

    B: Array
    a: Array
    b: Array
    inverse: Array
    r: Array
    rss: float
    v: float
    free: float
    sampling: Array
    privacy: Array
    moments: SecondMoments

    @functools.cached_property
    def trust(self) -> float:
        """Smallest eigenvalue of M over the noise of an eigenvalue, ``s sqrt(2p)``."""
        return trust_of(self.moments, self.B)

    @property
    def V(self) -> Array:
        """Total covariance of b."""
        return self.sampling + self.privacy


def orthonormal(B: Array) -> tuple[Array, Array]:
    """Return a basis (r, k) of the rows of B, orthonormal, and ``back`` (p, r): ``b = back @ c``.

    Rows are scaled first, so neither units nor a mean far from zero decide what counts as rank.
    """
    size = np.linalg.norm(B, axis=1, keepdims=True)
    size = np.where(size > 0.0, size, 1.0)
    U, s, basis = np.linalg.svd(B / size, full_matrices=False)
    kept = s > 1e-13 * s.max(initial=0.0)
    return basis[kept], U[:, kept] / s[kept] / size


def inverse_and_rank(V: Array) -> tuple[Array, int]:
    """Return a generalised inverse of a covariance and its rank, whatever the units of its rows."""
    values, axes = scaled_axes(V)
    kept = np.abs(values) > 1e-13 * np.abs(values).max(initial=0.0)
    half = axes[:, kept]
    return (half / values[kept]) @ half.T, int(kept.sum())


def scaled_axes(V: Array) -> tuple[Array, Array]:
    """Return (eigenvalues, axes) of a covariance in units of its own: ``axes' V axes`` diagonal."""
    size = np.sqrt(np.abs(np.diag(V)))
    size = np.where(size > 0.0, size, 1.0)
    scaled = V / np.outer(size, size)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2.0)
    return values, vectors / size[:, None]


def trust_of(m: SecondMoments, B: Array) -> float:
    """Return the smallest eigenvalue of M over ``s sqrt(2p)``, in coordinates of isotropic noise.

    Invariant to the basis of the design: M is taken relative to B B'.
    """
    basis = orthonormal(B)[0]
    least = float(np.linalg.eigvalsh(basis @ m.Q @ basis.T)[0])
    noise = m.s * math.sqrt(2.0 * len(B))
    return least / noise if noise > 0 else math.copysign(math.inf, least)


def regress(m: SecondMoments, B: Array, a: Array) -> Regression:
    """Return the regression of ``a'w`` on ``B w``: equations (1) and (2)."""
    basis, back = orthonormal(B)
    core = basis @ m.Q @ basis.T
    inner = np.linalg.pinv((core + core.T) / 2.0, hermitian=True, rcond=1e-14)
    c = inner @ (basis @ m.Q @ a)
    r = a - basis.T @ c
    Cn = m.score_noise(basis, r)
    rss = float(r @ m.Q @ r) + float(np.sum(inner * Cn))
    free = max(m.n_eff - len(B), 1.0)
    least = math.sqrt(m.form_variance(np.outer(r, r)))
    v = max(rss, least) / free
    half = back @ inner
    return Regression(
        B, a, back @ c, half @ back.T, r, rss, v, free, v * half @ core @ half.T,
        half @ Cn @ half.T, m,
    )  # fmt: skip


def change(m: SecondMoments, one: Regression, two: Regression) -> tuple[Array, Array]:
    """Return the (sampling, noise) covariance of the coefficients of two regressions (3)."""
    v12 = float(one.r @ m.Q @ two.r) / m.rows
    sampling = v12 * one.inverse @ (one.B @ m.Q @ two.B.T) @ two.inverse
    noise = one.inverse @ m.cross(one.B, one.r, two.B, two.r) @ two.inverse
    return sampling, noise


def chi2_upper_tail(x: float, k: int) -> float:
    """Return ``P(chi2_k > x)``."""
    from scipy.special import gammaincc

    return float(gammaincc(k / 2.0, max(x, 0.0) / 2.0))


@dataclass(frozen=True, eq=False)
class Score:
    """A score test: ``u`` with covariance ``variance`` under the restricted fit."""

    u: Array
    variance: Array
    statistic: float
    df: int
    pvalue: float


def score(m: SecondMoments, B1: Array, B2: Array, a: Array) -> Score:
    """Test the functionals B2 beside B1 in a regression of ``a'w`` (Rao), from the fit on B1 alone.

    Only ``M11`` is inverted, so a test is right also where the larger regression is lost in noise.
    """
    zero = regress(m, B1, a)
    Bt = B2 - (B2 @ m.Q @ B1.T) @ zero.inverse @ B1
    u = Bt @ m.Q @ zero.r
    spread = Bt @ m.Q @ Bt.T
    values, vectors = np.linalg.eigh((spread + spread.T) / 2.0)
    spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
    variance = zero.v * spread + m.score_noise(Bt, zero.r)
    statistic = float(u @ inverse_and_rank(variance)[0] @ u)
    df = len(B2)
    return Score(u, variance, statistic, df, chi2_upper_tail(statistic, df))


@dataclass(frozen=True)
class RSquared:
    """R-squared of a regression with its errors.

    Attributes
    ----------
    share : Explained
        The estimate and its interval, in [0, 1]; noise and sampling (the latter for normal rows).
    adjusted : float
        For the number of regressors; at most 1.
    se_privacy : float
        Noise alone.
    rss, tss : float
    """

    share: Explained
    adjusted: float
    se_privacy: float
    rss: float
    tss: float


def r_squared(m: SecondMoments, fit: Regression, constant: Array) -> RSquared:
    """Return R-squared beside the intercept alone, with errors by the envelope theorem.

    The constant as the design of ``fit`` has it, which holds an intercept: beside a factor, whose
    levels add up to it, other functionals are 1 in every row too, but the noise of a large mean
    does not cancel in them.
    """
    basis = orthonormal(fit.B)[0]
    zero = regress(m, (constant @ basis.T @ basis)[None], fit.a)
    one, whole = np.outer(fit.r, fit.r), np.outer(zero.r, zero.r)
    noise = (m.form_variance(one), m.form_covariance(one, whole), m.form_variance(whole))
    n, tss = m.n_eff, max(zero.rss, math.sqrt(noise[2]))
    value = explained(fit.rss, zero.rss, noise).value
    sampling = 4.0 * value * (1.0 - value) ** 2 / n
    share = explained(fit.rss, zero.rss, noise, sampling)
    private = math.sqrt(max(share.se**2 - sampling, 0.0))
    adjusted = 1.0 - (1.0 - value) * max(n - 1.0, 1.0) / fit.free
    return RSquared(share, adjusted, private, fit.rss, tss)
