"""Test statistics of noisy sums, with the variance that sampling and noise give (``theory.md``, 3).

Nothing is divided by a small noisy number: a statistic is a linear function of released sums, or
nearly one, its variance under the null is sampling plus noise, and the reference is chi-squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.regression import inverse_and_rank
from dpmodels.arrays import Array


@dataclass(frozen=True)
class Null:
    """A test: statistic, degrees of freedom, p-value."""

    statistic: float
    df: int
    p_value: float


def _chi2(u: Array, V: Array) -> Null:
    """Return the test of u = 0 with covariance V."""
    from scipy.special import chdtrc

    u, V = np.atleast_1d(u), np.atleast_2d(V)
    value = max(float(u @ np.linalg.solve(V, u)), 0.0)
    return Null(value, len(u), float(chdtrc(len(u), value)))


def contrasts(weights: Array) -> Array:
    """Return (k - 1, k) orthonormal rows orthogonal to ``weights``: a Householder reflection."""
    w = np.asarray(weights, dtype=float)
    w = w / np.linalg.norm(w)
    v = w.copy()
    v[0] += 1.0 if w[0] >= 0 else -1.0
    H = np.eye(len(w)) - 2.0 * np.outer(v, v) / (v @ v)
    return np.asarray(H[1:])


def groups(N: Array, T: Array, P: Array, tau2: float, C: Array, alike: float = 1.0) -> Null:
    """Test equal means of k groups, variances unequal.

    Parameters
    ----------
    N, T, P : (k,) arrays
        Counts, sums and sums of squares of values in [-1, 1].
    tau2 : float
        Noise variance of a sum.
    C : (k, k) array
        Noise covariance of the counts.
    alike : float
        Here and below: so many rows may go together in any way; the part of sampling is so many
        times that of single rows, which is no smaller than it can be.

    Notes
    -----
    ``pi = N/n, m = sum T/n, Pm = I - pi 1', u = Pm T``,
    ``Var u = Pm [diag(P - 2 m T + m^2 N) + tau2 I + m^2 C] Pm'`` on k - 1 contrasts; cells of the
    diagonal are cut to [0, N (1 + |m|)^2].
    """
    N = np.maximum(N, 0.0)
    n = max(float(N.sum()), 1.0)
    m = float(np.clip(T.sum() / n, -1.0, 1.0))
    k = len(N)
    Pm = np.eye(k) - np.outer(N / n, np.ones(k))
    D = np.clip(P - 2.0 * m * T + m * m * N, 0.0, N * (1.0 + abs(m)) ** 2)
    V = Pm @ (alike * np.diag(D) + tau2 * np.eye(k) + m * m * C) @ Pm.T
    H = contrasts(np.ones(k))
    return _chi2(H @ Pm @ T, H @ V @ H.T)


def one_mean(
    N: float, T: float, P: float, mu0: float, noise: tuple[float, float], alike: float = 1.0
) -> Null:
    """Test the mean mu0 of values in [-1, 1].

    ``T - mu0 N`` has variance ``D + tau_T^2 + mu0^2 tau_N^2``. ``noise`` holds the
    two noise variances; D is the sum of squared deviations from mu0, cut.
    """
    D = float(np.clip(P - 2.0 * mu0 * T + mu0 * mu0 * N, 0.0, max(N, 0.0) * (1 + abs(mu0)) ** 2))
    V = alike * D + noise[0] + mu0**2 * noise[1]
    return _chi2(np.array([T - mu0 * N]), np.array([[V]]))


def fit(X: Array, n: float, p0: Array, C: Array, alike: float = 1.0) -> Null:
    """Test the shares p0: ``H(X - n p0)`` with ``H [n (diag p0 - p0 p0') + C] H'``.

    C is the noise covariance of ``X - n p0`` (Kifer and Rogers 2017).
    """
    H = contrasts(np.ones(len(X)))
    V = alike * n * (np.diag(p0) - np.outer(p0, p0)) + C
    return _chi2(H @ (X - n * p0), H @ V @ H.T)


def independence(X: Array, n: float, C: Array, alike: float = 1.0) -> Null:
    """Test independence of the rows and columns of X (r, c), C the noise covariance of vec X.

    ``U = A_r X A_c'`` with rows of A_r (A_c) an orthonormal basis orthogonal to the margin p_r
    (p_c); ``Var vec U = n (A_r D_r A_r') x (A_c D_c A_c') + (A_r x A_c) C (A_r x A_c)'``.
    """
    n = max(n, 1.0)
    p_r, p_c = (_shares(X.sum(axis=a)) for a in (1, 0))
    A, B = contrasts(p_r), contrasts(p_c)
    U = A @ X @ B.T
    K = np.kron(A, B)
    V = alike * n * np.kron((A * p_r) @ A.T, (B * p_c) @ B.T) + K @ C @ K.T
    return _chi2(U.ravel(), V)


def _shares(margin: Array) -> Array:
    floored = np.maximum(margin, 0.0)
    total = float(floored.sum())
    return floored / total if total > 0 else np.full(margin.shape, 1.0 / margin.size)


def score(Q: Array, s: float, known: Array, x: Array, y: Array) -> tuple[float, float, float]:
    """Return (u, its variance, statistic) of the score test of x given ``known`` in a model of y.

    Equations of ``after-fit.md`` 2.2, from ``Q = sum w w' + SymN(k, s)``: functionals are rows over
    the coordinates w. ``r0 = y - B1'b``, ``Bt = x - M21 M11^{-1} B1``, ``u = Bt Q r0`` and
    ``Var u = v0 Bt Q Bt' + (s^2/2)(|r0|^2 |Bt|^2 + (Bt r0)^2)``.
    """
    M = known @ Q @ known.T
    inverse = inverse_and_rank(M)[0]
    r0 = y - known.T @ (inverse @ (known @ Q @ y))
    Bt = x - (x @ Q @ known.T) @ inverse @ known
    u = float(Bt @ Q @ r0)
    n = max(float(Q[0, 0]), 1.0)
    v0 = max(residual(Q, s, known, y, r0) / max(n - len(known), 1.0), 0.0)
    noise = 0.5 * s * s * (float(r0 @ r0) * float(Bt @ Bt) + float(Bt @ r0) ** 2)
    variance = v0 * max(float(Bt @ Q @ Bt), 0.0) + noise
    return u, variance, u * u / variance


def residual(Q: Array, s: float, known: Array, y: Array, r: Array) -> float:
    """Return the residual sum of squares, ``r'Qr + tr(M^{-1} Cn)``: the noise does not bias it."""
    M = known @ Q @ known.T
    B_r = known @ r
    Cn = 0.5 * s * s * (float(r @ r) * known @ known.T + np.outer(B_r, B_r))
    return float(r @ Q @ r + np.trace(inverse_and_rank(M)[0] @ Cn))


def uncorrelated(sums: Array, V: Array, alike: float = 1.0) -> Null:
    """Test that two numbers are independent, from (N, Sx, Sy, Sxx, Sxy, Syy) of rows in the box.

    ``u = Sxy - Sx Sy / N`` with variance ``N v_x v_y`` and the noise of the five sums, V (6,), the
    product of two of them included: Sx and Sy may be noise alone.
    """
    N, Sx, Sy, Sxx, Sxy, Syy = (float(v) for v in sums)
    mx, my = float(np.clip(Sx / N, -1.0, 1.0)), float(np.clip(Sy / N, -1.0, 1.0))
    # E (m + noise)^2 = m^2 + noise^2: taken back
    vx = float(np.clip(Sxx / N - mx * mx + V[1] / N**2, 0.0, 1.0))
    vy = float(np.clip(Syy / N - my * my + V[2] / N**2, 0.0, 1.0))
    noise = V[4] + my * my * V[1] + mx * mx * V[2] + (mx * my) ** 2 * V[0] + V[1] * V[2] / N**2
    return _chi2(np.array([Sxy - Sx * Sy / N]), np.array([[alike * N * vx * vy + noise]]))


def correlation(Q: Array, s: float, n: float) -> tuple[float, float]:
    """Return (rho, its standard error) of the last two of the coordinates (1, x, y).

    ``after-fit.md`` 2.4; NaN where a residual sum of squares is not above its noise.
    """
    known = np.array([[1.0, 0.0, 0.0]])
    e = np.eye(3)
    r, rss = [], []
    for j in (1, 2):
        b = float(Q[0, j] / max(Q[0, 0], 1.0))
        r.append(e[j] - b * e[0])
        rss.append(residual(Q, s, known, e[j], r[-1]))
    if min(rss) <= 2.0 * s:
        return math.nan, math.nan
    rho = float(r[0] @ Q @ r[1]) / math.sqrt(rss[0] * rss[1])
    a, b_ = (v / math.sqrt(w) for v, w in zip(r, rss, strict=True))
    inner = 0.5 * (np.outer(a, b_) + np.outer(b_, a))
    inner -= 0.5 * rho * (np.outer(a, a) + np.outer(b_, b_))
    noise = s * s * float((inner**2).sum())
    rho = float(np.clip(rho, -1.0, 1.0))
    return rho, math.sqrt(noise + (1.0 - rho * rho) ** 2 / max(n - 3.0, 1.0))
