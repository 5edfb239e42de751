"""Rare events and rare counts: how long their scores are, and how fast their information moves.

Of 2 % events each has a score seven times as long as a common one's, all of nearly one length: a
clip that cuts one cuts all of them, and moves the fit however many rows there are. And a step
that moves the mean moves the information with it. Everything here is a function of released
numbers (``theory.md``, 5.9).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.scoring.score import Curved

if TYPE_CHECKING:
    from dpmodels.families import Family, Link
    from dpmodels.scoring.state import State

__all__ = [
    "RARE", "curved", "few_counts", "long_score", "mean_of_log", "slope_of_log",
]  # fmt: skip

#: Counts with a mean below are rare.
RARE = 1.0
#: C over the length of typical long scores.
BEYOND = 1.75
#: Least share of the rarer outcome that is believed: by a logit's information; by a mean.
_LEAST_LOGIT, _LEAST = 1e-4, 1e-3
#: Of the change of the information along a step, half is what second order leaves.
HALF = 0.5
#: The information falls at most to this part of itself (log) along a last step.
_LEAST_STRETCH = -1.5
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
        return max(0.5 * (1.0 - math.sqrt(1.0 - 4.0 * omega)), _LEAST_LOGIT)
    assert state.constant is not None
    eta = float(state.theta @ state.M @ state.constant)
    mean = float(link.inverse(np.array([eta]))[0])
    return max(min(mean, 1.0 - mean), _LEAST)


def _count_mean(family: Family, state: State) -> float:
    """Return the mean of counts at a typical row: ``omega = mu/(1 + alpha mu)``."""
    omega, alpha = _weight(state), state.nuisance
    return max(omega / max(1.0 - alpha * omega, 0.1), _LEAST_LOGIT)


def few_counts(family: Family, state: State) -> bool:
    """Say whether the response is of whole counts that are rare."""
    if family.counts != "whole" or state.constant is None:
        return False
    return _count_mean(family, state) < RARE


def long_score(family: Family, link: Link, state: State) -> float:
    """Return C for the scores of rare events and counts; 0: the model has none.

    ``|s| = |w| |psi|``, ``|w|^2 = r/omega``: of an event with probability m and information
    ``m (1 - m)`` this is ``sqrt(r (1 - m)/m)``, of a count of 1 ``sqrt(r/mean)``.
    """
    if state.constant is None or not (family.is_event or family.counts):
        return 0.0
    r = len(state.W)
    if family.is_event:
        mean = _event_share(link, state)
        return BEYOND * math.sqrt(r * (1.0 - mean) / (mean * min(state.phi, 1.0)))
    mean = _count_mean(family, state)
    return BEYOND * math.sqrt(r * max(state.phi, 1.0) / mean) if mean < RARE else 0.0


def curved(
    family: Family, link: Link, state: State, d: Array, H: Array, noise: float, plain: Curved
) -> Curved:
    """Return what the curvature of a likelihood leaves of a last step (``theory.md``, 5.9).

    With q = d'H d the mean squared change of the linear predictor in units of the information
    h = a'H a of the constant a, the information changes by the part ``rho sqrt(q/h)``; half of it
    is missing in the step. Where a step moves the mean down, the information at its end is the
    part S of that at its start, and errors are 1/S times as large.

    Parameters
    ----------
    plain : Curved
        Where nothing is rare.
    """
    if state.constant is None or not (family.is_event or (family.counts and family.canonical)):
        return plain
    mean = 4.0 * _event_share(link, state) if family.is_event else _count_mean(family, state)
    rho = max(1.0 - mean, 0.0)
    if not rho:
        return plain
    a = np.linalg.solve(state.W, state.constant)
    h = max(float(a @ H @ a), 1e-9)
    square = float(d @ H @ d)
    q = max(square - noise, 0.25 * square)
    moved = rho * float(a @ H @ d) / h
    return Curved(
        max(plain.bend, HALF * rho * math.sqrt(q / h)),
        HALF / 4.0 * rho * q / math.sqrt(h),
        math.exp(min(max(moved, _LEAST_STRETCH), 0.0)),
    )


def _mean_log(mean: float, small: float) -> float:
    """Return ``E log(y + small)`` of a Poisson y."""
    from scipy.special import gammaln

    weight = np.exp(_COUNTS * math.log(mean) - mean - gammaln(_COUNTS + 1.0))
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
