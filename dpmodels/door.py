"""The one door to private rows: checks, warnings, the charge, and only then noise and a stage.

:func:`opened` checks budget and seed, warns of public facts and charges the ledger;
:func:`released` calls the stage, once a charge, under the guard, with a run made from the very
guarantee that was charged. No other module calls a function that reads rows, makes a run, or makes
noise (``tests/unit/test_wall.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from dpmodels import _testing
from dpmodels.errors import (
    BudgetError,
    ClusterError,
    DamagedFileError,
    LedgerWarning,
    NotPrivateWarning,
    PrivacyBugError,
    RequestError,
    SourceError,
    UtilityWarning,
)
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.ledger_file import Charge
from dpmodels.privacy.noise import make_noise
from dpmodels.privacy.run import FLOAT_NOTES, Run
from dpmodels.quiet import guarded, tell
from dpmodels.records import Release, check_seed
from dpmodels.sources.parts import Source
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Ask
from dpmodels.units import Person, column_of

__all__ = [
    "Opened",
    "Planned",
    "checked",
    "opened",
    "people_count",
    "released",
    "row_count",
    "rows_of",
    "run_stage",
    "tell",
]


T = TypeVar("T")


class Planned(Protocol):
    """Interface that the door needs from a plan."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee that is charged."""
        ...

    @property
    def n(self) -> int | None:
        """Public number of units, None where it is private or unknown."""
        ...

    @property
    def advice(self) -> tuple[str, ...]:
        """Warnings, functions of public facts."""
        ...


@dataclass(frozen=True)
class Opened:
    """A call that was checked and charged. Made by :func:`opened` alone; good for one stage."""

    plan: Any  # Handed to the stage
    guarantee: Guarantee  # As charged: marked where the noise is seeded
    _runs: list[Run]
    _ledger: tuple[Any, Any] | None

    def remark(self, step: str, text: str) -> None:
        """Write a remark on a step into the ledger."""
        if self._ledger is not None:
            budget, charge = self._ledger
            budget.note(charge, step, text)

    def note(self, reply: bool, ended: str = "") -> None:
        """Write into the ledger whether the private test of the data allowed a reply.

        Methods with such a test release either the fit or "no reply". The outcome is an output too
        and was charged, so it may be shown. ``ended`` is the name of the step at which a call
        without a reply ended, if that is known. Otherwise the remark is at the last test.
        """
        tests = [step.name for step in self.guarantee.steps if step.reply_test]
        if tests:
            step = (not reply and ended) or tests[-1]
            self.remark(step, "reply" if reply else "NO REPLY")

    def close(self, run: Run) -> Charge | None:
        """Close the run and give back to the budget the steps whose noise was not drawn.

        Return the new charge, or None if nothing was given back. The charge stays as it is under a
        seed, and if the ledger cannot be written.
        """
        if self._ledger is None or self.guarantee.seeded:
            run.close()
            return None
        budget, charge = self._ledger
        if not hasattr(budget, "_give_back"):
            run.close()
            return None
        try:
            returned: Charge | None = budget._give_back(charge, run)
        except BudgetError as error:
            tell(LedgerWarning(f"nothing was given back, the charge stands: {error}"))
            return None
        return returned

    @property
    def charged(self) -> str:
        """Sentence on the charge after an error of the source ended the call."""
        return "No result" if self._ledger is None else "The charge stands"

    def stopped(self, untouched: bool) -> str:
        """Return a sentence on the charge after the workers of a call died.

        ``untouched``: nothing was released yet, so the same call can be made again without a new
        charge.
        """
        if not untouched:
            return "The charge stands, once: something was released. Another call is another charge"
        if self._ledger is None:
            return "Nothing was released"
        budget, charge = self._ledger
        if hasattr(budget, "stopped"):
            budget.stopped(charge, self.guarantee)
        return (
            "The charge stands, once. Nothing was released: the same call with the same budget "
            "takes it up, and is not charged again"
        )


def checked(budget: Any, seed: Any) -> None:
    """Refuse a budget or a seed that is none. Call it before anything is read."""
    check_seed(seed)
    if budget is not None and not hasattr(budget, "charge"):
        raise BudgetError("budget= must be a dp.Budget, for example dp.Budget(eps=3, delta=1e-5)")


def opened(label: str, plan: Planned, budget: Any, seed: int | None, *, what: str = "") -> Opened:
    """Check, warn, charge: everything that comes before the first row.

    ``label`` is the call as printed in the ledger: public. Without a budget it is that of the
    enclosing ``with budget:`` block. ``what``: subject of the warning that a seed brings, as in
    "the fit is ".

    **Privacy.** Reads no row and draws no noise. The guarantee of the plan is charged in full, and
    a crash after this leaves the charge standing.
    """
    checked(budget, seed)
    if refusal := getattr(plan, "refusal", ""):
        raise RequestError(refusal)
    noise = _testing.NOISE.get() or make_noise(seed)
    guarantee = plan.guarantee if noise.private else plan.guarantee.not_private()
    if seed is not None:
        text = f"seed= was given: the noise is reproducible, {what}NOT PRIVATE"
        tell(NotPrivateWarning(text))
    if plan.n and guarantee.delta >= 1.0 / plan.n:
        lost = "record" if column_of(guarantee.unit) is None else "person"
        tell(
            UtilityWarning(
                f"delta = {guarantee.delta:g} is not below 1/n = {1 / plan.n:.3g}: it allows a "
                f"{lost} to be published outright. A usual choice is well below 1/n"
            )
        )
    tell(*map(UtilityWarning, plan.advice))
    from dpmodels.privacy.budget import charge_call

    run = Run(guarantee.inner or guarantee.steps, noise)
    ledger = charge_call(budget, label, guarantee)
    return Opened(plan, guarantee, [run], ledger)


def check_unit(source: Any, unit: str | None) -> None:
    """Refuse a call that would protect one row of a table whose rows are people, or other people.

    Called before anything is charged, wherever units are counted.
    """
    people_of = getattr(source, "people_of", None)
    if people_of is not None and unit != people_of:
        raise RequestError(
            f"each row of this table summarises all rows of one person (column {people_of}). Add "
            f"unit={people_of!r} to protect the person, for any number of rows"
        )


def people_count(source: Source, person: Person, *, public_n: bool) -> int:
    """Return the public number of people: as declared, or the number of different ids.

    Under add-remove it is private: nothing is read, and 0 returned.
    """
    check_unit(source, person.column)
    if not public_n:
        if person.count is not None:
            raise RequestError(
                "under relation='add-remove' the number of people is private: give a public guess "
                f"of it, n_guess={person.count}, instead of units="
            )
        return 0
    if person.count is not None:
        return person.count
    if not source.rescannable:
        raise RequestError(
            "an iterator of tables gives its rows only once, so people cannot be counted before "
            "the fit: add units=<number of people>"
        )
    from dpmodels.sources.people import count_people
    from dpmodels.sources.sorted import count_distinct

    count = count_distinct if person.sort else count_people
    people = guarded(lambda: count(source, person), charged=False)
    if people < 1:
        raise RequestError(
            f"unit={person.column!r}: no cell of the column is an id. Ids are whole numbers or text"
        )
    return people


def rows_of(
    source: Source, n: int, progress: bool | None = False, *, person: Person | None = None,
    kinds: Any = None, seed: int | None = None, **reading: Any,
) -> Any:  # fmt: skip
    """Return the rows of a source for :func:`released`; no cell is read before the stage.

    Arguments are as in :class:`dpmodels.sources.rows.Rows`. If the unit is a ``person`` the rows
    come person by person (:class:`dpmodels.sources.people.PeopleRows`), without a bar; or
    ``max_rows=`` of each, as rows (:class:`dpmodels.sources.people.CappedRows`): of the variables
    ``kinds``, and drawn by the ``seed`` of the call.
    """
    from dpmodels.sources.executors import executor_for

    if person is not None:
        from dpmodels.sources.people import CappedRows, PeopleRows
        from dpmodels.sources.sorted import SortedPeople

        by_person = SortedPeople if person.sort else PeopleRows
        public_n = reading.get("public_n", True)
        people = by_person(source, n, person, public_n=public_n, executor=executor_for(source))
        if not person.most:
            return people
        # separate draws, which are not those of the run
        return CappedRows(people, kinds, make_noise(None if seed is None else seed + 1))
    from dpmodels.sources.rows import Rows

    return Rows(source, n, progress, executor=executor_for(source), **reading)


def released(door: Opened, stage: Callable[[Any, Ask], T], rows: Any) -> T:
    """Call the stage on the rows, once: the sole caller of anything that reads them.

    What ``stage(plan, ask)`` returns is released. ``rows`` is the private argument itself of a call
    that has no table (votes).

    **Privacy.** Under the guard: no warning gets out, and an exception says nothing of the rows. A
    second stage for one charge is refused.
    """
    if not door._runs:
        raise PrivacyBugError("this call was charged once and its stage ran already")
    run = door._runs.pop()  # of two threads one gets it
    kind: type[SourceError]
    try:
        output = guarded(lambda: stage(door.plan, Ask(rows, run, door.guarantee.relation)))
    except SourceError as error:
        kind, lost = type(error), error.args[0]
    else:
        # whether there is a reply is released: public
        first = output[0] if isinstance(output, tuple) and output else output
        replied = first is not None and getattr(first, "reply", True) is not False
        # a step may be left out where it is conditional on an answer before it, or behind a test
        # of which there was no reply
        guarantee = door.guarantee
        steps = {step.name: step for step in guarantee.inner or guarantee.steps}
        left = [name for name in run.undrawn if not steps[name].conditional]
        if left and (replied or not any(step.reply_test for step in steps.values())):
            raise PrivacyBugError(f"the stage left planned steps undrawn: {', '.join(left)}")
        if run.float_note and not set(FLOAT_NOTES) & set(guarantee.notes):
            raise PrivacyBugError("float noise was drawn and no note of the guarantee says so")
        drawn = () if replied else run.drawn_whole
        back = door.close(run)
        if isinstance(output, Release):
            output = replace(output, ended=drawn[-1] if drawn else "", back=back)
        return output
    finally:
        if isinstance(rows, OfRows):  # votes are not
            rows.close()
    if kind is ClusterError:
        raise ClusterError(f"{lost}. {door.stopped(run.untouched)}")
    if kind is DamagedFileError and door.close(run) is not None:
        # a fact of the file that no cell decides, found too where rows are counted, at no charge
        raise kind(f"{lost}. The budget got back the part for which no noise was drawn")
    raise kind(f"{lost}. {door.charged}")


def run_stage(
    label: str, plan: Planned, stage: Callable[[Any, Ask], T], rows: Callable[[], Any],
    budget: Any, seed: int | None, *, what: str = "",
) -> tuple[Opened, T]:  # fmt: skip
    """Open the door and call the stage: the one way from a verb to private rows.

    ``rows`` makes what :func:`released` takes: nothing is opened before the charge. Return what was
    charged, and the result of the stage.
    """
    door = opened(label, plan, budget, seed, what=what)
    return door, released(door, stage, rows())


def row_count(source: Source, declared: int | None, name: str, *, asks_n: bool = True) -> int:
    """Return the public number of rows, counting the column ``name`` if the source states none.

    ``declared`` is ``n=`` of the call, if it has one (``asks_n``).
    """
    check_unit(source, None)
    if source.n is not None:
        if declared is not None and declared != source.n:
            raise RequestError(f"n={declared} was given, but the table has {source.n} rows")
        return source.n
    if declared is not None:
        return declared
    if not source.rescannable:
        raise RequestError(
            "an iterator of tables does not say how many rows it has"
            + (": add n=<number of rows>" if asks_n else "")
        )
    from dpmodels.sources.rows import count_rows

    return guarded(lambda: count_rows(source, name), charged=False)
