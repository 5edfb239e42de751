"""A released fit between two passes: where the next pass looks from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array

#: The new scale is the old one times 1.1 q / (n p), which may move within these bounds.
SCALE_UP, SCALE_LEAST, SCALE_MOST = 1.1, 0.05, 5.0


@dataclass(frozen=True, eq=False)
class Information:
    """Information per row in the coordinates u, (r, r), and the noise sd of its entries there."""

    matrix: Array
    noise: float


@dataclass(frozen=True, eq=False)
class State:
    """A released fit: where the next pass looks from.

    Attributes
    ----------
    theta : (r,) array
        For u. Models of a residual: in units of the unit response.
    W : (r, r) array
        Whitens a row: ``w = W u``.
    phi : float
        Scale of the score: ``s = w psi``, psi over ``sqrt(phi)``.
    M : (r, r) array
        Second moments of u, released by the start.
    earlier : Information or None
        Unfloored information of an earlier pass, to average with.
    nuisance : float
        What else a model learns on the way (alpha of a variance, sd of the residual).
    constant : (r,) array or None
        a with ``a'u = 1`` in every complete row.
    """

    theta: Array
    W: Array
    phi: float
    M: Array
    earlier: Information | None = None
    nuisance: float = 0.0
    constant: Array | None = None

    def length(self, v: Array) -> float:
        """Return ``|W v|_M``: root mean square change of the linear predictor."""
        step = self.W @ v
        return math.sqrt(max(float(step @ self.M @ step), 0.0))


def axes(H: Array) -> tuple[Array, Array]:
    """Return (eigenvalues, eigenvectors) of a matrix that is symmetric but for rounding."""
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    return values, vectors


def floored(H: Array, floor: float, known: tuple[Array, Array] | None = None) -> Array:
    """Return a symmetric matrix with its eigenvalues floored; ``known``: its :func:`axes`."""
    values, vectors = axes(H) if known is None else known
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def roots(H: Array, known: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
    """Return (H^{1/2}, H^{-1/2}) of a positive matrix; ``known``: what ``eigh`` says of it."""
    values, vectors = np.linalg.eigh(H) if known is None else known
    root = np.sqrt(values)
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T


def scaled_up(phi: float, ratio: float, up: float = SCALE_UP) -> float:
    """Return the scale after a pass whose mean squared score was ``ratio`` of what it should be."""
    return phi * min(max(up * ratio, SCALE_LEAST), SCALE_MOST)


def shrunk(
    J: Array, noise: float, r: int, *, part: float = 1.0, least: float = 0.25
) -> Array:
    """Return J shrunk to its mean eigenvalue, as far as its noise explains its spread.

    Parameters
    ----------
    part : float
        Of that shrinkage, in variances of the noise.
    least : float
        Floor of the eigenvalues, over the mean one; half the noise where that is more, up to a
        quarter of the mean.
    """
    tau = max(float(np.trace(J)) / r, noise, 1e-12)
    away = J - tau * np.eye(r)
    spread = float(np.sum(away * away))
    lam = min(1.0, part * r * (r + 1) / 2.0 * noise**2 / spread) if spread > 0 else 1.0
    lowest = max(least * tau, min(noise / 2.0, tau / 4.0))
    values, vectors = np.linalg.eigh(tau * np.eye(r) + (1.0 - lam) * away)
    return np.asarray((vectors * np.maximum(values, lowest)) @ vectors.T)


#: Of the noise variance of a shrunk information, what is left at least.
LEAST_LEFT = 0.05


def kept_apart(H: Array, noise: float) -> tuple[Array, float]:
    """Return H shrunk to its mean eigenvalue where noise explains its spread, and the noise left.

    Linear shrinkage alone would lift a true small eigenvalue among many equal ones; so eigenvalues
    that stand beyond the spectral noise ``noise sqrt(2 r)`` keep what is beyond (``theory.md``, 3).

    Parameters
    ----------
    noise : float
        sd of the entries in svec coordinates.
    """
    r = len(H)
    tau = max(float(np.trace(H)) / r, noise, 1e-12)
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    away = values - tau
    spread = float(np.sum(away * away))
    lam = min(1.0, r * (r + 1) / 2.0 * noise**2 / spread) if spread > 0.0 else 1.0
    beyond = np.sqrt(np.maximum(away * away - 2.0 * r * noise**2, 0.0))
    size = np.maximum((1.0 - lam) * np.abs(away), beyond)
    out = (vectors * (tau + np.copysign(size, away))) @ vectors.T
    return np.asarray(out), noise * math.sqrt(max(1.0 - lam, LEAST_LEFT))


#: Least part of a row that the ball of the start is taken to leave on average.
_LEAST_MASS = 0.1


def mass_of(M: Array, constant: Array) -> float:
    """Return what the ball of the start leaves of the 1 of a row on average, ``a'M a``."""
    return max(float(constant @ M @ constant), _LEAST_MASS)


def mean_row(M: Array, constant: Array) -> Array:
    """Return the mean of u over the rows of a start; the ball shortens rows, so also their 1."""
    return np.asarray(M @ constant / mass_of(M, constant))
