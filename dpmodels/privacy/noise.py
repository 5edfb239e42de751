"""The one place where noise is drawn: exact samplers in integers, and seeded ones for tests.

``ExactNoise`` (the default): discrete Gaussian and discrete Laplace draws by rejection with
integers only, from operating-system entropy (Canonne, Kamath and Steinke 2020). ``SeededNoise``:
numpy, reproducible, and then the result says NOT PRIVATE.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.mechanisms import agm
from dpmodels.privacy.seeded import NoiseSource as NoiseSource
from dpmodels.privacy.seeded import SeededNoise

# -- The coin of efficient Propose-Test-Release (Shen, Tong and Wang, Algorithm 2; general split).
#
# Given a safety lower bound gamma >= 0 that moves by at most 1 between neighbours, and an estimator
# that moves by at most alpha wherever gamma > 0, reply with probability p(gamma) and add Gaussian
# noise. The guarantee is (eps_t + eps_r, delta): delta is the maximum of two cases, not their sum.


# -- A probability that knows its complement


class Chance(float):
    """A probability p with ``complement`` = 1 - p to full relative accuracy.

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


def split_midpoint(eps_t: float, delta: float) -> float:
    """Return M = log((1 - delta) / delta) / eps_t, where the logistic coin is fair."""
    return (math.log1p(-delta) - math.log(delta)) / eps_t


def paper_midpoint(eps: float, delta: float) -> float:
    """Return the paper's M = 1 + (2 / eps) log max(1/delta, 1/eps)."""
    return 1.0 + (2.0 / eps) * math.log(max(1.0 / delta, 1.0 / eps))


def paper_sigma(alpha: float, eps: float, delta: float) -> float:
    """Return the paper's noise sd, raised where the classical constant is not private.

    ``(2 alpha / eps) sqrt(2 log(1.25 / delta))`` fails from eps = 13.5 on at delta = .01; the
    exact value is used there.
    """
    classical = (2.0 / eps) * math.sqrt(2.0 * math.log(1.25 / delta))
    return alpha * max(classical, agm(eps / 2.0, delta))


def reply_probability(gamma: float, eps_t: float, midpoint: float) -> Chance:
    """Return p(gamma) = 1 / (1 + exp(-eps_t (gamma - M))); its log-odds have slope eps_t."""
    t = eps_t * (gamma - midpoint)
    e = math.exp(-abs(t))
    likely, rare = 1.0 / (1.0 + e), e / (1.0 + e)
    return Chance(likely, rare) if t >= 0 else Chance(rare, likely)


def laplace_test_probability(k: float, eps: float, delta: float) -> Chance:
    """Return P(k + Lap(1/eps) >= log(1/delta)/eps): delta/2 at k = 0, 1/2 at the threshold."""
    t = eps * k - math.log(1.0 / delta)
    rare = 0.5 * math.exp(-abs(t))
    return Chance(rare, 1.0 - rare) if t <= 0 else Chance(1.0 - rare, rare)


def integer_coin(gamma: int, eps_t: float, delta: float) -> Chance:
    """Return the sharpest coin on integers: p_0 = delta, then as fast as eps_t allows.

    p_{k+1} = min(exp(eps_t) p_k, 1 - exp(-eps_t) (1 - p_k)).
    """
    p, q = delta, 1.0 - delta
    rise, fall = math.exp(eps_t), math.exp(-eps_t)
    for k in range(int(gamma)):
        if rise * p >= 1.0 - fall * q:  # from here on 1 - p falls by the factor, every time
            q *= math.exp(-eps_t * (int(gamma) - k))
            return Chance(1.0 - q, q)
        p *= rise
        q = 1.0 - p
    return Chance(p, q)


# -- Exact discrete Gaussian and Laplace draws, many at a time.
#
# The algorithms of Canonne, Kamath and Steinke (2020) with one change: an event of probability
# ``exp(-x)`` is decided by comparing a uniform *real* number with ``exp(-x)``. Of the number 64
# random bits are looked at first, against a float ``exp(-x)`` with a proved error; where these do
# not decide (once in about 2^38 events) more bits are drawn and ``exp(-x)`` is computed to more
# digits until they do. Every decision is that of the real numbers, so the law of the draws is exact
# (``theory.md``, 6.8).


Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]
#: Scales up to this are drawn in 64-bit integers: a value is at most 2^6 of them (``_geometric``).
LARGEST = 1 << 56
#: Relative error of a float exp(-x) that decisions allow for; the proof needs 2^-41.
MARGIN = 2.0**-40
#: Proposals to a group exceed the needed number by this many roots of its draws. More would cost as
#: much as a second round, which is rare.
SPARE = 4.0
#: Proposals that are worked on together: their arrays stay in the caches.
_PROPOSALS_AT_ONCE = 1 << 14
#: Largest number of draws that are made one by one.
_ONE_BY_ONE = 5
#: Largest whole part of -log U.
_MOST = 60


def _powers() -> Words:
    """Return exp(-k), k = 44, ..., 1, in units of 2^-64 and rounded down; before them 0."""
    context = Context(prec=60)
    powers = [int(context.exp(Decimal(-k)) * 2**64) for k in range(44, 0, -1)]
    return np.array([0, *powers], dtype=np.uint64)


#: A word that is one of these is undecided: the next bits say on which side of the power it lies.
_POWERS = _powers()


def _words(size: int) -> Words:
    """Return uniform 64-bit words from operating-system entropy."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def exact_below_exp(word: int, num: int, den: int, next_bits: Callable[[int], int]) -> bool:
    """Return whether a uniform real number is below ``exp(-num/den)``, ``num / den >= 0``.

    The number lies in ``[word, word + 1) 2^-64``, and ``next_bits(k)`` gives k further bits of it.
    """
    bits, digits = 64, 40
    while True:
        context = Context(prec=digits, Emin=-(10**9), Emax=10**9)
        x = context.divide(Decimal(num), Decimal(den))
        value = context.exp(context.minus(x))  # correctly rounded
        slack = context.multiply(value, context.multiply(x + 2, Decimal(10) ** (2 - digits)))
        low, high = Fraction(value - slack), Fraction(value + slack)
        if Fraction(word + 1, 1 << bits) <= low:
            return True
        if Fraction(word, 1 << bits) >= high:
            return False
        word, bits, digits = (word << 64) | next_bits(64), bits + 64, digits + 25


def _decided(
    words: Words, p: npt.NDArray[np.float64], exact: Callable[[int], tuple[int, int]]
) -> npt.NDArray[np.bool_]:
    """Return the events "uniform < exp(-x)", p the float exp(-x) within ``MARGIN``.

    ``exact(i)`` gives x of event i as a fraction.
    """
    u = words.astype(np.float64)  # within 2^-53 of the word, relatively
    scaled = p * 2.0**64
    u -= scaled
    yes = u < 0.0
    np.abs(u, out=u)
    scaled *= 2.0 * MARGIN
    scaled += 2.0  # the number goes on beyond the word, and below 2^-64 a float says nothing
    open_ = u <= scaled
    if np.count_nonzero(open_):
        for i in np.flatnonzero(open_).tolist():
            num, den = exact(i)
            yes[i] = exact_below_exp(int(words[i]), num, den, secrets.randbits)
    return yes


def _below(n: int, size: int) -> Integers:
    """Return uniform integers in 0 .. n - 1, by rejection."""
    k = max((n - 1).bit_length(), 1)
    shift = np.uint64(64 - k)
    out: list[npt.NDArray[Any]] = []
    have = 0
    while have < size:
        drawn = _words(int((size - have) * 2.0**k / n * 1.05) + 8) >> shift
        drawn = drawn[drawn < np.uint64(n)]
        out.append(drawn)
        have += len(drawn)
    return np.concatenate(out)[:size].astype(np.int64)


def _geometric(size: int) -> Integers:
    """Return numbers with P(v >= k) = exp(-k): the whole part of -log U.

    One above sixty has probability 1e-26: it would leave 64 bits, and raises.
    """
    words = _words(size)
    passed = np.searchsorted(_POWERS, words, side="right")  # powers up to the word
    straddled = words == _POWERS[passed - 1]  # also a word of 0
    out = len(_POWERS) - passed
    if np.count_nonzero(straddled):
        for i in np.flatnonzero(straddled).tolist():
            out[i] = _whole_log(int(words[i]))
    return out


def _whole_log(word: int) -> int:
    """Return the whole part of -log U from the first 64 bits of U and as many more as it takes."""
    drawn: list[int] = []  # the same bits in every comparison: it is one number
    for v in range(_MOST):
        places = itertools.count()

        def next_bits(k: int, places: Iterator[int] = places) -> int:
            place = next(places)
            if place == len(drawn):
                drawn.append(secrets.randbits(k))
            return drawn[place]

        if not exact_below_exp(word, v + 1, 1, next_bits):
            return v
    raise OverflowError("a number below exp(-60)")


def _magnitudes(t: int, size: int) -> Integers:
    """Return ``u + t v`` with P(k) proportional to ``exp(-k/t)``, k = 0, 1, ..."""
    out: list[Integers] = []
    have = 0
    while have < size:
        m = int((size - have) * 1.62) + 8
        u = _below(t, m)

        def ratio(i: int, u: Integers = u) -> tuple[int, int]:
            return int(u[i]), t

        accepted = _decided(_words(m), np.exp(-(u / t)), ratio)
        u = u[accepted]
        out.append(u)
        have += len(u)
    return np.concatenate(out)[:size] + t * _geometric(size)


def _signed(magnitudes: Integers, words: Words) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Apply random signs, one from the last bit of each word, and drop negative zeros."""
    negative = (words & np.uint64(1)) != 0
    return np.where(negative, -magnitudes, magnitudes), ~(negative & (magnitudes == 0))


def laplaces(scale: Fraction, size: int) -> list[int]:
    """Return integers with P(k) proportional to ``exp(-|k|/scale)``.

    Numerator and denominator of the scale are positive and at most ``LARGEST``.
    """
    num, den = scale.numerator, scale.denominator
    out: list[int] = []
    while len(out) < size:
        m = int((size - len(out)) * 1.05) + 8
        values, keep = _signed(_magnitudes(num, m) // den, _words(m))
        out += values[keep].tolist()
    return out[:size]


def gaussians(variances: Sequence[Fraction], sizes: Sequence[int]) -> Integers:
    """Return integers with P(k) proportional to ``exp(-k^2/(2 sigma2))``, group after group.

    Variances are positive and at most ``LARGEST^2``. All groups are proposed to at once; the draws
    of one are the first of its proposals that are accepted, independent of all others.
    """
    targets = [_Target.of(sigma2) for sigma2 in variances]
    table = _Table.of(targets)
    need = np.array(sizes, dtype=np.int64)
    at = np.cumsum(need) - need  # place of the next draw of each group
    out = np.zeros(int(need.sum()), dtype=np.int64)
    while np.count_nonzero(need):
        tries = ((need + SPARE * np.sqrt(need)) * table.tries).astype(np.int64)
        proposed = np.repeat(np.arange(len(targets)), tries)
        parts = [
            _accepted(targets, table, proposed[a : a + _PROPOSALS_AT_ONCE])
            for a in range(0, len(proposed), _PROPOSALS_AT_ONCE)
        ]
        of, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        counts = np.bincount(of, minlength=len(targets))
        firsts = np.cumsum(counts) - counts  # proposals are group after group
        counts = np.minimum(counts, need)
        for first, place, many in zip(firsts, at, counts, strict=True):
            out[place : place + many] = y[first : first + many]
        at += counts
        need -= counts
    return out


def _accepted(targets: Sequence[_Target], table: _Table, of: Index) -> tuple[Index, Integers]:
    """Propose one discrete Gaussian per entry of ``of``; return the accepted ones, in order.

    An entry is the index of a variance in ``targets`` (and of its constants in ``table``). The
    rejection sampler proposes a discrete Laplace and accepts it with the ratio of both.
    """
    words = _words(len(of))
    u: Integers = (words >> table.shift[of]).astype(np.int64)
    below = (u < table.t[of]).nonzero()[0]
    of, u = of[below], u[below]
    t = table.t[of]
    proposed = _decided(_words(len(u)), np.exp(-(u / t)), lambda i: (int(u[i]), int(t[i])))
    candidates = proposed.nonzero()[0]
    of = of[candidates]
    # the last bit of a word is none of those that u was made of: shifts are 8 or more
    y, keep = _signed(
        u[candidates] + t[candidates] * _geometric(len(candidates)), words[below[candidates]]
    )
    z = np.abs(y) - table.centre[of]
    z /= table.sigma[of]
    z *= z
    z *= -0.5
    exact = lambda i: _exponent(int(y[i]), *targets[int(of[i])][:3])  # noqa: E731 - short
    accepted = _decided(_words(len(y)), np.exp(z), exact)
    accepted &= keep
    return of[accepted], y[accepted]


@dataclass(frozen=True)
class _Table:
    """The numbers of all targets, one array each."""

    t: Integers
    shift: Words
    centre: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]
    tries: npt.NDArray[np.float64]

    @classmethod
    def of(cls, targets: Sequence[_Target]) -> _Table:
        """Return the constants of several variances as arrays."""
        return cls(
            np.array([x.t for x in targets], dtype=np.int64),
            np.array([x.shift for x in targets], dtype=np.uint64),
            np.array([x.centre for x in targets]),
            np.array([x.sigma for x in targets]),
            np.array([x.tries for x in targets]),
        )


class _Target(NamedTuple):
    """A discrete Gaussian, and the discrete Laplace of scale t that proposes it."""

    num: int  # The variance is num / den
    den: int
    t: int  # ``floor(sigma) + 1``
    shift: int  # Bits by which a 64-bit word is shifted for a number up to t
    centre: float  # ``sigma^2 / t``
    sigma: float
    tries: float  # Proposals for a draw, on average

    @classmethod
    def of(cls, sigma2: Fraction) -> _Target:
        """Return the constants of the rejection sampler for one variance."""
        num, den = sigma2.numerator, sigma2.denominator
        t = math.isqrt(num // den) + 1
        bits = max((t - 1).bit_length(), 1)
        # 1 - 1/e of the numbers below t are kept, .76 of the Laplace draws accepted
        tries = 2.0**bits / t * 2.1
        return cls(num, den, t, 64 - bits, num / (den * t), math.sqrt(num / den), tries)


def _exponent(y: int, num: int, den: int, t: int) -> tuple[int, int]:
    """Return ``(|y| - sigma^2/t)^2 / (2 sigma^2)`` as a fraction, ``sigma^2 = num/den``."""
    a = abs(y) * t * den - num
    return a * a, 2 * num * den * t * t


# -- The same draws one by one: few of them, or some that 64 bits do not hold.


def _happens(num: int, den: int) -> bool:
    """Draw an event of probability ``exp(-num/den)``, ``num / den >= 0``, as :func:`_decided`."""
    word = secrets.randbits(64)
    scaled = math.exp(-num / den) * 2.0**64 if num < _MOST * den else 0.0
    if abs(word - scaled) > 2.0 * MARGIN * scaled + 2.0:
        return word < scaled
    return exact_below_exp(word, num, den, secrets.randbits)


def _one_laplace(num: int, den: int) -> int:
    """Draw one integer of :func:`laplaces`, for a scale num/den of any size."""
    while True:
        u = secrets.randbelow(num)
        if _happens(u, num):
            v = 0
            while _happens(1, 1):
                v += 1
            value = (u + num * v) // den
            negative = secrets.randbits(1)
            if value or not negative:
                return -value if negative else value


def _one_gaussian(sigma2: Fraction) -> int:
    """Draw one integer of :func:`gaussians`, for a variance of any size."""
    num, den = sigma2.numerator, sigma2.denominator
    t = math.isqrt(num // den) + 1
    while True:
        y = _one_laplace(t, 1)
        if _happens(*_exponent(y, num, den, t)):
            return y


# -- The one place where noise is drawn.


class ExactNoise:
    """Exact integer noise from operating-system entropy."""

    private = True

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Draw ``size`` integers with P(k) proportional to exp(-k^2 / (2 sigma2))."""
        return list(map(int, self.discrete_gaussians([sigma2], [size])))

    def discrete_gaussians(
        self, variances: Sequence[Fraction], sizes: Sequence[int]
    ) -> list[int] | npt.NDArray[np.int64]:
        """Draw several groups at once, each with its variance, one group after the other."""
        if any(sigma2 <= 0 for sigma2 in variances):
            raise ValueError("the variance must be positive")
        if sum(sizes) > _ONE_BY_ONE and max(variances) <= LARGEST**2:
            return gaussians(variances, sizes)
        pairs = zip(variances, sizes, strict=True)
        return [_one_gaussian(sigma2) for sigma2, size in pairs for _ in range(size)]

    def discrete_laplace(self, scale: Fraction, size: int) -> list[int]:
        """Draw ``size`` integers with P(k) proportional to exp(-|k| / scale)."""
        if scale <= 0:
            raise ValueError("the scale must be positive")
        num, den = scale.numerator, scale.denominator
        if size > _ONE_BY_ONE and max(num, den) <= LARGEST:
            return laplaces(scale, size)
        return [_one_laplace(num, den) for _ in range(size)]

    def integers_below(self, n: int, size: int) -> list[int]:
        """Draw ``size`` uniform integers in 0..n-1."""
        return [secrets.randbelow(n) for _ in range(size)]

    def exponentials(self, size: int) -> npt.NDArray[np.float64]:
        """Draw high-entropy float exponentials; not exact, see the note."""
        u = self.uniforms(size)
        np.log(u, out=u)
        return np.negative(u, out=u)

    def normals(self, size: int) -> npt.NDArray[np.float64]:
        """Draw high-entropy float normals, one fresh 64-bit word each; not exact, see the note."""
        from scipy.special import ndtri

        u = self.uniforms(size)
        return np.asarray(ndtri(u, out=u))

    def uniforms(self, size: int) -> npt.NDArray[np.float64]:
        """Draw uniforms (k + 1/2) 2^-53 from operating-system entropy."""
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
        return secrets.randbelow(den) < num

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Draw a uniform permutation of 0..n-1; keys tie with probability below n^2 2^-65."""
        keys = np.frombuffer(os.urandom(8 * n), dtype=np.uint64)
        return np.asarray(np.argsort(keys), dtype=np.intp)

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Draw uniform bytes from operating-system entropy."""
        return np.frombuffer(os.urandom(size), dtype=np.uint8)


def make_noise(seed: int | None) -> NoiseSource:
    """Return exact noise, or seeded noise if a seed is given."""
    if seed is None:
        return ExactNoise()
    source = SeededNoise(int(seed))
    source.private = False  # whatever its class says
    return source


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
        with localcontext() as context:
            context.prec = 180
            power = int((-Decimal(rate)).exp() * (1 << _WEIGHT_BITS))
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
