"""Budgets, which charge before noise is drawn, and ledgers of charges by mechanism.

A :class:`Budget` lives in memory, or in one SQLite file shared by processes
(:meth:`Budget.open`). The order is always: check (nothing read), charge (committed), read rows,
draw noise. Killed at any moment, a ledger never under-counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels._version import __version__
from dpmodels.attacker import ExplainedBudget
from dpmodels.errors import BudgetError, PrivacyBugError, RequestError, choice, shown
from dpmodels.privacy.account import Account, Remaining, joint
from dpmodels.privacy.composition import Guarantee, neighbours_of
from dpmodels.privacy.ledger_file import (
    Charge,
    FileStore,
    MemoryStore,
    checked_number,
    checked_unit,
    new_account,
)
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Mechanism, Profile, Pure, Step
from dpmodels.privacy.returns import currency_of, part_returned
from dpmodels.privacy.run import Run
from dpmodels.quiet import Enter, Exit, Scope, Within, lock
from dpmodels.tables.content import RULE, Column, Layout, Row
from dpmodels.tables.table import FORMATS, Shown, Table

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Budget", "Charge", "Ledger", "current_budget"]


@dataclass(frozen=True)
class Ledger(Shown):
    """Steps of one call, with the charge of each.

    Privacy
    -------
    A function of the plan and of charged outputs.
    """

    call: str  # The call as printed, ``dp_ols("y ~ x", method="eptr")``. Public.
    guarantee: Guarantee
    # Step name -> outcome ("reply", "NO REPLY"): a charged output.
    notes: Mapping[str, str] = field(default_factory=dict)
    public: str = ""  # Public inputs that were not charged

    def to_frame(self) -> pd.DataFrame:
        """Return the steps as a frame, one row per charged step."""
        return frame([Charge(1, "", self.call, self.guarantee, notes=self.notes)])

    def table(self) -> Table:
        """Return the steps and the composed charge."""
        return of_call(self)


#: Budgets whose blocks enclose what runs here. One may be the block of several threads at once.
_BLOCKS = Scope("dpmodels_budgets")
_LOCK = lock()


class Budget(ExplainedBudget, Shown):
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

    _neighbours = staticmethod(neighbours_of)

    def __init__(
        self,
        eps: float,
        delta: float | None = None,
        *,
        relation: str = "replace",
        unit: str = "record",
        rule: str = "auto",
        accounting: str | None = None,
        cap_eps: float | None = None,
        cap_delta: float | None = None,
    ) -> None:
        if delta is None:
            raise RequestError(
                f"a budget has a delta next to its eps, well below one over the number of rows: "
                f"dp.Budget({shown(eps)}, 1e-6); delta=0 is pure differential privacy"
            )
        rule = _rule(accounting, None if rule == "auto" else rule) or rule
        account = new_account(eps, delta, relation, unit, rule, cap_eps, cap_delta)
        self._store: MemoryStore | FileStore = MemoryStore(account)
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
        cls,
        path: str | os.PathLike[str],
        eps: float | None = None,
        delta: float | None = None,
        label: str | None = None,
        *,
        relation: str | None = None,
        unit: str | None = None,
        rule: str | None = None,
        accounting: str | None = None,
        cap_eps: float | None = None,
        cap_delta: float | None = None,
        create: bool | None = None,
    ) -> Budget:
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
        typed = {
            "eps": eps,
            "delta": delta,
            "label": label,
            "relation": relation,
            "unit": None if unit is None else checked_unit(unit),
            "rule": _rule(accounting, rule),
            "cap_eps": cap_eps,
            "cap_delta": cap_delta,
        }
        if create not in (None, True, False):
            raise RequestError("create= must be True, False or None")
        store = FileStore.open(path, {k: v for k, v in typed.items() if v is not None}, create)
        return cls._of(store, store.label)

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str]) -> Budget:
        """Open an existing ledger file for reports; charging it raises ``BudgetError``."""
        store = FileStore.open_readonly(path)
        return cls._of(store, store.label)

    # -- the whole -------------------------------------------------------------------------

    @property
    def eps(self) -> float:
        """Eps of the whole budget."""
        return self._store.account().eps

    @property
    def delta(self) -> float:
        """Delta of the whole budget."""
        return self._store.account().delta

    @property
    def relation(self) -> str:
        """Neighbours the budget counts by."""
        return self._store.account().relation

    @property
    def unit(self) -> str:
        """Unit of privacy the budget protects."""
        return self._store.account().unit

    @property
    def account(self) -> Account:
        """The state of the stopping rule."""
        return self._store.account()

    @property
    def token(self) -> str:
        """Random identity of the ledger file; empty of a budget in memory."""
        return str(getattr(self._store, "identity", ""))

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The calls charged so far."""
        return self._store.charges()

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

    # -- reading ---------------------------------------------------------------------------

    def joint(self) -> Guarantee | None:
        """Return the joint guarantee of the calls so far; None before the first.

        Exact for calls declared together. For calls chosen after seeing outputs the promise is
        the budget's own (eps, delta), and this is the composition of what happened to run.
        """
        charges = self.charges
        account = self._store.account()
        if not charges:
            return None
        return joint([c.ran for c in charges], relation=account.relation, unit=account.unit)

    def eps_spent(self, delta: float | None = None) -> float:
        """Return the eps of all calls so far at ``delta`` (default: the budget's own).

        The tightest proved composition of the mechanisms that ran, and never above the sums of
        the calls' pairs where those fit ``delta``. See :meth:`joint` for what it promises.
        """
        account = self._store.account()
        delta = account.delta if delta is None else checked_number("delta", delta, positive=False)
        together = self.joint()
        if together is None:
            return 0.0
        eps = together.eps_at(delta)
        if account.pairs[1] <= delta * (1 + 1e-12):
            eps = min(eps, account.pairs[0])
        return eps

    def remaining(self) -> Remaining:
        """Return the remainder: ``eps, delta = budget.remaining()``, and ``.mu``."""
        return self._store.account().remaining()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per charged step; column ``call`` numbers the calls."""
        return frame(self.charges)

    def table(self) -> Table:
        """Return the calls with their steps and charges, the sum, and the remainder."""
        return of_budget(self)

    def report(self, format: str = "text", *, full: bool = False) -> Any:
        """Return the ledger: ``"text"`` (default), any format of a summary, or ``"frame"``.

        ``full=True`` adds the sums of the pairs and the composition of what ran to the account of
        the rule.
        """
        if format == "frame":
            return self.to_frame()
        choice("format", format, [*FORMATS, "frame"])
        return of_budget(self, full=True).render(format) if full else self.render(format)

    def statement(self) -> str:
        """Return a paragraph for a methods section: the charges and the guarantee."""
        account, calls = self._store.account(), len(self.charges)
        if any(c.guarantee.seeded for c in self.charges):
            return "NOT PRIVATE: the noise of a call on this budget was seeded."
        many = "one release was" if calls == 1 else f"{calls} releases were"
        return (
            f"Differential privacy: {many} charged to one budget of eps = {account.eps:g} and "
            f"delta = {account.delta:g}, which bounds all of them together, however they were "
            f"chosen after earlier results. Neighbours: "
            f"{neighbours_of(account.relation, account.unit)}. {_ACCOUNTING[account.rule][1]} "
            f"Charged so far: {account.spent_text()}. Software: dpmodels {__version__}."
        )

    def __repr__(self) -> str:
        account = self._store.account()
        name = f"{self.label!r}, " if self.label else ""
        return (
            f"<Budget {name}(eps = {account.eps:g}, delta = {account.delta:g}) | "
            f"{account.calls} calls charged | accounting: {_ACCOUNTING[account.rule][0]}>"
        )

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


# -- Ledgers as tables and frames.


#: Stopping rule -> its name, its sentence in a statement, and its sentence under a ledger.
_ACCOUNTING = {
    "caps": (
        "caps",
        "Gaussian parts are summed in mu^2 under a fixed cap, others in eps.",
        "Rule: mu^2 of Gaussian parts and eps of others are summed, each under a cap.\n"
        "The deltas of calls are not summed: the caps bound all calls together.",
    ),
    "mixed": (
        "Gaussian",
        "Accounting: Gaussian (mu^2 of Gaussian noise is summed, other parts in eps).",
        "Rule: mu^2 of Gaussian noise is summed, other parts in eps. The deltas of calls\n"
        "are not summed: the limit of mu^2 bounds all calls by the eps and delta of the budget.",
    ),
    "basic": (
        "sums",
        "Accounting: eps and delta of the calls are summed (basic composition).",
        "Rule: eps and delta of the calls are summed (basic composition).",
    ),
}


def _rule(accounting: str | None, rule: str | None) -> str | None:
    """Return the rule that ``accounting=`` or ``rule=`` names."""
    if accounting is None:
        return rule
    words = {"gaussian": "mixed", "sums": "basic", "pure": "basic"}
    choice("accounting", accounting, sorted(words))
    if rule not in (None, words[accounting]):
        raise RequestError(f"accounting={accounting!r} is rule={words[accounting]!r}: give one")
    return words[accounting]


_LAYOUT = Layout(outer="-", closed=False, grows=True, span="    {:<50} {}", mark="")


def kind_of(step: Step) -> str:
    """Return the mechanism of a step as printed."""
    if step.label:
        return step.label
    m = step.mechanism
    name = {
        "gaussian": "Gaussian",
        "pure": "pure",
        "approximate": "(eps, delta)",
    }.get(m.kind, str(getattr(m, "name", m.kind)))
    return name + (", reply test" if step.reply_test else "")


#: Steps whose name in files is not a statistician's word.
_SHOWN = {"places of values": "centres of values", "score lengths": "sizes of scores"}


def shown_step(name: str) -> str:
    """Return the name of a step as it is printed; ``to_frame()`` has the one of files."""
    for stored, printed in _SHOWN.items():
        if name.startswith(stored):
            return printed + name[len(stored) :]
    return name


def _price(m: Mechanism) -> tuple[float | None, float | None, float]:
    """Return (mu, eps, delta) of a mechanism; None where it has no such number."""
    if isinstance(m, Gaussian):
        return m.mu, None, 0.0
    if isinstance(m, Pure):
        return None, m.eps, 0.0
    if isinstance(m, Approximate):
        return None, m.eps, m.delta
    assert isinstance(m, (Profile, RDP))
    return None, None, 0.0


def frame(charges: Iterable[Charge]) -> pd.DataFrame:
    """Return one row per charged step."""
    import pandas as pd

    columns = ["call", "label", "what", "mechanism", "share", "mu", "eps", "delta+", "note"]
    columns += ["relation", "unit", "call_eps", "call_delta", "when"]
    rows: list[dict[str, object]] = []
    for charge in charges:
        g = charge.guarantee
        for step in g.steps:
            mu, eps, delta = _price(step.mechanism)
            rows.append(
                {
                    "call": charge.number,
                    "label": charge.call,
                    "what": step.name,
                    "mechanism": kind_of(step),
                    "share": step.share,
                    "mu": mu,
                    "eps": eps,
                    "delta+": step.failure + delta,
                    "note": note_of(charge, step),
                    "relation": g.relation,
                    "unit": g.unit,
                    "call_eps": g.eps,
                    "call_delta": g.delta,
                    "when": charge.when,
                }
            )
    out: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    for name in ("share", "mu", "eps", "delta+"):
        out[name] = out[name].astype(float)
    return out


def _share(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}".removeprefix("0") if value < 0.995 else "1.00"


def _pair(eps: float, delta: float) -> str:
    return f"(eps = {eps:g}, delta = {delta:g})"


def _pair4(eps: float, delta: float) -> str:
    return f"(eps = {eps:.3f}, delta = {delta:.4g})"


def _lines(
    charges: Sequence[Charge], account: Account | None = None
) -> tuple[tuple[Column, ...], list[Row]]:
    """Return columns, and the rows of each call below a line with its guarantee and its charge."""
    steps = [s for c in charges for s in c.guarantee.steps]
    with_eps = any(not isinstance(s.mechanism, Gaussian) for s in steps)
    columns = (
        Column("#", width=2),
        Column("what", left=True, width=6, stretch=30, indent=2),
        Column("mechanism", left=True),
        *map(Column, ("share", "mu", *(("eps",) if with_eps else ()), "delta+")),
        Column("note", left=True),
    )
    rows: list[Row] = []
    number = 0
    for charge in charges:
        g = charge.guarantee
        rows.append(Row((charge.call, _pair(g.eps, g.delta) + " *" * g.seeded), span=True))
        for step in g.steps:
            number += 1
            mu, eps, delta = _price(step.mechanism)
            cells = [str(number), shown_step(step.name), kind_of(step), _share(step.share)]
            cells.append("" if mu is None else f"{mu:.4f}")
            if with_eps:
                cells.append("" if eps is None else f"{eps:.4g}")
            cells.append(f"{step.failure + delta:.3g}")
            rows.append(Row((*cells, note_of(charge, step))))
        if charge.kept is not None:
            rows.append(Row(("returned", returned_text(charge)), span=True))
        entry = charge.kept or charge.entry
        if account is not None and entry is not None:
            rows.append(_total("charged", account.charge_text(entry)))
    return columns, [*rows, RULE]


def note_of(charge: Charge, step: Step) -> str:
    """Return the outcome of a step, or that it was given back."""
    part = 1.0 if charge.drawn is None else charge.drawn.part(step)
    if part >= 1.0:
        return charge.notes.get(step.name, "")
    return "returned" if part == 0.0 else f"{1.0 - part:.0%} returned"


def returned_text(charge: Charge) -> str:
    """Return how much of a charge went back, as printed."""
    assert charge.entry is not None and charge.kept is not None
    share = part_returned(charge.entry, charge.kept)
    digits = 1 if share < 0.9995 else 2  # one more near the whole
    return f"{100.0 * share:.{digits}f} % of {currency_of(charge.entry)}"


def of_call(ledger: Ledger) -> Table:
    """Lay out the ledger of one call."""
    g = ledger.guarantee
    columns, rows = _lines([Charge(1, "", ledger.call, g, notes=ledger.notes)])
    title = f"Privacy ledger   {_pair(g.eps, g.delta)}   neighbours: {g.neighbours}"
    notes = [g.statement()] if (g.seeded or g.notes) else []
    if ledger.public:
        notes.append(f"Public inputs, not charged: {ledger.public}.")
    if g.delta > 0:
        rows.append(_total("charged, composed", _pair4(g.eps_at(g.delta), g.delta)))
    return _table(title, columns, rows, notes)


def of_budget(budget: Budget, *, full: bool = False) -> Table:
    """Return the ledger of a budget: the charge of each call, their sum and the remainder.

    All three are in the units of the budget's rule. ``full`` adds the sums of the pairs and the
    composition of what ran.
    """
    account, charges = budget.account, budget.charges
    columns, rows = _lines(charges, account)
    name = f" of {budget.label}" if budget.label else ""
    title = (
        f"Privacy ledger{name}   budget {_pair(account.eps, account.delta)}   "
        f"neighbours: {neighbours_of(account.relation, account.unit)}"
    )
    left = account.remaining()
    if charges:
        what = f"sum of the {len(charges)} calls" if len(charges) > 1 else "sum of the call"
        rows.append(_total(what, account.spent_text()))
    amount, call = left_texts(account)
    rows.append(_total(f"left (accounting: {_ACCOUNTING[account.rule][0]})", amount))
    if call:
        rows.append(_total("this is enough for a Gaussian call of", call))
    if charges and full:
        rows += _sums_and_composition(budget)
    notes = [_ACCOUNTING[account.rule][2]] if charges else []
    if charges and full:
        notes.append(
            "Composed totals are exact if all analyses were fixed beforehand.\nIf they were chosen "
            "after seeing results, only the budget holds."
        )
    if any(c.kept is not None for c in charges):
        notes.append(
            "Returns follow results: composed totals describe, the guarantee is the budget's."
        )
    if any(c.guarantee.seeded for c in charges):
        notes.append("* NOT PRIVATE: the noise of this call was seeded.")
    if left.mu > 0.0 and charges and not full:
        notes.append("More: budget.report(full=True).")
    return _table(title, columns, rows, notes)


def _sums_and_composition(budget: Budget) -> list[Row]:
    """Return the sums of the pairs of all calls, and the composition of the mechanisms that ran."""
    sums = budget.account.pairs
    together = budget.joint()
    assert together is not None
    rows = [_total("sums of the pairs (basic composition)", _pair4(*sums))]
    if sums[1] > 0:
        gaussian = all(isinstance(step.mechanism, Gaussian) for step in together.steps)
        text = "composed as Gaussian DP" if gaussian else "tightest proved composition"
        rows.append(_total(text, _pair4(budget.eps_spent(sums[1]), sums[1])))
    return rows


def left_texts(account: Account) -> tuple[str, str]:
    """Return the remainder in the units of the rule, and the largest Gaussian call within it."""
    left = account.remaining()
    if account.rule == "basic" or account.calls == 0:
        return _pair4(left.eps, left.delta), ""
    parts = [f"mu^2 = {left.mu**2:.4g}"] if left.mu > 0 else []
    parts += [f"eps = {left.pure:.4g}"] if left.pure > 0 else []
    return " or ".join(parts) or "nothing", _pair4(left.eps, left.delta) if left.mu > 0 else ""


def _total(label: str, value: str) -> Row:
    return Row((label, value), span=True)


def _table(title: str, columns: tuple[Column, ...], rows: list[Row], notes: list[str]) -> Table:
    return Table(title, (), columns, tuple(rows), tuple(notes), layout=_LAYOUT)
