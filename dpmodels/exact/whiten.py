"""Whitening: Cholesky factors of public or released second moments."""

from __future__ import annotations

import numpy as np

from dpmodels.arrays import Array

__all__ = ["floored_cholesky"]


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
