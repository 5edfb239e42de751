"""Integer weights of the exponential mechanism, and an exact draw from them.

``models/table/theory.md``, 2.1.
"""

from __future__ import annotations

import decimal
import math
from functools import lru_cache
from typing import TYPE_CHECKING

from dpmodels.errors import PrivacyBugError

if TYPE_CHECKING:
    from dpmodels.privacy.noise import NoiseSource

__all__ = ["drawn_from", "exponential_weights"]

#: Bits of the weights of the exponential mechanism.
_WEIGHT_BITS = 512
#: Candidates whose weight is below e^-80 over their number are not told apart.
_CUT = 80.0


@lru_cache(maxsize=64)
def exponential_weights(
    rate: float, candidates: int, largest: int = 1 << 62
) -> tuple[int, ...]:
    """Return integers proportional to ``exp(-rate k)``, k = 0, 1, ..., to where it stops mattering.

    512 bits of fixed point: the last weight is at least ``2^512 e^{-80 - log candidates - rate}``,
    above 2^300, and the relative error of each below ``2^-190`` of the number of steps.
    """
    last = min(math.ceil((_CUT + math.log(candidates)) / rate), largest)
    with decimal.localcontext() as context:
        context.prec = 180
        ratio = int((-decimal.Decimal(rate)).exp() * (1 << _WEIGHT_BITS))
    weights = [1 << _WEIGHT_BITS]
    for _ in range(last):
        weights.append((weights[-1] * ratio) >> _WEIGHT_BITS)
    return tuple(weights)


def drawn_from(masses: list[int], noise: NoiseSource) -> int:
    """Return k with probability exactly ``masses[k] / sum``."""
    left = noise.integers_below(sum(masses), 1)[0]
    for k, mass in enumerate(masses):
        left -= mass
        if left < 0:
            return k
    raise PrivacyBugError("a draw below the sum of the weights lies in one of them")
