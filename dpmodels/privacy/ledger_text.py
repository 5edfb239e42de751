"""Ledgers as tables and frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpmodels.privacy.guarantee import neighbours_of
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Mechanism, Profile, Pure, Step
from dpmodels.tables import RULE, Column, Layout, Row, Table

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.privacy.ledger import Budget, Ledger
    from dpmodels.privacy.store import Charge

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
    """Return one row a charged step."""
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
                    "note": charge.notes.get(step.name, ""),
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


def _lines(charges: Sequence[Charge]) -> tuple[tuple[Column, ...], list[Row]]:
    """Return columns, and the rows of each call below a line with its own promise."""
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
            cells = [str(number), step.name, kind_of(step), _share(step.share)]
            cells.append("" if mu is None else f"{mu:.4f}")
            if with_eps:
                cells.append("" if eps is None else f"{eps:.4g}")
            cells.append(f"{step.failure + delta:.3g}")
            rows.append(Row((*cells, charge.notes.get(step.name, ""))))
    return columns, [*rows, RULE]


def of_call(ledger: Ledger) -> Table:
    """Lay out the ledger of one call."""
    from dpmodels.privacy.store import Charge

    g = ledger.guarantee
    columns, rows = _lines([Charge(1, "", ledger.call, g, notes=ledger.notes)])
    title = f"Privacy ledger   {_pair(g.eps, g.delta)}   neighbours: {g.neighbours}"
    notes = [g.statement()] if (g.seeded or g.notes) else []
    if ledger.public:
        notes.append(f"Public inputs, not charged: {ledger.public}.")
    if g.delta > 0:
        rows.append(_total("charged, composed", _pair4(g.eps_at(g.delta), g.delta)))
    return _table(title, columns, rows, notes)


def of_budget(budget: Budget) -> Table:
    """Lay out the ledger of a budget."""
    account, charges = budget.account, budget.charges
    columns, rows = _lines(charges)
    name = f" of {budget.label}" if budget.label else ""
    title = (
        f"Privacy ledger{name}   budget {_pair(account.eps, account.delta)}   "
        f"neighbours: {neighbours_of(account.relation, account.unit)}"
    )
    if charges:
        what = f"the {len(charges)} calls" if len(charges) > 1 else "the call"
        sums = account.pairs
        rows.append(_total(f"spent, basic composition of {what}", _pair4(*sums)))
        together = budget.joint()
        assert together is not None
        if sums[1] > 0:
            text = "spent, composed as Gaussian DP"
            if any(not isinstance(s.mechanism, Gaussian) for s in together.steps):
                text = "spent, tightest proved composition"
            rows.append(_total(text, _pair4(budget.eps_spent(sums[1]), sums[1])))
    left = account.remaining()
    by = {
        "auto": "nothing charged yet",
        "caps": "charged by: caps",
        "mixed": "charged by: mixed caps",
        "basic": "charged by: sums",
    }
    mu = f"mu = {left.mu:.4f}: " if account.rule in ("caps", "mixed") else ""
    said = f"left of the budget ({by[account.rule]})"
    rows.append(_total(said, mu + _pair4(left.eps, left.delta)))
    notes = []
    if charges:
        notes.append(
            "The promise for calls chosen after seeing outputs is the budget's. The composed "
            "total is exact\nfor calls declared together."
        )
    if any(c.guarantee.seeded for c in charges):
        notes.append("* NOT PRIVATE: the noise of this call was seeded.")
    return _table(title, columns, rows, notes)


def _total(label: str, value: str) -> Row:
    return Row((label, value), span=True)


def _table(title: str, columns: tuple[Column, ...], rows: list[Row], notes: list[str]) -> Table:
    return Table(title, (), columns, tuple(rows), tuple(notes), layout=_LAYOUT)
