"""The guarantee of a call: computed from the mechanisms of its plan, never typed in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dpmodels.errors import PrivacyBugError, RequestError, choice, shown
from dpmodels.privacy.composition import Parts, eps_of_curve, parts_of, smallest_eps
from dpmodels.privacy.group import charged
from dpmodels.privacy.mechanisms import Approximate, Step, mechanism_from_dict, mechanism_to_dict
from dpmodels.units.person import column_of, named

#: Relative error of sums of shares of eps.
_DIGITS = 1e-12
#: Relations as printed.
RELATIONS = {"replace": "replace one row; n is public", "add-remove": "add or remove one row"}
#: The same where the unit is a person.
_OF_PEOPLE = {
    "replace": "replace all rows of one person by others; the number of people is public, that "
    "of rows is not",
    "add-remove": "add or remove all rows of one person",
}


def neighbours_of(relation: str, unit: str) -> str:
    """Return the neighbouring tables of a relation and a unit, in words."""
    return (RELATIONS if column_of(unit) is None else _OF_PEOPLE)[relation]


@dataclass(frozen=True)
class Guarantee:
    """What a release promises, to whom, and by which mechanisms.

    Attributes
    ----------
    steps : tuple of Step
        The mechanisms, those that a no-reply skipped included.
    eps, delta : float
        The requested pair. Construction fails if the steps do not compose to it.
    relation : {"replace", "add-remove"}
        Neighbours the promise is about.
    unit : str
        "record", "attribute", or "one person (column person_id)".
    seeded : bool
        True if the noise came from a seed: then nothing is promised. The curve is that of the
        same call without a seed.
    notes : tuple of str
        Qualifications that belong to the statement (float noise, ...).
    record_pair : (eps, delta) or None
        For the unit "attribute": what a whole row gets.
    proved : {"replace", "add-remove"} or None
        Relation the mechanisms are stated for, if not ``relation``: the curve is then converted.
    inner : tuple of Step
        Cap and pay: the steps of one row, of which ``steps`` is what ``most`` rows come to. They
        are what is run. Empty: ``steps`` are.
    most : int
    row_pair : (eps, delta) or None
        What ``inner`` composes to.
    """

    steps: tuple[Step, ...]
    eps: float
    delta: float
    relation: str = "replace"
    unit: str = "record"
    seeded: bool = False
    notes: tuple[str, ...] = field(default=())
    record_pair: tuple[float, float] | None = None
    proved: str | None = None
    inner: tuple[Step, ...] = field(default=(), compare=False)
    most: int = 0
    row_pair: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.inner:
            assert self.row_pair is not None
            rules = (
                charged(self.inner, self.most, self.row_pair, by_pair=b) for b in (False, True)
            )
            if self.steps not in rules:
                raise PrivacyBugError("a person is not charged with what its rows come to")
        choice("relation", self.relation, RELATIONS)
        choice("proved", self.proved, (None, *RELATIONS))
        if self.proved == "replace" and self.relation == "add-remove":
            raise PrivacyBugError("a replace-one proof implies nothing under add/remove")
        # Root finders and shares that add up to eps and a last digit: the noise, which is rounded
        # up by one part in 1e9, pays (theory.md, 6.2).
        allowed = self.delta * (1 + 1e-9) + 1e-300
        above = self.delta_at(self.eps) > allowed
        if above and not self.delta_at(self.eps * (1 + _DIGITS)) <= allowed:
            raise PrivacyBugError(
                f"the steps of this plan compose to delta = {self.delta_at(self.eps)!r} at "
                f"eps = {self.eps!r}, above the requested {self.delta!r}"
            )

    @cached_property
    def _parts(self) -> Parts:
        return parts_of(self.steps)

    @property
    def _converted(self) -> bool:
        return self.proved == "add-remove" and self.relation == "replace"

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the composed steps."""
        if self._converted:
            from dpmodels.privacy.group import replace_delta

            return replace_delta(self.steps, eps, self._parts.delta)
        return self._parts.delta(eps)

    def eps_at(self, delta: float) -> float:
        """Return the smallest eps with delta(eps) <= delta."""
        if not self._converted:
            return eps_of_curve(self._parts, delta)
        return smallest_eps(self.delta_at, delta)

    @cached_property
    def gaussian_cover(self) -> tuple[float, float] | None:
        """(mu, failure) with delta(eps) <= dG(eps; mu) + failure for every real eps, or None.

        A tenth of delta, beside what the steps give away outright, is taken as the failure: more
        would spare little mu. Without it no Gaussian curve lies above that of most mechanisms.
        """
        from dpmodels.privacy.gdp import gaussian_cover

        infinite = 0.0 if self._parts.alone is not None else self._parts.infinite
        if self._converted:
            infinite = 0.0
        failure = infinite + 0.1 * max(0.0, self.delta - infinite)
        if not 0.0 < failure < 1.0:
            return None
        mu = gaussian_cover(self.delta_at, failure)
        return None if mu is None else (mu, failure)

    def tradeoff(self, alpha: float) -> float:
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
    def _curve(self) -> tuple[tuple[float, float], ...]:
        top = min(50.0, max(2.0 * self.eps, 1.0))
        grid = [top * (k / 399) ** 2 for k in range(400)]
        return tuple((e, self.delta_at(e)) for e in grid)

    def plot(self, ax: Any = None) -> Any:
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
    def neighbours(self) -> str:
        """The neighbouring tables, in words."""
        return neighbours_of(self.relation, self.unit)

    def statement(self) -> str:
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
        return "; ".join((text, *self.notes))

    def __repr__(self) -> str:
        return f"<guarantee: {self.statement()}>"

    def not_private(self) -> Guarantee:
        """Return the same plan, marked as run with seeded noise."""
        return replace(self, seeded=True)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; mechanisms by kind, name and parameters."""
        return {
            "steps": [
                {
                    "name": s.name,
                    "mechanism": mechanism_to_dict(s.mechanism),
                    "share": s.share,
                    "failure": s.failure,
                    "reply_test": s.reply_test,
                    "label": s.label,
                }
                for s in self.steps
            ],
            "eps": self.eps,
            "delta": self.delta,
            "relation": self.relation,
            "unit": self.unit,
            "seeded": self.seeded,
            "notes": list(self.notes),
            "record_pair": None if self.record_pair is None else list(self.record_pair),
            "proved": self.proved,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Guarantee:
        """Rebuild a guarantee from :meth:`to_dict`; unknown keys are ignored."""
        steps = tuple(
            Step(**{**s, "mechanism": mechanism_from_dict(s["mechanism"])}) for s in saved["steps"]
        )
        pair = saved.get("record_pair")
        return cls(
            steps,
            saved["eps"],
            saved["delta"],
            saved["relation"],
            saved["unit"],
            saved["seeded"],
            tuple(saved["notes"]),
            None if pair is None else (pair[0], pair[1]),
            saved.get("proved"),
        )

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_parts", "_curve", "gaussian_cover")
        return {k: v for k, v in self.__dict__.items() if k not in hidden}


def _under(guarantee: Guarantee, relation: str, unit: str) -> tuple[Step, ...]:
    """Return steps that describe the call under a relation and unit."""
    if (guarantee.unit, guarantee.relation, guarantee.proved) != (unit, relation, None):
        from dpmodels.privacy.account import entries_of
        from dpmodels.privacy.mechanisms import Gaussian

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
    guarantees : sequence of Guarantee
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
        for s in _under(g, relation, unit)
    )
    total = math.fsum(g.delta for g in guarantees) if delta is None else delta
    eps = eps_of_curve(parts_of(steps), total)
    if math.isinf(eps):  # conversions added failure: state it where the curve is finite
        total = min(1.0, max(total, parts_of(steps).infinite * (1 + 1e-6)))
        eps = eps_of_curve(parts_of(steps), total)
    notes = tuple(dict.fromkeys(n for g in guarantees for n in g.notes))
    return Guarantee(steps, eps, total, relation, unit, any(g.seeded for g in guarantees), notes)
