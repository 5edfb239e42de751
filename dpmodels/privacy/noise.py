"""The one place where noise is drawn.

``ExactNoise`` (the default): discrete Gaussian and discrete Laplace draws by rejection with
integers only, from operating-system entropy (Canonne, Kamath and Steinke 2020). ``SeededNoise``:
numpy, reproducible, and then the result says NOT PRIVATE.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ExactNoise", "NoiseSource", "SeededNoise", "make_noise"]


class _Bits:
    """Uniform integers from operating-system entropy, read in blocks."""

    def __init__(self) -> None:
        self._pool = 0
        self._left = 0

    def bits(self, k: int) -> int:
        if self._left < k:
            self._pool = int.from_bytes(os.urandom(4096 + k // 8), "big")
            self._left = 8 * (4096 + k // 8)
        out = self._pool & ((1 << k) - 1)
        self._pool >>= k
        self._left -= k
        return out

    def below(self, n: int) -> int:
        k = n.bit_length()
        while True:
            v = self.bits(k)
            if v < n:
                return v


class ExactNoise:
    """Exact integer noise from operating-system entropy."""

    private = True

    def __init__(self) -> None:
        self._bits = _Bits()

    def _bernoulli(self, num: int, den: int) -> bool:
        return self._bits.below(den) < num

    def _bernoulli_exp1(self, num: int, den: int) -> bool:
        """Bernoulli(exp(-num/den)) for 0 <= num/den <= 1."""
        k = 1
        while self._bernoulli(num, den * k):
            k += 1
        return k % 2 == 1

    def _bernoulli_exp(self, num: int, den: int) -> bool:
        whole, rest = divmod(num, den)
        for _ in range(whole):
            if not self._bernoulli_exp1(1, 1):
                return False
        return self._bernoulli_exp1(rest, den)

    def _laplace(self, t: int) -> int:
        """Discrete Laplace with integer scale t."""
        while True:
            u = self._bits.below(t)
            if not self._bernoulli_exp1(u, t):
                continue
            v = 0
            while self._bernoulli_exp1(1, 1):
                v += 1
            value = u + t * v
            negative = self._bits.bits(1)
            if negative and value == 0:
                continue
            return -value if negative else value

    def _gaussian(self, sigma2: Fraction) -> int:
        t = math.isqrt(sigma2.numerator // sigma2.denominator) + 1
        num, den = sigma2.numerator, sigma2.denominator
        while True:
            y = self._laplace(t)
            # exp(-(|y| - sigma2/t)^2 / (2 sigma2)), all in integers
            a = abs(y) * t * den - num
            if self._bernoulli_exp(a * a, 2 * num * den * t * t):
                return y

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw ``size`` integers with P(k) proportional to exp(-k^2 / (2 sigma2))."""
        return [self._gaussian(sigma2) for _ in range(size)]

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """High-entropy float normals, one fresh 64-bit word each; not exact, see the note."""
        from scipy.special import ndtri

        u = (np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)).astype(float)
        return np.asarray(ndtri((u + 0.5) * 2.0**-53))

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Uniforms (k + 1/2) 2^-53 from operating-system entropy."""
        u = (np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)).astype(float)
        return (u + 0.5) * 2.0**-53

    def bernoulli(self, p: float) -> bool:
        """Draw an event of probability ``p`` exactly: ``p`` is a fraction with denominator 2^k."""
        if p <= 0.0:
            return False
        num, den = p.as_integer_ratio()
        return self._bits.below(den) < num

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Uniform permutation of 0..n-1 (ties of 64-bit keys have probability below n^2 2^-65)."""
        keys = np.frombuffer(os.urandom(8 * n), dtype=np.uint64)
        return np.argsort(keys, kind="stable")


class SeededNoise:
    """Reproducible noise for tests and vignettes. A result made with it is NOT PRIVATE."""

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw rounded normals."""
        sd = math.sqrt(sigma2)
        return [round(v) for v in self._rng.normal(0.0, sd, size).tolist()]

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


NoiseSource = Any  # ExactNoise | SeededNoise (a Protocol once both are complete)


def make_noise(seed: int | None) -> NoiseSource:
    """Return exact noise, or seeded noise if a seed is given."""
    return ExactNoise() if seed is None else SeededNoise(int(seed))
