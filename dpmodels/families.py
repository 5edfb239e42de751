"""Response families and links as data: range of the response, variance, aliases.

A new family is one record here: the score, the information, the check of the response and what
the table says follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.lazy import special


@dataclass(frozen=True)
class Link:
    """A link function ``eta = g(mu)``."""

    name: str
    inverse: Callable[[Array], Array]  # mu at eta
    slope: Callable[[Array], Array]  # ``d mu / d eta`` at eta
    forward: Callable[[float], float]  # eta at mu
    # (float, float): linear predictors beyond these count as these in a score: there mu has no
    # digits left.
    reach: tuple[float, float] = (-math.inf, math.inf)


def _logistic(eta: Array) -> Array:
    return special.expit(eta)


def _logistic_slope(eta: Array) -> Array:
    mean = _logistic(eta)
    return mean * (1.0 - mean)


def _normal(eta: Array) -> Array:
    return special.ndtr(eta)


def _normal_density(eta: Array) -> Array:
    return np.exp(-0.5 * eta * eta) / math.sqrt(2.0 * math.pi)


def _normal_quantile(mean: float) -> float:
    return float(special.ndtri(mean))


LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link("identity", lambda eta: eta, np.ones_like, lambda mean: mean),
        Link(
            "logit", _logistic, _logistic_slope, lambda mean: math.log(mean / (1.0 - mean)),
            (-30.0, 30.0),
        ),
        Link("probit", _normal, _normal_density, _normal_quantile, (-7.0, 7.0)),
        Link(
            "cloglog",
            lambda eta: -np.expm1(-np.exp(eta)),
            lambda eta: np.exp(eta - np.exp(eta)),
            lambda mean: math.log(-math.log1p(-mean)),
            (-25.0, 3.2),
        ),
        Link("log", np.exp, np.exp, math.log, (-30.0, 30.0)),
    )
}


def _share(y: Array) -> npt.NDArray[np.bool_]:
    return (y >= 0.0) & (y <= 1.0)


def _from_zero(y: Array) -> npt.NDArray[np.bool_]:
    return (y >= 0.0) & np.isfinite(y)


def _xlogx(y: Array) -> Array:
    return special.xlogy(y, y)


def _phi_of_counts(y: Array, alpha: float) -> Array:
    """Return phi of counts: Poisson at alpha = 0, else negative binomial."""
    if alpha == 0.0:
        return _xlogx(y) - y
    return _xlogx(y) - (y + 1.0 / alpha) * np.log1p(alpha * y)


#: Plans assume this share of events, this part of the largest count as the mean, or this mean.
EVENTS, MEAN_SHARE, LEAST_MEAN = 0.25, 1.0 / 16.0, 0.25
#: Assumed share of people with an event, of a survival time.
EVENTS_OF_SURVIVAL = 0.5


@dataclass(frozen=True)
class Family:
    """A response family."""

    name: str
    links: tuple[str, ...]  # Accepted links, the default first
    # {"event", "real"}: what the design accepts on the left-hand side: an event (one of two), or a
    # number.
    response: str
    variance: Callable[[Array, float], Array]  # function of (mu, alpha): var y over the dispersion
    # function of (m,) array: which responses are possible; the others count as missing cells, row
    # by row.
    valid: Callable[[Array], npt.NDArray[np.bool_]]
    domain: str  # Range of the response, as text
    canonical: str = ""  # Link of which ``slope = variance``
    # {"one", "free", "alpha"}: parameter estimated with the coefficients: none; the factor phi
    # of the variance; the parameter alpha of the variance.
    dispersion: str = "one"
    least: float = 1.0  # Smallest variance factor that a start may assume
    alpha: float = 0.0  # Fixed parameter of the variance
    # Constant added before a log at the start: this (from .5), or this part of the maximum.
    small: float = 0.5
    # {"", "whole", "loose"}: responses are counts: whole numbers that vary at least as the model
    # says, or such as may vary less.
    counts: str = ""
    loss: str = ""  # Name of its corrected loss on a noised table; empty: there is none
    aliases: tuple[str, ...] = ()  # Other names, in lower case
    # convex, convex_slope: functions of (y, alpha); phi and phi' of the unit deviance ``2 (phi(y) -
    # phi(mu) - phi'(mu) (y - mu))``.
    convex: Callable[[Array, float], Array] = lambda y, _: 0.5 * y * y
    convex_slope: Callable[[Array, float], Array] = lambda mu, _: mu

    @property
    def link(self) -> str:
        """Name of the default link."""
        return self.links[0]

    @property
    def is_event(self) -> bool:
        """Whether the response is one of two."""
        return self.response == "event"

    def score(
        self, y: Array, eta: Array, link: Link, alpha: float = 0.0
    ) -> tuple[Array, Array]:
        """Return ``(psi, omega)``: score and expected information of rows in eta.

        ``psi = (y - mu) mu'/V``, ``omega = mu'^2/V >= 0``, mu' the slope of the inverse link; (m,)
        each. NaN psi where y is no value of the family. McCullagh and Nelder (1989), 2.5.
        """
        eta = np.clip(eta, *link.reach)
        mean = link.inverse(eta)
        variance = self.variance(mean, alpha)
        if link.name == self.canonical:  # mu' = V
            psi, omega = y - mean, variance
        else:
            slope = link.slope(eta)
            ratio = slope / variance
            psi, omega = (y - mean) * ratio, slope * ratio
        return np.where(self.valid(y), psi, np.nan), omega

    def error_at(self, mean: float, link: Link, alpha: float = 0.0) -> float:
        """Return ``V^1/2 / (dmu/deta)`` at a mean: the error of a row about its predictor."""
        eta = np.array([link.forward(mean)])
        return float(self.score(np.zeros(1), eta, link, alpha)[1][0] ** -0.5)


def assumed_mean(family: Family, interval: tuple[float, float] | None) -> float:
    """Return the mean of a response that a plan assumes, by its declared range."""
    if family.is_event or interval is None:
        return EVENTS
    return max(MEAN_SHARE * interval[1], LEAST_MEAN)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "binomial", ("logit", "probit", "cloglog"), "event",
            lambda mu, _: mu * (1.0 - mu), _share, "an event, 0 or 1, or a share",
            canonical="logit",
            loss="logistic",
            convex=lambda y, _: _xlogx(y) + _xlogx(1.0 - y),
            convex_slope=lambda mu, _: np.log(mu / (1.0 - mu)),
            aliases=("logistic", "logit", "bernoulli", "quasibinomial"),
        ),
        Family(
            "poisson", ("log",), "real", lambda mu, _: mu, _from_zero, "numbers from 0",
            canonical="log", dispersion="free", loss="poisson", counts="whole",
            convex=_phi_of_counts, convex_slope=lambda mu, alpha: np.log(mu / (1.0 + alpha * mu)),
        ),
        Family(
            "quasipoisson", ("log",), "real", lambda mu, _: mu,
            _from_zero, "numbers from 0",
            canonical="log", dispersion="free", aliases=("quasi-poisson",), counts="loose",
            convex=_phi_of_counts, convex_slope=lambda mu, alpha: np.log(mu / (1.0 + alpha * mu)),
        ),
        Family(
            "gamma", ("log",), "real", lambda mu, _: mu * mu,
            lambda y: (y > 0.0) & np.isfinite(y), "numbers above 0",
            dispersion="free", least=1e-3, small=1e-3,
            convex=lambda y, _: -np.log(y), convex_slope=lambda mu, _: -1.0 / mu,
        ),
        Family(
            "negative_binomial", ("log",), "real", lambda mu, alpha: mu * (1.0 + alpha * mu),
            _from_zero, "numbers from 0", dispersion="alpha", counts="whole",
            convex=_phi_of_counts, convex_slope=lambda mu, alpha: np.log(mu / (1.0 + alpha * mu)),
            aliases=(
                "negativebinomial", "negative binomial", "negative.binomial", "negbin", "nb",
                "nbinom", "nbinom2",
            ),
        ),
        Family(
            "geometric", ("log",), "real", lambda mu, _: mu * (1.0 + mu), _from_zero,
            "numbers from 0", dispersion="free", alpha=1.0, loss="geometric", counts="loose",
            convex=_phi_of_counts, convex_slope=lambda mu, alpha: np.log(mu / (1.0 + alpha * mu)),
        ),
        Family(
            "gaussian", ("identity",), "real", lambda mu, _: np.ones_like(mu), np.isfinite,
            "numbers", canonical="identity", dispersion="free", least=0.0, aliases=("normal",),
        ),
    )
}  # fmt: skip


def family_of(name: Any) -> Family:
    """Return the family of a name or alias; raise ``RequestError`` otherwise.

    An instance of ``statsmodels.api.families`` serves as its own name.
    """
    names = {alias: f for f in FAMILIES.values() for alias in (f.name, *f.aliases)}
    word = name
    if type(name).__module__.startswith("statsmodels."):
        word = type(name).__name__
    family = names.get(word.lower()) if isinstance(word, str) else None
    if family is None:
        raise RequestError(
            f"family={shown(name)} is not one of {list(FAMILIES)}.{did_you_mean(str(word), names)}"
        )
    return family


def link_of(family: Family, name: Any, typed: Any = None) -> Link:
    """Return the link of a call; without a name the family's default.

    ``typed`` is what the user gave as family: an instance of ``statsmodels`` brings its link along.
    """
    if name is None and type(typed).__module__.startswith("statsmodels."):
        name = type(typed.link).__name__.lower()
    if name is None:
        name = family.link
    if name not in family.links:
        few = "link" if len(family.links) == 1 else "links"
        raise RequestError(
            f"family={family.name!r} has {few} {', '.join(map(repr, family.links))}, got "
            f"link={shown(name)}.{did_you_mean(str(name), family.links)}"
        )
    return LINKS[name]
