"""Budgets, which charge before noise is drawn.

A :class:`Budget` lives in memory, or in one SQLite file shared by processes
(:meth:`Budget.open`). The order is always: check (nothing read), charge (committed), read rows,
draw noise. Killed at any moment, a ledger never under-counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpmodels.errors import BudgetError, PrivacyBugError, RequestError, shown
from dpmodels.privacy.asked import checked_unit, new_account, rule_named
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.ledger_file import Charge, FileStore, MemoryStore
from dpmodels.privacy.reports import Ledger, ReportedBudget
from dpmodels.privacy.run import Run
from dpmodels.quiet import Enter, Exit, Scope, Within, lock

__all__ = ["Budget", "Charge", "Ledger", "current_budget"]


#: Budgets whose blocks enclose what runs here. One may be the block of several threads at once.
_BLOCKS = Scope("dpmodels_budgets")
_LOCK = lock()


class Budget(ReportedBudget):
    """A total privacy budget shared by calls.

    Parameters
    ----------
    eps, delta : float
        The guarantee of everything that is ever charged here, together.
    relation : {"replace", "add-remove"}
        Neighbours the budget counts by. Calls with a guarantee under the other relation are
        converted by proof, or refused where there is none.
    unit : {"record", "attribute"}, or a column
        A column says whose row it is: the budget then protects one person, whatever the number of
        rows. Calls must have the same unit: a loss stated for rows says nothing of people, nor
        the reverse.
    rule : {"auto", "mixed", "caps", "basic"}
        Stopping rule (``dpmodels.privacy.account``); "auto" is "mixed", or "caps" with ``cap_eps``.
        "mixed": Gaussian parts add in mu^2, others in eps, in any order. 35 % of delta is kept for
        failures, a quarter for calls whose (eps, delta) fit as plain sums. "caps": one fixed
        division, the most for Gaussian calls alone. "basic": the (eps, delta) of the calls add up.
    accounting : {"gaussian", "sums"}, optional
        The rule in words: "gaussian", the default, is "mixed", for calls of all kinds. "sums" is
        "basic": only where all of delta goes to calls that have no Gaussian noise.
    cap_eps, cap_delta : float, optional
        Parts of the budget kept for pure and for (0, delta) mechanisms; they choose the caps rule.
        Default there: what the first call needs, and a fifth of delta.

    Privacy
    -------
    Everything charged here, by calls chosen in any way from earlier outputs, is together
    (eps, delta)-DP under ``relation``. Charging precedes noise; refused calls cost nothing.
    """

    def __init__(
        self, eps: float, delta: float | None = None, *, relation: str = "replace",
        unit: str = "record", rule: str = "auto", accounting: str | None = None,
        cap_eps: float | None = None, cap_delta: float | None = None,
    ) -> None:  # fmt: skip
        if delta is None:
            raise RequestError(
                f"a budget has a delta next to its eps, well below one over the number of rows: "
                f"dp.Budget({shown(eps)}, 1e-6); delta=0 is pure differential privacy"
            )
        rule = rule_named(accounting, None if rule == "auto" else rule) or rule
        account = new_account(eps, delta, relation, unit, rule, cap_eps, cap_delta)
        self._store = MemoryStore(account)
        self.label = ""
        self._stopped: list[tuple[Charge, int, str, Guarantee]] = []

    @classmethod
    def _of(cls, store: MemoryStore | FileStore, label: str) -> Budget:
        """Return the budget of an open store."""
        budget = cls.__new__(cls)
        budget._store, budget.label = store, label
        budget._stopped = []
        return budget

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], eps: float | None = None, delta: float | None = None,
        label: str | None = None, *, relation: str | None = None, unit: str | None = None,
        rule: str | None = None, accounting: str | None = None, cap_eps: float | None = None,
        cap_delta: float | None = None, create: bool | None = None,
    ) -> Budget:  # fmt: skip
        """Create or reopen a ledger file.

        Parameters
        ----------
        path : path
            One SQLite file; several processes may charge it at once.
        eps, delta : float
            Needed to create; on reopening they may be left out, and must agree if given.
        label : str
            Names the data set (default: the file's name without its ending). A file has one.
        relation, unit, rule, accounting, cap_eps, cap_delta
            As for ``Budget``.
        create : bool, optional
            True: there must be no ledger yet. False: there must be one. None: either.

        Privacy
        -------
        The data set is named by the label, never by a hash of its rows.

        An open budget knows its file: the path is resolved once, and a file under it that is
        another ledger, or an older copy with charges missing, is refused. A file beside the ledger
        (its name and "-charges") lists what was committed, so a restored backup, a stale journal
        and an emptied or deleted ledger are refused by whoever opens it next. Where both files
        were restored, or two copies of one ledger were charged, nobody can know: the answers that
        the file does not list were given all the same, and the promise is the file's (eps, delta)
        and theirs together. Charge the lost calls again (``budget.charge``), or count them as a
        separate budget. A file with two names (a hard link, a mount of the file itself) is refused:
        mount the folder.
        """
        unit = None if unit is None else checked_unit(unit)
        typed = {
            "eps": eps, "delta": delta, "label": label, "relation": relation, "unit": unit,
            "rule": rule_named(accounting, rule), "cap_eps": cap_eps, "cap_delta": cap_delta,
        }  # fmt: skip
        if create not in (None, True, False):
            raise RequestError("create= must be True, False or None")
        store = FileStore.open(path, {k: v for k, v in typed.items() if v is not None}, create)
        return cls._of(store, store.label)

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> Budget:
        """Open an existing ledger file for reports; charging it raises ``BudgetError``."""
        store = FileStore.open_readonly(path)
        return cls._of(store, store.label)

    # -- charging --------------------------------------------------------------------------

    def check(self, guarantee: Guarantee) -> None:
        """Raise ``BudgetExceededError`` if the call would not fit. Charges nothing."""
        self._store.account().admit(guarantee)

    def charge(self, call: str, guarantee: Guarantee) -> Charge:
        """Charge a call, committed before this returns. Call it before noise is drawn.

        Parameters
        ----------
        call : str
            The call as printed in the ledger; public.
        guarantee : Guarantee
            Of the plan: steps that a no-reply will skip are charged too.

        Raises
        ------
        BudgetExceededError
            Nothing was charged.

        Notes
        -----
        **Privacy.** A call that :meth:`stopped` before it released anything is charged already: the
        same call, of the same guarantee, takes that charge up, once: in the process that charged
        it, and if the ledger still has the charge.
        """
        with _LOCK:
            mine = (os.getpid(), str(call), guarantee)
            for i, (charge, *whose) in enumerate(self._stopped):
                if mine == tuple(whose):
                    self._store.confirm(charge)
                    return self._stopped.pop(i)[0]
        return self._store.append(str(call), [guarantee])[0]

    def stopped(self, charge: Charge, guarantee: Guarantee) -> None:
        """Record a call that stopped after its charge and before any release.

        Known to this object only, in this process: whoever opens the ledger file anew charges
        again, and so does a forked process, whose copy of what is known here is no charge.
        """
        with _LOCK:
            self._stopped.append((charge, os.getpid(), charge.call, guarantee))

    def _give_back(self, charge: Charge, run: Run) -> Charge | None:
        """Close the run of a charge and record the part not drawn.

        Return None if nothing goes back.

        For :func:`dpmodels.door.released` alone: there is no refund. A run closes once, and a
        charge gives back once.
        """
        if not isinstance(run, Run) or not run.is_of(charge.guarantee):
            raise PrivacyBugError("only the part that the run did not draw can be given back")
        return self._store.give_back(charge, run.close())

    def charge_together(self, calls: Iterable[tuple[str, Guarantee]]) -> tuple[Charge, ...]:
        """Charge a list of calls declared together, before the first of them runs; all or none.

        Parameters
        ----------
        calls : iterable of (str, Guarantee)
        """
        listed = list(calls)
        if not listed:
            raise RequestError("charge_together() needs at least one call")
        return tuple(self._store.append([name for name, _ in listed], [g for _, g in listed]))

    def note(self, charge: Charge | int, step: str, text: str) -> None:
        """Record the outcome of a step ("reply", "NO REPLY"): a charged output."""
        number = charge.number if isinstance(charge, Charge) else int(charge)
        self._store.note(number, str(step), str(text))

    def __reduce__(self) -> Any:
        raise BudgetError(
            "a Budget cannot be pickled or copied: the copy would spend the same budget again. "
            "Share a ledger file instead: Budget.open(path)"
        )

    # -- context ---------------------------------------------------------------------------

    _scope, _opened = _BLOCKS, property(lambda self: self)
    if TYPE_CHECKING:

        def __enter__(self) -> Budget: ...

        def __exit__(self, *_: object) -> None: ...
    else:
        __enter__, __exit__ = Enter(), Exit()


#: Choices among candidates that run here: each takes the charges of all calls within it.
_CHOICES = Scope("dpmodels_choices")


def already_charged(paid: Any) -> Within:
    """Return a block in which ``paid`` takes the charges of calls: they are part of one charged."""
    return Within(_CHOICES, paid)


def enclosing_choices() -> list[Any]:
    """Return the choices that take the charges of calls here, the innermost last."""
    return _CHOICES.here()


def charge_call(budget: Any, call: str, guarantee: Guarantee) -> tuple[Any, Any] | None:
    """Charge a call, and return (who took the charge, the charge); None where nobody counts.

    A call of a candidate is charged to the choice, whatever budget it names: a line of a ledger for
    each would tell the number of runs, which has to stay secret (``models/custom.md``, 7.1). A
    thread that a candidate starts is in no block, so while a choice is open calls of all other
    threads are reported to it, and one with a budget is refused.
    """
    if here := _CHOICES.here():
        return here[-1], here[-1].charge(call, guarantee)
    elsewhere = _CHOICES.anywhere()
    for paid in elsewhere:
        paid.charge(call, guarantee)
    budget = current_budget() if budget is None else budget
    if budget is None:
        return None
    if elsewhere:
        raise BudgetError(
            "dp_select is running in another thread, and a ledger must not count its runs: make "
            "this call before it or after it. Nothing was read or charged"
        )
    return budget, budget.charge(call, guarantee)


def current_budget() -> Budget | None:
    """Return the budget of the enclosing ``with budget:`` block, which calls draw from.

    A block does not reach threads that are started inside it. A call there would be charged to
    nobody, so it is refused.

    Raises
    ------
    BudgetError
        This thread is in no block, another one is.
    """
    blocks = _BLOCKS.here()
    innermost: Budget | None = blocks[-1] if blocks else None
    if innermost is None and any(isinstance(other, Budget) for other in _BLOCKS.anywhere()):
        raise BudgetError(
            "a `with budget:` block is open in another thread, and does not reach this one: the "
            "call would be charged to nobody. Give it budget=... Nothing was read or charged"
        )
    return innermost
