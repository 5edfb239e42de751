"""Reproducible noise from a seed, for tests and vignettes: what is made with it is not private."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt


class SeededNoise:
    """Reproducible noise for tests and vignettes. A result made with it is NOT PRIVATE."""

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw rounded normals."""
        sd = math.sqrt(sigma2)
        return [round(v) for v in self._rng.normal(0.0, sd, size).tolist()]

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Draw differences of geometric numbers (floats cut down for large scales)."""
        e = self._rng.exponential(float(scale), (2, size))
        k = np.floor(e)
        return [int(v) for v in (k[0] - k[1]).tolist()]

    def integers_below(self, n: int, size: int) -> list[int]:
        """Draw uniform integers in 0..n-1."""
        if n > 1 << 62:  # longer than a word; 2^-128 from uniform
            width = n.bit_length() // 8 + 17
            return [int.from_bytes(self._rng.bytes(width), "big") % n for _ in range(size)]
        return [int(v) for v in self._rng.integers(0, n, size).tolist()]

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """Draw standard exponentials."""
        return self._rng.standard_exponential(size)

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """Draw standard normals."""
        return self._rng.standard_normal(size)

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Draw uniforms."""
        return self._rng.random(size)

    def bernoulli(self, p: float) -> bool:
        """Draw an event of probability ``p``."""
        return bool(self._rng.random() < p)

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Draw a uniform permutation."""
        return np.asarray(self._rng.permutation(n))

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Draw uniform bytes."""
        return self._rng.integers(0, 256, size, dtype=np.uint8)
