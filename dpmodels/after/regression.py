"""Any regression of one released functional on others, and its score test (equations 1 to 3)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.explained import Explained, SecondMoments, explained
from dpmodels.arrays import Array

__all__ = ["RSquared", "Regression", "change", "chi2_upper_tail", "r_squared", "regress", "score"]

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
    Cn : (p, p) array
        Noise of the score at b.
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
    Cn: Array
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


def trust_of(m: SecondMoments, B: Array) -> float:
    """Return the smallest eigenvalue of M over ``s sqrt(2p)``, in coordinates of isotropic noise.

    Invariant to the basis of the design: M is taken relative to B B'.
    """
    values, vectors = np.linalg.eigh(B @ B.T)
    root = vectors / np.sqrt(np.maximum(values, 1e-300))
    least = float(np.linalg.eigvalsh(root.T @ (B @ m.Q @ B.T) @ root)[0])
    noise = m.s * math.sqrt(2.0 * len(B))
    return least / noise if noise > 0 else math.copysign(math.inf, least)


def regress(m: SecondMoments, B: Array, a: Array) -> Regression:
    """Return the regression of ``a'w`` on ``B w``: equations (1) and (2)."""
    M, h = B @ m.Q @ B.T, B @ m.Q @ a
    inverse = np.linalg.pinv((M + M.T) / 2.0, hermitian=True, rcond=1e-14)
    b = inverse @ h
    r = a - B.T @ b
    Cn = m.score_noise(B, r)
    rss = float(r @ m.Q @ r) + float(np.sum(inverse * Cn))
    free = max(m.n_eff - len(B), 1.0)
    least = math.sqrt(m.form_variance(np.outer(r, r)))
    v = max(rss, least) / free
    return Regression(
        B, a, b, inverse, r, Cn, rss, v, free, v * inverse @ M @ inverse, inverse @ Cn @ inverse,
        m,
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
    statistic = float(u @ np.linalg.pinv(variance, hermitian=True) @ u)
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
    """Return R-squared beside the intercept alone, with errors by the envelope theorem."""
    zero = regress(m, constant[None], fit.a)
    one, whole = np.outer(fit.r, fit.r), np.outer(zero.r, zero.r)
    noise = (m.form_variance(one), m.form_covariance(one, whole), m.form_variance(whole))
    n, tss = m.n_eff, max(zero.rss, math.sqrt(noise[2]))
    value = explained(fit.rss, zero.rss, noise).value
    sampling = 4.0 * value * (1.0 - value) ** 2 / n
    share = explained(fit.rss, zero.rss, noise, sampling)
    private = math.sqrt(max(share.se**2 - sampling, 0.0))
    adjusted = 1.0 - (1.0 - value) * max(n - 1.0, 1.0) / fit.free
    return RSquared(share, adjusted, private, fit.rss, tss)
