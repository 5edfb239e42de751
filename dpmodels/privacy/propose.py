"""The coin of efficient Propose-Test-Release (Shen, Tong and Wang, Algorithm 2; general split).

Given a safety lower bound gamma >= 0 that moves by at most 1 between neighbours, and an estimator
that moves by at most alpha wherever gamma > 0, reply with probability p(gamma) and add Gaussian
noise. The guarantee is (eps_t + eps_r, delta): delta is the maximum of two cases, not their sum.
"""

from __future__ import annotations

import math
from typing import Any

from dpmodels.privacy.gdp import agm

# -- A probability that knows its complement


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
