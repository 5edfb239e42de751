"""The one place where noise is drawn.

``ExactNoise`` (the default): discrete Gaussian and discrete Laplace draws by rejection with
integers only, from operating-system entropy (Canonne, Kamath and Steinke 2020). ``SeededNoise``:
numpy, reproducible, and then the result says NOT PRIVATE.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.errors import PrivacyBugError
from dpmodels.privacy import bulk
from dpmodels.privacy.propose import Chance

#: So many draws are made at once; fewer one by one.
_MANY = 12


class NoiseSource(Protocol):
    """What a source of noise offers. ``private`` is False for seeded and test sources."""

    private: bool

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw integers with P(k) proportional to exp(-k^2 / (2 sigma2))."""
        ...

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Draw integers with P(k) proportional to exp(-|k| / scale)."""
        ...

    def bernoulli(self, p: float) -> bool:
        """Draw an event of probability ``p``."""
        ...

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """Draw float standard normals."""
        ...

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Draw floats in (0, 1)."""
        ...

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """Draw float standard exponentials."""
        ...

    def integers_below(self, n: int, size: int) -> list[int]:
        """Draw uniform integers in 0..n-1."""
        ...

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Draw a uniform permutation of 0..n-1."""
        ...

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Draw uniform bytes."""
        ...


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
        k = (n - 1).bit_length()
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

    def _laplace_rational(self, num: int, den: int) -> int:
        """Discrete Laplace with scale num/den (Canonne, Kamath and Steinke 2020, Algorithm 2)."""
        while True:
            u = self._bits.below(num)
            if not self._bernoulli_exp1(u, num):
                continue
            v = 0
            while self._bernoulli_exp1(1, 1):
                v += 1
            value = (u + num * v) // den
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
        return list(map(int, self.discrete_gaussians([sigma2], [size])))

    def discrete_gaussians(
        self, variances: Sequence[Fraction], sizes: Sequence[int]
    ) -> list[int] | npt.NDArray[np.int64]:
        """Draw several groups at once, each with its variance, one group after the other."""
        if any(sigma2 <= 0 for sigma2 in variances):
            raise ValueError("the variance must be positive")
        if sum(sizes) >= _MANY and max(variances) <= bulk.LARGEST**2:
            return bulk.gaussians(variances, sizes)
        pairs = zip(variances, sizes, strict=True)
        return [self._gaussian(sigma2) for sigma2, size in pairs for _ in range(size)]

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Draw ``size`` integers with P(k) proportional to exp(-|k| / scale)."""
        if scale <= 0:
            raise ValueError("the scale must be positive")
        num, den = scale.numerator, scale.denominator
        if size >= _MANY and max(num, den) <= bulk.LARGEST:
            return bulk.laplaces(scale, size)
        return [self._laplace_rational(num, den) for _ in range(size)]

    def integers_below(self, n: int, size: int) -> list[int]:
        """Draw ``size`` uniform integers in 0..n-1."""
        return [self._bits.below(n) for _ in range(size)]

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """High-entropy float exponentials; not exact, see the note."""
        u = self.uniforms(size)
        np.log(u, out=u)
        return np.negative(u, out=u)

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """High-entropy float normals, one fresh 64-bit word each; not exact, see the note."""
        from scipy.special import ndtri

        u = self.uniforms(size)
        return np.asarray(ndtri(u, out=u))

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Uniforms (k + 1/2) 2^-53 from operating-system entropy."""
        u = (np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)).astype(float)
        u += 0.5
        u *= 2.0**-53
        return u

    def bernoulli(self, p: float) -> bool:
        """Draw an event of probability ``p`` exactly: a float is a fraction with a 2^k below.

        Random bits are compared with the binary expansion of ``p``; probabilities as small as
        1e-300 are drawn as they are, not as 0. Near 1, where floats have no digits for 1 - p, the
        complement of a ``Chance`` is drawn.
        """
        if not 0.0 <= p <= 1.0:
            raise ValueError("a probability lies in [0, 1]")
        if isinstance(p, Chance) and p.complement < p:
            return not self.bernoulli(p.complement)
        num, den = p.as_integer_ratio()
        return self._bits.below(den) < num

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Uniform permutation of 0..n-1 (ties of 64-bit keys have probability below n^2 2^-65)."""
        keys = np.frombuffer(os.urandom(8 * n), dtype=np.uint64)
        return np.asarray(np.argsort(keys), dtype=np.intp)

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Uniform bytes from operating-system entropy."""
        return np.frombuffer(os.urandom(size), dtype=np.uint8)


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


def make_noise(seed: int | None) -> NoiseSource:
    """Return exact noise, or seeded noise if a seed is given."""
    return ExactNoise() if seed is None else SeededNoise(int(seed))


# -- Integer weights of the exponential mechanism, and an exact draw from them


#: Bits of the weights of the exponential mechanism.
_WEIGHT_BITS = 512
#: Candidates whose weight is below e^-80 over their number are not told apart.
_CUT = 80.0
#: Bits of a digit of a step, and their mask.
_DIGIT, _LOW = 8, 255


#: Largest rate a step: beyond it 512 bits do not hold the ratio of two weights.
STEEPEST = 250.0


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
        rate = min(rate, STEEPEST)  # a flatter choice than was paid for, where weights would vanish
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
