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

__all__ = ["above_diagonal", "svec", "unsvec"]


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
