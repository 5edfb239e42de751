"""Interface of noise, and reproducible noise from a seed: what is made with that is not private."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt


class NoiseSource(Protocol):
    """Interface of a source of noise. ``private`` is False for seeded and test sources."""

    private: bool

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw integers with P(k) proportional to exp(-k^2 / (2 sigma2))."""

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Draw integers with P(k) proportional to exp(-|k| / scale)."""

    def bernoulli(self, p: float) -> bool:
        """Draw an event of probability ``p``."""

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """Draw float standard normals."""

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Draw floats in (0, 1)."""

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """Draw float standard exponentials."""

    def integers_below(self, n: int, size: int) -> list[int]:
        """Draw uniform integers in 0..n-1."""

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Draw a uniform permutation of 0..n-1."""

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Draw uniform bytes."""


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
