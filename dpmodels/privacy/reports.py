"""Ledgers and budgets as tables, frames and sentences: what is read of them decides no charge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpmodels._version import __version__
from dpmodels.attacker import ExplainedBudget
from dpmodels.errors import choice
from dpmodels.lazy import pd
from dpmodels.privacy.account import Account, joint
from dpmodels.privacy.asked import checked_number
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.ledger_file import Charge as Charge
from dpmodels.privacy.ledger_file import FileStore, MemoryStore
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Mechanism, Profile, Pure, Step
from dpmodels.privacy.remainder import Remaining
from dpmodels.privacy.returns import currency_of, part_returned
from dpmodels.privacy.statements import neighbours_of
from dpmodels.tables.content import RULE, Column, Layout, Row
from dpmodels.tables.table import FORMATS, Shown, Table


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


class ReportedBudget(ExplainedBudget, Shown):
    """Budget as it is read: what it holds, its ledger, and a paragraph for a paper."""

    _store: MemoryStore | FileStore
    label: str
    _neighbours = staticmethod(neighbours_of)

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

    def remaining(self) -> Remaining:
        """Return the remainder: ``eps, delta = budget.remaining()``, and ``.mu``."""
        return self.account.remaining()

    def joint(self) -> Guarantee | None:
        """Return the joint guarantee of the calls so far; None before the first.

        Exact for calls declared together. For calls chosen after seeing outputs the promise is
        the budget's own (eps, delta), and this is the composition of what happened to run.
        """
        ran, account = [charge.ran for charge in self.charges], self.account
        return joint(ran, relation=account.relation, unit=account.unit) if ran else None

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
        account, calls = self.account, len(self.charges)
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
        account = self.account
        name = f"{self.label!r}, " if self.label else ""
        return (
            f"<Budget {name}(eps = {account.eps:g}, delta = {account.delta:g}) | "
            f"{account.calls} calls charged | accounting: {_ACCOUNTING[account.rule][0]}>"
        )


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


def of_budget(budget: Any, *, full: bool = False) -> Table:
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


def _sums_and_composition(budget: Any) -> list[Row]:
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
