"""Printing of ledgers: one table model, a text and an HTML renderer, a frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpmodels.privacy.guarantee import RELATIONS
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Mechanism, Profile, Pure
from dpmodels.privacy.steps import Step

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.privacy.ledger import Budget, Charge, Ledger

__all__ = ["Table", "as_html", "as_text", "frame", "kind_of", "of_budget", "of_call"]

_WIDTH = 88


@dataclass(frozen=True)
class Table:
    """A ledger ready to print; no renderer computes numbers.

    Attributes
    ----------
    title : str
    columns : tuple of str
    rows : tuple
        Either ``("call", text, pair)`` or ``("step", cells)``.
    totals : tuple of (str, str)
    notes : tuple of str
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    totals: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


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


def _currency(m: Mechanism) -> tuple[float | None, float | None, float]:
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
            mu, eps, delta = _currency(step.mechanism)
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


def _lines(charges: Sequence[Charge]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    steps = [s for c in charges for s in c.guarantee.steps]
    with_eps = any(not isinstance(s.mechanism, Gaussian) for s in steps)
    columns = ("#", "what", "mechanism", "share", "mu", *(("eps",) if with_eps else ()))
    columns = (*columns, "delta+", "note")
    rows: list[tuple[str, ...]] = []
    number = 0
    for charge in charges:
        g = charge.guarantee
        rows.append(("call", charge.call, _pair(g.eps, g.delta) + ("" if not g.seeded else " *")))
        for step in g.steps:
            number += 1
            mu, eps, delta = _currency(step.mechanism)
            cells = [str(number), step.name, kind_of(step), _share(step.share)]
            cells.append("" if mu is None else f"{mu:.4f}")
            if with_eps:
                cells.append("" if eps is None else f"{eps:.4g}")
            cells.append(f"{step.failure + delta:.3g}")
            rows.append(("step", *cells, charge.notes.get(step.name, "")))
    return columns, tuple(rows)


def of_call(ledger: Ledger) -> Table:
    """Lay out the ledger of one call."""
    from dpmodels.privacy.ledger import Charge

    g = ledger.guarantee
    columns, rows = _lines([Charge(1, "", ledger.call, g, notes=ledger.notes)])
    title = f"Privacy ledger   {_pair(g.eps, g.delta)}   neighbours: {RELATIONS[g.relation]}"
    notes = [g.statement()] if (g.seeded or g.notes) else []
    if ledger.public:
        notes.append(f"Public inputs, not charged: {ledger.public}.")
    total = ("charged, composed", _pair4(g.eps_at(g.delta), g.delta)) if g.delta > 0 else None
    return Table(title, columns, rows, (total,) if total else (), tuple(notes))


def of_budget(budget: Budget) -> Table:
    """Lay out the ledger of a budget."""
    account, charges = budget.account, budget.charges
    columns, rows = _lines(charges)
    name = f" of {budget.label}" if budget.label else ""
    title = (
        f"Privacy ledger{name}   budget {_pair(account.eps, account.delta)}   "
        f"neighbours: {RELATIONS[account.relation]}"
    )
    totals = []
    if charges:
        what = f"the {len(charges)} calls" if len(charges) > 1 else "the call"
        sums = account.pairs
        totals.append((f"spent, basic composition of {what}", _pair4(*sums)))
        together = budget.joint()
        assert together is not None
        if sums[1] > 0:
            text = "spent, composed as Gaussian DP"
            if any(not isinstance(s.mechanism, Gaussian) for s in together.steps):
                text = "spent, tightest proved composition"
            totals.append((text, _pair4(budget.eps_spent(sums[1]), sums[1])))
    left = account.remaining()
    by = {
        "auto": "nothing charged yet",
        "caps": "charged by: caps",
        "mixed": "charged by: mixed caps",
        "basic": "charged by: sums",
    }
    mu = f"mu = {left.mu:.4f}: " if account.rule in ("caps", "mixed") else ""
    totals.append((f"left of the budget ({by[account.rule]})", mu + _pair4(left.eps, left.delta)))
    notes = []
    if charges:
        notes.append(
            "The promise for calls chosen after seeing outputs is the budget's. The composed "
            "total is exact\nfor calls declared together."
        )
    if any(c.guarantee.seeded for c in charges):
        notes.append("* NOT PRIVATE: the noise of this call was seeded.")
    return Table(title, columns, rows, tuple(totals), tuple(notes))


def as_text(table: Table) -> str:
    """Render as plain text, 88 columns when the steps allow it."""
    steps = [r[1:] for r in table.rows if r[0] == "step"]
    width = {c: len(c) for c in table.columns}
    for cells in steps:
        for c, cell in zip(table.columns, cells, strict=True):
            width[c] = max(width[c], len(cell))
    width["#"] = max(2, width["#"])
    width["what"] += 2
    left = {"what", "mechanism", "note"}
    fixed = sum(width.values()) + 2 * (len(width) - 1)
    width["what"] += max(0, min(30 - width["what"], _WIDTH - fixed))

    def line(cells: Sequence[str], indent: str) -> str:
        parts = []
        for c, cell in zip(table.columns, cells, strict=True):
            text = indent + cell if c == "what" else cell
            parts.append(text.ljust(width[c]) if c in left else text.rjust(width[c]))
        return "  ".join(parts).rstrip()

    total = max(_WIDTH, sum(width.values()) + 2 * (len(width) - 1))
    rule = "-" * total
    out = [table.title, rule, line(table.columns, ""), rule]
    for row in table.rows:
        if row[0] == "call":
            out.append(f"    {row[1]:<50} {row[2]}".rstrip())
        else:
            out.append(line(row[1:], "  "))
    out.append(rule)
    out += [f"    {what:<50} {value}" for what, value in table.totals]
    if table.notes:
        out += [rule, *table.notes]
    return "\n".join(out)


def as_html(table: Table) -> str:
    """Render as one HTML table; every string escaped, no scripts."""
    from html import escape

    n = len(table.columns)
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    body = []
    for row in table.rows:
        if row[0] == "call":
            body.append(
                f'<tr><td></td><td colspan="{n - 3}"><code>{escape(row[1])}</code></td>'
                f'<td colspan="2">{escape(row[2])}</td></tr>'
            )
        else:
            body.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row[1:]) + "</tr>")
    for what, value in table.totals:
        body.append(
            f'<tr><td></td><td colspan="{n - 4}">{escape(what)}</td>'
            f'<td colspan="3">{escape(value)}</td></tr>'
        )
    foot = "".join(f'<tr><td colspan="{n}">{escape(text)}</td></tr>' for text in table.notes)
    return (
        f'<table class="dpmodels"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
        f"<tfoot>{foot}</tfoot></table>"
    )
