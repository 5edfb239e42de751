"""Conversions between neighbouring relations, each with its proof in theory.md, section 5.

Replace-one is a removal followed by an addition, so add/remove guarantees imply replace-one
guarantees (twice over). Nothing follows in the other direction: with n public, a replace-one
mechanism may publish n itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpmodels.privacy.gdp import mu_of_pure, upper_quantile

if TYPE_CHECKING:
    from dpmodels.privacy.steps import Step

__all__ = [
    "add_remove_request",
    "gaussian_form",
    "gaussian_replace",
    "pair_replace",
    "replace_delta",
]


def pair_replace(eps: float, delta: float) -> tuple[float, float]:
    """Return the replace-one pair (2 eps, (1 + e^eps) delta) of an add/remove (eps, delta)."""
    return 2.0 * eps, min(1.0, (1.0 + math.exp(eps)) * delta)


def add_remove_request(eps: float, delta: float) -> tuple[float, float]:
    """Return the add/remove pair to ask for so that replace-one (eps, delta) follows."""
    return eps / 2.0, delta / (1.0 + math.exp(eps / 2.0))


def gaussian_replace(mu: float, failure: float) -> tuple[float, float]:
    """Return (2 mu, failure') of an add/remove curve dG(eps; mu) + failure, all real eps.

    failure' = failure + Phi(Phi^{-1}(failure) + mu).
    """
    from scipy.special import ndtr

    if failure <= 0:
        return 2.0 * mu, 0.0
    if failure >= 1:
        return 2.0 * mu, 1.0
    return 2.0 * mu, min(1.0, failure + float(ndtr(mu - upper_quantile(failure))))


def gaussian_form(steps: tuple[Step, ...]) -> tuple[float, float] | None:
    """Return (mu, failure) with curve <= dG(eps; mu) + failure, or None."""
    from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure

    mu2 = failure = 0.0
    for step in steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            mu2 += mu_of_pure(m.eps) ** 2
            failure += m.delta if isinstance(m, Approximate) else 0.0
        else:
            return None
    return math.sqrt(mu2), failure


def replace_delta(
    steps: tuple[Step, ...], eps: float, add_remove: Callable[[float], float]
) -> float:
    """Return a replace-one delta(eps) of steps proved under add/remove: the smaller bound."""
    from dpmodels.privacy.gdp import delta_gdp

    bound = (1.0 + math.exp(min(700.0, eps / 2.0))) * add_remove(eps / 2.0)
    form = gaussian_form(steps)
    if form is not None:
        mu, failure = gaussian_replace(*form)
        bound = min(bound, delta_gdp(eps, mu) + failure)
    return min(1.0, bound)
