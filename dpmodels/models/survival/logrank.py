"""The log-rank test on a table of cells, for any number of groups and strata (``theory.md``, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.after.regression import inverse_and_rank
from dpmodels.arrays import Array
from dpmodels.models.survival.curve import Curve
from dpmodels.models.survival.layout import Layout

#: As of a curve: fewer at risk than so many noise sds end the test.
_DETERMINED = 4.0


@dataclass(frozen=True)
class LogRank:
    """Observed and expected events by group, and the test that they agree.

    Attributes
    ----------
    N, observed, expected : (G,) arrays
        At risk from the first (or entered), events, events if all groups were alike; noisy.
    U : (G,) array
        ``observed - expected``.
    V, W : (G, G) arrays
        Its sampling covariance under the hypothesis, and that of the noise.
    """

    N: Array
    observed: Array
    expected: Array
    U: Array
    V: Array
    W: Array

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return len(self.U) - 1

    @property
    def statistic(self) -> float:
        """``U' (V + W)^{-1} U`` without the last group, whose part follows from the others."""
        total = (self.V + self.W)[:-1, :-1]
        U = self.U[:-1]
        return float(U @ inverse_and_rank(total)[0] @ U)

    @property
    def p_value(self) -> float:
        """Of the chi-square reference."""
        from scipy.special import chdtrc

        return float(chdtrc(self.df, max(self.statistic, 0.0)))


def logrank(layout: Layout, found: Sequence[Curve]) -> LogRank:
    """Return the test of equal curves within strata.

    Parameters
    ----------
    layout : Layout
    found : sequence of Curve
        Of all tabulated groups.
    """
    G = len(layout.groups)
    observed, expected, V = np.zeros(G), np.zeros(G), np.zeros((G, G))
    slopes = np.zeros((G, layout.M))
    N = np.zeros(G)
    for s in range(len(layout.stratas)):
        mine = found[s * G : (s + 1) * G]
        d, Y = np.array([c.d for c in mine]), np.array([c.Y for c in mine])
        N += [c.followed for c in mine]
        by_d, by_Y = (np.array([c.weights[i] for c in mine]) for i in (0, 2))  # (G, K, M)
        sd = np.sqrt(np.diag(mine[0].noise.covariance(by_Y.sum(axis=0))))
        all_d, all_Y = d.sum(axis=0), Y.sum(axis=0)
        bad = (all_Y <= _DETERMINED * sd) | (all_Y <= 1.0)
        k = int(np.argmax(bad)) if bad.any() else layout.K
        d, Y, all_d, all_Y = d[:, :k], Y[:, :k], all_d[:k], all_Y[:k]
        share, rate = Y / all_Y, all_d / all_Y
        observed += d.sum(axis=1)
        expected += (Y * rate).sum(axis=1)
        # ties: without the last factor V is too large by 1 - d/Y
        tied = all_d * (all_Y - all_d) / (all_Y - 1.0)
        V += np.diag(share @ tied) - (share * tied) @ share.T
        sum_d, sum_Y = by_d[:, :k].sum(axis=0), by_Y[:, :k].sum(axis=0)
        for g in range(G):
            slopes[g] += by_d[g, :k].sum(axis=0) - rate @ by_Y[g, :k] - share[g] @ sum_d
            slopes[g] += (share[g] * rate) @ sum_Y
    W = found[0].noise.covariance(slopes)
    return LogRank(N, observed, expected, observed - expected, _psd(V), _psd(W))


def _psd(V: Array) -> Array:
    """Return the nearest covariance: noise may leave a small negative eigenvalue."""
    values, vectors = np.linalg.eigh(0.5 * (V + V.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
