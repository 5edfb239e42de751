"""The rule by which a budget admits or refuses a call. Pure arithmetic; no storage, no noise.

Charges are chosen after outputs were seen, so the joint formula of :mod:`composition` is not a
valid stopping rule. Two rules are (theory.md, section 4):

``caps``
    Three numbers (M, E, D) with ``D + dG(eps - E; M) <= delta`` are fixed before the first
    output; every charge must keep ``sum mu_i^2 <= M^2``, ``sum eps_i <= E`` and
    ``sum delta_i <= D`` separately, and nothing moves between the caps afterwards.
``basic``
    The (eps, delta) of whole calls add up.

Which of the two applies is fixed at the first charge, which precedes every output: choosing
between them later would itself be a choice made after seeing outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import BudgetError, BudgetExceededError
from dpmodels.privacy.gdp import delta_gdp, eps_gdp, mu_gdp, mu_of_pure
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure

if TYPE_CHECKING:
    from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Account", "Entry", "Remaining", "entries_of"]

#: Float slack of the comparisons. The noise is rounded up by one part in 1e9, which pays for it.
_SLACK = 1.0 + 1e-9
#: Share of delta kept for (0, delta) parts when the first charge sets the caps.
_FAILURE_SHARE = 0.2


class Remaining(tuple[float, float]):
    """What is left of a budget: ``eps, delta = budget.remaining()``.

    A purely Gaussian call that asks for this (eps, delta) fits.

    Attributes
    ----------
    eps, delta : float
        The pair.
    mu : float
        What is left of the Gaussian cap (0 under the basic rule).
    pure, failure : float
        What is left of the caps on pure eps and on (0, delta) parts.
    """

    mu: float
    pure: float
    failure: float

    def __new__(
        cls, eps: float, delta: float, mu: float = 0.0, pure: float = 0.0, failure: float = 0.0
    ) -> Remaining:
        """Make the pair, with the rest as attributes."""
        out = super().__new__(cls, (eps, delta))
        out.mu, out.pure, out.failure = mu, pure, failure
        return out

    @property
    def eps(self) -> float:
        """Left eps."""
        return self[0]

    @property
    def delta(self) -> float:
        """Left delta."""
        return self[1]

    def __repr__(self) -> str:
        return (
            f"Remaining(eps={self.eps:.6g}, delta={self.delta:.6g}, mu={self.mu:.6g}, "
            f"pure={self.pure:.6g}, failure={self.failure:.6g})"
        )


@dataclass(frozen=True)
class Entry:
    """One call as the accountant sees it: a proved triple, and the pair of the whole call."""

    mu2: float
    pure: float
    failure: float
    eps: float
    delta: float


def _triples(guarantee: Guarantee) -> Iterator[tuple[float, float, float]]:
    """Yield proved descriptions (sum mu^2, sum eps, sum delta) of one call, best first."""
    mu2 = pure = failure = as_gauss = 0.0
    simple = True
    if guarantee.proved not in (None, guarantee.relation):
        from dpmodels.privacy.convert import gaussian_form, gaussian_replace

        form = gaussian_form(guarantee.steps)
        if form is not None:
            mu, failure = gaussian_replace(*form)
            yield mu * mu, 0.0, failure
        yield 0.0, guarantee.eps, guarantee.delta
        yield mu_of_pure(guarantee.eps) ** 2, 0.0, guarantee.delta
        return
    for step in guarantee.steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            pure += m.eps
            as_gauss += mu_of_pure(m.eps) ** 2
            failure += m.delta if isinstance(m, Approximate) else 0.0
        else:
            simple = False
    if simple:
        yield mu2, pure, failure
        if pure > 0:  # eps-DP implies mu-GDP (theory.md 2.4)
            yield mu2 + as_gauss, 0.0, failure
    # Any call is also the pair it was planned for; parts with a profile or an RDP curve enter so.
    yield 0.0, guarantee.eps, guarantee.delta
    yield mu_of_pure(guarantee.eps) ** 2, 0.0, guarantee.delta


def entries_of(guarantee: Guarantee, relation: str, unit: str) -> list[Entry]:
    """Return the proved descriptions of a call under a budget's relation and unit.

    Raises ``BudgetError`` if the call's guarantee says nothing about them.
    """
    if unit != guarantee.unit:
        pair = guarantee.record_pair
        if unit != "record" or pair is None:
            raise BudgetError(
                f"this budget protects one {unit}; the call protects one {guarantee.unit} and "
                f"states no pair for one {unit}. Use a budget of its own for it"
            )
        eps, delta = pair
        if relation != guarantee.relation:
            raise BudgetError(
                f"this budget counts neighbours by {relation!r}; the record-level pair of the call "
                f"is stated for {guarantee.relation!r}"
            )
        triples = [(0.0, eps, delta), (mu_of_pure(eps) ** 2, 0.0, delta)]
        return [Entry(*t, eps, delta) for t in triples]
    if relation != guarantee.relation:
        from dpmodels.privacy.convert import charge_under

        return charge_under(guarantee, relation)
    return [Entry(*t, guarantee.eps, guarantee.delta) for t in _triples(guarantee)]


@dataclass(frozen=True)
class Account:
    """State of a budget. Immutable: a charge returns a new one.

    Attributes
    ----------
    eps, delta : float
        The whole budget.
    relation, unit : str
    rule : {"auto", "caps", "basic"}
        "auto" becomes one of the others at the first charge.
    cap_eps, cap_delta : float or None
        E and D, if the user opened them.
    caps : (M, E, D) or None
        Fixed at the first charge.
    spent : (sum mu^2, sum eps, sum delta)
        Against the caps.
    pairs : (sum eps, sum delta)
        Of whole calls.
    calls : int
    """

    eps: float
    delta: float
    relation: str = "replace"
    unit: str = "record"
    rule: str = "auto"
    cap_eps: float | None = None
    cap_delta: float | None = None
    caps: tuple[float, float, float] | None = None
    spent: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pairs: tuple[float, float] = field(default=(0.0, 0.0))
    calls: int = 0

    def admit(self, guarantee: Guarantee) -> tuple[Account, Entry]:
        """Return the account after the call, and the entry it was charged with.

        Raises ``BudgetExceededError`` if no proved description of the call fits.
        """
        for entry in entries_of(guarantee, self.relation, self.unit):
            after = self._try(entry)
            if after is not None:
                return after, entry
        raise BudgetExceededError(self._refusal(guarantee))

    def _try(self, entry: Entry) -> Account | None:
        if self.rule == "auto" and self.calls == 0:
            for rule in ("caps", "basic") if entry.mu2 > 0 else ("basic", "caps"):
                after = replace(self, rule=rule)._try(entry)
                if after is not None:
                    return after
            return None
        pairs = (self.pairs[0] + entry.eps, self.pairs[1] + entry.delta)
        spent = (
            self.spent[0] + entry.mu2,
            self.spent[1] + entry.pure,
            self.spent[2] + entry.failure,
        )
        after = replace(self, spent=spent, pairs=pairs, calls=self.calls + 1)
        if self.rule == "basic":
            fits = pairs[0] <= self.eps * _SLACK and pairs[1] <= self.delta * _SLACK
            return after if fits else None
        caps = self.caps or self._open_caps(entry)
        if caps is None:
            return None
        fits = (
            spent[0] <= (caps[0] * _SLACK) ** 2
            and spent[1] <= caps[1] * _SLACK
            and spent[2] <= caps[2] * _SLACK
        )
        return replace(after, caps=caps) if fits else None

    def _open_caps(self, first: Entry) -> tuple[float, float, float] | None:
        """Fix (M, E, D) at the first charge: D + dG(eps - E; M) <= delta."""
        cap_eps = first.pure if self.cap_eps is None else self.cap_eps
        if not first.pure <= cap_eps <= self.eps:
            return None
        mu1 = math.sqrt(first.mu2)
        room = self.delta - delta_gdp(self.eps - cap_eps, mu1)
        if self.cap_delta is None:
            cap_delta = min(max(_FAILURE_SHARE * self.delta, first.failure), room)
            # A room that is short of delta_1 by rounding alone is not a refusal.
            if room < first.failure <= room + 1e-8 * self.delta:
                cap_delta = first.failure
        else:
            cap_delta = self.cap_delta
        if cap_delta < first.failure or cap_delta > self.delta:
            return None
        rest = self.delta - cap_delta
        cap_mu = mu_gdp(self.eps - cap_eps, rest) if rest > 0 else 0.0
        if mu1 > cap_mu * (1 + 1e-7):
            return None
        # What the first charge was planned with fits by its own guarantee; rounding apart.
        return max(cap_mu, mu1), cap_eps, cap_delta

    def remaining(self, at: float | None = None) -> Remaining:
        """Return what is left, as the pair of a purely Gaussian call (at delta ``at``)."""
        if self.rule == "auto" or (self.rule == "caps" and self.caps is None):
            return Remaining(self.eps, self.delta, *self._untouched())
        if self.rule == "basic":
            return Remaining(
                max(0.0, self.eps - self.pairs[0]), max(0.0, self.delta - self.pairs[1])
            )
        assert self.caps is not None
        mu = math.sqrt(max(0.0, self.caps[0] ** 2 - self.spent[0]))
        pure = max(0.0, self.caps[1] - self.spent[1])
        failure = max(0.0, self.caps[2] - self.spent[2])
        if mu <= 1e-7 * self.caps[0]:  # the difference of two rounded squares
            mu = 0.0
        delta = self.delta - self.caps[2] if at is None else at
        if mu == 0.0 or not 0 < delta < 1:
            return Remaining(pure, failure, mu, pure, failure)
        return Remaining(eps_gdp(mu, delta), delta, mu, pure, failure)

    def _untouched(self) -> tuple[float, float, float]:
        pure = self.cap_eps or 0.0
        failure = _FAILURE_SHARE * self.delta if self.cap_delta is None else self.cap_delta
        rest = self.delta - failure
        return (mu_gdp(self.eps - pure, rest) if 0 < rest < 1 else 0.0), pure, failure

    def _refusal(self, guarantee: Guarantee) -> str:
        left = self.remaining(guarantee.delta if 0 < guarantee.delta < 1 else None)
        text = (
            f"this call asks for (eps = {guarantee.eps:g}, delta = {guarantee.delta:g}); "
            f"the budget has (eps = {left.eps:.4g}, delta = {left.delta:.4g}) left.\n"
            "  Nothing was read and nothing was charged."
        )
        if self.rule == "caps" and self.caps is not None:
            text += (
                f"\n  Left of the caps fixed at the first charge: mu = {left.mu:.4g}, pure eps = "
                f"{left.pure:.4g}, failure delta = {left.failure:.4g}."
            )
            if left.pure < guarantee.eps and left.mu > 0:
                text += (
                    "\n  For later calls that are not Gaussian, open the budget with room for "
                    "them: Budget(eps, delta, cap_eps=..., cap_delta=...), or Budget(eps, delta, "
                    'rule="basic").'
                )
        if self.relation != guarantee.relation:
            text += f"\n  The budget counts neighbours by {self.relation!r}, the call by " + (
                f"{guarantee.relation!r}; the call was converted."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings and the caps, for storage."""
        return {
            "eps": self.eps,
            "delta": self.delta,
            "relation": self.relation,
            "unit": self.unit,
            "rule": self.rule,
            "cap_eps": self.cap_eps,
            "cap_delta": self.cap_delta,
            "caps": None if self.caps is None else list(self.caps),
        }
