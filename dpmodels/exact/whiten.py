"""Whitening: Cholesky factors of public or released second moments."""

from __future__ import annotations

import numpy as np

from dpmodels.arrays import Array

__all__ = ["floored_cholesky", "turned"]


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
