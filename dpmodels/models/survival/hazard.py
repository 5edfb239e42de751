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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import (
    Rows,
    clip,
    column_at,
    complete,
    entry,
    linear,
    only_where,
    stack,
    total,
    used_up,
    where,
)
from dpmodels.core.units import Scores, UnitFormula
from dpmodels.formula.design import Survival
from dpmodels.scoring.clip import first_clip
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.models import State
from dpmodels.scoring.unit_passes import Expansion, in_u, predictor

#: Terms of time in every stratum: 1, t, t^2.
TIME_TERMS = 3
#: Least share of the events that a cell counts as having, in the basis of time.
_LEAST_EVENTS = 0.02
#: Largest linear predictor: beyond, exponentials have no use.
_MOST_PREDICTOR = 30.0
#: Expected events from which on their part of a cell is not one half.
_FEW_EXPECTED = 1e-4
#: A person's expected lengths are added up in steps of this, integers.
_GRAIN = 2.0**-30


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

    def slots(self, stratum: int, first: int) -> list[tuple[int, int]]:
        """Return (term, index in theta) of the time terms of a stratum but for the first 1.

        ``first`` is the index of the first time term: after the columns.
        """
        if stratum == 0:
            return [(1, first), (2, first + 1)]
        at = first + TIME_TERMS * stratum - 1
        return [(0, at), (1, at + 1), (2, at + 2)]

    def hazards(self, theta: Array, first: int) -> Array:
        """Return the baseline hazard of every cell at theta, (S, K)."""
        # of 1, t, t^2 by stratum, the intercept left out
        gamma = np.zeros((len(self.rates), TIME_TERMS))
        for s in range(len(gamma)):
            for term, at in self.slots(s, first):
                gamma[s, term] = theta[at]
        power = np.einsum("sq,sqk->sk", gamma, self.terms)
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

    def at(self, state: State, clip: float = math.inf) -> UnitFormula:
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
        b = line.terms.transpose(1, 0, 2)
        triangle = [b[i] * b[j] for i in range(TIME_TERMS) for j in range(i + 1)]
        terms = np.stack([*b, *triangle], axis=1)
        each = self._hazards[:, None, :] * terms
        summed = np.cumsum(each * np.diff(line.edges), axis=2)
        before = np.concatenate([np.zeros((*summed.shape[:2], 1)), summed[:, :, :-1]], axis=2)

        return (  # one column per cell, stratum after stratum
            np.ascontiguousarray(before.transpose(1, 0, 2).reshape(before.shape[1], -1)),
            np.ascontiguousarray(each.transpose(1, 0, 2).reshape(each.shape[1], -1)),
        )

    def __call__(self, rows: Rows, person: OwnRows) -> Scores:
        """Return the score of each row, and its information as a sum of 3 products ``v v'``."""
        model, line = self.model, self.model.timeline
        places, late = model.where, model.where.start is not None
        u = in_u(self.model.coordinates, rows)
        low, high = float(line.edges[0]), float(line.edges[-1])
        T: Any = rows[places.time]
        start: Any = np.full_like(T, low) if places.start is None else rows[places.start]
        # The order of a person's rows with the same times. Rows that agree in all of it are the
        # same row twice.
        strata = () if places.strata is None else (rows[places.strata],)
        order = (T, rows[places.event], *strata, u)
        # an event at the beginning counts
        counted = complete(u) & (start < high) & ((start < T) if late else (start <= T))
        if model.people and late:
            counted = counted & person.separate(start, T, counted, *order)
        u = only_where(u, counted)
        T, start = where(counted, T, low), where(counted, start, low)
        D = where(counted & (high >= T), rows[places.event], 0.0)
        T, start = clip(T, low, high), clip(start, low, high)
        stratum = only_where(T if places.strata is None else rows[places.strata], counted)
        stratum = (stratum * (places.strata is not None)).astype(np.intp)
        eta = predictor(self.theta[: len(u)], u)
        risk = where(counted, np.exp(clip(eta, -_MOST_PREDICTOR, _MOST_PREDICTOR)), 0.0)
        T = where(D == 1.0, self._event_time(risk, stratum, start, T), T)
        weight: Any = np.ones_like(T)
        if math.isfinite(self.clip):
            weight, T, D = self._stopped(person, order, u, risk, stratum, start, T, D, counted)
        return self._summed(u, risk, weight, stratum, start, T, D)

    def _cell(self, T: Rows) -> Rows:
        """Return the index of the cell (a, b] that contains each time, 0 for the first edge."""
        line = self.model.timeline
        return clip(np.searchsorted(line.edges, T, "left") - 1, 0, line.K - 1)

    def _event_time(self, risk: Rows, stratum: Rows, start: Rows, T: Rows) -> Rows:
        """Return until when rows with an event at T are at risk, in the cell of T.

        Where in its cell an event happens is not used, so that times on a grid may lie anywhere in
        the cells. The part of the cell is Efron's, or ``1/m - 1/(e^m - 1)``: what is expected of a
        row that has its event within an expected number m of events (``theory.md``, 7).
        """
        line = self.model.timeline
        cell = self._cell(T)
        at = stratum * line.K + cell
        begin, end = np.maximum(entry(line.edges, cell), start), entry(line.edges, cell + 1)
        if line.parts is not None:
            part = entry(line.parts.ravel(), at)
        else:
            m = risk * entry(self._hazards.ravel(), at) * (end - begin)
            m = clip(m, _FEW_EXPECTED, _MOST_PREDICTOR)
            part = 1.0 / m - 1.0 / np.expm1(m)
        return where(line.edges[0] < T, begin + part * (end - begin), T)

    def _integral_up_to(self, terms: slice, stratum: Rows, T: Rows, cell: Rows) -> Rows:
        """Return the baseline integrals A1, A2 up to time T of each row.

        ``terms`` selects rows of :attr:`_tables`. ``cell`` is the cell that contains T: the
        integral over the cells before it, plus the part of it before T.
        """
        before, rate = self._tables
        line = self.model.timeline
        at = stratum * line.K + cell
        within = entry(rate[terms], at) * (T - entry(line.edges, cell))
        return within + entry(before[terms], at)

    def _summed(
        self, u: Rows, risk: Rows, weight: Rows, stratum: Rows, start: Rows, T: Rows, D: Rows
    ) -> Scores:
        """Return whitened scores ``z (D - risk A1)`` and information ``P A2 P' risk`` of rows.

        ``D``: whether the row ends with an event. ``risk``: its hazard ratio e^(linear predictor).
        """
        line = self.model.timeline
        cell = self._cell(T)
        late = self.model.where.start is not None
        begun = self._cell(start) if late else cell
        at_risk = where(start < T, risk, 0.0)
        many = len(line.rates)
        strata: list[tuple[Any, int]] = [  # (1 in rows of its stratum, else 0; term), as in theta
            (1.0 if many == 1 else (stratum == s) * 1.0, term)
            for s in range(many) for term, _ in line.slots(s, 0)
        ]  # fmt: skip

        def followed(terms: slice) -> Rows:
            """Return each row's integrals A1 or A2 from its start to T, times its risk."""
            out = self._integral_up_to(terms, stratum, T, cell)
            if late:  # otherwise every row starts at the first edge, where the integrals are 0
                out = out - self._integral_up_to(terms, stratum, start, begun)
            return out * at_risk

        events = entry(np.concatenate(list(line.terms), axis=1), stratum * line.K + cell)
        residual = (events * D - followed(slice(TIME_TERMS))) * weight
        by_time = [residual[term] * mine for mine, term in strata]

        def information() -> tuple[Rows, ...]:
            root = np.sqrt(weight)
            L = [part * root for part in _lower_root(followed(slice(TIME_TERMS, None)))]
            of_time = np.ascontiguousarray(self.W[:, len(u) :])
            parts = []
            for column in range(TIME_TERMS):
                of_terms: list[Any] = [
                    L[term * (term + 1) // 2 + column] * mine
                    if column <= term else np.zeros_like(root)
                    for mine, term in strata
                ]  # fmt: skip
                if column:
                    parts.append(linear(of_time, stack(*of_terms)))
                else:  # the intercept of the row carries its columns
                    parts.append(linear(self.W, stack(u * L[0], *of_terms)))
            return tuple(parts)

        return Scores(linear(self.W, stack(u * residual[0], *by_time)), information)

    def _stopped(
        self, person: OwnRows, order: tuple[Rows, ...], u: Rows, risk: Rows, stratum: Rows,
        start: Rows, T: Rows, D: Rows, counted: Rows,
    ) -> tuple[Rows, Rows, Rows]:  # fmt: skip
        """Return (weights, T, D) of rows whose follow-up is stopped at expected length C.

        A row has the weight
        ``w = min(1, C / |W z|)``, z of its first cell. Over a person's rows in order, follow-up
        goes up to the last cell k with ``sum_{j <= k} |W z_j| w m_j <= C`` and no
        ``|W z_j| w > C``. m_j is the expected number of events of the *whole* cell j, because the
        time lived in it is an outcome. Later time, and its event, are left out.
        """
        line, C = self.model.timeline, self.clip
        size: Any = np.sqrt(self._squares(u, stratum))
        inside = np.arange(line.K)
        at_risk_in, first = inside <= where(counted, self._cell(T), -1), size[0]
        if self.model.where.start is not None:
            begun = self._cell(start)
            # a row begins in the cell after the one that ends at its start
            after = (start >= entry(line.edges, begun + 1)) & (start > line.edges[0])
            begun = where(after, begun + 1, begun)
            at_risk_in = at_risk_in & (inside >= begun)
            first = column_at(size, begun)
        weight = np.minimum(1.0, C / np.maximum(first, 1e-300))
        of_cells = (self._hazards * np.diff(line.edges)).T  # (K, S)
        mass = size * (weight * risk)  # of whole cells, K numbers
        mass = mass * (of_cells[:, 0] if len(line.rates) == 1 else entry(of_cells, stratum))
        mass = where(size * weight > C * (1.0 + 1e-9), np.inf, mass)
        steps = where(at_risk_in, np.ceil(np.minimum(mass * (1.0 / _GRAIN), 2.0**40)), 0.0)
        used = total(steps)
        # the first cell that is not used; K: all are, as of most
        last = used_up(steps, person.before(used, start, used, *order), C / _GRAIN)
        stop = np.maximum(entry(line.edges, last), start)
        return weight, np.minimum(T, stop), where(stop >= T, D, 0.0)

    def _squares(self, u: Rows, stratum: Rows) -> Rows:
        """Return the squared whitened length ``|W z_j|^2`` of a row in each cell j, K numbers.

        It is ``|w|^2 + 2 g_j'w + |g_j|^2``, with w the whitened columns of a row and g_j the
        whitened time terms of cell j.
        """
        line, first = self.model.timeline, len(u)
        w: Rows = linear(np.ascontiguousarray(self.W[:, :first]), u)
        out: Any = None
        for s in range(len(line.rates)):
            G = np.zeros((len(self.W), line.K))
            for term, at in line.slots(s, first):
                G += self.W[:, at][:, None] * line.terms[s, term]
            of_cells = linear(np.ascontiguousarray(2.0 * G.T), w) + np.sum(G * G, axis=0)
            out = of_cells if out is None else where(stratum == s, of_cells, out)
        return np.maximum(out + total(w * w), 0.0)


def _lower_root(a: Rows) -> list[Rows]:
    """Return the lower triangle L of ``A = L L'``, row by row, of 3 by 3 matrices.

    ``a``: lower triangles 00, 10, 11, 20, 21, 22, positive semidefinite but for rounding.
    """

    def root(x: Any, size: Any) -> Any:
        return np.sqrt(where(x > 1e-12 * size, x, 0.0))

    def over(x: Any, y: Any) -> Any:
        return where(y > 0.0, x / where(y > 0.0, y, 1.0), 0.0)

    l00 = root(a[0], a[0])
    l10, l20 = over(a[1], l00), over(a[3], l00)
    l11 = root(a[2] - l10 * l10, a[2])
    l21 = over(a[4] - l20 * l10, l11)
    l22 = root(a[5] - l20 * l20 - l21 * l21, a[5])
    return [l00, l10, l11, l20, l21, l22]
