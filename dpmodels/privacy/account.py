"""The rule by which a budget admits or refuses a call. Pure arithmetic; no storage, no noise.

Charges are chosen after outputs were seen, so the joint formula of :mod:`composition` is not a
valid stopping rule. Three rules are (theory.md, section 4):

``caps``
    Three numbers (M, E, D) with ``D + dG(eps - E; M) <= delta`` are fixed before the first
    output; every charge must keep ``sum mu_i^2 <= M^2``, ``sum eps_i <= E`` and
    ``sum delta_i <= D`` separately, and nothing moves between the caps afterwards.
``mixed``, the default
    Several boxes (M_j, E_j) with one D, and a part D_0 of delta for plain sums of the pairs of
    whole calls, where ``D_0 + D + sum_j dG(eps - E_j; M_j) <= delta``. A charge must leave what is
    spent inside at least one of the boxes, or the pairs within (eps, D_0). All of it follows from
    (eps, delta) alone, and so does the description a call is charged with: calls may come in any
    order, and leave the same. mu is nearly flat in delta, so a box for each mixture costs little.
    A first charge that they do not hold sets boxes of its own: it precedes every output.
``basic``
    The (eps, delta) of whole calls add up.

Which of them applies is fixed before the first output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpmodels.errors import BudgetError, BudgetExceededError, RequestError
from dpmodels.privacy.composition import Guarantee, eps_of_curve, parts_of
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Pure,
    Step,
    delta_gdp,
    eps_gdp,
    gaussian_form,
    gaussian_replace,
    mu_gdp,
    mu_of_pure,
    pair_replace,
)
from dpmodels.units import column_of, named

#: Slack of the comparisons of mu. The noise is rounded up by one part in 1e9, which covers it.
_SLACK = 1.0 + 1e-9
#: Slack of sums of eps and of delta: the last digits of shares. The caps are set with room for it.
_DIGITS = 1.0 + 1e-12
#: Share of delta kept for (0, delta) parts when the first charge sets the caps.
_FAILURE_SHARE = 0.2
#: The mixed rule: shares of delta for plain sums of pairs, for (0, delta) parts and for the boxes
#: with E > 0.
_MIXED_PAIRS, _MIXED_FAILURE, _MIXED_BOXES = 0.25, 0.35, 0.1
#: Shares of the free delta for the same, where the first charge sets the boxes.
_FIRST_FAILURE = 0.5
#: Boxes are placed at multiples of eps over this.
_BOXES = 16


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


@dataclass(frozen=True)
class Entry:
    """One call as the accountant sees it: a proved triple, and the pair of the whole call."""

    mu2: float
    pure: float
    failure: float
    eps: float
    delta: float
    # Kind of the description, which decides what may be given back: "steps", a sum over the steps;
    # "pair", the (eps, delta) of the call; "other", of which nothing is given back (theory.md, 4).
    how: str = "other"


def _triples(guarantee: Guarantee) -> Iterator[tuple[float, float, float, str]]:
    """Yield proved descriptions (sum mu^2, sum eps, sum delta, which) of one call."""
    mu2 = pure = failure = as_gauss = 0.0
    simple = guarantee.proved in (None, guarantee.relation)
    if not simple:
        form = gaussian_form(guarantee.steps)
        if form is not None:
            mu, lost = gaussian_replace(*form)
            yield mu * mu, 0.0, lost, "other" if lost else "steps"
    for step in guarantee.steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            pure += m.eps
            as_gauss += (mu_of_pure(m.eps) * _SLACK) ** 2
            failure += m.delta if isinstance(m, Approximate) else 0.0
        else:
            simple = False
    how = "pair" if simple else "other"
    if simple:
        yield mu2, pure, failure, "steps"
        if pure > 0:  # eps-DP implies mu-GDP (theory.md 2.4)
            yield mu2 + as_gauss, 0.0, failure, "other"
    if not simple or pure > 0:
        cover = guarantee.gaussian_cover
        if cover is not None:  # the curve lies below that of a Gaussian plus a failure (2.7)
            yield (cover[0] * _SLACK) ** 2, 0.0, cover[1], "other"
    # Any call is also the pair it was planned for.
    yield 0.0, guarantee.eps, guarantee.delta, how
    yield (mu_of_pure(guarantee.eps) * _SLACK) ** 2, 0.0, guarantee.delta, "other"


def entries_of(guarantee: Guarantee, relation: str, unit: str) -> list[Entry]:
    """Return the proved descriptions of a call under a budget's relation and unit.

    Raises ``BudgetError`` if the call's guarantee says nothing about them.
    """
    if unit != guarantee.unit:
        pair = guarantee.record_pair
        if column_of(unit) or column_of(guarantee.unit):
            raise BudgetError(_other_people(unit, guarantee.unit))
        if unit != "record" or pair is None:
            raise BudgetError(
                f"this budget protects {named(unit)}; the call protects {named(guarantee.unit)} "
                f"and states no pair for {named(unit)}. Use a separate budget for it"
            )
        eps, delta = pair
        if relation != guarantee.relation:
            raise BudgetError(
                f"this budget counts neighbours by {relation!r}; the row-level pair of the call "
                f"is stated for {guarantee.relation!r}"
            )
        triples = [(0.0, eps, delta), ((mu_of_pure(eps) * _SLACK) ** 2, 0.0, delta)]
        return [Entry(*t, eps, delta) for t in triples]
    if relation != guarantee.relation:
        return charge_under(guarantee, relation)
    return [
        Entry(mu2, pure, failure, guarantee.eps, guarantee.delta, how)
        for mu2, pure, failure, how in _triples(guarantee)
    ]


def _other_people(budget: str, call: str) -> str:
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


@dataclass(frozen=True)
class Account:
    """State of a budget. Immutable: a charge returns a new one."""

    # eps, delta: the whole budget.
    eps: float
    delta: float
    relation: str = "replace"
    unit: str = "record"
    # {"mixed", "caps", "basic"}; "auto" is read as "mixed".
    rule: str = "mixed"
    # cap_eps, cap_delta: E and D, if the user opened them.
    cap_eps: float | None = None
    cap_delta: float | None = None
    # (M, E, D) of the caps rule, fixed at the first charge.
    caps: tuple[float, float, float] | None = None
    # (sum mu^2, sum eps, sum delta): against the caps.
    spent: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pairs: tuple[float, float] = field(default=(0.0, 0.0))  # (sum eps, sum delta) of whole calls
    calls: int = 0
    # tuple of (M, E, D) of the mixed rule, with one D, fixed at the first charge.
    boxes: tuple[tuple[float, float, float], ...] = ()
    # D_0, part of delta for plain sums of the pairs under the mixed rule, fixed with the boxes.
    sums: float = 0.0

    def __post_init__(self) -> None:
        if self.rule == "auto":
            object.__setattr__(self, "rule", "mixed")

    def admit(self, guarantee: Guarantee) -> tuple[Account, Entry]:
        """Return the account after the call, and the entry it was charged with.

        Raises ``BudgetExceededError`` if no proved description of the call fits. Among those
        that fit, the one that alone leaves an untouched budget the most is charged, so that the
        order of calls does not matter. This choice depends on public numbers alone.
        """
        entries = entries_of(guarantee, self.relation, self.unit)
        if self.rule == "basic":  # the pair of the whole call is what is added up
            pair = "pair" if any(entry.how == "pair" for entry in entries) else "other"
            entries = [replace(entries[0], how=pair)]
        alone = replace(self, spent=(0.0, 0.0, 0.0), pairs=(0.0, 0.0))
        for entry in sorted(entries, key=alone._left_by, reverse=True):
            after = self._try(entry)
            if after is not None:
                return after, entry
        raise BudgetExceededError(self._refusal(guarantee))

    def _left_by(self, entry: Entry) -> float:
        """Return how much room an account has left after a charge; negative if it does not fit."""
        after = self._try(entry)
        return -1.0 if after is None else after._headroom()

    def _try(self, entry: Entry) -> Account | None:
        """Return the account after a charge, or None if it does not fit."""
        pairs = (self.pairs[0] + entry.eps, self.pairs[1] + entry.delta)
        spent = (
            self.spent[0] + entry.mu2,
            self.spent[1] + entry.pure,
            self.spent[2] + entry.failure,
        )
        after = replace(self, spent=spent, pairs=pairs, calls=self.calls + 1)
        if self.rule == "basic":
            fits = pairs[0] <= self.eps * _DIGITS and pairs[1] <= self.delta * _DIGITS
            return after if fits else None
        if self.rule == "caps":
            after = replace(after, caps=self.caps or self._open_caps(entry))
        elif not self.boxes:
            after = replace(after, boxes=self._default_boxes(), sums=_MIXED_PAIRS * self.delta)
            if not (after._alive() or after._sums_fit()):
                after = replace(after, boxes=self._open_boxes(entry), sums=0.0)
        return after if after._alive() or after._sums_fit() else None

    def _sums_fit(self) -> bool:
        """Return whether the pairs of all calls fit plain sums, under the mixed rule."""
        eps, delta = self.pairs
        return self.rule == "mixed" and eps <= self.eps * _DIGITS and delta <= self.sums * _DIGITS

    def recounted(self, entries: Iterable[Entry]) -> Account:
        """Return the account of these entries: the kept parts of the charges, in their order.

        Boxes and rule stay as the first charge set them.
        """
        spent, pairs = (0.0, 0.0, 0.0), (0.0, 0.0)
        for entry in entries:
            spent = (spent[0] + entry.mu2, spent[1] + entry.pure, spent[2] + entry.failure)
            pairs = (pairs[0] + entry.eps, pairs[1] + entry.delta)
        return replace(self, spent=spent, pairs=pairs)

    def _alive(self) -> list[tuple[float, float, float]]:
        """Return the boxes that contain the amounts spent."""
        m, u, f = self.spent
        held = self.boxes if self.rule == "mixed" else ((self.caps,) if self.caps else ())
        return [
            box
            for box in held
            if m <= (box[0] * _SLACK) ** 2 and u <= box[1] * _DIGITS and f <= box[2] * _DIGITS
        ]

    def _headroom(self) -> float:
        """Return how much room the boxes have left; 0 under the basic rule."""
        m, u, f = self.spent
        left = 0.0
        for big, cap, lost in self._alive():
            share = max(0.0, 1.0 - m / big**2) if big > 0 else 0.0
            share *= max(0.0, 1.0 - u / cap) if cap > 0 else 1.0
            left += share * (max(0.0, 1.0 - f / lost) if lost > 0 else 1.0)
        return left

    def _open_caps(self, first: Entry) -> tuple[float, float, float] | None:
        """Fix (M, E, D) at the first charge: D + dG(eps - E; M) <= delta."""
        cap_eps = first.pure if self.cap_eps is None else self.cap_eps
        if not first.pure <= cap_eps <= self.eps:
            return None
        if self.cap_delta is None:
            room = self.delta - delta_gdp(self.eps - cap_eps, math.sqrt(first.mu2))
            cap_delta = max(min(_FAILURE_SHARE * self.delta, room), first.failure)
        else:
            cap_delta = self.cap_delta
        if cap_delta > self.delta:
            return None
        return self._mu(cap_eps, self.delta - cap_delta * _DIGITS), cap_eps, cap_delta

    def _default_boxes(self) -> tuple[tuple[float, float, float], ...]:
        """Return the boxes that eps and delta alone fix: D_0 + D + sum_j dG <= delta."""
        cap, others = _MIXED_FAILURE * self.delta, _MIXED_BOXES * self.delta
        return self._boxes(0.0, cap, _MIXED_PAIRS * self.delta * _DIGITS, others)

    def _open_boxes(self, first: Entry) -> tuple[tuple[float, float, float], ...]:
        """Return boxes for a first charge that the default does not hold.

        The first box has the E of the first charge and all of delta but D and a tenth of what the
        first charge leaves free; the others share that tenth.
        """
        low = first.pure
        if low > self.eps or first.failure > self.delta:
            return ()
        free = self.delta - delta_gdp(self.eps - low, math.sqrt(first.mu2))
        cap = max(_FIRST_FAILURE * free, first.failure)
        others = min(_MIXED_BOXES * max(free, 0.0), max(free - cap, 0.0))
        return self._boxes(low, cap, 0.0, others)

    def _boxes(
        self, low: float, cap: float, sums: float, others: float
    ) -> tuple[tuple[float, float, float], ...]:
        """Return boxes from E = low on; those above it share ``others`` of delta."""
        boxes = [(self._mu(low, self.delta - sums - cap * _DIGITS - others), low, cap)]
        levels = [self.eps * k / _BOXES for k in range(1, _BOXES) if self.eps * k / _BOXES > low]
        if others > 0:
            boxes += [(self._mu(e, others / len(levels)), e, cap) for e in levels]
        return tuple(boxes)

    def _mu(self, cap_eps: float, delta: float) -> float:
        """Return M with dG(eps - E; M) <= delta, E with its last digits."""
        left = self.eps - cap_eps * _DIGITS
        return mu_gdp(left, delta) if delta > 0 and left >= 0 else 0.0

    def remaining(self, at: float | None = None) -> Remaining:
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

    def spent_text(self) -> str:
        """Return the sum of all charges, in the units of the rule."""
        if self.rule == "basic":
            return f"(eps = {self.pairs[0]:.4g}, delta = {self.pairs[1]:.3g})"
        return amount_text(*self.spent)

    def charge_text(self, entry: Entry) -> str:
        """Return the charge of one call, in the units of the rule."""
        if self.rule == "basic":
            return f"(eps = {entry.eps:.4g}, delta = {entry.delta:.3g})"
        return amount_text(entry.mu2, entry.pure, entry.failure)

    def _untouched(self) -> tuple[float, float, float]:
        """Return the caps (mu, eps, delta) of an account before its first charge."""
        pure = self.cap_eps or 0.0
        failure = _FAILURE_SHARE * self.delta if self.cap_delta is None else self.cap_delta
        delta_left = self.delta - failure
        return (mu_gdp(self.eps - pure, delta_left) if 0 < delta_left < 1 else 0.0), pure, failure

    def _refusal(self, guarantee: Guarantee) -> str:
        """Return the message that refuses a charge, with the remaining budget."""
        left = self.remaining(guarantee.delta if 0 < guarantee.delta < 1 else None)
        request = (
            f"this call asks for (eps = {guarantee.eps:g}, delta = {guarantee.delta:g}); the budget"
        )
        if self.rule == "basic" or self.calls == 0:
            text = f"{request} has (eps = {left.eps:.4g}, delta = {left.delta:.4g}) left"
        else:
            first = entries_of(guarantee, self.relation, self.unit)[0]
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

    def _cost_of_sums(self) -> str:
        """Return the sentence on the remainder of Gaussian accounting after the same calls."""
        other = replace(
            self, rule="mixed", boxes=self._default_boxes(), sums=_MIXED_PAIRS * self.delta
        ).remaining()
        if not other.mu or other.eps <= self.remaining().eps:
            return ""
        return (
            f"\n  This budget adds up pairs. After the same calls a budget with "
            f'accounting="gaussian", the default,\n  has a Gaussian call of '
            f"(eps = {other.eps:.4g}, delta = {other.delta:.4g}) left."
        )

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
            # the pairs as a box without mu, marked by its fourth entry
            "boxes": [
                *map(list, self.boxes),
                *([[0.0, self.eps, self.sums, "pairs"]] if self.sums else []),
            ],
        }


def amount_text(mu2: float, eps: float, delta: float) -> str:
    """Return an amount of Gaussian budget (mu^2), of other eps and of failure probability."""
    parts = [f"mu^2 = {mu2:.4g}"] if mu2 > 0 else []
    parts += [f"eps = {eps:.4g}"] if eps > 0 else []
    parts += [f"delta = {delta:.3g}"] if delta > 0 else []
    return ", ".join(parts) or "nothing"


def charge_under(guarantee: Guarantee, relation: str) -> list[Entry]:
    """Return the entries of a call whose guarantee is stated for the other relation."""
    if (guarantee.relation, relation) != ("add-remove", "replace"):
        raise BudgetError(
            f"this budget counts neighbours by {relation!r}; the call's guarantee is for "
            f"{guarantee.relation!r}, which implies nothing about it: with n public the number "
            "of rows itself may be published. Use a separate budget for the call"
        )
    eps, delta = pair_replace(guarantee.eps, guarantee.delta)
    entries = [Entry(0.0, eps, delta, eps, delta)]
    entries.append(Entry((mu_of_pure(eps) * (1 + 1e-9)) ** 2, 0.0, delta, eps, delta))
    form = gaussian_form(guarantee.steps)
    if form is not None:
        mu, failure = gaussian_replace(*form)
        entries.insert(0, Entry(mu * mu, 0.0, failure, eps, delta))
        if not failure:  # twice the mu of each step, step by step
            entries[0] = replace(entries[0], how="steps")
    elif guarantee.gaussian_cover is not None:
        mu, failure = gaussian_replace(*guarantee.gaussian_cover)
        entries.insert(0, Entry((mu * (1 + 1e-9)) ** 2, 0.0, failure, eps, delta))
    return entries


# -- calls declared together: one guarantee.


def _steps_under(guarantee: Guarantee, relation: str, unit: str) -> tuple[Step, ...]:
    """Return steps that describe the call under a relation and unit."""
    if (guarantee.unit, guarantee.relation, guarantee.proved) != (unit, relation, None):
        entry = entries_of(guarantee, relation, unit)[0]
        parts = [Step("converted", Gaussian(math.sqrt(entry.mu2)), failure=entry.failure)]
        if entry.pure > 0:
            parts.append(Step("converted, pure part", Approximate(entry.pure, 0.0)))
        return tuple(parts)
    return guarantee.steps


def joint(
    guarantees: Sequence[Guarantee],
    delta: float | None = None,
    *,
    relation: str | None = None,
    unit: str | None = None,
) -> Guarantee:
    """Return the joint guarantee of calls declared together before the first of them ran.

    Parameters
    ----------
    delta : float, optional
        Where eps is stated; default: the sum of the deltas.
    relation, unit : str, optional
        Default: those of the calls; "replace" and "record" if they differ.

    Privacy
    -------
    Exact composition of all mechanisms. For calls chosen after seeing outputs it is a
    description of what ran, not a promise: there the budget's own pair is (theory.md, 4).
    """
    if not guarantees:
        raise RequestError("joint() needs at least one guarantee")
    relations, units = {g.relation for g in guarantees}, {g.unit for g in guarantees}
    relation = relation or (relations.pop() if len(relations) == 1 else "replace")
    unit = unit or (units.pop() if len(units) == 1 else "record")
    steps = tuple(
        replace(s, name=f"{i}: {s.name}")
        for i, g in enumerate(guarantees, 1)
        for s in _steps_under(g, relation, unit)
    )
    total = math.fsum(g.delta for g in guarantees) if delta is None else delta
    eps = eps_of_curve(parts_of(steps), total)
    if math.isinf(eps):  # conversions added failure: state it where the curve is finite
        total = min(1.0, max(total, parts_of(steps).infinite * (1 + 1e-6)))
        eps = eps_of_curve(parts_of(steps), total)
    notes = tuple(dict.fromkeys(n for g in guarantees for n in g.notes))
    return Guarantee(steps, eps, total, relation, unit, any(g.seeded for g in guarantees), notes)
