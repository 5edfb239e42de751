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
    gaussian_form,
    gaussian_replace,
    mu_gdp,
    mu_of_pure,
    pair_replace,
)
from dpmodels.privacy.remainder import ReadAccount, other_people
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
            raise BudgetError(other_people(unit, guarantee.unit))
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


@dataclass(frozen=True)
class Account(ReadAccount):
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
        described = entries[0]
        if self.rule == "basic":  # the pair of the whole call is what is added up
            pair = "pair" if any(entry.how == "pair" for entry in entries) else "other"
            entries = [replace(entries[0], how=pair)]
        alone = replace(self, spent=(0.0, 0.0, 0.0), pairs=(0.0, 0.0))
        for entry in sorted(entries, key=alone._left_by, reverse=True):
            after = self._try(entry)
            if after is not None:
                return after, entry
        raise BudgetExceededError(self._refusal(guarantee, described))

    def _try(self, entry: Entry) -> Account | None:
        """Return the account after a charge, or None if it does not fit."""
        pairs = (self.pairs[0] + entry.eps, self.pairs[1] + entry.delta)
        m, u, f = self.spent
        spent = (m + entry.mu2, u + entry.pure, f + entry.failure)
        after = replace(self, spent=spent, pairs=pairs, calls=self.calls + 1)
        if self.rule == "basic":
            fits = pairs[0] <= self.eps * _DIGITS and pairs[1] <= self.delta * _DIGITS
            return after if fits else None
        if self.rule == "caps":
            after = replace(after, caps=self.caps or self._open_caps(entry))
        elif not self.boxes:
            after = after._mixed()
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

    def _mixed(self) -> Account:
        """Return the account with what eps and delta alone fix: D_0 + D + sum_j dG <= delta."""
        cap, others = _MIXED_FAILURE * self.delta, _MIXED_BOXES * self.delta
        boxes = self._boxes(0.0, cap, _MIXED_PAIRS * self.delta * _DIGITS, others)
        return replace(self, rule="mixed", boxes=boxes, sums=_MIXED_PAIRS * self.delta)

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

    def _untouched(self) -> tuple[float, float, float]:
        """Return the caps (mu, eps, delta) of an account before its first charge."""
        pure = self.cap_eps or 0.0
        failure = _FAILURE_SHARE * self.delta if self.cap_delta is None else self.cap_delta
        delta_left = self.delta - failure
        return (mu_gdp(self.eps - pure, delta_left) if 0 < delta_left < 1 else 0.0), pure, failure

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings and the caps, for storage."""
        # the pairs as a box without mu, marked by its fourth entry
        pairs = [[0.0, self.eps, self.sums, "pairs"]] if self.sums else []
        return {
            "eps": self.eps, "delta": self.delta, "relation": self.relation, "unit": self.unit,
            "rule": self.rule, "cap_eps": self.cap_eps, "cap_delta": self.cap_delta,
            "caps": None if self.caps is None else list(self.caps),
            "boxes": [*map(list, self.boxes), *pairs],
        }  # fmt: skip


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
    guarantees: Sequence[Guarantee], delta: float | None = None, *,
    relation: str | None = None, unit: str | None = None,
) -> Guarantee:  # fmt: skip
    """Return the joint guarantee of calls declared together before the first of them ran.

    eps is stated at ``delta``, by default the sum of the deltas. Relation and unit are by default
    those of the calls, and "replace" and "record" if they differ.

    **Privacy.** Exact composition of all mechanisms. For calls chosen after seeing outputs it is a
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
