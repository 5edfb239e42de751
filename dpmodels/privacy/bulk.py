"""Exact discrete Gaussian and Laplace draws, many at a time.

The algorithms of Canonne, Kamath and Steinke (2020) with one change: an event of probability
``exp(-x)`` is decided by comparing a uniform *real* number with ``exp(-x)``. Of the number 64
random bits are looked at first, against a float ``exp(-x)`` with a proved error; where they do not
decide (once in about 2^38 events) more bits are drawn and ``exp(-x)`` is computed to more digits
until they do. Every decision is that of the real numbers, so the law of the draws is exact
(``theory.md``, 6.8).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST", "exact_below_exp", "gaussians", "laplaces"]

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]
#: Scales up to this are drawn in 64-bit integers: a value is at most 2^6 of them (``_geometric``).
LARGEST = 1 << 56
#: Relative error of a float exp(-x) that decisions allow for; the proof needs 2^-41.
MARGIN = 2.0**-40
#: exp(-1) in units of 2^-64, rounded down: the next unit is undecided.
_E1 = 6786177901268885274
_MOST_STEPS = 60
#: Of fewer runs than this, four events are drawn at once.
_FEW = 256


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
    yes = u * (1.0 + 2.0**-50) + 1.0 <= scaled * (1.0 - MARGIN)
    no = u * (1.0 - 2.0**-50) >= scaled * (1.0 + MARGIN)
    no &= words != 0  # below 2^-64 a float says nothing
    open_ = np.flatnonzero(~(yes | no))
    for i in open_.tolist():
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
    """Return numbers with P(v >= k) = exp(-k).

    A run of sixty or more has probability 1e-26: it would leave 64 bits, and raises.
    """
    out = np.zeros(size, dtype=np.int64)
    at = np.arange(size)
    for _ in range(_MOST_STEPS):
        wide = 1 if len(at) > _FEW else 4  # of few numbers four events at once
        words = _words(len(at) * wide).reshape(-1, wide)
        going = words < np.uint64(_E1)
        open_ = words == np.uint64(_E1)
        if open_.any():
            for i, j in np.argwhere(open_).tolist():
                going[i, j] = exact_below_exp(int(words[i, j]), 1, 1, _more)
        whole = going.all(axis=1)
        out[at] += np.where(whole, wide, going.argmin(axis=1))
        at = at[whole]
        if not len(at):
            return out
    raise OverflowError("a run of sixty events of probability 1/e")


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


def _signed(magnitudes: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Give random signs; say which to keep: a negative zero is dropped, or zero came up twice."""
    signs = np.frombuffer(os.urandom(len(magnitudes)), dtype=np.uint8) & 1
    negative = signs == 1
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
        values, keep = _signed(_magnitudes(num, m) // den)
        out += values[keep].tolist()
    return out[:size]


def gaussians(variances: Sequence[Fraction], sizes: Sequence[int]) -> list[int]:
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
    factor = np.array([x.tries for x in targets])
    need = np.array(sizes, dtype=np.int64)
    at = np.cumsum(need) - need  # place of the next draw of each group
    out = np.zeros(int(need.sum()), dtype=np.int64)
    while need.any():
        tries = np.where(need > 0, (need * factor).astype(np.int64) + 8, 0)
        of, y = _accepted(targets, np.repeat(np.arange(len(targets)), tries))
        found = np.bincount(of, minlength=len(targets))
        rank = np.arange(len(of)) - (np.cumsum(found) - found)[of]
        taken = rank < need[of]
        of, y, rank = of[taken], y[taken], rank[taken]
        out[at[of] + rank] = y
        found = np.minimum(found, need)
        at += found
        need -= found
    return out.tolist()


def _accepted(targets: Sequence[_Target], of: Index) -> tuple[Index, Integers]:
    """Make one proposal for each entry of ``of``, a target; return the accepted ones, in order."""
    scale = np.array([x.t for x in targets], dtype=np.int64)
    shift = np.array([x.shift for x in targets], dtype=np.uint64)
    u: Integers = (_words(len(of)) >> shift[of]).astype(np.int64)
    below = np.flatnonzero(u < scale[of])
    of, u = of[below], u[below]
    t = scale[of]
    kept = np.flatnonzero(
        _decided(_words(len(u)), np.exp(-(u / t)), lambda i: (int(u[i]), int(t[i])))
    )
    magnitudes: Integers = u[kept] + t[kept] * _geometric(len(kept))
    y, keep = _signed(magnitudes)
    of, y = of[kept[keep]], y[keep]
    z = np.abs(y) - np.array([x.centre for x in targets])[of]
    z /= np.array([x.sigma for x in targets])[of]
    accepted = _decided(
        _words(len(y)), np.exp(-0.5 * z * z), lambda i: targets[of[i]].exponent(int(y[i]))
    )
    return of[accepted], y[accepted]


@dataclass(frozen=True)
class _Target:
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
        Proposals for a draw, about a tenth more than it takes on average.
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
        tries = 2.0**bits / t * 2.3
        return cls(num, den, t, 64 - bits, num / (den * t), math.sqrt(num / den), tries)

    def exponent(self, y: int) -> tuple[int, int]:
        """Return ``(|y| - sigma^2/t)^2 / (2 sigma^2)`` as a fraction."""
        a = abs(y) * self.t * self.den - self.num
        return a * a, 2 * self.num * self.den * self.t * self.t
