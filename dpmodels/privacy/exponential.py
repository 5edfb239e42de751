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


class Weights:
    """Integers proportional to ``exp(-rate k)``, k = 0, 1, ..., to where it stops mattering.

    ``w_k = floor(A_i B_j / 2^512)`` with ``k = i m + j``, ``B_j = floor(B_{j-1} rho / 2^512)``
    and ``A_i = floor(A_{i-1} B_m / 2^512)`` in 512 bits of fixed point. Two lists of about
    ``sqrt(last)`` numbers in place of one of ``last``: a quantile whose denominator is large has
    millions of steps, of which a draw sees as many as the grid has points. The last weight is at
    least ``2^512 e^{-80 - log candidates - rate}``, above 2^300, so each floor loses less than
    2^-300 of its product; k floors are behind w_k at most (``models/table/theory.md``, 2.1).
    """

    def __init__(self, rate: float, candidates: int, largest: int) -> None:
        last = min(math.ceil((_CUT + math.log(candidates)) / rate), largest)
        with decimal.localcontext() as context:
            context.prec = 180
            ratio = int((-decimal.Decimal(rate)).exp() * (1 << _WEIGHT_BITS))
        self._short = math.isqrt(last) + 1
        self._fine = _powers(ratio, self._short)
        self._coarse = _powers(self._fine[-1], last // self._short)
        self._last = last

    def __len__(self) -> int:
        return self._last + 1

    def __getitem__(self, k: int) -> int:
        i, j = divmod(k, self._short)
        return (self._coarse[i] * self._fine[j]) >> _WEIGHT_BITS


def _powers(ratio: int, last: int) -> list[int]:
    """Return ratio^0, ..., ratio^last in fixed point."""
    found = [1 << _WEIGHT_BITS]
    for _ in range(last):
        found.append((found[-1] * ratio) >> _WEIGHT_BITS)
    return found


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
