"""The explained share of a variance: one estimator, in [0, 1], with the set of shares in doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Explained", "explained"]


@dataclass(frozen=True)
class Explained:
    """A share ``R = 1 - D / N`` and its 95 % interval, all of them in [0, 1]."""

    value: float
    se: float
    low: float
    high: float

    def named(self, key: str) -> dict[str, float]:
        """Return the four under the names of fit statistics."""
        ends = {f"{key}_low": self.low, f"{key}_high": self.high}
        return {key: self.value, f"{key}_se": self.se, **ends}


def explained(
    left: float, total: float, noise: tuple[float, float, float], sampling: float = 0.0,
    z: float = 1.959963984540054,
) -> Explained:  # fmt: skip
    """Return the share that ``left`` leaves of ``total``, by Fieller's set cut to [0, 1].

    The set ``{R: (D - (1 - R) N)^2 <= z^2 Var}`` covers whether or not N is well above its noise,
    so whether a share is shown need not depend on how the noise fell. Where it is no interval, or
    a noisy N is not positive, all of [0, 1] is in doubt.

    Parameters
    ----------
    left, total : float
        D and N, as released.
    noise : (variance of D, covariance, variance of N)
    sampling : float
        Variance of R by sampling, where one is claimed.
    """
    one, both, other = noise
    safe = max(total, math.sqrt(max(other, 0.0)), 1e-300)
    ratio = left / safe
    value = min(max(1.0 - ratio, 0.0), 1.0)
    spread = max(one - 2.0 * ratio * both + ratio * ratio * other, 0.0) / safe**2 + sampling
    # with x = 1 - R: (D - x N)^2 <= z^2 (one - 2 x both + x^2 other + sampling N^2)
    a = total * total - z * z * other
    if not (a > 0.0 and total > 0.0):
        return Explained(value, math.sqrt(spread), 0.0, 1.0)
    b = left * total - z * z * both
    c = left * left - z * z * (one + sampling * total * total)
    root = math.sqrt(max(b * b - a * c, 0.0))
    high, low = (min(max(1.0 - (b + sign * root) / a, 0.0), 1.0) for sign in (-1.0, 1.0))
    return Explained(value, math.sqrt(spread), min(low, value), max(high, value))
