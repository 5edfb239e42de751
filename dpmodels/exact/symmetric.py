"""Release of symmetric integer matrices in svec coordinates.

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
from dpmodels.privacy.run import Run

__all__ = ["above_diagonal", "release_symmetric", "svec", "unsvec"]


@functools.lru_cache(maxsize=32)
def above_diagonal(k: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return rows and columns of the entries i < j of a (k, k) matrix; not to be written to."""
    i, j = np.triu_indices(k, 1)
    i.flags.writeable = j.flags.writeable = False
    return i, j


def release_symmetric(
    run: Run, name: str, integers: npt.NDArray[np.object_], sensitivity: float, unit: float
) -> Array:
    """Release a symmetric integer matrix of Frobenius sensitivity ``sensitivity``.

    Parameters
    ----------
    run : Run
    name : str
        A Gaussian step of the plan.
    integers : (k, k) object array
    sensitivity : float
        Frobenius norm of the largest change, in integer units.
    unit : float
        Real size of one integer unit.

    Returns
    -------
    (k, k) array
        Symmetric: ``M + SymN(k, sensitivity * unit / mu)``.

    Privacy
    -------
    mu-GDP with the mu of the step: svec is an isometry and the query goes out once.
    """
    k = len(integers)
    upper = above_diagonal(k)
    value = np.concatenate([np.diag(integers), integers[upper]])
    weights = np.concatenate([np.ones(k), np.full(len(upper[0]), math.sqrt(2.0))])
    noisy = run.gaussian(name, value, sensitivity, weights=weights, unit=unit)
    out = np.diag(noisy[:k])
    out[upper] = noisy[k:]
    out.T[upper] = noisy[k:]
    return out


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
