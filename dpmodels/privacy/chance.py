"""A probability that knows its complement.

Floats near 1 are 1.1e-16 apart, so the complement of one is a multiple of that: a coin that should
fail with probability 1e-20 would never fail, and its neighbours' ratios would not be those stated.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Chance"]


class Chance(float):
    """A probability p with ``complement`` = 1 - p to full relative accuracy.

    Parameters
    ----------
    p, complement : float
        At least one of them is small, and exact as given; they sum to 1 up to rounding.
    """

    complement: float

    def __new__(cls, p: float, complement: float | None = None) -> Chance:
        """Make the pair; ``complement=None`` takes ``p`` as it is."""
        out = super().__new__(cls, p)
        out.complement = 1.0 - p if complement is None else complement
        return out

    def __getnewargs__(self) -> Any:
        return float(self), self.complement
