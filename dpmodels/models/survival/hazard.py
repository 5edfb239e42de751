"""Proportional hazards as a local expansion: a person's own follow-up, cell by cell of time.

With a released hazard by cell (an offset) and terms 1, t, t^2 of time the likelihood is that of
person-period Poisson counts. For a row with constant x no period rows are made: what its cells add
up to are tables of the cell in which it ends (``theory.md``, 7).

Follow-up is *stopped* where the expected length of the score is used up: by x, time at risk that
was possible, and released numbers, never by what happened, so that scores keep mean zero and none
has to be clipped (``theory.md``, 8).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.models.survival.table import separate_episodes
from dpmodels.scoring.clip import first_clip
from dpmodels.scoring.models import State
from dpmodels.scoring.unit_passes import Expanded, Expansion, Local, in_u, predictor
from dpmodels.sums.products import mapped, squares

if TYPE_CHECKING:
    from dpmodels.formula.design import Survival
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.sources.people import BlockOfPeople

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

#: Terms of time in every stratum: 1, t, t^2.
_Q = 3
#: Least share of the events that a cell counts as having, in the basis of time.
_LEAST_EVENTS = 0.02
#: Largest linear predictor: beyond, exponentials have no use.
_MOST_PREDICTOR = 30.0
#: Expected events from which on their part of a cell is not one half.
_FEW_EXPECTED = 1e-4
#: A person's expected lengths are added up in steps of this, integers.
_GRAIN = 2.0**-30


def q_terms(stratas: int) -> int:
    """Return the number of time terms in addition to the intercept of the design."""
    return _Q * stratas - 1


@dataclass(frozen=True, eq=False)
class Timeline:
    """Cells of time, with a released hazard in each stratum: public and released numbers."""

    edges: Array  # (K + 1,)
    rates: Array  # (S, K): hazard per unit of time, by stratum
    events: Array  # (S, K): released events, by stratum
    # (S, K): factors from the rates to the unsmoothed hazards that survival is computed from. None
    # if survival is computed from the rates.
    factors: Array | None = None
    # (S, K, K): covariance of the logs of the factors, noise included, after projection on what the
    # time terms leave. None if there are no factors.
    spread: Array | None = None
    # (S, K): part of a cell for which units with an event in it are at risk, by Efron, where times
    # are declared to be whole numbers. None: the part that the unit's own hazard lets expect.
    parts: Array | None = None

    @property
    def K(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    @functools.cached_property
    def terms(self) -> Array:
        """The terms 1, t, t^2 of the cells, (S, 3, K).

        Orthonormal under the released events of the stratum, so that each has the information of
        the intercept: by itself t^2 would have a tenth of it, and noise would rule its direction.
        """
        t = (self.edges[1:] + self.edges[:-1]) / 2.0
        t = (t - t[0]) / max(float(t[-1] - t[0]), 1e-300)
        out = []
        for events in self.events:
            total = max(float(np.sum(np.maximum(events, 0.0))), 1.0)
            share = np.maximum(events, 0.0) + _LEAST_EVENTS * total
            share = share / share.sum()
            basis = [np.ones_like(t)]
            for power in (t, t * t):
                remainder = power - sum(float(share @ (power * b)) * b for b in basis)
                size = math.sqrt(float(share @ (remainder * remainder)))
                basis.append(remainder / size if size > 1e-9 else np.zeros_like(t))
            out.append(np.array(basis))
        return np.array(out)

    @functools.cached_property
    def products(self) -> Array:
        """The lower triangle of ``b b'`` of every cell, (S, 6, K)."""
        b = self.terms
        return np.stack([b[:, i] * b[:, j] for i in range(_Q) for j in range(i + 1)], axis=1)

    def slots(self, stratum: int, first: int) -> list[tuple[int, int]]:
        """Return (term, index in theta) of the time terms of a stratum but for the first 1.

        ``first`` is the index of the first time term: after the columns.
        """
        if stratum == 0:
            return [(1, first), (2, first + 1)]
        at = first + _Q * stratum - 1
        return [(0, at), (1, at + 1), (2, at + 2)]

    def gamma(self, theta: Array, first: int) -> Array:
        """Return the coefficients of 1, t, t^2 by stratum, (S, 3), the intercept left out."""
        out = np.zeros((len(self.rates), _Q))
        for s in range(len(self.rates)):
            for term, at in self.slots(s, first):
                out[s, term] = theta[at]
        return out

    def hazards(self, theta: Array, first: int) -> Array:
        """Return the baseline hazard of every cell at theta, (S, K)."""
        power = np.einsum("sq,sqk->sk", self.gamma(theta, first), self.terms)
        power = np.clip(power, -_MOST_PREDICTOR, _MOST_PREDICTOR)
        return np.asarray(self.rates * np.exp(power))


@dataclass(frozen=True, eq=False)
class Hazard(Expansion):
    """Proportional hazards, initialised."""

    coordinates: Coordinates
    where: Survival  # Rows of the block that hold the follow-up
    timeline: Timeline
    rate: float  # Released events a unit
    people: bool  # Units are people, each with its episodes
    rate_sd: float = 0.0  # Noise sd of the rate

    stops: ClassVar[bool] = True

    def at(self, state: State, clip: float = math.inf) -> Local:
        """Return follow-up at a fit, stopped where the score would be longer than ``clip``."""
        return FollowedUp(self, state.theta, state.W, clip)

    def events(self, H: Array) -> float:
        """Return the released number of events per unit."""
        return self.rate

    def clip(self, p: int, mu_score: float, N: float, square: float) -> float:
        """Return C_0: nothing is clipped by it, so no bias is to be weighed."""
        return first_clip(p, mu_score, N, square)

    def typical_long(self, state: State) -> float:
        """Return the root mean square length of the score of an event, ``sqrt(r / rate)``.

        W whitens the information of a unit, ``rate E z z'`` over the events (z: predictors and
        time terms). A shorter C would clip events alone, and so lower the hazard. A rate below its
        noise counts as that.
        """
        return math.sqrt(len(state.W) / min(max(self.rate, self.rate_sd), 1.0))


@dataclass(frozen=True, eq=False)
class FollowedUp:
    """Scores and information of units, from their follow-up, at released coefficients."""

    model: Hazard
    theta: Array  # (r,): coefficients of the columns, then of the time terms
    W: Array  # (r, r): whitening of scores
    clip: float  # C: largest expected length of a score, inf if follow-up is not stopped

    @functools.cached_property
    def _hazards(self) -> Array:
        """Return the hazards of the cells, (S, K)."""
        return self.model.timeline.hazards(self.theta, len(self.model.coordinates.W0))

    @functools.cached_property
    def _tables(self) -> tuple[Array, Array]:
        """Tables (9, S K) of two integrals of the baseline hazard h, with terms b = (1, t, t^2).

        Rows 0 to 2 are A1, the integral of ``h b``, and rows 3 to 8 are A2, that of the lower
        triangle of ``h b b'``. The first table holds the integral up to the beginning of each cell,
        the second its increase per unit of time within the cell. One column per cell, stratum after
        stratum.
        """
        line = self.model.timeline
        terms = np.concatenate([line.terms, line.products], axis=1)
        each = self._hazards[:, None, :] * terms
        summed = np.cumsum(each * np.diff(line.edges), axis=2)
        before = np.concatenate([np.zeros((*summed.shape[:2], 1)), summed[:, :, :-1]], axis=2)

        def flat(table: Array) -> Array:
            return np.ascontiguousarray(table.transpose(1, 0, 2).reshape(table.shape[1], -1))

        return flat(before), flat(each)

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the score of each row, and its information as a sum of 3 products ``v v'``."""
        model, line = self.model, self.model.timeline
        rows, where = block.rows, model.where
        u = in_u(self.model.coordinates, rows)
        low, high = float(line.edges[0]), float(line.edges[-1])
        T = rows[where.time]
        start = np.full_like(T, low) if where.start is None else rows[where.start]
        late = where.start is not None
        counted = np.isfinite(u.sum(axis=0)) & (start < high)
        counted &= (start < T) if late else (start <= T)  # an event at the beginning counts
        if model.people and late:
            counted = counted & self._counted_episodes(
                block, start, T, counted, self._bytes(block, u)
            )
        u = np.where(counted, u, 0.0)
        T, start = np.where(counted, T, low), np.where(counted, start, low)
        D = np.where(counted & (high >= T), rows[where.event], 0.0)
        T = np.clip(T, low, high)
        start = np.clip(start, low, high)
        stratum = np.zeros(len(T), dtype=np.intp)
        if where.strata is not None:
            stratum = np.where(counted, rows[where.strata], 0.0).astype(np.intp)
        eta = predictor(self.theta[: len(u)], u)
        risk = np.where(counted, np.exp(np.clip(eta, -_MOST_PREDICTOR, _MOST_PREDICTOR)), 0.0)
        T = np.where(D == 1.0, self._event_time(risk, stratum, start, T), T)
        weight = np.ones(len(T))
        if math.isfinite(self.clip):
            weight, T, D = self._stopped(block, u, risk, stratum, start, T, D, counted)
        return self._summed(block, u, risk, weight, stratum, start, T, D)

    def _bytes(self, block: BlockOfPeople, u: Array) -> tuple[Array, ...]:
        """Return the columns that decide the order of a person's rows with the same times.

        Rows that agree in all of them are the same row twice, so their order does not matter.
        """
        where = self.model.where
        strata = () if where.strata is None else (block.rows[where.strata],)
        return (*u, *strata, block.rows[where.event], block.rows[where.time])

    @staticmethod
    def _counted_episodes(
        block: BlockOfPeople, start: Array, T: Array, counted: Array, ties: tuple[Array, ...]
    ) -> Array:
        """Return the mask of rows that count: of a person's overlapping episodes the earliest."""
        person = np.repeat(np.arange(len(block.counts)), block.counts)
        order = np.lexsort((*ties, T, start, person))
        order = order[counted[order]]
        keep = np.zeros(len(T), dtype=bool)
        keep[order[separate_episodes(person[order], start[order], T[order])]] = True
        return keep

    def _cell(self, T: Array) -> Index:
        """Return the index of the cell (a, b] that contains each time, 0 for the first edge."""
        line = self.model.timeline
        return np.clip(np.searchsorted(line.edges, T, side="left") - 1, 0, line.K - 1)

    def _event_time(self, risk: Array, stratum: Index, start: Array, T: Array) -> Array:
        """Return until when rows with an event at T are at risk, in the cell of T.

        Where in its cell an event happens is not used, so that times on a grid may lie anywhere in
        the cells. The part of the cell is Efron's, or ``1/m - 1/(e^m - 1)``: what is expected of a
        row that has its event within an expected number m of events (``theory.md``, 7).
        """
        line = self.model.timeline
        cell = self._cell(T)
        begin, end = np.maximum(line.edges[cell], start), line.edges[cell + 1]
        if line.parts is not None:
            part = line.parts[stratum, cell]
        else:
            m = risk * self._hazards[stratum, cell] * (end - begin)
            m = np.clip(m, _FEW_EXPECTED, _MOST_PREDICTOR)
            part = 1.0 / m - 1.0 / np.expm1(m)
        return np.where(line.edges[0] < T, begin + part * (end - begin), T)

    def _integral_up_to(self, terms: slice, stratum: Index, T: Array, cell: Index) -> Array:
        """Return the baseline integrals A1, A2 up to time T of m rows, (terms, m).

        ``terms`` selects rows of :attr:`_tables`. ``cell`` is the cell that contains T: the
        integral over the cells before it, plus the part of it before T.
        """
        before, rate = self._tables
        line = self.model.timeline
        at = stratum * line.K + cell
        out = np.take(rate[terms], at, axis=1)
        out *= T - line.edges[cell]
        out += np.take(before[terms], at, axis=1)
        return out

    def _summed(
        self, block: BlockOfPeople, u: Array, risk: Array, weight: Array, stratum: Index,
        start: Array, T: Array, D: Array,
    ) -> Expanded:  # fmt: skip
        """Return whitened scores ``z (D - risk A1)`` and information ``P A2 P' risk`` of m rows.

        ``D``: whether the row ends with an event. ``risk``: its hazard ratio e^(linear predictor).
        """
        line, first = self.model.timeline, len(u)
        r, m = len(self.theta), len(T)
        cell = self._cell(T)
        late = self.model.where.start is not None
        begun = self._cell(start) if late else cell
        at_risk = np.where(start < T, risk, 0.0)

        def followed(terms: slice) -> Array:
            """Return each row's integrals A1 or A2 from its start to T, times its risk."""
            out = self._integral_up_to(terms, stratum, T, cell)
            if late:  # otherwise every row starts at the first edge, where the integrals are 0
                out -= self._integral_up_to(terms, stratum, start, begun)
            out *= at_risk
            return out

        events = np.take(np.concatenate(list(line.terms), axis=1), stratum * line.K + cell, axis=1)
        residual = (events * D - followed(slice(_Q))) * weight
        score = np.zeros((r, m))
        score[:first] = u * residual[0]
        for of_stratum, term, at in self._of_stratum(stratum, first):
            score[at] = residual[term] * of_stratum

        def information() -> Array:
            root = np.sqrt(weight)
            L = [part * root for part in _lower_root(followed(slice(_Q, None)))]
            v = np.zeros((r, m, _Q))
            v[:first, :, 0] = u * L[0]  # the intercept of the row carries its columns
            for of_stratum, term, at in self._of_stratum(stratum, first):
                for column in range(term + 1):
                    v[at, :, column] = L[term * (term + 1) // 2 + column] * of_stratum
            return mapped(self.W, v.reshape(r, m * _Q))

        return Expanded(mapped(self.W, score), block.counts, information, block.counts * _Q)

    def _of_stratum(self, stratum: Index, first: int) -> Iterator[tuple[Array | float, int, int]]:
        """Yield (mask of the rows of its stratum, term, index in theta) of every time term."""
        line = self.model.timeline
        for s in range(len(line.rates)):
            of_stratum = 1.0 if len(line.rates) == 1 else (stratum == s).astype(float)
            for term, at in line.slots(s, first):
                yield of_stratum, term, at

    def _stopped(
        self, block: BlockOfPeople, u: Array, risk: Array, stratum: Index, start: Array, T: Array,
        D: Array, counted: Array,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Return (weights, T, D) of m rows whose follow-up is stopped at expected length C.

        A row has the weight
        ``w = min(1, C / |W z|)``, z of its first cell. Over a person's rows in order, follow-up
        goes up to the last cell k with ``sum_{j <= k} |W z_j| w m_j <= C`` and no
        ``|W z_j| w > C``. m_j is the expected number of events of the *whole* cell j, because the
        time lived in it is an outcome. Later time, and its event, are left out.
        """
        line, C = self.model.timeline, self.clip
        length = np.sqrt(self._squares(u, stratum))
        inside = np.arange(line.K)[:, None]
        at_risk_in = inside <= np.where(counted, self._cell(T), -1)
        entry = length[0]
        if self.model.where.start is not None:
            begun = self._cell(start)
            # a row begins in the cell after the one that ends at its start
            after = (start >= line.edges[begun + 1]) & (start > line.edges[0])
            begun = np.where(after, begun + 1, begun)
            at_risk_in &= inside >= begun
            entry = np.take_along_axis(length, begun[None, :], axis=0)[0]
        weight = np.minimum(1.0, C / np.maximum(entry, 1e-300))
        width = np.diff(line.edges)[:, None]
        of_cells = np.ascontiguousarray((self._hazards * width.T).T)  # (K, S)
        mass = length * (weight * risk)  # (K, m): mass of whole cells
        mass *= of_cells if len(line.rates) == 1 else np.take(of_cells, stratum, axis=1)
        length *= weight
        mass[length > C * (1.0 + 1e-9)] = np.inf
        steps = np.where(at_risk_in, np.ceil(np.minimum(mass * (1.0 / _GRAIN), 2.0**40)), 0.0)
        total = steps.sum(axis=0)
        before = self._before(block, total, start, self._bytes(block, u))
        # the first cell that is not used; K: all are, as of most
        last = np.full(len(T), line.K)
        long = np.flatnonzero(before + total > C / _GRAIN)
        over = before[long] + np.cumsum(steps[:, long], axis=0) > C / _GRAIN
        last[long] = np.argmax(over, axis=0)
        stop = np.maximum(line.edges[last], start)
        return weight, np.minimum(T, stop), np.where(stop >= T, D, 0.0)

    def _squares(self, u: Array, stratum: Index) -> Array:
        """Return the squared whitened length ``|W z_j|^2`` of m rows in each cell j, (K, m).

        It is ``|w|^2 + 2 g_j'w + |g_j|^2``, with w the whitened columns of a row and g_j the
        whitened time terms of cell j.
        """
        line, first = self.model.timeline, len(u)
        w = mapped(np.ascontiguousarray(self.W[:, :first]), u)
        out = np.zeros((line.K, u.shape[1]))
        for s in range(len(line.rates)):
            G = np.zeros((len(self.W), line.K))
            for term, at in line.slots(s, first):
                G += self.W[:, at][:, None] * line.terms[s, term]
            lengths = mapped(np.ascontiguousarray(2.0 * G.T), w)
            lengths += np.sum(G * G, axis=0)[:, None]
            out = lengths if len(line.rates) == 1 else np.where(stratum == s, lengths, out)
        return np.maximum(out + squares(w), 0.0)

    def _before(
        self, block: BlockOfPeople, steps: Array, start: Array, ties: tuple[Array, ...]
    ) -> Array:
        """Return the expected length that a person's earlier rows used up, (m,), in grains.

        ``steps`` (m,): expected length of each row, in the same integers (``_GRAIN``).
        """
        if len(block.counts) == len(steps):
            return np.zeros(len(steps))
        person = np.repeat(np.arange(len(block.counts)), block.counts)
        order = np.lexsort((*ties, steps, start, person))
        ordered = steps[order]
        up_to = np.cumsum(ordered.astype(np.int64)) - ordered.astype(np.int64)
        first = np.cumsum(block.counts) - block.counts
        out = np.empty(len(steps))
        out[order] = (up_to - np.repeat(up_to[first], block.counts)).astype(float)
        return out


def _lower_root(a: Array) -> list[Array]:
    """Return the lower triangle L of ``A = L L'``, row by row, of 3 by 3 matrices.

    ``a`` (6, m): lower triangles 00, 10, 11, 20, 21, 22, positive semidefinite but for rounding.
    """

    def root(x: Array, size: Array) -> Array:
        return np.sqrt(np.where(x > 1e-12 * size, x, 0.0))

    def over(x: Array, y: Array) -> Array:
        return np.divide(x, y, out=np.zeros_like(x), where=y > 0.0)

    l00 = root(a[0], a[0])
    l10, l20 = over(a[1], l00), over(a[3], l00)
    l11 = root(a[2] - l10 * l10, a[2])
    l21 = over(a[4] - l20 * l10, l11)
    l22 = root(a[5] - l20 * l20 - l21 * l21, a[5])
    return [l00, l10, l11, l20, l21, l22]
