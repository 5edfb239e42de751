"""Random intercepts as local expansions: quasi-demeaning by own rows at released variances.

Three stages, each of released numbers (``theory.md``, 5): least squares by person; three averages
of a person's clipped residuals, which give the two variances; generalised least squares at these,
where a person with T rows has the part ``1 - sqrt(s_e / (s_e + T s_u))`` of its own means taken
off. With person means as predictors (Mundlak) the coefficients within people are apart from those
between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import STEPS, end_of_numbers
from dpmodels.exact.passes import Sums
from dpmodels.exact.products import mapped
from dpmodels.exact.sets import PairMeans
from dpmodels.exact.statistics import Sum
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.scoring.expand import (
    LONGEST,
    Expanded,
    Likelihood,
    Local,
    in_u,
    own_mean,
    own_sum,
    predictor,
)
from dpmodels.scoring.expand_engine import Begun, UnitPlan, release_units, unit_steps
from dpmodels.scoring.expand_pass import units_of
from dpmodels.scoring.expand_rules import LINEAR_UNITS, UnitRules
from dpmodels.scoring.expand_start import Number, Spread, numbers
from dpmodels.scoring.score import Beginning, Curved, LeastSquares
from dpmodels.scoring.state import State
from dpmodels.sources.summed import Integers

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.sources.people import BlockOfPeople
    from dpmodels.sources.windows import Coins

#: Shares of mu^2 of least squares by person and of the averages; the rest is of the last stage.
FIRST, OF_AVERAGES = 0.20, 0.05
#: Names of the steps: of the first stage, and of the averages.
POOLED, AVERAGES = "pooled", "averages of residuals"
#: Of the last stage, which starts near its end.
RULES = UnitRules(0.02, 0.03, (0.05, 0.14, 0.76))
#: Residuals are clipped to so many of their released sds.
CLIP = 2.5
#: Largest share of the variance that intercepts are believed to have.
MOST = 0.98


def dimension(rank: int, *, mundlak: bool) -> int:
    """Return the number of coefficients of a design of this rank: with means, those once more."""
    return 2 * rank - 1 if mundlak else rank


@dataclass(frozen=True)
class Variances:
    """Released averages over people with two rows or more, of residuals over ``clip``.

    Attributes
    ----------
    pairs, people, squares : float
        Noisy sums of the mean product of a person's pairs, of 1, and of its mean square.
    sd : float
        Noise of each.
    clip : float
        What residuals were clipped to, in units of the unit response.
    """

    pairs: float
    people: float
    squares: float
    sd: float
    clip: float

    @property
    def share(self) -> float:
        """Part of the variance that goes with the person, where it can be a weight: [0, .98]."""
        if not (self.people > 0.0 and self.squares > 0.0):
            return 0.0
        return min(max(self.pairs / self.squares, 0.0), MOST)

    def reported(self, unit: float) -> dict[str, float]:
        """Return the variances and the intraclass correlation as released, with their errors.

        Parameters
        ----------
        unit : float
            Unit responses to one of the user's.

        Notes
        -----
        Errors hold the noise, and the sampling error of normal residuals, two rows a person.
        Estimates are not forced to be variances: noise may leave one below 0.
        """
        K, n = self.people, self.sd
        if not (K > 0.0 and self.squares > 0.0):
            return {}
        R, M = self.pairs / K, self.squares / K
        rho = min(max(self.pairs / self.squares, -1.0), 1.0)
        c2 = (self.clip / unit) ** 2
        told = {
            "sigma_u2": (c2 * R, n * n * (1 + R * R), M * M * (1 + rho * rho), K, c2),
            "sigma_e2": (
                c2 * (M - R), n * n * (2 + (M - R) ** 2), 2 * M * M * (1 - rho) ** 2, K, c2,
            ),
            "icc": (
                self.pairs / self.squares, n * n * (1 + rho * rho), M * M * (1 - rho * rho) ** 2,
                self.squares, 1.0,
            ),
        }  # fmt: skip
        out = {}
        for name, (value, noise, sampling, over, by) in told.items():
            out[name] = value
            out[f"{name}_se"] = by * math.sqrt(noise / over**2 + sampling * K / over**2)
        return out


@dataclass(frozen=True, eq=False)
class Intercepts(Likelihood):
    """Least squares with an intercept of each person of known weight, begun.

    Attributes
    ----------
    coordinates : Coordinates
    mundlak : bool
        theta is of own means (the constant first), then within people; else of rows.
    sd : float
        Released spread of the unit response.
    variances : Variances or None
        Of intercepts and errors; None: not released yet, and rows are taken for unrelated.
    """

    coordinates: Coordinates
    mundlak: bool
    sd: float
    variances: Variances | None = None

    @property
    def share(self) -> float:
        """Part of the variance that goes with the person; 0: least squares."""
        return 0.0 if self.variances is None else self.variances.share

    @property
    def linear(self) -> bool:
        """Yes."""
        return True

    @property
    def leverage(self) -> float:
        """Of least squares."""
        return LeastSquares().leverage

    def at(self, state: State, k: int, clip: float = math.inf) -> Local:
        """Return the rows of pass k."""
        return _Rows(self, state.theta, state.W, math.sqrt(state.phi))

    def learnt(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with the variance of residuals, if it was released."""
        return LeastSquares().learnt(state, H, ratio)

    def events(self, H: Array) -> float:
        """Return what a person's weights add up to, by the information of the constant; least 1."""
        a = self.coordinates.constant
        inner = H[: self.coordinates.rank, : self.coordinates.rank]
        return max(float(a @ inner @ a), 1.0) if a is not None else 1.0

    def longest(self, state: State) -> float:
        """Return two spreads of the response."""
        return LONGEST * self.sd

    def curved(self, state: State, d: Array, H: Array, noise: float) -> Curved:
        """Return none: the loss is quadratic."""
        return Curved()


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores ``W z e`` and rows ``W z``, z and the residual e less a part of their own means."""

    model: Intercepts
    theta: Array
    W: Array
    sd: float

    def seen(self, block: BlockOfPeople) -> tuple[Array, Array, Array, Array]:
        """Return (z, its own means, residuals, rows that are there) before anything is taken off.

        z: the coordinates u; with Mundlak own means of u, and what u differs from them by. A row
        that is not there is 0 in all.
        """
        model, unit = self.model, self.model.coordinates.unit
        u = in_u(self.model.coordinates, block.rows)
        y = block.rows[-1] * unit.scale[-1] + unit.shift[-1]
        there = np.isfinite(u.sum(axis=0)) & np.isfinite(y)
        present = there.astype(float)
        u, y = np.where(there, u, 0.0), np.where(there, y, 0.0)
        means = own_mean(u, present, block.counts) * present
        z, own = u, means
        if model.mundlak:
            inside = (u - means)[1:]
            z = np.concatenate([means, inside])
            own = np.concatenate([means, np.zeros_like(inside)])
        return z, own, (y - predictor(self.theta, z)) / self.sd, present

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the scores and the information of whole people."""
        z, own, residual, present = self.seen(block)
        share, counts = self.model.share, block.counts
        if share > 0.0:
            T = np.repeat(own_sum(present, counts), counts)
            part = 1.0 - np.sqrt((1.0 - share) / (1.0 - share + T * share))
            z = z - part * own
            residual = residual - part * own_mean(residual, present, counts)
        w = mapped(self.W, z * present)
        return Expanded(w * (residual * present), counts, lambda: w, counts)


@dataclass(frozen=True, eq=False)
class AveragesJob:
    """Three averages of each person's residuals: an element of ``PairMeans``.

    Attributes
    ----------
    rows : _Rows
        At the fit of the first stage.
    clip : float
        Residuals over it are clipped to [-1, 1]; in units of their sd.
    """

    rows: _Rows
    clip: float
    of_people: bool = True

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Integers:
        """Return the sums over people, (3,), in steps of 2^-20. Confidential."""
        out = np.zeros(3, dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in units_of(blocks):
                out += averages_of(self.rows, self.clip, block).sum(axis=1).astype(np.int64)
        return Integers((out,))


def averages_of(rows: _Rows, clip: float, block: BlockOfPeople) -> Array:
    """Return (mean product of pairs, 1, mean square) of people, (3, people): integers of 2^-20.

    0 of a person with fewer than two rows that are there. The mean product of the pairs of T
    numbers is ``((sum e)^2 - sum e^2) / (T (T - 1))``.
    """
    _, _, residual, present = rows.seen(block)
    e = end_of_numbers(residual / clip) / STEPS
    T = own_sum(present, block.counts)
    total, squares = own_sum(e, block.counts), own_sum(e * e, block.counts)
    several = T > 1.5
    many = np.where(several, T, 2.0)
    return ended((total * total - squares) / (many * (many - 1.0)), several, squares / many)


def ended(x: Array, several: npt.NDArray[np.bool_], q: Array) -> Array:
    """Return elements of ``PairMeans``, (3, people), whatever x and q are.

    A mean product of pairs passes the mean square in the last bits of floats at most; it is cut to
    it, so that the claim does not rest on these.
    """
    q = end_of_numbers(q, low=0.0) * several
    x = end_of_numbers(x) * several
    return np.array([np.clip(x, -q, q), STEPS * several, q])


@dataclass(frozen=True)
class _Started:
    """A model that has begun already: the first stage, within the engine's passes."""

    begun: Begun | None = None
    linear: ClassVar[bool] = True
    scale: ClassVar[bool] = True

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return none: places were asked about."""
        return ()

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return none."""
        return ()

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Return where it begins."""
        assert self.begun is not None
        return self.begun


@dataclass(frozen=True)
class InterceptModel:
    """Random intercepts, as planned.

    Attributes
    ----------
    N : int
        People of the public rules.
    relation : str
    mundlak : bool
        Person means are predictors too.
    """

    N: int
    relation: str
    mundlak: bool

    linear: ClassVar[bool] = True
    scale: ClassVar[bool] = False

    def numbers(self, design: Design) -> tuple[Number, ...]:
        """Return the predictors that are numbers, and the response."""
        return numbers(design, response=LeastSquares.cells)

    def _first(self, mu: float, r: int, begun: Begun | None = None) -> UnitPlan:
        """Return the plan of the first stage."""
        return UnitPlan(
            r, self.N, mu * math.sqrt(FIRST), self.relation, True, LINEAR_UNITS,
            ((_Started(begun), POOLED),), (),
        )  # fmt: skip

    def prelude(self, mu: float) -> tuple[Step, ...]:
        """Return the steps of the first stage and of the averages."""
        first = unit_steps(self._first(mu, 1))
        own = Step(AVERAGES, Gaussian(mu * math.sqrt(OF_AVERAGES)), share=OF_AVERAGES)
        return (*(step.within(FIRST) for step in first), own)

    def begin(
        self, coordinates: Coordinates, spreads: tuple[Spread, ...], design: Design, ask: Ask,
        mu: float,
    ) -> Begun:  # fmt: skip
        """Release least squares by person and the averages; begin at that fit, with their weights.

        Privacy
        -------
        ``mu sqrt(FIRST)``-GDP for the passes of the first stage, ``mu sqrt(OF_AVERAGES)``-GDP for
        the averages: one person's three numbers lie in ``PairMeans`` (``theory.md``, 5).
        """
        r = dimension(coordinates.rank, mundlak=self.mundlak)
        unit = coordinates.unit
        values = next((s for s in spreads if s.number.place == design.q - 1), None)
        constant = coordinates.constant
        if constant is not None:
            constant = np.concatenate([constant, np.zeros(r - len(constant))])
        at = Beginning(constant, r, values, float(unit.scale[-1]), float(unit.shift[-1]))
        plain = Intercepts(coordinates, self.mundlak, at.sd)
        begun = Begun(plain, LeastSquares().begin(at))
        found = release_units(self._first(mu, r, begun), coordinates, design, ask, fixed=True)
        state = found.chains[0].last.state
        variances = self.ask_averages(plain, state, design, ask)
        model = replace(plain, variances=variances)
        start = replace(LeastSquares().begin(at), theta=state.theta, phi=state.phi)
        told = np.array([variances.pairs, variances.people, variances.squares])
        return Begun(model, start, {AVERAGES: told})

    def ask_averages(
        self, model: Intercepts, state: State, design: Design, ask: Ask
    ) -> Variances:
        """Release the averages of residuals at the fit of the first stage."""
        rows = _Rows(model, state.theta, np.eye(len(state.theta)), math.sqrt(state.phi))
        query = Query(Sum(PairMeans()), Sums(design, AveragesJob(rows, CLIP)), _integers)
        found = ask(AVERAGES, query)
        pairs, people, squares = (float(v) for v in found.values)
        sd = float(found.sd.flat[0])
        return Variances(pairs, people, squares, sd, CLIP * math.sqrt(state.phi))


def _integers(found: Integers) -> Added:
    return Added(found.arrays[0].astype(object))


def coefficients(coordinates: Coordinates, *, mundlak: bool) -> tuple[Array, Array]:
    """Return (A, a): coefficients in the user's units are ``A theta + a``.

    With Mundlak theta is of own means and within people, and coefficients are the intercept, those
    of x (within) and those of mean(x): what those between people have more.
    """
    A, a = coordinates.back()
    if not mundlak:
        return A, a
    p, r = A.shape
    out = np.zeros((2 * p - 1, 2 * r - 1))
    out[0, :r] = A[0]
    out[1:p, r:] = A[1:, 1:]
    out[p:, :r] = A[1:]
    out[p:, r:] = -A[1:, 1:]
    return out, np.concatenate([a[:1], np.zeros(p - 1), a[1:]])
