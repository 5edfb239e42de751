"""Least squares on a noised table: moment correction in closed form, and its errors.

M = X'X/n - (1-p) D, m = X'y/n - (1-p) k_xy, theta = M^{-1} m; psi_i = x_i (y_i - x_i'theta) +
(1-p)(D theta - k_xy); sandwich M^{-1} (psi'psi/n) M^{-1} / n (theory.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array

if TYPE_CHECKING:
    from dpmodels.models.noised.model import Model

_ROWS = 65_536


@dataclass(frozen=True)
class LinearFit:
    """What the closed form gives.

    Attributes
    ----------
    theta : (p,) array, NaN where the signal is below the noise
    cov : (p, p) array or None
        Sandwich covariance of theta.
    M : (p, p) array
        Corrected second moment.
    sigma2 : float
        Residual variance without noise; NaN where it comes out negative.
    signal : float
        Smallest eigenvalue of M over its standard error.
    """

    theta: Array
    cov: Array | None
    M: Array
    sigma2: float
    signal: float


def weak_signal(M: Array, model: Model) -> float:
    """Return t = v'Mv / sd((x'v)^2) sqrt n at the eigenvector v of the smallest eigenvalue."""
    scale = np.sqrt(np.maximum(np.einsum("ij,ij->j", model.X, model.X) / model.n, 1e-300))
    S = M / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(S)
    v = vectors[:, 0] / scale
    square = (model.X @ v) ** 2
    spread = float(square.std())
    return float(values[0]) / max(spread, 1e-300) * math.sqrt(model.n)


def _moments(model: Model) -> tuple[Array, Array, float]:
    w = model.weights
    total = float(model.n) if w is None else float(w.sum())
    X = model.X if w is None else model.X * w[:, None]
    return X.T @ model.X / total, X.T @ model.y / total, total


def fit_linear(model: Model, *, corrected: bool = True) -> LinearFit:
    """Fit least squares to released data.

    Parameters
    ----------
    model : Model
    corrected : bool
        False: the naive fit, for comparison.
    """
    p = model.p
    K = (1.0 - model.clear_prob) * model.total if corrected else np.zeros((p + 1, p + 1))
    D, k = K[:p, :p], K[:p, p]
    S, b, total = _moments(model)
    M, m = S - D, b - k
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    smallest = float(np.linalg.eigvalsh(M / np.outer(scale, scale))[0])
    signal = weak_signal(M, model)
    if not smallest > 1e-10:
        return LinearFit(np.full(p, math.nan), None, M, math.nan, signal)
    theta: Array = np.asarray(np.linalg.solve(M, m), dtype=float)
    A = np.zeros((p, p))
    rss = 0.0
    for start in range(0, model.n, _ROWS):
        x, y = model.X[start : start + _ROWS], model.y[start : start + _ROWS]
        u = y - x @ theta
        psi = x * u[:, None] + (D @ theta - k)
        if model.weights is not None:
            w = model.weights[start : start + _ROWS]
            psi *= w[:, None]
            rss += float(w @ (u * u))
        else:
            rss += float(u @ u)
        A += psi.T @ psi
    inverse = np.linalg.inv(M)
    cov = inverse @ (A / total) @ inverse.T / total
    phi = np.append(theta, -1.0)
    sigma2 = rss / total - float(phi @ K @ phi)
    return LinearFit(theta, cov, M, sigma2 if sigma2 > 0 else math.nan, signal)


def asymptotic_variance(
    theta: Array,
    M: Array,
    D: Array,
    sigma2: float,
    *,
    lambda_y2: float = 0.0,
    p: float = 0.0,
    kind: str = "drcl",
) -> tuple[Array, Array]:
    """Return (A, AsyVar) of sqrt n (theta_hat - theta), SL noise in one block.

    Parameters
    ----------
    theta : (p,) array
    M : (p, p) array
        E xx' of the clean rows, intercept included.
    D : (p, p) array
        Noise covariance of x.
    sigma2 : float
        Error variance.
    lambda_y2 : float
        Noise variance of y.
    p : float
        Clear probability.
    kind : {"sl", "drcl", "sdrcl", "paper", "laplace", "gaussian"}
        "paper": the one-draw form; "laplace", "gaussian": independent noise (p = 0, D diagonal).

    Notes
    -----
    A_SL = (s2 + q) M + (s2 + 2q) D + 3 D th th'D; V = q M + (s2 + 2q) D + (2 + p) D th th'D;
    A_IDR = A_SDR = A_SL - p V; A_DR = A_IDR + (1-p)^2/p V, q = th'D th + lambda_y^2.
    Independent noise of kurtosis k: A = (s2 + q)(M + D) + D th th'D + (k - 3) diag(D th)^2.
    """
    v = D @ theta
    q = float(theta @ v) + lambda_y2
    outer = np.outer(v, v)
    if kind in ("laplace", "gaussian"):
        excess = 3.0 * np.diag((np.diag(D) * theta) ** 2) if kind == "laplace" else 0.0
        A = (sigma2 + q) * (M + D) + outer + excess
        inverse = np.linalg.inv(M)
        return A, inverse @ A @ inverse.T
    A = (sigma2 + q) * M + (sigma2 + 2.0 * q) * D + 3.0 * outer
    V = q * M + (sigma2 + 2.0 * q) * D + (2.0 + p) * outer
    if kind != "sl":
        A = A - p * V
    if kind == "paper":
        A = A + (1.0 - p) ** 2 / p * V
    inverse = np.linalg.inv(M)
    return A, inverse @ A @ inverse.T


def fit_linear_one_draw(model: Model, second: Model) -> LinearFit:
    """Fit the published one-draw form: moments X1'X1/p + (1 - 1/p) X2'X2, and the same for y."""
    q = model.clear_prob
    a, b = 1.0 / q, 1.0 - 1.0 / q
    S1, m1, total = _moments(model)
    S2, m2, _ = _moments(second)
    M, m = a * S1 + b * S2, a * m1 + b * m2
    signal = weak_signal(M, second)
    if not float(np.linalg.eigvalsh(M)[0]) > 0:
        return LinearFit(np.full(model.p, math.nan), None, M, math.nan, signal)
    theta: Array = np.asarray(np.linalg.solve(M, m), dtype=float)
    u1, u2 = model.y - model.X @ theta, second.y - second.X @ theta
    psi = a * model.X * u1[:, None] + b * second.X * u2[:, None]
    sigma2 = a * float(u1 @ u1) / total + b * float(u2 @ u2) / total
    if model.weights is not None:
        psi *= model.weights[:, None]
        sigma2 = math.nan
    inverse = np.linalg.inv(M)
    cov = inverse @ (psi.T @ psi / total) @ inverse.T / total
    return LinearFit(theta, cov, M, sigma2 if sigma2 > 0 else math.nan, signal)
