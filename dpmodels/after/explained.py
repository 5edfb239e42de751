"""The explained share of a variance: one estimator, in [0, 1], with the set of shares in doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array


@dataclass(frozen=True)
class Explained:
    """A share ``R = 1 - D / N`` and its 95 % interval, all of them in [0, 1]."""

    value: float
    se: float
    low: float
    high: float

    def named(self, key: str) -> dict[str, float]:
        """Return the four under the names of fit statistics."""
        ends = {f"{key}_low": self.low, f"{key}_high": self.high}
        return {key: self.value, f"{key}_se": self.se, **ends}


def explained(
    left: float, total: float, noise: tuple[float, float, float], sampling: float = 0.0,
    z: float = 1.959963984540054,
) -> Explained:  # fmt: skip
    """Return the share that ``left`` leaves of ``total``, by Fieller's set cut to [0, 1].

    The set ``{R: (D - (1 - R) N)^2 <= z^2 Var}`` covers whether or not N is well above its noise,
    so whether a share is shown need not depend on how the noise fell. Where it is no interval, or
    a noisy N is not positive, all of [0, 1] is in doubt.

    Parameters
    ----------
    left, total : float
        D and N, as released.
    noise : (variance of D, covariance, variance of N)
    sampling : float
        Variance of R by sampling, where one is claimed.
    """
    one, both, other = noise
    safe = max(total, math.sqrt(max(other, 0.0)), 1e-300)
    ratio = left / safe
    value = min(max(1.0 - ratio, 0.0), 1.0)
    spread = max(one - 2.0 * ratio * both + ratio * ratio * other, 0.0) / safe**2 + sampling
    # with x = 1 - R: (D - x N)^2 <= z^2 (one - 2 x both + x^2 other + sampling N^2)
    a = total * total - z * z * other
    if not (a > 0.0 and total > 0.0):
        return Explained(value, math.sqrt(spread), 0.0, 1.0)
    b = left * total - z * z * both
    c = left * left - z * z * (one + sampling * total * total)
    root = math.sqrt(max(b * b - a * c, 0.0))
    high, low = (min(max(1.0 - (b + sign * root) / a, 0.0), 1.0) for sign in (-1.0, 1.0))
    return Explained(value, math.sqrt(spread), min(low, value), max(high, value))


# -- A released matrix of second moments, and the exact noise of every bilinear form of it


#: Least part of n that the effective rows are.
LEAST_ROWS = 0.1


def isotropic_noise(k: int, s: float) -> Array:
    """Return the entry variances of ``SymN(k, s)``: s^2 on the diagonal, s^2/2 off it."""
    V = np.full((k, k), s * s / 2.0)
    V[np.diag_indices(k)] = s * s
    return V


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """A released moment matrix.

    Attributes
    ----------
    Q : (k, k) array
    V : (k, k) array
        Noise variance of each entry.
    rows : float
        n, or the public guess of it.
    constant : (k,) array or None
        The functional that is 1 in every complete row; None if the release has none.
    known : float or None
        Effective rows, where they are given and not read off the release.
    """

    Q: Array
    V: Array
    rows: float
    constant: Array | None = None
    known: float | None = None

    @property
    def k(self) -> int:
        """Dimension of the released rows."""
        return len(self.Q)

    @property
    def s(self) -> float:
        """Largest noise scale in svec coordinates."""
        upper = np.triu_indices(self.k, 1)
        off = float(self.V[upper].max()) if self.k > 1 else 0.0
        return math.sqrt(max(float(np.diag(self.V).max()), 2.0 * off))

    @property
    def n_eff(self) -> float:
        """Rows that count: the released moment of the constant, between n/10 and n."""
        if self.known is not None:
            return self.known
        if self.constant is None:
            return self.rows
        cell = float(self.constant @ self.Q @ self.constant)
        return min(self.rows, max(cell, LEAST_ROWS * self.rows))

    def cross(self, B1: Array, r1: Array, B2: Array, r2: Array) -> Array:
        """Return ``Cov(B1 E r1, B2 E r2)``, (p1, p2), exactly.

        ``sum_ij V_ij u_i r1_j (x_i r2_j + x_j r2_i)``, less the diagonal that is counted twice;
        isotropic: ``(s^2/2) [(r1'r2) B1 B2' + B1 r2 r1'B2']``.
        """
        straight = (B1 * (self.V @ (r1 * r2))) @ B2.T
        crossed = (B1 * r2) @ self.V @ (B2 * r1).T
        twice = (B1 * (np.diag(self.V) * r1 * r2)) @ B2.T
        return np.asarray(straight + crossed - twice)

    def score_noise(self, B: Array, r: Array) -> Array:
        """Return Cn = Cov(B E r) (equation 1)."""
        return self.cross(B, r, B, r)

    def form_covariance(self, S: Array, R: Array) -> float:
        """Return the covariance of ``tr(S E)`` and ``tr(R E)``, S and R symmetric."""
        both = S * R
        return float(2.0 * np.sum(self.V * both) - np.sum(np.diag(self.V) * np.diag(both)))

    def form_variance(self, S: Array) -> float:
        """Return the variance of ``tr(S E)``; isotropic: ``s^2 |S|_F^2``."""
        return self.form_covariance(S, S)
