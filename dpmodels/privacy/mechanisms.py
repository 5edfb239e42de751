"""Kinds of mechanism, each answering for its own privacy curve.

The unit of account is *a mechanism of the plan*: its kind and its parameters. An (eps, delta)
pair alone is never stored when the mechanism knows more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpmodels.privacy.gdp import delta_gdp

__all__ = ["RDP", "Approximate", "Gaussian", "Mechanism", "Profile", "Pure"]


@dataclass(frozen=True)
class Gaussian:
    """A release with the curve of mu-Gaussian DP."""

    mu: float
    kind: str = field(default="gaussian", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps)."""
        return delta_gdp(eps, self.mu)


@dataclass(frozen=True)
class Pure:
    """A pure eps-DP mechanism."""

    eps: float
    kind: str = field(default="pure", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the worst pure mechanism, randomised response."""
        return max(0.0, -math.expm1(eps - self.eps) / (1.0 + math.exp(-self.eps)))


@dataclass(frozen=True)
class Approximate:
    """A mechanism known only as a pair (eps, delta); (0, delta) is a failure probability."""

    eps: float
    delta: float
    kind: str = field(default="approximate", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps): the tightest that the pair implies."""
        return self.delta + (1 - self.delta) * Pure(self.eps).delta_at(eps)


@dataclass(frozen=True)
class Profile:
    """A mechanism with a known exact (or proved) profile delta(eps)."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    profile: Callable[[float], float] = field(compare=False, repr=False)
    kind: str = field(default="profile", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps)."""
        return self.profile(eps)


@dataclass(frozen=True)
class RDP:
    """A mechanism known by its Renyi curve alpha -> eps(alpha)."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    curve: Callable[[float], float] = field(compare=False, repr=False)
    kind: str = field(default="rdp", init=False)

    def delta_at(self, eps: float) -> float:
        """Return the delta that the curve converts to at ``eps``."""
        best = 1.0
        for k in range(1, 400):
            alpha = 1.0 + math.expm1(k * 0.02) + 1e-6
            r = self.curve(alpha)
            if math.isfinite(r):
                log_delta = (
                    (alpha - 1) * (r - eps) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)
                )
                best = min(best, math.exp(min(0.0, log_delta)))
        return best


Mechanism = Any  # Gaussian | Pure | Approximate | Profile | RDP
