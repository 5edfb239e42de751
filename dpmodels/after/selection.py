"""Shrinkage, selection and components from a release: no intervals after any of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.after.regression import Regression, regress
from dpmodels.arrays import Array

_SWEEPS, _SMALL = 10_000, 1e-12


@dataclass(frozen=True, eq=False)
class Slopes:
    """A regression without its intercept, columns of length one: ``b'Mb/2 - h'b``.

    Attributes
    ----------
    M, h : (p, p), (p,) arrays
        Per effective row; eigenvalues of M floored at its noise, else the problem is not convex.
    scale : (p,) array
        Standard deviations of the columns as released: coefficients are ``b / scale``.
    noise : float
        Largest noise scale of M.
    penalty : float
        Of the lasso: ``1.1 z_{1 - .05/p} sqrt(max_j (v M_jj + Cn_jj))``.
    means, mean : (p,) array, float
        Of the columns and of the response.
    """

    M: Array
    h: Array
    scale: Array
    noise: float
    penalty: float
    means: Array
    mean: float

    def user(self, b: Array) -> Array:
        """Return (intercept, slopes) in the units of the functionals."""
        back = b / self.scale
        return np.append(self.mean - self.means @ back, back)

    def ridge(self, lam: float) -> Array:
        """Return ``(M + lam I)^{-1} h``."""
        return np.asarray(np.linalg.solve(self.M + lam * np.eye(len(self.h)), self.h))


def slopes(m: SecondMoments, B: Array, a: Array, constant: Array) -> Slopes:
    """Return the problem of the slopes of ``a'w`` on ``B w`` (without the constant)."""
    n = m.n_eff
    cell = float(constant @ m.Q @ constant)
    means, mean = (B @ m.Q @ constant) / cell, float(a @ m.Q @ constant) / cell
    C, y = B - np.outer(means, constant), a - mean * constant
    scale, noises = _spreads(m, C)
    C = C / scale[:, None]
    M = C @ m.Q @ C.T / n
    noise = float(np.max(noises / scale**2))
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    M = (vectors * np.maximum(values, noise)) @ vectors.T
    h = C @ m.Q @ y / n
    full = regress(m, np.vstack([constant, C]), y)
    Cn = np.diag(m.score_noise(C, full.r))
    z = _upper_quantile(0.05 / len(C))
    penalty = 1.1 * z * math.sqrt(float(np.max(full.v * np.diag(M) * n + Cn))) / n
    return Slopes(M, h, scale, noise, penalty, means, mean)


def _spreads(m: SecondMoments, C: Array) -> tuple[Array, Array]:
    """Return the standard deviations of centred columns, and the noise of their squares."""
    n = m.n_eff
    variances = np.einsum("ij,jk,ik->i", C, m.Q, C) / n
    noises = np.array([math.sqrt(m.form_variance(np.outer(c, c))) for c in C]) / n
    return np.sqrt(np.maximum(variances, np.maximum(noises, 1e-300))), noises


def _upper_quantile(p: float) -> float:
    from scipy.special import ndtri

    return -float(ndtri(p))


def lasso(M: Array, h: Array, lam: float, start: Array | None = None) -> Array:
    """Return the minimiser of ``b'Mb/2 - h'b + lam |b|_1`` by coordinate descent, M positive."""
    b = np.zeros(len(h)) if start is None else start.copy()
    slope = M @ b
    for _ in range(_SWEEPS):
        moved = 0.0
        for j in range(len(h)):
            pull = h[j] - slope[j] + M[j, j] * b[j]
            new = math.copysign(max(abs(pull) - lam, 0.0), pull) / M[j, j]
            if new != b[j]:
                slope += M[:, j] * (new - b[j])
                moved = max(moved, abs(new - b[j]))
                b[j] = new
        if moved <= _SMALL * max(1.0, float(np.abs(b).max())):
            break
    return b


def best_subset(
    m: SecondMoments, constant: Array, terms: list[Array], a: Array
) -> list[tuple[tuple[int, ...], float, Regression]]:
    """Return all subsets of terms with ``n log(RSS/n) + p log n``, best first.

    RSS is that of (2), corrected for noise: ``r'Qr`` alone rewards fitting noise.
    """
    n, found = m.n_eff, []
    for size in range(len(terms) + 1):
        for chosen in itertools.combinations(range(len(terms)), size):
            fit = regress(m, np.vstack([constant[None], *(terms[j] for j in chosen)]), a)
            bic = n * math.log(fit.v * fit.free / n) + len(fit.b) * math.log(n)
            found.append((chosen, bic, fit))
    return sorted(found, key=lambda one: one[1])


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of a released covariance or correlation.

    ``noise``: eigenvalues below it are noise, and directions need gaps beyond it.
    """

    values: Array
    vectors: Array
    noise: float


def components(m: SecondMoments, B: Array, constant: Array, *, standardised: bool) -> Components:
    """Return eigenvalues (largest first) and directions of the columns ``B w``."""
    n = m.n_eff
    means = (B @ m.Q @ constant) / float(constant @ m.Q @ constant)
    C = B - np.outer(means, constant)
    if standardised:
        C = C / _spreads(m, C)[0][:, None]
    values, vectors = np.linalg.eigh(C @ m.Q @ C.T / n)
    largest = float(_spreads(m, C)[1].max())
    return Components(values[::-1], vectors[:, ::-1], largest * math.sqrt(2.0 * len(B)))
