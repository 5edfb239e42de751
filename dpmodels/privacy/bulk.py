"""Exact discrete Gaussian and Laplace draws, many at a time.

The algorithms of Canonne, Kamath and Steinke (2020) with one change: an event of probability
``exp(-x)`` is decided by comparing a uniform *real* number with ``exp(-x)``. Of the number 64
random bits are looked at first, against a float ``exp(-x)`` with a proved error; where they do not
decide (once in about 2^38 events) more bits are drawn and ``exp(-x)`` is computed to more digits
until they do. Every decision is that of the real numbers, so the law of the draws is exact
(``theory.md``, 6.8).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]
#: Scales up to this are drawn in 64-bit integers: a value is at most 2^6 of them (``_geometric``).
LARGEST = 1 << 56
#: Relative error of a float exp(-x) that decisions allow for; the proof needs 2^-41.
MARGIN = 2.0**-40
#: Proposals to a group are enough for so many roots of its draws more than are needed: beyond it
#: a second round would be as dear as the first, and it is rare.
SPARE = 4.0
#: Proposals that are worked on together: their arrays stay in the caches.
_AT_ONCE = 1 << 14
#: Largest whole part of -log U.
_MOST = 60


def _powers() -> Words:
    """Return exp(-k), k = 44, ..., 1, in units of 2^-64 and rounded down; before them 0."""
    from decimal import Context, Decimal

    context = Context(prec=60)
    found = [int(context.exp(Decimal(-k)) * 2**64) for k in range(44, 0, -1)]
    return np.array([0, *found], dtype=np.uint64)


#: A word that is one of these is undecided: the next bits say on which side of the power it lies.
_POWERS = _powers()


def _words(size: int) -> Words:
    """Return uniform 64-bit words from operating-system entropy."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def exact_below_exp(word: int, num: int, den: int, more: Callable[[int], int]) -> bool:
    """Say whether a uniform real number is below ``exp(-num/den)``.

    Parameters
    ----------
    word : int
        Its first 64 bits: the number lies in ``[word, word + 1) 2^-64``.
    num, den : int
        ``num / den >= 0``.
    more : function
        ``more(k)``: k further random bits.
    """
    from decimal import Context, Decimal

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
        word, bits, digits = (word << 64) | more(64), bits + 64, digits + 25


def _more(k: int) -> int:
    return int.from_bytes(os.urandom(k // 8), "big")


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
            yes[i] = exact_below_exp(int(words[i]), num, den, _more)
    return yes


def _below(n: int, size: int) -> Integers:
    """Return uniform integers in 0 .. n - 1, by rejection."""
    k = max((n - 1).bit_length(), 1)
    shift = np.uint64(64 - k)
    out: list[npt.NDArray[Any]] = []
    have = 0
    while have < size:
        found = _words(int((size - have) * 2.0**k / n * 1.05) + 8) >> shift
        found = found[found < np.uint64(n)]
        out.append(found)
        have += len(found)
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

        def more(k: int, places: Iterator[int] = places) -> int:
            place = next(places)
            if place == len(drawn):
                drawn.append(_more(k))
            return drawn[place]

        if not exact_below_exp(word, v + 1, 1, more):
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

        kept = _decided(_words(m), np.exp(-(u / t)), ratio)
        u = u[kept]
        out.append(u)
        have += len(u)
    return np.concatenate(out)[:size] + t * _geometric(size)


def _signed(magnitudes: Integers, words: Words) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Give signs, each a word's last bit; say which to keep: a negative zero is dropped."""
    negative = (words & np.uint64(1)) != 0
    return np.where(negative, -magnitudes, magnitudes), ~(negative & (magnitudes == 0))


def laplaces(scale: Fraction, size: int) -> list[int]:
    """Return integers with P(k) proportional to ``exp(-|k|/scale)``.

    Parameters
    ----------
    scale : Fraction
        Positive, numerator and denominator at most ``LARGEST``.
    """
    num, den = scale.numerator, scale.denominator
    out: list[int] = []
    while len(out) < size:
        m = int((size - len(out)) * 1.05) + 8
        values, keep = _signed(_magnitudes(num, m) // den, _words(m))
        out += values[keep].tolist()
    return out[:size]


def gaussians(variances: Sequence[Fraction], sizes: Sequence[int]) -> Integers:
    """Return integers with P(k) proportional to ``exp(-k^2/(2 sigma2))``, by groups.

    Parameters
    ----------
    variances : sequence of Fraction
        Positive, at most ``LARGEST^2``.
    sizes : sequence of int
        Draws of each group, which come in the order of the groups.

    Notes
    -----
    All groups are proposed to at once; the draws of one are the first of its proposals that are
    accepted, independent of each other and of the other groups.
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
            _accepted(targets, table, proposed[a : a + _AT_ONCE])
            for a in range(0, len(proposed), _AT_ONCE)
        ]
        of, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        found = np.bincount(of, minlength=len(targets))
        rank = np.arange(len(of)) - (np.cumsum(found) - found)[of]
        taken = (rank < need[of]).nonzero()[0]
        of = of[taken]
        out[at[of] + rank[taken]] = y[taken]
        found = np.minimum(found, need)
        at += found
        need -= found
    return out


def _accepted(targets: Sequence[_Target], table: _Table, of: Index) -> tuple[Index, Integers]:
    """Make one proposal for each entry of ``of``, a target; return the accepted ones, in order."""
    words = _words(len(of))
    u: Integers = (words >> table.shift[of]).astype(np.int64)
    below = (u < table.t[of]).nonzero()[0]
    of, u = of[below], u[below]
    t = table.t[of]
    proposed = _decided(_words(len(u)), np.exp(-(u / t)), lambda i: (int(u[i]), int(t[i])))
    kept = proposed.nonzero()[0]
    of = of[kept]
    # the last bit of a word is none of those that u was made of: shifts are 8 or more
    y, keep = _signed(u[kept] + t[kept] * _geometric(len(kept)), words[below[kept]])
    z = np.abs(y) - table.centre[of]
    z /= table.sigma[of]
    z *= z
    z *= -0.5
    accepted = _decided(_words(len(y)), np.exp(z), lambda i: targets[of[i]].exponent(int(y[i])))
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
        return cls(
            np.array([x.t for x in targets], dtype=np.int64),
            np.array([x.shift for x in targets], dtype=np.uint64),
            np.array([x.centre for x in targets]),
            np.array([x.sigma for x in targets]),
            np.array([x.tries for x in targets]),
        )


class _Target(NamedTuple):
    """A discrete Gaussian, and the discrete Laplace of scale t that proposes it.

    Attributes
    ----------
    num, den : int
        The variance.
    t, shift : int
        ``t = floor(sigma) + 1``, and what a 64-bit word is shifted by for a number up to it.
    centre, sigma : float
        ``sigma^2 / t`` and sigma.
    tries : float
        Proposals for a draw, on average.
    """

    num: int
    den: int
    t: int
    shift: int
    centre: float
    sigma: float
    tries: float

    @classmethod
    def of(cls, sigma2: Fraction) -> _Target:
        num, den = sigma2.numerator, sigma2.denominator
        t = math.isqrt(num // den) + 1
        bits = max((t - 1).bit_length(), 1)
        # 1 - 1/e of the numbers below t are kept, .76 of the Laplace draws accepted
        tries = 2.0**bits / t * 2.1
        return cls(num, den, t, 64 - bits, num / (den * t), math.sqrt(num / den), tries)

    def exponent(self, y: int) -> tuple[int, int]:
        """Return ``(|y| - sigma^2/t)^2 / (2 sigma^2)`` as a fraction."""
        a = abs(y) * self.t * self.den - self.num
        return a * a, 2 * self.num * self.den * self.t * self.t
