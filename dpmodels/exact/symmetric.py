"""Symmetric matrices in svec coordinates.

``svec(M) = (diagonal, sqrt(2) * strict upper triangle)`` is an isometry: its L2 norm is the
Frobenius norm. Independent noise of one sd in svec coordinates is noise of sd ``s`` on the
diagonal and of *variance* ``s^2 / 2`` off it, drawn once per pair i < j.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array


@functools.lru_cache(maxsize=32)
def above_diagonal(k: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return rows and columns of the entries i < j of a (k, k) matrix; not to be written to."""
    i, j = np.triu_indices(k, 1)
    i.flags.writeable = j.flags.writeable = False
    return i, j


def svec(M: Array) -> Array:
    """Return (diagonal, sqrt(2) strict upper triangle): an isometry of the Frobenius norm."""
    upper = above_diagonal(len(M))
    return np.concatenate([np.diag(M), math.sqrt(2.0) * M[upper]])


def unsvec(v: Array, p: int) -> Array:
    """Return the symmetric matrix of :func:`svec`."""
    upper = above_diagonal(p)
    out = np.diag(v[:p])
    out[upper] = out.T[upper] = v[p:] / math.sqrt(2.0)
    return out


# -- Whitening: Cholesky factors of public or released second moments


def floored_cholesky(C: Array, noise: float, *, multiple: float, least: float) -> Array:
    """Return the Cholesky factor of a released matrix per row, made safe from its noise.

    Eigenvalues are floored at ``max(multiple * noise, least)`` where the smallest is below that;
    ``noise`` is the typical spectral norm of the noise, ``s sqrt(2q)/n``.
    """
    values, vectors = np.linalg.eigh((C + C.T) / 2.0)
    floor = max(multiple * noise, least)
    if values[0] < floor:
        C = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray(np.linalg.cholesky((C + C.T) / 2.0))


def turned(L: Array, column: int) -> Array:
    """Return another root of ``L L'``, after which one column of a row is in one coordinate alone.

    ``L O'``, O the reflection that takes ``L^{-1} e`` (the image of that column) to the last axis.
    Balls, sensitivities and the noise of a Gaussian release do not depend on the root.
    """
    image = np.linalg.solve(L, np.eye(len(L))[column])
    size = float(np.linalg.norm(image))
    if np.abs(image[:-1]).max(initial=0.0) <= 1e-12 * size:
        return L
    axis = image.copy()
    axis[-1] += size if image[-1] >= 0.0 else -size
    return np.asarray(L - np.outer(L @ axis, 2.0 * axis / float(axis @ axis)))


# -- Bounds of least squares near a well-conditioned design (``models/linear/eptr.md``)


def ls_bound(rx: float, ry: float, rho: float) -> float:
    """Return B(rho) = max_t [2 R_x R_y cos t + R_x^2 rho sin 2t].

    If one row is replaced, rows bounded by ``|x| <= R_x``, ``|y| <= R_y``, then
    ``|theta' - theta| <= B(|theta|) / lambda_min'``.

    Parameters
    ----------
    rx, ry : float
        Row bounds.
    rho : float
        Bound on the norm of the coefficient vector; 0 gives ``2 R_x R_y``.
    """
    if rho == 0:
        return 2.0 * rx * ry
    k = ry / (rx * rho)
    # (-k + sqrt(k^2 + 8)) / 4, in the form that does not cancel for large k.
    s = 2.0 / (k + math.sqrt(k * k + 8.0))
    c = math.sqrt(1.0 - s * s)
    return rx * rx * rho * (2.0 * k * c + 2.0 * s * c)


def float_allowance(p: int, n: int) -> float:
    """Return the relative allowance for float eigenvalues and solves, and for rounding to a grid.

    2^-20 pays for the public grid of the release; 32 p^2 n 2^-53 covers backward errors of the
    eigenvalue routine and of the solve (the constant 32 is a conjecture, about ten times what a
    search over random and graded matrices showed).
    """
    return 2.0**-20 + 32.0 * p * p * n * 2.0**-53


# -- Quantiles that radius rules use; ``scipy.special`` only, loaded on first use


def chi2_upper(k: float, p: float) -> float:
    """Return q with P(chi-square_k > q) = p."""
    from scipy.special import chdtri

    return float(chdtri(k, p))


def f_upper(a: float, b: float, p: float) -> float:
    """Return q with P(F_{a, b} > q) = p."""
    from scipy.special import fdtri

    # fdtri inverts the lower tail; for tiny p swap the degrees of freedom instead of forming 1-p
    return 1.0 / float(fdtri(b, a, p))
