"""Tightest proved composition of the steps of one plan (parameters fixed in advance).

delta(eps) = sum of delta_i + dG(eps - sum of eps_i; sqrt(sum of mu_i^2)); by dominating pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpmodels.privacy.gdp import delta_gdp
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure
from dpmodels.privacy.steps import Step

__all__ = ["delta_of_parts", "eps_of_parts"]


def _totals(steps: Iterable[Step]) -> tuple[float, float, float]:
    """Return (mu, eps, delta) sums of the Gaussian and of the pair-like parts."""
    mu2 = eps = delta = 0.0
    for step in steps:
        mechanism = step.mechanism
        delta += step.failure
        if isinstance(mechanism, Gaussian):
            mu2 += mechanism.mu**2
        elif isinstance(mechanism, Pure):
            eps += mechanism.eps
        elif isinstance(mechanism, Approximate):
            eps += mechanism.eps
            delta += mechanism.delta
        else:
            raise TypeError(f"cannot compose a {type(mechanism).__name__}")
    return math.sqrt(mu2), eps, delta


def delta_of_parts(steps: Iterable[Step], eps: float) -> float:
    """Return delta(eps) of the joint release of all steps."""
    mu, eps_sum, delta_sum = _totals(steps)
    return min(1.0, delta_sum + delta_gdp(eps - eps_sum, mu))


def eps_of_parts(steps: Iterable[Step], delta: float) -> float:
    """Return the smallest eps >= 0 with delta(eps) <= delta (infinity if there is none)."""
    from dpmodels.privacy.gdp import eps_gdp

    mu, eps_sum, delta_sum = _totals(steps)
    if mu == 0:
        return eps_sum if delta >= delta_sum else math.inf
    if delta <= delta_sum:
        return math.inf
    return eps_sum + eps_gdp(mu, delta - delta_sum)
