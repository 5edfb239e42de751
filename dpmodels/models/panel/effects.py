"""Fixed effects of units as local expansions: what is constant in a person falls out by own rows.

Linear: y and x less their means over the person's own rows. Poisson: given its total a person's
counts are multinomial with probabilities ``p = softmax(x_t'b)`` over own rows (``theory.md``).
Both equal dummies for every person, which are never made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.products import mapped
from dpmodels.scoring.expand import (
    Expanded,
    Likelihood,
    Local,
    Regression,
    in_u,
    own_sum,
    predictor,
)
from dpmodels.scoring.expand_engine import Begun
from dpmodels.scoring.expand_start import Number, Spread, numbers
from dpmodels.scoring.score import Beginning, Curved, LeastSquares
from dpmodels.scoring.state import State

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.privacy.mechanisms import Step
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.sources.people import BlockOfPeople

#: Part of a column's spread below which another coordinate does not see it.
LEAK = 0.05
#: Largest difference of linear predictors within a person.
_REACH = 60.0
#: Expected square of a score, over that of all people, from which on a person is weighted down.
FULL = 1.0


def without_constant(coordinates: Coordinates) -> Coordinates:
    """Return coordinates without their first, the constant: it falls out of every person.

    Nor with what points of a box that are nearly independent leave of one column in another
    (below ``LEAK`` of its spread): a column that varies within few people would be looked for
    among the many within whom the others do.
    """
    W0 = coordinates.W0[1:]
    p = W0.shape[1]
    if len(W0) == p - 1:  # full rank: row i is of column i + 1 and those before it
        spread = 1.0 / np.abs(np.concatenate([[np.inf], np.diag(W0[:, 1:])]))
        own = np.eye(p)[1:] > 0.0
        W0 = np.where(own | (np.abs(W0) * spread >= LEAK), W0, 0.0)
    return replace(coordinates, W0=W0, centre=coordinates.centre[1:], constant=None)


@dataclass(frozen=True)
class EffectModel:
    """A model with an effect of each unit, as planned.

    Attributes
    ----------
    poisson : bool
        Counts with a log link; else least squares.
    rows : float
        Public guess of the rows of a person.
    """

    poisson: bool
    rows: float

    scale: ClassVar[bool] = False

    @property
    def linear(self) -> bool:
        """Whether the score is linear in theta."""
        return not self.poisson

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return the predictors that are numbers; of counts the response too."""
        return numbers(design, response="whole" if self.poisson else "")

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return none."""
        return ()

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Start at effects 0."""
        inner = without_constant(coordinates)
        start = Beginning(None, inner.rank, None)
        model: Any
        if self.poisson:
            mean = next((s.mean for s in spreads if s.number.place == design.q - 1), 1.0)
            mean = max(mean, 1e-3)
            model = FixedPoisson(inner, mean * self.rows, mean)
        else:
            model = Regression(LeastSquares(), inner, demean=True)
        return Begun(model, start.state(np.zeros(inner.rank)))


@dataclass(frozen=True, eq=False)
class FixedPoisson(Likelihood):
    """Poisson counts with an effect of each person, begun.

    Attributes
    ----------
    coordinates : Coordinates
    rate : float
        Events of a person, by the released mean count and the guess of its rows.
    mean : float
        The released mean count of a row; 0: nobody is weighted down.
    """

    coordinates: Coordinates
    rate: float
    mean: float = 0.0

    def at(self, state: State, k: int, clip: float = math.inf) -> Local:
        """Return the counts of people at a fit; once scales are released, with weights."""
        squares = np.diag(state.M)
        known = self.mean > 0.0 and not (squares == 1.0).all()
        return _Shares(self, state.theta, state.W, squares if known else None)

    def events(self, H: Array) -> float:
        """Return the events of a person."""
        return self.rate

    def curved(self, state: State, d: Array, H: Array, noise: float) -> Curved:
        """Return an eighth of the change of the log rate by the last step."""
        return Curved(0.125 * math.sqrt(max(float(d @ H @ d), 0.0) / self.rate))


@dataclass(frozen=True, eq=False)
class _Shares:
    """Scores ``w sum_t x_t (y_t - n p_t)`` and rows ``sqrt(w n p_t) (x_t - xbar)``.

    The weight w of a person is a function of its predictors, of its number of rows and of released
    numbers, never of a count: scores keep mean zero whatever the law of the counts, where a clip
    would shorten those of many events (``theory.md``, 2).
    """

    model: FixedPoisson
    theta: Array
    W: Array
    squares: Array | None = None

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the scores and the information of whole people."""
        y, counts = block.rows[-1], block.counts
        u = in_u(self.model.coordinates, block.rows)
        there = np.isfinite(u.sum(axis=0)) & (y >= 0.0) & (y == np.floor(y))
        u = np.where(there, u, 0.0)
        eta = predictor(self.theta, u)
        starts = np.cumsum(counts) - counts
        most = np.maximum.reduceat(np.where(there, eta, -np.inf), starts)  # of the person
        most = np.repeat(np.where(np.isfinite(most), most, 0.0), counts)
        power = np.where(there, np.exp(np.maximum(eta - most, -_REACH)), 0.0)
        total = np.repeat(own_sum(power, counts), counts)
        p = np.divide(power, total, out=np.zeros_like(power), where=total > 0.0)
        count = np.where(there, y, 0.0)
        n = np.repeat(own_sum(count, counts), counts)
        w = mapped(self.W, u)
        weight: Any = 1.0
        if self.squares is not None:
            weight = np.repeat(self._weights(u, p, there, counts), counts)

        def information() -> Array:
            mean = np.repeat(own_sum(w * p, counts), counts, axis=-1)
            return np.asarray((w - mean) * np.sqrt(weight * n * p))

        return Expanded(w * (weight * (count - n * p)), counts, information, counts)

    def _weights(self, u: Array, p: Array, there: Any, counts: Any) -> Array:
        """Return ``min(1, sqrt(r / s))`` of people, s the square that x lets expect of a score.

        ``s = T m sum_t p_t |x_t - xbar|^2`` with T rows of m events each, every coordinate over its
        released scale.
        """
        assert self.squares is not None
        spread = np.zeros(len(counts))
        for cells, square in zip(u, self.squares, strict=True):
            mean = np.repeat(own_sum(cells * p, counts), counts)
            spread += own_sum(p * (cells - mean) ** 2, counts) / square
        s = own_sum(there.astype(float), counts) * self.model.mean * spread
        return np.asarray(np.sqrt(FULL * len(u) / np.maximum(s, FULL * len(u))))
