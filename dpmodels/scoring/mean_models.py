"""Generalised linear models to the engine: score and expected information of a family and a link.

The start is least squares of a working response (:class:`Working`), moved to the link's scale;
what is rare, and what that changes, stands in :mod:`dpmodels.scoring.mean_models`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows, clip, where
from dpmodels.families import Family, Link
from dpmodels.lazy import special
from dpmodels.scoring import rules
from dpmodels.scoring.models import (
    Beginning,
    Evaluate,
    Model,
    Start,
    State,
    mass_of,
    mean_row,
    scaled_up,
    whitening,
)
from dpmodels.scoring.rules import PassShares
from dpmodels.variables import Binary, Count

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sums.scaling import UnitScale


@dataclass(frozen=True)
class Working:
    """The response of the start of a mean model: public map of y to t in [-1, 1]."""

    family: Family
    log: bool  # ``log(y + offset)``; else ``2 y - 1``
    small: float  # Constant added before the logarithm
    # middle, half: middle and half width of its public range.
    middle: float
    half: float
    place: int | None = None  # Row of the block that holds an offset, subtracted from the logarithm
    exposure: float = 0.0  # Middle of the public range of the offset

    def of(self, z: Rows) -> Rows:
        """Return the working response of a row (m,); NaN where the family has no such value."""
        y: Any = z[-1]
        t = y
        if self.log:
            t = np.log(y + self.small)
            t = t if self.place is None else t - z[self.place]
            t = clip((t - self.middle) / self.half, -1.0, 1.0)
        else:
            t = y * 2.0 - 1.0
        return where(self.family.valid(y), t, np.nan)


@dataclass(frozen=True)
class MeanModel(Model):
    """A generalised linear model: expected information, score of the quasi-likelihood."""

    family: Family = None  # type: ignore[assignment]
    link: Link = None  # type: ignore[assignment]
    alpha: float | None = None
    pass_shares: PassShares = rules.MEANS
    averages: bool = False
    weighted: bool = True
    of_residual: bool = False
    amounts: bool = False  # The declared range holds no whole count but 0
    doubtful: bool = False  # Counts that are declared as numbers, and may be amounts
    shares: bool = False  # The response of an event's family is a share, which may vary less

    @classmethod
    def of(cls, family: Family, link: Link, alpha: float | None = None) -> MeanModel:
        """Return the score of a family with a link; without ``alpha`` it is found by moments."""
        return cls(
            family=family,
            link=link,
            alpha=alpha,
            bounded=link.name == "logit",
            # alpha is found by moments
            learns_scale=family.dispersion == "alpha" and alpha is None,
            cells="whole" if family.is_event or family.counts == "whole" else "log",
            is_event=family.is_event,
            outcomes=(0.0, 1.0) if family.is_event else None,
            can_be_rare=link.name == "logit" or family.counts == "whole",
            counts_events=family.is_event or family.counts == "whole",
        )

    def bound(self, design: Design, unit: UnitScale | None = None) -> MeanModel:
        """Return the score with the working response of a design's public range."""
        assert design.response is not None
        place, exposure, spread = design.auxiliary_place("offset"), 0.0, 0.0
        if self.family.is_event:
            working = Working(self.family, False, 0.0, 0.0, 1.0)
            return replace(self, working=working, shares=not design.levels)
        interval = design.response.interval
        assert interval is not None
        family = self.family
        top = max(interval[1], 1e-300)
        if top < 1.0 and family.counts:
            family = replace(family, counts="loose")
        declared = design.kinds.get(design.response.name)
        doubtful = family.counts == "whole" and not isinstance(declared, Count | Binary)
        part = rules.AMOUNT_PART if top < 1.0 else family.small
        small = top * part if part < 0.5 else min(0.5, top / 4.0)
        low, high = math.log(max(interval[0], 0.0) + small), math.log(top + small)
        if place is not None:
            of_place = design.z[place].interval
            assert of_place is not None
            exposure, spread = (of_place[0] + of_place[1]) / 2.0, (of_place[1] - of_place[0]) / 2.0
        middle, half = (low + high) / 2.0 - exposure, (high - low) / 2.0 + spread
        working = Working(
            family, True, small, middle, max(half, 1e-3), place=place, exposure=exposure
        )
        outcomes = (0.0, 1.0) if isinstance(declared, Binary) else None
        return replace(
            self, working=working, family=family, amounts=top < 1.0, doubtful=doubtful,
            outcomes=outcomes,
        )  # fmt: skip

    def begin(self, start: Beginning) -> State:
        """Return the link of the mean response."""
        mean = 0.5 if self.family.is_event else 1.0
        alpha = self.family.alpha
        if start.values is not None:
            mean = max(start.values.mean, 1e-3 * (self.working.small if self.amounts else 1.0))
            if self.family.is_event:
                mean = min(max(mean, rules.EVENT_MEAN[0]), rules.EVENT_MEAN[1])
        if self.family.dispersion == "alpha":
            unbounded = self.alpha
            if unbounded is None:
                spread = 1.0 if start.values is None else (start.values.sd / mean) ** 2
                unbounded = spread - 1.0 / mean
            alpha = min(max(unbounded, rules.ALPHA[0]), rules.ALPHA[1])
        theta = start.at(self.link.forward(mean) - self.working.exposure)
        return start.state(theta, nuisance=alpha)

    def start(self, start: Start) -> State:
        """Return the start of the working response, moved to the link's scale."""
        theta, mean, spread = self._events(start) if self.family.is_event else self._logs(start)
        alpha, working = self.family.alpha, self.working
        mean *= math.exp(working.exposure) if working.log else 1.0
        if self.family.dispersion == "alpha":
            alpha = self.alpha if self.alpha is not None else spread - 1.0 / mean
            alpha = min(max(alpha, rules.ALPHA[0]), rules.ALPHA[1])
        eta = np.array([self.link.forward(mean)])
        variance = float(self.family.variance(np.array([mean]), alpha)[0])
        H = float(self.link.slope(eta)[0]) ** 2 / variance * start.M
        phi = 1.0
        if self.family.dispersion == "free" or self.amounts:
            least = 0.0 if self.amounts else self.family.least
            phi = max(least, mean * mean * min(max(spread, 1e-3), 1.0) / variance)
        W = whitening(H)
        return State(theta, W, phi, start.M, nuisance=alpha, constant=start.constant)

    def _events(self, start: Start) -> tuple[Array, float, float]:
        """Return (theta, mean, 0): slopes of the linear probability over those of the mean."""
        if start.constant is None:
            slope = float(self.link.slope(np.zeros(1))[0])
            return start.theta / (2.0 * slope), 0.5, 0.0
        a = start.constant
        centre, length = mean_row(start.M, a), float(np.linalg.norm(a))
        # of theta'M a = h'a and of a'Ma in svec coordinates: entries off the diagonal over sqrt 2
        sd = 0.5 * start.noise * length * (math.sqrt(0.5) / rules.RESPONSE_UNIT + length)
        least = max(2.0 * sd / mass_of(start.M, a), rules.MIN_EVENT_SHARE)  # that is believed
        least = min(least, rules.EVENT_MEAN[0])
        mean = min(max((1.0 + float(start.theta @ centre)) / 2.0, least), 1.0 - least)
        eta = self.link.forward(mean)
        slopes = start.theta / (2.0 * float(self.link.slope(np.array([eta]))[0]))
        return slopes + start.constant * (eta - float(slopes @ centre)), mean, 0.0

    def _logs(self, start: Start) -> tuple[Array, float, float]:
        """Return (theta, mean, squared coefficient of variation) of the start with a log link.

        They are the log-normal moments of least squares of the log response, with caps. Counts
        with a mean below 1 have their own rule (:meth:`_few_counts`).
        """
        w = self.working
        theta, variance = w.half * start.theta, w.half**2 * start.variance
        spread = math.expm1(min(variance, 5.0))
        if start.constant is None:
            return theta, 1.0, spread
        few = self._few_counts(start)
        if few is not None:
            return few
        theta = theta + (w.middle + 0.5 * min(variance, 5.0)) * start.constant
        centre = mean_row(start.M, start.constant)
        most = w.middle + w.half
        return theta, math.exp(min(max(float(theta @ centre), most - 12.0), most)), spread

    def _few_counts(self, start: Start) -> tuple[Array, float, float] | None:
        """Return the start of counts with a mean below 1, or None for any other response or mean.

        For such means the logarithm of the mean is not the mean of the logarithm. It is found by
        ``E log(y + small)`` of a Poisson y, and slopes are over its derivative.
        """
        w, family = self.working, self.family
        assert start.constant is not None
        if not family.counts or self.amounts:
            return None
        centre = mean_row(start.M, start.constant)
        level = w.half * float(start.theta @ centre) + w.middle + w.exposure
        mean = mean_of_log(level, w.small)
        if mean >= rules.RARE_MEAN:
            return None
        slopes = w.half * (start.theta - start.explained_by_noise) / slope_of_log(mean, w.small)
        eta = math.log(mean) - w.exposure
        theta = slopes + start.constant * (eta - float(slopes @ centre))
        return theta, math.exp(eta), 1.0

    def typical_long(self, state: State) -> float:
        """Return the length of the score of an event, or of a count of 1 if these are rare, or 0.

        ``|s| = |w| |psi|``, ``|w|^2 = r/omega``: of an event with probability m and information
        ``m (1 - m)`` this is ``sqrt(r (1 - m)/m)``, of a count of 1 ``sqrt(r/mean)``.
        """
        if state.constant is None or not (self.is_event or self.family.counts):
            return 0.0
        r = len(state.W)
        if self.is_event:
            mean = _event_share(self.link, state)
            return math.sqrt(r * (1.0 - mean) / (mean * min(state.phi, 1.0)))
        mean = _count_mean(self.family, state)
        phi = max(state.phi, 1.0)
        return math.sqrt(r * phi / mean) if mean < rules.RARE_MEAN else 0.0

    def events_of(self, state: State, before: Array, eta: Array) -> Array:
        """Return events (or counts) at linear predictors, over the information as of before."""
        mean = self.link.inverse(eta)
        rarer = np.minimum(mean, 1.0 - mean) if self.is_event else mean / unit_of(state)
        omega = self.family.score(mean, before, self.link, state.nuisance)[1]
        return np.asarray(rarer / np.maximum(omega, 1e-300))

    def evaluate(self, state: State) -> Evaluate:
        """Return the family's score over ``sqrt(phi)`` and its expected information."""
        family, link = self.family, self.link
        root, alpha = math.sqrt(state.phi), state.nuisance

        def rows(eta: Array, y: Array) -> tuple[Array, Array]:
            psi, omega = family.score(y, eta, link, alpha)
            psi /= root
            return psi, omega

        return rows

    def whole_ratio(self, state: State, d: Array, ratio: float | None) -> float | None:
        """Return the scale ratio of counts that may be amounts, which vary less than counts.

        The square of a rare event is cut. Rare counts vary as their true mean, and early fits sit
        at too high a mean, which the step d lowers. What is left decides: counts have a dispersion
        of at least 1, amounts any.
        """
        if ratio is None or not (self.doubtful and few_counts(self.family, state)):
            return ratio
        assert state.constant is not None
        move = float(mean_row(state.M, state.constant) @ state.W.T @ d)
        left = min(max(1.0 + move, rules.SCALE_UPDATE_RANGE[0]), 1.0)
        left *= min(rules.SCALE_CUT * _count_mean(self.family, state), 1.0)
        amounts = state.phi * ratio / left < rules.AMOUNTS_VARY
        return ratio if amounts else max(ratio, 1.0 / (rules.SCALE_UPDATE * state.phi))

    def most(self, state: State) -> tuple[float, float]:
        """Return bounds of the logit score: residuals of an event are below 1."""
        if self.link.name == "logit":
            return 1.0 / math.sqrt(state.phi), 0.25
        return math.inf, math.inf

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the dispersion, or alpha by moments: both from the mean squared score."""
        if ratio is None:
            return state
        if self.family.dispersion != "alpha" or self.alpha is not None:
            phi = scaled_up(state.phi, ratio)
            few = few_counts(self.family, state) and not self.doubtful
            if (self.family.is_event and not self.shares) or few:
                phi = max(phi, 1.0)  # early fits sit at too high a mean: never below the model's
            return replace(state, phi=phi)
        # (1 + alpha m)/(1 + alpha0 m) = ratio at a typical mean m
        mean = self._typical(state)
        over = (1.0 + state.nuisance * mean) * scaled_up(state.phi, ratio)
        alpha = min(max((over - 1.0) / mean, rules.ALPHA[0]), rules.ALPHA[1])
        phi = 1.0
        if self.doubtful or self.amounts:
            phi = min(over / (1.0 + alpha * mean), 1.0)
        return replace(state, nuisance=alpha, phi=phi)

    def white(self, before: State, after: State, H: Array) -> Array:
        """Return the root of the information, moved to the new alpha at a typical mean."""
        W = whitening(H)
        if after.nuisance == before.nuisance:
            return W
        mean = self._typical(before)
        moved = (1.0 + after.nuisance * mean) / (1.0 + before.nuisance * mean)
        return np.asarray(W * math.sqrt(moved))

    def _typical(self, state: State) -> float:
        """Return the mean response at the average row."""
        if state.constant is None:
            return 1.0
        eta = float(state.theta @ mean_row(state.M, state.constant)) + self.working.exposure
        return math.exp(min(max(eta, self.link.reach[0]), 12.0))

    def unit(self, state: State) -> float:
        """Return 1: the linear predictor has no unit."""
        return 1.0


# -- Rare events and rare counts: how long their scores are, and how fast their information mov


#: Counts up to here are enough for means up to 4.
_COUNTS = np.arange(40.0)


def _weight(state: State) -> float:
    """Return the geometric mean of released information over second moments: omega, typically.

    ``det(W M W)^{-1/r}``, as ``H = W^{-2}`` in u.
    """
    share = state.W @ state.M @ state.W
    return math.exp(-float(np.linalg.slogdet(share)[1]) / len(share))


def _event_share(link: Link, state: State) -> float:
    """Return the share of the rarer of event and non-event."""
    if link.name == "logit":  # omega = m (1 - m)
        omega = min(_weight(state), 0.25)
        return max(0.5 * (1.0 - math.sqrt(1.0 - 4.0 * omega)), rules.MIN_EVENT_SHARE)
    assert state.constant is not None
    eta = float(state.theta @ mean_row(state.M, state.constant))
    mean = float(link.inverse(np.array([eta]))[0])
    return max(min(mean, 1.0 - mean), rules.MIN_EVENT_SHARE)


def unit_of(state: State) -> float:
    """Return the size of one event: 1, or the released dispersion if amounts vary less."""
    return min(state.phi, 1.0)


def _count_mean(family: Family, state: State) -> float:
    """Return the mean number of events at a typical row: ``omega = mu/(1 + alpha mu)``."""
    omega, alpha = _weight(state), state.nuisance
    mean = omega / max(1.0 - alpha * omega, 0.1)
    return max(mean / unit_of(state), rules.MIN_EVENT_SHARE)


def few_counts(family: Family, state: State) -> bool:
    """Return whether the response is of whole counts that are rare."""
    if family.counts != "whole" or state.constant is None or state.phi < 1.0:
        return False
    return _count_mean(family, state) < rules.RARE_MEAN


def _mean_log(mean: float, small: float) -> float:
    """Return ``E log(y + small)`` of a Poisson y."""
    weight = np.exp(_COUNTS * math.log(mean) - mean - special.gammaln(_COUNTS + 1.0))
    return float(weight @ np.log(_COUNTS + small))


@functools.lru_cache(maxsize=64)
def _table(small: float) -> tuple[Array, Array]:
    """Return (log means, ``E log(y + small)`` there), means from 1/1000 to 4."""
    logs = np.linspace(math.log(1e-3), math.log(4.0), 400)
    return logs, np.array([_mean_log(math.exp(x), small) for x in logs])


def mean_of_log(level: float, small: float) -> float:
    """Return the mean of a Poisson y with ``E log(y + small)`` = level, within [1/1000, 4]."""
    logs, levels = _table(small)
    return math.exp(float(np.interp(level, levels, logs)))


def slope_of_log(mean: float, small: float) -> float:
    """Return the derivative of ``E log(y + small)`` in the log of the mean, at least 1/1000."""
    by = _mean_log(mean * 1.01, small) - _mean_log(mean / 1.01, small)
    return max(by / (2.0 * math.log(1.01)), 1e-3)
