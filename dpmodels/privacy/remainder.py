"""Remainder of a budget, and the words of charges and refusals. Nothing is admitted here."""

from __future__ import annotations

import math
from typing import Any

from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import eps_gdp, mu_gdp
from dpmodels.units import column_of, named


class Remaining(tuple[float, float]):
    """Remainder of a budget: ``eps, delta = budget.remaining()``.

    A purely Gaussian call that asks for this (eps, delta) fits.

    Attributes
    ----------
    eps, delta : float
        The pair.
    mu : float
        What is left of the Gaussian cap (0 under the basic rule).
    pure, failure : float
        What is left of the caps on pure eps and on (0, delta) parts: *any* call that asks for
        this pair fits, whatever its mechanisms.
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


class ReadAccount:
    """State of a budget as it is read: its remainder, and amounts in the units of its rule."""

    def remaining(self: Any, at: float | None = None) -> Remaining:
        """Return the remainder, as the pair of a purely Gaussian call (at delta ``at``)."""
        if self.calls == 0 and self.rule == "mixed":
            mu = mu_gdp(self.eps, self.delta) if self.delta > 0 else 0.0
            return Remaining(self.eps, self.delta, mu, self.eps, self.delta)
        if self.rule == "caps" and self.caps is None:
            return Remaining(self.eps, self.delta, *self._untouched())
        whole = self.delta if self.rule == "basic" else self.sums
        pair = max(0.0, self.eps - self.pairs[0]), max(0.0, whole - self.pairs[1])
        if self.rule == "basic":
            return Remaining(*pair, 0.0, *pair)
        alive = self._alive()
        if not self._sums_fit():
            pair = 0.0, 0.0
        if not alive:
            return Remaining(*pair, 0.0, *pair)
        # the difference of two rounded squares is 0 if everything was spent
        mu = max(math.sqrt(max(0.0, b[0] ** 2 * (1.0 - 1e-14) - self.spent[0])) for b in alive)
        boxed = max(max(0.0, b[1] - self.spent[1]) for b in alive)
        any_call = boxed, max(0.0, alive[0][2] - self.spent[2])
        any_call = max(any_call, pair, key=lambda p: (p[1] > 0, p))
        delta = self.delta - alive[0][2] - self.sums if at is None else at
        if mu <= 1e-7 * alive[0][0] or not 0 < delta < 1:
            return Remaining(*any_call, 0.0, *any_call)
        return Remaining(eps_gdp(mu, delta), delta, mu, *any_call)

    def _left_by(self: Any, entry: Any) -> float:
        """Return how much room an account has left after a charge; negative if it does not fit."""
        after = self._try(entry)
        return -1.0 if after is None else float(after._headroom())

    def _headroom(self: Any) -> float:
        """Return how much room the boxes have left; 0 under the basic rule."""
        m, u, f = self.spent
        left = 0.0
        for big, cap, lost in self._alive():
            share = max(0.0, 1.0 - m / big**2) if big > 0 else 0.0
            share *= max(0.0, 1.0 - u / cap) if cap > 0 else 1.0
            left += share * (max(0.0, 1.0 - f / lost) if lost > 0 else 1.0)
        return left

    def spent_text(self: Any) -> str:
        """Return the sum of all charges, in the units of the rule."""
        if self.rule == "basic":
            return f"(eps = {self.pairs[0]:.4g}, delta = {self.pairs[1]:.3g})"
        return amount_text(*self.spent)

    def charge_text(self: Any, entry: Any) -> str:
        """Return the charge of one call, in the units of the rule."""
        if self.rule == "basic":
            return f"(eps = {entry.eps:.4g}, delta = {entry.delta:.3g})"
        return amount_text(entry.mu2, entry.pure, entry.failure)

    def _refusal(self: Any, guarantee: Guarantee, first: Any) -> str:
        """Return the message that refuses a charge, with the remaining budget."""
        left = self.remaining(guarantee.delta if 0 < guarantee.delta < 1 else None)
        request = (
            f"this call asks for (eps = {guarantee.eps:g}, delta = {guarantee.delta:g}); the budget"
        )
        if self.rule == "basic" or self.calls == 0:
            text = f"{request} has (eps = {left.eps:.4g}, delta = {left.delta:.4g}) left"
        else:
            cost = amount_text(first.mu2, first.pure, first.failure)
            text = f"{request} has "
            if left.mu > 0:
                text += (
                    f"mu^2 = {left.mu**2:.4g} left, a Gaussian call of (eps = {left.eps:.4g}, "
                    f"delta = {left.delta:.4g}), and\n  "
                )
            text += (
                f"(eps = {left.pure:.4g}, delta = {left.failure:.4g}) for any other call.\n"
                f"  The charge would be {cost}"
            )
        text += ".\n  Nothing was read and nothing was charged."
        if self.rule == "basic":
            text += self._cost_of_sums()
        elif self.calls > 0:
            text += (
                "\n  Ask for no more than that, or open another budget; what a new budget keeps "
                "for calls that\n  are not Gaussian is set when it is opened: cap_eps=, "
                'cap_delta=, or rule="basic" (plain sums).'
            )
        if self.relation != guarantee.relation:
            text += f"\n  The budget counts neighbours by {self.relation!r}, the call by " + (
                f"{guarantee.relation!r}; the call was converted."
            )
        return text

    def _cost_of_sums(self: Any) -> str:
        """Return the sentence on the remainder of Gaussian accounting after the same calls."""
        other = self._mixed().remaining()
        if not other.mu or other.eps <= self.remaining().eps:
            return ""
        return (
            f"\n  This budget adds up pairs. After the same calls a budget with "
            f'accounting="gaussian", the default,\n  has a Gaussian call of '
            f"(eps = {other.eps:.4g}, delta = {other.delta:.4g}) left."
        )


def amount_text(mu2: float, eps: float, delta: float) -> str:
    """Return an amount of Gaussian budget (mu^2), of other eps and of failure probability."""
    parts = [f"mu^2 = {mu2:.4g}"] if mu2 > 0 else []
    parts += [f"eps = {eps:.4g}"] if eps > 0 else []
    parts += [f"delta = {delta:.3g}"] if delta > 0 else []
    return ", ".join(parts) or "nothing"


def other_people(budget: str, call: str) -> str:
    """Return the error for charges whose units differ, with the call to type."""
    theirs, ours = column_of(budget), column_of(call)
    both = f"this budget protects {named(budget)}; the call protects {named(call)}"
    if theirs is None:
        return (
            f"{both}. That says nothing of rows whose id is another: use a budget of people, "
            f"Budget(..., unit={ours!r})"
        )
    if ours is None:
        return (
            f"{both}, and a person may have any number of them. Nothing converts the one into the "
            "other: a proof for one row replaced says nothing of tables with more or fewer rows. "
            f"Give the call unit={theirs!r}, and max_rows=m where its method has a proof for rows "
            "only: at most m rows of each person are kept, and the charge is that of m"
        )
    return f"{both}: people of one column only add up. Give the call unit={theirs!r}"
