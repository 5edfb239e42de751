"""A method as a program: a generator that yields releases, receives noisy numbers, and ends.

:func:`run` answers a program from the private rows, within the steps that were charged. What a
method does with released numbers stands once, between two ``yield``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.core.sets import Formula, Reading
from dpmodels.sums.ask import ALL, Query, Read

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.mechanisms import Step


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy sums over rows: a formula of one row, and the set that its result must lie in.

    A program yields one, or a tuple of them that share one reading of the rows.
    """

    name: str  # Name of its step; a set of several parts puts words before it
    into: Any  # Set (:class:`dpmodels.core.sets.Set`)
    formula: Formula
    of: Design  # Columns that the formula sees
    read: Read = ALL
    # Planned step that pays for this release, and the steps that it starts; empty if planned.
    paid_by: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Queried:
    """A release of sums that queries share: by cluster, or second moments of mapped rows."""

    name: str  # Name of its step
    query: Query
    read: Read = ALL


@dataclass(frozen=True, eq=False)
class Own:
    """A release with a separate proof, in place of a set and a formula."""

    ask: Callable[[Any], Any]  # From the interface of the private stage


@dataclass(frozen=True, eq=False)
class End:
    """End of a program, with its released numbers."""

    values: Mapping[str, Any] = field(default_factory=dict)  # Released numbers, by name
    design: Design | None = None  # Design with every range known
    why: str = ""  # Reason for no reply, or empty
    detail: Any = None  # Released numbers as the estimate takes them
    remarks: Mapping[str, str] = field(default_factory=dict)  # For the ledger, by step


Program = Generator[Any, Any, Any]


def drive(program: Program, answer: Callable[[Any], Any]) -> Any:
    """Run a program, or a part of one, to its end; ``answer`` gives each request its numbers."""
    try:
        request = next(program)
        while True:
            request = program.send(answer(request))
    except StopIteration as end:
        return end.value


def run(program: Program, ask: Any) -> Any:
    """Run a program, or a part of one, over the private rows.

    Privacy
    -------
    The steps of the plan. A release without a planned step, or without a payer, is refused by the
    run. Each query is proved by the prover from the statistic of its set.
    """
    return drive(program, functools.partial(answered, ask=ask))


def answered(request: Any, ask: Any) -> Any:
    """Return the noisy numbers of a release, of a tuple of them in one reading, or of ``Own``."""
    if isinstance(request, Own):
        return request.ask(ask)
    if isinstance(request, Queried):
        return ask(request.name, request.query, request.read)
    releases = request if isinstance(request, tuple) else (request,)
    reading = Reading(
        releases[0].of, tuple(r.formula for r in releases), tuple(r.into for r in releases)
    )
    out = []
    for i, release in enumerate(releases):
        if release.paid_by:
            ask.pay(release.paid_by, release.steps)
        pick: Any = lambda sums, i=i: sums.arrays[i]  # noqa: E731 - one line of many readings
        out.append(ask_parts(ask, release.into, release.name, reading, pick, release.read))
    return tuple(out) if isinstance(request, tuple) else out[0]


def ask_parts(
    ask: Any, into: Any, name: str, over: Any, pick: Callable[[Any], Any], read: Read = ALL
) -> Any:
    """Return the release of a set, whose sums ``pick`` selects from the sums ``over`` the rows."""
    noisy = []
    for part in into.parts(name):
        take: Any = lambda sums, take=part.take: take(pick(sums))  # noqa: E731 - as above
        query = Query(part.statistic, over, take, part.unit, whole=part.geometric)
        noisy.append(ask(part.name, query, read))
    return into.together(noisy)
