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

__all__ = ["Weights", "drawn_from", "exponential_weights"]

#: Bits of the weights of the exponential mechanism.
_WEIGHT_BITS = 512
#: Candidates whose weight is below e^-80 over their number are not told apart.
_CUT = 80.0
#: Bits of a digit of a step, and their mask.
_DIGIT, _LOW = 8, 255


class Weights:
    """Integers proportional to ``exp(-rate k)``, k = 0, 1, ..., to where it stops mattering.

    ``w_k`` is the product of ``rho^(i 256^j)`` over the digits i of k to the base 256, in 512 bits
    of fixed point, each product rounded down. No list of steps: a quantile whose denominator is
    large has millions of them, of which a draw sees as many as the grid has points. The last
    weight is at least ``2^512 e^{-80 - log candidates - rate}``, above 2^300, so each rounding
    loses less than 2^-300 of its product; w_k is behind by at most 4k + 8 of them
    (``models/table/theory.md``, 2.1).
    """

    def __init__(self, rate: float, candidates: int, largest: int) -> None:
        self._last = min(math.ceil((_CUT + math.log(candidates)) / rate), largest)
        with decimal.localcontext() as context:
            context.prec = 180
            power = int((-decimal.Decimal(rate)).exp() * (1 << _WEIGHT_BITS))
        self._digits: list[list[int]] = []
        while not self._digits or self._last >> (_DIGIT * len(self._digits)):
            powers = [1 << _WEIGHT_BITS]
            for _ in range(1 << _DIGIT):
                powers.append((powers[-1] * power) >> _WEIGHT_BITS)
            power = powers.pop()
            self._digits.append(powers)

    def __len__(self) -> int:
        return self._last + 1

    def __getitem__(self, k: int) -> int:
        weight = self._digits[0][k & _LOW]
        for powers in self._digits[1:]:
            k >>= _DIGIT
            if k & _LOW:
                weight = (weight * powers[k & _LOW]) >> _WEIGHT_BITS
        return weight


@lru_cache(maxsize=64)
def exponential_weights(rate: float, candidates: int, largest: int = 1 << 62) -> Weights:
    """Return :class:`Weights`; remembered, as the draws of one call share them."""
    return Weights(rate, candidates, largest)


def drawn_from(masses: list[int], noise: NoiseSource) -> int:
    """Return k with probability exactly ``masses[k] / sum``."""
    left = noise.integers_below(sum(masses), 1)[0]
    for k, mass in enumerate(masses):
        left -= mass
        if left < 0:
            return k
    raise PrivacyBugError("a draw below the sum of the weights lies in one of them")
