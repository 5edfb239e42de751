"""From noisy nodes to cells: least squares over the tree and the public totals (``theory.md``, 3).

The cells of a run of intervals share one small covariance, whatever the run; the totals that are
public (of everybody, or of entries and ends of each group) take away as many directions.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.survival.layout import Layout


@dataclass(frozen=True)
class CellNoise:
    """The noise of the cells of a layout, where every released number has one variance.

    Attributes
    ----------
    layout : Layout
    sd : float
        Of the noise of every released number, in units.
    """

    layout: Layout
    sd: float

    @functools.cached_property
    def _tree(self) -> tuple[Array, Array]:
        """Return (S, L): covariance of a run's intervals over the variance, and their solver."""
        A = self.layout.sums
        S = np.linalg.inv(A.T @ A) if self.layout.levels > 1 else np.eye(self.layout.K)
        return S, S @ A.T

    @functools.cached_property
    def totals(self) -> Array:
        """Return the public sums as rows of weights: (constraints, cells)."""
        lay = self.layout
        if not lay.entries:  # everybody is in one cell
            return np.ones((1, lay.M))
        C = np.zeros((lay.G, lay.M))  # whoever enters a group leaves it
        for g in range(lay.G):
            C[g, lay.run(g, 0).start : lay.run(g, 2).stop] = C[g, lay.beyond(g)] = -1.0
            C[g, lay.run(g, 3).start : lay.run(g, 4).stop] = 1.0
        return C

    def free(self, J: Array) -> Array:
        """Return ``J V`` for weights J (r, cells), V the covariance before totals."""
        lay = self.layout
        inside = lay.G * lay.kinds * lay.K
        runs = J[:, :inside].reshape(len(J), -1, lay.K) @ self._tree[0]
        return np.concatenate([runs.reshape(len(J), inside), J[:, inside:]], axis=1) * self.sd**2

    @functools.cached_property
    def _through(self) -> tuple[Array, Array]:
        """Return (C V, (C V C')^{-1})."""
        CV = self.free(self.totals)
        return CV, np.linalg.inv(CV @ self.totals.T)

    def fit(self, noisy: Array, n: float | None) -> Array:
        """Return the least squares cells (M,) of released numbers; n: the public total."""
        lay = self.layout
        runs = lay.G * lay.kinds
        ends = np.cumsum(lay.sizes)[:-1]
        levels = np.split(noisy, ends)
        nodes = [v[: runs * lay.nodes(i)].reshape(runs, -1) for i, v in enumerate(levels)]
        cells = np.concatenate(nodes, axis=1) @ self._tree[1].T
        out = np.concatenate([cells.ravel(), levels[0][runs * lay.nodes(0) :]])
        target = np.zeros(len(self.totals)) if n is None or lay.entries else np.array([float(n)])
        CV, inverse = self._through
        return np.asarray(out + (target - self.totals @ out) @ inverse @ CV)

    def covariance(self, J: Array, other: Array | None = None) -> Array:
        """Return the noise covariance of ``J @ cells`` (and of ``other @ cells``): J V J'."""
        other = J if other is None else other
        CV, inverse = self._through
        through = (J @ CV.T) @ inverse @ (CV @ other.T)
        return np.asarray(self.free(J) @ other.T - through)
