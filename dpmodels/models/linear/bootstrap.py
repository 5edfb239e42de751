"""Parametric bootstrap of a moment fit, from released numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array

if TYPE_CHECKING:
    from dpmodels.models.linear.facts import Stage

__all__ = ["DRAWS", "bootstrap", "rescaled"]


#: Draws of the bootstrap.
DRAWS = 1000


def bootstrap(
    stage: Stage, d: Array, lam: float, v: float, *, seed: int, meat: Array | None = None
) -> Array:
    """Return draws of ``d* - d`` from released numbers only, (draws, p).

    ``h* = M d + N(0, v M) + e*`` (with scores ``N(0, meat)``), ``M* = M + E*``, solved with the
    same ridge; eigenvalues of M are floored at s for the simulation (Ferrando, Wang and Sheldon
    2022).
    """
    rng = np.random.default_rng(seed)
    m = stage.moments
    p = len(d)
    values, vectors = np.linalg.eigh(m.M)
    values = np.maximum(values, m.s)
    M = (vectors * values) @ vectors.T
    root = vectors * np.sqrt(v * values) if meat is None else np.linalg.cholesky(meat)
    out = np.empty((DRAWS, p))
    base = M @ d
    for b in range(DRAWS):
        E = np.triu(rng.normal(size=(p, p)) * np.sqrt(m.V))
        E = E + np.triu(E, 1).T
        h = base + root @ rng.normal(size=p) + rng.normal(size=p) * np.sqrt(m.vh)
        S = M + E
        extra = max(lam, m.spectral - float(np.linalg.eigvalsh(S)[0]), 0.0)
        out[b] = np.linalg.solve(S + extra * np.eye(p), h) - d
    return out


def rescaled(sampling: Array, privacy: Array, draws: Array) -> tuple[Array, Array]:
    """Scale both parts so that the total standard errors are those of the draws."""
    lo, hi = np.quantile(draws, [0.025, 0.975], axis=0)
    total = np.sqrt(np.diag(sampling) + np.diag(privacy))
    ratio = (hi - lo) / 2.0 / 1.959963984540054 / np.maximum(total, 1e-300)
    D = np.outer(ratio, ratio)
    return D * sampling, D * privacy
