"""Cap and pay: what a proof for one row comes to for a person of at most m rows.

Rules and proofs: ``units/theory.md``, 7. A call keeps m rows a person (fewer are filled up), and
its row-level steps are charged as the group of m rows that one person is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpmodels.privacy.gdp import eps_gdp, mu_gdp
from dpmodels.privacy.mechanisms import Approximate, Gaussian
from dpmodels.privacy.steps import Step

__all__ = ["charged", "gaussian_rows", "is_gaussian", "pair_of_people", "pair_of_rows"]

#: What root finders may lose.
_SHORT = 1.0 - 1e-10


def pair_of_people(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of m rows, of one row's: ``(m eps, delta (e^{m eps} - 1)/(e^eps - 1))``."""
    if delta == 0.0:
        return m * eps, 0.0
    return m * eps, delta * math.expm1(m * eps) / math.expm1(eps)


def pair_of_rows(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of one row that comes to (eps, delta) for m."""
    if delta == 0.0:
        return eps / m, 0.0
    return eps / m, delta * math.expm1(eps / m) / math.expm1(eps)


def gaussian_rows(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of one row whose mu, m times, is that of (eps, delta): (0, ...) if none."""
    if delta == 0.0:
        return 0.0, 0.0
    return eps_gdp(mu_gdp(eps, delta) / m, delta) * _SHORT, delta


def is_gaussian(steps: Sequence[Step]) -> bool:
    """Say whether steps are Gaussian and nothing else: then mu is m times that of a row."""
    return all(isinstance(s.mechanism, Gaussian) and s.failure == 0.0 for s in steps)


def charged(
    steps: Sequence[Step], m: int, row: tuple[float, float], *, by_pair: bool = False
) -> tuple[Step, ...]:
    """Return the steps that a person of m rows is charged with.

    Parameters
    ----------
    steps : sequence of Step
        For one row replaced.
    m : int
    row : (eps, delta)
        What they compose to.
    by_pair : bool
        By the pair, whatever the steps: they are stated for another relation.
    """
    if is_gaussian(steps) and not by_pair:
        return tuple(
            Step(s.name, Gaussian(m * s.mechanism.mu), s.share, 0.0, s.reply_test, s.label)
            for s in steps
        )
    return (
        Step(
            f"{m} rows a person",
            Approximate(*pair_of_people(*row, m)),
            share=1.0,
            reply_test=any(s.reply_test for s in steps),
        ),
    )
