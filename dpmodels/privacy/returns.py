"""Returns to a budget after a call that ended early. Pure arithmetic; no storage, no noise.

A charge is committed whole before the first draw. When the stage has ended its run is closed:
nothing can be drawn of it any more, and what was not drawn may go back. How much follows from the
description that was charged (``theory.md``, 4): of a sum over steps the steps that were not drawn;
of a pair the part of eps beyond what the drawn steps can lose; of any other description nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dpmodels.errors import PrivacyBugError, RequestError
from dpmodels.privacy.account import Entry
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Pure,
    Step,
    eps_gdp,
    gaussian_form,
    gaussian_replace,
)

#: Part of delta that a call which may end early sets aside for its early ends (theory.md, 4).
EARLY_ENDS_SHARE = 1e-3
#: Less than this part of a charge is not given back: the last digits of sums.
MIN_RETURN = 1e-6
#: Factor that rounds up the eps of an early end; it covers root finders of other machines.
_UP = 1.0 + 1e-9


@dataclass(frozen=True)
class Drawn:
    """Parts of the planned steps that a closed run drew.

    Privacy
    -------
    Which steps were drawn follows from released numbers.
    """

    # Step -> part of its mu^2 that was drawn: 1, 0, or between of a step within whose share others
    # are drawn.
    parts: Mapping[str, float]
    no_reply: tuple[str, ...] = ()  # Coins that gave no reply

    @classmethod
    def of_dict(cls, saved: Mapping[str, object]) -> Drawn:
        """Rebuild the record that :meth:`to_dict` wrote, or raise ``RequestError``."""
        parts, coins = saved.get("parts"), saved.get("no_reply")
        if not (isinstance(parts, dict) and isinstance(coins, list)):
            raise RequestError("this is not a record of drawn steps")
        out = {str(name): float(part) for name, part in parts.items()}
        return cls(out, tuple(map(str, coins)))

    def to_dict(self) -> dict[str, object]:
        """Return lists and numbers; steps that were drawn whole are left out."""
        in_part = {name: part for name, part in self.parts.items() if part < 1.0}
        return {"parts": in_part, "no_reply": list(self.no_reply)}

    def part(self, step: Step) -> float:
        """Return the part of a step's mu^2 that was drawn; 1 of a step that the run had not."""
        return self.parts.get(step.name, 1.0)

    def steps(self, guarantee: Guarantee) -> tuple[Step, ...]:
        """Return the steps that were drawn, each with its drawn part."""
        out = []
        for step in guarantee.steps:
            part, m = self.part(step), step.mechanism
            if part <= 0.0:
                continue
            if step.name in self.no_reply and step.no_reply_eps and isinstance(m, Approximate):
                step = replace(step, mechanism=Approximate(step.no_reply_eps, m.delta))
            elif part < 1.0:
                if not isinstance(m, Gaussian) or step.failure:
                    raise PrivacyBugError(f"step {step.name!r} was drawn in part")
                step = replace(step, mechanism=Gaussian(m.mu * math.sqrt(part)))
            out.append(step)
        return tuple(out)


def kept_of(guarantee: Guarantee, relation: str, entry: Entry, drawn: Drawn) -> Entry:
    """Return the kept part of a charge: all of it if nothing goes back.

    The relation is that of the budget. **Privacy.** ``theory.md``, 4: Theorem 1 where a sum over
    steps was charged, Theorem 2 of a pair.
    """
    if guarantee.seeded or not all(0.0 <= part <= 1.0 for part in drawn.parts.values()):
        return entry
    if entry.how == "steps":
        part_kept = _sum_of_steps(guarantee, relation, entry, drawn)
    elif entry.how == "pair":
        eps = min(entry.eps, _eps_of_end(guarantee, drawn))
        by_pair = not entry.mu2 and entry.pure == entry.eps
        part_kept = replace(entry, pure=eps if by_pair else entry.pure, eps=eps)
    else:
        return entry
    back = [a - b for a, b in zip(numbers_of(entry), numbers_of(part_kept), strict=True)]
    if min(back) < 0.0:  # rounding: nothing is kept above the charge
        part_kept = replace(
            entry, mu2=min(entry.mu2, part_kept.mu2), pure=min(entry.pure, part_kept.pure),
            failure=min(entry.failure, part_kept.failure), eps=min(entry.eps, part_kept.eps),
        )  # fmt: skip
    return part_kept if part_returned(entry, part_kept) > MIN_RETURN else entry


def numbers_of(entry: Entry) -> tuple[float, ...]:
    """Return the five numbers of an entry, as they are stored."""
    return entry.mu2, entry.pure, entry.failure, entry.eps, entry.delta


def part_returned(entry: Entry, part_kept: Entry) -> float:
    """Return the returned part of a charge, in mu^2 or, without mu^2, in eps."""
    if entry.how == "steps" and entry.mu2 > 0.0:
        return 1.0 - part_kept.mu2 / entry.mu2
    if entry.how == "steps" and entry.pure > 0.0:
        return 1.0 - part_kept.pure / entry.pure
    return 1.0 - part_kept.eps / entry.eps if entry.eps > 0.0 else 0.0


def currency_of(entry: Entry) -> str:
    """Return the name of the amount that :func:`part_returned` divides, as printed."""
    return "mu^2" if entry.how == "steps" and entry.mu2 > 0.0 else "eps"


def _sum_of_steps(guarantee: Guarantee, relation: str, entry: Entry, drawn: Drawn) -> Entry:
    """Return the sum over the drawn steps (Theorem 1), and its (eps, delta) pair."""
    steps = drawn.steps(guarantee)
    if relation != guarantee.relation or guarantee.proved not in (None, guarantee.relation):
        form = gaussian_form(steps)
        mu, failure = (math.inf, 1.0) if form is None else gaussian_replace(*form)
        if failure:
            return entry
        return replace(entry, mu2=mu * mu, pure=0.0, failure=0.0)
    mu2, pure, failure = sums_of(steps)
    # plain sums of pairs hold too under this rule, so the pair is that of Theorem 2
    eps = min(entry.eps, _eps_of_end(guarantee, drawn))
    return replace(entry, mu2=mu2, pure=pure, failure=failure, eps=eps)


def sums_of(steps: Iterable[Step]) -> tuple[float, float, float]:
    """Return (sum mu^2, sum eps, sum of failures and deltas) of simple steps."""
    mu2 = pure = failure = 0.0
    for step in steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, Pure):
            pure += m.eps
        elif isinstance(m, Approximate):
            pure, failure = pure + m.eps, failure + m.delta
        else:
            raise PrivacyBugError(f"step {step.name!r} has no sum")
    return mu2, pure, failure


def _eps_of_end(guarantee: Guarantee, drawn: Drawn) -> float:
    """Return the eps of an early end of a call that was charged by its pair (Theorem 2).

    An end is at a step with a test; what stands before it counts as drawn. Its Gaussian part has an
    equal part of what was set aside of delta. Where nothing Gaussian was drawn, the eps of pure
    steps is a bound whatever the end.
    """
    charged_eps = guarantee.eps
    if not all(isinstance(s.mechanism, (Gaussian, Pure, Approximate)) for s in guarantee.steps):
        return charged_eps
    mu2, pure, _ = sums_of(drawn.steps(guarantee))
    if mu2 == 0.0:
        return pure
    listed = guarantee.steps
    ends = [k for k, step in enumerate(listed) if step.reply_test]
    last = max((k for k, step in enumerate(listed) if drawn.part(step) >= 1.0), default=-1)
    aside = EARLY_ENDS_SHARE * guarantee.delta
    room = guarantee.delta - aside
    if last not in ends or not guarantee.delta_at(charged_eps) <= room * (1.0 + 1e-9):
        return charged_eps
    before = {step.name: 1.0 for step in listed[: last + 1]}
    mu2, pure, _ = sums_of(replace(drawn, parts={**drawn.parts, **before}).steps(guarantee))
    return (pure + eps_gdp(math.sqrt(mu2), aside / len(ends))) * _UP


def agrees(saved: Entry, recomputed: Entry, charged: Entry) -> bool:
    """Return whether the kept part in a file follows from its charge and the drawn steps.

    The roots of other machines may differ in their last digits; no more than what was charged.
    """
    pairs = zip(numbers_of(saved), numbers_of(recomputed), numbers_of(charged), strict=True)
    return all(abs(a - b) <= 1e-7 * b and a <= c for a, b, c in pairs)
