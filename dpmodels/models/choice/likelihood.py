"""Categories as local expansions: any likelihood with probabilities p_k(theta) of K classes.

A row of class y has the score ``S = grad p_y / p_y`` and the expected information ``sum_k V_k
V_k'``, ``V_k = grad p_k / sqrt(p_k)``: K rows. Probabilities are floored in both, so neither grows
without limit (``theory.md``, 1). Classes are codes 0 to K - 1; any other code, or a missing cell,
makes a zero row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.products import mapped
from dpmodels.scoring.expand import BEYOND, Expanded, Likelihood, Local, in_u, predictor
from dpmodels.scoring.score import Curved
from dpmodels.scoring.state import State

if TYPE_CHECKING:
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.sources.people import BlockOfPeople

#: Least probability of a class that a score believes.
LEAST = 1e-4
#: Thresholds stay this part of their first distance apart.
APART = 0.25
#: Largest linear predictor: beyond, a probability has no digits left.
_REACH = 30.0


class Link(Protocol):
    """A distribution function and its density."""

    def cdf(self, x: Array) -> Array:
        """Return F(x)."""
        ...

    def pdf(self, x: Array) -> Array:
        """Return F'(x)."""
        ...

    def quantile(self, p: float) -> float:
        """Return x with F(x) = p."""
        ...


class _Logistic:
    def cdf(self, x: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-x)))

    def pdf(self, x: Array) -> Array:
        F = self.cdf(x)
        return np.asarray(F * (1.0 - F))

    def quantile(self, p: float) -> float:
        return math.log(p / (1.0 - p))


class _Probit:
    def cdf(self, x: Array) -> Array:
        from scipy.special import ndtr

        return np.asarray(ndtr(x))

    def pdf(self, x: Array) -> Array:
        return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))

    def quantile(self, p: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(p))


class _CLogLog:
    def cdf(self, x: Array) -> Array:
        return np.asarray(-np.expm1(-np.exp(np.minimum(x, 5.0))))

    def pdf(self, x: Array) -> Array:
        power = np.minimum(x, 5.0)
        return np.asarray(np.exp(power - np.exp(power)))

    def quantile(self, p: float) -> float:
        return math.log(-math.log1p(-p))


#: Of ``dp_polr(method=)``, as R's MASS::polr names them.
LINKS: dict[str, Link] = {"logistic": _Logistic(), "probit": _Probit(), "cloglog": _CLogLog()}


class Classes(Protocol):
    """A likelihood of K classes as a function of theta and of a row's u."""

    @property
    def K(self) -> int:
        """Number of classes."""
        ...

    def gradients(self, theta: Array, u: Array) -> tuple[Array, Array]:
        """Return (p (K, m), grad p (K, r, m)) of rows u (r_u, m)."""
        ...

    def settled(self, theta: Array, start: Array) -> Array:
        """Return theta where it is allowed, given the start."""
        ...


@dataclass(frozen=True)
class ProportionalOdds:
    """``P(y <= k) = F(zeta_k - x'b)``: theta holds K - 1 thresholds, then slopes.

    Slopes are of u without its first coordinate, the constant: thresholds stand for it.
    """

    K: int
    link: str = "logistic"

    def gradients(self, theta: Array, u: Array) -> tuple[Array, Array]:
        """Return probabilities and their gradients."""
        link, cut = LINKS[self.link], self.K - 1
        zeta, beta, x = theta[:cut], theta[cut:], u[1:]
        eta = predictor(beta, x)
        at = np.clip(zeta[:, None] - eta, -_REACH, _REACH)
        F, f = link.cdf(at), link.pdf(at)
        zero, one = np.zeros((1, len(eta))), np.ones((1, len(eta)))
        p = np.diff(np.concatenate([zero, F, one]), axis=0)
        ends = np.concatenate([zero, f, zero])
        grad = np.zeros((self.K, len(theta), len(eta)))
        for k in range(self.K):
            if k < cut:
                grad[k, k] = f[k]
            if k > 0:
                grad[k, k - 1] = -f[k - 1]
            grad[k, cut:] = -(ends[k + 1] - ends[k]) * x
        return p, grad

    def settled(self, theta: Array, start: Array) -> Array:
        """Return thresholds in rising order, at least ``APART`` of what they were apart at first.

        Two that an early step of noise brings together would make a class of no probability, whose
        scores have no end.
        """
        out, cut = np.array(theta), self.K - 1
        for k in range(1, cut):
            out[k] = max(out[k], out[k - 1] + APART * (start[k] - start[k - 1]))
        return out


@dataclass(frozen=True)
class Multinomial:
    """``P(y = k) = exp(u'theta_k) / sum``, theta_0 = 0: K - 1 blocks of coefficients."""

    K: int

    def gradients(self, theta: Array, u: Array) -> tuple[Array, Array]:
        """Return probabilities and their gradients."""
        r = len(u)
        eta = np.zeros((self.K, u.shape[1]))
        for k in range(1, self.K):
            eta[k] = predictor(theta[(k - 1) * r : k * r], u)
        eta -= eta.max(axis=0)  # of the row, never of the block
        power = np.exp(np.maximum(eta, -2.0 * _REACH))
        total = np.zeros(u.shape[1])
        for own in power:
            total += own
        p = power / total
        grad = np.zeros((self.K, len(theta), u.shape[1]))
        for k in range(self.K):
            for j in range(1, self.K):
                grad[k, (j - 1) * r : j * r] = p[k] * (float(k == j) - p[j]) * u
        return p, grad

    def settled(self, theta: Array, start: Array) -> Array:
        """Return theta: everything is allowed."""
        return theta


@dataclass(frozen=True, eq=False)
class CategoryModel(Likelihood):
    """A likelihood of classes, begun.

    Attributes
    ----------
    classes : Classes
    coordinates : Coordinates
    rarest : float
        Released share of the rarest class.
    start : array
        theta before the first pass.
    """

    classes: Classes
    coordinates: Coordinates
    rarest: float
    start: Array

    def at(self, state: State, k: int, clip: float = math.inf) -> Local:
        """Return the rows of pass k."""
        return _Rows(self, state.theta, state.W)

    def events(self, H: Array) -> float:
        """Return 1."""
        return 1.0

    def settled(self, theta: Array) -> Array:
        """Return theta where the likelihood allows it."""
        return self.classes.settled(theta, self.start)

    def at_centre(self, theta: Array) -> tuple[Array, Array]:
        """Return (p (K,), grad p (K, r)) at the centre of the predictors."""
        a = self.coordinates.constant
        u = np.zeros((self.coordinates.rank, 1))
        if a is not None:
            u = (a / float(a @ a))[:, None]
        p, grad = self.classes.gradients(theta, u)
        return p[:, 0], grad[:, :, 0]

    def typical_long(self, state: State) -> float:
        """Return the length of the score of the rarest class at the centre of the predictors.

        A class of share s has scores of about ``1/sqrt(s)`` in coordinates in which all together
        have unit mean square a coordinate: a second hump that a noisy histogram does not show. By
        theta, which noise may have led away, it is believed up to ``BEYOND`` times that.
        """
        p, grad = self.at_centre(state.theta)
        own = np.linalg.norm(state.W @ (grad / np.maximum(p, LEAST)[:, None]).T, axis=0)
        most = BEYOND * math.sqrt(1.0 / self.rarest + len(state.theta))
        return min(float(own.max()), most)

    def curved(self, state: State, d: Array, H: Array, noise: float) -> Curved:
        """Return an eighth of the change of the linear predictor by the last step.

        Where a class is rare the information moves with the step, as of rare events
        (``scoring/theory.md``, 5.9): half of the change in units of the class's own information.
        """
        square = max(float(d @ H @ d), 0.0)
        q = max(square - noise, 0.25 * square)
        rare = 0.5 * max(1.0 - 4.0 * self.rarest, 0.0) * math.sqrt(q / self.rarest)
        return Curved(max(0.125 * math.sqrt(square), rare))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores and information of classes at a fit."""

    model: CategoryModel
    theta: Array
    W: Array

    def expand(self, block: BlockOfPeople) -> Expanded:
        """Return the score of each row and K rows v of its information."""
        classes, y = self.model.classes, block.rows[-1]
        u = in_u(self.model.coordinates, block.rows)
        known = (y >= 0.0) & (y <= classes.K - 1.0) & (y == np.floor(y))
        there = known & np.isfinite(u.sum(axis=0))
        u = np.where(there, u, 0.0)
        p, grad = classes.gradients(self.theta, u)
        p = np.maximum(p, LEAST)
        at = np.where(there, y, 0.0).astype(np.intp)
        score = np.take_along_axis(grad, at[None, None, :], axis=0)[0]
        score = np.where(there, score / np.take_along_axis(p, at[None, :], axis=0), 0.0)

        def information() -> Array:
            v = np.where(there, grad / np.sqrt(p)[:, None, :], 0.0)
            return mapped(self.W, v.transpose(1, 2, 0).reshape(len(self.theta), -1))

        return Expanded(
            mapped(self.W, score), block.counts, information, block.counts * classes.K
        )


def probabilities(classes: Classes, theta: Array, u: Array) -> Array:
    """Return the probabilities of the classes at rows u (r_u, m): (K, m)."""
    return classes.gradients(theta, u)[0]
