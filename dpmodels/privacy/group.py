"""Cap and pay: what a proof for one row comes to for a person of at most m rows.

Rules and proofs: ``units/theory.md``, 7. A call keeps m rows a person (fewer are filled up), and
its row-level steps are charged as the group of m rows that one person is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpmodels.privacy.gdp import eps_gdp, mu_gdp, mu_of_pure, upper_quantile
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step

if TYPE_CHECKING:
    from dpmodels.privacy.mechanisms import Step

#: What root finders may lose.
_SHORT = 1.0 - 1e-10


def _ratio(low: float, high: float) -> float:
    """Return ``(e^low - 1)/(e^high - 1)``, low <= high, where the powers are no numbers too."""
    if high < 700.0:
        return math.expm1(low) / math.expm1(high)
    return max(math.exp(low - high) * -math.expm1(-low), 1e-300)


def pair_of_people(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of m rows, of one row's: ``(m eps, delta (e^{m eps} - 1)/(e^eps - 1))``."""
    if delta == 0.0:
        return m * eps, 0.0
    return m * eps, min(1.0, delta / _ratio(eps, m * eps))


def pair_of_rows(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of one row that comes to (eps, delta) for m."""
    if delta == 0.0:
        return eps / m, 0.0
    return eps / m, delta * _ratio(eps / m, eps)


def profile_of_people(curve: Callable[[float], float], eps: float, m: int) -> float:
    """Return delta(eps) for m rows of one whose profile for a row is ``curve``.

    ``min sum_i e^{eps_1 + ... + eps_{i-1}} curve(eps_i)`` over splits of eps. Every split is a
    bound, so the search need not be exact.
    """
    from scipy.optimize import minimize

    def bound(parts: Sequence[float]) -> float:
        before, total = 0.0, 0.0
        for part in parts:
            total += math.exp(min(before, 700.0)) * curve(part)
            before += part
        return total

    def whole(free: Sequence[float]) -> list[float]:
        return [*map(float, free), eps - math.fsum(map(float, free))]

    def height(free: Sequence[float]) -> float:
        return math.log(max(bound(whole(free)), 1e-300))

    equal = [eps / m] * (m - 1)
    best = bound(whole(equal))
    if m > 1:
        found = minimize(height, equal, method="Nelder-Mead",
                         options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 400 * m})  # fmt: skip
        best = min(best, bound(whole(found.x)))
    return min(best, 1.0)


def rho_of_people(rho: float, m: int) -> float:
    """Return the zCDP parameter of m rows of one: ``m^2 rho``."""
    return m * m * rho


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


# -- Conversions between neighbouring relations, each with its proof in theory.md, section 5


def pair_replace(eps: float, delta: float) -> tuple[float, float]:
    """Return the replace-one pair (2 eps, (1 + e^eps) delta) of an add/remove (eps, delta)."""
    return 2.0 * eps, min(1.0, (1.0 + math.exp(eps)) * delta)


def add_remove_request(eps: float, delta: float) -> tuple[float, float]:
    """Return the add/remove pair to ask for so that replace-one (eps, delta) follows."""
    return eps / 2.0, delta / (1.0 + math.exp(eps / 2.0))


def gaussian_replace(mu: float, failure: float) -> tuple[float, float]:
    """Return (2 mu, failure') of an add/remove curve dG(eps; mu) + failure, all real eps.

    failure' = failure + Phi(Phi^{-1}(failure) + mu).
    """
    from scipy.special import ndtr

    if failure <= 0:
        return 2.0 * mu, 0.0
    if failure >= 1:
        return 2.0 * mu, 1.0
    return 2.0 * mu, min(1.0, failure + float(ndtr(mu - upper_quantile(failure))))


def gaussian_form(steps: tuple[Step, ...]) -> tuple[float, float] | None:
    """Return (mu, failure) with curve <= dG(eps; mu) + failure, or None."""
    from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure

    mu2 = failure = 0.0
    for step in steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            mu2 += mu_of_pure(m.eps) ** 2
            failure += m.delta if isinstance(m, Approximate) else 0.0
        else:
            return None
    return math.sqrt(mu2), failure


def replace_delta(
    steps: tuple[Step, ...], eps: float, add_remove: Callable[[float], float]
) -> float:
    """Return a replace-one delta(eps) of steps proved under add/remove: the smaller bound."""
    from dpmodels.privacy.gdp import delta_gdp

    bound = (1.0 + math.exp(min(700.0, eps / 2.0))) * add_remove(eps / 2.0)
    form = gaussian_form(steps)
    if form is not None:
        mu, failure = gaussian_replace(*form)
        bound = min(bound, delta_gdp(eps, mu) + failure)
    return min(1.0, bound)
