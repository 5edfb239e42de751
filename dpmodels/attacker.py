"""Gain of an attacker from a release: sentences, numbers and a curve.

Let the attacker know every other row and the exact law of the release, and test whether a person
has one value or another. With delta(eps) the composed curve of the release, a test of false alarm
alpha misses with probability at least

    beta(alpha) = sup over eps >= 0 of max(1 - delta(eps) - e^eps alpha,
                                           e^-eps (1 - delta(eps) - alpha), 0),

which is the trade-off curve (Dong, Roth and Su 2022, Proposition 6). Both terms have one maximum as
functions of ``e^eps``, because delta is convex in it. So a search by sections finds it. Every eps
gives a valid bound: a search that stopped early would only overstate the attacker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpmodels.errors import RequestError, shown
from dpmodels.lazy import pd
from dpmodels.tables.content import Layout
from dpmodels.tables.table import Shown, Table, also, grid, new_axes
from dpmodels.units import column_of, named

#: False alarms and shares of people with the condition for which numbers are printed.
FALSE_ALARMS, PRIORS = (0.05, 0.01), (0.01, 0.10)
#: Sections of a search for the best eps, and its golden ratio.
_SECTIONS, _RATIO = 90, (math.sqrt(5.0) - 1.0) / 2.0
#: Words of the two questions that an attacker may ask. ``{unit}`` is a row or a person.
_QUESTIONS = {
    "replace": {
        "question": "which of two values a {unit} has", "has": "has the condition",
        "have": "have it", "lack": "do not have the condition",
    },
    "add-remove": {
        "question": "whether a {unit} is in the table", "has": "is in the table",
        "have": "are in it", "lack": "are not in the table",
    },
}  # fmt: skip
_EXPLAINED = Layout(width=78, grows=True, wrap=True, notes=76, label=11)


def _largest(of: Callable[[float], float], top: float) -> float:
    """Return the maximum over eps >= 0 of a function with one maximum."""
    while of(top) > of(0.75 * top) and top < 700.0:
        top *= 2.0
    low, high = 0.0, min(top, 700.0)
    best = max(of(low), of(high))
    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    at_left, at_right = of(left), of(right)
    for _ in range(_SECTIONS):
        best = max(best, at_left, at_right)
        if high - low < 1e-13 * max(high, 1.0):
            break
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _RATIO * (high - low)
            at_left = of(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _RATIO * (high - low)
            at_right = of(right)
    return best


def missed(delta_at: Callable[[float], float], alpha: float, top: float) -> float:
    """Return the least share of misses of a test with false alarm ``alpha``.

    Parameters
    ----------
    delta_at : callable
        The curve: delta at every eps >= 0.
    alpha : float
    top : float
        An eps around which the maximum is searched first.
    """
    first = _largest(lambda e: 1.0 - delta_at(e) - math.exp(e) * alpha, top)
    second = _largest(lambda e: math.exp(-e) * (1.0 - delta_at(e) - alpha), top)
    return min(max(0.0, first, second), 1.0 - alpha)


def _up(value: float, decimals: int) -> str:
    """Return a bound from above with this many decimals, rounded up."""
    scale = 10.0**decimals
    return f"{math.ceil(value * scale - 1e-7) / scale:.{decimals}f}"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown):
    """Gain of an attacker who knows every other row: sentences, numbers, a curve.

    Privacy
    -------
    A function of public numbers: costs nothing.
    """

    eps: float
    delta: float
    relation: str  # {"replace", "add-remove"}
    unit: str
    neighbours: str
    delta_at: Callable[[float], float]
    pure: float  # eps at delta = 0, infinite if the release is not pure
    seeded: bool = False
    remarks: tuple[str, ...] = ()  # Printed below the numbers

    @property
    def right(self) -> float:
        """Largest probability of a right guess between two values, both equally likely."""
        return 0.5 + 0.5 * min(max(self.delta_at(0.0), 0.0), 1.0)

    def power(self, false_alarm: float) -> float:
        """Return the largest share that is found at a share of false alarms.

        Parameters
        ----------
        false_alarm : float
            Share, from 0 to 1, of those without the condition who are accused.
        """
        if not (isinstance(false_alarm, (int, float)) and 0.0 <= false_alarm <= 1.0):
            raise RequestError(
                f"false_alarm={shown(false_alarm)} must be a share from 0 to 1, for example 0.05"
            )
        return 1.0 - missed(self.delta_at, float(false_alarm), max(self.eps, 1.0))

    def precision(self, false_alarm: float, prior: float) -> float:
        """Return the largest share of those accused who have the condition.

        Parameters
        ----------
        false_alarm : float
        prior : float
            Share of people with the condition.
        """
        if not (isinstance(prior, (int, float)) and 0.0 < prior < 1.0):
            raise RequestError(f"prior={shown(prior)} must be a share, for example 0.01")
        hits = prior * self.power(false_alarm)
        return hits / (hits + (1.0 - prior) * false_alarm) if hits > 0.0 else 0.0

    @property
    def protected(self) -> str:
        """Protected unit: a person with all rows, or one row."""
        column = column_of(self.unit)
        if column is not None:
            return f"a person with all rows (column {column})"
        if self.unit != "record":
            return named(self.unit)
        return "one row; a person with several rows is not protected as a whole"

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences that a privacy officer can paste."""
        if self.seeded:
            return ("Nothing is promised. The noise was seeded, and the seed gives it away.",)
        words = {
            **_QUESTIONS[self.relation],
            "unit": "row" if column_of(self.unit) is None else "person",
        }
        a, (low, _) = FALSE_ALARMS[0], PRIORS
        out = [
            f"Somebody who knows every other row and must guess {words['question']} is right with "
            f"probability at most {percent_at_most(self.right)} % (50 % without the release).",
            f"Of 1000 people who {words['lack']} they would wrongly accuse {1000 * a:g}, of 1000 "
            f"who {words['have']} find at most {_up(1000 * self.power(a), 0)}.",
            *(
                f"If 1 in {1 / prior:g} people {words['has']}, of those accused at most "
                f"{_up(100 * self.precision(a, prior), 1)} in 100 {words['have']}."
                for prior in PRIORS
            ),
        ]
        if math.isfinite(self.pure):
            odds = math.exp(min(self.pure, 700.0))
            most = low * odds / (1.0 - low + low * odds)
            out.append(
                "Whatever the release shows, to somebody who saw a chance of 1 in "
                f"{1 / low:g} before it is at most {_up(100 * most, 1)} in 100 afterwards."
            )
        return tuple(text.format(**words) for text in out)

    @also.method
    def statement(self) -> str:
        """Return the sentences as one paragraph, with the guarantee."""
        return " ".join((*self.sentences(), f"Protected: {self.protected}. {self._guarantee}."))

    @property
    def _guarantee(self) -> str:
        if self.seeded:
            return "Guarantee: none, the noise was seeded"
        return (
            f"Guarantee: (eps = {self.eps:g}, delta = {self.delta:g})-DP; neighbours: "
            f"{self.neighbours}"
        )

    def tidy(self) -> Any:
        """Return one row per share of false alarms and prior, as a DataFrame.

        Columns: ``false_alarm, power, prior, precision, right``.
        """
        rows = [
            (a, self.power(a), prior, self.precision(a, prior), self.right)
            for a in FALSE_ALARMS for prior in PRIORS
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["false_alarm", "power", "prior", "precision", "right"])

    def table(self) -> Table:
        """Return the numbers as a table, with the sentences as notes."""
        facts = (("Protected", self.protected), ("Guarantee", self._guarantee.partition(": ")[2]))
        columns = (
            "Wrongly accused,\nof 1000", "Found at most,\nof 1000",
            *(f"At most right, of 100\naccused (1 in {1 / p:g})" for p in PRIORS),
        )  # fmt: skip
        rows = (
            (
                f"{1000 * a:g}", _up(1000 * self.power(a), 0),
                *(_up(100 * self.precision(a, p), 1) for p in PRIORS),
            )
            for a in FALSE_ALARMS
        )  # fmt: skip
        shown = ((), ()) if self.seeded else (columns, rows)
        return grid(
            *shown, title="Gain of an attacker", facts=facts,
            notes=(*self.sentences(), *self.remarks),
            layout=replace(_EXPLAINED, grows=not self.seeded),
        )  # fmt: skip

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the largest share found against the share of false alarms (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **style
            Of the line, ``color="C1"``.
        """
        ax = new_axes(ax, (4.6, 4.4))
        alpha = [(k / 60) ** 2 for k in range(61)]
        label = f"eps = {self.eps:.3g}, delta = {self.delta:.2g}"
        style = {"color": "C0", "label": label, **style}
        ax.plot(alpha, [self.power(a) for a in alpha], **style)
        ax.plot([0, 1], [0, 1], linestyle=":", color="0.5", label="without the release")
        a = FALSE_ALARMS[0]
        text = f"{a:.0%} accused wrongly, {_up(100 * self.power(a), 1)} % found"
        ax.plot([a], [self.power(a)], "o", color=style["color"], markersize=5, label=text)
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of those without it who are accused",
               ylabel="share of those with it who are found, at most")  # fmt: skip
        ax.set_aspect("equal")
        whom = f"protected: {self.protected.partition(';')[0]}"
        ax.set_title("NOT PRIVATE (seeded)" if self.seeded else whom, fontsize="small")
        ax.legend(loc="lower right", fontsize="small", frameon=False)
        return ax


def percent_at_most(share: float) -> str:
    """Return a share in percent, rounded up to one decimal."""
    return _up(100 * share, 1).removesuffix(".0")


def of_guarantee(guarantee: Any, *remarks: str) -> Explanation:
    """Return the explanation of a composed guarantee."""
    if guarantee.record_pair is not None:
        eps, delta = guarantee.record_pair
        remarks = (*remarks, f"A whole row is protected by (eps = {eps:g}, delta = {delta:g}).")
    return Explanation(
        guarantee.eps, guarantee.delta, guarantee.relation, guarantee.unit, guarantee.neighbours,
        guarantee.delta_at, guarantee.eps_at(0.0), guarantee.seeded, remarks,
    )  # fmt: skip


class ExplainedGuarantee:
    """Guarantee with an explanation of an attacker's gain."""

    def explain(self) -> Explanation:
        """Return the gain of an attacker by the composed curve: sentences, numbers and a picture.

        Privacy
        -------
        A function of public numbers: costs nothing.
        """
        return of_guarantee(self)


def delta_of_pair(eps: float, delta: float) -> Callable[[float], float]:
    """Return the curve of the worst release with a pair: randomised response, and a failure."""

    def at(other: float) -> float:
        gap = math.exp(-other) - math.exp(-eps) if other < eps else 0.0
        return delta + (1.0 - delta) * gap / (math.exp(-other) * (1.0 + math.exp(-eps)))

    return at


class ExplainedBudget:
    """Budget with an explanation of an attacker's gain from all its calls."""

    _neighbours: Callable[[str, str], str]  # Set by the class: the neighbours in words

    def explain(self) -> Explanation:
        """Return the gain of an attacker from all calls so far, before the first from all of it.

        Privacy
        -------
        A function of public numbers: costs nothing.
        """
        budget: Any = self
        bound = Explanation(
            budget.eps, budget.delta, budget.relation, budget.unit,
            budget._neighbours(budget.relation, budget.unit),
            delta_of_pair(budget.eps, budget.delta),
            budget.eps if budget.delta == 0.0 else math.inf,
            remarks=("Nothing is charged yet: these are the numbers of the whole budget.",),
        )  # fmt: skip
        joint = budget.joint()
        if joint is None:
            return bound
        return of_guarantee(
            joint,
            "This is the composition of the calls so far, if they were fixed beforehand. The "
            "budget bounds calls that are chosen after earlier results: a guess is right with "
            f"probability at most {percent_at_most(bound.right)} %.",
        )
