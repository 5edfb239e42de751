"""Models for scoring fits: the score, information, start and state of each.

There are two kinds. Models of a *residual* (least squares, quantile, Huber, expectile: here) are
functions of the standardised residual ``x = (y - eta)/sqrt(phi)``. Models of a *mean* (families
and links: :mod:`dpmodels.scoring.mean_models`) are functions of y and eta. Both return
``(psi, omega)`` of every row: its score is ``s = w psi``, its information ``v v'``,
``v = sqrt(omega) w``, ``omega >= 0`` (``theory.md``, 5).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmodels.arrays import Array
from dpmodels.lazy import special
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates, scoring_rows
from dpmodels.scoring.rules import PassShares
from dpmodels.sums.scaling import UnitScale
from dpmodels.variables import Binary

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


# -- A released fit between two passes: the state at which the next one is evaluated.


@dataclass(frozen=True, eq=False)
class State:
    """A released fit: the state at which the next pass is evaluated."""

    theta: Array  # (r,): for u. Models of a residual: in units of the unit response.
    W: Array  # (r, r): whitens a row: ``w = W u``
    phi: float  # Scale of the score: ``s = w psi``, psi over ``sqrt(phi)``
    M: Array  # (r, r): second moments of u, released by the start
    passed: bool = False  # Whether a pass has released an information, which W makes round
    slope: Slope | None = None  # Mean score of the pass before
    # Other parameters that passes estimate (alpha of a variance, sd of the residual).
    nuisance: float = 0.0
    constant: Array | None = None  # (r,): a with ``a'u = 1`` in every complete row
    seen: float = 0.0  # Residual variance of the start (least squares of rows)
    level: bool = False  # Before the first pass over units: one linear predictor for all
    last: bool = False  # Before the last pass, which releases the information of intervals

    def length(self, v: Array) -> float:
        """Return ``|W v|_M``: root mean square change of the linear predictor."""
        step = self.W @ v
        return math.sqrt(max(float(step @ self.M @ step), 0.0))


@dataclass(frozen=True, eq=False)
class Slope:
    """Mean score of a pass in the coordinates u, ``sqrt(phi) W^{-1} s/n``."""

    at: Array  # (r,): theta at which the pass was evaluated
    mean: Array  # (r,)
    error: Array  # (r, r): root of its covariance, of noise and rows

    @classmethod
    def of(cls, state: State, mean: Array, error: Array) -> Slope:
        """Return the score of a pass at a state; ``mean`` and its error are in w."""
        back = math.sqrt(state.phi) * np.linalg.inv(state.W)
        return cls(state.theta, back @ mean, back @ error)

    def along(self, step: Array) -> tuple[float, float]:
        """Return the score along a step, and its variance."""
        error = step @ self.error
        return float(step @ self.mean), float(error @ error)


def axes(H: Array) -> tuple[Array, Array]:
    """Return (eigenvalues, eigenvectors) of a matrix that is symmetric but for rounding."""
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    return values, vectors


def floored(H: Array, floor: float, eigen: tuple[Array, Array] | None = None) -> Array:
    """Return a symmetric matrix with its eigenvalues floored; ``eigen``: its :func:`axes`."""
    values, vectors = axes(H) if eigen is None else eigen
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def roots(H: Array) -> tuple[Array, Array]:
    """Return (H^{1/2}, H^{-1/2}) of a positive matrix."""
    values, vectors = np.linalg.eigh(H)
    return (vectors * np.sqrt(values)) @ vectors.T, whitening(H, (values, vectors))


def whitening(H: Array, eigen: tuple[Array, Array] | None = None) -> Array:
    """Return H^{-1/2} of a positive matrix; ``eigen`` is the result of ``eigh``."""
    values, vectors = np.linalg.eigh(H) if eigen is None else eigen
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def scaled_up(phi: float, ratio: float, up: float = rules.SCALE_UPDATE) -> float:
    """Return the scale after a pass, from the ratio of mean squared score to its expected value."""
    return phi * min(max(up * ratio, rules.SCALE_UPDATE_RANGE[0]), rules.SCALE_UPDATE_RANGE[1])


def shrunk(J: Array, noise: float, r: int, *, least: float = 0.25) -> Array:
    """Return J shrunk towards tau times the identity, tau its mean eigenvalue.

    The weight of tau is the part of the squared Frobenius distance between the two that ``noise``
    explains, the noise sd of an svec entry. Then eigenvalues are floored at
    ``max(least tau, min(noise/2, tau/4))``.
    """
    tau = max(float(np.trace(J)) / r, noise, 1e-12)
    away = J - tau * np.eye(r)
    spread = float(np.sum(away * away))
    lam = min(1.0, r * (r + 1) / 2.0 * noise**2 / spread) if spread > 0 else 1.0
    lowest = max(least * tau, min(noise / 2.0, tau / 4.0))
    values, vectors = np.linalg.eigh(tau * np.eye(r) + (1.0 - lam) * away)
    return np.asarray((vectors * np.maximum(values, lowest)) @ vectors.T)


def kept_apart(H: Array, noise: float, energy: float = 1.0) -> tuple[Array, float]:
    """Return H shrunk towards its mean eigenvalue by its noise, and the remaining noise sd.

    Linear shrinkage alone would lift a true small eigenvalue among many equal ones. So an
    eigenvalue that differs from the mean one by more than the spectral norm of the noise,
    ``noise sqrt(2 r)``, keeps this excess (``method.md``, 3). ``noise``: noise sd of an svec entry;
    ``energy``: mean square of these noises over ``noise`` squared.
    """
    r = len(H)
    tau = max(float(np.trace(H)) / r, noise, 1e-12)
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    away = values - tau
    spread = float(np.sum(away * away))
    lam = min(1.0, energy * r * (r + 1) / 2.0 * noise**2 / spread) if spread > 0.0 else 1.0
    beyond = np.sqrt(np.maximum(away * away - 2.0 * r * noise**2, 0.0))
    size = np.maximum((1.0 - lam) * np.abs(away), beyond)
    out = (vectors * (tau + np.copysign(size, away))) @ vectors.T
    return np.asarray(out), noise * math.sqrt(1.0 - lam)


def mass_of(M: Array, constant: Array) -> float:
    """Return ``a'M a``: mean over rows of the squared constant, which the ball shortens from 1."""
    return max(float(constant @ M @ constant), rules.MIN_BALL_MASS)


def mean_row(M: Array, constant: Array) -> Array:
    """Return the mean of u over the rows of a start, corrected for rows that the ball shortened."""
    return np.asarray(M @ constant / mass_of(M, constant))


# -- Interface of a model: its score, its information, its start and the parameters it estimates.


#: (standardised residual or linear predictor, response) -> (psi, omega), each (m,); omega None: 1.
Evaluate = Callable[[Array, Array], tuple[Array, Array | None]]


def plain(x: Array, _: Array) -> tuple[Array, None]:
    """Return the score and information of least squares."""
    return x, None


@dataclass(frozen=True, eq=False)
class Start:
    """Released start: least squares of the (working) response from rows scaled into one ball."""

    theta: Array  # (r,): for u, in units of the response of the start
    variance: float  # Variance of its residual
    M: Array  # (r, r): second moments of u, floored
    noise: float  # Noise sd of its entries
    constant: Array | None  # (r,): a with ``a'u = 1`` in every complete row
    explained_by_noise: Array  # (r,): the part of theta that noise explains
    # (eigenvalues, eigenvectors): of M, where they are known.
    axes: tuple[Array, Array] | None = None
    seen: float = 0.0  # The residual variance, not floored

    @classmethod
    def of(cls, Q: Array, s: float, n: float, coordinates: Coordinates) -> Start:
        """Compute least squares from the noisy moments.

        Q has the noisy moments of n rows ``(u, c (y - u'centre))`` in the ball, s is its noise sd
        in svec coordinates.
        """
        r = len(Q) - 1
        nu = s / n
        M, h, t = Q[:r, :r] / n, Q[:r, r] / n, float(Q[r, r]) / n
        safe = floored(M, max(rules.FLOOR_NOISE * nu * math.sqrt(2.0 * r), rules.START_FLOOR))
        theta = np.linalg.solve(safe, h)
        rss = t - 2.0 * float(theta @ h) + float(theta @ safe @ theta)
        c = coordinates.response
        values, vectors = np.linalg.eigh(safe)
        return cls(
            coordinates.centre + theta / c, max(rss, 0.5 * nu, 1e-4 * t) / c**2, safe,
            nu, coordinates.constant,
            _explained_by_noise(np.asarray(theta), values, vectors, nu) / c, (values, vectors),
            rss / c**2,
        )  # fmt: skip

    def state(self, *, above_noise: bool = False) -> State:
        """Return the state after the start; ``above_noise``: without what noise explains of it."""
        theta, variance = self.theta, self.variance
        if above_noise:
            by_noise = self.explained_by_noise
            theta = theta - by_noise
            variance += float(by_noise @ self.M @ by_noise)
        return State(theta, whitening(self.M, self.axes), variance, self.M)

    def shifted(self, by: float) -> Array:
        """Return theta with ``by`` added to every linear predictor, if there is a constant."""
        return self.theta if self.constant is None else self.theta + by * self.constant


def _explained_by_noise(theta: Array, values: Array, vectors: Array, nu: float) -> Array:
    """Return the part of a start's fit that its noise explains (``method.md``, 3).

    It is computed along each eigenvector of the floored second moments. Directions with equal
    eigenvalues (by the floor) use their mean square, because rounding would decide which vectors
    span them. ``nu``: noise sd of the moments' entries in svec coordinates.
    """
    part = vectors.T @ theta
    sd = nu / math.sqrt(2.0) / values  # of M^{-1} h along an eigenvector
    same = np.cumsum(np.diff(values, prepend=values[0]) > rules.EQUAL_EIGENVALUES * values)
    square = (np.bincount(same, part * part) / np.bincount(same))[same]
    square = np.maximum(square, np.finfo(float).tiny)
    return np.asarray(
        vectors @ (part * np.minimum((rules.VISIBLE_SDS * sd) ** 2 / square, 1.0))
    )


@dataclass(frozen=True, eq=False)
class Beginning:
    """Start of passes over units, from a released distribution of the response alone."""

    # (r,): a with ``a'u = 1`` in every complete row; None: there is none, and theta starts at 0.
    constant: Array | None
    r: int
    # Released distribution of the response in the user's units (mean, sd as if normal, quantiles).
    values: Any
    # scale, shift: unit response of one in the user's units.
    scale: float = 1.0
    shift: float = 0.0

    def at(self, eta: float) -> Array:
        """Return theta at which every linear predictor is eta (0 without a constant)."""
        return np.zeros(self.r) if self.constant is None else eta * self.constant

    @property
    def sd(self) -> float:
        """Sd of the unit response, or 0.5 (half its range) if it was not released."""
        return 0.5 if self.values is None else self.scale * self.values.sd

    def state(self, theta: Array, phi: float = 1.0, nuisance: float = 0.0) -> State:
        """Return the state before the first pass, not whitened."""
        eye = np.eye(self.r)
        return State(theta, eye, phi, eye, nuisance=nuisance, constant=self.constant, level=True)

    def middle(self) -> Array:
        """Return theta at the median of the unit response."""
        released = self.values is not None
        return self.at(self.scale * self.values.quantile(0.5) + self.shift if released else 0.0)


@dataclass(frozen=True)
class Model(ABC):
    """Model in the form that the engine uses: its score, its information and its start."""

    pass_shares: PassShares = rules.LINEAR  # Shares of the passes
    # Whether the information does not depend on theta.
    averages: bool = True
    weighted: bool = False  # Rows have weights omega
    of_residual: bool = True
    working: Any = None  # The response of the start; None: the response itself
    bounded: bool = False  # Whether psi has one bound for all fits
    # Responses at which ``|psi|`` is largest, whatever the fit; None: rows are not weighed by them.
    outcomes: tuple[float, float] | None = None
    in_own_units: bool = False  # The loss is given on a grid of the declared range
    # Whether early passes over units release the mean squared score of a row (here sigma).
    learns_scale: bool = True
    # Kind of cells of the response's released distribution, for the start over units; empty: none.
    cells: str = "even"
    is_event: bool = False  # The response is an event
    # Rare responses have long scores: events and counts, one of two values.
    can_be_rare: bool = False
    # Whether an expected number of events (or counts) is defined at a row: `events_of`
    counts_events: bool = False

    @abstractmethod
    def begin(self, start: Beginning) -> State:
        """Return the state before the first pass over units."""

    @abstractmethod
    def start(self, start: Start) -> State:
        """Return the state after the start over rows."""

    @abstractmethod
    def evaluate(self, state: State) -> Evaluate:
        """Return the map of pass k from rows to ``(psi, omega)``, from released numbers only."""

    def bound(self, design: Design, unit: UnitScale | None = None) -> Model:
        """Return the model of a design whose ranges are known (declared or estimated)."""
        return self

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the state with the scale that a pass estimated.

        H is the information per row in w, ``ratio`` the mean squared score over r, if released.
        """
        return state if ratio is None else replace(state, phi=scaled_up(state.phi, ratio))

    def whole_ratio(self, state: State, d: Array, ratio: float | None) -> float | None:
        """Return a scale ratio, corrected for the cut of squares and for the step d."""
        return ratio

    def most(self, state: State) -> tuple[float, float]:
        """Return the largest ``|psi|`` and omega that a row can have; inf: no bound."""
        return math.inf, math.inf

    def typical_long(self, state: State) -> float:
        """Return the length of a typical row's longest score, if it is known, or 0."""
        return 0.0

    @property
    def jump(self) -> float:
        """Larger ``|psi|`` if psi has two values for any fit, or 0 if it has more."""
        return 0.0

    @property
    def normal_error(self) -> float:
        """Asymptotic error of a coefficient by normal residuals, over that of least squares."""
        return 1.0

    def events_of(self, state: State, before: Array, eta: Array) -> Array:
        """Return events (or counts) at linear predictors, over the information as of before."""
        raise NotImplementedError

    def farthest(self, state: State, eta: Array) -> Array:
        """Return the largest ``|psi|`` of any response at linear predictors."""
        psi = self.evaluate(state)
        both = [np.abs(psi(eta, np.full_like(eta, y))[0]) for y in self.outcomes or ()]
        return np.asarray(np.max(both, axis=0))

    def white(self, before: State, after: State, H: Array) -> Array:
        """Return W of the next pass: H is the floored information per row in u, as of ``before``.

        ``after`` has what the pass estimated.
        """
        return whitening(H)

    def common(self, other: Model) -> float:
        """Return the correlation of a row's scores in two chains, or 0 to assume none."""
        return 0.0

    @property
    def corner(self) -> float:
        """Standardised residual beyond which the score of a row does not grow."""
        return math.inf

    def unit(self, state: State) -> float:
        """Return the unit of the longest early step."""
        return math.sqrt(state.phi)


@dataclass(frozen=True)
class LeastSquares(Model):
    """Least squares: the score of a row is its residual, its information is 1."""

    # (float, float): the two values of a response that has only these, in its unit; None: it has
    # others.
    ends: tuple[float, float] | None = None

    def begin(self, start: Beginning) -> State:
        """Return the state before the first pass over units."""
        return start.state(start.middle(), start.sd**2)

    def bound(self, design: Design, unit: UnitScale | None = None) -> LeastSquares:
        """Return the score of a design whose ranges are known (declared or estimated).

        Least squares of a response of two values is then one that knows them, in units of ``unit``.
        """
        variable = None if design.response is None else design.kinds.get(design.response.name)
        if unit is None or design.scaled or not (self.averages and isinstance(variable, Binary)):
            return self
        low, high = (float(unit.scale[-1] * y + unit.shift[-1]) for y in (0.0, 1.0))
        return replace(self, ends=(low, high), can_be_rare=True, bounded=True, outcomes=(0.0, 1.0))

    def start(self, start: Start) -> State:
        """Return the state after the start."""
        state = start.state(above_noise=True)
        seen = start.seen if self.ends is None else 0.0
        return replace(state, constant=start.constant, seen=seen)

    def evaluate(self, state: State) -> Evaluate:
        """Return the map of pass k from rows to ``(psi, omega)``, from released numbers only."""
        return plain

    def typical_long(self, state: State) -> float:
        """Return C for a response of two values; no line fits a share exactly, so C is long."""
        if self.ends is None or state.constant is None:
            return 0.0
        mean, (low, high) = float(state.theta @ mean_row(state.M, state.constant)), self.ends
        length = max(abs(high - mean), abs(low - mean))
        return rules.RARE_CLIP * length * math.sqrt(len(state.theta) / state.phi)


@dataclass(frozen=True)
class Quantile(Model):
    """Quantile regression: the score is not smoothed, only its information is.

    ``psi = tau - 1{e < 0}``; the information is a kernel estimate of the density at the fit.
    ``sqrt(phi) = sqrt(tau (1 - tau))/f``, f the density that W and omega are in units of: the
    asymptotic sd of a quantile. W whitens the second moments of u.
    """

    tau: float = 0.5
    pass_shares: PassShares = rules.BOUNDED
    averages: bool = False
    weighted: bool = True
    bounded: bool = True
    outcomes: tuple[float, float] | None = (-math.inf, math.inf)
    learns_scale: bool = False

    def begin(self, start: Beginning) -> State:
        """Return the median of the response, and its spread."""
        return start.state(start.middle(), (rules.QUANTILE_SCALE * start.sd) ** 2, start.sd)

    def start(self, start: Start) -> State:
        """Shift least squares by the normal quantile of its residual."""
        sd = math.sqrt(start.variance)
        theta = start.shifted(sd * float(special.ndtri(self.tau)))
        W = whitening(start.M, start.axes)
        return State(theta, W, (rules.QUANTILE_SCALE * sd) ** 2, start.M, nuisance=sd)

    def evaluate(self, state: State) -> Evaluate:
        """Return the subgradient, and a normal kernel at zero in units of the density.

        Where all rows have one fit, few are near it: Huber's score, least squares' information.
        """
        if state.level:
            corner = rules.MAX_EARLY_STEP
            return lambda x, _: (np.clip(x, -corner, corner), np.ones_like(x))
        root = self._root
        width = rules.KERNEL_WIDTH / rules.QUANTILE_SCALE
        height = 1.0 / (math.sqrt(2.0 * math.pi) * width * root)

        def rows(x: Array, _: Array) -> tuple[Array, Array]:
            psi = np.where(x < 0.0, self.tau - 1.0, self.tau) / root
            return np.where(np.isnan(x), np.nan, psi), height * np.exp(-0.5 * (x / width) ** 2)

        return rows

    @property
    def _root(self) -> float:
        return math.sqrt(self.tau * (1.0 - self.tau))

    def most(self, state: State) -> tuple[float, float]:
        """Return the larger of ``tau, 1 - tau``, and the height of the kernel."""
        height = rules.QUANTILE_SCALE / (math.sqrt(2.0 * math.pi) * rules.KERNEL_WIDTH * self._root)
        return self.jump, height

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the local scale of the released density."""
        old = math.sqrt(state.phi) / rules.QUANTILE_SCALE
        density = max(float(np.trace(H)) / len(H), 1e-3)
        local = min(state.nuisance, old / density)
        return replace(state, phi=(rules.QUANTILE_SCALE * local) ** 2)

    def typical_long(self, state: State) -> float:
        """Return the length of the score of a typical row on the rarer side."""
        return self.jump * math.sqrt(len(state.theta))

    @property
    def jump(self) -> float:
        """The larger of tau and 1 - tau, over the root of their product."""
        return max(self.tau, 1.0 - self.tau) / self._root

    @property
    def normal_error(self) -> float:
        """``sqrt(tau (1 - tau))`` over the normal density at the quantile."""
        at = float(special.ndtri(self.tau))
        return self._root * math.sqrt(2.0 * math.pi) * math.exp(0.5 * at * at)

    def white(self, before: State, after: State, H: Array) -> Array:
        """Return the root of the second moments of u: rows and scores stay parallel."""
        return before.W

    def common(self, other: Model) -> float:
        """Return the correlation of a row's scores at two quantile levels tau, tau'.

        It is ``min(tau, tau') - tau tau'`` over the root of the product of both variances.
        """
        assert isinstance(other, Quantile)
        low, high = sorted((self.tau, other.tau))
        return math.sqrt(low * (1.0 - high) / (high * (1.0 - low)))

    @property
    def corner(self) -> float:
        """The local scale: scores jump within it."""
        return 1.0 / rules.QUANTILE_SCALE

    def unit(self, state: State) -> float:
        """Return the local scale."""
        return math.sqrt(state.phi) / rules.QUANTILE_SCALE


@dataclass(frozen=True)
class Huber(Model):
    """Huber's loss, its corner at k released (or given) scales. ``psi = clip(x, -k, k)``."""

    k: float = 1.345
    pass_shares: PassShares = rules.BENT
    given: float | None = None
    fixed: float = 0.0
    averages: bool = False
    weighted: bool = True

    def begin(self, start: Beginning) -> State:
        """Return the median, with the given scale or that of the response."""
        return start.state(start.middle(), self.fixed**2 if self.fixed else start.sd**2)

    def bound(self, design: Design, unit: UnitScale | None = None) -> Huber:
        """Put a given scale, in units of the response, into unit half-ranges."""
        if self.given is None or design.response is None:
            return self
        unit_map = scoring_rows(design) if unit is None else unit
        return replace(self, fixed=self.given * float(unit_map.scale[-1]))

    def start(self, start: Start) -> State:
        """Return least squares, with the given scale if there is one."""
        state = start.state()
        return replace(state, phi=self.fixed**2) if self.fixed else state

    def evaluate(self, state: State) -> Evaluate:
        """Return the clipped residual, and 1 inside the corner.

        Early passes have the weight of iterated least squares, ``min(1, k/|x|)``: its steps do not
        overshoot. Those by the derivative alternate if few rows are within the corner at the start.
        """
        top = self.k
        if not state.last:
            return lambda x, _: (np.clip(x, -top, top), top / np.maximum(np.abs(x), top))
        return lambda x, _: (np.clip(x, -top, top), (np.abs(x) <= top).astype(float))

    @property
    def corner(self) -> float:
        """The corner of the loss."""
        return self.k

    def most(self, state: State) -> tuple[float, float]:
        """Return the corner, and 1."""
        return self.k, 1.0

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return Huber's scale (proposal 2): consistent at normal errors."""
        if self.fixed or ratio is None:
            return state
        k = self.k
        inside = math.erf(k / math.sqrt(2.0))
        density = math.exp(-0.5 * k * k) / math.sqrt(2.0 * math.pi)
        beta = inside - 2.0 * k * density + k * k * (1.0 - inside)
        return replace(state, phi=scaled_up(state.phi, ratio * inside / beta, 1.0))


def _normal_expectile(tau: float) -> float:
    """Return e with ``tau E(X - e)+ = (1 - tau) E(e - X)+``, X standard normal."""
    low, high = -10.0, 10.0
    for _ in range(60):
        e = 0.5 * (low + high)
        above = math.exp(-0.5 * e * e) / math.sqrt(2.0 * math.pi)
        above -= e * 0.5 * math.erfc(e / math.sqrt(2.0))
        low, high = (e, high) if tau * above > (1.0 - tau) * (above + e) else (low, e)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class Expectile(Model):
    """Expectile regression: ``psi = 2 |tau - 1{x < 0}| x``."""

    tau: float = 0.5
    pass_shares: PassShares = rules.BENT
    averages: bool = False
    weighted: bool = True
    learns_scale: bool = False

    def begin(self, start: Beginning) -> State:
        """Return the normal expectile about the median of the response."""
        shift = _normal_expectile(self.tau) * start.sd
        return start.state(start.middle() + start.at(shift), start.sd**2)

    def start(self, start: Start) -> State:
        """Shift least squares by the normal expectile of its residual."""
        state = start.state(above_noise=True)
        shift = _normal_expectile(self.tau) * math.sqrt(state.phi)
        return replace(state, theta=replace(start, theta=state.theta).shifted(shift))

    def evaluate(self, state: State) -> Evaluate:
        """Return the asymmetrically weighted residual, and its weight."""

        def rows(x: Array, _: Array) -> tuple[Array, Array]:
            weight = 2.0 * np.where(x < 0.0, 1.0 - self.tau, self.tau)
            return weight * x, weight

        return rows

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the scale of the residual: scores of a normal one have its expected square."""
        return super().updated(state, H, None if ratio is None else ratio / self._square)

    @property
    def _square(self) -> float:
        """Mean squared score of a standard normal residual about its expectile."""
        e = _normal_expectile(self.tau)
        above = 0.5 * math.erfc(e / math.sqrt(2.0))
        height = math.exp(-0.5 * e * e) / math.sqrt(2.0 * math.pi)
        square = (1.0 + e * e) * above - e * height  # of (X - e)+
        return 4.0 * (self.tau**2 * square + (1.0 - self.tau) ** 2 * (1.0 + e * e - square))

    def white(self, before: State, after: State, H: Array) -> Array:
        """Return the root of the second moments of u: where few rows weigh most, none is longer."""
        return before.W


class Traits(NamedTuple):
    """Properties of a model that its expected inference depends on."""

    averages: bool
    bounded: bool
    is_event: bool
    can_be_rare: bool
    jump: float
    outcomes: tuple[float, float] | None

    @classmethod
    def of(cls, score: Model) -> Traits:
        """Return the traits of a model."""
        return cls(*(getattr(score, name) for name in cls._fields))
