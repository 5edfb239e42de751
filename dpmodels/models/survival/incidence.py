"""Cumulative incidence of competing causes from a released table: Aalen and Johansen's estimate.

Everything is a function of released cells: nothing here costs anything. With hazards
``h_jk = d_jk/Y_k`` of the causes j and survival S of all events together, the incidence is
``F_j(k) = sum_{i <= k} S_{i-1} h_ji`` (``theory.md``, 4.1).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.survival.curve import Curve
from dpmodels.models.survival.table import CellNoise, Layout


class Incidence(Curve):
    """The incidence F of one cause in one tabulated group.

    Its S is ``1 - F``, so that intervals, differences and areas are those of a survival curve;
    ``reported`` turns them into those of F.
    """

    @functools.cached_property
    def overall(self) -> Curve:
        """The curve of all events together."""
        return Curve(self.layout, self.noise, self.cells, self.group, "", self.events, self.events)

    @property
    def intervals_known(self) -> int:  # type: ignore[override]
        """Intervals before the numbers at risk sink into the noise: the curve ends there."""
        return self.overall.intervals_known

    @functools.cached_property
    def hazards(self) -> Array:
        """Hazards of all causes by known interval, (causes, k)."""
        k = self.intervals_known
        events = np.array([self.cells[self.layout.run(self.group, e)][:k] for e in self.events])
        return np.asarray(events / self.Y[:k])

    @functools.cached_property
    def F(self) -> Array:
        """Incidence at the ends of the intervals, (K,); NaN where it is not known."""
        out, k = np.full(self.layout.K, np.nan), self.intervals_known
        out[:k] = np.cumsum(self._before * self.hazards[self.cause or 0])
        return out

    @property
    def _before(self) -> Array:
        """Survival of all events before each known interval, (k,)."""
        return np.append(1.0, self.overall.S)[: self.intervals_known]

    @functools.cached_property
    def log_S(self) -> Array:
        """Log of ``1 - F`` at the ends of the intervals, (K,)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.log1p(-self.F))

    @functools.cached_property
    def slopes(self) -> Array:
        """Derivative of F at the end of each known interval by each hazard, (k, causes, k).

        That by h_li is ``S_{i-1} 1{l = j} - (F_j(t) - F_j(i))/(1 - h_i)`` for i <= t, else 0.
        """
        k, F = self.intervals_known, self.F[: self.intervals_known]
        later = np.tril(np.subtract.outer(F, F) / (1.0 - self.hazards.sum(axis=0)))
        out = np.repeat(-later[:, None, :], len(self.hazards), axis=1)
        out[:, self.cause or 0] += np.tril(np.broadcast_to(self._before, (k, k)))
        return out

    @functools.cached_property
    def J(self) -> Array:
        """Jacobian of ``log(1 - F)`` by the cells of the table, (K, M); 0 where it is not known."""
        k, by_Y = self.intervals_known, self.slopes / self.Y[: self.intervals_known]
        out = np.zeros((self.layout.K, self.layout.M))
        out[:k] = -np.einsum("tli,li->ti", by_Y, self.hazards) @ self.weights[2][:k]
        for cause, kind in enumerate(self.events):
            first = self.layout.run(self.group, kind).start
            out[:k, first : first + k] += by_Y[:, cause]
        out[:k] /= self.F[:k, None] - 1.0
        return out

    def sampling(self, other: Curve) -> Array:
        """Return the sampling covariance of ``log(1 - F)`` with that of another cause, (K, K).

        Events of an interval are multinomial given those at risk; and where entries are within it,
        as in Greenwood's variance of a survival curve.
        """
        assert isinstance(other, Incidence)
        k = self.intervals_known
        h, Y = np.maximum(self.hazards, 0.0), self.Y[:k]
        a, b = (np.einsum("tli,li->ti", c.slopes, h) for c in (self, other))
        V = np.einsum("tli,li,uli->tu", self.slopes, h / Y, other.slopes, optimize=True)
        V -= (a / Y) @ b.T
        if self.layout.entries:
            within = np.maximum(self.cells[self.layout.run(self.group, 3)][:k], 0.0)
            V += (a * (within / Y) ** 2) @ b.T / 12.0
        out = np.full((self.layout.K, self.layout.K), np.nan)
        out[:k, :k] = V / np.outer(1.0 - self.F[:k], 1.0 - other.F[:k])
        return out

    @functools.cached_property
    def greenwood(self) -> Array:
        """Sampling variance of ``log(1 - F)``, (K,)."""
        return np.asarray(np.maximum(np.diag(self.sampling(self)), 0.0))

    def reported(self, value: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        """Return F and the ends of its intervals for those of ``1 - F``."""
        return 1.0 - value, 1.0 - high, 1.0 - low

    def at(self, t: float, *, after: bool = False) -> Array:
        """Return the weights of ``(1, 1 - F)`` whose sum is the incidence at t."""
        w = super().at(t, after=after)
        return np.append(1.0 - w[0], -w[1:])

    def up_to(self, tau: float) -> Array:
        """Return the weights of ``(1, 1 - F)`` whose sum is the mean time lost to the cause."""
        w = super().up_to(tau)
        return np.append(tau - self.layout.edges[0] - w[0], -w[1:])


def incidences(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Incidence, ...]:
    """Return the incidences of all causes with a label, in all groups, the cause fastest."""
    events = (0, *range(layout.kinds - len(layout.causes[1:]), layout.kinds))
    return tuple(
        Incidence(
            layout, noise, cells, g, ", ".join(filter(None, (label, name))), (events[j],), events, j
        )
        for g, label in enumerate(layout.labels)
        for j, name in enumerate(layout.causes)
        if name
    )


Curve.of_causes = staticmethod(incidences)
