"""Guarantees in words, and drawn: nothing here is part of a curve."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from dpmodels.attacker import ExplainedGuarantee
from dpmodels.errors import RequestError, shown
from dpmodels.units import column_of, named

#: Relations as printed.
RELATIONS = {"replace": "replace one row; n is public", "add-remove": "add or remove one row"}
#: The same where the unit is a person.
_OF_PEOPLE = {
    "replace": "replace all rows of one person by others; the number of people is public, that "
    "of rows is not",
    "add-remove": "add or remove all rows of one person",
}


def neighbours_of(relation: str, unit: str) -> str:
    """Return the description of the neighbouring tables of a relation and a unit."""
    return (RELATIONS if column_of(unit) is None else _OF_PEOPLE)[relation]


class StatedGuarantee(ExplainedGuarantee):
    """Guarantee as it is stated."""

    def tradeoff(self: Any, alpha: float) -> float:
        """Return the least type II error of a test of level ``alpha`` between neighbours.

        sup over eps of max(0, 1 - delta(eps) - e^eps alpha, e^-eps (1 - delta(eps) - alpha)),
        on a grid of 400 eps: a lower bound of the curve.
        """
        if not 0 <= alpha <= 1:
            raise RequestError(f"alpha must lie in [0, 1], got {shown(alpha)}")
        return max(
            0.0,
            *(1 - d - math.exp(e) * alpha for e, d in self._curve),
            *(math.exp(-e) * (1 - d - alpha) for e, d in self._curve),
        )

    @cached_property
    def _curve(self: Any) -> tuple[tuple[float, float], ...]:
        top = min(50.0, max(2.0 * self.eps, 1.0))
        grid = [top * (k / 399) ** 2 for k in range(400)]
        return tuple((e, self.delta_at(e)) for e in grid)

    def plot(self: Any, ax: Any = None) -> Any:
        """Draw the trade-off curve (needs matplotlib); return the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        alpha = [k / 200 for k in range(201)]
        ax.plot(alpha, [self.tradeoff(a) for a in alpha], label=f"eps = {self.eps:g}")
        ax.plot([0, 1], [1, 0], linestyle=":", color="grey", label="no information")
        ax.set(xlabel="type I error", ylabel="type II error", xlim=(0, 1), ylim=(0, 1))
        ax.legend(frameon=False)
        return ax

    @property
    def neighbours(self: Any) -> str:
        """Description of the neighbouring tables."""
        return neighbours_of(self.relation, self.unit)

    def statement(self: Any) -> str:
        """Return the promise in one sentence."""
        if self.seeded:
            return "NOT PRIVATE: the noise was seeded"
        text = (
            f"(eps = {self.eps:g}, delta = {self.delta:g})-DP; neighbours: "
            f"{self.neighbours}; unit: {named(self.unit)}"
        )
        if self._converted:
            text += "; converted from a proof for add/remove"
        if self.record_pair is not None:
            eps, delta = self.record_pair
            text += f"; a whole row: (eps = {eps:g}, delta = {delta:g})"
        return "; ".join((text, *(note.clause() for note in self.notes)))

    def __repr__(self: Any) -> str:
        return f"<guarantee: {self.statement()}>"
